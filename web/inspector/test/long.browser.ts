/** A long chat: read from its end, page by page. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { inBrowser, openPage, Windlass } from "./rig.js";

/** More than a page of records. */
const MESSAGES = 40;
/** The records of a page of `@windlass/ui`. */
const PAGE = 200;
/** How many times slower than this machine the browser is. */
const SLOWED = 10;

inBrowser("a long chat", () => {
  const server = new Windlass(["--agents", "tests.web.chat_agents:agents"]);
  beforeAll(() => server.start());
  afterAll(() => server.end());

  it("asks for its newest records, and for earlier ones when the reader scrolls up, who stays where they are", async () => {
    const { sessionId } = await server.run("talker", "Message 1.");
    for (let at = 2; at <= MESSAGES; at += 1) {
      const { runId } = await server.post<{ runId: string }>(`/sessions/${sessionId}/messages`, {
        message: `Message ${at}.`,
      });
      await (await fetch(`${server.api}/runs/${runId}/events`)).text();
    }
    const { page, faults } = await openPage(server.url, "/chat");
    const asked: URLSearchParams[] = [];
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.pathname === `/v1/sessions/${sessionId}/events`) asked.push(url.searchParams);
    });
    await page.goto(`${server.url}/chat/${sessionId}`);
    const log = page.getByRole("log");
    await log.getByText(`Message ${MESSAGES}.`).waitFor();
    expect(asked.map((query) => [query.get("last"), query.get("before")])).toEqual([[String(PAGE), null]]);
    expect(await log.getByText("Message 1.").count()).toBe(0);

    // A slow processor: rows are measured long before the list hears of a scroll.
    const slowed = await page.context().newCDPSession(page);
    await slowed.send("Emulation.setCPUThrottlingRate", { rate: SLOWED });
    // An earlier page is asked for on the way up. It comes when the reader is at the top, and what they see stays there.
    let letThrough = (): void => undefined;
    const isAtTop = new Promise<void>((resolve) => {
      letThrough = resolve;
    });
    await page.route(/\/events\?.*before=/u, async (route) => {
      await isAtTop;
      await route.continue();
    });
    const scrolled = (): Promise<number> => log.evaluate((frame) => frame.scrollTop);
    await log.hover();
    await expect
      .poll(async () => {
        await page.mouse.wheel(0, -200);
        return [asked.length, await scrolled()];
      })
      .toEqual([2, 0]);
    expect([asked[1]?.get("last"), asked[1]?.get("follow")]).toEqual([String(PAGE), "false"]);
    const seen = log.getByText(
      await log
        .getByText(/^Message \d+\.$/u)
        .first()
        .innerText(),
      { exact: true },
    );
    const place = async (): Promise<number> => Math.round((await seen.boundingBox())?.y ?? 0);
    const before = await place();
    letThrough();
    await expect.poll(scrolled).toBeGreaterThan(0);
    await expect.poll(place).toBe(before);
    // Whatever is read, and however often, it is read once.
    const first = log.getByText("Message 1.", { exact: true });
    await expect
      .poll(async () => {
        await page.mouse.wheel(0, -2_000);
        return first.count();
      })
      .toBe(1);
    const ends = asked.slice(1).map((query) => Number(query.get("before")));
    expect(new Set(ends).size).toBe(ends.length);
    expect(ends.toSorted((one, other) => other - one)).toEqual(ends);
    expect(await log.getByRole("button", { name: "Earlier messages" }).count()).toBe(0);
    expect(faults).toEqual([]);
  });
});
