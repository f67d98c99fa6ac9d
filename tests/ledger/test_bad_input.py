"""Invalid calls: raised if strict, logged if not."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.ledger.samples import GOAL, OPTIONS, anything, decide

from windlass.ledger import BuilderQuery, RecordingError, Run, RunStatus, Runtime

Call = Callable[[Runtime], object]


def settle_twice(runtime: Runtime) -> object:
    runtime.record_outcome("dec_0", True, tokens_used=5)
    return runtime.record_outcome("dec_0", False, tokens_used=7)


def sure(runtime: Runtime, confidence: float) -> object:
    return runtime.decide("a", [{"id": "b", "confidence": confidence}], "b", "c")


NO_RUN: Mapping[str, tuple[Call, object]] = {
    "end_run": (lambda runtime: runtime.end_run(True), None),
    "set_node": (lambda runtime: runtime.set_node("a"), None),
    "decide": (decide, ""),
    "record_outcome": (lambda runtime: runtime.record_outcome("dec_0", True), None),
    "report_problem": (lambda runtime: runtime.report_problem("minor", "a"), ""),
    "quick_decision": (lambda runtime: runtime.quick_decision("a", "b", "c"), ""),
}
WRONG: Mapping[str, tuple[Call, object, str]] = {
    "unknown decision": (lambda r: r.record_outcome("dec_9", True), None, "has no decision 'dec_9'"),
    "a decision of another form": (lambda r: r.record_outcome("dec_00", True), None, "no decision 'dec_00'"),
    "no text": (lambda r: r.record_outcome(anything(None), True), None, "has no decision 'None'"),
    "chosen": (lambda r: decide(r, chosen="guess"), "dec_1", "found 'guess'; the options are: 'ask'"),
    "no options": (lambda r: r.decide("a", [], "b", "c"), "dec_1", "the options are: none"),
    "options": (lambda r: r.decide("a", anything("b"), "b", "c"), "dec_1", "must be a list, found str"),
    "an option": (lambda r: r.decide("a", anything(["b"]), "option_0", "c"), "dec_1", "must be a dictionary"),
    "no option id": (lambda r: r.decide("a", [{}], "option_0", "c"), "dec_1", "option 0 has no id"),
    "confidence": (lambda r: sure(r, 7), "dec_1", "must be from 0 to 1, found 7"),
    "no confidence": (lambda r: sure(r, float("nan")), "dec_1", "found nan"),
    "type": (
        lambda r: r.decide("a", OPTIONS, "ask", "c", decision_type="odd"),  # pyright: ignore[reportArgumentType]
        "dec_1",
        "decision_type must",
    ),
    "severity": (lambda r: r.report_problem("bad", "a"), "prob_0", "severity must be one of"),
    "problem": (lambda r: r.report_problem("minor", "a", "dec_9"), "prob_0", "no decision 'dec_9'"),
    "tokens": (lambda r: r.record_outcome("dec_0", True, tokens_used=-1), None, "tokens_used must be a"),
    "second outcome": (settle_twice, None, "has an outcome already"),
    "success": (lambda r: r.record_outcome("dec_0", anything("no")), None, "success must be True or False"),
    "an error": (
        lambda r: r.record_outcome("dec_0", False, error=anything(4)),
        None,
        "error must be a string",
    ),
    "changes": (
        lambda r: r.record_outcome("dec_0", True, state_changes=anything([1])),
        None,
        "state_changes must be a dictionary, found list",
    ),
    "an intent": (lambda r: decide(r, anything(4)), "dec_1", "intent must be a string, found int"),
    "constraints": (
        lambda r: r.decide("a", OPTIONS, "ask", "c", constraints="only one"),
        "dec_1",
        "constraints must be a list of strings, found str",
    ),
    "a constraint": (
        lambda r: r.decide("a", OPTIONS, "ask", "c", constraints=anything([1])),
        "dec_1",
        "each of constraints must be a string",
    ),
    "a misspelt key": (
        lambda r: r.decide("a", [{"id": "b", "descripton": "c"}], "b", "c"),
        "dec_1",
        "option 0 has descripton, which is not kept; an option has action_params, action_type, confidence",
    ),
    "an option's pros": (
        lambda r: r.decide("a", [{"id": "b", "pros": 7}], "b", "c"),
        "dec_1",
        "pros must be a list of strings, found int",
    ),
    "a node": (lambda r: r.set_node(anything(7)), None, "node_id must be a string"),
    "an evaluation": (
        lambda r: r.record_evaluation("dec_0", anything({})),
        None,
        "evaluation must be a DecisionEvaluation",
    ),
}


def started(folder: Path, *, strict: bool) -> Runtime:
    runtime = Runtime(folder, strict=strict)
    runtime.start_run(GOAL)
    decide(runtime)
    return runtime


def recorded(runtime: Runtime) -> Run:
    run = runtime.current_run
    assert run is not None
    return run


@pytest.mark.parametrize("name", NO_RUN)
def test_without_a_run_a_call_says_so_and_does_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    call, answer = NO_RUN[name]
    with caplog.at_level(logging.WARNING, "windlass.ledger"):
        assert call(Runtime(tmp_path)) == answer
    assert "there is no current run: call start_run first" in caplog.text
    with pytest.raises(RecordingError, match="there is no current run"):
        call(Runtime(tmp_path, strict=True))


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_call_is_logged_and_the_run_can_still_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    call, answer, words = WRONG[name]
    runtime = started(tmp_path, strict=False)
    with caplog.at_level(logging.WARNING, "windlass.ledger"):
        assert call(runtime) == answer
    assert words in caplog.text
    runtime.end_run(True)
    assert BuilderQuery(tmp_path).list_runs_for_goal(GOAL)[0].status == RunStatus.COMPLETED


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_raises_and_records_nothing_if_strict(tmp_path: Path, name: str) -> None:
    call, _, words = WRONG[name]
    runtime = started(tmp_path, strict=True)
    with pytest.raises(RecordingError) as raised:
        call(runtime)
    assert words in str(raised.value)
    run = recorded(runtime)
    assert (len(run.decisions), run.problems) == (1, ())


def test_run_arguments_of_the_wrong_type_are_refused_if_strict_and_logged_if_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = started(tmp_path, strict=True)
    with pytest.raises(RecordingError, match="success must be True or False, found nope"):
        runtime.end_run(anything("nope"))
    runtime.end_run(True)
    with pytest.raises(RecordingError, match="goal_id must be a string, found int"):
        runtime.start_run(anything(7))
    started(tmp_path, strict=False).end_run(anything("nope"))
    assert "success must be True or False, found nope: it counts as True" in caplog.text


def test_a_limit_is_a_number(tmp_path: Path) -> None:
    started(tmp_path, strict=False)
    query = BuilderQuery(tmp_path)
    with pytest.raises(RecordingError, match="limit must be a whole number, found str"):
        query.get_recent_failures(anything("x"))
    with pytest.raises(RecordingError, match="limit must be a whole number, found bool"):
        query.list_runs_for_goal(GOAL, True)


def test_a_second_outcome_replaces_the_first_and_never_counts_twice(tmp_path: Path) -> None:
    runtime = started(tmp_path, strict=False)
    settle_twice(runtime)
    metrics = recorded(runtime).metrics
    assert (metrics.successful_decisions, metrics.failed_decisions, metrics.total_tokens) == (0, 1, 7)


def test_a_second_start_closes_the_first_run_as_cancelled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = Runtime(tmp_path)
    first = runtime.start_run(GOAL)
    decide(runtime)
    second = runtime.start_run(GOAL)
    assert f"run {first} is open: it is closed as cancelled" in caplog.text
    query = BuilderQuery(tmp_path)
    runs = [query.get_full_run(run_id) for run_id in (first, second)]
    assert [(run.status, len(run.decisions)) for run in runs if run is not None] == [
        (RunStatus.CANCELLED, 1),
        (RunStatus.RUNNING, 0),
    ]


def test_a_second_start_is_refused_if_strict(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)
    first = runtime.start_run(GOAL)
    with pytest.raises(RecordingError, match="is open"):
        runtime.start_run(GOAL)
    assert recorded(runtime).id == first


def test_an_executor_without_a_run_is_called_all_the_same(tmp_path: Path) -> None:
    assert Runtime(tmp_path).decide_and_execute("a", OPTIONS, "ask", "c", lambda: 7) == ("", 7)


def test_confidence_out_of_range_is_kept_as_it_was_given(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)
    runtime.start_run(GOAL)
    runtime.decide("a", [{"id": "b", "confidence": 7}, {"id": "c", "confidence": "high"}], "b", "why")
    high, none = recorded(runtime).decisions[0].options
    assert (high.confidence, none.confidence) == (1.0, 0.5)


@pytest.mark.parametrize("path", [None, "", 7, b"/tmp"])
def test_an_invalid_storage_path_is_refused(path: object) -> None:
    with pytest.raises(RecordingError):
        Runtime(anything(path))


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RecordingError, match="must be a folder, found a file"):
        Runtime(tmp_path / "file")


def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="durability must be power or process, found 'eternal'"):
        Runtime(tmp_path, durability=anything("eternal"))


def test_a_folder_that_is_missing_is_made(tmp_path: Path) -> None:
    Runtime(str(tmp_path / "deep" / "down"))
    assert (tmp_path / "deep" / "down").is_dir()
