// Writes the screenshots of the documentation: cargo xtask browser --screenshots

import { mkdir, writeFile } from "node:fs/promises";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { openPage, slowHandler, withBrowser } from "./harness.js";
import { smaller } from "./png.js";

const FOLDER = fileURLToPath(new URL("../../docs/images/", import.meta.url));
/** Points of the sparkline that the pictures wait for: seconds. */
const SAMPLES = 45;

withBrowser();

const sampled = (page) =>
  page.waitForFunction(
    (samples) => [...document.querySelectorAll(".spark .line")].some((line) => (line.getAttribute("d") ?? "").split("L").length >= samples),
    SAMPLES,
    { timeout: 120_000 },
  );
const row = (page) => page.locator(".row:not(.loading)").nth(3);

const PICTURES = {
  "informers-light": { hash: "#/", act: sampled },
  "informers-dark": { hash: "#/", colorScheme: "dark", act: sampled },
  "informers-phone": { hash: "#/", width: 390, height: 844, colorScheme: "dark", act: sampled },
  "objects-light": {
    hash: "#/informers/pods",
    act: async (page) => {
      await sampled(page);
      await row(page).click();
      await page.locator(".drawer pre.code").waitFor();
    },
  },
  "events-dark": {
    hash: "#/events",
    colorScheme: "dark",
    act: async (page) => {
      const changes = page.locator(".change");
      await changes.nth(25).waitFor();
      await page.keyboard.press("p");
      await page.locator(".change[data-type=updated][data-informer=pods]").first().getByRole("button").click({ position: { x: 20, y: 10 } });
      await page.mouse.move(0, 0);
      await page.getByText(/new events: show/).waitFor();
    },
  },
  "history-light": {
    hash: "#/events",
    act: async (page) => {
      const pods = page.locator(".change[data-type=updated][data-informer=pods]");
      await pods.nth(20).waitFor({ timeout: 60_000 });
      await pods.nth(2).getByRole("button").click();
      await page.getByRole("link", { name: "Open the object" }).click();
      await page.locator(".history .diff").nth(1).waitFor({ timeout: 120_000 });
    },
  },
  "health-dark": { hash: "#/informers/pods/health", colorScheme: "dark", act: sampled },
  "why-phone": {
    hash: "#/informers/pods?open=pods|default/web-99999",
    width: 390,
    height: 844,
    act: async (page) => {
      await page.getByRole("button", { name: "Ask the API server once" }).click();
      await page.locator(".answer .because").waitFor();
    },
  },
};

test("screenshots", { timeout: 300_000 }, async (t) => {
  await mkdir(FOLDER, { recursive: true });
  const { url } = await slowHandler(t);
  await Promise.all(
    Object.entries(PICTURES).map(async ([name, { hash, act, ...options }]) => {
      const page = await openPage(t, `${url}/${hash}`, { ...options, reducedMotion: "reduce", expected: [/404/] });
      await act(page);
      const picture = smaller(await page.screenshot());
      await writeFile(`${FOLDER}${name}.png`, picture);
      t.diagnostic(`docs/images/${name}.png: ${Math.round(picture.length / 1000)} kB`);
    }),
  );
});
