// The packets behind figures: numbers as Wireshark counts them, and display filters for them.

function address(host, port) {
  const family = String(host).includes(":") ? "ipv6" : "ip";
  return port === undefined ? `${family}.addr == ${host}` : `(${family}.addr == ${host} && tcp.port == ${port})`;
}

// The display filter of the selection, and of what narrows it further.
function displayFilter(scope) {
  const parts = [];
  const connection = scope.connection === null ? null : CONNECTIONS.get(scope.connection);
  if (connection) {
    parts.push(address(connection.client_host, connection.client_port), address(connection.server_host, connection.server_port));
  } else {
    if (scope.client !== null && scope.client >= 0) parts.push(address(DATA.clients[scope.client].host));
    if (scope.broker !== null && scope.broker >= 0) parts.push(address(DATA.brokers[scope.broker].host, DATA.brokers[scope.broker].port));
  }
  if (scope.from !== null) parts.push(`frame.time_epoch >= ${epoch(scope.from * STEP)}`, `frame.time_epoch < ${epoch(scope.to * STEP)}`);
  if (scope.api !== null && scope.api >= 0 && DATA.apis[scope.api].key !== null) {
    const key = DATA.apis[scope.api].key;
    parts.push(`(kafka.request_key == ${key} || kafka.response_key == ${key})`);
  }
  return parts.join(" && ");
}

const quoted = (text) => `'${String(text).replaceAll("'", "'\\''")}'`;

function copier(text) {
  const button = el("button.quiet", { type: "button", text: "Copy" });
  button.addEventListener("click", async () => {
    const done = await copied(text, button.previousElementSibling);
    button.textContent = done ? "Copied" : "Selected";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return button;
}

// A page from a file may have no clipboard; then the text is selected for copying by hand.
async function copied(text, node) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(node);
    return false;
  }
}

const code = (text) => el("div.code", {}, el("code", { text }), copier(text));

let opener = null;

// Examples are {what, ref, at}; `scope` is what to show beside them. A single exchange that this file has is opened itself.
function openPackets(title, examples, scope) {
  const known = examples.filter((example, number) => placeOf(example.ref) && examples.findIndex((other) => other.ref === example.ref) === number);
  const one = new Set(known.map((example) => EXAMPLE_OF.get(example.ref)));
  if (one.size === 1 && !one.has(undefined)) showDrawer({ exchange: known[0].ref });
  else showDrawer({ title, examples: known.map(({ what, ref, at }) => [what, ref, at ?? null]), scope: scope || null });
}

const DRAWERS = {
  exchange: ({ exchange }) => {
    const row = EXAMPLES[EXAMPLE_OF.get(exchange)];
    return row ? [nameOfExchange(row), exchangeParts(row)] : null;
  },
  connection: ({ connection, around }) => ["Sequence of a connection", sequenceParts(connection, around ?? -1)],
  title: ({ title, examples, scope }) => [shown(title), packetParts(examples.map(([what, ref, at]) => ({ what, ref, at })), scope && { ...BLANK, ...scope })],
};

// Shows what `view.drawer` may be; the focus goes into the drawer, and back when it is closed.
function showDrawer(what) {
  const kind = Object.keys(DRAWERS).find((name) => what[name] !== undefined);
  const found = kind && DRAWERS[kind](what);
  if (!found) return;
  const [title, parts] = found;
  const drawer = byId("drawer");
  if (drawer.hidden) opener = document.activeElement;
  const before = drawer.hidden ? null : view.drawer;
  replace(drawer,
    el("div.head", {}, el("h2", { text: title }), el("div.tools", {},
      before ? el("button.quiet", { type: "button", text: "Back", onclick: () => showDrawer(before) }) : null,
      el("button.quiet", { type: "button", text: "Close", onclick: closeDrawer }))),
    parts);
  drawer.hidden = false;
  drawer.scrollTop = 0;
  const late = pending;
  pending = [];
  for (const draw of late) draw();
  drawer.querySelector("button").focus();
  view.drawer = what;
  keepView();
}

function packetParts(known, scope) {
  const files = [...new Set(known.map((example) => placeOf(example.ref).file))];
  const all = scope ? displayFilter(scope) : "";
  return [
    known.length ? null : el("p.soft", { text: "No packet is known for this figure." }),
    FILES === 1 && files[0] ? el("p.soft.mono", { text: shown(files[0]) }) : null,
    known.map((example) => packetRow(example)),
    known.length > 1 ? files.map((file) => {
      const packets = [...new Set(known.filter((example) => placeOf(example.ref).file === file).map((example) => placeOf(example.ref).packet))].sort((a, b) => a - b);
      const these = `frame.number in {${packets.join(", ")}}`;
      return el("div.row", {}, el("div.what", {}, "All of these in ", el("span.mono", { text: shown(file) })), code(these), code(`tshark -r ${quoted(file)} -Y ${quoted(these)}`));
    }) : null,
    all ? el("div.row", {}, el("div.what", { text: "Everything of this selection" }), code(all), el("p.under.soft", { text: all.includes("kafka.") && otherPort(scope) ? "Kafka’s fields need Decode As → Kafka for a port that is not 9092." : "" })) : null,
  ];
}

function packetRow({ what, ref, at }) {
  const { file, packet } = placeOf(ref);
  return el("div.row", {},
    el("div.what", { text: what }),
    el("div.soft", {}, `packet ${packet}`, file && FILES > 1 ? [" of ", el("span.mono", { text: shown(file) })] : null, at === undefined || at === null ? null : `, ${clock(at)}`,
      EXAMPLE_OF.has(ref) ? [" ", el("button.look", { type: "button", text: "request and response", onclick: () => showDrawer({ exchange: ref }) })] : null),
    code(`frame.number == ${packet}`));
}

const otherPort = (scope) => DATA.brokers.some((row, number) => (scope.broker === null || scope.broker === number) && row.port !== 9092);

function closeDrawer() {
  byId("drawer").hidden = true;
  view.drawer = null;
  keepView();
  if (opener && opener.isConnected) opener.focus();
}

// Escape goes one step back: it closes the drawer, then gives up the selected time. Arrows go through a drawer's list.
document.addEventListener("keydown", (event) => {
  const drawer = byId("drawer");
  if (event.key === "Escape") {
    untip();
    if (!drawer.hidden) closeDrawer();
    else if (filter.from !== null) change({ from: null, to: null });
  }
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by || drawer.hidden || !drawer.contains(document.activeElement)) return;
  const stops = [...drawer.querySelectorAll("button, [tabindex='0']")];
  const at = stops.indexOf(document.activeElement);
  event.preventDefault();
  stops[Math.max(0, Math.min(stops.length - 1, at + by))].focus();
});

// `examples` may be a function that is called when the button is pressed.
function look(title, examples, scope = null) {
  const known = typeof examples === "function" || examples.some((example) => example.ref !== null && example.ref !== undefined);
  if (!known && !scope) return null;
  return el("button.look", { type: "button", text: "packets", "aria-label": `packets of ${title}`, onclick: () => openPackets(title, typeof examples === "function" ? examples() : examples, scope) });
}

// A button with the number of a single packet.
function packetButton(title, ref, time) {
  const place = placeOf(ref);
  return place ? el("button.look.numbered", { type: "button", text: `#${place.packet}`, "aria-label": `packet ${place.packet}: ${title}`, onclick: () => openPackets(title, [{ what: title, ref, at: time }], null) }) : null;
}

const examplesOf = (sums) => [["the slowest", sums.slowest], ["the first", sums.first], ["an unanswered one", sums.silent]].filter(([, ref]) => ref !== null && ref !== undefined).map(([what, ref]) => ({ what, ref }));

// Responses with errors within a selection.
function errorExamples(scope, most) {
  const failures = [...addUpFailures(scope, (row) => `${row.api} ${row.code}`).values()].sort((a, b) => b.n - a.n);
  return failures.flatMap((failure) => failure.refs.slice(0, 4).map((example) => ({ what: `${errorName(failure.code)} in ${apiName(failure.api)}, ${clientName(example.client)}`, ref: example.ref, at: example.step * STEP }))).slice(0, most);
}

// The exchanges that began in a step: by API, and errors.
function stepExamples(step) {
  const scope = { ...filter, from: step, to: step + 1 };
  const byApi = [...addUp(scope, (row) => row.api)].sort((a, b) => b[1].n - a[1].n);
  return [byApi.flatMap(([api, sums]) => examplesOf(sums).map((example) => ({ ...example, what: `${apiName(api)}: ${example.what}` }))).slice(0, 14), errorExamples(scope, 6)].flat();
}

const openStep = (step) => openPackets(stepPeriod(step, step + 1), stepExamples(step), { ...filter, from: step, to: step + 1 });
