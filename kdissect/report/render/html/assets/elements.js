// Elements are made only here: text goes through textContent, so captured text is never read as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

function assign(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else if (name === "css") for (const [property, to] of Object.entries(value)) node.style.setProperty(property, to);
    else node.setAttribute(name, value === true ? "" : value);
  }
  return node;
}

function el(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const node = assign(document.createElement(name || "div"), attributes);
  if (classes.length) node.classList.add(...classes);
  return fill(node, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(assign(document.createElementNS(SVG, tag), attributes), children);
}

function replace(node, ...children) {
  node.replaceChildren();
  return fill(node, children);
}

// Charts that need their width are drawn once they have a place in the page.
let pending = [];

function after(draw) {
  pending.push(draw);
}

const byId = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// A tooltip follows the pointer, or stands beside the focused element.
function tip(event, ...children) {
  const box = byId("tip");
  replace(box, ...children);
  box.hidden = false;
  const target = event.clientX === undefined || event.type === "focus" ? event.target.getBoundingClientRect() : null;
  const x = target ? target.left + target.width / 2 : event.clientX;
  const y = target ? target.top : event.clientY;
  box.style.left = box.style.top = "0"; // where it has all its width
  const { width, height } = box.getBoundingClientRect();
  box.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8))}px`;
  box.style.top = `${y + 18 + height > innerHeight ? Math.max(8, y - height - 12) : y + 18}px`;
}

function untip() {
  byId("tip").hidden = true;
}
