"""The recorder over the journal of an open runtime."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, cast

from pydantic_core import from_json

from windlass.adapters.journals.sqlite.queries import RunIndex
from windlass.adapters.journals.sqlite.spool import Spool
from windlass.adapters.journals.sqlite.store import SqliteStore
from windlass.adapters.wall import Stamps, now_ms, random_hex
from windlass.errors import AgentError
from windlass.ledger.kinds import RecordingError
from windlass.ledger.spool import Durability, FilePlace, Ledger
from windlass.ports.recorded import NumberedRow, RunStore, by_session
from windlass.ports.store import Batch, Store
from windlass.runtime.core import CoreRuntime
from windlass_harness.loop.events import Draft
from windlass_harness.record import Record
from windlass_protocol import JsonObject

T = TypeVar("T")

WAIT_S: Final = 30
"""How long a call waits for the event loop of the runtime."""
READ_RECORDS: Final = 512


class PortStore:
    """A `RunStore` on the store of a runtime; its index is in memory.

    The store is asked on the event loop of the runtime: other threads wait for it; a caller on that loop
    cannot, so there the store has to answer at once, as the one in memory does.
    """

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop
        self._owner_id = f"recorder_{random_hex(16)}"
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.index = RunIndex(self._connection)

    def take_in(self, rows: Iterable[NumberedRow]) -> None:
        """Bring records into the journal; those that are there already are left out."""
        for session_id, some in by_session(rows).items():
            try:
                self._wait(partial(self._append, session_id, some))
            except AgentError as error:
                raise RecordingError(str(error)) from error

    def write(self, work: Callable[[], T]) -> T:
        """Do something with the index, all of it or nothing."""
        self._connection.execute("BEGIN")
        try:
            result = work()
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        return result

    def drain(self) -> None:
        """Let go of an index that tells of sessions which are gone; it is made anew.

        What is recorded here is in the journal at once.
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
        """Tell whether somebody who records is alive; in memory everybody is."""
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

    def changed(self, after: int) -> Mapping[str, int]:
        """Return the sessions with records behind a position, and where each ends."""
        found: dict[str, int] = {}
        while more := self._wait(partial(self._store.read_all, after=after, limit=READ_RECORDS)):
            found |= {record.session_id: record.position or 0 for record in more}
            after = more[-1].position or 0
        return found

    def close(self) -> None:
        """Let go of the index."""
        self._connection.close()

    async def _append(self, session_id: str, rows: Sequence[NumberedRow]) -> None:
        # Owned only for the moment: nobody has to keep up a lease between two decisions.
        await self._store.enlist(self._owner_id, now_ms=now_ms())
        claim = await self._store.claim(session_id, self._owner_id, now_ms=now_ms())
        drafts = tuple(_draft(row.body) for row in rows if row.seq > claim.last_seq)
        await self._store.append(Batch(claim, claim.last_seq, drafts, is_last=True))

    def _wait(self, ask: Callable[[], Coroutine[object, object, T]]) -> T:
        try:
            is_here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_here = False
        if is_here:
            return _at_once(ask())
        future = asyncio.run_coroutine_threadsafe(ask(), self._loop)
        try:
            return future.result(WAIT_S)
        except FutureTimeoutError:
            future.cancel()
            raise RecordingError(f"the event loop of the runtime did not answer for {WAIT_S} s") from None


@dataclass(frozen=True, slots=True)
class PortPlace:
    """The store of a runtime, whatever it is."""

    store: Store
    loop: asyncio.AbstractEventLoop
    exports: Path | None = None
    batch_records: int = 1
    is_there: bool = True

    def spool(self) -> Spool | None:
        """Return None: records go right into the store."""
        return None

    def open(self) -> PortStore:
        """Open the store with an index of its own."""
        return PortStore(self.store, self.loop)


def hosted_place(runtime: CoreRuntime, *, durability: Durability) -> FilePlace | PortPlace:
    """Return where the journal of a runtime is.

    A SQLite file is opened once more, so that any thread can write to it, also that of the event loop.
    """
    store = runtime.ports.store
    if isinstance(store, SqliteStore):
        return FilePlace(store.path, durability, batch_records=1)
    if store is None:
        raise RecordingError("the runtime has no journal: give it one first")
    try:
        return PortPlace(store, asyncio.get_running_loop())
    except RuntimeError:
        pass
    raise RecordingError("make the recorder where the runtime is used: on its event loop")


def hosted_ledger(runtime: CoreRuntime, *, durability: Durability, secrets: Sequence[str]) -> Ledger:
    """Return the ledger of the journal of a runtime, which knows the secrets."""
    if secrets:
        raise RecordingError("secrets are registered with the runtime: leave them out here")
    return Ledger(hosted_place(runtime, durability=durability), redactor=runtime.ports.scribe.redactor)


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
        "the store of the runtime answers later, and its event loop cannot wait: record in a thread, with "
        "asyncio.to_thread"
    )


ATTEMPTS_MAX: Final = 100
"""How often a record is numbered anew because somebody else wrote first."""

Allows = Callable[[Sequence[Record]], bool]
"""Looks at all records before a new one: False leaves it out, and what it raises does too."""


class Notes:
    """Sessions that nobody owns: anybody may add a record to their end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._stamps = Stamps()

    def add(
        self, session_id: str, type_: str, *, data: JsonObject, run_id: str, allows: Allows | None = None
    ) -> None:
        """Add a record, without secrets; it is durable when this returns.

        What `allows` has seen is all that is before the record, whoever else writes at the same time.

        Raises:
            RecordingError: others write all the time.
            AgentError: the store does not take it.
        """
        at = self._stamps.now()
        body = self._ledger.encode(type_, at, data=data, run_id=run_id, said=data)
        started = self._ledger.encode("session.started", at, data={}, run_id=run_id, said={})
        self._ledger.ask(lambda store: _append(store, session_id, bodies=(started, body), allows=allows))

    def read(self, session_id: str) -> tuple[Record, ...]:
        """Return the records of a session; none if there is no such session."""
        return self._ledger.ask(lambda store: tuple(store.records(session_id)))

    def now(self) -> str:
        """Return the time, as records have it."""
        return self._stamps.now()

    def close(self) -> None:
        """Let go of the files."""
        self._ledger.close()


def _append(store: RunStore, session_id: str, *, bodies: tuple[bytes, bytes], allows: Allows | None) -> None:
    started, body = bodies
    ours = cast("list[object]", from_json(body))
    for _ in range(ATTEMPTS_MAX):
        known = tuple(store.records(session_id))
        if allows is not None and not allows(known):
            return
        seq = len(known) + 1
        rows = [NumberedRow(session_id, seq, body)]
        if seq == 1:
            rows = [NumberedRow(session_id, 1, started), NumberedRow(session_id, 2, body)]
        # A number that somebody else has by now is passed over, so whoever wrote it is looked up.
        store.take_in(rows)
        found = next((one for one in store.records(session_id) if one.seq == rows[-1].seq), None)
        if found is not None and [found.type, found.at, found.data, found.run_id] == ours:
            return
    raise RecordingError(f"session {session_id} is being written to all the time: try again")
