"""The official SDK of OpenAI: keys, addresses, proxies and connections."""

from httpx2 import Response
from openai import AsyncOpenAI, AsyncStream, DefaultAsyncHttpxClient, Timeout

from windlass.adapters.models.settings import Address, ModelSettings
from windlass_protocol import JsonObject


class OpenAIClient:
    """Asks for streams; what is in them is not looked at."""

    def __init__(self, address: Address, settings: ModelSettings) -> None:
        timeout = Timeout(settings.idle_timeout_s, connect=settings.connect_timeout_s)
        self._client = AsyncOpenAI(
            api_key=address.api_key,
            base_url=address.base_url,
            timeout=timeout,
            # The one that the SDK makes by itself would close itself in whatever event loop runs by then.
            http_client=DefaultAsyncHttpxClient(timeout=timeout),
            # Attempts are journaled, so nobody but the loop makes one.
            max_retries=0,
            default_headers=settings.headers,
        )

    async def post(self, body: JsonObject) -> Response:
        """Send a request; return as soon as the head of the answer is there."""
        stream = await self._client.post(
            "/chat/completions", cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
        )
        return stream.response

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.close()
