"""Codec of stored records and inbox items, with their limits.

An append is one compressed JSON array of records. A record is an array of its fields in the order of `Draft`,
without posts and without empty fields at the end. Session, numbers and epoch are columns, not part of it.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b, sha256
from typing import Any, Final, cast

from msgspec import UNSET, Raw, Struct, UnsetType, json
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from windlass.adapters.journals.rules import rejection, run_of_start, too_large
from windlass.limits import BATCH_RECORDS_MAX, CONTENT_BYTES_MAX, INBOX_ITEM_BYTES_MAX, RECORD_BYTES_MAX
from windlass.ports.archive import SessionCopy, StoredAppend
from windlass.ports.inbox import STEER, ItemTooLarge, NewRun
from windlass.ports.journal import Batch
from windlass_harness.loop.subagents import START
from windlass_harness.record import Post, Record
from windlass_harness.views.listing import RECORDS_WITH_WORDS, SessionNews, news_of_start, words_of_record
from windlass_protocol import ContentRef, JsonObject
from windlass_protocol.frozen import frozen
from windlass_protocol.limits import ID_CHARS_MAX

_PLAIN: Final = b"\x00"
_WORDS_1: Final = b"\x01"
_PACK_BYTES_MIN: Final = 128
_BODY_BYTES_MAX: Final = RECORD_BYTES_MAX * BATCH_RECORDS_MAX
_WINDOW_BITS: Final = -13  # raw deflate; 8 KiB are enough for the dictionary and most bodies
_MEMORY_LEVEL: Final = 8

# Strings that records have in common, the most frequent last: closer matches need fewer bits.
DICTIONARY_1: Final = (
    b'["session.waiting","Z",{"wait":"next-user-message"}],["run.cancelled","["run.failed","Z",{"runId":"'
    b'","error":{"code":"unavailable","kind":"provider_failure","retry":"not_retryable","message":"'
    b'["step.failed","["step.retrying","Z",{"code":"provider_failure","attempt":1,"delayMs":'
    b'["output.requested","["output.validated","["output.rejected","schemaId","errors":[{"path":"'
    b'["recovery.started","["recovery.effect_found","["recovery.effect_settled","choice":"retry"'
    b'["hook.completed","Z",{"hookId":"","point":"before_tool_call","status":"completed","durationMs":'
    b'["input.requested","Z",{"requests":[{"requestId":"approval:","action":{"kind":"tool-call","callId":"'
    b'"prompt":"Run ?","display":"confirmation","options":[{"id":"approve","label":"Approve",'
    b'"style":"primary"},'
    b'{"id":"approve_session","label":"Approve for this session"},'
    b'{"id":"deny","label":"Deny","style":"danger"}],'
    b'"allowFreeform":true,"kind":"approval","argumentsHash":"sha256:","expiresAt":"'
    b'["turn.waiting","["run.waiting","Z",{"runId":"","on":"input","requestIds":["approval:'
    b'["input.resolved","Z",{"resolutions":[{"requestId":"","outcome":"approved","kind":"approval",'
    b'"response":{"'
    b'["approval.settled","responder":"","optionId":"approve"}}],["run.resumed","reason":"ready","epoch":'
    b'["session.started","Z",{},null,"["run.started","Z",{"runId":"","agentId":"","packageId":"",'
    b'"packageFingerprint":"sha256:","routeId":"","modelId":"","budget":{"max'
    b'["turn.started","Z",{"sequence":0,"turnId":"turn_0"},"["message.received","Z",{"message":"'
    b'["turn.completed","["run.completed","Z",{"runId":"","output":"","structuredOutput":'
    b'["reasoning.completed","Z",{"reasoning":"'
    b'"status":"failed","error":{"code":"failed","message":"","output":null,"isError":true},"rejected"'
    b'["message.completed","2026-11-15T12:00:00.000Z",{"message":null,"finishReason":"stop"tool-calls",'
    b'"sequence":0,"turnId":"turn_0","stepIndex":0},"["actions.requested","Z",{"actions":[{"kind":"tool-call",'
    b'"callId":"call_","toolName":"","input":{"}}],"sequence":0,"turnId":"turn_0","stepIndex":'
    b'["step.completed","Z",{"finishReason":"tool-calls","sequence":0,"turnId":"turn_0","stepIndex":1,'
    b'"usage":{"inputTokens":10,"outputTokens":10,"costMicros":},"latencyMs":0},"'
    b'["policy.decided","Z",{"stage":"pre_tool","decision":{"code":"policy.default",'
    b'"reason":"Reads and safe writes need no consent.","policyRefs":[{"kind":"permission",'
    b'"id":"default.read",'
    b'"version":"sha256:"}],"decision":"allow"},"callId":"","toolName":"","sequence":0,"turnId":"turn_0",'
    b'["action.started","Z",{"callId":"","toolName":"","effect":"read","idempotencyKey":"","argumentsHash":'
    b'"sha256:","mode":"read","sequence":0,"turnId":"turn_0","stepIndex":0},"'
    b'["action.result","2026-11-15T12:00:00.000Z",{"result":{"kind":"tool-result","callId":"","toolName":"",'
    b'"output":""},"status":"completed","sequence":0,"turnId":"turn_0","stepIndex":0,"durationMs":0},"'
    b'["step.started","Z",{"sequence":0,"turnId":"turn_0","stepIndex":1,"promptMessageCount":1,"modelId":"'
)


_PACKER: Final = zlib.compressobj(
    1, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY, DICTIONARY_1
)
"""Its copies pack: making one anew costs half as much as packing."""


def pack(body: bytes) -> bytes:
    """Return a body in compressed form."""
    if len(body) < _PACK_BYTES_MIN:
        return _PLAIN + body
    packer = _PACKER.copy()
    packed = packer.compress(body) + packer.flush()
    return _WORDS_1 + packed if len(packed) < len(body) else _PLAIN + body


def unpack(stored: bytes) -> bytes:
    """Return the body of a compressed form.

    Raises ValueError if it is damaged, or larger than any body may be.
    """
    kind, rest = stored[:1], stored[1:]
    if kind == _PLAIN:
        return rest
    if kind != _WORDS_1:
        raise ValueError("unknown storage format: written by a newer release, or damaged")
    unpacker = zlib.decompressobj(_WINDOW_BITS, zdict=DICTIONARY_1)
    try:
        body = unpacker.decompress(rest, _BODY_BYTES_MAX)
    except zlib.error:
        raise ValueError("a body cannot be unpacked") from None
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("a body is cut off or too large")
    return body


def measure_unpacked(stored: bytes, limit: int) -> int:
    """Return the size of the body of a compressed form; `limit` if it has as much or more."""
    if stored[:1] != _WORDS_1:
        return min(len(stored), limit)
    try:
        return len(zlib.decompressobj(_WINDOW_BITS, zdict=DICTIONARY_1).decompress(stored[1:], limit))
    except zlib.error:
        return limit


INTEGER_MAX: Final = 2**63 - 1
READ_LEVELS_MAX: Final = 200
"""Levels of lists and objects that pydantic reads."""
_WRITTEN_LEVELS_MAX: Final = 254
"""Levels that it writes."""
_LONG_NUMBER: Final = b"0" * 4_300
_DIGITS_TO_ZERO: Final = bytes.maketrans(b"123456789", b"000000000")
_NAME: Final = re.compile(rf"[^\x00-\x1f\x7f\ud800-\udfff]{{1,{ID_CHARS_MAX}}}")


def check_id(what: str, value: str) -> None:
    """Reject an id that is invalid on the wire."""
    if not _NAME.fullmatch(value):
        raise rejection(f"{what} must be 1 to {ID_CHARS_MAX} characters, none of them a control character")


def check_number(what: str, value: int) -> None:
    """Reject a number that no store can hold."""
    if not 0 <= value <= INTEGER_MAX:
        raise rejection(f"{what} must be from 0 to {INTEGER_MAX:,}")


def encode_batch(batch: Batch, *, is_packed: bool = True) -> bytes:
    """Return the body of an append.

    Raises:
        Rejected: a record or the batch exceeds its limit, or a value is not JSON.
    """
    check_id("a session id", batch.claim.session_id)
    if batch.wake_at_ms is not None:
        check_number("wake_at_ms", batch.wake_at_ms)
    return encode_records(batch.drafts, is_packed=is_packed)


def encode_records(drafts: Sequence[Record], *, is_packed: bool = True) -> bytes:
    """Return the body of an append of records.

    Raises:
        Rejected: a record or the batch exceeds its limit, or a value is not JSON.
    """
    if len(drafts) > BATCH_RECORDS_MAX:
        raise too_large("batch", len(drafts), limit=BATCH_RECORDS_MAX, unit="records")
    rows: list[list[JsonValue]] = []
    for draft in drafts:
        row: list[JsonValue] = [
            draft.type,
            draft.at,
            draft.data,
            draft.run_id,
            draft.agent_id,
            draft.turn_id,
            draft.step_index,
        ]
        if draft.attempt is not None:
            row.append(draft.attempt)
        while row[-1] is None:
            row.pop()
        rows.append(row)
    body = _json("a record", rows)
    if len(body) > RECORD_BYTES_MAX:
        for row in rows:
            size = len(_json("a record", row))
            if size > RECORD_BYTES_MAX:
                raise too_large("record", size, limit=RECORD_BYTES_MAX)
    return pack(body) if is_packed else _PLAIN + body


_ITEM_NOUNS: Final = {START: "message with its options", STEER: "message"}
"""The kinds of items that callers know by another name."""


def encode_item(
    session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None
) -> tuple[bytes, bytes]:
    """Return the body of an item, and its digest for idempotency.

    The digest covers the request of the run that the item starts, or else the body, with sorted keys.

    Raises:
        ItemTooLarge: the item is.
        Rejected: it is not JSON, or has an invalid name.
    """
    for what, name in (("a session id", session_id), ("an inbox kind", kind), ("an inbox key", key)):
        check_id(what, name)
    if run is not None:
        for what, name in (("a run id", run.run_id), ("an agent id", run.agent_id)):
            check_id(what, name)
        check_id("a fingerprint", run.fingerprint)
    raw = _json("an inbox item", body)
    if len(raw) > INBOX_ITEM_BYTES_MAX:
        raise ItemTooLarge(_ITEM_NOUNS.get(kind, "inbox item"), len(raw), limit=INBOX_ITEM_BYTES_MAX)
    head = to_json([session_id, kind, None if run is None else run.run_id])
    request = raw if run is None or run.request is None else _json("a request", run.request)
    return raw, blake2b(head + to_json(_sort_keys(from_json(request))), digest_size=16).digest()


@frozen
class EncodedPost:
    """An encoded inbox item that an append posts."""

    post: Post
    raw: bytes
    digest: bytes
    run: NewRun | None
    """The run that the item starts."""
    facts: SessionNews | None = None
    """Index facts of its session."""


def encode_posts(batch: Batch) -> tuple[EncodedPost, ...]:
    """Return the inbox items that an append posts.

    Raises:
        Rejected: an item is too large, not JSON, or has an invalid name.
    """
    posts = batch.posts
    if not posts:
        return ()
    at = batch.drafts[-1].at
    return tuple(encode_post(post, run_of_start(post), at=at) for post in posts)


def encode_post(post: Post, run: NewRun | None, *, at: str = "") -> EncodedPost:
    """Return an encoded item.

    Raises:
        Rejected: it is too large, not JSON, or has an invalid name.
    """
    raw, digest = encode_item(post.session_id, kind=post.kind, key=post.key, body=post.body, run=run)
    facts = news_of_start(post.body, at) if run is not None or post.kind == STEER else None
    if facts is not None and run is not None and facts.agent_id != run.agent_id:
        facts = replace(facts, agent_id=run.agent_id)
    return EncodedPost(post, raw, digest, run, facts)


def decode_records(
    body: bytes, session_id: str, *, last_seq: int, last_position: int, epoch: int
) -> tuple[Record, ...]:
    """Return the records of an append; ValueError if the body is invalid."""
    # Not validated: the checksum proves that they are what was written.
    rows = _ROWS.decode(unpack(body))
    seq, position = last_seq - len(rows), last_position - len(rows)
    records: list[Record] = []
    for row in rows:
        seq += 1
        position += 1
        if row.unknown is not UNSET:
            raise ValueError("a record has more fields than this release knows")
        record = Record(
            row.type,
            row.at,
            row.data,
            row.run_id,
            row.agent_id,
            row.turn_id,
            row.step_index,
            row.attempt,
            (),
            session_id,
            seq,
            epoch,
            position,
        )
        records.append(record)
    return tuple(records)


class _Row(Struct, array_like=True, gc=False):
    """A stored record; its data stays JSON until it is read."""

    type: str
    at: str
    data: Raw
    run_id: str | None = None
    agent_id: str | None = None
    turn_id: str | None = None
    step_index: int | None = None
    attempt: int | None = None
    unknown: Raw | UnsetType = UNSET


_ROWS: Final = json.Decoder(list[_Row])


_MARKS: Final = tuple(f'["{kind}"'.encode() for kind in sorted(RECORDS_WITH_WORDS))
"""The beginnings of stored records with search words; in a text, the quotes would be escaped."""


def words_of_append(body: bytes) -> tuple[str, ...]:
    """Return the search words of an append, without duplicates; none if the body is invalid.

    The checksum is not verified: a damaged append must not keep the other sessions from being found.
    """
    try:
        raw = unpack(body)
        if not any(mark in raw for mark in _MARKS):
            # Most appends have no words, and looking for them costs less than reading JSON.
            return ()
        rows: list[list[Any]] = from_json(raw)
        texts = [words_of_record(row[0], row[2]) for row in rows if row[0] in RECORDS_WITH_WORDS]
    except (ValueError, TypeError, LookupError):
        return ()
    return texts[0] if len(texts) == 1 else tuple(dict.fromkeys(word for text in texts for word in text))


def decode_item(body: bytes) -> JsonObject:
    """Return the body of an inbox item; ValueError if it is invalid."""
    return cast("JsonObject", from_json(body))


def content_ref(content: bytes, media_type: str) -> ContentRef:
    """Return the reference of bytes; Rejected if there are too many."""
    if len(content) > CONTENT_BYTES_MAX:
        raise too_large("content", len(content), limit=CONTENT_BYTES_MAX)
    digest = content_hash(content)
    return ContentRef(content_id=digest, hash=digest, size_bytes=len(content), media_type=media_type)


def content_hash(content: bytes) -> str:
    """Return the hash that identifies bytes."""
    return f"sha256:{sha256(content).hexdigest()}"


def _json(what: str, value: object) -> bytes:
    try:
        raw: bytes | None = to_json(value)
        # Some values can be written but not read back: refuse them now, not when the session is needed.
        # Counting brackets is cheap, and is enough for most records.
        if raw.count(b"[") + raw.count(b"{") > READ_LEVELS_MAX:
            # Inside of so many lists only what can be read back can be written.
            to_json(_inside(value, _WRITTEN_LEVELS_MAX - READ_LEVELS_MAX))
        # A regular expression for a long number would take 50 times as long.
        if len(raw) >= len(_LONG_NUMBER) and _LONG_NUMBER in raw.translate(_DIGITS_TO_ZERO):
            from_json(raw)
    except ValueError:
        raw = None
    if raw is None:
        # Raised outside of the handler, so that the error does not carry the value.
        raise rejection(f"{what} holds a value that JSON cannot carry, or is nested too deep")
    return raw


def _inside(value: object, levels: int) -> object:
    """Return a value inside of so many lists."""
    for _ in range(levels):
        value = [value]
    return value


def _sort_keys(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {key: _sort_keys(value[key]) for key in sorted(value)}
        case list():
            return [_sort_keys(item) for item in value]
        case _:
            return value


def encode_copy(copy: SessionCopy) -> SessionCopy:
    """Return a session copy with every append encoded.

    Raises:
        Rejected: its records are not numbered from 1 without gaps, one is too large, or a content is not what
            its hash says.
    """
    check_id("a session id", copy.session_id)
    _check_numbers(copy)
    for content in copy.contents:
        if content_hash(content.content) != content.ref.hash:
            raise rejection(f"content {content.ref.hash} does not match its hash")
    appends = [
        append if append.body else StoredAppend(append.records, append.epoch, encode_records(append.records))
        for append in copy.appends
    ]
    return replace(copy, appends=tuple(appends))


def family_of(session_id: str, below: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
    """Return a session and all its descendants, parents first, each once.

    Imported sessions may name each other as parents, so cycles are possible.
    """
    family = [session_id]
    family_ids = {session_id}
    for name in family:
        new = [child for child in dict.fromkeys(below(name)) if child not in family_ids]
        family_ids.update(new)
        family += new
    return tuple(family)


def _check_numbers(copy: SessionCopy) -> None:
    seq = 0
    for append in copy.appends:
        for record in append.records:
            seq += 1
            if record.seq != seq:
                raise rejection(f"record {seq:,} of session {copy.session_id} is missing")
