/** The chat of the AI SDK, which checks every chunk against its schema: version 7, and version 6, which Node 20 gets. */
import * as seven from "ai";
import * as six from "ai-6";
import type { AbstractChat, ChatState, ChatStatus, UIMessage } from "ai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Windlass, type Ids } from "./rig.js";

const windlass = new Windlass(["--agents", "tests.web.chat_agents:agents"]);
beforeAll(() => windlass.start());
afterAll(() => windlass.end());

/** The state of a chat in memory, as `useChat` keeps it in React. */
class State implements ChatState<UIMessage> {
  status: ChatStatus = "ready";
  error: Error | undefined = undefined;
  constructor(public messages: UIMessage[]) {}
  pushMessage = (message: UIMessage): void => {
    this.messages = [...this.messages, message];
  };
  popMessage = (): void => {
    this.messages = this.messages.slice(0, -1);
  };
  replaceMessage = (at: number, message: UIMessage): void => {
    this.messages = this.messages.with(at, message);
  };
  snapshot = <T>(value: T): T => structuredClone(value);
}

type Parts = UIMessage["parts"];

/** Leaves out the steps that were repeated, as docs/frontends.md has it. */
function shown(parts: Parts): Parts {
  const found: Parts = [];
  for (const part of parts)
    if (part.type === "data-void") found.splice(found.findLastIndex(({ type }) => type === "step-start"));
    else found.push(part);
  return found;
}

// The types of the two versions differ in what Windlass does not send; their behaviour is what is tested.
const versions: [string, typeof seven][] = [
  ["7", seven],
  ["6", six as unknown as typeof seven],
];

describe.each(versions)("ai %s", (version, sdk) => {
  const Base = sdk.AbstractChat as typeof AbstractChat<UIMessage>;

  class Chat extends Base {
    readonly errors: Error[];

    constructor(
      private readonly agent: string,
      private readonly name: string,
      messages: UIMessage[] = [],
    ) {
      const errors: Error[] = [];
      super({
        id: `${name}-${version}`,
        state: new State(messages),
        transport: new sdk.DefaultChatTransport({ api: `${windlass.api}/ai/${agent}/chat` }),
        sendAutomaticallyWhen: sdk.lastAssistantMessageIsCompleteWithApprovalResponses,
        onError: (error) => {
          errors.push(error);
        },
      });
      this.errors = errors;
    }

    /** What the server has of the chat, checked by the schema of messages. */
    async history(): Promise<UIMessage[]> {
      const messages = await windlass.get<UIMessage[]>(`/ai/${this.agent}/chat/${this.id}`);
      return messages.length === 0 ? [] : sdk.validateUIMessages({ messages });
    }

    /** The chat on a page that was loaded anew. */
    async reloaded(): Promise<Chat> {
      return new Chat(this.agent, this.name, await this.history());
    }

    get text(): string[] {
      return this.messages.map(
        ({ role, parts }) =>
          `${role}: ${shown(parts)
            .map((part) => (part.type === "text" ? part.text : ""))
            .join("")}`,
      );
    }

    get tools(): readonly {
      readonly toolName: string;
      readonly state: string;
      readonly input?: unknown;
      readonly output?: unknown;
      readonly approval?: { readonly id: string; readonly approved?: boolean };
      readonly errorText?: string;
      readonly toolCallId: string;
      readonly callProviderMetadata?: Record<string, Record<string, unknown>>;
    }[] {
      return this.messages.flatMap(({ parts }) =>
        shown(parts).flatMap((part) => (part.type === "dynamic-tool" ? [part] : [])),
      );
    }

    get ids(): Ids & { readonly usage?: { readonly inputTokens?: number } } {
      return this.messages.at(-1)?.metadata as Ids;
    }

    /** Resolves when something is so. */
    async until(isSo: () => boolean): Promise<void> {
      while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  test("a text with what it cost, and another one in the same chat", async () => {
    const chat = new Chat("talker", "talk");
    await chat.sendMessage({ text: "Hello." });
    expect(chat.errors).toEqual([]);
    expect(chat.text).toEqual(["user: Hello.", expect.stringMatching(/^assistant: Hello, number \d+\.$/u)]);
    expect(chat.ids.usage?.inputTokens).toBe(20);
    await chat.sendMessage({ text: "And again." });
    expect(chat.messages).toHaveLength(4);
    const { messages } = await windlass.get<{ messages: unknown[] }>(`/sessions/${chat.ids.sessionId}/history`);
    expect(messages).toHaveLength(4);
  });

  test("thoughts, calls, consent that is sent by itself, a result", async () => {
    const chat = new Chat("clerk", "pay");
    await chat.sendMessage({ text: "Pay." });
    expect(chat.errors).toEqual([]);
    expect(chat.tools.map(({ toolName, state }) => [toolName, state])).toEqual([
      ["look", "output-available"],
      ["pay", "approval-requested"],
    ]);
    expect(chat.messages[1]?.parts.find(({ type }) => type === "reasoning")).toMatchObject({
      text: "What is the sky like?",
      state: "done",
    });
    await chat.addToolApprovalResponse({ id: chat.tools[1]?.approval?.id ?? "", approved: true });
    await chat.until(() => chat.status === "ready" && chat.tools[1]?.state === "output-available");
    expect(chat.tools[1]?.output).toBe("paid 5");
    expect(chat.text).toEqual(["user: Pay.", "assistant: Let me look.All done."]);
  });

  test("the calls of a program name its call", async () => {
    const chat = new Chat("coder", "code");
    await chat.sendMessage({ text: "Pay." });
    const asked = chat.tools.find(({ approval }) => approval !== undefined);
    await chat.addToolApprovalResponse({ id: asked?.approval?.id ?? "", approved: true });
    await chat.until(() => chat.status === "ready" && chat.tools[0]?.state === "output-available");
    expect(chat.errors).toEqual([]);
    expect(chat.text).toEqual(["user: Pay.", "assistant: The program is done."]);
    const parent = chat.tools[0]?.toolCallId;
    expect(
      chat.tools.map(({ toolName, callProviderMetadata }) => [
        toolName,
        callProviderMetadata?.["windlass"]?.["parentToolCallId"],
      ]),
    ).toEqual([
      ["run_code", undefined],
      ["look", parent],
      ["pay", parent],
    ]);
  });

  test("a denial", async () => {
    const chat = new Chat("clerk", "deny");
    await chat.sendMessage({ text: "Pay." });
    await chat.addToolApprovalResponse({ id: chat.tools[1]?.approval?.id ?? "", approved: false });
    await chat.until(() => chat.status === "ready" && chat.tools[1]?.state === "output-denied");
    expect(chat.errors).toEqual([]);
    expect(chat.text.at(-1)).toContain("All done.");
  });

  test("two approvals are sent together", async () => {
    const chat = new Chat("twice", "two");
    await chat.sendMessage({ text: "Pay twice." });
    expect(chat.tools.map(({ state }) => state)).toEqual(["approval-requested", "approval-requested"]);
    for (const { approval } of chat.tools)
      await chat.addToolApprovalResponse({ id: approval?.id ?? "", approved: true });
    await chat.until(() => chat.status === "ready" && chat.text.at(-1)?.includes("Both are settled.") === true);
    expect(chat.tools.map(({ output }) => output)).toEqual(["paid 1", "paid 2"]);
  });

  test("messages during an open request are refused, and so is an approval of an unknown request", async () => {
    const chat = new Chat("clerk", "busy");
    await chat.sendMessage({ text: "Pay." });
    const other = new Chat("clerk", "busy", chat.messages);
    await other.sendMessage({ text: "And another thing." });
    expect(other.error?.message).toContain("conflict");
    const forged = new Chat(
      "clerk",
      "busy",
      JSON.parse(JSON.stringify(chat.messages).replaceAll("approval:", "approval:x")) as UIMessage[],
    );
    await forged.addToolApprovalResponse({ id: forged.tools[1]?.approval?.id ?? "", approved: true });
    await forged.until(() => forged.status === "error");
    expect(forged.error?.message).toContain("conflict");
  });

  test("a question is a part with data, and its answer another", async () => {
    const chat = new Chat("curious", "ask");
    await chat.sendMessage({ text: "Ask me." });
    const part = chat.messages[1]?.parts.find(({ type }) => type === "data-request") as
      { data: { requestId: string; prompt: string } } | undefined;
    expect(part?.data.prompt).toBe("Which colour?");
    await chat.sendMessage({
      parts: [{ type: "data-answer", data: { requestId: part?.data.requestId, optionId: "red" } }],
    });
    expect(chat.errors).toEqual([]);
    expect(chat.text.at(-1)).toContain("red");
    expect(chat.tools.at(-1)?.state).toBe("output-available");
  });

  test("a subagent that asks, by a part with data", async () => {
    const chat = new Chat("chief", "team");
    await chat.sendMessage({ text: "Let the clerk pay." });
    const parts = chat.messages[1]?.parts as { type: string; data?: { requestId?: string; status?: string } }[];
    expect(parts.find(({ type }) => type === "data-subagent")?.data?.status).toBe("running");
    const requestId = parts.find(({ type }) => type === "data-request")?.data?.requestId;
    await chat.sendMessage({ parts: [{ type: "data-answer", data: { requestId, optionId: "approve" } }] });
    expect(chat.errors).toEqual([]);
    expect(chat.text.at(-1)).toBe("assistant: The clerk is done.");
  });

  test("an error begins with its code", async () => {
    const chat = new Chat("broken", "fail");
    await chat.sendMessage({ text: "Go." });
    expect(chat.error?.message).toMatch(/^rejected: /u);
  });

  test("a run that is cancelled is interrupted", async () => {
    const chat = new Chat("slow", "stop");
    const sent = chat.sendMessage({ text: "What can you do?" });
    await chat.until(() => (chat.text[1]?.length ?? 0) > 20);
    await windlass.post(`/runs/${chat.ids.runId}/cancel`);
    await sent;
    expect(chat.errors).toEqual([]);
    const { run } = await windlass.get<{ run: { status: string } }>(`/runs/${chat.ids.runId}`);
    expect(run.status).toBe("cancelled");
  });

  test("the server is killed in the middle of an answer, and the stream is resumed without repeats", async () => {
    const chat = new Chat("slow", "killed");
    const sent = chat.sendMessage({ text: "What can you do?" });
    await chat.until(() => (chat.text[1]?.length ?? 0) > 20);
    const { runId, sessionId } = chat.ids;
    await windlass.restart();
    await sent;
    expect(chat.status).toBe("error");
    await chat.resumeStream();
    const { result } = await windlass.get<{ result: { output: string } }>(`/runs/${runId}`);
    expect(chat.text).toEqual(["user: What can you do?", `assistant: ${result.output}`]);
    const { runs } = await windlass.get<{ runs: unknown[] }>(`/runs?session=${sessionId}`);
    expect(runs).toHaveLength(1);
  });

  test("there is nothing to resume in a chat that is new, or has ended", async () => {
    const chat = new Chat("talker", "nothing");
    await chat.resumeStream();
    expect([chat.status, chat.errors, chat.messages]).toEqual(["ready", [], []]);
    await chat.sendMessage({ text: "Hello." });
    await chat.resumeStream();
    expect([chat.status, chat.errors, chat.messages.length]).toEqual(["ready", [], 2]);
  });

  test("a page that is loaded anew while the run waits has the message and what it asks, and can answer", async () => {
    const chat = new Chat("clerk", "reload");
    await chat.sendMessage({ text: "Pay." });
    const later = await chat.reloaded();
    expect(later.text).toEqual(["user: Pay.", "assistant: Let me look."]);
    expect(later.tools[1]).toMatchObject({ state: "approval-requested", input: { cents: 5 } });
    await later.resumeStream();
    expect(later.messages).toHaveLength(2);
    expect(later.tools[1]?.state).toBe("approval-requested");
    await later.addToolApprovalResponse({ id: later.tools[1]?.approval?.id ?? "", approved: true });
    await later.until(() => later.status === "ready" && later.tools[1]?.state === "output-available");
    expect(later.text).toEqual(["user: Pay.", "assistant: Let me look.All done."]);
  });

  test("a history has thoughts, calls with their approvals, files and usage; a new chat has none", async () => {
    const chat = new Chat("clerk", "history");
    expect(await chat.history()).toEqual([]);
    const url = "data:text/plain;base64,aGk=";
    await chat.sendMessage({
      text: "Pay.",
      files: [{ type: "file", mediaType: "text/plain", url, filename: "a.txt" }],
    });
    await chat.addToolApprovalResponse({ id: chat.tools[1]?.approval?.id ?? "", approved: true });
    await chat.until(() => chat.status === "ready" && chat.text[1]?.endsWith("All done.") === true);
    await chat.sendMessage({ text: "Pay again." });
    await chat.addToolApprovalResponse({ id: chat.tools[3]?.approval?.id ?? "", approved: false });
    await chat.until(() => chat.status === "ready" && chat.text[3]?.endsWith("All done.") === true);
    expect(chat.errors).toEqual([]);
    const later = await chat.reloaded();
    expect(later.text).toEqual(chat.text);
    expect(later.messages[0]?.parts).toEqual(chat.messages[0]?.parts);
    const kinds = (one: Chat, at: number): string[] => one.messages[at]?.parts.map(({ type }) => type) ?? [];
    expect(kinds(later, 1)).toEqual(kinds(chat, 1));
    expect(later.messages[1]?.metadata).toEqual(chat.messages[1]?.metadata);
    expect(later.tools.map(({ toolName, state, approval }) => [toolName, state, approval?.approved])).toEqual([
      ["look", "output-available", undefined],
      ["pay", "output-available", true],
      ["look", "output-available", undefined],
      ["pay", "output-denied", false],
    ]);
    expect(later.tools.map(({ input, output }) => [input, output])).toEqual(
      chat.tools.map(({ input, output }) => [input, output]),
    );
    await later.sendMessage({ text: "Thanks." });
    expect(later.messages).toHaveLength(6);
  });

  test("an approval that was given elsewhere is not asked for again", async () => {
    const chat = new Chat("clerk", "elsewhere");
    await chat.sendMessage({ text: "Pay." });
    const { sessionId, runId } = chat.ids;
    const responses = [{ requestId: chat.tools[1]?.approval?.id, optionId: "approve" }];
    await windlass.post(`/sessions/${sessionId}/messages`, { responses });
    await (await fetch(`${windlass.api}/runs/${runId}/events`)).text();
    const again = { id: chat.id, messages: chat.messages.slice(0, 1), trigger: "submit-message" };
    const answer = await fetch(`${windlass.api}/ai/clerk/chat`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(again),
    });
    const stream = await answer.text();
    expect(stream).toContain('"windlass":{"approved":true}');
    expect(stream).not.toContain("tool-approval-request");
    const later = await chat.reloaded();
    expect(later.tools[1]).toMatchObject({ state: "output-available", approval: { approved: true } });
  });

  test("an answer that breaks off is repeated, and its pieces are marked as void", async () => {
    const chat = new Chat("shaky", "void");
    await chat.sendMessage({ text: "Go." });
    expect(chat.errors).toEqual([]);
    expect(chat.messages[1]?.parts.some(({ type }) => type === "data-void")).toBe(true);
    expect(chat.text).toEqual(["user: Go.", "assistant: The whole answer."]);
    expect((await chat.reloaded()).text).toEqual(chat.text);
  });

  test("an answer is regenerated on a page that was loaded anew", async () => {
    const chat = new Chat("talker", "anew-later");
    await chat.sendMessage({ text: "One." });
    await chat.sendMessage({ text: "Two." });
    const later = await chat.reloaded();
    await later.regenerate();
    expect(later.errors).toEqual([]);
    expect(later.text.slice(0, 3)).toEqual(chat.text.slice(0, 3));
    expect(later.text[3]).not.toBe(chat.text[3]);
    await later.sendMessage({ text: "Uno.", messageId: later.messages[0]?.id ?? "" });
    expect(later.errors).toEqual([]);
    expect((await later.reloaded()).text).toEqual(later.text);
  });

  test("an answer is regenerated, and a message is edited", async () => {
    const chat = new Chat("talker", "anew");
    await chat.sendMessage({ text: "One." });
    await chat.sendMessage({ text: "Two." });
    const before = chat.text;
    await chat.regenerate();
    expect(chat.errors).toEqual([]);
    expect(chat.text.slice(0, 3)).toEqual(before.slice(0, 3));
    expect(chat.text[3]).not.toBe(before[3]);
    await chat.sendMessage({ text: "Uno.", messageId: chat.messages[0]?.id ?? "" });
    expect(chat.errors).toEqual([]);
    expect(chat.text).toHaveLength(2);
    await chat.sendMessage({ text: "Due." });
    const { messages } = await windlass.get<{ messages: { content: string }[] }>(
      `/sessions/${chat.ids.sessionId}/history`,
    );
    expect(messages.map(({ content }) => content)).toEqual(chat.text.map((line) => line.replace(/^\w+: /u, "")));
  });
});
