/** The client of a sidecar: its methods as functions, and its streams as notices. */
import { z } from "zod";
import { newId as randomId, ProtocolError } from "./connection.js";
import {
  AgentSession,
  type AgentSessionChange,
  type Event,
  SidecarHealth,
  StreamChunk,
  StreamDone,
  StreamError,
  StreamEvent,
  ToolCall,
  ToolResult,
  ToolSpec,
  TraceInfo,
  type InputResponse,
  type ToolMode,
} from "../generated/index.js";
import { toJson } from "../events.js";
import { RpcClosed, type CallOptions, type RpcPeer } from "./rpc.js";
import { open, type JsonObject, type JsonValue } from "../wire.js";

/** Notices of one stream that wait for a reader that is slower than the model. */
const STREAM_NOTICES_MAX = 100_000;
const TOOL_CALL = "host.tool.call";
const INPUT_REQUEST = "host.input.request";

/** A stream under way. */
export interface ChatStream {
  readonly streamId: string;
  /** The notices, up to `done`. Throws RpcClosed if the sidecar is gone before that. */
  readonly notices: AsyncIterable<StreamNotice>;
}

/** Executes a tool of the host. The signal is aborted when the result is no longer wanted. */
export type HostToolHandler = (call: ToolCall, signal: AbortSignal) => Promise<ToolResult>;

/** Options of the client. */
export interface SidecarOptions {
  /** Makes ids of streams; random ones when absent. */
  readonly newId?: (() => string) | undefined;
  /** Executes the tools that a stream was given by the host. */
  readonly onToolCall?: HostToolHandler | undefined;
}

/** A client of one sidecar. Every method throws RpcError if it is refused, RpcClosed if the sidecar is gone. */
export class SidecarClient {
  private readonly streams = new Map<string, Queue<StreamNotice>>();
  private readonly newId: () => string;

  constructor(
    private readonly peer: RpcPeer,
    { newId = randomId, onToolCall }: SidecarOptions = {},
  ) {
    this.newId = newId;
    peer.on("stream.chunk", (params) => {
      this.route(StreamChunk, params, (chunk) => ({ type: "chunk", chunk }));
    });
    peer.on("stream.event", (params) => {
      this.route(StreamEvent, params, ({ event }) => ({ type: "event", event }));
    });
    peer.on("stream.error", (params) => {
      this.route(StreamError, params, (error) => ({ type: "error", error }));
    });
    peer.on("stream.done", (params) => {
      this.route(StreamDone, params, (done) => ({ type: "done", done }));
    });
    if (onToolCall !== undefined) {
      peer.handle(TOOL_CALL, async (params, signal) => {
        return toJson(await onToolCall(ToolCall.parse(params["call"]), signal));
      });
    }
    void peer.closed.then(() => {
      for (const queue of this.streams.values()) queue.end(new RpcClosed("the sidecar is gone"));
      this.streams.clear();
    });
  }

  /** Calls any method of the sidecar and returns its result unchecked. */
  request(method: string, params: object, options?: CallOptions): Promise<JsonValue> {
    return this.peer.call(method, toJson(params), options);
  }

  /** How the sidecar is. */
  ping(options?: CallOptions): Promise<SidecarHealth> {
    return this.ask(SidecarHealth, "system.ping", {}, options);
  }

  /** The features of the sidecar. `features` are those of this host: the requests that it answers. */
  describe(features: readonly string[] = [], options?: CallOptions): Promise<SidecarDescription> {
    return this.ask(SidecarDescription, "protocol.describe", { host: { features } }, options);
  }

  /** Ends it, after what is under way, or at once. */
  async shutdown(when: "drained" | "now" = "drained", options?: CallOptions): Promise<void> {
    await this.peer.call(when === "now" ? "system.shutdown_now" : "system.shutdown", {}, options);
  }

  /** Makes a session; the same request again is the same session. */
  createSession(session: NewAgentSession, options?: CallOptions): Promise<AgentSession> {
    return this.ask(AgentSession, "agent.session.create", session, options);
  }

  /** Goes on with a session. */
  resumeSession(sessionId: string, options?: CallOptions): Promise<AgentSession> {
    return this.ask(AgentSession, "agent.session.resume", { sessionId }, options);
  }

  /** Changes the stage of a session; fields that are absent stay as they are. */
  updateSession(sessionId: string, change: AgentSessionChange, options?: CallOptions): Promise<AgentSession> {
    return this.ask(AgentSession, "agent.session.update", { sessionId, ...change }, options);
  }

  /** The sessions, newest first. */
  listSessions(
    query: { readonly userId?: string; readonly chatId?: string; readonly activeOnly?: boolean } = {},
    options?: CallOptions,
  ): Promise<AgentSession[]> {
    return this.ask(z.array(AgentSession), "agent.session.list", query, options);
  }

  /** Starts a run and tells of it. Give it up with `cancel`: leaving the notices alone ends nothing. */
  async stream(request: ChatRequest, options?: CallOptions): Promise<ChatStream> {
    const streamId = request.streamId ?? this.newId();
    const queue = new Queue<StreamNotice>(STREAM_NOTICES_MAX);
    // Before the call: what the stream says may arrive together with the answer.
    this.streams.set(streamId, queue);
    try {
      await this.ask(z.looseObject({ streamId: z.string() }), "agent.chat.stream", { ...request, streamId }, options);
    } catch (error) {
      this.streams.delete(streamId);
      throw error;
    }
    return { streamId, notices: queue };
  }

  /** Asks a stream to end; it says `done` when it has. */
  async cancel(streamId: string, options?: CallOptions): Promise<void> {
    await this.peer.call("agent.chat.cancel", { streamId }, options);
  }

  /** Answers what a stream asks people. */
  async answer(streamId: string, response: InputResponse, options?: CallOptions): Promise<void> {
    const { requestId, optionId, text, responder } = response;
    await this.peer.call("agent.input.answer", toJson({ streamId, requestId, optionId, text, responder }), options);
  }

  /** The tools of the sidecar. */
  tools(options?: CallOptions): Promise<ToolSpec[]> {
    return this.ask(z.array(ToolSpec), "tool.list", {}, options);
  }

  /** Calls a tool of the sidecar. */
  invoke(call: ToolCall, consentGranted = false, options?: CallOptions): Promise<ToolResult> {
    return this.ask(ToolResult, "tool.invoke", { ...call, consentGranted }, options);
  }

  /** The trace of a stream. */
  trace(traceId: string, options?: CallOptions): Promise<TraceInfo> {
    return this.ask(TraceInfo, "trace.fetch", { traceId }, options);
  }

  /** Answers the requests to people that the sidecar brings by itself, instead of `answer`. */
  onInputRequest(handler: (params: JsonObject, signal: AbortSignal) => Promise<JsonObject | null>): void {
    this.peer.handle(INPUT_REQUEST, handler);
  }

  private route<S extends z.ZodType<{ readonly streamId: string }>>(
    schema: S,
    params: JsonObject,
    notice: (value: z.output<S>) => StreamNotice,
  ): void {
    const value = schema.parse(params);
    const queue = this.streams.get(value.streamId);
    const told = notice(value);
    queue?.push(told);
    if (told.type !== "done") return;
    queue?.end();
    this.streams.delete(value.streamId);
  }

  private async ask<S extends z.ZodType>(
    schema: S,
    method: string,
    params: object,
    options?: CallOptions,
  ): Promise<z.output<S>> {
    const found = schema.safeParse(await this.peer.call(method, toJson(params), options));
    if (found.success) return found.data;
    throw new ProtocolError(`the answer to ${method} cannot be read: ${found.error.issues[0]?.message ?? ""}`);
  }
}

// Requests and notices. All of them are open: later versions may add fields.

/** The notices of a stream, in order: chunks or events, by the shape that was asked for; `done` is the last. */
export type StreamNotice =
  | { readonly type: "chunk"; readonly chunk: StreamChunk }
  | { readonly type: "event"; readonly event: Event }
  | { readonly type: "error"; readonly error: StreamError }
  | { readonly type: "done"; readonly done: StreamDone };

/** A tool that the host executes. */
export interface HostTool {
  readonly name: string;
  readonly description?: string | undefined;
  readonly inputSchema?: JsonObject | undefined;
  readonly mode?: ToolMode | undefined;
}

/** A message of a chat, as the sidecar takes it. */
export interface SidecarMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
}

/** Parameters of a stream. */
export interface ChatRequest {
  readonly provider: string;
  readonly model: string;
  /** With a `sessionId` the new message alone: the session has the rest. */
  readonly messages: readonly SidecarMessage[];
  readonly sessionId?: string | undefined;
  readonly streamId?: string | undefined;
  readonly baseUrl?: string | undefined;
  readonly apiKey?: string | undefined;
  readonly temperature?: number | undefined;
  readonly maxTokens?: number | undefined;
  /** Tools of the sidecar by name, and tools of the host; all of the sidecar's when absent. */
  readonly tools?: readonly (string | HostTool)[] | undefined;
  /** Whether people can be asked. */
  readonly requestInput?: boolean | undefined;
  /** `events` sends the events of the run, as feeds of a server have them; `steerable` (chunks) when absent. */
  readonly shape?: "steerable" | "events" | undefined;
}

/** A session to make. */
export interface NewAgentSession {
  readonly chatId: string;
  readonly sessionId?: string | undefined;
  readonly userId?: string | undefined;
  readonly currentStage?: string | undefined;
  readonly scenario?: string | undefined;
  readonly stageData?: JsonObject | undefined;
  readonly projectId?: string | undefined;
}

/** Version and features of a sidecar. */
export const SidecarDescription = open({
  protocolVersion: z.string(),
  version: z.string(),
  features: z.array(z.string()),
});
export type SidecarDescription = z.infer<typeof SidecarDescription>;

/**
 * Numbers the events of the streams of one session for `reduceConversation`.
 *
 * A stream has the records of its own run, so that there are gaps between the runs of a session. The fold refuses
 * gaps; give it each event through one function of this kind per session.
 */
export function streamNumbers(): (event: Event) => Event {
  let seq = 0;
  return (event) => ({ ...event, seq: event.index === undefined ? ++seq : seq });
}

/** One writer, one reader. Values wait in order; more than the limit of them end it with an error. */
export class Queue<T> implements AsyncIterable<T> {
  private readonly ready: T[] = [];
  private wake: (() => void) | undefined;
  private isOver = false;
  private error: Error | undefined;

  constructor(private readonly waitingMax: number) {}

  /** Adds a value; after the end it is dropped. */
  push(value: T): void {
    if (this.isOver) return;
    if (this.ready.length >= this.waitingMax) {
      this.end(new RangeError(`too many unread values: limit ${this.waitingMax.toLocaleString("en-US")}`));
      return;
    }
    this.ready.push(value);
    this.wake?.();
  }

  /** Ends it: what waits is still read, then the error is thrown if there is one. */
  end(error?: Error): void {
    if (this.isOver) return;
    this.isOver = true;
    this.error = error;
    this.wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for (;;) {
      const value = this.ready.shift();
      if (value !== undefined) yield value;
      else if (this.error !== undefined) throw this.error;
      else if (this.isOver) return;
      else await new Promise<void>((resolve) => (this.wake = resolve));
    }
  }
}
