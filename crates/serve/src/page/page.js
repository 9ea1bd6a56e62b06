// The page: its frame, its views by route, the keyboard, the connection.

import { authentication, setToken } from "./api.js";
import { mount as mountControllers, readControllers } from "./controllers.js";
import { age, button, clock, count, el, fill, rate, text, toast } from "./dom.js";
import { mount as mountEvents } from "./events.js";
import { openFind } from "./find.js";
import { mount as mountInformer } from "./informer.js";
import { mount as mountInformers } from "./informers.js";
import { mountObject } from "./object.js";
import { mount as mountRing, readRing } from "./ring.js";
import { closeObject, go, href, openedObject, route } from "./router.js";
import { severity, state } from "./state.js";

const element = (id) => document.getElementById(id);
const main = element("main");
const drawer = element("drawer");
const dialog = element("dialog");

let view = null;
let viewRoute = null;
let object = null;

/** Shows the view of the current route. */
function show() {
  const next = route();
  const isSame = view !== null && viewRoute.path.join("/") === next.path.join("/");
  if (!isSame || view.update?.(next) === false) {
    view?.close();
    viewRoute = next;
    const [name] = next.path;
    if (name === "informers" && next.path.length > 1) view = mountInformer(main, next);
    else if (name === "controllers") view = mountControllers(main, next);
    else if (name === "ring") view = mountRing(main);
    else if (name === "events") view = mountEvents(main, next);
    else view = mountInformers(main, next);
    main.scrollTop = 0;
    drawCrumbs();
  }
  showObject();
  drawRail();
  drawTitle();
}

function showObject() {
  const next = openedObject();
  if (next && object && object.id === next.id && object.key === next.key) {
    object.update(next);
  } else {
    object?.close();
    object = null;
    drawer.hidden = next === null;
    document.body.classList.toggle("with-object", next !== null);
    if (next) object = mountObject(drawer, next);
  }
  view.opened?.(next);
}

function drawCrumbs() {
  const parts = view.crumbs.map(([label, link], index) => {
    const isLast = index === view.crumbs.length - 1;
    return el("li", {}, link && !isLast ? el("a", { href: link }, label) : el("span", { "aria-current": isLast ? "page" : null }, label));
  });
  fill(element("crumbs"), el("ol", {}, parts));
}

function drawTitle() {
  const bad = [...state.informers.values()].filter(({ info }) => severity(info) !== "ok").length;
  const marks = state.connection.phase === "lost" ? "(not connected) " : bad > 0 ? `(${bad}) ` : "";
  const title = `${marks}${object ? `${object.key.split("/").at(-1)} · ` : ""}${view?.title ?? "Informers"} · kinformer`;
  if (document.title !== title) document.title = title;
}

// The list of informers at the side.

const railRows = new Map();
const railList = el("ul");
const links = {
  informers: el("a", { href: "#/" }, "Informers"),
  events: el("a", { href: "#/events" }, "Events"),
  controllers: el("a", { href: "#/controllers", hidden: true }, "Controllers"),
  ring: el("a", { href: "#/ring", hidden: true }, "Ring"),
};
fill(element("rail"), el("ul.rail-top", {}, Object.values(links).map((link) => el("li", {}, link))), el("h2", {}, "Kinds"), railList);

function drawRail() {
  const { path } = route();
  links.informers.setAttribute("aria-current", path.length === 0 ? "page" : "false");
  for (const name of ["events", "controllers", "ring"]) links[name].setAttribute("aria-current", path[0] === name ? "page" : "false");
  for (const [id, row] of railRows) {
    if (!state.informers.has(id)) {
      row.item.remove();
      railRows.delete(id);
    }
  }
  for (const [id, { info, rates }] of state.informers) {
    let row = railRows.get(id);
    if (!row) {
      row = { name: el("span.rail-name"), amount: el("span.rail-count"), dot: el("i.dot") };
      row.link = el("a", { href: href(["informers", id]) }, row.dot, row.name, row.amount);
      row.item = railList.appendChild(el("li", {}, row.link));
      railRows.set(id, row);
    }
    const tone = severity(info);
    text(row.name, info.resource);
    text(row.amount, count(info.objects));
    row.dot.dataset.tone = tone === "ok" && !info.synced ? "busy" : tone;
    row.link.title = info.problems.map((problem) => problem.message).join("\n") || `${info.name}: ${rate(rates.recent())} events per second`;
    row.link.setAttribute("aria-current", path[0] === "informers" && path[1] === id ? "page" : "false");
  }
}

/** Shows the links to the controllers and to the ring, if the program has them. */
async function findControllers() {
  // A failure is shown by the view, if it is opened.
  const { controllers } = await readControllers().catch(() => ({ controllers: [] }));
  links.controllers.hidden = controllers.length === 0;
  state.setHasControllers(controllers.length > 0);
  links.ring.hidden = (await readRing().catch(() => null)) === null;
}

// The connection.

let lostTimer = 0;
function drawConnection() {
  const { phase, since, reason } = state.connection;
  const label = element("connection");
  label.dataset.phase = phase;
  text(label.lastElementChild, { connecting: "Connecting", live: "Connected", lost: "Not connected", refused: "Token required" }[phase]);
  label.title = phase === "live" ? "This page receives the state of the program. Whether its informers are up to date is said below." : "";
  element("token").hidden = phase !== "refused";
  const banner = element("lost");
  clearInterval(lostTimer);
  banner.hidden = phase !== "lost";
  document.body.classList.toggle("stale", phase === "lost");
  if (phase === "lost") {
    const detail = el("span");
    const draw = () => {
      const wait = Math.max(0, Math.ceil((state.connection.retryAt - Date.now()) / 1000));
      text(detail, `${reason}. The figures are those of ${clock(since)}, ${age((Date.now() - since) / 1000)} ago. ${wait > 0 ? `Next attempt in ${wait} s.` : "Trying again …"}`);
    };
    draw();
    lostTimer = setInterval(draw, 500);
    // An alert is read aloud when its content changes: the counting part is not in it twice a second.
    fill(banner, el("b", {}, "Connection lost"), el("span.countdown", { "aria-live": "off" }, detail), button("Try now", () => state.connect()));
  }
  drawTitle();
}

state.addEventListener("connection", drawConnection);
state.addEventListener("connection", () => {
  if (state.connection.phase === "live") findControllers();
});
state.addEventListener("recovered", () => toast("Connected again"));
state.addEventListener("restart", () => toast("The server was started again"));
state.addEventListener("state", () => {
  drawRail();
  drawTitle();
});

// The token, if the server requires one.

authentication.required = () => {
  if (dialog.open && dialog.className === "token") return;
  const input = el("input", { type: "password", "aria-label": "Token", autocomplete: "off", required: true });
  const form = el(
    "form",
    {
      on: {
        submit: (event) => {
          event.preventDefault();
          setToken(input.value.trim());
          dialog.close();
          state.connect();
          view?.close();
          view = null;
          show();
        },
      },
    },
    el("h2", {}, "This server requires a token"),
    el("p", {}, "It is the one that the server was started with or, if the API server decides, one of a user of the cluster. This browser keeps it until the tab is closed."),
    input,
    el("button.primary", { type: "submit" }, "Connect"),
  );
  dialog.className = "token";
  fill(dialog, form);
  if (!dialog.open) dialog.showModal();
  input.focus();
};

// The theme: that of the system, or the chosen one.

function nextTheme() {
  const current = document.documentElement.dataset.theme ?? "system";
  const next = { system: "light", light: "dark", dark: "system" }[current];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("kinformer-theme", next);
  } catch {
    // Storage can be blocked; the theme then lasts as long as the page.
  }
  drawTheme();
}

function drawTheme() {
  const theme = document.documentElement.dataset.theme ?? "system";
  const sign = { system: "◐", light: "☀", dark: "☾" }[theme];
  const label = `Color theme: ${theme}`;
  text(element("theme"), sign);
  element("theme").title = `${label} (t)`;
  element("theme").setAttribute("aria-label", label);
}

// The keyboard.

const SHORTCUTS = [
  ["j k ↓ ↑", "select the next or previous row"],
  ["Enter", "open the selected row"],
  ["Esc", "close the object, leave the filter, or go up"],
  ["/", "filter"],
  ["f", "find an object of any kind"],
  ["g G", "first or last row; also Home and End"],
  ["y h w", "content, history, or why of the open object"],
  ["p", "pause or resume the events"],
  ["i e c", "informers, events, controllers"],
  ["t", "color theme"],
  ["?", "these keys"],
];

function showKeys() {
  dialog.className = "help";
  fill(
    dialog,
    el("h2", {}, "Keyboard"),
    el("dl", {}, SHORTCUTS.map(([keys, what]) => [el("dt", {}, keys.split(" ").map((key) => el("kbd", {}, key))), el("dd", {}, what)])),
    button("Close", () => dialog.close()),
  );
  dialog.showModal();
}

function find() {
  openFind(dialog, view?.informer);
}

function up() {
  if (object) {
    go(closeObject());
    main.querySelector(".scroller")?.focus({ preventScroll: true });
    return;
  }
  const links = view.crumbs.filter(([, link]) => link !== null);
  const above = view.crumbs.length > 1 ? links.filter(([, link]) => link !== href(viewRoute.path)).at(-1) : null;
  go(above ? above[1] : "#/");
}

const KEYS = {
  j: () => view.move?.(1),
  k: () => view.move?.(-1),
  ArrowDown: () => view.move?.(1),
  ArrowUp: () => view.move?.(-1),
  PageDown: () => view.move?.(view.pageRows?.() ?? 10),
  PageUp: () => view.move?.(-(view.pageRows?.() ?? 10)),
  Home: () => view.first?.(),
  End: () => view.last?.(),
  g: () => view.first?.(),
  G: () => view.last?.(),
  Escape: up,
  "/": () => view.filter?.()?.select(),
  f: find,
  p: () => view.pause?.(),
  i: () => go("#/"),
  e: () => go("#/events"),
  c: () => go("#/controllers"),
  t: nextTheme,
  "?": showKeys,
  y: () => object?.nextTab("yaml"),
  h: () => object?.nextTab("history"),
  w: () => object?.nextTab("why"),
};

document.addEventListener("keydown", (event) => {
  if (dialog.open || event.altKey || event.metaKey || event.ctrlKey) return;
  const { target } = event;
  const isText = target instanceof HTMLElement && target.matches("input, select, textarea");
  if (isText) {
    if (event.key === "Escape" || event.key === "Enter" || (event.key === "ArrowDown" && target.tagName === "INPUT")) {
      event.preventDefault();
      target.blur();
      main.querySelector(".scroller")?.focus({ preventScroll: true });
      if (event.key === "ArrowDown") view.move?.(1);
    }
    return;
  }
  // The drawer scrolls by the keys of the browser.
  if (drawer.contains(target) && /^(Arrow|Page|Home|End)/.test(event.key)) return;
  if (event.key === "Enter") {
    if (target instanceof HTMLElement && target.matches("a, button")) return;
    if (view.enter?.()) event.preventDefault();
    return;
  }
  const action = KEYS[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});

element("find").addEventListener("click", find);
element("keys").addEventListener("click", showKeys);
element("token").addEventListener("click", () => authentication.required());
element("theme").addEventListener("click", nextTheme);
element("skip").addEventListener("click", () => main.focus());
dialog.addEventListener("click", (event) => {
  // A click beside the dialog closes it.
  if (event.target === dialog && dialog.className !== "token") dialog.close();
});
window.addEventListener("hashchange", show);
window.addEventListener("online", () => state.connect());

drawTheme();
show();
state.connect();
