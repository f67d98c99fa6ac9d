"""Commands with `--server` show the same as on a local store."""

import asyncio
import json
import re
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.commands import Ran, Typed, run_apart, run_here
from tests.client.rig import faking, reply
from tests.server.keyring import Keyring
from tests.server.rig import process, run

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(data: Path) -> Generator[str]:
    """A server of the demo agent; everything is in `data`."""
    with process(data) as (_, port):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_SERVER", server)


def newest(capsys: Capture) -> tuple[str, str]:
    """The session and the run that began last."""
    row = json.loads(run_here(capsys, "runs", "list", "--json", "--limit", "1").out)
    return row["sessionId"], row["runId"]


def test_a_run_on_a_server_needs_no_local_agents_and_no_store(tmp_path: Path, capsys: Capture) -> None:
    ran = run_here(capsys, "--agents", "no_such_module:x", "run", "weather in Oslo")
    assert ran.code == 0, ran.err
    assert "Rain all day" in ran.out
    assert "→ weather(" in ran.err
    ran = run_here(capsys, "run", "weather", "--json")
    assert json.loads(ran.out.splitlines()[-1])["result"]["status"] == "completed"
    assert list(tmp_path.iterdir()) == []


def test_a_start_on_a_server_asks_for_batches(capsys: Capture) -> None:
    ran = run_here(capsys, "run", "--batch", "weather")
    assert (ran.code, "has no batches" in ran.err) == (2, True)


def test_the_store_and_the_server_show_the_same(
    data: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_here(capsys, "run", "weather").code == 0
    assert run_here(capsys, "run", "pay").code == 3
    session_id, run_id = newest(capsys)
    assert run_here(capsys, "runs", "show", run_id[:-1]).out == run_here(capsys, "runs", "show", run_id).out
    commands: list[tuple[str, ...]] = [
        ("runs", "list"),
        ("runs", "refused"),
        ("runs", "list", "--status", "waiting"),
        ("sessions", "list", "weather"),
        ("sessions", "show", session_id),
        ("sessions", "show", session_id, "--json"),
        ("approvals", "list"),
        ("decisions", run_id),
        ("decisions", run_id, "--json"),
        ("runs", "tail", run_id, "--no-follow"),
        ("runs", "replay", run_id),
        ("runs", "diff", run_id, run_id),
        ("runs", "show", "nothing"),
        ("sessions", "show", "nothing"),
        ("approvals", "answer", "nothing", "approve"),
    ]
    asked = [run_here(capsys, *command) for command in commands]
    exported = run_here(capsys, "sessions", "export", session_id).out.splitlines()
    trees = [run_here(capsys, *command) for command in (("runs", "show", run_id), ("trace", run_id))]
    monkeypatch.delenv("WINDLASS_SERVER")
    store = ("--store", str(data / "local.db"))
    for command, ran in zip(commands, asked, strict=True):
        assert ran == run_here(capsys, *store, *command), command
    # The first line has the time, and the last a checksum of all.
    assert exported[1:-1] == run_here(capsys, *store, "sessions", "export", session_id).out.splitlines()[1:-1]
    # The later parts take longer and longer.
    for command, ran in zip((("runs", "show", run_id), ("trace", run_id)), trees, strict=True):
        assert _timeless(ran) == _timeless(run_here(capsys, *store, *command))


def _timeless(ran: Ran) -> str:
    return re.sub(r"\d[\d.]* (ms|s|min)|[█ ]+", "", ran.out)


def test_an_approval_is_asked_on_the_terminal_and_the_run_continues_on_the_server(tmp_path: Path) -> None:
    typed = Typed(tmp_path, ["run", "pay"])
    typed.until("deny")
    typed.type("approve")
    typed.until("paid 1 cents")
    assert typed.end() == 0


def test_a_waiting_run_is_answered_and_followed_to_its_end(capsys: Capture) -> None:
    assert run_here(capsys, "run", "pay").code == 3
    _, run_id = newest(capsys)
    waiting = [json.loads(line) for line in run_here(capsys, "approvals", "list", "--json").out.splitlines()]
    [request] = [one["request"]["requestId"] for one in waiting if one["runId"] == run_id]
    assert f"demo of local, run {run_id}, asked" in run_here(capsys, "approvals", "list").out
    ran = run_here(capsys, "approvals", "answer", request, "approve")
    assert (ran.code, "runs resume" in ran.err) == (0, False)
    assert f"The server drives the run. Follow it: windlass runs tail {run_id}" in ran.err
    ran = run_here(capsys, "runs", "resume", run_id)
    assert (ran.code, "paid 1 cents" in ran.out) == (0, True)
    assert "is resolved already: approve" in run_here(capsys, "approvals", "answer", request, "deny").err
    assert run_here(capsys, "runs", "resume", run_id).code == 0


def test_a_chat_is_a_session_of_the_server(tmp_path: Path, capsys: Capture) -> None:
    ran = run_apart(tmp_path, "chat", words="weather\n/quit\n")
    assert "Rain all day" in ran.out
    [session_id] = re.findall(r"windlass chat --session (\S+)", ran.err)
    ran = run_apart(tmp_path, "chat", "--session", session_id, words="weather\n")
    assert "Talking to demo" in ran.err
    shown = run_here(capsys, "sessions", "show", session_id)
    assert shown.out.count("user: weather") == 2
    ran = run_here(capsys, "run", "--session", "monday", "hello")
    assert (ran.code, "Omit --session" in ran.err) == (2, True)
    ran = run_here(capsys, "run", "--agent", "nobody", "hello")
    assert (ran.code, "Known agents: demo." in ran.err) == (2, True)


def test_sessions_are_forked_and_deleted_and_runs_cancelled(capsys: Capture) -> None:
    assert run_here(capsys, "run", "pay").code == 3
    session_id, run_id = newest(capsys)
    for data in ('{"amount": 40}', "by card"):
        sent = run_here(capsys, "runs", "send", run_id, "paid", data, "--key", data[:2])
        assert sent.err.strip() == f"paid was sent to {run_id}."
    assert run_here(capsys, "runs", "cancel", run_id, "--reason", "no").err.strip() == "cancelled"
    assert "the run has ended" in run_here(capsys, "runs", "send", run_id, "paid").err
    copy = run_here(capsys, "sessions", "fork", session_id).out.strip()
    assert "Omit --name" in run_here(capsys, "sessions", "fork", session_id, "--name", "x").err
    ended = run_here(capsys, "runs", "fork", run_id).out.strip()
    told = [run_here(capsys, "sessions", "show", name).out for name in (copy, ended)]
    assert told[0] == told[1] != ""
    assert '"kind":"end"' in run_here(capsys, "runs", "export", run_id).out
    assert run_here(capsys, "sessions", "delete", copy, "--yes").code == 0
    assert "unknown session" in run_here(capsys, "sessions", "show", copy).err


def test_ctrl_c_leaves_a_run_that_continues_on_the_server(tmp_path: Path, server: str) -> None:
    typed = Typed(tmp_path, ["run", "pay"])
    typed.until("deny")
    typed.signal(signal.SIGINT)
    assert typed.end() == 130
    assert f"It continues at {server}" in typed.seen


def test_commands_that_need_a_store_refuse_a_server(capsys: Capture) -> None:
    Path("x.jsonl").write_text("", encoding="utf-8")
    for command in (("sessions", "import", "x.jsonl"), ("acp",), ("doctor",)):
        ran = run_here(capsys, *command)
        assert (ran.code, "works on a store, and a server is named" in ran.err) == (2, True), ran
    assert "variable WINDLASS_SERVER" in run_here(capsys, "config").out


def test_the_key_comes_from_the_environment_and_is_never_shown(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    key = keyring.add("a", "acme", user="ann")
    with process(tmp_path / "more", "--keys", str(keyring.path)) as (_, port):
        address = ("--server", f"http://127.0.0.1:{port}")
        ran = run_here(capsys, *address, "runs", "list")
        assert (ran.code, "valid key" in ran.err) == (1, True)
        assert "WINDLASS_KEY is not set" in ran.err
        monkeypatch.setenv("WINDLASS_KEY", key)
        assert run_here(capsys, *address, "run", "weather").code == 0
        assert key not in run_here(capsys, *address, "config").out
        monkeypatch.setenv("WINDLASS_KEY", "wl_wr0ng")
        ran = run_here(capsys, *address, "run", "weather")
        assert (ran.code, "wr0ng" in ran.err + ran.out) == (1, False)
        assert "WINDLASS_KEY is not valid there" in ran.err
    monkeypatch.setenv("WINDLASS_SERVER", "nonsense")
    assert "url must be the address of a server" in run_here(capsys, "runs", "list").err


def test_an_unreachable_server_is_reported(capsys: Capture) -> None:
    ports: list[int] = []

    async def main() -> None:
        async with faking(b"") as fake:
            ports.append(fake.port)

    run(main())
    ran = run_here(capsys, "--server", f"http://127.0.0.1:{ports[0]}", "runs", "list")
    assert (ran.code, "cannot connect to" in ran.err) == (1, True)


def test_windlass_toml_names_the_server(
    tmp_path: Path, capsys: Capture, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WINDLASS_SERVER")
    (tmp_path / "windlass.toml").write_text(f'server = "{server}"\n', encoding="utf-8")
    assert run_here(capsys, "runs", "list").code == 0


@pytest.mark.parametrize("has_stalled", [False, True])
def test_doctor_tells_the_stalls_of_the_server_on_its_port(
    data: Path, server: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch, has_stalled: bool
) -> None:
    monkeypatch.delenv("WINDLASS_SERVER")
    monkeypatch.setenv("WINDLASS_SERVER_PORT", server.rpartition(":")[2])
    if not has_stalled:
        assert (
            f"✓ server: runs on {server[7:]}; its event loop stood still 0 times"
            in run_here(capsys, "doctor").out
        )
        return

    async def main() -> None:
        metrics = b"windlass_loop_stalls_total 3.0\nwindlass_loop_stall_seconds_total 4.25\n"
        async with faking(reply(200, metrics, content_type="text/plain")) as fake:
            monkeypatch.setenv("WINDLASS_SERVER_PORT", str(fake.port))
            ran = await asyncio.to_thread(run_here, capsys, "doctor")
            assert "! server: runs on" in ran.out
            assert "stood still 3 times, 4.2 s in all" in ran.out
            assert "the event loop stood still" in ran.out
            assert b"authorization" not in bytes(str(fake.requests).lower(), "utf-8")

    run(main())


@pytest.mark.parametrize(
    "metrics", [b"nothing", b"windlass_loop_stalls_total 3.0\n", b"windlass_loop_stalls_total x\n"]
)
def test_doctor_shows_a_port_that_another_program_has(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, metrics: bytes
) -> None:
    monkeypatch.delenv("WINDLASS_SERVER")

    async def main() -> None:
        async with faking(reply(200, metrics, content_type="text/plain")) as fake:
            monkeypatch.setenv("WINDLASS_SERVER_PORT", str(fake.port))
            ran = await asyncio.to_thread(run_here, capsys, "doctor")
            assert f"! server: cannot listen on 127.0.0.1:{fake.port}" in ran.out

    run(main())
