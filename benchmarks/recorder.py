"""The recorder beside a usual one: all in memory, one JSON at the end.

`python -m benchmarks --only recorder` writes the table; `python -m benchmarks.recorder` prints a short one.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any, Final, Protocol

from benchmarks.goals import Numbers
from benchmarks.measure import FULL as FULL_EFFORT
from benchmarks.measure import QUICK as QUICK_EFFORT
from benchmarks.measure import Effort, start_up
from windlass.ledger import BuilderQuery, Runtime
from windlass.ledger.index import catch_up
from windlass.ports.recorded import NumberedRow
from windlass.sqlite.recorded import RecordedStore

ROUNDS: Final = 5
LONG_ROUNDS: Final = 2


@dataclass(frozen=True, slots=True)
class Size:
    """How much to record."""

    pairs: tuple[int, int, int]
    end_decisions: int
    few_runs: int
    many_runs: int
    processes: int
    runs_each: int
    effort: Effort


FULL: Final = Size((100, 1_000, 20_000), 10_000, 3_000, 100_000, 4, 50, FULL_EFFORT)
QUICK: Final = Size((2, 3, 4), 3, 3, 500, 1, 2, QUICK_EFFORT)
FAILED_EVERY: Final = 3
OPTIONS: Final[list[dict[str, object]]] = [
    {
        "id": "ask",
        "description": "Ask the lead directly",
        "action_type": "tool_call",
        "action_params": {"tool": "send_email"},
        "pros": ["Direct answer"],
        "cons": ["Might be awkward"],
        "confidence": 0.6,
    },
    {
        "id": "infer",
        "description": "Infer from company size",
        "action_type": "generate",
        "pros": ["Fast", "Non-intrusive"],
        "cons": ["Less accurate"],
        "confidence": 0.8,
    },
]
WRITER: Final = """
import sys
from pathlib import Path
from benchmarks.recorder import InMemory, Runtime, short_run
recorder = (Runtime if sys.argv[1] == "ours" else InMemory)(Path(sys.argv[2]))
for number in range(int(sys.argv[3])):
    short_run(recorder, number)
"""


class Recorder(Protocol):
    """What both recorders are asked to do."""

    def start_run(self, goal_id: str) -> str: ...
    def decide(self, *arguments: Any, **named: Any) -> str: ...
    def record_outcome(self, *arguments: Any, **named: Any) -> None: ...
    def end_run(self, success: bool) -> None: ...


@dataclass(slots=True)
class InMemory:
    """The baseline: a run is a list in memory.

    Outcomes are looked for from its beginning, and the end writes the whole run, a summary and an index for
    each goal, status and node.
    """

    folder: Path
    run: dict[str, Any] = field(default_factory=dict[str, Any])
    number: int = 0

    def start_run(self, goal_id: str) -> str:
        self.number += 1
        run_id = f"run_{os.getpid()}_{self.number}"
        self.run = {"id": run_id, "goal_id": goal_id, "status": "running", "decisions": []}
        return run_id

    def decide(self, intent: str, options: list[dict[str, object]], *rest: str, **more: Any) -> str:
        chosen, reasoning = rest
        decision_id = f"dec_{len(self.run['decisions'])}"
        decision = {"id": decision_id, "intent": intent, "options": [dict(option) for option in options]}
        decision |= {"chosen": chosen, "reasoning": reasoning, **more, "outcome": None}
        self.run["decisions"].append(decision)
        return decision_id

    def record_outcome(self, decision_id: str, success: bool, **more: Any) -> None:
        for decision in self.run["decisions"]:
            if decision["id"] == decision_id:
                decision["outcome"] = {"success": success, **more}
                break

    def end_run(self, success: bool) -> None:
        run = self.run
        run["status"] = "completed" if success else "failed"
        self._write(f"runs/{run['id']}.json", run)
        self._write(f"summaries/{run['id']}.json", {"id": run["id"], "decisions": len(run["decisions"])})
        nodes = {decision.get("node_id", "unknown") for decision in run["decisions"]}
        names = [f"by_goal/{run['goal_id']}", f"by_status/{run['status']}", *(f"by_node/{n}" for n in nodes)]
        for name in names:
            path = self.folder / "indexes" / f"{name}.json"
            ids: list[str] = json.loads(path.read_text("utf-8")) if path.exists() else []
            self._write(f"indexes/{name}.json", [*ids, run["id"]])

    def _write(self, name: str, value: object) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".tmp")
        with beside.open("w", encoding="utf-8") as file:
            json.dump(value, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)

    def find_patterns(self, goal_id: str) -> tuple[int, Counter[str]]:
        """Read every run of a goal again."""
        ids = json.loads((self.folder / f"indexes/by_goal/{goal_id}.json").read_text("utf-8"))
        errors: Counter[str] = Counter()
        for run_id in ids:
            run = json.loads((self.folder / f"runs/{run_id}.json").read_text("utf-8"))
            errors.update(each["outcome"]["error"] for each in run["decisions"] if each["outcome"]["error"])
        return len(ids), errors


def pair(recorder: Recorder) -> None:
    """Record a decision and its outcome."""
    decision_id = recorder.decide(
        "Determine if lead has budget",
        OPTIONS,
        "infer",
        "Company data is available, asking would be slower",
        node_id="lead-qualifier",
        decision_type="tool_selection",
        constraints=["no_spam", "under_5_seconds"],
        context={"company_size": 500, "industry": "tech"},
    )
    recorder.record_outcome(
        decision_id,
        True,
        result={"has_budget": True, "estimated": "$50k"},
        summary="Inferred budget of $50k from company revenue",
        state_changes={"lead_qualified": True},
        tokens_used=150,
        latency_ms=420,
    )


def short_run(recorder: Recorder, number: int) -> None:
    """Record a run of one decision."""
    error = f"Timeout after {number} s" if number % FAILED_EVERY == 0 else None
    recorder.start_run("goal")
    decision_id = recorder.decide("Check", OPTIONS, "ask", "why", node_id="checker")
    recorder.record_outcome(decision_id, error is None, error=error, tokens_used=10)
    recorder.end_run(error is None)


def cpu_s(work: Callable[[], object]) -> float:
    began = process_time()
    work()
    return process_time() - began


def pairs_per_s(make: Callable[[Path], Recorder], count: int, rounds: int) -> float:
    """Return pairs in a CPU-second, in a run that has so many."""
    costs: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        recorder = make(Path(folder))
        for _ in range(rounds + 1):
            recorder.start_run("goal")
            costs.append(cpu_s(lambda: [pair(recorder) for _ in range(count)]))
            recorder.end_run(True)
    # The first round also loads what the first transaction needs.
    return count / min(costs[1:])


def end_cost_s(make: Callable[[Path], Recorder], decisions: int) -> float:
    """Return the CPU of the end of a long run."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = make(Path(folder))
        short_run(recorder, 1)
        recorder.start_run("goal")
        for _ in range(decisions):
            pair(recorder)
        return cpu_s(lambda: recorder.end_run(True))


def patterns_ms(
    make: Callable[[Path], Recorder], ask: Callable[[Path], Callable[[], object]], *, count: int
) -> float:
    """Return the CPU of finding patterns over runs that the recorder made."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = make(Path(folder))
        for number in range(count):
            short_run(recorder, number)
        question = ask(Path(folder))
        question()
        return min(cpu_s(question) for _ in range(ROUNDS)) * 1e3


def rows_of(number: int) -> Iterator[NumberedRow]:
    """Return the records of a run, as they would be after `short_run`."""
    run_id, at = f"run_{number:08d}", "2026-01-31T09:30:00.250Z"
    is_failed = number % FAILED_EVERY == 0
    decision = {"id": "dec_0", "timestamp": at, "nodeId": "checker", "intent": "Check", "reasoning": "why"}
    decision |= {"decisionType": "custom", "options": [{"id": "ask"}], "chosenOptionId": "ask"}
    outcome = {"success": not is_failed, **({"error": f"Timeout after {number} s"} if is_failed else {})}
    error = {"code": "rejected", "kind": "tool_failure", "retry": "not_retryable", "message": "It failed."}
    records: list[tuple[str, dict[str, object]]] = [
        ("run.started", {"runId": run_id, "agentId": "recorder", "goalId": "goal"}),
        ("decision.recorded", {"decision": decision}),
        ("decision.outcome", {"decisionId": "dec_0", "outcome": outcome}),
        ("run.failed", {"runId": run_id, "error": error})
        if is_failed
        else ("run.completed", {"runId": run_id}),
    ]
    for seq, (type_, data) in enumerate(records, 1):
        yield NumberedRow(run_id, seq, json.dumps([type_, at, data, run_id]).encode())


def many_patterns(count: int) -> tuple[float, float]:
    """Return the CPU in ms of finding patterns over very many runs, of indexing one."""
    with tempfile.TemporaryDirectory() as folder:
        store = RecordedStore(Path(folder) / "recorder.db")
        for first in range(0, count, 500):
            store.take_in(row for number in range(first, first + 500) for row in rows_of(number))
        indexing = cpu_s(lambda: catch_up(store)) / count
        store.close()
        query = BuilderQuery(folder)
        query.find_patterns("goal")
        return min(cpu_s(lambda: query.find_patterns("goal")) for _ in range(ROUNDS)) * 1e3, indexing * 1e3


def visible_runs(kind: str, *, processes: int, runs_each: int) -> tuple[int, int]:
    """Return how many runs of several processes are found, and how many failed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", WRITER, kind, folder, str(runs_each)]
        children = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(processes)]
        failed = sum(child.wait() != 0 for child in children)
        if kind == "ours":
            found = len(BuilderQuery(folder).list_runs_for_goal("goal"))
            if failed or found != processes * runs_each:
                raise RuntimeError(f"{failed} of {processes} processes failed, {found} runs were found")
            return found, failed
        try:
            return len(json.loads((Path(folder) / "indexes/by_goal/goal.json").read_text("utf-8"))), failed
        except (ValueError, OSError):
            return 0, failed


def ask_ours(folder: Path) -> Callable[[], object]:
    query = BuilderQuery(folder)
    return lambda: query.find_patterns("goal")


def ask_baseline(folder: Path) -> Callable[[], object]:
    return lambda: InMemory(folder).find_patterns("goal")


def report(size: Size = FULL) -> tuple[str, Numbers]:
    """Measure everything; return the section of the report. No goal is about it."""
    lines = [
        "## Recording decisions",
        "",
        "The baseline keeps a run in memory, looks for a decision from its beginning, and writes all of it",
        "as JSON at the end, with fsync, as the recorder with that interface does. Ours writes every call",
        "down before it returns (durability `process`). CPU of the process, the least of up to five rounds.",
        "",
        "| what | ours | baseline |",
        "|---|---:|---:|",
    ]
    for count in size.pairs:
        rounds = LONG_ROUNDS if count == size.pairs[-1] else ROUNDS
        ours, theirs = (pairs_per_s(make, count, rounds) for make in (Runtime, InMemory))
        what = f"decide + record_outcome, pairs per CPU-second in a run of {count:,}"
        lines.append(f"| {what} | {ours:,.0f} | {theirs:,.0f} |")
    few, many = size.few_runs, size.many_runs
    ends = [end_cost_s(make, size.end_decisions) for make in (Runtime, InMemory)]
    lines.append(f"| end_run after {size.end_decisions:,} decisions | {ends[0]:.2f} s | {ends[1]:.2f} s |")
    finds = patterns_ms(Runtime, ask_ours, count=few), patterns_ms(InMemory, ask_baseline, count=few)
    lines.append(f"| find_patterns over {few:,} runs | {finds[0]:.2f} ms | {finds[1]:,.0f} ms |")
    found, indexing = many_patterns(many)
    what = f"find_patterns over {many:,} runs, written straight into the store"
    lines.append(f"| {what} | {found:.2f} ms | – |")
    lines.append(f"| … indexing a run anew, when the index is gone | {indexing:.2f} ms | – |")
    processes, runs_each = size.processes, size.runs_each
    seen = [visible_runs(kind, processes=processes, runs_each=runs_each) for kind in ("ours", "baseline")]
    cells = [f"{count} of {processes * runs_each}, {failed} processes failed" for count, failed in seen]
    lines.append(f"| {processes} processes, {runs_each} runs each: found after | {cells[0]} | {cells[1]} |")
    code = "from windlass.ledger import Runtime, DecisionType"
    row = start_up("import", code, to="pydantic", other="import pydantic", effort=size.effort)
    lines.append(f"| CPU of `{code}` | {row.cost:.0f} ms | – |")
    return "\n".join(lines) + "\n", {}


def main() -> int:
    print(report(QUICK)[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
