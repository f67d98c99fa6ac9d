"""What the items of an inbox mean to the loop."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from windlass.ports.journal import START, InboxItem
from windlass_harness.loop.drafts import within_limit
from windlass_harness.loop.events import AnswersGiven, CancelAsked, LoopEvent, RunAsked, RunWithdrawn
from windlass_protocol import InputResponse

ANSWER: Final = "answer"
"""The kind of an item that answers people's requests."""
CANCEL: Final = "cancel"
"""The kind of an item that asks a run to end."""


def item_key(kind: str, name: str) -> str:
    """Return the key of an item about a run or an answer; no two kinds share one."""
    return within_limit(f"{kind}:{name}")


@dataclass(slots=True)
class Mail:
    """What to do about the items of an inbox."""

    events: list[LoopEvent] = field(default_factory=list[LoopEvent])
    taken: list[int] = field(default_factory=list[int])
    """Numbers of the items that these events answer."""
    left: list[InboxItem] = field(default_factory=list[InboxItem])
    """Starts whose turn has not come."""


def sort(items: Iterable[InboxItem], *, is_busy: bool, has_agent: Callable[[str], bool]) -> Mail:
    """Turn items into events, in their order.

    Starts wait behind a run under way, and for a process that has their agent.
    """
    mail = Mail()
    for item in items:
        if item.kind == START and (is_busy or mail.left or not has_agent(agent_of(item))):
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


def agent_of(start: InboxItem) -> str:
    """Return the agent whose run an item starts."""
    return str(start.body.get("agentId"))


def _queued(item: InboxItem, left: Iterable[InboxItem]) -> InboxItem | None:
    """The start that a cancel is for, if its turn has not come."""
    if item.kind != CANCEL:
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
    ANSWER: _answers,
    CANCEL: _cancel,
}
KINDS: Final = frozenset(_EVENTS)
"""The kinds of items that this release knows."""
