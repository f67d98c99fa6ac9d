"""Values: JSON of any size by name, in the documents of a store.

A value that is too large for a document is in parts. They are written before it and dropped after it, so that
a crash leaves the old value or the new one.
"""

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Final

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from windlass.errors import Conflict
from windlass.limits import DOCUMENT_BYTES_MAX, WRITES_MAX
from windlass.ports.documents import Document, Documents
from windlass.refusals import too_many_writers
from windlass_protocol import JsonObject

_WHOLE_BYTES_MAX: Final = DOCUMENT_BYTES_MAX - 1_024
_PART_BYTES: Final = 190_000
"""Bytes of a part: it is stored as base64."""
_PAGE: Final = 50
_MARK: Final = "g"
"""Between a name and its part; names are hexadecimal."""
_DIGEST_CHARS: Final = 32


def key_of(*texts: str) -> str:
    """Return texts as the beginning of a name: a digest of each, so that any text fits."""
    return "".join(sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARS] for text in texts)


class Values:
    """The values of one kind."""

    def __init__(self, store: Documents, kind: str) -> None:
        self._store = store
        self._kind = kind
        self._part_kind = f"{kind}-part"

    async def get(self, name: str) -> JsonValue:
        """Return a value; None if there is none."""
        for _ in range(WRITES_MAX):
            document = await self._store.document(self._kind, name)
            if document is None:
                return None
            with suppress(_Replaced):
                return await self._read(document)
        raise too_many_writers(f"{self._kind} {name}")

    async def add(self, name: str, value: JsonValue) -> None:
        """Write the first value of a name.

        Raises:
            Conflict: it has one.
        """
        await self._write(Document(self._kind, name, 1, {}), value)

    async def change(self, name: str, change: Callable[[JsonValue], JsonValue]) -> None:
        """Replace a value by what `change` makes of it; of None if there is none. An equal value stays."""
        for _ in range(WRITES_MAX):
            document = await self._store.document(self._kind, name)
            with suppress(_Replaced, Conflict):
                old = None if document is None else await self._read(document)
                new = change(old)
                if document is None:
                    return await self.add(name, new)
                if new != old:
                    await self._write(replace(document, revision=document.revision + 1), new)
                    await self._drop_parts(document)
                return None
        raise too_many_writers(f"{self._kind} {name}")

    async def put(self, name: str, value: JsonValue) -> None:
        """Write a value in place of another, or as the first."""
        await self.change(name, lambda _: value)

    async def first(self, prefix: str) -> JsonValue:
        """Return the first value, by name, with a name that is longer than a prefix; None without one."""
        for document in await self._store.documents(self._kind, after=prefix, limit=1):
            if document.name.startswith(prefix):
                return await self.get(document.name)
        return None

    async def scan(self, prefix: str) -> AsyncIterator[tuple[str, JsonValue]]:
        """Yield the values with names that are longer than a prefix, by name."""
        after = prefix
        while True:
            documents = await self._store.documents(self._kind, after=after, limit=_PAGE)
            for document in documents:
                if not document.name.startswith(prefix):
                    return
                # It may have been deleted since.
                value = await self.get(document.name) if "parts" in document.body else document.body["value"]
                if value is not None:
                    yield document.name, value
            if len(documents) < _PAGE:
                return
            after = documents[-1].name

    async def drop(self, prefix: str) -> None:
        """Delete the values with names that begin with a prefix."""
        for kind in (self._kind, self._part_kind):
            await self._drop(kind, prefix)

    async def _drop(self, kind: str, prefix: str) -> None:
        exact = await self._store.document(kind, prefix)
        documents = () if exact is None else (exact,)
        while True:
            documents += await self._store.documents(kind, after=prefix, limit=_PAGE)
            matching = [document for document in documents if document.name.startswith(prefix)]
            for document in matching:
                # Another process deletes or replaces it: what it writes after this is its own.
                with suppress(Conflict):
                    await self._store.drop_document(document)
            if len(matching) < _PAGE:
                return
            documents = ()

    async def _write(self, document: Document, value: JsonValue) -> None:
        raw = to_json(value)
        if len(raw) <= _WHOLE_BYTES_MAX:
            await self._store.put_document(replace(document, body={"value": value}))
            return
        digest = sha256(raw).hexdigest()[:_DIGEST_CHARS]
        count = -(-len(raw) // _PART_BYTES)
        for number in range(count):
            part = b64encode(raw[number * _PART_BYTES : (number + 1) * _PART_BYTES]).decode()
            name = _part_name(document.name, digest, number)
            # A part with this digest is the same part.
            with suppress(Conflict):
                await self._store.put_document(Document(self._part_kind, name, 1, {"part": part}))
        body: JsonObject = {"parts": count, "digest": digest}
        await self._store.put_document(replace(document, body=body))

    async def _read(self, document: Document) -> JsonValue:
        count, digest = document.body.get("parts"), document.body.get("digest")
        if not isinstance(count, int):
            return document.body["value"]
        raw = bytearray()
        for number in range(count):
            name = _part_name(document.name, str(digest), number)
            part = await self._store.document(self._part_kind, name)
            if part is None:
                raise _Replaced
            raw += b64decode(str(part.body["part"]))
        return from_json(bytes(raw))

    async def _drop_parts(self, document: Document) -> None:
        if "parts" in document.body:
            await self._drop(self._part_kind, f"{document.name}{_MARK}{document.body['digest']}")


def _part_name(name: str, digest: str, number: int) -> str:
    return f"{name}{_MARK}{digest}{number:06}"


class _Replaced(Exception):
    """A value was replaced or deleted while it was read."""
