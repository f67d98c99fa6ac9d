"""Real server processes: killed and restarted without losing records."""

import asyncio
import gc
import random
import signal
import sys
from pathlib import Path

import httpx2
import pytest
from tests.server.rig import (
    TIMEOUT_S,
    Wire,
    ended,
    eventually,
    http_client,
    payer,
    process,
    run,
    serving,
    waiting,
    watch,
)

from windlass import Agent
from windlass.adapters.loop_watch import SWITCH_S
from windlass.client import Broken, Client, Unreachable
from windlass.testing import ScriptedModel, say
from windlass_harness.retry import RetryPolicy
from windlass_protocol import Event, InputResponse

BODY = {"message": "Use weather, then pay."}


def client_of(port: int) -> httpx2.AsyncClient:
    return http_client(f"http://127.0.0.1:{port}/v1")


async def until(port: int, session_id: str, *, wanted: str, seen: list[Event], after: str | None) -> str:
    """Read a feed from a cursor up to an event of a type; return the new cursor."""
    async with (
        Client(f"http://127.0.0.1:{port}") as client,
        client.events(session_id=session_id, after=after) as feed,
    ):
        async for event in feed:
            seen.append(event)
            if event.type == wanted:
                return feed.cursor or ""
    raise AssertionError(f"there was no {wanted}")


@pytest.mark.promise("F1")
@pytest.mark.promise("J1")
def test_a_server_that_is_killed_during_an_approval_goes_on_when_it_is_started_again(tmp_path: Path) -> None:
    async def main() -> None:
        seen: list[Event] = []
        with process(tmp_path) as (child, port):
            async with Client(f"http://127.0.0.1:{port}") as client:
                begun = await client.sessions.create(BODY["message"])
            session_id, run_id = begun.session_id, begun.run_id or ""
            cursor = await until(port, session_id, wanted="run.waiting", seen=seen, after=None)
            child.send_signal(signal.SIGKILL)
            child.wait(TIMEOUT_S)
        with process(tmp_path) as (child, port):
            async with Client(f"http://127.0.0.1:{port}") as client:
                found = await client.runs.get(run_id)
                assert found.run.status.value == "waiting"
                [request] = found.requests
                assert getattr(request.action, "tool_name", None) == "pay"
                answer = InputResponse(request_id=request.request_id, option_id="approve")
                await client.sessions.answer(session_id, [answer])
                await until(port, session_id, wanted="run.completed", seen=seen, after=cursor)
                result = (await client.runs.get(run_id)).result
                assert result is not None
                assert "paid 1 cents" in result.output
                whole = [event async for event in client.events(session_id=session_id, follow=False)]
        stored = [event for event in seen if event.index is None]
        assert stored == whole[: len(stored)]
        assert [event.type for event in stored].count("action.result") == 2

    run(main())


@pytest.mark.promise("J1")
def test_acknowledged_runs_exist_after_kills(tmp_path: Path) -> None:
    async def main() -> None:
        chance = random.Random(3)
        taken: dict[str, str | None] = {}
        for attempt in range(3):
            with process(tmp_path) as (child, port):

                async def hammer(name: str, port: int = port) -> None:
                    async with Client(f"http://127.0.0.1:{port}", retries=RetryPolicy(1)) as client:
                        for number in range(1000):
                            key = f"{name}-{number}"
                            try:
                                begun = await client.sessions.create(key, idempotency_key=key)
                            except (Broken, Unreachable):
                                return
                            taken[key] = begun.run_id

                tasks = [asyncio.create_task(hammer(f"{attempt}-{at}")) for at in range(4)]
                before = len(taken)
                enough = before + chance.randint(5, 40)
                await eventually(lambda enough=enough: len(taken) >= enough)
                child.send_signal(signal.SIGKILL)
                await asyncio.gather(*tasks)
        assert len(taken) >= 15
        with process(tmp_path) as (child, port):
            async with Client(f"http://127.0.0.1:{port}") as client:
                for run_id in taken.values():
                    await client.runs.get(run_id or "")

    run(main())


def test_a_terminated_server_sends_reconnect_to_its_readers_and_exits(tmp_path: Path) -> None:
    async def main() -> None:
        with process(tmp_path) as (child, port):
            async with client_of(port) as client:
                begun = (await client.post("/sessions", json=BODY)).json()
                path = f"/sessions/{begun['sessionId']}/events"
                wires = [await Wire.get(port, path) for _ in range(5)]
                frames = [wire.frames() for wire in wires]
                for one in frames:
                    while (await anext(one)).type != "run.waiting":
                        pass
                child.send_signal(signal.SIGTERM)
                for one in frames:
                    told = [frame async for frame in one]
                    assert [frame.event for frame in told] == ["reconnect"]
            assert await asyncio.to_thread(child.wait, TIMEOUT_S) == 0
        with process(tmp_path) as (_, port):
            async with client_of(port) as client:
                assert (await client.get(f"/runs/{begun['runId']}")).json()["run"]["status"] == "waiting"

    run(main())


def test_a_server_on_a_public_address_without_authentication_does_not_start(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="neither keys nor tokens"),
        process(tmp_path, "--host", "0.0.0.0"),
    ):
        pass


def test_two_servers_share_one_folder(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path, [payer()]) as one,
            serving(tmp_path, [payer()]) as two,
            one.client() as here,
            two.client() as there,
        ):
            begun = (await here.post("/sessions", json={"message": "Pay."})).json()
            # Runs driven by one server are watched, listed and answered at the other.
            found = await waiting(there, begun["runId"])
            [listed] = (await there.get("/approvals")).json()["requests"]
            assert listed["request"]["requestId"] == found["requests"][0]["requestId"]
            path = f"/approvals/{listed['request']['requestId']}"
            assert (await there.post(path, json={"optionId": "approve"})).status_code == 202
            for client in (here, there):
                assert (await ended(client, begun["runId"]))["result"]["output"] == "All done."
            feeds = [
                await watch(at.port, f"/sessions/{begun['sessionId']}/events?follow=false")
                for at in (one, two)
            ]
            assert feeds[0] == feeds[1]
            assert (await there.get("/stats")).json()["total"] == (await here.get("/stats")).json()["total"]

    run(main())


teller = Agent(
    "teller",
    model=ScriptedModel(
        lambda _: say(f"{sys.getswitchinterval() < 2 * SWITCH_S} {gc.get_freeze_count() > 0}")
    ),
)


def test_a_server_process_takes_turns_quickly_and_collects_only_new_garbage(tmp_path: Path) -> None:
    async def main() -> None:
        with process(tmp_path, "--agents", f"{__name__}:teller") as (_, port):
            async with Client(f"http://127.0.0.1:{port}") as client:
                begun = await client.sessions.create("Tell.")
                await until(port, begun.session_id, wanted="run.completed", seen=[], after=None)
                result = (await client.runs.get(begun.run_id or "")).result
        assert result is not None
        assert result.output == "True True"

    run(main())
