"""Refusals: the typed errors of bad requests and bad options, and their checks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, cast

from windlass.errors import (
    AgentError,
    Ambiguous,
    Conflict,
    Corrupt,
    Denied,
    Rejected,
    Unavailable,
    UnknownName,
    kind_of,
    near_names,
    option_problem,
    unicode_problem,
)
from windlass.limits import CONTENT_BYTES_MAX, NAMES_SHOWN_MAX, WAIT_MS_MAX
from windlass_harness.ledger.names import NOTES
from windlass_protocol import (
    CodecError,
    CodecLimits,
    ErrorKind,
    PriceGap,
    RetryClass,
    RunStatus,
    canonical,
)
from windlass_protocol.codec_errors import printable
from windlass_protocol.codec_issues import invalid
from windlass_protocol.generated import common, runs
from windlass_protocol.limits import BIDI_CONTROLS, FREE_LEVELS_MAX, ID_CHARS_MAX

if TYPE_CHECKING:
    from pydantic import JsonValue, ValidationError

    from windlass.ports.listing import SettledRequest
    from windlass_protocol import (
        InputRequest,
        InputResponse,
        PolicyDecision,
        RunRequest,
        RunResult,
        SourceRef,
    )

NAME_SHOWN_CHARS_MAX: Final = 128
"""Characters of a name that an error message quotes."""
_CLASSES = {one.code: one for one in (Rejected, Denied, Conflict, Unavailable, Ambiguous, Corrupt)}


def missing_port(name: str, run_id: str | None = None) -> Rejected:
    """Return the error for a runtime that was built without a required port."""
    return bad_setup(f"missing required runtime port: {name}", run_id)


def bad_setup(message: str, run_id: str | None = None) -> Rejected:
    """Return the error for an invalid option of the runtime or of one of its parts."""
    return Rejected(
        message,
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        causal_ids=common.CausalIds(run_id=run_id),
    )


def bad_request(message: str, run_id: str | None = None) -> Rejected:
    """Return the error for an invalid request."""
    return Rejected(
        message,
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=common.CausalIds(run_id=run_id),
    )


def invalid_package(message: str, run_id: str | None = None) -> Rejected:
    """Return the error for a package that cannot be run."""
    return Rejected(
        message,
        kind=ErrorKind.INVALID_PACKAGE,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        causal_ids=common.CausalIds(run_id=run_id),
    )


def unknown_agent(agent_id: str, agent_ids: Sequence[str], *, run_id: str | None = None) -> Rejected:
    """Return the error for a request that names an agent this runtime does not have."""
    names = ", ".join(agent_ids[:NAMES_SHOWN_MAX]) or "none"
    more = f" and {len(agent_ids) - NAMES_SHOWN_MAX} more" if len(agent_ids) > NAMES_SHOWN_MAX else ""
    return invalid_package(
        f"unknown agent: {printable(agent_id, NAME_SHOWN_CHARS_MAX)}; this runtime has {names}{more}; "
        "add it to the agents of the runtime",
        run_id,
    )


def change_conflict(message: str) -> Conflict:
    """Return the error for a change of a document that its present state does not allow."""
    return Conflict(message, kind=ErrorKind.INVALID_STATE_TRANSITION, retry=RetryClass.NOT_RETRYABLE)


def unknown_document(what: str, name: str) -> Conflict:
    """Return the error for a name that no document has; `what` is its kind, such as `schedule`."""
    return UnknownName(
        f"unknown {what}: {printable(name, NAME_SHOWN_CHARS_MAX)}",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
    )


def too_many_writers(what: str) -> Unavailable:
    """Return the error for a document that other processes changed at each of `WRITES_MAX` attempts."""
    return Unavailable(
        f"{what} is being changed by others: try again",
        kind=ErrorKind.JOURNAL_FAILURE,
        retry=RetryClass.RETRYABLE,
    )


def contract_violation(message: str, run_id: str | None = None) -> Conflict:
    """Return the error for a value that breaks the contract between two parts, such as an unknown id."""
    return Conflict(
        message,
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.REPAIR_NEEDED,
        causal_ids=common.CausalIds(run_id=run_id),
    )


def missing_provider(route_id: str, run_id: str | None = None, *, known: Sequence[str] = ()) -> Unavailable:
    """Return the error for a package with a model that no provider serves.

    `known` are the routes that exist.
    """
    name = printable(route_id, NAME_SHOWN_CHARS_MAX)
    routes = f"; known routes: {', '.join(known[:NAMES_SHOWN_MAX])}" if known else ""
    return Unavailable(
        f"missing provider adapter for package route {name}{routes}; add your own with "
        f'providers={{"{name}": …}}, or give the agent an object as its model{near_names([route_id], known)}',
        kind=ErrorKind.PROVIDER_FAILURE,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        causal_ids=common.CausalIds(run_id=run_id),
    )


def missing_price(
    agent_id: str, model: str, gap: PriceGap, *, reason: str, run_id: str | None = None
) -> Rejected:
    """Return the error for a model without a price where money is limited."""
    name = printable(model, NAME_SHOWN_CHARS_MAX)
    return bad_setup(
        f"{reason}, and model {name} of agent {printable(agent_id, NAME_SHOWN_CHARS_MAX)} has no price: "
        f'{PRICE_GAPS[gap]}; add one with prices={{"{name}": {{"input": …, "output": …}}}} to the agent, in '
        "dollars per million tokens, or under [prices] in windlass.toml; 0 if it is free",
        run_id,
    )


def no_batches(agent_id: str, route_id: str, run_id: str) -> Rejected:
    """Return the error for model calls in batches whose provider has none."""
    return bad_setup(
        f"agent {printable(agent_id, NAME_SHOWN_CHARS_MAX)} or the start of its run has "
        f'batch="within 24h", and its provider {printable(route_id, NAME_SHOWN_CHARS_MAX)} '
        "has no batches: take a model of openai, "
        "openai-responses or anthropic, or leave batch out",
        run_id,
    )


PRICE_GAPS: Final[Mapping[PriceGap, str]] = {
    PriceGap.NO_PRICES: "its server is not in the price table",
    PriceGap.UNLISTED: "the price table does not have it",
    PriceGap.UNUSABLE: "its usage is incomplete or contradicts itself",
    PriceGap.NO_USAGE: "its provider reported no usage",
}
"""Why a model call has no price, in words."""


def missing_agent(agent_id: str) -> Unavailable:
    """Return the error for a subagent run if the calling agent (and so its policy) is not in this process."""
    return Unavailable(
        f"the policy of the calling agent {printable(agent_id, NAME_SHOWN_CHARS_MAX)} is not in this process",
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    )


def missing_deps(agent_id: str, problem: str | None = None) -> Unavailable:
    """Return the error for a run that continues here without its dependencies; `problem` is an exception."""
    name = printable(agent_id, NAME_SHOWN_CHARS_MAX)
    why = (
        f"the dependencies of agent {name} are not in this process; start the run again with deps=…, or open "
        "the runtime with a factory: deps={agent: factory}"
        if problem is None
        else f"the factory of the dependencies of agent {name} failed ({problem})"
    )
    return Unavailable(
        why, kind=ErrorKind.HOST_CONFIGURATION_NEEDED, retry=RetryClass.HOST_CONFIGURATION_NEEDED
    )


def unmet_deps(agent_id: str, missing: str, run_id: str) -> Rejected:
    """Return the error for a start of an agent without the dependencies that it or a subagent needs."""
    name, needs = printable(agent_id, NAME_SHOWN_CHARS_MAX), printable(missing, NAME_SHOWN_CHARS_MAX)
    who = f"agent {name}" if missing == agent_id else f"subagent {needs} of agent {name}"
    return bad_setup(
        f"{who} needs dependencies: pass deps=… to run or start, write Agent(…, deps=factory), or open the "
        "runtime with deps={agent: factory}",
        run_id,
    )


def runtime_closed() -> Unavailable:
    """Return the error for a caller that waits on a closed runtime."""
    return Unavailable(
        "the runtime was closed; unfinished runs continue when a runtime is opened on the same store",
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    )


def unknown_run(run_id: str) -> Conflict:
    """Return the error for a run id that the store does not have."""
    return UnknownName(
        f"unknown run: {printable(run_id, NAME_SHOWN_CHARS_MAX)}",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.REPAIR_NEEDED,
        causal_ids=common.CausalIds(run_id=run_id),
    )


def late_event(run_id: str, status: str) -> Conflict:
    """Return the error for an event that is sent to a run that has ended."""
    return contract_violation(f"the run has ended ({status}): no event reaches it", run_id)


def not_begun(run_id: str) -> Conflict:
    """Return the error for reading a run that is still queued."""
    return contract_violation("the run has not started: it waits for the previous run of its session", run_id)


def unknown_session(session_id: str) -> Conflict:
    """Return the error for a session id that the store does not have."""
    return UnknownName(
        f"unknown session: {printable(session_id, NAME_SHOWN_CHARS_MAX)}; start a run in it first",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=common.CausalIds(session_id=session_id),
    )


def run_id_in_use(run_id: str, differs: str) -> Conflict:
    """Return the error for a run id that another request used already."""
    name = printable(run_id, NAME_SHOWN_CHARS_MAX)
    return Conflict(
        f"run_id {name} is already registered with this runtime, with another request: {differs}; choose "
        "another id, or read that run",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=common.CausalIds(run_id=run_id),
    )


def not_retryable(run_id: str, why: str) -> Conflict:
    """Return the error for a run that cannot be retried."""
    return Conflict(
        f"run {printable(run_id, NAME_SHOWN_CHARS_MAX)} cannot be retried: {why}",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=common.CausalIds(run_id=run_id),
    )


def not_undoable(run_id: str, why: str) -> Conflict:
    """Return the error for a run that cannot be undone."""
    return Conflict(
        f"run {printable(run_id, NAME_SHOWN_CHARS_MAX)} cannot be undone: {why}",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=common.CausalIds(run_id=run_id),
    )


def reserved_id(what: str) -> Rejected:
    """Return the error for an id with a prefix that is reserved for subagents."""
    return bad_request(
        f"{what} begins with a prefix that is reserved for subagents; choose one that begins neither with "
        "subagent: nor with session:subagent:"
    )


def notes_name(what: str) -> Rejected:
    """Return the error for an id with the prefix that is reserved for sessions with judgements of runs."""
    return bad_request(
        f"{what} begins with {NOTES}, which is reserved for sessions that keep judgements of runs; "
        "choose another one"
    )


def start_denied(decision: PolicyDecision, run_id: str, *, source: SourceRef | None) -> Denied:
    """Return the error for a run that the start policy does not allow."""
    match decision.decision:
        case "ask":
            message = "policy requested host approval before run start"
        case "modify":
            message = "policy modification is not valid for runtime start"
        case _:
            message = f"{decision.code}: {decision.reason}" if decision.reason else decision.code
    return Denied(
        message,
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        causal_ids=common.CausalIds(run_id=run_id),
        policy_refs=decision.policy_refs,
        policy_code=decision.code,
        source=source,
    )


def policy_failed(problem: str, run_id: str, *, source: SourceRef | None) -> Denied:
    """Return the error for a start policy that failed to decide; the run is denied."""
    return Denied(
        f"the start policy {problem}, so the run is denied",
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        causal_ids=common.CausalIds(run_id=run_id),
        source=source,
    )


def answer_error(
    request: InputRequest | None, response: InputResponse, *, problem: str, session_id: str
) -> Conflict | Denied | Rejected:
    """Return the error for an invalid answer to a request."""
    ids = common.CausalIds(session_id=session_id, request_id=response.request_id)
    message = problem + _answer_hint(request, response)
    if request is None or "expired" in problem:
        return Conflict(
            message, kind=ErrorKind.APPROVAL_FAILURE, retry=RetryClass.NOT_RETRYABLE, causal_ids=ids
        )
    kind = Denied if "responder" in problem else Rejected
    return kind(message, kind=ErrorKind.APPROVAL_FAILURE, retry=RetryClass.USER_ACTION_NEEDED, causal_ids=ids)


def _answer_hint(request: InputRequest | None, response: InputResponse) -> str:
    """Return how to answer instead, as the end of an error message."""
    if request is None:
        return "; the open requests of the run are those that can be answered"
    if request.responders is not None and response.responder is None:
        return "; the answer must name its responder"
    names = {response.responder, *(response.roles or ())}
    if request.responders is not None and names.isdisjoint(request.responders):
        return f"; it may be answered by: {list_names(request.responders)}"
    options = [option.id for option in request.options or ()]
    if response.option_id in options:
        return ""
    if not options:
        return "; it takes a text"
    hint = near_names([response.option_id or response.text or ""], options)
    return f"; the options are {list_names(options)}{hint}"


def list_names(names: Sequence[str]) -> str:
    """Return names for a message; of many, the first ones."""
    return ", ".join(printable(name, NAME_SHOWN_CHARS_MAX) for name in names[:NAMES_SHOWN_MAX])


def second_answer(first: InputResponse, session_id: str, *, at: str | None, agent_id: str | None) -> Conflict:
    """Return the error for a second answer while the first is still in the inbox; it names the first."""
    waits_for = "the process that drives the run" if agent_id is None else f"a process with agent {agent_id}"
    when = "" if at is None else f", at {at}"
    return Conflict(
        f"the request is answered already{_chosen(first.option_id, first.responder)}{when}; the answer waits "
        f"for {waits_for}",
        kind=ErrorKind.APPROVAL_FAILURE,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=common.CausalIds(session_id=session_id, request_id=first.request_id),
    )


def _chosen(option_id: str | None, responder: str | None) -> str:
    """Return the option and the responder of an answer for a message."""
    option = "" if option_id is None else f" ({printable(option_id, NAME_SHOWN_CHARS_MAX)})"
    return option + ("" if responder is None else f" by {printable(responder, NAME_SHOWN_CHARS_MAX)}")


def removed_tool(name: str, session_id: str, request_id: str, *, agent_id: str | None) -> Conflict:
    """Return the error for an approval of a call that the agent of this process cannot make."""
    return Conflict(
        f"agent {agent_id} has no tool {printable(name, NAME_SHOWN_CHARS_MAX)} any more: deploy the agent "
        "with this tool and answer again, or deny the call",
        kind=ErrorKind.APPROVAL_FAILURE,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        causal_ids=common.CausalIds(session_id=session_id, request_id=request_id),
    )


def playground_session(session_id: str) -> Conflict:
    """Return the error for a message or another run in the session of a playground run."""
    return Conflict(
        f"session {printable(session_id, NAME_SHOWN_CHARS_MAX)} belongs to a playground run and takes no "
        "other run or message: run the step again in the playground, or go on in the session of its origin",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=common.CausalIds(session_id=session_id),
    )


def closed_request(request: SettledRequest) -> Conflict:
    """Return the error for an answer to a request that is closed: it says what closed it."""
    chosen = _chosen(request.option_id, request.responder)
    return Conflict(
        f"the request is already settled: {request.outcome.value}{chosen}, at {request.at}",
        kind=ErrorKind.APPROVAL_FAILURE,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=common.CausalIds(
            session_id=request.session_id, run_id=request.run_id or None, request_id=request.request_id
        ),
    )


def no_value(result: RunResult) -> AgentError:
    """Return the error for a run that ended without a value."""
    ids = common.CausalIds(run_id=result.run_id, session_id=result.session_id)
    error = result.error
    if error is not None:
        kind = _CLASSES[error.code]
        refusal = kind(
            error.message,
            kind=error.kind,
            retry=error.retry,
            policy_refs=error.policy_refs or (),
            policy_code=error.policy_code,
            source=error.source,
            retry_after_ms=error.retry_after_ms,
        )
        return refusal.caused_by(error.causal_ids or ids).caused_by(ids)
    if result.status is RunStatus.CANCELLED:
        why = "" if result.reason is None else f": {result.reason}"
        return Conflict(
            f"the run was cancelled before it returned a value{why}",
            kind=ErrorKind.CANCELLATION,
            retry=RetryClass.USER_ACTION_NEEDED,
            causal_ids=ids,
        )
    return Denied(
        "the run used up its budget before it returned a value",
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        causal_ids=ids,
    )


T = TypeVar("T")
_FREE_JSON: Final = CodecLimits(message_bytes_max=CONTENT_BYTES_MAX, depth_max=FREE_LEVELS_MAX)
_SPOKEN: Final = {"input": "message"}
"""Wire field to the name that callers use."""
_WRITE: Final[Mapping[str, str]] = {
    "metadata": "a dictionary of JSON",
    "budget": "a Budget, such as Budget(max_steps=20)",
    "capabilities": "a SessionCapabilities of windlass_protocol",
    "source": "a SourceRef of windlass_protocol",
    "context": "a list of strings",
    "message": "a string, or a list of TextPart, ImagePart and FilePart of windlass_protocol",
}
"""The expected value by field name, for error messages."""
_ID: Final = re.compile(rf"[^\x00-\x1f\x7f\ud800-\udfff{BIDI_CONTROLS}]{{1,{ID_CHARS_MAX}}}")


def check_options(
    options: Mapping[str, object], declared: type, *, what: str, beside: Sequence[str] = ()
) -> None:
    """Refuse a keyword that is neither in the typed dictionary `declared` nor in `beside`."""
    problem = option_problem(options, declared, what=what, beside=beside)
    if problem is not None:
        raise bad_setup(problem)


def check_id(value: object, what: str) -> str:
    """Return an id that the wire can hold."""
    if not isinstance(value, str):
        raise bad_request(f"{what} must be a string, found {kind_of(value)}")
    if not _ID.fullmatch(value):
        raise bad_request(
            f"{what} must be 1 to {ID_CHARS_MAX} characters, without control characters and characters "
            f"that change the direction of text; found {len(value):,} characters"
        )
    return value


def check_given(value: object, kind: type[T], *, what: str, words: str) -> T:
    """Return a value of a request that has the type `kind`; `words` describe what is expected."""
    if not isinstance(value, kind):
        raise bad_request(f"{what} must be {words}, found {kind_of(value)}")
    return value


def check_seconds(value: object, what: str) -> float | None:
    """Return a number of seconds, or None."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        raise bad_request(f"{what} must be a number of seconds or None, found {kind_of(value)}")
    return value


def misfit(error: ValidationError, what: str, *, value: Mapping[str, object]) -> str:
    """Return where a value does not fit its type, without quoting the value.

    For a union, the innermost issue is reported: it is where the value came closest to one of the types.
    """
    issues = invalid(error, cast("JsonValue", value)).issues
    first = max(issues, key=lambda issue: issue.path.count("/"))
    names = [str(part) for part in error.errors(include_url=False, include_input=False)[0]["loc"][:1]]
    steps = first.path.split("/")[1:3] or names or ["the value"]
    # Keys inside free JSON come from the caller and may hold secrets: only the field and an index are named.
    steps[0] = _SPOKEN.get(steps[0], steps[0])
    field = ".".join(steps if steps[-1].isdigit() else steps[:1])
    remedy = f"; write {_WRITE[steps[0]]}" if steps[0] in _WRITE else ""
    return f"{what}: {field} is not valid: {first.message}{remedy}"


def check_items(value: Iterable[T], kind: type, *, what: str, words: str) -> tuple[T, ...]:
    """Return the items of a list, all of the type `kind`; a single item instead of a list is refused."""
    if isinstance(value, str | bytes | Mapping | type) or not _is_iterable(value):
        raise bad_setup(f"{what} must be a list of {words}, found {kind_of(cast(object, value))}")
    items = tuple(value)
    for at, item in enumerate(items):
        if not isinstance(item, kind):
            raise bad_setup(f"{what} must be {words}; number {at} is {kind_of(item)}")
    return items


def _is_iterable(value: object) -> bool:
    return isinstance(value, Iterable)


def check_flag(value: object, what: str) -> bool:
    """Return a bool; a truthy value of another type is refused."""
    if not isinstance(value, bool):
        raise bad_setup(f"{what} must be True or False, found {kind_of(value)}")
    return value


def check_ms(value: object, what: str, *, least: int = 1) -> int:
    """Return a whole number of milliseconds from `least` to `WAIT_MS_MAX`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_setup(f"{what} must be a whole number of milliseconds, found {kind_of(value)}")
    if value < least:
        raise bad_setup(f"{what} must be {least} or more, found {value:,}")
    if value > WAIT_MS_MAX:
        raise bad_setup(f"{what} must be at most {WAIT_MS_MAX:,}, found {value:,}")
    return value


def check_period_s(value: object, what: str, *, most: float) -> float:
    """Return a number of seconds from 0 to `most`."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise bad_setup(f"{what} must be a number of seconds, found {kind_of(value)}")
    if not 0 <= value <= most:
        raise bad_setup(f"{what} must be 0 to {most:,g}, found {value:,g}")
    return float(value)


def check_part(value: T, kind: type, *, what: str, words: str) -> T:
    """Return a part of a runtime that has the type `kind`; `words` describe what is expected."""
    if not isinstance(value, kind):
        raise bad_setup(f"{what} must be {words}, found {kind_of(value)}")
    return value


def check_port(value: T, what: str, *, has: Sequence[str], words: str) -> T:
    """Return an object that has the methods of a port; `words` describe what is expected."""
    missing = [name for name in has if not callable(getattr(value, name, None))]
    if isinstance(value, type) or missing:
        lacks = f", which has no {missing[0]}()" if missing else ""
        raise bad_setup(f"{what} must be {words}, found {kind_of(value)}{lacks}")
    return value


def check_callable(value: T, what: str, *, words: str) -> T:
    """Return a callable; `words` describe its arguments."""
    if not callable(value) or isinstance(value, type):
        raise bad_setup(f"{what} must be {words}, found {kind_of(value)}")
    return value


def check_name(value: object, what: str) -> str:
    """Return the name of a package, a route, a tool or a sink."""
    if not value:
        raise invalid_package(f"missing required field: {what}")
    if not isinstance(value, str):
        raise invalid_package(f"{what} is a text, found {kind_of(value)}")
    return value


def check_request(request: object) -> None:
    """Refuse a value that is not a RunRequest, and a request with an empty message."""
    expected = "a RunRequest; start_run() takes an agent and a message too"
    if not check_given(request, runs.RunRequest, what="a request", words=expected).input:
        raise bad_request("the message is empty: it must hold at least one part")


def check_json(request: RunRequest) -> None:
    """Refuse texts that are not valid Unicode, and metadata and input that fit a record but not an event."""
    for name in ("input", "context", "goal_id", "goal_description"):
        json_value = getattr(request, name)
        for text in (json_value,) if isinstance(json_value, str) else json_value or ():
            if isinstance(text, str) and (problem := unicode_problem(text)) is not None:
                raise bad_request(
                    f"{_SPOKEN.get(name, name)} is not valid Unicode: {problem}", request.run_id
                )
    free = {name for name in ("metadata", "input") if not isinstance(getattr(request, name), str | None)}
    for name, value in request.model_dump(mode="json", by_alias=True, include=free).items() if free else ():
        if name == "input":
            for part in value:
                # What is plain ASCII is a valid text, however large.
                part |= {key: "" for key in ("image", "data") if str(part.get(key, "")).isascii()}
        check_free_json(value, name, request.run_id)


def check_free_json(value: JsonValue, what: str, run_id: str | None = None) -> None:
    """Refuse JSON from outside that cannot be stored, or be sent in an event: see `FREE_LEVELS_MAX`.

    Raises:
        Rejected: it is not JSON, or it has too many levels or bytes.
    """
    problem = ""
    try:
        canonical(value, _FREE_JSON)
    except CodecError as error:
        problem = error.message
    if problem:
        raise bad_request(f"{what} is not valid: {problem}", run_id)
