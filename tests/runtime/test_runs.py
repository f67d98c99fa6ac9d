"""The handle of a run."""

import asyncio

import pytest
from tests.runtime.runtime_rig import model_of, play, shop, until

from windlass.errors import Conflict, Rejected
from windlass.runtime.compose import AgentRuntime
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.tools import tool
from windlass.tools.context import ToolContext
from windlass_protocol import ErrorKind, Event, RunCursor, RunStatus

ASKS = [call("mail", {"to": "ada"}), say("done")]


def test_a_handle_has_the_id_and_status_of_its_run() -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([shop(model_of("done"))]) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1")
            assert handle.run_id == "r1"
            assert repr(handle) == "RunHandle('r1')"
            await handle.wait()
            assert await handle.status() is RunStatus.COMPLETED

    play(story())


def test_a_handle_has_the_session_of_its_run() -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([shop(model_of("done", "more"))]) as runtime:
            first = await runtime.start_run("shop", "go", run_id="r1", session_id="s1")
            queued = await runtime.start_run("shop", "more", run_id="r2", session_id="s1")
            own = await runtime.start_run("shop", "go")
            for handle in (first, queued, runtime.handle("r1"), runtime.handle("r2")):
                assert await handle.session_id() == "s1"
            assert await own.session_id() == (await own.wait()).session_id
            with pytest.raises(Conflict, match="unknown run"):
                await runtime.handle("nothing").session_id()

    play(story())


def test_events_come_from_the_beginning_or_from_behind_the_last_that_was_seen() -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([shop(model_of("done"))]) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1")
            seen = [(event.seq, event.type) async for event in handle.events() if event.index is None]
            assert (seen[0][1], seen[-1][1]) == ("run.started", "run.completed")
            last = seen[2][0]
            assert last is not None
            cursor = RunCursor(run_id="r1", seq=last)
            for after in (last, cursor):
                rest = [(event.seq, event.type) async for event in handle.events(after=after)]
                assert rest == seen[3:]
            everything = [(event.seq, event.type) async for event in handle.events(after=0)]
            assert everything == seen

    play(story())


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (-1, "after must be the seq of an event, 0 to 9,007,199,254,740,991, found -1"),
        (10**30, "after must be the seq of an event, 0 to 9,007,199,254,740,991, found more"),
        (True, "after must be the seq of an event or a cursor, found bool"),
        (3.0, "after must be the seq of an event or a cursor, found float"),
        ("3", "not a cursor: expected the text that encode_cursor"),
    ],
)
def test_a_place_that_cannot_be_is_refused(after: int | str, words: str) -> None:
    handle = AgentRuntime.in_memory([shop()]).handle("r1")
    with pytest.raises(Rejected, match=words) as caught:
        handle.events(after=after)
    assert caught.value.kind is ErrorKind.PROJECTION_FAILURE


@pytest.mark.parametrize(("option", "was_sent"), [("approve", True), ("deny", False)])
def test_a_request_is_answered_through_the_handle(option: str, was_sent: bool) -> None:
    async def story() -> None:
        model = ScriptedModel(ASKS)
        async with AgentRuntime.in_memory([shop(model)]) as runtime:
            handle = await runtime.start_run("shop", "go")
            await until(handle, "run.waiting")
            (asked,) = await handle.open_requests()
            await handle.answer(asked.request_id, option, text="As you like.", responder="ada")
            assert (await handle.wait()).output == "done"
            assert await handle.open_requests() == ()
            told = model.requests[1].messages[-1]
            assert (told.content == "sent to ada", told.is_error) == (was_sent, not was_sent)

    play(story())


def test_cancelling_through_the_handle_records_by_and_reason() -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([shop(ScriptedModel(ASKS))]) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1")
            await until(handle, "run.waiting")
            await handle.cancel(by="ada", reason="not needed")
            asked = await until(runtime.handle("r1"), "run.cancel_requested")
            assert (asked.data["by"], asked.data["reason"]) == ("ada", "not needed")
            assert (await handle.wait()).status is RunStatus.CANCELLED

    play(story())


def test_a_reader_that_resumes_behind_the_progress_of_a_tool_gets_no_event_twice() -> None:
    async def story() -> None:
        gate = asyncio.Event()

        @tool(mode="read")
        async def work(context: ToolContext) -> str:
            """Work for a while."""
            context.progress({"at": 1})
            await gate.wait()
            return "worked"

        agent = shop(ScriptedModel(by_history([call("work"), say("done")])), tools=[work])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            seen: list[Event] = []
            async for event in handle.events():
                seen.append(event)
                if event.type == "action.partial":
                    break
            gate.set()
            seen += [event async for event in handle.events(after=seen[-1].seq)]
            stored = [event.seq or 0 for event in seen if event.index is None]
            assert stored == sorted(set(stored))
            assert stored == [*range(stored[0], stored[-1] + 1)]

    play(story())
