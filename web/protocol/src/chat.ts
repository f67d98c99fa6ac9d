/**
 * The conversation as chat clients show it; the twin of `views/chat.py`.
 *
 * One message for each thing a person said, one for each step of the model with its words and calls, and one for
 * each result. Ids never change: an answer that is tried again replaces the words in its message.
 */
import {
  outputOf,
  questionOutcome,
  SKIPPED,
  startedAction,
  textOf,
  toolCallOf,
  toolResultOf,
  type Output,
} from "./chat-content.js";
import type { ChatMessage, Event, EventDataByType, InputRequest, RuntimeActionRequest } from "./generated/index.js";
import { apply, given, runIdOf, type Handlers } from "./handlers.js";

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
  /** What people are asked, by request. */
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
 * Live deltas are passed over. What did not change is the same object as before. Throws RecordGap if a record is
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
    if (askedIn === undefined || isGoing) this.addCalls(event, data, [startedAction(data)]);
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
      if (answer !== undefined) this.addResult(event, request.action.callId, answer);
    }
  }

  runStarted(_: unknown, event: Event): void {
    this.runId = runIdOf(event);
  }

  /** Nobody is asked any more; a result that comes late is still one. */
  runEnded(_: unknown, event: Event): void {
    const isOurs = this.runId === undefined || this.runId === runIdOf(event);
    if (isOurs && this.asked().size > 0) this.requests = new Map();
  }

  addCalls(event: Event, place: StepPlace, actions: readonly RuntimeActionRequest[]): void {
    if (actions.length === 0) return;
    const calls = actions.map(toolCallOf);
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
    draft.addCalls(event, data, data.actions);
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
