"""Loop state: the session and the progress of its run, folded from records.

All of it comes from records, so a crash loses nothing. It is changed in place, because copying it for each
record would make long sessions slow.
"""

from collections.abc import Callable, Sequence
from typing import Final, cast

from pydantic import JsonValue

from windlass_harness.budget import would_exceed
from windlass_harness.compaction import MessageSums, estimate_tokens, message_size
from windlass_harness.loop import failures
from windlass_harness.loop.events import Draft, Moment
from windlass_harness.loop.notes import (
    COMPACTION_RECORDS,
    CONSENTED,
    CONTEXT_OVERFLOW,
    HANDED_OVER,
    HELD,
    INTERRUPTED,
    NO_LIMITS,
    REFUSALS,
    CallNotes,
    CompactionNotes,
    Grant,
    ProgramNotes,
    ProgramResult,
    ProgramVariables,
    RunNotes,
    follow_child,
    is_shared,
    limits_of,
    number_in,
    objects_in,
    pause_after,
    policy_version,
)
from windlass_harness.loop.rules import DEFER_MS_MIN
from windlass_harness.loop.settled import STEP_STARTED, fold_settled
from windlass_harness.record import Record
from windlass_harness.times import ms_of
from windlass_harness.views.fold import dump_state, load_state
from windlass_harness.views.history import Call
from windlass_harness.views.payloads import SKIPPED, SKIPPED_CODE, read_result
from windlass_harness.views.runs import DELIVERY_RECORDS, Deliveries, RunState
from windlass_harness.views.session import SessionDraft, SessionState
from windlass_protocol import (
    AssistantMessage,
    BudgetName,
    ErrorInfo,
    FinishReason,
    InputOutcome,
    JsonObject,
    OutputContract,
    RecoveryChoice,
)
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import event_data


def note_output(notes: RunNotes, record: Record) -> None:
    """Apply a record about the output of a run."""
    _FOLLOW_OUTPUT[record.type](notes, record)


def _requested(notes: RunNotes, record: Record) -> None:
    notes.contract = OutputContract.model_validate(record.data["contract"])


def _rejected(notes: RunNotes, record: Record) -> None:
    notes.rejections = number_in(record.data, "attempt")


def _failed(notes: RunNotes, record: Record) -> None:
    errors = event_data.OutputFailedData.model_validate(record.data).errors
    notes.failure = failures.unfit(number_in(record.data, "attempts"), errors)


def _completed(notes: RunNotes, record: Record) -> None:
    notes.is_validated = True
    notes.structured = record.data.get("result")


_FOLLOW_OUTPUT: Final[dict[str, Callable[[RunNotes, Record], None]]] = {
    "output.requested": _requested,
    "output.rejected": _rejected,
    "output.failed": _failed,
    "result.completed": _completed,
}
OUTPUT_RECORDS: Final = frozenset(_FOLLOW_OUTPUT)
"""Record types that `note_output` applies."""


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
        self.deliveries = Deliveries()
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
        before = session.run
        session.apply(record)
        if session.run is not before:
            self.run = _under_way(session.run)
        follow = _FOLLOW.get(record.type)
        if follow is not None:
            follow(self, record)
        self.run_notes.last_at = record.at

    def apply_all(self, records: Sequence[Record]) -> None:
        """Apply the next records; the state may take over values of them."""
        at = 0
        while at < len(records):
            record = records[at]
            if record.type == STEP_STARTED:
                at = fold_settled(self, records, at)
                record = records[at]
            self.apply(record)
            at += 1

    def disown(self) -> None:
        """Drop grants and deliveries of the session that this one was copied from."""
        self.grants, self.deliveries, self.compacting = {}, Deliveries(), CompactionNotes()

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
        return self.run_notes.model_id or (None if self.run is None else self.run.model_id)

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

    def is_unbegun(self, call: Call) -> bool:
        """Whether a call with a written intent never began."""
        return 0 < call.attempt <= self.note(call.call_id).passed_on

    def call(self, call_id: str) -> Call | None:
        """Return an open call."""
        return self.session.history.open_call(call_id)

    def place(self, step_index: int | None = None) -> JsonObject:
        """Return the coordinates of a step's records."""
        turn = self.session.turn
        assert turn is not None, "no turn has begun"
        step = turn.step_index if step_index is None else step_index
        if step is None:
            return {"sequence": turn.sequence, "turnId": turn.turn_id}
        return {"sequence": turn.sequence, "turnId": turn.turn_id, "stepIndex": step}

    def place_of(self, call: Call) -> JsonObject:
        """Return the coordinates of a call's records."""
        place = self.place(call.step_index)
        return place if call.parent_id is None else {"parentCallId": call.parent_id, **place}

    def turn_place(self) -> JsonObject:
        """Return the coordinates of a turn's records."""
        turn = self.session.turn
        assert turn is not None, "no turn has begun"
        return {"sequence": turn.sequence, "turnId": turn.turn_id}

    def draft(self, kind: str, data: JsonObject, *, now: Moment) -> Draft:
        """Return a draft of the current run."""
        run, turn = self.session.run, self.session.turn
        return Draft(
            kind,
            now.at,
            data,
            run_id=None if run is None else run.run_id,
            agent_id=None if run is None else run.agent_id,
            turn_id=None if turn is None else turn.turn_id,
            step_index=None if turn is None else turn.step_index,
            attempt=self.run_notes.attempt or None,
        )

    def wall_ms(self, now: Moment) -> int:
        """Return the active time of the run, without the time that it waited for people.

        It counts from the first to the last record of each owner, and pauses before retries.
        """
        notes = self.run_notes
        if notes.epoch not in (None, self.epoch):
            return notes.wall_ms(notes.left_at(now.at, paused_until_ms(self)))
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
    waits = (state.run_notes, state.compacting)
    return max((one.pause.until_ms for one in waits if one.is_retry and one.pause is not None), default=0)


_NO_NOTES: Final = CallNotes()


def _note(state: LoopState, call_id: str) -> CallNotes:
    """Return the notes of a call, for writing."""
    return state.notes.setdefault(call_id, CallNotes())


def _run_started(state: LoopState, record: Record) -> None:
    state.notes.clear()
    limits = limits_of(None if state.run is None else state.run.budget)
    state.run_notes = RunNotes(limits=limits, active_since=record.at, epoch=record.epoch)
    state.compacting.begin_run()


def _resumed(state: LoopState, record: Record) -> None:
    if state.run_notes.waits_on in HELD:
        # The next attempt is made now.
        state.run_notes.pause = state.compacting.pause = None
    state.run_notes.resume(record)


def _subagent(state: LoopState, record: Record) -> None:
    follow_child(record, note=_note(state, str(record.data["callId"])), run=state.run_notes)


def _step_started(state: LoopState, record: Record) -> None:
    state.notes.clear()
    notes = state.run_notes
    notes.attempt = record.attempt or 1
    notes.finish_reason = None
    notes.is_validated, notes.structured = False, None
    notes.hooked.begin_step()
    if not notes.is_retry:
        notes.failures = 0
        notes.budget.steps_used += 1
    notes.is_retry = False


def _step_retrying(state: LoopState, record: Record) -> None:
    notes = state.run_notes
    notes.is_retry = True
    notes.pause = pause_after(record, number_in(record.data, "delayMs"))
    code = record.data.get("code")
    if code not in (INTERRUPTED, HANDED_OVER, CONTEXT_OVERFLOW):
        notes.retried_ms = notes.retrying_ms(record.at) + number_in(record.data, "delayMs")
        notes.failures += 1
        notes.model_failures += 1
        notes.was_away |= number_in(record.data, "delayMs") > 0
    chosen = record.data.get("nextModelId")
    if isinstance(chosen, str) and state.run is not None:
        notes.model_id = None if chosen == state.run.model_id else chosen
        notes.model_failures = 0
    notes.interruptions += code == INTERRUPTED and not is_shared(record)
    notes.shared_interruptions += code == INTERRUPTED and is_shared(record)
    state.compacting.is_overflow |= code == CONTEXT_OVERFLOW
    notes.charge(record.data.get("usage"))


def _step_failed(state: LoopState, record: Record) -> None:
    state.run_notes.end_call()
    state.compacting.end_step()
    state.run_notes.charge(record.data.get("usage"))
    details = record.data.get("details")
    error = details.get("error") if isinstance(details, dict) else None
    if error is not None:
        state.run_notes.failure = ErrorInfo.model_validate(error)


def _step_completed(state: LoopState, record: Record) -> None:
    state.run_notes.end_call()
    state.compacting.end_step()
    reason = FinishReason(str(record.data["finishReason"]))
    state.run_notes.finish_reason = reason
    if reason in _BROKEN:
        state.run_notes.failure = failures.cut_off(reason)
    state.run_notes.charge(record.data.get("usage"))


def _policy_decided(state: LoopState, record: Record) -> None:
    call_id, decision = record.data.get("callId"), record.data.get("decision")
    if not isinstance(call_id, str) or not isinstance(decision, dict):
        return
    note = _note(state, call_id)
    note.policy = policy_version(decision)
    note.is_consented = decision.get("code") == CONSENTED
    note.outcome = None
    note.pause = None
    match decision.get("decision"):
        case "defer":
            # A policy without a delay must not be asked in a busy loop.
            note.pause = pause_after(record, max(number_in(decision, "resumeAfterMs"), DEFER_MS_MIN))
        case "interrupt":
            state.run_notes.failure = failures.interrupted(decision)
        case _:
            pass


def _action_started(state: LoopState, record: Record) -> None:
    call_id = str(record.data["callId"])
    note = _note(state, call_id)
    note.choice = None
    note.outcome = None
    note.arguments_hash = str(record.data.get("argumentsHash"))
    undo = record.data.get("undo")
    note.undo = undo if isinstance(undo, str) else None
    interpreter = record.data.get("interpreter")
    if isinstance(interpreter, str) and note.program is None:
        note.program = ProgramNotes(interpreter, record.at, state.variables, epoch=record.epoch)
    if note.program is not None and note.program.is_tool:
        note.program.has_paused = False
    state.run_notes.refusals = 0
    call = state.call(call_id)
    if call is not None and call.attempt == 1:
        state.run_notes.budget.tool_calls_used += 1


def _action_result(state: LoopState, record: Record) -> None:
    error = record.data.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    state.run_notes.refusals += code in REFUSALS
    if state.run is not None and state.run.undo is not None and isinstance(error, dict):
        result = cast(JsonObject, record.data["result"])
        state.run_notes.unreversed.append(str(result.get("toolName")))
    if any(note.program is not None for note in state.notes.values()):
        _result_of_program(state, record, code)


def _result_of_program(state: LoopState, record: Record, code: JsonValue) -> None:
    """Add a result to the program that made the call."""
    call_id, output = read_result(record.data)
    parent_id = state.session.history.parent_of(call_id)
    program = None if parent_id is None else state.note(parent_id).program
    if program is not None:
        content = record.data.get("contentRef")
        program.epoch = record.epoch
        program.results.append(
            ProgramResult(
                call_id,
                output,
                content if isinstance(content, dict) else None,
                code if isinstance(code, str) else "",
            )
        )


def _actions_requested(state: LoopState, record: Record) -> None:
    parent_id = record.data.get("parentCallId")
    program = state.note(parent_id).program if isinstance(parent_id, str) else None
    if program is not None:
        program.calls += [str(action["callId"]) for action in objects_in(record.data, "actions")]


def _program_paused(state: LoopState, record: Record) -> None:
    call_id = str(record.data.get("callId"))
    snapshot, interpreter = record.data.get("snapshot"), record.data.get("interpreter")
    note = _note(state, call_id)
    program = note.program
    if program is None and interpreter is None:
        # A tool that asks a person for the first time.
        program = note.program = ProgramNotes("", record.at)
    if program is None:
        return
    if not program.is_tool:
        note.interruptions = note.shared_interruptions = 0
    program.has_paused = True
    program.taken = number_in(record.data, "taken")
    program.snapshot = snapshot if isinstance(snapshot, dict) else None
    program.interpreter = interpreter if isinstance(interpreter, str) else program.interpreter
    program.printed += str(record.data.get("printed") or "")


def _program_ended(state: LoopState, record: Record) -> None:
    program = state.note(str(record.data.get("callId"))).program
    if program is not None:
        program.end = record.data
    content = record.data.get("variables")
    if isinstance(content, dict):
        names = cast(list[JsonValue], record.data.get("names") or [])
        interpreter = str(record.data.get("interpreter"))
        state.variables = ProgramVariables(interpreter, content, tuple(str(name) for name in names))


def _input_requested(state: LoopState, record: Record) -> None:
    # Requests of a subagent are about its own calls; their ids may equal ids of this session.
    for request in objects_in(record.data, "requests") if "childSessionId" not in record.data else ():
        action = cast(JsonObject, request["action"])
        call_id = str(action["callId"])
        note = _note(state, call_id)
        note.request_id = note.asked_as = str(request["requestId"])
        note.is_dispatched = False
        note.asks += 1
        state.run_notes.hooked.ask(call_id)
        given, hashed = action.get("input"), request.get("argumentsHash")
        note.arguments = given if isinstance(given, dict) else None
        note.is_changed = False
        if isinstance(hashed, str):
            note.arguments_hash = hashed
        lapses = request.get("expiresAt")
        note.until_ms = ms_of(lapses) if isinstance(lapses, str) else None


def _dispatched(state: LoopState, record: Record) -> None:
    for note in state.notes.values():
        note.is_dispatched |= note.request_id == record.data.get("requestId")


def _approval_settled(state: LoopState, record: Record) -> None:
    request_id, outcome = str(record.data.get("requestId")), record.data.get("outcome")
    reason, grant = record.data.get("reason"), record.data.get("grant")
    for call_id, note in state.notes.items():
        if note.asked_as != request_id:
            continue
        note.request_id = None
        note.outcome = InputOutcome(str(outcome))
        note.reason = reason if isinstance(reason, str) else None
        changed = record.data.get("arguments")
        if isinstance(changed, dict):
            note.arguments, note.is_changed = changed, True
        call = state.call(call_id)
        if isinstance(grant, str) and outcome == InputOutcome.APPROVED and call is not None:
            state.grants[request_id] = Grant(record.agent_id or "", call.tool_name, note.policy)


def _input_resolved(state: LoopState, record: Record) -> None:
    ids = {str(resolution["requestId"]) for resolution in objects_in(record.data, "resolutions")}
    for note in state.notes.values():
        if note.request_id in ids:
            note.request_id = None


def _effect_found(state: LoopState, record: Record) -> None:
    note = _note(state, str(record.data.get("callId")))
    has_begun, program = record.data.get("begun") is not False, note.program
    note.interruptions += has_begun and not is_shared(record)
    note.shared_interruptions += has_begun and is_shared(record)
    delay_ms = number_in(record.data, "delayMs")
    if program is not None and not program.is_tool:
        # The owner of its turn releases it, or another one takes it.
        program.epoch = None if program.epoch == record.epoch else record.epoch
        note.pause = pause_after(record, delay_ms) if delay_ms else None
        return
    note.passed_on += not has_begun
    if "requestId" not in record.data:
        note.choice = RecoveryChoice.RETRY
        note.pause = pause_after(record, delay_ms) if delay_ms else note.pause


def _effect_settled(state: LoopState, record: Record) -> None:
    note = _note(state, str(record.data.get("callId")))
    note.choice = RecoveryChoice(str(record.data.get("choice")))
    note.reversals += note.choice is RecoveryChoice.UNDO
    if note.choice is RecoveryChoice.SKIP:
        parent_id = state.session.history.parent_of(str(record.data.get("callId")))
        program = None if parent_id is None else state.note(parent_id).program
        if program is not None and not program.has_result(str(record.data.get("callId"))):
            # Of an early journal: later ones have a result before the decision.
            program.epoch = record.epoch
            program.results.append(ProgramResult(str(record.data.get("callId")), SKIPPED, code=SKIPPED_CODE))
    note.is_consented = note.is_consented or note.choice is RecoveryChoice.RETRY
    note.interruptions = note.shared_interruptions = 0
    note.request_id = None


def _recovery_started(state: LoopState, record: Record) -> None:
    state.run_notes.was_shared = is_shared(record)


def _hook_ran(state: LoopState, record: Record) -> None:
    run, stop = state.session.run, record.data.get("stop")
    if run is None or record.run_id != run.run_id:
        return
    state.run_notes.hooked.apply(record)
    if isinstance(stop, dict):
        state.run_notes.failure = ErrorInfo.model_validate(stop)


def _compaction(state: LoopState, record: Record) -> None:
    state.compacting.apply(record, is_at_rest=state.run is None)
    if state.run is not None:
        state.run_notes.charge(record.data.get("usage"))


_BROKEN: Final = (FinishReason.CONTENT_FILTER, FinishReason.ERROR)
"""Finish reasons that discard the calls of an answer."""

_FOLLOW: Final[dict[str, Callable[[LoopState, Record], None]]] = {
    "run.started": _run_started,
    "run.waiting": lambda state, record: state.run_notes.wait(record),
    "run.resumed": _resumed,
    "subagent.called": _subagent,
    "subagent.completed": _subagent,
    "step.started": _step_started,
    "step.retrying": _step_retrying,
    "step.failed": _step_failed,
    "step.completed": _step_completed,
    "policy.decided": _policy_decided,
    "actions.requested": _actions_requested,
    "program.paused": _program_paused,
    "program.ended": _program_ended,
    "action.started": _action_started,
    "action.result": _action_result,
    "input.requested": _input_requested,
    "input.resolved": _input_resolved,
    "approval.dispatched": _dispatched,
    "approval.settled": _approval_settled,
    "recovery.started": _recovery_started,
    "recovery.effect_found": _effect_found,
    "recovery.effect_settled": _effect_settled,
    "session.forked": lambda state, _: state.disown(),
    "hook.completed": _hook_ran,
    "hook.failed": _hook_ran,
    **dict.fromkeys(OUTPUT_RECORDS, lambda state, record: note_output(state.run_notes, record)),
    **dict.fromkeys(DELIVERY_RECORDS, lambda state, record: state.deliveries.apply(record)),
    **dict.fromkeys(COMPACTION_RECORDS, _compaction),
}


@frozen
class LoopSnapshot:
    """Serialised loop state."""

    session: SessionState
    notes: dict[str, CallNotes]
    run_notes: RunNotes
    grants: dict[str, Grant]
    deliveries: Deliveries
    compacting: CompactionNotes
    variables: ProgramVariables | None


def dump_loop(state: LoopState) -> bytes:
    """Return the state as a snapshot."""
    return dump_state(
        LoopSnapshot(
            state.session.freeze(),
            state.notes,
            state.run_notes,
            state.grants,
            state.deliveries,
            state.compacting,
            state.variables,
        )
    )


def load_loop(snapshot: bytes) -> LoopState | None:
    """Return the state of a snapshot; None if it must be folded again."""
    found = load_state(LoopSnapshot, snapshot)
    if found is None:
        return None
    state = LoopState(found.session)
    state.notes = found.notes
    state.run_notes = found.run_notes
    state.grants = found.grants
    state.deliveries = found.deliveries
    state.compacting = found.compacting
    state.variables = found.variables
    return state
