"""Sessions that were driven lately: their next turn need not read them again.

A cache, and a small one: a session that waits costs a row, not memory. What is kept counts only if the
journal still ends where it did.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from windlass.engine.loading import Loaded
from windlass.engine.prompt import Prompt

SESSIONS_MAX: Final = 64
RECORDS_MAX: Final = 20_000
"""Of all sessions that are kept, together."""


@dataclass(frozen=True, slots=True)
class Known:
    """A session as its last driver left it."""

    loaded: Loaded
    prompt: Prompt


class Recent:
    """The sessions that were driven last."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._records = 0

    def take(self, session_id: str, *, seq: int) -> Known | None:
        """Return a session whose journal ends at `seq`; it is the caller's from now on."""
        known = self._known.pop(session_id, None)
        if known is None:
            return None
        self._records -= known.loaded.state.seq
        return known if known.loaded.state.seq == seq else None

    def keep(self, session_id: str, known: Known) -> None:
        """Keep a session that nobody drives any more, if there is room."""
        self.take(session_id, seq=0)
        self._known[session_id] = known
        self._records += known.loaded.state.seq
        while len(self._known) > SESSIONS_MAX or self._records > RECORDS_MAX:
            self.take(next(iter(self._known)), seq=0)
