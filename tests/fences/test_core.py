"""The core of `windlass` works without its rooms: the tests of core pass on a copy that has none."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools.files import ROOT
from windlass.runtime import rooms

SOURCE = ROOT / "packages/runtime/src/windlass"
ALONE = (
    "tests/runtime/adapters/test_system.py",
    "tests/runtime/engine/test_structured_output.py",
    "tests/runtime/feed",
    "tests/runtime/test_agent.py",
    "tests/runtime/test_policy.py",
    "tests/runtime/test_runs.py",
    "tests/runtime/tools/test_calling_arguments.py",
    "tests/runtime/tools/test_tool.py",
)
"""Tests that need core alone."""
STORED = (
    "tests/contracts/test_feed.py",
    "tests/contracts/test_store.py",
    "tests/runtime/engine/test_hook_points.py",
    "tests/runtime/engine/test_inbox.py",
    "tests/runtime/engine/test_owners.py",
    "tests/runtime/engine/test_queue.py",
    "tests/runtime/test_binding.py",
    "tests/runtime/test_builder.py",
    "tests/runtime/test_event_hooks.py",
    "tests/runtime/test_questions.py",
    "tests/runtime/test_requests.py",
    "tests/runtime/test_retry_run.py",
    "tests/runtime/test_runtime.py",
    "tests/runtime/test_runtime_approvals.py",
    "tests/runtime/test_start.py",
    "tests/runtime/test_stored_cursors.py",
    "tests/runtime/test_undo.py",
)
"""Tests of core that open a file, or look into the sessions of a store."""
TESTING = {"testing"}
"""The room of every test."""
STORES = {"catalog", "private_files", "sql", "sqlite", "testing"}
"""The rooms of tests with files."""
_LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
[CONTRACT] = [one for one in _LINTER["contracts"] if one["name"] == "Core imports no room"]
CORE = {name.removeprefix("windlass.") for name in CONTRACT["source_modules"]}
ROOMS = {name.removeprefix("windlass.") for name in CONTRACT["forbidden_modules"]}
WITHOUT_ROOMS = """
import asyncio
from windlass import Agent, AgentRuntime, Rejected
from windlass.ports.model import LLMStreamChunk
from windlass.runtime.rooms import ROOMS, enter

class Polite:
    model_id = "polite"

    async def stream(self, messages, *, tools=None, temperature=None):
        yield LLMStreamChunk("Hello.", finish_reason="stop")

async def main():
    guide = Agent("guide", model=Polite())
    async with AgentRuntime.in_memory([guide]) as runtime:
        print((await (await runtime.start_run(guide, "Hi.")).wait()).output)
    try:
        await AgentRuntime.open("postgresql://shop@localhost/shop", agents=[guide])
    except Rejected as error:
        print(error.message)

asyncio.run(main())
for room in ROOMS:
    try:
        enter(room)
    except Rejected as error:
        print(room)
"""


def copy_core(folder: Path, beside: set[str]) -> Path:
    """Copy the package without its rooms, but for some, to a folder of its own."""
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCE, folder / "site/windlass", ignore=skipped)
    for room in ROOMS - beside:
        place = folder / "site/windlass" / room
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.with_suffix(".py").unlink()
    return folder / "site"


def python(site: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=1_800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    return done.stdout


def test_every_part_of_the_package_is_core_or_a_room() -> None:
    parts = {path.stem for path in SOURCE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert parts - {"__init__", "__pycache__"} == CORE | ROOMS
    assert not CORE & ROOMS


def test_core_runs_an_agent_without_rooms_and_says_what_a_room_needs(tmp_path: Path) -> None:
    site = copy_core(tmp_path, set())
    first, second, *refused = python(site, "-c", WITHOUT_ROOMS).splitlines()
    assert first == "Hello."
    assert second.startswith(
        "windlass.postgres cannot be used here, because windlass.postgres is not installed"
    )
    assert second.endswith("pip install 'windlass-runtime[postgres]'")
    assert refused == sorted(rooms.ROOMS)


@pytest.mark.slow
@pytest.mark.parametrize(("tests", "beside"), [(ALONE, TESTING), (STORED, STORES)], ids=["alone", "stored"])
def test_the_tests_of_core_pass_without_rooms(
    tmp_path: Path, tests: tuple[str, ...], beside: set[str]
) -> None:
    options = ("-m", "not slow and not hypothesis", "-k", "not postgres", "-p", "no:cacheprovider")
    told = python(copy_core(tmp_path, beside), "-m", "pytest", *options, *tests)
    assert " passed" in told
    assert " failed" not in told
