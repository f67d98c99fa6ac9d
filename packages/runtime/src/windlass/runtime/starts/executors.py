"""What stands behind the names of a package in this process: models, hooks, tools and sandboxes."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, cast

from windlass.agent.agent import subagent_tool
from windlass.agent.hooks import Hook
from windlass.agent.package import compaction_route, fallback_routes, is_batched
from windlass.engine.spending.spend_limits import SpendLimit
from windlass.engine.tool_calls.subagents import Task
from windlass.errors import AgentError
from windlass.ports.batches import BatchProvider
from windlass.ports.model import LLMProvider
from windlass.ports.sandbox import SandboxAdapter, SandboxPlace
from windlass.prices import OwnPrices, Tariff, tariff_of
from windlass.refusals import bad_setup, missing_agent, missing_price, missing_provider, no_batches
from windlass.runtime.registry import RuntimePorts
from windlass.tools import Tool, as_pinned, with_undo_tools
from windlass.tools.programs import program_tools
from windlass_harness.views.payloads import model_name
from windlass_harness.views.runs import RunState
from windlass_protocol import CausalIds, JsonObject, ProviderRoute, RuntimePackage, SandboxSpec
from windlass_protocol.generated.event_data import SandboxOwner

_NO_HOOKS: Final[Mapping[str, Hook]] = {}
_NO_TOOLS: Final[Mapping[str, Tool[..., object]]] = {}


def provider_of(ports: RuntimePorts, package: RuntimePackage, *, run_id: str | None = None) -> LLMProvider:
    """Return the model of a package.

    Raises:
        Unavailable: no provider serves it.
    """
    route_id = package.provider_route.route_id
    provider = ports.providers.get(route_id)
    registered = ports.registry.agent(package.agent.agent_id)
    if provider is None and registered is not None:
        # The agent's own model serves the current route of the agent, not an earlier one.
        is_same = registered.package.provider_route.route_id == route_id
        brought = ports.registry.model(package.provider_route, registered)
        provider = brought or (registered.provider if is_same else None)
    return _routed_provider(ports, package.provider_route, run_id) if provider is None else provider


def _routed_provider(ports: RuntimePorts, route: ProviderRoute, run_id: str | None) -> LLMProvider:
    """Return the model of a route that no agent brings."""
    provider = ports.providers.get(route.route_id)
    if provider is None and ports.provider_source is not None:
        try:
            provider = ports.provider_source.provider(route.route_id, route.model_id)
        except AgentError as error:
            raise error.caused_by(CausalIds(run_id=run_id)) from None
    if provider is None:
        raise missing_provider(route.route_id, run_id, known=_routes(ports))
    return provider


def fallbacks_of(
    ports: RuntimePorts, package: RuntimePackage, *, run_id: str | None = None
) -> dict[str, LLMProvider]:
    """Return the models that are called when the model of a package is away, by route and model, in order.

    Raises:
        Unavailable: no provider serves one of them.
    """
    registered = ports.registry.agent(package.agent.agent_id)
    agent = None if registered is None else registered.agent
    agent_models = (
        {} if agent is None else dict(zip(agent.fallback_routes, agent.fallback_models, strict=True))
    )
    providers: dict[str, LLMProvider] = {}
    for route in fallback_routes(package):
        model = agent_models.get((route.route_id, route.model_id))
        if model is None or isinstance(model, str):
            model = _routed_provider(ports, route, run_id)
        providers[model_name(route.route_id, route.model_id)] = model
    return providers


def find_provider(ports: RuntimePorts, agent_id: str, route_id: str, model_id: str) -> LLMProvider | None:
    """Return the model of a route that an agent has or had; None if this process does not have it."""
    registered, route = ports.registry.agent(agent_id), ProviderRoute(route_id=route_id, model_id=model_id)
    with suppress(AgentError):
        if registered is None:
            return _routed_provider(ports, route, None)
        fallback = fallbacks_of(ports, registered.package).get(model_name(route_id, model_id))
        package = registered.package.model_copy(update={"provider_route": route})
        return fallback or provider_of(ports, package)
    return None


def check_batches(package: RuntimePackage, provider: LLMProvider, *, run_id: str) -> None:
    """Refuse a package that has its model calls answered in batches, if its model has none.

    Raises:
        Rejected: the provider has no batches.
    """
    if is_batched(package) and not isinstance(provider, BatchProvider):
        raise no_batches(package.agent.agent_id, package.provider_route.route_id, run_id)


def prices_for(ports: RuntimePorts, agent_id: str) -> OwnPrices:
    """Return the prices that the application gives for an agent: its own, then those of the runtime."""
    registered = ports.registry.agent(agent_id)
    agent = None if registered is None else registered.agent
    return ports.prices if agent is None else (*agent.own_prices, *ports.prices)


def check_priced(
    ports: RuntimePorts, package: RuntimePackage, reason: str, *, run_id: str | None = None
) -> None:
    """Refuse a package if a model that its runs may call, or those of its subagents, has no price.

    Raises:
        Rejected: a model has no price; the message says what to add.
    """
    packages, checked = [package], set[str]()
    while packages:
        package = packages.pop()
        checked.add(package.package_id)
        for tariff in _tariffs(ports, package, run_id):
            gap = tariff.gap(ports.machine.clock.now())
            if gap is not None:
                raise missing_price(package.agent.agent_id, tariff.name, gap, reason=reason, run_id=run_id)
        below = [ports.registry.package(spec.package_id) for spec in package.subagents or ()]
        packages += [
            other.package for other in below if other is not None and other.package.package_id not in checked
        ]


def check_limits_priced(
    ports: RuntimePorts, package: RuntimePackage, limits: Iterable[SpendLimit], *, run_id: str
) -> None:
    """Refuse a package without a price for each of its models if its runs count for a limit in money.

    Raises:
        Rejected: a model has no price; the message says what to add.
    """
    for limit in limits:
        if limit.max_cost_micros is not None:
            check_priced(ports, package, f"limit {limit.name} is in money", run_id=run_id)


def has_free_fallback(ports: RuntimePorts, package: RuntimePackage, *, run_id: str | None = None) -> bool:
    """Whether a fallback model of a package costs nothing."""
    own, now = prices_for(ports, package.agent.agent_id), ports.machine.clock.now()
    for name, provider in fallbacks_of(ports, package, run_id=run_id).items():
        route_id, _, model_id = name.partition("/")
        terms = tariff_of(provider, route_id, model_id, own).terms(now, provider)
        if terms is not None and not any(
            price.input + price.output + price.request for price in terms.prices
        ):
            return True
    return False


def _tariffs(ports: RuntimePorts, package: RuntimePackage, run_id: str | None) -> list[Tariff]:
    """Return the prices of the models that a run of a package may call."""
    own, route = prices_for(ports, package.agent.agent_id), package.provider_route
    summary_route = compaction_route(package) or route
    providers = [
        (provider_of(ports, package, run_id=run_id), route.route_id, route.model_id),
        (
            summary_provider_of(ports, package, run_id=run_id),
            summary_route.route_id,
            summary_route.model_id,
        ),
    ]
    for name, provider in fallbacks_of(ports, package, run_id=run_id).items():
        route_id, _, model_id = name.partition("/")
        providers.append((provider, route_id, model_id))
    return [tariff_of(provider, route_id, model_id, own) for provider, route_id, model_id in providers]


def _routes(ports: RuntimePorts) -> list[str]:
    source: object = ports.provider_source
    return [*ports.providers, *cast("tuple[str, ...]", getattr(source, "routes", ()))]


def summary_provider_of(
    ports: RuntimePorts, package: RuntimePackage, *, run_id: str | None = None
) -> LLMProvider:
    """Return the model that writes summaries for a package: its summary model, or else its model.

    Raises:
        Unavailable: no provider serves it.
    """
    route = compaction_route(package)
    registered = ports.registry.agent(package.agent.agent_id)
    if route is None:
        return provider_of(ports, package, run_id=run_id)
    summary_provider = None if registered is None else registered.summary_provider
    if (
        registered is not None
        and summary_provider is not None
        and compaction_route(registered.package) == route
    ):
        return summary_provider
    return provider_of(ports, package.model_copy(update={"provider_route": route}), run_id=run_id)


def hooks_of(ports: RuntimePorts, package: RuntimePackage) -> dict[str, Hook]:
    """Return the functions behind the hooks of a package; the agent's own come first."""
    registered = ports.registry.agent(package.agent.agent_id)
    all_hooks = {**ports.hooks, **(_NO_HOOKS if registered is None else registered.hooks)}
    return {
        spec.hook_id: all_hooks[spec.hook_id] for spec in package.hooks or () if spec.hook_id in all_hooks
    }


def adapter_of(ports: RuntimePorts, spec: SandboxSpec) -> SandboxAdapter:
    adapter = ports.sandboxes.get(spec.adapter)
    if adapter is None:
        raise bad_setup(
            f"the runtime has no sandbox adapter {spec.adapter}; give one with sandboxes={{name: adapter}}"
        )
    return adapter


def sandbox_of(ports: RuntimePorts, run: RunState, package: RuntimePackage) -> SandboxPlace | None:
    """Return the sandbox of a run: that of a caller which it shares, or its own; see `FindSandbox`.

    It is a wall, and so the one that the agent has now: the package may be older, and it or the name of the
    caller may come with an import.
    """
    registered = ports.registry.agent(run.agent_id)
    own = None if registered is None else registered.package.sandbox
    shared = None if run.parent is None else run.parent.sandbox
    if shared is None or (own is not None and shared.agent_id != run.agent_id):
        spec, key = own or package.sandbox, run.session_id
    else:
        caller = ports.registry.agent(shared.agent_id)
        if caller is None or caller.package.sandbox is None:
            raise missing_agent(shared.agent_id)
        spec, key = caller.package.sandbox, shared.session_id
    return None if spec is None else SandboxPlace(spec, adapter_of(ports, spec), key)


def shared_sandbox(task: Task, ports: RuntimePorts, package: RuntimePackage) -> JsonObject | None:
    """Return the sandbox of the caller if its subagent shares it.

    It does if it declares no sandbox, or is a copy of the caller.
    """
    caller = task.run
    if package.sandbox is not None and package.agent.agent_id != caller.agent_id:
        return None
    if caller.parent is not None and caller.parent.sandbox is not None:
        return caller.parent.sandbox.model_dump(mode="json", by_alias=True)
    registered = ports.registry.agent(caller.agent_id)
    if registered is None or registered.package.sandbox is None:
        return None
    owner = SandboxOwner(session_id=caller.session_id, agent_id=caller.agent_id)
    return owner.model_dump(mode="json", by_alias=True)


def tools_of(ports: RuntimePorts, package: RuntimePackage) -> dict[str, Tool[..., object]]:
    """Return the functions behind the tools of a package.

    A route for this very package comes first, then the agent's own tools, then routes for any package.
    """
    registered = ports.registry.agent(package.agent.agent_id)
    agent_tools = _NO_TOOLS if registered is None else registered.tools
    tools: dict[str, Tool[..., object]] = {}
    for spec in package.tools or ():
        tool = (
            ports.routes.get((package.package_id, spec.name))
            or agent_tools.get(spec.name)
            or ports.routes.get((None, spec.name))
        )
        if tool is not None:
            tools[spec.name] = as_pinned(spec, tool)
    for subagent in package.subagents or ():
        tools[subagent.name] = subagent_tool(
            subagent.name,
            subagent.description or "",
            package_id=subagent.package_id,
            is_background=bool(subagent.background),
        )
    if package.programs:
        keeps_variables = bool(package.keeps_variables)
        tools |= program_tools(package.programs, tools.values(), keeps_variables=keeps_variables)
    return with_undo_tools(tools)
