/** What the sidecar's streams say. All of it is open: more may come. */
import { z } from "zod";

import type { StreamChunk, StreamDone, StreamError, ToolMode } from "./generated/index.js";
import { open, type JsonObject } from "./wire.js";

export { StreamChunk, StreamDone, StreamError } from "./generated/index.js";

/** What a stream says, in order; `done` is the last. */
export type StreamNotice =
  | { readonly type: "chunk"; readonly chunk: StreamChunk }
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

/** What to stream, and who answers. */
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

/** What a sidecar can do. */
export const SidecarDescription = open({
  protocolVersion: z.string(),
  version: z.string(),
  features: z.array(z.string()),
});
export type SidecarDescription = z.infer<typeof SidecarDescription>;
