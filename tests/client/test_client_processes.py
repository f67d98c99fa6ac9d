"""Real processes: the server is killed in the middle of a stream."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.client.rig import places
from tests.server.rig import TIMEOUT_S, process, run

from windlass.client import Client
from windlass_protocol import Event


@pytest.mark.promise("F1")
def test_a_reader_does_not_notice_that_the_server_was_killed_in_the_middle_of_an_answer(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        seen: list[Event] = []
        with process(tmp_path) as (child, port):
            async with Client(f"http://127.0.0.1:{port}") as client:
                begun = await client.sessions.create("Use weather, then pay.", idempotency_key="story")
                async with client.events(session_id=begun.session_id) as feed:
                    async for event in feed:
                        seen.append(event)
                        if event.type == "message.appended" and (event.index or 0) >= 2:
                            child.send_signal(signal.SIGKILL)
                            child.wait(TIMEOUT_S)
                            break
                    with process(tmp_path, port=port) as (child, _):
                        await to_the_end(client, feed, seen)
                    with process(tmp_path, port=port):
                        whole = [
                            event async for event in client.events(session_id=begun.session_id, follow=False)
                        ]
                        again = await client.sessions.create(
                            "Use weather, then pay.", idempotency_key="story"
                        )
                        assert again.run_id == begun.run_id
        records = [event for event in seen if event.index is None]
        assert records == whole[: len(records)]
        assert len(set(places(seen))) == len(seen)
        assert [event.type for event in seen].count("run.completed") == 1

    run(main())


async def to_the_end(client: Client, feed: AsyncIterator[Event], seen: list[Event]) -> None:
    async for event in feed:
        seen.append(event)
        if event.type == "run.waiting":
            [asked] = (await client.approvals.list()).items
            await client.approvals.answer(
                asked.request.request_id, "approve", arguments_hash=asked.request.arguments_hash
            )
        if event.type == "run.completed":
            return


def test_readers_of_a_server_that_ends_in_good_order_come_back(tmp_path: Path) -> None:
    async def main() -> None:
        with process(tmp_path) as (child, port):
            async with Client(f"http://127.0.0.1:{port}") as client:
                begun = await client.sessions.create("Use weather, then pay.")
                async with client.events(run_id=begun.run_id) as feed:
                    seen = [await anext(feed)]
                    while seen[-1].type != "run.waiting":
                        seen.append(await anext(feed))
                    waiting = asyncio.create_task(to_the_end(client, feed, seen))
                    child.send_signal(signal.SIGTERM)
                    await asyncio.to_thread(child.wait, TIMEOUT_S)
                    with process(tmp_path, port=port):
                        [asked] = (await client.approvals.list()).items
                        await client.approvals.answer(asked.request.request_id, "approve")
                        await waiting
        assert seen[-1].type == "run.completed"
        numbers = [event.seq for event in seen if event.index is None]
        assert numbers == list(range(2, 2 + len(numbers)))

    run(main())
