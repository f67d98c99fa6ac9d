"""The decision ledger: what runs chose, what came of it, and what went wrong.

Two kinds of choices meet in it: those that somebody recorded, and those of the tool loop, which nobody has to
record because its steps say them. A second outcome replaces the first. A decision without an outcome is
pending: neither success nor failure. Outcomes and judgements of decisions that nobody knows, and whatever was
recorded for no run, count as orphans. The narrative is written when the run ends and stays as it is.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from windlass_harness.views.choices import Pending, Words
from windlass_harness.views.decision_runs import ENDS, RunDraft, begun
from windlass_harness.views.decision_steps import STEP_RECORDS, StepsDraft
from windlass_harness.views.fold import START, Position, fold, read
from windlass_harness.views.runs import run_id_of
from windlass_protocol import (
    DecisionEvaluatedData,
    DecisionOutcomeData,
    DecisionRecordedData,
    DecisionRun,
    InputRequest,
    ProblemReportedData,
    Record,
    RunStartedData,
)


@dataclass(frozen=True, slots=True)
class DecisionsState:
    """The recorded runs of a session by their ids, in the order in which they began."""

    position: Position = START
    runs: Mapping[str, DecisionRun] = field(default_factory=dict[str, DecisionRun])
    run_id: str | None = None
    orphans: int = 0
    words: Words | None = None
    """The answer of the model that is being written."""
    calls: Mapping[str, Pending] = field(default_factory=dict[str, Pending])
    """Choices of the loop that wait for a result, by the ids of their calls."""
    answer: Pending | None = None
    """The newest answer without calls, until it is clear whether it was one."""
    questions: Mapping[str, InputRequest] = field(default_factory=dict[str, InputRequest])
    """What people are being asked by the model, by the ids of the requests."""


def fold_decisions(records: Iterable[Record], state: DecisionsState | None = None) -> DecisionsState:
    """Fold records of a session into its recorded runs.

    Raises:
        Gap: a record is not the next one of the session.
    """
    return fold(_Draft(state or DecisionsState()), records)


class _Draft:
    def __init__(self, state: DecisionsState) -> None:
        self.position = state.position
        self._runs = dict(state.runs)
        self._run_id = state.run_id
        self._orphans = state.orphans
        self._thawed: dict[str, RunDraft] = {}
        self._steps = StepsDraft(state.words, state.calls, answer=state.answer, questions=state.questions)

    def freeze(self) -> DecisionsState:
        thawed = {run_id: run.freeze() for run_id, run in self._thawed.items()}
        return DecisionsState(
            self.position,
            {**self._runs, **thawed},
            self._run_id,
            self._orphans,
            words=self._steps.words,
            calls=dict(self._steps.calls),
            answer=self._steps.answer,
            questions=dict(self._steps.questions),
        )

    def apply(self, record: Record) -> None:
        handle = _HANDLERS.get(record.type)
        if handle is not None:
            handle(self, record)
        elif record.type in STEP_RECORDS:
            run = self._run_of(record)
            if run is not None:
                self._steps.apply(record, run)

    def run_started(self, record: Record) -> None:
        data = read(RunStartedData, record.data)
        if data.run_id not in self._runs:
            self._run_id = data.run_id
            self._runs[data.run_id] = begun(data, record.at)

    def forked(self, record: Record) -> None:
        """The runs so far are those of the session that this one was copied from."""
        self.__init__(DecisionsState(self.position))

    def run_ended(self, record: Record) -> None:
        unstarted, run_id = record.data.get("unstarted"), run_id_of(record)
        if isinstance(unstarted, dict) and run_id not in self._runs:
            data = read(RunStartedData, unstarted)
            self._runs[data.run_id] = begun(data, record.at)
        run = self._run_of(record)
        if run is not None and run.is_open:
            self._steps.end(record, run)
            run.end(record)

    def decided(self, record: Record) -> None:
        run = self._run_of(record)
        if run is None:
            self._orphans += 1
        else:
            run.decide(read(DecisionRecordedData, record.data).decision)

    def settled(self, record: Record) -> None:
        run, data = self._run_of(record), read(DecisionOutcomeData, record.data)
        if run is None or not run.settle(data.decision_id, data.outcome):
            self._orphans += 1

    def judged(self, record: Record) -> None:
        run, data = self._run_of(record), read(DecisionEvaluatedData, record.data)
        if run is None or not run.judge(data.decision_id, data.evaluation):
            self._orphans += 1

    def reported(self, record: Record) -> None:
        run = self._run_of(record)
        if run is None:
            self._orphans += 1
        else:
            run.report(read(ProblemReportedData, record.data).problem)

    def _run_of(self, record: Record) -> RunDraft | None:
        """The run that a record names, or else the newest one."""
        run_id = run_id_of(record) or self._run_id
        if run_id is None or run_id not in self._runs:
            return None
        if run_id not in self._thawed:
            self._thawed[run_id] = RunDraft(self._runs[run_id])
        return self._thawed[run_id]


_HANDLERS: Final[dict[str, Callable[[_Draft, Record], None]]] = {
    "run.started": _Draft.run_started,
    "session.forked": _Draft.forked,
    "decision.recorded": _Draft.decided,
    "decision.outcome": _Draft.settled,
    "decision.evaluated": _Draft.judged,
    "problem.reported": _Draft.reported,
    **dict.fromkeys(ENDS, _Draft.run_ended),
}
