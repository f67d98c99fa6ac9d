// Generated from spec/rest.schema.json by `make gen`. Do not edit.
/** Bodies of requests and answers of the HTTP server. */
import { z } from "zod";
import { Json, JsonObject, exactlyOne, open, record, text } from "../wire.js";
import { AgentSession, ChatMessage } from "./chat.js";
import {
  CacheLoss,
  ContentRef,
  Count,
  Id,
  Integer,
  PolicyRef,
  Positive,
  Price,
  Sha256,
  SourceRef,
  Timestamp,
  Usage,
} from "./common.js";
import { PackageDifference, Proposal, ProposalCheck, VersionComparison, VersionTally } from "./decisions.js";
import { ErrorCode, ErrorKind, RetryClass } from "./errors.js";
import { FinishReason, ProposalAppliedData, ProposalSettledData } from "./event-data.js";
import { InputOutcome, InputRequest, InputResponse } from "./input.js";
import { BudgetLimits } from "./policy.js";
import { PlaygroundOrigin, RunResult, RunSnapshot, RunStatus } from "./runs.js";
import { ModelMessage, RunMode, ToolCallPart, UserContent, UserPart } from "./sessions.js";
import { ToolCall } from "./tools.js";
import { HarnessTrace, TraceEvent, TraceSpan } from "./traces.js";

/** Body of `POST /sessions`: a session, with its first message or without. */
export const NewSession = z.strictObject({
  /** The first message: text, or parts. */
  message: UserContent.optional(),
  /** The agent; optional if the server or the session has only one. */
  agent: Id.optional(),
  /** Whether the run is a conversation or a task. */
  mode: RunMode.optional(),
  /** A JSON Schema that the output must fit. */
  outputSchema: JsonObject.optional(),
  /** Texts that the model gets before the message. */
  context: z.array(z.string()).max(64).optional(),
  /** Data of the application, kept in `run.started`. */
  metadata: JsonObject.optional(),
  /** The most that the run may use. */
  budget: BudgetLimits.optional(),
  /** Whether model calls of the run are items of batches, at a lower price; as the agent says if absent. */
  batch: z.enum(["within 24h", "off"]).optional(),
  /** The goal of the run, by which runs are found and judged. */
  goal: Id.optional(),
  /** The chat of the AgentSession; the session itself if absent. */
  chatId: Id.optional(),
  /** The first stage of the AgentSession; START if absent. */
  currentStage: Id.optional(),
  /** The scenario tag of the AgentSession. */
  scenario: text({ max: 512 }).optional(),
  /** Scratch state of the first stage. */
  stageData: JsonObject.optional(),
  /** The project that owns the AgentSession. */
  projectId: text({ max: 512 }).optional(),
});
export type NewSession = z.infer<typeof NewSession>;

/** Body of `POST /sessions/{id}/messages`: a message, or responses to what the session asks. */
export const NewMessage = z.strictObject({
  /** The message: text, or parts. */
  message: UserContent.optional(),
  /** Responses to requests of the session. */
  responses: z.array(InputResponse).min(1).max(64).optional(),
  /** The token of the last answer; the message is refused if the session has changed since. */
  continuationToken: text({ max: 64 }).optional(),
  /** `queue`, the default, starts a run after the current one; `steer` adds the message to the current run. */
  delivery: z.enum(["queue", "steer"]).optional(),
  /** The agent; optional if the server or the session has only one. */
  agent: Id.optional(),
  /** Whether the run is a conversation or a task. */
  mode: RunMode.optional(),
  /** A JSON Schema that the output must fit. */
  outputSchema: JsonObject.optional(),
  /** Texts that the model gets before the message. */
  context: z.array(z.string()).max(64).optional(),
  /** Data of the application, kept in `run.started`. */
  metadata: JsonObject.optional(),
  /** The most that the run may use. */
  budget: BudgetLimits.optional(),
  /** Whether model calls of the run are items of batches, at a lower price; as the agent says if absent. */
  batch: z.enum(["within 24h", "off"]).optional(),
  /** The goal of the run, by which runs are found and judged. */
  goal: Id.optional(),
}).superRefine(exactlyOne(["message", "responses"]));
export type NewMessage = z.infer<typeof NewMessage>;

/** Body of a request to cancel a run. */
export const Cancel = z.strictObject({
  /** The reason, for the journal. */
  reason: text({ max: 1000 }).optional(),
});
export type Cancel = z.infer<typeof Cancel>;

/** Body of a request to continue a failed run. */
export const RetryRun = z.strictObject({
  /** The most that both runs together may use; what the failed run left if absent. */
  budget: BudgetLimits.optional(),
});
export type RetryRun = z.infer<typeof RetryRun>;

/** Body of `POST /approvals/{id}`: an option of the request, a text, or both. */
export const Answer = z.strictObject({
  /** The option. */
  optionId: Id.optional(),
  /** The text. */
  text: text({ max: 100000 }).optional(),
  /** Digest of the arguments that were shown; the answer is refused if the call has others. */
  argumentsHash: Sha256.optional(),
  /** With the option approve: the arguments that the call runs with instead of its own. */
  arguments: JsonObject.optional(),
});
export type Answer = z.infer<typeof Answer>;

/** Body of `POST /sessions/{id}/fork`. */
export const Fork = z.strictObject({
  /** The last record that is copied; the last of the session when absent. */
  at: Positive.optional(),
});
export type Fork = z.infer<typeof Fork>;

/** Body of `POST /runs/{id}/feedback`. */
export const NewFeedback = z.strictObject({
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
});
export type NewFeedback = z.infer<typeof NewFeedback>;

/** Body of `POST /runs/{id}/events`. */
export const NewRunEvent = z.strictObject({
  /** What the workflow waits for. */
  name: Id,
  /** What comes with it; true when absent. */
  data: Json.optional(),
  /** Events with the same key are one event; the Idempotency-Key of the request when absent. */
  key: Id.optional(),
});
export type NewRunEvent = z.infer<typeof NewRunEvent>;

/** Body of `POST /proposals`: the goal of a change. */
export const NewProposal = z.strictObject({
  /** A goal that the server knows. */
  goal: Id,
  /** The agent; that of the newest run for the goal when absent. */
  agent: Id.optional(),
});
export type NewProposal = z.infer<typeof NewProposal>;

/** Body of `POST /proposals/{id}/check`: the runs to repeat. */
export const ProposalTrial = z.strictObject({
  /** The runs; the server chooses when absent. */
  runIds: z.array(Id).min(1).max(100).optional(),
  /** Attempts per run; 1 when absent. */
  repeats: z.int().min(1).max(20).optional(),
});
export type ProposalTrial = z.infer<typeof ProposalTrial>;

/** Body of a decision about a proposal. */
export const Verdict = z.strictObject({
  /** The reason. */
  reason: text({ max: 4000 }).optional(),
  /** The version that was read; the verdict is refused if the proposal makes another. */
  fingerprint: z.string().optional(),
});
export type Verdict = z.infer<typeof Verdict>;

/** A data set without cases. */
export const NewDataset = z.strictObject({
  /** Its name. */
  name: text({ min: 1, max: 200 }),
});
export type NewDataset = z.infer<typeof NewDataset>;

/** A case to add to a data set: from a recorded run, from `inputs`, or from a run with other inputs or another expected answer. */
export const NewDatasetCase = z.strictObject({
  /** Its name; that of the run, or one that follows from the inputs, when left out. */
  name: text({ min: 1, max: 200 }).optional(),
  /** A recorded run: its message and its answer are taken unless they are given here. */
  runId: Id.optional(),
  /** The message, data that is sent as JSON, or an object with `conversation`: several messages. */
  inputs: Json.optional(),
  /** The expected answer; null means none, also if the run has an answer. */
  expected: Json.optional(),
  /** Its tags. */
  tags: z.array(text({ min: 1, max: 200 })).max(100).optional(),
  /** Further facts. */
  metadata: JsonObject.optional(),
});
export type NewDatasetCase = z.infer<typeof NewDatasetCase>;

/** What to change of a case; the rest stays as it is. */
export const DatasetCaseChange = z.strictObject({
  /** The case. */
  name: text({ min: 1, max: 200 }),
  /** Other inputs. */
  inputs: Json.optional(),
  /** Another expected answer; null means none. */
  expected: Json.optional(),
  /** Its tags. */
  tags: z.array(text({ min: 1, max: 200 })).max(100).optional(),
  /** Other facts. */
  metadata: JsonObject.optional(),
});
export type DatasetCaseChange = z.infer<typeof DatasetCaseChange>;

/** Work that was accepted: it is durable. */
export const Accepted = open({
  /** The session. */
  sessionId: z.string(),
  /** The run that was started, answered or cancelled. */
  runId: z.string().optional(),
  /** The message that was added to the current run. */
  messageId: z.string().optional(),
  /** The token to continue from here. */
  continuationToken: z.string().optional(),
});
export type Accepted = z.infer<typeof Accepted>;

/** A run that was accepted: it is durable. */
export const AcceptedRun = open({
  /** The session. */
  sessionId: z.string(),
  /** The run. */
  runId: z.string(),
  /** The token to continue from here. */
  continuationToken: z.string().optional(),
});
export type AcceptedRun = z.infer<typeof AcceptedRun>;

/** Status of the newest run of a session; `idle` without one. */
export const SessionStatus = z.enum(["idle", "pending", "running", "waiting", "cancelling", "completed", "failed", "cancelled", "budget_exhausted"]);
export type SessionStatus = z.infer<typeof SessionStatus>;

/** A session as lists show it. */
export const SessionInfo = open({
  /** The session. */
  sessionId: z.string(),
  /** The first message, in one short line. */
  title: z.string(),
  /** The agent of the newest run. */
  agentId: z.string(),
  /** Status of the newest run. */
  status: SessionStatus,
  /** Time of the first request. */
  createdAt: Timestamp,
  /** Time of the last change of what is shown here. */
  updatedAt: Timestamp,
  /** Number of runs. */
  runCount: Count,
  /** Number of open requests to people. */
  requestCount: Count,
  /** Usage of its runs; of an unfinished one up to its last wait. */
  usage: Usage,
  /** The session at the top of the tree of subagents. */
  rootSessionId: z.string(),
  /** The session that this one works for. */
  parentSessionId: z.string().optional(),
  /** The session that it was forked from. */
  predecessorId: z.string().optional(),
  /** The last record that the fork copied. */
  predecessorSeq: Count.optional(),
  /** The first words of the answer of the newest run. */
  output: z.string().optional(),
  /** The first words of why the newest run ended without an answer. */
  errorMessage: z.string().optional(),
  /** The first words of the question that the newest run waits with, or of why it waits. */
  waitsFor: z.string().optional(),
  /** What the newest run waits for: input, recovery, subagent, provider, batch, timer or budget. */
  waitsOn: z.string().optional(),
  /** The kind of the error that the newest run ended with. */
  error: z.string().optional(),
  /** How often a process took one of its runs over after a crash. */
  crashes: Count.optional(),
  /** The token to continue from here. */
  continuationToken: z.string().optional(),
});
export type SessionInfo = z.infer<typeof SessionInfo>;

/** A page of sessions. */
export const SessionPage = open({
  /** The sessions. */
  sessions: z.array(SessionInfo),
  /** The value of `after` for the next page; absent on the last page. */
  next: z.string().optional(),
  /** How many fit, if asked for; 10,001 if there are more than 10,000. */
  total: Count.optional(),
});
export type SessionPage = z.infer<typeof SessionPage>;

/** Sessions as AgentSession documents, newest first. */
export const AgentSessionList = open({
  /** The sessions. */
  sessions: z.array(AgentSession),
  /** The value of `after` for the next page; absent on the last page. */
  next: z.string().optional(),
});
export type AgentSessionList = z.infer<typeof AgentSessionList>;

/** A page of messages of a session, oldest first. */
export const HistoryPage = open({
  /** The messages. */
  messages: z.array(ChatMessage),
  /** The value of `after` for the next page; absent on the last page. */
  next: z.string().optional(),
});
export type HistoryPage = z.infer<typeof HistoryPage>;

/** A run as lists show it. */
export const RunRow = open({
  /** The run. */
  runId: z.string(),
  /** Its session. */
  sessionId: z.string(),
  /** Its agent. */
  agentId: z.string(),
  /** Its status. */
  status: RunStatus,
  /** Its usage; up to its last wait until it has ended. */
  usage: Usage,
  /** When it started; absent while it is queued. */
  startedAt: Timestamp.optional(),
  /** When it ended. */
  endedAt: Timestamp.optional(),
  /** When it started, or was asked for. */
  at: z.string().optional(),
  /** The version of its agent. */
  packageFingerprint: z.string().optional(),
  /** The owner of its session. */
  owner: z.string().optional(),
  /** The first words of its message. */
  input: z.string().optional(),
  /** The first words of its answer. */
  output: z.string().optional(),
  /** The first words of why it ended without an answer. */
  errorMessage: z.string().optional(),
  /** The first words of the question that it waits with, or of why it waits. */
  waitsFor: z.string().optional(),
  /** What it waits for: input, recovery, subagent, provider, batch, timer or budget. */
  waitsOn: z.string().optional(),
  /** The kind of the error that it ended with. */
  error: z.string().optional(),
  /** How often a process took it over after a crash. */
  crashes: Count.optional(),
  /** Its tags. */
  tags: z.array(z.string()).optional(),
  /** The newest thumb of people: 1, -1, or 0 without one. */
  rating: Integer.optional(),
  /** Whether it is a playground run. */
  isPlayground: z.boolean().optional(),
});
export type RunRow = z.infer<typeof RunRow>;

/** A page of runs. */
export const RunPage = open({
  /** The runs. */
  runs: z.array(RunRow),
  /** The value of `after` for the next page; absent on the last page. */
  next: z.string().optional(),
  /** How many fit, if asked for; 10,001 if there are more than 10,000. */
  total: Count.optional(),
});
export type RunPage = z.infer<typeof RunPage>;

/** What a person said of a run, a step or an answer. */
export const FeedbackInfo = open({
  /** When. */
  at: Timestamp,
  /** The run. */
  runId: z.string(),
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
  /** Who said it. */
  by: z.string().optional(),
});
export type FeedbackInfo = z.infer<typeof FeedbackInfo>;

/** The feedback of a run, oldest first. */
export const FeedbackList = open({
  /** The feedback. */
  feedback: z.array(FeedbackInfo),
  /** The value of `after` for the next page; absent on the last page. */
  next: z.string().optional(),
});
export type FeedbackList = z.infer<typeof FeedbackList>;

/** A start of a run that was refused: who asked for what, and the error. It holds no input. */
export const RefusedStart = open({
  /** When it was refused. */
  at: Timestamp,
  /** The run that was not started. */
  runId: z.string().optional(),
  /** The session that the request named; of a subagent, the calling session. */
  sessionId: z.string().optional(),
  /** The agent that the request named. */
  agentId: z.string().optional(),
  /** The user who asked. */
  owner: z.string().optional(),
  /** Where the request came from. */
  source: SourceRef.optional(),
  /** The code of the error. */
  code: ErrorCode,
  /** Which part refused it. */
  kind: ErrorKind,
  /** Whether trying again can help. */
  retry: RetryClass,
  /** The error, with secrets masked. */
  message: z.string(),
  /** The code of the decision, if a policy refused it. */
  policyCode: z.string().optional(),
  /** The policies that refused it, in order. */
  policyRefs: z.array(PolicyRef).optional(),
});
export type RefusedStart = z.infer<typeof RefusedStart>;

/** A page of refused starts, newest first. */
export const RefusedStartPage = open({
  /** The refused starts. */
  refusedStarts: z.array(RefusedStart),
  /** The value of `after` for the next page; absent on the last page. */
  next: z.string().optional(),
});
export type RefusedStartPage = z.infer<typeof RefusedStartPage>;

/** Which ticks that passed while no process was running are made up for: none, the last one, or all. */
export const MissedTicks = z.enum(["skip", "once", "all"]);
export type MissedTicks = z.infer<typeof MissedTicks>;

/** What happens at a tick while the run of an earlier one goes on: it is skipped or queued, or the earlier run is cancelled. */
export const TickOverlap = z.enum(["skip", "queue", "cancel"]);
export type TickOverlap = z.infer<typeof TickOverlap>;

/** What a limit is for: each run, or all runs of a day or a month together. */
export const LimitPeriod = z.enum(["run", "day", "month"]);
export type LimitPeriod = z.infer<typeof LimitPeriod>;

/** What happens to a run of which the next answer does not fit a limit: it ends, it asks a person to let it spend more, or a cheaper fallback model goes on. */
export const LimitChoice = z.enum(["refuse", "ask", "cheaper"]);
export type LimitChoice = z.infer<typeof LimitChoice>;

/** What runs may spend: each of them, or all together in a day or a month. */
export const NewLimit = z.strictObject({
  /** Its name, without a slash. */
  name: text({ min: 1, max: 128, pattern: new RegExp("^[^/]+$", "u") }),
  /** What it is for. */
  per: LimitPeriod,
  /** Millionths of a US dollar; absent does not limit money. */
  maxCostMicros: Positive.optional(),
  /** Tokens of prompts and answers; absent does not limit them. */
  maxTokens: Positive.optional(),
  /** An owner, or `*` for each owner; absent is for all runs. */
  owner: Id.optional(),
  /** The name of an agent, or `*` for each agent; absent is for all. */
  agent: Id.optional(),
  /** The time zone of days and months; UTC when left out. */
  timezone: text({ min: 1, max: 64 }).optional(),
  /** What happens when it is reached; `refuse` when left out. */
  atLimit: LimitChoice.optional(),
  /** Names and roles that may let a run spend more, where it asks; absent is anyone who may answer for the run. */
  responders: z.array(Id).min(1).max(64).optional(),
});
export type NewLimit = z.infer<typeof NewLimit>;

/** A limit, and what is left of it for an owner or an agent. */
export const LimitInfo = open({
  /** Its name. */
  name: z.string(),
  /** What it is for. */
  per: LimitPeriod,
  /** Millionths of a US dollar; absent does not limit money. */
  maxCostMicros: Count.optional(),
  /** Tokens of prompts and answers; absent does not limit them. */
  maxTokens: Count.optional(),
  /** An owner, or `*` for each owner; absent is for all runs. */
  owner: z.string().optional(),
  /** The name of an agent, or `*` for each agent; absent is for all. */
  agent: z.string().optional(),
  /** The time zone of days and months. */
  timezone: z.string(),
  /** What happens when it is reached; absent in answers of earlier releases. */
  atLimit: LimitChoice.optional(),
  /** Names and roles that may let a run spend more, where it asks. */
  responders: z.array(z.string()).optional(),
  /** The owner or the agent that this is left for, if each has the limit. */
  subject: z.string().optional(),
  /** The day or the month; absent for a limit of each run. */
  period: z.string().optional(),
  /** When the next period begins. */
  endsAt: Timestamp.optional(),
  /** What was spent in this period, in millionths of a US dollar. */
  costMicros: Count.optional(),
  /** Tokens that were used in this period. */
  tokens: Count.optional(),
  /** What is set aside for calls under way. */
  heldMicros: Count.optional(),
  /** Tokens that are set aside for calls under way. */
  heldTokens: Count.optional(),
  /** What no call has spent or may spend yet; absent without a limit in money. */
  costMicrosLeft: Count.optional(),
  /** Tokens that no call has used or may use yet; absent without a limit in tokens. */
  tokensLeft: Count.optional(),
});
export type LimitInfo = z.infer<typeof LimitInfo>;

/** Limits by name, each with what is left of it. */
export const LimitList = open({
  /** The limits; one for each owner or agent that has spent of it, if each has it. */
  limits: z.array(LimitInfo),
  /** The value of `after` for the next page; absent on the last page. */
  next: z.string().optional(),
});
export type LimitList = z.infer<typeof LimitList>;

/** When an agent is to be run, and with which message. One of `cron`, `everyS` and `at` says when. */
export const NewSchedule = z.strictObject({
  /** Its name. */
  name: text({ min: 1, max: 128 }),
  /** The agent that is run. */
  agent: Id,
  /** The message of each run. */
  message: text({ min: 1, max: 100000 }),
  /** A cron expression with five fields, or six with seconds first. */
  cron: text({ min: 1, max: 256 }).optional(),
  /** Seconds between two ticks, counted from 1970. */
  everyS: Positive.optional(),
  /** One moment; without an offset it is in `timezone`. */
  at: text({ min: 1, max: 64 }).optional(),
  /** The time zone of `cron` and `at`; UTC when left out. */
  timezone: text({ min: 1, max: 64 }).optional(),
  /** Which ticks are made up for that passed while no process was running; `once` when left out. */
  missed: MissedTicks.optional(),
  /** What happens at a tick while the run of an earlier one goes on; `skip` when left out. */
  overlap: TickOverlap.optional(),
  /** A tick starts up to so many seconds later. */
  jitterS: Count.optional(),
  /** The session of all runs; when left out, each run has its own. */
  sessionId: Id.optional(),
});
export type NewSchedule = z.infer<typeof NewSchedule>;

/** A schedule, and what is known about its ticks. */
export const ScheduleInfo = open({
  /** Its name. */
  name: z.string(),
  /** The agent that is run. */
  agent: z.string(),
  /** The message of each run. */
  message: z.string(),
  /** A cron expression with five fields, or six with seconds first. */
  cron: z.string().optional(),
  /** Seconds between two ticks, counted from 1970. */
  everyS: Positive.optional(),
  /** One moment; without an offset it is in `timezone`. */
  at: z.string().optional(),
  /** The time zone of `cron` and `at`. */
  timezone: z.string(),
  /** Which ticks are made up for that passed while no process was running. */
  missed: MissedTicks,
  /** What happens at a tick while the run of an earlier one goes on. */
  overlap: TickOverlap,
  /** A tick starts up to so many seconds later. */
  jitterS: Count,
  /** The session of all runs; when left out, each run has its own. */
  sessionId: z.string().optional(),
  /** The owner of the sessions of its runs. */
  owner: z.string().optional(),
  /** Whether it starts no runs. */
  isPaused: z.boolean(),
  /** When it starts a run next; absent if it does not. */
  nextAt: Timestamp.optional(),
  /** The time of the last tick that was started. */
  lastAt: Timestamp.optional(),
  /** The run of that tick. */
  lastRunId: z.string().optional(),
  /** Ticks that were started. */
  started: Count,
  /** Ticks that were not started: missed, or at the time of another run. */
  skipped: Count,
  /** Ticks that wait for the run of an earlier one. */
  queued: Count,
  /** Why the last start failed, with secrets masked. */
  error: z.string().optional(),
});
export type ScheduleInfo = z.infer<typeof ScheduleInfo>;

/** A page of schedules, by name. */
export const SchedulePage = open({
  /** The schedules. */
  schedules: z.array(ScheduleInfo),
  /** The value of `after` for the next page; absent on the last page. */
  next: z.string().optional(),
});
export type SchedulePage = z.infer<typeof SchedulePage>;

/** A moment at which a schedule was to start a run. */
export const ScheduleTick = open({
  /** The moment. */
  at: Timestamp,
  /** The run; absent if none was started. */
  runId: Id.optional(),
  /** Where the run is. */
  status: RunStatus.optional(),
});
export type ScheduleTick = z.infer<typeof ScheduleTick>;

/** The ticks of a schedule around now. */
export const ScheduleTicks = open({
  /** The next ones, the earliest first; none while it is paused. */
  next: z.array(Timestamp),
  /** The last ones, the latest first. */
  last: z.array(ScheduleTick),
});
export type ScheduleTicks = z.infer<typeof ScheduleTicks>;

/** A notification or a message of a channel that was not taken yet. */
export const DeliveryInfo = open({
  /** Its id, the same for every attempt. */
  deliveryId: z.string(),
  /** The endpoint or the channel. */
  target: z.string(),
  /** The session that it is about. */
  sessionId: z.string(),
  /** The run that it is about. */
  runId: z.string().optional(),
  /** The type of the event. */
  event: z.string().optional(),
  /** The owner of the session. */
  owner: z.string().optional(),
  /** Attempts so far. */
  attempts: Count,
  /** Whether it is tried no more. */
  isDead: z.boolean(),
  /** Why the last attempt failed. */
  problem: z.string().optional(),
  /** When it was to be delivered first. */
  createdAt: Timestamp,
  /** When it is tried next; absent if it is not. */
  nextAt: Timestamp.optional(),
});
export type DeliveryInfo = z.infer<typeof DeliveryInfo>;

/** A page of deliveries, by id. */
export const DeliveryPage = open({
  /** The deliveries. */
  deliveries: z.array(DeliveryInfo),
  /** The value of `after` for the next page; absent on the last page. */
  next: z.string().optional(),
});
export type DeliveryPage = z.infer<typeof DeliveryPage>;

/** A run: its state, open requests and result. */
export const RunInfo = open({
  /** The state. */
  run: RunSnapshot,
  /** The run as lists show it, with its input and when it started. */
  row: RunRow.optional(),
  /** Open requests to people. */
  requests: z.array(InputRequest),
  /** The result, once the run has ended. */
  result: RunResult.optional(),
});
export type RunInfo = z.infer<typeof RunInfo>;

/** Whether a call can be reversed: reversible; reversed, if it was; no_undo, if its tool says no way; unknown, if it is not known to have taken effect. */
export const UndoStatus = z.enum(["reversible", "reversed", "no_undo", "unknown"]);
export type UndoStatus = z.infer<typeof UndoStatus>;

/** A call of a run that may have changed something. */
export const UndoItem = open({
  /** The call. */
  callId: Id,
  /** Its tool. */
  toolName: z.string(),
  /** Its arguments, without secrets. */
  arguments: Json,
  /** Whether it can be reversed. */
  status: UndoStatus,
  /** The tool that reverses it. */
  undoName: z.string().optional(),
  /** The run of a subagent, if the call started one; it is undone by itself. */
  childRunId: Id.optional(),
});
export type UndoItem = z.infer<typeof UndoItem>;

/** The calls of a run that may have changed something, newest first. */
export const UndoPlan = open({
  /** The run. */
  runId: Id,
  /** The calls. */
  calls: z.array(UndoItem),
});
export type UndoPlan = z.infer<typeof UndoPlan>;

/** An open request to a person, with its session and run. */
export const ApprovalInfo = open({
  /** The session that asks. */
  sessionId: z.string(),
  /** The session at the top of its tree. */
  rootSessionId: z.string(),
  /** The run that asks. */
  runId: z.string(),
  /** The agent that asks. */
  agentId: z.string(),
  /** When it was asked. */
  askedAt: Timestamp,
  /** The request. */
  request: InputRequest,
  /** The user that the session belongs to. */
  owner: z.string().optional(),
});
export type ApprovalInfo = z.infer<typeof ApprovalInfo>;

/** A page of open requests, oldest first. */
export const ApprovalPage = open({
  /** The requests. */
  requests: z.array(ApprovalInfo),
  /** The value of `after` for the next page; absent on the last page. */
  next: z.string().optional(),
});
export type ApprovalPage = z.infer<typeof ApprovalPage>;

/** A request to a person that is closed: answered, or closed without an answer. */
export const SettledApproval = open({
  /** The request. */
  requestId: z.string(),
  /** The session that asked. */
  sessionId: z.string(),
  /** The run that asked. */
  runId: z.string(),
  /** The user that the session belongs to. */
  owner: z.string().optional(),
  /** How it was closed. */
  outcome: InputOutcome,
  /** The option that was chosen. */
  optionId: z.string().optional(),
  /** The user who answered. */
  responder: z.string().optional(),
  /** When it was closed. */
  at: Timestamp,
});
export type SettledApproval = z.infer<typeof SettledApproval>;

/** A request to a person, open or closed. */
export const ApprovalView = open({
  /** The request, while it is open. */
  open: ApprovalInfo.optional(),
  /** How it was closed. */
  settled: SettledApproval.optional(),
}).superRefine(exactlyOne(["open", "settled"]));
export type ApprovalView = z.infer<typeof ApprovalView>;

/** The trace of a run; its first span is the run. */
export const TraceInfo = open({
  /** The trace. */
  trace: HarnessTrace,
  /** The spans. */
  spans: z.array(TraceSpan),
  /** Moments within spans. */
  events: z.array(TraceEvent),
  /** The last record that it is made of: the value of `after` for what is new since. */
  seq: Count.optional(),
});
export type TraceInfo = z.infer<typeof TraceInfo>;

/** A tool as the model was offered it. */
export const PromptTool = open({
  /** Its name. */
  name: z.string(),
  /** Its description. */
  description: z.string(),
  /** The JSON Schema of its arguments. */
  inputSchema: JsonObject,
});
export type PromptTool = z.infer<typeof PromptTool>;

/** A message as the model received it. */
export const PromptMessage = open({
  /** Its role. */
  role: z.enum(["system", "user", "assistant", "tool"]),
  /** Its text. */
  content: z.string(),
  /** Of a tool result: whether the call failed or was refused. */
  isError: z.boolean(),
  /** Calls that the model asked for. */
  toolCalls: z.array(ToolCall).optional(),
  /** Of a tool result: the call. */
  toolCallId: z.string().optional(),
  /** Of a tool result: the tool. */
  name: z.string().optional(),
  /** The reasoning of the model. */
  reasoning: z.string().optional(),
  /** Parts of a message of the user. */
  parts: z.array(UserPart).optional(),
});
export type PromptMessage = z.infer<typeof PromptMessage>;

/** The input of one model call, rebuilt from the journal. */
export const StepPrompt = open({
  /** The run. */
  runId: z.string(),
  /** The session. */
  sessionId: z.string(),
  /** The step, from 0. */
  stepIndex: Count,
  /** The record `step.started`. */
  seq: Count,
  /** The instructions. */
  system: z.string(),
  /** The tools that were offered. */
  tools: z.array(PromptTool),
  /** The messages. */
  messages: z.array(PromptMessage),
  /** What cannot be rebuilt, in words. */
  unknown: z.array(z.string()),
  /** The provider route. */
  routeId: z.string().optional(),
  /** The model. */
  modelId: z.string().optional(),
  /** The version of the agent. */
  fingerprint: z.string().optional(),
  /** The temperature. */
  temperature: z.number().optional(),
  /** The JSON Schema of the output. */
  outputSchema: JsonObject.optional(),
});
export type StepPrompt = z.infer<typeof StepPrompt>;

/** The answer of one model call. */
export const StepAnswer = open({
  /** The text. */
  text: z.string(),
  /** The calls that it asked for. */
  calls: z.array(ToolCallPart),
  /** The reasoning. */
  reasoning: z.string().optional(),
  /** Why the model stopped. */
  finishReason: FinishReason.optional(),
  /** What it used. */
  usage: Usage.optional(),
  /** How long the model took. */
  latencyMs: Count.optional(),
  /** Why there is no answer. */
  error: z.string().optional(),
});
export type StepAnswer = z.infer<typeof StepAnswer>;

/** The parts of a model call that the playground can change, with the answer that it got. */
export const PlaygroundDraft = open({
  /** The run. */
  runId: z.string(),
  /** The session. */
  sessionId: z.string(),
  /** The step, from 0. */
  stepIndex: Count,
  /** The agent. */
  agentId: z.string(),
  /** The instructions, without the schema of the output. */
  instructions: z.string(),
  /** The messages. */
  messages: z.array(ModelMessage),
  /** The tools that were offered. */
  tools: z.array(PromptTool),
  /** The model, as provider/model. */
  model: z.string(),
  /** The models that can be chosen. */
  models: z.array(z.string()),
  /** What cannot be rebuilt, in words. */
  unknown: z.array(z.string()),
  /** The temperature. */
  temperature: z.number().optional(),
  /** The JSON Schema of the output. */
  outputSchema: JsonObject.optional(),
  /** The answer; absent until there is one. */
  answer: StepAnswer.optional(),
  /** The step that it runs again, when it is a playground run itself. */
  origin: PlaygroundOrigin.optional(),
});
export type PlaygroundDraft = z.infer<typeof PlaygroundDraft>;

/** Changes of a recorded model call that is run again; what is left out is as it was recorded. */
export const NewPlaygroundRun = z.strictObject({
  /** Other instructions. */
  instructions: z.string().optional(),
  /** Other messages; the last one is of the user or of a tool. */
  messages: z.array(ModelMessage).min(1).optional(),
  /** The tools that are offered, out of those of the step, with their descriptions. */
  tools: record(z.string()).optional(),
  /** Another model of an agent of the server, as provider/model. */
  model: text({ min: 1 }).optional(),
  /** Another temperature. */
  temperature: z.number().min(0).max(2).optional(),
  /** What is run: this model call alone, or all that follows it; run when left out. */
  size: z.enum(["call", "run"]).optional(),
  /** How calls are answered: from the record, or by the tools themselves; recorded when left out. */
  calls: z.enum(["recorded", "real"]).optional(),
});
export type NewPlaygroundRun = z.infer<typeof NewPlaygroundRun>;

/** Contents of a session that are too large for a record. */
export const ContentList = open({
  /** The contents. */
  contents: z.array(ContentRef),
  /** The value of `after` for the next page; absent on the last page. */
  next: z.string().optional(),
});
export type ContentList = z.infer<typeof ContentList>;

/** Records at which a fork can begin, in order. */
export const SafePoints = open({
  /** Their numbers. */
  safePoints: z.array(Positive),
  /** The value of `before` for older ones. */
  next: Positive.optional(),
});
export type SafePoints = z.infer<typeof SafePoints>;

/** What was deleted: sessions, a schedule or a data set. */
export const Deleted = open({
  /** The ids of the sessions, or the name of the other. */
  deleted: z.array(z.string()),
});
export type Deleted = z.infer<typeof Deleted>;

/** A tool that agents may call. */
export const ToolInfo = open({
  /** Its name. */
  name: z.string(),
  /** Its description. */
  description: z.string(),
  /** Its mode. */
  mode: z.string(),
  /** Its class of effect. */
  effect: z.string(),
  /** The agents that have it. */
  agents: z.array(z.string()),
  /** The JSON Schema of its arguments. */
  inputSchema: JsonObject,
});
export type ToolInfo = z.infer<typeof ToolInfo>;

/** All tools of all agents. */
export const ToolList = open({
  /** The tools. */
  tools: z.array(ToolInfo),
});
export type ToolList = z.infer<typeof ToolList>;

/** An agent that runs can be started with. */
export const AgentInfo = open({
  /** Its id. */
  agentId: z.string(),
  /** Its description. */
  description: z.string(),
  /** Its model. */
  model: z.string(),
  /** The names of its tools. */
  tools: z.array(z.string()),
  /** The ids of its subagents. */
  subagents: z.array(z.string()),
  /** Its version, as its author calls it. */
  version: z.string().optional(),
  /** Why it cannot run yet, such as a missing key, and what to do; absent if it can. */
  problem: z.string().optional(),
});
export type AgentInfo = z.infer<typeof AgentInfo>;

/** All agents of a server. */
export const AgentList = open({
  /** The agents. */
  agents: z.array(AgentInfo),
});
export type AgentList = z.infer<typeof AgentList>;

/** The health of a server. */
export const Health = open({
  /** `closing` while the server shuts down. */
  status: z.enum(["ok", "closing"]),
  /** The version of the server. */
  version: z.string(),
  /** The id of its process, told by a server that is open to its own machine alone. */
  pid: Count.optional(),
  /** Why requests that write are refused now; the server is alive, and ready again without a restart. */
  problem: z.string().optional(),
});
export type Health = z.infer<typeof Health>;

/** Counts, durations and cost of runs. */
export const RunNumbers = open({
  /** Number of runs that started. */
  runs: Count,
  /** Of those, the ones that completed. */
  completed: Count,
  /** Of those, the ones that failed or used up their budget. */
  failed: Count,
  /** Of those, the ones that were cancelled. */
  cancelled: Count,
  /** Of those, the ones that have not ended. */
  open: Count,
  /** Input tokens. */
  inputTokens: Count,
  /** Output tokens. */
  outputTokens: Count,
  /** Input tokens that came from the cache of a provider. */
  cacheReadTokens: Count.optional(),
  /** Cost in millionths of a dollar. */
  costMicros: Count,
  /** Median duration, waits included. */
  p50Ms: Count.optional(),
  /** 95th percentile of the duration. */
  p95Ms: Count.optional(),
});
export type RunNumbers = z.infer<typeof RunNumbers>;

/** Counts, durations and cost of the runs that started in one interval. */
export const StatsBucket = open({
  /** The start of the interval. */
  at: Timestamp,
  /** Number of runs that started. */
  runs: Count,
  /** Of those, the ones that completed. */
  completed: Count,
  /** Of those, the ones that failed or used up their budget. */
  failed: Count,
  /** Of those, the ones that were cancelled. */
  cancelled: Count,
  /** Of those, the ones that have not ended. */
  open: Count,
  /** Input tokens. */
  inputTokens: Count,
  /** Output tokens. */
  outputTokens: Count,
  /** Input tokens that came from the cache of a provider. */
  cacheReadTokens: Count.optional(),
  /** Cost in millionths of a dollar. */
  costMicros: Count,
  /** Median duration, waits included. */
  p50Ms: Count.optional(),
  /** 95th percentile of the duration. */
  p95Ms: Count.optional(),
});
export type StatsBucket = z.infer<typeof StatsBucket>;

/** Counts of what waits for people now. */
export const WaitingNumbers = open({
  /** Runs that wait. */
  runs: Count,
  /** Open requests. */
  requests: Count,
  /** When the oldest open request was asked. */
  oldestAskedAt: Timestamp.optional(),
});
export type WaitingNumbers = z.infer<typeof WaitingNumbers>;

/** A tool with its calls and failures. */
export const FailingTool = open({
  /** The tool. */
  tool: z.string(),
  /** Number of calls. */
  calls: Count,
  /** Of those, the ones that failed. */
  failed: Count,
});
export type FailingTool = z.infer<typeof FailingTool>;

/** Calls of a tool by runs that started in one interval. */
export const ToolBucket = open({
  /** The start of the interval. */
  at: Timestamp,
  /** Number of calls. */
  calls: Count,
  /** Of those, the ones that failed. */
  failed: Count,
  /** Milliseconds that a call took on average; absent without calls that ended. */
  meanMs: Count.optional(),
});
export type ToolBucket = z.infer<typeof ToolBucket>;

/** The calls of one tool over time. */
export const ToolGroup = open({
  /** The tool. */
  tool: z.string(),
  /** Number of calls. */
  calls: Count,
  /** Of those, the ones that failed. */
  failed: Count,
  /** Milliseconds that a call took on average; absent without calls that ended. */
  meanMs: Count.optional(),
  /** Every interval, oldest first. */
  buckets: z.array(ToolBucket),
});
export type ToolGroup = z.infer<typeof ToolGroup>;

/** The runs of one agent, model or version over time. */
export const StatsGroup = open({
  /** The agent, the model, or the fingerprint of the version. */
  name: z.string(),
  /** The whole time. */
  total: RunNumbers,
  /** Every interval, oldest first. */
  buckets: z.array(StatsBucket),
});
export type StatsGroup = z.infer<typeof StatsGroup>;

/** Runs over time; a run counts where it started. */
export const Stats = open({
  /** The start of the time. */
  since: Timestamp,
  /** The end of the time, exclusive. */
  until: Timestamp,
  /** Seconds per interval. */
  bucketS: Positive,
  /** The whole time. */
  total: RunNumbers,
  /** Every interval, oldest first. */
  buckets: z.array(StatsBucket),
  /** What waits for people now. */
  waiting: WaitingNumbers,
  /** Tools that failed, the highest rate first; those with few calls come last. */
  failingTools: z.array(FailingTool),
  /** The same runs by agent, model or version, most runs first; absent unless asked for. */
  groups: z.array(StatsGroup).optional(),
  /** The calls of the runs by tool, most calls first; absent unless asked for. */
  tools: z.array(ToolGroup).optional(),
});
export type Stats = z.infer<typeof Stats>;

/** Failures with the same error text, numbers and ids aside. */
export const FailureCause = open({
  /** The text of the newest one. */
  told: z.string(),
  /** Number of runs. */
  count: Count,
  /** The runs, newest first. */
  runIds: z.array(z.string()),
});
export type FailureCause = z.infer<typeof FailureCause>;

/** Runs that failed for one kind of reason. */
export const FailureGroup = open({
  /** The kind: one of FailureKind; more may come. */
  kind: z.string(),
  /** Number of runs. */
  count: Count,
  /** The causes, most frequent first. */
  causes: z.array(FailureCause),
});
export type FailureGroup = z.infer<typeof FailureGroup>;

/** Why runs failed, the most frequent reason first. */
export const Failures = open({
  /** Runs that were counted: those that have ended. */
  runs: Count,
  /** Of those, the ones that failed. */
  failed: Count,
  /** False if there are more runs than were counted. */
  isAll: z.boolean(),
  /** The kinds of reasons. */
  groups: z.array(FailureGroup),
});
export type Failures = z.infer<typeof Failures>;

/** A version of an agent, with the results of its runs. */
export const AgentVersion = open({
  /** Start of its first run. */
  firstAt: Timestamp,
  /** Start of its last run. */
  lastAt: Timestamp,
  /** Results of its runs. */
  tally: VersionTally,
});
export type AgentVersion = z.infer<typeof AgentVersion>;

/** Versions of an agent, newest first. */
export const AgentVersions = open({
  /** The agent. */
  agentId: z.string(),
  /** The versions that have runs. */
  versions: z.array(AgentVersion),
  /** Fingerprint of the version that new runs get. */
  current: z.string().optional(),
  /** The value of `after` for the next page; absent on the last page. */
  next: z.string().optional(),
});
export type AgentVersions = z.infer<typeof AgentVersions>;

/** Two versions of an agent side by side. */
export const AgentComparison = open({
  /** The agent. */
  agentId: z.string(),
  /** The results of both. */
  comparison: VersionComparison,
  /** The parts that changed, in words; absent if a version is no longer stored. */
  changes: z.array(z.string()).optional(),
  /** The values that changed, such as instructions; absent if a version is no longer stored. */
  differences: z.array(PackageDifference).optional(),
});
export type AgentComparison = z.infer<typeof AgentComparison>;

/** Work on a proposal: under way, or failed. */
export const ProposalWork = open({
  /** The proposal. */
  proposalId: z.string(),
  /** The kind of work: propose or check; more may come. */
  kind: z.string(),
  /** The status of the work: working or failed; more may come. */
  status: z.string(),
  /** When the work started. */
  startedAt: Timestamp,
  /** Why it failed. */
  problem: z.string().optional(),
  /** The goal. */
  goalId: z.string().optional(),
  /** The agent. */
  agentId: z.string().optional(),
});
export type ProposalWork = z.infer<typeof ProposalWork>;

/** A proposal, its check, and the verdict about it. */
export const ProposalView = open({
  /** The change and its reasons. */
  proposal: Proposal,
  /** The status: open, accepted, refused or applied; more may come. */
  status: z.string(),
  /** Work that is under way, or failed. */
  work: z.array(ProposalWork),
  /** Results on recorded runs. */
  check: ProposalCheck.optional(),
  /** The verdict. */
  settled: ProposalSettledData.optional(),
  /** When the verdict was given. */
  settledAt: Timestamp.optional(),
  /** The change that was made. */
  applied: ProposalAppliedData.optional(),
  /** When the change was made. */
  appliedAt: Timestamp.optional(),
});
export type ProposalView = z.infer<typeof ProposalView>;

/** Proposals, newest first. */
export const ProposalList = open({
  /** The proposals. */
  proposals: z.array(ProposalView),
  /** Work that is under way, or failed. */
  work: z.array(ProposalWork),
  /** The value of `after` for the next page; absent on the last page. */
  next: z.string().optional(),
});
export type ProposalList = z.infer<typeof ProposalList>;

/** Work on a proposal that was accepted. */
export const ProposalAccepted = open({
  /** The proposal. */
  proposalId: z.string(),
});
export type ProposalAccepted = z.infer<typeof ProposalAccepted>;

/** A place where a request does not fit its route. */
export const ProblemIssue = open({
  /** The place. */
  path: z.string(),
  /** What was expected. */
  message: z.string(),
});
export type ProblemIssue = z.infer<typeof ProblemIssue>;

/** An error of the server, as RFC 9457 problem details. */
export const ProblemDetails = open({
  /** A URN for the kind of problem. */
  type: z.string(),
  /** The status in words. */
  title: z.string(),
  /** The HTTP status. */
  status: z.int().min(100).max(599),
  /** What happened and what to do. */
  detail: z.string(),
  /** A stable code for programs. */
  code: z.string(),
  /** Ids of what the problem is about. */
  ids: record(z.string()),
  /** A URN with the id of the HTTP request, that of the header `x-request-id`. */
  instance: z.string().optional(),
  /** The code of the decision, if a policy refused the start of a run. */
  policyCode: z.string().optional(),
  /** Where the request does not fit the route. */
  issues: z.array(ProblemIssue).optional(),
});
export type ProblemDetails = z.infer<typeof ProblemDetails>;

/** What a model call cost. */
export const StepCost = open({
  /** The step. */
  stepIndex: Count,
  /** The model. */
  modelId: z.string(),
  /** What it used. */
  usage: Usage,
  /** How the cost was found, or why there is none. */
  price: Price.optional(),
  /** What it paid for again, because it was in the cache no more. */
  loss: CacheLoss.optional(),
});
export type StepCost = z.infer<typeof StepCost>;

/** What a model or a subagent used. */
export const UsageShare = open({
  /** The model or the subagent. */
  name: z.string(),
  /** What it used. */
  usage: Usage,
});
export type UsageShare = z.infer<typeof UsageShare>;

/** What the results of a tool cost in later prompts. */
export const ToolCost = open({
  /** The tool. */
  tool: z.string(),
  /** Its results. */
  calls: Count,
  /** Tokens of its results, as estimated. */
  resultTokens: Count,
  /** The same tokens, counted with each prompt that had them. */
  promptTokens: Count,
  /** Their part of the cost of these prompts, in millionths of a US dollar. */
  costMicros: Count,
});
export type ToolCost = z.infer<typeof ToolCost>;

/** What a result of a tool cost in later prompts. */
export const ResultCost = open({
  /** The call. */
  callId: Id,
  /** The tool. */
  tool: z.string(),
  /** Its tokens, as estimated. */
  tokens: Count,
  /** The prompts that had it: so often its tokens were paid for. */
  prompts: Count,
  /** Its part of the cost of these prompts, in millionths of a US dollar. */
  costMicros: Count,
});
export type ResultCost = z.infer<typeof ResultCost>;

/** Where the money of a run went, as far as it is recorded. */
export const RunCosts = open({
  /** Model calls that answered, in their order. */
  steps: z.array(StepCost),
  /** What each model used, calls that failed and summaries included. */
  models: z.array(UsageShare),
  /** What each subagent used. */
  subagents: z.array(UsageShare),
  /** What the results of each tool cost in later prompts, the most expensive first. */
  tools: z.array(ToolCost),
  /** The twenty results that cost most in later prompts. */
  results: z.array(ResultCost),
});
export type RunCosts = z.infer<typeof RunCosts>;
