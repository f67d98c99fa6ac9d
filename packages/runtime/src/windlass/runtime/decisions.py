"""Decisions of a run, read from the journal and joined with the tools that were offered."""

from windlass.errors import Rejected
from windlass.package import package_of
from windlass.ports.store import ContentStore, Journal, RunRow
from windlass.refusals import not_begun
from windlass.runtime.folds import RECORDS_PER_READ, JournalFolds
from windlass.tools.question import ask_question
from windlass_harness.ledger.goals import with_evaluations
from windlass_harness.ledger.names import evaluation_session
from windlass_harness.record import Record
from windlass_harness.views.decisions import with_options
from windlass_protocol import DecisionRun, ToolSpec


async def decisions_of(
    row: RunRow, folds: JournalFolds, *, content: ContentStore, journal: Journal
) -> DecisionRun:
    """Return the decisions of a run with their outcomes, and its failures.

    Only the records of the run are read; for a run that has ended, up to its end.

    Raises:
        Conflict: the run is queued and has no records yet.
    """
    if not row.first_seq:
        raise not_begun(row.run_id)
    fold = await folds.decisions(row)
    if fold.run is None:  # its session was deleted just now
        raise not_begun(row.run_id)
    run = with_evaluations(fold.run, await _judgements(journal, row.run_id))
    return with_options(run, await _offered(run, content, can_ask=fold.can_ask))


async def _judgements(journal: Journal, run_id: str) -> list[Record]:
    """Return the judgements of a run: records outside of its session."""
    session_id = evaluation_session(run_id)
    found: list[Record] = []
    while more := await journal.read(session_id, after=found[-1].seq if found else 0, limit=RECORDS_PER_READ):
        found += more
    return found


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
