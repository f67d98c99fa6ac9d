"""Batches: model calls of many runs that a provider answers together, within a day, at a lower price.

A call is offered as an item: a document with the id of its run, without the prompt. The process that offered
it gathers items with the same key for a while, sends them as one batch, and forgets them; their runs wait, a
row each. Any process asks for the batch, notes the answers in the items, and has their runs go on.

A process that dies has no call sent twice. A batch is a document before anything is sent, which says how far
it came: nothing was created, or the provider is asked whether it was. Only items that are in no batch are
offered again, by their runs, which know the prompt. A process that stands still for longer than its lease
just when it creates a batch may create it late; then it cancels it.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final, cast

from msgspec import structs
from pydantic_core import to_json

from windlass.engine.clocks import moment
from windlass.engine.writing.masking import log_failure
from windlass.engine.writing.writer import Scribe, retry_store_call
from windlass.errors import AgentError, Conflict, Rejected
from windlass.ports.batches import BatchApi, BatchProvider, BatchRequest, OwnBatch, no_answer_error
from windlass.ports.clock import Clock, begin_task
from windlass.ports.documents import BATCH, BATCH_ITEM, Document
from windlass.ports.inbox import BATCH_ANSWERED
from windlass.ports.model import LLMProvider, ModelFault, ModelUnavailable, is_unpaid
from windlass.ports.store import ContentStore, Store
from windlass_harness.times import ms_of
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import ContentRef, ErrorInfo, JsonObject, RunStatus
from windlass_protocol.bodies import Part, data_of, read_body
from windlass_protocol.frozen import frozen, mutable

_LOG: Final = logging.getLogger("windlass.batches")

GATHER_S: Final = 20.0
"""How long items are gathered before they are sent, from the first one on."""
ITEMS_MAX: Final = 1_000
"""Items of one batch."""
BYTES_MAX: Final = 64 * 1_048_576
"""Bytes of the requests of one batch, above which no further one is added."""
POLL_MS: Final = 60_000
"""Pause between two questions whether a batch has ended."""
LEASE_MS: Final = 300_000
"""How long a process may work at a step of a batch before another one takes it for dead."""
REMIND_MS: Final = 10_000
"""First pause before a run is told again that its answer is there; it grows with the age of the answer."""
GIVE_UP_MS: Final = 48 * 3_600_000
"""Age of a batch at which a provider that cannot be asked for it is not asked any more: twice the window."""


class ItemState(StrEnum):
    """How far an item came."""

    OFFERED = "offered"
    """A process gathers it."""
    SENT = "sent"
    """It is in a batch, which may have been created."""
    ENDED = "ended"
    """It has an answer or an error."""
    RELEASED = "released"
    """It is in no batch: its run offers it again."""


class BatchState(StrEnum):
    """How far a batch came."""

    PREPARING = "preparing"
    """It was not created."""
    CREATING = "creating"
    """It may have been created."""
    CREATED = "created"


class _Stored(Part, frozen=True, kw_only=True):
    """The body of a document."""

    revision: int = 0
    """That of its document."""

    @property
    def key(self) -> tuple[str, str]:
        """The kind and the name of its document."""
        raise NotImplementedError

    def document(self, due_at_ms: int | None) -> Document:
        """Return the next revision of its document."""
        revision = self.revision + 1
        return Document(*self.key, revision, data_of(structs.replace(self, revision=revision)), due_at_ms)


class BatchItem(_Stored, frozen=True, kw_only=True):
    """A model call in a batch: the body of its document."""

    run_id: str
    session_id: str
    step_index: int
    item_id: str
    """The id of the item for the provider; another one each time that the call is offered."""
    state: ItemState
    asked_at: str
    batch: str | None = None
    ended_at: str | None = None
    answer: ContentRef | None = None
    """The reference to the answer."""
    error: ErrorInfo | None = None

    @property
    def wait_ms(self) -> int:
        """How long it waited for its answer."""
        return max(0, ms_of(self.ended_at or self.asked_at) - ms_of(self.asked_at))

    @property
    def key(self) -> tuple[str, str]:
        """The kind and the name of its document."""
        return BATCH_ITEM, self.run_id


class BatchOfCalls(_Stored, frozen=True, kw_only=True):
    """A batch: the body of its document."""

    name: str
    state: BatchState
    agent_id: str
    route_id: str
    model_id: str
    items: dict[str, str]
    """The run of each item, by the id of the item."""
    since: str
    batch_id: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The kind and the name of its document."""
        return BATCH, self.name


@frozen
class BatchedCall:
    """A model call that is offered as an item."""

    run_id: str
    session_id: str
    step_index: int
    agent_id: str
    route_id: str
    model_id: str
    provider: BatchProvider
    body: JsonObject


@mutable(eq=False)
class _Gathering:
    """Items that are sent together."""

    call: BatchedCall
    """The first one: its provider sends them."""
    items: list[tuple[BatchItem, BatchRequest]] = field(default_factory=list[tuple[BatchItem, BatchRequest]])
    size: int = 0


FindProvider = Callable[[str, str, str], LLMProvider | None]
"""Finds the provider of an agent by the ids of the agent, the route and the model; None if it is not here."""


class Batches:
    """The batches of a store, as this process gathers, sends and reads them."""

    def __init__(
        self,
        store: Store,
        content: ContentStore,
        clock: Clock,
        *,
        new_id: Callable[[], str],
        scribe: Scribe,
        find_provider: FindProvider,
    ) -> None:
        self._store = store
        self._content = content
        self._clock = clock
        self._new_id = new_id
        self._scribe = scribe
        self._find_provider = find_provider
        self.wake: Callable[[str], None] = lambda _: None
        """Has a session driven."""
        self._gatherings: dict[str, _Gathering] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None

    # for the run

    async def item(self, run_id: str, step_index: int) -> BatchItem | None:
        """Return the item of a model call; None if the call is to be offered."""
        document = await retry_store_call(lambda: self._store.document(BATCH_ITEM, run_id), self._clock)
        if document is None:
            return None
        item = read_body(BatchItem, document.body)
        is_overdue = document.due_at_ms is not None and document.due_at_ms <= self._now_ms()
        if item.step_index != step_index or item.state is ItemState.RELEASED:
            return None
        return None if item.state is ItemState.OFFERED and is_overdue else item

    async def offer(self, call: BatchedCall) -> None:
        """Offer a model call as an item; it is sent with others.

        Raises:
            Conflict: another process has offered it just now.
            Unavailable: the store is away.
        """
        before = await self._store.document(BATCH_ITEM, call.run_id)
        revision = 0 if before is None else before.revision
        item = BatchItem(
            run_id=call.run_id,
            session_id=call.session_id,
            step_index=call.step_index,
            item_id=sha256(f"{call.run_id}/{call.step_index}/{revision}".encode()).hexdigest()[:40],
            state=ItemState.OFFERED,
            asked_at=moment(self._clock).at,
            revision=revision,
        )
        await self._store.put_document(item.document(self._now_ms() + int(GATHER_S * 1_000) + LEASE_MS))
        self._gather(call, structs.replace(item, revision=revision + 1))

    async def answer(self, item: BatchItem) -> JsonObject:
        """Return the answer to an item that has ended."""
        assert item.answer is not None, "only an item that has ended well has an answer"
        raw = await self._content.get(item.answer)
        return cast(JsonObject, json.loads(raw))

    async def release(self, item: BatchItem) -> None:
        """Note that the outcome of an item was taken, and that the call is offered again if it is repeated.

        Raises:
            Unavailable: the store is away.
        """
        released = structs.replace(item, state=ItemState.RELEASED)
        with suppress(Conflict):
            await self._store.put_document(released.document(self._now_ms() + REMIND_MS))

    def forget(self, item: BatchItem) -> None:
        """Drop an item with an answer that is recorded."""
        self._start(self._drop_item(item))

    # for the engine

    async def look(self) -> int | None:
        """Look after what is due, in a task; return when something is due next."""
        times = [await self._store.next_document_ms(kind) for kind in (BATCH, BATCH_ITEM)]
        due_at_ms = min((time for time in times if time is not None), default=None)
        is_due = due_at_ms is not None and due_at_ms <= self._now_ms()
        if is_due and (self._looking is None or self._looking.done()):
            self._looking = self._start(self._look_after())
        return due_at_ms

    async def aclose(self) -> None:
        """Leave everything to other processes."""
        self._gatherings.clear()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # gathering and sending

    def _gather(self, call: BatchedCall, item: BatchItem) -> None:
        key, size = call.provider.batch_api().key, len(to_json(call.body))
        gathering = self._gatherings.get(key)
        if gathering is not None and gathering.size + size > BYTES_MAX:
            self._send_now(key, gathering)
            gathering = None
        if gathering is None:
            gathering = self._gatherings[key] = _Gathering(call)
            self._start(self._send_later(key, gathering))
        gathering.items.append((item, BatchRequest(item.item_id, call.body)))
        gathering.size += size
        if len(gathering.items) >= ITEMS_MAX:
            self._send_now(key, gathering)

    async def _send_later(self, key: str, gathering: _Gathering) -> None:
        await self._clock.sleep(GATHER_S)
        if self._gatherings.get(key) is gathering:
            del self._gatherings[key]
            await self._send(gathering)

    def _send_now(self, key: str, gathering: _Gathering) -> None:
        del self._gatherings[key]
        self._start(self._send(gathering))

    async def _send(self, gathering: _Gathering) -> None:
        """Send items as a batch; whatever is left undone is found when the documents are due."""
        call, name = gathering.call, f"windlass-{self._new_id()}"
        batch = BatchOfCalls(
            name=name,
            state=BatchState.PREPARING,
            agent_id=call.agent_id,
            route_id=call.route_id,
            model_id=call.model_id,
            items={item.item_id: item.run_id for item, _ in gathering.items},
            since=moment(self._clock).at,
        )
        batch = await self._put(batch, LEASE_MS)
        requests = [request for item, request in gathering.items if await self._enter(item, name)]
        if not requests:
            await self._drop(batch)
            return
        try:
            create = await call.provider.batch_api().prepare(name, requests)
        except AgentError as error:
            await self._refuse(batch, error)
            return
        claimed_ms = self._now_ms()
        batch = await self._put(structs.replace(batch, state=BatchState.CREATING), LEASE_MS)
        if self._now_ms() - claimed_ms > LEASE_MS // 2:
            # The process stood still, and another one may look for the batch soon.
            return
        try:
            batch_id = await create()
        except AgentError as error:
            if _is_refused(error):
                await self._refuse(batch, error)
            else:
                _LOG.warning("batch %s may have been created: %s; it is looked for", name, error.message)
            return
        try:
            await self._put(structs.replace(batch, state=BatchState.CREATED, batch_id=batch_id), POLL_MS)
        except Conflict:
            await self._cancel_late(call.provider.batch_api(), name, batch_id)
            return
        _LOG.info("batch %s was created as %s: %d calls to %s", name, batch_id, len(requests), call.model_id)

    async def _cancel_late(self, api: BatchApi, name: str, batch_id: str) -> None:
        """Cancel a batch that was created after its lease and not found: its items are offered again."""
        while (document := await self._store.document(BATCH, name)) is not None:
            if document.body.get("batchId") == batch_id:
                return
            await self._clock.sleep(POLL_MS / 1_000)
        if await api.results(batch_id) is not None:
            # It was found, and has ended; or nothing of it can be stopped any more.
            return
        _LOG.warning(
            "batch %s was created too late, and its calls were sent again: it is cancelled", batch_id
        )
        await api.cancel(batch_id)

    async def _enter(self, item: BatchItem, name: str) -> bool:
        """Note the batch of an item; return False if it was released meanwhile."""
        try:
            await self._store.put_document(
                structs.replace(item, state=ItemState.SENT, batch=name).document(None)
            )
        except Conflict:
            return False
        return True

    async def _refuse(self, batch: BatchOfCalls, error: AgentError) -> None:
        """End all items of a batch that the provider refused, or cannot tell of any more."""
        for item_id in batch.items:
            await self._end(batch, item_id, error=error.info())
        await self._drop(batch)

    # looking after documents

    async def _look_after(self) -> None:
        for document in await self._store.due_documents(BATCH, now_ms=self._now_ms()):
            with suppress(Conflict):
                batch = await self._put(read_body(BatchOfCalls, document.body), LEASE_MS)
                await self._advance(batch)
        for document in await self._store.due_documents(BATCH_ITEM, now_ms=self._now_ms()):
            with suppress(Conflict):
                await self._remind(read_body(BatchItem, document.body))

    async def _advance(self, batch: BatchOfCalls) -> None:
        """Bring a batch of any process one step further; what fails is tried again later."""
        try:
            provider = self._find_provider(batch.agent_id, batch.route_id, batch.model_id)
            if batch.state is BatchState.PREPARING:
                await self._release_all(batch)
            elif isinstance(provider, BatchProvider):
                await self._ask(batch, provider.batch_api())
            else:
                await self._put(batch, POLL_MS)
        except Conflict:
            raise
        except AgentError as error:
            if self._now_ms() - ms_of(batch.since) > GIVE_UP_MS:
                await self._refuse(batch, error)
                return
            _LOG.warning("batch %s is asked for again: %s", batch.name, error.message)
            pause_ms = error.retry_after_ms if isinstance(error, ModelUnavailable) else None
            await self._put(batch, max(POLL_MS, pause_ms or 0))

    async def _ask(self, batch: BatchOfCalls, api: BatchApi) -> None:
        batch_id = batch.batch_id
        if batch_id is None:
            own = OwnBatch(batch.name, frozenset(batch.items), datetime.fromisoformat(batch.since))
            batch_id = await api.find(own, await self._other_ids())
            if batch_id is None:
                await self._release_all(batch)
                return
            created = structs.replace(batch, state=BatchState.CREATED, batch_id=batch_id)
            batch = await self._put(created, LEASE_MS)
        results = await api.results(batch_id)
        if results is None:
            await self._put(batch, POLL_MS)
            return
        async for result in results:
            if result.item_id in batch.items:
                await self._end(batch, result.item_id, answer=result.answer, error=result.error)
        await self._refuse(batch, no_answer_error())
        _LOG.info("batch %s has ended: %d calls", batch.name, len(batch.items))

    async def _other_ids(self) -> set[str]:
        """Return the ids of the batches that are known to be created."""
        ids, after = set[str](), None
        while page := await self._store.documents(BATCH, after=after):
            batches = [read_body(BatchOfCalls, document.body) for document in page]
            ids |= {batch.batch_id for batch in batches if batch.batch_id is not None}
            after = page[-1].name
        return ids

    async def _release_all(self, batch: BatchOfCalls) -> None:
        """Have the items of a batch that was not created offered again."""
        for item_id in batch.items:
            item = await self._item_of(batch, item_id)
            if item is not None:
                await self._settle(structs.replace(item, state=ItemState.RELEASED))
        await self._drop(batch)

    async def _end(
        self,
        batch: BatchOfCalls,
        item_id: str,
        *,
        answer: JsonObject | None = None,
        error: ErrorInfo | None = None,
    ) -> None:
        """Note the outcome of an item, unless it has one."""
        item = await self._item_of(batch, item_id)
        if item is None:
            return
        reference: ContentRef | None = None
        if answer is not None:
            # Stored content is as durable as a record, so it must not hold a secret either.
            raw = to_json(await self._scribe.mask_body(answer))
            try:
                reference = await self._content.put(raw, session_id=item.session_id)
            except Rejected as refusal:
                error = refusal.info()
        ended = structs.replace(
            item,
            state=ItemState.ENDED,
            ended_at=moment(self._clock).at,
            answer=reference,
            error=error,
        )
        await self._settle(ended)

    async def _item_of(self, batch: BatchOfCalls, item_id: str) -> BatchItem | None:
        """Return an item that waits for its batch; None if it has an outcome, or its run was deleted."""
        document = await self._store.document(BATCH_ITEM, batch.items[item_id])
        item = None if document is None else read_body(BatchItem, document.body)
        is_open = item is not None and item.item_id == item_id and item.state is ItemState.SENT
        return item if is_open else None

    async def _settle(self, item: BatchItem) -> None:
        """Write an item that its run has to take, and tell the run."""
        document = item.document(self._now_ms())
        with suppress(Conflict):
            await self._store.put_document(document)
            await self._remind(read_body(BatchItem, document.body))

    async def _remind(self, item: BatchItem) -> None:
        """Tell a run that its answer is there; drop an item that no run waits for.

        The run may not wait yet, or a process may have died with what it took: it is told again until the
        item is dropped.
        """
        row = await self._store.run(item.run_id)
        if row is None or row.status in RUN_ENDS.values():
            await self._drop_item(item)
            return
        if item.state is ItemState.OFFERED:
            # The process that gathered it has died.
            item = structs.replace(item, state=ItemState.RELEASED)
        now_ms = self._now_ms()
        pause_ms = max(REMIND_MS, now_ms - ms_of(item.ended_at or item.asked_at))
        await self._store.put_document(item.document(now_ms + pause_ms))
        if row.status is RunStatus.WAITING:
            key = f"{BATCH_ANSWERED}:{item.item_id}/{row.last_seq}"
            await self._store.post(item.session_id, kind=BATCH_ANSWERED, key=key, body={"runId": item.run_id})
            self.wake(item.session_id)

    async def _drop_item(self, item: BatchItem) -> None:
        with suppress(Conflict):
            await self._drop(item)

    async def _drop(self, stored: _Stored) -> None:
        await self._store.drop_document(Document(*stored.key, stored.revision, {}))

    async def _put(self, batch: BatchOfCalls, pause_ms: int) -> BatchOfCalls:
        """Write the next revision of a batch, which is due after a pause.

        Raises:
            Conflict: another process has the batch.
        """
        document = batch.document(self._now_ms() + pause_ms)
        await self._store.put_document(document)
        return structs.replace(batch, revision=document.revision)

    def _now_ms(self) -> int:
        return moment(self._clock).ms

    def _start(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        return begin_task(self._tasks, self._log_failure(work), name="windlass batches")

    async def _log_failure(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except Conflict:
            # Another process has the batch.
            pass
        except Exception as error:  # noqa: BLE001 - documents that are due are looked after again
            log_failure("batches are looked after again", error, redactor=self._scribe.redactor)


def _is_refused(error: AgentError) -> bool:
    """Whether no batch was created, for certain: a server that failed may have created it."""
    is_of_server = isinstance(error, ModelUnavailable) and error.fault is ModelFault.SERVER
    return is_unpaid(error) and not is_of_server
