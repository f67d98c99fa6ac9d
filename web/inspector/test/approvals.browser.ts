import type { Route } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { flaws } from "./axe.js";
import { inBrowser, openPage, SHOTS, Windlass } from "./rig.js";

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
    await list.filter({ hasText: "pay two" }).filter({ hasText: "cents 1" }).waitFor();
    await page.getByRole("group", { name: "Arguments of pay" }).getByText("cents").waitFor();

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

  it("the focus stays where the work is when an answer is given with the keyboard", async () => {
    for (const name of ["five", "six"]) await server.run("demo", `pay ${name}`);
    const { page, faults } = await openPage(server.url, "/approvals");
    // The text of a button alone: while the answer is sent, the whole card or page has the focus.
    const focused = (): Promise<string> =>
      page.evaluate(() => document.querySelector<HTMLButtonElement>("button:focus")?.textContent ?? "");
    await page.getByRole("button", { name: "Approve", exact: true }).focus();
    await page.keyboard.press("Enter");
    await expect.poll(focused).toContain("pay six");
    await page.getByRole("button", { name: "Deny" }).focus();
    await page.keyboard.press("Enter");
    await page.getByText("Nothing waits for you.").waitFor();
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("main");

    const { sessionId } = await server.run("demo", "pay seven");
    await page.goto(`${server.url}/chat/${sessionId}`);
    await page.getByRole("button", { name: "Approve", exact: true }).focus();
    await page.keyboard.press("Enter");
    await page
      .getByText(/paid 1 cents/u)
      .first()
      .waitFor();
    await expect.poll(focused).toMatch(/pay.*done/u);
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("arguments are changed before a call is approved, and several calls are answered together", async () => {
    const [first] = [await server.run("demo", "pay nine"), await server.run("demo", "pay ten")];
    await server.run("demo", "pay eleven");
    await server.run("curious", "Ask me.");
    const { page, faults } = await openPage(server.url, "/approvals");
    await page.getByRole("heading", { name: "Run pay?" }).waitFor();
    await page.keyboard.press("e");
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.type("much");
    expect(await page.getByRole("button", { name: "Approve", exact: true }).isDisabled()).toBe(true);
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.type("25");
    expect(await flaws(page)).toEqual([]);
    // The key is the button: it approves the arguments as they are now.
    await page.getByRole("button", { name: "Approve with changes" }).focus();
    await page.keyboard.press("a");
    const list = page.getByRole("list", { name: /requests/u });
    const records = `${server.api}/runs/${first.runId}/events?format=ndjson&follow=false`;
    await expect.poll(async () => (await fetch(records)).text()).toContain("paid 25 cents");
    // The demo agent reads the note about the change, and asks for another payment.

    await page.getByRole("button", { name: /^Approvals \d/u }).click();
    await expect.poll(() => list.getByRole("button").count()).toBe(3);
    for (const box of await list.getByRole("checkbox").all()) await box.check();
    await page.getByRole("button", { name: "Deny all…" }).click();
    const question = page.getByRole("dialog", { name: "Deny 3 calls?" });
    expect(await question.getByText("cents").count()).toBe(3);
    expect(await flaws(page)).toEqual([]);
    await question.getByRole("button", { name: "Deny 3 calls" }).click();
    await expect.poll(() => list.getByRole("button").count()).toBe(0);
    await page.getByRole("link", { name: /Inbox.*1/u }).waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
    // The question is left; a call that was just denied may be listed for a moment.
    const { requests } = await server.get<{ requests: { request: { requestId: string; kind: string } }[] }>(
      "/approvals",
    );
    for (const { request } of requests.filter(({ request: { kind } }) => kind === "question"))
      await server.post(`/approvals/${encodeURIComponent(request.requestId)}`, { text: "none" });
  });

  it("a request that was answered in another window is not answered again, nor the next one in its place", async () => {
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
    await page.keyboard.press("o");
    await page.waitForURL(/\/runs\//u);
    await page.goBack();
    await page.getByRole("heading", { name: "Run pay?" }).waitFor();

    // Another window is faster by a moment: its answer counts, and this one says so.
    const denyFirst = async (route: Route, requestId: string): Promise<void> => {
      await server.post(`/approvals/${encodeURIComponent(requestId)}`, { optionId: "deny", text: "other window" });
      await route.continue();
    };
    const last = new URL(page.url()).searchParams.get("at") ?? "";
    await page.route("**/v1/approvals/*", (route) => denyFirst(route, last), { times: 1 });
    await page.keyboard.press("a");
    await page
      .getByRole("alert")
      .getByText(/^The request is (?:answered already|already settled)/u)
      .waitFor();
    const { sessionId, runId } = await server.run("demo", "pay three");
    await page.goto(`${server.url}/chat/${sessionId}`);
    const { requests } = await server.get<{ requests: { runId: string; request: { requestId: string } }[] }>(
      "/approvals",
    );
    const here = requests.find((one) => one.runId === runId)?.request.requestId ?? "";
    await page.route(`**/v1/sessions/${sessionId}/messages`, (route) => denyFirst(route, here), { times: 1 });
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await page.getByRole("button", { name: /pay.*denied by local.*denied/u }).waitFor();
    await page.context().close();
  });
});

inBrowser("a call that was interrupted", () => {
  const server = new Windlass();
  beforeAll(() => server.start());
  afterAll(() => server.end());

  interface Open {
    readonly requests: { readonly runId: string; readonly request: { readonly requestId: string; kind: string } }[];
  }
  /** The request of a run, once there is one of this kind. */
  const asked = async (runId: string, kind: string): Promise<string> => {
    for (;;) {
      const { requests } = await server.get<Open>("/approvals");
      const found = requests.find((one) => one.runId === runId && one.request.kind === kind);
      if (found !== undefined) return found.request.requestId;
    }
  };
  /** A refund that was approved and begun, and whose process was killed. */
  const interrupt = async (): Promise<{ readonly runId: string; readonly sessionId: string }> => {
    const ids = await server.run("desk", "My order 771 never arrived, please refund it.");
    const requestId = await asked(ids.runId, "approval");
    await server.post(`/approvals/${encodeURIComponent(requestId)}`, { optionId: "approve" });
    const feed = await fetch(`${server.api}/runs/${ids.runId}/events?format=ndjson`);
    let text = "";
    for await (const chunk of feed.body ?? []) {
      text += new TextDecoder().decode(chunk);
      if (/"action\.started"[^\n]*"refund"|"refund"[^\n]*"action\.started"/u.test(text)) break;
    }
    await server.restart();
    await asked(ids.runId, "recovery");
    return ids;
  };

  it("comes first, shows the call, what is known and what each answer risks; its result is supplied", async () => {
    await server.run("demo", "pay");
    const { runId, sessionId } = await interrupt();
    const { page, faults } = await openPage(server.url, "/approvals");
    const first = page
      .getByRole("list", { name: /requests/u })
      .getByRole("button")
      .first();
    await first.filter({ hasText: "Interrupted call" }).filter({ hasText: "refund" }).waitFor();
    const card = page.getByRole("group", { name: "Did refund happen?" });
    await card.getByText("12900").waitFor();
    await card.getByText(/Never arrived\.\nTwice\./u).waitFor();
    for (const known of [/^begun$/u, /^attempt$/u, /^1$/u, /call/u]) await card.getByText(known).first().waitFor();
    await card.getByText(new RegExp(runId, "u")).waitFor();
    await card.getByText(/^\d\d:\d\d:\d\d\.\d{3} \((?:just now|.* ago)\)$/u).waitFor();
    await card.getByText(/^local, \d\d:\d\d/u).waitFor();
    // The answers are titled by what they amount to, and the card of the page has no frame around its own.
    const answers = card.getByRole("list", { name: "Answers" }).getByRole("listitem");
    expect(await answers.locator("p:first-child").allInnerTexts()).toEqual([
      "Run it again",
      "It did happen",
      "Leave it",
    ]);
    expect(await card.evaluate((frame) => getComputedStyle(frame).borderTopWidth)).toBe("0px");
    for (const risk of [/it happens twice/u, /outcome is unknown/u, /as if the call had returned/u])
      await card.getByText(risk).waitFor();
    const said = page.getByRole("region", { name: "The conversation" }).getByText("I will refund it.");
    expect(await said.innerText()).toMatch(/^desk I found order 771, 129\.00\. I will refund it\.\s*refund$/u);
    expect(await flaws(page)).toEqual([]);
    await page.screenshot({ path: `${SHOTS}/inbox.png` });

    await page.goto(`${server.url}/chat/${sessionId}`);
    await page.getByRole("button", { name: /refund.*interrupted: may have happened/u }).waitFor();
    expect(await page.getByText("waits for approval").count()).toBe(0);
    const here = page.getByRole("group", { name: "Did refund happen?" });
    await here.getByRole("button", { name: "Supply result…" }).click();
    await page.getByLabel("Its result, as JSON or text").fill("refunded by hand");
    await here.getByRole("button", { name: "Supply result" }).click();
    await page
      .getByText(/Done: refunded by hand/u)
      .first()
      .waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("is not running in its trace, and has ended when it was skipped", async () => {
    const { runId } = await interrupt();
    const { page, faults } = await openPage(server.url, `/runs/${runId}?view=trace`);
    const row = page.getByRole("treeitem", { name: /^tool refund/u });
    await row.getByText("interrupted").waitFor();
    expect(await row.getByText(/running/u).count()).toBe(0);
    await server.post(`/approvals/${encodeURIComponent(await asked(runId, "recovery"))}`, { optionId: "skip" });
    await row.getByText("skipped").waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });
});
