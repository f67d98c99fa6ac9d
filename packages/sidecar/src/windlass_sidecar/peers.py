"""The host, as those see it who have to ask or tell it something."""

from typing import Final, Protocol

from pydantic import JsonValue

from windlass_protocol import JsonObject

INPUT: Final = "host.input.request"
"""The request that brings a question for people to the host."""


class Link(Protocol):
    """What carries requests and notifications to the host."""

    async def call(self, method: str, params: JsonObject) -> JsonValue:
        """Ask for something and return the result."""
        ...

    async def notify(self, method: str, params: JsonObject) -> None:
        """Say something."""
        ...


class Host:
    """The program that started the sidecar."""

    def __init__(self) -> None:
        self.link: Link | None = None
        """Set when there is a line to it."""
        self.features: frozenset[str] = frozenset()
        """What it said that it can do, by `protocol.describe`."""

    @property
    def can_ask_people(self) -> bool:
        """Whether it takes `host.input.request`."""
        return INPUT in self.features

    async def call(self, method: str, params: JsonObject) -> JsonValue:
        """Ask the host for something and return its result.

        Raises:
            RpcError: it refused, or answered nonsense.
        """
        assert self.link is not None, "nothing runs before there is a line"
        return await self.link.call(method, params)

    async def notify(self, method: str, params: JsonObject) -> None:
        """Tell the host something."""
        assert self.link is not None, "nothing runs before there is a line"
        await self.link.notify(method, params)
