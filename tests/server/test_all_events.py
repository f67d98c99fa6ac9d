"""The feed over all sessions: every event of the caller's sessions, in order, and no others."""

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from tests.server.keyring import Keyring
from tests.server.rig import FAST, Frame, Wire, ended, run, serving, talker, watch
from tests.server.test_feeds import events, slow

from windlass_server import Settings


async def said(client: httpx2.AsyncClient, words: str = "Hello.") -> str:
    begun = (await client.post("/sessions", json={"message": words})).json()
    await ended(client, begun["runId"])
    return begun["sessionId"]


async def next_events(wire: Wire, count: int) -> list[Frame]:
    found: list[Frame] = []
    async for frame in wire.frames():
        found += [frame] if frame.type else []
        if len(found) == count:
            break
    return found


@pytest.mark.promise("F1")
def test_everything_of_one_user_comes_once_and_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        holders = {name: keys.add(name, "acme", name) for name in ("ann", "bob")}
        headers = {name: {"authorization": f"Bearer {key}"} for name, key in holders.items()}
        settings = Settings(keys=keys.path, limits=FAST)
        async with (
            serving(tmp_path / "data", [talker()], settings=settings) as server,
            server.client(holders["ann"]) as ann,
            server.client(holders["bob"]) as bob,
        ):
            both = await asyncio.gather(*(said(one) for one in (ann, bob, ann, bob)))
            mine = {both[0], both[2]}
            whole = events(await watch(server.port, "/events?follow=false", **headers["ann"]))
            assert {frame.json["sessionId"] for frame in whole} == mine
            for session in mine:
                one = await watch(server.port, f"/sessions/{session}/events?follow=false", **headers["ann"])
                of_it = [frame.json for frame in whole if frame.json["sessionId"] == session]
                assert of_it == [frame.json for frame in events(one)]
            for at, frame in enumerate(whole):
                path = f"/events?follow=false&after={frame.id}"
                assert events(await watch(server.port, path, **headers["ann"])) == whole[at + 1 :]
            ends = await watch(server.port, "/events?follow=false&types=run.completed", **headers["ann"])
            assert [frame.type for frame in events(ends)] == ["run.completed"] * 2

    run(main())


def test_a_feed_of_a_type_that_no_event_has_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            refused = await client.get("/events?follow=false&types=run.completed,run.fail")
            assert refused.status_code == 400, refused.text
            assert "no event run.fail; did you mean run.failed?" in refused.json()["detail"]

    run(main())


def test_a_feed_without_a_cursor_starts_at_the_present_and_resumes_after_a_cut(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            await said(client)
            wire = await Wire.get(server.port, "/events?after=now&types=run.started,run.completed")
            place = wire.headers["windlass-cursor"]
            opening = await anext(wire.frames())
            assert (opening.id, opening.data) == (place, "")
            wire.cut()
            # Events written while no stream was open come from the position where the first stream began.
            missed = await said(client)
            wire = await Wire.get(server.port, f"/events?after={place}&types=run.started,run.completed")
            found = await next_events(wire, 2)
            assert [frame.json["sessionId"] for frame in found] == [missed] * 2
            live = asyncio.create_task(next_events(wire, 2))
            later = await said(client)
            assert [frame.json["sessionId"] for frame in await live] == [later] * 2

    run(main())


def test_pieces_of_answers_come_only_if_they_are_asked_for(tmp_path: Path) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        async with serving(tmp_path, [slow(gate)]) as server, server.client() as client:
            wire = await Wire.get(server.port, "/events?after=now&types=message.appended,message.completed")
            plain = await Wire.get(server.port, "/events?after=now")
            begun = (await client.post("/sessions", json={"message": "Go."})).json()
            [first] = await next_events(wire, 1)
            assert first.type == "message.appended"
            gate.set()
            await ended(client, begun["runId"])
            seen: list[str] = []
            async for frame in plain.frames():
                seen += [frame.type] if frame.type else []
                if frame.type == "run.completed":
                    break
            assert "message.appended" not in seen
            assert "message.completed" in seen

    run(main())


@pytest.mark.parametrize("query", ["after=s.MDE5YQ.7", "after=never", "types=Run"])
def test_an_invalid_query_is_refused(tmp_path: Path, query: str) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            assert (await client.get(f"/events?{query}")).status_code in (400, 422)
            answer = await client.get("/events", params={"types": ",".join(["a" * n for n in range(1, 67)])})
            assert (answer.status_code, "limit 64" in answer.json()["detail"]) == (422, True)

    run(main())


def test_a_reader_that_stops_waiting_misses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(limits=replace(FAST, heartbeat_s=0.001))
        async with serving(tmp_path, settings=settings) as server, server.client() as client:
            wire = await Wire.get(server.port, "/events?after=now")
            sessions = [await said(client) for _ in range(5)]
            found = await next_events(wire, 1)
            while found[-1].type != "session.waiting" or found[-1].json["sessionId"] != sessions[-1]:
                found += await next_events(wire, 1)
            whole = events(await watch(server.port, "/events?follow=false"))
            assert [frame.id for frame in found] == [frame.id for frame in whole]

    run(main())
