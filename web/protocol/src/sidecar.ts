/** The sidecar's methods as functions, over any duplex. */
import { z } from "zod";

import { ProtocolError } from "./api-error.js";
import { AgentSession, SidecarHealth, ToolCall, ToolResult, ToolSpec, TraceInfo, type InputResponse } from "./generated/index.js";
import { toJson } from "./handlers.js";
import { Queue } from "./queue.js";
import { RpcClosed, type CallOptions, type RpcPeer } from "./rpc.js";
import {
  SidecarDescription,
  StreamChunk,
  StreamDone,
  StreamError,
  type ChatRequest,
  type NewAgentSession,
  type StreamNotice,
} from "./sidecar-types.js";
import type { JsonObject } from "./wire.js";

/** Notices of one stream that wait for a reader that is slower than the model. */
export const STREAM_NOTICES_MAX = 100_000;
const TOOL_CALL = "host.tool.call";
const INPUT_REQUEST = "host.input.request";

/** A stream under way. */
export interface ChatStream {
  readonly streamId: string;
  /** What it says, up to `done`. Throws RpcClosed if the sidecar is gone before that. */
  readonly notices: AsyncIterable<StreamNotice>;
}

/** Executes a tool of the host. The signal is aborted when nobody waits for the result any more. */
export type HostToolHandler = (call: ToolCall, signal: AbortSignal) => Promise<ToolResult>;

/** What the client needs of its host. */
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
    { newId = () => crypto.randomUUID(), onToolCall }: SidecarOptions = {},
  ) {
    this.newId = newId;
    peer.on("stream.chunk", (params) => {
      this.route(StreamChunk, params, (chunk) => ({ type: "chunk", chunk }));
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

  /** How the sidecar is. */
  ping(options?: CallOptions): Promise<SidecarHealth> {
    return this.ask(SidecarHealth, "system.ping", {}, options);
  }

  /** What it can do. `features` tells it which requests of its own this host answers. */
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

  /** What a stream did and how long it took. */
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
