// The controllers of a program: the list, one of them, and the reconciliations of an object.

import assert from "node:assert/strict";
import { test } from "node:test";
import { controllers, openPage, withBrowser } from "./harness.js";

withBrowser();

test("a controller shows its queue, what it reconciles, and why it fails", async (t) => {
  const { url } = await controllers(t);
  const page = await openPage(t, `${url}/`);
  await page.locator("#rail").getByRole("link", { name: "Controllers" }).click();
  await page.getByText(/^This process leads, as pod-1, since/).waitFor();
  const rows = page.locator(".controllers tbody tr");
  assert.deepEqual(await rows.nth(0).locator("td").allTextContents(), ["web pods", "running", "3", "2", "1 of 4", "1,234", "0", "2"]);
  assert.equal(await rows.nth(1).locator(".state").getAttribute("data-tone"), "error");

  await rows.nth(0).getByRole("link", { name: "web" }).click();
  await page.locator("[data-fact=longest]", { hasText: "75s" }).waitFor();
  await page.getByText("<img src=x onerror=alert(1)> not pulled").waitFor();
  assert.equal(await page.locator("main img").count(), 0);

  // From a key to the object, with its reconciliations.
  await page.getByRole("link", { name: "default/web-0" }).click();
  const drawer = page.locator("#drawer");
  await drawer.getByText("image not pulled").waitFor();
  assert.equal(await drawer.locator(".reconciliations li").count(), 2);
  await drawer.getByText("mapped · after updated configmaps default/c · queued for 250 ms · still running").waitFor();
});

test("a controller that has ended says why", async (t) => {
  const { url } = await controllers(t);
  const page = await openPage(t, `${url}/#/controllers/done`);
  await page.getByText("the informer has stopped").waitFor();
  await page.goto(`${url}/#/controllers/none`);
  await page.getByText("The program has no controller none.").waitFor();
});
