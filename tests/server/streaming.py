"""Sessions that stream at the same time, with large results, while their server is killed again and again.

    python -m tests.server.streaming --sessions 300 --seconds 600 --kills 4

Each session has one reader, which starts a run, reads it to its end and starts the next one. The server is a
process of its own with a SQLite file. A task of it notes how long its event loop stood still: the lesser of
the time and the CPU of the process, so that other processes do not count. A reader whose server was killed
continues behind the last record that it got.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2
from benchmarks.peers.task import source_texts
from tests.server.rig import FAST, Json, Wire, http_client

from windlass import Agent, LLMMessage, LLMStreamChunk, ToolCall, tool
from windlass_protocol import JsonObject
from windlass_server import Settings, Tenants, serve

STALL_MS_MAX: Final = 25
TICK_S: Final = 0.001
PACE_S: Final = 0.1
"""The mean time between two tokens of one session; each answer has a pace of its own."""
START_PART: Final = 0.1
"""The part of the time in which the sessions begin."""
STEP_TOKENS: Final = 50
STEPS: Final = 3
RESULT_CHARS: Final = (10_000, 60_000, 300_000)
"""The results of the steps: source code, in which masking looks for secrets."""
START_S_MAX: Final = 120.0
END_S_MAX: Final = 300.0
"""How long the last runs may take to end."""
AGAIN_S: Final = 0.2
"""The time between two tries to reach a server that starts."""
_ENDS: Final = frozenset({"run.completed", "run.failed", "run.cancelled", "run.budget_exhausted"})


# the server


class Speaker:
    """Says tokens at a pace, then calls its tool; after the last result it is done."""

    def __init__(self) -> None:
        self._chance = random.Random(1)

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        step = sum(message.role == "tool" for message in messages)
        if step == STEPS:
            yield LLMStreamChunk(content_delta="Done.", finish_reason="stop")
            return
        pace_s = PACE_S * self._chance.uniform(0.5, 1.5)
        for number in range(STEP_TOKENS):
            await asyncio.sleep(pace_s)
            yield LLMStreamChunk(content_delta=f" word{number}")
        call = ToolCall(id=f"c{step}", name="read_source", arguments={"page": step})
        yield LLMStreamChunk(tool_call_delta=call, finish_reason="tool-calls")


def serve_here(folder: Path) -> int:
    """Serve until the process is killed; the address goes into a file, and stalls into another one."""
    pages = [source_texts(chars)[0] for chars in RESULT_CHARS]
    ticking: set[asyncio.Task[None]] = set()

    @tool(mode="read")
    async def read_source(page: int) -> str:
        """Read one page of the sources."""
        return pages[page % len(pages)]

    async def tick() -> None:
        with (folder / "stalls").open("a", encoding="ascii", buffering=1) as stalls:
            while True:
                began, used = time.perf_counter(), time.process_time()
                await asyncio.sleep(TICK_S)
                stall_s = min(time.perf_counter() - began - TICK_S, time.process_time() - used)
                if stall_s * 1_000 > STALL_MS_MAX / 2:
                    stalls.write(f"{stall_s * 1_000:.1f}\n")

    def begin(address: str) -> None:
        ticking.add(asyncio.get_running_loop().create_task(tick()))
        ready = folder / "ready.new"
        ready.write_text(address, "ascii")
        ready.rename(folder / "ready")

    agent = Agent("speaker", model=Speaker(), tools=[read_source])
    settings = Settings(port=0, limits=FAST)
    return serve(settings, Tenants(folder / "data", [agent]), on_ready=begin)


class ServerProcess:
    """The server, which is killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: Process | None = None
        self.port = 0

    async def start(self) -> None:
        """Start it, and wait until it serves."""
        ready = self._folder / "ready"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", __spec__.name, "--serve", str(self._folder)]
        child = self._child = await asyncio.create_subprocess_exec(*command, stderr=DEVNULL)
        async with asyncio.timeout(START_S_MAX):
            while not ready.exists():
                assert child.returncode is None, f"the server ended with {child.returncode}"
                await asyncio.sleep(AGAIN_S)
        self.port = int(ready.read_text("ascii").rpartition(":")[2])

    async def kill(self) -> None:
        """Kill it without a warning."""
        if self._child is not None:
            self._child.kill()
            await self._child.wait()


# the readers


@dataclass(slots=True)
class Tally:
    """What the readers saw."""

    runs: int = 0
    deliveries: int = 0
    connections: int = 0
    wrong: list[str] = field(default_factory=list[str])


async def _start(server: ServerProcess, client: httpx2.AsyncClient) -> str:
    """Start a run, and return its id; a start that a kill interrupted is made again."""
    while True:
        try:
            address = f"http://127.0.0.1:{server.port}/v1/sessions"
            answer = await client.post(address, json={"agent": "speaker", "message": "Go."})
            answer.raise_for_status()
            return answer.json()["runId"]
        except httpx2.TransportError:
            await asyncio.sleep(AGAIN_S)


async def _follow(server: ServerProcess, run_id: str, tally: Tally) -> None:
    """Read a run to its end; its records come once, in order, and no model call or result is missing."""
    headers: dict[str, str] = {}
    records: list[Json] = []
    while not records or records[-1]["type"] not in _ENDS:
        try:
            wire = await Wire.get(server.port, f"/runs/{run_id}/events?format=sse&deltas=slim", **headers)
        except (OSError, IndexError):
            # It is being started.
            await asyncio.sleep(AGAIN_S)
            continue
        with suppress(OSError):
            async for frame in wire.frames():
                tally.deliveries += bool(frame.data)
                if frame.id:
                    headers["last_event_id"] = frame.id
                if frame.type and "index" not in frame.json:
                    records.append(frame.json)
        wire.cut()
        tally.connections += 1
    numbers = [record["seq"] for record in records]
    if numbers != [*range(numbers[0], numbers[-1] + 1)]:
        tally.wrong.append(f"{run_id}: records are missing, or came twice: {numbers}")
    results = sum(record["type"] == "action.result" for record in records)
    if records[-1]["type"] != "run.completed" or results != STEPS:
        tally.wrong.append(f"{run_id}: {records[-1]['type']} after {results} results")
    tally.runs += 1


async def _kill(server: ServerProcess, *, seconds: float, kills: int, chance: random.Random) -> None:
    """Kill the server at times that chance decides, each in its part of the time."""
    part_s = seconds / (kills + 1)
    for _ in range(kills):
        await asyncio.sleep(part_s * (0.75 + 0.5 * chance.random()))
        await server.kill()
        await server.start()


async def streaming(
    folder: Path, *, sessions: int, seconds: float, kills: int, seed: int = 1
) -> dict[str, Any]:
    """Play; `violations` are stalls, runs that did not end well, and records that were lost or came twice."""
    server, tally = ServerProcess(folder), Tally()
    until = 0.0

    async def read(client: httpx2.AsyncClient, begin_s: float) -> None:
        await asyncio.sleep(begin_s)
        while time.monotonic() < until:
            await _follow(server, await _start(server, client), tally)

    try:
        await server.start()
        until = time.monotonic() + seconds
        async with asyncio.timeout(seconds + END_S_MAX), http_client() as client:
            await asyncio.gather(
                _kill(server, seconds=seconds, kills=kills, chance=random.Random(seed)),
                *(read(client, seconds * START_PART * number / sessions) for number in range(sessions)),
            )
    finally:
        await server.kill()
    delays_ms = [float(line) for line in (folder / "stalls").read_text("ascii").splitlines()]
    stalls = [f"a stall of {delay_ms} ms" for delay_ms in delays_ms if delay_ms > STALL_MS_MAX]
    return {
        "trials": tally.runs,
        "kills": kills,
        "deliveries": tally.deliveries,
        "reconnects": tally.connections - tally.runs,
        "longest_stall_ms": max(delays_ms, default=0.0),
        "wrong": len(tally.wrong) + len(stalls),
        "violations": [*tally.wrong, *stalls],
    }


def main() -> int:
    """Play, or serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", type=Path)
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--kills", type=int, default=4)
    options = parser.parse_args()
    if options.serve is not None:
        return serve_here(options.serve)
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(
            streaming(Path(folder), sessions=options.sessions, seconds=options.seconds, kills=options.kills)
        )
    sys.stdout.write(json.dumps(result) + "\n")
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
