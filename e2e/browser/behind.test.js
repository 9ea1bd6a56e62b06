// An informer that is behind is found on the first view, with the reason; also by a program that reads the page aloud.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openPage, slowHandler, withBrowser } from "./harness.js";

withBrowser();

test("the informer that is behind is named, with the reason", async (t) => {
  const { url } = await slowHandler(t);
  const page = await openPage(t, `${url}/`);
  const summary = page.getByRole("status", { name: "Summary" });
  await summary.getByRole("heading", { name: "pods is behind" }).waitFor();
  await summary.getByText(/handler "audit".* behind.*it handles [\d.]+ events a second, [\d.]+ arrive; the other 2 handlers are up to date/i).waitFor();

  const row = page.locator(".informers tr[data-informer=pods]");
  assert.equal(await row.locator(".state").textContent(), "behind");
  await row.getByText("audit").waitFor();
  for (const other of ["nodes", "deployments.apps", "secrets"]) {
    assert.equal(await page.locator(`.informers tr[data-informer="${other}"] .state`).textContent(), "up to date");
  }
  assert.match(await page.title(), /^\(1\)/);

  // One click leads to the handler.
  await summary.getByRole("link", { name: "pods" }).click();
  const handler = page.locator(".plain tr", { hasText: "audit" });
  await handler.getByText(/behind|stuck/).first().waitFor();
  await page.locator(".plain tr", { hasText: "cache" }).getByText("up to date").waitFor();
});

test("hidden objects are not shown, with the reason", async (t) => {
  const { url } = await slowHandler(t);
  const page = await openPage(t, `${url}/#/informers/secrets`);
  await page.getByText("The objects of this informer are not shown").waitFor();
  assert.equal(await page.locator(".row").count(), 0);
});

test("sparklines move with the events", async (t) => {
  const { url } = await slowHandler(t);
  const page = await openPage(t, `${url}/`);
  /** The number of different heights in the line of an informer, if there are at least as many. */
  const heights = ([informer, least]) => {
    const line = document.querySelector(`.informers tr[data-informer="${informer}"] .spark .line`)?.getAttribute("d") ?? "";
    const found = new Set(line.split(/[ML]/).slice(1).map((point) => point.split(" ")[1])).size;
    return found >= least && found;
  };
  await page.waitForFunction(heights, ["pods", 3]);
  // So does the lag of the handler that is behind, and both say their scale.
  await page.waitForFunction(() => {
    const [, lag] = document.querySelectorAll('.informers tr[data-informer="pods"] .spark');
    return /^Lag of the slowest handler, last 2 minutes: at most [\d.]+ ?s$/.test(lag?.getAttribute("aria-label") ?? "") && lag.querySelector(".line").getAttribute("d").split("L").length > 2;
  });
  await page.locator('.informers tr[data-informer="pods"] .activity').getByText(/^max [\d.]+$/).waitFor();
  // Without events, the line is flat.
  assert.equal(await page.evaluate(heights, ["secrets", 1]), 1);
});
