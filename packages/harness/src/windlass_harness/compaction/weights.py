"""What a growing history weighs, without looking at all of it each time."""

from collections.abc import Sequence

from windlass_harness.compaction.tokens import Estimate, estimate_tokens
from windlass_protocol import ModelMessage


class Weights:
    """The estimates of the messages of one history; each is estimated once, if at all."""

    def __init__(self, estimate: Estimate = estimate_tokens) -> None:
        self._estimate = estimate
        self._first = 0
        """The first message that anybody asked about."""
        self._sums = [0]
        """From it on, what all messages before each one weigh together."""
        self._revision = 0

    def since(self, index: int, messages: Sequence[ModelMessage], *, revision: int) -> int:
        """Return what the messages from an index on weigh together.

        `revision` is another number each time messages that were there have changed.
        """
        is_shorter = self._first + len(self._sums) > len(messages) + 1
        if revision != self._revision or is_shorter or index < self._first or len(self._sums) == 1:
            self._first, self._sums, self._revision = index, [0], revision
        for message in messages[self._first + len(self._sums) - 1 :]:
            self._sums.append(self._sums[-1] + self._estimate(message))
        return self._sums[-1] - self._sums[index - self._first]
