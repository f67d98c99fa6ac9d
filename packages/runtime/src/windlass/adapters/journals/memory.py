"""In-memory store: the reference implementation of the store contract."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Final, TypeVar

from pydantic_core import from_json

from windlass.adapters.journals.codec import (
    EncodedPost,
    check_id,
    check_number,
    content_ref,
    decode_item,
    decode_records,
    encode_batch,
    encode_copy,
    encode_post,
    encode_posts,
    family_of,
    words_of_append,
)
from windlass.adapters.journals.purses import hold_call, read_purses, settle_calls
from windlass.adapters.journals.rules import (
    CLOSED,
    OPEN,
    Leases,
    Settlement,
    check_fence,
    check_revision,
    check_room,
    conflict,
    deletion_conflict,
    document_json,
    driving_conflict,
    facts_of,
    in_turns,
    in_use,
    is_run_wanted,
    is_within,
    new_run_ids,
    not_owned,
    rejection,
    settle_unresolved,
    settlements_in,
    status_after,
    total_usage,
    unavailable,
)
from windlass.limits import REFUSED_STARTS_MAX, SNAPSHOT_BYTES_MAX
from windlass.ports.archive import KeptItem, SessionCopy, StoredAppend
from windlass.ports.catalog import OpenRuns, RunRow, SessionRow
from windlass.ports.documents import OF_RUNS, Document
from windlass.ports.inbox import Arrivals, InboxItem, NewRun, Posted
from windlass.ports.journal import Appended, Batch, Claim, Standing
from windlass.ports.listing import (
    NEWEST_FIRST,
    NEWEST_SESSIONS,
    NO_USAGE,
    CountFilter,
    OpenRequest,
    RefusedStart,
    RunCell,
    RunCounts,
    RunFilter,
    RunInfo,
    RunOrder,
    RunTimes,
    SessionFilter,
    SessionInfo,
    SessionOrder,
    SettledRequest,
    Split,
    Waiting,
    place_of_run,
    place_of_session,
)
from windlass.ports.purses import CallAsk, CallGrant, CallRefusal, PurseState
from windlass_harness.ledger.names import evaluation_session, is_notes
from windlass_harness.loop.subagents import CANCEL, START
from windlass_harness.record import Post, Record
from windlass_harness.views.listing import ListedRun, SessionNews, news_of, words_in
from windlass_protocol import ContentRef, InputRequest, JsonObject, RunStatus, SessionStatus
from windlass_protocol.frozen import frozen, mutable

T = TypeVar("T")

NO_FACTS: Final = ListedRun()


@frozen
class MemoryRun:
    """The columns of a run in the catalogue."""

    run_id: str
    session_id: str
    agent_id: str
    fingerprint: str
    status: RunStatus
    first_seq: int
    at: str = ""
    """When it was asked for."""


@mutable
class MemoryIndex:
    """Index of sessions, runs and open requests."""

    sessions: dict[str, SessionInfo] = field(default_factory=dict[str, SessionInfo])
    runs: dict[str, ListedRun] = field(default_factory=dict[str, ListedRun])
    asked: dict[str, dict[str, OpenRequest]] = field(default_factory=dict[str, dict[str, OpenRequest]])
    settled: dict[str, SettledRequest] = field(default_factory=dict[str, SettledRequest])
    session_count: int = 0
    """Number of sessions ever created."""
    asked_count: int = 0
    """Number of requests ever made."""

    def check_owner(self, session_id: str, facts: SessionNews) -> None:
        """Refuse a run request of another owner than that of the session."""
        session = self.sessions.get(session_id)
        if facts.owner is not None and session is not None and session.owner != facts.owner:
            raise not_owned(session_id)

    def enter(
        self, session_id: str, facts: SessionNews, *, status: SessionStatus = SessionStatus.PENDING
    ) -> None:
        """Add a session to the index, unless it is there."""
        if session_id in self.sessions:
            return
        self.session_count += 1
        self.sessions[session_id] = SessionInfo(
            session_id=session_id,
            title=facts.title,
            agent_id=facts.agent_id or "",
            status=status,
            owner=facts.owner,
            created_at=facts.since,
            updated_at=facts.at,
            run_count=0,
            request_count=0,
            usage=total_usage(NO_USAGE, facts.runs),
            parent_session_id=facts.parent,
            root_session_id=facts.root or session_id,
            predecessor_id=facts.predecessor,
            predecessor_seq=facts.predecessor_seq,
            number=self.session_count,
        )

    def follow(self, session_id: str, batch: Batch, *, asking: MemoryRun | None) -> None:
        """Apply an append to the index."""
        facts = news_of(batch.drafts)
        if facts is not None:
            self._take(session_id, facts)
        if batch.asked is not None:
            at, closed = batch.drafts[-1].at if batch.drafts else "", settlements_in(batch.drafts)
            self.ask(session_id, batch.asked, at=at, run=asking, closed=closed)

    def _take(self, session_id: str, facts: SessionNews) -> None:
        before = {run.run_id: self.runs.get(run.run_id, NO_FACTS).usage for run in facts.runs}
        for run in facts.runs:
            self.runs[run.run_id] = self.runs.get(run.run_id, NO_FACTS).after(run)
        for run_id in facts.noted & self.runs.keys():
            self.runs[run_id] = self.runs[run_id].and_more(facts, run_id)
        session = self.sessions.get(session_id)
        if session is None:
            if facts.runs:
                self.enter(session_id, facts, status=status_after(facts))
            return
        self.sessions[session_id] = replace(
            session,
            title=session.title or facts.title,
            agent_id=facts.agent_id or session.agent_id,
            status=status_after(facts, session.status),
            created_at=session.created_at or facts.since,
            updated_at=facts.at,
            usage=total_usage(session.usage, facts.runs, before=before),
        )

    def ask(
        self,
        session_id: str,
        requests: tuple[InputRequest, ...],
        *,
        at: str,
        run: MemoryRun | None,
        closed: Mapping[str, Settlement] = MappingProxyType({}),
    ) -> None:
        """Replace the open requests of a session; `closed` says how others were closed.

        Those may have been made in the same append.
        """
        before, session = self.asked.pop(session_id, {}), self.sessions.get(session_id)
        after: dict[str, OpenRequest] = {}
        for request in requests:
            open_request = before.get(request.request_id)
            if open_request is None:
                self.asked_count += 1
                open_request = OpenRequest(
                    session_id,
                    session_id if session is None else session.root_session_id,
                    "" if run is None else run.run_id,
                    "" if run is None else run.agent_id,
                    None if session is None else session.owner,
                    at,
                    request,
                    self.asked_count,
                )
            after[request.request_id] = open_request
        dropped = {name: request for name, request in before.items() if name not in after}
        settlements = {name: settle_unresolved(request.run_id, at=at) for name, request in dropped.items()}
        owner = None if session is None else session.owner
        for name, settlement in {**settlements, **closed}.items():
            self.settled[name] = SettledRequest(
                name,
                session_id,
                settlement.run_id,
                owner,
                settlement.outcome,
                settlement.option_id,
                settlement.responder,
                settlement.at,
            )
        if after:
            self.asked[session_id] = after
        if at and session is not None:
            self.sessions[session_id] = replace(session, updated_at=at)

    def remove(self, session_id: str) -> None:
        """Remove a session."""
        self.settled = {
            name: request for name, request in self.settled.items() if request.session_id != session_id
        }
        self.sessions.pop(session_id, None)
        self.asked.pop(session_id, None)


def is_session_wanted(info: SessionInfo, filters: SessionFilter) -> bool:
    """Return whether a session matches a filter, apart from its words."""
    return (
        filters.agent_id in (None, info.agent_id)
        and filters.status in (None, info.status)
        and filters.owner in (None, info.owner)
        and not (filters.root_only and info.parent_session_id is not None)
        and (filters.since is None or info.updated_at >= filters.since)
        and (filters.until is None or info.updated_at < filters.until)
        and is_within(info.cost_micros, filters.cost_micros)
    )


@frozen
class MemoryAppend:
    session_id: str
    last_seq: int
    last_position: int
    epoch: int
    body: bytes

    def records(self) -> tuple[Record, ...]:
        return decode_records(
            self.body,
            self.session_id,
            last_seq=self.last_seq,
            last_position=self.last_position,
            epoch=self.epoch,
        )


@mutable
class MemoryItem:
    number: int
    session_id: str
    kind: str
    key: str
    body: bytes
    digest: bytes
    is_consumed: bool = False
    consumed_seq: int = 0


@mutable
class MemorySession:
    row: SessionRow
    last_position: int = 0
    appends: list[MemoryAppend] = field(default_factory=list[MemoryAppend])
    milestones: list[MemoryAppend] = field(default_factory=list[MemoryAppend])
    items: dict[str, MemoryItem] = field(default_factory=dict[str, MemoryItem])
    run_count: int = 0
    open_runs: dict[str, MemoryRun] = field(default_factory=dict[str, MemoryRun])
    """Unfinished runs, in the order in which they were posted."""
    words: set[str] = field(default_factory=set[str])
    """The search words of its appends, as far as a search has read them."""
    read_count: int = 0
    """The number of appends that a search has read."""

    @property
    def run_under_way(self) -> MemoryRun | None:
        """The run that has started and not ended."""
        return next((run for run in self.open_runs.values() if run.status is not RunStatus.PENDING), None)

    @property
    def next_agent(self) -> str | None:
        """The agent of the current run, or else of the next one."""
        run = self.run_under_way or next(iter(self.open_runs.values()), None)
        return None if run is None else run.agent_id


class MemoryTables:
    """The data of a store in memory; it keeps the newest `refusals_max` refused starts."""

    def __init__(self, *, refusals_max: int = REFUSED_STARTS_MAX) -> None:
        self._sessions: dict[str, MemorySession] = {}
        self._timeline: list[MemoryAppend] = []
        self._items: list[MemoryItem] = []
        self._runs: dict[str, tuple[MemoryRun, MemoryItem]] = {}
        self._owners: dict[str, int] = {}
        self._leases = Leases()
        self._contents: dict[str, tuple[str, bytes]] = {}
        self._uses: dict[str, set[str]] = {}
        """Hashes of the contents of each session."""
        self._snapshots: dict[str, tuple[int, bytes]] = {}
        self._deleted: set[str] = set()
        self._position = 0
        """Position of the newest record, which may have been deleted."""
        self._index = MemoryIndex()
        self._refused: deque[RefusedStart] = deque(maxlen=refusals_max)
        self._documents: dict[tuple[str, str], Document] = {}
        self._refused_count = 0
        """Number of starts ever refused."""
        self._is_closed = False

    def _check_open(self) -> None:
        if self._is_closed:
            raise unavailable(CLOSED)

    def _new(self, session_id: str) -> MemorySession:
        if session_id in self._deleted:
            raise deletion_conflict(session_id)
        row = SessionRow(session_id, Standing.IDLE, last_seq=0, epoch=0, wake_at_ms=None, owner_id=None)
        session = self._sessions[session_id] = MemorySession(row)
        return session

    def _keep_content(self, ref: ContentRef, content: bytes, *, session_id: str | None) -> None:
        """Store bytes for a session, or permanently if there is none."""
        # Content without a session, such as packages, stays when a session that also uses it is deleted.
        self._contents.setdefault(ref.hash, (ref.media_type or "", content))
        self._uses.setdefault(session_id or "", set()).add(ref.hash)

    def _is_alive(self, owner_id: str | None, now_ms: int) -> bool:
        beat = self._owners.get(owner_id or "")
        return beat is not None and self._leases.is_valid(owner_id or "", beat_at_ms=beat, now_ms=now_ms)


_MILLISECOND: Final = timedelta(milliseconds=1)


def count_runs(
    infos: Iterable[RunInfo], sessions: Mapping[str, SessionInfo], *, filters: CountFilter
) -> RunCounts:
    """Return counts and durations of runs."""
    cells: dict[tuple[str, int, RunStatus], list[RunInfo]] = {}
    took: dict[tuple[str, int | None], list[int]] = {}
    for info in infos:
        if not _is_wanted(info, sessions.get(info.session_id), filters):
            continue
        bucket = _ms(filters.start, info.started_at) // filters.bucket_ms
        group = _group(info, sessions, filters.split)
        cells.setdefault((group, bucket, info.status), []).append(info)
        if info.ended_at is not None:
            for part in (bucket, None):
                took.setdefault((group, part), []).append(_ms(info.started_at, info.ended_at))
    times = [
        RunTimes(part, _quantile(durations, 50), _quantile(durations, 95), group)
        for (group, part), durations in took.items()
    ]
    return RunCounts(
        tuple(_cell(*key, cells[key]) for key in sorted(cells)),
        tuple(sorted(times, key=lambda time: (time.bucket is None, time.group, time.bucket))),
    )


def count_waiting(
    rows: Iterable[MemoryRun],
    requests: Sequence[OpenRequest],
    *,
    sessions: Mapping[str, SessionInfo],
    owner: str | None,
    agent_id: str | None,
) -> Waiting:
    """Return counts of waiting runs and requests: see `Store.waiting`."""
    waiting = [sessions.get(row.session_id) for row in rows if row.status is RunStatus.WAITING]
    infos = [info for info in waiting if info is not None and owner in (None, info.owner)]
    if agent_id is None:
        count = sum(info.parent_session_id is None for info in infos)
    else:
        count = sum(not _is_playground(info, sessions) for info in infos)
    asked_at = [request.asked_at for request in requests if owner in (None, request.owner)]
    return Waiting(count, len(asked_at), min(asked_at, default=None))


def _is_playground(session: SessionInfo | None, sessions: Mapping[str, SessionInfo]) -> bool:
    """Whether a session is that of a playground run, or of a subagent of one."""
    root = None if session is None else sessions.get(session.root_session_id)
    return root is not None and root.is_playground


def _is_wanted(info: RunInfo, session: SessionInfo | None, filters: CountFilter) -> bool:
    if session is None or info.started_at is None or filters.owner not in (None, session.owner):
        return False
    if not filters.start <= info.started_at < filters.end:
        return False
    if filters.agent_id is None:
        return session.parent_session_id is None
    return info.agent_id == filters.agent_id and not info.is_playground


def _cell(group: str, bucket: int, status: RunStatus, runs: Sequence[RunInfo]) -> RunCell:
    return RunCell(
        bucket,
        status,
        len(runs),
        sum(run.usage.input_tokens or 0 for run in runs),
        sum(run.usage.output_tokens or 0 for run in runs),
        sum(run.usage.cost_micros or 0 for run in runs),
        sum(run.usage.cache_read_tokens or 0 for run in runs),
        group,
    )


def _group(info: RunInfo, sessions: Mapping[str, SessionInfo], split: Split | None) -> str:
    match split:
        case None:
            return ""
        case "agent":
            return info.agent_id
        case "version":
            return info.package_fingerprint or ""
        case "owner":
            return sessions[info.session_id].owner or ""


def _ms(start: str | None, end: str | None) -> int:
    assert start is not None, "a run that counts has begun"
    assert end is not None, "only what has ended took its time"
    return round((datetime.fromisoformat(end) - datetime.fromisoformat(start)) / _MILLISECOND)


def _quantile(values: Sequence[int], percent: int) -> int:
    """Return the given percentile, by nearest rank."""
    return sorted(values)[(len(values) * percent + 99) // 100 - 1]


def _page(
    items: Iterable[T], order: RunOrder | SessionOrder, *, key: Callable[[T], tuple[str | int, int]]
) -> list[T]:
    """Return the items behind the last one of the page before, in order."""
    last = order.after
    if last is not None:
        items = [item for item in items if (key(item) > last if order.is_ascending else key(item) < last)]
    return sorted(items, key=key, reverse=not order.is_ascending)


class MemoryArchive(MemoryTables):
    """The part of the in-memory store that lists, copies and deletes sessions."""

    async def list_sessions(
        self, where: SessionFilter, *, order: SessionOrder = NEWEST_SESSIONS, limit: int = 50
    ) -> tuple[SessionInfo, ...]:
        self._check_open()
        sort = partial(place_of_session, by=order.by)
        page = _page(self._find_sessions(where), order, key=sort)
        return self._add_run_facts(page[:limit])

    async def count_listed(self, where: SessionFilter, *, most: int) -> int:
        self._check_open()
        return sum(1 for _ in islice(self._find_sessions(where), most))

    def _find_sessions(self, filters: SessionFilter) -> Iterator[SessionInfo]:
        fitting = None
        if filters.run is not None:
            runs = self._find_runs(replace(filters.run, playground=True))
            fitting = {info.session_id for info in runs}
        for info in self._index.sessions.values():
            is_of_runs = fitting is None or info.session_id in fitting
            if is_of_runs and is_session_wanted(info, filters) and self._has(info, filters.words):
                yield info

    async def session_info(self, session_id: str) -> SessionInfo | None:
        self._check_open()
        info = self._index.sessions.get(session_id)
        return None if info is None else self._add_run_facts([info])[0]

    async def list_runs(
        self, where: RunFilter, *, order: RunOrder = NEWEST_FIRST, limit: int = 50
    ) -> tuple[RunInfo, ...]:
        self._check_open()
        sort = partial(place_of_run, where=where, by=order.by)
        return tuple(_page(self._find_runs(where), order, key=sort)[:limit])

    async def count_listed_runs(self, where: RunFilter, *, most: int) -> int:
        self._check_open()
        return sum(1 for _ in islice(self._find_runs(where), most))

    def _find_runs(self, filters: RunFilter) -> Iterator[RunInfo]:
        for row, item in self._runs.values():
            if filters.session_id in (None, row.session_id):
                info = self._run_info(row, item)
                if is_run_wanted(info, filters) and self._has_run(info, filters.words):
                    yield info

    async def list_requests(
        self, *, owner: str | None = None, responders: Collection[str] = (), after: int = 0, limit: int = 50
    ) -> tuple[OpenRequest, ...]:
        self._check_open()
        requests = [
            request
            for session_requests in self._index.asked.values()
            for request in session_requests.values()
            if request.number > after and (owner in (None, request.owner) or request.asks(responders))
        ]
        return tuple(sorted(requests, key=lambda request: request.number)[:limit])

    async def find_request(self, request_id: str) -> OpenRequest | SettledRequest | None:
        self._check_open()
        for session_requests in self._index.asked.values():
            if request_id in session_requests:
                return session_requests[request_id]
        return self._index.settled.get(request_id)

    async def record_refusal(self, refused: RefusedStart) -> None:
        self._check_open()
        self._refused_count += 1
        self._refused.append(replace(refused, number=self._refused_count))

    async def list_refusals(
        self,
        *,
        owner: str | None = None,
        agent_id: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> tuple[RefusedStart, ...]:
        self._check_open()
        refusals = (
            refusal
            for refusal in reversed(self._refused)
            if (before is None or refusal.number < before)
            and owner in (None, refusal.owner)
            and agent_id in (None, refusal.agent_id)
        )
        return tuple(islice(refusals, limit))

    async def run_counts(self, where: CountFilter) -> RunCounts:
        self._check_open()
        infos = (self._run_info(row, item) for row, item in self._runs.values())
        return count_runs(infos, self._index.sessions, filters=where)

    async def waiting(self, *, owner: str | None = None, agent_id: str | None = None) -> Waiting:
        self._check_open()
        rows = [row for row, _ in self._runs.values() if agent_id in (None, row.agent_id)]
        open_requests = [
            request
            for requests in self._index.asked.values()
            for request in requests.values()
            if agent_id in (None, request.agent_id)
        ]
        return count_waiting(
            rows, open_requests, sessions=self._index.sessions, owner=owner, agent_id=agent_id
        )

    async def appends(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[StoredAppend, ...]:
        self._check_open()
        session = self._sessions.get(session_id)
        appends = () if session is None else session.appends
        page = [append for append in appends if append.last_seq > after][:limit]
        return tuple(StoredAppend(append.records(), append.epoch, append.body) for append in page)

    async def read_items(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[KeptItem, ...]:
        self._check_open()
        session = self._sessions.get(session_id)
        items = () if session is None else session.items.values()
        consumed = [item for item in items if item.consumed_seq and item.number > after]
        started = {item.number: row.run_id for row, item in self._runs.values()}
        return tuple(
            KeptItem(
                item.kind, item.key, item.digest, item.consumed_seq, started.get(item.number), item.number
            )
            for item in consumed[:limit]
        )

    async def contents_of(self, session_id: str) -> tuple[ContentRef, ...]:
        self._check_open()
        contents = [(digest, *self._contents[digest]) for digest in sorted(self._uses.get(session_id, ()))]
        return tuple(
            ContentRef(content_id=digest, hash=digest, media_type=kind, size_bytes=len(content))
            for digest, kind, content in contents
        )

    async def keep(self, copy: SessionCopy) -> None:
        self._check_open()
        copy, name = encode_copy(copy), copy.session_id
        if name in self._sessions:
            raise conflict(f"session {name} exists already", name)
        for run in copy.runs:
            if run.run_id in self._runs:
                raise conflict(f"run {run.run_id} exists already", name)
        if copy.copied_from is not None:
            self._require_session(copy.copied_from)
        session = self._new(name)
        for stored in copy.appends:
            self._position += len(stored.records)
            append = MemoryAppend(name, stored.records[-1].seq, self._position, stored.epoch, stored.body)
            session.appends.append(append)
            session.milestones.append(append)
            self._timeline.append(append)
        session.last_position = self._position
        session.row = SessionRow(name, Standing.IDLE, copy.last_seq, copy.epoch, None, None)
        self._keep_runs(session, copy)
        for content in copy.contents:
            self._keep_content(content.ref, content.content, session_id=name if content.is_own else None)
        self._uses.setdefault(name, set()).update(copy.uses)
        self._index.enter(name, copy.news, status=status_after(copy.news))
        self._index.ask(name, copy.asked, at=copy.news.at, run=session.run_under_way)

    def _keep_runs(self, session: MemorySession, copy: SessionCopy) -> None:
        items: dict[str, MemoryItem] = {}
        for copied in copy.items:
            item = MemoryItem(
                len(self._items) + 1, copy.session_id, copied.kind, copied.key, b"", copied.digest
            )
            item.is_consumed, item.consumed_seq = True, copied.consumed_seq
            self._items.append(item)
            session.items[copied.key] = item
            if copied.run_id is not None:
                items[copied.run_id] = item
        nothing = MemoryItem(0, copy.session_id, "", "", b"", b"", is_consumed=True)
        for run in copy.runs:
            row = MemoryRun(
                run.run_id, copy.session_id, run.agent_id, run.package_fingerprint, run.status, run.first_seq
            )
            self._runs[run.run_id] = (row, items.get(run.run_id, nothing))
            self._index.runs[run.run_id] = facts_of(run)
            session.run_count += 1
            if run.status in OPEN:
                session.open_runs[run.run_id] = row

    async def delete(self, session_id: str, *, now_ms: int, idle_since: str | None = None) -> tuple[str, ...]:
        self._check_open()
        family = family_of(session_id, self._below)
        for name in family:
            self._check_idle(self._sessions[name], now_ms)
            if idle_since is not None and self._is_used(name, idle_since):
                raise in_use(name)
        for name in family:
            self._remove(name)
        return family

    def _require_session(self, name: str) -> None:
        if name not in self._sessions:
            raise conflict(f"unknown session: {name}", name)

    def _below(self, name: str) -> list[str]:
        """The sessions that are deleted with one: its children, and the evaluations of its runs."""
        self._require_session(name)
        infos = self._index.sessions.values()
        children = [info.session_id for info in infos if info.parent_session_id == name]
        # Evaluations of its runs quote them.
        notes = [evaluation_session(row.run_id) for row, _ in self._runs.values() if row.session_id == name]
        return children + [note for note in notes if note in self._sessions]

    def _check_idle(self, session: MemorySession, now_ms: int) -> None:
        row = session.row
        if session.open_runs:
            raise conflict(f"a run is under way in session {row.session_id}: cancel it first", row.session_id)
        if self._is_alive(row.owner_id, now_ms) or row.standing is not Standing.IDLE:
            raise driving_conflict(row.session_id)

    def _is_used(self, name: str, since: str) -> bool:
        info = self._index.sessions.get(name)
        is_changed = info is not None and info.updated_at >= since
        has_items = any(not item.is_consumed for item in self._sessions[name].items.values())
        return is_changed or has_items or bool(self._index.asked.get(name))

    def _remove(self, name: str) -> None:
        for item in self._sessions.pop(name).items.values():
            # Keep the numbers, so that no later item reuses one.
            self._items[item.number - 1] = MemoryItem(item.number, "", "", "", b"", b"", is_consumed=True)
        self._timeline = [append for append in self._timeline if append.session_id != name]
        runs = {run_id for run_id, (row, _) in self._runs.items() if row.session_id == name}
        for run_id in runs:
            del self._runs[run_id]
            self._index.runs.pop(run_id, None)
            for kind in OF_RUNS:
                self._documents.pop((kind, run_id), None)
        refusals = (
            refusal for refusal in self._refused if refusal.session_id != name and refusal.run_id not in runs
        )
        self._refused = deque(refusals, self._refused.maxlen)
        own = self._uses.pop(name, set())
        for digest in own.difference(*self._uses.values()):
            self._contents.pop(digest, None)
        self._snapshots.pop(name, None)
        self._index.remove(name)
        if not is_notes(name):
            # Evaluations are not tombstoned: a new run may have the id of a deleted one and be evaluated.
            self._deleted.add(name)

    def _has(self, info: SessionInfo, search_words: tuple[str, ...]) -> bool:
        """Whether each of the words begins a word of the title or of the records of a session."""
        if not search_words:
            return True
        session = self._sessions[info.session_id]
        for append in session.appends[session.read_count :]:
            session.words.update(words_of_append(append.body))
        session.read_count = len(session.appends)
        session_words = session.words.union(words_in(info.title))
        return all(any(word.startswith(prefix) for word in session_words) for prefix in search_words)

    def _add_run_facts(self, infos: Sequence[SessionInfo]) -> tuple[SessionInfo, ...]:
        """Return sessions with the facts of their runs and requests; the runs are read once for all."""
        started: dict[str, list[RunInfo]] = {info.session_id: [] for info in infos}
        for row, item in self._runs.values():
            if row.session_id in started and (run := self._run_info(row, item)).started_at is not None:
                started[row.session_id].append(run)
        return tuple(self._with_runs(info, started[info.session_id]) for info in infos)

    def _with_runs(self, info: SessionInfo, runs: Sequence[RunInfo]) -> SessionInfo:
        newest = max(runs, key=lambda run: run.number, default=None)
        return replace(
            info,
            run_count=self._sessions[info.session_id].run_count,
            request_count=len(self._index.asked.get(info.session_id, ())),
            output="" if newest is None else newest.output,
            error_message=None if newest is None else newest.error_message,
            waits_for=None if newest is None else newest.waits_for,
            waits_on=None if newest is None else newest.waits_on,
            error=None if newest is None else newest.error,
            crashes=sum(run.crashes for run in runs),
        )

    def _has_run(self, info: RunInfo, search_words: tuple[str, ...]) -> bool:
        session = self._index.sessions.get(info.session_id)
        return not search_words or (session is not None and self._has(session, search_words))

    def _run_info(self, row: MemoryRun, item: MemoryItem) -> RunInfo:
        facts, session = self._index.runs.get(row.run_id, NO_FACTS), self._index.sessions.get(row.session_id)
        return RunInfo(
            row.run_id,
            row.session_id,
            row.agent_id,
            row.fingerprint,
            row.status,
            facts.started_at,
            facts.ended_at,
            facts.usage or NO_USAGE,
            row.first_seq,
            item.number,
            at=facts.started_at or row.at,
            owner=None if session is None else session.owner,
            is_root=session is None or session.parent_session_id is None,
            is_playground=_is_playground(session, self._index.sessions),
            input=facts.input,
            output=facts.answer,
            error_message=facts.error_message,
            waits_for=facts.waits_for,
            waits_on=facts.waits_on,
            error=facts.error,
            crashes=facts.crashes,
            tags=facts.tags,
            rating=facts.rating,
        )


def _read(appends: list[MemoryAppend], after: int, limit: int) -> tuple[Record, ...]:
    start = bisect_right(appends, after, key=lambda append: append.last_seq)
    records: list[Record] = []
    for append in appends[start : start + limit]:
        records += (record for record in append.records() if record.seq > after)
        if len(records) >= limit:
            break
    return tuple(records)


class MemoryStore(MemoryArchive):
    """A `Store` and `ContentStore` for one event loop; nothing is durable."""

    async def claim(self, session_id: str, owner_id: str, *, now_ms: int) -> Claim:
        self._check_open()
        check_id("a session id", session_id)
        check_number("now_ms", now_ms)
        if owner_id not in self._owners:
            raise rejection(f"owner {owner_id} is not enlisted")
        session = self._sessions.get(session_id)
        if session is None:
            session = self._new(session_id)
        row = session.row
        if row.owner_id not in (None, owner_id) and self._is_alive(row.owner_id, now_ms):
            raise conflict(f"session {session_id} belongs to owner {row.owner_id}", session_id)
        session.row = replace(row, owner_id=owner_id, epoch=row.epoch + 1)
        return Claim(session_id, owner_id, epoch=row.epoch + 1, last_seq=row.last_seq)

    async def append(self, batch: Batch) -> Appended:
        self._check_open()
        # Kept as JSON, so that a reader cannot change another reader's records.
        body, posts = encode_batch(batch, is_packed=False), encode_posts(batch)
        claim, count = batch.claim, len(batch.drafts)
        session = self._sessions.get(claim.session_id)
        if session is None:
            raise rejection(f"unknown session: {claim.session_id}")
        row = session.row
        check_fence(row, batch)
        items = self._to_consume(session, batch)
        self._check_runs(batch)
        fresh = [post for post in posts if not self._is_posted(post, claim.session_id)] if posts else posts
        for run, number in batch.new_runs:
            self._begin_run(run, self._items[number - 1])
        first_seq, first_position = row.last_seq + 1, self._position + 1
        if count:
            last_position = first_position + count - 1
            append = MemoryAppend(claim.session_id, row.last_seq + count, last_position, row.epoch, body)
            session.appends.append(append)
            if batch.is_milestone:
                session.milestones.append(append)
            session.last_position = self._position = last_position
            self._timeline.append(append)
        for item in items:
            item.is_consumed, item.consumed_seq = True, first_seq
        for run_id, status in batch.runs:
            self._move_run(run_id, status, first_seq if count else 0)
        session.row = SessionRow(
            row.session_id,
            row.standing if batch.standing is None else batch.standing,
            row.last_seq + count,
            row.epoch,
            row.wake_at_ms if batch.standing is None else batch.wake_at_ms,
            None if batch.is_last else row.owner_id,
        )
        self._index.follow(
            claim.session_id, batch, asking=None if batch.asked is None else session.run_under_way
        )
        for post in fresh:
            self._keep(post)
        if batch.calls is not None:
            settle_calls(self, claim.session_id, batch.calls)
        return Appended(first_seq, first_position)

    async def hold_call(self, ask: CallAsk) -> CallGrant | CallRefusal:
        self._check_open()
        session = self._sessions.get(ask.claim.session_id)
        if session is None or session.row.epoch != ask.claim.epoch:
            raise conflict("the session has another owner", ask.claim.session_id)
        return hold_call(self, ask)

    async def purses(self, names: Sequence[str]) -> tuple[PurseState, ...]:
        self._check_open()
        return read_purses(self, names)

    def read_row(self, kind: str, name: str) -> JsonObject | None:
        """Return the body of a document; see `PurseRows`."""
        document = self._documents.get((kind, name))
        return None if document is None else document.body

    def write_row(
        self, kind: str, name: str, body: JsonObject | None, *, due_at_ms: int | None = None
    ) -> None:
        """Write the body of a document; see `PurseRows`."""
        before = self._documents.pop((kind, name), None)
        if body is not None:
            revision = 1 if before is None else before.revision + 1
            self._documents[kind, name] = Document(kind, name, revision, body, due_at_ms)

    def due_rows(self, kind: str) -> list[tuple[str, JsonObject]]:
        """Return the documents that are due; see `PurseRows`."""
        documents = [document for document in self._documents.values() if document.kind == kind]
        return [(document.name, document.body) for document in documents if document.due_at_ms == 0]

    async def read(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        self._check_open()
        session = self._sessions.get(session_id)
        return () if session is None else _read(session.appends, after, limit)

    async def milestones(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        self._check_open()
        session = self._sessions.get(session_id)
        return () if session is None else _read(session.milestones, after, limit)

    async def post(
        self, session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None = None
    ) -> Posted:
        self._check_open()
        post = encode_post(Post(session_id, kind, key, body), run, at="" if run is None else run.at)
        session = self._sessions.get(session_id)
        item_before = session.items.get(key) if session else None
        what = f"key {key}"
        if item_before is None and run is not None and run.run_id in self._runs:
            item_before, what = self._runs[run.run_id][1], f"run id {run.run_id}"
        if item_before is not None:
            if item_before.digest != post.digest:
                raise conflict(f"{what} was used for another request", session_id)
            return Posted(item_before.number, is_new=False)
        waiting = 0 if session is None else sum(not item.is_consumed for item in session.items.values())
        check_room(waiting, kind=kind)
        if post.facts is not None:
            self._index.check_owner(session_id, post.facts)
        item = self._keep(post)
        return Posted(item.number, is_new=True)

    def _is_posted(self, encoded_post: EncodedPost, session_id: str) -> bool:
        post, run = encoded_post.post, encoded_post.run
        session = self._sessions.get(post.session_id)
        if run is None:
            # The target session is deleted: skip the item.
            is_posted = session is not None and post.key in session.items
            return is_posted or post.session_id in self._deleted
        if run.run_id in self._runs:
            raise conflict(f"run id {run.run_id} was used for another request", session_id)
        if session is not None or post.session_id in self._deleted:
            raise conflict(f"session {post.session_id} exists already", session_id)
        return False

    def _keep(self, encoded_post: EncodedPost) -> MemoryItem:
        post = encoded_post.post
        session = self._sessions.get(post.session_id) or self._new(post.session_id)
        item = MemoryItem(
            len(self._items) + 1, post.session_id, post.kind, post.key, encoded_post.raw, encoded_post.digest
        )
        self._items.append(item)
        session.items[post.key] = item
        if encoded_post.run is not None:
            self._begin_run(encoded_post.run, item, facts=encoded_post.facts)
        if encoded_post.facts is not None:
            self._index.enter(post.session_id, encoded_post.facts)
        return item

    def _begin_run(self, run: NewRun, item: MemoryItem, *, facts: SessionNews | None = None) -> None:
        at = run.at if facts is None else facts.at
        row = MemoryRun(run.run_id, item.session_id, run.agent_id, run.fingerprint, RunStatus.PENDING, 0, at)
        self._index.runs[run.run_id] = ListedRun(input="" if facts is None else facts.title)
        self._runs[run.run_id] = (row, item)
        session = self._sessions[item.session_id]
        session.open_runs[run.run_id] = row
        session.run_count += 1

    async def pending(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[InboxItem, ...]:
        self._check_open()
        session = self._sessions.get(session_id)
        items = session.items.values() if session else ()
        waiting = (item for item in items if not item.is_consumed and item.number > after)
        return tuple(
            InboxItem(item.number, session_id, item.kind, item.key, decode_item(item.body))
            for item in islice(waiting, limit)
        )

    async def arrivals(self, *, after: int) -> Arrivals:
        self._check_open()
        waiting = (item.session_id for item in self._items[after:] if not item.is_consumed)
        return Arrivals(len(self._items), frozenset(waiting))

    async def run(self, run_id: str) -> RunRow | None:
        self._check_open()
        if run_id not in self._runs:
            return None
        row = self._runs[run_id][0]
        session, listed = self._sessions.get(row.session_id), self._index.sessions.get(row.session_id)
        return RunRow(
            row.run_id,
            row.session_id,
            row.agent_id,
            row.fingerprint,
            row.status,
            row.first_seq,
            0 if session is None else session.row.last_seq,
            None if listed is None else listed.owner,
        )

    async def session(self, session_id: str) -> SessionRow | None:
        self._check_open()
        session = self._sessions.get(session_id)
        return session.row if session else None

    async def is_deleted(self, session_id: str) -> bool:
        self._check_open()
        return session_id in self._deleted

    async def sessions(self, *, after: str | None = None, limit: int = 100) -> tuple[SessionRow, ...]:
        self._check_open()
        names = sorted(name for name in self._sessions if after is None or name > after)
        return tuple(self._sessions[name].row for name in names[:limit])

    async def due(
        self, *, now_ms: int, limit: int = 100, agents: Collection[str] | None = None
    ) -> tuple[str, ...]:
        self._check_open()
        check_number("now_ms", now_ms)
        for owner_id in [owner for owner in self._owners if not self._is_alive(owner, now_ms)]:
            self._release(owner_id)
        unowned = [session for session in self._sessions.values() if session.row.owner_id is None]
        free = [
            session
            for session in unowned
            if agents is None or session.next_agent is None or session.next_agent in agents
        ]
        running = [session for session in free if session.row.standing is Standing.RUNNING]
        woken = [
            (session.row.wake_at_ms, session.row.session_id)
            for session in free
            if session.row.standing is Standing.WAITING
            and session.row.wake_at_ms is not None
            and session.row.wake_at_ms <= now_ms
        ]
        names = {session.row.session_id for session in unowned}
        stands = {session.row.session_id: session.row.standing for session in free}
        items = [item for item in self._items if not item.is_consumed]
        called = [
            item.session_id
            for item in items
            if item.kind != START and item.session_id in (names if item.kind == CANCEL else stands)
        ]
        started = [
            item.session_id
            for item in items
            if item.kind == START and stands.get(item.session_id, Standing.WAITING) is not Standing.WAITING
        ]
        running.sort(key=lambda session: session.last_position)
        woken.sort()
        queues = (
            [session.row.session_id for session in running],
            [name for _, name in woken],
            dict.fromkeys(called),
            dict.fromkeys(started),
        )
        return in_turns(queues, limit)

    async def open_runs(self) -> tuple[OpenRuns, ...]:
        self._check_open()
        times: dict[tuple[str, str, RunStatus], list[str]] = {}
        for row, item in self._runs.values():
            if row.status in OPEN:
                key = (row.agent_id, row.fingerprint, row.status)
                times.setdefault(key, []).append(self._run_info(row, item).at)
        return tuple(OpenRuns(*key, len(group), min(group)) for key, group in sorted(times.items()))

    async def put_document(self, document: Document) -> None:
        self._check_open()
        body = from_json(document_json(document))
        check_revision(document, self._revision(document), expected=document.revision - 1)
        self._documents[document.kind, document.name] = replace(document, body=body)

    async def drop_document(self, document: Document) -> None:
        self._check_open()
        check_revision(document, self._revision(document), expected=document.revision)
        del self._documents[document.kind, document.name]

    def _revision(self, document: Document) -> int:
        stored = self._documents.get((document.kind, document.name))
        return 0 if stored is None else stored.revision

    async def document(self, kind: str, name: str) -> Document | None:
        return next(iter(self._documents_of(kind, lambda document: document.name == name)), None)

    async def documents(
        self, kind: str, *, after: str | None = None, limit: int = 100
    ) -> tuple[Document, ...]:
        documents = self._documents_of(kind, lambda document: document.name > (after or ""))
        return tuple(sorted(documents, key=lambda document: document.name)[:limit])

    async def due_documents(self, kind: str, *, now_ms: int, limit: int = 100) -> tuple[Document, ...]:
        documents = self._documents_of(
            kind, lambda document: document.due_at_ms is not None and document.due_at_ms <= now_ms
        )
        return tuple(sorted(documents, key=lambda document: (document.due_at_ms or 0, document.name))[:limit])

    async def next_document_ms(self, kind: str) -> int | None:
        documents = self._documents_of(kind, lambda _: True)
        return min(
            (document.due_at_ms for document in documents if document.due_at_ms is not None), default=None
        )

    def _documents_of(self, kind: str, fits: Callable[[Document], bool]) -> list[Document]:
        """Return copies: the caller may change them."""
        self._check_open()
        documents = [
            document for document in self._documents.values() if document.kind == kind and fits(document)
        ]
        return [replace(document, body=deepcopy(document.body)) for document in documents]

    async def next_wake_ms(self) -> int | None:
        self._check_open()
        rows = (session.row for session in self._sessions.values())
        times = (row.wake_at_ms for row in rows if row.standing is Standing.WAITING)
        return min((time for time in times if time is not None), default=None)

    async def enlist(self, owner_id: str, *, now_ms: int) -> None:
        self._check_open()
        check_id("an owner id", owner_id)
        check_number("now_ms", now_ms)
        self._owners[owner_id] = now_ms

    async def retire(self, owner_id: str) -> None:
        self._check_open()
        self._release(owner_id)

    async def living(self, *, now_ms: int) -> frozenset[str]:
        self._check_open()
        check_number("now_ms", now_ms)
        return frozenset(owner for owner in self._owners if self._is_alive(owner, now_ms))

    async def read_all(self, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        self._check_open()
        start = bisect_left(self._timeline, after + 1, key=lambda append: append.last_position)
        records: list[Record] = []
        for append in self._timeline[start : start + limit]:
            records += (record for record in append.records() if (record.position or 0) > after)
            if len(records) >= limit:
                break
        return tuple(records)

    async def last_position(self) -> int:
        self._check_open()
        return self._position

    async def save(self, session_id: str, seq: int, *, state: bytes) -> None:
        self._check_open()
        snapshot = self._snapshots.get(session_id)
        session = self._sessions.get(session_id)
        is_wanted = session and seq <= session.row.last_seq and len(state) <= SNAPSHOT_BYTES_MAX
        if is_wanted and (snapshot is None or snapshot[0] <= seq):
            self._snapshots[session_id] = (seq, state)

    async def load(self, session_id: str) -> tuple[int, bytes] | None:
        self._check_open()
        return self._snapshots.get(session_id)

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        self._check_open()
        ref = content_ref(content, media_type)
        self._keep_content(ref, content, session_id=session_id)
        return ref

    async def get(self, ref: ContentRef) -> bytes:
        self._check_open()
        stored = self._contents.get(ref.hash)
        if stored is None:
            raise rejection(f"unknown content: {ref.hash}")
        return stored[1]

    async def aclose(self) -> None:
        self._is_closed = True

    def _release(self, owner_id: str) -> None:
        self._owners.pop(owner_id, None)
        for session in self._sessions.values():
            if session.row.owner_id == owner_id:
                session.row = replace(session.row, owner_id=None)

    def _to_consume(self, session: MemorySession, batch: Batch) -> list[MemoryItem]:
        if not batch.consumes:
            return []
        waiting = {item.number: item for item in session.items.values() if not item.is_consumed}
        if len(set(batch.consumes)) != len(batch.consumes) or not waiting.keys() >= set(batch.consumes):
            raise conflict("an inbox item is unknown or already consumed", batch.claim.session_id)
        return [waiting[number] for number in batch.consumes]

    def _check_runs(self, batch: Batch) -> None:
        if not batch.runs and not batch.new_runs:
            return
        new_ids = new_run_ids(batch)
        for run_id in new_ids & self._runs.keys():
            raise conflict(f"run id {run_id} was used for another request", batch.claim.session_id)
        for run_id in {run_id for run_id, _ in batch.runs} - new_ids:
            if run_id not in self._runs or self._runs[run_id][0].session_id != batch.claim.session_id:
                raise rejection(f"run {run_id} was not started in session {batch.claim.session_id}")

    def _move_run(self, run_id: str, status: RunStatus, first_seq: int) -> None:
        row, item = self._runs[run_id]
        row = replace(row, status=status, first_seq=row.first_seq or first_seq)
        self._runs[run_id] = (row, item)
        open_runs = self._sessions[row.session_id].open_runs
        if status in OPEN:
            open_runs[run_id] = row
        else:
            open_runs.pop(run_id, None)
