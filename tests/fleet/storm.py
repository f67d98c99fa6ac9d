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

from tools.fleet import Fleet, Member, running_fleet
from tools.temporal import free_port
from windlass import AgentRuntime
from windlass.errors import Conflict
from windlass_harness.record import Record

BLOWS: Final = (
    "kill worker",
    "kill server",
    "stop worker",
    "stop server",
    "restart PostgreSQL",
    "restart Temporal",
)
WEIGHTS: Final = (5, 5, 5, 5, 1, 1)
"""How often each blow is chosen, once each was struck."""
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
    tell: Callable[[str], None]
    runs: list[str] = field(default_factory=list[str])
    """Runs that a server acknowledged."""
    answered: set[str] = field(default_factory=set[str])
    """Requests whose answer a server acknowledged."""
    blows: Counter[str] = field(default_factory=Counter[str])
    figures: dict[str, int] = field(default_factory=dict[str, int])
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
        """Start a session; a start without an acknowledgement is made again."""
        word = f"later {number}" if number % LATER_EVERY == LATER_EVERY - 1 else f"now {number}"
        async with gate:
            body = {"message": f"Go {word}"}
            while (told := await self.ask(client, "POST", "/sessions", body)) is None:  # noqa: ASYNC110 - as below
                await asyncio.sleep(0.2)
        self.runs.append(told["runId"])

    async def answer(self, client: httpx2.AsyncClient) -> None:
        """Answer all that is asked, until the storm is over."""
        while not self.is_over.is_set():
            told = await self.ask(client, "GET", "/approvals")
            asked: list[Any] = [] if told is None else [one["request"] for one in told["requests"]]
            new = [request for request in asked if request["requestId"] not in self.answered]
            await asyncio.gather(*(self.approve(client, request) for request in new))
            await asyncio.sleep(0.2)

    async def approve(self, client: httpx2.AsyncClient, request: Any) -> None:
        """Answer a request, unless no server acknowledges that: then it is asked for again."""
        option = "retry" if request["kind"] == "recovery" else "approve"
        body = {"optionId": option}
        if await self.ask(client, "POST", f"/approvals/{request['requestId']}", body) is not None:
            self.answered.add(request["requestId"])

    async def blow(self, count: int, pause_s: float) -> None:
        """Hurt members of the fleet, one after the other."""
        for number in range(count):
            await asyncio.sleep(self.random.uniform(0, 2 * pause_s))
            kind = BLOWS[number] if number < len(BLOWS) else self.random.choices(BLOWS, WEIGHTS)[0]
            self.blows[kind] += 1
            self.tell(f"{kind}: blow {number + 1} of {count}; {len(self.runs)} runs were acknowledged")
            servers = self.fleet.servers if "server" in kind else self.fleet.workers
            member = self.random.choice(servers)
            if kind.startswith("restart"):
                await asyncio.to_thread(self.restart, kind)
            elif kind.startswith("kill"):
                os.kill(member.pid, signal.SIGKILL)
            else:
                self.tasks.append(asyncio.create_task(self.stop(member)))

    def restart(self, kind: str) -> None:
        """Kill PostgreSQL or Temporal, and start it again."""
        with self.fleet.restarting:
            (self.fleet.postgres if "PostgreSQL" in kind else self.fleet.temporal).restart()

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
            store = runtime.core.ports.store
            assert store is not None
            async with asyncio.timeout(GUARD_S):
                while left := sum(group.count for group in await store.open_runs()):
                    self.tell(f"{left:,} runs have not ended")
                    await asyncio.sleep(5.0 if left > AT_ONCE else 0.5)
            ended = Counter([await _status(runtime, run_id) for run_id in self.runs])
            if ended.keys() - {"completed"}:
                self.wrong.append(f"runs ended: {dict(ended)}")
            await self._check_effects(runtime)
        return dict(ended)

    async def _check_effects(self, runtime: AgentRuntime) -> None:
        """Compare the effects with the results in the journals: each has one, and none begins after it."""
        results: dict[str, int] = {}
        after: str | None = None
        store = runtime.core.ports.store
        assert store is not None
        while rows := await store.sessions(after=after):
            for row in rows:
                for record in await _records(runtime, row.session_id):
                    if record.type == "action.result":
                        data: Any = record.data
                        key = f"{record.run_id}/{data['stepIndex']}/{data['result']['callId']}"
                        if key in results:
                            self.wrong.append(f"two results of {key}")
                        results[key] = round(datetime.fromisoformat(record.at).timestamp() * 1_000)
            after = rows[-1].session_id
        effects = _effects()
        seen = Counter(key for _, key, _ in effects)
        repeated = sum(seen.values()) - len(seen)
        self.figures = {"effects": len(seen), "repeated": repeated, "results": len(results)}
        for what, key, at_ms in effects:
            if key not in results:
                self.wrong.append(f"{what} {key} has no result")
            elif at_ms > results[key]:
                self.wrong.append(f"{what} {key} happened {at_ms - results[key]} ms after its result")


async def _status(runtime: AgentRuntime, run_id: str) -> str:
    """Return the status of a run; one that was acknowledged and is not there is lost."""
    try:
        return (await runtime.handle(run_id).status()).value
    except Conflict:
        return "lost"


def _effects() -> list[tuple[str, str, int]]:
    lines = Path(os.environ["FLEET_EFFECTS"]).read_text().splitlines()
    return [(what, key, int(at)) for what, key, at in (line.split() for line in lines)]


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
        starting: list[asyncio.Task[None]] = []
        for number in range(sessions):
            starting.append(asyncio.create_task(storm.start(client, number, gate)))
            # All blows meet runs that are under way: the starts are spread over them.
            await asyncio.sleep(blows * pause_s / sessions)
        await asyncio.gather(*starting)
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
            storm = Storm(fleet, random.Random(seed), tell)
            ended = asyncio.run(_play(storm, sessions=sessions, blows=blows, pause_s=pause_s))
    return {
        "trials": len(storm.runs),
        "kills": sum(storm.blows[kind] for kind in BLOWS),
        **storm.figures,
        "ended": ended,
        "wrong": len(storm.wrong),
        "violations": storm.wrong[:10],
    }


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--blows", type=int, default=30)
    parser.add_argument("--pause", type=float, default=4.0, help="seconds between blows, on average")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    told = play(
        sessions=args.sessions,
        servers=args.servers,
        workers=args.workers,
        blows=args.blows,
        seed=args.seed,
        pause_s=args.pause,
        tell=_say,
    )
    sys.stdout.write(json.dumps(told) + "\n")
    return 1 if told["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
