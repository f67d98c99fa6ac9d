"""Session state: input of the next step and of crash recovery."""

from collections.abc import Iterable, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Final

from msgspec import structs
from pydantic import JsonValue, ValidationError

from windlass_harness.record import Record
from windlass_harness.views.family import ChildSession, FamilyDraft, ProxiedRequest
from windlass_harness.views.fold import START, Handlers, Position, types_of
from windlass_harness.views.history import Call, CallStage, History, HistoryDraft, OpenStep
from windlass_harness.views.payloads import (
    SKIPPED,
    answer_parts,
    content_model,
    part_of,
    question_outcome,
    step_position,
    thought_part,
    tool_output,
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
    ModelReference,
    RecoveryChoice,
    ResolverScope,
    SandboxState,
    SessionAgent,
    Taint,
)
from windlass_protocol.bodies import Body, State
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records


@frozen
class Resolved:
    """The last result of a resolver."""

    scope: ResolverScope
    content: ContentRef
    run_id: str | None = None


def resolution_key(agent_id: str, resolver: str) -> str:
    """Return the key of the result of an agent's resolver in a session."""
    return f"{agent_id}/{resolver}"


def resolution_of(body: records.AgentResolved, *, agent_id: str, run_id: str | None) -> dict[str, Resolved]:
    """Return the result of a resolver in a record, by its key."""
    content = content_model(body.content_ref)
    return {resolution_key(agent_id, body.resolver): Resolved(body.scope, content, run_id)}


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
    """What a turn does, or how it ended."""

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


class TurnState(State, frozen=True):
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
            state={key: value for key, value in self.authored.items() if key != SANDBOX_KEY} or None,
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


def fold_session(entries: Iterable[Record], state: SessionState | None = None) -> SessionState:
    """Fold records of a session, from the first one, into its state.

    Raises:
        Gap: a record is not the next one of the session.
    """
    draft = SessionDraft(state or SessionState())
    for record in entries:
        draft.apply(record)
    return draft.freeze()


_ON: Final = Handlers["SessionDraft", Record, [], None]()


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
        compaction = self._compaction
        return self._counted or (
            compaction.last_known_input_tokens,
            compaction.last_known_prompt_message_count,
        )

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
        epoch = record.epoch
        if epoch is None:
            epoch = _epoch_in(record)
        if epoch is not None and epoch > self.epoch:
            self.epoch = epoch
        handle = _HANDLERS.get(record.type)
        if handle is not None:
            handle(self, record, record.body)

    def move(self, record: Record, body: Body | None) -> None:
        """Apply a record that changes whose work goes on."""
        kind = record.type
        is_ours = kind not in _MOVES or self._follow_run(record)
        if is_ours and kind in _ENDS_OF_WAIT:
            self.waiting = None
        handle = _ON.by_type.get(kind)
        if handle is not None:
            handle(self, record, body)
        if kind in _ENDS_OF_WORK:
            self._end_work(record, is_ours=is_ours)

    def skip_to(self, record: Record) -> None:
        """Continue at this record; every earlier record of a type in `WITHOUT_STEPS` was applied."""
        self.seq = record.seq - 1

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
        turn, body = self.turn, record.body
        is_end = isinstance(body, records.TurnFailed | records.TurnCancelled)
        return turn is None or not is_end or body.turn_id == turn.turn_id

    def _end_work(self, record: Record, *, is_ours: bool) -> None:
        """Close the open calls and questions of this work."""
        match record.body:
            case records.TurnFailed(turn_id=turn_id) | records.TurnCancelled(turn_id=turn_id):
                closed = self.history.close_turn(turn_id)
            case records.SessionFailed() | records.SessionCompleted():
                closed = self.history.close_all()
            case _:
                closed = self.history.close_run(run_id_of(record))
        if is_ours:
            self.family.proxied.clear()
        for request in [*self.requests.values()]:
            call_id = request.action.call_id
            if call_id in closed or (is_ours and not self.history.is_open(call_id)):
                del self.requests[request.request_id]

    @property
    def _run_id(self) -> str | None:
        """The newest run, for records without a run of their own."""
        return None if self.run is None else self.run.run_id

    # session

    @_ON.on(records.SessionStarted)
    def session_started(self, _: Record, body: records.SessionStarted) -> None:
        self.status = SessionStatus.RUNNING
        self.agent = body.agent or self.agent
        if body.compaction is not None:
            self._compaction, self._counted = body.compaction, None
        self.output_schema = body.output_schema or self.output_schema
        self.root_session_id = body.root_session_id
        self._add_taint(body.taint)

    def _add_taint(self, taint: Sequence[Taint] | None) -> None:
        if taint:
            self.taint |= {mark.value for mark in taint}

    @_ON.on(records.SessionMoved)
    def session_moved(self, _: Record, body: records.SessionMoved) -> None:
        self.agent = body.agent or self.agent

    @_ON.on(records.SessionForked)
    def session_forked(self, _: Record, body: records.SessionForked) -> None:
        # Subagents stay with the session that called them.
        self.family = FamilyDraft((), ())
        if body.messages is not None:
            self.history = HistoryDraft(History(tuple(body.messages)))

    @_ON.on(records.SessionWaiting)
    def session_waiting(self, _: Record, body: records.SessionWaiting) -> None:
        self._wait(Wait(body.wait, body.until))
        self.status = SessionStatus.WAITING
        self.continuation_token = body.continuation_token or self.continuation_token

    @_ON.on(records.SessionCompleted, records.SessionFailed)
    def session_ended(self, _: Record, body: records.SessionCompleted | records.SessionFailed) -> None:
        is_failed = isinstance(body, records.SessionFailed)
        self.status = SessionStatus.FAILED if is_failed else SessionStatus.COMPLETED

    @_ON.on(records.SessionStateChanged)
    def state_changed(self, _: Record, body: records.SessionStateChanged) -> None:
        for key in body.removed or ():
            self.authored.pop(key, None)
        self.authored |= body.set or {}

    @_ON.on(records.AgentResolved)
    def agent_resolved(self, record: Record, body: records.AgentResolved) -> None:
        self.resolved |= resolution_of(body, agent_id=record.agent_id or "", run_id=record.run_id)

    @_ON.on(records.ContextCleared)
    def context_cleared(self, _record: Record, _: records.ContextCleared) -> None:
        self.history.clear()
        self._forget_count()

    @_ON.on(records.OutputRequested)
    def output_requested(self, _: Record, body: records.OutputRequested) -> None:
        self.output_schema = body.contract.json_schema

    # run and turn

    @_ON.on(records.RunWaiting)
    def run_waiting(self, _: Record, body: records.RunWaiting) -> None:
        self._wait(Wait(body.on, body.until, tuple(body.request_ids or ())))

    @_ON.on(records.TurnStarted)
    def turn_started(self, _: Record, body: records.TurnStarted) -> None:
        self.turn = TurnState(body.turn_id, body.sequence)
        self.status = SessionStatus.RUNNING

    @_ON.on(records.TurnWaiting)
    def turn_waiting(self, _: Record, body: records.TurnWaiting) -> None:
        self._wait(Wait(body.on))
        self._turn(TurnStatus.WAITING)

    @_ON.on(records.TurnCompleted)
    def turn_completed(self, _: Record, body: records.TurnCompleted) -> None:
        open_call_ids = {request.action.call_id for request in self.requests.values()}
        self.history.close_turn(body.turn_id, open_call_ids)
        self._turn(TurnStatus.COMPLETED)

    @_ON.on(records.TurnFailed, records.TurnCancelled)
    def turn_broken(self, _: Record, body: records.TurnFailed | records.TurnCancelled) -> None:
        self._turn(TurnStatus.FAILED if isinstance(body, records.TurnFailed) else TurnStatus.CANCELLED)

    # step

    @_ON.on(records.MessageReceived)
    def message_received(self, _: Record, body: records.MessageReceived) -> None:
        self.history.receive(body)

    @_ON.on(records.StepStarted)
    def step_started(self, record: Record, body: records.StepStarted) -> None:
        count = body.prompt_message_count
        self.prompt_message_count = len(self.history.messages) if count is None else count
        self.status = SessionStatus.RUNNING
        self.waiting = None
        turn = self.turn
        if turn is not None:
            self.turn = TurnState(
                turn.turn_id, turn.sequence, TurnStatus.RUNNING, body.step_index, record.attempt or 1
            )
        self.history.start_step(
            step_position(body),
            run_id=record.run_id or self._run_id,
            epoch=record.epoch,
        )

    @_ON.on(records.ReasoningCompleted)
    def reasoning_completed(self, record: Record, body: records.ReasoningCompleted) -> None:
        self.history.reason(
            step_position(body),
            thought_part(body),
            run_id=record.run_id or self._run_id,
        )

    @_ON.on(records.MessageCompleted)
    def message_completed(self, record: Record, body: records.MessageCompleted) -> None:
        self.history.say(
            step_position(body),
            answer_parts(body),
            run_id=record.run_id or self._run_id,
        )

    @_ON.on(records.ActionsRequested)
    def actions_requested(self, record: Record, body: records.ActionsRequested) -> None:
        position, run_id = step_position(body), record.run_id or self._run_id
        parts = map(part_of, body.actions)
        if body.parent_call_id is None:
            self.history.request(position, parts, run_id=run_id)
        else:
            self.history.request_for(body.parent_call_id, position, parts, run_id=run_id)

    @_ON.on(records.StepCompleted)
    def step_completed(self, record: Record, body: records.StepCompleted) -> None:
        self.history.complete_step(step_position(body), run_id=record.run_id or self._run_id)
        tokens = None if body.usage is None else body.usage.input_tokens
        if tokens is not None and self.prompt_message_count is not None:
            self._counted = tokens, self.prompt_message_count

    @_ON.on(records.StepRetrying, records.StepFailed)
    def step_given_up(self, _record: Record, _: records.StepRetrying | records.StepFailed) -> None:
        self.history.give_up()

    @_ON.on(records.ActionStarted)
    def action_started(self, record: Record, body: records.ActionStarted) -> None:
        self.history.start_call(body, run_id=record.run_id or self._run_id, epoch=record.epoch)

    @_ON.on(records.ActionResult)
    def action_result(self, _: Record, body: records.ActionResult) -> None:
        self.history.finish_call(body.result.call_id, tool_output(body))
        if self.requests:
            self._forget_requests(body.result.call_id)
        if body.taint:
            self._add_taint(body.taint)

    @_ON.on(records.RecoveryEffectSettled)
    def effect_settled(self, _: Record, body: records.RecoveryEffectSettled) -> None:
        # A decision to retry the call or to supply its result leaves it open.
        if body.choice is RecoveryChoice.SKIP:
            self.history.skip_call(body.call_id, SKIPPED)
            self._forget_requests(body.call_id)

    def _forget_requests(self, call_id: str) -> None:
        """Drop the requests about this call."""
        for request in [*self.requests.values()]:
            if request.action.call_id == call_id:
                del self.requests[request.request_id]

    # people

    @_ON.on(records.InputRequested)
    def input_requested(self, record: Record, body: records.InputRequested) -> None:
        if body.child_session_id is not None:
            self.family.ask(body, body.child_session_id)
            return
        self.requests |= {request.request_id: request for request in body.requests}
        self.history.ask(body, run_id=record.run_id or self._run_id)

    @_ON.on(records.InputResolved)
    def input_resolved(self, _: Record, body: records.InputResolved) -> None:
        for resolution in body.resolutions:
            self.family.proxied.pop(resolution.request_id, None)
            request = self.requests.pop(resolution.request_id, None)
            answer = None if request is None else question_outcome(request, resolution)
            if request is not None and answer is not None:
                self.history.finish_call(request.action.call_id, answer)

    @_ON.on(records.ApprovalSettled)
    def approval_settled(self, _: Record, body: records.ApprovalSettled) -> None:
        self.requests.pop(body.request_id, None)

    # subagents and compaction

    @_ON.on(records.SubagentCalled)
    def subagent_called(self, _: Record, body: records.SubagentCalled) -> None:
        self.family.add_call(body)

    @_ON.on(records.SubagentCompleted)
    def subagent_completed(self, _: Record, body: records.SubagentCompleted) -> None:
        self.family.end_call(body)
        self._add_taint(body.taint)

    @_ON.on(records.CompactionCompleted)
    def compaction_completed(self, _: Record, body: records.CompactionCompleted) -> None:
        self.history.compact(body)
        self._forget_count()

    def _turn(self, status: TurnStatus) -> None:
        turn = self.turn
        if turn is not None:
            self.turn = structs.replace(turn, status=status)

    def _wait(self, wait: Wait) -> None:
        """Merge the wait of the newest record with that of the record before."""
        before = self.waiting or wait
        self.waiting = Wait(wait.on, wait.until or before.until, wait.request_ids or before.request_ids)

    def _forget_count(self) -> None:
        """Discard the provider's token count: it was for another history."""
        self._counted = None, None
        self.prompt_message_count = None


def _epoch_in(record: Record) -> int | None:
    """Return the epoch in the data of a record that has none itself."""
    if record.type not in _TELLS_EPOCH:
        return None
    body = record.body
    assert isinstance(body, _EPOCHS)
    return body.epoch


_EPOCHS: Final = (records.RunResumed, records.RecoveryStarted, records.RecoveryCompleted)
_TELLS_EPOCH: Final = types_of(*_EPOCHS)
_ENDS_OF_TURN: Final = types_of(records.TurnFailed, records.TurnCancelled)
_ENDS_OF_WORK: Final = {
    *RUN_ENDS,
    *_ENDS_OF_TURN,
    *types_of(records.SessionFailed, records.SessionCompleted),
}
_MOVES: Final = {records.RunStarted.TYPE, *RUN_CHANGES, *_ENDS_OF_TURN}
_ENDS_OF_WAIT: Final = {
    *_ENDS_OF_WORK,
    *types_of(records.RunStarted, records.RunResumed, records.TurnStarted),
}
_HANDLERS: Final = _ON.by_type | dict.fromkeys((*_MOVES, *_ENDS_OF_WAIT), SessionDraft.move)

WITHOUT_STEPS: Final = frozenset(
    {
        *_MOVES,
        *_ENDS_OF_WORK,
        *types_of(
            records.SessionForked,
            records.SessionStateChanged,
            records.TurnCompleted,
            records.InputRequested,
            records.InputResolved,
            records.ApprovalSettled,
            records.ActionResult,
            records.RecoveryEffectSettled,
            records.SubagentCalled,
            records.SubagentCompleted,
        ),
    }
)
"""The records that run, requests, subagents and authored state of a session depend on.

Of the results of calls, only those count that close a request.
"""
