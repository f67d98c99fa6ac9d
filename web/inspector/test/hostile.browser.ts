import { afterAll, beforeAll, expect, it } from "vitest";
import { inBrowser, openPage, Windlass } from "./rig.js";

inBrowser("what models, tools and users write", () => {
  const server = new Windlass();
  beforeAll(() => server.start());
  afterAll(() => server.end());

  it("runs no script and makes no foreign request, on any page that shows it", async () => {
    const { sessionId, runId } = await server.run("hostile", "<img src=x onerror=\"window.hacked='title'\"> go");
    const { page, faults } = await openPage(server.url, "/approvals");
    await page.getByRole("heading", { name: "Run post?" }).waitFor();
    await page.getByRole("group", { name: "Arguments of post" }).getByText("evil.example").first().waitFor();
    await page.keyboard.press("a");
    await page.getByText("Nothing waits for you.").waitFor();

    await page.goto(`${server.url}/chat/${sessionId}`);
    await page.getByRole("link", { name: "good" }).waitFor();
    for (const call of await page.getByRole("button", { name: /^(?:show|post) /u }).all()) await call.click();
    expect(
      await page
        .getByRole("log")
        .getByRole("link")
        .evaluateAll((links) => links.map((link) => link.getAttribute("href"))),
    ).toEqual(["https://example.com/"]);
    expect(await page.getByRole("link", { name: "good" }).getAttribute("rel")).toContain("noopener");
    expect(
      await page.getByRole("log").locator("img, svg:not(button svg), iframe, script, style, object, embed").count(),
    ).toBe(0);
    for (const text of [/^run me$/u, /^data$/u, /\bodd\b/u])
      await page.getByRole("log").getByText(text).first().click();

    await page.goto(`${server.url}/sessions/${sessionId}?view=journal&filter=svg`);
    await page
      .getByRole("button", { name: /actions\.requested/u })
      .first()
      .click();
    await page.getByRole("complementary", { name: "Details" }).getByText("evil.example").first().waitFor();
    for (const path of [
      `/runs/${runId}`,
      `/runs/${runId}`,
      `/runs/${runId}?view=decisions`,
      "/sessions",
      "/decisions",
      `/diff/${runId}/${runId}?show=all`,
    ]) {
      await page.goto(server.url + path);
      await page
        .getByText(/hostile|hacked|show/u)
        .filter({ visible: true })
        .first()
        .waitFor();
    }
    expect(await page.evaluate(() => (globalThis as { hacked?: string }).hacked)).toBeUndefined();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("the policy of the server stops a script that got in all the same", async () => {
    const { page, faults } = await openPage(server.url, "/chat");
    await page.getByText("Try to break it.").waitFor();
    await page.evaluate(() => {
      const image = document.createElement("img");
      image.src = "http://evil.example/pixel.png";
      document.body.append(image);
      try {
        document.body.insertAdjacentHTML("beforeend", '<img src=x onerror="window.hacked = 1">');
      } catch {
        // Text is not taken for HTML at all.
      }
      return fetch("http://evil.example/").catch(() => undefined);
    });
    await expect
      .poll(
        () =>
          faults.filter((fault) => fault.includes("Content Security Policy") || fault.includes("TrustedHTML")).length,
      )
      .toBeGreaterThanOrEqual(2);
    expect(await page.evaluate(() => (globalThis as { hacked?: string }).hacked)).toBeUndefined();
    await page.context().close();
  });
});
