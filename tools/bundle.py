"""Makes the sidecar one folder that needs no Python: `make sidecar-bundle`.

    python -m tools.bundle [FOLDER]

PyInstaller and the requirements of the sidecar are installed into an environment of their own. The bundle is
started without anything on PATH, asked for its health, made to run a chat, and measured. A tool of a user may
import any module of the standard library, so the bundle has all public ones, and a tool imports them in it.
"""

import json
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import IO, Final

from tools.files import ROOT

SIZE_BYTES_MAX: Final = 300 * 1_000_000
READY_CPU_S: Final = 1.0
"""The target; a slow machine may need more, so it is only reported."""
ANSWER_TIMEOUT_S: Final = 300
NAME: Final = "windlass-sidecar"
IS_WINDOWS: Final = sys.platform == "win32"
SYSTEM: Final = {"SYSTEMROOT": os.environ["SYSTEMROOT"]} if IS_WINDOWS else {}
"""Variables without which no program opens a socket there."""
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
EXCLUDED: Final = ("test",)
"""The tests of Python itself, which are no part of `sys.stdlib_module_names`."""
PROGRAMS: Final = ("idlelib", "turtledemo")
"""Packages of programs: importing one of their modules starts it."""
PROBE: Final = '''"""A tool of a user that imports modules."""

import importlib

from windlass import tool


@tool(mode="read")
def failed_imports(names: list[str]) -> dict[str, str]:
    """Import modules; return the failures."""
    failed: dict[str, str] = {}
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:
            failed[name] = f"{type(error).__name__}: {error}"
    return failed
'''
"""Loaded by the bundle with `--tools`, and by the Python that it is made of."""
ENTRY: Final = "from windlass_sidecar.main import main\n\nmain()\n"


def main() -> None:
    """Build it, try it and say how large and how quick it is."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".bundle"
    folder.mkdir(parents=True, exist_ok=True)
    names = importable(folder.resolve())
    made = build(folder.resolve(), names)
    size = checked_size(made)
    with serving() as url:
        program = made / (f"{NAME}.exe" if IS_WINDOWS else NAME)
        attempt(program, url, names)  # the first start reads everything from the disk
        cpu_s = attempt(program, url)
    print(f"{made}: {size / 1e6:.0f} MB (limit {SIZE_BYTES_MAX / 1e6:.0f})")
    print(f"has {len(names)} modules of the standard library")
    print(f"ready after {cpu_s:.2f} s of CPU (aim {READY_CPU_S:.0f}), answers without a Python on PATH")


def checked_size(made: Path) -> int:
    """Return the bytes of a bundle; one that is too large ends everything."""
    size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file() and not path.is_symlink())
    if size > SIZE_BYTES_MAX:
        sys.exit(f"{made}: {size / 1e6:.0f} MB, limit {SIZE_BYTES_MAX / 1e6:.0f} MB")
    return size


def stdlib_modules() -> list[str]:
    """Return the public modules of the standard library, submodules included, that are on the disk."""
    names: list[str] = []
    for name in sorted(sys.stdlib_module_names):
        # `antigravity` opens a browser when it is imported.
        spec = None if name.startswith("_") or name == "antigravity" else find_spec(name)
        if spec is None:
            continue
        names.append(name)
        if spec.submodule_search_locations is not None and name not in PROGRAMS:
            names += _submodules(name, list(spec.submodule_search_locations))
    return names


def _submodules(package: str, places: list[str]) -> list[str]:
    names: list[str] = []
    for found in pkgutil.iter_modules(places):
        if found.name.startswith("_") or found.name in ("test", "tests"):
            continue
        names.append(f"{package}.{found.name}")
        if found.ispkg:
            names += _submodules(names[-1], [str(Path(place) / found.name) for place in places])
    return names


def importable(folder: Path) -> list[str]:
    """Return the public modules that this Python imports; others belong to other systems, as `winreg`."""
    install(folder)
    (folder / "probe.py").write_text(PROBE, encoding="utf-8")
    names = stdlib_modules()
    script = "import json, probe, sys; print(json.dumps(probe.failed_imports(json.loads(sys.argv[1]))))"
    python = python_in(folder)
    result = subprocess.run(
        [str(python), "-W", "ignore", "-c", script, json.dumps(names)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    failed = json.loads(result.stdout.splitlines()[-1])  # `this` prints a poem before
    return [name for name in names if name not in failed]


def python_in(folder: Path) -> Path:
    """Return the Python of the environment of the bundle."""
    return folder / "env" / ("Scripts/python.exe" if IS_WINDOWS else "bin/python")


def install(folder: Path) -> None:
    """Install the sidecar and its requirements into an environment of their own."""
    python = python_in(folder)
    if not python.exists():
        venv.create(folder / "env")
    # PyInstaller compiles the sources itself.
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-compile"]
    pip += ["-q", "--disable-pip-version-check"]
    run(*pip, "--require-hashes", "-r", str(ROOT / "requirements" / "bundle.txt"))
    packages = [str(ROOT / "packages" / name) for name in SOURCES]
    run(*pip, "--no-deps", "--no-build-isolation", "--force-reinstall", *packages)


def build(folder: Path, names: list[str]) -> Path:
    """Freeze the sidecar with these modules; return the folder to ship."""
    python = python_in(folder)
    entry = folder / "entry.py"
    entry.write_text(ENTRY, encoding="utf-8")
    shutil.rmtree(folder / "dist", ignore_errors=True)
    collected = [f"--collect-submodules={name}" for name in HIDDEN]
    collected += [f"--hidden-import={name}" for name in names]
    # Prices are read by the version of their table, which is the metadata of its distribution.
    collected.append("--copy-metadata=genai-prices")
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


def attempt(program: Path, url: str, names: list[str] | None = None) -> float:
    """Start the bundle and use it; return the CPU seconds until it was ready.

    With `names` it loads a tool of a user, which imports these modules.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "probe.py").write_text(PROBE, encoding="utf-8")
        return _attempt(program, url, names, folder=folder)


def _attempt(program: Path, url: str, names: list[str] | None, *, folder: str) -> float:
    tools = [] if names is None else ["--tools", "probe.py"]
    # Nothing is on PATH, least of all a Python.
    with (
        subprocess.Popen(
            [str(program), "--store", "store.db", *tools],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"PATH": "/nonexistent", **SYSTEM},
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
        if names is not None:
            ask(child.stdin, "tool.invoke", name="failed_imports", arguments={"names": names})
            failed = expect(child.stdout, "result")["result"]
            if failed != {"success": True, "data": {}}:
                sys.exit(f"the bundle lacks modules of the standard library: {failed}")
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
