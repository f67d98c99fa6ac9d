"""BuilderQuery: find, count and analyse recorded runs."""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from windlass.json_value import text_of
from windlass.ledger.hosted import runtime_location
from windlass.ledger.index import catch_up, read_summary
from windlass.ledger.kinds import RecordingError, RunStatus
from windlass.ledger.model import Run, RunSummary
from windlass.ledger.reading import in_one_go, read_session, run_of
from windlass.ledger.spool import DATABASE, FileLocation, folder_of
from windlass.ledger.wall import now_ms
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
    RunLook,
    RunStore,
)
from windlass.sqlite.schema import file_error
from windlass_harness.ledger.failures import Failure, classify, find_culprit
from windlass_harness.ledger.goals import RunFacts
from windlass_harness.ledger.tapes import Tape, read_tape
from windlass_harness.record import Record
from windlass_harness.views.runs import run_id_of
from windlass_protocol import Decision as WireDecision
from windlass_protocol import DecisionRun, DecisionRunStatus, FailureKind, JsonObject
from windlass_protocol.frozen import sealed

if TYPE_CHECKING:
    from windlass.runtime.compose import AgentRuntime


_CODE: Final = re.compile(r"[a-z][a-z0-9_.]*")
_EMPTY: Final = frozenset({"failed", "tool_failure"})
"""Error codes without information beyond the failure."""
CALLS_ENOUGH: Final = 5
"""With fewer calls, the rate at which a tool fails says little."""
NO_FAILED_DECISION: Final = "Unknown - no decision marked as failed"
OUTSIDE_CAUSE: Final = "Run failed but all decisions succeeded (external cause?)"
PENDING_CAUSE: Final = "Run failed and no decision did; {count} had no outcome (external cause?)"
INTERRUPTED: Final = "The process that recorded the run is gone; {count} decisions had no outcome"


@sealed
class FailureAnalysis:
    """Why a run failed, derived from its decisions."""

    run_id: str
    failure_point: str
    """The decision that caused it, in one line."""
    root_cause: str
    decision_chain: tuple[str, ...] = ()
    """The decisions up to that one, each in a line."""
    problems: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    decision_id: str | None = None
    """The decision that caused it; None if none failed."""
    kind: FailureKind = FailureKind.UNKNOWN
    """Kind of the failure."""

    def to_dict(self) -> JsonObject:
        """Return it as plain JSON data."""
        return {
            "run_id": self.run_id,
            "failure_point": self.failure_point,
            "root_cause": self.root_cause,
            "decision_chain": list(self.decision_chain),
            "problems": list(self.problems),
            "suggestions": list(self.suggestions),
            "decision_id": self.decision_id,
            "kind": self.kind.value,
        }

    def __str__(self) -> str:
        lines = [
            f"Failure of {self.run_id}: {self.kind.value}",
            f"At: {self.failure_point}",
            f"Root cause: {self.root_cause}",
        ]
        for title, texts in (
            ("Decisions", self.decision_chain),
            ("Problems", self.problems),
            ("Suggestions", self.suggestions),
        ):
            if texts:
                lines += ["", f"{title}:", *(f"  - {text}" for text in texts)]
        return "\n".join(lines)


@sealed
class PatternAnalysis:
    """Patterns in the runs of a goal."""

    goal_id: str
    run_count: int
    success_rate: float
    """Share of completed runs, from 0 to 1."""
    common_failures: tuple[tuple[str, int], ...] = ()
    """Causes of failures, each in its first wording, with counts; most frequent first."""
    problematic_nodes: tuple[tuple[str, float], ...] = ()
    """Nodes that often fail, with their failure rates from 0 to 1."""
    decision_patterns: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]]
    )

    def to_dict(self) -> dict[str, object]:
        """Return it as plain JSON data."""
        return {
            "goal_id": self.goal_id,
            "run_count": self.run_count,
            "success_rate": self.success_rate,
            "common_failures": [list(failure) for failure in self.common_failures],
            "problematic_nodes": [list(node) for node in self.problematic_nodes],
            "decision_patterns": dict(self.decision_patterns),
        }

    def __str__(self) -> str:
        lines = [f"Goal {self.goal_id}: {self.run_count} runs, {self.success_rate:.1%} completed"]
        if self.common_failures:
            lines += ["", "Failures:", *(f"  - {count} x {text}" for text, count in self.common_failures)]
        if self.problematic_nodes:
            lines += [
                "",
                "Nodes:",
                *(f"  - {node}: {rate:.1%} failed" for node, rate in self.problematic_nodes),
            ]
        return "\n".join(lines)


def analyze(run: Run, failure: Failure, *, culprit: WireDecision | None) -> FailureAnalysis:
    """Return why a run failed; `culprit` is the failed decision that caused it, if any."""
    problems = tuple(f"[{problem.severity}] {problem.description}" for problem in run.problems)
    fixes = [problem.suggested_fix for problem in run.problems if problem.suggested_fix]
    cause = next(
        (decision for decision in run.decisions if culprit is not None and decision.id == culprit.id), None
    )
    if cause is None:
        return FailureAnalysis(
            run.id,
            NO_FAILED_DECISION,
            _without_culprit(run, failure),
            trace(run),
            problems,
            tuple(fixes),
            kind=failure.kind,
        )
    blamed = next((p.root_cause for p in run.problems if p.decision_id == cause.id and p.root_cause), None)
    error = None if cause.outcome is None else cause.outcome.error
    return FailureAnalysis(
        run_id=run.id,
        failure_point=cause.summary_for_builder(),
        root_cause=_root_cause(blamed, error),
        decision_chain=trace(run)[: run.decisions.index(cause) + 1],
        problems=problems,
        suggestions=(*_suggestions(run), *fixes),
        decision_id=cause.id,
        kind=failure.kind,
    )


def _root_cause(blamed: str | None, error: str | None) -> str:
    """Return the root cause of a failure as text: a code alone is not enough."""
    if blamed is not None and error is not None and _CODE.fullmatch(blamed):
        return error if blamed in error or blamed in _EMPTY else f"{blamed}: {error}"
    return blamed or error or "Unknown"


def trace(run: Run) -> tuple[str, ...]:
    """Return the decisions of a run, each in a line."""
    return tuple(decision.summary_for_builder() for decision in run.decisions)


def compare(first: Run, second: Run) -> dict[str, object]:
    """Return how two runs differ."""
    return {"run_1": _in_short(first), "run_2": _in_short(second), "differences": _differences(first, second)}


def _in_short(run: Run) -> JsonObject:
    return {
        "id": run.id,
        "status": run.status.value,
        "decisions": len(run.decisions),
        "success_rate": run.metrics.success_rate,
    }


def _differences(first: Run, second: Run) -> list[str]:
    texts: list[str] = []
    if first.status != second.status:
        texts.append(f"Status: {first.status.value} vs {second.status.value}")
    if len(first.decisions) != len(second.decisions):
        texts.append(f"Decision count: {len(first.decisions)} vs {len(second.decisions)}")
    for index, decisions in enumerate(zip(first.decisions, second.decisions, strict=False)):
        first_choice, second_choice = (decision.chosen_option_id for decision in decisions)
        if first_choice != second_choice:
            texts.append(f"Diverged at decision {index}: chose '{first_choice}' vs '{second_choice}'")
            break
    nodes = set(first.metrics.nodes_executed), set(second.metrics.nodes_executed)
    for number, only in ((1, nodes[0] - nodes[1]), (2, nodes[1] - nodes[0])):
        if only:
            texts.append(f"Nodes only in run {number}: {', '.join(sorted(only))}")
    return texts


def _without_culprit(run: Run, failure: Failure) -> str:
    pending = run.metrics.pending_decisions
    if failure.kind is FailureKind.GOAL_MISSED:
        return failure.told
    if run.completed_at is None:
        return INTERRUPTED.format(count=pending)
    return PENDING_CAUSE.format(count=pending) if pending else OUTSIDE_CAUSE


def _suggestions(run: Run) -> Sequence[str]:
    suggestions: list[str] = []
    for decision in run.decisions:
        if not decision.has_failed:
            continue
        chosen_option = decision.chosen_option
        alternatives = [option for option in decision.options if option.id != decision.chosen_option_id]
        if alternatives:
            instead = (
                "unknown action" if chosen_option is None else chosen_option.description or chosen_option.id
            )
            alternative = alternatives[0].description or alternatives[0].id
            suggestions.append(f"Consider alternative: '{alternative}' instead of '{instead}'")
        if not decision.input_context:
            suggestions.append(
                f"Decision '{decision.intent}' had no input context - ensure relevant data is passed"
            )
        if decision.active_constraints:
            constraints = ", ".join(decision.active_constraints)
            suggestions.append(f"Review constraints: {constraints} - may be too restrictive")
    return tuple(dict.fromkeys(suggestions))


T = TypeVar("T")

_log: Final = logging.getLogger("windlass.ledger")

STUCK_AFTER_MS: Final = 60_000
"""A run without an end and without a process counts as stuck after this time without a record."""
COMMON_FAILURES_MAX: Final = 5
COMMON_CHOICES_MAX: Final = 20
NODES_MAX: Final = 1_000
CHOICES_LOOKED_AT_MAX: Final = 1_000
PROBLEMATIC_RATE: Final = 0.1
"""Failure rate above which a node is reported."""
BAD_RATE: Final = 0.3
"""Failure rate above which a node has high priority."""
REPEATED_MIN: Final = 2
OFTEN_MIN: Final = 5
"""Failures of one cause from which on it has high priority."""
GOOD_SUCCESS_RATE: Final = 0.8
_ALL: Final = -1
_RUN_NOT_FOUND: Final = "One or both runs not found"


class BuilderQuery:
    """Reads the runs that any process recorded in a folder; newest first.

    `storage_path` is the folder of a recorder or the file of an AgentRuntime, which records the runs of its
    agents automatically. `runtime` is an open AgentRuntime. A query sees every recorder call that has
    returned. It uses an index that it keeps up to date. A damaged run is skipped and logged.

    A missing folder has no runs; this is logged, and is no error, because the first run may be recorded
    later. All methods raise an AgentError if the store cannot be read. A reader needs write access, for the
    index and for the transfer of spool files.
    """

    def __init__(
        self, storage_path: str | Path | None = None, *, runtime: "AgentRuntime | None" = None
    ) -> None:
        if (storage_path is None) == (runtime is None):
            raise RecordingError("give either storage_path or runtime")
        if runtime is not None:
            self._location = runtime_location(runtime, durability="power")
        else:
            # The spool files may belong to a recorder with durability power.
            self._location = FileLocation(_database(storage_path), "power")
        self._lock = Lock()
        self._store: RunStore | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; the next query opens them again."""
        with self._lock:
            store, self._store = self._store, None
            if store is not None:
                store.close()

    def get_run_summary(self, run_id: str) -> RunSummary | None:
        """Return the summary of a run; None if it is unknown."""
        return self._ask(None, lambda store: _summary_of(store, run_id))

    def get_full_run(self, run_id: str) -> Run | None:
        """Return a run with all its decisions; None if it is unknown."""
        return self._ask(None, lambda store: _run_of(store, run_id))

    def list_runs_for_goal(self, goal_id: str, limit: int | None = None) -> list[RunSummary]:
        """Return summaries of the runs of a goal, newest first; all without a limit."""
        count = _ALL if limit is None else _count(limit)
        return self._ask([], lambda store: _summaries(store, store.index.of_goal(text_of(goal_id), count)))

    def get_recent_failures(self, limit: int = 10) -> list[RunSummary]:
        """Return the newest failed runs, newest first."""
        count = _count(limit)
        return self._ask([], lambda store: _summaries(store, store.index.of_status(RunStatus.FAILED, count)))

    def get_decision_run(self, run_id: str) -> DecisionRun | None:
        """Return a run in wire form, for the rules of `windlass_harness.ledger`."""
        return self._ask(None, lambda store: _wire_of(store, run_id))

    def get_tape(self, run_id: str) -> Tape | None:
        """Return the tape of a run: its task, the results of its calls and its answer."""
        return self._ask(None, lambda store: _tape_of(store, run_id))

    def get_records(self, run_id: str, *, is_before: bool = False) -> list[Record]:
        """Return the records of the session of a run, or only those before the run."""
        return self._ask([], lambda store: _records_of(store, run_id, is_before=is_before))

    def get_facts(self, goal_id: str, limit: int | None = None) -> list[RunFacts]:
        """Return the facts of the runs of a goal, newest first."""
        return [
            summary.facts for summary in self.list_runs_for_goal(goal_id, limit) if summary.facts is not None
        ]

    def list_facts(self, look: RunLook, limit: int | None = None) -> list[RunFacts]:
        """Return the facts of runs of any goal, newest first; all without a limit."""
        count = _ALL if limit is None else _count(limit)
        summaries = self._ask([], lambda store: _summaries(store, store.index.find_runs(look, count)))
        return [summary.facts for summary in summaries if summary.facts is not None]

    def list_failing_tools(self, look: RunLook, limit: int = 20) -> list[tuple[str, int, int]]:
        """Return tools with failures: name, calls, failures; the highest rate first, and tools with
        few calls last."""
        count = _count(limit)
        facts = self._ask((), lambda store: store.index.failing(look, TOOL, enough=CALLS_ENOUGH, limit=count))
        return [(fact.name, fact.total, fact.failed) for fact in facts]

    def count_tools(self, look: RunLook, bucket_s: int) -> tuple[tuple[int, Fact], ...]:
        """Return the calls of each tool by the interval of the start of their runs, from `wanted.since`."""
        return self._ask((), lambda store: store.index.over_time(look, TOOL, bucket_s=_count(bucket_s)))

    def analyze_failure(self, run_id: str) -> FailureAnalysis | None:
        """Return why a run failed, is stuck or missed its goal; None if it did not."""
        wire, run = self.get_decision_run(run_id), self.get_full_run(run_id)
        failure = None if wire is None else classify(wire)
        if run is None or wire is None or failure is None or failure.kind is FailureKind.CANCELLED:
            return None
        return analyze(run, failure, culprit=find_culprit(wire))

    def get_decision_trace(self, run_id: str) -> list[str]:
        """Return the decisions of a run, each in a line; empty if the run is unknown."""
        run = self.get_full_run(run_id)
        return [] if run is None else list(trace(run))

    def find_patterns(self, goal_id: str) -> PatternAnalysis | None:
        """Return patterns in the runs of a goal; None if it has no runs.

        Failures are grouped by cause: errors that differ only in numbers, ids, paths or quoted values are
        one. The cost does not depend on the number of runs.
        """
        return self._ask(None, lambda store: _patterns(store, text_of(goal_id)))

    def get_node_performance(self, node_id: str) -> dict[str, object]:
        """Return counts of a node over all goals; zeros if it is unknown."""
        name = text_of(node_id)
        nothing = _performance(name, (), ())
        return self._ask(
            nothing,
            lambda store: _performance(
                name, store.index.of_name(NODE, name), store.index.of_name(NODE_TYPE, name)
            ),
        )

    def compare_runs(self, run_id_1: str, run_id_2: str) -> dict[str, object]:
        """Return how two runs differ, or {"error": …} if one of them is unknown."""
        first, second = self.get_full_run(run_id_1), self.get_full_run(run_id_2)
        return {"error": _RUN_NOT_FOUND} if first is None or second is None else compare(first, second)

    def suggest_improvements(self, goal_id: str) -> list[dict[str, str]]:
        """Return suggestions for a goal, each with a priority."""
        patterns = self.find_patterns(goal_id)
        return [] if patterns is None else _improvements(patterns)

    def _ask(self, nothing: T, question: Callable[[RunStore], T]) -> T:
        with self._lock:
            try:
                if self._store is None:
                    if not self._location.is_there:
                        self._tell_missing()
                        return nothing
                    self._store = self._location.open()
                with in_one_go():
                    catch_up(self._store)
                    return question(self._store)
            except OSError as error:
                raise file_error(error) from error

    def _tell_missing(self) -> None:
        location = self._location
        if isinstance(location, FileLocation) and not location.database.parent.exists():
            _log.warning("%s does not exist: it has no recorded runs", location.database.parent)


def _database(storage_path: object) -> Path:
    """Return the journal file: in the folder of a recorder, or the file of a runtime."""
    if isinstance(storage_path, str | Path) and storage_path and Path(storage_path).is_file():
        return Path(storage_path).absolute()
    return folder_of(storage_path) / DATABASE


def _count(limit: object) -> int:
    """Return a limit; a negative one is 0."""
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise RecordingError(f"limit must be a whole number, found {type(limit).__name__}")
    return max(0, limit)


def _status_of(store: RunStore, entry: IndexedRun) -> RunStatus:
    """Return the status of a run: stuck if it has no end, no process and no recent record."""
    status = RunStatus(entry.status)
    if status is not RunStatus.RUNNING or not entry.writer or store.is_living(entry.writer):
        return status
    silent_ms = now_ms() - int(datetime.fromisoformat(entry.last_at).timestamp() * 1_000)
    return RunStatus.STUCK if silent_ms >= STUCK_AFTER_MS else status


def _summaries(store: RunStore, entries: Sequence[IndexedRun]) -> list[RunSummary]:
    return [read_summary(entry.summary, _status_of(store, entry)) for entry in entries]


def _summary_of(store: RunStore, run_id: object) -> RunSummary | None:
    entry = store.index.run(text_of(run_id))
    return None if entry is None else read_summary(entry.summary, _status_of(store, entry))


def _run_of(store: RunStore, run_id: object) -> Run | None:
    entry = store.index.run(text_of(run_id))
    if entry is None:
        return None
    run = read_session(store, entry.session_id).runs.get(entry.run_id)
    return None if run is None else run_of(run, status=_status_of(store, entry))


def _wire_of(store: RunStore, run_id: object) -> DecisionRun | None:
    entry = store.index.run(text_of(run_id))
    if entry is None:
        return None
    run = read_session(store, entry.session_id).runs.get(entry.run_id)
    status = DecisionRunStatus(_status_of(store, entry).value)
    return None if run is None else run.wire.model_copy(update={"status": status})


def _records_of(store: RunStore, run_id: object, *, is_before: bool) -> list[Record]:
    entry = store.index.run(text_of(run_id))
    records = [] if entry is None else list(store.records(entry.session_id))
    if entry is None or not is_before:
        return records
    begun = [
        record.seq for record in records if record.type == "run.started" and run_id_of(record) == entry.run_id
    ]
    return [record for record in records if begun and record.seq < begun[0]]


def _tape_of(store: RunStore, run_id: object) -> Tape | None:
    entry = store.index.run(text_of(run_id))
    return None if entry is None else read_tape(store.records(entry.session_id), entry.run_id)


def _patterns(store: RunStore, goal_id: str) -> PatternAnalysis | None:
    index = store.index
    runs = {fact.name: fact.total for fact in index.totals(goal_id, RUN, limit=_ALL)}
    count = sum(runs.values())
    if not count:
        return None
    causes = index.totals(goal_id, CAUSE, limit=COMMON_FAILURES_MAX)
    rates = ((fact.name, _failure_rate(fact)) for fact in index.totals(goal_id, NODE, limit=NODES_MAX))
    problematic = [(node, rate) for node, rate in rates if rate > PROBLEMATIC_RATE]
    types: dict[str, object] = {fact.name: fact.total for fact in index.totals(goal_id, TYPE, limit=_ALL)}
    return PatternAnalysis(
        goal_id=goal_id,
        run_count=count,
        success_rate=runs.get(RunStatus.COMPLETED, 0) / count,
        common_failures=tuple((fact.example or fact.name, fact.total) for fact in causes),
        problematic_nodes=tuple(sorted(problematic, key=lambda node_rate: (-node_rate[1], node_rate[0]))),
        decision_patterns={
            "decision_type_distribution": types,
            "common_choices": _choices(index.totals(goal_id, CHOICE, limit=CHOICES_LOOKED_AT_MAX)),
        },
    )


def _choices(facts: Sequence[Fact]) -> dict[str, object]:
    """Return the most frequent choice for each intent, and the number of others."""
    by_intent: dict[str, list[Fact]] = {}
    for fact in facts:
        by_intent.setdefault(fact.name, []).append(fact)
    return {
        intent: {"choice": some[0].detail, "count": some[0].total, "alternatives": len(some) - 1}
        for intent, some in list(by_intent.items())[:COMMON_CHOICES_MAX]
    }


def _failure_rate(fact: Fact) -> float:
    decided = fact.succeeded + fact.failed
    return fact.failed / decided if decided else 0.0


def _performance(node_id: str, facts: Sequence[Fact], types: Sequence[Fact]) -> dict[str, object]:
    succeeded, failed = sum(fact.succeeded for fact in facts), sum(fact.failed for fact in facts)
    decided = succeeded + failed
    distribution: dict[str, int] = {}
    for fact in types:
        distribution[fact.detail] = distribution.get(fact.detail, 0) + fact.total
    return {
        "node_id": node_id,
        "total_decisions": sum(fact.total for fact in facts),
        "success_rate": succeeded / decided if decided else 0.0,
        "avg_latency_ms": sum(fact.latency_ms for fact in facts) / decided if decided else 0.0,
        "total_tokens": sum(fact.tokens for fact in facts),
        "decision_type_distribution": distribution,
    }


def _improvements(patterns: PatternAnalysis) -> list[dict[str, str]]:
    improvements: list[dict[str, str]] = [
        {
            "type": "node_improvement",
            "target": node,
            "reason": f"Node has {rate:.1%} failure rate",
            "recommendation": f"Review and improve node '{node}'",
            "priority": "high" if rate > BAD_RATE else "medium",
        }
        for node, rate in patterns.problematic_nodes
    ]
    improvements += [
        {
            "type": "error_handling",
            "target": error,
            "reason": f"Error occurred {count} times",
            "recommendation": f"Add handling for: {error}",
            "priority": "high" if count >= OFTEN_MIN else "medium",
        }
        for error, count in patterns.common_failures
        if count >= REPEATED_MIN
    ]
    if patterns.success_rate < GOOD_SUCCESS_RATE:
        improvements.append(
            {
                "type": "architecture",
                "target": patterns.goal_id,
                "reason": f"Goal success rate is only {patterns.success_rate:.1%}",
                "recommendation": "Consider restructuring the agent, or improving the definition of the goal",
                "priority": "high",
            }
        )
    return improvements
