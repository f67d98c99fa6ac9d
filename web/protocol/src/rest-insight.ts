/** Answers of the server about many runs: numbers, causes, versions, proposals; and what one model call was sent. */
import { z } from "zod";

import {
  Count,
  Proposal,
  ProposalCheck,
  Timestamp,
  UserPart,
  VersionComparison,
  VersionTally,
} from "./generated/index.js";
import { JsonObject, open } from "./wire.js";

const NUMBERS = {
  runs: Count,
  completed: Count,
  /** Those that used up their budget included. */
  failed: Count,
  cancelled: Count,
  /** Not over yet. */
  open: Count,
  inputTokens: Count,
  outputTokens: Count,
  costMicros: Count,
  /** How long runs took, waits included; absent without any that is over. */
  p50Ms: z.number().optional(),
  p95Ms: z.number().optional(),
};

/** What runs came to. */
export const RunNumbers = open(NUMBERS);
export type RunNumbers = z.infer<typeof RunNumbers>;

/** The runs that began in a part of the time. */
export const StatsBucket = open({ at: Timestamp, ...NUMBERS });
export type StatsBucket = z.infer<typeof StatsBucket>;

/** A tool, with how often it was called and how often that failed. */
export const FailingTool = open({ tool: z.string(), calls: Count, failed: Count });
export type FailingTool = z.infer<typeof FailingTool>;

/** Runs over time. Every part is there, the oldest first; a run counts where it began. */
export const Stats = open({
  from: Timestamp,
  to: Timestamp,
  /** Seconds of each part. */
  bucketS: z.number(),
  total: RunNumbers,
  buckets: z.array(StatsBucket),
  /** What waits now, whatever time was asked for. */
  waiting: open({ runs: Count, requests: Count, oldestAskedAt: Timestamp.optional() }),
  failingTools: z.array(FailingTool),
});
export type Stats = z.infer<typeof Stats>;

/** Failures that are told in the same words. */
export const FailureCause = open({ told: z.string(), count: Count, runIds: z.array(z.string()) });
export type FailureCause = z.infer<typeof FailureCause>;

/** Failures of one kind. A newer server may know others than `FailureKind`. */
export const FailureGroup = open({ kind: z.string(), count: Count, causes: z.array(FailureCause) });
export type FailureGroup = z.infer<typeof FailureGroup>;

/** Why runs failed. */
export const Failures = open({
  /** Runs that were looked at, and how many of them failed. */
  runs: Count,
  failed: Count,
  /** Whether those are all: else they are the newest. */
  isAll: z.boolean(),
  groups: z.array(FailureGroup),
});
export type Failures = z.infer<typeof Failures>;

/** A version of an agent, with what its runs came to. */
export const Version = open({ firstAt: Timestamp, lastAt: Timestamp, tally: VersionTally });
export type Version = z.infer<typeof Version>;

/** The versions of an agent, the newest first. */
export const Versions = open({
  agentId: z.string(),
  /** The fingerprint that new runs have. */
  current: z.string().optional(),
  versions: z.array(Version),
});
export type Versions = z.infer<typeof Versions>;

/** Two versions side by side. */
export const Comparison = open({
  agentId: z.string(),
  comparison: VersionComparison,
  /** What differs between them, if both are kept. */
  changes: z.array(z.string()).optional(),
});
export type Comparison = z.infer<typeof Comparison>;

/** Work on a proposal that is under way, or came to nothing. */
export const ProposalWork = open({
  proposalId: z.string(),
  kind: z.string(),
  status: z.string(),
  problem: z.string().optional(),
  startedAt: Timestamp,
  agentId: z.string().optional(),
  goalId: z.string().optional(),
});
export type ProposalWork = z.infer<typeof ProposalWork>;

/** A proposal, how it did when it was checked, and what somebody said to it. */
export const ProposalView = open({
  proposal: Proposal,
  /** `open`, `accepted`, `refused` or `applied`. */
  status: z.string(),
  check: ProposalCheck.optional(),
  settled: open({ isAccepted: z.boolean(), by: z.string().optional(), reason: z.string().optional() }).optional(),
  settledAt: Timestamp.optional(),
  appliedAt: Timestamp.optional(),
  work: z.array(ProposalWork).default([]),
});
export type ProposalView = z.infer<typeof ProposalView>;

/** Proposals, the newest first, and work on such as are not there yet. */
export const ProposalList = open({ proposals: z.array(ProposalView), work: z.array(ProposalWork).default([]) });
export type ProposalList = z.infer<typeof ProposalList>;

/** A proposal that is being made or checked. */
export const ProposalAccepted = open({ proposalId: z.string() });

/** What somebody says to a proposal. */
export interface Verdict {
  readonly reason?: string | undefined;
  /** The version that was read: another one is not settled. */
  readonly fingerprint?: string | undefined;
}

/** One message as a model was sent it. */
export const PromptMessage = open({
  role: z.string(),
  content: z.string(),
  toolCalls: z.array(open({ id: z.string(), name: z.string(), arguments: z.unknown() })).optional(),
  toolCallId: z.string().optional(),
  name: z.string().optional(),
  reasoning: z.string().optional(),
  parts: z.array(UserPart).optional(),
  isError: z.boolean().optional(),
});
export type PromptMessage = z.infer<typeof PromptMessage>;

/** What the model was sent in one step of a run. */
export const StepPrompt = open({
  runId: z.string(),
  stepIndex: Count,
  /** The record `step.started`. */
  seq: Count,
  modelId: z.string(),
  fingerprint: z.string().optional(),
  temperature: z.number().optional(),
  system: z.string().optional(),
  outputSchema: JsonObject.optional(),
  tools: z.array(open({ name: z.string(), description: z.string(), inputSchema: JsonObject })),
  messages: z.array(PromptMessage),
  /** What cannot be known of it, in words. */
  unknown: z.array(z.string()).default([]),
});
export type StepPrompt = z.infer<typeof StepPrompt>;

/** Records at which a fork may begin, ascending; `next` is what `before` takes for older ones. */
export const SafePoints = open({ safePoints: z.array(Count), next: Count.optional() });
export type SafePoints = z.infer<typeof SafePoints>;
