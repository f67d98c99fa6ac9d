"""Readers of feeds over the servers of a fleet, which are killed while runs go on.

    python -m tests.faults.torture readers --trials 10000 --kills 12

Nine in ten readers watch a session, the others everything. Each continues at another server when its own is
killed. It is wrong if a reader misses a record, or gets one twice.
"""

import asyncio
import json
import os
import random
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx2
from tests.server.crowd import FILES_BESIDE, READER_PROCESSES, raise_limit
from tests.server.rig import Wire

from tools.fleet import Fleet, running_fleet
from tools.temporal import free_port
from windlass import Agent
from windlass.testing import ScriptedModel, say

SERVERS: Final = 3
WORKERS: Final = 2
SESSIONS: Final = 9
PAUSE_S: Final = 2.0
"""Between a kill and the next turn."""
GUARD_S: Final = 1_500.0
CONNECTS_AT_ONCE: Final = 100
"""Connections that a process of readers makes at the same time."""
_LIMITS: Final = {
    "WINDLASS_SERVER_REQUESTS_PER_S": "1000000",
    "WINDLASS_SERVER_REQUESTS_BURST": "1000000",
    "WINDLASS_SERVER_CPU_PER_S": "1000",
    "WINDLASS_SERVER_CPU_BURST_S": "1000",
    "WINDLASS_SERVER_STREAMS_PER_USER": "20000",
}
agent = Agent("talker", model=ScriptedModel(lambda _: say("One two three.")))


class Reader:
    """One reader, and what it got."""

    def __init__(self, feed: str, chance: random.Random) -> None:
        self.feed = feed
        self._cursor = ""
        self._chance = chance
        self.seen: list[str] = []
        self.connections = 0

    async def read(self, ports: Sequence[int], gate: asyncio.Semaphore) -> None:
        """Read until cancelled, at any server."""
        while True:
            pause_s = 1.0
            with suppress(OSError, ValueError, IndexError, asyncio.IncompleteReadError):
                headers = {"last_event_id": self._cursor} if self._cursor else {}
                async with gate:
                    wire = await Wire.get(self._chance.choice(ports), self.feed, **headers)
                try:
                    if wire.status == 200:
                        self.connections += 1
                        await self._take(wire)
                    else:
                        pause_s = float(wire.headers.get("retry-after", "1"))
                finally:
                    wire.cut()
            await asyncio.sleep(pause_s * (0.1 + self._chance.random()))

    async def _take(self, wire: Wire) -> None:
        cursor = self._cursor
        while line := await wire.reader.readline():
            if line.startswith(b"id: "):
                cursor = line[4:].strip().decode()
            elif line.startswith(b"data: "):
                event = json.loads(line[6:])
                if "seq" in event and "index" not in event:
                    self.seen.append(f"{event['sessionId']} {event['seq']}")
                # A frame that was cut in the middle is sent again.
                self._cursor = cursor


async def watch(ports: Sequence[int], feeds: Sequence[str], *, seed: int) -> dict[str, Any]:
    """Read in a process of its own, until told what there was to read; return what was wrong."""
    loop, chance = asyncio.get_running_loop(), random.Random(seed)
    gate = asyncio.Semaphore(CONNECTS_AT_ONCE)
    readers = [Reader(feed, random.Random(chance.random())) for feed in feeds]
    tasks = [asyncio.create_task(one.read(ports, gate)) for one in readers]
    while not all(one.connections for one in readers):  # noqa: ASYNC110 - nothing tells of all readers
        await asyncio.sleep(0.1)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    there: dict[str, list[str]] = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    with suppress(TimeoutError):
        async with asyncio.timeout(GUARD_S):
            while any(len(one.seen) < len(there[one.feed]) for one in readers):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    wrong = [
        f"a reader of {one.feed} got {len(one.seen)} records, {len(set(one.seen))} of {len(there[one.feed])}"
        for one in readers
        if one.seen != there[one.feed]
    ]
    return {
        "readers": len(readers),
        "reconnects": sum(one.connections - 1 for one in readers),
        "deliveries": sum(len(one.seen) for one in readers),
        "violations": wrong,
    }


class Scene:
    """A fleet, its sessions, and their feeds."""

    def __init__(self, fleet: Fleet, chance: random.Random) -> None:
        self._fleet = fleet
        self._chance = chance
        self._client = httpx2.AsyncClient(timeout=60.0, headers={"connection": "close"})
        self.sessions: list[str] = []

    async def ask(self, method: str, path: str, body: object = None) -> str:
        """Ask any server until one answers."""
        while True:
            address = self._chance.choice(self._fleet.servers).address
            with suppress(httpx2.HTTPError):
                found = await self._client.request(method, f"{address}/v1{path}", json=body)
                if found.status_code < 400:
                    return found.text
            await asyncio.to_thread(self._fleet.tend)
            await asyncio.sleep(0.2)

    async def turn(self) -> None:
        """Let each session, or at first new ones, have one turn, to its end."""
        paths = [f"/sessions/{one}/messages" for one in self.sessions] or ["/sessions"] * SESSIONS
        begun = [json.loads(await self.ask("POST", path, {"message": "Hello."})) for path in paths]
        self.sessions = [one["sessionId"] for one in begun]
        for one in begun:
            while await self.status(one["runId"]) != "completed":  # noqa: ASYNC110 - any server may be killed
                await asyncio.sleep(0.2)

    async def status(self, run_id: str) -> str:
        """Return the status of a run."""
        return json.loads(await self.ask("GET", f"/runs/{run_id}"))["run"]["status"]

    async def events(self, feed: str) -> list[dict[str, Any]]:
        """Return all events of a feed until now."""
        text = await self.ask("GET", f"{feed}?follow=false&format=ndjson")
        return [one for one in map(json.loads, text.splitlines()) if "seq" in one]

    def kill(self) -> None:
        """Kill one of the servers."""
        os.kill(self._chance.choice(self._fleet.servers).pid, signal.SIGKILL)


async def _child(ports: Sequence[int], feeds: Sequence[str], seed: int) -> Process:
    given = json.dumps([ports, feeds, seed])
    command = [sys.executable, "-m", "tests.fleet.readers"]
    child = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=1 << 24)
    assert child.stdin is not None
    child.stdin.write(given.encode() + b"\n")
    return child


async def _play(fleet: Fleet, ports: Sequence[int], *, readers: int, kills: int, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    scene = Scene(fleet, chance)
    await scene.turn()
    feeds = [*(f"/sessions/{one}/events" for one in scene.sessions), "/events"]
    share = readers // READER_PROCESSES
    spread = [feeds[number % len(feeds)] for number in range(share)]
    children = [await _child(ports, spread, seed + number) for number in range(READER_PROCESSES)]
    for child in children:
        assert child.stdout is not None
        assert await child.stdout.readline() == b"ready\n"
    for _ in range(kills):
        scene.kill()
        await scene.turn()
        await asyncio.sleep(PAUSE_S)
        await asyncio.to_thread(fleet.tend)
    there = {feed: [f"{one['sessionId']} {one['seq']}" for one in await scene.events(feed)] for feed in feeds}
    told = [
        json.loads((await child.communicate(json.dumps(there).encode() + b"\n"))[0] or b"null")
        for child in children
    ]
    found = [one for one in told if one is not None]
    names = ("readers", "reconnects", "deliveries")
    wrong = [words for one in found for words in one["violations"]]
    wrong += ["readers ended early"] * (len(told) - len(found))
    return {**{name: sum(one[name] for one in found) for name in names}, "violations": wrong}


def play(*, readers: int, kills: int, seed: int) -> dict[str, Any]:
    """Let readers watch a fleet whose servers are killed; return the figures."""
    allowed = raise_limit()
    if allowed < readers + FILES_BESIDE:
        words = f"{readers + FILES_BESIDE:,} open files are needed, {allowed:,} are allowed: ulimit -n"
        return {"trials": 0, "kills": 0, "wrong": 1, "violations": [words]}
    os.environ.update(_LIMITS)
    ports = [free_port() for _ in range(SERVERS)]
    agents = f"{Path(__file__)}:agent"
    with running_fleet(agents=agents, ports=ports, workers=WORKERS, tell=lambda _: None) as fleet:
        told = asyncio.run(_play(fleet, ports, readers=readers, kills=kills, seed=seed))
    return {
        "trials": told["readers"],
        "kills": kills,
        "reconnects": told["reconnects"],
        "deliveries": told["deliveries"],
        "wrong": len(told["violations"]),
        "violations": told["violations"][:10],
    }


def main() -> None:
    """Read as the first line of the input says, and print the report."""
    raise_limit()
    ports, feeds, seed = json.loads(sys.stdin.readline())
    told = asyncio.run(watch(ports, feeds, seed=seed))
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
