"""Spool files: records of the recorder on their way into the journal.

A SQLite transaction costs about as much as recording twenty decisions. So numbered records are first appended
to a file beside the database, and are moved into the journal in batches. Each line has a checksum, the number
and session of its record, and the record in stored form. A record is safe once its line is written: the next
process that opens the store appends what a dead process left, and a record appended twice is detected by its
number.

The file is locked while its process lives; a free lock means that the writer is dead.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from zlib import crc32

from windlass.ports.recorded import NumberedRow
from windlass.private_files import make_folder, tighten
from windlass.sqlite.files import sync_file, sync_folder, take_lock
from windlass_protocol.frozen import frozen

FOLDER_TRIES_MAX: Final = 50


class Spool:
    """The spool file of one writer, created with the first record."""

    def __init__(self, folder: Path, name: str, *, is_synced: bool) -> None:
        self.name = name
        self._path = folder / name
        self._is_synced = is_synced
        self._handle: int | None = None
        self._end = 0

    def write(self, row: NumberedRow) -> None:
        """Append a record; OSError if the write failed, and then the record is not kept."""
        if self._handle is None:
            self._handle = self._open()
        rest = b"%d %s %s" % (row.seq, row.session_id.encode(), row.body)
        line = b"%08x %s\n" % (crc32(rest), rest)
        if os.pwrite(self._handle, line, self._end) != len(line):
            # The next line overwrites it.
            raise OSError(f"{self._path} short write: a record was written in part; is the disk full?")
        if self._is_synced:
            sync_file(self._handle)
        self._end += len(line)

    def clear(self) -> None:
        """Truncate the file: its records are in the journal."""
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            self._end = 0

    def close(self) -> None:
        """Close the file; it stays if it has records."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        if self._end == 0:
            self._path.unlink(missing_ok=True)
            _tidy(self._path.parent)
        os.close(handle)

    def abandon(self) -> None:
        """Close a file that belongs to the parent process of a fork."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _open(self) -> int:
        # Lock before naming: a scan for dead writers must never find the file unlocked.
        unnamed = self._path.with_name(f".{self.name}")
        handle = _take_lock_in_folder(unnamed)
        if handle is None:
            raise OSError(f"{self._path} cannot be locked: another process has it")
        unnamed.rename(self._path)
        if self._is_synced:
            sync_folder(self._path.parent)
        return handle


def spool_folder(database: Path) -> Path:
    """Return the spool folder of a database."""
    return database.with_name(f"{database.name}-spool")


@frozen
class Leftover:
    """The spooled records of a writer that are not in the journal."""

    path: Path
    rows: tuple[NumberedRow, ...]
    lock: int | None
    """Lock of the file, if its writer is dead."""

    def settle(self, *, is_taken_in: bool) -> None:
        """Delete the file of a dead writer after all its records were appended."""
        if self.lock is not None:
            if is_taken_in:
                self.path.unlink(missing_ok=True)
                _tidy(self.path.parent)
            os.close(self.lock)

    def set_aside(self) -> None:
        """Keep a damaged file of a dead writer for inspection."""
        if self.lock is not None:
            self.path.rename(self.path.with_name(f".damaged-{self.path.name}"))


def leftovers(folder: Path) -> Iterator[Leftover]:
    """Yield the spool files of all writers, living and dead; settle each."""
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return
    for path in paths:
        if path.name.startswith(".") or not path.is_file():
            continue
        # Lock before reading: a dead writer adds nothing, so the read is complete.
        lock = take_lock(path)
        yield Leftover(path, tuple(_read_rows(path)), lock)


def _read_rows(path: Path) -> Iterator[NumberedRow]:
    """Yield the records of a file in order; torn lines are skipped."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return
    for line in raw.split(b"\n"):
        head, _, rest = line.partition(b" ")
        if head == b"%08x" % crc32(rest):
            seq, session_id, body = rest.split(b" ", 2)
            yield NumberedRow(session_id.decode(), int(seq), body)


def is_living(folder: Path, name: str) -> bool:
    """Return whether the writer of a file is alive."""
    path = folder / name
    if not path.exists():
        return False
    handle = take_lock(path)
    if handle is None:
        return True
    os.close(handle)
    return False


def _take_lock_in_folder(path: Path) -> int | None:
    """Return a new locked file; the folder is created if it is missing."""
    for _ in range(FOLDER_TRIES_MAX):
        # The last process in the folder may remove it at this moment.
        with suppress(FileNotFoundError):
            make_folder(path.parent)
            tighten(path.parent)
            return take_lock(path)
    return None


def _tidy(folder: Path) -> None:
    """Remove the folder if it is empty."""
    with suppress(OSError):
        folder.rmdir()
