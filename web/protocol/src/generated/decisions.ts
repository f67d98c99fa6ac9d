// Generated from spec/decisions.schema.json by `make gen`. Do not edit.
/** Choices an agent made, what came of them, and problems it met. */
import { z } from "zod";
import { Json, JsonObject, open } from "../wire.js";
import { Count, Id, Timestamp, Usage } from "./common.js";

/** What was chosen. */
export const DecisionType = z.enum(["tool_selection", "parameter_choice", "path_choice", "output_format", "retry_strategy", "delegation", "termination", "custom"]);
export type DecisionType = z.infer<typeof DecisionType>;

/** One thing the agent could have done. */
export const Option = open({
  /** Identifier of the option. */
  id: z.string(),
  /** What it does. */
  description: z.string().optional(),
  /** Such as tool_call, generate or delegate. */
  actionType: z.string().optional(),
  /** Parameters of the action. */
  actionParams: JsonObject.optional(),
  /** What speaks for it. */
  pros: z.array(z.string()).optional(),
  /** What speaks against it. */
  cons: z.array(z.string()).optional(),
  /** How sure the agent was, from 0 to 1. */
  confidence: z.number().min(0).max(1).optional(),
});
export type Option = z.infer<typeof Option>;

/** What came of a decision. */
export const Outcome = open({
  /** Whether the action succeeded. */
  success: z.boolean(),
  /** What it returned. */
  result: Json.optional(),
  /** Why it failed. */
  error: z.string().nullable().optional(),
  /** What happened, for people. */
  summary: z.string().optional(),
  /** What changed. */
  stateChanges: JsonObject.optional(),
  /** Tokens it used. */
  tokensUsed: Count.optional(),
  /** Time it took. */
  latencyMs: Count.optional(),
  /** When it was recorded. */
  timestamp: Timestamp.optional(),
});
export type Outcome = z.infer<typeof Outcome>;

/** A judgement of a decision, made later. */
export const DecisionEvaluation = open({
  /** Whether it served the goal. */
  goalAligned: z.boolean(),
  /** How well it did, from 0 to 1. */
  alignmentScore: z.number().min(0).max(1).optional(),
  /** Whether another option was better. */
  betterOptionExisted: z.boolean().optional(),
  /** Which one. */
  betterOptionId: z.string().optional(),
  /** Why. */
  whyBetter: z.string().optional(),
  /** How good the outcome was, from 0 to 1. */
  outcomeQuality: z.number().min(0).max(1).optional(),
  /** Whether it helped. */
  contributedToSuccess: z.boolean().nullable().optional(),
  /** Why it was judged so. */
  explanation: z.string().optional(),
});
export type DecisionEvaluation = z.infer<typeof DecisionEvaluation>;

/** A choice among options. */
export const Decision = open({
  /** Identifier of the decision. */
  id: Id,
  /** When it was made. */
  timestamp: Timestamp,
  /** Part of the agent that made it. */
  nodeId: z.string(),
  /** What the agent wanted. */
  intent: z.string(),
  /** What was chosen. */
  decisionType: DecisionType,
  /** What it could have done. */
  options: z.array(Option),
  /** What it did. */
  chosenOptionId: z.string(),
  /** Why. */
  reasoning: z.string(),
  /** Constraints in force. */
  activeConstraints: z.array(z.string()).optional(),
  /** What it knew. */
  inputContext: JsonObject.optional(),
  /** What came of it; absent while pending. */
  outcome: Outcome.optional(),
  /** How it was judged later. */
  evaluation: DecisionEvaluation.optional(),
});
export type Decision = z.infer<typeof Decision>;

/** How bad a problem is. */
export const ProblemSeverity = z.enum(["critical", "warning", "minor"]);
export type ProblemSeverity = z.infer<typeof ProblemSeverity>;

/** Something that went wrong. */
export const Problem = open({
  /** Identifier of the problem. */
  id: Id,
  /** How bad it is. */
  severity: ProblemSeverity,
  /** What went wrong. */
  description: z.string(),
  /** When it was reported. */
  timestamp: Timestamp,
  /** Decision that caused it. */
  decisionId: Id.nullable().optional(),
  /** Why it went wrong. */
  rootCause: z.string().nullable().optional(),
  /** What might help. */
  suggestedFix: z.string().nullable().optional(),
});
export type Problem = z.infer<typeof Problem>;

/** Counts of a recorded run. A pending decision is neither a success nor a failure. */
export const RunMetrics = open({
  /** Decisions. */
  totalDecisions: Count,
  /** Decisions whose action succeeded. */
  successfulDecisions: Count,
  /** Decisions whose action failed. */
  failedDecisions: Count,
  /** Tokens. */
  totalTokens: Count,
  /** Time of all actions. */
  totalLatencyMs: Count,
  /** Parts that decided, in order of their first decision. */
  nodesExecuted: z.array(z.string()),
});
export type RunMetrics = z.infer<typeof RunMetrics>;

/** Where a recorded run is. */
export const DecisionRunStatus = z.enum(["running", "completed", "failed", "stuck", "cancelled"]);
export type DecisionRunStatus = z.infer<typeof DecisionRunStatus>;

/** A recorded run with its decisions and problems. */
export const DecisionRun = open({
  /** Identifier of the run. */
  id: Id,
  /** Goal it pursued. */
  goalId: z.string(),
  /** The goal, for people. */
  goalDescription: z.string().optional(),
  /** When it began. */
  startedAt: Timestamp,
  /** When it ended. */
  completedAt: Timestamp.nullable().optional(),
  /** Where it is. */
  status: DecisionRunStatus,
  /** Choices, in order. */
  decisions: z.array(Decision),
  /** Problems, in order. */
  problems: z.array(Problem),
  /** Counts. */
  metrics: RunMetrics,
  /** What happened, for people. */
  narrative: z.string().optional(),
  /** What it was given. */
  inputData: JsonObject.optional(),
  /** What it returned. */
  outputData: JsonObject.optional(),
  /** Agent that ran. */
  agentId: Id.optional(),
  /** Package of the agent, with its version if it has one. */
  packageId: Id.optional(),
  /** Exact version of the agent; the last one, if the run moved. */
  packageFingerprint: z.string().optional(),
  /** What its model calls used and cost: failed ones, summaries and subagents included. */
  usage: Usage.optional(),
  /** From its beginning to its end, waits included; absent while open. */
  durationMs: Count.optional(),
});
export type DecisionRun = z.infer<typeof DecisionRun>;

/** A recorded run in short. */
export const RunSummary = open({
  /** The run. */
  runId: Id,
  /** Goal it pursued. */
  goalId: z.string(),
  /** Where it is. */
  status: DecisionRunStatus,
  /** How long it took; 0 while open. */
  durationMs: Count,
  /** Decisions. */
  decisionCount: Count,
  /** Successful among decided, from 0 to 1. */
  successRate: z.number().min(0).max(1),
  /** Problems. */
  problemCount: Count,
  /** What happened, for people. */
  narrative: z.string(),
  /** Decisions worth a look. */
  keyDecisions: z.array(z.string()),
  /** Critical problems. */
  criticalProblems: z.array(z.string()),
  /** Warnings. */
  warnings: z.array(z.string()),
  /** What went well. */
  successes: z.array(z.string()),
});
export type RunSummary = z.infer<typeof RunSummary>;
