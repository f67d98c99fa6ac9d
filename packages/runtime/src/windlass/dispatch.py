"""Taking requests to whoever answers them, beside the runs that wait."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from windlass.engine.cut import Late, Raised, Returned, cut
from windlass.engine.loading import load
from windlass.engine.writer import Publisher
from windlass.errors import AgentError
from windlass.ports.approval import ApprovalDispatcher
from windlass.ports.journal import Standing, Store
from windlass_protocol import InputRequest, InputResponse, Record

_LOG: Final = logging.getLogger(__name__)

DISPATCHES_MAX: Final = 100
"""Requests that are being taken to somebody at the same time; more wait their turn."""

Answer = Callable[[str, Sequence[InputResponse]], Awaitable[None]]
"""Answers requests of a session."""


class ApprovalDesk:
    """Sees every request once it is durable, and takes it to the dispatcher.

    It stands between the writers of sessions and the event bus, because that is where records become durable.
    """

    def __init__(
        self, dispatcher: ApprovalDispatcher, publisher: Publisher, *, answer: Answer, timeout_ms: int
    ) -> None:
        self._dispatcher = dispatcher
        self._publisher = publisher
        self._answer = answer
        self._timeout_s = timeout_ms / 1_000
        self._gate = asyncio.Semaphore(DISPATCHES_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._seen: set[str] | None = set()
        """Requests that came while those of an earlier life are looked for; None when that is done."""

    def publish(self, records: Sequence[Record]) -> None:
        """Show durable records, and take the requests in them to the dispatcher."""
        self._publisher.publish(records)
        for record in records:
            # What a subagent asks is taken to the dispatcher from its own session.
            if record.type == "input.requested" and "childSessionId" not in record.data:
                for request in _requests(record):
                    self._take(request, record.session_id, record.run_id or "")

    def open(self, store: Store) -> None:
        """Take up requests that were open before this process began."""
        self._begin(self._catch_up(store))

    async def aclose(self) -> None:
        """Wait for no answer any more; requests stay open."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _catch_up(self, store: Store) -> None:
        try:
            after: str | None = None
            while rows := await store.sessions(after=after):
                for row in rows:
                    if row.standing is not Standing.IDLE:
                        await self._look_into(store, row.session_id)
                after = rows[-1].session_id
        except AgentError as error:
            _LOG.error("open requests could not be looked for: %s", error.kind)
        finally:
            self._seen = None

    async def _look_into(self, store: Store, session_id: str) -> None:
        """Take up what is open in a session; one that cannot be read hides no other."""
        try:
            await self._take_open(store, session_id)
        except AgentError as error:
            _LOG.error("open requests of session %s could not be looked for: %s", session_id, error.kind)

    async def _take_open(self, store: Store, session_id: str) -> None:
        state = (await load(store, store, session_id=session_id)).state
        run = state.run
        for request in () if run is None else state.session.requests.values():
            self._take(request, session_id, "" if run is None else run.run_id)

    def _take(self, request: InputRequest, session_id: str, run_id: str) -> None:
        if self._seen is not None:
            if request.request_id in self._seen:
                return
            self._seen.add(request.request_id)
        self._begin(self._bring(request, session_id, run_id))

    async def _bring(self, request: InputRequest, session_id: str, run_id: str) -> None:
        async with self._gate:
            response = await self._ask(request, session_id, run_id)
        if response is None:
            return
        if response.request_id != request.request_id:
            # Whoever was shown one request must not decide about another.
            _LOG.warning("an approval dispatcher answered another request than the one it was given")
            return
        try:
            await self._answer(session_id, (response,))
        except AgentError as error:
            _LOG.warning("an answer of the approval dispatcher does not count: %s", error.kind)

    async def _ask(self, request: InputRequest, session_id: str, run_id: str) -> InputResponse | None:
        """Ask the dispatcher; whatever goes wrong there, the request stays open."""
        asked = self._dispatch(request, session_id, run_id)
        match await cut(asked, self._timeout_s):
            case Returned(response):
                return response
            case Raised(error):
                _LOG.warning("an approval dispatcher failed: %s", type(error).__name__)
            case Late():
                _LOG.warning("an approval dispatcher failed: %s", TimeoutError.__name__)
        return None

    async def _dispatch(self, request: InputRequest, session_id: str, run_id: str) -> InputResponse | None:
        return await self._dispatcher.dispatch(request, session_id=session_id, run_id=run_id)


def _requests(record: Record) -> list[InputRequest]:
    requests = record.data.get("requests")
    assert isinstance(requests, list), "a record that asks people has requests"
    return [InputRequest.model_validate(request) for request in requests]
