// 100,000 objects: few elements, little memory, and the last row is reached.

import assert from "node:assert/strict";
import { test } from "node:test";
import { apiServer, heap, openPage, pod, serve, withBrowser } from "./harness.js";

withBrowser();

const PODS = 100_000;
const ROWS = 300;
const HEAP_MB = 60;

test(`${PODS} objects scroll in a virtual table`, { timeout: 300_000 }, async (t) => {
  const server = await apiServer(t, PODS);
  // The last key in the order of the table.
  await server.create(pod("zzz-last"));
  const { url } = await serve(t, server, "pods");
  const page = await openPage(t, `${url}/#/informers/pods`);
  page.setDefaultTimeout(120_000);
  await page.locator(`.table[data-total="${PODS + 1}"]`).waitFor();
  await page.locator(".row:not(.loading)").first().waitFor();

  const scroller = page.locator(".scroller");
  let most = 0;
  const measure = async () => {
    const rows = await page.locator(".row").count();
    most = Math.max(most, rows);
    assert.ok(rows > 10 && rows < ROWS, `${rows} rows in the document`);
  };
  await measure();
  for (let step = 1; step <= 20; step += 1) {
    await scroller.evaluate((element, part) => (element.scrollTop = (element.scrollHeight - element.clientHeight) * part), step / 20);
    // Every visible row has its object.
    await page.waitForFunction(() => {
      const { top, bottom } = document.querySelector(".scroller").getBoundingClientRect();
      const visible = [...document.querySelectorAll(".row")].filter((row) => {
        const box = row.getBoundingClientRect();
        return box.bottom > top && box.top < bottom;
      });
      return visible.length > 10 && visible.every((row) => row.dataset.key !== "");
    });
    await measure();
  }
  await page.locator(`.row[data-key="default/zzz-last"]`).waitFor();
  const box = await page.locator(`.row[data-key="default/zzz-last"]`).boundingBox();
  const frame = await scroller.boundingBox();
  assert.ok(box.y + box.height <= frame.y + frame.height + 1, "the last row is visible completely");

  // The keyboard reaches both ends.
  await scroller.focus();
  await page.keyboard.press("Home");
  await page.locator(".row.selected[data-index='0']:not(.loading)").waitFor();
  await page.keyboard.press("End");
  await page.locator(`.row.selected[data-key="default/zzz-last"]`).waitFor();

  const used = await heap(page);
  assert.ok(used < HEAP_MB, `${used.toFixed(1)} MB of heap`);
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  t.diagnostic(`at most ${most} rows and ${nodes} elements in the document, ${used.toFixed(1)} MB of heap`);

  // The filter reads them on the server.
  await page.keyboard.press("/");
  await page.keyboard.type("zzz");
  await page.locator(`.table[data-total="1"]`).waitFor();
});
