/** Bodies of the server's routes that the wire of the runtime does not have. All are open: more may come. */
import { z } from "zod";

import {
  BudgetLimits,
  ChatMessage,
  Count,
  HarnessTrace,
  InputRequest,
  RunMode,
  RunResult,
  RunSnapshot,
  RunStatus,
  Timestamp,
  TraceEvent,
  TraceSpan,
  Usage,
  type InputResponse,
  type UserContent,
} from "./generated/index.js";
import { JsonObject, open } from "./wire.js";

/** What a run may be told beside its message. */
export interface RunWishes {
  /** Which agent; may be left out if it is clear. */
  readonly agent?: string | undefined;
  readonly mode?: RunMode | undefined;
  /** A JSON Schema that the output must fit. */
  readonly outputSchema?: JsonObject | undefined;
  /** Texts before the message. */
  readonly context?: readonly string[] | undefined;
  /** Anything to find again in `run.started`. */
  readonly metadata?: JsonObject | undefined;
  readonly budget?: BudgetLimits | undefined;
}

/** A session to begin, with its first message or without. */
export interface NewSession extends RunWishes {
  readonly message?: UserContent | undefined;
}

/** Something to say in a session. */
export interface NewMessage extends RunWishes {
  readonly message: UserContent;
  /** `queue` waits for the run under way; `steer` speaks to it. */
  readonly delivery?: "queue" | "steer" | undefined;
  /** Goes on only if nobody else has meanwhile: a stale one is refused with a conflict. */
  readonly continuationToken?: string | undefined;
}

/** An answer to a request, without the request's id. */
export type Answer = Pick<InputResponse, "optionId" | "text" | "argumentsHash">;

/** Work that was taken: it is durable, and happens from now on. */
export const Accepted = open({
  sessionId: z.string(),
  /** The run that it begins, or is answered in. */
  runId: z.string().optional(),
  /** The message, of words to the run under way. */
  messageId: z.string().optional(),
  /** With which to go on behind it. */
  continuationToken: z.string().optional(),
});
export type Accepted = z.infer<typeof Accepted>;

/** A run: where it is, what it waits for, and what came of it. */
export const RunInfo = open({
  run: RunSnapshot,
  /** Once it has ended. */
  result: RunResult.optional(),
  /** What people are being asked. */
  requests: z.array(InputRequest).default([]),
});
export type RunInfo = z.infer<typeof RunInfo>;

/** A trace: the run, its spans, and the moments in them. */
export const TraceInfo = open({
  trace: HarnessTrace.optional(),
  spans: z.array(TraceSpan),
  events: z.array(TraceEvent).default([]),
});
export type TraceInfo = z.infer<typeof TraceInfo>;

/** Where the newest run of a session is; idle without one. */
export type SessionStatus = "idle" | RunStatus;

/** A session: what it is about, where it is, and what it has used. */
export const SessionInfo = open({
  sessionId: z.string(),
  /** What was said first, in one short line. */
  title: z.string().optional(),
  agentId: z.string().optional(),
  /** A `SessionStatus`; a newer server may know others. */
  status: z.string().optional(),
  createdAt: Timestamp.optional(),
  updatedAt: Timestamp.optional(),
  runCount: Count.optional(),
  /** Requests to people that are open in it. */
  requestCount: Count.optional(),
  usage: Usage.optional(),
  parentSessionId: z.string().optional(),
  rootSessionId: z.string().optional(),
  /** The session that it was forked from, and the record behind which. */
  predecessorId: z.string().optional(),
  predecessorSeq: Count.optional(),
  /** With which to go on from here. */
  continuationToken: z.string().optional(),
});
export type SessionInfo = z.infer<typeof SessionInfo>;

/** A page of sessions, newest first; `next` is what `after` takes to go on. */
export const SessionPage = open({ sessions: z.array(SessionInfo), next: z.string().optional() });
export type SessionPage = z.infer<typeof SessionPage>;

/** A page of messages, oldest first. */
export const HistoryPage = open({ messages: z.array(ChatMessage), next: z.string().optional() });
export type HistoryPage = z.infer<typeof HistoryPage>;

/** A run in a list. */
export const RunRow = open({
  runId: z.string(),
  sessionId: z.string(),
  agentId: z.string(),
  status: RunStatus,
  /** Absent while it waits for its turn. */
  startedAt: Timestamp.optional(),
  endedAt: Timestamp.optional(),
  usage: Usage.optional(),
});
export type RunRow = z.infer<typeof RunRow>;

/** A page of runs, newest first. */
export const RunPage = open({ runs: z.array(RunRow), next: z.string().optional() });
export type RunPage = z.infer<typeof RunPage>;

/** Something that waits for a person. */
export const Approval = open({
  sessionId: z.string(),
  rootSessionId: z.string().optional(),
  runId: z.string().optional(),
  agentId: z.string().optional(),
  askedAt: Timestamp.optional(),
  request: InputRequest,
});
export type Approval = z.infer<typeof Approval>;

/** A page of what waits for a person, oldest first. */
export const ApprovalPage = open({ requests: z.array(Approval), next: z.string().optional() });
export type ApprovalPage = z.infer<typeof ApprovalPage>;

/** Sessions that are gone. */
export const Deleted = open({ deleted: z.array(z.string()) });
export type Deleted = z.infer<typeof Deleted>;

/** An agent that runs can be started with. */
export const AgentInfo = open({
  agentId: z.string(),
  description: z.string(),
  model: z.string(),
  version: z.string().optional(),
  tools: z.array(z.string()),
  subagents: z.array(z.string()),
});
export type AgentInfo = z.infer<typeof AgentInfo>;

export const AgentList = open({ agents: z.array(AgentInfo) });

/** A tool that an agent may call. */
export const ToolInfo = open({
  name: z.string(),
  description: z.string(),
  mode: z.string(),
  effect: z.string(),
  agents: z.array(z.string()),
  inputSchema: JsonObject,
});
export type ToolInfo = z.infer<typeof ToolInfo>;

export const ToolList = open({ tools: z.array(ToolInfo) });

/** Whether the server takes requests. */
export const Health = open({ status: z.string(), version: z.string() });
export type Health = z.infer<typeof Health>;
