"""The runs of a session, made of its records."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pydantic import JsonValue

from windlass.ports.archive import StoredAppend
from windlass.ports.listing import NO_USAGE, RunInfo
from windlass_harness.views.listing import RUN_STATUSES, told_by
from windlass_harness.views.runs import RUN_ENDS, run_id_of
from windlass_protocol import Record, RunStatus


def own_runs(session_id: str, appends: Iterable[StoredAppend]) -> tuple[RunInfo, ...]:
    """Return the runs of a session in the order in which they began.

    Those before a fork are of the session that it was forked from.
    """
    runs: dict[str, RunInfo] = {}
    for append in appends:
        first_seq = append.records[0].seq
        for record in append.records:
            if record.type == "session.forked":
                runs.clear()
            elif record.type in RUN_STATUSES:
                _follow(runs, record, session_id=session_id, first_seq=first_seq)
    return tuple(runs.values())


def _follow(runs: dict[str, RunInfo], record: Record, *, session_id: str, first_seq: int) -> None:
    run_id = run_id_of(record) or ""
    facts = _beginning(record)
    if facts is not None and run_id not in runs:
        runs[run_id] = RunInfo(
            run_id=run_id,
            session_id=session_id,
            agent_id=str(facts.get("agentId")),
            package_fingerprint=str(facts.get("packageFingerprint", "none")),
            status=RunStatus.PENDING,
            started_at=record.at if record.type == "run.started" else None,
            ended_at=None,
            usage=NO_USAGE,
            first_seq=first_seq,
            number=0,
        )
    run = runs.get(run_id)
    told = told_by([record])
    if run is None or told is None:
        return
    [change] = told.runs
    is_end = record.type in RUN_ENDS
    runs[run_id] = replace(
        run,
        status=change.status,
        ended_at=record.at if is_end else run.ended_at,
        usage=change.usage or run.usage,
    )


def _beginning(record: Record) -> Mapping[str, JsonValue] | None:
    """What a run began with, or would have."""
    if record.type == "run.started":
        return record.data
    facts = record.data.get("unstarted")
    return facts if isinstance(facts, dict) else None
