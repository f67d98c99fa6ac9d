/**
 * The one fold from events to what a chat shows: durable messages, the answer that is being written, the progress of
 * calls, the newest run and notes about failures. `chatItems` renders it as rows.
 */
import {
  actionName,
  CORRECTION,
  EMPTY_CHAT,
  foldChat,
  foldUsage,
  JOB,
  NO_USAGE,
  stepMessageId,
  type ChatState,
  type UsageState,
} from "./chat.js";
import type {
  ChatMessage,
  ErrorInfo,
  Event,
  EventDataByType,
  InputRequest,
  InputResolution,
  RunStatus,
  ToolCall,
  ToolMode,
  Usage,
  UserContent,
  UserPart,
} from "./generated/index.js";
import type { JsonValue } from "./wire.js";
import { apply, runIdOf, type Handlers } from "./events.js";

/** The answer that is being written. */
export interface LiveStep {
  readonly turnId: string;
  readonly stepIndex: number;
  readonly text: string;
  readonly reasoning: string;
  /** Arguments of calls as they are written, by call. */
  readonly inputs: ReadonlyMap<string, LiveInput>;
  /** Whether the model is being asked again: what is here is of the attempt before, until there is more. */
  readonly isStale: boolean;
}

/** The arguments of a call, as far as they are written. */
export interface LiveInput {
  readonly toolName?: string | undefined;
  readonly text: string;
}

/** How far a call is, apart from its result. */
export interface CallProgress {
  readonly stage: "asked" | "started" | "settled";
  readonly startedAt?: string | undefined;
  readonly mode?: ToolMode | undefined;
  /** How often it was begun. */
  readonly attempt?: number | undefined;
  /** The key that the tool is given, the same for every attempt. */
  readonly idempotencyKey?: string | undefined;
  /** The newest partial output of a running tool. */
  readonly partial?: JsonValue | undefined;
  /** How it ended. */
  readonly status?: "completed" | "failed" | "rejected" | "cancelled" | undefined;
  /** Whether it was under way when its run ended: it may have taken effect. */
  readonly isUnknown?: boolean | undefined;
  readonly durationMs?: number | undefined;
  /** What a person said about it last. */
  readonly answer?: CallAnswer | undefined;
}

/** What a person said about a call. */
export interface CallAnswer {
  readonly outcome: InputResolution["outcome"];
  readonly at: string;
  readonly by?: string | undefined;
  readonly text?: string | undefined;
  /** Whether they changed its arguments. */
  readonly isChanged: boolean;
}

/** A subagent at work for a call. */
export interface Subagent {
  readonly callId: string;
  readonly name: string;
  readonly childSessionId?: string | undefined;
  readonly childRunId?: string | undefined;
  readonly status: "running" | "completed" | "failed";
  readonly output?: string | undefined;
  readonly usage?: Usage | undefined;
}

/** The newest run. */
export interface RunView {
  readonly runId: string;
  readonly agentId?: string | undefined;
  readonly status: RunStatus;
  readonly startedAt: string;
  readonly endedAt?: string | undefined;
  readonly modelId?: string | undefined;
  /** The cause of waiting. */
  readonly waitsOn?: string | undefined;
  readonly error?: ErrorInfo | undefined;
  readonly structuredOutput?: JsonValue | undefined;
}

/** Something that is shown between messages. `at` is the number of messages before it. */
export type Note =
  /** Words that never became a message, because the step failed or was stopped. */
  | { readonly kind: "partial"; readonly id: string; readonly at: number; readonly text: string }
  | {
      readonly kind: "error";
      readonly id: string;
      readonly at: number;
      readonly code: string;
      readonly text: string;
      /** Whether the run goes on all the same. */
      readonly isPassing: boolean;
    }
  | { readonly kind: "cancelled"; readonly id: string; readonly at: number; readonly text: string }
  | { readonly kind: "compacted"; readonly id: string; readonly at: number; readonly text: string }
  /** A process ended in the middle, and another one goes on behind the records that were kept. */
  | {
      readonly kind: "recovered";
      readonly id: string;
      readonly at: number;
      readonly text: string;
      readonly keptCount: number;
    };

/** A message of a user as it was sent. */
export interface UserInput {
  /** Its text, or its parts when it came with files. */
  readonly content: UserContent;
  /** Whether a run began with it; else it went to the run under way. */
  readonly isOpening: boolean;
}

/** All that a client shows of a session. Frozen: what did not change is the same object as before. */
export interface Conversation {
  readonly chat: ChatState;
  readonly live?: LiveStep | undefined;
  /** Reasoning of the model, by the step's message. */
  readonly reasoning: ReadonlyMap<string, string>;
  /** Messages of users, by message. */
  readonly inputs: ReadonlyMap<string, UserInput>;
  /** By message and call: `${messageId}/${callId}`. */
  readonly calls: ReadonlyMap<string, CallProgress>;
  /** Calls that people are asked about, by request. */
  readonly asked: ReadonlyMap<string, string>;
  /** By call. */
  readonly subagents: ReadonlyMap<string, Subagent>;
  readonly run?: RunView | undefined;
  readonly notes: readonly Note[];
  readonly usage: UsageState;
}

export const EMPTY_CONVERSATION: Conversation = {
  chat: EMPTY_CHAT,
  reasoning: new Map(),
  inputs: new Map(),
  calls: new Map(),
  asked: new Map(),
  subagents: new Map(),
  notes: [],
  usage: NO_USAGE,
};

/**
 * A conversation that is read from a record on: the beginning of a run or of a step, of which nothing is missing.
 *
 * Messages, calls and requests from there on are whole. Usage and notes are those from there on.
 */
export function conversationFrom(first: Event): Conversation {
  const chat = { ...EMPTY_CHAT, seq: (first.seq ?? 1) - 1 };
  const runId = runIdOf(first);
  if (first.type !== "step.started" || runId === undefined) return { ...EMPTY_CONVERSATION, chat };
  const run: RunView = { runId, agentId: first.agentId, status: "running", startedAt: first.meta.at };
  return { ...EMPTY_CONVERSATION, chat, run };
}

/** Whether a conversation can be read from a record on. */
export function isPageStart({ type, index }: Event): boolean {
  return index === undefined && (type === "run.started" || type === "step.started");
}

/**
 * Takes the next events of a session in; pure.
 *
 * A record that was taken before is passed over, so a feed may be read again from an older cursor. Throws
 * RecordGap if one is missing.
 */
export function reduceConversation(state: Conversation, events: Iterable<Event>): Conversation {
  const draft = new ConversationDraft(state);
  for (const event of events) draft.take(event);
  return draft.freeze();
}

/** Whether a run is under way: it may still say or do something. */
export function isRunning(state: Conversation): boolean {
  return state.run !== undefined && state.run.endedAt === undefined;
}

// The fold.

type Data<K extends keyof EventDataByType> = EventDataByType[K];

interface StepPlace {
  readonly turnId: string;
  readonly stepIndex: number;
}

type Ending = Pick<RunView, "status" | "error" | "structuredOutput">;

/** A note before it has its place and its name. */
type NewNote = { [K in Note["kind"]]: Omit<Extract<Note, { kind: K }>, "id" | "at"> }[Note["kind"]];

/** A conversation that is being changed. */
class ConversationDraft {
  private chat: ChatState;
  private usage: UsageState;
  private live: LiveStep | undefined;
  private run: RunView | undefined;
  private notes: readonly Note[];
  private reasoning: ReadonlyMap<string, string>;
  private inputs: ReadonlyMap<string, UserInput>;
  private ownInputs: Map<string, UserInput> | undefined;
  private calls: ReadonlyMap<string, CallProgress>;
  /** Copied once for all that is taken in at once. */
  private ownCalls: Map<string, CallProgress> | undefined;
  private asked: ReadonlyMap<string, string>;
  private subagents: ReadonlyMap<string, Subagent>;
  private pending: Event[] = [];

  constructor(private readonly before: Conversation) {
    ({ chat: this.chat, usage: this.usage, live: this.live, run: this.run, notes: this.notes } = before);
    ({
      inputs: this.inputs,
      reasoning: this.reasoning,
      calls: this.calls,
      asked: this.asked,
      subagents: this.subagents,
    } = before);
  }

  take(event: Event): void {
    if (event.index !== undefined) {
      apply(DELTAS, this, event);
      return;
    }
    const seq = this.chat.seq + this.pending.length;
    if (event.seq !== undefined && event.seq <= seq) return;
    this.pending.push(event);
    if (!Object.hasOwn(RECORDS, event.type)) return;
    // The chat is folded in pieces as long as possible: what follows looks at it as it is behind this record.
    this.flush();
    apply(RECORDS, this, event);
  }

  freeze(): Conversation {
    this.flush();
    const { chat, live, reasoning, inputs, calls, asked, subagents, run, notes, usage, before } = this;
    const isSame =
      chat === before.chat && live === before.live && calls === before.calls && subagents === before.subagents;
    return isSame ? before : { chat, live, reasoning, inputs, calls, asked, subagents, run, notes, usage };
  }

  private flush(): void {
    if (this.pending.length === 0) return;
    const events = this.pending;
    this.pending = [];
    this.chat = foldChat(events, this.chat);
    this.usage = foldUsage(events, this.usage);
  }

  received({ message: text, parts, delivery = "turn" }: Data<"message.received">): void {
    const message = this.chat.messages.at(-1);
    if (delivery === CORRECTION || delivery === JOB || message === undefined) return;
    this.inputs = this.ownInputs ??= new Map(this.inputs);
    this.ownInputs.set(message.id, { content: parts ?? text, isOpening: !TO_RUN_UNDER_WAY.has(delivery) });
  }

  // Live deltas.

  textAppended(data: Data<"message.appended">): void {
    const live = this.liveOf(data);
    this.live = { ...live, text: data.messageSoFar ?? live.text + data.messageDelta };
  }

  reasoningAppended(data: Data<"reasoning.appended">): void {
    const live = this.liveOf(data);
    this.live = { ...live, reasoning: data.reasoningSoFar ?? live.reasoning + data.reasoningDelta };
  }

  inputAppended(data: Data<"action.input.appended">): void {
    const live = this.liveOf(data);
    const before = live.inputs.get(data.callId);
    const soFar = data["inputSoFar"];
    const text = typeof soFar === "string" ? soFar : (before?.text ?? "") + data.inputDelta;
    const input = { text, toolName: data.toolName ?? before?.toolName };
    this.live = { ...live, inputs: new Map(live.inputs).set(data.callId, input) };
  }

  partial(data: Data<"action.partial">): void {
    this.flush();
    this.progress(data.callId, { stage: "started", partial: data.output });
  }

  /** The live step, emptied if it is another one or of an attempt that failed. */
  private liveOf({ turnId, stepIndex }: StepPlace): LiveStep {
    const { live } = this;
    if (live?.turnId === turnId && live.stepIndex === stepIndex && !live.isStale) return live;
    return { turnId, stepIndex, text: "", reasoning: "", inputs: new Map(), isStale: false };
  }

  // Steps.

  stepStarted({ turnId, stepIndex }: Data<"step.started">): void {
    const { live } = this;
    if (live === undefined) return;
    if (live.turnId === turnId && live.stepIndex === stepIndex) this.live = { ...live, isStale: true };
    else this.keepWords();
  }

  /** Removes a part from the live step once it is durable. */
  settleLive(part: "text" | "reasoning" | "inputs"): void {
    if (this.live === undefined) return;
    const empty = { text: "", reasoning: "", inputs: new Map<string, never>() };
    const live = { ...this.live, [part]: empty[part] };
    this.live = live.text === "" && live.reasoning === "" && live.inputs.size === 0 ? undefined : live;
  }

  reasoned({ turnId, stepIndex, reasoning }: Data<"reasoning.completed">, event: Event): void {
    const messageId = stepMessageId(event.sessionId ?? "", turnId, stepIndex);
    this.reasoning = new Map(this.reasoning).set(messageId, reasoning);
    this.settleLive("reasoning");
  }

  stepFailed({ code, message }: Data<"step.failed">): void {
    this.keepWords();
    this.note({ kind: "error", code, text: message, isPassing: false });
  }

  stepRetrying({ code, message }: Data<"step.retrying">): void {
    if (this.live !== undefined) this.live = { ...this.live, isStale: true };
    this.note({ kind: "error", code, text: message ?? "The model call failed.", isPassing: true });
  }

  /** Text that was shown stays after an error or a stop. */
  private keepWords(): void {
    const text = this.live?.text ?? "";
    this.live = undefined;
    if (text !== "") this.note({ kind: "partial", text });
  }

  // Calls.

  actionStarted(data: Data<"action.started">, event: Event): void {
    const { callId, mode, idempotencyKey } = data;
    const key = this.keyOf(callId);
    const attempt = ((key === undefined ? undefined : this.calls.get(key)?.attempt) ?? 0) + 1;
    this.progress(callId, { stage: "started", startedAt: event.meta.at, mode, attempt, idempotencyKey });
  }

  actionSettled(data: Data<"action.result">): void {
    const { status, durationMs, result, error } = data;
    const isError = status === "completed" && result.isError === true;
    // A run that ends before its calls ends them with these codes.
    const isUnknown = error?.code === "outcome_unknown";
    const ended = isUnknown || error?.code === "cancelled" ? "cancelled" : isError ? "failed" : status;
    const settled = { stage: "settled", status: ended, isUnknown, durationMs, partial: undefined } as const;
    this.progress(result.callId, settled);
  }

  skipped({ callId, choice }: Data<"recovery.effect_settled">): void {
    if (choice === "skip") this.progress(callId, { stage: "settled", status: "rejected", partial: undefined });
  }

  /** Requests of subagents are about calls of other sessions. */
  requested({ requests, childSessionId }: Data<"input.requested">): void {
    if (childSessionId !== undefined) return;
    for (const { requestId, action } of requests) this.asked = new Map(this.asked).set(requestId, action.callId);
  }

  resolved({ resolutions }: Data<"input.resolved">, event: Event): void {
    for (const { requestId, outcome, response } of resolutions) {
      const callId = this.asked.get(requestId);
      if (callId === undefined) continue;
      this.asked = new Map([...this.asked].filter(([id]) => id !== requestId));
      const isChanged = response?.arguments !== undefined;
      const answer = { outcome, at: event.meta.at, by: response?.responder, text: response?.text, isChanged };
      this.progress(callId, { answer });
    }
  }

  private progress(callId: string, changes: Partial<CallProgress>): void {
    const key = this.keyOf(callId);
    if (key === undefined) return;
    const before: CallProgress = this.calls.get(key) ?? { stage: "asked" };
    this.calls = this.ownCalls ??= new Map(this.calls);
    this.ownCalls.set(key, { ...before, ...changes });
  }

  /** The key of a call: by the message that asked for it, while it is open or when its result is the newest. */
  private keyOf(callId: string): string | undefined {
    const askedIn = this.chat.openCalls.get(callId);
    if (askedIn !== undefined) return `${askedIn}/${callId}`;
    const last = this.chat.messages.at(-1);
    return last?.role === "tool" && last.toolResult?.["id"] === callId ? last.id : undefined;
  }

  subagent(callId: string, changes: Partial<Subagent> & Pick<Subagent, "name" | "status">): void {
    const before = this.subagents.get(callId);
    this.subagents = new Map(this.subagents).set(callId, { ...before, callId, ...changes });
  }

  // Runs.

  recovered({ seq = 1 }: Event): void {
    this.keepWords();
    const text = "The process of this run ended in the middle. Another one goes on from its records.";
    this.note({ kind: "recovered", text, keptCount: seq - 1 });
  }

  runStarted({ runId, agentId, modelId }: Data<"run.started">, event: Event): void {
    this.run = { runId, agentId, modelId, status: "running", startedAt: event.meta.at };
  }

  runChanged(status: RunStatus, waitsOn: string | undefined, event: Event): void {
    const { run } = this;
    if (run === undefined || run.runId !== runIdOf(event) || run.endedAt !== undefined) return;
    // A cancelled run stays `cancelling` until it ends.
    this.run = { ...run, status: run.status === "cancelling" ? "cancelling" : status, waitsOn };
  }

  runEnded(ending: Ending, event: Event): void {
    const { run } = this;
    if (run === undefined || run.runId !== runIdOf(event) || run.endedAt !== undefined) return;
    this.keepWords();
    this.run = { ...run, ...ending, waitsOn: undefined, endedAt: event.meta.at };
    const { error } = ending;
    if (ending.status === "cancelled") this.note({ kind: "cancelled", text: error?.message ?? "Stopped." });
    else if (error !== undefined && !this.isTold(error.message)) {
      this.note({ kind: "error", code: error.code, text: error.message, isPassing: false });
    }
  }

  failed({ code, message }: Data<"turn.failed"> | Data<"session.failed">): void {
    this.keepWords();
    if (!this.isTold(message)) this.note({ kind: "error", code, text: message, isPassing: false });
  }

  /** A failure of a step shows again as that of its turn, its run and its session. */
  private isTold(text: string): boolean {
    const last = this.notes.at(-1);
    return last?.kind === "error" && !last.isPassing && last.at === this.chat.messages.length && last.text === text;
  }

  note(note: NewNote): void {
    const id = `note/${this.chat.sessionId ?? ""}/${this.chat.seq}/${this.notes.length}`;
    this.notes = [...this.notes, { ...note, id, at: this.chat.messages.length }];
  }
}

/** Deliveries of messages that begin no run: of a person to the run under way, and of a hook to the run it belongs to. */
const TO_RUN_UNDER_WAY: ReadonlySet<string> = new Set(["steer", "hook"]);

const DELTAS: Handlers<ConversationDraft> = {
  "message.appended": (draft, data) => {
    draft.textAppended(data);
  },
  "reasoning.appended": (draft, data) => {
    draft.reasoningAppended(data);
  },
  "action.input.appended": (draft, data) => {
    draft.inputAppended(data);
  },
  "action.partial": (draft, data) => {
    draft.partial(data);
  },
};

const RECORDS: Handlers<ConversationDraft> = {
  "message.received": (draft, data) => {
    draft.received(data);
  },
  "step.started": (draft, data) => {
    draft.stepStarted(data);
  },
  "message.completed": (draft) => {
    draft.settleLive("text");
  },
  "reasoning.completed": (draft, data, event) => {
    draft.reasoned(data, event);
  },
  "actions.requested": (draft) => {
    draft.settleLive("inputs");
  },
  "step.failed": (draft, data) => {
    draft.stepFailed(data);
  },
  "step.retrying": (draft, data) => {
    draft.stepRetrying(data);
  },
  "action.started": (draft, data, event) => {
    draft.actionStarted(data, event);
  },
  "action.result": (draft, data) => {
    draft.actionSettled(data);
  },
  "input.requested": (draft, data) => {
    draft.requested(data);
  },
  "input.resolved": (draft, data, event) => {
    draft.resolved(data, event);
  },
  "recovery.effect_settled": (draft, data) => {
    draft.skipped(data);
  },
  "subagent.called": (draft, { callId, name, childSessionId, childRunId }) => {
    draft.subagent(callId, { name, childSessionId, childRunId, status: "running" });
  },
  "subagent.completed": (draft, { callId, subagentName: name, output, usage, isError }) => {
    draft.subagent(callId, { name, output, usage, status: isError === true ? "failed" : "completed" });
  },
  "compaction.completed": (draft, { summary }) => {
    draft.note({ kind: "compacted", text: summary ?? "" });
  },
  "recovery.started": (draft, _, event) => {
    draft.recovered(event);
  },
  "run.started": (draft, data, event) => {
    draft.runStarted(data, event);
  },
  "run.waiting": (draft, { on }, event) => {
    draft.runChanged("waiting", on, event);
  },
  "run.resumed": (draft, _, event) => {
    draft.runChanged("running", undefined, event);
  },
  "run.cancel_requested": (draft, _, event) => {
    draft.runChanged("cancelling", undefined, event);
  },
  "run.completed": (draft, { structuredOutput }, event) => {
    draft.runEnded({ status: "completed", structuredOutput }, event);
  },
  "run.failed": (draft, { error }, event) => {
    draft.runEnded({ status: "failed", error }, event);
  },
  "run.cancelled": (draft, { error }, event) => {
    draft.runEnded({ status: "cancelled", error }, event);
  },
  "run.budget_exhausted": (draft, { error }, event) => {
    draft.runEnded({ status: "budget_exhausted", error }, event);
  },
  "turn.failed": (draft, data) => {
    draft.failed(data);
  },
  "session.failed": (draft, data) => {
    draft.failed(data);
  },
};

// Files of user messages.

/** A file or a picture that came with a message. */
export interface Attachment {
  readonly kind: "image" | "file";
  readonly name: string;
  readonly mediaType: string;
  /** How large it is, if the message has it whole. */
  readonly bytes?: number | undefined;
}

const DATA = /^data:([^;,]*)[^,]*;base64,/u;

/** The files of a message, in order. */
export function attachmentsOf(parts: readonly UserPart[]): readonly Attachment[] {
  return parts.flatMap((part): Attachment[] => {
    if (part.type === "text") return [];
    const source = part.type === "image" ? part.image : part.data;
    const found = DATA.exec(source.slice(0, 256));
    const mediaType = part.mediaType ?? part.content?.mediaType ?? found?.[1] ?? "";
    const name =
      part.type === "file" && part.filename !== undefined ? part.filename : part.type === "image" ? "picture" : "file";
    const inline = found === null ? undefined : Math.floor(((source.length - found[0].length) * 3) / 4);
    const bytes = part.content?.sizeBytes ?? inline;
    return [{ kind: part.type, name, mediaType, bytes }];
  });
}

/** The text of what a user says. */
export function textOfContent(content: UserContent): string {
  return typeof content === "string"
    ? content
    : content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
}

// Rows.

/** Where a call is. */
export type CallStatus =
  /** The model is still writing its arguments. */
  | "writing"
  | "requested"
  /** A person is asked. */
  | "waiting"
  | "running"
  | "succeeded"
  | "failed"
  | "denied"
  /** The run was cancelled before it was done. */
  | "stopped"
  /** The run ended before there was a result. */
  | "abandoned";

/** A call with everything that belongs to it. Results stay with their calls, whatever order they came in. */
export interface CallView {
  /** Names the call in its session. */
  readonly key: string;
  readonly call: ToolCall;
  readonly status: CallStatus;
  /** The arguments as far as they are written; only while `writing`. */
  readonly inputText?: string | undefined;
  readonly result?: ChatMessage | undefined;
  readonly progress?: CallProgress | undefined;
  readonly request?: InputRequest | undefined;
  readonly subagent?: Subagent | undefined;
}

/** One row of a conversation. Its id never changes. */
export type ChatItem =
  | {
      readonly kind: "message";
      readonly id: string;
      readonly message: ChatMessage;
      readonly calls: readonly CallView[];
      readonly reasoning?: string | undefined;
      /** The message of a user as it was sent; absent for one that the session does not have. */
      readonly input?: UserInput | undefined;
      /** Files that came with it. */
      readonly attachments?: readonly Attachment[] | undefined;
      /** Whether more of it is being written. */
      readonly isLive: boolean;
    }
  | { readonly kind: "note"; readonly id: string; readonly note: Note }
  /** A request that belongs to no call on the page, such as that of a subagent. */
  | { readonly kind: "request"; readonly id: string; readonly request: InputRequest };

type MessageItem = Extract<ChatItem, { kind: "message" }>;

/**
 * The rows of a conversation, in order.
 *
 * Give the rows of last time: those that are equal are the same objects again, so that a view draws only what
 * changed.
 */
export function chatItems(state: Conversation, previous: readonly ChatItem[] = []): readonly ChatItem[] {
  const rows = new Rows(state).list();
  const before = new Map(previous.map((item) => [item.id, item]));
  const reused = rows.map((row) => sameOrNew(before.get(row.id), row));
  const isSame = reused.length === previous.length && reused.every((row, at) => row === previous[at]);
  return isSame ? previous : reused;
}

class Rows {
  private readonly results = new Map<string, ChatMessage>();
  private readonly asked = new Map<string, InputRequest>();
  private readonly shown = new Set<string>();
  private readonly isOver: boolean;

  constructor(private readonly state: Conversation) {
    for (const message of state.chat.messages) if (message.role === "tool") this.results.set(message.id, message);
    for (const request of state.chat.requests.values()) this.asked.set(keyOf(request), request);
    this.isOver = !isRunning(state);
  }

  list(): ChatItem[] {
    const { chat, notes } = this.state;
    const rows: ChatItem[] = [];
    let nextNote = 0;
    const putNotes = (until: number): void => {
      for (let note = notes[nextNote]; note !== undefined && note.at <= until; note = notes[++nextNote]) {
        rows.push({ kind: "note", id: note.id, note });
      }
    };
    chat.messages.forEach((message, at) => {
      putNotes(at);
      if (message.role !== "tool") rows.push(this.row(message));
    });
    putNotes(Infinity);
    this.addLive(rows);
    for (const request of chat.requests.values()) {
      if (!this.shown.has(request.requestId)) rows.push({ kind: "request", id: request.requestId, request });
    }
    return rows;
  }

  private row(message: ChatMessage): MessageItem {
    const calls = (message.toolCalls ?? []).map((call) => this.call(message, call));
    const reasoning = this.state.reasoning.get(message.id);
    const input = this.state.inputs.get(message.id);
    const files = typeof input?.content === "object" ? attachmentsOf(input.content) : [];
    const attachments = files.length === 0 ? undefined : files;
    return { kind: "message", id: message.id, message, calls, reasoning, input, attachments, isLive: false };
  }

  private call(message: ChatMessage, call: ToolCall): CallView {
    const { chat, calls, subagents } = this.state;
    const key = `${message.id}/${call.id}`;
    const result = this.results.get(key);
    const isOpen = chat.openCalls.get(call.id) === message.id;
    const request = isOpen ? this.asked.get(`${call.id}/${call.name}`) : undefined;
    if (request !== undefined) this.shown.add(request.requestId);
    const progress = calls.get(key);
    const status = statusOf({ result, progress, request, isOver: this.isOver });
    return { key, call, status, result, progress, request, subagent: subagents.get(call.id) };
  }

  /** Puts the answer that is being written into the row of its step, or makes that row. */
  private addLive(rows: ChatItem[]): void {
    const { live } = this.state;
    if (live === undefined || (live.text === "" && live.reasoning === "" && live.inputs.size === 0)) return;
    const message = this.messageOf(live);
    const at = message === undefined ? -1 : rows.findLastIndex((row) => row.id === message.id);
    const row = rows[at];
    if (row?.kind === "message") rows[at] = withLive(row, live, this.state.chat.step?.isTriedAgain === true);
    else rows.push(withLive(this.newRow(live), live, false));
  }

  private newRow({ turnId, stepIndex }: LiveStep): MessageItem {
    const id = stepMessageId(this.state.chat.sessionId ?? "", turnId, stepIndex);
    return this.row({ id, role: "assistant", content: "", createdAt: "" });
  }

  /** The message of the step that is live, if it has one. */
  private messageOf(live: LiveStep): ChatMessage | undefined {
    const { step, messages } = this.state.chat;
    const isOfStep = step?.turnId === live.turnId && step.stepIndex === live.stepIndex;
    return isOfStep && step.at !== undefined ? messages[step.at] : undefined;
  }
}

/** The id and the name of the call: a subagent may ask about a call of its own with the same id. */
function keyOf({ action }: InputRequest): string {
  return `${action.callId}/${actionName(action)}`;
}

function withLive(row: MessageItem, live: LiveStep, isReplaced: boolean): MessageItem {
  const content = isReplaced ? "" : row.message.content;
  const text = content === "" || live.text === "" ? content + live.text : `${content}\n\n${live.text}`;
  const known = new Set(row.calls.map((view) => view.call.id));
  const writing = [...live.inputs]
    .filter(([callId]) => !known.has(callId))
    .map(([callId, input]): CallView => {
      const call = { id: callId, name: input.toolName ?? "", arguments: {} };
      return { key: `${row.id}/${callId}`, call, status: "writing", inputText: input.text };
    });
  return {
    ...row,
    message: { ...row.message, content: text },
    calls: writing.length === 0 ? row.calls : [...row.calls, ...writing],
    reasoning: live.reasoning === "" ? row.reasoning : live.reasoning,
    isLive: true,
  };
}

interface CallFacts {
  readonly result: ChatMessage | undefined;
  readonly progress: CallProgress | undefined;
  readonly request: InputRequest | undefined;
  readonly isOver: boolean;
}

function statusOf({ result, progress, request, isOver }: CallFacts): CallStatus {
  if (result !== undefined) {
    if (progress?.status === "rejected") return "denied";
    if (progress?.status === "cancelled") return "stopped";
    return result.toolResult?.success === true ? "succeeded" : "failed";
  }
  if (request !== undefined) return "waiting";
  if (isOver) return "abandoned";
  return progress === undefined || progress.stage === "asked" ? "requested" : "running";
}

function sameOrNew(before: ChatItem | undefined, row: ChatItem): ChatItem {
  return before !== undefined && isSame(before, row) ? before : row;
}

function isSame(first: ChatItem, second: ChatItem): boolean {
  if (first.kind === "message" && second.kind === "message") {
    const isWordsSame =
      first.isLive === second.isLive && first.reasoning === second.reasoning && isSameMessage(first, second);
    return isWordsSame && isSameCalls(first.calls, second.calls);
  }
  if (first.kind === "note" && second.kind === "note") return first.note === second.note;
  return first.kind === "request" && second.kind === "request" && first.request === second.request;
}

function isSameMessage(first: MessageItem, second: MessageItem): boolean {
  return first.message === second.message || (first.isLive && first.message.content === second.message.content);
}

function isSameCalls(first: readonly CallView[], second: readonly CallView[]): boolean {
  return first.length === second.length && first.every((view, at) => isSameCall(view, second[at]));
}

function isSameCall(first: CallView, second: CallView | undefined): boolean {
  return (
    second !== undefined &&
    first.status === second.status &&
    first.call.id === second.call.id &&
    first.result === second.result &&
    first.progress === second.progress &&
    first.request === second.request &&
    first.subagent === second.subagent &&
    first.inputText === second.inputText
  );
}
