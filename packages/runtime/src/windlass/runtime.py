"""The runtime: starts runs, goes on with them after a crash, and answers for them."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from pydantic import JsonValue

from windlass.binder import RuntimeBinder
from windlass.delegation import PackageKeeper, RuntimeDelegator
from windlass.dispatch import ApprovalDesk
from windlass.engine.engine import Engine, Ports
from windlass.engine.mail import ANSWER, item_key
from windlass.engine.moments import moment
from windlass.engine.work import Shared
from windlass.errors import Conflict
from windlass.ports.journal import CANCEL, START, STEER, NewRun
from windlass.ports.model import LLMProvider
from windlass.ports.sink import OutputSink
from windlass.refusals import check_answers, runtime_closed, taken_run
from windlass.run_handle import RunHandle
from windlass.runs import TERMINAL
from windlass.runtime_ports import RuntimePorts
from windlass.runtime_views import RuntimeViews
from windlass.setup_check import check_given, check_id, check_items, check_request
from windlass.start import EffectivePackage, asked_for, check_start, effective_package, start_body
from windlass.start_names import check_free
from windlass_harness.loop.drafts import Draft
from windlass_harness.views.family import ChildSession
from windlass_protocol import (
    CausalIds,
    InputRequest,
    InputResponse,
    RunRequest,
    RunResult,
    RunSnapshot,
    RunStatus,
)

JsonObject = dict[str, JsonValue]


class CoreRuntime(RuntimeViews):
    """A runtime made of ports; `AgentRuntime` adds the short ways to make one."""

    def __init__(self, ports: RuntimePorts) -> None:
        super().__init__(ports)
        self._engine: Engine | None = None
        self._desk: ApprovalDesk | None = None
        self._run_count = 0
        self._keeper = PackageKeeper(ports)
        self._opening = asyncio.Lock()
        self._closing: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        await self.resume()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def resume(self) -> None:
        """Go on with everything that was left unfinished, and take work from now on.

        Raises:
            Rejected: there is no journal, event bus or content store.
            Unavailable: it was closed.
        """
        async with self._opening:
            if self._closing is not None:
                raise runtime_closed()
            if self._engine is None:
                engine = self._make_engine()
                await engine.open()
                self._engine = engine
                if self._desk is not None:
                    self._desk.open()

    async def aclose(self) -> None:
        """Let go of everything.

        Runs that are not done go on when a runtime is opened on the same store.
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        # Whoever closes it too waits for the same end, and nobody closes the store under the drivers.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._desk is not None:
            await self._desk.aclose()
        if self._engine is not None:
            await self._engine.aclose()
        if self._ports.provider_source is not None:
            await self._ports.provider_source.aclose()
        if self._ports.store is not None:
            await self._ports.store.aclose()
        if self._ports.bus is not None:
            self._ports.bus.end(runtime_closed())

    def _make_engine(self) -> Engine:
        ports = self._ports
        store, bus, content = self._store(), self._bus(), self._content()
        machine, approvals = ports.machine, ports.approvals
        if approvals.dispatcher is not None:
            ask, answer, limit_ms = approvals.dispatcher, self.answer_session, approvals.timeout_ms
            self._desk = ApprovalDesk(ask, bus, store=store, answer=answer, timeout_ms=limit_ms)
        shared = Shared(
            content,
            bus,
            machine.clock,
            machine.random,
            is_attended=ports.is_attended,
            calls_max=ports.rules.calls_per_step_max,
            delegator=RuntimeDelegator(ports, self._keeper),
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
                rules=ports.rules,
                owner_id=machine.new_id(),
            )
        )

    def _agents(self) -> Collection[str] | None:
        return None if self._ports.resolver is not None else self._ports.registry.agent_ids

    # starting

    async def start_run(self, request: RunRequest) -> RunHandle:
        """Start a run; return once it is durable. The same request again is the same run.

        Raises:
            Rejected: a port is missing, the package cannot be run, or an id is kept for subagents
                or for notes.
            Unavailable: nobody provides the model, or the store cannot be reached.
            Denied: the start policy does not allow it, or the session belongs to another owner.
            Conflict: the run id was used with another request, or the session was deleted.
        """
        check_request(request)
        effective = await check_start(self._ports, request)
        await self.resume()
        await check_free(self._store(), request)
        run_id = request.run_id
        await self._keeper.keep(effective, run_id)
        session_id = request.session_id or f"session:{run_id}"
        asked = asked_for(request)
        at = moment(self._ports.machine.clock).at
        new_run = NewRun(run_id, request.agent_id, effective.fingerprint, request=asked, at=at)
        body = self._masked(start_body(request, effective))
        try:
            key = item_key(START, run_id)
            posted = await self._store().post(session_id, kind=START, key=key, body=body, run=new_run)
        except Conflict as error:
            if await self._store().run(run_id) is None:
                raise error.caused_by(CausalIds(run_id=run_id)) from None
            raise taken_run(run_id, await self._runs.difference(new_run, session_id)) from None
        self._run_count += posted.is_new
        await self._rouse(session_id)
        return RunHandle(self, run_id)

    async def steer_session(self, request: RunRequest, *, message_id: str) -> None:
        """Say something to the run under way in a session; return once that is durable.

        See `AgentRuntime.steer`. The same message id with the same words is the same message.

        Raises:
            Rejected, Unavailable, Denied: as for `start_run`.
            Conflict: there is no such session, or the message id was used for something else.
        """
        check_request(request)
        check_id(message_id, "message_id")
        effective = await check_start(self._ports, request, message_id=message_id)
        await self.resume()
        session_id = check_id(request.session_id, "session_id")
        await self._runs.known(session_id)
        await self._keeper.keep(effective, request.run_id)
        body = self._masked({**start_body(request, effective), "messageId": message_id})
        await self._store().post(session_id, kind=STEER, key=item_key(STEER, message_id), body=body)
        await self._rouse(session_id)

    def _masked(self, body: JsonObject) -> JsonObject:
        """Return what may wait in the inbox."""
        # It is as durable as a record, so no secret may be in it either.
        return self._ports.scribe([Draft("inbox", "", body)])[0].data

    async def _rouse(self, session_id: str) -> None:
        if self._engine is None:
            await self.resume()
        assert self._engine is not None, "it was opened just now"
        self._engine.wake(session_id)

    async def run_text(self, request: RunRequest) -> RunResult:
        """Start a run and return what came of it; a run that failed has a result too."""
        return await (await self.start_run(request)).wait()

    async def resolve_effective_package(self, request: RunRequest) -> EffectivePackage:
        """Return the package that a request would run under; nothing is written.

        Raises:
            Rejected: there is no such package, it cannot be run, or it is not of this agent.
        """
        check_request(request)
        return await effective_package(self._ports, request)

    @property
    def registered_run_count(self) -> int:
        """How many runs were started through this runtime."""
        return self._run_count

    @property
    def provider_registry(self) -> Mapping[str, LLMProvider]:
        """The models by their routes; those of agents themselves are not among them."""
        return self._ports.providers

    @property
    def output_sinks(self) -> Mapping[str, OutputSink]:
        """The output sinks by their ids."""
        return self._ports.sinks

    # runs

    def handle(self, run_id: str) -> RunHandle:
        """Return the handle of a run, whoever started it, ended or not."""
        return RunHandle(self, check_id(run_id, "a run id"))

    async def run_status(self, run_id: str) -> RunStatus:
        """Return where a run is.

        Raises:
            Conflict: nobody ever started it.
        """
        return (await self._runs.row(run_id)).status

    async def run_snapshot(self, run_id: str) -> RunSnapshot:
        """Return what is known of a run, also of one that waits for its turn or has ended.

        Raises:
            Conflict: nobody ever started it.
        """
        return await self._runs.snapshot(run_id)

    async def run_result(self, run_id: str, timeout: float | None = None) -> RunResult:  # noqa: ASYNC109 - the run goes on when the wait ends
        """Return what came of a run, once it has ended.

        Raises:
            TimeoutError: it did not end in so many seconds. It goes on.
            Conflict: nobody ever started it.
        """
        return await self._runs.result(run_id, timeout)

    async def cancel_run(self, run_id: str, *, by: str | None = None, reason: str | None = None) -> None:
        """Ask a run to end. Asking twice, and asking one that has ended, changes nothing.

        Raises:
            Conflict: nobody ever started it.
        """
        row = await self._runs.row(run_id)
        body: dict[str, str | None] = {"runId": run_id, "by": by, "reason": reason}
        for name, value in body.items():
            if value is not None:
                check_given(value, str, what=name, words="a text")
        if row.status in TERMINAL:
            return
        given: JsonObject = {name: value for name, value in body.items() if value is not None}
        # Somebody else may have asked first, for another reason; the run ends all the same.
        with suppress(Conflict):
            await self._store().post(
                row.session_id, kind=CANCEL, key=item_key(CANCEL, run_id), body=self._masked(given)
            )
        await self._rouse(row.session_id)

    async def compact(self, session_id: str) -> None:
        """Ask for a shorter history: now, or before the next model call of a run.

        Raises:
            Conflict: there is no such session.
        """
        await self._runs.ask_compaction(session_id, key=self._ports.machine.new_id())
        await self._rouse(session_id)

    # people

    async def run_requests(self, run_id: str) -> tuple[InputRequest, ...]:
        """Return what a run is waiting to be told, its subagents included.

        Those with `is_answered` have an answer, which waits for a process that has the agent.

        Raises:
            Conflict: nobody ever started it.
        """
        row = await self._runs.row(run_id)
        return tuple((await self._runs.requests(row.session_id, run_id)).values())

    async def session_requests(self, session_id: str) -> tuple[InputRequest, ...]:
        """Return what a session is waiting to be told, its subagents included.

        Those with `is_answered` have an answer, which waits for a process that has the agent.

        Raises:
            Conflict: there is no such session.
        """
        await self._runs.known(session_id)
        return tuple((await self._runs.requests(session_id)).values())

    async def descendants(self, session_id: str) -> tuple[ChildSession, ...]:
        """Return the sessions of all subagents below a session, callers first.

        Raises:
            Conflict: there is no such session.
        """
        return await self._runs.descendants(session_id)

    async def answer_run(self, run_id: str, responses: Sequence[InputResponse]) -> None:
        """Answer requests of a run; return once the answers are durable.

        Raises:
            Conflict: it is answered already, nobody is being asked this any more, or not by this run.
            Denied: this responder may not answer.
            Rejected: an answer does not fit its request.
        """
        row = await self._runs.row(run_id)
        await self._answer(row.session_id, responses, run_id)

    async def answer_session(self, session_id: str, responses: Sequence[InputResponse]) -> None:
        """Answer requests of a session; return once the answers are durable.

        Raises:
            Conflict: it is answered already, nobody is being asked this any more, or there is no such
                session.
            Denied: this responder may not answer.
            Rejected: an answer does not fit its request.
        """
        await self._answer(session_id, responses)

    async def _answer(
        self, session_id: str, responses: Sequence[InputResponse], run_id: str | None = None
    ) -> None:
        given = check_items(responses, InputResponse, what="responses", words="InputResponses")
        await self._runs.known(session_id)
        now_ms = moment(self._ports.machine.clock).ms
        asking = await self._runs.sort(given, session_id, run_id=run_id)
        for one in asking:
            check_answers(one.responses, one.requests, session_id=one.session_id, now_ms=now_ms)
            await self._runs.check_unanswered(one)
        for one in asking:
            key = item_key(ANSWER, self._ports.machine.new_id())
            body = self._masked({**one.body, "givenMs": now_ms})
            await self._store().post(one.session_id, kind=ANSWER, key=key, body=body)
            await self._rouse(one.session_id)
