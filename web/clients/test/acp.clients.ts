import { methods, RequestError } from "@agentclientprotocol/sdk";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { choose, Editor, silent, type Options } from "./editor.js";

const FAILING = 'from windlass import Agent\nagent = Agent("a", model="nobody/none")\n';

let folder: string;
let editors: Editor[] = [];
const folders: string[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "windlass-acp-"));
  folders.push(folder);
});
afterEach(async () => {
  await Promise.all(editors.map((editor) => editor.end("SIGKILL")));
  editors = [];
});
afterAll(() => {
  for (const one of folders) rmSync(one, { recursive: true, force: true });
});

async function open(options?: Options): Promise<Editor> {
  const editor = new Editor(folder, options);
  editors.push(editor);
  return editor.open();
}

async function end(editor: Editor, how: "SIGKILL" | "close"): Promise<number | null> {
  editors = editors.filter((one) => one !== editor);
  return editor.end(how);
}

const failure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => "no error",
    (error: unknown) => error,
  );

describe("an editor with the official client", () => {
  it("is answered piece by piece, sees calls, and approves, denies and goes on in one session", async () => {
    const editor = await open({ answer: choose("approve") });
    const sessionId = await editor.newSession();
    expect(await editor.prompt(sessionId, "weather")).toBe("end_turn");
    expect(editor.call("weather")).toEqual(["pending", "in_progress", "completed"]);
    expect(editor.said("agent_message_chunk")).toContain("weather says: Rain all day");
    expect(editor.updates.filter((one) => one.sessionUpdate === "agent_message_chunk").length).toBeGreaterThan(1);

    expect(await editor.prompt(sessionId, "pay")).toBe("end_turn");
    expect(editor.asked[0]?.toolCall).toMatchObject({ rawInput: { cents: 1 }, status: "pending" });
    const kinds = editor.asked[0]?.options.map(({ optionId, kind }) => [optionId, kind]);
    expect(kinds).toContainEqual(["approve", "allow_once"]);
    expect(kinds).toContainEqual(["deny", "reject_once"]);
    expect(editor.said("agent_message_chunk")).toContain("paid 1 cents");

    editor.answer = choose("deny");
    editor.updates.length = 0;
    expect(await editor.prompt(sessionId, "pay")).toBe("end_turn");
    expect(editor.call("pay").at(-1)).toBe("failed");
    expect(editor.said("agent_message_chunk")).not.toContain("paid 1 cents");
    expect(await end(editor, "close")).toBe(0);
  });

  it("cancels while text is streamed, and while a request is open", async () => {
    const slow = await open({ pace: "0.3" });
    const sessionId = await slow.newSession();
    const turn = slow.prompt(sessionId, "tell me");
    await slow.until(() => slow.updates.length > 0);
    await slow.agent.notify(methods.agent.session.cancel, { sessionId });
    expect(await turn).toBe("cancelled");
    await end(slow, "SIGKILL");

    const editor = await open({ answer: silent });
    const other = await editor.newSession();
    const asking = editor.prompt(other, "pay");
    await editor.until(() => editor.asked.length > 0);
    await editor.agent.notify(methods.agent.session.cancel, { sessionId: other });
    expect(await asking).toBe("cancelled");
    editor.answer = () => ({ outcome: { outcome: "cancelled" } });
    expect(await editor.prompt(other, "pay")).toBe("cancelled");
  });

  it("asks again after kill -9 during a question, when the session is loaded, and pays once", async () => {
    const first = await open();
    const sessionId = await first.newSession();
    void failure(first.prompt(sessionId, "weather, then pay"));
    await first.until(() => first.asked.length > 0);
    await end(first, "SIGKILL");

    const second = await open({ answer: choose("approve") });
    const { sessions } = await second.agent.request(methods.agent.session.list, {});
    expect(sessions.map((one) => [one.sessionId, one.title])).toEqual([[sessionId, "weather, then pay"]]);
    await second.agent.request(methods.agent.session.load, { sessionId, cwd: "/", mcpServers: [] });
    expect(second.said("user_message_chunk")).toBe("weather, then pay");
    expect(second.call("weather")).toEqual(["pending", "in_progress", "completed"]);
    await second.until(() => second.said("agent_message_chunk").includes("paid 1 cents"));
    expect(second.asked.map(({ toolCall }) => toolCall.toolCallId)).toEqual([first.asked[0]?.toolCall.toolCallId]);
    expect(second.call("pay")).toEqual(["pending", "in_progress", "completed"]);
    expect(await second.prompt(sessionId, "hello")).toBe("end_turn");
    expect(second.asked).toHaveLength(1);
  });

  it("gets the open request of a resumed session that its message waits behind", async () => {
    const first = await open();
    const sessionId = await first.newSession();
    void failure(first.prompt(sessionId, "pay"));
    await first.until(() => first.asked.length > 0);
    await end(first, "SIGKILL");

    const second = await open({ answer: choose("deny") });
    await second.agent.request(methods.agent.session.resume, { sessionId, cwd: "/", mcpServers: [] });
    expect(second.said("user_message_chunk")).toBe("");
    expect(await second.prompt(sessionId, "weather")).toBe("end_turn");
    expect(second.asked).toHaveLength(1);
    expect(second.said("agent_message_chunk")).toContain("weather says");
    expect(await end(second, "close")).toBe(0);
  });

  it("hears what is wrong", async () => {
    writeFileSync(join(folder, "app.py"), FAILING);
    const editor = await open({ agents: "app.py:agent" });
    const sessionId = await editor.newSession();
    expect(await failure(editor.prompt(sessionId, "hello"))).toMatchObject({
      code: -32_603,
      message: expect.stringContaining("nobody") as string,
    });
    expect(await failure(editor.prompt("acp-unknown", "hello"))).toMatchObject({ code: -32_002 });
    const load = editor.agent.request(methods.agent.session.load, {
      sessionId: "acp-unknown",
      cwd: "/",
      mcpServers: [],
    });
    expect(await failure(load)).toMatchObject({ code: -32_002 });
    expect(await failure(editor.prompt(sessionId, ""))).toMatchObject({ code: -32_602 });
    expect(await failure(editor.agent.request(methods.agent.session.list, { cursor: "nonsense" }))).toMatchObject({
      code: -32_602,
    });
    expect(await failure(editor.agent.request("no/such", {}))).toBeInstanceOf(RequestError);
    expect(
      await failure(editor.agent.request(methods.agent.session.setMode, { sessionId, modeId: "x" })),
    ).toMatchObject({ code: -32_601 });
  });
});
