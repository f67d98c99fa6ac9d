"""Rules of the index that every store keeps alike."""

from collections.abc import Iterable, Iterator
from typing import Final

from pydantic_core import from_json, to_json

from windlass.ports.store import NO_USAGE, SessionStatus
from windlass_harness.loop.drafts import Draft
from windlass_harness.views.listing import RunTold, Told
from windlass_harness.views.runs import RUN_ENDS
from windlass_harness.views.usage import add_usage
from windlass_protocol import InputResolution, Usage

ENDED: Final = frozenset(RUN_ENDS.values())
"""Where a run is that has ended."""


def status_after(told: Told, before: SessionStatus = SessionStatus.IDLE) -> SessionStatus:
    """Return where a session is after what was told.

    A run that never began says nothing of a session in which another one has.
    """
    is_new = before in (SessionStatus.IDLE, SessionStatus.PENDING)
    counted = [run for run in told.runs if is_new or not run.is_unstarted]
    return SessionStatus(counted[-1].status.value) if counted else before


def total_usage(usage: Usage, runs: Iterable[RunTold]) -> Usage:
    """Return what a session has used, with the runs that have ended now."""
    for run in runs:
        if run.usage is not None and run.status in ENDED:
            usage = add_usage(usage, run.usage)
    return usage


def resolutions_in(drafts: Iterable[Draft]) -> Iterator[tuple[InputResolution, str]]:
    """Yield every resolution of a request in some records, and when it was made."""
    for draft in drafts:
        if draft.type == "input.resolved":
            found = draft.data.get("resolutions")
            for resolution in found if isinstance(found, list) else ():
                yield InputResolution.model_validate(resolution), draft.at


def dump_usage(usage: Usage | None) -> str:
    """Return an amount as it is kept."""
    return "{}" if usage is None else to_json(usage.model_dump(mode="json", by_alias=True)).decode()


def load_usage(text: str | None) -> Usage:
    """Return an amount that was kept; nothing if there is none."""
    return Usage.model_validate(from_json(text), by_alias=True) if text and text != "{}" else NO_USAGE
