"""A process that gives up the rights of root and then runs commands under bwrap: see `rig.as_nobody`."""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

from tests.sandbox.rig import NOBODY, command

from windlass.sandboxes import launch
from windlass.sandboxes.bubblewrap import BubblewrapSandboxes
from windlass_protocol import SandboxSpec

SPEC = SandboxSpec(adapter="bubblewrap", processes=64, memory_bytes=268_435_456, file_bytes=8_388_608)


def use_copied_launcher(folder: Path) -> None:
    """Copy the first process of a command: in the checkout, that user may not be able to read it."""
    program = folder / "launch.py"
    program.write_bytes(Path(launch.__file__).read_bytes())
    program.chmod(0o644)
    launch.__file__ = str(program)


async def main() -> None:
    folder, attacks = Path(sys.argv[1]), json.load(sys.stdin)
    # Once as root, to load all modules: the interpreter may be in a folder that the other user cannot read.
    for spec in (SPEC, SPEC.model_copy(update={"network": ("example.com",)})):
        await command(BubblewrapSandboxes(), "true", spec=spec, folder=folder)
    use_copied_launcher(folder.parent)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    sys.executable = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or ""
    sandboxes = BubblewrapSandboxes(folder.parent / "root")
    found: list[list[int | str | None]] = []
    for text in attacks:
        is_online = text.startswith("#network\n") and sys.executable
        spec = SPEC.model_copy(update={"network": ("example.com",)}) if is_online else SPEC
        outcome = await command(sandboxes, text, spec=spec, folder=folder, timeout_s=20)
        found.append([outcome.exit_code, outcome.output, outcome.reason])
    await sandboxes.aclose()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main())
