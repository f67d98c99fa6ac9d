"""Writer: groups waiting requests into one transaction and answers after the commit.

A thread writes, because the disk is slow. An event loop passes it the requests of one turn together. With
durability `process`, the event loop writes small requests itself if no other connection is writing:
switching threads would cost more than the write. While no request arrives, the thread tends the search index.

After a failure of the disk, or when another process keeps the database locked, the thread tries to write
again, with every request and with growing pauses. Its first commit takes the place of a failed one in the
log, so a commit in doubt is settled: it was not written, and is repeated. Until then requests are refused,
and the store says why (`Writer.write_problem`).
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from errno import ENOENT
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Final, TypeVar, cast

from windlass.adapters.journals.rules import CLOSED, ambiguous, store_stopped, unavailable
from windlass.errors import AgentError, Ambiguous, Corrupt, Unavailable
from windlass.sql.jobs import Job, answer, settle
from windlass.sql.statements import SqlConnection
from windlass.sqlite.files import OpenFiles
from windlass.sqlite.marks import StoreState
from windlass.sqlite.schema import (
    BUSY_TIMEOUT_MS,
    FAILURES,
    PAGE_BYTES,
    Failure,
    cause_of,
    is_busy,
    is_disk_failure,
    is_of_one,
    primary_code,
    translate,
    wait_at_most,
)
from windlass.sqlite.search import BATCH_BYTES_MAX
from windlass.sqlite.transaction import SqliteTransaction

T = TypeVar("T")

GROUP_JOBS_MAX: Final = 256
"""The most requests in one transaction."""
WAITING_JOBS_MAX: Final = 16_384
QUICK_JOBS_MAX: Final = 64
"""Requests that an event loop writes in one turn."""
QUICK_BYTES_MAX: Final = 65_536
"""Largest request that an event loop writes itself."""
CHECKPOINT_BYTES: Final = 1_048_576
"""Log bytes between checkpoints. A short log is soon overwritten from its start, and the disk syncs a file
faster that does not grow."""
IDLE_S: Final = 1.0
"""How long nothing must be written before the thread tends the search index."""
CLOSE_PIECES_MAX: Final = 1_024
"""Pieces of work on the search index for which closing waits; the next process does the rest."""
JOB_PAGES: Final = 4
"""Approximate pages that a small request changes."""
LOCKED: Final = "another process keeps the database locked (SQLITE_BUSY)"
LOCKED_AGAIN_MS: Final = 1_000
"""How long a write waits for the lock after one has waited in vain, so that callers soon know."""
RECOVER_S_MIN: Final = 0.1
RECOVER_S_MAX: Final = 5.0
"""The first and the longest pause between attempts to write after a failure."""

_LOG: Final = logging.getLogger("windlass.store")


class SqliteWriter:
    """A thread with the writing connection, shared by any number of event loops.

    With `is_quick`, small requests are written by the calling event loop.
    """

    def __init__(
        self,
        connection: SqlConnection,
        transaction: SqliteTransaction,
        *,
        files: OpenFiles,
        is_quick: bool = False,
        must_tend: bool = False,
    ) -> None:
        self._connection = connection
        self._transaction = transaction
        self._files = files
        self._path = files.path
        self._is_quick = is_quick
        self._obstacle: str | None = None
        """Why nothing could be written. `_hands` guards it, and the three attributes after it."""
        self._must_repair = False
        """Whether the log may not be on the disk as it reads: see `write_again`."""
        self._uncertain_state: StoreState | None = None
        """The state of the store after the commit that is in doubt."""
        self._recover_s = RECOVER_S_MIN
        self._queue: SimpleQueue[list[Job[SqliteTransaction]] | None] = SimpleQueue()
        """Requests for the thread; those of one turn of an event loop are one entry."""
        self._queued = 0
        """The number of requests in the queue and in `_left`."""
        self._left: list[Job[SqliteTransaction]] = []
        """Requests that the thread has taken from the queue, for its next transaction."""
        self._gathered: list[Job[SqliteTransaction]] = []
        """Requests of one turn of an event loop. In its next turn they are written, or passed to the thread.

        If the first request of a turn woke the thread, it would compete with the loop for the interpreter
        lock at each statement, and the other requests of the turn would need another transaction.
        """
        self._turn: asyncio.AbstractEventLoop | None = None
        """The event loop that has written in its current turn."""
        self._closed: str | None = None
        self._lock = Lock()
        self._hands = Lock()
        """Guards the connection."""
        self._logged_bytes = 0
        self._must_tend = must_tend
        """Whether the search index may need work. Only the thread uses this and what follows."""
        self._seen_bytes = 0
        """The value of `_logged_bytes` when the thread last waited: it differs after a write."""
        self._pause_s = IDLE_S
        self._patience_ms = BUSY_TIMEOUT_MS
        """How long the connection waits for the lock. Only who has `_hands` uses it."""
        if is_quick:
            self._wait_at_most(0)
        self._thread = Thread(target=self._run, name="windlass-sqlite-writer", daemon=True)
        self._thread.start()

    @property
    def write_problem(self) -> str | None:
        """Why nothing can be written now; None if writes work, or the store is closed."""
        return self._obstacle if self._closed in (None, CLOSED) else self._closed

    async def do(self, work: Callable[[SqliteTransaction], T], *, size_bytes: int = 0) -> T:
        """Run a function in a transaction; return when it is durable.

        Cancelling the wait does not stop the write.
        """
        loop = asyncio.get_running_loop()
        job = Job(work, size_bytes, loop)
        if self._is_quick and self._write_at_once(job, loop):
            if job.error is not None:
                raise job.error
            return cast("T", job.result)
        job.future = future = loop.create_future()
        with self._lock:
            if self._closed is not None:
                raise self._uncertain_error() if job.is_in_doubt else store_stopped(self._closed)
            if self._queued + len(self._gathered) >= WAITING_JOBS_MAX and not job.is_in_doubt:
                raise unavailable(f"too many writes are waiting: {WAITING_JOBS_MAX:,}, nothing was written")
            if self._gathered and self._gathered[0].loop is not loop:
                # The other loop may have ended.
                self._hand_over()
            if self._is_quick and (job.size_bytes > QUICK_BYTES_MAX or len(self._gathered) >= QUICK_JOBS_MAX):
                self._queue_jobs([job])
            else:
                if not self._gathered:
                    loop.call_soon(self._end_gathering, loop)
                self._gathered.append(job)
                if len(self._gathered) >= GROUP_JOBS_MAX:
                    self._hand_over()
        return cast("T", await future)

    def _write_at_once(self, job: Job[SqliteTransaction], loop: asyncio.AbstractEventLoop) -> bool:
        """Write the first request of a turn at once; later ones of the turn share a transaction."""
        with self._lock:
            is_first = (
                self._turn is not loop
                and not self._gathered
                and self._closed is None
                and self._obstacle is None
            )
            is_small = job.size_bytes <= QUICK_BYTES_MAX and self._logged_bytes < CHECKPOINT_BYTES
            if not is_first or not is_small or not self._hands.acquire(blocking=False):
                return False
            self._turn = loop
        loop.call_soon(self._end_turn)
        try:
            return self._write([job])
        except BaseException as error:
            self._abandon([job])
            if not isinstance(error, Exception):
                raise
            # The caller gets an ambiguous error; the log gets the cause.
            message = "the writer of the store failed"
            loop.call_exception_handler({"message": message, "exception": error})
            return True
        finally:
            self._hands.release()

    def _end_turn(self) -> None:
        self._turn = None

    async def aclose(self) -> None:
        """Finish pending requests, then close the database."""
        with self._lock:
            self._closed = self._closed or CLOSED
            self._hand_over()
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        is_open, jobs = True, list[Job[SqliteTransaction]]()
        try:
            while is_open:
                jobs, is_open = self._take()
                with self._hands:
                    self._wait_at_most(BUSY_TIMEOUT_MS if self._obstacle is None else LOCKED_AGAIN_MS)
                    if jobs:
                        self._serve(jobs)
                        answer(jobs)
                        self._pause_s = IDLE_S
                    elif is_open and self._obstacle is not None:
                        self._recover()
                    elif is_open:
                        self._tend()
                    if self._obstacle is None:
                        self._tidy()
                        if not is_open:
                            self._clean()
                    self._seen_bytes = self._logged_bytes
                    if self._is_quick:
                        self._wait_at_most(0)
                jobs = []
        finally:
            # Reached only after a defect; callers must not wait for ever.
            self._abandon(jobs + self._left)
            self._connection.close()

    def _wait_at_most(self, timeout_ms: int) -> None:
        """Set how long the connection waits for the lock of the database."""
        if timeout_ms != self._patience_ms:
            self._patience_ms = timeout_ms
            wait_at_most(self._connection, timeout_ms)

    def _end_gathering(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write the requests of the last turn, or pass them to the thread if that could take long."""
        with self._lock:
            jobs = self._gathered
            if not jobs or jobs[0].loop is not loop:
                return
            is_free = (
                self._is_quick
                and self._obstacle is None
                and self._logged_bytes < CHECKPOINT_BYTES
                and self._hands.acquire(blocking=False)
            )
            if not is_free:
                self._hand_over()
                return
            self._gathered = []
        try:
            is_done = self._write(jobs)
        except BaseException:
            self._abandon(jobs)
            raise
        finally:
            self._hands.release()
        with self._lock:
            if not is_done and self._closed is None:
                self._queue_jobs(jobs)
                return
        for job in jobs:
            self._fail_uncertain(job)
        settle(jobs)

    def _hand_over(self) -> None:
        """Pass the gathered jobs to the thread."""
        if self._gathered:
            jobs, self._gathered = self._gathered, []
            self._queue_jobs(jobs)

    def _queue_jobs(self, jobs: list[Job[SqliteTransaction]]) -> None:
        """Queue jobs for the thread; the caller holds the lock."""
        self._queued += len(jobs)
        self._queue.put(jobs)

    def _abandon(self, jobs: list[Job[SqliteTransaction]]) -> None:
        with self._lock:
            self._closed = self._closed or "the store stopped writing: open it again"
            self._hand_over()
        with suppress(Empty):
            while True:
                jobs += self._queue.get_nowait() or ()
        for job in jobs:
            job.error = job.error or ambiguous("the writer stopped: it may or may not have been written")
        answer(jobs)

    def _take(self) -> tuple[list[Job[SqliteTransaction]], bool]:
        """Return the jobs of the next transaction, and whether more may follow."""
        jobs, more = self._left, [] if self._left else self._wait()
        with suppress(Empty):
            while more is not None:
                jobs += more
                if len(jobs) >= GROUP_JOBS_MAX:
                    break
                more = self._queue.get_nowait()
        # A queue that has ended leaves no rest: nothing is taken from it beyond the limit.
        jobs, self._left = jobs[:GROUP_JOBS_MAX], jobs[GROUP_JOBS_MAX:]
        with self._lock:
            self._queued -= len(jobs)
        return jobs, more is not None

    def _wait(self) -> list[Job[SqliteTransaction]] | None:
        """Return the next entry of the queue; an empty one if the thread has work of its own."""
        if self._obstacle is not None:
            try:
                return self._queue.get(timeout=self._recover_s)
            except Empty:
                return []
        while self._must_tend:
            with suppress(Empty):
                return self._queue.get(timeout=self._pause_s)
            if self._logged_bytes == self._seen_bytes:
                return []
            # The event loop has written itself.
            self._seen_bytes, self._pause_s = self._logged_bytes, IDLE_S
        return self._queue.get()

    def _tend(self) -> None:
        """Do a piece of work on the search index; the next one follows at once if nothing is written."""
        self._must_tend, self._pause_s = self._is_left(lambda tx: tx.tend()), 0.0

    def _clean(self) -> None:
        """Remove deleted words from the search index before the database is closed."""
        with suppress(*FAILURES):
            pieces = CLOSE_PIECES_MAX if self._transaction.has_deleted_words() else 0
            while pieces and self._obstacle is None and self._is_left(lambda tx: tx.clean()):
                pieces -= 1

    def _is_left(self, work: Callable[[SqliteTransaction], bool]) -> bool:
        """Return whether a piece of work on the search index has left more to do; False if it failed.

        A damaged index is dropped: the next search makes it anew.
        """
        job = Job(work, BATCH_BYTES_MAX, None)
        self._write([job])
        if isinstance(job.error, Corrupt):
            self._write([Job(lambda tx: tx.drop_words(), BATCH_BYTES_MAX, None)])
        return job.error is None and job.result is True

    def _serve(self, jobs: Sequence[Job[SqliteTransaction]]) -> None:
        """Run jobs in the thread. After a failure of the disk, those in doubt are run once more."""
        waiting = jobs
        for _ in range(2):
            if self._obstacle is not None:
                is_reached = self._recover()
                if is_reached is None:
                    break
                if is_reached:
                    # This commit, or those of other processes.
                    waiting = [job for job in waiting if not self._fail_uncertain(job)]
            is_done = self._write(waiting)
            waiting = [job for job in waiting if job.is_in_doubt]
            if not waiting:
                if not is_done:
                    self._note_obstacle(LOCKED)
                return
        for job in waiting:
            if not self._fail_uncertain(job):
                job.error = self._refusal()

    def _fail_uncertain(self, job: Job[SqliteTransaction]) -> bool:
        """Give a job that may have been written the error that says so; return whether it is one."""
        if job.is_in_doubt:
            job.error = self._uncertain_error()
        return job.is_in_doubt

    def _uncertain_error(self) -> Ambiguous:
        cause = self._obstacle or "the store can be written again"
        return ambiguous(f"the commit failed ({cause}): it may or may not have been written, read it back")

    def _refusal(self) -> Unavailable:
        return unavailable(
            f"the store cannot be written ({self._obstacle}), nothing was written: the store tries again "
            "until it can be"
        )

    def _recover(self) -> bool | None:
        """Try to write after a failure.

        Returns whether the commit in doubt may be there, which is known if only this process writes; None if
        it fails again.
        """
        try:
            missing = self._files.missing
            if missing is not None:
                raise FileNotFoundError(ENOENT, f"{missing} was removed or replaced")
            log = self._files.log if self._must_repair else None
            is_reached = self._transaction.replace_failed(self._uncertain_state, log=log)
            self._transaction.checkpoint()
        except (*FAILURES, OSError, AgentError) as error:
            with suppress(sqlite3.Error):
                self._transaction.rollback()
            # A later attempt settles nothing: the callers have their errors.
            self._uncertain_state = None
            if isinstance(error, FAILURES) and is_busy(error):
                self._note_obstacle(LOCKED)
            else:
                self._note_disk_failure(error)
            self._recover_s = min(2 * self._recover_s, RECOVER_S_MAX)
            return None
        _LOG.warning("%s is written again", self._path)
        self._obstacle, self._uncertain_state, self._must_repair = None, None, False
        self._logged_bytes, self._recover_s = 0, RECOVER_S_MIN
        return is_reached

    def _note_disk_failure(self, error: Failure | OSError | AgentError, *, is_in_doubt: bool = False) -> None:
        """Note that the disk failed, and why."""
        is_full = isinstance(error, sqlite3.Error) and primary_code(error) == sqlite3.SQLITE_FULL
        self._must_repair = self._must_repair or not is_full
        cause = error.message if isinstance(error, AgentError) else cause_of(error)
        if is_in_doubt:
            self._uncertain_state = self._transaction.state
        self._note_obstacle(cause)

    def _note_obstacle(self, cause: str) -> None:
        """Note why nothing can be written; the thread tries again."""
        if cause == self._obstacle:
            return
        _LOG.error("%s cannot be written: %s; the store tries again until it can be", self._path, cause)
        if self._obstacle is None:
            # An event loop may have met it, and the thread may wait without a limit.
            self._queue.put([])
        self._obstacle = cause

    def _write(self, jobs: Sequence[Job[SqliteTransaction]]) -> bool:
        """Run jobs, in one transaction if none fails.

        False if they are to be run by the thread: the database stays busy, or their commit is in doubt.
        """
        if self._closed not in (None, CLOSED):
            # The disk failed while they waited.
            for job in jobs:
                job.error = store_stopped(self._closed)
            return True
        for job in jobs:
            self._logged_bytes += job.size_bytes + JOB_PAGES * PAGE_BYTES
        waiting = jobs
        while waiting:
            try:
                self._transaction.begin()
            except FAILURES as error:
                self._fail(waiting, error)
                return not is_busy(error)
            try:
                waiting = self._attempt(waiting)
                if any(job.is_in_doubt for job in jobs):
                    return False
            except BaseException:
                # A transaction that stays open would block every other process.
                with suppress(sqlite3.Error):
                    self._transaction.rollback()
                raise
        return True

    def _attempt(self, jobs: Sequence[Job[SqliteTransaction]]) -> list[Job[SqliteTransaction]]:
        """Run jobs in the transaction; return those to repeat without a failed one."""
        job = None
        try:
            for job in jobs:
                job.perform(self._transaction)
            job = None
            self._transaction.finish()
        except FAILURES as error:
            if job is None or not is_of_one(error):
                self._fail(jobs, error)
                return []
            self._fail([job], error)
            return [other for other in jobs if other is not job]
        self._commit(jobs)
        return []

    def _fail(self, jobs: Sequence[Job[SqliteTransaction]], error: Failure) -> None:
        """Roll back: nothing was written."""
        with suppress(sqlite3.Error):
            self._transaction.rollback()
        for job in jobs:
            job.error = translate(error)
        if is_disk_failure(error):
            self._note_disk_failure(error)

    def _commit(self, jobs: Sequence[Job[SqliteTransaction]]) -> None:
        try:
            missing = self._files.missing
        except OSError as error:
            with suppress(sqlite3.Error):
                self._transaction.rollback()
            self._note_disk_failure(error)
            for job in jobs:
                job.error = job.error or self._refusal()
            return
        if missing is not None:
            self._give_up(jobs, missing)
            return
        try:
            self._transaction.commit()
        except sqlite3.Error as error:
            failure = translate(error, is_commit=True)
            is_in_doubt = isinstance(failure, Ambiguous)
            self._note_disk_failure(error, is_in_doubt=is_in_doubt)
            with suppress(sqlite3.Error):
                self._transaction.rollback()
            for job in jobs:
                # A refused job wrote nothing.
                if job.error is None and is_in_doubt:
                    job.is_in_doubt = True
                elif job.error is None:
                    job.error = failure

    def _give_up(self, jobs: Sequence[Job[SqliteTransaction]], missing: str) -> None:
        """Stop writing: the database file was removed or replaced."""
        with suppress(sqlite3.Error):
            self._transaction.rollback()
        message = f"{missing} was removed or replaced while it was open, so nothing is written: open it again"
        with self._lock:
            self._closed = self._closed or message
        for job in jobs:
            job.error = job.error or store_stopped(message)

    def _tidy(self) -> None:
        """Checkpoint the write-ahead log when it has grown."""
        if self._logged_bytes < CHECKPOINT_BYTES:
            return
        self._logged_bytes = 0
        self._must_tend = True
        try:
            self._transaction.checkpoint()
        except sqlite3.Error as error:
            if primary_code(error) == sqlite3.SQLITE_FULL:
                # Commits may still fit into the log.
                _LOG.warning("the log of %s cannot be copied into it: %s", self._path, cause_of(error))
            else:
                self._note_disk_failure(error)
