// Lines of YAML and JSON with colors for keys, strings and numbers. A line at a time, which is enough to read by.

import { el } from "./dom.js";

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** JSON with a line for each value. It is not parsed, so that large numbers and the order of keys stay as they are. */
export function prettyJson(json) {
  const tokens = json.match(TOKEN) ?? [];
  let depth = 0;
  let out = "";
  const line = () => `\n${"  ".repeat(depth)}`;
  tokens.forEach((token, index) => {
    const isEmpty = (token === "{" && tokens[index + 1] === "}") || (token === "[" && tokens[index + 1] === "]");
    if (token === "{" || token === "[") {
      depth += 1;
      out += isEmpty ? token : token + line();
    } else if (token === "}" || token === "]") {
      depth -= 1;
      out += /[{[]$/.test(tokens[index - 1] ?? "") && tokens[index - 1].length === 1 ? token : line() + token;
    } else if (token === ",") {
      out += token + line();
    } else {
      out += token === ":" ? ": " : token;
    }
  });
  return out;
}

/** The text of a member of a JSON object, or null. */
export function member(json, name) {
  const tokens = json.match(TOKEN) ?? [];
  let depth = 0;
  let start = -1;
  for (const [index, token] of tokens.entries()) {
    if (depth === 1 && start >= 0 && (token === "," || token === "}")) return tokens.slice(start, index).join("");
    if (token === "{" || token === "[") depth += 1;
    else if (token === "}" || token === "]") depth -= 1;
    else if (depth === 1 && start < 0 && token === ":" && tokens[index - 1] === JSON.stringify(name)) start = index + 1;
  }
  return null;
}

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
