"""What a server knows beside a store: empty sessions, and used keys."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeVar

from windlass import Conflict, Unavailable
from windlass_protocol import ErrorKind, RetryClass
from windlass_server.limits import KEYS_KEPT_MAX, RETRY_MS, SESSIONS_EMPTY_MAX

T = TypeVar("T")
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS reserved (
    session_id TEXT PRIMARY KEY,
    user TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    created_at TEXT NOT NULL,
    digest TEXT NOT NULL
) WITHOUT ROWID
"""
_USED: Final = """
CREATE TABLE IF NOT EXISTS used (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    digest TEXT NOT NULL,
    is_done INTEGER NOT NULL DEFAULT 0
)
"""
_CLAIM: Final = "INSERT INTO used (name, digest) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_INDEX: Final = "CREATE INDEX IF NOT EXISTS reserved_by_user ON reserved (user)"


@dataclass(frozen=True, slots=True)
class Reserved:
    """A session without a word in it."""

    session_id: str
    user: str
    agent_id: str
    created_at: str
    digest: str
    """Of what it was asked for with."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A key that is kept to one request."""

    is_new: bool
    """Whether it was not known before."""
    is_done: bool = False
    """Whether the request went well before."""


class Reservations:
    """Small tables beside the store of a tenant."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="windlass-reservations")

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Open the table; it is made if it is missing."""
        return cls(await asyncio.to_thread(_connect, path))

    async def aclose(self) -> None:
        """Let go of the file."""
        await self._do(self._connection.close)
        self._thread.shutdown()

    async def reserve(self, wanted: Reserved) -> Reserved:
        """Keep a session durably; the same one again is the one that is there.

        Raises:
            Conflict: it was asked for with something else.
            Unavailable: the user has too many of them.
        """
        found = await self._do(lambda: self._reserve(wanted))
        if found is None:
            raise Unavailable(
                f"{SESSIONS_EMPTY_MAX:,} sessions wait for their first message, the limit: use those",
                kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
                retry=RetryClass.USER_ACTION_NEEDED,
                retry_after_ms=RETRY_MS,
            )
        if found.digest != wanted.digest or found.user != wanted.user:
            raise Conflict(
                "the Idempotency-Key was used with another request; choose another key",
                kind=ErrorKind.INVALID_STATE_TRANSITION,
                retry=RetryClass.NOT_RETRYABLE,
            )
        return found

    async def find(self, session_id: str) -> Reserved | None:
        """Return a session; None if it is not here."""
        return await self._do(lambda: self._find(session_id))

    async def release(self, session_id: str) -> None:
        """Forget a session: it has a history now, or nobody wants it."""
        await self._do(lambda: self._change("DELETE FROM reserved WHERE session_id = ?", session_id))

    async def claim(self, name: str, digest: str) -> Claim | None:
        """Keep a key to a request, durably; None if it is kept to another one."""
        return await self._do(lambda: self._claim(name, digest))

    async def finish(self, name: str) -> None:
        """Note that the request of a key went well."""
        await self._do(lambda: self._change("UPDATE used SET is_done = 1 WHERE name = ?", name))

    async def unclaim(self, name: str) -> None:
        """Let a key be used for something else."""
        await self._do(lambda: self._change("DELETE FROM used WHERE name = ?", name))

    async def _do(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _reserve(self, wanted: Reserved) -> Reserved | None:
        with self._connection as db:
            found = self._find(wanted.session_id)
            if found is not None:
                return found
            [count] = db.execute("SELECT count(*) FROM reserved WHERE user = ?", (wanted.user,)).fetchone()
            if count >= SESSIONS_EMPTY_MAX:
                return None
            row = (wanted.session_id, wanted.user, wanted.agent_id, wanted.created_at, wanted.digest)
            db.execute("INSERT INTO reserved VALUES (?, ?, ?, ?, ?)", row)
        return wanted

    def _claim(self, name: str, digest: str) -> Claim | None:
        with self._connection as db:
            # Written before it is looked at: another server may do the same.
            made = db.execute(_CLAIM, (name, digest))
            if made.rowcount:
                db.execute("DELETE FROM used WHERE number <= ?", ((made.lastrowid or 0) - KEYS_KEPT_MAX,))
                return Claim(is_new=True)
            [known, is_done] = db.execute(
                "SELECT digest, is_done FROM used WHERE name = ?", (name,)
            ).fetchone()
        return Claim(is_new=False, is_done=bool(is_done)) if known == digest else None

    def _find(self, session_id: str) -> Reserved | None:
        row = self._connection.execute(
            "SELECT session_id, user, agent_id, created_at, digest FROM reserved WHERE session_id = ?",
            (session_id,),
        ).fetchone()
        return None if row is None else Reserved(*row)

    def _change(self, sql: str, name: str) -> None:
        with self._connection as db:
            db.execute(sql, (name,))


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False)
    with ExitStack() as failed:
        failed.callback(connection.close)
        connection.execute("PRAGMA journal_mode = WAL")
        # What was acknowledged must be there after a power cut.
        connection.execute("PRAGMA synchronous = FULL")
        for sql in (_TABLE, _INDEX, _USED):
            connection.execute(sql)
        connection.commit()
        failed.pop_all()
    return connection
