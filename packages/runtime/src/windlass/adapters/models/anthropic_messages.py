"""Anthropic, and every server that speaks its Messages API."""

import os
from collections.abc import Sequence
from typing import Final

from windlass.adapters.models.anthropic_reader import AnthropicReader
from windlass.adapters.models.anthropic_request import anthropic_body, anthropic_turns
from windlass.adapters.models.host import need_extra, need_key
from windlass.adapters.models.line import Line
from windlass.adapters.models.names import names_back
from windlass.adapters.models.served import ServedModel
from windlass.adapters.models.settings import Address, Environment, ModelSettings
from windlass.ports.model import LLMMessage
from windlass_protocol import JsonObject

KEY: Final = "ANTHROPIC_API_KEY"
BASE_URL: Final = "ANTHROPIC_BASE_URL"
ANTHROPIC: Final = "https://api.anthropic.com"


class AnthropicProvider(ServedModel):
    """A model behind the Messages API.

    The key is `api_key` or the variable ANTHROPIC_API_KEY, the address `base_url` or ANTHROPIC_BASE_URL. The
    prompt is marked to be cached. Nothing is tried again here: the loop does that.

    Raises:
        Unavailable: the extra `windlass[anthropic]` or the key is missing.
    """

    holds_beside_tools = True

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
        key = need_key(api_key or environment.get(KEY), KEY, route_id=route_id, maker=type(self).__name__)
        line = Line(
            "windlass.adapters.models.anthropic_client",
            "AnthropicClient",
            Address(url, key),
            settings or ModelSettings(),
            KEY,
        )
        super().__init__(model, line, route_id=route_id)
        self._turns = anthropic_turns(model, self._settings)

    def _body(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[JsonObject], temperature: float | None
    ) -> JsonObject:
        return anthropic_body(
            self.model_id,
            messages,
            turns=self._turns,
            tools=tools,
            temperature=temperature,
            settings=self._settings,
        )

    def _reader(self, tools: Sequence[JsonObject]) -> AnthropicReader:
        return AnthropicReader(names_back(tools), self.model_id)
