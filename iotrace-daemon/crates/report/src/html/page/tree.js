// Directories as a tree: sums of all files beneath each, opened one level at a time.
"use strict";

const tree = (() => {
  const { el } = dom;
  const KEYS = ["files", "operations", "bytes_read", "bytes_written", "ns"];
  const AT_ONCE = 25;

  /** Nodes with sums over everything beneath; a directory that only leads to one other is joined with it. */
  function grow(directories) {
    const root = node("");
    directories.path.forEach((path, i) => {
      const parts = path.split("/").filter((part) => part !== "");
      let at = root;
      const add = () => KEYS.forEach((key) => (at[key] += directories[key][i]));
      add();
      for (const part of parts) {
        at = at.children.get(part) ?? at.children.set(part, node(`${at.path}/${part}`)).get(part);
        add();
      }
      at.own += directories.files[i];
    });
    return joined(root);
  }

  function node(path) {
    const made = { path, own: 0, children: new Map() };
    for (const key of KEYS) made[key] = 0;
    return made;
  }

  function joined(at) {
    while (at.children.size === 1 && at.own === 0) [at] = at.children.values();
    at.children = [...at.children.values()].map(joined);
    return at;
  }

  function build(data, filter) {
    const root = grow(data.directories);
    const whole = root.bytes_read + root.bytes_written;
    const body = el("tbody", {});
    let measure = "bytes";
    const amount = (at) => (measure === "bytes" ? at.bytes_read + at.bytes_written : at[measure]);

    function show(at, parent, level, after) {
      const name = parent && at.path.startsWith(`${parent.path}/`) ? at.path.slice(parent.path.length + 1) : at.path || "/";
      const opener = at.children.length
        ? el("button", { type: "button", class: "opener", "aria-expanded": "false", "aria-label": `directories in ${at.path || "/"}` }, "▸")
        : el("span", { class: "opener" });
      const link = el("button", { type: "button", class: "link", title: `show the files in ${at.path || "/"}` }, name);
      const first = el("th", { scope: "row" }, opener, link);
      first.style.paddingLeft = `${level * 1.25 + 0.5}rem`;
      const number = (text) => el("td", { class: "number" }, text);
      const row = el("tr", { "aria-level": String(level + 1), "data-path": at.path }, first,
        number(format.count(at.files)), number(format.count(at.operations)), number(format.bytes(at.bytes_read)),
        number(format.bytes(at.bytes_written)), number(format.duration(at.ns / 1e9)),
        el("td", {}, dom.bar(at.bytes_read + at.bytes_written, whole, "var(--read)")));
      link.addEventListener("click", () => filter(`${at.path}/`));
      let open = [];
      if (at.children.length) opener.addEventListener("click", () => {
        const opened = opener.getAttribute("aria-expanded") !== "true";
        opener.setAttribute("aria-expanded", String(opened));
        opener.textContent = opened ? "▾" : "▸";
        if (opened) open = showAll(at, level + 1, row);
        else open.splice(0).forEach((close) => close());
      });
      after ? after.after(row) : body.append(row);
      return { row, close: () => (open.splice(0).forEach((close) => close()), row.remove()), last: () => open.at(-1)?.last() ?? row };
    }

    /** Shows what is in a directory, largest first, a few at a time; returns how each is taken away. */
    function showAll(at, level, row) {
      const children = at.children.toSorted((a, b) => amount(b) - amount(a) || (a.path < b.path ? -1 : 1));
      const closers = [];
      let last = row;
      const some = (from) => {
        for (const child of children.slice(from, from + AT_ONCE)) {
          const made = show(child, at, level, last);
          last = made.row;
          closers.push(made.close);
        }
        const left = children.length - from - AT_ONCE;
        if (left <= 0) return;
        const button = el("button", { type: "button", class: "link" }, `${format.count(left)} more`);
        const more = el("tr", {}, el("td", { colspan: "7" }, button));
        more.firstChild.style.paddingLeft = `${level * 1.25 + 0.5}rem`;
        button.addEventListener("click", () => {
          last = more.previousElementSibling;
          more.remove();
          some(from + AT_ONCE);
        });
        last.after(more);
        closers.push(() => more.remove());
      };
      some(0);
      return closers;
    }

    function draw() {
      body.replaceChildren();
      const { row } = show(root, null, 0, null);
      row.querySelector("button.opener")?.click();
    }

    const heads = ["Directory", "Files", "Operations", "Read", "Written", "Time in I/O", "Bytes"];
    const place = el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Directories", "data-chart": "directories" },
      el("table", { role: "treegrid" }, el("caption", { class: "hidden" }, "Directories"),
        el("thead", {}, el("tr", {}, heads.map((title, i) => el("th", { scope: "col", class: i > 0 && i < 6 ? "number" : null }, title)))), body));
    const options = [["bytes", "Bytes"], ["ns", "Time in I/O"], ["operations", "Operations"], ["files", "Files"]];
    const controls = el("div", { class: "controls" }, "Largest first by ", dom.choice("Order of directories", options, measure, (value) => ((measure = value), draw())));
    draw();
    return { controls, place, root };
  }

  return { build };
})();
