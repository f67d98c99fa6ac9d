"""Helpers of the sandbox tests: commands under the real bwrap, as this user and as one without rights."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.toolbox.rig import play

from windlass.errors import Rejected
from windlass.sandboxes.bubblewrap import BubblewrapSandboxes
from windlass.sandboxes.none import HostSandboxes
from windlass_protocol import SandboxSpec

GUARD_S = 300.0
NOBODY = 65_534
BUBBLEWRAP = SandboxSpec(adapter="bubblewrap")


def require_bwrap() -> None:
    """Skip a test where bwrap is not installed or not allowed; in continuous integration it fails."""

    async def check() -> str | None:
        sandboxes = BubblewrapSandboxes()
        try:
            await sandboxes.check(BUBBLEWRAP)
        except Rejected as error:
            return error.message
        finally:
            await sandboxes.aclose()
        return None

    problem = asyncio.run(check())
    if problem is not None:
        assert "CI" not in os.environ, problem
        pytest.skip(problem)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a command."""

    exit_code: int | None
    output: str
    reason: str = ""


async def command(
    sandboxes: BubblewrapSandboxes | HostSandboxes,
    text: str,
    *,
    spec: SandboxSpec = BUBBLEWRAP,
    folder: Path | None = None,
    timeout_s: float = 60,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a command in a sandbox."""
    output = bytearray()
    sandbox = await sandboxes.open(spec, key="s1", folder=folder)
    ended = await sandbox.run(text, timeout_s=timeout_s, output=output.extend, environment=environment or {})
    return Outcome(ended.exit_code, output.decode("utf-8", "replace"), ended.reason)


def attack(text: str, folder: Path, *, spec: SandboxSpec = BUBBLEWRAP, timeout_s: float = 60) -> Outcome:
    """Run a command under bwrap, with a folder."""

    async def story() -> Outcome:
        sandboxes = BubblewrapSandboxes(folder.parent / "root")
        try:
            return await command(sandboxes, text, spec=spec, folder=folder, timeout_s=timeout_s)
        finally:
            await sandboxes.aclose()

    return play(story())


def outside(text: str, folder: Path) -> Outcome:
    """Run a command without a sandbox: what it would have done."""

    async def story() -> Outcome:
        return await command(HostSandboxes(folder.parent / "root"), text, folder=folder)

    return play(story())


def as_nobody(attacks: Iterable[str], folder: Path) -> list[Outcome]:
    """Run commands under bwrap in a process of a user without rights; needs root."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sandbox.nobody", str(folder)],
        input=json.dumps([*attacks]),
        capture_output=True,
        text=True,
        check=False,
        timeout=GUARD_S,
        env={**os.environ, "WINDLASS_CANARY": CANARY},
    )
    assert done.returncode == 0, done.stderr
    return [Outcome(*one) for one in json.loads(done.stdout)]


CANARY = "canary-of-the-outside"
"""A secret in a file and in a variable of the host process."""
PYTHON = "python3" if shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") else ""
