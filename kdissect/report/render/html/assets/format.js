// Numbers, durations, sizes and times: three digits and a unit, as in the text report.

const NONE = "–";

function threeDigits(value) {
  return value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

function duration(ns) {
  if (ns === null || ns === undefined) return NONE;
  if (ns <= 0) return "0";
  const seconds = ns / 1e9;
  const hours = Math.round(seconds / 3600);
  if (hours >= 48) return `${Math.floor(hours / 24)} d ${String(hours % 24).padStart(2, "0")} h`;
  if (seconds >= 3599.5) {
    const minutes = Math.round(seconds / 60);
    return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} m`;
  }
  if (seconds >= 119.5) return `${Math.floor(Math.round(seconds) / 60)} m ${String(Math.round(seconds) % 60).padStart(2, "0")} s`;
  for (const [factor, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (ns >= factor * 0.9995) return `${threeDigits(ns / factor)} ${unit}`;
  }
  return `${Math.round(ns)} ns`;
}

function size(bytes) {
  for (const [power, unit] of [[4, "TiB"], [3, "GiB"], [2, "MiB"], [1, "KiB"]]) {
    if (bytes >= 1024 ** power * 0.9995) return `${threeDigits(bytes / 1024 ** power)} ${unit}`;
  }
  return `${Math.round(bytes)} B`;
}

function count(number) {
  if (Math.abs(number) < 1e7) return Math.round(number).toLocaleString("en-US");
  for (const [factor, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"]]) {
    if (Math.abs(number) >= factor * 0.9995) return `${threeDigits(number / factor)} ${unit}`;
  }
  return String(number);
}

const countOrNone = (number) => (number ? count(number) : NONE);
const sizeOrNone = (number) => (number ? size(number) : NONE);

function rate(perSecond) {
  return perSecond >= 99.5 ? count(perSecond) : perSecond > 0 ? threeDigits(perSecond) : "0";
}

function share(part) {
  if (!(part > 0)) return "0 %";
  return part < 0.0005 ? "< 0.1 %" : part >= 0.9995 ? "100 %" : `${(part * 100).toFixed(1)} %`;
}

// Times: nanoseconds from the first step of the grid; shown in UTC.
function timeOfDay(ns, digits = 3) {
  if (ns === null || ns === undefined) return NONE;
  const date = new Date(DATA.grid.start_ms + Math.floor(ns / 1e6));
  return Number.isNaN(date.getTime()) ? NONE : date.toISOString().slice(11, digits ? 20 + digits : 19);
}

// If the capture spans days, a time has its date, and the end of a period unless it is that of its begin.
function clock(ns, digits = 3) {
  return DATED && ns !== null && ns !== undefined ? `${day(ns)} ${timeOfDay(ns, digits)}` : timeOfDay(ns, digits);
}

function period(from, to, digits = 3) {
  return `${clock(from, digits)} – ${day(from) === day(to) ? timeOfDay(to, digits) : clock(to, digits)}`;
}

// The begin of a step, with no more digits than steps need.
const stepDigits = () => (STEP % 1e9 === 0 ? 0 : STEP % 1e8 === 0 ? 1 : 3);
const stepClock = (step) => clock(step * STEP, stepDigits());
const stepPeriod = (from, to) => period(from * STEP, to * STEP, stepDigits());

function day(ns) {
  return new Date(DATA.grid.start_ms + Math.floor(ns / 1e6)).toISOString().slice(0, 10);
}

function epoch(ns) {
  const sinceEpoch = BigInt(DATA.grid.start_ms) * 1000000n + BigInt(Math.round(ns));
  return `${sinceEpoch / 1000000000n}.${String(sinceEpoch % 1000000000n).padStart(9, "0")}`;
}

function plural(number, noun, many = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : many}`;
}

const LONGEST = 120; // characters of a name; what is longer has neither sense nor room
const LONGEST_SENTENCE = 600;

// Characters without a glyph, or that reverse text, are written as escapes.
function shown(text, longest = LONGEST) {
  if (text === null || text === undefined) return NONE;
  const full = String(text);
  const some = full.length > longest ? `${full.slice(0, longest / 2)}…${full.slice(-longest / 4)}` : full;
  return some.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (letter) => {
    const code = letter.codePointAt(0).toString(16);
    return code.length > 4 ? `\\U${code.padStart(8, "0")}` : `\\u${code.padStart(4, "0")}`;
  });
}
