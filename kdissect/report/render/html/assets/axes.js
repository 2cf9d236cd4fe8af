// Scales and axes that the charts share: the selected time from left to right, or all of it.

const LEFT = 62;
const RIGHT = 12;

// A scale returns the place of a time, `of` that of a step, `at` the time of a place; `whole` shows all of the capture.
function timeScale(width, left = LEFT, right = RIGHT, whole = false) {
  const inner = Math.max(width - left - right, 1);
  const [first, last] = whole ? [0, STEPS] : viewedSteps();
  const [start, span] = [first * STEP, (last - first) * STEP];
  const x = (ns) => left + ((ns - start) / span) * inner;
  return Object.assign(x, {
    left, right: width - right, inner, first, last, start, span, step: inner / (last - first),
    of: (step) => x(step * STEP), at: (px) => start + ((px - left) / inner) * span, shows: (step) => step >= first && step < last,
  });
}

const viewedSteps = () => [filter.from ?? 0, filter.to ?? STEPS];
const viewed = (values) => values.slice(...viewedSteps());

// What lies outside of the chart's time is cut off.
function inside(scale, height, ...children) {
  return svg("svg", { x: scale.left, y: 0, width: scale.inner, height, viewBox: `${scale.left} 0 ${scale.inner} ${height}`, class: "inside" }, ...children);
}

const TICKS_NS = [1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 604800].map((s) => s * 1e9)];

// A new day is told by its date, if there are several.
const isMidnight = (ns) => DATED && timeOfDay(ns) === "00:00:00.000";

function timeTicks(scale) {
  const { span, start } = scale;
  const most = (length) => Math.max(2, Math.floor(scale.inner / (length >= 1e9 ? 76 : 92))); // texts of parts of a second are longer
  const every = TICKS_NS.find((length) => span / length <= most(length)) || TICKS_NS.at(-1);
  const offset = (((DATA.grid.start_ms * 1e6) % every) + start) % every;
  const ticks = [];
  for (let tick = start + (offset ? every - offset : 0); tick <= start + span && ticks.length < 40; tick += every) ticks.push(tick);
  return { at: ticks, label: (ns) => (every >= 864e11 || isMidnight(ns) ? day(ns) : timeOfDay(ns, every >= 1e9 ? 0 : 3)) };
}

function timeAxis(scale, y) {
  const ticks = timeTicks(scale);
  const label = (text, x) => {
    const half = text.length * 3.4;
    return svg("text", { x: Math.min(Math.max(x, scale.left + half), scale.right - half), y: y + 17, "text-anchor": "middle" }, text);
  };
  return svg("g", {}, svg("line", { class: "frame", x1: scale.left, x2: scale.right, y1: y, y2: y }), ticks.at.map((ns) => [
    svg("line", { class: "frame", x1: scale(ns), x2: scale(ns), y1: y, y2: y + 4 }),
    label(ticks.label(ns), scale(ns)),
  ]));
}

// Two or three round values below the highest.
function valueTicks(highest, most = 3) {
  if (!(highest > 0)) return [];
  const rough = highest / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const every = [1, 2, 5, 10].map((factor) => factor * power).find((factor) => Math.floor(highest / factor) <= most);
  const values = [];
  for (let value = every; value <= highest * 1.0001; value += every) values.push(value);
  return values;
}

// Decades of a logarithmic scale, with 2 and 5 between them where there are few.
function logTicks(low, high) {
  const values = [];
  for (let power = Math.floor(low); power <= high; power += 1) values.push(...(high - low > 2.5 ? [1] : [1, 2, 5]).map((factor) => factor * 10 ** power));
  return values.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high);
}

// Bytes are counted in powers of 1024, so their round values are too. Only rates have parts of one.
function roundTicks(highest, most, label) {
  const unit = label === size && highest > 1 ? 1024 ** Math.floor(Math.log(highest) / Math.log(1024)) : 1;
  return valueTicks(highest / unit, most).map((value) => value * unit).filter((value) => label === rate || Number.isInteger(value));
}

const withoutZeros = (text) => text.replace(/\.0+(?!\d)/, "").replace(/(\.\d*[1-9])0+(?!\d)/, "$1");

function valueAxis(scale, y, highest, label, most = 3) {
  return svg("g", {}, roundTicks(highest, most, label).map((value) => [
    svg("line", { class: "axis", x1: scale.left, x2: scale.right, y1: y(value), y2: y(value) }),
    svg("text", { x: scale.left - 6, y: y(value) + 4, "text-anchor": "end" }, withoutZeros(label(value))),
  ]));
}

// The time outside the selection is shaded.
function veil(scale, height, top = 0) {
  if (filter.from === null) return null;
  const [a, b] = [scale(fromNs()), scale(toNs())];
  const attributes = { y: top, height, fill: "var(--ground)", "fill-opacity": 0.72 };
  return svg("g", { class: "veil" },
    svg("rect", { x: scale.left, width: Math.max(a - scale.left, 0), ...attributes }),
    svg("rect", { x: b, width: Math.max(scale.right - b, 0), ...attributes }));
}

const widthOf = (node) => Math.max(Math.floor(node.clientWidth), 240);

// Dragging across a chart selects time, one step is enough; `pick` is called with a step that is only clicked.
// `open` is called with the step on which Enter is pressed.
function selectable(node, scale, pick = null, open = pick) {
  const band = timeBand(node, scale);
  const timeOf = (event) => Math.max(scale.start, Math.min(scale.start + scale.span - 1, scale.at(event.clientX - node.getBoundingClientRect().left)));
  const isDrag = (began, ended) => Math.abs(ended - began) * scale.inner > 4 * scale.span;
  let began = null;
  node.classList.add("selects");
  node.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    began = timeOf(event);
    node.setPointerCapture(event.pointerId);
  });
  node.addEventListener("pointermove", (event) => {
    if (began === null) return;
    const ended = timeOf(event);
    if (isDrag(began, ended)) band.show(event, began, ended);
    else band.hide();
  });
  node.addEventListener("pointerup", (event) => {
    if (began === null) return;
    const [start, ended] = [began, timeOf(event)];
    began = null;
    band.hide();
    if (isDrag(start, ended)) narrowTo(Math.min(start, ended), Math.max(start, ended));
    else if (pick) pick(Math.floor(ended / STEP));
  });
  node.addEventListener("pointercancel", () => { began = null; band.hide(); });
  steppable(node, scale, open, band);
}

// The steps that are about to be selected, as a band over a chart and in words.
function timeBand(node, scale) {
  const band = el("div.band");
  return {
    show(event, began, ended) {
      const [from, to] = [Math.floor(Math.min(began, ended) / STEP), Math.floor(Math.max(began, ended) / STEP) + 1];
      const [box, room] = [node.getBoundingClientRect(), node.parentElement.getBoundingClientRect()];
      assign(band, { css: { left: `${box.left - room.left + scale.of(from)}px`, width: `${scale.of(to) - scale.of(from)}px`, top: `${box.top - room.top}px`, height: `${box.height - 20}px` } });
      node.parentElement.append(band);
      tip(event, el("b", { text: stepPeriod(from, to) }), el("div.soft", { text: duration((to - from) * STEP) }));
    },
    hide: () => band.remove(),
  };
}

// A chart that has the focus: arrows go from step to step, Enter opens the step, Shift and arrows select time.
function steppable(node, scale, open, band) {
  let step = null;
  let anchor = null;
  node.setAttribute("tabindex", "0");
  node.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (event.key === "Enter" && step !== null) {
      event.preventDefault();
      band.hide();
      if (anchor !== null && anchor !== step) narrowTo(Math.min(anchor, step) * STEP, Math.max(anchor, step) * STEP);
      else open(step);
      return;
    }
    if (by === undefined) return;
    event.preventDefault();
    const before = step;
    step = step === null ? scale.first : Math.max(scale.first, Math.min(scale.last - 1, step + by));
    anchor = event.shiftKey ? anchor ?? before ?? step : null;
    const box = node.getBoundingClientRect();
    const place = { clientX: box.left + scale.of(step + 0.5), clientY: box.top + box.height / 2 };
    node.dispatchEvent(new PointerEvent("pointermove", { ...place, bubbles: true }));
    if (anchor === null) band.hide();
    else band.show(place, anchor * STEP, step * STEP);
  });
  node.addEventListener("blur", () => { untip(); band.hide(); });
}
