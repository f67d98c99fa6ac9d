"""The test kit of wakes, with real workers: without an engine, and on Temporal.

Here it plays some of its cases; `make torture` plays all of them.
"""

import asyncio
import tempfile
from pathlib import Path

import pytest

from tools.postgres import Postgres, running_postgres
from tools.temporal import Temporal, running_temporal
from windlass.testing import WAKE_CASES, check_wakes

pytestmark = pytest.mark.slow


def all_cases() -> int:
    """Check all cases, which take a minute or two each way; return how many were played."""
    with running_postgres() as server, tempfile.TemporaryDirectory() as folder:
        places = [Path(folder, name) for name in ("local", "temporal", "server")]
        for place in places:
            place.mkdir()
        asyncio.run(check_wakes(server.new_database(), folder=places[0]))
        with running_temporal(places[2]) as temporal:

            async def restart() -> None:
                await asyncio.to_thread(temporal.restart)

            store = server.new_database()
            asyncio.run(check_wakes(store, temporal.address, folder=places[1], restart=restart))
    return 2 * len(WAKE_CASES) - 1


def test_wakes_without_an_engine(postgres: Postgres, tmp_path: Path) -> None:
    cases = ("park", "cancel", "lost")
    asyncio.run(check_wakes(postgres.new_database(), folder=tmp_path, cases=cases))


def test_wakes_by_temporal(postgres: Postgres, temporal: Temporal, tmp_path: Path) -> None:
    cases = ("park", "duplicate")
    asyncio.run(check_wakes(postgres.new_database(), temporal.address, folder=tmp_path, cases=cases))
