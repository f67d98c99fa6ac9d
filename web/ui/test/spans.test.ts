import type { JsonObject, TraceSpan } from "@windlass/protocol";
import type { TraceInfo } from "@windlass/protocol/client";
import { describe, expect, it } from "vitest";
import { axisOf, rowsOf, ticksOf, traceShape, type TraceNode } from "../src/spans.js";

const DAY = Date.UTC(2026, 0, 31);
const at = (ms: number): string => new Date(DAY + ms).toISOString();

function span(
  spanId: string,
  name: string,
  from: number,
  to?: number,
  parentId?: string,
  attrs?: JsonObject,
): TraceSpan {
  return {
    spanId,
    name,
    startAt: at(from),
    ...(to === undefined ? {} : { endAt: at(to) }),
    ...(parentId === undefined ? {} : { parentId }),
    ...(attrs === undefined ? {} : { attrs }),
  };
}

function trace(runId: string, ...spans: TraceSpan[]): TraceInfo {
  return { trace: { traceId: runId, sessionId: "s", chatId: "c", userId: "", startedAt: at(0) }, spans, events: [] };
}

const MINUTE = 60_000;
const usage = { inputTokens: 100, outputTokens: 10, costMicros: 5 };
const PARENT = trace(
  "r1",
  span("r1", "run", 0, MINUTE + 1_000, undefined, { agentId: "lead", modelId: "m" }),
  span("r1/turn/2", "turn", 0, MINUTE + 1_000, "r1"),
  span("r1/step/3", "llm.complete", 0, 200, "r1/turn/2", {
    stepIndex: 0,
    modelId: "gpt",
    ...usage,
    cacheReadTokens: 92,
  }),
  span("r1/wait/6.0", "wait", 200, MINUTE, "r1/turn/2", {
    kind: "approval",
    callId: "c1",
    toolName: "pay",
    responder: "ann",
    outcome: "approved",
  }),
  span("r1/call/4.0", "tool.dispatch:pay", MINUTE, MINUTE + 300, "r1/turn/2", {
    kind: "tool-call",
    callId: "c1",
    toolName: "pay",
    arguments: "cents 4990",
    mode: "external",
    effect: "once",
    attempt: 2,
  }),
  span("r1/call/9.0", "tool.dispatch:writer", MINUTE + 300, MINUTE + 900, "r1/turn/2", {
    kind: "subagent-call",
    toolName: "writer",
    childRunId: "r2",
    name: "writer",
  }),
);
const CHILD = trace(
  "r2",
  span("r2", "run", MINUTE + 310, MINUTE + 890, undefined, { agentId: "writer" }),
  span("r2/step/2", "llm.complete", MINUTE + 320, MINUTE + 500, "r2", { stepIndex: 0, ...usage }),
  span("r2/call/3.0", "tool.dispatch:run_code", MINUTE + 500, MINUTE + 800, "r2", {
    toolName: "run_code",
    effect: "read",
    code: "E",
    message: "shop.errors.Broken: it broke",
    status: "failed",
  }),
  span("r2/call/5.0", "tool.dispatch:look", MINUTE + 510, MINUTE + 600, "r2/call/3.0", {
    toolName: "look",
    effect: "read",
  }),
);

const told = (nodes: readonly TraceNode[]): unknown[] =>
  rowsOf(nodes, { closed: new Set() }).map(({ node, depth }) => [depth, node.kind, node.name, node.about]);

describe("the tree of a trace", () => {
  it("has turns left out, subagents under their calls and calls of a program under the program", () => {
    expect(told(traceShape([PARENT, CHILD]).roots)).toEqual([
      [0, "agent", "lead", "m · 1 step"],
      [1, "model", "Model call 1", "gpt · cache 92 %"],
      [1, "wait", "Approval: pay", "approved by ann"],
      [1, "tool", "pay", "cents 4990 · approved by ann after 59.8 s · external · once"],
      [1, "agent", "writer", "subagent · 1 step"],
      [2, "model", "Model call 1", ""],
      [2, "code", "run_code", "it broke · 1 call"],
      [3, "tool", "look", ""],
    ]);
  });

  it("sums tokens and cost upwards", () => {
    const [root] = traceShape([PARENT, CHILD]).roots;
    expect([root?.tokens, root?.costMicros]).toEqual([220, 10]);
    expect(root?.children.find(({ name }) => name === "writer")?.tokens).toBe(110);
    expect(root?.children.find(({ name }) => name === "pay")?.costMicros).toBeUndefined();
  });

  it.each([
    ["running", undefined, { kind: "tool-call", effect: "once" }],
    ["waiting", undefined, { kind: "tool-call" }],
    ["interrupted", undefined, { kind: "tool-call", effect: "once", interruptedAt: at(5) }],
    ["done", 10, { status: "completed" }],
    ["failed", 10, { status: "failed", code: "E" }],
    ["denied", 10, { status: "rejected", code: "denied" }],
    ["stopped", 10, { status: "failed", code: "cancelled" }],
    ["skipped", 10, { status: "skipped", interruptedAt: at(5) }],
  ] as const)("says that a call is %s", (status, end, attrs) => {
    const { roots } = traceShape(
      [trace("r", span("r", "run", 0), span("c", "tool.dispatch:pay", 1, end, "r", attrs))],
      DAY + 99,
    );
    expect(roots[0]?.children[0]?.status).toBe(status);
  });

  it("a run that waits says so, and what for; its subagent as its own run says", () => {
    const waits = { waitsOn: "subagent", waitsSince: at(40) };
    const lead = trace(
      "r1",
      span("r1", "run", 0, undefined, undefined, { agentId: "lead", ...waits }),
      span("c", "tool.dispatch:writer", 30, undefined, "r1", { childSessionId: "s2", childRunId: "r2" }),
    );
    const writer = (attrs: JsonObject): TraceInfo => trace("r2", span("r2", "run", 31, undefined, undefined, attrs));
    const [root] = traceShape([lead, writer({ waitsOn: "timer", waitsSince: at(50) })], DAY + 99).roots;
    expect([root?.status, root?.waitsMs, root?.about]).toEqual(["waiting", DAY + 40, "waits for a subagent"]);
    const child = root?.children[0];
    expect([child?.status, child?.waitsMs, child?.about]).toEqual([
      "waiting",
      DAY + 50,
      "waits for a timer · subagent",
    ]);
    const [busy] = traceShape([lead, writer({})], DAY + 99).roots;
    expect(busy?.children[0]?.status).toBe("running");
  });

  it("an interrupted call ends where its process ended", () => {
    const call = span("c", "tool.dispatch:pay", 1, undefined, "r", { effect: "once", interruptedAt: at(5) });
    const { roots } = traceShape([trace("r", span("r", "run", 0), call)], DAY + MINUTE);
    expect(roots[0]?.children[0]?.endMs).toBe(DAY + 5);
  });

  it("shows failed spans with those above them", () => {
    const rows = rowsOf(traceShape([PARENT, CHILD]).roots, { closed: new Set(), failedOnly: true });
    expect(rows.map(({ node }) => node.name)).toEqual(["lead", "writer", "run_code"]);
  });
});

describe("the axis", () => {
  it("folds a wait of a minute, so that a second of work fills most of it", () => {
    const shape = traceShape([PARENT, CHILD]);
    const whole = axisOf(shape, false);
    const folded = axisOf(shape, true);
    expect(whole.wholeMs).toBe(MINUTE + 1_000);
    const work = shape.busy.reduce((sum, [from, to]) => sum + to - from, 0);
    expect(work / folded.wholeMs).toBeGreaterThan(0.6);
    expect(folded.wholeMs).toBeLessThan(1_500);
  });

  it("keeps the order of moments", () => {
    const axis = axisOf(traceShape([PARENT, CHILD]), true);
    const places = Array.from({ length: 200 }, (_, step) => axis.at(DAY + step * 310));
    expect(places).toEqual(places.toSorted((one, other) => one - other));
    expect([axis.at(DAY), axis.at(DAY + MINUTE + 1_000)]).toEqual([0, axis.wholeMs]);
  });

  it("has ticks at round places", () => {
    expect(ticksOf(0, 9_400, 2)).toEqual([
      [0, "0 ms"],
      [5_000, "5.0 s"],
    ]);
    expect(ticksOf(1_234, 1_334, 4).map(([ms]) => ms)).toEqual([1_250, 1_300]);
  });

  it("10,000 spans are one tree", () => {
    const spans = Array.from({ length: 10_000 }, (_, n) =>
      span(`c${n}`, "tool.dispatch:look", n, n + 1, "r", { effect: "read" }),
    );
    const { roots } = traceShape([trace("r", span("r", "run", 0, 10_001), ...spans)]);
    expect(rowsOf(roots, { closed: new Set() })).toHaveLength(10_001);
  });
});
