"""Writes and waits of a connection: few, and no more than needed."""

import asyncio
from pathlib import Path
from typing import ClassVar

import pytest
from tests.server.rig import Wire, ended, run, serving

from windlass_server.app import GatheredWrites, HttpConnection
from windlass_server.settings import BATCH_BYTES
from windlass_server.streams import StreamTimer


class Recorded(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self, inner: asyncio.Transport | None = None) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_closed = False
        self._inner = inner

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))
        if self._inner is not None:
            self._inner.write(data)

    def close(self) -> None:
        self.is_closed = True
        if self._inner is not None:
            self._inner.close()

    def is_closing(self) -> bool:
        return self.is_closed if self._inner is None else self._inner.is_closing()

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default if self._inner is None else self._inner.get_extra_info(name, default)


class Watched(HttpConnection):
    """A connection with its writes."""

    transports: ClassVar[list[Recorded]] = []

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transports.append(Recorded(transport))
        super().connection_made(self.transports[-1])


def test_a_response_and_the_feed_of_an_ended_run_leave_in_one_write_each(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, connection=Watched) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            await ended(client, begun["runId"])
            wire = await Wire.get(server.port, "/health")
            assert await wire.reader.read() != b""
            [response] = Watched.transports[-1].writes
            assert response.startswith(b"HTTP/1.1 200 OK\r\n")
            wire = await Wire.get(server.port, f"/runs/{begun['runId']}/events?format=ndjson")
            assert [line["type"] async for line in wire.lines()][-1] == "run.completed"
            [feed] = Watched.transports[-1].writes
            assert feed.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b'"type":"run.completed"' in feed

    run(main())


def test_writes_of_one_turn_are_sent_together_unless_they_fill_a_chunk() -> None:
    async def main() -> None:
        inner = Recorded()
        gathered = GatheredWrites(inner, asyncio.get_running_loop())
        for part in (b"one ", b"", b"two"):
            gathered.write(part)
        assert (inner.writes, gathered.get_write_buffer_size()) == ([], 7)
        await asyncio.sleep(0)
        assert (inner.writes, gathered.get_write_buffer_size()) == ([b"one two"], 0)
        gathered.write(b"x" * (BATCH_BYTES - 1))
        assert len(inner.writes) == 1
        gathered.write(b"xy")
        assert [len(one) for one in inner.writes] == [7, BATCH_BYTES + 1], "a chunk is not kept back"
        gathered.write(b"last")
        gathered.close()
        assert (inner.writes[-1], inner.is_closed) == (b"last", True)

    run(main())


async def late(timer: StreamTimer, seconds: float) -> bool:
    """Wait for nothing; return whether the wait was ended by its timer."""
    timer.start()
    timer.begin_wait(seconds)
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        if not timer.take_timeout():
            raise
        return True
    finally:
        timer.end_wait()
    return False


@pytest.mark.parametrize("end", ["timer", "stir"])
def test_a_wait_ends_at_its_time_or_when_it_is_stirred(end: str) -> None:
    async def main() -> None:
        timer = StreamTimer()
        waiting = asyncio.create_task(late(timer, 0.0 if end == "timer" else 60.0))
        await asyncio.sleep(0)
        if end == "stir":
            timer.stir()
        assert await waiting
        assert not waiting.cancelling()
        timer.stop()

    run(main())


@pytest.mark.parametrize("is_stirred_too", [False, True])
def test_a_stream_that_is_cancelled_from_outside_ends(is_stirred_too: bool) -> None:
    async def main() -> None:
        timer = StreamTimer()
        waiting = asyncio.create_task(late(timer, 60.0))
        await asyncio.sleep(0)
        if is_stirred_too:
            timer.stir()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        timer.stop()

    run(main())


def test_a_write_is_not_broken_off_when_the_server_closes() -> None:
    async def main() -> None:
        timer = StreamTimer()
        waiting = asyncio.create_task(late(timer, 60.0))
        await asyncio.sleep(0)
        timer.is_writing = True
        timer.stir()
        await asyncio.sleep(0)
        assert not waiting.done()
        timer.is_writing = False
        timer.stir()
        assert await waiting
        timer.stop()

    run(main())


def test_all_waits_of_a_stream_share_one_callback_of_the_loop() -> None:
    async def main() -> None:
        timer = StreamTimer()
        timer.start()
        timer.begin_wait(60.0)
        first = timer.handle
        assert first is not None
        for _ in range(100):
            timer.end_wait()
            timer.begin_wait(60.0)
        assert timer.handle is first
        timer.begin_wait(1.0)
        assert timer.handle is not None
        assert timer.handle.when() < first.when(), "a shorter wait ends in time"
        assert first.cancelled()
        timer.stop()

    run(main())
