"""The ways into the network, and what comes back over them."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from socket import SOCK_STREAM
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from httpcore2 import AsyncNetworkStream

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the addresses of a host, as texts; raises OSError if it has none."""
Dial = Callable[[str, int], "Awaitable[AsyncNetworkStream]"]
"""Connects to an address and a port; raises OSError if nobody answers."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered, before it is unpacked."""

    status: int
    headers: dict[str, str]
    """By small names; of those that come twice, the first."""
    body: bytes


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses that the machine knows for a host."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


@dataclass(frozen=True, slots=True)
class Network:
    """The ways into the network: those of the machine; tests bring their own."""

    resolve: Resolver = resolve
    dial: Dial | None = None
    tls: ssl.SSLContext | None = None
    """What certificates must be; those that the machine trusts when left out."""
