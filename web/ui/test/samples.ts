/** Things to draw, shared by the tests of components. */
import type { CallView, ChatItem, Decision, Event, InputRequest, TraceSpan } from "@windlass/protocol";
import type { TraceInfo } from "@windlass/protocol/client";

export const APPROVAL: InputRequest = {
  requestId: "q1",
  action: { kind: "tool-call", callId: "c1", toolName: "pay", input: { cents: 9_900, to: "<b>Fjord Inn</b>" } },
  prompt: "Run pay? A tool of mode external needs a person's consent.",
  display: "confirmation",
  kind: "approval",
  allowFreeform: true,
  argumentsHash: `sha256:${"0".repeat(64)}`,
  options: [
    { id: "approve", label: "Approve", style: "primary" },
    { id: "approve_session", label: "Approve every call of pay in this session" },
    { id: "deny", label: "Deny", style: "danger" },
  ],
};

export const QUESTION: InputRequest = {
  requestId: "q2",
  action: { kind: "tool-call", callId: "c2", toolName: "ask_question", input: {} },
  prompt: "Which city?",
  display: "select",
  kind: "question",
  allowFreeform: true,
  options: [
    { id: "oslo", label: "Oslo", description: "in the south" },
    { id: "bergen", label: "Bergen" },
  ],
};

export const CALL: CallView = {
  key: "m/c1",
  call: { id: "c1", name: "pay", arguments: { cents: 9_900 } },
  status: "succeeded",
  progress: { stage: "settled", status: "completed", durationMs: 1_234, mode: "destructive" },
  result: {
    id: "m/c1",
    role: "tool",
    content: "<script>paid</script>",
    createdAt: "2026-01-31T09:30:00Z",
    toolResult: { success: true, data: "paid" },
  },
};

export function message(n: number, role: "user" | "assistant" = "assistant", content = `message ${n}`): ChatItem {
  return {
    kind: "message",
    id: `m${n}`,
    message: { id: `m${n}`, role, content, createdAt: "2026-01-31T09:30:00Z" },
    calls: [],
    isLive: false,
  };
}

const span = (spanId: string, name: string, from: number, to: number | undefined, parentId?: string): TraceSpan => ({
  spanId,
  name,
  startAt: new Date(Date.UTC(2026, 0, 31) + from).toISOString(),
  ...(to === undefined ? {} : { endAt: new Date(Date.UTC(2026, 0, 31) + to).toISOString() }),
  ...(parentId === undefined ? {} : { parentId }),
});

export const TRACE: TraceInfo = {
  spans: [
    span("3", "tool.dispatch:pay", 600, 900, "1"),
    span("1", "run", 0, 1_000),
    span("2", "llm.complete", 100, 600, "1"),
    span("4", "wait", 900, undefined, "1"),
    span("5", "orphan", 950, 960, "gone"),
  ],
  events: [{ eventId: "e1", spanId: "3", name: "policy.asked", at: "2026-01-31T00:00:00.700Z" }],
};

export const DECISION: Decision = {
  id: "d1",
  timestamp: "2026-01-31T09:30:00Z",
  nodeId: "clerk",
  intent: "Pay the bill",
  decisionType: "tool_selection",
  options: [
    { id: "pay", description: "Pay now" },
    { id: "wait", description: "Wait", pros: ["cheaper"], cons: ["late"], confidence: 0.4 },
  ],
  chosenOptionId: "pay",
  reasoning: "It is due today.",
  outcome: { success: false, error: "no money", latencyMs: 1_500 },
  evaluation: { goalAligned: false, betterOptionExisted: true, betterOptionId: "wait" },
};

export function events(count: number): Event[] {
  return Array.from({ length: count }, (_, at) => ({
    type: at % 2 === 0 ? "step.started" : "message.completed",
    data: { at },
    meta: { at: "2026-01-31T09:30:00.123Z" },
    seq: at + 1,
  }));
}
