/** Records of a journal: a session at any record, what belongs to a record, its words, and where to fork. */
import {
  actionName,
  EMPTY_CONVERSATION,
  foldChat,
  isKnown,
  reduceConversation,
  type CacheLoss,
  type ChatMessage,
  type Conversation,
  type Event,
  type InputRequest,
  type JsonValue,
  type KnownEvent,
  type PolicyDecision,
  type RuntimeActionResult,
} from "@windlass/protocol";
import { newId } from "@windlass/protocol/client";
import { formatCost, formatCount, formatDuration, formatValue, inOneLine, plural } from "@windlass/ui";
import { client } from "./auth.js";

const STEP = 250;

/**
 * A session as it was after any record.
 *
 * It remembers every so manieth state, so that going back and forth in a long journal folds a few records only.
 */
export class TimeMachine {
  private readonly known = new Map<number, Conversation>([[0, EMPTY_CONVERSATION]]);

  /** The conversation after a record; `records` may have grown since last time. */
  at(records: readonly Event[], seq: number): Conversation {
    const target = Math.min(Math.max(seq, 0), records.length);
    let folded = Math.floor(target / STEP) * STEP;
    while (!this.known.has(folded)) folded -= STEP;
    let state = this.known.get(folded) ?? EMPTY_CONVERSATION;
    while (folded < target) {
      const next = Math.min(folded + STEP, target);
      state = reduceConversation(state, records.slice(folded, next));
      folded = next;
      if (folded % STEP === 0) this.known.set(folded, state);
    }
    return state;
  }
}

/** The tokens of a prompt that were paid again, and the first part of the prompt that changed. */
export function lossOf({ tokens, part, index = 0, name }: CacheLoss): string {
  const about = name === undefined ? `${index + 1}` : `${index + 1} (${name})`;
  const change =
    part === undefined
      ? "the prompt did not change"
      : part === "system"
        ? "the system prompt changed"
        : `changed at ${part === "tool" ? "tool definition" : "message"} ${about}`;
  return `${plural(tokens, "cached token")} paid again: ${change}`;
}

// The tool call or the model call that a record belongs to.

type Of<K extends KnownEvent["type"]> = Extract<KnownEvent, { type: K }>;

/** A call from the wish of the model to its result. */
export interface CallFacts {
  readonly callId: string;
  readonly name: string;
  readonly input: JsonValue;
  /** The arguments that the model asked for, if a person approved others, and that person. */
  readonly asked: { readonly input: JsonValue; readonly changedBy: string | undefined } | undefined;
  readonly decisions: readonly PolicyDecision[];
  readonly requests: readonly InputRequest[];
  readonly answers: readonly {
    readonly outcome: string;
    readonly by: string | undefined;
    readonly text: string | undefined;
    readonly at: string;
    /** How long the answer was waited for; undefined if the question is not among the records. */
    readonly waitedMs: number | undefined;
  }[];
  /** How it went, begun by begun, if that was more than once or came to no result. */
  readonly attempts: readonly { readonly at: string; readonly text: string }[];
  readonly started: Of<"action.started">["data"] | undefined;
  readonly result: Of<"action.result">["data"] | undefined;
  readonly childSessionId: string | undefined;
  readonly childRunId: string | undefined;
}

/** One call of a model, and what it said. */
export interface StepFacts {
  readonly modelId: string | undefined;
  /** Under which its prompt is asked for. */
  readonly place: { readonly runId: string; readonly stepIndex: number } | undefined;
  /** How many messages of the history the model was sent. */
  readonly promptCount: number | undefined;
  /** The reasoning of the model, if it was sent. */
  readonly reasoning: string;
  readonly said: string;
  /** The calls that it asked for, each with the id of its span. */
  readonly calls: readonly { readonly spanId: string; readonly name: string; readonly input: JsonValue }[];
  readonly attempts: readonly Of<"step.retrying">["data"][];
  readonly completed: Of<"step.completed">["data"] | undefined;
  readonly failed: Of<"step.failed">["data"] | undefined;
}

const STEP_TYPES: ReadonlySet<string> = new Set([
  "step.started",
  "step.completed",
  "step.failed",
  "step.retrying",
  "message.completed",
  "reasoning.completed",
  "actions.requested",
]);

/** The calls that a record is about. */
function callsOf(record: Event): readonly string[] {
  if (!isKnown(record)) return [];
  switch (record.type) {
    case "actions.requested":
      return record.data.actions.map(({ callId }) => callId);
    case "action.result":
      return [record.data.result.callId];
    case "input.requested":
      if (record.data.childSessionId !== undefined) return record.data.callId === undefined ? [] : [record.data.callId];
      return record.data.requests.map(({ action }) => action.callId);
    default: {
      const callId = record.data["callId"];
      return typeof callId === "string" ? [callId] : [];
    }
  }
}

/** Everything about the calls of a record, or about one of them, in the run and the step of it. */
export function callFacts(records: readonly Event[], record: Event, only?: string): readonly CallFacts[] {
  const inStep = records.filter((other) => isSamePlace(other, record)).filter(isKnown);
  const ids = callsOf(record);
  return (only !== undefined && ids.includes(only) ? [only] : ids).map((callId) => factsOf(inStep, callId));
}

/** The records about one call, in the run and the step of a record. */
export function recordsOfCall(records: readonly Event[], record: Event, callId: string): readonly Event[] {
  return records.filter((other) => isSamePlace(other, record) && callsOf(other).includes(callId));
}

/** The run and the step are the same; what names no step is taken by its call. */
function isSamePlace(event: Event, other: Event): boolean {
  const [first, second] = [event.data["stepIndex"], other.data["stepIndex"]];
  const isSameStep = first === undefined || second === undefined || first === second;
  return event.runId === other.runId && isSameStep;
}

function factsOf(records: readonly KnownEvent[], callId: string): CallFacts {
  const all = <K extends KnownEvent["type"]>(type: K): Of<K>[] =>
    records.filter((record): record is Of<K> => record.type === type);
  const action = all("actions.requested")
    .flatMap(({ data }) => data.actions)
    .find((action) => action.callId === callId);
  const requested = all("input.requested")
    .flatMap(({ data, meta }) => data.requests.map((request) => ({ request, data, at: meta.at })))
    .filter(({ request, data }) => (data.childSessionId === undefined ? request.action : data).callId === callId);
  const requests = requested.map(({ request }) => request);
  const ids = new Map(requested.map(({ request, at }) => [request.requestId, at]));
  const answers = all("input.resolved")
    .flatMap(({ data, meta }) => data.resolutions.map((resolution) => ({ ...resolution, at: meta.at })))
    .filter(({ requestId }) => ids.has(requestId))
    .map(({ requestId, outcome, response, at }) => {
      const askedAt = ids.get(requestId);
      const waitedMs = askedAt === undefined ? undefined : Date.parse(at) - Date.parse(askedAt);
      return { outcome, by: response?.responder, text: response?.text, at, waitedMs };
    });
  const changed = all("approval.settled").findLast(
    ({ data }) => ids.has(data.requestId) && data.arguments !== undefined,
  );
  const started = all("action.started").find(({ data }) => data.callId === callId)?.data;
  const child = all("subagent.called").find(({ data }) => data.callId === callId)?.data;
  return {
    callId,
    name: action === undefined ? (started?.toolName ?? callId) : actionName(action),
    input: started?.arguments ?? changed?.data.arguments ?? action?.input ?? null,
    asked:
      changed === undefined || action === undefined
        ? undefined
        : { input: action.input, changedBy: changed.data.responder },
    decisions: all("policy.decided")
      .filter(({ data }) => data.callId === callId)
      .map(({ data }) => data.decision),
    requests,
    answers,
    started,
    result: all("action.result").findLast(({ data }) => data.result.callId === callId)?.data,
    childSessionId: child?.childSessionId,
    childRunId: child?.childRunId,
    attempts: attemptsOf(records, callId),
  };
}

const CHOICES: Readonly<Record<string, string>> = {
  retry: "run it again, with the same key",
  skip: "skip it",
  supply: "supply its result",
};

/** The attempts and decisions of a call that was interrupted; none of any other call. */
function attemptsOf(records: readonly KnownEvent[], callId: string): CallFacts["attempts"] {
  const notes: { at: string; text: string }[] = [];
  let count = 0;
  for (const { type, data, meta } of records) {
    if (type === "action.started" && data.callId === callId)
      notes.push({ at: meta.at, text: `Attempt ${++count} began.` });
    else if (type === "recovery.effect_found" && data.callId === callId)
      notes.push({ at: meta.at, text: "Its process had ended. The outcome is unknown." });
    else if (type === "recovery.effect_settled" && data.callId === callId)
      notes.push({ at: meta.at, text: `${data.by ?? "A person"} chose: ${CHOICES[data.choice] ?? data.choice}.` });
    else if (type === "action.result" && data.result.callId === callId)
      notes.push({ at: meta.at, text: `Result: ${outcomeOf(data.status, data.error?.code)}.` });
  }
  return notes.length > 2 ? notes : [];
}

/** The step that a record is of; undefined if it is of none. */
export function placeOf({ runId, data }: Event): StepFacts["place"] {
  const { stepIndex } = data;
  return runId === undefined || typeof stepIndex !== "number" ? undefined : { runId, stepIndex };
}

/** The model call of a record; undefined if it is part of none. */
export function stepFacts(records: readonly Event[], record: Event): StepFacts | undefined {
  if (!STEP_TYPES.has(record.type)) return undefined;
  const seq = record.seq ?? 0;
  const from = records.findLastIndex(
    (other) => other.type === "step.started" && (other.seq ?? 0) <= seq && isSamePlace(other, record),
  );
  const begin = records[from];
  if (begin === undefined || !isKnown(begin) || begin.type !== "step.started") return undefined;
  const end = records.findIndex(
    (record, at) => at > from && (record.type === "step.started" || record.type === "run.started"),
  );
  const inside = records.slice(from + 1, end === -1 ? undefined : end).filter(isKnown);
  const firstOf = <K extends KnownEvent["type"]>(type: K): Of<K> | undefined =>
    inside.find((other): other is Of<K> => other.type === type);
  return {
    modelId: begin.data.modelId,
    place: placeOf(begin),
    promptCount: begin.data.promptMessageCount,
    reasoning: firstOf("reasoning.completed")?.data.reasoning ?? "",
    said: firstOf("message.completed")?.data.message ?? "",
    calls: inside.flatMap((other) =>
      other.type !== "actions.requested" || "parentCallId" in other.data
        ? []
        : other.data.actions.map((action, at) => ({
            spanId: `${other.runId ?? ""}/call/${other.seq ?? 0}.${at}`,
            name: actionName(action),
            input: action.input,
          })),
    ),
    attempts: inside
      .filter((other): other is Of<"step.retrying"> => other.type === "step.retrying")
      .map(({ data }) => data),
    completed: firstOf("step.completed")?.data,
    failed: firstOf("step.failed")?.data,
  };
}

// Records in words.

/** How a row looks. */
export type Tone = "plain" | "model" | "tool" | "wait" | "good" | "bad";

/** A record in one line. */
interface Told {
  readonly title: string;
  readonly detail: string;
  readonly tone: Tone;
  /** How far in it stands. */
  readonly depth: number;
}

type Teller<K extends KnownEvent["type"]> = (
  data: Extract<KnownEvent, { type: K }>["data"],
) => Partial<Told> & Pick<Told, "title">;
type Tellers = { readonly [K in KnownEvent["type"]]?: Teller<K> };

const DETAIL_CHARS_MAX = 240;

const TELLERS: Tellers = {
  "run.started": ({ agentId, modelId }) => ({ title: "Run began", detail: `${agentId}, model ${modelId}` }),
  "run.resumed": ({ reason }) => ({ title: "Run goes on", detail: reason }),
  "run.waiting": ({ on, until, reason }) => ({
    title: "Run waits",
    detail: [until === undefined ? on : `${on} until ${until}`, reason].filter((part) => part !== undefined).join(": "),
    tone: "wait",
  }),
  "run.cancel_requested": ({ reason }) => ({ title: "Cancellation requested", detail: reason ?? "", tone: "bad" }),
  "run.completed": ({ output }) => ({ title: "Run completed", detail: output ?? "", tone: "good" }),
  "run.failed": ({ error }) => ({ title: "Run failed", detail: `${error.code}: ${error.message}`, tone: "bad" }),
  "run.cancelled": ({ reason }) => ({ title: "Run was cancelled", detail: reason ?? "", tone: "bad" }),
  "run.budget_exhausted": () => ({ title: "Budget was used up", tone: "bad" }),
  "message.received": ({ message, delivery }) => ({
    title: delivery === "steer" ? "User steered" : "User said",
    detail: message,
  }),
  "message.completed": ({ message }) => ({ title: "Model said", detail: message ?? "", tone: "model", depth: 1 }),
  "reasoning.completed": ({ reasoning }) => ({ title: "Model thought", detail: reasoning, tone: "model", depth: 1 }),
  "step.started": ({ modelId, stepIndex, promptMessageCount }) => ({
    title: `Model call ${stepIndex + 1}`,
    detail: [modelId, promptMessageCount === undefined ? undefined : plural(promptMessageCount, "message")]
      .filter((part) => part !== undefined)
      .join(", "),
    tone: "model",
  }),
  "step.completed": ({ usage = {}, latencyMs, cache }) => ({
    title: "Model answered",
    detail: [
      latencyMs === undefined ? undefined : formatDuration(latencyMs),
      `${formatCount(usage.inputTokens ?? 0)} in, ${formatCount(usage.outputTokens ?? 0)} out`,
      usage.costMicros === undefined ? undefined : formatCost(usage.costMicros),
      cache?.loss === undefined ? undefined : lossOf(cache.loss),
    ]
      .filter((part) => part !== undefined)
      .join(", "),
    tone: "model",
    depth: 1,
  }),
  "step.retrying": ({ attempt, code, message, delayMs }) => ({
    title: `Attempt ${attempt} failed, tried again after ${formatDuration(delayMs)}`,
    detail: message ?? code,
    tone: "bad",
    depth: 1,
  }),
  "step.failed": ({ code, message }) => ({
    title: "Model call failed",
    detail: `${code}: ${message}`,
    tone: "bad",
    depth: 1,
  }),
  "actions.requested": ({ actions, parentCallId }) => ({
    title: `${parentCallId === undefined ? "Model" : "Program"} asks for ${actions.map(actionName).join(", ")}`,
    detail: actions.map(({ input }) => inOneLine(input)).join(" · "),
    tone: "model",
    depth: 1,
  }),
  "policy.decided": ({ decision, toolName }) => ({
    title: `Policy: ${decision.decision}${toolName === undefined ? "" : ` ${toolName}`}`,
    detail: decision.reason,
    tone: decision.decision === "deny" ? "bad" : decision.decision === "ask" ? "wait" : "plain",
    depth: 1,
  }),
  "action.started": ({ toolName, mode, effect }) => ({
    title: `Tool ${toolName} began`,
    detail: kindOf(mode, effect),
    tone: "tool",
    depth: 1,
  }),
  "action.result": ({ result, status, durationMs, error }) => ({
    title: `${nameOf(result)} ${outcomeOf(status, error?.code)}${durationMs === undefined ? "" : ` in ${formatDuration(durationMs)}`}`,
    detail: error?.message ?? formatValue(result.output),
    tone: status === "completed" ? "good" : isStopped(error?.code) ? "plain" : "bad",
    depth: 1,
  }),
  "input.requested": ({ requests }) => ({
    title: "A person is asked",
    detail: requests.map(({ prompt }) => prompt).join(" "),
    tone: "wait",
    depth: 1,
  }),
  "input.resolved": ({ resolutions }) => ({
    title: `Answer: ${resolutions.map(({ outcome }) => outcome).join(", ")}`,
    detail: resolutions
      .map(({ response }) => [response?.responder, response?.text].filter((part) => part !== undefined).join(": "))
      .join(" "),
    tone: resolutions.every(({ outcome }) => outcome === "approved" || outcome === "answered") ? "good" : "bad",
    depth: 1,
  }),
  "subagent.called": ({ name }) => ({ title: `Subagent ${name} is called`, tone: "tool", depth: 1 }),
  "subagent.completed": ({ subagentName, output }) => ({
    title: `Subagent ${subagentName} is done`,
    detail: output,
    tone: "good",
    depth: 1,
  }),
  "compaction.completed": () => ({ title: "History was shortened", tone: "plain" }),
  "compaction.failed": ({ message }) => ({ title: "History could not be shortened", detail: message, tone: "bad" }),
  "session.forked": () => ({ title: "Session was forked" }),
  "recovery.started": () => ({ title: "Recovery after a crash began", tone: "wait" }),
  "recovery.effect_found": ({ callId }) => ({
    title: "A call was under way when the process died",
    detail: callId,
    tone: "wait",
    depth: 1,
  }),
  "recovery.effect_settled": ({ choice }) => ({ title: "That call is settled", detail: choice, depth: 1 }),
  "recovery.completed": () => ({ title: "Recovery is done", tone: "good" }),
  "problem.reported": () => ({ title: "Problem reported", tone: "bad" }),
};

/** The mode of a call, in words. */
export function kindOf(mode: string | undefined, effect: string | undefined): string {
  return [mode === undefined ? "" : `mode ${mode}`, effect === undefined ? "" : `effect ${effect}`]
    .filter((part) => part !== "")
    .join(", ");
}

/** How a call ended; one that its run did not let end was stopped, and did not fail. */
export function outcomeOf(status: string, code: string | undefined): string {
  return isStopped(code) ? "stopped" : status;
}

function isStopped(code: string | undefined): boolean {
  return code === "cancelled";
}

function nameOf(result: RuntimeActionResult): string {
  switch (result.kind) {
    case "tool-result":
      return `Tool ${result.toolName}`;
    case "subagent-result":
      return `Subagent ${result.subagentName}`;
    case "load-skill-result":
      return `Skill ${result.name ?? ""}`;
  }
}

/** A record in words; the type and the data of one that has none. */
export function tell(record: Event): Told {
  const text = tellKnown(record);
  return {
    title: text?.title ?? record.type,
    detail: oneLine(text === undefined ? JSON.stringify(record.data) : (text.detail ?? "")),
    tone: text?.tone ?? "plain",
    // Calls that a program makes stand below its own call.
    depth: (text?.depth ?? 0) + ("parentCallId" in record.data ? 1 : 0),
  };
}

function tellKnown(record: Event): (Partial<Told> & Pick<Told, "title">) | undefined {
  if (!isKnown(record)) return undefined;
  const teller = TELLERS[record.type] as ((data: unknown) => Partial<Told> & Pick<Told, "title">) | undefined;
  return teller?.(record.data);
}

function oneLine(text: string): string {
  const flat = text
    .slice(0, DETAIL_CHARS_MAX * 2)
    .replace(/\s+/gu, " ")
    .trim();
  return flat.length > DETAIL_CHARS_MAX ? `${flat.slice(0, DETAIL_CHARS_MAX)}…` : flat;
}

/** Whether a record belongs to the story of a run; the others are bookkeeping. */
export function isStory(record: Event): boolean {
  return isKnown(record) && Object.hasOwn(TELLERS, record.type);
}

// Fork points: a fork ends after an answer of the agent, or before a message of the user.

/** Records that begin a part: a fork ends before one, not in the middle. */
const BEGINNINGS: ReadonlySet<string> = new Set(["run.started", "turn.started", "message.received", "step.started"]);
/** Records that precede a message of the user. */
const OPENINGS: ReadonlySet<string> = new Set(["run.started", "turn.started"]);

/** All records of a session up to now. */
async function readRecords(sessionId: string): Promise<readonly Event[]> {
  const records: Event[] = [];
  for await (const { event } of client.sessionEvents(sessionId, { follow: false }))
    if (event.index === undefined) records.push(event);
  return records;
}

/**
 * The record after which a fork begins: behind what an agent said and did, in front of what a user said.
 *
 * Zero if nothing was said before, and undefined if the message is not in the journal.
 */
export function forkPoint(records: readonly Event[], message: Pick<ChatMessage, "id" | "role">): number | undefined {
  const seq = firstSeqOf(records, message.id);
  if (seq === undefined) return undefined;
  if (message.role === "user") {
    let at = seq - 1;
    while (at > 0 && OPENINGS.has(records[at - 1]?.type ?? "")) at -= 1;
    return at <= 1 ? 0 : at;
  }
  const next = records.findIndex((record, at) => at >= seq && BEGINNINGS.has(record.type));
  if (next === -1) return records.length;
  // The next model call is written together with the last result: in front of it there is no safe point.
  return records[next]?.type === "step.started" ? next + 1 : next;
}

/** The record with which a message came: from there on it is in the chat, so half of what is left is enough each time. */
function firstSeqOf(records: readonly Event[], messageId: string): number | undefined {
  const isThere = (count: number): boolean =>
    foldChat(records.slice(0, count)).messages.some(({ id }) => id === messageId);
  if (!isThere(records.length)) return undefined;
  let low = 1;
  let high = records.length;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (isThere(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Forks a session at a record; returns the new session. */
export async function forkAt(sessionId: string, at: number): Promise<string> {
  return (await client.sessions.fork(sessionId, { at }, { idempotencyKey: newId() })).sessionId;
}

/** Forks a session at a message; returns the new session, or undefined if there is nothing before the message. */
export async function forkAtMessage(sessionId: string, message: ChatMessage): Promise<string | undefined> {
  const records = await readRecords(sessionId);
  const at = forkPoint(records, message);
  if (at === undefined) throw new Error("This message is not in the journal yet. Try again in a moment.");
  if (at === 0) return undefined;
  const point = (await client.sessions.safePoints(sessionId, { before: at + 1, limit: 1 })).safePoints.at(-1) ?? 0;
  // A fork that begins earlier would not have the message.
  const isWhole =
    message.role === "user" || foldChat(records.slice(0, point)).messages.some(({ id }) => id === message.id);
  if (!isWhole)
    throw new Error("A call of this message is still under way. Fork when it is done, or from an earlier message.");
  return point === 0 ? undefined : forkAt(sessionId, point);
}
