// What a change changed: paths with the value before and after.

import { count, el } from "./dom.js";

const LONGEST = 400;

/** The type of a change as a label. */
export const TYPES = {
  added: { sign: "+", label: "added" },
  updated: { sign: "~", label: "updated" },
  deleted: { sign: "−", label: "deleted" },
  left: { sign: "→", label: "left the scope" },
  resync: { sign: "↻", label: "resync" },
  gap: { sign: "…", label: "gap" },
};

/** The headings of the lists of events. */
export function headings() {
  return el(
    "div.change-head",
    { "aria-hidden": "true" },
    ["Time", "Event", "Informer", "Object", "What changed: before → after"].map((label) => el("span", {}, label)),
  );
}

/** A JSON value in one line; strings without quotes. */
export function shown(value) {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** One line about a change, as elements: the first fields that it changed. */
export function summary(change) {
  if (change.type === "added") return [el("span.dim", {}, `at version ${change.resourceVersion}`)];
  if (change.type === "deleted") {
    const state = change.finalStateUnknown ? "missed by the watch, found by a relist; last known" : "last";
    return [el("span.dim", {}, `${state} version ${change.resourceVersion || change.oldResourceVersion}`)];
  }
  if (change.type === "left") return [el("span.dim", {}, `the informer no longer holds it; last version ${change.resourceVersion}`)];
  if (change.type === "resync") return [el("span.dim", {}, "delivered again, unchanged")];
  if (change.type === "gap") {
    const what = change.skipped > 0 ? `${count(change.skipped)} events are not listed` : "Events are missing here";
    return [el("span.dim", {}, `${what}: the server no longer has them, or they were more than it sends`)];
  }
  const diff = change.diff ?? [];
  if (diff.length === 0) {
    return [el("span.dim", {}, `no field that is shown; version ${change.oldResourceVersion} → ${change.resourceVersion}`)];
  }
  const candidates = diff.filter(({ path }) => !isNoise(path));
  const best = candidates.find(({ path }) => !path.includes("conditions[")) ?? candidates[0] ?? diff[0];
  const more = diff.length - 1;
  const [before, after] = withoutCommonStart(shown(best.old), shown(best.new));
  return [
    el("code.path", {}, best.path),
    " ",
    ...("old" in best ? [el("del", {}, clipped(before, 60)), el("span.arrow", {}, " → ")] : []),
    ..."new" in best ? [el("ins", {}, clipped(after, 80))] : [el("span.dim", {}, "removed")],
    ...(more > 0 || change.diffTruncated ? [el("span.more", {}, ` +${more}${change.diffTruncated ? " or more" : ""} field${more === 1 ? "" : "s"}`)] : []),
  ];
}

/** Leaves out what two long values begin with, since the line has little room and their ends are different. */
function withoutCommonStart(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  const word = before.slice(0, start).search(/[^/\s]*$/);
  return word > 8 && before.length > 16 ? [`…${before.slice(word)}`, `…${after.slice(word)}`] : [before, after];
}

/** Whether a path changes with every write. */
function isNoise(path) {
  return /^metadata\.(resourceVersion|generation|managedFields)/.test(path) || /(Time|heartbeat)$/.test(path);
}

function clipped(string, length) {
  return string.length > length ? `${string.slice(0, length)}…` : string;
}

/** All entries of a change's diff, with the differing part of each value marked. */
export function diffList(change) {
  const diff = change.diff ?? [];
  if (change.type !== "updated" || diff.length === 0) return el("p.diff-line", {}, summary(change));
  // What changes with every write comes last.
  const ordered = [...diff.filter(({ path }) => !isNoise(path)), ...diff.filter(({ path }) => isNoise(path))];
  const entries = ordered.flatMap((entry) => {
    const [before, after] = marked(entry);
    return [
      el("dt", {}, entry.path),
      ...(before ? [el("dd.old", { "aria-label": "before" }, before)] : []),
      ...(after ? [el("dd.new", { "aria-label": "after" }, after)] : []),
    ];
  });
  return el(
    "dl.diff",
    {},
    entries,
    change.diffTruncated ? el("dd.dim", {}, "More fields changed than are kept.") : null,
  );
}

/** The values before and after, with what they do not share marked. */
function marked(entry) {
  const before = "old" in entry ? shown(entry.old) : null;
  const after = "new" in entry ? shown(entry.new) : null;
  if (before === null || after === null || before.length > LONGEST || after.length > LONGEST) {
    return [before, after].map((value) => value === null ? null : [value === "" ? '""' : value]);
  }
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  const least = Math.min(before.length, after.length) - start;
  while (end < least && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  // Marks in short words disturb more than they help.
  const worthwhile = start + end > 4;
  return [before, after].map((value) => {
    if (value === "") return ['""'];
    if (!worthwhile) return [value];
    const middle = value.slice(start, value.length - end);
    return [value.slice(0, start), middle ? el("mark", {}, middle) : "", value.slice(value.length - end)];
  });
}
