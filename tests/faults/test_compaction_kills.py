"""A process is killed in the middle of a compaction; the next one goes on."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from tests.faults.forks import run_story
from tests.faults.rig import runtime_on
from tests.faults.scene import records_of
from tests.runtime.engine.compaction_rig import TASK, Guide, is_summary, walker

from windlass.ports.journal import Appended, Batch
from windlass.ports.model import LLMMessage
from windlass.sqlite.store import SqliteStore
from windlass.testing import Answer
from windlass.testing.stores import WrappedStore

STEPS: Final = 400
THRESHOLD: Final = 8_000
KILLED_AT: Final = 12
"""The compaction during which the process is killed."""
WAIT_S: Final = 300.0
Point = Literal["intent durable", "model asked", "result asked", "result durable", "never"]
POINTS: Final[tuple[Point, ...]] = ("intent durable", "model asked", "result asked", "result durable")


def end() -> None:
    """End as a crash does."""
    os.kill(os.getpid(), signal.SIGKILL)


class KillingStore(WrappedStore):
    """A store that ends the process around the records of a compaction."""

    def __init__(self, inner: SqliteStore, point: Point) -> None:
        super().__init__(inner)
        self._point = point
        self._begun = 0

    async def append(self, batch: Batch) -> Appended:
        types = {draft.type for draft in batch.drafts}
        self._begun += "compaction.requested" in types
        is_time = self._begun == KILLED_AT
        if is_time and "compaction.completed" in types and self._point == "result asked":
            end()
        appended = await super().append(batch)
        if is_time and "compaction.requested" in types and self._point == "intent durable":
            end()
        if is_time and "compaction.completed" in types and self._point == "result durable":
            end()
        return appended


class DoomedGuide(Guide):
    """A guide that kills its process while it writes a summary."""

    def __init__(self, point: Point) -> None:
        super().__init__(STEPS, THRESHOLD)
        self._point = point

    def __call__(self, messages: Sequence[LLMMessage]) -> Answer:
        answer = super().__call__(messages)
        if is_summary(messages) and self.summaries == KILLED_AT and self._point == "model asked":
            end()
        return answer


async def live(folder: Path, point: Point) -> dict[str, Any]:
    """Drive the run, and report the outcome."""
    store = KillingStore(await SqliteStore.open(folder / "walk.db"), point)
    guide = DoomedGuide(point)
    agent = walker(guide)
    async with runtime_on(store, [agent]) as runtime:
        handle = await runtime.start_run(agent, TASK, session_id="s1", run_id="r1")
        result = await handle.wait(timeout=WAIT_S)
        types = [record.type for record in await records_of(store)]
    return {
        "status": result.status.value,
        "output": result.output,
        "problems": guide.problems,
        "types": types,
    }


@pytest.mark.parametrize("point", POINTS)
def test_a_long_walk_survives_a_kill_in_a_compaction(tmp_path: Path, point: Point) -> None:
    assert run_story(lambda: live(tmp_path, point)).is_killed
    after = run_story(lambda: live(tmp_path, "never"), tmp_path / "report")
    assert after.is_fine, after
    told = after.report
    assert told["status"] == "completed"
    assert told["output"] == f"Arrived at stone {STEPS}."
    assert told["problems"] == []
    types = told["types"]
    assert types.count("step.completed") == STEPS + 1
    was_interrupted = point != "result durable"
    assert types.count("compaction.failed") == was_interrupted
    assert types.count("compaction.requested") == types.count("compaction.completed") + was_interrupted
