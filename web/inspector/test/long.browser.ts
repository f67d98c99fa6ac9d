/** A long chat: read from its end, page by page. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { inBrowser, openPage, Windlass } from "./rig.js";

const MESSAGES = 40;
/** The records of a page of `@windlass/ui`. */
const PAGE = 200;

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

    // The reader goes up until an earlier page is there; what they look at stays where it is.
    await log.hover();
    while (asked.length === 1) await page.mouse.wheel(0, -200);
    expect([asked[1]?.get("last"), asked[1]?.get("follow")]).toEqual([String(PAGE), "false"]);
    await expect.poll(() => log.evaluate((frame) => frame.scrollTop)).toBeGreaterThan(1_000);
    // Whatever is read, and however often, it is read once.
    const first = log.getByText("Message 1.", { exact: true });
    while ((await first.count()) === 0) await page.mouse.wheel(0, -2_000);
    const ends = asked.slice(1).map((query) => Number(query.get("before")));
    expect(new Set(ends).size).toBe(ends.length);
    expect(ends.toSorted((one, other) => other - one)).toEqual(ends);
    expect(await log.getByRole("button", { name: "Earlier messages" }).count()).toBe(0);
    expect(faults).toEqual([]);
  });
});
