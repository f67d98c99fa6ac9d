"""The recorder over the journal of an open runtime."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, cast

from pydantic_core import from_json

from windlass.errors import AgentError
from windlass.ledger.kinds import RecordingError
from windlass.ledger.spool import Durability, FileLocation, Ledger
from windlass.ledger.wall import Stamps, now_ms, random_hex
from windlass.ports.journal import Batch
from windlass.ports.recorded import NumberedRow, RunStore, by_session
from windlass.ports.store import Store
from windlass.runtime.compose import AgentRuntime
from windlass.sqlite.run_index import SqliteRunIndex
from windlass.sqlite.spool import Spool
from windlass.sqlite.store import SqliteStore
from windlass_harness.loop.events import Draft
from windlass_harness.record import Record
from windlass_protocol import JsonObject
from windlass_protocol.frozen import sealed

T = TypeVar("T")

WAIT_S: Final = 30
"""Timeout of a call to the event loop of the runtime."""
READ_RECORDS: Final = 512


class PortStore:
    """A `RunStore` on the store of a runtime; its index is in memory.

    The store is called on the event loop of the runtime; other threads wait for the result. A caller on that
    loop cannot wait, so its store must not suspend (as the store in memory).
    """

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop
        self._owner_id = f"recorder_{random_hex(16)}"
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.index = SqliteRunIndex(self._connection)

    def take_in(self, rows: Iterable[NumberedRow]) -> None:
        """Append records to the journal; existing ones are skipped."""
        for session_id, some in by_session(rows).items():
            try:
                self._wait(partial(self._append, session_id, some))
            except AgentError as error:
                raise RecordingError(str(error)) from error

    def write(self, work: Callable[[], T]) -> T:
        """Change the index in a transaction."""
        self._connection.execute("BEGIN")
        try:
            result = work()
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        return result

    def drain(self) -> None:
        """Drop an index with deleted sessions; it is rebuilt.

        Records of this store are in the journal at once.
        """
        self.write(self._forget_gone)

    def _forget_gone(self) -> None:
        self.index.prepare()
        names = self.index.sessions()
        if not self._wait(partial(self._are_there, names)):
            self.index.drop()

    async def _are_there(self, names: Iterable[str]) -> bool:
        for name in names:
            if await self._store.session(name) is None:
                return False
        return True

    def is_living(self, writer: str) -> bool:
        """Return True: writers to a store in memory live as long as the store."""
        return True

    def records(self, session_id: str) -> Iterator[Record]:
        """Return all records of a session in order."""
        after = 0
        while more := self._wait(partial(self._store.read, session_id, after=after, limit=READ_RECORDS)):
            yield from more
            after = more[-1].seq

    def last_position(self) -> int:
        """Return the position of the newest record."""
        return self._wait(self._store.last_position)

    def sessions_after(self, after: int) -> Mapping[str, int]:
        """Return the sessions with records after a position, each with its last position."""
        positions: dict[str, int] = {}
        while more := self._wait(partial(self._store.read_all, after=after, limit=READ_RECORDS)):
            positions |= {record.session_id: record.position or 0 for record in more}
            after = more[-1].position or 0
        return positions

    def close(self) -> None:
        """Close the index."""
        self._connection.close()

    async def _append(self, session_id: str, rows: Sequence[NumberedRow]) -> None:
        # Own the session for this append only: no lease to renew between two decisions.
        await self._store.enlist(self._owner_id, now_ms=now_ms())
        claim = await self._store.claim(session_id, self._owner_id, now_ms=now_ms())
        drafts = tuple(_draft(row.body) for row in rows if row.seq > claim.last_seq)
        await self._store.append(Batch(claim, claim.last_seq, drafts, is_last=True))

    def _wait(self, query: Callable[[], Coroutine[object, object, T]]) -> T:
        try:
            is_here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_here = False
        if is_here:
            return _at_once(query())
        future = asyncio.run_coroutine_threadsafe(query(), self._loop)
        try:
            return future.result(WAIT_S)
        except FutureTimeoutError:
            future.cancel()
            raise RecordingError(f"the event loop of the runtime did not answer for {WAIT_S} s") from None


@sealed
class PortLocation:
    """The store of a runtime through its ports."""

    store: Store
    loop: asyncio.AbstractEventLoop
    exports: Path | None = None
    batch_records: int = 1
    is_there: bool = True

    def spool(self) -> Spool | None:
        """Return None: records are written to the store directly."""
        return None

    def open(self) -> PortStore:
        """Open the store with an index of its own."""
        return PortStore(self.store, self.loop)


def runtime_location(runtime: AgentRuntime, *, durability: Durability) -> FileLocation | PortLocation:
    """Return the location of the journal of a runtime.

    A SQLite file is opened a second time, so that every thread can write to it, the event loop's included.
    """
    store = runtime.core.ports.store
    if isinstance(store, SqliteStore):
        return FileLocation(store.path, durability, batch_records=1)
    if store is None:
        raise RecordingError("the runtime has no journal: set one first")
    try:
        return PortLocation(store, asyncio.get_running_loop())
    except RuntimeError:
        pass
    raise RecordingError("create the recorder on the event loop of the runtime")


def hosted_ledger(runtime: AgentRuntime, *, durability: Durability, secrets: Sequence[str]) -> Ledger:
    """Return a ledger in the journal of a runtime, with the runtime's secrets."""
    if secrets:
        raise RecordingError("secrets must be registered with the runtime, not here")
    return Ledger(
        runtime_location(runtime, durability=durability), redactor=runtime.core.ports.scribe.redactor
    )


def _draft(body: bytes) -> Draft:
    type_, at, data, run_id = cast("tuple[str, str, JsonObject, str]", tuple(from_json(body)))
    return Draft(type_, at, data, run_id=run_id)


def _at_once(answer: Coroutine[object, object, T]) -> T:
    try:
        answer.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    answer.close()
    raise RecordingError(
        "the store of the runtime is asynchronous, and its event loop must not block: record "
        "in a thread, with asyncio.to_thread"
    )


ATTEMPTS_MAX: Final = 100
"""Attempts to append a record with the next free number."""

Allows = Callable[[Sequence[Record]], bool]
"""Checks all records before a new one: False or an exception skips the new record."""


class Notes:
    """Sessions without an owner: any writer may append a record."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._stamps = Stamps()

    def add(
        self, session_id: str, type_: str, *, data: JsonObject, run_id: str, allows: Allows | None = None
    ) -> None:
        """Append a record with its secrets masked; it is durable on return.

        `allows` gets exactly the records before the new one, also with concurrent writers.

        Raises:
            RecordingError: other writers were faster `ATTEMPTS_MAX` times.
            AgentError: the store refuses it.
        """
        at = self._stamps.now()
        body = self._ledger.encode(type_, at, data=data, run_id=run_id, caller_values=data)
        session_start = self._ledger.encode("session.started", at, data={}, run_id=run_id, caller_values={})
        self._ledger.ask(
            lambda store: _append(store, session_id, bodies=(session_start, body), allows=allows)
        )

    def read(self, session_id: str) -> tuple[Record, ...]:
        """Return the records of a session; none if there is no such session."""
        return self._ledger.ask(lambda store: tuple(store.records(session_id)))

    def now(self) -> str:
        """Return the current time in the format of records."""
        return self._stamps.now()

    def close(self) -> None:
        """Close the files."""
        self._ledger.close()


def _append(store: RunStore, session_id: str, *, bodies: tuple[bytes, bytes], allows: Allows | None) -> None:
    session_start, body = bodies
    expected_fields = cast("list[object]", from_json(body))
    for _ in range(ATTEMPTS_MAX):
        records = tuple(store.records(session_id))
        if allows is not None and not allows(records):
            return
        seq = len(records) + 1
        rows = [NumberedRow(session_id, seq, body)]
        if seq == 1:
            rows = [NumberedRow(session_id, 1, session_start), NumberedRow(session_id, 2, body)]
        # The store skips a number that is in use, so read back who wrote the record.
        store.take_in(rows)
        written = next((record for record in store.records(session_id) if record.seq == rows[-1].seq), None)
        if (
            written is not None
            and [written.type, written.at, written.data, written.run_id] == expected_fields
        ):
            return
    raise RecordingError(f"session {session_id} has too many concurrent writers: try again")
