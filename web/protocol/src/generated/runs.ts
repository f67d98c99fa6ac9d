// Generated from spec/runs.schema.json by `make gen`. Do not edit.
/** One turn of a session, from an input to its end. */
import { z } from "zod";
import { Json, JsonObject, open } from "../wire.js";
import { Count, Id, SourceRef, Timestamp, Usage } from "./common.js";
import { ErrorInfo } from "./errors.js";
import { OutputContract } from "./output.js";
import { BudgetLimits } from "./policy.js";
import { RunMode, SessionCapabilities, UserContent } from "./sessions.js";

/** Where a run is; the last four are final. */
export const RunStatus = z.enum(["pending", "running", "waiting", "cancelling", "completed", "failed", "cancelled", "budget_exhausted"]);
export type RunStatus = z.infer<typeof RunStatus>;

/** Asks for a run. */
export const RunRequest = z.strictObject({
  /** Identifier of the run, chosen by the caller: the same request again is the same run, another one under it is refused. */
  runId: Id,
  /** Agent that runs. */
  agentId: Id,
  /** What the user says. */
  input: UserContent,
  /** Session to go on with; a new one when absent. */
  sessionId: Id.optional(),
  /** Identifier of the turn. */
  turnId: Id.optional(),
  /** Where the request comes from. */
  source: SourceRef.optional(),
  /** The owner of the session; none when absent. A start that names another owner is refused. */
  owner: Id.optional(),
  /** Package to run under; when absent that of the agent, or the default one. */
  packageId: Id.optional(),
  /** What the run must return. */
  outputContract: OutputContract.optional(),
  /** conversation when absent. */
  mode: RunMode.optional(),
  /** What the channel of the request can do; everything when absent. */
  capabilities: SessionCapabilities.optional(),
  /** Most that the run may use. */
  budget: BudgetLimits.optional(),
  /** Whether its model calls are items of batches, whatever its package says; as the package says when absent. */
  batch: z.enum(["within 24h", "off"]).optional(),
  /** Texts added before the input. */
  context: z.array(z.string()).optional(),
  /** Free JSON of the caller. */
  metadata: JsonObject.optional(),
  /** Goal it pursues, to find the runs of one goal together. */
  goalId: z.string().optional(),
  /** The goal, for people; what the user says when absent. */
  goalDescription: z.string().optional(),
});
export type RunRequest = z.infer<typeof RunRequest>;

/** What came of a run. Sealed: it equals what the journal says. */
export const RunResult = open({
  /** The run. */
  runId: Id,
  /** How it ended. */
  status: RunStatus,
  /** The final text; empty when there is none. */
  output: z.string(),
  /** Its session. */
  sessionId: Id.optional(),
  /** The validated output, when the run had a contract. */
  structuredOutput: Json.optional(),
  /** Why it failed, or which budget it used up. */
  error: ErrorInfo.optional(),
  /** Why it was cancelled, as the caller gave it. */
  reason: z.string().optional(),
  /** What it used. */
  usage: Usage.optional(),
});
export type RunResult = z.infer<typeof RunResult>;

/** What a run waits for. */
export const RunWait = open({
  /** What for: input, recovery, subagent, provider, batch, timer or budget. */
  on: z.string(),
  /** When it began to wait. */
  since: Timestamp.optional(),
  /** When it stops waiting. */
  until: Timestamp.optional(),
  /** Why, for people. */
  reason: z.string().optional(),
});
export type RunWait = z.infer<typeof RunWait>;

/** The step of a run that a playground run repeats. */
export const PlaygroundOrigin = open({
  /** The run. */
  runId: Id,
  /** Its session. */
  sessionId: Id,
  /** The step, from 0. */
  stepIndex: Count,
  /** What is run again: this model call alone, or all that follows it. */
  size: z.enum(["call", "run"]),
  /** How calls are answered: from the record, or by the tools themselves. */
  calls: z.enum(["recorded", "real"]),
});
export type PlaygroundOrigin = z.infer<typeof PlaygroundOrigin>;

/** Where a run is now. */
export const RunSnapshot = open({
  /** The run. */
  runId: Id,
  /** Its agent. */
  agentId: Id,
  /** Where it is. */
  status: RunStatus,
  /** Its session. */
  sessionId: Id.optional(),
  /** Its turn. */
  turnId: Id.optional(),
  /** Where it came from. */
  source: SourceRef.optional(),
  /** Its package. */
  packageId: Id,
  /** Fingerprint it is pinned to. */
  packageFingerprint: z.string(),
  /** Provider adapter. */
  routeId: Id,
  /** Model. */
  modelId: Id,
  /** Whether a cancel was requested. */
  cancellationRequested: z.boolean(),
  /** What it waits for, while it waits. */
  waiting: RunWait.optional(),
  /** The step that it runs again, when it is a playground run. */
  playground: PlaygroundOrigin.optional(),
});
export type RunSnapshot = z.infer<typeof RunSnapshot>;

/** What a run waits for, in a filter; `person` is input or recovery. */
export const WaitCause = z.enum(["input", "recovery", "person", "subagent", "provider", "batch", "timer", "budget"]);
export type WaitCause = z.infer<typeof WaitCause>;

/** What runs are sorted by. */
export const RunSort = z.enum(["started", "duration", "cost"]);
export type RunSort = z.infer<typeof RunSort>;

/** What sessions are sorted by. */
export const SessionSort = z.enum(["created", "updated", "cost"]);
export type SessionSort = z.infer<typeof SessionSort>;
