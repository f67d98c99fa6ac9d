/** HttpAgent, which checks the order of events itself: the one of AG-UI 1.0, and the last one before it. */
import { HttpAgent as NewAgent } from "@ag-ui/client";
import { HttpAgent as OldAgent } from "ag-ui-client-059";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Windlass, type Ids } from "./rig.js";

interface Message {
  readonly id: string;
  readonly role: string;
  readonly content?: unknown;
  readonly toolCalls?: readonly {
    readonly id: string;
    readonly function: { readonly name: string; readonly arguments: string };
    readonly metadata?: { readonly windlass?: { readonly parentToolCallId: string } };
  }[];
}
interface Interrupt {
  readonly id: string;
  readonly message?: string;
  readonly toolCallId?: string;
  readonly reason: string;
}
interface Event {
  readonly type: string;
  readonly code?: string;
  readonly outcome?: { readonly type: string };
  readonly metadata?: { readonly windlass?: Ids };
  readonly usage?: readonly { readonly inputTokens?: number }[];
}
/** The common part of both generations of the client. */
interface Agent {
  messages: Message[];
  pendingInterrupts: Interrupt[];
  addMessage(message: { id: string; role: "user"; content: string }): void;
  runAgent(
    parameters: { runId?: string; resume?: object[] },
    subscriber: { onEvent(seen: { event: unknown }): void },
  ): Promise<unknown>;
}

const windlass = new Windlass(["--agents", "tests.web.chat_agents:agents"]);
beforeAll(() => windlass.start());
afterAll(() => windlass.end());

const kinds: readonly (readonly [string, (url: string, threadId: string, messages?: Message[]) => Agent])[] = [
  [
    "1.0.0",
    (url, threadId, initialMessages = []) =>
      new NewAgent({ url, threadId, initialMessages: initialMessages as never }) as unknown as Agent,
  ],
  [
    "0.0.59",
    (url, threadId, initialMessages = []) =>
      new OldAgent({ url, threadId, initialMessages: initialMessages as never }) as unknown as Agent,
  ],
];

describe.each(kinds)("HttpAgent %s", (version, make) => {
  const client = (agent: string, thread: string, messages?: Message[]): Agent =>
    make(`${windlass.api}/agui/${agent}`, `${thread}-${version}`, messages);
  let count = 0;

  async function run(
    agent: Agent,
    parameters: { runId?: string; resume?: object[] } = {},
    onEvent: (event: Event) => void = () => undefined,
  ): Promise<Event[]> {
    const events: Event[] = [];
    await agent.runAgent(parameters, {
      onEvent: ({ event }) => {
        events.push(event as Event);
        onEvent(event as Event);
      },
    });
    return events;
  }

  function say(agent: Agent, content: string): void {
    count += 1;
    agent.addMessage({ id: `u${count}`, role: "user", content });
  }

  const told = (agent: Agent): string[] =>
    agent.messages.map(({ role, content }) => `${role}: ${typeof content === "string" ? content : ""}`);
  const answer = (agent: Agent, payload: object): object[] =>
    agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload }));

  test("a text, and another one in the same thread", async () => {
    const agent = client("talker", "talk");
    say(agent, "Hello.");
    const events = await run(agent);
    expect(events.filter(({ type }) => type === "TEXT_MESSAGE_CONTENT").length).toBeGreaterThan(1);
    const end = events.at(-1);
    expect(end?.outcome).toEqual({ type: "success" });
    expect(end?.usage?.[0]?.inputTokens).toBe(20);
    say(agent, "And again.");
    await run(agent);
    expect(told(agent)).toEqual([
      expect.stringMatching(/^user: Hello/u),
      expect.stringMatching(/^assistant: Hello, number/u),
      "user: And again.",
      expect.stringMatching(/^assistant: Hello/u),
    ]);
  });

  test("thoughts, a call, an interrupt, consent, a result", async () => {
    const agent = client("clerk", "pay");
    say(agent, "Pay.");
    const first = await run(agent);
    expect(first.at(-1)?.outcome?.type).toBe("interrupt");
    expect(agent.pendingInterrupts).toHaveLength(1);
    const [interrupt] = agent.pendingInterrupts;
    expect(interrupt?.reason).toBe("tool_call");
    const calls = agent.messages.flatMap(({ toolCalls = [] }) => toolCalls);
    expect(calls.map((call) => [call.function.name, JSON.parse(call.function.arguments) as unknown])).toEqual([
      ["look", { place: "Oslo" }],
      ["pay", { cents: 5 }],
    ]);
    const second = await run(agent, { resume: answer(agent, { approved: true }) });
    expect(second.at(-1)?.outcome).toEqual({ type: "success" });
    expect(told(agent)).toEqual([
      "user: Pay.",
      "reasoning: What is the sky like?",
      "assistant: Let me look.",
      'tool: {"place":"Oslo","sky":"grey"}',
      "assistant: ",
      "tool: paid 5",
      "assistant: All done.",
    ]);
    expect(agent.pendingInterrupts).toEqual([]);
  });

  test("the calls of a program name its call, also after an interrupt", async () => {
    const agent = client("coder", "code");
    say(agent, "Pay.");
    await run(agent);
    await run(agent, { resume: answer(agent, { approved: true }) });
    expect(told(agent).at(-1)).toBe("assistant: The program is done.");
    const calls = agent.messages.flatMap(({ toolCalls = [] }) => toolCalls);
    const parent = calls[0]?.id;
    expect(calls.map((call) => [call.function.name, call.metadata?.windlass?.parentToolCallId])).toEqual([
      ["run_code", undefined],
      ["look", parent],
      ["pay", parent],
    ]);
  });

  test("a denial, and an interrupt that is abandoned", async () => {
    for (const resume of [
      (agent: Agent) => answer(agent, { approved: false }),
      (agent: Agent) => agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "cancelled" })),
    ]) {
      const agent = client("clerk", `deny-${count}`);
      say(agent, "Pay.");
      await run(agent);
      await run(agent, { resume: resume(agent) });
      expect(told(agent)).toContain("tool: A person denied the call.");
    }
  });

  test("partial answers, answers to unknown requests, and messages in between are refused", async () => {
    const agent = client("twice", "both");
    say(agent, "Pay twice.");
    await run(agent);
    expect(agent.pendingInterrupts).toHaveLength(2);
    const [one] = answer(agent, { approved: true });
    const refused: (string | undefined)[] = [];
    for (const resume of [
      [one],
      [{ interruptId: "approval:forged", status: "resolved", payload: { approved: true } }],
      undefined,
    ]) {
      const other = client("twice", "both", [{ id: "x", role: "user", content: "And another thing." }]);
      const events = await run(other, resume === undefined ? {} : { resume: resume as object[] });
      refused.push(events.at(-1)?.code);
    }
    expect(refused).toEqual(["conflict", "conflict", "conflict"]);
    await run(agent, { resume: answer(agent, { approved: true }) });
    expect(told(agent).slice(-3).sort()).toEqual(["assistant: Both are settled.", "tool: paid 1", "tool: paid 2"]);
  });

  test("a question, answered with an option", async () => {
    const agent = client("curious", "ask");
    say(agent, "Ask me.");
    await run(agent);
    expect(agent.pendingInterrupts[0]?.message).toBe("Which colour?");
    await run(agent, { resume: answer(agent, { optionId: "red" }) });
    expect(told(agent).at(-1)).toContain("red");
  });

  test("a subagent that asks", async () => {
    const agent = client("chief", "team");
    say(agent, "Let the clerk pay.");
    const first = await run(agent);
    expect(first.map(({ type }) => type)).toContain("SUBAGENT_STARTED");
    const second = await run(agent, { resume: answer(agent, { approved: true }) });
    expect(second.map(({ type }) => type)).toContain("SUBAGENT_FINISHED");
    expect(told(agent).at(-1)).toBe("assistant: The clerk is done.");
  });

  test("an error has a stable code", async () => {
    const agent = client("broken", "fail");
    say(agent, "Go.");
    const events = await run(agent);
    expect(events.at(-1)).toMatchObject({ type: "RUN_ERROR", code: "rejected" });
  });

  test("a run that is cancelled is no success", async () => {
    const agent = client("slow", "stop");
    say(agent, "What can you do?");
    let ids: Ids | undefined;
    let isAsked = false;
    const events = await run(agent, {}, (event) => {
      ids = event.metadata?.windlass ?? ids;
      if (event.type === "TEXT_MESSAGE_CONTENT" && !isAsked && ids !== undefined) {
        isAsked = true;
        void windlass.post(`/runs/${ids.runId}/cancel`);
      }
    });
    const end = events.at(-1);
    expect(end?.outcome?.type ?? end?.code).toBe("cancelled");
  });

  test("the server is killed in the middle of an answer, and the same run goes on without repeats", async () => {
    const agent = client("slow", "killed");
    say(agent, "What can you do?");
    let ids: Ids | undefined;
    let pieces = 0;
    const broken = run(agent, { runId: "the-run" }, (event) => {
      ids = event.metadata?.windlass ?? ids;
      if (event.type === "TEXT_MESSAGE_CONTENT" && ++pieces === 3) void windlass.kill();
    });
    await expect(broken).rejects.toThrow();
    expect(told(agent)).toHaveLength(2);
    await windlass.start();
    const events = await run(agent, { runId: "the-run" });
    expect(events.at(-1)?.outcome).toEqual({ type: "success" });
    const runs = await windlass.get<{ runs: unknown[] }>(`/runs?session=${ids?.sessionId ?? ""}`);
    expect(runs.runs).toHaveLength(1);
    const { result } = await windlass.get<{ result: { output: string } }>(`/runs/${ids?.runId ?? ""}`);
    expect(told(agent)).toEqual(["user: What can you do?", `assistant: ${result.output}`]);
    await run(agent, { runId: "the-run" });
    expect(told(agent)).toEqual(["user: What can you do?", `assistant: ${result.output}`]);
  });

  test("a resume that is cut off and sent again shows what it did once", async () => {
    const agent = client("clerk", "resumed");
    say(agent, "Pay.");
    await run(agent);
    const resume = answer(agent, { approved: true });
    await run(agent, { runId: "second", resume });
    const once = told(agent);
    await run(agent, { runId: "second", resume });
    expect(told(agent)).toEqual(once);
  });
});
