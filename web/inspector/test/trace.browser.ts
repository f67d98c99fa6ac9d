import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { flaws } from "./axe.js";
import { inBrowser, openPage, SHOTS, Windlass, type Watched } from "./rig.js";

/** Parts of the page that may move, times how far: an eye notices a tenth. */
const SHIFT_MAX = 0.05;
const PHONE = { width: 375, height: 700 };

inBrowser("the trace of a run", () => {
  const server = new Windlass();
  let runId = "";
  beforeAll(async () => {
    await server.start();
    ({ runId } = await server.run("lead", "Refund order 1042, the lamp arrived broken"));
  });
  afterAll(() => server.end());

  const open = async (query = "", options = {}): Promise<Watched> => {
    const watched = await openPage(server.url, `/runs/${runId}${query}`, options);
    await watched.page.getByRole("treeitem", { name: /^tool shaky/u }).waitFor();
    return watched;
  };
  const names = (page: Page): Promise<(readonly [level: number, name: string])[]> =>
    page
      .getByRole("treeitem")
      .evaluateAll((rows) =>
        rows.map((row) => [
          Number(row.getAttribute("aria-level")),
          row.querySelector("span.font-semibold")?.textContent ?? "",
        ]),
      );

  it("is a tree of model calls, tools, subagents and programs, titled by what the user wanted", async () => {
    const { page, faults } = await open();
    await page.getByRole("heading", { name: "Refund order 1042, the lamp arrived broken" }).waitFor();
    expect(await names(page)).toEqual([
      [1, "lead"],
      [2, "Model call 1"],
      [2, "find_order"],
      [2, "Model call 2"],
      [2, "writer"],
      [3, "Model call 1"],
      [3, "run_code"],
      [4, "find_order"],
      [4, "find_order"],
      [4, "shaky"],
      [3, "Model call 2"],
      [2, "Model call 3"],
    ]);
    // The subagent has what its model calls took, and the run has all of it.
    const row = (name: RegExp) => page.getByRole("treeitem", { name }).first();
    await row(/^agent writer/u)
      .getByText("4.3k")
      .waitFor();
    await row(/^agent writer/u)
      .getByText("$0.012")
      .waitFor();
    await row(/^agent lead/u)
      .getByText("22.9k")
      .waitFor();
    await row(/^model Model call 1/u)
      .getByText(/scripted/u)
      .waitFor();
    await row(/^tool find_order/u)
      .getByText(/^order 1042 · read/u)
      .waitFor();
    await row(/^tool shaky/u)
      .getByText("failed", { exact: true })
      .waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.screenshot({ path: `${SHOTS}/trace.png` });
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("has a family: who began whom, where each is, and the way to their runs", async () => {
    const { page, faults } = await open();
    await page.getByRole("tab", { name: "Family" }).click();
    const family = page.getByRole("list", { name: "Agents of the run" });
    const begun = family.getByRole("list", { name: "Begun by lead" });
    await begun.getByText("done").waitFor();
    await begun.getByText("2 model calls · 4 tool calls").waitFor();
    await begun.getByText("find_order ×2").waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.screenshot({ path: `${SHOTS}/family.png` });
    await begun.getByRole("link", { name: /^writer/u }).focus();
    await page.keyboard.press("Enter");
    await expect.poll(() => new URL(page.url()).pathname).not.toBe(`/runs/${runId}`);
    await page.getByRole("treeitem", { name: /^agent writer/u }).waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("is read with the keyboard: branches close, errors and words are found, and a link leads back", async () => {
    const { page, faults } = await open();
    const tree = page.getByRole("tree", { name: "Spans" });
    const current = page.locator("[role=treeitem][aria-selected=true]");
    await tree.focus();
    await page.keyboard.press("End");
    await current.filter({ hasText: "Model call 3" }).waitFor();
    await page.keyboard.press("Home");
    await current.filter({ hasText: "lead" }).waitFor();
    for (let at = 0; at < 4; at += 1) await page.keyboard.press("ArrowDown");
    await current.filter({ hasText: "writer" }).waitFor();
    const count = page.getByRole("treeitem");
    await page.keyboard.press("ArrowLeft");
    await expect.poll(() => count.count()).toBe(6);
    await page.keyboard.press("ArrowRight");
    await expect.poll(() => count.count()).toBe(12);

    // The program failed because of its call: the call is the error to read.
    await page.getByRole("button", { name: "next error" }).click();
    await current.filter({ hasText: "tool shaky" }).waitFor();
    const details = page.getByRole("complementary", { name: "Details" });
    await details.getByText("no station answers in Oslo").first().waitFor();
    await details.getByText("city", { exact: true }).waitFor();
    expect(await details.getByRole("link", { name: "Its run" }).count()).toBe(0);
    const address = page.url();
    await page.getByRole("button", { name: "errors 2" }).click();
    await expect.poll(() => count.count()).toBe(4);
    await page.getByRole("button", { name: "errors 2" }).click();

    await page.keyboard.press("Escape");
    await tree.focus();
    await page.keyboard.press("/");
    await page.keyboard.type("find_order");
    await expect.poll(() => count.count()).toBe(6);
    await page.keyboard.press("Enter");
    await current.filter({ hasText: "find_order" }).waitFor();

    await page.goto(address);
    await current.filter({ hasText: "shaky" }).waitFor();
    await details.getByText("no station answers in Oslo").first().waitFor();
    // The run itself opens its own first record, not that of the session.
    await page.getByRole("treeitem", { name: /^agent lead/u }).click();
    await details.getByRole("heading", { name: "Run began" }).waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("has an axis with ticks, which can be zoomed; and fits a phone", async () => {
    const { page, faults } = await open();
    const width = (): Promise<number> =>
      page
        .getByRole("treeitem", { name: /^agent writer/u })
        .locator("span[aria-hidden] > span[style]")
        .last()
        .evaluate((bar) => bar.getBoundingClientRect().width);
    await page.getByRole("treeitem", { name: /^agent writer/u }).click();
    const before = await width();
    await page.getByRole("tree").focus();
    await page.keyboard.press("+");
    await expect.poll(width).toBeGreaterThan(before);
    await page.keyboard.press("0");
    await expect.poll(width).toBe(before);
    await page.setViewportSize(PHONE);
    expect(await flaws(page)).toEqual([]);
    await page.screenshot({ path: `${SHOTS}/trace-phone.png` });
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("of a run that waits says so, and is followed by what is new", async () => {
    const { runId: waiting } = await server.run("demo", "pay one");
    const { page, faults } = await openPage(server.url, "/overview");
    const asked: URL[] = [];
    const sizes: number[] = [];
    page.on("response", (response) => {
      const url = new URL(response.url());
      asked.push(url);
      if (url.pathname === `/v1/runs/${waiting}/trace`)
        void response.json().then(({ spans }: { spans: unknown[] }) => sizes.push(spans.length));
    });
    await page.goto(`${server.url}/runs/${waiting}`);
    const root = page.getByRole("treeitem", { name: /^agent demo/u });
    await root.getByText("waiting", { exact: true }).waitFor();
    await root.getByText(/^waits for a person/u).waitFor();
    await expect.poll(() => sizes.length).toBeGreaterThan(2);
    expect(sizes[0]).toBeGreaterThan(3);
    expect(sizes.slice(1)).toEqual(sizes.slice(1).map(() => 0));
    expect(asked.filter(({ pathname, search }) => pathname === "/v1/runs" && search.includes("session="))).toEqual([]);
    const { requests } = await server.get<{ requests: { request: { requestId: string } }[] }>("/approvals");
    await server.post(`/approvals/${encodeURIComponent(requests[0]?.request.requestId ?? "")}`, {
      optionId: "approve",
    });
    await page
      .getByRole("treeitem", { name: /^tool pay/u })
      .getByText(/approved by local after/u)
      .waitFor();
    await expect.poll(() => root.getByText("waiting", { exact: true }).count()).toBe(0);
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("does not move while it is read", async () => {
    const { page } = await openPage(server.url, "/overview");
    await page.addInitScript(() => {
      const moved: number[] = [];
      Object.assign(globalThis, { moved });
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) moved.push((entry as unknown as { value: number }).value);
      }).observe({ type: "layout-shift", buffered: true });
    });
    const { spans } = await server.get<{ spans: { spanId: string; name: string }[] }>(`/runs/${runId}/trace`);
    const spanId = spans.find(({ name }) => name === "llm.complete")?.spanId ?? "";
    // The records of the details come after the tree: the tree stays as it is.
    let letThrough = (): void => undefined;
    const isSeen = new Promise<void>((resolve) => {
      letThrough = resolve;
    });
    await page.route(`**/v1/runs/${runId}/events*`, async (route) => {
      await isSeen;
      await route.continue();
    });
    await page.goto(`${server.url}/runs/${runId}?span=${encodeURIComponent(spanId)}`);
    const row = page.getByRole("treeitem", { name: /^tool shaky/u });
    await row.waitFor();
    const before = await row.boundingBox();
    letThrough();
    // The details are complete with the prompt, which the server has to rebuild.
    const details = page.getByRole("complementary", { name: "Details" });
    await details.getByText("Refund order 1042, the lamp arrived broken").waitFor();
    expect(await row.boundingBox()).toEqual(before);
    const shift = await page.evaluate(() =>
      (globalThis as unknown as { moved: number[] }).moved.reduce((sum, one) => sum + one, 0),
    );
    expect(shift).toBeLessThan(SHIFT_MAX);
    await page.context().close();
  });

  it("is dark where the system is", async () => {
    const { page } = await open("", { colorScheme: "dark" });
    expect(await flaws(page)).toEqual([]);
    await page.screenshot({ path: `${SHOTS}/trace-dark.png` });
    await page.context().close();
  });
});
