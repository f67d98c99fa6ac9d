"""The files of this repository: everything that `.gitignore` does not leave out."""

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_RULE = re.compile(r"^(?P<names>[a-z][a-z -]*):(?!=)(?P<needs>[^#\n]*)", re.MULTILINE)


def repository_files(root: Path = ROOT) -> tuple[Path, ...]:
    """Every file that is or could be committed, relative to the root and sorted.

    Works from the folder and `.gitignore` alone, so that it needs no git and also sees files that are new.
    """
    patterns = (".git", *ignored_names((root / ".gitignore").read_text(encoding="utf-8")))
    return tuple(sorted(path.relative_to(root) for path in _walk(root, patterns)))


def ignored_names(gitignore: str) -> tuple[str, ...]:
    """The name patterns of a `.gitignore` file that holds only plain names.

    Raises:
        ValueError: a line is a path or a negation, which we do not read.
    """
    lines = (line.strip() for line in gitignore.splitlines())
    names = tuple(line.rstrip("/") for line in lines if line and not line.startswith("#"))
    for name in names:
        if "/" in name or name.startswith("!"):
            raise ValueError(f".gitignore: write a plain name; tools/files.py cannot read {name!r}")
    return names


def make_rules(makefile: str) -> dict[str, set[str]]:
    """The targets of a makefile that people call, each with what it needs."""
    return {
        name: set(found["needs"].split())
        for found in _RULE.finditer(makefile)
        for name in found["names"].split()
    }


def _walk(root: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not _is_ignored(name, patterns)]
        yield from (Path(folder, name) for name in names if not _is_ignored(name, patterns))


def _is_ignored(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
