/** The chat of the AI SDK, which checks every chunk against its schema. */
import {
  AbstractChat,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  type ChatState,
  type ChatStatus,
  type UIMessage,
} from "ai";
import { afterAll, beforeAll, expect, test } from "vitest";
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

interface Options {
  readonly messages?: UIMessage[];
  readonly onStart?: (chat: Chat) => void;
}

class Chat extends AbstractChat<UIMessage> {
  readonly errors: Error[] = [];

  constructor(agent: string, id: string, { messages = [] }: Options = {}) {
    const errors: Error[] = [];
    super({
      id,
      state: new State(messages),
      transport: new DefaultChatTransport({ api: `${windlass.api}/ai/${agent}/chat` }),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
      onError: (error) => {
        errors.push(error);
      },
    });
    this.errors = errors;
  }

  get text(): string[] {
    return this.messages.map(
      ({ role, parts }) => `${role}: ${parts.map((part) => (part.type === "text" ? part.text : "")).join("")}`,
    );
  }

  get tools(): readonly {
    readonly toolName: string;
    readonly state: string;
    readonly output?: unknown;
    readonly approval?: { readonly id: string };
    readonly errorText?: string;
    readonly toolCallId: string;
    readonly callProviderMetadata?: Record<string, Record<string, unknown>>;
  }[] {
    return this.messages.flatMap(({ parts }) => parts.flatMap((part) => (part.type === "dynamic-tool" ? [part] : [])));
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
  for (const { approval } of chat.tools) await chat.addToolApprovalResponse({ id: approval?.id ?? "", approved: true });
  await chat.until(() => chat.status === "ready" && chat.text.at(-1)?.includes("Both are settled.") === true);
  expect(chat.tools.map(({ output }) => output)).toEqual(["paid 1", "paid 2"]);
});

test("messages during an open request are refused, and so is an approval of an unknown request", async () => {
  const chat = new Chat("clerk", "busy");
  await chat.sendMessage({ text: "Pay." });
  const other = new Chat("clerk", "busy", { messages: chat.messages });
  await other.sendMessage({ text: "And another thing." });
  expect(other.error?.message).toContain("conflict");
  const forged = new Chat("clerk", "busy", {
    messages: JSON.parse(JSON.stringify(chat.messages).replaceAll("approval:", "approval:x")) as UIMessage[],
  });
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

test("a page that is loaded anew while the run waits shows what it asks, and can answer", async () => {
  const chat = new Chat("clerk", "reload");
  await chat.sendMessage({ text: "Pay." });
  await windlass.restart();
  const later = new Chat("clerk", "reload", { messages: chat.messages.slice(0, 1) });
  await later.resumeStream();
  expect(later.tools[1]?.state).toBe("approval-requested");
  await later.addToolApprovalResponse({ id: later.tools[1]?.approval?.id ?? "", approved: true });
  await later.until(() => later.status === "ready" && later.tools[1]?.state === "output-available");
  expect(later.text).toEqual(["user: Pay.", "assistant: Let me look.All done."]);
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
