"""The builder of a runtime. Generated from the options by `make gen`; do not edit."""

from collections.abc import Iterable, Mapping
from typing import Self, TypeVar

from windlass.agent.agent import AnyAgent
from windlass.agent.hooks import Hook
from windlass.ports.feed import EventBus
from windlass.ports.host import ApprovalDispatcher, OutputSink, PackageResolver, StartPolicy, ToolPolicy
from windlass.ports.model import LLMProvider
from windlass.ports.store import ContentStore, Store
from windlass.refusals import check_name
from windlass.runtime.assembly import Assembly
from windlass.runtime.registry import ToolRoute
from windlass.tools import AnyTool
from windlass_protocol import RuntimePackage

R = TypeVar("R")


class AgentRuntimeBuilder(Assembly[R]):
    """Makes a runtime part by part; each method is an option of the same meaning, see `PartOptions`."""

    def provider(self, route_id: str, provider: LLMProvider, *, replace: bool = False) -> Self:
        """One of `providers`: models by their routes, for agents with the name of a model."""
        name = check_name(route_id, "route_id")
        return self.options(replace=replace, providers={name: provider})

    def providers(self, providers: Mapping[str, LLMProvider], *, replace: bool = False) -> Self:
        """`providers`: models by their routes, for agents with the name of a model."""
        return self.options(replace=replace, providers=providers)

    def package_resolver(self, package_resolver: PackageResolver, *, replace: bool = False) -> Self:
        """`package_resolver`: looks packages up, instead of `agents` and `packages`."""
        return self.options(replace=replace, package_resolver=package_resolver)

    def default_package(self, default_package: RuntimePackage, *, replace: bool = False) -> Self:
        """`default_package`: the package of requests that name none."""
        return self.options(replace=replace, default_package=default_package)

    def default_package_id(self, default_package_id: str, *, replace: bool = False) -> Self:
        """`default_package_id`: the id of the package of requests that name none."""
        return self.options(replace=replace, default_package_id=default_package_id)

    def journal(self, journal: Store, *, replace: bool = False) -> Self:
        """`journal`: the store of records."""
        return self.options(replace=replace, journal=journal)

    def event_bus(self, event_bus: EventBus, *, replace: bool = False) -> Self:
        """`event_bus`: the feed that shows records to subscribers."""
        return self.options(replace=replace, event_bus=event_bus)

    def content(self, content: ContentStore, *, replace: bool = False) -> Self:
        """`content`: the store of packages and large values."""
        return self.options(replace=replace, content=content)

    def policy(self, start_policy: StartPolicy, *, replace: bool = False) -> Self:
        """`start_policy`: decides whether a run may start."""
        return self.options(replace=replace, start_policy=start_policy)

    def tool_routes(self, tool_routes: Iterable[ToolRoute], *, replace: bool = False) -> Self:
        """`tool_routes`: the tools that run when packages name them."""
        return self.options(replace=replace, tool_routes=tool_routes)

    def tool_executors(self, tool_executors: Iterable[AnyTool], *, replace: bool = False) -> Self:
        """`tool_executors`: tools for every package that names them."""
        return self.options(replace=replace, tool_executors=tool_executors)

    def tool_policy(self, tool_policy: ToolPolicy, *, replace: bool = False) -> Self:
        """`tool_policy`: decides about tool calls, instead of the policies of the agents."""
        return self.options(replace=replace, tool_policy=tool_policy)

    def approval_dispatcher(self, approval_dispatcher: ApprovalDispatcher, *, replace: bool = False) -> Self:
        """`approval_dispatcher`: brings requests to people."""
        return self.options(replace=replace, approval_dispatcher=approval_dispatcher)

    def shared_approval_dispatcher(
        self, approval_dispatcher: ApprovalDispatcher, *, replace: bool = False
    ) -> Self:
        """`approval_dispatcher`: brings requests to people."""
        return self.options(replace=replace, approval_dispatcher=approval_dispatcher)

    def hook_executor_registry(self, hooks: Iterable[Hook], *, replace: bool = False) -> Self:
        """`hooks`: functions for hooks that packages name."""
        return self.options(replace=replace, hooks=hooks)

    def agent(self, agent: AnyAgent, *, replace: bool = False) -> Self:
        """One of `agents`: agents with their packages, tools, hooks, policies and models."""
        return self.options(replace=replace, agents=[agent])

    def package(self, package: RuntimePackage, *, replace: bool = False) -> Self:
        """One of `packages`: packages."""
        return self.options(replace=replace, packages=[package])

    def output_sink(self, output_sink: OutputSink, *, replace: bool = False) -> Self:
        """One of `output_sinks`: where the output of agents that name them is delivered."""
        return self.options(replace=replace, output_sinks=[output_sink])

    def tool_route(self, tool_route: ToolRoute, *, replace: bool = False) -> Self:
        """One of `tool_routes`: the tools that run when packages name them."""
        return self.options(replace=replace, tool_routes=[tool_route])

    def tool_executor(self, tool_executor: AnyTool, *, replace: bool = False) -> Self:
        """One of `tool_executors`: tools for every package that names them."""
        return self.options(replace=replace, tool_executors=[tool_executor])
