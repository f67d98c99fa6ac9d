"""Time limits that share one timer."""

import asyncio

from windlass.engine.deadline import Deadlines
from windlass.testing.time import FakeClock, run_in_fake_time

LIMITS = 64


def test_limits_of_one_moment_expire_in_the_order_in_which_they_began() -> None:
    ended: list[int] = []

    async def work(number: int, deadlines: Deadlines) -> None:
        try:
            with deadlines.limit(5.0):
                await asyncio.Event().wait()
        except TimeoutError:
            ended.append(number)

    async def main() -> None:
        deadlines = Deadlines()
        await asyncio.gather(*(work(number, deadlines) for number in range(LIMITS)))

    run_in_fake_time(main(), clock=FakeClock())
    assert ended == [*range(LIMITS)]
