"""Clients of providers: keys, addresses, proxies and connections.

A client imports its SDK when it is made.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol, TypedDict, cast
from urllib.parse import quote

from windlass.models.errors import ERROR_BYTES_MAX, EVENT_BYTES_MAX, ResponseError, stream_error
from windlass.models.transport import ModelAddress, ModelSettings
from windlass.ports.model import ModelFault, ModelRejected
from windlass_protocol import JsonObject, RetryClass

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response, Timeout


class _Sdk(Protocol):
    """The client of an SDK for OpenAI or Anthropic."""

    async def post(
        self, path: str, *, cast_to: type[object], body: object, stream: bool, stream_cls: type[object]
    ) -> object: ...

    async def close(self) -> None: ...


class _Credentials(Protocol):
    """Credentials of botocore."""

    def get_frozen_credentials(self) -> object: ...


class _Signer(Protocol):
    """A signature of botocore."""

    def add_auth(self, request: object) -> None: ...


class _Frame(Protocol):
    """A frame of an event stream of AWS."""

    headers: dict[str, str]
    payload: bytes


class _Frames(Protocol):
    """The decoder of these frames."""

    def add_data(self, data: bytes) -> None: ...

    def __iter__(self) -> Iterator[_Frame]: ...


class _Options(TypedDict):
    """Arguments of an SDK client."""

    api_key: str
    timeout: "Timeout"
    http_client: "AsyncClient"
    max_retries: int
    default_headers: Mapping[str, str] | None


def _options(
    address: ModelAddress, settings: ModelSettings, make_http: Callable[..., "AsyncClient"]
) -> _Options:
    timeout = _timeout(settings)
    return _Options(
        api_key=address.api_key,
        timeout=timeout,
        # The SDK's default client closes itself in whichever event loop runs at that time.
        http_client=make_http(timeout=timeout),
        # The loop journals each attempt, so the SDK must not retry.
        max_retries=0,
        default_headers=settings.headers,
    )


def _timeout(settings: ModelSettings) -> "Timeout":
    from httpx2 import Timeout  # noqa: PLC0415 - an extra

    return Timeout(settings.idle_timeout_s, connect=settings.connect_timeout_s)


class EventClient:
    """A client whose answers are server-sent events."""

    media_type = "text/event-stream"

    async def texts(self, response: "Response") -> AsyncGenerator[str]:
        """Yield the JSON text of each event."""
        from httpx2 import EventSource  # noqa: PLC0415 - an extra

        async for part in EventSource(response, max_event_size=EVENT_BYTES_MAX):
            if part.data:
                yield part.data


class SdkClient(EventClient):
    """Requests streams with an SDK; `Line` and the readers decode them."""

    def __init__(self, sdk: object, path: str, stream_cls: type[object]) -> None:
        self.sdk = sdk
        self._sdk = cast(_Sdk, sdk)
        self._path = path
        self._stream_cls = stream_cls

    async def post(self, body: JsonObject) -> "Response":
        """Send a request; return once the response headers arrived."""
        stream = await self._sdk.post(
            self._path, cast_to=object, body=body, stream=True, stream_cls=self._stream_cls
        )
        return cast("Response", getattr(stream, "response"))  # noqa: B009 - of the class of each SDK

    async def aclose(self) -> None:
        """Close every connection."""
        await self._sdk.close()


def openai_client(path: str, address: ModelAddress, settings: ModelSettings) -> SdkClient:
    """Return a client of OpenAI, or of a server with its API."""
    from openai import AsyncOpenAI, AsyncStream, DefaultAsyncHttpxClient  # noqa: PLC0415 - an extra

    options = _options(address, settings, DefaultAsyncHttpxClient)
    return SdkClient(AsyncOpenAI(base_url=address.base_url, **options), path, AsyncStream[object])


def azure_client(api_version: str, address: ModelAddress, settings: ModelSettings) -> SdkClient:
    """Return a client of Azure OpenAI, which names the deployment in the path."""
    from openai import AsyncAzureOpenAI, AsyncStream, DefaultAsyncHttpxClient  # noqa: PLC0415 - an extra

    options = _options(address, settings, DefaultAsyncHttpxClient)
    sdk = AsyncAzureOpenAI(azure_endpoint=address.base_url, api_version=api_version, **options)
    return SdkClient(sdk, "/chat/completions", AsyncStream[object])


def anthropic_client(address: ModelAddress, settings: ModelSettings) -> SdkClient:
    """Return a client of Anthropic."""
    from anthropic import AsyncAnthropic, AsyncStream, DefaultAsyncHttpxClient  # noqa: PLC0415 - an extra

    options = _options(address, settings, DefaultAsyncHttpxClient)
    return SdkClient(
        AsyncAnthropic(base_url=address.base_url, **options), "/v1/messages", AsyncStream[object]
    )


class HttpClient(EventClient):
    """Requests streams over plain HTTP.

    Google's own SDK sends further requests by itself (retries, continuations, calls of functions), which the
    journal would not see, and reads events without a limit of their size.
    """

    def __init__(self, url: str, address: ModelAddress, settings: ModelSettings) -> None:
        from httpx2 import AsyncClient  # noqa: PLC0415 - an extra

        self._url = f"{address.base_url.rstrip('/')}{url}"
        self._address = address
        self._headers = {**(settings.headers or {}), "content-type": "application/json"}
        self._http = AsyncClient(timeout=_timeout(settings))

    async def post(self, body: JsonObject) -> "Response":
        """Send a request; return once the response headers arrived.

        Raises:
            ResponseError: the server refused it.
        """
        content = json.dumps(body, ensure_ascii=False).encode()
        headers = await self._sign_headers(content)
        request = self._http.build_request("POST", self._url, content=content, headers=headers)
        response = await self._http.send(request, stream=True)
        if response.status_code == 200:
            return response
        try:
            text = b""
            async for piece in response.aiter_bytes():
                text += piece
                if len(text) > ERROR_BYTES_MAX:
                    break
        finally:
            await response.aclose()
        answer: object = None
        with suppress(ValueError):
            answer = json.loads(text)
        raise ResponseError(response.status_code, answer, response.headers)

    async def _sign_headers(self, content: bytes) -> dict[str, str]:
        """Return the headers of a request."""
        return {**self._headers, "x-goog-api-key": self._address.api_key}

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()


def google_client(model: str, address: ModelAddress, settings: ModelSettings) -> HttpClient:
    """Return a client of the Gemini API."""
    return HttpClient(f"/v1beta/models/{quote(model)}:streamGenerateContent?alt=sse", address, settings)


_NO_CREDENTIALS: Final = (
    "no AWS credentials were found: set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
)


class BedrockClient(HttpClient):
    """Requests streams of Converse, signed by botocore.

    botocore finds and renews credentials, signs and decodes frames. Its own client blocks: each answer would
    need a thread, and a cancelled one would keep it until the read times out.
    """

    media_type = "application/vnd.amazon.eventstream"

    def __init__(self, model: str, region: str, address: ModelAddress, settings: ModelSettings) -> None:
        super().__init__(f"/model/{quote(model, safe='')}/converse-stream", address, settings)
        self._region = region
        self._credentials: _Credentials | None = None

    async def _sign_headers(self, content: bytes) -> dict[str, str]:
        if self._address.api_key:
            return {**self._headers, "authorization": f"Bearer {self._address.api_key}"}
        # Credentials may come from a file or from the network.
        return await asyncio.to_thread(self._sign, content)

    def _sign(self, content: bytes) -> dict[str, str]:
        from botocore.auth import SigV4Auth  # noqa: PLC0415 - an extra
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415 - an extra
        from botocore.session import Session  # noqa: PLC0415 - an extra

        if self._credentials is None:
            self._credentials = cast(_Credentials | None, Session().get_credentials())
        if self._credentials is None:
            raise ModelRejected(
                _NO_CREDENTIALS, fault=ModelFault.AUTH, retry=RetryClass.HOST_CONFIGURATION_NEEDED
            )
        request = AWSRequest("POST", self._url, data=content, headers=self._headers)
        frozen = self._credentials.get_frozen_credentials()
        cast(_Signer, SigV4Auth(frozen, "bedrock", self._region)).add_auth(request)
        return dict(request.headers.items())

    async def texts(self, response: "Response") -> AsyncGenerator[str]:
        """Yield each event as the JSON text of an object with its type as key."""
        from botocore.eventstream import EventStreamBuffer, ParserError  # noqa: PLC0415 - an extra

        frames = cast(_Frames, EventStreamBuffer())
        async for piece in response.aiter_bytes():
            frames.add_data(piece)
            try:
                messages = list(frames)
            except ParserError:
                raise stream_error("a frame is damaged or too large") from None
            for message in messages:
                headers, text = message.headers, message.payload.decode() or "{}"
                if headers.get(":message-type") == "event":
                    yield f"{{{json.dumps(headers.get(':event-type'))}: {text}}}"
                else:
                    kind = headers.get(":exception-type") or headers.get(":error-code")
                    error = {"type": kind, "message": headers.get(":error-message") or text}
                    yield json.dumps({"error": error})
