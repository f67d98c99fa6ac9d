"""Races of answers: people in several processes answer the same request at the same moment.

Each race has one request, and one answer per process. The processes meet at a barrier: before they answer, or
when each has read that the request is open and is about to write. Exactly one of them must be told that its
answer counts, and the journal and the effects must be those of that answer.
"""

import asyncio
import json
import multiprocessing
import os
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, Final

from tests.faults.rig import Trace, read_trace

from tools.postgres import running_postgres
from windlass import Agent, AgentRuntime, tool
from windlass.agent.policy import RulesPolicy
from windlass.engine.driving.inbox import ANSWER
from windlass.errors import Conflict
from windlass.ports.inbox import Posted
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.tools.context import ToolContext
from windlass.tools.question import ask_question
from windlass_harness.loop.subagents import CANCEL
from windlass_harness.policy import CallFacts, PolicySet
from windlass_harness.times import ms_of
from windlass_protocol import AskDecision, InputResponse, PolicyDecision

_SOON: Final = "pay_soon"
"""The tool whose requests expire soon."""
KINDS: Final = ("decision", "arguments", "texts", "recovery", "cancel", "expiry", "subagent")
_RACERS_MAX: Final = 3
_PAUSES_S: Final = (0.0, 0.0, 0.002, 0.01, 0.03, 0.1)
"""How late a process may be: a run goes on within milliseconds of the first answer."""
_EXPIRES_MS: Final = 1_500
"""How long the requests of races with the clock stay open."""
_AROUND_EXPIRY_S: Final = (-0.05, -0.01, -0.003, -0.001, 0.0, 0.001, 0.01, 0.05)
"""When an answer is posted in these races: before or after the expiry of its request."""
_ANSWER_S: Final = 300
"""A process that does not reply for so long hangs."""
Answer = dict[str, Any]
"""The fields of an `InputResponse`; with `cancel` instead, the run is cancelled."""


def _racers(kind: str, number: int) -> list[Answer]:
    """Return the answers of a race, one per process."""
    match kind:
        case "decision":
            return [
                {"option_id": "approve", "responder": "ann"},
                {"option_id": "deny", "responder": "bob", "text": f"no {number}"},
            ]
        case "arguments":
            amounts = {"ann": 1_000 + number, "bob": 2_000 + number}
            return [
                {"option_id": "approve", "responder": name, "arguments": {"cents": cents}}
                for name, cents in amounts.items()
            ]
        case "texts":
            return [{"responder": name, "text": f"the word of {name}, {number}"} for name in ("ann", "bob")]
        case "recovery":
            return [
                {"option_id": "retry", "responder": "ann"},
                {"option_id": "skip", "responder": "bob"},
                {"option_id": "supply", "responder": "cat", "text": f'"supplied {number}"'},
            ]
        case "expiry" | "subagent":
            return [{"option_id": "approve", "responder": name} for name in ("ann", "bob")]
        case _:
            return [{"cancel": True, "responder": "ann"}, {"option_id": "approve", "responder": "bob"}]


def _agents(ledger: Path, *, is_held: bool) -> list[Agent]:
    trace = Trace(ledger)

    @tool(mode="external", description="Pay.")
    async def pay(cents: int, ctx: ToolContext) -> str:
        trace.write(session=ctx.session_id, key=ctx.idempotency_key, cents=cents)
        return f"paid {cents}"

    @tool(mode="safe_write", effect="once", description="Charge a card.")
    async def charge(ctx: ToolContext) -> str:
        trace.write(session=ctx.session_id, key=ctx.idempotency_key, cents=0)
        if is_held:
            await asyncio.Event().wait()
        return "charged"

    @tool(name=_SOON, mode="external", description="Pay soon.")
    async def pay_soon(cents: int, ctx: ToolContext) -> str:
        trace.write(session=ctx.session_id, key=ctx.idempotency_key, cents=cents)
        return f"paid {cents}"

    question = call("ask_question", {"prompt": "Which word?", "allow_freeform": True})
    script = {
        "payer": call("pay", {"cents": 100}),
        "hurrier": call(_SOON, {"cents": 100}),
        "asker": question,
        "charger": call("charge", {}),
    }
    tools = [pay, pay_soon, charge, ask_question]
    agents = [
        Agent(name, model=ScriptedModel(by_history([first, say("done")])), tools=tools, description="Helps.")
        for name, first in script.items()
    ]
    delegates = ScriptedModel(by_history([call("payer", {"message": "go"}), say("done")]))
    return [*agents, Agent("boss", model=delegates, subagents=[agents[0]])]


class _Hurried(RulesPolicy):
    """The usual policy; requests for one tool expire soon."""

    def before(self, call: CallFacts, *, is_attended: bool) -> PolicyDecision:
        """Decide by the rules."""
        decision = super().before(call, is_attended=is_attended)
        if call.tool == _SOON and isinstance(decision, AskDecision):
            return decision.model_copy(update={"expires_in_ms": _EXPIRES_MS})
        return decision


_AGENT: Final = {"texts": "asker", "recovery": "charger", "expiry": "hurrier", "subagent": "boss"}
"""The agent of a kind of race; `payer` for the others."""


# a process


async def _serve(address: str, ledger: Path, pipe: Connection, barriers: Mapping[int, Barrier]) -> None:
    agents = _agents(ledger, is_held=not barriers)
    policy = _Hurried(PolicySet())
    async with await AgentRuntime.open(address, agents=agents, tool_policy=policy) as runtime:
        gate = _Gate(barriers)
        store = runtime.core.ports.store
        assert store is not None
        write = store.post

        async def post(session_id: str, *, kind: str, **parts: Any) -> Posted:
            if kind in (ANSWER, CANCEL):
                gate.pass_at("post")
                await gate.wait_for_clock()
            return await write(session_id, kind=kind, **parts)

        store.post = post  # type: ignore[method-assign] - the processes meet here
        while True:
            order = await asyncio.to_thread(pipe.recv)
            if order is None:
                return
            pipe.send(await _obey(runtime, order, gate))


@dataclass(slots=True)
class _Gate:
    """Where the processes of a race meet."""

    barriers: Mapping[int, Barrier]
    racers: int = 0
    place: str = ""
    pause_s: float = 0.0
    """How much later than the others this process goes on."""

    at_s: float | None = None
    """When this process posts its answer, in seconds since 1970."""

    def close(self, order: Mapping[str, Any]) -> None:
        self.racers, self.place, self.pause_s = order["racers"], order["place"], order["pause_s"]
        self.at_s = order["at_s"]

    async def wait_for_clock(self) -> None:
        if self.at_s is not None:
            await asyncio.sleep(self.at_s - time.time())

    def pass_at(self, place: str) -> None:
        if place == self.place:
            self.place = ""
            self.barriers[self.racers].wait(_ANSWER_S)
            time.sleep(self.pause_s)


async def _obey(runtime: AgentRuntime, order: dict[str, Any], gate: _Gate) -> object:
    session_id = order["session"]
    match order["do"]:
        case "start":
            return (await runtime.start_run(order["agent"], "go", session_id=session_id)).run_id
        case "find":
            return await _first_request(runtime, order["run"])
        case "answer":
            gate.close(order)
            gate.pass_at("call")
            return await _give(runtime, order)
        case _:
            await runtime.handle(order["run"]).wait(_ANSWER_S)
            below = await runtime.sessions.descendants(session_id)
            return [
                {"session": name, "type": record.type, "data": record.data}
                for name in (session_id, *(session.session_id for session in below))
                for record in await runtime.sessions.records(name, limit=1_000)
                if record.type in ("input.resolved", "approval.candidate", "action.result")
            ]


async def _first_request(runtime: AgentRuntime, run_id: str) -> tuple[str, float | None]:
    """Return the id of the request of a run, and when it expires, in seconds since 1970."""
    async for request in runtime.handle(run_id).requests():
        expires_at = request.data.expires_at
        return request.request_id, None if expires_at is None else ms_of(expires_at) / 1_000
    raise AssertionError(f"run {run_id} ended without a request")


async def _give(runtime: AgentRuntime, order: dict[str, Any]) -> str | None:
    """Give an answer; return the text of the conflict, None if the answer counts."""
    answer: Answer = order["answer"]
    try:
        if "cancel" in answer:
            await runtime.cancel_run(order["run"], by=answer["responder"])
        else:
            response = InputResponse.model_validate({"request_id": order["request"], **answer})
            await runtime.sessions.answer(order["session"], [response])
    except Conflict as error:
        return error.message
    return None


def _process(address: str, ledger: str, pipe: Connection, barriers: dict[int, Barrier]) -> None:
    asyncio.run(_serve(address, Path(ledger), pipe, barriers))


@dataclass(slots=True)
class _Office:
    """A process that answers for people."""

    process: BaseProcess
    pipe: Connection

    def ask(self, **order: object) -> None:
        self.pipe.send(order)

    def reply(self) -> Any:
        if not self.pipe.poll(_ANSWER_S):
            raise AssertionError("a process did not reply")
        return self.pipe.recv()

    def do(self, **order: object) -> Any:
        self.ask(**order)
        return self.reply()

    def close(self) -> None:
        self.pipe.send(None)
        self.process.join(_ANSWER_S)


def _open(address: str, ledger: Path, barriers: dict[int, Barrier]) -> _Office:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_process, args=(address, str(ledger), theirs, barriers), daemon=True)
    process.start()
    return _Office(process, ours)


# a race


def _interrupted(address: str, ledger: Path, sessions: Sequence[str]) -> dict[str, str]:
    """Start a run in each session, and kill the process while their calls run; return the runs."""
    doomed = _open(address, ledger, {})
    runs = {session_id: doomed.do(do="start", session=session_id, agent="charger") for session_id in sessions}
    while {row["session"] for row in read_trace(ledger)} < set(sessions):
        os.sched_yield()
    doomed.process.kill()
    doomed.process.join()
    return runs


def _race(
    offices: Sequence[_Office], kind: str, session_id: str, run_id: str, number: int, seed: int
) -> dict[str, Any]:
    racers, chance = _racers(kind, number), random.Random(seed + number)
    place = chance.choice(("call", "post", "post"))
    request_id, expires_s = offices[number % 2].do(do="find", session=session_id, run=run_id)
    running = list(zip(offices, racers, strict=False))
    for office, answer in running:
        office.ask(
            do="answer",
            session=session_id,
            run=run_id,
            request=request_id,
            answer=answer,
            racers=len(racers),
            place=place,
            pause_s=chance.choice(_PAUSES_S) if expires_s is None else 0.0,
            at_s=None if expires_s is None else expires_s + chance.choice(_AROUND_EXPIRY_S),
        )
    conflicts = [office.reply() for office, _ in running]
    records = offices[0].do(do="end", session=session_id, run=run_id)
    return {
        "kind": kind,
        "session": session_id,
        "request": request_id,
        "answers": racers,
        "conflicts": conflicts,
        "records": records,
    }


def judge(race: Mapping[str, Any], cents: Sequence[int]) -> list[str]:
    """Return the problems of a race; `cents` are the effects in the ledger."""
    told = list(zip(race["answers"], race["conflicts"], strict=True))
    # The run of a subagent records how its request was settled, and the run that called it does, too.
    [resolution, *_] = [
        resolution
        for record in race["records"]
        if record["type"] == "input.resolved"
        for resolution in record["data"]["resolutions"]
        # A person is asked again if a consent lapsed.
        if resolution["requestId"] == race["request"]
    ]
    problems: list[str] = []
    won = [answer for answer, conflict in told if conflict is None and "cancel" not in answer]
    first = resolution.get("response")
    if first is None:
        problems += [f"told yes, but the request was {resolution['outcome']}: {answer}" for answer in won]
        named: tuple[str, ...] = (str(resolution["outcome"]),)
    else:
        if len(won) != 1:
            problems.append(f"{len(won)} answers were told yes")
        names = {"option_id": "optionId", "text": "text", "responder": "responder", "arguments": "arguments"}
        recorded = {name: first[alias] for name, alias in names.items() if alias in first}
        problems += [f"told yes {answer}, recorded {recorded}" for answer in won if answer != recorded]
        named = tuple(str(first[name]) for name in ("optionId", "responder") if name in first)
        problems += _effects(race["kind"], recorded, race["records"], cents)
    for answer, conflict in told:
        # An answer that waits in the inbox is named, although its request may expire before it is taken.
        is_waiting = race["kind"] == "expiry" and conflict is not None and "the answer waits" in conflict
        if conflict is not None and not is_waiting and not all(name in conflict for name in named):
            problems.append(f"{answer} was refused without the winner {named}: {conflict}")
    kept = [record["data"] for record in race["records"] if record["type"] == "approval.candidate"]
    for data in kept:
        answer = next(answer for answer, _ in told if answer["responder"] == data["responder"])
        if (data.get("text"), data.get("arguments")) != (answer.get("text"), answer.get("arguments")):
            problems.append(f"the refused answer {answer} is recorded as {data}")
    return [f"{race['session']}: {problem}" for problem in problems]


def _effects(kind: str, answer: Answer, records: Sequence[Any], cents: Sequence[int]) -> list[str]:
    """Return how the effects and the results differ from those of the answer that counts."""
    option_id, text = answer.get("option_id"), answer.get("text")
    if kind in ("cancel", "expiry"):
        # A consent lapses if the run is cancelled, or the request expires, before the call begins.
        return [] if list(cents) in ([], [100]) else [f"paid {cents}"]
    if kind == "recovery":
        expected = [0, 0] if option_id == "retry" else [0]
    elif option_id == "approve":
        expected = [answer.get("arguments", {"cents": 100})["cents"]]
    else:
        expected = []
    problems = [] if list(cents) == expected else [f"the effects are {cents}, not {expected}"]
    outputs = [r["data"]["result"]["output"] for r in records if r["type"] == "action.result"]
    if option_id == "supply" and outputs != [json.loads(text or "")]:
        problems.append(f"supplied {text}, the result is {outputs}")
    if kind == "texts" and (len(outputs) != 1 or outputs[0].get("text") != text):
        problems.append(f"replied {text}, the result is {outputs}")
    return problems


def race_answers(
    address: str, folder: Path, *, kinds: Sequence[str], races: int, seed: int
) -> dict[str, Any]:
    """Race answers of each kind on a store; return the problems, and how often each answer was first."""
    ledger = folder / "ledger"
    names = [f"{kind}-{number}" for kind in kinds for number in range(races)]
    sessions = [name for name in names if name.startswith("recovery")]
    runs = _interrupted(address, ledger, sessions) if sessions else {}
    context = multiprocessing.get_context("spawn")
    barriers = {count: context.Barrier(count) for count in range(2, _RACERS_MAX + 1)}
    offices = [_open(address, ledger, barriers) for _ in range(_RACERS_MAX)]
    random.Random(seed).shuffle(names)
    outcomes: list[dict[str, Any]] = []
    for name in names:
        kind, _, number = name.partition("-")
        if name not in runs:
            agent = _AGENT.get(kind, "payer")
            starter = offices[int(number) % _RACERS_MAX]
            runs[name] = starter.do(do="start", session=name, agent=agent)
        outcomes.append(_race(offices, kind, name, runs[name], int(number), seed))
    for office in offices:
        office.close()
    rows = read_trace(ledger)
    problems: list[str] = []
    wins: dict[str, int] = {}
    for race in outcomes:
        sessions_of_race = {race["session"], *(record["session"] for record in race["records"])}
        cents = [row["cents"] for row in rows if row["session"] in sessions_of_race]
        problems += judge(race, cents)
        for answer, conflict in zip(race["answers"], race["conflicts"], strict=True):
            label = f"{race['kind']} {answer['responder']}"
            wins[label] = wins.get(label, 0) + (conflict is None)
    return {"races": len(outcomes), "wins": wins, "violations": problems}


def play(folder: Path, *, races: int, seed: int) -> dict[str, Any]:
    """Race answers on SQLite and on PostgreSQL."""
    violations: list[str] = []
    found: dict[str, Any] = {}
    for store in ("sqlite", "postgres"):
        below = folder / store
        below.mkdir()
        server: AbstractContextManager[Any] = running_postgres() if store == "postgres" else nullcontext()
        with server as postgres:
            address = str(below / "app.db") if postgres is None else postgres.new_database()
            outcome = race_answers(address, below, kinds=KINDS, races=races, seed=seed)
        found[store] = outcome["wins"]
        violations += [f"{store} {problem}" for problem in outcome["violations"]]
    trials = 2 * len(KINDS) * races
    return {"trials": trials, "wrong": len(violations), "violations": violations, "first": found}
