// The page with objects that appear, change and vanish.

import assert from "node:assert/strict";
import { test } from "node:test";
import { apiServer, openPage, pod, serve, withBrowser } from "./harness.js";

withBrowser();

const row = (page, key) => page.locator(`.row[data-key="${key}"]`);

test("an object appears, changes and vanishes", async (t) => {
  const server = await apiServer(t);
  const { url } = await serve(t, server, "pods");
  const page = await openPage(t, `${url}/#/informers/pods`);
  await page.getByText("The store of this informer is empty.").waitFor();

  await server.create(pod("web-0", { phase: "Pending" }));
  await row(page, "default/web-0").waitFor();
  await row(page, "default/web-0").getByText("Pending").waitFor();

  await server.replaceStatus(pod("web-0", { phase: "Running" }));
  await row(page, "default/web-0").getByText("Running").waitFor();

  await row(page, "default/web-0").click();
  await page.locator(".drawer pre.code").getByText("phase").waitFor();
  await server.remove(pod("web-0"));
  await row(page, "default/web-0").waitFor({ state: "detached" });
  // The open object says that it is not there any more, and why.
  await page.locator(".drawer-facts .state[data-tone=error]").waitFor();
  await page.locator(".drawer .because").getByText(/deleted/i).waitFor();
});

test("filter, sort, open, and the difference of a change", async (t) => {
  const server = await apiServer(t);
  for (const name of ["api-1", "web-1", "web-2"]) await server.create(pod(name, { image: "web:1.0" }));
  await server.create(pod("other", { labels: { app: "other" }, node: "node-2" }));
  const { url } = await serve(t, server, "pods");
  const page = await openPage(t, `${url}/#/informers/pods`);
  await row(page, "default/other").waitFor();
  const keys = () => page.locator(".row[data-key]").evaluateAll((rows) => rows.sort((a, b) => a.dataset.index - b.dataset.index).map((each) => each.dataset.key));
  const until = async (expected) => {
    await page.waitForFunction(
      (wanted) => {
        const rows = [...document.querySelectorAll(".row[data-key]")].sort((a, b) => a.dataset.index - b.dataset.index);
        return rows.map((each) => each.dataset.key).join(" ") === wanted;
      },
      expected.join(" "),
    );
    assert.deepEqual(await keys(), expected);
  };
  await until(["default/api-1", "default/other", "default/web-1", "default/web-2"]);

  await page.getByRole("button", { name: "Name", exact: true }).click();
  await page.getByRole("button", { name: "Name", exact: true }).click();
  await until(["default/web-2", "default/web-1", "default/other", "default/api-1"]);

  await page.keyboard.press("/");
  await page.keyboard.type("WEB");
  await until(["default/web-2", "default/web-1"]);
  assert.match(page.url(), /filter=WEB/);

  await page.keyboard.press("Enter");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "default/web-1" }).waitFor();
  await page.locator(".drawer pre.code").getByText("web:1.0").waitFor();

  await page.keyboard.press("h");
  await page.getByRole("tab", { name: "History", selected: true }).waitFor();
  await server.replace(pod("web-1", { image: "web:2.0" }));
  const diff = page.locator(".history .diff");
  await diff.getByText("spec.containers[0].image").waitFor();
  const image = diff.locator("dt", { hasText: "spec.containers[0].image" });
  assert.equal(await image.locator("+ .old").textContent(), "web:1.0");
  assert.equal(await image.locator("+ .old + .new").textContent(), "web:2.0");

  await page.keyboard.press("Escape");
  await page.getByRole("heading", { name: "default/web-1" }).waitFor({ state: "detached" });
  await page.goBack();
  await page.getByRole("heading", { name: "default/web-1" }).waitFor();
});

test("the tail of events has what changed, filters and pauses", async (t) => {
  const server = await apiServer(t);
  await server.create(pod("web-1"));
  await server.create(pod("web-2"));
  const { url } = await serve(t, server, "pods");
  const page = await openPage(t, `${url}/#/events`);
  await page.locator("#connection[data-phase=live]").waitFor();

  await server.replace(pod("web-1", { image: "web:2" }));
  const first = page.locator(`.change[data-key="default/web-1"]`);
  await first.getByText("web:2").waitFor();
  await first.getByRole("button").click();
  await first.locator(".diff").getByText("spec.containers[0].image").waitFor();
  await first.getByRole("button").click();

  await page.locator("h1", { hasText: "Events" }).click();
  await page.keyboard.press("p");
  await server.create(pod("web-3"));
  await page.getByRole("button", { name: "1 new event: show" }).waitFor();
  assert.equal(await page.locator(`.change[data-key="default/web-3"]`).count(), 0);
  await page.keyboard.press("p");
  await page.locator(`.change[data-key="default/web-3"]`).waitFor();

  await page.getByRole("searchbox").fill("web:2");
  await page.locator(`.change[data-key="default/web-3"]`).waitFor({ state: "detached" });
  await first.waitFor();
  assert.equal(await page.locator(".change").count(), 1);
});

test("by index: kind, index, value, object", async (t) => {
  const server = await apiServer(t);
  for (const number of [1, 2, 3]) await server.create(pod(`web-${number}`, { node: `node-${Math.min(2, number)}` }));
  const { url } = await serve(t, server, "pods");
  const page = await openPage(t, `${url}/`);
  await page.locator(".informers").getByRole("link", { name: "pods" }).click();
  await page.locator(".tabs").getByRole("link", { name: "Indexes" }).click();
  await page.locator(".values").getByRole("link", { name: "node" }).click();
  const value = page.locator(".values a", { hasText: "node-2" });
  await value.getByText("2", { exact: true }).waitFor();
  await value.click();
  await row(page, "default/web-3").waitFor();
  assert.equal(await page.locator(".row[data-key]").count(), 2);
  assert.equal(await page.locator("#crumbs").innerText().then((text) => text.replace(/\s+/g, " ")), "Informers pods node node-2");
});

test("why an object is not there, and one question to the API server", async (t) => {
  const server = await apiServer(t);
  await server.create(pod("web-1"));
  await server.create(pod("hidden", { labels: { app: "other" } }));
  const { url } = await serve(t, server, "pods", { args: ["--selector", "app=web"] });
  const page = await openPage(t, `${url}/`, { expected: [/404/] });
  let asked = 0;
  page.on("request", (request) => {
    if (request.method() !== "GET") asked += 1;
  });
  await page.locator(".informers").getByText("pods", { exact: true }).waitFor();

  await page.keyboard.press("f");
  await page.keyboard.type("default/hidden");
  await page.locator(".results").getByText("is not there: why?").waitFor();
  await page.keyboard.press("Enter");
  await page.locator(".because").waitFor();
  assert.equal(asked, 0);
  await page.getByRole("button", { name: "Ask the API server once" }).click();
  await page.locator(".answer").getByText("found", { exact: true }).waitFor();
  await page.locator(".answer .because").getByText(/app=web/).waitFor();
  assert.equal(asked, 1);

  // An object that leaves the selector.
  await page.goto(`${url}/#/informers/pods?open=pods|default/web-1&tab=why`);
  await page.locator(".drawer-facts").getByText("in the store", { exact: true }).waitFor();
  await server.replace(pod("web-1", { labels: { app: "other" } }));
  await page.locator(".because").getByText(/left the selector/).waitFor();
  assert.equal(asked, 1);
});

test("the kind that had a deleted object comes first", async (t) => {
  const server = await apiServer(t);
  await server.create({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "shop", namespace: "default" } });
  const { url } = await serve(t, server, "pods,configmaps");
  const page = await openPage(t, `${url}/#/informers/configmaps`);
  await row(page, "default/shop").waitFor();
  await server.remove({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "shop", namespace: "default" } });
  await row(page, "default/shop").waitFor({ state: "detached" });
  await page.goto(`${url}/#/`);
  await page.keyboard.press("f");
  await page.keyboard.type("default/shop");
  const first = page.locator(".results li").first();
  await first.getByText(/^deleted .+ ago: why\?$/).waitFor();
  assert.equal(await first.locator(".of").textContent(), "ConfigMap");
  await page.locator(".results li").nth(1).getByText("is not there: why?").waitFor();
});

test("all columns of the informers are visible beside a long name", async (t) => {
  const server = await apiServer(t);
  const long = "validatingadmissionpolicybindings";
  const { url } = await serve(t, server, `pods,${long}`);
  const page = await openPage(t, `${url}/`);
  await page.locator(`.informers tr[data-informer^="${long}"]`).waitFor();
  const cut = await page.locator(".table-panel").evaluate((panel) => panel.scrollWidth - panel.clientWidth);
  assert.equal(cut, 0, "the table is wider than its panel");
});

test("a lost connection is said clearly and recovers", async (t) => {
  const server = await apiServer(t);
  await server.create(pod("web-1"));
  let program = await serve(t, server, "pods");
  const { port, url } = program;
  const page = await openPage(t, `${url}/#/informers/pods`, { expected: [/Failed to load resource|ERR_|net::/] });
  await row(page, "default/web-1").waitFor();
  await page.locator("#connection[data-phase=live]").waitFor();

  await program.stop();
  await page.locator("#connection[data-phase=lost]").waitFor();
  await page.getByText("Connection lost").waitFor();
  await page.getByText(/The figures are those of/).waitFor();
  assert.match(await page.title(), /not connected/);
  // What was read remains visible.
  assert.equal(await row(page, "default/web-1").count(), 1);

  await server.create(pod("web-2"));
  await server.remove(pod("web-1"));
  program = await serve(t, server, "pods", { port });
  assert.equal(program.port, port);
  await page.locator("#connection[data-phase=live]").waitFor({ timeout: 30_000 });
  await row(page, "default/web-2").waitFor();
  await row(page, "default/web-1").waitFor({ state: "detached" });
  await page.getByText("Connection lost").waitFor({ state: "hidden" });
  // Changes of the new process arrive.
  await server.create(pod("web-3"));
  await row(page, "default/web-3").waitFor();
});

test("a server that is silent is not taken as live", async (t) => {
  const server = await apiServer(t);
  const program = await serve(t, server, "pods");
  const page = await openPage(t, `${program.url}/`, { expected: [/Failed to load resource|ERR_|net::/] });
  await page.getByRole("heading", { name: "The informer is up to date" }).waitFor();
  program.child.kill("SIGSTOP");
  await page.locator("#connection[data-phase=lost]").waitFor();
  program.child.kill("SIGCONT");
  await page.locator("#connection[data-phase=live]").waitFor();
});

test("a token is asked for, and kept for the tab", async (t) => {
  const server = await apiServer(t);
  await server.create(pod("web-1"));
  const { url } = await serve(t, server, "pods", { args: ["--serve-token", "correct-horse-battery"] });
  const page = await openPage(t, `${url}/`, { expected: [/401/] });
  // A form that was closed can be opened again.
  await page.getByLabel("Token").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Enter the token" }).click();
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Connect" }).click();
  await page.getByLabel("Token").waitFor();
  await page.getByLabel("Token").fill("correct-horse-battery");
  await page.getByRole("button", { name: "Connect" }).click();
  await page.locator("#connection[data-phase=live]").waitFor();
  await page.reload();
  await page.locator("#connection[data-phase=live]").waitFor();
  await page.locator(".informers").getByText("pods", { exact: true }).waitFor();
});

test("names and values are text, never markup", async (t) => {
  const server = await apiServer(t);
  const markup = `<img src=x onerror="document.title='bad'">`;
  await server.create({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "text", namespace: "default" }, data: { value: markup } });
  const { url } = await serve(t, server, "configmaps");
  const page = await openPage(t, `${url}/#/informers/configmaps?open=configmaps|default/text`);
  await page.locator(".drawer pre.code").getByText("onerror").waitFor();
  assert.equal(await page.locator("img").count(), 0);
  assert.doesNotMatch(await page.title(), /bad/);
});

test("large integers and the order of keys are shown as the server sends them", async (t) => {
  const server = await apiServer(t);
  const value = "9007199254740993";
  const widget = pod("web-1");
  widget.metadata.annotations = { "10": 'a "quoted" text, {}: [1]', 9: "second" };
  widget.spec.terminationGracePeriodSeconds = "LARGE";
  const body = JSON.stringify(widget).replace('"LARGE"', value);
  const created = await fetch(`${server.url}/api/v1/namespaces/default/pods`, { method: "POST", body, headers: { "Content-Type": "application/json" } });
  assert.ok(created.ok, await created.text());
  const { url } = await serve(t, server, "pods");
  const page = await openPage(t, `${url}/#/informers/pods?open=pods|default/web-1&tab=json`);
  const code = page.locator('.drawer pre.code[data-part="json"]');
  await code.getByText(value).waitFor();
  const sent = await (await fetch(`${url}/api/v1/informers/pods/objects/default/web-1`)).text();
  assert.ok(sent.includes(value), sent);
  const shown = await code.textContent();
  const compact = (text) => text.replace(/\s/g, "");
  assert.equal(compact(shown), compact(sent));
  assert.ok(shown.includes('\n  "spec": {\n') && shown.includes(`\n    "terminationGracePeriodSeconds": ${value}`), shown);
  // The answer of the API server as well.
  await page.getByRole("tab", { name: "Why" }).click();
  await page.getByRole("button", { name: "Ask the API server once" }).click();
  await page.locator(".answer pre.code").getByText(value).waitFor();
});

for (const [name, width, height] of [
  ["a phone", 390, 844],
  ["a desktop", 1280, 800],
]) {
  test(`every view fits on ${name}`, async (t) => {
    const server = await apiServer(t);
    for (let number = 0; number < 40; number += 1) await server.create(pod(`web-with-a-rather-long-name-${number}`));
    const { url } = await serve(t, server, "pods,nodes");
    const page = await openPage(t, `${url}/`, { width, height });
    const views = {
      "#/": ".informers tbody tr",
      "#/informers/pods": ".row[data-key]",
      "#/informers/pods/indexes": ".values li",
      "#/informers/pods/indexes/node": ".values li",
      "#/informers/pods/health": ".plain td",
      "#/events": ".toolbar h1",
      "#/informers/pods?open=pods|default/web-with-a-rather-long-name-1": "pre.code",
    };
    for (const [hash, element] of Object.entries(views)) {
      await page.evaluate((link) => (location.hash = link), hash);
      await page.locator(element).first().waitFor();
      const wide = await page.evaluate(() => [document.documentElement, document.querySelector("main")].map((each) => each.scrollWidth - each.clientWidth));
      assert.deepEqual(wide, [0, 0], `${hash} is wider than the screen`);
    }
  });
}
