// Generated from spec/events.schema.json by `make gen`. Do not edit.
/** One fact in the journal, what a subscriber sees of it, and where a subscriber stands. */
import { z } from "zod";
import { JsonObject, open, text, typedData } from "../wire.js";
import { CausalIds, Count, Id, Positive, Sha256, Timestamp } from "./common.js";
import {
  ActionInputAppendedData,
  ActionPartialData,
  ActionResultData,
  ActionStartedData,
  ActionsRequestedData,
  AgentResolvedData,
  AgentStartedData,
  ApprovalCandidateData,
  ApprovalDispatchedData,
  ApprovalSettledData,
  AuthorizationCompletedData,
  AuthorizationRequiredData,
  BudgetExhaustedData,
  BudgetReservedData,
  BudgetUpdatedData,
  BudgetWarnedData,
  CompactionCompletedData,
  CompactionFailedData,
  CompactionRequestedData,
  ContextClearedData,
  DecisionEvaluatedData,
  DecisionOutcomeData,
  DecisionRecordedData,
  DeliveryCompletedData,
  DeliveryDedupedData,
  DeliveryFailedData,
  DeliveryIntendedData,
  DeliveryUnknownData,
  FeedbackGivenData,
  HookCompletedData,
  HookFailedData,
  HookInvokedData,
  InputRequestedData,
  InputResolvedData,
  MessageAppendedData,
  MessageCompletedData,
  MessageReceivedData,
  OutputFailedData,
  OutputRejectedData,
  OutputRequestedData,
  OutputValidatedData,
  PolicyDecidedData,
  ProblemReportedData,
  ProgramEndedData,
  ProgramPausedData,
  ProposalAppliedData,
  ProposalCheckedData,
  ProposalMadeData,
  ProposalSettledData,
  ReasoningAppendedData,
  ReasoningCompletedData,
  RecoveryCompletedData,
  RecoveryEffectFoundData,
  RecoveryEffectSettledData,
  RecoveryStartedData,
  ResultCompletedData,
  RunBudgetExhaustedData,
  RunCancelRequestedData,
  RunCancelledData,
  RunCompletedData,
  RunEventReceivedData,
  RunFailedData,
  RunResumedData,
  RunStartedData,
  RunWaitingData,
  SessionCompletedData,
  SessionFailedData,
  SessionForkedData,
  SessionMovedData,
  SessionStartedData,
  SessionStateChangedData,
  SessionWaitingData,
  StepCompletedData,
  StepFailedData,
  StepQueuedData,
  StepRetryingData,
  StepStartedData,
  SubagentCalledData,
  SubagentCompletedData,
  SubagentEventData,
  SubagentStartedData,
  TaskSettledData,
  TaskStartedData,
  TurnCancelledData,
  TurnCompletedData,
  TurnFailedData,
  TurnStartedData,
  TurnWaitingData,
} from "./event-data.js";

/** A dotted name; the first word is the family. Unknown ones pass through. */
export const EventType = text({ says: "a dotted name; the first word is the family. Unknown ones pass through", min: 3, max: 128, pattern: new RegExp("^[a-z][a-z0-9_]*(?:\\.[a-z][a-z0-9_]*)+$", "u") });
export type EventType = z.infer<typeof EventType>;

/** Ties each known event type to the shape of its data. */
export const EVENT_DATA = {
  "session.started": SessionStartedData,
  "session.waiting": SessionWaitingData,
  "session.completed": SessionCompletedData,
  "session.failed": SessionFailedData,
  "session.state_changed": SessionStateChangedData,
  "feedback.given": FeedbackGivenData,
  "run.event_received": RunEventReceivedData,
  "session.moved": SessionMovedData,
  "session.forked": SessionForkedData,
  "context.cleared": ContextClearedData,
  "run.started": RunStartedData,
  "run.resumed": RunResumedData,
  "run.waiting": RunWaitingData,
  "run.cancel_requested": RunCancelRequestedData,
  "run.completed": RunCompletedData,
  "run.failed": RunFailedData,
  "run.cancelled": RunCancelledData,
  "run.budget_exhausted": RunBudgetExhaustedData,
  "turn.started": TurnStartedData,
  "turn.waiting": TurnWaitingData,
  "turn.completed": TurnCompletedData,
  "turn.failed": TurnFailedData,
  "turn.cancelled": TurnCancelledData,
  "message.received": MessageReceivedData,
  "message.appended": MessageAppendedData,
  "message.completed": MessageCompletedData,
  "reasoning.appended": ReasoningAppendedData,
  "reasoning.completed": ReasoningCompletedData,
  "step.started": StepStartedData,
  "step.queued": StepQueuedData,
  "step.retrying": StepRetryingData,
  "step.completed": StepCompletedData,
  "step.failed": StepFailedData,
  "actions.requested": ActionsRequestedData,
  "action.started": ActionStartedData,
  "program.paused": ProgramPausedData,
  "program.ended": ProgramEndedData,
  "action.input.appended": ActionInputAppendedData,
  "action.partial": ActionPartialData,
  "action.result": ActionResultData,
  "input.requested": InputRequestedData,
  "input.resolved": InputResolvedData,
  "approval.candidate": ApprovalCandidateData,
  "approval.dispatched": ApprovalDispatchedData,
  "approval.settled": ApprovalSettledData,
  "authorization.required": AuthorizationRequiredData,
  "authorization.completed": AuthorizationCompletedData,
  "result.completed": ResultCompletedData,
  "output.requested": OutputRequestedData,
  "output.rejected": OutputRejectedData,
  "output.validated": OutputValidatedData,
  "output.failed": OutputFailedData,
  "compaction.requested": CompactionRequestedData,
  "compaction.completed": CompactionCompletedData,
  "compaction.failed": CompactionFailedData,
  "subagent.called": SubagentCalledData,
  "subagent.started": SubagentStartedData,
  "subagent.event": SubagentEventData,
  "subagent.completed": SubagentCompletedData,
  "task.started": TaskStartedData,
  "task.settled": TaskSettledData,
  "agent.started": AgentStartedData,
  "agent.resolved": AgentResolvedData,
  "policy.decided": PolicyDecidedData,
  "budget.reserved": BudgetReservedData,
  "budget.updated": BudgetUpdatedData,
  "budget.warned": BudgetWarnedData,
  "budget.exhausted": BudgetExhaustedData,
  "hook.invoked": HookInvokedData,
  "hook.completed": HookCompletedData,
  "hook.failed": HookFailedData,
  "decision.recorded": DecisionRecordedData,
  "decision.outcome": DecisionOutcomeData,
  "decision.evaluated": DecisionEvaluatedData,
  "problem.reported": ProblemReportedData,
  "proposal.made": ProposalMadeData,
  "proposal.checked": ProposalCheckedData,
  "proposal.settled": ProposalSettledData,
  "proposal.applied": ProposalAppliedData,
  "delivery.intended": DeliveryIntendedData,
  "delivery.completed": DeliveryCompletedData,
  "delivery.failed": DeliveryFailedData,
  "delivery.deduped": DeliveryDedupedData,
  "delivery.unknown": DeliveryUnknownData,
  "recovery.started": RecoveryStartedData,
  "recovery.effect_found": RecoveryEffectFoundData,
  "recovery.effect_settled": RecoveryEffectSettledData,
  "recovery.completed": RecoveryCompletedData,
} as const;
export type EventDataByType = {
  [K in keyof typeof EVENT_DATA]: z.infer<(typeof EVENT_DATA)[K]>;
};

/** Facts about an event. */
export const EventMeta = open({
  /** When it happened. */
  at: Timestamp,
  /** Stable identifier of the event. */
  id: Id.optional(),
  /** Attempt of the step, from 1. */
  attempt: Positive.optional(),
  /** Deliveries that led to it. */
  deliveryIds: z.array(Id).optional(),
  /** Place in the whole store. */
  position: Count.optional(),
});
export type EventMeta = z.infer<typeof EventMeta>;

/** What a subscriber sees: a record, or a live delta that is never stored. */
export const Event = open({
  /** What happened. */
  type: EventType,
  /** The facts, in the shape of the type. */
  data: JsonObject.default({}),
  /** Facts about the event. */
  meta: EventMeta,
  /** Session it belongs to. */
  sessionId: Id.optional(),
  /** Number of its record in the session; on a live delta, that of its step or of a later record it comes behind. */
  seq: Count.optional(),
  /** On a live delta only: its place in the step, from 0. */
  index: Count.optional(),
  /** Run it belongs to. */
  runId: Id.optional(),
  /** Agent it belongs to. */
  agentId: Id.optional(),
}).superRefine(typedData(EVENT_DATA));
export type Event = z.infer<typeof Event>;

/** One fact in the journal. */
export const Record = open({
  /** Session it belongs to. */
  sessionId: Id,
  /** Number in the session, from 1, without gaps; assigned by the journal. */
  seq: Positive,
  /** What happened. */
  type: EventType,
  /** When it happened. */
  at: Timestamp,
  /** The facts, in the shape of the type. */
  data: JsonObject.default({}),
  /** Place in the whole store, increasing. */
  position: Positive.optional(),
  /** Stable identifier of the event it is shown as. */
  eventId: Id.optional(),
  /** The run. */
  runId: Id.optional(),
  /** The agent. */
  agentId: Id.optional(),
  /** The turn. */
  turnId: Id.optional(),
  /** Number of the step in its turn, from 0. */
  stepIndex: Count.optional(),
  /** Attempt of the step, from 1. */
  attempt: Positive.optional(),
  /** Ownership number of the writer. */
  epoch: Count.optional(),
  /** The things that led to it. */
  causalIds: CausalIds.optional(),
}).superRefine(typedData(EVENT_DATA));
export type Record = z.infer<typeof Record>;

/** A place in everything. */
export const AllCursor = z.strictObject({
  /** What the cursor runs over. */
  scope: z.literal("all"),
  /** Last position seen; 0 for the beginning. */
  position: Count,
});
export type AllCursor = z.infer<typeof AllCursor>;

/** A place in a session. */
export const SessionCursor = z.strictObject({
  /** What the cursor runs over. */
  scope: z.literal("session"),
  /** The session. */
  sessionId: Id,
  /** Last record seen; 0 for the beginning. */
  seq: Count,
  /** Live deltas of that step already seen. */
  index: Count.optional(),
});
export type SessionCursor = z.infer<typeof SessionCursor>;

/** A place in a run. */
export const RunCursor = z.strictObject({
  /** What the cursor runs over. */
  scope: z.literal("run"),
  /** The run. */
  runId: Id,
  /** Last record of its session seen; 0 for the beginning. */
  seq: Count,
  /** Live deltas of that step already seen. */
  index: Count.optional(),
});
export type RunCursor = z.infer<typeof RunCursor>;

/** A place in the runs of an agent. */
export const AgentCursor = z.strictObject({
  /** What the cursor runs over. */
  scope: z.literal("agent"),
  /** The agent. */
  agentId: Id,
  /** Last position seen; 0 for the beginning. */
  position: Count,
});
export type AgentCursor = z.infer<typeof AgentCursor>;

/** A place in what a filter lets through. */
export const FilterCursor = z.strictObject({
  /** What the cursor runs over. */
  scope: z.literal("filter"),
  /** Digest of the filter's criteria. */
  fingerprint: Sha256,
  /** Last position seen; 0 for the beginning. */
  position: Count,
});
export type FilterCursor = z.infer<typeof FilterCursor>;

/** Where a subscriber stands. A cursor of one scope is no good in another. */
export const Cursor = z.discriminatedUnion("scope", [AllCursor, SessionCursor, RunCursor, AgentCursor, FilterCursor]);
export type Cursor = z.infer<typeof Cursor>;
