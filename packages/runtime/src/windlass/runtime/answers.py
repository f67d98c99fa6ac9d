"""Answers to requests: checked, put into the inbox of the session that asked, and seen to be the first."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from windlass.engine.driving.inbox import ANSWER, item_key
from windlass.engine.writing.masking import has_mask
from windlass.errors import Conflict, Unavailable
from windlass.ports.inbox import AnswersItem
from windlass.ports.listing import SettledRequest
from windlass.ports.store import Store
from windlass.refusals import (
    answer_error,
    bad_request,
    check_free_json,
    check_id,
    check_items,
    closed_request,
    removed_tool,
    second_answer,
)
from windlass.runtime.requests import makes_call
from windlass.runtime.runs import CANCELLED, Runs, StoredAnswer
from windlass.tools.calling import read_arguments
from windlass_harness.loop.people import match_option, refusal
from windlass_harness.times import ms_of, stamp_of
from windlass_harness.views.payloads import action_name
from windlass_protocol import InputRequest, InputResolution, InputResponse, JsonObject, SessionCursor
from windlass_protocol.bodies import data_of
from windlass_protocol.frozen import sealed
from windlass_protocol.generated.records import InputResolved

if TYPE_CHECKING:
    from windlass.runtime.core import Core

_EXPIRY_MARGIN_MS: Final = 1_000
"""An answer is late in the last second of its request: a driver may have decided the expiry already."""
_SETTLEMENT_S_MAX: Final = 2.0
"""How long a late answer waits for the settlement of its request."""


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
    def body(self) -> JsonObject:
        """The answers as the body of an inbox item."""
        responses: list[JsonObject] = [
            response.model_dump(mode="json", by_alias=True) for response in self.responses
        ]
        return data_of(AnswersItem(responses=responses, given_ms=self.given_ms))


@sealed
class PostedAnswers:
    """Answers that were put into the inbox of a session, as one item."""

    asking: Asking
    number: int


class Answers:
    """Takes answers to the requests of runs and sessions; `core.answers`."""

    def __init__(self, core: "Core") -> None:
        self._core = core
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def _store(self) -> Store:
        return self._core.store

    @property
    def _runs(self) -> Runs:
        return self._core.runs

    async def answer_run(
        self, run_id: str, responses: Sequence[InputResponse], *, key: str | None = None
    ) -> None:
        """Answer requests of a run; return once the answers are durable.

        Answers that were given with the same `key` before are accepted again.

        Raises:
            Conflict: the request is answered already, or the run has no open request with this id.
            Denied: this responder may not answer.
            Rejected: an answer does not fit its request.
        """
        row = await self._runs.row(run_id)
        await self._give(row.session_id, responses, run_id, key=key)

    async def answer(
        self, session_id: str, responses: Sequence[InputResponse], *, key: str | None = None
    ) -> None:
        """Answer requests of a session; return once the answers are durable.

        Answers that were given with the same `key` before are accepted again.

        Raises:
            Conflict: the request is answered already, the session has no open request with this id, or the
                session is unknown.
            Denied: this responder may not answer.
            Rejected: an answer does not fit its request.
        """
        await self._give(session_id, responses, key=key)

    async def _give(
        self,
        session_id: str,
        responses: Sequence[InputResponse],
        run_id: str | None = None,
        *,
        key: str | None,
    ) -> None:
        name = self._core.ports.machine.new_id() if key is None else check_id(key, "key")
        check = partial(self.check, session_id, responses, run_id, answer_id=item_key(ANSWER, name))
        async with self.lock(check_id(session_id, "session_id")):
            try:
                posted = [await self.post(answers) for answers in await check()]
            except Conflict:
                # Another process may have posted the same answers with the same key. A check reads requests,
                # then the inbox: answers that are taken in between are found by the next check.
                if key is None or (await check() and await check()):
                    raise
                return
        await self.check_first(posted)

    async def check_first(self, posted: Sequence[PostedAnswers]) -> None:
        """Wake the sessions of posted answers, and refuse answers that others were before.

        Raises:
            Conflict: a request has another answer, or it was closed without one.
        """
        for answers in posted:
            await self._core.rouse(answers.asking.session_id)
        now_ms = self._core.now_ms()
        # The answers are durable: a store that cannot be read now does not change that.
        with suppress(Unavailable):
            for answers in posted:
                await self._check_settled(answers, now_ms=now_ms)

    def lock(self, session_id: str) -> asyncio.Lock:
        """Return the lock of the answers of a session: of two at once, the second is not posted."""
        return self._locks.setdefault(check_id(session_id, "a session id"), asyncio.Lock())

    async def post(self, asking: Asking) -> PostedAnswers:
        """Put answers into the inbox of the session that asked."""
        session_id, key = asking.session_id, asking.answer_id
        item = await self._store.post(session_id, kind=ANSWER, key=key, body=asking.body)
        return PostedAnswers(asking, item.number)

    async def _check_calls(self, asking: Asking, plain: Mapping[str, InputResponse]) -> None:
        """Refuse answers for calls that the agent of this process cannot make.

        `plain` are the answers by request, with their secrets.

        Raises:
            Rejected: changed arguments do not fit their tool.
            Conflict: a call is approved, and the agent no longer has its tool.
        """
        registered = None if asking.agent_id is None else self._core.ports.registry.agent(asking.agent_id)
        for response in (plain[answer.request_id] for answer in asking.responses):
            request, changed = asking.requests[response.request_id], response.arguments
            if registered is None:
                continue
            name = action_name(request.action)
            agent = registered.agent
            is_known = agent is None or agent.resolvers or name in agent.call_names
            if not is_known and makes_call(request, response):
                if await self._core.is_driven_elsewhere(asking.run_id):
                    continue
                raise removed_tool(name, asking.session_id, request.request_id, agent_id=asking.agent_id)
            tool = registered.tools.get(name)
            if tool is not None and changed is not None and not has_mask(changed):
                await read_arguments(tool, changed)

    async def check(
        self,
        session_id: str,
        responses: Sequence[InputResponse],
        run_id: str | None = None,
        *,
        answer_id: str,
    ) -> tuple[Asking, ...]:
        """Return new answers by the sessions that asked, with secrets masked.

        The caller holds the lock until they are posted.
        """
        answers_given = check_items(responses, InputResponse, what="responses", words="InputResponses")
        await self._runs.check_session_exists(session_id)
        now_ms = self._core.now_ms()
        dumped: list[JsonObject] = [answer.model_dump(mode="json", by_alias=True) for answer in answers_given]
        for value in (value for answer in dumped for value in answer.values()):
            # An answer may have fields that this version does not know.
            check_free_json(value, "an answer")
        masked = [
            InputResponse.model_validate(await self._core.mask(answer), by_alias=True) for answer in dumped
        ]
        asking = await self._sort(masked, session_id, run_id=run_id, answer_id=answer_id, given_ms=now_ms)
        plain = {answer.request_id: answer for answer in answers_given}
        new: list[Asking] = []
        for answers in asking:
            check_answers(answers.responses, answers.requests, session_id=answers.session_id, now_ms=now_ms)
            await self._check_calls(answers, plain)
            answers = await self._without_repeats(answers)
            if answers.responses:
                new.append(answers)
        return tuple(new)

    async def _without_repeats(self, asking: Asking, *, before: float = inf) -> Asking:
        """Return answers without those that are in the inbox already, under the same id.

        Raises:
            Conflict: a request has another answer in the inbox, before an item, or is closed by an item.
        """
        session_id, requests = asking.session_id, asking.requests
        items = await self._runs.first_items(session_id, requests, run_id=asking.run_id, before=before)
        new: list[InputResponse] = []
        for response in asking.responses:
            match items.get(response.request_id):
                case None:
                    new.append(response)
                case StoredAnswer() as first:
                    chosen = match_option(requests[response.request_id], response)
                    if first.answer_id != asking.answer_id or not _is_equal(chosen, first.response):
                        await self._check_open(response.request_id)
                        at = None if first.given_ms is None else stamp_of(first.given_ms)
                        raise second_answer(first.response, session_id, at=at, agent_id=asking.agent_id)
                case problem:
                    await self._check_open(response.request_id)
                    raise answer_error(None, response, problem=problem, session_id=session_id)
        return replace(asking, responses=tuple(new))

    async def _check_open(self, request_id: str) -> None:
        """Refuse an answer to a request that was settled, even if later answers are still in the inbox.

        Raises:
            Conflict: it is settled.
        """
        settled = await self._store.find_request(request_id)
        if isinstance(settled, SettledRequest):
            raise closed_request(settled)

    async def _check_settled(self, posted: PostedAnswers, *, now_ms: int) -> None:
        """Refuse answers that were posted if they do not settle their requests.

        Items are taken in the order of their numbers, so an earlier one in the inbox comes first. An item
        that was taken has settled its requests, and the record names it. A driver that read the inbox before
        an item was posted may be about to record the expiry of the request: so a late answer waits for the
        settlement. Without a driver for the session the item is the first, and the wait ends after 2 s.

        Raises:
            Conflict: a request has another answer, or it was closed without one.
        """
        asking = await self._without_repeats(posted.asking, before=posted.number)
        for response in asking.responses:
            settled = await self._settlement(asking, response.request_id, now_ms)
            if settled is None:
                continue
            resolution = await self._resolution(settled, after=asking.after)
            chosen = match_option(asking.requests[response.request_id], response)
            if resolution is None or resolution.response is None:
                raise closed_request(settled)
            first, first_id = resolution.response, resolution.answer_id
            # A process of an earlier release records no id.
            if first_id != asking.answer_id and (first_id is not None or not _is_equal(chosen, first)):
                raise closed_request(settled)

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
                aclosing(self._core.bus.subscribe_session(asking.session_id, after)) as events,
            ):
                async for event in events:
                    if event.type == InputResolved.TYPE:
                        settled = await self._store.find_request(request_id)
                    if isinstance(settled, SettledRequest):
                        return settled
        return None

    async def _resolution(self, settled: SettledRequest, *, after: int) -> InputResolution | None:
        """Return how a request was settled, from the records after `after`; None if there is no record."""
        while records := await self._store.milestones(settled.session_id, after=after):
            for record in records:
                body = record.body if record.type == InputResolved.TYPE else None
                for resolution in body.resolutions if isinstance(body, InputResolved) else ():
                    if resolution.request_id == settled.request_id:
                        return resolution
            after = records[-1].seq
        return None

    async def _sort(
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
        state = await self._runs.session_fold(session_id, run_id)
        own_requests: Mapping[str, InputRequest] = {} if state is None else {**state.requests}
        proxied = {} if state is None else state.family.proxied
        sorted_: dict[str, list[InputResponse]] = {}
        for response in responses:
            proxy = proxied.get(response.request_id)
            home = session_id if proxy is None else proxy.session_id
            sorted_.setdefault(home, []).append(response)
        askings: list[Asking] = []
        for home, answers in sorted_.items():
            below = None if home == session_id else await self._runs.session_fold(home, None)
            asks = below or state
            requests = own_requests if below is None else {**below.requests}
            run = None if asks is None else asks.run
            new = [
                response
                for response in answers
                if response.request_id in requests or not await self._settles(response, home, answer_id)
            ]
            if new and await self._runs.is_cancelled(home):
                raise answer_error(None, new[0], problem=CANCELLED, session_id=home)
            askings.append(
                Asking(
                    home,
                    answer_id,
                    tuple(new),
                    requests,
                    given_ms,
                    0 if asks is None else asks.seq,
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
            raise closed_request(settled)
        first = resolution.response
        # The recorded answer has the option that its text named.
        option_id = first.option_id if response.option_id is None and first.text is None else None
        chosen = (
            response
            if option_id is None
            else response.model_copy(update={"option_id": option_id, "text": None})
        )
        if not _is_equal(chosen, first):
            raise closed_request(settled)
        return True

    async def _has_same_root(self, session_id: str, other_id: str) -> bool:
        """Return whether two sessions have the same root session."""
        if session_id == other_id:
            return True
        session, other_session = (
            await self._store.session_info(session_id),
            await self._store.session_info(other_id),
        )
        return (
            session is not None
            and other_session is not None
            and session.root_session_id == other_session.root_session_id
        )


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
        response = answer if request is None else match_option(request, answer)
        problem = refusal(request, response, now_ms=now_ms)
        if problem is None and response.request_id in answered_ids:
            problem = "the request is answered twice in one call"
        if problem is not None:
            raise answer_error(request, response, problem=problem, session_id=session_id)
        answered_ids.add(response.request_id)


def _is_equal(response: InputResponse, other: InputResponse) -> bool:
    """Return whether two answers have the same responder and the same content."""
    names = ("responder", "option_id", "text", "arguments")
    return all(getattr(response, name) == getattr(other, name) for name in names)
