"""The keyword options of runtimes and runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from windlass.agent.agent import AnyAgent, BatchChoice, Output
from windlass.agent.hooks import Hook
from windlass.engine.driving.slots import SessionSlots
from windlass.engine.spending.provider_limits import ProviderLimits
from windlass.engine.spending.spend_limits import SpendLimit
from windlass.ports.clock import Clock, IdFactory, Random
from windlass.ports.feed import EventBus
from windlass.ports.host import ApprovalDispatcher, OutputSink, PackageResolver, StartPolicy, ToolPolicy
from windlass.ports.interpreter import Interpreter
from windlass.ports.machine import Machine
from windlass.ports.model import LLMProvider, ProviderSource
from windlass.ports.sandbox import SandboxAdapter
from windlass.ports.store import ContentStore, Store
from windlass.ports.wakes import Wakes
from windlass.prices import PriceValue
from windlass.runtime.registry import PackageChange, PackageChangeValue, ToolRoute
from windlass.tools import AnyTool
from windlass.tools.deps import DepsFactory
from windlass_harness.budget import Budget
from windlass_harness.loop.rules import Rules
from windlass_protocol import (
    BudgetLimits,
    JsonObject,
    RunMode,
    RuntimePackage,
    SessionCapabilities,
    SourceRef,
)

if TYPE_CHECKING:
    from windlass_protocol.generated.values import RunModeValue


class RuntimeOptions(TypedDict, total=False):
    """Options of `AgentRuntime.open` and `in_memory`, by keyword.

    `RuntimePorts` declares the port behind each of them, with its default and its check.
    """

    providers: Mapping[str, LLMProvider]
    """Models by their routes, for agents with the name of a model."""
    provider_source: ProviderSource
    """Provides the models of all other routes; when left out, those of `openai`, `anthropic`, `ollama` and
    others, by the variables of the environment."""
    interpreter: Interpreter
    """Runs the programs of agents with code mode or workflows; Monty when left out."""
    sandboxes: Mapping[str, SandboxAdapter]
    """Adapters of sandboxes by name; when left out, `none` and `bubblewrap` with folders beside the store."""
    start_policy: StartPolicy
    """Decides whether a run may start; every run may when left out."""
    tool_policy: ToolPolicy
    """Decides about tool calls, instead of the policies of the agents."""
    policy_timeout_ms: int
    """How long either policy may take to decide; one that takes longer has denied."""
    output_sinks: Iterable[OutputSink]
    """Where the output of agents that name them is delivered."""
    approval_dispatcher: ApprovalDispatcher
    """Brings requests to people."""
    approval_timeout_ms: int
    """How long the dispatcher may take, 600,000 when left out; a request that takes longer stays open."""
    is_attended: bool
    """Whether people answer requests; if not, calls that need consent are denied.

    True when left out: the holder of the runtime can read `handle.requests()` and answer.
    """
    approval_expires_ms: int
    responders: Sequence[str]
    """Names of the people who may answer; any responder when left out."""
    four_eyes: bool
    """Whether the `source` of a run, who asked for it, may not consent to its calls; needs responders."""
    hooks: Iterable[Hook]
    """Functions for hooks that packages name; agents bring their own."""
    package_change: PackageChange | PackageChangeValue
    """Continue (when left out), move or refuse runs of an agent that has changed since they began.

    `wait` lets them wait for a process that has the agent as it was.
    """
    retry_for_ms: int
    """How long model calls are retried while the provider is away, an hour when left out; 0 makes a few
    attempts. An agent may set its own."""
    provider_limits: ProviderLimits
    """How many model calls are sent at once and each minute, by provider; runtimes may share the object."""
    prices: Mapping[str, PriceValue]
    """Prices by the names of models, with wildcards; those of an agent come before, the price table after."""
    limits: Iterable[SpendLimit]
    """Limits for people and teams, in place of those that were given before; these stay when left out."""
    wakes: Wakes | str
    """What has sessions driven: the address of an engine, `temporal://host:port/namespace`, or an adapter.

    When left out, sessions are driven by the process that wakes them, or the first that finds them waiting.
    """
    is_driving: bool
    """Whether this process drives sessions, True when left out; if not, other processes must."""
    sessions_max: int | SessionSlots
    """How many sessions this process drives at once, 10,000 when left out; runtimes may share `SessionSlots`.

    Further starts wait, here or for another process. A run that is under way goes on in any case.
    """
    drain_s: float
    """How long tool calls under way may take to end when the runtime is closed, 2 seconds when left out.

    Calls that take longer were interrupted: the next process makes them again, or asks a person.
    """
    retention_days: int
    """After how many days ended sessions are deleted, with all that belongs to them; never when left out.

    The processes that drive the store do so.
    """
    rules: Rules
    deps: Mapping[AnyAgent, DepsFactory[object]]
    """Factories of dependencies, by agent; they replace the factories of the agents themselves."""
    tenant: str
    """The tenant whose store this is; factories of dependencies see it."""
    secrets: Iterable[str]
    """Texts that must never reach a record, event, trace or error."""
    machine: Machine


class PartOptions(RuntimeOptions, total=False):
    """Options of `AgentRuntime.builder().options`: those of `open`, and the parts that `open` chooses.

    The methods of the builder are made of this class by `make gen`.
    """

    journal: Store
    """The store of records; the runtime closes it when it is closed."""
    event_bus: EventBus
    """The feed that shows records to subscribers."""
    content: ContentStore
    """The store of packages and large values."""
    agents: Iterable[AnyAgent]
    """Agents with their packages, tools, hooks, policies and models."""
    packages: Iterable[RuntimePackage]
    """Packages; their models, tools and hooks are looked up by their names."""
    default_package: RuntimePackage
    """The package of requests that name none."""
    default_package_id: str
    """The id of the package of requests that name none."""
    package_resolver: PackageResolver
    """Looks packages up, instead of `agents` and `packages`."""
    tool_routes: Iterable[ToolRoute]
    """The tools that run when packages name them."""
    tool_executors: Iterable[AnyTool]
    """Tools for every package that names them."""
    clock: Clock
    ids: IdFactory
    random: Random


class RunOptions(TypedDict, total=False):
    """Options of `AgentRuntime.start_run`, by keyword; None is the same as no value."""

    session_id: str | None
    """The session to continue; a new one when left out."""
    run_id: str | None
    """The id of the run, the same for every attempt to start it; a new id when left out."""
    turn_id: str | None
    mode: "RunMode | RunModeValue | None"
    """conversation (when left out) or task."""
    capabilities: SessionCapabilities | None
    """Capabilities of the channel of the message; all when left out."""
    budget: Budget | BudgetLimits | None
    batch: BatchChoice | None
    """Whether model calls are items of batches: "within 24h" or "off"; as the agent says when left out."""
    output: Output | None
    """The type of the result: a type, a JSON Schema or an OutputContract."""
    context: Sequence[str] | None
    """Texts that are put before the message."""
    metadata: JsonObject | None
    source: SourceRef | None
    """Where the message comes from."""
    owner: str | None
    """The owner of the session, set by its first run; a start for another owner is denied."""
    goal_id: str | None
    """The goal of the run; the decision ledger groups runs by it."""
    goal_description: str | None
    """The goal in words; the message when left out."""
