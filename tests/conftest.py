"""Settings and fixtures that every folder of tests shares."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import httpcore2
import pytest
from hypothesis import HealthCheck, settings
from tests.depth import some

from tools.postgres import Postgres, given_postgres, running_postgres
from tools.temporal import Temporal, running_temporal

# A deadline, or the check for slow examples, fails on a busy machine and proves nothing. In continuous
# integration the examples are the same each time; elsewhere they are new, and a failure prints its seed.
settings.register_profile(
    "windlass",
    max_examples=some(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
    print_blob=True,
)
settings.load_profile("windlass")

# A shell starts a command in the background with these signals ignored, and tests send them to themselves and
# to their children.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 2_147_483_648


def _has_room(folder: Path) -> bool:
    """Whether a folder may hold the files of the tests, and programs may be started from it."""
    if not os.access(folder, os.W_OK):
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= _ROOM_BYTES and not found.f_flag & os.ST_NOEXEC


# Tests make thousands of databases. On a disk they mostly wait for its syncs; a kill does not need them.
if "TMPDIR" not in os.environ and _has_room(_MEMORY):
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)
# Each HTTP client reads the certificates of the world, which takes longer than most tests.
httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)

_WEB_BUILT = Path(__file__).parents[1] / "web/protocol/dist/index.js"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests of the TypeScript packages where they are not built; `make test` requires them."""
    is_here = _WEB_BUILT.is_file() and shutil.which("node") is not None
    if item.get_closest_marker("node") and not is_here and "REQUIRE_NODE" not in os.environ:
        pytest.skip("needs node and `make web-built`")


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Temporal]:
    """A Temporal server, started by the first test that asks for it."""
    with running_temporal(tmp_path_factory.mktemp("temporal")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server, started by the first test that asks for it, or that of WINDLASS_TEST_POSTGRES."""
    if address := os.environ.get("WINDLASS_TEST_POSTGRES"):
        yield given_postgres(address)
        return
    with running_postgres() as server:
        yield server
