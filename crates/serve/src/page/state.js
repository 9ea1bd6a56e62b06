// What the page knows: the informers with their recent rates, the last changes, and the connection. Bounded memory.

import { Stream } from "./stream.js";

/** Seconds in the sparklines. */
export const SAMPLES = 120;
/** Samples in a figure beside a sparkline. */
const RECENT = 5;
/** Changes kept for the tail of events. */
const CHANGES = 1000;

/** When this page was opened. */
export const openedAt = Date.now();

/** A fixed number of samples, the newest last. `null` is a gap. */
class Samples {
  values = [];

  push(value) {
    this.values.push(value);
    if (this.values.length > SAMPLES) this.values.shift();
  }

  last() {
    return this.values.at(-1) ?? null;
  }

  /** The mean of the last seconds, which is calmer than a single one. */
  recent() {
    const last = this.values.slice(-RECENT).filter((value) => value !== null);
    return last.length > 0 ? last.reduce((sum, value) => sum + value, 0) / last.length : null;
  }
}

/** An informer, its samples, and what they are computed from. */
class Tracked {
  info = null;
  rates = new Samples();
  lags = new Samples();
  #events = null;
  #time = 0;

  update(info, time) {
    const events = info.counters.events;
    if (this.#events !== null && time > this.#time) {
      const rate = ((events - this.#events) * 1000) / (time - this.#time);
      // A counter that went back belongs to a new process.
      this.rates.push(rate < 0 ? null : rate);
    }
    this.#events = events;
    this.#time = time;
    this.lags.push(worstHandler(info)?.lag ?? null);
    this.info = info;
  }

  gap() {
    this.rates.push(null);
    this.lags.push(null);
    this.#events = null;
  }
}

/** The handler that is furthest behind. */
export function worstHandler(info) {
  const handlers = info.handlers.filter((handler) => !handler.removed);
  const worse = (a, b) => (b.lag > a.lag || (b.lag === a.lag && b.depth > a.depth) ? b : a);
  return handlers.length > 0 ? handlers.reduce(worse) : null;
}

/** The worst severity of an informer's problems: error, warning, or ok. */
export function severity(info) {
  if (info.problems.some((problem) => problem.severity === "error")) return "error";
  return info.problems.length > 0 ? "warning" : "ok";
}

class State extends EventTarget {
  /** By id, in the order of the server. */
  informers = new Map();
  changes = [];
  startedAt = null;
  cluster = "";
  /** Whether the program has controllers. */
  hasControllers = false;
  connection = { phase: "connecting", since: Date.now(), reason: "", retryAt: 0 };
  #stream = new Stream({
    message: (event, data) => this.#message(event, data),
    phase: (phase, details) => this.#phase(phase, details),
  });

  connect() {
    this.#stream.open();
  }

  get(id) {
    return this.informers.get(id)?.info ?? null;
  }

  setHasControllers(has) {
    if (has === this.hasControllers) return;
    this.hasControllers = has;
    this.#emit("controllers");
  }

  /** The id of the informer that a change belongs to. */
  idOf(change) {
    if (this.informers.has(change.informer)) return change.informer;
    const ids = [...this.informers.values()].filter(({ info }) => info.name === change.informer);
    const exact = ids.find(({ info }) => info.scope === change.scope && info.cluster === change.cluster);
    return (exact ?? ids[0])?.info.id ?? change.informer;
  }

  #emit(name, detail = null) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  #message(event, data) {
    if (event === "state") this.#update(data);
    else if (event === "change") this.#change(data);
    else if (event === "gap") this.#change({ ...data, type: "gap", time: new Date().toISOString(), key: "" });
  }

  #change(change) {
    change.page = this.#next++;
    this.changes.push(change);
    if (this.changes.length > CHANGES) this.changes.shift();
    this.#emit("change", change);
  }

  /** Numbers the changes of this page, also over restarts of the server. */
  #next = 0;

  #update(body) {
    if (this.startedAt !== null && this.startedAt !== body.startedAt) {
      this.#stream.restart();
      this.#emit("restart", body.startedAt);
    }
    this.startedAt = body.startedAt;
    this.cluster = body.cluster;
    const names = body.informers.map((info) => info.name);
    const time = Date.parse(body.time);
    const before = this.informers;
    this.informers = new Map();
    for (const info of body.informers) {
      info.ambiguous = names.filter((name) => name === info.name).length > 1;
      info.id = info.ambiguous ? [info.name, info.cluster, info.scope].join("~") : info.name;
      const tracked = before.get(info.id) ?? new Tracked();
      tracked.update(info, time);
      this.informers.set(info.id, tracked);
    }
    this.#emit("state");
  }

  #phase(phase, details) {
    const { phase: before, since } = this.connection;
    this.connection = { phase, since: phase === before ? since : Date.now(), reason: "", retryAt: 0, ...details };
    if (phase === "lost" && before === "live") this.informers.forEach((tracked) => tracked.gap());
    if (phase === before && phase === "live") return;
    this.#emit("connection", { before });
    if (phase === "live" && before === "lost") this.#emit("recovered");
  }
}

export const state = new State();

/** Listens to the state until `signal` is aborted. */
export function listen(signal, events) {
  for (const [name, listener] of Object.entries(events)) {
    state.addEventListener(name, (event) => listener(event.detail), { signal });
  }
}
