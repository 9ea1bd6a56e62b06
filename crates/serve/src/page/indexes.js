// The indexes of an informer, and the values of one with the number of their objects.

import { informerPath, json } from "./api.js";
import { button, count, counted, debounce, el, fill, text } from "./dom.js";
import { filterInput } from "./informer.js";
import { go, href, replace, withParameters } from "./router.js";

/** Values shown at first, and added by each press of the button. */
const VALUES = 200;
/** Values shown at most: the filter finds the others. */
const MOST = 1000;
const REFRESH_MS = 2000;

export function mountIndexes(content, info, index, query) {
  const abort = new AbortController();
  const list = el("ul.values", { "aria-label": index ? `Values of the index ${index}` : "Indexes" });
  const note = el("p.empty", { hidden: true });
  const total = el("output.total");
  const more = button("More values", () => {
    limit = Math.min(MOST, limit + VALUES);
    load();
  });
  more.hidden = true;
  let filter = query.get("filter") ?? "";
  let limit = VALUES;
  let selected = -1;
  let timer = 0;
  const input = index
    ? filterInput(filter, `Filter the values of ${index}`, debounce(120, () => replace(withParameters({ filter: input.value.trim() }))))
    : null;
  fill(
    content,
    el(
      "div.panel.indexes",
      {},
      el("div.toolbar", {}, input, index ? null : el("p.dim", {}, "An index finds the objects of one value without reading the others."), total),
      list,
      note,
      more,
    ),
  );

  const load = async () => {
    clearTimeout(timer);
    timer = 0;
    try {
      const below = index ? `/indexes/${encodeURIComponent(index)}` : "/indexes";
      const parameters = index ? { filter, limit } : {};
      const body = await json(informerPath(info, below, parameters), { signal: abort.signal });
      if (index) drawValues(body);
      else drawIndexes(body.indexes);
    } catch (error) {
      if (error.name === "AbortError") return;
      note.hidden = false;
      fill(note, el("b", {}, "The index could not be read"), el("span", {}, error.message), button("Try again", load));
    }
  };
  const drawIndexes = (indexes) => {
    text(total, counted(indexes.length, "index").replace("indexs", "indexes"));
    draw(indexes.map(({ name, values }) => ({ label: name, amount: values, unit: values === 1 ? "value" : "values", link: href(["informers", info.id, "indexes", name]) })));
  };
  const drawValues = (body) => {
    text(total, `${count(body.total)} ${body.total === 1 ? "value" : "values"}`);
    draw(
      body.items.map(({ value, objects }) => ({
        label: value,
        amount: objects,
        unit: objects === 1 ? "object" : "objects",
        link: href(["informers", info.id], { index, value }),
      })),
    );
    more.hidden = body.items.length >= body.total || limit >= MOST;
    if (body.total === 0) {
      note.hidden = false;
      fill(note, el("b", {}, filter ? "No value matches" : "This index has no values"), el("span", {}, filter ? "" : "No object of the informer has one."));
    }
  };
  const draw = (items) => {
    note.hidden = true;
    const most = Math.max(1, ...items.map((item) => item.amount));
    while (list.children.length > items.length) list.lastChild.remove();
    items.forEach((item, number) => {
      const entry = list.children[number] ?? list.appendChild(el("li", {}, el("a", {}, el("span.label"), el("i.track", { "aria-hidden": "true" }, el("i.bar")), el("b"), el("span.unit"))));
      const link = entry.firstChild;
      const [label, track, amount, unit] = link.children;
      link.href = item.link;
      track.firstChild.style.width = `${(100 * item.amount) / most}%`;
      text(label, item.label === "" ? "(empty)" : item.label);
      text(amount, count(item.amount));
      text(unit, item.unit);
      entry.classList.toggle("selected", number === selected);
    });
  };
  load();

  const select = (number) => {
    selected = Math.max(0, Math.min(list.children.length - 1, number));
    [...list.children].forEach((entry, position) => entry.classList.toggle("selected", position === selected));
    list.children[selected]?.scrollIntoView({ block: "nearest" });
  };
  const later = () => {
    if (timer === 0) timer = setTimeout(load, REFRESH_MS);
  };
  return {
    filter: input,
    move: (by) => select(selected + by),
    first: () => select(0),
    last: () => select(list.children.length - 1),
    enter: () => {
      const link = list.children[selected]?.firstChild;
      if (link) go(link.hash);
      return Boolean(link);
    },
    change: later,
    reload: load,
    update: (parameters) => {
      const next = parameters.get("filter") ?? "";
      if (next !== filter) {
        filter = next;
        if (input && document.activeElement !== input) input.value = filter;
        load();
      }
      return true;
    },
    close: () => {
      clearTimeout(timer);
      abort.abort();
    },
  };
}
