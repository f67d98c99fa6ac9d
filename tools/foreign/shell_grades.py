"""GTFOBins and Atomic Red Team: no command that breaks out, or attacks, is graded safe."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tools.foreign.counts import Counts
from windlass_harness.shell import classify_shell_command

_SHELLS = {"sh", "bash"}


def breakouts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the commands of GTFOBins, with their names."""
    for path in sorted((folder / "_gtfobins").iterdir()):
        page: Any = next(yaml.safe_load_all(path.read_text(encoding="utf-8")), None) or {}
        for name, examples in page.get("functions", {}).items():
            for number, example in enumerate(examples or ()):
                if "code" in (example or {}):
                    yield f"{path.stem} {name} {number}", example["code"]


def attacks(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the shell commands of Atomic Red Team, with their names."""
    for path in sorted((folder / "atomics").glob("T*/T*.yaml")):
        page: Any = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        for test in page.get("atomic_tests", ()):
            executor = test.get("executor", {})
            if executor.get("name") in _SHELLS:
                yield f"{path.stem} {test['name']}", executor["command"]


def main(kind: str, folder: Path) -> Counts:
    """Grade each command."""
    counts = Counts()
    for name, command in (breakouts if kind == "gtfobins" else attacks)(folder):
        verdict = classify_shell_command(command)
        shown = "; ".join(command.strip().splitlines())[:80]
        counts.check(name, f"`{shown}` is graded safe" if verdict.severity == "safe" else None)
    if counts.failures:
        counts.notes.append("safe means that a command only reads: discovery by an attacker may be that, too")
    return counts


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2])).show()
