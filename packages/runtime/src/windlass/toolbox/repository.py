"""Where a repository of git leads: reads of git show what lies there, wherever that is.

The files in `.git` say where the objects, the settings and the files of a repository are. Those of a folder
that was unpacked or written by a model could name any other repository, or any folder, of the machine. A net,
not a wall: alternates and links deep inside of `.git` are not looked at.
"""

import os
from pathlib import Path
from typing import Final

from windlass_protocol.lazy import lazy_pattern

_FILE_BYTES_MAX: Final = 65_536
_GITDIR: Final = "gitdir:"
_PARTS: Final = (
    "HEAD",
    "config",
    "config.worktree",
    "index",
    "info",
    "logs",
    "modules",
    "objects",
    "packed-refs",
    "refs",
    "worktrees",
)
"""Files and folders in `.git` that hold what git shows."""
_WORKTREE: Final = lazy_pattern(r"(?im)(?:^|\])\s*worktree[ \t]*=(.*)$")


def stray_place(folder: str, root: str) -> str | None:
    """Return what lies outside of `root`, and is read by git in a folder of it; None if nothing does.

    Both paths are real. A repository above `root` is that of its owner. So is one that names this folder, as
    that of a linked work tree or of a submodule does.
    """
    top = folder
    while not os.path.lexists(os.path.join(top, ".git")):
        if top == root or not _is_inside(top, root):
            return None
        top = os.path.dirname(top)
    if not _is_inside(top, root):
        return None
    dot = os.path.join(top, ".git")
    place = os.path.realpath(dot)
    if os.path.isfile(place):
        named = _text(place).strip().removeprefix(_GITDIR).strip()
        place = os.path.realpath(os.path.join(os.path.dirname(place), named))
    if not _is_inside(place, root):
        back = os.path.join(place, _text(os.path.join(place, "gitdir")).strip() or "-")
        names = [back, *(os.path.join(tree, ".git") for tree in _trees(place))]
        is_named = os.path.realpath(dot) in map(os.path.realpath, names) and not os.path.islink(dot)
        return None if is_named else place
    common = os.path.realpath(os.path.join(place, _text(os.path.join(place, "commondir")).strip()))
    parts = [os.path.join(folder, name) for folder in (place, common) for name in _PARTS]
    leads = map(os.path.realpath, (common, *parts, *_trees(place)))
    return next((path for path in leads if not _is_inside(path, root)), None)


def _trees(place: str) -> list[str]:
    """Return the folders of files that the settings of a repository name; any, if they are not plain."""
    texts = [_text(os.path.join(place, name)) for name in ("config", "config.worktree")]
    values = [match[1] for text in texts for match in _WORKTREE.finditer(text)]
    if any(len(os.fsencode(text)) == _FILE_BYTES_MAX for text in texts) or any(
        "\\" in value for value in values
    ):
        return [os.sep]
    return [os.path.join(place, value.replace('"', "").strip()) for value in values]


def _text(path: str) -> str:
    """Return the beginning of a file; nothing if it is none."""
    if not os.path.isfile(path):
        return ""
    try:
        with Path(path).open("rb") as file:
            return os.fsdecode(file.read(_FILE_BYTES_MAX))
    except OSError:
        return ""


def _is_inside(path: str, root: str) -> bool:
    return path == root or path.startswith(os.path.join(root, ""))
