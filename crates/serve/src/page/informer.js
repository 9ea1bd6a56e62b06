// One informer: its figures and problems, and below them its objects, indexes or health.

import { bytes, button, count, duration, el, fill, rate, text } from "./dom.js";
import { kindOf, sentence, word } from "./informers.js";
import { href } from "./router.js";
import { Sparkline } from "./spark.js";
import { listen, severity, state, worstHandler } from "./state.js";
import { mountHealth } from "./health.js";
import { mountIndexes } from "./indexes.js";
import { mountObjects } from "./objects.js";

const TABS = [
  ["objects", "Objects"],
  ["indexes", "Indexes"],
  ["health", "Health"],
];

export function mount(main, route) {
  const abort = new AbortController();
  const [, id, part = "objects", index] = route.path;
  const head = el("header.informer-head");
  const problems = el("ul.problems", { "aria-label": "Problems" });
  const spark = new Sparkline(150, 30, "Lag of the slowest handler", duration);
  const content = el("div.content");
  const view = el("div.view.informer", {}, head, problems, content);
  main.replaceChildren(view);
  let inner = null;

  const title = el("h1");
  const kind = el("small");
  const condition = el("span.state");
  const figures = {};
  const list = el("dl.facts");
  for (const [name, label] of [
    ["objects", "objects"],
    ["version", "version"],
    ["lag", "handler lag"],
    ["relists", "relists"],
    ["memory", "size"],
    ["rate", "events/s now"],
  ]) {
    figures[name] = el("dd", { data: { fact: name } });
    list.append(el("div", {}, figures[name], el("dt", {}, label)));
  }
  list.append(el("div.spark-fact", {}, el("dt", {}, "lag"), spark.element, spark.scale));
  const tabs = el(
    "nav.tabs",
    { "aria-label": "Views of the informer" },
    TABS.map(([name, label]) =>
      el(
        "a",
        { href: href(["informers", id, ...(name === "objects" ? [] : [name])]), "aria-current": name === part ? "page" : null, data: { tab: name } },
        label,
      ),
    ),
    el("a", { href: href(["events"], { informer: id }) }, "Events"),
  );
  fill(head, el("div.title", {}, title, condition, kind), list, tabs);

  const begin = (info) => {
    if (part === "health") inner = mountHealth(content, info);
    else if (part === "indexes") inner = mountIndexes(content, info, index ?? null, route.query);
    else inner = mountObjects(content, info, route.query);
  };
  const update = () => {
    const tracked = state.informers.get(id);
    if (!tracked) {
      if (state.startedAt !== null) {
        inner?.close();
        inner = null;
        fill(
          content,
          el("div.panel.blank", {}, el("h2", {}, `There is no informer ${id}`), el("p", {}, "The server has other informers."), el("a", { href: "#/" }, "All informers")),
        );
      }
      return;
    }
    const { info, rates, lags } = tracked;
    const worst = severity(info);
    text(title, info.name);
    text(kind, kindOf(info));
    text(condition, word(info));
    condition.dataset.tone = worst;
    text(figures.objects, count(info.objects));
    text(figures.version, info.resourceVersion || "–");
    const handler = worstHandler(info);
    text(figures.lag, handler ? duration(handler.lag) : "–");
    figures.lag.dataset.tone = handler && (handler.stuck || handler.lag >= 1) ? worst : "";
    text(figures.relists, count(info.counters.relists));
    text(figures.memory, bytes(info.bytes));
    text(figures.rate, rate(rates.recent()));
    spark.draw(lags.values, 0.1);
    spark.element.toggleAttribute("data-late", lags.last() >= 1);
    while (problems.children.length > info.problems.length) problems.lastChild.remove();
    info.problems.forEach((problem, number) => {
      const item = problems.children[number] ?? problems.appendChild(el("li"));
      item.dataset.severity = problem.severity;
      text(item, sentence(problem.message));
    });
    if (inner === null) begin(info);
    else inner.state?.(tracked);
  };
  listen(abort.signal, {
    state: update,
    change: (change) => {
      if (state.idOf(change) === id) inner?.change?.(change);
    },
    recovered: () => inner?.reload?.(),
  });
  update();

  const crumbs = [["Informers", "#/"], [id.split("~")[0], href(["informers", id])]];
  if (part === "health") crumbs.push(["Health", null]);
  if (part === "indexes") crumbs.push(["Indexes", index ? href(["informers", id, "indexes"]) : null]);
  if (index) crumbs.push([index, null]);
  const chosen = route.query.get("index");
  if (part === "objects" && chosen) {
    crumbs.push([chosen, href(["informers", id, "indexes", chosen])], [route.query.get("value") ?? "", null]);
  }
  return {
    title: id.split("~")[0],
    crumbs,
    informer: id,
    filter: () => inner?.filter,
    move: (by) => inner?.move?.(by),
    first: () => inner?.first?.(),
    last: () => inner?.last?.(),
    pageRows: () => inner?.pageRows?.() ?? 10,
    enter: () => inner?.enter?.() ?? false,
    opened: (object) => inner?.opened?.(object?.id === id ? object.key : null),
    update: (next) => {
      const same = next.path.join("/") === route.path.join("/") && next.query.get("index") === chosen;
      return same && next.query.get("value") === route.query.get("value") && (inner === null || (inner.update?.(next.query) ?? false));
    },
    close: () => {
      abort.abort();
      inner?.close();
    },
  };
}

/** An input that filters as one types. */
export function filterInput(value, placeholder, change) {
  const input = el("input.filter", {
    type: "search",
    value,
    placeholder,
    "aria-label": placeholder,
    autocomplete: "off",
    spellcheck: false,
    on: { input: () => change(input.value.trim()) },
  });
  return input;
}

/** A button that clears the filters. */
export function clearButton(clear) {
  return button("Clear filters", clear);
}
