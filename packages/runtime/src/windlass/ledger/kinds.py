"""Enumerations of the recorder, cheap to import."""

from enum import StrEnum


class DecisionType(StrEnum):
    """What was chosen; the same words as on the wire."""

    TOOL_SELECTION = "tool_selection"
    PARAMETER_CHOICE = "parameter_choice"
    PATH_CHOICE = "path_choice"
    OUTPUT_FORMAT = "output_format"
    RETRY_STRATEGY = "retry_strategy"
    DELEGATION = "delegation"
    TERMINATION = "termination"
    CUSTOM = "custom"


class RunStatus(StrEnum):
    """Where a recorded run is; the same words as on the wire."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    STUCK = "stuck"
    """It has no end, its process is gone, and nothing was recorded for a while."""
    CANCELLED = "cancelled"


class RecordingError(ValueError):
    """What was to be recorded is not right, or cannot be kept; see `strict`."""
