"""Live deltas of readers that look at them only from time to time."""

from tests.runtime.feed.scene import ENOUGH, Reader, World, run, said, started, ticks

from windlass.feed import Feed
from windlass.feed.pauses import PAUSE_STEPS
from windlass.ports.feed import StreamOptions
from windlass.testing import FakeClock
from windlass_protocol import SessionCursor

PAUSE_S = 0.05
START = SessionCursor(session_id="s1", seq=0)


def shown(reader: Reader) -> list[object]:
    """What a reader got: the texts of deltas, and the types of records."""
    return [event.data.get("messageDelta") or event.type for event in reader.events]


class PausedWorld(World):
    """A world whose reader gets live deltas with pauses in between."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.time = FakeClock()
        self.feed = Feed(self.store, self.time)

    def reader(self) -> Reader:
        return Reader(self.feed.subscribe_session("s1", START, options=StreamOptions(live_pause_s=PAUSE_S)))


def test_the_first_delta_is_shown_at_once_and_the_next_ones_together_after_the_pause() -> None:
    async def main() -> None:
        world = PausedWorld()
        await world.append(started())
        reader = world.reader()
        for word in ("one ", "two ", "three "):
            world.live().text(word)
            await ticks(ENOUGH)
        assert shown(reader) == ["step.started", "one "]
        world.time.advance(PAUSE_S)
        await ticks(ENOUGH)
        assert shown(reader) == ["step.started", "one ", "two three "]
        world.time.advance(PAUSE_S)
        await ticks(ENOUGH)
        world.live().text("four")
        await ticks(ENOUGH)
        assert shown(reader)[-1] == "four", "the pause was over before it was written"
        await reader.stop()
        await reader.stream.aclose()
        await ticks(ENOUGH)
        assert world.time.sleepers == 0

    run(main)


def test_a_record_does_not_wait_and_the_deltas_that_it_replaces_come_before_it() -> None:
    async def main() -> None:
        world = PausedWorld()
        await world.append(started())
        reader = world.reader()
        for word in ("one ", "two"):
            world.live().text(word)
            await ticks(ENOUGH)
        await world.append(said("one two"))
        await ticks(ENOUGH)
        assert shown(reader) == ["step.started", "one ", "two", "message.completed"]
        await reader.stop()

    run(main)


def test_a_reader_that_resumes_during_a_pause_gets_each_delta_once() -> None:
    async def main() -> None:
        world = PausedWorld()
        await world.append(started())
        reader = world.reader()
        for word in ("one ", "two ", "three"):
            world.live().text(word)
            await ticks(ENOUGH)
        await reader.stop()
        rest = Reader(world.feed.subscribe_session("s1", reader.stream.cursor))
        await ticks(ENOUGH)
        assert shown(reader) + shown(rest) == ["step.started", "one ", "two three"]
        await rest.stop()

    run(main)


def test_readers_whose_pauses_end_together_share_a_timer_and_leave_it_to_the_others() -> None:
    async def main() -> None:
        world = PausedWorld()
        await world.append(started())
        readers = [world.reader() for _ in range(3)]
        await ticks(ENOUGH)
        for word in ("one ", "two"):
            world.live().text(word)
            await ticks(ENOUGH)
        assert world.time.sleepers == 1
        for reader in readers[:2]:
            await reader.stop()
            await reader.stream.aclose()
        await ticks(ENOUGH)
        assert world.time.sleepers == 1, "one reader is left"
        assert shown(readers[2])[-1] == "one "
        world.time.advance(PAUSE_S)
        await ticks(ENOUGH)
        assert [shown(reader)[-1] for reader in readers] == ["one ", "one ", "two"]
        await readers[2].stop()
        await readers[2].stream.aclose()
        await ticks(ENOUGH)
        assert world.time.sleepers == 0

    run(main)


def test_a_pause_is_never_shorter_than_asked_for() -> None:
    async def main() -> None:
        world = PausedWorld()
        await world.append(started())
        world.time.advance(PAUSE_S / 7)
        reader = world.reader()
        for word in ("one ", "two"):
            world.live().text(word)
            await ticks(ENOUGH)
        world.time.advance(PAUSE_S * 0.99)
        await ticks(ENOUGH)
        assert shown(reader)[-1] == "one "
        world.time.advance(PAUSE_S * (0.01 + 1 / PAUSE_STEPS))
        await ticks(ENOUGH)
        assert shown(reader)[-1] == "two"
        await reader.stop()

    run(main)
