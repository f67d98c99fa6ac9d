"""Databases for the tests of the SQL storage."""

from pathlib import Path

import pytest
from tests.contracts.storage_samples import Place, postgres_place, sqlite_place


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Each kind of database, migrated and without documents."""
    if request.param == "sqlite":
        return sqlite_place(tmp_path)
    return postgres_place(request.getfixturevalue("postgres"))


@pytest.fixture(params=["sqlite", "postgres"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database of each kind in which there is nothing yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'new.db'}"
    return request.getfixturevalue("postgres").new_database()
