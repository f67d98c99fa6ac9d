"""`make dev-fleet` as its users see it; played by `make torture`."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from urllib.request import urlopen

GUARD_S = 300


def play() -> None:
    """Start a fleet by its command, kill a worker and PostgreSQL, and end it with Ctrl-C."""
    command = [sys.executable, "-m", "tools.fleet", "--port", "0"]
    folder = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as fleet:
        guard = threading.Timer(GUARD_S, fleet.kill)
        guard.start()
        assert fleet.stderr is not None
        told: dict[str, str] = {}
        pids: dict[str, int] = {}
        for line in fleet.stderr:
            name, _, rest = line.strip().partition(": ")
            told[name] = rest
            if "process " in rest:
                pids[name] = int(rest.rpartition("process ")[2].rstrip(")"))
            if line.startswith("Ready"):
                break
        with urlopen(f"{told['server 2'].partition(' ')[0]}/v1/agents") as answer:
            assert b'"demo"' in answer.read()
        os.kill(pids["worker 2"], signal.SIGKILL)
        for line in fleet.stderr:
            if line.startswith("worker 2 ended with -9; it is started again"):
                break
        else:
            raise AssertionError("it does not tell that a worker was killed")
        os.kill(pids["PostgreSQL"], signal.SIGKILL)
        for line in fleet.stderr:
            if line.startswith("PostgreSQL is back"):
                break
        else:
            raise AssertionError("PostgreSQL is not started again")
        fleet.send_signal(signal.SIGINT)
        assert fleet.wait(GUARD_S) == 0
        guard.cancel()
    assert len(pids) == 6
    assert [pid for pid in pids.values() if Path(f"/proc/{pid}").exists()] == []
