"""The runtime core: start, resume, answer, cancel and inspect runs.

A program that declares agents imports this module; the engine and the store are imported when a runtime is
made. So a method imports what it needs from them.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, Self
from weakref import WeakValueDictionary

from windlass.errors import AgentError, Conflict, Unavailable, check_whole
from windlass.limits import PLAYGROUND_PREFIX
from windlass.refusals import (
    check_free_json,
    check_given,
    check_id,
    check_items,
    check_request,
    missing_port,
    playground_session,
    removed_tool,
    runtime_closed,
    taken_run,
)
from windlass_protocol import JsonObject
from windlass_protocol.generated import common, runs
from windlass_protocol.limits import INTEGER_MAX

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Mapping, Sequence
    from types import TracebackType

    from windlass.catalog.agent_sessions import AgentSessions
    from windlass.catalog.sessions import Sessions
    from windlass.engine.engine import Engine
    from windlass.engine.folds import JournalFolds
    from windlass.ports.feed import CompiledEventFilter, EventBus, EventStream
    from windlass.ports.host import OutputSink
    from windlass.ports.model import LLMProvider
    from windlass.ports.stalls import LoopWatch
    from windlass.ports.store import ContentStore, Store
    from windlass.runtime.approvals import ApprovalDesk
    from windlass.runtime.decisions import DecisionFolds
    from windlass.runtime.registry import RuntimePorts
    from windlass.runtime.runs import Asking, PostedAnswers, RunHandle, Runs
    from windlass.runtime.start import EffectivePackage, PlaygroundStart
    from windlass.schedules import Schedules
    from windlass_harness.budget import Budget
    from windlass_harness.loop.events import StateChange
    from windlass_harness.loop.state import LoopState
    from windlass_harness.views.family import ChildSession
    from windlass_harness.views.runs import DeliveryState
    from windlass_protocol import (
        BudgetLimits,
        Cursor,
        DecisionRun,
        InputRequest,
        InputResponse,
        RunRequest,
        RunResult,
        RunSnapshot,
        RunStatus,
        UndoPlan,
    )


class RuntimeViews:
    """The part of a runtime that only reads."""

    def __init__(self, ports: RuntimePorts) -> None:
        self.ports = self._ports = ports

    def _store(self) -> Store:
        if self._ports.store is None:
            raise missing_port("run journal")
        return self._ports.store

    def _bus(self) -> EventBus:
        if self._ports.bus is None:
            raise missing_port("agent event bus")
        return self._ports.bus

    def _content(self) -> ContentStore:
        if self._ports.content is None:
            raise missing_port("content resolver")
        return self._ports.content

    @property
    def _runs(self) -> Runs:
        from windlass.runtime.runs import Runs  # noqa: PLC0415 - slow to import

        hide = self._ports.scribe.redactor.text
        return Runs(self._store(), self._bus(), folds=self._folds, hide=hide)

    @cached_property
    def _folds(self) -> JournalFolds:
        from windlass.engine.folds import JournalFolds  # noqa: PLC0415 - slow to import

        return JournalFolds(self._store())

    @cached_property
    def _decision_folds(self) -> DecisionFolds:
        from windlass.runtime.decisions import DecisionFolds  # noqa: PLC0415 - slow to import

        return DecisionFolds(self._store())

    @property
    def sessions(self) -> Sessions:
        """The catalogue: lists, reads, forks, exports and deletes sessions.

        Raises:
            Rejected: the runtime has no journal, event bus or content store.
        """
        from windlass.catalog.sessions import Sessions  # noqa: PLC0415 - slow to import

        return Sessions(
            self._store(),
            self._bus(),
            content=self._content(),
            machine=self._ports.machine,
            redactor=self._ports.scribe.redactor,
            sandboxes=tuple(self._ports.sandboxes.values()),
        )

    # runs

    async def deliveries(self, run_id: str) -> tuple[DeliveryState, ...]:
        """Return the delivery of a run's output to each of its sinks.

        A delivery with status unknown may or may not have happened; it is never repeated automatically.

        Raises:
            Conflict: the run is unknown.
        """
        return await self._runs.deliveries(run_id)

    async def decisions(self, run_id: str, *, after: int = 0, limit: int | None = None) -> DecisionRun:
        """Return the decisions of a run: choice, alternatives, outcome and failures.

        They are read from the journal, for running and ended runs of any process. With `limit` it is a page
        of them, behind the first `after`; `metrics.total_decisions` counts all.

        Raises:
            Conflict: the run is unknown, or it is still queued.
            Rejected: `after` or `limit` is not a count.
        """
        from windlass.runtime.decisions import decisions_of  # noqa: PLC0415 - slow to import

        check_whole(after + 1 if type(after) is int else after, "after + 1", most=INTEGER_MAX)
        if limit is not None:
            check_whole(limit, "limit", most=INTEGER_MAX)
        row = await self._runs.row(run_id)
        return await decisions_of(
            row,
            self._decision_folds,
            content=self._content(),
            journal=self._store(),
            after=after,
            limit=limit,
        )

    # subscriptions

    def events(self) -> EventBus:
        """Return the event bus.

        Raises:
            Rejected: the runtime has none.
        """
        return self._bus()

    def subscribe_all(self, cursor: Cursor | str | None = None) -> EventStream:
        """Subscribe to all events, after a cursor: that of a stream, or its text, see `encode_cursor`."""
        return self._bus().subscribe_all(_cursor(cursor))

    def subscribe_session(self, session_id: str, cursor: Cursor | str | None = None) -> EventStream:
        """Subscribe to the events of a session."""
        return self._bus().subscribe_session(session_id, _cursor(cursor))

    def subscribe_run(
        self, run_id: str, cursor: Cursor | str | None = None, *, until_terminal: bool = False
    ) -> EventStream:
        """Subscribe to the events of a run."""
        return self._bus().subscribe_run(run_id, _cursor(cursor), until_terminal=until_terminal)

    def subscribe_agent(self, agent_id: str, cursor: Cursor | str | None = None) -> EventStream:
        """Subscribe to the events of all runs of an agent."""
        return self._bus().subscribe_agent(agent_id, _cursor(cursor))

    def subscribe_events(
        self, event_filter: CompiledEventFilter, cursor: Cursor | str | None = None
    ) -> EventStream:
        """Subscribe to the events that match a compiled filter."""
        return self._bus().subscribe_filtered(event_filter, _cursor(cursor))


def _cursor(cursor: Cursor | str | None) -> Cursor | None:
    if not isinstance(cursor, str):
        return cursor
    from windlass.feed.cursors import decode_cursor  # noqa: PLC0415 - slow to import

    return decode_cursor(cursor)


class CoreRuntime(RuntimeViews):
    """A runtime made of ports; `AgentRuntime` adds the short ways to make one."""

    def __init__(self, ports: RuntimePorts) -> None:
        import asyncio  # noqa: PLC0415 - slow to import

        from windlass.runtime.start import PackageKeeper  # noqa: PLC0415 - slow to import

        super().__init__(ports)
        self._engine: Engine | None = None
        self._desk: ApprovalDesk | None = None
        self._run_count = 0
        self._keeper = PackageKeeper(ports)
        self._opening = asyncio.Lock()
        self._answer_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._closing: asyncio.Future[None] | None = None
        self._scheduling: asyncio.Task[None] | None = None
        self._schedules_due: set[str | None] = set()
        """Schedules whose run has ended; None for all that are due by the clock."""
        self._retaining: asyncio.Task[None] | None = None
        self._watch: LoopWatch | None = None

    async def __aenter__(self) -> Self:
        await self.resume()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def resume(self) -> None:
        """Continue all unfinished runs, if this runtime drives, and accept new ones.

        Raises:
            Rejected: there is no journal, event bus or content store.
            Unavailable: the runtime was closed.
        """
        async with self._opening:
            if self._closing is not None:
                raise runtime_closed()
            if self._engine is None:
                engine = self._make_engine()
                await engine.open()
                self._engine = engine
                if self._ports.machine.watch is not None:
                    self._watch = self._ports.machine.watch()
                if self._desk is not None:
                    self._desk.open()
                if self._ports.retention_days is not None and self._ports.is_driving:
                    self._retain(self._ports.retention_days)

    def _retain(self, days: int) -> None:
        import asyncio  # noqa: PLC0415 - slow to import

        from windlass.catalog.sessions import retain  # noqa: PLC0415 - slow to import

        work = retain(self.sessions, self._store(), self._ports.machine.clock, days=days)
        self._retaining = asyncio.create_task(work, name="windlass retention")

    async def drain(self) -> None:
        """Drive no more runs, and let tool calls under way end, for `drain_s` at most; then `aclose` it.

        Their results are recorded, and their sessions are released: other processes continue the runs, or
        the next one that opens the store. Model calls are left to them at once. Until it is closed, the
        runtime reads, starts and answers as one that does not drive.
        """
        if self._engine is not None:
            await self._engine.drain()

    def end_drain(self) -> None:
        """Let a drain, or a close, wait no longer for tool calls under way."""
        if self._engine is not None:
            self._engine.end_drain()

    async def aclose(self) -> None:
        """Close the runtime; tool calls under way may end first, see `drain`.

        Unfinished runs continue when a runtime is opened on the same store.
        """
        import asyncio  # noqa: PLC0415 - slow to import

        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        # Concurrent calls await the same task, and the store is closed after the drivers.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        import asyncio  # noqa: PLC0415 - slow to import

        if self._engine is not None:
            # Before the desk: a tool that ends may have asked a person.
            await self._engine.drain()
        if self._desk is not None:
            await self._desk.aclose()
        if self._engine is not None:
            await self._engine.aclose()
        for task in (self._scheduling, self._retaining):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        if self._ports.provider_source is not None:
            await self._ports.provider_source.aclose()
        if self._ports.interpreter is not None:
            await self._ports.interpreter.aclose()
        for sandboxes in self._ports.sandboxes.values():
            await sandboxes.aclose()
        if self._ports.store is not None:
            await self._ports.store.aclose()
        if self._ports.bus is not None:
            self._ports.bus.end(runtime_closed())
        if self._watch is not None:
            self._watch.release()

    def _make_engine(self) -> Engine:
        from windlass.engine.effects import EffectPorts  # noqa: PLC0415 - slow to import
        from windlass.engine.engine import Engine, LocalWakes, Ports  # noqa: PLC0415 - slow to import
        from windlass.engine.provider_limits import RuntimeLimits  # noqa: PLC0415 - slow to import
        from windlass.runtime.approvals import ApprovalDesk  # noqa: PLC0415 - slow to import
        from windlass.runtime.binding import RuntimeBinder  # noqa: PLC0415 - slow to import
        from windlass.runtime.start import RuntimeDelegator, sandbox_of  # noqa: PLC0415 - slow to import

        ports = self._ports
        store, bus, content = self._store(), self._bus(), self._content()
        machine, approvals = ports.machine, ports.approvals
        if approvals.dispatcher is not None and ports.is_driving:
            ask, answer, limit_ms = approvals.dispatcher, self.answer_session, approvals.timeout_ms
            self._desk = ApprovalDesk(ask, bus, store=store, answer=answer, timeout_ms=limit_ms)
        shared = EffectPorts(
            content,
            bus,
            machine.clock,
            machine.random,
            is_attended=ports.is_attended,
            calls_max=ports.rules.calls_per_step_max,
            provider_limits=RuntimeLimits(ports.provider_limits, store, holder=machine.new_id()),
            delegator=RuntimeDelegator(ports, self._keeper),
            interpreter=ports.interpreter,
            sandbox_of=partial(sandbox_of, ports),
        )
        return Engine(
            Ports(
                store,
                self._desk or bus,
                shared,
                scribe=ports.scribe,
                clock=machine.clock,
                binder=RuntimeBinder(ports),
                agents=self._agents,
                rules=ports.loop_rules,
                owner_id=machine.new_id(),
                wakes=LocalWakes() if ports.wakes is None else ports.wakes,
                is_driving=ports.is_driving,
                drain_s=ports.drain_s,
                event_hooks=ports.registry.event_hooks,
                on_parked=self._on_parked,
                on_schedule_due=self._start_scheduled,
            )
        )

    @property
    def schedules(self) -> Schedules:
        """The schedules of the store.

        Raises:
            Rejected: the runtime has no journal.
        """
        from windlass.schedules import Schedules, Starter  # noqa: PLC0415 - slow to import

        hide = self._ports.scribe.redactor.text
        starter = Starter(self.start_run, partial(self.cancel_run, by="schedule"), self._agents, hide)
        return Schedules(self._store(), self._ports.machine.clock, starter)

    def _start_scheduled(self, name: str | None = None) -> None:
        """Start the runs of schedules in a task: a start policy may take its time.

        `name` is a schedule whose run has ended: its next tick need not wait for the clock.
        """
        import asyncio  # noqa: PLC0415 - slow to import

        self._schedules_due.add(name)
        if self._scheduling is None or self._scheduling.done():
            self._scheduling = asyncio.create_task(self._schedule(), name="windlass schedules")

    async def _schedule(self) -> None:
        from windlass.engine.masking import log_failure  # noqa: PLC0415 - slow to import

        try:
            while self._schedules_due:
                name = self._schedules_due.pop()
                await (self.schedules.start_due() if name is None else self.schedules.start_next(name))
        except Exception as error:  # noqa: BLE001 - the next sweep tries again
            redactor = self._ports.scribe.redactor
            log_failure("schedules could not be looked after", error, redactor=redactor)

    def _on_parked(self, state: LoopState) -> None:
        run, engine = state.session.run, self._engine
        source = None if run is None or state.run is not None else run.source
        name = source.id if source is not None and source.kind == "scheduled_task" else None
        if name and engine is not None and not engine.is_draining:
            self._start_scheduled(name)
        deps = self._ports.deps
        if deps.given or deps.outputs:
            deps.forget(state.session.run_ids, current=None if state.run is None else state.run.run_id)

    def _agents(self) -> Collection[str] | None:
        return None if self._ports.resolver is not None else self._ports.registry.agent_ids

    # starting

    async def start_run(self, request: RunRequest) -> RunHandle:
        """Start a run; return once it is durable. The same request again is the same run.

        Raises:
            Rejected: a port is missing, the package cannot be run, or an id is reserved for
                subagents or for notes.
            Unavailable: no provider serves the model, or the store cannot be reached.
            Denied: the start policy does not allow it, or the session belongs to another owner.
            Conflict: the run id was used with another request, or the session was deleted.
        """
        return await self._start(request)

    async def _start(
        self,
        request: RunRequest,
        *,
        retry_of: str | None = None,
        undo: JsonObject | None = None,
        playground: PlaygroundStart | None = None,
    ) -> RunHandle:
        from windlass.engine.clocks import moment  # noqa: PLC0415 - slow to import
        from windlass.engine.inbox import item_key  # noqa: PLC0415 - slow to import
        from windlass.ports.store import START, NewRun  # noqa: PLC0415 - slow to import
        from windlass.runtime import start  # noqa: PLC0415 - slow to import
        from windlass.runtime.runs import RunHandle  # noqa: PLC0415 - slow to import

        try:
            check_request(request)
            package = None if playground is None else playground.package
            effective = await start.check_start(self._ports, request, package=package)
            if playground is None or playground.origin.calls == "real":
                start.check_deps(self._ports, request)
            await self.resume()
            await start.check_free(self._store(), request)
            if playground is None:
                await self._check_session(request.session_id)
            run_id = request.run_id
            await self._keeper.keep(effective, run_id)
            session_id = request.session_id or f"session:{run_id}"
            wire_request = start.asked_for(request)
            if playground is not None:
                wire_request["playground"] = playground.asked
            at = moment(self._ports.machine.clock).at
            new_run = NewRun(run_id, request.agent_id, effective.fingerprint, request=wire_request, at=at)
            opening, origin = start.session_opening(effective), None
            if playground is not None:
                origin = playground.origin.model_dump(mode="json", by_alias=True)
                opening = {**opening, **playground.opening}
                await self._open_playground_session(playground)
            begun = start.start_body(request, effective, retry_of=retry_of, undo=undo, playground=origin)
            body = await self._mask({**begun, "session": opening})
            key = item_key(START, run_id)
            try:
                posted = await self._store().post(session_id, kind=START, key=key, body=body, run=new_run)
            except Conflict as error:
                if await self._store().run(run_id) is None:
                    raise error.caused_by(common.CausalIds(run_id=run_id)) from None
                differs = await self._runs.difference(new_run, session_id, owner=request.owner)
                raise taken_run(run_id, differs) from None
        except AgentError as error:
            await self._record_refusal(error, request)
            raise
        self._run_count += posted.is_new
        await self._rouse(session_id)
        return RunHandle(self, run_id)

    async def _check_session(self, session_id: str | None) -> None:
        """Refuse the session of a playground run: its messages were edited, and its run is its only one."""
        if session_id is None or not session_id.startswith(PLAYGROUND_PREFIX):
            return
        session = await self._store().listed_session(session_id)
        if session is not None and session.is_playground:
            raise playground_session(session_id)

    async def _open_playground_session(self, playground: PlaygroundStart) -> None:
        """Create the session of a playground run, unless an earlier attempt did."""
        session = playground.session
        try:
            await self._store().keep(session)
        except Conflict:
            existing = await self._store().listed_session(session.session_id)
            if (
                existing is None
                or existing.predecessor_id != session.told.predecessor
                or not existing.is_playground
            ):
                raise

    async def start_playground_run(self, request: RunRequest, playground: PlaygroundStart) -> RunHandle:
        """Start a run of the playground, which prepared it; see `windlass.playground`.

        Raises:
            Rejected, Unavailable, Denied, Conflict: as for `start_run`.
        """
        return await self._start(request, playground=playground)

    async def _record_refusal(self, error: AgentError, request: object) -> None:
        """Write a refused start to the audit of the store; see `record_refusal`."""
        from windlass.runtime import start  # noqa: PLC0415 - slow to import

        if isinstance(request, runs.RunRequest):
            fields = {name: getattr(request, name) for name in start.ASKED}
            await start.record_refusal(self._ports, error, fields)

    async def steer_session(
        self, request: RunRequest, *, message_id: str, responses: Sequence[InputResponse] = ()
    ) -> None:
        """Send a message to the current run of a session; return once it is durable.

        See `AgentRuntime.steer`. Equal ids and texts are one message.

        Raises:
            Rejected, Unavailable, Denied: as for `start_run` and `answer_session`.
            Conflict: the session is unknown, the message id was used with another message, or as for
                `answer_session`.
        """
        from windlass.engine.inbox import item_key  # noqa: PLC0415 - slow to import
        from windlass.ports.store import STEER  # noqa: PLC0415 - slow to import
        from windlass.runtime import start  # noqa: PLC0415 - slow to import
        from windlass.runtime.runs import PostedAnswers  # noqa: PLC0415 - slow to import

        try:
            check_request(request)
            check_id(message_id, "message_id")
            effective = await start.check_start(self._ports, request, message_id=message_id)
            await self.resume()
            session_id = check_id(request.session_id, "session_id")
            await self._runs.check_session_exists(session_id)
            await self._check_session(session_id)
            await self._keeper.keep(effective, request.run_id)
            body = await self._mask({**start.start_body(request, effective), "messageId": message_id})
        except AgentError as error:
            await self._record_refusal(error, request)
            raise
        async with self._answering(session_id):
            key = item_key(STEER, message_id)
            asking: tuple[Asking, ...] = ()
            if responses:
                asking = await self._check_answers(session_id, responses, answer_id=key)
            for answers in asking:
                if answers.session_id == session_id:
                    # In one item: a message that is refused answers nothing.
                    body |= answers.body
            try:
                item = await self._store().post(session_id, kind=STEER, key=key, body=body)
            except AgentError as error:
                await self._record_refusal(error, request)
                raise
            posted = [
                PostedAnswers(answers, item.number)
                if answers.session_id == session_id
                else await self._post_answers(answers)
                for answers in asking
            ]
        await self._rouse(session_id)
        await self._check_first(posted)

    async def _mask(self, body: JsonObject) -> JsonObject:
        """Return the body of an inbox item with its secrets masked."""
        # An inbox item is as durable as a record, so it must not hold a secret either.
        return await self._ports.scribe.masked(body)

    @property
    def agent_sessions(self) -> AgentSessions:
        """The catalogue as `AgentSession` documents: creates sessions without a run, updates and lists them.

        Raises:
            Rejected: the runtime has no journal, event bus or content store.
        """
        from windlass.catalog.agent_sessions import AgentSessions  # noqa: PLC0415 - slow to import

        ports = self._ports
        return AgentSessions(
            self.sessions,
            self._store(),
            folds=self._folds,
            give_state=self._give_state,
            bus=self._bus(),
            machine=ports.machine,
            redactor=ports.scribe.redactor,
        )

    async def _give_state(self, session_id: str, change: StateChange) -> None:
        """Put a change of the authored state into the inbox of a session, and have it taken."""
        await self._runs.change_state(session_id, change, key=self._ports.machine.new_id())
        await self._rouse(session_id)

    async def feedback(
        self,
        run_id: str,
        *,
        thumb: Literal["up", "down"] | None = None,
        score: float | None = None,
        note: str | None = None,
        tags: Sequence[str] = (),
        step_index: int | None = None,
        message_id: str | None = None,
        by: str | None = None,
    ) -> None:
        """Record what a person says of a run; return once it is durable.

        It is a record of the session of the run, `feedback.given`; secrets in it are masked.

        Args:
            run_id: a run that has begun.
            thumb: up or down.
            score: from 0, the worst, to 1, the best.
            note: why, in words.
            tags: short words that `sessions.runs(tag=…)` finds.
            step_index: the step that is meant, from 0; the whole run without it.
            message_id: the answer that is meant.
            by: the person.

        Raises:
            Conflict: the run is unknown, or it is still queued.
            Rejected: a value is not valid, or there is none.
        """
        from windlass.catalog.feedback import data_of  # noqa: PLC0415 - slow to import
        from windlass.ports.store import FEEDBACK  # noqa: PLC0415 - slow to import
        from windlass.refusals import not_begun  # noqa: PLC0415 - slow to import

        row = await self._runs.row(run_id)
        if not row.first_seq:
            raise not_begun(row.run_id)
        data = data_of(
            row.run_id,
            thumb=thumb,
            score=score,
            note=note,
            tags=tags,
            step_index=step_index,
            message_id=message_id,
            by=by,
            redactor=self._ports.scribe.redactor,
        )
        key = f"{FEEDBACK}:{self._ports.machine.new_id()}"
        await self._store().post(row.session_id, kind=FEEDBACK, key=key, body=data)
        await self._rouse(row.session_id)

    async def _rouse(self, session_id: str) -> None:
        if self._engine is None:
            await self.resume()
        assert self._engine is not None, "it was opened just now"
        self._engine.wake(session_id)

    async def run_text(self, request: RunRequest) -> RunResult:
        """Start a run and return its result; a failed run has a result too."""
        return await (await self.start_run(request)).wait()

    async def resolve_effective_package(self, request: RunRequest) -> EffectivePackage:
        """Return the package that a request would run under; nothing is written.

        Raises:
            Rejected: the package is unknown, it cannot be run, or it belongs to another agent.
        """
        from windlass.runtime.start import effective_package  # noqa: PLC0415 - slow to import

        check_request(request)
        return await effective_package(self._ports, request)

    @property
    def registered_run_count(self) -> int:
        """Number of runs started through this runtime."""
        return self._run_count

    @property
    def provider_registry(self) -> Mapping[str, LLMProvider]:
        """The models by route, without the models that agents bring."""
        return self._ports.providers

    @property
    def output_sinks(self) -> Mapping[str, OutputSink]:
        """The output sinks by their ids."""
        return self._ports.sinks

    # runs

    def handle(self, run_id: str) -> RunHandle:
        """Return the handle of any run of the store, running or ended."""
        from windlass.runtime.runs import RunHandle  # noqa: PLC0415 - slow to import

        return RunHandle(self, check_id(run_id, "a run id"))

    async def run_status(self, run_id: str) -> RunStatus:
        """Return the status of a run.

        Raises:
            Conflict: the run is unknown.
        """
        return await self._runs.status(run_id)

    async def run_session(self, run_id: str) -> str:
        """Return the id of the session of a run, also of a queued or ended one.

        Raises:
            Conflict: the run is unknown.
        """
        return (await self._runs.row(run_id)).session_id

    async def run_snapshot(self, run_id: str) -> RunSnapshot:
        """Return the snapshot of a run, also of a queued or ended one.

        Raises:
            Conflict: the run is unknown.
        """
        return await self._runs.snapshot(run_id)

    async def run_result(self, run_id: str, timeout: float | None = None) -> RunResult:  # noqa: ASYNC109 - the run goes on when the wait ends
        """Return the result of a run, once it has ended.

        Raises:
            TimeoutError: the run did not end within `timeout` seconds. It continues.
            Conflict: the run is unknown.
        """
        return await self._runs.result(run_id, timeout)

    async def cancel_run(self, run_id: str, *, by: str | None = None, reason: str | None = None) -> None:
        """Cancel a run. A second cancel, and a cancel of an ended run, change nothing.

        From then on `run_snapshot` and `run_status` show `cancelling`, its requests are closed, and answers
        to them are refused, even if no open process has its agent.

        Raises:
            Conflict: the run is unknown.
        """
        from windlass.engine.inbox import item_key  # noqa: PLC0415 - slow to import
        from windlass.ports.store import CANCEL  # noqa: PLC0415 - slow to import
        from windlass.runtime.runs import TERMINAL  # noqa: PLC0415 - slow to import

        row = await self._runs.row(run_id)
        body: dict[str, str | None] = {"runId": run_id, "by": by, "reason": reason}
        for name, value in body.items():
            if value is not None:
                check_given(value, str, what=name, words="a text")
        if row.status in TERMINAL:
            return
        facts: JsonObject = {name: value for name, value in body.items() if value is not None}
        # An earlier cancel may have another reason; the run ends in any case.
        with suppress(Conflict):
            await self._store().post(
                row.session_id, kind=CANCEL, key=item_key(CANCEL, run_id), body=await self._mask(facts)
            )
        await self._rouse(row.session_id)

    async def retry_run(self, run_id: str, *, budget: Budget | BudgetLimits | None = None) -> RunHandle:
        """Continue a failed run in a new run of its session; return once that is durable.

        The new run has the options of the failed one and the current package of its agent. It has no message:
        the model is called with the history that the failed run left, so calls with a result are not
        repeated. Its id follows from that of the failed run: a second retry returns the same run. Its budget
        is what the failed run left; `budget` are other limits, of both runs together.

        Raises:
            Conflict: the run is unknown, has not failed or was started by a subagent call, its session has
                gone on since, or nothing is left of its budget.
            Rejected, Unavailable, Denied: as for `start_run`.
        """
        from windlass.agent.package import budget_limits  # noqa: PLC0415 - slow to import
        from windlass.runtime.runs import RunHandle  # noqa: PLC0415 - slow to import
        from windlass_harness.loop.events import within_limit  # noqa: PLC0415 - slow to import

        row = await self._runs.row(run_id)
        new_id = within_limit(f"retry:{run_id}")
        if await self._store().run(new_id) is not None:
            return RunHandle(self, new_id)
        request = await self._runs.retry_request(row, new_id, budget=budget_limits(budget))
        return await self._start(request, retry_of=run_id)

    async def undo_plan(self, run_id: str) -> UndoPlan:
        """Return the calls of a run that may have changed something, newest first.

        Each says whether it can be reversed, was reversed, or has no undo.

        Raises:
            Conflict: the run is unknown.
        """
        from windlass.runtime import undo  # noqa: PLC0415 - slow to import

        row = await self._runs.row(run_id)
        return undo.plan_of(row.run_id, await undo.calls_of(self._store(), row))

    async def undo_run(self, run_id: str) -> RunHandle:
        """Reverse the calls of a run, newest first, in a new run of its session; return once that is durable.

        The new run calls no model. Each of its steps makes one call of an undo tool, which the policy decides
        about. A second call returns the same run; after one that failed, it starts another for the rest.

        Raises:
            Conflict: the run is unknown, has not ended, or has no call that can be reversed.
            Rejected, Unavailable, Denied: as for `start_run`.
        """
        from windlass.runtime import undo  # noqa: PLC0415 - slow to import
        from windlass.runtime.runs import RunHandle  # noqa: PLC0415 - slow to import
        from windlass_harness.loop.events import within_limit  # noqa: PLC0415 - slow to import
        from windlass_protocol import RunStatus  # noqa: PLC0415 - made on first use

        row, number = await self._runs.row(run_id), 1
        ended = (RunStatus.FAILED, RunStatus.CANCELLED)
        while True:
            new_id = within_limit(f"undo:{run_id}" if number == 1 else f"undo:{number}:{run_id}")
            undo_run = await self._store().run(new_id)
            if undo_run is None:
                break
            if undo_run.status not in ended:
                return RunHandle(self, new_id)
            number += 1
        request = await self._runs.undo_request(row, new_id)
        calls = await undo.calls_of(self._store(), row)
        content, clock = self._content(), self._ports.machine.clock
        facts = await undo.undo_facts(row.run_id, calls, content=content, clock=clock)
        return await self._start(request, undo=facts)

    async def compact(self, session_id: str) -> None:
        """Compact the history of a session: now, or before the next model call of a run.

        Raises:
            Conflict: the session is unknown.
        """
        await self._runs.ask_compaction(session_id, key=self._ports.machine.new_id())
        await self._rouse(session_id)

    # people

    async def run_requests(self, run_id: str) -> tuple[InputRequest, ...]:
        """Return the open requests of a run, subagents included.

        A request with `is_answered` has an answer that waits for a process with the agent.

        Raises:
            Conflict: the run is unknown.
        """
        row = await self._runs.row(run_id)
        return tuple((await self._runs.requests(row.session_id, run_id)).values())

    async def session_requests(self, session_id: str) -> tuple[InputRequest, ...]:
        """Return the open requests of a session, subagents included.

        A request with `is_answered` has an answer that waits for a process with the agent.

        Raises:
            Conflict: the session is unknown.
        """
        await self._runs.check_session_exists(session_id)
        return tuple((await self._runs.requests(session_id)).values())

    async def descendants(self, session_id: str) -> tuple[ChildSession, ...]:
        """Return the sessions of all subagents below a session, callers first.

        Raises:
            Conflict: the session is unknown.
        """
        return await self._runs.descendants(session_id)

    async def answer_run(
        self, run_id: str, responses: Sequence[InputResponse], *, key: str | None = None
    ) -> None:
        """Answer requests of a run; return once the answers are durable.

        Answers that were given with the same `key` before are accepted again.

        Raises:
            Conflict: the request is answered already, or the run has no open request with this id.
            Denied: this responder may not answer.
            Rejected: an answer does not fit its request.
        """
        row = await self._runs.row(run_id)
        await self._answer(row.session_id, responses, run_id, key=key)

    async def answer_session(
        self, session_id: str, responses: Sequence[InputResponse], *, key: str | None = None
    ) -> None:
        """Answer requests of a session; return once the answers are durable.

        Answers that were given with the same `key` before are accepted again.

        Raises:
            Conflict: the request is answered already, the session has no open request with this id, or the
                session is unknown.
            Denied: this responder may not answer.
            Rejected: an answer does not fit its request.
        """
        await self._answer(session_id, responses, key=key)

    async def _answer(
        self,
        session_id: str,
        responses: Sequence[InputResponse],
        run_id: str | None = None,
        *,
        key: str | None,
    ) -> None:
        from windlass.engine.inbox import ANSWER, item_key  # noqa: PLC0415 - slow to import

        name = self._ports.machine.new_id() if key is None else check_id(key, "key")
        check = partial(self._check_answers, session_id, responses, run_id, answer_id=item_key(ANSWER, name))
        async with self._answering(check_id(session_id, "session_id")):
            try:
                posted = [await self._post_answers(answers) for answers in await check()]
            except Conflict:
                # Another process may have posted the same answers with the same key. A check reads requests,
                # then the inbox: answers that are taken in between are found by the next check.
                if key is None or (await check() and await check()):
                    raise
                return
        await self._check_first(posted)

    async def _check_first(self, posted: Sequence[PostedAnswers]) -> None:
        """Wake the sessions of posted answers, and refuse answers that others were before.

        Raises:
            Conflict: a request has another answer, or it was closed without one.
        """
        from windlass.engine.clocks import moment  # noqa: PLC0415 - slow to import

        for answers in posted:
            await self._rouse(answers.asking.session_id)
        now_ms = moment(self._ports.machine.clock).ms
        # The answers are durable: a store that cannot be read now does not change that.
        with suppress(Unavailable):
            for answers in posted:
                await self._runs.check_first(answers, now_ms=now_ms)

    def _answering(self, session_id: str) -> asyncio.Lock:
        """Return the lock of the answers of a session: of two at once, the second is not posted."""
        import asyncio  # noqa: PLC0415 - slow to import

        return self._answer_locks.setdefault(check_id(session_id, "a session id"), asyncio.Lock())

    async def _post_answers(self, asking: Asking) -> PostedAnswers:
        """Put answers into the inbox of the session that asked."""
        from windlass.engine.inbox import ANSWER  # noqa: PLC0415 - slow to import
        from windlass.runtime.runs import PostedAnswers  # noqa: PLC0415 - slow to import

        session_id, key = asking.session_id, asking.answer_id
        item = await self._store().post(session_id, kind=ANSWER, key=key, body=asking.body)
        return PostedAnswers(asking, item.number)

    async def _check_calls(self, asking: Asking, plain: Mapping[str, InputResponse]) -> None:
        """Refuse answers for calls that the agent of this process cannot make.

        `plain` are the answers by request, with their secrets.

        Raises:
            Rejected: changed arguments do not fit their tool.
            Conflict: a call is approved whose tool the agent has no more.
        """
        from windlass.engine.masking import has_mask  # noqa: PLC0415 - slow to import
        from windlass.runtime.requests import makes_call  # noqa: PLC0415 - slow to import
        from windlass.tools.calling import read_arguments  # noqa: PLC0415 - slow to import
        from windlass_harness.views.payloads import action_name  # noqa: PLC0415 - slow to import

        registered = None if asking.agent_id is None else self._ports.registry.agent(asking.agent_id)
        for response in (plain[answer.request_id] for answer in asking.responses):
            request, changed = asking.requests[response.request_id], response.arguments
            if registered is None:
                continue
            name = action_name(request.action)
            agent = registered.agent
            is_known = agent is None or agent.resolvers or name in agent.call_names
            if not is_known and makes_call(request, response):
                raise removed_tool(name, asking.session_id, request.request_id, agent_id=asking.agent_id)
            tool = registered.tools.get(name)
            if tool is not None and changed is not None and not has_mask(changed):
                await read_arguments(tool, changed)

    async def _check_answers(
        self,
        session_id: str,
        responses: Sequence[InputResponse],
        run_id: str | None = None,
        *,
        answer_id: str,
    ) -> tuple[Asking, ...]:
        """Return new answers by the sessions that asked, with secrets masked.

        The caller holds the lock until they are posted.
        """
        from windlass.engine.clocks import moment  # noqa: PLC0415 - slow to import
        from windlass.runtime.runs import check_answers  # noqa: PLC0415 - slow to import
        from windlass_protocol import InputResponse  # noqa: PLC0415 - made on first use

        answers_given = check_items(responses, InputResponse, what="responses", words="InputResponses")
        await self._runs.check_session_exists(session_id)
        now_ms = moment(self._ports.machine.clock).ms
        dumped: list[JsonObject] = [answer.model_dump(mode="json", by_alias=True) for answer in answers_given]
        for value in (value for answer in dumped for value in answer.values()):
            # An answer may have fields that this version does not know.
            check_free_json(value, "an answer")
        masked = [InputResponse.model_validate(await self._mask(answer), by_alias=True) for answer in dumped]
        asking = await self._runs.sort(
            masked, session_id, run_id=run_id, answer_id=answer_id, given_ms=now_ms
        )
        plain = {answer.request_id: answer for answer in answers_given}
        new: list[Asking] = []
        for answers in asking:
            check_answers(answers.responses, answers.requests, session_id=answers.session_id, now_ms=now_ms)
            await self._check_calls(answers, plain)
            answers = await self._runs.without_repeats(answers)
            if answers.responses:
                new.append(answers)
        return tuple(new)
