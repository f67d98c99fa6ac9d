# Generated from spec/packages.schema.json by `make gen`. Do not edit.
"""An agent compiled to immutable data with a fingerprint."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from windlass_protocol._wire import Bool, Closed, JsonObject, Maybe, Open, Str, Tagged, Whole
from windlass_protocol.generated.common import Id, Integer, PolicyRef, Positive, Timestamp
from windlass_protocol.generated.output import OutputContract
from windlass_protocol.generated.policy import BudgetLimits
from windlass_protocol.generated.tools import ToolSpec

class AgentSnapshot(Closed):
    """The agent inside a package."""

    agent_id: Id
    """Identifier of the agent."""
    name: Annotated[Str, StringConstraints(min_length=1)]
    """Its name."""
    instructions: Maybe[Str] = None
    """Its instructions."""
    description: Maybe[Str] = None
    """What it is for."""

class ProviderRoute(Closed):
    """Which provider and model run the agent."""

    route_id: Id
    """Provider adapter."""
    model_id: Id
    """Model."""
    provider_policy_ref: Maybe[PolicyRef] = None
    """Policy of the provider."""
    settings: Maybe[JsonObject] = None
    """Temperature and the like."""

class HookPhase(StrEnum):
    """Coarse order of hooks."""

    EARLY = "early"
    NORMAL = "normal"
    LATE = "late"

class HookFailure(StrEnum):
    """What happens when a hook fails."""

    FAIL_OPEN = "fail_open"
    DENY = "deny"
    INTERRUPT_RUN = "interrupt_run"
    FAIL_RUN = "fail_run"

class HookRight(StrEnum):
    """What a hook may do."""

    OBSERVE = "observe"
    MUTATE = "mutate"
    VETO = "veto"

class HookSpec(Closed):
    """A hook at a named point."""

    hook_id: Id
    """Identifier of the hook."""
    point: Id
    """Where it runs, such as before_tool_call."""
    phase: Maybe[HookPhase] = None
    """Coarse order; normal when absent."""
    order: Maybe[Integer] = None
    """Fine order; 100 when absent."""
    right: Maybe[HookRight] = None
    """What it may do; observe when absent."""
    timeout_ms: Maybe[Positive] = None
    """Deadline; 250 when absent."""
    failure: Maybe[HookFailure] = None
    """What happens when it fails; fail_open when absent."""

class OutputSinkSpec(Closed):
    """Where output is delivered."""

    sink_id: Id
    """Identifier of the sink."""
    dedupe_policy: Maybe[Str] = None
    """How repeated deliveries are recognised."""
    policy_ref: Maybe[PolicyRef] = None
    """Policy of the delivery."""

class SubagentSpec(Closed):
    """A subagent the agent may call."""

    name: Id
    """Name the model uses."""
    package_id: Id
    """Its package."""
    description: Maybe[Str] = None
    """What it is for."""
    fingerprint: Maybe[Str] = None
    """Fingerprint of its package."""
    background: Maybe[Bool] = None
    """Whether a call is answered with a job, and the caller goes on."""

class PackageVolatile(Open):
    """Facts that do not count for the fingerprint."""

    run_id: Maybe[Id] = None
    """Run that made the package."""
    compiled_at: Maybe[Timestamp] = None
    """When it was compiled."""
    host: Maybe[Str] = None
    """Where it was compiled."""

class ResolverPart(StrEnum):
    """What a resolver gives."""

    INSTRUCTIONS = "instructions"
    TOOLS = "tools"
    SKILLS = "skills"

class ResolverScope(StrEnum):
    """How long what a resolver gave holds."""

    SESSION = "session"
    TURN = "turn"
    STEP = "step"

class ResolverSpec(Closed):
    """A function of the host that gives a part of the agent when it is needed."""

    name: Id
    """Name of the resolver."""
    part: ResolverPart
    """What it gives."""
    scope: ResolverScope
    """How long that holds."""

class SandboxSpec(Closed):
    """The sandbox in which the commands of an agent run."""

    adapter: Annotated[Str, StringConstraints(min_length=1, max_length=64)]
    """Name of the adapter that makes it."""
    network: Maybe[
        Annotated[
            tuple[Annotated[Str, StringConstraints(min_length=1, max_length=253)], ...], Field(max_length=64)
        ]
    ] = None
    """Host names that its commands may reach over http and https; none when left out."""
    memory_bytes: Maybe[Positive] = None
    """Most memory."""
    processes: Maybe[Positive] = None
    """Most processes at once."""
    cpu_seconds: Maybe[Positive] = None
    """Most CPU time of one process."""
    file_bytes: Maybe[Positive] = None
    """Largest file."""
    disk_bytes: Maybe[Positive] = None
    """Most disk space that one command may add."""

class RuntimePackage(Tagged, Closed):
    """An agent compiled to immutable data. Every run pins the fingerprint it runs under."""

    __constants__ = ("schema_version",)

    package_id: Id
    """Identifier of the package."""
    agent: AgentSnapshot
    """The agent."""
    provider_route: ProviderRoute
    """Provider and model."""
    schema_version: Annotated[Literal[1], Whole(1, 1)] = 1
    """Version of this shape."""
    tools: Maybe[tuple[ToolSpec, ...]] = None
    """Tools with their schemas and metadata."""
    subagents: Maybe[tuple[SubagentSpec, ...]] = None
    """Subagents."""
    policies: Maybe[tuple[PolicyRef, ...]] = None
    """Policies in force."""
    hooks: Maybe[tuple[HookSpec, ...]] = None
    """Hooks."""
    output_contracts: Maybe[tuple[OutputContract, ...]] = None
    """What runs must return."""
    output_sinks: Maybe[tuple[OutputSinkSpec, ...]] = None
    """Where output goes."""
    budget: Maybe[BudgetLimits] = None
    """Most that a run may use."""
    skills: Maybe[tuple[Str, ...]] = None
    """Skills it may load."""
    programs: Maybe[tuple[Literal["code", "workflow"], ...]] = None
    """Programs that the model may write: `code` calls tools and subagents, `workflow` calls subagents alone.
    """
    keeps_variables: Maybe[Bool] = None
    """Whether variables of programs of kind `code` live for the session; for one program when absent."""
    waits_for_jobs: Maybe[Bool] = None
    """Whether a run ends only after its jobs."""
    sandbox: Maybe[SandboxSpec] = None
    """Where its commands run; outside of any sandbox when left out."""
    resolvers: Maybe[tuple[ResolverSpec, ...]] = None
    """What is resolved when a run needs it; what it gives does not count for the fingerprint."""
    volatile: Maybe[PackageVolatile] = None
    """Facts that do not count for the fingerprint."""
