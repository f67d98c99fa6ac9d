"""Two versions of an agent side by side: counts, and how sure the difference is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from windlass_harness.ledger.intervals import (
    mean,
    mean_difference,
    paired_difference,
    rate,
    rate_difference,
)
from windlass_protocol import Estimate, VersionComparison, VersionTally, VersionVerdict


@dataclass(frozen=True, slots=True)
class Sample:
    """One run, as far as a comparison goes; None for what nobody measured."""

    succeeded: bool
    cost_micros: float | None = None
    duration_ms: float | None = None
    tokens: float | None = None


@dataclass(frozen=True, slots=True)
class _Average:
    """All attempts at one run."""

    share: float
    """Of attempts that succeeded."""
    cost_micros: float | None
    duration_ms: float | None
    tokens: float | None


def tally(fingerprint: str, samples: Sequence[Sample]) -> VersionTally:
    """Return what runs of one version came to."""
    return _tally(fingerprint, [_average([one]) for one in samples])


def compare_versions(
    old: tuple[str, Sequence[Sample]], new: tuple[str, Sequence[Sample]]
) -> VersionComparison:
    """Return two versions with their differences, new less old.

    Each is a fingerprint and its runs.

    The new one is better, or worse, if all of the interval of the difference of success rates says so.
    """
    before, after = tally(*old), tally(*new)
    gain = rate_difference((before.succeeded, before.runs), (after.succeeded, after.runs))
    return VersionComparison(
        old=before,
        new=after,
        verdict=_verdict(gain),
        success_rate=gain,
        cost_micros=_difference([one.cost_micros for one in old[1]], [one.cost_micros for one in new[1]]),
        duration_ms=_difference([one.duration_ms for one in old[1]], [one.duration_ms for one in new[1]]),
        tokens=_difference([one.tokens for one in old[1]], [one.tokens for one in new[1]]),
    )


def compare_attempts(
    old: tuple[str, Sequence[Sequence[Sample]]], new: tuple[str, Sequence[Sequence[Sample]]]
) -> VersionComparison:
    """Return two versions that did the same runs, with their differences.

    Each is a fingerprint and the attempts at every run, in the same order. A run counts once, with the means
    of its attempts: more attempts make it no more than one run. It succeeded if all of them did. What is
    compared is how both did the same run.
    """
    before, after = [_average(one) for one in old[1]], [_average(one) for one in new[1]]
    gain = paired_difference([one.share for one in before], [one.share for one in after])
    pairs = list(zip(before, after, strict=True))
    return VersionComparison(
        old=_tally(old[0], before),
        new=_tally(new[0], after),
        verdict=_verdict(gain),
        success_rate=gain,
        cost_micros=_change((one.cost_micros, other.cost_micros) for one, other in pairs),
        duration_ms=_change((one.duration_ms, other.duration_ms) for one, other in pairs),
        tokens=_change((one.tokens, other.tokens) for one, other in pairs),
    )


def _average(attempts: Sequence[Sample]) -> _Average:
    return _Average(
        sum(one.succeeded for one in attempts) / len(attempts),
        _mean(one.cost_micros for one in attempts),
        _mean(one.duration_ms for one in attempts),
        _mean(one.tokens for one in attempts),
    )


def _tally(fingerprint: str, runs: Sequence[_Average]) -> VersionTally:
    return VersionTally(
        fingerprint=fingerprint,
        runs=len(runs),
        succeeded=sum(one.share == 1 for one in runs),
        success_rate=rate(sum(one.share for one in runs), len(runs)),
        cost_micros=mean(_known(one.cost_micros for one in runs)),
        duration_ms=mean(_known(one.duration_ms for one in runs)),
        tokens=mean(_known(one.tokens for one in runs)),
    )


def _verdict(gain: Estimate | None) -> VersionVerdict:
    if gain is None or gain.low is None or gain.high is None:
        return VersionVerdict.UNCLEAR
    if gain.low > 0:
        return VersionVerdict.BETTER
    return VersionVerdict.WORSE if gain.high < 0 else VersionVerdict.UNCLEAR


def _difference(old: Sequence[float | None], new: Sequence[float | None]) -> Estimate | None:
    return mean_difference(_known(old), _known(new))


def _change(pairs: Iterable[tuple[float | None, float | None]]) -> Estimate | None:
    return mean([new - old for old, new in pairs if old is not None and new is not None])


def _mean(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return sum(known) / len(known) if known else None


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
