/** The transport: the only interface through which hooks and components reach an agent. */
import type {
  AgentSession,
  AgentSessionChange,
  DecisionRun,
  ErrorInfo,
  InputRequest,
  InputResponse,
  JsonObject,
  RunStatus,
  Usage,
  UserContent,
} from "@windlass/protocol";
import type { Approval, FeedItem, FeedState, SessionInfo, TraceInfo } from "@windlass/protocol/client";

/** Features of a transport; components hide controls that it does not support. */
export interface TransportFeatures {
  /** Speaking to a run that is under way. */
  readonly steer: boolean;
  readonly decisions: boolean;
  /** Sending files with a message. */
  readonly attachments: boolean;
}

/** Options of every call. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

/** How to watch a session. */
export interface WatchOptions extends CallOptions {
  /** The cursor behind the last event that was seen. */
  readonly after?: string | undefined;
  /** Starts with the newest records, this many of them; a transport that cannot starts with the first. */
  readonly last?: number | undefined;
  /** Ends before this record, and does not wait for more: a page of a transport that can start at the end. */
  readonly before?: number | undefined;
  /** Told whenever the connection changes. */
  readonly onState?: ((state: FeedState) => void) | undefined;
}

/** Something said, with the run that it begins if it begins one. */
export interface Sent {
  readonly sessionId: string;
  readonly runId?: string | undefined;
}

/** How something is said. */
export interface SendOptions extends CallOptions {
  /** `steer` speaks to the run under way, `queue` waits for it. */
  readonly delivery?: "queue" | "steer" | undefined;
}

/** Which session to begin. */
export interface SessionWish {
  readonly agent?: string | undefined;
  /** The first message of the user. */
  readonly message?: UserContent | undefined;
  /** The chat of its AgentSession. */
  readonly chatId?: string | undefined;
  /** Its first stage. */
  readonly currentStage?: string | undefined;
  readonly scenario?: string | undefined;
  readonly stageData?: JsonObject | undefined;
  readonly projectId?: string | undefined;
}

/** A run: where it is, what it waits for, and what came of it. */
export interface RunFacts {
  readonly runId: string;
  readonly sessionId?: string | undefined;
  readonly agentId?: string | undefined;
  readonly status: RunStatus;
  readonly output?: string | undefined;
  readonly error?: ErrorInfo | undefined;
  readonly usage?: Usage | undefined;
  readonly requests: readonly InputRequest[];
}

/** A way to agents. Methods reject with the errors of what is behind them; each has a message for people. */
export interface Transport {
  readonly features: TransportFeatures;
  /** Begins a session, with the first message or without. */
  createSession(wish: SessionWish, options?: CallOptions): Promise<Sent>;
  /** The sessions, newest first. */
  listSessions(options?: CallOptions): Promise<readonly SessionInfo[]>;
  /** A session with its stage. */
  agentSession(sessionId: string, options?: CallOptions): Promise<AgentSession>;
  /** Changes the stage of a session; fields that are absent stay as they are. */
  updateAgentSession(sessionId: string, change: AgentSessionChange, options?: CallOptions): Promise<AgentSession>;
  /** Every event of a session from the cursor on, and then those that come, until the signal is aborted. */
  events(sessionId: string, options: WatchOptions): AsyncIterable<FeedItem>;
  /** Every event of a run, until it ends; absent where a feed has whole sessions only. */
  runEvents?(runId: string, options: WatchOptions): AsyncIterable<FeedItem>;
  /** Says something in a session. */
  send(sessionId: string, message: UserContent, options?: SendOptions): Promise<Sent>;
  /** Ends a run, where it runs. */
  cancel(runId: string, options?: CallOptions): Promise<void>;
  /** Continues a failed run in a new run, which repeats no call that has a result; absent where that is not possible. */
  retry?(runId: string, options?: CallOptions): Promise<Sent>;
  /** Answers what a session asks. */
  answer(sessionId: string, response: InputResponse, options?: CallOptions): Promise<void>;
  /** Everything that waits for a person. */
  approvals(options?: CallOptions): Promise<readonly Approval[]>;
  run(runId: string, options?: CallOptions): Promise<RunFacts>;
  trace(runId: string, options?: CallOptions): Promise<TraceInfo>;
  decisions(runId: string, options?: CallOptions): Promise<DecisionRun>;
}

/** The transport does not support the request. */
export class Unsupported extends Error {
  override readonly name = "Unsupported";
}
