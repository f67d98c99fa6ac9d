// Generated from spec/policy.schema.json by `make gen`. Do not edit.
/** Six answers a policy can give. */
import { z } from "zod";
import { JsonObject, text } from "../wire.js";
import { PolicyRef } from "./common.js";

/** Go ahead. */
export const AllowDecision = z.looseObject({
  /** Which of the six answers this is. */
  decision: z.literal("allow"),
  /** Stable dotted code of the reason. */
  code: text({ min: 1 }),
  /** Why, in a sentence for people. */
  reason: z.string(),
  /** The rules that decided, strongest first. */
  policyRefs: z.array(PolicyRef),
});
export type AllowDecision = z.infer<typeof AllowDecision>;

/** Do not do it. */
export const DenyDecision = z.looseObject({
  /** Which of the six answers this is. */
  decision: z.literal("deny"),
  /** Stable dotted code of the reason. */
  code: text({ min: 1 }),
  /** Why, in a sentence for people. */
  reason: z.string(),
  /** The rules that decided, strongest first. */
  policyRefs: z.array(PolicyRef),
});
export type DenyDecision = z.infer<typeof DenyDecision>;

/** A person must consent first. */
export const AskDecision = z.looseObject({
  /** Which of the six answers this is. */
  decision: z.literal("ask"),
  /** Stable dotted code of the reason. */
  code: text({ min: 1 }),
  /** Why, in a sentence for people. */
  reason: z.string(),
  /** The rules that decided, strongest first. */
  policyRefs: z.array(PolicyRef),
  /** What to ask. */
  prompt: z.string().optional(),
  /** How long the question stays open. */
  expiresInMs: z.int().min(1).optional(),
});
export type AskDecision = z.infer<typeof AskDecision>;

/** Go ahead with other arguments. */
export const ModifyDecision = z.looseObject({
  /** Which of the six answers this is. */
  decision: z.literal("modify"),
  /** Stable dotted code of the reason. */
  code: text({ min: 1 }),
  /** Why, in a sentence for people. */
  reason: z.string(),
  /** The rules that decided, strongest first. */
  policyRefs: z.array(PolicyRef),
  /** The arguments to use instead. */
  arguments: JsonObject,
});
export type ModifyDecision = z.infer<typeof ModifyDecision>;

/** Stop the run here. */
export const InterruptDecision = z.looseObject({
  /** Which of the six answers this is. */
  decision: z.literal("interrupt"),
  /** Stable dotted code of the reason. */
  code: text({ min: 1 }),
  /** Why, in a sentence for people. */
  reason: z.string(),
  /** The rules that decided, strongest first. */
  policyRefs: z.array(PolicyRef),
});
export type InterruptDecision = z.infer<typeof InterruptDecision>;

/** Try again later. */
export const DeferDecision = z.looseObject({
  /** Which of the six answers this is. */
  decision: z.literal("defer"),
  /** Stable dotted code of the reason. */
  code: text({ min: 1 }),
  /** Why, in a sentence for people. */
  reason: z.string(),
  /** The rules that decided, strongest first. */
  policyRefs: z.array(PolicyRef),
  /** Earliest time to try again. */
  resumeAfterMs: z.int().min(0).optional(),
});
export type DeferDecision = z.infer<typeof DeferDecision>;

/** What a policy says of a run start or a tool call. */
export const PolicyDecision = z.discriminatedUnion("decision", [AllowDecision, DenyDecision, AskDecision, ModifyDecision, InterruptDecision, DeferDecision]);
export type PolicyDecision = z.infer<typeof PolicyDecision>;

/** When the policy was asked. */
export const PolicyStage = z.enum(["run_start", "pre_tool", "post_tool", "output", "delivery"]);
export type PolicyStage = z.infer<typeof PolicyStage>;

/** Most that a run may use; an absent limit does not limit. */
export const BudgetLimits = z.strictObject({
  /** Tokens, input and output together. */
  maxTokens: z.int().min(0).optional(),
  /** Model calls. */
  maxSteps: z.int().min(0).optional(),
  /** Tool calls. */
  maxToolCalls: z.int().min(0).optional(),
  /** Money, in millionths of a US dollar. */
  maxCostMicros: z.int().min(0).optional(),
  /** Time, in milliseconds. */
  maxWallMs: z.int().min(0).optional(),
});
export type BudgetLimits = z.infer<typeof BudgetLimits>;

/** What a run has used so far. */
export const BudgetUsage = z.strictObject({
  /** Tokens, input and output together. */
  tokensUsed: z.int().min(0),
  /** Model calls. */
  stepsUsed: z.int().min(0),
  /** Tool calls. */
  toolCallsUsed: z.int().min(0),
  /** Money, in millionths of a US dollar. */
  costMicrosUsed: z.int().min(0),
  /** Time, in milliseconds. */
  wallMsUsed: z.int().min(0),
});
export type BudgetUsage = z.infer<typeof BudgetUsage>;

/** Which limit. */
export const BudgetName = z.enum(["tokens", "steps", "tool_calls", "cost", "wall"]);
export type BudgetName = z.infer<typeof BudgetName>;
