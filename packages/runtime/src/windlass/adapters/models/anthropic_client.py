"""The official SDK of Anthropic: keys, addresses, proxies and connections."""

from anthropic import AsyncAnthropic, AsyncStream, DefaultAsyncHttpxClient, Timeout
from httpx2 import Response

from windlass.adapters.models.settings import Address, ModelSettings
from windlass_protocol import JsonObject


class AnthropicClient:
    """Asks for streams; what is in them is not looked at."""

    def __init__(self, address: Address, settings: ModelSettings) -> None:
        timeout = Timeout(settings.idle_timeout_s, connect=settings.connect_timeout_s)
        self._client = AsyncAnthropic(
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
            "/v1/messages", cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
        )
        return stream.response

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.close()
