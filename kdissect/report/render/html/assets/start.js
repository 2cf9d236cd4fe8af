// The sections in their order, the filters of each, and the first drawing.

const EVERYTHING = ["time", "api", "client", "broker", "connection", "topic", "group"];
const SECTIONS = [
  ...(DATA.incidents.length ? [{ id: "incidents", title: "Incidents", about: "greatest impact first", moves: ["time"], draw: incidentsSection, bare: true }] : []),
  { id: "findings", title: "Findings", about: "most severe first", moves: ["time", "client", "broker", "connection"], draw: findingsSection, bare: true },
  { id: "overview", title: "Figures", about: "of the selection", moves: EVERYTHING, draw: overview },
  { id: "traffic", title: "Traffic and errors", short: "Traffic", about: () => `in steps of ${duration(STEP)}, times in UTC`, moves: EVERYTHING, draw: trafficSection },
  { id: "latency", title: "Latency", about: "latency over time, darker where there are more exchanges", moves: EVERYTHING, draw: heatSection },
  { id: "split", title: "Where time goes", about: "network, broker and waits", moves: EVERYTHING, draw: splitSection },
  { id: "profile", title: "Profile by API", short: "Profile", about: "ranked by service time", moves: EVERYTHING, draw: profileSection },
  { id: "errors", title: "Errors", about: "by API and code; an exchange with two codes counts under both", moves: ["time", "api", "client", "broker", "connection", "group"], draw: errorsSection },
  { id: "clients", title: "Clients", about: "by client id and host", moves: EVERYTHING, draw: clientsSection },
  { id: "brokers", title: "Brokers", about: "", moves: EVERYTHING, draw: brokersSection },
  { id: "topics", title: "Topics", about: "who writes, who reads", moves: ["time", "api", "client", "broker", "topic", "group"], draw: topicsSection },
  { id: "groups", title: "Consumer groups", short: "Groups", about: "members, rebalances, lag", moves: ["time", "client", "group"], draw: groupsSection },
  { id: "producers", title: "Producers and transactions", short: "Producers", about: "producer ids, sequences, outcomes; figures of the whole capture", moves: ["client"], draw: producersSection },
  { id: "connections", title: "Connections", about: "TCP figures of the whole connection", moves: ["time", "client", "broker", "connection", "group"], draw: connectionsSection, bare: true },
  { id: "capture", title: "The capture", short: "Capture", about: "and what is missing or uncertain in it", moves: [], draw: qualitySection, whole: true, bare: true },
].filter((section) => section.bare || DATA.totals.n); // without any exchange there is nothing else to draw

const drawn = new Map();

function redraw(id) {
  const section = SECTIONS.find((row) => row.id === id);
  const body = drawn.get(id);
  const focused = focusPath(body);
  replace(body, unmoved(section));
  section.draw(body);
  const late = pending;
  pending = [];
  for (const draw of late) draw();
  refocus(body, focused);
}

// The focus is restored after a section was drawn again.
function focusPath(body) {
  const node = document.activeElement;
  if (!body.contains(node)) return null;
  const name = focusName(node);
  return { tag: node.tagName, name, number: [...body.querySelectorAll(node.tagName)].filter((other) => focusName(other) === name).indexOf(node) };
}

// The texts of a chart change with its axis, so a label goes before them.
const focusName = (node) => node.getAttribute("aria-label") || node.textContent;

function refocus(body, path) {
  if (!path) return;
  const same = [...body.querySelectorAll(path.tag)].filter((node) => focusName(node) === path.name);
  if (same.length) same[Math.min(path.number, same.length - 1)].focus({ preventScroll: true });
}

function unmoved(section) {
  if (section.whole) return null;
  const names = Object.keys(BLANK).filter((name) => filter[name] !== null && name !== "to").map((name) => (name === "from" ? "time" : name)).filter((name) => !section.moves.includes(name) || (name === "connection" && filter.topic !== null && section.moves.includes("topic")));
  return names.length ? el("p.unmoved", { text: `Not narrowed by ${names.map((name) => LABELS[name]).join(", ")}.` }) : null;
}

function theme() {
  return document.documentElement.dataset.theme;
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
}

function drawTop() {
  const { capture, totals, traffic } = DATA;
  const names = capture.files.map((text) => shown(text));
  const button = el("button.quiet", { type: "button" });
  const label = () => { button.textContent = theme() === "dark" ? "Light" : "Dark"; };
  button.addEventListener("click", () => {
    setTheme(theme() === "dark" ? "light" : "dark");
    label();
    redraw("latency");
  });
  label();
  const kafka = traffic.protocols.filter((row) => row.protocol.startsWith("kafka")).reduce((sum, row) => sum + row.connections, 0);
  const facts = [
    capture.first === null ? null : `${DATED ? "" : `${day(capture.first)} `}${period(capture.first, capture.last)} UTC`,
    capture.first === null ? null : duration(capture.last - capture.first),
    plural(capture.packets, "packet"), plural(totals.n, "exchange"), plural(kafka, "Kafka connection"),
    plural(DATA.clients.length + DATA.omitted.clients, "client"), plural(DATA.brokers.length + DATA.omitted.brokers, "broker"),
  ];
  replace(byId("top"), el("div.wide", {}, el("div", {}, el("div.brand", { text: "kdissect" }),
    el("h1", { text: names.length === 1 ? names[0] : `${count(names.length)} captures` }),
    el("p.meta", {}, facts.filter(Boolean).map((text) => el("span", { text }))),
    DATA.filters.length ? el("p.meta.warn", { text: `Filters: ${DATA.filters.map((row) => `${row.option} ${row.values.map((text) => shown(text)).join(", ")}`).join("; ")}` }) : null), button));
  replace(byId("foot"), el("div.wide", {}, el("p", { text: `Made by kdissect ${DATA.kdissect}. Latency is from the last byte of a request to the first byte of its response, as captured; percentiles are nearest-rank, of the whole capture within 0.4 %, of a selection within 6 %. Packet numbers count as Wireshark does, from 1 in each file. This file makes no network requests.` })));
}

function start() {
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  drawTop();
  const main = el("div.wide");
  for (const section of SECTIONS) {
    const body = el("div");
    drawn.set(section.id, body);
    fill(main, [el("section", { id: section.id, "aria-labelledby": `${section.id}-title` },
      el("div.head", {}, el("h2", { id: `${section.id}-title`, text: section.title }), el("span.about", { text: typeof section.about === "function" ? section.about() : section.about })), body)]);
  }
  replace(byId("main"), main);
  drawBar();
  const drawAll = () => SECTIONS.forEach((section) => redraw(section.id));
  watchers.push(drawAll);
  drawAll();
  restoreView();
  addEventListener("popstate", restoreView);
  // Charts are as wide as their place: they are drawn again when that changes.
  let width = main.clientWidth;
  new ResizeObserver(() => {
    if (main.clientWidth === width) return;
    width = main.clientWidth;
    drawAll();
    drawBrush(document.querySelector(".brush"));
  }).observe(main);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
    setTheme(event.matches ? "dark" : "light");
    drawTop();
    redraw("latency");
  });
  let shownTheme = theme();
  addEventListener("beforeprint", () => {
    shownTheme = theme();
    for (const node of document.querySelectorAll("details.finding")) node.open = true;
    if (shownTheme === "light") return;
    setTheme("light");
    redraw("latency");
  });
  addEventListener("afterprint", () => {
    if (shownTheme === theme()) return;
    setTheme(shownTheme);
    redraw("latency");
  });
}

start();
