// Generated from spec/evals.schema.json by `make gen`. Do not edit.
/** Data sets, experiments and their results. */
import { z } from "zod";
import { Json, JsonObject, open, record } from "../wire.js";
import { Count, Id, Positive, Timestamp } from "./common.js";
import { Estimate, VersionComparison } from "./decisions.js";
import { RunStatus } from "./runs.js";

/** What one scorer says about an answer. */
export const EvalVerdict = open({
  /** The scorer. */
  name: z.string(),
  /** From 0 to 1 if it counts; any number otherwise. */
  score: z.number(),
  /** Whether the scorer is satisfied. */
  isMet: z.boolean(),
  /** Whether it decides if the case passes; a mere measure or label does not. */
  isCounted: z.boolean(),
  /** The reason, if it gave one. */
  why: z.string().optional(),
  /** The run of the model that judged. */
  runId: Id.optional(),
});
export type EvalVerdict = z.infer<typeof EvalVerdict>;

/** One attempt at a case of a data set, with its scores. */
export const EvalCase = open({
  /** The experiment. */
  experimentId: Id,
  /** The case. */
  name: z.string(),
  /** The number of the attempt, from 1. */
  repeat: Positive,
  /** The run; the last one of a conversation. */
  runId: Id,
  /** Its session. */
  sessionId: Id,
  /** How the run ended. */
  status: RunStatus,
  /** Whether every scorer that counts is satisfied. */
  isPassed: z.boolean(),
  /** The weighted mean of the scorers that count, from 0 to 1. */
  score: z.number().min(0).max(1),
  /** What each scorer says. */
  verdicts: z.array(EvalVerdict),
  /** The message, or the conversation, cut to 2,000 characters. */
  input: z.string(),
  /** The answer, cut to 2,000 characters. */
  output: z.string(),
  /** The expected answer, as text, cut to 2,000 characters; absent if there is none. */
  expected: z.string().optional(),
  /** Why it did not pass. */
  why: z.string().optional(),
  /** Cost, in millionths of a dollar; absent if unknown. */
  costMicros: Count.optional(),
  /** Time from start to end. */
  durationMs: Count.optional(),
  /** Tokens of its model calls. */
  tokens: Count.optional(),
  /** Its model calls. */
  steps: Count.optional(),
  /** Tags of the case. */
  tags: z.array(z.string()).optional(),
});
export type EvalCase = z.infer<typeof EvalCase>;

/** How tools answer in an experiment: real, or recorded, from the run that a case was taken from. */
export const EvalTools = z.enum(["real", "recorded"]);
export type EvalTools = z.infer<typeof EvalTools>;

/** An agent of one version that was run on the cases of a data set of one version. */
export const EvalExperiment = open({
  /** Its id; the ids of its runs begin with it. */
  id: Id,
  /** The agent. */
  agentId: Id,
  /** The version of the agent. */
  fingerprint: z.string(),
  /** The model of the agent. */
  model: z.string().optional(),
  /** The name of the data set. */
  dataset: z.string(),
  /** The version of the data set. */
  datasetHash: z.string(),
  /** The scorers of every case. */
  scorers: z.array(JsonObject),
  /** Attempts at each case. */
  repeats: Positive,
  /** How tools answer. */
  tools: EvalTools,
  /** When it was begun. */
  at: Timestamp,
  /** When its last attempt was scored; absent if it has not ended. */
  endedAt: Timestamp.optional(),
  /** The user that it belongs to; absent if a program began it. */
  owner: z.string().optional(),
  /** Cases of the data set. */
  cases: Count,
  /** Attempts that were scored. */
  attempts: Count,
  /** Attempts that passed. */
  passed: Count,
  /** Share of cases that pass, each with the mean of its attempts. */
  passRate: Estimate.optional(),
  /** Mean cost of a case, in millionths of a dollar. */
  costMicros: Estimate.optional(),
  /** Mean duration of a case. */
  durationMs: Estimate.optional(),
  /** Mean number of tokens of a case. */
  tokens: Estimate.optional(),
  /** Mean number of model calls of a case. */
  steps: Estimate.optional(),
  /** Mean score by scorer. */
  scores: record(Estimate).optional(),
});
export type EvalExperiment = z.infer<typeof EvalExperiment>;

/** A case of two experiments: fixed, broken or the same, by its attempts that pass. */
export const EvalChange = z.enum(["fixed", "broken", "same"]);
export type EvalChange = z.infer<typeof EvalChange>;

/** A case in two experiments. */
export const EvalPair = open({
  /** The case. */
  name: z.string(),
  /** Whether more attempts pass. */
  change: EvalChange,
  /** Its attempts in the old experiment. */
  old: z.array(EvalCase),
  /** Its attempts in the new one. */
  new: z.array(EvalCase),
});
export type EvalPair = z.infer<typeof EvalPair>;

/** Two experiments, case by case; differences are new less old. */
export const EvalComparison = open({
  /** The old experiment. */
  old: EvalExperiment,
  /** The new experiment. */
  new: EvalExperiment,
  /** What the cases of both say, in pairs. */
  comparison: VersionComparison,
  /** The cases of both: broken ones first, then fixed ones. */
  pairs: z.array(EvalPair),
  /** Cases of which more attempts pass. */
  fixed: Count,
  /** Cases of which fewer attempts pass. */
  broken: Count,
  /** Cases of the old experiment alone. */
  onlyOld: z.array(z.string()).optional(),
  /** Cases of the new experiment alone. */
  onlyNew: z.array(z.string()).optional(),
});
export type EvalComparison = z.infer<typeof EvalComparison>;

/** An experiment with its attempts, in the order of the cases. */
export const EvalResult = open({
  /** The experiment. */
  experiment: EvalExperiment,
  /** Its attempts that were scored. */
  cases: z.array(EvalCase),
});
export type EvalResult = z.infer<typeof EvalResult>;

/** Experiments, the newest first. */
export const EvalExperimentPage = open({
  /** The experiments. */
  experiments: z.array(EvalExperiment),
  /** Argument `after` of the next page; absent on the last one. */
  next: z.string().optional(),
});
export type EvalExperimentPage = z.infer<typeof EvalExperimentPage>;

/** A data set that the store keeps. */
export const EvalDataset = open({
  /** Its name. */
  name: z.string(),
  /** The version of its contents; a data set with equal cases and scorers has an equal one. */
  hash: z.string(),
  /** The number of its cases. */
  cases: Count,
  /** The scorers of every case. */
  scorers: z.array(JsonObject),
  /** When it was made. */
  at: Timestamp,
  /** When it was last changed. */
  changedAt: Timestamp,
  /** The user that it belongs to; absent if a program made it. */
  owner: z.string().optional(),
});
export type EvalDataset = z.infer<typeof EvalDataset>;

/** Data sets, by name. */
export const EvalDatasetPage = open({
  /** The data sets. */
  datasets: z.array(EvalDataset),
  /** Argument `after` of the next page; absent on the last one. */
  next: z.string().optional(),
});
export type EvalDatasetPage = z.infer<typeof EvalDatasetPage>;

/** A case of a data set: an input of an agent, and what is expected. */
export const EvalDatasetCase = open({
  /** Its name. */
  name: z.string(),
  /** The message, data that is sent as JSON, or an object with `conversation`: several messages. */
  inputs: Json,
  /** The expected answer; absent if there is none. */
  expected: Json.optional(),
  /** Its tags. */
  tags: z.array(z.string()).optional(),
  /** Further facts. */
  metadata: JsonObject.optional(),
  /** The recorded run that it was taken from. */
  runId: z.string().optional(),
  /** Scorers of this case alone. */
  scorers: z.array(JsonObject).optional(),
});
export type EvalDatasetCase = z.infer<typeof EvalDatasetCase>;

/** A data set with a page of its cases. */
export const EvalDatasetView = open({
  /** The data set. */
  dataset: EvalDataset,
  /** Cases, in their order. */
  cases: z.array(EvalDatasetCase),
  /** Argument `after` of the next page; absent on the last one. */
  next: z.string().optional(),
});
export type EvalDatasetView = z.infer<typeof EvalDatasetView>;
