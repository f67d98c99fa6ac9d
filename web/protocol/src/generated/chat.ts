// Generated from spec/chat.schema.json by `make gen`. Do not edit.
/** Messages, agents and the simple event stream that chat clients read. */
import { z } from "zod";
import { JsonObject, open } from "../wire.js";
import { Integer, Timestamp } from "./common.js";
import { ToolCall, ToolResult } from "./tools.js";

/** What a chat stream event is. */
export const SSEEventType = z.enum(["content", "tool_call", "tool_result", "error", "budget_exhausted", "agent", "orchestration", "loader-hint", "keepalive", "done"]);
export type SSEEventType = z.infer<typeof SSEEventType>;

/** One event of the simple chat stream. */
export const SSEEvent = open({
  /** What the event is. */
  type: SSEEventType,
  /** Name of the product's own event. */
  event: z.string().optional(),
  /** Text to append. */
  content: z.string().optional(),
  /** What to show while waiting. */
  hint: z.string().optional(),
  /** Text for people. */
  message: z.string().optional(),
  /** Stable code of an error. */
  code: z.string().optional(),
  /** Group of an orchestrated task. */
  orchestrationGroupId: z.string().optional(),
  /** Orchestrated task. */
  taskId: z.string().optional(),
  /** Message the event belongs to. */
  messageId: z.string().optional(),
  /** For tool_call a ToolCall; for tool_result a ToolResult with the `id` of its call; else free. */
  payload: JsonObject.optional(),
});
export type SSEEvent = z.infer<typeof SSEEvent>;

/** Who speaks. */
export const ChatRole = z.enum(["user", "assistant", "tool", "system"]);
export type ChatRole = z.infer<typeof ChatRole>;

/** One message of a chat. */
export const ChatMessage = open({
  /** Identifier of the message. */
  id: z.string(),
  /** Who speaks. */
  role: ChatRole,
  /** The text. */
  content: z.string(),
  /** When it was written. */
  createdAt: Timestamp,
  /** Chat the message belongs to. */
  chatId: z.string().optional(),
  /** Agent that spoke. */
  agentId: z.string().optional(),
  /** Calls the assistant asked for. */
  toolCalls: z.array(ToolCall).optional(),
  /** Result, on a tool message. */
  toolResult: ToolResult.optional(),
  /** When it last changed. */
  updatedAt: Timestamp.optional(),
});
export type ChatMessage = z.infer<typeof ChatMessage>;

/** An agent as chat clients list it. */
export const ChatAgent = open({
  /** Identifier of the agent. */
  id: z.string(),
  /** Its name. */
  name: z.string(),
  /** When it was made. */
  createdAt: Timestamp,
  /** When it last changed. */
  updatedAt: Timestamp,
  /** Name in addresses. */
  slug: z.string().optional(),
  /** Icon name or address. */
  icon: z.string().optional(),
  /** Colour. */
  color: z.string().optional(),
  /** What it is for. */
  description: z.string().optional(),
  /** Instructions on its role. */
  rolePrompt: z.string().optional(),
  /** Instructions on what to avoid. */
  forbiddenPrompt: z.string().optional(),
  /** Skills it may use. */
  skillIds: z.array(z.string()).optional(),
  /** Whether it may use skills of others. */
  allowExternalSkills: z.boolean().optional(),
  /** Whether it came with the product. */
  isBuiltin: z.boolean().optional(),
  /** Whether it is put away. */
  isArchived: z.boolean().optional(),
  /** Place in lists. */
  sortOrder: Integer.optional(),
});
export type ChatAgent = z.infer<typeof ChatAgent>;

/** Tracks that a user is in the middle of a run of several steps. */
export const AgentSession = open({
  /** Globally unique identifier. */
  sessionId: z.string(),
  /** Owning user. */
  userId: z.string(),
  /** Owning chat. */
  chatId: z.string(),
  /** Free stage tag, such as PLANNING. */
  currentStage: z.string(),
  /** Next stage, when known. */
  nextStage: z.string().nullable().optional(),
  /** Scenario tag of the product. */
  scenario: z.string().optional(),
  /** Scratch state of the stage. */
  stageData: JsonObject.optional(),
  /** False once the run has ended. */
  isActive: z.boolean(),
  /** Owning project. */
  projectId: z.string().nullable().optional(),
  /** Row identifier of the store. */
  id: z.string().optional(),
  /** When it was made. */
  createdAt: Timestamp,
  /** When it last changed. */
  updatedAt: Timestamp,
});
export type AgentSession = z.infer<typeof AgentSession>;

/** A change of the stage of an AgentSession; absent fields stay as they are. */
export const AgentSessionChange = z.strictObject({
  /** The stage from now on. */
  currentStage: z.string().optional(),
  /** The stage after it; null if it is not known any more. */
  nextStage: z.string().nullable().optional(),
  /** Replaces the scratch state of the stage. */
  stageData: JsonObject.optional(),
});
export type AgentSessionChange = z.infer<typeof AgentSessionChange>;
