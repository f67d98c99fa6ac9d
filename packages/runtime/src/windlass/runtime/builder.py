"""AgentRuntimeBuilder: a runtime assembled port by port.

Nothing has to be given: the first run that needs a missing port is refused before anything is written.
Nothing that was given is overwritten unless the caller says `replace=True`. `RuntimePorts` declares each port
and option with its default and its check.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as changed
from typing import Final, Generic, Self, TypeVar, Unpack, cast

from windlass.agent.agent import Agent, AnyAgent
from windlass.agent.hooks import Hook
from windlass.engine.provider_limits import ProviderLimits
from windlass.engine.scribe import RedactingScribe
from windlass.ports.clock import Clock, IdFactory, Random
from windlass.ports.feed import EventBus
from windlass.ports.host import ApprovalDispatcher, OutputSink, PackageResolver, StartPolicy, ToolPolicy
from windlass.ports.interpreter import Interpreter
from windlass.ports.machine import Machine
from windlass.ports.model import LLMProvider, ProviderSource
from windlass.ports.sandbox import SandboxAdapter
from windlass.ports.store import ContentStore, Store
from windlass.ports.wakes import Wakes
from windlass.refusals import (
    bad_setup,
    check_callable,
    check_items,
    check_ms,
    check_name,
    check_options,
    check_part,
    check_port,
)
from windlass.runtime.options import RuntimeOptions
from windlass.runtime.registry import (
    DISPATCH_TIMEOUT_MS,
    ApprovalPort,
    Dependencies,
    PackageChange,
    PackageChangeValue,
    Registry,
    RuntimePorts,
    ToolRoute,
    checked,
    register_agent,
    register_package,
)
from windlass.tools import AnyTool, Tool
from windlass.tools.deps import DepsFactory, can_provide, name_of
from windlass_harness.loop.rules import Rules
from windlass_protocol import RuntimePackage

R = TypeVar("R")
K = TypeVar("K")
V = TypeVar("V")

_MODEL: Final = "an LLMProvider: an object with stream()"
_MACHINE: Final = "a Machine(clock, new_id, random) of windlass.parts"


class AgentRuntimeBuilder(Generic[R]):
    """Makes a runtime of ports; every method returns the builder.

    A method raises `Rejected` for a value that cannot be used, and for a port that was given before unless
    `replace` is set.
    """

    def __init__(self, make: Callable[[RuntimePorts], R], machine: Machine) -> None:
        self._make = make
        self._ports = RuntimePorts(machine, RedactingScribe(()), registry=Registry())
        self._given: set[str] = set()
        self._secrets: list[str] = []

    def options(self, **options: Unpack[RuntimeOptions]) -> Self:
        """Take options by their names, as `AgentRuntime.open` does."""
        check_options(options, RuntimeOptions, what="options")
        self.secrets(options.get("secrets", ())).providers(options.get("providers", {}))
        self.hook_executor_registry(options.get("hooks", ()))
        for sink in check_items(options.get("output_sinks", ()), object, what="output_sinks", words="sinks"):
            self.output_sink(sink)
        if "machine" in options:
            machine = check_part(options["machine"], Machine, what="machine", words=_MACHINE)
            self.clock(machine.clock).ids(machine.new_id).random(machine.random)
        if "deps" in options:
            self.deps(options["deps"])
        if "approval_dispatcher" in options:
            self.approval_dispatcher(options["approval_dispatcher"])
        # All others are ports of the same name.
        return self._set({name: value for name, value in options.items() if name not in _NAMED})

    # models

    def provider(self, route_id: str, provider: LLMProvider, *, replace: bool = False) -> Self:
        """Set the model that answers for a route."""
        name = check_name(route_id, "route_id")
        check_port(provider, f"the provider of {name}", has=("stream",), words=_MODEL)
        return self._add(
            "providers", self._ports.providers, {name: provider}, what="provider", replace=replace
        )

    def providers(self, providers: Mapping[str, LLMProvider], *, replace: bool = False) -> Self:
        """Set the models that answer for several routes."""
        check_part(providers, Mapping, what="providers", words="a dictionary of routes and LLMProviders")
        for route_id, provider in providers.items():
            self.provider(route_id, provider, replace=replace)
        return self

    def provider_source(self, source: ProviderSource, *, replace: bool = False) -> Self:
        """Set the source of models for all other routes; it is closed with the runtime."""
        return self._with(replace=replace, provider_source=source)

    def interpreter(self, interpreter: Interpreter, *, replace: bool = False) -> Self:
        """Set the interpreter of programs; it is closed with the runtime."""
        return self._with(replace=replace, interpreter=interpreter)

    def sandboxes(self, sandboxes: Mapping[str, SandboxAdapter], *, replace: bool = False) -> Self:
        """Set the adapters of sandboxes, by name; they are closed with the runtime."""
        return self._with(replace=replace, sandboxes=sandboxes)

    # agents and packages

    def deps(self, factories: Mapping[AnyAgent, DepsFactory[object]], *, replace: bool = False) -> Self:
        """Set the functions that make the dependencies of agents."""
        check_part(factories, Mapping, what="deps", words="a dictionary of agents and functions of a RunInfo")
        all_factories = dict(self._ports.deps.factories)
        for agent, factory in factories.items():
            check_part(agent, Agent, what="a key of deps", words="an Agent(…)")
            if agent.deps is None:
                raise bad_setup(f"deps: agent {agent.name} has no dependencies; write Agent(…, deps=Type)")
            if agent.name in all_factories and not replace:
                raise _duplicate_error("factory of agent", agent.name)
            expected = "a function of a RunInfo"
            check_callable(factory, what=f"the factory of agent {agent.name}", words=expected)
            if not can_provide(factory, agent.deps):
                raise bad_setup(
                    f"deps: the factory of agent {agent.name} makes {name_of(factory)}, and the agent needs "
                    f"{name_of(agent.deps)}"
                )
            all_factories[agent.name] = factory
        self._ports = changed(self._ports, deps=Dependencies(all_factories))
        return self

    def agent(self, agent: AnyAgent, *, replace: bool = False) -> Self:
        """Add an agent with its package, tools, hooks, policy and model."""
        check_part(agent, Agent, what="an agent", words="an Agent(…)")
        self._ports.registry.add(register_agent(agent), replace=replace)
        return self

    def package(self, package: RuntimePackage, *, replace: bool = False) -> Self:
        """Add a package; its model, tools and hooks are looked up by their names.

        Raises:
            Rejected: it cannot be run.
        """
        self._ports.registry.add(register_package(package), replace=replace)
        return self

    def default_package(self, package: RuntimePackage, *, replace: bool = False) -> Self:
        """Add the package of requests that name none."""
        self.package(package, replace=replace)
        return self.default_package_id(package.package_id, replace=replace)

    def default_package_id(self, package_id: str, *, replace: bool = False) -> Self:
        """Name the package of requests that name none."""
        return self._with(replace=replace, default_package_id=package_id)

    def package_resolver(self, resolver: PackageResolver, *, replace: bool = False) -> Self:
        """Look packages up with a resolver, instead of adding them here."""
        return self._with(replace=replace, resolver=resolver)

    def package_change(self, change: PackageChange | PackageChangeValue, *, replace: bool = False) -> Self:
        """Continue (the default), move or refuse runs of an agent that has changed since they began."""
        return self._with(replace=replace, package_change=change)

    # stores

    def journal(self, store: Store, *, replace: bool = False) -> Self:
        """Set the store of records; the runtime closes it when it is closed."""
        return self._with(replace=replace, store=store)

    def event_bus(self, bus: EventBus, *, replace: bool = False) -> Self:
        """Set the feed that shows records to subscribers."""
        return self._with(replace=replace, bus=bus)

    def content(self, content: ContentStore, *, replace: bool = False) -> Self:
        """Set the store of packages and large values."""
        return self._with(replace=replace, content=content)

    # policies and approvals

    def policy(self, policy: StartPolicy, *, replace: bool = False) -> Self:
        """Set the policy that decides whether a run may start; there is no default."""
        return self._with(replace=replace, start_policy=policy)

    def tool_policy(self, policy: ToolPolicy, *, replace: bool = False) -> Self:
        """Set the policy of tool calls, instead of the policies of the agents."""
        return self._with(replace=replace, tool_policy=policy)

    def policy_timeout(self, after_ms: int, *, replace: bool = False) -> Self:
        """Set how long a policy may take to decide; a policy that takes longer has denied.

        It is for policies that await something: one that blocks the event loop cannot be interrupted.
        """
        return self._with(replace=replace, policy_timeout_ms=after_ms)

    def approval_dispatcher(
        self,
        dispatcher: ApprovalDispatcher,
        *,
        timeout_ms: int = DISPATCH_TIMEOUT_MS,
        replace: bool = False,
    ) -> Self:
        """Set the dispatcher that brings requests to people; a runtime with a dispatcher is attended."""
        expected = "an object with dispatch(request, session_id=…, run_id=…)"
        check_port(dispatcher, "an approval dispatcher", has=("dispatch",), words=expected)
        return self._with(
            replace=replace, approvals=ApprovalPort(dispatcher, check_ms(timeout_ms, "timeout_ms"))
        )

    def shared_approval_dispatcher(self, dispatcher: ApprovalDispatcher, *, replace: bool = False) -> Self:
        """Set a dispatcher that other runtimes may use too."""
        return self.approval_dispatcher(dispatcher, replace=replace)

    def attended(self, *, is_attended: bool = True, replace: bool = False) -> Self:
        """Set whether people answer requests; in an unattended runtime, calls that need consent are denied.

        When left out, a runtime is attended if it has an approval dispatcher.
        """
        return self._with(replace=replace, is_attended=is_attended)

    def responders(self, names: Iterable[str], *, replace: bool = False) -> Self:
        """Name the people who may answer; without this, any responder may."""
        return self._with(replace=replace, responders=names)

    def four_eyes(self, *, is_required: bool = True, replace: bool = False) -> Self:
        """Require that the person who asked for a run does not consent to its calls.

        The `source` of a run names who asked for it; that name is left out of the responders of every request
        for consent, in any spelling. A call is denied if its run has no source, or if no other responder is
        left. The responders have to be named.
        """
        return self._with(replace=replace, four_eyes=is_required)

    def approvals_expire(self, after_ms: int, *, replace: bool = False) -> Self:
        """Set how long a request for consent stays open; without end when left out."""
        return self._with(replace=replace, approval_expires_ms=after_ms)

    def retention(self, days: int, *, replace: bool = False) -> Self:
        """Set after how many days ended sessions are deleted; never when left out."""
        return self._with(replace=replace, retention_days=days)

    # tools, hooks, sinks

    def tool_route(self, route: ToolRoute, *, replace: bool = False) -> Self:
        """Set the tool that runs when a package names one; other packages are not affected."""
        check_part(route, ToolRoute, what="a tool route", words="a ToolRoute(…)")
        check_part(route.tool, Tool, what="the tool of a route", words="a function with @tool")
        name = check_name(route.tool_name, "tool_name")
        tool = route.tool if route.tool.name == name else changed(route.tool, name=name)
        key = (route.package_id, name)
        return self._add("routes", self._ports.routes, {key: tool}, what="tool route", replace=replace)

    def tool_routes(self, routes: Iterable[ToolRoute], *, replace: bool = False) -> Self:
        """Add several routes."""
        for route in check_items(routes, ToolRoute, what="tool_routes", words="ToolRoutes"):
            self.tool_route(route, replace=replace)
        return self

    def tool_executor(self, tool: AnyTool, *, replace: bool = False) -> Self:
        """Add a tool for every package that names it."""
        check_part(tool, Tool, what="a tool", words="a function with @tool")
        return self.tool_route(ToolRoute(tool.name, cast("Tool[..., object]", tool)), replace=replace)

    def tool_executors(self, tools: Iterable[AnyTool], *, replace: bool = False) -> Self:
        """Add several tools for every package that names them."""
        for tool in check_items(tools, Tool, what="tool_executors", words="functions with @tool"):
            self.tool_executor(tool, replace=replace)
        return self

    def hook_executor_registry(self, hooks: Iterable[Hook], *, replace: bool = False) -> Self:
        """Add hooks for every package that names them."""
        for hook in check_items(hooks, Hook, what="hooks", words="functions with @hook"):
            self._add("hooks", self._ports.hooks, {hook.spec.hook_id: hook}, what="hook", replace=replace)
        return self

    def output_sink(self, sink: OutputSink, *, replace: bool = False) -> Self:
        """Add a sink that output is delivered to, for every package that names it."""
        expected = "an object with a sink_id and deliver(output)"
        check_port(sink, "an output sink", has=("deliver",), words=expected)
        name = check_name(getattr(sink, "sink_id", None), "sink_id")
        return self._add("sinks", self._ports.sinks, {name: sink}, what="output sink", replace=replace)

    # the machine

    def clock(self, clock: Clock) -> Self:
        """Use this clock instead of the machine's."""
        expected = "a Clock: an object with now(), monotonic() and sleep()"
        check_port(clock, "the clock", has=("now", "monotonic", "sleep"), words=expected)
        return self._machine(changed(self._ports.machine, clock=clock))

    def ids(self, new_id: IdFactory) -> Self:
        """Make new ids with this function."""
        check_callable(new_id, "ids", words="a function that returns a new text each time")
        return self._machine(changed(self._ports.machine, new_id=new_id))

    def random(self, random: Random) -> Self:
        """Take random numbers from this function."""
        check_callable(random, "random", words="a function that returns a number from 0 to 1")
        return self._machine(changed(self._ports.machine, random=random))

    def rules(self, rules: Rules, *, replace: bool = False) -> Self:
        """Set the limits of the loop."""
        return self._with(replace=replace, rules=rules)

    def retry_for(self, duration_ms: int, *, replace: bool = False) -> Self:
        """Set how long model calls are retried while the provider is away."""
        return self._with(replace=replace, retry_for_ms=duration_ms)

    def wakes(self, wakes: Wakes, *, replace: bool = False) -> Self:
        """Set what has sessions driven, here or elsewhere; it is opened and closed with the runtime."""
        return self._with(replace=replace, wakes=wakes)

    def driving(self, *, is_driving: bool = True, replace: bool = False) -> Self:
        """Set whether this process drives sessions; if not, it starts and answers, and others drive."""
        return self._with(replace=replace, is_driving=is_driving)

    def drain_s(self, seconds: float, *, replace: bool = False) -> Self:
        """Set how long tool calls under way may take to end when the runtime is closed."""
        return self._with(replace=replace, drain_s=seconds)

    def provider_limits(self, limits: ProviderLimits, *, replace: bool = False) -> Self:
        """Set how many model calls are sent at once and each minute; runtimes may share the object."""
        return self._with(replace=replace, provider_limits=limits)

    def secrets(self, secrets: Iterable[str]) -> Self:
        """Add texts that must never reach a record, event, trace or error."""
        all_secrets = [*self._secrets, *check_items(secrets, str, what="secrets", words="texts")]
        try:
            RedactingScribe(all_secrets)
        except ValueError as error:  # its text holds counts and lengths, no secret
            problem = str(error)
        else:
            self._secrets = all_secrets
            return self
        raise bad_setup(f"secrets: {problem}")

    def build(self) -> R:
        """Return the runtime.

        Raises:
            Rejected: there are packages and a package resolver, or the options do not fit together.
        """
        ports = self._ports
        if ports.resolver is not None and len(ports.registry):
            raise bad_setup(
                "a package resolver resolves all packages: give a resolver, or agents and packages, not both"
            )
        if ports.four_eyes and not ports.responders:
            raise bad_setup("four_eyes needs responders: name two people or more")
        scribe = RedactingScribe(self._secrets)
        if any(scribe.redactor.text(name) != name for name in ports.responders or ()):
            # All masked names are equal, so any responder could give one.
            raise bad_setup(
                "the name of a responder would be masked: it is a registered secret or looks like one"
            )
        strange = [name for name in ports.deps.factories if ports.registry.agent(name) is None]
        if strange:
            raise bad_setup(f"deps: the runtime has no agent {strange[0]}; add it to the agents")
        is_attended = ports.is_attended if "is_attended" in self._given else "approvals" in self._given
        return self._make(
            changed(
                ports,
                scribe=scribe,
                registry=ports.registry.copy(),
                deps=Dependencies(ports.deps.factories),
                is_attended=is_attended,
            )
        )

    def _with(self, *, replace: bool = False, **ports: object) -> Self:
        return self._set(ports, replace=replace)

    def _set(self, ports: Mapping[str, object], *, replace: bool = False) -> Self:
        """Set ports by their names in `RuntimePorts`, each checked as it is declared there."""
        for name, value in ports.items():
            good = checked(name, value)
            if name in self._given and not replace:
                raise _duplicate_error("port", name)
            self._given.add(name)
            self._ports = changed(self._ports, **{name: good})
        return self

    def _add(
        self, field: str, values: Mapping[K, V], more: Mapping[K, V], *, what: str, replace: bool
    ) -> Self:
        """Add a value to a port that holds several."""
        for key in more:
            if key in values and not replace:
                raise _duplicate_error(what, key)
        self._ports = changed(self._ports, **{field: {**values, **more}})
        return self

    def _machine(self, machine: Machine) -> Self:
        self._ports = changed(self._ports, machine=machine)
        return self


_NAMED: Final = frozenset(
    {
        "secrets",
        "providers",
        "hooks",
        "output_sinks",
        "machine",
        "approval_dispatcher",
        "deps",
    }
)
"""Options that are not a port of the same name."""


def _duplicate_error(kind: str, key: object) -> Exception:
    name = str(key)
    if isinstance(key, tuple):
        package_id, tool_name = cast(tuple[str | None, str], key)
        name = tool_name if package_id is None else f"{tool_name} of package {package_id}"
    return bad_setup(f"the {kind} {name} was given before; write replace=True to replace it")
