import { afterAll, beforeAll, expect, it } from "vitest";
import { flaws } from "./axe.js";
import { inBrowser, openPage, Windlass } from "./rig.js";

const PHONE = { width: 375, height: 700 };

inBrowser("versions and proposals", () => {
  const server = new Windlass([], "tests.web.improving");
  const ask = (name: string): Promise<unknown> => server.run("clerk", `Where is the parcel of ${name}`, { goal: "parcels" });
  beforeAll(async () => {
    await server.start();
    for (const name of ["Ada", "Bob"]) await ask(name);
  });
  afterAll(() => server.end());

  it("a proposal is read, checked, and refused with words", async () => {
    await server.post("/proposals", { goal: "parcels", agent: "clerk" });
    const { page, faults } = await openPage(server.url, "/decisions?view=proposals");
    await page.getByText("It never says the number.").waitFor();
    await page.getByRole("group", { name: "Change of instructions" }).getByText("Always name the number of the parcel.").waitFor();
    await page.getByRole("button", { name: "Check it" }).click();
    await page.getByText("2 mended").waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.getByText("runs that were done again").click();
    await page.getByLabel(/What you say to it/u).fill("Too long for a text message.");
    await page.getByRole("button", { name: "Refuse" }).click();
    await page.getByText(/: Too long for a text message\./u).waitFor();
    expect(await page.getByRole("button", { name: "Accept" }).count()).toBe(0);
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("two versions stand side by side, with how sure the numbers are; runs that missed their goal are grouped", async () => {
    await server.kill();
    server.options = ["--better"];
    await server.start();
    for (const name of ["Ada", "Bob"]) await ask(name);
    const { page, faults } = await openPage(server.url, "/decisions?view=versions&agent=clerk");
    await page.getByText("0 of 2 runs, then 2 of 2.").waitFor();
    await page.getByText("/agent/instructions").first().waitFor();
    const shown = page.getByLabel("Comparison");
    await shown.getByText("100 %", { exact: true }).waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.getByLabel("Newer").selectOption({ index: 1 });
    await expect.poll(() => new URL(page.url()).searchParams.get("new")).toMatch(/^sha256:/u);
    await page.setViewportSize(PHONE);
    expect(await flaws(page)).toEqual([]);
    await page.goto(`${server.url}/decisions?view=failures&agent=clerk`);
    await page.getByText("It ended without reaching its goal").waitFor();
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

  it("lists follow what happens, without being asked again and again", async () => {
    const { page, faults } = await openPage(server.url, "/sessions");
    await page.getByText(/There are no sessions yet/u).waitFor();
    let asked = 0;
    page.on("request", (request) => { if (request.url().includes("/v1/sessions?")) asked += 1; });
    await page.waitForTimeout(5_000);
    expect(asked).toBeLessThanOrEqual(1);
    await server.run("demo", "Pay at once.");
    await page.getByText("Pay at once.").waitFor();
    await page.getByRole("link", { name: /Approvals.*1/u }).waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("files go with a message: chosen, pasted or dropped, and never too large", async () => {
    const { page, faults } = await openPage(server.url, "/chat");
    await page.getByText("Plays a model by rules").waitFor();
    const field = page.getByLabel("Files to attach");
    await field.setInputFiles({ name: "big.bin", mimeType: "application/octet-stream", buffer: Buffer.alloc(800_000) });
    await page.getByRole("alert").getByText(/may have 700 kB together/u).waitFor();
    await page.getByRole("button", { name: "Remove big.bin" }).click();
    await field.setInputFiles({ name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("a note") });
    await page.getByRole("list", { name: "Files to send" }).getByText("note.txt").waitFor();
    await page.getByLabel("Message").fill("Use weather.");
    await page.getByLabel("Message").press("Enter");
    await page.getByRole("list", { name: "Attachments" }).getByText("note.txt").waitFor();
    await page.getByRole("log").getByText(/^weather says/u).waitFor();
    await page.reload();
    await page.getByRole("list", { name: "Attachments" }).getByText("note.txt").waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("the exact prompt of a step has instructions, tools and messages", async () => {
    const { runId } = await server.run("shaky", "How is Oslo?");
    const { page, faults } = await openPage(server.url, `/runs/${runId}?at=5`);
    await page.getByText("Exact prompt").click();
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
});
