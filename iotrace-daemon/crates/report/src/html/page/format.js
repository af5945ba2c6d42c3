// Numbers and text for people, in the same words as the text report (`report/text/units.rs`).
"use strict";

const format = (() => {
  const NONE = "–";

  function threeDigits(value) {
    if (value < 9.995) return value.toFixed(2);
    if (value < 99.95) return value.toFixed(1);
    return value.toFixed(0);
  }

  /** A count with its thousands apart: `1,234,567`. */
  function count(value) {
    if (value == null) return NONE;
    return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
  }

  /** A count in few characters, for axes: `1.50 M`. */
  function shortCount(value) {
    if (Math.abs(value) < 1000) return String(+value.toFixed(2));
    for (const [unit, scale] of [["k", 1e3], ["M", 1e6], ["G", 1e9]]) {
      if (Math.abs(value) < scale * 999.5 || unit === "G") return `${+(value / scale).toPrecision(3)} ${unit}`;
    }
    return String(value);
  }

  /** Bytes in powers of 1024, three digits: `1.50 MiB`; exact below 1 KiB. */
  function bytes(value) {
    if (value == null) return NONE;
    if (value < 1024) return `${Math.floor(value)} B`;
    const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let scaled = value / 1024;
    let unit = 0;
    while (scaled >= 1023.5 && unit + 1 < units.length) {
      scaled /= 1024;
      unit += 1;
    }
    return `${threeDigits(scaled)} ${units[unit]}`;
  }

  /** Bytes per second: `1.20 GiB/s`. */
  function rate(value) {
    return value == null ? NONE : `${bytes(value)}/s`;
  }

  /** A duration from seconds: `12.3 ms`, `45.6 s`, `3 m 05 s`, `2 h 07 m`. */
  function duration(seconds) {
    if (seconds == null) return NONE;
    const ns = Math.round(seconds * 1e9);
    if (ns === 0) return "0 s";
    if (ns < 0) return `−${duration(-seconds)}`;
    if (ns < 1e3) return `${ns} ns`;
    if (ns < 999_500) return `${threeDigits(ns / 1e3)} µs`;
    if (ns < 999_500_000) return `${threeDigits(ns / 1e6)} ms`;
    if (ns < 120e9) return `${threeDigits(ns / 1e9)} s`;
    const whole = Math.floor(seconds);
    const two = (value) => String(value).padStart(2, "0");
    if (whole < 7200) return `${Math.floor(whole / 60)} m ${two(whole % 60)} s`;
    return `${count(Math.floor(whole / 3600))} h ${two(Math.floor(whole / 60) % 60)} m`;
  }

  /** Moments that are near each other, from seconds: with as many digits as it takes to tell them apart. */
  function moments(list) {
    const texts = list.map(duration);
    if (new Set(texts).size === texts.length) return texts;
    const near = Math.min(...list.slice(1).map((moment, i) => moment - list[i]).filter((gap) => gap > 0));
    const digits = Math.min(Math.max(Math.ceil(-Math.log10(near)), 0), 9);
    return list.map((moment) => `${moment.toFixed(digits)} s`);
  }

  /** A share of a whole: `12 %`, `<1 %`. */
  function share(part, whole) {
    if (!whole || part == null) return NONE;
    const percent = (part * 100) / whole;
    return part > 0 && percent < 0.5 ? "<1 %" : `${percent.toFixed(0)} %`;
  }

  const UNSEEN = /[\\\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}\p{Mn}\p{Me}]/gu;
  const NAMED = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

  /** Text of the traced programs: what is invisible or turns the line around is shown as an escape. */
  function visible(text) {
    return String(text).replace(UNSEEN, (character) => {
      const code = character.codePointAt(0).toString(16);
      return NAMED[character] ?? (character < "\x80" ? `\\x${code.padStart(2, "0")}` : `\\u{${code}}`);
    });
  }

  /** Keys of the JSON whose words say too little. */
  const WORDS = {
    meta_seconds: "metadata time",
    not_found_unlisted: "not found, not listed",
    stats: "stat calls",
  };

  /** A key of the JSON as words, without the unit, which the value has: `fsync_seconds` is `fsync time`. */
  function words(key) {
    return WORDS[key] ?? key.replace(/_bytes_per_second$/, "").replace(/_seconds$/, " time").replaceAll("_", " ");
  }

  /** A number of the JSON by what its key says it is. */
  function byKey(key, value) {
    if (typeof value !== "number") return visible(typeof value === "string" ? value : JSON.stringify(value));
    if (/_per_second$/.test(key)) return /byte|bandwidth/.test(key) ? rate(value) : `${shortCount(value)}/s`;
    if (/(^|_)seconds($|_)|_time$|_at$|^first_/.test(key)) return duration(value);
    if (/(^|_)(bytes|size)($|_)/.test(key)) return bytes(value);
    if (/share|ratio|fraction/.test(key)) return share(value, 1);
    return Number.isInteger(value) ? count(value) : String(+value.toPrecision(4));
  }

  /** The columns of counters that a list has, as `{title, key, show}`; its durations are nanoseconds. */
  function counters(columns, list) {
    const formats = { count, bytes, duration: (ns) => duration(ns / 1e9) };
    return columns.filter((one) => one.in_lists && list[one.column])
      .map((one) => ({ title: one.title, key: one.column, show: formats[one.format] }));
  }

  return { NONE, count, shortCount, bytes, rate, duration, moments, share, visible, words, byKey, counters };
})();
