"""A faulty disk: SQLite on a file system, written in Python, that fails and loses writes."""

import random
import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, cast

import apsw

from windlass.sql.statements import Cursor, Row, SqlConnection, Value

SECTOR_BYTES: Final = 512
Fate = Literal["kept", "dropped", "torn", "garbage"]
FATES: Final[tuple[Fate, ...]] = ("kept", "dropped", "torn", "garbage")


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes that went to a file, and may not have reached the disk."""

    name: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file that was cut or grown."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Delete:
    """A file that is gone at once: file systems keep their own journal for that."""

    name: str


@dataclass(frozen=True, slots=True)
class Sync:
    """Everything written to a file before is on the disk."""

    name: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Something was acknowledged to a caller."""

    count: int


Happening = Write | Truncate | Delete | Sync | Mark


class Disk(apsw.VFS):
    """A file system that records its operations, and calls a hook before every write and sync."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.happenings: list[Happening] = []
        self.before_write: Callable[[str], None] = lambda name: None
        self.before_sync: Callable[[str], None] = lambda name: None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unregister()

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - the name that SQLite calls
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - the name that SQLite calls
        self.happenings.append(Delete(Path(filename).name))
        super().xDelete(filename, syncdir)

    def connect(self, path: Path) -> SqlConnection:
        """Open a file on this disk; errors are those of the standard library."""
        connection = apsw.Connection(str(path), vfs=self.name)
        connection.set_busy_timeout(5_000)
        return _Connection(cast("SqlConnection", connection))


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = Path(path or "").name

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - the name that SQLite calls
        self._disk.before_write(self._name)
        self._disk.happenings.append(Write(self._name, offset, bytes(data)))
        cast("Any", super()).xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - the name that SQLite calls
        self._disk.happenings.append(Truncate(self._name, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802 - the name that SQLite calls
        self._disk.before_sync(self._name)
        # The real sync is not needed: the state after a crash is computed from the recorded operations.
        self._disk.happenings.append(Sync(self._name))


class _Connection:
    def __init__(self, inner: SqlConnection) -> None:
        self._inner = inner

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        with _as_sqlite3():
            return _Cursor(self._inner.execute(sql, tuple(parameters)))

    def close(self) -> None:
        # The standard library does not report it either when the last close cannot clean up.
        with suppress(apsw.Error):
            self._inner.close()


class _Cursor:
    def __init__(self, inner: Cursor) -> None:
        self._inner = inner

    def fetchone(self) -> Row | None:
        with _as_sqlite3():
            return self._inner.fetchone()

    def fetchall(self) -> Sequence[Row]:
        with _as_sqlite3():
            return self._inner.fetchall()

    def __iter__(self) -> Iterator[Row]:
        return iter(self.fetchall())


@contextmanager
def _as_sqlite3() -> Generator[None]:
    """Turn the errors of one library into those of the other, code by code."""
    try:
        yield
    except apsw.Error as error:
        translated = sqlite3.OperationalError(str(error))
        translated.sqlite_errorcode = vars(error)["extendedresult"]
        names = {**apsw.mapping_result_codes, **apsw.mapping_extended_result_codes}
        translated.sqlite_errorname = str(names[translated.sqlite_errorcode])
        raise translated from error


def fault(kind: type[apsw.Error], code: int) -> apsw.Error:
    """Return an error that a file may raise, with the code that SQLite shall see."""
    error = kind("the test says so")
    vars(error)["extendedresult"] = code
    return error


@dataclass(slots=True)
class Platter:
    """The synced content of the disk, and the writes since the last sync."""

    files: dict[str, bytearray] = field(default_factory=dict[str, bytearray])
    unsynced: list[Write | Truncate] = field(default_factory=list[Write | Truncate])

    def happen(self, happening: Happening) -> None:
        match happening:
            case Write() | Truncate():
                self.unsynced.append(happening)
            case Delete(name):
                self.files.pop(name, None)
                self.unsynced = [change for change in self.unsynced if change.name != name]
            case Sync(name):
                for change in self.unsynced:
                    if change.name == name:
                        _apply(self.files, change, "kept", random.Random(0))
                self.unsynced = [change for change in self.unsynced if change.name != name]
            case Mark():
                pass

    def crashed(self, chance: random.Random) -> dict[str, bytearray]:
        """Return the files after the power went, with a fate for every unsynced write."""
        files = {name: bytearray(content) for name, content in self.files.items()}
        for change in self.unsynced:
            _apply(files, change, chance.choice(FATES), chance)
        return files


def _apply(files: dict[str, bytearray], change: Write | Truncate, fate: Fate, chance: random.Random) -> None:
    file = files.setdefault(change.name, bytearray())
    if fate == "dropped":
        return
    if isinstance(change, Truncate):
        del file[change.size :]
        return
    data = change.data
    if fate == "torn":
        data = data[: chance.randrange(len(data))]
    elif fate == "garbage":
        data = chance.randbytes(len(data))
    if len(file) < change.offset:
        file.extend(bytes(change.offset - len(file)))
    file[change.offset : change.offset + len(data)] = data


def put_files(folder: Path, files: dict[str, bytearray]) -> None:
    """Write files into a folder that has nothing else in it."""
    for old in folder.iterdir():
        if old.is_file():
            old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def get_files(folder: Path) -> dict[str, bytearray]:
    """Return the files of a folder."""
    return {file.name: bytearray(file.read_bytes()) for file in folder.iterdir() if file.is_file()}
