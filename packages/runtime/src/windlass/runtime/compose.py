"""AgentRuntime: `open`, `in_memory`, their options and adapters."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Literal, Self, TypeVar, Unpack, cast, overload

from pydantic import JsonValue, ValidationError

from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.journals.sqlite.recorded import take_in_left
from windlass.adapters.journals.sqlite.store import SqliteStore
from windlass.adapters.models.routes import providers_from_environment
from windlass.adapters.system import SystemClock, chance, new_id
from windlass.agent import Agent, Output, output_contract
from windlass.errors import kind_of
from windlass.feed import Feed
from windlass.package import budget_limits
from windlass.policy import allow_start
from windlass.refusals import (
    bad_request,
    check_given,
    check_id,
    check_items,
    check_options,
    invalid_package,
    misfit,
    unknown_agent,
)
from windlass.runtime.builder import AgentRuntimeBuilder
from windlass.runtime.core import CoreRuntime
from windlass.runtime.options import RunOptions, RuntimeOptions
from windlass.runtime.registry import Machine, Registered
from windlass.runtime.runs import RunHandle, TypedResult, typed_result
from windlass.tools.context import ToolFailed, state_value
from windlass_harness.loop.events import StateChange, within_limit
from windlass_protocol import (
    JsonObject,
    OutputContract,
    RunRequest,
    SourceRef,
    UserContent,
)

if TYPE_CHECKING:
    from windlass.steps.contract import StepFn, ToolLoopHarnessConfig


RuntimeT = TypeVar("RuntimeT", bound=CoreRuntime)


class Opening(Coroutine[object, object, RuntimeT], Generic[RuntimeT]):
    """The coroutine of an `open`, which can be entered without being awaited first."""

    def __init__(self, work: Coroutine[object, object, RuntimeT]) -> None:
        self._work = work
        self._runtime: RuntimeT | None = None

    def __await__(self) -> Generator[object, object, RuntimeT]:
        return self._work.__await__()

    def send(self, value: object, /) -> object:
        """Go on, as a coroutine does."""
        return self._work.send(value)

    def throw(self, *error: object) -> object:
        """Raise an exception where the work is, as a coroutine does."""
        return cast(Callable[..., object], self._work.throw)(*error)

    def close(self) -> None:
        """Give it up, as a coroutine does."""
        self._work.close()

    async def __aenter__(self) -> RuntimeT:
        self._runtime = await self._work
        return await self._runtime.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runtime is not None, "only what was entered is left"
        await self._runtime.__aexit__(kind, error, trace)


T = TypeVar("T")
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
"""Options of a run that its request takes as they are."""


class AgentRuntime(CoreRuntime):
    """A durable runtime for agents."""

    @classmethod
    def builder(cls) -> AgentRuntimeBuilder[Self]:
        """Return a builder, to put a runtime together port by port."""
        return AgentRuntimeBuilder(cls, Machine(SystemClock(), new_id, chance))

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        agents: Iterable[Agent],
        durability: Durability = "power",
        **options: Unpack[RuntimeOptions],
    ) -> Opening[Self]:
        """Open a store and go on with every run in it that was left unfinished.

        `await` it, or enter it: `async with AgentRuntime.open(…) as runtime`.

        With durability `power`, what was acknowledged survives a crash of the machine; with `process`, one of
        the process. Everything else may be left out; RuntimeOptions says more.

        Options:
            providers: LLMProviders by their routes, for agents whose model is a text.
            provider_source: makes providers of all other routes; by the environment when left out.
            policy: decides whether a run may start; every run may when left out.
            tool_policy: decides about tool calls, instead of the policies of the agents.
            policy_timeout_ms: how long either of them may take; 10,000 when left out.
            output_sinks: where the output of agents that name them is delivered.
            approval_dispatcher: takes requests to people.
            is_attended: whether somebody answers requests; True when left out.
            approval_expires_ms: how long a request for consent stays open; for ever when left out.
            responders: who may answer; anybody when left out.
            four_eyes: whether who asked for a run, or spoke to it, may not consent to what it does; False
                when left out.
            hooks: functions for hooks that packages name; agents bring their own.
            package_change: continue (when left out), move or refuse runs whose agent has changed.
            rules: the limits of the loop.
            secrets: texts that must never reach a record, event, trace or error.
            machine: the clock, ids and chance.

        Raises:
            Rejected: the file is not a store, or a newer version wrote it; an option cannot be used.
            Corrupt: the file is damaged.
        """
        return Opening(cls._opened(path, agents, durability=durability, options=options))

    @classmethod
    async def _opened(
        cls, path: str | Path, agents: Iterable[Agent], *, durability: Durability, options: RuntimeOptions
    ) -> Self:
        check_options(options, RuntimeOptions, what="open", beside=("agents", "durability"))
        store = await SqliteStore.open(path, durability=durability)
        try:
            await asyncio.to_thread(take_in_left, store.path, durability=durability)
            runtime = cls._made(store, agents, options)
            await runtime.resume()
        except BaseException:
            await store.aclose()
            raise
        return runtime

    @classmethod
    def in_memory(cls, agents: Iterable[Agent], **options: Unpack[RuntimeOptions]) -> Self:
        """Make a runtime that forgets everything when the process ends.

        It takes the options of `open`.

        Raises:
            Rejected: an agent or an option cannot be used.
        """
        check_options(options, RuntimeOptions, what="in_memory")
        return cls._made(MemoryStore(), agents, options)

    @classmethod
    def _made(
        cls, store: MemoryStore | SqliteStore, agents: Iterable[Agent], options: RuntimeOptions
    ) -> Self:
        given: RuntimeOptions = {"policy": allow_start, "is_attended": True, **options}
        if given.get("provider_source") is None:
            given["provider_source"] = providers_from_environment()
        builder = cls.builder().options(**given)
        clock = options["machine"].clock if "machine" in options else SystemClock()
        builder.journal(store).event_bus(Feed(store, clock)).content(store)
        for agent in check_items(agents, Agent, what="agents", words="agents"):
            builder.agent(agent)
        return builder.build()

    async def start(
        self, agent: Agent | str, message: UserContent, **options: Unpack[RunOptions]
    ) -> RunHandle:
        """Start a run of an agent; return once it is durable.

        The same run id with the same message is the same run, however often it is started. `agent` is one
        that the runtime was given, or its name. Everything else may be left out; None is as good as left out.

        Options:
            session_id: the session to go on with; a new one when left out.
            run_id: a name for the run, the same for every attempt to start it; a new one when left out.
            turn_id: a name for the turn.
            mode: conversation (when left out) or task.
            capabilities: what the channel of the message can do; everything when left out.
            budget: the most that the run may use; that of the agent when left out.
            output: what it must return: a type, a JSON Schema or a contract.
            context: texts that are put before the message.
            metadata: JSON to find again in `run.started`.
            source: where the message comes from.
            owner: whom the session belongs to; nobody when left out.
            goal_id: what it is for, to find the runs of one goal together.
            goal_description: the same in words; the message when left out.

        Raises:
            Rejected: the agent is not one of this runtime, or an option cannot be used.
            Conflict: the run id was used for something else.
            Denied: the start policy does not allow it, or the session belongs to another owner.
        """
        check_options(options, RunOptions, what="start")
        return await self.start_run(self._request(agent, message, options))

    @overload
    async def run_typed(self, agent: RunRequest, message: type[T]) -> TypedResult[T]: ...
    @overload
    async def run_typed(
        self, agent: RunRequest, message: Mapping[str, object] | OutputContract
    ) -> TypedResult[JsonValue]: ...
    @overload
    async def run_typed(
        self, agent: Agent | str, message: UserContent, output: type[T], /, **options: Unpack[RunOptions]
    ) -> TypedResult[T]: ...
    @overload
    async def run_typed(
        self,
        agent: Agent | str,
        message: UserContent,
        output: Mapping[str, object] | OutputContract,
        /,
        **options: Unpack[RunOptions],
    ) -> TypedResult[JsonValue]: ...
    async def run_typed(
        self,
        agent: RunRequest | Agent | str,
        message: UserContent | Output,
        *output: Output,
        **options: Unpack[RunOptions],
    ) -> TypedResult[object]:
        """Run an agent that must return a value, and return the value.

        `run_typed(agent, message, Trip)` takes the options of `start`; `run_typed(request, Trip)` takes a
        RunRequest, whose contract is replaced if it has one. What is asked for is a type or a JSON Schema.

        Raises:
            AgentError: the run was refused, or it ended without a value.
        """
        if isinstance(agent, RunRequest) and not output and not options:
            contract = output_contract(message, agent.agent_id)
            request, wanted = agent.model_copy(update={"output_contract": contract}), cast(Output, message)
        elif isinstance(agent, RunRequest) or len(output) != 1 or cast(object, output[0]) is None:
            raise bad_request("run_typed takes (agent, message, output) or (request, output)")
        else:
            check_options(options, RunOptions, what="run_typed")
            wanted = output[0]
            request = self._request(agent, cast(UserContent, message), {**options, "output": wanted})
        return typed_result(await self.run_text(request), wanted)

    async def steer(
        self,
        agent: Agent | str,
        message: UserContent,
        *,
        session_id: str,
        message_id: str | None = None,
        source: SourceRef | None = None,
        owner: str | None = None,
    ) -> str:
        """Say something to the run under way in a session; return the id of the message.

        The model hears it at its next step, after the tools that run have ended. What people are being asked
        is passed over, never answered. If no run is under way the message begins one; `start` waits instead,
        and only `start` makes a session.
        `source` says who speaks: with `four_eyes` they may not consent to what the run does from then on, and
        nobody may if it is left out.

        Raises:
            Rejected: the agent is not one of this runtime.
            Conflict: there is no such session, or the message id was used for something else.
            Denied: the start policy does not allow it, or the session belongs to another owner.
        """
        known = self._ports.machine.new_id() if message_id is None else check_id(message_id, "message_id")
        run_id = within_limit(f"steer/{check_id(session_id, 'session_id')}/{known}")
        options: RunOptions = {"session_id": session_id, "run_id": run_id, "source": source, "owner": owner}
        request = self._request(agent, message, options)
        await self.steer_session(request, message_id=known)
        return known

    async def session_state(self, session_id: str) -> JsonObject:
        """Return what tools keep in a session, see `ToolContext.state`; a copy.

        Raises:
            Conflict: there is no such session.
        """
        return await self._runs.state(session_id)

    async def change_state(
        self, session_id: str, values: Mapping[str, JsonValue], *, remove: Iterable[str] = ()
    ) -> None:
        """Change what tools keep in a session; return once that is durable.

        It takes its turn in the inbox of the session: calls that begin after that see it. What does not fit
        any more when its turn comes, because tools have kept more meanwhile, is left out.

        Raises:
            Rejected: a key or a value cannot be used, or the state would be too large.
            Conflict: there is no such session.
        """
        check_given(values, Mapping, what="values", words="a mapping of keys to JSON")
        change = self._change(values, tuple(check_items(remove, str, what="remove", words="keys")))
        await self._runs.change_state(session_id, change, key=self._ports.machine.new_id())
        await self._rouse(session_id)

    def _change(self, values: Mapping[str, JsonValue], removed: tuple[str, ...]) -> StateChange:
        try:
            change = StateChange({key: state_value(key, one) for key, one in values.items()}, removed)
        except (TypeError, ToolFailed) as error:
            problem = str(error)
        else:
            data = self._masked(change.data)
            return StateChange(cast(JsonObject, data.get("set", {})), removed)
        raise bad_request(problem)

    def _request(self, agent: object, message: object, options: RunOptions) -> RunRequest:
        """Return what a run of an agent is asked for with; a slip is refused."""
        given = options.get("run_id")
        run_id = self._ports.machine.new_id() if given is None else check_id(given, "run_id")
        registered = self._registered(agent, run_id)
        agent_id = registered.package.agent.agent_id
        budget, output = options.get("budget"), options.get("output")
        if not isinstance(message, str | list | tuple):
            raise bad_request(f"the message is a text or a list of parts, found {kind_of(message)}", run_id)
        asked: dict[str, object] = {
            **{name: options.get(name) for name in _PLAIN},
            "run_id": run_id,
            "agent_id": agent_id,
            "input": message,
            "package_id": registered.package.package_id,
            "budget": budget_limits(budget),
            "output_contract": None if output is None else output_contract(output, agent_id),
        }
        try:
            return RunRequest.model_validate(asked)
        except ValidationError as error:
            problem = misfit(error, "start", value=asked)
        raise bad_request(problem, run_id)

    def _registered(self, agent: object, run_id: str) -> Registered:
        """Return what the runtime knows of an agent: of exactly this one."""
        if not isinstance(agent, Agent | str):
            raise bad_request(f"start takes an Agent or the name of one, found {kind_of(agent)}", run_id)
        agent_id = agent if isinstance(agent, str) else agent.agent_id
        registered = self._ports.registry.agent(agent_id)
        if registered is None:
            hidden = self._ports.scribe.redactor.text(agent_id)
            raise unknown_agent(hidden, self._ports.registry.names, run_id=run_id)
        if isinstance(agent, Agent) and not registered.is_of(agent):
            raise invalid_package(
                f"the runtime has another agent that is called {agent_id}; start the one that it was given, "
                "or give this one another name",
                run_id,
            )
        return registered


def create_tool_loop_harness(config: "ToolLoopHarnessConfig") -> "StepFn":
    """Return the step function of a configuration, on the clock of the machine.

    A clock or random source in the configuration is kept.

    Raises:
        Rejected: the configuration cannot be used; the message says what to write.
    """
    # Whoever has a runtime does not pay for the steps.
    from windlass.steps import loop  # noqa: PLC0415 - slow to import

    given = replace(config, clock=config.clock or SystemClock(), random=config.random or chance)
    return loop.create_tool_loop_harness(given)
