"""Binding of a run to the agent of this process, also after the agent changed."""

from dataclasses import replace
from functools import cache, partial
from typing import Final, cast

from windlass.agent.agent import WORKFLOW_ROUTE, AnyAgent, output_contract
from windlass.agent.output import OutputType, OutputValidator, contract_hash
from windlass.agent.package import (
    check_package,
    fingerprint,
    is_batched,
    package_difference,
    package_json,
    package_of,
    with_batch,
)
from windlass.agent.policy import InheritedPolicy, RulesPolicy
from windlass.agent.skills import Skills
from windlass.engine.binding import Binding
from windlass.engine.deadline import await_within
from windlass.engine.hooks import BoundHook, Hooks
from windlass.engine.tool_calls.approval import maybe_await
from windlass.engine.writing.masking import log_failure
from windlass.errors import Rejected, is_for_us, kind_of
from windlass.limits import DEPS_TIMEOUT_MS
from windlass.ports.host import ToolPolicy
from windlass.ports.model import LLMProvider
from windlass.ports.store import ContentStore
from windlass.refusals import invalid_package, missing_agent, missing_deps, missing_port
from windlass.runtime.registry import PackageChange, Registered, RuntimePorts, version_of
from windlass.runtime.rooms import rehearse
from windlass.runtime.starts.executors import (
    fallbacks_of,
    hooks_of,
    prices_for,
    provider_of,
    summary_provider_of,
    tools_of,
)
from windlass.runtime.starts.packages import check_no_secret
from windlass.tools.calling import after_few_checks
from windlass.tools.context import copy_of
from windlass.tools.deps import RunInfo, deps_class
from windlass_harness.policy import PolicySet
from windlass_harness.views.runs import RunState
from windlass_protocol import RuntimePackage
from windlass_protocol.bodies import Body
from windlass_protocol.generated import records

CHANGES_CHARS_MAX: Final = 1_000
"""Characters of the differences between two packages that an error or record holds."""
PACKAGES_MAX: Final = 64
"""Packages of older runs that are cached."""


class RuntimeBinder:
    """Binds runs to the agents and ports of a runtime."""

    def __init__(self, ports: RuntimePorts) -> None:
        self._ports = ports
        self._read: dict[str, RuntimePackage] = {}
        self._bound: dict[str, tuple[Registered, Binding]] = {}
        """The newest bindings of registered agents, by agent: runs of the same agent share one."""

    async def __call__(self, run: RunState) -> Binding:
        """Return the package, model, tools, hooks, policy and dependencies of a run.

        Raises:
            Rejected: its package is not stored any more, or has changed under `PackageChange.REFUSE`.
            Unavailable: no provider serves the model, the content store cannot be reached, or the
                dependencies cannot be made.
        """
        binding = await self._bind(run)
        if run.playground is not None:
            binding = await rehearse(binding, run, self._ports)
            if run.playground.calls == "recorded":
                # Output validators may use dependencies, which a run without effects does not have.
                return replace(binding, output=None)
        output_type = self._ports.deps.outputs.get(run.run_id)
        if output_type is not None and (binding.output is None or binding.output.kind is not output_type):
            contract = output_contract(output_type, run.agent_id)
            binding = replace(binding, output=OutputType(output_type, contract_hash(contract)))
        registered = self._ports.registry.agent(run.agent_id)
        agent = None if registered is None else registered.agent
        if agent is None or agent.deps is None or run.result is not None:
            return binding
        return replace(binding, deps=await self._deps(agent, run))

    async def version_of(self, agent_id: str, model_id: str, pinned: str) -> str | None:
        """Return the version of a run of an agent of this process, which has this fingerprint."""
        version, registered = (
            self._ports.registry.versions.get(agent_id),
            self._ports.registry.agent(agent_id),
        )
        if registered is None or registered.fingerprint == pinned:
            return version
        if registered.package.provider_route.route_id == WORKFLOW_ROUTE:
            return model_id
        try:
            return version_of(await self._pinned_package(pinned, agent_id))
        except Rejected:
            # Binding the run says so.
            return version

    async def _deps(self, agent: AnyAgent, run: RunState) -> object:
        """Return the dependencies of a run: those that its start gave, or new ones of a factory."""
        deps, parent = self._ports.deps, run.parent
        if run.run_id not in deps.given and parent is not None and parent.run_id in deps.given:
            caller = self._agent(parent.agents[-1]) if parent.agents else None
            if caller is not None and caller.deps is agent.deps:
                deps.given[run.run_id] = deps.given[parent.run_id]
        if run.run_id in deps.given:
            return deps.given[run.run_id]
        above = [self._agent(name) for name in reversed((parent and parent.agents) or ())]
        callers = [candidate for candidate in above if candidate is not None and candidate.deps is agent.deps]
        factory = next(filter(None, map(deps.factory, (agent, *callers))), None)
        if factory is None:
            raise missing_deps(agent.name)
        info = RunInfo(
            run.run_id,
            run.session_id,
            agent_id=run.agent_id,
            owner=run.owner,
            source=run.source,
            metadata=copy_of(run.metadata),
            tenant=self._ports.tenant,
        )
        try:
            value: object = await await_within(factory(info), DEPS_TIMEOUT_MS)
            expected = deps_class(agent.deps)
            if expected is None or isinstance(value, expected):
                return value
            problem = f"it made {kind_of(value)}, expected {expected.__name__}"
        except BaseException as error:  # host code: any exception leaves the run for a later attempt
            if is_for_us(error):
                raise
            failure = f"the dependencies of agent {agent.name} could not be made"
            log_failure(failure, error, redactor=self._ports.scribe.redactor)
            problem = type(error).__name__
        raise missing_deps(agent.name, problem)

    def _agent(self, agent_id: str) -> AnyAgent | None:
        registered = self._ports.registry.agent(agent_id)
        return None if registered is None else registered.agent

    async def _bind(self, run: RunState) -> Binding:
        package, notes = await self._package(run)
        provider = provider_of(self._ports, package, run_id=run.run_id)
        summarises = summary_provider_of(self._ports, package, run_id=run.run_id)
        fallbacks = fallbacks_of(self._ports, package, run_id=run.run_id)
        policy = self._policy(package, run)
        registered = self._ports.registry.agent(run.agent_id)
        if registered is None or registered.package is not package:
            binding = self._binding(run, package, provider, summarises=summarises, policy=policy, notes=notes)
            return replace(binding, fallbacks=fallbacks)
        cached = self._bound.get(run.agent_id)
        if cached is not None and cached[0] is registered:
            cached_binding = cached[1]
            has_same_parts = (
                cached_binding.provider is provider
                and cached_binding.summarises is summarises
                and cached_binding.policy is policy
            )
            if has_same_parts and cached_binding.fallbacks == fallbacks:
                return cached_binding
        binding = self._binding(run, package, provider, summarises=summarises, policy=policy)
        binding = replace(binding, fallbacks=fallbacks)
        self._bound[run.agent_id] = registered, binding
        return binding

    def _binding(
        self,
        run: RunState,
        package: RuntimePackage,
        provider: LLMProvider,
        *,
        summarises: LLMProvider,
        policy: ToolPolicy,
        notes: tuple[Body, ...] = (),
    ) -> Binding:
        ports = self._ports
        hooks = hooks_of(ports, package)
        settings = package.provider_route.settings or {}
        temperature = settings.get("temperature")
        return Binding(
            package,
            _fingerprint_moved_to(notes) or run.package_fingerprint or "",
            provider,
            tools=tools_of(ports, package),
            policy=policy,
            rules=ports.loop_rules,
            temperature=temperature if isinstance(temperature, int | float) else None,
            approval_expires_ms=ports.approval_expires_ms,
            responders=ports.responders,
            four_eyes=ports.four_eyes,
            policy_timeout_ms=ports.policy_timeout_ms,
            redactor=ports.scribe.redactor,
            hooks=Hooks(
                (BoundHook(spec, hooks.get(spec.hook_id)) for spec in package.hooks or ()),
                redactor=ports.scribe.redactor,
            ),
            sinks=ports.sinks,
            summarises=summarises,
            output=self._output(package),
            resolvers=ports.registry.resolvers(package),
            skills=self._skills(package),
            package_change=ports.package_change.value,
            notes=notes,
            prices=prices_for(ports, package.agent.agent_id),
            is_batched=is_batched(package),
        )

    def _output(self, package: RuntimePackage) -> OutputType | None:
        """Return the type and the validators of the output of an agent, if it has them."""
        registered = self._ports.registry.agent(package.agent.agent_id)
        agent = None if registered is None else registered.agent
        if registered is None or agent is None or not (agent.output_type or agent.output_validators):
            return None
        contracts = registered.package.output_contracts
        assert contracts, "an agent with an output has its contract in its package"
        validators = cast("tuple[OutputValidator[object, object], ...]", tuple(agent.output_validators))
        return OutputType(agent.output_type, contract_hash(contracts[0]), validators)

    def _skills(self, package: RuntimePackage) -> Skills:
        registered = self._ports.registry.agent(package.agent.agent_id)
        agent = None if registered is None else registered.agent
        return Skills() if agent is None else agent.loaded_skills

    def _policy(self, package: RuntimePackage, run: RunState) -> ToolPolicy:
        if self._ports.tool_policy is not None:
            return self._ports.tool_policy
        registered, parent = self._ports.registry.agent(package.agent.agent_id), run.parent
        own_rules = _rules_in(registered)
        agents = dict.fromkeys(reversed(() if parent is None else parent.agents or ()))
        above = [self._rules_of(agent_id) for agent_id in agents if agent_id != run.agent_id]
        return InheritedPolicy(own_rules, above) if above else own_rules

    def _rules_of(self, agent_id: str) -> RulesPolicy:
        registered = self._ports.registry.agent(agent_id)
        if registered is None and self._ports.resolver is None:
            # The policy of the caller also limits its subagents.
            raise missing_agent(agent_id)
        return _rules_in(registered)

    async def _package(self, run: RunState) -> tuple[RuntimePackage, tuple[Body, ...]]:
        pinned = run.package_fingerprint
        registered = self._ports.registry.agent(run.agent_id)
        if registered is not None and registered.fingerprint == pinned:
            return registered.package, ()
        if pinned is None:
            raise invalid_package("the run started without a package and cannot continue", run.run_id)
        old = await self._pinned_package(pinned, run.run_id)
        is_kept = run.result is not None or run.playground is not None
        if self._ports.package_change in (PackageChange.CONTINUE, PackageChange.WAIT) or is_kept:
            # A run that has ended keeps the package it ended with, and a playground run is about its package.
            return old, ()
        today = await self._today(run)
        # The output contract and the batches are fixed at the start: different ones alone are not a change.
        new = with_batch(today, (old.provider_route.settings or {}).get("batch"))
        new = new.model_copy(update={"output_contracts": old.output_contracts})
        if fingerprint(new) == pinned:
            return old, ()
        changes = difference(old, new)
        if self._ports.package_change is PackageChange.REFUSE:
            raise invalid_package(f"the agent has changed since the run started: {changes}", run.run_id)
        return new, (await self._move(pinned, new, changes),)

    async def _pinned_package(self, pinned: str, run_id: str) -> RuntimePackage:
        if pinned in self._read:
            return self._read[pinned]
        content = self._content()
        try:
            package = await package_of(content, pinned)
        except Rejected:
            raise invalid_package(
                "the package that the run started with is not stored any more", run_id
            ) from None
        if len(self._read) >= PACKAGES_MAX:
            self._read.clear()
        self._read[pinned] = package
        return self._read[pinned]

    async def _today(self, run: RunState) -> RuntimePackage:
        """Return the package that a new run of the agent would have."""
        registered = self._ports.registry.agent(run.agent_id)
        if registered is not None:
            return registered.package
        resolver = self._ports.resolver
        if resolver is None or run.package_id is None:
            raise invalid_package(
                "the agent of the run is not registered with this runtime any more", run.run_id
            )
        package = await maybe_await(resolver.resolve(run.package_id))
        return await after_few_checks(partial(check_package, package))

    async def _move(self, pinned: str, package: RuntimePackage, changes: str) -> Body:
        body = package_json(package)
        await check_no_secret(self._ports, body)
        ref = await self._content().put(body)
        return records.SessionMoved(from_fingerprint=pinned, to_fingerprint=ref.content_id, reason=changes)

    def _content(self) -> ContentStore:
        if self._ports.content is None:
            raise missing_port("content resolver")
        return self._ports.content


def _rules_in(registered: Registered | None) -> RulesPolicy:
    """The rules of an agent, or the default rules."""
    return _default_rules() if registered is None or registered.policy is None else registered.policy


@cache
def _default_rules() -> RulesPolicy:
    return RulesPolicy(PolicySet())


def difference(old: RuntimePackage, new: RuntimePackage) -> str:
    """Return the differences between two packages as text, up to `CHANGES_CHARS_MAX`."""
    text = "; ".join(package_difference(old, new))
    return text if len(text) <= CHANGES_CHARS_MAX else text[: CHANGES_CHARS_MAX - 1] + "…"


def _fingerprint_moved_to(notes: tuple[Body, ...]) -> str | None:
    return next((note.to_fingerprint for note in notes if isinstance(note, records.SessionMoved)), None)
