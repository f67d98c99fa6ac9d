import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { flaws } from "./axe.js";
import { inBrowser, openPage, SHOTS, Windlass } from "./rig.js";

const PHONE = { width: 375, height: 700 };

inBrowser("the page of runs", () => {
  const server = new Windlass();
  beforeAll(async () => {
    await server.start();
    await server.run("demo", "Use weather.");
    await server.run("demo", "Pay the hotel.");
    await server.run("broken", "Try.");
  });
  afterAll(() => server.end());

  it("tells what each run is about and waits for; filters, orders and views are addresses", async () => {
    const { page, faults } = await openPage(server.url, "/runs");
    const runs = page.getByRole("grid", { name: "Runs" });
    const row = (text: string) => runs.getByRole("row").filter({ hasText: text });
    await row("Pay the hotel.").getByText("waiting for you").waitFor();
    await row("Use weather.").getByText("completed").waitFor();
    await row("Try.").getByText("failed").waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.screenshot({ path: `${SHOTS}/runs.png` });
    await page.getByRole("link", { name: /^Needs me/u }).click();
    await row("Use weather.").waitFor({ state: "hidden" });
    expect(new URL(page.url()).search).toBe("?waits=person");
    await page.getByRole("button", { name: /waiting for a person/u }).click();
    await row("Use weather.").waitFor();
    await page.getByRole("button", { name: "+ filter" }).click();
    await page.getByLabel("Error", { exact: true }).selectOption("any");
    await row("Use weather.").waitFor({ state: "hidden" });
    expect(await flaws(page)).toEqual([]);
    // Until a minute long ago nothing had started; from that minute on everything has.
    await page.getByLabel("Started until").fill("2020-01-01T10:00");
    await page.getByText("No run fits.").waitFor();
    expect(await page.getByText("Search looks at").count()).toBe(0);
    await page.getByLabel("Started until").fill("");
    await page.getByLabel("Started from").fill("2020-01-01T10:00");
    await row("Try.").waitFor();
    const [since] = new URL(page.url()).searchParams.getAll("since");
    expect(since).toBe(new Date("2020-01-01T10:00").toISOString());
    await page.getByLabel("Started from").fill("");
    await page.keyboard.press("Escape");
    await page.reload();
    await row("Try.").waitFor();
    expect(await runs.getByRole("row").count()).toBe(2);
    await page.goto(`${server.url}/runs`);
    await page.getByRole("searchbox").fill("hot");
    await row("Use weather.").waitFor({ state: "hidden" });
    await row("Pay the hotel.").waitFor();
    await page.getByRole("searchbox").fill("");
    await page.getByRole("button", { name: "Time" }).click();
    await expect.poll(() => new URL(page.url()).searchParams.get("sort")).toBe("duration");
    // A run that waits says what for, and leads to where it is answered.
    await row("Pay the hotel.").click();
    const asked = page.getByRole("note").filter({ hasText: "Run pay?" });
    await asked.getByRole("link", { name: "Answer" }).click();
    await page.getByRole("heading", { name: "Run pay?" }).waitFor();
    expect(new URL(page.url()).searchParams.get("at")).toContain("approval:");
    await page.goto(`${server.url}/runs`);
    await page.setViewportSize(PHONE);
    await row("Try.").waitFor();
    expect(await flaws(page)).toEqual([]);
    // The details of a step take half of a phone: only when there are some.
    await row("Try.").click();
    const details = page.getByRole("complementary", { name: "Details" });
    await page.getByRole("treeitem").first().waitFor();
    expect(await details.count()).toBe(0);
    await page.getByRole("treeitem").first().click();
    await details.getByRole("heading").first().waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("runs that no one has judged are judged one after the other, and lists know it", async () => {
    const { page, faults } = await openPage(server.url, "/feedback", { viewport: { width: 1_400, height: 760 } });
    await page.getByRole("region", { name: "Input" }).getByText("Use weather.").waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.getByLabel("Note").fill("It names no source.");
    await page.getByLabel(/^Tags/u).fill("vague, weather");
    await page.getByRole("button", { name: /^Bad/u }).click();
    await page.getByText("Nothing waits for a judgement.").waitFor();
    await page.getByRole("link", { name: "Runs with a thumb down" }).click();
    const runs = page.getByRole("grid", { name: "Runs" });
    await runs.getByRole("row").filter({ hasText: "Use weather." }).getByText("vague, weather").waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("a step and an answer are judged where they are read; the run tells it", async () => {
    const { runId, sessionId } = await server.run("demo", "How is the weather in Oslo?");
    const { page, faults } = await openPage(server.url, `/runs/${runId}`);
    const spans = page.getByRole("tree", { name: "Spans" });
    await spans.getByText("Model call").first().click();
    const step = page.getByRole("group", { name: "Feedback on step 1" });
    await step.getByRole("button", { name: "Bad: step 1" }).click();
    await step.getByRole("button", { name: "Bad: step 1", pressed: true }).waitFor();
    await step.getByRole("button", { name: /^Note, score and tags/u }).click();
    await page.getByRole("textbox", { name: "Note" }).fill("It asked twice.");
    await page.getByRole("textbox", { name: /^Tags/u }).fill("slow");
    expect(await flaws(page)).toEqual([]);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("tab", { name: "Feedback 2" }).click();
    await page.getByRole("row").filter({ hasText: "“It asked twice.” · slow" }).getByText("step 1").waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.goto(`${server.url}/chat/${sessionId}`);
    const answer = page.getByRole("article", { name: "The agent said" }).last();
    await answer.hover();
    await answer.getByRole("button", { name: "Good: this answer" }).click();
    await answer.getByRole("button", { name: "Good: this answer", pressed: true }).waitFor();
    const said = async () => (await server.get<{ feedback: object[] }>(`/runs/${runId}/feedback`)).feedback;
    await expect.poll(said).toMatchObject([
      { thumb: "down", stepIndex: 0 },
      { note: "It asked twice.", tags: ["slow"], stepIndex: 0 },
      { thumb: "up", messageId: expect.any(String) as string },
    ]);
    await page.goto(`${server.url}/runs?tag=slow`);
    await page.getByRole("row").filter({ hasText: "How is the weather in Oslo?" }).waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("chosen sessions are exported, and deleted after a question; two chosen runs are compared", async () => {
    for (const text of ["Drop one.", "Drop two."]) await server.run("demo", text);
    const { page, faults } = await openPage(server.url, "/sessions?text=drop");
    const mine = page
      .getByRole("grid", { name: /^Sessions/u })
      .getByRole("row")
      .filter({ hasText: "Drop" });
    await expect.poll(() => mine.count()).toBe(2);
    await page.getByRole("status").getByText("2 sessions", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Cost" }).click();
    await expect.poll(() => new URL(page.url()).searchParams.get("sort")).toBe("cost");
    await page.getByRole("link", { name: /^Needs me/u }).click();
    const waits = page.getByRole("row").filter({ hasText: "Pay the hotel." });
    await waits.getByText("waiting for you").waitFor();
    await waits.getByText(/^Run pay/u).waitFor();
    await mine.first().waitFor({ state: "hidden" });
    expect(await flaws(page)).toEqual([]);
    await page.goto(`${server.url}/runs?text=drop`);
    await expect.poll(() => page.getByRole("row").filter({ hasText: "Drop" }).count()).toBe(2);
    await page.getByRole("checkbox").first().check();
    await page.getByRole("link", { name: "Compare the two" }).click();
    await page
      .getByText(/^time/u)
      .nth(1)
      .getByText(/\([+−].+\)|no difference/u)
      .waitFor();
    await page.locator("ins", { hasText: "two" }).first().waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.goto(`${server.url}/sessions?text=drop`);
    await page.getByRole("checkbox", { name: /all/u }).check();
    const kept = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export 2" }).click();
    const file = await kept;
    expect(file.suggestedFilename()).toBe("sessions.jsonl");
    const lines = readFileSync(await file.path(), "utf8")
      .trim()
      .split("\n");
    expect(lines.map((line) => (JSON.parse(line) as { title: string }).title).toSorted()).toEqual([
      "Drop one.",
      "Drop two.",
    ]);
    await page.getByRole("button", { name: "Delete 2" }).click();
    await page
      .getByRole("dialog", { name: "Delete 2 sessions?" })
      .getByRole("button", { name: "Delete for good" })
      .click();
    await page.getByText("Deleted 2 sessions.").waitFor();
    await page.getByText("No session fits.").waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("a run is opened by keys; chosen runs are exported, and deleted with their sessions after a question", async () => {
    await server.run("demo", "Delete me.");
    const { page, faults } = await openPage(server.url, "/runs");
    const runs = page.getByRole("grid", { name: "Runs" });
    const mine = runs.getByRole("row").filter({ hasText: "Delete me." });
    await mine.focus();
    await page.keyboard.press("Space");
    const kept = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export 1" }).click();
    const file = await kept;
    expect(file.suggestedFilename()).toBe("runs.jsonl");
    const [line = ""] = readFileSync(await file.path(), "utf8").split("\n");
    expect(JSON.parse(line)).toMatchObject({ input: "Delete me.", status: "completed" });
    await page.getByRole("button", { name: "Delete 1" }).click();
    await page
      .getByRole("dialog", { name: "Delete 1 session?" })
      .getByRole("button", { name: "Delete for good" })
      .click();
    await page.getByText("Deleted 1 session.").waitFor();
    await mine.waitFor({ state: "hidden" });
    await runs.getByRole("row").filter({ hasText: "Try." }).focus();
    await page.keyboard.press("Enter");
    await expect.poll(() => new URL(page.url()).pathname).toMatch(/^\/runs\/./u);
    const address = new URL(page.url()).pathname;

    // Every run of a cause of failures is reached from the cause.
    await page.goto(`${server.url}/decisions?view=failures`);
    const asked = page.waitForRequest(/\/v1\/failures\?since=/u);
    await page.getByLabel("Time").selectOption("24h");
    await asked;
    expect(new URL(page.url()).searchParams.get("time")).toBe("24h");
    await page.getByRole("grid", { name: "Causes of failures" }).getByRole("row").nth(1).click();
    const failed = page.getByRole("grid", { name: "Runs of the cause" }).getByRole("row").nth(1);
    await failed.getByText("Try.").waitFor();
    await failed.getByText("just now").waitFor();
    expect(await flaws(page)).toEqual([]);
    await failed.focus();
    await page.keyboard.press("Enter");
    await expect.poll(() => new URL(page.url()).pathname).toBe(address);
    expect(faults).toEqual([]);
    await page.context().close();
  });
});
