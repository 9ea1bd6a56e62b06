// The event stream of the server: one request that is read for as long as the page is open, and opened again when it
// ends. It is read with fetch, because EventSource cannot send a token.

import { request } from "./api.js";

/** A server sends the state each second. After this long without any byte, the connection is taken as lost. */
const SILENCE_MS = 6000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 10_000;

export class Stream {
  #listener;
  #lastId = "";
  #attempt = 0;
  #abort = null;
  #timer = 0;
  #silence = 0;

  /** `listener` has `message(event, data)` and `phase(phase, details)`; phases are connecting, live, lost, refused. */
  constructor(listener) {
    this.#listener = listener;
  }

  /** Opens the stream now, also if a retry is due later. */
  async open() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    if (this.#attempt === 0) this.#listener.phase("connecting", {});
    let reason = "the server closed the connection";
    try {
      this.#watchSilence(abort);
      const more = this.#lastId ? { "Last-Event-ID": this.#lastId } : {};
      const response = await request("api/v1/events", { signal: abort.signal, accept: "text/event-stream", more });
      await this.#read(response.body.getReader(), abort);
    } catch (error) {
      if (error.code === 401) {
        this.#listener.phase("refused", {});
        return;
      }
      if (error.name !== "AbortError") reason = error.code ? error.message : "the server does not answer";
      else if (abort.signal.reason !== "silence") return;
      else reason = "the server has been silent";
    } finally {
      clearTimeout(this.#silence);
    }
    if (this.#abort === abort) this.#retry(reason);
  }

  /** Forgets the position, for a server that has started again and numbers its changes anew. */
  restart() {
    this.#lastId = "";
  }

  #retry(reason) {
    const delay = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#attempt) * (0.8 + 0.4 * Math.random());
    this.#attempt += 1;
    this.#listener.phase("lost", { reason, retryAt: Date.now() + delay });
    this.#timer = setTimeout(() => this.open(), delay);
  }

  #watchSilence(abort) {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => abort.abort("silence"), SILENCE_MS);
  }

  async #read(reader, abort) {
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.#watchSilence(abort);
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines) this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
    }
  }

  #event = "message";
  #data = [];
  #id = null;

  #line(line) {
    if (line === "") {
      if (this.#data.length > 0) this.#dispatch();
      this.#event = "message";
      this.#data = [];
      this.#id = null;
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#event = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id") this.#id = value;
  }

  #dispatch() {
    if (this.#id !== null) this.#lastId = this.#id;
    if (this.#attempt > 0 || this.#event === "state") {
      this.#attempt = 0;
      this.#listener.phase("live", {});
    }
    this.#listener.message(this.#event, JSON.parse(this.#data.join("\n")));
  }
}
