// What is shown, in the address of the page: selection, search and open drawer survive a reload and can be passed on.

const view = { drawer: null }; // what the drawer shows: {exchange}, {connection}, or {title, examples, scope}
const HISTORY_MS = 800; // changes that follow each other faster, as in a drag, are one step back
let lastStep = 0;
let restoring = false;

function viewText() {
  const parts = Object.keys(BLANK).filter((name) => filter[name] !== null).map((name) => [name, String(filter[name])]);
  if (view.drawer) parts.push(["drawer", JSON.stringify(view.drawer)]);
  return parts.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
}

function keepView() {
  if (restoring) return;
  const text = viewText();
  if (text === location.hash.slice(1)) return;
  const now = Date.now();
  const step = now - lastStep > HISTORY_MS;
  lastStep = now;
  try {
    history[step ? "pushState" : "replaceState"](null, "", `#${text}`);
  } catch {
    location.hash = text; // where a page from a file may not change its history
  }
}

function number(text, most) {
  const value = Number(text);
  return Number.isInteger(value) && value >= -1 && value < most ? value : null;
}

// An address may be anything: what this file does not have is left out.
function readView() {
  const given = new Map(location.hash.slice(1).split("&").filter((part) => part.includes("=")).map((part) => {
    const [name, value] = part.split("=", 2);
    try {
      return [name, decodeURIComponent(value)];
    } catch {
      return [name, ""];
    }
  }));
  const most = { from: STEPS, to: STEPS + 1, api: DATA.apis.length, client: DATA.clients.length, broker: DATA.brokers.length, topic: DATA.topics.length, connection: Number.MAX_SAFE_INTEGER };
  const chosen = { ...BLANK };
  for (const [name, limit] of Object.entries(most)) if (given.has(name)) chosen[name] = number(given.get(name), limit);
  if (chosen.from === null || chosen.to === null || chosen.from >= chosen.to) chosen.from = chosen.to = null;
  if (chosen.connection !== null && !CONNECTIONS.has(chosen.connection)) chosen.connection = null;
  if (GROUPS.has(given.get("group"))) chosen.group = given.get("group");
  return { chosen, drawer: readDrawer(given.get("drawer")) };
}

function readDrawer(text) {
  try {
    const drawer = JSON.parse(text || "null");
    return drawer && typeof drawer === "object" ? drawer : null;
  } catch {
    return null;
  }
}

function restoreView() {
  restoring = true;
  const { chosen, drawer } = readView();
  const changed = Object.keys(BLANK).some((name) => filter[name] !== chosen[name]);
  if (changed) change(chosen);
  if (drawer) showDrawer(drawer);
  else if (!byId("drawer").hidden) closeDrawer();
  restoring = false;
}
