"""Makes the sidecar one folder that needs no Python: `make sidecar-bundle`.

    python -m tools.bundle [FOLDER]

PyInstaller and what the sidecar needs are installed into an environment of their own. The result is started
without anything on PATH, asked how it is, made to run a chat, and measured.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import IO, Final

from tools.files import ROOT

SIZE_BYTES_MAX: Final = 300 * 1_000_000
READY_CPU_S: Final = 1.0
"""The target; a slow machine may need more, so it is only reported."""
ANSWER_TIMEOUT_S: Final = 300
NAME: Final = "windlass-sidecar"
SOURCES: Final = ("protocol", "harness", "runtime", "sidecar")
# Modules that are imported by name on first use, and so are not found by an analysis of the imports.
HIDDEN: Final = (
    "windlass",
    "windlass_harness",
    "windlass_protocol",
    "windlass_sidecar",
    "tree_sitter",
    "tree_sitter_bash",
)
EXCLUDED: Final = ("tkinter", "_tkinter", "test", "unittest", "pydoc", "lib2to3", "idlelib")
ENTRY: Final = "from windlass_sidecar.main import main\n\nmain()\n"


def main() -> None:
    """Build it, try it and say how large and how quick it is."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".bundle"
    folder.mkdir(parents=True, exist_ok=True)
    made = build(folder.resolve())
    size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file() and not path.is_symlink())
    if size > SIZE_BYTES_MAX:
        sys.exit(f"{made}: {size / 1e6:.0f} MB, limit {SIZE_BYTES_MAX / 1e6:.0f} MB")
    with serving() as url:
        attempt(made / NAME, url)  # the first start reads everything from the disk
        cpu_s = attempt(made / NAME, url)
    print(f"{made}: {size / 1e6:.0f} MB (limit {SIZE_BYTES_MAX / 1e6:.0f})")
    print(f"ready after {cpu_s:.2f} s of CPU (aim {READY_CPU_S:.0f}), answers without a Python on PATH")


def build(folder: Path) -> Path:
    """Install what is needed and freeze it; return the folder to ship."""
    python = folder / "env" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "env", with_pip=True)
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run(*pip, "--require-hashes", "-r", str(ROOT / "requirements" / "bundle.txt"))
    packages = [str(ROOT / "packages" / name) for name in SOURCES]
    run(*pip, "--no-deps", "--no-build-isolation", "--force-reinstall", *packages)
    entry = folder / "entry.py"
    entry.write_text(ENTRY, encoding="utf-8")
    shutil.rmtree(folder / "dist", ignore_errors=True)
    collected = [f"--collect-submodules={name}" for name in HIDDEN]
    left_out = [f"--exclude-module={name}" for name in EXCLUDED]
    command = [
        str(python),
        "-m",
        "PyInstaller",
        "--noconfirm",
        "--onedir",
        "--name",
        NAME,
        "--log-level=WARN",
    ]
    places = ["--distpath", folder / "dist", "--workpath", folder / "work", "--specpath", folder]
    run(*command, *collected, *left_out, *map(str, places), str(entry))
    return folder / "dist" / NAME


def run(*command: str) -> None:
    """Run a command; one that fails ends everything."""
    subprocess.run(command, check=True)


class Model(BaseHTTPRequestHandler):
    """Answers as a server of models does, always the same."""

    def do_POST(self) -> None:
        """Stream one short answer."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for delta, reason in (({"content": "hi"}, None), ({}, "stop")):
            chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - so it is called there
        """Say nothing."""


@contextmanager
def serving() -> Generator[str]:
    """Serve a model on this machine; gives its address."""
    server = HTTPServer(("127.0.0.1", 0), Model)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def attempt(program: Path, url: str) -> float:
    """Start the bundle and use it; return the CPU seconds until it was ready."""
    # Nothing is on PATH, least of all a Python.
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [str(program), "--store", "store.db"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"PATH": "/nonexistent"},
        ) as child,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        expect(child.stdout, "lifecycle.ready")
        ready_s = _cpu_s(child.pid)
        ask(child.stdin, "system.ping")
        found = expect(child.stdout, "result")
        assert found["result"]["status"] == "ok", found
        message = {"role": "user", "content": "hello"}
        for provider in ("openai", "demo"):
            chat = {"provider": provider, "model": "m", "baseUrl": url, "messages": [message]}
            ask(child.stdin, "agent.chat.stream", **chat)
            done = expect(child.stdout, "stream.done")
            assert done["params"]["ok"] is True, done
        ask(child.stdin, "agent.session.create", chatId="c")
        expect(child.stdout, "result")
        child.stdin.close()
        expect(child.stdout, "lifecycle.shutdown")
        if child.wait(ANSWER_TIMEOUT_S) != 0:
            sys.exit(f"{program} ended with {child.returncode}")
    return ready_s


def ask(stdin: IO[bytes], method: str, **params: object) -> None:
    """Send a request."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    stdin.write(json.dumps(body).encode() + b"\n")
    stdin.flush()


def expect(stdout: IO[bytes], wanted: str) -> dict[str, dict[str, object]]:
    """Return the next result, or the next message of a method, or give up."""
    limit_s = time.monotonic() + ANSWER_TIMEOUT_S
    while time.monotonic() < limit_s and (line := stdout.readline()):
        message = json.loads(line)
        if message.get("method") == wanted or wanted in message:
            return message
        if "error" in message:
            sys.exit(f"the bundle answered {message['error']}")
    sys.exit(f"the bundle said nothing of {wanted}")


def _cpu_s(pid: int) -> float:
    """CPU seconds of a process so far; 0 where that is not available."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
