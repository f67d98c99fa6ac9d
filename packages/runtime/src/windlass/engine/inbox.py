"""Inbox of a session: reads items and converts them into loop events."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Final, Protocol

from windlass.engine.writer import Lost, retry_store_call
from windlass.errors import AgentError
from windlass.ports.clock import Clock
from windlass.ports.store import (
    CANCEL,
    COMPACT,
    FEEDBACK,
    START,
    STATE,
    STEER,
    Inbox,
    InboxItem,
    NewRun,
    RunRow,
)
from windlass_harness.loop.events import (
    AnswersGiven,
    CancelRequested,
    ChildSaid,
    CompactionRequested,
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
from windlass_harness.loop.subagents import ASK, REPORT, SETTLE
from windlass_protocol import ErrorCode, ErrorInfo, ErrorKind, InputResponse, JsonObject, RetryClass
from windlass_protocol.bodies import read_body
from windlass_protocol.frozen import frozen, mutable
from windlass_protocol.generated import records

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
    begun: list[tuple[NewRun, int]] = field(default_factory=list[tuple[NewRun, int]])
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
    is_busy: bool,
    has_agent: Callable[[str], bool],
    is_ending: bool = False,
    quarantine: Quarantine = NO_QUARANTINE,
) -> SortedItems:
    """Convert items into events in order, up to one that may start or end a run.

    Later items can mean something else after that, so they are sorted in the next pass. Starts wait behind
    the current run, and for a process that has their agent. Messages go to the current run; if it has ended
    they start a new run.
    """
    mail = SortedItems()
    first = None if is_busy else next_run(items, has_agent)
    is_turned = False
    for item in items:
        begins = item.kind == START or (item.kind == STEER and not is_busy)
        is_late = item.kind == STEER and is_ending
        if is_turned or is_late or (begins and item is not first):
            mail.left.append(item)
            continue
        is_turned = quarantine.is_itemwise or begins or item.kind == CANCEL
        mail.taken.append(item.number)
        if item.number in quarantine.dropped:
            continue
        if item.kind == STEER and begins:
            mail.begun.append((_run_of(item), item.number))
        mail.bodies.append(item.body)
        queued = _queued(item, mail.left)
        if queued is not None:
            mail.left.remove(queued)
            mail.taken.append(queued.number)
        if has_answers(item) and item.kind != ANSWER:
            # Before the message: it dismisses the requests that are still open.
            is_bare = item.number in quarantine.minimal
            mail.events.append(_bare_answers(item) if is_bare else answers_in(item))
        mail.events.append(_asked(item, quarantine) if begins else _event(item, queued, quarantine))
    return mail


def _run_of(item: InboxItem) -> NewRun:
    body = item.body
    return NewRun(str(body["runId"]), str(body["agentId"]), str(body["packageFingerprint"]))


def _asked(item: InboxItem, quarantine: Quarantine) -> LoopEvent:
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
    given = answers_in(item).responses
    ids = [*dict.fromkeys(response.request_id for response in given)][:ANSWERS_NOTED_MAX]
    # The responses have no option, so none of them is accepted.
    return AnswersGiven(tuple(InputResponse(request_id=one) for one in ids), answer_id=item.key)


def _facts(start: InboxItem) -> JsonObject:
    return {name: value for name, value in start.body.items() if name in _BARE}


def agent_of(start: InboxItem) -> str:
    """Return the agent id of a start item."""
    return str(start.body.get("agentId"))


def _queued(item: InboxItem, left: Iterable[InboxItem]) -> InboxItem | None:
    """Return the waiting start that a cancel item withdraws."""
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
    return CancelRequested(
        str(item.body["runId"]),
        by if isinstance(by, str) else None,
        reason if isinstance(reason, str) else None,
    )


def has_answers(item: InboxItem) -> bool:
    """Return whether an item has answers: alone, or with a message."""
    return item.kind == ANSWER or (item.kind == STEER and "responses" in item.body)


def answers_in(item: InboxItem) -> AnswersGiven:
    """Return the answers in an item."""
    responses, given_ms = item.body["responses"], item.body.get("givenMs")
    assert isinstance(responses, list)
    given = tuple(InputResponse.model_validate(one) for one in responses)
    return AnswersGiven(given, given_ms if isinstance(given_ms, int) else None, item.key)


def _steered(item: InboxItem) -> LoopEvent:
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
    told = {name: item.body.get(name) for name in ("runId", "callId", "childRunId", "status")}
    error: JsonObject = {"code": "subagent_unkept", "message": _NOT_RETURNED}
    return ChildSaid(item.kind, {**told, "output": _NOT_RETURNED, "isError": True, "error": error})


_BARE_EVENTS: Final[dict[str, Callable[[InboxItem], LoopEvent]]] = {
    STEER: lambda _: MessageSent({"message": _NOT_KEPT}),
    ANSWER: _bare_answers,
    COMPACT: lambda _: CompactionRequested(),
    DISPATCHED: lambda item: RequestDispatched(str(item.body["requestId"])),
    STATE: lambda _: StateGiven(StateChange({})),
    FEEDBACK: lambda item: FeedbackGiven(records.FeedbackGiven(run_id=str(item.body["runId"]))),
    CANCEL: lambda item: CancelRequested(str(item.body["runId"])),
    REPORT: _bare_report,
}
_BARE: Final = frozenset(
    {"runId", "agentId", "packageId", "packageFingerprint", "routeId", "modelId", "parent"}
)
_EVENTS: Final[dict[str, Callable[[InboxItem], LoopEvent]]] = {
    STEER: _steered,
    ANSWER: answers_in,
    CANCEL: _cancel,
    DISPATCHED: lambda item: RequestDispatched(str(item.body["requestId"])),
    COMPACT: lambda _: CompactionRequested(),
    STATE: _state,
    FEEDBACK: lambda item: FeedbackGiven(read_body(records.FeedbackGiven, item.body)),
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
        self._items: list[InboxItem] = []
        self._slim: set[int] = set()
        """Numbers of items held without their bodies; the bodies must be read again."""
        self._seen = 0
        self._has_new = False
        self.has_unknown_item = False
        """Whether there is an item of an unknown kind."""

    @property
    def has_items(self) -> bool:
        """Whether any read item is still pending."""
        return bool(self._items)

    def has_cancel(self, run_id: str) -> bool:
        """Whether a cancel of the run is pending."""
        return any(item.kind == CANCEL and item.body.get("runId") == run_id for item in self._items)

    def has_untaken(self, *, is_busy: bool, is_ending: bool) -> bool:
        """Whether `take` would return anything; a run can start if no other is active."""
        if not self._items:
            return False
        if not is_busy and next_run(self._items, self._has_agent) is not None:
            return True
        waits = {START} if is_busy and not is_ending else {START, STEER}
        return any(item.kind not in waits for item in self._items)

    async def read(self) -> None:
        """Read the items that arrived since the last read."""
        while True:
            items = await self._page(self._seen, PAGE_ITEMS)
            for item in items:
                self._seen = item.number
                if item.kind not in KINDS:
                    self.has_unknown_item = True
                    continue
                self._items.append(self._held(item))
                self._has_new = True
            if len(items) < PAGE_ITEMS:
                return

    @property
    def _are_starts(self) -> bool:
        return all(item.kind == START for item in self._items)

    async def take(
        self, *, is_busy: bool, is_ending: bool = False, quarantine: Quarantine = NO_QUARANTINE
    ) -> SortedItems:
        """Return the events of the items that can be handled now; the others stay."""
        if not self._items or (is_busy and not self._has_new and self._are_starts):
            return SortedItems()
        self._has_new = False
        for at in self._wanted(is_busy=is_busy):
            self._items[at] = await self._whole(self._items[at].number)
        if not is_busy:
            await self._name_next()
        mail = sort(
            self._items,
            is_busy=is_busy,
            has_agent=self._has_agent,
            is_ending=is_ending,
            quarantine=quarantine,
        )
        self._items = mail.left
        return mail

    async def _name_next(self) -> None:
        """Rename the run that a message starts, if its run id is taken."""
        item = next_run(self._items, self._has_agent)
        if item is None or item.kind == START:
            return
        run_id = str(item.body["runId"])
        while await retry_store_call(partial(self._inbox.run, run_id), self._clock) is not None:
            # Item numbers are unique, so no other message gets this run id.
            run_id = within_limit(f"{run_id}/{item.number}")
        self._items[self._items.index(item)] = replace(item, body={**item.body, "runId": run_id})

    async def _whole(self, number: int) -> InboxItem:
        """Return an item with its body; it stays pending until its owner consumes it."""
        found = await self._page(number - 1, 1)
        if not found or found[0].number != number:
            # The item is consumed, so the session has another owner.
            raise Lost
        self._slim.discard(number)
        return found[0]

    async def _page(self, after: int, limit: int) -> tuple[InboxItem, ...]:
        return await retry_store_call(
            lambda: self._inbox.pending(self._session_id, after=after, limit=limit), self._clock
        )

    def _held(self, item: InboxItem) -> InboxItem:
        """Return an item as it is held until its turn: queued starts without their body."""
        if item.kind != START or not self._items:
            return item
        self._slim.add(item.number)
        return replace(item, body={name: item.body.get(name) for name in ("runId", "agentId")})

    def _wanted(self, *, is_busy: bool) -> list[int]:
        """Return the indexes of starts that need their bodies: the next one, and cancelled ones."""
        cancelled = {str(item.body.get("runId")) for item in self._items if item.kind == CANCEL}
        wanted: list[int] = []
        for at, item in enumerate(self._items):
            is_next = item.kind == START and not is_busy
            is_busy = is_busy or is_next
            if item.number in self._slim and (is_next or str(item.body.get("runId")) in cancelled):
                wanted.append(at)
        return wanted
