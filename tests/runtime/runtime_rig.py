"""Helpers of the runtime tests."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from windlass.adapters.journals.memory import MemoryStore
from windlass.agent import Agent
from windlass.agent.package import compile_package
from windlass.ports.inbox import NewRun, Posted
from windlass.ports.journal import Appended, Batch
from windlass.runtime.handle import RunHandle
from windlass.testing import ScriptedModel, say
from windlass.tools import tool
from windlass_protocol import ContentRef, Event, JsonObject, RunRequest, RuntimePackage

T = TypeVar("T")

STORY_S_MAX = 300.0


def play(story: Coroutine[object, object, T]) -> T:
    """Run a story to its end; one that hangs fails."""

    async def guarded() -> T:
        async with asyncio.timeout(STORY_S_MAX):
            return await story

    return asyncio.run(guarded())


class CountingStore(MemoryStore):
    """A store that records its writes."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    async def append(self, batch: Batch) -> Appended:
        self.writes.append("append")
        return await super().append(batch)

    async def post(
        self, session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None = None
    ) -> Posted:
        posted = await super().post(session_id, kind=kind, key=key, body=body, run=run)
        self.writes.append(f"post {kind}")
        return posted

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        self.writes.append("put")
        return await super().put(content, media_type=media_type, session_id=session_id)

    async def enlist(self, owner_id: str, *, now_ms: int) -> None:
        self.writes.append("enlist")
        await super().enlist(owner_id, now_ms=now_ms)


@tool(mode="read")
async def look(item: str) -> str:
    """Look for a thing."""
    return f"{item} is there"


@tool(mode="external")
async def mail(to: str) -> str:
    """Send a mail; the default policy asks first."""
    return f"sent to {to}"


def model_of(*answers: str) -> ScriptedModel:
    """A model that says these things, one after another."""
    return ScriptedModel([say(answer) for answer in answers])


def shop(model: ScriptedModel | None = None, **parts: object) -> Agent:
    """An agent with a tool that may be used and one that asks."""
    given: dict[str, Any] = {"model": model or model_of("done"), "tools": [look, mail], **parts}
    return Agent("shop", **given)


def package_of(agent: Agent | None = None) -> RuntimePackage:
    """The package of the shop."""
    return compile_package(agent or shop())


def request(run_id: str = "r1", **parts: object) -> RunRequest:
    """A request for a run of the shop."""
    return RunRequest.model_validate({"run_id": run_id, "agent_id": "shop", "input": "go", **parts})


async def until(handle: RunHandle[object], event_type: str) -> Event:
    """Return the next event of a type; the story fails if the run ends before."""
    async for event in handle.events():
        if event.type == event_type:
            return event
    raise AssertionError(f"the run ended without {event_type}")
