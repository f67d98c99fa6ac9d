"""Helpers of the tests of hooks and sinks: an agent, driven to its end."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from windlass.agent import Agent
from windlass.ports.host import Delivery
from windlass.ports.model import LLMMessage
from windlass.runtime.compose import AgentRuntime
from windlass.testing import Answer, ScriptedModel, call, say
from windlass.tools import tool
from windlass_protocol import Event, JsonObject, RunResult

T = TypeVar("T")
Writer = Callable[[Sequence[LLMMessage]], Answer]
STORY_S_MAX = 300.0


def play(story: Coroutine[object, object, T]) -> T:
    """Run a story to its end; one that hangs fails."""

    async def guarded() -> T:
        async with asyncio.timeout(STORY_S_MAX):
            return await story

    return asyncio.run(guarded())


class Ledger:
    """The effects that really happened."""

    def __init__(self) -> None:
        self.charges: list[int] = []


def charging(ledger: Ledger, **options: Any) -> Any:
    """A tool that charges, and says so in the ledger."""

    @tool(mode="safe_write", **options)
    async def charge(cents: int) -> dict[str, int]:
        """Charge an amount."""
        ledger.charges.append(cents)
        return {"charged": cents}

    return charge


@tool(mode="external")
async def mail(to: str) -> str:
    """Send a mail; the default policy asks first."""
    return f"sent to {to}"


@dataclass
class HookRun:
    """The result of a run, and all records of its session."""

    result: RunResult
    events: list[Event]
    ledger: Ledger

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def all(self, kind: str) -> list[JsonObject]:
        return [event.data for event in self.events if event.type == kind]

    def hooks(self, point: str | None = None) -> list[tuple[str, str]]:
        """Which hooks ran, and how they ended."""
        found = [one for one in self.events if one.type in ("hook.completed", "hook.failed")]
        return [
            (str(one.data["hookId"]), str(one.data["status"]))
            for one in found
            if point in (None, one.data["point"])
        ]

    @property
    def error(self) -> str:
        return "" if self.result.error is None else f"{self.result.error.kind}: {self.result.error.message}"


async def events_of(
    runtime: AgentRuntime, session_id: str = "s1", *, until: Sequence[str] = ()
) -> list[Event]:
    """All that a session says, up to where all of these have been said."""
    left, seen = list(until), list[Event]()
    stream = runtime.sessions.subscribe(session_id)
    async for event in stream:
        if event.seq is not None and event.type != "message.delta":
            seen.append(event)
        if event.type in left:
            left.remove(event.type)
        if not left:
            break
    await stream.aclose()
    return seen


def shop(script: Iterable[Answer] | Writer, ledger: Ledger, **parts: Any) -> Agent:
    """An agent that can charge and mail."""
    given: dict[str, Any] = {"model": ScriptedModel(script), "tools": [charging(ledger), mail], **parts}
    return Agent("shop", **given)


CHARGE = (call("charge", {"cents": 5}), say("done"))


def run(
    *hooks: Any, script: Any = CHARGE, until: Sequence[str] = ("session.waiting",), **parts: Any
) -> HookRun:
    """Drive an agent with these hooks to the end of one run."""

    async def story() -> HookRun:
        ledger = Ledger()
        options = {name: parts.pop(name) for name in ("output_sinks", "is_attended") if name in parts}
        specs = parts.pop("sinks", ())
        agent = shop(script, ledger, hooks=list(hooks), output_sinks=list(specs), **parts)
        async with AgentRuntime.in_memory([agent], **options) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            result = await handle.wait(timeout=STORY_S_MAX)
            return HookRun(result, await events_of(runtime, until=until), ledger)

    return play(story())


class Box:
    """A sink with scripted behaviour that records its deliveries."""

    def __init__(self, *answers: object, sink_id: str = "box") -> None:
        self._answers = list(answers)
        self._sink_id = sink_id
        self.got: list[Delivery] = []

    @property
    def sink_id(self) -> str:
        return self._sink_id

    async def deliver(self, output: Delivery) -> JsonObject | None:
        self.got.append(output)
        answer: Any = self._answers.pop(0) if self._answers else None
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            return None
        return answer
