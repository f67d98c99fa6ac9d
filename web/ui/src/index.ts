/** React hooks and components for agents, over one transport. */
export { httpTransport } from "./transport-http.js";
export { sidecarTransport } from "./transport-sidecar.js";
export type { SidecarModel, SidecarTransportOptions } from "./transport-sidecar.js";
export { Unsupported } from "./transport.js";
export type {
  CallOptions,
  RunFacts,
  SendOptions,
  Sent,
  SessionWish,
  Transport,
  TransportFeatures,
  WatchOptions,
} from "./transport.js";
export { AgentProvider, useTransport } from "./context.js";
export type { SessionView } from "./session-store.js";
export type { Loaded } from "./hooks/use-async.js";
export { useSession } from "./hooks/use-session.js";
export { useChatStream } from "./hooks/use-chat-stream.js";
export type { ChatStream, ChatStreamOptions } from "./hooks/use-chat-stream.js";
export { useAgentSession } from "./hooks/use-agent-session.js";
export type { AgentSessions } from "./hooks/use-agent-session.js";
export { useToolCallStatus } from "./hooks/use-tool-call-status.js";
export type { ToolCallFacts, ToolCallStatus } from "./hooks/use-tool-call-status.js";
export { useApprovals } from "./hooks/use-approvals.js";
export type { Approvals, ApprovalsOptions } from "./hooks/use-approvals.js";
export { useDecisions, useRun, useTrace } from "./hooks/use-run.js";
export type { RunControl, RunOptions } from "./hooks/use-run.js";
export { ChatPanel, Connection } from "./components/chat-panel.js";
export type { ChatPanelProps } from "./components/chat-panel.js";
export { Composer } from "./components/composer.js";
export type { ComposerProps } from "./components/composer.js";
export { MessageList } from "./components/message-list.js";
export type { MessageListProps } from "./components/message-list.js";
export type { MessageItem, RowOptions } from "./components/message.js";
export { Markdown } from "./components/markdown.js";
export { ToolCallRenderer } from "./components/tool-call.js";
export type { ToolCallProps, ToolRenderer } from "./components/tool-call.js";
export { ApprovalCard, QuestionCard, RequestCard } from "./components/request-card.js";
export { wordsOf } from "./components/request-card.js";
export type { RequestCardProps } from "./components/request-card.js";
export { OrchestrationPlanCard, planOf } from "./components/orchestration-plan-card.js";
export type { OrchestrationPlanCardProps, PlanStep } from "./components/orchestration-plan-card.js";
export { SSEStreamView } from "./components/sse-stream-view.js";
export type { SSEStreamViewProps } from "./components/sse-stream-view.js";
export { spanRows, TraceWaterfall } from "./components/trace-waterfall.js";
export type { SpanRow, TraceWaterfallProps } from "./components/trace-waterfall.js";
export { DecisionCard } from "./components/decision-card.js";
export { CostMeter } from "./components/cost-meter.js";
export type { CostMeterProps } from "./components/cost-meter.js";
export { BUTTONS, CARD, classes, CODE, FIELD, FOCUS } from "./components/styles.js";
export { CopyButton } from "./components/code-block.js";
export {
  cut,
  formatBytes,
  formatCost,
  formatCount,
  formatDuration,
  formatExactly,
  formatValue,
  sentence,
} from "./format.js";
