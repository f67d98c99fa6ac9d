"""Which hooks of a run have run: one that was recorded does not run again."""

from dataclasses import dataclass, field
from typing import Final

from windlass_protocol import JsonObject, Record

RUN_STARTING: Final = "run_starting"
BEFORE_TOOL_CALL: Final = "before_tool_call"
AFTER_APPROVAL_DECISION: Final = "after_approval_decision"
BEFORE_RUN_COMPLETE: Final = "before_run_complete"
ON_RUN_CANCEL_REQUESTED: Final = "on_run_cancel_requested"
AFTER_RUN_TERMINAL: Final = "after_run_terminal"


@dataclass(slots=True)
class Hooked:
    """The hooks that have run."""

    points: set[str] = field(default_factory=set[str])
    """Points of the run itself."""
    calls: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Points of the calls of the newest step."""
    arguments: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """What hooks made of the arguments of calls."""
    vetoes: int = 0
    """How often the run was not allowed to complete."""

    def has(self, point: str, call_id: str | None = None) -> bool:
        """Whether the hooks of a point have run."""
        return point in (self.points if call_id is None else self.calls.get(call_id, ()))

    def apply(self, record: Record) -> None:
        """Take the record of a hook that ran."""
        point, call_id = str(record.data.get("point")), record.data.get("callId")
        if not isinstance(call_id, str):
            self.points.add(point)
            self.vetoes += point == BEFORE_RUN_COMPLETE and record.data.get("vetoed") is True
            return
        self.calls.setdefault(call_id, set()).add(point)
        change = record.data.get("change")
        given = change.get("arguments") if isinstance(change, dict) else None
        if isinstance(given, dict):
            self.arguments[call_id] = given

    def ask(self, call_id: str) -> None:
        """People are asked about a call: there will be another decision."""
        self.calls.get(call_id, set()).discard(AFTER_APPROVAL_DECISION)

    def begin_step(self) -> None:
        """Forget what belonged to the answer before."""
        self.points.discard(BEFORE_RUN_COMPLETE)
        self.calls.clear()
        self.arguments.clear()
