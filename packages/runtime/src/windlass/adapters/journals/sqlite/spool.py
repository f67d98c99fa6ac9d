"""Records on their way into the journal: one write a record, no database yet.

A transaction of SQLite costs about as much as recording twenty decisions, so records that their maker has
numbered are first appended to a file beside the database, and get into the journal by the hundred. Each line
has a checksum, the number and session of its record, and the record as the journal will hold it. A record is
safe once its line is written: whoever opens the store takes in what a dead process left, and a record that is
taken in twice is found by its number.

The file is locked for as long as its process lives, which tells the living from the dead.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from zlib import crc32

from windlass.adapters.journals.sqlite.files import take_lock
from windlass.ports.recorded import NumberedRow
from windlass_protocol.frozen import frozen

FOLDER_TRIES_MAX: Final = 50


class Spool:
    """The file of one writer; it is made with the first record."""

    def __init__(self, folder: Path, name: str, *, is_synced: bool) -> None:
        self.name = name
        self._path = folder / name
        self._is_synced = is_synced
        self._handle: int | None = None
        self._end = 0

    def write(self, row: NumberedRow) -> None:
        """Keep a record; OSError if the disk does not take it, and then it is not kept."""
        if self._handle is None:
            self._handle = self._open()
        rest = b"%d %s %s" % (row.seq, row.session_id.encode(), row.body)
        line = b"%08x %s\n" % (crc32(rest), rest)
        if os.pwrite(self._handle, line, self._end) != len(line):
            # The next line is written over it.
            raise OSError(f"{self._path} took only a part of a record: is the disk full?")
        if self._is_synced:
            os.fdatasync(self._handle)
        self._end += len(line)

    def clear(self) -> None:
        """Forget everything: it is in the journal."""
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            self._end = 0

    def close(self) -> None:
        """Let go of the file; it stays if anything is in it."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        if self._end == 0:
            self._path.unlink(missing_ok=True)
            _tidy(self._path.parent)
        os.close(handle)

    def abandon(self) -> None:
        """Let go of a file that belongs to the process this one was forked from."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _open(self) -> int:
        # Locked before it has its name: whoever looks for the dead never finds it free.
        unnamed = self._path.with_name(f".{self.name}")
        handle = _take_lock_in_folder(unnamed)
        if handle is None:
            raise OSError(f"{self._path} cannot be locked: another process has it")
        unnamed.rename(self._path)
        if self._is_synced:
            _sync_folder(self._path.parent)
        return handle


def spool_folder(database: Path) -> Path:
    """Return where the spools of a database are."""
    return database.with_name(f"{database.name}-spool")


@frozen
class Leftover:
    """What a writer has not brought into the journal, as far as one can see now."""

    path: Path
    rows: tuple[NumberedRow, ...]
    lock: int | None
    """Of the file, if its writer is dead."""

    def settle(self, *, is_taken_in: bool) -> None:
        """Remove the file of a dead writer once everything in it is in the journal."""
        if self.lock is not None:
            if is_taken_in:
                self.path.unlink(missing_ok=True)
                _tidy(self.path.parent)
            os.close(self.lock)

    def put_aside(self) -> None:
        """Keep the file of a dead writer for people: nobody can take all of it in."""
        if self.lock is not None:
            self.path.rename(self.path.with_name(f".damaged-{self.path.name}"))


def leftovers(folder: Path) -> Iterator[Leftover]:
    """Return what all writers have, living and dead; each has to be settled."""
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return
    for path in paths:
        if path.name.startswith(".") or not path.is_file():
            continue
        # Locked before it is read: a dead writer adds nothing, so what is read is all there is.
        lock = take_lock(path)
        yield Leftover(path, tuple(_read_rows(path)), lock)


def _read_rows(path: Path) -> Iterator[NumberedRow]:
    """Return the records of a file in their order; lines that are torn are left out."""
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
    """Tell whether the writer of a file is alive."""
    path = folder / name
    if not path.exists():
        return False
    handle = take_lock(path)
    if handle is None:
        return True
    os.close(handle)
    return False


def _take_lock_in_folder(path: Path) -> int | None:
    """Return a new file with its lock, in a folder that is made if it is missing."""
    for _ in range(FOLDER_TRIES_MAX):
        path.parent.mkdir(exist_ok=True)
        # Whoever was the last in the folder may take it away at this very moment.
        with suppress(FileNotFoundError):
            return take_lock(path)
    return None


def _tidy(folder: Path) -> None:
    """Take the folder away if nobody has anything in it."""
    with suppress(OSError):
        folder.rmdir()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
