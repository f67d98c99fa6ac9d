"""The inbox of a session as its driver sees it: read once, held in little room."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from windlass.engine.care import NO_CARE, Care
from windlass.engine.mail import KINDS, Mail, next_run, sort
from windlass.engine.patience import patiently
from windlass.engine.writer import Lost
from windlass.ports.clock import Clock
from windlass.ports.store import CANCEL, START, STEER, Inbox, InboxItem, RunRow
from windlass_harness.loop.drafts import within_limit

PAGE_ITEMS: Final = 16
"""Items that are read at once; each may be as large as a record."""


class Post(Protocol):
    """The inbox of a session as a driver reads it, and the runs that exist."""

    async def pending(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[InboxItem, ...]:
        """Return items that no append has consumed; see `Inbox`."""
        ...

    async def run(self, run_id: str) -> RunRow | None:
        """Return a run; None if nobody ever started it."""
        ...


async def each_item(inbox: Inbox, session_id: str, *, after: int = 0) -> AsyncIterator[InboxItem]:
    """Return the items of a session that wait, one after another."""
    while True:
        items = await inbox.pending(session_id, after=after, limit=PAGE_ITEMS)
        for item in items:
            yield item
        if len(items) < PAGE_ITEMS:
            return
        after = items[-1].number


class Mailbox:
    """What waits for a driver.

    Of the runs that are queued only the next one is held whole; of the others, what they are called.
    """

    def __init__(
        self, inbox: Post, session_id: str, *, clock: Clock, has_agent: Callable[[str], bool]
    ) -> None:
        self._inbox = inbox
        self._session_id = session_id
        self._clock = clock
        self._has_agent = has_agent
        self._items: list[InboxItem] = []
        self._slim: set[int] = set()
        """Numbers of those whose bodies have to be read again."""
        self._seen = 0
        self._has_new = False
        self.is_puzzled = False
        """Whether there is something that this release does not know."""

    @property
    def has_items(self) -> bool:
        """Whether anything was read that is not done with; mostly there is nothing."""
        return bool(self._items)

    def has_cancel(self, run_id: str) -> bool:
        """Whether somebody wants a run to end."""
        return any(item.kind == CANCEL and item.body.get("runId") == run_id for item in self._items)

    def has_untaken(self, *, is_busy: bool, is_ending: bool) -> bool:
        """Whether `take` would take anything; a run can begin if no other is under way."""
        if not self._items:
            return False
        if not is_busy and next_run(self._items, self._has_agent) is not None:
            return True
        waits = {START} if is_busy and not is_ending else {START, STEER}
        return any(item.kind not in waits for item in self._items)

    async def read(self) -> None:
        """Look what has come since the last time."""
        while True:
            items = await self._page(self._seen, PAGE_ITEMS)
            for item in items:
                self._seen = item.number
                if item.kind not in KINDS:
                    self.is_puzzled = True
                    continue
                self._items.append(self._held(item))
                self._has_new = True
            if len(items) < PAGE_ITEMS:
                return

    @property
    def _are_starts(self) -> bool:
        return all(item.kind == START for item in self._items)

    async def take(self, *, is_busy: bool, is_ending: bool = False, care: Care = NO_CARE) -> Mail:
        """Return what to do about the items; what has to wait is kept."""
        if not self._items or (is_busy and not self._has_new and self._are_starts):
            return Mail()
        self._has_new = False
        for at in self._wanted(is_busy=is_busy):
            self._items[at] = await self._whole(self._items[at].number)
        if not is_busy:
            await self._name_next()
        mail = sort(self._items, is_busy=is_busy, has_agent=self._has_agent, is_ending=is_ending, care=care)
        self._items = mail.left
        return mail

    async def _name_next(self) -> None:
        """Give the run that words begin a name of its own, if somebody has taken theirs."""
        item = next_run(self._items, self._has_agent)
        if item is None or item.kind == START:
            return
        run_id = str(item.body["runId"])
        while await patiently(partial(self._inbox.run, run_id), self._clock) is not None:
            # No other item has this number, so no other words end up with this name.
            run_id = within_limit(f"{run_id}/{item.number}")
        self._items[self._items.index(item)] = replace(item, body={**item.body, "runId": run_id})

    async def _whole(self, number: int) -> InboxItem:
        """Return an item with all that it says; it waits until its owner consumes it."""
        found = await self._page(number - 1, 1)
        if not found or found[0].number != number:
            # Somebody has consumed it, so the session has another owner.
            raise Lost
        self._slim.discard(number)
        return found[0]

    async def _page(self, after: int, limit: int) -> tuple[InboxItem, ...]:
        return await patiently(
            lambda: self._inbox.pending(self._session_id, after=after, limit=limit), self._clock
        )

    def _held(self, item: InboxItem) -> InboxItem:
        """An item as it is kept until its turn."""
        if item.kind != START or not self._items:
            return item
        self._slim.add(item.number)
        return replace(item, body={name: item.body.get(name) for name in ("runId", "agentId")})

    def _wanted(self, *, is_busy: bool) -> list[int]:
        """Where starts are whose turn has come, or that are cancelled, without bodies."""
        cancelled = {str(item.body.get("runId")) for item in self._items if item.kind == CANCEL}
        wanted: list[int] = []
        for at, item in enumerate(self._items):
            is_next = item.kind == START and not is_busy
            is_busy = is_busy or is_next
            if item.number in self._slim and (is_next or str(item.body.get("runId")) in cancelled):
                wanted.append(at)
        return wanted
