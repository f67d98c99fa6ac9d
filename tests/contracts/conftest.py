"""The stores that every suite of the store contract runs against."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contracts.stores import Play, PostgresStores, play_in_memory, play_on_sqlite

from tools.postgres import Postgres


@pytest.fixture(scope="session")
def postgres_stores(postgres: Postgres) -> Iterator[PostgresStores]:
    """Stores in PostgreSQL that all suites share."""
    stores = PostgresStores(postgres)
    yield stores
    stores.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """A way to let a story happen to a fresh store."""
    match request.param:
        case "memory":
            return play_in_memory
        case "sqlite":
            return lambda story: play_on_sqlite(story, tmp_path / "store.db")
        case _:
            stores: PostgresStores = request.getfixturevalue("postgres_stores")
            return stores.play
