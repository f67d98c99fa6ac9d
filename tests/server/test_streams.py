"""Replays of a run: the same events, with the recorded pauses."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from tests.server.rig import Frame, ended, eventually, payer, run, serving, waiting, watch

from windlass import Event
from windlass.testing import FakeClock
from windlass_protocol import Cursor, EventMeta, RunCursor
from windlass_server.streams import PacedStream


class EventList:
    """A stream of events that are there."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._events = iter(events)
        self._seq = 0
        self.is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        for event in self._events:
            self._seq += 1
            return event
        raise StopAsyncIteration

    @property
    def cursor(self) -> Cursor:
        return RunCursor(run_id="r", seq=self._seq)

    @property
    def ready(self) -> int:
        return 9

    async def open(self) -> None:
        pass

    async def aclose(self) -> None:
        self.is_closed = True


def at(second: int) -> Event:
    return Event(type="custom.said", meta=EventMeta(at=f"2026-01-01T00:00:{second:02}.000Z"))


def test_pauses_are_as_long_as_they_were_and_never_longer_than_wished() -> None:
    async def main() -> None:
        clock = FakeClock()
        # The third is from before a clock was put back.
        inner = EventList([at(10), at(14), at(4), at(59)])
        feed = PacedStream(inner, clock, speed=2, pause_s_max=5)
        await feed.open()
        shown = list[tuple[float, Cursor]]()

        async def read() -> None:
            async for _ in feed:
                shown.append((clock.monotonic(), feed.cursor))

        began, task = clock.monotonic(), asyncio.create_task(read())
        for count in (1, 3, 4):
            await eventually(lambda count=count: len(shown) == count)
            clock.advance(2 if count == 1 else 5)
        await task
        assert [round(moment - began) for moment, _ in shown] == [0, 2, 2, 7]
        assert [cursor for _, cursor in shown] == [RunCursor(run_id="r", seq=seq) for seq in (1, 2, 3, 4)]
        await feed.aclose()
        assert inner.is_closed

    run(main())


def test_a_reader_that_stops_waiting_gets_the_event_when_it_comes_back() -> None:
    async def main() -> None:
        clock = FakeClock()
        feed = PacedStream(EventList([at(0), at(4)]), clock, speed=1, pause_s_max=60)
        assert await anext(feed) == at(0)
        task = asyncio.create_task(anext(feed))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert feed.cursor == RunCursor(run_id="r", seq=1)
        clock.advance(4)
        assert await anext(feed) == at(4)

    run(main())


def test_a_run_is_shown_again_from_its_beginning_to_its_end_and_nothing_is_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Pay."})).json()
            found = await waiting(client, begun["runId"])
            path = f"/runs/{begun['runId']}"
            # The records so far of a run under way.
            half = await watch(server.port, f"{path}/replay?pauseMax=0")
            assert said(half)[-1].type == "run.waiting"
            request_id = found["requests"][0]["requestId"]
            await client.post(f"/approvals/{request_id}", json={"optionId": "approve"})
            await ended(client, begun["runId"])
            real = said(await watch(server.port, f"{path}/events?follow=false"))
            assert said(await watch(server.port, f"{path}/replay?speed=1000")) == real
            assert real[-1].type == "run.completed"
            tail = await watch(server.port, f"{path}/replay?pauseMax=0", last_event_id=real[2].id)
            assert said(tail) == real[3:]
            lines = await client.get(f"{path}/replay?pauseMax=0&format=ndjson")
            assert len(lines.text.splitlines()) == len(real)
            for wrong in ("speed=0", "speed=1001", "pauseMax=-1", "pauseMax=61", "follow=true"):
                assert (await client.get(f"{path}/replay?{wrong}")).status_code == 422

    run(main())


def said(frames: list[Frame]) -> list[Frame]:
    """Events, without the control frames of the server."""
    return [frame for frame in frames if frame.type]
