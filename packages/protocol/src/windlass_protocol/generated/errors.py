# Generated from spec/errors.schema.json by `make gen`. Do not edit.
"""The one error shape. Codes are stable; texts are not.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_ErrorCode() -> object:
    from enum import StrEnum

    class ErrorCode(StrEnum):
        """What the caller should do: rejected = fix the request; denied = ask a person; conflict = read again,
        then decide; unavailable = retry later with the same key; ambiguous = reconcile, never retry blindly;
        corrupt = stop and call a human.
        """

        __qualname__ = "ErrorCode"

        REJECTED = "rejected"
        DENIED = "denied"
        CONFLICT = "conflict"
        UNAVAILABLE = "unavailable"
        AMBIGUOUS = "ambiguous"
        CORRUPT = "corrupt"

    return ErrorCode


def _make_ErrorKind() -> object:
    from enum import StrEnum

    class ErrorKind(StrEnum):
        """Which part of the machine failed."""

        __qualname__ = "ErrorKind"

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

    return ErrorKind


def _make_RetryClass() -> object:
    from enum import StrEnum

    class RetryClass(StrEnum):
        """Whether and after what a failed request may be tried again."""

        __qualname__ = "RetryClass"

        RETRYABLE = "retryable"
        NOT_RETRYABLE = "not_retryable"
        REPAIR_NEEDED = "repair_needed"
        USER_ACTION_NEEDED = "user_action_needed"
        HOST_CONFIGURATION_NEEDED = "host_configuration_needed"

    return RetryClass


def _make_ErrorInfo() -> object:
    from typing import Annotated

    from pydantic import StringConstraints

    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import CausalIds, Count, PolicyRef, SourceRef
    from windlass_protocol.generated.errors import ErrorCode, ErrorKind, RetryClass

    class ErrorInfo(Open):
        """An error as it crosses the wire."""

        __qualname__ = "ErrorInfo"

        code: ErrorCode
        kind: ErrorKind
        retry: RetryClass
        message: Annotated[Str, StringConstraints(min_length=1, max_length=4096)]
        causal_ids: Maybe[CausalIds] = None
        policy_refs: Maybe[tuple[PolicyRef, ...]] = None
        policy_code: Maybe[Str] = None
        source: Maybe[SourceRef] = None
        retry_after_ms: Maybe[Count] = None
        details: Maybe[JsonObject] = None

    return ErrorInfo


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "ErrorCode": _make_ErrorCode,
        "ErrorKind": _make_ErrorKind,
        "RetryClass": _make_RetryClass,
        "ErrorInfo": _make_ErrorInfo,
    },
)
