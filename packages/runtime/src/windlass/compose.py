"""The short ways in: runtimes made of the adapters that come along."""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Self, TypedDict, TypeVar, Unpack

from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.journals.sqlite import SqliteStore
from windlass.adapters.models.routes import providers_from_environment
from windlass.adapters.system import SystemClock, chance, new_id
from windlass.agent import Agent
from windlass.agent_output import Output, output_contract
from windlass.builder import AgentRuntimeBuilder
from windlass.errors import Rejected
from windlass.feed import Feed
from windlass.hooks import Hook
from windlass.package import budget_limits
from windlass.policy import allow_start
from windlass.ports.approval import ApprovalDispatcher
from windlass.ports.model import LLMProvider
from windlass.ports.model_source import ProviderSource
from windlass.ports.policy import StartPolicy, ToolPolicy
from windlass.ports.sink import OutputSink
from windlass.refusals import invalid_package
from windlass.run_handle import RunHandle
from windlass.runtime import CoreRuntime
from windlass.runtime_ports import Machine, PackageChange
from windlass_harness.budget import BudgetLimit
from windlass_harness.loop.rules import Rules
from windlass_protocol import (
    BudgetLimits,
    ErrorKind,
    JsonObject,
    RetryClass,
    RunMode,
    RunRequest,
    SourceRef,
    UserContent,
)

T = TypeVar("T")
Durability = Literal["power", "process"]


class RuntimeOptions(TypedDict, total=False):
    """What a runtime may be told beside its agents."""

    providers: Mapping[str, LLMProvider]
    """Who answers for the routes of models that are texts."""
    provider_source: ProviderSource
    """Who answers for all other routes; `openai`, `anthropic`, `ollama` and such when left out, by the
    variables of the environment."""
    policy: StartPolicy
    """Decides whether a run may start; every run may when left out."""
    tool_policy: ToolPolicy
    """Decides about tool calls, instead of the policies of the agents."""
    output_sinks: Iterable[OutputSink]
    """Where the output of agents that name them is delivered."""
    approval_dispatcher: ApprovalDispatcher
    """Takes requests to people."""
    is_attended: bool
    """Whether somebody is there to ask; if not, whatever needs consent is denied.

    True when left out: whoever holds the runtime can see `handle.requests()` and answer.
    """
    approval_expires_ms: int
    responders: Sequence[str]
    """Who may answer; anybody when left out."""
    four_eyes: bool
    """Whether whoever asked for a run, its `source`, may not consent to what it does; needs responders."""
    hooks: Iterable[Hook]
    """Functions for hooks that packages name; agents bring their own."""
    package_change: PackageChange | str
    """What becomes of runs whose agent has changed since they began; they continue when left out."""
    rules: Rules
    secrets: Iterable[str]
    """Texts that must never reach a record, event, trace or error."""
    machine: Machine


class RunOptions(TypedDict, total=False):
    """What a run may be told beside its message; None is as good as left out."""

    session_id: str | None
    """The session to go on with; a new one when left out."""
    run_id: str | None
    """A name for the run, the same for every attempt to start it; a new one when left out."""
    turn_id: str | None
    mode: RunMode | None
    budget: BudgetLimit | BudgetLimits | None
    output: Output | None
    """What it must return: a type, a JSON Schema or a contract."""
    context: Sequence[str] | None
    """Texts that are put before the message."""
    metadata: JsonObject | None
    source: SourceRef | None
    """Where the message comes from."""


class AgentRuntime(CoreRuntime):
    """A durable runtime for agents."""

    @classmethod
    def builder(cls) -> AgentRuntimeBuilder[Self]:
        """Return a builder, to put a runtime together port by port."""
        return AgentRuntimeBuilder(cls, Machine(SystemClock(), new_id, chance))

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        agents: Iterable[Agent],
        durability: Durability = "power",
        **options: Unpack[RuntimeOptions],
    ) -> Self:
        """Open a store and go on with every run in it that was left unfinished.

        With durability `power`, what was acknowledged survives a crash of the machine; with `process`, one of
        the process.

        Raises:
            Rejected: the file is not a store, or a newer version wrote it.
            Corrupt: the file is damaged.
        """
        store = await SqliteStore.open(path, durability=durability)
        try:
            runtime = cls._made(store, agents, options)
            await runtime.resume()
        except BaseException:
            await store.aclose()
            raise
        return runtime

    @classmethod
    def in_memory(cls, agents: Iterable[Agent], **options: Unpack[RuntimeOptions]) -> Self:
        """Make a runtime that forgets everything when the process ends."""
        return cls._made(MemoryStore(), agents, options)

    @classmethod
    def _made(
        cls, store: MemoryStore | SqliteStore, agents: Iterable[Agent], options: RuntimeOptions
    ) -> Self:
        builder = cls.builder()
        machine = options.get("machine") or Machine(SystemClock(), new_id, chance)
        builder.clock(machine.clock).ids(machine.new_id).random(machine.random)
        builder.journal(store).event_bus(Feed(store, machine.clock)).content(store)
        builder.policy(options.get("policy", allow_start)).providers(options.get("providers", {}))
        builder.provider_source(options.get("provider_source") or providers_from_environment())
        builder.attended(is_attended=options.get("is_attended", True)).secrets(options.get("secrets", ()))
        for agent in agents:
            builder.agent(agent)
        builder.hook_executor_registry(options.get("hooks", ()))
        for sink in options.get("output_sinks", ()):
            builder.output_sink(sink)
        _choose(builder, options)
        return builder.build()

    async def start(
        self, agent: Agent | str, message: UserContent, **options: Unpack[RunOptions]
    ) -> RunHandle:
        """Start a run of an agent; return once it is durable.

        The same run id with the same message is the same run, however often it is started.

        Raises:
            Rejected: the agent is not one of this runtime, or an option cannot be used.
            Conflict: the run id was used for something else.
            Denied: the start policy does not allow it.
        """
        agent_id = agent if isinstance(agent, str) else agent.agent_id
        registered = self._ports.registry.agent(agent_id)
        run_id = options.get("run_id") or self._ports.machine.new_id()
        if registered is None:
            raise invalid_package(
                f"agent {agent_id} is not one of this runtime; give it to open(agents=[…])", run_id
            )
        budget, output = options.get("budget"), options.get("output")
        context = options.get("context")
        request = RunRequest(
            run_id=run_id,
            agent_id=agent_id,
            input=message,
            session_id=options.get("session_id"),
            turn_id=options.get("turn_id"),
            package_id=registered.package.package_id,
            mode=options.get("mode"),
            budget=budget_limits(budget) if isinstance(budget, BudgetLimit) else budget,
            output_contract=None if output is None else output_contract(output, agent_id),
            context=None if context is None else tuple(context),
            metadata=options.get("metadata"),
            source=options.get("source"),
        )
        return await self.start_run(request)


def _choose(builder: AgentRuntimeBuilder[T], options: RuntimeOptions) -> None:
    """Give a builder what has no default of its own here."""
    if "tool_policy" in options:
        builder.tool_policy(options["tool_policy"])
    if "approval_dispatcher" in options:
        builder.approval_dispatcher(options["approval_dispatcher"])
    if "approval_expires_ms" in options:
        builder.approvals_expire(options["approval_expires_ms"])
    if "responders" in options:
        builder.responders(options["responders"])
    if "four_eyes" in options:
        builder.four_eyes(is_required=options["four_eyes"])
    if "package_change" in options:
        builder.package_change(options["package_change"])
    if "rules" in options:
        builder.rules(options["rules"])


def run_sync(work: Coroutine[object, object, T] | Awaitable[T]) -> T:
    """Run something asynchronous to its end, in a script.

    Raises:
        Rejected: an event loop is running already; await it there.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_finish(work))
    if isinstance(work, Coroutine):
        work.close()
    raise Rejected(
        "run_sync cannot be used inside an event loop; write await instead",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
    )


async def _finish(work: Awaitable[T]) -> T:
    return await work
