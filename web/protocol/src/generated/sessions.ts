// Generated from spec/sessions.schema.json by `make gen`. Do not edit.
/** The state of a session as plain data, and what goes into and comes out of a step. */
import { z } from "zod";
import { Json, JsonObject, open, text } from "../wire.js";
import { ContentRef, Count, Id, Positive, Usage } from "./common.js";
import { InputRequest, InputResponse, RuntimeActionRequest, RuntimeActionResult } from "./input.js";

/** Text. */
export const TextPart = open({
  /** Kind of part. */
  type: z.literal("text"),
  /** The text. */
  text: z.string(),
  /** Options for one provider. */
  providerOptions: JsonObject.optional(),
});
export type TextPart = z.infer<typeof TextPart>;

/** A picture. */
export const ImagePart = open({
  /** Kind of part. */
  type: z.literal("image"),
  /** Address, data URL or content id. */
  image: z.string(),
  /** Media type. */
  mediaType: z.string().optional(),
  /** The stored bytes, if they were too large for a record; the runtime sets it. */
  content: ContentRef.optional(),
  /** Options for one provider. */
  providerOptions: JsonObject.optional(),
});
export type ImagePart = z.infer<typeof ImagePart>;

/** A file. */
export const FilePart = open({
  /** Kind of part. */
  type: z.literal("file"),
  /** Address, data URL or content id. */
  data: z.string(),
  /** Media type. */
  mediaType: z.string(),
  /** Name of the file. */
  filename: z.string().optional(),
  /** The stored bytes, if they were too large for a record; the runtime sets it. */
  content: ContentRef.optional(),
  /** Options for one provider. */
  providerOptions: JsonObject.optional(),
});
export type FilePart = z.infer<typeof FilePart>;

/** What the model thought aloud. */
export const ReasoningPart = open({
  /** Kind of part. */
  type: z.literal("reasoning"),
  /** The text. */
  text: z.string(),
  /** Options for one provider, such as a signature. */
  providerOptions: JsonObject.optional(),
});
export type ReasoningPart = z.infer<typeof ReasoningPart>;

/** A tool call. */
export const ToolCallPart = open({
  /** Kind of part. */
  type: z.literal("tool-call"),
  /** Identifier of the call. */
  toolCallId: z.string(),
  /** Name of the tool. */
  toolName: z.string(),
  /** Arguments. */
  input: Json,
  /** Whether the provider ran it. */
  providerExecuted: z.boolean().optional(),
  /** Options for one provider. */
  providerOptions: JsonObject.optional(),
});
export type ToolCallPart = z.infer<typeof ToolCallPart>;

/** What a tool's output is. */
export const ToolOutputType = z.enum(["text", "json", "error-text", "error-json", "execution-denied", "content"]);
export type ToolOutputType = z.infer<typeof ToolOutputType>;

/** The output of a tool as the model sees it. */
export const ToolOutput = open({
  /** What it is. */
  type: ToolOutputType,
  /** The output; absent for execution-denied. */
  value: Json.optional(),
  /** Why execution was denied. */
  reason: z.string().optional(),
});
export type ToolOutput = z.infer<typeof ToolOutput>;

/** The result of a tool call. */
export const ToolResultPart = open({
  /** Kind of part. */
  type: z.literal("tool-result"),
  /** The call it answers. */
  toolCallId: z.string(),
  /** Name of the tool. */
  toolName: z.string(),
  /** The output. */
  output: ToolOutput,
  /** Options for one provider. */
  providerOptions: JsonObject.optional(),
});
export type ToolResultPart = z.infer<typeof ToolResultPart>;

/** A call waits for consent. */
export const ApprovalRequestPart = open({
  /** Kind of part. */
  type: z.literal("tool-approval-request"),
  /** Identifier of the request. */
  approvalId: z.string(),
  /** The call. */
  toolCallId: z.string(),
});
export type ApprovalRequestPart = z.infer<typeof ApprovalRequestPart>;

/** Consent was given or refused. */
export const ApprovalResponsePart = open({
  /** Kind of part. */
  type: z.literal("tool-approval-response"),
  /** The request. */
  approvalId: z.string(),
  /** Whether it was given. */
  approved: z.boolean(),
  /** Why. */
  reason: z.string().optional(),
});
export type ApprovalResponsePart = z.infer<typeof ApprovalResponsePart>;

/** A part of a user's message. */
export const UserPart = z.discriminatedUnion("type", [TextPart, ImagePart, FilePart]);
export type UserPart = z.infer<typeof UserPart>;

/** A part of an assistant's message. */
export const AssistantPart = z.discriminatedUnion("type", [TextPart, FilePart, ReasoningPart, ToolCallPart, ToolResultPart, ApprovalRequestPart]);
export type AssistantPart = z.infer<typeof AssistantPart>;

/** A part of a tool message. */
export const ToolPart = z.discriminatedUnion("type", [ToolResultPart, ApprovalResponsePart]);
export type ToolPart = z.infer<typeof ToolPart>;

/** A user's words: text, or parts. */
export const UserContent = z.union([z.string(), z.array(UserPart)]);
export type UserContent = z.infer<typeof UserContent>;

/** Instructions. */
export const SystemMessage = open({
  /** Who speaks. */
  role: z.literal("system"),
  /** The text. */
  content: z.string(),
  /** Options for one provider. */
  providerOptions: JsonObject.optional(),
});
export type SystemMessage = z.infer<typeof SystemMessage>;

/** What the user said. */
export const UserMessage = open({
  /** Who speaks. */
  role: z.literal("user"),
  /** Text, or parts. */
  content: UserContent,
  /** Options for one provider. */
  providerOptions: JsonObject.optional(),
});
export type UserMessage = z.infer<typeof UserMessage>;

/** What the model said. */
export const AssistantMessage = open({
  /** Who speaks. */
  role: z.literal("assistant"),
  /** Text, or parts. */
  content: z.union([z.string(), z.array(AssistantPart)]),
  /** Options for one provider. */
  providerOptions: JsonObject.optional(),
});
export type AssistantMessage = z.infer<typeof AssistantMessage>;

/** Results of tool calls. */
export const ToolMessage = open({
  /** Who speaks. */
  role: z.literal("tool"),
  /** Results, each with the id of its call. */
  content: z.array(ToolPart),
  /** Options for one provider. */
  providerOptions: JsonObject.optional(),
});
export type ToolMessage = z.infer<typeof ToolMessage>;

/** One message as a model sees it. */
export const ModelMessage = z.discriminatedUnion("role", [SystemMessage, UserMessage, AssistantMessage, ToolMessage]);
export type ModelMessage = z.infer<typeof ModelMessage>;

/** Names a model; resolved at step time. */
export const ModelReference = open({
  /** Model as provider/model. */
  id: Id,
  /** How much the model can read. */
  contextWindowTokens: Positive.optional(),
  /** Options for the provider. */
  options: JsonObject.optional(),
});
export type ModelReference = z.infer<typeof ModelReference>;

/** A tool as the session stores it: schema, no code. */
export const SessionToolDefinition = open({
  /** Name of the tool. */
  name: Id,
  /** What it does. */
  description: z.string().optional(),
  /** JSON Schema of the arguments. */
  inputSchema: JsonObject,
  /** JSON Schema of the output. */
  outputSchema: JsonObject.optional(),
});
export type SessionToolDefinition = z.infer<typeof SessionToolDefinition>;

/** When to compact the history. */
export const CompactionConfig = z.strictObject({
  /** Input tokens of the last model call, as the provider counted. */
  lastKnownInputTokens: Count.optional(),
  /** Messages in that call. */
  lastKnownPromptMessageCount: Count.optional(),
  /** How many newest messages to keep as they are. */
  recentWindowSize: Count,
  /** Compact when the input would exceed this many tokens. */
  threshold: Count,
});
export type CompactionConfig = z.infer<typeof CompactionConfig>;

/** The agent of a session as plain data. */
export const SessionAgent = z.strictObject({
  /** Model for summaries; the turn's model when absent. */
  compactionModelReference: ModelReference.optional(),
  /** Model of the agent. */
  modelReference: ModelReference,
  /** Instructions. */
  system: z.string(),
  /** Tools it has. */
  tools: z.array(SessionToolDefinition),
});
export type SessionAgent = z.infer<typeof SessionAgent>;

/** What is needed to open the session's sandbox again. */
export const SandboxState = open({
  /** Whether it was set up. */
  initialized: z.boolean(),
  /** Handle of the backend. */
  session: JsonObject.nullable().optional(),
});
export type SandboxState = z.infer<typeof SandboxState>;

/** The state of a session, passed between harness and runtime. Plain data only. */
export const HarnessSession = z.strictObject({
  /** The agent. */
  agent: SessionAgent,
  /** When to compact. */
  compaction: CompactionConfig,
  /** Capability to continue the session. Treat it as a secret. */
  continuationToken: z.string(),
  /** What was said, as the model sees it. */
  history: z.array(ModelMessage),
  /** JSON Schema that the final output must meet. */
  outputSchema: JsonObject.optional(),
  /** Top session of the dispatch chain; absent when this is the top. */
  rootSessionId: Id.optional(),
  /** Identifier of the session. */
  sessionId: Id,
  /** The sandbox. */
  sandboxState: SandboxState.optional(),
  /** Authored durable state. */
  state: JsonObject.optional(),
});
export type HarnessSession = z.infer<typeof HarnessSession>;

/** What goes into a step. */
export const StepInput = z.strictObject({
  /** Answers of people. */
  inputResponses: z.array(InputResponse).optional(),
  /** What the user says. */
  message: UserContent.optional(),
  /** Texts added before the message. */
  context: z.array(z.string()).optional(),
  /** Replaces the session's output schema. */
  outputSchema: JsonObject.optional(),
  /** Results of actions the runtime did. */
  runtimeActionResults: z.array(RuntimeActionResult).optional(),
});
export type StepInput = z.infer<typeof StepInput>;

/** The conversation or task is finished. */
export const StepDone = z.strictObject({
  /** Always true. */
  done: z.literal(true),
  /** The final output. */
  output: Json,
  /** Whether it failed. */
  isError: z.boolean().optional(),
});
export type StepDone = z.infer<typeof StepDone>;

/** conversation waits after each answer; task ends with one. */
export const RunMode = z.enum(["conversation", "task"]);
export type RunMode = z.infer<typeof RunMode>;

/** What the channel of a session can do. */
export const SessionCapabilities = open({
  /** Whether people can be asked. */
  requestInput: z.boolean().optional(),
});
export type SessionCapabilities = z.infer<typeof SessionCapabilities>;

/** Where in a session a step is. */
export const StepPlace = open({
  /** Number of the turn. */
  sequence: Count,
  /** Number of the step in its turn. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type StepPlace = z.infer<typeof StepPlace>;

/** Actions that the runtime does while the step waits. */
export const PendingActionBatch = open({
  /** The step that asked for them. */
  event: StepPlace,
  /** What was asked for. */
  actions: z.array(RuntimeActionRequest),
});
export type PendingActionBatch = z.infer<typeof PendingActionBatch>;

/** Requests to people that the step waits for. */
export const PendingInputBatch = open({
  /** The step that asks. */
  event: StepPlace,
  /** What is asked. */
  requests: z.array(InputRequest),
});
export type PendingInputBatch = z.infer<typeof PendingInputBatch>;

/** What the step function keeps in the state of its session. */
export const StepState = open({
  /** The step under way, or the last one; absent before the first turn. */
  place: StepPlace.optional(),
  /** Whether the turn goes on. */
  isTurnOpen: z.boolean(),
  /** Events shown so far. */
  eventCount: Count,
  /** Actions that the runtime does. */
  pendingActionBatch: PendingActionBatch.optional(),
  /** Requests to people. */
  pendingInputBatch: PendingInputBatch.optional(),
  /** Tools that people approved for the session. */
  approvedTools: z.array(z.string()).optional(),
  /** What the turn has used so far. */
  turnUsage: Usage.optional(),
  /** The state of the loop, for the release that wrote it. */
  loop: z.string().optional(),
});
export type StepState = z.infer<typeof StepState>;
