// How an informer is doing: where its objects come from, who receives its changes, and what it has counted.

import { count, duration, el, fill, since, text } from "./dom.js";
import { Sparkline } from "./spark.js";

const COUNTERS = [
  ["events", "events received"],
  ["lists", "lists"],
  ["relists", "relists: lists after the first one"],
  ["watches", "watches"],
  ["watchRestarts", "watches opened again"],
  ["bookmarks", "bookmarks"],
  ["decodeErrors", "objects that failed to decode"],
  ["stalledWatches", "stalled watches"],
  ["requestsThrottled", "requests delayed by the rate limit"],
];
/** Counters that should be zero. */
const BAD = new Set(["decodeErrors", "stalledWatches"]);

export function mountHealth(content, info) {
  const sources = el("tbody");
  const handlers = el("tbody");
  const selection = el("dl.selection");
  const counters = el("dl.counters");
  const lag = new Sparkline(600, 70, "Lag of the slowest handler", duration);
  const lagNow = el("b");
  const values = new Map();
  for (const [name, label] of COUNTERS) {
    const value = el("dd");
    values.set(name, value);
    counters.append(el("div", {}, value, el("dt", {}, label)));
  }
  const queue = el("dd");
  counters.append(el("div", {}, queue, el("dt", {}, "events in the queue before the store")));
  const last = el("dd");
  counters.append(el("div", {}, last, el("dt", {}, "since the last event")));
  const heading = (...labels) => el("thead", {}, el("tr", {}, labels.map((label) => el("th", { scope: "col" }, label))));
  fill(
    content,
    el(
      "div.health",
      {},
      el(
        "section.panel",
        {},
        el("h2", {}, "Handlers"),
        el("p.dim", {}, "Each receives every event at its own pace. Lag is the age of the oldest event that it has not finished."),
        el("table.plain", {}, heading("Handler", "State", "Lag", "Behind by", "Delivered", "Panics"), handlers),
        el("div.lag-chart", {}, el("span.dim", {}, "Lag of the slowest handler, last 2 minutes. Now "), lagNow, " ", lag.scale, lag.element),
      ),
      el(
        "section.panel",
        {},
        el("h2", {}, "Sources"),
        el("p.dim", {}, "The list and watch requests that keep the store up to date."),
        selection,
        el("table.plain", {}, heading("Source", "State", "Detail", "Last error"), sources),
      ),
      el("section.panel", {}, el("h2", {}, "Counters"), el("p.dim", {}, "Since this server started."), counters),
    ),
  );

  const rows = (body, items, cells) => {
    while (body.children.length > items.length) body.lastChild.remove();
    items.forEach((item, number) => {
      const contents = cells(item);
      const row = body.children[number] ?? body.appendChild(el("tr", {}, contents.map(() => el("td"))));
      contents.forEach(([label, value, tone = ""], column) => {
        const cell = row.children[column];
        cell.dataset.label = label;
        cell.dataset.tone = tone;
        text(cell, value);
      });
    });
  };
  const state = ({ info, lags }) => {
    rows(handlers, info.handlers, (handler) => {
      const late = handler.stuck ? "error" : handler.lag >= 1 ? "warning" : "";
      return [
        ["Handler", handler.name || "(unnamed)"],
        ["State", handlerState(handler), late || (handler.panics > 0 ? "error" : "ok")],
        ["Lag", duration(handler.lag), late],
        ["Behind by", handler.depth === 0 ? "nothing" : `${count(handler.depth)} ${handler.depth === 1 ? "event" : "events"}`, late],
        ["Delivered", count(handler.delivered)],
        ["Panics", count(handler.panics), handler.panics > 0 ? "error" : ""],
      ];
    });
    drawSelection(selection, info);
    rows(sources, info.sources, (source) => [
      ["Source", source.name || info.name],
      ["State", source.notServed ? "Not served" : source.notWatchable ? "Not watchable" : source.state, source.synced ? "ok" : "warning"],
      ["Detail", source.notServed ?? source.notWatchable ?? source.detail ?? ""],
      ["Last error", source.lastError ? `${source.lastError}${source.lastErrorAt ? ` (${since(source.lastErrorAt)} ago)` : ""}` : "none", source.lastError && !source.synced ? "error" : ""],
    ]);
    for (const [name, value] of values) {
      const number = info.counters[name];
      text(value, count(number));
      value.dataset.tone = BAD.has(name) && number > 0 ? "error" : "";
    }
    text(queue, count(info.queue?.items ?? 0));
    text(last, since(info.lastEventAt));
    text(lagNow, duration(lags.last()));
    lag.draw(lags.values, 0.1);
    lag.element.toggleAttribute("data-late", lags.last() >= 1);
  };
  state({ info, lags: { values: [], last: () => null } });
  return { state, close: () => {} };
}

/** Which objects are in scope: namespaces, selectors, and the ranges of a shard. */
function drawSelection(element, { selection, namespaced, sources }) {
  const { namespaces, scope, labelSelector, fieldSelector, shard } = selection;
  const all = scope === "" ? "all" : scope;
  const place = namespaces.length > 0 ? namespaces.join(", ") : sources.length === 0 ? "none" : all;
  const lines = [
    namespaced && !shard ? ["Namespaces", place] : null,
    labelSelector ? ["Labels", labelSelector] : null,
    fieldSelector ? ["Fields", fieldSelector] : null,
    shard ? ["Shard", `hashes of ${shard.field}: ${shard.ranges.map(({ from, to }) => `${from}–${to}`).join(", ") || "none"}`] : null,
  ].filter(Boolean);
  const shown = lines.flat().join("\n");
  if (element.dataset.shown === shown) return;
  element.dataset.shown = shown;
  fill(element, lines.map(([label, value]) => el("div", {}, el("dt", {}, label), el("dd.path", {}, value))));
}

function handlerState(handler) {
  if (handler.removed) return "removed";
  if (handler.stuck) return "stuck in a callback";
  if (!handler.synced) return "receiving the initial objects";
  if (handler.lag >= 1) return "behind";
  return handler.panics > 0 ? "has panicked" : "up to date";
}
