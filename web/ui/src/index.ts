"use client";

/** React hooks and components for agents, over one transport. */
export { httpTransport } from "./http.js";
export { sidecarTransport, type SidecarModel, type SidecarTransportOptions } from "./sidecar.js";
export {
  Unsupported,
  type CallOptions,
  type RunFacts,
  type SendOptions,
  type Sent,
  type SessionWish,
  type Transport,
  type TransportFeatures,
  type WatchOptions,
} from "./transport.js";
export {
  AgentProvider,
  useAgentSession,
  useRunRecords,
  useSession,
  useTransport,
  type AgentSessions,
  type SessionView,
} from "./session.js";
export { useDecisions, useRun, useTrace, type Loaded, type RunControl, type RunOptions } from "./data.js";
export {
  changingCalls,
  ChatPanel,
  Composer,
  Connection,
  CostMeter,
  RepeatDialog,
  useChatStream,
  type ChatPanelProps,
  type ChatStream,
  type ChatStreamOptions,
  type ComposerProps,
  type CostMeterProps,
  type RepeatDialogProps,
} from "./chat.js";
export {
  MessageList,
  OrchestrationPlanCard,
  planOf,
  ToolCallRenderer,
  useToolCallStatus,
  type MessageItem,
  type MessageListProps,
  type OrchestrationPlanCardProps,
  type PlanStep,
  type RowOptions,
  type ToolCallFacts,
  type ToolCallProps,
  type ToolCallStatus,
  type ToolRenderer,
} from "./messages.js";
export {
  ApprovalCard,
  Arguments,
  EditButton,
  effectOf,
  Facts,
  Fields,
  InterruptedCard,
  QuestionCard,
  RequestCard,
  useApprovals,
  useArgumentDraft,
  wordsOf,
  type Approvals,
  type ApprovalsOptions,
  type ArgumentDraft,
  type KnownCall,
  type RequestCardProps,
} from "./requests.js";
export { Markdown } from "./markdown.js";
export {
  Badge,
  Button,
  Chip,
  CodeView,
  CopyButton,
  Dialog,
  JsonView,
  Panel,
  type BadgeProps,
  type ButtonProps,
  type ChipProps,
  type CodeViewProps,
  type DialogProps,
  type JsonViewProps,
  type PanelProps,
  type Tone,
} from "./primitives.js";
export { SessionList, type SessionListProps } from "./sessions.js";
export { SSEStreamView, TraceTree, type SSEStreamViewProps, type TraceTreeProps } from "./trace.js";
export {
  axisOf,
  runIdOf,
  traceShape,
  type Axis,
  type SpanKind,
  type SpanStatus,
  type TraceNode,
  type TraceShape,
  withoutClass,
} from "./spans.js";
export { DecisionCard } from "./decisions.js";
export {
  ColumnMenu,
  DataTable,
  useColumns,
  type ColumnLayout,
  type DataTableProps,
  type TableColumn,
  type TableSort,
} from "./table.js";
export { ENGLISH, LabelsProvider, useWording, type Labels, type SomeLabels, type Wording } from "./labels.js";
export { BUTTONS, CARD, CHIPS, classes, CODE, FIELD, FOCUS } from "./styles.js";
export {
  cut,
  formatAgo,
  formatBytes,
  formatClock,
  formatCost,
  formatCount,
  formatDuration,
  formatExactly,
  formatMoment,
  formatPercent,
  formatShort,
  formatSigned,
  formatValue,
  formatWhen,
  inOneLine,
  plural,
  sentence,
  shortHash,
  shortId,
  undisguised,
  visible,
  type Formats,
} from "./format.js";
