"""Feedback of people on runs, steps and answers, as records of the session.

`RunHandle.feedback` puts an item into the inbox of the session; the record `feedback.given` follows in its
turn, also long after the run has ended. The index of runs has the newest thumb and the tags, so that lists
filter by them; the records have everything.
"""

from collections.abc import Sequence
from typing import Final, cast

from pydantic import ValidationError

from windlass.ports.catalog import RunRow
from windlass.ports.store import Store
from windlass.refusals import bad_request, misfit
from windlass_harness.redact import Redactor
from windlass_protocol import JsonObject
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import records
from windlass_protocol.generated.event_data import FeedbackGivenData

RECORDS_PER_READ: Final = 512


@sealed
class Feedback:
    """What a person said of a run, of one of its steps, or of an answer."""

    at: str
    run_id: str
    thumb: str | None = None
    """up or down."""
    score: float | None = None
    """From 0, the worst, to 1, the best."""
    note: str | None = None
    tags: tuple[str, ...] = ()
    step_index: int | None = None
    """The step that is meant, from 0; None for the whole run."""
    message_id: str | None = None
    """The answer that is meant."""
    by: str | None = None


def data_of(
    run_id: str,
    *,
    thumb: str | None,
    score: float | None,
    note: str | None,
    tags: Sequence[str],
    step_index: int | None,
    message_id: str | None,
    by: str | None,
    redactor: Redactor,
) -> JsonObject:
    """Return feedback as data of its record, with secrets masked.

    Raises:
        Rejected: a value has the wrong type, or all are left out.
    """
    values: dict[str, object] = {
        "thumb": thumb,
        "score": score,
        "note": note,
        "tags": None if isinstance(tags, (list, tuple)) and not tags else tags,
        "stepIndex": step_index,
        "messageId": message_id,
        "by": by,
    }
    fields = {name: value for name, value in values.items() if value is not None}
    if not fields.keys() & {"thumb", "score", "note", "tags"}:
        raise bad_request("feedback needs a thumb, a score, a note or tags")
    problem: str | None = None
    try:
        FeedbackGivenData.model_validate({"runId": run_id, **fields}, by_alias=True, by_name=False)
    except ValidationError as error:
        problem = misfit(error, "feedback", value=fields)
    if problem is not None:
        raise bad_request(problem)
    if tags:
        fields["tags"] = list(tags)
    return {"runId": run_id, **cast(JsonObject, redactor.value(cast(JsonObject, fields)))}


async def feedback_of(store: Store, row: RunRow) -> tuple[Feedback, ...]:
    """Return the feedback of a run, oldest first."""
    items: list[Feedback] = []
    after = 0
    while page := await store.milestones(row.session_id, after=after, limit=RECORDS_PER_READ):
        after = page[-1].seq
        for record in page:
            data = record.body
            if isinstance(data, records.FeedbackGiven) and data.run_id == row.run_id:
                items.append(
                    Feedback(
                        record.at,
                        row.run_id,
                        data.thumb,
                        data.score,
                        data.note,
                        tuple(data.tags or ()),
                        data.step_index,
                        data.message_id,
                        data.by,
                    )
                )
    return tuple(items)
