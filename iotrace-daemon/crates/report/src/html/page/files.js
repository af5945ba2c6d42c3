// The table of files: sorted and searched in memory, of which only the rows in view are elements.
"use strict";

const files = (() => {
  const { el } = dom;
  const ROW_HEIGHT = 28;
  const SPARE = 8;
  const PRINTED = 200;
  const COLUMNS = [
    { key: "path", title: "Path" },
    { key: "use", title: "Phase" },
    { key: "bytes_read", title: "Read", show: format.bytes },
    { key: "bytes_written", title: "Written", show: format.bytes },
    { key: "ns", title: "Time in I/O", show: (ns) => format.duration(ns / 1e9) },
    { key: "operations", title: "Operations", show: format.count },
    { key: "opens", title: "Opens", show: format.count },
    { key: "reads", title: "Reads", show: format.count },
    { key: "writes", title: "Writes", show: format.count },
  ];
  const LAST_COLUMNS = [
    { key: "size", title: "Size", show: format.bytes },
    { key: "processes", title: "Processes", show: format.count },
  ];

  function build(data) {
    const table = data.files;
    const counters = format.counters(data.columns, table);
    const columns = [...COLUMNS, ...counters, ...LAST_COLUMNS];
    const total = table.name.length;
    const paths = table.name.map((name, i) => table.directory[i] < 0 ? name : `${data.directories.path[table.directory[i]]}/${name}`.replace(/^\/\//, "/"));
    const state = { sort: "ns", down: true, words: [], phase: "", places: [] };
    let lowered = null;
    let order = Uint32Array.from(paths, (_, i) => i);
    let first = -1;

    const head = columns.map(({ key, title, show }) => {
      const button = el("button", { type: "button", "data-sort": key }, title, el("span", { class: "arrow", "aria-hidden": "true" }));
      button.addEventListener("click", () => sortBy(key));
      return el("th", { scope: "col", class: show ? "number" : null, "data-column": key }, button);
    });
    const body = el("tbody", {});
    const viewport = el("div", { class: "scroll files", tabindex: "0", role: "group", "aria-label": "Files" },
      el("table", { "aria-rowcount": String(total + 1) }, el("caption", { class: "hidden" }, "Files"), el("thead", {}, el("tr", { "aria-rowindex": "1" }, head)), body));
    viewport.firstChild.style.setProperty("--more", counters.length);
    const status = el("p", { class: "readout", role: "status" });
    const search = el("input", { type: "search", id: "search", placeholder: "words of the path, all of them", autocomplete: "off", spellcheck: "false" });
    const names = [...new Set(data.uses.flatMap((use) => use.phases))];
    const select = el("select", { id: "phase" }, el("option", { value: "" }, "all phases"), names.map((name) => el("option", { value: name }, name)));

    function sortBy(key) {
      state.down = state.sort === key ? !state.down : key !== "path" && key !== "use";
      state.sort = key;
      apply();
    }

    function apply() {
      const chosen = data.uses.map((use) => state.phase === "" || use.phases.includes(state.phase));
      const within = ({ kind, name }) => (path) => (kind === "file" ? path === name : path.startsWith(name.endsWith("/") ? name : `${name}/`));
      const places = state.places.map(within);
      if (state.words.length) lowered ??= paths.map((path) => path.toLowerCase());
      let found = [];
      for (let i = 0; i < total; i += 1) {
        if (chosen[table.use[i]] && state.words.every((word) => lowered[i].includes(word))
          && (!places.length || places.some((has) => has(paths[i])))) found.push(i);
      }
      order = Uint32Array.from(found);
      const sign = state.down ? -1 : 1;
      if (state.sort === "path") {
        if (state.down) order.reverse(); // the report has them in this order
      } else {
        const rank = state.sort === "use" ? ranks(data.uses.map((use) => use.label)) : null;
        const column = rank ? table.use.map((use) => rank[use]) : table[state.sort];
        order.sort((a, b) => sign * (column[a] - column[b]) || a - b);
      }
      for (const th of head) {
        const sorted = th.dataset.column === state.sort;
        sorted ? th.setAttribute("aria-sort", state.down ? "descending" : "ascending") : th.removeAttribute("aria-sort");
        th.querySelector(".arrow").textContent = sorted ? (state.down ? "▼" : "▲") : "";
      }
      viewport.firstChild.setAttribute("aria-rowcount", String(order.length + 1));
      viewport.scrollTop = 0;
      tell();
      first = -1;
      draw();
    }

    function ranks(labels) {
      const sorted = labels.toSorted();
      return labels.map((label) => sorted.indexOf(label));
    }

    function tell() {
      let [read, written] = [0, 0];
      for (const i of order) {
        read += table.bytes_read[i];
        written += table.bytes_written[i];
      }
      const all = order.length === total ? `${format.count(total)} files` : `${format.count(order.length)} of ${format.count(total)} files`;
      status.textContent = `${all}, read ${format.bytes(read)}, written ${format.bytes(written)}`;
    }

    function row(position) {
      const i = order[position];
      const use = data.uses[table.use[i]];
      const cells = columns.map(({ key, show }) => {
        if (key === "path") return el("th", { scope: "row", title: paths[i] }, el("bdi", {}, paths[i]));
        if (key === "use") return el("td", { title: table.rule[i] < 0 ? "no rule matches" : `rule ${data.rules[table.rule[i]]}` },
          el("span", { class: "phase", color: `var(--phase-${use.phases[0]})` }, use.label));
        return el("td", { class: "number" }, show(table[key][i]));
      });
      return el("tr", { "aria-rowindex": String(position + 2) }, cells);
    }

    const spacer = (rows) => {
      const made = el("tr", { class: "spacer", "aria-hidden": "true" }, el("td", { colspan: String(columns.length) }));
      made.style.height = `${rows * ROW_HEIGHT}px`;
      return made;
    };

    function draw() {
      const from = Math.max(0, Math.floor(viewport.scrollTop / ROW_HEIGHT) - SPARE);
      const height = Math.min(viewport.clientHeight, innerHeight);
      const to = Math.min(order.length, from + Math.ceil(height / ROW_HEIGHT) + 2 * SPARE);
      if (from === first && body.childElementCount) return;
      first = from;
      show(from, to);
    }

    function show(from, to) {
      const rows = [];
      for (let position = from; position < to; position += 1) rows.push(row(position));
      body.replaceChildren(spacer(from), ...rows, spacer(order.length - to));
    }

    /** Paper has no scrolling: the first files, and how many are not printed. */
    function print(printing) {
      if (printing) {
        show(0, Math.min(order.length, PRINTED));
        body.lastChild.style.height = "auto";
        if (order.length > PRINTED) body.lastChild.firstChild.textContent = `and ${format.count(order.length - PRINTED)} more, not printed`;
      } else {
        first = -1;
        draw();
      }
    }

    function find(text, phase = "") {
      search.value = text;
      select.value = phase;
      state.words = text.toLowerCase().split(/\s+/).filter((word) => word !== "");
      state.phase = phase;
      apply();
    }

    /** Lists the files in these places (`{kind, name}`; without any, everywhere) of a phase; returns the phases that they are of. */
    function only(places, phase) {
      state.places = places;
      find("", phase);
      return phase ? [phase] : [...new Set([...order].flatMap((i) => data.uses[table.use[i]].phases))];
    }

    /** The rows as they are sorted and filtered, with plain numbers, and the titles first. */
    function all() {
      const value = (key, i) => (key === "path" ? paths[i] : key === "use" ? data.uses[table.use[i]].label : table[key][i]);
      const unit = (key) => (key === "ns" || key.endsWith("_ns") ? " (ns)" : "");
      return [columns.map(({ key, title }) => title + unit(key)), ...[...order].map((i) => columns.map(({ key }) => value(key, i)))];
    }

    let waiting = 0;
    search.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => find(search.value, select.value), 60);
    });
    select.addEventListener("change", () => find(search.value, select.value));
    viewport.addEventListener("scroll", draw, { passive: true });
    const controls = el("div", { class: "controls" }, el("label", { for: "search" }, "Search"), search, el("label", { for: "phase" }, "Phase"), select,
      ...dom.takeaway("Files", all).childNodes);
    const folded = data.folded.files
      ? el("p", { class: "note folded" }, `${format.count(data.folded.files)} more files are not listed, those with the least time in I/O (at most `
        + `${format.duration(data.folded.longest_ns / 1e9)} each): together ${format.count(data.folded.operations)} operations, `
        + `${format.bytes(data.folded.bytes_read)} read, ${format.bytes(data.folded.bytes_written)} written. `
        + "All other parts of this page count them; the JSON report lists them.") : null;
    return { controls, viewport, status, folded, find, only, print, draw: apply };
  }

  return { build };
})();
