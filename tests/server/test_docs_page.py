"""The commands on the page of the server do what the page says."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from tests.server.rig import TIMEOUT_S

from tools.doc_blocks import blocks
from tools.files import ROOT
from windlass_server.problems import CODE_OF_STATUS, STATUS_OF_CODE

PAGE = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_five_minutes_with_curl_are_true(tmp_path: Path) -> None:
    port = free_port()
    commands = "\n".join(block.code for block in blocks(PAGE) if block.language == "bash")
    assert "kill -9" in commands
    script = commands.replace("localhost:8700", f"127.0.0.1:{port}")
    script = script.replace("-m windlass_server", f"-m windlass_server --port {port}")
    # Kill the server process in any case.
    script = f"trap 'kill -9 $(jobs -p) 2>/dev/null' EXIT\nset -euo pipefail\n{script}\n"
    python = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{python}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('{"status":"ok"') == 2
    assert '"type":"run.waiting"' in done.stdout
    assert '"type":"run.completed"' in done.stdout
    assert "paid 1 cents" in done.stdout.splitlines()[-1]


def test_the_five_minutes_of_the_readme_are_true(tmp_path: Path) -> None:
    port = free_port()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## Over HTTP")[2].partition("\n## ")[0]
    begin, answer = (block.code for block in blocks(section) if block.language == "bash")
    assert "press `Ctrl-\\`" in section
    serve = f'"{sys.executable}" -m windlass_cli dev --no-reload --port {port} & SERVER=$!'
    wait = f"curl -s --retry 60 --retry-all-errors --retry-delay 1 127.0.0.1:{port}/v1/health"
    steps = (serve, wait, begin, "kill -9 $SERVER", "wait $SERVER || true", serve, answer)
    script = "\n".join(steps).replace("localhost:8700", f"127.0.0.1:{port}")
    script = f"trap 'kill -9 $SERVER' EXIT\nset -euo pipefail\n{script}\n"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '"type":"run.waiting"' in done.stdout
    assert '"type":"run.completed"' in done.stdout.splitlines()[-1]
    assert "paid 1 cents" in done.stdout.splitlines()[-1]


def test_the_page_lists_every_code() -> None:
    listed = set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE))))
    codes = {*CODE_OF_STATUS.values(), *STATUS_OF_CODE}
    assert codes <= listed
