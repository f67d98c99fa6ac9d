"""The support desk of docs/recipes/desk.md: a real server that is killed, and a provider that fails."""

import asyncio
import io
import json
import os
import random
import re
import signal
import socket
import sqlite3
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.server.keyring import Keyring

from tools.doc_blocks import blocks
from tools.files import ROOT
from windlass.client import Client
from windlass.errors import AgentError
from windlass_harness.retry import RetryPolicy
from windlass_protocol import JsonValue

PAGE: Final = ROOT / "docs" / "recipes" / "desk.md"
APP, CLIENT = (
    next(block.code for block in blocks(PAGE.read_text(encoding="utf-8")) if word in block.code)
    for word in ("desk = Agent(", "async def ask(")
)
USERS: Final = ("ann", "bob")
CENTS: Final = 990
CALLS: Final = 6
"""Model calls of a refund, without that of the subagent."""
PATIENT: Final = RetryPolicy(max_attempts=1_000, max_delay_ms=500)
LOOK_S: Final = 0.05
TABLES: Final = (
    "CREATE TABLE orders (number INTEGER, owner TEXT, item TEXT, cents INTEGER)",
    "CREATE TABLE notes (key TEXT PRIMARY KEY, number INTEGER, text TEXT)",
    "CREATE TABLE refunds (key TEXT PRIMARY KEY, number INTEGER, cents INTEGER)",
)
Ask = Callable[[str, str, str, str], Awaitable[JsonValue]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Provider:
    """An OpenAI-compatible server on a port of its own that can be busy, or away."""

    port: int = field(default_factory=free_port)
    answered: int = 0
    refused: int = 0
    busy: int = 0
    """Requests that are still to be refused with HTTP 429."""
    _server: asyncio.Server | None = None
    _more: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def answers(self, number: int) -> None:
        """Return once so many requests were answered."""
        async with self._more:
            await self._more.wait_for(lambda: self.answered >= number)

    async def come(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def leave(self) -> None:
        """Refuse connections."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A server that is killed leaves its request behind.
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
            asked = json.loads(await reader.readexactly(int(length[1]) if length else 0))
            if self.busy > 0:
                self.busy, self.refused = self.busy - 1, self.refused + 1
                body, kind, status = (
                    b'{"error": {"message": "slow down"}}',
                    "application/json",
                    "429 Too Many",
                )
            else:
                async with self._more:
                    self.answered += 1
                    self._more.notify_all()
                body, kind, status = _answer(asked), "text/event-stream", "200 OK"
            head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
            writer.write(f"{head}connection: close\r\n\r\n".encode() + body)
            await writer.drain()
        writer.close()


def _answer(asked: dict[str, Any]) -> bytes:
    """Answer as a model that works through a refund would, by the history."""
    messages = asked["messages"]
    last = max(at for at, one in enumerate(messages) if one["role"] == "user")
    made = sum(len(one.get("tool_calls") or ()) for one in messages[last:])
    delta: dict[str, Any] = {"content": "Yes, within 30 days."}
    if "mini" not in asked["model"]:
        found = re.search(r"order (\d+)", json.dumps(messages[last]["content"]))
        assert found is not None
        number = int(found[1])
        plan: list[tuple[str, dict[str, object]]] = [
            ("list_orders", {}),
            ("find_order", {"number": number}),
            ("expert", {"message": f"May order {number} be refunded?"}),
            ("refund", {"number": number, "cents": CENTS}),
            ("note", {"number": number, "text": "refunded"}),
        ]
        if made < len(plan):
            name, arguments = plan[made]
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"index": 0, "id": f"call-{made}", "type": "function", "function": function}
            delta = {"tool_calls": [call]}
        else:
            delta = {"content": json.dumps({"text": f"Order {number}.", "refunded_cents": CENTS})}
    ends = "tool_calls" if "tool_calls" in delta else "stop"
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": ends}]},
        {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}},
    ]
    same = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    lines = [f"data: {json.dumps({**same, **chunk})}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


@dataclass
class Desk:
    """The service in a folder: its process, its provider and its users."""

    folder: Path
    provider: Provider
    keys: dict[str, str]
    ask: Ask
    port: int = field(default_factory=free_port)
    kills: int = 0
    child: Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, user: str) -> Client:
        return Client(self.url, key=self.keys[user], retries=PATIENT)

    def log(self) -> list[dict[str, Any]]:
        """The entries of the log."""
        lines = (self.folder / "server.log").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.folder / "shop.db") as shop:
            rows = shop.execute(statement, values).fetchall()
        shop.close()
        return rows

    async def start(self) -> None:
        environment = {
            **os.environ,
            "OPENAI_BASE_URL": f"http://127.0.0.1:{self.provider.port}/v1",
            "WINDLASS_SERVER_KEYS": "keys.json",
            "WINDLASS_DURABILITY": "process",
        }
        with (self.folder / "server.log").open("ab") as log:
            self.child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "windlass_cli", "serve", "app.py:desk", "--port", str(self.port)),
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=log,
            )

    async def kill(self) -> None:
        """End the server with SIGKILL, once it has answered a request."""
        async with self.client("ann") as client:
            await client.server.health()
        await self.end()
        self.kills += 1

    async def end(self) -> None:
        if self.child is not None:
            with suppress(ProcessLookupError):
                self.child.send_signal(signal.SIGKILL)
            await self.child.wait()

    async def approve(self) -> None:
        """Approve whatever is asked, until cancelled; an answer that a kill interrupted is given again."""
        async with self.client("dana") as client:
            while True:
                with suppress(AgentError):
                    for one in (await client.approvals.list()).items:
                        await client.approvals.answer(one.request.request_id, "approve")
                await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def opened(folder: Path, *, tickets: int) -> AsyncGenerator[Desk]:
    """Serve the desk with a number of orders."""
    (folder / "app.py").write_text(APP, encoding="utf-8")
    keyring = Keyring(folder / "keys.json")
    keys = {user: keyring.add(user, "local", user) for user in USERS}
    keys["dana"] = keyring.add("dana", "local", "dana", roles=["approver"])
    namespace: dict[str, Any] = {}
    exec(CLIENT.partition("\nmatch ")[0], namespace)
    desk = Desk(folder, Provider(), keys, namespace["ask"])
    for table in TABLES:
        desk.sql(table)
    for number in range(tickets):
        desk.sql("INSERT INTO orders VALUES (?, ?, 'a kettle', ?)", number, USERS[number % 2], CENTS)
    await desk.provider.come()
    await desk.start()
    try:
        yield desk
    finally:
        await desk.end()
        await desk.provider.leave()


async def _at_random(desk: Desk, kills: int, chance: random.Random, ask: Callable[[], None]) -> None:
    """Kill the server at random moments; a new customer for each, so that there is work to interrupt."""
    for _ in range(kills):
        ask()
        await desk.provider.answers(desk.provider.answered + chance.randint(1, CALLS))
        await desk.kill()
        await desk.start()


async def _outage(desk: Desk, outage_s: float, kills: int) -> None:
    """Let the provider be away, then busy, and kill the server meanwhile."""
    for part in range(2):
        if part == 0:
            await desk.provider.leave()
        else:
            desk.provider.busy = sys.maxsize
            await desk.provider.come()
        count = kills // 2 if part == 0 else kills - kills // 2
        await asyncio.sleep(outage_s / 2 / (count + 1))
        for _ in range(count):
            await desk.kill()
            await desk.start()
            await asyncio.sleep(outage_s / 2 / (count + 1))
    desk.provider.busy = 0


async def trial(
    folder: Path, *, tickets: int, kills: int, outage_s: float = 0, busy: int = 0, seed: int = 1
) -> dict[str, Any]:
    """Let two users ask for refunds, at least as many as kills outside the outage; return the violations."""
    chance = random.Random(seed)
    async with opened(folder, tickets=tickets) as desk:
        desk.provider.busy = busy
        approving = asyncio.create_task(desk.approve())
        asking: list[asyncio.Future[JsonValue]] = []

        def ask() -> None:
            number = len(asking)
            key, message = desk.keys[USERS[number % 2]], f"Refund order {number}."
            asking.append(asyncio.ensure_future(desk.ask(desk.url, key, message, f"ticket-{number}")))

        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            in_outage = kills // 2 if outage_s else 0
            await _at_random(desk, kills - in_outage, chance, ask)
            while len(asking) < tickets:
                ask()
            if outage_s:
                await _outage(desk, outage_s, in_outage)
            answers = await asyncio.gather(*asking)
        approving.cancel()
        wrong = await _violations(desk, answers)
        return {
            "trials": tickets,
            "kills": desk.kills,
            "wrong": len(wrong),
            "violations": wrong,
            "refused": desk.provider.refused,
        }


async def _violations(desk: Desk, answers: list[JsonValue]) -> list[str]:
    """Say what is wrong: each run completed, one refund and one note each, each failure in the log."""
    wrong = [
        f"order {number}: {answer!r}"
        for number, answer in enumerate(answers)
        if answer != {"text": f"Order {number}.", "refunded_cents": CENTS}
    ]
    for table in ("refunds", "notes"):
        found = dict(desk.sql(f"SELECT number, count(*) FROM {table} GROUP BY number"))
        if found != dict.fromkeys(range(len(answers)), 1):
            wrong.append(f"{table}: {found}")
    logged = {one.get("runId") for one in desk.log() if one["logger"] == "windlass.runs"}
    for user in USERS:
        async with desk.client(user) as client:
            for run in (await client.runs.list(subagents=True, limit=100)).items:
                types = [event.type async for event in client.events(run_id=run.run_id, follow=False)]
                if run.status != "completed" or types.count("run.completed") != 1:
                    wrong.append(f"run {run.run_id}: {run.status}")
                if "step.retrying" in types and "recovery.started" not in types and run.run_id not in logged:
                    wrong.append(f"run {run.run_id}: a failure is not in the log")
    return wrong
