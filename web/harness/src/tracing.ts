/**
 * The trace of a run: what it did and how long each thing took, folded from its records.
 *
 * The root span is the run. In it lie its turns, and in these the model calls (one span for each attempt), the
 * tool calls and the waits for people. A tool call begins when it is started, or when it was asked for as long
 * as nothing started it. Ids are made from the run and the numbers of records, so that a trace is the same
 * whenever and wherever it is folded. Every attribute is redacted. Content never gets into a trace: names, ids,
 * numbers and reasons only.
 */

import type {
  HarnessTrace,
  JsonObject,
  JsonValue,
  Record,
  TraceEvent,
  TraceOutcome,
  TraceSpan,
} from "@windlass/protocol";
import { sanitizeForTrace } from "./redact.js";

export const LLM_SPAN = "llm.complete";
export const TOOL_SPAN = "tool.dispatch";
export const WAIT_SPAN = "wait";

const ENDS: ReadonlyMap<string, TraceOutcome> = new Map([
  ["run.completed", "ok"],
  ["run.failed", "error"],
  ["run.cancelled", "cancelled"],
  ["run.budget_exhausted", "budget_exhausted"],
]);

const POLICY_EVENTS: ReadonlyMap<string, string> = new Map([
  ["allow", "policy.allowed"],
  ["deny", "policy.denied"],
  ["ask", "policy.asked"],
  ["modify", "policy.modified"],
  ["interrupt", "policy.interrupted"],
  ["defer", "policy.deferred"],
]);

/** Records that are moments of a trace, with the facts that each one shows. */
const EVENT_FIELDS: ReadonlyMap<string, readonly string[]> = new Map([
  ["run.waiting", ["on", "until"]],
  ["run.resumed", ["reason", "epoch"]],
  ["run.cancel_requested", ["by", "reason"]],
  ["step.retrying", ["code", "message", "attempt", "delayMs"]],
  ["budget.warned", ["name", "used", "limit"]],
  ["budget.exhausted", ["exceeded"]],
  ["hook.completed", ["hookId", "point", "status", "changed", "vetoed", "durationMs"]],
  ["hook.failed", ["hookId", "point", "status", "error"]],
  ["compaction.requested", ["modelId", "usageInputTokens"]],
  ["compaction.completed", ["modelId", "inputTokensBefore", "inputTokensAfter"]],
  ["compaction.failed", ["code", "message"]],
  ["output.rejected", ["schemaId", "attempt"]],
  ["output.failed", ["schemaId", "attempts"]],
  ["subagent.called", ["callId", "childSessionId", "name"]],
  ["recovery.started", ["epoch", "reason"]],
  ["recovery.effect_found", ["callId", "effect", "toolName"]],
  ["recovery.effect_settled", ["callId", "choice", "by"]],
]);

const USAGE_FIELDS = [
  "inputTokens",
  "outputTokens",
  "cacheReadTokens",
  "cacheWriteTokens",
  "reasoningTokens",
  "costMicros",
] as const;

/** A record is not the next one of its session. */
export class Gap extends RangeError {
  constructor(
    readonly sessionId: string,
    readonly expectedSeq: number,
    found: Record,
  ) {
    const other = found.sessionId === sessionId ? "" : ` of session '${found.sessionId}'`;
    super(
      `expected record ${expectedSeq} of session '${sessionId}', found record ${found.seq}${other}; ` +
        `read the session again after record ${expectedSeq - 1}`,
    );
    this.name = "Gap";
  }
}

/**
 * The trace of one run so far; `trace` is absent until the run starts.
 *
 * Spans and events are in the order in which they began. A span without an end is still open.
 */
export interface TraceState {
  readonly sessionId?: string;
  readonly seq?: number;
  readonly owner: TraceOwner;
  readonly trace?: HarnessTrace;
  readonly spans: readonly TraceSpan[];
  readonly events: readonly TraceEvent[];
  readonly openSpans: Readonly<{ [key: string]: number }>;
  /** Calls that wait for people, by the open span of their wait. */
  readonly askedBy: Readonly<{ [key: string]: string }>;
  readonly retriedAt?: string;
}

/** The run to trace, and the chat and user it belongs to, when the records do not tell. */
export interface TraceOwner {
  readonly runId?: string;
  readonly chatId?: string;
  readonly userId?: string;
}

const NOTHING_YET: TraceState = { owner: {}, spans: [], events: [], openSpans: {}, askedBy: {} };

/**
 * Fold records of a session into the trace of one of its runs.
 *
 * The run is the one named, or else the first that starts; the records may begin anywhere before it. The
 * owning chat and user are the ones given, or else `chatId` and `userId` of the run's metadata, or else the
 * session and nobody. Records of other runs, and what comes after the end of the run, are passed over.
 * Throws a Gap if a record is not the next one of the session.
 */
export function foldTrace(records: Iterable<Record>, state?: TraceState, owner: TraceOwner = {}): TraceState {
  const draft = new Draft(state ?? NOTHING_YET, owner);
  for (const record of records) draft.apply(record);
  return draft.freeze();
}

class Draft {
  #sessionId: string | undefined;
  #seq: number | undefined;
  readonly #owner: TraceOwner;
  #trace: HarnessTrace | undefined;
  readonly #spans: TraceSpan[];
  readonly #events: TraceEvent[];
  readonly #open: Map<string, number>;
  readonly #askedBy: Map<string, string>;
  #retriedAt: string | undefined;

  constructor(state: TraceState, owner: TraceOwner) {
    this.#sessionId = state.sessionId;
    this.#seq = state.seq;
    this.#owner = { ...state.owner, ...owner };
    this.#trace = state.trace;
    this.#spans = [...state.spans];
    this.#events = [...state.events];
    this.#open = new Map(Object.entries(state.openSpans));
    this.#askedBy = new Map(Object.entries(state.askedBy));
    this.#retriedAt = state.retriedAt;
  }

  freeze(): TraceState {
    return {
      ...(this.#sessionId !== undefined && { sessionId: this.#sessionId }),
      ...(this.#seq !== undefined && { seq: this.#seq }),
      owner: this.#owner,
      ...(this.#trace && { trace: this.#trace }),
      spans: this.#spans,
      events: this.#events,
      openSpans: Object.fromEntries(this.#open),
      askedBy: Object.fromEntries(this.#askedBy),
      ...(this.#retriedAt !== undefined && { retriedAt: this.#retriedAt }),
    };
  }

  apply(record: Record): void {
    this.#follow(record);
    if (this.#trace === undefined) {
      if (record.type === "run.started") this.#start(record);
    } else if (this.#trace.endedAt === undefined && isOurs(record, this.#trace)) {
      this.#note(record);
      this.#span(record);
    }
  }

  #follow(record: Record): void {
    const expected = (this.#seq ?? record.seq - 1) + 1;
    if (record.sessionId !== (this.#sessionId ?? record.sessionId) || record.seq !== expected) {
      throw new Gap(this.#sessionId ?? record.sessionId, expected, record);
    }
    this.#sessionId = record.sessionId;
    this.#seq = record.seq;
  }

  #start(record: Record): void {
    const runId = text(record.data, "runId") ?? "";
    if (this.#owner.runId !== undefined && this.#owner.runId !== runId) return;
    const metadata = object(record.data["metadata"]);
    this.#trace = {
      traceId: runId,
      sessionId: record.sessionId,
      chatId: this.#owner.chatId || text(metadata, "chatId") || record.sessionId,
      userId: this.#owner.userId || text(metadata, "userId") || "",
      startedAt: record.at,
    };
    const facts = pick(record.data, "agentId", "mode", "modelId", "packageFingerprint", "goalId");
    this.#begin("run", runId, "run", record.at, facts);
  }

  #span(record: Record): void {
    switch (record.type) {
      case "turn.started":
        this.#finish("turn", record.at, {});
        this.#begin("turn", this.#id("turn", record), "turn", record.at, pick(record.data, "turnId", "sequence"));
        return;
      case "turn.completed":
      case "turn.failed":
      case "turn.cancelled":
        this.#finish("turn", record.at, pick(record.data, "code", "message", "reason"));
        return;
      case "actions.requested":
        objects(record.data["actions"]).forEach((action, index) => {
          this.#beginCall(record, index, action);
        });
        return;
      default:
        this.#stepSpan(record);
    }
  }

  #stepSpan(record: Record): void {
    const failure = pick(record.data, "code", "message");
    switch (record.type) {
      case "step.started":
        this.#finish("step", record.at, { interrupted: true });
        this.#beginStep(record, record.at);
        return;
      case "step.completed":
        if (!this.#open.has("step")) this.#beginStep(record, this.#retriedAt ?? record.at);
        this.#finish("step", record.at, {
          ...pick(record.data, "finishReason", "costUsd", "latencyMs"),
          ...pick(object(record.data["usage"]), ...USAGE_FIELDS),
        });
        return;
      case "step.failed":
        if (!this.#open.has("step") && this.#retriedAt !== undefined) this.#beginStep(record, this.#retriedAt);
        this.#finish("step", record.at, failure);
        return;
      case "step.retrying":
        this.#finish("step", record.at, failure);
        this.#retriedAt = record.at;
        return;
      default:
        this.#otherSpan(record);
    }
  }

  #otherSpan(record: Record): void {
    if (record.type === "action.started") this.#startCall(record);
    else if (record.type === "action.result") this.#finishCall(record);
    else if (record.type === "input.requested") this.#beginWaits(record);
    else if (record.type === "input.resolved") this.#finishWaits(record);
    else if (ENDS.has(record.type)) this.#end(record);
  }

  #startCall(record: Record): void {
    const key = callKey(record.data);
    if (!this.#open.has(key)) this.#beginCall(record, 0, record.data);
    this.#change(this.#open.get(key), { startAt: record.at }, pick(record.data, "effect", "mode"));
  }

  #finishCall(record: Record): void {
    this.#finish(callKey(object(record.data["result"])), record.at, {
      ...pick(record.data, "status", "durationMs"),
      ...pick(object(record.data["error"]), "code", "message"),
    });
  }

  #beginWaits(record: Record): void {
    objects(record.data["requests"]).forEach((request, index) => {
      const key = waitKey(request);
      if (this.#open.has(key)) return;
      const action = object(request["action"]);
      const facts = { ...pick(request, "requestId", "kind"), ...pick(action, "callId", "toolName") };
      this.#askedBy.set(key, callKey(action));
      this.#begin(key, `${this.#id("wait", record)}.${index}`, WAIT_SPAN, record.at, facts);
    });
  }

  #finishWaits(record: Record): void {
    for (const resolution of objects(record.data["resolutions"])) {
      const key = waitKey(resolution);
      const call = this.#askedBy.get(key);
      if (call === undefined) continue;
      const kind = this.#spans[this.#open.get(key) ?? -1]?.attrs?.["kind"];
      this.#finish(key, record.at, pick(resolution, "outcome"));
      if (resolution["kind"] === "question" || kind === "question") {
        // The answer is the result of the call that asked; no other record will tell.
        this.#finish(call, record.at, { status: "completed" });
      }
      this.#askedBy.delete(key);
    }
  }

  #end(record: Record): void {
    for (const key of [...this.#open.keys()]) {
      if (key !== "run" && key !== "turn") this.#finish(key, record.at, { interrupted: true });
    }
    this.#askedBy.clear();
    this.#finish("turn", record.at, {});
    this.#finish("run", record.at, {
      ...pick(record.data, "reason", "exceeded"),
      ...pick(object(record.data["error"]), "code", "kind", "message"),
    });
    const outcome = ENDS.get(record.type);
    if (this.#trace && outcome) this.#trace = { ...this.#trace, endedAt: record.at, outcome };
  }

  #beginStep(record: Record, startAt: string): void {
    this.#retriedAt = undefined;
    const facts = { ...pick(record.data, "modelId", "turnId", "stepIndex"), attempt: record.attempt ?? 1 };
    this.#begin("step", this.#id("step", record), LLM_SPAN, startAt, facts);
  }

  #beginCall(record: Record, index: number, action: JsonObject): void {
    const name = text(action, "toolName") || text(action, "name") || "load_skill";
    const key = callKey(action);
    if (this.#open.has(key)) return;
    const facts = { ...pick(action, "callId", "kind"), toolName: name };
    this.#begin(key, `${this.#id("call", record)}.${index}`, `${TOOL_SPAN}:${name}`, record.at, facts);
  }

  #begin(key: string, spanId: string, name: string, startAt: string, facts: JsonObject): void {
    const parent = key === "turn" || !this.#open.has("turn") ? "run" : "turn";
    const parentId = this.#spans[this.#open.get(parent) ?? -1]?.spanId;
    this.#open.set(key, this.#spans.length);
    this.#spans.push({ spanId, name, startAt, ...(parentId !== undefined && { parentId }), attrs: clean(facts) });
  }

  #finish(key: string, endAt: string, facts: JsonObject): void {
    this.#change(this.#open.get(key), { endAt }, facts);
    this.#open.delete(key);
  }

  #change(at: number | undefined, times: Partial<TraceSpan>, facts: JsonObject): void {
    const span = at === undefined ? undefined : this.#spans[at];
    if (at === undefined || span === undefined) return;
    this.#spans[at] = { ...span, ...times, attrs: { ...span.attrs, ...clean(facts) } };
  }

  #id(kind: string, record: Record): string {
    return `${this.#trace?.traceId ?? ""}/${kind}/${record.seq}`;
  }

  #note(record: Record): void {
    const data = record.data;
    let name: string = record.type;
    let facts: JsonObject;
    const fields = EVENT_FIELDS.get(name);
    if (name === "policy.decided") {
      const decision = object(data["decision"]);
      const answer = text(decision, "decision") ?? "";
      name = POLICY_EVENTS.get(answer) ?? `policy.${answer}`;
      facts = { ...pick(data, "stage", "callId", "toolName"), ...pick(decision, "code", "reason") };
    } else if (name === "problem.reported") {
      facts = pick(object(data["problem"]), "severity", "description", "decisionId");
    } else if (fields) {
      facts = pick(data, ...fields);
    } else return;
    const spanId = this.#spanOf(callKey(data));
    this.#events.push({ eventId: this.#id("event", record), spanId, name, at: record.at, attrs: clean(facts) });
  }

  /** The innermost open span that a moment lies in. */
  #spanOf(call: string): string {
    const key = [call, "step", "turn"].find((name) => this.#open.has(name)) ?? "run";
    return this.#spans[this.#open.get(key) ?? 0]?.spanId ?? "";
  }
}

function isOurs(record: Record, trace: HarnessTrace): boolean {
  const named = record.type.startsWith("run.") ? text(record.data, "runId") : undefined;
  return (named ?? record.runId ?? trace.traceId) === trace.traceId;
}

function callKey(data: JsonObject): string {
  return `call ${text(data, "callId") ?? ""}`;
}

function waitKey(data: JsonObject): string {
  return `wait ${text(data, "requestId") ?? ""}`;
}

function clean(facts: JsonObject): JsonObject {
  return sanitizeForTrace(facts) as JsonObject;
}

function pick(data: JsonObject, ...names: readonly string[]): JsonObject {
  const found: JsonObject = {};
  for (const name of names) {
    const value = data[name] ?? null;
    if (value !== null) found[name] = value;
  }
  return found;
}

function text(data: JsonObject, name: string): string | undefined {
  const value = data[name];
  return typeof value === "string" ? value : undefined;
}

function object(value: JsonValue | undefined): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}

function objects(value: JsonValue | undefined): JsonObject[] {
  return Array.isArray(value) ? value.map((item) => object(item)) : [];
}
