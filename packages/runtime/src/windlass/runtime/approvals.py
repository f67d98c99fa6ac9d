"""Dispatch of approval requests to the application."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from windlass.engine.deadline import Raised, Returned, TimedOut, run_with_deadline
from windlass.engine.driving.inbox import DISPATCHED, each_item, item_key
from windlass.engine.writing.writer import Publisher, load
from windlass.errors import AgentError
from windlass.ports.clock import begin_task
from windlass.ports.host import ApprovalDispatcher
from windlass.ports.inbox import DispatchedItem
from windlass.ports.journal import Standing
from windlass.ports.store import Store
from windlass_harness.record import Record
from windlass_protocol import InputRequest, InputResponse
from windlass_protocol.bodies import data_of
from windlass_protocol.generated.records import InputRequested

_LOG: Final = logging.getLogger(__name__)

DISPATCHES_MAX: Final = 100
"""Requests that are dispatched at the same time; further ones are queued."""

Answer = Callable[[str, Sequence[InputResponse]], Awaitable[None]]
"""Answers requests of a session."""


class ApprovalDesk:
    """Passes every durable request to the approval dispatcher.

    It is placed between the writers of sessions and the event bus, where records become durable. The record
    of a request is the intent to dispatch it. `approval.dispatched` records that the dispatcher returned;
    without that record, a later process may dispatch the request again.
    """

    def __init__(
        self,
        dispatcher: ApprovalDispatcher,
        publisher: Publisher,
        *,
        store: Store,
        answer: Answer,
        timeout_ms: int,
    ) -> None:
        self._dispatcher = dispatcher
        self._publisher = publisher
        self._store = store
        self._answer = answer
        self._timeout_s = timeout_ms / 1_000
        self._gate = asyncio.Semaphore(DISPATCHES_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._notes: set[asyncio.Task[None]] = set()
        """Writes of `approval.dispatched`; `aclose` waits for them."""
        self._seen: set[str] | None = set()
        """Requests received during the search for those of earlier processes; None after it."""

    def publish(self, records: Sequence[Record]) -> None:
        """Publish durable records, and dispatch the requests in them."""
        self._publisher.publish(records)
        for record in records:
            body = record.body if record.type == InputRequested.TYPE else None
            # Requests of a subagent are dispatched from its own session.
            if isinstance(body, InputRequested) and body.child_session_id is None:
                for request in body.requests:
                    self._take(request, record.session_id, record.run_id or "")

    def open(self) -> None:
        """Dispatch requests that were open before this process started."""
        begin_task(self._tasks, self._catch_up())

    async def aclose(self) -> None:
        """Stop waiting for answers; requests stay open."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._notes:
            await asyncio.wait(tuple(self._notes))

    async def _catch_up(self) -> None:
        try:
            after: str | None = None
            while rows := await self._store.sessions(after=after):
                for row in rows:
                    if row.standing is not Standing.IDLE:
                        await self._look_into(row.session_id)
                after = rows[-1].session_id
        except AgentError as error:
            _LOG.error("open requests cannot be listed: %s", error.kind)
        finally:
            self._seen = None

    async def _look_into(self, session_id: str) -> None:
        """Dispatch the open requests of a session; an unreadable session is logged and skipped."""
        try:
            await self._take_open(session_id)
        except AgentError as error:
            _LOG.error("open requests of session %s cannot be read: %s", session_id, error.kind)

    async def _take_open(self, session_id: str) -> None:
        store = self._store
        items = [item async for item in each_item(store, session_id) if item.kind == DISPATCHED]
        # Read the journal after the inbox: an item that left the inbox is in the journal by now.
        state = (await load(store, store, session_id=session_id)).state
        run = state.run
        dispatched_ids = {str(item.body["requestId"]) for item in items}
        dispatched_ids |= {note.last_request_id or "" for note in state.notes.values() if note.is_dispatched}
        for request in () if run is None else state.session.requests.values():
            if request.request_id not in dispatched_ids:
                self._take(request, session_id, "" if run is None else run.run_id)

    def _take(self, request: InputRequest, session_id: str, run_id: str) -> None:
        if self._seen is not None:
            if request.request_id in self._seen:
                return
            self._seen.add(request.request_id)
        begin_task(self._tasks, self._bring(request, session_id, run_id))

    async def _bring(self, request: InputRequest, session_id: str, run_id: str) -> None:
        async with self._gate:
            returned = await self._ask(request, session_id, run_id)
        if returned is None:
            return
        response = returned.value
        if response is None:
            begin_task(self._notes, self._note(request.request_id, session_id))
            return
        if response.request_id != request.request_id:
            # An answer must not decide another request than the one that was shown.
            _LOG.warning("the approval dispatcher answered another request than the one it was given")
            return
        try:
            await self._answer(session_id, (response,))
        except AgentError as error:
            _LOG.warning("the answer of the approval dispatcher was refused: %s", error.kind)

    async def _note(self, request_id: str, session_id: str) -> None:
        """Journal that a request was dispatched."""
        key, body = item_key(DISPATCHED, request_id), data_of(DispatchedItem(request_id=request_id))
        try:
            await self._store.post(session_id, kind=DISPATCHED, key=key, body=body)
        except AgentError as error:
            _LOG.warning(
                "the dispatch of a request could not be recorded, and may be repeated: %s", error.kind
            )

    async def _ask(
        self, request: InputRequest, session_id: str, run_id: str
    ) -> Returned[InputResponse | None] | None:
        """Call the dispatcher; the request stays open if it fails."""
        dispatching = self._dispatch(request, session_id, run_id)
        match await run_with_deadline(dispatching, self._timeout_s):
            case Returned() as returned:
                return returned
            case Raised(error):
                _LOG.warning("an approval dispatcher failed: %s", type(error).__name__)
            case TimedOut():
                _LOG.warning("an approval dispatcher failed: %s", TimeoutError.__name__)
        return None

    async def _dispatch(self, request: InputRequest, session_id: str, run_id: str) -> InputResponse | None:
        return await self._dispatcher.dispatch(request, session_id=session_id, run_id=run_id)
