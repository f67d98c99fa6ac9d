"""Status and result of a run."""

import pytest
from tests.harness.views.journal import ERROR, SPENT, Facts, Journal, some

from windlass_harness.record import Record
from windlass_harness.views import RunState, fold_runs
from windlass_harness.views.runs import run_id_of
from windlass_protocol import ErrorInfo, RunResult, RunStatus, Usage

PINNED: Facts = {"packageId": "p", "packageFingerprint": "f", "routeId": "route", "modelId": "acme/one"}
EXHAUSTED: Facts = {"exceeded": ["tokens"], "used": SPENT, "limits": {}}


def begin(**more: object) -> Journal:
    return Journal().add("run.started", {"runId": "r1", "agentId": "helper", **more})


def run_of(journal: Journal, run_id: str = "r1") -> RunState:
    return fold_runs(journal.records).runs[run_id]


def step(journal: Journal, kind: str, **data: object) -> Journal:
    return journal.add(kind, {"runId": "r1", **data})


def test_a_run_is_pinned_to_the_package_of_its_start() -> None:
    source = {"kind": "user", "id": "ann"}
    journal = begin(**PINNED, source=source, mode="task", budget={"maxSteps": 3})
    journal.add("turn.started", {"sequence": 0, "turnId": "t0"}, runId="r1")
    run = run_of(journal)
    assert (run.session_id, run.agent_id, run.started_at) == ("s1", "helper", journal.records[0].at)
    assert (run.mode, some(run.budget).max_steps) == ("task", 3)
    snapshot = some(run.snapshot)
    assert (snapshot.package_id, snapshot.package_fingerprint, snapshot.route_id) == ("p", "f", "route")
    assert (snapshot.model_id, snapshot.turn_id, snapshot.status) == ("acme/one", "t0", RunStatus.RUNNING)
    assert (some(snapshot.source).id, snapshot.cancellation_requested) == ("ann", False)


@pytest.mark.parametrize("missing", sorted(PINNED))
def test_a_run_without_pinned_facts_has_no_snapshot(missing: str) -> None:
    facts = {key: value for key, value in PINNED.items() if key != missing}
    assert run_of(begin(**facts)).snapshot is None


def test_a_moved_run_is_pinned_to_the_new_package() -> None:
    moved = {"fromFingerprint": "f", "toFingerprint": "g", "reason": "agent.instructions changed"}
    journal = begin(**PINNED).add("session.moved", moved, runId="r1")
    assert some(run_of(journal).snapshot).package_fingerprint == "g"
    journal.add("session.moved", {"fromFingerprint": "g", "toFingerprint": "h"}, runId="another run")
    assert run_of(journal).package_fingerprint == "g"


def test_a_run_lists_the_senders_of_later_messages() -> None:
    journal = begin()
    place = {"sequence": 0, "turnId": "t0"}
    journal.add("message.received", {"message": "go", "sender": "ann", **place}, runId="r1")
    assert run_of(journal).speakers == (), "its first message is what it began with"
    for sender in ({"sender": "bob"}, {}, {"sender": "bob"}):
        words = {"message": "well", "delivery": "steer", **sender, **place}
        journal.add("message.received", words, runId="r1")
    assert run_of(journal).speakers == ("bob", None)


def test_a_run_waits_and_goes_on() -> None:
    journal = step(begin(), "run.waiting", on="input")
    assert run_of(journal).status is RunStatus.WAITING
    assert run_of(step(journal, "run.resumed", reason="input")).status is RunStatus.RUNNING


def test_a_run_that_is_to_be_cancelled_stays_so_until_it_ends() -> None:
    journal = step(step(begin(), "run.waiting", on="input"), "run.cancel_requested")
    assert run_of(journal).status is RunStatus.CANCELLING
    step(step(journal, "run.resumed", reason="input"), "run.waiting", on="timer")
    assert run_of(journal).status is RunStatus.CANCELLING
    assert run_of(journal).is_cancel_requested
    assert run_of(step(journal, "run.cancelled")).status is RunStatus.CANCELLED


@pytest.mark.parametrize(
    ("kind", "data", "result"),
    [
        ("run.completed", {"output": "done"}, {"status": "completed", "output": "done"}),
        ("run.completed", {}, {"status": "completed", "output": ""}),
        (
            "run.completed",
            {"output": "x", "structuredOutput": {"n": 1}},
            {"status": "completed", "output": "x", "structuredOutput": {"n": 1}},
        ),
        ("run.failed", {"error": ERROR}, {"status": "failed", "output": "", "error": ERROR}),
        ("run.cancelled", {"reason": "enough"}, {"status": "cancelled", "output": "", "reason": "enough"}),
        ("run.cancelled", {}, {"status": "cancelled", "output": ""}),
        ("run.budget_exhausted", EXHAUSTED, {"status": "budget_exhausted", "output": ""}),
        (
            "run.budget_exhausted",
            {**EXHAUSTED, "error": ERROR},
            {"status": "budget_exhausted", "output": "", "error": ERROR},
        ),
    ],
)
def test_the_result_comes_from_the_last_record(kind: str, data: Facts, result: Facts) -> None:
    journal = step(begin(), kind, usage={"inputTokens": 7}, **data)
    run = run_of(journal)
    expected = {"runId": "r1", "sessionId": "s1", "usage": Usage(input_tokens=7), **result}
    assert run.result == RunResult.model_validate(expected)
    assert (run.status, run.ended_at) == (some(run.result).status, journal.records[1].at)


def test_a_null_output_is_an_output() -> None:
    given = some(run_of(step(begin(), "run.completed", structuredOutput=None)).result)
    left_out = some(run_of(step(begin(), "run.completed")).result)
    assert "structuredOutput" in given.model_dump()
    assert "structuredOutput" not in left_out.model_dump()


def test_a_result_is_sealed() -> None:
    journal = step(begin(), "run.completed", output="done")
    sealed = run_of(journal)
    for kind, data in (
        ("run.failed", {"error": ERROR}),
        ("run.waiting", {"on": "input"}),
        ("run.cancel_requested", {}),
        ("run.started", {"agentId": "other"}),
    ):
        assert run_of(step(journal, kind, **data)) == sealed
    assert some(sealed.result).error is None
    assert ErrorInfo.model_validate(ERROR).message == "late"


def test_a_damaged_record_of_a_run_is_found_by_the_run_that_it_names() -> None:
    record = Record("run.failed", "2026-01-31T09:00:00.000Z", {"runId": 7}, run_id="r1")
    assert run_id_of(record) == "r1"
    assert run_id_of(Record("run.failed", record.at, {"runId": "r3"}, run_id="r1")) == "r3"
    assert run_id_of(Record("run.unknown", record.at, {}, run_id="r2")) == "r2"
