"""Failing disks and databases: losses are logged, acknowledged records are kept."""

import logging
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from tests.ledger.samples import GOAL, decide, record
from tests.permissions import open_folder, read_only

from windlass.errors import AgentError, Conflict, Rejected, Unavailable
from windlass.ledger import BuilderQuery, RecordingError, RunStatus, Runtime
from windlass.ledger import index as finishing
from windlass.ledger.reading import Session
from windlass.ledger.spool import BATCH_RECORDS
from windlass.ports.recorded import NumberedRow, RunStore
from windlass.sqlite import schema as sqlite_schema
from windlass.sqlite import spool
from windlass.sqlite.recorded import RecordedStore


def full_disk(*_: object) -> int:
    raise OSError(28, "No space left on device")


def test_a_full_disk_is_logged_and_nothing_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = Runtime(tmp_path)
    run_id = runtime.start_run(GOAL)
    decide(runtime)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full_disk)
        assert decide(runtime) == ""
        assert runtime.report_problem("minor", "a") == ""
        runtime.record_outcome("dec_0", True)
        runtime.end_run(True)
    assert "not recorded: [Errno 28] No space left on device" in caplog.text
    assert decide(runtime) == "dec_1"
    runtime.end_run(True)
    assert len(BuilderQuery(tmp_path).get_decision_trace(run_id)) == 2


def test_a_full_disk_raises_if_strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(tmp_path, strict=True)
    monkeypatch.setattr(os, "pwrite", full_disk)
    with pytest.raises(RecordingError, match="not recorded"):
        runtime.start_run(GOAL)


def test_a_run_that_cannot_begin_has_no_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(tmp_path)
    monkeypatch.setattr(os, "pwrite", full_disk)
    assert runtime.start_run(GOAL) == ""
    assert runtime.current_run is None


def test_a_line_that_was_written_in_part_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(tmp_path)
    run_id = runtime.start_run(GOAL)
    real = os.pwrite

    def in_part(handle: int, data: bytes, at: int) -> int:
        return real(handle, data[:300], at)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", in_part)
        assert runtime.quick_decision("x" * 1_000, "a", "b") == ""
    runtime.quick_decision("short", "a", "b")
    assert BuilderQuery(tmp_path).get_decision_trace(run_id) == ["… [unknown] short → a"]


def test_a_database_that_is_busy_does_not_stop_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite_schema, "BUSY_TIMEOUT_MS", 1)
    record(Runtime(tmp_path))
    rival = sqlite3.connect(tmp_path / "recorder.db", isolation_level=None)
    rival.execute("BEGIN IMMEDIATE")
    runtime = Runtime(tmp_path)
    with caplog.at_level(logging.WARNING, "windlass.ledger"):
        run_id = record(runtime)
    assert "recorded, but not in the journal yet" in caplog.text
    with pytest.raises(Unavailable):
        BuilderQuery(tmp_path).get_run_summary(run_id)
    rival.execute("ROLLBACK")
    rival.close()
    summary = BuilderQuery(tmp_path).get_run_summary(run_id)
    assert summary is not None
    assert summary.status is RunStatus.COMPLETED


def test_an_export_that_cannot_be_written_is_logged_and_the_run_is_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "runs").write_text("in the way")
    run_id = record(Runtime(tmp_path))
    assert "is recorded, but not exported" in caplog.text
    assert BuilderQuery(tmp_path).get_run_summary(run_id) is not None


def damage(folder: Path, run_id: str) -> None:
    """Change a byte in the records of a run."""
    connection = sqlite3.connect(folder / "recorder.db", isolation_level=None)
    connection.execute(
        "UPDATE appends SET body = CAST(substr(body, 1, 20) || x'00' || substr(body, 22) AS BLOB) "
        "WHERE session_key = (SELECT session_key FROM sessions WHERE session_id = ?)",
        (run_id,),
    )
    for table in ("recorder_view", "recorder_runs", "recorder_facts", "recorder_totals", "recorder_stale"):
        connection.execute(f"DROP TABLE {table}")
    connection.close()


def test_one_damaged_run_hides_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Runtime(tmp_path) as runtime:
        good, bad, better = (record(runtime, error="Timeout after 3 s") for _ in range(3))
    damage(tmp_path, bad)
    query = BuilderQuery(tmp_path)
    assert {run.run_id for run in query.list_runs_for_goal(GOAL)} == {good, better}
    assert f"record 1 of session {bad} is damaged" in caplog.text
    patterns = query.find_patterns(GOAL)
    assert patterns is not None
    assert patterns.common_failures == (("Timeout after 3 s", 2),)
    assert query.get_full_run(bad) is None


def test_a_malformed_record_hides_no_other(tmp_path: Path) -> None:
    with Runtime(tmp_path) as runtime:
        run_id = record(runtime)
    store = RecordedStore(tmp_path / "recorder.db")
    last_seq = max(one.seq for one in store.records(run_id))
    for body in (
        b'["decision.recorded","2026-01-31T09:30:00Z",{"decision":7},"%s"]',
        b'["run.failed","x",{},"%s"]',
    ):
        last_seq += 1
        store.take_in([NumberedRow(run_id, last_seq, body % run_id.encode())])
    store.close()
    run = BuilderQuery(tmp_path).get_full_run(run_id)
    assert run is not None
    assert (len(run.decisions), run.status) == (1, RunStatus.COMPLETED)


def test_a_record_after_a_gap_is_a_conflict(tmp_path: Path) -> None:
    with Runtime(tmp_path) as runtime:
        run_id = record(runtime)
    store = RecordedStore(tmp_path / "recorder.db")
    with pytest.raises(Conflict, match=r"ends at \d+, found 99"):
        store.take_in([NumberedRow(run_id, 99, b"[]")])
    store.close()


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "recorder.db").write_bytes(b"something else" * 100)
    with pytest.raises(AgentError, match="not a database"):
        BuilderQuery(tmp_path).find_patterns(GOAL)


def test_a_recorder_that_is_closed_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runtime = Runtime(tmp_path)
    runtime.start_run(GOAL)
    runtime.close()
    assert decide(runtime) == ""
    assert "not recorded: the recorder is closed" in caplog.text


def test_a_database_that_stays_busy_is_not_asked_with_every_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite_schema, "BUSY_TIMEOUT_MS", 1)
    record(Runtime(tmp_path))
    rival = sqlite3.connect(tmp_path / "recorder.db", isolation_level=None)
    rival.execute("BEGIN IMMEDIATE")
    runtime = Runtime(tmp_path)
    run_id = runtime.start_run(GOAL)
    for _ in range(2 * BATCH_RECORDS):
        decide(runtime)
    assert caplog.text.count("not in the journal yet") == 2
    rival.execute("ROLLBACK")
    rival.close()
    runtime.end_run(True)
    assert len(BuilderQuery(tmp_path).get_decision_trace(run_id)) == 2 * BATCH_RECORDS


def test_a_new_recorder_does_not_take_over_the_run_of_a_collected_one(tmp_path: Path) -> None:
    for _ in range(50):
        # The next recorder may well be where the last one was.
        assert Runtime(tmp_path).start_run(GOAL) != ""
        assert Runtime(tmp_path).current_run is None


KILLED = """
import os, signal, sys
from windlass.ledger import Runtime

runtime = Runtime(sys.argv[1])
runtime.start_run("g")
for number in range(5):
    runtime.decide(f"i{number}", [{"id": "a"}], "a", "why")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_damaged_spool_line_hides_only_the_lines_after_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record(Runtime(tmp_path))
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    [left] = (tmp_path / "recorder.db-spool").iterdir()
    left.write_bytes(left.read_bytes().replace(b'"i2"', b'"i9"'))
    query = BuilderQuery(tmp_path)
    assert len(query.list_runs_for_goal(GOAL)) == 1
    [found] = query.list_runs_for_goal("g")
    assert len(query.get_decision_trace(found.run_id)) == 2
    assert caplog.text.count("is damaged") == 1, "it is put aside, not tried again and again"
    assert [path.name[:9] for path in left.parent.iterdir()] == [".damaged-"]


def test_files_of_others_beside_the_spools_are_left_alone(tmp_path: Path) -> None:
    record(Runtime(tmp_path))
    folder = tmp_path / "recorder.db-spool"
    (folder / "notes").mkdir(parents=True)
    (folder / ".DS_Store").write_bytes(b"mine")
    assert len(BuilderQuery(tmp_path).list_runs_for_goal(GOAL)) == 1
    assert (folder / ".DS_Store").read_bytes() == b"mine"


def test_a_spool_is_never_seen_unlocked_while_its_writer_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is read at each step of its creation."""
    real = spool.take_lock

    def looked_at(path: Path, **options: bool) -> int | None:
        query = BuilderQuery(tmp_path)
        handle = real(path, **options)
        with monkeypatch.context() as patch:
            patch.setattr(spool, "take_lock", real)
            query.list_runs_for_goal(GOAL)
        return handle

    monkeypatch.setattr(spool, "take_lock", looked_at)
    runtime = Runtime(tmp_path, strict=True)
    assert runtime.start_run(GOAL)
    assert decide(runtime) == "dec_0"


def test_a_database_that_cannot_be_opened_does_not_stop_the_recording(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = tmp_path / "recorder.db"
    runtime = Runtime(tmp_path)
    database.mkdir()
    run_id = runtime.start_run(GOAL)
    ids = [decide(runtime) for _ in range(2 * BATCH_RECORDS)]
    assert ids[-1] == f"dec_{2 * BATCH_RECORDS - 1}"
    runtime.end_run(True)
    runtime.close()
    assert "recorded, but not in the journal yet" in caplog.text
    database.rmdir()
    assert len(BuilderQuery(tmp_path).get_decision_trace(run_id)) == len(ids)


def test_a_folder_that_may_not_be_written_to_is_named_at_once() -> None:
    with open_folder() as folder:
        run_id = record(Runtime(folder))
        query = BuilderQuery(folder)
        query.get_decision_trace(run_id)
        query.close()
        with read_only(folder):
            with pytest.raises(RecordingError, match=f"{folder} is not writable for this process"):
                Runtime(folder)
            with pytest.raises(RecordingError, match=f"{folder}/below cannot be created: Permission denied"):
                Runtime(folder / "below")
            with pytest.raises(Rejected, match=f"{folder} may not be written to by this process"):
                query.get_decision_trace(run_id)
        assert query.get_decision_trace(run_id)


def test_a_spool_that_may_not_be_read_is_named() -> None:
    with open_folder() as folder:
        spool_folder = folder / "recorder.db-spool"
        record(Runtime(folder))
        spool_folder.mkdir(exist_ok=True)
        spool_folder.chmod(0o700)
        folder.chmod(0o777)
        (folder / "recorder.db").chmod(0o666)
        query = BuilderQuery(folder)
        with read_only(spool_folder, mode=0), pytest.raises(Rejected, match="-spool may not be"):
            query.get_recent_failures()


def test_a_record_appended_during_a_read_is_seen_by_later_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(tmp_path)
    run_id = runtime.start_run(GOAL)
    decide(runtime)
    real = finishing.read_session

    class Killed(BaseException):
        """The process is gone."""

    def killed(*_: object) -> NoReturn:
        raise Killed

    def meanwhile(store: RunStore, session_id: str) -> Session:
        found = real(store, session_id)
        monkeypatch.setattr(finishing, "read_session", killed)
        decide(runtime)
        with pytest.raises(Killed):
            # It sees that there are new records, and is killed before it reads them.
            BuilderQuery(tmp_path).get_run_summary(run_id)
        monkeypatch.setattr(finishing, "read_session", real)
        return found

    monkeypatch.setattr(finishing, "read_session", meanwhile)
    for _ in range(2):
        summary = BuilderQuery(tmp_path).get_run_summary(run_id)
        assert summary is not None
        assert summary.decision_count == 2
