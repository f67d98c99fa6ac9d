"""Where a repository of git leads: reads of git show what lies there, wherever that is.

The files in `.git` say where the objects, the settings and the files of a repository are. Those of a folder
that was unpacked or written by a model could name any other repository, or any folder, of the machine. Git
repeats lines of files that it cannot read in its messages, so a link in `.git` shows what it leads to. A net,
not a wall: a file may be replaced between this check and the read.
"""

import os
import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from windlass.toolbox.folder import shown_path

_FILE_BYTES_MAX: Final = 65_536
_GITDIR: Final = "gitdir:"
_NOT_READ: Final = frozenset({"hooks", "lfs"})
"""Folders in `.git` of which safe reads use nothing."""
ENTRIES_MAX: Final = 200_000
"""Files and folders of one repository that are looked at."""
_SETTING: Final = re.compile(r"(?im)(?:^|\])[^\S\n]*(?:worktree|refstorage)[ \t]*=(?:.*://)?(.*)$")
"""Where the files are, and, since git 2.54, the references."""
_INCLUDE: Final = re.compile(r"(?i)\[\s*include")
_HEAD: Final = re.compile(r"ref:\s*refs/|[0-9a-f]{40}")
_LEADS: Final = "leads to"
_BORROWS: Final = "takes objects, as one made by git clone --shared does, from"


def stray_place(folder: str, root: str, is_secret: Callable[[str], bool]) -> str | None:
    """Say where git in a folder of `root` reads from outside of it, or from credentials; None if it does not.

    Both paths are real; `is_secret` gets paths relative to `root`. A repository above `root` is that of its
    owner, see `begins_above`. So is one that names this folder, as that of a linked work tree or of a
    submodule does.
    """
    # Git passes over a `.git` that is no repository, so each one up to `root` counts.
    for top in _folders_up_to(folder, root):
        if os.path.lexists(os.path.join(top, ".git")):
            stray = _stray_place(top, root, is_secret)
        else:
            # Git before 2.38 takes it, with all that its files name.
            stray = "has no files of its own (bare)" if _is_repository(top) else None
        if stray is not None:
            return stray
    return None


def begins_above(folder: str, root: str) -> bool:
    """Say whether the repository of a folder of `root` has files outside of `root`. Both paths are real."""
    for top in _folders_up_to(folder, root):
        dot = os.path.join(top, ".git")
        # What a file or a link names was looked at; git goes no further, and fails if it is no repository.
        if os.path.isfile(dot) or _is_repository(dot):
            return False
    return any(
        os.path.lexists(os.path.join(top, ".git")) for top in _folders_up_to(os.path.dirname(root), os.sep)
    )


def _is_repository(folder: str) -> bool:
    """Say whether git takes a folder for its own; not if that is in doubt."""
    head = os.path.join(folder, "HEAD")
    text = f"ref: {os.readlink(head)}" if os.path.islink(head) else _text(head)
    common = os.path.join(folder, _text(os.path.join(folder, "commondir")).strip())
    return _HEAD.match(text) is not None and all(
        os.access(os.path.join(common, name), os.X_OK) for name in ("objects", "refs")
    )


def _folders_up_to(folder: str, root: str) -> Iterator[str]:
    while _is_inside(folder, root):
        yield folder
        if folder == os.path.dirname(folder):
            return
        folder = os.path.dirname(folder)


def _stray_place(top: str, root: str, is_secret: Callable[[str], bool]) -> str | None:
    dot = os.path.join(top, ".git")
    place = os.path.realpath(dot)
    if os.path.isfile(place):
        target = _text(place).strip().removeprefix(_GITDIR).strip()
        place = os.path.realpath(os.path.join(os.path.dirname(place), target))
    if not _is_inside(place, root):
        back = os.path.join(place, _text(os.path.join(place, "gitdir")).strip() or "-")
        names = [back, *(os.path.join(tree, ".git") for tree in _trees(place))]
        is_named = os.path.realpath(dot) in map(os.path.realpath, names) and not os.path.islink(dot)
        return None if is_named else _outside(place, _LEADS)
    common = os.path.realpath(os.path.join(place, _text(os.path.join(place, "commondir")).strip()))
    # Not what is in the folder of git, where the repository of a submodule is.
    trees = (_above_git(tree, root) for tree in (common, *_trees(place), *_trees(common)))
    if any(_INCLUDE.search(text) for text in _settings(place) + _settings(common)):
        return "has settings that include those of another file"
    leads = chain(((_LEADS, tree) for tree in trees), _leads([place, common]))
    for count, (how, path) in enumerate(leads):
        if count > ENTRIES_MAX:
            return f"has more than {ENTRIES_MAX:,} files in {shown_path(place)}, too many to look for links"
        if path and not _is_inside(path, root):
            return _outside(path, how)
        if path and is_secret(os.path.relpath(path, root)):
            return f"{how} {shown_path(path)}, which has the name of credentials"
    return None


def _above_git(path: str, root: str) -> str:
    above = f"{os.path.relpath(os.path.realpath(path), root)}/".partition(".git/")[0]
    return os.path.normpath(os.path.join(root, above))


def _outside(path: str, how: str) -> str:
    return f"{how} {shown_path(path)}, outside of the workspace"


def _leads(folders: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the targets of links and alternates in folders of git, and nothing for each other file."""
    queue = list(folders)
    seen: set[str] = set()
    while queue:
        folder = queue.pop()
        if folder in seen:
            continue
        seen.add(folder)
        is_repository = folder in folders or os.path.basename(os.path.dirname(folder)) == "modules"
        for entry in _entries(folder):
            if is_repository and entry.name in _NOT_READ:
                continue
            # Where the alternates of a linked folder lead depends on the way to it.
            target = os.path.realpath(os.sep if entry.name == "info" else entry.path)
            yield _LEADS, target if entry.is_symlink() else ""
            if entry.is_symlink() or entry.is_dir():
                queue.append(target if entry.is_symlink() else entry.path)
        if os.path.basename(folder) == "info":
            for target in _alternates(folder):
                yield _BORROWS, target
                queue.append(target)


def _entries(folder: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _alternates(info: str) -> list[str]:
    """Return the folders that a list of alternates names; any, if it is not plain."""
    text = _text(os.path.join(info, "alternates"))
    if len(os.fsencode(text)) == _FILE_BYTES_MAX or '"' in text:
        return [os.sep]
    lines = [line for line in text.split("\n") if line and not line.startswith("#")]
    # Git takes `..` for the folder above in the text.
    paths = [os.path.normpath(os.path.join(os.path.dirname(info), line)) for line in lines]
    return list(map(os.path.realpath, paths))


def _trees(place: str) -> list[str]:
    """Return the folders that the settings of a repository name; any, if they are not plain."""
    texts = _settings(place)
    values = [match[1] for text in texts for match in _SETTING.finditer(text)]
    if any(len(os.fsencode(text)) == _FILE_BYTES_MAX for text in texts) or any(
        "\\" in value for value in values
    ):
        return [os.sep]
    return [os.path.join(place, value.replace('"', "").strip()) for value in values]


def _settings(place: str) -> list[str]:
    return [_text(os.path.join(place, name)) for name in ("config", "config.worktree")]


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
