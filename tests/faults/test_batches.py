"""Processes that are killed while their runs wait for batches send no model call twice, and lose none."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final, get_args

import pytest
from tests.depth import some_of
from tests.models.batch_server import BatchServer, Point, serving_batches

from tools.postgres import Postgres

ROOT: Final = Path(__file__).parents[2]
COUNT: Final = 5
WAIT_S: Final = 60
COSTS: Final = {"openai": 1_750, "anthropic": 2_250}
POINTS: Final = [
    (api, point)
    for api in ("openai", "anthropic")
    for point in get_args(Point)
    if api == "openai" or "upload" not in point
]


def begin(api: str, server: BatchServer, store: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.faults.batches", api, server.url, store, str(COUNT)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill_at(api: str, point: Point, server: BatchServer, store: str) -> None:
    """Kill a process while the provider holds a request of it."""
    server.hold = point
    with begin(api, server, store) as process:
        assert server.held.wait(WAIT_S), f"{point} was not reached: {server.asked}"
        process.kill()
    server.go.set()


def complete(api: str, server: BatchServer, store: str) -> None:
    """Let a process complete what another one left, and check that each call was sent once."""
    with begin(api, server, store) as process:
        output, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, errors[-4_000:]
    words = {f"task{at}": ["completed", f"word{at}", COSTS[api]] for at in range(COUNT)}
    assert json.loads(output) == words, errors[-4_000:]
    assert server.sent == sorted(f"word{at}" for at in range(COUNT)), server.asked


@pytest.mark.promise("J5")
@pytest.mark.parametrize(("api", "point"), some_of(POINTS))
def test_a_kill_at_any_point_sends_no_call_twice(api: str, point: Point, tmp_path: Path) -> None:
    with serving_batches() as server:
        kill_at(api, point, server, str(tmp_path / "app.db"))
        complete(api, server, str(tmp_path / "app.db"))
        assert len(server.batches) == 1, "the runs share a batch"


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_a_batch_that_the_provider_never_created_is_sent_after_a_kill(api: str, tmp_path: Path) -> None:
    with serving_batches() as server:
        server.is_deaf = True
        kill_at(api, "before create", server, str(tmp_path / "app.db"))
        complete(api, server, str(tmp_path / "app.db"))
        assert len(server.batches) == 1


@pytest.mark.parametrize(("api", "point"), [("openai", "after create"), ("anthropic", "while reading")])
def test_a_kill_with_postgresql_sends_no_call_twice(api: str, point: Point, postgres: Postgres) -> None:
    with serving_batches() as server:
        store = postgres.new_database()
        kill_at(api, point, server, store)
        complete(api, server, store)


def test_an_anthropic_batch_at_work_of_unknown_origin_is_waited_for(tmp_path: Path) -> None:
    with serving_batches() as server:
        server.is_answering = False
        kill_at("anthropic", "after create", server, str(tmp_path / "app.db"))
        with begin("anthropic", server, str(tmp_path / "app.db")) as process:
            while server.asked.count("GET /v1/messages/batches") < 2 and process.poll() is None:
                server.held.wait(0.01)
            server.batches[0].has_ended = True
            server.is_answering = True
            output, errors = process.communicate(timeout=WAIT_S)
        assert len(json.loads(output)) == COUNT, errors[-4_000:]
        assert server.sent == sorted(f"word{at}" for at in range(COUNT))
