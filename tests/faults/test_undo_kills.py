"""`windlass runs undo` in real processes that are killed: each effect is reversed once."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

WAIT_S: Final = 280
COMMAND: Final = (sys.executable, "-m", "windlass_cli", "--agents", "books.py:agent")
CITIES: Final = ("Oslo", "Rome", "Bern")
BOOKS: Final = '''
import os, signal
from pathlib import Path

from windlass import Agent, ToolContext, tool
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.tools import UndoCall


def note(line: str) -> None:
    with Path("ledger").open("a") as file:
        file.write(line + "\\n")


def may_die(point: str) -> None:
    if os.environ.get("DIE_AT") == point:
        os.kill(os.getpid(), signal.SIGKILL)


@tool(mode="safe_write", effect="idempotent")
async def unbook(call: UndoCall, ctx: ToolContext) -> str:
    """Cancel a booking; the service knows the key."""
    city = str(call.arguments["city"])
    may_die(f"before {city}")
    note(f"unbook {city} {ctx.idempotency_key}")
    may_die(f"after {city}")
    return f"cancelled {city}"


@tool(mode="safe_write", effect="idempotent", undo=unbook)
async def book(city: str) -> str:
    """Book a hotel."""
    note(f"book {city} -")
    return city


script = [*(call("book", {"city": city}) for city in CITIES), say("Booked.")]
agent = Agent("travel", model=ScriptedModel(by_history(script)), tools=[book])
'''.replace("CITIES", repr(CITIES))


def windlass(folder: Path, *arguments: str, die_at: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DIE_AT": die_at}
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def test_an_undo_that_is_killed_in_its_middle_reverses_each_effect_once(tmp_path: Path) -> None:
    (tmp_path / "books.py").write_text(BOOKS, encoding="utf-8")
    booked = windlass(tmp_path, "run", "Book.", "--json")
    assert booked.returncode == 0, booked.stderr
    run_id = next(json.loads(line)["runId"] for line in booked.stdout.splitlines() if "runId" in line)
    # Newest first: Bern, then Rome, then Oslo. One dies with the effect done, one before its effect.
    for point in ("after Rome", "before Oslo"):
        killed = windlass(tmp_path, "runs", "undo", run_id, "--yes", die_at=point)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    ended = windlass(tmp_path, "runs", "undo", run_id, "--yes")
    assert ended.returncode == 0, ended.stderr
    assert "Reversed 3 calls" in ended.stdout

    lines = [line.split() for line in (tmp_path / "ledger").read_text(encoding="utf-8").splitlines()]
    undone = [(city, key) for what, city, key in lines if what == "unbook"]
    assert [city for city, _ in undone] == ["Bern", "Rome", "Rome", "Oslo"], "the interrupted one is repeated"
    assert len(set(undone)) == len({key for _, key in undone}) == 3, "with its key: the service cancels once"
    again = windlass(tmp_path, "runs", "undo", run_id, "--yes")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "ledger").read_text(encoding="utf-8").count("unbook") == 4
