"""What the items of an inbox mean to the loop."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from windlass.ports.journal import COMPACT, START, InboxItem
from windlass_harness.loop.events import (
    AnswersGiven,
    CancelAsked,
    CompactionAsked,
    LoopEvent,
    RunAsked,
    RunWithdrawn,
)
from windlass_protocol import InputResponse


@dataclass(slots=True)
class Mail:
    """What to do about the items of an inbox."""

    events: list[LoopEvent] = field(default_factory=list[LoopEvent])
    taken: list[int] = field(default_factory=list[int])
    """Numbers of the items that these events answer."""
    left: list[InboxItem] = field(default_factory=list[InboxItem])
    """Starts whose turn has not come."""


def sort(items: Iterable[InboxItem], *, is_busy: bool) -> Mail:
    """Turn items into events, in their order; behind a run under way, starts wait."""
    mail = Mail()
    for item in items:
        if item.kind == START and (is_busy or mail.left):
            mail.left.append(item)
            continue
        is_busy = is_busy or item.kind == START
        queued = _queued(item, mail.left)
        if queued is not None:
            mail.left.remove(queued)
            mail.taken.append(queued.number)
        mail.events.append(_EVENTS[item.kind](item) if queued is None else _withdraw(queued, item))
        mail.taken.append(item.number)
    return mail


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


def _answers(item: InboxItem) -> LoopEvent:
    responses = item.body["responses"]
    assert isinstance(responses, list)
    return AnswersGiven(tuple(InputResponse.model_validate(one) for one in responses))


def _start(item: InboxItem) -> LoopEvent:
    return RunAsked(item.body)


_EVENTS: Final[dict[str, Callable[[InboxItem], LoopEvent]]] = {
    START: _start,
    "answer": _answers,
    "cancel": _cancel,
    COMPACT: lambda _: CompactionAsked(),
}
