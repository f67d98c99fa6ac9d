"""A store that fails now and then, in every way that a store on a network does."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from windlass.errors import Ambiguous, Unavailable
from windlass.ports.clock import Clock, Random
from windlass.testing.wrapped_store import WRITES, FullStore, WrappedStore
from windlass_protocol import ErrorKind, RetryClass

T = TypeVar("T")

Fault = Literal["refuse", "lose", "hide", "slow"]


@dataclass(frozen=True, slots=True)
class FaultRates:
    """How often each fault happens, from 0 to 1; at most 1 together."""

    refuse: float = 0.05
    """Nothing happens, and the caller is told so."""
    lose: float = 0.05
    """Nothing happens, and the caller is told that it may have."""
    hide: float = 0.05
    """It happens, and the caller is told that it may have."""
    slow: float = 0.05
    """It happens late."""
    delay_s: float = 10.0


DEFAULT_RATES: Final = FaultRates()


class FaultyStore(WrappedStore):
    """A store whose calls fail by chance, from a seed.

    `calls` counts what it was asked, `faults` what it did about it. A call that only reads cannot be half
    done: where a write would be lost or hidden, it is refused.
    """

    def __init__(
        self, inner: FullStore, *, random: Random, clock: Clock, rates: FaultRates = DEFAULT_RATES
    ) -> None:
        super().__init__(inner)
        self._random = random
        self._clock = clock
        self._rates = rates
        self.calls: Counter[str] = Counter()
        self.faults: Counter[Fault] = Counter()
        self.is_faulty = True
        """Set it to False for a store that works."""

    async def _pass(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        self.calls[name] += 1
        match self._draw(name):
            case "refuse":
                raise _refused(name)
            case "lose":
                raise _in_doubt(name)
            case "hide":
                await call()
                raise _in_doubt(name)
            case "slow":
                await self._clock.sleep(self._rates.delay_s)
            case None:
                pass
        return await call()

    def _draw(self, name: str) -> Fault | None:
        if not self.is_faulty:
            return None
        chance, rates = self._random(), self._rates
        odds: tuple[tuple[Fault, float], ...] = (
            ("refuse", rates.refuse),
            ("lose", rates.lose),
            ("hide", rates.hide),
            ("slow", rates.slow),
        )
        for fault, rate in odds:
            if chance < rate:
                found: Fault = "refuse" if fault in ("lose", "hide") and name not in WRITES else fault
                self.faults[found] += 1
                return found
            chance -= rate
        return None


def _refused(name: str) -> Unavailable:
    return Unavailable(
        f"{name} was refused by the faulty store: nothing happened",
        kind=ErrorKind.JOURNAL_FAILURE,
        retry=RetryClass.RETRYABLE,
    )


def _in_doubt(name: str) -> Ambiguous:
    return Ambiguous(
        f"{name} timed out in the faulty store: it may have happened",
        kind=ErrorKind.JOURNAL_FAILURE,
        retry=RetryClass.REPAIR_NEEDED,
    )
