"""SqliteStore: one file, shared by many event loops and processes."""

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Self, TypeVar, cast, get_args

from windlass.adapters.journals.rules import CLOSED, misconfiguration, unavailable
from windlass.errors import AgentError, Corrupt
from windlass.limits import REFUSED_STARTS_MAX
from windlass.private_files import make_database
from windlass.sql.integrity import StoreKey
from windlass.sql.queries import SHORT_BYTES_MAX
from windlass.sql.statements import SqlConnection
from windlass.sql.store import SqlStore
from windlass.sqlite.files import OpenFiles
from windlass.sqlite.listing import list_unlisted
from windlass.sqlite.marks import StoreMarks
from windlass.sqlite.reads import SqliteReads
from windlass.sqlite.recorded import take_in_left
from windlass.sqlite.schema import (
    BUSY_TIMEOUT_MS,
    FAILURES,
    Connect,
    Durability,
    check_reachable,
    connect,
    file_error,
    forbidden,
    is_busy,
    prepare,
    translate,
)
from windlass.sqlite.search import BATCH_BYTES_MAX
from windlass.sqlite.spool import spool_folder
from windlass.sqlite.transaction import OwnerLocks, SqliteTransaction
from windlass.sqlite.writer import CHECKPOINT_BYTES, SqliteWriter

T = TypeVar("T")


class SqliteStore(SqlStore[SqliteTransaction, SqliteReads]):
    """A `Store` and `ContentStore` in one file.

    With durability `power`, an acknowledged write survives a crash of the machine; with `process`, a crash of
    the process. Concurrent writes share one transaction.
    """

    def __init__(
        self,
        path: Path,
        *,
        key: StoreKey,
        writing: SqlConnection,
        reading: SqliteReads,
        marks: StoreMarks,
        is_quick: bool = False,
        refusals_max: int = REFUSED_STARTS_MAX,
    ) -> None:
        self.path = path
        self.name = str(path)
        self._locks = OwnerLocks(path)
        super().__init__(self._locks, refusals_max=refusals_max)
        transaction = SqliteTransaction(writing, key, locks=self._locks, marks=marks)
        must_tend = False
        with suppress(*FAILURES):
            # Damage is reported by the requests that meet it.
            must_tend = transaction.has_unindexed_words()
        self._writer = SqliteWriter(
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
    def _open(cls, address: str | Path, durability: Durability, connect: Connect, refusals_max: int) -> Self:
        path = _check_path(address, durability)
        if not path.parent.is_dir():
            raise misconfiguration(f"the folder {path.parent} does not exist: make it first")
        connections: list[SqlConnection] = []
        marks: StoreMarks | None = None
        make_database(path)
        try:
            marks = StoreMarks(path, durability=durability)
            connections.append(connect(path))
            key = prepare(connections[0], path, durability=durability)
            list_unlisted(connections[0], key)
            connections.append(connect(path))
            writing, reads = connections[0], SqliteReads(connections[1], key)
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
            cause = file_error(error) if isinstance(error, OSError) else translate(error)
            failure = forbidden(path) or cause
            _close_all(connections, marks)
            where = "" if str(path.parent) in failure.message else f"{path}: "
            raise type(failure)(
                f"{where}{failure.message}", kind=failure.kind, retry=failure.retry
            ) from error
        except AgentError:
            _close_all(connections, marks)
            raise

    @property
    def write_problem(self) -> str | None:
        """Why nothing can be written now; see `WatchedStore`."""
        return self._writer.write_problem

    async def _write(
        self,
        work: Callable[[SqliteTransaction], T],
        *,
        size_bytes: int = 0,
        sessions: tuple[str, ...] = (),
        records: int = 0,
        items: int = 0,
    ) -> T:
        # One connection writes at a time: it needs to know nothing in advance.
        return await self._writer.do(work, size_bytes=size_bytes)

    async def retire(self, owner_id: str) -> None:
        await super().retire(owner_id)
        self._locks.drop(owner_id)

    async def delete(self, session_id: str, *, now_ms: int, idle_since: str | None = None) -> tuple[str, ...]:
        # It may be large: run in the writer thread, with a checkpoint soon after.
        return await self._write_words(
            lambda tx: tx.delete(session_id, now_ms=now_ms, idle_since=idle_since),
            size_bytes=CHECKPOINT_BYTES,
        )

    async def _search(self, look: Callable[[SqliteReads], T]) -> T:
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
        end = await self._read(lambda reads: reads.search.end_ahead())
        if end is None:
            return
        is_left = True
        while is_left:
            if self._is_closed:
                raise unavailable(CLOSED)
            is_left = await self._write_words(lambda tx: tx.index_words(end), size_bytes=BATCH_BYTES_MAX)

    async def _write_words(self, work: Callable[[SqliteTransaction], T], *, size_bytes: int) -> T:
        """Write to the search index; drop a damaged one and repeat the write."""
        try:
            return await self._writer.do(work, size_bytes=size_bytes)
        except Corrupt:
            await self._drop_words()
        return await self._writer.do(work, size_bytes=size_bytes)

    async def _drop_words(self) -> None:
        await self._writer.do(lambda tx: tx.drop_words(), size_bytes=BATCH_BYTES_MAX)

    async def change_token(self) -> int:
        """Return a number that changes after every write of any process.

        It is cheap: poll it to detect writes of other processes.
        """
        return await self._read_row(lambda reads: reads.data_version())

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

    async def _read(self, look: Callable[[SqliteReads], T]) -> T:
        """Read in a thread."""
        if self._is_closed:
            raise unavailable(CLOSED)
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._wait_and_read, look)

    async def _read_short(self, look: Callable[[SqliteReads, int | None], T | None]) -> T:
        """Read up to a number of bytes on the event loop: a switch of threads costs ten times as much.

        The thread reads if `look` returns None, because there are more, and while the connection is in use
        or the database is busy.
        """
        if self._is_closed:
            raise unavailable(CLOSED)
        if self._reading.acquire(blocking=False):
            try:
                result = look(self._reads, SHORT_BYTES_MAX)
                if result is not None:
                    return result
            except FAILURES as error:
                if not is_busy(error):
                    raise translate(error) from error
            finally:
                self._reading.release()
        return cast("T", await self._read(lambda reads: look(reads, None)))

    def _wait_and_read(self, look: Callable[[SqliteReads], T]) -> T:
        with self._reading:
            try:
                return look(self._reads)
            except FAILURES as error:
                if not is_busy(error):
                    raise translate(error) from error
            self._reads.wait_at_most(BUSY_TIMEOUT_MS)
            try:
                return look(self._reads)
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


async def open_sqlite(path: str | Path, *, durability: Durability) -> SqliteStore:
    """Open a store, and take in what recorders of dead processes left beside its file; see `open_store`."""
    store = await SqliteStore.open(path, durability=durability)
    if spool_folder(store.path).is_dir():
        try:
            await asyncio.to_thread(take_in_left, store.path, durability=durability)
        except BaseException:
            await store.aclose()
            raise
    return store


def _check_path(address: object, durability: object) -> Path:
    """Return the path of a store; Rejected if it is a folder or not a path."""
    if not isinstance(address, str | Path):
        raise misconfiguration(f"a store is opened at a path, found {type(address).__name__}")
    if durability not in get_args(Durability):
        raise misconfiguration(f"durability is {' or '.join(get_args(Durability))}, found {durability!r}")
    if str(address) == ":memory:":
        raise misconfiguration(":memory: is no file; use AgentRuntime.in_memory(), or a MemoryStore")
    path = Path(address).absolute()
    check_reachable(path)
    if path.is_dir():
        raise misconfiguration(f"{path} is a folder: name a file in it, such as {path / 'app.db'}")
    return path


def _close_all(connections: list[SqlConnection], marks: StoreMarks | None) -> None:
    for connection in connections:
        connection.close()
    if marks is not None:
        marks.close()
