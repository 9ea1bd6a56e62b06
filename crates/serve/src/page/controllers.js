// The controllers of the program: a list, and one of them with its queue, its reconciliations and its failures.

import { json } from "./api.js";
import { chip, clock, count, counted, duration, el, fill, since, text } from "./dom.js";
import { go, href, openObject } from "./router.js";
import { listen, state } from "./state.js";

const PATH = "api/v1/controllers";
/** How often the view is read again. */
const REFRESH_MS = 2000;

/** The state of all controllers. */
export function readControllers(signal) {
  return json(PATH, { signal });
}

/** The last reconciliations of a key. */
export function readReconciliations(name, key, signal) {
  const query = new URLSearchParams({ key });
  return json(`${PATH}/${encodeURIComponent(name)}/reconciliations?${query}`, { signal });
}

function tone(controller) {
  if (controller.error) return "error";
  return controller.state === "running" ? "ok" : "busy";
}

/** Who leads, in a sentence. */
function leader({ leadership }) {
  if (!leadership) return "There is no leader election: this process reconciles.";
  const { holder, since: start, isLeader } = leadership;
  const time = start ? `, since ${clock(start)} (${since(start)} ago)` : "";
  if (isLeader) return `This process leads${holder ? `, as ${holder}` : ""}${time}.`;
  return holder ? `${holder} leads${time}. This process waits.` : "The leader is not known. This process waits.";
}

/** A table whose rows are drawn again. */
export function table(...labels) {
  const body = el("tbody");
  const head = el("thead", {}, el("tr", {}, labels.map((label) => el("th", { scope: "col" }, label))));
  return {
    element: el("table.plain", {}, head, body),
    draw: (rows) => fill(body, rows.map((cells) => el("tr", {}, cells.map((cell, number) => el("td", { data: { label: labels[number] } }, cell))))),
  };
}

/** The link that opens an object of a controller, or the key if no informer has it. */
function keyOf(controller, key) {
  const found = [...state.informers.values()].find(({ info }) => info.name === controller.resource);
  return found ? el("a.key", { href: openObject(found.info.id, key, "reconciliations") }, key) : el("span.key", {}, key);
}

export function mount(main, route) {
  const abort = new AbortController();
  const [, name] = route.path;
  const view = el("div.view.controllers");
  main.replaceChildren(view);
  const part = name === undefined ? all(view) : one(view, name);
  let timer = 0;
  const load = async () => {
    clearTimeout(timer);
    try {
      part.draw(await readControllers(abort.signal));
    } catch (error) {
      if (error.name === "AbortError") return;
      part.fail(error.message);
    }
    if (!abort.signal.aborted) timer = setTimeout(load, REFRESH_MS);
  };
  load();
  listen(abort.signal, { recovered: load });
  const crumbs = [["Controllers", name === undefined ? null : href(["controllers"])]];
  if (name !== undefined) crumbs.push([name, null]);
  return {
    title: name ?? "Controllers",
    crumbs,
    move: (by) => part.move?.(by),
    enter: () => part.enter?.() ?? false,
    update: (next) => next.path.join("/") === route.path.join("/"),
    close: () => {
      clearTimeout(timer);
      abort.abort();
    },
  };
}

function all(view) {
  const note = el("p.dim");
  const list = table("Controller", "State", "Ready", "Delayed", "Running", "Succeeded", "Requeued", "Failed");
  let names = [];
  let selected = -1;
  const link = (controller) => el("a", { href: href(["controllers", controller.name]) }, controller.name, controller.resource ? el("small", {}, ` ${controller.resource}`) : null);
  fill(view, el("div.panel", {}, el("h1", {}, "Controllers"), note, list.element));
  const mark = () => {
    [...list.element.tBodies[0].rows].forEach((row, index) => row.classList.toggle("selected", index === selected));
  };
  return {
    draw: (answer) => {
      names = answer.controllers.map((controller) => controller.name);
      text(note, answer.controllers.length === 0 ? "This program shows no controllers." : leader(answer));
      list.draw(
        answer.controllers.map((controller) => [
          link(controller),
          el("span.state", { data: { tone: tone(controller) }, title: controller.error ?? "" }, controller.state),
          count(controller.queue.ready),
          count(controller.queue.delayed),
          `${count(controller.queue.inFlight)} of ${count(controller.workers)}`,
          count(controller.counts.succeeded),
          count(controller.counts.requeued),
          count(controller.counts.failed),
        ]),
      );
      mark();
    },
    fail: (message) => text(note, message),
    move: (by) => {
      selected = Math.max(0, Math.min(names.length - 1, selected + by));
      mark();
    },
    enter: () => {
      if (names[selected] === undefined) return false;
      go(href(["controllers", names[selected]]));
      return true;
    },
  };
}

function one(view, name) {
  const title = el("h1", {}, name);
  const condition = el("span.state");
  const resource = el("small");
  const error = el("p.because");
  const leading = el("p.dim");
  const figures = {};
  const facts = el("dl.facts");
  for (const [field, label] of [
    ["ready", "ready"],
    ["delayed", "delayed"],
    ["inFlight", "running"],
    ["longest", "longest running"],
    ["succeeded", "succeeded"],
    ["requeued", "requeued"],
    ["failed", "failed"],
    ["permanent", "permanent errors"],
    ["panicked", "panics"],
    ["timedOut", "timeouts"],
  ]) {
    figures[field] = el("dd", { data: { fact: field } });
    facts.append(el("div", {}, figures[field], el("dt", {}, label)));
  }
  const running = table("Key", "For", "Since");
  const failures = table("Key", "Error", "Attempt", "Time");
  const nothing = { running: el("p.dim"), failures: el("p.dim") };
  fill(
    view,
    el("div.health", {}, [
      el("section.panel", {}, el("div.title", {}, title, " ", condition, " ", resource), leading, error, facts),
      el("section.panel", {}, el("h2", {}, "Running reconciliations"), nothing.running, running.element),
      el("section.panel", {}, el("h2", {}, "Last failures"), nothing.failures, failures.element),
    ]),
  );
  const fail = (message) => text(error, message);
  return {
    fail,
    draw: (answer) => {
      const controller = answer.controllers.find((found) => found.name === name);
      if (!controller) {
        fail(`The program has no controller ${name}.`);
        return;
      }
      text(condition, controller.state);
      condition.dataset.tone = tone(controller);
      text(resource, [controller.resource, counted(controller.workers, "worker")].filter(Boolean).join(" · "));
      text(error, controller.error ?? "");
      text(leading, leader(answer));
      const values = { ...controller.queue, ...controller.counts };
      for (const [field, element] of Object.entries(figures)) {
        text(element, field === "longest" ? duration(controller.queue.longestRunning) : count(values[field]));
      }
      figures.failed.dataset.tone = controller.counts.failed > 0 ? "error" : "";
      const hidden = "The keys are those of secrets, and are not shown.";
      text(nothing.running, controller.hidden ? hidden : controller.running.length === 0 ? "None." : "");
      text(nothing.failures, controller.hidden ? hidden : controller.failures.length === 0 ? "None." : "");
      running.element.hidden = controller.running.length === 0;
      failures.element.hidden = controller.failures.length === 0;
      running.draw(controller.running.map((item) => [keyOf(controller, item.key), since(item.since), item.since ? clock(item.since) : "–"]));
      failures.draw(
        controller.failures.map((item) => [keyOf(controller, item.key), item.error, count(item.attempt), item.time ? `${clock(item.time)} (${since(item.time)} ago)` : "–"]),
      );
    },
  };
}

/** The last reconciliations of an object by each controller that has some. */
export async function reconciliationsOf(info, key, signal) {
  const { controllers } = await readControllers(signal);
  const those = controllers.filter((controller) => controller.resource === info.name && !controller.hidden);
  const read = await Promise.all(those.map((controller) => readReconciliations(controller.name, key, signal)));
  const found = those.map((controller, index) => [controller, read[index].items]).filter(([, items]) => items.length > 0);
  if (found.length === 0) {
    return el("div.blank", {}, el("h3", {}, "No reconciliation is known"), el("p", {}, "No controller of this program has reconciled the object, or none remembers it."));
  }
  return found.map(([controller, items]) =>
    el("section.reconciliations", {}, el("h3", {}, el("a", { href: href(["controllers", controller.name]) }, controller.name)), el("ol.history", {}, items.map(reconciliation))),
  );
}

function reconciliation(item) {
  const bad = item.error !== null;
  const cause = item.cause ? `after ${item.cause.event} ${item.cause.resource}${item.cause.key ? ` ${item.cause.key}` : ""}` : null;
  const facts = [item.reasons.join(", "), cause, `queued for ${duration(item.queued)}`, item.took === null ? "still running" : `took ${duration(item.took)}`];
  return el(
    "li",
    { data: { type: bad ? "deleted" : item.took === null ? "updated" : "added" } },
    el("div.history-head", {}, chip(item.result, bad ? "error" : item.took === null ? "" : "ok"), el("span.dim", {}, item.id), item.time ? el("time", { dateTime: item.time, title: item.time }, `${clock(item.time)} · ${since(item.time)} ago`) : null),
    el("p", {}, facts.filter(Boolean).join(" · ")),
    bad ? el("p.because", {}, item.error) : null,
  );
}
