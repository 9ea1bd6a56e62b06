// One object beside the view: its content, its history since the page opened, and why it is there or not.

import { json, objectPath, request } from "./api.js";
import { reconciliationsOf } from "./controllers.js";
import { button, chip, clock, count, el, fill, since, text, toast } from "./dom.js";
import { TYPES, diffList } from "./diff.js";
import { sentence } from "./informers.js";
import { closeObject, go, openObject, replace } from "./router.js";
import { listen, openedAt, state } from "./state.js";
import { member, prettyJson, yamlLines } from "./yaml.js";

const TABS = [
  ["yaml", "YAML"],
  ["json", "JSON"],
  ["history", "History"],
  ["why", "Why"],
  ["reconciliations", "Reconciliations"],
];
/** Lines of an object in the document at first. */
const LINES = 1500;
const REFRESH_MS = 500;

/** Shows the object of an informer in the drawer. */
export function mountObject(drawer, { id, key, tab }) {
  const abort = new AbortController();
  const content = el("div.drawer-content", { tabIndex: 0 });
  const name = key.split("/").at(-1);
  const namespace = key.includes("/") ? key.slice(0, key.indexOf("/")) : "";
  const presence = el("span.state");
  const version = el("span.dim");
  const tabs = el("div.tabs", { role: "tablist", "aria-label": "Parts of the object" });
  let selected = tab;
  let present = null;
  let timer = 0;
  let reading = null;

  fill(
    drawer,
    el(
      "header",
      {},
      el("div.drawer-title", {}, el("h2", { title: key }, namespace ? el("span.prefix", {}, `${namespace}/`) : null, name), button("×", () => go(closeObject()), { className: "icon close", "aria-label": "Close the object (Escape)" })),
      el("div.drawer-facts", {}, presence, el("span.dim", {}, id.split("~")[0]), version),
      tabs,
    ),
    content,
  );
  for (const [value, label] of TABS) {
    tabs.append(
      button(label, () => replace(openObject(id, key, value)), { role: "tab", data: { tab: value }, hidden: value === "reconciliations" && !state.hasControllers }),
    );
  }
  tabs.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.stopPropagation();
    const shown = TABS.filter(([value]) => !tabs.querySelector(`[data-tab=${value}]`).hidden);
    const position = shown.findIndex(([value]) => value === current());
    const [next] = shown[(position + by + shown.length) % shown.length];
    replace(openObject(id, key, next));
    tabs.querySelector(`[data-tab=${next}]`).focus();
  });

  const informer = () => state.get(id);
  // Without a choice, an object that is there shows its content, and one that is not, why.
  const current = () => selected || (present === false ? "why" : "yaml");
  const drawTabs = () => {
    for (const element of tabs.children) {
      element.setAttribute("aria-selected", String(element.dataset.tab === current()));
      element.tabIndex = element.dataset.tab === current() ? 0 : -1;
    }
    tabs.querySelector("[data-tab=reconciliations]").hidden = !state.hasControllers;
    text(tabs.querySelector("[data-tab=why]"), present === false ? "Why is it not there?" : "Why is it there?");
  };
  const setPresence = (is, label, tone) => {
    present = is;
    text(presence, label);
    presence.dataset.tone = tone;
    drawTabs();
  };

  const load = async () => {
    clearTimeout(timer);
    timer = 0;
    const info = informer();
    if (!info) return;
    reading?.abort();
    reading = new AbortController();
    const { signal } = reading;
    const part = current();
    content.setAttribute("aria-busy", "true");
    try {
      if (part === "history") await loadHistory(info, signal);
      else if (part === "why") await loadWhy(info, signal);
      else if (part === "reconciliations") await loadReconciliations(info, signal);
      else await loadContent(info, part, signal);
      if (current() !== part) load();
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(content, el("div.blank", {}, el("h3", {}, "This could not be read"), el("p", {}, error.message), button("Try again", load)));
    } finally {
      if (!signal.aborted) content.removeAttribute("aria-busy");
    }
  };
  const later = () => {
    if (timer === 0) timer = setTimeout(load, REFRESH_MS);
  };

  const loadContent = async (info, part, signal) => {
    try {
      const accept = part === "json" ? "application/json" : "application/yaml";
      const response = await request(objectPath(info, key, "", part === "yaml" ? { format: "yaml" } : {}), { signal, accept });
      const body = await response.text();
      // The tag is the version, with the representation behind it.
      const etag = /\d+/.exec(response.headers.get("ETag") ?? "")?.[0];
      setPresence(true, "in the store", "ok");
      const created = /^ {2,4}"?creationTimestamp"?: "?([^",\s]+)/m.exec(part === "json" ? prettyJson(body) : body)?.[1];
      text(version, [etag && `version ${etag}`, created && `${since(created)} old`].filter(Boolean).join(" · "));
      drawContent(part === "json" ? prettyJson(body) : body, part);
    } catch (error) {
      if (error.code === 404) {
        setPresence(false, "not in the store", "error");
        text(version, "");
        if (selected) fill(content, el("div.blank", {}, el("h3", {}, "The store does not have this object"), el("p", {}, error.message), button("Why is it not there?", () => replace(openObject(id, key, "why")))));
      } else if (error.code === 403) {
        fill(content, el("div.blank", {}, el("h3", {}, "The content is not shown"), el("p", {}, error.message)));
      } else {
        throw error;
      }
    }
  };

  let drawnText = "";
  let drawnLines = [];
  let lines = LINES;
  let isFolded = true;
  const drawContent = (body, part) => {
    const changedOnly = drawnText !== "" && drawnText !== body && content.querySelector("pre") !== null;
    if (body === drawnText && content.querySelector("pre")?.dataset.part === part) return;
    drawnText = body;
    const all = body.replace(/\n$/, "").split("\n");
    const folded = foldManagedFields(all, part);
    const visible = isFolded ? folded.lines : all;
    // After a change, the lines that were not there before are marked for a moment.
    const before = changedOnly ? new Set(drawnLines) : null;
    drawnLines = visible;
    const pre = el("pre.code", { data: { part }, "aria-label": `${part === "json" ? "JSON" : "YAML"} of ${key}` });
    pre.append(...yamlLines(visible.slice(0, lines), part, before));
    const top = content.scrollTop;
    fill(
      content,
      el(
        "div.code-tools",
        {},
        button("Copy", async () => {
          await navigator.clipboard?.writeText(body).then(() => toast("Copied"), () => toast("The browser does not allow copying here"));
        }),
        folded.hidden > 0
          ? button(isFolded ? `Show managedFields (${folded.hidden} lines)` : "Hide managedFields", () => {
              isFolded = !isFolded;
              redraw(body, part);
            })
          : null,
        el("span.dim", {}, `${count(all.length)} lines`),
      ),
      pre,
      visible.length > lines
        ? button(`Show all ${count(visible.length)} lines`, () => {
            lines = Infinity;
            redraw(body, part);
          })
        : null,
    );
    content.scrollTop = top;
  };
  const redraw = (body, part) => {
    drawnText = "";
    content.replaceChildren();
    drawContent(body, part);
  };

  const loadHistory = async (info, signal) => {
    const [history, why] = await Promise.all([
      json(objectPath(info, key, "/history"), { signal }),
      present === null ? json(objectPath(info, key, "/explain"), { signal }) : null,
    ]);
    if (why) applyExplanation(why);
    const items = history.items.toReversed();
    const firstBefore = items.findIndex((change) => Date.parse(change.time) < openedAt);
    const entries = items.map((change, number) => {
      const type = TYPES[change.type] ?? { sign: "?", label: change.type };
      const versions = change.type === "updated" ? `${change.oldResourceVersion} → ${change.resourceVersion}` : change.resourceVersion;
      return [
        number === firstBefore && number > 0 ? el("li.opened-here", {}, `this page was opened at ${clock(openedAt)}`) : null,
        el(
          "li",
          { data: { type: change.type } },
          el("div.history-head", {}, el("span.type", {}, el("i", { "aria-hidden": "true" }, type.sign), el("span", {}, type.label)), el("span", {}, `version ${versions}`), el("time", { dateTime: change.time, title: change.time }, `${clock(change.time)} · ${since(change.time)} ago`)),
          diffList(change),
        ),
      ];
    });
    const open = el("li.history-start", {}, history.complete ? `No earlier change since the server started keeping them, ${clock(history.since)}.` : "Earlier changes are no longer kept: the memory of the server is bounded.");
    fill(content, el("ol.history", {}, entries.length > 0 ? entries : el("li.blank", {}, el("h3", {}, "No change yet"), el("p", {}, "A change of this object appears here as soon as the informer receives it.")), open));
  };

  const loadReconciliations = async (info, signal) => {
    const [found, why] = await Promise.all([
      reconciliationsOf(info, key, signal),
      present === null ? json(objectPath(info, key, "/explain"), { signal }) : null,
    ]);
    if (why) applyExplanation(why);
    fill(content, found);
  };

  const applyExplanation = (why) => {
    setPresence(why.present, why.present ? "in the store" : "not in the store", why.present ? "ok" : "error");
    text(version, why.resourceVersion ? `version ${why.resourceVersion}` : "");
  };

  let answer = el("div.answer", { role: "status" });
  const loadWhy = async (info, signal) => {
    const why = await json(objectPath(info, key, "/explain"), { signal });
    applyExplanation(why);
    const ask = button("Ask the API server once", () => askOnce(info, ask), { className: "primary", disabled: !why.canAsk });
    const facts = [
      ["Reason", why.reason],
      ["Version", why.resourceVersion],
      ["Time", why.time ? `${why.time} (${since(why.time)} ago)` : null],
      ["Informer", `${info.name}${info.scope ? `, ${info.scope}` : ""}`],
      ["Its state", info.sources.map((source) => `${source.state}${source.detail ? `, ${source.detail}` : ""}`).join("; ")],
    ];
    fill(
      content,
      el(
        "section.why",
        { data: { reason: why.reason } },
        el("p.question", {}, why.present ? "Why is it in the store?" : "Why is it not in the store?"),
        el("p.because", {}, sentence(why.message)),
        el("dl.facts-list", {}, facts.filter(([, value]) => value).map(([label, value]) => [el("dt", {}, label), el("dd", {}, value)])),
        el("p.dim", {}, "This answer comes from what the informer has seen. It needed no request to the API server."),
        el("div.ask", {}, ask, el("span.dim", {}, why.canAsk ? "One GET of this object. Nothing else on this page reads from the API server." : "The server of this page has no connection to ask with.")),
        answer,
      ),
    );
  };
  const askOnce = async (info, ask) => {
    ask.disabled = true;
    try {
      const response = await request(objectPath(info, key, "/ask"), { method: "POST", signal: abort.signal });
      const body = await response.text();
      const result = JSON.parse(body);
      fill(
        answer,
        el("h3", {}, chip(result.found ? "found" : "not found", result.found ? "ok" : "warning"), " The API server at ", clock(Date.now())),
        el("p.because", {}, sentence(result.message)),
        result.object ? el("pre.code", {}, yamlLines(prettyJson(member(body, "object")).split("\n").slice(0, LINES), "json", null)) : null,
      );
    } catch (error) {
      if (error.name === "AbortError") return;
      const wait = error.code === 429 && error.retryAfter ? ` Try again in ${error.retryAfter} s.` : "";
      fill(answer, el("h3", {}, chip("no answer", "error")), el("p.because", {}, sentence(error.message) + wait));
    } finally {
      ask.disabled = false;
    }
  };

  listen(abort.signal, {
    state: () => {
      if (reading === null && informer()) load();
    },
    change: (change) => {
      if (change.key === key && state.idOf(change) === id) {
        if (change.type === "deleted") setPresence(false, "deleted", "error");
        else if (change.type === "left") setPresence(false, "left the scope", "warn");
        later();
      }
    },
    recovered: load,
    controllers: drawTabs,
  });
  drawTabs();
  load();
  return {
    id,
    key,
    update: (next) => {
      if (next.tab === selected) return;
      selected = next.tab;
      drawTabs();
      content.scrollTop = 0;
      load();
    },
    nextTab: (value) => replace(openObject(id, key, value)),
    close: () => {
      clearTimeout(timer);
      reading?.abort();
      abort.abort();
      drawer.replaceChildren();
    },
  };
}

/** Leaves out `metadata.managedFields`, which is long and rarely read. */
function foldManagedFields(lines, part) {
  const start = lines.findIndex((line) => (part === "json" ? /^ {4}"managedFields": \[/ : /^ {2}managedFields:/).test(line));
  if (start < 0) return { lines, hidden: 0 };
  const indent = part === "json" ? 4 : 2;
  let end = start + 1;
  const belongs = (line) => {
    const depth = line.search(/\S/);
    return depth > indent || (part === "json" ? /^ {4}\],?$/.test(line) : depth === indent && line.trimStart().startsWith("-"));
  };
  while (end < lines.length && belongs(lines[end])) end += 1;
  return { lines: [...lines.slice(0, start), ...lines.slice(end)], hidden: end - start };
}
