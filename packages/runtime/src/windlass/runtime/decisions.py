"""Decisions of a run, read from the journal and joined with the tools that were offered."""

from collections.abc import Iterable
from typing import Final

from windlass.errors import Rejected
from windlass.package import package_of
from windlass.ports.store import ContentStore, Journal, RunRow
from windlass.refusals import not_begun
from windlass.tools.question import ask_question
from windlass_harness.ledger.goals import with_evaluations
from windlass_harness.ledger.names import evaluation_session
from windlass_harness.record import Record
from windlass_harness.views.decisions import DecisionsState, fold_decisions, with_options
from windlass_harness.views.fold import Position
from windlass_harness.views.runs import run_id_of, start_run
from windlass_protocol import DecisionRun, DecisionRunStatus, ToolSpec

_RECORDS_PER_READ: Final = 512


async def decisions_of(row: RunRow, journal: Journal, *, content: ContentStore) -> DecisionRun:
    """Return the decisions of a run with their outcomes, and its failures.

    Only the records of the run are read; for a run that has ended, up to its end.

    Raises:
        Conflict: the run is queued and has no records yet.
    """
    if not row.first_seq:
        raise not_begun(row.run_id)
    state = DecisionsState(Position(row.session_id, row.first_seq - 1))
    can_ask, after = True, row.first_seq - 1
    while _goes_on(state, row.run_id):
        records = await journal.read(row.session_id, after=after, limit=_RECORDS_PER_READ)
        if not records:
            break
        can_ask, after = can_ask and _can_ask(records, row.run_id), records[-1].seq
        state = fold_decisions(records, state)
    run = with_evaluations(state.runs[row.run_id], await _judgements(journal, row.run_id))
    return with_options(run, await _offered(run, content, can_ask=can_ask))


async def _judgements(journal: Journal, run_id: str) -> list[Record]:
    """Return the judgements of a run: records outside of its session."""
    session_id = evaluation_session(run_id)
    found: list[Record] = []
    while more := await journal.read(
        session_id, after=found[-1].seq if found else 0, limit=_RECORDS_PER_READ
    ):
        found += more
    return found


def _goes_on(state: DecisionsState, run_id: str) -> bool:
    run = state.runs.get(run_id)
    return run is None or run.status is DecisionRunStatus.RUNNING


def _can_ask(records: Iterable[Record], run_id: str) -> bool:
    """Whether the channel of the run can ask people, according to these records."""
    starts = (start_run(record) for record in records if run_id_of(record) == run_id)
    return all(run is None or run.can_ask for run in starts)


async def _offered(run: DecisionRun, content: ContentStore, *, can_ask: bool) -> dict[str, list[ToolSpec]]:
    """Return the tools that were offered, by version of the agent."""
    named = [(decision.input_context or {}).get("packageFingerprint") for decision in run.decisions]
    offered: dict[str, list[ToolSpec]] = {}
    for fingerprint in dict.fromkeys(name for name in named if isinstance(name, str)):
        try:
            package = await package_of(content, fingerprint)
        except Rejected:  # the package is not stored any more
            continue
        tools = [tool for tool in package.tools or () if can_ask or tool.name != ask_question.name]
        agents = package.subagents or ()
        offered[fingerprint] = [
            *tools,
            *(ToolSpec(name=one.name, description=one.description, input_schema={}) for one in agents),
        ]
    return offered
