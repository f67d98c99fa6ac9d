"""PostgresStore: one schema of a database, shared by many event loops, processes and machines."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import RLock, local
from typing import Final, Self, TypeVar, cast

from windlass.adapters.journals.codec import check_id, check_number
from windlass.adapters.journals.rules import CLOSED, unavailable
from windlass.adapters.system import SystemClock
from windlass.errors import AgentError
from windlass.limits import REFUSED_STARTS_MAX
from windlass.ports.inbox import InboxNotice
from windlass.ports.journal import Appended, Batch
from windlass.ports.permits import PermitAsk, PermitGrant
from windlass.postgres.link import (
    FAILURES,
    PostgresAddress,
    PostgresLink,
    can_repeat,
    is_locked_out,
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
_LOG: Final = logging.getLogger("windlass.store")

READERS: Final = 4
"""Connections that read."""
KEEPERS: Final = 2
"""Connections for leases and permits; the second is made when the first is busy."""
CLOCKS_DIFFER_MS: Final = 2_000
"""A smaller difference between the clocks of this machine and the database is ignored: leases have room."""
WAITING_READS_MAX: Final = 4_096


def machine_ms() -> int:
    """Return the time of this machine, in milliseconds since 1970."""
    return int(SystemClock().now().timestamp() * 1_000)


class ServerTime:
    """How far the clock of the database is ahead of that of this machine."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def read(self, reads: PostgresReads) -> None:
        """Compare the clocks.

        A machine with a wrong clock would take the sessions of all others, or lose its own to them; timers
        would end early or late.
        """
        before_ms = machine_ms()
        there_ms, after_ms = reads.now_ms(), machine_ms()
        if before_ms - CLOCKS_DIFFER_MS <= there_ms <= after_ms + CLOCKS_DIFFER_MS:
            self.ahead_ms = 0
            return
        if not self.ahead_ms:
            seconds = (before_ms - there_ms) / 1_000
            _LOG.warning("the clock of this machine is %+.1f s from that of PostgreSQL: set it", seconds)
        self.ahead_ms = there_ms - (before_ms + after_ms) // 2


class PostgresStore(SqlStore[PostgresTransaction, PostgresReads]):
    """A `Store` and `ContentStore` in PostgreSQL; concurrent writes share transactions.

    An acknowledged write survives a crash of the server, if the server has `fsync` and `synchronous_commit`
    on, as it has by default. Two connections write, four read, two keep leases and permits, and one notifies,
    made when they are first needed.
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
        self._keepers = ThreadPoolExecutor(KEEPERS, thread_name_prefix="windlass-postgres-keeper")
        """Write what waits for no session, and no session for it: leases and permits."""
        self._time = ServerTime()
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
        store = cls(parsed, key, refusals_max=refusals_max)
        try:
            # The clocks are compared.
            await store.change_token()
        except BaseException:
            await store.aclose()
            raise
        return store

    @property
    def ahead_ms(self) -> int:
        """How far the clock of the database is ahead of that of this machine; see `TimedStore`."""
        return self._time.ahead_ms

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
        return await self._submit(self._readers, lambda _, reads: look(reads))

    async def _submit(
        self, threads: ThreadPoolExecutor, look: Callable[[PostgresLink, PostgresReads], T]
    ) -> T:
        with self._lock:
            if self._is_closed:
                raise unavailable(CLOSED)
            is_reading = threads is self._readers
            # A heartbeat is never refused.
            if is_reading and self._reads_waiting >= WAITING_READS_MAX:
                raise unavailable(f"too many reads are waiting: {WAITING_READS_MAX:,}; try again")
            self._reads_waiting += 1
            reading = threads.submit(self._read_now, look, is_reading=is_reading)
            reading.add_done_callback(self._end_read)
        return await asyncio.wrap_future(reading)

    async def _keep_leases(self, work: Callable[[PostgresTransaction, PostgresReads], T]) -> T:
        """Write leases, in a transaction of their own."""

        def perform(link: PostgresLink, reads: PostgresReads) -> T:
            return work(PostgresTransaction(link, self._key, owners=self._leases), reads)

        return await self._submit(self._keepers, perform)

    def _end_read(self, _: object) -> None:
        with self._lock:
            self._reads_waiting -= 1

    async def _read_short(self, look: Callable[[PostgresReads, int | None], T | None]) -> T:
        return cast("T", await self._read(lambda reads: look(reads, None)))

    async def _search(self, look: Callable[[PostgresReads], T]) -> T:
        while await self._write(lambda tx: tx.index_words()):
            pass
        return await self._read(look)

    def _read_now(self, look: Callable[[PostgresLink, PostgresReads], T], *, is_reading: bool) -> T:
        """Run a function in one transaction; again on another connection if that was lost."""
        link, reads = self._own(is_reading=is_reading)
        failure: AgentError | None = None
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                self._writer.pause(attempt)
            try:
                link.begin(READ_ONLY if is_reading else "")
                result = look(link, reads)
                link.commit()
            except AgentError:
                link.rollback()
                raise
            except FAILURES as error:
                if is_locked_out(error):
                    link.end_standstills()
                else:
                    link.close()
                failure = translate(error, self.name)
                if not is_lost(error) and not can_repeat(error):
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

    def _own(self, *, is_reading: bool) -> tuple[PostgresLink, PostgresReads]:
        """Return the link of this thread."""
        own: tuple[PostgresLink, PostgresReads] | None = getattr(self._local, "found", None)
        if own is None:
            link = PostgresLink(self._address, is_writer=not is_reading)
            own = self._local.found = (link, PostgresReads(link, self._key))
            with self._lock:
                self._links.append(link)
        return own

    async def take_permits(self, ask: PermitAsk) -> PermitGrant:
        if not self._has_permits:
            await asyncio.to_thread(make_table, self._address)
            self._has_permits = True
        # Beside the writers: a row that all processes lock must not wait for the commit of their groups.
        return await self._submit(self._keepers, lambda link, _: take(link, self._address, ask))

    async def change_token(self) -> int:
        """Return a number that changes after every write of any process: poll it to detect writes."""

        def look(reads: PostgresReads) -> int:
            self._time.read(reads)
            return reads.change_token()

        return await self._read(look)

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
        check_id("an owner id", owner_id)
        check_number("now_ms", now_ms)
        if not self._notifier.holds(owner_id):
            # A row without a lock is a dead owner.
            await asyncio.to_thread(self._notifier.hold, owner_id)

        def renew(tx: PostgresTransaction, reads: PostgresReads) -> None:
            ahead_ms = self._time.ahead_ms
            self._time.read(reads)
            # The clock of this machine may have been set since the caller looked at it.
            tx.renew(owner_id, now_ms + self._time.ahead_ms - ahead_ms)

        # The next sweep buries the dead: a heartbeat is nothing else.
        await self._keep_leases(renew)

    async def _bury(self, now_ms: int) -> None:
        await self._keep_leases(lambda tx, _: tx.bury(now_ms))

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
        await asyncio.to_thread(self._keepers.shutdown)
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
