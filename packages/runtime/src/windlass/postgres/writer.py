"""Writer: threads with a connection each, which group waiting requests into transactions.

A group is repeated if the database asks for that, and if the connection was lost before its commit was sent:
nothing was written then. If the connection was lost after that, the outcome is read back: PostgreSQL knows
whether a transaction has committed. Where that cannot be read, the callers get `Ambiguous`; so they do after
a crash of the server, which may give the number of a transaction that it lost to another one.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Final, TypeVar, cast

from windlass.adapters.journals.rules import CLOSED, ambiguous, store_stopped, unavailable
from windlass.postgres.link import (
    FAILURES,
    Failure,
    PostgresAddress,
    PostgresLink,
    can_repeat,
    is_locked_out,
    is_lost,
    outage_of,
    translate,
)
from windlass.postgres.notifier import Notifier
from windlass.postgres.writes import LeaseOwners, PostgresTransaction
from windlass.sql.integrity import StoreKey
from windlass.sql.jobs import Job, answer
from windlass.sql.statements import Row

_LOG: Final = logging.getLogger("windlass.store")

T = TypeVar("T")
_Job = Job[PostgresTransaction]

WRITERS: Final = 2
"""Connections that write: one collects requests while the other waits for its commit."""
GROUP_JOBS_MAX: Final = 64
"""The most requests in one transaction."""
WAITING_JOBS_MAX: Final = 16_384
ATTEMPTS_MAX: Final = 8
"""Attempts of a transaction after which its error is returned."""
GROUP_REPEATS: Final = 2
"""How often a group is repeated as a whole if the database asks for that; then each request is alone."""
PROBE_S: Final = 1.0
"""How long an idle thread waits between attempts to write while the database fails."""
PAUSES_S: Final = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Pauses before each attempt after a lost connection: about six seconds in all, as a restart may take."""

# A transaction above the snapshot is in progress, or was lost in a crash.
_OUTCOME: Final = """SELECT CASE WHEN t.number < pg_snapshot_xmax(pg_current_snapshot())
    THEN pg_xact_status(t.number) ELSE 'above' END FROM (SELECT CAST(CAST(? AS TEXT) AS XID8) AS number) t"""
# The timeline of the log changes when a replica takes over. The rest changes with a crash, after which the
# number of a lost transaction is given anew: the first process is another one, or the statistics were lost.
_SERVER: Final = """SELECT CASE WHEN pg_is_in_recovery() THEN ''
    ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END,
    CAST(pg_postmaster_start_time() AS TEXT), CAST(stats_reset AS TEXT) FROM pg_stat_bgwriter"""


class PostgresWriter:
    """Writes for any number of event loops."""

    def __init__(
        self, address: PostgresAddress, key: StoreKey, *, owners: LeaseOwners, notifier: Notifier
    ) -> None:
        self._address = address
        self._notifier = notifier
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._queued = 0
        self._closed: str | None = None
        """Why nothing is written any more."""
        self._failure: str | None = None
        """Why the last transaction was not written."""
        self._closing = Event()
        self._lock = Lock()
        self._threads = [
            Thread(target=_Hand(self, address, key, owners).run, name="windlass-postgres-writer", daemon=True)
            for _ in range(WRITERS)
        ]
        for thread in self._threads:
            thread.start()

    async def do(
        self,
        work: Callable[[PostgresTransaction], T],
        *,
        size_bytes: int = 0,
        sessions: tuple[str, ...] = (),
        records: int = 0,
        items: int = 0,
    ) -> T:
        """Run a function in a transaction; return when it is durable.

        Cancelling the wait does not stop the write.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        with self._lock:
            if self._closed is not None:
                raise store_stopped(self._closed)
            if self._queued >= WAITING_JOBS_MAX:
                raise unavailable(
                    f"too many writes are waiting: {WAITING_JOBS_MAX:,}, nothing was written: try again"
                )
            self._queued += 1
            self._queue.put(_Job(work, size_bytes, loop, future, sessions, records, items))
        return cast("T", await future)

    @property
    def write_problem(self) -> str | None:
        """Why nothing can be written now; None if writes work, or the store is closed."""
        return self._failure if self._closed in (None, CLOSED) else self._closed

    def note_outcome(self, error: Failure | None) -> None:
        """Note that a transaction was written, or that the database could not write."""
        failure = None if error is None else outage_of(error)
        if error is not None and failure is None:
            # The database works, and refused what was asked.
            return
        if failure != self._failure:
            if failure is None:
                _LOG.warning("%s is written again", self._address.name)
            else:
                _LOG.error("%s cannot be written: %s; the store tries again", self._address.name, failure)
        self._failure = failure

    def take(self) -> list[_Job] | None:
        """Return the requests of the next transaction; None if the writer was closed.

        While the database fails, it may be without requests: then an attempt to write is due.
        """
        try:
            first = self._queue.get(timeout=None if self._failure is None else PROBE_S)
        except Empty:
            return []
        if first is None:
            # For the other threads.
            self._queue.put(None)
            return None
        jobs = [first]
        with suppress(Empty):
            while len(jobs) < GROUP_JOBS_MAX:
                more = self._queue.get_nowait()
                if more is None:
                    self._queue.put(None)
                    break
                jobs.append(more)
        with self._lock:
            self._queued -= len(jobs)
        return jobs

    def tell(self, jobs: Sequence[_Job]) -> None:
        """Notify other processes of the sessions with new records or items."""
        done = [job for job in jobs if job.error is None]
        records = {job.sessions[0] for job in done if job.records}
        items = {name for job in done if job.items for name in job.sessions[-job.items :]}
        if records or items:
            self._notifier.tell(records, items)

    def pause(self, attempt: int) -> None:
        """Wait before an attempt; not while the writer is being closed."""
        self._closing.wait(PAUSES_S[min(attempt, len(PAUSES_S) - 1)])

    def abandon(self) -> None:
        """Refuse everything after a defect: callers must not wait for ever."""
        with self._lock:
            self._closed = self._closed or "the store stopped writing: open it again"
            self._queue.put(None)
        jobs: list[_Job] = []
        while (more := self.take()) is not None:
            jobs += more
        for job in jobs:
            job.error = store_stopped("the store stopped writing, nothing was written: open it again")
        answer(jobs)

    async def aclose(self) -> None:
        """Finish pending requests, then close the connections."""
        with self._lock:
            self._closed = self._closed or CLOSED
            self._queue.put(None)
        self._closing.set()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)


class _Hand:
    """One thread of the writer, with its connection."""

    def __init__(
        self, writer: PostgresWriter, address: PostgresAddress, key: StoreKey, owners: LeaseOwners
    ) -> None:
        self._writer = writer
        self._name = address.name
        self._link = PostgresLink(address, is_writer=True)
        self._transaction = PostgresTransaction(self._link, key, owners=owners)
        self._server: Row = ()
        """The timeline, the start and the loss of statistics of the server that the link is connected to."""
        self._is_down = False
        """Whether the last group could not reach the database: the next one tries once, and does not wait."""

    def run(self) -> None:
        """Write until the writer is closed."""
        jobs: list[_Job] = []
        try:
            while (group := self._writer.take()) is not None:
                if not group:
                    self._writer.note_outcome(self._attempt([]))
                    continue
                jobs = group
                self._write(jobs)
                answer(jobs)
                jobs = []
                self._writer.tell(group)
        finally:
            self._link.close()
            if jobs:
                # A defect: nothing was committed, since the connection was closed in the transaction.
                for job in jobs:
                    job.error = job.error or store_stopped(
                        "the writer of the store failed, nothing was written"
                    )
                answer(jobs)
                self._writer.abandon()

    def _write(self, jobs: list[_Job]) -> None:
        """Run jobs in one transaction, or one each if they fail together."""
        error: Failure | None = None
        for attempt in range(1 if self._is_down else ATTEMPTS_MAX):
            if is_lost(error):
                self._writer.pause(attempt)
            error = self._attempt(jobs)
            if error is None:
                self._is_down = False
                self._writer.note_outcome(None)
                return
            if is_lost(error) or is_locked_out(error) or (can_repeat(error) and attempt < GROUP_REPEATS):
                continue
            if len(jobs) > 1:
                for job in jobs:
                    self._write([job])
                return
            if not can_repeat(error):
                break
        assert error is not None, "there is an attempt"
        self._is_down = is_lost(error)
        self._writer.note_outcome(error)
        for job in jobs:
            job.error = translate(error, self._name)

    def _attempt(self, jobs: list[_Job]) -> Failure | None:
        """Run jobs in a transaction; return why nothing was written."""
        link, transaction = self._link, self._transaction
        try:
            if link.is_broken:
                self._connect()
            transaction.begin(jobs)
            for job in jobs:
                job.perform(transaction)
            # Every error of a statement is known before the commit is sent.
            link.check()
        except FAILURES as error:
            self._undo(error)
            return error
        except BaseException:
            link.close()
            raise
        try:
            link.commit()
        except FAILURES as error:
            self._undo(error)
            return self._outcome(jobs, error, transaction.number) if is_lost(error) else error
        return None

    def _connect(self) -> None:
        self._link.connect()
        [self._server] = self._link.execute(_SERVER).fetchall()
        self._link.sync()

    def _undo(self, error: Failure) -> None:
        if is_lost(error):
            self._link.close()
            return
        if is_locked_out(error):
            self._link.end_standstills()
        else:
            self._link.rollback()

    def _outcome(self, jobs: Sequence[_Job], error: Failure, number: int) -> Failure | None:
        """Ask the server for the outcome of a transaction after the answer to its COMMIT was lost.

        Returns None if it has committed, or if that cannot be known: then the callers get `Ambiguous`.
        """
        before = self._server
        for attempt in range(ATTEMPTS_MAX):
            self._writer.pause(attempt)
            try:
                self._connect()
                if self._server[0] != before[0]:
                    break
                [(status,)] = self._link.execute(_OUTCOME, (str(number),)).fetchall()
                self._link.sync()
            except FAILURES:
                self._link.close()
                continue
            if status == "committed" and self._server == before:
                return None
            if status in {"committed", None}:
                # After a crash, another transaction may have its number; None is a number too long ago.
                break
            if status == "aborted" or self._server[1] != before[1]:
                # A crash loses no transaction that has committed, nor its number; nothing outlives a process.
                return error
            # In progress: the server has not noticed yet that the connection is gone.
        for job in jobs:
            job.error = job.error or ambiguous(
                f"the connection to {self._name} was lost during a commit, which may or may not have happened"
            )
        return None
