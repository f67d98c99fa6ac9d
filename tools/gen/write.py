"""Compares generated text with the files, and writes what differs."""

import sys
from pathlib import Path


def drift(files: dict[Path, str]) -> list[Path]:
    """Return the paths that are missing, stale, or not generated any more."""
    wrong = [path for path, text in files.items() if not path.is_file() or path.read_text("utf-8") != text]
    extra = [
        path
        for folder in {path.parent for path in files}
        for path in folder.glob("*.*")
        if path.suffix in (".py", ".pyi", ".ts") and path not in files
    ]
    return sorted([*wrong, *extra])


def settle(files: dict[Path, str], *, root: Path, is_check: bool) -> int:
    """Write what differs, or only name it, and return the exit code."""
    stale = drift(files)
    for path in stale:
        if is_check:
            print(f"differs from its source: {path.relative_to(root)}; run `make gen`", file=sys.stderr)
        elif path in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path], "utf-8")
        else:
            path.unlink()
    return 1 if is_check and stale else 0
