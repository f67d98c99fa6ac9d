"""Suspects: one of them is driven at a time."""

import asyncio
from contextlib import suppress

from tests.story import play

from windlass.adapters.journals.memory import MemoryStore
from windlass.engine.driving.suspects import Suspects
from windlass.testing import FakeClock
from windlass_harness.loop.notes import Interruption
from windlass_harness.loop.state import LoopState


class Suspect:
    """A driver that does nothing."""

    def __init__(self) -> None:
        self.state = LoopState()
        self.state.run_notes.interruptions = (Interruption(1, is_shared=True, has_lived=False),)

    def end_isolation(self) -> None:
        """Nothing to record."""


def test_a_suspect_that_is_cancelled_as_its_turn_comes_passes_it_on() -> None:
    async def story() -> None:
        suspects = Suspects(MemoryStore(), FakeClock())
        first, second, third = Suspect(), Suspect(), Suspect()
        turns = [asyncio.ensure_future(suspects.take_turn(driver)) for driver in (first, second, third)]
        await asyncio.sleep(0)
        suspects.end_turn(first)
        turns[1].cancel()
        with suppress(asyncio.CancelledError):
            await turns[1]
        await turns[2]
        suspects.end_turn(third)

    play(story())
