import { EMPTY_CONVERSATION, reduceConversation, type Event } from "@windlass/protocol";
import { describe, expect, it } from "vitest";
import { actsOf, folded, pairUp } from "../src/pages/compare.js";
import { callFacts, forkPoint, isStory, lossOf, recordsOfCall, stepFacts, tell, TimeMachine } from "../src/records.js";
import { billOf, cachedShare } from "../src/costs.js";
import { comparable } from "../src/pages/run.js";
import { LIST, SEARCH, to } from "../src/addresses.js";
import { chipsOf, fieldTime } from "../src/filters.js";
import { viewOf } from "../src/pages/runs.js";
import { addressOf, searchIn } from "../src/router.js";
import { changedArguments, diffWords } from "../src/changes.js";
import { differenceOf, fieldsOf, figuresFrom, workIn } from "../src/pages/playground.js";
import { Texts } from "../src/storage.js";
import { undoGroups } from "../src/undo.js";
import { aboutCall, namedFrom, withNew } from "../src/queries.js";
import { intervalOf, niceCount, niceMax, niceMs, scaleText, stacked, valueAt } from "../src/chart.js";
import { askedFor, wantedOf } from "../src/pages/approvals.js";
import { branchesOf, fixFor } from "../src/pages/chat.js";
import { causeWords } from "../src/pages/failures.js";
import {
  cachedWords,
  changeOf,
  leftOf,
  pointsOf,
  rateRow,
  scopeOf,
  seriesOf,
  toolSeries,
  waitingByKind,
} from "../src/pages/overview.js";
import { feedbackOn, thumbOf, toldOf } from "../src/judging.js";
import { tagsIn } from "../src/form.js";
import { doingOf, everyone, familyOf, piecesOf } from "../src/family.js";
import { formatCost, formatCount, formatDuration, formatPercent, type TraceNode } from "@windlass/ui";
import { runAt } from "../src/pages/chat.js";
import type { Approval, FeedbackInfo, RunNumbers, RunRow, Stats } from "@windlass/protocol/client";

type Draft = readonly [type: string, data: Record<string, unknown>];

/** Records of one run, numbered from one. */
function journal(drafts: readonly Draft[], runId = "r1"): readonly Event[] {
  return drafts.map(([type, data], at) => ({
    type,
    data: data as Event["data"],
    sessionId: "s",
    runId,
    seq: at + 1,
    meta: { at: "2026-01-01T00:00:00.000Z" },
  }));
}

const PLACE = { sequence: 0, turnId: "turn_0" };
const step = (stepIndex: number) => ({ ...PLACE, stepIndex });
const action = { kind: "tool-call", callId: "c1", toolName: "look", input: { city: "Oslo" } };
const ONE_CALL: readonly Draft[] = [
  ["session.started", {}],
  ["run.started", { runId: "r1", agentId: "a", packageId: "a", packageFingerprint: "f", routeId: "x", modelId: "m" }],
  ["turn.started", PLACE],
  ["message.received", { ...PLACE, message: "Hello" }],
  ["step.started", { ...step(0), modelId: "m", promptMessageCount: 1 }],
  ["message.completed", { ...step(0), message: "I look.", finishReason: "tool-calls" }],
  ["actions.requested", { ...step(0), actions: [action] }],
  ["step.completed", { ...step(0), finishReason: "tool-calls", latencyMs: 5 }],
  [
    "policy.decided",
    {
      ...step(0),
      stage: "pre_tool",
      callId: "c1",
      toolName: "look",
      decision: { decision: "allow", code: "x", reason: "It reads.", policyRefs: [] },
    },
  ],
  ["action.started", { ...step(0), callId: "c1", toolName: "look", mode: "read" }],
  [
    "action.result",
    {
      ...step(0),
      status: "completed",
      durationMs: 3,
      result: { kind: "tool-result", callId: "c1", toolName: "look", output: "rain" },
    },
  ],
  ["step.started", { ...step(1), modelId: "m", promptMessageCount: 3 }],
  ["message.completed", { ...step(1), message: "Rain.", finishReason: "stop" }],
  ["step.completed", { ...step(1), finishReason: "stop" }],
  ["turn.completed", PLACE],
  ["run.completed", { runId: "r1", output: "Rain." }],
  ["session.waiting", { wait: "next-user-message" }],
];

it("records are described in plain text", () => {
  const told = journal(ONE_CALL).map(tell);
  expect(told[4]?.detail).toBe("m, 1 message");
  expect(told[9]?.detail).toBe("mode read");
});

it("tokens of a prompt that were paid again name the part that changed", () => {
  expect(lossOf({ tokens: 4_096, part: "tool", index: 1, name: "search" })).toBe(
    "4,096 cached tokens paid again: changed at tool definition 2 (search)",
  );
  expect(lossOf({ tokens: 4_096, part: "message", index: 0 })).toMatch("changed at message 1");
  expect(lossOf({ tokens: 4_096, part: "system" })).toMatch("the system prompt changed");
  expect(lossOf({ tokens: 1 })).toBe("1 cached token paid again: the prompt did not change");
});

it("the bill of a model call begins with what was paid again, then the most expensive part", () => {
  const parts = [
    { unit: "input_tokens", count: 10, micros: 1_000 },
    { unit: "output_tokens", count: 2, micros: 2_000_000 },
  ];
  const step = { stepIndex: 0, modelId: "m", usage: {}, price: { source: "table" as const, parts } };
  expect(billOf(step)).toBe(`2 output tokens ${formatCost(2_000_000)}, 10 input tokens ${formatCost(1_000)}`);
  expect(billOf({ ...step, price: undefined, loss: { tokens: 5, part: "system" } })).toMatch(
    "5 cached tokens paid again",
  );
  expect(billOf({ ...step, price: { source: "none", gap: "unlisted" } })).toBe("no price: unlisted");
  expect(cachedShare({ inputTokens: 200, cacheReadTokens: 50 })).toBe(formatPercent(0.25));
  expect(cachedShare({})).toBe("–");
});

describe("the fork point", () => {
  const records = [...journal(ONE_CALL)];

  it("of an agent message is after it and the results of its calls", () => {
    expect(forkPoint(records, { id: "s/turn_0/0", role: "assistant" })).toBe(12);
    expect(forkPoint(records, { id: "s/turn_0/1", role: "assistant" })).toBe(17);
  });

  it("of a user message is before it with its run and turn, and missing for the first message", () => {
    expect(forkPoint(records, { id: "s/4", role: "user" })).toBe(0);
    const more = journal([...ONE_CALL, ...ONE_CALL.slice(1, 4)]);
    expect(forkPoint(more, { id: "s/20", role: "user" })).toBe(17);
  });

  it("is unknown for a message that is not in the journal", () => {
    expect(forkPoint(records, { id: "s/99", role: "user" })).toBeUndefined();
  });
});

describe("the context of a record", () => {
  const records = journal(ONE_CALL);

  it("is the whole call: arguments, decision and result", () => {
    for (const seq of [7, 9, 10, 11]) {
      const [call] = callFacts(records, records[seq - 1] as Event);
      expect(call).toMatchObject({
        name: "look",
        input: { city: "Oslo" },
        decisions: [{ decision: "allow" }],
        result: { status: "completed" },
      });
    }
  });

  it("has the requests of a subagent with its call, not with a call of the same id", () => {
    const action = { kind: "tool-call", callId: "c1", toolName: "pay", input: {} };
    const request = { requestId: "q", action, prompt: "Pay?", display: "confirmation", kind: "approval" };
    const asked = { ...PLACE, stepIndex: 0, requests: [request], childSessionId: "s2", callId: "c2" };
    const call = (callId: string) => ({ kind: "tool-call", callId, toolName: callId, input: {} });
    const actions = { ...PLACE, stepIndex: 0, actions: [call("c1"), call("c2")] };
    const both = journal([
      ["actions.requested", actions],
      ["input.requested", asked],
    ]);
    const facts = callFacts(both, both[0] as Event);
    expect(facts.map((one) => [one.callId, one.requests.length])).toEqual([
      ["c1", 0],
      ["c2", 1],
    ]);
    expect(callFacts(both, both[1] as Event).map((one) => one.callId)).toEqual(["c2"]);
  });

  it("is one call of several, with who approved it after how long, and its own records", () => {
    const call = (callId: string) => ({ kind: "tool-call", callId, toolName: callId, input: { of: callId } });
    const request = { requestId: "q", action: call("c2"), prompt: "?", display: "confirmation", kind: "approval" };
    const response = { requestId: "q", optionId: "approve", responder: "ann" };
    const all = journal([
      ["step.started", { ...step(0), modelId: "m" }],
      ["actions.requested", { ...step(0), actions: [call("c1"), call("c2")] }],
      ["input.requested", { ...step(0), requests: [request] }],
      ["input.resolved", { ...step(0), resolutions: [{ requestId: "q", outcome: "approved", response }] }],
      ["step.completed", { ...step(0), finishReason: "tool-calls" }],
    ]).map((one, at) => ({ ...one, meta: { at: `2026-01-01T00:00:0${at}.000Z` } }));
    const [only, ...others] = callFacts(all, all[1] as Event, "c2");
    expect([only?.name, others]).toEqual(["c2", []]);
    expect(only?.answers).toMatchObject([{ outcome: "approved", by: "ann", waitedMs: 1_000 }]);
    expect(recordsOfCall(all, all[1] as Event, "c2").map(({ seq }) => seq)).toEqual([2, 3]);
    expect(stepFacts(all, all[0] as Event)?.calls).toEqual([
      { spanId: "r1/call/2.0", name: "c1", input: { of: "c1" } },
      { spanId: "r1/call/2.1", name: "c2", input: { of: "c2" } },
    ]);
  });

  it("is the model call, and where its prompt is found", () => {
    const facts = stepFacts(records, records[12] as Event);
    expect(facts?.place).toEqual({ runId: "r1", stepIndex: 1 });
    expect(facts?.promptCount).toBe(3);
    expect(facts?.said).toBe("Rain.");
    expect(stepFacts(records, records[3] as Event)).toBeUndefined();
  });

  it("is described in plain text; bookkeeping is left out, and unknown types keep their name", () => {
    expect(tell(records[6] as Event)).toMatchObject({ title: "Model asks for look", tone: "model" });
    const { data } = records[6] as Event;
    expect(tell({ ...(records[6] as Event), data: { ...data, parentCallId: "p" } })).toMatchObject({
      title: "Program asks for look",
      depth: 2,
    });
    expect(records.filter(isStory)).not.toContain(records[2]);
    expect(tell({ ...(records[0] as Event), type: "some.thing", data: { a: 1 } })).toMatchObject({
      title: "some.thing",
      detail: '{"a":1}',
    });
  });
});

describe("a session as it was", () => {
  it("is the same by every way to a record", () => {
    const said: Draft[] = Array.from({ length: 700 }, (_, at) => [
      "message.received",
      { ...PLACE, message: `Word ${at}` },
    ]);
    const records = journal([["session.started", {}], ...said]);
    const machine = new TimeMachine();
    for (const seq of [701, 3, 250, 251, 600, 0, 499, 500]) {
      expect(machine.at(records, seq).chat).toEqual(reduceConversation(EMPTY_CONVERSATION, records.slice(0, seq)).chat);
    }
    expect(machine.at(records, 10_000).chat.seq).toBe(701);
  });
});

describe("two runs side by side", () => {
  it("are aligned, with their differences marked", () => {
    const other = journal(
      ONE_CALL.map(([type, data]) =>
        type === "action.result"
          ? [type, { ...data, durationMs: 900, result: { ...(data["result"] as object), output: "sun" } }]
          : [type, data],
      ),
      "r2",
    );
    const pairs = pairUp(actsOf(journal(ONE_CALL), "r1"), actsOf(other, "r2"));
    expect(pairs.filter(({ isSame }) => !isSame)).toMatchObject([
      { first: { detail: "rain" }, second: { detail: "sun" } },
    ]);
  });

  it("have separate rows for steps of only one run", () => {
    const act = (title: string, seq: number) => ({ title, detail: "", seq });
    const pairs = pairUp([act("a", 1), act("b", 2), act("c", 3)], [act("a", 1), act("c", 2), act("d", 3)]);
    expect(pairs.map(({ first, second }) => [first?.title, second?.title])).toEqual([
      ["a", "a"],
      ["b", undefined],
      ["c", "c"],
      [undefined, "d"],
    ]);
    expect(pairUp([], [])).toEqual([]);
  });

  it("have a call that failed opposite to the same call that did not", () => {
    const act = (title: string, detail: string) => ({ title, detail, seq: 1 });
    const failed = [act("Tool pay failed", "declined"), act("Model call failed", ""), act("Run failed", "declined")];
    const paid = [act("Tool pay completed", "receipt"), act("Model said", "Paid."), act("Run completed", "Paid.")];
    expect(pairUp(failed, paid).map(({ first, second, isSame }) => [first?.title, second?.title, isSame])).toEqual([
      ["Tool pay failed", "Tool pay completed", false],
      ["Model call failed", undefined, false],
      [undefined, "Model said", false],
      ["Run failed", "Run completed", false],
    ]);
  });
});

it("a run is compared with runs of the same wish first, then with the newest", () => {
  const row = (runId: string, input: string): RunRow =>
    ({ runId, input, status: "completed", agentId: "desk" }) as RunRow;
  const [other, newer, older] = [row("r3", "Where is it?"), row("r2", "Refund 7"), row("r0", "Refund 7")];
  const similar = row("r4", "Refund 7 and 8");
  const offered = comparable("r1", "Refund 7", [similar, newer, row("r1", "Refund 7"), older], [other, newer]);
  expect(offered.map(([id, words]) => [id, words.startsWith("same wish: Refund 7 ·")])).toEqual([
    ["r2", true],
    ["r0", true],
    ["r4", false],
    ["r3", false],
  ]);
  expect(comparable("r1", undefined, [], [other])).toHaveLength(1);
});

describe("acts of one run only", () => {
  const act = (title: string, seq: number) => ({ title, detail: "", seq });
  const alone = (from: number, count: number) =>
    Array.from({ length: count }, (_, at) => ({ first: act("a", from + at), second: undefined, isSame: false }));
  const both = { first: act("b", 9), second: act("b", 9), isSame: true };

  it("are folded where there are many, until they are opened", () => {
    const pairs = [...alone(1, 3), both, ...alone(10, 4)];
    const rows = folded(pairs, new Set());
    expect(rows.map((row) => ("pairs" in row ? [row.side, row.pairs.length] : 1))).toEqual([1, 1, 1, 1, ["first", 4]]);
    expect(folded(pairs, new Set(["10 "]))).toEqual(pairs);
    expect(folded([{ first: undefined, second: act("c", 1), isSame: false }, ...alone(1, 4)], new Set())).toHaveLength(
      2,
    );
  });
});

describe("addresses", () => {
  it("may hold any id, and leave out empty parts", () => {
    expect(to("session", ["a/b c?"], { at: 3, filter: "", view: undefined })).toBe("/sessions/a%2Fb%20c%3F?at=3");
    expect(to("chat")).toBe("/chat");
  });

  it("give typed values: what a parameter does not know is its default, or nothing", () => {
    expect(searchIn(SEARCH.run, "view=journal&at=12&span=a%2Fb")).toMatchObject({
      view: "journal",
      at: 12,
      span: "a/b",
    });
    for (const at of ["0", "-1", "1.5", "x", ""])
      expect(searchIn(SEARCH.run, `view=wrong&at=${at}&span=`)).toEqual({ view: "trace" });
    expect(searchIn(SEARCH.overview, "range=2d&compare=yes&cost-by=tool&time-by=tool")).toEqual({
      range: "24h",
      "time-by": "tool",
    });
  });

  it("keep what they had beside what is changed", () => {
    expect(addressOf("/runs", { text: undefined, tag: "a b" }, "?text=x&sort=cost&own=1")).toBe(
      "/runs?sort=cost&own=1&tag=a+b",
    );
  });
});

describe("runs by their ids", () => {
  it("are asked for in addresses that the server takes", () => {
    const short = Array.from({ length: 150 }, (_, at) => `r${at}`);
    expect(namedFrom(short, 0)).toHaveLength(100);
    expect(namedFrom(short, 100)).toEqual(short.slice(100));
    const long = Array.from({ length: 50 }, () => "/".repeat(500));
    expect(namedFrom(long, 0)).toHaveLength(3);
  });
});

describe("the filters of an address", () => {
  it("have a chip if they count, and none if their value is not known", () => {
    const wrong = searchIn(LIST, "status=bogus&cost=abc&seconds=-1&feedback=so&since=yesterday&until=2026-99-99");
    expect(chipsOf(wrong)).toEqual([]);
    expect(viewOf(wrong)).toEqual({ filter: { subagents: false } });
    const right = searchIn(LIST, "status=failed&cost=0.5&feedback=down&agent=desk");
    expect(chipsOf(right).map(([, words]) => words)).toEqual([
      "status: failed",
      "agent: desk",
      "cost ≥ $0.5",
      "thumb down",
    ]);
    expect(viewOf(right).filter).toMatchObject({
      status: "failed",
      costMin: 500_000,
      feedback: "down",
      agent: "desk",
    });
  });

  it("name a moment in local time, as a field of date and time does", () => {
    const local = "2026-11-17T09:45";
    expect(fieldTime(new Date(local).toISOString())).toBe(local);
    expect(fieldTime("0026-11-07T09:05")).toBe("0026-11-07T09:05");
    expect([fieldTime(undefined), fieldTime("soon")]).toEqual(["", ""]);
  });
});

describe("an interrupted call", () => {
  const begun = { ...step(0), callId: "c1", toolName: "look", effect: "once", idempotencyKey: "k" };
  const records = journal([
    ...ONE_CALL.slice(0, 8),
    ["action.started", begun],
    ["recovery.effect_found", { callId: "c1", effect: "once", toolName: "look", requestId: "q" }],
    ["recovery.effect_settled", { callId: "c1", choice: "retry", by: "ann" }],
    ["action.started", begun],
  ]);

  it("is told attempt by attempt", () => {
    const [record] = records.slice(-1);
    const [call] = record === undefined ? [] : callFacts(records, record);
    expect(call?.attempts.map(({ text }) => text)).toEqual([
      "Attempt 1 began.",
      "Its process had ended. The outcome is unknown.",
      "ann chose: run it again, with the same key.",
      "Attempt 2 began.",
    ]);
  });

  it("is known by its last beginning, its attempts and its key", () => {
    const { known, said } = aboutCall(records, "c1");
    expect(known).toEqual({ startedAt: "2026-01-01T00:00:00.000Z", attempt: 2, idempotencyKey: "k" });
    // The call is marked where it was asked for.
    expect(said.map(({ isUser, text, isAbout }) => [isUser, text, isAbout])).toEqual([
      [true, "Hello", false],
      [false, "I look.", true],
    ]);
  });
});

describe("records in words", () => {
  const one = (type: string, data: Record<string, unknown>) => journal([[type, data]])[0] as Event;

  it("the reasoning of a model is told, and is part of its call", () => {
    const reasoned = one("reasoning.completed", { ...step(0), reasoning: "Which order?" });
    expect(tell(reasoned)).toMatchObject({ title: "Model thought", detail: "Which order?" });
    const records = journal([...ONE_CALL.slice(0, 5), ["reasoning.completed", { ...step(0), reasoning: "Hm." }]]);
    expect(stepFacts(records, records[5] as Event)?.reasoning).toBe("Hm.");
  });

  it("a call that was stopped with its run did not fail", () => {
    const result = { kind: "tool-result", callId: "c1", toolName: "look", output: null, isError: true };
    const error = { code: "cancelled", message: "The run was cancelled." };
    const stopped = one("action.result", { ...step(0), result, status: "failed", error });
    expect(tell(stopped)).toMatchObject({ title: "Tool look stopped", tone: "plain" });
  });

  it("a part of a journal is read like the whole", () => {
    const records = journal(ONE_CALL);
    const part = records.slice(3);
    const record = records[7] as Event;
    expect(stepFacts(part, record)).toEqual(stepFacts(records, record));
  });
});

describe("the limits of the overview", () => {
  const people = { name: "people", per: "month", timezone: "UTC", owner: "*" } as const;
  it.each([
    [{ ...people, maxCostMicros: 5_000_000 }, "$5.00 a month", "*"],
    [{ ...people, per: "run", owner: undefined, maxTokens: 500_000 }, "500k tokens a run", ""],
    [
      { ...people, maxCostMicros: 5_000_000, subject: "ann", period: "2026-01", costMicrosLeft: 3_800_000 },
      "$3.80 of $5.00",
      "ann",
    ],
    [
      {
        ...people,
        maxCostMicros: 0,
        maxTokens: 10,
        agent: "clerk",
        period: "2026-01",
        costMicrosLeft: 0,
        tokensLeft: 9,
      },
      "$0, 9 tokens of $0, 10 tokens",
      "* clerk",
    ],
  ] as const)("says what is left of %j", (limit, left, scope) => {
    expect(leftOf(limit)).toBe(left);
    expect(scopeOf(limit)).toBe(scope);
  });
});

describe("the numbers of the overview", () => {
  const numbers = (runs: number, failed = 0): RunNumbers => ({
    runs,
    completed: runs - failed,
    failed,
    cancelled: 0,
    open: 0,
    inputTokens: 0,
    outputTokens: 0,
    costMicros: 0,
  });
  const buckets = (...counts: readonly number[]) =>
    counts.map((runs, at) => ({ ...numbers(runs), at: `2026-01-01T0${at}:00:00.000Z` }));
  const stats: Stats = {
    since: "2026-01-01T00:00:00.000Z",
    until: "2026-01-01T02:00:00.000Z",
    bucketS: 3_600,
    total: numbers(9),
    buckets: buckets(4, 5),
    waiting: { runs: 0, requests: 0 },
    failingTools: [],
  };

  it("say which share of the input came from a cache", () => {
    expect(cachedWords(numbers(1))).toBe("");
    expect(cachedWords({ ...numbers(1), inputTokens: 1_000, cacheReadTokens: 250 })).toBe(" (25 % cached)");
  });

  it("are one row, or one for each group and one for all others", () => {
    const runs = (one: RunNumbers): number => one.runs;
    expect(seriesOf(stats, runs, "runs")).toEqual([{ label: "runs", values: [4, 5] }]);
    const groups = [
      { name: "desk", total: numbers(5), buckets: buckets(3, 2) },
      { name: `sha256:${"ab".repeat(32)}`, total: numbers(2), buckets: buckets(1, 1) },
    ];
    expect(seriesOf({ ...stats, groups }, runs, "runs")).toEqual([
      { label: "desk", values: [3, 2], total: "5" },
      { label: "abababab", values: [1, 1], total: "2" },
      { label: "others", values: [0, 2], total: "2" },
    ]);
    const all = [{ name: "desk", total: numbers(9), buckets: buckets(4, 5) }];
    expect(seriesOf({ ...stats, groups: all }, runs, "runs").map(({ label }) => label)).toEqual(["desk"]);
  });

  it("stand on each other, and their scale ends at a round number", () => {
    expect(
      stacked([
        { label: "a", values: [1, 2] },
        { label: "b", values: [undefined, 3] },
      ]),
    ).toEqual([
      [1, 5],
      [1, 2],
    ]);
    expect([0, 1, 3, 11, 61_000, 0.4].map(niceMax)).toEqual([1, 1, 4, 20, 80_000, 0.4]);
    // Half of it is a whole number too: there are no 2.5 runs.
    expect([0, 1, 3, 5, 9].map(niceCount)).toEqual([2, 2, 4, 6, 10]);
    expect([300, 1_100, 45_000, 3_700_000, 3 * 86_400_000].map(niceMs)).toEqual([
      400,
      2_000,
      60_000,
      2 * 3_600_000,
      4 * 86_400_000,
    ]);
    expect([0, 400_000, 2_000_000].map((value) => scaleText(value, formatCost))).toEqual(["0", "$0.40", "$2"]);
    expect([15_000, 90_000].map((value) => scaleText(value, formatDuration))).toEqual(["15 s", "1 min 30 s"]);
  });

  it("of failures are shares, with the counts beside them; where nothing ran there is none", () => {
    const row = rateRow("failed", [
      { count: 4, failed: 1 },
      { count: 0, failed: 0 },
      { count: 3, failed: 0 },
    ]);
    expect(row.values).toEqual([0.25, undefined, 0]);
    expect([0, 1, 2].map((at) => valueAt(row, at, formatPercent))).toEqual(["25 % (1 of 4)", "none", "0 % (0 of 3)"]);
    expect(rateRow("desk", [], { count: 8, failed: 1 }).total).toBe("12.5 %");
  });

  it("name a cause by its words, not by the class that a program raised", () => {
    expect(causeWords("windlass.errors.Rejected: there is no order 998")).toBe("There is no order 998");
    expect(causeWords("ValueError: no such city")).toBe("ValueError: no such city");
    expect(causeWords("example.com: unreachable")).toBe("example.com: unreachable");
  });

  it("are compared with the time before, if anything ran then", () => {
    expect(changeOf(108, 100)).toBe("▲ 8 %");
    expect(changeOf(50, 100)).toBe("▼ 50 %");
    expect([changeOf(5, 0), changeOf(5, 5), changeOf(undefined, 5), changeOf(5, undefined)]).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    expect(pointsOf(numbers(1_000, 19), numbers(1_000, 23))).toBe("▼ 0.4 points");
    expect(pointsOf(numbers(10, 1), numbers(0))).toBeUndefined();
  });

  it("name an interval by its day and its hours", () => {
    expect(intervalOf(Date.parse("2026-01-31T09:30:00") / 1_000, 1_800)).toBe("31 Jan, 09:30 to 10:00");
    expect(intervalOf(Date.parse("2026-01-31T00:00:00") / 1_000, 86_400)).toBe("31 Jan to 1 Feb");
  });

  it("of people is about one thing each, and its newest thumb counts", () => {
    const one = (more: object): FeedbackInfo => ({ runId: "r", at: "2026-01-31T09:00:00.000Z", ...more });
    const all = [one({ thumb: "up" }), one({ thumb: "down", stepIndex: 0 }), one({ note: "Why?", stepIndex: 0 })];
    expect(feedbackOn(all, { runId: "r" })).toEqual([all[0]]);
    expect(thumbOf(feedbackOn(all, { runId: "r", stepIndex: 0 }))).toBe("down");
    expect(feedbackOn(all, { runId: "r", messageId: "m" })).toEqual([]);
    expect(toldOf(one({ thumb: "down", score: 0.5, note: "No source", tags: ["a", "b"] }))).toBe(
      "−1 · score 50 % · “No source” · a, b",
    );
    expect(tagsIn(" vague,, weather ,vague")).toEqual(["vague", "weather"]);
    const runs = [
      { runId: "second", startedAt: "2026-01-31T10:00:00.000Z" },
      { runId: "first", startedAt: "2026-01-31T09:00:00.000Z" },
      { runId: "queued" },
    ];
    expect(runAt(runs, "2026-01-31T09:59:00.000Z")).toBe("first");
    expect(runAt(runs, "2026-01-31T10:00:00.000Z")).toBe("second");
    expect(runAt(runs, "2026-01-31T08:00:00.000Z")).toBeUndefined();
  });

  it("of a trace that grows: only what is new is asked for, and stands in its place", () => {
    const span = (spanId: string, endAt?: string) => ({
      spanId,
      name: spanId,
      startAt: "2026-01-31T09:00:00.000Z",
      endAt,
    });
    const trace = { traceId: "r", sessionId: "s", chatId: "s", userId: "", startedAt: "2026-01-31T09:00:00.000Z" };
    const known = { trace, spans: [span("run"), span("one"), span("two")], events: [], seq: 5 } as Parameters<
      typeof withNew
    >[0];
    expect(withNew(known, { trace, spans: [], events: [], seq: 6 })).toBe(known);
    const end = "2026-01-31T09:00:01.000Z";
    const found = { trace, spans: [span("one", end), span("three")], events: [], seq: 9 } as Parameters<
      typeof withNew
    >[0];
    const after = withNew(known, found);
    expect(after.spans.map(({ spanId, endAt }) => [spanId, endAt])).toEqual([
      ["run", undefined],
      ["one", end],
      ["two", undefined],
      ["three", undefined],
    ]);
    expect(after.seq).toBe(9);
    const over = { trace: { ...trace, endedAt: end }, spans: [], events: [], seq: 10 };
    expect(withNew(after, over).trace.endedAt).toBe(end);
  });

  it("of a family: each agent stands behind its caller, with what it did itself and does now", () => {
    const node = (id: string, kind: string, children: readonly object[] = [], more: object = {}): object => ({
      id,
      kind,
      name: id,
      about: "",
      runId: "r1",
      status: "done",
      children,
      span: {},
      ...more,
    });
    const begun = (childRunId: string): object => ({ span: { attrs: { childRunId } } });
    const roots = [
      node("lead", "agent", [
        node("call", "model"),
        node("first", "agent", [node("look", "tool"), node("look", "tool")], begun("r2")),
        node("program", "code", [
          node("pay", "tool", [], { status: "failed" }),
          node("second", "agent", [node("deep", "agent")], begun("r3")),
        ]),
        node("ask", "wait", [], { status: "waiting", about: "a person" }),
      ]),
    ] as unknown as readonly TraceNode[];
    const members = familyOf(roots);
    const told = everyone(members).map((one) => [one.node.name, one.runId, one.failed, doingOf(one)]);
    expect(told).toEqual([
      ["lead", "r1", 1, "ask · a person"],
      ["first", "r2", 0, "2 tool calls"],
      ["second", "r3", 0, "1 subagent"],
      ["deep", undefined, 0, ""],
    ]);
    expect([...(members[0]?.tools ?? [])]).toEqual([
      ["program", 1],
      ["pay", 1],
    ]);
    // Calls that follow each other are one piece of time; a call that waits is a wait.
    const at = (startMs: number, endMs: number, more: object = {}): object => ({ startMs, endMs, ...more });
    const busy = node("busy", "agent", [
      node("ask", "model", [], at(0, 400)),
      node("program", "code", [node("one", "tool", [], at(400, 500)), node("two", "tool", [], at(450, 600))]),
      node("three", "tool", [], at(600, 1_000, { status: "waiting" })),
    ]);
    const [one] = familyOf([busy] as unknown as readonly TraceNode[]);
    expect(one && piecesOf(one, { wholeMs: 1_000, at: (ms) => ms })).toEqual([
      { kind: "model", from: 0, to: 0.4 },
      { kind: "tool", from: 0.4, to: 0.6 },
      { kind: "wait", from: 0.6, to: 1 },
    ]);
  });

  it("show the calls of tools that were called, each as a row", () => {
    const bucket = (calls: number, failed: number, meanMs?: number) => ({
      at: "2026-01-31T09:00:00.000Z",
      calls,
      failed,
      meanMs,
    });
    const tools = [
      { tool: "pay", calls: 9, failed: 2, meanMs: 40, buckets: [bucket(4, 2, 30), bucket(5, 0, 48)] },
      { tool: "look", calls: 1, failed: 0, buckets: [bucket(0, 0), bucket(1, 0)] },
    ];
    expect(toolSeries(tools, ({ calls }) => calls, formatCount)).toEqual([
      { label: "pay", values: [4, 5], total: "9" },
      { label: "look", values: [0, 1], total: "1" },
    ]);
    expect(toolSeries(tools, ({ meanMs }) => meanMs, formatDuration)).toEqual([
      { label: "pay", values: [30, 48], total: "40 ms" },
    ]);
  });
  it("count what waits by its kind, interrupted calls first", () => {
    const asked = (kind: string | undefined, askedAt: string): Approval =>
      ({ request: { kind, requestId: askedAt }, askedAt, sessionId: "s" }) as unknown as Approval;
    const waiting = waitingByKind([asked(undefined, "2"), asked("approval", "1"), asked("recovery", "3")]);
    expect(waiting.map(({ kind, count, oldest }) => [kind, count, oldest])).toEqual([
      ["recovery", 1, "3"],
      ["approval", 2, "1"],
    ]);
  });
});

describe("the inbox", () => {
  const asked = (kind: string, agentId: string): Approval =>
    ({ request: { kind, requestId: `${kind} ${agentId}` }, agentId, sessionId: "s" }) as unknown as Approval;

  it("lists requests of a kind and an agent", () => {
    const all = [asked("approval", "desk"), asked("question", "desk"), asked("approval", "lead")];
    expect(wantedOf(all)).toHaveLength(3);
    expect(wantedOf(all, "approval", "lead").map(({ request }) => request.requestId)).toEqual(["approval lead"]);
  });

  it("tells a call by its arguments and a question by its words, with nothing hidden", () => {
    const request = (kind: string, input: unknown, prompt = ""): Approval["request"] =>
      ({ kind, prompt, action: { input } }) as unknown as Approval["request"];
    expect(askedFor(request("approval", { order: 771, reason: "Never\n arrived" }))).toBe(
      "order 771, reason Never arrived",
    );
    expect(askedFor(request("approval", [1]))).toBe("[1]");
    expect(askedFor(request("question", {}, "Which\u202e one?"))).toBe("Which\\u202e one?");
  });
});

describe("copies of a conversation", () => {
  const session = (sessionId: string, predecessorId?: string) => ({
    sessionId,
    predecessorId,
    predecessorSeq: 4,
    title: "",
  });

  it("are its origin and the copies of that, and none for a session without", () => {
    const all = [session("a"), session("b", "a"), session("c", "a"), session("d")];
    expect(branchesOf(session("b", "a"), all).map(({ sessionId }) => sessionId)).toEqual(["a", "b", "c"]);
    expect(branchesOf(session("a"), all).map(({ sessionId }) => sessionId)).toEqual(["a", "b", "c"]);
    expect(branchesOf(session("d"), all)).toEqual([]);
    expect(branchesOf(session("a"), all).map(({ label }) => label)).toEqual([
      "original",
      "from record 4 (2)",
      "from record 4",
    ]);
    // One that is too old for the list of the newest is there all the same.
    expect(branchesOf(session("x", "w"), all).map(({ label }) => label)).toEqual(["original", "from record 4"]);
  });
});

it("the line that mends an agent is the variable that its problem names, or what to install", () => {
  expect(fixFor("missing provider adapter for package route openai: set the variable OPENAI_API_KEY, or give …")).toBe(
    "export OPENAI_API_KEY=",
  );
  expect(fixFor("missing provider adapter for package route x: run pip install windlass[openai]")).toBe(
    "pip install windlass[openai]",
  );
  expect(fixFor("something else")).toBeUndefined();
});
describe("undo", () => {
  it("groups the calls by what will happen, and keeps their order", () => {
    const call = (callId: string, status: "reversible" | "reversed" | "no_undo" | "unknown") => ({
      callId,
      toolName: "book",
      arguments: {},
      status,
    });
    const calls = [call("c4", "no_undo"), call("c3", "reversible"), call("c2", "reversed"), call("c1", "reversible")];
    const groups = undoGroups({ runId: "r1", calls });
    expect(groups.map(({ calls }) => calls.map(({ callId }) => callId))).toEqual([["c3", "c1"], ["c4"], ["c2"]]);
    expect(groups[0]?.title).toMatch(/will be reversed/iu);
    expect(undoGroups({ runId: "r1", calls: [] })).toEqual([]);
  });
});

describe("changed arguments", () => {
  it("are those that differ in value, whatever the order of their members", () => {
    const before = { cents: 990, to: { a: 1, b: [1, 2] }, note: "x" };
    const after = { to: { b: [1, 2], a: 1 }, cents: 500, extra: null };
    expect(changedArguments(before, after)).toEqual([
      { name: "cents", before: 990, after: 500 },
      { name: "note", before: "x", after: undefined },
      { name: "extra", before: undefined, after: null },
    ]);
    expect(changedArguments(before, before)).toEqual([]);
    expect(changedArguments("a", "b")).toEqual([{ name: "", before: "a", after: "b" }]);
  });

  it("of a call are beside those that the model asked for, with the person", () => {
    const asked = { kind: "tool-call", callId: "c1", toolName: "pay", input: { cents: 990 } };
    const request = { requestId: "q1", action: asked, prompt: "Pay?", display: "confirmation" };
    const records = journal([
      ["actions.requested", { ...step(0), actions: [asked] }],
      ["input.requested", { ...step(0), requests: [request] }],
      [
        "approval.settled",
        { ...PLACE, requestId: "q1", outcome: "approved", responder: "ann", arguments: { cents: 5 } },
      ],
    ]);
    const [facts] = records.slice(0, 1).flatMap((first) => callFacts(records, first));
    expect(facts?.asked).toEqual({ input: { cents: 990 }, changedBy: "ann" });
    expect(facts?.input).toEqual({ cents: 5 });
    const [plain] = records.slice(0, 1).flatMap((first) => callFacts(records.slice(0, 2), first));
    expect(plain?.asked).toBeUndefined();
  });
});

describe("the playground", () => {
  it("marks the words that one of two texts has", () => {
    expect(diffWords("Rain in Oslo, 9 degrees.", "Sun in Oslo, 21 degrees.")).toEqual([
      { text: "Rain", side: "before" },
      { text: "Sun", side: "after" },
      { text: " in Oslo,", side: "both" },
      { text: " 9", side: "before" },
      { text: " 21", side: "after" },
      { text: " degrees.", side: "both" },
    ]);
    expect(diffWords("", "")).toEqual([]);
    expect(diffWords("same", "same")).toEqual([{ text: "same", side: "both" }]);
    const long = Array.from({ length: 3_000 }, (_, at) => `w${at}`).join(" ");
    expect(diffWords(`a ${long} z`, "a b z").map(({ side }) => side)).toEqual(["both", "before", "after", "both"]);
  });

  it("says how much more or less something took", () => {
    const format = String;
    expect(differenceOf(100, 150, format)).toBe("+50 (+50 %)");
    expect(differenceOf(100, 75, format)).toBe("−25 (−25 %)");
    expect(differenceOf(0, 5, format)).toBe("+5");
    expect(differenceOf(7, 7, format)).toBe("no difference");
    expect(differenceOf(undefined, 7, format)).toBe("–");
  });

  it("changes the texts of a message and keeps the rest", () => {
    const call = { type: "tool-call" as const, toolCallId: "c1", toolName: "pay", input: { cents: 5 } };
    const said = { role: "assistant" as const, content: [{ type: "text" as const, text: "I pay." }, call] };
    const [words, given] = fieldsOf(said);
    expect(words?.with("I will pay.")).toEqual({ ...said, content: [{ type: "text", text: "I will pay." }, call] });
    expect(given?.label).toBe("Call of pay");
    expect(given?.with('{"cents": 7}')).toEqual({
      ...said,
      content: [said.content[0], { ...call, input: { cents: 7 } }],
    });
    expect(given?.with("{")).toEqual({ ...said, content: [said.content[0], { ...call, input: "{" }] });
    const result = { type: "tool-result" as const, toolCallId: "c1", toolName: "pay" };
    const told = {
      role: "tool" as const,
      content: [{ ...result, output: { type: "json" as const, value: { ok: true } } }],
    };
    expect(fieldsOf(told)[0]?.with("no")).toEqual({
      ...told,
      content: [{ ...result, output: { type: "text", value: "no" } }],
    });
    const denied = {
      role: "tool" as const,
      content: [{ ...result, output: { type: "execution-denied" as const, reason: "No." } }],
    };
    expect(fieldsOf(denied)[0]).toMatchObject({ label: "Denial of pay", text: "No." });
    expect(fieldsOf(denied)[0]?.with("Never.")).toMatchObject({ content: [{ output: { reason: "Never." } }] });
    expect(fieldsOf({ role: "user", content: "Hi." })[0]?.with("Ho.")).toEqual({ role: "user", content: "Ho." });
  });

  it("adds up the model calls of a run from a step on", () => {
    const span = (stepIndex: number, more: object) => ({
      spanId: `s${stepIndex}`,
      name: "llm.complete",
      startAt: "2026-01-01T00:00:00.000Z",
      endAt: "2026-01-01T00:00:00.500Z",
      attrs: { stepIndex, ...more },
    });
    const trace = {
      spans: [span(0, { inputTokens: 1 }), span(1, { inputTokens: 5, costMicros: 2 }), span(2, { inputTokens: 6 })],
    };
    const found = figuresFrom(trace as unknown as Parameters<typeof figuresFrom>[0], 1);
    expect(found).toEqual({ inputTokens: 11, outputTokens: undefined, costMicros: 2, ms: 1_000 });
    expect(figuresFrom(undefined, 0).ms).toBeUndefined();
  });
});

describe("the work of the playground in the storage of the tab", () => {
  const work = {
    instructions: "Be brief.",
    messages: [{ role: "user", content: "Hello" }],
    tools: { look: { isOn: false, description: "Looks." } },
    model: "demo/one",
    temperature: "",
    size: "call",
    calls: "recorded",
    attempts: [{ runId: "r1", size: "run", calls: "real" }],
    shown: "r1",
  };

  it("comes back as it was kept", () => {
    expect(workIn(JSON.stringify(work))).toEqual(work);
  });

  it.each([
    ["nothing", undefined],
    ["no JSON", "{"],
    ["no object", '"words"'],
    ["no messages", JSON.stringify({ ...work, messages: undefined })],
    ["a message without a role", JSON.stringify({ ...work, messages: [{ content: "Hello" }] })],
    ["a tool that is only a name", JSON.stringify({ ...work, tools: { look: true } })],
    ["an unknown size", JSON.stringify({ ...work, size: "half" })],
    ["attempts that are no list", JSON.stringify({ ...work, attempts: "r1" })],
  ])("is begun anew if that is %s", (_, text) => {
    expect(workIn(text)).toBeUndefined();
  });
});

describe("a text of the browser", () => {
  it("lasts as long as the page where storage is forbidden", () => {
    const texts = new Texts(() => {
      throw new DOMException("storage is blocked", "SecurityError");
    });
    expect(texts.get("draft")).toBeUndefined();
    texts.set("draft", "Hel");
    texts.set("draft", "Hello");
    texts.set("other", "x");
    expect([texts.get("draft"), texts.get("other")]).toEqual(["Hello", "x"]);
    texts.set("draft", "");
    expect([texts.get("draft"), texts.get("other")]).toEqual([undefined, "x"]);
    texts.clear();
    expect(texts.get("other")).toBeUndefined();
  });
});
