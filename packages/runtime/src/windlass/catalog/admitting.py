"""What was read of a session, made fit to be kept: it folds, and holds no secret."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from windlass.catalog.exporting import fingerprints
from windlass.catalog.restoring import own_runs
from windlass.ports.archive import KeptContent, KeptItem, SessionCopy, StoredAppend
from windlass.refusals import bad_request
from windlass.setup_check import check_id
from windlass_harness.ledger.names import is_notes
from windlass_harness.loop.state import LoopState
from windlass_harness.redact import Redactor, mask_text
from windlass_harness.views.listing import Told, told_by
from windlass_protocol import Record

MALFORMED: Final = (ValueError, TypeError, KeyError, AttributeError, AssertionError, OverflowError)
"""What is raised by data that is not what it should be; an invalid record is a ValueError."""


def admitted(
    session_id: str,
    appends: Iterable[StoredAppend],
    *,
    items: tuple[KeptItem, ...],
    contents: Sequence[KeptContent],
    redactor: Redactor,
) -> SessionCopy:
    """Return a session with what its records tell of it, and without secrets.

    Raises:
        Rejected: the records do not fold, a run reports to notes, or a secret cannot be masked.
    """
    masked = tuple(_masked(append, redactor) for append in appends)
    records = [record for append in masked for record in append.records]
    _check_names(session_id, records, items=items, redactor=redactor)
    _check_contents(contents, redactor)
    try:
        copy = _restored(session_id, masked, records)
    except MALFORMED:
        copy = None
    if copy is None:
        raise bad_request("the records of the session do not follow from one another")
    if any(is_notes(parent) for parent in _parents(records)):
        raise bad_request("a run of the session reports to a session with notes, and nobody may")
    for run in copy.runs:
        check_id(run.run_id, "a run id")
    packages = frozenset(fingerprints(records))
    # No package is the session's own, whatever its line says.
    sorted_ = (replace(one, is_own=one.is_own and one.ref.hash not in packages) for one in contents)
    return replace(copy, items=items, contents=tuple(sorted_))


def _restored(session_id: str, appends: tuple[StoredAppend, ...], records: Sequence[Record]) -> SessionCopy:
    state = LoopState()
    state.apply_all(records)
    runs = own_runs(session_id, appends)
    told = told_by(records) or Told(records[-1].at, records[0].at)
    names = {run.run_id for run in runs}
    return SessionCopy(
        session_id,
        appends,
        replace(told, runs=tuple(run for run in told.runs if run.run_id in names)),
        runs=runs,
        asked=tuple(state.session.requests.values()),
    )


def _masked(append: StoredAppend, redactor: Redactor) -> StoredAppend:
    """The append as this runtime would have written it."""
    if redactor.is_clean([record.data for record in append.records]):
        return append
    records = [record.model_copy(update={"data": redactor.value(record.data)}) for record in append.records]
    return replace(append, records=tuple(records))


def _check_names(
    session_id: str, records: Iterable[Record], *, items: Iterable[KeptItem], redactor: Redactor
) -> None:
    """Refuse names that would be masked: nobody could find what they name."""
    names = {session_id, *(item.key for item in items)}
    for record in records:
        names.update(one for one in (record.run_id, record.agent_id, record.turn_id) if one is not None)
    if any(redactor.text(name) != name for name in names):
        raise bad_request("a name in the session would be masked, as a secret or as what looks like one")


def _check_contents(contents: Iterable[KeptContent], redactor: Redactor) -> None:
    """Refuse contents with a registered secret: they are known by their hash."""
    for one in contents:
        text = one.content.decode(errors="replace")
        if redactor.text(text) != mask_text(text):
            raise bad_request("a content of the session holds a registered secret")


def _parents(records: Iterable[Record]) -> list[str]:
    """The sessions that runs tell of their end."""
    told = (record.data.get("parent") for record in records if record.type == "run.started")
    return [str(parent.get("sessionId")) for parent in told if isinstance(parent, dict)]
