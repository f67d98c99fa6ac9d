"""PostgresStore: one schema of a database, shared by many event loops, processes and machines."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import RLock, local
from typing import Final, Self, TypeVar, cast

from windlass.adapters.journals.rules import CLOSED, unavailable
from windlass.errors import AgentError
from windlass.limits import REFUSED_STARTS_MAX
from windlass.ports.inbox import InboxNotice
from windlass.ports.journal import Appended, Batch
from windlass.ports.permits import PermitAsk, PermitGrant
from windlass.postgres.link import (
    FAILURES,
    PostgresAddress,
    PostgresLink,
    is_lost,
    parse_address,
    translate,
)
from windlass.postgres.notifier import Notifier
from windlass.postgres.permits import make_table, take
from windlass.postgres.reads import READ_ONLY, PostgresReads
from windlass.postgres.schema import SCHEMA, prepare
from windlass.postgres.writer import ATTEMPTS_MAX, PostgresWriter
from windlass.postgres.writes import LeaseOwners, PostgresTransaction
from windlass.sql.integrity import StoreKey
from windlass.sql.store import SqlStore

T = TypeVar("T")

READERS: Final = 4
"""Connections that read."""
WAITING_READS_MAX: Final = 4_096


def machine_ms() -> int:
    """Return the time of this machine, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class PostgresStore(SqlStore[PostgresTransaction, PostgresReads]):
    """A `Store` and `ContentStore` in PostgreSQL; concurrent writes share transactions.

    An acknowledged write survives a crash of the server, if the server has `fsync` and `synchronous_commit`
    on, as it has by default. Two connections write, four read and one notifies, made when they are first
    needed.
    """

    def __init__(
        self, address: PostgresAddress, key: StoreKey, *, refusals_max: int = REFUSED_STARTS_MAX
    ) -> None:
        self._notifier = Notifier(address, key)
        self._leases = LeaseOwners(self._notifier)
        super().__init__(self._leases, refusals_max=refusals_max)
        self.name = address.name
        """The address without user and password."""
        self.public_id = key.public_id
        """The same in every process that opens this store; another store has another one."""
        self._address = address
        self._key = key
        self._writer = PostgresWriter(address, key, owners=self._leases, notifier=self._notifier)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="windlass-postgres-reader")
        self._local = local()
        self._links: list[PostgresLink] = []
        self._reads_waiting = 0
        self._lock = RLock()
        """Guards the state of reads, which several event loops share."""
        self._is_closed = False
        self._has_permits = False
        """Whether the table of permits is known to exist."""

    @classmethod
    async def open(
        cls, address: str, *, schema: str = SCHEMA, refusals_max: int = REFUSED_STARTS_MAX
    ) -> Self:
        """Open the store at an address such as `postgresql://user@host/database`; an empty one is made.

        Parameters of libpq, such as `sslmode`, `application_name` or `target_session_attrs`, are given in
        the address.

        Raises:
            Rejected: the address is not valid, the server refuses the user, or its tables are of another
                version.
            Corrupt: the row that describes the store is damaged.
            Unavailable: the database cannot be reached.
        """
        parsed = parse_address(address, schema=schema)
        key = await asyncio.to_thread(prepare, parsed)
        return cls(parsed, key, refusals_max=refusals_max)

    @property
    def write_problem(self) -> str | None:
        """Why nothing can be written now; see `WatchedStore`."""
        return self._writer.write_problem

    async def _write(
        self,
        work: Callable[[PostgresTransaction], T],
        *,
        size_bytes: int = 0,
        sessions: tuple[str, ...] = (),
        records: int = 0,
        items: int = 0,
    ) -> T:
        return await self._writer.do(
            work, size_bytes=size_bytes, sessions=sessions, records=records, items=items
        )

    async def _read(self, look: Callable[[PostgresReads], T]) -> T:
        return await self._submit(lambda _, reads: look(reads), READ_ONLY)

    async def _submit(self, look: Callable[[PostgresLink, PostgresReads], T], mode: str) -> T:
        with self._lock:
            if self._is_closed:
                raise unavailable(CLOSED)
            if self._reads_waiting >= WAITING_READS_MAX:
                raise unavailable(f"too many reads are waiting: {WAITING_READS_MAX:,}; try again")
            self._reads_waiting += 1
            reading = self._readers.submit(self._read_now, look, mode)
            reading.add_done_callback(self._end_read)
        return await asyncio.wrap_future(reading)

    def _end_read(self, _: object) -> None:
        with self._lock:
            self._reads_waiting -= 1

    async def _read_short(self, look: Callable[[PostgresReads, int | None], T | None]) -> T:
        return cast("T", await self._read(lambda reads: look(reads, None)))

    async def _search(self, look: Callable[[PostgresReads], T]) -> T:
        while await self._write(lambda tx: tx.index_words()):
            pass
        return await self._read(look)

    def _read_now(self, look: Callable[[PostgresLink, PostgresReads], T], mode: str) -> T:
        """Run a function in one transaction; again on another connection if that was lost."""
        link, reads = self._own()
        failure: AgentError | None = None
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                self._writer.pause(attempt)
            try:
                link.begin(mode)
                result = look(link, reads)
                link.commit()
            except AgentError:
                link.rollback()
                raise
            except FAILURES as error:
                link.close()
                failure = translate(error, self.name)
                if not is_lost(error):
                    break
            except BaseException:
                # A defect must not leave the transaction open: it would delay the feed over all sessions.
                link.close()
                raise
            else:
                return result
        assert failure is not None, "there is an attempt"
        # Raised outside of the handler, so that the error does not carry values.
        raise failure

    def _own(self) -> tuple[PostgresLink, PostgresReads]:
        """Return the link of this thread."""
        own: tuple[PostgresLink, PostgresReads] | None = getattr(self._local, "found", None)
        if own is None:
            link = PostgresLink(self._address)
            own = self._local.found = (link, PostgresReads(link, self._key))
            with self._lock:
                self._links.append(link)
        return own

    async def take_permits(self, ask: PermitAsk) -> PermitGrant:
        if not self._has_permits:
            await asyncio.to_thread(make_table, self._address)
            self._has_permits = True
        # Beside the writers: a row that all processes lock must not wait for the commit of their groups.
        return await self._submit(lambda link, _: take(link, self._address, ask), "")

    async def change_token(self) -> int:
        """Return a number that changes after every write of any process: poll it to detect writes."""
        return await self._read(lambda reads: reads.change_token())

    def listen(self, listener: Callable[[InboxNotice], None]) -> Callable[[], None]:
        """Call a function in this event loop when another process has written; return how to end that.

        A notification may get lost, and behind PgBouncer in transaction mode there may be none: poll as well.
        """
        loop = asyncio.get_running_loop()

        def pass_on(notice: InboxNotice) -> None:
            # A closed loop has no listeners left.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(listener, notice)

        return self._notifier.listen(pass_on)

    def open_channel(self, listener: Callable[[str], None]) -> "PostgresChannel":
        """Call a function in this event loop with each message of another process of the store.

        Behind PgBouncer in transaction mode there are none.
        """
        loop = asyncio.get_running_loop()

        def pass_on(message: str) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(listener, message)

        self._notifier.take_mail(pass_on)
        return PostgresChannel(self._notifier)

    async def append(self, batch: Batch) -> Appended:
        appended = await super().append(batch)
        if batch.is_last and batch.standing is None and not batch.drafts:
            # Claimed and left as it was: another process may have its agent.
            self._notifier.tell((), (batch.claim.session_id,))
        return appended

    def _look_at_owners(self, reads: PostgresReads) -> None:
        self._leases.note_absent(reads.absent_owners(), time.monotonic())

    async def enlist(self, owner_id: str, *, now_ms: int) -> None:
        before_ms = machine_ms()
        there_ms = await self._read(lambda reads: reads.now_ms())
        self._leases.compare_clocks(there_ms, between=(before_ms, machine_ms()))
        if not self._notifier.holds(owner_id):
            await asyncio.to_thread(self._notifier.hold, owner_id)
        await super().enlist(owner_id, now_ms=now_ms)

    async def retire(self, owner_id: str) -> None:
        await super().retire(owner_id)
        # Its sessions are free.
        self._notifier.tell((), (), is_any=True)

    async def aclose(self) -> None:
        """Finish pending writes, retire the owners of this store, and close the connections."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        with suppress(AgentError):
            for owner_id in [*self._leases.held]:
                await self.retire(owner_id)
        await self._writer.aclose()
        await asyncio.to_thread(self._notifier.close)
        await asyncio.to_thread(self._readers.shutdown)
        for link in self._links:
            await asyncio.to_thread(link.close)


class PostgresChannel:
    """The mailbox of a process: notifications on a channel of its own."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    @property
    def address(self) -> str:
        """The address of this process among those of the store."""
        return self._notifier.address

    def send(self, message: str, *, to: str | None = None) -> None:
        """Send a message to a process, or to all others."""
        self._notifier.send(message, to=to)

    def close(self) -> None:
        """Receive nothing more."""
        self._notifier.end_mail()
