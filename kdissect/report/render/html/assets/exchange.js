// A single exchange in full: its messages as fields, its times, its packets, its neighbours, and commands to copy.

const rowOf = (names, values) => Object.fromEntries(names.map((name, at) => [name, values[at]]));
const EXAMPLE_CONNECTIONS = DATA.examples.connections.map((values) => rowOf(DATA.examples.connection_columns, values));
const ORDINARY = { status: "answered", idle_wait: false, in_flight: 1, error_code: null, error_name: null, error_count: 0, throttle_ms: null, acks: null, replica_id: null, group_id: null, generation: null, transactional_id: null, fault: null, partitions: [] };
const EXAMPLE_TIMES = ["request_first_ns", "request_last_ns", "response_first_ns", "response_last_ns"];

// The times of a row count from its first time, and its connection is a number in a list.
function exampleOf(values) {
  const row = { ...ORDINARY, ...rowOf(DATA.examples.columns, values), ...values[DATA.examples.columns.length] };
  const [first, ...later] = EXAMPLE_TIMES.filter((name) => row[name] !== null);
  for (const name of later) row[name] += row[first];
  const { number: connection, ...ends } = EXAMPLE_CONNECTIONS[row.connection];
  const latency = row.request_last_ns === null || row.response_first_ns === null ? null : row.response_first_ns - row.request_last_ns;
  return { ...row, ...ends, connection, latency_ns: latency !== null && latency >= 0 ? latency : null };
}

const EXAMPLES = DATA.examples.rows.map(exampleOf);
const EXAMPLE_OF = new Map(EXAMPLES.flatMap((row, at) => [row.request, row.response].filter((ref) => ref !== null).map((ref) => [ref, at])));
const NEIGHBOURS = 4; // shown before and after an exchange

const clockMicros = (ns) => clock(ns) + String(Math.floor(ns / 1e3) % 1000).padStart(3, "0");
const beginOf = (row) => row.request_first_ns ?? row.response_first_ns;

const BY_CONNECTION = new Map();
const CONNECTION_IDS = Object.fromEntries(EXAMPLES.map((row) => [row.place, row.connection])); // by their place in the list
for (const row of EXAMPLES) {
  if (!BY_CONNECTION.has(row.connection)) BY_CONNECTION.set(row.connection, []);
  BY_CONNECTION.get(row.connection).push(row);
}
for (const rows of BY_CONNECTION.values()) rows.sort((a, b) => beginOf(a) - beginOf(b) || (a.ordinal ?? -1) - (b.ordinal ?? -1));

const nameOfExchange = (row) => `${row.api < 0 ? "Response without request" : apiName(row.api)}${row.api_version === null ? "" : ` v${row.api_version}`}`;
const clientEnd = (row) => hostPort(row.client_host, row.client_port);
const serverEnd = (row) => hostPort(row.server_host, row.server_port);
const isWrong = (row) => Boolean(row.error_code) || row.status === "unanswered";

function outcome(row) {
  if (row.error_code) return row.error_name || errorName(row.error_code);
  return { unanswered: "no response", no_response_expected: "no response expected", orphan_response: "no request in the capture" }[row.status] || "";
}

// The parts of the drawer of an exchange.
function exchangeParts(row) {
  return [
    el("p.ends", {}, el("span.mono", { text: shown(clientEnd(row)) }), " → ", el("span.mono", { text: shown(serverEnd(row)) }), " · ", clientName(row.client)),
    outcome(row) ? el(isWrong(row) ? "p.outcome.bad" : "p.outcome.soft", { text: shown(outcome(row)) }) : null,
    timesOf(row),
    el("div.row", {}, el("h3", { text: "Request" }), row.request_first_ns === null ? el("p.soft", { text: "The request was not captured." }) : fields(requestFields(row))),
    el("div.row", {}, el("h3", { text: "Response" }), row.response_first_ns === null ? el("p.soft", { text: "There is no response in the capture." }) : fields(responseFields(row))),
    row.partitions.length ? el("div.row", {}, el("h3", { text: "Partitions" }), partitionsOf(row)) : null,
    neighbours(row),
    commandsOf(row),
  ];
}

const fields = (pairs) => el("dl.fields", {}, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => [el("dt", { text: name }), el("dd", {}, value)]));

function packetOf(ref) {
  const place = placeOf(ref);
  return place ? [`${place.packet}`, FILES > 1 ? el("span.soft", { text: ` of ${shown(place.file)}` }) : null] : null;
}

const ACKS = { "-1": "-1 (all)", 0: "0 (none)", 1: "1 (leader)" };

const requestFields = (row) => [
  ["packet", packetOf(row.request)], ["size", size(row.request_bytes)], ["API", nameOfExchange(row)], ["correlation id", row.correlation_id === null ? null : String(row.correlation_id)],
  ["client id", row.client < 0 || DATA.clients[row.client].id === null ? null : clientName(row.client)], ["group", row.group_id === null ? null : shown(row.group_id)], ["generation", row.generation === null ? null : String(row.generation)],
  ["transactional id", row.transactional_id === null ? null : shown(row.transactional_id)], ["acks", row.acks === null ? null : ACKS[row.acks] || String(row.acks)],
  ["follower", row.replica_id === null ? null : `broker ${row.replica_id}`], ["in flight", row.in_flight > 1 ? `${row.in_flight} on this connection` : null],
  ["number", row.ordinal === null ? null : `${row.ordinal} on its connection`],
];

const responseFields = (row) => [
  ["packet", packetOf(row.response)], ["size", size(row.response_bytes)],
  ["error", row.error_name === null && row.error_code === null ? null : row.error_code ? el("span.bad", { text: `${row.error_code} ${shown(row.error_name)}${row.error_count > 1 ? `, ${count(row.error_count)} times` : ""}` }) : "none"],
  ["throttled", row.throttle_ms > 0 ? el("span.warn", { text: duration(row.throttle_ms * 1e6) }) : null],
  ["cannot be decoded", row.fault === null ? null : el("span.bad", { text: shown(row.fault) })],
];

function partitionsOf(row) {
  const tell = (one) => [one.partition === undefined ? "" : `-${one.partition}`, one.offset === undefined ? "" : ` offset ${one.offset}`, one.records ? `, ${plural(one.records, "record")} (${size(one.record_bytes || 0)})` : ""].join("");
  return el("ul.plain", {}, row.partitions.map((one) => el("li", {}, el("span.mono", { text: shown(one.topic) }), tell(one), one.error_code ? el("span.bad", { text: ` ${errorName(one.error_code)}` }) : null)));
}

// First and last byte both ways, on one line of time.
function timesOf(row) {
  const points = [["first byte of the request", row.request_first_ns], ["last byte of the request", row.request_last_ns], ["first byte of the response", row.response_first_ns], ["last byte of the response", row.response_last_ns]].filter(([, at]) => at !== null);
  const [begin, end] = [Math.min(...points.map(([, at]) => at)), Math.max(...points.map(([, at]) => at))];
  const part = (from, to, hue, text) => (from === null || to === null ? null : el("i", { title: `${text}: ${duration(to - from)}`, css: { left: `${(100 * (from - begin)) / Math.max(end - begin, 1)}%`, width: `${Math.max((100 * (to - from)) / Math.max(end - begin, 1), 0.6)}%`, background: `var(--${hue})` } }));
  return el("div.row", {},
    el("div.what", {}, row.latency_ns === null ? "Latency not known" : [`Latency ${duration(row.latency_ns)}`, row.idle_wait ? el("span.soft", { text: " (a wait by design)" }) : null]),
    el("div.span", { "aria-hidden": "true" }, part(row.request_first_ns, row.request_last_ns, "s0", "request"), part(row.request_last_ns, row.response_first_ns, "s6", "latency"), part(row.response_first_ns, row.response_last_ns, "s1", "response")),
    el("table.times", {}, el("tbody", {}, points.map(([name, at]) => el("tr", {}, el("td.t", { text: name }), el("td.n", { text: clockMicros(at) }), el("td.n.soft", { text: at === begin ? "" : `+${duration(at - begin)}` }))))));
}

// What came before and after on the connection, as far as this file has it.
function neighbours(row) {
  const all = BY_CONNECTION.get(row.connection);
  const at = all.indexOf(row);
  const near = all.slice(Math.max(0, at - NEIGHBOURS), at + NEIGHBOURS + 1);
  return el("div.row", {}, el("h3", { text: "On this connection" }),
    el("ol.near", {}, near.flatMap((one, number) => [number ? gap(near[number - 1], one) : null, neighbour(one, one === row)])),
    el("div.acts", {}, el("button.quiet", { type: "button", text: "As a diagram", onclick: () => showDrawer({ connection: row.connection, around: EXAMPLES.indexOf(row) }) })));
}

function gap(before, after) {
  const missing = before.ordinal === null || after.ordinal === null ? 0 : after.ordinal - before.ordinal - 1;
  return missing > 0 ? el("li.soft", { text: `${plural(missing, "exchange")} not in this file` }) : null;
}

function neighbour(row, here) {
  const parts = [el("span.when", { text: clock(beginOf(row)) }), el("span.what", { text: nameOfExchange(row) }), el("span.took", { text: row.latency_ns === null ? "" : duration(row.latency_ns) }), outcome(row) ? el(isWrong(row) ? "span.bad" : "span.soft", { text: shown(outcome(row)) }) : null];
  return el("li", {}, here ? el("div.here", { "aria-current": "true" }, parts) : el("button", { type: "button", onclick: () => showDrawer({ exchange: row.request ?? row.response }) }, parts));
}

function isoTime(ns, by = 0) {
  const micros = BigInt(DATA.grid.start_ms) * 1000n + BigInt(Math.floor(ns / 1e3)) + BigInt(by * 1e6);
  const date = new Date(Number(micros / 1000n)).toISOString();
  return `${date.slice(0, 20)}${String(micros % 1000000n).padStart(6, "0")}Z`;
}

const connectionFilter = (row) => `${address(row.client_host, row.client_port)} && ${address(row.server_host, row.server_port)}`;
const allFiles = () => DATA.capture.files.map(quoted).join(" ");

const tsharkOf = (ref, port, wanted) => `tshark -r ${quoted(placeOf(ref).file)} -d tcp.port==${port},kafka -Y ${quoted(wanted)}`;
const packetInTshark = (ref, port) => `${tsharkOf(ref, port, `frame.number == ${placeOf(ref).packet}`)} -V`;

function commandsOf(row) {
  const begin = beginOf(row);
  const own = row.ordinal === null ? null : `${row.connection}#${row.ordinal}`;
  const list = [
    ["This exchange down to the last field", `kdissect dump ${allFiles()} --connection ${row.connection} --since ${isoTime(begin)} --limit 1`],
    ["What came before and after it on the connection", `kdissect dump ${allFiles()} --brief --connection ${row.connection} --since ${isoTime(begin, -5)} --until ${isoTime(begin, 5)}`],
    own ? ["Its connection as a capture of its own", `kdissect slice ${allFiles()} --exchange ${quoted(own)} -o exchange.pcapng`] : null,
    row.request !== null ? ["The packet with the request in tshark", packetInTshark(row.request, row.server_port)] : null,
    row.response !== null ? ["The packet with the response in tshark", packetInTshark(row.response, row.server_port)] : null,
    ["Its connection in tshark", tsharkOf(row.request ?? row.response, row.server_port, connectionFilter(row))],
    ["Its connection, as a display filter", connectionFilter(row)],
  ];
  return el("div.row", {}, el("h3", { text: "Commands" }), list.filter(Boolean).map(([what, text]) => [el("div.soft.label", { text: what }), code(text)]));
}
