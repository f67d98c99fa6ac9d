"""A folder that may not be written to, also if the tests are run by root."""

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_NOBODY = 65_534


@contextmanager
def open_folder() -> Generator[Path]:
    """A world-readable folder, unlike those of the tests."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


@contextmanager
def read_only(folder: Path, *, mode: int = 0o555) -> Generator[None]:
    """Nothing can be made in the folder; with mode 0 it cannot be read either."""
    folder.chmod(mode)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)
