"""A thousand readers, cut off at random."""

from pathlib import Path

import pytest
from tests.server.crowd import crowd
from tests.server.rig import run


@pytest.mark.promise("F1")
@pytest.mark.promise("F3")
def test_a_thousand_readers_that_are_cut_off_at_random_miss_nothing_and_get_nothing_twice(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        tally = await crowd(tmp_path, readers=1_000, turns=3)
        assert tally.deliveries > 20_000
        assert tally.reconnects > 1_000

    run(main())
