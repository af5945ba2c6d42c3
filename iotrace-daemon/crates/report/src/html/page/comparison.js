// The page of a comparison of runs: notes, and sections that are tables.
"use strict";

(() => {
  const { el } = dom;
  const { title, notes, sections: all } = JSON.parse(document.getElementById("data").textContent);
  const nothing = () => {};
  const summary = el("section", { id: "summary", "aria-labelledby": "summary-title" },
    el("h1", { id: "summary-title", class: "command" }, title), notes.map((note) => el("p", { class: "about" }, note)));
  shell.show(title, [summary, ...all.map(sections.plain)], { draw: nothing, resize: nothing, print: nothing });
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
