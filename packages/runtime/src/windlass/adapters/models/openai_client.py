"""The official SDK of OpenAI: keys, addresses, proxies and connections."""

from httpx2 import Response
from openai import AsyncOpenAI, AsyncStream, DefaultAsyncHttpxClient

from windlass.adapters.models.sdk_options import sdk_options
from windlass.adapters.models.transport import Address, ModelSettings
from windlass_protocol import JsonObject


class OpenAIClient:
    """Requests streams; `Line` and the readers decode them."""

    def __init__(self, address: Address, settings: ModelSettings) -> None:
        options = sdk_options(address, settings, make_http=DefaultAsyncHttpxClient)
        self._client = AsyncOpenAI(**options)

    async def post(self, body: JsonObject) -> Response:
        """Send a request; return once the response headers arrived."""
        stream = await self._client.post(
            "/chat/completions", cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
        )
        return stream.response

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.close()
