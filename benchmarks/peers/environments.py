"""An environment for each peer, made once and kept until its pins change."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".bench"
INSTALL_S_MAX = 300


class NotInstalled(Exception):
    """The environment of a peer could not be made; says why."""


def python_of(peer: str | None) -> Path:
    """Return the interpreter to run a peer with; None is this project's own.

    Raises:
        NotInstalled: its packages could not be installed.
    """
    if peer is None:
        return Path(sys.executable)
    home, pins = CACHE / peer, Path(__file__).with_name(f"{peer}.txt").read_text("utf-8")
    python, stamp = home / "bin" / "python", home / "installed.txt"
    if stamp.exists() and stamp.read_text("utf-8") == pins:
        return python
    print(f"{peer}: making its environment in {home.relative_to(ROOT)}", flush=True)
    shutil.rmtree(home, ignore_errors=True)
    _call(sys.executable, "-m", "venv", str(home))
    _call(str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", _pins_path(peer))
    stamp.write_text(pins, "utf-8")
    return python


def make_cache() -> None:
    """Make the cache folder; it keeps itself out of git."""
    CACHE.mkdir(exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n", "ascii")


def _pins_path(peer: str) -> str:
    return str(Path(__file__).with_name(f"{peer}.txt"))


def _call(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_S_MAX)
    except subprocess.CalledProcessError as error:
        raise NotInstalled(last_line(error.stderr)) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(type(error).__name__) from error


def last_line(text: str) -> str:
    """Return the last line that says something, without the paths of this machine."""
    lines = [line for line in text.splitlines() if line.strip()] or ["no message"]
    return lines[-1].strip().replace(str(ROOT), ".")[:160]
