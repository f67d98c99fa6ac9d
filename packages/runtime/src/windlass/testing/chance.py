"""Names and chance that are the same in every run of a test."""

from dataclasses import dataclass
from typing import Final

_MASK: Final = 2**64 - 1
_DOUBLE_BITS: Final = 53


@dataclass(slots=True)
class SequentialIds:
    """An id factory that counts: id-1, id-2, id-3 …"""

    prefix: str = "id"
    count: int = 0

    def __call__(self) -> str:
        """Return the next name."""
        self.count += 1
        return f"{self.prefix}-{self.count}"


@dataclass(slots=True)
class SeededRandom:
    """Chance from a seed (SplitMix64): the same numbers in every version of Python."""

    seed: int = 0

    def __call__(self) -> float:
        """Return a number from 0 up to, and without, 1."""
        self.seed = (self.seed + 0x9E3779B97F4A7C15) & _MASK
        mixed = self.seed
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        mixed ^= mixed >> 31
        return (mixed >> (64 - _DOUBLE_BITS)) / 2**_DOUBLE_BITS


def sequential_ids(prefix: str = "id") -> SequentialIds:
    """Return an id factory that counts from 1."""
    return SequentialIds(prefix)


def seeded_random(seed: int) -> SeededRandom:
    """Return a source of chance that repeats."""
    return SeededRandom(seed & _MASK)
