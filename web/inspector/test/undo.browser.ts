import { afterAll, beforeAll, expect, it } from "vitest";
import { flaws } from "./axe.js";
import { inBrowser, openPage, Windlass } from "./rig.js";

interface Found {
  readonly run: { readonly status: string };
  readonly requests: readonly { readonly requestId: string }[];
}

interface Row {
  readonly type: string;
  readonly seq?: number;
}

inBrowser("undo and changed arguments", () => {
  const server = new Windlass();
  beforeAll(() => server.start());
  afterAll(() => server.end());

  const found = async (runId: string): Promise<Found> =>
    (await (await fetch(`${server.url}/v1/runs/${runId}`)).json()) as Found;

  it("a run is undone after a look at what will be reversed, and arguments that a person changed are shown", async () => {
    const { runId } = await server.run("booker", "Book.");
    await expect.poll(async () => (await found(runId)).run.status).toBe("completed");
    const { page, faults } = await openPage(server.url, `/runs/${runId}`);
    await page.getByRole("button", { name: "Undo…" }).click();
    const dialog = page.getByRole("dialog", { name: "Undo the run" });
    const reversed = dialog.getByRole("region", { name: /will be reversed/iu }).getByRole("listitem");
    await reversed.first().waitFor();
    expect(await reversed.allInnerTexts()).toEqual([
      expect.stringMatching(/book ← cancel_booking[^]*Rome/u),
      expect.stringMatching(/book ← cancel_booking[^]*Oslo/u),
    ]);
    await dialog
      .getByRole("region", { name: /has no undo/iu })
      .getByText("note")
      .waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });

    await page.getByRole("button", { name: "Undo…" }).click();
    await dialog.getByRole("button", { name: "Reverse 2 calls" }).click();
    await dialog.getByText(/Reversed 2 calls/u).waitFor();
    await dialog.getByRole("link", { name: "Run of the undo" }).waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
    await page.getByRole("button", { name: "Undo…" }).click();
    await dialog.getByRole("region", { name: /was reversed before/iu }).waitFor();
    expect(await dialog.getByRole("button", { name: "Reverse 0 calls" }).isDisabled()).toBe(true);

    const paid = await server.run("demo", "pay");
    await expect.poll(async () => (await found(paid.runId)).requests.length).toBe(1);
    const request = (await found(paid.runId)).requests[0]?.requestId ?? "";
    await server.post(`/approvals/${request}`, { optionId: "approve", arguments: { cents: 2 } });
    await expect.poll(async () => (await found(paid.runId)).requests[0]?.requestId).not.toBe(request);
    const feed = await fetch(`${server.url}/v1/runs/${paid.runId}/events?follow=false&format=ndjson`);
    const records = (await feed.text()).trim().split("\n");
    const started = records.map((line) => JSON.parse(line) as Row).find(({ type }) => type === "action.started");
    await page.goto(`${server.url}/runs/${paid.runId}?view=timeline&at=${started?.seq ?? 0}`);
    const changes = page.getByRole("table", { name: /changed arguments/iu });
    expect(await changes.getByRole("row").last().innerText()).toMatch(/cents\s*− 1\s*\+ 2/u);
    expect(await flaws(page)).toEqual([]);
    expect(faults).toEqual([]);
    await page.context().close();
  });
});
