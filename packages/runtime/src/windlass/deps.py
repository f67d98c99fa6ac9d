"""Dependencies of an agent: the run that a factory sees, and the type variables of agents and contexts."""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, field

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
