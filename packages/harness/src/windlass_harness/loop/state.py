"""Loop state: the session and the progress of its run, folded from records.

All of it comes from records, so a crash loses nothing. It is changed in place, because copying it for each
record would make long sessions slow.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypedDict

from pydantic import JsonValue

from windlass_harness.budget import would_exceed
from windlass_harness.compaction import MessageSums, estimate_tokens, message_size
from windlass_harness.loop import failures
from windlass_harness.loop.events import Draft, Moment
from windlass_harness.loop.notes import (
    CONSENTED,
    CONTEXT_OVERFLOW,
    HANDED_OVER,
    HELD,
    INTERRUPTED,
    JOBS_KEPT_MAX,
    NO_LIMITS,
    REFUSALS,
    WAIT_FOR,
    BackgroundJob,
    CachedPrompt,
    CallNotes,
    Child,
    CompactionNotes,
    Grant,
    ProgramNotes,
    ProgramResult,
    ProgramVariables,
    RunNotes,
    limits_of,
    pause_after,
    policy_version,
    with_survivors,
)
from windlass_harness.loop.rules import DEFER_MS_MIN
from windlass_harness.record import Record
from windlass_harness.times import ms_of
from windlass_harness.views.fold import Handlers, dump_state, load_parts, load_state
from windlass_harness.views.history import Call
from windlass_harness.views.payloads import (
    SKIPPED,
    SKIPPED_CODE,
    action_name,
    is_limit_ask,
    result_name,
    tool_output,
)
from windlass_harness.views.runs import DELIVERY_BODIES, RUN_END_BODIES, DeliveryStates, RunEnd, RunState
from windlass_harness.views.session import SessionDraft, SessionState
from windlass_protocol import (
    AssistantMessage,
    BudgetName,
    ErrorInfo,
    FinishReason,
    InputOutcome,
    ModelMessage,
    RecoveryChoice,
    RunStatus,
)
from windlass_protocol.bodies import Body, or_none
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records


class TurnPlace(TypedDict):
    """The coordinates of a record about a turn."""

    sequence: int
    turn_id: str


class StepPlace(TurnPlace):
    """The coordinates of a record about a step."""

    step_index: int


class CallPlace(StepPlace):
    """The coordinates of a record about a call."""

    parent_call_id: str | None


_ON: Final = Handlers["LoopState", Record, [], None]()


class LoopState:
    """The state of a session in the loop."""

    def __init__(self, state: SessionState | None = None) -> None:
        self.use(SessionDraft(state or SessionState()))
        self.notes: dict[str, CallNotes] = {}
        self.run_notes = RunNotes()
        self.grants: dict[str, Grant] = {}
        """Approvals for the rest of the session, by request id."""
        self.variables: ProgramVariables | None = None
        """Variables of programs that live for the session."""
        self.cached_prompt: CachedPrompt | None = None
        """None if the provider of the newest model call reported no cache."""
        self.jobs: dict[str, BackgroundJob] = {}
        """Work in the background, by the ids of the jobs."""
        self.job_count = 0
        """Number of jobs that the session has begun."""
        self.deliveries = DeliveryStates()
        self.compacting = CompactionNotes()
        self.token_sums = MessageSums(estimate_tokens)
        self.size_sums = MessageSums(message_size)
        """Cheaper than `token_sums`: most steps need no estimate."""
        self.epoch = 0
        """Epoch of the current owner; open intents of an earlier epoch were interrupted."""

    def use(self, session: SessionDraft) -> None:
        """Replace the session that records are applied to."""
        self.session = session
        self.run = _under_way(session.run)
        """The current run; None if there is none."""

    def apply(self, record: Record) -> None:
        """Apply the next record."""
        if self.run_notes.epoch != record.epoch:
            self.run_notes.change_hands(record, paused_until_ms(self))
        session = self.session
        run_before = session.run
        session.apply(record)
        if session.run is not run_before:
            self.run = _under_way(session.run)
        handle = _ON.by_type.get(record.type)
        if handle is not None:
            handle(self, record, record.body)
        self.run_notes.last_at = record.at

    def apply_all(self, entries: Iterable[Record]) -> None:
        """Apply the next records."""
        for record in entries:
            self.apply(record)

    def measure(self) -> int:
        """Return the size of all messages; only those that are new since the last time are measured."""
        history = self.session.history
        return self.size_sums.since(0, history.messages, revision=history.revision)

    def disown(self) -> None:
        """Drop grants, jobs and deliveries of the session that this one was copied from."""
        self.grants, self.deliveries, self.compacting = {}, DeliveryStates(), CompactionNotes()
        self.jobs = {}

    @property
    def is_ending(self) -> bool:
        """Whether the current run starts no more effects."""
        is_failed = self.run_notes.failure is not None
        return self.run is not None and (self.run.is_cancel_requested or is_failed)

    @property
    def seq(self) -> int:
        """Sequence number of the last record."""
        return self.session.seq

    @property
    def model_id(self) -> str | None:
        """The model of the next call; None if the run names none."""
        return self.run_notes.model_id or (None if self.run is None else self.run.first_model)

    @property
    def has_answered(self) -> bool:
        """Whether the newest message is an answer of the model."""
        if self.run_notes.finish_reason is None:
            return False
        messages = self.session.history.messages
        is_silent = len(messages) == self.session.prompt_message_count
        return is_silent or isinstance(messages[-1] if messages else None, AssistantMessage)

    def is_granted(self, tool_name: str, policy: str | None) -> bool:
        """Whether a person granted a tool of this agent under this policy version."""
        agent_id = "" if self.run is None else self.run.agent_id
        return Grant(agent_id, tool_name, policy) in self.grants.values()

    def note(self, call_id: str) -> CallNotes:
        """Return the notes of a call, read-only."""
        return self.notes.get(call_id, _NO_NOTES)

    def job_of(self, child_run_id: str) -> BackgroundJob | None:
        """Return the job that a run of a subagent works on."""
        return next((job for job in self.jobs.values() if job.child.run_id == child_run_id), None)

    def is_unbegun(self, call: Call) -> bool:
        """Whether a call with a written intent never began."""
        return 0 < call.attempt <= self.note(call.call_id).unbegun_handovers

    def call(self, call_id: str) -> Call | None:
        """Return an open call."""
        return self.session.history.open_call(call_id)

    @property
    def turn_place(self) -> TurnPlace:
        """The coordinates of a turn's records."""
        turn = self.session.turn
        assert turn is not None, "no turn has begun"
        return {"sequence": turn.sequence, "turn_id": turn.turn_id}

    def place(self, step_index: int | None = None) -> StepPlace:
        """Return the coordinates of a step's records; of the newest step, if none is given."""
        turn = self.session.turn
        assert turn is not None, "no turn has begun"
        # Calls of a foreign history may be open before the first step of a turn.
        step = (turn.step_index or 0) if step_index is None else step_index
        return {"sequence": turn.sequence, "turn_id": turn.turn_id, "step_index": step}

    def place_of(self, call: Call) -> CallPlace:
        """Return the coordinates of a call's records."""
        turn = self.session.turn
        assert turn is not None, "no turn has begun"
        return {
            "sequence": turn.sequence,
            "turn_id": turn.turn_id,
            "step_index": call.step_index,
            "parent_call_id": call.parent_id,
        }

    def draft(self, body: Body, *, now: Moment) -> Draft:
        """Return a draft of the current run."""
        run, turn = self.session.run, self.session.turn
        return Draft(
            body.TYPE,
            now.at,
            body,
            None if run is None else run.run_id,
            None if run is None else run.agent_id,
            None if turn is None else turn.turn_id,
            None if turn is None else turn.step_index,
            self.run_notes.attempt or None,
        )

    def wall_ms(self, now: Moment) -> int:
        """Return the active time of the run, without the time that it waited for people.

        It counts from the first to the last record of each owner, and pauses before retries.
        """
        notes = self.run_notes
        if notes.epoch not in (None, self.epoch):
            return notes.wall_ms(notes.active_until(now.at, paused_until_ms(self)))
        return notes.wall_ms(now.at) if now.active_ms is None else notes.budget.wall_ms_used + now.active_ms

    def exceeding(
        self, now: Moment, *, step: bool = False, tool_call: bool = False, tokens: int = 0
    ) -> tuple[BudgetName, ...]:
        """Return the budgets that the given usage would exceed."""
        notes = self.run_notes
        if notes.limits is NO_LIMITS:
            return ()
        wall_ms = self.wall_ms(now) - notes.budget.wall_ms_used
        return would_exceed(
            notes.spent, notes.limits, step=step, tool_call=tool_call, tokens=tokens, wall_ms=wall_ms
        )


def _under_way(run: RunState | None) -> RunState | None:
    return None if run is None or run.result is not None else run


def paused_until_ms(state: LoopState) -> int:
    """Return the end of the current retry pause in milliseconds; 0 if there is none."""
    retries = (state.run_notes, state.compacting)
    return max(
        (notes.pause.until_ms for notes in retries if notes.is_retry and notes.pause is not None), default=0
    )


_NO_NOTES: Final = CallNotes()


def _note(state: LoopState, call_id: str) -> CallNotes:
    """Return the notes of a call, for writing."""
    note = state.notes.get(call_id)
    if note is None:
        note = state.notes[call_id] = CallNotes()
    return note


# records of runs


@_ON.on(records.RunStarted)
def _run_started(state: LoopState, record: Record, _: records.RunStarted) -> None:
    state.notes.clear()
    limits = limits_of(None if state.run is None else state.run.budget)
    state.run_notes = RunNotes(limits=limits, active_since=record.at, epoch=record.epoch)
    state.compacting.begin_run()


@_ON.on(records.RunWaiting)
def _run_waiting(state: LoopState, record: Record, body: records.RunWaiting) -> None:
    state.run_notes.wait(record.at, body.on)


@_ON.on(records.RunResumed)
def _resumed(state: LoopState, record: Record, _: records.RunResumed) -> None:
    if state.run_notes.waits_on in HELD:
        # The next attempt is made now.
        state.run_notes.pause = state.compacting.pause = None
    state.run_notes.resume(record.at)


@_ON.on(*RUN_END_BODIES)
def _run_ended(state: LoopState, _: Record, body: RunEnd) -> None:
    if not isinstance(body, records.RunCompleted):
        for job in state.jobs.values():
            if job.run_id == body.run_id:
                job.is_dropped, job.report = True, None
    if state.run is None:
        state.run_notes.shared_call = None
        state.compacting.end_run()
    else:
        state.run_notes.charge(body.usage)


@_ON.on(records.SessionForked)
def _forked(state: LoopState, _record: Record, _: records.SessionForked) -> None:
    state.disown()


@_ON.on(records.SubagentCalled)
def _subagent_called(state: LoopState, record: Record, body: records.SubagentCalled) -> None:
    child = Child(body.name, body.child_session_id, str(body.child_run_id))
    state.run_notes.children += 1
    if body.job is not None:
        ended = [job_id for job_id, job in state.jobs.items() if job.status is not None and not job.report]
        for job_id in ended[: max(0, len(ended) - JOBS_KEPT_MAX + 1)]:
            del state.jobs[job_id]
        state.job_count += 1
        run_id = "" if state.run is None else state.run.run_id
        state.jobs[body.job] = BackgroundJob(
            body.job, body.name, body.call_id, run_id, record.at, child, lent=body.lent
        )
        return
    note = _note(state, body.call_id)
    note.child, note.lent = child, body.lent


@_ON.on(records.SubagentCompleted)
def _subagent_completed(state: LoopState, _: Record, body: records.SubagentCompleted) -> None:
    job = state.job_of(str(body.child_run_id))
    if job is None:
        _note(state, body.call_id).report = body
    else:
        job.status = body.status or RunStatus.COMPLETED
        job.report = None if job.is_dropped else body
        if state.run is None or state.run.run_id != job.run_id:
            return
    # The usage of a subagent counts for the calling run.
    settled = body.settled_micros
    state.run_notes.charge(body.usage)
    state.run_notes.use(steps=body.steps or 0, tool_calls=body.tool_calls or 0, cost=settled or 0)
    if settled:
        state.run_notes.settled_micros = (state.run_notes.settled_micros or 0) + settled


@_ON.on(records.MessageReceived)
def _message_received(state: LoopState, _: Record, body: records.MessageReceived) -> None:
    if body.job is not None and body.job in state.jobs:
        state.jobs[body.job].report = None


@_ON.on(*DELIVERY_BODIES)
def _delivery(state: LoopState, record: Record, _: Body) -> None:
    state.deliveries.apply(record)


# records of steps


@_ON.on(records.StepStarted)
def _step_started(state: LoopState, record: Record, body: records.StepStarted) -> None:
    state.notes.clear()
    notes = state.run_notes
    notes.attempt = record.attempt or 1
    if body.model_id is not None and state.run is not None and body.model_id != state.model_id:
        # A cheaper model, because of a limit.
        notes.model_id, notes.model_failures = body.model_id, 0
    notes.reserve(body.reserved)
    notes.finish_reason = None
    notes.is_validated, notes.structured = False, None
    notes.hooked.begin_step()
    if not notes.is_retry:
        notes.failures = 0
        notes.budget.steps_used += 1
    notes.is_retry = False


@_ON.on(records.StepRetrying)
def _step_retrying(state: LoopState, record: Record, body: records.StepRetrying) -> None:
    notes = state.run_notes
    notes.is_retry = True
    notes.pause = pause_after(record, body.delay_ms)
    if body.code not in (INTERRUPTED, HANDED_OVER, CONTEXT_OVERFLOW):
        notes.retried_ms = notes.retrying_ms(record.at) + body.delay_ms
        notes.failures += 1
        notes.model_failures += 1
        notes.was_away |= body.delay_ms > 0
    if body.next_model_id is not None and state.run is not None:
        notes.model_id = None if body.next_model_id == state.run.first_model else body.next_model_id
        notes.model_failures = 0
    if body.code == INTERRUPTED:
        notes.interruptions = (*notes.interruptions, notes.interruption(is_shared=body.shared is True))
    state.compacting.is_overflow |= body.code == CONTEXT_OVERFLOW
    notes.settle(body.usage, body.price, is_lost=body.code in (INTERRUPTED, HANDED_OVER))


@_ON.on(records.StepFailed)
def _step_failed(state: LoopState, _: Record, body: records.StepFailed) -> None:
    state.run_notes.end_call()
    state.compacting.end_step()
    state.run_notes.settle(body.usage, body.price)
    error = None if body.details is None else body.details.get("error")
    if error is not None:
        state.run_notes.failure = ErrorInfo.model_validate(error)


@_ON.on(records.StepCompleted)
def _step_completed(state: LoopState, _: Record, body: records.StepCompleted) -> None:
    notes, compacting = state.run_notes, state.compacting
    notes.end_call()
    compacting.is_overflow = compacting.has_overflowed = False
    notes.finish_reason = body.finish_reason
    if body.finish_reason in _BROKEN:
        notes.failure = failures.cut_off(body.finish_reason)
    notes.settle(body.usage, body.price)
    if body.cache is not None or state.cached_prompt is not None:
        state.cached_prompt = _prompt_in_cache(state, body)


def _prompt_in_cache(state: LoopState, body: records.StepCompleted) -> CachedPrompt | None:
    cache, usage, before = body.cache, body.usage, state.cached_prompt
    if cache is None or usage is None:
        return None
    parts = () if before is None else before.parts[: cache.kept]
    tokens = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    return CachedPrompt(state.model_id, (*parts, *cache.added), tokens)


_BROKEN: Final = (FinishReason.CONTENT_FILTER, FinishReason.ERROR)
"""Finish reasons that discard the calls of an answer."""


# records of calls


@_ON.on(records.PolicyDecided)
def _policy_decided(state: LoopState, record: Record, body: records.PolicyDecided) -> None:
    call_id, decision = body.call_id, body.decision
    if call_id is None:
        return
    note = _note(state, call_id)
    note.policy_version = policy_version(decision)
    note.is_consented = decision.code == CONSENTED
    note.approval_outcome = None
    note.pause = None
    match decision:
        case records.DeferDecision():
            # A policy without a delay must not be asked in a busy loop.
            note.pause = pause_after(record, max(decision.resume_after_ms or 0, DEFER_MS_MIN))
        case records.InterruptDecision():
            state.run_notes.failure = failures.policy_interruption(decision)
        case _:
            pass


@_ON.on(records.ActionStarted)
def _action_started(state: LoopState, record: Record, body: records.ActionStarted) -> None:
    note = _note(state, body.call_id)
    note.recovery_choice = None
    note.approval_outcome = None
    note.arguments_hash = str(body.arguments_hash)
    note.undo = body.undo
    if body.interpreter is not None and note.program is None:
        note.program = ProgramNotes(body.interpreter, record.at, state.variables, epoch=record.epoch)
    if note.program is not None and note.program.is_tool:
        note.program.has_paused = False
    state.run_notes.refusals = 0
    call = state.session.history.open_call(body.call_id)
    if call is not None and call.attempt == 1:
        state.run_notes.budget.tool_calls_used += 1


@_ON.on(records.RunEventReceived)
def _event_received(state: LoopState, _: Record, body: records.RunEventReceived) -> None:
    notes, data = state.run_notes, or_none(body.data)
    notes.events.setdefault(body.name, []).append(data)
    notes.event_count += 1
    if body.key is not None:
        notes.event_keys.add(body.key)


def _take_event(state: LoopState, output: JsonValue) -> None:
    """Apply that a call took the oldest event of a name."""
    if isinstance(output, dict):
        name = str(output.get("name"))
        state.run_notes.events[name] = state.run_notes.events.get(name, [])[1:]


@_ON.on(records.ActionResult)
def _action_result(state: LoopState, record: Record, body: records.ActionResult) -> None:
    error = body.error
    if state.run_notes.limit_ask == body.result.call_id:
        state.run_notes.limit_ask = None
        return
    if error is not None:
        state.run_notes.refusals += error.code in REFUSALS
        if state.run is not None and state.run.undo is not None:
            state.run_notes.unreversed.append(result_name(body.result))
    parent_id = state.session.history.parent_of(body.result.call_id)
    program = None if parent_id is None else state.note(parent_id).program
    if program is not None:
        code = "" if error is None else error.code
        if program.is_of_application and result_name(body.result) == WAIT_FOR:
            _take_event(state, body.result.output)
        program.epoch = record.epoch
        output = tool_output(body)
        program.results.append(
            ProgramResult(
                body.result.call_id,
                output,
                body.content_ref,
                code,
                record.at,
                program.numbers.get(body.result.call_id, 0),
            )
        )


@_ON.on(records.ActionsRequested)
def _actions_requested(state: LoopState, _: Record, body: records.ActionsRequested) -> None:
    program = None if body.parent_call_id is None else state.note(body.parent_call_id).program
    if program is not None:
        for action in body.actions:
            program.add_call(action.call_id, action_name(action), action.input)


@_ON.on(records.ProgramPaused)
def _program_paused(state: LoopState, record: Record, body: records.ProgramPaused) -> None:
    note = _note(state, body.call_id)
    program = note.program
    if program is None and body.interpreter is None:
        # A tool that waits for the first time.
        program = note.program = ProgramNotes("", record.at)
    if program is None:
        return
    if not program.is_tool:
        note.interruptions = ()
    program.has_paused = True
    program.taken = body.taken
    program.snapshot = body.snapshot
    program.interpreter = program.interpreter if body.interpreter is None else body.interpreter
    program.printed += body.printed or ""


@_ON.on(records.ProgramEnded)
def _program_ended(state: LoopState, _: Record, body: records.ProgramEnded) -> None:
    program = state.note(body.call_id).program
    if program is not None:
        program.end = body
    if body.variables is not None:
        state.variables = ProgramVariables(str(body.interpreter), body.variables, tuple(body.names or ()))


# records of people


@_ON.on(records.InputRequested)
def _input_requested(state: LoopState, _: Record, body: records.InputRequested) -> None:
    # Requests of a subagent are about its own calls; their ids may equal ids of this session.
    for request in body.requests if body.child_session_id is None else ():
        call_id, arguments = request.action.call_id, request.action.input
        note = _note(state, call_id)
        note.open_request_id = note.last_request_id = request.request_id
        note.is_dispatched = False
        note.asks += 1
        if is_limit_ask(call_id):
            state.run_notes.limit_ask = call_id
        state.run_notes.hooked.ask(call_id)
        note.arguments = arguments if isinstance(arguments, dict) else None
        note.is_changed = False
        if request.arguments_hash is not None:
            note.arguments_hash = request.arguments_hash
        note.consent_expires_ms = None if request.expires_at is None else ms_of(request.expires_at)


@_ON.on(records.ApprovalDispatched)
def _dispatched(state: LoopState, _: Record, body: records.ApprovalDispatched) -> None:
    for note in state.notes.values():
        note.is_dispatched |= note.open_request_id == body.request_id


@_ON.on(records.ApprovalSettled)
def _approval_settled(state: LoopState, record: Record, body: records.ApprovalSettled) -> None:
    for call_id, note in state.notes.items():
        if note.last_request_id != body.request_id:
            continue
        note.open_request_id = None
        note.approval_outcome = body.outcome
        note.denial_reason = body.reason
        if is_limit_ask(call_id) and body.outcome is InputOutcome.APPROVED:
            arguments = note.arguments or {}
            state.run_notes.allow(arguments, arguments if body.arguments is None else body.arguments)
        if body.arguments is not None:
            note.arguments, note.is_changed = body.arguments, True
        call = state.call(call_id)
        if body.grant is not None and body.outcome is InputOutcome.APPROVED and call is not None:
            state.grants[body.request_id] = Grant(record.agent_id or "", call.tool_name, note.policy_version)


@_ON.on(records.InputResolved)
def _input_resolved(state: LoopState, _: Record, body: records.InputResolved) -> None:
    ids = {resolution.request_id for resolution in body.resolutions}
    for note in state.notes.values():
        if note.open_request_id in ids:
            note.open_request_id = None


# records of recovery


@_ON.on(records.RecoveryStarted)
def _recovery_started(state: LoopState, record: Record, body: records.RecoveryStarted) -> None:
    notes, lived = state.run_notes, body.survived or ()
    notes.was_shared = body.shared is True
    notes.was_isolated = notes.isolated_epoch is not None and notes.isolated_epoch == notes.previous_epoch
    notes.isolated_epoch = record.epoch if body.isolated else None
    notes.has_lived = notes.previous_epoch in lived
    if lived:
        calls = [_note(state, call.call_id) for call in state.session.history.open_calls()]
        for effect in (notes, state.compacting, *calls):
            effect.interruptions = with_survivors(effect.interruptions, lived)


@_ON.on(records.RecoveryCompleted)
def _recovery_completed(state: LoopState, _: Record, __: records.RecoveryCompleted) -> None:
    state.run_notes.isolated_epoch = None


@_ON.on(records.RecoveryEffectFound)
def _effect_found(state: LoopState, record: Record, body: records.RecoveryEffectFound) -> None:
    note = _note(state, body.call_id)
    has_begun, program, delay_ms = body.begun is not False, note.program, body.delay_ms or 0
    if has_begun:
        interruption = state.run_notes.interruption(is_shared=body.shared is True)
        note.interruptions = (*note.interruptions, interruption)
    if program is not None and not program.is_tool:
        # The owner of its turn releases it, also to a person, or another one takes it.
        is_released = program.epoch == record.epoch or body.request_id is not None
        program.epoch = None if is_released else record.epoch
        note.pause = pause_after(record, delay_ms) if delay_ms else None
        return
    note.unbegun_handovers += not has_begun
    if body.request_id is None:
        note.recovery_choice = RecoveryChoice.RETRY
        note.pause = pause_after(record, delay_ms) if delay_ms else note.pause


@_ON.on(records.RecoveryEffectSettled)
def _effect_settled(state: LoopState, record: Record, body: records.RecoveryEffectSettled) -> None:
    note = _note(state, body.call_id)
    note.recovery_choice = body.choice
    note.reversals += note.recovery_choice is RecoveryChoice.UNDO
    if note.recovery_choice is RecoveryChoice.SKIP:
        parent_id = state.session.history.parent_of(body.call_id)
        program = None if parent_id is None else state.note(parent_id).program
        if program is not None and not program.has_result(body.call_id):
            # Of an early journal: later ones have a result before the decision.
            program.epoch = record.epoch
            number = program.numbers.get(body.call_id, 0)
            skipped = ProgramResult(body.call_id, SKIPPED, code=SKIPPED_CODE, at=record.at, number=number)
            program.results.append(skipped)
    note.is_consented = note.is_consented or note.recovery_choice is RecoveryChoice.RETRY
    note.interruptions = ()
    note.open_request_id = None
    if note.program is not None and note.program.is_workflow and body.choice is RecoveryChoice.SKIP:
        state.run_notes.failure = failures.divergence_error()


# hooks, outputs and compactions


@_ON.on(records.HookCompleted, records.HookFailed)
def _hook_ran(state: LoopState, record: Record, body: records.HookCompleted | records.HookFailed) -> None:
    run = state.session.run
    if run is None or record.run_id != run.run_id:
        return
    state.run_notes.hooked.apply(body)
    if body.stop is not None:
        state.run_notes.failure = body.stop


@_ON.on(records.OutputRequested)
def _output_requested(state: LoopState, _: Record, body: records.OutputRequested) -> None:
    state.run_notes.contract = body.contract


@_ON.on(records.OutputRejected)
def _output_rejected(state: LoopState, _: Record, body: records.OutputRejected) -> None:
    state.run_notes.rejections = body.attempt


@_ON.on(records.OutputFailed)
def _output_failed(state: LoopState, _: Record, body: records.OutputFailed) -> None:
    state.run_notes.failure = failures.unfit(body.attempts, body.errors)


@_ON.on(records.ResultCompleted)
def _result_completed(state: LoopState, _: Record, body: records.ResultCompleted) -> None:
    state.run_notes.is_validated = True
    state.run_notes.structured = body.result


@_ON.on(records.CompactionRequested)
def _compaction_requested(state: LoopState, record: Record, body: records.CompactionRequested) -> None:
    state.compacting.apply_request(record, body)


@_ON.on(records.CompactionFailed)
def _compaction_failed(state: LoopState, record: Record, body: records.CompactionFailed) -> None:
    state.compacting.apply_failure(record, body, state.run_notes)
    _charge_run(state, body.usage)


@_ON.on(records.CompactionCompleted)
def _compaction_completed(state: LoopState, _: Record, body: records.CompactionCompleted) -> None:
    state.compacting.apply_completion(body)
    _charge_run(state, body.usage)


@_ON.on(records.ContextCleared)
def _context_cleared(state: LoopState, _record: Record, _: records.ContextCleared) -> None:
    state.compacting.apply_clearing()


def _charge_run(state: LoopState, usage: records.Usage | None) -> None:
    if state.run is not None:
        state.run_notes.charge(usage)


@frozen
class LoopSnapshot:
    """Serialised loop state."""

    session: SessionState
    notes: dict[str, CallNotes]
    run_notes: RunNotes
    grants: dict[str, Grant]
    jobs: dict[str, BackgroundJob]
    job_count: int
    deliveries: DeliveryStates
    compacting: CompactionNotes
    variables: ProgramVariables | None
    cached_prompt: CachedPrompt | None


_MESSAGES_AT_ONCE: Final = 256
"""Messages of a snapshot that are encoded and read together."""


def dump_loop(state: LoopState) -> bytes:
    """Return the state as a snapshot."""
    session = state.session.freeze()
    messages = session.history.messages
    first = replace(session, history=replace(session.history, messages=messages[:_MESSAGES_AT_ONCE]))
    return dump_state(
        LoopSnapshot(
            first,
            state.notes,
            state.run_notes,
            state.grants,
            state.jobs,
            state.job_count,
            state.deliveries,
            state.compacting,
            state.variables,
            state.cached_prompt,
        ),
        *(
            messages[at : at + _MESSAGES_AT_ONCE]
            for at in range(_MESSAGES_AT_ONCE, len(messages), _MESSAGES_AT_ONCE)
        ),
    )


def load_loop(snapshot: bytes) -> LoopState | None:
    """Return the state of a snapshot; None if it must be folded again."""
    loaded, more = load_state(LoopSnapshot, snapshot), load_parts(tuple[ModelMessage, ...], snapshot)
    if loaded is None or more is None:
        return None
    state = LoopState(loaded.session)
    for messages in more:
        state.session.history.messages += messages
    state.notes = loaded.notes
    state.run_notes = loaded.run_notes
    state.grants = loaded.grants
    state.jobs = loaded.jobs
    state.job_count = loaded.job_count
    state.deliveries = loaded.deliveries
    state.compacting = loaded.compacting
    state.variables = loaded.variables
    state.cached_prompt = loaded.cached_prompt
    return state
