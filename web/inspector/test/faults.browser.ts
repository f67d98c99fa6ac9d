import { afterAll, beforeAll, expect, it } from "vitest";
import type { Page, Route } from "playwright-core";
import { inBrowser, openPage, Windlass } from "./rig.js";

inBrowser("what goes wrong", () => {
  const server = new Windlass();
  beforeAll(() => server.start());
  afterAll(() => server.end());

  const alerts = (page: Page): Promise<string[]> => page.getByRole("alert").allInnerTexts();
  const refuse = (route: Route): Promise<void> =>
    route.fulfill({ status: 404, contentType: "application/problem+json", body: '{"status":404,"detail":"unknown"}' });

  it("is told in words: addresses that no one wrote, requests that fail, sessions of another user", async () => {
    const first = await server.run("demo", "Use weather.");
    const second = await server.run("demo", "pay seven");
    const { page, faults } = await openPage(server.url, "/runs?waits=__proto__&status=constructor&since=yesterday");
    await page.getByRole("button", { name: "waits for __proto__" }).waitFor();
    await page.goto(`${server.url}//[/x?view=1`);
    await page.getByText("There is no such page.").waitFor();
    await page.goto(`${server.url}/decisions?view=__proto__`);
    await page.getByRole("heading", { name: "Decisions", exact: true }).waitFor();
    expect(await alerts(page)).toEqual([]);

    // Nothing is claimed about what could not be read.
    await page.route("**/v1/agents", refuse);
    await page.goto(`${server.url}/decisions?view=versions`);
    await page.getByRole("alert").getByText("Unknown").waitFor();
    expect(await page.getByText("There is no agent yet.").count()).toBe(0);
    await page.route("**/v1/runs/**", refuse);
    await page.goto(`${server.url}/diff/${first.runId}/${second.runId}`);
    await page.getByRole("alert").getByText("Unknown").waitFor();
    expect(await page.getByText("They did the same.").count()).toBe(0);

    // An approver answers for others, and cannot open their sessions.
    await page.goto(`${server.url}/approvals`);
    const request = page.getByRole("region", { name: "The selected request" });
    await request.getByText("It belongs to another user, and only that user can read it.").waitFor();
    expect(await request.getByRole("link").count()).toBe(0);
    await request.getByRole("button", { name: /^Deny/u }).waitFor();
    await page.unrouteAll();
    expect(faults).toEqual([]);
    await page.context().close();
  });
});
