/** A conversation while it happens: the durable messages, and on top of them what is live or went wrong. */
import type { Attachment } from "./attachments.js";
import { EMPTY_CHAT, type ChatState } from "./chat.js";
import { ConversationDraft } from "./conversation-draft.js";
import type { ErrorInfo, Event, RunStatus, ToolMode, Usage } from "./generated/index.js";
import { NO_USAGE, type UsageState } from "./usage.js";
import type { JsonValue } from "./wire.js";

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
  readonly stage: "started" | "settled";
  readonly startedAt?: string | undefined;
  readonly mode?: ToolMode | undefined;
  /** What a running tool showed last. */
  readonly partial?: JsonValue | undefined;
  /** How it ended. */
  readonly status?: "completed" | "failed" | "rejected" | undefined;
  readonly durationMs?: number | undefined;
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
  /** What it waits for. */
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
  | { readonly kind: "compacted"; readonly id: string; readonly at: number; readonly text: string };

/** All that a client shows of a session. Frozen: what did not change is the same object as before. */
export interface Conversation {
  readonly chat: ChatState;
  readonly live?: LiveStep | undefined;
  /** What the model thought, by the step's message. */
  readonly reasoning: ReadonlyMap<string, string>;
  /** Files that came with what a user said, by message. */
  readonly attachments: ReadonlyMap<string, readonly Attachment[]>;
  /** By message and call: `${messageId}/${callId}`. */
  readonly calls: ReadonlyMap<string, CallProgress>;
  /** By call. */
  readonly subagents: ReadonlyMap<string, Subagent>;
  readonly run?: RunView | undefined;
  readonly notes: readonly Note[];
  readonly usage: UsageState;
}

export const EMPTY_CONVERSATION: Conversation = {
  chat: EMPTY_CHAT,
  reasoning: new Map(),
  attachments: new Map(),
  calls: new Map(),
  subagents: new Map(),
  notes: [],
  usage: NO_USAGE,
};

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
