"""Notes about runs: sessions with several writers."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.ledger.samples import GOAL, decide

from windlass.ledger import BuilderQuery, DecisionEvaluation, RecordingError, RunStatus, Runtime
from windlass.ledger import hosted as notes
from windlass.ledger.hosted import Notes
from windlass.ledger.spool import open_ledger
from windlass.ports.recorded import NumberedRow
from windlass_harness.ledger.goals import EVALUATED
from windlass_harness.ledger.names import evaluation_session
from windlass_protocol import FailureKind, JsonObject


def open_notes(folder: Path) -> Notes:
    return Notes(open_ledger(folder, None, durability="process", secrets=("hunter2-hunter2",)))


def judge(writer: Notes, run_id: str, decision_id: str = "dec_0", *, is_good: bool = False) -> None:
    data: JsonObject = {
        "decisionId": decision_id,
        "evaluation": {"goalAligned": is_good, "explanation": "Look."},
    }
    writer.add(evaluation_session(run_id), EVALUATED, data=data, run_id=run_id)


def recorded(folder: Path) -> str:
    with Runtime(folder) as runtime:
        run_id = runtime.start_run(GOAL)
        runtime.record_outcome(decide(runtime), True)
        runtime.end_run(True)
    return run_id


def test_many_writers_add_to_one_session_and_nothing_is_lost(tmp_path: Path) -> None:
    writers = [open_notes(tmp_path) for _ in range(4)]

    def add(at: int) -> None:
        writers[at % 4].add("board", "proposal.note", data={"n": at}, run_id="r1")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(40)))
    records = writers[0].read("board")
    assert [record.seq for record in records] == list(range(1, 42))
    assert records[0].type == "session.started"
    assert sorted(int(str(record.data["n"])) for record in records[1:]) == list(range(40))
    for writer in writers:
        writer.close()


def test_a_sequence_number_taken_by_another_writer_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = open_ledger(tmp_path, None, durability="process", secrets=())
    writer, other = Notes(ledger), open_notes(tmp_path)
    store = ledger.ask(lambda store: store)
    real = store.take_in
    between = [1, 2]

    def take_in(rows: Iterable[NumberedRow]) -> None:
        if between:
            other.add("board", "proposal.note", data={"by": "other", "n": between.pop(0)}, run_id="r1")
        real(rows)

    monkeypatch.setattr(store, "take_in", take_in)
    writer.add("board", "proposal.note", data={"by": "us"}, run_id="r1")
    assert [record.data.get("by") for record in writer.read("board")] == [None, "other", "other", "us"]
    writer.close()
    other.close()


def test_add_fails_after_too_many_conflicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = open_notes(tmp_path)
    monkeypatch.setattr(notes, "ATTEMPTS_MAX", 0)
    with pytest.raises(RecordingError, match="try again"):
        judge(writer, "r1")
    writer.close()


def test_secrets_are_masked_in_notes(tmp_path: Path) -> None:
    writer = open_notes(tmp_path)
    writer.add("board", "proposal.note", data={"told": "hunter2-hunter2"}, run_id="r1")
    assert writer.read("board")[-1].data == {"told": "[redacted]"}
    writer.close()


def test_a_judgement_from_outside_is_seen_by_every_question(tmp_path: Path) -> None:
    run_id = recorded(tmp_path)
    with BuilderQuery(tmp_path) as query:
        assert query.get_facts(GOAL)[0].failure is None
        writer = open_notes(tmp_path)
        judge(writer, run_id)
        judge(writer, run_id, "ghost")
        judge(writer, "another-run")
        run = query.get_full_run(run_id)
        assert run is not None
        assert run.decisions[0].evaluation == DecisionEvaluation(goal_aligned=False, explanation="Look.")
        [facts] = query.get_facts(GOAL)
        assert (facts.failure, facts.is_judged) == (FailureKind.GOAL_MISSED, True)
        judge(writer, run_id, is_good=True)
        assert query.get_facts(GOAL)[0].failure is None, "the newest judgement counts"
        writer.close()


def test_a_judgement_that_comes_before_its_run_is_indexed_counts_too(tmp_path: Path) -> None:
    run_id = recorded(tmp_path)
    writer = open_notes(tmp_path)
    judge(writer, run_id)
    writer.close()
    with BuilderQuery(tmp_path) as query:
        assert query.get_facts(GOAL)[0].failure is FailureKind.GOAL_MISSED


def test_the_session_of_judgements_has_a_name_that_fits() -> None:
    assert evaluation_session("r1") == "notes:evaluation/r1"
    long = evaluation_session("r" * 512)
    assert long.startswith("notes:evaluation/sha256:")
    assert len(long) <= 512


def test_records_before_a_run_can_be_read(tmp_path: Path) -> None:
    run_id = recorded(tmp_path)
    with BuilderQuery(tmp_path) as query:
        before = query.get_records(run_id, is_before=True)
        assert [record.type for record in before] == ["session.started"]
        assert len(query.get_records(run_id)) == 5
        assert query.get_records("ghost") == []
        assert query.get_tape("ghost") is None
        assert query.get_decision_run("ghost") is None
        tape = query.get_tape(run_id)
        assert tape is not None
        assert tape.calls == ()


def test_a_run_of_a_dead_process_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Runtime(tmp_path) as runtime:
        run_id = runtime.start_run(GOAL)
        decide(runtime)
    monkeypatch.setattr("windlass.ledger.query.STUCK_AFTER_MS", -1)
    with BuilderQuery(tmp_path) as query:
        [facts] = query.get_facts(GOAL)
        assert (facts.failure, facts.has_succeeded) == (FailureKind.INTERRUPTED, False)
        analysis = query.analyze_failure(run_id)
        assert analysis is not None
        assert analysis.kind is FailureKind.INTERRUPTED
        run = query.get_full_run(run_id)
        assert run is not None
        assert run.status is RunStatus.STUCK
