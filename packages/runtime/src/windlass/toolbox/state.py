"""Which files a session has seen, kept in its state."""

from hashlib import sha256
from typing import Final

from pydantic import JsonValue

from windlass.tool_context import CompactionContext
from windlass.tool_state import SessionValues, ToolState
from windlass.toolbox.limits import MARKED_PATH_CHARS_MAX, MARKS_MAX
from windlass.toolbox.paths import shown_path

PREFIX: Final = "windlass.file."
"""What the keys of marks begin with."""


class Marks:
    """Which content of a file a session has seen, by the hash of the content.

    Each file has a key of its own: calls that run side by side do not overwrite each other's marks. Those of
    a session that has seen many files go when new ones come; then such a file has to be read once more.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._place = sha256(folder.encode("utf-8", "surrogateescape")).hexdigest()[:8]

    def seen(self, state: SessionValues, path: str) -> str | None:
        """Return the hash of what the session saw last of a file."""
        mark = state.get(self._key(path))
        found = mark.get("sha256") if isinstance(mark, dict) else None
        return found if isinstance(found, str) else None

    def note(self, state: ToolState, path: str, *, digest: str) -> None:
        """Remember that the session has seen a file with this content."""
        key, mark = self._key(path), _mark(path, digest)
        if state.get(key) == mark:
            return
        # Taken away first, so that it is the newest.
        state.pop(key, None)
        known = [one for one in state if one.startswith(PREFIX)]
        for old in known[: len(known) + 1 - MARKS_MAX] if len(known) >= MARKS_MAX else ():
            del state[old]
        state.keep_own(key, mark)

    def reminder(self, context: CompactionContext) -> list[str]:
        """Return the words that say after a compaction which files were seen."""
        own = (mark for key, mark in context.state.items() if key.startswith(f"{PREFIX}{self._place}."))
        paths = sorted({str(mark["path"]) for mark in own if isinstance(mark, dict) and mark.get("path")})
        if not paths:
            return []
        return ["Files that you have read or written so far; read again what you need:\n" + "\n".join(paths)]

    def _key(self, path: str) -> str:
        # Hashed: the path may hold anything. Several workspaces may be used in one session.
        hashed = sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return f"{PREFIX}{self._place}.{hashed}"


def _mark(path: str, digest: str) -> JsonValue:
    return {"path": shown_path(path) if len(path) <= MARKED_PATH_CHARS_MAX else "", "sha256": digest}
