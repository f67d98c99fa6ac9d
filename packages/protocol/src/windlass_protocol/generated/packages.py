# Generated from spec/packages.schema.json by `make gen`. Do not edit.
"""An agent compiled to immutable data with a fingerprint.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_AgentSnapshot() -> object:
    from typing import Annotated

    from pydantic import StringConstraints

    from windlass_protocol._wire import Closed, Maybe, Str
    from windlass_protocol.generated.common import Id

    class AgentSnapshot(Closed):
        """The agent inside a package."""

        __qualname__ = "AgentSnapshot"

        agent_id: Id
        name: Annotated[Str, StringConstraints(min_length=1)]
        instructions: Maybe[Str] = None
        description: Maybe[Str] = None

    return AgentSnapshot


def _make_ProviderRoute() -> object:
    from windlass_protocol._wire import Closed, JsonObject, Maybe
    from windlass_protocol.generated.common import Id, PolicyRef

    class ProviderRoute(Closed):
        """Which provider and model run the agent."""

        __qualname__ = "ProviderRoute"

        route_id: Id
        model_id: Id
        provider_policy_ref: Maybe[PolicyRef] = None
        settings: Maybe[JsonObject] = None

    return ProviderRoute


def _make_HookPhase() -> object:
    from enum import StrEnum

    class HookPhase(StrEnum):
        """Coarse order of hooks."""

        __qualname__ = "HookPhase"

        EARLY = "early"
        NORMAL = "normal"
        LATE = "late"

    return HookPhase


def _make_HookFailure() -> object:
    from enum import StrEnum

    class HookFailure(StrEnum):
        """What happens when a hook fails."""

        __qualname__ = "HookFailure"

        FAIL_OPEN = "fail_open"
        DENY = "deny"
        INTERRUPT_RUN = "interrupt_run"
        FAIL_RUN = "fail_run"

    return HookFailure


def _make_HookRight() -> object:
    from enum import StrEnum

    class HookRight(StrEnum):
        """What a hook may do."""

        __qualname__ = "HookRight"

        OBSERVE = "observe"
        MUTATE = "mutate"
        VETO = "veto"

    return HookRight


def _make_HookSpec() -> object:
    from windlass_protocol._wire import Closed, Maybe
    from windlass_protocol.generated.common import Id, Integer, Positive
    from windlass_protocol.generated.packages import HookFailure, HookPhase, HookRight

    class HookSpec(Closed):
        """A hook at a named point."""

        __qualname__ = "HookSpec"

        hook_id: Id
        point: Id
        phase: Maybe[HookPhase] = None
        order: Maybe[Integer] = None
        right: Maybe[HookRight] = None
        timeout_ms: Maybe[Positive] = None
        failure: Maybe[HookFailure] = None

    return HookSpec


def _make_OutputSinkSpec() -> object:
    from windlass_protocol._wire import Closed, Maybe, Str
    from windlass_protocol.generated.common import Id, PolicyRef

    class OutputSinkSpec(Closed):
        """Where output is delivered."""

        __qualname__ = "OutputSinkSpec"

        sink_id: Id
        dedupe_policy: Maybe[Str] = None
        policy_ref: Maybe[PolicyRef] = None

    return OutputSinkSpec


def _make_SubagentSpec() -> object:
    from windlass_protocol._wire import Bool, Closed, Maybe, Str
    from windlass_protocol.generated.common import Id

    class SubagentSpec(Closed):
        """A subagent the agent may call."""

        __qualname__ = "SubagentSpec"

        name: Id
        package_id: Id
        description: Maybe[Str] = None
        fingerprint: Maybe[Str] = None
        background: Maybe[Bool] = None

    return SubagentSpec


def _make_PackageVolatile() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id, Timestamp

    class PackageVolatile(Open):
        """Facts that do not count for the fingerprint."""

        __qualname__ = "PackageVolatile"

        run_id: Maybe[Id] = None
        compiled_at: Maybe[Timestamp] = None
        host: Maybe[Str] = None

    return PackageVolatile


def _make_ResolverPart() -> object:
    from enum import StrEnum

    class ResolverPart(StrEnum):
        """What a resolver gives."""

        __qualname__ = "ResolverPart"

        INSTRUCTIONS = "instructions"
        TOOLS = "tools"
        SKILLS = "skills"

    return ResolverPart


def _make_ResolverScope() -> object:
    from enum import StrEnum

    class ResolverScope(StrEnum):
        """How long what a resolver gave holds."""

        __qualname__ = "ResolverScope"

        SESSION = "session"
        TURN = "turn"
        STEP = "step"

    return ResolverScope


def _make_ResolverSpec() -> object:
    from windlass_protocol._wire import Closed
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.packages import ResolverPart, ResolverScope

    class ResolverSpec(Closed):
        """A function of the host that gives a part of the agent when it is needed."""

        __qualname__ = "ResolverSpec"

        name: Id
        part: ResolverPart
        scope: ResolverScope

    return ResolverSpec


def _make_SandboxSpec() -> object:
    from typing import Annotated

    from pydantic import Field, StringConstraints

    from windlass_protocol._wire import Closed, Maybe, Str
    from windlass_protocol.generated.common import Positive

    class SandboxSpec(Closed):
        """The sandbox in which the commands of an agent run."""

        __qualname__ = "SandboxSpec"

        adapter: Annotated[Str, StringConstraints(min_length=1, max_length=64)]
        network: Maybe[
            Annotated[
                tuple[Annotated[Str, StringConstraints(min_length=1, max_length=253)], ...],
                Field(max_length=64),
            ]
        ] = None
        memory_bytes: Maybe[Positive] = None
        processes: Maybe[Positive] = None
        cpu_seconds: Maybe[Positive] = None
        file_bytes: Maybe[Positive] = None
        disk_bytes: Maybe[Positive] = None

    return SandboxSpec


def _make_RuntimePackage() -> object:
    from typing import Annotated, Literal

    from windlass_protocol._wire import Bool, Closed, Maybe, Str, Tagged, Whole
    from windlass_protocol.generated.common import Id, PolicyRef
    from windlass_protocol.generated.output import OutputContract
    from windlass_protocol.generated.packages import (
        AgentSnapshot,
        HookSpec,
        OutputSinkSpec,
        PackageVolatile,
        ProviderRoute,
        ResolverSpec,
        SandboxSpec,
        SubagentSpec,
    )
    from windlass_protocol.generated.policy import BudgetLimits
    from windlass_protocol.generated.tools import ToolSpec

    class RuntimePackage(Tagged, Closed):
        """An agent compiled to immutable data. Every run pins the fingerprint it runs under."""

        __qualname__ = "RuntimePackage"

        __constants__ = ("schema_version",)

        package_id: Id
        agent: AgentSnapshot
        provider_route: ProviderRoute
        schema_version: Annotated[Literal[1], Whole(1, 1)] = 1
        tools: Maybe[tuple[ToolSpec, ...]] = None
        subagents: Maybe[tuple[SubagentSpec, ...]] = None
        policies: Maybe[tuple[PolicyRef, ...]] = None
        hooks: Maybe[tuple[HookSpec, ...]] = None
        output_contracts: Maybe[tuple[OutputContract, ...]] = None
        output_sinks: Maybe[tuple[OutputSinkSpec, ...]] = None
        budget: Maybe[BudgetLimits] = None
        skills: Maybe[tuple[Str, ...]] = None
        programs: Maybe[tuple[Literal["code", "workflow"], ...]] = None
        keeps_variables: Maybe[Bool] = None
        waits_for_jobs: Maybe[Bool] = None
        sandbox: Maybe[SandboxSpec] = None
        resolvers: Maybe[tuple[ResolverSpec, ...]] = None
        volatile: Maybe[PackageVolatile] = None

    return RuntimePackage


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "AgentSnapshot": _make_AgentSnapshot,
        "ProviderRoute": _make_ProviderRoute,
        "HookPhase": _make_HookPhase,
        "HookFailure": _make_HookFailure,
        "HookRight": _make_HookRight,
        "HookSpec": _make_HookSpec,
        "OutputSinkSpec": _make_OutputSinkSpec,
        "SubagentSpec": _make_SubagentSpec,
        "PackageVolatile": _make_PackageVolatile,
        "ResolverPart": _make_ResolverPart,
        "ResolverScope": _make_ResolverScope,
        "ResolverSpec": _make_ResolverSpec,
        "SandboxSpec": _make_SandboxSpec,
        "RuntimePackage": _make_RuntimePackage,
    },
)
