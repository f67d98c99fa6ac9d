"""The task that every peer does, and how it is measured. Standard library alone.

A step is one answer of the model that calls one tool (about 100 bytes of arguments) and the tool's result
(about 1 kB, or as much source code as is asked for); the last answer is a text. The model is a script in the
same process. The measure is the CPU time of the process with all its threads, because other people may use
the machine; wall time is reported beside it.
"""

import argparse
import asyncio
import ctypes
import gc
import hashlib
import json
import os
import resource
import sqlite3
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from socket import socket
from time import clock_gettime, perf_counter, process_time
from types import FrameType

TOOL = "lookup"
TOOL_DESCRIPTION = "Look up one page of the ledger."
INSTRUCTIONS = "Collect the pages of the ledger, one at a time, then say that you are done."
FINAL = "All pages are collected."
WARM_UP_STEPS = 3
POOL_PAGES = 512
PAGE_DIGESTS = 14
SOURCES_MAX = 64
ROW_CHARS = 180
PARKED_AT_ONCE = 50
COUNT_FROM, COUNT_TO = 100, 260
"""The steps between which calls of Python functions are counted."""
CRASHED = 17
"""Exit code of a process that ended on purpose in the middle of a model call."""
SETTLE_S = 1.0
"""How long the model call lasts in which the process ends: whatever is written in the background is then
written."""

POSTGRES = os.environ.get("BENCH_POSTGRES", "")
"""The address of the database in the scenario `shared`."""
TEMPORAL = os.environ.get("BENCH_TEMPORAL", "")
"""The address of the Temporal server in the scenario `shared`."""

SQLITE_HEADER = b"SQLite format 3\0"
JsonLine = dict[str, object]


def page_text(number: int) -> str:
    """Return about 1 kB that neither compresses nor repeats."""
    digests = (hashlib.sha256(f"{number}/{part}".encode()).hexdigest() for part in range(PAGE_DIGESTS))
    return "\n".join(digests)


def source_texts(size: int) -> list[str]:
    """Return pieces of source code of that many characters, from the standard library."""
    folder = Path(argparse.__file__).parent
    whole = "".join(path.read_text("utf-8") for path in sorted(folder.glob("*.py")))
    starts = range(0, len(whole) - size, size)
    return [whole[start : start + size] for start in starts[:SOURCES_MAX]]


def ledger_rows(number: int, size: int) -> list[dict[str, object]]:
    """Return rows of a ledger that are about `size` characters as JSON."""
    return [
        {
            "invoice": f"INV-{number:04}-{line:05}",
            "customer": f"Customer {(number * 31 + line) % 997} of the northern region",
            "amount": (number * 7_919 + line * 104_729) % 1_000_000 / 100,
            "currency": "EUR",
            "isPaid": line % 3 == 0,
            "dueDays": line % 90,
            "tags": ["open", "north", f"batch-{line % 17}"],
        }
        for line in range(size // ROW_CHARS)
    ]


@dataclass(frozen=True, slots=True)
class Call:
    """A call that the scripted model asks for."""

    id: str
    query: str
    page: int

    @property
    def arguments(self) -> dict[str, object]:
        return {"query": self.query, "page": self.page}

    @property
    def arguments_json(self) -> str:
        return json.dumps(self.arguments)


class Script:
    """The model and the tool.

    Its work does not grow with the history: it looks at the last message alone.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.model_calls = 0
        self.tool_calls = 0
        self.content_bytes = 0
        self.crash_at: int | None = None
        self.on_model_call: Callable[[int], None] | None = None
        self._pages = [page_text(number) for number in range(POOL_PAGES)]

    def load_sources(self, size: int) -> None:
        """Let the tool return source code of that many characters instead of pages."""
        self._pages = source_texts(size)

    def reset(self, steps: int) -> None:
        self.steps, self.model_calls, self.tool_calls, self.content_bytes = steps, 0, 0, 0

    @staticmethod
    def prompt(session: str) -> str:
        return f"{session}: {INSTRUCTIONS}"

    @staticmethod
    def call(session: str, step: int) -> Call:
        query = f"{session}/{step}: open invoices of the northern region, newest first"
        return Call(f"call.{session}.{step}", query, step)

    async def answer(self, last: str, history: int) -> Call | None:
        """Return the call that comes next, or None for the final text.

        Args:
            last: the call id of the last message if it is a tool's result, else its text.
            history: how many messages the model was given.
        """
        if self.on_model_call is not None:
            self.on_model_call(history)
        if last.startswith("call."):
            _, session, previous = last.split(".")
            step = int(previous) + 1
        else:
            session, step = last.split(":", 1)[0], 0
        if step == self.crash_at:
            await asyncio.sleep(SETTLE_S)
            os._exit(CRASHED)
        self.model_calls += 1
        if step >= self.steps:
            self.content_bytes += len(FINAL) + len(self.prompt(session))
            return None
        call = self.call(session, step)
        self.content_bytes += len(call.arguments_json)
        return call

    def lookup(self, query: str, page: int) -> str:
        """Do the work of the tool."""
        self.tool_calls += 1
        text = f"{query}\n{self._pages[page % len(self._pages)]}"
        self.content_bytes += len(text)
        return text


class Runner(ABC):
    """One peer, used as its own documentation says."""

    name: str
    packages: tuple[str, ...] = ()
    servers: tuple[int, ...] = ()
    """Ids of the server processes that the peer needs; their use is added to that of this process."""

    async def serve(self, folder: Path) -> None:  # noqa: B027 (most need no server)
        """Start the servers on the database in `folder`; the clock does not see it."""

    @abstractmethod
    async def open(self, folder: Path, script: Script) -> None:
        """Open or create the database in `folder`."""

    async def prepare(self, sessions: Sequence[str]) -> None:  # noqa: B027 (most have nothing to prepare)
        """Do what the clock should not see."""

    @abstractmethod
    async def run(self, session: str) -> str:
        """Do the whole task in that session; return the final text."""

    @abstractmethod
    async def resume(self, session: str) -> None:
        """Bring the session of a process that ended in the middle to its next model call."""

    async def park(self, sessions: Sequence[str]) -> None:  # noqa: B027 (most keep nothing)
        """Let go of what a session that waits for its next message need not keep."""

    @abstractmethod
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Reading:
    """What the process, and the servers of the peer, have used up to now."""

    cpu_s: float
    server_cpu_s: float
    wall_s: float
    file_bytes: int
    written_chars: int | None
    written_bytes: int | None

    @classmethod
    def take(cls, folder: Path, servers: Sequence[int]) -> "Reading":
        files = sum(path.stat().st_size for path in folder.iterdir() if not path.name.endswith("-shm"))
        chars, blocks = _written(servers)
        served = sum(cpu_of(server) for server in servers)
        return cls(process_time() + served, served, perf_counter(), files, chars, blocks)

    def since(self, before: "Reading") -> JsonLine:
        return {
            "cpu_s": self.cpu_s - before.cpu_s,
            "server_cpu_s": self.server_cpu_s - before.server_cpu_s,
            "wall_s": self.wall_s - before.wall_s,
            "file_growth": self.file_bytes - before.file_bytes,
            "wchar": _less(self.written_chars, before.written_chars),
            "write_bytes": _less(self.written_bytes, before.written_bytes),
        }


def cpu_of(process: int) -> float:
    """Return the CPU time of a process with all its threads, also those that have ended, in seconds.

    The CPU clock of a process counts nanoseconds; `/proc/PID/stat` samples by ticks, which misleads on a busy
    machine.
    """
    clock = ctypes.c_int()
    if code := ctypes.CDLL(None).clock_getcpuclockid(process, ctypes.byref(clock)):
        raise OSError(code, os.strerror(code), f"process {process}")
    return clock_gettime(clock.value)


def free_port() -> int:
    """Return a port that is free now."""
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _written(servers: Sequence[int]) -> tuple[int | None, int | None]:
    chars = blocks = 0
    for process in ("self", *servers):
        try:
            lines = Path(f"/proc/{process}/io").read_text("ascii").splitlines()
        except OSError:
            return None, None
        fields = dict(line.split(": ") for line in lines)
        chars, blocks = chars + int(fields["wchar"]), blocks + int(fields["write_bytes"])
    return chars, blocks


def _less(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before


def _stored_bytes(folder: Path) -> int:
    """Return the size of the databases once the write-ahead log is empty."""
    for path in folder.iterdir():
        if not _is_database(path):
            continue
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(path.stat().st_size for path in folder.iterdir() if not path.name.endswith("-shm"))


def _is_database(path: Path) -> bool:
    """Whether a file begins as SQLite databases do; logs, marks and folders do not."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(SQLITE_HEADER)) == SQLITE_HEADER


def _resident_bytes(servers: Sequence[int]) -> int:
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    pages = (
        int(Path(f"/proc/{process}/statm").read_text("ascii").split()[1]) for process in ("self", *servers)
    )
    return sum(pages) * os.sysconf("SC_PAGE_SIZE")


def _say(runner: Runner, scenario: str, line: JsonLine) -> None:
    versions = {package: version(package) for package in runner.packages}
    print(json.dumps({"peer": runner.name, "scenario": scenario, **line, "versions": versions}), flush=True)


async def _warm_up(runner: Runner, folder: Path, script: Script) -> None:
    await runner.serve(folder)
    await runner.open(folder, script)
    script.reset(WARM_UP_STEPS)
    await runner.run("warm")


async def _measured(runner: Runner, folder: Path, script: Script, *, runs: int, steps: int) -> JsonLine:
    await _warm_up(runner, folder, script)
    script.reset(steps)
    sessions = [f"s{number}" for number in range(runs)]
    await runner.prepare(sessions)
    stored = _stored_bytes(folder)
    gc.collect()
    before = Reading.take(folder, runner.servers)
    finals = await asyncio.gather(*(runner.run(session) for session in sessions))
    line = Reading.take(folder, runner.servers).since(before)
    line["stored"] = _stored_bytes(folder) - stored
    counts = (set(finals), script.model_calls, script.tool_calls)
    if counts != ({FINAL}, runs * (steps + 1), runs * steps):
        raise RuntimeError(f"{runner.name} did not do the task: {counts}")
    await runner.close()
    return {"runs": runs, "steps": steps, **line, "content": script.content_bytes}


async def _shared(
    runner: Runner, folder: Path, script: Script, *, number: int, runs: int, steps: int
) -> JsonLine:
    """Be one of several processes on one database, which begin together when the driver says so."""
    await runner.serve(folder)
    await runner.open(folder, script)
    script.reset(WARM_UP_STEPS)
    await runner.run(f"w{number}")
    script.reset(steps)
    gc.collect()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    cpu_s, wall_s = process_time(), perf_counter()
    finals = await asyncio.gather(*(runner.run(f"w{number}s{one}") for one in range(runs)))
    line: JsonLine = {"cpu_s": process_time() - cpu_s, "wall_s": perf_counter() - wall_s}
    if (set(finals), script.tool_calls) != ({FINAL}, runs * steps):
        raise RuntimeError(f"{runner.name} did not do the task: {script.tool_calls} calls")
    return {"runs": runs, "steps": steps, **line}


async def _calls(runner: Runner, folder: Path, script: Script) -> JsonLine:
    """Return how many Python functions a step calls, in the thread of the event loop.

    Each resumption of a coroutine counts as a call.
    """
    await _warm_up(runner, folder, script)
    script.reset(COUNT_TO + 1)
    calls = 0

    def on_event(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    def on_model_call(history: int) -> None:
        if script.model_calls == COUNT_FROM:
            sys.setprofile(on_event)
        elif script.model_calls == COUNT_TO:
            sys.setprofile(None)

    script.on_model_call = on_model_call
    await runner.run("s0")
    await runner.close()
    return {"calls_a_step": calls / (COUNT_TO - COUNT_FROM)}


async def _crash(runner: Runner, folder: Path, script: Script, *, steps: int) -> None:
    await runner.serve(folder)
    await runner.open(folder, script)
    script.reset(steps + 1)
    script.crash_at = steps
    await runner.run("s0")


async def _resume(runner: Runner, folder: Path, script: Script, *, steps: int) -> None:
    warm = folder / "warm"
    warm.mkdir()
    await _warm_up(runner, warm, script)
    await runner.close()
    await runner.serve(folder)
    gc.collect()
    before = Reading.take(folder, runner.servers)

    def end(history: int) -> None:
        line = Reading.take(folder, runner.servers).since(before)
        _say(runner, "resume", {"steps": steps, "history": history, **line})
        os._exit(0)

    script.on_model_call = end
    await runner.open(folder, script)
    await runner.resume("s0")
    raise RuntimeError("the session was resumed, and the model was never asked")


async def _parked(runner: Runner, folder: Path, script: Script, *, sessions: int) -> JsonLine:
    """Return what the second half of the sessions added.

    Caches fill while the first half runs.
    """
    await _warm_up(runner, folder, script)
    script.reset(1)
    half = sessions // 2
    await _park(runner, range(half))
    before = _resident_bytes(runner.servers)
    await _park(runner, range(half, sessions))
    growth = _resident_bytes(runner.servers) - before
    return {"sessions": sessions, "resident_growth": growth, "per_session": growth / (sessions - half)}


async def _park(runner: Runner, numbers: range) -> None:
    for first in range(numbers.start, numbers.stop, PARKED_AT_ONCE):
        group = [f"p{number}" for number in range(first, min(first + PARKED_AT_ONCE, numbers.stop))]
        await asyncio.gather(*(runner.run(session) for session in group))
        await runner.park(group)


async def _scenario(runner: Runner, options: argparse.Namespace) -> None:
    script, folder = Script(), Path(options.folder)
    if options.source:
        script.load_sources(options.source)
    match options.scenario:
        case "steps":
            line = await _measured(runner, folder, script, runs=1, steps=options.steps)
        case "concurrent":
            line = await _measured(runner, folder, script, runs=options.runs, steps=options.steps)
        case "shared":
            line = await _shared(
                runner, folder, script, number=options.number, runs=options.runs, steps=options.steps
            )
        case "calls":
            line = await _calls(runner, folder, script)
        case "crash":
            return await _crash(runner, folder, script, steps=options.steps)
        case "resume":
            return await _resume(runner, folder, script, steps=options.steps)
        case _:
            line = await _parked(runner, folder, script, sessions=options.runs)
    _say(runner, options.scenario, line)
    os._exit(0)  # the threads of some peers outlive their last run


def arguments() -> argparse.Namespace:
    """Read the command line of a runner."""
    parser = argparse.ArgumentParser()
    scenarios = ["steps", "concurrent", "shared", "calls", "crash", "resume", "parked"]
    parser.add_argument("scenario", choices=scenarios)
    parser.add_argument("--folder", required=True, help="where the database goes")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--number", type=int, default=0, help="of this process among those that share")
    parser.add_argument(
        "--source", type=int, default=0, help="characters of source code that the tool returns"
    )
    parser.add_argument("--variant", default="")
    return parser.parse_args()


def main(runner: Runner, options: argparse.Namespace) -> None:
    """Run one scenario and print one line of JSON."""
    files = resource.RLIMIT_NOFILE  # some peers keep a connection for each session and thread
    most = resource.getrlimit(files)[1]
    resource.setrlimit(files, (most, most))
    asyncio.run(_scenario(runner, options))
