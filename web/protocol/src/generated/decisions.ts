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
  /** Decisions with a successful action. */
  successfulDecisions: Count,
  /** Decisions with a failed action. */
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

/** Why a run failed; each kind has one rule. */
export const FailureKind = z.enum(["cancelled", "interrupted", "repeated_call", "stall", "budget", "output_contract", "denied", "timeout", "provider", "invalid_arguments", "tool_error", "goal_missed", "unknown"]);
export type FailureKind = z.infer<typeof FailureKind>;

/** What a proposal changes of an agent. */
export const ProposalPart = z.enum(["instructions", "tool_description", "policy", "budget", "model"]);
export type ProposalPart = z.infer<typeof ProposalPart>;

/** One change that a proposal makes to an agent. */
export const ProposalChange = open({
  /** What it changes. */
  part: ProposalPart,
  /** The tool, or the rule of the policy. */
  target: z.string().optional(),
  /** What it was. */
  before: Json.optional(),
  /** What it would be. */
  after: Json.optional(),
});
export type ProposalChange = z.infer<typeof ProposalChange>;

/** One place at which two packages differ. */
export const PackageDifference = open({
  /** JSON pointer into the package. */
  path: z.string(),
  /** What is there now; absent if nothing. */
  before: Json.optional(),
  /** What would be there; absent if nothing. */
  after: Json.optional(),
});
export type PackageDifference = z.infer<typeof PackageDifference>;

/** A proposed change to an agent. */
export const Proposal = open({
  /** Identifier of the proposal. */
  id: Id,
  /** The goal that it serves. */
  goalId: z.string(),
  /** The agent. */
  agentId: Id,
  /** The version that it changes. */
  baseFingerprint: z.string(),
  /** The version that it makes. */
  fingerprint: z.string(),
  /** What it changes. */
  changes: z.array(ProposalChange),
  /** The same as a difference of packages. */
  differences: z.array(PackageDifference),
  /** Why it should help. */
  rationale: z.string(),
  /** Runs that show it. */
  evidence: z.array(z.string()),
  /** The run that came up with it. */
  runId: Id.optional(),
  /** When it was made. */
  at: Timestamp,
});
export type Proposal = z.infer<typeof Proposal>;

/** A number that was measured, and how sure it is. */
export const Estimate = open({
  /** What was measured. */
  value: z.number(),
  /** Lower end of the 95 % confidence interval; absent if there are too few values. */
  low: z.number().optional(),
  /** Upper end of it. */
  high: z.number().optional(),
});
export type Estimate = z.infer<typeof Estimate>;

/** What runs of one version of an agent came to. */
export const VersionTally = open({
  /** The version. */
  fingerprint: z.string(),
  /** How many there are. */
  runs: Count,
  /** How many of them reached the goal. */
  succeeded: Count,
  /** Succeeded among all. */
  successRate: Estimate.optional(),
  /** Mean cost, in millionths of a dollar. */
  costMicros: Estimate.optional(),
  /** Mean duration. */
  durationMs: Estimate.optional(),
  /** Mean number of tokens. */
  tokens: Estimate.optional(),
});
export type VersionTally = z.infer<typeof VersionTally>;

/** Whether the new version is better; unclear without enough evidence. */
export const VersionVerdict = z.enum(["better", "worse", "unclear"]);
export type VersionVerdict = z.infer<typeof VersionVerdict>;

/** Two versions of an agent side by side; differences are new less old. */
export const VersionComparison = open({
  /** The one that is there. */
  old: VersionTally,
  /** The other one. */
  new: VersionTally,
  /** What the success rates say: better or worse only with enough runs, by an exact test and the interval. */
  verdict: VersionVerdict,
  /** Difference of success rates. */
  successRate: Estimate.optional(),
  /** Probability that equal versions differ as much: Fisher's exact test, or the exact test of pairs. */
  pValue: z.number().min(0).max(1).optional(),
  /** Difference of mean costs. */
  costMicros: Estimate.optional(),
  /** Difference of mean durations. */
  durationMs: Estimate.optional(),
  /** Difference of mean tokens. */
  tokens: Estimate.optional(),
});
export type VersionComparison = z.infer<typeof VersionComparison>;

/** What came of one attempt to do a recorded run again. */
export const ReplayedRun = open({
  /** The run that the input comes from. */
  runId: Id,
  /** The version that did it. */
  fingerprint: z.string(),
  /** Whether it reached the goal. */
  success: z.boolean(),
  /** How well, from 0 to 1. */
  score: z.number().min(0).max(1),
  /** Calls for which nothing was recorded. */
  diverged: Count,
  /** Why it failed. */
  failure: FailureKind.optional(),
  /** What the criteria say. */
  explanation: z.string().optional(),
  /** The beginning of its answer. */
  output: z.string().optional(),
});
export type ReplayedRun = z.infer<typeof ReplayedRun>;

/** How a proposal did on recorded runs. */
export const ProposalCheck = open({
  /** Both versions. */
  comparison: VersionComparison,
  /** Each attempt. */
  replays: z.array(ReplayedRun),
  /** Runs that the new version did more often. */
  fixed: Count,
  /** Runs that the old version did more often. */
  broken: Count,
  /** Attempts with calls for which nothing was recorded. */
  diverged: Count,
});
export type ProposalCheck = z.infer<typeof ProposalCheck>;
