"""What a session has read, as its records tell it."""

from typing import Final

from windlass_protocol import Record, Taint

TAINTING: Final = frozenset({"action.result", "session.started", "subagent.completed"})
"""The records that may bring something into a session. Nothing takes it away again.

What was read once may be in any later word of the model.
"""


def taint_of(record: Record) -> frozenset[str]:
    """Return what a record brings into its session.

    Raises:
        ValueError: it brings something that nobody knows.
    """
    found = record.data.get("taint")
    return frozenset(Taint(one).value for one in found) if isinstance(found, list) else frozenset()
