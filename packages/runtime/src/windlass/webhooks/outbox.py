"""The outbox: notifications and messages of channels, delivered at least once.

It follows the journal with a bookmark and writes a small document for each delivery: its target and its
record, no content. Documents that are due are sent; one that was taken is deleted, one that failed is due
again later, and after the last attempt it stays as a dead letter. Bookmark and documents are in the store, so
a kill loses nothing: a delivery that was sent and not deleted is sent again, with the same id.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self, cast

from windlass.catalog.reading import documents_page
from windlass.errors import AgentError, Conflict, is_for_us
from windlass.limits import WAIT_MS_MAX, WRITES_MAX
from windlass.ports.clock import IDLE, Clock, begin_task
from windlass.ports.documents import Document
from windlass.ports.store import Store
from windlass.refusals import check_id, missing_port, too_many_writers, unknown_document
from windlass.webhooks.channel import Delivered
from windlass.webhooks.inbound import derive_id
from windlass_harness.record import Record
from windlass_harness.times import stamp_of
from windlass_protocol import DeliveryInfo, JsonObject

if TYPE_CHECKING:
    from windlass.catalog.reading import Page
    from windlass.runtime.compose import AgentRuntime

DELIVERY: Final = "delivery"
"""The kind of the document of a delivery."""
BOOKMARK: Final = "bookmark"
"""The kind of the document that says how far an outbox has read the journal."""
OUTBOX: Final = "outbox"
"""The bookmark of endpoints and channels."""
RETRIES_S: Final = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Seconds before each further attempt, as Standard Webhooks recommends: ten attempts within three days."""
POLL_S: Final = 0.5
"""Interval between two looks at the journal."""
LEASE_MS: Final = 60_000
"""How long an attempt, or a read of the journal, belongs to one process."""
AT_ONCE_MAX: Final = 4
"""Attempts in one lane at the same time; see `Target.lane`."""
_PAGE: Final = 256
_DUE_MAX: Final = 1_000
_SAVE_EVERY: Final = 1_000
"""Positions after which the bookmark is written although nothing was to be delivered."""
_ASIDE_MS: Final = 60_000
"""How long a delivery that this process cannot begin is put aside."""
_LOG: Final = logging.getLogger("windlass.runs")


class DeliveryTarget(Protocol):
    """Somewhere that things are delivered to."""

    @property
    def name(self) -> str: ...

    def lane(self, owner: str | None) -> str:
        """Return the lane of the deliveries of a user: a full lane does not delay the others."""
        ...

    async def parts(self, record: Record) -> Sequence[int]:
        """Return the numbers of the things that a record has to tell this target."""
        ...

    async def send(self, record: Record, part: int, *, key: str) -> Delivered:
        """Deliver one of them; `key` is the same for every attempt."""
        ...

    async def tell(self, session_id: str, text: str, user: str) -> Delivered:
        """Tell one person something about a session."""
        ...


class Deliveries:
    """The deliveries of a store that were not taken: those that are due, and dead letters."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def list(
        self,
        *,
        owner: str | None = None,
        dead_only: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> "Page[DeliveryInfo]":
        """Return a page of deliveries, by id; with an owner, only those of their sessions."""

        def read(document: Document) -> DeliveryInfo | None:
            info = _info(document)
            return info if owner in (None, info.owner) and (info.is_dead or not dead_only) else None

        return await documents_page(self._store, DELIVERY, read, after=after, limit=limit)

    async def get(self, delivery_id: str) -> DeliveryInfo:
        """Return a delivery.

        Raises:
            Conflict: there is none with this id: it never was, or it was taken.
        """
        return _info(await self._require_document(delivery_id))

    async def retry(self, delivery_id: str) -> DeliveryInfo:
        """Make a delivery due now; its attempts are counted from the beginning.

        Raises:
            Conflict: there is none with this id.
        """
        for _ in range(WRITES_MAX):
            before = await self._require_document(delivery_id)
            body: JsonObject = {**before.body, "attempts": 0, "isDead": False}
            after = replace(before, revision=before.revision + 1, body=body, due_at_ms=_now_ms(self._clock))
            with suppress(Conflict):
                await self._store.put_document(after)
                return _info(after)
        raise too_many_writers(f"delivery {delivery_id}")

    async def delete(self, delivery_id: str) -> None:
        """Give a delivery up.

        Raises:
            Conflict: there is none with this id.
        """
        for _ in range(WRITES_MAX):
            before = await self._require_document(delivery_id)
            with suppress(Conflict):
                return await self._store.drop_document(before)
        raise too_many_writers(f"delivery {delivery_id}")

    async def _require_document(self, delivery_id: str) -> Document:
        document = await self._store.document(DELIVERY, check_id(delivery_id, "the id of a delivery"))
        if document is None:
            raise unknown_document("delivery", delivery_id)
        return document


class Outbox:
    """Delivers the notifications of a store's sessions, from `async with` to its end."""

    def __init__(
        self,
        runtime: "AgentRuntime",
        targets: Iterable[DeliveryTarget],
        *,
        bookmark: str = OUTBOX,
        retries_s: tuple[float, ...] = RETRIES_S,
    ) -> None:
        store = runtime.core.ports.store
        if store is None:
            raise missing_port("run journal")
        self._store = store
        self._clock = runtime.core.ports.machine.clock
        self._holder = runtime.core.ports.machine.new_id()
        self._hide: Callable[[str], str] = runtime.core.ports.scribe.redactor.text
        self._targets: Mapping[str, DeliveryTarget] = {target.name: target for target in targets}
        self._retries_s = retries_s
        self._mark = Document(BOOKMARK, bookmark, 0, {})
        self._at = 0
        self._sending: dict[str, str] = {}
        """Lanes of deliveries under way, by delivery."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._follower: asyncio.Task[None] | None = None
        self._problem: str | None = None

    async def __aenter__(self) -> Self:
        await self._load()
        self._follower = asyncio.create_task(self._follow(), name="windlass outbox")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop; what was not delivered is delivered by the next process."""
        tasks = [*self._tasks, *([] if self._follower is None else [self._follower])]
        self._follower = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._at > cast(int, self._mark.body.get("position", self._at)):
            with suppress(AgentError):
                await self._save(self._at)

    async def is_idle(self) -> bool:
        """Whether every record was looked at and nothing is to be delivered."""
        is_read = self._at >= await self._store.last_position()
        return is_read and not self._sending and await self._store.next_document_ms(DELIVERY) is None

    async def tell(self, target: str, session_id: str, text: str, *, user: str, key: str) -> None:
        """Tell one person something about a session, at least once."""
        body: JsonObject = {"target": target, "sessionId": session_id, "text": self._hide(text), "user": user}
        await self._add(_id(target, key), body)

    # reading the journal

    async def _follow(self) -> None:
        while True:
            is_more = False
            try:
                is_more = await self._gather()
                await self._start_due()
                self._problem = None
            except AgentError as error:
                # The store is unreachable for now.
                if self._problem is None:
                    _LOG.warning("the outbox cannot read the store: %s; it tries again", error.kind)
                self._problem = error.kind
            pause = asyncio.create_task(self._sleep(0.0 if is_more else POLL_S), name=IDLE)
            try:
                await pause
            finally:
                pause.cancel()

    async def _sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    async def _load(self) -> None:
        """Read the bookmark; the first process puts it at the end of the journal."""
        name = self._mark.name
        mark = await self._store.document(BOOKMARK, name)
        while mark is None:
            new = Document(BOOKMARK, name, 1, {"position": await self._store.last_position()})
            with suppress(Conflict):
                await self._store.put_document(new)
            mark = await self._store.document(BOOKMARK, name)
        self._mark, self._at = mark, cast(int, mark.body["position"])

    async def _gather(self) -> bool:
        """Write the deliveries of a page of records; return whether there may be more."""
        held_ms = cast(int, self._mark.body.get("heldUntilMs", 0))
        if self._mark.body.get("holder") != self._holder and held_ms > _now_ms(self._clock):
            await self._load()
            return False
        page = await self._store.read_all(after=self._at, limit=_PAGE)
        if not page:
            return False
        deliveries = [
            (target, record, part)
            for record in page
            for target in self._targets.values()
            for part in await target.parts(record)
        ]
        end = page[-1].position or self._at
        if deliveries and not await self._save(self._at, held_ms=_now_ms(self._clock) + LEASE_MS):
            return True
        for target, record, part in deliveries:
            await self._enqueue(target, record, part)
        self._at = end
        if deliveries or end - cast(int, self._mark.body["position"]) >= _SAVE_EVERY:
            await self._save(end)
        return True

    async def _save(self, position: int, *, held_ms: int = 0) -> bool:
        """Write the bookmark; return False if another process did so, and go on from there."""
        body: JsonObject = {"position": position, "holder": self._holder, "heldUntilMs": held_ms}
        mark = replace(self._mark, revision=self._mark.revision + 1, body=body)
        try:
            await self._store.put_document(mark)
        except Conflict:
            await self._load()
            return False
        self._mark = mark
        return True

    async def _enqueue(self, target: DeliveryTarget, record: Record, part: int) -> None:
        session = await self._store.session_info(record.session_id)
        if session is not None and session.is_playground:
            return
        body: JsonObject = {
            "target": target.name,
            "sessionId": record.session_id,
            "seq": record.seq,
            "part": part,
            "event": record.type,
        }
        if record.run_id is not None:
            body["runId"] = record.run_id
        if session is not None and session.owner is not None:
            body["owner"] = session.owner
        await self._add(_id(target.name, record.session_id, str(record.seq), str(part)), body)

    async def _add(self, name: str, body: JsonObject) -> None:
        now_ms = _now_ms(self._clock)
        document = Document(DELIVERY, name, 1, {**body, "attempts": 0, "createdMs": now_ms}, now_ms)
        # One with this id is there already: another process was quicker, or this one was killed.
        with suppress(Conflict):
            await self._store.put_document(document)

    # sending

    async def _start_due(self) -> None:
        """Begin an attempt for each delivery that is due, a few at a time in each lane.

        A delivery for a target of another outbox is left to that one. A target may be gone for good, and a
        lane may have more deliveries than are read at once: such deliveries are put aside.
        """
        now_ms = _now_ms(self._clock)
        due = await self._store.due_documents(DELIVERY, now_ms=now_ms, limit=_DUE_MAX)
        for document in due:
            if document.name in self._sending:
                continue
            target = self._targets.get(str(document.body["target"]))
            lane = None if target is None else target.lane(cast("str | None", document.body.get("owner")))
            if target is None or lane is None or list(self._sending.values()).count(lane) >= AT_ONCE_MAX:
                is_left = target is None and (document.due_at_ms or 0) < now_ms - _ASIDE_MS
                if is_left or len(due) == _DUE_MAX:
                    with suppress(Conflict):
                        aside = replace(
                            document, revision=document.revision + 1, due_at_ms=now_ms + _ASIDE_MS
                        )
                        await self._store.put_document(aside)
                continue
            self._sending[document.name] = lane
            begin_task(self._tasks, self._attempt(target, document), name="windlass delivery")

    async def _attempt(self, target: DeliveryTarget, document: Document) -> None:
        try:
            await self._try_delivery(target, document)
        except Conflict:
            pass  # another process has it, or a person retried or deleted it
        except AgentError as error:
            _LOG.warning("the outcome of delivery %s could not be written: %s", document.name, error.kind)
        finally:
            del self._sending[document.name]

    async def _try_delivery(self, target: DeliveryTarget, before: Document) -> None:
        now_ms = _now_ms(self._clock)
        attempts = cast(int, before.body["attempts"]) + 1
        body = {name: value for name, value in before.body.items() if name != "problem"}
        body["attempts"] = attempts
        mine = replace(before, revision=before.revision + 1, body=body, due_at_ms=now_ms + LEASE_MS)
        await self._store.put_document(mine)
        outcome = await self._send(target, mine)
        if outcome.problem is None:
            await self._store.drop_document(mine)
            return
        is_dead = outcome.is_final or attempts > len(self._retries_s)
        problem = self._hide(outcome.problem)
        body = {**body, "problem": problem, "isDead": is_dead}
        due_ms = None
        if not is_dead:
            wait_s = max(self._retries_s[attempts - 1], outcome.retry_after_s or 0.0)
            due_ms = _now_ms(self._clock) + min(int(wait_s * 1_000), WAIT_MS_MAX)
        await self._store.put_document(replace(mine, revision=mine.revision + 1, body=body, due_at_ms=due_ms))
        outlook = "given up" if is_dead else "tried again later"
        _LOG.warning("delivery %s to %s failed: %s; it is %s", mine.name, target.name, problem, outlook)

    async def _send(self, target: DeliveryTarget, document: Document) -> Delivered:
        body, session_id = document.body, str(document.body["sessionId"])
        if "text" in body:
            sending = target.tell(session_id, str(body["text"]), str(body["user"]))
        else:
            seq = cast(int, body["seq"])
            page = await self._store.read(session_id, after=seq - 1, limit=1)
            if not page or page[0].seq != seq:
                return Delivered("the session was deleted", is_final=True)
            sending = target.send(page[0], cast(int, body["part"]), key=document.name)
        try:
            return await sending
        except BaseException as error:  # a channel may be code of others: any exception counts as failed
            if is_for_us(error):
                raise
            return Delivered(f"the channel failed with {type(error).__name__}")


def _id(*parts: str) -> str:
    """Return the id of a delivery: the same for the same event and target."""
    return f"msg_{derive_id(*parts)[:40]}"


def _info(document: Document) -> DeliveryInfo:
    body = document.body
    return DeliveryInfo.model_validate(
        {
            "delivery_id": document.name,
            "target": body["target"],
            "session_id": body["sessionId"],
            "run_id": body.get("runId"),
            "event": body.get("event"),
            "owner": body.get("owner"),
            "attempts": body["attempts"],
            "is_dead": body.get("isDead", False),
            "problem": body.get("problem"),
            "created_at": stamp_of(cast(int, body["createdMs"])),
            "next_at": None if document.due_at_ms is None else stamp_of(document.due_at_ms),
        }
    )


def _now_ms(clock: Clock) -> int:
    return int(clock.now().timestamp() * 1_000)
