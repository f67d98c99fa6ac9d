"""Counts, durations and cost of runs over time."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from windlass.engine.clocks import stamp
from windlass.errors import check_whole, kind_of
from windlass.ports.listing import CountFilter, RunCell, RunCounts, RunTimes, Waiting
from windlass.refusals import bad_request, check_id
from windlass_protocol import RunStatus
from windlass_protocol.frozen import sealed

RunSplit = Literal["agent", "model", "owner", "version"]
"""What the runs of statistics are split by."""
BUCKETS_MAX: Final = 1_000
"""Time buckets of one query."""
BUCKET_S_MAX: Final = 366 * 86_400
_FIELDS: Final = {
    RunStatus.COMPLETED: "completed",
    RunStatus.FAILED: "failed",
    RunStatus.BUDGET_EXHAUSTED: "failed",
    RunStatus.CANCELLED: "cancelled",
}
"""The category of a finished run by status; all others are open."""


@sealed
class RunNumbers:
    """Counts, durations and cost of the runs that started in one time bucket."""

    at: str
    """The start of the bucket."""
    runs: int = 0
    completed: int = 0
    failed: int = 0
    """Failed runs, including those that used up their budget."""
    cancelled: int = 0
    open: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    """Input tokens that came from the cache of a provider."""
    cost_micros: int = 0
    p50_ms: int | None = None
    """Median duration of finished runs, waits included; None without any."""
    p95_ms: int | None = None
    """95th percentile of the duration."""


@sealed
class RunGroup:
    """The runs of one agent, model, version or owner over time."""

    name: str
    """The agent, the model, the fingerprint of the version, or the owner; empty for runs without one."""
    total: RunNumbers
    buckets: tuple[RunNumbers, ...]


@sealed
class RunStats:
    """Runs over time, and the work that waits for people now."""

    start: str
    end: str
    bucket_s: int
    total: RunNumbers
    buckets: tuple[RunNumbers, ...]
    """All buckets, oldest first."""
    waiting: Waiting
    groups: tuple[RunGroup, ...] = ()
    """The same runs by what they are split by, most runs first; empty without a split."""


def count_filter(
    start: datetime, end: datetime, *, bucket_s: int, agent_id: str | None, owner: str | None
) -> CountFilter:
    """Return the filter of the runs to count.

    Raises:
        Rejected: the time range is not valid, or it has too many buckets.
    """
    check_moment(start, "start")
    check_moment(end, "end")
    check_whole(bucket_s, "bucket_s", most=BUCKET_S_MAX)
    if end <= start:
        raise bad_request("end must be after start")
    count = -(-(end - start) // timedelta(seconds=bucket_s))
    if count > BUCKETS_MAX:
        raise bad_request(
            f"too many buckets: {count:,} of {bucket_s:,} s, limit {BUCKETS_MAX:,}: use longer ones"
        )
    return CountFilter(
        stamp(start.astimezone(UTC)),
        stamp(end.astimezone(UTC)),
        bucket_s * 1_000,
        None if agent_id is None else check_id(agent_id, "agent_id"),
        None if owner is None else check_id(owner, "owner"),
    )


def check_moment(value: object, what: str) -> None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise bad_request(f"{what} must be a datetime with a time zone, found {kind_of(value)}")


def check_split(value: object) -> RunSplit | None:
    """Return what statistics are split by.

    Raises:
        Rejected: it is not `agent`, `model`, `owner` or `version`.
    """
    match value:
        case None:
            return None
        case "agent":
            return "agent"
        case "model":
            return "model"
        case "version":
            return "version"
        case "owner":
            return "owner"
        case _:
            raise bad_request(f"split must be agent, model, owner or version, found {kind_of(value)}")


def stats_of(query: CountFilter, counts: RunCounts, *, waiting: Waiting) -> RunStats:
    """Return the statistics with all buckets, including empty ones."""
    total, buckets = _over_time(query, counts.cells, counts.times)
    return RunStats(query.start, query.end, query.bucket_ms // 1_000, total, buckets, waiting)


def groups_of(query: CountFilter, counts: RunCounts) -> tuple[RunGroup, ...]:
    """Return the counts of every group, most runs first."""
    names = sorted({cell.group for cell in counts.cells})
    groups = [
        RunGroup(
            name,
            *_over_time(
                query,
                [cell for cell in counts.cells if cell.group == name],
                [times for times in counts.times if times.group == name],
            ),
        )
        for name in names
    ]
    return tuple(sorted(groups, key=lambda group: -group.total.runs))


def _over_time(
    query: CountFilter, all_cells: Sequence[RunCell], times: Iterable[RunTimes]
) -> tuple[RunNumbers, tuple[RunNumbers, ...]]:
    """Return the whole time, and every bucket."""
    start, end = datetime.fromisoformat(query.start), datetime.fromisoformat(query.end)
    width = timedelta(milliseconds=query.bucket_ms)
    count = -(-(end - start) // width)
    cells: list[list[RunCell]] = [[] for _ in range(count)]
    for cell in all_cells:
        cells[cell.bucket].append(cell)
    by_bucket = {bucket_times.bucket: bucket_times for bucket_times in times}
    buckets = [
        _numbers(stamp(start + at * width), bucket_cells, by_bucket.get(at))
        for at, bucket_cells in enumerate(cells)
    ]
    return _numbers(query.start, all_cells, by_bucket.get(None)), tuple(buckets)


def _numbers(at: str, cells: Iterable[RunCell], times: RunTimes | None) -> RunNumbers:
    numbers = RunNumbers(at)
    if times is not None:
        numbers = replace(numbers, p50_ms=times.p50_ms, p95_ms=times.p95_ms)
    for cell in cells:
        name = _FIELDS.get(cell.status, "open")
        more = {name: getattr(numbers, name) + cell.count}
        numbers = replace(
            numbers,
            runs=numbers.runs + cell.count,
            input_tokens=numbers.input_tokens + cell.input_tokens,
            output_tokens=numbers.output_tokens + cell.output_tokens,
            cache_read_tokens=numbers.cache_read_tokens + cell.cache_read_tokens,
            cost_micros=numbers.cost_micros + cell.cost_micros,
            **more,
        )
    return numbers
