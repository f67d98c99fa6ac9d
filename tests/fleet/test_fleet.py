"""A fleet with real processes: what is killed is started again, and no session is lost."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.fleet.storm import play

pytestmark = pytest.mark.slow
GUARD_S = 300


def test_every_session_ends_when_a_worker_is_killed() -> None:
    told = play(sessions=6, servers=1, workers=2, blows=1, seed=1)
    assert told["violations"] == []
    assert (told["trials"], told["kills"], told["ended"]) == (6, 1, {"completed": 6})


def test_a_fleet_of_one_command_tells_its_addresses_and_ends_with_ctrl_c() -> None:
    command = [sys.executable, "-m", "tools.fleet", "--port", "0"]
    folder = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as fleet:
        guard = threading.Timer(GUARD_S, fleet.kill)
        guard.start()
        assert fleet.stderr is not None
        told: dict[str, str] = {}
        pids: list[int] = []
        for line in fleet.stderr:
            name, _, rest = line.strip().partition(": ")
            told[name] = rest
            if "process " in rest:
                pids.append(int(rest.rpartition("process ")[2].rstrip(")")))
            if line.startswith("Ready"):
                break
        with urlopen(f"{told['server 2'].partition(' ')[0]}/v1/agents") as answer:
            assert b'"demo"' in answer.read()
        os.kill(pids[-1], signal.SIGKILL)
        for line in fleet.stderr:
            if line.startswith("worker 2 ended with -9; it is started again"):
                break
        else:
            pytest.fail("it does not tell that a worker was killed")
        fleet.send_signal(signal.SIGINT)
        assert fleet.wait(GUARD_S) == 0
        guard.cancel()
    assert len(pids) == 4
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
