// The ring of a program: its processes and their slots. The scope of an informer.

import assert from "node:assert/strict";
import { test } from "node:test";
import { apiServer, controllers, openPage, serve, withBrowser } from "./harness.js";

withBrowser();

test("the ring shows who owns which slots, and what is wrong", async (t) => {
  const { url } = await controllers(t);
  const page = await openPage(t, `${url}/`);
  await page.locator("#rail").getByRole("link", { name: "Ring" }).click();
  await page.getByRole("heading", { name: "shop" }).waitFor();
  const rows = page.locator(".ring tbody tr");
  assert.equal(await rows.count(), 3);
  assert.match(await rows.nth(0).textContent(), /shop-6d9f-01not renewed/);
  assert.match(await rows.nth(1).textContent(), /shop-6d9f-1 this process1joined.*312 \(30.5 %\)/);
  assert.equal(await rows.nth(0).locator("rect").count(), 2);
  assert.deepEqual(await rows.nth(1).locator("rect").evaluate((mark) => ["x", "width"].map((name) => mark.getAttribute(name))), ["200", "312"]);
  await page.locator("[data-fact=unowned]", { hasText: "45" }).waitFor();
  await page.getByText("654, 656–699").waitFor();
  await page.getByText("The last write failed: the server <b>did not answer</b>").waitFor();
});

test("a program without a ring says so, and has no link to it", async (t) => {
  const server = await apiServer(t);
  const { url } = await serve(t, server, "pods");
  const page = await openPage(t, `${url}/#/ring`);
  await page.getByText("The objects of this program are not shared out among processes.").waitFor();
  assert.equal(await page.locator("#rail").getByRole("link", { name: "Ring" }).count(), 0);
});

test("the health of an informer has its namespaces and selectors, and the state of each", async (t) => {
  const server = await apiServer(t);
  const { url } = await serve(t, server, "pods", { scope: ["-n", "default,kube-system"], args: ["-l", "app=web"] });
  const page = await openPage(t, `${url}/#/informers/pods/health`);
  const selection = page.locator(".selection");
  await selection.getByText("default, kube-system").waitFor();
  await selection.getByText("app=web").waitFor();
  const sources = page.locator("table.plain").nth(1).locator("tbody tr");
  await sources.nth(1).waitFor();
  assert.deepEqual(await sources.locator("td:first-child").allTextContents(), ["default", "kube-system"]);
});
