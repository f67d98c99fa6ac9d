"""The ports of a store over the transactions and reads of a database."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Generic, TypeVar

from windlass.adapters.journals.codec import (
    check_id,
    check_number,
    content_ref,
    encode_batch,
    encode_copy,
    encode_post,
    encode_posts,
)
from windlass.adapters.journals.rules import document_json
from windlass.limits import LIGHT_CHARS_MAX, REFUSED_STARTS_MAX, SNAPSHOT_BYTES_MAX
from windlass.ports.archive import KeptItem, SessionCopy, StoredAppend
from windlass.ports.catalog import OpenRuns, RunRow, SessionRow
from windlass.ports.documents import Document
from windlass.ports.inbox import Arrivals, InboxItem, NewRun, Posted
from windlass.ports.journal import Appended, Batch, Claim
from windlass.ports.listing import (
    NEWEST_FIRST,
    NEWEST_SESSIONS,
    CountFilter,
    OpenRequest,
    RefusedStart,
    RunCounts,
    RunFilter,
    RunInfo,
    RunOrder,
    SessionFilter,
    SessionInfo,
    SessionOrder,
    SettledRequest,
    Waiting,
)
from windlass.ports.purses import CallAsk, CallGrant, CallRefusal, PurseState
from windlass.sql.archive import ArchiveTransaction
from windlass.sql.queries import Reads
from windlass.sql.writes import Owners
from windlass.tools.calling import in_masking_thread, read_by_size
from windlass.tools.results import is_light
from windlass_harness.record import Post, Record
from windlass_protocol import ContentRef, JsonObject

T = TypeVar("T")
ReadsT = TypeVar("ReadsT", bound=Reads)
TransactionT = TypeVar("TransactionT", bound=ArchiveTransaction)


class SqlStore(Generic[TransactionT, ReadsT]):
    """A `Store` and `ContentStore`; a database adds how its transactions and reads are run."""

    def __init__(self, owners: Owners, *, refusals_max: int = REFUSED_STARTS_MAX) -> None:
        self._owners = owners
        self._refusals_max = refusals_max

    async def _write(
        self,
        work: Callable[[TransactionT], T],
        *,
        size_bytes: int = 0,
        sessions: tuple[str, ...] = (),
        records: int = 0,
        items: int = 0,
    ) -> T:
        """Run a function in a transaction; return when it is durable.

        The keywords say what `work` needs: its size, the sessions that it changes, and the most positions and
        item numbers.
        """
        raise NotImplementedError

    async def _read(self, look: Callable[[ReadsT], T]) -> T:
        """Read one state of the store."""
        raise NotImplementedError

    async def _read_short(self, look: Callable[[ReadsT, int | None], T | None]) -> T:
        """Read rows that are mostly short: `look` may return None if it finds more than a number of bytes."""
        raise NotImplementedError

    async def _read_row(self, look: Callable[[ReadsT], T]) -> T:
        """Read a row that an index finds, or None: it is short."""
        [row] = await self._read_short(lambda reads, _: (look(reads),))
        return row

    async def _search(self, look: Callable[[ReadsT], T]) -> T:
        """Read with a search index that has the words of all that is stored now."""
        raise NotImplementedError

    def _look_at_owners(self, reads: ReadsT) -> None:
        """Look which owners have lost their processes, if the database knows."""

    def _remove_locks(self, dead: Collection[str]) -> None:
        """Remove the lock files of dead owners; their rows are deleted."""

    async def claim(self, session_id: str, owner_id: str, *, now_ms: int) -> Claim:
        check_id("a session id", session_id)
        check_number("now_ms", now_ms)
        return await self._write(
            lambda tx: tx.claim(session_id, owner_id, now_ms=now_ms), sessions=(session_id,)
        )

    async def append(self, batch: Batch) -> Appended:
        if _has_large_text(batch):
            body, posts = await in_masking_thread(lambda: (encode_batch(batch), encode_posts(batch)))
        else:
            body, posts = encode_batch(batch), encode_posts(batch)
        size_bytes, session_id = len(body), batch.claim.session_id
        for post in posts:
            size_bytes += len(post.raw)
        return await self._write(
            lambda tx: tx.append(batch, body, posts=posts),
            size_bytes=size_bytes,
            sessions=(session_id, *(post.post.session_id for post in posts)) if posts else (session_id,),
            records=len(batch.drafts),
            items=len(posts),
        )

    async def read(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        return await self._read_short(
            lambda reads, bytes_max: reads.records(session_id, after=after, limit=limit, bytes_max=bytes_max)
        )

    async def milestones(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        return await self._read(lambda reads: reads.milestones(session_id, after=after, limit=limit))

    async def post(
        self, session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None = None
    ) -> Posted:
        post = Post(session_id, kind, key, body)
        encode = partial(encode_post, post, run, at="" if run is None else run.at)
        encoded_post = encode() if is_light(body) else await in_masking_thread(encode)
        return await self._write(
            lambda tx: tx.post(encoded_post),
            size_bytes=len(encoded_post.raw),
            sessions=(session_id,),
            items=1,
        )

    async def pending(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[InboxItem, ...]:
        return await self._read_short(
            lambda reads, bytes_max: reads.pending(session_id, after=after, limit=limit, bytes_max=bytes_max)
        )

    async def arrivals(self, *, after: int) -> Arrivals:
        return await self._read(lambda reads: reads.arrivals(after))

    async def run(self, run_id: str) -> RunRow | None:
        return await self._read_row(lambda reads: reads.run(run_id))

    async def session(self, session_id: str) -> SessionRow | None:
        return await self._read_row(lambda reads: reads.session(session_id))

    async def is_deleted(self, session_id: str) -> bool:
        return await self._read(lambda reads: reads.is_deleted(session_id))

    async def sessions(self, *, after: str | None = None, limit: int = 100) -> tuple[SessionRow, ...]:
        return await self._read(lambda reads: reads.sessions(after, limit))

    async def due(
        self, *, now_ms: int, limit: int = 100, agents: Collection[str] | None = None
    ) -> tuple[str, ...]:
        check_number("now_ms", now_ms)

        def look(reads: ReadsT) -> tuple[str, ...] | None:
            """Return the sessions; None if an owner has died."""
            if not all(self._owner_states(reads, now_ms).values()):
                return None
            return reads.due(now_ms, limit, agents=agents)

        session_ids = await self._read(look)
        if session_ids is not None:
            return session_ids
        await self._bury(now_ms)
        return await self._read(lambda reads: reads.due(now_ms, limit, agents=agents))

    async def _bury(self, now_ms: int) -> None:
        """Delete the dead owners and release their sessions."""
        self._remove_locks(await self._write(lambda tx: tx.bury(now_ms)))

    async def open_runs(self) -> tuple[OpenRuns, ...]:
        return await self._read(lambda reads: reads.open_runs())

    async def next_wake_ms(self) -> int | None:
        return await self._read_row(lambda reads: reads.next_wake_ms())

    async def enlist(self, owner_id: str, *, now_ms: int) -> None:
        check_id("an owner id", owner_id)
        check_number("now_ms", now_ms)
        # In one transaction: a process that starts usually takes over from one that has died.
        self._remove_locks(await self._write(lambda tx: tx.enlist(owner_id, now_ms)))

    async def retire(self, owner_id: str) -> None:
        await self._write(lambda tx: tx.retire(owner_id))

    async def living(self, *, now_ms: int) -> frozenset[str]:
        check_number("now_ms", now_ms)
        states = await self._read(lambda reads: self._owner_states(reads, now_ms))
        return frozenset(owner_id for owner_id, is_alive in states.items() if is_alive)

    def _owner_states(self, reads: ReadsT, now_ms: int) -> dict[str, bool]:
        """Return of each owner whether it is alive."""
        self._look_at_owners(reads)
        return {
            owner_id: not self._owners.is_dead(owner_id, beat_at_ms=beat_at_ms, now_ms=now_ms)
            for owner_id, beat_at_ms in reads.owners()
        }

    async def read_all(self, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        return await self._read(lambda reads: reads.timeline(after, limit))

    async def last_position(self) -> int:
        return await self._read(lambda reads: reads.last_position())

    async def save(self, session_id: str, seq: int, *, state: bytes) -> None:
        if len(state) <= SNAPSHOT_BYTES_MAX:
            await self._write(
                lambda tx: tx.save(session_id, seq, state=state),
                size_bytes=len(state),
                sessions=(session_id,),
            )

    async def load(self, session_id: str) -> tuple[int, bytes] | None:
        return await self._read(lambda reads: reads.snapshot(session_id))

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        ref = await read_by_size(len(content), partial(content_ref, content, media_type))
        await self._write(lambda tx: tx.put(ref, content, session_id=session_id), size_bytes=len(content))
        return ref

    async def get(self, ref: ContentRef) -> bytes:
        return await self._read(lambda reads: reads.content(ref.hash))

    # the index

    async def list_sessions(
        self, where: SessionFilter, *, order: SessionOrder = NEWEST_SESSIONS, limit: int = 50
    ) -> tuple[SessionInfo, ...]:
        def look(reads: ReadsT) -> tuple[SessionInfo, ...]:
            return reads.index.sessions(where, order=order, limit=limit)

        return await (self._search(look) if where.words else self._read(look))

    async def session_info(self, session_id: str) -> SessionInfo | None:
        return await self._read_row(lambda reads: reads.index.session(session_id))

    async def list_runs(
        self, where: RunFilter, *, order: RunOrder = NEWEST_FIRST, limit: int = 50
    ) -> tuple[RunInfo, ...]:
        def look(reads: ReadsT) -> tuple[RunInfo, ...]:
            return reads.index.runs(where, order=order, limit=limit)

        return await (self._search(look) if where.words else self._read(look))

    async def count_listed(self, where: SessionFilter, *, most: int) -> int:
        def look(reads: ReadsT) -> int:
            return reads.index.count_sessions(where, most=most)

        return await (self._search(look) if where.words else self._read(look))

    async def count_listed_runs(self, where: RunFilter, *, most: int) -> int:
        def look(reads: ReadsT) -> int:
            return reads.index.count_runs(where, most=most)

        return await (self._search(look) if where.words else self._read(look))

    async def list_requests(
        self, *, owner: str | None = None, responders: Collection[str] = (), after: int = 0, limit: int = 50
    ) -> tuple[OpenRequest, ...]:
        return await self._read(
            lambda reads: reads.index.requests(owner, responders, after=after, limit=limit)
        )

    async def find_request(self, request_id: str) -> OpenRequest | SettledRequest | None:
        return await self._read(lambda reads: reads.index.request(request_id))

    async def record_refusal(self, refused: RefusedStart) -> None:
        await self._write(lambda tx: tx.refuse(refused, most=self._refusals_max))

    async def list_refusals(
        self,
        *,
        owner: str | None = None,
        agent_id: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> tuple[RefusedStart, ...]:
        return await self._read(
            lambda reads: reads.index.refusals(owner, agent_id, before=before, limit=limit)
        )

    async def put_document(self, document: Document) -> None:
        body = document_json(document)
        await self._write(lambda tx: tx.put_document(document, body))

    async def drop_document(self, document: Document) -> None:
        await self._write(lambda tx: tx.drop_document(document))

    async def document(self, kind: str, name: str) -> Document | None:
        documents = await self._read(lambda reads: reads.documents("kind = ? AND name = ?", (kind, name)))
        return documents[0] if documents else None

    async def documents(
        self, kind: str, *, after: str | None = None, limit: int = 100
    ) -> tuple[Document, ...]:
        where = "kind = ? AND name > ? ORDER BY name LIMIT ?"
        return await self._read(lambda reads: reads.documents(where, (kind, after or "", limit)))

    async def due_documents(self, kind: str, *, now_ms: int, limit: int = 100) -> tuple[Document, ...]:
        where = "kind = ? AND due_at_ms <= ? ORDER BY due_at_ms, name LIMIT ?"
        return await self._read(lambda reads: reads.documents(where, (kind, now_ms, limit)))

    async def next_document_ms(self, kind: str) -> int | None:
        return await self._read_row(lambda reads: reads.next_document_ms(kind))

    async def hold_call(self, ask: CallAsk) -> CallGrant | CallRefusal:
        return await self._write(lambda tx: tx.hold_call(ask), sessions=(ask.claim.session_id,))

    async def purses(self, names: Sequence[str]) -> tuple[PurseState, ...]:
        return await self._write(lambda tx: tx.purses(names))

    async def run_counts(self, where: CountFilter) -> RunCounts:
        return await self._read(lambda reads: reads.counts.runs(where))

    async def waiting(self, *, owner: str | None = None, agent_id: str | None = None) -> Waiting:
        return await self._read(lambda reads: reads.counts.waiting(owner, agent_id))

    # whole sessions

    async def appends(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[StoredAppend, ...]:
        return await self._read(lambda reads: reads.appends(session_id, after=after, limit=limit))

    async def read_items(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[KeptItem, ...]:
        return await self._read(lambda reads: reads.index.items(session_id, after=after, limit=limit))

    async def contents_of(self, session_id: str) -> tuple[ContentRef, ...]:
        return await self._read(lambda reads: reads.index.contents(session_id))

    async def keep(self, copy: SessionCopy) -> None:
        whole = await asyncio.to_thread(encode_copy, copy)
        append_bytes = sum(len(append.body) for append in whole.appends)
        content_bytes = sum(len(content.content) for content in whole.contents)
        await self._write(
            lambda tx: tx.keep(whole),
            size_bytes=append_bytes + content_bytes,
            sessions=(copy.session_id,) if copy.copied_from is None else (copy.session_id, copy.copied_from),
            records=sum(len(append.records) for append in whole.appends),
            items=len(whole.items),
        )

    async def delete(self, session_id: str, *, now_ms: int, idle_since: str | None = None) -> tuple[str, ...]:
        return await self._write(
            lambda tx: tx.delete(session_id, now_ms=now_ms, idle_since=idle_since), sessions=(session_id,)
        )


def _has_large_text(batch: Batch) -> bool:
    """Return whether a record of an append is one large text, such as a message; others are not inspected."""
    return any(
        type(value) is str and len(value) > LIGHT_CHARS_MAX
        for draft in batch.drafts
        for value in draft.data.values()
    )
