"""What the items of an inbox mean to the loop."""

from collections.abc import Callable
from typing import Final

from windlass.ports.journal import InboxItem
from windlass_harness.loop.events import AnswersGiven, CancelAsked, LoopEvent, RunAsked
from windlass_protocol import InputResponse


def event_of(item: InboxItem) -> LoopEvent:
    """Return what an item of the inbox means to the loop."""
    return _EVENTS[item.kind](item)


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
    "start": _start,
    "answer": _answers,
    "cancel": _cancel,
}
