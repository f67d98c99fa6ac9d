"""The runs of a store in memory, in numbers."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from windlass.ports.store import (
    CountFilter,
    OpenRequest,
    RunCell,
    RunCounts,
    RunInfo,
    RunRow,
    RunTimes,
    SessionInfo,
    Waiting,
)
from windlass_protocol import RunStatus

_MILLISECOND: Final = timedelta(milliseconds=1)


def count_runs(
    infos: Iterable[RunInfo], sessions: Mapping[str, SessionInfo], *, wanted: CountFilter
) -> RunCounts:
    """Return runs in numbers."""
    cells: dict[tuple[int, RunStatus], list[RunInfo]] = {}
    took: dict[int | None, list[int]] = {}
    for info in infos:
        if not _is_wanted(info, sessions.get(info.session_id), wanted):
            continue
        bucket = _ms(wanted.start, info.started_at) // wanted.bucket_ms
        cells.setdefault((bucket, info.status), []).append(info)
        if info.ended_at is not None:
            for part in (bucket, None):
                took.setdefault(part, []).append(_ms(info.started_at, info.ended_at))
    times = [RunTimes(part, _quantile(one, 50), _quantile(one, 95)) for part, one in took.items()]
    return RunCounts(
        tuple(_cell(*key, cells[key]) for key in sorted(cells)),
        tuple(sorted(times, key=lambda one: (one.bucket is None, one.bucket))),
    )


def count_waiting(
    rows: Iterable[RunRow],
    asked: Sequence[OpenRequest],
    *,
    sessions: Mapping[str, SessionInfo],
    owner: str | None,
    agent_id: str | None,
) -> Waiting:
    """Return how much waits for people; runs of subagents count for their agent alone."""
    known = [sessions.get(row.session_id) for row in rows if row.status is RunStatus.WAITING]
    infos = [info for info in known if info is not None and owner in (None, info.owner)]
    count = sum(agent_id is not None or info.parent_session_id is None for info in infos)
    theirs = [one.asked_at for one in asked if owner in (None, one.owner)]
    return Waiting(count, len(theirs), min(theirs, default=None))


def _is_wanted(info: RunInfo, session: SessionInfo | None, wanted: CountFilter) -> bool:
    if session is None or info.started_at is None or wanted.owner not in (None, session.owner):
        return False
    if not wanted.start <= info.started_at < wanted.end:
        return False
    if wanted.agent_id is None:
        return session.parent_session_id is None
    return info.agent_id == wanted.agent_id


def _cell(bucket: int, status: RunStatus, runs: Sequence[RunInfo]) -> RunCell:
    return RunCell(
        bucket,
        status,
        len(runs),
        sum(one.usage.input_tokens or 0 for one in runs),
        sum(one.usage.output_tokens or 0 for one in runs),
        sum(one.usage.cost_micros or 0 for one in runs),
    )


def _ms(start: str | None, end: str | None) -> int:
    assert start is not None, "a run that counts has begun"
    assert end is not None, "only what has ended took its time"
    return round((datetime.fromisoformat(end) - datetime.fromisoformat(start)) / _MILLISECOND)


def _quantile(values: Sequence[int], percent: int) -> int:
    """A value that so many of all are not larger than."""
    return sorted(values)[(len(values) * percent + 99) // 100 - 1]
