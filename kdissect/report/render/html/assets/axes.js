// Scales and axes that the charts share: all of them have the grid's steps from left to right.

const LEFT = 62;
const RIGHT = 12;

function timeScale(width, left = LEFT, right = RIGHT) {
  const inner = Math.max(width - left - right, 1);
  const x = (ns) => left + (ns / (STEP * STEPS)) * inner;
  return Object.assign(x, { left, right: width - right, inner, step: inner / STEPS, at: (px) => ((px - left) / inner) * STEP * STEPS });
}

const TICKS_NS = [1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 604800].map((s) => s * 1e9)];

function timeTicks(scale) {
  const span = STEP * STEPS;
  const most = Math.max(2, Math.floor(scale.inner / 92));
  const every = TICKS_NS.find((length) => span / length <= most) || TICKS_NS.at(-1);
  const offset = (DATA.grid.start_ms * 1e6) % every;
  const ticks = [];
  for (let tick = offset ? every - offset : 0; tick <= span && ticks.length < 40; tick += every) ticks.push(tick);
  return { at: ticks, label: (ns) => (every >= 864e11 ? day(ns) : every >= 1e9 ? clock(ns, 0) : clock(ns)) };
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

// Bytes are counted in powers of 1024, so their round values are too.
function roundTicks(highest, most, label) {
  const unit = label === size && highest > 1 ? 1024 ** Math.floor(Math.log(highest) / Math.log(1024)) : 1;
  return valueTicks(highest / unit, most).map((value) => value * unit);
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
function selectable(node, scale, pick = null, ofEvent = (event) => event.clientX - node.getBoundingClientRect().left) {
  let began = null;
  node.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    began = scale.at(ofEvent(event));
    node.setPointerCapture(event.pointerId);
  });
  node.addEventListener("pointerup", (event) => {
    if (began === null) return;
    const ended = scale.at(ofEvent(event));
    if (Math.abs(ended - began) * scale.inner > 4 * STEP * STEPS) narrowTo(Math.min(began, ended), Math.max(began, ended));
    else if (pick && ended >= 0 && ended < STEP * STEPS) pick(Math.floor(ended / STEP));
    began = null;
  });
  node.addEventListener("pointercancel", () => { began = null; });
}
