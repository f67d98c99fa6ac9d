"""Feeds of the client: nothing twice, nothing missing."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.client.rig import (
    HEAD,
    Jumps,
    Request,
    client_of,
    cut,
    faking,
    frame,
    places,
    problem,
    proxy,
    reply,
    stream,
)
from tests.server.rig import FAST, payer, run, serving, talker

from windlass.client import CursorExpired, NotFound, NotWindlass, Unreachable
from windlass.errors import Rejected
from windlass_harness.retry import RetryPolicy
from windlass_protocol import Event
from windlass_server import Settings

ENDS = frame(3, "run.completed")


async def read(port: int, clock: Jumps | None = None, *, most: int = 1_000, **of: str) -> list[Event]:
    """Read a feed to its end, or a number of its events."""
    found: list[Event] = []
    given: dict[str, Any] = of or {"run_id": "r"}
    async with client_of(port, clock) as client, client.events(**given) as feed:
        async for event in feed:
            found.append(event)
            if len(found) == most:
                break
    return found


def test_a_feed_that_is_cut_goes_on_behind_the_last_event() -> None:
    async def main() -> None:
        async with faking(cut(frame(1), frame(2)), stream(ENDS)) as fake:
            assert places(await read(fake.port)) == [(1, None), (2, None), (3, None)]
        assert [request.line.split()[1] for request in fake.requests] == [
            "/v1/runs/r/events?deltas=slim",
            "/v1/runs/r/events?deltas=slim&after=c2.None",
        ]

    run(main())


def test_a_feed_closed_before_its_end_resumes_with_growing_delays() -> None:
    async def main() -> None:
        clock = Jumps()
        answers = [stream(frame(1)), stream(), stream(), stream(frame(2), ENDS)]
        async with faking(*answers) as fake:
            assert places(await read(fake.port, clock)) == [(1, None), (2, None), (3, None)]
        assert clock.waits == [0.25, 0.5, 1.0]

    run(main())


def test_an_incomplete_event_is_dropped_and_sent_again() -> None:
    async def main() -> None:
        half = frame(2)[:-9]
        async with faking(cut(frame(1), half), stream(frame(2), ENDS)) as fake:
            assert places(await read(fake.port)) == [(1, None), (2, None), (3, None)]

    run(main())


def test_events_that_were_already_delivered_are_not_repeated_after_a_reconnect() -> None:
    async def main() -> None:
        deltas = [frame(2, "step.started"), *(frame(2, "message.appended", at) for at in range(3))]
        again = stream(frame(1), *deltas, frame(2, "message.appended", 3), ENDS)
        async with faking(cut(frame(1), *deltas), again) as fake:
            found = places(await read(fake.port))
        assert found == [(1, None), (2, None), (2, 0), (2, 1), (2, 2), (2, 3), (3, None)]

    run(main())


def test_the_feed_of_a_session_asks_again_for_a_record_that_is_missing_and_gives_up_in_the_end() -> None:
    async def main() -> None:
        gap = stream(frame(1), frame(3))
        async with faking(gap, stream(frame(2), frame(3))) as fake:
            assert places(await read(fake.port, most=3, session_id="s")) == [(1, None), (2, None), (3, None)]
        async with faking(gap, stream(frame(3))) as fake:
            with pytest.raises(NotWindlass, match="a record is missing"):
                await read(fake.port, session_id="s")
        assert len(fake.requests) == 3

    run(main())


def test_a_reconnect_waits_for_the_retry_time_of_the_server() -> None:
    async def main() -> None:
        clock = Jumps()
        told = 'event: reconnect\nretry: 3000\ndata: {"retryMs":4000}\n\n'
        async with faking(stream("retry: 1000\n\n", ": waiting\n\n", frame(1), told), stream(ENDS)) as fake:
            assert places(await read(fake.port, clock)) == [(1, None), (3, None)]
        assert clock.waits == [4.0]

    run(main())


def test_a_problem_in_the_stream_is_waited_out_if_it_passes_and_raised_if_not() -> None:
    async def main() -> None:
        busy = 'event: error\ndata: {"status":503,"code":"unavailable","detail":"busy"}\n\n'
        async with faking(stream(frame(1), busy), stream(ENDS)) as fake:
            assert places(await read(fake.port)) == [(1, None), (3, None)]
        gone = 'event: error\ndata: {"status":410,"code":"cursor_expired","detail":"gone"}\n\n'
        async with faking(stream(frame(1), gone)) as fake:
            with pytest.raises(CursorExpired, match="gone"):
                await read(fake.port)
        odd = "event: error\ndata: what?\n\n"
        async with faking(stream(frame(1), odd), stream(ENDS)) as fake:
            assert places(await read(fake.port)) == [(1, None), (3, None)]

    run(main())


def test_refusals_are_errors_of_the_reader_and_busy_servers_are_asked_again() -> None:
    async def main() -> None:
        clock = Jumps()
        async with faking(problem(429, "rate_limited", retry_after="7"), stream(ENDS)) as fake:
            assert places(await read(fake.port, clock)) == [(3, None)]
        assert clock.waits == [7.0]
        async with faking(problem(404, "not_found")) as fake:
            with pytest.raises(NotFound):
                await read(fake.port)
        async with faking(problem(410, "cursor_expired", "cursor_expired: gone")) as fake:
            with pytest.raises(CursorExpired, match=r"^cursor_expired: gone$"):
                await read(fake.port)
        async with faking(b"HTTP/1.1 204 X\r\n\r\n") as fake:
            assert await read(fake.port) == []
        async with faking(stream("event: end\ndata: {}\n\n")) as fake:
            assert await read(fake.port, session_id="s") == []

    run(main())


def test_an_answer_that_is_not_a_feed_raises_not_windlass() -> None:
    async def main() -> None:
        for answer in (
            reply(200, {"sessions": []}),
            reply(200, b"<html>", content_type="text/html"),
            stream("data: {}\n\n"),
            stream("data: nonsense\n\n"),
            stream("data: " + "x" * 3_000_000 + "\n\n"),
        ):
            async with faking(answer) as fake:
                with pytest.raises(NotWindlass):
                    await read(fake.port)
            assert len(fake.requests) == 1

    run(main())


def test_a_server_that_was_never_there_is_given_up_and_one_that_was_is_not() -> None:
    async def main() -> None:
        async with faking(stream(ENDS)) as fake:
            port = fake.port
        clock = Jumps()
        with pytest.raises(Unreachable, match="is the server running"):
            await read(port, clock)
        assert clock.waits == [0.25, 0.5, 1.0, 2.0]
        busy = problem(503, "unavailable", retry_after="1")
        async with faking(cut(frame(1)), *[busy] * 20, stream(ENDS)) as fake:
            assert places(await read(fake.port)) == [(1, None), (3, None)]

    run(main())


def test_the_first_connection_is_tried_as_often_as_the_client_says() -> None:
    async def main() -> None:
        async with faking(stream(ENDS)) as fake:
            port = fake.port
        clock = Jumps()
        async with client_of(port, clock, retries=RetryPolicy(max_attempts=9)) as client:
            with pytest.raises(Unreachable):
                async with client.events(run_id="r") as feed:
                    await anext(feed)
        assert len(clock.waits) == 8

    run(main())


def test_a_silent_connection_is_reopened() -> None:
    async def main() -> None:
        async def silent(request: Request) -> bytes:
            request.writer.write(cut(frame(1)))
            await request.writer.drain()
            await asyncio.Event().wait()
            raise AssertionError

        async with faking(silent, stream(ENDS)) as fake, client_of(fake.port) as client:
            found = [event async for event in client.events(run_id="r", idle_s=0.5)]
        assert places(found) == [(1, None), (3, None)]

    run(main())


def test_a_slow_reader_slows_the_server_and_nothing_piles_up() -> None:
    async def main() -> None:
        sent = 0
        is_stuck = asyncio.Event()

        async def endless(request: Request) -> bytes:
            nonlocal sent
            writer = request.writer
            writer.write(HEAD)
            seq = 0
            while True:
                seq += 1
                body = (frame(seq)[:-2] + " " * 10_000 + "\n\n").encode()
                writer.write(b"%x\r\n%b\r\n" % (len(body), body))
                sent += len(body)
                try:
                    async with asyncio.timeout(0.2):
                        await writer.drain()
                except TimeoutError:
                    is_stuck.set()
                    await writer.drain()

        async with (
            faking(endless) as fake,
            client_of(fake.port) as client,
            client.events(session_id="s") as feed,
        ):
            await anext(feed)
            await is_stuck.wait()
            assert sent < 32 * 1_048_576
            is_stuck.clear()
            # The server sends more as soon as the client reads, and stops again.
            before = sent
            while sent == before:
                await anext(feed)
            await is_stuck.wait()

    run(main())


def test_a_feed_that_is_left_is_closed_with_its_client(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def endless(request: Request) -> bytes:
            request.writer.write(cut(frame(1)))
            await request.writer.drain()
            await asyncio.Event().wait()
            return b""

        async with faking(endless) as fake, client_of(fake.port) as client:
            left = client.events(session_id="s")
            assert (await anext(left)).seq == 1
            read = client.events(session_id="s")
            assert (await anext(read)).seq == 1
            reading = asyncio.create_task(anext(read))
            await asyncio.sleep(0)
            await client.aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(left)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        assert caplog.text == ""

    run(main())


def test_events_are_of_a_session_or_a_run() -> None:
    async def main() -> None:
        async with client_of(1) as client:
            odd: list[dict[str, Any]] = [
                {},
                {"session_id": "s", "run_id": "r"},
                {"run_id": ""},
                {"run_id": "x" * 513},
            ]
            for wrong in odd:
                with pytest.raises(Rejected):
                    client.events(**wrong)

    run(main())


@pytest.mark.promise("F1")
def test_wherever_a_real_connection_is_cut_the_feed_is_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(limits=FAST)
        async with (
            serving(tmp_path, [talker(words="One two three.")], settings=settings) as server,
            proxy(server.port) as network,
            client_of(server.port) as direct,
        ):
            begun = await direct.sessions.create("Hello.")
            whole = [event async for event in direct.events(run_id=begun.run_id)]
            whole = [event for event in whole if event.index is None]
            assert whole[-1].type == "run.completed"
            size = len((await raw_feed(server.port, begun.run_id)).encode())
            for at in range(1, size, 61):
                network.to_client = at
                async with client_of(network.port) as client:
                    found = [event async for event in client.events(run_id=begun.run_id)]
                assert found == whole, at

    run(main())


async def raw_feed(port: int, run_id: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /v1/runs/{run_id}/events HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    return text


def test_a_live_run_is_seen_whole_through_a_network_that_cuts_all_the_time(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(limits=FAST)
        async with (
            serving(tmp_path, [payer()], settings=settings) as server,
            proxy(server.port) as network,
            client_of(server.port) as direct,
            client_of(network.port) as client,
        ):
            begun = await direct.sessions.create("Pay, please.")
            seen: list[Event] = []
            network.to_client, network.is_bad = 2_000, True
            async with client.events(session_id=begun.session_id) as feed:
                async for event in feed:
                    seen.append(event)
                    if event.type == "run.waiting":
                        [asked] = (await direct.approvals.list()).items
                        await direct.approvals.answer(asked.request.request_id, "approve")
                    if event.type == "run.completed":
                        break
            stored = [event async for event in direct.events(session_id=begun.session_id, follow=False)]
            records = [event for event in seen if event.index is None]
            assert records == stored[: len(records)]
            assert len(set(places(seen))) == len(seen)
            assert network.connections > 5

    run(main())


def test_a_slim_delta_is_shown_with_what_the_text_delta_before_it_told() -> None:
    async def main() -> None:
        slim = {
            "type": "message.appended",
            "data": {"messageDelta": 'the "meta": word'},
            "seq": 1,
            "index": 1,
        }
        short = f"id: c1.1\ndata: {json.dumps(slim)}\n\n"
        async with faking(stream(frame(1, "message.appended", 0), short, ENDS)) as fake:
            first, second, _ = await read(fake.port)
        data = {"messageDelta": 'the "meta": word', "sequence": 0, "stepIndex": 0, "turnId": "t"}
        assert second == first.model_copy(update={"data": data, "index": 1})

    run(main())
