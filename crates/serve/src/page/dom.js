// Elements and the texts in them. Data becomes text nodes only, never markup.

/** Creates an element. `properties` are set as properties, or as attributes if they contain a hyphen or are `role`. */
export function el(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length > 0) element.className = classes.join(" ");
  set(element, properties);
  element.append(...present(children));
  return element;
}

/** The children that are there, of nested lists as well. */
function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

function set(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "data") {
      Object.assign(element.dataset, value);
    } else if (name.includes("-") || name === "role") {
      element.setAttribute(name, String(value));
    } else {
      element[name] = value;
    }
  }
}

/** Sets the text of an element if it is different, so that nothing is laid out again in vain. */
export function text(element, value) {
  const string = String(value);
  if (element.textContent !== string) element.textContent = string;
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
}

const SVG = "http://www.w3.org/2000/svg";

/** Creates an SVG element with attributes. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

const integer = new Intl.NumberFormat("en");
const decimal = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });

/** 100,000 */
export function count(value) {
  return value === null || value === undefined ? "–" : integer.format(value);
}

/** `1 object`, `2 objects` */
export function counted(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** A rate per second: one decimal below 100. */
export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  return value < 100 ? decimal.format(value) : integer.format(Math.round(value));
}

/** 148.9 MB */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let unit = 0;
  const units = ["B", "kB", "MB", "GB"];
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : decimal.format(value)} ${units[unit]}`;
}

/** A duration in seconds as people read it: 12 ms, 3.2 s, 4m 10s, 3h, 12d. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.0005) return "0 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${decimal.format(seconds)} s`;
  return age(seconds);
}

/** An age in seconds as kubectl prints it: 42s, 5m10s, 3h4m, 12d. */
export function age(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 120) return `${s}s`;
  if (s < 600) return s % 60 ? `${Math.floor(s / 60)}m${s % 60}s` : `${s / 60}m`;
  if (s < 3600 * 3) return `${Math.floor(s / 60)}m`;
  if (s < 3600 * 8) return `${Math.floor(s / 3600)}h${Math.floor((s % 3600) / 60)}m`;
  if (s < 86400 * 2) return `${Math.floor(s / 3600)}h`;
  if (s < 86400 * 365 * 2) return `${Math.floor(s / 86400)}d`;
  return `${Math.floor(s / (86400 * 365))}y`;
}

/** The age of a time stamp, or a dash. */
export function since(time) {
  return time ? age((Date.now() - Date.parse(time)) / 1000) : "–";
}

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** The local time of day, 14:03:22. */
export function clock(time) {
  return clockFormat.format(typeof time === "string" ? Date.parse(time) : time);
}

/** Calls a function at most once in `ms`, with the last arguments, after the caller has been quiet for that time. */
export function debounce(ms, run) {
  let timer = 0;
  const call = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(run, ms, ...args);
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}

/** A button. */
export function button(label, click, properties = {}) {
  return el("button", { type: "button", ...properties, on: { click } }, label);
}

/** A small label with a color that means something. */
export function chip(label, tone = "") {
  return el("span.chip", { data: { tone } }, label);
}

/** Shows a short message at the bottom of the page for some seconds. */
export function toast(message) {
  const element = document.getElementById("toast");
  text(element, message);
  element.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => {
    element.hidden = true;
  }, 4000);
}
