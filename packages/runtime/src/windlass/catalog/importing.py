"""Sessions that were exported, read again: checked before any of it is kept."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, cast

from pydantic import JsonValue
from pydantic_core import from_json

from windlass.catalog.admitting import MALFORMED, admitted
from windlass.catalog.exporting import FORMAT, VERSION
from windlass.definitions import kind_of
from windlass.ports.archive import KeptContent, KeptItem, SessionCopy, StoredAppend
from windlass.refusals import bad_request, notes_name
from windlass.setup_check import check_id
from windlass_harness.ledger.names import is_notes
from windlass_harness.redact import Redactor
from windlass_protocol import ContentRef, Record
from windlass_protocol.limits import INTEGER_MAX

JsonObject = dict[str, JsonValue]

IMPORT_BYTES_MAX: Final = 512 * 1_048_576
"""All lines of one session together."""
_PIECE_BYTES: Final = 1_048_576
"""Lines that are looked at together, away from the event loop."""


@dataclass(slots=True)
class _Reading:
    """What was read so far."""

    session_id: str = ""
    last_seq: int = 0
    appends: list[StoredAppend] = field(default_factory=list[StoredAppend])
    lines: dict[int, int] = field(default_factory=dict[int, int])
    """The line of each append, by the number of its first record."""
    items: dict[str, KeptItem] = field(default_factory=dict[str, KeptItem])
    started: set[str] = field(default_factory=set[str])
    """The runs that the items started."""
    contents: list[KeptContent] = field(default_factory=list[KeptContent])
    count: int = 0
    end: JsonObject | None = None


async def read(lines: AsyncIterable[str] | Iterable[str], *, redactor: Redactor) -> SessionCopy:
    """Return the session that lines say, without the secrets that are registered here.

    Raises:
        Rejected: a line is missing, torn or changed, or the lines are no session; or there is a secret where
            it cannot be masked.
    """
    reading, total = _Reading(), sha256()
    async for some in _pieces(lines):
        await asyncio.to_thread(_take_all, reading, some, total.update)
    if reading.end is None or (reading.end.get("lines"), reading.end.get("sha256")) != (
        reading.count,
        total.hexdigest(),
    ):
        raise bad_request("the lines are torn or changed: they do not fit the checksum at their end")
    if not reading.appends or reading.appends[-1].records[-1].seq != reading.last_seq:
        raise bad_request("the lines do not hold all records that their header tells of")
    return await asyncio.to_thread(_admitted, reading, redactor)


def _admitted(reading: _Reading, redactor: Redactor) -> SessionCopy:
    copy = admitted(
        reading.session_id,
        reading.appends,
        items=tuple(reading.items.values()),
        contents=reading.contents,
        redactor=redactor,
    )
    for run in copy.runs:
        if run.run_id not in reading.started:
            line = reading.lines[run.first_seq]
            raise bad_request(f"line {line:,} begins a run that no item has started")
    return copy


async def _pieces(lines: object) -> AsyncIterator[list[bytes]]:
    """The lines in pieces that are large enough for a thread."""
    some, piece_bytes, size_bytes = list[bytes](), 0, 0
    async for text in _each(lines):
        if not isinstance(text, str):
            raise bad_request(f"lines are texts, found {kind_of(text)}")
        raw = text.rstrip("\r\n").encode(errors="replace")
        size_bytes += len(raw)
        if size_bytes > IMPORT_BYTES_MAX:
            raise bad_request(f"the session is too large: limit {IMPORT_BYTES_MAX:,} bytes")
        some.append(raw)
        piece_bytes += len(raw)
        if piece_bytes >= _PIECE_BYTES:
            yield some
            some, piece_bytes = [], 0
    yield some


async def _each(lines: object) -> AsyncIterator[object]:
    if isinstance(lines, AsyncIterable):
        async for line in cast(AsyncIterable[object], lines):
            yield line
    elif isinstance(lines, Iterable) and not isinstance(lines, str | bytes | type):
        for line in cast(Iterable[object], lines):
            yield line
    else:
        raise bad_request(f"import_ takes the lines of a session, found {kind_of(lines)}")


def _take_all(reading: _Reading, lines: Iterable[bytes], add: Callable[[bytes], None]) -> None:
    for raw in lines:
        if reading.end is not None:
            raise bad_request("there are lines behind the last one")
        line = _line(raw, reading.count + 1)
        if line.get("kind") == "end":
            reading.end = line
            continue
        add(raw + b"\n")
        reading.count += 1
        _take(reading, line, reading.count)


def _line(raw: bytes, number: int) -> JsonObject:
    try:
        value = cast(JsonValue, from_json(raw))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise bad_request(f"line {number:,} is torn: it is no JSON object")
    return value


def _take(reading: _Reading, line: JsonObject, number: int) -> None:
    kind = str(line.get("kind"))
    is_first = number == 1
    if is_first != (kind == "header"):
        raise bad_request("the lines do not begin with the header of a session")
    take = _KINDS.get(kind)
    if take is None:
        raise bad_request(f"line {number:,} is of a kind that this release does not know")
    try:
        take(reading, line)
    except MALFORMED:
        pass
    else:
        return
    raise bad_request(f"line {number:,} is not what its kind says")


def _header(reading: _Reading, line: JsonObject) -> None:
    if (line["format"], line["version"]) != (FORMAT, VERSION):
        raise bad_request(f"the lines are not of version {VERSION} of {FORMAT}: use a newer release")
    reading.session_id = check_id(line["sessionId"], "the session id in the header")
    reading.last_seq = _whole(line["lastSeq"], least=1)
    if is_notes(reading.session_id):
        raise notes_name("the session id in the header")


def _append(reading: _Reading, line: JsonObject) -> None:
    epoch, records = _whole(line["epoch"], least=0), list[Record]()
    before = reading.appends[-1] if reading.appends else None
    seq = before.records[-1].seq if before else 0
    for one in cast(list[JsonValue], line["records"]):
        seq += 1
        record = Record.model_validate(one, by_alias=True, by_name=False)
        if (record.session_id, record.seq, record.epoch) != (reading.session_id, seq, epoch):
            raise ValueError(seq)
        records.append(record)
    if not records or epoch < (before.epoch if before else 0):
        raise ValueError(seq)
    reading.lines[records[0].seq] = reading.count
    reading.appends.append(StoredAppend(tuple(records), epoch))


def _item(reading: _Reading, line: JsonObject) -> None:
    key, consumed_seq = str(line["key"]), _whole(line["consumedSeq"], least=1)
    run_id = line.get("runId")
    if key in reading.items or run_id in reading.started or consumed_seq > reading.last_seq:
        raise ValueError(key)
    if isinstance(run_id, str):
        reading.started.add(run_id)
    reading.items[key] = KeptItem(
        str(line["itemKind"]),
        check_id(key, "a key"),
        bytes.fromhex(str(line["digest"])),
        consumed_seq,
        run_id if isinstance(run_id, str) else None,
    )


def _whole(value: JsonValue, *, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= INTEGER_MAX:
        raise ValueError(value)
    return value


def _content(reading: _Reading, line: JsonObject) -> None:
    content, digest = b64decode(str(line["data"]), validate=True), str(line["hash"])
    if f"sha256:{sha256(content).hexdigest()}" != digest:
        raise ValueError(digest)
    ref = ContentRef(
        content_id=digest, hash=digest, media_type=str(line["mediaType"]), size_bytes=len(content)
    )
    reading.contents.append(KeptContent(ref, content, is_own=line["isOwn"] is True))


_KINDS: Final[dict[str, Callable[[_Reading, JsonObject], None]]] = {
    "header": _header,
    "append": _append,
    "item": _item,
    "content": _content,
}
