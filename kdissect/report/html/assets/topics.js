// Topics: who writes, who reads, how much, at which codec.

const PRODUCE_KEY = 0;
const FETCH_KEY = 1;

function topicsSection(body) {
  if (!DATA.topics.length) return fill(body, [el("p.empty", { text: "No topic is named in this capture." })]);
  const keyOf = (api) => (api < 0 ? null : DATA.apis[api].key);
  const found = new Map();
  for (const [key, sums] of addUpTopics({ ...filter, topic: null }, (row) => `${row.topic} ${row.api} ${row.client}`)) {
    const [topic, api, client] = key.split(" ").map(Number);
    if (!found.has(topic)) found.set(topic, { topic, writers: new Map(), readers: new Map(), others: 0, written: 0, read: 0, writtenBytes: 0, readBytes: 0, errors: 0, n: 0, first: sums.first });
    const one = found.get(topic);
    one.n += sums.n;
    one.errors += sums.errors;
    if (keyOf(api) === PRODUCE_KEY) {
      one.written += sums.records;
      one.writtenBytes += sums.bytes;
      one.writers.set(client, (one.writers.get(client) || 0) + sums.records);
    } else if (keyOf(api) === FETCH_KEY) {
      one.read += sums.records;
      one.readBytes += sums.bytes;
      if (sums.records) one.readers.set(client, (one.readers.get(client) || 0) + sums.records);
    } else one.others += sums.n;
  }
  const rows = [...found.values()].sort((a, b) => b.writtenBytes + b.readBytes - a.writtenBytes - a.readBytes || b.n - a.n);
  const names = (clients) => listed([...clients].sort((a, b) => b[1] - a[1]).map(([client, records]) => `${clientName(client)} ${count(records)}`), 2) || el("span.faint", { text: NONE });
  fill(body, [rows.length ? table([
    { key: "topic", label: "Topic", number: false, cell: (row) => [shown(DATA.topics[row.topic].name), under(topicUnder(DATA.topics[row.topic]))], sort: (row) => DATA.topics[row.topic].name },
    { key: "written", label: "Written", title: "records written", cell: (row) => countOrNone(row.written), sort: (row) => row.written },
    { key: "writtenBytes", label: "Bytes", cell: (row) => sizeOrNone(row.writtenBytes), sort: (row) => row.writtenBytes },
    { key: "writers", label: "Writers (records)", number: false, cell: (row) => names(row.writers), sort: (row) => row.writers.size },
    { key: "read", label: "Read", title: "records read", cell: (row) => countOrNone(row.read), sort: (row) => row.read },
    { key: "readBytes", label: "Bytes", cell: (row) => sizeOrNone(row.readBytes), sort: (row) => row.readBytes },
    { key: "readers", label: "Readers (records)", number: false, cell: (row) => names(row.readers), sort: (row) => row.readers.size },
    { key: "errors", label: "Errors", title: "partitions with an error", cell: (row) => bad(count(row.errors), row.errors), sort: (row) => row.errors },
    { key: "look", label: "", cell: (row) => look(shown(DATA.topics[row.topic].name), [{ what: "an exchange that names it", ref: row.first }], null) },
  ], { id: "topics", rows, pick: { name: "topic", value: (row) => row.topic }, label: "topics" }) : el("p.empty", { text: "No topic is named in this selection." }),
  coarse(DATA.topic_cube.whole, "topics"),
  DATA.omitted.topics ? el("p.soft", { text: `${plural(DATA.omitted.topics, "topic")} with less traffic are not listed.` }) : null]);
}

function topicUnder(topic) {
  const codecs = new Map();
  for (const use of topic.uses) for (const [codec, bytes] of Object.entries(use.codecs)) codecs.set(codec, (codecs.get(codec) || 0) + bytes);
  const names = [...codecs].sort((a, b) => b[1] - a[1]).map(([codec]) => (codec === "none" ? "not compressed" : codec));
  return [plural(topic.partitions, "partition"), names.join(", "), topic.named ? "" : "no name in the capture, only its id"].filter(Boolean).join(" · ");
}
