// Lines of YAML and JSON with colors for keys, strings and numbers. A line at a time, which is enough to read by.

import { el } from "./dom.js";

const KEY = { yaml: /^(\s*(?:- )*)([^\s:#'"][^:]*|"(?:[^"\\]|\\.)*"|'[^']*')(:)(?=\s|$)(.*)$/, json: /^(\s*)("(?:[^"\\]|\\.)*")(:)(.*)$/ };
const LITERAL = /^\s*(-?\d+(\.\d+)?([eE][+-]?\d+)?|true|false|null)\s*,?$/;

/** Creates an element for each line. Lines that are not in `before` are marked as changed. */
export function yamlLines(lines, part, before) {
  return lines.map((line) => {
    const element = el("span.line", {}, parts(line, KEY[part] ?? KEY.yaml));
    if (before && !before.has(line)) element.classList.add("changed");
    return element;
  });
}

function parts(line, pattern) {
  const match = pattern.exec(line);
  if (!match) return [value(line), "\n"];
  const [, indent, key, colon, rest] = match;
  return [indent, el("span.k", {}, key), colon, value(rest), "\n"];
}

function value(string) {
  if (string.trim() === "") return string;
  if (LITERAL.test(string)) return el("span.n", {}, string);
  return /^\s*[[\]{}]/.test(string) ? string : el("span.s", {}, string);
}
