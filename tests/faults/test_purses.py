"""Purses that real processes share, which are killed: the limit holds, and nothing stays held."""

import asyncio
from pathlib import Path

import pytest
from tests.faults.purses import play

from tools.postgres import Postgres

pytestmark = pytest.mark.slow


def test_processes_that_share_a_file_and_are_killed_never_pay_more_than_the_limit(tmp_path: Path) -> None:
    outcome = asyncio.run(play(str(tmp_path / "app.db"), tmp_path, runs=30, kills=2, seed=1))
    assert outcome["violations"] == []


def test_processes_that_share_postgresql_and_are_killed_never_pay_more_than_the_limit(
    tmp_path: Path, postgres: Postgres
) -> None:
    outcome = asyncio.run(play(postgres.new_database(), tmp_path, runs=30, kills=2, seed=2))
    assert outcome["violations"] == []
