// The heat map: one row per process, one column per stretch of time, shaded by how busy the process was in it.
"use strict";

const heatmap = (() => {
  const { el, color } = dom;
  const ROWS = 40;
  const COLUMNS = 160;
  const ROW_HEIGHT = 18;
  const MEASURES = {
    ns: { title: "Time in I/O", show: (v) => format.duration(v / 1e9) },
    bytes_read: { title: "Bytes read", show: format.bytes },
    bytes_written: { title: "Bytes written", show: format.bytes },
    operations: { title: "Operations", show: format.count },
  };

  function build(data) {
    const { series, heat, processes } = data;
    const length = Math.max(...series.end, 1e-9);
    const canvas = el("canvas", { role: "img", tabindex: "0", "data-chart": "heatmap" });
    const readout = el("p", { class: "readout", role: "status" }, "");
    const place = el("div", { class: "heat" }, canvas);
    let measure = "ns";
    let rows = [];
    let peak = 0;
    let at = null;

    /** Spreads each interval's amount over the columns that it covers, as if it had been even. */
    function grid() {
      const totals = new Float64Array(processes.pid.length + 1);
      heat.process.forEach((process, i) => (totals[process] += heat[measure][i]));
      const order = [...totals.keys()].filter((process) => totals[process] > 0).sort((a, b) => totals[b] - totals[a]);
      const kept = order.length > ROWS ? order.slice(0, ROWS - 1) : order;
      kept.sort((a, b) => a - b);
      rows = kept.map((process) => ({ name: nameOf(process), cells: new Float64Array(COLUMNS), total: totals[process] }));
      if (kept.length < order.length) {
        const rest = order.slice(kept.length);
        rows.push({ name: `${rest.length} other processes`, cells: new Float64Array(COLUMNS), total: rest.reduce((sum, p) => sum + totals[p], 0) });
      }
      const place = new Map(kept.map((process, index) => [process, index]));
      heat.process.forEach((process, i) => {
        if (!heat[measure][i]) return; // such a process may have no row
        const row = rows[place.get(process) ?? rows.length - 1];
        const [start, end] = [series.start[heat.bin[i]], series.end[heat.bin[i]]];
        const [from, to] = [(start / length) * COLUMNS, Math.max((end / length) * COLUMNS, (start / length) * COLUMNS + 1e-9)];
        for (let column = Math.max(0, Math.floor(from)); column < Math.min(to, COLUMNS); column += 1) {
          const part = (Math.min(to, column + 1) - Math.max(from, column)) / (to - from);
          row.cells[column] += heat[measure][i] * part;
        }
      });
      peak = Math.max(0, ...rows.map((row) => Math.max(...row.cells)));
    }

    function nameOf(process) {
      return process < processes.pid.length ? `${processes.pid[process]} ${processes.name[process]}` : "processes not listed";
    }

    function geometry() {
      const labels = Math.min(190, canvas.clientWidth * 0.3);
      return { labels, width: (canvas.clientWidth - labels) / COLUMNS };
    }

    function draw() {
      const ratio = devicePixelRatio;
      const height = rows.length * ROW_HEIGHT + 22;
      canvas.style.height = `${height}px`;
      canvas.width = canvas.clientWidth * ratio;
      canvas.height = height * ratio;
      canvas.setAttribute("aria-label",
        `Heat map of ${MEASURES[measure].title.toLowerCase()} by process and time, ${rows.length} rows; arrow keys read its cells`);
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
      context.textBaseline = "middle";
      const { labels, width } = geometry();
      const [ink, soft, ground, text] = ["--heat", "--soft", "--heat-ground", "--text"].map(color);
      rows.forEach((row, index) => {
        const top = index * ROW_HEIGHT;
        context.globalAlpha = 1;
        context.fillStyle = ground;
        context.fillRect(labels, top + 1, width * COLUMNS, ROW_HEIGHT - 2);
        context.fillStyle = ink;
        row.cells.forEach((value, column) => {
          if (value <= 0) return;
          // On whole pixels: where two cells shared one, it would be darker than both.
          context.globalAlpha = 0.08 + 0.92 * Math.sqrt(value / peak);
          const [left, right] = [column, column + 1].map((edge) => Math.round((labels + edge * width) * ratio) / ratio);
          context.fillRect(left, top + 1, right - left, ROW_HEIGHT - 2);
        });
        context.globalAlpha = 1;
        context.fillStyle = text;
        context.fillText(dom.fitted(context, row.name, labels - 10), 0, top + ROW_HEIGHT / 2);
      });
      context.fillStyle = soft;
      for (let tick = 0; tick <= 4; tick += 1) {
        context.textAlign = ["left", "center", "center", "center", "right"][tick];
        context.fillText(format.duration((length * tick) / 4), labels + (width * COLUMNS * tick) / 4, rows.length * ROW_HEIGHT + 12);
      }
      context.textAlign = "left";
      if (at) {
        context.strokeStyle = text;
        context.lineWidth = 1.5;
        context.strokeRect(labels + at.column * width, at.row * ROW_HEIGHT + 1, Math.max(width, 3), ROW_HEIGHT - 2);
      }
      scale.replaceChildren(`0 to ${MEASURES[measure].show(peak)} per ${format.duration(length / COLUMNS)}; the shade grows with the square root`);
    }

    function point(row, column) {
      if (row < 0 || row >= rows.length || column < 0 || column >= COLUMNS) return;
      at = { row, column };
      const step = length / COLUMNS;
      const value = MEASURES[measure].show(rows[row].cells[column]);
      readout.textContent = `${rows[row].name} · ${format.duration(column * step)} to ${format.duration((column + 1) * step)} · `
        + `${MEASURES[measure].title.toLowerCase()} ${value}; ${MEASURES[measure].show(rows[row].total)} in the whole run`;
      draw();
    }

    canvas.addEventListener("mousemove", (event) => {
      const { labels, width } = geometry();
      point(Math.floor(event.offsetY / ROW_HEIGHT), Math.floor((event.offsetX - labels) / width));
    });
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      point((at?.row ?? 0) + (at ? move[0] : 0), (at?.column ?? 0) + (at ? move[1] : 0));
    });

    const scale = el("span", { class: "scale" });
    const options = Object.entries(MEASURES).map(([value, { title }]) => [value, title]);
    const controls = el("div", { class: "controls" },
      dom.choice("What the heat map shows", options, measure, (value) => ((measure = value), (at = null), (readout.textContent = ""), grid(), draw())), scale);
    grid();
    return { controls, place, readout, draw };
  }

  return { build };
})();
