"""Reserved names of the ledger: its agent, and the sessions that hold notes."""

from hashlib import sha256
from typing import Final

from windlass_protocol.limits import ID_CHARS_MAX

BUILDER: Final = "windlass-builder"
"""The agent that proposes changes, the goal of its runs, and the owner of their sessions.

It is reserved: these sessions quote runs of all owners.
"""
NOTES: Final = "notes:"
"""The prefix of these session ids, reserved for them."""
PROPOSALS: Final = NOTES + "proposals"
"""The session that holds all proposals of a store."""
EVALUATIONS: Final = NOTES + "evaluation/"
"""The prefix of the ids of sessions with judgements of a run."""


def is_notes(session_id: str) -> bool:
    """Whether a session id has the reserved prefix for notes."""
    return session_id.startswith(NOTES)


def evaluation_session(run_id: str) -> str:
    """Return the session that holds the judgements of a run."""
    session_id = EVALUATIONS + run_id
    if len(session_id) <= ID_CHARS_MAX:
        return session_id
    return f"{EVALUATIONS}sha256:{sha256(run_id.encode('utf-8', 'surrogatepass')).hexdigest()}"
