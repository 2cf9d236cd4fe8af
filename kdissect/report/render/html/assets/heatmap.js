// Latency by time: how many exchanges took how long in each step, on a logarithmic scale, with p50 and p99 of each step.

const RAMPS = {
  light: ["#eaf2f8", "#c3dcee", "#8fc0e0", "#559fcc", "#2278b2", "#0b5490", "#063566"],
  dark: ["#14283a", "#1b4464", "#24658f", "#3d8cba", "#6cb3d8", "#a9d6ea", "#eaf6fb"],
};

const heat = { api: null, idle: false };

function heatSection(body) {
  const api = filter.api !== null ? filter.api : heat.api;
  const scope = { ...filter, api };
  const idle = heat.idle;
  const steps = addUp(scope, (row, step) => (row.idle === (idle ? 1 : 0) ? step : undefined));
  const tools = el("div.head", {},
    el("select.picker", { "aria-label": "API", disabled: filter.api !== null, onchange: (event) => { heat.api = event.target.value === "" ? null : Number(event.target.value); redraw("latency"); } },
      el("option", { value: "", selected: api === null }, "All APIs"),
      DATA.apis.map((row, number) => (row.all.service || row.all.idle ? el("option", { value: number, selected: api === number }, apiName(number)) : null))),
    el("span.seg", { role: "group", "aria-label": "kind of wait" },
      [["Service time", false], ["Idle waits", true]].map(([text, value]) => el("button", { type: "button", "aria-pressed": String(idle === value), text, onclick: () => { heat.idle = value; redraw("latency"); } }))),
    el("span.about", { text: idle ? "long polls without data, joins and syncs, which wait on purpose" : "from the last byte of a request to the first byte of its response" }));
  const cells = [...steps.values()].flatMap((sums) => [...(idle ? sums.idleCells : sums.cells).keys()]);
  if (!cells.length) return fill(body, [tools, el("p.empty", { text: "No exchange here has a latency." })]);
  const panel = el("div.panel");
  fill(body, [tools, panel, heatKey()]);
  drawHeat(panel, steps, Math.min(...cells), Math.max(...cells) + 1, idle, scope);
}

const heatKey = () => el("div.key", {},
  el("span", {}, el("i.stroke", { css: { background: "var(--ink)" } }), "p99 of each step; the slowest if there are few"),
  el("span", {}, el("i.stroke", { css: { background: "var(--s1)" } }), "p50"),
  el("span", {}, RAMPS[theme()].map((colour) => el("i", { css: { background: colour, "margin-right": "1px", "border-radius": "0" } })), " few to many, logarithmic"));

function drawHeat(panel, steps, low, high, idle, scope) {
  const width = widthOf(panel);
  const height = innerWidth > 640 ? 300 : 220;
  const bottom = height - 24;
  const scale = timeScale(width);
  // At least a decade is shown, so that steady traffic does not look unsteady.
  const [from, to] = spread(Math.log10(Math.max(cellLow(low), 1)), Math.log10(Math.max(cellLow(high), 2)));
  const y = (ns) => bottom - ((Math.log10(Math.max(ns, 1)) - from) / (to - from)) * (bottom - 8);
  const canvas = el("canvas.heat", { width: width * 2, height: height * 2, role: "img", "aria-label": "heat map of latency by time", css: { height: `${height}px` } });
  const brush = canvas.getContext("2d");
  brush.scale(2, 2);
  const most = Math.max(...[...steps.values()].flatMap((sums) => [...(idle ? sums.idleCells : sums.cells).values()]));
  const ramp = RAMPS[theme()];
  for (const [step, sums] of steps) {
    for (const [cell, number] of idle ? sums.idleCells : sums.cells) {
      const weight = most > 1 ? Math.log(number) / Math.log(most) : 1;
      brush.fillStyle = ramp[Math.min(ramp.length - 1, 1 + Math.floor(weight * (ramp.length - 1)))];
      const [top, base] = [y(cellLow(cell + 1)), y(cellLow(cell))];
      brush.fillRect(scale.of(step), top, Math.max(scale.step - 0.4, 1), Math.max(base - top - 0.3, 1.5));
    }
  }
  const decades = [];
  for (let power = Math.ceil(from); power <= to; power += 1) decades.push(10 ** power);
  const over = svg("svg", { class: "over chart", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    decades.map((value) => [
      svg("line", { class: "axis", x1: scale.left, x2: scale.right, y1: y(value), y2: y(value) }),
      svg("text", { x: scale.left - 6, y: y(value) + 4, "text-anchor": "end" }, withoutZeros(duration(value))),
    ]),
    timeAxis(scale, bottom),
    svg("path", { d: stepLine(steps, 500, idle, scale, y), fill: "none", stroke: "var(--s1)", "stroke-width": 2 }),
    svg("path", { d: stepLine(steps, 990, idle, scale, y), fill: "none", stroke: "var(--ink)", "stroke-width": 1.5 }));
  fill(panel, [canvas, over]);
  canvas.addEventListener("pointermove", (event) => heatTip(event, canvas, scale, y, steps, idle));
  canvas.addEventListener("pointerleave", untip);
  canvas.addEventListener("click", (event) => {
    const target = heatAt(event, canvas, scale, y, steps, idle);
    if (target) openPackets(`${duration(cellLow(target.cell))} to ${duration(cellLow(target.cell + 1))} at ${stepClock(target.step)}`, heatExamples(scope, target, idle), { ...scope, from: target.step, to: target.step + 1 });
  });
  selectable(canvas, scale, null, openStep);
}

function spread(low, high) {
  const missing = 1 - (high - low);
  return missing > 0 ? [low - missing / 2, high + missing / 2] : [low, high];
}

// Lines are level within a step, and broken at steps without exchanges.
function stepLine(steps, mille, idle, scale, y) {
  let line = "";
  for (let step = 0; step < STEPS; step += 1) {
    const sums = steps.get(step);
    const value = sums ? sums.percentile(mille, idle) : null;
    if (value === null) continue;
    const x = scale.of(step);
    const joined = steps.has(step - 1) && steps.get(step - 1).percentile(mille, idle) !== null;
    line += `${joined ? "L" : "M"}${x.toFixed(1)} ${y(value).toFixed(1)}H${(x + scale.step).toFixed(1)}`;
  }
  return line;
}

function heatAt(event, canvas, scale, y, steps, idle) {
  const box = canvas.getBoundingClientRect();
  const step = Math.floor(scale.at(event.clientX - box.left) / STEP);
  const sums = steps.get(step);
  if (!sums) return null;
  const py = event.clientY - box.top;
  const cell = [...(idle ? sums.idleCells : sums.cells).keys()].find((low) => py <= y(cellLow(low)) + 1 && py >= y(cellLow(low + 1)) - 1);
  return cell === undefined ? { step, sums } : { step, sums, cell };
}

function heatTip(event, canvas, scale, y, steps, idle) {
  const target = heatAt(event, canvas, scale, y, steps, idle);
  if (!target) return untip();
  const { sums, step, cell } = target;
  tip(event, el("b", { text: stepClock(step) }),
    cell === undefined ? null : el("div", { text: `${plural((idle ? sums.idleCells : sums.cells).get(cell), "exchange")} took ${duration(cellLow(cell))} to ${duration(cellLow(cell + 1))}` }),
    el("div.soft", { text: `p50 ${duration(sums.percentile(500, idle))}, p99 ${duration(sums.percentile(990, idle))} of ${count(idle ? sums.idleTimed : sums.timed)}` }));
}

function heatExamples(scope, target, idle) {
  if (target.cell === undefined) return examplesOf(target.sums);
  const examples = [];
  for (const row of scope.topic === null ? SERIES : TOPIC_SERIES) {
    if (row.idle !== (idle ? 1 : 0) || !admits(scope, row)) continue;
    for (const [step, , cells] of row.steps) {
      for (let place = 0; step === target.step && place < cells.length; place += 3) {
        if (cells[place] === target.cell) examples.push({ what: `${apiName(row.api)}, ${clientName(row.client)} on ${brokerName(row.broker)} (${count(cells[place + 1])})`, ref: cells[place + 2] });
      }
    }
  }
  return examples.slice(0, 20);
}
