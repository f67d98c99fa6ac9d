"""Many readers of one session, each cut off at random and back again."""

import asyncio
import json
import random
import resource
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx2
from tests.server.rig import FAST, Json, Wire, ended, serving, talker

from windlass_server import Settings

READER_PROCESSES: Final = 2
WAIT_FACTOR_MAX: Final = 5
"""A reader waits up to this many times `retry-after` longer before it reconnects."""
FILES_BESIDE: Final = 500
"""Open files of a server that are no connections of readers."""


@dataclass(slots=True)
class Tally:
    """Counts of deliveries and reconnects, and CPU time."""

    deliveries: int = 0
    reconnects: int = 0
    cpu_s: float = 0.0


async def one(
    port: int, path: str, *, last: int, chance: random.Random, tally: Tally, cut: float
) -> list[int]:
    """Read up to a record; return the numbers of the records as they came."""
    seen: list[int] = []
    cursor = ""
    while not seen or seen[-1] < last:
        wire = await Wire.get(port, path, **({"last_event_id": cursor} if cursor else {}))
        if wire.status == 503:
            # The server limits its readers and sends `retry-after`; the delays are spread.
            wire.cut()
            await asyncio.sleep(float(wire.headers["retry-after"]) * (1 + WAIT_FACTOR_MAX * chance.random()))
            continue
        assert wire.status == 200, wire.status
        while line := await wire.reader.readline():
            if line.startswith(b"id: "):
                cursor = line[4:].strip().decode()
            elif line.startswith(b"data: "):
                event = json.loads(line[6:])
                if "status" in event:
                    # A busy store ends a stream with a problem that passes; the reader resumes.
                    assert event["status"] == 503, event
                    break
                tally.deliveries += 1
                if "index" not in event:
                    seen.append(event["seq"])
                    if event["seq"] == last:
                        break
                if chance.random() < cut:
                    tally.reconnects += 1
                    break
        wire.cut()
    return seen


async def crowd(folder: Path, *, readers: int, turns: int, cut: float = 0.05) -> Tally:
    """Let readers watch a session; none misses or repeats a record."""
    tally, chance = Tally(), random.Random(11)
    async with stage(folder, readers=readers) as scene:
        last = await scene.last(turns)
        began = time.process_time()
        reading = [
            asyncio.create_task(
                one(
                    scene.port,
                    scene.path,
                    last=last,
                    chance=random.Random(chance.random()),
                    tally=tally,
                    cut=cut,
                )
            )
            for _ in range(readers)
        ]
        await scene.say(turns - 1)
        for seen in await asyncio.gather(*reading):
            assert seen == list(range(1, last + 1)), seen
        tally.cpu_s = time.process_time() - began
    return tally


async def crowds(folder: Path, *, readers: int, turns: int, cut: float = 0.05) -> dict[str, Any]:
    """The same with readers in separate processes: one process may not open so many files.

    Returns the number of readers and reconnects, and the violations.
    """
    share = readers // READER_PROCESSES
    allowed = raise_limit()
    if allowed < readers + FILES_BESIDE:
        need = f"{readers:,} readers need {readers + FILES_BESIDE:,} open files"
        words = f"{need}, and {allowed:,} are allowed: ulimit -n"
        return {"readers": 0, "reconnects": 0, "violations": [words]}
    async with stage(folder, readers=readers) as scene:
        last = await scene.last(turns)
        given = [str(part) for part in (scene.port, scene.path, last, share, cut)]
        children = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", __name__, *given, str(number), stdout=asyncio.subprocess.PIPE
            )
            for number in range(READER_PROCESSES)
        ]
        await scene.say(turns - 1)
        told = [(await child.communicate())[0] for child in children]
    found = [
        json.loads(text or b'{"readers": 0, "reconnects": 0, "violations": ["ended early"]}') for text in told
    ]
    return {
        "readers": sum(one["readers"] for one in found),
        "reconnects": sum(one["reconnects"] for one in found),
        "violations": [words for one in found for words in one["violations"]],
    }


@dataclass(frozen=True, slots=True)
class Scene:
    """A session to watch, in which one turn is over."""

    port: int
    path: str
    session_id: str
    client: httpx2.AsyncClient

    async def say(self, turns: int) -> None:
        """Run a number of turns, one after the other."""
        for _ in range(turns):
            said = f"/sessions/{self.session_id}/messages"
            run_id = (await self.client.post(said, json={"message": "Hello."})).json()["runId"]
            await ended(self.client, run_id)

    async def last(self, turns: int) -> int:
        """The number of the last record after a number of turns, as the first reader sees it."""
        first = (await self.client.get(f"{self.path}?follow=false&format=ndjson")).text.splitlines()
        per_turn = len(first) - 1  # the session begins once
        return 1 + per_turn * turns


@asynccontextmanager
async def stage(folder: Path, *, readers: int) -> AsyncGenerator[Scene]:
    """A server with a limit of readers, and a session with one turn."""
    room = max(FAST.streams_per_principal_max, 2 * readers)
    # On a busy machine a thousand reconnects take longer than a request waits: the turns must not be refused.
    limits = replace(
        FAST, streams_max=max(FAST.streams_max, room), streams_per_principal_max=room, wait_s_max=60.0
    )
    agents = [talker(words="One two three four five.")]
    async with serving(folder, agents, settings=Settings(limits=limits)) as server, server.client() as client:
        # An idle connection is closed after seconds, which a thousand readers may take for one turn.
        client.headers["connection"] = "close"
        session_id = (await client.post("/sessions", json={})).json()["sessionId"]
        scene = Scene(server.port, f"/sessions/{session_id}/events", session_id, client)
        await scene.say(1)
        yield scene


def raise_limit() -> int:
    """Allow as many open files as this process may have; return how many."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


async def watching(
    port: int, path: str, *, last: int, readers: int, chance: random.Random, cut: float
) -> Json:
    """Run readers in a separate process; return their report."""
    tally = Tally()
    each = [
        one(port, path, last=last, chance=random.Random(chance.random()), tally=tally, cut=cut)
        for _ in range(readers)
    ]
    found = await asyncio.gather(*each, return_exceptions=True)
    wrong = [str(seen)[:500] for seen in found if seen != list(range(1, last + 1))]
    return {"readers": readers, "reconnects": tally.reconnects, "violations": wrong}


def main() -> None:
    """Read as the arguments say, and print the report."""
    port, path, last, readers, cut, seed = sys.argv[1:]
    raise_limit()
    reading = watching(
        int(port), path, last=int(last), readers=int(readers), chance=random.Random(int(seed)), cut=float(cut)
    )
    sys.stdout.write(json.dumps(asyncio.run(reading)))


if __name__ == "__main__":
    main()
