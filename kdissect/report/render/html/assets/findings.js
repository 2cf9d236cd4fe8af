// Findings, most severe first: a sentence, evidence, what it means, what to look at next.

const openFindings = new Set(DATA.findings.filter((row, place) => row.severity === "critical" || (row.severity === "warning" && place < 3)).map((row) => row.name));

function findingsSection(body) {
  const rows = DATA.findings.filter(within);
  if (!DATA.findings.length) return fill(body, [DATA.totals.n ? el("p.empty.good", { text: "No problems found." }) : el("p.empty", { text: nothingToJudge() })]);
  if (!rows.length) return fill(body, [el("p.empty.good", { text: `No problems found in this range of time; ${plural(DATA.findings.length, "finding")} outside of it.` })]);
  fill(body, rows.map(finding));
}

function nothingToJudge() {
  const encrypted = DATA.traffic.protocols.filter((row) => row.protocol === "tls").reduce((sum, row) => sum + row.connections, 0);
  return `No Kafka exchange can be read here, so there is nothing to judge.${encrypted ? ` ${plural(encrypted, "connection is", "connections are")} encrypted: with the secrets of their TLS sessions (--keylog FILE) they can be read.` : ""}`;
}

// A finding without a time concerns the whole capture and stays.
function within(one) {
  return inTime(one) && one.evidence.some((row) => inTime(row) && isAbout(row));
}

const inTime = (row) => filter.from === null || row.from === null || (row.from < toNs() && (row.to ?? row.from) >= fromNs());
const isAbout = (row) => !row.place || ["client", "broker", "connection"].every((name) => filter[name] === null || row.place[name] === filter[name]);

function finding(one) {
  const kept = one.evidence.filter((row) => inTime(row) && isAbout(row));
  const node = el("details.finding", { open: openFindings.has(one.name), "data-name": one.name },
    el("summary", {},
      el(`span.severity.${one.severity}`, { text: one.severity }),
      el("span.title", { text: shown(one.title, LONGEST_SENTENCE) }),
      el("span.when", { text: one.from === null ? "" : when(one) })),
    el("div.body", {},
      el("ul.evidence", {}, kept.slice(0, 8).map((row) => evidence(one, row)), rest(one, kept)),
      el("div.advice", {}, el("p", {}, el("b", { text: "What it means" }), sentence(one.means)), el("p", {}, el("b", { text: "Look at next" }), sentence(one.next)))));
  node.addEventListener("toggle", () => openFindings[node.open ? "add" : "delete"](one.name));
  return node;
}

// Names of settings are set in monospace.
const sentence = (text) => (/^\S*[.=_]\S/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1));

function rest(one, kept) {
  const more = kept.slice(8);
  const outside = one.evidence.length - kept.length;
  const words = [outside ? `${count(outside)} outside of the selection` : "", one.omitted ? `${count(one.omitted)} more, not in this file` : ""].filter(Boolean);
  const note = words.length ? el("li.soft", { text: `and ${words.join(", ")}` }) : null;
  return more.length ? el("details.inner", {}, el("summary", { text: `${count(more.length)} more` }), el("ul.evidence", {}, more.map((row) => evidence(one, row)), note)) : note;
}

const when = (row) => (row.to !== null && row.to - row.from >= 1e9 ? period(row.from, row.to, 0) : clock(row.from));

// The packet number is part of the text, so that it is on paper, too.
function numbered(button, ref) {
  button.textContent = `packet ${placeOf(ref).packet}`;
  button.classList.add("numbered");
  return button;
}

function evidence(one, row) {
  const place = row.place;
  const examples = place ? [{ what: "the response", ref: place.response, at: row.from }, { what: "its request", ref: place.request, at: place.at }].filter((each) => each.ref !== null) : [];
  return el("li", {},
    el("span.subject", { text: shown(row.subject) }), el("span.soft", {}, ` ×${count(row.count)} · ${shown(row.detail, LONGEST_SENTENCE)}`, row.from === null ? null : ` · ${when(row)}`), " ",
    el("span.acts", {},
      examples.length ? numbered(look(`${one.name}: ${row.subject}`, examples, place && place.client >= 0 ? { ...BLANK, client: place.client, broker: place.broker } : null), examples[0].ref) : null,
      row.from === null ? null : el("button.look", { type: "button", text: "narrow to this", onclick: () => narrowTo(row.from, row.to ?? row.from, place && place.client >= 0 ? { client: place.client } : {}) })));
}
