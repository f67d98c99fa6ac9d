"""Putting a runtime together, port by port.

Nothing has to be given: whatever is missing is found out when it is first needed, and the run that needed it
is refused before anything is written. Nothing that was given is dropped or overwritten silently: who means to
replace something says so.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as changed
from typing import Generic, Self, TypedDict, TypeVar, cast

from windlass.agent import Agent
from windlass.hooks import Hook
from windlass.ports.approval import ApprovalDispatcher
from windlass.ports.clock import Clock, IdFactory, Random
from windlass.ports.content import ContentStore
from windlass.ports.feed import EventBus
from windlass.ports.journal import Store
from windlass.ports.model import LLMProvider
from windlass.ports.model_source import ProviderSource
from windlass.ports.package import PackageResolver
from windlass.ports.policy import StartPolicy, ToolPolicy
from windlass.ports.sink import OutputSink
from windlass.refusals import bad_setup, invalid_package
from windlass.registry import Registry, register_agent, register_package
from windlass.runtime_ports import (
    DISPATCH_TIMEOUT_MS,
    ApprovalPort,
    Machine,
    PackageChange,
    RuntimePorts,
    ToolRoute,
)
from windlass.scribe import RedactingScribe
from windlass.tools import Tool
from windlass_harness.loop.rules import Rules
from windlass_protocol import RuntimePackage

R = TypeVar("R")


class _Ports(TypedDict, total=False):
    """The ports of which there is one."""

    store: Store
    bus: EventBus
    content: ContentStore
    start_policy: StartPolicy
    tool_policy: ToolPolicy
    resolver: PackageResolver
    default_package_id: str
    provider_source: ProviderSource
    approvals: ApprovalPort
    rules: Rules
    is_attended: bool
    approval_expires_ms: int
    responders: tuple[str, ...]
    four_eyes: bool
    package_change: PackageChange


class AgentRuntimeBuilder(Generic[R]):
    """Makes a runtime of ports; every method returns the builder.

    All methods raise `Rejected` for something that was given before, unless `replace` is set.
    """

    def __init__(self, make: Callable[[RuntimePorts], R], machine: Machine) -> None:
        self._make = make
        self._machine = machine
        self._ports: _Ports = {}
        self._registry = Registry()
        self._providers: dict[str, LLMProvider] = {}
        self._routes: dict[tuple[str | None, str], Tool[..., object]] = {}
        self._hooks: dict[str, Hook] = {}
        self._sinks: dict[str, OutputSink] = {}
        self._secrets: list[str] = []

    # models

    def provider(self, route_id: str, provider: LLMProvider, *, replace: bool = False) -> Self:
        """Say who answers for a route."""
        _put(self._providers, _named(route_id, "route_id"), provider, what="provider", replace=replace)
        return self

    def providers(self, providers: Mapping[str, LLMProvider], *, replace: bool = False) -> Self:
        """Say who answers for several routes."""
        for route_id, provider in providers.items():
            self.provider(route_id, provider, replace=replace)
        return self

    def provider_source(self, source: ProviderSource, *, replace: bool = False) -> Self:
        """Say who answers for all other routes; it is closed with the runtime."""
        return self._set("provider_source", source, replace=replace)

    # agents and packages

    def agent(self, agent: Agent, *, replace: bool = False) -> Self:
        """Add an agent with its package, tools, hooks, policy and model."""
        self._registry.add(register_agent(agent), replace=replace)
        return self

    def package(self, package: RuntimePackage, *, replace: bool = False) -> Self:
        """Add a package; its model, tools and hooks are looked up by their names.

        Raises:
            Rejected: it cannot be run.
        """
        self._registry.add(register_package(package), replace=replace)
        return self

    def default_package(self, package: RuntimePackage, *, replace: bool = False) -> Self:
        """Add a package that requests run under which name none."""
        self.package(package, replace=replace)
        return self.default_package_id(package.package_id, replace=replace)

    def default_package_id(self, package_id: str, *, replace: bool = False) -> Self:
        """Name the package that requests run under which name none."""
        return self._set("default_package_id", _named(package_id, "package_id"), replace=replace)

    def package_resolver(self, resolver: PackageResolver, *, replace: bool = False) -> Self:
        """Say who knows the packages, instead of adding them here."""
        return self._set("resolver", resolver, replace=replace)

    def package_change(self, change: PackageChange | str, *, replace: bool = False) -> Self:
        """Say what becomes of runs whose agent has changed; they continue when left out."""
        known = [member.value for member in PackageChange]
        if change not in known:
            raise bad_setup(f"package_change is one of {', '.join(known)}; found {change!r}")
        return self._set("package_change", PackageChange(change), replace=replace)

    # stores

    def journal(self, store: Store, *, replace: bool = False) -> Self:
        """Say where records are kept; the runtime closes the store when it is closed."""
        return self._set("store", store, replace=replace)

    def event_bus(self, bus: EventBus, *, replace: bool = False) -> Self:
        """Say how records reach those who watch."""
        return self._set("bus", bus, replace=replace)

    def content(self, content: ContentStore, *, replace: bool = False) -> Self:
        """Say where packages and large values are kept."""
        return self._set("content", content, replace=replace)

    # what may be done

    def policy(self, policy: StartPolicy, *, replace: bool = False) -> Self:
        """Say who decides whether a run may start; there is no default."""
        return self._set("start_policy", policy, replace=replace)

    def tool_policy(self, policy: ToolPolicy, *, replace: bool = False) -> Self:
        """Say who decides about tool calls, instead of the policies of the agents."""
        return self._set("tool_policy", policy, replace=replace)

    def approval_dispatcher(
        self,
        dispatcher: ApprovalDispatcher,
        *,
        timeout_ms: int = DISPATCH_TIMEOUT_MS,
        replace: bool = False,
    ) -> Self:
        """Say who takes requests to people; a runtime that has somebody is attended."""
        if timeout_ms <= 0:
            raise bad_setup(f"timeout_ms must be 1 or more, found {timeout_ms}")
        return self._set("approvals", ApprovalPort(dispatcher, timeout_ms), replace=replace)

    def shared_approval_dispatcher(self, dispatcher: ApprovalDispatcher, *, replace: bool = False) -> Self:
        """Say who takes requests to people, for other runtimes too maybe."""
        return self.approval_dispatcher(dispatcher, replace=replace)

    def attended(self, *, is_attended: bool = True, replace: bool = False) -> Self:
        """Say whether somebody answers requests.

        When nobody does, whatever needs consent is denied. When left out, a runtime is attended if it has an
        approval dispatcher.
        """
        return self._set("is_attended", is_attended, replace=replace)

    def responders(self, names: Iterable[str], *, replace: bool = False) -> Self:
        """Name those who may answer; anybody when left out."""
        return self._set("responders", tuple(names), replace=replace)

    def four_eyes(self, *, is_required: bool = True, replace: bool = False) -> Self:
        """Say that whoever asked for a run may not consent to what it does.

        The `source` of a run names who asked for it; it is left out of the responders of every request for
        consent, however it is written. A call of a run that does not say who asked for it, and one that
        nobody else may consent to, is denied. The responders have to be named.
        """
        return self._set("four_eyes", is_required, replace=replace)

    def approvals_expire(self, after_ms: int, *, replace: bool = False) -> Self:
        """Say how long a request for consent stays open; for ever when left out."""
        if after_ms <= 0:
            raise bad_setup(f"after_ms must be 1 or more, found {after_ms}")
        return self._set("approval_expires_ms", after_ms, replace=replace)

    # tools, hooks, sinks

    def tool_route(self, route: ToolRoute, *, replace: bool = False) -> Self:
        """Say what runs when a package names a tool; other packages do not notice."""
        name = _named(route.tool_name, "tool_name")
        tool = route.tool if route.tool.name == name else changed(route.tool, name=name)
        _put(self._routes, (route.package_id, name), tool, what="tool route", replace=replace)
        return self

    def tool_routes(self, routes: Iterable[ToolRoute], *, replace: bool = False) -> Self:
        """Add several routes."""
        for route in routes:
            self.tool_route(route, replace=replace)
        return self

    def tool_executor(self, tool: Tool[..., object], *, replace: bool = False) -> Self:
        """Add a tool for every package that names it."""
        return self.tool_route(ToolRoute(tool.name, tool), replace=replace)

    def tool_executors(self, tools: Iterable[Tool[..., object]], *, replace: bool = False) -> Self:
        """Add several tools for every package that names them."""
        for tool in tools:
            self.tool_executor(tool, replace=replace)
        return self

    def hook_executor_registry(self, hooks: Iterable[Hook], *, replace: bool = False) -> Self:
        """Add hooks for every package that names them."""
        for hook in hooks:
            _put(self._hooks, hook.spec.hook_id, hook, what="hook", replace=replace)
        return self

    def output_sink(self, sink: OutputSink, *, replace: bool = False) -> Self:
        """Add somewhere that output is delivered to, for every package that names it."""
        _put(self._sinks, _named(sink.sink_id, "sink_id"), sink, what="output sink", replace=replace)
        return self

    # the machine

    def clock(self, clock: Clock) -> Self:
        """Use this clock instead of the machine's."""
        self._machine = changed(self._machine, clock=clock)
        return self

    def ids(self, new_id: IdFactory) -> Self:
        """Take new names from here."""
        self._machine = changed(self._machine, new_id=new_id)
        return self

    def random(self, random: Random) -> Self:
        """Take chance from here."""
        self._machine = changed(self._machine, random=random)
        return self

    def rules(self, rules: Rules, *, replace: bool = False) -> Self:
        """Set the limits of the loop."""
        return self._set("rules", rules, replace=replace)

    def secrets(self, secrets: Iterable[str]) -> Self:
        """Add texts that must never reach a record, event, trace or error."""
        self._secrets += secrets
        return self

    def build(self) -> R:
        """Return the runtime.

        Raises:
            Rejected: there are packages and somebody else who knows packages.
        """
        if "resolver" in self._ports and len(self._registry):
            raise bad_setup(
                "a package resolver knows all packages: give a resolver, or agents and packages, not both"
            )
        ports: _Ports = {**self._ports}
        if ports.get("four_eyes") and not ports.get("responders"):
            raise bad_setup("four eyes need to know whose: name the responders, two of them or more")
        ports.setdefault("is_attended", "approvals" in ports)
        return self._make(
            RuntimePorts(
                self._machine,
                RedactingScribe(self._secrets),
                registry=self._registry.copy(),
                providers={**self._providers},
                routes={**self._routes},
                hooks={**self._hooks},
                sinks={**self._sinks},
                **ports,
            )
        )

    def _set(self, name: str, value: object, *, replace: bool) -> Self:
        ports = cast(dict[str, object], self._ports)
        _put(ports, name, value, what="port", replace=replace)
        return self


K = TypeVar("K")
V = TypeVar("V")


def _put(known: dict[K, V], key: K, value: V, *, what: str, replace: bool) -> None:
    if key in known and not replace:
        raise bad_setup(f"the {what} {_shown(key)} was given before; write replace=True to replace it")
    known[key] = value


def _shown(key: object) -> str:
    if not isinstance(key, tuple):
        return str(key)
    package_id, name = cast(tuple[str | None, str], key)
    return name if package_id is None else f"{name} of package {package_id}"


def _named(value: str, field: str) -> str:
    if not value:
        raise invalid_package(f"missing required field: {field}")
    return value
