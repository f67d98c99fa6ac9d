"""The agents, packages and ports that a runtime was built with."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Final, Literal, cast, get_origin, get_type_hints

from windlass.agent.agent import WORKFLOW_ROUTE, AnyAgent
from windlass.agent.dynamic import Placed
from windlass.agent.hooks import EventHook, Hook
from windlass.agent.package import (
    check_package,
    compile_package,
    fingerprint,
    package_json,
    with_batch,
)
from windlass.agent.policy import RulesPolicy
from windlass.engine.driving.slots import SessionSlots
from windlass.engine.spending.provider_limits import ProviderLimits
from windlass.engine.spending.spend_limits import SpendLimit
from windlass.engine.writing.writer import Scribe
from windlass.errors import check_whole
from windlass.limits import DRAIN_S, DRAIN_S_MAX, POLICY_TIMEOUT_MS, RETENTION_DAYS_MAX
from windlass.ports.feed import EventBus
from windlass.ports.host import ApprovalDispatcher, OutputSink, PackageResolver, StartPolicy, ToolPolicy
from windlass.ports.interpreter import Interpreter
from windlass.ports.machine import Machine
from windlass.ports.model import LLMProvider, ProviderSource
from windlass.ports.sandbox import SandboxAdapter
from windlass.ports.store import ContentStore, Store
from windlass.ports.wakes import Wakes
from windlass.prices import OwnPrices, check_prices
from windlass.refusals import (
    bad_setup,
    check_callable,
    check_flag,
    check_items,
    check_ms,
    check_name,
    check_part,
    check_period_s,
    check_port,
    invalid_package,
)
from windlass.tools import Tool
from windlass.tools.deps import DepsFactory
from windlass_harness.loop.rules import DEFAULT_RULES, Rules
from windlass_protocol import ProviderRoute, RuntimePackage
from windlass_protocol.frozen import sealed


@sealed
class Registered:
    """A package with the objects of this process that it needs."""

    package: RuntimePackage
    fingerprint: str
    content: bytes
    """The canonical JSON that the fingerprint is the hash of."""
    tools: Mapping[str, Tool[..., object]] = field(default_factory=dict[str, Tool[..., object]])
    hooks: Mapping[str, Hook] = field(default_factory=dict[str, Hook])
    resolvers: Mapping[str, Placed] = field(default_factory=dict[str, Placed])
    policy: RulesPolicy | None = None
    provider: LLMProvider | None = None
    """The model of the agent itself; None if its route names one."""
    summary_provider: LLMProvider | None = None
    """The model that writes summaries; None if its route names one."""
    agent: AnyAgent | None = None

    def is_of(self, agent: AnyAgent) -> bool:
        """Whether this is the package of `agent` or of an equal agent."""
        return agent is self.agent or fingerprint(compile_package(agent)) == self.fingerprint


def register_agent(agent: AnyAgent) -> Registered:
    """Compile an agent.

    Raises:
        Rejected: its output type has no JSON Schema.
    """
    package = check_package(compile_package(agent))
    return Registered(
        package,
        fingerprint(package),
        package_json(package),
        tools={tool.name: tool for tool in agent.offered_tools},
        hooks={hook.spec.hook_id: hook for hook in agent.hooks if isinstance(hook, Hook)},
        resolvers={placed.dynamic.name: placed for placed in agent.resolvers},
        policy=RulesPolicy(agent.policy),
        provider=None if isinstance(agent.first_model, str) else agent.first_model,
        summary_provider=None if isinstance(agent.compaction_model, str) else agent.compaction_model,
        agent=agent,
    )


def register_package(package: RuntimePackage) -> Registered:
    """Register a package without an agent.

    Models, tools and hooks are looked up by name.

    Raises:
        Rejected: it cannot be run.
    """
    checked = check_package(package)
    return Registered(checked, fingerprint(checked), package_json(checked))


def version_of(package: RuntimePackage) -> str:
    """Return the version that runs of a package are of.

    It is that of its workflow, or the fingerprint of all that a start cannot choose.
    """
    if package.provider_route.route_id == WORKFLOW_ROUTE:
        return package.provider_route.model_id
    return fingerprint(with_batch(package, None).model_copy(update={"output_contracts": None}))


class Registry:
    """Packages by their ids, and agents by theirs; an agent has one package."""

    def __init__(self, agents: Iterable[AnyAgent] = ()) -> None:
        self._packages: dict[str, Registered] = {}
        self._agents: dict[str, Registered] = {}
        self._versions: dict[str, str] | None = None
        self._implied: set[str] = set()
        """Agents that are registered as subagents of others."""
        for agent in agents:
            self.add(register_agent(agent))

    def add(self, registered: Registered, *, replace: bool = False) -> None:
        """Add a package, and the packages of its subagents.

        With `replace` it replaces packages with its id or its agent. An agent that is registered only as a
        subagent may be added as well.

        Raises:
            Rejected: the id or the agent is taken.
        """
        package, agent_id = registered.package, registered.package.agent.agent_id
        existing = self._agents.get(agent_id)
        if (
            existing is None
            or agent_id not in self._implied
            or existing.fingerprint != registered.fingerprint
        ):
            self._store_registered(registered, replace=replace)
        self._implied.discard(agent_id)
        for agent in () if registered.agent is None else registered.agent.subagents:
            self._imply(register_agent(agent), called_by=package.package_id, replace=replace)

    def _imply(self, registered: Registered, *, called_by: str, replace: bool) -> None:
        agent_id = registered.package.agent.agent_id
        existing = self._agents.get(agent_id)
        if existing is not None and existing.fingerprint == registered.fingerprint:
            return
        if existing is not None and not (replace and agent_id in self._implied):
            raise invalid_package(
                f"agent {called_by} has a subagent {agent_id}, and another agent has the same name; "
                "give each its own name"
            )
        self.add(registered, replace=replace)
        self._implied.add(agent_id)

    def _store_registered(self, registered: Registered, *, replace: bool) -> None:
        package = registered.package
        same_id = self._packages.get(package.package_id)
        same_agent = self._agents.get(package.agent.agent_id)
        if not replace and same_id is not None:
            noun = "package" if registered.agent is None else "agent or package"
            raise invalid_package(
                f"duplicate {noun} {package.package_id}; give each its own name, or replace "
                "the other: AgentRuntime.builder() takes replace=True"
            )
        if not replace and same_agent is not None:
            raise invalid_package(
                f"agent {package.agent.agent_id} has a package already, {same_agent.package.package_id}; "
                "one runtime has one package for each agent, so give this one another name"
            )
        for old in (same_id, same_agent):
            if old is not None:
                self._packages.pop(old.package.package_id, None)
                self._agents.pop(old.package.agent.agent_id, None)
        self._packages[package.package_id] = registered
        self._agents[package.agent.agent_id] = registered
        self._versions = None

    def remove(self, agent_id: str) -> None:
        """Remove an agent and its package; an unknown agent is ignored.

        Its current runs wait until it is added again.
        """
        registered = self._agents.pop(agent_id, None)
        self._versions = None
        if registered is not None:
            self._packages.pop(registered.package.package_id, None)
            self._implied.discard(agent_id)

    def copy(self) -> "Registry":
        """Return a copy of the registry."""
        copy = Registry()
        for registered in self._packages.values():
            copy.add(registered)
        return copy

    def package(self, package_id: str) -> Registered | None:
        """Return a package by its id."""
        return self._packages.get(package_id)

    @property
    def versions(self) -> Mapping[str, str]:
        """The version of each agent that has a package."""
        if self._versions is None:
            self._versions = {
                agent_id: version_of(registered.package) for agent_id, registered in self._agents.items()
            }
        return self._versions

    @property
    def agent_ids(self) -> Collection[str]:
        """The agents that have a package."""
        return self._agents.keys()

    def agent(self, agent_id: str) -> Registered | None:
        """Return the package of an agent."""
        return self._agents.get(agent_id)

    def model(self, route: ProviderRoute, first: Registered) -> LLMProvider | None:
        """Return the object that an agent brings for exactly this model; that of `first` if it has one."""
        for candidate in (first, *self._agents.values()):
            candidate_route = candidate.package.provider_route
            if candidate.provider is not None and (candidate_route.route_id, candidate_route.model_id) == (
                route.route_id,
                route.model_id,
            ):
                return candidate.provider
        return None

    def event_hooks(self, agent_id: str) -> tuple[EventHook, ...]:
        """Return the event hooks of an agent."""
        registered = self._agents.get(agent_id)
        return () if registered is None or registered.agent is None else registered.agent.event_hooks

    @property
    def names(self) -> tuple[str, ...]:
        """The agents that have a package."""
        return tuple(sorted(self._agents))

    def resolvers(self, package: RuntimePackage) -> tuple[Placed, ...]:
        """Return the functions behind the resolvers of a package: those of its agent.

        Raises:
            Rejected: a resolver has no function, or its function resolves another part.
        """
        registered = self.agent(package.agent.agent_id)
        resolver_parts = () if registered is None else registered.resolvers.values()
        placed = {part.dynamic.name: part for part in resolver_parts}
        for spec in package.resolvers or ():
            if spec.name not in placed or placed[spec.name].spec != spec:
                problem = f"has no function for resolver {spec.name}"
                raise invalid_package(f"package {package.package_id} {problem}")
        return tuple(placed[spec.name] for spec in package.resolvers or ())

    def resolve(self, package_id: str) -> RuntimePackage:
        """Return a package.

        Raises:
            Rejected: the package is unknown.
        """
        registered = self._packages.get(package_id)
        if registered is None:
            raise invalid_package(f"unknown runtime package: {package_id}")
        return registered.package

    def __len__(self) -> int:
        return len(self._packages)


class Dependencies:
    """The dependencies of runs: objects that a start gave, and factories by agent.

    An object is held until its run ends. A subagent without a factory of its own uses the object or the
    factory of the nearest caller with the same `deps`.
    """

    def __init__(self, factories: Mapping[str, DepsFactory[object]] | None = None) -> None:
        self.given: dict[str, object] = {}
        """The objects of unfinished runs of this process, by run."""
        self.outputs: dict[str, object] = {}
        """The types of the outputs that starts of this process named, by run."""
        self.factories: Final = dict(factories or {})
        """Factories of the runtime by agent; they replace those of the agents themselves."""

    def factory(self, agent: AnyAgent) -> DepsFactory[object] | None:
        """Return the factory of an agent."""
        return self.factories.get(agent.name) or agent.deps_factory

    def missing(self, agent: AnyAgent, *, is_given: bool, callers: tuple[AnyAgent, ...] = ()) -> str | None:
        """Return the agent, or the subagent below it, that has no source of dependencies; None if all have.

        `is_given` says whether the start gave an object for the first of the callers.
        """
        above = [caller for caller in callers if caller.deps is agent.deps]
        has_object = is_given and len(above) == len(callers)
        if agent.deps is not None and not has_object and not any(map(self.factory, (agent, *above))):
            return agent.name
        for below in agent.subagents:
            missing_name = self.missing(below, is_given=is_given, callers=(*callers, agent))
            if missing_name is not None:
                return missing_name
        return None

    @contextmanager
    def keep(self, run_id: str, deps: object = None, output: object = None) -> Generator[None]:
        """Keep the dependencies and the output type of a run that is started, unless the start fails."""
        values = ((self.given, deps), (self.outputs, output))
        before = [objects.get(run_id) for objects, _ in values]
        for objects, value in values:
            if value is not None:
                objects[run_id] = value
        try:
            yield
        except BaseException:
            for (objects, _), value in zip(values, before, strict=True):
                objects.pop(run_id, None)
                if value is not None:
                    objects[run_id] = value
            raise

    def forget(self, started: Collection[str], *, current: str | None) -> None:
        """Forget the objects of runs that have ended."""
        for objects in (self.given, self.outputs):
            for run_id in [
                object_id for object_id in objects if object_id in started and object_id != current
            ]:
                del objects[run_id]


_STORE_HAS: Final = ("append", "read", "milestones", "post", "claim", "aclose")
_STORE: Final = "a store, such as MemoryStore() or await SqliteStore.open(path) of windlass.parts"
DISPATCH_TIMEOUT_MS: Final = 600_000
"""How long an approval dispatcher may take; the request stays open when it takes longer."""


class PackageChange(StrEnum):
    """How a run continues if its agent has changed since it started.

    The functions of tools, the model of a route and the rules of policies are always the current ones; a
    package only names them. So is the sandbox, if the agent has one. The output contract of a run never
    changes.
    """

    CONTINUE = "continue"
    """It continues with the package it started with; calls of removed tools are refused."""
    MOVE = "move"
    """It continues with the current package; a `session.moved` record says so."""
    REFUSE = "refuse"
    """It fails, and the error names what changed."""
    WAIT = "wait"
    """It waits for a process that has the agent as it was."""


PackageChangeValue = Literal["continue", "move", "refuse", "wait"]


@sealed
class ToolRoute:
    """The tool that runs when a package names it."""

    tool_name: str
    """The name of the tool in the package."""
    tool: Tool[..., object]
    package_id: str | None = None
    """The package that it is for; any that names the tool when left out."""


def _package_change(value: object) -> PackageChange:
    choices = [member.value for member in PackageChange]
    if value not in choices:
        raise bad_setup(f"package_change must be one of {', '.join(choices)}; found {value!r}")
    return PackageChange(value)


def _slots(value: object) -> SessionSlots:
    return value if isinstance(value, SessionSlots) else SessionSlots(cast("int", value))


def _tool_policy(value: object) -> object:
    expected = "an object with version, before() and after(), such as RulesPolicy of windlass.parts"
    check_port(value, "tool_policy", has=("before", "after"), words=expected)
    check_part(getattr(value, "version", None), str, what="the version of a tool_policy", words="a text")
    return value


def _sandboxes(value: object) -> object:
    expected = "a dictionary of adapters by name"
    for adapter in cast(
        dict[str, object], check_part(value, dict, what="sandboxes", words=expected)
    ).values():
        check_port(
            adapter, "a sandbox adapter", has=("check", "open", "remove", "aclose"), words="a SandboxAdapter"
        )
    return value


@sealed
class RuntimePorts:
    """The ports and options of a runtime, with their defaults and checks.

    `PartOptions` names what a host may give; `Assembly` puts it here. A field with a check is given once;
    `normalise_port` applies it to the value that a host gave.
    """

    machine: Machine
    scribe: Scribe
    store: Annotated[
        Store | None,
        partial(check_port, what="the journal", has=_STORE_HAS, words=_STORE),
    ] = None
    bus: Annotated[
        EventBus | None,
        partial(
            check_port,
            what="the event bus",
            has=("publish", "subscribe_run"),
            words="a feed, such as Feed(store, clock) of windlass.parts",
        ),
    ] = None
    content: Annotated[
        ContentStore | None, partial(check_port, what="the content store", has=("put", "get"), words=_STORE)
    ] = None
    start_policy: Annotated[
        StartPolicy | None,
        partial(
            check_callable,
            what="start_policy",
            words="a function of a RunRequest and a RuntimePackage, such as allow_start of windlass.parts",
        ),
    ] = None
    tool_policy: Annotated[ToolPolicy | None, _tool_policy] = None
    resolver: Annotated[
        PackageResolver | None,
        partial(
            check_port,
            what="a package resolver",
            has=("resolve",),
            words="an object with resolve(package_id)",
        ),
    ] = None
    default_package_id: Annotated[str | None, partial(check_name, what="package_id")] = None
    registry: Registry = field(default_factory=Registry)
    deps: Dependencies = field(default_factory=Dependencies)
    tenant: Annotated[str | None, partial(check_name, what="tenant")] = None
    providers: Mapping[str, LLMProvider] = field(default_factory=dict[str, LLMProvider])
    provider_source: Annotated[
        ProviderSource | None,
        partial(
            check_port,
            what="a provider source",
            has=("provider", "aclose"),
            words="an object with provider(route_id, model_id) and aclose()",
        ),
    ] = None
    """Provides the models of all routes that `providers` lacks."""
    interpreter: Annotated[
        Interpreter | None,
        partial(
            check_port,
            what="an interpreter",
            has=("check", "run", "aclose"),
            words="an object with check, run and aclose, such as MontyInterpreter()",
        ),
    ] = None
    """Runs the programs of models."""
    sandboxes: Annotated[Mapping[str, SandboxAdapter], _sandboxes] = field(
        default_factory=dict[str, SandboxAdapter]
    )
    """Adapters of sandboxes, by the names that packages have for them."""
    routes: Mapping[tuple[str | None, str], Tool[..., object]] = field(
        default_factory=dict[tuple[str | None, str], Tool[..., object]]
    )
    """Tools by package id (None for any) and by the name that the package has for them."""
    hooks: Mapping[str, Hook] = field(default_factory=dict[str, Hook])
    sinks: Mapping[str, OutputSink] = field(default_factory=dict[str, OutputSink])
    approval_dispatcher: Annotated[
        ApprovalDispatcher | None,
        partial(
            check_port,
            what="an approval dispatcher",
            has=("dispatch",),
            words="an object with dispatch(request, session_id=…, run_id=…)",
        ),
    ] = None
    approval_timeout_ms: Annotated[int, partial(check_ms, what="approval_timeout_ms")] = DISPATCH_TIMEOUT_MS
    rules: Annotated[
        Rules,
        partial(
            check_part,
            kind=Rules,
            what="rules",
            words="Rules(…) of windlass.parts, such as Rules(steps_max=100)",
        ),
    ] = DEFAULT_RULES
    retry_for_ms: Annotated[int | None, partial(check_ms, what="retry_for_ms", least=0)] = None
    """How long model calls are retried while the provider is away; None leaves it to the rules."""
    provider_limits: Annotated[
        ProviderLimits,
        partial(
            check_part,
            kind=ProviderLimits,
            what="provider_limits",
            words='ProviderLimits({"openai": ProviderLimit(at_once=8)}) of windlass.parts',
        ),
    ] = field(default_factory=ProviderLimits)
    prices: Annotated[OwnPrices, partial(check_prices, what="prices")] = ()
    """Prices of models, by pattern; those of agents come first."""
    limits: Annotated[
        tuple[SpendLimit, ...] | None,
        partial(check_items, kind=SpendLimit, what="limits", words="SpendLimit(…) of windlass.parts"),
    ] = None
    """Limits for people and teams, in place of those that earlier processes gave; None leaves these."""
    is_attended: Annotated[bool, partial(check_flag, what="is_attended")] = True
    approval_expires_ms: Annotated[int | None, partial(check_ms, what="approval_expires_ms")] = None
    responders: Annotated[
        tuple[str, ...] | None, partial(check_items, kind=str, what="responders", words="names of people")
    ] = None
    four_eyes: Annotated[bool, partial(check_flag, what="four_eyes")] = False
    wakes: Annotated[
        Wakes | None,
        partial(
            check_port,
            what="wakes",
            has=("open", "wake", "aclose"),
            words="temporal://host:port/namespace, or an object with open(), wake() and aclose()",
        ),
    ] = None
    """Has sessions driven; None for this process and those that sweep the same store."""
    is_driving: Annotated[bool, partial(check_flag, what="is_driving")] = True
    """Whether this process drives sessions; if not, others do."""
    sessions_max: Annotated[SessionSlots, _slots] = field(default_factory=SessionSlots)
    """How many sessions this process drives at once."""
    drain_s: Annotated[float, partial(check_period_s, what="drain_s", most=DRAIN_S_MAX)] = DRAIN_S
    """How long tool calls under way may take to end when the runtime is closed."""
    retention_days: Annotated[
        int | None, partial(check_whole, what="retention_days", most=RETENTION_DAYS_MAX)
    ] = None
    """After how many days ended sessions are deleted; None for never."""
    policy_timeout_ms: Annotated[int, partial(check_ms, what="policy_timeout_ms")] = POLICY_TIMEOUT_MS
    package_change: Annotated[PackageChange, _package_change] = PackageChange.CONTINUE

    @property
    def loop_rules(self) -> Rules:
        """The rules of the loop, with the options that are set beside them."""
        return (
            self.rules if self.retry_for_ms is None else replace(self.rules, retry_for_ms=self.retry_for_ms)
        )


_CHECKS: Final[Mapping[str, Callable[[object], object]]] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(RuntimePorts, include_extras=True).items()
    if get_origin(hint) is Annotated
}


def normalise_port(name: str, value: object) -> object:
    """Return the value that a host gave for a port, as the port holds it.

    Raises:
        Rejected: it cannot be used; the message says what to write.
    """
    return _CHECKS[name](value)
