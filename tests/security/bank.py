"""Helpers of the security tests: an agent that pays, and its observers."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from windlass import Agent, RunHandle, Tool, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.system import chance, new_id
from windlass.ports.machine import Machine
from windlass.sqlite.store import SqliteStore
from windlass.testing import Answer, FakeClock, ScriptedModel, by_history, call, say
from windlass.tools import ToolOptions
from windlass_harness import PolicySet
from windlass_harness.record import Record
from windlass_protocol import InputRequest, InputResponse, JsonObject

T = TypeVar("T")

STORY_S_MAX = 300.0
WAIT_S_MAX = 300.0


def play(story: Coroutine[object, object, T]) -> T:
    """Run a story to its end; one that hangs fails."""

    async def guarded() -> T:
        async with asyncio.timeout(STORY_S_MAX):
            return await story

    return asyncio.run(guarded())


@dataclass
class Bank:
    """A tool that pays, and all that it has paid."""

    paid: list[JsonObject] = field(default_factory=list[JsonObject])

    def tool(self, **options: object) -> Tool[..., object]:
        async def pay(cents: int, to: str = "shop") -> JsonObject:
            """Pay an amount."""
            self.paid.append({"cents": cents, "to": to})
            return {"paid": cents}

        return tool(pay, **cast(ToolOptions, {"mode": "external", **options}))

    def agent(
        self,
        script: Iterable[Answer] | ScriptedModel,
        *,
        name: str = "teller",
        policy: PolicySet | None = None,
        more: Sequence[Tool[..., object]] = (),
        **options: object,
    ) -> Agent:
        """An agent that follows a script, also after a crash."""
        model = script if isinstance(script, ScriptedModel) else ScriptedModel(by_history(script))
        return Agent(name, model=model, tools=[self.tool(**options), *more], policy=policy or PolicySet())


def pay(cents: int = 5, *, call_id: str = "c1", **more: str) -> Answer:
    """Ask for a payment."""
    return call("pay", {"cents": cents, **more}, call_id=call_id)


DONE = say("done")


async def asked(handle: RunHandle, times: int = 1) -> tuple[InputRequest, ...]:
    """Return the open requests once the run waits for the n-th time."""
    seen = 0
    async with asyncio.timeout(WAIT_S_MAX):
        async for event in handle.events():
            seen += event.type == "run.waiting"
            if seen == times:
                return await handle.open_requests()
    raise AssertionError("the run ended without a request")


async def ended(handle: RunHandle) -> str:
    """Return how the run ended."""
    return str((await handle.wait(timeout=WAIT_S_MAX)).status)


async def types(handle: RunHandle) -> list[str]:
    """Return the types of all records of a run that has ended."""
    return [event.type async for event in handle.events() if event.index is None]


async def results(handle: RunHandle) -> list[JsonObject]:
    """Return the data of every result of a run that has ended."""
    return [event.data async for event in handle.events() if event.type == "action.result"]


async def codes(handle: RunHandle) -> list[str | None]:
    """Return the error code of every result; None for a success."""
    errors = [data.get("error") for data in await results(handle)]
    return [str(error["code"]) if isinstance(error, dict) else None for error in errors]


def yes(request: InputRequest, option: str = "approve", **more: str) -> InputResponse:
    """An answer to a request."""
    return InputResponse.model_validate({"request_id": request.request_id, "option_id": option, **more})


async def pass_time(clock: FakeClock, handle: RunHandle) -> str:
    """Let time pass until the run has ended."""
    end = asyncio.ensure_future(ended(handle))
    while not end.done():
        await clock.until_sleeping()
        clock.advance(1)
        await asyncio.sleep(0)
    return await end


def machine(clock: FakeClock) -> Machine:
    """A machine with a clock that only the test advances."""
    return Machine(clock, new_id, chance)


async def records_of(path: Path, session_id: str) -> list[Record]:
    """Return all records of a session, as the file has them."""
    store = await SqliteStore.open(path)
    try:
        return await all_records(store, session_id)
    finally:
        await store.aclose()


async def all_records(store: SqliteStore | MemoryStore, session_id: str) -> list[Record]:
    """Return all records of a session."""
    records: list[Record] = []
    while more := await store.read(session_id, after=records[-1].seq if records else 0):
        records += more
    return records


async def post(path: Path, session_id: str, *responses: InputResponse, key: str = "answer:forged") -> None:
    """Put an answer into the inbox from outside, past every check of the runtime."""
    store = await SqliteStore.open(path)
    body: JsonObject = {"responses": [one.model_dump(mode="json", by_alias=True) for one in responses]}
    try:
        await store.post(session_id, kind="answer", key=key, body=body)
    finally:
        await store.aclose()
