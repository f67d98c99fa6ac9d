// Generated from spec/input.schema.json by `make gen`. Do not edit.
/** Questions, approvals and recovery choices, and their answers. */
import { z } from "zod";
import { Json, JsonObject, open, text } from "../wire.js";
import { Id, Sha256, Timestamp } from "./common.js";

/** A tool call that the model asked for. */
export const ToolCallAction = open({
  /** Kind of action. */
  kind: z.literal("tool-call"),
  /** Identifier of the call. */
  callId: Id,
  /** Name of the tool. */
  toolName: z.string(),
  /** Arguments. */
  input: Json,
});
export type ToolCallAction = z.infer<typeof ToolCallAction>;

/** A call of a subagent. */
export const SubagentCallAction = open({
  /** Kind of action. */
  kind: z.literal("subagent-call"),
  /** Identifier of the call. */
  callId: Id,
  /** Name the model used. */
  name: z.string(),
  /** Name of the subagent. */
  subagentName: z.string(),
  /** What the subagent is asked. */
  input: Json,
  /** What the subagent is for. */
  description: z.string().optional(),
  /** Place of the subagent in its package. */
  nodeId: z.string().optional(),
});
export type SubagentCallAction = z.infer<typeof SubagentCallAction>;

/** A call of an agent elsewhere. */
export const RemoteAgentCallAction = open({
  /** Kind of action. */
  kind: z.literal("remote-agent-call"),
  /** Identifier of the call. */
  callId: Id,
  /** Name the model used. */
  name: z.string(),
  /** Name of the remote agent. */
  remoteAgentName: z.string(),
  /** What the agent is asked. */
  input: Json,
  /** What the agent is for. */
  description: z.string().optional(),
  /** Place of the agent in its package. */
  nodeId: z.string().optional(),
});
export type RemoteAgentCallAction = z.infer<typeof RemoteAgentCallAction>;

/** A skill to load. */
export const LoadSkillAction = open({
  /** Kind of action. */
  kind: z.literal("load-skill"),
  /** Identifier of the call. */
  callId: Id,
  /** Which skill. */
  input: Json,
});
export type LoadSkillAction = z.infer<typeof LoadSkillAction>;

/** Something the model asked the runtime to do. */
export const RuntimeActionRequest = z.discriminatedUnion("kind", [ToolCallAction, SubagentCallAction, RemoteAgentCallAction, LoadSkillAction]);
export type RuntimeActionRequest = z.infer<typeof RuntimeActionRequest>;

/** What came of an action. */
export const ToolActionResult = open({
  /** Kind of result. */
  kind: z.literal("tool-result"),
  /** The action it answers. */
  callId: Id,
  /** The result. */
  output: Json,
  /** Whether it failed. */
  isError: z.boolean().optional(),
  /** Name of the tool. */
  toolName: z.string(),
});
export type ToolActionResult = z.infer<typeof ToolActionResult>;

/** What came of an action. */
export const SubagentActionResult = open({
  /** Kind of result. */
  kind: z.literal("subagent-result"),
  /** The action it answers. */
  callId: Id,
  /** The result. */
  output: Json,
  /** Whether it failed. */
  isError: z.boolean().optional(),
  /** Name of the subagent. */
  subagentName: z.string(),
});
export type SubagentActionResult = z.infer<typeof SubagentActionResult>;

/** What came of an action. */
export const LoadSkillActionResult = open({
  /** Kind of result. */
  kind: z.literal("load-skill-result"),
  /** The action it answers. */
  callId: Id,
  /** The result. */
  output: Json,
  /** Whether it failed. */
  isError: z.boolean().optional(),
  /** Name of the skill. */
  name: z.string().optional(),
});
export type LoadSkillActionResult = z.infer<typeof LoadSkillActionResult>;

/** What came of an action the runtime did. */
export const RuntimeActionResult = z.discriminatedUnion("kind", [ToolActionResult, SubagentActionResult, LoadSkillActionResult]);
export type RuntimeActionResult = z.infer<typeof RuntimeActionResult>;

/** Why a person is asked. */
export const InputKind = z.enum(["approval", "question", "recovery", "authorization"]);
export type InputKind = z.infer<typeof InputKind>;

/** How to show the request. */
export const InputDisplay = z.enum(["confirmation", "select", "text"]);
export type InputDisplay = z.infer<typeof InputDisplay>;

/** How to show an option. */
export const OptionStyle = z.enum(["default", "primary", "danger"]);
export type OptionStyle = z.infer<typeof OptionStyle>;

/** One answer a person can pick. */
export const InputOption = open({
  /** Identifier of the option. */
  id: Id,
  /** What to show. */
  label: z.string(),
  /** What it means. */
  description: z.string().optional(),
  /** How to show it. */
  style: OptionStyle.optional(),
});
export type InputOption = z.infer<typeof InputOption>;

/** A request to a person. It names the exact call it is about. */
export const InputRequest = open({
  /** Identifier; the answer names it. */
  requestId: Id,
  /** The call it is about. */
  action: RuntimeActionRequest,
  /** What to ask. */
  prompt: z.string(),
  /** How to show it. */
  display: InputDisplay,
  /** Answers to pick from. */
  options: z.array(InputOption).optional(),
  /** Whether a free text is an answer. */
  allowFreeform: z.boolean().optional(),
  /** Why the person is asked. */
  kind: InputKind.optional(),
  /** Digest of the exact arguments; an approval counts for these only. */
  argumentsHash: Sha256.optional(),
  /** When the request lapses. */
  expiresAt: Timestamp.optional(),
  /** Who may answer; anyone entitled to the session when absent. */
  responders: z.array(z.string()).optional(),
  /** Whether an answer is stored and waits for the process that drives the run; set in lists of requests. */
  isAnswered: z.boolean().optional(),
});
export type InputRequest = z.infer<typeof InputRequest>;

/** A person's answer. */
export const InputResponse = open({
  /** The request it answers. */
  requestId: Id,
  /** The option picked. */
  optionId: Id.optional(),
  /** The text given. */
  text: z.string().optional(),
  /** Who answered. */
  responder: z.string().optional(),
  /** Roles of the person who answered, as the server knows them; a request may name a role as its responder. */
  roles: z.array(z.string()).optional(),
  /** Digest of the arguments that the person saw. */
  argumentsHash: Sha256.optional(),
  /** Arguments that the person approves instead of those of the request. */
  arguments: JsonObject.optional(),
});
export type InputResponse = z.infer<typeof InputResponse>;

/** What came of a request. */
export const InputOutcome = z.enum(["answered", "approved", "cancelled", "denied", "expired", "ignored", "invalid"]);
export type InputOutcome = z.infer<typeof InputOutcome>;

/** What came of one request. */
export const InputResolution = open({
  /** The request. */
  requestId: Id,
  /** What came of it. */
  outcome: InputOutcome,
  /** Why the person was asked. */
  kind: InputKind.optional(),
  /** The answer, if there was one. */
  response: InputResponse.optional(),
  /** The answer that settled it, among all answers to the session. */
  answerId: Id.optional(),
});
export type InputResolution = z.infer<typeof InputResolution>;
