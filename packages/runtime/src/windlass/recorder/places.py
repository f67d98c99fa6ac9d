"""Where recordings are kept: a folder, or the journal of a runtime."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import getpid
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

from windlass.adapters.journals.permissions import may_make_files
from windlass.adapters.journals.spool import Spool, spool_folder
from windlass.adapters.wall import day_and_time, random_hex
from windlass.recorder.kinds import RecordingError
from windlass.recorder.ledger import Ledger
from windlass_harness.redact import Redactor

if TYPE_CHECKING:
    from windlass.ports.recorded import RunStore
    from windlass.runtime import CoreRuntime

Durability = Literal["power", "process"]

DATABASE: Final = "recorder.db"
EXPORTS: Final = "runs"
BATCH_RECORDS: Final = 100
"""Records that are brought into the journal of a folder together."""


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A SQLite file with the spools beside it."""

    database: Path
    durability: Durability
    exports: Path | None = None
    batch_records: int = BATCH_RECORDS

    @property
    def is_there(self) -> bool:
        """Whether anything was ever recorded here; OSError if that may not be looked at."""
        return self.database.exists() or spool_folder(self.database).exists()

    def spool(self) -> Spool:
        """Return a new spool, named for the time, the process and chance."""
        name = f"{day_and_time()}_{getpid()}_{random_hex(8)}"
        return Spool(spool_folder(self.database), name, is_synced=self.durability == "power")

    def open(self) -> "RunStore":
        """Open the journal."""
        from windlass.adapters.journals.sqlite_recorded import RecordedStore  # noqa: PLC0415 - slow to import

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
    runtime: "CoreRuntime | None",
    *,
    durability: Durability,
    secrets: Sequence[str],
) -> Ledger:
    """Return the ledger of a folder, or of the journal of a runtime."""
    if durability not in get_args(Durability):
        raise RecordingError(f"durability is {' or '.join(get_args(Durability))}, found {durability!r}")
    if (storage_path is None) == (runtime is None):
        raise RecordingError("give either a storage_path or a runtime: where should be recorded?")
    if runtime is not None:
        from windlass.recorder.hosted import hosted_ledger  # noqa: PLC0415 - slow to import

        return hosted_ledger(runtime, durability=durability, secrets=secrets)
    folder = folder_of(storage_path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordingError(f"storage_path {folder} cannot be made: {error.strerror}") from error
    if not may_make_files(folder):
        raise RecordingError(
            f"storage_path {folder} may not be written to by this process: change its permissions, or choose "
            "another folder"
        )
    place = FilePlace(folder / DATABASE, durability, exports=folder / EXPORTS)
    return Ledger(place, redactor=Redactor(tuple(secrets)))
