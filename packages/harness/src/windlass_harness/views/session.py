"""The session: what the next step needs, and what recovery asks after a crash."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from windlass_harness.views.content import question_outcome, tool_output
from windlass_harness.views.fold import START, Position, fold
from windlass_harness.views.history import Call, CallStage, History, HistoryDraft, OpenStep
from windlass_harness.views.runs import RUN_CHANGES, RUN_ENDS, RunState, advance_run, run_id_of, start_run
from windlass_protocol import (
    ActionResultData,
    ActionsRequestedData,
    ActionStartedData,
    ApprovalSettledData,
    CompactionCompletedData,
    CompactionConfig,
    HarnessSession,
    InputRequest,
    InputRequestedData,
    InputResolvedData,
    MessageCompletedData,
    MessageReceivedData,
    ModelReference,
    OutputRequestedData,
    ReasoningCompletedData,
    Record,
    RunWaitingData,
    SessionAgent,
    SessionMovedData,
    SessionStartedData,
    SessionStateChangedData,
    SessionWaitingData,
    StepCompletedData,
    StepStartedData,
    TurnStartedData,
    TurnWaitingData,
)

THRESHOLD_TOKENS: Final = 100_000
RECENT_WINDOW_SIZE: Final = 10
DEFAULT_COMPACTION: Final = CompactionConfig(
    threshold=THRESHOLD_TOKENS, recent_window_size=RECENT_WINDOW_SIZE
)
NO_HISTORY: Final = History()
UNKNOWN_MODEL: Final = "unknown"

JsonObject = dict[str, JsonValue]


class TurnStatus(StrEnum):
    """Where a turn is."""

    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class SessionStatus(StrEnum):
    """Where a session is. A failed or completed one may still be given a new turn."""

    NEW = "new"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TurnState:
    """The newest turn. `step_index` is that of its newest step, None before the first."""

    turn_id: str
    sequence: int
    status: TurnStatus = TurnStatus.RUNNING
    step_index: int | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Wait:
    """What a session waits for: next-user-message, input, recovery, subagent, timer …"""

    on: str
    until: str | None = None
    request_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session as its records tell it."""

    position: Position = START
    status: SessionStatus = SessionStatus.NEW
    agent: SessionAgent | None = None
    compaction: CompactionConfig = DEFAULT_COMPACTION
    continuation_token: str = ""
    output_schema: JsonObject | None = None
    root_session_id: str | None = None
    authored: JsonObject = field(default_factory=dict[str, JsonValue])
    history: History = NO_HISTORY
    prompt_message_count: int | None = None
    run: RunState | None = None
    turn: TurnState | None = None
    requests: tuple[InputRequest, ...] = ()
    waiting: Wait | None = None
    epoch: int = 0

    @property
    def session(self) -> HarnessSession:
        """The session in the shape that a step takes; it has no agent before it started."""
        nobody = SessionAgent(model_reference=ModelReference(id=UNKNOWN_MODEL), system="", tools=())
        return HarnessSession(
            agent=self.agent or nobody,
            compaction=self.compaction,
            continuation_token=self.continuation_token,
            history=self.history.messages,
            session_id=self.position.session_id or "new",
            output_schema=self.output_schema,
            root_session_id=self.root_session_id,
            state=self.authored or None,
        )

    @property
    def calls(self) -> tuple[Call, ...]:
        """Calls of steps that are not finished; those with a result carry it."""
        return self.history.calls

    @property
    def interrupted(self) -> tuple[Call, ...]:
        """Calls that were started and have no result: what recovery must decide about."""
        return tuple(call for call in self.calls if call.stage is CallStage.STARTED)

    @property
    def is_answering(self) -> bool:
        """Whether a model call was started and has neither answered nor failed."""
        return any(isinstance(item, OpenStep) and not item.is_answered for item in self.history.tail)


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

    def freeze(self) -> SessionState:
        return replace(
            self._state,
            position=self.position,
            history=self._history.freeze(),
            requests=tuple(self._requests.values()),
            authored=self._authored,
        )

    def apply(self, record: Record) -> None:
        self._follow_run(record)
        epoch = record.data.get("epoch") if record.epoch is None else record.epoch
        if isinstance(epoch, int) and epoch > self._state.epoch:
            self._set(epoch=epoch)
        if record.type in _ENDS_OF_WAIT:
            self._set(waiting=None)
        handle = _HANDLERS.get(record.type)
        if handle is not None:
            handle(self, record)
        if record.type in _ENDS_OF_WORK:
            # Nothing will come of open calls and questions any more.
            self._history.close()
            self._requests.clear()

    def _set(self, **changes: object) -> None:
        self._state = replace(self._state, **changes)

    def _follow_run(self, record: Record) -> None:
        run = self._state.run
        started = start_run(record)
        if started is not None:
            self._set(run=started, status=SessionStatus.RUNNING)
        elif run is not None and record.type in RUN_CHANGES and run_id_of(record) == run.run_id:
            self._set(run=advance_run(run, record))

    # session

    def session_started(self, record: Record) -> None:
        data = SessionStartedData.model_validate(record.data)
        state = self._state
        self._set(
            status=SessionStatus.RUNNING,
            agent=data.agent or state.agent,
            compaction=data.compaction or state.compaction,
            output_schema=data.output_schema or state.output_schema,
            root_session_id=data.root_session_id,
        )

    def session_moved(self, record: Record) -> None:
        data = SessionMovedData.model_validate(record.data)
        self._set(agent=data.agent or self._state.agent)

    def session_waiting(self, record: Record) -> None:
        data = SessionWaitingData.model_validate(record.data)
        self._wait(Wait(data.wait, data.until))
        token = data.continuation_token or self._state.continuation_token
        self._set(status=SessionStatus.WAITING, continuation_token=token)

    def session_ended(self, record: Record) -> None:
        status = SessionStatus.FAILED if record.type == "session.failed" else SessionStatus.COMPLETED
        self._set(status=status)

    def state_changed(self, record: Record) -> None:
        data = SessionStateChangedData.model_validate(record.data)
        for key in data.removed or ():
            self._authored.pop(key, None)
        self._authored |= data.set or {}

    def context_cleared(self, record: Record) -> None:
        self._history.clear()
        self._forget_count()

    def output_requested(self, record: Record) -> None:
        self._set(output_schema=OutputRequestedData.model_validate(record.data).contract.json_schema)

    # run and turn

    def run_waiting(self, record: Record) -> None:
        data = RunWaitingData.model_validate(record.data)
        self._wait(Wait(data.on, data.until, data.request_ids or ()))

    def turn_started(self, record: Record) -> None:
        data = TurnStartedData.model_validate(record.data)
        self._set(turn=TurnState(data.turn_id, data.sequence), status=SessionStatus.RUNNING)

    def turn_waiting(self, record: Record) -> None:
        self._wait(Wait(TurnWaitingData.model_validate(record.data).on))
        self._turn(status=TurnStatus.WAITING)

    def turn_completed(self, record: Record) -> None:
        self._turn(status=TurnStatus.COMPLETED)

    def turn_failed(self, record: Record) -> None:
        self._turn(status=TurnStatus.FAILED)

    def turn_cancelled(self, record: Record) -> None:
        self._turn(status=TurnStatus.CANCELLED)

    # step

    def message_received(self, record: Record) -> None:
        self._history.receive(MessageReceivedData.model_validate(record.data))

    def step_started(self, record: Record) -> None:
        data = StepStartedData.model_validate(record.data)
        count = data.prompt_message_count
        self._set(
            prompt_message_count=len(self._history.messages) if count is None else count,
            status=SessionStatus.RUNNING,
        )
        self._turn(step_index=data.step_index, attempt=record.attempt or 1, status=TurnStatus.RUNNING)
        self._history.start_step(data.turn_id, data.step_index)

    def reasoning_completed(self, record: Record) -> None:
        self._history.reason(ReasoningCompletedData.model_validate(record.data))

    def message_completed(self, record: Record) -> None:
        self._history.say(MessageCompletedData.model_validate(record.data))

    def actions_requested(self, record: Record) -> None:
        data = ActionsRequestedData.model_validate(record.data)
        self._history.request(data.actions, turn_id=data.turn_id, step_index=data.step_index)

    def step_completed(self, record: Record) -> None:
        data = StepCompletedData.model_validate(record.data)
        self._history.complete_step(data.turn_id, data.step_index)
        tokens = None if data.usage is None else data.usage.input_tokens
        if tokens is not None and self._state.prompt_message_count is not None:
            self._count(tokens, self._state.prompt_message_count)

    def step_given_up(self, record: Record) -> None:
        self._history.give_up()

    def action_started(self, record: Record) -> None:
        self._history.start_call(ActionStartedData.model_validate(record.data))

    def action_result(self, record: Record) -> None:
        data = ActionResultData.model_validate(record.data)
        call_id = data.result.call_id
        self._history.finish_call(call_id, tool_output(data))
        # Whatever people were asked about this call no longer matters.
        for request in [one for one in self._requests.values() if one.action.call_id == call_id]:
            del self._requests[request.request_id]

    # people

    def input_requested(self, record: Record) -> None:
        data = InputRequestedData.model_validate(record.data)
        for request in data.requests:
            self._requests[request.request_id] = request
            if data.child_session_id is None:
                self._history.adopt(request.action, turn_id=data.turn_id, step_index=data.step_index)

    def input_resolved(self, record: Record) -> None:
        for resolution in InputResolvedData.model_validate(record.data).resolutions:
            request = self._requests.pop(resolution.request_id, None)
            answer = None if request is None else question_outcome(request, resolution)
            if request is not None and answer is not None:
                self._history.finish_call(request.action.call_id, answer)

    def approval_settled(self, record: Record) -> None:
        self._requests.pop(ApprovalSettledData.model_validate(record.data).request_id, None)

    # compaction

    def compaction_completed(self, record: Record) -> None:
        self._history.compact(CompactionCompletedData.model_validate(record.data))
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


_ENDS_OF_WORK: Final = {*RUN_ENDS, "turn.failed", "turn.cancelled", "session.failed", "session.completed"}
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
    "input.requested": _Draft.input_requested,
    "input.resolved": _Draft.input_resolved,
    "approval.settled": _Draft.approval_settled,
    "compaction.completed": _Draft.compaction_completed,
}
