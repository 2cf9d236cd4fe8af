// Tables: sorted by any column, only the first rows at first; a click on a row selects it.

const ROWS_SHOWN = 12;
const SHORT = 22; // characters of a name that is not broken
const opened = new Map();

// columns: {key, label, cell(row), sort(row), number, title}; options: {rows, pick: {name, value(row)}, order, id, dim(row)}
function table(columns, { id, rows, pick, order, dim, label }) {
  const state = opened.get(id) || { all: false, key: order ? order[0] : null, down: true };
  opened.set(id, state);
  const node = el("div");
  const draw = () => {
    const column = columns.find((row) => row.key === state.key);
    const sorted = column && column.sort ? [...rows].sort((a, b) => compare(column.sort(a), column.sort(b)) * (state.down ? -1 : 1)) : rows;
    const visible = state.all ? sorted : sorted.slice(0, ROWS_SHOWN);
    const left = sorted.length - visible.length;
    replace(node,
      el("div.scroll", { tabindex: "0", role: "region", "aria-label": label }, el("table", {},
        el("thead", {}, el("tr", {}, columns.map((column) => head(column, state, draw)))),
        el("tbody", {}, visible.map((row) => line(columns, row, pick, dim))))),
      left > 0 ? el("button.more-rows", { type: "button", text: `Show all ${count(sorted.length)}`, onclick: () => { state.all = true; draw(); } }) : null,
      state.all && sorted.length > ROWS_SHOWN ? el("button.more-rows", { type: "button", text: `Show the first ${ROWS_SHOWN}`, onclick: () => { state.all = false; draw(); } }) : null);
  };
  draw();
  return node;
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return a < b ? -1 : 1;
}

function head(column, state, draw) {
  const sorted = state.key === column.key ? (state.down ? "descending" : "ascending") : column.sort ? "none" : null;
  const sort = () => {
    state.down = state.key === column.key ? !state.down : column.number !== false;
    state.key = column.key;
    draw();
  };
  return el(column.number === false ? "th" : "th.n", { scope: "col", "aria-sort": sorted, title: column.title, "data-key": column.key },
    column.sort ? el("button", { type: "button", text: column.label, onclick: sort }) : column.label);
}

function line(columns, row, pick, dim) {
  const chosen = pick && filter[pick.name] !== null && filter[pick.name] === pick.value(row);
  return el(`tr${chosen ? ".on" : ""}${dim && dim(row) ? ".dim" : ""}`, {}, columns.map((column, number) => {
    const cell = column.cell(row);
    const content = cell === NONE ? el("span.faint", { text: NONE }) : cell;
    return el(`td${column.number === false ? ".t" : ".n"}${number === 0 ? ".first" : ""}`, { "data-key": column.key },
      number === 0 && pick && pick.value(row) >= 0 || number === 0 && pick && typeof pick.value(row) === "string" ? picker(pick, row, content) : content);
  }));
}

function picker(pick, row, content) {
  const [name, under] = Array.isArray(content) ? content : [content, null];
  const value = pick.value(row);
  return [el(String(name).length > SHORT ? "button.pick" : "button.pick.nowrap", { type: "button", "aria-pressed": String(filter[pick.name] === value), onclick: () => toggle(pick.name, value) }, name), under];
}

const under = (text) => (text ? el("div.under", { text }) : null);
const bad = (text, is) => (is ? el("span.bad", { text }) : el("span.faint", { text: NONE }));

function shareBar(part) {
  return [share(part), el("span.share", { "aria-hidden": "true" }, el("i", { css: { width: `${Math.max(part * 100, part > 0 ? 1.5 : 0)}%` } }))];
}

// A histogram of latencies in half decades from 10 µs to 100 s.
function spark(cells) {
  const bars = new Array(14).fill(0);
  for (const [cell, number] of cells) {
    const bar = Math.floor((Math.log10(Math.max(cellMiddle(cell), 1)) - 4) * 2);
    bars[Math.max(0, Math.min(13, bar))] += number;
  }
  const highest = Math.max(...bars);
  if (!highest) return el("span.faint", { text: NONE });
  const d = bars.map((number, bar) => (number ? `M${bar * 9.4} 18v-${Math.max(1.5, (Math.sqrt(number / highest)) * 17).toFixed(1)}h8.2V18z` : "")).join("");
  return svg("svg", { class: "spark", viewBox: "0 0 132 18", role: "img", "aria-label": "histogram from 10 µs to 100 s" },
    svg("path", { d: "M0 17.75H132", stroke: "var(--line)" }), svg("path", { d, fill: "var(--s0)" }));
}
