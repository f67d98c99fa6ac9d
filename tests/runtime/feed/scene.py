"""A store, a feed, and a writer that appends as the engine does."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from pydantic import JsonValue

from windlass.adapters.journals.memory import MemoryStore
from windlass.feed import Feed
from windlass.feed.subscription import Floor
from windlass.ports.feed import EventStream, LiveAnswer
from windlass.ports.inbox import NewRun
from windlass.ports.journal import Batch, Claim
from windlass.ports.store import Store
from windlass_harness.loop.events import Draft
from windlass_harness.record import Record, number
from windlass_protocol import Event, RunStatus

T = TypeVar("T")
AT = "2026-01-31T09:00:00.000Z"
WAIT_S = 300
STATUS = {
    "run.completed": RunStatus.COMPLETED,
    "run.failed": RunStatus.FAILED,
    "run.started": RunStatus.RUNNING,
}


def run(main: Callable[[], Coroutine[None, None, T]]) -> T:
    """Run a test that must not hang."""

    async def guarded() -> T:
        async with asyncio.timeout(WAIT_S):
            return await main()

    return asyncio.run(guarded())


class Tick:
    """Lets every other task go one step on."""

    def __await__(self) -> Generator[None, None, None]:
        yield


async def ticks(count: int) -> None:
    for _ in range(count):
        await Tick()


ENOUGH = 40
"""Ticks after which a reader that has nothing to wait for is done."""


class FixedClock:
    """It is always nine."""

    def __init__(self) -> None:
        self.asked = 0

    def now(self) -> datetime:
        self.asked += 1
        return datetime(2026, 1, 31, 9, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


class WatchedStore(MemoryStore):
    """A store that counts its reads, and is slow."""

    def __init__(self, delay: int = 0) -> None:
        super().__init__()
        self.delay = delay
        self.reads = 0

    async def read(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        self.reads += 1
        await ticks(self.delay)
        found = await super().read(session_id, after=after, limit=limit)
        await ticks(self.delay)
        return found

    async def read_all(self, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        self.reads += 1
        await ticks(self.delay)
        found = await super().read_all(after=after, limit=limit)
        await ticks(self.delay)
        return found


def draft(kind: str, data: dict[str, JsonValue] | None = None, **more: str) -> Draft:
    run_id, agent_id = more.get("run_id", "r1"), more.get("agent_id", "helper")
    return Draft(kind, AT, data or {}, run_id, agent_id, turn_id=more.get("turn_id"))


def at(step: int = 0) -> dict[str, JsonValue]:
    return {"sequence": 0, "stepIndex": step, "turnId": "t0"}


def started(step: int = 0, **more: str) -> Draft:
    return draft("step.started", at(step), **more)


def said(text: str, step: int = 0) -> Draft:
    return draft("message.completed", {"message": text, "finishReason": "stop", **at(step)})


def ended(kind: str = "run.completed", run_id: str = "r1") -> Draft:
    return draft(kind, {"runId": run_id}, run_id=run_id)


def result(call_id: str, step: int = 0) -> Draft:
    found: JsonValue = {"kind": "tool-result", "callId": call_id, "toolName": "look", "output": "found"}
    return draft("action.result", {"result": found, "status": "completed", **at(step)})


@dataclass
class World:
    """The engine's side of a feed."""

    store: Store = field(default_factory=WatchedStore)
    events_max: int = 1_024
    floor: Floor | None = None
    records: list[Record] = field(default_factory=list[Record])
    claims: dict[str, Claim] = field(default_factory=dict[str, Claim])
    steps: dict[str, LiveAnswer] = field(default_factory=dict[str, LiveAnswer])

    def __post_init__(self) -> None:
        self.clock = FixedClock()
        self.feed = Feed(self.store, self.clock, events_max=self.events_max, floor=self.floor)

    async def begin(self, run_id: str = "r1", session_id: str = "s1") -> None:
        """Start a run that has no records yet."""
        await self.store.post(
            session_id, kind="start", key=run_id, body={}, run=NewRun(run_id, "helper", "sha256:0")
        )

    async def write(self, *drafts: Draft, session_id: str = "s1") -> list[Record]:
        """Append without publishing."""
        if session_id not in self.claims:
            await self.store.enlist("me", now_ms=0)
            self.claims[session_id] = await self.store.claim(session_id, "me", now_ms=0)
        claim = self.claims[session_id]
        row = await self.store.session(session_id)
        assert row is not None
        known = [one for one in drafts if one.type in STATUS and one.run_id is not None]
        runs = [(str(one.run_id), STATUS[one.type]) for one in known]
        kept = tuple([one for one in runs if await self.store.run(one[0]) is not None])
        done = await self.store.append(Batch(claim, row.last_seq, drafts, runs=kept))
        records = [
            number(
                one, session_id, seq=done.first_seq + i, epoch=claim.epoch, position=done.first_position + i
            )
            for i, one in enumerate(drafts)
        ]
        self.records += records
        return records

    async def append(self, *drafts: Draft, session_id: str = "s1") -> list[Record]:
        """Append and publish; a step that starts becomes live."""
        records = await self.write(*drafts, session_id=session_id)
        self.feed.publish(records)
        for record in records:
            if record.type == "step.started":
                self.steps[session_id] = self.feed.live(record)
        return records

    def live(self, session_id: str = "s1") -> LiveAnswer:
        return self.steps[session_id]


class Reader:
    """Reads a stream in a task of its own and keeps the events."""

    def __init__(self, stream: EventStream) -> None:
        self.stream = stream
        self.events: list[Event] = []
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.stream:
            self.events.append(event)

    async def stop(self) -> None:
        """Cancel the task, as a client that goes away does."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    @property
    def seqs(self) -> list[int]:
        """The records it got, by their numbers."""
        return [event.seq or 0 for event in self.events if event.index is None]


def texts(events: Sequence[Event], *, may_repeat: bool = False) -> dict[tuple[str, int], str]:
    """The answers as a client puts them together, by session and step.

    Unless a cursor did not count deltas, none comes twice.
    """
    said: dict[tuple[str, int], str] = {}
    last: dict[tuple[str, int], int] = {}
    for event in events:
        if event.index is None:
            continue
        key = (event.session_id or "", event.seq or 0)
        assert may_repeat or event.index > last.get(key, -1), "a delta came twice"
        last[key] = event.index
        if event.type == "message.appended":
            so_far, delta = event.data.get("messageSoFar"), str(event.data["messageDelta"])
            said[key] = said.get(key, "") + delta if so_far is None else str(so_far)
    return said


async def drain(stream: EventStream) -> list[Event]:
    return [event async for event in stream]
