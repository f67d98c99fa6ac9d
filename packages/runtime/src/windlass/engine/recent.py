"""Sessions that were driven lately: their next turn need not read them again.

A cache, and a small one: a session that waits costs a row, not memory. What is kept counts only if the
journal still ends where it did.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from windlass.engine.loading import Loaded
from windlass.engine.prompt import Prompt
from windlass_harness.compaction import BYTES_PER_TOKEN

SESSIONS_MAX: Final = 64
BYTES_MAX: Final = 32 * 1_048_576
"""Of all sessions that are kept, together, about."""
MESSAGE_BYTES: Final = 2_048
"""What a message takes beside its text, and a session beside its messages."""


@dataclass(frozen=True, slots=True)
class Known:
    """A session as its last driver left it."""

    loaded: Loaded
    prompt: Prompt

    @property
    def size(self) -> int:
        """About how many bytes it takes; what was compacted takes none."""
        state = self.loaded.state
        history = state.session.history
        tokens = state.weights.since(0, history.messages, revision=history.revision)
        return BYTES_PER_TOKEN * tokens + MESSAGE_BYTES * (len(history.messages) + 1)


class Recent:
    """The sessions that were driven last."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[Known, int]] = OrderedDict()
        """With their sizes."""
        self._bytes = 0

    def take(self, session_id: str, *, seq: int) -> Known | None:
        """Return a session whose journal ends at `seq`; it is the caller's from now on."""
        if session_id not in self._known:
            return None
        known, size = self._known.pop(session_id)
        self._bytes -= size
        return known if known.loaded.state.seq == seq else None

    def keep(self, session_id: str, known: Known) -> None:
        """Keep a session that nobody drives any more, if there is room for it at all."""
        self.take(session_id, seq=0)
        size = known.size
        if size > BYTES_MAX:
            # The others need not make room for what does not fit.
            return
        self._known[session_id] = known, size
        self._bytes += size
        while len(self._known) > SESSIONS_MAX or self._bytes > BYTES_MAX:
            self.take(next(iter(self._known)), seq=0)
