"""The stores that every suite of the store contract runs against."""

from pathlib import Path

import pytest
from tests.contracts.stores import Play, play_in_memory, play_on_postgres, play_on_sqlite


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """A way to let a story happen to a fresh store."""
    match request.param:
        case "memory":
            return play_in_memory
        case "sqlite":
            return lambda story: play_on_sqlite(story, tmp_path / "store.db")
        case _:
            place = request.getfixturevalue("postgres").clean_schema()
            return lambda story: play_on_postgres(story, place)
