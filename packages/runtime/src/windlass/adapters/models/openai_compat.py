"""OpenAI, and every server that speaks its Chat Completions."""

import os
from collections.abc import Sequence
from typing import Final

from windlass.adapters.models.host import need_extra, need_key
from windlass.adapters.models.line import Line
from windlass.adapters.models.names import names_back
from windlass.adapters.models.openai_reader import OpenAIReader
from windlass.adapters.models.openai_request import openai_body, openai_messages, openai_turns
from windlass.adapters.models.served import ServedModel
from windlass.adapters.models.settings import Address, Environment, ModelSettings
from windlass.ports.model import LLMMessage
from windlass_protocol import JsonObject

KEY: Final = "OPENAI_API_KEY"
BASE_URL: Final = "OPENAI_BASE_URL"
OPENAI: Final = "https://api.openai.com/v1"
_NO_KEY: Final = "none"
"""What is sent to a server that needs no key: the SDK insists on one."""


class OpenAICompatProvider(ServedModel):
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
        # Other servers hold all that the model says to the schema, so that it can call nothing.
        self.holds_beside_tools = url == OPENAI
        self._max_tokens_name = "max_completion_tokens" if url == OPENAI else "max_tokens"
        address = Address(url, need_key(key, KEY, route_id=route_id, maker=type(self).__name__))
        client = ("windlass.adapters.models.openai_client", "OpenAIClient")
        super().__init__(model, Line(*client, address, settings or ModelSettings(), KEY), route_id=route_id)
        self._turns = openai_turns(self._settings.reasoning_field)

    def _body(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[JsonObject], temperature: float | None
    ) -> JsonObject:
        return openai_body(
            self.model_id,
            openai_messages(messages, self._turns),
            tools=tools,
            temperature=temperature,
            settings=self._settings,
            max_tokens_name=self._max_tokens_name,
        )

    def _reader(self, tools: Sequence[JsonObject]) -> OpenAIReader:
        return OpenAIReader(names_back(tools))
