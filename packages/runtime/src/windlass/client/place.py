"""Where a reader of a feed stands: what is new, what was seen, what is missing."""

from typing import Final, Literal

from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import Event

Verdict = Literal["new", "seen", "gap"]
"""What an event is to a reader: new, seen before, or behind one that never came."""
_STEP: Final = "step.started"


class FeedPlace:
    """Keeps count of what was read.

    Records have numbers without gaps in their session. Live deltas have a number in their step, which begins
    again with each `step.started`. In the feed of one run the records of other runs are left out, so numbers
    may be missing there.
    """

    def __init__(self, *, has_all: bool, is_from_start: bool) -> None:
        self._has_all = has_all
        self._seq = 0 if is_from_start else None
        self._index = -1

    def take(self, event: Event) -> Verdict:
        """Take the next event in, unless it was seen or something is missing before it."""
        if event.seq is None:
            return "new"
        return self._record(event.seq, event.type) if event.index is None else self._delta(event.index)

    def _record(self, seq: int, kind: str) -> Verdict:
        if self._seq is not None:
            if seq <= self._seq:
                return "seen"
            if self._has_all and seq > self._seq + 1:
                return "gap"
        self._seq = seq
        if kind == _STEP:
            self._index = -1
        return "new"

    def _delta(self, index: int) -> Verdict:
        if index <= self._index:
            return "seen"
        self._index = index
        return "new"


def ends_run(event: Event) -> bool:
    """Whether nothing but last deliveries comes behind an event of a run."""
    return event.type in RUN_ENDS
