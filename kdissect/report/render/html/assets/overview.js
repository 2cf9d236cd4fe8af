// The figures of the selection, and traffic and errors over time.

function overview(body) {
  const sums = sumsOfAll();
  const exact = isBlank() ? DATA.totals.service : null;
  const p = (mille, name) => (exact ? exact[name] : sums.percentile(mille));
  const topic = filter.topic !== null;
  const figure = (name, value, more) => el("div.figure", {}, el("div.name", { text: name }), el("div.value", {}, value), el("div.more", {}, more || " "));
  fill(body, [el("div.figures", {},
    figure("Exchanges", count(sums.n), [`${rate(sums.n / seconds())} per second `, look("the first exchange", [{ what: "the first of this selection", ref: sums.first }], filter)]),
    topic
      ? figure("Partitions with errors", sums.errors ? el("span.bad", { text: count(sums.errors) }) : "none")
      : figure("Responses with errors", sums.errors ? el("span.bad", { text: count(sums.errors) }) : el("span", { text: "none" }), sums.errors ? [`${share(sums.errors / sums.n)} `, look("errors", () => errorExamples(filter, 12), filter)] : null),
    topic ? figure("Records", count(sums.records), size(sums.recordBytes)) : null,
    figure("Unanswered", sums.unanswered ? el("span.warn", { text: count(sums.unanswered) }) : "none", sums.unanswered ? [isBlank() ? `${unansweredWhy()} ` : "", look("unanswered requests", silentExamples, filter)] : null),
    figure("Mean latency", duration(sums.mean), [`of ${count(sums.timed)} without idle waits`]),
    figure("p50", duration(p(500, "p50")), exact ? "within 0.4 %" : "within 6 %"),
    figure("p99", duration(p(990, "p99")), ["max ", duration(exact ? exact.max : sums.max), sums.slowest !== null ? [" ", look("the slowest", [{ what: "the slowest", ref: sums.slowest }])] : null]),
    figure("Throttled", sums.throttled ? el("span.warn", { text: count(sums.throttled) }) : "none", sums.throttled ? `${duration(sums.throttle * 1e6)} in all` : null))]);
}

function silentExamples() {
  const silent = [...sumsBy((row) => `${row.api} ${row.client}`)].filter(([, sums]) => sums.silent !== null);
  return silent.slice(0, 12).map(([key, sums]) => ({ what: `${apiName(Number(key.split(" ")[0]))}, ${clientName(Number(key.split(" ")[1]))}`, ref: sums.silent }));
}

function unansweredWhy() {
  const { unanswered_closed: closed, unanswered_open: open, unanswered_lossy: lossy } = DATA.totals;
  return [[closed, "connection closed"], [open, "still open"], [lossy, "maybe lost by the capture"]].filter(([number]) => number).map(([number, text]) => `${count(number)} ${text}`).join(", ");
}

const STACKED = 6;

function trafficSection(body) {
  const byApi = sumsBy((row) => row.api, ANY_TIME);
  const ranked = [...byApi].sort((a, b) => b[1].n - a[1].n).map(([api]) => api);
  const own = ranked.slice(0, ranked.length > STACKED + 1 ? STACKED : STACKED + 1);
  const layers = [...own, ...(ranked.length > own.length ? [null] : [])];
  const place = new Map(ranked.map((api, number) => [api, Math.min(number, own.length)]));
  const counts = layers.map(() => new Array(STEPS).fill(0));
  for (const [key, sums] of sumsBy((row, step) => place.get(row.api) * STEPS + step, ANY_TIME)) counts[Math.floor(key / STEPS)][key % STEPS] = sums.n;
  const panel = el("div.panel");
  fill(body, [panel, el("div.key", {}, layers.map((api, number) => el("span", {}, el("i", { css: { background: `var(--s${number})` } }), api === null ? `${ranked.length - own.length} more APIs` : apiName(api))))]);
  stack(panel, counts, layers.map((api) => (api === null ? "more" : apiName(api))), { label: "exchanges per second by API", unit: "exchanges per second", format: rate });
  const bytes = el("div.panel");
  const series = bytesByStep();
  fill(body, [captioned("Bytes per second", series), bytes]);
  lines(bytes, series, size);
  const wrong = el("div.panel");
  fill(body, [captioned("In each step", [["responses with errors", "bad"], ["unanswered requests", "s1"]]), wrong]);
  errorBars(wrong);
}

// counts: for each layer a value of each step; names: those of the layers.
function stack(panel, counts, names, { label, unit, format }) {
  const width = widthOf(panel);
  const height = 190;
  const bottom = height - 22;
  const scale = timeScale(width);
  const tops = new Array(STEPS).fill(0);
  for (const layer of counts) layer.forEach((value, step) => { tops[step] += value; });
  const perSecond = 1e9 / STEP;
  const highest = Math.max(...viewed(tops), 1);
  const y = (value) => bottom - (value / highest) * (bottom - 10);
  const base = new Array(STEPS).fill(0);
  const areas = counts.map((layer, number) => {
    const d = layer.map((value, step) => {
      if (!value) return "";
      const [from, to] = [y(base[step]), y(base[step] + value)];
      base[step] += value;
      return `M${scale.of(step).toFixed(1)} ${from.toFixed(1)}V${to.toFixed(1)}h${Math.max(scale.step - 0.5, 0.8).toFixed(2)}V${from.toFixed(1)}z`;
    }).join("");
    return svg("path", { d, fill: `var(--s${number})`, class: "layer" });
  });
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label },
    valueAxis(scale, (value) => y(value / perSecond), highest * perSecond, format), inside(scale, bottom, areas), timeAxis(scale, bottom));
  replace(panel, chart);
  hovered(chart, scale, (step) => [el("div", { text: `${format(tops[step] * perSecond)} ${unit}` }),
    names.map((name, number) => (counts[number][step] ? el("div.soft", { text: `${name} ${format(counts[number][step] * perSecond)}` }) : null))]);
  selectable(chart, scale, openStep);
}

function bytesByStep() {
  const series = [["to brokers", "s0", new Array(STEPS).fill(0)], ["to clients", "s1", new Array(STEPS).fill(0)]];
  for (const [step, sums] of sumsBy((_, step) => step, ANY_TIME)) {
    series[0][2][step] = (sums.requestBytes * 1e9) / STEP;
    series[1][2][step] = (sums.responseBytes * 1e9) / STEP;
  }
  return series;
}

// A caption names the series of a chart in their colours.
function captioned(title, series) {
  return el("div.caption", {}, el("h3", { text: title }), series.map(([name, hue]) => el("span", {}, el("i.stroke", { css: { background: `var(--${hue})` } }), name)));
}

// series: [name, colour, values (null: not known)]
function lines(panel, series, label, height = 120, left = LEFT) {
  const width = widthOf(panel);
  const bottom = height - 22;
  const scale = timeScale(width, left);
  const highest = Math.max(...series.flatMap(([, , values]) => viewed(values).map((value) => value ?? 0)), 1);
  const y = (value) => bottom - (value / highest) * (bottom - 8);
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": series.map(([name]) => name).join(", ") },
    valueAxis(scale, y, highest, label, 2), timeAxis(scale, bottom),
    inside(scale, bottom, series.map(([, hue, values]) => svg("path", { d: pathOf(values, scale, y), fill: "none", stroke: `var(--${hue})`, "stroke-width": 1.75, "stroke-linejoin": "round" }))));
  replace(panel, chart);
  hovered(chart, scale, (step) => series.map(([name, , values]) => el("div", { text: `${name}: ${values[step] === null ? "not known" : label(values[step])}` })));
  selectable(chart, scale, openStep);
}

function pathOf(values, scale, y) {
  let line = "";
  let pen = false;
  values.forEach((value, step) => {
    if (value === null) {
      pen = false;
      return;
    }
    line += `${pen ? "L" : "M"}${scale.of(step + 0.5).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = true;
  });
  return line;
}

function hovered(chart, scale, tell) {
  chart.addEventListener("pointermove", (event) => {
    const step = Math.floor(scale.at(event.clientX - chart.getBoundingClientRect().left) / STEP);
    if (!scale.shows(step)) return untip();
    tip(event, el("b", { text: stepClock(step) }), tell(step));
  });
  chart.addEventListener("pointerleave", untip);
}

function errorBars(panel) {
  const errors = new Array(STEPS).fill(0);
  const silent = new Array(STEPS).fill(0);
  for (const [step, sums] of sumsBy((_, step) => step, ANY_TIME)) [errors[step], silent[step]] = [sums.errors, sums.unanswered || 0];
  const highest = Math.max(...viewed(errors.map((value, step) => value + silent[step])));
  if (!highest) return fill(panel, [el("p.empty.good", { text: "None: every request has a response, and no response carries an error." })]);
  const width = widthOf(panel);
  const height = 84;
  const bottom = height - 20;
  const scale = timeScale(width);
  const y = (value) => bottom - (value / highest) * (bottom - 8);
  const bar = (values, over, fill) => svg("path", { fill, d: values.map((value, step) => (value ? `M${scale.of(step).toFixed(1)} ${y(over ? over[step] : 0).toFixed(1)}V${y(value + (over ? over[step] : 0)).toFixed(1)}h${Math.max(scale.step - 0.5, 1.5).toFixed(2)}V${y(over ? over[step] : 0).toFixed(1)}z` : "")).join("") });
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": "errors and unanswered requests by time" },
    valueAxis(scale, y, highest, count, 2), inside(scale, bottom, bar(errors, null, "var(--bad)"), bar(silent, errors, "var(--s1)")), timeAxis(scale, bottom));
  replace(panel, chart);
  hovered(chart, scale, (step) => `${plural(errors[step], "error")}, ${count(silent[step])} unanswered`);
  selectable(chart, scale, openStep);
}
