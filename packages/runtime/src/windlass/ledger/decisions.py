"""Decisions of a run, read from the journal and joined with the tools that were offered."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from pydantic_core import from_json

from windlass.agent.package import package_of
from windlass.engine.writing.folds import RUN_BYTES, FoldCache
from windlass.errors import AgentError, Rejected
from windlass.feed.live import weight
from windlass.ports.catalog import RunRow
from windlass.ports.journal import Journal
from windlass.ports.store import ContentStore
from windlass.refusals import not_begun
from windlass.tools.question import ask_question
from windlass_harness.ledger.goals import with_evaluations
from windlass_harness.ledger.names import evaluation_session
from windlass_harness.record import Record
from windlass_harness.views.decisions import DecisionsState, fold_decisions, with_options
from windlass_harness.views.fold import Position, types_of
from windlass_harness.views.payloads import content_model
from windlass_harness.views.runs import RUN_ENDS, run_id_of, start_run
from windlass_protocol import DecisionRun, DecisionRunStatus, ResolverPart, ResolverScope, ToolSpec
from windlass_protocol.generated import records
from windlass_protocol.generated.records import (
    AgentResolved,
    DecisionOutcome,
    DecisionRecorded,
    ProblemReported,
    RunStarted,
)

if TYPE_CHECKING:
    from windlass.runtime.core import Core

DECISIONS_BYTES_MAX: Final = 32 * 1_048_576
RECORDS_PER_READ: Final = 2_048
"""Records that are read and folded at once: each fold begins with all decisions so far."""
DECISION_BYTES: Final = 6_144
"""Approximate bytes of a decision of the loop; its texts are cut."""


class DecisionsFold:
    """The decisions of one run."""

    def __init__(self, row: RunRow) -> None:
        self.seq = row.first_seq - 1
        self.is_broken = False
        self.can_ask = True
        """Whether the channel of the run can ask people."""
        self.resolved: list[Record] = []
        """The values of resolvers in this run."""
        self._run_id = row.run_id
        self._state = DecisionsState(Position(row.session_id, self.seq))
        self._recorded_bytes = 0

    @property
    def run(self) -> DecisionRun | None:
        """The run with its decisions; None before its first record."""
        return self._state.runs.get(self._run_id)

    @property
    def is_complete(self) -> bool:
        """Whether the run has ended."""
        return self.run is not None and self.run.status is not DecisionRunStatus.RUNNING

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        count = 0 if self.run is None else len(self.run.decisions)
        return RUN_BYTES + DECISION_BYTES * count + self._recorded_bytes

    def apply(self, records: Sequence[Record]) -> None:
        """Apply the next records, up to the end of the run."""
        if records:
            self.seq = records[-1].seq
            records = self._of_run(records)
            self.resolved += [
                record
                for record in records
                if record.type == AgentResolved.TYPE and record.run_id == self._run_id
            ]
            self.can_ask = self.can_ask and _can_ask(records, self._run_id)
            self._state = fold_decisions(records, self._state)
            self._recorded_bytes += sum(weight(record.data) for record in records if record.type in _RECORDED)

    def _of_run(self, records: Sequence[Record]) -> Sequence[Record]:
        for at, record in enumerate(records):
            if record.type in RUN_ENDS and run_id_of(record) == self._run_id:
                return records[: at + 1]
        return records


_OPENING_RECORDS: Final = 64
"""The first run of a session records what its resolvers return for the session before its first step."""
_RECORDED: Final = types_of(DecisionRecorded, DecisionOutcome, ProblemReported, RunStarted)
"""Records that a decision ledger keeps whole."""


def _can_ask(records: Iterable[Record], run_id: str) -> bool:
    """Whether the channel of the run can ask people, according to these records."""
    starts = (start_run(record) for record in records if run_id_of(record) == run_id)
    return all(run is None or run.can_ask for run in starts)


class DecisionFolds:
    """The folds of decisions that reads of one runtime share."""

    def __init__(self, journal: Journal) -> None:
        self._known = FoldCache[DecisionsFold](
            journal.read, DECISIONS_BYTES_MAX, records_per_read=RECORDS_PER_READ
        )

    async def read(self, row: RunRow) -> DecisionsFold:
        """Return the decisions of a run that has begun."""
        return await self._known.read(row.session_id, row.run_id, lambda: DecisionsFold(row))


class Decisions:
    """The decisions of the runs of a runtime."""

    def __init__(self, core: "Core") -> None:
        self._core = core
        self._folds = DecisionFolds(core.store)

    async def of_run(self, row: RunRow, *, after: int, limit: int | None) -> DecisionRun:
        """Return the decisions of a run; see `RunHandle.decisions`."""
        content, journal = self._core.content, self._core.store
        return await decisions_of(
            row, self._folds, content=content, journal=journal, after=after, limit=limit
        )


async def decisions_of(
    row: RunRow,
    folds: DecisionFolds,
    *,
    content: ContentStore,
    journal: Journal,
    after: int = 0,
    limit: int | None = None,
) -> DecisionRun:
    """Return the decisions of a run with their outcomes, and its failures; at most `limit`, after the first.

    Only the records of the run are read; for a run that has ended, up to its end.

    Raises:
        Conflict: the run is queued and has no records yet.
    """
    if not row.first_seq:
        raise not_begun(row.run_id)
    fold = await folds.read(row)
    if fold.run is None:  # its session was deleted just now
        raise not_begun(row.run_id)
    run = with_evaluations(fold.run, await _judgements(journal, row.run_id))
    if after or limit is not None:
        end = None if limit is None else after + limit
        run = run.model_copy(update={"decisions": run.decisions[after:end]})
    before = min(row.first_seq - 1, _OPENING_RECORDS)
    first = await journal.read(row.session_id, after=0, limit=before) if before > 0 else ()
    added = await _resolved_tools(
        [record for record in first if record.seq < row.first_seq], fold.resolved, content
    )
    return with_options(run, await _offered_tools(run, content, can_ask=fold.can_ask), added)


async def _judgements(journal: Journal, run_id: str) -> list[Record]:
    """Return the judgements of a run: records outside of its session."""
    session_id = evaluation_session(run_id)
    judgements: list[Record] = []
    while more := await journal.read(
        session_id, after=judgements[-1].seq if judgements else 0, limit=RECORDS_PER_READ
    ):
        judgements += more
    return judgements


async def _resolved_tools(
    first: Iterable[Record], resolved: Iterable[Record], content: ContentStore
) -> Callable[[int], Sequence[ToolSpec]]:
    """Return a function that gives the tools of resolvers at a step."""
    run_values = [
        (record.step_index or 0, record.body)
        for record in resolved
        if isinstance(record.body, records.AgentResolved)
    ]
    session_values = [(0, record.body) for record in first if isinstance(record.body, records.AgentResolved)]
    values = [*(value for value in session_values if value[1].scope is ResolverScope.SESSION), *run_values]
    tools: list[tuple[int, str, tuple[ToolSpec, ...]]] = []
    for index, value in values:
        if value.part is ResolverPart.TOOLS:
            try:
                body = from_json(await content.get(content_model(value.content_ref)))
            except AgentError:  # it is not stored any more
                continue
            specs = tuple(ToolSpec.model_validate(tool) for tool in body.get("tools", ()))
            tools.append((index, value.resolver, specs))

    def at(step: int) -> Sequence[ToolSpec]:
        newest = {name: specs for index, name, specs in tools if index <= step}
        return [tool for specs in newest.values() for tool in specs]

    return at


async def _offered_tools(
    run: DecisionRun, content: ContentStore, *, can_ask: bool
) -> dict[str, list[ToolSpec]]:
    """Return the tools that were offered, by version of the agent."""
    fingerprints = [(decision.input_context or {}).get("packageFingerprint") for decision in run.decisions]
    offered: dict[str, list[ToolSpec]] = {}
    for fingerprint in dict.fromkeys(name for name in fingerprints if isinstance(name, str)):
        try:
            package = await package_of(content, fingerprint)
        except Rejected:  # the package is not stored any more
            continue
        tools = [tool for tool in package.tools or () if can_ask or tool.name != ask_question.name]
        agents = package.subagents or ()
        offered[fingerprint] = [
            *tools,
            *(ToolSpec(name=agent.name, description=agent.description, input_schema={}) for agent in agents),
        ]
    return offered
