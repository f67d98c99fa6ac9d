"""Errors that end a run, with their texts and remedies."""

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from windlass_harness.loop.notes import CONTEXT_OVERFLOW
from windlass_harness.loop.rules import NO_RUN_LIMITS, Rules, RunLimit
from windlass_protocol import (
    BudgetName,
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    FinishReason,
    JsonObject,
    OutputError,
    PolicyRef,
    RetryClass,
)
from windlass_protocol.bodies import data_of
from windlass_protocol.generated import records
from windlass_protocol.limits import ERROR_MESSAGE_CHARS_MAX

_OF_ACCOUNT: Final = (RetryClass.HOST_CONFIGURATION_NEEDED, RetryClass.USER_ACTION_NEEDED)
_BAD_ANSWERS: Final = frozenset({"empty", "malformed"})
"""Faults of a provider that answers: more attempts cost tokens and do not help."""


def cut_off(reason: FinishReason) -> ErrorInfo:
    """Return the error of an answer that stopped early."""
    if reason is FinishReason.LENGTH:
        message = "The model stopped at its output limit before it was done; raise the limit or ask for less."
    else:
        message = f"The model did not finish its answer ({reason.value})."
    return _reject_error(ErrorKind.PROVIDER_FAILURE, message)


def too_many_calls(count: int, rules: Rules) -> ErrorInfo:
    """Return the error of an answer with too many calls."""
    message = f"too many calls in one answer: {count}, limit {rules.calls_per_step_max}"
    return _reject_error(ErrorKind.PROVIDER_FAILURE, message)


def too_many_refusals(rules: Rules) -> ErrorInfo:
    """Return the error of a model that keeps requesting calls that are refused."""
    message = f"The model asked over {rules.refusals_max} times in a row for calls that cannot be made."
    return _reject_error(ErrorKind.TOOL_FAILURE, message)


def not_reversed(names: Sequence[str], count: int) -> ErrorInfo:
    """Return the error of a run that could not reverse all calls of its list."""
    message = (
        f"{len(names)} of {count} calls were not reversed: {', '.join(names[:_NAMES_MAX])}. "
        "The results of these calls say why. Undo the run again for the rest."
    )
    return _reject_error(ErrorKind.TOOL_FAILURE, message)


def job_failed(message: str) -> ErrorInfo:
    """Return the error of a job whose tool has no result."""
    return _reject_error(ErrorKind.TOOL_FAILURE, message[:ERROR_MESSAGE_CHARS_MAX])


_NAMES_MAX: Final = 20


def too_many_steps(rules: Rules) -> ErrorInfo:
    """Return the error of a run with too many model calls."""
    message = f"The run has made {rules.steps_max} model calls, which is the most one run may make."
    return _reject_error(ErrorKind.RECOVERY_REPAIR_NEEDED, message)


def interrupted_too_often(times: int, *, during: str = "model call") -> ErrorInfo:
    """Return the error of a model call or of a program that was interrupted too often."""
    message = (
        f"The process ended {times} times during this {during}, so it is not repeated by itself. "
        "Find out what ends the process (memory, a provider that crashes), then retry the run."
    )
    return ErrorInfo(
        code=ErrorCode.AMBIGUOUS,
        kind=ErrorKind.RECOVERY_REPAIR_NEEDED,
        retry=RetryClass.USER_ACTION_NEEDED,
        message=message,
        details={"reason": "interrupted_too_often", "attempts": times},
    )


def too_many_events(rules: Rules) -> ErrorInfo:
    """Return the error of a run that got too many events."""
    return _reject_error(
        ErrorKind.TOOL_FAILURE,
        f"The run got more than {rules.workflow_events_max:,} events, so it ends. Start a new run for more, "
        "or raise Rules(workflow_events_max=…).",
    )


def divergence_error() -> ErrorInfo:
    """Return the error of a workflow that went another way, which a person ended."""
    return _reject_error(
        ErrorKind.TOOL_FAILURE,
        "The workflow went another way than its records, and a person ended the run. None of its calls was "
        "repeated. Read clocks and random numbers from the context, and what else differs from time to time "
        "in a tool; mark deliberate changes with ctx.changed. Then start a new run.",
    )


def is_overflow(error: ErrorInfo) -> bool:
    """Whether the prompt was too long for the model."""
    return (error.details or {}).get("fault") == CONTEXT_OVERFLOW


def is_outage(error: ErrorInfo) -> bool:
    """Whether the provider is away for a while: it can be waited for."""
    is_answer = (error.details or {}).get("fault") in _BAD_ANSWERS
    return error.retry is RetryClass.RETRYABLE and not is_answer


def is_refusal_of_account(error: ErrorInfo) -> bool:
    """Whether the provider refuses the key or the account: another provider may serve the request."""
    return error.kind is ErrorKind.PROVIDER_FAILURE and error.retry in _OF_ACCOUNT


def prompt_too_long(error: ErrorInfo) -> ErrorInfo:
    """Return the error of a prompt that is too long even after a compaction."""
    message = f"The prompt is too long for the model even after a compaction. {_SHORTEN} {error.message}"
    return error.model_copy(
        update={
            "retry": RetryClass.USER_ACTION_NEEDED,
            "message": message[:ERROR_MESSAGE_CHARS_MAX],
            "details": {**(error.details or {}), "reason": CONTEXT_OVERFLOW},
        }
    )


def cannot_shrink(tokens: int) -> ErrorInfo:
    """Return the error of a prompt that is too long and cannot be compacted."""
    message = f"The prompt, about {tokens:,} tokens, is too long for the model and cannot be made shorter."
    return ErrorInfo(
        code=ErrorCode.REJECTED,
        kind=ErrorKind.PROJECTION_FAILURE,
        retry=RetryClass.USER_ACTION_NEEDED,
        message=f"{message} {_SHORTEN}",
        details={"fault": CONTEXT_OVERFLOW, "reason": CONTEXT_OVERFLOW, "tokens": tokens},
    )


def does_not_fit(tokens: int, limit: int) -> ErrorInfo:
    """Return the error of a history that exceeds the limit after a compaction."""
    message = f"The prompt fills about {tokens:,} tokens even after a compaction, limit {limit:,}."
    return ErrorInfo(
        code=ErrorCode.REJECTED,
        kind=ErrorKind.PROJECTION_FAILURE,
        retry=RetryClass.USER_ACTION_NEEDED,
        message=f"{message} {_SHORTEN}",
        details={"reason": CONTEXT_OVERFLOW, "tokens": tokens, "limit": limit},
    )


_SHORTEN: Final = (
    "Send a shorter message, shorten the instructions or the tools, raise the threshold of the agent's "
    "compaction if its model reads more, or start a new session."
)


def missing_price(model_id: str) -> ErrorInfo:
    """Return the error of a run with a limit in money whose model has no price."""
    return ErrorInfo(
        code=ErrorCode.REJECTED,
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        message=f"The run has a limit in money, and model {model_id} has no price in this process. Give the "
        "agent its prices, or set them under [prices] in windlass.toml, and retry the run.",
    )


NEEDED_MICROS: Final = "neededMicros"
"""In the details of the error of a used-up budget: what the next answer may cost at least."""


def out_of_budget(
    spent: Sequence[tuple[BudgetName, int, int]],
    *,
    needed: int | None = None,
    run_limits: Mapping[BudgetName, RunLimit] = NO_RUN_LIMITS,
) -> ErrorInfo:
    """Return the error of used-up budgets; `spent` has name, amount used and limit of each.

    `needed` is what the next answer may cost at least; `run_limits` are limits that budgets come from.
    """
    amounts: list[str] = []
    budgets: list[JsonValue] = []
    details: dict[str, JsonValue] = {"reason": "budget_exhausted", "budgets": budgets}
    for name, used, most in spent:
        amount = f"{used:,} of {most:,} {_UNITS[name]}"
        budget: JsonObject = {"name": name.value, "limit": most, "used": used}
        limit = run_limits.get(name)
        if limit is not None:
            subject = f" of {limit.subject}" if limit.subject else ""
            amount = f"{amount} of limit {limit.name}{subject} for each run"
            details |= {"limit": limit.name, "subject": limit.subject, "per": "run"}
        amounts.append(amount)
        budgets.append(budget)
    more = "" if needed is None else f", and the next answer may cost {needed:,}"
    if needed is not None:
        details[NEEDED_MICROS] = needed
    advice = (
        "An operator can raise the limit." if "limit" in details else "Give a new run more, or ask for less."
    )
    return ErrorInfo(
        code=ErrorCode.DENIED,
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        message=f"The run has used up its budget: {', '.join(amounts)}{more}. {advice}",
        details=details,
    )


def limit_title(name: str, subject: str, period: str) -> str:
    """Return how people read which limit it is; subject and period are empty if it has none."""
    return "".join((f"limit {name}", f" of {subject}" if subject else "", f" for {period}" if period else ""))


def limit_kept(limit: str, reason: str | None, *, subject: str, period: str) -> ErrorInfo:
    """Return the error of a run that a person did not let exceed a limit."""
    title, detail = limit_title(limit, subject, period), f": {reason}" if reason else ""
    return ErrorInfo(
        code=ErrorCode.DENIED,
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        message=f"The {title} is reached, and a person refused to let the run exceed it{detail}",
        details={"reason": "limit_reached", "limit": limit, "subject": subject, "period": period},
    )


_UNITS: Final = {
    BudgetName.TOKENS: "tokens",
    BudgetName.STEPS: "steps",
    BudgetName.TOOL_CALLS: "tool calls",
    BudgetName.COST: "millionths of a dollar",
    BudgetName.WALL: "milliseconds",
}


def outcome_unknown(tool_names: Sequence[str]) -> ErrorInfo:
    """Return the error of a run that was cancelled while calls were running."""
    tools = ", ".join(tool_names)
    return ErrorInfo(
        code=ErrorCode.AMBIGUOUS,
        kind=ErrorKind.CANCELLATION,
        retry=RetryClass.USER_ACTION_NEEDED,
        message=f"The run was cancelled while calls were under way, which may have taken effect: {tools}.",
        details={"reason": "outcome_unknown", "tools": [*tool_names]},
    )


def unfit(attempts: int, errors: Sequence[OutputError] = ()) -> ErrorInfo:
    """Return the error of a run without a valid answer to its output contract.

    `errors` are those of the last answer.
    """
    misses = "; ".join(f"{error.path or '/'}: {error.message}" for error in errors[:_MISSES_TOLD_MAX])
    message, last = f"No answer fitted the output contract in {attempts} attempts.", "the last one"
    if attempts == 1:
        message, last = "The answer did not fit the output contract, and no repair was allowed.", "it"
    wrong = f" What was wrong with {last}: {misses}." if misses else ""
    return _reject_error(ErrorKind.STRUCTURED_OUTPUT_FAILURE, f"{message}{wrong} {_UNFIT_REMEDY}")


_MISSES_TOLD_MAX: Final = 3
_UNFIT_REMEDY: Final = (
    "Show an answer that fits in the instructions, ask for less, or take a model that keeps to schemas."
)


def policy_interruption(decision: records.InterruptDecision) -> ErrorInfo:
    """Return the error of a run that a policy ended."""
    refs = [PolicyRef.model_validate(data_of(ref)) for ref in decision.policy_refs]
    return ErrorInfo(
        code=ErrorCode.DENIED,
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        message=decision.reason,
        policy_refs=tuple(refs),
    )


def _reject_error(kind: ErrorKind, message: str) -> ErrorInfo:
    return ErrorInfo(code=ErrorCode.REJECTED, kind=kind, retry=RetryClass.NOT_RETRYABLE, message=message)
