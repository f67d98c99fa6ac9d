"""Purses under attack: many calls at once, subagents, and processes that are killed, on one store.

A model writes what each call costs into a ledger when the call is sent, also if its process dies then. It
answers with as many tokens as it may, so the ledger is what a provider would have billed.
"""

import asyncio
import os
import random
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from windlass import Agent, AgentRuntime, LLMUsage
from windlass.parts import ModelPrice, SpendLimit
from windlass.ports.model import LLMMessage, LLMStreamChunk
from windlass.testing import Answer, ScriptedModel, call, say
from windlass_protocol import JsonObject

ANSWER_TOKENS: Final = 400
TOKEN_MICROS: Final = 10
ANSWER_MICROS: Final = ANSWER_TOKENS * TOKEN_MICROS
PROCESSES: Final = 2
OWNERS: Final = ("ann", "bob")


class Biller(ScriptedModel):
    """A model that bills all tokens that an answer may have."""

    answer_tokens_min = 1

    def __init__(self, ledger: Path, name: str, answer_tokens: int = ANSWER_TOKENS) -> None:
        super().__init__(lambda messages: _answer(name, messages, self.answer_tokens), model_id=name)
        self.answer_tokens = answer_tokens
        self._ledger = ledger
        self._name = name

    def with_answer_tokens(self, tokens: int) -> "Biller":
        """Return the same model with shorter answers."""
        return Biller(self._ledger, self._name, tokens)

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        """Bill a call, then answer."""
        line = f"{self.answer_tokens * TOKEN_MICROS}\n".encode()
        handle = os.open(self._ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line)
        os.close(handle)
        await asyncio.sleep(0)
        async for chunk in super().stream(messages, tools=tools, temperature=temperature):
            yield chunk


def _answer(name: str, messages: Sequence[LLMMessage], tokens: int) -> Answer:
    usage = LLMUsage(0, tokens)
    if name == "clerk" and messages[-1].role == "user":
        return replace(call("helper", {"message": "x"}), usage=usage)
    return say("Done.", usage=usage)


def agents_of(ledger: Path) -> list[Agent]:
    """Return an agent with a subagent."""
    prices = {"*": ModelPrice(0, TOKEN_MICROS)}
    helper = Agent("helper", model=Biller(ledger, "helper"), description="Helps.", prices=prices)
    clerk = Agent("clerk", model=Biller(ledger, "clerk"), subagents=[helper], prices=prices)
    return [clerk, helper]


def limits_of(runs: int) -> list[SpendLimit]:
    """Return limits that half of the calls fit: a run makes three."""
    house = runs * ANSWER_MICROS * 3 // 2
    return [
        SpendLimit("house", "month", max_cost_micros=house),
        SpendLimit("people", "day", max_cost_micros=house // 2, owner="*"),
        SpendLimit("helpers", "month", max_tokens=runs * ANSWER_TOKENS // 2, agent="helper"),
    ]


def paid(ledger: Path) -> list[int]:
    """Return what was billed."""
    return [int(line) for line in ledger.read_text().split()] if ledger.exists() else []


async def work(address: str, ledger: Path) -> None:
    """Drive runs until the process is killed."""
    async with AgentRuntime.open(address, agents=agents_of(ledger)):
        print("ready", flush=True)  # noqa: T201 - the other end of a pipe
        await asyncio.Event().wait()


async def play(address: str, folder: Path, *, runs: int, kills: int, seed: int) -> dict[str, Any]:
    """Start runs, kill the processes that drive them again and again; return what went wrong."""
    ledger, chance, wrong = folder / f"ledger-{seed}", random.Random(seed), list[str]()
    agents, limits = agents_of(ledger), limits_of(runs)
    workers: list[Process] = []
    async with AgentRuntime.open(address, agents=agents, limits=limits, is_driving=False) as runtime:
        handles = [
            await runtime.start_run(agents[0], "Hi", owner=OWNERS[at % 2], run_id=f"r{seed}-{at}")
            for at in range(runs)
        ]
        try:
            workers += [await _worker(address, ledger) for _ in range(PROCESSES)]
            for number in range(kills):
                await _until_billed(ledger, chance.randint(1, max(1, runs // kills)) * (number + 1))
                at = chance.randrange(PROCESSES)
                workers[at].send_signal(signal.SIGKILL)
                await workers[at].wait()
                workers[at] = await _worker(address, ledger)
            ends = [(await handle.wait()).status.value for handle in handles]
        finally:
            for worker in workers:
                worker.kill()
                await worker.wait()
        uses = await runtime.sessions.limits.uses()
    billed = sum(paid(ledger))
    house = limits[0].max_cost_micros or 0
    if billed > house + ANSWER_MICROS:
        wrong.append(f"{billed:,} were billed, the limit is {house:,}")
    for use in uses:
        most = {"house": house, "people": house // 2}.get(use.limit.name)
        if most is not None and use.state.cost_micros > most:
            wrong.append(f"{use.limit.name} {use.subject} spent {use.state.cost_micros:,} of {most:,}")
        if use.limit.max_tokens is not None and use.state.tokens > use.limit.max_tokens + ANSWER_TOKENS:
            wrong.append(f"{use.limit.name} used {use.state.tokens:,} of {use.limit.max_tokens:,} tokens")
        if use.state.held_micros or use.state.held_tokens:
            wrong.append(f"{use.limit.name} {use.subject} still holds {use.state.held_micros:,}")
    spent = next((use.state.cost_micros for use in uses if use.limit.name == "house"), 0)
    if spent < billed:
        wrong.append(f"{billed:,} were billed, {spent:,} counted")
    if billed < house // 2:
        wrong.append(f"only {billed:,} of {house:,} were billed: the limit refused too much")
    return {
        "trials": runs,
        "kills": kills,
        "billed": billed,
        "limit": house,
        "ended": {end: ends.count(end) for end in sorted(set(ends))},
        "wrong": len(wrong),
        "violations": wrong,
    }


async def _until_billed(ledger: Path, calls: int) -> None:
    """Return when so many calls were billed, or no more are: then all limits are reached."""
    before, rounds = -1, 0
    while (count := len(paid(ledger))) < calls and rounds < 20:
        rounds = rounds + 1 if count == before else 0
        before = count
        await asyncio.sleep(0.05)


async def _worker(address: str, ledger: Path) -> Process:
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.purses", address, str(ledger)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert worker.stdout is not None
    assert await worker.stdout.readline() == b"ready\n"
    return worker


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], Path(sys.argv[2])))
