"""SqliteStore: one file, shared by many event loops and processes."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Self, TypeVar, cast, get_args

from windlass.adapters.journals.codec import (
    check_id,
    check_number,
    content_ref,
    encode_batch,
    encode_post,
    encode_posts,
    encoded,
)
from windlass.adapters.journals.rules import CLOSED, document_json, misconfigured, unavailable
from windlass.adapters.journals.sqlite.archive import ArchiveTransaction
from windlass.adapters.journals.sqlite.files import OpenFiles
from windlass.adapters.journals.sqlite.integrity import StoreKey
from windlass.adapters.journals.sqlite.listing import list_unlisted
from windlass.adapters.journals.sqlite.marks import Marks
from windlass.adapters.journals.sqlite.queries import SHORT_BYTES_MAX, Reads
from windlass.adapters.journals.sqlite.schema import (
    BUSY_TIMEOUT_MS,
    FAILURES,
    Connect,
    Connection,
    Durability,
    connect,
    forbidden,
    is_busy,
    prepare,
    refused,
    translate,
)
from windlass.adapters.journals.sqlite.search import BATCH_BYTES_MAX
from windlass.adapters.journals.sqlite.transactions import CHECKPOINT_BYTES, Writer
from windlass.adapters.journals.sqlite.writes import OwnerLocks, Transaction
from windlass.errors import AgentError, Corrupt
from windlass.limits import LIGHT_CHARS_MAX, REFUSED_STARTS_MAX, SNAPSHOT_BYTES_MAX
from windlass.ports.store import (
    Appended,
    Arrivals,
    Batch,
    Claim,
    CountFilter,
    Document,
    InboxItem,
    KeptItem,
    NewRun,
    OpenRequest,
    Posted,
    RefusedStart,
    RunCounts,
    RunFilter,
    RunInfo,
    RunRow,
    SessionCopy,
    SessionFilter,
    SessionInfo,
    SessionRow,
    SettledRequest,
    StoredAppend,
    Waiting,
)
from windlass.private_files import make_database
from windlass.tools.calling import in_masking_thread
from windlass.tools.results import is_light
from windlass_harness.record import Post, Record
from windlass_protocol import ContentRef, JsonObject

T = TypeVar("T")


class SqliteStore:
    """A `Store` and `ContentStore` in one file.

    With durability `power`, an acknowledged write survives a crash of the machine; with `process`, a crash of
    the process. Concurrent writes share one transaction.
    """

    def __init__(
        self,
        path: Path,
        *,
        key: StoreKey,
        writing: Connection,
        reading: Reads,
        marks: Marks,
        is_quick: bool = False,
        refusals_max: int = REFUSED_STARTS_MAX,
    ) -> None:
        self.path = path
        self._refusals_max = refusals_max
        self._locks = OwnerLocks(path)
        transaction = self._archive = ArchiveTransaction(writing, key, locks=self._locks, marks=marks)
        must_tend = False
        with suppress(*FAILURES):
            # Damage is reported by the requests that meet it.
            must_tend = transaction.has_unindexed_words()
        self._writer = Writer(
            writing, transaction, files=OpenFiles(path), is_quick=is_quick, must_tend=must_tend
        )
        self._marks = marks
        self._reads = reading
        self._reading = Lock()
        """Guards the reading connection."""
        self._readers = ThreadPoolExecutor(1, thread_name_prefix="windlass-sqlite-reader")
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        durability: Durability = "power",
        connect: Connect = connect,
        refusals_max: int = REFUSED_STARTS_MAX,
    ) -> Self:
        """Open a store; create a missing file, migrate one of an older version.

        It keeps the newest `refusals_max` refused starts.

        Raises:
            Rejected: the folder is missing or read-only, the file is not a store, or a newer
                version wrote it.
            Corrupt: the file is damaged, or lacks writes that were acknowledged.
            Unavailable: it cannot be opened now.
        """
        return await asyncio.to_thread(cls._open, path, durability, connect, refusals_max)

    @classmethod
    def _open(cls, place: str | Path, durability: Durability, connect: Connect, refusals_max: int) -> Self:
        path = _checked(place, durability)
        if not path.parent.is_dir():
            raise misconfigured(f"the folder {path.parent} does not exist: make it first")
        connections: list[Connection] = []
        marks: Marks | None = None
        make_database(path)
        try:
            marks = Marks(path, durability=durability)
            connections.append(connect(path))
            key = prepare(connections[0], path, durability=durability)
            list_unlisted(connections[0], key)
            connections.append(connect(path))
            writing, reads = connections[0], Reads(connections[1], key)
            # The event loop reads too, and must not wait.
            reads.wait_at_most(0)
            marks.begin(writing, key)
            # Writes do not wait for the disk.
            is_quick = durability == "process"
            return cls(
                path,
                key=key,
                writing=writing,
                reading=reads,
                marks=marks,
                is_quick=is_quick,
                refusals_max=refusals_max,
            )
        except (*FAILURES, OSError) as error:
            failure = forbidden(path) or (refused(error) if isinstance(error, OSError) else translate(error))
            _close_all(connections, marks)
            where = "" if str(path.parent) in failure.message else f"{path}: "
            raise type(failure)(
                f"{where}{failure.message}", kind=failure.kind, retry=failure.retry
            ) from error
        except AgentError:
            _close_all(connections, marks)
            raise

    async def claim(self, session_id: str, owner_id: str, *, now_ms: int) -> Claim:
        check_id("a session id", session_id)
        check_number("now_ms", now_ms)
        return await self._writer.do(lambda tx: tx.claim(session_id, owner_id, now_ms=now_ms))

    async def append(self, batch: Batch) -> Appended:
        if _has_large_text(batch):
            body, posts = await in_masking_thread(lambda: (encode_batch(batch), encode_posts(batch)))
        else:
            body, posts = encode_batch(batch), encode_posts(batch)
        size_bytes = len(body)
        for one in posts:
            size_bytes += len(one.raw)
        return await self._writer.do(lambda tx: tx.append(batch, body, posts=posts), size_bytes=size_bytes)

    async def read(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        return await self._read_short(
            lambda bytes_max: self._reads.records(session_id, after=after, limit=limit, bytes_max=bytes_max)
        )

    async def milestones(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        return await self._read(lambda: self._reads.milestones(session_id, after=after, limit=limit))

    async def post(
        self, session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None = None
    ) -> Posted:
        post = Post(session_id, kind, key, body)
        encode = partial(encode_post, post, run, at="" if run is None else run.at)
        one = encode() if is_light(body) else await in_masking_thread(encode)
        return await self._writer.do(lambda tx: tx.post(one), size_bytes=len(one.raw))

    async def pending(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[InboxItem, ...]:
        return await self._read_short(
            lambda bytes_max: self._reads.pending(session_id, after=after, limit=limit, bytes_max=bytes_max)
        )

    async def arrivals(self, *, after: int) -> Arrivals:
        return await self._read(lambda: self._reads.arrivals(after))

    async def run(self, run_id: str) -> RunRow | None:
        return await self._read_row(lambda: self._reads.run(run_id))

    async def session(self, session_id: str) -> SessionRow | None:
        return await self._read_row(lambda: self._reads.session(session_id))

    async def is_deleted(self, session_id: str) -> bool:
        return await self._read(lambda: self._reads.is_deleted(session_id))

    async def sessions(self, *, after: str | None = None, limit: int = 100) -> tuple[SessionRow, ...]:
        return await self._read(lambda: self._reads.sessions(after, limit))

    async def due(
        self, *, now_ms: int, limit: int = 100, agents: Collection[str] | None = None
    ) -> tuple[str, ...]:
        check_number("now_ms", now_ms)

        def look() -> tuple[str, ...] | None:
            """Return the sessions; None if an owner has died."""
            for owner_id, beat_at_ms in self._reads.owners():
                if self._locks.is_dead(owner_id, beat_at_ms=beat_at_ms, now_ms=now_ms):
                    return None
            return self._reads.due(now_ms, limit, agents=agents)

        found = await self._read(look)
        if found is not None:
            return found
        self._remove_locks(await self._writer.do(lambda tx: tx.bury(now_ms)))
        return await self._read(lambda: self._reads.due(now_ms, limit, agents=agents))

    async def unfinished(self) -> Mapping[str, int]:
        return await self._read(self._reads.unfinished)

    async def next_wake_ms(self) -> int | None:
        return await self._read_row(self._reads.next_wake_ms)

    async def enlist(self, owner_id: str, *, now_ms: int) -> None:
        check_id("an owner id", owner_id)
        check_number("now_ms", now_ms)
        # In one transaction: a process that starts usually takes over from one that has died.
        self._remove_locks(await self._writer.do(lambda tx: tx.enlist(owner_id, now_ms)))

    async def retire(self, owner_id: str) -> None:
        await self._writer.do(lambda tx: tx.retire(owner_id))
        self._locks.drop(owner_id)

    async def read_all(self, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        return await self._read(lambda: self._reads.timeline(after, limit))

    async def last_position(self) -> int:
        return await self._read(self._reads.last_position)

    async def save(self, session_id: str, seq: int, *, state: bytes) -> None:
        if len(state) <= SNAPSHOT_BYTES_MAX:
            await self._writer.do(lambda tx: tx.save(session_id, seq, state=state), size_bytes=len(state))

    async def load(self, session_id: str) -> tuple[int, bytes] | None:
        return await self._read(lambda: self._reads.snapshot(session_id))

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        ref = content_ref(content, media_type)
        await self._writer.do(lambda tx: tx.put(ref, content, session_id=session_id), size_bytes=len(content))
        return ref

    async def get(self, ref: ContentRef) -> bytes:
        return await self._read(lambda: self._reads.content(ref.hash))

    # the index

    async def listed(
        self, wanted: SessionFilter, *, before: int | None = None, limit: int = 50
    ) -> tuple[SessionInfo, ...]:
        def look() -> tuple[SessionInfo, ...]:
            return self._reads.index.sessions(wanted, before=before, limit=limit)

        if not wanted.words:
            return await self._read(look)
        await self._index_words()
        try:
            return await self._read(look)
        except Corrupt:
            # Perhaps only the search index is damaged, or another process has just dropped it.
            await self._drop_words()
        await self._index_words()
        return await self._read(look)

    async def _index_words(self) -> None:
        """Add the words of all that is stored now to the search index.

        Each transaction is short, so that other writes wait for one of them at most.
        """
        end = await self._read(self._reads.search.end_ahead)
        if end is None:
            return
        is_left = True
        while is_left:
            if self._is_closed:
                raise unavailable(CLOSED)
            is_left = await self._write_words(lambda tx: tx.index_words(end), size_bytes=BATCH_BYTES_MAX)

    async def _write_words(self, work: Callable[[Transaction], T], *, size_bytes: int) -> T:
        """Write to the search index; drop a damaged one and repeat the write."""
        try:
            return await self._writer.do(work, size_bytes=size_bytes)
        except Corrupt:
            await self._drop_words()
        return await self._writer.do(work, size_bytes=size_bytes)

    async def _drop_words(self) -> None:
        await self._writer.do(lambda tx: tx.drop_words(), size_bytes=BATCH_BYTES_MAX)

    async def listed_session(self, session_id: str) -> SessionInfo | None:
        return await self._read_row(lambda: self._reads.index.session(session_id))

    async def listed_runs(
        self, wanted: RunFilter, *, before: int | None = None, limit: int = 50
    ) -> tuple[RunInfo, ...]:
        return await self._read(lambda: self._reads.index.runs(wanted, before=before, limit=limit))

    async def listed_requests(
        self, *, owner: str | None = None, after: int = 0, limit: int = 50
    ) -> tuple[OpenRequest, ...]:
        return await self._read(lambda: self._reads.index.requests(owner, after=after, limit=limit))

    async def find_request(self, request_id: str) -> OpenRequest | SettledRequest | None:
        return await self._read(lambda: self._reads.index.request(request_id))

    async def record_refusal(self, refused: RefusedStart) -> None:
        await self._writer.do(lambda tx: tx.refuse(refused, most=self._refusals_max))

    async def listed_refusals(
        self,
        *,
        owner: str | None = None,
        agent_id: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> tuple[RefusedStart, ...]:
        return await self._read(
            lambda: self._reads.index.refusals(owner, agent_id, before=before, limit=limit)
        )

    async def put_document(self, document: Document) -> None:
        body = document_json(document)
        await self._writer.do(lambda tx: tx.put_document(document, body))

    async def drop_document(self, document: Document) -> None:
        await self._writer.do(lambda tx: tx.drop_document(document))

    async def document(self, kind: str, name: str) -> Document | None:
        found = await self._read(lambda: self._reads.documents("kind = ? AND name = ?", (kind, name)))
        return found[0] if found else None

    async def documents(
        self, kind: str, *, after: str | None = None, limit: int = 100
    ) -> tuple[Document, ...]:
        where = "kind = ? AND name > ? ORDER BY name LIMIT ?"
        return await self._read(lambda: self._reads.documents(where, (kind, after or "", limit)))

    async def due_documents(self, kind: str, *, now_ms: int, limit: int = 100) -> tuple[Document, ...]:
        where = "kind = ? AND due_at_ms <= ? ORDER BY due_at_ms, name LIMIT ?"
        return await self._read(lambda: self._reads.documents(where, (kind, now_ms, limit)))

    async def next_document_ms(self, kind: str) -> int | None:
        return await self._read_row(lambda: self._reads.next_document_ms(kind))

    async def counted_runs(self, wanted: CountFilter) -> RunCounts:
        return await self._read(lambda: self._reads.counts.runs(wanted))

    async def waiting(self, *, owner: str | None = None, agent_id: str | None = None) -> Waiting:
        return await self._read(lambda: self._reads.counts.waiting(owner, agent_id))

    # whole sessions

    async def appends(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[StoredAppend, ...]:
        return await self._read(lambda: self._reads.appends(session_id, after=after, limit=limit))

    async def kept_items(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[KeptItem, ...]:
        return await self._read(lambda: self._reads.index.items(session_id, after=after, limit=limit))

    async def contents_of(self, session_id: str) -> tuple[ContentRef, ...]:
        return await self._read(lambda: self._reads.index.contents(session_id))

    async def keep(self, copy: SessionCopy) -> None:
        whole = await asyncio.to_thread(encoded, copy)
        size_bytes = sum(len(one.body) for one in whole.appends) + sum(
            len(one.content) for one in whole.contents
        )
        await self._writer.do(lambda _: self._archive.keep(whole), size_bytes=size_bytes)

    async def delete(self, session_id: str, *, now_ms: int) -> tuple[str, ...]:
        # It may be large: run in the writer thread, with a checkpoint soon after.
        return await self._write_words(
            lambda _: self._archive.delete(session_id, now_ms=now_ms), size_bytes=CHECKPOINT_BYTES
        )

    async def change_token(self) -> int:
        """Return a number that changes after every write of any process.

        It is cheap: poll it to detect writes of other processes.
        """
        return await self._read_row(self._reads.data_version)

    async def aclose(self) -> None:
        """Finish pending writes, retire the owners of this store, and close the file."""
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(AgentError):
            for owner_id in self._locks.owners():
                await self.retire(owner_id)
        await asyncio.to_thread(self._readers.shutdown)
        with self._reading:
            self._reads.close()
        await self._writer.aclose()
        self._marks.close()
        self._locks.close()

    async def _read(self, look: Callable[[], T]) -> T:
        """Read in a thread."""
        if self._is_closed:
            raise unavailable(CLOSED)
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._wait_and_read, look)

    async def _read_short(self, look: Callable[[int | None], T | None]) -> T:
        """Read up to a number of bytes on the event loop: a switch of threads costs ten times as much.

        The thread reads if `look` returns None, because there are more, and while the connection is in use
        or the database is busy.
        """
        if self._is_closed:
            raise unavailable(CLOSED)
        if self._reading.acquire(blocking=False):
            try:
                found = look(SHORT_BYTES_MAX)
                if found is not None:
                    return found
            except FAILURES as error:
                if not is_busy(error):
                    raise translate(error) from error
            finally:
                self._reading.release()
        return cast("T", await self._read(lambda: look(None)))

    async def _read_row(self, look: Callable[[], T]) -> T:
        """Read a row that an index finds, or None: it is short."""
        [found] = await self._read_short(lambda _: (look(),))
        return found

    def _wait_and_read(self, look: Callable[[], T]) -> T:
        with self._reading:
            try:
                return look()
            except FAILURES as error:
                if not is_busy(error):
                    raise translate(error) from error
            self._reads.wait_at_most(BUSY_TIMEOUT_MS)
            try:
                return look()
            except FAILURES as error:
                raise translate(error) from error
            finally:
                self._reads.wait_at_most(0)

    def _remove_locks(self, dead: Collection[str]) -> None:
        """Remove the lock files of dead owners, after their rows.

        Without its lock file, an owner with a row would be detected only by its lease.
        """
        for owner_id in dead:
            self._locks.remove_lock(owner_id)


def _checked(place: object, durability: object) -> Path:
    """Return the path of a store; Rejected if it is a folder or not a path."""
    if not isinstance(place, str | Path):
        raise misconfigured(f"a store is opened at a path, found {type(place).__name__}")
    if durability not in get_args(Durability):
        raise misconfigured(f"durability is {' or '.join(get_args(Durability))}, found {durability!r}")
    if str(place) == ":memory:":
        raise misconfigured(":memory: is no file; use AgentRuntime.in_memory(), or a MemoryStore")
    path = Path(place).absolute()
    if path.is_dir():
        raise misconfigured(f"{path} is a folder: name a file in it, such as {path / 'app.db'}")
    return path


def _has_large_text(batch: Batch) -> bool:
    """Return whether a record of an append is one large text, such as a message; others are not inspected."""
    return any(
        type(value) is str and len(value) > LIGHT_CHARS_MAX
        for draft in batch.drafts
        for value in draft.data.values()
    )


def _close_all(connections: list[Connection], marks: Marks | None) -> None:
    for connection in connections:
        connection.close()
    if marks is not None:
        marks.close()
