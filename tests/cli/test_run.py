"""`run` and `chat`: output streams, exit codes, inline approvals, interrupted runs."""

import asyncio
import json
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests.cli.commands import WAIT_S_MAX, Typed, run_apart, run_here
from tests.permissions import open_folder, read_only

import windlass
from tools.files import ROOT


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_DURABILITY", "process")


def test_the_answer_goes_to_stdout_and_everything_else_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_here(capsys, "run", "weather")
    assert ran.code == 0
    assert "weather says: Rain all day" in ran.out
    assert "→ weather(" in ran.err
    assert "✓ weather" in ran.err


def test_json_output_has_a_line_for_each_event_and_the_result_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran = run_here(capsys, "run", "--json", "weather")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert lines[-1]["type"] == "result"
    assert lines[-1]["result"]["status"] == "completed"
    assert {"run.started", "action.result", "run.completed"} <= {line["type"] for line in lines}


def test_a_waiting_run_ends_with_code_3_and_says_how_to_resume(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran = run_here(capsys, "run", "pay")
    assert ran.code == 3
    assert "windlass approvals list" in ran.err
    assert "windlass runs resume" in ran.err


def test_a_run_says_whether_its_calls_are_batched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "from windlass import Agent\nfrom windlass.testing import ScriptedModel, say\n"
        'agent = Agent("a", model=ScriptedModel(lambda _: say("At once.")), batch="within 24h")\n'
    )
    (tmp_path / "app.py").write_text(text, encoding="utf-8")
    ran = run_here(capsys, "--agents", "app.py:agent", "run", "--no-batch", "--json", "hello")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    (started,) = [line for line in lines if line["type"] == "run.started"]
    assert (ran.code, started["data"]["batch"]) == (0, "off")
    ran = run_here(capsys, "run", "--batch", "hello")
    assert (ran.code, "has no batches" in ran.err) == (2, True)


def test_an_unknown_model_ends_with_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'from windlass import Agent\nagent = Agent("a", model="nobody/none")\n'
    (tmp_path / "app.py").write_text(text, encoding="utf-8")
    ran = run_here(capsys, "--agents", "app.py:agent", "run", "hello")
    assert ran.code == 1
    assert "nobody" in ran.err
    assert "Traceback" not in ran.err


def test_a_module_that_runs_its_agent_on_import_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hello = (ROOT / "examples" / "hello.py").read_text(encoding="utf-8")
    (tmp_path / "hello.py").write_text(hello, encoding="utf-8")
    line = 1 + next(
        at for at, text in enumerate(hello.splitlines()) if text.startswith("result = agent.run_sync")
    )
    for command in (("run", "hello"), ("serve", "--port", "0"), ("acp",)):
        ran = run_here(capsys, "--agents", "hello.py:agent", *command)
        assert ran.code == 2
        assert f"hello.py, line {line})" in ran.err
        assert 'if __name__ == "__main__":' in ran.err
        assert ran.out == ""


def test_a_pipe_answers_no_request_and_a_chat_ends_with_the_code_of_its_last_run() -> None:
    waits = run_apart(Path(), "chat", words="pay\n1\n")
    assert waits.code == 3
    assert "windlass approvals list" in waits.err
    assert "paid " not in waits.out
    assert run_apart(Path(), "chat", words="weather\n").code == 0
    assert run_apart(Path(), "run", "pay", words="1\n").code == 3


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(capsys, "--version").out == f"windlass {windlass.__version__}\n"


def test_help_and_version_do_not_import_the_client_the_loop_or_the_ledger() -> None:
    slow = (
        "windlass.client.remote",
        "windlass.ledger.query",
        "windlass_harness.loop",
        "windlass_harness.ledger",
        "acp",
    )
    code = f"import sys, windlass_cli.main; print([name for name in {slow} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=WAIT_S_MAX
    )
    assert done.stdout == "[]\n"


def test_the_message_is_read_from_stdin() -> None:
    ran = run_apart(Path(), "run", "-", words="weather")
    assert "weather says" in ran.out


def test_unknown_options_commands_and_agents_end_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(capsys, "run", "--agnet", "x", "hello").code == 2
    assert run_here(capsys, "rnu").code == 2
    assert run_here(capsys, "run", "--agent", "nobody", "hello").code == 2
    ran = run_here(capsys, "--store", "no/such/folder/x.db", "run", "hello")
    assert ran.code == 2
    assert "cannot create the folder" in ran.err


def test_control_characters_of_the_model_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "from windlass import Agent\nfrom windlass.testing import ScriptedModel, say\n"
        'agent = Agent("a", model=ScriptedModel([say("red \\x1b[31m and \\x9b2J \\u202e back")]))\n'
    )
    (tmp_path / "app.py").write_text(text, encoding="utf-8")
    agents = ("--agents", "app.py:agent")
    typed = Typed(tmp_path, [*agents, "run", "--session", "s", "hello"])
    typed.until("back")
    assert typed.end() == 0
    run_id = json.loads(run_here(capsys, "runs", "list", "--json").out)["runId"]
    seen = typed.seen
    for command in (
        ("runs", "resume", run_id),
        ("runs", "tail", run_id),
        ("runs", "tail", "--json", run_id),
        ("sessions", "show", "--json", "s"),
        ("sessions", "export", "s"),
    ):
        typed = Typed(tmp_path, [*agents, *command])
        assert typed.end() == 0, typed.seen
        assert "back" in typed.seen, command
        seen += typed.seen
    assert "\x1b[31m and" not in seen
    assert "\x9b" not in seen
    assert "\u202e" not in seen
    piped = run_here(capsys, "sessions", "export", "s").out
    assert "\u202e" in piped, "what a machine reads is as it was"


def test_an_approval_is_asked_on_the_terminal_with_the_arguments(tmp_path: Path) -> None:
    typed = Typed(tmp_path, ["run", "pay"])
    typed.until('"cents"')
    typed.until("> ")
    typed.type("perhaps")
    typed.until("Type a number")
    typed.type("approve")
    typed.until("paid ")
    assert typed.end() == 0


def test_input_from_before_the_question_is_discarded(tmp_path: Path) -> None:
    typed = Typed(tmp_path, ["chat", "--session", "s"])
    typed.type("pay\napprove\n1")  # all of it before anything is shown
    typed.until("3 deny")
    typed.type("perhaps\napprove")
    typed.until("Type a number")
    typed.type("deny")
    typed.until("✗ pay")
    typed.type("/nope")
    typed.until("Unknown command /nope.")
    typed.type("/quit")
    assert typed.end() == 0
    assert "paid " not in typed.seen


def test_ctrl_c_keeps_the_run_and_says_how_to_resume(tmp_path: Path) -> None:
    typed = Typed(tmp_path, ["run", "pay"])
    typed.until("> ")
    typed.signal(signal.SIGINT)
    assert typed.end() == 130
    assert "windlass runs resume" in typed.seen
    assert "Traceback" not in typed.seen


def test_an_interrupt_during_a_start_says_that_the_run_may_have_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr("windlass_cli.backend.LocalStore.start", interrupted)
    ran = run_here(capsys, "run", "hello")
    assert ran.code == 130
    assert "may have started" in ran.err
    assert "windlass runs list" in ran.err


def test_a_chat_in_a_named_session(tmp_path: Path) -> None:
    typed = Typed(tmp_path, ["chat", "--session", "monday"])
    typed.until("> ")
    typed.type("weather")
    typed.until("weather says")
    typed.type("/quit")
    assert typed.end() == 0


def test_a_closed_terminal_ends_the_command(tmp_path: Path) -> None:
    typed = Typed(tmp_path, ["run", "pay"])
    typed.until("> ")
    assert typed.hang_up() != 0  # and it ends


# the folder of the store


@pytest.mark.parametrize("named", ["option", "variable", "file", "data"])
def test_the_folder_of_a_store_that_somebody_chose_keeps_its_permissions(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "chosen"
    folder.mkdir()
    folder.chmod(0o755)
    match named:
        case "option":
            options = ("--store", "chosen/x.db")
        case "file":
            options = ()
            (tmp_path / "windlass.toml").write_text('store = "chosen/x.db"', encoding="utf-8")
        case _:
            options = ()
            name, value = ("STORE", "chosen/x.db") if named == "variable" else ("DATA", "chosen")
            monkeypatch.setenv(f"WINDLASS_{name}", value)
    assert run_here(capsys, *options, "run", "weather").code == 0
    assert (folder / ("local.db" if named == "data" else "x.db")).is_file()
    assert folder.stat().st_mode & 0o777 == 0o755


def test_a_data_folder_of_another_user_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_folder() as place:
        monkeypatch.chdir(place)
        assert run_here(capsys, "run", "weather").code == 0
        said = f"the folder {place / 'windlass-data'} may not be written to by this process"
        commands = [("run", "weather"), ("runs", "list"), ("serve", "--port", "0"), ("doctor",), ("migrate",)]
        # The other user may not be able to read the installation: everything is imported before.
        import_module("windlass_server.app")
        for command in (("runs", "list"), ("doctor",), ("migrate",)):
            assert run_here(capsys, *command).code == 0
        with read_only(place / "windlass-data", mode=0):
            ran = {command: run_here(capsys, *command) for command in commands}
        for command, one in ran.items():
            assert one.code == (1 if command == ("doctor",) else 2), command
            assert said in one.out + one.err, command
            assert "change the permissions of the folder, or choose another" in one.out + one.err


def test_a_folder_that_cannot_be_made_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_folder() as place:
        monkeypatch.chdir(place)
        import_module("windlass_server.app")
        assert run_here(capsys, "--store", f"{place}/x.db", "run", "weather").code == 0
        with read_only(place):
            for command in (("run", "weather"), ("serve", "--port", "0")):
                ran = run_here(capsys, *command)
                assert ran.code == 2
                assert f"cannot create the folder {place / 'windlass-data'}: Permission denied" in ran.err
