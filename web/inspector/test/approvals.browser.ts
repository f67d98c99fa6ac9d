import { afterAll, beforeAll, expect, it } from "vitest";
import { inBrowser, openPage, Windlass } from "./rig.js";

interface Decided {
  readonly run: { readonly status: string };
  readonly result?: { readonly output: string };
}

inBrowser("the inbox of approvals", () => {
  const server = new Windlass();
  beforeAll(() => server.start());
  afterAll(() => server.end());

  const outcome = async (runId: string): Promise<Decided> =>
    (await (await fetch(`${server.url}/v1/runs/${runId}`)).json()) as Decided;

  it("requests are chosen, approved, denied with a reason and granted with the keyboard alone", async () => {
    const [first, second, third] = [
      await server.run("demo", "pay one"),
      await server.run("demo", "pay two"),
      await server.run("demo", "pay three"),
    ];
    const { page, faults } = await openPage(server.url, "/approvals");
    const list = page.getByRole("list", { name: /requests/u }).getByRole("button");
    await page.getByRole("heading", { name: "Run pay?" }).waitFor();
    expect(await list.count()).toBe(3);
    // Rows say where they come from, and what is asked for.
    await list.filter({ hasText: "pay two" }).filter({ hasText: '"cents": 1' }).waitFor();
    await page.getByRole("group", { name: "Arguments of pay" }).getByText('"cents": 1').waitFor();

    await page.keyboard.press("j");
    await page.keyboard.press("a");
    await expect.poll(() => list.count()).toBe(2);
    await expect.poll(async () => (await outcome(second.runId)).run.status).toBe("completed");
    expect((await outcome(first.runId)).run.status).toBe("waiting");

    await page.keyboard.press("k");
    await page.keyboard.press("d");
    await page.keyboard.type("far too much");
    await page.keyboard.press("Enter");
    await expect.poll(() => list.count()).toBe(1);
    await expect.poll(async () => (await outcome(first.runId)).run.status).toBe("completed");
    expect((await outcome(first.runId)).result?.output).toMatch(/did not work/u);

    await page.keyboard.press("s");
    await page.getByText("Nothing waits for you.").waitFor();
    await expect.poll(async () => (await outcome(third.runId)).run.status).toBe("completed");
    // It holds for the session: the next call is not asked for.
    const again = await server.post<{ runId: string }>(`/sessions/${third.sessionId}/messages`, {
      message: "pay once more",
    });
    await expect.poll(async () => (await outcome(again.runId)).run.status).toBe("completed");

    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("g");
    await page.keyboard.press("o");
    await page.waitForURL(/\/overview/u);
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("after a request was answered elsewhere its shortcut keys do not answer the next one", async () => {
    const [first] = [await server.run("demo", "pay one"), await server.run("demo", "pay two")];
    const { page } = await openPage(server.url, "/approvals");
    await page.getByRole("heading", { name: "Run pay?" }).waitFor();
    const selected = new URL(page.url()).searchParams.get("at") ?? "";
    expect(selected).toContain(first.runId);
    await server.post(`/approvals/${encodeURIComponent(selected)}`, { optionId: "deny" });
    await page.getByText("This request is no longer open.").waitFor();
    await page.keyboard.press("a");
    await page.keyboard.press("d");
    expect(
      await page
        .getByRole("list", { name: /requests/u })
        .getByRole("button")
        .count(),
    ).toBe(1);
    await page.keyboard.press("j");
    await page.getByRole("heading", { name: "Run pay?" }).waitFor();
    await page.context().close();
  });
});
