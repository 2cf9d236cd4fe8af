// Topics: who writes, who reads, how much, how fast, at which codec.

const PRODUCE_KEY = 0;
const FETCH_KEY = 1;
const MOVES = { [PRODUCE_KEY]: "write", [FETCH_KEY]: "read" };

function topicsSection(body) {
  if (!DATA.topics.length) return fill(body, [el("p.empty", { text: "No topic is named in this capture." })]);
  const keyOf = (api) => (api < 0 ? null : DATA.apis[api].key);
  const topics = new Map();
  const ofTopic = (topic) => {
    if (!topics.has(topic)) topics.set(topic, { topic, writers: new Map(), readers: new Map(), write: new Sums(), read: new Sums(), errors: 0, n: 0, first: null });
    return topics.get(topic);
  };
  const scope = { ...filter, topic: null };
  for (const [key, sums] of addUp(scope, (row) => `${row.topic} ${row.api} ${row.client}`, TOPIC_SERIES)) {
    const [topic, api, client] = key.split(" ").map(Number);
    const totals = ofTopic(topic);
    totals.n += sums.n;
    totals.errors += sums.errors;
    totals.first ??= sums.first;
    const names = { [PRODUCE_KEY]: totals.writers, [FETCH_KEY]: totals.readers }[keyOf(api)];
    if (names && sums.records) names.set(client, (names.get(client) || 0) + sums.records);
  }
  for (const [key, sums] of addUp(scope, (row) => (!MOVES[keyOf(row.api)] ? undefined : `${row.topic} ${keyOf(row.api)}`), TOPIC_SERIES)) {
    const [topic, api] = key.split(" ").map(Number);
    ofTopic(topic)[MOVES[api]] = sums;
  }
  const rows = [...topics.values()].sort((a, b) => b.write.recordBytes + b.read.recordBytes - a.write.recordBytes - a.read.recordBytes || b.n - a.n);
  const names = (clients) => listed([...clients].sort((a, b) => b[1] - a[1]).map(([client, records]) => `${clientName(client)} ${count(records)}`), 2) || el("span.faint", { text: NONE });
  const chart = topicChart();
  fill(body, [chart, rows.length ? table([
    { key: "topic", label: "Topic", number: false, cell: (row) => [shown(DATA.topics[row.topic].name), under(topicUnder(DATA.topics[row.topic]))], sort: (row) => DATA.topics[row.topic].name },
    { key: "written", label: "Written", title: "records written, and their bytes", cell: (row) => volume(row.write), sort: (row) => row.write.records },
    { key: "writers", label: "Writers (records)", number: false, cell: (row) => names(row.writers), sort: (row) => row.writers.size },
    { key: "write", label: "Write p99", title: "latency of Produce: p99, and p50 below", cell: (row) => latency(row, "write"), sort: (row) => percentile(row, "write", "p99", 990) },
    { key: "read", label: "Read", title: "records read, and their bytes", cell: (row) => volume(row.read), sort: (row) => row.read.records },
    { key: "readers", label: "Readers (records)", number: false, cell: (row) => names(row.readers), sort: (row) => row.readers.size },
    { key: "fetch", label: "Read p99", title: "latency of Fetch without idle waits: p99, and p50 below", cell: (row) => latency(row, "read"), sort: (row) => percentile(row, "read", "p99", 990) },
    { key: "errors", label: "Errors", title: "partitions with an error", cell: (row) => bad(count(row.errors), row.errors), sort: (row) => row.errors },
    { key: "look", label: "", cell: (row) => look(shown(DATA.topics[row.topic].name), [["slowest write", row.write.slowest], ["slowest read", row.read.slowest], ["first exchange that names it", row.first]].map(([what, ref]) => ({ what: `the ${what}`, ref })).filter((one) => one.ref !== null), null) },
  ], { id: "topics", rows, pick: { name: "topic", value: (row) => row.topic }, label: "topics" }) : el("p.empty", { text: "No topic is named in this selection." }),
  coarse(DATA.topic_pivot.whole, "topics"),
  DATA.omitted.topics ? el("p.soft", { text: `${plural(DATA.omitted.topics, "topic")} with less traffic are not listed.` }) : null]);
}

// Bytes of records by topic, written and read, over time.
function topicChart() {
  const sums = addUp({ ...filter, ...ANY_TIME }, (row, step) => row.topic * STEPS + step, TOPIC_SERIES);
  const totals = new Map();
  for (const [key, one] of sums) totals.set(Math.floor(key / STEPS), (totals.get(Math.floor(key / STEPS)) || 0) + one.recordBytes);
  const ranked = [...totals].filter(([, bytes]) => bytes).sort((a, b) => b[1] - a[1]).map(([topic]) => topic);
  if (!ranked.length) return null;
  const own = ranked.slice(0, ranked.length > STACKED + 1 ? STACKED : STACKED + 1);
  const names = [...own.map((topic) => shown(DATA.topics[topic].name)), ...(ranked.length > own.length ? [`${ranked.length - own.length} more topics`] : [])];
  const counts = names.map(() => new Array(STEPS).fill(0));
  for (const [key, one] of sums) {
    const at = ranked.indexOf(Math.floor(key / STEPS));
    if (at >= 0) counts[Math.min(at, names.length - 1)][key % STEPS] += one.recordBytes;
  }
  const panel = el("div.panel");
  after(() => stack(panel, counts, names, { label: "bytes of records by topic", unit: "per second", format: size }));
  return [el("div.caption", {}, el("h3", { text: "Bytes of records per second, written and read" })), panel,
    el("div.key", {}, names.map((name, number) => el("span", {}, el("i", { css: { background: `var(--s${number})` } }), name)))];
}

const volume = (sums) => (sums.records ? [el("div", { text: count(sums.records) }), under(size(sums.recordBytes))] : el("span.faint", { text: NONE }));

function percentile(row, use, name, mille) {
  const exact = isBlank() ? DATA.topics[row.topic].service[use === "write" ? PRODUCE_KEY : FETCH_KEY] : null;
  return exact ? exact[name] : row[use].percentile(mille);
}

function latency(row, use) {
  const p99 = percentile(row, use, "p99", 990);
  return p99 === null ? el("span.faint", { text: NONE }) : [el("div", { text: duration(p99) }), under(`p50 ${duration(percentile(row, use, "p50", 500))}`)];
}

function topicUnder(topic) {
  const names = Object.entries(topic.codecs).sort((a, b) => b[1] - a[1]).map(([codec]) => (codec === "none" ? "not compressed" : codec));
  return [plural(topic.partitions, "partition"), names.join(", "), topic.named ? "" : "no name in the capture, only its id"].filter(Boolean).join(" · ");
}
