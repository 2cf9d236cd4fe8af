// The data of this file, and names for its numbers.

const DATA = JSON.parse(byId("data").textContent);
const STEP = DATA.grid.step;
const STEPS = DATA.grid.steps;
const DATED = DATA.capture.first !== null && day(DATA.capture.first) !== day(DATA.capture.last);
const FILES = Math.max(DATA.capture.files.length, 1);

const placeOf = (ref) => (ref === null || ref === undefined ? null : { file: DATA.capture.files[ref % FILES], packet: Math.floor(ref / FILES) });

const apiName = (number) => (number < 0 ? "other APIs" : shown(DATA.apis[number].name));
const clientName = (number) => (number < 0 ? "other clients" : DATA.clients[number].id === null ? "(no client id)" : shown(DATA.clients[number].id));
const hostPort = (host, port) => (String(host).includes(":") ? `[${host}]:${port}` : `${host}:${port}`);

function brokerName(number) {
  if (number < 0) return "other brokers";
  const { host, port } = DATA.brokers[number];
  return host === null ? "not known" : shown(hostPort(host, port));
}

const CONNECTIONS = new Map(DATA.connections.rows.map((row) => [row.number, row]));
const connectionName = (number) => {
  const row = CONNECTIONS.get(number);
  return row ? `${hostPort(row.client_host, row.client_port)} → ${hostPort(row.server_host, row.server_port)}` : "other connections";
};

const GROUPS = new Map(DATA.groups.rows.map((row) => [row.name, row]));
const errorName = (code) => DATA.error_names[code] || `code ${code}`;
