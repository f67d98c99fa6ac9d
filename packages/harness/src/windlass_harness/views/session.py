"""Session state: input of the next step and of crash recovery."""

from collections.abc import Callable, Iterable
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

from pydantic import JsonValue, ValidationError

from windlass_harness.record import Record
from windlass_harness.views.family import ChildSession, FamilyDraft, ProxiedRequest
from windlass_harness.views.fold import START, Position, read, text_in
from windlass_harness.views.history import Call, CallStage, History, HistoryDraft, OpenStep
from windlass_harness.views.payloads import (
    SKIPPED,
    Place,
    question_outcome,
    read_reasoning,
    read_requested,
    read_result,
    read_said,
    read_started,
    read_step_completed,
    read_step_started,
)
from windlass_harness.views.runs import (
    RUN_CHANGES,
    RUN_ENDS,
    UNKNOWN_MODEL,
    RunState,
    advance_run,
    run_id_of,
    start_run,
)
from windlass_protocol import (
    CompactionConfig,
    ContentRef,
    HarnessSession,
    InputRequest,
    JsonObject,
    ModelMessage,
    ModelReference,
    RecoveryChoice,
    ResolverScope,
    SandboxState,
    SessionAgent,
    Taint,
)
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import event_data


@frozen
class Resolved:
    """The last result of a resolver."""

    scope: ResolverScope
    content: ContentRef
    run_id: str | None = None


def resolved_key(agent_id: str, resolver: str) -> str:
    """Return the key of the result of an agent's resolver in a session."""
    return f"{agent_id}/{resolver}"


def resolved_by(
    data: "event_data.AgentResolvedData", *, agent_id: str, run_id: str | None
) -> dict[str, Resolved]:
    """Return the result of a resolver in a record, by its key."""
    return {resolved_key(agent_id, data.resolver): Resolved(data.scope, data.content_ref, run_id)}


SANDBOX_KEY: Final = "windlass.sandbox"
"""The key of the session state that holds the state of the sandbox."""


def sandbox_state(authored: JsonObject) -> SandboxState | None:
    """Return the state of the sandbox in the state of a session; None without a valid one."""
    try:
        return SandboxState.model_validate(authored[SANDBOX_KEY])
    except (KeyError, ValidationError):
        return None


THRESHOLD_TOKENS: Final = 100_000
RECENT_WINDOW_SIZE: Final = 10
DEFAULT_COMPACTION: Final = CompactionConfig.model_construct(
    threshold=THRESHOLD_TOKENS, recent_window_size=RECENT_WINDOW_SIZE
)
NO_HISTORY: Final = History()


class TurnStatus(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class SessionStatus(StrEnum):
    """A failed or completed session may still get a new turn."""

    NEW = "new"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"


@frozen
class TurnState:
    """The newest turn. `step_index` is that of its newest step, None before the first."""

    turn_id: str
    sequence: int
    status: TurnStatus = TurnStatus.RUNNING
    step_index: int | None = None
    attempt: int = 1


@frozen
class Wait:
    """The event that a session waits for: next-user-message, input, recovery, subagent, timer …"""

    on: str
    until: str | None = None
    request_ids: tuple[str, ...] = ()


@frozen
class SessionState:
    """A session, folded from its records."""

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
    run_ids: tuple[str, ...] = ()
    """Ids of all started runs; an id never starts again."""
    turn: TurnState | None = None
    requests: tuple[InputRequest, ...] = ()
    proxied: tuple[ProxiedRequest, ...] = ()
    """Open requests of subagents to people."""
    children: tuple[ChildSession, ...] = ()
    """The sessions of subagents, in the order of their calls."""
    waiting: Wait | None = None
    resolved: dict[str, Resolved] = field(default_factory=dict[str, Resolved])
    """Results of resolvers by agent and resolver, see `resolved_key`."""
    epoch: int = 0
    taint: tuple[str, ...] = ()
    """Taint of the results so far, sorted: untrusted content, private data."""

    @property
    def session(self) -> HarnessSession:
        """The session as the input of a step; it has no agent before it started.

        A journaled session is continued by its id, so the id is its continuation token if it has no other.
        """
        unknown = SessionAgent(model_reference=ModelReference(id=UNKNOWN_MODEL), system="", tools=())
        session_id = self.position.session_id
        return HarnessSession(
            agent=self.agent or unknown,
            compaction=self.compaction,
            continuation_token=self.continuation_token or session_id or "",
            history=self.history.messages,
            session_id=session_id or "new",
            output_schema=self.output_schema,
            root_session_id=self.root_session_id,
            sandbox_state=sandbox_state(self.authored),
            state={key: one for key, one in self.authored.items() if key != SANDBOX_KEY} or None,
        )

    @property
    def calls(self) -> tuple[Call, ...]:
        """Calls of unfinished steps; those with a result carry it."""
        return self.history.calls

    @property
    def interrupted(self) -> tuple[Call, ...]:
        """Calls that were started and have no result: recovery must decide about them."""
        return tuple(call for call in self.calls if call.stage is CallStage.STARTED)

    @property
    def is_answering(self) -> bool:
        """Whether a model call was started and has neither answered nor failed."""
        return any(isinstance(item, OpenStep) and not item.is_answered for item in self.history.tail)


TAINTING: Final = frozenset({"action.result", "session.started", "subagent.completed"})
"""The records that may taint a session. A taint is never removed.

Content that was read once may be in any later text of the model.
"""


def taint_of(record: Record) -> frozenset[str]:
    """Return the taint that a record adds to its session.

    Raises:
        ValueError: a taint label is unknown.
    """
    found = record.data.get("taint")
    return frozenset(Taint(one).value for one in found) if isinstance(found, list) else frozenset()


def fold_session(records: Iterable[Record], state: SessionState | None = None) -> SessionState:
    """Fold records of a session, from the first one, into its state.

    Raises:
        Gap: a record is not the next one of the session.
    """
    draft = SessionDraft(state or SessionState())
    for record in records:
        draft.apply(record)
    return draft.freeze()


class SessionDraft:
    """A mutable session that records are applied to; it can be read between any two records."""

    def __init__(self, state: SessionState) -> None:
        self._session_id = state.position.session_id
        self.seq: int = state.position.seq or 0
        """The number of the last record."""
        self.status = state.status
        self.agent = state.agent
        self._compaction = state.compaction
        self._counted: tuple[int | None, int | None] | None = None
        self.continuation_token = state.continuation_token
        self.output_schema = state.output_schema
        self.root_session_id = state.root_session_id
        self.prompt_message_count = state.prompt_message_count
        self.run = state.run
        self.turn = state.turn
        self.waiting = state.waiting
        self.epoch = state.epoch
        self.history = HistoryDraft(state.history)
        self.requests = {request.request_id: request for request in state.requests}
        self.family = FamilyDraft(state.children, state.proxied)
        self.authored, self.resolved = dict(state.authored), dict(state.resolved)
        self.run_ids = dict.fromkeys(state.run_ids)
        self.taint: frozenset[str] = frozenset(state.taint)

    def freeze(self) -> SessionState:
        return SessionState(
            position=self.position,
            status=self.status,
            agent=self.agent,
            compaction=self.compaction,
            continuation_token=self.continuation_token,
            output_schema=self.output_schema,
            root_session_id=self.root_session_id,
            authored=dict(self.authored),
            history=self.history.freeze(),
            prompt_message_count=self.prompt_message_count,
            run=self.run,
            run_ids=tuple(self.run_ids),
            turn=self.turn,
            requests=tuple(self.requests.values()),
            proxied=tuple(self.family.proxied.values()),
            children=tuple(self.family.children.values()),
            waiting=self.waiting,
            resolved=dict(self.resolved),
            epoch=self.epoch,
            taint=tuple(sorted(self.taint)),
        )

    @property
    def compaction(self) -> CompactionConfig:
        """The compaction settings, with the last token count of the provider."""
        if self._counted is not None:
            tokens, messages = self._counted
            counts = {"last_known_input_tokens": tokens, "last_known_prompt_message_count": messages}
            self._compaction, self._counted = self._compaction.model_copy(update=counts), None
        return self._compaction

    @property
    def counted(self) -> tuple[int | None, int | None]:
        """The prompt tokens that the provider counted last, and the number of messages in that prompt."""
        known = self._compaction
        return self._counted or (known.last_known_input_tokens, known.last_known_prompt_message_count)

    @property
    def position(self) -> Position:
        """The last applied record."""
        return Position(self._session_id, self.seq)

    def apply(self, record: Record) -> None:
        """Apply the next record.

        Raises:
            Gap: the record is not the next one.
        """
        if record.seq != self.seq + 1 or record.session_id != self._session_id:
            self._session_id = self.position.after(record).session_id
        self.seq = record.seq
        kind, epoch = record.type, record.epoch
        if epoch is None and kind in _TELLS_EPOCH:
            epoch = record.data.get("epoch")
        if isinstance(epoch, int) and epoch > self.epoch:
            self.epoch = epoch
        is_ours = kind not in _MOVES or self._follow_run(record)
        if is_ours and kind in _ENDS_OF_WAIT:
            self.waiting = None
        handle = _HANDLERS.get(kind)
        if handle is not None:
            handle(self, record)
        if kind in TAINTING:
            self.taint |= taint_of(record)
        if kind in _ENDS_OF_WORK:
            self._end_work(record, is_ours=is_ours)

    def skip_to(self, record: Record) -> None:
        """Continue at this record; every earlier record of a type in `WITHOUT_STEPS` was applied."""
        self.seq = record.seq - 1

    def is_next(self, record: Record) -> bool:
        """Return whether a record follows the last applied one, in the same session."""
        return record.seq == self.seq + 1 and record.session_id == self._session_id

    def apply_steps(
        self, last: Record, messages: list[ModelMessage], *, counted: tuple[int, int] | None
    ) -> None:
        """Apply settled steps up to their last record; the record after it has to start a step.

        `counted` is their newest token count of the provider, with the number of messages in that prompt.
        """
        self.seq = last.seq
        self.history.messages += messages
        if counted is not None:
            self._counted = counted

    def follow_answer(self, last: Record, *, tokens: JsonValue) -> None:
        """Apply an answer up to the intent of its only call; the history has it already."""
        self.seq = last.seq
        if isinstance(tokens, int) and self.prompt_message_count is not None:
            self._counted = tokens, self.prompt_message_count

    def begin_next_step(self, record: Record) -> None:
        """Apply the start of the next step of the turn, while no answer is open."""
        turn, index = self.turn, record.step_index
        assert turn is not None
        assert index is not None
        self.seq = record.seq
        self.waiting = None
        self.status = SessionStatus.RUNNING
        self.prompt_message_count = len(self.history.messages)
        self.turn = TurnState(turn.turn_id, turn.sequence, TurnStatus.RUNNING, index, 1)
        self.history.start_step(Place(turn.turn_id, index), run_id=record.run_id, epoch=record.epoch)

    def _follow_run(self, record: Record) -> bool:
        """Apply the status of the run; False if the record is about another run or turn."""
        run = self.run
        started = start_run(record)
        if started is not None:
            if started.run_id in self.run_ids:
                return False
            self.run_ids[started.run_id] = None
            self.run = started
            self.status = SessionStatus.RUNNING
        elif run is not None and record.type in RUN_CHANGES and run_id_of(record) == run.run_id:
            self.run = advance_run(run, record)
        if record.type in RUN_ENDS:
            return run is None or run_id_of(record) == run.run_id
        turn = self.turn
        return turn is None or record.type not in _ENDS_OF_TURN or record.data.get("turnId") == turn.turn_id

    def _end_work(self, record: Record, *, is_ours: bool) -> None:
        """Close the open calls and questions of this work."""
        if record.type in RUN_ENDS:
            closed = self.history.close_run(run_id_of(record))
        elif record.type in _ENDS_OF_TURN:
            closed = self.history.close_turn(text_in(record.data, "turnId") or "")
        else:
            closed = self.history.close_all()
        if is_ours:
            self.family.proxied.clear()
        for request in [*self.requests.values()]:
            call_id = request.action.call_id
            if call_id in closed or (is_ours and not self.history.is_open(call_id)):
                del self.requests[request.request_id]

    def _run_of(self, record: Record) -> str | None:
        if record.run_id is not None or self.run is None:
            return record.run_id
        return self.run.run_id

    # session

    def session_started(self, record: Record) -> None:
        data = read(event_data.SessionStartedData, record.data)
        self.status = SessionStatus.RUNNING
        self.agent = data.agent or self.agent
        if data.compaction is not None:
            self._compaction, self._counted = data.compaction, None
        self.output_schema = data.output_schema or self.output_schema
        self.root_session_id = data.root_session_id

    def session_moved(self, record: Record) -> None:
        self.agent = read(event_data.SessionMovedData, record.data).agent or self.agent

    def session_forked(self, record: Record) -> None:
        # Subagents stay with the session that called them.
        self.family = FamilyDraft((), ())
        messages = read(event_data.SessionForkedData, record.data).messages
        if messages is not None:
            self.history = HistoryDraft(History(messages))

    def session_waiting(self, record: Record) -> None:
        data = read(event_data.SessionWaitingData, record.data)
        self._wait(Wait(data.wait, data.until))
        self.status = SessionStatus.WAITING
        self.continuation_token = data.continuation_token or self.continuation_token

    def session_ended(self, record: Record) -> None:
        is_failed = record.type == "session.failed"
        self.status = SessionStatus.FAILED if is_failed else SessionStatus.COMPLETED

    def state_changed(self, record: Record) -> None:
        data = read(event_data.SessionStateChangedData, record.data)
        for key in data.removed or ():
            self.authored.pop(key, None)
        self.authored |= data.set or {}

    def agent_resolved(self, record: Record) -> None:
        data = read(event_data.AgentResolvedData, record.data)
        self.resolved |= resolved_by(data, agent_id=record.agent_id or "", run_id=record.run_id)

    def context_cleared(self, record: Record) -> None:
        self.history.clear()
        self._forget_count()

    def output_requested(self, record: Record) -> None:
        self.output_schema = read(event_data.OutputRequestedData, record.data).contract.json_schema

    # run and turn

    def run_waiting(self, record: Record) -> None:
        data = read(event_data.RunWaitingData, record.data)
        self._wait(Wait(data.on, data.until, data.request_ids or ()))

    def turn_started(self, record: Record) -> None:
        data = read(event_data.TurnStartedData, record.data)
        self.turn = TurnState(data.turn_id, data.sequence)
        self.status = SessionStatus.RUNNING

    def turn_waiting(self, record: Record) -> None:
        self._wait(Wait(read(event_data.TurnWaitingData, record.data).on))
        self._turn(TurnStatus.WAITING)

    def turn_completed(self, record: Record) -> None:
        asked = {request.action.call_id for request in self.requests.values()}
        self.history.close_turn(text_in(record.data, "turnId") or "", asked)
        self._turn(TurnStatus.COMPLETED)

    def turn_broken(self, record: Record) -> None:
        self._turn(TurnStatus.FAILED if record.type == "turn.failed" else TurnStatus.CANCELLED)

    # step

    def message_received(self, record: Record) -> None:
        self.history.receive(read(event_data.MessageReceivedData, record.data))

    def step_started(self, record: Record) -> None:
        place, count = read_step_started(record.data)
        self.prompt_message_count = len(self.history.messages) if count is None else count
        self.status = SessionStatus.RUNNING
        turn = self.turn
        if turn is not None:
            self.turn = TurnState(
                turn.turn_id, turn.sequence, TurnStatus.RUNNING, place.step_index, record.attempt or 1
            )
        self.history.start_step(place, run_id=self._run_of(record), epoch=record.epoch)

    def reasoning_completed(self, record: Record) -> None:
        place, part = read_reasoning(record.data)
        self.history.reason(place, part, run_id=self._run_of(record))

    def message_completed(self, record: Record) -> None:
        place, parts = read_said(record.data)
        self.history.say(place, parts, run_id=self._run_of(record))

    def actions_requested(self, record: Record) -> None:
        place, parts = read_requested(record.data)
        parent_id = record.data.get("parentCallId")
        if isinstance(parent_id, str):
            self.history.request_for(parent_id, place, parts, run_id=self._run_of(record))
        else:
            self.history.request(place, parts, run_id=self._run_of(record))

    def step_completed(self, record: Record) -> None:
        place, tokens = read_step_completed(record.data)
        self.history.complete_step(place, run_id=self._run_of(record))
        if tokens is not None and self.prompt_message_count is not None:
            self._counted = tokens, self.prompt_message_count

    def step_given_up(self, record: Record) -> None:
        self.history.give_up()

    def action_started(self, record: Record) -> None:
        place, data = read_started(record.data)
        self.history.start_call(place, data, run_id=self._run_of(record), epoch=record.epoch)

    def action_result(self, record: Record) -> None:
        call_id, output = read_result(record.data)
        self.history.finish_call(call_id, output)
        self._forget_requests(call_id)

    def effect_settled(self, record: Record) -> None:
        data = read(event_data.RecoveryEffectSettledData, record.data)
        # A decision to retry the call or to supply its result leaves it open.
        if data.choice is RecoveryChoice.SKIP:
            self.history.skip_call(data.call_id, SKIPPED)
            self._forget_requests(data.call_id)

    def _forget_requests(self, call_id: str) -> None:
        """Drop the requests about this call."""
        if self.requests:
            for request in [one for one in self.requests.values() if one.action.call_id == call_id]:
                del self.requests[request.request_id]

    # people

    def input_requested(self, record: Record) -> None:
        data = read(event_data.InputRequestedData, record.data)
        if data.child_session_id is not None:
            self.family.ask(data, data.child_session_id)
            return
        self.requests |= {request.request_id: request for request in data.requests}
        self.history.ask(data, run_id=self._run_of(record))

    def input_resolved(self, record: Record) -> None:
        for resolution in read(event_data.InputResolvedData, record.data).resolutions:
            self.family.proxied.pop(resolution.request_id, None)
            request = self.requests.pop(resolution.request_id, None)
            answer = None if request is None else question_outcome(request, resolution)
            if request is not None and answer is not None:
                self.history.finish_call(request.action.call_id, answer)

    def approval_settled(self, record: Record) -> None:
        self.requests.pop(read(event_data.ApprovalSettledData, record.data).request_id, None)

    # compaction

    def compaction_completed(self, record: Record) -> None:
        self.history.compact(read(event_data.CompactionCompletedData, record.data))
        self._forget_count()

    def _turn(self, status: TurnStatus) -> None:
        turn = self.turn
        if turn is not None:
            self.turn = replace(turn, status=status)

    def _wait(self, wait: Wait) -> None:
        """Merge the wait of the newest record with that of the record before."""
        before = self.waiting or wait
        self.waiting = Wait(wait.on, wait.until or before.until, wait.request_ids or before.request_ids)

    def _forget_count(self) -> None:
        """Discard the provider's token count: it was for another history."""
        self._counted = None, None
        self.prompt_message_count = None


_TELLS_EPOCH: Final = {"run.resumed", "recovery.started", "recovery.completed"}
_ENDS_OF_TURN: Final = {"turn.failed", "turn.cancelled"}
_ENDS_OF_WORK: Final = {*RUN_ENDS, *_ENDS_OF_TURN, "session.failed", "session.completed"}
_MOVES: Final = {"run.started", *RUN_CHANGES, *_ENDS_OF_TURN}
_ENDS_OF_WAIT: Final = {*_ENDS_OF_WORK, "run.started", "run.resumed", "turn.started", "step.started"}

_HANDLERS: Final[dict[str, Callable[[SessionDraft, Record], None]]] = {
    "session.started": SessionDraft.session_started,
    "session.moved": SessionDraft.session_moved,
    "session.forked": SessionDraft.session_forked,
    "session.waiting": SessionDraft.session_waiting,
    "session.completed": SessionDraft.session_ended,
    "session.failed": SessionDraft.session_ended,
    "session.state_changed": SessionDraft.state_changed,
    "agent.resolved": SessionDraft.agent_resolved,
    "context.cleared": SessionDraft.context_cleared,
    "output.requested": SessionDraft.output_requested,
    "run.waiting": SessionDraft.run_waiting,
    "turn.started": SessionDraft.turn_started,
    "turn.waiting": SessionDraft.turn_waiting,
    "turn.completed": SessionDraft.turn_completed,
    **dict.fromkeys(_ENDS_OF_TURN, SessionDraft.turn_broken),
    "message.received": SessionDraft.message_received,
    "step.started": SessionDraft.step_started,
    "reasoning.completed": SessionDraft.reasoning_completed,
    "message.completed": SessionDraft.message_completed,
    "actions.requested": SessionDraft.actions_requested,
    "step.completed": SessionDraft.step_completed,
    "step.retrying": SessionDraft.step_given_up,
    "step.failed": SessionDraft.step_given_up,
    "action.started": SessionDraft.action_started,
    "action.result": SessionDraft.action_result,
    "recovery.effect_settled": SessionDraft.effect_settled,
    "input.requested": SessionDraft.input_requested,
    "input.resolved": SessionDraft.input_resolved,
    "approval.settled": SessionDraft.approval_settled,
    "subagent.called": lambda draft, record: draft.family.called(record),
    "subagent.completed": lambda draft, record: draft.family.completed(record),
    "compaction.completed": SessionDraft.compaction_completed,
}

WITHOUT_STEPS: Final = frozenset(
    {
        *_MOVES,
        *_ENDS_OF_WORK,
        "session.forked",
        "session.state_changed",
        "turn.completed",
        "input.requested",
        "input.resolved",
        "approval.settled",
        "action.result",
        "recovery.effect_settled",
        "subagent.called",
        "subagent.completed",
    }
)
"""The records that run, requests, subagents and authored state of a session depend on.

Of the results of calls, only those count that close a request.
"""
