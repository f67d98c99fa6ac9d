"""What this process may do with files."""

import os
from pathlib import Path
from typing import Final

_BY_KERNEL: Final = os.access in os.supports_effective_ids
"""Whether one can ask for the rights that the kernel goes by."""


def may_make_files(folder: Path) -> bool:
    """Tell whether this process may make files in a folder."""
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=_BY_KERNEL)


def may_change(path: Path) -> bool:
    """Tell whether this process may read and write a file."""
    return os.access(path, os.R_OK | os.W_OK, effective_ids=_BY_KERNEL)
