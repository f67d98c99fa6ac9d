"""The spool file of the recorder, and its transfer into the journal."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from os import getpid
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeVar, cast, get_args
from weakref import WeakSet

from windlass.json_value import JsonForm, JsonObject, JsonValue, json_value
from windlass.ledger.kinds import RecordingError
from windlass.ledger.wall import day_and_time, random_hex
from windlass.limits import REPR_CHARS_MAX, REPR_READ_CHARS_MAX
from windlass.ports.recorded import NumberedRow
from windlass.private_files import make_folder, may_make_files
from windlass.sqlite.spool import Spool, spool_folder
from windlass_harness.redact import Redactor
from windlass_protocol.frozen import sealed
from windlass_protocol.limits import RECORD_LEVELS_MAX, CodecLimits

if TYPE_CHECKING:
    from windlass.ports.recorded import RunStore
    from windlass.runtime.compose import AgentRuntime


T = TypeVar("T")

BATCH_BYTES: Final = 1_048_576
RECORD_BYTES_MAX: Final = 1_048_576 - 8_192
"""Below the record limit of the journal, with room for the envelope."""
_DIGITS: Final = bytes(ord("0") if 48 <= code < 58 else ord(" ") for code in range(256))
_LONG: Final = b"0" * 16
"""A run of this many digits, after `_DIGITS`, may be an integer beyond the safe range of JSON."""


class Size(NamedTuple):
    """Limits for a value that is cut to fit a record."""

    chars: int
    """Characters of one string."""
    items: int
    """Items of one list or object; more than the fields of any record."""
    levels: int


SIZES: Final = (Size(65_536, 1_024, 48), Size(4_096, 128, 16), Size(256, 16, 8), Size(64, 16, 4))
"""Applied in turn until the record fits."""
_FORM: Final = JsonForm(binary="repr", repr_chars_max=REPR_READ_CHARS_MAX)
_RECORD: Final = CodecLimits(depth_max=RECORD_LEVELS_MAX)
_CUT_FORM: Final = replace(_FORM, items_max=SIZES[0].items)

_log: Final = logging.getLogger("windlass.ledger")
_ledgers: "WeakSet[Ledger]" = WeakSet()
_inherited: list[object] = []
"""Databases of the parent process, referenced so that they are not closed in a fork."""


class LedgerLocation(Protocol):
    """Where a ledger keeps its records."""

    @property
    def batch_records(self) -> int:
        """Records per transfer into the journal."""
        ...

    @property
    def exports(self) -> Path | None:
        """The folder for exports of ended runs; None for no exports."""
        ...

    def spool(self) -> Spool | None:
        """Return a new spool; None if records are written to the journal directly."""
        ...

    def open(self) -> "RunStore":
        """Open the journal."""
        ...


class Ledger:
    """Takes records of many runs at once, from any thread.

    A record survives a crash of the process once `append` has returned; with durability `power` also a crash
    of the machine.
    """

    def __init__(self, location: LedgerLocation, *, redactor: Redactor) -> None:
        self._location = location
        self.generation = 0
        """Increased in a forked process: recordings of the parent are not valid in it."""
        self._redactor = redactor
        from pydantic_core import to_json  # noqa: PLC0415 - slow to import

        self._to_json = to_json
        self._is_closed = False
        self._start()
        _watch_forks()
        _ledgers.add(self)

    def _start(self) -> None:
        self._lock = RLock()
        self._pending: list[NumberedRow] = []
        self._pending_bytes = 0
        self._flush_at = self._location.batch_records
        self._store: RunStore | None = None
        self._spool = self._location.spool()

    @property
    def writer(self) -> str:
        """The name that marks this ledger as alive; empty without a spool."""
        return "" if self._spool is None else self._spool.name

    def encode(self, type_: str, at: str, *, data: JsonObject, run_id: str, caller_values: object) -> bytes:
        """Return a record in the journal format with secrets masked; never fails.

        `said` holds the caller's values in the data.
        """
        try:
            body = self._to_json([type_, at, data, run_id], inf_nan_mode="strings")
        except ValueError:
            body = b""
        is_large = len(body) > RECORD_BYTES_MAX
        is_plain = body and not is_large and _LONG not in body.translate(_DIGITS) and _is_shallow(body)
        if is_plain and self._redactor.is_clean(caller_values):
            return body
        # Dropped items are not redacted; strings are cut after redaction.
        cut_data = json_value(data, _CUT_FORM if is_large else _FORM)
        masked = cast("JsonObject", _short(cast("JsonValue", self._redactor.value(cut_data))))
        if is_large:
            masked["isCut"] = True
        body = self._to_json([type_, at, masked, run_id])
        for size in SIZES:
            if len(body) <= RECORD_BYTES_MAX:
                break
            smaller = cast("JsonObject", _shrunk(masked, size))
            body = self._to_json([type_, at, {**smaller, "isCut": True}, run_id])
        return body

    def append(self, session_id: str, seq: int, *, body: bytes) -> None:
        """Append a record durably.

        Raises:
            OSError: the write failed.
            RecordingError: the ledger is closed, or the store of the runtime refuses it.
        """
        row = NumberedRow(session_id, seq, body)
        with self._lock:
            if self._is_closed:
                raise RecordingError("the recorder is closed: create a new one")
            if self._spool is None:
                self._open_store().take_in((row,))
                return
            self._spool.write(row)
            self._pending.append(row)
            self._pending_bytes += len(body)
            if len(self._pending) >= self._flush_at or self._pending_bytes >= BATCH_BYTES:
                self.flush()

    def flush(self) -> bool:
        """Transfer appended records into the journal; return whether all are there.

        The rest stays in the spool, where it is durable, and is transferred later.
        """
        with self._lock:
            if self._spool is None or not self._pending:
                return True
            from windlass.errors import AgentError  # noqa: PLC0415 - slow to import

            try:
                self._open_store().take_in(self._pending)
            except (AgentError, OSError) as error:
                _log.warning("recorded, but not in the journal yet: %s", error)
                # Not with every call: a busy database delays its error.
                self._flush_at = len(self._pending) + self._location.batch_records
                self._pending_bytes = 0
                return False
            self._flush_at = self._location.batch_records
            self._pending = []
            self._pending_bytes = 0
            self._spool.clear()
            return True

    def finish(self, run_id: str) -> None:
        """Index and export a run that has ended.

        The run is readable without either, so a failure is logged and made up for later.
        """
        from windlass.errors import AgentError  # noqa: PLC0415 - slow to import
        from windlass.ledger.index import finish_run  # noqa: PLC0415 - slow to import

        try:
            self.ask(lambda store: finish_run(store, run_id, folder=self._location.exports))
        except (AgentError, OSError) as error:
            _log.warning("run %s is recorded, but not exported: %s", run_id, error)

    def ask(self, question: "Callable[[RunStore], T]") -> T:
        """Run a query on the store after all appended records are in it."""
        with self._lock:
            self.flush()
            return question(self._open_store())

    def close(self) -> None:
        """Transfer everything into the journal and close the files."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self.flush()
            if self._spool is not None:
                self._spool.close()
            if self._store is not None:
                self._store.close()

    def forget(self) -> None:
        """Reset in a forked process: files and locks belong to the parent."""
        self.generation += 1
        if self._spool is not None:
            self._spool.abandon()
        _inherited.append(self._store)
        self._start()

    def _open_store(self) -> "RunStore":
        if self._store is None:
            self._store = self._location.open()
        return self._store


@cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_forget_parent)


def _forget_parent() -> None:
    for ledger in tuple(_ledgers):
        ledger.forget()


def _is_shallow(body: bytes) -> bool:
    """Return whether a record can be sent in an event."""
    if body.count(b"[") + body.count(b"{") <= RECORD_LEVELS_MAX:
        return True
    from pydantic_core import from_json  # noqa: PLC0415 - slow to import

    from windlass_protocol.codec_values import fits  # noqa: PLC0415 - slow to import

    try:
        return fits(from_json(body), _RECORD)
    except ValueError:
        # The parser has a limit of its own.
        return False


def _short(value: JsonValue) -> JsonValue:
    """Cut the reprs in a value, after redaction."""
    match value:
        case {"$type": _, "$repr": str() as text}:
            return {**value, "$repr": text[:REPR_CHARS_MAX]}
        case list():
            return [_short(item) for item in value]
        case dict():
            return {key: _short(item) for key, item in value.items()}
        case _:
            return value


def _shrunk(value: JsonValue, size: Size) -> JsonValue:
    """Cut the texts, lists, objects and levels of a value."""
    match value:
        case str() if len(value) > size.chars:
            return f"{value[: size.chars]}… [cut: {len(value) - size.chars:,} more]"
        case list():
            below = size._replace(levels=size.levels - 1)
            return [_shrunk(item, below) for item in value[: size.items]] if size.levels else []
        case dict():
            below = size._replace(levels=size.levels - 1)
            entries = islice(value.items(), size.items) if size.levels else ()
            return {key: _shrunk(item, below) for key, item in entries}
        case _:
            return value


Durability = Literal["power", "process"]

DATABASE: Final = "recorder.db"
EXPORTS: Final = "runs"
BATCH_RECORDS: Final = 100
"""Records per transfer into the journal of a folder."""


@sealed
class FileLocation:
    """A SQLite file with the spools beside it."""

    database: Path
    durability: Durability
    exports: Path | None = None
    batch_records: int = BATCH_RECORDS

    @property
    def is_there(self) -> bool:
        """Whether anything was recorded here; OSError without permission to look."""
        return self.database.exists() or spool_folder(self.database).exists()

    def spool(self) -> Spool:
        """Return a new spool, named by time, process and a random part."""
        name = f"{day_and_time()}_{getpid()}_{random_hex(8)}"
        return Spool(spool_folder(self.database), name, is_synced=self.durability == "power")

    def open(self) -> "RunStore":
        """Open the journal."""
        from windlass.sqlite.recorded import RecordedStore  # noqa: PLC0415 - slow to import

        return RecordedStore(self.database, durability=self.durability)


def folder_of(storage_path: object) -> Path:
    """Return a folder as a path; it need not exist."""
    if not isinstance(storage_path, str | Path) or storage_path == "":
        raise RecordingError(f"storage_path must be the path of a folder, found {storage_path!r}")
    folder = Path(storage_path).absolute()
    if folder.exists() and not folder.is_dir():
        raise RecordingError(f"storage_path must be a folder, found a file: {folder}")
    return folder


def open_ledger(
    storage_path: str | Path | None,
    runtime: "AgentRuntime | None",
    *,
    durability: Durability,
    secrets: Sequence[str],
) -> Ledger:
    """Return the ledger of a folder, or of the journal of a runtime."""
    if durability not in get_args(Durability):
        raise RecordingError(f"durability must be {' or '.join(get_args(Durability))}, found {durability!r}")
    if (storage_path is None) == (runtime is None):
        raise RecordingError("give either storage_path or runtime")
    if runtime is not None:
        from windlass.ledger.hosted import hosted_ledger  # noqa: PLC0415 - slow to import

        return hosted_ledger(runtime, durability=durability, secrets=secrets)
    folder = folder_of(storage_path)
    try:
        make_folder(folder, parents=True)
    except OSError as error:
        raise RecordingError(f"storage_path {folder} cannot be created: {error.strerror}") from error
    if not may_make_files(folder):
        raise RecordingError(
            f"storage_path {folder} is not writable for this process: change its permissions, or choose "
            "another folder"
        )
    location = FileLocation(folder / DATABASE, durability, exports=folder / EXPORTS)
    return Ledger(location, redactor=Redactor(tuple(secrets)))
