"""`runtime.sessions`: list, search, read, fork, export and delete sessions."""

import asyncio
import logging
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Final, Literal, TypedDict, TypeVar, Unpack, cast

from windlass.catalog import archive, reading
from windlass.catalog.model_counts import ModelCounts
from windlass.catalog.reading import (
    PAGE_RECORDS_MAX,
    Feedback,
    Page,
    RunTrace,
    SessionAt,
    StepPrompt,
    check_limit,
    feedback_of,
    page_of,
    place_of,
    prompt_of,
)
from windlass.catalog.stats import (
    RunSplit,
    RunStats,
    check_moment,
    check_split,
    count_filter,
    groups_of,
    stats_of,
)
from windlass.engine.clocks import moment, stamp
from windlass.errors import AgentError, Conflict, check_whole, kind_of
from windlass.ports.clock import IDLE, Clock
from windlass.ports.documents import SCHEDULE, Document, Documents
from windlass.ports.feed import EventBus
from windlass.ports.listing import (
    OpenRequest,
    RefusedStart,
    RunFilter,
    RunInfo,
    RunOrder,
    RunSort,
    SessionFilter,
    SessionInfo,
    SessionOrder,
    SessionSort,
    SettledRequest,
    WaitCause,
    place_of_run,
    place_of_session,
)
from windlass.ports.machine import Machine
from windlass.ports.sandbox import SandboxAdapter
from windlass.ports.store import ContentStore, Store
from windlass.refusals import (
    bad_request,
    check_id,
    check_options,
    notes_name,
    reserved_id,
    unknown_run,
    unknown_session,
)
from windlass_harness.ledger.names import is_notes
from windlass_harness.loop.subagents import is_childs
from windlass_harness.record import Record
from windlass_harness.redact import Redactor
from windlass_harness.views.costs import RunCosts
from windlass_harness.views.listing import words_in
from windlass_protocol import ChatMessage, ErrorKind, RetryClass, RunStatus, SessionStatus
from windlass_protocol.codec_errors import printable
from windlass_protocol.limits import INTEGER_MAX

T = TypeVar("T")
EnumT = TypeVar("EnumT", bound=StrEnum)
SortT = TypeVar("SortT", RunSort, SessionSort)

SEARCH_CHARS_MAX: Final = 256
SEARCH_WORDS_MAX: Final = 16
"""Words of a text that are searched for; further ones are ignored."""
RUN_IDS_MAX: Final = 100
"""Runs that one query names."""
COUNTED_MAX: Final = 10_000
"""Rows that a count is exact for; one more means that there are more."""
MEMBER_SHOWN_CHARS_MAX: Final = 40
"""Characters of an unknown value of a filter that an error quotes."""


def member(kind: type[EnumT], value: object, what: str) -> EnumT | None:
    """Return the member that an option names, or None if it is left out.

    Raises:
        Rejected: there is no such member.
    """
    if value is None:
        return None
    check_member(tuple(kind), value, what)
    return kind(value)


def check_member(members: Collection[str], value: object, what: str) -> None:
    """Check that an option is one of a closed set.

    Raises:
        Rejected: it is not.
    """
    if isinstance(value, str) and value in members:
        return
    shown_value = repr(printable(value, MEMBER_SHOWN_CHARS_MAX)) if isinstance(value, str) else kind_of(value)
    raise bad_request(f"{what} must be one of {', '.join(members)}, found {shown_value}")


def name_of(value: object, what: str) -> str | None:
    """Return a checked id, or None if none is given."""
    return None if value is None else check_id(value, what)


def words_of(text: object) -> tuple[str, ...]:
    """Return the search words of a text; empty without a text."""
    if text is None:
        return ()
    if not isinstance(text, str) or len(text) > SEARCH_CHARS_MAX:
        raise bad_request(f"text must be a string of at most {SEARCH_CHARS_MAX} characters")
    search_words = words_in(text)
    if not search_words:
        raise bad_request("text contains no word to search for")
    return search_words[:SEARCH_WORDS_MAX]


def number_of(value: object, what: str) -> int:
    """Return a checked record number."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        shown_value = value if type(value) is int else kind_of(value)
        raise bad_request(f"{what} must be the number of a record, found {shown_value}")
    return value


def run_filter(query: "RunQuery") -> RunFilter:
    """Return the filter of a query of runs.

    Raises:
        Rejected: an option is not valid.
    """
    error, feedback = query.get("error"), query.get("feedback")
    if error is not None:
        check_member((_ANY_ERROR, *ErrorKind), error, "error")
    if feedback is not None:
        check_member(_RATINGS, feedback, "feedback")
    return RunFilter(
        session_id=name_of(query.get("session_id"), "session_id"),
        agent_id=name_of(query.get("agent_id"), "agent_id"),
        status=member(RunStatus, query.get("status"), "status"),
        owner=name_of(query.get("owner"), "owner"),
        root_only=bool(query.get("root_only", False)),
        playground=bool(query.get("playground", False)),
        waits_on=member(WaitCause, query.get("waits_on"), "waits_on"),
        fingerprint=name_of(query.get("version"), "version"),
        error="" if error == _ANY_ERROR else error,
        tag=name_of(query.get("tag"), "tag"),
        rating=None if feedback is None else _RATINGS[feedback],
        has_crashed=query.get("has_crashed"),
        since=_time_of(query.get("since"), "since"),
        until=_time_of(query.get("until"), "until"),
        cost_micros=(_count_of(query, "cost_micros_min"), _count_of(query, "cost_micros_max")),
        duration_ms=(_count_of(query, "duration_ms_min"), _count_of(query, "duration_ms_max")),
        words=words_of(query.get("text")),
        run_ids=_ids_of(query.get("run_ids")),
    )


def _ids_of(value: Sequence[str] | None) -> tuple[str, ...]:
    names = tuple(check_id(run_id, "run_ids") for run_id in value or ())
    if len(names) > RUN_IDS_MAX:
        raise bad_request(f"run_ids: found {len(names):,}, limit {RUN_IDS_MAX}")
    return names


def _time_of(value: object, what: str) -> str | None:
    if value is None:
        return None
    check_moment(value, what)
    return stamp(cast("datetime", value).astimezone(UTC))


def _count_of(query: Mapping[str, object], name: str) -> int | None:
    value = query.get(name)
    if value is None or (type(value) is int and 0 <= value <= INTEGER_MAX):
        return value
    raise bad_request(f"{name} must be a whole number from 0, found {kind_of(value)}")


def run_order(query: "RunQuery", after: object) -> RunOrder:
    """Return the order of a query of runs, and where its page begins.

    Raises:
        Rejected: the sort is unknown, or the cursor is not one of such a page.
    """
    by, is_ascending = _sort_of(RunSort, query)
    is_time = by is RunSort.STARTED and query.get("session_id") is None
    return RunOrder(by, is_ascending, _place_in(after, "runs", _way(by, is_ascending), is_time=is_time))


def session_filter(query: "SessionQuery") -> SessionFilter:
    """Return the filter of a query of sessions.

    Raises:
        Rejected: an option is not valid.
    """
    owner = name_of(query.get("owner"), "owner")
    of_runs = run_filter(
        {
            "waits_on": query.get("waits_on"),
            "version": query.get("version"),
            "error": query.get("error"),
            "tag": query.get("tag"),
            "feedback": query.get("feedback"),
            "has_crashed": query.get("has_crashed"),
        }
    )
    return SessionFilter(
        agent_id=name_of(query.get("agent_id"), "agent_id"),
        status=member(SessionStatus, query.get("status"), "status"),
        owner=owner,
        words=words_of(query.get("text")),
        root_only=query.get("root_only", True),
        since=_time_of(query.get("since"), "since"),
        until=_time_of(query.get("until"), "until"),
        cost_micros=(_count_of(query, "cost_micros_min"), _count_of(query, "cost_micros_max")),
        run=None if of_runs == _ANY_RUN else replace(of_runs, owner=owner),
    )


_ANY_RUN: Final = RunFilter()


def session_order(query: "SessionQuery", after: object) -> SessionOrder:
    """Return the order of a query of sessions, and where its page begins.

    Raises:
        Rejected: the sort is unknown, or the cursor is not one of such a page.
    """
    by, is_ascending = _sort_of(SessionSort, query)
    position = _place_in(after, "sessions", _way(by, is_ascending), is_time=by is SessionSort.UPDATED)
    return SessionOrder(by, is_ascending, position)


def _sort_of(sorts: type[SortT], query: "RunQuery | SessionQuery") -> tuple[SortT, bool]:
    """Return the sort of a query, the first one if it names none, and whether the least comes first."""
    sort = member(sorts, query.get("sort"), "sort") or next(iter(sorts))
    return sort, bool(query.get("is_ascending", False))


def _way(by: RunSort | SessionSort, is_ascending: bool) -> str:
    return f"{by.value}{'-up' if is_ascending else ''}"


def _place_in(after: object, kind: str, direction: str, *, is_time: bool) -> tuple[str | int, int] | None:
    """Return the sorted value and the number that the cursor of a sorted page names; None without one."""
    if after is None:
        return None
    cursor = _SORTED_CURSOR.fullmatch(after) if isinstance(after, str) else None
    if cursor is None or cursor[1] != kind or cursor[2] != direction or is_time == cursor[4].isdecimal():
        raise bad_request("after must be the `next` of a page of the same kind")
    return (cursor[4] if is_time else int(cursor[4])), int(cursor[3])


def _page_of(
    rows: Sequence[T],
    limit: int,
    *,
    kind: str,
    order: RunOrder | SessionOrder,
    place: Callable[[T], tuple[str | int, int]],
) -> Page[T]:
    """Return a page of rows that were queried with a limit of one more than the page has."""
    items = tuple(rows[:limit])
    if len(rows) <= limit:
        return Page(items, None)
    value, number = place(items[-1])
    return Page(items, f"{kind}.{_way(order.by, order.is_ascending)}.{number}.{value}")


_ANY_ERROR: Final = "any"
_RATINGS: Final = {"up": 1, "down": -1, "none": 0}
_SORTED_CURSOR: Final = re.compile(
    r"(runs|sessions)\.([a-z-]+)\.([0-9]{1,15})\.([0-9]{1,16}|[0-9]{4}-[0-9-]{5}T[0-9:.]{8,12}Z|)"
)

DELETE_WAIT_MS: Final = 5_000
"""How long a delete waits for a driver to release a session without a run."""
PRUNED_MAX: Final = 1_000_000
"""The most sessions that one call deletes, if a limit is given."""
_PRUNE_PAGE: Final = 100
SAFE_POINTS_MAX: Final = 10_000
"""Safe points of one page."""
_PAUSE_S: Final = 0.02
_NO_SECRETS: Final = Redactor()


class SessionQuery(TypedDict, total=False):
    """Filter of sessions; None is the same as left out."""

    agent_id: str | None
    """The agent of the newest run that has started."""
    status: SessionStatus | str | None
    owner: str | None
    text: str | None
    """Words, or prefixes of words, that must all occur in messages, answers or names of called tools."""
    root_only: bool
    """Whether sessions of subagents are left out; default True."""
    waits_on: str | None
    """What one of its runs waits for: see `RunQuery`."""
    version: str | None
    """The fingerprint of the package of one of its runs."""
    error: str | None
    """The kind of the error that one of its runs ended with; `any` for every error."""
    tag: str | None
    """A tag of one of its runs."""
    feedback: Literal["up", "down", "none"] | None
    """The newest thumb that people gave one of its runs."""
    has_crashed: bool | None
    """Whether a process took one of its runs over after a crash. All of these hold for the same run."""
    since: datetime | None
    """When it last changed, at the earliest."""
    until: datetime | None
    """Before this time."""
    cost_micros_min: int | None
    """The cost of all its runs."""
    cost_micros_max: int | None
    sort: SessionSort | str | None
    """created (default), updated or cost."""
    is_ascending: bool
    """Whether the least comes first; default: False."""


class RunQuery(TypedDict, total=False):
    """Filter and order of runs; None is the same as left out."""

    session_id: str | None
    agent_id: str | None
    status: RunStatus | str | None
    owner: str | None
    """The owner of the session."""
    root_only: bool
    """Whether runs of subagents are left out."""
    playground: bool
    """Whether playground runs are listed; those of a named session always are."""
    waits_on: str | None
    """What it waits for: input, recovery, person (one of both), subagent, provider, timer or budget."""
    version: str | None
    """The fingerprint of the package."""
    error: str | None
    """The kind of the error that it ended with; `any` for every error."""
    tag: str | None
    """A tag of its metadata (`metadata={"tags": […]}`) or of feedback."""
    feedback: Literal["up", "down", "none"] | None
    """The newest thumb that people gave it."""
    has_crashed: bool | None
    """Whether a process took it over after a crash."""
    since: datetime | None
    """When it started, or was asked for, at the earliest."""
    until: datetime | None
    """Before this time."""
    cost_micros_min: int | None
    cost_micros_max: int | None
    duration_ms_min: int | None
    """Runs that have not ended have no duration: 0."""
    duration_ms_max: int | None
    text: str | None
    """Words, or prefixes of words, that must all occur in the session: see `SessionQuery`."""
    run_ids: Sequence[str] | None
    """Some runs by their ids, at most `RUN_IDS_MAX`; those that do not exist are left out."""
    sort: RunSort | str | None
    """started (default), duration or cost."""
    is_ascending: bool
    """Whether the least comes first; default: False."""


class Sessions:
    """Lists, reads, forks, exports and deletes sessions; `runtime.sessions`."""

    def __init__(
        self,
        store: Store,
        bus: EventBus,
        *,
        content: ContentStore,
        machine: Machine,
        redactor: Redactor = _NO_SECRETS,
        sandboxes: Iterable[SandboxAdapter] = (),
    ) -> None:
        self._store = store
        self._sandboxes = tuple(sandboxes)
        self._bus = bus
        self._content = content
        self._machine = machine
        self._redactor = redactor
        self._traces = reading.Traces()
        self._model_counts = ModelCounts(store, content)

    # lists

    async def list(
        self, *, after: str | None = None, limit: int = 50, **options: Unpack[SessionQuery]
    ) -> Page[SessionInfo]:
        """Return sessions from the index alone; newest first unless sorted otherwise.

        By its creation, the order never changes: a reader that follows the pages sees each session that
        exists all the time exactly once.

        The options are those of `SessionQuery`: the order, and filters by agent, status, owner, words, time,
        cost and facts of one run.

        Raises:
            Rejected: the cursor, the limit or an option is not valid, or the store cannot search for text.
        """
        check_options(options, SessionQuery, what="list")
        query, most, order = session_filter(options), check_limit(limit), session_order(options, after)
        rows = await self._store.list_sessions(query, order=order, limit=most + 1)
        position = partial(place_of_session, by=order.by)
        return _page_of(rows, most, kind="sessions", order=order, place=position)

    async def count(self, **options: Unpack[SessionQuery]) -> int:
        """Return how many sessions match a filter; `COUNTED_MAX` + 1 if they are more.

        Raises:
            Rejected: an option is not valid, or the store cannot search for text.
        """
        check_options(options, SessionQuery, what="count")
        return await self._store.count_listed(session_filter(options), most=COUNTED_MAX + 1)

    async def count_runs(self, **options: Unpack[RunQuery]) -> int:
        """Return how many runs match a filter; `COUNTED_MAX` + 1 if they are more.

        Raises:
            Rejected: an option is not valid, or the store cannot search for text.
        """
        check_options(options, RunQuery, what="count_runs")
        return await self._store.count_listed_runs(run_filter(options), most=COUNTED_MAX + 1)

    async def get(self, session_id: str) -> SessionInfo:
        """Return a session.

        Raises:
            Conflict: the session does not exist.
        """
        info = await self._store.session_info(check_id(session_id, "a session id"))
        if info is None:
            raise unknown_session(session_id)
        return info

    async def runs(
        self, *, after: str | None = None, limit: int = 50, **options: Unpack[RunQuery]
    ) -> Page[RunInfo]:
        """Return runs of one session or of all, from the index alone; newest first unless sorted otherwise.

        The options are those of `RunQuery`: filters by session, agent, version, status and what a run waits
        for, owner, tag, feedback, error, crashes, time, cost, duration and words; and the order.

        Raises:
            Rejected: the cursor, the limit or an option is not valid, or the store cannot search for text.
        """
        check_options(options, RunQuery, what="runs")
        query, most = run_filter(options), check_limit(limit)
        order = run_order(options, after)
        rows = await self._store.list_runs(query, order=order, limit=most + 1)
        position = partial(place_of_run, where=query, by=order.by)
        return _page_of(rows, most, kind="runs", order=order, place=position)

    async def requests(
        self,
        *,
        owner: str | None = None,
        named: Sequence[str] = (),
        after: str | None = None,
        limit: int = 50,
    ) -> Page[OpenRequest]:
        """Return all open requests to people, over all sessions, oldest first.

        With an `owner`, only those of their sessions, and the questions that name one of `named`: a person or
        a role, see `ToolContext.ask`.

        A request of a subagent is listed once, with the session of the subagent: pass that session to
        `runtime.sessions.answer`.

        Raises:
            Rejected: the cursor or the limit is not valid.
        """
        most, behind = check_limit(limit), place_of(after, "requests") or 0
        owner_name, names = name_of(owner, "owner"), [name_of(request, "named") or "" for request in named]
        rows = await self._store.list_requests(
            owner=owner_name, responders=names, after=behind, limit=most + 1
        )
        return page_of(rows, most, kind="requests", place=lambda request: request.number)

    async def request(self, request_id: str) -> OpenRequest | SettledRequest | None:
        """Return a request to a person, open or settled, from the index.

        A settled request says how it was closed: `approved`, `denied` or `answered`, or without an answer
        `expired`, `ignored` (a new message came) or `cancelled` (its run was cancelled or ended). None if no
        session of this store asked it, or if its session was deleted.
        """
        return await self._store.find_request(request_id)

    async def refused_starts(
        self,
        *,
        owner: str | None = None,
        agent_id: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[RefusedStart]:
        """Return starts that were refused, newest first: who asked for what, and the error.

        The store keeps the newest 10,000. Starts that failed because the store could not be reached are only
        logged.

        Options:
            owner: the owner that the start named.
            agent_id: the agent that it asked for.

        Raises:
            Rejected: the cursor, the limit or an option is not valid.
        """
        owner_name, agent = name_of(owner, "owner"), name_of(agent_id, "agent_id")
        most, before = check_limit(limit), place_of(after, "refused")
        rows = await self._store.list_refusals(
            owner=owner_name, agent_id=agent, before=before, limit=most + 1
        )
        return page_of(rows, most, kind="refused", place=lambda refusal: refusal.number)

    async def stats(
        self,
        start: datetime,
        end: datetime,
        *,
        bucket_s: int = 3_600,
        agent_id: str | None = None,
        owner: str | None = None,
        split: RunSplit | None = None,
    ) -> RunStats:
        """Return counts, durations and cost of runs over time, and the work that waits for people, from the
        index.

        A run counts in the bucket of its start. Without an agent, runs of subagents are left out: the calling
        run includes their usage. `split` adds the same numbers by agent, by model, by version or by owner
        (`groups`). A run counts for each model that answered it or a subagent of it, with what that model
        used.

        Raises:
            Rejected: the time range or the split is not valid, or there are more than 1,000 buckets.
        """
        counted = count_filter(start, end, bucket_s=bucket_s, agent_id=agent_id, owner=owner)
        by = check_split(split)
        counts = await self._store.run_counts(counted)
        waiting = await self._store.waiting(owner=counted.owner, agent_id=counted.agent_id)
        statistics = stats_of(counted, counts, waiting=waiting)
        if by is None:
            return statistics
        if by == "model":
            apart = await self._model_counts.count(counted)
        else:
            apart = await self._store.run_counts(replace(counted, split=by))
        return replace(statistics, groups=groups_of(counted, apart))

    # one session

    async def history(
        self, session_id: str, *, after: str | None = None, limit: int = 50
    ) -> Page[ChatMessage]:
        """Return the chat of a session, oldest message first.

        Raises:
            Conflict: the session does not exist.
            Rejected: the cursor or the limit is not valid.
        """
        most, behind = check_limit(limit), place_of(after, reading.MESSAGES) or 0
        await self.get(session_id)
        return await reading.chat_page(self._store, session_id, after=behind, limit=most)

    async def records(self, session_id: str, *, after: int = 0, limit: int = 100) -> tuple[Record, ...]:
        """Return records of a session as they are in the journal, from `after + 1`; empty at the end.

        Raises:
            Conflict: the session does not exist.
            Rejected: the limit is not valid.
        """
        most, behind = check_limit(limit, PAGE_RECORDS_MAX), number_of(after, "after")
        await self.get(session_id)
        return (await self._store.read(session_id, after=behind, limit=most))[:most]

    async def at(self, session_id: str, seq: int) -> SessionAt:
        """Return a session as it was after one of its records; 0 is before the first.

        Raises:
            Conflict: the session does not exist.
            Rejected: the session has no such record.
        """
        last_seq = await self._last_seq(session_id)
        return await reading.session_at(self._store, session_id, seq=number_of(seq, "seq"), last_seq=last_seq)

    async def feedback(self, run_id: str) -> tuple[Feedback, ...]:
        """Return what people said of a run, its steps and its answers, oldest first.

        Raises:
            Conflict: the run does not exist.
        """
        row = await self._store.run(check_id(run_id, "a run id"))
        if row is None:
            raise unknown_run(run_id)
        return await feedback_of(self._store, row)

    async def trace(self, run_id: str, *, after: int = 0) -> RunTrace:
        """Return the trace of a run, finished or not.

        With `after`, the `seq` of an earlier answer, it has only the spans and events that began or changed
        since.

        Raises:
            Conflict: the run does not exist, or it has not started.
        """
        row = await self._store.run(check_id(run_id, "a run id"))
        if row is None:
            raise unknown_run(run_id)
        info = await self._store.session_info(row.session_id)
        owner = None if info is None else info.owner
        return await self._traces.read(row, self._store, owner=owner, after=number_of(after, "after"))

    async def costs(self, run_id: str) -> RunCosts:
        """Return where the money of a run went: by step, model, subagent, tool and result, so far.

        Raises:
            Conflict: the run does not exist.
        """
        row = await self._store.run(check_id(run_id, "a run id"))
        if row is None:
            raise unknown_run(run_id)
        return await reading.costs_of(row, self._store)

    async def prompt(self, run_id: str, step_index: int) -> StepPrompt | None:
        """Return the prompt of a step of a run, as far as it is known.

        Steps count from 0; of several attempts it is the last one. None if the step does not exist.

        Raises:
            Conflict: the run does not exist.
        """
        row = await self._store.run(check_id(run_id, "a run id"))
        if row is None:
            raise unknown_run(run_id)
        index = number_of(step_index, "step_index")
        return await prompt_of(row, self._store, content=self._content, step_index=index)

    # whole sessions

    async def safe_points(
        self, session_id: str, *, before: int | None = None, limit: int = 1_000
    ) -> tuple[int, ...]:
        """Return records at which a fork can start, in order: the newest below `before`.

        Raises:
            Conflict: the session does not exist.
            Rejected: the limit is not valid.
        """
        most = check_limit(limit, SAFE_POINTS_MAX)
        last_seq = await self._last_seq(session_id)
        end = last_seq if before is None else min(last_seq, number_of(before, "before") - 1)
        return (await archive.safe_points(self._store, session_id, at=end))[-most:]

    async def fork(
        self, session_id: str, *, at: int | None = None, session_id_new: str | None = None
    ) -> SessionInfo:
        """Create a session as a copy of another one after a record; return it.

        Without `at` the copy is of the session as it is now. The records are copied up to a safe point: the
        last end of an append up to `at` without a call between start and result. A current run is cancelled
        in the fork; nothing is executed again, and the original session does not change. Runs, usage,
        subagents, consents for the session and deliveries stay with the original. Repeating the same fork
        returns the same session.

        Raises:
            Conflict: the session does not exist, or the new id is in use.
            Rejected: the record does not exist, or there is no safe point before it.
        """
        info, last_seq = await self.get(session_id), await self._last_seq(session_id)
        name = self._machine.new_id() if session_id_new is None else check_id(session_id_new, "a session id")
        if is_childs(name):
            raise reserved_id("session_id_new")
        if is_notes(name):
            raise notes_name("session_id_new")
        last_copied = last_seq if at is None else number_of(at, "at")
        if not 1 <= last_copied <= last_seq:
            raise bad_request(f"the session has records 1 to {last_seq:,}, found {last_copied:,}")
        copy = await archive.prepare(
            self._store, info, new_id=name, at=last_copied, now=moment(self._machine.clock)
        )
        try:
            await self._store.keep(copy)
        except Conflict:
            existing = await self._store.session_info(name)
            if existing is None or not archive.is_same(existing, copy, is_any=at is None):
                raise
        self._bus.notify()
        return await self.get(name)

    def export(self, session_id: str) -> AsyncIterator[str]:
        """Return a session as lines of JSON, from a header to a checksum.

        It contains the records, consumed inbox items, and the contents that they refer to, including
        packages; not the sessions of subagents, and not pending inbox items.

        Raises:
            Conflict: the session does not exist, or it was deleted before the last line.
        """
        check_id(session_id, "a session id")
        return archive.export(self._store, self._content, session_id=session_id, clock=self._machine.clock)

    async def import_(self, lines: AsyncIterable[str] | Iterable[str]) -> SessionInfo:
        """Import an exported session in one transaction.

        It stays idle: an unfinished run continues only after an answer, a cancel or a message, so that it
        does not run in two places. Secrets in its records are masked, as in all records of this runtime.

        Raises:
            Rejected: a line is missing, torn or changed, the lines are not a session, or a registered secret
                is in a content or an id, where it cannot be masked.
            Conflict: the session or one of its runs exists here, or it was deleted.
        """
        copy = await archive.read(lines, redactor=self._redactor)
        await self._store.keep(copy)
        self._bus.notify()
        return await self.get(copy.session_id)

    async def delete(self, session_id: str) -> tuple[str, ...]:
        """Delete a session and those of its subagents; return the ids of all.

        This removes records, snapshots, inboxes, runs, requests, folders of sandboxes, contents that no other
        session uses, and refused starts that name one of the sessions or runs. Subscribers to their events
        get `CursorExpired`. The ids cannot be used again.

        Raises:
            Conflict: the session does not exist, or it has an unfinished run: cancel it first.
            Rejected: it is a reserved session with notes, which is deleted with its run.
        """
        if is_notes(check_id(session_id, "a session id")):
            raise notes_name("session_id")
        clock = self._machine.clock
        deadline_s = clock.monotonic() + DELETE_WAIT_MS / 1_000
        while True:
            try:
                removed = await self._store.delete(session_id, now_ms=moment(clock).ms)
                break
            except Conflict as error:
                if error.retry is not RetryClass.RETRYABLE or clock.monotonic() >= deadline_s:
                    raise
            await clock.sleep(_PAUSE_S)
        await self._forget_removed(removed)
        return removed

    async def prune(self, before: datetime, *, limit: int | None = None) -> int:
        """Delete the sessions that ended before a time, oldest first; return how many, without subagents.

        Each is deleted as by `delete`, in a transaction of its own, so a call that was interrupted is simply
        made again. A session stays if it, or the session of one of its subagents, has changed since, has an
        unfinished run, an open request or an item in its inbox, or if a schedule names it.

        Raises:
            Rejected: `before` has no time zone, or `limit` is below 1.
        """
        check_moment(before, "before")
        most = None if limit is None else check_whole(limit, "limit", most=PRUNED_MAX)
        since = stamp(before)
        ended, order, count = RunFilter(root_only=True, until=since), RunOrder(is_ascending=True), 0
        scheduled = await self._scheduled_sessions()
        while page := await self._store.list_runs(ended, order=order, limit=_PRUNE_PAGE):
            for session_id in dict.fromkeys(run.session_id for run in page):
                count += session_id not in scheduled and await self._is_pruned(session_id, since)
                if count == most:
                    return count
            order = replace(order, after=place_of_run(page[-1], where=ended, by=order.by))
        return count

    async def _scheduled_sessions(self) -> set[str]:
        """Return the sessions that schedules name."""
        session_ids: set[str] = set()
        after: str | None = None
        while page := await self._store.documents(SCHEDULE, after=after, limit=_PRUNE_PAGE):
            specs = [cast("dict[str, str | None]", spec.body["schedule"]) for spec in page]
            session_ids |= {name for spec in specs if (name := spec["session_id"]) is not None}
            after = page[-1].name
        return session_ids

    async def _is_pruned(self, session_id: str, since: str) -> bool:
        """Delete a session unless it was used since; return whether it was deleted."""
        info = await self._store.session_info(session_id)
        # Most sessions that are in use are passed over without a transaction.
        if info is None or info.updated_at >= since or info.request_count or is_notes(session_id):
            return False
        try:
            now_ms = moment(self._machine.clock).ms
            removed = await self._store.delete(session_id, now_ms=now_ms, idle_since=since)
        except Conflict:
            return False
        await self._forget_removed(removed)
        return True

    async def _forget_removed(self, removed: Iterable[str]) -> None:
        """Let go of what else belongs to deleted sessions."""
        self._bus.notify()
        for sandboxes in self._sandboxes:
            for session_id in removed:
                await sandboxes.remove(session_id)

    async def _last_seq(self, session_id: str) -> int:
        await self.get(session_id)
        row = await self._store.session(session_id)
        return 0 if row is None else row.last_seq


# retention

RETENTION_LOOK_S: Final = 600.0
"""How often a process looks whether it is time for a sweep."""
RETENTION_SWEEP_MS: Final = 3_600_000
"""The time between the beginnings of two sweeps, by any process of the store."""
_RETENTION: Final = "retention"
_SWEEP: Final = "sweep"
_LOG: Final = logging.getLogger("windlass.runs")


async def retain(sessions: Sessions, store: Documents, clock: Clock, *, days: int) -> None:
    """Delete sessions that ended more than `days` days ago, for ever; one process of a store at a time.

    A sweep that a kill has interrupted is continued by the next one: what is deleted is gone as a whole.
    """
    while True:
        try:
            if await _is_turn(store, clock):
                count = await sessions.prune(clock.now() - timedelta(days=days))
                if count:
                    _LOG.info("retention deleted sessions: %d", count)
        except AgentError as error:
            # The store is unreachable for now.
            _LOG.warning("retention could not delete sessions, and tries again: %s", error.kind)
        pause = asyncio.create_task(_sleep(clock), name=IDLE)
        try:
            await pause
        finally:
            pause.cancel()


async def _sleep(clock: Clock) -> None:
    await clock.sleep(RETENTION_LOOK_S)


async def _is_turn(store: Documents, clock: Clock) -> bool:
    """Return whether it is time for a sweep, and this process makes it."""
    now_ms, sweep = moment(clock).ms, await store.document(_RETENTION, _SWEEP)
    if sweep is not None and sweep.due_at_ms is not None and sweep.due_at_ms > now_ms:
        return False
    revision = 1 if sweep is None else sweep.revision + 1
    with suppress(Conflict):
        await store.put_document(Document(_RETENTION, _SWEEP, revision, {}, now_ms + RETENTION_SWEEP_MS))
        return True
    return False
