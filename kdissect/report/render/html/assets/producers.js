// Producers by producer id, gaps in their sequence numbers, and transactions over time.

function producersSection(body) {
  const rows = DATA.producers.rows.filter((row) => filter.client === null || row.client === filter.client);
  if (!DATA.producers.rows.length) return fill(body, [el("p.empty", { text: "No client produces in this capture." })]);
  const name = (row) => (row.client >= 0 ? clientName(row.client) : row.label === null ? "(no client id)" : shown(row.label));
  fill(body, [rows.length ? table([
    { key: "client", label: "Producer", number: false, cell: (row) => [name(row), under(row.transactional_id === null ? "" : `transactional id ${shown(row.transactional_id)}`)], sort: name },
    { key: "idempotent", label: "Idempotent", number: false, cell: (row) => (row.producer_id === null ? el("span.faint", { text: "no" }) : [`id ${row.producer_id}`, under(row.epochs.length ? (row.epochs[0] === row.epochs[1] ? `epoch ${row.epochs[0]}` : `epochs ${row.epochs[0]} to ${row.epochs[1]}`) : "")]), sort: (row) => row.producer_id },
    { key: "batches", label: "Batches", cell: (row) => count(row.batches), sort: (row) => row.batches },
    { key: "records", label: "Records", cell: (row) => count(row.records), sort: (row) => row.records },
    { key: "bytes", label: "Bytes", cell: (row) => size(row.bytes), sort: (row) => row.bytes },
    { key: "per", label: "Per batch", title: "records in a batch", cell: (row) => (row.batches ? threeDigits(row.records / row.batches) : NONE), sort: (row) => row.records / Math.max(row.batches, 1) },
    { key: "errors", label: "Errors", title: "partitions refused", cell: (row) => bad(count(row.errors), row.errors), sort: (row) => row.errors },
    { key: "gaps", label: "Sequence gaps", number: false, cell: (row) => (row.producer_id === null ? el("span.faint", { text: NONE }) : gapsOf(row)), sort: (row) => row.gaps.length },
    { key: "repeated", label: "Repeated", title: "records whose sequence numbers came more than once", cell: (row) => (row.producer_id === null ? NONE : countOrNone(row.repeated)), sort: (row) => row.repeated },
    { key: "when", label: "From – to", number: false, cell: (row) => el("span.nowrap", { text: period(row.from, row.to, 0) }), sort: (row) => row.from },
    { key: "look", label: "", cell: (row) => packetButton(`first batch of ${name(row)}`, row.ref, row.from) },
  ], { id: "producers", rows, pick: { name: "client", value: (row) => row.client }, label: "producers" }) : el("p.empty", { text: "The selected client does not produce." }),
  DATA.producers.omitted ? el("p.soft", { text: `${plural(DATA.producers.omitted, "producer")} with fewer bytes are not listed.` }) : null]);
  transactionsPart(body);
}

function gapsOf(row) {
  if (!row.gaps.length) return el("span.good", { text: "none" });
  return el("ul.evidence", {}, row.gaps.slice(0, 3).map((gap) => el("li", {}, el("span.bad", { text: `${plural(gap.missing, "record")} missing` }), ` in ${shown(gap.topic)}-${gap.partition} after ${gap.after} `, packetButton("the batch after the gap", gap.ref, gap.at))),
    row.gaps.length > 3 || row.gaps_omitted ? el("li.soft", { text: `and ${count(row.gaps.length - Math.min(3, row.gaps.length) + row.gaps_omitted)} more` }) : null);
}

const OUTCOMES = { commit: ["committed", "var(--s2)"], abort: ["aborted", "var(--s1)"], open: ["not ended in this capture", "var(--bad)"] };

function transactionsPart(body) {
  const rows = DATA.transactions.rows.filter((row) => filter.client === null || row.clients.includes(filter.client));
  fill(body, [el("h3", { text: "Transactions", css: { "margin-top": "26px", "margin-bottom": "8px" } })]);
  if (!rows.length) return fill(body, [el("p.empty", { text: filter.client === null || !DATA.transactions.rows.length ? "No transactions in this capture." : "The selected client has no transactions." })]);
  fill(body, [el("div.key", {}, Object.values(OUTCOMES).map(([text, hue]) => el("span", {}, el("i", { css: { background: hue } }), text)))]);
  const panel = el("div.panel", { css: { "margin-top": "10px" } });
  fill(body, [panel]);
  after(() => transactionChart(panel, rows));
  fill(body, [el("details.inner", {}, el("summary", { text: "Transactions one by one" }), table([
    { key: "id", label: "Transactional id", number: false, cell: (transaction) => [shown(transaction.id)], sort: (transaction) => transaction.id },
    { key: "from", label: "Began", number: false, cell: (transaction) => (transaction.from === null ? "before the capture" : clock(transaction.from)), sort: (transaction) => transaction.from },
    { key: "took", label: "Took", cell: (transaction) => (transaction.from === null || transaction.to === null ? NONE : duration(transaction.to - transaction.from)), sort: (transaction) => (transaction.from === null || transaction.to === null ? null : transaction.to - transaction.from) },
    { key: "outcome", label: "Outcome", number: false, cell: (transaction) => OUTCOMES[transaction.outcome][0], sort: (transaction) => transaction.outcome },
    { key: "epoch", label: "Epoch", cell: (transaction) => transaction.epoch ?? NONE, sort: (transaction) => transaction.epoch },
    { key: "begin", label: "", cell: (transaction) => packetButton("the first request", transaction.ref, transaction.from) },
    { key: "end", label: "", cell: (transaction) => packetButton("the end", transaction.end_ref, transaction.to) },
  ], { id: "transactions", rows: rows.flatMap((row) => row.transactions.filter((transaction) => filter.from === null || ((transaction.from ?? 0) < toNs() && (transaction.to ?? Infinity) >= fromNs())).map((transaction) => ({ ...transaction, id: row.id }))), order: ["took"], label: "transactions" }))]);
}

function transactionChart(panel, rows) {
  const width = widthOf(panel);
  const tall = 40;
  const names = Math.min(190, width * 0.32);
  const bottom = rows.length * tall + 4;
  const height = bottom + 20;
  const scale = timeScale(width, names, 12);
  const end = DATA.capture.last ?? STEP * STEPS;
  const lanes = rows.map((row, number) => {
    const y = number * tall;
    const { commit, abort, open } = row.outcomes;
    const errors = Object.values(row.errors).reduce((sum, count) => sum + count, 0);
    return svg("g", { class: "lane" },
      svg("text", { x: 0, y: y + 14, class: "name", fill: "var(--ink)" }, cut(shown(row.id), names / 6.9)),
      svg("text", { x: 0, y: y + 29 }, cut([commit ? `${count(commit)} committed` : "", abort ? `${count(abort)} aborted` : "", open ? `${count(open)} open` : "", errors ? plural(errors, "error") : ""].filter(Boolean).join(", "), names / 5.6)),
      svg("line", { class: "axis", x1: scale.left, x2: scale.right, y1: y + 17, y2: y + 17 }),
      inside(scale, bottom, row.transactions.map((transaction) => svg("rect", { class: `transaction ${transaction.outcome}`, x: scale(transaction.from ?? 0), width: Math.max(scale(transaction.to ?? end) - scale(transaction.from ?? 0), 2), y: y + 8, height: 18, rx: 1.5, fill: OUTCOMES[transaction.outcome][1] }))));
  });
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": "transactions over time" }, timeAxis(scale, bottom), lanes);
  replace(panel, chart);
  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    const row = rows[Math.floor((event.clientY - box.top) / tall)];
    const time = scale.at(event.clientX - box.left);
    const near = (3 / scale.inner) * scale.span;
    const transaction = row && row.transactions.find((candidate) => time >= (candidate.from ?? 0) - near && time <= (candidate.to ?? end) + near);
    if (!row) return untip();
    tip(event, el("b", { text: shown(row.id) }), transaction ? el("div", { text: `${OUTCOMES[transaction.outcome][0]}${transaction.from !== null && transaction.to !== null ? ` after ${duration(transaction.to - transaction.from)}` : ""}, from ${clock(transaction.from)}` }) : null,
      Object.entries(row.errors).map(([name, number]) => el("div.soft", { text: `${name} ×${count(number)}` })));
  });
  chart.addEventListener("pointerleave", untip);
  selectable(chart, scale, openStep);
}
