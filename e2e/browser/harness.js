// Programs and a browser for the tests. Everything that is started here ends with the test, also if it fails.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PROGRAM = process.env.KINFORMER_PROGRAM ?? join(ROOT, "target/debug/kinformer");
const SLOW_HANDLER = process.env.KINFORMER_SLOW_HANDLER ?? join(ROOT, "target/debug/examples/slow_handler");
const CONTROLLERS = process.env.KINFORMER_CONTROLLERS ?? join(ROOT, "target/debug/examples/controllers");
const BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
/** How long a program may take until it has printed its address. */
const START_MS = 240_000;

const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

/** The path of the browser: that of the variable, or the first of the usual names. */
export function browserPath() {
  if (process.env.KINFORMER_BROWSER) return process.env.KINFORMER_BROWSER;
  const folders = (process.env.PATH ?? "").split(delimiter);
  const found = BROWSERS.flatMap((name) => folders.map((folder) => join(folder, name))).find(existsSync);
  if (!found) throw new Error(`no browser: none of ${BROWSERS.join(", ")} is in the PATH`);
  return found;
}

/** A program that has printed its address as the first line. */
class Program {
  constructor(child, url) {
    this.child = child;
    this.url = url.replace(/\/$/, "");
  }

  get port() {
    return new URL(this.url).port;
  }

  /** Ends the program and waits for its end. */
  async stop(signal = "SIGKILL") {
    if (!running.has(this.child)) return;
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill(signal);
    await ended;
  }
}

const cleanups = new WeakMap();

/** Runs a function after a test, before those that were given earlier: a page is closed before its server ends. */
function afterwards(t, run) {
  if (!cleanups.has(t)) {
    cleanups.set(t, []);
    t.after(async () => {
      const errors = [];
      for (const cleanup of cleanups.get(t).reverse()) await cleanup().catch((error) => errors.push(error));
      if (errors.length > 0) throw errors[0];
    });
  }
  cleanups.get(t).push(run);
}

function start(t, program, args) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, RUST_LOG: "warn" } });
  running.add(child);
  let errors = "";
  child.stderr.on("data", (data) => {
    errors = (errors + data).slice(-4000);
  });
  child.on("exit", () => running.delete(child));
  // A program that could not be started has no exit to wait for.
  child.on("error", () => running.delete(child));
  afterwards(t, async () => {
    if (running.has(child)) {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await ended;
    }
  });
  return new Promise((resolve, reject) => {
    const name = `${program} ${args.join(" ")}`;
    const fail = (reason) => reject(new Error(`${name}: ${reason}\n${errors}`));
    const timer = setTimeout(() => fail("no address after four minutes"), START_MS);
    child.once("error", (error) => fail(error.message));
    child.once("exit", (code) => fail(`ended with ${code}`));
    createInterface({ input: child.stdout }).on("line", (line) => {
      const url = /https?:\/\/\S+/.exec(line)?.[0];
      if (!url) return;
      clearTimeout(timer);
      resolve(new Program(child, url));
    });
  });
}

/** An API server in a process of its own, with this many pods. */
export async function apiServer(t, pods = 0) {
  const server = await start(t, PROGRAM, ["api-server", ...(pods > 0 ? ["--load", `pods=${pods}`] : [])]);
  return Object.assign(server, {
    create: (object) => write(server.url, "POST", collection(object), object),
    replace: (object) => write(server.url, "PUT", path(object), object),
    remove: (object) => write(server.url, "DELETE", path(object)),
    /** Replaces the status alone, as a kubelet does. */
    replaceStatus: (object) => write(server.url, "PUT", `${path(object)}/status`, object),
  });
}

/** `kinformer serve` on an API server. A port serves a page at the same address again. */
export function serve(t, server, resources, { port = 0, args = [], scope = ["--all-namespaces"] } = {}) {
  return start(t, PROGRAM, ["serve", resources, ...scope, "--server", server.url, "--listen", `127.0.0.1:${port}`, ...args]);
}

/** The example with a handler that is behind. */
export function slowHandler(t) {
  return start(t, SLOW_HANDLER, []);
}

/** The example with controllers. */
export function controllers(t) {
  return start(t, CONTROLLERS, []);
}

const PLURALS = { Pod: "pods", Node: "nodes", ConfigMap: "configmaps", Secret: "secrets", Namespace: "namespaces" };

function collection(object) {
  const namespace = object.metadata.namespace;
  return `/api/v1/${namespace ? `namespaces/${namespace}/` : ""}${PLURALS[object.kind]}`;
}

function path(object) {
  return `${collection(object)}/${object.metadata.name}`;
}

async function write(url, method, at, object) {
  const body = object === undefined ? undefined : JSON.stringify(object);
  const response = await fetch(url + at, { method, body, headers: { "Content-Type": "application/json" } });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${method} ${at}: ${answer.message}`);
  return answer;
}

export function pod(name, { namespace = "default", labels = { app: "web" }, node = "node-1", image = "web:1", phase = "Running" } = {}) {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace, labels },
    spec: { nodeName: node, containers: [{ name: "main", image }] },
    status: { phase },
  };
}

let browser = null;

/** Starts a browser before the tests of a file, and ends it after them. */
export function withBrowser() {
  before(async () => {
    const args = ["--no-sandbox", "--disable-dev-shm-usage", "--js-flags=--expose-gc", "--enable-precise-memory-info"];
    browser = await chromium.launch({ executablePath: browserPath(), args, ignoreDefaultArgs: ["--hide-scrollbars"] });
  });
  after(() => browser?.close());
}

/**
 * Opens a page. The test fails if the page reports an error, or loads anything from another origin.
 *
 * `expected` are messages of the console that the test causes, as when the server is stopped.
 */
export async function openPage(t, url, { width = 1280, height = 800, colorScheme = "light", expected = [], reducedMotion = "no-preference" } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const problems = [];
  const origin = new URL(url).origin;
  page.on("pageerror", (error) => problems.push(error.stack ?? error.message));
  page.on("console", (message) => {
    const isExpected = expected.some((pattern) => pattern.test(message.text()));
    if (["error", "warning"].includes(message.type()) && !isExpected) problems.push(`${message.text()} ${message.location().url}`);
  });
  page.on("request", (request) => {
    const own = new URL(request.url());
    if (own.protocol !== "data:" && own.origin !== origin) problems.push(`a request to ${request.url()}`);
  });
  afterwards(t, async () => {
    await context.close();
    if (problems.length > 0) throw new Error(`the page reported:\n${problems.join("\n")}`);
  });
  await page.goto(url);
  return page;
}

/** The live JavaScript heap of a page, in MB, after a garbage collection. */
export async function heap(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.enable");
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  await session.detach();
  return usedSize / 1e6;
}
