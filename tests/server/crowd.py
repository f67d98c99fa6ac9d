"""Many readers of one session, each cut off at random and back again."""

import asyncio
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path

from tests.server.rig import FAST, Wire, ended, serving, talker

from windlass_server import Settings


@dataclass(slots=True)
class Tally:
    """What came of it."""

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
            # The server lets only so many in at once, and says when to come back.
            wire.cut()
            await asyncio.sleep(float(wire.headers["retry-after"]))
            continue
        assert wire.status == 200, wire.status
        while line := await wire.reader.readline():
            if line.startswith(b"id: "):
                cursor = line[4:].strip().decode()
            elif line.startswith(b"data: "):
                event = json.loads(line[6:])
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
    settings = Settings(limits=FAST)
    agents = [talker(words="One two three four five.")]
    async with serving(folder, agents, settings=settings) as server, server.client() as client:
        session_id = (await client.post("/sessions", json={})).json()["sessionId"]
        path = f"/sessions/{session_id}/events"
        said = f"/sessions/{session_id}/messages"
        # How many records a turn has is known after the first one.
        run_id = (await client.post(said, json={"message": "Hello."})).json()["runId"]
        await ended(client, run_id)
        first = (await client.get(f"{path}?follow=false&format=ndjson")).text.splitlines()
        per_turn = len(first) - 1  # the session begins once
        last = 1 + per_turn * turns
        began = time.process_time()
        reading = [
            asyncio.create_task(
                one(
                    server.port,
                    path,
                    last=last,
                    chance=random.Random(chance.random()),
                    tally=tally,
                    cut=cut,
                )
            )
            for _ in range(readers)
        ]
        for _ in range(turns - 1):
            run_id = (await client.post(said, json={"message": "Hello."})).json()["runId"]
            await ended(client, run_id)
        for seen in await asyncio.gather(*reading):
            assert seen == list(range(1, last + 1)), seen
        tally.cpu_s = time.process_time() - began
    return tally
