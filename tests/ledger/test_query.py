"""Queries over recorded runs."""

import itertools
import sqlite3
from pathlib import Path

import pytest
from tests.ledger.samples import GOAL, OPTIONS, decide, record

from windlass.ledger import (
    BuilderQuery,
    FailureAnalysis,
    RecordingError,
    RunStatus,
    RunSummary,
    Runtime,
    wall,
)
from windlass.ledger.query import COMMON_FAILURES_MAX
from windlass.ports.recorded import RunLook
from windlass_harness.ledger.failures import cause_of
from windlass_protocol import FailureKind

HOSTILE = [
    "../../etc/passwd",
    "",
    "a/b",
    "'; DROP TABLE recorder_runs; --",
    "\x00",
    "\ud800",
    "x" * 100_000,
    "%",
    None,
]


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(tmp_path, strict=True)


@pytest.fixture
def query(tmp_path: Path) -> BuilderQuery:
    return BuilderQuery(tmp_path)


def test_a_place_without_runs_answers_nothing_and_is_not_made(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    query = BuilderQuery(tmp_path / "nothing")
    assert query.get_run_summary("a") is None
    assert query.get_full_run("a") is None
    assert query.list_runs_for_goal("a") == query.get_recent_failures() == query.get_decision_trace("a") == []
    assert query.find_patterns("a") is query.analyze_failure("a") is None
    assert query.suggest_improvements("a") == []
    assert query.compare_runs("a", "b") == {"error": "One or both runs not found"}
    assert query.get_node_performance("a") == {
        "node_id": "a",
        "total_decisions": 0,
        "success_rate": 0.0,
        "avg_latency_ms": 0.0,
        "total_tokens": 0,
        "decision_type_distribution": {},
    }
    assert not (tmp_path / "nothing").exists()
    assert f"{tmp_path / 'nothing'} does not exist: it has no recorded runs" in caplog.text


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_find_nothing_and_harm_nothing(
    runtime: Runtime, query: BuilderQuery, name: str
) -> None:
    run_id = record(runtime)
    assert query.get_full_run(name) is query.get_run_summary(name) is query.analyze_failure(name) is None
    assert query.find_patterns(name) is None
    assert (
        query.list_runs_for_goal(name)
        == query.get_decision_trace(name)
        == query.suggest_improvements(name)
        == []
    )
    assert query.get_node_performance(name)["total_decisions"] == 0
    assert query.compare_runs(name, run_id) == {"error": "One or both runs not found"}
    assert [run.run_id for run in query.list_runs_for_goal(GOAL)] == [run_id]


@pytest.mark.parametrize("name", [name for name in HOSTILE if name is not None and len(name) < 100])
def test_hostile_names_can_be_recorded_and_found(runtime: Runtime, query: BuilderQuery, name: str) -> None:
    run_id = record(runtime, goal_id=name, node_id=name)
    assert [run.run_id for run in query.list_runs_for_goal(name)] == [run_id]
    assert query.get_node_performance(name)["total_decisions"] == 1


def test_runs_come_newest_first(
    runtime: Runtime, query: BuilderQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Those of one millisecond come in the order of their ids.
    clock = itertools.count(wall.now_ms())
    monkeypatch.setattr(wall, "now_ms", lambda: next(clock))
    ids = [record(runtime, error="Timeout" if number % 2 else None) for number in range(15)]
    assert [run.run_id for run in query.list_runs_for_goal(GOAL)] == ids[::-1]
    assert [run.run_id for run in query.list_runs_for_goal(GOAL, limit=4)] == ids[:-5:-1]
    assert [run.run_id for run in query.get_recent_failures(3)] == [ids[13], ids[11], ids[9]]
    assert len(query.get_recent_failures()) == 7
    assert query.get_recent_failures(0) == query.get_recent_failures(-1) == []


def test_a_summary_has_the_counts_of_the_run(runtime: Runtime, query: BuilderQuery) -> None:
    run_id = runtime.start_run(GOAL)
    runtime.record_outcome(decide(runtime, "One"), True, summary="Found it")
    runtime.record_outcome(decide(runtime, "Two"), False, error="Lost it")
    decide(runtime, "Three")
    runtime.report_problem("critical", "Very bad")
    runtime.report_problem("warning", "Not good")
    runtime.end_run(False, "It did not work")
    summary = query.get_run_summary(run_id)
    assert summary == RunSummary(
        run_id=run_id,
        goal_id=GOAL,
        status=RunStatus.FAILED,
        duration_ms=summary.duration_ms if summary else 0,
        decision_count=3,
        success_rate=0.5,
        problem_count=2,
        narrative="It did not work",
        key_decisions=("✗ [unknown] Two → Infer from company size",),
        critical_problems=("Very bad",),
        warnings=("Not good",),
        successes=("Found it",),
        facts=summary.facts if summary else None,
    )
    assert summary is not None
    assert summary.facts is not None
    assert (summary.facts.failure, summary.facts.cause) == (FailureKind.TOOL_ERROR, "Lost it")


def test_a_run_under_way_is_seen_by_others_as_far_as_it_is(runtime: Runtime, query: BuilderQuery) -> None:
    run_id = runtime.start_run(GOAL)
    for count in range(1, 4):
        runtime.record_outcome(decide(runtime), count != 3, error="Timeout")
        summary = query.get_run_summary(run_id)
        assert summary is not None
        assert (summary.status, summary.decision_count) == (RunStatus.RUNNING, count)
    patterns = query.find_patterns(GOAL)
    assert patterns is not None
    assert (patterns.run_count, patterns.success_rate, patterns.common_failures) == (
        1,
        0.0,
        (("Timeout", 1),),
    )
    runtime.end_run(True)
    patterns = query.find_patterns(GOAL)
    assert patterns is not None
    assert (patterns.run_count, patterns.success_rate, patterns.common_failures) == (
        1,
        1.0,
        (("Timeout", 1),),
    )


def failed_run(runtime: Runtime, *outcomes: tuple[str, bool | None], blamed: str | None = None) -> str:
    """Record a run of decisions by their intents; None is pending."""
    run_id = runtime.start_run(GOAL)
    for intent, success in outcomes:
        decision_id = decide(runtime, intent)
        if success is not None:
            runtime.record_outcome(decision_id, success, error=None if success else f"{intent} broke")
    if blamed is not None:
        runtime.report_problem("critical", "Here", blamed, "The real cause", "Mend it")
    runtime.end_run(False)
    return run_id


def analysis_of(query: BuilderQuery, run_id: str) -> FailureAnalysis:
    analysis = query.analyze_failure(run_id)
    assert analysis is not None
    return analysis


def test_a_failure_is_blamed_on_the_decision_that_caused_it(runtime: Runtime, query: BuilderQuery) -> None:
    run_id = failed_run(runtime, ("wait", None), ("fetch", True), ("parse", False), ("report", None))
    analysis = analysis_of(query, run_id)
    assert (analysis.decision_id, analysis.root_cause) == ("dec_2", "parse broke")
    assert analysis.failure_point == "✗ [unknown] parse → Infer from company size"
    assert [line[:2] for line in analysis.decision_chain] == ["… ", "✓ ", "✗ "]
    assert analysis.suggestions == (
        "Consider alternative: 'Ask directly' instead of 'Infer from company size'",
        "Decision 'parse' had no input context - ensure relevant data is passed",
    )
    assert analysis.to_dict()["decision_id"] == "dec_2"
    assert "Root cause: parse broke" in str(analysis)


def test_a_failure_that_was_made_good_is_not_blamed(runtime: Runtime, query: BuilderQuery) -> None:
    run_id = failed_run(runtime, ("fetch", False), ("fetch", True), ("parse", False), ("clean up", False))
    assert analysis_of(query, run_id).decision_id == "dec_2"
    only_made_good = failed_run(runtime, ("fetch", False), ("fetch", True))
    assert analysis_of(query, only_made_good).decision_id == "dec_0"


def test_a_critical_problem_says_which_decision_it_was(runtime: Runtime, query: BuilderQuery) -> None:
    analysis = analysis_of(query, failed_run(runtime, ("fetch", False), ("parse", False), blamed="dec_1"))
    assert (analysis.decision_id, analysis.root_cause) == ("dec_1", "The real cause")
    assert analysis.problems == ("[critical] Here",)
    assert analysis.suggestions[-1] == "Mend it"


@pytest.mark.parametrize(
    ("success", "cause"),
    [
        (True, "Run failed but all decisions succeeded (external cause?)"),
        (None, "Run failed and no decision did; 1 had no outcome (external cause?)"),
    ],
)
def test_a_failure_without_a_failed_decision_says_so(
    runtime: Runtime, query: BuilderQuery, success: bool | None, cause: str
) -> None:
    analysis = analysis_of(query, failed_run(runtime, ("fetch", success)))
    assert analysis.failure_point == "Unknown - no decision marked as failed"
    assert (analysis.decision_id, analysis.root_cause) == (None, cause)


def test_a_run_that_did_not_fail_has_no_failure(runtime: Runtime, query: BuilderQuery) -> None:
    assert query.analyze_failure(record(runtime)) is None
    runtime.start_run(GOAL)
    run = runtime.current_run
    assert run is not None
    assert query.analyze_failure(run.id) is None


def test_failures_are_grouped_by_cause(runtime: Runtime, query: BuilderQuery) -> None:
    for number in range(3):
        record(runtime, error=f"Timeout after {number + 7}.5 s at https://api/{number} for 'lead-{number}'")
    record(runtime, error="File /var/data/x.json not found")
    record(runtime, error="File /tmp/other/y.json not found")
    record(runtime, error="Denied")
    record(runtime)
    patterns = query.find_patterns(GOAL)
    assert patterns is not None
    assert patterns.common_failures == (
        ("Timeout after 7.5 s at https://api/0 for 'lead-0'", 3),
        ("File /var/data/x.json not found", 2),
        ("Denied", 1),
    )
    assert (patterns.run_count, patterns.success_rate) == (7, 1 / 7)
    assert patterns.problematic_nodes == (("checker", 6 / 7),)
    assert patterns.decision_patterns["decision_type_distribution"] == {"custom": 7}
    assert patterns.decision_patterns["common_choices"] == {
        "Check the budget": {"choice": "infer", "count": 7, "alternatives": 0}
    }
    assert "3 x Timeout" in str(patterns)
    assert patterns.to_dict()["run_count"] == 7


def test_only_the_most_common_failures_are_listed(runtime: Runtime, query: BuilderQuery) -> None:
    for letter in "abcdefg":
        record(runtime, error=f"Error of kind {letter}")
    patterns = query.find_patterns(GOAL)
    assert patterns is not None
    assert len(patterns.common_failures) == COMMON_FAILURES_MAX


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Timeout after 30s", "timeout after 5s"),
        ("HTTP 503: retry in 1.5 s", "HTTP 503: retry in 20 s"),
        ("no user 'ann'", 'no user "bob"'),
        ("job 4f1c2a9e-1111-4222-8333-444455556666 died", "job 00000000-1111-4222-8333-444455556666 died"),
        ("at 2026-01-31T09:30:00Z: gone", "at 2026-02-01 10:00:00.5: gone"),
        ("Disk full.\nTraceback 1", "Disk full\nTraceback 2"),
        ("object at 0x7f3a12 lost", "object at 0x99 lost"),
        ("  ", None),
    ],
)
def test_variable_parts_of_a_message_are_left_out_of_its_cause(one: str, other: str | None) -> None:
    assert cause_of(one) == cause_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Timeout", "Denied"),
        ("no user", "no group"),
        ("HTTP 404", "HTTP 503"),
        ("[Errno 2] x", "[Errno 13] x"),
    ],
)
def test_other_words_are_another_cause(one: str, other: str) -> None:
    assert cause_of(one) != cause_of(other)


def test_nodes_are_counted_over_all_goals(runtime: Runtime, query: BuilderQuery) -> None:
    record(runtime, goal_id="a", node_id="n")
    record(runtime, goal_id="b", node_id="n", error="No")
    runtime.start_run("c")
    runtime.quick_decision("pending", "act", "why", "n")
    runtime.end_run(True)
    assert query.get_node_performance("n") == {
        "node_id": "n",
        "total_decisions": 3,
        "success_rate": 0.5,
        "avg_latency_ms": 20.0,
        "total_tokens": 20,
        "decision_type_distribution": {"custom": 3},
    }


def test_two_runs_are_compared(runtime: Runtime, query: BuilderQuery) -> None:
    first = record(runtime, node_id="left")
    second = runtime.start_run(GOAL)
    runtime.record_outcome(runtime.decide("Check", OPTIONS, "ask", "why", "right"), False)
    decide(runtime)
    runtime.end_run(False)
    assert query.compare_runs(first, second) == {
        "run_1": {"id": first, "status": "completed", "decisions": 1, "success_rate": 1.0},
        "run_2": {"id": second, "status": "failed", "decisions": 2, "success_rate": 0.0},
        "differences": [
            "Status: completed vs failed",
            "Decision count: 1 vs 2",
            "Diverged at decision 0: chose 'infer' vs 'ask'",
            "Nodes only in run 1: left",
            "Nodes only in run 2: right, unknown",
        ],
    }
    assert query.compare_runs(first, first)["differences"] == []


def test_improvements_have_a_priority(runtime: Runtime, query: BuilderQuery) -> None:
    for number in range(5):
        record(runtime, error=f"Timeout {number}")
    for _ in range(3):
        record(runtime, node_id="other")
    found = [(each["type"], each["target"], each["priority"]) for each in query.suggest_improvements(GOAL)]
    assert found == [
        ("node_improvement", "checker", "high"),
        ("error_handling", "Timeout 0", "high"),
        ("architecture", GOAL, "high"),
    ]


def test_dropping_the_index_changes_nothing(
    tmp_path: Path, runtime: Runtime, query: BuilderQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All runs begin in one millisecond.
    monkeypatch.setattr(wall, "now_ms", lambda: 1_800_000_000_000)
    ids = [record(runtime, error="Timeout" if number % 3 else None) for number in range(6)]

    def answers() -> list[object]:
        return [
            query.find_patterns(GOAL),
            query.list_runs_for_goal(GOAL),
            query.get_recent_failures(),
            query.get_node_performance("checker"),
            [query.get_full_run(run_id) for run_id in ids],
        ]

    before = answers()
    connection = sqlite3.connect(tmp_path / "recorder.db", isolation_level=None)
    connection.execute("DROP TABLE recorder_view")
    assert answers() == before
    connection.execute("UPDATE recorder_view SET version = 999")
    assert answers() == before
    connection.close()


def test_a_query_that_is_closed_opens_again(runtime: Runtime, query: BuilderQuery) -> None:
    run_id = record(runtime)
    with query:
        assert query.get_run_summary(run_id) is not None
    assert query.get_run_summary(run_id) is not None
    query.close()
    query.close()


def test_a_query_needs_exactly_one_of_storage_path_and_runtime() -> None:
    with pytest.raises(RecordingError, match="either storage_path or runtime"):
        BuilderQuery()


def test_tools_are_ranked_by_the_rate_at_which_they_fail_and_counted_over_time(
    runtime: Runtime, query: BuilderQuery
) -> None:
    def call(tool: str, times: int, failed: int) -> None:
        runtime.start_run(GOAL)
        for number in range(times):
            decision_id = runtime.decide(
                "Call", [{"id": tool, "description": tool}], tool, "", decision_type="tool_selection"
            )
            runtime.record_outcome(decision_id, number >= failed, latency_ms=10)
        runtime.end_run(True)

    call("often", 40, 8)
    call("broken", 6, 5)
    call("once", 1, 1)
    call("fine", 3, 0)
    look = RunLook(since="2020-01-01T00:00:00.000Z")
    assert query.list_failing_tools(look) == [("broken", 6, 5), ("often", 40, 8), ("once", 1, 1)]
    assert query.list_failing_tools(look, 1) == [("broken", 6, 5)]
    # The interval is longer than any time since then: there is one.
    counted = query.count_tools(look, 10**10)
    assert [(at, one.name, one.total, one.failed, one.latency_ms) for at, one in counted] == [
        (0, "broken", 6, 5, 60),
        (0, "fine", 3, 0, 30),
        (0, "often", 40, 8, 400),
        (0, "once", 1, 1, 10),
    ]
    assert all(at > 0 for at, _ in query.count_tools(look, 86_400))
    assert query.count_tools(RunLook(since="2999-01-01T00:00:00.000Z"), 60) == ()
