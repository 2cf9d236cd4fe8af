// The counts by step, API, client, broker and connection, added up for the selection.

const CELL = DATA.grid.cell_bits;
const PER_OCTAVE = 1 << (7 - CELL);

// A cell is 2^CELL buckets of the report's histogram: 128 buckets to an octave, one for each value below 256.
function cellLow(cell) {
  const bucket = cell * 2 ** CELL;
  const shift = Math.max(Math.floor(bucket / 128) - 1, 0);
  return (bucket - shift * 128) * 2 ** shift;
}

const cellMiddle = (cell) => (cellLow(cell) + cellLow(cell + 1)) / 2;

class Sums {
  constructor() {
    this.n = this.errors = this.unanswered = this.latency = this.max = this.upload = this.transfer = 0;
    this.requestBytes = this.responseBytes = this.throttled = this.throttle = 0;
    this.records = this.recordBytes = 0;
    this.timed = this.idleTimed = this.idleLatency = this.idleMax = 0;
    this.cells = new Map();
    this.idleCells = new Map();
    this.first = null;
    this.slowest = null;
    this.silent = null;
    this.slowestCell = -1;
  }

  take(idle, sums, cells) {
    this.n += sums[0];
    this.errors += sums[1] || 0;
    this.unanswered += sums[2] || 0;
    this.upload += sums[5] || 0;
    this.transfer += sums[6] || 0;
    this.requestBytes += sums[7] || 0;
    this.responseBytes += sums[8] || 0;
    this.throttled += sums[9] || 0;
    this.throttle += sums[10] || 0;
    this.records += sums[11] || 0;
    this.recordBytes += sums[12] || 0;
    const into = idle ? this.idleCells : this.cells;
    let timed = 0;
    for (let index = 0; index < cells.length; index += 3) {
      if (this.first === null) this.first = cells[index + 2];
      if (cells[index] < 0) {
        if (sums[2] && this.silent === null) this.silent = cells[index + 2];
        continue;
      }
      timed += cells[index + 1];
      into.set(cells[index], (into.get(cells[index]) || 0) + cells[index + 1]);
      if (!idle && cells[index] > this.slowestCell) [this.slowestCell, this.slowest] = [cells[index], cells[index + 2]];
    }
    if (idle) {
      this.idleTimed += timed;
      this.idleLatency += sums[3] || 0;
      this.idleMax = Math.max(this.idleMax, sums[4] || 0);
    } else {
      this.timed += timed;
      this.latency += sums[3] || 0;
      this.max = Math.max(this.max, sums[4] || 0);
    }
  }

  percentile(mille, idle = false) {
    const total = idle ? this.idleTimed : this.timed;
    return total ? Math.min(rank(idle ? this.idleCells : this.cells, total, mille), idle ? this.idleMax : this.max) : null;
  }

  get mean() {
    return this.timed ? this.latency / this.timed : null;
  }
}

// Nearest rank: of n values in ascending order the one at position ceil(p n).
function rank(cells, total, mille) {
  const rank = Math.ceil((total * mille) / 1000);
  let passed = 0;
  for (const cell of [...cells.keys()].sort((a, b) => a - b)) {
    passed += cells.get(cell);
    if (passed >= rank) return cellMiddle(cell);
  }
  return 0;
}

const seriesOf = (pivot, third) => pivot.series.map(([slot, api, idle, steps]) => {
  const [client, broker, other] = pivot.slots[slot];
  return { client, broker, [third]: other, api, idle, steps };
});

// An exchange may name several topics, so topics cannot be a dimension of the pivot of connections.
const SERIES = seriesOf(DATA.pivot, "connection");
const TOPIC_SERIES = seriesOf(DATA.topic_pivot, "topic");

function admits(filter, row) {
  return (filter.api === null || row.api === filter.api)
    && (filter.client === null || row.client === filter.client)
    && (filter.broker === null || row.broker === filter.broker)
    && (filter.connection === null || row.connection === undefined || row.connection === filter.connection)
    && (filter.topic === null || row.topic === undefined || row.topic === filter.topic)
    && (filter.group === null || GROUPS.get(filter.group).clients.includes(row.client));
}

const inRange = (filter, step) => filter.from === null || (step >= filter.from && step < filter.to);

// Returns sums by key; `keyOf(row, step)` returns the key, or undefined to leave a row out.
function addUp(filter, keyOf, series = filter.topic === null ? SERIES : TOPIC_SERIES) {
  const totals = new Map();
  for (const row of series) {
    if (!admits(filter, row)) continue;
    for (const [step, sums, cells] of row.steps) {
      if (!inRange(filter, step)) continue;
      const key = keyOf(row, step);
      if (key === undefined) continue;
      let total = totals.get(key);
      if (!total) totals.set(key, total = new Sums());
      total.take(row.idle, sums, cells);
    }
  }
  return totals;
}

function addUpFailures(filter, keyOf) {
  const totals = new Map();
  for (const [step, api, code, client, broker, connection, number, ref] of DATA.failures) {
    const row = { api, client, broker, connection, code };
    if (!inRange(filter, step) || !admits(filter, row)) continue;
    const key = keyOf(row, step);
    let total = totals.get(key);
    if (!total) totals.set(key, total = { api, code, n: 0, refs: [], steps: new Map(), clients: new Map() });
    total.n += number;
    total.steps.set(step, (total.steps.get(step) || 0) + number);
    total.clients.set(client, (total.clients.get(client) || 0) + number);
    if (ref !== null && total.refs.length < 20) total.refs.push({ ref, step, client, broker, number });
  }
  return totals;
}
