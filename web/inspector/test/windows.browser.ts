import { afterAll, beforeAll, expect, it } from "vitest";
import { inBrowser, openPage, Windlass } from "./rig.js";

const WINDOWS = 9;

inBrowser("many windows of one browser", () => {
  const server = new Windlass();
  beforeAll(() => server.start());
  afterAll(() => server.end());

  it("all answer and are live, although the browser has six connections for all of them", async () => {
    const { page: first } = await openPage(server.url, "/chat");
    const pages = [first];
    while (pages.length < WINDOWS) {
      const page = await first.context().newPage();
      await page.goto(`${server.url}/chat`);
      pages.push(page);
    }
    for (const [at, page] of pages.entries()) {
      await page.getByText("Plays a model by rules").waitFor();
      await page.getByLabel("Message").fill(`Use weather, then pay ${at}.`);
      await page.keyboard.press("Enter");
      await page.getByText("Approve pay?").first().waitFor();
    }
    // What another window did is told to each of them.
    for (const page of pages) await page.getByRole("link", { name: new RegExp(`Inbox.*${WINDOWS}`, "u") }).waitFor();
    const last = pages.at(-1);
    await last?.getByRole("button", { name: "Approve", exact: true }).click();
    await last
      ?.getByText(/paid 1 cents/u)
      .first()
      .waitFor();
    for (const page of pages)
      await page.getByRole("link", { name: new RegExp(`Inbox.*${WINDOWS - 1}`, "u") }).waitFor();
    // The window that reads the feed of the lists is closed: another one goes on.
    await first.close();
    await pages[1]?.getByRole("button", { name: "Approve", exact: true }).click();
    await last?.getByRole("link", { name: new RegExp(`Inbox.*${WINDOWS - 2}`, "u") }).waitFor();
    expect(pages).toHaveLength(WINDOWS);
    await last?.context().close();
  });
});
