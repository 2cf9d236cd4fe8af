// Incidents, the greatest impact first: a headline, lanes on which signals lie, consequences, evidence.

const openIncidents = new Set(DATA.incidents.slice(0, 2).map((row, place) => place));

function incidentsSection(body) {
  const rows = DATA.incidents.map((row, place) => ({ row, place })).filter(({ row }) => inTime(row));
  if (!rows.length) return fill(body, [el("p.empty", { text: DATA.incidents.length ? "No incident in this range of time." : "No incident found." })]);
  fill(body, rows.map(({ row, place }) => incident(row, place)));
}

function incident(one, place) {
  const named = { ...one, name: one.cause };
  const node = el("details.finding.incident", { open: openIncidents.has(place), "data-name": one.cause },
    el("summary", {},
      el(`span.severity.${one.severity}`, { text: one.severity }),
      el("span.title", { text: shown(one.title, LONGEST_SENTENCE) }),
      el("span.when", { text: when(one) })),
    el("div.body", {},
      el("div", {},
        lanes(one),
        el("ul.evidence", {}, one.consequences.map((text) => el("li", { text: shown(text, LONGEST_SENTENCE) }))),
        el("details.inner", {}, el("summary", { text: "Evidence" }), el("ul.evidence", {}, one.evidence.filter(isAbout).map((row) => evidence(named, row))))),
      el("div.advice", {},
        el("p", {}, el("b", { text: "What it means" }), sentence(one.means)),
        el("p", {}, el("b", { text: "Look at next" }), sentence(one.next)),
        one.reasons.length ? el("p", {}, el("b", { text: `Why (confidence ${one.confidence})` }), one.reasons.map((text) => shown(text, LONGEST_SENTENCE)).join("; ")) : null,
        el("button.look", { type: "button", text: "narrow to this", onclick: () => narrowTo(one.from, one.to, {}) }))));
  node.addEventListener("toggle", () => openIncidents[node.open ? "add" : "delete"](place));
  return node;
}

// The lanes show the incident and a tenth of its length before and after it.
function lanes(one) {
  const margin = Math.max((one.to - one.from) / 10, 1e8);
  const from = Math.min(one.from, ...one.lanes.flatMap((lane) => lane.bars.map((bar) => bar.from))) - margin;
  const to = Math.max(one.to, ...one.lanes.flatMap((lane) => lane.bars.map((bar) => bar.to))) + margin;
  const share = (at) => `${(100 * (at - from)) / (to - from)}%`;
  return el("div.lanes", { role: "list" },
    one.lanes.map((lane) => el("div.lane", { role: "listitem" },
      el("span.soft", { text: shown(lane.subject), title: shown(lane.subject) }),
      el("div.track", {}, lane.bars.map((bar) => el("span.bar", {
        css: { left: share(bar.from), width: share(from + Math.max(bar.to - bar.from, 0)) },
        tabindex: "0", role: "img", "aria-label": shown(bar.text, LONGEST_SENTENCE),
        onmousemove: (event) => tip(event, shown(bar.text, LONGEST_SENTENCE)), onmouseleave: untip,
        onfocus: (event) => tip(event, shown(bar.text, LONGEST_SENTENCE)), onblur: untip,
      }))))),
    one.lanes_omitted ? el("p.soft", { text: `and ${plural(one.lanes_omitted, "more subject")}` }) : null,
    el("p.soft", { text: period(from, to) }));
}
