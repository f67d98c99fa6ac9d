"""What tools remember of a session between two calls."""

from collections import OrderedDict
from hashlib import sha256
from typing import Protocol

from pydantic import JsonValue

from windlass.toolbox.limits import STATE_ENTRIES_MAX, STATE_SESSIONS_MAX


class SessionState(Protocol):
    """JSON values of a session, by name.

    A value that was set is there in every later call of the session. It should be as durable as the results
    of the calls: a mark that is lost only makes a tool ask for one more read.
    """

    async def get(self, session_id: str, name: str) -> JsonValue:
        """Return a value; None if there is none."""
        ...

    async def set(self, session_id: str, name: str, *, value: JsonValue) -> None:
        """Keep a value in place of the one before."""
        ...


class MemoryState:
    """Keeps values as long as the process lives; sessions not used for long go first."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, OrderedDict[str, JsonValue]] = OrderedDict()

    async def get(self, session_id: str, name: str) -> JsonValue:
        """Return a value; None if there is none."""
        entries = self._sessions.get(session_id)
        if entries is None:
            return None
        self._sessions.move_to_end(session_id)
        return entries.get(name)

    async def set(self, session_id: str, name: str, *, value: JsonValue) -> None:
        """Keep a value in place of the one before."""
        entries = self._sessions.setdefault(session_id, OrderedDict())
        self._sessions.move_to_end(session_id)
        entries[name] = value
        entries.move_to_end(name)
        while len(entries) > STATE_ENTRIES_MAX:
            entries.popitem(last=False)
        while len(self._sessions) > STATE_SESSIONS_MAX:
            self._sessions.popitem(last=False)


class Marks:
    """Which content of a file a session has seen, by the hash of the content.

    Each file has an entry of its own: calls that run side by side do not overwrite each other's marks.
    """

    def __init__(self, state: SessionState, *, folder: str) -> None:
        self._state = state
        self._folder = folder

    async def seen(self, session_id: str, path: str) -> str | None:
        """Return the hash of what the session saw last of a file."""
        mark = await self._state.get(session_id, self._name(path))
        return mark if isinstance(mark, str) else None

    async def note(self, session_id: str, path: str, *, digest: str) -> None:
        """Remember that the session has seen a file with this content."""
        await self._state.set(session_id, self._name(path), value=digest)

    def _name(self, path: str) -> str:
        # Hashed: the path may hold anything, and several workspaces may share one state.
        place = "\0".join((self._folder, path)).encode("utf-8", "surrogateescape")
        return f"file:{sha256(place).hexdigest()[:32]}"
