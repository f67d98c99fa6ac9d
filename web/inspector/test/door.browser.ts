import { afterAll, beforeAll, expect, it } from "vitest";
import { inBrowser, makeKey, openPage, Windlass } from "./rig.js";

inBrowser("a server that wants a key", () => {
  let server: Windlass;
  let key: string;
  beforeAll(async () => {
    const made = makeKey();
    key = made.key;
    server = await new Windlass(["--keys", made.file]).start();
  });
  afterAll(() => server.end());

  it("is asked with one, which stays in the tab and can be forgotten", async () => {
    const { page, faults } = await openPage(server.url, "/sessions?status=failed");
    await page.getByText("This server wants a key").waitFor();
    await page.getByLabel("API key").fill("wl_k1_wrong");
    await page.keyboard.press("Enter");
    await page.getByText("The server does not take this key.").waitFor();
    await page.getByLabel("API key").fill(key);
    await page.keyboard.press("Enter");
    // Where one wanted to go is where one comes.
    await page.getByText("No session fits.").waitFor();
    expect(new URL(page.url()).search).toBe("?status=failed");
    const kept = await page.evaluate(() => [JSON.stringify(localStorage), document.cookie, location.href]);
    expect(kept.join(" ")).not.toContain(key);
    await page.reload();
    await page.getByText("No session fits.").waitFor();

    await page.goto(`${server.url}/chat`);
    await page.getByText("Plays a model by rules").waitFor();
    await page.getByLabel("Message").fill("Use weather.");
    await page.keyboard.press("Enter");
    await page
      .getByRole("log")
      .getByText(/^weather says/u)
      .waitFor();

    const other = await page.context().newPage();
    await other.goto(`${server.url}/chat`);
    await other.getByText("This server wants a key").waitFor();
    await page.getByLabel("Message").fill("not sent yet");
    await page.getByRole("button", { name: "Forget the API key" }).click();
    await page.getByText("This server wants a key").waitFor();
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
    expect(faults.filter((fault) => !fault.startsWith("opened "))).toEqual([]);
    await page.context().close();
  });
});
