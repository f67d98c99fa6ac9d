"""Deploys of a fleet whose tools take half a minute: each process gets SIGTERM and is started again.

    python -m tests.fleet.deploys --sessions 12 --deploys 3

It is wrong if a run does not complete, a person is asked anything, or a payment is not made exactly once.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx2

from tools.fleet import Fleet, Member, running_fleet
from tools.temporal import free_port
from windlass import AgentRuntime
from windlass.errors import AgentError

GUARD_S: Final = 3_600.0
AGENTS: Final = f"{Path(__file__).with_name('counter.py')}:agent"


async def journal_of(runtime: AgentRuntime, run_ids: list[str]) -> tuple[Counter[str], int]:
    """Return how the runs stand, and how many requests were made to people."""
    standings = Counter([(await runtime.handle(run_id).status()).value for run_id in run_ids])
    asked = 0
    for run_id in run_ids:
        session_id, seq = (await runtime.run_snapshot(run_id)).session_id, 0
        assert session_id is not None, "every run has a session"
        while records := await runtime.sessions.records(session_id, after=seq):
            seq = records[-1].seq
            asked += sum(record.type == "input.requested" for record in records)
    return standings, asked


async def _start(client: httpx2.AsyncClient, fleet: Fleet, number: int) -> str:
    """Start a session at any server that answers, with the same key until one does."""
    headers = {"idempotency-key": f"deploy-{number}"}
    turn = number
    while True:
        address = fleet.servers[turn % len(fleet.servers)].address
        turn += 1
        try:
            found = await client.post(
                f"{address}/v1/sessions", json={"message": f"Pay {number}"}, headers=headers
            )
        except httpx2.HTTPError:
            await asyncio.sleep(0.2)
            continue
        if found.status_code < 400:
            return str(found.json()["runId"])
        await asyncio.sleep(0.2)


async def _replace(fleet: Fleet, member: Member) -> None:
    """End a process with SIGTERM, and start its successor once it has ended."""
    process = member.process
    assert process is not None, "it was started"
    process.send_signal(signal.SIGTERM)
    await asyncio.to_thread(process.wait)
    await asyncio.to_thread(fleet.tend)
    while not await asyncio.to_thread(lambda: member.is_ready):  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.2)


async def _play(
    fleet: Fleet, *, sessions: int, deploys: int, tell: Callable[[str], None]
) -> tuple[Counter[str], int]:
    run_ids: list[str] = []
    for number in range(deploys):
        # Each deploy meets calls under way.
        numbers = range(sessions * number // deploys, sessions * (number + 1) // deploys)
        async with httpx2.AsyncClient(timeout=30.0) as client:
            run_ids += await asyncio.gather(*(_start(client, fleet, one) for one in numbers))
        for member in reversed(fleet.members):
            tell(f"deploy {number + 1} of {deploys}: {member.name}")
            await _replace(fleet, member)
    async with AgentRuntime.open(fleet.store, agents=(), is_driving=False) as runtime:
        store = runtime.core.ports.store
        assert store is not None
        async with asyncio.timeout(GUARD_S):
            while sum(group.count for group in await store.open_runs()):
                standings, asked = await journal_of(runtime, run_ids)
                if asked:
                    return standings, asked
                await asyncio.sleep(1.0)
        return await journal_of(runtime, run_ids)


def play(
    *, sessions: int, deploys: int, tool_s: float = 30.0, tell: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Play deploys; return their figures."""
    with tempfile.TemporaryDirectory(prefix="windlass-deploys-") as folder:
        ledger = Path(folder, "ledger")
        ledger.touch()
        os.environ.update({"DEPLOY_LEDGER": str(ledger), "DEPLOY_TOOL_S": f"{tool_s:g}"})
        ports = [free_port(), free_port()]
        with running_fleet(agents=AGENTS, ports=ports, workers=2, tell=tell) as fleet:
            try:
                standings, asked = asyncio.run(_play(fleet, sessions=sessions, deploys=deploys, tell=tell))
            except AgentError as error:
                standings, asked = Counter({error.message: sessions}), 0
        lines = [line.split() for line in ledger.read_text().splitlines()]
    wrong = [f"{asked} requests to people"] if asked else []
    if standings != {"completed": sessions}:
        wrong.append(f"runs: {dict(standings)}")
    for what in ("begun", "ended"):
        counted = Counter(key for said, key, _ in lines if said == what)
        wrong += [f"{what} {times} times: {key}" for key, times in counted.items() if times != 1]
        if len(counted) != 2 * sessions:
            wrong.append(f"{what}: {len(counted)} payments, expected {2 * sessions}")
    return {
        "trials": sessions,
        "kills": deploys * 4,
        "parked": asked,
        "effects": len(lines) // 2,
        "results": 2 * standings["completed"],
        "wrong": len(wrong),
        "violations": wrong[:10],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=12)
    parser.add_argument("--deploys", type=int, default=3)
    parser.add_argument("--tool-s", type=float, default=30.0)
    args = parser.parse_args()
    told = play(
        sessions=args.sessions,
        deploys=args.deploys,
        tool_s=args.tool_s,
        tell=lambda line: print(line, file=sys.stderr),  # noqa: T201 - a program
    )
    sys.stdout.write(json.dumps(told) + "\n")
    return 1 if told["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
