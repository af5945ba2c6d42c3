// The timeline: bytes, operations or time in I/O per second by phase, with checkpoints and epochs. A bar is from the
// first operation of a phase in a step of the recording to the last: more is not known, so bars are drawn and no curves.
"use strict";

const timeline = (() => {
  const { el, color } = dom;
  const HEIGHT = 200;
  /** Steps of an axis of bytes: 1, 2, 4 ... 512 of each unit, so that its labels are short. */
  const BINARY = Array.from({ length: 60 }, (_, power) => 2 ** power);
  const KINDS = {
    bytes: {
      title: "Bytes",
      charts: [["bytes_read", "Read per second"], ["bytes_written", "Written per second"]],
      show: format.rate,
      incrs: BINARY,
    },
    operations: { title: "Operations", charts: [["operations", "Operations per second"]], show: (v) => `${format.shortCount(v)}/s` },
    ns: { title: "Time in I/O", charts: [["ns", "Threads inside I/O, on average"]], show: (v) => v.toFixed(2), scale: 1e-9 },
  };

  /** Times at which a step begins, with the bin that it shows: -1 between intervals that do not touch. */
  function edges(series) {
    const times = [];
    const bins = [];
    const push = (time, bin) => (times.push(time), bins.push(bin));
    let last = 0;
    series.start.forEach((start, bin) => {
      if (start - last > 1e-4) push(last, -1);
      push(start, bin);
      last = series.end[bin];
    });
    push(last, -1);
    return { times, bins };
  }

  function build(data) {
    const series = data.series;
    const seconds = series.start.map((start, bin) => Math.max(series.end[bin] - start, 1e-9));
    const { times, bins } = edges(series);
    const shown = new Set(data.phases.filter((phase) => series.by_phase[phase]));
    const place = el("div", { class: "charts" });
    const readout = el("p", { class: "readout", role: "status" }, "");
    let kind = "bytes";
    let plots = [];

    const rates = (phase, measure) => {
      const values = series.by_phase[phase]?.[measure];
      const scale = KINDS[kind].scale ?? 1;
      return bins.map((bin) => (bin < 0 || !values ? 0 : (values[bin] * scale) / seconds[bin]));
    };

    function draw() {
      for (const plot of plots) plot.destroy();
      place.replaceChildren();
      plots = KINDS[kind].charts.flatMap(([measure, title]) => {
        const box = el("div", { class: "chart", "data-chart": measure });
        place.append(el("h3", {}, title), box);
        return chart(box, measure, title);
      });
    }

    function chart(box, measure, title) {
      const phases = data.phases.filter((phase) => shown.has(phase) && series.by_phase[phase]?.[measure].some((value) => value > 0));
      if (!phases.length) {
        box.append(el("p", { class: "note" }, "Nothing."));
        return [];
      }
      const raw = phases.map((phase) => rates(phase, measure));
      // Stacked: each curve is the sum of its phase and those before it; the highest is painted first.
      const stacked = raw.map((_, k) => times.map((_, i) => raw.slice(0, k + 1).reduce((sum, v) => sum + v[i], 0)));
      const show = KINDS[kind].show;
      // Above the highest bar there is room for the numbers of epochs.
      const top = data.report.epochs?.length ? 1.2 : 1.08;
      const grid = { stroke: () => color("--grid"), width: 1 };
      const ticks = { ...grid, size: 4 };
      const axis = { stroke: () => color("--soft"), grid, ticks, font: `12px ${getComputedStyle(document.body).fontFamily}` };
      const plot = new uPlot({
        width: Math.max(box.clientWidth, 280),
        height: HEIGHT,
        legend: { show: false },
        cursor: { sync: { key: "time" }, drag: { x: true, y: false }, points: { show: false } },
        scales: { x: { time: false }, y: { range: (_, _min, max) => [0, max * top] } },
        series: [{}, ...stacked.map((_, k) => {
          const phase = phases[phases.length - 1 - k];
          return {
            paths: uPlot.paths.stepped({ align: 1 }),
            stroke: () => color(`--phase-${phase}`),
            fill: () => color(`--phase-${phase}`),
            width: 1,
            points: { show: false },
          };
        })],
        axes: [
          { ...axis, values: (_, splits) => format.moments(splits), space: 80, size: 28 },
          { ...axis, values: (_, splits) => splits.map(show), size: 92, incrs: KINDS[kind].incrs },
        ],
        hooks: {
          drawClear: [(u) => drawEpochs(u, data.report.epochs), (u) => drawCheckpoints(u, data.report.checkpoints)],
          draw: [drawGround, (u) => drawNumbers(u, data.report.epochs)],
          setCursor: [(u) => (readout.textContent = u.cursor.idx == null ? "" : readoutText(u.cursor.idx, u.posToVal(u.cursor.left, "x")))],
        },
      }, [times, ...stacked.toReversed()], box);
      plot.root.setAttribute("role", "img");
      plot.root.setAttribute("aria-label", `${title} over the run, by phase; the table of phases has the sums`);
      return plot;
    }

    /** The values under the cursor, in words. */
    function readoutText(index, time) {
      const position = times[index] > time ? index - 1 : index;
      const bin = bins[position] ?? -1;
      if (bin < 0) return `${format.duration(time)}: no operations`;
      const parts = [`${format.duration(series.start[bin])} to ${format.duration(series.end[bin])}`];
      for (const [measure, title] of KINDS[kind].charts) {
        const values = data.phases.filter((phase) => shown.has(phase))
          .map((phase) => [phase, series.by_phase[phase] ? rates(phase, measure)[position] : 0])
          .filter(([, value]) => value > 0)
          .map(([phase, value]) => `${phase} ${KINDS[kind].show(value)}`);
        if (values.length) parts.push(`${title.split(" ")[0].toLowerCase()}: ${values.join(", ")}`);
      }
      for (const [name, events] of [["epoch", data.report.epochs], ["checkpoint", data.report.checkpoints]]) {
        const at = (events ?? []).findIndex((event) => event.start <= time && time <= event.end);
        if (at >= 0) parts.push(`${name} ${at + 1}`);
      }
      return parts.join(" · ");
    }

    const there = data.phases.filter((phase) => series.by_phase[phase]);
    const toggles = there.map((phase) => el("button", { type: "button", class: "phase", "aria-pressed": "true", color: `var(--phase-${phase})`,
      onclick: () => {
        if (!shown.delete(phase)) shown.add(phase);
        press();
      } }, format.words(phase)));

    function press() {
      there.forEach((phase, index) => toggles[index].setAttribute("aria-pressed", String(shown.has(phase))));
      draw();
    }

    /** Shows these phases alone; without any, all. */
    function only(phases) {
      shown.clear();
      there.filter((phase) => !phases.length || phases.includes(phase)).forEach((phase) => shown.add(phase));
      press();
    }

    const kinds = Object.entries(KINDS).map(([value, { title }]) => [value, title]);
    const controls = el("div", { class: "controls" },
      dom.choice("What the timeline shows", kinds, kind, (value) => ((kind = value), draw())),
      el("div", { class: "legend", role: "group", "aria-label": "Phases shown" }, toggles), zooming(() => plots[0]).buttons);
    return { controls, place, readout, draw, only, resize: () => plots.forEach((plot) => plot.setSize({ width: Math.max(place.clientWidth, 280), height: HEIGHT })) };
  }

  /** Zooms all charts over time alike, with buttons for it. `chart()` is one of them, if there is one; `around(min, max)` is the moment
    * that stays in the middle. */
  function zooming(chart, around = (min, max) => (min + max) / 2) {
    function to(min, max) {
      const times = chart()?.data[0];
      if (!times) return;
      const room = Math.min(max - min, times.at(-1) - times[0]);
      const start = Math.min(Math.max(min, times[0]), times.at(-1) - room);
      for (const one of uPlot.sync("time").plots) one.setScale("x", { min: start, max: start + room });
    }

    function by(factor) {
      if (!chart()) return;
      const { min, max } = chart().scales.x;
      const half = Math.max(((max - min) * factor) / 2, 1e-7);
      to(around(min, max) - half, around(min, max) + half);
    }

    const whole = () => to(-Infinity, Infinity);
    const button = (text, label, act) => el("button", { type: "button", "aria-label": label, onclick: act }, text);
    const buttons = el("div", { class: "choice", role: "group", "aria-label": "Zoom" },
      button("−", "Zoom out", () => by(2)), button("+", "Zoom in", () => by(0.5)), button("Whole run", "Whole run", whole));
    return { to, by, whole, buttons };
  }

  /** Every other epoch has another ground. */
  function drawEpochs(u, epochs) {
    spans(u, epochs, (context, left, width, index) => {
      context.fillStyle = color(index % 2 ? "--epoch-odd" : "--epoch-even");
      context.fillRect(left, u.bbox.top, width, u.bbox.height);
    });
  }

  /** The numbers of epochs, over the grid. */
  function drawNumbers(u, epochs) {
    spans(u, epochs, (context, left, width, index) => label(context, u, left, width, `epoch ${index + 1}`, "--soft"));
  }

  /** The line at zero, which is of no phase. */
  function drawGround(u) {
    const { left, top, width, height } = u.bbox;
    u.ctx.fillStyle = color("--grid");
    u.ctx.fillRect(left, top + height - devicePixelRatio, width, 2 * devicePixelRatio);
  }

  /** Checkpoints are lines across behind the bars, so that a short one is seen too. */
  function drawCheckpoints(u, checkpoints) {
    spans(u, checkpoints, (context, left, width) => {
      const ratio = devicePixelRatio;
      context.fillStyle = color("--phase-checkpoint");
      context.globalAlpha = 0.22;
      context.fillRect(left, u.bbox.top, Math.max(width, ratio), u.bbox.height);
      context.globalAlpha = 1;
      context.beginPath();
      context.moveTo(left - 4 * ratio, u.bbox.top);
      context.lineTo(left + 4 * ratio, u.bbox.top);
      context.lineTo(left, u.bbox.top + 7 * ratio);
      context.fill();
    });
  }

  function spans(u, events, paint) {
    const context = u.ctx;
    context.save();
    context.beginPath();
    context.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    context.clip();
    (events ?? []).forEach((event, index) => {
      const left = u.valToPos(event.start, "x", true);
      paint(context, left, u.valToPos(event.end ?? event.start, "x", true) - left, index);
    });
    context.restore();
  }

  function label(context, u, left, width, text, name) {
    context.font = `${11 * devicePixelRatio}px ${getComputedStyle(document.body).fontFamily}`;
    if (context.measureText(text).width + 8 > width) return;
    context.fillStyle = color(name);
    context.textAlign = "left";
    context.textBaseline = "top";
    context.fillText(text, left + 4, u.bbox.top + 3);
  }

  return { build, zooming };
})();
