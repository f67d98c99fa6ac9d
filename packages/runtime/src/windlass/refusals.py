"""The errors that a run is refused with, each with the ids that caused it."""

from windlass.errors import AgentError, Ambiguous, Conflict, Corrupt, Denied, Rejected, Unavailable
from windlass_protocol import (
    CausalIds,
    ErrorKind,
    InputRequest,
    InputResponse,
    PolicyDecision,
    RetryClass,
    RunResult,
    RunStatus,
    SourceRef,
)

_CLASSES = {one.code: one for one in (Rejected, Denied, Conflict, Unavailable, Ambiguous, Corrupt)}


def missing_port(name: str, run_id: str | None = None) -> Rejected:
    """Return the error of a runtime that was built without something it needs."""
    return Rejected(
        f"missing required runtime port: {name}",
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        causal_ids=CausalIds(run_id=run_id),
    )


def bad_setup(message: str) -> Rejected:
    """Return the error of a host that puts a runtime together wrongly."""
    return Rejected(
        message,
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    )


def invalid_package(message: str, run_id: str | None = None) -> Rejected:
    """Return the error of a package that cannot be run."""
    return Rejected(
        message,
        kind=ErrorKind.INVALID_PACKAGE,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        causal_ids=CausalIds(run_id=run_id),
    )


def contract_violation(message: str, run_id: str | None = None) -> Conflict:
    """Return the error of a value that breaks what the parts have agreed on."""
    return Conflict(
        message,
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.REPAIR_NEEDED,
        causal_ids=CausalIds(run_id=run_id),
    )


def missing_provider(route_id: str, run_id: str | None = None) -> Unavailable:
    """Return the error of a package whose model nobody provides."""
    return Unavailable(
        f"missing provider adapter for package route {route_id}",
        kind=ErrorKind.PROVIDER_FAILURE,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        causal_ids=CausalIds(run_id=run_id),
    )


def unknown_run(run_id: str) -> Conflict:
    """Return the error of somebody who asks for a run that nobody ever started."""
    return contract_violation("run is not registered with this runtime", run_id)


def unknown_session(session_id: str) -> Conflict:
    """Return the error of somebody who means a session that there is not."""
    return Conflict(
        "there is no such session; start a run in it first",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=CausalIds(session_id=session_id),
    )


def taken_run(run_id: str) -> Conflict:
    """Return the error of a run id that was used for something else."""
    return Conflict(
        "run_id is already registered with this runtime, with another request; choose another id",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=CausalIds(run_id=run_id),
    )


def start_denied(decision: PolicyDecision, run_id: str, *, source: SourceRef | None) -> Denied:
    """Return the error of a run that the start policy does not let start."""
    match decision.decision:
        case "ask":
            message = "policy requested host approval before run start"
        case "modify":
            message = "policy modification is not valid for runtime start"
        case _:
            message = decision.code
    return Denied(
        message,
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        causal_ids=CausalIds(run_id=run_id),
        policy_refs=decision.policy_refs,
        source=source,
    )


def policy_failed(problem: str, run_id: str, *, source: SourceRef | None) -> Denied:
    """Return the error of a start policy that gives no decision: it is a no."""
    return Denied(
        f"the start policy {problem}, so the run is denied",
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        causal_ids=CausalIds(run_id=run_id),
        source=source,
    )


def refused_answer(
    request: InputRequest | None, response: InputResponse, *, problem: str, session_id: str
) -> Conflict | Denied | Rejected:
    """Return the error of an answer that does not count."""
    ids = CausalIds(session_id=session_id, request_id=response.request_id)
    if request is None or "expired" in problem:
        return Conflict(
            problem, kind=ErrorKind.APPROVAL_FAILURE, retry=RetryClass.NOT_RETRYABLE, causal_ids=ids
        )
    kind = Denied if "responder" in problem else Rejected
    return kind(problem, kind=ErrorKind.APPROVAL_FAILURE, retry=RetryClass.USER_ACTION_NEEDED, causal_ids=ids)


def no_value(result: RunResult) -> AgentError:
    """Return the error of a run that ended without what it should have returned."""
    ids = CausalIds(run_id=result.run_id, session_id=result.session_id)
    error = result.error
    if error is not None:
        kind = _CLASSES[error.code]
        found = kind(
            error.message,
            kind=error.kind,
            retry=error.retry,
            policy_refs=error.policy_refs or (),
            source=error.source,
            retry_after_ms=error.retry_after_ms,
        )
        return found.caused_by(error.causal_ids or ids).caused_by(ids)
    if result.status is RunStatus.CANCELLED:
        return Conflict(
            "the run was cancelled before it returned anything",
            kind=ErrorKind.CANCELLATION,
            retry=RetryClass.USER_ACTION_NEEDED,
            causal_ids=ids,
        )
    return Denied(
        "the run has used up its budget before it returned anything",
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        causal_ids=ids,
    )
