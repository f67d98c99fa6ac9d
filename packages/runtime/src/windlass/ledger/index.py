"""The index and the exports of recorded runs."""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter
from pydantic_core import to_json

from windlass.errors import Corrupt
from windlass.ledger.kinds import RunStatus
from windlass.ledger.model import Run, RunSummary
from windlass.ledger.reading import FoldedRun, Session, in_one_go, read_session, run_of, summary_of
from windlass.ledger.wall import random_hex
from windlass.ports.recorded import (
    CAUSE,
    CHOICE,
    NODE,
    NODE_TYPE,
    RUN,
    TOOL,
    TYPE,
    Fact,
    IndexedRun,
    RunStore,
)
from windlass.private_files import make_folder, write_private
from windlass_harness.ledger.failures import GONE, cause_of
from windlass_harness.ledger.names import EVALUATIONS
from windlass_protocol import Decision, DecisionRun, DecisionRunStatus, DecisionType, FailureKind
from windlass_protocol.limits import INTEGER_MAX

INTENT_CHARS_MAX: Final = 50
"""Characters of an intent that choices are grouped by."""
NAME_CHARS_MAX: Final = 512
EXAMPLE_CHARS_MAX: Final = 500
SESSIONS_PER_LOOK: Final = 256
"""Sessions that are read per write to the index."""

_CALLS: Final = frozenset({DecisionType.TOOL_SELECTION, DecisionType.DELEGATION})
"""Decision types that choose a tool."""
_NOTHING: Final = (0, 0, 0, 0, 0)
_Indexed = tuple[IndexedRun, list[Fact], int]
_Sort = tuple[DecisionType, str, str, str, str | None]
"""Type, node, intent and choice of decisions, and the error of those that failed."""

_log: Final = logging.getLogger("windlass.ledger")


def finish_run(store: RunStore, run_id: str, *, folder: Path | None) -> None:
    """Index a run that has ended, and export it if there is a folder for that."""
    with in_one_go():
        session = read_session(store, run_id)
        run = session.runs.get(run_id)
        if run is None:
            return
        entry = _entry(run, session_id=run_id), list(facts_of(run.wire)), session.position
        store.write(lambda: _enter(store, (entry,), {run_id: session.position}))
        if folder is not None:
            export(run_of(run), folder)


def catch_up(store: RunStore) -> None:
    """Bring the index up to the end of the journal.

    An unreadable session is skipped and logged.
    """
    store.drain()
    while stale := store.write(lambda: _look_around(store)):
        entries: list[_Indexed] = []
        positions: dict[str, int] = {}
        for session_id, end in stale.items():
            session = _read(store, session_id)
            # An unreadable session is read again only after a further append.
            positions[session_id] = end if session is None else max(end, session.position)
            entries += () if session is None else _entries(session, session_id)
            if session is not None and session_id.startswith(EVALUATIONS):
                entries += _judged_sessions(store, session_id)
        store.write(lambda entries=entries, positions=positions: _enter(store, entries, positions))


def export(run: Run, folder: Path) -> None:
    """Write a run as JSON, atomically."""
    make_folder(folder)
    beside = folder / f".{run.id}.{random_hex(8)}"
    write_private(beside, run.to_json(indent=2))
    os.replace(beside, folder / f"{run.id}.json")


def read_summary(raw: bytes, status: RunStatus | None = None) -> RunSummary:
    """Return a summary from the index, with `status` if given."""
    summary = _summaries().validate_json(raw)
    if status is None or status is summary.status:
        return summary
    facts = summary.facts
    if facts is not None and status is RunStatus.STUCK:
        facts = replace(facts, status=DecisionRunStatus.STUCK, failure=FailureKind.INTERRUPTED, cause=GONE)
    return replace(summary, status=status, facts=facts)


@cache
def _summaries() -> TypeAdapter[RunSummary]:
    return TypeAdapter(RunSummary)


def facts_of(run: DecisionRun) -> Iterator[Fact]:
    """Return what a run adds to each count of the index."""
    yield Fact(RUN, run.status.value, total=1)
    counts: dict[tuple[str, str, str], list[int]] = {}
    examples: dict[tuple[str, str, str], str] = {}
    # Most decisions of a long run fall into a few groups, and each group enters several counts.
    for sort, added in _sorts(run.decisions).items():
        for kind, name, detail, example in _count_keys(*sort):
            key = (kind, name[:NAME_CHARS_MAX], detail[:NAME_CHARS_MAX])
            examples.setdefault(key, example)
            counts[key] = [count + more for count, more in zip(counts.get(key, _NOTHING), added, strict=True)]
    for key, added in counts.items():
        yield Fact(
            *key, *(min(number, INTEGER_MAX) for number in added), example=examples[key][:EXAMPLE_CHARS_MAX]
        )


def _sorts(decisions: Iterable[Decision]) -> dict[_Sort, list[int]]:
    """Group decisions by type, node, intent, choice and error, with their numbers."""
    sorts: dict[_Sort, list[int]] = {}
    for decision in decisions:
        outcome = decision.outcome
        error = None if outcome is None or outcome.success else outcome.error or ""
        sort = (
            decision.decision_type,
            decision.node_id,
            decision.intent[:INTENT_CHARS_MAX],
            decision.chosen_option_id,
            error,
        )
        added = sorts.get(sort)
        if added is None:
            added = sorts[sort] = [0, 0, 0, 0, 0]
        added[0] += 1
        if outcome is not None:
            added[1] += outcome.success
            added[2] += not outcome.success
            added[3] += outcome.tokens_used or 0
            added[4] += outcome.latency_ms or 0
    return sorts


def _count_keys(
    type_: DecisionType, node: str, intent: str, choice: str, error: str | None
) -> Iterator[tuple[str, str, str, str]]:
    yield NODE, node, "", ""
    yield NODE_TYPE, node, type_.value, ""
    yield TYPE, type_.value, "", ""
    yield CHOICE, intent, choice, ""
    if type_ in _CALLS:
        yield TOOL, choice, "", ""
    if error is not None:
        yield CAUSE, cause_of(error), "", error


def _look_around(store: RunStore) -> Mapping[str, int]:
    """Record which sessions changed; return some to read, each with its last position."""
    index, end = store.index, store.last_position()
    indexed_end = index.prepare()
    if end != indexed_end:
        index.advance(store.sessions_after(indexed_end), end)
    return index.stale(SESSIONS_PER_LOOK)


def _read(store: RunStore, session_id: str) -> Session | None:
    try:
        return read_session(store, session_id)
    except Corrupt as error:
        _log.warning("a session was skipped: %s", error)
        return None


def _entries(session: Session, session_id: str) -> Iterator[_Indexed]:
    for run in session.runs.values():
        if run.is_playground:
            # Counts and comparisons are about the work of an agent.
            continue
        yield _entry(run, session_id=session_id), list(facts_of(run.wire)), session.position


def _judged_sessions(store: RunStore, session_id: str) -> Iterator[_Indexed]:
    """Yield the sessions of the runs that a session of judgements refers to."""
    run_ids = {record.run_id for record in store.records(session_id) if record.run_id is not None}
    # A run that is not indexed yet is read together with its judgements later.
    entries = [entry for entry in map(store.index.run, run_ids) if entry is not None]
    for name in dict.fromkeys(entry.session_id for entry in entries):
        session = _read(store, name)
        if session is not None:
            yield from _entries(session, name)


def _enter(store: RunStore, entries: Iterable[_Indexed], positions: Mapping[str, int]) -> None:
    index, end = store.index, store.last_position()
    indexed_end = index.prepare()
    for entry, facts, position in entries:
        if index.position_of(entry.session_id) <= position:
            index.put(entry, facts, position=position)
    if end != indexed_end:
        index.advance(store.sessions_after(indexed_end), end)
    index.settle(positions)


def _entry(run: FoldedRun, *, session_id: str) -> IndexedRun:
    wire = run.wire
    return IndexedRun(
        run_id=wire.id,
        session_id=session_id,
        goal_id=wire.goal_id,
        status=wire.status.value,
        started_at=wire.started_at,
        last_at=run.last_at,
        writer=run.writer,
        summary=to_json(summary_of(wire)),
        owner=run.owner,
        agent_id=wire.agent_id or "",
    )
