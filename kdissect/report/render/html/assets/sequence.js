// The exchanges of a connection as a sequence diagram: the client on the left, the broker on the right.

const MOST_ARROWS = 40;
const ARROW_ROOM = 26;

function sequenceParts(connection, around) {
  const all = BY_CONNECTION.get(connection) || [];
  const at = Math.max(0, all.indexOf(EXAMPLES[around]));
  const first = Math.max(0, Math.min(at - MOST_ARROWS / 4, all.length - MOST_ARROWS / 2));
  const rows = all.slice(first, first + MOST_ARROWS / 2);
  if (!rows.length) return [el("p.soft", { text: "No exchange of this connection is in this file." })];
  const panel = el("div.panel");
  after(() => drawSequence(panel, rows, EXAMPLES[around]));
  const known = rows[0].ordinal === null || rows.at(-1).ordinal === null ? rows.length : rows.at(-1).ordinal - rows[0].ordinal + 1;
  return [
    el("p.ends", {}, el("span.mono", { text: shown(clientEnd(rows[0])) }), " → ", el("span.mono", { text: shown(serverEnd(rows[0])) }), " · ", clientName(rows[0].client)),
    el("p.soft", { text: `${plural(rows.length, "exchange")}${known > rows.length ? ` of ${count(known)} in this time` : ""}. A press on an arrow opens its exchange.` }),
    panel,
    el("div.row", {}, el("div.soft.label", { text: "All exchanges of the connection" }), code(`kdissect dump ${allFiles()} --brief --connection ${connection}`), el("div.soft.label", { text: "Its packets" }), code(connectionFilter(rows[0]))),
  ];
}

// Each message is an arrow, in the order of time; a request without a response ends in a cross.
function drawSequence(panel, rows, here) {
  const width = widthOf(panel);
  const [left, right] = [DATED ? 150 : 86, width - 12];
  const messages = rows.flatMap((row) => [
    row.request_first_ns === null ? null : { row, at: row.request_first_ns, out: true, text: nameOfExchange(row), ref: row.request },
    row.response_first_ns === null ? null : { row, at: row.response_first_ns, out: false, text: [row.latency_ns === null ? "" : duration(row.latency_ns), outcome(row)].filter(Boolean).join("  "), ref: row.response },
  ]).filter(Boolean).sort((a, b) => a.at - b.at);
  const height = 30 + messages.length * ARROW_ROOM;
  const chart = svg("svg", { class: "chart sequence", viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": "messages in the order of time" },
    [["client", left, "start"], ["broker", right, "end"]].map(([name, x, anchor]) => [svg("line", { class: "frame", x1: x, x2: x, y1: 16, y2: height }), svg("text", { x, y: 10, "text-anchor": anchor }, name)]),
    messages.map((message, number) => arrow(message, 30 + number * ARROW_ROOM, left, right, message.row === here)));
  replace(panel, chart);
}

function arrow({ row, at, out, text, ref }, y, left, right, here) {
  const [from, to] = out ? [left, right] : [right, left];
  const hue = isWrong(row) ? "var(--bad)" : out ? "var(--s0)" : "var(--s1)";
  const tip_ = out ? -6 : 6;
  const open = () => showDrawer({ exchange: row.request ?? row.response });
  return svg("g", { class: `message${here ? " here" : ""}`, role: "button", tabindex: 0, "aria-label": `${clockMicros(at)} ${out ? "request" : "response"} ${nameOfExchange(row)} ${text}`, onclick: open, onkeydown: (event) => { if (event.key === "Enter") { event.preventDefault(); open(); } } },
    svg("rect", { x: 0, y: y - 16, width: right + 10, height: ARROW_ROOM - 2, fill: here ? "var(--accent-ground)" : "transparent" }),
    svg("text", { x: 0, y: y + 4, class: "at" }, clock(at)),
    svg("line", { x1: from, x2: to, y1: y, y2: y, stroke: hue, "stroke-width": 1.5, "stroke-dasharray": out ? null : "5 3" }),
    svg("path", { d: `M${to} ${y}l${tip_} -4v8z`, fill: hue }),
    out && row.status === "unanswered" ? svg("path", { d: `M${to - 22} ${y - 4}l8 8m0 -8l-8 8`, stroke: "var(--bad)", "stroke-width": 2 }) : null,
    svg("text", { x: (left + right) / 2, y: y - 5, "text-anchor": "middle", class: isWrong(row) && !out ? "label wrong" : "label" }, cut(text || "response", (right - left) / 7)));
}
