"""AgentRuntime: `open`, `in_memory`, their options and adapters.

A program that declares agents imports this module; the engine, stores and models are imported when a runtime
is made. So a method imports what it needs from them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar, Unpack, cast, overload

from pydantic import JsonValue

from windlass.agent.agent import Agent, output_contract, output_type_of
from windlass.errors import AgentError, check_whole, kind_of
from windlass.limits import FAN_OUT_AT_ONCE, FAN_OUT_AT_ONCE_MAX
from windlass.refusals import (
    bad_request,
    check_id,
    check_part,
    check_request,
)
from windlass.tools.deps import OutputT
from windlass_harness.loop.events import within_limit
from windlass_protocol.generated import runs

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from windlass.agent.agent import AnyAgent, Output
    from windlass.catalog.runtime_sessions import RuntimeSessions
    from windlass.ports.feed import CompiledEventFilter, EventBus, EventStream
    from windlass.ports.host import OutputSink
    from windlass.ports.model import LLMProvider
    from windlass.runtime.generated.builder import AgentRuntimeBuilder
    from windlass.runtime.handle import RunHandle, TypedResult
    from windlass.runtime.options import RunOptions, RuntimeOptions
    from windlass.runtime.registry import RuntimePorts
    from windlass.runtime.rooms import Durability
    from windlass.runtime.starts.packages import EffectivePackage
    from windlass.schedules import Schedules
    from windlass.workflow import Workflow
    from windlass_protocol import (
        Cursor,
        InputResponse,
        OutputContract,
        RunRequest,
        RunResult,
        RunSnapshot,
        SourceRef,
        UserContent,
    )

A = TypeVar("A")
R = TypeVar("R")
_TASK_PARTS: Final = 2
"""A task of `fan_out` is an agent and a message."""
RuntimeT = TypeVar("RuntimeT", bound="AgentRuntime")


class Opening(Coroutine[object, object, RuntimeT], Generic[RuntimeT]):
    """The coroutine of an `open`, which can be entered without being awaited first."""

    def __init__(self, work: Coroutine[object, object, RuntimeT]) -> None:
        self._work = work
        self._runtime: RuntimeT | None = None

    def __await__(self) -> Generator[object, object, RuntimeT]:
        return self._work.__await__()

    def send(self, value: object, /) -> object:
        """Resume the coroutine."""
        return self._work.send(value)

    def throw(self, *error: object) -> object:
        """Raise an exception inside the coroutine."""
        return cast(Callable[..., object], self._work.throw)(*error)

    def close(self) -> None:
        """Close the coroutine."""
        self._work.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            problem = "the runtime is not open yet: write `async with AgentRuntime.open(…) as runtime:`"
            raise AttributeError(f"{problem} and use runtime.{name}")

    async def __aenter__(self) -> RuntimeT:
        self._runtime = await self._work
        return await self._runtime.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runtime is not None, "only what was entered is left"
        await self._runtime.__aexit__(kind, error, trace)


T = TypeVar("T")
D = TypeVar("D")


async def run_all(
    work: Iterable[Callable[[], Awaitable[T]]], *, at_once: int | None, is_batched: bool
) -> list[T]:
    """Return the results of all runs of a job, `at_once` of them at the same time.

    Without `at_once` there are more of those that wait for a batch: they cost nothing, and the more there are
    the fewer batches they need. The first failure is raised; nothing of the job is under way then.
    """
    turns = asyncio.Semaphore(at_once or (FAN_OUT_AT_ONCE_MAX if is_batched else FAN_OUT_AT_ONCE))

    async def run(begin: Callable[[], Awaitable[T]]) -> T:
        async with turns:
            return await begin()

    waiting = [asyncio.ensure_future(run(begin)) for begin in work]
    try:
        return await asyncio.gather(*waiting)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


class AgentRuntime:
    """A durable runtime for agents.

    `open` and `in_memory` make one for use, and `builder` one of chosen ports. `AgentRuntime()` has no ports:
    it refuses every start, subscription and read with the name of the port that is missing.
    """

    def __init__(self, ports: RuntimePorts | None = None) -> None:
        from windlass.runtime.defaults import make_core  # noqa: PLC0415 - slow to import

        self.core: Final = make_core(ports)
        """The inside of the runtime, for the packages of Windlass."""

    async def __aenter__(self) -> Self:
        await self.core.resume()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @classmethod
    def builder(cls) -> AgentRuntimeBuilder[Self]:
        """Return a builder, which assembles a runtime port by port."""
        from windlass.runtime.defaults import new_builder  # noqa: PLC0415 - slow to import

        return new_builder(cls)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        agents: Iterable[AnyAgent],
        durability: Durability = "power",
        **options: Unpack[RuntimeOptions],
    ) -> Opening[Self]:
        """Open a store and continue every unfinished run in it.

        `path` is a file, or the address of a PostgreSQL database, such as `postgresql://user@host/database`.

        Use it as `async with AgentRuntime.open(…) as runtime:`, or `await` it and call `aclose()`.

        With durability `power`, an acknowledged write survives a crash of the machine; with `process`, a
        crash of the process. PostgreSQL decides that by its own settings. All other options are optional; see
        `RuntimeOptions`.

        Options:
            providers: LLMProviders by route, for agents that name their model as a string.
            provider_source: makes the providers of all other routes; default: from environment variables.
            interpreter: runs the programs of agents with code mode or workflows; default: Monty.
            sandboxes: adapters of sandboxes by name; default: none and bubblewrap, beside the store.
            start_policy: decides whether a run may start; default: every run may.
            tool_policy: decides about tool calls, instead of the policies of the agents.
            policy_timeout_ms: how long either policy may take; default: 10,000.
            output_sinks: where the output of agents that name them is delivered.
            approval_dispatcher: brings requests to people.
            approval_timeout_ms: how long the dispatcher may take; default: 600,000.
            is_attended: whether people answer requests; default: True.
            approval_expires_ms: how long an approval request stays open; default: without end.
            responders: names of the people who may answer; default: any responder.
            four_eyes: whether the people who started a run or sent it messages may not approve its calls;
                default: False.
            hooks: functions for hooks that packages name; agents bring their own.
            package_change: continue (the default), move or refuse runs of an agent that has changed, or let
                them wait for a process that has the agent as it was.
            retry_for_ms: how long model calls are retried while the provider is away; default: 3,600,000.
            provider_limits: how many model calls are sent at once and each minute, by provider; on
                PostgreSQL by all processes of the database together.
            prices: prices by the names of models, with wildcards; default: those of the price table.
            limits: limits for people and teams, see `SpendLimit` of `windlass.parts`; default: those of the
                store.
            wakes: what has sessions driven, such as temporal://host:port/namespace; default: the processes
                that have the store open.
            is_driving: whether this process drives sessions; default: True.
            sessions_max: how many sessions this process drives at once, further starts wait; a number, or
                `SessionSlots` that runtimes share; default: 10,000.
            drain_s: how long tool calls under way may take to end when the runtime is closed; default: 2.
            retention_days: after how many days ended sessions are deleted; default: never.
            rules: the limits of the loop.
            deps: factories of dependencies by agent: {agent: factory}, each a function of a RunInfo.
            tenant: the tenant whose store this is; factories of dependencies see it.
            secrets: texts that must never reach a record, event, trace or error.
            machine: the clock, ids and randomness.

        Raises:
            Rejected: the file is not a store, or a newer version wrote it; an option cannot be used.
            Corrupt: the store is damaged.
        """
        return Opening(cls._open_runtime(path, agents, durability=durability, options=options))

    @classmethod
    async def _open_runtime(
        cls, path: str | Path, agents: Iterable[AnyAgent], *, durability: Durability, options: RuntimeOptions
    ) -> Self:
        from windlass.runtime.defaults import open_stored, part_options  # noqa: PLC0415 - slow to import

        store = await open_stored(path, durability=durability, options=options)
        try:
            runtime = cls.builder().options(**part_options(store, agents, options)).build()
            await runtime.core.resume()
        except BaseException:
            await store.aclose()
            raise
        return runtime

    @classmethod
    def in_memory(cls, agents: Iterable[AnyAgent], **options: Unpack[RuntimeOptions]) -> Self:
        """Make a runtime without a file; its data is lost when the process ends.

        It takes the options of `open`.

        Raises:
            Rejected: an agent or an option cannot be used.
        """
        from windlass.runtime.defaults import memory_options  # noqa: PLC0415 - slow to import

        return cls.builder().options(**memory_options(agents, options)).build()

    @overload
    async def start_run(self, agent: RunRequest) -> RunHandle: ...
    @overload
    async def start_run(
        self,
        agent: Workflow[None, D, OutputT],
        message: None = None,
        *,
        deps: D | None = None,
        **options: Unpack[RunOptions],
    ) -> RunHandle[OutputT]: ...
    @overload
    async def start_run(
        self,
        agent: Workflow[A, D, OutputT],
        message: A,
        *,
        deps: D | None = None,
        **options: Unpack[RunOptions],
    ) -> RunHandle[OutputT]: ...
    @overload
    async def start_run(
        self,
        agent: Agent[D, OutputT] | str,
        message: UserContent,
        *,
        deps: D | None = None,
        **options: Unpack[RunOptions],
    ) -> RunHandle[OutputT]: ...
    async def start_run(
        self,
        agent: RunRequest | Agent[D, OutputT] | str,
        message: UserContent | object | None = None,
        *,
        deps: D | None = None,
        **options: Unpack[RunOptions],
    ) -> RunHandle | RunHandle[OutputT]:
        """Start a run of an agent or a workflow; return once it is durable.

        A start is idempotent: the same run id with the same message is the same run. `agent` is an agent of
        this runtime, or its name; the message to a workflow is its argument. All options are optional; None
        is the same as no value. If the agent has a type as its `output`, so has the `output` of the result.

        `deps` are the dependencies of the run, which its tools get as `ctx.deps`. They are never recorded:
        when the run continues in another process, a factory makes them, or the same start gives them again.

        `start_run(request)` takes a whole RunRequest instead, as from the wire.

        Options:
            session_id: the session to continue; default: a new session.
            run_id: the id of the run, the same for every attempt to start it; default: a new id.
            turn_id: the id of the turn.
            mode: conversation (the default) or task.
            capabilities: capabilities of the channel of the message; default: all.
            budget: the limits of the run; default: the budget of the agent.
            batch: "within 24h" to answer model calls in batches, at a lower price, "off" not to; default: as
                of the agent.
            output: the type of the result: a type, a JSON Schema or an OutputContract.
            context: texts that precede the message.
            metadata: JSON that `run.started` holds.
            source: where the message comes from.
            owner: the owner of the session; default: none.
            goal_id: the goal of the run; the decision ledger groups runs by it.
            goal_description: the goal in words; default: the message.

        Raises:
            Rejected: the agent is not one of this runtime, an option cannot be used, or a port is missing.
            Unavailable: no provider serves the model, or the store cannot be reached.
            Conflict: the run id was used with another request, or the session was deleted.
            Denied: the start policy does not allow it, or the session belongs to another owner.
        """
        if message is None and deps is None and not options and not isinstance(agent, Agent | str):
            return await self.core.starts.start(agent)
        if isinstance(agent, runs.RunRequest):
            raise bad_request("start_run takes (agent, message) with options, or a RunRequest alone")
        request = await self.core.starts.request(agent, message, options, what="start_run")
        run_id = request.run_id
        if deps is not None:
            self.core.starts.check_given_deps(agent, deps, run_id)
        with self.core.ports.deps.keep(run_id, deps, output_type_of(options.get("output"))):
            await self.core.starts.start(request)
        kind, output = None if isinstance(agent, str) else agent.output_type, options.get("output")
        from windlass.runtime.handle import RunHandle  # noqa: PLC0415 - slow to import

        return RunHandle(self.core, run_id, kind and (output or kind), start_output=output)

    async def run_text(self, request: RunRequest) -> RunResult:
        """Start a run and return its result; a failed run has a result too."""
        return await (await self.start_run(request)).wait()

    async def resolve_effective_package(self, request: RunRequest) -> EffectivePackage:
        """Return the package that a request would run under; nothing is written.

        Raises:
            Rejected: the package is unknown, it cannot be run, or it belongs to another agent.
        """
        from windlass.runtime.starts.packages import effective_package  # noqa: PLC0415 - slow to import

        check_request(request)
        return await effective_package(self.core.ports, request)

    async def fan_out(
        self,
        tasks: Mapping[str, tuple[AnyAgent | str, UserContent]],
        *,
        job_id: str,
        at_once: int | None = None,
        **options: Unpack[RunOptions],
    ) -> dict[str, RunResult]:
        """Run many tasks, each an agent and a message by name, and return their results by name.

        At most `at_once` of them run at the same time: 8 when left out, or 1,000 if model calls of an agent
        are answered in batches. The run and the session of a task have the id
        `job_id/name`, so the job is durable: the same call after a crash continues the runs that were
        started, starts the others, and repeats none. A result may be a failure; see its `status`. Cancelling
        the call leaves the started runs alone.

        It takes the options of `start_run`, for every task, without `run_id`, `session_id` and `turn_id`.

        Raises:
            Rejected: a task or an option cannot be used; nothing was started.
            Conflict: a task of this job had another agent or message before.
            Denied: the start policy does not allow a task.
        """
        for name in ("run_id", "session_id", "turn_id"):
            if options.get(name) is not None:
                raise bad_request(
                    f"fan_out: {name} cannot be set; it comes from job_id and the name of a task"
                )
        if at_once is not None:
            check_whole(at_once, "fan_out: at_once", most=FAN_OUT_AT_ONCE_MAX)
        check_part(
            tasks, Mapping, what="tasks", words="a dictionary of names, each with an agent and a message"
        )
        check_id(job_id, "job_id")
        for name, task in tasks.items():
            if not isinstance(cast(object, task), tuple) or len(task) != _TASK_PARTS:
                raise bad_request(
                    f"task {name} must be an agent and a message, (agent, message), found {kind_of(task)}"
                )
        choice = options.get("batch")
        is_batched = choice != "off" and (
            choice is not None or any(self._is_batched(agent) for agent, _ in tasks.values())
        )
        ids = {name: check_id(f"{job_id}/{name}", "job_id and the name of a task") for name in tasks}
        requests = [
            await self.core.starts.request(
                agent, message, {**options, "run_id": ids[name], "session_id": ids[name]}, what="fan_out"
            )
            for name, (agent, message) in tasks.items()
        ]

        async def run(request: RunRequest) -> RunResult:
            with self.core.ports.deps.keep(request.run_id, output=output_type_of(options.get("output"))):
                handle = await self.core.starts.start(request)
            return await handle.wait()

        work = [partial(run, request) for request in requests]
        return dict(zip(tasks, await run_all(work, at_once=at_once, is_batched=is_batched), strict=True))

    def _is_batched(self, agent: AnyAgent | str | None) -> bool:
        """Whether model calls of an agent are answered in batches."""
        if isinstance(agent, str):
            registered = self.core.ports.registry.agent(agent)
            agent = None if registered is None else registered.agent
        return isinstance(agent, Agent) and agent.batch is not None

    @overload
    async def run_typed(self, agent: RunRequest, message: type[T]) -> TypedResult[T]: ...
    @overload
    async def run_typed(
        self, agent: RunRequest, message: Mapping[str, object] | OutputContract
    ) -> TypedResult[JsonValue]: ...
    @overload
    async def run_typed(
        self, agent: AnyAgent | str, message: UserContent, output: type[T], /, **options: Unpack[RunOptions]
    ) -> TypedResult[T]: ...
    @overload
    async def run_typed(
        self,
        agent: AnyAgent | str,
        message: UserContent,
        output: Mapping[str, object] | OutputContract,
        /,
        **options: Unpack[RunOptions],
    ) -> TypedResult[JsonValue]: ...
    async def run_typed(
        self,
        agent: RunRequest | AnyAgent | str,
        message: UserContent | Output,
        *output: Output,
        **options: Unpack[RunOptions],
    ) -> TypedResult[object]:
        """Run an agent that must return a value, and return the value.

        `run_typed(agent, message, Trip)` takes the options of `start_run`; `run_typed(request, Trip)` takes a
        RunRequest and replaces its output contract. The output is a type or a JSON Schema.

        Raises:
            AgentError: the run was refused, or it ended without a value.
        """
        from windlass.runtime.handle import typed_result  # noqa: PLC0415 - slow to import

        if isinstance(agent, runs.RunRequest) and not output and not options:
            contract = output_contract(message, agent.agent_id)
            request, output_type = (
                agent.model_copy(update={"output_contract": contract}),
                cast("Output", message),
            )
        elif isinstance(agent, runs.RunRequest) or len(output) != 1 or cast(object, output[0]) is None:
            raise bad_request("run_typed takes (agent, message, output) or (request, output)")
        else:
            output_type = output[0]
            request = await self.core.starts.request(
                agent, message, {**options, "output": output_type}, what="run_typed"
            )
        with self.core.ports.deps.keep(request.run_id, output=output_type_of(output_type)):
            handle = await self.core.starts.start(request)
        return typed_result(await handle.wait(), output_type)

    async def steer(
        self,
        agent: AnyAgent | str,
        message: UserContent,
        *,
        session_id: str,
        message_id: str | None = None,
        context: Sequence[str] | None = None,
        responses: Sequence[InputResponse] = (),
        source: SourceRef | None = None,
        owner: str | None = None,
    ) -> str:
        """Send a message to the current run of a session; return the id of the message.

        The model gets it at its next step, after the running tools have ended. Open requests are withdrawn,
        not answered, except those that `responses` answer. Such a call takes no `message_id`, because it
        cannot be repeated: if it raises Unavailable or Ambiguous, the answers may have taken effect. If the
        session has no current run, the message starts one. (`start_run` queues instead, and only `start_run`
        creates a session.) `context` are texts that precede the message. `source` names the sender: with
        `four_eyes` the sender may not approve later calls of the run. Without a `source`, no responder may.

        Raises:
            Rejected: the agent is not one of this runtime, or an answer does not fit its request.
            Conflict: the session is unknown, the message id was used with another message, or a request is
                answered already.
            Denied: the start policy does not allow it, the session belongs to another owner, or the
                responder may not answer.
        """
        options: RunOptions = {
            "session_id": session_id,
            "context": context,
            "source": source,
            "owner": owner,
        }
        try:
            if responses and message_id is not None:
                raise bad_request("message_id: not with responses; a message with answers cannot be repeated")
            steer_id = (
                self.core.ports.machine.new_id() if message_id is None else check_id(message_id, "message_id")
            )
            options["run_id"] = within_limit(f"steer/{check_id(session_id, 'session_id')}/{steer_id}")
        except AgentError as error:
            await self.core.starts.audit(error, agent, options)
            raise
        request = await self.core.starts.request(agent, message, options, what="steer")
        await self.core.starts.steer(request, message_id=steer_id, responses=responses)
        return steer_id

    # runs

    def handle(self, run_id: str) -> RunHandle:
        """Return the handle of any run of the store, running or ended."""
        return self.core.handle(run_id)

    async def run_snapshot(self, run_id: str) -> RunSnapshot:
        """Return the snapshot of a run, also of a queued or ended one.

        Raises:
            Conflict: the run is unknown.
        """
        return await self.core.runs.snapshot(run_id)

    async def cancel_run(self, run_id: str, *, by: str | None = None, reason: str | None = None) -> None:
        """Cancel a run. A second cancel, and a cancel of an ended run, change nothing.

        From then on `run_snapshot` and the status show `cancelling`, its requests are closed, and answers
        to them are refused, even if no open process has its agent.

        Raises:
            Conflict: the run is unknown.
        """
        await self.core.cancel(run_id, by=by, reason=reason)

    @property
    def registered_run_count(self) -> int:
        """Number of runs started through this runtime."""
        return self.core.starts.count

    # sessions and schedules

    @property
    def sessions(self) -> RuntimeSessions:
        """The sessions: lists, reads, watches, answers, changes, forks, exports and deletes them.

        Raises:
            Rejected: the runtime has no journal, event bus or content store.
        """
        return self.core.sessions

    @property
    def schedules(self) -> Schedules:
        """The schedules of the store.

        Raises:
            Rejected: the runtime has no journal.
        """
        return self.core.schedules

    # subscriptions

    def events(self) -> EventBus:
        """Return the event bus.

        Raises:
            Rejected: the runtime has none.
        """
        return self.core.bus

    def subscribe_all(self, cursor: Cursor | str | None = None) -> EventStream:
        """Subscribe to all events, after a cursor: that of a stream, or its text, see `encode_cursor`."""
        return self.core.bus.subscribe_all(_cursor(cursor))

    def subscribe_run(
        self, run_id: str, cursor: Cursor | str | None = None, *, until_terminal: bool = False
    ) -> EventStream:
        """Subscribe to the events of a run."""
        return self.core.bus.subscribe_run(run_id, _cursor(cursor), until_terminal=until_terminal)

    def subscribe_agent(self, agent_id: str, cursor: Cursor | str | None = None) -> EventStream:
        """Subscribe to the events of all runs of an agent."""
        return self.core.bus.subscribe_agent(agent_id, _cursor(cursor))

    def subscribe_events(
        self, event_filter: CompiledEventFilter, cursor: Cursor | str | None = None
    ) -> EventStream:
        """Subscribe to the events that match a compiled filter."""
        return self.core.bus.subscribe_filtered(event_filter, _cursor(cursor))

    # ports

    @property
    def provider_registry(self) -> Mapping[str, LLMProvider]:
        """The models by route, without the models that agents bring."""
        return self.core.ports.providers

    @property
    def output_sinks(self) -> Mapping[str, OutputSink]:
        """The output sinks by their ids."""
        return self.core.ports.sinks

    # the end

    async def drain(self) -> None:
        """Drive no more runs, and let tool calls under way end, for `drain_s` at most; then `aclose` it.

        Their results are recorded, and their sessions are released: other processes continue the runs, or
        the next one that opens the store. Model calls are left to them at once. Until it is closed, the
        runtime reads, starts and answers as one that does not drive.
        """
        await self.core.drain()

    async def aclose(self) -> None:
        """Close the runtime; tool calls under way may end first, see `drain`.

        Unfinished runs continue when a runtime is opened on the same store.
        """
        await self.core.aclose()


def _cursor(cursor: Cursor | str | None) -> Cursor | None:
    from windlass.runtime.handle import cursor_of  # noqa: PLC0415 - slow to import

    return cursor_of(cursor)
