"""Enumerations and the error of the recorder, cheap to import."""

from enum import StrEnum
from typing import Literal


class DecisionType(StrEnum):
    """Kind of a decision; values as on the wire."""

    TOOL_SELECTION = "tool_selection"
    PARAMETER_CHOICE = "parameter_choice"
    PATH_CHOICE = "path_choice"
    OUTPUT_FORMAT = "output_format"
    RETRY_STRATEGY = "retry_strategy"
    DELEGATION = "delegation"
    TERMINATION = "termination"
    CUSTOM = "custom"


class RunStatus(StrEnum):
    """Status of a recorded run; values as on the wire."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    STUCK = "stuck"
    """The run has no end, its process is gone, and nothing was recorded for a while."""
    CANCELLED = "cancelled"


RecordingCode = Literal["rejected", "ambiguous_run", "run_not_open"]


class RecordingError(ValueError):
    """A call of the recorder is invalid, or its record cannot be written; see `strict`.

    `code` is stable, the text is not. `ambiguous_run`: the call names no run, its thread or task is not bound
    to one, and `run_ids` are open. `run_not_open`: the run in `run_ids` has ended, or another recorder or
    process started it. `rejected`: any other fault.
    """

    def __init__(
        self, message: str, *, code: RecordingCode = "rejected", run_ids: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.code: RecordingCode = code
        self.run_ids = run_ids
