"""A process is killed at every append of a run with a program: five calls at once, two of them approved."""

import os
import signal
from pathlib import Path
from typing import Any, Final

import pytest
from tests.faults.forks import in_lanes, run_story
from tests.faults.rig import runtime_on
from tests.faults.scene import ends_of, records_of

from windlass import Agent, Approval, tool
from windlass.adapters.journals.sqlite.store import SqliteStore
from windlass.adapters.monty import MontyInterpreter
from windlass.ports.store import Appended, Batch
from windlass.runtime.runs import RunHandle
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.testing.stores import WrappedStore
from windlass.tools.context import ToolContext
from windlass_protocol.generated.event_data import ActionResultData

WAIT_S: Final = 300.0
SOURCE: Final = """
import asyncio, random
lucky = random.random()
found = await asyncio.gather(put("a"), put("b"), pay(1), put("c"), pay(2))
print(len(found), "are done")
last = await put(f"{found} {lucky}")
{"found": found, "last": last}
"""
APPENDS: Final = 16
"""More than there are, so that the last lives are whole."""
POINTS: Final = [(number, is_durable) for number in range(1, APPENDS + 1) for is_durable in (False, True)]


class KillingStore(WrappedStore):
    """A store that ends the process before or after the append of this number."""

    def __init__(self, inner: SqliteStore, number: int, *, is_durable: bool) -> None:
        super().__init__(inner)
        self._left = number
        self._is_durable = is_durable

    async def append(self, batch: Batch) -> Appended:
        self._left -= bool(batch.drafts)
        if self._left == 0 and not self._is_durable:
            os.kill(os.getpid(), signal.SIGKILL)
        appended = await super().append(batch)
        if self._left == 0 and batch.drafts:
            os.kill(os.getpid(), signal.SIGKILL)
        return appended


class OtherRelease(MontyInterpreter):
    """An interpreter that loads no snapshot of the first one: it runs the program from its source."""

    @property
    def version(self) -> str:
        return "monty/of another release"


def buyer(ledger: Path) -> Agent:
    def enter(context: ToolContext, what: str) -> str:
        with ledger.open("a") as file:
            file.write(f"{context.call_id}\n")
        return f"{what} is done"

    @tool(mode="safe_write", effect="idempotent")
    async def put(item: str, context: ToolContext) -> str:
        """Put a thing down."""
        return enter(context, item[:1])

    @tool(mode="external", effect="idempotent")
    async def pay(cents: int, context: ToolContext) -> str:
        """Pay."""
        return enter(context, f"{cents}")

    script = [call("run_code", {"code": SOURCE}), say("all done")]
    return Agent("buyer", model=ScriptedModel(by_history(script)), tools=[put, pay], code_mode=True)


async def approve_all(handle: RunHandle) -> None:
    """Approve all requests of a run, until it ends."""
    async for request in handle.requests():
        assert isinstance(request, Approval)
        await request.approve()


async def live(folder: Path, number: int, is_durable: bool, is_other: bool) -> dict[str, Any]:
    """Drive the run, and report the outcome."""
    ledger = folder / "ledger"
    store = KillingStore(await SqliteStore.open(folder / "p.db"), number, is_durable=is_durable)
    agent = buyer(ledger)
    earlier = [record.data for record in await records_of(store) if record.type == "action.result"]
    before = {ActionResultData.model_validate(data).result.call_id for data in earlier}
    lines = len(ledger.read_text().splitlines()) if ledger.exists() else 0
    interpreter = OtherRelease() if is_other else MontyInterpreter()
    async with runtime_on(store, [agent], interpreter=interpreter) as runtime:
        handle = await runtime.start(agent, "go", session_id="s1", run_id="r1")
        await approve_all(handle)
        result = await handle.wait(timeout=WAIT_S)
        records = await records_of(store)
    made = ledger.read_text().splitlines()
    program = [one for one in records if one.type == "action.result"][-1]
    return {
        "output": result.output,
        "ends": ends_of(records),
        "value": program.data["result"],
        "repeated": [one for one in made[lines:] if one in before],
        "made": made,
        "types": [record.type for record in records],
    }


def killed_and_resumed(folder: Path, point: tuple[int, bool], *, is_other: bool) -> dict[str, Any]:
    home = folder / f"{point[0]}-{point[1]}"
    home.mkdir()
    first = run_story(lambda: live(home, *point, is_other=False), home / "first")
    second = run_story(lambda: live(home, 0, is_durable=True, is_other=is_other), home / "second")
    return {"killed": first.is_killed, "fine": second.is_fine, "told": second.report}


@pytest.mark.parametrize("is_other", [False, True], ids=["snapshot", "from its source"])
def test_a_program_survives_a_kill_at_every_append(tmp_path: Path, is_other: bool) -> None:
    lives = in_lanes(lambda point: killed_and_resumed(tmp_path, point, is_other=is_other), POINTS, tmp_path)
    assert sum(life["killed"] for life in lives) >= 20, "there is something to kill"
    values: set[str] = set()
    for point, life in zip(POINTS, lives, strict=True):
        assert life["fine"], (point, life)
        told = life["told"]
        assert told["output"] == "all done", point
        assert told["ends"] == ["run.completed"], point
        assert told["repeated"] == [], (point, told)
        assert set(told["made"]) == {f"call-1/{number}" for number in range(6)}, (point, told)
        # A call that the kill interrupted is made once more, under the same key.
        assert len(told["made"]) <= 11, (point, told)
        values.add(str(told["value"]["output"]))
        assert told["types"].count("input.requested") <= 4, point
    assert len(values) == 1, "the program goes the same way, whatever happens to its process"
