// Search over everything that has a name: clients, brokers, topics, groups, APIs, errors, incidents, findings, connections.

const MOST_FOUND = 12;
const MOST_OF_A_KIND = 4;

function goTo(id) {
  const section = byId(id);
  if (section) section.scrollIntoView({ block: "start" });
}

// Each is {kind, text, more, pick()}.
function searchables() {
  const choose = (name, value, section) => () => { change({ [name]: value }); goTo(section); };
  const failures = [...addUpFailures(BLANK, (row) => row.code).values()].sort((a, b) => b.n - a.n);
  const unfold = (kind, place, name) => () => {
    (kind === "incident" ? openIncidents : openFindings).add(kind === "incident" ? place : name);
    redraw(`${kind}s`);
    const node = byId(`${kind}s`).querySelector(`[data-name="${CSS.escape(name)}"]`);
    if (node) node.scrollIntoView({ block: "center" });
  };
  return [
    ...DATA.incidents.map((row, place) => ({ kind: "incident", text: row.title, more: row.cause, pick: unfold("incident", place, row.cause) })),
    ...DATA.findings.map((row) => ({ kind: "finding", text: row.title, more: row.name, pick: unfold("finding", 0, row.name) })),
    ...DATA.clients.map((row, client) => ({ kind: "client", text: clientName(client), more: row.host || "", pick: choose("client", client, "clients") })),
    ...DATA.topics.map((row, topic) => ({ kind: "topic", text: row.name, more: plural(row.partitions, "partition"), pick: choose("topic", topic, "topics") })),
    ...DATA.groups.rows.map((row) => ({ kind: "group", text: row.name, more: plural(row.members.length, "member"), pick: choose("group", row.name, "groups") })),
    ...DATA.brokers.map((row, broker) => ({ kind: "broker", text: brokerName(broker), more: row.node === null ? "" : `node ${row.node}`, pick: choose("broker", broker, "brokers") })),
    ...DATA.apis.map((row, api) => ({ kind: "API", text: apiName(api), more: plural(row.all.n, "call"), pick: choose("api", api, "profile") })),
    ...failures.map((row) => ({ kind: "error", text: errorName(row.code), more: plural(row.n, "response"), pick: () => { goTo("errors"); openPackets(errorName(row.code), row.refs.map(({ ref, step, client }) => ({ what: clientName(client), ref, at: step * STEP }))); } })),
    ...DATA.connections.rows.map((row) => ({ kind: "connection", text: connectionName(row.number), more: clientName(row.client), pick: choose("connection", row.number, "connections") })),
  ];
}

const plainText = (text) => String(text).toLowerCase().replaceAll(/[-_.\s]+/g, " ");

// Those that begin with the words come first; at most a few of each kind, unless there is only one kind.
function searchFor(all, text) {
  const words = plainText(text).trim();
  if (!words) return [];
  const rank = (one) => {
    const name = plainText(one.text);
    if (name === words) return 0;
    if (name.startsWith(words)) return 1;
    if (name.includes(words)) return 2;
    return plainText(`${one.kind} ${one.text} ${one.more}`).includes(words) ? 3 : 9;
  };
  const hits = all.map((one) => ({ one, rank: rank(one) })).filter((hit) => hit.rank < 9).sort((a, b) => a.rank - b.rank).map((hit) => hit.one);
  const counts = new Map();
  const several = hits.filter((one) => { counts.set(one.kind, (counts.get(one.kind) || 0) + 1); return counts.get(one.kind) <= MOST_OF_A_KIND; });
  return (counts.size > 1 ? several : hits).slice(0, MOST_FOUND);
}

function searchBox() {
  const all = searchables();
  let hits = [];
  let chosen = -1;
  const list = el("ul.hits", { id: "hits", role: "listbox", "aria-label": "found", hidden: true });
  const input = el("input.search", { type: "search", placeholder: "Search  /", "aria-label": "Search clients, topics, groups, errors, incidents", role: "combobox", "aria-expanded": "false", "aria-controls": "hits", autocomplete: "off", spellcheck: "false" });
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  const pick = (one) => {
    input.value = "";
    close();
    one.pick();
  };
  const draw = () => {
    replace(list, hits.map((one, at) => el("li", { role: "option", id: `hit-${at}`, "aria-selected": String(at === chosen), onmousedown: (event) => { event.preventDefault(); pick(one); } },
      el("span.kind", { text: one.kind }), el("span.name", { text: shown(one.text) }), el("span.soft", { text: shown(one.more || "") }))),
    hits.length ? null : el("li.soft", { text: "Nothing of this name is in the capture." }));
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
    if (chosen >= 0) input.setAttribute("aria-activedescendant", `hit-${chosen}`);
    else input.removeAttribute("aria-activedescendant");
  };
  input.addEventListener("input", () => {
    hits = searchFor(all, input.value);
    chosen = hits.length ? 0 : -1;
    draw();
  });
  input.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && hits.length) {
      event.preventDefault();
      chosen = (chosen + by + hits.length) % hits.length;
      draw();
    } else if (event.key === "Enter" && hits[chosen]) {
      event.preventDefault();
      pick(hits[chosen]);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      if (list.hidden) input.blur();
      input.value = "";
      close();
    }
  });
  input.addEventListener("blur", close);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
    event.preventDefault();
    input.focus();
  });
  return el("div.searching", { role: "search" }, input, list);
}
