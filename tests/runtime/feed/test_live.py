"""Deltas of an answer that is being written."""

import pytest
from pydantic import JsonValue
from tests.runtime.feed.scene import (
    ENOUGH,
    Reader,
    World,
    draft,
    ended,
    result,
    run,
    said,
    started,
    texts,
    ticks,
)

from windlass.feed import live as live_module
from windlass.ports.feed import EventFilter, StreamOptions
from windlass_protocol import Event, SessionCursor
from windlass_protocol.codec import decode, encode


async def joined(world: World, seq: int = 0, index: int | None = None) -> list[Event]:
    """The live events of a session for a reader with that cursor."""
    cursor = SessionCursor(session_id="s1", seq=seq, index=index)
    reader = Reader(world.feed.subscribe_session("s1", cursor))
    await ticks(ENOUGH)
    await reader.stop()
    await reader.stream.aclose()
    return reader.events


def test_a_late_reader_gets_the_text_so_far_as_one_delta() -> None:
    async def main() -> None:
        world = World()
        await world.append(started())
        for word in ("one ", "two ", "three "):
            world.live().text(word)
        [_, delta] = await joined(world)
        assert (delta.type, delta.seq, delta.index) == ("message.appended", 1, 2)
        assert delta.data == {
            "messageDelta": "one two three ",
            "messageSoFar": "one two three ",
            "sequence": 0,
            "stepIndex": 0,
            "turnId": "t0",
        }
        assert delta.session_id == "s1"
        assert (delta.run_id, delta.agent_id, delta.meta.at) == ("r1", "helper", "2026-01-31T09:00:00.000Z")
        [rest] = await joined(world, seq=1, index=1)
        assert (rest.index, rest.data["messageDelta"]) == (2, "two three ")
        assert "messageSoFar" not in rest.data
        assert await joined(world, seq=1, index=3) == []

    run(main)


def test_the_end_of_a_run_that_never_began_leaves_the_answer_of_another_alone() -> None:
    async def main() -> None:
        world = World()
        await world.append(started())
        reader = Reader(world.feed.subscribe_session("s1", SessionCursor(session_id="s1", seq=0)))
        world.live().text("one ")
        await ticks(ENOUGH)
        unstarted: JsonValue = {"runId": "r2", "agentId": "helper"}
        await world.append(draft("run.cancelled", {"runId": "r2", "unstarted": unstarted}, run_id="r2"))
        await ticks(ENOUGH)
        world.live().text("two")
        await ticks(ENOUGH)
        await reader.stop()
        assert texts(reader.events) == {("s1", 1): "one two"}
        assert [event.type for event in await joined(world)][-1] == "message.appended"

    run(main)


def test_a_count_that_is_too_high_starts_the_answer_anew() -> None:
    async def main() -> None:
        world = World()
        await world.append(started())
        world.live().text("new")
        [delta] = await joined(world, seq=1, index=5)
        assert delta.data["messageSoFar"] == "new"

    run(main)


def test_a_count_of_an_earlier_step_says_nothing_about_this_one() -> None:
    async def main() -> None:
        world = World()
        await world.append(started(0))
        await world.append(started(1))
        world.live().text("one ")
        world.live().text("two")
        [record, delta] = await joined(world, seq=1, index=1)
        assert (record.seq, delta.data["messageDelta"]) == (2, "one two")

    run(main)


def test_kinds_are_not_mixed_and_keep_their_order() -> None:
    async def main() -> None:
        world = World()
        await world.append(started())
        live = world.live()
        live.reasoning("a")
        live.reasoning("b")
        live.text("c")
        live.reasoning("d")
        live.tool_input("c1", "{", tool_name="look")
        live.tool_input("c1", "}", tool_name="look")
        live.tool_input("c2", "[]")
        live.show("budget.updated", {"used": {}})
        events = (await joined(world))[1:]
        got = [(event.type, event.index) for event in events]
        assert got == [
            ("reasoning.appended", 1),
            ("message.appended", 2),
            ("reasoning.appended", 3),
            ("action.input.appended", 5),
            ("action.input.appended", 6),
            ("budget.updated", 7),
        ]
        assert events[0].data["reasoningSoFar"] == "ab"
        assert "reasoningSoFar" not in events[2].data
        assert events[3].data["inputDelta"] == "{}"
        assert (events[3].data["callId"], events[3].data["toolName"]) == ("c1", "look")
        assert events[4].data["callId"] == "c2"
        assert "toolName" not in events[4].data
        for event in events[:-1]:
            assert decode(Event, encode(event)) == event
        for index in range(8):
            rest = await joined(world, seq=1, index=index)
            whole = "".join(
                str(event.data.get("reasoningDelta", "")) + str(event.data.get("messageDelta", ""))
                for event in rest
            )
            assert whole == "abcd"[index:]

    run(main)


def test_only_the_newest_progress_of_a_call_is_kept_until_its_result() -> None:
    async def main() -> None:
        world = World()
        await world.append(started())
        world.live().partial("c1", 10, tool_name="look")
        world.live().partial("c2", 1)
        world.live().partial("c1", 20, tool_name="look")
        await world.append(draft("x.other"))
        shown = [
            (event.data["callId"], event.data["output"], event.index) for event in (await joined(world))[2:]
        ]
        assert shown == [("c2", 1, 1), ("c1", 20, 2)]
        await world.append(result("c1"), draft("action.result"), draft("action.result", {"result": {}}))
        shown = [event.data["callId"] for event in (await joined(world))[5:]]
        assert shown == ["c2"]

    run(main)


def test_progress_goes_on_counting_behind_the_message() -> None:
    async def main() -> None:
        world = World()
        reader = Reader(world.feed.subscribe_session("s1"))
        await ticks(ENOUGH)
        await world.append(started())
        world.live().text("a")
        world.live().text("b")
        await world.append(said("ab"))
        world.live().partial("c1", "half")
        await ticks(ENOUGH)
        await reader.stop()
        assert [(event.type, event.index) for event in reader.events] == [
            ("step.started", None),
            ("message.appended", 1),
            ("message.completed", None),
            ("action.partial", 2),
        ]
        [partial] = await joined(world, seq=2, index=2)
        assert partial.index == 2
        assert await joined(world, seq=2, index=3) == []

    run(main)


@pytest.mark.parametrize(
    "kind", ["message.completed", "step.failed", "step.retrying", "turn.failed", "run.failed"]
)
def test_the_text_is_dropped_once_its_step_is_decided(kind: str) -> None:
    async def main() -> None:
        world = World()
        await world.append(started())
        world.live().text("half")
        await world.append(draft(kind))
        assert [event.type for event in await joined(world)] == ["step.started", kind]

    run(main)


@pytest.mark.parametrize("end", ["close", "turn.waiting", "run.completed", "step.started", "live"])
def test_a_step_that_is_over_shows_nothing_more(end: str) -> None:
    async def main() -> None:
        world = World()
        [first] = await world.append(started())
        old = world.live()
        old.text("half")
        match end:
            case "close":
                old.close()
                old.close()
            case "live":
                world.feed.live(first)
            case _:
                await world.append(draft(end))
        old.text("late")
        old.reasoning("late")
        old.tool_input("c1", "late")
        old.partial("c1", "late")
        old.show("budget.updated", {})
        assert all(event.index is None for event in await joined(world))

    run(main)


def test_closing_an_old_step_does_not_close_the_new_one() -> None:
    async def main() -> None:
        world = World()
        await world.append(started(0))
        old = world.live()
        await world.append(started(1))
        world.live().text("new")
        old.close()
        assert [*texts(await joined(world)).values()] == ["new"]

    run(main)


def test_empty_texts_are_no_deltas() -> None:
    async def main() -> None:
        world = World()
        await world.append(started())
        world.live().text("")
        world.live().reasoning("")
        world.live().tool_input("c1", "")
        assert len(await joined(world)) == 1

    run(main)


def test_a_step_is_not_shown_before_its_start() -> None:
    async def main() -> None:
        world = World()
        stream = world.feed.subscribe_session("s1")
        reader = Reader(stream)
        await ticks(ENOUGH)
        records = await world.write(started())
        live = world.feed.live(records[0])
        live.text("early ")
        await ticks(ENOUGH)
        assert reader.events == []
        world.feed.publish(records)
        await ticks(ENOUGH)
        live.text("late")
        await ticks(ENOUGH)
        await reader.stop()
        assert reader.events[0].type == "step.started"
        assert [*texts(reader.events).values()] == ["early late"]

    run(main)


@pytest.mark.parametrize("is_everything", [False, True])
@pytest.mark.parametrize("kind", ["message.completed", "step.retrying", "run.completed"])
def test_a_record_that_is_read_before_it_is_published_replaces_its_deltas(
    kind: str, is_everything: bool
) -> None:
    async def main() -> None:
        world = World()
        await world.append(started())
        world.live().text("half")
        records = await world.write(draft(kind))
        feed = world.feed
        reader = Reader(feed.subscribe_all() if is_everything else feed.subscribe_session("s1"))
        await ticks(ENOUGH)
        feed.publish(records)
        await ticks(ENOUGH)
        await reader.stop()
        assert [event.type for event in reader.events] == ["step.started", kind]

    run(main)


def test_progress_is_not_shown_after_its_result() -> None:
    async def main() -> None:
        world = World()
        await world.append(started())
        world.live().partial("c1", 50)
        records = await world.write(result("c1"))
        reader = Reader(world.feed.subscribe_session("s1"))
        await ticks(ENOUGH)
        world.feed.publish(records)
        world.live().partial("c2", 10)
        await ticks(ENOUGH)
        await reader.stop()
        assert [event.type for event in reader.events] == ["step.started", "action.result", "action.partial"]
        assert reader.events[-1].data["callId"] == "c2"

    run(main)


def test_a_reader_without_deltas_is_not_woken_for_them() -> None:
    async def main() -> None:
        world = World()
        reader = Reader(world.feed.subscribe_session("s1", options=StreamOptions(with_live=False)))
        await ticks(ENOUGH)
        await world.append(started())
        await ticks(ENOUGH)
        world.live().text("word")
        await ticks(ENOUGH)
        await world.append(said("word"))
        await ticks(ENOUGH)
        await reader.stop()
        assert [event.type for event in reader.events] == ["step.started", "message.completed"]

    run(main)


def test_deltas_pass_filters_by_their_own_type_and_the_things_of_their_step() -> None:
    async def main() -> None:
        world = World()
        chosen = EventFilter(types=["message.appended"], run_ids=["r1"], turn_ids=["t0"]).compile()
        reader = Reader(world.feed.subscribe_filtered(chosen))
        await ticks(ENOUGH)
        await world.append(started())
        await world.append(started(run_id="r2"), session_id="s2")
        for session_id in ("s1", "s2"):
            world.live(session_id).reasoning("hm")
            world.live(session_id).text("word")
            await ticks(ENOUGH)
        await reader.stop()
        assert [(event.type, event.session_id) for event in reader.events] == [("message.appended", "s1")]

    run(main)


def test_an_answer_that_is_too_long_goes_on_without_deltas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "LIVE_CHARS_MAX", 10)

    async def main() -> None:
        world = World()
        await world.append(started())
        for word in ("12345", "67890", "x", "y"):
            world.live().text(word)
        [_, delta] = await joined(world)
        assert delta.data["messageDelta"] == "1234567890"
        await world.append(said("1234567890xy"))
        await world.append(started(1))
        world.live().text("again")
        assert [*texts(await joined(world)).values()] == ["again"]

    run(main)


def test_pieces_are_limited_in_number_and_forgotten_ones_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "LIVE_PIECES_MAX", 3)

    async def main() -> None:
        world = World()
        await world.append(started())
        for number in range(10):
            world.live().partial("c1", number)
        [_, delta] = await joined(world)
        assert (delta.data["output"], delta.index) == (9, 9)
        world.live().text("a")
        world.live().text("b")
        world.live().text("c")
        world.live().show("x.full", {})
        assert [event.index for event in await joined(world, seq=1)] == [9, 11]
        world.live().partial("c1", 10)
        world.live().text("c")
        assert [event.index for event in await joined(world, seq=1)] == [11, 12]

    run(main)


def test_the_progress_of_running_calls_is_limited_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "LIVE_BYTES_MAX", 3_000)

    async def main() -> None:
        world = World()
        await world.append(started())
        for number in range(10):
            world.live().partial("c1", f"{number}" * 1_000)
        world.live().partial("c2", "x" * 5_000)
        [_, delta] = await joined(world)
        assert delta.data["output"] == "9" * 1_000
        world.live().partial("c2", "fits")
        world.live().partial("c1", "y" * 5_000)
        assert [event.data["output"] for event in (await joined(world))[1:]] == ["fits"]

    run(main)


def test_a_run_that_ended_leaves_no_answer_behind() -> None:
    async def main() -> None:
        world = World()
        await world.append(started())
        world.live().text("half")
        await world.append(ended("run.failed"))
        assert not [*world.feed.live_steps("s1", -1)]
        assert not [*world.feed.live_steps("", -1)]

    run(main)
