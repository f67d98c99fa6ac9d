"""Marks: how far a store was acknowledged, in a small file beside the database.

SQLite takes a database whose log is lost, cut or garbled for an older one, without an error. So every commit
that adds a record or an item, or that changes something else of value, is noted in a file of its own before
it is acknowledged, and a store that ends before its marks is not opened.

The file `-mark` lives as long as the log: the last process that closes the store removes it. After that the
database alone is complete, and can be copied, moved or replaced. The numbers of a mark choose its slot. They
grow with every commit, so processes write at the same time without a lock, and a late mark does not replace a
newer one. A mark is written with one small write, and is not synced, so it survives a kill. At each
complete checkpoint a second kind of mark is written and synced: it holds after a loss of power too.

The database is made first. The file gets its name when it has a mark and is on the disk. So no kill leaves a
file without a mark, and such a file is damaged, with or without a database beside it.

With durability `process`, a loss of power may take the newest commits and leave their marks. Such marks hold
until the machine is started again.
"""

import errno
import fcntl
import logging
import os
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from typing import Final, NamedTuple, cast
from zlib import crc32

from windlass.adapters.journals.rules import corrupt
from windlass.errors import Corrupt
from windlass.private_files import open_private
from windlass.sql.integrity import STORE, StoreKey
from windlass.sql.queries import NEWEST_ITEM
from windlass.sql.statements import SqlConnection
from windlass.sqlite.files import sync_file, sync_folder
from windlass.sqlite.reads import last_position
from windlass.sqlite.schema import (
    MARKED_VERSION,
    MIGRATIONS,
    Durability,
    connect_to_read,
    read_version,
)

MARK_SUFFIX: Final = "-mark"
PART_SUFFIX: Final = ".new"
"""Ends the name of the file while it is made; a killed process leaves it, and the next one makes it anew."""
SLOT_BYTES: Final = 64
ACKNOWLEDGED: Final = 56
"""Slots of acknowledged commits; a process that is slower than the others by this many may replace a newer
mark by an older one."""
SYNCED: Final = 8
"""Slots of complete checkpoints."""
FILE_BYTES: Final = SLOT_BYTES * (ACKNOWLEDGED + SYNCED)
LOCK_TRIES_MAX: Final = 1_000

_BODY: Final = struct.Struct(">3q8s8sc")
"""The numbers of a state, the digests of machine start and store, and the durability."""
_SUM: Final = struct.Struct(">I")
_POWER: Final = b"p"
_PROCESS: Final = b"k"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_LOG: Final = logging.getLogger("windlass.store")


class StoreState(NamedTuple):
    """How far a store is; every commit of value increases one of the numbers."""

    position: int
    """The position of the newest record."""
    item: int
    """The number of the newest inbox item."""
    saves: int
    """The number of changes of the store row."""

    def reaches(self, other: "StoreState") -> bool:
        """Return whether everything up to the other state is here."""
        return self.position >= other.position and self.item >= other.item and self.saves >= other.saves

    def __str__(self) -> str:
        return f"record {self.position:,}, inbox item {self.item:,}, change {self.saves:,}"


class _Mark(NamedTuple):
    slot: int
    state: StoreState | None
    """None if it is damaged."""
    boot: bytes = b""
    store: bytes = b""
    is_durable: bool = False
    """Whether it holds after a loss of power."""


def read_state(connection: SqlConnection, key: StoreKey) -> StoreState:
    """Return how far a store is; the caller has begun a transaction.

    Raises:
        Corrupt: a row that says so is damaged.
    """
    [(item,)] = cast("list[tuple[int]]", connection.execute(NEWEST_ITEM).fetchall())
    [(saves,)] = cast("list[tuple[int]]", connection.execute("SELECT saves FROM store").fetchall())
    return StoreState(last_position(connection, key), item, saves)


class StoreMarks:
    """The file of marks of an open store.

    Raises:
        Corrupt: the store ends before a mark, or the file is damaged.
        OSError: the file cannot be made.
    """

    def __init__(self, database: Path, *, durability: Durability) -> None:
        self._database = Path(os.path.realpath(database))
        self._path = self._database.with_name(f"{self._database.name}{MARK_SUFFIX}")
        self._boot = boot_digest()
        self._kind = _POWER if durability == "power" else _PROCESS
        self._store = b""
        self._noted: StoreState | None = None
        """The last state that was noted."""
        self._has_failed = False
        self._stale: list[int] = []
        """Slots with marks that do not count; they are cleared when the file has a mark of this process."""
        self._handle = self._open()
        try:
            self._check()
        except BaseException:
            self._close_handle()
            raise

    def _open(self) -> int | None:
        """Return the file, with a shared lock; None if there is no file.

        `close` removes it under an exclusive lock.
        """
        for _ in range(LOCK_TRIES_MAX):
            try:
                handle = open_private(self._path, os.O_RDWR | os.O_NOFOLLOW)
            except FileNotFoundError:
                return None
            except OSError:
                if not S_ISREG(os.lstat(self._path).st_mode):
                    # A link could lead to a file that says nothing, or to none.
                    raise self._damage_error() from None
                raise
            fcntl.flock(handle, fcntl.LOCK_SH)
            if _is_at(handle, self._path):
                return handle
            # A process that closed the store has removed the file before the lock was taken.
            os.close(handle)
        raise OSError(f"{self._path} is removed again and again by other processes")

    def _make(self, state: StoreState) -> tuple[int, bool]:
        """Return the file, and whether this process made it.

        It gets its name when it has a mark and is on the disk.
        """
        part = self._path.with_name(f"{self._path.name}{PART_SUFFIX}")
        slot = _slot_of(state)
        content = bytearray(FILE_BYTES)
        mark = self._pack(state, _PROCESS)
        content[slot * SLOT_BYTES : slot * SLOT_BYTES + len(mark)] = mark
        for _ in range(LOCK_TRIES_MAX):
            is_made = False
            handle = open_private(part, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                if _is_at(handle, part):
                    if self._path.exists():
                        # Another process has made the file, and a killed one left this name.
                        part.unlink()
                    else:
                        os.ftruncate(handle, 0)
                        _write_all(handle, bytes(content), 0)
                        sync_file(handle)
                        part.rename(self._path)
                        sync_folder(self._path.parent)
                        is_made = True
            finally:
                os.close(handle)
            existing = self._open()
            if existing is not None:
                return existing, is_made
        raise OSError(f"{self._path} is removed again and again by other processes")

    def _check(self) -> None:
        if self._handle is None:
            return
        # The marks are read before the store: a commit precedes its mark.
        marks = tuple(self._read(self._handle))
        if not marks:
            raise self._without_marks()
        state, store = self._read_store()
        # Marks that were not synced may be damaged by a loss of power, and by nothing else.
        is_restarted = not any(self._boot) or all(mark.boot != self._boot for mark in marks)
        whole = [mark for mark in marks if mark.state is not None]
        if not whole or (len(whole) < len(marks) and not is_restarted):
            raise self._damage_error()
        lost: list[StoreState] = []
        for mark in marks:
            if mark.state is None:
                os.pwrite(self._handle, bytes(SLOT_BYTES), mark.slot * SLOT_BYTES)
                continue
            if mark.store == store and state.reaches(mark.state):
                continue
            is_older = not any(self._boot) or mark.boot != self._boot
            if mark.is_durable or not is_older or mark.store != store:
                raise self._behind(state, mark.state)
            lost.append(mark.state)
            # Logged once. The mark stays until there is another one.
            self._stale.append(mark.slot)
        if lost:
            _LOG.warning(
                "%s lost its newest writes when the machine stopped, as durability process allows: it ends "
                "at %s and had acknowledged %s",
                self._database,
                state,
                max(lost, key=sum),
            )

    def _read(self, handle: int) -> Iterator[_Mark]:
        """Yield the marks of the file, the newest first."""
        raw = os.pread(handle, FILE_BYTES + 1, 0)
        if not raw:
            return
        if len(raw) != FILE_BYTES:
            raise self._damage_error()
        marks: list[_Mark] = []
        for slot in range(ACKNOWLEDGED + SYNCED):
            mark = raw[slot * SLOT_BYTES : (slot + 1) * SLOT_BYTES]
            if any(mark):
                marks.append(_parse_mark(slot, mark))
        yield from sorted(marks, key=lambda mark: sum(mark.state or ()), reverse=True)

    def _read_store(self) -> tuple[StoreState, bytes]:
        """Return how far the store is now, and the digest of its id.

        Read without the right to write: closing the connection leaves the log as it is.
        """
        nothing = StoreState(0, 0, 0), b""
        if not self._database.exists() or self._database.stat().st_size == 0:
            return nothing
        with closing(connect_to_read(self._database)) as connection:
            if read_version(connection, self._database, newest=len(MIGRATIONS)) < MARKED_VERSION:
                return nothing
            connection.execute("BEGIN")
            key = StoreKey.load(connection.execute(STORE).fetchall())
            return read_state(connection, key), _digest(key.store_id)

    def _behind(self, state: StoreState, noted: StoreState) -> Corrupt:
        name = self._database.name
        return corrupt(
            f"{self._database} ends at {state}, and had acknowledged {noted}: its log {name}-wal was lost, "
            "cut or altered, or another file took its place. Restore the log, or a backup. To go on without "
            f"the missing writes, delete {self._path.name}; the effects of those writes may then happen again"
        )

    def _damage_error(self) -> Corrupt:
        return corrupt(
            f"{self._path} is damaged, so it is not known whether {self._database.name} has all that it "
            "acknowledged: compare its newest records with what you know, or restore a backup, and then "
            f"delete {self._path.name}"
        )

    def _without_marks(self) -> Corrupt:
        return corrupt(
            f"{self._path} has no mark, so it is not known whether {self._database.name} has all that it "
            "acknowledged: restore a backup, or compare its newest records with what you know, and then "
            f"delete {self._path.name}. Nothing is missing if a process of an older release ended while it "
            "opened the store"
        )

    def begin(self, connection: SqlConnection, key: StoreKey) -> None:
        """Write the first mark of this process; the file is complete afterwards."""
        self._store = _digest(key.store_id)
        connection.execute("BEGIN")
        try:
            state = read_state(connection, key)
        finally:
            with suppress(sqlite3.Error):
                connection.execute("COMMIT")
        self._noted = state
        if self._handle is None:
            self._handle, is_made = self._make(state)
            if is_made:
                return
        # Another process may have written what this mark counts, and not have synced it.
        slot = _slot_of(state)
        self._write(state, slot, _PROCESS)
        if self._stale:
            # The disk has this mark before the others are cleared.
            sync_file(self._handle)
        for stale in self._stale:
            if stale != slot:
                os.pwrite(self._handle, bytes(SLOT_BYTES), stale * SLOT_BYTES)
        self._stale.clear()

    def note(self, state: StoreState) -> None:
        """Note that a store is as far as this; the commit has succeeded, and is not acknowledged yet."""
        self._noted = state
        self._write(state, _slot_of(state), self._kind)

    def sync(self) -> None:
        """Note that all that was noted is on the disk, and write the marks to the disk."""
        if self._noted is None or self._handle is None:
            return
        self._write(self._noted, ACKNOWLEDGED + sum(self._noted) % SYNCED, self._kind)
        try:
            sync_file(self._handle)
        except OSError as error:
            self._fail(error)

    def _write(self, state: StoreState, slot: int, kind: bytes) -> None:
        if self._handle is None:
            return
        try:
            _write_all(self._handle, self._pack(state, kind), slot * SLOT_BYTES)
        except OSError as error:
            self._fail(error)
        else:
            self._has_failed = False

    def _pack(self, state: StoreState, kind: bytes) -> bytes:
        """Return the bytes of a mark."""
        position, item, saves = state
        body = _BODY.pack(position, item, saves, self._boot, self._store, kind)
        return body + _SUM.pack(crc32(body))

    def _fail(self, error: OSError) -> None:
        """Log the first of several failures in a row: the commit itself has succeeded."""
        if not self._has_failed:
            self._has_failed = True
            _LOG.warning("a lost log would not be noticed: %s: %s", self._path, error.strerror)

    def close(self) -> None:
        """Close the file, after the database; remove it if no process has the store open any more."""
        log = self._database.with_name(f"{self._database.name}-wal")
        if self._handle is None:
            return
        with suppress(OSError):
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not log.exists() and self._database.exists():
                self._path.unlink()
        self._close_handle()

    def _close_handle(self) -> None:
        if self._handle is not None:
            os.close(self._handle)


def _slot_of(state: StoreState) -> int:
    """Return the slot of the mark of an acknowledged commit."""
    return sum(state) % ACKNOWLEDGED


def _is_at(handle: int, path: Path) -> bool:
    """Return whether an open file has this name."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _write_all(handle: int, data: bytes, offset: int) -> None:
    if os.pwrite(handle, data, offset) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _parse_mark(slot: int, raw: bytes) -> _Mark:
    body = raw[: _BODY.size]
    (checksum,) = _SUM.unpack_from(raw, _BODY.size)
    if checksum != crc32(body) or any(raw[_BODY.size + _SUM.size :]):
        return _Mark(slot, None)
    position, item, saves, boot, store, kind = cast(
        "tuple[int, int, int, bytes, bytes, bytes]", _BODY.unpack(body)
    )
    return _Mark(slot, StoreState(position, item, saves), boot, store, slot >= ACKNOWLEDGED or kind == _POWER)


def boot_digest() -> bytes:
    """Return a digest that changes when the machine is started; zeros if that is not known."""
    try:
        return _digest(_BOOT_ID.read_bytes())
    except OSError:
        return bytes(8)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()
