// Makes elements. Text only ever becomes text nodes: nothing here parses markup.
"use strict";

const dom = (() => {
  /** `el("td", {class: "number"}, "7")`; functions under `on...` are listeners, null children are left out. */
  function el(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (name === "width" || name === "height" || name === "flex") node.style[name] = value;
      else if (name === "color") node.style.setProperty("--color", value);
      else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
    return node;
  }

  /** A table from column descriptions `{title, number, cell(row)}`; the first column is the row's header. */
  function table(caption, columns, rows) {
    const kind = (column) => (column.number ? "number" : null);
    const head = columns.map((column) => (column.title ? el("th", { scope: "col", class: kind(column) }, column.title) : el("td", {})));
    const body = rows.map((row) =>
      el("tr", {}, columns.map((column, index) =>
        el(index === 0 ? "th" : "td", { scope: index === 0 ? "row" : null, class: kind(column) }, column.cell(row)))));
    const kept = columns.map((column, index) => (column.title ? index : -1)).filter((index) => index >= 0);
    const texts = (row) => kept.map((index) => row.cells[index].textContent);
    const all = () => [kept.map((index) => columns[index].title), ...body.map(texts)];
    return el("div", { class: "table" }, takeaway(caption, all),
      el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
        el("table", {}, el("caption", { class: "hidden" }, caption), el("thead", {}, el("tr", {}, head)),
          el("tbody", {}, body))));
  }

  /** Buttons that copy a table, for spreadsheets, and save it as CSV. `all` returns its rows, the titles first. */
  function takeaway(caption, all) {
    const copy = el("button", { type: "button", "data-take": "copy", "aria-label": `Copy the table ${caption}`,
      onclick: () => copied(all().map((row) => row.join("\t")).join("\n")).then((done) => {
        copy.textContent = done ? "Copied" : "Not allowed";
        setTimeout(() => (copy.textContent = "Copy"), 2000);
      }) }, "Copy");
    const save = el("button", { type: "button", "data-take": "csv", "aria-label": `Save the table ${caption} as CSV`,
      onclick: () => download(`${caption.toLowerCase().replaceAll(" ", "-")}.csv`, csv(all())) }, "CSV");
    return el("div", { class: "controls take" }, copy, save);
  }

  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return false;
    }
  }

  function download(name, text) {
    const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    el("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  /** CSV as RFC 4180 has it. Text that a spreadsheet would take for a formula begins with a quote. */
  function csv(rows) {
    const cell = (value) => {
      const plain = typeof value === "number" || !/^[=+\-@\t\r]/.test(value) ? String(value) : `'${value}`;
      return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
    };
    return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
  }

  /** A bar as long as `part` of `whole`, hidden from screen readers: the number is next to it. */
  function bar(part, whole, color) {
    return pieces([[part, color]], whole);
  }

  /** A bar of several pieces, each `[part, color]` of `whole`. */
  function pieces(parts, whole) {
    const percent = (part) => (whole > 0 ? (100 * part) / whole : 0).toFixed(2);
    return el("span", { class: "bar", "aria-hidden": "true" },
      parts.map(([part, color]) => part > 0 && el("span", { width: `${percent(part)}%`, color })));
  }

  /** A row of buttons of which one is pressed. */
  function choice(label, options, chosen, choose) {
    const buttons = options.map(([value, title]) =>
      el("button", { type: "button", "data-value": value, "aria-pressed": String(value === chosen) }, title));
    const group = el("div", { class: "choice", role: "group", "aria-label": label }, buttons);
    group.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      choose(button.dataset.value);
    });
    return group;
  }

  /** A section of the page with its heading, which the navigation finds by `id`. */
  function section(id, title, ...children) {
    return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), ...children);
  }

  /** A text as far as it has room on a canvas; of a path, its end. */
  function fitted(context, text, room, isPath = false) {
    if (context.measureText(text).width <= room) return text;
    const part = (length) => (isPath ? `…${text.slice(text.length - length)}` : `${text.slice(0, length)}…`);
    let length = text.length - 1;
    while (length > 1 && context.measureText(part(length)).width > room) length -= 1;
    return part(length);
  }

  const probe = el("span", { class: "hidden", "aria-hidden": "true" });

  /** The colour that a custom property has in the theme of now. */
  function color(name) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  }

  return { el, table, takeaway, csv, bar, pieces, choice, section, fitted, color };
})();
