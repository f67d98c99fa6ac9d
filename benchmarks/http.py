"""Cost of a run over HTTP: server CPU of one run, and runs per second of one server process.

Each server is a process of its own with a scripted model, one tool and a SQLite file with its default
durability. Sixteen clients in this process start runs and follow each to its end. The rounds of all servers
are interleaved. CPU is that of the server process with all its threads; the clients are not counted.

`python -m benchmarks.http` measures; `python -m benchmarks.http serve FOLDER` is our server.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, socket
from time import perf_counter, sleep

from benchmarks.goals import Numbers
from benchmarks.peers.environments import ROOT, NotInstalled, make_cache, python_of
from benchmarks.peers.task import TOOL_DESCRIPTION, Script, cpu_of, free_port
from benchmarks.peers.windlass_run import ScriptedModel
from windlass import Agent, Tool, tool
from windlass_server import Settings, Tenants
from windlass_server.app import serve
from windlass_server.auth import new_key
from windlass_server.settings import Limits

CLIENTS = 16
START_S_MAX = 60.0
SERVER_LIMITS = Limits(requests_per_s=1e6, requests_burst=1_000_000, bytes_per_s=1e12, cpu_per_s=1e6)
"""None that a measurement reaches."""
Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Size:
    """How much to run."""

    runs: int
    rounds: int
    warm_up_runs: int
    has_peer: bool


FULL = Size(runs=320, rounds=7, warm_up_runs=64, has_peer=True)
QUICK = Size(runs=2, rounds=1, warm_up_runs=1, has_peer=False)


class Wire:
    """A connection of a client that is kept open: the least that HTTP/1.1 needs."""

    def __init__(self, host: str, port: int, key: str) -> None:
        self._place = (host, port)
        self._head = f"Host: {host}:{port}\r\nAuthorization: Bearer {key}\r\n"
        self._ends: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: Json) -> Json:
        """Send a body, and return that of the response."""
        raw = json.dumps(body).encode()
        more = f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n"
        reader = await self._ask("POST", path, more, raw)
        status, headers = await _head(reader)
        content = await reader.readexactly(int(headers["content-length"]))
        if status >= 300:
            raise RuntimeError(f"POST {path}: {status} {content.decode()}")
        return json.loads(content)

    async def follow(
        self, path: str, seen: Callable[[bytes], Awaitable[None]], body: Json | None = None
    ) -> None:
        """Read a stream to its end; `seen` gets each line that is not empty."""
        raw = b"" if body is None else json.dumps(body).encode()
        more = f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n" if raw else ""
        reader = await self._ask("POST" if raw else "GET", path, more, raw)
        status, headers = await _head(reader)
        if status != 200 or headers.get("transfer-encoding") != "chunked":
            raise RuntimeError(f"{path}: {status} is no stream")
        left = b""
        while size := int(await reader.readline(), 16):
            *lines, left = (left + (await reader.readexactly(size + 2))[:-2]).split(b"\n")
            for line in lines:
                if line:
                    await seen(line)
        await reader.readexactly(2)

    def close(self) -> None:
        """Close the connection."""
        if self._ends is not None:
            self._ends[1].close()

    async def _ask(self, method: str, path: str, more: str, raw: bytes) -> asyncio.StreamReader:
        if self._ends is None:
            self._ends = await asyncio.open_connection(*self._place)
        reader, writer = self._ends
        writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}{more}\r\n".encode() + raw)
        await writer.drain()
        return reader


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.split(": ", 1) for line in lines[1:] if line)
    return int(lines[0].split(" ")[1]), {name.lower(): value for name, value in pairs}


Drive = Callable[["Server", Wire, str], Awaitable[None]]
"""Starts the run of a name and follows it to its end."""


async def drive_run(server: "Server", wire: Wire, name: str) -> None:
    """Start a run, and follow it as JSON lines."""
    started = await wire.post("/v1/sessions", {"agent": "bench", "message": Script.prompt(name)})
    last = b""

    async def seen(line: bytes) -> None:
        nonlocal last
        last = line

    await wire.follow(f"/v1/runs/{started['runId']}/events?format=ndjson", seen)
    _check(last, b'"type":"run.completed"')


async def drive_approval(server: "Server", wire: Wire, name: str) -> None:
    """Start a run that waits for an approval, approve over another connection, follow the run to its end."""
    started = await wire.post("/v1/sessions", {"agent": "asks", "message": Script.prompt(name)})
    other, last = server.wire(), b""

    async def seen(line: bytes) -> None:
        nonlocal last
        last = line
        if b'"type":"input.requested"' in line:
            data = json.loads(line)["data"]
            await other.post(f"/v1/approvals/{data['requests'][0]['requestId']}", {"optionId": "approve"})

    await wire.follow(f"/v1/runs/{started['runId']}/events?format=ndjson", seen)
    other.close()
    _check(last, b'"type":"run.completed"')


async def drive_adk(server: "Server", wire: Wire, name: str) -> None:
    """Start a run; the response is the stream of its events."""
    last = b""

    async def seen(line: bytes) -> None:
        nonlocal last
        last = line

    message = {"role": "user", "parts": [{"text": Script.prompt(name)}]}
    ask: Json = {
        "appName": "bench",
        "userId": "ann",
        "sessionId": name,
        "newMessage": message,
        "streaming": True,
    }
    await wire.follow("/run_sse", seen, ask)
    _check(last, b"All pages are collected.")


class RunFailed(Exception):
    """A run ended otherwise than expected."""


def _check(line: bytes, expected: bytes) -> None:
    if expected not in line:
        raise RunFailed(f"the run ended otherwise: {line.decode()[:400]}")


@dataclass(slots=True)
class Server:
    """A server that runs."""

    name: str
    pid: int
    host: str
    port: int
    key: str
    runs: int = 0

    def wire(self) -> Wire:
        """Return a new connection."""
        return Wire(self.host, self.port, self.key)


@dataclass(slots=True)
class Best:
    """The best of the rounds."""

    cpu_ms: float = float("inf")
    runs_per_s: float = 0.0
    runs: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Contender:
    """A row: which server, and what its clients do."""

    name: str
    server: str
    drive: Drive
    may_fail: bool = False
    """Whether failed runs are counted; otherwise the first one ends the measurement."""


@dataclass(frozen=True, slots=True)
class Command:
    """How a server is started."""

    python: Path
    arguments: Sequence[str]
    surroundings: Mapping[str, str] = field(default_factory=dict[str, str])


@contextmanager
def running(name: str, command: Command, *, key: str, port: int) -> Generator[Server]:
    """Start a server; end it at the end."""
    child = subprocess.Popen(
        [str(command.python), *command.arguments],
        env={**os.environ, **command.surroundings},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _until_listening(child, port)
        yield Server(name, child.pid, "127.0.0.1", port, key)
    finally:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _until_listening(child: "subprocess.Popen[bytes]", port: int) -> None:
    began = perf_counter()
    while perf_counter() - began < START_S_MAX:
        with socket(AF_INET, SOCK_STREAM) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if child.poll() is not None:
            raise RuntimeError(f"the server ended with {child.returncode}")
        sleep(0.05)
    raise RuntimeError("the server did not start in time")


async def drive(server: Server, contender: Contender, runs: int) -> Best:
    """Let the clients do some runs; return their cost."""
    wires = [server.wire() for _ in range(CLIENTS)]
    left = iter(range(server.runs, server.runs + runs))
    server.runs += runs
    failed = 0

    async def client(wire: Wire) -> None:
        nonlocal failed
        for number in left:
            try:
                await contender.drive(server, wire, f"s{number}")
            except RunFailed:
                if not contender.may_fail:
                    raise
                failed += 1

    began, before = perf_counter(), cpu_of(server.pid)
    await asyncio.gather(*(client(wire) for wire in wires))
    spent, took = cpu_of(server.pid) - before, perf_counter() - began
    for wire in wires:
        wire.close()
    return Best(spent / runs * 1e3, (runs - failed) / took, runs, failed)


RUN = Contender("a run with one tool over HTTP", "windlass", drive_run)
APPROVAL = Contender("an approval answered over HTTP", "windlass", drive_approval)
ADK = Contender("the same run, adk api_server", "adk", drive_adk, may_fail=True)


async def measure(
    servers: Mapping[str, Server], contenders: Sequence[Contender], size: Size
) -> dict[str, Best]:
    """Return the best of interleaved rounds of each contender."""
    best = {one.name: Best() for one in contenders}
    for one in contenders:
        await drive(servers[one.server], one, size.warm_up_runs)
    for _ in range(size.rounds):
        for one in contenders:
            found, known = await drive(servers[one.server], one, size.runs), best[one.name]
            known.cpu_ms = min(known.cpu_ms, found.cpu_ms)
            known.runs_per_s = max(known.runs_per_s, found.runs_per_s)
            known.runs += found.runs
            known.failed += found.failed
    return best


def measured(size: Size = FULL) -> dict[str, Best]:
    """Return the cost of each contender; that of the peer is missing if it cannot be installed."""
    make_cache()
    with tempfile.TemporaryDirectory() as folder:
        key, port = write_key(Path(folder)), free_port()
        ours = Command(Path(sys.executable), ["-m", "benchmarks.http", "serve", folder, str(port)])
        with running("windlass", ours, key=key, port=port) as server:
            if not size.has_peer:
                return asyncio.run(measure({"windlass": server}, [RUN, APPROVAL], size))
            peer_port = free_port()
            try:
                theirs = _adk(Path(folder) / "adk", peer_port)
            except NotInstalled as error:
                print(f"adk: not installed: {error}", flush=True)
                return asyncio.run(measure({"windlass": server}, [RUN, APPROVAL], size))
            with running("adk", theirs, key="", port=peer_port) as peer:
                servers = {"windlass": server, "adk": peer}
                return asyncio.run(measure(servers, [RUN, ADK, APPROVAL], size))


_REPORT = """
## Over HTTP

A run with one tool: a client starts it with POST and follows its events to the end, as JSON lines. One
server process with a SQLite file and its default durability, an API key, and {clients} clients in another
process. An approval is the same run with a tool that asks a person; the client answers over a second
connection. `adk api_server` is that of Google ADK with its default, a SQLite file: one request starts the run
and is answered with its events. CPU is that of the server process, the least of {rounds} interleaved rounds;
runs a second are the most of them.

| what | server CPU a run | runs a second | failed |
|---|---:|---:|---:|
{rows}
"""


def report(size: Size = FULL) -> tuple[str, Numbers]:
    """Measure, and return the section of RESULTS.md; no goal is about it."""
    rows = [
        f"| {name} | {best.cpu_ms:.2f} ms | {best.runs_per_s:.0f} | {best.failed} of {best.runs:,} |"
        for name, best in measured(size).items()
    ]
    return _REPORT.format(clients=CLIENTS, rounds=size.rounds, rows="\n".join(rows)), {}


def _adk(folder: Path, port: int) -> Command:
    """Return the command of `adk api_server`, with its own default: sessions in a SQLite file."""
    agent = folder / "bench"
    agent.mkdir(parents=True)
    (agent / "__init__.py").write_text("", "ascii")
    (agent / "agent.py").write_text("from benchmarks.peers.adk_run import root_agent\n", "ascii")
    options = ["--host", "127.0.0.1", "--port", str(port), "--auto_create_session", "--log_level", "warning"]
    quiet = {"PYTHONPATH": str(ROOT), "OTEL_SDK_DISABLED": "true"}
    return Command(python_of("adk"), ["-m", "google.adk.cli", "api_server", *options, str(folder)], quiet)


# our server


def write_key(folder: Path) -> str:
    """Make a key for the server of a folder."""
    key, entry = new_key("bench", "acme", user="ann")
    approver = entry.model_copy(update={"roles": ("approver",)})
    (folder / "keys.json").write_text(json.dumps({"keys": [approver.model_dump(mode="json", by_alias=True)]}))
    return key


def serve_here(folder: Path, port: int) -> int:
    """Serve two agents until the process is ended; the second one asks before it calls its tool."""
    script = Script()
    script.reset(1)

    async def lookup(query: str, page: int) -> str:
        return script.lookup(query, page)

    model = ScriptedModel(script)
    plain: Tool[..., object] = tool(mode="safe_write", effect="once", description=TOOL_DESCRIPTION)(lookup)
    asking: Tool[..., object] = tool(
        mode="safe_write", effect="once", description=TOOL_DESCRIPTION, approval="always"
    )(lookup)
    agents = [Agent("bench", model=model, tools=[plain]), Agent("asks", model=model, tools=[asking])]
    settings = Settings(port=port, keys=folder / "keys.json", limits=SERVER_LIMITS)
    return serve(settings, Tenants(folder / "data", agents))


def main() -> int:
    """Measure, or serve."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["serve"])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("port", nargs="?", type=int)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.what == "serve":
        return serve_here(options.folder, options.port)
    print(report(QUICK if options.quick else FULL)[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
