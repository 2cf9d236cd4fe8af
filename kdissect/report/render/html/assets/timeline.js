// The bar that stays on top: traffic and errors over the whole capture, and the selected range of time.

const BRUSH_LEFT = 0;

function drawBar() {
  const bar = byId("bar");
  const chips = el("div.chips");
  const brush = el("div.brush", { "aria-label": "Range of time" });
  const links = SECTIONS.map((section) => el("a", { href: `#${section.id}`, text: section.short || section.title, onclick: (event) => { event.preventDefault(); goTo(section.id); } }));
  replace(bar, el("div.wide", {}, brush, el("div.controls", {}, el("nav.nav", { "aria-label": "Sections" }, links), chips, searchBox())));
  brushOn(brush);
  watchers.push(() => drawChips(chips), () => drawBrush(brush));
  drawChips(chips);
  drawBrush(brush);
}

function drawChips(chips) {
  const names = selectedNames();
  replace(chips,
    names.map(([name, text, without]) => el("button.chip", { type: "button", "aria-label": `remove ${text}`, onclick: () => change(without) }, el("span", { text }))),
    filter.from === null ? null : el("button.link", { type: "button", text: "Whole capture", title: "Escape", onclick: () => change({ from: null, to: null }) }),
    names.length > 1 ? el("button.link", { type: "button", text: "Clear all", onclick: () => change({ ...BLANK }) }) : null);
}

function countsByStep() {
  const all = new Array(STEPS).fill(0);
  const bad = new Array(STEPS).fill(0);
  for (const [step, sums] of sumsBy((_, step) => step, ANY_TIME)) [all[step], bad[step]] = [sums.n, sums.errors + (sums.unanswered || 0)];
  return { all, bad };
}

function drawBrush(node) {
  const width = widthOf(node);
  const tall = innerWidth > 640;
  const height = tall ? 74 : 54;
  const scale = timeScale(width, BRUSH_LEFT, 0, true);
  const { all, bad } = countsByStep();
  const base = height - 24;
  const highest = Math.max(...all, 1);
  const y = (value) => base - (value / highest) * (base - 16);
  const bars = all.map((value, step) => (value ? `M${(scale.left + step * scale.step).toFixed(2)} ${base}V${y(value).toFixed(2)}h${Math.max(scale.step - 0.6, 0.8).toFixed(2)}V${base}z` : "")).join("");
  const marks = bad.map((value, step) => (value ? `M${(scale.left + step * scale.step).toFixed(2)} ${base + 2}h${Math.max(scale.step - 0.6, 1.4).toFixed(2)}v3h-${Math.max(scale.step - 0.6, 1.4).toFixed(2)}z` : "")).join("");
  replace(node, svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "false", role: "group" },
    svg("path", { class: "bars", d: bars, fill: "var(--s0)", "fill-opacity": 0.55 }),
    svg("path", { class: "marks", d: marks, fill: "var(--bad)" }),
    timeAxis(scale, base),
    svg("text", { x: 0, y: 10, class: "label", fill: "var(--soft)", "font-size": 12 }, `exchanges in ${duration(STEP)}, at most ${count(Math.max(...all))}${width > 760 && isBlank() ? ". Drag over a chart to select time, or choose a row: the rest follows." : ""}`),
    bad.some(Boolean) ? svg("text", { x: width, y: 10, "text-anchor": "end", fill: "var(--bad)", "font-size": 12 }, tall ? "red: steps with errors or unanswered requests" : "red: errors") : null,
    veil(scale, base - 9, 14),
    handle(scale, "from", base), handle(scale, "to", base)));
  node.firstChild.classList.add("chart");
}

function handle(scale, edge, height) {
  const step = filter[edge] === null ? (edge === "from" ? 0 : STEPS) : filter[edge];
  const x = Math.min(Math.max(scale.left + step * scale.step, 2), scale.right - 2);
  const node = svg("g", {
    class: `handle ${edge}`, role: "slider", tabindex: 0, "aria-label": edge === "from" ? "begin of the range" : "end of the range",
    "aria-valuemin": 0, "aria-valuemax": STEPS, "aria-valuenow": step, "aria-valuetext": stepClock(step), "data-side": edge,
  },
  svg("rect", { x: x - 10, y: 0, width: 20, height: height + 5, fill: "transparent", cursor: "ew-resize" }),
  svg("line", { x1: x, x2: x, y1: 14, y2: height + 4, stroke: "var(--accent)", "stroke-width": filter[edge] === null ? 1.5 : 2.5, "stroke-opacity": filter[edge] === null ? 0.35 : 1, "pointer-events": "none" }),
  svg("rect", { x: x - 3.5, y: height / 2 - 3, width: 7, height: 18, rx: 2.5, fill: "var(--accent)", "fill-opacity": filter[edge] === null ? 0.5 : 1, "pointer-events": "none" }));
  node.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
    const to = event.key === "Home" ? 0 : event.key === "End" ? STEPS : by === undefined ? null : step + by;
    if (to === null) return;
    event.preventDefault();
    moveSide(edge, to);
    document.querySelector(`.handle.${edge}`).focus();
  });
  return node;
}

function moveSide(edge, to) {
  const range = { from: filter.from ?? 0, to: filter.to ?? STEPS };
  range[edge] = edge === "from" ? Math.max(0, Math.min(to, range.to - 1)) : Math.min(STEPS, Math.max(to, range.from + 1));
  change(range.from === 0 && range.to === STEPS ? { from: null, to: null } : range);
}

function brushOn(node) {
  const stepAt = (event) => {
    const box = node.getBoundingClientRect();
    return ((event.clientX - box.left) / box.width) * STEPS;
  };
  let drag = null;
  node.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    const grip = event.target.closest("[data-side]");
    const place = stepAt(event);
    drag = grip && filter.from !== null ? { side: grip.getAttribute("data-side") } : { anchor: place, x: event.clientX };
    node.setPointerCapture(event.pointerId);
  });
  node.addEventListener("pointermove", (event) => {
    const place = stepAt(event);
    if (!drag) return hoverStep(event, Math.floor(place));
    if (drag.side) moveSide(drag.side, Math.round(place));
    else if (Math.abs(event.clientX - drag.x) > 4) {
      const [low, high] = [Math.min(place, drag.anchor), Math.max(place, drag.anchor)];
      const from = Math.max(0, Math.floor(low));
      const to = Math.min(STEPS, Math.max(Math.ceil(high), from + 1));
      if (from !== filter.from || to !== filter.to) change({ from, to });
    }
  });
  node.addEventListener("pointerup", (event) => {
    if (drag && drag.anchor !== undefined && Math.abs(event.clientX - drag.x) <= 4 && filter.from !== null) change({ from: null, to: null });
    drag = null;
  });
  node.addEventListener("pointercancel", () => { drag = null; });
  node.addEventListener("pointerleave", untip);
}

function hoverStep(event, step) {
  if (step < 0 || step >= STEPS) return untip();
  const sums = sumsBy((_, number) => (number === step ? 0 : undefined), ANY_TIME).get(0);
  tip(event, el("b", { text: `${stepClock(step)} + ${duration(STEP)}` }),
    sums ? [`${plural(sums.n, "exchange")}`, sums.errors ? `, ${plural(sums.errors, "error")}` : "", sums.unanswered ? `, ${count(sums.unanswered)} unanswered` : ""] : "nothing");
}
