// The ring that shares the objects of the program out among processes: who owns which slots.

import { json } from "./api.js";
import { clock, count, counted, el, fill, since, svg, text } from "./dom.js";
import { table } from "./controllers.js";
import { listen } from "./state.js";

const PATH = "api/v1/ring";
/** How often the view is read again. */
const REFRESH_MS = 2000;

/** The ring of the program, or null. */
export async function readRing(signal) {
  return (await json(PATH, { signal })).ring;
}

function size(ranges) {
  return ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);
}

/** 0–340, 512 */
function words(ranges) {
  return ranges.map(({ first, last }) => (first === last ? `${first}` : `${first}–${last}`)).join(", ");
}

/** A bar of all slots, with those of some ranges marked. */
function bar(slots, ranges, tone, label) {
  const marks = ranges.map(({ first, last }) => svg("rect", { x: first, y: 0, width: last - first + 1, height: 1 }));
  return svg("svg", { class: "slots", "data-tone": tone, viewBox: `0 0 ${Math.max(slots, 1)} 1`, preserveAspectRatio: "none", role: "img", "aria-label": label }, ...marks);
}

/** What is wrong with a process, or "ok". */
function tone(ring, process) {
  if (process.state !== "joined") return "warning";
  const age = process.renewed ? (Date.now() - Date.parse(process.renewed)) / 1000 : Infinity;
  return age > ring.leaseDuration ? "error" : "ok";
}

function process(ring, one) {
  const isThis = one.identity === ring.identity;
  const slots = size(one.slots);
  const share = ring.slots > 0 ? ` (${Math.round((slots * 1000) / ring.slots) / 10} %)` : "";
  const late = tone(ring, one);
  return [
    el("span.key", {}, one.identity, isThis ? el("small", {}, " this process") : null),
    count(one.weight),
    el("span.state", { data: { tone: late === "ok" ? "ok" : late } }, late === "error" ? "not renewed" : one.state),
    one.renewed ? `${since(one.renewed)} ago, ${clock(one.renewed)}` : "–",
    `${count(slots)}${share}`,
    el("span.slot-bar", { title: words(one.slots) || "no slots" }, bar(ring.slots, one.slots, isThis ? "this" : "other", `slots of ${one.identity}: ${words(one.slots) || "none"}`)),
  ];
}

export function mount(main) {
  const abort = new AbortController();
  const title = el("h1", {}, "Ring");
  const condition = el("span.state");
  const kind = el("small");
  const note = el("p.dim");
  const problem = el("p.because");
  const error = el("p.because");
  const figures = {};
  const facts = el("dl.facts");
  for (const [name, label] of [
    ["processes", "processes"],
    ["owned", "slots of this process"],
    ["unowned", "slots without an owner"],
    ["begun", "begun"],
    ["released", "given away"],
    ["stopped", "lost"],
  ]) {
    figures[name] = el("dd", { data: { fact: name } });
    facts.append(el("div", {}, figures[name], el("dt", {}, label)));
  }
  const list = table("Process", "Weight", "State", "Renewed", "Slots", "Ranges");
  const unowned = el("div.unowned");
  const shown = [
    el("section.panel", {}, facts, el("p.dim", {}, "Slots that this process has begun to own, given away and lost are counted since its start.")),
    el("section.panel", {}, el("h2", {}, "Processes"), el("p.dim", {}, "As this process has read their Leases last. The times are those of their own clocks."), list.element),
    el("section.panel", {}, el("h2", {}, "Slots without an owner"), unowned),
  ];
  const head = el("section.panel", {}, el("div.title", {}, title, " ", condition, " ", kind), note, problem, error);
  main.replaceChildren(el("div.view.ring", {}, el("div.health", {}, head, shown)));
  const draw = (ring) => {
    for (const part of shown) part.hidden = ring === null;
    condition.hidden = ring === null;
    if (ring === null) {
      text(note, "The objects of this program are not shared out among processes.");
      return;
    }
    text(note, "");
    text(title, ring.name);
    text(kind, `${counted(ring.slots, "slot")} by ${ring.field} · this process is ${ring.identity}`);
    const bad = ring.problem !== null || ring.error !== null;
    text(condition, ring.problem !== null ? "not taking part" : ring.error !== null ? "write failed" : "taking part");
    condition.dataset.tone = bad ? "warning" : "ok";
    text(problem, ring.problem ?? "");
    text(error, ring.error ? `The last write failed: ${ring.error}` : "");
    text(figures.processes, count(ring.processes.length));
    text(figures.owned, count(size(ring.owned)));
    text(figures.unowned, count(size(ring.unowned)));
    figures.unowned.dataset.tone = ring.unowned.length > 0 ? "warning" : "";
    for (const name of ["begun", "released", "stopped"]) text(figures[name], count(ring.moved[name]));
    figures.stopped.dataset.tone = ring.moved.stopped > 0 ? "warning" : "";
    list.draw(ring.processes.map((one) => process(ring, one)));
    const none = ring.unowned.length === 0;
    fill(unowned, none ? el("p.dim", {}, "None.") : [bar(ring.slots, ring.unowned, "unowned", "slots without an owner"), el("p.path", {}, words(ring.unowned))]);
  };
  let timer = 0;
  const load = async () => {
    clearTimeout(timer);
    try {
      draw(await readRing(abort.signal));
    } catch (failure) {
      if (failure.name === "AbortError") return;
      text(note, failure.message);
    }
    if (!abort.signal.aborted) timer = setTimeout(load, REFRESH_MS);
  };
  load();
  listen(abort.signal, { recovered: load });
  return {
    title: "Ring",
    crumbs: [["Ring", null]],
    update: (next) => next.path.join("/") === "ring",
    close: () => {
      clearTimeout(timer);
      abort.abort();
    },
  };
}
