"""Requests to people: approvals, questions and recovery choices, and their answers."""

from collections.abc import Iterable
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from windlass_harness.loop import subagents
from windlass_harness.loop.events import (
    AnswersGiven,
    CallAsks,
    CallJudged,
    Draft,
    Moment,
    RequestDispatched,
    within_limit,
)
from windlass_harness.loop.notes import COST_AMOUNT, TOKENS_AMOUNT, amount_of
from windlass_harness.loop.state import LoopState
from windlass_harness.times import ms_of
from windlass_harness.views.history import Call
from windlass_harness.views.payloads import (
    CORRECTION,
    SKIPPED,
    SKIPPED_CODE,
    action_name,
    is_limit_ask,
    question_outcome,
)
from windlass_protocol import (
    ActionStatus,
    CodecError,
    CodecLimits,
    InputDisplay,
    InputKind,
    InputOption,
    InputOutcome,
    InputRequest,
    InputResolution,
    InputResponse,
    JsonObject,
    OptionStyle,
    RecoveryChoice,
    RuntimeActionRequest,
    ToolCallAction,
    parse,
)
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records
from windlass_protocol.limits import FREE_LEVELS_MAX

APPROVE: Final = "approve"
APPROVE_SESSION: Final = "approve_session"
DENY: Final = "deny"
_SUPPLIED: Final = CodecLimits(depth_max=FREE_LEVELS_MAX)
GRANT_SESSION: Final = "session"
CHANGED: Final = (
    "{who} changed the arguments of your call of {name} ({call_id}) before approving it. "
    "The approved arguments are: {arguments}"
)
"""What the model is told about a call that was approved with changed arguments."""
INTERRUPTED: Final = (
    "The call of {name} was interrupted before its result was known, so it may or may not have taken effect. "
    "Run it again, skip it, or supply its result?"
)
INTERRUPTED_AGAIN: Final = (
    "The call of {name} was begun {times} times, and each time the process ended before its result was "
    "known: it may be what ends the process. Run it again, skip it, or supply its result? To stop here, "
    "cancel the run."
)
RETRY_RISK: Final = (
    "Calls the tool again with the same arguments and the same idempotency key. If the first call took "
    "effect and its receiver does not know the key, it happens twice."
)
SKIP_RISK: Final = (
    "Calls nothing. The agent is told that the outcome is unknown; if the call took effect, that stays."
)
SUPPLY_RISK: Final = (
    "Calls nothing. The agent goes on as if the call had returned what you write; if that is wrong, it acts "
    "on it."
)
DIVERGED: Final = "{name} went another way than its records, and waits. No call was made or repeated."
DIVERGED_RETRY_RISK: Final = (
    "Runs the function again with its records. Stop this process and start one with the code that made them, "
    "or mark the change with ctx.changed, before."
)
DIVERGED_SKIP_RISK: Final = (
    "Fails the run; what its calls did stays, and can be undone. To begin again from here with the new code, "
    "fork the session, or start a new run."
)
UNDO_RISK: Final = (
    "Calls the undo of the tool. If the call did not take effect, the undo finds nothing to reverse."
)


def approval_options(*grants: InputOption) -> tuple[InputOption, ...]:
    """Return the options of an approval, with further ones to approve."""
    approve = InputOption(id=APPROVE, label="Approve", style=OptionStyle.PRIMARY)
    return (approve, *grants, InputOption(id=DENY, label="Deny", style=OptionStyle.DANGER))


def approval_request(state: LoopState, call: Call, *, judged: CallJudged) -> InputRequest:
    """Return the approval request of a call, bound to the hash of its arguments."""
    approval_request = judged.approval_request
    assert approval_request is not None, "an ask decision has a prompt"
    grants: list[InputOption] = []
    if approval_request.can_grant_session:
        # The grant covers other calls too, so its label must say which.
        which = "every call of {} with the same key" if approval_request.is_keyed else "every call of {}"
        which = "this exact command of {}" if approval_request.is_exact else which
        label = f"Approve {which.format(call.tool_name)} in this session"
        grants.append(InputOption(id=APPROVE_SESSION, label=label))
    return InputRequest(
        request_id=_request_id(state, call, "approval"),
        action=_action(call, judged.arguments),
        prompt=approval_request.prompt,
        display=InputDisplay.CONFIRMATION,
        options=approval_options(*grants),
        allow_freeform=True,
        kind=InputKind.APPROVAL,
        arguments_hash=judged.arguments_hash,
        expires_at=approval_request.expires_at,
        responders=approval_request.responders,
    )


def recovery_request(
    state: LoopState, call: Call, *, times: int, responders: tuple[str, ...] | None = None
) -> InputRequest:
    """Return the recovery request of an interrupted call.

    `times` is the number of interruptions in a row.
    """
    options = [
        InputOption(id=RecoveryChoice.RETRY.value, label="Run it again", description=RETRY_RISK),
        InputOption(id=RecoveryChoice.SKIP.value, label="Skip it", description=SKIP_RISK),
        InputOption(id=RecoveryChoice.SUPPLY.value, label="Supply its result", description=SUPPLY_RISK),
    ]
    if state.note(call.call_id).undo is not None:
        options.append(InputOption(id=RecoveryChoice.UNDO.value, label="Reverse it", description=UNDO_RISK))
    return InputRequest(
        request_id=_request_id(state, call, "recovery"),
        action=_action(call, call.input if call.arguments is None else call.arguments),
        prompt=(INTERRUPTED if times == 1 else INTERRUPTED_AGAIN).format(name=call.tool_name, times=times),
        display=InputDisplay.SELECT,
        options=tuple(options),
        allow_freeform=True,
        kind=InputKind.RECOVERY,
        responders=responders,
    )


def divergence_request(
    state: LoopState, call: Call, message: str, *, responders: tuple[str, ...] | None = None
) -> InputRequest:
    """Return the request of a workflow that went another way than its records."""
    options = (
        InputOption(id=RecoveryChoice.RETRY.value, label="Run it again", description=DIVERGED_RETRY_RISK),
        InputOption(id=RecoveryChoice.SKIP.value, label="End the run", description=DIVERGED_SKIP_RISK),
    )
    return InputRequest(
        request_id=_request_id(state, call, "recovery"),
        action=_action(call, call.input if call.arguments is None else call.arguments),
        prompt=f"{DIVERGED.format(name=call.tool_name)} {message}",
        display=InputDisplay.SELECT,
        options=options,
        allow_freeform=True,
        kind=InputKind.RECOVERY,
        responders=responders,
    )


def is_divergence(request: InputRequest) -> bool:
    """Whether a request is about a workflow that went another way than its records."""
    ids = {option.id for option in request.options or ()}
    return request.kind is InputKind.RECOVERY and RecoveryChoice.SUPPLY.value not in ids


def question_request(state: LoopState, call: Call, *, asks: CallAsks) -> InputRequest:
    """Return the request of a question of the model."""
    return InputRequest(
        request_id=_request_id(state, call, "question"),
        action=_action(call, asks.arguments),
        prompt=asks.prompt,
        display=InputDisplay.SELECT if asks.options else InputDisplay.TEXT,
        options=tuple(InputOption.model_validate(option) for option in asks.options) or None,
        allow_freeform=asks.allow_freeform,
        kind=InputKind.QUESTION,
        expires_at=asks.expires_at,
        responders=asks.responders,
    )


def request_record(state: LoopState, requests: list[InputRequest], *, now: Moment) -> Draft:
    """Return the record of requests."""
    body, run = records.InputRequested(requests=requests, **state.place()), state.run
    assert run is not None, "only a run asks"
    return subagents.report_requests(state, body, session_id=run.session_id, now=now)


def _action(call: Call, arguments: JsonValue) -> ToolCallAction:
    return ToolCallAction(call_id=call.call_id, tool_name=call.tool_name, input=arguments)


def _request_id(state: LoopState, call: Call, kind: str) -> str:
    run = state.run
    asks = state.note(call.call_id).asks
    run_id = "" if run is None else run.run_id
    return within_limit(f"{kind}:{run_id}:{call.step_index}:{call.call_id}:{asks + 1}")


def match_option(request: InputRequest, response: InputResponse) -> InputResponse:
    """Return the response with the option that its text names, if it names one.

    The text must be the option's id, label or number, counted from 1. A number never approves a call: it may
    answer another request that a person saw. Text that supplies a result is the result.
    """
    if response.option_id is not None or response.text is None or request.kind is InputKind.RECOVERY:
        return response
    text, options = response.text.strip().casefold(), request.options or ()
    is_consent = request.kind is InputKind.APPROVAL or APPROVE in [option.id for option in options]
    for names in (
        [option.id for option in options],
        [option.label for option in options],
        [] if is_consent else [str(number + 1) for number in range(len(options))],
    ):
        if text in (folded := [name.strip().casefold() for name in names]):
            option = options[folded.index(text)]
            return response.model_copy(update={"option_id": option.id, "text": None})
    return response


def refusal(request: InputRequest | None, response: InputResponse, *, now_ms: int) -> str | None:
    """Return why a response is refused; None if it is valid."""
    if request is None:
        return "no open request with this id: it was answered before, or it never existed"
    if request.expires_at is not None and ms_of(request.expires_at) <= now_ms:
        return "the request has expired"
    names = {response.responder, *(response.roles or ())}
    if request.responders is not None and names.isdisjoint(request.responders):
        return "this responder may not answer the request"
    if response.arguments_hash is not None and response.arguments_hash != request.arguments_hash:
        return "argumentsHash does not match the request: the arguments have changed"
    options = {option.id for option in request.options or ()}
    if response.option_id is not None and response.option_id not in options:
        return "unknown option"
    if response.option_id is None and not (request.allow_freeform and response.text is not None):
        return "the answer has no option"
    if request.kind is InputKind.APPROVAL and response.option_id is None:
        return "an approval must be answered with an option, not with text"
    if response.arguments is not None and response.option_id != APPROVE:
        return "arguments can be changed only with the option approve of an approval"
    if response.arguments is not None and request.kind is not InputKind.APPROVAL:
        return "the request is no approval: its arguments cannot be changed"
    if response.arguments is not None and is_limit_ask(request.action.call_id):
        names = [name for name in (COST_AMOUNT, TOKENS_AMOUNT) if name in _fields(request.action)]
        if not all(amount_of(response.arguments, name) for name in names):
            return f"{' and '.join(names)} must be a whole number above 0"
    if request.kind is InputKind.RECOVERY and response.option_id is None:
        return "a recovery must be answered with an option"
    if (
        response.option_id == RecoveryChoice.SUPPLY
        and not response.text
        and request.kind is InputKind.RECOVERY
    ):
        return "the option supply needs the result as text; write null for no result"
    return None


def _fields(action: RuntimeActionRequest) -> JsonObject:
    fields = action.input if isinstance(action, ToolCallAction) else None
    return fields if isinstance(fields, dict) else {}


def take_answers(state: LoopState, event: AnswersGiven, *, now: Moment) -> list[Draft]:
    """Return the records of responses; a refused response is only recorded.

    A response counts if it was given in time, even if it is handled later.
    """
    given_ms = now.ms if event.given_ms is None else event.given_ms
    drafts: list[Draft] = []
    seen: set[str] = set()
    for given_response in event.responses:
        request = state.session.requests.get(given_response.request_id)
        response = given_response if request is None else match_option(request, given_response)
        if response.request_id in seen or refusal(request, response, now_ms=given_ms) is not None:
            drafts.append(_note_refused(state, response, now, answer_id=event.answer_id))
            continue
        assert request is not None
        seen.add(response.request_id)
        drafts += _answer(state, request, RequestAnswer(response, event.answer_id), now)
    return drafts


def mark_dispatched(state: LoopState, event: RequestDispatched, *, now: Moment) -> list[Draft]:
    """Return the record of a dispatched request; none if it is not open."""
    if event.request_id not in state.session.requests:
        return []
    return [state.draft(records.ApprovalDispatched(request_id=event.request_id), now=now)]


def _note_refused(state: LoopState, response: InputResponse, now: Moment, *, answer_id: str | None) -> Draft:
    """Return the record of a refused response.

    It belongs to the current run if that made the request, and otherwise to the session: a late response must
    not change an ended run or an unrelated one.
    """
    request_ids = {note.last_request_id for note in state.notes.values()}
    body = records.ApprovalCandidate(
        request_id=response.request_id,
        responder=response.responder,
        option_id=response.option_id,
        text=response.text,
        arguments=response.arguments,
        answer_id=answer_id,
    )
    if state.run is not None and response.request_id in request_ids:
        return state.draft(body, now=now)
    return Draft(body.TYPE, now.at, body)


@frozen
class RequestAnswer:
    """An answer that settles a request."""

    response: InputResponse
    answer_id: str | None
    """Id of the answer; None in journals of earlier releases."""


def _answer(state: LoopState, request: InputRequest, answer: RequestAnswer, now: Moment) -> list[Draft]:
    response = answer.response
    match request.kind:
        case InputKind.APPROVAL:
            is_yes = response.option_id in (APPROVE, APPROVE_SESSION)
            outcome = InputOutcome.APPROVED if is_yes else InputOutcome.DENIED
            drafts = [
                _resolution_draft(state, request, outcome, now, answer=answer),
                settle_request(state, request, outcome=outcome, now=now, response=response),
            ]
            if response.arguments is not None and not is_limit_ask(request.action.call_id):
                drafts.append(_tell_change(state, request, response, now))
            return drafts
        case InputKind.RECOVERY:
            return _recover(state, request, answer, now)
        case _:
            return _end_question(state, request, InputOutcome.ANSWERED, now, answer=answer)


def _tell_change(state: LoopState, request: InputRequest, response: InputResponse, now: Moment) -> Draft:
    """Return the message that tells the model which arguments a person changed."""
    message = CHANGED.format(
        who=response.responder or "A person",
        name=action_name(request.action),
        call_id=request.action.call_id,
        arguments=to_json(response.arguments).decode(),
    )
    body = records.MessageReceived(message="", context=[message], delivery=CORRECTION, **state.turn_place)
    return state.draft(body, now=now)


def _recover(state: LoopState, request: InputRequest, answer: RequestAnswer, now: Moment) -> list[Draft]:
    call_id, response = request.action.call_id, answer.response
    choice = RecoveryChoice(str(response.option_id))
    body = records.RecoveryEffectSettled(call_id=call_id, choice=choice, by=response.responder)
    drafts = [
        _resolution_draft(state, request, InputOutcome.ANSWERED, now, answer=answer),
        state.draft(body, now=now),
    ]
    call = state.call(call_id)
    assert call is not None, "a request belongs to an open call"
    if choice is RecoveryChoice.SKIP and state.note(call_id).program is None:
        # Before the decision, which settles a call that has no result: early journals have none.
        reason = SKIPPED.reason or ""
        drafts.insert(1, reject_call(state, call, now=now, code=SKIPPED_CODE, message=reason))
    if choice is RecoveryChoice.SUPPLY:
        drafts.append(_answer_result(state, call, _supply_result(response.text or ""), now))
    return drafts


def _answer_result(state: LoopState, call: Call, output: JsonValue, now: Moment) -> Draft:
    """Return the result of a call that a person gave."""
    body = records.ActionResult(
        result=records.ToolActionResult(call_id=call.call_id, tool_name=call.tool_name, output=output),
        status=ActionStatus.COMPLETED,
        **state.place_of(call),
    )
    return state.draft(body, now=now)


def reject_call(state: LoopState, call: Call, *, now: Moment, code: str, message: str) -> Draft:
    """Return the result of a call that does not run, or not again."""
    result = records.ToolActionResult(
        call_id=call.call_id, tool_name=call.tool_name, output=None, is_error=True
    )
    body = records.ActionResult(
        result=result,
        status=ActionStatus.REJECTED,
        error=records.ActionError(code=code, message=message),
        **state.place_of(call),
    )
    return state.draft(body, now=now)


def _supply_result(text: str) -> JsonValue:
    """Return a supplied result: parsed JSON, or else the text."""
    try:
        return parse(text, _SUPPLIED)
    except CodecError:
        return text


def skip_requests(state: LoopState, now: Moment) -> list[Draft]:
    """Return the records of requests that a new message skips.

    Recovery requests stay open: they must be answered.
    """
    skipped = [
        request for request in state.session.requests.values() if request.kind is not InputKind.RECOVERY
    ]
    return _close_requests(state, skipped, InputOutcome.IGNORED, now)


def expire_requests(state: LoopState, now: Moment) -> list[Draft]:
    """Return the records of expired requests."""
    late = [
        request
        for request in state.session.requests.values()
        if request.expires_at is not None and ms_of(request.expires_at) <= now.ms
    ]
    return _close_requests(state, late, InputOutcome.EXPIRED, now)


def close_all_requests(state: LoopState, now: Moment, *, reason: str) -> list[Draft]:
    """Return the records that close all requests of a run that is cancelled or ends, subagents included."""
    own = _close_requests(state, state.session.requests.values(), InputOutcome.CANCELLED, now, reason=reason)
    return [*own, *subagents.close_requests(state, now)] if state.session.family.proxied else own


def _close_requests(
    state: LoopState,
    requests: Iterable[InputRequest],
    outcome: InputOutcome,
    now: Moment,
    *,
    reason: str | None = None,
) -> list[Draft]:
    """Return the records of requests that are closed without an answer."""
    drafts: list[Draft] = []
    for request in requests:
        if request.kind is InputKind.APPROVAL:
            drafts.append(_resolution_draft(state, request, outcome, now))
            drafts.append(settle_request(state, request, outcome=outcome, now=now, reason=reason))
        elif outcome is InputOutcome.CANCELLED:
            # The end of the run closes the call of a question.
            drafts.append(_resolution_draft(state, request, outcome, now))
        else:
            drafts += _end_question(state, request, outcome, now)
    return drafts


def _end_question(
    state: LoopState,
    request: InputRequest,
    outcome: InputOutcome,
    now: Moment,
    *,
    answer: RequestAnswer | None = None,
) -> list[Draft]:
    """Return the records of a question that is over: its answer, and the result of its call.

    The answer settles the call, as in journals without the result; readers of results see the same value.
    """
    resolved = _resolution_draft(state, request, outcome, now, answer=answer)
    resolution = InputResolution(
        request_id=request.request_id,
        outcome=outcome,
        kind=request.kind,
        response=None if answer is None else answer.response,
    )
    output, call = question_outcome(request, resolution), state.call(request.action.call_id)
    if output is None:
        return [resolved]
    assert call is not None, "a request belongs to an open call"
    return [resolved, _answer_result(state, call, output.value, now)]


def settle_request(
    state: LoopState,
    request: InputRequest,
    *,
    outcome: InputOutcome,
    now: Moment,
    response: InputResponse | None = None,
    reason: str | None = None,
) -> Draft:
    """Return the record of a settled approval request; the text of a response is its reason."""
    is_for_session = response is not None and response.option_id == APPROVE_SESSION
    body = records.ApprovalSettled(
        request_id=request.request_id,
        outcome=outcome,
        responder=None if response is None else response.responder,
        reason=reason if response is None else response.text,
        grant=GRANT_SESSION if is_for_session else None,
        arguments=None if response is None else response.arguments,
    )
    return state.draft(body, now=now)


def _resolution_draft(
    state: LoopState,
    request: InputRequest,
    outcome: InputOutcome,
    now: Moment,
    *,
    answer: RequestAnswer | None = None,
) -> Draft:
    resolution = InputResolution(
        request_id=request.request_id,
        outcome=outcome,
        kind=request.kind,
        response=None if answer is None else answer.response,
        answer_id=None if answer is None else answer.answer_id,
    )
    return subagents.report_settled(
        state, records.InputResolved(resolutions=[resolution], **state.place()), now=now
    )
