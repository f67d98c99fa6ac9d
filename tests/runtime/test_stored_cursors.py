"""Positions of readers that are stored as text, and used again by another runtime on the same file."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runtime.runtime_rig import play

from windlass import Agent, AgentRuntime, Rejected
from windlass.feed import encode_cursor
from windlass.parts import EventFilter
from windlass.ports.feed import EventStream
from windlass.testing import ScriptedModel, call, say
from windlass.tools import tool

FILTER = EventFilter(families=["run", "step", "action"]).compile()
Subscribe = Callable[[AgentRuntime, str | None], EventStream]
CALLS: dict[str, Subscribe] = {
    "all": lambda runtime, after: runtime.subscribe_all(after),
    "session": lambda runtime, after: runtime.sessions.subscribe("s1", after),
    "run": lambda runtime, after: runtime.subscribe_run("r1", after),
    "events of a handle": lambda runtime, after: runtime.handle("r1").events(after),
    "agent": lambda runtime, after: runtime.subscribe_agent("clerk", after),
    "filter": lambda runtime, after: runtime.subscribe_events(FILTER, after),
}


@tool(mode="read")
def look() -> str:
    return "seen"


def clerk() -> Agent:
    return Agent("clerk", model=ScriptedModel([call("look"), say("Done.")]), tools=[look])


async def read(stream: EventStream, most: int = 1_000) -> list[tuple[str, int | None]]:
    """Read up to the end of the run, or so many events."""
    seen: list[tuple[str, int | None]] = []
    async for event in stream:
        seen.append((event.type, event.seq))
        if event.type == "run.completed" or len(seen) == most:
            break
    return seen


@pytest.mark.parametrize("name", CALLS)
def test_a_text_continues_after_the_event_at_which_it_was_stored(name: str, tmp_path: Path) -> None:
    subscribe = CALLS[name]

    async def story() -> None:
        agent = clerk()
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            await (await runtime.start_run(agent, "Look.", run_id="r1", session_id="s1")).wait()
            whole = await read(subscribe(runtime, None))
        assert len(whole) > 3
        for count in (1, 3, len(whole) - 1):
            async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
                stream = subscribe(runtime, None)
                head = await read(stream, count)
                text = encode_cursor(stream.cursor)
            async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
                assert head + await read(subscribe(runtime, text)) == whole

    play(story())


@pytest.mark.parametrize("name", CALLS)
def test_a_text_that_is_no_cursor_or_one_of_another_scope_is_refused(name: str) -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([clerk()]) as runtime:
            for text in ("", "7", "a.01", "s.czI.1x"):
                with pytest.raises(Rejected, match=r"not a cursor: expected the text that encode_cursor"):
                    CALLS[name](runtime, text)
            other = "s.czI.1" if name != "session" else "a.1"
            with pytest.raises(Rejected):
                CALLS[name](runtime, other)

    play(story())
