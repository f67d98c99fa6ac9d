"""Core: the inside of a runtime, which its face, its handles and the packages of Windlass share.

It opens and closes the engine over the ports, and holds what starts runs (`starts`), what answers requests
(`answers`) and what reads runs (`runs`). Programs use `AgentRuntime`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from windlass.engine.clocks import moment
from windlass.engine.driving.drives import Ports
from windlass.engine.driving.engine import Engine, LocalWakes
from windlass.engine.driving.inbox import item_key
from windlass.engine.effect_context import EffectPorts
from windlass.engine.spending.batches import Batches
from windlass.engine.spending.provider_limits import RuntimeLimits
from windlass.engine.spending.spend_limits import SpendLimits
from windlass.engine.writing.folds import JournalFolds
from windlass.engine.writing.masking import log_failure
from windlass.errors import Conflict
from windlass.refusals import check_given, check_id, missing_port, runtime_closed
from windlass.runtime import rooms
from windlass.runtime.answers import Answers
from windlass.runtime.approvals import ApprovalDesk
from windlass.runtime.handle import RunHandle
from windlass.runtime.registry import PackageChange
from windlass.runtime.runs import TERMINAL, Runs
from windlass.runtime.starts.binding import RuntimeBinder
from windlass.runtime.starts.executors import find_provider, sandbox_of
from windlass.runtime.starts.start import RuntimeDelegator
from windlass.runtime.starts.starting import Starts
from windlass_harness.loop.subagents import CANCEL

if TYPE_CHECKING:
    from collections.abc import Collection

    from windlass.catalog.runtime_sessions import RuntimeSessions
    from windlass.ports.feed import EventBus
    from windlass.ports.machine import LoopWatch
    from windlass.ports.store import ContentStore, Store
    from windlass.runtime.registry import RuntimePorts
    from windlass.schedules import Schedules
    from windlass_harness.loop.state import LoopState
    from windlass_protocol import JsonObject


class Core:
    """The inside of a runtime; see the module."""

    def __init__(self, ports: RuntimePorts) -> None:
        self.ports = ports
        self.starts = Starts(self)
        self.answers = Answers(self)
        self._engine: Engine | None = None
        self._desk: ApprovalDesk | None = None
        self._opening = asyncio.Lock()
        self._closing: asyncio.Future[None] | None = None
        self._scheduling: asyncio.Task[None] | None = None
        self._schedules_due: set[str | None] = set()
        """Schedules with a run that has ended; None for all that are due by the clock."""
        self._retaining: asyncio.Task[None] | None = None
        self._watch: LoopWatch | None = None

    # ports

    @property
    def store(self) -> Store:
        """The journal, with its inbox and catalogue.

        Raises:
            Rejected: the runtime has none.
        """
        if self.ports.store is None:
            raise missing_port("run journal")
        return self.ports.store

    @property
    def bus(self) -> EventBus:
        """The event bus.

        Raises:
            Rejected: the runtime has none.
        """
        if self.ports.bus is None:
            raise missing_port("agent event bus")
        return self.ports.bus

    @property
    def content(self) -> ContentStore:
        """The store of packages and large values.

        Raises:
            Rejected: the runtime has none.
        """
        if self.ports.content is None:
            raise missing_port("content resolver")
        return self.ports.content

    @property
    def agents(self) -> Collection[str] | None:
        """The agents of this process; None means: any."""
        return None if self.ports.resolver is not None else self.ports.registry.agent_ids

    @cached_property
    def limits(self) -> SpendLimits:
        """The limits for people and teams."""
        return SpendLimits(self.ports.store, self.ports.machine.clock)

    # what reads

    @property
    def runs(self) -> Runs:
        """Reads runs."""
        return Runs(self.store, self.bus, folds=self.folds, hide=self.ports.scribe.redactor.text)

    @cached_property
    def folds(self) -> JournalFolds:
        """The folds of sessions and runs that reads share."""
        return JournalFolds(self.store)

    @cached_property
    def decisions(self) -> rooms.RunDecisions:
        """Reads the decisions of runs."""
        return rooms.decisions(self)

    @property
    def sessions(self) -> RuntimeSessions:
        """The sessions of the store."""
        return rooms.sessions(self)

    @property
    def schedules(self) -> Schedules:
        """The schedules of the store."""
        return rooms.schedules(self)

    def handle(self, run_id: str) -> RunHandle:
        """Return the handle of any run of the store, running or ended."""
        return RunHandle(self, check_id(run_id, "a run id"))

    # opening and closing

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
                await self.limits.open(self.ports.limits)
                engine = self._make_engine()
                await engine.open()
                self._engine = engine
                if self.ports.machine.watch is not None:
                    self._watch = self.ports.machine.watch()
                if self._desk is not None:
                    self._desk.open()
                if self.ports.retention_days is not None and self.ports.is_driving:
                    work = rooms.retain(self, days=self.ports.retention_days)
                    self._retaining = asyncio.create_task(work, name="windlass retention")

    async def drain(self) -> None:
        """Drive no more runs, and let tool calls under way end, for `drain_s` at most."""
        if self._engine is not None:
            await self._engine.drain()

    def end_drain(self) -> None:
        """Let a drain, or a close, wait no longer for tool calls under way."""
        if self._engine is not None:
            self._engine.end_drain()

    async def aclose(self) -> None:
        """Close the engine and the ports; tool calls under way may end first, see `drain`."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        # Concurrent calls await the same task, and the store is closed after the drivers.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
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
        if self.ports.provider_source is not None:
            await self.ports.provider_source.aclose()
        if self.ports.interpreter is not None:
            await self.ports.interpreter.aclose()
        for sandboxes in self.ports.sandboxes.values():
            await sandboxes.aclose()
        if self.ports.store is not None:
            await self.ports.store.aclose()
        if self.ports.bus is not None:
            self.ports.bus.end(runtime_closed())
        if self._watch is not None:
            self._watch.release()

    def _make_engine(self) -> Engine:
        ports = self.ports
        store, bus, content = self.store, self.bus, self.content
        machine = ports.machine
        if ports.approval_dispatcher is not None and ports.is_driving:
            ask, answer, limit_ms = (
                ports.approval_dispatcher,
                self.answers.answer,
                ports.approval_timeout_ms,
            )
            self._desk = ApprovalDesk(ask, bus, store=store, answer=answer, timeout_ms=limit_ms)
        shared = EffectPorts(
            content,
            bus,
            machine.clock,
            machine.random,
            is_attended=ports.is_attended,
            calls_max=ports.rules.calls_per_step_max,
            provider_limits=RuntimeLimits(ports.provider_limits, store, holder=machine.new_id()),
            delegator=RuntimeDelegator(ports, self.starts.keeper, self.limits),
            interpreter=ports.interpreter,
            sandbox_of=partial(sandbox_of, ports),
            session_sandboxes=rooms.session_sandboxes,
            programs=rooms.programs,
            spend_limits=self.limits,
            batches=Batches(
                store,
                content,
                machine.clock,
                new_id=machine.new_id,
                scribe=ports.scribe,
                find_provider=partial(find_provider, ports),
            ),
        )
        binder = RuntimeBinder(ports)
        return Engine(
            Ports(
                store,
                self._desk or bus,
                shared,
                scribe=ports.scribe,
                clock=machine.clock,
                binder=binder,
                agents=lambda: self.agents,
                versions=lambda: ports.registry.versions,
                version_of=binder.version_of,
                waits_for_version=ports.package_change is PackageChange.WAIT,
                rules=ports.loop_rules,
                owner_id=machine.new_id(),
                wakes=LocalWakes() if ports.wakes is None else ports.wakes,
                is_driving=ports.is_driving,
                slots=ports.sessions_max,
                drain_s=ports.drain_s,
                event_hooks=ports.registry.event_hooks,
                on_parked=self._on_parked,
                on_schedule_due=self._start_scheduled,
            )
        )

    # sessions under way

    async def is_driven_elsewhere(self, run_id: str | None) -> bool:
        """Whether a run is left to processes that have the version of its agent, which this one has not."""
        if run_id is None or self._engine is None:
            return False
        row = await self.runs.row(run_id)
        return await self._engine.refusal_of(row.agent_id, row.fingerprint) is not None

    async def mask(self, body: JsonObject) -> JsonObject:
        """Return the body of an inbox item with its secrets masked."""
        # An inbox item is as durable as a record, so it must not hold a secret either.
        return await self.ports.scribe.mask_body(body)

    async def rouse(self, session_id: str) -> None:
        """Have a session driven, after an item was put into its inbox."""
        if self._engine is None:
            await self.resume()
        assert self._engine is not None, "it was opened just now"
        self._engine.wake(session_id)

    async def cancel(self, run_id: str, *, by: str | None = None, reason: str | None = None) -> None:
        """Cancel a run; see `AgentRuntime.cancel_run`."""
        row = await self.runs.row(run_id)
        body: dict[str, str | None] = {"runId": run_id, "by": by, "reason": reason}
        for name, value in body.items():
            if value is not None:
                check_given(value, str, what=name, words="a text")
        if row.status in TERMINAL:
            return
        facts: JsonObject = {name: value for name, value in body.items() if value is not None}
        # An earlier cancel may have another reason; the run ends in any case.
        with suppress(Conflict):
            await self.store.post(
                row.session_id, kind=CANCEL, key=item_key(CANCEL, run_id), body=await self.mask(facts)
            )
        await self.rouse(row.session_id)

    @property
    def lease_age_s(self) -> float:
        """How long ago the lease of this process was renewed, in seconds; 0 if it drives nothing."""
        return 0.0 if self._engine is None else self._engine.lease_age_s

    def now_ms(self) -> int:
        """Return the time, in milliseconds since 1970."""
        return moment(self.ports.machine.clock).ms

    def _start_scheduled(self, name: str | None = None) -> None:
        """Start the runs of schedules in a task: a start policy may take its time.

        `name` is a schedule whose run has ended: its next tick need not wait for the clock.
        """
        self._schedules_due.add(name)
        if self._scheduling is None or self._scheduling.done():
            self._scheduling = asyncio.create_task(self._schedule(), name="windlass schedules")

    async def _schedule(self) -> None:
        try:
            while self._schedules_due:
                name = self._schedules_due.pop()
                await (self.schedules.start_due() if name is None else self.schedules.start_next(name))
        except Exception as error:  # noqa: BLE001 - the next sweep tries again
            redactor = self.ports.scribe.redactor
            log_failure("schedules could not be looked after", error, redactor=redactor)

    def _on_parked(self, state: LoopState) -> None:
        run, engine = state.session.run, self._engine
        source = None if run is None or state.run is not None else run.source
        name = source.id if source is not None and source.kind == "scheduled_task" else None
        if name and engine is not None and not engine.is_draining:
            self._start_scheduled(name)
        deps = self.ports.deps
        if deps.given or deps.outputs:
            deps.forget(state.session.run_ids, current=None if state.run is None else state.run.run_id)
