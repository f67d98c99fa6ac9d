"""What a growing history weighs, without looking at all of it each time."""

from collections.abc import Sequence

from windlass_harness.compaction.tokens import Estimate, estimate_tokens
from windlass_protocol import ModelMessage


class Weights:
    """The estimates of the messages of one history; each message is estimated once."""

    def __init__(self, estimate: Estimate = estimate_tokens) -> None:
        self._estimate = estimate
        self._sums = [0]
        """At each index, what all messages before it weigh together."""
        self._revision = 0

    def since(self, index: int, messages: Sequence[ModelMessage], *, revision: int) -> int:
        """Return what the messages from an index on weigh together.

        `revision` is another number each time messages that were there have changed.
        """
        if revision != self._revision or len(self._sums) > len(messages) + 1:
            self._sums, self._revision = [0], revision
        for message in messages[len(self._sums) - 1 :]:
            self._sums.append(self._sums[-1] + self._estimate(message))
        return self._sums[-1] - self._sums[index]
