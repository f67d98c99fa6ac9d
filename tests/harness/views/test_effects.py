"""Calls that were started: none is forgotten, and each has one result in the end."""

import pytest
from hypothesis import given
from tests.harness.views.journal import Facts, Journal, at, request, streams

from windlass_harness.record import Record
from windlass_harness.views import fold_chat, fold_session
from windlass_harness.views.history import INTERRUPTED, NOT_EXECUTED
from windlass_protocol import ToolMessage, ToolOutputType, ToolResultPart

TURN: Facts = {"sequence": 0, "turnId": "t0"}
ENDS = ("run.c", "run.f", "run.b", "turn.c", "turn.f", "session.c", "session.f")


def interrupted(journal: Journal) -> list[str]:
    return [one.call_id for one in fold_session(journal.records).interrupted]


def roles(journal: Journal) -> list[str]:
    return [message.role for message in fold_session(journal.records).session.history]


def results(journal: Journal) -> list[tuple[str, object]]:
    return [
        (part.tool_call_id, part.output.type if part.output.value is None else part.output.value)
        for message in fold_session(journal.records).session.history
        if isinstance(message, ToolMessage)
        for part in message.content
        if isinstance(part, ToolResultPart)
    ]


def shown(journal: Journal) -> list[str]:
    return [message.content for message in fold_chat(journal.records).messages if message.role == "tool"]


def settle(journal: Journal, choice: str) -> Journal:
    return journal.add("recovery.effect_settled", {"callId": "c1", "choice": choice})


def test_attempts_that_ask_for_the_same_call_share_its_result() -> None:
    journal = Journal().begin().start().ask("c1").run("c1").start(attempt=2).ask("c1").end().run("c1")
    assert interrupted(journal) == ["c1", "c1"]
    assert interrupted(journal.result("c1")) == []


def test_a_started_call_without_a_request_is_a_call() -> None:
    journal = Journal().begin().answer(text="hm").run("c1")
    assert interrupted(journal) == ["c1"]
    (call,) = fold_session(journal.records).calls
    assert (call.tool_name, call.input, call.idempotency_key) == ("look", {}, "k-c1")
    assert interrupted(journal.result("c1", 1)) == []
    assert results(journal) == [("c1", 1)]


def test_a_call_that_is_skipped_is_settled() -> None:
    journal = settle(Journal().begin().answer("c1").run("c1"), "skip")
    assert interrupted(journal) == []
    assert results(journal) == [("c1", ToolOutputType.EXECUTION_DENIED)]
    assert results(journal.result("c1")) == [("c1", ToolOutputType.EXECUTION_DENIED)], "that was decided"


def test_a_skipped_call_of_work_that_ended_is_settled_too() -> None:
    journal = Journal().begin().answer("c1").run("c1").add("run.cancelled", {"runId": "r1"})
    assert results(settle(journal, "skip")) == [("c1", ToolOutputType.EXECUTION_DENIED)]


def test_a_request_about_a_call_that_is_skipped_is_no_longer_open() -> None:
    journal = Journal().begin().answer("c1").run("c1")
    journal.add("input.requested", {"requests": [request("r", "c1", kind="recovery")], **at()})
    assert len(fold_session(settle(journal, "retry").records).requests) == 1
    assert fold_session(settle(journal, "skip").records).requests == ()


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("turn.cancelled", TURN),
        ("turn.completed", TURN),
        ("run.cancelled", {"runId": "r1"}),
        ("session.completed", {}),
    ],
)
def test_a_late_result_replaces_the_placeholder(kind: str, data: dict[str, object]) -> None:
    journal = Journal().begin().answer("c0", "c1", "c2").result("c0", 0).run("c1").add(kind, data)
    assert interrupted(journal) == []
    assert results(journal) == [("c0", 0), ("c1", INTERRUPTED), ("c2", NOT_EXECUTED)]
    journal.turn("more", 1).result("c1", "late").result("c1", "later").result("c0", "twice")
    assert results(journal) == [("c0", 0), ("c1", "late"), ("c2", NOT_EXECUTED)]
    assert shown(journal) == ["0", "late"]


def test_a_late_result_of_a_compacted_or_cleared_call_is_ignored() -> None:
    ended = Journal().begin().answer("c1").run("c1").add("run.cancelled", {"runId": "r1"})
    summed_up = {"modelId": "m", "summary": "s", "keptFrom": 3, **TURN}
    assert results(ended.add("compaction.completed", summed_up).result("c1")) == []
    cleared = Journal().begin().answer("c1").run("c1").add("run.cancelled", {"runId": "r1"})
    assert results(cleared.add("context.cleared").result("c1")) == []


def test_a_late_result_belongs_to_the_newest_call_of_its_id() -> None:
    journal = Journal().begin().answer("c1").run("c1").add("turn.cancelled", TURN).turn("more", 1)
    journal.answer("c1", turn=1).result("c1", "new").result("c1", "twice")
    assert results(journal) == [("c1", INTERRUPTED), ("c1", "new")]


def test_a_call_that_is_started_after_it_was_closed_is_open_again() -> None:
    journal = Journal().begin().answer("c0", "c1").run("c0")
    journal.add("run.started", {"runId": "r2", "agentId": "a"}).turn("more", 1).answer("c2", turn=1)
    journal.add("turn.cancelled", {"sequence": 1, "turnId": "t1"}).run("c2", 0, 1)
    assert interrupted(journal) == ["c0", "c2"]
    journal.result("c2", 2).result("c1", 1).result("c0", 0)
    assert results(journal) == [("c0", 0), ("c1", 1), ("c2", 2)]


def test_a_late_result_of_a_call_closed_behind_an_open_one_counts() -> None:
    journal = Journal().begin().answer("c0").run("c0").turn("more", 1).answer("c2", turn=1)
    journal.add("turn.cancelled", {"sequence": 1, "turnId": "t1"}).result("c2", 2).result("c0", 0)
    assert results(journal) == [("c0", 0), ("c2", 2)]


def test_a_call_that_never_began_does_not_hold_up_the_turns_after_it() -> None:
    journal = Journal().begin().answer("c1")
    for turn in range(1, 4):
        journal.add("turn.completed", {"sequence": turn - 1, "turnId": f"t{turn - 1}"})
        journal.turn("more", turn).answer(text="ok", turn=turn)
    assert roles(journal) == ["user", "assistant", "tool", *["user", "assistant"] * 3]
    assert results(journal) == [("c1", NOT_EXECUTED)]
    assert fold_session(journal.records).history.tail == ()


def test_a_call_that_a_person_is_asked_about_outlives_its_turn() -> None:
    journal = Journal().begin().answer("c0", "c1")
    journal.add("input.requested", {"requests": [request("r", "c1", kind="approval")], **at()})
    journal.add("turn.completed", TURN)
    assert len(fold_session(journal.records).requests) == 1
    assert results(journal.result("c1", 1)) == [("c0", NOT_EXECUTED), ("c1", 1)]


@given(before=streams(12), after=streams(12))
def test_a_started_call_is_interrupted_until_its_result_under_random_records(
    before: list[Record], after: list[Record]
) -> None:
    journal = Journal()
    for record in before:
        journal.add(record.type, record.data)
    journal.run("mine")
    for record in after:
        if not record.type.startswith(ENDS):
            journal.add(record.type, record.data)
    assert interrupted(journal).count("mine") == 1
    journal.result("mine", "at last").add("session.completed")
    assert results(journal).count(("mine", "at last")) == 1
    assert shown(journal).count("at last") == 1
