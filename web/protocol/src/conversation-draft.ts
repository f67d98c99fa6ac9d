/** How events change a conversation. */
import { attachmentsOf, type Attachment } from "./attachments.js";
import { foldChat, stepMessageId, type ChatState } from "./chat.js";
import type { CallProgress, Conversation, LiveStep, Note, RunView, Subagent } from "./conversation.js";
import type { Event, EventDataByType, RunStatus } from "./generated/index.js";
import { apply, runIdOf, type Handlers } from "./handlers.js";
import { foldUsage, type UsageState } from "./usage.js";

type Data<K extends keyof EventDataByType> = EventDataByType[K];

interface StepPlace {
  readonly turnId: string;
  readonly stepIndex: number;
}

type Ending = Pick<RunView, "status" | "error" | "structuredOutput">;

/** A note before it has its place and its name. */
type NewNote = { [K in Note["kind"]]: Omit<Extract<Note, { kind: K }>, "id" | "at"> }[Note["kind"]];

/** A conversation that is being changed. */
export class ConversationDraft {
  private chat: ChatState;
  private usage: UsageState;
  private live: LiveStep | undefined;
  private run: RunView | undefined;
  private notes: readonly Note[];
  private reasoning: ReadonlyMap<string, string>;
  private attachments: ReadonlyMap<string, readonly Attachment[]>;
  private calls: ReadonlyMap<string, CallProgress>;
  /** Copied once for all that is taken in at once. */
  private ownCalls: Map<string, CallProgress> | undefined;
  private subagents: ReadonlyMap<string, Subagent>;
  private pending: Event[] = [];

  constructor(private readonly before: Conversation) {
    ({ chat: this.chat, usage: this.usage, live: this.live, run: this.run, notes: this.notes } = before);
    ({
      attachments: this.attachments,
      reasoning: this.reasoning,
      calls: this.calls,
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
    const { chat, live, reasoning, attachments, calls, subagents, run, notes, usage, before } = this;
    const isSame =
      chat === before.chat && live === before.live && calls === before.calls && subagents === before.subagents;
    return isSame ? before : { chat, live, reasoning, attachments, calls, subagents, run, notes, usage };
  }

  private flush(): void {
    if (this.pending.length === 0) return;
    const events = this.pending;
    this.pending = [];
    this.chat = foldChat(events, this.chat);
    this.usage = foldUsage(events, this.usage);
  }

  received({ parts = [] }: Data<"message.received">): void {
    const found = attachmentsOf(parts);
    const message = this.chat.messages.at(-1);
    if (found.length > 0 && message !== undefined) this.attachments = new Map(this.attachments).set(message.id, found);
  }

  // What is live.

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
    this.progress(data.callId, { partial: data.output });
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

  /** What is durable now is no longer live. */
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

  /** An error or a stop never takes words away that somebody may have read. */
  private keepWords(): void {
    const text = this.live?.text ?? "";
    this.live = undefined;
    if (text !== "") this.note({ kind: "partial", text });
  }

  // Calls.

  actionStarted(data: Data<"action.started">, event: Event): void {
    this.progress(data.callId, { stage: "started", startedAt: event.meta.at, mode: data.mode });
  }

  actionSettled(data: Data<"action.result">): void {
    const { status, durationMs, result } = data;
    const isError = status === "completed" && result.isError === true;
    const settled = { stage: "settled", status: isError ? "failed" : status, durationMs, partial: undefined } as const;
    this.progress(result.callId, settled);
  }

  skipped({ callId, choice }: Data<"recovery.effect_settled">): void {
    if (choice === "skip") this.progress(callId, { stage: "settled", status: "rejected", partial: undefined });
  }

  private progress(callId: string, changes: Partial<CallProgress>): void {
    const key = this.keyOf(callId);
    if (key === undefined) return;
    const before: CallProgress = this.calls.get(key) ?? { stage: "started" };
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

  runStarted({ runId, agentId, modelId }: Data<"run.started">, event: Event): void {
    this.run = { runId, agentId, modelId, status: "running", startedAt: event.meta.at };
  }

  runChanged(status: RunStatus, waitsOn: string | undefined, event: Event): void {
    const { run } = this;
    if (run === undefined || run.runId !== runIdOf(event) || run.endedAt !== undefined) return;
    // A run that somebody cancelled stays that way until it ends.
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
