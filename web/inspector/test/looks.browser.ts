import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { flawsInBothSchemes, strays } from "./axe.js";
import { inBrowser, openPage, Windlass } from "./rig.js";

const PHONE = { width: 375, height: 700 };

describe("the built app", () => {
  it("is small enough to be in a wheel", () => {
    const said = execFileSync("node", [fileURLToPath(new URL("../size.mjs", import.meta.url))], { encoding: "utf8" });
    expect(said).toMatch(/of 2,097,152 bytes/u);
  });
});

inBrowser("the look of the inspector", () => {
  const server = new Windlass();
  const paths: [string, RegExp | string][] = [];
  beforeAll(async () => {
    await server.start();
    const done = await server.run("demo", "Use weather.");
    const other = await server.run("shaky", "How is Oslo?");
    await server.run("broken", "Try.");
    await server.run("curious", "Ask me.");
    await server.run("demo", "Use weather, then pay.");
    paths.push(
      ["/chat", "Try to break it."],
      [`/chat/${done.sessionId}`, /^weather says/u],
      ["/approvals", "Asked by"],
      ["/sessions", /Use weather/u],
      ["/runs", /How is Oslo/u],
      [`/sessions/${done.sessionId}`, /^weather says/u],
      [`/sessions/${done.sessionId}?view=journal&at=7`, "Call of"],
      [`/runs/${other.runId}?at=5`, "Model call 1"],
      [`/runs/${other.runId}`, "Model call 2"],
      [`/runs/${other.runId}?view=decisions`, "call shaky"],
      [`/diff/${done.runId}/${other.runId}`, /rows differ/u],
      ["/decisions", "Open the run"],
      [`/decisions?run=${other.runId}`, "call shaky"],
      ["/decisions?view=failures", /did not succeed/u],
      ["/decisions?view=versions&agent=demo", "Succeeded"],
      ["/decisions?view=proposals", "Nothing is proposed."],
      ["/feedback", "Tags, with commas between them"],
      ["/experiments", "There are no experiments yet."],
      ["/experiments?view=datasets", "There are no data sets yet."],
      ["/schedules", "There are no schedules yet."],
      ["/schedules?view=deliveries", "There are no dead letters."],
      [`/playground/${done.runId}/0`, "Recorded"],
      ["/playground", "Use weather."],
      ["/overview", "Tools by failure rate"],
      ["/nowhere", "There is no such page."],
    );
  });
  afterAll(() => server.end());

  it.each([
    ["on a desk", {}],
    ["on a phone", { viewport: PHONE, hasTouch: true, isMobile: true }],
  ] as const)(
    "axe finds nothing in light and dark, nothing lies over another or sticks out sideways: %s",
    async (_, options) => {
      const { page, faults } = await openPage(server.url, "/chat", options);
      const found: string[] = [];
      for (const [path, text] of paths) {
        await page.goto(server.url + path);
        await page.getByText(text).filter({ visible: true }).first().waitFor();
        found.push(...(await flawsInBothSchemes(page)).map((one) => `${path} ${one}`));
        found.push(...(await strays(page)).map((one) => `${path} ${one}`));
      }
      expect(found).toEqual([]);
      expect(faults).toEqual([]);
      await page.context().close();
    },
  );

  it("on a phone every view can be reached, and no key is named", async () => {
    const { page } = await openPage(server.url, "/decisions", { viewport: PHONE, hasTouch: true, isMobile: true });
    const more = page.getByRole("button", { name: "More" });
    const last = await more.boundingBox();
    expect((last?.x ?? PHONE.width) + (last?.width ?? 0)).toBeLessThanOrEqual(PHONE.width);
    const bar = page.getByRole("navigation", { name: "Pages" }).getByRole("link").filter({ visible: true });
    expect(await bar.allInnerTexts()).toEqual(["Chat", expect.stringMatching(/^Inbox/u), "Runs", "Overview"]);
    await more.click();
    const sheet = page.getByRole("dialog", { name: "More pages" });
    await sheet.getByLabel("Theme").waitFor();
    expect(await flawsInBothSchemes(page)).toEqual([]);
    expect(await sheet.getByRole("link").count()).toBe(11);
    await sheet.getByRole("link", { name: "Proposals" }).click();
    await page.getByText("Nothing is proposed.").waitFor();
    expect(await sheet.count()).toBe(0);
    await page.goto(`${server.url}/approvals`);
    await page.getByText("Asked by").waitFor();
    expect(await page.locator("kbd").filter({ visible: true }).count()).toBe(0);
    await page.context().close();
  });

  it("every page has a pair of keys, which works in the inbox too", async () => {
    const { page } = await openPage(server.url, "/approvals");
    await page.getByText("Asked by").waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("x");
    await page.waitForURL(/\/decisions\?view=failures$/u);
    await page.keyboard.press("?");
    const help = page.getByRole("dialog", { name: "Keys" });
    expect(await help.getByRole("term").filter({ hasText: /^g./u }).count()).toBe(15);
    expect(await flawsInBothSchemes(page)).toEqual([]);
    await page.context().close();
  });

  it("an id with slashes may stand in the address as it is", async () => {
    const { page } = await openPage(server.url, "/overview");
    const asked = page.waitForRequest(/\/v1\/runs\/subagent%3As%2F2%2Fdemo-3$/u);
    await page.goto(`${server.url}/runs/subagent:s/2/demo-3`);
    await asked;
    await page.context().close();
  });

  it("dark mode follows the system, and a chosen mode is kept", async () => {
    const { page } = await openPage(server.url, "/overview", { colorScheme: "dark" });
    const background = (): Promise<string> => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.getByText("Tools by failure rate").waitFor();
    expect(await background()).toBe("rgb(12, 12, 15)");
    await page.getByLabel("Theme").selectOption("light");
    expect(await background()).toBe("rgb(255, 255, 255)");
    await page.reload();
    await page.getByText("Tools by failure rate").waitFor();
    expect(await background()).toBe("rgb(255, 255, 255)");
    await page.context().close();
  });

  it("a run of 10,000 records is read, filtered, and gone through, with few rows drawn", async () => {
    const { sessionId, runId } = await server.run("long", "Count.");
    const { page, faults } = await openPage(server.url, `/runs/${runId}?view=journal`);
    await page.getByText(/^10,\d+ of 10,\d+$/u).waitFor();
    expect(await page.getByRole("listitem").count()).toBeLessThan(120);
    await page.getByRole("searchbox").fill('"number":3327');
    await page.getByText(/^1 of 10,\d+$/u).waitFor();
    const decisions = page.getByRole("grid", { name: "Decisions" });
    for (const path of [`/runs/${runId}?view=decisions`, `/decisions?run=${runId}`]) {
      await page.goto(server.url + path);
      await decisions.getByRole("row").nth(1).waitFor();
      expect(Number(await decisions.getAttribute("aria-rowcount"))).toBeGreaterThan(3_000);
      expect(await decisions.getByRole("row").count()).toBeLessThan(80);
    }
    await page.goto(`${server.url}/runs/${runId}`);
    await page.getByText(/^3,\d+ spans$/u).waitFor();
    expect(await page.getByRole("treeitem").count()).toBeLessThan(80);
    await page.goto(`${server.url}/sessions/${sessionId}?at=5000`);
    await page.getByText(/^of 10,\d+$/u).waitFor();
    await page.keyboard.press("ArrowRight");
    await expect.poll(() => new URL(page.url()).searchParams.get("at")).toBe("5001");
    await page.goto(`${server.url}/chat/${sessionId}`);
    await page.getByRole("log").getByText("I counted.").waitFor();
    expect(await page.getByRole("article").count()).toBeLessThan(60);
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("5,000 sessions are scrolled through, with few rows drawn", async () => {
    const { page, faults } = await openPage(server.url, "/overview");
    await page.getByText("Tools by failure rate").waitFor();
    const at = "2026-01-01T00:00:00.000Z";
    await page.route("**/v1/sessions?**", async (route) => {
      const after = Number(new URL(route.request().url()).searchParams.get("after") ?? "0");
      const sessions = Array.from({ length: 200 }, (_, index) => ({
        sessionId: `session-${after + index}`,
        title: `Title ${after + index}`,
        agentId: "demo",
        status: "completed",
        createdAt: at,
        updatedAt: at,
        runCount: 1,
        requestCount: 0,
        usage: {},
        rootSessionId: `session-${after + index}`,
      }));
      await route.fulfill({ json: { sessions, ...(after + 200 < 5_000 ? { next: String(after + 200) } : {}) } });
    });
    await page.getByRole("link", { name: "Sessions", exact: true }).click();
    await page.getByText("Title 0", { exact: true }).waitFor();
    const list = page.getByRole("grid", { name: /Sessions/u });
    await expect
      .poll(async () => {
        await list.evaluate((rows) => {
          rows.scrollTo(0, rows.scrollHeight);
        });
        return page.getByText("Title 4999", { exact: true }).count();
      })
      .toBe(1);
    expect(await list.getByRole("row").count()).toBeLessThan(80);
    await page.getByText("5,000 sessions").waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });
});
