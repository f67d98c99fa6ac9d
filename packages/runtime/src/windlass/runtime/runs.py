"""Runs and their handles: status, result, events, answers, cancel."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence, Set
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import Final, Generic, cast, overload

from pydantic import BaseModel, JsonValue, ValidationError

from windlass.agent.agent import Output
from windlass.agent.output import parse_output
from windlass.engine.folds import JournalFolds, SessionFold
from windlass.engine.inbox import answers_in, each_item, has_answers
from windlass.errors import Rejected, kind_of
from windlass.ports.feed import EventBus, EventStream, refused
from windlass.ports.store import (
    CANCEL,
    COMPACT,
    START,
    STATE,
    STEER,
    NewRun,
    RunRow,
    SettledRequest,
    Store,
)
from windlass.refusals import (
    NAME_SHOWN_CHARS_MAX,
    answered_already,
    bad_request,
    check_id,
    check_seconds,
    misfit,
    no_value,
    not_retryable,
    not_undoable,
    refused_answer,
    settled_already,
    unknown_run,
    unknown_session,
)
from windlass.runtime.requests import Request, RunHost, requests_of
from windlass.tools.context import SessionValues
from windlass.tools.deps import OutputT
from windlass_harness.budget import Budget, remaining
from windlass_harness.ledger.names import is_notes
from windlass_harness.loop.authored import state_problem
from windlass_harness.loop.events import StateChange
from windlass_harness.loop.notes import limits_of
from windlass_harness.loop.people import matched, refusal
from windlass_harness.loop.state import LoopState
from windlass_harness.record import Record
from windlass_harness.times import ms_of, stamp_of
from windlass_harness.views.family import ChildSession
from windlass_harness.views.runs import (
    RUN_ENDS,
    DeliveryState,
    RunState,
    advance_run,
)
from windlass_harness.views.stream import ChatFold, StepVoided, TextDelta
from windlass_protocol import (
    BudgetLimits,
    CausalIds,
    Cursor,
    ErrorInfo,
    ErrorKind,
    Event,
    InputKind,
    InputRequest,
    InputResolution,
    InputResponse,
    JsonObject,
    OutputContract,
    RetryClass,
    RunCursor,
    RunRequest,
    RunResult,
    RunSnapshot,
    RunStatus,
    SessionCursor,
    UndoPlan,
    Usage,
)
from windlass_protocol.bodies import data_of
from windlass_protocol.codec_errors import shown
from windlass_protocol.frozen import sealed
from windlass_protocol.limits import INTEGER_MAX


@sealed
class Asking:
    """A session with open requests, and the answers to them."""

    session_id: str
    answer_id: str
    """Key of the answers as an inbox item; the record of a settled request names it."""
    responses: tuple[InputResponse, ...]
    requests: Mapping[str, InputRequest]
    given_ms: int
    """Time of the answers, in milliseconds since 1970."""
    after: int
    """Number of the last record that was read: a request that is open here is settled after it."""
    agent_id: str | None = None
    """The agent of the run that asked."""
    run_id: str | None = None
    """The run that asked."""

    @property
    def body(self) -> dict[str, JsonValue]:
        """The answers as the body of an inbox item."""
        responses: list[JsonValue] = [
            response.model_dump(mode="json", by_alias=True) for response in self.responses
        ]
        return {"responses": responses, "givenMs": self.given_ms}


TERMINAL: Final = frozenset(RUN_ENDS.values())
_RETRYABLE: Final = frozenset({RunStatus.FAILED, RunStatus.BUDGET_EXHAUSTED})
_RETRIED: Final = (
    "source",
    "owner",
    "packageId",
    "mode",
    "capabilities",
    "metadata",
    "goalId",
    "goalDescription",
)
"""Fields of a failed run that the run which continues it shares."""
_UNDONE: Final = ("source", "owner", "packageId", "mode", "capabilities", "metadata")
"""Fields of a run that the run which reverses its calls shares."""
_FOLDED_RECORDS: Final = 512
_OPENING_RECORDS: Final = 64
"""A run begins with its start, its turn and its message; records of its session may precede them."""
_EXPIRY_MARGIN_MS: Final = 1_000
"""An answer is late in the last second of its request: a driver may have decided the expiry already."""
_SETTLEMENT_S_MAX: Final = 2.0
"""How long a late answer waits for the settlement of its request."""
_CANCELLED: Final = "the run was cancelled, which closed its requests"
_DISMISSED: Final = "a message was sent to the run before, which closed its requests"


@sealed
class PostedAnswers:
    """Answers that were put into the inbox of a session, as one item."""

    asking: Asking
    number: int


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
            return f"it is of agent {shown(self._hide(row.agent_id), NAME_SHOWN_CHARS_MAX)}"
        if row is not None and row.session_id != session_id:
            return f"it is in session {shown(self._hide(row.session_id), NAME_SHOWN_CHARS_MAX)}"
        return "its message or one of its options differs"

    async def ask_compaction(self, session_id: str, *, key: str) -> None:
        """Put a request to compact the history into the inbox of a session.

        Raises:
            Conflict: the session is unknown.
        """
        await self.check_session_exists(session_id)
        await self._store.post(session_id, kind=COMPACT, key=f"{COMPACT}:{key}", body={})

    async def state(self, session_id: str) -> JsonObject:
        """Return the authored state of a session.

        Raises:
            Conflict: the session is unknown.
        """
        await self.check_session_exists(session_id)
        return dict(SessionValues((await self._folds.session(session_id)).authored))

    async def change_state(self, session_id: str, change: StateChange, *, key: str) -> None:
        """Put a change of the authored state into the inbox of a session.

        Raises:
            Conflict: the session is unknown.
            Rejected: the change does not fit.
        """
        problem = state_problem(await self.state(session_id), change)
        if problem is not None:
            raise bad_request(problem)
        await self._store.post(session_id, kind=STATE, key=f"{STATE}:{key}", body=data_of(change.body))

    async def retry_request(
        self, row: RunRow, run_id: str, *, budget: BudgetLimits | None = None
    ) -> RunRequest:
        """Return the request of a run that continues a failed one: that of the failed run, under a new id.

        Its budget is what the failed run has left. `budget` are other limits, of both runs together, and of
        the runs that the failed run continued.

        Raises:
            Conflict: the run has not failed, is one of a subagent or reverses calls, or is not the newest of
                its session; or nothing is left of its budget.
        """
        newest = (await self._folds.session(row.session_id)).newest_run
        if row.status not in _RETRYABLE:
            raise not_retryable(row.run_id, f"it is {row.status.value}; only a failed run is continued")
        if newest is None or newest.run_id != row.run_id:
            raise not_retryable(row.run_id, "it never started, or its session has gone on; start a new run")
        if newest.parent is not None:
            raise not_retryable(row.run_id, "it is one of a subagent; retry the run that called it")
        facts, message = await self._opening(row)
        if "undo" in facts:
            raise not_retryable(row.run_id, "it reversed calls, without a model; undo the run again instead")
        fields: JsonObject = {name: facts[name] for name in _RETRIED if name in facts}
        fields |= {"runId": run_id, "agentId": row.agent_id, "sessionId": row.session_id}
        continued = {row.run_id}
        while isinstance(first := facts.get("retryOf"), str):
            continued.add(first)
            facts, message = await self._opening(await self.row(first))
        limits = budget or newest.budget
        if limits is not None:
            # The own budget of a run is what those before it have left.
            counted = {row.run_id} if budget is None else continued
            remaining_limits = await self._budget_left(row, limits, counted)
            fields["budget"] = {name: limit for name, limit in remaining_limits.items() if limit is not None}
        fields["input"] = message.get("parts") or message.get("message") or ""
        return RunRequest.model_validate(fields, by_alias=True, by_name=False)

    async def _budget_left(
        self, row: RunRow, limits: BudgetLimits, counted: Set[str]
    ) -> dict[str, int | None]:
        """Return what runs that have ended leave of some limits, by their wire names; `row` is the last.

        Raises:
            Conflict: nothing is left of one that the next model call needs.
        """
        state, remaining_limits = LoopState(), limits_of(limits)
        while state.session.run is None or state.session.run.run_id != row.run_id or state.run is not None:
            # Records after the end, such as feedback, take none of its time.
            records = await self._store.read(row.session_id, after=state.seq, limit=_FOLDED_RECORDS)
            assert records, "a run that has ended has a record of its end"
            for record in records:
                state.apply(record)
                if record.type in RUN_ENDS and record.run_id in counted:
                    remaining_limits = remaining(state.run_notes.spent, remaining_limits)
                if record.type in RUN_ENDS and record.run_id == row.run_id:
                    break
        names = {
            "maxTokens": remaining_limits.max_tokens,
            "maxSteps": remaining_limits.max_steps,
            "maxToolCalls": remaining_limits.max_tool_calls,
            "maxCostMicros": remaining_limits.max_cost_micros,
            "maxWallMs": remaining_limits.max_wall_ms,
        }
        is_exhausted = row.status is RunStatus.BUDGET_EXHAUSTED
        used_up = [
            name for name, limit in names.items() if limit == 0 and (is_exhausted or name != "maxToolCalls")
        ]
        if used_up:
            raise not_retryable(
                row.run_id,
                f"nothing is left of its budget ({', '.join(used_up)}); continue it with a larger one, "
                "handle.retry(budget=…) or windlass runs retry --max-steps N, or send a message: it starts a "
                "run with a budget of its own",
            )
        return names

    async def undo_request(self, row: RunRow, run_id: str) -> RunRequest:
        """Return the request of a run that reverses calls of another one.

        Raises:
            Conflict: the run has not ended, never started, or is one that reverses calls.
        """
        if row.status not in TERMINAL or not row.first_seq:
            raise not_undoable(row.run_id, f"it is {row.status.value}; cancel it first, or wait for its end")
        facts, _ = await self._opening(row)
        if "undo" in facts:
            raise not_undoable(row.run_id, "it is one that reversed calls")
        fields: JsonObject = {name: facts[name] for name in _UNDONE if name in facts}
        fields |= {"runId": run_id, "agentId": row.agent_id, "sessionId": row.session_id}
        fields["input"] = f"Undo run {row.run_id}."
        return RunRequest.model_validate(fields, by_alias=True, by_name=False)

    async def _opening(self, row: RunRow) -> tuple[JsonObject, JsonObject]:
        """Return how a run started, and its message."""
        records = await self._store.read(row.session_id, after=row.first_seq - 1, limit=_OPENING_RECORDS)
        data = {record.type: record.data for record in reversed(records) if record.run_id == row.run_id}
        return data["run.started"], data.get("message.received", {})

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
            if item.body.get("runId") == row.run_id
        }
        is_cancelled, start = CANCEL in ours, ours.get(START)
        if start is None:
            # A start that left the inbox meanwhile has begun: read its records.
            snapshot = await self._begun(row if row.first_seq else await self.row(run_id))
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
        return {str(item.body.get("runId")) async for item in items if item.kind == CANCEL}

    async def _is_cancelled(self, session_id: str) -> bool:
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

    async def _begun(self, row: RunRow) -> RunSnapshot:
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
            for name, first in (await self._first_items(home, open_)).items()
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
        state = await self._state(session_id, run_id)
        if state is None:
            return {}, set()
        proxied = state.family.proxied
        open_ = {**state.requests, **{name: proxy.request for name, proxy in proxied.items()}}
        homes = {session_id, *(proxy.session_id for proxy in proxied.values())}
        if not open_ or await self._is_cancelled(session_id):
            return {}, set()
        return open_, homes

    async def _first_items(
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
                        chosen = matched(requests[response.request_id], response)
                        first.setdefault(response.request_id, StoredAnswer(item.key, chosen, event.given_ms))
            is_cancel = item.kind == CANCEL and item.body.get("runId") == run_id
            if is_cancel or item.kind == STEER:
                for name, request in requests.items():
                    # A message leaves the questions about interrupted calls open.
                    if is_cancel or request.kind is not InputKind.RECOVERY:
                        first.setdefault(name, _CANCELLED if is_cancel else _DISMISSED)
        return first

    async def without_repeats(self, asking: Asking, *, before: float = inf) -> Asking:
        """Return answers without those that are in the inbox already, under the same id.

        Raises:
            Conflict: a request has another answer in the inbox, before an item, or is closed by an item.
        """
        session_id, requests = asking.session_id, asking.requests
        items = await self._first_items(session_id, requests, run_id=asking.run_id, before=before)
        new: list[InputResponse] = []
        for response in asking.responses:
            match items.get(response.request_id):
                case None:
                    new.append(response)
                case StoredAnswer() as first:
                    chosen = matched(requests[response.request_id], response)
                    if first.answer_id != asking.answer_id or not _is_equal(chosen, first.response):
                        await self._check_open(response.request_id)
                        at = None if first.given_ms is None else stamp_of(first.given_ms)
                        raise answered_already(first.response, session_id, at=at, agent_id=asking.agent_id)
                case problem:
                    await self._check_open(response.request_id)
                    raise refused_answer(None, response, problem=problem, session_id=session_id)
        return replace(asking, responses=tuple(new))

    async def _check_open(self, request_id: str) -> None:
        """Refuse an answer to a request that was settled, even if later answers are still in the inbox.

        Raises:
            Conflict: it is settled.
        """
        settled = await self._store.find_request(request_id)
        if isinstance(settled, SettledRequest):
            raise settled_already(settled)

    async def check_first(self, posted: PostedAnswers, *, now_ms: int) -> None:
        """Refuse answers that were posted if they do not settle their requests.

        Items are taken in the order of their numbers, so an earlier one in the inbox comes first. An item
        that was taken has settled its requests, and the record names it. A driver that read the inbox before
        an item was posted may be about to record the expiry of the request: so a late answer waits for the
        settlement. Without a driver for the session the item is the first, and the wait ends after 2 s.

        Raises:
            Conflict: a request has another answer, or it was closed without one.
        """
        asking = await self.without_repeats(posted.asking, before=posted.number)
        for response in asking.responses:
            settled = await self._settlement(asking, response.request_id, now_ms)
            if settled is None:
                continue
            resolution = await self._resolution(settled, after=asking.after)
            chosen = matched(asking.requests[response.request_id], response)
            if resolution is None or resolution.response is None:
                raise settled_already(settled)
            first, first_id = resolution.response, resolution.answer_id
            # A process of an earlier release records no id.
            if first_id != asking.answer_id and (first_id is not None or not _is_equal(chosen, first)):
                raise settled_already(settled)

    async def _settlement(self, asking: Asking, request_id: str, now_ms: int) -> SettledRequest | None:
        """Return the settled request; None if it is open. A request that is about to expire is waited for."""
        settled = await self._store.find_request(request_id)
        expires_at = asking.requests[request_id].expires_at
        if isinstance(settled, SettledRequest):
            return settled
        if expires_at is None or now_ms < ms_of(expires_at) - _EXPIRY_MARGIN_MS:
            return None
        after = SessionCursor(session_id=asking.session_id, seq=asking.after)
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(_SETTLEMENT_S_MAX),
                aclosing(self._bus.subscribe_session(asking.session_id, after)) as events,
            ):
                async for event in events:
                    if event.type == "input.resolved":
                        settled = await self._store.find_request(request_id)
                    if isinstance(settled, SettledRequest):
                        return settled
        return None

    async def _resolution(self, settled: SettledRequest, *, after: int) -> InputResolution | None:
        """Return how a request was settled, from the records after `after`; None if there is no record."""
        while records := await self._store.milestones(settled.session_id, after=after):
            for record in records:
                resolutions = record.data.get("resolutions") if record.type == "input.resolved" else None
                for data in resolutions if isinstance(resolutions, list) else ():
                    resolution = InputResolution.model_validate(data, by_alias=True)
                    if resolution.request_id == settled.request_id:
                        return resolution
            after = records[-1].seq
        return None

    async def _state(self, session_id: str, run_id: str | None) -> SessionFold | None:
        """Return the state of a session; None if it is running another run than `run_id`."""
        state = await self._folds.session(session_id)
        is_other = run_id is not None and (state.run is None or state.run.run_id != run_id)
        return None if is_other else state

    async def sort(
        self,
        responses: Sequence[InputResponse],
        session_id: str,
        *,
        run_id: str | None = None,
        answer_id: str,
        given_ms: int,
    ) -> tuple[Asking, ...]:
        """Group answers by the session that made the requests: the session itself, or one of its subagents.

        The session with the request validates the answer, so each answer goes to that session's inbox.
        Answers that settled their requests under the same id are left out.

        Raises:
            Rejected: `responses` is empty.
            Conflict: a request is settled, or the run was cancelled, which closes its requests.
        """
        if not responses:
            raise bad_request("responses is empty: give an InputResponse for each request that is answered")
        state = await self._state(session_id, run_id)
        own_requests: Mapping[str, InputRequest] = {} if state is None else {**state.requests}
        proxied = {} if state is None else state.family.proxied
        sorted_: dict[str, list[InputResponse]] = {}
        for response in responses:
            proxy = proxied.get(response.request_id)
            home = session_id if proxy is None else proxy.session_id
            sorted_.setdefault(home, []).append(response)
        askings: list[Asking] = []
        for home, answers in sorted_.items():
            below = None if home == session_id else await self._state(home, None)
            asks = below or state
            requests = own_requests if below is None else {**below.requests}
            run, after = (None, 0) if asks is None else (asks.run, asks.seq)
            new = [
                response
                for response in answers
                if response.request_id in requests or not await self._settles(response, home, answer_id)
            ]
            if new and await self._is_cancelled(home):
                raise refused_answer(None, new[0], problem=_CANCELLED, session_id=home)
            askings.append(
                Asking(
                    home,
                    answer_id,
                    tuple(new),
                    requests,
                    given_ms,
                    after,
                    agent_id=None if run is None else run.agent_id,
                    run_id=None if run is None else run.run_id,
                )
            )
        return tuple(askings)

    async def _settles(self, response: InputResponse, session_id: str, answer_id: str) -> bool:
        """Return whether a request was settled by the answer with this id, which is repeated.

        The request is one of the session, or of another one with the same root session.

        Raises:
            Conflict: another answer settled it, or it was closed without one; the error says how.
        """
        settled = await self._store.find_request(response.request_id)
        if not isinstance(settled, SettledRequest):
            return False
        if not await self._has_same_root(settled.session_id, session_id):
            return False
        row = await self._store.run(settled.run_id)
        resolution = await self._resolution(settled, after=0 if row is None else row.first_seq)
        if resolution is None or resolution.response is None or resolution.answer_id != answer_id:
            raise settled_already(settled)
        first = resolution.response
        # The recorded answer has the option that its text named.
        option_id = first.option_id if response.option_id is None and first.text is None else None
        chosen = (
            response
            if option_id is None
            else response.model_copy(update={"option_id": option_id, "text": None})
        )
        if not _is_equal(chosen, first):
            raise settled_already(settled)
        return True

    async def _has_same_root(self, session_id: str, other_id: str) -> bool:
        """Return whether two sessions have the same root session."""
        if session_id == other_id:
            return True
        session, other_session = (
            await self._store.listed_session(session_id),
            await self._store.listed_session(other_id),
        )
        return (
            session is not None
            and other_session is not None
            and session.root_session_id == other_session.root_session_id
        )

    async def descendants(self, session_id: str) -> tuple[ChildSession, ...]:
        """Return the sessions of all subagents below a session, callers first.

        Raises:
            Conflict: the session is unknown.
        """
        await self.check_session_exists(session_id)
        children_below: list[ChildSession] = []
        waiting = [session_id]
        while waiting:
            state = await self._folds.session(waiting.pop(0))
            children = [await self._with_own_status(child) for child in [*state.family.children.values()]]
            children_below += children
            waiting += [child.session_id for child in children]
        return tuple(children_below)

    async def _with_own_status(self, child: ChildSession) -> ChildSession:
        """Return a subagent with its own status: the caller has no record of an end after its own."""
        row = (
            None if child.status is not None or child.run_id is None else await self._store.run(child.run_id)
        )
        return child if row is None or row.status not in TERMINAL else replace(child, status=row.status)


def check_answers(
    responses: Sequence[InputResponse],
    requests: Mapping[str, InputRequest],
    *,
    session_id: str,
    now_ms: int,
) -> None:
    """Refuse a set of answers if one of them is invalid.

    Raises:
        Conflict: a request is not open any more.
        Denied: this responder may not answer.
        Rejected: an answer does not fit its request, or a request is answered twice.
    """
    answered_ids: set[str] = set()
    for answer in responses:
        request = requests.get(answer.request_id)
        response = answer if request is None else matched(request, answer)
        problem = refusal(request, response, now_ms=now_ms)
        if problem is None and response.request_id in answered_ids:
            problem = "the request is answered twice in one call"
        if problem is not None:
            raise refused_answer(request, response, problem=problem, session_id=session_id)
        answered_ids.add(response.request_id)


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
    copied_names = ("packageId", "packageFingerprint", "routeId", "modelId", "turnId", "source")
    return RunSnapshot.model_validate(
        {
            **{name: body[name] for name in copied_names if name in body},
            "runId": row.run_id,
            "agentId": row.agent_id,
            "status": RunStatus.PENDING,
            "sessionId": row.session_id,
            "cancellationRequested": False,
        }
    )


def _is_equal(response: InputResponse, other: InputResponse) -> bool:
    """Return whether two answers have the same responder and the same content."""
    names = ("responder", "option_id", "text", "arguments")
    return all(getattr(response, name) == getattr(other, name) for name in names)


def _counts(response: InputResponse, requests: Mapping[str, InputRequest], given_ms: int | None) -> bool:
    request = requests.get(response.request_id)
    if request is None:
        return False
    return refusal(request, matched(request, response), now_ms=given_ms or 0) is None


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


class RunHandle(Generic[OutputT]):
    """Handle of a run, in whichever process the run is driven.

    `output` is the type of its output; without one the output is text.
    """

    def __init__(self, host: RunHost, run_id: str, output: Output | None = None) -> None:
        self._host = host
        self.run_id = run_id
        self._output = output

    def __repr__(self) -> str:
        return f"RunHandle({self.run_id!r})"

    async def status(self) -> RunStatus:
        """Return the status of the run.

        Raises:
            Conflict: the run is unknown.
        """
        return await self._host.run_status(self.run_id)

    async def session_id(self) -> str:
        """Return the id of the session of the run; its next message goes there.

        Raises:
            Conflict: the run is unknown.
        """
        return await self._host.run_session(self.run_id)

    @overload
    async def wait(self: "RunHandle[str]", timeout: float | None = None) -> RunResult: ...  # noqa: ASYNC109
    @overload
    async def wait(self, timeout: float | None = None) -> "TypedResult[OutputT]": ...  # noqa: ASYNC109
    async def wait(self, timeout: float | None = None) -> "RunResult | TypedResult[OutputT]":  # noqa: ASYNC109 - the run goes on when the wait ends
        """Return the result of the run, once it has ended.

        A run that waits for people has not ended. If the agent has a type as its `output`, so has
        `result.output`.

        Raises:
            TimeoutError: the run did not end within `timeout` seconds. It continues.
            Conflict: the run is unknown.
        """
        result = await self._host.run_result(self.run_id, timeout)
        return result if self._output is None else TypedResult(result, self._output)

    def events(self, after: int | str | Cursor | None = None) -> EventStream:
        """Return the events of the run, stored and live, up to its end.

        `after` is the `seq` of the last event received, or a cursor, also as text; None starts at the first
        event.
        """
        return self._host.subscribe_run(self.run_id, _cursor(self.run_id, after), until_terminal=True)

    async def cancel(self, *, by: str | None = None, reason: str | None = None) -> None:
        """Cancel the run; has no effect on a run that has ended."""
        await self._host.cancel_run(self.run_id, by=by, reason=reason)

    async def retry(self, *, budget: Budget | BudgetLimits | None = None) -> "RunHandle[OutputT]":
        """Continue a run that failed, in a new run of its session; return the handle of that run.

        The model is called with the history of the failed run: calls that have a result are not repeated. A
        second call returns the same run. The new run has what the failed one left of its budget. `budget` are
        other limits, of both runs together: give larger ones to continue a run that used up its budget.

        Raises:
            Conflict: the run has not failed, its session has gone on since, or nothing is left of its budget.
        """
        continued = await self._host.retry_run(self.run_id, budget=budget)
        return RunHandle(self._host, continued.run_id, self._output)

    async def undo(self) -> "RunHandle[str]":
        """Reverse the calls of the run, newest first, in a new run of its session; return its handle.

        Calls of tools with an `undo` are reversed, each once, also after a crash; the policy decides about
        each. `undo_plan` lists them before. The new run fails if a call could not be reversed; a second
        `undo` then tries the rest.

        Raises:
            Conflict: the run has not ended, or has no call that can be reversed.
        """
        return await self._host.undo_run(self.run_id)

    async def undo_plan(self) -> UndoPlan:
        """Return the calls of the run that may have changed something, newest first.

        Each says whether it can be reversed, was reversed, or has no undo.

        Raises:
            Conflict: the run is unknown.
        """
        return await self._host.undo_plan(self.run_id)

    def requests(self) -> AsyncGenerator[Request]:
        """Yield the requests of the run to people, each once, up to the end of the run.

        Each is an `Approval`, a `Question` or an `Interrupted` call, with the answers that fit. Only open
        requests are shown: the same loop is right after a crash, and when others answer too. Requests of
        subagents are included.

            async for request in handle.requests():
                match request:
                    case Approval():
                        await request.approve(by="ann")
                    case Question():
                        await request.reply("the blue one")
                    case Interrupted():
                        await request.retry()
        """
        return requests_of(self._host, self.run_id)

    async def stream_text(self) -> AsyncGenerator[str]:
        """Yield the text of the model as it is written, up to the end of the run.

        The text of an earlier step is whole, and an empty line is between the texts of two messages. If a
        model call fails and is repeated, its text starts anew, also after an empty line.
        """
        chat, key, has_text = ChatFold(), "", False
        async with aclosing(self.events()) as events:
            async for event in events:
                for change in chat.apply(event):
                    if isinstance(change, StepVoided):
                        key = ""
                    elif isinstance(change, TextDelta) and change.kind == "text":
                        if has_text and (change.key != key or change.is_whole):
                            yield "\n\n"
                        key, has_text = change.key, True
                        yield change.delta

    async def open_requests(self) -> tuple[InputRequest, ...]:
        """Return the open requests of the run as data; those with `is_answered` wait for a process."""
        return await self._host.run_requests(self.run_id)

    async def answer(
        self,
        request_id: str,
        option_id: str | None = None,
        *,
        text: str | None = None,
        responder: str | None = None,
        arguments: JsonObject | None = None,
    ) -> None:
        """Answer a request: with one of its options, with words, or with both.

        With the option approve, `arguments` are those that the call runs with instead of its own.

        Raises:
            Conflict: the run has no open request with this id.
            Denied: this responder may not answer.
            Rejected: the answer does not fit the request.
        """
        fields = {
            "request_id": request_id,
            "option_id": option_id,
            "text": text,
            "responder": responder,
            "arguments": arguments,
        }
        try:
            response = InputResponse.model_validate(fields)
        except ValidationError as error:
            problem = misfit(error, "answer", value=fields)
        else:
            return await self._host.answer_run(self.run_id, (response,))
        raise bad_request(problem)


def _cursor(run_id: str, after: object) -> Cursor | str | None:
    if after is None or isinstance(after, BaseModel | str):
        return cast("Cursor | str | None", after)  # the feed refuses a cursor of another kind
    if not isinstance(after, int) or isinstance(after, bool):
        raise refused(f"after must be the seq of an event or a cursor, found {kind_of(after)}")
    if not 0 <= after <= INTEGER_MAX:
        shown_number = after if after < 0 else "more"
        raise refused(f"after must be the seq of an event, 0 to {INTEGER_MAX:,}, found {shown_number}")
    return RunCursor(run_id=run_id, seq=after)


class TypedResult(Generic[OutputT]):
    """Result of a run with a typed output: a RunResult in which `output` is a value."""

    def __init__(self, result: RunResult, output: Output) -> None:
        self.result: Final = result
        """The result as wire data, with the output as text and as JSON."""
        self._type = output

    def __repr__(self) -> str:
        return f"TypedResult({self.run_id!r}, {self.status.value})"

    @cached_property
    def output(self) -> OutputT:
        """The output, of the type that was asked for; JSON if that was a JSON Schema.

        Raises:
            AgentError: the run ended without an output; this is the error of the run.
            Rejected: the type refuses the recorded output: it has changed since the run ended, or the process
                that ended the run did not know the type. `structured_output` is the recorded JSON.
        """
        if self.result.status is not RunStatus.COMPLETED:
            raise no_value(self.result)
        value = self.result.structured_output
        if isinstance(self._type, Mapping | OutputContract):
            return cast(OutputT, value)
        try:
            return cast(OutputT, parse_output(self._type, value))
        except ValidationError as error:
            problem = f"{error.error_count()} problems"
        except Exception as error:  # noqa: BLE001 - validators are code of the application
            problem = type(error).__name__
        raise Rejected(
            f"the recorded output of the run cannot be read as {_name_of(self._type)} ({problem}): the type "
            "has changed since the run ended, or the process that ended it did not know the type; "
            "structured_output is the recorded JSON",
            kind=ErrorKind.STRUCTURED_OUTPUT_FAILURE,
            retry=RetryClass.NOT_RETRYABLE,
            causal_ids=CausalIds(run_id=self.result.run_id),
        )

    @property
    def run_id(self) -> str:
        """The run."""
        return self.result.run_id

    @property
    def session_id(self) -> str | None:
        """The session of the run."""
        return self.result.session_id

    @property
    def status(self) -> RunStatus:
        """How the run ended."""
        return self.result.status

    @property
    def structured_output(self) -> JsonValue:
        """The output as JSON."""
        return self.result.structured_output

    @property
    def error(self) -> ErrorInfo | None:
        """Why the run failed, or which budget it used up."""
        return self.result.error

    @property
    def reason(self) -> str | None:
        """Why the run was cancelled."""
        return self.result.reason

    @property
    def usage(self) -> Usage | None:
        """Tokens, calls and cost of the run."""
        return self.result.usage


def typed_result(result: RunResult, output: Output) -> TypedResult[object]:
    """Return the result of a run that must have an output.

    Raises:
        AgentError: as for `TypedResult.output`.
    """
    typed = TypedResult[object](result, output)
    _ = typed.output
    return typed


def _name_of(output: object) -> str:
    return getattr(output, "__name__", str(output))
