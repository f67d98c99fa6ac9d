"""A model behind a server: the frame that all of them share."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from typing import Protocol, Self

from windlass.adapters.models.faults import cut_off
from windlass.adapters.models.line import Line
from windlass.adapters.models.settings import ModelSettings
from windlass.ports.model import LLMMessage, LLMStreamChunk
from windlass_protocol import JsonObject


class Reader(Protocol):
    """Reads one stream; `is_finished` once the server said that it is complete."""

    is_finished: bool

    def take(self, event: JsonObject) -> Iterator[LLMStreamChunk]:
        """Give what an event says."""
        ...


class ServedModel:
    """Asks a server for answers; how that is said is for its kinds to know."""

    holds_beside_tools = False
    """Whether its answers can be held to a schema while it may call tools."""

    def __init__(self, model: str, line: Line, *, route_id: str) -> None:
        self.route_id = route_id
        self.model_id = model
        self._settings: ModelSettings = line.settings
        self._line = line

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_id!r})"

    def with_output(self, schema: JsonObject) -> Self:
        """Return the same model, whose answers are JSON that fits a schema."""
        other = copy(self)
        other._settings = replace(self._settings, output=schema)
        return other

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[LLMStreamChunk]:
        """Answer the messages; see `LLMProvider`."""
        known = tuple(tools or ())
        body = self._body(messages, tools=known, temperature=temperature)
        reader = self._reader(known)
        async with aclosing(self._line.events(body)) as events:
            async for event in events:
                if event is not None:
                    for chunk in reader.take(event):
                        yield chunk
        if not reader.is_finished:
            raise cut_off()

    def _body(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[JsonObject], temperature: float | None
    ) -> JsonObject:
        """Return the request for an answer."""
        raise NotImplementedError

    def _reader(self, tools: Sequence[JsonObject]) -> Reader:
        """Return what reads the answer."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the connections to the server."""
        await self._line.aclose()
