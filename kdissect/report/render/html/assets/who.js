// The profile by API, errors with examples, clients and brokers with their requests.

// Percentiles of the whole capture are within 0.4 %; those of a selection come from coarser cells, within 6 %.
function latencyColumns(exactOf) {
  const exact = (row) => (isBlank() && exactOf ? exactOf(row) : null);
  const value = (row, name, mille) => (exact(row) ? exact(row)[name] : name === "max" ? (row.sums.timed ? row.sums.max : null) : row.sums.percentile(mille));
  return [
    { key: "mean", label: "Mean", cell: (row) => duration(row.sums.mean), sort: (row) => row.sums.mean },
    { key: "p50", label: "p50", cell: (row) => duration(value(row, "p50", 500)), sort: (row) => value(row, "p50", 500) },
    { key: "p99", label: "p99", cell: (row) => duration(value(row, "p99", 990)), sort: (row) => value(row, "p99", 990) },
    { key: "max", label: "Max", cell: (row) => duration(value(row, "max")), sort: (row) => value(row, "max") },
  ];
}

const shareOf = (rows) => {
  const total = rows.reduce((sum, row) => sum + row.sums.latency, 0);
  return { key: "time", label: "Time", title: "part of the service time", cell: (row) => shareBar(total ? row.sums.latency / total : 0), sort: (row) => row.sums.latency };
};

const errorsColumn = { key: "errors", label: "Errors", cell: (row) => bad(count(row.sums.errors), row.sums.errors), sort: (row) => row.sums.errors };
const silentColumn = { key: "unanswered", label: "No response", cell: (row) => bad(count(row.sums.unanswered), row.sums.unanswered), sort: (row) => row.sums.unanswered };
const sparkColumn = { key: "spark", label: "10 µs – 100 s", number: false, cell: (row) => spark(row.sums.cells) };
const lookColumn = (tell, scope) => ({ key: "look", label: "", cell: (row) => look(tell(row), () => [...examplesOf(row.sums), ...errorExamples(scope(row), 3)], scope(row)) });

function profileSection(body) {
  const rows = [...sumsBy((row) => row.api, { api: null })].map(([api, sums]) => ({ api, sums }));
  if (!rows.length) return fill(body, [el("p.empty", { text: "No exchanges in this selection." })]);
  rows.sort((a, b) => b.sums.latency - a.sums.latency || b.sums.n - a.sums.n);
  fill(body, [table([
    { key: "api", label: "API", number: false, cell: (row) => [apiName(row.api), under(versionsOf(row.api))], sort: (row) => apiName(row.api) },
    { key: "n", label: "Calls", cell: (row) => count(row.sums.n), sort: (row) => row.sums.n },
    shareOf(rows),
    ...latencyColumns((row) => row.api >= 0 && DATA.apis[row.api].all.service),
    { key: "v2m", label: "V/M", title: "variance to mean: high where a few calls take far longer than the rest; over the whole capture", cell: (row) => (row.api >= 0 && DATA.apis[row.api].all.service ? duration(DATA.apis[row.api].all.service.v2m) : NONE), sort: (row) => row.api >= 0 && DATA.apis[row.api].all.service ? DATA.apis[row.api].all.service.v2m : null },
    errorsColumn, silentColumn,
    { key: "bytes", label: "Out / in", title: "bytes of requests and of responses", cell: (row) => `${size(row.sums.requestBytes)} / ${size(row.sums.responseBytes)}`, sort: (row) => row.sums.requestBytes },
    sparkColumn,
    lookColumn((row) => apiName(row.api), (row) => ({ ...filter, api: row.api })),
  ], { id: "profile", rows, pick: { name: "api", value: (row) => row.api }, label: "profile by API" })]);
}

function versionsOf(api) {
  const versions = DATA.versions.filter((row) => row.api === api && row.version !== null).map((row) => row.version).sort((a, b) => a - b);
  return versions.length ? `v${versions.join(", v")}` : "";
}

function errorsSection(body) {
  const rows = [...addUpFailures({ ...filter, topic: null }, (row) => `${row.api} ${row.code}`).values()].sort((a, b) => b.n - a.n);
  fill(body, [rows.length ? table([
    { key: "name", label: "Error", number: false, cell: (row) => [el("span.bad", {}, foldable(errorName(row.code)))], sort: (row) => errorName(row.code) },
    { key: "api", label: "API", number: false, cell: (row) => el("span.nowrap", { text: apiName(row.api) }), sort: (row) => apiName(row.api) },
    { key: "n", label: "Responses", cell: (row) => count(row.n), sort: (row) => row.n },
    { key: "clients", label: "Clients", number: false, cell: (row) => listed([...row.clients].sort((a, b) => b[1] - a[1]).map(([client, number]) => `${clientName(client)} ×${count(number)}`), 2) },
    { key: "when", label: "First and last", number: false, cell: (row) => spanOf(row), sort: (row) => Math.min(...row.steps.keys()) },
    { key: "course", label: "Course", number: false, cell: (row) => course(row.steps) },
    { key: "detail", label: "First example", number: false, cell: (row) => firstExample(row) },
    { key: "look", label: "", cell: (row) => look(`${errorName(row.code)} in ${apiName(row.api)}`, row.refs.slice(0, 12).map((one) => ({ what: `${clientName(one.client)}${one.number > 1 ? `, the first of ${count(one.number)}` : ""}`, ref: one.ref, at: one.step * STEP })), { ...filter, api: row.api }) },
  ], { id: "errors", rows, label: "errors" }) : el("p.empty.good", { text: "No response carries an error." })]);
  const wrong = DATA.faults;
  if (wrong.length) fill(body, [el("details.inner", {}, el("summary", { text: `${plural(wrong.reduce((sum, row) => sum + row.exchanges, 0), "message")} not decoded in full` }), table([
    { key: "shape", label: "Fault", number: false, cell: (row) => [shown(row.first.detail || row.shape)] },
    { key: "api", label: "API", number: false, cell: (row) => `${apiName(row.api)}${row.version === null ? "" : ` v${row.version}`}` },
    { key: "n", label: "Messages", cell: (row) => count(row.exchanges), sort: (row) => row.exchanges },
    { key: "look", label: "", cell: (row) => packetButton("not decoded in full", row.first.response ?? row.first.request, row.first.at) },
  ], { id: "faults", rows: wrong, label: "messages not decoded in full" }))]);
}

function spanOf(row) {
  const steps = [...row.steps.keys()];
  const [first, last] = [Math.min(...steps), Math.max(...steps)];
  return el("span.nowrap", { text: first === last ? stepClock(first) : stepPeriod(first, last) });
}

// The first response with an error: of the whole capture if the selection has it, else of the selection.
function firstExample(row) {
  const seen = DATA.errors.find((error) => error.api === row.api && error.code === row.code);
  const within = seen && ["from", "connection", "group"].every((name) => filter[name] === null)
    && ["client", "broker"].every((name) => filter[name] === null || filter[name] === seen.first[name]);
  const earliest = row.refs.reduce((least, one) => (least && least.step <= one.step ? least : one), null);
  if (!within && !earliest) return NONE;
  const first = within ? { ...seen.first, ref: seen.first.response ?? seen.first.request } : { ...earliest, topic: null, at: earliest.step * STEP };
  const what = [first.topic === null ? null : `${shown(first.topic)}${first.partition === null ? "" : `-${first.partition}`}`, clientName(first.client), brokerName(first.broker)].filter(Boolean).join(" · ");
  return [el("div", { text: what }), packetButton(errorName(row.code), first.ref, first.at)];
}

// A long name of an error may wrap after its underscores.
const foldable = (name) => name.split(/(?<=_)/).flatMap((part, number) => (number ? [el("wbr"), part] : [part]));

// A small chart of when something happened.
function course(steps) {
  const highest = Math.max(...steps.values());
  const d = [...steps].map(([step, number]) => `M${((step / STEPS) * 132).toFixed(1)} 18v-${Math.max(2, (number / highest) * 17).toFixed(1)}h${Math.max(132 / STEPS - 0.3, 1.2).toFixed(1)}V18z`).join("");
  return svg("svg", { class: "spark", viewBox: "0 0 132 18", role: "img", "aria-label": "when, over the whole capture" }, svg("path", { d: "M0 17.75H132", stroke: "var(--line)" }), svg("path", { d, fill: "var(--bad)" }));
}

function listed(items, most) {
  const more = items.length - most;
  return more > 0 ? el("span", { title: items.join("\n") }, items.slice(0, most).join(", "), el("span.faint", { text: ` +${more}` })) : items.join(", ");
}

// Requests by API, most calls first.
function doings(byKey, key) {
  const apis = byKey.get(key) || [];
  return listed(apis.sort((a, b) => b[1] - a[1]).map(([api, number]) => `${apiName(api)} ${count(number)}`), 3);
}

function apisBy(role, instead) {
  const byKey = new Map();
  for (const [key, sums] of sumsBy((row) => row[role] * 1000 + row.api + 1, instead)) {
    const who = Math.floor(key / 1000);
    if (!byKey.has(who)) byKey.set(who, []);
    byKey.get(who).push([(((key % 1000) + 1000) % 1000) - 1, sums.n]);
  }
  return byKey;
}

function clientsSection(body) {
  const by = sumsBy((row) => row.client, { client: null });
  const did = apisBy("client", { client: null });
  const rows = DATA.clients.map((row, client) => ({ ...row, client, sums: by.get(client) || NOTHING })).filter((row) => row.sums.n || isBlank());
  if (by.has(-1)) rows.push({ client: -1, host: null, software: [], connections: null, sums: by.get(-1) });
  rows.sort((a, b) => b.sums.latency - a.sums.latency || b.sums.n - a.sums.n);
  fill(body, [rows.length ? table([
    { key: "client", label: "Client", number: false, cell: (row) => [clientName(row.client), under([row.host === null ? "" : row.host, row.software.join(", ")].filter(Boolean).map((text) => shown(text)).join(" · "))], sort: (row) => clientName(row.client) },
    { key: "n", label: "Calls", cell: (row) => count(row.sums.n), sort: (row) => row.sums.n },
    { key: "did", label: "Requests sent", number: false, cell: (row) => doings(did, row.client) },
    shareOf(rows), ...latencyColumns((row) => row.client >= 0 && row.all.service), errorsColumn, silentColumn,
    { key: "throttled", label: "Throttled", cell: (row) => (row.sums.throttled ? el("span.warn", { text: duration(row.sums.throttle * 1e6) }) : el("span.faint", { text: NONE })), sort: (row) => row.sums.throttle },
    { key: "connections", label: "Conn.", title: "connections, over the whole capture", cell: (row) => (row.connections === null ? NONE : count(row.connections)), sort: (row) => row.connections },
    lookColumn((row) => clientName(row.client), (row) => ({ ...filter, client: row.client })),
  ], { id: "clients", rows, pick: { name: "client", value: (row) => row.client }, label: "clients" }) : el("p.empty", { text: "No client in this selection." }),
  coarse(DATA.pivot.whole.clients, "clients"), DATA.omitted.clients ? el("p.soft", { text: `${plural(DATA.omitted.clients, "client")} with less traffic are counted, but not listed.` }) : null]);
}

// A note if some are counted separately only in the totals.
function coarse(flags, what) {
  const missing = flags.filter((flag) => !flag).length;
  return missing && !isBlank() ? el("p.unmoved", { text: `Of ${count(missing)} ${what} some traffic is counted under “other ${what}”: too many to be kept apart over time.` }) : null;
}

function brokersSection(body) {
  const by = sumsBy((row) => row.broker, { broker: null });
  const did = apisBy("broker", { broker: null });
  const rows = [...by].map(([broker, sums]) => ({ broker, sums, ...(DATA.brokers[broker] || {}) })).sort((a, b) => b.sums.latency - a.sums.latency);
  fill(body, [rows.length ? table([
    { key: "broker", label: "Broker", number: false, cell: (row) => [brokerName(row.broker), under(row.node === null || row.node === undefined ? "" : `node ${row.node}`)], sort: (row) => brokerName(row.broker) },
    { key: "n", label: "Calls", cell: (row) => count(row.sums.n), sort: (row) => row.sums.n },
    { key: "did", label: "Requests received", number: false, cell: (row) => doings(did, row.broker) },
    shareOf(rows), ...latencyColumns((row) => row.broker >= 0 && row.all.service), errorsColumn, silentColumn, sparkColumn,
    { key: "bytes", label: "In / out", cell: (row) => `${size(row.sums.requestBytes)} / ${size(row.sums.responseBytes)}`, sort: (row) => row.sums.requestBytes },
    lookColumn((row) => brokerName(row.broker), (row) => ({ ...filter, broker: row.broker })),
  ], { id: "brokers", rows, pick: { name: "broker", value: (row) => row.broker }, label: "brokers" }) : el("p.empty", { text: "No broker in this selection." })]);
}
