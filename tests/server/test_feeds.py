"""Feeds over HTTP: no gap and no repeat after broken connections."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.server.rig import FAST, Frame, Wire, ended, eventually, payer, run, serving, waiting, watch

from windlass import Agent, LLMMessage, LLMStreamChunk
from windlass.testing import Answer, ScriptedModel, call, say
from windlass_protocol import JsonObject
from windlass_server import Settings


def events(frames: Sequence[Frame]) -> list[Frame]:
    """The journal events, without the control frames of the server."""
    return [frame for frame in frames if frame.type]


def records(frames: Sequence[Frame]) -> list[int]:
    """The numbers of the stored events; deltas, which have an index, left out."""
    return [frame.json["seq"] for frame in events(frames) if "index" not in frame.json]


def slow(gate: asyncio.Event, *, words: str = "One two three.") -> Agent:
    """An agent that says a few words and then waits for the gate."""

    class Model:
        async def stream(
            self,
            messages: Sequence[LLMMessage],
            *,
            tools: Iterable[JsonObject] | None = None,
            temperature: float | None = None,
        ) -> AsyncIterator[LLMStreamChunk]:
            scripted = ScriptedModel([say(words)], chunk_chars=4)
            first = True
            async for chunk in scripted.stream(messages, tools=tools, temperature=temperature):
                yield chunk
                if first:
                    first = False
                    await gate.wait()

    return Agent("slow", model=Model())


@pytest.mark.promise("F1")
def test_every_event_has_a_cursor_behind_which_the_feed_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            await ended(client, begun["runId"])
            path = f"/sessions/{begun['sessionId']}/events?follow=false"
            whole = events(await watch(server.port, path))
            assert [frame.type for frame in whole][:2] == ["session.started", "run.started"]
            for at, frame in enumerate(whole):
                rest = events(await watch(server.port, f"{path}&after={frame.id}"))
                assert [one.id for one in rest] == [one.id for one in whole[at + 1 :]]
            # A browser that reconnects sends the query of its first request, and the last event id.
            rest = await watch(server.port, f"{path}&after={whole[0].id}", last_event_id=whole[5].id)
            assert events(rest)[0].id == whole[6].id

    run(main())


def test_a_feed_is_read_from_its_end_page_by_page(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            await ended(client, begun["runId"])
            path = f"/sessions/{begun['sessionId']}/events"
            whole = records(await watch(server.port, f"{path}?follow=false"))
            end = await watch(server.port, f"{path}?follow=false&last=3")
            assert records(end) == whole[-3:]
            first = whole[-3]
            for form in ("sse", "ndjson"):
                page = f"{path}?follow=false&last=2&before={first}&format={form}"
                assert f'"seq":{first - 1}' in (text := (await client.get(page)).text)
                assert f'"seq":{first}' not in text
            assert (
                records(await watch(server.port, f"{path}?follow=false&last=2&before={first}"))
                == whole[-5:-3]
            )
            assert records(await watch(server.port, f"{path}?follow=false&before=3")) == [1, 2]
            assert records(await watch(server.port, f"{path}?follow=false&last=10000")) == whole
            # A reader that is cut off goes on behind its cursor, up to the same record.
            cursor = events(await watch(server.port, f"{path}?follow=false"))[first - 3].id
            after = f"{path}?follow=false&last=5&before={first}&after={cursor}"
            assert records(await watch(server.port, after)) == [first - 1]
            for wrong in (
                "last=0",
                "last=10001",
                "before=1&follow=false",
                "before=5",
                "last=2&shape=steerable",
            ):
                assert (await client.get(f"{path}?{wrong}")).status_code == 422, wrong

    run(main())


def test_lines_of_json_are_the_same_events(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            await ended(client, begun["runId"])
            path = f"/sessions/{begun['sessionId']}/events?follow=false"
            frames = events(await watch(server.port, path))
            wires = [
                await Wire.get(server.port, f"{path}&format=ndjson"),
                await Wire.get(server.port, path, accept="application/x-ndjson"),
            ]
            for wire in wires:
                assert wire.headers["content-type"] == "application/x-ndjson"
                lines = [line async for line in wire.lines()]
                assert [line.pop("cursor") for line in lines] == [frame.id for frame in frames]
                assert lines == [frame.json for frame in frames]

    run(main())


def test_the_feed_of_a_run_ends_with_the_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            session_id = (await client.post("/sessions", json={})).json()["sessionId"]
            said = [
                (await client.post(f"/sessions/{session_id}/messages", json={"message": "Hello."})).json()
                for _ in range(2)
            ]
            for one in said:
                frames = events(await watch(server.port, f"/runs/{one['runId']}/events"))
                assert frames[0].type == "run.started"
                assert frames[-1].type == "run.completed"
                assert {frame.json["runId"] for frame in frames} == {one["runId"]}

    run(main())


def test_a_reader_that_joins_in_the_middle_of_an_answer_gets_the_text_so_far(tmp_path: Path) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        async with serving(tmp_path, [slow(gate)]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            path = f"/sessions/{begun['sessionId']}/events"
            texts: list[list[str]] = []
            frame = Frame()
            for _ in range(2):
                wire = await Wire.get(server.port, path)
                async for frame in wire.frames():
                    if frame.type == "message.appended":
                        texts.append([frame.json["data"]["messageSoFar"]])
                        break
                wire.cut()
            assert texts[0] == texts[1]
            assert "One two three.".startswith(texts[0][0])
            wire = await Wire.get(server.port, path, last_event_id=frame.id)
            gate.set()
            rest = ""
            async for frame in wire.frames():
                if frame.type == "message.appended":
                    rest += frame.json["data"]["messageDelta"]
                if frame.type == "message.completed":
                    assert texts[0][0] + rest == frame.json["data"]["message"] == "One two three."
                    break
            wire.cut()

    run(main())


@pytest.mark.promise("F1")
def test_a_feed_that_is_cut_at_random_has_no_gap_and_no_repeat(tmp_path: Path) -> None:
    async def main() -> None:
        chance = random.Random(7)
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            session_id = (await client.post("/sessions", json={})).json()["sessionId"]
            seen: list[Frame] = []

            async def read() -> None:
                while True:
                    headers = {"last_event_id": seen[-1].id} if seen else {}
                    wire = await Wire.get(server.port, f"/sessions/{session_id}/events", **headers)
                    left = chance.randint(1, 6)
                    async for frame in wire.frames():
                        if not frame.type:
                            continue
                        seen.append(frame)
                        left -= 1
                        if not left:
                            break
                    wire.cut()

            task = asyncio.create_task(read())
            for _ in range(6):
                said = await client.post(f"/sessions/{session_id}/messages", json={"message": "Pay."})
                run_id = said.json()["runId"]
                [request] = (await waiting(client, run_id))["requests"]
                answer = {"requestId": request["requestId"], "optionId": "approve"}
                await client.post(f"/sessions/{session_id}/messages", json={"responses": [answer]})
                await ended(client, run_id)
            whole = events(await watch(server.port, f"/sessions/{session_id}/events?follow=false"))
            await eventually(lambda: len(records(seen)) >= len(whole))
            task.cancel()
            assert records(seen) == list(range(1, len(whole) + 1))

    run(main())


def test_a_silent_feed_says_that_it_is_alive(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(limits=replace(FAST, heartbeat_s=0.05))
        async with serving(tmp_path, settings=settings) as server, server.client() as client:
            session_id = (await client.post("/sessions", json={})).json()["sessionId"]
            wire = await Wire.get(server.port, f"/sessions/{session_id}/events")
            frames = wire.frames()
            assert (await anext(frames)).retry == "1000"
            assert (await anext(frames)).comment == "waiting"
            assert (await anext(frames)).comment == "waiting"
            said = await client.post(f"/sessions/{session_id}/messages", json={"message": "Hello."})
            while (frame := await anext(frames)).type != "run.completed":
                pass
            assert frame.json["runId"] == said.json()["runId"]
            wire.cut()
            wire = await Wire.get(
                server.port, f"/sessions/{session_id}/events?format=ndjson&after={frame.id}"
            )
            while (line := await wire.reader.readline()).strip():
                pass
            assert line == b"\n"
            wire.cut()

    run(main())


def test_a_closing_server_sends_reconnect_to_its_readers(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Pay."})).json()
            await waiting(client, begun["runId"])
            path = f"/sessions/{begun['sessionId']}/events"
            reading = [
                asyncio.create_task(watch(server.port, path)),
                asyncio.create_task(watch(server.port, f"{path}?shape=steerable")),
            ]
            lines = await Wire.get(server.port, f"{path}?format=ndjson")
            await eventually(lambda: server.streams_open == 3)
            server.app.state.streams.close()
            for task in reading:
                last = (await task)[-1]
                assert (last.event, last.retry, last.data) == ("reconnect", "1000", '{"retryMs":1000}')
            told = [line async for line in lines.lines()]
            assert told[-1] == {"reconnect": {"retryMs": 1000}}

    run(main())


@pytest.mark.parametrize("cursor", ["garbage", "s.eA.3", "a.0", "r.eA.1", "s.{session}.99999", "%00", "s..1"])
def test_a_cursor_that_is_not_of_this_feed_is_refused(tmp_path: Path, cursor: str) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            await ended(client, begun["runId"])
            path = f"/sessions/{begun['sessionId']}/events?follow=false"
            packed = events(await watch(server.port, path))[0].id.split(".")[1]
            given = cursor.format(session=packed)
            refused = await client.get(f"{path}&after={given}")
            assert (refused.status_code, refused.json()["code"]) == (400, "rejected")

    run(main())


def test_the_simple_shape_streams_a_turn_and_ends_with_done(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Pay."})).json()
            [request] = (await waiting(client, begun["runId"]))["requests"]
            path = f"/runs/{begun['runId']}/events?shape=steerable"
            live = asyncio.create_task(watch(server.port, path))
            await asyncio.sleep(0)
            answer = {"requestId": request["requestId"], "optionId": "approve"}
            await client.post(f"/sessions/{begun['sessionId']}/messages", json={"responses": [answer]})
            for frames in (await live, await watch(server.port, path)):
                assert frames[-1].data == "[DONE]"
                found = [frame.json for frame in frames[:-1]]
                assert [one["type"] for one in found if one["type"] != "content"] == [
                    "tool_call",
                    "tool_result",
                    "tool_call",
                    "agent",
                    "agent",
                    "tool_result",
                    "done",
                ]
                calls = [one["payload"]["id"] for one in found if one["type"] == "tool_call"]
                assert calls == [one["payload"]["id"] for one in found if one["type"] == "tool_result"]
                assert "".join(one["content"] for one in found if one["type"] == "content") == "All done."

    run(main())


def test_the_simple_shape_has_the_words_once_live_and_once_afterwards(tmp_path: Path) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        async with serving(tmp_path, [slow(gate)]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            path = f"/runs/{begun['runId']}/events?shape=steerable"
            wire = await Wire.get(server.port, path)
            frames: list[Frame] = []
            async for frame in wire.frames():
                gate.set()
                frames.append(frame)
            late = await watch(server.port, path)
            for found in (frames, late):
                words = [one.json for one in found[:-1] if one.json["type"] == "content"]
                assert "".join(one["content"] for one in words) == "One two three."
            assert len(late) == 3

    run(main())


def test_a_stuck_reader_does_not_slow_others_and_is_disconnected(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(limits=replace(FAST, send_s_max=0.2))
        words = "x" * 400_000
        agent = Agent("loud", model=ScriptedModel(lambda _: Answer(words)))
        async with serving(tmp_path, [agent], settings=settings) as server, server.client() as client:
            session_id = (await client.post("/sessions", json={})).json()["sessionId"]
            stuck = await Wire.get(server.port, f"/sessions/{session_id}/events")
            cast(asyncio.ReadTransport, stuck.writer.transport).pause_reading()
            for _ in range(12):
                said = await client.post(f"/sessions/{session_id}/messages", json={"message": "Hello."})
                assert (await ended(client, said.json()["runId"]))["run"]["status"] == "completed"
            await eventually(lambda: server.streams_open == 0)
            stuck.cut()
            whole = records(await watch(server.port, f"/sessions/{session_id}/events?follow=false"))
            assert whole == list(range(1, len(whole) + 1))

    run(main())


def test_a_reader_that_goes_gives_its_place_back(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(limits=replace(FAST, streams_per_principal_max=2))
        async with serving(tmp_path, settings=settings) as server, server.client() as client:
            session_id = (await client.post("/sessions", json={})).json()["sessionId"]
            path = f"/sessions/{session_id}/events"
            wires = [await Wire.get(server.port, path) for _ in range(2)]
            third = await client.get(path)
            assert (third.status_code, third.headers["retry-after"]) == (429, "1")
            wires[0].cut()
            while (again := await Wire.get(server.port, path)).status == 429:
                pass
            assert again.status == 200
            for wire in (wires[1], again):
                wire.cut()

    run(main())


def test_results_of_many_calls_are_streamed_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        def answer(messages: Sequence[Any]) -> Any:
            done = sum(1 for message in messages if message.role == "tool")
            return call("look", {"place": str(done)}) if done < 20 else say("Enough.")

        agent = Agent("looker", model=ScriptedModel(answer), tools=payer().tools)
        async with serving(tmp_path, [agent]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Look."})).json()
            frames = events(await watch(server.port, f"/runs/{begun['runId']}/events"))
            results = [frame.json for frame in frames if frame.type == "action.result"]
            assert [one["data"]["result"]["output"] for one in results] == [
                f"rain in {at}" for at in range(20)
            ]

    run(main())


@pytest.mark.parametrize("form", ["sse", "ndjson"])
def test_slim_deltas_leave_out_what_the_text_delta_before_them_told(tmp_path: Path, form: str) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        async with serving(tmp_path, [slow(gate)]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            path = f"/sessions/{begun['sessionId']}/events?format={form}"
            deltas: list[dict[str, Any]] = []
            async with client.stream("GET", f"{path}&deltas=slim", headers={}) as response:
                async for line in response.aiter_lines():
                    if '"message.appended"' in line:
                        deltas.append(json.loads(line.removeprefix("data: ")))
                        gate.set()
                    if '"message.completed"' in line:
                        break
            first, *rest = deltas
            assert first["sessionId"] == begun["sessionId"]
            assert rest
            for delta in rest:
                assert delta.keys() - {"cursor"} == {"type", "data", "seq", "index"}
                assert delta["data"].keys() == {"messageDelta"}
            assert "".join(one["data"]["messageDelta"] for one in deltas) == "One two three."
            refused = await client.get(f"{path}&deltas=slim&shape=steerable")
            assert refused.status_code == 422

    run(main())
