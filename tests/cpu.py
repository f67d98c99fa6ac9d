"""Programs with a limit of CPU time: of a hostile text that would take minutes, a test sees so in seconds."""

import subprocess
import sys

_LIMIT = "import resource\nresource.setrlimit(resource.RLIMIT_CPU, ({0}, {0}))\n"


def run_within(cpu_s: int, program: str) -> None:
    """Run a program of Python in a process of its own; fail if it fails, or uses more CPU time."""
    done = subprocess.run(
        [sys.executable, "-c", _LIMIT.format(cpu_s) + program], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stderr}"
