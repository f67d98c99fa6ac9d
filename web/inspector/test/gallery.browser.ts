import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as ui from "@windlass/ui";
import { build, preview, type PreviewServer } from "vite";
import { afterAll, beforeAll, expect, it } from "vitest";
import { flawsInBothSchemes } from "./axe.js";
import { inBrowser, openPage } from "./rig.js";

const PHONE = { width: 375, height: 700 };
const CONFIG = fileURLToPath(new URL("../../ui/gallery/vite.config.ts", import.meta.url));
/** Exports that draw nothing by themselves. */
const UNSEEN: ReadonlySet<string> = new Set(["AgentProvider", "LabelsProvider", "Unsupported"]);

inBrowser("the gallery of components", () => {
  const outDir = mkdtempSync(join(tmpdir(), "windlass-gallery-"));
  let server: PreviewServer;
  let url = "";
  beforeAll(async () => {
    const options = { configFile: CONFIG, logLevel: "error", build: { outDir } } as const;
    await build(options);
    server = await preview({ ...options, preview: { host: "127.0.0.1", port: 0 } });
    url = (server.resolvedUrls?.local[0] ?? "").replace(/\/$/u, "");
  });
  afterAll(async () => {
    await server.close();
    rmSync(outDir, { recursive: true, force: true });
  });

  it("has a page for every component", async () => {
    const { page } = await openPage(url, "/");
    const shown = await page.getByRole("navigation", { name: "Components" }).getByRole("link").allInnerTexts();
    const isComponent = (value: unknown): boolean =>
      typeof value === "function" || (typeof value === "object" && value !== null && "$$typeof" in value);
    const made = Object.entries(ui)
      .filter(([name, value]) => /^[A-Z]/u.test(name) && isComponent(value) && !UNSEEN.has(name))
      .map(([name]) => name);
    expect(shown.toSorted()).toEqual(made.toSorted());
    expect(made.length).toBeGreaterThan(10);
    await page.context().close();
  });

  it.each([
    ["on a desk", {}],
    ["on a phone", { viewport: PHONE, hasTouch: true }],
  ] as const)(
    "axe finds nothing in light and dark, nothing sticks out sideways and nothing runs that should not: %s",
    async (_, options) => {
      const { page, faults } = await openPage(url, "/", options);
      const names = await page.getByRole("navigation", { name: "Components" }).getByRole("link").allInnerTexts();
      const found: string[] = [];
      for (const name of names) {
        await page.goto(`${url}/#${name}`);
        await page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
        await page.locator("[data-state]").first().waitFor();
        found.push(...(await flawsInBothSchemes(page)).map((one) => `${name} ${one}`));
        expect(await page.title()).toBe(`${name} · Gallery`);
      }
      expect(found).toEqual([]);
      expect(faults).toEqual([]);
      await page.context().close();
    },
  );

  it("a played agent answers in the panel of a chat", async () => {
    const { page, faults } = await openPage(url, "/#ChatPanel");
    const panel = page.getByRole("region", { name: "New chat" });
    await panel.getByLabel("Message").fill("Good morning");
    await page.keyboard.press("Enter");
    await panel
      .getByText(/This gallery has no server, so that is all/u)
      .first()
      .waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });
});
