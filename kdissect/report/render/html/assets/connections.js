// Connections as TCP saw them: round trips, retransmissions, zero windows, resets, how they ended.

function connectionsSection(body) {
  const by = filter.topic === null ? sumsBy((row) => row.connection, { connection: null }) : new Map();
  const complete = new Set(DATA.pivot.whole.connections);
  const rows = DATA.connections.rows.filter((row) => (filter.client === null || row.client === filter.client)
    && (filter.broker === null || row.broker === filter.broker)
    && (filter.group === null || GROUPS.get(filter.group).clients.includes(row.client))
    && (filter.from === null || (row.from < toNs() && row.to >= fromNs())))
    .map((row) => ({ ...row, sums: complete.has(row.number) || row.requests + row.orphan_responses === 0 ? by.get(row.number) || NOTHING : null }));
  if (!rows.length) return fill(body, [el("p.empty", { text: "No connection in this selection." })]);
  fill(body, [tripsChart(rows), table([
    { key: "connection", label: "Connection", number: false, cell: (row) => row.label === null ? [connectionName(row.number), null] : [shown(row.label), under(connectionName(row.number))], sort: (row) => row.label },
    { key: "lived", label: "Lived", number: false, cell: (row) => [el(DATED ? "span" : "span.nowrap", { text: period(row.from, row.to, 0) }), under(duration(row.to - row.from))], sort: (row) => row.to - row.from },
    { key: "ended", label: "Ended", number: false, cell: (row) => el(row.closed === "rst" ? "span.bad" : "span", { text: ENDED[row.closed] || row.closed }), sort: (row) => row.closed },
    ...(rows.some((row) => row.security) ? [{ key: "security", label: "Security", number: false, cell: securityOf }] : []),
    { key: "n", label: "Calls", title: "in the selection", cell: (row) => (row.sums ? count(row.sums.n) : [count(row.requests), "*"]), sort: (row) => (row.sums ? row.sums.n : row.requests) },
    { key: "errors", label: "Errors", cell: (row) => (row.sums ? bad(count(row.sums.errors), row.sums.errors) : NONE), sort: (row) => (row.sums ? row.sums.errors : null) },
    { key: "unanswered", label: "No response", cell: (row) => bad(count(row.unanswered), row.unanswered), sort: (row) => row.unanswered },
    { key: "rtt", label: "RTT", title: "round trips of the handshake: SYN to SYN-ACK, to the broker; and SYN-ACK to ACK, to the client", cell: (row) => [el("div", { text: duration(row.server_rtt_ns) }), row.client_rtt_ns === null ? null : under(`client ${duration(row.client_rtt_ns)}`)], sort: (row) => row.server_rtt_ns },
    { key: "again", label: "Retrans.", title: "retransmitted segments", cell: (row) => bad(count(row.retransmitted_segments), row.retransmitted_segments), sort: (row) => row.retransmitted_segments },
    { key: "zero", label: "Zero win.", title: "packets that announce a full receive buffer", cell: (row) => bad(count(row.zero_windows), row.zero_windows), sort: (row) => row.zero_windows },
    { key: "order", label: "Reord.", title: "segments out of order", cell: (row) => countOrNone(row.out_of_order_segments), sort: (row) => row.out_of_order_segments },
    { key: "lost", label: "Lost", title: "bytes that the capture misses", cell: (row) => (row.lost_bytes ? el("span.warn", { text: size(row.lost_bytes) }) : el("span.faint", { text: NONE })), sort: (row) => row.lost_bytes },
    { key: "bytes", label: "Bytes", title: "to the broker, and to the client", cell: (row) => [el("div", { text: `${size(row.bytes_to_server)} out` }), under(`${size(row.bytes_to_client)} in`)], sort: (row) => row.bytes_to_server + row.bytes_to_client },
    { key: "look", label: "", cell: (row) => [BY_CONNECTION.has(CONNECTION_IDS[row.number]) ? el("button.look", { type: "button", text: "sequence", "aria-label": `sequence of ${connectionName(row.number)}`, onclick: () => showDrawer({ connection: CONNECTION_IDS[row.number] }) }) : null, " ", look(connectionName(row.number), row.sums ? examplesOf(row.sums) : [], { ...BLANK, connection: row.number })] },
  ], { id: "connections", rows, pick: { name: "connection", value: (row) => (complete.has(row.number) ? row.number : -1) }, label: "connections" }),
  rows.some((row) => !row.sums) ? el("p.soft", { text: "* of the whole capture: too many connections to tell this one apart in the course of time." }) : null,
  DATA.connections.omitted ? el("p.soft", { text: `${plural(DATA.connections.omitted, "connection")} with less traffic and without trouble are not listed.` }) : null]);
}

// The protection of a connection, and its failures.
function securityOf(row) {
  const { tls_version: version, tls_outcome: tls, tls_alert: alert, tls_alert_by: by, tls_sni: name, sasl_mechanism: mechanism, sasl_outcome: sasl, sasl_error: error } = row.security || {};
  const ill = [tls === "failed" ? `TLS failed${alert ? `: ${shown(alert)} from the ${by}` : ""}` : "", sasl === "failed" ? `login failed${error && error !== "SASL_AUTHENTICATION_FAILED" ? `: ${shown(error)}` : ""}` : ""].filter(Boolean);
  const well = [version ? shown(version) : tls ? "TLS" : "", mechanism ? `SASL ${shown(mechanism)}` : ""].filter(Boolean);
  if (!ill.length && !well.length) return el("span.faint", { text: NONE });
  return [el("div", { title: name ? `server name ${shown(name)}` : null, text: well.join(", ") }), ill.map((text) => el("div.bad", {}, foldable(text)))];
}

const ENDED = { fin: "closed", rst: "reset", open: "still open" };

// Round trips of handshakes, one dot each: to the broker and to the client.
function tripsChart(rows) {
  const known = rows.filter((row) => row.server_rtt_ns !== null || row.client_rtt_ns !== null);
  const panel = el("div.panel", { css: { "margin-bottom": "14px" } });
  if (known.length < 2) return null;
  after(() => {
    const width = widthOf(panel);
    const height = 96;
    const values = known.flatMap((row) => [row.server_rtt_ns, row.client_rtt_ns]).filter((value) => value > 0).map(Math.log10);
    if (!values.length) return;
    const [low, high] = spread(Math.min(...values), Math.max(...values));
    const left = 118;
    const x = (ns) => left + ((Math.log10(ns) - low) / (high - low)) * (width - left - 16);
    const ticks = logTicks(low, high);
    const dots = (name, y, hue) => [svg("text", { x: 0, y: y + 4 }, name === "server_rtt_ns" ? "capture to broker" : "capture to client"),
      known.filter((row) => row[name] > 0).map((row, at) => svg("circle", { cx: x(row[name]).toFixed(1), cy: (y + ((at % 5) - 2) * 3).toFixed(1), r: 2.6, fill: `var(--${hue})`, "fill-opacity": 0.55 }))];
    replace(panel, svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": "round trips of handshakes" },
      ticks.map((value) => [svg("line", { class: "axis", x1: x(value), x2: x(value), y1: 6, y2: 74 }), svg("text", { x: x(value), y: 90, "text-anchor": "middle" }, withoutZeros(duration(value)))]),
      dots("server_rtt_ns", 22, "s0"), dots("client_rtt_ns", 56, "s1")));
  });
  return panel;
}
