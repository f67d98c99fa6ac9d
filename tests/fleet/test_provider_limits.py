"""A limit of a provider that real processes share through PostgreSQL; one of them is killed."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from tests.contracts.stores import GUARD_S

from tools.postgres import Postgres

pytestmark = pytest.mark.slow

ROOT: Final = Path(__file__).parents[2]
WORKER: Final = """
import asyncio, sys
from windlass import Agent, AgentRuntime
from windlass.parts import ProviderLimit, ProviderLimits
from windlass.testing import ScriptedModel, say

address, port, name, runs, at_once, per_minute = sys.argv[1:]

class Remote(ScriptedModel):
    async def stream(self, messages, *, tools=None, temperature=None):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
        writer.write(f"{name}\\n".encode())
        assert await reader.readline(), "the provider went away"
        writer.close()
        async for chunk in super().stream(messages, tools=tools, temperature=temperature):
            yield chunk

agent = Agent(name, model=Remote(lambda _: say("done"), route_id="acme"))
limit = ProviderLimit(at_once=int(at_once) or None, per_minute=int(per_minute) or None)

async def main():
    limits = ProviderLimits({"acme": limit})
    async with AgentRuntime.open(address, agents=[agent], provider_limits=limits) as runtime:
        handles = [await runtime.start_run(agent, "hello") for _ in range(int(runs))]
        for handle in handles:
            assert (await handle.wait()).output == "done"

asyncio.run(main())
"""


@dataclass
class Provider:
    """A server that counts requests, and answers when it is told to."""

    is_open: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    under_way: Counter[str] = field(default_factory=Counter[str])
    begun: Counter[str] = field(default_factory=Counter[str])
    most: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = (await reader.readline()).decode().strip()
        self.begun[name] += 1
        await self._count(name, 1)
        is_gone, is_open = asyncio.ensure_future(reader.read()), asyncio.ensure_future(self.is_open.wait())
        # A process that was killed is gone before it is answered.
        await asyncio.wait([is_gone, is_open], return_when="FIRST_COMPLETED")
        # Before the answer: its call may be followed by another at once.
        await self._count(name, -1)
        with suppress(ConnectionError):
            writer.write(b"answer\n")
            await writer.drain()
            await is_gone
        is_open.cancel()
        writer.close()

    async def _count(self, name: str, more: int) -> None:
        async with self._changed:
            self.under_way[name] += more
            self.most = max(self.most, self.under_way.total())
            self._changed.notify_all()

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(is_so)


@dataclass
class Fleet:
    """Processes with one database and one provider."""

    address: str
    provider: Provider
    limit: tuple[int, int]
    """At once, and a minute; 0 is none."""
    children: list[Process] = field(default_factory=list[Process])

    async def start(self, name: str, runs: int) -> Process:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WORKER, self.address, str(self.provider.port), name, str(runs)),
            *map(str, self.limit),
            cwd=ROOT,
        )
        self.children.append(child)
        return child

    def state(self, change: Callable[[dict[str, Any]], object] = bool) -> dict[str, Any]:
        """Return what the database counts, after a change."""
        with psycopg.connect(self.address) as admin:
            [(text,)] = admin.execute("SELECT state FROM windlass.provider_limits FOR UPDATE").fetchall()
            found = json.loads(text)
            change(found)
            admin.execute("UPDATE windlass.provider_limits SET state = %s", (json.dumps(found),))
        return found


@asynccontextmanager
async def fleet(postgres: Postgres, *limit: int) -> AsyncGenerator[Fleet]:
    provider = Provider()
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    provider.port = server.sockets[0].getsockname()[1]
    found = Fleet(postgres.new_database(), provider, (limit[0], limit[1]))
    try:
        async with asyncio.timeout(GUARD_S):
            yield found
    finally:
        for child in found.children:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
        server.close()


def test_processes_share_a_limit_and_the_permits_of_a_killed_one_come_back(postgres: Postgres) -> None:
    async def story() -> None:
        async with fleet(postgres, 3, 8) as found:
            provider = found.provider
            first = await found.start("first", 5)
            await provider.until(lambda: provider.under_way["first"] == 3)
            second = await found.start("second", 6)
            await asked_in_vain(found, 2 + 6)
            assert provider.begun == {"first": 3}
            first.send_signal(signal.SIGKILL)
            await first.wait()
            await provider.until(lambda: not provider.under_way["first"])
            # Its lease ends; the process that lives renews its own.
            found.state(lambda state: [one.__setitem__(4, 0) for one in state["holders"].values()])
            await provider.until(lambda: provider.under_way["second"] == 3)
            provider.is_open.set()
            await provider.until(lambda: provider.begun["second"] == 5)
            # Eight calls began within the minute, three of them in the process that is dead.
            await asked_in_vain(found, 1, await asked_in_vain(found, 1))
            assert provider.begun == {"first": 3, "second": 5}
            found.state(lambda state: state["starts"].clear())
            assert await second.wait() == 0
            assert provider.begun == {"first": 3, "second": 6}
            assert provider.most == 3
            assert [held for _, held, *_ in found.state()["holders"].values()] == [0]

    asyncio.run(story())


async def asked_in_vain(found: Fleet, calls: int, before: dict[str, int] | None = None) -> dict[str, int]:
    """Return the numbers of asks, once so many calls wait and each process with some has asked anew."""
    while True:
        holders = found.state()["holders"]
        waiting = {name: one[0] for name, one in holders.items() if one[2]}
        is_new = all(number > (before or {}).get(name, 0) for name, number in waiting.items())
        if sum(one[2] for one in holders.values()) == calls and is_new:
            return waiting
        await asyncio.sleep(0.05)
