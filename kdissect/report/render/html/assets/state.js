// The selection, and the sections that are drawn again when it changes.

const BLANK = { from: null, to: null, api: null, client: null, broker: null, connection: null, topic: null, group: null };
const LABELS = { time: "time", api: "API", client: "client", broker: "broker", connection: "connection", topic: "topic", group: "group" };
const filter = { ...BLANK };
const watchers = [];

const isBlank = () => Object.keys(BLANK).every((name) => filter[name] === null);

function change(changes) {
  Object.assign(filter, changes);
  untip();
  for (const draw of watchers) draw();
  keepView();
}

const toggle = (name, value) => change({ [name]: filter[name] === value ? null : value });

function narrowTo(fromNs, toNs, more = {}) {
  const from = Math.max(0, Math.min(STEPS - 1, Math.floor(fromNs / STEP)));
  const to = Math.min(STEPS, Math.max(from + 1, Math.floor(toNs / STEP) + 1));
  change({ from, to, ...more });
}

const fromNs = () => (filter.from === null ? 0 : filter.from * STEP);
const toNs = () => (filter.to === null ? STEPS * STEP : filter.to * STEP);

// Seconds of the selection, or of the capture, for rates.
function seconds() {
  const captured = Math.max((DATA.capture.last ?? 0) - (DATA.capture.first ?? 0), 1e6);
  return (filter.from === null ? captured : (filter.to - filter.from) * STEP) / 1e9;
}

function selectedNames() {
  const parts = [];
  if (filter.from !== null) parts.push(["time", stepPeriod(filter.from, filter.to), { from: null, to: null }]);
  const names = {
    api: apiName, client: clientName, broker: brokerName, connection: connectionName, group: shown,
    topic: (at) => shown(DATA.topics[at].name),
  };
  for (const [name, tell] of Object.entries(names)) {
    if (filter[name] !== null) parts.push([name, `${LABELS[name]} ${tell(filter[name])}`, { [name]: null }]);
  }
  return parts;
}

const ANY_TIME = { from: null, to: null };

// `instead` replaces parts of the selection: a table is not narrowed by the row that is chosen in it.
const sumsBy = (keyOf, instead = {}) => addUp({ ...filter, ...instead }, keyOf);

const NOTHING = new Sums();
const sumsOfAll = () => sumsBy(() => 0).get(0) || NOTHING;
