"""Paths as a model writes them: taken apart, or refused in words it can use."""

import unicodedata
from pathlib import PurePosixPath
from typing import Final

from windlass.toolbox.limits import NAME_BYTES_MAX, PATH_CHARS_MAX, PATH_PARTS_MAX
from windlass.tools import ToolFailed

GUARDED: Final = ".git"
"""What is in it can make harmless commands run programs, so nothing is written there."""


def parts_of(path: str, folder: str) -> tuple[str, ...]:
    """Return the names in a path that is relative to a folder, `..` among them.

    An absolute path is fine if it begins with the folder. Nothing is looked up: whoever walks the names stays
    inside the folder.

    Raises:
        ToolFailed: it cannot name anything in the folder.
    """
    if len(path) > PATH_CHARS_MAX:
        raise ToolFailed(f"the path is too long: {len(path):,} characters, limit {PATH_CHARS_MAX:,}")
    if "\0" in path:
        raise ToolFailed("the path has a NUL character in it; leave it out")
    if path.startswith("~"):
        raise ToolFailed("~ is not known here; write a path relative to the workspace")
    if path.startswith("/"):
        path = _inside(path, folder)
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if len(parts) > PATH_PARTS_MAX:
        raise ToolFailed(f"the path has too many parts: {len(parts):,}, limit {PATH_PARTS_MAX}")
    for part in parts:
        check_name(part)
    return parts


def check_name(name: str) -> None:
    """Refuse a name that no file can have."""
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise ToolFailed("the path has half a character in it; write it in UTF-8") from None
    if size > NAME_BYTES_MAX:
        raise ToolFailed(f"a name in the path is too long: {size:,} bytes, limit {NAME_BYTES_MAX}")


def is_guarded(name: str) -> bool:
    """Whether some file system takes a name for that of Git's own folder."""
    plain = "".join(one for one in unicodedata.normalize("NFKC", name) if unicodedata.category(one) != "Cf")
    plain = plain.casefold().partition(":")[0].rstrip(" .")
    return plain in {GUARDED, "git~1"}


def outside(path: str) -> ToolFailed:
    """Return the refusal of a path that leaves the workspace."""
    return ToolFailed(f"{shown_path(path)} is outside of the workspace; use a path inside it")


def shown_path(path: str) -> str:
    """Return a path as it can be shown: on one line, and not too long."""
    text = "".join(one if one.isprintable() else "\ufffd" for one in path[:200])
    return repr(text + ("…" if len(path) > 200 else ""))


def _inside(path: str, folder: str) -> str:
    # By whole names: /root-evil does not begin with the folder /root.
    names, root = PurePosixPath(path).parts, PurePosixPath(folder).parts
    if names[: len(root)] != root:
        raise outside(path)
    return "/".join(names[len(root) :])
