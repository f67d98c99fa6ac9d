"""Lifecycle of a sidecar, from its options to its last frame."""

import asyncio
import json
import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.sidecar.frames import read
from tests.sidecar.rig import play

from windlass import Rejected, ToolRouter, tool
from windlass.errors import Unavailable
from windlass.loading import load_tools
from windlass.ports.transport import TransportAdapter
from windlass_harness.views.stream import ChatFold
from windlass_protocol import Event, JsonObject, SSEEvent, SSEEventType
from windlass_sidecar import main as lifecycle
from windlass_sidecar.app import LineHandler, log_to
from windlass_sidecar.main import Options, read_options, run, watch_parent
from windlass_sidecar.rpc import Peer
from windlass_sidecar.stdio import Stderr, Stdio, StdioJsonRpcTransport
from windlass_sidecar.streams import GrowingScribe, notices


class Pipes:
    """The ends of a sidecar, and ours."""

    def __init__(self) -> None:
        self.in_fd, self.write_fd = os.pipe()
        self.read_fd, self.out_fd = os.pipe()
        self.err_read_fd, self.err_fd = os.pipe()
        self.near, self.far = socket.socketpair()
        self.stdio = Stdio(self.in_fd, self.out_fd, Stderr(self.err_fd))

    def send(self, method: str, call_id: int = 1) -> None:
        os.write(
            self.write_fd, json.dumps({"jsonrpc": "2.0", "id": call_id, "method": method}).encode() + b"\n"
        )

    def end(self) -> None:
        os.close(self.write_fd)

    async def messages(self) -> list[JsonObject]:
        """Everything that was sent, after the pipe was closed."""
        os.close(self.out_fd)
        found = b""
        while data := await asyncio.to_thread(os.read, self.read_fd, 65_536):
            found += data
        return [message for line in found.splitlines() for message in read(line)]

    def close(self) -> None:
        self.near.close()
        self.far.close()
        for fd in (self.in_fd, self.read_fd, self.err_read_fd, self.err_fd, self.write_fd, self.out_fd):
            with suppress(OSError):
                os.close(fd)


def _no_watch(on_gone: Callable[[], None]) -> None:
    """Do not watch the parent process."""


@pytest.fixture
def pipes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipes]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    monkeypatch.setattr(lifecycle, "watch_parent", _no_watch)
    made = Pipes()
    yield made
    made.close()
    root.handlers[:], root.level = handlers, level


def test_a_sidecar_runs_from_ready_to_the_end_of_stdin(pipes: Pipes, tmp_path: Path) -> None:
    async def story() -> None:
        pipes.send("system.ping")
        pipes.end()
        await run(Options(str(tmp_path / "store.db")), pipes.stdio)
        ready, pong, goodbye = await pipes.messages()
        assert ready["method"] == "lifecycle.ready"
        assert pong["id"] == 1
        assert goodbye["params"] == {"reason": "eof"}

    play(story())
    assert b"__SIDECAR_READY__:" in os.read(pipes.err_read_fd, 65_536)


@pytest.mark.parametrize("method", ["system.shutdown", "system.shutdown_now"])
def test_a_shutdown_request_ends_the_sidecar(pipes: Pipes, method: str) -> None:
    async def story() -> None:
        pipes.send(method)
        await run(Options(quiet_ready=True), pipes.stdio)
        messages = await pipes.messages()
        assert {"id": 1, "jsonrpc": "2.0", "result": None} in messages
        assert messages[-1]["params"] == {"reason": "normal"}

    play(story())


def test_new_requests_are_refused_while_the_sidecar_drains_and_ping_reports_it(
    pipes: Pipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    drains, is_answered = asyncio.Event(), asyncio.Event()
    answered: set[object] = set()
    drain, send = Peer[object].drain, StdioJsonRpcTransport.send

    async def draining(self: Peer[object]) -> None:
        drains.set()
        await drain(self)

    async def watched(self: StdioJsonRpcTransport, body: bytes) -> None:
        answered.update(message.get("id") for message in read(body))
        if {2, 3} <= answered:
            is_answered.set()
        await send(self, body)

    @tool(mode="read")
    async def slow() -> str:
        """Ask for two more things while everything ends."""
        await drains.wait()
        pipes.send("tool.list", 2)
        pipes.send("system.ping", 3)
        await is_answered.wait()
        return "done"

    def tools(names: Iterable[str]) -> ToolRouter:
        return ToolRouter([slow])

    monkeypatch.setattr(Peer, "drain", draining)
    monkeypatch.setattr(StdioJsonRpcTransport, "send", watched)
    monkeypatch.setattr(lifecycle, "load_tools", tools)

    async def story() -> None:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tool.invoke", "params": {"name": "slow"}}
        os.write(pipes.write_fd, json.dumps(call).encode() + b"\n")
        pipes.send("system.shutdown", 4)
        await run(Options(), pipes.stdio)
        by_id = {message.get("id"): message for message in await pipes.messages()}
        assert by_id[4]["result"] is None
        assert by_id[1]["result"] == {"success": True, "data": "done"}
        ping, refused = by_id[3]["result"], by_id[2]["error"]
        assert isinstance(ping, dict)
        assert ping["status"] == "shutting_down"
        assert isinstance(refused, dict)
        assert refused["code"] == -32005

    play(story())


def test_the_sidecar_ends_when_the_host_closes_stdout(pipes: Pipes) -> None:
    async def story() -> None:
        os.close(pipes.read_fd)
        pipes.send("system.ping")
        await run(Options(), pipes.stdio)

    play(story())


@pytest.mark.parametrize("end", ["eof", "half", "signal"])
def test_a_host_that_never_reads_is_not_in_the_way_of_the_end(
    pipes: Pipes, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Its pipe is full, so are we, and frames wait that are not looked at."""
    monkeypatch.setattr("windlass_sidecar.stdio.SEND_BYTES_MAX", 1_000)
    for name in ("DRAIN_S", "EOF_DRAIN_S", "CLOSE_S", "FLUSH_S"):
        monkeypatch.setattr(lifecycle, name, 0.05)
    if end == "half":  # some hosts have sockets in place of pipes
        os.dup2(pipes.near.fileno(), pipes.in_fd)
        os.dup2(pipes.far.fileno(), pipes.write_fd)
    os.set_blocking(pipes.out_fd, False)
    with suppress(BlockingIOError):
        while True:
            os.write(pipes.out_fd, b" " * 4_096)
    os.set_blocking(pipes.out_fd, True)
    is_answered, send = asyncio.Event(), StdioJsonRpcTransport.send

    async def watched(self: StdioJsonRpcTransport, body: bytes) -> None:
        if b"iii" in body:
            is_answered.set()
        await send(self, body)

    monkeypatch.setattr(StdioJsonRpcTransport, "send", watched)

    async def story() -> None:
        ping = json.dumps({"jsonrpc": "2.0", "id": "i" * 2_000, "method": "system.ping"}).encode() + b"\n"
        os.write(pipes.write_fd, ping)
        running = asyncio.ensure_future(run(Options(quiet_ready=True), pipes.stdio))
        await is_answered.wait()
        os.write(pipes.write_fd, ping)
        match end:
            case "eof":
                pipes.end()
            case "half":
                pipes.far.shutdown(socket.SHUT_WR)
            case _:
                os.kill(os.getpid(), signal.SIGTERM)
        await running

    play(story())


def test_a_parent_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = threading.Event()
    parents = iter([7, 7, 1])
    monkeypatch.setattr("windlass_sidecar.main.os.getppid", lambda: next(parents))
    monkeypatch.setattr("windlass_sidecar.main.PARENT_POLL_S", 0.0)
    watch_parent(gone.set)
    assert gone.wait(300)


def test_the_options_are_those_of_the_command_line() -> None:
    assert read_options([]) == Options()
    given = read_options(
        ["--store", "a.db", "--tools", "x", "--tools", "y:z", "--log-level", "debug", "--quiet-ready"]
    )
    assert given == Options("a.db", ("x", "y:z"), "debug", quiet_ready=True)


def test_tools_are_loaded_by_module_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
from windlass import Rejected, ToolRouter, tool
@tool(mode="read")
def one() -> str: return ""
@tool(mode="read")
def two() -> str: return ""
both = [one, two]
router = ToolRouter([two])
number = 5
"""
    (tmp_path / "sidecar_test_tools.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name, found in (
        ("", ["one", "two"]),
        (":both", ["one", "two"]),
        (":two", ["two"]),
        (":router", ["two"]),
    ):
        tools = load_tools([f"sidecar_test_tools{name}"]).list_tools()
        assert [one.name for one in tools] == found
    for names, words in (
        (["sidecar_test_tools:number"], "no tools found"),
        (["sidecar_test_tools:missing"], "has no missing"),
        (["sidecar_test_tools:one", "sidecar_test_tools"], "duplicate tool one"),
        (["no_such_module_at_all"], "no module named"),
    ):
        with pytest.raises(Rejected, match=words):
            load_tools(names)


def test_logs_are_lines_without_secrets_and_a_record_that_cannot_be_written_is_no_failure(
    pipes: Pipes,
) -> None:
    handler = log_to(pipes.stdio.errors, "info")
    assert isinstance(logging.getLogger().handlers[0], LineHandler)
    handler.scribe = GrowingScribe()
    handler.scribe.learn("a-secret-of-the-host")
    logging.getLogger("x").info("two\nlines with a-secret-of-the-host in %s", "them")
    logging.getLogger("x").info("%d", "no number")
    logging.getLogger("x").debug("not this")
    assert pipes.stdio.errors.flush(10)
    lines = os.read(pipes.err_read_fd, 65_536).decode().splitlines()
    assert len(lines) == 2
    assert "two lines with" in lines[0]
    assert "a-secret-of-the-host" not in lines[0]
    assert "cannot be formatted" in lines[1]


def test_unread_stderr_is_dropped_and_counted() -> None:
    reader, writer = os.pipe()
    errors = Stderr(writer, bytes_max=1_000_000)
    for _ in range(300):
        errors.write(b"x" * 10_000)
    assert not errors.flush(0.01)
    os.set_blocking(reader, False)
    heard = b""
    while not errors.flush(0.01):
        with suppress(BlockingIOError):
            heard += os.read(reader, 1_000_000)
    errors.write(b"again")
    while not heard.endswith(b"again"):
        with suppress(BlockingIOError):
            heard += os.read(reader, 1_000_000)
    # There may be several notes: the pipe takes bytes while the others are written.
    counts = re.findall(rb"\n\[([0-9,]+) bytes were dropped: stderr was not read\]\n", heard)
    assert sum(int(count.replace(b",", b"")) for count in counts) == 3_000_000 - heard.count(b"x")
    assert heard.endswith(b"not read]\nagain")
    errors.write(b"x" * 1_000_000)
    os.close(reader)
    assert errors.flush(10)
    os.close(writer)


@pytest.mark.promise("L1")
def test_a_host_that_does_not_read_is_not_listened_to_until_it_does() -> None:
    async def story() -> None:
        pipes = Pipes()
        transport = StdioJsonRpcTransport(pipes.in_fd, pipes.out_fd)
        sending = asyncio.create_task(transport.send(b"x" * 5_000_000))
        await asyncio.sleep(0)
        assert not sending.done()
        found = 0
        while found < 5_000_001:
            found += len(await asyncio.to_thread(os.read, pipes.read_fd, 1 << 20))
        await sending
        await transport.flush(10)
        pipes.end()
        assert [frame async for frame in transport.frames()] == []
        pipes.close()

    play(story())


def test_events_of_the_simple_chat_stream_go_both_ways() -> None:
    async def story() -> None:
        pipes = Pipes()
        transport = StdioJsonRpcTransport(pipes.in_fd, pipes.out_fd)
        adapter: TransportAdapter = transport
        event = SSEEvent(type=SSEEventType.CONTENT, content="hello")
        await adapter.emit(event)
        await transport.flush(10)
        line = os.read(pipes.read_fd, 65_536)
        other = b'{"jsonrpc":"2.0","method":"other"}\n'
        odd = b'{"jsonrpc":"2.0","method":"transport.event","params":{"type":"no such type"}}\n'
        os.write(pipes.write_fd, line + other + odd + b"no json\n" + line)
        pipes.end()
        assert [found async for found in adapter.receive()] == [event, event]
        pipes.close()

    play(story())


def test_an_event_for_a_host_that_closed_stdout_is_refused() -> None:
    async def story() -> None:
        pipes = Pipes()
        transport = StdioJsonRpcTransport(pipes.in_fd, pipes.out_fd)
        os.close(pipes.read_fd)
        await transport.emit(SSEEvent(type=SSEEventType.KEEPALIVE))
        assert [frame async for frame in transport.frames()] == []  # it ends once stdout is found closed
        with pytest.raises(Unavailable, match="stdout is closed"):
            await transport.emit(SSEEvent(type=SSEEventType.DONE))
        pipes.close()

    play(story())


def test_a_frame_that_is_refused_is_no_event() -> None:
    async def story() -> None:
        pipes = Pipes()
        transport = StdioJsonRpcTransport(pipes.in_fd, pipes.out_fd, half_frame_s=0.01)
        os.write(pipes.write_fd, b'{"half')
        receiving = asyncio.ensure_future(anext(aiter(transport.receive())))
        await transport.emit(SSEEvent(type=SSEEventType.DONE))
        await asyncio.to_thread(os.read, pipes.read_fd, 65_536)
        os.write(pipes.write_fd, b'\n{"jsonrpc":"2.0","method":"transport.event","params":{"type":"done"}}\n')
        assert (await receiving).type is SSEEventType.DONE
        pipes.end()
        pipes.close()

    play(story())


class Notified:
    """The notifications of the events of one step, each event by itself."""

    def __init__(self) -> None:
        self._chat = ChatFold()

    def __call__(self, kind: str, **data: object) -> list[object]:
        place = {"turnId": "t0", "stepIndex": 0, "sequence": 0}
        reason = {"finishReason": "stop"} if kind == "message.completed" else {}
        event = {"type": kind, "data": {**place, **reason, **data}, "meta": {"at": "2026-01-31T09:00:00Z"}}
        changes = self._chat.apply(Event.model_validate(event))
        return [params for change in changes for _, params in notices(change)]


def test_text_is_sent_once_whether_streamed_or_not() -> None:
    notified = Notified()
    assert notified("step.started") == []
    assert notified("message.appended", messageDelta="Hel", messageSoFar="Hel") == [{"delta": "Hel"}]
    assert notified("message.appended", messageDelta="lo", messageSoFar="Hello") == [{"delta": "lo"}]
    assert notified("message.appended", messageDelta="", messageSoFar="Hello") == []
    assert notified("message.completed", message="Hello you") == [{"delta": " you"}]
    assert notified("step.started", stepIndex=1) == []
    assert notified("message.completed", stepIndex=1, message="Not seen live") == [{"delta": "Not seen live"}]
    assert notified("step.started", stepIndex=2) == []
    assert notified("message.completed", stepIndex=2, message=None) == []


def test_an_answer_that_is_tried_again_takes_back_what_was_notified() -> None:
    notified = Notified()
    notified("step.started")
    assert notified("reasoning.appended", reasoningDelta="hm") == [{"reasoningDelta": "hm"}]
    assert notified("message.appended", messageDelta="wro") == [{"delta": "wro"}]
    assert notified("step.started") == [{"restart": True}]
    assert notified("message.appended", messageDelta="wr") == [{"delta": "wr"}]
    assert notified("message.completed", message="right") == [{"restart": True}, {"delta": "right"}]


def test_a_step_with_reasoning_and_calls_only_sends_no_restart() -> None:
    notified = Notified()
    notified("step.started")
    assert notified("reasoning.appended", reasoningDelta="hm") == [{"reasoningDelta": "hm"}]
    assert notified("reasoning.completed", reasoning="hm") == []
    call = {"kind": "tool-call", "callId": "c", "toolName": "t", "input": "x"}
    assert len(notified("actions.requested", actions=[call])) == 1
    assert notified("step.started", stepIndex=1) == []


def test_calls_are_sent_in_pieces_and_whole_and_failures_with_their_ids() -> None:
    notified = Notified()
    assert notified("action.input.appended", callId="c", inputDelta="{", toolName="t") == [
        {"toolCallDelta": {"id": "c", "argumentsDelta": "{", "name": "t"}}
    ]
    assert notified("action.input.appended", callId="c", inputDelta="}") == [
        {"toolCallDelta": {"id": "c", "argumentsDelta": "}"}}
    ]
    action = {"kind": "tool-call", "callId": "c", "toolName": "t", "input": "no object"}
    other = {"kind": "load-skill", "callId": "d", "input": "x"}
    assert notified("actions.requested", actions=[action, other]) == [
        {"toolCall": {"id": "c", "name": "t", "arguments": {"": "no object"}}}
    ]
    result = {"kind": "tool-result", "callId": "c", "toolName": "t", "output": None}
    assert notified("action.result", result=result, status="failed") == [
        {"toolResult": {"id": "c", "name": "t", "success": False, "error": "the call failed"}}
    ]
    skill = {"kind": "load-skill-result", "callId": "d", "output": "read"}
    assert notified("action.result", result=skill, status="completed") == [
        {"toolResult": {"id": "d", "success": True, "data": "read"}}
    ]
