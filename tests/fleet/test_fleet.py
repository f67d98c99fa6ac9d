"""A fleet with real processes: what is killed is started again, and no session is lost."""

import os
import signal
import subprocess
import sys
from contextlib import closing

import psycopg
import pytest
from tests.fleet.storm import play

from tools.fleet import running_fleet

pytestmark = pytest.mark.slow


def test_every_session_ends_when_a_worker_is_killed() -> None:
    told = play(sessions=6, servers=1, workers=2, blows=1, seed=1)
    assert told["violations"] == []
    assert (told["trials"], told["kills"], told["ended"]) == (6, 1, {"completed": 6})
    assert told["effects"] >= 3 * 6


def test_a_fleet_whose_agents_cannot_be_loaded_ends_with_their_error() -> None:
    command = [sys.executable, "-m", "tools.fleet", "--agents", "missing.py:agent", "--port", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "no such file" in ended.stderr
    assert "The fleet was not started: " in ended.stderr


def test_a_fleet_outlives_a_postgresql_that_cannot_be_started_again_at_once() -> None:
    told: list[str] = []
    with (
        running_fleet(agents="windlass.demo:agent", ports=[], workers=0, tell=told.append) as fleet,
        closing(psycopg.connect(fleet.store)) as connection,
    ):
        left = connection.info.backend_pid
        os.kill(left, signal.SIGSTOP)  # it holds the memory of the server that is killed
        fleet.postgres.kill()
        while not told:
            fleet.tend()
        assert not fleet.postgres.is_running
        os.kill(left, signal.SIGCONT)
        while len(told) < 2:
            fleet.tend()
        assert fleet.postgres.is_running
    assert told[0] == "PostgreSQL takes no connections; it is started again"
    assert told[1].startswith("PostgreSQL is back: process ")
