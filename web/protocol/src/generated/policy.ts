// Generated from spec/policy.schema.json by `make gen`. Do not edit.
/** Six answers a policy can give. */
import { z } from "zod";
import { JsonObject, open, text } from "../wire.js";
import { Count, PolicyRef, Positive } from "./common.js";

/** Go ahead. */
export const AllowDecision = open({
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
export const DenyDecision = open({
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
export const AskDecision = open({
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
  expiresInMs: Positive.optional(),
  /** The arguments to ask about and to use instead, when a rule changed them too. */
  arguments: JsonObject.optional(),
});
export type AskDecision = z.infer<typeof AskDecision>;

/** Go ahead with other arguments. */
export const ModifyDecision = open({
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
export const InterruptDecision = open({
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
export const DeferDecision = open({
  /** Which of the six answers this is. */
  decision: z.literal("defer"),
  /** Stable dotted code of the reason. */
  code: text({ min: 1 }),
  /** Why, in a sentence for people. */
  reason: z.string(),
  /** The rules that decided, strongest first. */
  policyRefs: z.array(PolicyRef),
  /** Earliest time to try again. */
  resumeAfterMs: Count.optional(),
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
  maxTokens: Count.optional(),
  /** Model calls. */
  maxSteps: Count.optional(),
  /** Tool calls. */
  maxToolCalls: Count.optional(),
  /** Money, in millionths of a US dollar. */
  maxCostMicros: Count.optional(),
  /** Time, in milliseconds. */
  maxWallMs: Count.optional(),
});
export type BudgetLimits = z.infer<typeof BudgetLimits>;

/** What a run has used so far. */
export const BudgetUsage = z.strictObject({
  /** Tokens, input and output together. */
  tokensUsed: Count,
  /** Model calls. */
  stepsUsed: Count,
  /** Tool calls. */
  toolCallsUsed: Count,
  /** Money, in millionths of a US dollar. */
  costMicrosUsed: Count,
  /** Time, in milliseconds. */
  wallMsUsed: Count,
});
export type BudgetUsage = z.infer<typeof BudgetUsage>;

/** Which limit. */
export const BudgetName = z.enum(["tokens", "steps", "tool_calls", "cost", "wall"]);
export type BudgetName = z.infer<typeof BudgetName>;
