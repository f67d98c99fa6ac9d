"""What the items of an inbox mean to the loop."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from windlass.engine.care import NO_CARE, Care
from windlass.ports.journal import START, InboxItem, JsonObject
from windlass_harness.loop.events import (
    AnswersGiven,
    CancelAsked,
    LoopEvent,
    RunAsked,
    RunRefused,
    RunWithdrawn,
)
from windlass_protocol import InputResponse

ANSWERS_NOTED_MAX: Final = 64
"""Answers of one item that the journal refused, as many as are noted."""


@dataclass(slots=True)
class Mail:
    """What to do about the items of an inbox."""

    events: list[LoopEvent] = field(default_factory=list[LoopEvent])
    taken: list[int] = field(default_factory=list[int])
    """Numbers of the items that these events answer."""
    left: list[InboxItem] = field(default_factory=list[InboxItem])
    """Starts whose turn has not come."""


def sort(items: Iterable[InboxItem], *, is_busy: bool, care: Care = NO_CARE) -> Mail:
    """Turn items into events, in their order; behind a run under way, starts wait."""
    mail = Mail()
    for item in items:
        is_enough = care.is_careful and mail.taken
        if is_enough or (item.kind == START and (is_busy or mail.left)):
            mail.left.append(item)
            continue
        if item.number in care.gone:
            mail.taken.append(item.number)
            continue
        is_busy = is_busy or item.kind == START
        queued = _queued(item, mail.left)
        if queued is not None:
            mail.left.remove(queued)
            mail.taken.append(queued.number)
        mail.events.append(_event(item, queued, care))
        mail.taken.append(item.number)
    return mail


def _event(item: InboxItem, queued: InboxItem | None, care: Care) -> LoopEvent:
    if item.number in care.bare:
        return _bare(item, queued, care)
    return _EVENTS[item.kind](item) if queued is None else _withdraw(queued, item)


def _bare(item: InboxItem, queued: InboxItem | None, care: Care) -> LoopEvent:
    """What is left of an item that the journal does not take: as little as will do."""
    if queued is not None:
        return RunWithdrawn(_facts(queued))
    if item.kind == START:
        assert care.why is not None, "an item is bare for a reason"
        return RunRefused(_facts(item), care.why)
    if item.kind == "cancel":
        return CancelAsked(str(item.body["runId"]))
    given = _answers(item).responses
    ids = [*dict.fromkeys(response.request_id for response in given)][:ANSWERS_NOTED_MAX]
    # They name no option, so none of them counts.
    return AnswersGiven(tuple(InputResponse(request_id=one) for one in ids))


def _facts(start: InboxItem) -> JsonObject:
    return {name: value for name, value in start.body.items() if name in _BARE}


def _queued(item: InboxItem, left: Iterable[InboxItem]) -> InboxItem | None:
    """The start that a cancel is for, if its turn has not come."""
    if item.kind != "cancel":
        return None
    return next((one for one in left if one.body.get("runId") == item.body.get("runId")), None)


def _withdraw(start: InboxItem, cancel: InboxItem) -> LoopEvent:
    by, reason = cancel.body.get("by"), cancel.body.get("reason")
    return RunWithdrawn(
        start.body,
        by if isinstance(by, str) else None,
        reason if isinstance(reason, str) else None,
    )


def _cancel(item: InboxItem) -> LoopEvent:
    by, reason = item.body.get("by"), item.body.get("reason")
    return CancelAsked(
        str(item.body["runId"]),
        by if isinstance(by, str) else None,
        reason if isinstance(reason, str) else None,
    )


def _answers(item: InboxItem) -> AnswersGiven:
    responses = item.body["responses"]
    assert isinstance(responses, list)
    return AnswersGiven(tuple(InputResponse.model_validate(one) for one in responses))


def _start(item: InboxItem) -> LoopEvent:
    return RunAsked(item.body)


_BARE: Final = frozenset({"runId", "agentId", "packageId", "packageFingerprint", "routeId", "modelId"})
_EVENTS: Final[dict[str, Callable[[InboxItem], LoopEvent]]] = {
    START: _start,
    "answer": _answers,
    "cancel": _cancel,
}
