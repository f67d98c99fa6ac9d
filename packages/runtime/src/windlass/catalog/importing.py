"""Sessions that were exported, read again: checked before any of it is kept."""

from base64 import b64decode
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Set
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final, cast

from pydantic import JsonValue
from pydantic_core import from_json

from windlass.catalog.exporting import FORMAT, VERSION, fingerprints
from windlass.catalog.restoring import own_runs
from windlass.definitions import kind_of
from windlass.ports.archive import KeptContent, KeptItem, SessionCopy, StoredAppend
from windlass.refusals import bad_request, notes_name
from windlass_harness.ledger.names import is_notes
from windlass_harness.loop.state import LoopState
from windlass_harness.views.listing import Told, told_by
from windlass_protocol import ContentRef, Record

JsonObject = dict[str, JsonValue]

IMPORT_BYTES_MAX: Final = 512 * 1_048_576
"""All lines of one session together."""
_MALFORMED: Final = (ValueError, TypeError, KeyError, AttributeError, AssertionError)
"""What a line raises that is none of ours; an invalid record is a ValueError."""


@dataclass(slots=True)
class _Reading:
    """What was read so far."""

    session_id: str = ""
    last_seq: int = 0
    appends: list[StoredAppend] = field(default_factory=list[StoredAppend])
    items: list[KeptItem] = field(default_factory=list[KeptItem])
    contents: list[KeptContent] = field(default_factory=list[KeptContent])


async def read(lines: AsyncIterable[str] | Iterable[str]) -> SessionCopy:
    """Return the session that lines say.

    Raises:
        Rejected: a line is missing, torn or changed, or the lines are no session.
    """
    reading, total, count, size_bytes = _Reading(), sha256(), 0, 0
    end: JsonObject | None = None
    async for text in _each(lines):
        if not isinstance(text, str):
            raise bad_request(f"lines are texts, found {kind_of(text)}")
        raw = text.rstrip("\r\n").encode(errors="replace")
        size_bytes += len(raw)
        if size_bytes > IMPORT_BYTES_MAX:
            raise bad_request(f"the session is too large: limit {IMPORT_BYTES_MAX:,} bytes")
        if end is not None:
            raise bad_request("there are lines behind the last one")
        line = _line(raw, count + 1)
        if line.get("kind") == "end":
            end = line
            continue
        total.update(raw + b"\n")
        count += 1
        _take(reading, line, count)
    if end is None or end.get("lines") != count or end.get("sha256") != total.hexdigest():
        raise bad_request("the lines are torn or changed: they do not fit the checksum at their end")
    if not reading.appends or reading.appends[-1].records[-1].seq != reading.last_seq:
        raise bad_request("the lines do not hold all records that their header tells of")
    return _restored(reading)


async def _each(lines: object) -> AsyncIterator[object]:
    if isinstance(lines, AsyncIterable):
        async for line in cast(AsyncIterable[object], lines):
            yield line
    elif isinstance(lines, Iterable) and not isinstance(lines, str | bytes | type):
        for line in cast(Iterable[object], lines):
            yield line
    else:
        raise bad_request(f"import_ takes the lines of a session, found {kind_of(lines)}")


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
    except _MALFORMED:
        pass
    else:
        return
    raise bad_request(f"line {number:,} is not what its kind says")


def _header(reading: _Reading, line: JsonObject) -> None:
    if (line["format"], line["version"]) != (FORMAT, VERSION):
        raise bad_request(f"the lines are not of version {VERSION} of {FORMAT}: use a newer release")
    reading.session_id = str(line["sessionId"])
    reading.last_seq = int(cast(int, line["lastSeq"]))
    if is_notes(reading.session_id):
        raise notes_name("the session id in the header")


def _append(reading: _Reading, line: JsonObject) -> None:
    epoch, records = int(cast(int, line["epoch"])), list[Record]()
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
    reading.appends.append(StoredAppend(tuple(records), epoch))


def _item(reading: _Reading, line: JsonObject) -> None:
    run_id = line.get("runId")
    reading.items.append(
        KeptItem(
            str(line["itemKind"]),
            str(line["key"]),
            bytes.fromhex(str(line["digest"])),
            int(cast(int, line["consumedSeq"])),
            run_id if isinstance(run_id, str) else None,
        )
    )


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


def _restored(reading: _Reading) -> SessionCopy:
    """The session with what its records tell of it; they must fold."""
    state = LoopState()
    try:
        for append in reading.appends:
            state.apply_all(append.records)
    except _MALFORMED:
        state = None
    if state is None:
        raise bad_request("the records of the session do not follow from one another")
    records = [record for append in reading.appends for record in append.records]
    if any(is_notes(parent) for parent in _parents(records)):
        raise bad_request("a run of the session reports to a session with notes, and nobody may")
    runs = own_runs(reading.session_id, reading.appends)
    told = told_by(records) or Told(records[-1].at, records[0].at)
    names = {run.run_id for run in runs}
    return SessionCopy(
        reading.session_id,
        tuple(reading.appends),
        replace(told, runs=tuple(run for run in told.runs if run.run_id in names)),
        runs=runs,
        items=tuple(reading.items),
        contents=_sorted(reading.contents, packages=frozenset(fingerprints(records))),
        asked=tuple(state.session.requests.values()),
    )


def _parents(records: Iterable[Record]) -> list[str]:
    """The sessions that runs tell of their end."""
    told = (record.data.get("parent") for record in records if record.type == "run.started")
    return [str(parent.get("sessionId")) for parent in told if isinstance(parent, dict)]


def _sorted(contents: Iterable[KeptContent], *, packages: Set[str]) -> tuple[KeptContent, ...]:
    """The contents, of which no package is the session's own, whatever their lines say."""
    return tuple(replace(one, is_own=one.is_own and one.ref.hash not in packages) for one in contents)
