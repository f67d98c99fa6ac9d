"""What a runtime was built with; what is missing is told when it is needed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from windlass.engine.writer import Scribe
from windlass.hooks import Hook
from windlass.limits import POLICY_TIMEOUT_MS
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
from windlass.registry import Registry
from windlass.tools import Tool
from windlass_harness.loop.rules import DEFAULT_RULES, Rules

DISPATCH_TIMEOUT_MS: Final = 600_000
"""How long an approval dispatcher may take; the request stays open when it takes longer."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The clock, names and chance of a runtime."""

    clock: Clock
    new_id: IdFactory
    random: Random


class PackageChange(StrEnum):
    """What becomes of a run whose agent has changed since it began.

    The functions behind tools, the model behind a route and the rules of policies are always those of today;
    a package only names them. What a run must return never changes.
    """

    CONTINUE = "continue"
    """It goes on with the package it began with; tools that are gone are refused."""
    MOVE = "move"
    """It goes on with the package of today, and `session.moved` says so."""
    REFUSE = "refuse"
    """It fails, and the error names what changed."""


@dataclass(frozen=True, slots=True)
class ToolRoute:
    """What runs when a package names a tool."""

    tool_name: str
    """As the package calls it."""
    tool: Tool[..., object]
    package_id: str | None = None
    """The package that it is for; any that names the tool when left out."""


@dataclass(frozen=True, slots=True)
class ApprovalPort:
    """How people are asked, and what holds for their answers."""

    dispatcher: ApprovalDispatcher | None = None
    timeout_ms: int = DISPATCH_TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class RuntimePorts:
    """Everything that a runtime can be given."""

    machine: Machine
    scribe: Scribe
    store: Store | None = None
    bus: EventBus | None = None
    content: ContentStore | None = None
    start_policy: StartPolicy | None = None
    tool_policy: ToolPolicy | None = None
    resolver: PackageResolver | None = None
    default_package_id: str | None = None
    registry: Registry = field(default_factory=Registry)
    providers: Mapping[str, LLMProvider] = field(default_factory=dict[str, LLMProvider])
    provider_source: ProviderSource | None = None
    """Who answers for routes that nobody else does."""
    routes: Mapping[tuple[str | None, str], Tool[..., object]] = field(
        default_factory=dict[tuple[str | None, str], Tool[..., object]]
    )
    """Tools by the package they are for, None for any, and the name it has for them."""
    hooks: Mapping[str, Hook] = field(default_factory=dict[str, Hook])
    sinks: Mapping[str, OutputSink] = field(default_factory=dict[str, OutputSink])
    approvals: ApprovalPort = field(default_factory=ApprovalPort)
    rules: Rules = DEFAULT_RULES
    is_attended: bool = True
    approval_expires_ms: int | None = None
    responders: tuple[str, ...] | None = None
    four_eyes: bool = False
    policy_timeout_ms: int = POLICY_TIMEOUT_MS
    package_change: PackageChange = PackageChange.CONTINUE
