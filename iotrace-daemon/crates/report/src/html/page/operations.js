// The operation trace: a lane for each file, or thread, with the most time. Operations are drawn from their start to their
// end; those that are too many for that are summed in steps, and drawn as a strip under them and never finer than a step.
"use strict";

const operations = (() => {
  const { el, color } = dom;
  const { count, bytes, duration } = format;
  /** By number, as the data has them. */
  const KINDS = [["read", "--read"], ["write", "--write"], ["sync", "--phase-startup"], ["open and metadata", "--phase-by_name"]];
  /** Rows of operations of a lane that overlap; in the last one are all others. */
  const ROWS = 5;
  const ROW = 6;
  const ONLY_ROW = 14;
  const STRIP = 10;
  const GAP = 7;
  const AXIS = 28;
  const HINT = "Point at an operation, or go through them with the arrow keys.";
  const VIEWS = {
    files: { title: "By file", one: "file", heading: "File" },
    threads: { title: "By thread", one: "thread", heading: "Thread" },
  };

  function build(data) {
    const trace = data.operations;
    const length = data.report.duration_seconds;
    const step = trace.bin_ns / 1e9;
    const all = singles();
    const views = { files: lanes("files", (one) => one.file), threads: lanes("threads", (one) => one.thread) };
    const shown = new Set(KINDS.keys());
    const readout = el("p", { class: "readout", role: "status" }, HINT);
    const box = el("div", { class: "chart", "data-chart": "operations" });
    const tables = el("div", {});
    let view = "files";
    let plot = null;
    let at = null;

    function pathOf(place) {
      const name = trace.file[place];
      if (typeof name === "number") {
        const { directory, name: names } = data.files;
        return directory[name] < 0 ? names[name] : `${data.directories.path[directory[name]]}/${names[name]}`.replace(/^\/\//, "/");
      }
      return name ?? "(a file that this page does not name)";
    }

    function threadOf(place) {
      if (place < 0) return "(a thread that this page does not name)";
      const { pid, tid, name } = trace.thread;
      return `${name[place] || "unknown"} ${pid[place]}${tid[place] === pid[place] ? "" : `, thread ${tid[place]}`}`;
    }

    /** The operations that are drawn one by one. */
    function singles() {
      const { start, ns, op, result, file, thread } = trace.single;
      let sum = 0;
      return start.map((more, i) => {
        sum += more;
        return { start: sum / 1e9, end: (sum + ns[i]) / 1e9, seconds: ns[i] / 1e9, op: op[i], kind: trace.kinds[op[i]], result: result[i], file: file[i], thread: thread[i] };
      });
    }

    /** Lanes of one view, each with its operations in rows and its sums in steps. */
    function lanes(name, placeOf) {
      const { ns, operations: calls, bytes_read: read, bytes_written: written, cells } = trace[name];
      const made = ns.map((_, i) => ({
        name: name === "files" ? pathOf(i) : threadOf(i), seconds: ns[i] / 1e9, calls: calls[i], read: read[i], written: written[i],
        ops: [], rows: 0, steps: new Map(), most: 1,
      }));
      for (const one of all) made[placeOf(one)]?.ops.push(one);
      cells.lane.forEach((lane, i) => {
        const { steps } = made[lane];
        const start = (trace.bins_start_ns + cells.bin[i] * trace.bin_ns) / 1e9;
        if (!steps.has(cells.bin[i])) steps.set(cells.bin[i], { start, end: start + step, kinds: [] });
        steps.get(cells.bin[i]).kinds.push({ kind: cells.kind[i], calls: cells.operations[i], bytes: cells.bytes[i], seconds: cells.ns[i] / 1e9 });
      });
      let top = GAP / 2;
      for (const lane of made) {
        lane.row = new Map();
        const ends = [];
        for (const one of lane.ops) {
          let row = ends.findIndex((end) => end <= one.start);
          if (row < 0) row = ends.length < ROWS ? ends.length : ROWS - 1;
          ends[row] = Math.max(ends[row] ?? 0, one.end);
          lane.row.set(one, row);
        }
        lane.rows = ends.length;
        lane.height = lane.rows > 1 ? ROW : ONLY_ROW;
        lane.steps = [...lane.steps.values()];
        lane.most = Math.max(1, ...lane.steps.map((one) => one.kinds.reduce((sum, { seconds }) => sum + seconds, 0) / step));
        lane.top = top;
        lane.strip = top + lane.rows * lane.height;
        lane.bottom = lane.strip + (lane.steps.length ? STRIP : 0);
        top = lane.bottom + GAP;
      }
      return { lanes: made, height: top, others: trace[name].others, rest: trace[name].rest };
    }

    const labels = () => Math.min(260, box.clientWidth * 0.3);

    function draw() {
      const before = plot?.scales.x;
      plot?.destroy();
      const { height } = views[view];
      const axis = { stroke: () => color("--soft"), grid: { stroke: () => color("--grid"), width: 1 }, font: `12px ${getComputedStyle(document.body).fontFamily}` };
      const [first, last] = [Math.min(0, ...all.slice(0, 1).map((one) => one.start), trace.bins_start_ns / 1e9), all.reduce((end, one) => Math.max(end, one.end), length)];
      plot = new uPlot({
        width: Math.max(box.clientWidth, 280),
        height: height + AXIS,
        legend: { show: false },
        cursor: { sync: { key: "time" }, drag: { x: true, y: false }, points: { show: false }, y: false },
        scales: { x: { time: false }, y: { range: [0, 1] } },
        series: [{}, { show: false }],
        axes: [
          { ...axis, side: 0, ticks: { ...axis.grid, size: 4 }, values: (_, splits) => format.moments(splits), space: 90, size: AXIS },
          { size: labels(), grid: { show: false }, ticks: { show: false }, values: () => [] },
        ],
        padding: [0, 12, 0, 0],
        hooks: { draw: [paint] },
      }, [[first, last], [0, 0]], box);
      if (before) plot.setScale("x", { min: before.min, max: before.max });
      plot.root.setAttribute("role", "img");
      plot.root.setAttribute("tabindex", "0");
      plot.root.setAttribute("aria-label", `Operations ${VIEWS[view].title.toLowerCase()} over the run, ${views[view].lanes.length} lanes; `
        + "arrow keys read them, plus and minus zoom, Escape shows the whole run");
      plot.over.addEventListener("mousemove", () => tell(under(plot.cursor.left, plot.cursor.top)));
      plot.root.addEventListener("keydown", press);
    }

    function paint(u) {
      const context = u.ctx;
      const ratio = devicePixelRatio;
      const { left, top, width } = u.bbox;
      const inks = KINDS.map(([, name]) => color(name));
      const [text, ground, font] = ["--text", "--heat-ground"].map(color).concat(`12px ${getComputedStyle(document.body).fontFamily}`);
      const x = (seconds) => u.valToPos(seconds, "x", true);
      const [min, max] = [u.scales.x.min, u.scales.x.max];
      const visible = (one) => one.end >= min && one.start <= max;
      context.save();
      context.font = font.replace("12", String(12 * ratio));
      context.textBaseline = "middle";
      context.textAlign = "left";
      for (const lane of views[view].lanes) {
        context.fillStyle = text;
        context.fillText(dom.fitted(context, lane.name, left - 12 * ratio, view === "files"), 0, top + ((lane.top + lane.bottom) / 2) * ratio);
      }
      context.beginPath();
      context.rect(left, top, width, views[view].height * ratio);
      context.clip();
      for (const lane of views[view].lanes) {
        context.fillStyle = ground;
        context.globalCompositeOperation = "destination-over";
        context.fillRect(left, top + lane.top * ratio, width, (lane.bottom - lane.top) * ratio);
        context.globalCompositeOperation = "source-over";
        for (const one of lane.steps.filter(visible)) {
          let below = lane.bottom;
          const [from, to] = [x(one.start), x(one.end)];
          for (const { kind, seconds } of one.kinds) {
            if (!shown.has(kind)) continue;
            const tall = Math.max((seconds / step / lane.most) * STRIP, 1);
            context.globalAlpha = 0.6;
            context.fillStyle = inks[kind];
            context.fillRect(from, top + (below - tall) * ratio, Math.max(to - from, 1), tall * ratio);
            below -= tall;
          }
        }
        context.globalAlpha = 1;
        for (const one of lane.ops) {
          if (!shown.has(one.kind) || !visible(one)) continue;
          context.fillStyle = inks[one.kind];
          const from = x(one.start);
          const wide = x(one.end) - from;
          // One after the other are two, if there is room to see it.
          const gap = wide > 4 * ratio ? ratio : 0;
          context.fillRect(from, top + (lane.top + lane.row.get(one) * lane.height) * ratio, Math.max(wide - gap, ratio), (lane.height - 1) * ratio);
        }
      }
      if (at) {
        const { lane, one } = at;
        const [from, to] = [x(one.start), x(one.end)];
        const [above, tall] = one.kinds ? [lane.strip, STRIP] : [lane.top + lane.row.get(one) * lane.height, lane.height - 1];
        context.strokeStyle = text;
        context.lineWidth = 1.5 * ratio;
        context.strokeRect(from - ratio, top + (above - 1) * ratio, Math.max(to - from, ratio) + 2 * ratio, (tall + 2) * ratio);
      }
      context.restore();
    }

    /** What is drawn at a place: an operation within two pixels, the one that lasted longest, or a step. */
    function under(left, top) {
      const lane = views[view].lanes.find((one) => one.top - 1 <= top && top < one.bottom + 1);
      if (!lane) return null;
      const time = plot.posToVal(left, "x");
      const near = plot.posToVal(left + 2, "x") - time;
      if (lane.steps.length && top >= lane.strip) {
        const one = lane.steps.find((found) => found.start <= time && time < found.end);
        return one ? { lane, one } : null;
      }
      const row = Math.min(Math.max(Math.floor((top - lane.top) / lane.height), 0), lane.rows - 1);
      const there = lane.ops.filter((one) => shown.has(one.kind) && lane.row.get(one) === row && one.start - near <= time && time <= one.end + near);
      if (!there.length) return null;
      return { lane, one: there.reduce((longest, one) => (one.seconds > longest.seconds ? one : longest)), more: there.length - 1 };
    }

    /** An operation in words: what it did, of what size, for how long. */
    function said(one) {
      const name = trace.classes[one.op];
      if (one.result < 0) return `${name} failed with ${trace.errors[one.result]} after ${duration(one.seconds)}`;
      return `${name}${one.kind < 2 ? `, ${bytes(one.result)}` : ""} in ${duration(one.seconds)}`;
    }

    function tell(found) {
      if (found?.one === at?.one && found?.lane === at?.lane) return;
      at = found;
      readout.textContent = found ? words(found) : HINT;
      plot.redraw(false);
    }

    function words({ lane, one, more }) {
      if (one.kinds) {
        const kinds = one.kinds.map(({ kind, calls, bytes: moved, seconds }) =>
          `${KINDS[kind][0]}: ${count(calls)} begun${kind < 2 ? `, ${bytes(moved)}` : ""}, ${duration(seconds)} in them`);
        const [from, to] = format.moments([one.start, one.end]);
        return `${from} to ${to}, shorter operations · ${kinds.join(" · ")} · ${lane.name}`;
      }
      const others = more > 0 ? ` (and ${count(more)} shorter ones here)` : "";
      return `${said(one)}, at ${one.start.toFixed(6)} s${others} · ${pathOf(one.file)} · ${threadOf(one.thread)}`;
    }

    /** Everything in a lane that can be read, in order of time. */
    const items = (lane) => [...lane.ops.filter((one) => shown.has(one.kind)), ...lane.steps].toSorted((a, b) => a.start - b.start);

    function press(event) {
      const { lanes: list } = views[view];
      const moves = { ArrowLeft: -1, ArrowRight: 1 };
      const turns = { ArrowUp: -1, ArrowDown: 1 };
      const zooms = { "+": 0.5, "=": 0.5, "-": 2 };
      if (event.key === "Escape") zoom.whole();
      else if (zooms[event.key]) zoom.by(zooms[event.key]);
      else if (moves[event.key] || turns[event.key]) go(list, moves[event.key] ?? 0, turns[event.key] ?? 0);
      else return;
      event.preventDefault();
    }

    function go(list, along, across) {
      const index = Math.min(Math.max((at ? list.indexOf(at.lane) : 0) + (at ? across : 0), 0), list.length - 1);
      const lane = list[index];
      const found = items(lane);
      if (!found.length) return;
      // In another lane, what is nearest in time.
      let place = at && lane === at.lane ? found.indexOf(at.one) + along : found.findIndex((one) => one.start >= (at?.one.start ?? plot.scales.x.min));
      place = Math.min(Math.max(place < 0 ? found.length - 1 : place, 0), found.length - 1);
      const one = found[place];
      const { min, max } = plot.scales.x;
      if (one.end < min || one.start > max) zoom.to(one.start - (max - min) / 2, one.start + (max - min) / 2);
      tell({ lane, one });
    }

    const zoom = timeline.zooming(() => plot, (min, max) => {
      const middle = at ? (at.one.start + at.one.end) / 2 : NaN;
      return min <= middle && middle <= max ? middle : (min + max) / 2;
    });

    function note() {
      const drawn = all.length;
      const { lanes: list, others, rest } = views[view];
      const inLanes = list.reduce((sum, lane) => sum + lane.calls, 0);
      const { one } = VIEWS[view];
      const parts = [`${count(trace.totals.operations)} operations took ${duration(trace.totals.ns / 1e9)}, summed over all threads.`];
      parts.push(others ? `The lanes are the ${list.length} ${one}s with the most time; ${count(others)} other ${one}s with ${count(rest.operations)} operations and `
        + `${duration(rest.ns / 1e9)} have none.` : `Each ${one} has a lane.`);
      const single = list.reduce((sum, lane) => sum + lane.ops.length, 0);
      parts.push(trace.longest_binned_ns === null ? "Each operation is drawn from its start to its end."
        : `The ${count(drawn)} longest are drawn from their start to their end${single === drawn ? "" : `, ${count(single)} of them here`}. The other ${count(inLanes - single)} of these lanes, `
          + `of at most ${duration(trace.longest_binned_ns / 1e9)} each, are summed in steps of ${duration(step)}: the lighter strip at the foot of a lane, as high as the mean `
          + "number of them at one time.");
      const short = [trace.lost ? `lost ${count(trace.lost)} operations` : null, trace.left_out ? `left out ${count(trace.left_out)}, for it had reached its size` : null].filter(Boolean);
      if (short.length) parts.push(`The trace has ${short.join(", and ")}.`);
      if (trace.filter.length) parts.push(`It was limited by --trace-filter ${trace.filter.map(format.visible).join(", ")}.`);
      parts.push("Drag to zoom in, double-click to zoom out.");
      return parts.join(" ");
    }

    /** Lanes as a table, for those who want numbers. */
    function lanesTable() {
      const { title, heading } = VIEWS[view];
      return el("details", {}, el("summary", {}, `The lanes as a table`), dom.table(`Operations ${title.toLowerCase()}`, [
        { title: heading, cell: (lane) => lane.name },
        { title: "Operations", number: true, cell: (lane) => count(lane.calls) },
        { title: "one by one", number: true, cell: (lane) => count(lane.ops.length) },
        { title: "Read", number: true, cell: (lane) => bytes(lane.read) },
        { title: "Written", number: true, cell: (lane) => bytes(lane.written) },
        { title: "Time", number: true, cell: (lane) => duration(lane.seconds) },
      ], views[view].lanes));
    }

    const about = el("p", { class: "note" });

    function show(name) {
      view = name;
      at = null;
      readout.textContent = HINT;
      about.textContent = note();
      tables.replaceChildren(lanesTable());
      if (plot) draw();
    }

    const there = new Set([...all.map((one) => one.kind), ...Object.keys(VIEWS).flatMap((name) => trace[name].cells.kind)]);
    const toggles = KINDS.map(([title, ink], kind) => there.has(kind) && el("button", { type: "button", class: "phase", "aria-pressed": "true", color: `var(${ink})`,
      onclick: ({ currentTarget }) => {
        if (!shown.delete(kind)) shown.add(kind);
        currentTarget.setAttribute("aria-pressed", String(shown.has(kind)));
        tell(null);
        plot.redraw(false);
      } }, title));
    const rows = () => [["Start (s)", "Duration (s)", "Operation", "Bytes", "Error", "File", "Process and thread"],
      ...all.map((one) => [one.start.toFixed(9), one.seconds.toFixed(9), trace.classes[one.op], one.kind < 2 && one.result >= 0 ? one.result : "", trace.errors[one.result] ?? "", pathOf(one.file), threadOf(one.thread)])];
    const controls = el("div", { class: "controls" },
      dom.choice("Lanes of the operations", Object.entries(VIEWS).map(([value, { title }]) => [value, title]), view, show),
      el("div", { class: "legend", role: "group", "aria-label": "Operations shown" }, toggles),
      zoom.buttons,
      ...dom.takeaway("Operations one by one", rows).childNodes);
    show(view);
    return { parts: [about, controls, readout, box, tables], draw, resize: draw };
  }

  return { build };
})();
