"""How records and items are written down, and the limits on them.

An append is one JSON array of records, packed; a record is an array of its fields in the order of `Draft`,
without the posts and the empty ones at its end. What the journal adds (session, numbers, epoch) is not in it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from hashlib import blake2b, sha256
from typing import Final, cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from windlass.adapters.journals.faults import rejected, too_large
from windlass.adapters.journals.packing import pack, unpack
from windlass.adapters.journals.rules import started_by
from windlass.limits import BATCH_RECORDS_MAX, CONTENT_BYTES_MAX, INBOX_ITEM_BYTES_MAX, RECORD_BYTES_MAX
from windlass.ports.store import STEER, Batch, NewRun
from windlass_harness.loop.drafts import ID_CHARS_MAX, Draft, Post
from windlass_harness.views.listing import Told, told_by_start
from windlass_protocol import ContentRef, JsonObject, PrivacyClass, Record
from windlass_protocol.unchecked import unchecked

INTEGER_MAX: Final = 2**63 - 1
_SAFE_BRACKETS_MAX: Final = 190
_LONG_NUMBER: Final = re.compile(rb"(?<!\d)\d{4300}")
_EMPTY: Final = (None,) * (len(fields(Draft)) - 1)
"""For each field but the posts, which are no part of a record."""
_FIELDS_SET: Final = set(Record.model_fields)
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,512}")


def check_id(what: str, value: str) -> None:
    """Refuse a name that the wire would refuse."""
    if not _NAME.fullmatch(value):
        raise rejected(f"{what} must be 1 to {ID_CHARS_MAX} characters, none of them a control character")


def check_number(what: str, value: int) -> None:
    """Refuse a number that no store can keep."""
    if not 0 <= value <= INTEGER_MAX:
        raise rejected(f"{what} must be from 0 to {INTEGER_MAX:,}")


def encode_batch(batch: Batch) -> bytes:
    """Return the body of an append.

    Raises:
        Rejected: a record or the batch is over its limit, or a value is no JSON.
    """
    check_id("a session id", batch.claim.session_id)
    if batch.wake_at_ms is not None:
        check_number("wake_at_ms", batch.wake_at_ms)
    return encode_records(batch.drafts)


def encode_records(drafts: Sequence[Draft | Record]) -> bytes:
    """Return the body of an append of records.

    Raises:
        Rejected: a record or all of them are over their limit, or a value is no JSON.
    """
    if len(drafts) > BATCH_RECORDS_MAX:
        raise too_large("batch", len(drafts), limit=BATCH_RECORDS_MAX, unit="records")
    rows = [_row(draft) for draft in drafts]
    body = _json("a record", rows)
    if len(body) > RECORD_BYTES_MAX:
        for row in rows:
            size = len(_json("a record", row))
            if size > RECORD_BYTES_MAX:
                raise too_large("record", size, limit=RECORD_BYTES_MAX)
    return pack(body)


def encode_item(
    session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None
) -> tuple[bytes, bytes]:
    """Return the body of an item, and what two posts of one key have in common.

    That is the request of the run that the item starts, or else the body; the order of names in it does not
    count.

    Raises:
        Rejected: the item is too large, no JSON, or badly named.
    """
    for what, name in (("a session id", session_id), ("an inbox kind", kind), ("an inbox key", key)):
        check_id(what, name)
    if run is not None:
        for what, name in (("a run id", run.run_id), ("an agent id", run.agent_id)):
            check_id(what, name)
        check_id("a fingerprint", run.fingerprint)
    raw = _json("an inbox item", body)
    if len(raw) > INBOX_ITEM_BYTES_MAX:
        raise too_large("inbox item", len(raw), limit=INBOX_ITEM_BYTES_MAX)
    head = to_json([session_id, kind, None if run is None else run.run_id])
    asked = raw if run is None or run.request is None else _json("a request", run.request)
    return raw, blake2b(head + to_json(_sorted(from_json(asked))), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class EncodedPost:
    """An item that an append brings along, as it is kept."""

    post: Post
    raw: bytes
    digest: bytes
    run: NewRun | None
    """What it starts."""
    told: Told | None = None
    """What it tells the index of its session."""


def encode_posts(batch: Batch) -> tuple[EncodedPost, ...]:
    """Return the items that an append brings along.

    Raises:
        Rejected: one is too large, no JSON, or badly named.
    """
    posts = batch.posts
    at = batch.drafts[-1].at if posts else ""
    return tuple(encode_post(post, started_by(post), at=at) for post in posts)


def encode_post(post: Post, run: NewRun | None, *, at: str = "") -> EncodedPost:
    """Return an item as it is kept.

    Raises:
        Rejected: it is too large, no JSON, or badly named.
    """
    raw, digest = encode_item(post.session_id, kind=post.kind, key=post.key, body=post.body, run=run)
    told = told_by_start(post.body, at) if run is not None or post.kind == STEER else None
    if told is not None and run is not None and told.agent_id != run.agent_id:
        told = replace(told, agent_id=run.agent_id)
    return EncodedPost(post, raw, digest, run, told)


def decode_records(
    body: bytes, session_id: str, *, last_seq: int, last_position: int, epoch: int
) -> tuple[Record, ...]:
    """Return the records of an append; ValueError if the body is not one."""
    rows = cast("list[list[JsonValue]]", from_json(unpack(body)))
    seq, position = last_seq - len(rows), last_position - len(rows)
    records: list[Record] = []
    for row in rows:
        seq += 1
        position += 1
        row += _EMPTY[len(row) :]
        type_, at, data, run_id, agent_id, turn_id, step_index, attempt, privacy = row
        # The checksum already says that they are what was written.
        values: dict[str, object] = {
            "session_id": session_id,
            "seq": seq,
            "type": type_,
            "at": at,
            "data": data,
            "position": position,
            "event_id": None,
            "run_id": run_id,
            "agent_id": agent_id,
            "turn_id": turn_id,
            "step_index": step_index,
            "attempt": attempt,
            "epoch": epoch,
            "causal_ids": None,
            "privacy": privacy if privacy is None else PrivacyClass(cast("str", privacy)),
        }
        records.append(unchecked(Record, values, given=_FIELDS_SET))
    return tuple(records)


def decode_item(body: bytes) -> JsonObject:
    """Return the body of an inbox item; ValueError if it is not one."""
    return cast("JsonObject", from_json(body))


def content_ref(content: bytes, media_type: str) -> ContentRef:
    """Return the name of bytes; Rejected if they are too many."""
    if len(content) > CONTENT_BYTES_MAX:
        raise too_large("content", len(content), limit=CONTENT_BYTES_MAX)
    digest = content_hash(content)
    return ContentRef(content_id=digest, hash=digest, size_bytes=len(content), media_type=media_type)


def content_hash(content: bytes) -> str:
    """Return the digest that names bytes."""
    return f"sha256:{sha256(content).hexdigest()}"


def _row(draft: Draft | Record) -> list[JsonValue]:
    row: list[JsonValue] = [
        draft.type,
        draft.at,
        draft.data,
        draft.run_id,
        draft.agent_id,
        draft.turn_id,
        draft.step_index,
        draft.attempt,
        draft.privacy,
    ]
    while row[-1] is None:
        row.pop()
    return row


def _json(what: str, value: object) -> bytes:
    try:
        raw: bytes | None = to_json(value)
        # Some values can be written and not read again: refuse them now, not when the session is needed.
        # Counting brackets is much cheaper than reading back, and is enough for nearly all records.
        if raw.count(b"[") + raw.count(b"{") > _SAFE_BRACKETS_MAX or _LONG_NUMBER.search(raw):
            from_json(raw)
    except ValueError:
        raw = None
    if raw is None:
        # Raised out here, so that the value does not travel with the error.
        raise rejected(f"{what} holds a value that JSON cannot carry, or is nested too deep")
    return raw


def _sorted(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {key: _sorted(value[key]) for key in sorted(value)}
        case list():
            return [_sorted(item) for item in value]
        case _:
            return value
