// The capture, and what is missing or uncertain in it.

// The details of a quality counter: packets of single messages, or the section on connections.
function leadOf(doubt) {
  if (doubt.name === "unmatched") return look("unanswered requests", silentExamples, BLANK);
  if (doubt.name === "faults") return look("messages not decoded in full", DATA.faults.slice(0, 12).map((row) => ({ what: `${apiName(row.api)}: ${shown(row.first.detail || row.shape)}`, ref: row.first.response ?? row.first.request, at: row.first.at })));
  return OF_CONNECTIONS.includes(doubt.name) ? el("a.link", { href: "#connections", text: "connections" }) : null;
}

const OF_CONNECTIONS = ["lost_bytes", "one_way_connections", "midstream_connections", "skipped_bytes", "encrypted_bytes", "undecrypted_bytes"];

function qualitySection(body) {
  const { capture, traffic, doubts } = DATA;
  const fact = (name, value) => el("tr", {}, el("td.first", {}, el("span.soft", { text: name })), el("td", {}, value));
  const protocols = traffic.protocols.map((row) => `${plural(row.connections, "connection")} ${{ kafka: "Kafka", "kafka-0.7": "Kafka 0.7", tls: "TLS", unknown: "not recognised", none: "without data" }[row.protocol] || row.protocol} (${size(row.bytes)})`).join(", ");
  const software = traffic.software.map((row) => `${shown(row.software_name)} ${row.software_version === null ? "" : shown(row.software_version)} (${plural(row.connections, "connection")})`).join(", ");
  fill(body, [
    doubts.length
      ? el("ul.evidence", {}, doubts.map((row) => el("li", {}, el("span.subject.warn", { text: `${count(row.count)}${row.of ? ` of ${count(row.of)} (${share(row.count / row.of)})` : ""} ` }), shown(row.means, LONGEST_SENTENCE), " ", leadOf(row))))
      : el("p.empty.good", { text: "Nothing is missing or uncertain: no lost bytes, no cut packets, every connection from its start and in both directions." }),
    el("div.scroll", { css: { "margin-top": "14px" } }, el("table", {}, el("tbody", {},
      fact("Files", capture.files.map((name) => el("div.mono", { text: shown(name) }))),
      fact("Packets", `${count(capture.packets)}, ${size(capture.bytes)}; TCP ${count(capture.tcp_packets)}, other ${count(capture.non_tcp_packets)}`),
      fact("Link", capture.link_types.map((text) => shown(text)).join(", ") || NONE),
      fact("Connections", protocols || NONE),
      fact("Began", `${count(traffic.opened_by_handshake)} with their handshake, ${count(traffic.midstream)} before the capture`),
      fact("Ended", `${count(traffic.closed_by_fin)} closed, ${count(traffic.closed_by_rst)} reset, ${count(traffic.still_open)} still open`),
      fact("TCP", `${count(traffic.retransmitted_segments)} retransmitted, ${count(traffic.out_of_order_segments)} reordered, ${count(traffic.zero_windows)} zero windows, ${size(traffic.lost_bytes)} not captured`),
      fact("Software", software || NONE),
      capture.warnings.length ? fact("Warnings", capture.warnings.map((text) => el("div", { text: shown(text, LONGEST_SENTENCE) }))) : null)))]);
}
