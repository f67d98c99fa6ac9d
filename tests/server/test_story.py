"""The whole story in real processes: killed, started again, and nothing is lost."""

import asyncio
import json
import random
import signal
from pathlib import Path

import httpx2
import pytest
from tests.server.rig import (
    TIMEOUT_S,
    Frame,
    Wire,
    ended,
    eventually,
    payer,
    process,
    run,
    serving,
    waiting,
    watch,
)

BODY = {"message": "Use weather, then pay."}


def client_of(port: int) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}/v1", timeout=TIMEOUT_S, trust_env=False)


async def until(port: int, path: str, wanted: str, seen: list[Frame]) -> None:
    """Read a feed on from what was seen of it, up to an event of a type."""
    headers = {"last_event_id": seen[-1].id} if seen else {}
    wire = await Wire.get(port, path, **headers)
    assert wire.status == 200
    async for frame in wire.frames():
        if frame.type:
            seen.append(frame)
            if frame.type == wanted:
                break
    wire.cut()


@pytest.mark.promise("F1")
@pytest.mark.promise("J1")
def test_a_server_that_is_killed_during_an_approval_goes_on_when_it_is_started_again(tmp_path: Path) -> None:
    async def main() -> None:
        seen: list[Frame] = []
        with process(tmp_path) as (child, port):
            async with client_of(port) as client:
                begun = (await client.post("/sessions", json=BODY)).json()
                path = f"/sessions/{begun['sessionId']}/events"
                await until(port, path, "run.waiting", seen)
            child.send_signal(signal.SIGKILL)
            child.wait(TIMEOUT_S)
        with process(tmp_path) as (child, port):
            async with client_of(port) as client:
                found = (await client.get(f"/runs/{begun['runId']}")).json()
                assert found["run"]["status"] == "waiting"
                [request] = found["requests"]
                assert request["action"]["toolName"] == "pay"
                answer = {"requestId": request["requestId"], "optionId": "approve"}
                given = await client.post(
                    f"/sessions/{begun['sessionId']}/messages", json={"responses": [answer]}
                )
                assert given.status_code == 202
                await until(port, path, "run.completed", seen)
                done = (await client.get(f"/runs/{begun['runId']}")).json()
                assert "paid 1 cents" in done["result"]["output"]
                whole = (await client.get(f"{path}?follow=false&format=ndjson")).text.splitlines()
        expected = [(line["seq"], line["type"]) for line in map(json.loads, whole)]
        stored = [(one.json["seq"], one.type) for one in seen if "index" not in one.json]
        assert stored == expected[: len(stored)]
        assert [kind for _, kind in stored].count("action.result") == 2

    run(main())


@pytest.mark.promise("J1")
def test_what_was_acknowledged_is_there_after_any_kill(tmp_path: Path) -> None:
    async def main() -> None:
        chance = random.Random(3)
        taken: dict[str, str] = {}
        for attempt in range(3):
            with process(tmp_path) as (child, port):

                async def hammer(name: str, port: int = port) -> None:
                    async with client_of(port) as client:
                        for number in range(1000):
                            key = f"{name}-{number}"
                            try:
                                begun = await client.post(
                                    "/sessions", json={"message": key}, headers={"idempotency-key": key}
                                )
                            except httpx2.TransportError:
                                return
                            assert begun.status_code == 202
                            taken[key] = begun.json()["runId"]

                tasks = [asyncio.create_task(hammer(f"{attempt}-{at}")) for at in range(4)]
                before = len(taken)
                enough = before + chance.randint(5, 40)
                await eventually(lambda enough=enough: len(taken) >= enough)
                child.send_signal(signal.SIGKILL)
                await asyncio.gather(*tasks)
        assert len(taken) >= 15
        with process(tmp_path) as (child, port):
            async with client_of(port) as client:
                for key, run_id in taken.items():
                    found = await client.get(f"/runs/{run_id}")
                    assert found.status_code == 200, key

    run(main())


def test_a_server_that_is_told_to_end_says_so_to_its_readers_and_ends(tmp_path: Path) -> None:
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
            assert await asyncio.to_thread(child.wait, TIMEOUT_S) in (0, -signal.SIGTERM)
        with process(tmp_path) as (_, port):
            async with client_of(port) as client:
                assert (await client.get(f"/runs/{begun['runId']}")).json()["run"]["status"] == "waiting"

    run(main())


def test_a_server_that_anybody_could_reach_does_not_start(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="neither keys nor tokens"),
        process(tmp_path, "--host", "0.0.0.0"),
    ):
        pass


def test_two_servers_on_one_folder_are_as_good_as_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path, [payer()]) as one,
            serving(tmp_path, [payer()]) as two,
            one.client() as here,
            two.client() as there,
        ):
            begun = (await here.post("/sessions", json={"message": "Pay."})).json()
            # What the one drives is watched, listed and answered at the other.
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
