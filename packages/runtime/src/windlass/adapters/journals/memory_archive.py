"""The index and whole sessions of a store in memory."""

from dataclasses import replace
from heapq import nlargest

from windlass.adapters.journals.archive_rules import encoded, family_of
from windlass.adapters.journals.faults import conflict, driven
from windlass.adapters.journals.listing_rules import status_after
from windlass.adapters.journals.memory_counted import count_runs, count_waiting
from windlass.adapters.journals.memory_index import NO_FACTS, RunFacts, fits
from windlass.adapters.journals.memory_tables import Append, Item, MemoryTables, Session
from windlass.adapters.journals.rules import OPEN
from windlass.ports.store import (
    CountFilter,
    KeptItem,
    OpenRequest,
    RunCounts,
    RunFilter,
    RunInfo,
    RunRow,
    SessionCopy,
    SessionFilter,
    SessionInfo,
    SessionRow,
    SettledRequest,
    Standing,
    StoredAppend,
    Waiting,
)
from windlass_harness.ledger.goals import evaluation_session
from windlass_harness.ledger.proposals import is_notes
from windlass_protocol import ContentRef


class MemoryArchive(MemoryTables):
    """The part of a store in memory that lists, copies and removes sessions."""

    async def listed(
        self, wanted: SessionFilter, *, before: int | None = None, limit: int = 50
    ) -> tuple[SessionInfo, ...]:
        self._check_open()
        found = (
            info
            for info in self._index.sessions.values()
            if (before is None or info.number < before) and fits(info, wanted)
        )
        newest = nlargest(limit, found, key=lambda info: info.number)
        return tuple(self._counted(info) for info in newest)

    async def listed_session(self, session_id: str) -> SessionInfo | None:
        self._check_open()
        info = self._index.sessions.get(session_id)
        return None if info is None else self._counted(info)

    async def listed_runs(
        self, wanted: RunFilter, *, before: int | None = None, limit: int = 50
    ) -> tuple[RunInfo, ...]:
        self._check_open()
        found = (
            self._run_info(row, item)
            for row, item in self._runs.values()
            if (before is None or item.number < before) and self._is_wanted(row, wanted)
        )
        return tuple(nlargest(limit, found, key=lambda info: info.number))

    async def listed_requests(
        self, *, owner: str | None = None, after: int = 0, limit: int = 50
    ) -> tuple[OpenRequest, ...]:
        self._check_open()
        found = [
            one
            for asked in self._index.asked.values()
            for one in asked.values()
            if one.number > after and owner in (None, one.owner)
        ]
        return tuple(sorted(found, key=lambda one: one.number)[:limit])

    async def find_request(self, request_id: str) -> OpenRequest | SettledRequest | None:
        self._check_open()
        for asked in self._index.asked.values():
            if request_id in asked:
                return asked[request_id]
        return self._index.settled.get(request_id)

    async def counted_runs(self, wanted: CountFilter) -> RunCounts:
        self._check_open()
        infos = (self._run_info(row, item) for row, item in self._runs.values())
        return count_runs(infos, self._index.sessions, wanted=wanted)

    async def waiting(self, *, owner: str | None = None, agent_id: str | None = None) -> Waiting:
        self._check_open()
        rows = [row for row, _ in self._runs.values() if agent_id in (None, row.agent_id)]
        asked = [
            one
            for requests in self._index.asked.values()
            for one in requests.values()
            if agent_id in (None, one.agent_id)
        ]
        return count_waiting(rows, asked, sessions=self._index.sessions, owner=owner, agent_id=agent_id)

    async def appends(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[StoredAppend, ...]:
        self._check_open()
        session = self._sessions.get(session_id)
        appends = () if session is None else session.appends
        found = [one for one in appends if one.last_seq > after][:limit]
        return tuple(StoredAppend(one.records(), one.epoch, one.body) for one in found)

    async def kept_items(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[KeptItem, ...]:
        self._check_open()
        session = self._sessions.get(session_id)
        known = () if session is None else session.items.values()
        items = [one for one in known if one.consumed_seq and one.number > after]
        started = {item.number: row.run_id for row, item in self._runs.values()}
        return tuple(
            KeptItem(one.kind, one.key, one.digest, one.consumed_seq, started.get(one.number), one.number)
            for one in items[:limit]
        )

    async def contents_of(self, session_id: str) -> tuple[ContentRef, ...]:
        self._check_open()
        found = [(digest, *self._contents[digest]) for digest in sorted(self._uses.get(session_id, ()))]
        return tuple(
            ContentRef(content_id=digest, hash=digest, media_type=kind, size_bytes=len(content))
            for digest, kind, content in found
        )

    async def keep(self, copy: SessionCopy) -> None:
        self._check_open()
        copy, name = encoded(copy), copy.session_id
        if name in self._sessions:
            raise conflict(f"session {name} exists already", name)
        for run in copy.runs:
            if run.run_id in self._runs:
                raise conflict(f"run {run.run_id} exists already", name)
        if copy.copied_from is not None:
            self._known(copy.copied_from)
        session = self._new(name)
        for one in copy.appends:
            self._position += len(one.records)
            append = Append(name, one.records[-1].seq, self._position, one.epoch, one.body)
            session.appends.append(append)
            self._timeline.append(append)
        session.last_position = self._position
        session.row = SessionRow(name, Standing.IDLE, copy.last_seq, copy.epoch, None, None)
        self._keep_runs(session, copy)
        for one in copy.contents:
            self._keep_content(one.ref, one.content, session_id=name if one.is_own else None)
        self._uses.setdefault(name, set()).update(copy.uses)
        self._index.enter(name, copy.told, status=status_after(copy.told))
        self._index.ask(name, copy.asked, at=copy.told.at, run=session.run_under_way)

    def _keep_runs(self, session: Session, copy: SessionCopy) -> None:
        items: dict[str, Item] = {}
        for one in copy.items:
            item = Item(len(self._items) + 1, copy.session_id, one.kind, one.key, b"", one.digest)
            item.is_consumed, item.consumed_seq = True, one.consumed_seq
            self._items.append(item)
            session.items[one.key] = item
            if one.run_id is not None:
                items[one.run_id] = item
        nothing = Item(0, copy.session_id, "", "", b"", b"", is_consumed=True)
        for run in copy.runs:
            row = RunRow(
                run.run_id, copy.session_id, run.agent_id, run.package_fingerprint, run.status, run.first_seq
            )
            self._runs[run.run_id] = (row, items.get(run.run_id, nothing))
            self._index.runs[run.run_id] = RunFacts(run.started_at, run.ended_at, run.usage)
            session.run_count += 1
            if run.status in OPEN:
                session.open_runs[run.run_id] = row

    async def delete(self, session_id: str, *, now_ms: int) -> tuple[str, ...]:
        self._check_open()
        family = family_of(session_id, self._below)
        for name in family:
            self._check_idle(self._sessions[name], now_ms)
        for name in family:
            self._remove(name)
        return family

    def _known(self, name: str) -> None:
        if name not in self._sessions:
            raise conflict(f"unknown session: {name}", name)

    def _below(self, name: str) -> list[str]:
        """The sessions that go with one."""
        self._known(name)
        known = self._index.sessions.values()
        below = [one.session_id for one in known if one.parent_session_id == name]
        # What was said of its runs quotes them.
        notes = [evaluation_session(row.run_id) for row, _ in self._runs.values() if row.session_id == name]
        return below + [note for note in notes if note in self._sessions]

    def _check_idle(self, session: Session, now_ms: int) -> None:
        row = session.row
        if session.open_runs:
            raise conflict(f"a run is under way in session {row.session_id}: cancel it first", row.session_id)
        if self._is_alive(row.owner_id, now_ms) or row.standing is not Standing.IDLE:
            raise driven(row.session_id)

    def _remove(self, name: str) -> None:
        for item in self._sessions.pop(name).items.values():
            # Numbers stay, so that no later item is taken for this one.
            self._items[item.number - 1] = Item(item.number, "", "", "", b"", b"", is_consumed=True)
        self._timeline = [append for append in self._timeline if append.session_id != name]
        for run_id in [run_id for run_id, (row, _) in self._runs.items() if row.session_id == name]:
            del self._runs[run_id]
            self._index.runs.pop(run_id, None)
        own = self._uses.pop(name, set())
        for digest in own.difference(*self._uses.values()):
            self._contents.pop(digest, None)
        self._snapshots.pop(name, None)
        self._index.remove(name)
        if not is_notes(name):
            # A run may have the name of one that is gone, and be judged.
            self._deleted.add(name)

    def _counted(self, info: SessionInfo) -> SessionInfo:
        name = info.session_id
        return replace(
            info,
            run_count=self._sessions[name].run_count,
            request_count=len(self._index.asked.get(name, ())),
        )

    def _is_wanted(self, row: RunRow, wanted: RunFilter) -> bool:
        session = self._index.sessions.get(row.session_id)
        return (
            wanted.session_id in (None, row.session_id)
            and wanted.agent_id in (None, row.agent_id)
            and wanted.status in (None, row.status)
            and (wanted.owner is None or (session is not None and session.owner == wanted.owner))
        )

    def _run_info(self, row: RunRow, item: Item) -> RunInfo:
        facts = self._index.runs.get(row.run_id, NO_FACTS)
        return RunInfo(
            row.run_id,
            row.session_id,
            row.agent_id,
            row.fingerprint,
            row.status,
            facts.started_at,
            facts.ended_at,
            facts.usage,
            row.first_seq,
            item.number,
        )
