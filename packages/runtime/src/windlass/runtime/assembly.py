"""The assembly of a runtime from options: each is checked, and none is overwritten unawares.

Nothing has to be given: the first run that needs a missing port is refused before anything is written.
Nothing that was given is overwritten unless the caller says `replace=True`. `PartOptions` names the options;
`RuntimePorts` has their defaults and checks. The generated `AgentRuntimeBuilder` adds a method for each part.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as changed
from typing import Final, Generic, Self, TypeVar, Unpack, cast

from windlass.agent.agent import Agent, AnyAgent
from windlass.agent.hooks import Hook
from windlass.engine.writing.scribe import RedactingScribe
from windlass.ports.host import OutputSink
from windlass.ports.machine import Machine
from windlass.ports.model import LLMProvider
from windlass.refusals import (
    bad_setup,
    check_callable,
    check_items,
    check_name,
    check_options,
    check_part,
    check_port,
)
from windlass.runtime.options import PartOptions
from windlass.runtime.registry import (
    Dependencies,
    Registry,
    RuntimePorts,
    ToolRoute,
    normalise_port,
    register_agent,
    register_package,
)
from windlass.tools import Tool
from windlass.tools.deps import DepsFactory, can_provide, name_of
from windlass_protocol import RuntimePackage

R = TypeVar("R")
K = TypeVar("K")
V = TypeVar("V")

_MODEL: Final = "an LLMProvider: an object with stream()"
_MACHINE: Final = "a Machine(clock, new_id, random) of windlass.parts"
_PORTS: Final = {"journal": "store", "event_bus": "bus", "package_resolver": "resolver"}
"""Options with another name than their port."""
_GROUPED: Final = frozenset(
    {
        "secrets",
        "providers",
        "hooks",
        "output_sinks",
        "machine",
        "clock",
        "ids",
        "random",
        "deps",
        "agents",
        "packages",
        "default_package",
        "tool_routes",
        "tool_executors",
    }
)
"""Options that are not one port each."""


class Assembly(Generic[R]):
    """Makes a runtime of options; every method returns the assembly.

    A method raises `Rejected` for a value that cannot be used, and for an option that was given before unless
    `replace` is set.
    """

    def __init__(self, make: Callable[[RuntimePorts], R], machine: Machine) -> None:
        self._make = make
        self._ports = RuntimePorts(machine, RedactingScribe(()), registry=Registry())
        self._given: set[str] = set()
        self._secrets: list[str] = []

    def options(self, *, replace: bool = False, **options: Unpack[PartOptions]) -> Self:
        """Take options by their names; those that hold several values add to what was given."""
        check_options(options, PartOptions, what="options", beside=("replace",))
        self._give_secrets(options.get("secrets", ()))
        self._give_providers(options.get("providers", {}), replace=replace)
        for hook in check_items(options.get("hooks", ()), Hook, what="hooks", words="functions with @hook"):
            self._add("hooks", self._ports.hooks, {hook.spec.hook_id: hook}, what="hook", replace=replace)
        self._give_sinks(options.get("output_sinks", ()), replace=replace)
        self._give_machine(options)
        if "deps" in options:
            self._give_deps(options["deps"], replace=replace)
        self._give_packages(options, replace=replace)
        routes = check_items(
            options.get("tool_routes", ()), ToolRoute, what="tool_routes", words="ToolRoutes"
        )
        expected = "functions with @tool"
        tools = check_items(options.get("tool_executors", ()), Tool, what="tool_executors", words=expected)
        for route in (*routes, *(ToolRoute(tool.name, cast("Tool[..., object]", tool)) for tool in tools)):
            self._give_route(route, replace=replace)
        # All others are ports.
        for name, value in options.items():
            if name not in _GROUPED:
                self._give_port(name, value, replace=replace)
        return self

    def _give_port(self, name: str, value: object, *, replace: bool) -> None:
        """Set an option that is a port, checked as it is declared there."""
        port = _PORTS.get(name, name)
        good = normalise_port(port, value)
        if name in self._given and not replace:
            raise _duplicate_error("option", name)
        self._given.add(name)
        self._ports = changed(self._ports, **{port: good})

    def _give_providers(self, providers: Mapping[str, LLMProvider], *, replace: bool) -> None:
        check_part(providers, Mapping, what="providers", words="a dictionary of routes and LLMProviders")
        for route_id, provider in providers.items():
            name = check_name(route_id, "route_id")
            check_port(provider, f"the provider of {name}", has=("stream",), words=_MODEL)
            self._add("providers", self._ports.providers, {name: provider}, what="provider", replace=replace)

    def _give_packages(self, options: PartOptions, *, replace: bool) -> None:
        for agent in check_items(options.get("agents", ()), Agent, what="agents", words="agents"):
            self._ports.registry.add(register_agent(agent), replace=replace)
        packages = options.get("packages", ())
        for package in check_items(packages, RuntimePackage, what="packages", words="RuntimePackages"):
            self._ports.registry.add(register_package(package), replace=replace)
        if "default_package" in options:
            expected = "a RuntimePackage(…)"
            package = options["default_package"]
            check_part(package, RuntimePackage, what="default_package", words=expected)
            self._ports.registry.add(register_package(package), replace=replace)
            self._give_port("default_package_id", package.package_id, replace=replace)

    def _give_route(self, route: ToolRoute, *, replace: bool) -> None:
        check_part(route.tool, Tool, what="the tool of a route", words="a function with @tool")
        name = check_name(route.tool_name, "tool_name")
        tool = route.tool if route.tool.name == name else changed(route.tool, name=name)
        key = (route.package_id, name)
        self._add("routes", self._ports.routes, {key: tool}, what="tool route", replace=replace)

    def _give_sinks(self, sinks: Iterable[OutputSink], *, replace: bool) -> None:
        expected = "an object with a sink_id and deliver(output)"
        for sink in check_items(sinks, object, what="output_sinks", words="sinks"):
            check_port(sink, "an output sink", has=("deliver",), words=expected)
            name = check_name(getattr(sink, "sink_id", None), "sink_id")
            self._add("sinks", self._ports.sinks, {name: sink}, what="output sink", replace=replace)

    def _give_machine(self, options: PartOptions) -> None:
        machine = self._ports.machine
        if "machine" in options:
            parts = check_part(options["machine"], Machine, what="machine", words=_MACHINE)
            machine = changed(machine, clock=parts.clock, new_id=parts.new_id, random=parts.random)
        if "clock" in options:
            machine = changed(machine, clock=options["clock"])
        if "ids" in options:
            machine = changed(machine, new_id=options["ids"])
        if "random" in options:
            machine = changed(machine, random=options["random"])
        expected = "a Clock: an object with now(), monotonic() and sleep()"
        check_port(machine.clock, "the clock", has=("now", "monotonic", "sleep"), words=expected)
        check_callable(machine.new_id, "ids", words="a function that returns a new text each time")
        check_callable(machine.random, "random", words="a function that returns a number from 0 to 1")
        self._ports = changed(self._ports, machine=machine)

    def _give_deps(self, factories: Mapping[AnyAgent, DepsFactory[object]], *, replace: bool) -> None:
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

    def _give_secrets(self, secrets: Iterable[str]) -> None:
        all_secrets = [*self._secrets, *check_items(secrets, str, what="secrets", words="texts")]
        try:
            RedactingScribe(all_secrets)
        except ValueError as error:  # its text holds counts and lengths, no secret
            problem = str(error)
        else:
            self._secrets = all_secrets
            return
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
        is_attended = (
            ports.is_attended if "is_attended" in self._given else "approval_dispatcher" in self._given
        )
        return self._make(
            changed(
                ports,
                scribe=scribe,
                registry=ports.registry.copy(),
                deps=Dependencies(ports.deps.factories),
                is_attended=is_attended,
            )
        )

    def _add(
        self, field: str, values: Mapping[K, V], more: Mapping[K, V], *, what: str, replace: bool
    ) -> None:
        """Add a value to a port that holds several."""
        for key in more:
            if key in values and not replace:
                raise _duplicate_error(what, key)
        self._ports = changed(self._ports, **{field: {**values, **more}})


def _duplicate_error(kind: str, key: object) -> Exception:
    name = str(key)
    if isinstance(key, tuple):
        package_id, tool_name = cast(tuple[str | None, str], key)
        name = tool_name if package_id is None else f"{tool_name} of package {package_id}"
    return bad_setup(f"the {kind} {name} was given before; write replace=True to replace it")
