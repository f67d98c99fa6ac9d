"""Enumerations of the recorder, cheap to import."""

from enum import StrEnum


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


class RecordingError(ValueError):
    """A call of the recorder is invalid, or its record cannot be written; see `strict`."""
