"""The system clock, ids and randomness."""

import asyncio
import re
import subprocess
import sys
from datetime import UTC, timedelta

import pytest

from windlass.adapters.system import SystemClock, chance, new_id
from windlass.ports.clock import Clock, IdFactory, Random


def test_the_clock_is_in_utc_and_its_monotonic_hand_never_goes_back() -> None:
    clock: Clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert clock.now() - clock.now() < timedelta(seconds=1)
    times = [clock.monotonic() for _ in range(100)]
    assert times == sorted(times)


def test_sleeping_lets_time_pass() -> None:
    async def story() -> None:
        clock = SystemClock()
        before = clock.monotonic()
        async with asyncio.timeout(300):
            await clock.sleep(0.001)
        assert clock.monotonic() - before >= 0.001

    asyncio.run(story())


def test_an_id_is_unique_safe_in_file_names_and_sorts_by_time() -> None:
    factory: IdFactory = new_id
    names = [factory() for _ in range(1_000)]
    assert len(set(names)) == 1_000
    assert all(re.fullmatch(r"[0-9a-f]{44}", name) for name in names)
    assert [name[:12] for name in names] == sorted(name[:12] for name in names)
    assert len({name[12:] for name in names}) == 1_000


def test_random_numbers_are_from_zero_to_one() -> None:
    source: Random = chance
    assert all(0 <= source() < 1 for _ in range(1_000))


HIDING = """
import ctypes, os, subprocess, sys
from pathlib import Path
from windlass.parts import hide_environment

def shown():
    return Path("/proc/self/environ").read_bytes()

libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
assert b"canary" in shown()
hide_environment()
if os.geteuid() == 0:
    # Another user may not even open it.
    assert not shown().strip(b"\\0"), "the kernel shows the variables"
assert os.environ["SECRET_KEY"] == "canary"
assert libc.getenv(b"SECRET_KEY") == b"canary"
inherited = subprocess.run(["/bin/sh", "-c", "echo $SECRET_KEY"], capture_output=True, check=True)
assert inherited.stdout == b"canary\\n"
assert libc.prctl(3, 0, 0, 0, 0) == 0, "the memory can be read"
print("hidden")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems show no variables")
def test_the_variables_of_a_process_are_hidden_from_others_and_kept_for_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIDING],
        env={"SECRET_KEY": "canary", "PATH": "/bin:/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("hidden\n", 0), done.stderr
