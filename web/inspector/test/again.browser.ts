import { afterAll, beforeAll, expect, it } from "vitest";
import { flaws } from "./axe.js";
import { inBrowser, openPage, Windlass } from "./rig.js";

interface Row {
  readonly type: string;
  readonly data?: { readonly toolName?: string };
}

inBrowser("a run that failed after a payment", () => {
  const server = new Windlass();
  beforeAll(() => server.start());
  afterAll(() => server.end());

  const status = async (runId: string): Promise<string> => {
    const found = (await (await fetch(`${server.url}/v1/runs/${encodeURIComponent(runId)}`)).json()) as {
      readonly run: { readonly status: string };
    };
    return found.run.status;
  };
  const payments = async (sessionId: string): Promise<number> => {
    const feed = await fetch(`${server.url}/v1/sessions/${sessionId}/events?follow=false&format=ndjson`);
    const rows = (await feed.text()).trim().split("\n");
    return rows
      .map((row) => JSON.parse(row) as Row)
      .filter(({ type, data }) => type === "action.started" && data?.toolName === "charge").length;
  };

  it("Continue in the chat goes on behind the payment, which is made once", async () => {
    const { runId, sessionId } = await server.run("teller", "Charge the card.");
    await expect.poll(() => status(runId)).toBe("failed");
    const { page, faults } = await openPage(server.url, `/chat/${sessionId}`);
    await page.getByRole("button", { name: "Continue", exact: true }).click();
    await page.getByRole("log").getByText("The card was charged.").waitFor();
    expect(await payments(sessionId)).toBe(1);
    await page.getByRole("button", { name: "Continue", exact: true }).waitFor({ state: "detached" });
    expect(await flaws(page)).toEqual([]);
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("Continue on the page of the run opens the run that goes on", async () => {
    const { runId, sessionId } = await server.run("teller", "Charge my card.");
    await expect.poll(() => status(runId)).toBe("failed");
    const { page, faults } = await openPage(server.url, `/runs/${runId}`);
    await page.getByRole("button", { name: "Continue", exact: true }).click();
    await page.waitForURL(/runs\/retry/u);
    await expect.poll(() => status(`retry:${runId}`)).toBe("completed");
    expect(await payments(sessionId)).toBe(1);
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("Ask again names the payment first, and makes it a second time only if that is wanted", async () => {
    const { runId, sessionId } = await server.run("teller", "Charge this card.");
    await expect.poll(() => status(runId)).toBe("failed");
    const { page, faults } = await openPage(server.url, `/chat/${sessionId}`);
    const again = page.getByRole("button", { name: "Ask again" });
    await again.click();
    const dialog = page.getByRole("dialog", { name: "Make these calls again?" });
    const call = dialog.getByRole("list", { name: "Calls that may be repeated" }).getByRole("listitem").first();
    expect(await call.innerText()).toMatch(/charge[^]*2500/u);
    expect(await flaws(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Do not ask" }).click();
    await dialog.waitFor({ state: "hidden" });
    expect(await payments(sessionId)).toBe(1);
    await again.click();
    await dialog.getByRole("button", { name: "Ask again" }).click();
    await expect.poll(() => payments(sessionId)).toBe(2);
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("Regenerate, and Fork and edit, name the payment first", async () => {
    const { runId, sessionId } = await server.run("teller", "Charge that card.");
    await expect.poll(() => status(runId)).toBe("failed");
    await server.post(`/runs/${runId}/retry`, {});
    await expect.poll(() => status(`retry:${runId}`)).toBe("completed");
    const { page, faults } = await openPage(server.url, `/chat/${sessionId}`);
    const dialog = page.getByRole("dialog", { name: "Make these calls again?" });
    for (const name of ["Regenerate", "Fork and edit"]) {
      const action = page.getByRole("button", { name });
      await action.first().click();
      await dialog.getByText("charge", { exact: true }).first().waitFor();
      await dialog.getByRole("button", { name: "Do not ask" }).click();
      await dialog.waitFor({ state: "hidden" });
    }
    expect(page.url()).toContain(`/chat/${sessionId}`);
    expect(await payments(sessionId)).toBe(1);
    await page.getByRole("button", { name: "Regenerate" }).first().click();
    await dialog.getByRole("button", { name: "Ask again" }).click();
    await page.waitForURL((url) => !url.href.includes(sessionId));
    expect(faults).toEqual([]);
    await page.context().close();
  });
});
