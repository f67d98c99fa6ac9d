"""A storm over a fleet: servers, workers, PostgreSQL and Temporal are killed and stopped while sessions run.

    python -m tests.fleet.storm --sessions 300 --servers 3 --workers 4 --blows 30

It is wrong if an acknowledged session does not end, or an effect whose result is durable happens again.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import httpx2
from tests.temporal import free_port
from tools.fleet import Fleet, Member, running_fleet

from windlass import AgentRuntime
from windlass_harness.record import Record

BLOWS: Final = (
    "kill worker",
    "kill server",
    "stop worker",
    "stop server",
    "restart PostgreSQL",
    "restart Temporal",
)
AT_ONCE: Final = 32
"""Requests of the clients at the same time."""
LATER_EVERY: Final = 10
"""One in so many sessions finds its model away."""
STOPPED_S: Final = (1.0, 40.0)
"""How long a process is stopped: less or more than a lease lasts."""
GUARD_S: Final = 3_600.0
_LIMITS: Final = {
    "WINDLASS_SERVER_REQUESTS_PER_S": "100000",
    "WINDLASS_SERVER_REQUESTS_BURST": "100000",
    "WINDLASS_SERVER_CPU_PER_S": "1000",
    "WINDLASS_SERVER_CPU_BURST_S": "1000",
}


@dataclass(slots=True)
class Storm:
    """The clients, and what they know."""

    fleet: Fleet
    random: random.Random
    runs: list[str] = field(default_factory=list[str])
    """Runs that a server acknowledged."""
    blows: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    async def ask(self, client: httpx2.AsyncClient, method: str, path: str, body: object = None) -> Any:
        """Ask one of the servers; None if it did not answer."""
        address = self.random.choice(self.fleet.servers).address
        try:
            found = await client.request(method, f"{address}/v1{path}", json=body)
        except httpx2.HTTPError:
            return None
        return found.json() if found.status_code < 400 else None

    async def start(self, client: httpx2.AsyncClient, number: int, gate: asyncio.Semaphore) -> None:
        """Start a session; a start that nobody acknowledged is made again."""
        word = f"later {number}" if number % LATER_EVERY == 0 else f"now {number}"
        async with gate:
            while (told := await self.ask(client, "POST", "/sessions", {"message": f"Go {word}"})) is None:
                await asyncio.sleep(0.2)
        self.runs.append(told["runId"])

    async def answer(self, client: httpx2.AsyncClient) -> None:
        """Answer all that is asked, until the storm is over."""
        while not self.is_over.is_set():
            told = await self.ask(client, "GET", "/approvals") or {"requests": []}
            for one in told["requests"]:
                request = one["request"]
                option = "retry" if request["kind"] == "recovery" else "approve"
                await self.ask(client, "POST", f"/approvals/{request['requestId']}", {"optionId": option})
            await asyncio.sleep(0.2)

    async def blow(self, count: int, pause_s: float) -> None:
        """Hurt members of the fleet, one after the other."""
        for number in range(count):
            await asyncio.sleep(self.random.uniform(0, 2 * pause_s))
            kind = BLOWS[number] if number < len(BLOWS) else self.random.choice(BLOWS[:4])
            self.blows[kind] += 1
            servers = self.fleet.servers if "server" in kind else self.fleet.workers
            member = self.random.choice(servers)
            if kind == "restart PostgreSQL":
                await asyncio.to_thread(self.fleet.postgres.restart)
            elif kind == "restart Temporal":
                await asyncio.to_thread(self.fleet.temporal.restart)
            elif kind.startswith("kill"):
                os.kill(member.pid, signal.SIGKILL)
            else:
                self.tasks.append(asyncio.create_task(self.stop(member)))

    async def stop(self, member: Member) -> None:
        """Stop a process, and let it go on later."""
        pid = member.pid
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(self.random.uniform(*STOPPED_S))
            os.kill(pid, signal.SIGCONT)

    async def tend(self) -> None:
        """Start again what was killed."""
        while not self.is_over.is_set():
            await asyncio.to_thread(self.fleet.tend)
            await asyncio.sleep(0.5)

    async def finish(self) -> dict[str, int]:
        """Wait until every run has ended; return how many ended how."""
        async with AgentRuntime.open(self.fleet.store, agents=(), is_driving=False) as runtime:
            store = runtime.ports.store
            assert store is not None
            async with asyncio.timeout(GUARD_S):
                while await store.unfinished():
                    await asyncio.sleep(0.5)
            ended = Counter([(await runtime.run_status(run_id)).value for run_id in self.runs])
            if ended.keys() - {"completed"}:
                self.wrong.append(f"runs ended: {dict(ended)}")
            await self._check_effects(runtime)
        return dict(ended)

    async def _check_effects(self, runtime: AgentRuntime) -> None:
        """Compare the effects with the results in the journals: none begins after its result."""
        results: dict[str, int] = {}
        after: str | None = None
        store = runtime.ports.store
        assert store is not None
        while rows := await store.sessions(after=after):
            for row in rows:
                for record in await _records(runtime, row.session_id):
                    if record.type == "action.result":
                        key = f"{record.run_id}/{record.data['callId']}"
                        if key in results:
                            self.wrong.append(f"two results of {key}")
                        results[key] = _ms(record.at)
            after = rows[-1].session_id
        self.blows["results"] = len(results)
        lines = Path(os.environ["FLEET_EFFECTS"]).read_text().split("\n")
        effects = [line.split() for line in lines if line]
        seen = Counter(f"{what} {key}" for what, key, _ in effects)
        self.blows["repeated with key"] = sum(seen.values()) - len(seen)
        known = {_short(key): at for key, at in results.items()}
        for what, key, at in effects:
            done = known.get(_short(key))
            if done is not None and int(at) > done:
                self.wrong.append(f"{what} {key} happened {int(at) - done} ms after its result")


def _short(key: str) -> str:
    """Return the run and the call of a key."""
    run_id, _, rest = key.partition("/")
    return f"{run_id}/{rest.rpartition('/')[2]}"


def _ms(at: str) -> int:
    return round(datetime.fromisoformat(at).timestamp() * 1_000)


async def _records(runtime: AgentRuntime, session_id: str) -> list[Record]:
    found: list[Record] = []
    while more := await runtime.sessions.records(session_id, after=found[-1].seq if found else 0):
        found += more
    return found


async def _play(storm: Storm, *, sessions: int, blows: int, pause_s: float) -> dict[str, int]:
    gate = asyncio.Semaphore(AT_ONCE)
    async with httpx2.AsyncClient(timeout=30.0) as client:
        helpers = [asyncio.create_task(storm.answer(client)), asyncio.create_task(storm.tend())]
        blowing = asyncio.create_task(storm.blow(blows, pause_s))
        await asyncio.gather(*(storm.start(client, number, gate) for number in range(sessions)))
        await blowing
        await asyncio.gather(*storm.tasks)
        ended = await storm.finish()
        storm.is_over.set()
        await asyncio.gather(*helpers)
    return ended


def play(
    *,
    sessions: int,
    servers: int,
    workers: int,
    blows: int,
    seed: int,
    pause_s: float = 4.0,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Play a storm; return its figures."""
    with tempfile.TemporaryDirectory(prefix="windlass-storm-") as folder:
        os.environ.update({**_LIMITS, "FLEET_EFFECTS": str(Path(folder, "effects"))})
        Path(folder, "effects").touch()
        ports = [free_port() for _ in range(servers)]
        agents = f"{Path(__file__).with_name('office.py')}:agent"
        with running_fleet(agents=agents, ports=ports, workers=workers, tell=tell) as fleet:
            storm = Storm(fleet, random.Random(seed))
            ended = asyncio.run(_play(storm, sessions=sessions, blows=blows, pause_s=pause_s))
    return {
        "trials": len(storm.runs),
        "kills": sum(storm.blows[kind] for kind in BLOWS),
        "repeated": storm.blows["repeated with key"],
        "results": storm.blows["results"],
        "ended": ended,
        "wrong": len(storm.wrong),
        "violations": storm.wrong[:10],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--blows", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    told = play(
        sessions=args.sessions,
        servers=args.servers,
        workers=args.workers,
        blows=args.blows,
        seed=args.seed,
        tell=lambda line: print(line, file=sys.stderr, flush=True),
    )
    sys.stdout.write(json.dumps(told) + "\n")
    return 1 if told["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
