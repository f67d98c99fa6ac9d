"""How far the compaction of a history has come, as its records tell it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from windlass_harness.loop.notes import HANDED_OVER, INTERRUPTED, Pause, number_in, pause_after
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import Record

THRESHOLD: Final = "threshold"
OVERFLOW: Final = "overflow"
ASKED: Final = "asked"


@dataclass(slots=True)
class Compacting:
    """The compaction under way, and what became of the last one."""

    reason: str = ""
    """Why the newest one was asked for: threshold, overflow or asked."""
    epoch: int | None = None
    """Of the owner that asked for the one under way; None if none is."""
    tokens: int = 0
    """What the history filled when it was asked for."""
    is_retry: bool = False
    """The next one repeats the last one."""
    pause: Pause | None = None
    """Before that."""
    failures: int = 0
    interruptions: int = 0
    """Attempts that ended with their owner."""
    tokens_after: int = 0
    """What the history filled after the last one of this run; 0 if there was none."""
    learned: int | None = None
    """What the model turned out to read at most, for the rest of the run."""
    is_overflow: bool = False
    """The model refused the length of the prompt: a compaction is due."""
    has_overflowed: bool = False
    """That was done for the step under way."""

    @property
    def is_open(self) -> bool:
        """Whether one is under way."""
        return self.epoch is not None

    @property
    def is_due(self) -> bool:
        """Whether one is under way, or is to be tried again."""
        return self.is_open or self.is_retry

    def apply(self, record: Record, *, is_at_rest: bool) -> None:
        """Take a record of a compaction, or of the end of a run."""
        if record.type not in RUN_ENDS:
            _FOLLOW[record.type](self, record)
        elif is_at_rest:
            self.end_run()

    def begin_run(self) -> None:
        """A run begins: what the last one found out may not hold for its model."""
        self.tokens_after, self.learned = 0, None
        self.end_step()

    def end_run(self) -> None:
        """A run has ended; what somebody asked for is done all the same."""
        if self.reason != ASKED:
            self._close()

    def end_step(self) -> None:
        """A model call came to its end."""
        self.is_overflow = self.has_overflowed = False

    def requested(self, record: Record) -> None:
        """Take that one is wanted."""
        reason = record.data.get("reason")
        self.reason = reason if isinstance(reason, str) else THRESHOLD
        self.epoch = record.epoch or 0
        self.tokens = number_in(record.data, "usageInputTokens")
        self.is_retry = False
        if self.reason == OVERFLOW:
            self.learned = lowered(self.tokens)

    def failed(self, record: Record) -> None:
        """Take that one failed, for now or for good."""
        if "delayMs" not in record.data:
            self._finish(self.tokens)
            return
        code = record.data.get("code")
        self.epoch, self.is_retry = None, True
        self.pause = pause_after(record, number_in(record.data, "delayMs"))
        self.failures += code not in (INTERRUPTED, HANDED_OVER)
        self.interruptions += code == INTERRUPTED

    def completed(self, record: Record) -> None:
        """Take that one is done."""
        self._finish(number_in(record.data, "inputTokensAfter"))

    def cleared(self, _: Record) -> None:
        """Take that there is no history any more."""
        self.tokens_after = 0

    def _finish(self, tokens_after: int) -> None:
        self._close()
        self.tokens_after = tokens_after
        self.has_overflowed = self.has_overflowed or self.is_overflow
        self.is_overflow = False

    def _close(self) -> None:
        self.epoch, self.is_retry, self.pause = None, False, None
        self.failures = self.interruptions = 0


def lowered(tokens: int) -> int:
    """Return the threshold for a history that has to get shorter, whatever it fills."""
    return tokens * 3 // 4


_FOLLOW: Final[dict[str, Callable[[Compacting, Record], None]]] = {
    "compaction.requested": Compacting.requested,
    "compaction.failed": Compacting.failed,
    "compaction.completed": Compacting.completed,
    "context.cleared": Compacting.cleared,
}
COMPACTION_RECORDS: Final = frozenset({*_FOLLOW, *RUN_ENDS})
"""What it is folded from; more is told by the loop."""
