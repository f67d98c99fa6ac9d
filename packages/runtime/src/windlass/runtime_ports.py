"""The ports and options of a runtime; a missing port is reported when a run needs it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Annotated, Final, get_origin, get_type_hints

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
from windlass.refusals import bad_setup
from windlass.registry import Registry
from windlass.setup_check import (
    check_callable,
    check_flag,
    check_items,
    check_ms,
    check_name,
    check_part,
    check_port,
)
from windlass.tools import Tool
from windlass_harness.loop.rules import DEFAULT_RULES, Rules

_STORE: Final = "a store, such as MemoryStore() or await SqliteStore.open(path) of windlass.parts"
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


def _package_change(value: object) -> PackageChange:
    known = [member.value for member in PackageChange]
    if value not in known:
        raise bad_setup(f"package_change is one of {', '.join(known)}; found {value!r}")
    return PackageChange(value)


def _tool_policy(value: object) -> object:
    words = "an object with version, before() and after(), such as RulesPolicy of windlass.parts"
    check_port(value, "tool_policy", has=("before", "after"), words=words)
    check_part(getattr(value, "version", None), str, what="the version of a tool_policy", words="a text")
    return value


@dataclass(frozen=True, slots=True)
class RuntimePorts:
    """The ports and options of a runtime: the one place where each is declared.

    The builder is a face of this class, and `AgentRuntime.open` and `in_memory` go through the builder. A
    field with a check is given once; `checked` applies it to the value that a host gave.
    """

    machine: Machine
    scribe: Scribe
    store: Annotated[
        Store | None,
        partial(check_port, what="the journal", has=("append", "post", "claim", "aclose"), words=_STORE),
    ] = None
    bus: Annotated[
        EventBus | None,
        partial(
            check_port,
            what="the event bus",
            has=("publish", "subscribe_run"),
            words="a feed, such as Feed(store, clock) of windlass.parts",
        ),
    ] = None
    content: Annotated[
        ContentStore | None, partial(check_port, what="the content store", has=("put", "get"), words=_STORE)
    ] = None
    start_policy: Annotated[
        StartPolicy | None,
        partial(
            check_callable,
            what="policy",
            words="a function of a RunRequest and a RuntimePackage, such as allow_start of windlass.parts",
        ),
    ] = None
    tool_policy: Annotated[ToolPolicy | None, _tool_policy] = None
    resolver: Annotated[
        PackageResolver | None,
        partial(
            check_port,
            what="a package resolver",
            has=("resolve",),
            words="an object with resolve(package_id)",
        ),
    ] = None
    default_package_id: Annotated[str | None, partial(check_name, what="package_id")] = None
    registry: Registry = field(default_factory=Registry)
    providers: Mapping[str, LLMProvider] = field(default_factory=dict[str, LLMProvider])
    provider_source: Annotated[
        ProviderSource | None,
        partial(
            check_port,
            what="a provider source",
            has=("provider", "aclose"),
            words="an object with provider(route_id, model_id) and aclose()",
        ),
    ] = None
    """Provides the models of all routes that `providers` lacks."""
    routes: Mapping[tuple[str | None, str], Tool[..., object]] = field(
        default_factory=dict[tuple[str | None, str], Tool[..., object]]
    )
    """Tools by package id (None for any) and by the name that the package has for them."""
    hooks: Mapping[str, Hook] = field(default_factory=dict[str, Hook])
    sinks: Mapping[str, OutputSink] = field(default_factory=dict[str, OutputSink])
    approvals: Annotated[
        ApprovalPort, partial(check_part, kind=ApprovalPort, what="approvals", words="an ApprovalPort")
    ] = ApprovalPort()
    rules: Annotated[
        Rules,
        partial(
            check_part,
            kind=Rules,
            what="rules",
            words="Rules(…) of windlass.parts, such as Rules(steps_max=100)",
        ),
    ] = DEFAULT_RULES
    is_attended: Annotated[bool, partial(check_flag, what="is_attended")] = True
    approval_expires_ms: Annotated[int | None, partial(check_ms, what="approval_expires_ms")] = None
    responders: Annotated[
        tuple[str, ...] | None, partial(check_items, kind=str, what="responders", words="names of people")
    ] = None
    four_eyes: Annotated[bool, partial(check_flag, what="four_eyes")] = False
    policy_timeout_ms: Annotated[int, partial(check_ms, what="policy_timeout_ms")] = POLICY_TIMEOUT_MS
    package_change: Annotated[PackageChange, _package_change] = PackageChange.CONTINUE


_CHECKS: Final[Mapping[str, Callable[[object], object]]] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(RuntimePorts, include_extras=True).items()
    if get_origin(hint) is Annotated
}


def checked(name: str, value: object) -> object:
    """Return the value that a host gave for a port, as the port holds it.

    Raises:
        Rejected: it cannot be used; the message says what to write.
    """
    return _CHECKS[name](value)
