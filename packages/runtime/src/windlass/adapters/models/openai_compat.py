"""OpenAI, and every server that speaks its Chat Completions."""

import os
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from typing import Final, Self

from windlass.adapters.models.faults import cut_off
from windlass.adapters.models.host import need_extra, need_key
from windlass.adapters.models.line import Line
from windlass.adapters.models.names import names_back
from windlass.adapters.models.openai_reader import OpenAIReader
from windlass.adapters.models.openai_request import openai_body, openai_messages, openai_turns
from windlass.adapters.models.settings import Address, Environment, ModelSettings
from windlass.ports.model import LLMMessage, LLMStreamChunk
from windlass_protocol import JsonObject

KEY: Final = "OPENAI_API_KEY"
BASE_URL: Final = "OPENAI_BASE_URL"
OPENAI: Final = "https://api.openai.com/v1"
_NO_KEY: Final = "none"
"""What is sent to a server that needs no key: the SDK insists on one."""


class OpenAICompatProvider:
    """A model behind Chat Completions: OpenAI, vLLM, llama.cpp, Ollama and others.

    The key is `api_key` or the variable OPENAI_API_KEY, the address `base_url` or OPENAI_BASE_URL; a server
    at another address than OpenAI's needs no key. Nothing is tried again here: the loop does that.

    Raises:
        Unavailable: the extra `windlass[openai]` or the key is missing.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        settings: ModelSettings | None = None,
        environment: Environment = os.environ,
        route_id: str = "openai",
    ) -> None:
        need_extra("openai", route_id)
        url = base_url or environment.get(BASE_URL) or OPENAI
        key = api_key or environment.get(KEY) or (None if url == OPENAI else _NO_KEY)
        self.route_id = route_id
        self.model_id = model
        self._settings = settings or ModelSettings()
        self._turns = openai_turns(self._settings.reasoning_field)
        self._max_tokens_name = "max_completion_tokens" if url == OPENAI else "max_tokens"
        self._line = Line(
            "windlass.adapters.models.openai_client",
            "OpenAIClient",
            Address(url, need_key(key, KEY, route_id=route_id)),
            self._settings,
            KEY,
        )

    def __repr__(self) -> str:
        return f"OpenAICompatProvider({self.model_id!r})"

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
        body = openai_body(
            self.model_id,
            openai_messages(messages, self._turns),
            tools=known,
            temperature=temperature,
            settings=self._settings,
            max_tokens_name=self._max_tokens_name,
        )
        reader = OpenAIReader(names_back(known))
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
