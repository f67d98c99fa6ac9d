"""AgentRuntimeBuilder: a runtime assembled port by port.

Nothing has to be given: whatever is missing is found out when it is first needed, and the run that needed it
is refused before anything is written. Nothing that was given is dropped or overwritten silently: who means to
replace something says so.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as changed
from typing import Final, Generic, Self, TypedDict, TypeVar, cast

from windlass.agent import Agent
from windlass.errors import kind_of
from windlass.hooks import Hook
from windlass.ports.clock import Clock, IdFactory, Random
from windlass.ports.feed import EventBus
from windlass.ports.host import ApprovalDispatcher, OutputSink, PackageResolver, StartPolicy, ToolPolicy
from windlass.ports.model import LLMProvider, ProviderSource
from windlass.ports.store import ContentStore, Store
from windlass.refusals import (
    bad_setup,
    check_callable,
    check_flag,
    check_items,
    check_ms,
    check_part,
    check_port,
    invalid_package,
)
from windlass.runtime.registry import (
    DISPATCH_TIMEOUT_MS,
    ApprovalPort,
    Machine,
    PackageChange,
    Registry,
    RuntimePorts,
    ToolRoute,
    register_agent,
    register_package,
)
from windlass.scribe import RedactingScribe
from windlass.tools import Tool
from windlass_harness.loop.rules import Rules
from windlass_protocol import RuntimePackage

R = TypeVar("R")

_MODEL: Final = "an LLMProvider: an object with stream()"
_STORE: Final = "a store, such as MemoryStore() or await SqliteStore.open(path) of windlass.parts"


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
    policy_timeout_ms: int
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
        name = _named(route_id, "route_id")
        check_port(provider, f"the provider of {name}", has=("stream",), words=_MODEL)
        _put(self._providers, name, provider, what="provider", replace=replace)
        return self

    def providers(self, providers: Mapping[str, LLMProvider], *, replace: bool = False) -> Self:
        """Say who answers for several routes."""
        check_part(providers, Mapping, what="providers", words="a dictionary of routes and LLMProviders")
        for route_id, provider in providers.items():
            self.provider(route_id, provider, replace=replace)
        return self

    def provider_source(self, source: ProviderSource, *, replace: bool = False) -> Self:
        """Say who answers for all other routes; it is closed with the runtime."""
        words = "an object with provider(route_id, model_id) and aclose()"
        checked = check_port(source, "a provider source", has=("provider", "aclose"), words=words)
        return self._set("provider_source", checked, replace=replace)

    # agents and packages

    def agent(self, agent: Agent, *, replace: bool = False) -> Self:
        """Add an agent with its package, tools, hooks, policy and model."""
        check_part(agent, Agent, what="an agent", words="an Agent(…)")
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
        words = "an object with resolve(package_id)"
        checked = check_port(resolver, "a package resolver", has=("resolve",), words=words)
        return self._set("resolver", checked, replace=replace)

    def package_change(self, change: PackageChange | str, *, replace: bool = False) -> Self:
        """Say what becomes of runs whose agent has changed; they continue when left out."""
        known = [member.value for member in PackageChange]
        if change not in known:
            raise bad_setup(f"package_change is one of {', '.join(known)}; found {change!r}")
        return self._set("package_change", PackageChange(change), replace=replace)

    # stores

    def journal(self, store: Store, *, replace: bool = False) -> Self:
        """Say where records are kept; the runtime closes the store when it is closed."""
        checked = check_port(store, "the journal", has=("append", "post", "claim", "aclose"), words=_STORE)
        return self._set("store", checked, replace=replace)

    def event_bus(self, bus: EventBus, *, replace: bool = False) -> Self:
        """Say how records reach those who watch."""
        words = "a feed, such as Feed(store, clock) of windlass.parts"
        checked = check_port(bus, "the event bus", has=("publish", "subscribe_run"), words=words)
        return self._set("bus", checked, replace=replace)

    def content(self, content: ContentStore, *, replace: bool = False) -> Self:
        """Say where packages and large values are kept."""
        checked = check_port(content, "the content store", has=("put", "get"), words=_STORE)
        return self._set("content", checked, replace=replace)

    # what may be done

    def policy(self, policy: StartPolicy, *, replace: bool = False) -> Self:
        """Say who decides whether a run may start; there is no default."""
        words = "a function of a RunRequest and a RuntimePackage, such as allow_start of windlass.parts"
        return self._set("start_policy", check_callable(policy, "policy", words=words), replace=replace)

    def tool_policy(self, policy: ToolPolicy, *, replace: bool = False) -> Self:
        """Say who decides about tool calls, instead of the policies of the agents."""
        words = "an object with version, before() and after(), such as RulesPolicy of windlass.parts"
        check_port(policy, "tool_policy", has=("before", "after"), words=words)
        check_part(getattr(policy, "version", None), str, what="the version of a tool_policy", words="a text")
        return self._set("tool_policy", policy, replace=replace)

    def policy_timeout(self, after_ms: int, *, replace: bool = False) -> Self:
        """Say how long a policy may take to decide; one that takes longer has said no.

        It is for policies that wait for something. One that is busy in the event loop cannot be cut off.
        """
        return self._set("policy_timeout_ms", check_ms(after_ms, "policy_timeout_ms"), replace=replace)

    def approval_dispatcher(
        self,
        dispatcher: ApprovalDispatcher,
        *,
        timeout_ms: int = DISPATCH_TIMEOUT_MS,
        replace: bool = False,
    ) -> Self:
        """Say who takes requests to people; a runtime that has somebody is attended."""
        words = "an object with dispatch(request, session_id=…, run_id=…)"
        check_port(dispatcher, "an approval dispatcher", has=("dispatch",), words=words)
        port = ApprovalPort(dispatcher, check_ms(timeout_ms, "timeout_ms"))
        return self._set("approvals", port, replace=replace)

    def shared_approval_dispatcher(self, dispatcher: ApprovalDispatcher, *, replace: bool = False) -> Self:
        """Say who takes requests to people, for other runtimes too maybe."""
        return self.approval_dispatcher(dispatcher, replace=replace)

    def attended(self, *, is_attended: bool = True, replace: bool = False) -> Self:
        """Say whether somebody answers requests.

        When nobody does, whatever needs consent is denied. When left out, a runtime is attended if it has an
        approval dispatcher.
        """
        return self._set("is_attended", check_flag(is_attended, "is_attended"), replace=replace)

    def responders(self, names: Iterable[str], *, replace: bool = False) -> Self:
        """Name those who may answer; anybody when left out."""
        checked = check_items(names, str, what="responders", words="names of people")
        return self._set("responders", checked, replace=replace)

    def four_eyes(self, *, is_required: bool = True, replace: bool = False) -> Self:
        """Say that whoever asked for a run may not consent to what it does.

        The `source` of a run names who asked for it; it is left out of the responders of every request for
        consent, however it is written. A call of a run that does not say who asked for it, and one that
        nobody else may consent to, is denied. The responders have to be named.
        """
        return self._set("four_eyes", check_flag(is_required, "four_eyes"), replace=replace)

    def approvals_expire(self, after_ms: int, *, replace: bool = False) -> Self:
        """Say how long a request for consent stays open; for ever when left out."""
        return self._set("approval_expires_ms", check_ms(after_ms, "approval_expires_ms"), replace=replace)

    # tools, hooks, sinks

    def tool_route(self, route: ToolRoute, *, replace: bool = False) -> Self:
        """Say what runs when a package names a tool; other packages do not notice."""
        check_part(route, ToolRoute, what="a tool route", words="a ToolRoute(…)")
        check_part(route.tool, Tool, what="the tool of a route", words="a function with @tool")
        name = _named(route.tool_name, "tool_name")
        tool = route.tool if route.tool.name == name else changed(route.tool, name=name)
        _put(self._routes, (route.package_id, name), tool, what="tool route", replace=replace)
        return self

    def tool_routes(self, routes: Iterable[ToolRoute], *, replace: bool = False) -> Self:
        """Add several routes."""
        for route in check_items(routes, ToolRoute, what="tool_routes", words="ToolRoutes"):
            self.tool_route(route, replace=replace)
        return self

    def tool_executor(self, tool: Tool[..., object], *, replace: bool = False) -> Self:
        """Add a tool for every package that names it."""
        check_part(tool, Tool, what="a tool", words="a function with @tool")
        return self.tool_route(ToolRoute(tool.name, tool), replace=replace)

    def tool_executors(self, tools: Iterable[Tool[..., object]], *, replace: bool = False) -> Self:
        """Add several tools for every package that names them."""
        for tool in check_items(tools, Tool, what="tool_executors", words="functions with @tool"):
            self.tool_executor(tool, replace=replace)
        return self

    def hook_executor_registry(self, hooks: Iterable[Hook], *, replace: bool = False) -> Self:
        """Add hooks for every package that names them."""
        for hook in check_items(hooks, Hook, what="hooks", words="functions with @hook"):
            _put(self._hooks, hook.spec.hook_id, hook, what="hook", replace=replace)
        return self

    def output_sink(self, sink: OutputSink, *, replace: bool = False) -> Self:
        """Add somewhere that output is delivered to, for every package that names it."""
        words = "an object with a sink_id and deliver(output)"
        check_port(sink, "an output sink", has=("deliver",), words=words)
        name = _named(getattr(sink, "sink_id", None), "sink_id")
        _put(self._sinks, name, sink, what="output sink", replace=replace)
        return self

    # the machine

    def clock(self, clock: Clock) -> Self:
        """Use this clock instead of the machine's."""
        words = "a Clock: an object with now(), monotonic() and sleep()"
        checked = check_port(clock, "the clock", has=("now", "monotonic", "sleep"), words=words)
        self._machine = changed(self._machine, clock=checked)
        return self

    def ids(self, new_id: IdFactory) -> Self:
        """Take new names from here."""
        checked = check_callable(new_id, "ids", words="a function that returns a new text each time")
        self._machine = changed(self._machine, new_id=checked)
        return self

    def random(self, random: Random) -> Self:
        """Take chance from here."""
        checked = check_callable(random, "random", words="a function that returns a number from 0 to 1")
        self._machine = changed(self._machine, random=checked)
        return self

    def rules(self, rules: Rules, *, replace: bool = False) -> Self:
        """Set the limits of the loop."""
        words = "Rules(…) of windlass.parts, such as Rules(steps_max=100)"
        return self._set("rules", check_part(rules, Rules, what="rules", words=words), replace=replace)

    def secrets(self, secrets: Iterable[str]) -> Self:
        """Add texts that must never reach a record, event, trace or error."""
        known = [*self._secrets, *check_items(secrets, str, what="secrets", words="texts")]
        try:
            RedactingScribe(known)
        except ValueError as error:  # its words count and measure, and quote no secret
            problem = str(error)
        else:
            self._secrets = known
            return self
        raise bad_setup(f"secrets: {problem}")

    def build(self) -> R:
        """Return the runtime.

        Raises:
            Rejected: there are packages and somebody else who knows packages; or what was given does not fit
                together.
        """
        if "resolver" in self._ports and len(self._registry):
            raise bad_setup(
                "a package resolver knows all packages: give a resolver, or agents and packages, not both"
            )
        ports: _Ports = {**self._ports}
        if ports.get("four_eyes") and not ports.get("responders"):
            raise bad_setup("four eyes need to know whose: name the responders, two of them or more")
        ports.setdefault("is_attended", "approvals" in ports)
        scribe = RedactingScribe(self._secrets)
        if any(scribe.redactor.text(name) != name for name in ports.get("responders") or ()):
            # Two names that are masked are one name, which anybody may give.
            raise bad_setup("a responder's name would be masked, as a secret or as what looks like one")
        return self._make(
            RuntimePorts(
                self._machine,
                scribe,
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


def _named(value: object, field: str) -> str:
    if not value:
        raise invalid_package(f"missing required field: {field}")
    if not isinstance(value, str):
        raise invalid_package(f"{field} is a text, found {kind_of(value)}")
    return value
