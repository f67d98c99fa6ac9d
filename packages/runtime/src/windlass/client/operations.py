"""What the generated operations of the client are made of: requests from arguments, and their answers."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from msgspec import UNSET
from pydantic import BaseModel, JsonValue
from pydantic_core import from_json, to_jsonable_python

from windlass.client.connection import (
    IDEMPOTENCY_KEY_CHARS_MAX,
    LINE_CHARS_MAX,
    Query,
    ServerCall,
)
from windlass.refusals import bad_request
from windlass_protocol import JsonObject

if TYPE_CHECKING:
    from windlass.client.link import ServerLink

T = TypeVar("T")


class Linked(Protocol):
    """Gives access to the connection to the server."""

    @property
    def link(self) -> "ServerLink":
        """The connection to the server.

        Raises:
            Rejected: the client is not open.
        """
        ...


class OperationGroup:
    """Operations of a server on one kind of thing."""

    def __init__(self, client: Linked) -> None:
        self._client = client

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str | None] | None = None,
        body: Mapping[str, object] | None = None,
        nullable: Sequence[str] = (),
        key: str | None = None,
        is_repeatable: bool = True,
    ) -> ServerCall:
        """Return a request; arguments that are None are left out, except null for a field that takes it."""
        return ServerCall(
            method,
            path,
            query=None if query is None else cast(Query, _fields(query, ())),
            headers={name: value for name, value in (headers or {}).items() if value is not None},
            body=None if body is None else _fields(body, nullable),
            key=key,
            is_repeatable=is_repeatable,
        )

    def _key(self, key: str | None) -> str:
        return key_for(self._client.link, key)

    async def _ask(self, kind: type[T], call: ServerCall) -> T:
        return await self._client.link.ask(kind, call)

    async def _read(self, call: ServerCall) -> bytes:
        return await self._client.link.read(call)

    async def _read_json(self, call: ServerCall) -> JsonValue:
        return from_json(await self._client.link.read(call))

    async def _lines(self, call: ServerCall, accept: str) -> AsyncGenerator[str]:
        async for line in self._client.link.lines(call, accept=accept, chars_max=LINE_CHARS_MAX):
            yield line


def key_for(link: "ServerLink", key: str | None) -> str:
    """Return the idempotency key of a request: the given one, or a new one.

    Raises:
        Rejected: the given key cannot be sent.
    """
    if key is None:
        return link.means.new_id()
    chars_max = IDEMPOTENCY_KEY_CHARS_MAX
    if not key or len(key) > chars_max or not all("!" <= char <= "~" for char in key):
        raise bad_request(f"idempotency_key must be 1 to {chars_max} ASCII characters without spaces")
    return key


def _fields(values: Mapping[str, object], nullable: Sequence[str]) -> JsonObject:
    """Return arguments in wire form."""
    return {
        name: _plain(value)
        for name, value in values.items()
        if value is not UNSET and (value is not None or name in nullable)
    }


def _plain(value: object) -> JsonValue:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast(Sequence[object], value)]
    return to_jsonable_python(value, by_alias=True)
