"""Records about runs that are not in their sessions: judgements, proposals."""

from collections.abc import Callable, Sequence
from typing import Final, cast

from pydantic_core import from_json

from windlass.adapters.wall import Stamps
from windlass.json_value import JsonObject
from windlass.ports.recorded import NumberedRow, RunStore
from windlass.recorder.kinds import RecordingError
from windlass.recorder.ledger import Ledger
from windlass_protocol import Record

ATTEMPTS_MAX: Final = 100
"""How often a record is numbered anew because somebody else wrote first."""

Allows = Callable[[Sequence[Record]], bool]
"""Looks at all records before a new one: False leaves it out, and what it raises does too."""


class Notes:
    """Sessions that nobody owns: anybody may add a record to their end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._stamps = Stamps()

    def add(
        self, session_id: str, type_: str, *, data: JsonObject, run_id: str, allows: Allows | None = None
    ) -> None:
        """Add a record, without secrets; it is durable when this returns.

        What `allows` has seen is all that is before the record, whoever else writes at the same time.

        Raises:
            RecordingError: others write all the time.
            AgentError: the store does not take it.
        """
        at = self._stamps.now()
        body = self._ledger.encode(type_, at, data=data, run_id=run_id, said=data)
        started = self._ledger.encode("session.started", at, data={}, run_id=run_id, said={})
        self._ledger.ask(lambda store: _append(store, session_id, bodies=(started, body), allows=allows))

    def read(self, session_id: str) -> tuple[Record, ...]:
        """Return the records of a session; none if there is no such session."""
        return self._ledger.ask(lambda store: tuple(store.records(session_id)))

    def now(self) -> str:
        """Return the time, as records have it."""
        return self._stamps.now()

    def close(self) -> None:
        """Let go of the files."""
        self._ledger.close()


def _append(store: RunStore, session_id: str, *, bodies: tuple[bytes, bytes], allows: Allows | None) -> None:
    started, body = bodies
    ours = cast("list[object]", from_json(body))
    for _ in range(ATTEMPTS_MAX):
        known = tuple(store.records(session_id))
        if allows is not None and not allows(known):
            return
        seq = len(known) + 1
        rows = [NumberedRow(session_id, seq, body)]
        if seq == 1:
            rows = [NumberedRow(session_id, 1, started), NumberedRow(session_id, 2, body)]
        # A number that somebody else has by now is passed over, so whoever wrote it is looked up.
        store.take_in(rows)
        found = next((one for one in store.records(session_id) if one.seq == rows[-1].seq), None)
        if found is not None and [found.type, found.at, found.data, found.run_id] == ours:
            return
    raise RecordingError(f"session {session_id} is being written to all the time: try again")
