// What every page has: its title, the links to its sections, the theme, and what happens before it is printed.
"use strict";

const shell = (() => {
  const { el } = dom;
  const THEMES = ["auto", "light", "dark"];

  /** Shows the parts, the summary first. `on` has `draw` (colours changed), `resize` and `print(whether it begins)`. */
  function show(title, parts, on) {
    document.title = `iotrace: ${title}`;
    document.getElementById("report").replaceChildren(...parts);
    document.getElementById("nav").append(...parts.slice(1).map((part) =>
      el("a", { href: `#${part.id}` }, part.querySelector("h2").textContent)));
    const theme = document.getElementById("theme");
    function use(name) {
      document.documentElement.style.colorScheme = name === "auto" ? "light dark" : name;
      theme.textContent = `Theme: ${name}`;
      theme.dataset.theme = name;
      on.draw();
    }
    theme.addEventListener("click", () => use(THEMES[(THEMES.indexOf(theme.dataset.theme) + 1) % THEMES.length]));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", on.draw);
    let before = "auto";
    addEventListener("beforeprint", () => {
      before = theme.dataset.theme;
      use("light");
      on.print(true);
    });
    addEventListener("afterprint", () => {
      use(before);
      on.print(false);
    });
    let resizing = 0;
    addEventListener("resize", () => {
      cancelAnimationFrame(resizing);
      resizing = requestAnimationFrame(on.resize);
    });
    use("auto");
  }

  return { show };
})();
