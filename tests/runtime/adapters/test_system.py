"""The system clock, ids and randomness."""

import asyncio
import re
from datetime import UTC, timedelta

from windlass.adapters.system import SystemClock, chance, new_id
from windlass.ports.clock import Clock, IdFactory, Random


def test_the_clock_is_in_utc_and_its_monotonic_hand_never_goes_back() -> None:
    clock: Clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert clock.now() - clock.now() < timedelta(seconds=1)
    times = [clock.monotonic() for _ in range(100)]
    assert times == sorted(times)


def test_sleeping_lets_time_pass() -> None:
    async def story() -> None:
        clock = SystemClock()
        before = clock.monotonic()
        async with asyncio.timeout(300):
            await clock.sleep(0.001)
        assert clock.monotonic() - before >= 0.001

    asyncio.run(story())


def test_an_id_is_unique_safe_in_file_names_and_sorts_by_time() -> None:
    factory: IdFactory = new_id
    names = [factory() for _ in range(1_000)]
    assert len(set(names)) == 1_000
    assert all(re.fullmatch(r"[0-9a-f]{44}", name) for name in names)
    assert [name[:12] for name in names] == sorted(name[:12] for name in names)
    assert len({name[12:] for name in names}) == 1_000


def test_random_numbers_are_from_zero_to_one() -> None:
    source: Random = chance
    assert all(0 <= source() < 1 for _ in range(1_000))
