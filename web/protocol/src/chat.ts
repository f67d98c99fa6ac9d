/**
 * Messages and usage of a session, folded from its records. Python folds the same (`windlass_harness.views`), and
 * shared cases compare the two.
 *
 * A chat has one message for each thing a person said, one for each step of the model with its words and calls, and one for
 * each result. Ids never change: an answer that is tried again replaces the words in its message.
 */
import type {
  ActionResultData,
  ActionStartedData,
  ChatMessage,
  Event,
  EventDataByType,
  InputRequest,
  InputResolution,
  RuntimeActionRequest,
  ToolCall,
  ToolResult,
  Usage,
} from "./generated/index.js";
import { apply, given, runIdOf, type Handlers } from "./events.js";
import type { JsonObject, JsonValue } from "./wire.js";
import { INTEGER_MAX } from "./codec.js";

/** The newest step. `at` is the place of its message, undefined while it has none. */
export interface ChatStep {
  readonly turnId: string;
  readonly stepIndex: number;
  readonly at?: number | undefined;
  readonly isTriedAgain: boolean;
  /** Whether no message has the id of the step yet. */
  readonly isIdFree: boolean;
  /** Whether a call of its message was started: that message stays. */
  readonly hasBegun: boolean;
}

/** The messages so far, and what may still change or be answered. */
export interface ChatState {
  readonly sessionId?: string | undefined;
  /** The last record that was taken. */
  readonly seq: number;
  readonly messages: readonly ChatMessage[];
  readonly step?: ChatStep | undefined;
  /** Calls without a result, each with the id of the message that asked for it. */
  readonly openCalls: ReadonlyMap<string, string>;
  /** Open requests to people, by request. */
  readonly requests: ReadonlyMap<string, InputRequest>;
  readonly runId?: string | undefined;
}

export const EMPTY_CHAT: ChatState = { seq: 0, messages: [], openCalls: new Map(), requests: new Map() };

/** A record is not the next one of its session. */
export class RecordGap extends RangeError {
  override readonly name = "RecordGap";

  constructor(
    readonly expectedSeq: number,
    found: Event,
  ) {
    super(
      `expected record ${expectedSeq}, found record ${found.seq ?? "without a number"} of session ` +
        `'${found.sessionId ?? ""}'; read the session again after record ${expectedSeq - 1}`,
    );
  }
}

/**
 * Folds records of one session, as events, into the messages of a chat.
 *
 * Live deltas are ignored. Unchanged parts are the same objects as before. Throws RecordGap if a record is
 * not the next one.
 */
export function foldChat(events: Iterable<Event>, state: ChatState = EMPTY_CHAT): ChatState {
  const draft = new ChatDraft(state);
  for (const event of events) draft.take(event);
  return draft.freeze();
}

/** The id of the message that holds what the model said in a step. */
export function stepMessageId(sessionId: string, turnId: string, stepIndex: number): string {
  return `${sessionId}/${turnId}/${stepIndex}`;
}

interface StepPlace {
  readonly turnId: string;
  readonly stepIndex: number;
}

type Data<K extends keyof EventDataByType> = EventDataByType[K];

class ChatDraft {
  private messages: ChatMessage[] | undefined;
  private openCalls: Map<string, string> | undefined;
  private requests: Map<string, InputRequest> | undefined;
  private seq: number;
  private sessionId: string | undefined;
  private step: ChatStep | undefined;
  private runId: string | undefined;

  constructor(private readonly before: ChatState) {
    ({ seq: this.seq, sessionId: this.sessionId, step: this.step, runId: this.runId } = before);
  }

  take(event: Event): void {
    if (event.index !== undefined) return;
    const isNext = event.seq === this.seq + 1 && (this.sessionId ?? event.sessionId) === event.sessionId;
    if (!isNext) throw new RecordGap(this.seq + 1, event);
    this.seq += 1;
    this.sessionId = event.sessionId;
    apply(HANDLERS, this, event);
  }

  freeze(): ChatState {
    const { before, seq, sessionId, step, runId } = this;
    if (seq === before.seq) return before;
    return {
      sessionId,
      seq,
      messages: this.messages ?? before.messages,
      step,
      openCalls: this.openCalls ?? before.openCalls,
      requests: this.requests ?? before.requests,
      runId,
    };
  }

  messageReceived(data: Data<"message.received">, event: Event): void {
    if (data.delivery === CORRECTION || data.delivery === JOB) return;
    const id = data.messageId ?? `${event.sessionId ?? ""}/${this.seq}`;
    this.ownMessages().push({ id, role: "user", content: data.message, createdAt: event.meta.at });
  }

  stepStarted({ turnId, stepIndex }: StepPlace): void {
    const { step } = this;
    if (step?.turnId !== turnId || step.stepIndex !== stepIndex) {
      this.step = { turnId, stepIndex, isTriedAgain: false, isIdFree: true, hasBegun: false };
    } else if (step.at === this.seen().length - 1 && !step.hasBegun) {
      this.step = { ...step, isTriedAgain: true };
    } else if (step.at !== undefined) {
      // Something was said or begun after the message: it stays, and the new attempt gets its own.
      this.step = { ...step, at: undefined, isIdFree: false, hasBegun: false };
    }
  }

  messageCompleted(data: Data<"message.completed">, event: Event): void {
    if (data.message === null || data.message === "") return;
    const at = this.messageOf(event, data, data.messageId);
    const before = this.seen()[at]?.content ?? "";
    this.change(event, at, { content: before === "" ? data.message : `${before}\n\n${data.message}` });
  }

  actionStarted(data: Data<"action.started">, event: Event): void {
    const askedIn = this.calls().get(data.callId);
    // A message that is about to be replaced does not show its calls much longer.
    const isGoing = this.step?.isTriedAgain === true && askedIn === this.stepMessage();
    if (askedIn === undefined || isGoing) this.addCalls(event, data, [startedAction(data)], data.parentCallId);
    if (this.step !== undefined && this.calls().get(data.callId) === this.stepMessage()) {
      this.step = { ...this.step, hasBegun: true };
    }
  }

  inputRequested(data: Data<"input.requested">, event: Event): void {
    const requests = this.ownRequests();
    for (const request of data.requests) requests.set(request.requestId, request);
    if (data.childSessionId !== undefined) return;
    const actions = data.requests.map((request) => request.action);
    this.addCalls(
      event,
      data,
      actions.filter((action) => !this.calls().has(action.callId)),
    );
  }

  inputResolved(data: Data<"input.resolved">, event: Event): void {
    for (const resolution of data.resolutions) {
      const request = this.asked().get(resolution.requestId);
      if (request === undefined) continue;
      this.ownRequests().delete(resolution.requestId);
      const answer = questionOutcome(request, resolution);
      // A request of a subagent is about its own calls, even if their ids are equal.
      if (answer !== undefined && data.childSessionId === undefined) {
        this.addResult(event, request.action.callId, answer);
      }
    }
  }

  runStarted(_: unknown, event: Event): void {
    this.runId = runIdOf(event);
  }

  /** Requests end with the run; a result that comes later still counts. */
  runEnded(_: unknown, event: Event): void {
    const isOurs = this.runId === undefined || this.runId === runIdOf(event);
    if (isOurs && this.asked().size > 0) this.requests = new Map();
  }

  addCalls(event: Event, place: StepPlace, actions: readonly RuntimeActionRequest[], parentCallId?: string): void {
    if (actions.length === 0) return;
    const calls = actions.map((action) => toolCallOf(action, parentCallId));
    const at = this.messageOf(event, place);
    const message = this.seen()[at];
    this.change(event, at, { toolCalls: [...(message?.toolCalls ?? []), ...calls] });
    const open = (this.openCalls ??= new Map(this.before.openCalls));
    for (const call of calls) open.set(call.id, message?.id ?? "");
  }

  addResult(event: Event, callId: string, output: Output): void {
    const askedIn = this.calls().get(callId);
    if (askedIn === undefined) return;
    (this.openCalls ??= new Map(this.before.openCalls)).delete(callId);
    this.ownMessages().push({
      id: `${askedIn}/${callId}`,
      role: "tool",
      content: textOf(output),
      createdAt: event.meta.at,
      ...given({ agentId: event.agentId }),
      toolResult: toolResultOf(callId, output),
    });
  }

  /** The place of the step's message; made, or emptied for a new attempt, if need be. */
  private messageOf(event: Event, { turnId, stepIndex }: StepPlace, messageId?: string): number {
    let step = this.step;
    if (step?.turnId !== turnId || step.stepIndex !== stepIndex) {
      step = { turnId, stepIndex, isTriedAgain: false, isIdFree: false, hasBegun: false };
    }
    const at = step.at ?? this.seen().length;
    if (step.at === undefined) {
      const name = messageId ?? stepMessageId(event.sessionId ?? "", turnId, stepIndex);
      this.ownMessages().push({
        id: step.isIdFree ? name : `${name}/${this.seq}`,
        role: "assistant",
        content: "",
        createdAt: event.meta.at,
        ...given({ agentId: event.agentId }),
      });
    } else if (step.isTriedAgain) {
      this.empty(event, at);
    }
    this.step = { ...step, at, isTriedAgain: false };
    return at;
  }

  private empty(event: Event, at: number): void {
    const open = (this.openCalls ??= new Map(this.before.openCalls));
    for (const call of this.seen()[at]?.toolCalls ?? []) open.delete(call.id);
    this.change(event, at, { content: "", toolCalls: undefined });
  }

  private change(event: Event, at: number, changes: Partial<ChatMessage>): void {
    const messages = this.ownMessages();
    const message = messages[at];
    if (message === undefined) return;
    const updated = event.meta.at === message.createdAt ? {} : { updatedAt: event.meta.at };
    const { toolCalls, ...rest } = { ...message, ...changes, ...updated };
    messages[at] = toolCalls === undefined ? rest : { ...rest, toolCalls };
  }

  private stepMessage(): string | undefined {
    const at = this.step?.at;
    return at === undefined ? undefined : this.seen()[at]?.id;
  }

  private seen(): readonly ChatMessage[] {
    return this.messages ?? this.before.messages;
  }

  private calls(): ReadonlyMap<string, string> {
    return this.openCalls ?? this.before.openCalls;
  }

  private asked(): ReadonlyMap<string, InputRequest> {
    return this.requests ?? this.before.requests;
  }

  private ownMessages(): ChatMessage[] {
    return (this.messages ??= [...this.before.messages]);
  }

  private ownRequests(): Map<string, InputRequest> {
    return (this.requests ??= new Map(this.before.requests));
  }
}

const endRun = (draft: ChatDraft, data: unknown, event: Event): void => {
  draft.runEnded(data, event);
};

const HANDLERS: Handlers<ChatDraft> = {
  "run.started": (draft, data, event) => {
    draft.runStarted(data, event);
  },
  "message.received": (draft, data, event) => {
    draft.messageReceived(data, event);
  },
  "step.started": (draft, data) => {
    draft.stepStarted(data);
  },
  "message.completed": (draft, data, event) => {
    draft.messageCompleted(data, event);
  },
  "actions.requested": (draft, data, event) => {
    draft.addCalls(event, data, data.actions, data.parentCallId);
  },
  "action.started": (draft, data, event) => {
    draft.actionStarted(data, event);
  },
  "action.result": (draft, data, event) => {
    draft.addResult(event, data.result.callId, outputOf(data));
  },
  "recovery.effect_settled": (draft, data, event) => {
    if (data.choice === "skip") draft.addResult(event, data.callId, SKIPPED);
  },
  "input.requested": (draft, data, event) => {
    draft.inputRequested(data, event);
  },
  "input.resolved": (draft, data, event) => {
    draft.inputResolved(data, event);
  },
  "run.completed": endRun,
  "run.failed": endRun,
  "run.cancelled": endRun,
  "run.budget_exhausted": endRun,
};

// Calls and results as messages.

/** The result of a call, as the model sees it. */
type Output =
  | { readonly type: "value"; readonly value: JsonValue }
  | { readonly type: "error"; readonly value: JsonValue }
  | { readonly type: "denied"; readonly reason: string };

const SKIPPED: Output = {
  type: "denied",
  reason: "Skipped: the call was interrupted and is not run again. It may or may not have taken effect.",
};
const DENIED = "Tool execution was denied.";
const LOAD_SKILL = "load_skill";
/** The delivery of a message that sends an answer back to the model: no person said it. */
export const CORRECTION = "correction";
/** The delivery of a message about a job that has ended. */
export const JOB = "job";
const APPROVAL_OPTIONS = "approve,deny";

/** The name of the tool under which the model asked for an action. */
export function actionName(action: RuntimeActionRequest): string {
  switch (action.kind) {
    case "tool-call":
      return action.toolName;
    case "load-skill":
      return LOAD_SKILL;
    case "subagent-call":
    case "remote-agent-call":
      return action.name;
  }
}

/** The call of an `action.started` without a preceding `actions.requested`. */
function startedAction(data: ActionStartedData): RuntimeActionRequest {
  return { kind: "tool-call", callId: data.callId, toolName: data.toolName, input: data.arguments ?? {} };
}

/** A result as the model sees it. */
function outputOf(data: ActionResultData): Output {
  const { output, isError } = data.result;
  const message = data.error?.message;
  if (data.status === "rejected") return { type: "denied", reason: message ?? DENIED };
  if (data.status === "completed" && isError !== true) return { type: "value", value: output };
  return { type: "error", value: output === null && message !== undefined ? message : output };
}

/** A call as chat clients see it; arguments must be an object there. */
function toolCallOf(action: RuntimeActionRequest, parentCallId?: string): ToolCall {
  const { input } = action;
  const isObject = typeof input === "object" && input !== null && !Array.isArray(input);
  const call = { id: action.callId, name: actionName(action), arguments: isObject ? input : { input } };
  return parentCallId === undefined ? call : { ...call, parentCallId };
}

/** A result as chat clients see it, with the `id` of its call. */
function toolResultOf(callId: string, output: Output): ToolResult {
  switch (output.type) {
    case "denied":
      return { success: false, error: output.reason, id: callId };
    case "error":
      return { success: false, error: asText(output.value), id: callId };
    case "value":
      return { success: true, data: output.value, id: callId };
  }
}

/** The text of a result. */
function textOf(output: Output): string {
  return output.type === "denied" ? output.reason : asText(output.value);
}

/** A value as text for people: itself, or its JSON. Python writes `1.0` where this writes `1`. */
function asText(value: JsonValue): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The answer to a question, as the model sees it; undefined if the request was no question. */
function questionOutcome(request: InputRequest, resolution: InputResolution): Output | undefined {
  const kind = resolution.kind ?? request.kind;
  const options = (request.options ?? []).map((option) => option.id).sort();
  // Without a kind, an approval is known by its two options.
  if (kind === undefined ? options.join() === APPROVAL_OPTIONS : kind !== "question") return undefined;
  const answer: JsonObject = { status: resolution.outcome };
  if (resolution.outcome === "answered" && resolution.response !== undefined) {
    const { optionId, text } = resolution.response;
    if (optionId !== undefined) answer["optionId"] = optionId;
    if (text !== undefined) answer["text"] = text;
  }
  return { type: "value", value: answer };
}

// Usage.

/** An amount used. `delegated` is what subagents used. */
export interface Tally {
  readonly usage: Usage;
  readonly steps: number;
  readonly toolCalls: number;
  readonly delegated: Usage;
}

/** The usage of a session so far, and the state to continue counting. */
export interface UsageState {
  readonly session: Tally;
  /** The usage of the newest run. */
  readonly run: Tally;
  readonly runId?: string | undefined;
  readonly step?: string | undefined;
  /** Calls that began and have no result, each with its run: a late result does not count again. */
  readonly running: ReadonlyMap<string, string | undefined>;
}

const NOTHING: Tally = { usage: {}, steps: 0, toolCalls: 0, delegated: {} };
const MICROS = 1_000_000;
const FIELDS = [
  "inputTokens",
  "outputTokens",
  "cacheReadTokens",
  "cacheWriteTokens",
  "reasoningTokens",
  "costMicros",
] as const;

export const NO_USAGE: UsageState = { session: NOTHING, run: NOTHING, running: new Map() };

/** Folds events of one session into its usage. Unchanged parts are the same objects as before. */
export function foldUsage(events: Iterable<Event>, state: UsageState = NO_USAGE): UsageState {
  const draft: UsageDraft = { state };
  for (const event of events) if (event.index === undefined) apply(USAGE_HANDLERS, draft, event);
  return draft.state;
}

/** Adds two amounts, up to the largest number; what neither knows is unknown. */
export function addUsage(first: Usage, second: Usage): Usage {
  const sum: Usage = {};
  for (const field of FIELDS) {
    if (first[field] === undefined && second[field] === undefined) continue;
    sum[field] = Math.min((first[field] ?? 0) + (second[field] ?? 0), INTEGER_MAX);
  }
  return sum;
}

interface UsageDraft {
  state: UsageState;
}

function charge(draft: UsageDraft, event: Event, amount: Partial<Tally>): void {
  const { session, run, runId } = draft.state;
  const isOfRun = (event.runId ?? runId) === runId;
  draft.state = { ...draft.state, session: plus(session, amount), run: isOfRun ? plus(run, amount) : run };
}

function plus(first: Tally, second: Partial<Tally>): Tally {
  return {
    usage: second.usage === undefined ? first.usage : addUsage(first.usage, second.usage),
    steps: first.steps + (second.steps ?? 0),
    toolCalls: first.toolCalls + (second.toolCalls ?? 0),
    delegated: second.delegated === undefined ? first.delegated : addUsage(first.delegated, second.delegated),
  };
}

function usageOf({ usage = {}, costUsd }: EventDataByType["step.completed"]): Usage {
  if (usage.costMicros !== undefined || costUsd === undefined) return usage;
  return { ...usage, costMicros: toEven(Math.min(costUsd * MICROS, INTEGER_MAX)) };
}

/** Rounds as Python does: a half goes to the even neighbour. */
function toEven(value: number): number {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}

const spend = (draft: UsageDraft, data: { readonly usage?: Usage | undefined }, event: Event): void => {
  if (data.usage !== undefined) charge(draft, event, { usage: data.usage });
};

const USAGE_HANDLERS: Handlers<UsageDraft> = {
  "run.started": (draft, _, event) => {
    draft.state = { ...draft.state, runId: runIdOf(event), run: NOTHING };
  },
  "step.started": (draft, { turnId, stepIndex }, event) => {
    const step = `${stepIndex}/${turnId}`;
    if (step === draft.state.step) return;
    draft.state = { ...draft.state, step };
    charge(draft, event, { steps: 1 });
  },
  "step.completed": (draft, data, event) => {
    charge(draft, event, { usage: usageOf(data) });
  },
  "step.failed": spend,
  "step.retrying": spend,
  "compaction.completed": spend,
  "compaction.failed": spend,
  "subagent.completed": (draft, { usage }, event) => {
    if (usage !== undefined) charge(draft, event, { delegated: usage });
  },
  "action.started": (draft, { callId }, event) => {
    const { running } = draft.state;
    const runId = event.runId ?? draft.state.runId;
    if (running.has(callId) && running.get(callId) === runId) return;
    draft.state = { ...draft.state, running: new Map(running).set(callId, runId) };
    charge(draft, event, { toolCalls: 1 });
  },
  "action.result": (draft, { result, status }, event) => {
    const running = new Map(draft.state.running);
    if (running.delete(result.callId)) draft.state = { ...draft.state, running };
    else if (status !== "rejected") charge(draft, event, { toolCalls: 1 });
  },
};
