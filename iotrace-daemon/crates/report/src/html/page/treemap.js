// Directories as rectangles, as large as their bytes or time: squarified (Bruls, Huizing, van Wijk, 2000). A click goes into
// a directory; one without directories shows its files.
"use strict";

const treemap = (() => {
  const { el } = dom;
  /** Rectangles that are drawn; smaller ones are one together. */
  const MOST = 60;
  const MEASURES = {
    bytes: { title: "Bytes", of: (at) => at.bytes_read + at.bytes_written, show: format.bytes },
    ns: { title: "Time in I/O", of: (at) => at.ns, show: (ns) => format.duration(ns / 1e9) },
    files: { title: "Files", of: (at) => at.files, show: format.count },
  };

  /** Places `[part, value]`, largest first, into a box; calls `put(part, x, y, width, height)` for each. */
  function squarify(parts, box, put) {
    let rest = parts.reduce((sum, [, value]) => sum + value, 0);
    let { x, y, width, height } = box;
    let from = 0;
    while (from < parts.length && rest > 0) {
      const side = Math.min(width, height);
      const scale = (width * height) / rest;
      let to = from;
      let sum = 0;
      let best = Infinity;
      while (to < parts.length) {
        const next = sum + parts[to][1];
        const [largest, smallest] = [parts[from][1] * scale, parts[to][1] * scale];
        const area = next * scale;
        const worst = Math.max((side * side * largest) / (area * area), (area * area) / (side * side * smallest));
        if (worst > best) break;
        [best, sum, to] = [worst, next, to + 1];
      }
      const depth = (sum * scale) / side;
      let along = 0;
      for (const [part, value] of parts.slice(from, to)) {
        const length = (value * scale) / depth;
        if (width >= height) put(part, x, y + along, depth, length);
        else put(part, x + along, y, length, depth);
        along += length;
      }
      if (width >= height) [x, width] = [x + depth, width - depth];
      else [y, height] = [y + depth, height - depth];
      rest -= sum;
      from = to;
    }
  }

  function build(root, show) {
    const place = el("div", { class: "map", role: "group", "aria-label": "Directories by size", "data-chart": "treemap" });
    const trail = el("p", { class: "trail" });
    let measure = "bytes";
    let above = [];
    let at = root;

    function parts() {
      const { of } = MEASURES[measure];
      const named = at.children.map((child) => [child, of(child)]);
      const own = of(at) - named.reduce((sum, [, value]) => sum + value, 0);
      if (own > 0) named.push([{ path: at.path, here: true }, own]);
      const sorted = named.filter(([, value]) => value > 0).sort(([, a], [, b]) => b - a);
      if (sorted.length <= MOST) return sorted;
      const rest = sorted.splice(MOST - 1);
      sorted.push([{ path: at.path, rest: rest.length }, rest.reduce((sum, [, value]) => sum + value, 0)]);
      return sorted.sort(([, a], [, b]) => b - a);
    }

    function name(part) {
      if (part.here) return "files here";
      if (part.rest) return `${format.count(part.rest)} more`;
      return part.path.startsWith(`${at.path}/`) ? part.path.slice(at.path.length + 1) : part.path || "/";
    }

    function go(part) {
      if (part.here || part.rest || !part.children.length) return show(`${part.path}/`);
      above.push(at);
      at = part;
      draw();
      place.querySelector("button")?.focus();
    }

    function draw() {
      const { of, show: text, title } = MEASURES[measure];
      const crumbs = [...above, at].map((one, index, all) => (index + 1 === all.length ? el("code", {}, one.path || "/")
        : el("button", { type: "button", class: "link", onclick: () => {
          at = one;
          above = above.slice(0, index);
          draw();
        } }, one.path || "/")));
      trail.replaceChildren(...crumbs.flatMap((crumb) => [crumb, " › "]).slice(0, -1), `: ${text(of(at))}`);
      place.replaceChildren();
      const values = new Map(parts());
      squarify([...values], { x: 0, y: 0, width: 100, height: 100 * (place.clientHeight / place.clientWidth || 0.25) }, (part, x, y, width, height) => {
        const value = text(values.get(part));
        const whole = 100 * (place.clientHeight / place.clientWidth || 0.25);
        const button = el("button", { type: "button", title: `${name(part)}: ${value}`, "aria-label": `${name(part)}: ${title.toLowerCase()} ${value}`,
          onclick: () => go(part) }, el("span", {}, name(part)), el("small", {}, value));
        Object.assign(button.style, { left: `${x}%`, width: `${width}%`, top: `${(100 * y) / whole}%`, height: `${(100 * height) / whole}%` });
        place.append(button);
      });
    }

    const options = Object.entries(MEASURES).map(([value, { title }]) => [value, title]);
    const controls = el("div", { class: "controls" }, "As large as ", dom.choice("Size of the rectangles", options, measure, (value) => ((measure = value), draw())));
    return { controls, trail, place, draw };
  }

  return { build, squarify };
})();
