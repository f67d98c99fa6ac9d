// A sidecar for tests, in a process of its own: as much of the protocol as the client uses, and some bad manners.
import { createInterface } from "node:readline";

const say = (frame) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...frame })}\n`);
const waiting = new Map();
let asked = 0;

/** Asks the host, and waits for its answer. */
const ask = (method, params) => {
  const id = `sidecar-${++asked}`;
  say({ id, method, params });
  return new Promise((resolve) => waiting.set(id, resolve));
};

const chunk = (streamId, params) => say({ method: "stream.chunk", params: { streamId, ...params } });

async function stream({ streamId, messages, tools }) {
  chunk(streamId, { delta: "Let me " });
  chunk(streamId, { delta: "see. 🌍" });
  const call = { id: "c1", name: "pay", arguments: { cents: 5 } };
  chunk(streamId, { toolCallDelta: { id: "c1", name: "pay", argumentsDelta: '{"cents"' } });
  chunk(streamId, { toolCall: call });
  chunk(streamId, { finishReason: "tool-calls", usage: { inputTokens: 3, outputTokens: 4 } });
  if (messages.at(-1).content === "ask") {
    const action = { kind: "tool-call", callId: "c1", toolName: "pay", input: call.arguments };
    const options = [
      { id: "approve", label: "Approve" },
      { id: "deny", label: "Deny" },
    ];
    const request = { requestId: "q1", action, prompt: "Pay?", display: "confirmation", kind: "approval", options };
    chunk(streamId, { inputRequests: [request] });
    const decided = await new Promise((resolve) => waiting.set(streamId, resolve));
    if (decided === "cancelled")
      return say({ method: "stream.done", params: { streamId, ok: false, cancelled: true } });
  }
  const result =
    tools === undefined ? { success: true, data: "paid" } : await ask("host.tool.call", { streamId, call });
  chunk(streamId, { toolResult: { id: "c1", name: "pay", ...result } });
  chunk(streamId, { delta: "Don" });
  chunk(streamId, { restart: true });
  chunk(streamId, { delta: "All paid." });
  if (messages.at(-1).content === "fail") {
    say({ method: "stream.error", params: { streamId, kind: "transport_closed", message: "the model is gone" } });
    return say({ method: "stream.done", params: { streamId, ok: false } });
  }
  chunk(streamId, { finishReason: "stop" });
  say({ method: "stream.done", params: { streamId, ok: true } });
}

const sessions = new Map();

/** Numbers of the records of each session; the first run of a session does not begin with record 1. */
const seqs = new Map();

/** The same run as `stream`, told as events. */
async function streamEvents({ streamId: runId, sessionId = "s1", messages, tools }) {
  let index = 0;
  const event = (type, data, more = {}) => {
    const meta = { at: "2026-01-31T09:30:00.000Z" };
    const seq = seqs.get(sessionId) ?? 2;
    const params = { type, data, meta, sessionId, seq, runId, agentId: "chat", ...more };
    say({ method: "stream.event", params: { streamId: runId, event: params } });
  };
  const record = (type, data) => {
    seqs.set(sessionId, (seqs.get(sessionId) ?? 2) + 1);
    index = 0;
    event(type, data);
  };
  const delta = (type, data) => event(type, data, { index: index++ });
  const done = (params) => {
    seqs.set(sessionId, seqs.get(sessionId) + 1); // a record of the session, which is in no stream
    say({ method: "stream.done", params: { streamId: runId, ...params } });
  };
  const words = messages.at(-1).content;
  if (words === "exit") process.exit(3);
  const turn = { sequence: 0, turnId: runId };
  const step = (stepIndex) => ({ ...turn, stepIndex });
  const action = { kind: "tool-call", callId: "c1", toolName: "pay", input: { cents: 5 } };
  record("run.started", { runId, agentId: "chat" });
  record("turn.started", turn);
  record("message.received", { ...turn, message: words });
  record("step.started", step(0));
  delta("message.appended", { ...step(0), messageDelta: "Let me " });
  delta("message.appended", { ...step(0), messageDelta: "see. 🌍" });
  delta("action.input.appended", { ...step(0), callId: "c1", toolName: "pay", inputDelta: '{"cents"' });
  record("message.completed", { ...step(0), message: "Let me see. 🌍", finishReason: "tool-calls" });
  record("actions.requested", { ...step(0), actions: [action] });
  const usage = { inputTokens: 3, outputTokens: 4 };
  record("step.completed", { ...step(0), finishReason: "tool-calls", usage });
  if (words === "ask") {
    const options = [
      { id: "approve", label: "Approve" },
      { id: "deny", label: "Deny" },
    ];
    const request = { requestId: "q1", action, prompt: "Pay?", display: "confirmation", kind: "approval", options };
    record("input.requested", { ...step(0), requests: [request] });
    record("run.waiting", { runId, on: "input" });
    const decided = await new Promise((resolve) => waiting.set(runId, resolve));
    if (decided === "cancelled") {
      record("run.cancelled", { runId });
      return done({ ok: false, cancelled: true });
    }
    const response = { requestId: "q1", optionId: decided };
    record("input.resolved", { ...step(0), resolutions: [{ requestId: "q1", outcome: "answered", response }] });
    record("run.resumed", { runId, reason: "input" });
  }
  record("action.started", { ...step(0), callId: "c1", toolName: "pay" });
  const call = { id: "c1", name: "pay", arguments: { cents: 5 } };
  const { data } = tools === undefined ? { data: "paid" } : await ask("host.tool.call", { streamId: runId, call });
  const result = { kind: "tool-result", callId: "c1", toolName: "pay", output: data };
  record("action.result", { ...step(0), status: "completed", result });
  record("step.started", step(1));
  delta("message.appended", { ...step(1), messageDelta: "Don" });
  record("step.started", step(1));
  delta("message.appended", { ...step(1), messageDelta: "All paid." });
  if (words === "fail") {
    const error = { code: "unavailable", kind: "provider_failure", retry: "retryable", message: "the model is gone" };
    record("run.failed", { runId, error });
    return done({ ok: false });
  }
  if (words === "break") {
    const params = { streamId: runId, kind: "transport_closed", message: "the sidecar shuts down" };
    say({ method: "stream.error", params });
    return done({ ok: false });
  }
  record("message.completed", { ...step(1), message: "All paid.", finishReason: "stop" });
  record("step.completed", { ...step(1), finishReason: "stop" });
  record("run.completed", { runId, output: "All paid." });
  done({ ok: true });
}

const METHODS = {
  "system.ping": () => ({ status: "ok", version: "0.1.0", uptimeMs: 1 }),
  "test.echo": (params) => params,
  "test.fail": () => {
    throw Object.assign(new Error("not like this"), { code: -32002, kind: "policy_denied", data: { why: 1 } });
  },
  "test.silent": () => new Promise(() => undefined),
  "test.exit": () => process.exit(3),
  "test.noise": () => {
    process.stdout.write('not json\n\n{"jsonrpc":"2.0"}\n5\n{"jsonrpc":"2.0","id":99999,"result":1}\n');
    return null;
  },
  "test.halves": async () => {
    const bytes = Buffer.from(
      `${JSON.stringify({ jsonrpc: "2.0", method: "test.told", params: { text: "Grüß 🌍" } })}\n`,
    );
    for (const byte of bytes) await new Promise((resolve) => process.stdout.write(Buffer.from([byte]), resolve));
    return null;
  },
  "test.batch": () => {
    const told = (n) => ({ jsonrpc: "2.0", method: "test.told", params: { n } });
    process.stdout.write(`${JSON.stringify([told(1), told(2)])}\n`);
    return null;
  },
  "test.ask": async ({ method, params }) => ask(method, params),
  "test.withdraw": () => {
    void ask("host.slow", {});
    say({ method: "host.request.cancelled", params: { id: `sidecar-${asked}` } });
    return null;
  },
  "agent.session.create": ({ chatId, sessionId = "made", ...document }) => {
    const session = {
      sessionId,
      chatId,
      userId: "local",
      currentStage: "START",
      isActive: true,
      createdAt: "2026-01-31T09:30:00Z",
      updatedAt: "2026-01-31T09:30:00Z",
      ...document,
    };
    sessions.set(sessionId, session);
    return session;
  },
  "agent.session.list": () => [...sessions.values()],
  "agent.session.resume": ({ sessionId }) => sessions.get(sessionId),
  "agent.session.update": ({ sessionId, ...change }) => {
    sessions.set(sessionId, { ...sessions.get(sessionId), ...change });
    return sessions.get(sessionId);
  },
  "agent.chat.stream": (params) => {
    setImmediate(() => (params.shape === "events" ? streamEvents : stream)(params));
    return { streamId: params.streamId };
  },
  "agent.chat.cancel": ({ streamId }) => {
    waiting.get(streamId)?.("cancelled");
    return null;
  },
  "agent.input.answer": ({ streamId, optionId }) => {
    waiting.get(streamId)?.(optionId);
    return null;
  },
  "trace.fetch": ({ traceId }) => ({
    trace: { traceId, sessionId: "s", chatId: "c", userId: "u", startedAt: "2026-01-31T09:30:00Z" },
    spans: [{ spanId: "1", name: "llm.complete", startAt: "2026-01-31T09:30:00Z" }],
    events: [],
  }),
};

createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, method, params, result, error } = JSON.parse(line);
  if (method === undefined) return waiting.get(id)?.(error === undefined ? result : { error });
  const run = METHODS[method];
  if (run === undefined) return say({ id, error: { code: -32601, message: "no", kind: "method_not_found" } });
  try {
    say({ id, result: await run(params) });
  } catch ({ code, message, kind, data }) {
    say({ id, error: { code, message, kind, data } });
  }
});
