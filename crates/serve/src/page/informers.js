// The first view: whether all informers are up to date, which one is not and why, and a line for each.

import { TYPES, headings, summary } from "./diff.js";
import { bytes, clock, count, counted, duration, el, fill, rate, since, text } from "./dom.js";
import { go, href, openObject } from "./router.js";
import { Sparkline } from "./spark.js";
import { listen, severity, state, worstHandler } from "./state.js";

/** The state of an informer in one word, as it is shown in the lists. */
export function word(info) {
  const worst = severity(info);
  if (info.phase === "NotStarted") return "not started";
  if (info.phase === "Stopped") return "stopped";
  if (info.problems.some(({ reason }) => /Handler/.test(reason))) return "behind";
  if (info.sources.some((source) => source.notServed)) return "not served";
  if (!info.synced) return worst === "ok" ? "syncing" : "not synced";
  return worst === "ok" ? "up to date" : worst === "warning" ? "degraded" : "failing";
}

/** The group, version and scope of an informer, in small print. */
export function kindOf(info) {
  const api = info.group ? `${info.group}/${info.version}` : info.version;
  return [info.kind, api, scopeOf(info), info.cluster].filter(Boolean).join(" · ");
}

/** How many namespaces are named in the small print. */
const NAMESPACES = 4;

/** The scope of an informer in words, and "" for all objects. */
export function scopeOf({ selection }) {
  const { namespaces, scope, shard } = selection;
  if (shard) return `shard of ${shard.ranges.length} ${shard.ranges.length === 1 ? "range" : "ranges"}`;
  if (namespaces.length > NAMESPACES) return `${namespaces.slice(0, NAMESPACES).join(", ")} and ${count(namespaces.length - NAMESPACES)} more namespaces`;
  return namespaces.length > 0 ? namespaces.join(", ") : scope;
}

/** Events below the informers. */
const LATEST = 8;

class Row {
  #id;
  #cells = {};
  #spark = new Sparkline(160, 26, "Events per second", rate);
  #lags = new Sparkline(90, 26, "Lag of the slowest handler", duration);
  #lag = el("span.figure");

  constructor(id) {
    this.#id = id;
    const cell = (name) => (this.#cells[name] = el(`td.${name}`));
    this.name = el("a.informer-name", { href: href(["informers", id]) });
    this.kind = el("small");
    this.state = el("span.state");
    this.element = el(
      "tr",
      { data: { informer: id }, on: { click: (event) => this.#click(event) } },
      el("th.name", { scope: "row" }, this.name, this.kind),
      el("td.condition", {}, this.state),
      el("td.activity", {}, el("div.activity-cell", {}, this.#spark.element, el("span.figure", {}, (this.#cells.rate = el("b.rate")), this.#spark.scale))),
      el("td.lag", {}, el("div.activity-cell", {}, this.#lags.element, this.#lag)),
      cell("objects"),
      cell("version"),
      cell("relists"),
      cell("memory"),
    );
  }

  #click(event) {
    if (!event.target.closest("a")) go(href(["informers", this.#id]));
  }

  update({ info, rates, lags }, selected) {
    const worst = severity(info);
    const cells = this.#cells;
    this.element.dataset.severity = worst;
    this.element.classList.toggle("selected", selected);
    if (this.name.textContent !== info.name) fill(this.name, info.name.split(/(?<=\.)/).flatMap((part, index) => (index === 0 ? [part] : [el("wbr"), part])));
    text(this.kind, kindOf(info));
    text(this.state, word(info));
    this.state.dataset.tone = worst;
    this.#spark.draw(rates.values);
    text(cells.rate, rate(rates.recent()));
    text(cells.objects, count(info.objects));
    text(cells.version, info.resourceVersion || "–");
    text(cells.relists, count(info.counters.relists));
    text(cells.memory, bytes(info.bytes));
    const handler = worstHandler(info);
    const isLate = handler !== null && (handler.stuck || handler.lag >= 1);
    fill(
      this.#lag,
      handler === null ? el("span.dim", {}, "no handler") : el(isLate ? "b.late" : "b", {}, duration(handler.lag)),
      isLate ? el("small", { title: handler.name }, handler.name) : this.#lags.scale,
    );
    // A lag below a tenth of a second is drawn as none.
    this.#lags.draw(lags.values, 0.1);
    this.#lags.element.toggleAttribute("data-late", isLate);
    this.element.title = info.problems.map((problem) => sentence(problem.message)).join("\n");
  }
}

/** The server's text as a sentence. */
export function sentence(message) {
  const start = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.!?]$/.test(start) ? start : `${start}.`;
}

/** The last events, below the informers. */
class Latest {
  #list = el("ol.changes");
  #drawn = null;
  #frame = 0;
  element = el(
    "section.panel.latest",
    { "aria-label": "Latest events" },
    el("header", {}, el("h2", {}, "Latest events"), el("a", { href: "#/events" }, "All events")),
    headings(),
    this.#list,
  );

  /** Draws at most once in each frame. */
  later() {
    if (this.#frame === 0) this.#frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.#frame = 0;
    const last = state.changes.at(-1)?.page ?? null;
    this.element.hidden = last === null;
    if (last === this.#drawn) return;
    this.#drawn = last;
    const changes = state.changes.slice(-LATEST).reverse();
    fill(
      this.#list,
      changes.map((change) => {
        const type = TYPES[change.type] ?? { sign: "?", label: change.type };
        return el(
          "li.change",
          { data: { type: change.type } },
          el(
            "a.change-line",
            { href: change.key ? openObject(state.idOf(change), change.key, "history") : "#/events" },
            el("time", { dateTime: change.time }, clock(change.time)),
            el("span.type", {}, el("i", { "aria-hidden": "true" }, type.sign), el("span", {}, type.label)),
            el("span.of", {}, change.informer),
            el("span.key", { title: change.key }, change.key),
            el("span.what", {}, summary(change)),
          ),
        );
      }),
    );
  }

  close() {
    cancelAnimationFrame(this.#frame);
  }
}

/** What the page says about all informers together. */
function verdict(informers) {
  const bad = informers.filter(({ info }) => severity(info) !== "ok");
  const waiting = informers.filter(({ info }) => severity(info) === "ok" && !info.synced);
  if (informers.length === 0) return { tone: "ok", title: "No informers", text: "This server has none." };
  if (bad.length > 0) {
    const worst = bad.some(({ info }) => severity(info) === "error") ? "error" : "warning";
    const names = bad.map(({ info }) => info.name);
    const title = bad.length === 1 ? `${names[0]} is ${word(bad[0].info)}` : `${bad.length} of ${counted(informers.length, "informer")} need attention`;
    return { tone: worst, title, bad };
  }
  if (waiting.length > 0) {
    return { tone: "busy", title: `Reading the initial objects of ${waiting.map(({ info }) => info.name).join(", ")}` };
  }
  const all = informers.length === 1 ? "The informer is" : `All ${informers.length} informers are`;
  return { tone: "ok", title: `${all} up to date`, text: "Every handler has received every event." };
}

export function mount(main) {
  const abort = new AbortController();
  const rows = new Map();
  let selected = -1;
  const body = el("tbody");
  const banner = el("section.verdict", { role: "status", "aria-label": "Summary", data: { tone: "busy" } }, el("h1", {}, "Connecting …"));
  const figures = el("dl.figures");
  const total = new Sparkline(600, 44, "Largest lag of a handler", duration);
  const heading = (label, className = "", title = "") => el(`th${className}`, { scope: "col", title }, label);
  const table = el(
    "table.informers",
    {},
    el("caption.hidden", {}, "Informers"),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        heading("Informer"),
        heading("State"),
        heading("Events per second, now", "", "The mean of the last 5 seconds. The line is of the last 2 minutes; each has its own scale, up to max."),
        heading("Handler lag, now", "", "The age of the oldest event that a handler has not finished, of the slowest handler. The line is of the last 2 minutes, each with its own scale."),
        heading("Objects", ".number"),
        heading("Version", ".number"),
        heading("Relists", ".number", "Lists after the first one, because the watch could not continue"),
        heading("Size", ".number", "The encoded size of the objects"),
      ),
    ),
    body,
  );
  const latest = new Latest();
  const view = el("div.view.overview", {}, banner, figures, el("div.panel.table-panel", {}, table), latest.element);
  main.replaceChildren(view);

  const figure = (label) => {
    const value = el("dd");
    const term = el("dt", {}, label);
    figures.append(el("div", {}, term, value));
    return [value, term];
  };
  const [objects] = figure("Objects");
  const [memory] = figure("Size of the objects");
  const [changes, uptime] = figure("Events received");
  const [events] = figure("Events per second, now");
  const lag = el("dd.now");
  figures.append(el("div.wide", {}, el("dt", {}, "Largest handler lag, now ", total.scale), lag, total.element));

  let shown = "";
  const update = () => {
    const informers = [...state.informers.values()];
    if (state.startedAt === null) return;
    const { tone, title, text: more, bad } = verdict(informers);
    // Drawn again only if it says something else, so that links in it keep the focus.
    const messages = (bad ?? []).flatMap(({ info }) => info.problems.map((problem) => [info, problem]));
    const identity = JSON.stringify([tone, title, messages.map(([info, problem]) => [info.id, problem.reason])]);
    if (identity !== shown) {
      shown = identity;
      banner.dataset.tone = tone;
      fill(
        banner,
        el("h1", {}, title),
        more ? el("p", {}, more) : null,
        messages.length > 0
          ? el(
              "ul",
              {},
              messages.map(([info, problem]) =>
                el(
                  "li",
                  { data: { severity: problem.severity } },
                  el("a", { href: href(["informers", info.id, "health"]) }, info.name),
                  el("span.message"),
                ),
              ),
            )
          : null,
      );
    }
    banner.querySelectorAll(".message").forEach((element, index) => text(element, sentence(messages[index][1].message)));

    const sum = (value) => informers.reduce((all, tracked) => all + (value(tracked) ?? 0), 0);
    text(objects, count(sum(({ info }) => info.objects)));
    text(memory, bytes(sum(({ info }) => info.bytes)));
    text(changes, count(sum(({ info }) => info.counters.events)));
    text(uptime, `Events in ${since(state.startedAt)}`);
    text(events, rate(sum(({ rates }) => rates.recent())));
    const lags = largest(informers.map((tracked) => tracked.lags.values));
    text(lag, duration(lags.at(-1) ?? null));
    total.draw(lags, 0.1);
    total.element.toggleAttribute("data-late", lags.at(-1) >= 1);

    const ids = [...state.informers.keys()];
    for (const [id, row] of rows) {
      if (!state.informers.has(id)) {
        row.element.remove();
        rows.delete(id);
      }
    }
    ids.forEach((id, index) => {
      if (!rows.has(id)) {
        const row = new Row(id);
        rows.set(id, row);
        body.append(row.element);
      }
      rows.get(id).update(state.informers.get(id), index === selected);
    });
  };
  listen(abort.signal, { state: update, change: () => latest.later() });
  update();
  latest.draw();

  const select = (index) => {
    const ids = [...state.informers.keys()];
    selected = Math.max(0, Math.min(ids.length - 1, index));
    update();
    rows.get(ids[selected])?.element.scrollIntoView({ block: "nearest" });
  };
  return {
    title: "Informers",
    crumbs: [["Informers", null]],
    move: (by) => select(selected < 0 && by < 0 ? 0 : selected + by),
    first: () => select(0),
    last: () => select(state.informers.size - 1),
    enter: () => {
      const id = [...state.informers.keys()][selected];
      if (id === undefined) return false;
      go(href(["informers", id]));
      return true;
    },
    close: () => {
      latest.close();
      abort.abort();
    },
  };
}

/** The largest of several informers' samples at each time, aligned at the newest. */
function largest(all) {
  const longest = Math.max(0, ...all.map((values) => values.length));
  return Array.from({ length: longest }, (_, index) => {
    const values = all.map((samples) => samples[samples.length - longest + index] ?? null).filter((value) => value !== null);
    return values.length > 0 ? Math.max(...values) : null;
  });
}
