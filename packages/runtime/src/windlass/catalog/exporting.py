"""Sessions as lines of JSON, for another store or for people.

The first line says what follows, the last one how many lines there are and the checksum of all of them; a
file that was torn or changed anywhere is refused. Positions are not in it, for they are those of a store.
What the index says of the session and its runs is told by the records, and made anew from them.
"""

from base64 import b64encode
from collections.abc import AsyncIterator, Iterable
from hashlib import sha256
from typing import Final, cast

from pydantic import JsonValue
from pydantic_core import to_json

from windlass.engine.moments import moment
from windlass.errors import Conflict, Rejected
from windlass.ports.archive import StoredAppend
from windlass.ports.clock import Clock
from windlass.ports.content import ContentStore
from windlass.ports.journal import Store
from windlass.refusals import unknown_session
from windlass_protocol import CausalIds, ContentRef, ErrorKind, Record, RetryClass

JsonObject = dict[str, JsonValue]

FORMAT: Final = "windlass-session"
VERSION: Final = 1
"""Of the lines; what a record may hold is told by the records themselves."""
_APPENDS_PER_READ: Final = 16
_ITEMS_PER_READ: Final = 512


async def export(store: Store, content: ContentStore, *, session_id: str, clock: Clock) -> AsyncIterator[str]:
    """Return a session as it is now, line by line.

    Raises:
        Conflict: there is no such session, or it was deleted before the last line.
    """
    row = await store.session(session_id)
    if row is None or await store.listed_session(session_id) is None:
        raise unknown_session(session_id)
    total, count = sha256(), 0
    async for line in _lines(store, content, session_id=session_id, last_seq=row.last_seq, clock=clock):
        text = to_json(line)
        total.update(text + b"\n")
        count += 1
        yield text.decode()
    # Whoever has the last line has all of the session.
    await _check_kept(store, session_id)
    yield to_json({"kind": "end", "lines": count, "sha256": total.hexdigest()}).decode()


async def _lines(
    store: Store, content: ContentStore, *, session_id: str, last_seq: int, clock: Clock
) -> AsyncIterator[JsonObject]:
    yield {
        "kind": "header",
        "format": FORMAT,
        "version": VERSION,
        "sessionId": session_id,
        "lastSeq": last_seq,
        "exportedAt": moment(clock).at,
    }
    packages: dict[str, None] = {}
    after = 0
    while after < last_seq:
        appends = await store.appends(session_id, after=after, limit=_APPENDS_PER_READ)
        if not appends:
            raise _gone(session_id)
        for append in appends:
            after = append.records[-1].seq
            if after > last_seq:
                break
            packages |= dict.fromkeys(fingerprints(append.records))
            yield _append_line(append)
    async for item in _items(store, session_id, last_seq):
        yield item
    for ref in await store.contents_of(session_id):
        yield _content_line(ref, await _own(store, content, session_id=session_id, ref=ref), is_own=True)
    for fingerprint in packages:
        ref = ContentRef(
            content_id=fingerprint, hash=fingerprint, size_bytes=0, media_type="application/json"
        )
        try:
            package = await content.get(ref)
        except Rejected:  # it is not kept any more
            continue
        yield _content_line(ref, package, is_own=False)


async def _own(store: Store, content: ContentStore, *, session_id: str, ref: ContentRef) -> bytes:
    try:
        return await content.get(ref)
    except Rejected:
        await _check_kept(store, session_id)
        raise


async def _check_kept(store: Store, session_id: str) -> None:
    if await store.session(session_id) is None:
        raise _gone(session_id)


def _gone(session_id: str) -> Conflict:
    return Conflict(
        "the session was deleted while it was exported: the lines so far are not all of it",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=CausalIds(session_id=session_id),
    )


def fingerprints(records: Iterable[Record]) -> list[str]:
    """Return the packages that runs were pinned to, or moved to."""
    named = (
        record.data.get(name)
        for record in records
        if record.type in ("run.started", "session.moved")
        for name in ("packageFingerprint", "toFingerprint")
    )
    return [one for one in named if isinstance(one, str)]


def _append_line(append: StoredAppend) -> JsonObject:
    records = [
        record.model_dump(mode="json", by_alias=True, exclude={"position"}) for record in append.records
    ]
    return {"kind": "append", "epoch": append.epoch, "records": cast(list[JsonValue], records)}


def _content_line(ref: ContentRef, content: bytes, *, is_own: bool) -> JsonObject:
    return {
        "kind": "content",
        "hash": ref.hash,
        "mediaType": ref.media_type,
        "isOwn": is_own,
        "data": b64encode(content).decode(),
    }


async def _items(store: Store, session_id: str, last_seq: int) -> AsyncIterator[JsonObject]:
    after = 0
    while items := await store.kept_items(session_id, after=after, limit=_ITEMS_PER_READ):
        after = items[-1].number
        for item in items:
            if item.consumed_seq <= last_seq:
                yield {
                    "kind": "item",
                    "itemKind": item.kind,
                    "key": item.key,
                    "digest": item.digest.hex(),
                    "consumedSeq": item.consumed_seq,
                    "runId": item.run_id,
                }
