"""The test kit of wakes, with real workers: on the processes themselves, and on Temporal."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from tests.postgres import Postgres, running_postgres
from tests.temporal import Temporal

from windlass.testing import WAKE_CASES, check_wakes

pytestmark = pytest.mark.slow


def all_cases() -> int:
    """Check all cases without an engine, which take a minute; return how many there are."""
    with running_postgres() as server, tempfile.TemporaryDirectory() as folder:
        asyncio.run(check_wakes(server.new_database(), folder=Path(folder)))
    return len(WAKE_CASES) - 1


def test_wakes_by_the_processes_themselves(postgres: Postgres, tmp_path: Path) -> None:
    cases = ("park", "upgrade", "cancel", "lost", "duplicate")
    asyncio.run(check_wakes(postgres.new_database(), folder=tmp_path, cases=cases))


def test_wakes_by_temporal(postgres: Postgres, temporal: Temporal, tmp_path: Path) -> None:

    store = postgres.new_database()
    asyncio.run(
        check_wakes(
            store, temporal.address, folder=tmp_path, restart=lambda: asyncio.to_thread(temporal.restart)
        )
    )
