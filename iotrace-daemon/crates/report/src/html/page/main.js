// Puts the page together. The data is JSON in an element that the browser does not run.
"use strict";

(() => {
  const { el, section } = dom;
  const data = JSON.parse(document.getElementById("data").textContent);
  const { report } = data;
  const drawn = [];
  let chooseTime = () => {};

  function processes() {
    const table = data.processes;
    const rows = table.pid.map((_, i) => i);
    const at = (key) => (i) => table[key][i];
    const number = (title, key, show) => ({ title, number: true, cell: (i) => show(at(key)(i)) });
    const folded = data.folded_processes
      ? el("p", { class: "note" }, `${format.count(data.folded_processes)} more processes, those with the least time in I/O, are not listed; the JSON report lists them.`) : null;
    return section("processes", "Processes", dom.table("Processes", [
      { title: "Process", cell: at("pid") },
      { title: "Name", cell: (i) => el("span", { title: table.command[i] }, table.name[i] || "unknown") },
      number("Parent", "ppid", String),
      number("Start", "start", format.duration),
      number("End", "end", (end) => (end === null ? "runs" : format.duration(end))),
      number("Exit", "exit_code", (code) => (code === null ? format.NONE : String(code))),
      number("Files", "files", format.count),
      number("Operations", "operations", format.count),
      number("Read", "bytes_read", format.bytes),
      number("Written", "bytes_written", format.bytes),
      number("Time in I/O", "ns", (ns) => format.duration(ns / 1e9)),
      ...format.counters(data.columns, table).map(({ title, key, show }) => number(title, key, show)),
    ], rows), folded);
  }

  function overTime() {
    if (!data.series) return [el("p", { class: "note" }, "The recording has no interval with operations, so there is nothing to show over time.")];
    const line = timeline.build(data);
    drawn.push({ draw: line.draw, resize: line.resize });
    chooseTime = line.only;
    return [el("p", { class: "note" }, note()), line.controls, line.place, line.readout];
  }

  function note() {
    const step = format.duration(data.series.longest_step);
    const parts = [`The recording has steps of up to ${step}. In each, a bar is the mean rate of a phase, from its first operation to its last.`];
    if (report.checkpoints?.length) parts.push("Triangles with a shaded range are checkpoints.");
    parts.push("Drag to zoom in, double-click to zoom out.");
    return parts.join(" ");
  }

  function heat() {
    if (!data.series) return null;
    const map = heatmap.build(data);
    drawn.push({ draw: map.draw, resize: map.draw });
    return section("heat", "Processes over time", map.controls, map.place, map.readout);
  }

  function trace() {
    if (data.operations_error) {
      return section("operations", "Operations", el("p", { class: "warning" }, `The operation trace cannot be read: ${data.operations_error}`));
    }
    if (!data.operations) return null;
    const made = operations.build(data);
    drawn.push({ draw: made.draw, resize: made.resize });
    return section("operations", "Operations", ...made.parts);
  }

  const table = files.build(data);
  const showFiles = (path) => {
    table.find(path);
    document.getElementById("files").scrollIntoView();
  };
  const directories = tree.build(data, showFiles);
  const map = treemap.build(directories.root, showFiles);
  drawn.push({ draw: map.draw, resize: map.draw });

  /** Says what the timeline and the list of files are limited to, with a button that ends it. */
  const chosen = el("p", { class: "chosen controls", "aria-live": "polite", hidden: true });

  function choose(title, places, phase) {
    chooseTime(table.only(places, phase));
    chosen.replaceChildren(`Timeline and files show: ${title}`, el("button", { type: "button", id: "choose-all", onclick: () => {
      table.only([], "");
      chooseTime([]);
      chosen.hidden = true;
    } }, "Show all"));
    chosen.hidden = false;
    document.getElementById("timeline").scrollIntoView();
  }

  const incomplete = data.complete ? null
    : el("p", { class: "warning" }, "This recording is not complete: it was still being written, or its recorder was killed. The page shows what it holds.");

  const parts = [
    dom.el("section", { id: "summary", "aria-labelledby": "summary-title" }, ...sections.summary(data), incomplete),
    sections.programs(report.programs),
    section("timeline", "Timeline", chosen, ...overTime()),
    sections.findings(report, choose),
    sections.waits(data),
    trace(),
    sections.phases(data),
    sections.storage(data),
    sections.checkpoints(report),
    sections.restores(report),
    sections.epochs(report),
    sections.balance(report),
    sections.facts("startup", "Startup", report.startup, sections.searched(report.startup)),
    sections.nodes(report.nodes),
    heat(),
    sections.sizes(data),
    sections.fileCounts(report),
    ...data.sections.map(sections.plain),
    section("directories", "Directories", map.controls, map.trail, map.place, directories.controls, directories.place),
    section("files", "Files", table.controls, table.status, table.viewport, table.folded),
    processes(),
    sections.unseen(report.not_seen),
    sections.losses(data),
  ].filter((part) => part);
  shell.show(sections.target(report), parts, {
    draw: () => drawn.forEach((one) => one.draw()),
    resize: () => drawn.forEach((one) => one.resize()),
    print: table.print,
  });
  table.draw();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
