"""Two versions of an agent side by side: counts, and how sure the difference is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from windlass_harness.ledger.intervals import mean, mean_difference, rate, rate_difference
from windlass_protocol import Estimate, VersionComparison, VersionTally, VersionVerdict


@dataclass(frozen=True, slots=True)
class Sample:
    """One run, as far as a comparison goes; None for what nobody measured."""

    succeeded: bool
    cost_micros: float | None = None
    duration_ms: float | None = None
    tokens: float | None = None


def tally(fingerprint: str, samples: Sequence[Sample]) -> VersionTally:
    """Return what runs of one version came to."""
    succeeded = sum(sample.succeeded for sample in samples)
    return VersionTally(
        fingerprint=fingerprint,
        runs=len(samples),
        succeeded=succeeded,
        success_rate=rate(succeeded, len(samples)),
        cost_micros=mean(_known(sample.cost_micros for sample in samples)),
        duration_ms=mean(_known(sample.duration_ms for sample in samples)),
        tokens=mean(_known(sample.tokens for sample in samples)),
    )


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


def _verdict(gain: Estimate | None) -> VersionVerdict:
    if gain is None or gain.low is None or gain.high is None:
        return VersionVerdict.UNCLEAR
    if gain.low > 0:
        return VersionVerdict.BETTER
    return VersionVerdict.WORSE if gain.high < 0 else VersionVerdict.UNCLEAR


def _difference(old: Sequence[float | None], new: Sequence[float | None]) -> Estimate | None:
    return mean_difference(_known(old), _known(new))


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
