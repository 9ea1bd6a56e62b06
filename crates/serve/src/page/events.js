// The tail of events of all informers: what changed, newest first.

import { button, clock, count, debounce, el, fill, text } from "./dom.js";
import { TYPES, diffList, headings, shown, summary } from "./diff.js";
import { filterInput } from "./informer.js";
import { go, openObject, replace, withParameters } from "./router.js";
import { listen, state } from "./state.js";

/** Rows in the document. */
const ROWS = 200;

export function mount(main, route) {
  const abort = new AbortController();
  let query = route.query;
  /** The changes up to this number are drawn. */
  let drawn = -1;
  let paused = false;
  let selected = -1;
  let frame = 0;
  const expanded = new Set();
  const input = filterInput(query.get("filter") ?? "", "Filter by key, field or value", debounce(100, () => replace(withParameters({ filter: input.value.trim() }))));
  const informer = el("select", { "aria-label": "Informer", on: { change: () => replace(withParameters({ informer: informer.value })) } });
  const types = el(
    "div.types",
    { role: "group", "aria-label": "Types of events" },
    ["added", "updated", "deleted", "left"].map((type) =>
      button(type, () => replace(withParameters({ type: query.get("type") === type ? "" : type })), { data: { type } }),
    ),
  );
  const pause = button("", () => setPaused(!paused), { className: "pause" });
  const waiting = button("", () => {
    setPaused(false);
    list.scrollTop = 0;
    draw();
  }, { className: "waiting", hidden: true });
  const list = el("ol.changes", { tabIndex: 0, "aria-label": "Events, newest first" });
  const note = el("p.empty");
  main.replaceChildren(
    el(
      "div.view.events",
      {},
      el("div.panel", {}, el("div.toolbar", {}, el("h1", {}, "Events"), input, informer, types, pause), headings(), el("div.list", {}, waiting, list, note)),
    ),
  );
  list.addEventListener("scroll", () => later(), { passive: true });

  const setPaused = (next) => {
    paused = next;
    fill(pause, paused ? "Resume" : "Pause", el("kbd", {}, "p"));
    pause.setAttribute("aria-pressed", String(paused));
    later();
  };
  const matches = (change) => {
    const name = query.get("informer");
    const type = query.get("type");
    if (name && state.idOf(change) !== name) return false;
    if (type && change.type !== type) return false;
    const filter = (query.get("filter") ?? "").toLowerCase();
    if (!filter) return true;
    return [change.informer, change.key, ...(change.diff ?? []).flatMap(({ path, old, new: value }) => [path, shown(old), shown(value)])].some(
      (part) => part.toLowerCase().includes(filter),
    );
  };
  const later = () => {
    if (frame === 0) {
      frame = requestAnimationFrame(() => {
        frame = 0;
        draw();
      });
    }
  };
  const draw = () => {
    const fresh = state.changes.filter((change) => change.page > drawn && matches(change));
    // While the reader is further down, rows do not move away below them.
    const holds = paused || list.scrollTop > 4 || expanded.size > 0 && document.activeElement?.closest(".change");
    if (holds) {
      waiting.hidden = fresh.length === 0;
      text(waiting, `${count(fresh.length)}${fresh.length >= 1000 ? " or more" : ""} new ${fresh.length === 1 ? "event" : "events"}: show`);
    } else {
      waiting.hidden = true;
      drawn = state.changes.at(-1)?.page ?? drawn;
      for (const change of fresh.slice(-ROWS)) list.prepend(row(change));
      while (list.children.length > ROWS) {
        expanded.delete(list.lastChild);
        list.lastChild.remove();
      }
      if (selected >= 0) selected = Math.min(ROWS - 1, selected + fresh.length);
    }
    note.hidden = list.children.length > 0;
    if (!note.hidden) {
      const some = state.changes.length > 0;
      fill(note, el("b", {}, some ? "No event matches" : "No event yet"), el("span", {}, some ? `${count(state.changes.length)} since this page was opened` : "Events appear here as the informers receive them."));
    }
  };
  const again = () => {
    drawn = -1;
    selected = -1;
    expanded.clear();
    list.replaceChildren();
    list.scrollTop = 0;
    draw();
  };
  const row = (change) => {
    const type = TYPES[change.type] ?? { sign: "?", label: change.type };
    const item = el("li.change", { data: { type: change.type, key: change.key, informer: change.informer } });
    const line = el(
      "button.change-line",
      { type: "button", "aria-expanded": "false", on: { click: () => toggle(item, change) } },
      el("time", { dateTime: change.time, title: change.time }, clock(change.time)),
      el("span.type", { title: type.label }, el("i", { "aria-hidden": "true" }, type.sign), el("span", {}, type.label)),
      el("span.of", {}, change.informer),
      el("span.key", { title: change.key }, change.key),
      el("span.what", {}, summary(change)),
    );
    item.append(line);
    return item;
  };
  const toggle = (item, change) => {
    const line = item.firstChild;
    if (expanded.delete(item)) {
      line.setAttribute("aria-expanded", "false");
      item.lastChild.remove();
      return;
    }
    expanded.add(item);
    line.setAttribute("aria-expanded", "true");
    const version = change.oldResourceVersion ? `${change.oldResourceVersion} → ${change.resourceVersion}` : change.resourceVersion;
    item.append(
      el(
        "div.change-detail",
        {},
        diffList(change),
        change.key
          ? el("p", {}, el("span.dim", {}, `version ${version}, received ${change.time} `), el("a.open", { href: openObject(state.idOf(change), change.key, "history") }, "Open the object"))
          : null,
      ),
    );
  };
  const drawInformers = () => {
    const ids = [...state.informers.keys()];
    if (informer.children.length !== ids.length + 1) {
      fill(informer, el("option", { value: "" }, "All informers"), ids.map((id) => el("option", { value: id }, id)));
    }
    informer.value = query.get("informer") ?? "";
  };
  const drawTypes = () => {
    for (const element of types.children) element.setAttribute("aria-pressed", String(query.get("type") === element.dataset.type));
  };
  listen(abort.signal, { change: later, state: drawInformers });
  setPaused(false);
  drawInformers();
  drawTypes();
  draw();

  const select = (number) => {
    selected = Math.max(0, Math.min(list.children.length - 1, number));
    list.children[selected]?.firstChild.focus();
  };
  return {
    title: "Events",
    crumbs: [["Events", null]],
    filter: () => input,
    move: (by) => select(selected + by),
    first: () => select(0),
    last: () => select(list.children.length - 1),
    enter: () => false,
    pause: () => setPaused(!paused),
    update: (next) => {
      const identity = (parameters) => ["filter", "informer", "type"].map((name) => parameters.get(name) ?? "").join("\n");
      const same = identity(query) === identity(next.query);
      query = next.query;
      if (!same) {
        if (document.activeElement !== input) input.value = query.get("filter") ?? "";
        drawInformers();
        drawTypes();
        again();
      }
      return true;
    },
    close: () => {
      cancelAnimationFrame(frame);
      abort.abort();
    },
  };
}
