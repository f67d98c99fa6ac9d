"""Port of the lists: sessions, runs, requests to people and refused starts, filtered, ordered, counted."""

from collections.abc import Collection
from typing import Final, Literal, Protocol

from windlass_harness.times import elapsed_ms
from windlass_harness.views.payloads import token_count
from windlass_protocol import (
    ErrorCode,
    ErrorKind,
    InputKind,
    InputOutcome,
    InputRequest,
    PolicyRef,
    RetryClass,
    RunStatus,
    SourceRef,
    Usage,
)
from windlass_protocol import RunSort as RunSort
from windlass_protocol import SessionSort as SessionSort
from windlass_protocol import SessionStatus as SessionStatus
from windlass_protocol import WaitCause as WaitCause
from windlass_protocol.frozen import frozen

NO_USAGE: Final = Usage.model_construct()


@frozen
class SessionInfo:
    """A session in the index."""

    session_id: str
    title: str
    """The first message as one short line; secrets known to the runtime are masked."""
    agent_id: str
    """The agent of the newest run that has started."""
    status: SessionStatus
    owner: str | None
    """The owner of the session; None if the first run named none."""
    created_at: str
    updated_at: str
    """The time of the last change of this entry; the steps of a run do not change it."""
    run_count: int
    request_count: int
    """Open requests to people in this session; those of subagents are in their own sessions."""
    usage: Usage
    """Usage of its runs, with their subagents and the cost; of an unfinished run up to its last wait."""
    parent_session_id: str | None
    """The calling session, for the session of a subagent; the origin of a playground run."""
    root_session_id: str
    """The root of the tree of calling sessions; its own id if no session called it."""
    predecessor_id: str | None
    """The session that this one was forked from."""
    predecessor_seq: int | None
    """The number of the last record that was copied in the fork."""
    number: int
    """Its place in the list: a later session has a higher number."""
    output: str = ""
    """The first words of the answer of its newest started run."""
    error_message: str | None = None
    """The first words of why that run ended without an answer."""
    waits_for: str | None = None
    """The first words of the question that it waits with, or of why it waits."""
    waits_on: str | None = None
    """What its newest run that has started waits for."""
    error: str | None = None
    """The kind of the error that its newest run ended with."""
    crashes: int = 0
    """How often a process took one of its runs over after a crash."""

    @property
    def cost_micros(self) -> int:
        """The cost, in millionths of a dollar; 0 if it is not known."""
        return self.usage.cost_micros or 0

    @property
    def is_playground(self) -> bool:
        """Whether it is the session of a playground run: its parent is the session that it was made from."""
        return self.parent_session_id is not None and self.parent_session_id == self.predecessor_id


@frozen
class RunInfo:
    """A run in the index."""

    run_id: str
    session_id: str
    agent_id: str
    package_fingerprint: str
    status: RunStatus
    started_at: str | None
    """None while the run is queued."""
    ended_at: str | None
    usage: Usage
    """Usage of the run; up to its last wait until it has ended."""
    first_seq: int
    """The number of the first record of the run in its session; 0 while the run is queued."""
    number: int
    """Its place in the list of its session: a later run has a higher number."""
    at: str = ""
    """When the run started, or was asked for."""
    owner: str | None = None
    """The owner of its session."""
    is_root: bool = True
    """Whether it is neither the run of a subagent nor a playground run."""
    is_playground: bool = False
    """Whether it is a playground run."""
    input: str = ""
    """The first words of its message."""
    output: str = ""
    """The first words of its answer."""
    error_message: str | None = None
    """The first words of why it ended without an answer."""
    waits_for: str | None = None
    """The first words of the question that it waits with, or of why it waits."""
    waits_on: str | None = None
    """What a waiting run waits for: input, recovery, subagent, provider, timer or budget."""
    error: str | None = None
    """The kind of the error that it ended with."""
    crashes: int = 0
    """How often a process took the run over after a crash."""
    tags: tuple[str, ...] = ()
    rating: int = 0
    """The newest thumb that people gave it: 1, -1, or 0 without one."""

    @property
    def duration_ms(self) -> int:
        """The time from start to end, waits included; 0 until the run has ended."""
        is_over = self.started_at is not None and self.ended_at is not None
        return elapsed_ms(self.started_at or "", self.ended_at or "") if is_over else 0

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return token_count(self.usage)

    @property
    def cost_micros(self) -> int:
        """The cost, in millionths of a dollar; 0 if it is not known."""
        return self.usage.cost_micros or 0


@frozen
class OpenRequest:
    """An open request to a person, with the session to answer."""

    session_id: str
    """The session of the request: the argument of `runtime.sessions.answer`."""
    root_session_id: str
    run_id: str
    agent_id: str
    owner: str | None
    asked_at: str
    request: InputRequest
    """The request: its `action` holds the tool and its arguments; `expires_at` its expiry."""
    number: int
    """Its place in the list: a later request has a higher number."""

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return self.request.request_id

    def asks(self, names: Collection[str]) -> bool:
        """Return whether it is a question that names one of these as a responder.

        Responders of approvals are those of the runtime: they say who may answer, not who is asked.
        """
        responders = self.request.responders
        is_question = self.request.kind is InputKind.QUESTION
        return is_question and responders is not None and not set(names).isdisjoint(responders)


@frozen
class SettledRequest:
    """A request that is closed: answered, or closed without an answer, as its outcome says."""

    request_id: str
    session_id: str
    run_id: str
    owner: str | None
    outcome: InputOutcome
    option_id: str | None
    """The option that was chosen."""
    responder: str | None
    at: str


@frozen
class SessionFilter:
    """A filter of sessions; None matches any."""

    agent_id: str | None = None
    status: SessionStatus | None = None
    owner: str | None = None
    words: tuple[str, ...] = ()
    """Prefixes of words that must all occur in the session, as `words_in` returns them.

    They occur in its title or in records, not necessarily in one of them; see `words_of_record`.
    """
    root_only: bool = True
    since: str | None = None
    """The earliest `updated_at`."""
    until: str | None = None
    """Before this `updated_at`."""
    cost_micros: tuple[int | None, int | None] = (None, None)
    """The least and the most of the whole session."""
    run: "RunFilter | None" = None
    """A filter that one of its runs matches at least; without words and without a session."""


@frozen
class RunFilter:
    """A filter of runs; None matches any."""

    session_id: str | None = None
    agent_id: str | None = None
    status: RunStatus | None = None
    owner: str | None = None
    root_only: bool = False
    """Whether runs of subagents are left out."""
    playground: bool = False
    """Whether playground runs are included; those of one session always are."""
    waits_on: str | None = None
    """What it waits for; `person` for input or recovery."""
    fingerprint: str | None = None
    error: str | None = None
    """The kind of its error; empty for any."""
    tag: str | None = None
    rating: int | None = None
    has_crashed: bool | None = None
    since: str | None = None
    """The earliest `at`."""
    until: str | None = None
    """Before this `at`."""
    cost_micros: tuple[int | None, int | None] = (None, None)
    """The least and the most."""
    duration_ms: tuple[int | None, int | None] = (None, None)
    """The least and the most."""
    words: tuple[str, ...] = ()
    """Prefixes of words that must all occur in the session of the run; see `SessionFilter`."""
    run_ids: tuple[str, ...] = ()
    """Some runs by their ids; empty for any."""


def causes_of(waits_on: str) -> tuple[str, ...]:
    """Return what runs wait for that match a filter."""
    return (WaitCause.INPUT, WaitCause.RECOVERY) if waits_on == WaitCause.PERSON else (waits_on,)


@frozen
class RunOrder:
    """The order of a list of runs, and where a page of it begins."""

    by: RunSort = RunSort.STARTED
    is_ascending: bool = False
    after: tuple[str | int, int] | None = None
    """The sorted value and the number of the last run of the page before."""


NEWEST_FIRST: Final = RunOrder()


@frozen
class SessionOrder:
    """The order of a list of sessions, and where a page of it begins."""

    by: SessionSort = SessionSort.CREATED
    is_ascending: bool = False
    after: tuple[str | int, int] | None = None
    """The sorted value and the number of the last session of the page before."""


NEWEST_SESSIONS: Final = SessionOrder()


def place_of_session(info: SessionInfo, *, by: SessionSort) -> tuple[str | int, int]:
    """Return the place of a session in a sorted list: the sorted value, and its number."""
    match by:
        case SessionSort.CREATED:
            return info.number, info.number
        case SessionSort.UPDATED:
            return info.updated_at, info.number
        case SessionSort.COST:
            return info.cost_micros, info.number


def place_of_run(info: RunInfo, *, where: RunFilter, by: RunSort) -> tuple[str | int, int]:
    """Return the place of a run in a sorted list: the sorted value, and its number."""
    match by:
        case RunSort.STARTED:
            return (info.number if where.session_id is not None else info.at), info.number
        case RunSort.DURATION:
            return info.duration_ms, info.number
        case RunSort.COST:
            return info.cost_micros, info.number


Split = Literal["agent", "version", "owner"]
"""What counts are split by."""


@frozen
class CountFilter:
    """A filter of runs to count, with the time buckets.

    Runs that started at `start` or later and before `end` are counted. Without an agent, runs of subagents
    are excluded: the calling run includes their usage. With `split`, cells and durations are per agent,
    version or owner.
    """

    start: str
    end: str
    bucket_ms: int
    agent_id: str | None = None
    owner: str | None = None
    split: Split | None = None


@frozen
class RunCell:
    """The runs of one status in one time bucket."""

    bucket: int
    """The bucket, from 0."""
    status: RunStatus
    count: int
    input_tokens: int
    output_tokens: int
    cost_micros: int
    cache_read_tokens: int = 0
    """Input tokens that came from the cache of a provider."""
    group: str = ""
    """The agent, the fingerprint of the version, or the owner; empty without a split, or without an owner."""


@frozen
class RunTimes:
    """Durations of finished runs: median and high percentiles."""

    bucket: int | None
    """The time bucket; None for the whole range."""
    p50_ms: int
    p95_ms: int
    group: str = ""


@frozen
class RunCounts:
    """Counts and durations of runs; missing cells are zero."""

    cells: tuple[RunCell, ...]
    times: tuple[RunTimes, ...]


@frozen
class Waiting:
    """Work that waits for people now."""

    runs: int
    requests: int
    oldest_asked_at: str | None


class Listing(Protocol):
    """Lists sessions, runs and open requests, in pages."""

    async def list_sessions(
        self, where: SessionFilter, *, order: SessionOrder = NEWEST_SESSIONS, limit: int = 50
    ) -> tuple[SessionInfo, ...]:
        """Return sessions in an order, after the last one of the page before.

        Raises:
            Rejected: words are given, and the store has no means to search for them.
        """
        ...

    async def session_info(self, session_id: str) -> SessionInfo | None:
        """Return a session; None if it does not exist."""
        ...

    async def list_runs(
        self, where: RunFilter, *, order: RunOrder = NEWEST_FIRST, limit: int = 50
    ) -> tuple[RunInfo, ...]:
        """Return runs in an order, after the last one of the page before.

        Raises:
            Rejected: words are given, and the store has no means to search for them.
        """
        ...

    async def count_listed(self, where: SessionFilter, *, most: int) -> int:
        """Return how many sessions match a filter; `most` if there are as many or more.

        Raises:
            Rejected: words are given, and the store has no means to search for them.
        """
        ...

    async def count_listed_runs(self, where: RunFilter, *, most: int) -> int:
        """Return how many runs match a filter; `most` if there are as many or more.

        Raises:
            Rejected: words are given, and the store has no means to search for them.
        """
        ...

    async def list_requests(
        self, *, owner: str | None = None, responders: Collection[str] = (), after: int = 0, limit: int = 50
    ) -> tuple[OpenRequest, ...]:
        """Return open requests, oldest first, numbered above `after`.

        With an owner, those of the owner and the questions that name one of `responders`.
        """
        ...

    async def find_request(self, request_id: str) -> OpenRequest | SettledRequest | None:
        """Return a request, open or settled.

        A request that an append closes without a resolution is settled as cancelled. None if no session of
        this store asked it, or if its session was deleted.
        """
        ...

    async def run_counts(self, where: CountFilter) -> RunCounts:
        """Return counts and durations of runs."""
        ...

    async def waiting(self, *, owner: str | None = None, agent_id: str | None = None) -> Waiting:
        """Return counts of waiting runs and open requests, optionally of one owner or agent.

        Runs of subagents count only if an agent is named. Playground runs do not count; their requests do.
        """
        ...


@frozen
class RefusedStart:
    """A start of a run that was refused: who asked for what, and the error. It holds no input.

    Ids are None if they were not given, and cut or masked if they are the reason of the refusal.
    """

    at: str
    run_id: str | None
    session_id: str | None
    """The session that the caller named."""
    agent_id: str | None
    owner: str | None
    source: SourceRef | None
    """Where the request came from, as the caller said."""
    code: ErrorCode
    kind: ErrorKind
    retry: RetryClass
    message: str
    """The error message, with secrets masked."""
    policy_code: str | None = None
    """The code of the decision, if a policy refused it; with secrets masked."""
    policy_refs: tuple[PolicyRef, ...] = ()
    """The policies that refused it."""
    number: int = 0
    """Its place in the list: a later one has a higher number. The store sets it."""


class Refusals(Protocol):
    """Audit of refused starts. It is bounded, so that a refused caller cannot fill the store."""

    async def record_refusal(self, refused: RefusedStart) -> None:
        """Write a refused start durably; only the newest `REFUSED_STARTS_MAX` are kept.

        Raises:
            Unavailable: nothing was written.
        """
        ...

    async def list_refusals(
        self,
        *,
        owner: str | None = None,
        agent_id: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> tuple[RefusedStart, ...]:
        """Return refused starts, newest first, numbered below `before`."""
        ...
