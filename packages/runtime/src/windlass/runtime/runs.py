"""Runs as the store has them: row, snapshot, status, result, deliveries and open requests."""

import asyncio
from collections.abc import Callable, Mapping
from math import inf
from typing import Final

from windlass.engine.driving.inbox import answers_in, each_item, has_answers
from windlass.engine.writing.folds import JournalFolds, SessionFold
from windlass.ports.catalog import RunRow
from windlass.ports.feed import EventBus
from windlass.ports.inbox import STEER, NewRun
from windlass.ports.store import Store
from windlass.refusals import (
    NAME_SHOWN_CHARS_MAX,
    check_id,
    check_seconds,
    unknown_run,
    unknown_session,
)
from windlass_harness.ledger.names import is_notes
from windlass_harness.loop.people import match_option, refusal
from windlass_harness.loop.subagents import CANCEL, START
from windlass_harness.record import Record
from windlass_harness.views.runs import (
    RUN_ENDS,
    DeliveryState,
    RunState,
    advance_run,
)
from windlass_protocol import (
    CausalIds,
    Event,
    InputKind,
    InputRequest,
    InputResponse,
    JsonObject,
    RunResult,
    RunSnapshot,
    RunStatus,
)
from windlass_protocol.bodies import Part, read_body
from windlass_protocol.codec_errors import printable
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import records as bodies

TERMINAL: Final = frozenset(RUN_ENDS.values())
CANCELLED: Final = "the run was cancelled, which closed its requests"
_DISMISSED: Final = "a message was sent to the run before, which closed its requests"


class QueuedFacts(Part, frozen=True, kw_only=True):
    """What a snapshot shows of a run that waits in the inbox."""

    package_id: str
    package_fingerprint: str
    route_id: str
    model_id: str
    turn_id: str | None = None
    source: bodies.SourceRef | None = None


@sealed
class StoredAnswer:
    """A valid answer in an inbox, which no process has taken."""

    answer_id: str
    response: InputResponse
    given_ms: int | None


class Runs:
    """Reads runs from the store and the event bus."""

    def __init__(
        self, store: Store, bus: EventBus, *, folds: JournalFolds, hide: Callable[[str], str]
    ) -> None:
        self._store = store
        self._folds = folds
        self._hide = hide
        """Masks secrets in error messages."""
        self._bus = bus

    async def row(self, run_id: str) -> RunRow:
        """Return the catalogue row of a run.

        Raises:
            Conflict: the run is unknown.
        """
        row = await self._store.run(check_id(run_id, "a run id"))
        if row is None:
            raise unknown_run(self._hide(run_id))
        return row

    async def difference(self, run: NewRun, session_id: str, *, owner: str | None) -> str:
        """Return how a run of the same id differs from this one, as text; `owner` asks for this one."""
        row = await self._store.run(run.run_id)
        if row is not None and owner not in (None, row.owner):
            return "it belongs to another owner"
        if row is not None and row.agent_id != run.agent_id:
            return f"it is of agent {printable(self._hide(row.agent_id), NAME_SHOWN_CHARS_MAX)}"
        if row is not None and row.session_id != session_id:
            return f"it is in session {printable(self._hide(row.session_id), NAME_SHOWN_CHARS_MAX)}"
        return "its message or one of its options differs"

    async def check_session_exists(self, session_id: str) -> None:
        """Check that a session exists.

        Raises:
            Conflict: the session is unknown.
        """
        is_there = await self._store.session(check_id(session_id, "a session id")) is not None
        # Sessions with notes take no messages: their records count as a person's judgement.
        if not is_there or is_notes(session_id):
            raise unknown_session(self._hide(session_id))

    async def snapshot(self, run_id: str) -> RunSnapshot:
        """Return the snapshot of a run, also of a queued one.

        Raises:
            Conflict: the run is unknown.
        """
        row = await self.row(run_id)
        ours = {
            item.kind: item.body
            async for item in each_item(self._store, row.session_id)
            if item.run_id == row.run_id
        }
        is_cancelled, start = CANCEL in ours, ours.get(START)
        if start is None:
            # A start that left the inbox meanwhile has begun: read its records.
            snapshot = await self._started_snapshot(row if row.first_seq else await self.row(run_id))
        else:
            snapshot = _queued_snapshot(row, start)
        if not is_cancelled or snapshot.status in TERMINAL:
            return snapshot
        # The cancel is durable, though no driver has recorded it yet.
        return snapshot.model_copy(update={"status": RunStatus.CANCELLING, "cancellation_requested": True})

    async def status(self, run_id: str) -> RunStatus:
        """Return the status of a run; it is `cancelling` as soon as a cancel is in the inbox.

        Raises:
            Conflict: the run is unknown.
        """
        row = await self.row(run_id)
        if row.status in TERMINAL:
            return row.status
        is_cancelled = run_id in await self._cancels(row.session_id)
        status = (await self.row(run_id)).status
        return RunStatus.CANCELLING if is_cancelled and status not in TERMINAL else status

    async def _cancels(self, session_id: str) -> set[str]:
        """Return the ids of the runs with a cancel in the inbox.

        Read the run after it: a cancel that leaves the inbox meanwhile is in the records.
        """
        items = each_item(self._store, session_id)
        return {item.run_id async for item in items if item.kind == CANCEL and item.run_id}

    async def is_cancelled(self, session_id: str) -> bool:
        """Return whether the current run of a session was cancelled, or a run that called it."""
        cancels = await self._cancels(session_id)
        run = (await self._folds.session(session_id)).run
        while run is not None:
            if run.is_cancel_requested or run.result is not None or run.run_id in cancels:
                return True
            if run.parent is None:
                return False
            cancels = await self._cancels(run.parent.session_id)
            above = await self._store.run(run.parent.run_id)
            run = None if above is None else await self._folds.run(above)
        return False

    async def _started_snapshot(self, row: RunRow) -> RunSnapshot:
        run = await self._folds.run(row)
        if run is None:
            raise unknown_run(self._hide(row.run_id))
        snapshot = run.snapshot
        assert snapshot is not None, "a run that has left the inbox begins with its package"
        return snapshot

    async def result(self, run_id: str, timeout: float | None = None) -> RunResult:  # noqa: ASYNC109 - the run goes on when the wait ends
        """Return the result of a run, once it has ended.

        Raises:
            TimeoutError: the run did not end within `timeout` seconds. It continues.
            Conflict: the run is unknown.
        """
        limit = asyncio.timeout(check_seconds(timeout, "timeout"))
        row = await self.row(run_id)
        event = await self._bus.latest_terminal_event(run_id) if row.status in TERMINAL else None
        try:
            async with limit:
                event = event or await self._bus.terminal_event(run_id)
        except TimeoutError:
            if not limit.expired():
                raise
        if event is None:
            raise TimeoutError(await self._not_ended(run_id, timeout))
        run = RunState(run_id, row.agent_id, row.session_id, started_at=event.meta.at)
        result = advance_run(run, record_of(event, row.session_id)).result
        assert result is not None, "the last event of a run seals its result"
        return _with_error_ids(result, row)

    async def _not_ended(self, run_id: str, timeout_s: float | None) -> str:
        """Return the text of the TimeoutError: the state of a run that has not ended."""
        row = await self.row(run_id)
        problem = f"not ended after {timeout_s:g} s: {row.status}"
        count = len(await self.requests(row.session_id, run_id))
        if not count:
            return problem
        return f"{problem}, {count} {'request' if count == 1 else 'requests'} open, see handle.requests()"

    async def deliveries(self, run_id: str) -> tuple[DeliveryState, ...]:
        """Return the delivery of a run's output to each of its sinks.

        Raises:
            Conflict: the run is unknown.
        """
        row = await self.row(run_id)
        state = await self._folds.session(row.session_id)
        return tuple(delivery for delivery in state.deliveries.by_id.values() if delivery.run_id == run_id)

    async def requests(self, session_id: str, run_id: str | None = None) -> Mapping[str, InputRequest]:
        """Return the open requests of a session or of one run of it, subagents included."""
        open_, homes = await self._open_requests(session_id, run_id)
        answered = {
            name
            for home in homes
            for name, first in (await self.first_items(home, open_)).items()
            if isinstance(first, StoredAnswer)
        }
        if open_.keys() - answered:
            # An answer taken between the two reads is not in the inbox, and its request is not open any more.
            open_, _ = await self._open_requests(session_id, run_id)
        return {
            name: request.model_copy(update={"is_answered": True}) if name in answered else request
            for name, request in open_.items()
        }

    async def _open_requests(
        self, session_id: str, run_id: str | None
    ) -> tuple[dict[str, InputRequest], set[str]]:
        """Return the unresolved requests, and the sessions that made them."""
        state = await self.session_fold(session_id, run_id)
        if state is None:
            return {}, set()
        proxied = state.family.proxied
        open_ = {**state.requests, **{name: proxy.request for name, proxy in proxied.items()}}
        homes = {session_id, *(proxy.session_id for proxy in proxied.values())}
        if not open_ or await self.is_cancelled(session_id):
            return {}, set()
        return open_, homes

    async def first_items(
        self,
        session_id: str,
        requests: Mapping[str, InputRequest],
        *,
        run_id: str | None = None,
        before: float = inf,
    ) -> dict[str, StoredAnswer | str]:
        """Return the valid answer to each request that is first in the inbox, before an item.

        A text instead of an answer says how an earlier item closes the request: a cancel of `run_id`, or a
        message.
        """
        first: dict[str, StoredAnswer | str] = {}
        async for item in each_item(self._store, session_id):
            if item.number >= before:
                break
            if has_answers(item):
                event = answers_in(item)
                for response in event.responses:
                    if _counts(response, requests, event.given_ms):
                        chosen = match_option(requests[response.request_id], response)
                        first.setdefault(response.request_id, StoredAnswer(item.key, chosen, event.given_ms))
            is_cancel = item.kind == CANCEL and item.run_id == run_id
            if is_cancel or item.kind == STEER:
                for name, request in requests.items():
                    # A message leaves the questions about interrupted calls open.
                    if is_cancel or request.kind is not InputKind.RECOVERY:
                        first.setdefault(name, CANCELLED if is_cancel else _DISMISSED)
        return first

    async def session_fold(self, session_id: str, run_id: str | None) -> SessionFold | None:
        """Return the state of a session; None if it is running another run than `run_id`."""
        state = await self._folds.session(session_id)
        is_other = run_id is not None and (state.run is None or state.run.run_id != run_id)
        return None if is_other else state


def _with_error_ids(result: RunResult, row: RunRow) -> RunResult:
    """Return a result with an error that names its run and its session.

    The record of a run that never started does not name them, nor do records of earlier releases.
    """
    error = result.error
    if error is None:
        return result
    error_ids = {} if error.causal_ids is None else error.causal_ids.model_dump()
    ids = CausalIds(session_id=row.session_id, run_id=row.run_id).model_dump()
    ids = CausalIds.model_validate({**ids, **error_ids})
    return result.model_copy(update={"error": error.model_copy(update={"causal_ids": ids})})


def _queued_snapshot(row: RunRow, body: JsonObject) -> RunSnapshot:
    """Return the snapshot of a run that waits in the inbox; `body` is that of its start."""
    facts = read_body(QueuedFacts, body)
    return RunSnapshot(
        run_id=row.run_id,
        agent_id=row.agent_id,
        status=RunStatus.PENDING,
        session_id=row.session_id,
        package_id=facts.package_id,
        package_fingerprint=facts.package_fingerprint,
        route_id=facts.route_id,
        model_id=facts.model_id,
        turn_id=facts.turn_id,
        source=facts.source,
        cancellation_requested=False,
    )


def _counts(response: InputResponse, requests: Mapping[str, InputRequest], given_ms: int | None) -> bool:
    request = requests.get(response.request_id)
    if request is None:
        return False
    return refusal(request, match_option(request, response), now_ms=given_ms or 0) is None


def record_of(event: Event, session_id: str) -> Record:
    """Return the record that an event shows."""
    return Record(
        session_id=event.session_id or session_id,
        seq=event.seq or 1,
        type=event.type,
        at=event.meta.at,
        data=event.data,
        run_id=event.run_id,
        agent_id=event.agent_id,
    )
