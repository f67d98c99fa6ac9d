"""The fold that makes a session of its records."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from windlass_harness.views.content import SKIPPED, question_outcome, tool_output
from windlass_harness.views.fold import fold, read, text_in
from windlass_harness.views.history import HistoryDraft
from windlass_harness.views.runs import RUN_CHANGES, RUN_ENDS, advance_run, run_id_of, start_run
from windlass_harness.views.session_state import SessionState, SessionStatus, TurnState, TurnStatus, Wait
from windlass_protocol import (
    ActionResultData,
    ActionsRequestedData,
    ActionStartedData,
    ApprovalSettledData,
    CompactionCompletedData,
    InputRequestedData,
    InputResolvedData,
    MessageCompletedData,
    MessageReceivedData,
    OutputRequestedData,
    ReasoningCompletedData,
    Record,
    RecoveryChoice,
    RecoveryEffectSettledData,
    RunWaitingData,
    SessionMovedData,
    SessionStartedData,
    SessionStateChangedData,
    SessionWaitingData,
    StepCompletedData,
    StepStartedData,
    TurnStartedData,
    TurnWaitingData,
)


def fold_session(records: Iterable[Record], state: SessionState | None = None) -> SessionState:
    """Fold records of a session, from its first one on, into its state.

    Raises:
        Gap: a record is not the next one of the session.
    """
    return fold(_Draft(state or SessionState()), records)


class _Draft:
    def __init__(self, state: SessionState) -> None:
        self.position = state.position
        self._state = state
        self._history = HistoryDraft(state.history)
        self._requests = {request.request_id: request for request in state.requests}
        self._authored = dict(state.authored)
        self._run_ids = dict.fromkeys(state.run_ids)

    def freeze(self) -> SessionState:
        return replace(
            self._state,
            position=self.position,
            history=self._history.freeze(),
            requests=tuple(self._requests.values()),
            authored=self._authored,
            run_ids=tuple(self._run_ids),
        )

    def apply(self, record: Record) -> None:
        is_ours = self._follow_run(record)
        self._follow_epoch(record)
        if is_ours and record.type in _ENDS_OF_WAIT:
            self._set(waiting=None)
        handle = _HANDLERS.get(record.type)
        if handle is not None:
            handle(self, record)
        if record.type in _ENDS_OF_WORK:
            self._end_work(record, is_ours=is_ours)

    def _set(self, **changes: object) -> None:
        self._state = replace(self._state, **changes)

    def _follow_run(self, record: Record) -> bool:
        """Take what became of the run; False if another run or turn is meant."""
        run = self._state.run
        started = start_run(record)
        if started is not None:
            if started.run_id in self._run_ids:
                return False
            self._run_ids[started.run_id] = None
            self._set(run=started, status=SessionStatus.RUNNING)
        elif run is not None and record.type in RUN_CHANGES and run_id_of(record) == run.run_id:
            self._set(run=advance_run(run, record))
        if record.type in RUN_ENDS:
            return run is None or run_id_of(record) == run.run_id
        turn = self._state.turn
        return turn is None or record.type not in _ENDS_OF_TURN or record.data.get("turnId") == turn.turn_id

    def _follow_epoch(self, record: Record) -> None:
        given = record.data.get("epoch") if record.type in _TELLS_EPOCH else None
        epoch = given if record.epoch is None else record.epoch
        if isinstance(epoch, int) and epoch > self._state.epoch:
            self._set(epoch=epoch)

    def _end_work(self, record: Record, *, is_ours: bool) -> None:
        """Nothing will come of open calls and questions of this work any more."""
        if record.type in RUN_ENDS:
            closed = self._history.close_run(run_id_of(record))
        elif record.type in _ENDS_OF_TURN:
            closed = self._history.close_turn(text_in(record.data, "turnId") or "")
        else:
            closed = self._history.close_all()
        for request in [*self._requests.values()]:
            call_id = request.action.call_id
            if call_id in closed or (is_ours and not self._history.is_open(call_id)):
                del self._requests[request.request_id]

    def _run_of(self, record: Record) -> str | None:
        run = self._state.run
        return record.run_id or (None if run is None else run.run_id)

    # session

    def session_started(self, record: Record) -> None:
        data = read(SessionStartedData, record.data)
        state = self._state
        self._set(
            status=SessionStatus.RUNNING,
            agent=data.agent or state.agent,
            compaction=data.compaction or state.compaction,
            output_schema=data.output_schema or state.output_schema,
            root_session_id=data.root_session_id,
        )

    def session_moved(self, record: Record) -> None:
        data = read(SessionMovedData, record.data)
        self._set(agent=data.agent or self._state.agent)

    def session_waiting(self, record: Record) -> None:
        data = read(SessionWaitingData, record.data)
        self._wait(Wait(data.wait, data.until))
        token = data.continuation_token or self._state.continuation_token
        self._set(status=SessionStatus.WAITING, continuation_token=token)

    def session_ended(self, record: Record) -> None:
        status = SessionStatus.FAILED if record.type == "session.failed" else SessionStatus.COMPLETED
        self._set(status=status)

    def state_changed(self, record: Record) -> None:
        data = read(SessionStateChangedData, record.data)
        for key in data.removed or ():
            self._authored.pop(key, None)
        self._authored |= data.set or {}

    def context_cleared(self, record: Record) -> None:
        self._history.clear()
        self._forget_count()

    def output_requested(self, record: Record) -> None:
        self._set(output_schema=read(OutputRequestedData, record.data).contract.json_schema)

    # run and turn

    def run_waiting(self, record: Record) -> None:
        data = read(RunWaitingData, record.data)
        self._wait(Wait(data.on, data.until, data.request_ids or ()))

    def turn_started(self, record: Record) -> None:
        data = read(TurnStartedData, record.data)
        self._set(turn=TurnState(data.turn_id, data.sequence), status=SessionStatus.RUNNING)

    def turn_waiting(self, record: Record) -> None:
        self._wait(Wait(read(TurnWaitingData, record.data).on))
        self._turn(status=TurnStatus.WAITING)

    def turn_completed(self, record: Record) -> None:
        asked = {request.action.call_id for request in self._requests.values()}
        self._history.close_turn(text_in(record.data, "turnId") or "", asked)
        self._turn(status=TurnStatus.COMPLETED)

    def turn_failed(self, record: Record) -> None:
        self._turn(status=TurnStatus.FAILED)

    def turn_cancelled(self, record: Record) -> None:
        self._turn(status=TurnStatus.CANCELLED)

    # step

    def message_received(self, record: Record) -> None:
        self._history.receive(read(MessageReceivedData, record.data))

    def step_started(self, record: Record) -> None:
        data = read(StepStartedData, record.data)
        count = data.prompt_message_count
        self._set(
            prompt_message_count=len(self._history.messages) if count is None else count,
            status=SessionStatus.RUNNING,
        )
        self._turn(step_index=data.step_index, attempt=record.attempt or 1, status=TurnStatus.RUNNING)
        self._history.start_step(data.turn_id, data.step_index, run_id=self._run_of(record))

    def reasoning_completed(self, record: Record) -> None:
        self._history.reason(read(ReasoningCompletedData, record.data), run_id=self._run_of(record))

    def message_completed(self, record: Record) -> None:
        self._history.say(read(MessageCompletedData, record.data), run_id=self._run_of(record))

    def actions_requested(self, record: Record) -> None:
        self._history.request(read(ActionsRequestedData, record.data), run_id=self._run_of(record))

    def step_completed(self, record: Record) -> None:
        data = read(StepCompletedData, record.data)
        self._history.complete_step(data.turn_id, data.step_index, run_id=self._run_of(record))
        tokens = None if data.usage is None else data.usage.input_tokens
        if tokens is not None and self._state.prompt_message_count is not None:
            self._count(tokens, self._state.prompt_message_count)

    def step_given_up(self, record: Record) -> None:
        self._history.give_up()

    def action_started(self, record: Record) -> None:
        self._history.start_call(read(ActionStartedData, record.data), run_id=self._run_of(record))

    def action_result(self, record: Record) -> None:
        data = read(ActionResultData, record.data)
        self._history.finish_call(data.result.call_id, tool_output(data))
        self._forget_requests(data.result.call_id)

    def effect_settled(self, record: Record) -> None:
        data = read(RecoveryEffectSettledData, record.data)
        # Whoever chose to retry it or to supply its result lets it wait for one.
        if data.choice is RecoveryChoice.SKIP:
            self._history.skip_call(data.call_id, SKIPPED)
            self._forget_requests(data.call_id)

    def _forget_requests(self, call_id: str) -> None:
        """Whatever people were asked about this call no longer matters."""
        for request in [one for one in self._requests.values() if one.action.call_id == call_id]:
            del self._requests[request.request_id]

    # people

    def input_requested(self, record: Record) -> None:
        data = read(InputRequestedData, record.data)
        self._requests |= {request.request_id: request for request in data.requests}
        if data.child_session_id is None:
            self._history.ask(data, run_id=self._run_of(record))

    def input_resolved(self, record: Record) -> None:
        for resolution in read(InputResolvedData, record.data).resolutions:
            request = self._requests.pop(resolution.request_id, None)
            answer = None if request is None else question_outcome(request, resolution)
            if request is not None and answer is not None:
                self._history.finish_call(request.action.call_id, answer)

    def approval_settled(self, record: Record) -> None:
        self._requests.pop(read(ApprovalSettledData, record.data).request_id, None)

    # compaction

    def compaction_completed(self, record: Record) -> None:
        self._history.compact(read(CompactionCompletedData, record.data))
        self._forget_count()

    def _turn(
        self,
        *,
        status: TurnStatus,
        step_index: int | None = None,
        attempt: int | None = None,
    ) -> None:
        turn = self._state.turn
        if turn is not None:
            step = turn.step_index if step_index is None else step_index
            self._set(turn=replace(turn, status=status, step_index=step, attempt=attempt or turn.attempt))

    def _wait(self, wait: Wait) -> None:
        """The newest record says what for; the rest the one before may have said."""
        before = self._state.waiting or wait
        self._set(waiting=Wait(wait.on, wait.until or before.until, wait.request_ids or before.request_ids))

    def _count(self, tokens: int | None, messages: int | None) -> None:
        counts = {"last_known_input_tokens": tokens, "last_known_prompt_message_count": messages}
        self._set(compaction=self._state.compaction.model_copy(update=counts))

    def _forget_count(self) -> None:
        """What the provider counted was another history."""
        self._count(None, None)
        self._set(prompt_message_count=None)


_TELLS_EPOCH: Final = {"run.resumed", "recovery.started", "recovery.completed"}
_ENDS_OF_TURN: Final = {"turn.failed", "turn.cancelled"}
_ENDS_OF_WORK: Final = {*RUN_ENDS, *_ENDS_OF_TURN, "session.failed", "session.completed"}
_ENDS_OF_WAIT: Final = {*_ENDS_OF_WORK, "run.started", "run.resumed", "turn.started", "step.started"}

_HANDLERS: Final[dict[str, Callable[[_Draft, Record], None]]] = {
    "session.started": _Draft.session_started,
    "session.moved": _Draft.session_moved,
    "session.waiting": _Draft.session_waiting,
    "session.completed": _Draft.session_ended,
    "session.failed": _Draft.session_ended,
    "session.state_changed": _Draft.state_changed,
    "context.cleared": _Draft.context_cleared,
    "output.requested": _Draft.output_requested,
    "run.waiting": _Draft.run_waiting,
    "turn.started": _Draft.turn_started,
    "turn.waiting": _Draft.turn_waiting,
    "turn.completed": _Draft.turn_completed,
    "turn.failed": _Draft.turn_failed,
    "turn.cancelled": _Draft.turn_cancelled,
    "message.received": _Draft.message_received,
    "step.started": _Draft.step_started,
    "reasoning.completed": _Draft.reasoning_completed,
    "message.completed": _Draft.message_completed,
    "actions.requested": _Draft.actions_requested,
    "step.completed": _Draft.step_completed,
    "step.retrying": _Draft.step_given_up,
    "step.failed": _Draft.step_given_up,
    "action.started": _Draft.action_started,
    "action.result": _Draft.action_result,
    "recovery.effect_settled": _Draft.effect_settled,
    "input.requested": _Draft.input_requested,
    "input.resolved": _Draft.input_resolved,
    "approval.settled": _Draft.approval_settled,
    "compaction.completed": _Draft.compaction_completed,
}
