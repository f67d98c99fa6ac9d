# Generated from spec/ by `make gen`. Do not edit.
"""The values of each enum as literal types, for signatures that also take texts."""

from typing import Literal

ActionStatusValue = Literal["completed", "failed", "rejected"]
ApprovalRuleValue = Literal["policy", "always", "once", "never"]
BudgetNameValue = Literal["tokens", "steps", "tool_calls", "cost", "wall"]
ChatRoleValue = Literal["user", "assistant", "tool", "system"]
CheckStatusValue = Literal["ok", "warn", "error"]
DecisionRunStatusValue = Literal["running", "completed", "failed", "stuck", "cancelled"]
DecisionTypeValue = Literal[
    "tool_selection",
    "parameter_choice",
    "path_choice",
    "output_format",
    "retry_strategy",
    "delegation",
    "termination",
    "custom",
]
EffectClassValue = Literal["read", "idempotent", "once"]
ErrorCodeValue = Literal["rejected", "denied", "conflict", "unavailable", "ambiguous", "corrupt"]
ErrorKindValue = Literal[
    "invalid_package",
    "invalid_state_transition",
    "provider_failure",
    "projection_failure",
    "tool_failure",
    "approval_failure",
    "policy_denial",
    "journal_failure",
    "telemetry_failure",
    "stream_rule_failure",
    "child_lifecycle_failure",
    "extension_failure",
    "subagent_failure",
    "isolation_failure",
    "structured_output_failure",
    "cancellation",
    "hook_failure",
    "timeout",
    "recovery_repair_needed",
    "host_configuration_needed",
]
EvalChangeValue = Literal["fixed", "broken", "same"]
EvalToolsValue = Literal["real", "recorded"]
EventFamilyValue = Literal[
    "session",
    "feedback",
    "run",
    "context",
    "turn",
    "message",
    "reasoning",
    "step",
    "actions",
    "action",
    "program",
    "input",
    "approval",
    "authorization",
    "result",
    "output",
    "compaction",
    "subagent",
    "task",
    "agent",
    "policy",
    "budget",
    "hook",
    "decision",
    "problem",
    "proposal",
    "delivery",
    "recovery",
]
EventTypeValue = Literal[
    "session.started",
    "session.waiting",
    "session.completed",
    "session.failed",
    "session.state_changed",
    "feedback.given",
    "run.event_received",
    "session.moved",
    "session.forked",
    "context.cleared",
    "run.started",
    "run.resumed",
    "run.waiting",
    "run.cancel_requested",
    "run.completed",
    "run.failed",
    "run.cancelled",
    "run.budget_exhausted",
    "turn.started",
    "turn.waiting",
    "turn.completed",
    "turn.failed",
    "turn.cancelled",
    "message.received",
    "message.appended",
    "message.completed",
    "reasoning.appended",
    "reasoning.completed",
    "step.started",
    "step.queued",
    "step.retrying",
    "step.completed",
    "step.failed",
    "actions.requested",
    "action.started",
    "program.paused",
    "program.ended",
    "action.input.appended",
    "action.partial",
    "action.result",
    "input.requested",
    "input.resolved",
    "approval.candidate",
    "approval.dispatched",
    "approval.settled",
    "authorization.required",
    "authorization.completed",
    "result.completed",
    "output.requested",
    "output.rejected",
    "output.validated",
    "output.failed",
    "compaction.requested",
    "compaction.completed",
    "compaction.failed",
    "subagent.called",
    "subagent.started",
    "subagent.event",
    "subagent.completed",
    "task.started",
    "task.settled",
    "agent.started",
    "agent.resolved",
    "policy.decided",
    "budget.reserved",
    "budget.updated",
    "budget.warned",
    "budget.exhausted",
    "hook.invoked",
    "hook.completed",
    "hook.failed",
    "decision.recorded",
    "decision.outcome",
    "decision.evaluated",
    "problem.reported",
    "proposal.made",
    "proposal.checked",
    "proposal.settled",
    "proposal.applied",
    "delivery.intended",
    "delivery.completed",
    "delivery.failed",
    "delivery.deduped",
    "delivery.unknown",
    "recovery.started",
    "recovery.effect_found",
    "recovery.effect_settled",
    "recovery.completed",
]
FailureKindValue = Literal[
    "cancelled",
    "interrupted",
    "repeated_call",
    "stall",
    "budget",
    "output_contract",
    "denied",
    "timeout",
    "provider",
    "invalid_arguments",
    "tool_error",
    "goal_missed",
    "unknown",
]
FinishReasonValue = Literal["stop", "length", "content-filter", "tool-calls", "error", "other"]
HookFailureValue = Literal["fail_open", "deny", "interrupt_run", "fail_run"]
HookPhaseValue = Literal["early", "normal", "late"]
HookRightValue = Literal["observe", "mutate", "veto"]
HookStatusValue = Literal["completed", "failed", "timed_out", "rejected"]
InputDisplayValue = Literal["confirmation", "select", "text"]
InputKindValue = Literal["approval", "question", "recovery", "authorization"]
InputOutcomeValue = Literal["answered", "approved", "cancelled", "denied", "expired", "ignored", "invalid"]
LimitChoiceValue = Literal["refuse", "ask", "cheaper"]
LimitPeriodValue = Literal["run", "day", "month"]
MissedTicksValue = Literal["skip", "once", "all"]
OptionStyleValue = Literal["default", "primary", "danger"]
PolicyKindValue = Literal[
    "approval",
    "permission",
    "sandbox",
    "context",
    "privacy",
    "retention",
    "redaction",
    "runtime_package",
    "host",
]
PolicyStageValue = Literal["run_start", "pre_tool", "post_tool", "output", "delivery"]
PriceGapValue = Literal["no-prices", "unlisted", "unusable", "no-usage"]
PriceSourceValue = Literal["provider", "table", "own", "none"]
ProblemSeverityValue = Literal["critical", "warning", "minor"]
PromptPartValue = Literal["tool", "system", "message"]
ProposalPartValue = Literal["instructions", "tool_description", "policy", "budget", "model"]
RecoveryChoiceValue = Literal["retry", "skip", "supply", "undo"]
ResolverPartValue = Literal["instructions", "tools", "skills"]
ResolverScopeValue = Literal["session", "turn", "step"]
RetentionClassValue = Literal[
    "ephemeral", "run_scoped", "session_scoped", "durable", "persistent", "host_policy"
]
RetryClassValue = Literal[
    "retryable", "not_retryable", "repair_needed", "user_action_needed", "host_configuration_needed"
]
RunModeValue = Literal["conversation", "task"]
RunSortValue = Literal["started", "duration", "cost"]
RunStatusValue = Literal[
    "pending", "running", "waiting", "cancelling", "completed", "failed", "cancelled", "budget_exhausted"
]
SSEEventTypeValue = Literal[
    "content",
    "tool_call",
    "tool_result",
    "error",
    "budget_exhausted",
    "agent",
    "orchestration",
    "loader-hint",
    "keepalive",
    "done",
]
SessionSortValue = Literal["created", "updated", "cost"]
SessionStatusValue = Literal[
    "idle",
    "pending",
    "running",
    "waiting",
    "cancelling",
    "completed",
    "failed",
    "cancelled",
    "budget_exhausted",
]
ShellPlatformValue = Literal["unix", "windows"]
ShellSeverityValue = Literal["safe", "caution", "dangerous"]
SidecarErrorKindValue = Literal[
    "parse",
    "invalid_request",
    "method_not_found",
    "invalid_params",
    "internal",
    "budget_exhausted",
    "policy_denied",
    "tool_failed",
    "transport_closed",
    "timeout",
    "cancelled",
]
SidecarStatusValue = Literal["ok", "degraded", "starting", "shutting_down"]
SourceKindValue = Literal[
    "sdk",
    "host",
    "user",
    "system",
    "developer",
    "memory",
    "compaction",
    "hook",
    "extension",
    "tool",
    "remote_channel",
    "scheduled_task",
    "subagent",
    "external_runtime",
    "replay",
]
StreamShapeValue = Literal["steerable", "events"]
TaintValue = Literal["untrusted", "private"]
TickOverlapValue = Literal["skip", "queue", "cancel"]
ToolModeValue = Literal["read", "safe_write", "destructive", "local", "external"]
ToolOutputTypeValue = Literal["text", "json", "error-text", "error-json", "execution-denied", "content"]
TraceOutcomeValue = Literal["ok", "error", "budget_exhausted", "cancelled"]
TrustClassValue = Literal[
    "trusted", "sdk_generated", "host_provided", "user_provided", "external", "untrusted"
]
UndoStatusValue = Literal["reversible", "reversed", "no_undo", "unknown"]
VersionVerdictValue = Literal["better", "worse", "unclear"]
WaitCauseValue = Literal["input", "recovery", "person", "subagent", "provider", "batch", "timer", "budget"]
