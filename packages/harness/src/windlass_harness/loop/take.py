"""`take`: converts one event into records."""

from typing import Final, assert_never

from msgspec import UNSET, structs

from windlass_harness.loop import (
    authored,
    compaction,
    delivery,
    ends,
    failures,
    hooks,
    jobs,
    outage,
    people,
    programs,
    purse,
    subagents,
    undo,
    workflows,
)
from windlass_harness.loop.advance import give_up, interruption_record, resume_records, retry_record
from windlass_harness.loop.ends import refuse_call
from windlass_harness.loop.events import (
    AnswersGiven,
    BatchAnswered,
    CallAsks,
    CallJudged,
    CallRefused,
    CallReserved,
    CallReturned,
    CallUnbegun,
    CancelRequested,
    ChildSaid,
    CompactionBroken,
    CompactionRequested,
    DeliverySettled,
    Draft,
    EventSent,
    FeedbackGiven,
    HistoryCompacted,
    HooksRan,
    IsolationEnded,
    LoopEvent,
    MessageItem,
    MessageSent,
    ModelAnswered,
    ModelBatched,
    ModelFailed,
    Moment,
    OutputChecked,
    ProgramDiverged,
    ProgramEnded,
    ProgramPaused,
    RequestDispatched,
    RunRefused,
    RunRequested,
    RunWithdrawn,
    SessionClaimed,
    SessionReleased,
    StartItem,
    StateGiven,
    Stopped,
    ToolWaits,
    within_limit,
)
from windlass_harness.loop.notes import BATCH, CONTEXT_OVERFLOW, HANDED_OVER, HELD, ProgramNotes
from windlass_harness.loop.rules import DEFAULT_RULES, Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.views.history import Call, CallStage
from windlass_harness.views.payloads import CORRECTION, DECISIONS, JOB
from windlass_harness.views.runs import STEER
from windlass_harness.views.session import SessionStatus
from windlass_protocol import (
    ActionStatus,
    AssistantMessage,
    JsonObject,
    OutputError,
    PolicyDecision,
    PolicyStage,
    Taint,
)
from windlass_protocol.bodies import Body, read_body
from windlass_protocol.generated import records
from windlass_protocol.limits import OUTPUT_REPAIRS


def _start(state: LoopState, event: RunRequested, now: Moment) -> list[Draft]:
    item = read_body(StartItem, event.body)
    run_id, agent_id = item.run_id, item.agent_id
    if run_id in state.session.run_ids:
        return []
    assert state.run is None, "a run waits until the one before it has ended"
    turn = state.session.turn
    sequence = 0 if turn is None else turn.sequence + 1
    turn_id = f"turn_{sequence}" if item.turn_id is None else item.turn_id

    def draft(kind: type[Body], data: JsonObject | Body) -> Draft:
        return Draft(kind.TYPE, now.at, data, run_id=run_id, agent_id=agent_id, turn_id=turn_id)

    message = read_body(MessageItem, event.body).to_body(sequence=sequence, turn_id=turn_id)
    # A run that continues a failed one, and one of the playground, have their messages in the history.
    has_message = item.retry_of is None and item.playground is None
    messages = state.session.history.messages
    if not has_message and (not messages or isinstance(messages[-1], AssistantMessage)):
        # A model answers a message, not its own answer.
        message = structs.replace(message, context=[_GO_ON], delivery=CORRECTION)
        has_message = True
    drafts: list[Draft] = []
    if state.session.status is SessionStatus.NEW:
        opening = item.session or {}
        drafts.append(Draft(records.SessionStarted.TYPE, now.at, opening, agent_id=agent_id))
    drafts.append(draft(records.RunStarted, ends.facts_of(event.body)))
    drafts.append(draft(records.TurnStarted, records.TurnStarted(sequence=sequence, turn_id=turn_id)))
    if has_message:
        drafts.append(draft(records.MessageReceived, message))
    contract = item.contract or (None if item.undo is not None else _unmet_contract(state, agent_id))
    if contract is not None:
        drafts.append(draft(records.OutputRequested, {"contract": contract, "runId": run_id}))
    return drafts


_GO_ON: Final = "The last attempt to complete the task failed. Continue from here."
"""The message of a run that continues a failed one, if the history ends with an answer."""


def _unmet_contract(state: LoopState, agent_id: str) -> JsonObject | None:
    """Return the output contract of the agent's last run, if no answer has met it."""
    last, notes = state.session.run, state.run_notes
    if last is None or last.agent_id != agent_id or notes.contract is None or notes.is_validated:
        return None
    return notes.contract.model_dump(mode="json", by_alias=True)


def _take_steer(state: LoopState, event: MessageSent, now: Moment) -> list[Draft]:
    """Record a message; open requests are skipped."""
    if state.run is None or state.is_ending:
        return []
    item = read_body(MessageItem, event.body)
    if item.delivery == JOB:
        # The run brings the result of the job before its next model call.
        return []
    body = item.to_body(delivery=STEER, **state.turn_place)
    if item.sender is None and item.source is not None:
        body = structs.replace(body, sender=item.source.id)
    message = state.draft(body, now=now)
    if state.run_notes.waits_on in HELD:
        # The message is a reason to call the model at once.
        return [message, *resume_records(state, "steered", now=now)]
    return [*people.skip_requests(state, now), message]


def _cancel(state: LoopState, event: CancelRequested, now: Moment) -> list[Draft]:
    run = state.run
    if run is None or run.run_id != event.run_id or run.is_cancel_requested:
        return []
    cancel = state.draft(ends.cancel_body(event.run_id, event), now=now)
    return [cancel, *people.close_all_requests(state, now, reason=ends.RUN_CANCELLED)]


def take_check(state: LoopState, event: OutputChecked, *, now: Moment, rules: Rules) -> list[Draft]:
    """Return the records of a validated answer: its value, a repair prompt, or a failure."""
    contract, run = state.run_notes.contract, state.run
    assert contract is not None
    assert run is not None
    attempt = state.run_notes.rejections + 1
    schema_id, run_id, errors = contract.schema_id, run.run_id, [*event.errors]
    if not errors:
        fits = state.draft(
            records.OutputValidated(schema_id=schema_id, attempt=attempt, hash=event.hash, run_id=run_id),
            now=now,
        )
        if event.veto is not None:
            return [fits, *hooks.apply_veto(state, event.veto, now=now, rules=rules)]
        return [
            fits,
            state.draft(records.ResultCompleted(result=event.value, **state.place()), now=now),
        ]
    repairs = OUTPUT_REPAIRS if contract.max_repair_attempts is None else contract.max_repair_attempts
    if attempt > repairs:
        failed = records.OutputFailed(schema_id=schema_id, attempts=attempt, errors=errors, run_id=run_id)
        return [
            state.draft(failed, now=now),
            give_up(state, failures.unfit(attempt, event.errors), now=now),
        ]
    return [
        state.draft(
            records.OutputRejected(schema_id=schema_id, attempt=attempt, errors=errors, run_id=run_id),
            now=now,
        ),
        state.draft(
            records.MessageReceived(
                message="",
                context=[repair_prompt(event.errors)],
                delivery=CORRECTION,
                **state.turn_place,
            ),
            now=now,
        ),
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
        case ModelAnswered() | ModelBatched() | CallReturned() | CallJudged():
            drafts = _take_work(state, event, now, rules)
        case ModelFailed() | CallRefused() | CallAsks() | CallUnbegun() | OutputChecked() | Stopped():
            drafts = _take_work(state, event, now, rules)
        case RunRequested():
            return _start(state, event, now)
        case MessageSent():
            return _take_steer(state, event, now)
        case AnswersGiven():
            return people.take_answers(state, event, now=now)
        case RequestDispatched():
            return people.mark_dispatched(state, event, now=now)
        case CancelRequested():
            return _cancel(state, event, now)
        case BatchAnswered():
            return _take_batch(state, event, now)
        case RunWithdrawn() | RunRefused():
            return ends.end_unstarted(state, event, now=now)
        case ProgramPaused():
            return [] if state.is_ending else programs.take_pause(state, event, now=now, rules=rules)
        case ProgramEnded():
            return [] if state.is_ending else programs.end_turn(state, event, now=now, rules=rules)
        case ProgramDiverged():
            return [] if state.is_ending else workflows.take_divergence(state, event, now=now, rules=rules)
        case EventSent():
            return workflows.take_event(state, event, now=now, rules=rules)
        case ToolWaits():
            return [] if state.is_ending else programs.pause_tool(state, event, now=now, rules=rules)
        case SessionClaimed():
            return _take_over(state, event, now)
        case IsolationEnded():
            return _end_isolation(state, now)
        case SessionReleased():
            return _hand_over(state, now)
        case ChildSaid():
            return subagents.take_message(state, event, now=now)
        case HooksRan():
            return hooks.take_results(state, event, now=now, rules=rules)
        case DeliverySettled():
            return delivery.settle(state, event, now=now)
        case CompactionRequested():
            return compaction.take_request(state, now=now, rules=rules)
        case HistoryCompacted():
            return compaction.take_result(state, event, now=now)
        case CompactionBroken():
            return compaction.take_failure(state, event, now=now, rules=rules)
        case StateGiven():
            return authored.take_change(state, event, now=now)
        case CallReserved():
            return purse.take_reserved(state, event, now=now)
        case FeedbackGiven():
            # A record of the session alone: it names its run, which may have ended long ago.
            return [Draft(event.body.TYPE, now.at, event.body)]
        case _:
            assert_never(event)
    if not event.notes or state.run is None:
        return drafts
    return [*(state.draft(note, now=now) for note in event.notes), *drafts]


_Decided = CallJudged | CallRefused | CallAsks
_Work = (
    ModelAnswered
    | ModelBatched
    | ModelFailed
    | _Decided
    | CallReturned
    | CallUnbegun
    | OutputChecked
    | Stopped
)


def _take_work(state: LoopState, event: _Work, now: Moment, rules: Rules) -> list[Draft]:
    """Return the records of an event of the current run."""
    if state.run is None:
        return []
    match event:
        case ModelAnswered():
            return _take_answer(state, event, now, rules)
        case ModelBatched():
            return [] if state.is_ending else outage.waiting_for_batch(state, event.reason, now=now)
        case CallReturned():
            call = state.call(event.call_id)
            if call is None:
                return jobs.deliver(state, event, now=now)
            return _take_return(state, call, event, now)
        case CallJudged() | CallRefused() | CallAsks():
            return [] if state.is_ending else _take_decision(state, event, now, rules)
        case ModelFailed():
            return _model_failed(state, event, now, rules)
        case CallUnbegun():
            return _unbegun(state, event, now)
        case OutputChecked():
            return [] if state.is_ending else take_check(state, event, now=now, rules=rules)
        case Stopped():
            return [] if state.is_ending else [*ends.fail_run(state, event.error, now=now)]
        case _:
            assert_never(event)


# the owner


def _take_over(state: LoopState, event: SessionClaimed, now: Moment) -> list[Draft]:
    run = state.run
    if run is None or not is_interrupted(state, event.epoch):
        return []
    body = records.RecoveryStarted(
        epoch=event.epoch,
        reason=event.reason,
        shared=None if event.is_alone else True,
        isolated=event.is_isolated or None,
        survived=[*event.survived] or None,
        run_id=run.run_id,
    )
    return [state.draft(body, now=now)]


def _end_isolation(state: LoopState, now: Moment) -> list[Draft]:
    if state.run_notes.isolated_epoch is None:
        return []
    return [state.draft(records.RecoveryCompleted(epoch=state.epoch), now=now)]


def is_interrupted(state: LoopState, epoch: int) -> bool:
    """Whether an earlier owner left an open effect without a request about it."""
    history = state.session.history
    step = history.unanswered
    if step is not None and step.epoch != epoch and not state.run_notes.is_batched:
        return True
    if state.compacting.epoch not in (None, epoch):
        return True
    return any(
        call.stage is CallStage.STARTED
        and call.epoch != epoch
        and state.note(call.call_id).open_request_id is None
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
        if program is not None and not program.is_tool and program.has_work
    ]


def _hand_over(state: LoopState, now: Moment) -> list[Draft]:
    """Record that model call, compaction and programs are interrupted on purpose, not by a crash."""
    drafts = compaction.hand_over(state, now)
    step = state.session.history.unanswered
    if state.run is None:
        return drafts
    if step is not None and step.epoch == state.epoch and not state.run_notes.is_batched:
        drafts.append(retry_record(state, HANDED_OVER, now=now))
    turns = [call for call, program in _program_turns(state) if program.epoch == state.epoch]
    return [*drafts, *(interruption_record(state, call, now=now, begun=False) for call in turns)]


# the model


def _take_batch(state: LoopState, event: BatchAnswered, now: Moment) -> list[Draft]:
    """Continue a run that waits for its answer in a batch."""
    run = state.run
    if run is None or run.run_id != event.run_id or state.run_notes.waits_on != BATCH:
        return []
    return [*resume_records(state, BATCH, now=now)]


def _take_answer(state: LoopState, event: ModelAnswered, now: Moment, rules: Rules) -> list[Draft]:
    if state.session.history.unanswered is None:
        return []
    if len(event.calls) > rules.calls_per_step_max:
        error = failures.too_many_calls(len(event.calls), rules)
        return [give_up(state, error, now=now, paid=event)]
    step_fields, drafts, reason = state.place(), list[Draft](), event.finish_reason
    if event.reasoning or event.provider_data:
        thought = records.ReasoningCompleted(
            reasoning=event.reasoning,
            is_late=event.is_reasoning_late or None,
            provider_metadata=event.provider_data or None,
            **step_fields,
        )
        drafts.append(state.draft(thought, now=now))
    if event.text or not event.calls:
        message = records.MessageCompleted(message=event.text or None, finish_reason=reason, **step_fields)
        drafts.append(state.draft(message, now=now))
    if event.calls:
        actions = [programs.action_of(call, call.call_id) for call in event.calls]
        drafts.append(state.draft(records.ActionsRequested(actions=actions, **step_fields), now=now))
    done = records.StepCompleted(
        finish_reason=reason,
        usage=event.usage,
        price=event.price,
        latency_ms=event.latency_ms,
        queued_ms=event.queued_ms,
        cache=event.cache,
        **step_fields,
    )
    drafts.append(state.draft(done, now=now))
    return drafts


def _model_failed(state: LoopState, event: ModelFailed, now: Moment, rules: Rules) -> list[Draft]:
    if state.session.history.unanswered is None:
        return []
    notes, error = state.run_notes, event.error
    if failures.is_overflow(error) and state.compacting.has_overflowed:
        return [give_up(state, failures.prompt_too_long(error), now=now, paid=event)]
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
        return [give_up(state, error, now=now, paid=event)]
    retrying = _retrying(state, event, now, code=error.kind.value, delay_ms=delay_ms, next_model_id=model_id)
    return [retrying, *outage.waiting(state, delay_ms, error.message, now=now)]


def _retrying(
    state: LoopState,
    event: ModelFailed,
    now: Moment,
    *,
    code: str,
    delay_ms: int,
    next_model_id: str | None = None,
) -> Draft:
    body = records.StepRetrying(
        code=code,
        attempt=state.run_notes.attempt,
        delay_ms=delay_ms,
        next_model_id=next_model_id,
        message=event.error.message,
        usage=event.usage,
        price=event.price,
        **state.place(),
    )
    return state.draft(body, now=now)


# calls


def _take_decision(state: LoopState, event: _Decided, now: Moment, rules: Rules) -> list[Draft]:
    call = state.call(event.call_id)
    if call is None or not _is_undecided(state, call):
        return []
    if isinstance(event, CallJudged):
        return _take_judgement(state, call, event, now, rules)
    if isinstance(event, CallAsks):
        request = people.question_request(state, call, asks=event)
        return [people.request_record(state, [request], now=now)]
    return [_take_failure(state, call, event, now)]


def _is_undecided(state: LoopState, call: Call) -> bool:
    """Whether a call has not begun, or must be judged again."""
    if call.stage is CallStage.STARTED:
        return state.note(call.call_id).is_judged_again
    return call.stage is CallStage.REQUESTED


def _take_judgement(
    state: LoopState, call: Call, event: CallJudged, now: Moment, rules: Rules
) -> list[Draft]:
    decision = event.decision
    is_begun = decision.decision in ("allow", "modify")
    is_repeated = call.stage is CallStage.STARTED
    if is_begun and not is_repeated and state.exceeding(now, tool_call=True):
        return []
    decided = records.PolicyDecided(
        stage=PolicyStage.PRE_TOOL,
        decision=decision_part(decision),
        call_id=call.call_id,
        tool_name=call.tool_name,
        **state.place_of(call),
    )
    drafts = [state.draft(decided, now=now)]
    match decision.decision:
        case "allow" | "modify":
            drafts += _begin(state, call, event, now, rules)
        case "ask":
            drafts.append(
                people.request_record(state, [people.approval_request(state, call, judged=event)], now=now)
            )
        case "deny":
            drafts.append(refuse_call(state, call, now=now, code=decision.code, message=decision.reason))
        case _:
            pass
    return drafts


def decision_part(decision: PolicyDecision) -> records.PolicyDecision:
    """Return a decision as a part of its record; cached, because rules repeat the same decision."""
    cached = _DECISIONS.get(id(decision))
    if cached is None or cached[0] is not decision:
        if len(_DECISIONS) >= _DECISIONS_MAX:
            _DECISIONS.clear()
        made = read_body(DECISIONS[decision.decision], decision.model_dump(mode="json", by_alias=True))
        cached = _DECISIONS[id(decision)] = decision, made
    return cached[1]


_DECISIONS: Final[dict[int, tuple[PolicyDecision, records.PolicyDecision]]] = {}
_DECISIONS_MAX: Final = 64


def _begin(state: LoopState, call: Call, event: CallJudged, now: Moment, rules: Rules) -> list[Draft]:
    """Return the intent of a call, with the start item of its subagent."""
    begun, delegation = _take_begun(state, call, event, now), event.delegation
    if delegation is None:
        return [begun]
    child = subagents.call_subagent(state, call, delegation=delegation, now=now, rules=rules)
    if not isinstance(child, Draft):
        return [refuse_call(state, call, now=now, code=child[0], message=child[1])]
    if not delegation.is_background:
        return [begun, child]
    name, job_id = delegation.name, subagents.next_job_id(state)
    return [
        begun,
        child,
        jobs.begin_result(state, call, job_id, name=name, is_tool=delegation.is_tool, now=now),
    ]


def _take_begun(state: LoopState, call: Call, event: CallJudged, now: Moment) -> Draft:
    run = state.run
    assert run is not None
    key = (
        call.idempotency_key
        or undo.own_key(state, call)
        or within_limit(f"{run.run_id}/{call.step_index}/{call.call_id}")
    )
    body = records.ActionStarted(
        call_id=call.call_id,
        tool_name=call.tool_name,
        effect=event.effect,
        idempotency_key=key,
        arguments_hash=event.arguments_hash,
        mode=event.mode,
        arguments=UNSET if event.arguments == call.input else event.arguments,
        undo=event.undo,
        interpreter=event.interpreter,
        **state.place_of(call),
    )
    return state.draft(body, now=now)


def _take_failure(state: LoopState, call: Call, event: CallRefused, now: Moment) -> Draft:
    error = records.ActionError(code=event.code, message=event.message)
    return subagents.fail_call(state, call, error, now=now)


def _take_return(state: LoopState, call: Call, event: CallReturned, now: Moment) -> list[Draft]:
    stored = authored.keep(state, event, now=now)
    event = stored.returned
    is_error = event.status is not ActionStatus.COMPLETED
    error = records.ActionError(code=event.code or "failed", message=event.message or "The call failed.")
    body = records.ActionResult(
        result=subagents.result_of(state, call, output=event.output, is_error=is_error),
        status=event.status,
        error=error if is_error else None,
        content_ref=event.content,
        taint=[Taint(label) for label in event.taint] or None,
        duration_ms=event.duration_ms,
        log=[*event.log] or None,
        **state.place_of(call),
    )
    return [*stored.drafts, state.draft(body, now=now)]


def _unbegun(state: LoopState, event: CallUnbegun, now: Moment) -> list[Draft]:
    """Record that the call is left to the next owner."""
    call = state.call(event.call_id)
    if (
        call is None
        or call.stage is not CallStage.STARTED
        or state.note(call.call_id).recovery_choice is not None
    ):
        return []
    return [interruption_record(state, call, now=now, begun=False)]
