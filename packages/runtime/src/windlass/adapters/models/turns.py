"""Messages in the form of an API, made once each while a conversation grows."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress, count
from operator import is_not
from typing import Generic, TypeVar
from weakref import ReferenceType, ref

from windlass.ports.model import LLMMessage

T = TypeVar("T")


@dataclass(slots=True)
class _Known(Generic[T]):
    """A conversation as it was asked about last."""

    first: ReferenceType[LLMMessage]
    rest: Sequence[LLMMessage] = ()
    """Its messages but the first, which is not to be kept alive."""
    turns: list[T] = field(default_factory=list[T])
    starts: list[int] = field(default_factory=list[int])
    """For each turn, the number of the message that began it."""


class Turns(Generic[T]):
    """The conversations that a provider is asked about, as turns of its API.

    `take` adds a message to turns: it appends one, replaces the last one, or does nothing. A conversation is
    known by its first message, and is forgotten with it. Messages are told apart by being themselves, so a
    step costs what it adds, and whatever was changed, dropped or put in between is made anew.
    """

    def __init__(self, take: Callable[[list[T], LLMMessage], None]) -> None:
        self._take = take
        self._known: dict[int, _Known[T]] = {}

    def of(self, messages: Sequence[LLMMessage]) -> list[T]:
        """Return the turns of a conversation; what is in the list is not to be changed."""
        if not messages:
            return []
        key, rest = id(messages[0]), messages[1:]
        # Taken out, so that nothing half made is left behind if a message is refused.
        known = self._known.pop(key, None) or _Known(ref(messages[0], partial(self._forget, key)))
        # No loop of ours: the history is compared at the speed of C.
        changes = compress(count(1), map(is_not, known.rest, rest))
        same = next(changes, 1 + min(len(known.rest), len(rest)))
        # A turn is whole once the next one has begun, so the last that may go on is made anew.
        kept = max(0, bisect_right(known.starts, same) - 1)
        begin = known.starts[kept] if known.starts and known.starts[kept] <= same else 0
        del known.turns[kept:], known.starts[kept:]
        for number in range(begin, len(messages)):
            self._take(known.turns, messages[number])
            if len(known.turns) > len(known.starts):
                known.starts.append(number)
        known.rest = rest
        self._known[key] = known
        return [*known.turns]

    @property
    def count(self) -> int:
        """How many conversations are known."""
        return len(self._known)

    def _forget(self, key: int, gone: "ReferenceType[LLMMessage]") -> None:
        self._known.pop(key, None)


def system_count(messages: Sequence[LLMMessage]) -> int:
    """Return how many messages of the system come before all others."""
    return next((at for at, one in enumerate(messages) if one.role != "system"), len(messages))
