"""The cache of recently driven sessions."""

import asyncio
import gc
from collections import Counter
from pathlib import Path

from tests.runtime.runtime_rig import play

from windlass import Agent, AgentRuntime
from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.system import SystemClock
from windlass.agent.policy import allow_start
from windlass.engine.driving.driver import Driver
from windlass.engine.driving.drives import BYTES_MAX, MESSAGE_BYTES, SESSIONS_MAX, CachedSession, SessionCache
from windlass.engine.effects import Effects
from windlass.engine.model_calls.model_call import Prompt
from windlass.engine.writing.writer import RECORDS_PER_READ, Loaded, SessionWriter
from windlass.feed import Feed
from windlass.testing import ScriptedModel, say
from windlass_harness.loop.state import LoopState
from windlass_harness.record import Record
from windlass_protocol import ContentRef, ImagePart, UserMessage


def known(seq: int, *, chars: int = 0) -> CachedSession:
    """A session with a number of records, and a message of a number of characters if any."""
    state = LoopState()
    state.session.seq = seq
    if chars:
        state.session.history.messages.append(UserMessage(content="x" * chars))
    return CachedSession(Loaded(state, 0), Prompt())


def counting() -> Agent:
    """An agent that answers with the number of messages that it was given."""
    return Agent("parrot", model=ScriptedModel(lambda messages: say(str(len(messages)))))


class ReadStore(MemoryStore):
    """A store that notes who is read from the beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.whole: list[str] = []

    async def read(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        if after == 0:
            self.whole.append(session_id)
        return await super().read(session_id, after=after, limit=limit)


def test_a_session_is_given_back_once_and_only_as_the_journal_has_it() -> None:
    recent, one = SessionCache(), known(7)
    recent.keep("s1", one)
    assert recent.take("s1", seq=7) is one
    assert recent.take("s1", seq=7) is None
    recent.keep("s1", one)
    assert recent.take("s1", seq=8) is None
    assert recent.take("s1", seq=7) is None


def test_the_oldest_ones_make_room() -> None:
    recent = SessionCache()
    for number in range(SESSIONS_MAX + 1):
        recent.keep(f"s{number}", known(1))
    assert recent.take("s0", seq=1) is None
    assert recent.take("s1", seq=1) is not None


def test_the_cache_is_limited_in_bytes_not_in_records() -> None:
    recent, third = SessionCache(), BYTES_MAX // 3 - 3 * MESSAGE_BYTES
    for number in range(4):
        recent.keep(f"s{number}", known(3, chars=third))
    assert recent.take("s0", seq=3) is None, "four thirds do not fit"
    assert recent.take("s1", seq=3) is not None
    recent.keep("long", known(1_000_000))
    assert recent.take("long", seq=1_000_000) is not None, "what was compacted takes no room"
    assert recent.take("s2", seq=3) is not None


def test_a_session_that_does_not_fit_evicts_no_other() -> None:
    recent = SessionCache()
    recent.keep("s1", known(1))
    recent.keep("large", known(1, chars=BYTES_MAX))
    assert recent.take("large", seq=1) is None
    assert recent.take("s1", seq=1) is not None


def test_a_stored_picture_that_is_in_the_prompt_counts() -> None:
    async def story() -> None:
        session, raw = known(1), bytes(3_000)
        content = ContentRef(
            content_id="c1", hash="sha256:" + "0" * 64, size_bytes=len(raw), media_type="image/png"
        )
        picture = ImagePart(image="c1", media_type="image/png", content=content)
        history = session.loaded.state.session.history
        history.messages.append(UserMessage(content=(picture,)))
        before = session.size

        async def read(ref: ContentRef) -> bytes:
            return raw

        for _ in range(2):
            await session.prompt.messages(history, "", read)
            assert session.size - before == len("data:image/png;base64,") + 4_000 - len("c1")
        history.messages[:], history.revision = [UserMessage(content="Seen.")], history.revision + 1
        await session.prompt.messages(history, "", read)
        assert session.prompt.added_chars == 0

    play(story())


def test_neither_a_new_session_nor_its_next_turn_is_read_from_the_journal() -> None:
    async def story() -> None:
        agent, store = counting(), ReadStore()
        builder = AgentRuntime.builder().journal(store).content(store).event_bus(Feed(store, SystemClock()))
        async with builder.policy(allow_start).agent(agent).build() as runtime:
            for turn in range(5):
                handle = await runtime.start_run(agent, "hello", session_id="s1", run_id=f"r{turn}")
                assert (await handle.wait()).output == str(2 * turn + 1)
        assert store.whole == []

    play(story())


def test_records_of_another_process_are_seen_despite_the_cache(tmp_path: Path) -> None:
    async def story() -> None:
        file = tmp_path / "app.db"
        async with (
            await AgentRuntime.open(file, agents=[counting()]) as here,
            await AgentRuntime.open(file, agents=[counting()]) as there,
        ):
            for turn in range(6):
                runtime = here if turn % 2 else there
                handle = await runtime.start_run(counting(), "hello", session_id="s1", run_id=f"r{turn}")
                assert (await handle.wait()).output == str(2 * turn + 1)

    play(story())


def test_what_drove_a_session_is_freed_without_a_garbage_collection() -> None:
    drivers = (Driver, Effects, SessionWriter)

    async def story() -> list[str]:
        agent = Agent("a", model=ScriptedModel(lambda _: say("done")))
        async with AgentRuntime.in_memory([agent]) as runtime:
            for number in range(3):
                await (await runtime.start_run(agent, "go", session_id=f"s{number}")).wait()
            for _ in range(50):
                await asyncio.sleep(0)
            return [type(item).__name__ for item in gc.get_objects() if isinstance(item, drivers)]

    gc.collect()
    gc.disable()
    try:
        assert play(story()) == []
    finally:
        gc.enable()


def test_sessions_that_are_taken_over_together_are_loaded_in_turns() -> None:
    turn, loads, count = 0, Counter[int](), 12

    class TurnStore(ReadStore):
        async def aclose(self) -> None:
            """Stay open: another process goes on."""

        async def read(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
            if limit == RECORDS_PER_READ:
                loads[turn] += 1
            return await super().read(session_id, after=after, limit=limit)

    def tick() -> None:
        nonlocal turn
        turn += 1
        asyncio.get_running_loop().call_soon(tick)

    async def story() -> None:
        store = TurnStore()
        for _ in range(2):
            agent = counting()
            builder = AgentRuntime.builder().journal(store).content(store)
            builder = builder.event_bus(Feed(store, SystemClock())).policy(allow_start).agent(agent)
            async with builder.build() as runtime:
                tick()
                names = [f"s{number}" for number in range(count)]
                starts = (runtime.start_run(agent, "hello", session_id=name) for name in names)
                await asyncio.gather(*(handle.wait() for handle in await asyncio.gather(*starts)))
        assert [*loads.values()] == [1] * count

    play(story())
