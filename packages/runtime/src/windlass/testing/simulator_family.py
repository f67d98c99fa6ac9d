"""What must be true of callers and their subagents, when a story has ended."""

from collections.abc import Mapping, Sequence

from windlass.testing.world import World
from windlass_harness.views import fold_runs
from windlass_protocol import Record


def check_family(world: World, journals: Mapping[str, Sequence[Record]]) -> None:
    """Who was called began once, whoever began was called, and reports are true."""
    called: dict[str, str] = {}
    for records in journals.values():
        for record in records:
            if record.type == "subagent.called":
                child_id = str(record.data["childRunId"])
                if child_id in called:
                    world.blame(f"{child_id} was called twice")
                called[child_id] = str(record.data["childSessionId"])
            elif record.type == "subagent.completed":
                _check_report(world, record, journals)
    for child_id, session_id in called.items():
        if child_id not in fold_runs(journals.get(session_id, ())).runs:
            world.blame(f"{child_id} was called and never began")
    for session_id, records in journals.items():
        is_wanted = session_id in called.values() or not session_id.startswith("session:subagent:")
        if records and not is_wanted:
            world.blame(f"{session_id} began and nobody called")


def _check_report(world: World, record: Record, journals: Mapping[str, Sequence[Record]]) -> None:
    """What a caller was told of a subagent is what the journal of that one says."""
    child_id, data = str(record.data["childRunId"]), record.data
    run = fold_runs(journals.get(str(data["childSessionId"]), ())).runs.get(child_id)
    result = None if run is None else run.result
    if result is None or result.status != data["status"]:
        world.blame(f"{child_id} is told to be {data['status']}, and is {result and result.status}")
    elif result.status == "completed" and result.output != data["output"]:
        world.blame(f"{child_id} is told to have said {data['output']!r}, and said {result.output!r}")
