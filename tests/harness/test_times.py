"""The time between two moments."""

import pytest

from windlass_harness.times import elapsed_ms


@pytest.mark.parametrize(
    ("start", "end", "ms"),
    [
        ("2026-01-31T09:00:00Z", "2026-01-31T09:00:01.250Z", 1250),
        ("2026-01-31T09:00:00+02:00", "2026-01-31T07:00:00Z", 0),
        ("2026-01-31T09:00:00.000000001Z", "2026-01-31T09:00:00.001999999Z", 1),
        ("2026-01-31T09:00:00Z", "2026-01-30T09:00:00Z", 0),
        ("2026-12-31T23:59:59.999Z", "2027-01-01T00:00:00Z", 1),
    ],
)
def test_time_is_counted_in_whole_milliseconds_and_never_back(start: str, end: str, ms: int) -> None:
    assert elapsed_ms(start, end) == ms
