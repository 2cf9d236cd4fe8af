// Consumer groups: members over time, rebalances with trigger and generation, and lag.

function groupsSection(body) {
  const rows = DATA.groups.rows.filter((row) => filter.client === null || row.clients.includes(filter.client));
  if (!DATA.groups.rows.length) return fill(body, [el("p.empty", { text: "No consumer group is named in this capture." })]);
  if (!rows.length) return fill(body, [el("p.empty", { text: "The selected client is in no group." })]);
  const first = rows.slice(0, opened.get("groups")?.all ? rows.length : 6);
  fill(body, [groupLegend(), first.map(groupBlock),
    rows.length > first.length ? el("button.more-rows", { type: "button", text: `Show all ${count(rows.length)} groups`, onclick: () => { opened.set("groups", { all: true }); redraw("groups"); } }) : null,
    DATA.groups.omitted ? el("p.soft", { text: `${plural(DATA.groups.omitted, "group")} with fewer steps are not listed.` }) : null,
    DATA.groups.events_omitted ? el("p.soft", { text: `${plural(DATA.groups.events_omitted, "step")} of groups after the first are not in this file.` }) : null]);
}

const groupLegend = () => el("div.key", { css: { "margin-bottom": "12px" } },
  el("span", {}, el("i", { css: { background: "var(--s1)", opacity: 0.45 } }), "rebalance"),
  el("span", {}, el("i.stroke", { css: { background: "var(--s0)" } }), "a member"),
  el("span", {}, legendMark("join"), "joined"), el("span", {}, legendMark("left"), "left"), el("span", {}, legendMark("gone"), "gone without leaving"), el("span", {}, legendMark("error"), "error"));

const legendMark = (kind) => svg("svg", { width: 12, height: 12, viewBox: "-6 -6 12 12", "aria-hidden": "true" }, mark(kind, 0, 0));

function mark(kind, x, y) {
  const attributes = { transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, class: `mark ${kind}` };
  if (kind === "join") return svg("path", { ...attributes, d: "M-3.5 -4.5L4.5 0L-3.5 4.5z", fill: "var(--s2)" });
  if (kind === "left") return svg("path", { ...attributes, d: "M-3.5 -3.5h7v7h-7z", fill: "var(--panel)", stroke: "var(--ink)", "stroke-width": 1.5 });
  if (kind === "gone") return svg("path", { ...attributes, d: "M-4 -4L4 4M4 -4L-4 4", stroke: "var(--bad)", "stroke-width": 2.2, fill: "none" });
  return svg("circle", { ...attributes, r: 2.2, fill: "var(--bad)" });
}

const memberName = (group, id) => {
  const member = group.members.find((row) => row.id === id);
  return member && member.client >= 0 ? clientName(member.client) : shown(id);
};

function groupBlock(group) {
  const rounds = group.rebalances;
  const still = rounds.reduce((sum, round) => sum + (round.end - round.start), 0);
  const classic = group.kind === "classic";
  const facts = [classic ? "classic protocol" : group.kind, group.protocol, plural(group.members.length + group.members_omitted, "member"), plural(rounds.length + group.rebalances_omitted, classic ? "rebalance" : "epoch"),
    classic && rounds.length ? `${duration(still)} in rebalances, the longest ${duration(Math.max(...rounds.map((one) => one.end - one.start)))}` : null,
    group.errors ? plural(group.errors, "response with an error", "responses with errors") : null].filter(Boolean);
  const chart = el("div.panel");
  const block = el("div.block", { "data-group": group.name },
    el("div.title", {}, el("button.pick", { type: "button", "aria-pressed": String(filter.group === group.name), onclick: () => toggle("group", group.name), text: shown(group.name) }), el("span.soft", { text: facts.map((text) => shown(text)).join(" · ") })),
    group.members.length ? chart : el("p.soft", { text: "No member joined or left during the capture." }));
  after(() => {
    if (group.members.length) memberChart(chart, group);
    for (const lag of group.lag) lagChart(block.querySelector(`[data-lag="${group.lag.indexOf(lag)}"]`), lag);
  });
  fill(block, [group.lag.map((lag, number) => lagBlock(lag, number)), rounds.length ? rebalanceTable(group) : null]);
  return block;
}

// Names of members and axes of lag take the same room, so that all charts of a group share one time line.
const namesWidth = (width) => Math.min(190, width * 0.32);

function memberChart(panel, group) {
  const width = widthOf(panel);
  const tall = 18;
  const names = namesWidth(width);
  const bottom = 18 + group.members.length * tall + 4;
  const height = bottom + 20;
  const scale = timeScale(width, names, 12);
  const row = new Map(group.members.map((member, number) => [member.id, 18 + number * tall + tall / 2]));
  const end = Math.min(DATA.capture.last ?? STEP * STEPS, STEP * STEPS);
  const bands = group.rebalances.map((round) => {
    const [a, b] = [scale(round.start), scale(round.end)];
    return [svg("rect", { class: "rebalance", x: a, y: 14, width: Math.max(b - a, 2), height: bottom - 14, fill: "var(--s1)", "fill-opacity": 0.3 })];
  });
  let lastLabel = -100;
  const generations = group.rebalances.map((round) => {
    const x = (scale(round.start) + scale(round.end)) / 2;
    if (x - lastLabel < 22 || x < scale.left || x > scale.right) return null;
    lastLabel = x;
    return svg("text", { x, y: 10, "text-anchor": "middle" }, String(round.generation));
  });
  const members = group.members.map((seen) => {
    const y = row.get(seen.id);
    const to = seen.to ?? end;
    const name = svg("text", { x: 0, y: y + 4, class: "name" }, cut(memberName(group, seen.id), names / 6.9));
    const line = svg("g", { class: "member" },
      svg("line", { x1: scale(seen.from), x2: scale(to), y1: y, y2: y, stroke: "var(--s0)", "stroke-width": 3, "stroke-opacity": 0.8 }),
      mark("join", scale(seen.from), y), seen.end ? mark(seen.end, scale(to), y) : null);
    return { name, line };
  });
  const errors = group.events.filter((entry) => entry.error && row.has(entry.member)).map((entry) => mark("error", scale(entry.at), row.get(entry.member)));
  const chart = svg("svg", { class: "chart members", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `members of ${group.name} and its rebalances` },
    timeAxis(scale, bottom), inside(scale, bottom, bands, members.map((member) => member.line), errors), members.map((member) => member.name), generations, svg("text", { x: 0, y: 10, fill: "var(--faint)" }, group.kind === "classic" ? "generation" : "epoch"));
  replace(panel, chart);
  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    const time = scale.at(event.clientX - box.left);
    const near = (6 / scale.inner) * scale.span;
    const line = Math.floor((event.clientY - box.top - 18) / tall);
    const member = group.members[line];
    const events = group.events.filter((row) => Math.abs(row.at - time) < near && (!member || row.member === member.id)).slice(0, 5);
    const round = group.rebalances.find((candidate) => time >= candidate.start - near && time <= candidate.end + near);
    if (!events.length && !round && !member) return untip();
    tip(event, member ? el("b", { text: memberName(group, member.id) }) : null, member ? el("div.soft", { text: shown(member.id) }) : null,
      events.map((row) => el("div", { text: `${clock(row.at)} ${row.api}${row.error ? `: ${row.error}` : ""}${row.generation === null || row.generation < 0 ? "" : `, ${row.generation}`}` })),
      round ? el("div.soft", { text: `${group.kind === "classic" ? "generation" : "epoch"} ${round.generation}: ${duration(round.end - round.start)}` }) : null);
  });
  chart.addEventListener("pointerleave", untip);
  selectable(chart, scale, openStep);
}

function cut(text, most) {
  const room = Math.max(Math.floor(most), 6);
  return text.length <= room ? text : `${text.slice(0, Math.ceil(room * 0.6))}…${text.slice(-Math.floor(room * 0.3))}`;
}

function rebalanceTable(group) {
  const classic = group.kind === "classic";
  const rows = group.rebalances.filter((round) => filter.from === null || (round.start < toNs() && round.end >= fromNs()));
  if (!rows.length) return el("p.soft", { text: `No ${classic ? "rebalance" : "epoch"} in this range.` });
  const who = (ids) => listed(ids.map((id) => memberName(group, id)), 3) || el("span.faint", { text: NONE });
  return el("details.inner", { open: DATA.groups.rows.length <= 2 }, el("summary", { text: `${plural(rows.length, classic ? "rebalance" : "epoch")}${filter.from === null ? "" : " in this range"}: triggers, durations, packets` }), table([
    { key: "generation", label: classic ? "Generation" : "Epoch", number: false, cell: (round) => [String(round.generation)], sort: (round) => round.generation },
    { key: "start", label: "Began", number: false, cell: (round) => clock(round.start), sort: (round) => round.start },
    { key: "took", label: classic ? "Stopped for" : "Reached all in", title: classic ? "from the first sign to the last assignment" : "from the first member that received the epoch to the last", cell: (round) => [duration(round.end - round.start), round.complete ? null : el("span.warn", { text: " at least" })], sort: (round) => round.end - round.start },
    { key: "members", label: "Members", cell: (round) => count(round.members), sort: (round) => round.members },
    { key: "joined", label: "Joined", number: false, cell: (round) => who(round.joined) },
    { key: "left", label: "Left", number: false, cell: (round) => who(round.left) },
    { key: "gone", label: "Gone", title: "members of the previous generation that did not leave and did not come back", number: false, cell: (round) => (round.gone.length ? el("span.bad", {}, who(round.gone)) : el("span.faint", { text: NONE })) },
    { key: "reasons", label: "Said", number: false, cell: (round) => listed(round.reasons.map((text) => shown(text)), 1) },
    { key: "look", label: "", cell: (round) => packetButton(`${group.name}, ${round.generation}`, round.ref, round.start) },
  ], { id: `group ${group.name}`, rows, label: `rebalances of ${group.name}` }));
}

function lagBlock(lag, number) {
  const title = `Lag on ${shown(lag.topic)}`;
  return el("div", {}, captioned(title, lagSeries(lag)), el("div.panel", { "data-lag": number }),
    lag.partitions.length ? el("details.inner", {}, el("summary", { text: "By partition, at the end" }), table([
      { key: "partition", label: "Partition", number: false, cell: (row) => [`${shown(lag.topic)}-${row.partition}`], sort: (row) => row.partition },
      { key: "end", label: "End of the log", cell: (row) => [count(row.end), " ", packetButton("end of the log", row.end_ref)], sort: (row) => row.end },
      { key: "committed", label: "Committed", cell: (row) => (row.committed === undefined ? NONE : [count(row.committed), " ", packetButton("committed offset", row.committed_ref)]), sort: (row) => row.committed },
      { key: "behind", label: "Lag", cell: (row) => (row.committed_lag === undefined ? NONE : count(row.committed_lag)), sort: (row) => row.committed_lag },
      { key: "fetched", label: "Fetched", cell: (row) => (row.fetched === undefined ? NONE : [count(row.fetched), " ", packetButton("fetch", row.fetched_ref)]), sort: (row) => row.fetched },
      { key: "fetchedBehind", label: "Not fetched", cell: (row) => (row.fetched_lag === undefined ? NONE : count(row.fetched_lag)), sort: (row) => row.fetched_lag },
    ], { id: `lag ${number} ${lag.topic}`, rows: lag.partitions, label: title }), lag.partitions_omitted ? el("p.soft", { text: `${plural(lag.partitions_omitted, "partition")} more.` }) : null) : null);
}

const lagSeries = (lag) => [["not committed", "s0", lag.committed], ["not fetched", "s1", lag.fetched]].filter(([, , values]) => values.some((value) => value !== null));

function lagChart(panel, lag) {
  if (!panel) return;
  const known = lagSeries(lag);
  if (known.length) lines(panel, known, count, 110, namesWidth(widthOf(panel)));
  else replace(panel, el("p.soft", { text: "There are commits or fetches, but no end of the log in this capture: the lag is not known." }));
}
