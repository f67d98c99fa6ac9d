// Generated from spec/event-data.schema.json by `make gen`. Do not edit.
/** What each event type carries in `data`. All of it is open: unknown fields pass through. */
import { z } from "zod";
import { Json, JsonObject, open, text } from "../wire.js";
import {
  ContentRef,
  Count,
  Id,
  Price,
  PromptCache,
  Reservation,
  Sha256,
  SourceRef,
  Timestamp,
  TraceContext,
  Usage,
} from "./common.js";
import { Decision, DecisionEvaluation, Outcome, Problem, Proposal, ProposalCheck } from "./decisions.js";
import { ErrorInfo } from "./errors.js";
import {
  InputOutcome,
  InputRequest,
  InputResolution,
  RuntimeActionRequest,
  RuntimeActionResult,
} from "./input.js";
import { OutputContract, OutputError } from "./output.js";
import { ResolverPart, ResolverScope } from "./packages.js";
import { BudgetLimits, BudgetName, BudgetUsage, PolicyDecision, PolicyStage } from "./policy.js";
import { PlaygroundOrigin, RunStatus } from "./runs.js";
import {
  AssistantPart,
  CompactionConfig,
  ModelMessage,
  RunMode,
  SessionAgent,
  SessionCapabilities,
  UserPart,
} from "./sessions.js";
import { EffectClass, Taint, ToolMode } from "./tools.js";

/** Why the model stopped. */
export const FinishReason = z.enum(["stop", "length", "content-filter", "tool-calls", "error", "other"]);
export type FinishReason = z.infer<typeof FinishReason>;

/** What came of an action. */
export const ActionStatus = z.enum(["completed", "failed", "rejected"]);
export type ActionStatus = z.infer<typeof ActionStatus>;

/** Why an action failed. */
export const ActionError = open({
  /** Stable code. */
  code: z.string(),
  /** What went wrong. */
  message: z.string(),
  /** Class of the error. */
  name: z.string().optional(),
});
export type ActionError = z.infer<typeof ActionError>;

/** Who started a delegated session. */
export const Invocation = open({
  /** How it was started. */
  kind: z.literal("subagent"),
  /** Call in the parent. */
  parentCallId: Id,
  /** Parent session. */
  parentSessionId: Id,
  /** Parent turn. */
  parentTurnId: Id,
  /** Name of the subagent. */
  name: z.string(),
});
export type Invocation = z.infer<typeof Invocation>;

/** The session and the agent whose sandbox a run shares. */
export const SandboxOwner = open({
  /** The session. */
  sessionId: Id,
  /** The agent that declares the sandbox. */
  agentId: Id,
});
export type SandboxOwner = z.infer<typeof SandboxOwner>;

/** The call that a delegated run works for. */
export const ParentRun = open({
  /** Session of the run that called. */
  sessionId: Id,
  /** Run that called. */
  runId: Id,
  /** Its call. */
  callId: Id,
  /** Session at the top of the tree. */
  rootSessionId: Id,
  /** Levels below the root, from 1. */
  depth: Count,
  /** Agents above, the root's first. */
  agents: z.array(Id).optional(),
  /** Sandbox of a caller that the run shares; it has its own, or none, when left out. */
  sandbox: SandboxOwner.optional(),
});
export type ParentRun = z.infer<typeof ParentRun>;

/** Which agent and build serve the session. */
export const RuntimeIdentity = open({
  /** The agent. */
  agentId: Id,
  /** Its name. */
  agentName: z.string().optional(),
  /** Its model. */
  modelId: z.string().optional(),
  /** Version of the runtime. */
  version: z.string().optional(),
  /** Build of the product. */
  build: z.string().optional(),
  /** Fingerprint of the package. */
  packageFingerprint: z.string().optional(),
});
export type RuntimeIdentity = z.infer<typeof RuntimeIdentity>;

/** How a person can authorise. */
export const AuthorizationChallenge = open({
  /** Address to open. */
  url: z.string().optional(),
  /** Code to type. */
  userCode: z.string().optional(),
  /** When it lapses. */
  expiresAt: Timestamp.optional(),
  /** What to do. */
  instructions: z.string().optional(),
  /** Name to show. */
  displayName: z.string().optional(),
});
export type AuthorizationChallenge = z.infer<typeof AuthorizationChallenge>;

/** How a hook ended. */
export const HookStatus = z.enum(["completed", "failed", "timed_out", "rejected"]);
export type HookStatus = z.infer<typeof HookStatus>;

/** What to do with an interrupted effect. */
export const RecoveryChoice = z.enum(["retry", "skip", "supply", "undo"]);
export type RecoveryChoice = z.infer<typeof RecoveryChoice>;

/** The session began. */
export const SessionStartedData = open({
  /** Who started it, when it was delegated. */
  invocation: Invocation.optional(),
  /** Which agent and build serve it. */
  runtime: RuntimeIdentity.optional(),
  /** Session it goes on from, when it was forked or moved. */
  predecessor: Id.optional(),
  /** Trace it belongs to. */
  trace: TraceContext.optional(),
  /** Top session of the dispatch chain. */
  rootSessionId: Id.optional(),
  /** What the session that delegated it had read. */
  taint: z.array(Taint).optional(),
  /** The agent as plain data. */
  agent: SessionAgent.optional(),
  /** When to compact. */
  compaction: CompactionConfig.optional(),
  /** JSON Schema that the final output must meet. */
  outputSchema: JsonObject.optional(),
});
export type SessionStartedData = z.infer<typeof SessionStartedData>;

/** The session waits for a person or a subagent. */
export const SessionWaitingData = open({
  /** What for: next-user-message, input, recovery, subagent or timer. */
  wait: z.string(),
  /** Capability to continue; only for the owner. */
  continuationToken: z.string().optional(),
  /** When it stops waiting. */
  until: Timestamp.optional(),
  /** What it used. */
  usage: Usage.optional(),
});
export type SessionWaitingData = z.infer<typeof SessionWaitingData>;

/** The task of the session is done; a new message starts another run. */
export const SessionCompletedData = open({
  /** The final output. */
  output: Json.optional(),
  /** What it used. */
  usage: Usage.optional(),
});
export type SessionCompletedData = z.infer<typeof SessionCompletedData>;

/** The task of the session failed, was cancelled or exhausted its budget; a new message starts another run. */
export const SessionFailedData = open({
  /** Stable code of the failure. */
  code: z.string(),
  /** What went wrong and what to do next. */
  message: z.string(),
  /** Further facts, already redacted. */
  details: JsonObject.optional(),
  /** The session. */
  sessionId: Id.optional(),
  /** What it used. */
  usage: Usage.optional(),
});
export type SessionFailedData = z.infer<typeof SessionFailedData>;

/** Authored durable state changed. */
export const SessionStateChangedData = open({
  /** Keys with their new values. */
  set: JsonObject.optional(),
  /** Keys that are gone. */
  removed: z.array(z.string()).optional(),
});
export type SessionStateChangedData = z.infer<typeof SessionStateChangedData>;

/** A person judged a run, one of its steps or an answer. */
export const FeedbackGivenData = open({
  /** The run that is judged. */
  runId: Id,
  /** Good or bad. */
  thumb: z.enum(["up", "down"]).optional(),
  /** From 0, the worst, to 1, the best. */
  score: z.number().min(0).max(1).optional(),
  /** Why, in words. */
  note: text({ min: 1, max: 4000 }).optional(),
  /** Short words to find the run by. */
  tags: z.array(text({ min: 1, max: 64 })).max(16).optional(),
  /** The step that is meant, from 0; the whole run when absent. */
  stepIndex: Count.optional(),
  /** The answer that is meant. */
  messageId: Id.optional(),
  /** Who judged. */
  by: z.string().optional(),
});
export type FeedbackGivenData = z.infer<typeof FeedbackGivenData>;

/** An event was sent to a run, which keeps it until its workflow waits for it. */
export const RunEventReceivedData = open({
  /** The run that it was sent to. */
  runId: Id,
  /** What the workflow waits for. */
  name: Id,
  /** What came with it. */
  data: Json.optional(),
  /** Events with the same key are one event. */
  key: Id.optional(),
  /** Who sent it. */
  by: z.string().optional(),
});
export type RunEventReceivedData = z.infer<typeof RunEventReceivedData>;

/** The session moved to another package. */
export const SessionMovedData = open({
  /** Package it left. */
  fromFingerprint: z.string(),
  /** Package it runs under now. */
  toFingerprint: z.string(),
  /** Why. */
  reason: z.string().optional(),
  /** The agent from now on, as plain data. */
  agent: SessionAgent.optional(),
});
export type SessionMovedData = z.infer<typeof SessionMovedData>;

/** The session goes on from here by itself; all before is copied from another one. */
export const SessionForkedData = open({
  /** Session it was copied from. */
  predecessor: Id,
  /** Number of the last record that was copied. */
  predecessorSeq: Count,
  /** The history it goes on with, when a playground changed it; without it, that of the copied records. */
  messages: z.array(ModelMessage).optional(),
});
export type SessionForkedData = z.infer<typeof SessionForkedData>;

/** The history the model sees was emptied; the journal keeps it. */
export const ContextClearedData = open({
  /** Number of the turn in its session, from 0. */
  sequence: Count.optional(),
  /** The turn. */
  turnId: Id.optional(),
});
export type ContextClearedData = z.infer<typeof ContextClearedData>;

/** A run began. */
export const RunStartedData = open({
  /** The run. */
  runId: Id,
  /** Its agent. */
  agentId: Id,
  /** Package it is pinned to. */
  packageFingerprint: z.string().optional(),
  /** Its package. */
  packageId: Id.optional(),
  /** Provider adapter. */
  routeId: Id.optional(),
  /** Model it starts with. */
  modelId: Id.optional(),
  /** Where the request came from. */
  source: SourceRef.optional(),
  /** Whom its session belongs to. */
  owner: Id.optional(),
  /** How it ends. */
  mode: RunMode.optional(),
  /** What the channel of the request can do. */
  capabilities: SessionCapabilities.optional(),
  /** Most that it may use. */
  budget: BudgetLimits.optional(),
  /** Whether its model calls are items of batches, if its start said so. */
  batch: z.enum(["within 24h", "off"]).optional(),
  /** Whether its start said what it must return, whatever its agent says. */
  hasOwnOutput: z.boolean().optional(),
  /** Goal it pursues. */
  goalId: z.string().optional(),
  /** The goal, for people. */
  goalDescription: z.string().optional(),
  /** What it was given. */
  inputData: JsonObject.optional(),
  /** Free JSON of the caller. */
  metadata: JsonObject.optional(),
  /** Failed run of the session that it continues, without a message. */
  retryOf: Id.optional(),
  /** The calls that the run reverses, newest first, and the run that made them. */
  undo: JsonObject.optional(),
  /** The one call that the run makes, without a model: its tool and its input. */
  job: JsonObject.optional(),
  /** The step that it runs again, when it is a playground run. */
  playground: PlaygroundOrigin.optional(),
  /** Call that it works for, when it is a subagent's. */
  parent: ParentRun.optional(),
});
export type RunStartedData = z.infer<typeof RunStartedData>;

/** A run goes on after a wait or a crash. */
export const RunResumedData = open({
  /** The run. */
  runId: Id,
  /** Why: input, recovery, timer, subagent, batch or takeover. */
  reason: z.string(),
  /** Ownership number of the session. */
  epoch: Count.optional(),
});
export type RunResumedData = z.infer<typeof RunResumedData>;

/** A run waits; it costs a row and nothing else. */
export const RunWaitingData = open({
  /** The run. */
  runId: Id,
  /** What for: input, recovery, subagent, provider, batch, timer or budget. */
  on: z.string(),
  /** Requests it waits for. */
  requestIds: z.array(Id).optional(),
  /** When it stops waiting. */
  until: Timestamp.optional(),
  /** Usage of the run so far, with that of its subagents that have ended. */
  usage: Usage.optional(),
  /** Why, for people. */
  reason: z.string().optional(),
});
export type RunWaitingData = z.infer<typeof RunWaitingData>;

/** A cancel of the run was requested. */
export const RunCancelRequestedData = open({
  /** The run. */
  runId: Id,
  /** Who asked. */
  by: z.string().optional(),
  /** Why. */
  reason: z.string().optional(),
});
export type RunCancelRequestedData = z.infer<typeof RunCancelRequestedData>;

/** The run reached its end. */
export const RunCompletedData = open({
  /** The run. */
  runId: Id,
  /** The final text. */
  output: z.string().optional(),
  /** The validated output. */
  structuredOutput: Json.optional(),
  /** What happened, for people. */
  narrative: z.string().optional(),
  /** What it returned. */
  outputData: JsonObject.optional(),
  /** What it used. */
  usage: Usage.optional(),
});
export type RunCompletedData = z.infer<typeof RunCompletedData>;

/** The run failed. */
export const RunFailedData = open({
  /** The run. */
  runId: Id,
  /** Why. */
  error: ErrorInfo,
  /** What happened, for people. */
  narrative: z.string().optional(),
  /** What it returned. */
  outputData: JsonObject.optional(),
  /** What it would have begun with, when it could not begin. */
  unstarted: RunStartedData.optional(),
  /** What it used. */
  usage: Usage.optional(),
});
export type RunFailedData = z.infer<typeof RunFailedData>;

/** The run was cancelled. */
export const RunCancelledData = open({
  /** The run. */
  runId: Id,
  /** Why. */
  reason: z.string().optional(),
  /** What it would have begun with, when it was cancelled before its turn came. */
  unstarted: RunStartedData.optional(),
  /** What is not known, when calls were under way. */
  error: ErrorInfo.optional(),
  /** What it used. */
  usage: Usage.optional(),
});
export type RunCancelledData = z.infer<typeof RunCancelledData>;

/** The run used up its budget. */
export const RunBudgetExhaustedData = open({
  /** The run. */
  runId: Id,
  /** Which limits. */
  exceeded: z.array(BudgetName),
  /** What was used. */
  used: BudgetUsage,
  /** What was allowed. */
  limits: BudgetLimits,
  /** Which budgets, how much was allowed and how much was used, as an error. */
  error: ErrorInfo.optional(),
  /** What it used. */
  usage: Usage.optional(),
});
export type RunBudgetExhaustedData = z.infer<typeof RunBudgetExhaustedData>;

/** A turn began. */
export const TurnStartedData = open({
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** The turn. */
  turnId: Id,
  /** Trace it belongs to. */
  trace: TraceContext.optional(),
});
export type TurnStartedData = z.infer<typeof TurnStartedData>;

/** The turn waits and stays the same turn. */
export const TurnWaitingData = open({
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** The turn. */
  turnId: Id,
  /** What for: input, tasks, recovery, provider or timer. */
  on: z.string(),
  /** What it used. */
  usage: Usage.optional(),
});
export type TurnWaitingData = z.infer<typeof TurnWaitingData>;

/** The turn is finished. */
export const TurnCompletedData = open({
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** The turn. */
  turnId: Id,
  /** What it used. */
  usage: Usage.optional(),
});
export type TurnCompletedData = z.infer<typeof TurnCompletedData>;

/** The turn failed. */
export const TurnFailedData = open({
  /** Stable code of the failure. */
  code: z.string(),
  /** What went wrong and what to do next. */
  message: z.string(),
  /** Further facts, already redacted. */
  details: JsonObject.optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** The turn. */
  turnId: Id,
  /** Whether the session cannot go on. */
  terminal: z.boolean().optional(),
  /** What it used. */
  usage: Usage.optional(),
});
export type TurnFailedData = z.infer<typeof TurnFailedData>;

/** The turn was cancelled. */
export const TurnCancelledData = open({
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** The turn. */
  turnId: Id,
  /** Why. */
  reason: z.string().optional(),
  /** What it used. */
  usage: Usage.optional(),
});
export type TurnCancelledData = z.infer<typeof TurnCancelledData>;

/** A message to the session was received. */
export const MessageReceivedData = open({
  /** The text. */
  message: z.string(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** The turn. */
  turnId: Id,
  /** The parts, when there is more than text. */
  parts: z.array(UserPart).optional(),
  /** Texts added before it. */
  context: z.array(z.string()).optional(),
  /** Identifier of the message. */
  messageId: Id.optional(),
  /** How it arrived: turn, steer or queue; correction if no person said it and an answer goes back to the model; job if it is about a job that has ended. */
  delivery: z.string().optional(),
  /** The job that it brings the result of. */
  job: Id.optional(),
  /** Who said it. */
  sender: z.string().optional(),
});
export type MessageReceivedData = z.infer<typeof MessageReceivedData>;

/** A piece of the answer; live only, never stored. */
export const MessageAppendedData = open({
  /** The piece. */
  messageDelta: z.string(),
  /** The text so far, for a reader that joins late. */
  messageSoFar: z.string().optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type MessageAppendedData = z.infer<typeof MessageAppendedData>;

/** The model's words of a step. */
export const MessageCompletedData = open({
  /** The text; null when there is none to show. */
  message: z.string().nullable(),
  /** Why the model stopped. */
  finishReason: FinishReason,
  /** Identifier of the message. */
  messageId: Id.optional(),
  /** The parts, when there is more than text. */
  parts: z.array(AssistantPart).optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type MessageCompletedData = z.infer<typeof MessageCompletedData>;

/** A piece of the model's reasoning; live only, never stored. */
export const ReasoningAppendedData = open({
  /** The piece. */
  reasoningDelta: z.string(),
  /** The text so far, for a reader that joins late. */
  reasoningSoFar: z.string().optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type ReasoningAppendedData = z.infer<typeof ReasoningAppendedData>;

/** The model's reasoning of a step. */
export const ReasoningCompletedData = open({
  /** The text. */
  reasoning: z.string(),
  /** Whether it began after text of the message had been shown; left out if not. */
  isLate: z.boolean().optional(),
  /** What the provider wants back, such as a signature. */
  providerMetadata: JsonObject.optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type ReasoningCompletedData = z.infer<typeof ReasoningCompletedData>;

/** A step began: one model call and its tool calls. */
export const StepStartedData = open({
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
  /** Model that is called. */
  modelId: z.string().optional(),
  /** Messages of the history in the prompt; instructions apart. */
  promptMessageCount: Count.optional(),
  /** What is set aside for the call in a run with a limit in money. */
  reserved: Reservation.optional(),
});
export type StepStartedData = z.infer<typeof StepStartedData>;

/** A model call waits for the limit of its provider; live only, never stored. */
export const StepQueuedData = open({
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
  /** Route of the provider, such as openai. */
  provider: z.string(),
  /** Limit that the call waits for. */
  reason: z.string(),
});
export type StepQueuedData = z.infer<typeof StepQueuedData>;

/** A model call failed and will be tried again. */
export const StepRetryingData = open({
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
  /** Stable code of the failure. */
  code: z.string(),
  /** Attempt that failed, from 1. */
  attempt: Count,
  /** Wait before the next one. */
  delayMs: Count,
  /** Whether other runs were at work when the process ended; absent means no. */
  shared: z.boolean().optional(),
  /** Model that is called next, if it is another one. */
  nextModelId: z.string().optional(),
  /** What went wrong. */
  message: z.string().optional(),
  /** What it used, when known. */
  usage: Usage.optional(),
  /** How the cost was found, or why there is none. */
  price: Price.optional(),
});
export type StepRetryingData = z.infer<typeof StepRetryingData>;

/** A step is finished. */
export const StepCompletedData = open({
  /** Why the model stopped. */
  finishReason: FinishReason,
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
  /** What it used. */
  usage: Usage.optional(),
  /** How the cost was found, or why there is none. */
  price: Price.optional(),
  /** Cost in US dollars, when known. */
  costUsd: z.number().min(0).optional(),
  /** What the provider added. */
  providerMetadata: JsonObject.optional(),
  /** How long the model took. */
  latencyMs: Count.optional(),
  /** How long the call waited for the limit of its provider, if it did. */
  queuedMs: Count.optional(),
  /** The prompt as the provider may cache it, if it reports a cache. */
  cache: PromptCache.optional(),
});
export type StepCompletedData = z.infer<typeof StepCompletedData>;

/** A step failed. */
export const StepFailedData = open({
  /** Stable code of the failure. */
  code: z.string(),
  /** What went wrong and what to do next. */
  message: z.string(),
  /** Further facts, already redacted. */
  details: JsonObject.optional(),
  /** What it used, when known. */
  usage: Usage.optional(),
  /** How the cost was found, or why there is none. */
  price: Price.optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type StepFailedData = z.infer<typeof StepFailedData>;

/** The model asked for actions, or a program did. */
export const ActionsRequestedData = open({
  /** The actions, in the order in which they were asked for. */
  actions: z.array(RuntimeActionRequest),
  /** Call of the program that asked for them; left out if the model did. */
  parentCallId: Id.optional(),
  /** How to show them. */
  presentation: JsonObject.optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type ActionsRequestedData = z.infer<typeof ActionsRequestedData>;

/** An action is about to happen. Written before it does. */
export const ActionStartedData = open({
  /** The call. */
  callId: Id,
  /** Name of the tool. */
  toolName: z.string(),
  /** What happens to it after a crash. */
  effect: EffectClass,
  /** Key the tool is given. */
  idempotencyKey: Id,
  /** Digest of the exact arguments. */
  argumentsHash: Sha256.optional(),
  /** What the tool may do. */
  mode: ToolMode.optional(),
  /** The arguments, when a policy or hook changed them. */
  arguments: Json.optional(),
  /** The tool that can reverse the call. */
  undo: z.string().optional(),
  /** Name and version of the interpreter, when the action is a program. */
  interpreter: z.string().optional(),
  /** Call of the program that asked for it; left out if the model did. */
  parentCallId: Id.optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type ActionStartedData = z.infer<typeof ActionStartedData>;

/** A program waits for its calls, or a tool for the answers to its questions. */
export const ProgramPausedData = open({
  /** The call of the program. */
  callId: Id,
  /** Number of results that the program has taken, in the order of their records. */
  taken: Count,
  /** Name and version of the interpreter. */
  interpreter: z.string().optional(),
  /** State of the program. Without it the program is run again from its source. */
  snapshot: ContentRef.optional(),
  /** Text that the program has printed since the last pause. */
  printed: z.string().optional(),
  /** Call of the program that made the call; absent if the model made it. */
  parentCallId: Id.optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type ProgramPausedData = z.infer<typeof ProgramPausedData>;

/** A program ended while calls of it are open, or with variables that are kept; its result follows. */
export const ProgramEndedData = open({
  /** The call of the program. */
  callId: Id,
  /** Number of results that the program has taken, in the order of their records. */
  taken: Count,
  /** How it ended. */
  status: ActionStatus,
  /** The result of the call of the program. */
  output: Json,
  /** Why it failed. */
  error: ActionError.optional(),
  /** The whole output, if `output` is a part of it. */
  contentRef: ContentRef.optional(),
  /** Name and version of the interpreter that wrote the variables. */
  interpreter: z.string().optional(),
  /** The variables that the next programs of the session begin with. */
  variables: ContentRef.optional(),
  /** The names of these variables. */
  names: z.array(z.string()).optional(),
  /** Call of the program that made the call; absent if the model made it. */
  parentCallId: Id.optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type ProgramEndedData = z.infer<typeof ProgramEndedData>;

/** A piece of a call's arguments; live only, never stored. */
export const ActionInputAppendedData = open({
  /** The call. */
  callId: Id,
  /** The piece of JSON text. */
  inputDelta: z.string(),
  /** The input so far, for a reader that joins late. */
  inputSoFar: z.string().optional(),
  /** Name of the tool. */
  toolName: z.string().optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type ActionInputAppendedData = z.infer<typeof ActionInputAppendedData>;

/** Progress of a running action; live only, never stored. */
export const ActionPartialData = open({
  /** The call. */
  callId: Id,
  /** What there is so far. */
  output: Json,
  /** Name of the tool. */
  toolName: z.string().optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type ActionPartialData = z.infer<typeof ActionPartialData>;

/** What came of an action. */
export const ActionResultData = open({
  /** The result. */
  result: RuntimeActionResult,
  /** What came of it. */
  status: ActionStatus,
  /** Why it failed. */
  error: ActionError.optional(),
  /** How to show it. */
  presentation: JsonObject.optional(),
  /** The whole output, when it was cut. */
  contentRef: ContentRef.optional(),
  /** What the result brings into the session. */
  taint: z.array(Taint).optional(),
  /** How long it took. */
  durationMs: Count.optional(),
  /** Lines that the tool logged. */
  log: z.array(z.string()).optional(),
  /** Call of the program that asked for it; left out if the model did. */
  parentCallId: Id.optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type ActionResultData = z.infer<typeof ActionResultData>;

/** People are asked. */
export const InputRequestedData = open({
  /** The requests. */
  requests: z.array(InputRequest),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
  /** Call of the subagent that asks. */
  callId: Id.optional(),
  /** Task that asks. */
  taskId: Id.optional(),
  /** Session that asks, when it is a subagent's. */
  childSessionId: Id.optional(),
});
export type InputRequestedData = z.infer<typeof InputRequestedData>;

/** Requests to people were settled. */
export const InputResolvedData = open({
  /** What came of each. */
  resolutions: z.array(InputResolution),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
  /** Call of the subagent that asked. */
  callId: Id.optional(),
  /** Session that asked, when it is a subagent's. */
  childSessionId: Id.optional(),
});
export type InputResolvedData = z.infer<typeof InputResolvedData>;

/** A request was answered, but the answer does not count: another was first, or it was refused. */
export const ApprovalCandidateData = open({
  /** The request. */
  requestId: Id,
  /** Who answered. */
  responder: z.string().optional(),
  /** The option picked. */
  optionId: Id.optional(),
  /** The text given. */
  text: z.string().optional(),
  /** Arguments that the person approved instead of those of the request. */
  arguments: JsonObject.optional(),
  /** The answer; it differs from the answer that settled the request. */
  answerId: Id.optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count.optional(),
  /** Number of the step in its turn, from 0. */
  stepIndex: Count.optional(),
  /** The turn. */
  turnId: Id.optional(),
});
export type ApprovalCandidateData = z.infer<typeof ApprovalCandidateData>;

/** A request was dispatched to people, and is not dispatched again. */
export const ApprovalDispatchedData = open({
  /** The request. */
  requestId: Id,
  /** Number of the turn in its session, from 0. */
  sequence: Count.optional(),
  /** Number of the step in its turn, from 0. */
  stepIndex: Count.optional(),
  /** The turn. */
  turnId: Id.optional(),
});
export type ApprovalDispatchedData = z.infer<typeof ApprovalDispatchedData>;

/** An approval is decided. */
export const ApprovalSettledData = open({
  /** The request. */
  requestId: Id,
  /** What came of it. */
  outcome: InputOutcome,
  /** Who answered. */
  responder: z.string().optional(),
  /** Why. */
  reason: z.string().optional(),
  /** How far it reaches: once, session or rule. */
  grant: z.string().optional(),
  /** Arguments that the person approved instead of those that were asked for. */
  arguments: JsonObject.optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count.optional(),
  /** Number of the step in its turn, from 0. */
  stepIndex: Count.optional(),
  /** The turn. */
  turnId: Id.optional(),
});
export type ApprovalSettledData = z.infer<typeof ApprovalSettledData>;

/** A connection needs the authorisation of a person. */
export const AuthorizationRequiredData = open({
  /** The connection. */
  name: z.string(),
  /** What it is for. */
  description: z.string(),
  /** How to authorise. */
  authorization: AuthorizationChallenge.optional(),
  /** Where the answer arrives. */
  webhookUrl: z.string().optional(),
  /** The attempt. */
  attemptId: Id.optional(),
  /** Who must authorise. */
  principalId: z.string().optional(),
  /** Task that waits. */
  taskId: Id.optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type AuthorizationRequiredData = z.infer<typeof AuthorizationRequiredData>;

/** An authorisation was settled. */
export const AuthorizationCompletedData = open({
  /** The connection. */
  name: z.string(),
  /** What came of it. */
  outcome: z.enum(["authorized", "declined", "failed", "timed-out"]),
  /** Why. */
  reason: z.string().optional(),
  /** How it was authorised. */
  authorization: AuthorizationChallenge.optional(),
  /** The attempt. */
  attemptId: Id.optional(),
  /** Who authorised. */
  principalId: z.string().optional(),
  /** Task that waited. */
  taskId: Id.optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type AuthorizationCompletedData = z.infer<typeof AuthorizationCompletedData>;

/** The structured result of the turn. */
export const ResultCompletedData = open({
  /** The result. */
  result: Json,
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count,
  /** The turn. */
  turnId: Id,
});
export type ResultCompletedData = z.infer<typeof ResultCompletedData>;

/** The run must return a typed output. */
export const OutputRequestedData = open({
  /** What it must meet. */
  contract: OutputContract,
  /** The run. */
  runId: Id.optional(),
});
export type OutputRequestedData = z.infer<typeof OutputRequestedData>;

/** An answer does not meet its contract; the model may correct it. */
export const OutputRejectedData = open({
  /** The schema. */
  schemaId: Id,
  /** Attempt, from 1. */
  attempt: Count,
  /** Where it misses. */
  errors: z.array(OutputError),
  /** The run. */
  runId: Id.optional(),
});
export type OutputRejectedData = z.infer<typeof OutputRejectedData>;

/** An answer meets its contract. */
export const OutputValidatedData = open({
  /** The schema. */
  schemaId: Id,
  /** Attempt, from 1. */
  attempt: Count,
  /** Digest of the canonical value. */
  hash: Sha256.optional(),
  /** The run. */
  runId: Id.optional(),
});
export type OutputValidatedData = z.infer<typeof OutputValidatedData>;

/** No answer met the contract. */
export const OutputFailedData = open({
  /** The schema. */
  schemaId: Id,
  /** Attempts made. */
  attempts: Count,
  /** Where the last one misses. */
  errors: z.array(OutputError),
  /** The run. */
  runId: Id.optional(),
});
export type OutputFailedData = z.infer<typeof OutputFailedData>;

/** The history is about to be compacted. */
export const CompactionRequestedData = open({
  /** Model that will summarise. */
  modelId: z.string(),
  /** Input tokens that made it necessary. */
  usageInputTokens: Count.nullable(),
  /** Why: threshold, overflow (the model refused the length) or asked. */
  reason: z.string().optional(),
  /** The session. */
  sessionId: Id.optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** The turn. */
  turnId: Id,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count.optional(),
});
export type CompactionRequestedData = z.infer<typeof CompactionRequestedData>;

/** The history was compacted; the journal keeps it whole. */
export const CompactionCompletedData = open({
  /** Model that summarised. */
  modelId: z.string(),
  /** The session. */
  sessionId: Id.optional(),
  /** The one summary of everything before. */
  summary: z.string().optional(),
  /** Index in the history of the first message kept as it is. */
  keptFrom: Count.optional(),
  /** Calls with shortened results. */
  trimmedCallIds: z.array(Id).optional(),
  /** Most characters that a shortened result keeps. */
  resultCharsMax: Count.optional(),
  /** Messages put after the summary, such as the last real user message or a todo list. */
  pinned: z.array(ModelMessage).optional(),
  /** Estimated input before. */
  inputTokensBefore: Count.optional(),
  /** Estimated input after. */
  inputTokensAfter: Count.optional(),
  /** What the summary used. */
  usage: Usage.optional(),
  /** How the cost was found, or why there is none. */
  price: Price.optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** The turn. */
  turnId: Id,
  /** Number of the step in its turn, from 0. */
  stepIndex: Count.optional(),
});
export type CompactionCompletedData = z.infer<typeof CompactionCompletedData>;

/** The history could not be compacted. */
export const CompactionFailedData = open({
  /** Stable code of the failure. */
  code: z.string(),
  /** What went wrong and what to do next. */
  message: z.string(),
  /** Further facts, already redacted. */
  details: JsonObject.optional(),
  /** Whether other runs were at work when the process ended; absent means no. */
  shared: z.boolean().optional(),
  /** Wait before the next attempt; absent if there is none. */
  delayMs: Count.optional(),
  /** Model that was asked for a summary. */
  modelId: z.string().optional(),
  /** What the attempt used. */
  usage: Usage.optional(),
  /** How the cost was found, or why there is none. */
  price: Price.optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count.optional(),
  /** The turn. */
  turnId: Id.optional(),
  /** Number of the step in its turn, from 0. */
  stepIndex: Count.optional(),
});
export type CompactionFailedData = z.infer<typeof CompactionFailedData>;

/** A subagent was given work. */
export const SubagentCalledData = open({
  /** The call. */
  callId: Id,
  /** Session of the subagent. */
  childSessionId: Id,
  /** Session that called. */
  sessionId: Id,
  /** Name of the subagent. */
  name: z.string(),
  /** Tool that stands for it. */
  toolName: z.string(),
  /** Where it runs, when elsewhere. */
  remote: JsonObject.optional(),
  /** Workflow that drives it. */
  workflowId: z.string().optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count,
  /** The turn. */
  turnId: Id,
  /** Run of the subagent. */
  childRunId: Id.optional(),
  /** Levels below the root, from 1. */
  depth: Count.optional(),
  /** Limits of the subagent, as its share of those of the run. */
  lent: BudgetLimits.optional(),
  /** Name of the job, when the call does not wait for it. */
  job: Id.optional(),
});
export type SubagentCalledData = z.infer<typeof SubagentCalledData>;

/** A subagent began. */
export const SubagentStartedData = open({
  /** The call. */
  callId: Id,
  /** Name of the subagent. */
  subagentName: z.string(),
  /** Session of the subagent. */
  childSessionId: Id.optional(),
});
export type SubagentStartedData = z.infer<typeof SubagentStartedData>;

/** An event of a subagent, shown in its parent. */
export const SubagentEventData = open({
  /** The call. */
  callId: Id,
  /** Name of the subagent. */
  subagentName: z.string(),
  /** The event. */
  event: JsonObject,
});
export type SubagentEventData = z.infer<typeof SubagentEventData>;

/** A subagent is finished. */
export const SubagentCompletedData = open({
  /** The call. */
  callId: Id,
  /** Name of the subagent. */
  subagentName: z.string(),
  /** What it returned. */
  output: z.string(),
  /** Whether it failed. */
  isError: z.boolean().optional(),
  /** What it used. */
  usage: Usage.optional(),
  /** Session of the subagent. */
  childSessionId: Id.optional(),
  /** Run of the subagent. */
  childRunId: Id.optional(),
  /** How its run ended. */
  status: RunStatus.optional(),
  /** Whether the output is JSON. */
  isStructured: z.boolean().optional(),
  /** Why it failed. */
  error: ActionError.optional(),
  /** What it has read, and what it was given. */
  taint: z.array(Taint).optional(),
  /** Model calls it made, those of its own subagents included. */
  steps: Count.optional(),
  /** Tool calls it made, those of its own subagents included. */
  toolCalls: Count.optional(),
  /** Reservations of its calls that count because their cost is not known. */
  settledMicros: Count.optional(),
});
export type SubagentCompletedData = z.infer<typeof SubagentCompletedData>;

/** A delegated task began. */
export const TaskStartedData = open({
  /** The task. */
  taskId: Id,
  /** The call. */
  callId: Id.optional(),
  /** Session of the task. */
  childSessionId: Id.optional(),
  /** Name of the subagent. */
  name: z.string().optional(),
});
export type TaskStartedData = z.infer<typeof TaskStartedData>;

/** A delegated task is finished. */
export const TaskSettledData = open({
  /** The task. */
  taskId: Id,
  /** How it ended. */
  status: z.enum(["completed", "failed", "cancelled"]),
  /** The call. */
  callId: Id.optional(),
  /** What it returned. */
  output: Json.optional(),
  /** Why it failed. */
  error: ActionError.optional(),
});
export type TaskSettledData = z.infer<typeof TaskSettledData>;

/** A subagent's session was opened. */
export const AgentStartedData = open({
  /** Session of the subagent. */
  childSessionId: Id,
  /** Name of the subagent. */
  name: z.string(),
  /** The call. */
  callId: Id.optional(),
  /** The task. */
  taskId: Id.optional(),
});
export type AgentStartedData = z.infer<typeof AgentStartedData>;

/** A resolver of the agent gave what is used from now on. */
export const AgentResolvedData = open({
  /** Name of the resolver. */
  resolver: Id,
  /** What it gave. */
  part: ResolverPart,
  /** How long that holds. */
  scope: ResolverScope,
  /** All of it, as JSON. */
  contentRef: ContentRef,
  /** Tools or skills that it gave. */
  names: z.array(z.string()).optional(),
  /** Why it gave nothing, when the agent goes on without. */
  failure: z.string().optional(),
});
export type AgentResolvedData = z.infer<typeof AgentResolvedData>;

/** A policy decided. */
export const PolicyDecidedData = open({
  /** When it was asked. */
  stage: PolicyStage,
  /** What it said. */
  decision: PolicyDecision,
  /** The run. */
  runId: Id.optional(),
  /** The call. */
  callId: Id.optional(),
  /** Name of the tool. */
  toolName: z.string().optional(),
  /** Number of the turn in its session, from 0. */
  sequence: Count.optional(),
  /** Number of the step in its turn, from 0. */
  stepIndex: Count.optional(),
  /** The turn. */
  turnId: Id.optional(),
  /** Call of the program that asked for it; left out if the model did. */
  parentCallId: Id.optional(),
});
export type PolicyDecidedData = z.infer<typeof PolicyDecidedData>;

/** A spend was checked before it happens. */
export const BudgetReservedData = open({
  /** What was used so far. */
  used: BudgetUsage,
  /** What is allowed. */
  limits: BudgetLimits,
  /** The run. */
  runId: Id.optional(),
});
export type BudgetReservedData = z.infer<typeof BudgetReservedData>;

/** Something was spent. */
export const BudgetUpdatedData = open({
  /** What was used so far. */
  used: BudgetUsage,
  /** The run. */
  runId: Id.optional(),
});
export type BudgetUpdatedData = z.infer<typeof BudgetUpdatedData>;

/** A limit is near. */
export const BudgetWarnedData = open({
  /** Which limit. */
  name: BudgetName,
  /** What was used. */
  used: z.number(),
  /** What is allowed. */
  limit: z.number(),
  /** The run. */
  runId: Id.optional(),
});
export type BudgetWarnedData = z.infer<typeof BudgetWarnedData>;

/** A limit is reached; the next spend would exceed it. */
export const BudgetExhaustedData = open({
  /** Which limits. */
  exceeded: z.array(BudgetName),
  /** What was used. */
  used: BudgetUsage,
  /** What was allowed. */
  limits: BudgetLimits,
  /** The run. */
  runId: Id.optional(),
});
export type BudgetExhaustedData = z.infer<typeof BudgetExhaustedData>;

/** A hook was called. */
export const HookInvokedData = open({
  /** The hook. */
  hookId: Id,
  /** Where it runs. */
  point: Id,
  /** The run. */
  runId: Id.optional(),
  /** The call. */
  callId: Id.optional(),
});
export type HookInvokedData = z.infer<typeof HookInvokedData>;

/** A hook answered. */
export const HookCompletedData = open({
  /** The hook. */
  hookId: Id,
  /** Where it runs. */
  point: Id,
  /** How it ended. */
  status: HookStatus,
  /** Whether it changed something. */
  changed: z.boolean().optional(),
  /** Whether it vetoed. */
  vetoed: z.boolean().optional(),
  /** Why it vetoed. */
  reason: z.string().optional(),
  /** How long it took. */
  durationMs: Count.optional(),
  /** The call. */
  callId: Id.optional(),
  /** Why the hook ends the run. */
  stop: ErrorInfo.optional(),
  /** What it changed: arguments, prompt or context. */
  change: JsonObject.optional(),
});
export type HookCompletedData = z.infer<typeof HookCompletedData>;

/** A hook failed. */
export const HookFailedData = open({
  /** The hook. */
  hookId: Id,
  /** Where it runs. */
  point: Id,
  /** How it ended. */
  status: HookStatus,
  /** Why. */
  error: ActionError,
  /** What the failure means for the run, as the hook declares it. */
  failure: z.string().optional(),
  /** How long it took. */
  durationMs: Count.optional(),
  /** The call. */
  callId: Id.optional(),
  /** Why the hook ends the run. */
  stop: ErrorInfo.optional(),
});
export type HookFailedData = z.infer<typeof HookFailedData>;

/** The agent made a choice. */
export const DecisionRecordedData = open({
  /** The choice. */
  decision: Decision,
});
export type DecisionRecordedData = z.infer<typeof DecisionRecordedData>;

/** What came of a choice. */
export const DecisionOutcomeData = open({
  /** The choice. */
  decisionId: Id,
  /** What came of it. */
  outcome: Outcome,
});
export type DecisionOutcomeData = z.infer<typeof DecisionOutcomeData>;

/** A choice was judged. */
export const DecisionEvaluatedData = open({
  /** The choice. */
  decisionId: Id,
  /** The judgement. */
  evaluation: DecisionEvaluation,
});
export type DecisionEvaluatedData = z.infer<typeof DecisionEvaluatedData>;

/** Something went wrong. */
export const ProblemReportedData = open({
  /** The problem. */
  problem: Problem,
});
export type ProblemReportedData = z.infer<typeof ProblemReportedData>;

/** A change to an agent was proposed. */
export const ProposalMadeData = open({
  /** The change. */
  proposal: Proposal,
});
export type ProposalMadeData = z.infer<typeof ProposalMadeData>;

/** A proposal was tried on recorded runs. */
export const ProposalCheckedData = open({
  /** The proposal. */
  proposalId: Id,
  /** How it did. */
  check: ProposalCheck,
});
export type ProposalCheckedData = z.infer<typeof ProposalCheckedData>;

/** A person said yes or no to a proposal. */
export const ProposalSettledData = open({
  /** The proposal. */
  proposalId: Id,
  /** Whether it was a yes. */
  isAccepted: z.boolean(),
  /** Who said it. */
  by: z.string(),
  /** Why. */
  reason: z.string().optional(),
});
export type ProposalSettledData = z.infer<typeof ProposalSettledData>;

/** A proposal became an agent. */
export const ProposalAppliedData = open({
  /** The proposal. */
  proposalId: Id,
  /** Who did it. */
  by: z.string(),
  /** The version that was made. */
  fingerprint: z.string(),
});
export type ProposalAppliedData = z.infer<typeof ProposalAppliedData>;

/** Output is about to be delivered. Written before it is. */
export const DeliveryIntendedData = open({
  /** The delivery. */
  deliveryId: Id,
  /** Where it goes. */
  sinkId: Id,
  /** At most one delivery per key. */
  dedupeKey: Id,
  /** What is delivered. */
  kind: z.string(),
  /** The run. */
  runId: Id.optional(),
});
export type DeliveryIntendedData = z.infer<typeof DeliveryIntendedData>;

/** Output was delivered. */
export const DeliveryCompletedData = open({
  /** The delivery. */
  deliveryId: Id,
  /** Where it goes. */
  sinkId: Id,
  /** What the sink said. */
  receipt: JsonObject.optional(),
});
export type DeliveryCompletedData = z.infer<typeof DeliveryCompletedData>;

/** Output was not delivered. */
export const DeliveryFailedData = open({
  /** The delivery. */
  deliveryId: Id,
  /** Where it goes. */
  sinkId: Id,
  /** Why. */
  error: ErrorInfo,
});
export type DeliveryFailedData = z.infer<typeof DeliveryFailedData>;

/** Output had been delivered before. */
export const DeliveryDedupedData = open({
  /** The delivery. */
  deliveryId: Id,
  /** Where it goes. */
  sinkId: Id,
  /** Key of the earlier delivery. */
  dedupeKey: Id,
  /** The run. */
  runId: Id.optional(),
});
export type DeliveryDedupedData = z.infer<typeof DeliveryDedupedData>;

/** It is unknown whether output was delivered; it is not sent again automatically. */
export const DeliveryUnknownData = open({
  /** The delivery. */
  deliveryId: Id,
  /** Where it goes. */
  sinkId: Id,
  /** Why it is unknown. */
  reason: z.string().optional(),
});
export type DeliveryUnknownData = z.infer<typeof DeliveryUnknownData>;

/** The session is picked up after a crash. */
export const RecoveryStartedData = open({
  /** Ownership number of the session. */
  epoch: Count,
  /** Why. */
  reason: z.string().optional(),
  /** Whether other runs were at work when the process ended; absent means no. */
  shared: z.boolean().optional(),
  /** Whether no other run of which processes ended repeatedly is driven beside it; absent means no. */
  isolated: z.boolean().optional(),
  /** Ownership numbers of earlier owners that lost the session and went on: their processes did not end. */
  survived: z.array(Count).optional(),
  /** The run. */
  runId: Id.optional(),
});
export type RecoveryStartedData = z.infer<typeof RecoveryStartedData>;

/** An effect was started and has no result. */
export const RecoveryEffectFoundData = open({
  /** The call. */
  callId: Id,
  /** What happens to it. */
  effect: EffectClass,
  /** Whether other runs were at work when the process ended; absent means no. */
  shared: z.boolean().optional(),
  /** Wait before it is run again; absent if there is none. */
  delayMs: Count.optional(),
  /** Name of the tool. */
  toolName: z.string(),
  /** Key it was given. */
  idempotencyKey: Id.optional(),
  /** Request to a person, when one is needed. */
  requestId: Id.optional(),
  /** False if its owner released it before it started; the next owner runs it. */
  begun: z.boolean().optional(),
});
export type RecoveryEffectFoundData = z.infer<typeof RecoveryEffectFoundData>;

/** An interrupted effect was decided. */
export const RecoveryEffectSettledData = open({
  /** The call. */
  callId: Id,
  /** What to do with it. */
  choice: RecoveryChoice,
  /** Who decided: a person or a policy. */
  by: z.string().optional(),
});
export type RecoveryEffectSettledData = z.infer<typeof RecoveryEffectSettledData>;

/** The session goes on. */
export const RecoveryCompletedData = open({
  /** Ownership number of the session. */
  epoch: Count,
  /** Calls that run again. */
  repeated: z.array(Id).optional(),
  /** Calls that wait for a person. */
  parked: z.array(Id).optional(),
});
export type RecoveryCompletedData = z.infer<typeof RecoveryCompletedData>;
