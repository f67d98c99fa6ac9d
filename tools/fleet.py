"""A fleet on one machine: PostgreSQL, Temporal, servers and workers; a process that ends is started again.

    python -m tools.fleet --agents app.py:agent

`make dev-fleet` starts one with the demo agent. Its data is gone when it ends.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock
from types import FrameType
from typing import Final

from tools.postgres import Postgres, running_postgres
from tools.temporal import Temporal, free_port, running_temporal

PORT: Final = 8700
LOOK_S: Final = 0.5
STOP_S: Final = 120.0
Tell = Callable[[str], None]


@dataclass(slots=True)
class Member:
    """A process of the fleet."""

    name: str
    command: Sequence[str]
    address: str = ""
    """The address of a server; empty for a worker."""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self.process is not None, "it was started"
        return self.process.pid

    @property
    def is_ready(self) -> bool:
        """Whether a server answers; a worker that runs counts as ready."""
        if not self.address:
            return True
        try:
            with urllib.request.urlopen(f"{self.address}/v1/agents", timeout=STOP_S):
                return True
        except (urllib.error.URLError, OSError):
            return False


class CannotStart(Exception):
    """A member of the fleet ended by itself before the fleet was ready; it has said why."""


class Fleet:
    """Servers that do not drive and workers that do, over one PostgreSQL and one Temporal."""

    def __init__(
        self,
        postgres: Postgres,
        temporal: Temporal,
        folder: Path,
        *,
        agents: str,
        ports: Sequence[int],
        workers: int,
        tell: Tell,
    ) -> None:
        self.postgres, self.temporal = postgres, temporal
        self.store = postgres.new_database()
        self.restarting = Lock()
        """Held while PostgreSQL or Temporal is started again."""
        self._tell = tell
        self._is_postgres_away = False
        self._environment = {
            **os.environ,
            "WINDLASS_STORE": self.store,
            "WINDLASS_WAKES": temporal.address,
            "WINDLASS_AGENTS": agents,
            "WINDLASS_SERVER_LOG_LEVEL": "warning",
        }
        run = (sys.executable, "-m", "windlass_cli")
        self.servers = [
            Member(
                f"server {number}",
                (*run, "serve", "--no-drive", "--port", str(port)),
                f"http://127.0.0.1:{port}",
            )
            for number, port in enumerate(ports, 1)
        ]
        self.workers = [Member(f"worker {number}", (*run, "worker")) for number in range(1, workers + 1)]
        self._folder = folder

    @property
    def members(self) -> list[Member]:
        """Its servers and workers."""
        return [*self.servers, *self.workers]

    def start(self) -> None:
        """Start all; return once the servers answer.

        Raises:
            CannotStart: a member refused to start, for example because the agents cannot be loaded.
        """
        for member in self.members:
            self._start(member)
        until = Event()
        while not all(server.is_ready for server in self.servers):
            for member in self.members:
                assert member.process is not None, "it was started"
                if (code := member.process.poll()) is not None and code > 0:
                    raise CannotStart(f"{member.name} ended with {code}: its message is above")
            self.tend()
            until.wait(LOOK_S)

    def tend(self) -> None:
        """Start processes that have ended again."""
        for member in self.members:
            if member.process is not None and (code := member.process.poll()) is not None:
                self._start(member)
                self._tell(f"{member.name} ended with {code}; it is started again: process {member.pid}")
        with self.restarting:
            if not self.temporal.is_running:
                self._tell("Temporal has ended; it is started again")
                self.temporal.restart()
                self._tell(f"Temporal is back: process {self.temporal.pid}")
            self._tend_postgres()

    def _tend_postgres(self) -> None:
        is_running = self.postgres.is_running
        if is_running and self._is_postgres_away:
            self._tell(f"PostgreSQL is back: process {self.postgres.pid}")
        elif not is_running:
            if not self._is_postgres_away:
                self._tell("PostgreSQL takes no connections; it is started again")
            # It cannot start while processes of the killed server hold its memory, or while it recovers
            # by itself because a single process of it was killed: the next look tries again.
            with suppress(subprocess.CalledProcessError):
                self.postgres.start()
        self._is_postgres_away = not is_running

    def stop(self) -> list[int]:
        """End all with SIGTERM; return their exit codes."""
        running = [one.process for one in self.members if one.process is not None]
        for process in running:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
        return [process.wait(STOP_S) for process in running]

    def _start(self, member: Member) -> None:
        data = self._folder / member.name.replace(" ", "-")
        # A group of its own: Ctrl-C reaches this process, which ends the others in order.
        member.process = subprocess.Popen(
            member.command,
            env={**self._environment, "WINDLASS_DATA": str(data)},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )


@contextmanager
def running_fleet(
    *,
    agents: str,
    ports: Sequence[int],
    workers: int,
    tell: Tell,
    has_page: bool = False,
    **settings: str,
) -> Generator[Fleet]:
    """Start a fleet and end it with everything that belongs to it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-fleet-")))
        # Without synchronous_commit, a crash of PostgreSQL loses the last acknowledged writes.
        durable = {"max_connections": "200", "synchronous_commit": "on"}
        postgres = stack.enter_context(running_postgres(**durable, **settings))
        (folder / "temporal").mkdir()
        temporal = stack.enter_context(running_temporal(folder / "temporal", has_page=has_page))
        fleet = Fleet(postgres, temporal, folder, agents=agents, ports=ports, workers=workers, tell=tell)
        stack.callback(fleet.stop)
        fleet.start()
        yield fleet


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a fleet until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Run a fleet on this machine.")
    parser.add_argument("--agents", default="windlass.demo:agent", help="module:name or file.py:name")
    parser.add_argument("--port", type=int, default=PORT, help="of the first server; 0 chooses free ones")
    options = parser.parse_args(arguments)
    ended = Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    ports = [options.port, options.port + 1] if options.port else [free_port(), free_port()]
    _say("Starting PostgreSQL, Temporal, two servers and two workers.")
    try:
        _run(options.agents, ports, ended)
    except CannotStart as error:
        _say(f"The fleet was not started: {error}.")
        return 2
    return 0


def _run(agents: str, ports: Sequence[int], ended: Event) -> None:
    with running_fleet(agents=agents, ports=ports, workers=2, tell=_say, has_page=True) as fleet:
        for server in fleet.servers:
            _say(f"{server.name}: {server.address} (process {server.pid})")
        for worker in fleet.workers:
            _say(f"{worker.name}: process {worker.pid}")
        page = f"http://127.0.0.1:{fleet.temporal.page_port}"
        _say(f"Temporal: {fleet.temporal.address}, page: {page} (process {fleet.temporal.pid})")
        _say(f"PostgreSQL: {fleet.store} (process {fleet.postgres.pid})")
        _say("Ready. Kill any of them: it is started again, and no run is lost. Stop with Ctrl-C.")
        while not ended.wait(LOOK_S):
            fleet.tend()
        _say("Stopping.")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
