"""The connection to a provider: an SDK client for each event loop, and the events of a streamed answer."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from windlass.adapters.models.faults import error_event, malformed, translate
from windlass.adapters.models.settings import (
    DRAIN_TIMEOUT_S,
    ERROR_BYTES_MAX,
    EVENT_BYTES_MAX,
    Address,
    ModelSettings,
)
from windlass.errors import AgentError
from windlass_protocol import JsonObject

if TYPE_CHECKING:
    from httpx2 import Response, ServerSentEvent

_EVENT_STREAM: Final = "text/event-stream"
_MEDIA_TYPE: Final = re.compile(r"[a-z]+/[a-z0-9.+-]{1,64}").fullmatch
_DONE: Final = "[DONE]"
_LAST: Final = "message_stop"


class Client(Protocol):
    """An SDK."""

    async def post(self, body: JsonObject) -> "Response":
        """Send a request."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


class MakeClient(Protocol):
    """What makes an SDK's client."""

    def __call__(self, address: Address, settings: ModelSettings) -> Client:
        """Return a new client."""
        ...


@dataclass(slots=True)
class Line:
    """A server that is asked; shared by a provider and its variants."""

    module: str
    """The module of the client; it is imported by the first request, which may take a second."""
    name: str
    address: Address = field(repr=False)
    settings: ModelSettings
    key_name: str
    """The variable that the key comes from."""
    _clients: dict[asyncio.AbstractEventLoop, Client] = field(
        default_factory=dict[asyncio.AbstractEventLoop, Client], repr=False
    )

    async def events(self, body: JsonObject) -> AsyncGenerator[JsonObject | None]:
        """Give the events of an answer; None is the mark that there are no more.

        Raises:
            Unavailable: the model can be asked again later.
            Rejected: this request will never be answered.
        """
        failure: AgentError | None = None
        response: Response | None = None
        try:
            response = await (await self._client()).post(body)
            await self._check_type(response)
            async with aclosing(_parts(response)) as parts:
                async for part in parts:
                    if not part.data:
                        continue
                    event = self._event(part.data)
                    yield event
                    if event is None or event.get("type") == _LAST:
                        await _drain(parts)
                        return
        except Exception as error:  # noqa: BLE001 - the boundary to an SDK, which may raise anything
            failure = translate(error, key_name=self.key_name, now=datetime.now(UTC))
        finally:
            if response is not None:
                await response.aclose()
        # Raised out here, so that the foreign error, which may quote the prompt, is not its context.
        if failure is not None:
            raise failure

    async def aclose(self) -> None:
        """Close the connections of this event loop, and forget those of others."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        self._clients.clear()
        if client is not None:
            await client.aclose()

    async def _client(self) -> Client:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            # Connections belong to the loop that made them: those of a loop that is gone are of no use.
            for old in [known for known in self._clients if known.is_closed()]:
                del self._clients[old]
            module = await asyncio.to_thread(import_module, self.module)
            make = cast(MakeClient, getattr(module, self.name))
            self._clients.setdefault(loop, make(self.address, self.settings))
        return self._clients[loop]

    async def _check_type(self, response: "Response") -> None:
        found = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if found == _EVENT_STREAM:
            return
        body = b""
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > ERROR_BYTES_MAX:
                break
        with suppress(ValueError):
            answer: object = json.loads(body)
            if isinstance(answer, dict) and "error" in answer:
                raise error_event(cast(object, answer), key_name=self.key_name)
        shown = found if _MEDIA_TYPE(found) else "no content type"
        raise malformed(f"expected {_EVENT_STREAM}, found {shown}")

    def _event(self, data: str) -> JsonObject | None:
        if data.strip() == _DONE:
            return None
        event: object = json.loads(data)
        if not isinstance(event, dict):
            raise malformed("an event is no object")
        fields = cast(JsonObject, event)
        if fields.get("error") or fields.get("object") == "error" or fields.get("type") == "error":
            raise error_event(fields, key_name=self.key_name)
        return fields


async def _parts(response: "Response") -> "AsyncGenerator[ServerSentEvent]":
    # The SDK of the provider has imported it already.
    from httpx2 import EventSource  # noqa: PLC0415 - an extra

    async for part in EventSource(response, max_event_size=EVENT_BYTES_MAX):
        yield part


async def _drain(parts: "AsyncIterator[ServerSentEvent]") -> None:
    """Read the rest of a finished stream, so that its connection can be used again."""
    with suppress(Exception):
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            async for _ in parts:
                pass
