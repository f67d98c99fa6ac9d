"""A store in memory: the reference that the durable stores are held against."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import islice

from windlass.adapters.journals.codec import (
    EncodedPost,
    check_id,
    check_number,
    content_ref,
    decode_item,
    encode_batch,
    encode_post,
    encode_posts,
)
from windlass.adapters.journals.faults import conflict, rejected
from windlass.adapters.journals.memory_archive import MemoryArchive
from windlass.adapters.journals.memory_tables import Append, Item, Session
from windlass.adapters.journals.rules import OPEN, check_fence, check_room, in_turns, new_run_ids
from windlass.limits import SNAPSHOT_BYTES_MAX
from windlass.ports.store import (
    CANCEL,
    START,
    Appended,
    Arrivals,
    Batch,
    Claim,
    InboxItem,
    NewRun,
    Posted,
    RunRow,
    SessionRow,
    Standing,
)
from windlass_harness.loop.drafts import Post
from windlass_protocol import ContentRef, JsonObject, Record, RunStatus


class MemoryStore(MemoryArchive):
    """A `Store` and `ContentStore` for one event loop; what it holds ends with it."""

    async def claim(self, session_id: str, owner_id: str, *, now_ms: int) -> Claim:
        self._check_open()
        check_id("a session id", session_id)
        check_number("now_ms", now_ms)
        if owner_id not in self._owners:
            raise rejected(f"owner {owner_id} is not enlisted")
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
        body, posts = encode_batch(batch), encode_posts(batch)
        claim, count = batch.claim, len(batch.drafts)
        session = self._sessions.get(claim.session_id)
        if session is None:
            raise rejected(f"there is no session {claim.session_id}")
        row = session.row
        check_fence(row, batch)
        items = self._to_consume(session, batch)
        self._check_runs(batch)
        fresh = [one for one in posts if not self._is_known(one, claim.session_id)]
        for run, number in batch.new_runs:
            self._begin_run(run, self._items[number - 1])
        first_seq, first_position = row.last_seq + 1, self._position + 1
        if count:
            last_position = first_position + count - 1
            append = Append(claim.session_id, row.last_seq + count, last_position, row.epoch, body)
            session.appends.append(append)
            session.last_position = self._position = last_position
            self._timeline.append(append)
        for item in items:
            item.is_consumed, item.consumed_seq = True, first_seq
        for run_id, status in batch.runs:
            self._move_run(run_id, status, first_seq if count else 0)
        row = replace(row, last_seq=row.last_seq + count)
        if batch.standing is not None:
            row = replace(row, standing=batch.standing, wake_at_ms=batch.wake_at_ms)
        session.row = replace(row, owner_id=None) if batch.is_last else row
        self._index.follow(claim.session_id, batch, asking=session.run_under_way)
        for one in fresh:
            self._keep(one)
        return Appended(first_seq, first_position)

    async def read(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        self._check_open()
        session = self._sessions.get(session_id)
        if session is None:
            return ()
        start = bisect_right(session.appends, after, key=lambda append: append.last_seq)
        records: list[Record] = []
        for append in session.appends[start : start + limit]:
            records += (record for record in append.records() if record.seq > after)
            if len(records) >= limit:
                break
        return tuple(records)

    async def post(
        self, session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None = None
    ) -> Posted:
        self._check_open()
        one = encode_post(Post(session_id, kind, key, body), run, at="" if run is None else run.at)
        session = self._sessions.get(session_id)
        known = session.items.get(key) if session else None
        what = f"key {key}"
        if known is None and run is not None and run.run_id in self._runs:
            known, what = self._runs[run.run_id][1], f"run id {run.run_id}"
        if known is not None:
            if known.digest != one.digest:
                raise conflict(f"{what} was used for another request", session_id)
            return Posted(known.number, is_new=False)
        waiting = 0 if session is None else sum(not item.is_consumed for item in session.items.values())
        check_room(waiting, kind=kind)
        if one.told is not None:
            self._index.check_owner(session_id, one.told)
        item = self._keep(one)
        return Posted(item.number, is_new=True)

    def _is_known(self, one: EncodedPost, session_id: str) -> bool:
        post, run, session = one.post, one.run, self._sessions.get(one.post.session_id)
        if run is None:
            # Whoever is gone need not be told.
            is_known = session is not None and post.key in session.items
            return is_known or post.session_id in self._deleted
        if run.run_id in self._runs:
            raise conflict(f"run id {run.run_id} was used for another request", session_id)
        if session is not None or post.session_id in self._deleted:
            raise conflict(f"session {post.session_id} is there already", session_id)
        return False

    def _keep(self, one: EncodedPost) -> Item:
        post = one.post
        session = self._sessions.get(post.session_id) or self._new(post.session_id)
        item = Item(len(self._items) + 1, post.session_id, post.kind, post.key, one.raw, one.digest)
        self._items.append(item)
        session.items[post.key] = item
        if one.run is not None:
            self._begin_run(one.run, item)
        if one.told is not None:
            self._index.enter(post.session_id, one.told)
        return item

    def _begin_run(self, run: NewRun, item: Item) -> None:
        row = RunRow(run.run_id, item.session_id, run.agent_id, run.fingerprint, RunStatus.PENDING, 0)
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
        return self._runs[run_id][0] if run_id in self._runs else None

    async def session(self, session_id: str) -> SessionRow | None:
        self._check_open()
        session = self._sessions.get(session_id)
        return session.row if session else None

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
        running = [each for each in free if each.row.standing is Standing.RUNNING]
        woken = [
            (each.row.wake_at_ms, each.row.session_id)
            for each in free
            if each.row.standing is Standing.WAITING
            and each.row.wake_at_ms is not None
            and each.row.wake_at_ms <= now_ms
        ]
        names = {session.row.session_id for session in unowned}
        stands = {session.row.session_id: session.row.standing for session in free}
        called = [
            item.session_id
            for item in self._items
            if not item.is_consumed
            and item.session_id in (names if item.kind == CANCEL else stands)
            and not (item.kind == START and stands[item.session_id] is Standing.WAITING)
        ]
        running.sort(key=lambda each: each.last_position)
        woken.sort()
        queues = (
            [each.row.session_id for each in running],
            [name for _, name in woken],
            dict.fromkeys(called),
        )
        return in_turns(queues, limit)

    async def unfinished(self) -> Mapping[str, int]:
        self._check_open()
        return Counter(row.agent_id for row, _ in self._runs.values() if row.status in OPEN)

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
        known = self._snapshots.get(session_id)
        session = self._sessions.get(session_id)
        is_wanted = session and seq <= session.row.last_seq and len(state) <= SNAPSHOT_BYTES_MAX
        if is_wanted and (known is None or known[0] <= seq):
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
        kept = self._contents.get(ref.hash)
        if kept is None:
            raise rejected(f"there is no content {ref.hash}")
        return kept[1]

    async def aclose(self) -> None:
        self._is_closed = True

    def _release(self, owner_id: str) -> None:
        self._owners.pop(owner_id, None)
        for session in self._sessions.values():
            if session.row.owner_id == owner_id:
                session.row = replace(session.row, owner_id=None)

    def _to_consume(self, session: Session, batch: Batch) -> list[Item]:
        waiting = {item.number: item for item in session.items.values() if not item.is_consumed}
        if len(set(batch.consumes)) != len(batch.consumes) or not waiting.keys() >= set(batch.consumes):
            raise conflict("an inbox item is not, or no longer, waiting", batch.claim.session_id)
        return [waiting[number] for number in batch.consumes]

    def _check_runs(self, batch: Batch) -> None:
        begun = new_run_ids(batch)
        for run_id in begun & self._runs.keys():
            raise conflict(f"run id {run_id} was used for another request", batch.claim.session_id)
        for run_id in {run_id for run_id, _ in batch.runs} - begun:
            if run_id not in self._runs or self._runs[run_id][0].session_id != batch.claim.session_id:
                raise rejected(f"run {run_id} was not started in session {batch.claim.session_id}")

    def _move_run(self, run_id: str, status: RunStatus, first_seq: int) -> None:
        row, item = self._runs[run_id]
        row = replace(row, status=status, first_seq=row.first_seq or first_seq)
        self._runs[run_id] = (row, item)
        open_runs = self._sessions[row.session_id].open_runs
        if status in OPEN:
            open_runs[run_id] = row
        else:
            open_runs.pop(run_id, None)
