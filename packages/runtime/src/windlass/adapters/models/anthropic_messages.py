"""Anthropic, and every server that speaks its Messages API."""

import os
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from typing import Final, Self

from windlass.adapters.models.anthropic_reader import AnthropicReader
from windlass.adapters.models.anthropic_request import anthropic_body, anthropic_turns
from windlass.adapters.models.faults import cut_off
from windlass.adapters.models.host import need_extra, need_key
from windlass.adapters.models.line import Line
from windlass.adapters.models.names import names_back
from windlass.adapters.models.settings import Address, Environment, ModelSettings
from windlass.ports.model import LLMMessage, LLMStreamChunk
from windlass_protocol import JsonObject

KEY: Final = "ANTHROPIC_API_KEY"
BASE_URL: Final = "ANTHROPIC_BASE_URL"
ANTHROPIC: Final = "https://api.anthropic.com"


class AnthropicProvider:
    """A model behind the Messages API.

    The key is `api_key` or the variable ANTHROPIC_API_KEY, the address `base_url` or ANTHROPIC_BASE_URL. The
    prompt is marked to be cached. Nothing is tried again here: the loop does that.

    Raises:
        Unavailable: the extra `windlass[anthropic]` or the key is missing.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        settings: ModelSettings | None = None,
        environment: Environment = os.environ,
        route_id: str = "anthropic",
    ) -> None:
        need_extra("anthropic", route_id)
        url = base_url or environment.get(BASE_URL) or ANTHROPIC
        key = need_key(api_key or environment.get(KEY), KEY, route_id=route_id)
        self.route_id = route_id
        self.model_id = model
        self._settings = settings or ModelSettings()
        self._turns = anthropic_turns()
        self._line = Line(
            "windlass.adapters.models.anthropic_client",
            "AnthropicClient",
            Address(url, key),
            self._settings,
            KEY,
        )

    def __repr__(self) -> str:
        return f"AnthropicProvider({self.model_id!r})"

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
        body = anthropic_body(
            self.model_id,
            messages,
            turns=self._turns,
            tools=known,
            temperature=temperature,
            settings=self._settings,
        )
        reader = AnthropicReader(names_back(known))
        async with aclosing(self._line.events(body)) as events:
            async for event in events:
                if event is not None:
                    for chunk in reader.take(event):
                        yield chunk
        if not reader.is_finished:
            raise cut_off()

    async def aclose(self) -> None:
        """Close the connections to the server."""
        await self._line.aclose()
