// Where the time of an exchange goes: the network of the client, the broker, the transfer, and waits on purpose.

function splitSection(body) {
  const byApi = [...sumsBy((row) => row.api, { api: null })].filter(([, sums]) => sums.timed || sums.idleTimed);
  if (!byApi.length) return fill(body, [el("p.empty", { text: "No exchange here has a latency." })]);
  const trips = roundTrips();
  fill(body, [el("p.soft", {}, tripsText(trips)), el("div.key", {}, PIECES.map(([name, hue]) => el("span", {}, el("i", { css: { background: `var(--${hue})` } }), name)))]);
  const rows = byApi.map(([api, sums]) => piecesOf(api, sums, trips)).sort((a, b) => b.sum - a.sum);
  const highest = Math.max(...rows.map((row) => row.mean));
  fill(body, [el("div", { css: { "margin-top": "10px" } }, table([
    { key: "api", label: "API", number: false, cell: (row) => [apiName(row.api), null], sort: (row) => apiName(row.api) },
    { key: "split", label: "Mean exchange, split", number: false, cell: (row) => splitBar(row, highest) },
    { key: "upload", label: "Sending the request", cell: (row) => duration(row.upload), sort: (row) => row.upload, title: "first to last byte of the request" },
    { key: "trip", label: "Round trip", cell: (row) => (trips.server === null ? NONE : duration(row.trip)), sort: (row) => row.trip, title: "the handshake’s round trip from the capture to the broker: at most this much of each latency is network" },
    { key: "broker", label: "Broker", cell: (row) => duration(row.broker), sort: (row) => row.broker, title: "mean latency minus the round trip, throttling included" },
    { key: "transfer", label: "Sending the response", cell: (row) => duration(row.transfer), sort: (row) => row.transfer, title: "first to last byte of the response" },
    { key: "throttle", label: "Throttled", cell: (row) => (row.throttle ? el("span.warn", { text: duration(row.throttle) }) : el("span.faint", { text: NONE })), sort: (row) => row.throttle, title: "throttle time requested by quotas, in all" },
    { key: "idle", label: "Idle waits", cell: (row) => (row.idle ? `${duration(row.idle)} × ${count(row.idleCount)}` : el("span.faint", { text: NONE })), sort: (row) => row.idle, title: "long polls without data, joins, syncs: their mean, and how many" },
    lookColumn((row) => apiName(row.api), (row) => ({ ...filter, api: row.api })),
  ], { id: "split", rows, pick: { name: "api", value: (row) => row.api }, label: "where time goes, by API" }))]);
}

const PIECES = [["sending the request", "s4"], ["round trip to the broker", "s1"], ["broker", "s0"], ["sending the response", "s2"]];

function piecesOf(api, sums, trips) {
  const mean = sums.mean ?? 0;
  const trip = Math.min(trips.server ?? 0, mean);
  const upload = (sums.upload ?? 0) / Math.max(sums.n, 1);
  const transfer = (sums.transfer ?? 0) / Math.max(sums.n, 1);
  return {
    api, sums, upload, trip, broker: mean - trip, transfer, mean: upload + mean + transfer, sum: sums.latency, throttle: (sums.throttle ?? 0) * 1e6,
    idle: sums.idleTimed ? sums.idleLatency / sums.idleTimed : 0, idleCount: sums.idleTimed,
  };
}

function splitBar(row, highest) {
  const part = (value) => `${Math.max((value / Math.max(highest, 1)) * 100, value > 0 ? 0.6 : 0).toFixed(2)}%`;
  return el("div.split", { title: `mean ${duration(row.mean)}` }, [row.upload, row.trip, row.broker, row.transfer].map((value, number) => (value > 0 ? el("i", { css: { width: part(value), background: `var(--${PIECES[number][1]})` } }) : null)));
}

// Handshakes of the connections between the selected clients and brokers; their middle, weighted by connections.
function roundTrips() {
  const rows = DATA.round_trips.filter(([client, broker]) => admits({ ...BLANK, client: filter.client, broker: filter.broker, group: filter.group }, { client, broker }));
  const middle = (column) => {
    const known = rows.filter((row) => row[column] !== null).sort((a, b) => a[column] - b[column]);
    const half = known.reduce((sum, row) => sum + row[2], 0) / 2;
    let passed = 0;
    for (const row of known) if ((passed += row[2]) >= half) return row[column];
    return null;
  };
  const most = (column) => rows.reduce((highest, row) => (row[column] === null ? highest : Math.max(highest ?? 0, row[column])), null);
  return { server: middle(3), serverMost: most(4), client: middle(5), clientMost: most(6), handshakes: rows.reduce((sum, row) => sum + row[2], 0) };
}

function tripsText(trips) {
  if (trips.server === null && trips.client === null) return "No handshake was captured, so the network’s part of the latency is not known: all of it counts for the broker.";
  const one = (name, middle, most) => (middle === null ? `${name} not known` : `${name} ${duration(middle)}, at most ${duration(most)}`);
  return `Round trips of ${plural(trips.handshakes, "handshake")}: ${one("capture to broker", trips.server, trips.serverMost)}; ${one("capture to client", trips.client, trips.clientMost)}. `
    + ((trips.client ?? 0) > (trips.server ?? 0) * 3 ? "The capture is closer to the broker: clients wait longer than is shown here." : "");
}
