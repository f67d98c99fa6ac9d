import { gunzipSync } from "node:zlib";
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it, test } from "vitest";
import { RecordGap } from "../src/chat.js";
import {
  chatItems,
  EMPTY_CONVERSATION,
  isRunning,
  reduceConversation,
  type CallView,
  type ChatItem,
  type Conversation,
} from "../src/conversation.js";
import { Event, Record } from "../src/generated/index.js";
import { toEvent } from "../src/events.js";
import type { JsonObject } from "../src/wire.js";
import { delta as deltaOf, record } from "./fakes.js";

const STEP = { sequence: 0, turnId: "t0", stepIndex: 0 };
const REF = { code: "unavailable", kind: "provider_failure", retry: "retryable" };

/** Tells a story: each record gets the next number, each delta the next place in its step. */
class Story {
  state: Conversation = EMPTY_CONVERSATION;
  private seq = 0;
  private index = 0;

  say(type: string, data: JsonObject = {}): this {
    if (type === "step.started") this.index = 0;
    return this.take(record(++this.seq, type, data));
  }

  live(type: string, data: JsonObject): this {
    return this.take(deltaOf(this.seq, this.index++, type, data));
  }

  begin(): this {
    this.say("run.started", { runId: "r1", agentId: "a" });
    this.say("message.received", { message: "go", sequence: 0, turnId: "t0" });
    return this.say("step.started", STEP);
  }

  ask(...callIds: readonly string[]): this {
    return this.say("actions.requested", { ...STEP, actions: callIds.map(action) });
  }

  start(callId: string): this {
    const idempotencyKey = `k/${callId}`;
    return this.say("action.started", { ...STEP, callId, toolName: "mail", effect: "once", idempotencyKey });
  }

  result(callId: string, status: string, output: string): this {
    const result = { kind: "tool-result", callId, toolName: "mail", output };
    return this.say("action.result", { ...STEP, result, status, durationMs: 5 });
  }

  request(callId: string, more: JsonObject = {}): this {
    const one = { requestId: `q/${callId}`, action: action(callId), prompt: "Run?", display: "confirmation" };
    return this.say("input.requested", { ...STEP, requests: [{ ...one, kind: "approval" }], ...more });
  }

  get items(): readonly ChatItem[] {
    return chatItems(this.state);
  }

  /** Rows in short. */
  get rows(): string[] {
    return this.items.map((item) => {
      if (item.kind === "note") return `${item.note.kind}: ${item.note.text}`;
      if (item.kind === "request") return `asked: ${item.request.requestId}`;
      const calls = item.calls.map((view) => ` [${view.call.id} ${view.status}]`).join("");
      return `${item.message.role}${item.isLive ? "…" : ""}: ${item.message.content}${calls}`;
    });
  }

  call(callId: string): CallView | undefined {
    return this.items
      .flatMap((item) => (item.kind === "message" ? item.calls : []))
      .find(({ call }) => call.id === callId);
  }

  private take(event: Event): this {
    this.state = reduceConversation(this.state, [Event.parse(event)]);
    return this;
  }
}

const action = (callId: string): JsonObject => ({ kind: "tool-call", callId, toolName: "mail", input: { to: callId } });
const words = (messageDelta: string, messageSoFar?: string): JsonObject =>
  messageSoFar === undefined ? { messageDelta } : { messageDelta, messageSoFar };

describe("text", () => {
  it("grows by its deltas and becomes the message of the same row", () => {
    const story = new Story()
      .begin()
      .live("message.appended", words("Hal", "Hal"))
      .live("message.appended", words("lo"));
    expect(story.rows).toEqual(["user: go", "assistant…: Hallo"]);
    const { id } = story.items[1] ?? {};
    story.say("message.completed", { ...STEP, message: "Hallo", finishReason: "stop" });
    expect(story.rows).toEqual(["user: go", "assistant: Hallo"]);
    expect(story.items[1]?.id).toBe(id);
  });

  it("so far replaces the partial text of a late reader", () => {
    const story = new Story()
      .begin()
      .live("message.appended", words("Hal"))
      .live("message.appended", words("Hallo", "Hallo"));
    expect(story.rows.at(-1)).toBe("assistant…: Hallo");
  });

  it("of a failed attempt stays until the next attempt sends text", () => {
    const story = new Story().begin().live("message.appended", words("Firs"));
    story.say("step.retrying", { ...STEP, code: "overloaded", attempt: 1, delayMs: 5, message: "too busy" });
    story.say("step.started", STEP);
    expect(story.rows).toEqual(["user: go", "error: too busy", "assistant…: Firs"]);
    story.live("message.appended", words("Second"));
    expect(story.rows.at(-1)).toBe("assistant…: Second");
  });

  it.each([
    ["the step fails", ["step.failed", { ...STEP, code: "x", message: "broke" }], ["error: broke"]],
    ["the run fails", ["run.failed", { runId: "r1", error: { ...REF, message: "broke" } }], ["error: broke"]],
    ["the run is cancelled", ["run.cancelled", { runId: "r1" }], ["cancelled: Stopped."]],
    ["the turn fails", ["turn.failed", { sequence: 0, turnId: "t0", code: "x", message: "broke" }], ["error: broke"]],
  ] as const)("that never became a message stay when %s", (_, [type, data], notes) => {
    const story = new Story().begin().live("message.appended", words("Half a sen"));
    story.say(type, data);
    expect(story.rows).toEqual(["user: go", "partial: Half a sen", ...notes]);
    story.say("message.received", { message: "and now?", sequence: 1, turnId: "t1" });
    expect(story.rows).toEqual(["user: go", "partial: Half a sen", ...notes, "user: and now?"]);
  });

  it("of a second message in one step follows the first", () => {
    const story = new Story().begin().say("message.completed", { ...STEP, message: "One.", finishReason: "stop" });
    story.live("message.appended", words("Two"));
    expect(story.rows.at(-1)).toBe("assistant…: One.\n\nTwo");
  });

  it("of the reasoning is kept apart", () => {
    const story = new Story().begin().live("reasoning.appended", { reasoningDelta: "hmm" });
    expect(story.items.at(-1)).toMatchObject({ reasoning: "hmm", isLive: true });
    story.say("reasoning.completed", { ...STEP, reasoning: "hmm, yes" });
    story.say("message.completed", { ...STEP, message: "Yes.", finishReason: "stop" });
    expect(story.items.at(-1)).toMatchObject({ reasoning: "hmm, yes", isLive: false });
  });
});

test("a failure of a step is shown once, not again for its turn and its run", () => {
  const story = new Story().begin().say("step.failed", { ...STEP, code: "x", message: "broke" });
  story.say("turn.failed", { sequence: 0, turnId: "t0", code: "x", message: "broke" });
  story.say("run.failed", { runId: "r1", error: { ...REF, message: "broke" } });
  expect(story.rows).toEqual(["user: go", "error: broke"]);
});

describe("calls", () => {
  it("keep their results, in whatever order these come", () => {
    const story = new Story().begin().ask("a", "b", "c").start("a").start("b").start("c");
    story.result("c", "completed", "third").result("a", "failed", "first").result("b", "rejected", "");
    expect(story.rows.at(-1)).toBe("assistant:  [a failed] [b denied] [c succeeded]");
    expect(["a", "b", "c"].map((id) => story.call(id)?.result?.content)).toEqual([
      "first",
      "Tool execution was denied.",
      "third",
    ]);
  });

  it("that their run stopped did not fail, and know their attempt and key", () => {
    const story = new Story().begin().ask("a").start("a").start("a");
    expect(story.call("a")).toMatchObject({ progress: { attempt: 2, idempotencyKey: expect.any(String) as string } });
    const result = { kind: "tool-result", callId: "a", toolName: "mail", output: null, isError: true };
    const error = { code: "cancelled", message: "The run was cancelled." };
    story.say("action.result", { ...STEP, result, status: "failed", error });
    expect(story.call("a")?.status).toBe("stopped");
    // One that was under way may have taken effect; it did not fail either.
    const other = new Story().begin().ask("a").start("a");
    other.say("action.result", { ...STEP, result, status: "failed", error: { ...error, code: "outcome_unknown" } });
    expect(other.call("a")).toMatchObject({ status: "stopped", progress: { isUnknown: true } });
  });

  it("are shown while their arguments are written, and as they go on", () => {
    const story = new Story()
      .begin()
      .live("action.input.appended", { callId: "a", toolName: "mail", inputDelta: '{"to"' });
    expect(story.call("a")).toMatchObject({ status: "writing", inputText: '{"to"', call: { name: "mail" } });
    story.ask("a");
    expect(story.call("a")).toMatchObject({ status: "requested", call: { arguments: { to: "a" } } });
    story.request("a");
    expect(story.call("a")).toMatchObject({ status: "waiting", request: { requestId: "q/a" } });
    story.say("input.resolved", {
      ...STEP,
      resolutions: [{ requestId: "q/a", outcome: "approved", kind: "approval" }],
    });
    story.start("a").live("action.partial", { callId: "a", output: "half" });
    expect(story.call("a")).toMatchObject({ status: "running", progress: { partial: "half" } });
    story.result("a", "completed", "all");
    expect(story.call("a")).toMatchObject({ status: "succeeded", progress: { durationMs: 5 } });
    expect(story.call("a")?.progress?.partial).toBeUndefined();
  });

  it("with the same id in two steps have each their own result", () => {
    const story = new Story().begin().ask("a").start("a").result("a", "completed", "one");
    const next = { ...STEP, stepIndex: 1 };
    story.say("step.started", next).say("actions.requested", { ...next, actions: [action("a")] });
    expect(story.rows).toEqual(["user: go", "assistant:  [a succeeded]", "assistant:  [a requested]"]);
  });

  it("that have no result when the run ends are abandoned", () => {
    const story = new Story().begin().ask("a").start("a").say("run.cancelled", { runId: "r1" });
    expect(story.call("a")?.status).toBe("abandoned");
  });

  it("of subagents show the agent and its outcome", () => {
    const story = new Story().begin().ask("a");
    const called = { callId: "a", childSessionId: "s2", sessionId: "s1", name: "scout", toolName: "scout" };
    story.say("subagent.called", { ...called, sequence: 0, turnId: "t0" });
    expect(story.call("a")?.subagent).toMatchObject({ name: "scout", status: "running", childSessionId: "s2" });
    story.say("subagent.completed", { callId: "a", subagentName: "scout", output: "found", usage: { costMicros: 7 } });
    expect(story.call("a")?.subagent).toMatchObject({ status: "completed", output: "found", childSessionId: "s2" });
    expect(story.state.usage.session.delegated).toEqual({ costMicros: 7 });
  });

  it("of a subagent that need approval are shown although they are not on the page", () => {
    const story = new Story().begin().request("x", { childSessionId: "s2" });
    expect(story.rows).toEqual(["user: go", "asked: q/x"]);
    story.say("run.cancelled", { runId: "r1" });
    expect(story.rows).toEqual(["user: go", "cancelled: Stopped."]);
  });

  it("of a subagent that need approval are not taken for its own call with the same id", () => {
    const scout = { kind: "subagent-call", callId: "x", name: "scout", subagentName: "scout", input: {} };
    const story = new Story().begin().say("actions.requested", { ...STEP, actions: [scout] });
    story.request("x", { childSessionId: "s2", callId: "x" });
    expect(story.rows).toEqual(["user: go", "assistant:  [x requested]", "asked: q/x"]);
  });
});

test("a run is folded from its beginning to its end", () => {
  const story = new Story().begin();
  expect([story.state.run?.status, isRunning(story.state)]).toEqual(["running", true]);
  story.say("run.waiting", { runId: "r1", on: "input" });
  expect(story.state.run).toMatchObject({ status: "waiting", waitsOn: "input" });
  story.say("run.resumed", { runId: "r1", reason: "input" });
  expect(story.state.run).toMatchObject({ status: "running", waitsOn: undefined });
  story.say("run.cancel_requested", { runId: "r1" }).say("run.waiting", { runId: "r1", on: "input" });
  expect(story.state.run?.status).toBe("cancelling");
  story.say("run.completed", { runId: "other" });
  expect(isRunning(story.state)).toBe(true);
  story.say("run.completed", { runId: "r1", structuredOutput: { x: 1 } });
  expect(story.state.run).toMatchObject({ status: "completed", structuredOutput: { x: 1 } });
  expect(isRunning(story.state)).toBe(false);
});

test("a repeated record is passed over, and a missing one is an error", () => {
  const { state } = new Story().begin();
  expect(reduceConversation(state, [record(2, "message.received", { message: "go", sequence: 0, turnId: "t0" })])).toBe(
    state,
  );
  expect(() => reduceConversation(state, [record(5, "session.waiting", { wait: "input" })])).toThrow(RecordGap);
});

test("unchanged rows are the same objects, so that they are not drawn again", () => {
  const story = new Story().begin().ask("a").start("a").result("a", "completed", "one");
  const first = chatItems(story.state);
  expect(chatItems(story.state, first)).toBe(first);
  story.say("step.started", { ...STEP, stepIndex: 1 }).live("message.appended", { ...words("x"), stepIndex: 1 });
  const second = chatItems(story.state, first);
  expect(second).toHaveLength(3);
  expect(second.slice(0, 2).every((item, at) => item === first[at])).toBe(true);
  expect(chatItems(story.state, second)).toBe(second);
  story.live("message.appended", { ...words("y"), stepIndex: 1 });
  expect(chatItems(story.state, second)[2]).not.toBe(second[2]);
});

describe("golden journals", () => {
  const folder = new URL("../../../tests/golden/journals/0.1/", import.meta.url);
  const names = readdirSync(folder).filter((name) => name.endsWith(".gz"));

  it.each(names)("%s gives the same conversation at once, one by one, and read twice", (name) => {
    const lines = gunzipSync(readFileSync(new URL(name, folder)))
      .toString()
      .trim()
      .split("\n");
    const events = lines.map((line) => toEvent(Record.parse(JSON.parse(line))));
    const whole = reduceConversation(EMPTY_CONVERSATION, events);
    let state = EMPTY_CONVERSATION;
    let rows = chatItems(state);
    for (const event of events) {
      state = reduceConversation(state, [event]);
      rows = chatItems(state, rows);
    }
    expect(state).toEqual(whole);
    expect(rows).toEqual(chatItems(whole));
    expect(reduceConversation(state, events)).toBe(state);
    expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length);
  });
});

it("keeps the names of files that came with a message, and how large they are", () => {
  const hash = `sha256:${"0".repeat(64)}`;
  const parts = [
    { type: "text", text: "Look:" },
    { type: "image", image: "data:image/png;base64,AAAA" },
    { type: "file", data: "sha256:abc", mediaType: "application/pdf", filename: "a.pdf" },
    { type: "image", image: hash, content: { contentId: hash, hash, sizeBytes: 70_000, mediaType: "image/jpeg" } },
  ];
  const state = reduceConversation(EMPTY_CONVERSATION, [
    record(1, "session.started"),
    record(2, "message.received", { message: "Look:", sequence: 0, turnId: "t0", parts }),
  ]);
  expect(chatItems(state)).toMatchObject([
    {
      message: { content: "Look:" },
      attachments: [
        { kind: "image", name: "picture", mediaType: "image/png", bytes: 3 },
        { kind: "file", name: "a.pdf", mediaType: "application/pdf" },
        { kind: "image", name: "picture", mediaType: "image/jpeg", bytes: 70_000 },
      ],
    },
  ]);
});

it("keeps what a person said about a call with the call, and leaves out requests of subagents", () => {
  const story = new Story().begin().ask("a", "b").request("a").request("b");
  const resolve = (callId: string, outcome: string, response: JsonObject) =>
    story.say("input.resolved", { ...STEP, resolutions: [{ requestId: `q/${callId}`, outcome, response }] });
  expect(story.call("a")).toMatchObject({ status: "waiting" });
  resolve("a", "approved", { requestId: "q/a", responder: "ann", arguments: { to: "c" } });
  expect(story.call("a")).toMatchObject({
    status: "requested",
    progress: { answer: { outcome: "approved", by: "ann", isChanged: true } },
  });
  story.start("a").result("a", "completed", "sent");
  expect(story.call("a")).toMatchObject({ status: "succeeded", progress: { answer: { by: "ann" } } });
  resolve("b", "denied", { requestId: "q/b", responder: "bob", text: "No." });
  story.result("b", "rejected", "denied");
  expect(story.call("b")).toMatchObject({ status: "denied", progress: { answer: { text: "No.", isChanged: false } } });
  expect(story.state.asked.size).toBe(0);
  story.request("a", { childSessionId: "child" });
  expect(story.state.asked.size).toBe(0);
});

it("says where a process ended, and how many records were kept", () => {
  const story = new Story().begin().ask("a").start("a");
  story.say("recovery.started", { epoch: 2, runId: "r1" }).result("a", "completed", "sent");
  const [note] = story.items.flatMap((item) => (item.kind === "note" ? [item.note] : []));
  expect(note).toMatchObject({ kind: "recovered", keptCount: 5 });
});
