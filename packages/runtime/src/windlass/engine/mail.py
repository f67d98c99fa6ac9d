"""What the items of an inbox mean to the loop."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from windlass.engine.care import NO_CARE, Care
from windlass.ports.journal import COMPACT, START, STATE, STEER, InboxItem, JsonObject, NewRun
from windlass_harness.loop.drafts import within_limit
from windlass_harness.loop.events import (
    AnswersGiven,
    CancelAsked,
    CompactionAsked,
    LoopEvent,
    RequestDispatched,
    RunAsked,
    RunRefused,
    RunWithdrawn,
    StateChange,
    StateGiven,
    Steered,
)
from windlass_protocol import InputResponse

_NOT_KEPT: Final = "[A message that could not be kept.]"
ANSWERS_NOTED_MAX: Final = 64
"""Answers of one item that the journal refused, as many as are noted."""

ANSWER: Final = "answer"
"""The kind of an item that answers people's requests."""
DISPATCHED: Final = "dispatched"
"""The kind of an item that says that a request was taken to whoever answers."""
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
    begun: list[tuple[NewRun, int]] = field(default_factory=list[tuple[NewRun, int]])
    """Runs that begin with words to a run which has ended, and the items of these words."""


def sort(
    items: Iterable[InboxItem],
    *,
    is_busy: bool,
    has_agent: Callable[[str], bool],
    is_ending: bool = False,
    care: Care = NO_CARE,
) -> Mail:
    """Turn items into events, in their order.

    Starts wait behind a run under way, and for a process that has their agent. Words to a run are for the one
    under way; if it has ended they begin a run, so that they are heard.
    """
    mail = Mail()
    for item in items:
        is_late = item.kind == STEER and is_ending
        is_enough = care.is_careful and mail.taken
        is_next = not (is_busy or mail.left) and has_agent(agent_of(item))
        if is_enough or is_late or (item.kind == START and not is_next):
            mail.left.append(item)
            continue
        if item.number in care.gone:
            mail.taken.append(item.number)
            continue
        if item.kind == STEER and not is_busy:
            mail.begun.append((_run_of(item), item.number))
        is_asked = item.kind == START or (item.kind == STEER and not is_busy)
        is_busy = is_busy or is_asked
        queued = _queued(item, mail.left)
        if queued is not None:
            mail.left.remove(queued)
            mail.taken.append(queued.number)
        mail.events.append(_asked(item, care) if is_asked else _event(item, queued, care))
        mail.taken.append(item.number)
    return mail


def _run_of(item: InboxItem) -> NewRun:
    body = item.body
    return NewRun(str(body["runId"]), str(body["agentId"]), str(body["packageFingerprint"]))


def _asked(item: InboxItem, care: Care) -> LoopEvent:
    if item.number not in care.bare:
        return RunAsked(item.body)
    assert care.why is not None, "an item is bare for a reason"
    return RunRefused(_facts(item), care.why)


def _event(item: InboxItem, queued: InboxItem | None, care: Care) -> LoopEvent:
    if item.number in care.bare:
        return _bare(item, queued)
    return _EVENTS[item.kind](item) if queued is None else _withdraw(queued, item)


def _bare(item: InboxItem, queued: InboxItem | None) -> LoopEvent:
    """What is left of an item that the journal does not take: as little as will do."""
    if queued is not None:
        return RunWithdrawn(_facts(queued))
    if item.kind == STEER:
        return Steered({"message": _NOT_KEPT})
    if item.kind in (COMPACT, DISPATCHED):
        return _EVENTS[item.kind](item)
    if item.kind == STATE:
        return StateGiven(StateChange({}))
    if item.kind == CANCEL:
        return CancelAsked(str(item.body["runId"]))
    given = _answers(item).responses
    ids = [*dict.fromkeys(response.request_id for response in given)][:ANSWERS_NOTED_MAX]
    # They name no option, so none of them counts.
    return AnswersGiven(tuple(InputResponse(request_id=one) for one in ids))


def _facts(start: InboxItem) -> JsonObject:
    return {name: value for name, value in start.body.items() if name in _BARE}


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


def _answers(item: InboxItem) -> AnswersGiven:
    responses = item.body["responses"]
    assert isinstance(responses, list)
    return AnswersGiven(tuple(InputResponse.model_validate(one) for one in responses))


def _steered(item: InboxItem) -> LoopEvent:
    return Steered(item.body)


def _state(item: InboxItem) -> LoopEvent:
    values, removed = item.body.get("set"), item.body.get("removed")
    return StateGiven(
        StateChange(
            values if isinstance(values, dict) else {},
            tuple(str(key) for key in removed) if isinstance(removed, list) else (),
        )
    )


_BARE: Final = frozenset({"runId", "agentId", "packageId", "packageFingerprint", "routeId", "modelId"})
_EVENTS: Final[dict[str, Callable[[InboxItem], LoopEvent]]] = {
    STEER: _steered,
    ANSWER: _answers,
    CANCEL: _cancel,
    DISPATCHED: lambda item: RequestDispatched(str(item.body["requestId"])),
    COMPACT: lambda _: CompactionAsked(),
    STATE: _state,
}
KINDS: Final = frozenset({START, *_EVENTS})
"""The kinds of items that this release knows."""
