import type { Locator, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { inBrowser, openPage, Windlass, Wire } from "./rig.js";

/** The status of the run in the heading of the chat. */
function status(page: Page, name: string): Locator {
  return page.locator(`section[aria-label=Chat] header [data-status=${name}]`);
}

inBrowser("the first five minutes", () => {
  const server = new Windlass();
  beforeAll(() => server.start());
  afterAll(() => server.end());

  it("the crash drill: a chat asks for consent, says how to end the server and what survived, and goes on", async () => {
    const { page, faults } = await openPage(server.url, "/");
    await page.getByText("Plays a model by rules").waitFor();
    await page.getByRole("button", { name: /Crash drill/u }).click();
    await page.getByText("Approve pay?").first().waitFor();
    expect(page.url()).toMatch(/\/chat\/[0-9a-f]+\?drill=1$/u);
    const drill = page.getByRole("status", { name: "Crash drill" });
    await drill.getByText(`kill -9 ${server.pid}`).waitFor();

    await server.kill();
    await drill.getByText("The server is gone.").waitFor();
    await page.getByText("Reconnecting; nothing is lost.").waitFor();
    const unreached = page.getByText(/^The server could not be reached/u);
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await expect.poll(() => unreached.count()).toBe(2);
    await server.start();
    await page.getByText("Reconnecting; nothing is lost.").waitFor({ state: "hidden" });
    // The error of the failed message is gone: it can be sent now.
    await expect.poll(() => unreached.count()).toBe(0);
    await drill
      .getByText(/^The server is back .*\. \d+ records from before .* The result of weather was kept; .* again: 0\./u)
      .waitFor();
    await drill.getByText(/no work was cut off, .* about pay waits for you as before\.$/u).waitFor();

    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await page
      .getByText(/paid 1 cents/u)
      .first()
      .waitFor();
    await status(page, "completed").waitFor();
    // Nothing twice: the rows from before the kill are the same.
    expect(await page.getByRole("article", { name: "You said" }).count()).toBe(1);
    expect(await page.getByRole("button", { name: /pay.*done/u }).count()).toBe(1);

    await page.getByRole("link", { name: "Run", exact: true }).click();
    await page.getByRole("tab", { name: "Timeline" }).click();
    await page.getByRole("button", { name: /Policy: ask pay/u }).click();
    const details = page.getByRole("complementary", { name: "Details" });
    await details.getByText(/approved by local after/u).waitFor();
    await details.getByRole("group", { name: "Arguments" }).getByText("cents").waitFor();
    expect(new URL(page.url()).searchParams.get("at")).toMatch(/^\d+$/u);
    // A tab is one step of the way back.
    const steps = await page.evaluate(() => history.length);
    await page.getByRole("tab", { name: "Trace" }).click();
    expect(await page.evaluate(() => history.length)).toBe(steps + 1);
    await page.getByRole("treeitem", { name: /^tool pay/u }).click();
    await details.getByRole("heading", { name: /^Call of pay completed/u }).waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("the calls of a program stand below it in the chat, the timeline and the trace", async () => {
    const { sessionId } = await server.run("coder", "Count and post.");
    const { page, faults } = await openPage(server.url, `/chat/${sessionId}`);
    const left = async (place: Locator): Promise<number> => (await place.boundingBox())?.x ?? 0;
    await page.getByText("Approve post?").first().waitFor();
    const program = page.getByRole("button", { name: /run_code/u });
    const inner = page.getByRole("button", { name: /count.*done/u });
    expect(await inner.count()).toBe(2);
    expect(await left(inner.first())).toBeGreaterThan(await left(program));
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await page.getByText("The program is done.").first().waitFor();

    await page.getByRole("link", { name: "Run", exact: true }).click();
    await page.getByRole("tab", { name: "Timeline" }).click();
    const asked = page.getByText("Model asks for run_code");
    await asked.waitFor();
    for (const title of ["Program asks for count, count", "Tool count began", "Program asks for post"])
      expect(await left(page.getByText(title).first())).toBeGreaterThan(await left(asked));
    await page.getByRole("tab", { name: "Trace" }).click();
    const level = async (name: RegExp): Promise<number> => {
      const row = page.getByRole("treeitem", { name }).first();
      await row.waitFor();
      return Number(await row.getAttribute("aria-level"));
    };
    for (const name of [/^tool count/u, /^tool post/u])
      expect(await level(name)).toBeGreaterThan(await level(/^\S+ run_code/u));

    const boss = await server.run("boss", "Give it away.");
    await page.goto(`${server.url}/runs/${boss.runId}`);
    await page.getByRole("tab", { name: "Trace" }).click();
    expect(await level(/^agent shaky/u)).toBeGreaterThan(await level(/^\S+ run_workflow/u));
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("a session is seen as it was after any record, and forked from there", async () => {
    const { sessionId } = await server.run("demo", "Use weather.");
    const { page, faults } = await openPage(server.url, `/sessions/${sessionId}`);
    await page
      .getByRole("log")
      .getByText(/^weather says/u)
      .waitFor();
    await page.getByRole("spinbutton").fill("12");
    await page
      .getByRole("log")
      .getByText(/^weather says/u)
      .waitFor({ state: "hidden" });
    await page.getByText("I will use weather.").first().waitFor();
    await page.keyboard.press("Tab");
    await page.getByRole("link", { name: "Show the record" }).click();
    await page.getByRole("complementary", { name: "Details" }).getByText("Record 12").waitFor();
    await page.goBack();
    await page.getByRole("button", { name: "Fork here" }).dblclick();
    await page.waitForURL(/\/chat\//u);
    expect(page.url()).not.toContain(sessionId);
    const { sessions } = await server.get<{ sessions: { predecessorId?: string }[] }>("/sessions");
    expect(sessions.filter(({ predecessorId }) => predecessorId === sessionId)).toHaveLength(1);
    await page.getByText("I will use weather.").first().waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("a message can be edited in a fork, and the first session is unchanged", async () => {
    const { sessionId } = await server.run("demo", "Use weather.");
    const { page } = await openPage(server.url, `/chat/${sessionId}`);
    await page.getByRole("button", { name: "Fork and edit" }).click();
    await page.waitForURL(/\/chat\?agent=demo$/u);
    expect(await page.getByLabel("Message").inputValue()).toBe("Use weather.");
    await page.reload();
    expect(await page.getByLabel("Message").inputValue()).toBe("Use weather.");
    await page.getByLabel("Message").fill("Use nothing.");
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await page
      .getByText(/demo without a model/u)
      .first()
      .waitFor();
    await page.reload();
    expect(await page.getByLabel("Message").inputValue()).toBe("");
    const history = (await (await fetch(`${server.url}/v1/sessions/${sessionId}/history`)).json()) as {
      messages: { content: string }[];
    };
    expect(history.messages.map(({ content }) => content)).not.toContain("Use nothing.");
    // The same is asked again in a copy of its own. The chat is named by its wish, not by its agent.
    const before = page.url();
    await page.getByRole("heading", { name: "Use nothing." }).waitFor();
    await page.getByRole("button", { name: "Regenerate" }).click();
    await expect.poll(() => page.url()).not.toBe(before);
    await status(page, "completed").waitFor();
    expect(await page.getByRole("article", { name: "You said" }).allInnerTexts()).toEqual([
      expect.stringContaining("Use nothing."),
    ]);
    await page.context().close();
  });

  it("a slow run is steered, stopped and repeated", async () => {
    const { page, faults } = await openPage(server.url, "/chat?agent=slow");
    await page.getByText("Takes its time.").waitFor();
    await page.getByLabel("Message").fill("Hello");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("dialog", { name: "Stop the run?" }).getByRole("button", { name: "Stop the run" }).click();
    await status(page, "cancelled").waitFor();
    await page.getByRole("button", { name: "Ask again" }).click();
    await page.getByRole("button", { name: "Stop" }).waitFor();
    await page.getByLabel("Message").fill("And count.");
    await page.getByRole("button", { name: "Steer" }).click();
    await page.getByText("And count.").first().waitFor();
    await status(page, "completed").waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("an agent without the key of its model says what to set, and not that waiting helps", async () => {
    const { page } = await openPage(server.url, "/chat?agent=paid");
    await page.getByText("Has no key.").waitFor();
    // It is told before anything is said, with the line that mends it; the field is ready all the same.
    await page.getByRole("note").getByText("export OPENAI_API_KEY=").waitFor();
    await page.getByLabel("Agent").getByText("paid (not set up)").waitFor({ state: "attached" });
    await page.keyboard.type("Hello");
    await page.keyboard.press("Enter");
    await page
      .getByText(/set the variable OPENAI_API_KEY/u)
      .first()
      .waitFor();
    await page.getByText(/The server is not set up for this/u).waitFor();
    expect(await page.getByText(/retries automatically/u).count()).toBe(0);
    await page.context().close();
  });

  it("a question of an agent is answered in the chat", async () => {
    const { page, faults } = await openPage(server.url, "/chat?agent=curious");
    await page.getByText("ask_question").waitFor();
    await page.getByLabel("Message").fill("Ask me.");
    await page.keyboard.press("Enter");
    await page.getByLabel("Blue").check();
    await page.getByRole("button", { name: "Answer", exact: true }).click();
    await page
      .getByText(/^You said:.*blue/u)
      .first()
      .waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("an answer that is cut off by the network goes on where it was, and no word comes twice", async () => {
    const wire = await new Wire(() => server.port).open();
    const { page, faults } = await openPage(`http://127.0.0.1:${wire.port}`, "/chat?agent=slow");
    await page.getByText("Takes its time.").waitFor();
    await page.getByLabel("Message").fill("Hello");
    await page.keyboard.press("Enter");
    await page
      .getByText(/I am a/u)
      .first()
      .waitFor();
    wire.cut();
    await page.getByText("Reconnecting; nothing is lost.").waitFor();
    wire.mend();
    await status(page, "completed").waitFor();
    const said = await page.getByRole("article", { name: "The agent said" }).innerText();
    expect(said.match(/I am a demo without a model behind it/gu)).toHaveLength(1);
    expect(said).toContain("Name one of my tools, or say tour: count.");
    expect(faults).toEqual([]);
    await page.context().close();
    await wire.close();
  });
});
