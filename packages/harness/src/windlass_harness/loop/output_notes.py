"""What the loop notes about the output that a run has to have."""

from collections.abc import Callable
from typing import Final

from windlass_harness.loop import failures
from windlass_harness.loop.notes import RunNotes, number_in
from windlass_protocol import OutputContract, OutputFailedData, Record


def note_output(notes: RunNotes, record: Record) -> None:
    """Take a record about the output of a run."""
    _FOLLOW[record.type](notes, record)


def _requested(notes: RunNotes, record: Record) -> None:
    notes.contract = OutputContract.model_validate(record.data["contract"])


def _rejected(notes: RunNotes, record: Record) -> None:
    notes.rejections = number_in(record.data, "attempt")


def _failed(notes: RunNotes, record: Record) -> None:
    errors = OutputFailedData.model_validate(record.data).errors
    notes.failure = failures.unfit(number_in(record.data, "attempts"), errors)


def _completed(notes: RunNotes, record: Record) -> None:
    notes.is_validated = True
    notes.structured = record.data.get("result")


_FOLLOW: Final[dict[str, Callable[[RunNotes, Record], None]]] = {
    "output.requested": _requested,
    "output.rejected": _rejected,
    "output.failed": _failed,
    "result.completed": _completed,
}
OUTPUT_RECORDS: Final = frozenset(_FOLLOW)
"""What it is folded from."""
