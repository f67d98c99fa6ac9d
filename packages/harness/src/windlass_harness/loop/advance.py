"""`advance`: returns the records to write and the effects to perform next, from the state.

Recovery follows from one rule. An open intent of the current owner is performed; an open intent of an earlier
owner was interrupted, and the kind of effect decides what happens.
"""

from collections.abc import Set

from msgspec import Struct

from windlass_harness.loop import (
    compaction,
    ends,
    failures,
    hooks,
    jobs,
    outage,
    overdraft,
    people,
    programs,
    purse,
    undo,
    workflows,
)
from windlass_harness.loop.ends import deny_call
from windlass_harness.loop.events import (
    NOTHING,
    CallModel,
    CheckOutput,
    Draft,
    Effect,
    JudgeCall,
    ModelAnswered,
    ModelFailed,
    Moment,
    Plan,
    ReviewReport,
    RunTool,
    WaitResult,
    judge_key,
    run_key,
)
from windlass_harness.loop.notes import (
    BATCH,
    INTERRUPTED,
    NO_USAGE_PRICE,
    RECOVERY,
    SUBAGENT,
    CallNotes,
    ProgramNotes,
)
from windlass_harness.loop.rules import (
    AFTER_APPROVAL_DECISION,
    BEFORE_RUN_COMPLETE,
    DEFAULT_RULES,
    ON_RUN_CANCEL_REQUESTED,
    RUN_STARTING,
    Rules,
)
from windlass_harness.loop.state import LoopState
from windlass_harness.times import ms_of
from windlass_harness.views.history import Call, CallStage, Step
from windlass_protocol import (
    AssistantMessage,
    BudgetName,
    EffectClass,
    ErrorInfo,
    FinishReason,
    InputOutcome,
    InputRequest,
    JsonObject,
    RecoveryChoice,
    TextPart,
)
from windlass_protocol.generated import records


def advance(state: LoopState, under_way: Set[str], *, now: Moment, rules: Rules = DEFAULT_RULES) -> Plan:
    """Return the records and effects that are due now.

    `under_way` has the keys of effects in progress.
    """
    run = state.run
    if run is None:
        return compaction.at_rest(state, under_way, now=now, rules=rules)
    if run.is_cancel_requested or state.run_notes.failure is not None:
        return NOTHING if under_way else _end(state, now, rules)
    step = state.session.history.unanswered
    if step is not None:
        return _ask_on(state, step, under_way, now, rules)
    ask_id = state.run_notes.limit_ask
    if ask_id is not None:
        return _settle_overdraft(state, ask_id, now)
    calls = state.session.history.open_calls()
    if calls:
        return _advance_calls(state, calls, under_way, now, rules)
    return NOTHING if under_way else _go_on(state, now, rules)


def _settle_overdraft(state: LoopState, ask_id: str, now: Moment) -> Plan:
    """Wait until a person has answered whether the run may exceed a limit, and act on it."""
    if state.note(ask_id).open_request_id is not None:
        return _wait(state, _Calls(), now)
    ready = resume_records(state, "ready", now=now)
    return Plan(ready) if ready else overdraft.settle(state, ask_id, now=now)


def _end(state: LoopState, now: Moment, rules: Rules) -> Plan:
    """End a cancelled or failed run: nothing is in progress any more."""
    error, run = state.run_notes.failure, state.run
    if run is not None and run.is_cancel_requested:
        last = hooks.due(state, ON_RUN_CANCEL_REQUESTED, rules=rules)
        if last:
            return Plan(effects=last)
    if error is None or (run is not None and run.is_cancel_requested):
        return Plan(ends.cancel_run(state, now))
    return Plan(ends.fail_run(state, error, now=now))


def _go_on(state: LoopState, now: Moment, rules: Rules) -> Plan:
    """No call is open: end the run, or call the model when it is due."""
    wake_at_ms = outage.wake_ms(state, now)
    if wake_at_ms is not None:
        return Plan(wake_at_ms=wake_at_ms)
    if state.has_answered and jobs.are_awaited(state, rules):
        exceeded = state.exceeding(now)
        if exceeded:
            return purse.reach_budget(state, exceeded, now=now, rules=rules)
        return _wait(state, _Calls(has_busy_child=jobs.are_busy(state)), now)
    ready = resume_records(state, "ready", now=now)
    if ready:
        return Plan(ready)
    reports = jobs.reports(state)
    if reports:
        return Plan(effects=reports)
    notes = state.run_notes
    if notes.refusals > rules.refusals_max:
        return Plan(ends.fail_run(state, failures.too_many_refusals(rules), now=now))
    if state.has_answered:
        return _finish(state, now, rules)
    first = hooks.due(state, RUN_STARTING, rules=rules) if notes.budget.steps_used == 0 else ()
    if first:
        return Plan(effects=first)
    if state.run is not None and state.run.undo is not None:
        return undo.next_step(state, now=now)
    if state.run is not None and state.run.job is not None:
        return jobs.next_step(state, now=now)
    return _ask(state, now, rules)


# the model


def _ask_on(state: LoopState, step: Step, under_way: Set[str], now: Moment, rules: Rules) -> Plan:
    """A model call is open: perform it, or retry it if its owner is gone.

    Retries are limited: the call may be what crashes its owners.
    """
    effect = CallModel(step.step_index, state.run_notes.attempt)
    if effect.key in under_way:
        return NOTHING
    notes = state.run_notes
    if notes.waits_on == BATCH:
        return NOTHING
    if step.epoch == state.epoch or notes.is_batched:
        return Plan(effects=(effect,))
    times = outage.times_ended(state, notes, rules=rules)
    if times:
        lost = ModelFailed(failures.interrupted_too_often(times), price=NO_USAGE_PRICE)
        return Plan((give_up(state, lost.error, now=now, paid=lost),))
    shared, delay_ms, reason = outage.after_crash(state, notes)
    again = retry_record(state, INTERRUPTED, now=now, delay_ms=delay_ms, shared=shared)
    return Plan((again, *outage.waiting(state, delay_ms, reason, now=now, on=RECOVERY)))


def retry_record(
    state: LoopState, code: str, *, now: Moment, delay_ms: int = 0, shared: bool | None = None
) -> Draft:
    """Return the record of a model call that was interrupted and is retried."""
    attempt = state.run_notes.attempt
    body = records.StepRetrying(code=code, attempt=attempt, delay_ms=delay_ms, shared=shared, **state.place())
    return state.draft(body, now=now)


def give_up(
    state: LoopState, error: ErrorInfo, *, now: Moment, paid: ModelAnswered | ModelFailed | None = None
) -> Draft:
    """Return the record of a model call that failed for good; it ends the run. `paid` has its usage."""
    body = records.StepFailed(
        code=error.kind.value,
        message=error.message,
        details={"error": error.model_dump(mode="json", by_alias=True)},
        usage=None if paid is None else paid.usage,
        price=None if paid is None else paid.price,
        **state.place(),
    )
    return state.draft(body, now=now)


def _ask(state: LoopState, now: Moment, rules: Rules) -> Plan:
    notes = state.run_notes
    names = state.exceeding(now, step=not notes.is_retry, tokens=1)
    if names:
        return purse.reach_budget(state, names, now=now, rules=rules)
    if notes.budget.steps_used >= rules.steps_max and not notes.is_retry:
        return Plan(ends.fail_run(state, failures.too_many_steps(rules), now=now))
    first = compaction.before_step(state, now=now, rules=rules)
    if first is not None:
        return first
    return purse.begin_call(state, now=now, rules=rules)


def _finish(state: LoopState, now: Moment, rules: Rules) -> Plan:
    notes = state.run_notes
    if notes.finish_reason is FinishReason.LENGTH:
        return Plan(ends.fail_run(state, failures.cut_off(notes.finish_reason), now=now))
    text = last_text(state)
    if notes.contract is not None and not notes.is_validated:
        return Plan(effects=(CheckOutput(text),))
    last = hooks.due(state, BEFORE_RUN_COMPLETE, rules=rules)
    if last:
        return Plan(effects=last)
    return Plan(ends.complete_run(state, text, now=now))


def last_text(state: LoopState) -> str:
    """Return the text of the newest answer; empty if it has none."""
    messages = state.session.history.messages
    last = messages[-1] if messages else None
    if not isinstance(last, AssistantMessage):
        return ""
    if isinstance(last.content, str):
        return last.content
    return "".join(part.text for part in last.content if isinstance(part, TextPart))


# calls


class _Calls(Struct):
    """The plan for open calls, while it is built."""

    drafts: list[Draft] = []
    effects: list[Effect] = []
    requests: list[InputRequest] = []
    wakes: list[int] = []
    exceeded: tuple[BudgetName, ...] = ()
    has_busy_child: bool = False
    failure: ErrorInfo | None = None
    """Why the run fails, once nothing is in progress."""


def _advance_calls(
    state: LoopState, calls: list[Call], under_way: Set[str], now: Moment, rules: Rules
) -> Plan:
    late = people.expire_requests(state, now)
    if late:
        return Plan((*resume_records(state, "expired", now=now), *late))
    plan = _Calls()
    for call in calls:
        if under_way and (run_key(call.call_id) in under_way or judge_key(call.call_id) in under_way):
            continue
        settlement = workflows.settle(state, call, now=now) or jobs.settle(state, call, now=now, rules=rules)
        if settlement is not None:
            plan.drafts += settlement.drafts
            plan.wakes += [] if settlement.wake_at_ms is None else [settlement.wake_at_ms]
            plan.has_busy_child |= settlement.is_busy
        elif call.stage is CallStage.STARTED:
            _advance_started(state, call, plan, now, rules)
        else:
            _advance_requested(state, call, plan, now, rules)
    if plan.failure is not None:
        return NOTHING if under_way else Plan(ends.fail_run(state, plan.failure, now=now))
    if plan.requests:
        plan.drafts.append(people.request_record(state, plan.requests, now=now))
    effects = plan.effects
    if under_way and effects:
        effects = [effect for effect in effects if effect.key not in under_way]
    wake = min(plan.wakes, default=None)
    if plan.drafts or effects:
        drafts = (*resume_records(state, "ready", now=now), *plan.drafts)
        return Plan(drafts, tuple(effects), wake_at_ms=wake)
    if under_way:
        # A timer, or a call that waits, does not wait for those under way.
        return Plan(wake_at_ms=wake)
    if plan.exceeded:
        return purse.reach_budget(state, plan.exceeded, now=now, rules=rules)
    return _wait(state, plan, now)


def _advance_requested(state: LoopState, call: Call, plan: _Calls, now: Moment, rules: Rules) -> None:
    """A call that has not begun: ask the policy, or apply a person's answer."""
    note = state.note(call.call_id)
    if note.open_request_id is not None:
        plan.wakes += _expiries(state, note.open_request_id)
    elif note.pause is not None and now.is_in(note.pause):
        plan.wakes.append(note.pause.until_ms)
    elif note.approval_outcome is not None and (
        seen := hooks.due(state, AFTER_APPROVAL_DECISION, rules=rules, call_id=call.call_id)
    ):
        plan.effects += seen
    elif note.approval_outcome is not None and note.approval_outcome is not InputOutcome.APPROVED:
        plan.drafts.append(deny_call(state, call, note=note, now=now))
    elif call.stage is CallStage.REQUESTED and (names := state.exceeding(now, tool_call=True)):
        plan.exceeded = names
    else:
        plan.effects.append(_judge(state, call, note, now))


def _judge(state: LoopState, call: Call, note: CallNotes, now: Moment) -> JudgeCall:
    is_lapsed = note.consent_expires_ms is not None and note.consent_expires_ms <= now.ms
    if note.approval_outcome is None and call.stage is CallStage.STARTED:
        # An owner that handed the call over before it began has not used the consent.
        is_consented = note.is_consented and not (is_lapsed and state.is_unbegun(call))
        return JudgeCall(
            call.call_id,
            call.tool_name,
            call.input if call.arguments is None else call.arguments,
            approved_hash=note.arguments_hash if is_consented else None,
            approved_policy=note.policy_version or "",
            is_inner=call.parent_id is not None,
        )
    if note.approval_outcome is None:
        arguments = state.run_notes.hooked.arguments.get(call.call_id, call.input)
        return JudgeCall(call.call_id, call.tool_name, arguments, is_inner=call.parent_id is not None)
    return JudgeCall(
        call.call_id,
        call.tool_name,
        call.input if note.arguments is None else note.arguments,
        approved_hash=None if is_lapsed else note.arguments_hash,
        approved_policy=note.policy_version or "",
        is_inner=call.parent_id is not None,
        is_changed=note.is_changed,
    )


def _advance_started(state: LoopState, call: Call, plan: _Calls, now: Moment, rules: Rules) -> None:
    """A call that has begun: perform it, or recover it if its owner is gone."""
    note = state.note(call.call_id)
    if note.child is not None:
        _advance_child(state, call, note, plan, now)
        return
    if note.program is not None and not note.program.is_tool:
        plan.drafts += programs.finish(state, call, note.program, now=now)
        _advance_program(state, call, note.program, plan, now, rules)
        return
    if note.program is not None and note.program.has_paused:
        if programs.has_waited(note.program):
            # The rules may have changed since the tool asked: ask the policy again.
            _advance_requested(state, call, plan, now, rules)
        return
    if note.open_request_id is not None:
        return
    if note.recovery_choice is RecoveryChoice.UNDO:
        drafts = undo.advance(state, call, note, now=now)
        if drafts is None:
            # It could not be reversed.
            _ask_recovery(state, call, plan, now, rules, times=1)
        else:
            plan.drafts += drafts
        return
    if call.epoch == state.epoch and note.recovery_choice is None:
        plan.effects.append(run_tool(call, programs.waits_of(state, call, note.program)))
    elif note.recovery_choice is RecoveryChoice.RETRY:
        # The rules may have changed since the call began: ask the policy again.
        _advance_requested(state, call, plan, now, rules)
    else:
        _recover(state, call, plan, now, rules)


def _advance_program(
    state: LoopState, call: Call, program: ProgramNotes, plan: _Calls, now: Moment, rules: Rules
) -> None:
    """A program: run it, also after a change of owner, because running it has no effect but its calls.

    Repeats are limited: the program may be what crashes its owners.
    """
    note = state.note(call.call_id)
    effect = None if note.open_request_id is not None else programs.due(call, program)
    if effect is None:
        return
    if program.epoch == state.epoch:
        if note.pause is not None and now.is_in(note.pause):
            plan.wakes.append(note.pause.until_ms)
        else:
            plan.effects.append(effect)
        return
    if program.epoch is None:
        plan.drafts.append(interruption_record(state, call, now=now, begun=False))
        return
    times = outage.times_ended(state, note, rules=rules)
    if times:
        plan.failure = failures.interrupted_too_often(times, during="program")
        return
    plan.drafts.append(_repeat_record(state, call, note, now))


def _advance_child(state: LoopState, call: Call, note: CallNotes, plan: _Calls, now: Moment) -> None:
    """A subagent call: review the report, or wait for it.

    A change of owner does not matter: the start item of the subagent was written with the call.
    """
    if note.report is not None:
        arguments = _arguments(call)
        plan.effects.append(
            ReviewReport(call.call_id, call.tool_name, arguments, note.report, call.step_index)
        )
        return
    asked_call_ids = {asked_request.call_id for asked_request in state.session.family.proxied.values()}
    plan.has_busy_child |= call.call_id not in asked_call_ids
    plan.exceeded = plan.exceeded or state.exceeding(now)


def _recover(state: LoopState, call: Call, plan: _Calls, now: Moment, rules: Rules) -> None:
    """Retry an interrupted call if that is safe and within the limit; otherwise ask a person."""
    effect, _ = _intent(call)
    note = state.note(call.call_id)
    times = outage.times_ended(state, note, rules=rules)
    if effect is not EffectClass.ONCE and not times:
        plan.drafts.append(_repeat_record(state, call, note, now))
        return
    _ask_recovery(state, call, plan, now, rules, times=1 if effect is EffectClass.ONCE else times)


def _ask_recovery(
    state: LoopState, call: Call, plan: _Calls, now: Moment, rules: Rules, *, times: int
) -> None:
    request = people.recovery_request(state, call, times=times, responders=rules.responders)
    plan.drafts.append(interruption_record(state, call, now=now, request_id=request.request_id))
    plan.requests.append(request)


def _repeat_record(state: LoopState, call: Call, note: CallNotes, now: Moment) -> Draft:
    """Return the record of an interrupted call that is repeated without asking."""
    shared, delay_ms, _ = outage.after_crash(state, note)
    return interruption_record(state, call, now=now, shared=shared, delay_ms=delay_ms or None)


def interruption_record(
    state: LoopState,
    call: Call,
    *,
    now: Moment,
    shared: bool | None = None,
    delay_ms: int | None = None,
    request_id: str | None = None,
    begun: bool | None = None,
) -> Draft:
    """Return the record of an interrupted call: an intent without a result."""
    effect, key = _intent(call)
    body = records.RecoveryEffectFound(
        call_id=call.call_id,
        effect=effect,
        shared=shared,
        delay_ms=delay_ms,
        tool_name=call.tool_name,
        idempotency_key=key,
        request_id=request_id,
        begun=begun,
    )
    return state.draft(body, now=now)


def _intent(call: Call) -> tuple[EffectClass, str]:
    assert call.effect is not None
    assert call.idempotency_key is not None, "a call that has begun says how, and under which key"
    return call.effect, call.idempotency_key


def run_tool(call: Call, waited: tuple[WaitResult, ...] = ()) -> RunTool:
    """Return the effect of a call that has begun."""
    return RunTool(
        call.call_id,
        call.tool_name,
        _arguments(call),
        idempotency_key=_intent(call)[1],
        step_index=call.step_index,
        attempt=call.attempt,
        is_inner=call.parent_id is not None,
        waited=waited,
    )


def _arguments(call: Call) -> JsonObject:
    arguments = call.input if call.arguments is None else call.arguments
    return arguments if isinstance(arguments, dict) else {}


# waiting


def _expiries(state: LoopState, request_id: str) -> list[int]:
    request = state.session.requests.get(request_id)
    return [ms_of(request.expires_at)] if request is not None and request.expires_at is not None else []


def _wait(state: LoopState, plan: _Calls, now: Moment) -> Plan:
    run, notes = state.run, state.run_notes
    assert run is not None
    ids = [*state.session.requests, *state.session.family.proxied]
    reason = SUBAGENT if plan.has_busy_child else "input" if ids else "timer"
    if plan.has_busy_child and notes.limits.max_wall_ms is not None:
        plan.wakes.append(now.ms + notes.limits.max_wall_ms - state.wall_ms(now) + 1)
    wake = min(plan.wakes, default=None)
    if notes.waits_on is not None and (reason == notes.waits_on or SUBAGENT not in (reason, notes.waits_on)):
        return Plan(wake_at_ms=wake)
    waiting = records.RunWaiting(
        run_id=run.run_id, on=reason, request_ids=ids or None, usage=notes.known_usage
    )
    turn = state.draft(records.TurnWaiting(on=reason, **state.turn_place), now=now)
    return Plan((turn, state.draft(waiting, now=now)), wake_at_ms=wake)


def resume_records(state: LoopState, reason: str, *, now: Moment) -> tuple[Draft, ...]:
    """Return the record of a run that stops waiting; empty if it does not wait."""
    run = state.run
    if state.run_notes.waits_on is None or run is None:
        return ()
    body = records.RunResumed(run_id=run.run_id, reason=reason, epoch=state.epoch)
    return (state.draft(body, now=now),)
