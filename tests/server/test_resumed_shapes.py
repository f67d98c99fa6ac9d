"""Shapes of feeds that are resumed: after any cursor, a client gets the rest of the whole stream."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.server.rig import Frame, Wire, ended, payer, run, serving, waiting, watch
from tests.server.stories import STORIES, delta
from tests.server.test_feeds import slow

from windlass import Agent, Event, tool
from windlass.testing import ScriptedModel, by_history, call, fail, say
from windlass_harness.views.stream import ChatFold
from windlass_protocol import encode
from windlass_server.streams import EveFrames, SteerableFrames


def steerable(events: Sequence[Event], chat: ChatFold | None = None) -> list[bytes]:
    """Return the frames of each event."""
    frames = SteerableFrames(chat)
    return [frames.event(event, encode(event), cursor="s.eA.1") for event in events]


def chat_after(events: Sequence[Event], *, has_deltas: bool = False) -> ChatFold:
    """Return the chat of a client that has some events."""
    chat = ChatFold()
    chat.apply_all(events)
    chat.resume(has_deltas=has_deltas)
    return chat


@pytest.mark.parametrize("name", STORIES)
def test_the_steerable_shape_of_every_journal_goes_on_after_every_record(name: str) -> None:
    events = STORIES[name]
    whole = steerable(events)
    for at in range(len(events) + 1):
        assert steerable(events[at:], chat_after(events[:at])) == whole[at:]


@pytest.mark.parametrize("name", STORIES)
def test_the_eve_shape_of_every_journal_goes_on_after_every_number(name: str) -> None:
    def lines(start: int) -> list[bytes]:
        frames = EveFrames(None, start)
        raw = b"".join(frames.event(event, encode(event), cursor="") for event in STORIES[name])
        return raw.splitlines(keepends=True)

    whole = lines(0)
    for at in range(len(whole) + 1):
        assert lines(at) == whole[at:]


def test_a_client_that_has_live_deltas_gets_the_deltas_after_them() -> None:
    """Deltas are not stored: the fold must not take those after the cursor for the whole text."""
    events = next(events for name, events in STORIES.items() if name.startswith("words/"))
    at = next(at for at, event in enumerate(events) if event.type == "message.completed")
    step = next(event for event in reversed(events[:at]) if event.type == "step.started")
    text = str(events[at].data["message"])
    pieces = [delta(step, "message.appended", messageDelta=piece) for piece in (text[:3], text[3:])]
    live = [*events[:at], *pieces, *events[at:]]
    whole = steerable(live)
    resumed = steerable(live[at + 1 :], chat_after(events[:at], has_deltas=True))
    assert resumed == whole[at + 1 :]


@tool(mode="read")
async def look_up(place: str) -> str:
    """Tell the weather."""
    return f"rain in {place}"


def travellers() -> list[Agent]:
    """Agents with two calls in a step, an approval, and a subagent that makes a call."""
    helper = Agent(
        "helper",
        model=ScriptedModel(by_history([call("look_up", {"place": "Oslo"}), say("Rain.")])),
        tools=[look_up],
        description="Helps.",
    )
    script = [call("helper", {"message": "Weather?"}), call("look_up", {"place": "Rome"}), say("Rain.")]
    return [
        payer(),
        Agent("boss", model=ScriptedModel(by_history(script * 2)), tools=[look_up], subagents=[helper]),
    ]


def bodies(frames: Sequence[Frame]) -> list[tuple[str, str]]:
    return [(frame.id, frame.data) for frame in frames if frame.data != "[DONE]"]


async def check_every_cursor(port: int, feed: str, shape: str) -> None:
    """Compare the shape after each cursor of a feed with the end of the whole shape."""
    whole = bodies(await watch(port, f"{shape}&follow=false"))
    assert whole
    cursors = [frame.id for frame in await watch(port, f"{feed}&follow=false") if frame.id]
    for cursor in cursors:
        place = int(cursor.rpartition(".")[2])
        rest = bodies(await watch(port, f"{shape}&follow=false&after={cursor}"))
        assert rest == [one for one in whole if int(one[0].rpartition(".")[2]) > place]


@pytest.mark.parametrize("agent", ["payer", "boss"])
def test_a_server_resumes_the_steerable_shape_of_a_run_after_every_cursor(tmp_path: Path, agent: str) -> None:
    async def main() -> None:
        async with serving(tmp_path, travellers()) as server, server.client() as client:
            body: dict[str, Any] = {"message": "Go.", "agent": agent}
            begun = (await client.post("/sessions", json=body)).json()
            if agent == "payer":
                [request] = (await waiting(client, begun["runId"]))["requests"]
                answer = {"requestId": request["requestId"], "optionId": "approve"}
                path = f"/sessions/{begun['sessionId']}/messages"
                await client.post(path, json={"responses": [answer]})
            await ended(client, begun["runId"])
            feed = f"/runs/{begun['runId']}/events?format=sse"
            await check_every_cursor(server.port, feed, f"/runs/{begun['runId']}/events?shape=steerable")

    run(main())


def test_a_server_resumes_the_steerable_shape_of_a_session_in_its_last_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, travellers()) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Go.", "agent": "boss"})).json()
            await ended(client, begun["runId"])
            session = f"/sessions/{begun['sessionId']}"
            said = (await client.post(f"{session}/messages", json={"message": "Again."})).json()
            await ended(client, said["runId"])
            records = await watch(server.port, f"{session}/events?format=sse&follow=false")
            requested = [frame for frame in records if frame.type == "actions.requested"]
            assert len(requested) == 4
            for frame in requested:
                rest = await watch(server.port, f"{session}/events?shape=steerable&after={frame.id}")
                kinds = [frame.json["type"] for frame in rest if frame.data != "[DONE]"]
                call_id = frame.json["data"]["actions"][0]["callId"]
                calls = [one.json for one in rest if one.data != "[DONE]" and one.json["type"] == "tool_call"]
                assert call_id not in [one["payload"]["id"] for one in calls]
                assert "tool_result" in kinds

    run(main())


@pytest.mark.parametrize("mode", ["conversation", "task"])
@pytest.mark.parametrize("end", ["completed", "failed", "budget_exhausted"])
def test_a_session_in_the_steerable_shape_says_done_once_per_turn_after_every_cursor(
    tmp_path: Path, mode: str, end: str
) -> None:
    async def main() -> None:
        answers = {"completed": [say("Yes."), say("Again.")], "failed": [fail(ValueError("broken"))] * 2}
        endless = [call("look_up", {"place": "Oslo"})] * 4
        agent = Agent("a", model=ScriptedModel(by_history(answers.get(end, endless))), tools=[look_up])
        async with serving(tmp_path, [agent]) as server, server.client() as client:
            budget = {"budget": {"maxSteps": 1}} if end == "budget_exhausted" else {}
            body = {"message": "Go.", "mode": mode, **budget}
            begun = (await client.post("/sessions", json=body)).json()
            assert (await ended(client, begun["runId"]))["run"]["status"] == end
            session = f"/sessions/{begun['sessionId']}"
            if mode == "conversation":
                again = (await client.post(f"{session}/messages", json={"message": "More.", **budget})).json()
                await ended(client, again["runId"])
            records = await watch(server.port, f"{session}/events?format=sse&follow=false")
            events = [frame for frame in records if frame.id]
            ends = [at for at, frame in enumerate(events) if frame.type == f"run.{end}"]
            assert len(ends) == (2 if mode == "conversation" else 1)
            shape = f"{session}/events?shape=steerable&follow=false"
            for at, frame in enumerate(events):
                rest = bodies(await watch(server.port, f"{shape}&after={frame.id}"))
                done = [cursor for cursor, data in rest if json.loads(data)["type"] == "done"]
                assert done == [events[place].id for place in ends if place > at][:1]
                is_at_rest = at >= ends[-1]
                assert not (is_at_rest and rest), "the end of the session repeats the end of the run"

    run(main())


def test_a_server_resumes_the_steerable_shape_between_two_deltas(tmp_path: Path) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        async with serving(tmp_path, [slow(gate)]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            path = f"/runs/{begun['runId']}/events?shape=steerable"
            wire = await Wire.get(server.port, path)
            first = await anext(wire.frames())
            wire.cut()
            again = await Wire.get(server.port, f"{path}&after={first.id}")
            gate.set()
            rest = [frame.json async for frame in again.frames() if frame.data != "[DONE]"]
            texts = [first.json, *(one for one in rest if one["type"] == "content")]
            assert "".join(one["content"] for one in texts) == "One two three."
            assert not any("event" in one for one in texts)

    run(main())
