"""Sidecars to test: one in this process, and real ones."""

import asyncio
import json
import os
import queue
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Self, cast

from tests.sidecar.frames import read

from tools.files import ROOT
from windlass import Tool, ToolRouter
from windlass_protocol import JsonObject, JsonValue
from windlass_sidecar.app import App
from windlass_sidecar.methods import CATALOGUE
from windlass_sidecar.rpc import Host, Peer
from windlass_sidecar.stdio import Frame

WAIT_S = 300.0
"""Longer than anything takes; a test that needs it has failed."""
SOURCES = os.pathsep.join(str(path) for path in sorted((ROOT / "packages").glob("*/src")))


def play(story: Coroutine[object, object, None]) -> None:
    """Run a story to its end, or fail."""

    async def limited() -> None:
        async with asyncio.timeout(WAIT_S):
            await story

    asyncio.run(limited())


class Line:
    """A wire without file descriptors."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[JsonObject] = asyncio.Queue()
        self._lines: asyncio.Queue[Frame | None] = asyncio.Queue()

    async def frames(self) -> AsyncIterator[Frame]:
        while (frame := await self._lines.get()) is not None:
            yield frame

    async def send(self, body: bytes) -> None:
        for message in read(body):
            self.sent.put_nowait(message)

    async def room(self) -> None:
        pass

    def put(self, frame: Frame | None) -> None:
        self._lines.put_nowait(frame)


class Client:
    """A host, in the same process as its sidecar."""

    def __init__(self, app: App, line: Line, peer: Peer[App]) -> None:
        self.app = app
        self.line = line
        self.peer = peer
        self.heard: list[JsonObject] = []
        self._seen = 0

    def send(self, message: JsonValue) -> None:
        self.line.put(json.dumps(message).encode())

    def ask(self, method: str, params: JsonValue = None, *, call_id: str | int = 1) -> None:
        self.send({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})

    async def until(self, wanted: Callable[[JsonObject], bool]) -> JsonObject:
        """The next message that matches; those before it are kept in `heard`."""
        while True:
            while self._seen < len(self.heard):
                self._seen += 1
                if wanted(self.heard[self._seen - 1]):
                    return self.heard[self._seen - 1]
            self.heard.append(await self.line.sent.get())

    async def call(self, method: str, params: JsonValue = None, *, call_id: str | int = 1) -> JsonObject:
        """The answer to a call; results are validated."""
        self.ask(method, params, call_id=call_id)
        return await self.until(lambda message: message.get("id") == call_id and "method" not in message)

    async def result(self, method: str, params: JsonValue = None) -> JsonValue:
        answer = await self.call(method, params)
        assert "result" in answer, answer
        return answer["result"]

    async def error(self, method: str, params: JsonValue = None) -> JsonObject:
        answer = await self.call(method, params)
        assert "error" in answer, answer
        return cast(JsonObject, answer["error"])

    async def method(self, name: str) -> JsonObject:
        """The parameters of the next notification or request of a name."""
        return await self.until(lambda message: message.get("method") == name)

    async def stream(self, **params: JsonValue) -> list[JsonObject]:
        """All notifications of a stream, up to its end."""
        given: JsonObject = {"provider": "demo", "model": "guide", **params}
        await self.result("agent.chat.stream", given)
        first = self._seen
        await self.method("stream.done")
        return self.heard[first : self._seen]

    def answer(self, request: JsonObject, result: JsonValue) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def refuse(self, request: JsonObject, code: int = -32601) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no"}})


@asynccontextmanager
async def sidecar(*tools: Tool[..., object], store: Path | None = None) -> AsyncGenerator[Client]:
    """A sidecar in this process, with everything but the file descriptors."""
    host, line = Host(), Line()
    app = await App.open(store, ToolRouter(tools), host=host)
    host.link = peer = Peer(line, app, methods=CATALOGUE)
    serving = asyncio.create_task(peer.serve())
    try:
        yield Client(app, line, peer)
        line.put(None)
        await serving
    finally:
        serving.cancel()
        await app.aclose()


def params_of(message: JsonObject) -> JsonObject:
    return cast(JsonObject, message["params"])


def said(messages: list[JsonObject]) -> str:
    """The words of an answer, put together of its pieces."""
    text = ""
    for message in messages:
        chunk = params_of(message)
        text = "" if chunk.get("restart") else text + str(chunk.get("delta") or "")
    return text


class Process:
    """A real sidecar process; every frame that it sends is checked."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "windlass_sidecar", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": SOURCES},
        )
        self.heard: list[JsonObject] = []
        self.errors = b""
        self._frames: queue.Queue[bytes | None] = queue.Queue()
        self._threads = [Thread(target=self._hear), Thread(target=self._hear_errors)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()
        assert self.child.stdin is not None
        self.close()
        self.child.wait()
        for thread in self._threads:
            thread.join()
        assert self.child.stdout is not None
        assert self.child.stderr is not None
        self.child.stdout.close()
        self.child.stderr.close()

    def _hear(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self._frames.put(line)
        self._frames.put(None)

    def _hear_errors(self) -> None:
        assert self.child.stderr is not None
        while data := os.read(self.child.stderr.fileno(), 65_536):
            self.errors += data

    def write(self, data: bytes) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(data)
        self.child.stdin.flush()

    def close(self) -> None:
        """Close our end."""
        assert self.child.stdin is not None
        with suppress(BrokenPipeError):
            self.child.stdin.close()

    def ask(self, method: str, params: JsonValue = None, *, call_id: str | int = 1) -> None:
        self.send({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})

    def send(self, message: JsonObject) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def next(self) -> JsonObject | None:
        """The next message; None at the end."""
        line = self._frames.get(timeout=WAIT_S)
        if line is None:
            return None
        assert line.endswith(b"\n"), line
        messages = read(line[:-1])
        self.heard += messages
        return messages[-1]

    def until(self, wanted: Callable[[JsonObject], bool]) -> JsonObject:
        while (message := self.next()) is not None:
            if wanted(message):
                return message
        raise AssertionError(f"it ended first: {self.errors.decode()}")

    def call(self, method: str, params: JsonValue = None, *, call_id: str | int = 1) -> JsonObject:
        self.ask(method, params, call_id=call_id)
        return self.until(lambda message: message.get("id") == call_id and "method" not in message)

    def method(self, name: str) -> JsonObject:
        return self.until(lambda message: message.get("method") == name)

    def rest(self) -> list[JsonObject]:
        """All messages up to the end."""
        found: list[JsonObject] = []
        while (message := self.next()) is not None:
            found.append(message)
        return found

    def hush(self) -> None:
        """Wait until everything on stderr is read."""
        self._threads[1].join()

    def ended(self, timeout_s: float = WAIT_S) -> int:
        """The exit code of the process, after it exits by itself."""
        return self.child.wait(timeout_s)
