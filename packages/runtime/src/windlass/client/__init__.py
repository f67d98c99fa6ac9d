"""A client of servers: `async with Client("http://…", key=…) as client`.

HTTP support is the extra `windlass-runtime[client]`; it is imported when the first client is opened.
"""

from windlass.client.client import Client
from windlass.client.connection import (
    Broken,
    Means,
    NotFound,
    NotWindlass,
    RateLimited,
    Unauthenticated,
    Unreachable,
)
from windlass.client.remote import RemoteAgent, RemoteOptions
from windlass.ports.feed import CursorExpired
from windlass_protocol import (
    Accepted,
    AgentInfo,
    ApprovalInfo,
    Health,
    RefusedStart,
    RunInfo,
    RunRow,
    SessionInfo,
    TraceInfo,
)

__all__ = [
    "Accepted",
    "AgentInfo",
    "ApprovalInfo",
    "Broken",
    "Client",
    "CursorExpired",
    "Health",
    "Means",
    "NotFound",
    "NotWindlass",
    "RateLimited",
    "RefusedStart",
    "RemoteAgent",
    "RemoteOptions",
    "RunInfo",
    "RunRow",
    "SessionInfo",
    "TraceInfo",
    "Unauthenticated",
    "Unreachable",
]
