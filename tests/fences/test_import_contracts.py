"""The import contracts and the ruff bans fail on planted violations.

Each test plants one violation in a copy of the packages and runs the tool there.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.files import ROOT

PROTOCOL = "packages/protocol/src/windlass_protocol/planted.py"
HARNESS = "packages/harness/src/windlass_harness/planted.py"
RUNTIME = "packages/runtime/src/windlass/planted.py"
ADAPTER = "packages/runtime/src/windlass/adapters/planted.py"

INSIDE = "packages/runtime/src/windlass"

TOOL_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the packages in which anything may be planted."""

    root: Path

    def plant(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def add(self, path: str, line: str) -> None:
        """Add a line at the end of a file that is there."""
        with (self.root / path).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def ruff(self, path: str = "packages") -> subprocess.CompletedProcess[str]:
        return self._run("ruff", "check", "--no-cache", "--output-format=concise", path)

    def lint_imports(self) -> subprocess.CompletedProcess[str]:
        return self._run("lint-imports", "--no-cache")

    def _run(self, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        sources = os.pathsep.join(str(path) for path in sorted(self.root.glob("packages/*/src")))
        return subprocess.run(
            [str(Path(sys.executable).with_name(tool)), *arguments],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": sources, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=TOOL_TIMEOUT_S,
            check=False,
        )


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "packages", tmp_path / "packages", ignore=shutil.ignore_patterns("__pycache__"))
    return Copy(tmp_path)


@pytest.mark.promise("H1")
def test_the_packages_as_they_are_keep_every_contract(copy: Copy) -> None:
    result = copy.lint_imports()
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_packages_as_they_are_break_no_ban(copy: Copy) -> None:
    result = copy.ruff()
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.promise("H1")
@pytest.mark.parametrize(
    ("path", "text", "broken"),
    [
        (HARNESS, "import time", "windlass_harness.planted -> time (l.1)"),
        (HARNESS, "from os import environ", "windlass_harness.planted -> os (l.1)"),
        (PROTOCOL, "import windlass", "windlass_protocol.planted -> windlass (l.1)"),
        (PROTOCOL, "\nimport windlass_harness", "windlass_protocol.planted -> windlass_harness (l.2)"),
        (HARNESS, "def f():\n    import windlass", "windlass_harness.planted -> windlass (l.2)"),
    ],
    ids=[
        "a clock",
        "the environment",
        "protocol to runtime",
        "protocol to harness",
        "harness to runtime, hidden",
    ],
)
def test_an_import_that_a_tier_may_not_have_is_named_with_its_line(
    copy: Copy, path: str, text: str, broken: str
) -> None:
    copy.plant(path, f"{text}\n")
    result = copy.lint_imports()
    assert result.returncode != 0, result.stdout
    assert broken in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("path", "text", "contract", "broken"),
    [
        (
            "ports/planted.py",
            "import windlass.tools",
            "Inside the runtime",
            "windlass.ports.planted -> windlass.tools",
        ),
        (
            "ports/planted.py",
            "import windlass.engine.driving.driver",
            "Inside the runtime",
            "windlass.ports.planted -> windlass.engine.driving.driver",
        ),
        ("limits.py", "import windlass.ports", "Inside the runtime", "windlass.limits -> windlass.ports"),
        (
            "engine/planted.py",
            "import windlass.adapters.system",
            "Inside the runtime",
            "windlass.engine.planted -> windlass.adapters.system",
        ),
        (
            "engine/planted.py",
            "import windlass.runtime.core",
            "Inside the runtime",
            "windlass.engine.planted -> windlass.runtime.core",
        ),
        (
            "adapters/journals/planted.py",
            "import windlass.engine.writing.writer",
            "Inside the runtime",
            "windlass.adapters.journals.planted -> windlass.engine.writing.writer",
        ),
        (
            "tools/planted.py",
            "import windlass.engine.tool_calls.approval",
            "Inside the runtime",
            "windlass.tools.planted -> windlass.engine.tool_calls.approval",
        ),
        (
            "runtime/planted.py",
            "import windlass.catalog.sessions",
            "Inside the runtime",
            "windlass.runtime.planted -> windlass.catalog.sessions",
        ),
        (
            "mcp/planted.py",
            "import windlass.webhooks",
            "Inside the runtime",
            "windlass.mcp.planted -> windlass.webhooks",
        ),
        (
            "runtime/builder.py",
            "import windlass.adapters.system",
            "Few name adapters",
            "windlass.runtime.builder -> windlass.adapters.system",
        ),
        (
            "runtime/rooms.py",
            "import windlass.sandboxes.none",
            "Core imports no room",
            "windlass.runtime.rooms -> windlass.sandboxes.none",
        ),
        (
            "postgres/planted.py",
            "import windlass.sqlite.files",
            "Stores do not know each other",
            "windlass.postgres.planted -> windlass.sqlite.files",
        ),
        ("planted.py", "", "Inside the runtime", "windlass.planted"),
    ],
    ids=[
        "a port to a tool",
        "a port to the engine",
        "limits to a port",
        "the engine to an adapter",
        "the engine to the runtime",
        "an adapter to the engine",
        "a tool to the engine",
        "the catalogue to the runtime",
        "a room to another",
        "the builder to an adapter",
        "the seam to a room",
        "a store to another",
        "a module that has no layer",
    ],
)
def test_an_import_that_a_part_of_the_runtime_may_not_have_breaks_its_contract(
    copy: Copy, path: str, text: str, contract: str, broken: str
) -> None:
    copy.add(f"{INSIDE}/{path}", text)
    result = copy.lint_imports()
    assert result.returncode != 0, result.stdout
    told = " ".join(result.stdout.split())
    assert f"{contract}" in told.partition("Broken contracts")[2], result.stdout
    assert broken in told


@pytest.mark.parametrize(
    ("rule", "line", "text"),
    [
        ("TID251", 3, "import time\n\nSTART = time.time()\n"),
        ("TID251", 3, "import time\n\ntime.sleep(1)\n"),
        ("TID251", 3, "from datetime import UTC, datetime\n\nNOW = datetime.now(UTC)\n"),
        ("TID251", 3, "import uuid\n\nRUN_ID = uuid.uuid4()\n"),
        ("TID251", 1, "from uuid import uuid4\n\nRUN_ID = uuid4()\n"),
        ("TID251", 1, "import random\n\nX = random.random()\n"),
        ("TID251", 1, "from secrets import token_hex\n\nX = token_hex()\n"),
        ("TID251", 3, "import os\n\nHOME = os.environ\n"),
        ("TID252", 1, "from . import other\n\nX = other\n"),
        ("T201", 1, 'print("hello")\n'),
        ("BLE001", 3, "try:\n    X = 1\nexcept Exception:\n    X = 2\n"),
        ("PLC0415", 2, "def f() -> None:\n    import json\n\n    json.dumps(1)\n"),
        ("PGH003", 1, "X: int = 1  # type: ignore\n"),
        ("PGH004", 1, "X: int = 1  # noqa\n"),
        ("RUF022", 1, '__all__ = ["b", "a"]\n\na = b = 1\n'),
    ],
    ids=lambda value: value.splitlines()[-1].strip() if isinstance(value, str) and "\n" in value else None,
)
def test_a_banned_call_in_the_runtime_is_reported_with_its_line(
    copy: Copy, rule: str, line: int, text: str
) -> None:
    copy.plant(RUNTIME, text)
    result = copy.ruff(RUNTIME)
    assert result.returncode != 0, result.stdout
    found = {tuple(entry.split(":")[:2]) for entry in result.stdout.splitlines() if f" {rule} " in entry}
    assert found == {(RUNTIME, str(line))}, result.stdout


def test_adapters_are_where_clocks_ids_and_randomness_come_from(copy: Copy) -> None:
    copy.plant(
        ADAPTER, "import random\nimport time\nimport uuid\n\nX = (random, time.time(), uuid.uuid4())\n"
    )
    result = copy.ruff(ADAPTER)
    assert result.returncode == 0, result.stdout
    copy.plant(ADAPTER, "print()\n")
    assert copy.ruff(ADAPTER).returncode != 0
