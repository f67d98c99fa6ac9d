/** Bodies of the server's routes, generated from spec/rest.schema.json. Answers are open: more may come. */
import type { ApprovalInfo, SessionInfo as ServerSession, TraceInfo as ServerTrace } from "../generated/index.js";

export {
  Accepted,
  AgentComparison as Comparison,
  AgentInfo,
  AgentList,
  AgentVersion as Version,
  AgentVersions as Versions,
  Answer,
  ApprovalPage,
  DatasetCaseChange,
  Deleted,
  DeliveryInfo,
  DeliveryPage,
  EvalCase,
  EvalComparison,
  EvalDataset,
  EvalDatasetCase,
  EvalDatasetPage,
  EvalDatasetView,
  EvalExperiment,
  EvalExperimentPage,
  EvalPair,
  EvalResult,
  FailingTool,
  FailureCause,
  FailureGroup,
  Failures,
  Fork,
  Health,
  HistoryPage,
  NewDatasetCase,
  NewMessage,
  NewPlaygroundRun,
  PlaygroundDraft,
  FeedbackInfo,
  NewFeedback,
  NewSession,
  PromptMessage,
  ProposalAccepted,
  ProposalList,
  ProposalView,
  ProposalWork,
  RefusedStart,
  RefusedStartPage,
  RunInfo,
  RunNumbers,
  RunPage,
  RunRow,
  SafePoints,
  ScheduleInfo,
  SchedulePage,
  ScheduleTick,
  ScheduleTicks,
  SessionPage,
  SessionStatus,
  Stats,
  StatsBucket,
  StepAnswer,
  StepPrompt,
  ToolInfo,
  ToolList,
  UndoItem,
  UndoPlan,
  Verdict,
} from "../generated/index.js";

/** An object of which some fields may be unknown. */
type Known<T, K extends keyof T> = Pick<T, K> & { readonly [P in keyof T]?: T[P] | undefined };

/** A session in a list: a server knows all of it, a sidecar less. */
export type SessionInfo = Known<ServerSession, "sessionId">;
/** An open request: a server knows where it was asked, a sidecar less. */
export type Approval = Known<ApprovalInfo, "sessionId" | "request">;
/** The spans of a run. */
export type TraceInfo = Known<ServerTrace, "spans" | "events">;
