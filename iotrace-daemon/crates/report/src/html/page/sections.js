// Sections that are made once from the report and stay: all but those over time, of directories and of files.
// Keys are those of docs/reference/report-json.md; a section whose key the report has not got is left out.
"use strict";

const sections = (() => {
  const { el, table, bar, section } = dom;
  const { count, bytes, duration, rate, share, visible, words, byKey } = format;
  const inside = (sum) => (sum.read_seconds ?? 0) + (sum.write_seconds ?? 0) + (sum.meta_seconds ?? 0)
    + (sum.sync_seconds ?? 0) + (sum.failed_seconds ?? 0);
  const color = (phase) => `var(--phase-${phase})`;
  const named = (phase) => el("span", { class: "phase", color: color(phase) }, words(phase));

  function target(report) {
    if (report.command) return report.command.map(visible).join(" ");
    if (report.pids) return `process ${report.pids.join(", ")}`;
    return "every process";
  }

  const parts = { training: "training reads", checkpoint: "checkpoints", restore: "model loads", startup: "startup", other: "other files" };

  /** The verdict, and what the time of the run went into; hatched is what may or may not be. */
  function verdict({ report, cpu }) {
    const { verdict, duration_seconds: whole } = report;
    const good = { "not-io-bound": "good", unclear: "plain", "not-one-job": "plain", "part-of-files": "plain" };
    const line = el("p", { class: `verdict ${good[verdict.code] ?? "bad"}`, "data-code": verdict.code }, visible(verdict.text.replace(/:$/, ".")));
    if (!(whole > 0) || verdict.code === "not-one-job") return [line];
    const rows = Object.entries(parts).map(([phase, title]) => {
      const sum = report.phases[phase] ?? {};
      const most = sum.merged_seconds ?? 0;
      return { title, color: color(phase), least: sum.merged_seconds_at_least ?? 0, most, drawn: most };
    }).filter((row) => row.most > 0);
    const elsewhere = verdict.file_io_seconds_at_most - rows.reduce((sum, row) => sum + row.most, 0);
    if (elsewhere > 0) rows.push({ title: "look-ups and page faults", color: "var(--phase-by_name)", least: 0, most: elsewhere, drawn: elsewhere });
    rows.push(...outside(whole - verdict.file_io_seconds_at_most, whole - verdict.file_io_seconds_at_least, verdict.file_io_seconds_at_most, cpu));
    const all = Math.max(whole, rows.reduce((sum, row) => sum + row.drawn, 0));
    const piece = (row, seconds, kind) => seconds > 0 && el("span",
      { class: kind, width: `${((100 * seconds) / all).toFixed(3)}%`, color: row.color, title: row.title });
    const percent = (seconds) => share(seconds, whole).replace(/ %$/, "");
    const text = ({ least, most }) => (percent(least) === percent(most) ? share(most, whole) : `${percent(least)} to ${share(most, whole)}`);
    return [line,
      el("div", { class: "strip", "data-chart": "run", "aria-hidden": "true" },
        rows.flatMap((row) => [piece(row, row.least, "part"), piece(row, row.drawn - row.least, "part maybe")])),
      el("ul", { class: "legend run" }, rows.map((row) => el("li", { class: "phase", color: row.color }, `${row.title} ${text(row)}`)))];
  }

  /** The rest of the run, which lasted for `least` to `most` seconds: on a CPU, and not. Some thread was in no call for so long at
    * least, and a part of that at most was in calls of others; all threads together were on CPUs for the whole CPU time at most. */
  function outside(least, most, inCalls, cpu) {
    const sure = Math.min(Math.max((cpu?.computing_seconds_at_least ?? 0) - inCalls, 0), least);
    const used = Math.min(cpu?.seconds ?? 0, least);
    const other = { title: "everything else", color: "var(--grid)", least: least - used, most: most - sure, drawn: least - used };
    return used > 0 ? [{ title: "CPU, in no call on a file", color: "var(--cpu)", least: sure, most: Math.min(cpu.seconds, most), drawn: used }, other] : [other];
  }

  function summary(data) {
    const { report, cpu } = data;
    const { totals } = report;
    const about = [visible(report.host), `started ${visible(report.start_time)}`, `kernel ${visible(report.kernel)}`];
    if (report.exit_code !== null && report.exit_code !== undefined) about.push(`exit code ${report.exit_code}`);
    const card = (key, value, title, note) =>
      el("div", { class: "card", "data-key": key }, el("dt", {}, title), el("dd", {}, value), note ? el("dd", { class: "note" }, note) : null);
    const files = totals.directories ? `and ${count(totals.directories)} directories` : null;
    return [
      el("h1", { id: "summary-title", class: "command" }, el("code", {}, target(report))),
      el("p", { class: "about" }, about.join(" · ")),
      ...verdict(data),
      report.selection ? el("p", { class: "warning", id: "selection" }, visible(report.selection.text)) : null,
      el("dl", { class: "cards" },
        card("duration", duration(report.duration_seconds), "Run"),
        card("bytes_read", bytes(totals.bytes_read), "Read", `${count(totals.reads)} reads`),
        card("bytes_written", bytes(totals.bytes_written), "Written", `${count(totals.writes)} writes`),
        card("time", duration(inside(totals)), "Inside I/O calls", "summed over all threads"),
        cpu ? card("cpu", duration(cpu.seconds), "CPU time", `of all processes; ${(cpu.seconds / report.duration_seconds).toFixed(2)} CPUs on average`) : null,
        card("files", count(totals.files), "Files", files),
        card("processes", count(totals.processes), "Processes"),
        card("failures", count(totals.failures ?? 0), "Failed calls")),
    ];
  }

  /** `choose` shows in the timeline and in the list of files what a finding is about; it has no button where that is not known. */
  function findings(report, choose) {
    if (!report.findings || report.selection) return null;
    const places = (finding) => (finding.subjects ?? []).filter((one) => one.kind !== "process").map((one) => ({ ...one, name: visible(one.name) }));
    const filter = (finding) => {
      const phase = finding.evidence?.phase ?? "";
      const chosen = places(finding);
      if (!phase && !chosen.length) return null;
      const title = visible(finding.title ?? words(finding.code));
      return el("p", {}, el("button", { type: "button", "data-choose": finding.code, onclick: () => choose(title, chosen, phase) }, "Show in timeline and files"));
    };
    const severities = ["high", "medium", "low"];
    const pairs = (evidence) => Object.entries(evidence ?? {}).flatMap(([key, value]) =>
      [el("dt", {}, words(visible(key))), el("dd", {}, byKey(key, value))]);
    const subject = (one) => el("li", {}, `${visible(one.kind)} `, el("code", {}, visible(one.name)), one.pid ? ` (pid ${one.pid})` : null);
    const predicted = (finding) => {
      if (!finding.predictions?.length && !finding.not_predicted?.length) return null;
      const quotes = (finding.predictions ?? []).map((one) =>
        `${visible(one.change)} ${duration(one.seconds)} (${duration(one.low_seconds)} to ${duration(one.high_seconds)}${one.limited_by ? `, limited by ${words(one.limited_by)}` : ""})`);
      const missing = (finding.not_predicted ?? []).map((reason) => `Not predicted: ${visible(reason)}.`);
      return el("p", { class: "note", "data-predicted": finding.code },
        [quotes.length ? `Predicted instead of ${duration(finding.recorded_seconds)}: ${quotes.join("; ")}.` : null, ...missing].filter(Boolean).join(" "));
    };
    const cards = report.findings.map((finding) =>
      el("details", { class: `finding ${severities.includes(finding.severity) ? finding.severity : "low"}`, "data-code": finding.code },
        el("summary", {}, el("span", { class: "severity" }, visible(finding.severity)), " ", visible(finding.title ?? words(finding.code)),
          el("span", { class: "saving" }, finding.saves_at_most_seconds > 0
            ? `saves at most ${duration(finding.saves_at_most_seconds)}, ${share(finding.saves_at_most_seconds, report.duration_seconds)}` : "saves no time")),
        el("p", { class: "advice" }, visible(finding.advice ?? "")),
        el("p", { class: "note" }, el("code", {}, visible(finding.code)), `: confidence ${visible(finding.confidence)}`,
          finding.not_looked_at?.length ? `; not known: ${finding.not_looked_at.map(visible).join(", ")}` : null),
        predicted(finding),
        el("dl", { class: "evidence" }, pairs(finding.evidence)),
        filter(finding),
        finding.subjects?.length ? el("details", {}, el("summary", {}, `${count(finding.subjects.length)} concerned`),
          el("ul", {}, finding.subjects.map(subject))) : null));
    const list = (items) => (items ?? []).map(visible).join(", ");
    const none = el("p", {}, `Nothing to change in ${list(report.looked_at)}.`);
    const unseen = el("p", { class: "unseen" }, `Not looked at: ${list(report.not_looked_at)}.`.split(/(--[\w-]+)/)
      .map((piece, index) => (index % 2 ? el("code", {}, piece) : piece)));
    return section("findings", "Findings", ...(cards.length ? cards : [none]), unseen);
  }

  const waited = {
    running: ["running", "var(--phase-restore)"], storage: ["storage", "var(--write)"], loader_cpu: ["loader computing", "var(--phase-startup)"],
    compute_threads: ["compute threads", "var(--phase-training)"], run_queue: ["a CPU", "var(--phase-by_name)"], sleep: ["sleep", "var(--grid)"], page_fault: ["page faults", "var(--critical)"],
    network: ["network", "var(--read)"], other: ["other processes and devices", "var(--phase-other)"], unresolved: ["not known", "var(--soft)"],
  };

  /** What main threads waited for: of each a bar, a column for each step, and the files. */
  function waits(data) {
    const all = data.report.waits;
    if (!all?.length) return null;
    const length = (one) => one.running_seconds + one.waiting_seconds;
    const longest = Math.max(...all.map(length));
    const shown = all.filter((one) => length(one) >= longest / 20).slice(0, 16);
    return section("waits", "Waits", el("p", { class: "note" }, "What the main thread of each rank or program did with its time. Storage that computing hid is not here."),
      shown.map((one) => waiter(one, length(one), data.waits.find((lane) => lane.pid === one.pid))));
  }

  function waiter(one, whole, lane) {
    const seconds = { running: one.running_seconds, ...one.leaves };
    const kinds = Object.keys(waited).filter((kind) => seconds[kind] > 0);
    const files = one.files.filter((file) => file.path);
    return el("div", { class: "waiter", "data-pid": String(one.pid) },
      el("h3", {}, one.rank === null ? `Process ${one.pid}` : `Rank ${one.rank}, process ${one.pid}`),
      el("div", { class: "strip", "data-chart": "waits", "aria-hidden": "true" }, kinds.map((kind) =>
        el("span", { class: "part", width: `${((100 * seconds[kind]) / whole).toFixed(3)}%`, color: waited[kind][1], title: waited[kind][0] }))),
      el("ul", { class: "legend run" }, kinds.map((kind) =>
        el("li", { class: "phase", color: waited[kind][1] }, `${waited[kind][0]} ${duration(seconds[kind])}, ${share(seconds[kind], whole)}`))),
      lane ? over(lane) : null,
      files.length ? el("details", {}, el("summary", {}, "Files that it waited for"), table("Files that it waited for", [
        { title: "File", cell: (file) => visible(file.path) },
        { title: "Phase", cell: (file) => named(file.phase) },
        { title: "Waited", number: true, cell: (file) => duration(file.seconds) },
        { title: "of its time", number: true, cell: (file) => share(file.seconds, whole) },
      ], files)) : null,
      one.epochs?.length ? byEpoch(one, kinds) : null);
  }

  /** What a main thread did in each epoch, within bounds. */
  function byEpoch(one, kinds) {
    const of = (within, kind) => (kind === "running" ? within.running_seconds : within.leaves[kind]);
    const rows = [...one.epochs, { ...one.outside_epochs, number: "outside" }];
    return el("details", {}, el("summary", {}, "By epoch"), table(`Waits by epoch of process ${one.pid}`, [
      { title: "Epoch", cell: (row) => String(row.number) },
      { title: "Time", number: true, cell: (row) => duration(row.end === undefined ? row.running_seconds + row.waiting_seconds : row.end - row.start) },
      ...kinds.map((kind) => ({ title: waited[kind][0], number: true, cell: (row) => within(of(row.at_least, kind), of(row.at_most, kind)) })),
    ], rows));
  }

  /** A column for each step, as wide as the step is long. */
  function over(lane) {
    const kinds = Object.keys(waited).filter((kind) => lane.seconds[kind]);
    return el("div", { class: "lane", role: "img", "aria-label": "Over time" }, lane.start.map((start, step) => {
      const all = kinds.reduce((sum, kind) => sum + lane.seconds[kind][step], 0);
      const text = kinds.filter((kind) => lane.seconds[kind][step] > 0).map((kind) => `${waited[kind][0]} ${share(lane.seconds[kind][step], all)}`);
      return el("div", { flex: `${1e3 * (lane.end[step] - start)} 1 0`, title: `from ${duration(start)}: ${text.join(", ")}` }, kinds.map((kind) =>
        lane.seconds[kind][step] > 0 && el("span", { height: `${((100 * lane.seconds[kind][step]) / all).toFixed(2)}%`, color: waited[kind][1] })));
    }));
  }

  function phases(data) {
    const { report } = data;
    const rows = Object.entries(report.phases).map(([phase, sum]) => ({ phase, sum, seconds: inside(sum) }));
    const used = rows.filter((row) => row.seconds > 0 || row.sum.files > 0);
    const whole = rows.reduce((all, row) => all + row.seconds, 0);
    const columns = [
      { title: "Phase", cell: (row) => named(row.phase) },
      { title: "Files", number: true, cell: (row) => count(row.sum.files) },
      { title: "Read", number: true, cell: (row) => bytes(row.sum.bytes_read) },
      { title: "Written", number: true, cell: (row) => bytes(row.sum.bytes_written) },
      { title: "Time in I/O", number: true, cell: (row) => duration(row.seconds) },
      { title: "of it", number: true, cell: (row) => share(row.seconds, whole) },
    ];
    if (rows.some((row) => row.sum.merged_seconds != null)) {
      columns.push({ title: "Merged time", number: true, cell: ({ sum }) => within(sum.merged_seconds_at_least, sum.merged_seconds) },
        { title: "of the run", number: true, cell: ({ sum }) => `${sum.merged_exact ? "" : "≤ "}${share(sum.share_of_run, 1)}` });
    }
    if (rows.some((row) => row.sum.overlapped_seconds != null)) {
      columns.push({ title: "while computing", number: true, cell: ({ sum }) => within(sum.overlapped_seconds_at_least, sum.overlapped_seconds) });
    }
    const sign = (sum) => (sum.merged_exact || sum.bandwidth_bytes_per_second == null ? "" : "≥ ");
    columns.push({ title: "Bandwidth", number: true, cell: ({ sum }) => sign(sum) + rate(sum.bandwidth_bytes_per_second) });
    const strip = el("div", { class: "strip", "data-chart": "phases", "aria-hidden": "true" }, used.filter((row) => row.seconds > 0).map((row) =>
      el("span", { class: "part", width: `${((100 * row.seconds) / whole).toFixed(3)}%`, color: color(row.phase), title: row.phase })));
    return section("phases", "Phases", el("p", { class: "note" }, "Time inside I/O calls by what the files are for: summed over threads, and merged, with times that overlap counted once. "
        + (used.every((row) => row.sum.merged_exact !== false) ? "" : "Over several processes merged time is known within bounds.")),
      strip, table("Phases", columns, used), breakdown(report.breakdown));
  }

  /** How many files were used and how, as Darshan's summary has it. */
  function fileCounts(report) {
    const counts = report.file_counts;
    if (!counts?.all.files) return null;
    const kinds = [["all", "all"], ["read_only", "read only"], ["write_only", "written only"], ["read_write", "read and written"],
      ["unique", "of one process"], ["shared", "of several processes"]];
    const columns = (title) => [
      { title, cell: ({ name }) => name },
      { title: "Files", number: true, cell: ({ sum }) => count(sum.files) },
      { title: "Mean size", number: true, cell: ({ sum }) => bytes(sum.bytes / Math.max(1, sum.files)) },
      { title: "Largest", number: true, cell: ({ sum }) => bytes(sum.largest_bytes) },
      { title: "Read", number: true, cell: ({ sum }) => bytes(sum.bytes_read) },
      { title: "Written", number: true, cell: ({ sum }) => bytes(sum.bytes_written) },
    ];
    const sizes = counts.sizes.map((sum) => ({ sum, name: sum.to === null ? `from ${bytes(sum.from)}` : `below ${bytes(sum.to)}` }));
    const shared = counts.shared_files;
    return section("file-counts", "File counts",
      table("Files by use", columns("Use"), kinds.map(([key, name]) => ({ name, sum: counts[key] }))),
      table("Files by size", columns("Size"), sizes),
      counts.slowest_pid != null && el("p", {}, `${bytes(counts.all.bytes_read + counts.all.bytes_written)} at ${rate(counts.bandwidth_by_slowest)} by the slowest process `
        + `(${counts.slowest_pid}, ${duration(counts.slowest_seconds)} in calls on files).`),
      shared.length > 0 && table("Shared files", [
        { title: "Shared file", cell: (one) => el("code", {}, visible(one.path)) },
        { title: "Processes", number: true, cell: (one) => count(one.processes) },
        { title: "Slowest", number: true, cell: (one) => `${duration(one.slowest.seconds)} (${one.slowest.pid})` },
        { title: "moved", number: true, cell: (one) => bytes(one.slowest.bytes) },
        { title: "Fastest", number: true, cell: (one) => `${duration(one.fastest.seconds)} (${one.fastest.pid})` },
        { title: "moved", number: true, cell: (one) => bytes(one.fastest.bytes) },
      ], shared));
  }

  /** What came from storage, and how files were used as memory: of all, and by phase. */
  function storage({ report, columns }) {
    const of = (name, sum) => ({ name, sum });
    const rows = [of("all", report.totals), ...Object.entries(report.phases).map(([phase, sum]) => of(phase, sum))]
      .filter(({ sum }) => sum.bytes_fetched > 0 || sum.faults > 0 || sum.timed_major_faults > 0);
    if (!rows.length) return null;
    const column = (title, key, show) => ({ title, number: true, cell: ({ sum }) => show(sum[key] ?? 0) });
    return section("storage", "Storage and mapped files",
      el("p", { class: "note" }, "What was brought into the page cache or read around it, and page faults on mapped files, none of which is among the bytes read and written. "
        + "Major faults found their page not in memory; the time is that of all faults that waited for storage."),
      table("Storage and mapped files", [
        { title: "Phase", cell: ({ name }) => (name === "all" ? name : named(name)) },
        ...columns.map((one) => column(one.title, one.key, format[one.format])),
      ], rows));
  }

  /** What is known not to be seen. */
  function unseen(known) {
    if (!known) return null;
    const kinds = Object.entries(known.skipped).filter(([, operations]) => operations > 0)
      .map(([kind, operations]) => `${count(operations)} on ${words(kind)}`);
    const direct = known.direct_files;
    const lines = [
      ...known.mapped_devices.map((one) => `${visible(one.device)} was mapped ${count(one.mappings)} times, ${bytes(one.bytes)} in all: what is done with a device's memory makes no call.`),
      direct.files ? `${count(direct.files)} files were opened with O_DIRECT and used by no call that is seen, such as by GPUDirect Storage: ${direct.paths.map(visible).join(", ")}.` : null,
      ...known.own_cache.map((one) => `${visible(one.mount_point)} (${visible(one.fs_type)}) has a cache of its own: of ${bytes(one.bytes_read)} read from ${count(one.files)} files, what came from storage is not known.`),
      known.aio_requests ? `${count(known.aio_requests)} requests of libaio: the kernel has no bpf_loop.` : null,
      known.fetched_by_kernel_bytes ? `${bytes(known.fetched_by_kernel_bytes)} were fetched by threads of the kernel, for no known process.` : null,
      kinds.length ? `Operations on what is no file: ${kinds.join(", ")}.` : null,
    ].filter((line) => line);
    if (!lines.length) return null;
    return section("unseen", "Not seen", el("ul", {}, lines.map((line) => el("li", {}, line))));
  }

  /** A number that is known within bounds, or exactly; a time unless shown otherwise. */
  function within(least, most, show = duration) {
    const [from, to] = [show(least ?? most), show(most)];
    return from === to ? to : `${from} to ${to}`;
  }

  /** What the run's time went into. */
  function breakdown(parts) {
    if (!parts) return null;
    const part = (title, { seconds, seconds_at_least: least, share_of_run: of }) =>
      `${title} ${within(least, seconds)} (${least === seconds ? "" : "at most "}${share(of, 1)})`;
    return el("p", { class: "breakdown" }, `Of the run's ${duration(parts.seconds)}: `,
      [part("training reads", parts.read), part("checkpoints", parts.checkpoint), part("the rest", parts.rest)].join(", "), ".");
  }

  /** What the analysis tells of itself or that another column says too. */
  const UNSHOWN = new Set(["start", "end", "seconds", "number"]);

  /** The keys that become columns of a table of these objects, in order. */
  function keysOf(list) {
    const worth = (value) => value !== null && (typeof value !== "object" || Array.isArray(value));
    return [...new Set(list.flatMap((one) => Object.keys(one)))]
      .filter((key) => !UNSHOWN.has(key) && !key.endsWith("_hex") && list.some((one) => worth(one[key])));
  }

  /** One value of such a column. */
  function shown(key, value) {
    if (value === null || value === undefined) return format.NONE;
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (!Array.isArray(value)) return byKey(key, value);
    const pids = value.map((one) => (typeof one === "object" ? one.pid : one));
    return pids.length > 8 ? `${count(pids.length)} of them` : pids.join(", ");
  }

  const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
  const column = (list, key) => ({
    title: sentence(words(key)),
    number: !list.some((one) => typeof one[key] === "string"),
    cell: (row) => shown(key, row[key]),
  });

  /** A column of events by its key; `null` where no event has it. */
  const known = (list, title, key, show) =>
    (list.some((one) => one[key] !== null && one[key] !== undefined) ? { title, number: true, cell: ({ event }) => show(event[key]) } : null);

  /** The name beneath its directory; the whole path is the tooltip. */
  function eventName({ event }) {
    const start = `${event.directory}/`;
    const name = event.name?.startsWith(start) ? event.name.slice(start.length) : event.name ?? "";
    return el("code", { title: `${visible(event.directory ?? "")}/${visible(name)}` }, visible(name));
  }

  /** A table of events: number, start, how long it took, and more columns. Times that are not exact have a tilde. */
  function events(id, title, one, list, more) {
    if (!list?.length) return null;
    const length = (event) => (event.end == null ? null : event.end - event.start);
    const longest = Math.max(...list.map((event) => length(event) ?? 0));
    const sign = (event) => (event.exact === false ? "~" : "");
    const columns = [
      { title: one, cell: ({ index }) => String(index + 1) },
      { title: "Start", number: true, cell: ({ event }) => sign(event) + duration(event.start) },
      { title: "Duration", number: true, cell: ({ event }) => sign(event) + duration(length(event)) },
      { title: "", cell: ({ event }) => bar(length(event) ?? 0, longest, "var(--accent)") },
      ...more.filter((column) => column),
    ];
    const inexact = list.some((event) => event.exact === false)
      ? el("p", { class: "note" }, "A tilde marks times that are not known exactly: uses between two flushes are spread evenly, and what is read through a mapping makes no call.") : null;
    return section(id, title, table(title, columns, list.map((event, index) => ({ event, index }))), inexact);
  }

  function checkpoints({ checkpoints: list }) {
    return events("checkpoints", "Checkpoints", "Checkpoint", list, list && [
      { title: "Name", cell: eventName },
      known(list, "Files", "files", count),
      known(list, "Written", "bytes_written", bytes),
      known(list, "Bandwidth", "bandwidth_bytes_per_second", rate),
      known(list, "In sync", "fsync_seconds", duration),
      known(list, "After the last", "interval_seconds", duration),
      known(list, "Training paused", "training_pause_seconds", duration),
    ]);
  }

  function restores({ restores: list }) {
    return events("restores", "Restores", "Restore", list, list && [
      { title: "Name", cell: eventName },
      known(list, "Files", "files", count),
      known(list, "Read", "bytes_read", bytes),
      known(list, "Mapped", "mapped_file_bytes", bytes),
      known(list, "Bandwidth", "bandwidth_bytes_per_second", rate),
    ]);
  }

  /** Passes over the training data; of the bytes of each, a bar of what came from storage and from the page cache. */
  function epochs({ epochs: list }) {
    const most = Math.max(0, ...(list ?? []).map((epoch) => epoch.bytes_read));
    const cached = list?.some((epoch) => epoch.bytes_fetched != null);
    const split = ({ event }) => dom.pieces([[event.bytes_fetched, "var(--write)"], [event.bytes_cached, "var(--read)"]], most);
    const part = (epoch) => (epoch.complete ? "all" : share(epoch.share_of_data, 1));
    const made = events("epochs", "Epochs", "Epoch", list, list && [
      known(list, "Files", "files", count),
      known(list, "Read", "bytes_read", bytes),
      cached ? { title: "", cell: split } : null,
      known(list, "From storage", "bytes_fetched", bytes),
      known(list, "Time in reads", "read_seconds", duration),
      known(list, "Bandwidth", "bandwidth_bytes_per_second", rate),
      { title: "Order", cell: ({ event }) => visible(event.order ?? format.NONE) },
      { title: "Of the data", number: true, cell: ({ event }) => part(event) },
    ]);
    if (made && cached) made.append(el("ul", { class: "legend run" },
      [["from storage", "var(--write)"], ["from the page cache", "var(--read)"]].map(([text, color]) => el("li", { class: "phase", color }, text))));
    return made;
  }

  /** An object of single numbers as a list of them. */
  function facts(id, title, object, ...more) {
    const known = Object.entries(object ?? {}).filter(([, value]) => value !== null && typeof value !== "object");
    if (!known.length) return null;
    const cards = known.map(([key, value]) =>
      el("div", { class: "card", "data-key": key }, el("dt", {}, sentence(words(key))), el("dd", {}, shown(key, value))));
    return section(id, title, el("dl", { class: "cards" }, cards), ...more);
  }

  /** Directories in which files were looked for that are not there. */
  function searched(startup) {
    if (!startup?.searched?.length) return null;
    const rest = startup.searched_directories - startup.searched.length;
    return el("details", { "data-key": "searched" },
      el("summary", {}, `${count(startup.searched_directories)} directories were searched without success`),
      table("Searched directories", [
        { title: "Directory", cell: (row) => el("code", {}, visible(row.directory)) },
        { title: "Not found", number: true, cell: (row) => count(row.not_found) },
        { title: "Time", number: true, cell: (row) => duration(row.seconds) },
        { title: "Processes", number: true, cell: (row) => count(row.processes) },
      ], startup.searched),
      rest > 0 ? el("p", { class: "note" }, `And ${count(rest)} more, with fewer look-ups each.`) : null);
  }

  /** How evenly the training data was read: by the workers of each loader, and by ranks. */
  function balance(report) {
    const cohorts = [...(report.balance?.workers ?? []).map((cohort) => ["Workers", cohort]),
      ...(report.balance?.ranks ? [["Ranks", report.balance.ranks]] : [])];
    if (!cohorts.length) return null;
    return section("balance", "Workers and ranks", ...cohorts.flatMap(([title, cohort]) => {
      const most = Math.max(...cohort.processes.map((one) => one.bytes_read));
      const parts = [`${title} from ${duration(cohort.start)} to ${duration(cohort.end)}`];
      if (cohort.imbalance != null) parts.push(`imbalance ${share(cohort.imbalance, 1)}`);
      if (cohort.idle?.length) parts.push(`idle: ${cohort.idle.join(", ")}`);
      return [el("h3", {}, parts.join(" · ")), table(title, [
        { title: "Process", cell: (one) => String(one.pid) },
        { title: "Read", number: true, cell: (one) => bytes(one.bytes_read) },
        { title: "Time in reads", number: true, cell: (one) => duration(one.read_seconds) },
        { title: "Start", number: true, cell: (one) => duration(one.start) },
        { title: "End", number: true, cell: (one) => duration(one.end) },
        { title: "", cell: (one) => bar(one.bytes_read, most, "var(--read)") },
      ], cohort.processes)];
    }));
  }

  /** Recordings of several nodes: a row each. */
  function nodes(list) {
    if (!list?.length) return null;
    return section("nodes", "Nodes", table("Nodes", keysOf(list).map((key) => column(list, key)), list));
  }

  /** A whole machine: each program or job by itself. */
  function programs(list) {
    if (!list?.length) return null;
    const percent = (value) => share(value, 1);
    return section("programs", "Programs", el("p", { class: "note" }, "Each batch job, and each program of no job, judged by itself."), table("Programs", [
      { title: "Program", cell: (one) => one.name },
      { title: "Job", cell: (one) => one.job ?? "" },
      { title: "Verdict", cell: (one) => one.verdict_label },
      { title: "Mostly", cell: (one) => one.cause ?? "" },
      { title: "File I/O", number: true, cell: (one) => within(one.share_of_lifetime_at_least, one.share_of_lifetime_at_most, percent) },
      { title: "Lifetime", number: true, cell: (one) => duration(one.lifetime_seconds) },
      { title: "Processes", number: true, cell: (one) => count(one.processes) },
      { title: "Read", number: true, cell: (one) => bytes(one.bytes_read) },
      { title: "Written", number: true, cell: (one) => bytes(one.bytes_written) },
    ], list));
  }

  const BUCKETS = [
    ["0_100", "0 to 100 B"], ["100_1k", "100 B to 1 KiB"], ["1k_10k", "1 to 10 KiB"], ["10k_100k", "10 to 100 KiB"],
    ["100k_1m", "100 KiB to 1 MiB"], ["1m_4m", "1 to 4 MiB"], ["4m_10m", "4 to 10 MiB"], ["10m_100m", "10 to 100 MiB"],
    ["100m_1g", "100 MiB to 1 GiB"], ["1g_plus", "above 1 GiB"],
  ];

  function sizes(data) {
    const sums = { totals: data.report.totals, ...data.report.phases };
    const has = (sum) => sum.read_sizes || sum.write_sizes;
    if (!has(sums.totals)) return null;
    const place = el("div", { "data-chart": "sizes" });
    const show = (key) => place.replaceChildren(histogram(sums[key]), ...common(sums[key]));
    const options = Object.keys(sums).filter((key) => has(sums[key])).map((key) => [key, key === "totals" ? "All" : words(key)]);
    show("totals");
    return section("sizes", "Access sizes", el("p", { class: "note" }, "Calls by the bytes that each moved; an upper bound belongs to its bucket."),
      el("div", { class: "controls" }, dom.choice("Phase of the sizes", options, "totals", show)), place);
  }

  function histogram(sum) {
    const rows = BUCKETS.map(([key, title]) => ({ title, reads: sum.read_sizes?.[key] ?? 0, writes: sum.write_sizes?.[key] ?? 0 }));
    const [reads, writes] = ["reads", "writes"].map((kind) => rows.reduce((all, row) => all + row[kind], 0));
    const most = Math.max(...rows.flatMap((row) => [row.reads, row.writes]));
    const side = (kind, whole, name) => [
      { title: kind, number: true, cell: (row) => count(row[kind.toLowerCase()]) },
      { title: "share", number: true, cell: (row) => share(row[kind.toLowerCase()], whole) },
      { title: "", cell: (row) => bar(row[kind.toLowerCase()], most, `var(${name})`) },
    ];
    return table("Access sizes",
      [{ title: "Size", cell: (row) => row.title }, ...side("Reads", reads, "--read"), ...side("Writes", writes, "--write")], rows);
  }

  function common(sum) {
    if (!sum.access_sizes?.length) return [];
    const parts = sum.access_sizes.map(({ size, count: calls }) => `${count(size)} B in ${count(calls)} calls`);
    return [el("p", {}, `Most common sizes: ${parts.join("; ")}.`)];
  }

  /** A line's name and its source text. */
  function sourced({ name, line, source }) {
    if (!source.length) return name;
    const digits = String(source.at(-1)[0]).length;
    const text = source.map(([number, text]) =>
      el(number === line ? "b" : "span", {}, `${String(number).padStart(digits)}  ${text}`.trimEnd(), "\n"));
    return [name, el("pre", { class: "source" }, text)];
  }

  /** A section of notes and tables, whose cells are texts, bars and lines of programs. */
  function plain({ id, title, parts }) {
    const shownCell = (cell) => {
      if (cell.source) return sourced(cell);
      return cell.whole === undefined ? cell : bar(cell.part, cell.whole, "var(--read)");
    };
    const shownTable = ({ caption, columns, rows }) =>
      table(caption, columns.map((column, index) => ({ ...column, cell: (row) => shownCell(row[index]) })), rows);
    return section(id, title, parts.map((part) => (part.table ? shownTable(part.table) : el("p", { class: "note" }, part.note))));
  }

  function losses(data) {
    const { report } = data;
    const list = (entries) => el("ul", {}, entries.map(([key, value]) => el("li", {}, `${words(visible(key))}: ${count(value)}`)));
    const lost = Object.entries(report.losses).filter(([, value]) => value > 0);
    const notes = Object.entries(report.notes).filter(([, value]) => value > 0);
    return section("trust", "How far to trust this",
      el("p", {}, lost.length ? "Not everything was counted:" : "Nothing was lost: every operation of the traced processes is in these numbers."),
      lost.length ? list(lost) : null,
      report.remarks.map((remark) => el("p", {}, visible(remark))),
      notes.length ? [el("p", {}, "Left out on purpose, or counted in part:"), list(notes)] : null,
      el("p", { class: "note" }, `Measured by iotrace ${visible(report.iotrace_version)}, hook ${visible(report.hook)}, detail ${visible(report.detail)}.`));
  }

  return { summary, findings, waits, phases, fileCounts, storage, unseen, checkpoints, restores, epochs, facts, searched, balance, nodes, programs, sizes, plain, losses, target };
})();
