"""`take`: converts one event into records."""

from typing import Final, assert_never

from pydantic import JsonValue
from pydantic_core import from_json

from windlass_harness.loop import (
    authored,
    compaction,
    delivery,
    ends,
    failures,
    hooks,
    outage,
    people,
    programs,
    subagents,
    undo,
)
from windlass_harness.loop.advance import found, give_up, resumed, retried
from windlass_harness.loop.ends import refused
from windlass_harness.loop.events import (
    AnswersGiven,
    CallAsks,
    CallJudged,
    CallRefused,
    CallReturned,
    CallUnbegun,
    CancelRequested,
    ChildSaid,
    CompactionBroken,
    CompactionRequested,
    DeliverySettled,
    Draft,
    FeedbackGiven,
    HistoryCompacted,
    HooksRan,
    LoopEvent,
    MessageSent,
    ModelAnswered,
    ModelFailed,
    Moment,
    OutputChecked,
    ProgramEnded,
    ProgramPaused,
    RequestDispatched,
    RunRefused,
    RunRequested,
    RunWithdrawn,
    SessionClaimed,
    SessionReleased,
    StateGiven,
    Stopped,
    ToolAsked,
    within_limit,
)
from windlass_harness.loop.notes import CONTEXT_OVERFLOW, HANDED_OVER, HELD, ProgramNotes
from windlass_harness.loop.rules import DEFAULT_RULES, OUTPUT_REPAIRS, Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.views.history import Call, CallStage
from windlass_harness.views.payloads import CORRECTION
from windlass_harness.views.session import SessionStatus
from windlass_protocol import AssistantMessage, JsonObject, OutputError, PolicyDecision


def _start(state: LoopState, event: RunRequested, now: Moment) -> list[Draft]:
    body = event.body
    run_id, agent_id = str(body["runId"]), str(body["agentId"])
    if run_id in state.session.run_ids:
        return []
    assert state.run is None, "a run waits until the one before it has ended"
    run = ends.facts_of(body)
    turn = state.session.turn
    sequence = 0 if turn is None else turn.sequence + 1
    given = body.get("turnId")
    turn_id = given if isinstance(given, str) else f"turn_{sequence}"
    place: JsonObject = {"sequence": sequence, "turnId": turn_id}

    def draft(kind: str, data: JsonObject) -> Draft:
        return Draft(kind, now.at, data, run_id=run_id, agent_id=agent_id, turn_id=turn_id)

    message: JsonObject = {"message": "", **_said(body), **place}
    # A playground run has its messages in its history.
    messages, is_said = state.session.history.messages, not body.keys() & {"retryOf", "playground"}
    if not is_said and (not messages or isinstance(messages[-1], AssistantMessage)):
        # A model answers a message, not its own answer.
        message["context"] = [_AGAIN]
        message["delivery"], is_said = CORRECTION, True
    drafts: list[Draft] = []
    if state.session.status is SessionStatus.NEW:
        opening = body.get("session")
        data: JsonObject = opening if isinstance(opening, dict) else {}
        drafts.append(Draft("session.started", now.at, data, agent_id=agent_id))
    drafts += [draft("run.started", run), draft("turn.started", place)]
    if is_said:
        drafts.append(draft("message.received", message))
    contract = body.get("contract") or (None if "undo" in body else _unmet_contract(state, agent_id))
    if contract is not None:
        drafts.append(draft("output.requested", {"contract": contract, "runId": run_id}))
    return drafts


_AGAIN: Final = "The last attempt to complete the task failed. Continue from here."
"""The message of a run that continues a failed one, if the history ends with an answer."""


def _unmet_contract(state: LoopState, agent_id: str) -> JsonObject | None:
    """Return the output contract of the agent's last run, if no answer has met it."""
    last, notes = state.session.run, state.run_notes
    if last is None or last.agent_id != agent_id or notes.contract is None or notes.is_validated:
        return None
    return notes.contract.model_dump(mode="json", by_alias=True)


def _steered(state: LoopState, event: MessageSent, now: Moment) -> list[Draft]:
    """Record a message; open requests are skipped."""
    if state.run is None or state.is_ending:
        return []
    source = event.body.get("source")
    sender: JsonObject = {"sender": source["id"]} if isinstance(source, dict) else {}
    said = {"message": "", **sender, **_said(event.body)}
    message: JsonObject = {**said, "delivery": "steer", **state.turn_place()}
    heard = state.draft("message.received", message, now=now)
    if state.run_notes.waits_on in HELD:
        # The message is a reason to call the model at once.
        return [heard, *resumed(state, "steered", now=now)]
    return [*people.passed_over(state, now), heard]


def _said(body: JsonObject) -> JsonObject:
    return {name: body[name] for name in ends.SAID if body.get(name) is not None}


def _cancel(state: LoopState, event: CancelRequested, now: Moment) -> list[Draft]:
    run = state.run
    if run is None or run.run_id != event.run_id or run.is_cancel_requested:
        return []
    cancel = state.draft("run.cancel_requested", ends.cancel_facts(event.run_id, event), now=now)
    return [cancel, *people.withdrawn(state, now, reason=ends.RUN_CANCELLED)]


def checked(state: LoopState, event: OutputChecked, *, now: Moment, rules: Rules) -> list[Draft]:
    """Return the records of a validated answer: its value, a repair prompt, or a failure."""
    contract, run = state.run_notes.contract, state.run
    assert contract is not None
    assert run is not None
    attempt = state.run_notes.rejections + 1
    facts: JsonObject = {"schemaId": contract.schema_id, "runId": run.run_id}
    if not event.errors:
        hashed: JsonObject = {} if event.hash is None else {"hash": event.hash}
        fits = state.draft("output.validated", {**facts, "attempt": attempt, **hashed}, now=now)
        if event.veto is not None:
            return [fits, *hooks.vetoed(state, event.veto, now=now, rules=rules)]
        return [fits, state.draft("result.completed", {"result": event.value, **state.place()}, now=now)]
    errors: list[JsonValue] = [error.model_dump(mode="json", by_alias=True) for error in event.errors]
    repairs = OUTPUT_REPAIRS if contract.max_repair_attempts is None else contract.max_repair_attempts
    if attempt > repairs:
        return [
            state.draft("output.failed", {**facts, "attempts": attempt, "errors": errors}, now=now),
            give_up(state, failures.unfit(attempt, event.errors), now=now),
        ]
    repair: JsonObject = {
        "message": "",
        "context": [repair_prompt(event.errors)],
        "delivery": CORRECTION,
        **state.turn_place(),
    }
    return [
        state.draft("output.rejected", {**facts, "attempt": attempt, "errors": errors}, now=now),
        state.draft("message.received", repair, now=now),
    ]


def repair_prompt(errors: tuple[OutputError, ...]) -> str:
    """Return the message that tells a model why its answer does not fit the output contract."""
    lines = "\n".join(f"- {error.path or '/'}: {error.message}" for error in errors)
    return (
        "Your last answer does not fit the required output schema:\n"
        f"{lines}\n"
        "Answer again with one JSON value that fits the schema, and with nothing else."
    )


def take(state: LoopState, event: LoopEvent, *, now: Moment, rules: Rules = DEFAULT_RULES) -> list[Draft]:
    """Return the records of an event; none if the event is out of date.

    A run may start only after the previous one has ended.
    """
    match event:
        case ModelAnswered() | CallReturned() | CallJudged():
            drafts = _take_work(state, event, now, rules)
        case ModelFailed() | CallRefused() | CallAsks() | CallUnbegun() | OutputChecked() | Stopped():
            drafts = _take_work(state, event, now, rules)
        case RunRequested():
            return _start(state, event, now)
        case MessageSent():
            return _steered(state, event, now)
        case AnswersGiven():
            return people.answered(state, event, now=now)
        case RequestDispatched():
            return people.dispatched(state, event, now=now)
        case CancelRequested():
            return _cancel(state, event, now)
        case RunWithdrawn() | RunRefused():
            return ends.ended_unstarted(state, event, now=now)
        case ProgramPaused():
            return [] if state.is_ending else programs.paused(state, event, now=now, rules=rules)
        case ProgramEnded():
            return [] if state.is_ending else programs.ended(state, event, now=now, rules=rules)
        case ToolAsked():
            return [] if state.is_ending else programs.asked(state, event, now=now, rules=rules)
        case SessionClaimed():
            return _taken(state, event, now)
        case SessionReleased():
            return _handed_over(state, now)
        case ChildSaid():
            return subagents.said(state, event, now=now)
        case HooksRan():
            return hooks.ran(state, event, now=now, rules=rules)
        case DeliverySettled():
            return delivery.settled(state, event, now=now)
        case CompactionRequested():
            return compaction.asked(state, now=now, rules=rules)
        case HistoryCompacted():
            return compaction.compacted(state, event, now=now)
        case CompactionBroken():
            return compaction.broken(state, event, now=now, rules=rules)
        case StateGiven():
            return authored.given(state, event, now=now)
        case FeedbackGiven():
            # A record of the session alone: it names its run, which may have ended long ago.
            return [Draft("feedback.given", now.at, event.data)]
        case _:
            assert_never(event)
    if not event.notes or state.run is None:
        return drafts
    return [*(state.draft(note.type, note.data, now=now) for note in event.notes), *drafts]


_Decided = CallJudged | CallRefused | CallAsks
_Work = ModelAnswered | ModelFailed | _Decided | CallReturned | CallUnbegun | OutputChecked | Stopped


def _take_work(state: LoopState, event: _Work, now: Moment, rules: Rules) -> list[Draft]:
    """Return the records of an event of the current run."""
    if state.run is None:
        return []
    match event:
        case ModelAnswered():
            return _answered(state, event, now, rules)
        case CallReturned():
            call = state.call(event.call_id)
            return [] if call is None else _returned(state, call, event, now)
        case CallJudged() | CallRefused() | CallAsks():
            return [] if state.is_ending else _decided(state, event, now, rules)
        case ModelFailed():
            return _model_failed(state, event, now, rules)
        case CallUnbegun():
            return _unbegun(state, event, now)
        case OutputChecked():
            return [] if state.is_ending else checked(state, event, now=now, rules=rules)
        case Stopped():
            return [] if state.is_ending else [*ends.failed(state, event.error, now=now)]
        case _:
            assert_never(event)


# the owner


def _taken(state: LoopState, event: SessionClaimed, now: Moment) -> list[Draft]:
    run = state.run
    if run is None or not _is_interrupted(state, event.epoch):
        return []
    data: JsonObject = {"epoch": event.epoch, "reason": event.reason, "runId": run.run_id}
    if not event.is_alone:
        data["shared"] = True
    return [state.draft("recovery.started", data, now=now)]


def _is_interrupted(state: LoopState, epoch: int) -> bool:
    """Whether an earlier owner left an open effect without a request about it."""
    history = state.session.history
    if history.unanswered is not None and history.unanswered.epoch != epoch:
        return True
    if state.compacting.epoch not in (None, epoch):
        return True
    return any(
        call.stage is CallStage.STARTED
        and call.epoch != epoch
        and state.note(call.call_id).request_id is None
        and not state.is_unbegun(call)
        and state.note(call.call_id).runs_alone
        for call in history.open_calls()
    ) or any(program.epoch not in (None, epoch) for _, program in _program_turns(state))


def _program_turns(state: LoopState) -> list[tuple[Call, ProgramNotes]]:
    """Return the programs that have something to do."""
    pairs = [(call, state.note(call.call_id).program) for call in state.session.history.open_calls()]
    return [
        (call, program)
        for call, program in pairs
        if program is not None and not program.is_tool and program.has_turn
    ]


def _handed_over(state: LoopState, now: Moment) -> list[Draft]:
    """Record that model call, compaction and programs are interrupted on purpose, not by a crash."""
    drafts = compaction.handed_over(state, now)
    step = state.session.history.unanswered
    if state.run is None:
        return drafts
    if step is not None and step.epoch == state.epoch:
        drafts.append(retried(state, HANDED_OVER, now=now))
    turns = [call for call, program in _program_turns(state) if program.epoch == state.epoch]
    return [*drafts, *(found(state, call, now=now, more={"begun": False}) for call in turns)]


# the model


def _answered(state: LoopState, event: ModelAnswered, now: Moment, rules: Rules) -> list[Draft]:
    if state.session.history.unanswered is None:
        return []
    if len(event.calls) > rules.calls_per_step_max:
        error = failures.too_many_calls(len(event.calls), rules)
        return [give_up(state, error, now=now, usage=event.usage)]
    place = state.place()
    drafts: list[Draft] = []
    if event.reasoning or event.provider_data:
        thought: JsonObject = {"reasoning": event.reasoning, **place}
        if event.provider_data:
            thought["providerMetadata"] = event.provider_data
        drafts.append(state.draft("reasoning.completed", thought, now=now))
    if event.text or not event.calls:
        said: JsonObject = {
            "message": event.text or None,
            "finishReason": event.finish_reason._value_,
            **place,
        }
        drafts.append(state.draft("message.completed", said, now=now))
    if event.calls:
        actions: list[JsonValue] = [programs.action_of(call, call.call_id) for call in event.calls]
        drafts.append(state.draft("actions.requested", {"actions": actions, **place}, now=now))
    done: JsonObject = {"finishReason": event.finish_reason._value_, **place}
    if event.usage:
        done["usage"] = event.usage
    if event.latency_ms is not None:
        done["latencyMs"] = event.latency_ms
    if event.queued_ms is not None:
        done["queuedMs"] = event.queued_ms
    drafts.append(state.draft("step.completed", done, now=now))
    return drafts


def _model_failed(state: LoopState, event: ModelFailed, now: Moment, rules: Rules) -> list[Draft]:
    if state.session.history.unanswered is None:
        return []
    notes, error = state.run_notes, event.error
    if failures.is_overflow(error) and state.compacting.has_overflowed:
        return [give_up(state, failures.overflowed(error), now=now, usage=event.usage)]
    if failures.is_overflow(error):
        return [_retrying(state, event, now, code=CONTEXT_OVERFLOW, delay_ms=0)]
    model_id = outage.next_model(state, error, rules=rules)
    if model_id is None:
        delay_ms = outage.retry_delay_ms(notes, error, event.chance, now=now, rules=rules)
    else:
        delay_ms = outage.fallback_delay_ms(
            state, error, event.chance, model_id=model_id, now=now, rules=rules
        )
    if delay_ms is None:
        return [give_up(state, error, now=now, usage=event.usage)]
    retrying = _retrying(state, event, now, code=error.kind.value, delay_ms=delay_ms)
    if model_id is not None:
        retrying.data["nextModelId"] = model_id
    return [retrying, *outage.waiting(state, delay_ms, error.message, now=now)]


def _retrying(state: LoopState, event: ModelFailed, now: Moment, *, code: str, delay_ms: int) -> Draft:
    data: JsonObject = {
        "code": code,
        "attempt": state.run_notes.attempt,
        "delayMs": delay_ms,
        "message": event.error.message,
        **state.place(),
    }
    if event.usage:
        data["usage"] = event.usage
    return state.draft("step.retrying", data, now=now)


# calls


def _decided(state: LoopState, event: _Decided, now: Moment, rules: Rules) -> list[Draft]:
    call = state.call(event.call_id)
    if call is None or not _is_undecided(state, call):
        return []
    if isinstance(event, CallJudged):
        return _judged(state, call, event, now, rules)
    if isinstance(event, CallAsks):
        asked = people.question_request(state, call, asks=event)
        return [people.requested(state, [asked], now=now)]
    return [_failed(state, call, event, now)]


def _is_undecided(state: LoopState, call: Call) -> bool:
    """Whether a call has not begun, or must be judged again."""
    if call.stage is CallStage.STARTED:
        return state.note(call.call_id).is_judged_again
    return call.stage is CallStage.REQUESTED


def _judged(state: LoopState, call: Call, event: CallJudged, now: Moment, rules: Rules) -> list[Draft]:
    decision = event.decision
    is_begun = decision.decision in ("allow", "modify")
    is_repeated = call.stage is CallStage.STARTED
    if is_begun and not is_repeated and state.exceeding(now, tool_call=True):
        return []
    place = state.place_of(call)
    decided: JsonObject = {
        "stage": "pre_tool",
        "decision": decision_data(decision),
        "callId": call.call_id,
        "toolName": call.tool_name,
        **place,
    }
    drafts = [state.draft("policy.decided", decided, now=now)]
    match decision.decision:
        case "allow" | "modify":
            drafts += _begin(state, call, event, now, rules)
        case "ask":
            drafts.append(
                people.requested(state, [people.approval_request(state, call, judged=event)], now=now)
            )
        case "deny":
            drafts.append(refused(state, call, now=now, code=decision.code, message=decision.reason))
        case _:
            pass
    return drafts


def decision_data(decision: PolicyDecision) -> JsonObject:
    """Return the JSON of a decision; cached, because rules repeat the same decision."""
    known = _DECISIONS.get(id(decision))
    if known is None or known[0] is not decision:
        if len(_DECISIONS) >= _DECISIONS_MAX:
            _DECISIONS.clear()
        known = _DECISIONS[id(decision)] = decision, decision.model_dump_json(by_alias=True)
    data: JsonObject = from_json(known[1])
    return data


_DECISIONS: Final[dict[int, tuple[PolicyDecision, str]]] = {}
_DECISIONS_MAX: Final = 64


def _begin(state: LoopState, call: Call, event: CallJudged, now: Moment, rules: Rules) -> list[Draft]:
    """Return the intent of a call, with the start item of its subagent."""
    begun = _begun(state, call, event, now)
    if event.delegation is None:
        return [begun]
    child = subagents.called(state, call, delegation=event.delegation, now=now, rules=rules)
    if isinstance(child, Draft):
        return [begun, child]
    return [refused(state, call, now=now, code=child[0], message=child[1])]


def _begun(state: LoopState, call: Call, event: CallJudged, now: Moment) -> Draft:
    run = state.run
    assert run is not None
    data: JsonObject = {
        "callId": call.call_id,
        "toolName": call.tool_name,
        "effect": event.effect,
        "idempotencyKey": call.idempotency_key
        or undo.own_key(state, call)
        or within_limit(f"{run.run_id}/{call.step_index}/{call.call_id}"),
        "argumentsHash": event.arguments_hash,
        "mode": event.mode,
        **state.place_of(call),
    }
    if event.arguments != call.input:
        data["arguments"] = event.arguments
    if event.interpreter is not None:
        data["interpreter"] = event.interpreter
    if event.undo is not None:
        data["undo"] = event.undo
    return state.draft("action.started", data, now=now)


def _failed(state: LoopState, call: Call, event: CallRefused, now: Moment) -> Draft:
    error: JsonObject = {"code": event.code, "message": event.message}
    result: JsonObject = {**subagents.result_of(state, call, output=None), "isError": True}
    data: JsonObject = {"result": result, "status": "failed", "error": error, **state.place_of(call)}
    return state.draft("action.result", data, now=now)


def _returned(state: LoopState, call: Call, event: CallReturned, now: Moment) -> list[Draft]:
    kept = authored.keep(state, event, now=now)
    event = kept.returned
    is_error = event.status != "completed"
    result = subagents.result_of(state, call, output=event.output)
    if is_error:
        result["isError"] = True
    data: JsonObject = {"result": result, "status": event.status._value_, **state.place_of(call)}
    if is_error:
        data["error"] = {"code": event.code or "failed", "message": event.message or "The call failed."}
    if event.content is not None:
        data["contentRef"] = event.content
    if event.duration_ms is not None:
        data["durationMs"] = event.duration_ms
    if event.taint:
        data["taint"] = [*event.taint]
    if event.log:
        data["log"] = [*event.log]
    return [*kept.drafts, state.draft("action.result", data, now=now)]


def _unbegun(state: LoopState, event: CallUnbegun, now: Moment) -> list[Draft]:
    """Record that the call is left to the next owner."""
    call = state.call(event.call_id)
    if call is None or call.stage is not CallStage.STARTED or state.note(call.call_id).choice is not None:
        return []
    return [found(state, call, now=now, more={"begun": False})]
