// Generated from spec/sidecar.schema.json by `make gen`. Do not edit.
/** What the sidecar sends by itself: parameters of its notifications and of its requests to the host; and the types of methods that have no other home. */
import { z } from "zod";
import { Json, open } from "../wire.js";
import { Count, Id, Positive, Usage } from "./common.js";
import { FinishReason } from "./event-data.js";
import { Event } from "./events.js";
import { InputRequest } from "./input.js";
import { CommandSafetyPattern, ToolCall } from "./tools.js";

/** Where a sidecar listens. */
export const ListenInfo = open({
  /** How frames are carried, such as stdio. */
  transport: z.string(),
});
export type ListenInfo = z.infer<typeof ListenInfo>;

/** Parameters of `lifecycle.ready`: the sidecar has started and listens. */
export const SidecarReady = open({
  /** Version of the sidecar. */
  version: z.string(),
  /** Version of the wire. */
  protocolVersion: z.string(),
  /** Process id. */
  pid: Count,
  /** Where it listens. */
  listenInfo: ListenInfo,
});
export type SidecarReady = z.infer<typeof SidecarReady>;

/** Parameters of `lifecycle.shutdown`: the last frame. */
export const SidecarShutdown = open({
  /** Why it ends: normal (it was told to) or eof (stdin has ended); more may come. */
  reason: z.string(),
});
export type SidecarShutdown = z.infer<typeof SidecarShutdown>;

/** A piece of the arguments of a call. */
export const StreamCallDelta = open({
  /** Identifier of the call. */
  id: z.string(),
  /** Name of the tool. */
  name: z.string().optional(),
  /** The next piece of the arguments, as JSON text. */
  argumentsDelta: z.string(),
});
export type StreamCallDelta = z.infer<typeof StreamCallDelta>;

/** What came of a call in a stream. */
export const StreamToolResult = open({
  /** Identifier of the call. */
  id: z.string(),
  /** Name of the tool. */
  name: z.string().optional(),
  /** Whether the tool did what was asked. */
  success: z.boolean(),
  /** The result itself. */
  data: Json.optional(),
  /** What went wrong, as a text for the model. */
  error: z.string().optional(),
});
export type StreamToolResult = z.infer<typeof StreamToolResult>;

/** Parameters of `stream.chunk`: a piece of a stream, which has one of these, or `finishReason` with `usage`. */
export const StreamChunk = open({
  /** The stream, which is a run. */
  streamId: Id,
  /** A piece of the answer. */
  delta: z.string().optional(),
  /** A piece of the reasoning. */
  reasoningDelta: z.string().optional(),
  /** A piece of the arguments of a call. */
  toolCallDelta: StreamCallDelta.optional(),
  /** A call, whole. */
  toolCall: ToolCall.optional(),
  /** What came of a call. */
  toolResult: StreamToolResult.optional(),
  /** What people are asked. */
  inputRequests: z.array(InputRequest).optional(),
  /** Why the model stopped; a step is over. */
  finishReason: FinishReason.optional(),
  /** What the step used. */
  usage: Usage.optional(),
  /** Whether the step is tried again: what it said so far is void. */
  restart: z.boolean().optional(),
});
export type StreamChunk = z.infer<typeof StreamChunk>;

/** How `agent.chat.stream` tells of a run: steerable as `stream.chunk`, events as `stream.event` with the events of the runtime. */
export const StreamShape = z.enum(["steerable", "events"]);
export type StreamShape = z.infer<typeof StreamShape>;

/** Parameters of `stream.event`: an event of the run, for a stream of shape events. */
export const StreamEvent = open({
  /** The stream, which is a run. */
  streamId: Id,
  /** The event, as feeds over HTTP send it. */
  event: Event,
});
export type StreamEvent = z.infer<typeof StreamEvent>;

/** Parameters of `stream.error`: a stream failed; `stream.done` follows. */
export const StreamError = open({
  /** The stream, which is a run. */
  streamId: Id,
  /** What kind of failure it is: one of SidecarErrorKind; more may come. */
  kind: z.string(),
  /** What went wrong, for people. */
  message: z.string(),
});
export type StreamError = z.infer<typeof StreamError>;

/** Parameters of `stream.done`: a stream is over. */
export const StreamDone = open({
  /** The stream, which is a run. */
  streamId: Id,
  /** Whether all is well. */
  ok: z.boolean(),
  /** Whether it was cancelled. */
  cancelled: z.boolean().optional(),
});
export type StreamDone = z.infer<typeof StreamDone>;

/** Parameters of the request `host.tool.call`: the host executes a tool and answers with a ToolResult. */
export const HostToolCall = open({
  /** The stream, which is a run. */
  streamId: Id,
  /** The session of the run. */
  sessionId: Id,
  /** The call. */
  call: ToolCall,
  /** The same in every attempt at this call, another for every other call. */
  idempotencyKey: z.string(),
  /** Which attempt at the call this is, from 1. */
  attempt: Positive,
  /** The longest time that this attempt may take; null leaves it to the tool. */
  timeoutMs: Positive.nullable(),
});
export type HostToolCall = z.infer<typeof HostToolCall>;

/** Parameters of the request `host.input.request`: the host asks a person and answers with the option, the text or null. */
export const HostInputRequest = open({
  /** The stream, which is a run. */
  streamId: Id,
  /** What is asked. */
  request: InputRequest,
  /** What was wrong with the last answer. */
  problem: z.string().optional(),
});
export type HostInputRequest = z.infer<typeof HostInputRequest>;

/** Parameters of `host.request.cancelled`: the answer to a request is not waited for any more. */
export const HostRequestCancelled = open({
  /** Identifier of the request. */
  id: z.string(),
});
export type HostRequestCancelled = z.infer<typeof HostRequestCancelled>;

/** The grade of a shell command. */
export const ShellSeverity = z.enum(["safe", "caution", "dangerous"]);
export type ShellSeverity = z.infer<typeof ShellSeverity>;

/** The kind of system that would run a shell command. */
export const ShellPlatform = z.enum(["unix", "windows"]);
export type ShellPlatform = z.infer<typeof ShellPlatform>;

/** Parameters of `harness.classifyShell`: a shell command to grade. */
export const ShellClassify = open({
  /** The command line. */
  command: z.string(),
  /** Where it would run; unix when absent. */
  platform: ShellPlatform.optional(),
  /** Rules of the host; they can raise a grade and never lower one. */
  patterns: z.array(CommandSafetyPattern).optional(),
});
export type ShellClassify = z.infer<typeof ShellClassify>;

/** One finding of the shell grader. */
export const ShellReason = open({
  /** Which rule found it. */
  code: z.string(),
  /** How bad it is. */
  severity: ShellSeverity,
  /** What was found, for people. */
  message: z.string(),
  /** The part of the command that it was found in. */
  part: z.string(),
});
export type ShellReason = z.infer<typeof ShellReason>;

/** Result of `harness.classifyShell`: the grade of a shell command. */
export const ShellVerdict = open({
  /** The grade: that of the worst finding. */
  severity: ShellSeverity,
  /** The category of the worst finding. */
  category: z.string(),
  /** The findings, worst first. */
  reasons: z.array(ShellReason),
  /** The words of each simple command if the whole command is literal; else empty. */
  commands: z.array(z.array(z.string())),
});
export type ShellVerdict = z.infer<typeof ShellVerdict>;
