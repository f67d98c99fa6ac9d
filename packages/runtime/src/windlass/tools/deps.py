"""Dependencies of an agent: the run that a factory sees, and the type variables of agents and contexts."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import KW_ONLY, field
from inspect import isroutine
from typing import Any, cast, get_args, get_origin, get_type_hints

from pydantic import JsonValue
from typing_extensions import TypeVar

from windlass_protocol import JsonObject
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import common

DepsT = TypeVar("DepsT", contravariant=True, default=object)
"""The dependencies that an agent needs."""
ContextDepsT = TypeVar("ContextDepsT", covariant=True, default=object)
"""The dependencies that a tool gets."""
OutputT = TypeVar("OutputT", covariant=True, default=str)
"""The output of an agent."""
D = TypeVar("D")


@sealed
class RunInfo:
    """The run that a factory makes dependencies for."""

    run_id: str
    session_id: str
    _: KW_ONLY
    agent_id: str
    owner: str | None = None
    """The owner that the start named."""
    source: "common.SourceRef | None" = None
    """Where the message came from."""
    metadata: JsonObject = field(default_factory=dict[str, JsonValue])
    """The `metadata` of the start."""
    tenant: str | None = None
    """The tenant of a server with tenants."""


DepsFactory = Callable[[RunInfo], D | Awaitable[D]]
"""Makes the dependencies of a run: when it starts, and again when it continues, such as after a crash."""


def is_protocol(kind: type) -> bool:
    """Whether a class is a Protocol, which `isinstance` may not be able to check."""
    return bool(getattr(kind, "_is_protocol", False))


def deps_class(declared: object) -> type | None:
    """Return the class of dependencies: of a type, of `ToolContext[…]`, or of what a factory returns.

    None if it cannot be checked: object, Any, a Protocol, a union, or a factory without a return type.
    """
    kind = declared
    if callable(kind) and not isinstance(kind, type) and get_origin(kind) is None:
        kind = _return_type(kind)
    kind = get_origin(kind) or kind
    is_open = kind is object or kind is Any or not isinstance(kind, type) or is_protocol(kind)
    return None if is_open else cast(type, kind)


def hints_of(function: Callable[..., object]) -> dict[str, object]:
    """Return the type hints of a function, a partial or a callable object; none if they cannot be read."""
    inner = getattr(function, "func", function)
    target = inner if isroutine(inner) else type(inner).__call__
    try:
        return get_type_hints(target)
    except (NameError, TypeError):  # a type that only type checkers import; a builtin
        return {}


def _return_type(factory: Callable[..., object]) -> object:
    kind = hints_of(factory).get("return")
    if get_origin(kind) is Awaitable or get_origin(kind) is Coroutine:
        kind = cast("tuple[object, ...]", get_args(kind))[-1]
    return kind


def can_provide(provided: object, declared: object) -> bool:
    """Whether dependencies, declared by a type or a factory, have the class that is wanted."""
    provided_class, wanted_class = deps_class(provided), deps_class(declared)
    return provided_class is None or wanted_class is None or issubclass(provided_class, wanted_class)


def name_of(declared: object) -> str:
    """Return the name of declared dependencies, for an error."""
    kind = deps_class(declared) or declared
    return getattr(kind, "__name__", str(kind))
