import { afterAll, beforeAll, expect, it } from "vitest";
import { flaws } from "./axe.js";
import { inBrowser, openPage, SHOTS, Windlass } from "./rig.js";

const PHONE = { width: 375, height: 700 };

inBrowser("versions and proposals", () => {
  const server = new Windlass([], "tests.web.improving");
  const ask = (name: string): Promise<unknown> =>
    server.run("clerk", `Where is the parcel of ${name}`, { goal: "parcels" });
  beforeAll(async () => {
    await server.start();
    for (const name of ["Ada", "Bob"]) await ask(name);
  });
  afterAll(() => server.end());

  it("a proposal is read, checked, and refused with a reason", async () => {
    await server.post("/proposals", { goal: "parcels", agent: "clerk" });
    const { page, faults } = await openPage(server.url, "/decisions?view=proposals");
    await page.getByText("It never says the number.").waitFor();
    await page
      .getByRole("group", { name: "Change of instructions" })
      .getByText("Always name the number of the parcel.")
      .waitFor();
    await page.getByRole("button", { name: "Check it" }).click();
    await page.getByRole("link", { name: "2 fixed, 0 broken" }).waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.getByText("runs that were done again").click();
    await page.getByLabel(/Comment/u).fill("Too long for a text message.");
    await page.getByRole("button", { name: "Refuse" }).click();
    await page.getByText(/: Too long for a text message\./u).waitFor();
    expect(await page.getByRole("button", { name: "Approve" }).count()).toBe(0);
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("two versions stand side by side, with how sure the numbers are; failures have their place", async () => {
    await server.kill();
    server.options = ["--better"];
    await server.start();
    for (const name of ["Ada", "Bob"]) await ask(name);
    const { page, faults } = await openPage(server.url, "/decisions?view=versions&agent=clerk");
    await page.getByText("2 of 2 runs, then 2 of 2.").waitFor();
    await page.getByText("The runs do not show which version is better.").waitFor();
    // The instructions are compared word by word.
    await page.getByRole("group", { name: "Change of agent instructions" }).locator("ins").first().waitFor();
    expect(await page.getByLabel("Comparison").getByText("100 %", { exact: true }).count()).toBe(2);
    expect(await flaws(page)).toEqual([]);
    expect(await page.getByRole("grid", { name: "Versions" }).getByRole("row", { selected: true }).count()).toBe(2);
    await page.setViewportSize(PHONE);
    expect(await flaws(page)).toEqual([]);
    await page.goto(`${server.url}/decisions?view=failures&agent=clerk`);
    await page.getByText(/None of \d runs failed/u).waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });
});

inBrowser("what the inspector does with sessions", () => {
  const server = new Windlass();
  beforeAll(() => server.start());
  afterAll(() => server.end());

  it("a session is exported, deleted after a question, and gone from every list at once", async () => {
    const { sessionId } = await server.run("demo", "Use weather.");
    const { page, faults } = await openPage(server.url, `/sessions/${sessionId}`);
    const kept = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export" }).click();
    expect((await kept).suggestedFilename()).toBe(`session-${sessionId}.jsonl`);
    await page.getByRole("button", { name: "Delete" }).click();
    const question = page.getByRole("dialog", { name: /^Delete “Use weather\.”/u });
    await page.keyboard.press("Escape");
    await question.waitFor({ state: "hidden" });
    await page.getByRole("button", { name: "Delete" }).click();
    await question.getByRole("button", { name: "Delete for good" }).click();
    await page.getByText(/^Deleted “Use weather\.”/u).waitFor();
    expect((await fetch(`${server.url}/v1/sessions/${sessionId}`)).status).toBe(404);
    await page.getByText("There are no sessions yet.").waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("the overview is read with the keyboard, split, and leads to the runs behind a bar", async () => {
    // An interval of 15 hours: all runs of this test are in the last one, also on a slow machine.
    const { page, faults } = await openPage(server.url, "/overview?range=30d");
    await page.getByText("Nothing ran in the last 30d.").waitFor();
    for (const agent of ["demo", "shaky"]) await server.run(agent, "How is Oslo?");
    await server.run("broken", "Try.");
    await page.goto(`${server.url}/overview?range=30d`);
    const runs = page.getByRole("slider", { name: "Runs: intervals" });
    const told = (): Promise<string | null> => runs.getAttribute("aria-valuetext");
    await expect.poll(told).toMatch(/, runs \d$/u);
    // Each chart has a split of its own.
    const failed = page.getByRole("slider", { name: "Failed: intervals" });
    const rate = (): Promise<string | null> => failed.getAttribute("aria-valuetext");
    await expect.poll(rate).toMatch(/failed 33\.3 % \(1 of 3\)$/u);
    await page.getByLabel("Split of runs").selectOption("agent");
    await expect.poll(told).toMatch(/broken \d/u);
    expect(await rate()).toMatch(/failed 33\.3 % \(1 of 3\)$/u);
    await page.getByLabel("Split of failed").selectOption("agent");
    await expect.poll(rate).toMatch(/broken 100 % \(1 of 1\)/u);
    await page.getByLabel("Split of time to answer").selectOption("tool");
    const calls = page.getByRole("slider", { name: "Mean time of a call: intervals" });
    await expect.poll(() => calls.getAttribute("aria-valuetext")).toMatch(/shaky \d+ ms/u);
    await page.getByRole("button", { name: "Show as a table: failed" }).click();
    const table = page.getByRole("grid", { name: "Failed: intervals" });
    expect(await table.getByRole("row").nth(1).innerText()).toMatch(/100 % \(1 of 1\)/u);
    await runs.focus();
    await page.keyboard.press("Home");
    expect(await runs.getAttribute("aria-valuenow")).toBe("0");
    expect(await told()).toMatch(/demo 0, .*shaky 0/u);
    await page.keyboard.press("End");
    expect(await runs.getAttribute("aria-valuenow")).toBe("47");
    expect(await flaws(page)).toEqual([]);
    await page.screenshot({ path: `${SHOTS}/overview.png` });
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/runs\?.*since=.*until=/u);
    await page.getByText(/^since /u).waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
    for (const { sessionId } of (await server.get<{ sessions: { sessionId: string }[] }>("/sessions")).sessions)
      await fetch(`${server.api}/sessions/${sessionId}`, { method: "DELETE" });
  });

  it("lists follow what happens, without being asked again and again", async () => {
    const { page, faults } = await openPage(server.url, "/overview");
    // Nothing is asked for in turns here: only the feed is left.
    await page.addInitScript(() => {
      globalThis.setInterval = (() => 0) as unknown as typeof setInterval;
    });
    const feed = page.waitForResponse(/\/v1\/events\?/u);
    await page.goto(`${server.url}/sessions`);
    await page.getByText(/There are no sessions yet/u).waitFor();
    await feed;
    await server.run("demo", "Pay at once.");
    await page.getByText("Pay at once.").waitFor();
    await page.getByRole("link", { name: /Inbox.*1/u }).waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("files go with a message: chosen, pasted or dropped, and never too large", async () => {
    const { page, faults } = await openPage(server.url, "/chat");
    await page.getByText("Plays a model by rules").waitFor();
    const field = page.getByLabel("Files to attach");
    await field.setInputFiles({ name: "big.bin", mimeType: "application/octet-stream", buffer: Buffer.alloc(800_000) });
    await page
      .getByRole("alert")
      .getByText(/may have 700 kB together/u)
      .waitFor();
    await page.getByRole("button", { name: "Remove big.bin" }).click();
    await field.setInputFiles({ name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("a note") });
    await page.getByLabel("Message").evaluate((element) => {
      for (const [type, name] of [
        ["paste", "pasted.png"],
        ["drop", "dropped.csv"],
      ] as const) {
        const given = new DataTransfer();
        given.items.add(new File(["x"], name, { type: name.endsWith("png") ? "image/png" : "text/csv" }));
        const options = { bubbles: true, cancelable: true };
        element.dispatchEvent(
          type === "paste"
            ? new ClipboardEvent(type, { clipboardData: given, ...options })
            : new DragEvent(type, { dataTransfer: given, ...options }),
        );
      }
    });
    const sending = page.getByRole("list", { name: "Files to send" }).getByRole("listitem");
    await expect
      .poll(() => sending.allInnerTexts())
      .toEqual([
        expect.stringContaining("note.txt"),
        expect.stringContaining("pasted.png"),
        expect.stringContaining("dropped.csv"),
      ]);
    await page.getByRole("button", { name: "Remove pasted.png" }).click();
    await page.getByLabel("Message").fill("Use weather.");
    await page.getByLabel("Message").press("Enter");
    await page.getByRole("list", { name: "Attachments" }).getByText("note.txt").waitFor();
    await page
      .getByRole("log")
      .getByText(/^weather says/u)
      .waitFor();
    await page.reload();
    await page.getByRole("list", { name: "Attachments" }).getByText("note.txt").waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("the exact prompt of a step has instructions, tools and messages", async () => {
    const { runId } = await server.run("shaky", "How is Oslo?");
    const { page, faults } = await openPage(server.url, `/runs/${runId}?at=5`);
    await page.locator("summary", { hasText: "Exact prompt" }).click();
    const details = page.getByRole("complementary", { name: "Details" });
    await details.getByText("Look something up, and fail.").waitFor();
    await details.getByText("How is Oslo?").first().waitFor();
    expect(await flaws(page)).toEqual([]);
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("a fork is offered where it can begin", async () => {
    const { sessionId } = await server.run("demo", "Use weather.");
    const { page } = await openPage(server.url, `/sessions/${sessionId}?at=1`);
    await expect.poll(() => page.getByRole("button", { name: /^Fork/u }).isDisabled()).toBe(true);
    await page.goto(`${server.url}/sessions/${sessionId}?at=10`);
    const fork = page.getByRole("button", { name: /^Fork (?:at \d+|here)$/u });
    await expect.poll(() => fork.isEnabled()).toBe(true);
    await fork.click();
    await page.waitForURL(/\/chat\//u);
    await page.context().close();
  });

  it("the costs of a run are read by model, tool, result and model call", async () => {
    const { runId } = await server.run("demo", "Use weather.");
    const { page, faults } = await openPage(server.url, `/runs/${runId}`);
    await page.getByRole("tab", { name: "Costs" }).click();
    await page.getByRole("table", { name: "The model calls that cost most" }).waitFor();
    const results = page.getByRole("table", { name: "The results that cost most" });
    expect(await results.getByRole("row").nth(1).innerText()).toMatch(/^weather \S+/u);
    await page.screenshot({ path: `${SHOTS}/costs.png` });
    expect(await flaws(page)).toEqual([]);
    await page.setViewportSize(PHONE);
    expect(await flaws(page)).toEqual([]);
    expect(faults).toEqual([]);
    await page.context().close();
  });
});
