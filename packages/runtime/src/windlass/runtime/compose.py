"""AgentRuntime: `open`, `in_memory`, their options and adapters.

A program that declares agents imports this module; the engine, stores and models are imported when a runtime
is made. So a method imports what it needs from them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, Literal, Self, TypeVar, Unpack, cast, overload

from pydantic import JsonValue, ValidationError

from windlass.agent.agent import Agent, output_contract, output_type_of
from windlass.errors import AgentError, check_whole, kind_of
from windlass.limits import FAN_OUT_AT_ONCE, FAN_OUT_AT_ONCE_MAX
from windlass.refusals import (
    bad_request,
    check_given,
    check_id,
    check_items,
    check_options,
    check_part,
    invalid_package,
    misfit,
    unknown_agent,
)
from windlass.runtime.core import CoreRuntime
from windlass.tools.context import ToolFailed, state_value
from windlass.tools.deps import OutputT, deps_class
from windlass_protocol import JsonObject
from windlass_protocol.generated import runs

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from windlass.agent.agent import AnyAgent, Output
    from windlass.runtime.builder import AgentRuntimeBuilder
    from windlass.runtime.options import RunOptions, RuntimeOptions
    from windlass.runtime.registry import Registered, RuntimePorts
    from windlass.runtime.rooms import WholeStore
    from windlass.runtime.runs import RunHandle, TypedResult
    from windlass_harness.loop.events import StateChange
    from windlass_protocol import (
        InputResponse,
        OutputContract,
        RunRequest,
        RunResult,
        SourceRef,
        UserContent,
    )

R = TypeVar("R")
_TASK_PARTS: Final = 2
"""A task of `fan_out` is an agent and a message."""
RuntimeT = TypeVar("RuntimeT", bound=CoreRuntime)


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
Durability = Literal["power", "process"]


_PLAIN: Final = (
    "session_id",
    "turn_id",
    "mode",
    "capabilities",
    "context",
    "metadata",
    "source",
    "owner",
    "goal_id",
    "goal_description",
)
"""Options of a run that are copied into its request."""


def _builder(make: Callable[[RuntimePorts], R]) -> AgentRuntimeBuilder[R]:
    """Return a builder with the clock, ids and random numbers of the machine."""
    from windlass.adapters.loop_watch import RuntimeWatch  # noqa: PLC0415 - slow to import
    from windlass.adapters.system import SystemClock, chance, new_id  # noqa: PLC0415 - slow to import
    from windlass.ports.machine import Machine  # noqa: PLC0415 - slow to import
    from windlass.runtime.builder import AgentRuntimeBuilder  # noqa: PLC0415 - slow to import

    return AgentRuntimeBuilder(make, Machine(SystemClock(), new_id, chance, RuntimeWatch))


def _no_ports() -> RuntimePorts:
    def same(ports: RuntimePorts) -> RuntimePorts:
        return ports

    return _builder(same).build()


class AgentRuntime(CoreRuntime):
    """A durable runtime for agents.

    `open` and `in_memory` make one for use, and `builder` one of chosen ports. `AgentRuntime()` has no ports:
    it refuses every start, subscription and read with the name of the port that is missing.
    """

    def __init__(self, ports: RuntimePorts | None = None) -> None:
        super().__init__(_no_ports() if ports is None else ports)

    @classmethod
    def builder(cls) -> AgentRuntimeBuilder[Self]:
        """Return a builder, which assembles a runtime port by port."""
        return _builder(cls)

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
            is_attended: whether people answer requests; default: True.
            approval_expires_ms: how long an approval request stays open; default: without end.
            responders: names of the people who may answer; default: any responder.
            four_eyes: whether the people who started a run or sent it messages may not approve its calls;
                default: False.
            hooks: functions for hooks that packages name; agents bring their own.
            package_change: continue (the default), move or refuse runs of an agent that has changed.
            retry_for_ms: how long model calls are retried while the provider is away; default: 3,600,000.
            provider_limits: how many model calls are sent at once and each minute, by provider; on
                PostgreSQL by all processes of the database together.
            wakes: what has sessions driven, such as temporal://host:port/namespace; default: the processes
                that have the store open.
            is_driving: whether this process drives sessions; default: True.
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
        from windlass.runtime.opening import open_store  # noqa: PLC0415 - slow to import
        from windlass.runtime.options import RuntimeOptions  # noqa: PLC0415 - slow to import

        check_options(options, RuntimeOptions, what="open", beside=("agents", "durability"))
        store = await open_store(path, durability=durability)
        try:
            runtime = cls._build(store, agents, options)
            await runtime.resume()
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
        from windlass.adapters.journals.memory import MemoryStore  # noqa: PLC0415 - slow to import
        from windlass.runtime.options import RuntimeOptions  # noqa: PLC0415 - slow to import

        check_options(options, RuntimeOptions, what="in_memory")
        return cls._build(MemoryStore(), agents, options)

    @classmethod
    def _build(
        cls,
        store: WholeStore,
        agents: Iterable[AnyAgent],
        options: RuntimeOptions,
    ) -> Self:
        from windlass.adapters.system import SystemClock  # noqa: PLC0415 - slow to import
        from windlass.agent.policy import allow_start  # noqa: PLC0415 - slow to import
        from windlass.feed import Feed  # noqa: PLC0415 - slow to import
        from windlass.runtime import rooms  # noqa: PLC0415 - slow to import

        settings: RuntimeOptions = {"start_policy": allow_start, "is_attended": True, **options}
        if settings.get("provider_source") is None:
            settings["provider_source"] = rooms.RoomProviders()
        wakes = settings.get("wakes")
        if isinstance(wakes, str):
            settings["wakes"] = rooms.wakes(
                wakes, getattr(store, "public_id", None), tenant=settings.get("tenant")
            )
        builder = cls.builder().options(**settings)
        clock = options["machine"].clock if "machine" in options else SystemClock()
        builder.journal(store).event_bus(Feed(store, clock)).content(store)
        agent_list = check_items(agents, Agent, what="agents", words="agents")
        if settings.get("interpreter") is None and any(agent.writes_programs for agent in agent_list):
            builder.interpreter(rooms.interpreter())
        path = getattr(store, "path", None)
        root = None if path is None else path.with_name(f"{path.name}.sandboxes")
        # Without such an agent, sessions that have folders can be deleted.
        has_sandboxes = any(agent.has_sandbox for agent in agent_list) or (root is not None and root.is_dir())
        if settings.get("sandboxes") is None and has_sandboxes:
            builder.sandboxes(rooms.sandboxes(root))
        for agent in agent_list:
            builder.agent(agent)
        return builder.build()

    async def start(
        self,
        agent: Agent[D, OutputT] | str,
        message: UserContent,
        *,
        deps: D | None = None,
        **options: Unpack[RunOptions],
    ) -> RunHandle[OutputT]:
        """Start a run of an agent; return once it is durable.

        A start is idempotent: the same run id with the same message is the same run. `agent` is an agent of
        this runtime, or its name. All options are optional; None is the same as no value. If the agent has a
        type as its `output`, so has the `output` of the result.

        `deps` are the dependencies of the run, which its tools get as `ctx.deps`. They are never recorded:
        when the run continues in another process, a factory makes them, or the same start gives them again.

        Options:
            session_id: the session to continue; default: a new session.
            run_id: the id of the run, the same for every attempt to start it; default: a new id.
            turn_id: the id of the turn.
            mode: conversation (the default) or task.
            capabilities: capabilities of the channel of the message; default: all.
            budget: the limits of the run; default: the budget of the agent.
            output: the type of the result: a type, a JSON Schema or an OutputContract.
            context: texts that precede the message.
            metadata: JSON that `run.started` holds.
            source: where the message comes from.
            owner: the owner of the session; default: none.
            goal_id: the goal of the run; the decision ledger groups runs by it.
            goal_description: the goal in words; default: the message.

        Raises:
            Rejected: the agent is not one of this runtime, or an option cannot be used.
            Conflict: the run id was used with another request.
            Denied: the start policy does not allow it, or the session belongs to another owner.
        """
        request = await self._request(agent, message, options, what="start")
        run_id = request.run_id
        if deps is not None:
            self._check_deps(agent, deps, run_id)
        with self._ports.deps.keep(run_id, deps, output_type_of(options.get("output"))):
            handle = await self.start_run(request)
        kind = None if isinstance(agent, str) else agent.output_type
        if kind is None:
            return cast("RunHandle[OutputT]", handle)
        from windlass.runtime.runs import RunHandle  # noqa: PLC0415 - slow to import

        return RunHandle(self, run_id, options.get("output") or kind)

    def _check_deps(self, agent: AnyAgent | str, deps: object, run_id: str) -> None:
        registered_agent = self._registration(agent, run_id).agent
        kind = None if registered_agent is None else cast(object, registered_agent.deps)
        if kind is None:
            raise bad_request("deps: the agent has no dependencies; write Agent(…, deps=Type)", run_id)
        expected = deps_class(kind)
        if expected is not None and not isinstance(deps, expected):
            raise bad_request(f"deps must be a {expected.__name__}, found {kind_of(deps)}", run_id)

    async def fan_out(
        self,
        tasks: Mapping[str, tuple[AnyAgent | str, UserContent]],
        *,
        job_id: str,
        at_once: int = FAN_OUT_AT_ONCE,
        **options: Unpack[RunOptions],
    ) -> dict[str, RunResult]:
        """Run many tasks, each an agent and a message by name, and return their results by name.

        At most `at_once` of them run at the same time. The run and the session of a task have the id
        `job_id/name`, so the job is durable: the same call after a crash continues the runs that were
        started, starts the others, and repeats none. A result may be a failure; see its `status`. Cancelling
        the call leaves the started runs alone.

        It takes the options of `start`, for every task, without `run_id`, `session_id` and `turn_id`.

        Raises:
            Rejected: a task or an option cannot be used; nothing was started.
            Conflict: a task of this job had another agent or message before.
            Denied: the start policy does not allow a task.
        """
        import asyncio  # noqa: PLC0415 - slow to import

        for name in ("run_id", "session_id", "turn_id"):
            if options.get(name) is not None:
                raise bad_request(
                    f"fan_out: {name} cannot be set; it comes from job_id and the name of a task"
                )
        turns = asyncio.Semaphore(check_whole(at_once, "fan_out: at_once", most=FAN_OUT_AT_ONCE_MAX))
        check_part(
            tasks, Mapping, what="tasks", words="a dictionary of names, each with an agent and a message"
        )
        check_id(job_id, "job_id")
        for name, task in tasks.items():
            if not isinstance(cast(object, task), tuple) or len(task) != _TASK_PARTS:
                raise bad_request(
                    f"task {name} must be an agent and a message, (agent, message), found {kind_of(task)}"
                )
        ids = {name: check_id(f"{job_id}/{name}", "job_id and the name of a task") for name in tasks}
        requests = [
            await self._request(
                agent, message, {**options, "run_id": ids[name], "session_id": ids[name]}, what="fan_out"
            )
            for name, (agent, message) in tasks.items()
        ]

        async def run(request: RunRequest) -> RunResult:
            async with turns:
                with self._ports.deps.keep(request.run_id, output=output_type_of(options.get("output"))):
                    handle = await self.start_run(request)
                return await handle.wait()

        waiting = [asyncio.ensure_future(run(request)) for request in requests]
        try:
            return dict(zip(tasks, await asyncio.gather(*waiting), strict=True))
        finally:
            for future in waiting:
                future.cancel()

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

        `run_typed(agent, message, Trip)` takes the options of `start`; `run_typed(request, Trip)` takes a
        RunRequest and replaces its output contract. The output is a type or a JSON Schema.

        Raises:
            AgentError: the run was refused, or it ended without a value.
        """
        from windlass.runtime.runs import typed_result  # noqa: PLC0415 - slow to import

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
            request = await self._request(
                agent, message, {**options, "output": output_type}, what="run_typed"
            )
        with self._ports.deps.keep(request.run_id, output=output_type_of(output_type)):
            handle = await self.start_run(request)
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
        session has no current run, the message starts one. (`start` queues instead, and only `start` creates
        a session.) `context` are texts that precede the message. `source` names the sender: with `four_eyes`
        the sender may not approve later calls of the run. Without a `source`, no responder may.

        Raises:
            Rejected: the agent is not one of this runtime, or an answer does not fit its request.
            Conflict: the session is unknown, the message id was used with another message, or a request is
                answered already.
            Denied: the start policy does not allow it, the session belongs to another owner, or the
                responder may not answer.
        """
        from windlass_harness.loop.events import within_limit  # noqa: PLC0415 - slow to import

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
                self._ports.machine.new_id() if message_id is None else check_id(message_id, "message_id")
            )
            options["run_id"] = within_limit(f"steer/{check_id(session_id, 'session_id')}/{steer_id}")
        except AgentError as error:
            await self._audit(error, agent, options)
            raise
        request = await self._request(agent, message, options, what="steer")
        await self.steer_session(request, message_id=steer_id, responses=responses)
        return steer_id

    async def session_state(self, session_id: str) -> JsonObject:
        """Return a copy of the authored state of a session, see `ToolContext.state`.

        Raises:
            Conflict: the session is unknown.
        """
        return await self._runs.state(session_id)

    async def change_state(
        self, session_id: str, values: Mapping[str, JsonValue], *, remove: Iterable[str] = ()
    ) -> None:
        """Change the authored state of a session; return once the change is durable.

        The change is an item in the inbox of the session; calls that start after it see the new state. If the
        state has grown too large by then, the change is dropped.

        Raises:
            Rejected: a key or a value cannot be used, or the state would be too large.
            Conflict: the session is unknown.
        """
        check_given(values, Mapping, what="values", words="a mapping of keys to JSON")
        change = await self._change(values, tuple(check_items(remove, str, what="remove", words="keys")))
        await self._give_state(session_id, change)

    async def _change(self, values: Mapping[str, JsonValue], removed: tuple[str, ...]) -> StateChange:
        from windlass_harness.loop.events import StateChange  # noqa: PLC0415 - slow to import

        try:
            change = StateChange({key: state_value(key, value) for key, value in values.items()}, removed)
        except (TypeError, ToolFailed) as error:
            problem = str(error)
        else:
            return StateChange(await self._mask(change.values), removed)
        raise bad_request(problem)

    async def _request(self, agent: object, message: object, options: RunOptions, *, what: str) -> RunRequest:
        """Return the request of a run; a refusal is written to the audit of the store."""
        try:
            return self._make_request(agent, message, options, what=what)
        except AgentError as error:
            await self._audit(error, agent, options)
            raise

    async def _audit(self, error: AgentError, agent: object, options: RunOptions) -> None:
        """Write a refused start to the audit of the store, before there is a request."""
        from windlass.runtime.start import record_refusal  # noqa: PLC0415 - slow to import

        agent_id = agent.agent_id if isinstance(agent, Agent) else agent
        await record_refusal(self._ports, error, {**options, "agent_id": agent_id})

    def _make_request(self, agent: object, message: object, options: RunOptions, *, what: str) -> RunRequest:
        """Return the request of a run; invalid arguments are refused."""
        from windlass.agent.package import budget_limits  # noqa: PLC0415 - slow to import
        from windlass.runtime.options import RunOptions  # noqa: PLC0415 - slow to import

        check_options(options, RunOptions, what=what)
        given_id = options.get("run_id")
        run_id = self._ports.machine.new_id() if given_id is None else check_id(given_id, "run_id")
        registered = self._registration(agent, run_id)
        agent_id = registered.package.agent.agent_id
        budget, output = options.get("budget"), options.get("output")
        if not isinstance(message, str | list | tuple):
            raise bad_request(
                f"the message must be a string or a list of parts, found {kind_of(message)}", run_id
            )
        fields: dict[str, object] = {
            **{name: options.get(name) for name in _PLAIN},
            "run_id": run_id,
            "agent_id": agent_id,
            "input": message,
            "package_id": registered.package.package_id,
            "budget": budget_limits(budget),
            "output_contract": None if output is None else output_contract(output, agent_id),
        }
        try:
            return runs.RunRequest.model_validate(fields)
        except ValidationError as error:
            problem = misfit(error, "start", value=fields)
        raise bad_request(problem, run_id)

    def _registration(self, agent: object, run_id: str) -> Registered:
        """Return the registration of exactly this agent."""
        if not isinstance(agent, Agent | str):
            raise bad_request(f"start takes an Agent or the name of an agent, found {kind_of(agent)}", run_id)
        agent_id = agent if isinstance(agent, str) else agent.agent_id
        registered = self._ports.registry.agent(agent_id)
        if registered is None:
            hidden = self._ports.scribe.redactor.text(agent_id)
            raise unknown_agent(hidden, self._ports.registry.names, run_id=run_id)
        if isinstance(agent, Agent) and not registered.is_of(cast("AnyAgent", agent)):
            raise invalid_package(
                f"the runtime has another agent named {agent_id}; start the agent that it was given, "
                "or give this one another name",
                run_id,
            )
        return registered
