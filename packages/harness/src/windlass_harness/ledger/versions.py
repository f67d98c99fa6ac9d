"""Comparison of two agent versions: exact tests, 95 % confidence intervals, and the verdict."""

from collections.abc import Iterable, Sequence
from math import atan, cos, exp, lcm, lgamma, pi, sqrt, tan
from typing import Final

from windlass_protocol import Estimate, VersionComparison, VersionTally, VersionVerdict
from windlass_protocol.frozen import sealed

Z: Final = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""
SIGNIFICANT: Final = 0.05
"""Versions differ if equal ones would differ as much with a probability below this."""
RUNS_MIN: Final = 5
"""Runs of each version below which a comparison is unclear.

An exact test alone would accept one run against 39 others (p = 0.025). So few runs often share an input or an
outage, and are not independent.
"""
_TIED: Final = 1 + 1e-7
"""Two probabilities within this factor are equal: rounding must not tell mirrored tables apart."""
_SUMS_MAX: Final = 65_536
"""Sums of gains that `paired_test` counts."""
_INSIDE: Final = 0.95
_STEPS: Final = 20
_PIECES: Final = 64
_MANY: Final = 1e6
"""Degrees of freedom from which t is approximated by the normal distribution."""


def rate(succeeded: float, total: int) -> Estimate | None:
    """Return a success rate with its Wilson interval; None without a trial. `succeeded` may be fractional."""
    if total == 0:
        return None
    share, spread = succeeded / total, Z * Z / total
    middle = (share + spread / 2) / (1 + spread)
    half = Z * sqrt(share * (1 - share) / total + spread / (4 * total)) / (1 + spread)
    # At the ends, rounding errors would miss 0 and 1 by the last digit.
    low = 0.0 if succeeded == 0 else middle - half
    high = 1.0 if succeeded == total else middle + half
    return Estimate(value=share, low=low, high=high)


def rate_difference(old: tuple[int, int], new: tuple[int, int]) -> Estimate | None:
    """Return the difference of success rates, new less old, with Newcombe's interval.

    Each argument is the number of successes and of trials; None if either has no trial.
    """
    before, after = rate(*old), rate(*new)
    if before is None or after is None:
        return None
    gain = after.value - before.value
    low = gain - sqrt((after.value - _low(after)) ** 2 + (_high(before) - before.value) ** 2)
    high = gain + sqrt((_high(after) - after.value) ** 2 + (before.value - _low(before)) ** 2)
    return Estimate(value=gain, low=low, high=high)


def fisher_test(old: tuple[int, int], new: tuple[int, int]) -> float:
    """Return the two-sided p-value of Fisher's exact test that two success rates are equal.

    Each argument is the number of successes and of trials. The value is the probability, given all successes
    together, of a table that is at most as likely as this one. The test never says "different" too often,
    however few the runs; Barnard's test is more powerful, but searches a maximum numerically.
    """
    (succeeded, trials), others = old, new[1]
    both = succeeded + new[0]
    least, most = max(0, both - others), min(both, trials)
    start = (both + 1) * (trials + 1) // (trials + others + 2)
    weights = {start: 1.0}
    # Weights relative to the most likely table: neither factorials nor overflow.
    for at in range(start, most):
        weights[at + 1] = weights[at] * (trials - at) * (both - at) / ((at + 1) * (others - both + at + 1))
    for at in range(start, least, -1):
        weights[at - 1] = weights[at] * at * (others - both + at) / ((trials - at + 1) * (both - at + 1))
    bound = weights[succeeded] * _TIED
    return min(1.0, sum(weight for weight in weights.values() if weight <= bound) / sum(weights.values()))


def paired_test(old: Sequence[tuple[int, int]], new: Sequence[tuple[int, int]]) -> float:
    """Return the two-sided p-value of an exact test that two versions do the same runs equally well.

    Each version has the successes and the attempts at every run, in the same order. If the versions are
    equal, every gain of a run might as well be a loss: the value is the share of all choices of signs with a
    sum of gains at least as far from 0. With one attempt at each run this is McNemar's exact test. If numbers
    of attempts differ so much that there are too many sums, only the signs of the gains count.
    """
    scale = lcm(*(attempts for _, attempts in (*old, *new)))
    gains = [
        after[0] * (scale // after[1]) - before[0] * (scale // before[1])
        for before, after in zip(old, new, strict=True)
    ]
    p_value = _sign_flips(gains)
    if p_value is None:
        p_value = _sign_flips([(gain > 0) - (gain < 0) for gain in gains])
    assert p_value is not None, "signs have few sums"
    return p_value


def _sign_flips(gains: Sequence[int]) -> float | None:
    """Return the share of all choices of signs with a sum as far from 0; None if there are too many sums."""
    sums = {0: 1}
    for gain in filter(None, gains):
        moved: dict[int, int] = {}
        for total, ways in sums.items():
            for there in (total + gain, total - gain):
                moved[there] = moved.get(there, 0) + ways
        if len(moved) > _SUMS_MAX:
            return None
        sums = moved
    far = abs(sum(gains))
    return sum(ways for total, ways in sums.items() if abs(total) >= far) / sum(sums.values())


def paired_difference(old: Sequence[float], new: Sequence[float]) -> Estimate | None:
    """Return the difference of success rates on the same runs, new less old.

    Each value is the share of attempts at a run that succeeded, in the same order for both. The interval is
    that of Bonett and Price; for shares between 0 and 1 it is conservative. None without runs.
    """
    gains = [after - before for before, after in zip(old, new, strict=True)]
    if not gains:
        return None
    total = len(gains) + 2
    won = (sum(gain for gain in gains if gain > 0) + 1) / total
    lost = (sum(-gain for gain in gains if gain < 0) + 1) / total
    middle = won - lost
    half = Z * sqrt((won + lost - middle * middle) / total)
    return Estimate(value=sum(gains) / len(gains), low=max(middle - half, -1.0), high=min(middle + half, 1.0))


def mean(values: Sequence[float]) -> Estimate | None:
    """Return a mean with its t interval; None without values."""
    if not values:
        return None
    middle = sum(values) / len(values)
    if len(values) == 1:
        return Estimate(value=middle)
    error = sqrt(_variance(values) / len(values))
    half = t_quantile(len(values) - 1) * error
    return Estimate(value=middle, low=middle - half, high=middle + half)


def mean_difference(old: Sequence[float], new: Sequence[float]) -> Estimate | None:
    """Return the difference of means, new less old, with Welch's interval.

    None if either has no values; no interval if either has only one.
    """
    if not old or not new:
        return None
    gain = sum(new) / len(new) - sum(old) / len(old)
    if len(old) == 1 or len(new) == 1:
        return Estimate(value=gain)
    parts = [_variance(values) / len(values) for values in (old, new)]
    total = sum(parts)
    if total == 0:
        return Estimate(value=gain, low=gain, high=gain)
    shares = [part / total for part in parts]
    freedom = 1 / (shares[0] ** 2 / (len(old) - 1) + shares[1] ** 2 / (len(new) - 1))
    half = t_quantile(freedom) * sqrt(total)
    return Estimate(value=gain, low=gain - half, high=gain + half)


def t_quantile(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's t, for one degree of freedom or more.

    With t = sqrt(n) tan(x) the density is that of cos(x) ** (n - 1), a smooth falling curve. Simpson's rule
    gives its integral, and Newton's method gives the angle; its steps come from below and never overshoot.
    """
    if freedom >= _MANY:
        return Z
    whole = sqrt(pi) / 2 * exp(lgamma(freedom / 2) - lgamma((freedom + 1) / 2))
    angle = atan(Z / sqrt(freedom))
    for _ in range(_STEPS):
        missing = _INSIDE * whole - _integral(freedom - 1, angle)
        angle += missing / cos(angle) ** (freedom - 1)
    return sqrt(freedom) * tan(angle)


def _integral(power: float, angle: float) -> float:
    """Return the integral of cos(x) ** power from 0 to an angle."""
    step = angle / _PIECES
    inner = sum((4 if at % 2 else 2) * cos(at * step) ** power for at in range(1, _PIECES))
    return (1 + inner + cos(angle) ** power) * step / 3


def _variance(values: Sequence[float]) -> float:
    middle = sum(values) / len(values)
    return sum((value - middle) ** 2 for value in values) / (len(values) - 1)


def _low(estimate: Estimate) -> float:
    return estimate.value if estimate.low is None else estimate.low


def _high(estimate: Estimate) -> float:
    return estimate.value if estimate.high is None else estimate.high


@sealed
class Sample:
    """One run as the input of a comparison; None for a measure that is missing."""

    succeeded: bool
    cost_micros: float | None = None
    duration_ms: float | None = None
    tokens: float | None = None


@sealed
class _Average:
    """The averages of all attempts at one run."""

    share: float
    """The share of successful attempts."""
    cost_micros: float | None
    duration_ms: float | None
    tokens: float | None


def tally(fingerprint: str, samples: Sequence[Sample]) -> VersionTally:
    """Return the tally of the runs of one version."""
    return _tally(fingerprint, [_average([sample]) for sample in samples])


def compare_versions(
    old: tuple[str, Sequence[Sample]], new: tuple[str, Sequence[Sample]]
) -> VersionComparison:
    """Compare two versions, each given as a fingerprint and its runs; differences are new less old.

    The verdict is "better" or "worse" only with `RUNS_MIN` runs of each version, if Fisher's exact test and
    the whole interval of the difference of success rates say so.
    """
    before, after = tally(*old), tally(*new)
    counts = (before.succeeded, before.runs), (after.succeeded, after.runs)
    gain = rate_difference(*counts)
    p_value = None if gain is None else fisher_test(*counts)
    return VersionComparison(
        old=before,
        new=after,
        verdict=_verdict(gain, p_value, runs=min(before.runs, after.runs)),
        success_rate=gain,
        p_value=p_value,
        cost_micros=_difference(
            [sample.cost_micros for sample in old[1]], [sample.cost_micros for sample in new[1]]
        ),
        duration_ms=_difference(
            [sample.duration_ms for sample in old[1]], [sample.duration_ms for sample in new[1]]
        ),
        tokens=_difference([sample.tokens for sample in old[1]], [sample.tokens for sample in new[1]]),
    )


def compare_attempts(
    old: tuple[str, Sequence[Sequence[Sample]]], new: tuple[str, Sequence[Sequence[Sample]]]
) -> VersionComparison:
    """Compare two versions that did the same runs, run by run.

    Each is a fingerprint and the attempts at every run, in the same order. A run counts once, with the means
    of its attempts, however many there are. It succeeded if all attempts did. The verdict is as in
    `compare_versions`, with the exact test for pairs.
    """
    before, after = [_average(attempts) for attempts in old[1]], [_average(attempts) for attempts in new[1]]
    gain = paired_difference([average.share for average in before], [average.share for average in after])
    p_value = None if gain is None else paired_test(_counts(old[1]), _counts(new[1]))
    pairs = list(zip(before, after, strict=True))
    return VersionComparison(
        old=_tally(old[0], before),
        new=_tally(new[0], after),
        verdict=_verdict(gain, p_value, runs=len(pairs)),
        success_rate=gain,
        p_value=p_value,
        cost_micros=_change((before_run.cost_micros, other.cost_micros) for before_run, other in pairs),
        duration_ms=_change((before_run.duration_ms, other.duration_ms) for before_run, other in pairs),
        tokens=_change((before_run.tokens, other.tokens) for before_run, other in pairs),
    )


def _average(attempts: Sequence[Sample]) -> _Average:
    return _Average(
        sum(sample.succeeded for sample in attempts) / len(attempts),
        _mean(sample.cost_micros for sample in attempts),
        _mean(sample.duration_ms for sample in attempts),
        _mean(sample.tokens for sample in attempts),
    )


def _tally(fingerprint: str, runs: Sequence[_Average]) -> VersionTally:
    return VersionTally(
        fingerprint=fingerprint,
        runs=len(runs),
        succeeded=sum(run.share == 1 for run in runs),
        success_rate=rate(sum(run.share for run in runs), len(runs)),
        cost_micros=mean(_drop_none(run.cost_micros for run in runs)),
        duration_ms=mean(_drop_none(run.duration_ms for run in runs)),
        tokens=mean(_drop_none(run.tokens for run in runs)),
    )


def _counts(runs: Sequence[Sequence[Sample]]) -> list[tuple[int, int]]:
    return [(sum(sample.succeeded for sample in attempts), len(attempts)) for attempts in runs]


def _verdict(gain: Estimate | None, p_value: float | None, *, runs: int) -> VersionVerdict:
    if gain is None or gain.low is None or gain.high is None or p_value is None:
        return VersionVerdict.UNCLEAR
    if runs < RUNS_MIN or p_value >= SIGNIFICANT:
        return VersionVerdict.UNCLEAR
    if gain.low > 0:
        return VersionVerdict.BETTER
    return VersionVerdict.WORSE if gain.high < 0 else VersionVerdict.UNCLEAR


def _difference(old: Sequence[float | None], new: Sequence[float | None]) -> Estimate | None:
    return mean_difference(_drop_none(old), _drop_none(new))


def _change(pairs: Iterable[tuple[float | None, float | None]]) -> Estimate | None:
    return mean([new - old for old, new in pairs if old is not None and new is not None])


def _mean(values: Iterable[float | None]) -> float | None:
    values_present = _drop_none(values)
    return sum(values_present) / len(values_present) if values_present else None


def _drop_none(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
