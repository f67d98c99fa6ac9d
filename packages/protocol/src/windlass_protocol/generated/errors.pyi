# Generated from spec/errors.schema.json by `make gen`. Do not edit.
"""The one error shape. Codes are stable; texts are not."""

from enum import StrEnum
from typing import Annotated

from pydantic import StringConstraints

from windlass_protocol._wire import JsonObject, Maybe, Open, Str
from windlass_protocol.generated.common import CausalIds, Count, PolicyRef, SourceRef

class ErrorCode(StrEnum):
    """What the caller should do: rejected = fix the request; denied = ask a person; conflict = read again,
    then decide; unavailable = retry later with the same key; ambiguous = reconcile, never retry blindly;
    corrupt = stop and call a human.
    """

    REJECTED = "rejected"
    DENIED = "denied"
    CONFLICT = "conflict"
    UNAVAILABLE = "unavailable"
    AMBIGUOUS = "ambiguous"
    CORRUPT = "corrupt"

class ErrorKind(StrEnum):
    """Which part of the machine failed."""

    INVALID_PACKAGE = "invalid_package"
    INVALID_STATE_TRANSITION = "invalid_state_transition"
    PROVIDER_FAILURE = "provider_failure"
    PROJECTION_FAILURE = "projection_failure"
    TOOL_FAILURE = "tool_failure"
    APPROVAL_FAILURE = "approval_failure"
    POLICY_DENIAL = "policy_denial"
    JOURNAL_FAILURE = "journal_failure"
    TELEMETRY_FAILURE = "telemetry_failure"
    STREAM_RULE_FAILURE = "stream_rule_failure"
    CHILD_LIFECYCLE_FAILURE = "child_lifecycle_failure"
    EXTENSION_FAILURE = "extension_failure"
    SUBAGENT_FAILURE = "subagent_failure"
    ISOLATION_FAILURE = "isolation_failure"
    STRUCTURED_OUTPUT_FAILURE = "structured_output_failure"
    CANCELLATION = "cancellation"
    HOOK_FAILURE = "hook_failure"
    TIMEOUT = "timeout"
    RECOVERY_REPAIR_NEEDED = "recovery_repair_needed"
    HOST_CONFIGURATION_NEEDED = "host_configuration_needed"

class RetryClass(StrEnum):
    """Whether and after what a failed request may be tried again."""

    RETRYABLE = "retryable"
    NOT_RETRYABLE = "not_retryable"
    REPAIR_NEEDED = "repair_needed"
    USER_ACTION_NEEDED = "user_action_needed"
    HOST_CONFIGURATION_NEEDED = "host_configuration_needed"

class ErrorInfo(Open):
    """An error as it crosses the wire."""

    code: ErrorCode
    """What the caller should do."""
    kind: ErrorKind
    """Which part failed."""
    retry: RetryClass
    """Whether trying again can help."""
    message: Annotated[Str, StringConstraints(min_length=1, max_length=4096)]
    """What was expected, what was found, and what to do next. Never a payload."""
    causal_ids: Maybe[CausalIds] = None
    """The things that led to the error."""
    policy_refs: Maybe[tuple[PolicyRef, ...]] = None
    """The policies that refused, in order."""
    policy_code: Maybe[Str] = None
    """The code of the decision of a policy that refused."""
    source: Maybe[SourceRef] = None
    """Where the failed request came from."""
    retry_after_ms: Maybe[Count] = None
    """Earliest time to try again, in milliseconds from now."""
    details: Maybe[JsonObject] = None
    """Further facts, already redacted."""
