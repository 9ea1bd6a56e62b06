// Finds an object by a part of its name over all informers, or explains why it is not there.

import { informerPath, json, objectPath } from "./api.js";
import { count, debounce, el, fill, since, text } from "./dom.js";
import { explained } from "./objects.js";
import { go, href } from "./router.js";
import { state } from "./state.js";

const FOR_EACH = 5;

/** Opens the dialog. `preferred` is the informer of the current view, which comes first. */
export function openFind(dialog, preferred) {
  let abort = new AbortController();
  let selected = 0;
  const input = el("input.find-input", {
    type: "search",
    placeholder: "Name, namespace/name, or kind namespace/name",
    "aria-label": "Find an object",
    "aria-controls": "find-results",
    autocomplete: "off",
    spellcheck: false,
    role: "combobox",
    "aria-expanded": "true",
  });
  const results = el("ul.results", { id: "find-results", role: "listbox", "aria-label": "Objects found" });
  const note = el("p.dim", {}, "Objects of all informers, from their stores. An object that is not there can be explained.");
  fill(dialog, el("div.find-dialog", {}, input, results, note));
  dialog.className = "finder";

  /** `missing` are the informers that could have the object and do not, once all were read. */
  const draw = (groups, query, missing = null) => {
    const entries = [];
    for (const { info, items, total, error } of groups) {
      for (const item of items) {
        entries.push({ link: href(["informers", info.id], { open: `${info.id}|${item.key}` }), parts: [el("span.of", {}, info.kind), el("span.key", {}, item.key), el("span.dim", {}, item.status ?? "")] });
      }
      if (total > items.length) {
        entries.push({ link: href(["informers", info.id], { filter: query.name }), parts: [el("span.of", {}, info.kind), el("span.dim", {}, `all ${count(total)} that match`)] });
      }
      if (error) entries.push({ link: null, parts: [el("span.of", {}, info.kind), el("span.dim", {}, error)] });
    }
    for (const { info, key, deleted } of missing ?? []) {
      const why = deleted ? `deleted ${since(deleted)} ago: why?` : "is not there: why?";
      entries.push({ link: href(["informers", info.id], { open: `${info.id}|${key}`, tab: "why" }), parts: [el("span.of", {}, info.kind), el("span.key", {}, key), el("span.why-link", {}, why)] });
    }
    selected = Math.min(selected, Math.max(0, entries.length - 1));
    fill(
      results,
      entries.map(({ link, parts }, number) =>
        el("li", { role: "option", id: `found-${number}`, "aria-selected": String(number === selected) }, link ? el("a", { href: link, tabIndex: -1, on: { click: () => dialog.close() } }, parts) : el("span.result", {}, parts)),
      ),
    );
    text(note, entries.length > 0 || !query.name ? "Enter opens, the arrow keys select, Escape closes." : missing ? "No informer has such an object. With namespace/name, the page explains why." : "Searching …");
    mark();
  };
  const mark = () => {
    [...results.children].forEach((entry, number) => entry.setAttribute("aria-selected", String(number === selected)));
    results.children[selected]?.scrollIntoView({ block: "nearest" });
    if (results.children[selected]) input.setAttribute("aria-activedescendant", `found-${selected}`);
    else input.removeAttribute("aria-activedescendant");
  };
  const search = debounce(150, async () => {
    abort.abort();
    abort = new AbortController();
    const { signal } = abort;
    const query = parse(input.value, preferred);
    if (!query.name) {
      draw([], query);
      return;
    }
    const groups = [];
    for (const info of query.informers) {
      try {
        const body = await json(informerPath(info, "/objects", { filter: query.name, limit: FOR_EACH }), { signal });
        groups.push({ info, items: body.items, total: body.total });
      } catch (error) {
        if (error.name === "AbortError") return;
        groups.push({ info, items: [], total: 0, error: error.message });
      }
      draw(groups, query);
    }
    const missing = await explanations(groups, query, signal);
    if (!signal.aborted) draw(groups, query, missing);
  });
  input.addEventListener("input", () => {
    selected = 0;
    search();
  });
  input.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) {
      event.preventDefault();
      selected = Math.max(0, Math.min(results.children.length - 1, selected + by));
      mark();
    } else if (event.key === "Enter") {
      event.preventDefault();
      const link = results.children[selected]?.querySelector("a");
      if (link) {
        dialog.close();
        go(link.hash);
      }
    }
  });
  dialog.addEventListener("close", () => {
    search.cancel();
    abort.abort();
  }, { once: true });
  dialog.showModal();
  input.focus();
}

/** The informers that could have an object and do not. Those from which it was deleted come first, the last one of all before others. */
async function explanations(groups, query, signal) {
  const missing = [];
  for (const info of query.informers) {
    const key = explained(query.name, info);
    const isFound = groups.some((group) => group.info.id === info.id && group.items.some((item) => item.key === key));
    if (key && !isFound) missing.push({ info, key, deleted: null });
  }
  const explain = async (one) => {
    // Without its explanation an object is one that is not there.
    const explanation = await json(objectPath(one.info, one.key, "/explain"), { signal }).catch(() => null);
    if (explanation?.reason === "Deleted") one.deleted = explanation.time;
  };
  await Promise.all(missing.map(explain));
  const time = ({ deleted }) => (deleted ? Date.parse(deleted) : 0);
  return missing.sort((a, b) => time(b) - time(a));
}

/** Splits `kind namespace/name` or `kind/namespace/name`, and chooses the informers to read. */
function parse(typed, preferred) {
  const visible = [...state.informers.values()].map(({ info }) => info).filter((info) => !info.hidden);
  visible.sort((a, b) => Number(b.id === preferred) - Number(a.id === preferred));
  const match = /^(\S+?)[\s/]+(.+)$/.exec(typed.trim());
  if (match) {
    const kind = match[1].toLowerCase();
    const named = visible.filter((info) => [info.name, info.resource, info.kind.toLowerCase()].includes(kind));
    if (named.length > 0) return { informers: named, name: match[2].trim() };
  }
  return { informers: visible, name: typed.trim() };
}
