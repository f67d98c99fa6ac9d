"""Export, import and fork of sessions as JSON Lines.

The first line describes the content; the last one holds the number of lines and a checksum of all of them. A
torn or changed file is refused. Positions are not exported, because they belong to one store. The index
entries of the session and its runs are derived from the records again.
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from dataclasses import field, replace
from hashlib import sha256
from typing import Annotated, Final, cast

from msgspec import Meta, Struct
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from windlass.engine.clocks import moment
from windlass.errors import Conflict, Rejected, kind_of
from windlass.ports.archive import Archive, KeptContent, KeptItem, SessionCopy, StoredAppend
from windlass.ports.clock import Clock
from windlass.ports.listing import NO_USAGE, RunInfo, SessionInfo
from windlass.ports.store import ContentStore, Store
from windlass.refusals import bad_request, check_id, notes_name, unknown_session
from windlass_harness.ledger.names import is_notes
from windlass_harness.loop.advance import advance
from windlass_harness.loop.events import CancelRequested, Draft, Moment
from windlass_harness.loop.state import LoopState
from windlass_harness.loop.take import take
from windlass_harness.record import Record, from_wire, number, to_wire
from windlass_harness.redact import Redactor, mask_text
from windlass_harness.views.history import CallStage
from windlass_harness.views.listing import RunsFold, SessionNews, content_hashes, news_of
from windlass_protocol import CausalIds, ContentRef, ErrorKind, JsonObject, RetryClass
from windlass_protocol.bodies import data_of, read_body
from windlass_protocol.codec_scan import count_values
from windlass_protocol.codec_values import fits
from windlass_protocol.frozen import mutable
from windlass_protocol.generated.records import RunStarted, SessionForked, SessionMoved
from windlass_protocol.limits import INTEGER_MAX, RECORD_LEVELS_MAX, CodecLimits

FORMAT: Final = "windlass-session"
VERSION: Final = 1
"""Limits of the lines; the contents of records are checked separately."""
_RECORD: Final = CodecLimits(depth_max=RECORD_LEVELS_MAX)
_APPENDS_PER_EXPORT: Final = 16
_ITEMS_PER_READ: Final = 512


async def export(store: Store, content: ContentStore, *, session_id: str, clock: Clock) -> AsyncIterator[str]:
    """Yield a session as it is now, line by line.

    Raises:
        Conflict: the session does not exist, or it was deleted before the last line.
    """
    row = await store.session(session_id)
    if row is None or await store.session_info(session_id) is None:
        raise unknown_session(session_id)
    total, count = sha256(), 0
    async for line in _lines(store, content, session_id=session_id, last_seq=row.last_seq, clock=clock):
        text = to_json(line)
        total.update(text + b"\n")
        count += 1
        yield text.decode()
        # A reader may take all lines at once.
        await asyncio.sleep(0)  # noqa: TID251 - a turn, not a time
    # The last line completes the export.
    await _check_kept(store, session_id)
    yield to_json({"kind": "end", "lines": count, "sha256": total.hexdigest()}).decode()


_Seq = Annotated[int, Meta(ge=1, le=INTEGER_MAX)]


class _Line(Struct, frozen=True, kw_only=True, rename="camel", tag_field="kind"):
    """A line of an exported session."""


class _HeaderLine(_Line, frozen=True, kw_only=True, tag="header"):
    format: str = FORMAT
    version: int = VERSION
    session_id: str
    last_seq: _Seq
    exported_at: str = ""


class _ItemLine(_Line, frozen=True, kw_only=True, tag="item"):
    item_kind: str
    key: str
    digest: str
    consumed_seq: _Seq
    run_id: str | None = None


class _ContentLine(_Line, frozen=True, kw_only=True, tag="content"):
    hash: str
    media_type: str | None
    is_own: bool
    data: str


async def _lines(
    store: Store, content: ContentStore, *, session_id: str, last_seq: int, clock: Clock
) -> AsyncIterator[JsonObject]:
    header = _HeaderLine(session_id=session_id, last_seq=last_seq, exported_at=moment(clock).at)
    yield data_of(header)
    packages: dict[str, None] = {}
    after = 0
    while after < last_seq:
        appends = await store.appends(session_id, after=after, limit=_APPENDS_PER_EXPORT)
        if not appends:
            raise _deletion_error(session_id)
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
        except Rejected:  # it is no longer stored
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
        raise _deletion_error(session_id)


def _deletion_error(session_id: str) -> Conflict:
    return Conflict(
        "the session was deleted during the export: the lines so far are incomplete",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=CausalIds(session_id=session_id),
    )


def fingerprints(records: Iterable[Record]) -> list[str]:
    """Return the fingerprints of packages that runs were started with, or moved to."""
    values = (
        body.package_fingerprint if isinstance(body, RunStarted) else body.to_fingerprint
        for record in records
        if isinstance(body := record.body, RunStarted | SessionMoved)
    )
    return [value for value in values if value is not None]


def _append_line(append: StoredAppend) -> JsonObject:
    records = [to_wire(replace(record, position=None)) for record in append.records]
    return {"kind": "append", "epoch": append.epoch, "records": cast(list[JsonValue], records)}


def _content_line(ref: ContentRef, content: bytes, *, is_own: bool) -> JsonObject:
    data = b64encode(content).decode()
    return data_of(_ContentLine(hash=ref.hash, media_type=ref.media_type, is_own=is_own, data=data))


async def _items(store: Store, session_id: str, last_seq: int) -> AsyncIterator[JsonObject]:
    after = 0
    while items := await store.read_items(session_id, after=after, limit=_ITEMS_PER_READ):
        after = items[-1].number
        for item in items:
            if item.consumed_seq <= last_seq:
                line = _ItemLine(
                    item_kind=item.kind,
                    key=item.key,
                    digest=item.digest.hex(),
                    consumed_seq=item.consumed_seq,
                    run_id=item.run_id,
                )
                yield data_of(line)


def own_runs(session_id: str, appends: Iterable[StoredAppend]) -> tuple[RunInfo, ...]:
    """Return the runs of a session in the order of their start.

    Runs before a fork belong to the original session and are left out.
    """
    fold, first_seqs = RunsFold(), dict[str, int]()
    for append in appends:
        fold.apply(append.records)
        for run_id in fold.runs:
            first_seqs.setdefault(run_id, append.records[0].seq)
    return tuple(
        RunInfo(
            run_id=run_id,
            session_id=session_id,
            agent_id=run.agent_id,
            package_fingerprint=run.fingerprint or "none",
            status=run.status,
            started_at=run.started_at,
            ended_at=run.ended_at,
            usage=run.usage or NO_USAGE,
            first_seq=first_seqs[run_id],
            number=0,
            at=run.started_at or run.ended_at or "",
            input=run.input,
            output=run.answer,
            error_message=run.error_message,
            waits_for=run.waits_for,
            waits_on=run.waits_on,
            error=run.error,
            crashes=run.crashes,
            tags=run.tags,
            rating=run.rating,
        )
        for run_id, run in fold.runs.items()
    )


MALFORMED: Final = (ValueError, TypeError, KeyError, AttributeError, AssertionError, OverflowError)
"""Exceptions that invalid data raises; an invalid record raises ValueError."""


def sanitise(
    session_id: str,
    appends: Iterable[StoredAppend],
    *,
    items: tuple[KeptItem, ...],
    contents: Sequence[KeptContent],
    redactor: Redactor,
) -> SessionCopy:
    """Return a session with its index entries derived from the records, and with secrets masked.

    Approvals for the rest of the session are left out: people gave them elsewhere, and a file can be forged.
    For the same reason a run that shared the sandbox of its caller has a folder of its own here.

    Raises:
        Rejected: the records do not fold, a run reports to a reserved session, or a secret cannot be masked.
    """
    masked = tuple(_mask_append(_in_own_folder(_without_grants(append)), redactor) for append in appends)
    records = [record for append in masked for record in append.records]
    _check_names(session_id, records, items=items, redactor=redactor)
    _check_contents(contents, redactor)
    try:
        copy = _restore(session_id, masked, records)
    except MALFORMED:
        copy = None
    if copy is None:
        raise bad_request("the records of the session are inconsistent: they cannot be folded")
    if any(is_notes(parent) for parent in _parents(records)):
        raise bad_request("a run of the session reports to a reserved session with notes")
    for run in copy.runs:
        check_id(run.run_id, "a run id")
    packages = frozenset(fingerprints(records))
    # A package never belongs to the session alone, whatever its line says.
    sorted_ = (
        replace(content, is_own=content.is_own and content.ref.hash not in packages) for content in contents
    )
    return replace(copy, items=items, contents=tuple(sorted_))


def _restore(session_id: str, appends: tuple[StoredAppend, ...], records: Sequence[Record]) -> SessionCopy:
    state = LoopState()
    state.apply_all(records)
    runs = own_runs(session_id, appends)
    entry = news_of(records) or SessionNews(records[-1].at, records[0].at)
    names = {run.run_id for run in runs}
    return SessionCopy(
        session_id,
        appends,
        replace(entry, runs=tuple(run for run in entry.runs if run.run_id in names)),
        runs=runs,
        asked=tuple(state.session.requests.values()),
    )


def _without_grants(append: StoredAppend) -> StoredAppend:
    """Return the append with approvals that cover their one call alone."""
    if not any(record.type == "approval.settled" and "grant" in record.data for record in append.records):
        return append
    records = tuple(
        replace(record, data={name: value for name, value in record.data.items() if name != "grant"})
        if record.type == "approval.settled"
        else record
        for record in append.records
    )
    return replace(append, records=records)


def _in_own_folder(append: StoredAppend) -> StoredAppend:
    """Return the append with runs that enter the sandbox folder of no other session."""
    return replace(append, records=tuple(_with_own_folder(record) for record in append.records))


def _with_own_folder(record: Record) -> Record:
    body = record.body if record.type == RunStarted.TYPE else None
    if not isinstance(body, RunStarted) or body.parent is None or body.parent.sandbox is None:
        return record
    parent = cast(JsonObject, record.data["parent"])
    sandbox = {**cast(JsonObject, parent["sandbox"]), "sessionId": record.session_id}
    return replace(record, data={**record.data, "parent": {**parent, "sandbox": sandbox}})


def _mask_append(append: StoredAppend, redactor: Redactor) -> StoredAppend:
    """Return the append as this runtime would have written it."""
    if redactor.is_clean([record.data for record in append.records]):
        return append
    records = [
        replace(record, data=cast(JsonObject, redactor.value(record.data))) for record in append.records
    ]
    return replace(append, records=tuple(records))


def _check_names(
    session_id: str, records: Iterable[Record], *, items: Iterable[KeptItem], redactor: Redactor
) -> None:
    """Refuse ids that would be masked: a masked id could not be found."""
    names = {session_id, *(item.key for item in items)}
    for record in records:
        names.update(
            record_name
            for record_name in (record.run_id, record.agent_id, record.turn_id)
            if record_name is not None
        )
    if any(redactor.text(name) != name for name in names):
        raise bad_request("an id or name in the session is, or looks like, a secret and would be masked")


def _check_contents(contents: Iterable[KeptContent], redactor: Redactor) -> None:
    """Refuse contents with a registered secret: masking would change their hash."""
    for content in contents:
        text = content.content.decode(errors="replace")
        if redactor.text(text) != mask_text(text):
            raise bad_request("a content of the session contains a registered secret")


def _parents(records: Iterable[Record]) -> list[str]:
    """Return the sessions that runs report their end to."""
    starts = (record.body for record in records if record.type == RunStarted.TYPE)
    parents = (body.parent for body in starts if isinstance(body, RunStarted))
    return [parent.session_id for parent in parents if parent is not None]


IMPORT_BYTES_MAX: Final = 512 * 1_048_576
"""Size of all lines of one session together."""
LINE_VALUES_MAX: Final = 1_000_000
"""Values of one line: it is read at once, and nothing else runs in the process meanwhile."""
_PIECE_BYTES: Final = 1_048_576
"""Lines that are parsed together in a thread."""


@mutable
class _Reading:
    """The parsed lines so far."""

    session_id: str = ""
    last_seq: int = 0
    appends: list[StoredAppend] = field(default_factory=list[StoredAppend])
    lines: dict[int, int] = field(default_factory=dict[int, int])
    """The line number of each append, by the number of its first record."""
    items: dict[str, KeptItem] = field(default_factory=dict[str, KeptItem])
    started: set[str] = field(default_factory=set[str])
    """The runs that inbox items started."""
    contents: list[KeptContent] = field(default_factory=list[KeptContent])
    count: int = 0
    end: JsonObject | None = None


async def read(lines: AsyncIterable[str] | Iterable[str], *, redactor: Redactor) -> SessionCopy:
    """Parse an exported session, and mask the secrets that are registered here.

    Raises:
        Rejected: a line is missing, torn or changed, the lines are not a session, or a secret is in a place
            where it cannot be masked.
    """
    reading, total = _Reading(), sha256()
    async for batch in _pieces(lines):
        await asyncio.to_thread(_take_all, reading, batch, total.update)
    if reading.end is None or (reading.end.get("lines"), reading.end.get("sha256")) != (
        reading.count,
        total.hexdigest(),
    ):
        raise bad_request("checksum mismatch: lines are missing or were changed")
    if not reading.appends or reading.appends[-1].records[-1].seq != reading.last_seq:
        raise bad_request("records are missing: the lines do not hold all records that the header announces")
    return await asyncio.to_thread(_admit_reading, reading, redactor)


def _admit_reading(reading: _Reading, redactor: Redactor) -> SessionCopy:
    copy = sanitise(
        reading.session_id,
        reading.appends,
        items=tuple(reading.items.values()),
        contents=reading.contents,
        redactor=redactor,
    )
    for run in copy.runs:
        if run.run_id not in reading.started:
            line = reading.lines[run.first_seq]
            raise bad_request(f"line {line:,} starts a run that no inbox item started")
    return copy


async def _pieces(lines: object) -> AsyncIterator[list[bytes]]:
    """Yield the lines in batches that are large enough for a thread."""
    batch, piece_bytes, size_bytes = list[bytes](), 0, 0
    async for text in _each(lines):
        if not isinstance(text, str):
            raise bad_request(f"lines must be strings, found {kind_of(text)}")
        raw = text.rstrip("\r\n").encode(errors="replace")
        size_bytes += len(raw)
        if size_bytes > IMPORT_BYTES_MAX:
            raise bad_request(f"the session is too large: limit {IMPORT_BYTES_MAX:,} bytes")
        batch.append(raw)
        piece_bytes += len(raw)
        if piece_bytes >= _PIECE_BYTES:
            yield batch
            batch, piece_bytes = [], 0
    yield batch


async def _each(lines: object) -> AsyncIterator[object]:
    if isinstance(lines, AsyncIterable):
        async for line in cast(AsyncIterable[object], lines):
            yield line
    elif isinstance(lines, Iterable) and not isinstance(lines, str | bytes | type):
        for line in cast(Iterable[object], lines):
            yield line
    else:
        raise bad_request(f"import_ must get the lines of a session, found {kind_of(lines)}")


def _take_all(reading: _Reading, lines: Iterable[bytes], add: Callable[[bytes], None]) -> None:
    for raw in lines:
        if reading.end is not None:
            raise bad_request("there are lines after the checksum line")
        line = _line(raw, reading.count + 1)
        if line.get("kind") == "end":
            reading.end = line
            continue
        add(raw + b"\n")
        reading.count += 1
        _take(reading, line, reading.count)


def _line(raw: bytes, number: int) -> JsonObject:
    if count_values(raw, LINE_VALUES_MAX) > LINE_VALUES_MAX:
        raise bad_request(f"line {number:,} has too many values: limit {LINE_VALUES_MAX:,}")
    try:
        value = cast(JsonValue, from_json(raw))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise bad_request(f"line {number:,} is not a JSON object")
    return value


def _take(reading: _Reading, line: JsonObject, number: int) -> None:
    kind = str(line.get("kind"))
    is_first = number == 1
    if is_first != (kind == "header"):
        raise bad_request("the first line is not the header of an exported session")
    take = _KINDS.get(kind)
    if take is None:
        raise bad_request(f"line {number:,} has an unknown kind: use a newer release")
    try:
        take(reading, line)
    except MALFORMED:
        pass
    else:
        return
    raise bad_request(f"line {number:,} is not valid for its kind")


def _header(reading: _Reading, line: JsonObject) -> None:
    if (line["format"], line["version"]) != (FORMAT, VERSION):
        raise bad_request(f"the lines are not {FORMAT} version {VERSION}: use a newer release")
    header = read_body(_HeaderLine, line)
    reading.session_id = check_id(header.session_id, "the session id in the header")
    reading.last_seq = header.last_seq
    if is_notes(reading.session_id):
        raise notes_name("the session id in the header")


def _append(reading: _Reading, line: JsonObject) -> None:
    epoch, records = _whole(line["epoch"], least=0), list[Record]()
    before = reading.appends[-1] if reading.appends else None
    seq = before.records[-1].seq if before else 0
    for item in cast(list[JsonValue], line["records"]):
        seq += 1
        record = from_wire(item)
        if (record.session_id, record.seq, record.epoch) != (reading.session_id, seq, epoch):
            raise ValueError(seq)
        records.append(record)
        if not fits(record.data, _RECORD):
            raise bad_request(
                f"line {reading.count:,} has a record with a number over 2**53 - 1, "
                f"or with too many levels: limit {RECORD_LEVELS_MAX}"
            )
    if not records or epoch < (before.epoch if before else 0):
        raise ValueError(seq)
    reading.lines[records[0].seq] = reading.count
    reading.appends.append(StoredAppend(tuple(records), epoch))


def _item(reading: _Reading, line: JsonObject) -> None:
    item = read_body(_ItemLine, line)
    if item.key in reading.items or item.run_id in reading.started or item.consumed_seq > reading.last_seq:
        raise ValueError(item.key)
    if item.run_id is not None:
        reading.started.add(item.run_id)
    reading.items[item.key] = KeptItem(
        item.item_kind,
        check_id(item.key, "a key"),
        bytes.fromhex(item.digest),
        item.consumed_seq,
        item.run_id,
    )


def _whole(value: JsonValue, *, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= INTEGER_MAX:
        raise ValueError(value)
    return value


def _content(reading: _Reading, line: JsonObject) -> None:
    read = read_body(_ContentLine, line)
    content = b64decode(read.data, validate=True)
    if f"sha256:{sha256(content).hexdigest()}" != read.hash:
        raise ValueError(read.hash)
    ref = ContentRef(
        content_id=read.hash, hash=read.hash, media_type=read.media_type, size_bytes=len(content)
    )
    reading.contents.append(KeptContent(ref, content, is_own=read.is_own))


_KINDS: Final[dict[str, Callable[[_Reading, JsonObject], None]]] = {
    "header": _header,
    "append": _append,
    "item": _item,
    "content": _content,
}

_APPENDS_PER_READ: Final = 64
_REASON: Final = "The session was forked."


async def prepare(archive: Archive, info: SessionInfo, *, new_id: str, at: int, now: Moment) -> SessionCopy:
    """Return the copy of a session up to the last safe point at or before a record.

    Raises:
        Rejected: there is no safe point.
    """
    appends = await _appends(archive, info.session_id, at)
    # Folding a long session is slow, so it runs in a thread.
    return await asyncio.to_thread(_copy, appends, info, new_id=new_id, at=at, now=now)


def _copy(
    appends: Sequence[StoredAppend], info: SessionInfo, *, new_id: str, at: int, now: Moment
) -> SessionCopy:
    safe = _safe(appends)
    if not safe:
        raise bad_request(f"no safe point up to record {at:,}: fork at a later record")
    copied = appends[: safe[-1]]
    last_seq = copied[-1].records[-1].seq
    epoch = max(append.epoch for append in copied) + 1
    closing = StoredAppend(_closing(copied, info.session_id, epoch=epoch, now=now), epoch)
    records = [record for append in copied for record in append.records]
    entry = SessionNews(
        now.at,
        now.at,
        title=info.title,
        agent_id=info.agent_id,
        owner=info.owner,
        predecessor=info.session_id,
        predecessor_seq=last_seq,
    )
    return SessionCopy(
        new_id,
        tuple(_rename_session(append, new_id) for append in (*copied, closing)),
        entry,
        uses=content_hashes(records),
        copied_from=info.session_id,
    )


def is_same(existing: SessionInfo, fork: SessionCopy, *, is_any: bool) -> bool:
    """Whether an existing session is the wanted fork; `is_any` accepts a fork at any record."""
    entry = fork.news
    is_there = is_any or existing.predecessor_seq == entry.predecessor_seq
    return existing.predecessor_id == entry.predecessor and is_there


async def _appends(archive: Archive, session_id: str, at: int) -> list[StoredAppend]:
    """Return the appends of a session that end at or before a record."""
    kept_appends: list[StoredAppend] = []
    after = 0
    while more := await archive.appends(session_id, after=after, limit=_APPENDS_PER_READ):
        kept_appends += [append for append in more if append.records[-1].seq <= at]
        after = more[-1].records[-1].seq
        if after >= at:
            break
    return kept_appends


async def safe_points(archive: Archive, session_id: str, *, at: int) -> tuple[int, ...]:
    """Return the records up to `at` at which a fork can start."""
    appends = await _appends(archive, session_id, at)
    safe = await asyncio.to_thread(_safe, appends)
    return tuple(appends[count - 1].records[-1].seq for count in safe)


def _safe(appends: Sequence[StoredAppend]) -> list[int]:
    """Return the number of appends up to each safe point."""
    state, counts = LoopState(), list[int]()
    for count, append in enumerate(appends, 1):
        state.apply_all(append.records)
        calls = state.session.history.open_calls()
        if not any(call.stage is CallStage.STARTED for call in calls):
            counts.append(count)
    return counts


def _closing(
    copied: Sequence[StoredAppend], session_id: str, *, epoch: int, now: Moment
) -> tuple[Record, ...]:
    """Return the records of the fork itself: its origin, and the end of the current run."""
    state, records = LoopState(), list[Record]()
    for append in copied:
        state.apply_all(append.records)
    cut = state.seq
    state.epoch = epoch

    def add(drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            # Messages about the end to other sessions are dropped: it is not their run.
            record = number(draft, session_id, seq=state.seq + 1, epoch=epoch)
            records.append(record)
            state.apply(record)

    add([Draft(SessionForked.TYPE, now.at, SessionForked(predecessor=session_id, predecessor_seq=cut))])
    if state.run is not None:
        add(take(state, CancelRequested(state.run.run_id, reason=_REASON), now=now))
    while state.run is not None:
        plan = advance(state, frozenset(), now=now)
        assert plan.drafts, "a cancelled run without open work ends"
        add(plan.drafts)
    return tuple(records)


def _rename_session(append: StoredAppend, session_id: str) -> StoredAppend:
    """Return the append in the fork; its body does not name the session."""
    records = tuple(replace(record, session_id=session_id) for record in append.records)
    return replace(append, records=records)
