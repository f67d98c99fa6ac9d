/** A conversation as a list of things to show, one for each row. */
import type { Attachment } from "./attachments.js";
import { stepMessageId } from "./chat.js";
import type { CallProgress, Conversation, LiveStep, Note, Subagent } from "./conversation.js";
import { isRunning } from "./conversation.js";
import type { ChatMessage, InputRequest, ToolCall } from "./generated/index.js";

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
    for (const request of state.chat.requests.values()) this.asked.set(request.action.callId, request);
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
    const attachments = this.state.attachments.get(message.id);
    return { kind: "message", id: message.id, message, calls, reasoning, attachments, isLive: false };
  }

  private call(message: ChatMessage, call: ToolCall): CallView {
    const { chat, calls, subagents } = this.state;
    const key = `${message.id}/${call.id}`;
    const result = this.results.get(key);
    const isOpen = chat.openCalls.get(call.id) === message.id;
    const request = isOpen ? this.asked.get(call.id) : undefined;
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
    return result.toolResult?.success === true ? "succeeded" : "failed";
  }
  if (request !== undefined) return "waiting";
  if (isOver) return "abandoned";
  return progress === undefined ? "requested" : "running";
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
