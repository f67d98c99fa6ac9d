"""Inbox of a session: reads items and converts them into loop events."""

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from enum import Enum
from functools import partial
from typing import Final, Protocol

from pydantic import ValidationError

from windlass.engine.writing.writer import Lost, retry_store_call
from windlass.errors import AgentError
from windlass.ports.catalog import RunRow
from windlass.ports.clock import Clock
from windlass.ports.inbox import (
    BATCH_ANSWERED,
    COMPACT,
    EVENT,
    FEEDBACK,
    STATE,
    STEER,
    AnswersItem,
    DispatchedItem,
    Inbox,
    InboxItem,
    NewRun,
    StartFacts,
)
from windlass_harness.loop.events import (
    AnswersGiven,
    BatchAnswered,
    CancelRequested,
    ChildSaid,
    CompactionRequested,
    EventSent,
    FeedbackGiven,
    LoopEvent,
    MessageSent,
    RequestDispatched,
    RunRefused,
    RunRequested,
    RunWithdrawn,
    StateChange,
    StateGiven,
    Stopped,
    within_limit,
)
from windlass_harness.loop.subagents import ASK, CANCEL, REPORT, SETTLE, START, TELL, CancelItem, ChildEnded
from windlass_protocol import ErrorCode, ErrorInfo, ErrorKind, InputResponse, JsonObject, RetryClass
from windlass_protocol.bodies import BodyError, data_of, read_body
from windlass_protocol.frozen import frozen, mutable
from windlass_protocol.generated import records

_LOG: Final = logging.getLogger(__name__)

# Quarantine: how a session is driven after the journal refused an inbox item or a run.
#
# A refused drive leaves no records, so driving in the same way again would fail again. In quarantine, inbox
# items are written one per append, to find the item at fault; only the minimal facts of that item are
# written. If no item is at fault, the run is ended.


@frozen
class RefusedDrive:
    """A drive that failed because the journal never accepts its records."""

    error: Exception
    items: frozenset[int]
    """Inbox items that the refused append would have consumed."""


@frozen
class Quarantine:
    """Quarantine settings of the next drive."""

    is_itemwise: bool = False
    """Whether to write one inbox item per append."""
    minimal: frozenset[int] = frozenset()
    """Items of which only the minimal facts are written."""
    dropped: frozenset[int] = frozenset()
    """Items of which nothing is written, because the minimal facts were refused too."""
    error: ErrorInfo | None = None
    """The error that caused the quarantine."""
    stop: Stopped | None = None
    """Ends the current run, if the run is at fault."""

    def after(self, refusal: RefusedDrive) -> "Quarantine | None":
        """Return the settings of the next drive; None if there is nothing left to try."""
        why = _info(refusal.error)
        if not self.is_itemwise and refusal.items:
            return replace(self, is_itemwise=True)
        if refusal.items - self.minimal:
            return replace(self, minimal=self.minimal | refusal.items, error=why)
        if refusal.items - self.dropped:
            return replace(self, dropped=self.dropped | refusal.items)
        if self.stop is None and not refusal.items:
            return replace(self, is_itemwise=True, stop=Stopped(why))
        return None


NO_QUARANTINE: Final = Quarantine()


def _info(error: Exception) -> ErrorInfo:
    if isinstance(error, AgentError):
        return error.info()
    message = f"The session could not be driven: {type(error).__name__}. See the traceback in the log."
    return ErrorInfo(
        code=ErrorCode.REJECTED,
        kind=ErrorKind.RECOVERY_REPAIR_NEEDED,
        retry=RetryClass.NOT_RETRYABLE,
        message=message,
    )


_NOT_KEPT: Final = "[A message that could not be kept.]"
_NAMELESS: Final = "event that could not be kept"
_NOT_RETURNED: Final = "The subagent has ended, but what it returned could not be kept."
ANSWERS_NOTED_MAX: Final = 64
"""Answers of one refused item that are recorded at most."""

ANSWER: Final = "answer"
"""Item kind: answers to requests."""
DISPATCHED: Final = "dispatched"
"""Item kind: a request was dispatched to its responders."""


def item_key(kind: str, name: str) -> str:
    """Return the inbox key of an item; keys of different kinds never collide."""
    return within_limit(f"{kind}:{name}")


class Intake(Enum):
    """What a session takes from its inbox beside answers, cancels and the like, which it always takes."""

    STARTS = "starts"
    """No run is under way: a start, or a message, begins one."""
    MESSAGES = "messages"
    """A run is under way: messages go to it, and starts wait."""
    NEITHER = "neither"
    """The run is ending, or the history is compacted between runs: messages and starts wait."""


@mutable
class SortedItems:
    """The result of sorting inbox items: events, consumed items, and items that must wait."""

    events: list[LoopEvent] = field(default_factory=list[LoopEvent])
    taken: list[int] = field(default_factory=list[int])
    """Numbers of the items that the events consume."""
    bodies: list[JsonObject] = field(default_factory=list[JsonObject])
    """Bodies of the items that the events are made from."""
    left: list[InboxItem] = field(default_factory=list[InboxItem])
    """Items that must wait for their turn."""
    new_runs: list[tuple[NewRun, int]] = field(default_factory=list[tuple[NewRun, int]])
    """New runs that start with a message to an ended run, with the numbers of these messages."""


def next_run(items: Iterable[InboxItem], has_agent: Callable[[str], bool]) -> InboxItem | None:
    """Return the item that starts the next run in this process; None if there is none.

    A start waits for its agent and blocks later starts. A message to an ended run waits alone: no caller
    waits for its run.
    """
    for item in items:
        if item.kind in (START, STEER) and has_agent(agent_of(item)):
            return item
        if item.kind == START:
            return None
    return None


def sort(
    items: Sequence[InboxItem],
    *,
    intake: Intake,
    has_agent: Callable[[str], bool],
    quarantine: Quarantine = NO_QUARANTINE,
) -> SortedItems:
    """Convert items into events in order, up to one that may start or end a run.

    Later items can mean something else after that, so they are sorted in the next pass. Starts wait behind
    the current run, and for a process that has their agent. Messages go to the current run; if it has ended
    they start a new run.
    """
    mail = SortedItems()
    first = next_run(items, has_agent) if intake is Intake.STARTS else None
    is_turned = False
    for item in items:
        begins = item.kind == START or (item.kind == STEER and intake is Intake.STARTS)
        is_late = (item.kind == STEER and intake is Intake.NEITHER) or _is_early(item, mail.left)
        if is_turned or is_late or (begins and item is not first):
            mail.left.append(item)
            continue
        is_turned = quarantine.is_itemwise or begins or item.kind == CANCEL
        mail.taken.append(item.number)
        if item.number in quarantine.dropped:
            continue
        queued = _withdrawn_start(item, mail.left)
        try:
            events = [*_events_of(item, queued, begins=begins, quarantine=quarantine)]
            run = _run_of(item) if item.kind == STEER and begins else None
        except (BodyError, ValidationError):
            # It will never decode: consumed without an effect, so that later items have their turn.
            _LOG.error(
                "session %s: inbox item %d has a malformed body and has no effect (%s)",
                item.session_id,
                item.number,
                item.kind,
            )
            continue
        if run is not None:
            mail.new_runs.append((run, item.number))
        mail.bodies.append(item.body)
        if queued is not None:
            mail.left.remove(queued)
            mail.taken.append(queued.number)
        mail.events += events
    return mail


def _is_early(item: InboxItem, items: Iterable[InboxItem]) -> bool:
    """Whether an item is an event of a run that has not begun."""
    return item.kind == EVENT and any(start.run_id == item.run_id for start in items if start.kind == START)


def _events_of(
    item: InboxItem, queued: InboxItem | None, *, begins: bool, quarantine: Quarantine
) -> Iterator[LoopEvent]:
    if has_answers(item) and item.kind != ANSWER:
        # Before the message: it dismisses the requests that are still open.
        is_bare = item.number in quarantine.minimal
        yield _bare_answers(item) if is_bare else answers_in(item)
    yield _start_event(item, quarantine) if begins else _event(item, queued, quarantine)


def _run_of(item: InboxItem) -> NewRun:
    facts = read_body(StartFacts, item.body)
    return NewRun(facts.run_id, facts.agent_id, facts.package_fingerprint or "")


def _start_event(item: InboxItem, quarantine: Quarantine) -> LoopEvent:
    if item.number not in quarantine.minimal:
        return RunRequested(item.body)
    assert quarantine.error is not None, "an item is bare for a reason"
    return RunRefused(_facts(item), quarantine.error)


def _event(item: InboxItem, queued: InboxItem | None, quarantine: Quarantine) -> LoopEvent:
    if item.number in quarantine.minimal:
        return _bare(item, queued)
    return _EVENTS[item.kind](item) if queued is None else _withdraw(queued, item)


def _bare(item: InboxItem, queued: InboxItem | None) -> LoopEvent:
    """Return the minimal event of an item that the journal refused."""
    if queued is not None:
        return RunWithdrawn(_facts(queued))
    if item.kind in _BARE_EVENTS:
        return _BARE_EVENTS[item.kind](item)
    return ChildSaid(item.kind, {})


def _bare_answers(item: InboxItem) -> AnswersGiven:
    responses = answers_in(item).responses
    ids = [*dict.fromkeys(response.request_id for response in responses)][:ANSWERS_NOTED_MAX]
    # The responses have no option, so none of them is accepted.
    return AnswersGiven(tuple(InputResponse(request_id=request_id) for request_id in ids), answer_id=item.key)


def _facts(start: InboxItem) -> JsonObject:
    return data_of(read_body(StartFacts, start.body))


def agent_of(start: InboxItem) -> str:
    """Return the agent id of a start item."""
    return start.agent_id or ""


def _withdrawn_start(item: InboxItem, left: Iterable[InboxItem]) -> InboxItem | None:
    """Return the waiting start that a cancel item withdraws."""
    if item.kind != CANCEL:
        return None
    return next((start for start in left if start.run_id == item.run_id), None)


def _withdraw(start: InboxItem, cancel: InboxItem) -> LoopEvent:
    facts = read_body(CancelItem, cancel.body)
    return RunWithdrawn(start.body, facts.by, facts.reason)


def _cancel(item: InboxItem) -> LoopEvent:
    facts = read_body(CancelItem, item.body)
    return CancelRequested(facts.run_id, facts.by, facts.reason)


def has_answers(item: InboxItem) -> bool:
    """Return whether an item has answers: alone, or with a message."""
    return item.kind == ANSWER or (item.kind == STEER and "responses" in item.body)


def answers_in(item: InboxItem) -> AnswersGiven:
    """Return the answers in an item."""
    answers = read_body(AnswersItem, item.body)
    responses = tuple(InputResponse.model_validate(response) for response in answers.responses)
    return AnswersGiven(responses, answers.given_ms, item.key)


def _message_event(item: InboxItem) -> LoopEvent:
    return MessageSent(item.body)


def _state(item: InboxItem) -> LoopEvent:
    values, removed = item.body.get("set"), item.body.get("removed")
    return StateGiven(
        StateChange(
            values if isinstance(values, dict) else {},
            tuple(str(key) for key in removed) if isinstance(removed, list) else (),
        )
    )


def _child_said(item: InboxItem) -> LoopEvent:
    return ChildSaid(item.kind, item.body)


def _bare_report(item: InboxItem) -> LoopEvent:
    """Return the end of a subagent without the report that the journal refused."""
    end = read_body(ChildEnded, item.body)
    bare = ChildEnded(
        run_id=end.run_id,
        call_id=end.call_id,
        child_run_id=end.child_run_id,
        status=end.status,
        output=_NOT_RETURNED,
        is_error=True,
        error=records.ActionError(code="subagent_unkept", message=_NOT_RETURNED),
    )
    return ChildSaid(item.kind, data_of(bare))


_BARE_EVENTS: Final[dict[str, Callable[[InboxItem], LoopEvent]]] = {
    STEER: lambda _: MessageSent({"message": _NOT_KEPT}),
    TELL: lambda _: MessageSent({"message": _NOT_KEPT}),
    ANSWER: _bare_answers,
    BATCH_ANSWERED: lambda item: BatchAnswered(item.run_id or ""),
    COMPACT: lambda _: CompactionRequested(),
    DISPATCHED: lambda item: RequestDispatched(read_body(DispatchedItem, item.body).request_id),
    STATE: lambda _: StateGiven(StateChange({})),
    FEEDBACK: lambda item: FeedbackGiven(records.FeedbackGiven(run_id=item.run_id or "")),
    EVENT: lambda item: EventSent(records.RunEventReceived(run_id=item.run_id or "", name=_NAMELESS)),
    CANCEL: lambda item: CancelRequested(item.run_id or ""),
    REPORT: _bare_report,
}
_EVENTS: Final[dict[str, Callable[[InboxItem], LoopEvent]]] = {
    STEER: _message_event,
    TELL: _message_event,
    ANSWER: answers_in,
    CANCEL: _cancel,
    DISPATCHED: lambda item: RequestDispatched(read_body(DispatchedItem, item.body).request_id),
    COMPACT: lambda _: CompactionRequested(),
    BATCH_ANSWERED: lambda item: BatchAnswered(item.run_id or ""),
    STATE: _state,
    FEEDBACK: lambda item: FeedbackGiven(read_body(records.FeedbackGiven, item.body)),
    EVENT: lambda item: EventSent(read_body(records.RunEventReceived, item.body)),
    **dict.fromkeys((ASK, SETTLE, REPORT), _child_said),
}
KINDS: Final = frozenset({START, *_EVENTS})
"""Item kinds that this release knows."""

PAGE_ITEMS: Final = 16
"""Items per read; each can be as large as a record."""


class InboxReader(Protocol):
    """The part of the store that a mailbox reads: pending items and runs."""

    async def pending(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[InboxItem, ...]:
        """Return unconsumed items; see `Inbox`."""
        ...

    async def run(self, run_id: str) -> RunRow | None:
        """Return a run; None if it is unknown."""
        ...


async def each_item(inbox: Inbox, session_id: str, *, after: int = 0) -> AsyncIterator[InboxItem]:
    """Yield the pending items of a session in order."""
    while True:
        items = await inbox.pending(session_id, after=after, limit=PAGE_ITEMS)
        for item in items:
            yield item
        if len(items) < PAGE_ITEMS:
            return
        after = items[-1].number


class Mailbox:
    """Pending items of a session, for its driver.

    Only the next queued run is held with its body; the others by name.
    """

    def __init__(
        self, inbox: InboxReader, session_id: str, *, clock: Clock, has_agent: Callable[[str], bool]
    ) -> None:
        self._inbox = inbox
        self._session_id = session_id
        self._clock = clock
        self._has_agent = has_agent
        self.items: list[InboxItem] = []
        """The items that were read and are still pending."""
        self._slim: set[int] = set()
        """Numbers of items held without their bodies; the bodies must be read again."""
        self._seen = 0
        self._has_new = False
        self.has_unknown_item = False
        """Whether there is an item of an unknown kind."""

    def has_cancel(self, run_id: str) -> bool:
        """Whether a cancel of the run is pending."""
        return any(item.kind == CANCEL and item.run_id == run_id for item in self.items)

    def has_untaken(self, intake: Intake) -> bool:
        """Whether `take` would return anything."""
        if intake is Intake.STARTS and next_run(self.items, self._has_agent) is not None:
            return True
        waiting = {START} if intake is Intake.MESSAGES else {START, STEER}
        return any(item.kind not in waiting and not _is_early(item, self.items) for item in self.items)

    async def read(self) -> None:
        """Read the items that arrived since the last read."""
        while True:
            items = await self._page(self._seen, PAGE_ITEMS)
            for item in items:
                self._seen = item.number
                if item.kind not in KINDS:
                    self.has_unknown_item = True
                    continue
                self.items.append(self._without_body(item))
                self._has_new = True
            if len(items) < PAGE_ITEMS:
                return

    @property
    def _are_starts(self) -> bool:
        return all(item.kind == START for item in self.items)

    async def take(self, intake: Intake, *, quarantine: Quarantine = NO_QUARANTINE) -> SortedItems:
        """Return the events of the items that can be handled now; the others stay."""
        can_start = intake is Intake.STARTS
        if not self.items or (not can_start and not self._has_new and self._are_starts):
            return SortedItems()
        self._has_new = False
        for at in self._indexes_to_load(can_start=can_start):
            self.items[at] = await self._whole(self.items[at].number)
        if can_start:
            await self._name_next()
        mail = sort(self.items, intake=intake, has_agent=self._has_agent, quarantine=quarantine)
        self.items = mail.left
        return mail

    async def _name_next(self) -> None:
        """Rename the run that a message starts, if its run id is taken."""
        item = next_run(self.items, self._has_agent)
        if item is None or item.kind == START:
            return
        run_id = item.run_id or ""
        while await retry_store_call(partial(self._inbox.run, run_id), self._clock) is not None:
            # Item numbers are unique, so no other message gets this run id.
            run_id = within_limit(f"{run_id}/{item.number}")
        self.items[self.items.index(item)] = item.of_run(run_id)

    async def _whole(self, number: int) -> InboxItem:
        """Return an item with its body; it stays pending until its owner consumes it."""
        page = await self._page(number - 1, 1)
        if not page or page[0].number != number:
            # The item is consumed, so the session has another owner.
            raise Lost
        self._slim.discard(number)
        return page[0]

    async def _page(self, after: int, limit: int) -> tuple[InboxItem, ...]:
        return await retry_store_call(
            lambda: self._inbox.pending(self._session_id, after=after, limit=limit), self._clock
        )

    def _without_body(self, item: InboxItem) -> InboxItem:
        """Return an item as it is held until its turn: queued starts without their body."""
        if item.kind != START or not self.items:
            return item
        self._slim.add(item.number)
        return item.without_body()

    def _indexes_to_load(self, *, can_start: bool) -> list[int]:
        """Return the indexes of starts that need their bodies: the next one, and cancelled ones."""
        cancelled = {item.run_id for item in self.items if item.kind == CANCEL}
        indexes: list[int] = []
        for at, item in enumerate(self.items):
            is_next = item.kind == START and can_start
            can_start = can_start and not is_next
            if item.number in self._slim and (is_next or item.run_id in cancelled):
                indexes.append(at)
        return indexes
