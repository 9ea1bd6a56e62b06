// The pages of one view of a server's objects: read on demand, a few kept.

import { informerPath, json } from "./api.js";

/** Rows in a page. */
export const PAGE = 200;
/** Pages kept, of a view and of the one before it: 2,400 rows each. */
const KEPT = 12;
/** A new view of a changed store is requested at most this often. */
const REFRESH_MS = 1000;

/**
 * Reads one selection of an informer's objects. A view is one snapshot on the server; when the store changes, a new view
 * replaces it, and the rows of the old one remain visible until the new ones have arrived.
 */
export class Pages {
  total = null;
  revision = null;
  error = null;
  #informer;
  #selection;
  #changed;
  #view = null;
  #pages = new Map();
  #old = new Map();
  #reads = new Map();
  #wanted = [0, 0];
  #refresh = { timer: 0, last: 0, took: 0, running: false, again: false };
  #abort = new AbortController();

  /** `selection` are the parameters of the request; `changed` is called when rows or the total are different. */
  constructor(informer, selection, changed) {
    this.#informer = informer;
    this.#selection = selection;
    this.#changed = changed;
    /** Resolved when the first page has arrived, or could not be read. */
    this.ready = this.#open();
  }

  close() {
    clearTimeout(this.#refresh.timer);
    this.#abort.abort();
    for (const read of this.#reads.values()) read.abort();
  }

  /** The object in a row, or null if its page has not arrived. */
  row(index) {
    const number = Math.floor(index / PAGE);
    const page = this.#pages.get(number) ?? this.#old.get(number);
    return page?.[index % PAGE] ?? null;
  }

  /** Reads the pages of these rows, and stops reading others. */
  want(first, end) {
    this.#wanted = [first, end];
    if (this.#view === null || this.total === null) return;
    const from = Math.floor(first / PAGE);
    const to = Math.floor(Math.max(first, Math.min(end, this.total) - 1) / PAGE);
    for (const [number, read] of this.#reads) {
      if (number < from || number > to) read.abort();
    }
    for (let number = from; number <= to; number += 1) {
      const page = this.#pages.get(number);
      if (page) this.#keep(number, page);
      else if (!this.#reads.has(number) && number * PAGE < Math.max(1, this.total)) this.#read(number);
    }
  }

  /** Requests a new view soon, because the store has changed. */
  refresh() {
    const state = this.#refresh;
    if (state.running) {
      state.again = true;
    } else if (state.timer === 0) {
      const pause = Math.max(REFRESH_MS, state.took * 4);
      const wait = Math.max(0, state.last + pause - performance.now());
      state.timer = setTimeout(() => this.#open(), wait);
    }
  }

  async #open() {
    const state = this.#refresh;
    clearTimeout(state.timer);
    Object.assign(state, { timer: 0, running: true, again: false });
    const started = performance.now();
    const first = Math.floor(this.#wanted[0] / PAGE);
    try {
      let body = await this.#request({ ...this.#selection, offset: first * PAGE, limit: PAGE });
      if (body.items.length === 0 && body.total > 0 && first > 0) {
        // The selection has become shorter than the position in it.
        body = await this.#request({ view: body.view, offset: Math.floor((body.total - 1) / PAGE) * PAGE, limit: PAGE });
      }
      if (this.#abort.signal.aborted) return;
      for (const read of this.#reads.values()) read.abort();
      this.#reads.clear();
      this.#old = this.#pages;
      this.#pages = new Map([[Math.floor(body.offset / PAGE), body.items]]);
      this.#view = body.view;
      this.total = body.total;
      this.revision = body.revision;
      this.error = null;
      this.#changed();
      this.want(...this.#wanted);
    } catch (error) {
      if (this.#abort.signal.aborted) return;
      this.error = error;
      this.#changed();
    } finally {
      Object.assign(state, { running: false, last: performance.now(), took: performance.now() - started });
      if (state.again && !this.#abort.signal.aborted) this.refresh();
    }
  }

  async #read(number) {
    const read = new AbortController();
    this.#reads.set(number, read);
    const view = this.#view;
    try {
      const parameters = { view, offset: number * PAGE, limit: PAGE };
      const body = await this.#request(parameters, read.signal);
      if (view !== this.#view) return;
      this.#keep(number, body.items);
      this.#changed();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.code === 410) this.refresh();
      else this.error = error;
      this.#changed();
    } finally {
      if (this.#reads.get(number) === read) this.#reads.delete(number);
    }
  }

  #request(parameters, signal = this.#abort.signal) {
    return json(informerPath(this.#informer, "/objects", parameters), { signal });
  }

  /** Keeps a page as the last used one, and drops the one that was used longest ago. */
  #keep(number, items) {
    this.#pages.delete(number);
    this.#pages.set(number, items);
    for (const pages of [this.#pages, this.#old]) {
      for (const oldest of pages.keys()) {
        if (pages.size <= KEPT) break;
        pages.delete(oldest);
      }
    }
  }
}
