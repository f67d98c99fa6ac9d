"""Real processes: tools that print, hosts that exit, endless lines."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Timer
from typing import cast

import pytest
from tests.sidecar.frames import read
from tests.sidecar.rig import SOURCES, WAIT_S, Process, params_of

from windlass_protocol import JsonObject, JsonValue, SidecarHealth, decode
from windlass_sidecar.limits import CLOSE_NOW_S, FLUSH_S, PARENT_POLL_S

TOOLS = '''
import asyncio, os, subprocess, sys, time
from windlass import tool

print("printed while it was loaded")

@tool(mode="read")
def noisy(text: str) -> str:
    """Print in every way there is."""
    print("by print", text)
    sys.stdout.write("{}\\n" * 1000)
    sys.__stdout__.write("by the first stdout\\n")
    sys.__stdout__.flush()
    os.write(1, b'{"jsonrpc":"2.0","id":1,"result":"forged"}\\n')
    subprocess.run([sys.executable, "-c", "print('by a child')"], check=True)
    os.system("echo by a shell")
    return "done" + repr(sys.stdin.read(10))

@tool(mode="read")
def sleepy() -> str:
    """Never end."""
    while True:
        time.sleep(60)

@tool(mode="read")
async def stubborn() -> str:
    """Hear of no end."""
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

@tool(mode="safe_write", effect="idempotent")
def touch(path: str) -> str:
    """Add a line to a file, and wait to be killed the first time."""
    with open("touched", "a") as file:
        file.write(path + "\\n")
    while not os.path.exists("go on"):
        time.sleep(0.01)
    return "touched"

@tool(mode="safe_write", effect="once")
def pay(path: str) -> str:
    """The same, but never twice."""
    return touch(path)

@tool(mode="read")
async def loud() -> str:
    """Write much to stderr."""
    for _ in range(30):
        sys.stderr.write("x" * 100_000)
    os.write(2, b"by its number")
    return "said"

@tool(mode="read")
async def gives_up() -> str:
    """Cancel itself."""
    raise asyncio.CancelledError

@tool(mode="read")
async def interrupts() -> str:
    """Play Ctrl-C."""
    raise KeyboardInterrupt

not_a_tool = 5
'''
CHAT: dict[str, JsonValue] = {"provider": "demo", "model": "m", "streamId": "s1"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mytools.py").write_text(TOOLS, encoding="utf-8")
    return tmp_path


def asked(text: str) -> JsonValue:
    return {**CHAT, "messages": [{"role": "user", "content": text}]}


@pytest.mark.promise("L1")
def test_output_of_a_tool_to_stdout_corrupts_no_frame(folder: Path) -> None:
    with Process("--tools", "mytools", folder=folder) as process:
        process.method("lifecycle.ready")
        answer = process.call("tool.invoke", {"name": "noisy", "arguments": {"text": "x"}})
        assert answer["result"] == {"success": True, "data": "done''"}
        process.call("agent.chat.stream", asked("noisy"))
        assert params_of(process.method("stream.done"))["ok"] is True
        process.close()
        assert process.ended() == 0
        assert process.rest()[-1]["method"] == "lifecycle.shutdown"
        process.hush()
    for words in (
        b"while it was loaded",
        b"by print",
        b"the first stdout",
        b"forged",
        b"child",
        b"by a shell",
    ):
        assert words in process.errors, words


def test_the_ready_mark_and_notification_carry_health_and_pid(tmp_path: Path) -> None:
    with Process(folder=tmp_path) as process:
        ready = process.method("lifecycle.ready")
        assert process.heard == [ready]
        params = params_of(ready)
        assert params["pid"] == process.child.pid
        assert params["protocolVersion"] == "1.0"
        process.close()
        assert process.ended() == 0
        assert process.rest() == [
            {"jsonrpc": "2.0", "method": "lifecycle.shutdown", "params": {"reason": "eof"}}
        ]
        process.hush()
    [mark] = [line for line in process.errors.splitlines() if line.startswith(b"__SIDECAR_READY__:")]
    health = decode(SidecarHealth, mark.partition(b":")[2])
    assert (health.status, health.pid) == ("ok", process.child.pid)


def test_a_quiet_sidecar_writes_no_mark(tmp_path: Path) -> None:
    with Process("--quiet-ready", "--log-level", "error", folder=tmp_path) as process:
        process.method("lifecycle.ready")
        process.close()
        assert process.ended() == 0
    assert process.errors == b""


def test_pending_requests_are_answered_after_the_end_of_stdin(tmp_path: Path) -> None:
    ping = b'{"jsonrpc":"2.0","id":7,"method":"system.ping"}'
    command = [sys.executable, "-m", "windlass_sidecar"]
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    found = subprocess.run(
        command, input=ping, capture_output=True, cwd=tmp_path, env=environment, timeout=WAIT_S, check=True
    )
    messages = [message for line in found.stdout.splitlines() for message in read(line)]
    assert [message.get("method") or message.get("id") for message in messages] == [
        "lifecycle.ready",
        7,
        "lifecycle.shutdown",
    ]


@pytest.mark.promise("L1")
def test_a_line_of_a_gigabyte_is_refused_in_little_memory_and_the_next_is_answered(tmp_path: Path) -> None:
    with Process(folder=tmp_path) as process:
        process.method("lifecycle.ready")
        process.call("system.ping")
        before = peak_kib(process.child.pid)
        piece = b"x" * (1 << 20)
        for _ in range(1 << 10):
            process.write(piece)
        process.write(b"\n")
        refused = process.until(lambda message: "error" in message)
        assert refused["id"] is None
        assert "8,388,608" in str(refused["error"])
        assert process.call("system.ping", call_id=2)["result"]
        assert peak_kib(process.child.pid) - before < 2 * 8 * 1_024
        process.close()
        assert process.ended() == 0


def peak_kib(pid: int) -> int:
    """The most memory that a process ever had."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1])


@pytest.mark.promise("L1")
def test_a_partial_line_without_an_end_times_out(tmp_path: Path) -> None:
    with Process("--frame-timeout", "0.1", folder=tmp_path) as process:
        process.method("lifecycle.ready")
        process.write(b'{"jsonrpc":"2.0","id":1,"met')
        error = process.next()
        assert error is not None
        assert error["id"] is None
        assert "unfinished frame" in str(error["error"])
        assert process.call("system.ping", call_id=2)["result"]


@pytest.mark.promise("L1")
@pytest.mark.parametrize("tool", [None, "sleepy"], ids=["idle", "with a tool that never ends"])
def test_a_sidecar_ends_when_its_parent_dies(folder: Path, tool: str | None) -> None:
    """The pipes stay open: this process holds their other ends."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, sys.executable],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCES},
    )
    with parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        ready = json.loads(parent.stdout.readline())
        pid = int(ready["params"]["pid"])
        if tool is not None:
            call = {"jsonrpc": "2.0", "id": 1, "method": "tool.invoke", "params": {"name": tool}}
            parent.stdin.write(json.dumps(call).encode() + b"\n")
            parent.stdin.flush()
        sidecar = os.pidfd_open(pid)
        parent.kill()
        try:
            assert select.select([sidecar], [], [], WAIT_S)[0], "it lives on without its parent"
        finally:
            os.close(sidecar)
    # It looks for its parent, closes and flushes: two seconds on a machine that is not busy.
    assert PARENT_POLL_S + CLOSE_NOW_S + FLUSH_S <= 2


PARENT = """
import subprocess, sys
subprocess.run([sys.argv[1], "-m", "windlass_sidecar", "--tools", "mytools"])
"""


def test_shutdown_answers_drains_and_says_goodbye(folder: Path) -> None:
    with Process("--tools", "mytools", folder=folder) as process:
        process.method("lifecycle.ready")
        process.ask("agent.chat.stream", asked("hello"), call_id="stream")
        process.ask("system.shutdown", call_id="end")
        messages = process.rest()
        assert process.ended() == 0
        by_id = {str(message["id"]): message for message in messages if "id" in message}
        assert by_id["end"]["result"] is None
        assert {"streamId": "s1", "ok": True} in [message.get("params") for message in messages]
        assert messages[-1] == {
            "jsonrpc": "2.0",
            "method": "lifecycle.shutdown",
            "params": {"reason": "normal"},
        }


def test_shutdown_now_does_not_wait_for_running_calls(folder: Path) -> None:
    with Process("--tools", "mytools", folder=folder) as process:
        process.method("lifecycle.ready")
        process.ask("tool.invoke", {"name": "sleepy"}, call_id="never")
        process.ask("tool.invoke", {"name": "stubborn"}, call_id="never")
        process.call("agent.chat.stream", asked("sleepy"))
        assert process.call("system.shutdown_now", call_id=2)["result"] is None
        rest = process.rest()
        assert process.ended() == 0
        assert rest[-1]["method"] == "lifecycle.shutdown"
        assert "never" not in {str(message.get("id")) for message in rest}


def test_a_signal_ends_the_sidecar_in_order(folder: Path) -> None:
    with Process(folder=folder) as process:
        process.method("lifecycle.ready")
        process.child.send_signal(signal.SIGTERM)
        assert process.rest()[-1]["method"] == "lifecycle.shutdown"
        assert process.ended() == 0


@pytest.mark.promise("J6")
def test_a_stream_of_a_process_that_was_killed_goes_on_in_the_next(folder: Path) -> None:
    with Process("--tools", "mytools", "--store", "chats.db", folder=folder) as process:
        process.method("lifecycle.ready")
        process.call("agent.chat.stream", asked("touch"))
        wait_for(folder / "touched")
        process.child.kill()
    (folder / "go on").touch()
    with Process("--tools", "mytools", "--store", "chats.db", folder=folder) as process:
        process.method("lifecycle.ready")
        process.call("agent.chat.stream", asked("touch"))
        assert params_of(process.method("stream.done"))["ok"] is True
        process.close()
        assert process.ended() == 0
    assert (folder / "touched").read_text(encoding="utf-8") == "touch\ntouch\n", "again, as it may be"


@pytest.mark.promise("J6")
def test_a_call_that_may_have_happened_waits_for_a_person_in_the_next_process(folder: Path) -> None:
    with Process("--tools", "mytools", "--store", "chats.db", folder=folder) as process:
        process.method("lifecycle.ready")
        process.call("agent.chat.stream", asked("pay"))
        wait_for(folder / "touched")
        process.child.kill()
    (folder / "go on").touch()
    with Process("--tools", "mytools", "--store", "chats.db", folder=folder) as process:
        process.method("lifecycle.ready")
        process.call("agent.chat.stream", asked("pay"))
        told = process.until(lambda message: "inputRequests" in str(message.get("params")))
        [request] = cast(list[JsonObject], params_of(told)["inputRequests"])
        assert request["kind"] == "recovery"
        answer: JsonObject = {"streamId": "s1", "requestId": request["requestId"], "optionId": "skip"}
        assert process.call("agent.input.answer", answer, call_id=2)["result"] is None
        assert params_of(process.method("stream.done"))["ok"] is True
    assert (folder / "touched").read_text(encoding="utf-8") == "pay\n"


def wait_for(path: Path) -> None:
    limit_s = time.monotonic() + WAIT_S
    while not path.exists() or not path.read_bytes():
        assert time.monotonic() < limit_s, f"{path} never came"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tools", "no_such_module"), "no module named no_such_module"),
        (("--store", "mytools.py"), "windlass-sidecar: "),
    ],
)
def test_a_sidecar_that_cannot_start_reports_the_reason(
    folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    with Process(*arguments, folder=folder) as process:
        assert process.ended() == 1
        assert process.rest() == []
        process.hush()
    assert words in process.errors.decode()
    assert "Traceback" not in process.errors.decode()


def test_a_host_that_reads_neither_stderr_nor_stdout_is_not_in_the_way_of_its_end(folder: Path) -> None:
    program = [sys.executable, "-m", "windlass_sidecar", "--tools", "mytools"]
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    with subprocess.Popen(
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment,
    ) as child:
        assert child.stdin is not None
        noisy = {"name": "noisy", "arguments": {"text": "x" * 100_000}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tool.invoke", "params": noisy}
        for _ in range(20):
            child.stdin.write(json.dumps(body).encode() + b"\n")
        child.stdin.close()
        assert child.wait(WAIT_S) == 0


def test_a_host_that_does_not_read_stderr_holds_up_no_tool(folder: Path) -> None:
    program = [sys.executable, "-m", "windlass_sidecar", "--tools", "mytools"]
    with subprocess.Popen(
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCES},
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        watchdog = Timer(WAIT_S, child.kill)
        watchdog.start()
        for number in (1, 2):
            call = {"jsonrpc": "2.0", "id": number, "method": "tool.invoke", "params": {"name": "loud"}}
            child.stdin.write(json.dumps(call).encode() + b"\n")
            child.stdin.flush()
            while (answer := json.loads(child.stdout.readline())).get("id") != number:
                pass
            assert answer["result"]["data"] == "said"
        child.stdin.close()
        assert child.wait(WAIT_S) == 0
        watchdog.cancel()


@pytest.mark.parametrize("name", ["gives_up", "interrupts"])
def test_an_exception_of_a_tool_is_answered_and_the_sidecar_goes_on(folder: Path, name: str) -> None:
    with Process("--tools", "mytools", folder=folder) as process:
        process.method("lifecycle.ready")
        answer = process.call("tool.invoke", {"name": name})
        result = cast(JsonObject, answer["result"])
        assert result["success"] is False
        assert ("cancelled itself" in str(result)) == (name == "gives_up")
        process.call("agent.chat.stream", asked(name), call_id=2)
        told = process.until(lambda message: "toolResult" in str(message.get("params")))
        assert cast(JsonObject, params_of(told)["toolResult"])["success"] is False
        assert params_of(process.method("stream.done"))["ok"] is True
        process.close()
        assert process.ended() == 0
