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
    const head = columns.map((column) => el("th", { scope: "col", class: kind(column) }, column.title));
    const body = rows.map((row) =>
      el("tr", {}, columns.map((column, index) =>
        el(index === 0 ? "th" : "td", { scope: index === 0 ? "row" : null, class: kind(column) }, column.cell(row)))));
    return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      el("table", {}, el("caption", { class: "hidden" }, caption), el("thead", {}, el("tr", {}, head)),
        el("tbody", {}, body)));
  }

  /** A bar as long as `part` of `whole`, hidden from screen readers: the number is next to it. */
  function bar(part, whole, color) {
    const percent = whole > 0 ? (100 * part) / whole : 0;
    return el("span", { class: "bar", "aria-hidden": "true" }, part > 0 && el("span", { width: `${percent.toFixed(2)}%`, color }));
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

  const probe = el("span", { class: "hidden", "aria-hidden": "true" });

  /** The colour that a custom property has in the theme of now. */
  function color(name) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  }

  return { el, table, bar, choice, section, color };
})();
