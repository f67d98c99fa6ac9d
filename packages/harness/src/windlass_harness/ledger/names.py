"""Names that are kept for the runtime: of the Builder, and of sessions with notes.

Notes are what was said of runs, and not in them. Nobody else begins, brings in or removes a session of such a
name, or speaks to one. What is in them counts as a person's word.
"""

from typing import Final

BUILDER: Final = "windlass-builder"
"""The agent that proposes changes, the goal of its runs, and who owns their sessions.

No user is called so: those sessions quote runs of everybody.
"""
NOTES: Final = "notes:"
"""What the names of these sessions begin with, and of no other."""
PROPOSALS: Final = NOTES + "proposals"
"""The session of all proposals of a store."""
EVALUATIONS: Final = NOTES + "evaluation/"
"""What the names of the sessions with judgements of a run begin with."""


def is_notes(session_id: str) -> bool:
    """Whether a session is of those that are kept for notes."""
    return session_id.startswith(NOTES)
