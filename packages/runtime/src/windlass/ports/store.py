"""Port of the store: journal, inbox, ownership, catalogue, archive, content.

A session has one owner at a time. An owner claims the session and gets an epoch. Every append names the epoch
and the number of the last record that the owner knows; the store refuses the append if either is outdated. So
two owners can never mix their records, and an owner that was replaced while suspended learns it at its next
append.

Every other process addresses a session through its inbox: a durable list of items that the owner turns into
records. One append consumes an item and writes the records that it caused, so an item takes effect once.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final, Literal, Protocol, runtime_checkable

from windlass_harness.loop.events import Draft
from windlass_harness.loop.subagents import CANCEL as CANCEL
from windlass_harness.loop.subagents import START as START
from windlass_harness.record import Post, Record
from windlass_harness.times import elapsed_ms
from windlass_harness.views.listing import RECORDS_OF_STEPS, Told
from windlass_protocol import (
    ContentRef,
    ErrorCode,
    ErrorKind,
    InputKind,
    InputOutcome,
    InputRequest,
    JsonObject,
    PolicyRef,
    RetryClass,
    RunStatus,
    SourceRef,
    Usage,
)
from windlass_protocol import SessionStatus as SessionStatus
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
        return (self.usage.input_tokens or 0) + (self.usage.output_tokens or 0)

    @property
    def cost_micros(self) -> int:
        """The cost, in millionths of a dollar; 0 if it is not known."""
        return self.usage.cost_micros or 0


@frozen
class OpenRequest:
    """An open request to a person, with the session to answer."""

    session_id: str
    """The session of the request: the argument of `runtime.answer_session`."""
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


class WaitCause(StrEnum):
    """What a run waits for, in a filter."""

    INPUT = "input"
    RECOVERY = "recovery"
    PERSON = "person"
    """Input or recovery."""
    SUBAGENT = "subagent"
    PROVIDER = "provider"
    TIMER = "timer"
    BUDGET = "budget"


def causes_of(waits_on: str) -> tuple[str, ...]:
    """Return what runs wait for that match a filter."""
    return (WaitCause.INPUT, WaitCause.RECOVERY) if waits_on == WaitCause.PERSON else (waits_on,)


class RunSort(StrEnum):
    """What runs are sorted by."""

    STARTED = "started"
    """By `at`; the runs of one session by their numbers."""
    DURATION = "duration"
    COST = "cost"


@frozen
class RunOrder:
    """The order of a list of runs, and where a page of it begins."""

    by: RunSort = RunSort.STARTED
    is_ascending: bool = False
    after: tuple[str | int, int] | None = None
    """The sorted value and the number of the last run of the page before."""


NEWEST_FIRST: Final = RunOrder()


class SessionSort(StrEnum):
    """What sessions are sorted by."""

    CREATED = "created"
    """By `number`."""
    UPDATED = "updated"
    COST = "cost"


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


def place_of_run(info: RunInfo, *, wanted: RunFilter, by: RunSort) -> tuple[str | int, int]:
    """Return the place of a run in a sorted list: the sorted value, and its number."""
    match by:
        case RunSort.STARTED:
            return (info.number if wanted.session_id is not None else info.at), info.number
        case RunSort.DURATION:
            return info.duration_ms, info.number
        case RunSort.COST:
            return info.cost_micros, info.number


@frozen
class CountFilter:
    """A filter of runs to count, with the time buckets.

    Runs that started at `start` or later and before `end` are counted. Without an agent, runs of subagents
    are excluded: the calling run includes their usage. With `split`, cells and durations are per agent or
    version.
    """

    start: str
    end: str
    bucket_ms: int
    agent_id: str | None = None
    owner: str | None = None
    split: Literal["agent", "version"] | None = None


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
    group: str = ""
    """The agent, or the fingerprint of the version; empty without a split."""


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

    async def listed(
        self, wanted: SessionFilter, *, order: SessionOrder = NEWEST_SESSIONS, limit: int = 50
    ) -> tuple[SessionInfo, ...]:
        """Return sessions in an order, after the last one of the page before.

        Raises:
            Rejected: words are given, and the store has no means to search for them.
        """
        ...

    async def listed_session(self, session_id: str) -> SessionInfo | None:
        """Return a session; None if it does not exist."""
        ...

    async def listed_runs(
        self, wanted: RunFilter, *, order: RunOrder = NEWEST_FIRST, limit: int = 50
    ) -> tuple[RunInfo, ...]:
        """Return runs in an order, after the last one of the page before.

        Raises:
            Rejected: words are given, and the store has no means to search for them.
        """
        ...

    async def count_listed(self, wanted: SessionFilter, *, most: int) -> int:
        """Return how many sessions match a filter; `most` if there are as many or more.

        Raises:
            Rejected: words are given, and the store has no means to search for them.
        """
        ...

    async def count_listed_runs(self, wanted: RunFilter, *, most: int) -> int:
        """Return how many runs match a filter; `most` if there are as many or more.

        Raises:
            Rejected: words are given, and the store has no means to search for them.
        """
        ...

    async def listed_requests(
        self, *, owner: str | None = None, named: Collection[str] = (), after: int = 0, limit: int = 50
    ) -> tuple[OpenRequest, ...]:
        """Return open requests, oldest first, numbered above `after`.

        With an owner, those of the owner and the questions that name one of `named` as a responder.
        """
        ...

    async def find_request(self, request_id: str) -> OpenRequest | SettledRequest | None:
        """Return a request, open or settled.

        A request that an append closes without a resolution is settled as cancelled. None if no session of
        this store asked it, or if its session was deleted.
        """
        ...

    async def counted_runs(self, wanted: CountFilter) -> RunCounts:
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

    async def listed_refusals(
        self,
        *,
        owner: str | None = None,
        agent_id: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> tuple[RefusedStart, ...]:
        """Return refused starts, newest first, numbered below `before`."""
        ...


@frozen
class StoredAppend:
    """Records of one append, as stored."""

    records: tuple[Record, ...]
    epoch: int
    body: bytes = b""
    """The stored encoding; empty if no store has encoded them yet."""


@frozen
class KeptItem:
    """A consumed inbox item: the data that prevents it from taking effect again."""

    kind: str
    key: str
    digest: bytes
    consumed_seq: int
    run_id: str | None = None
    """The run that the item started."""
    number: int = 0
    """Its number in the store; optional when it is imported."""


@frozen
class KeptContent:
    """Content that a session refers to."""

    ref: ContentRef
    content: bytes
    is_own: bool = True
    """Whether it is deleted with the session; a package is not."""


@frozen
class SessionCopy:
    """A session to import into a store in one transaction.

    It stays idle there until an item arrives in its inbox.
    """

    session_id: str
    appends: tuple[StoredAppend, ...]
    told: Told
    """The index entry derived from all its records."""
    runs: tuple[RunInfo, ...] = ()
    items: tuple[KeptItem, ...] = ()
    contents: tuple[KeptContent, ...] = ()
    uses: tuple[str, ...] = ()
    """Hashes of stored contents that it refers to."""
    asked: tuple[InputRequest, ...] = ()
    """Its open requests to people."""
    copied_from: str | None = None
    """The session that it is a copy of, which must still exist in the store."""

    @property
    def last_seq(self) -> int:
        return self.appends[-1].records[-1].seq if self.appends else 0

    @property
    def epoch(self) -> int:
        """The epoch of its last owner."""
        return max((append.epoch for append in self.appends), default=0)


class Archive(Protocol):
    """Exports, imports and deletes whole sessions."""

    async def appends(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[StoredAppend, ...]:
        """Return appends of a session in order, from the one that ends after `after`; empty at the end.

        They are verified as in `read`.
        """
        ...

    async def kept_items(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[KeptItem, ...]:
        """Return consumed items of a session in order, numbered above `after`."""
        ...

    async def contents_of(self, session_id: str) -> tuple[ContentRef, ...]:
        """Return references to the contents that were stored for a session."""
        ...

    async def keep(self, copy: SessionCopy) -> None:
        """Import a session; return once all of it is durable.

        Raises:
            Conflict: the session exists or was deleted, one of its runs exists, or the session that it is a
                copy of does not exist.
        """
        ...

    async def delete(self, session_id: str, *, now_ms: int, idle_since: str | None = None) -> tuple[str, ...]:
        """Delete a session and the sessions of its subagents; return their ids, callers first.

        This removes records, snapshots, inbox items, runs, requests, index entries, contents that belong to
        these sessions alone, and refused starts that name one of the sessions or runs. The id cannot be used
        again, unless it is that of a session with judgements.

        Raises:
            Conflict: the session does not exist, or one of them has an unfinished run or a living owner. With
                `idle_since`, also if one has changed at that time or later, or has an open request to a
                person or an item in its inbox.
        """
        ...


SCHEDULE: Final = "schedule"
"""The kind of the document of a schedule."""
RUN_PUSH: Final = "run-push"
"""The kind of the documents with the push configurations of runs.

Each has the id of its run as its name, and is deleted in the transaction that deletes the run.
"""
STEER: Final = "steer"
"""The kind of an item with a message to the current run, or to a new one."""
COMPACT: Final = "compact"
"""The kind of an item that requests a compaction."""
FEEDBACK: Final = "feedback"
"""The kind of an item with what a person said of a run."""
STATE: Final = "state"
"""The kind of an item that changes the authored state of its session."""


class Standing(StrEnum):
    """How a session has to be driven."""

    RUNNING = "running"
    """The session has work to do: drive it, also after a crash."""
    WAITING = "waiting"
    """A run waits for an answer or a time; an inbox item or `wake_at` wakes it."""
    IDLE = "idle"
    """The session is idle; a new message wakes it."""


@frozen
class Claim:
    """The right to write to a session, until another owner claims it."""

    session_id: str
    owner_id: str
    epoch: int
    last_seq: int
    """The number of the last record; 0 for a session without records."""


@frozen
class Batch:
    """Records that become durable together, with the index changes of the same transaction."""

    claim: Claim
    expected_seq: int
    """The number of the last record that the writer knows."""
    drafts: tuple[Draft, ...]
    consumes: tuple[int, ...] = ()
    """Numbers of inbox items that this append consumes."""
    standing: Standing | None = None
    """None leaves it unchanged."""
    wake_at_ms: int | None = None
    """When a waiting session must be driven, in milliseconds since 1970; written with `standing`."""
    runs: tuple[tuple[str, RunStatus], ...] = ()
    """Runs with a changed status, for the catalogue."""
    new_runs: "tuple[tuple[NewRun, int], ...]" = ()
    """Runs that start with an item posted without one, with the number of that item."""
    asked: tuple[InputRequest, ...] | None = None
    """All open requests of the session after this append, for the index; None leaves them unchanged."""
    is_last: bool = False
    """The owner releases the session with this append."""

    @property
    def is_milestone(self) -> bool:
        """Whether it holds more than the records of steps, or changes the open requests to people."""
        if self.asked is not None:
            return True
        for draft in self.drafts:  # noqa: SIM110 - `any` takes twice as long
            if draft.type not in RECORDS_OF_STEPS:
                return True
        return False

    @property
    def posts(self) -> tuple[Post, ...]:
        """Items for other inboxes that become durable with these records.

        An item with a known key changes nothing; an item that starts a run creates its session. They are
        accepted by a full inbox: a message between sessions must not fail because of other senders.
        """
        for draft in self.drafts:
            if draft.posts:
                return tuple(post for item in self.drafts for post in item.posts)
        return ()


@frozen
class Appended:
    """The numbers of the appended records; they have no gaps."""

    first_seq: int
    first_position: int
    """Numbers in the order of the whole store."""


class Journal(Protocol):
    """Durable records, in order.

    All methods raise `Unavailable` if the store cannot be reached and nothing happened, and `Corrupt` if
    stored data is damaged.
    """

    async def claim(self, session_id: str, owner_id: str, *, now_ms: int) -> Claim:
        """Become the owner of a session; a new session is created.

        Raises:
            Conflict: a living owner has claimed it.
        """
        ...

    async def append(self, batch: Batch) -> Appended:
        """Write a batch, all of it or nothing; return once it is durable.

        A batch without drafts changes the standing alone.

        Raises:
            Conflict: the claim is stale, the stream does not end at `expected_seq`, or a post starts a run
                with an id or a session that exists already; nothing was written.
            Rejected: a record is too large; nothing was written.
            Ambiguous: it may or may not have been written; claim again and read before continuing.
        """
        ...

    async def read(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        """Return durable records in order, without gaps, from `after + 1`; empty at the end.

        An unknown session has no records. At least `limit` records are returned if there are as many; the
        rest of the append of the last one may follow.
        """
        ...


class Milestones(Protocol):
    """Records without those of steps."""

    async def milestones(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        """Return the records of milestones, in order, that are numbered above `after`; empty at the end.

        Milestones are all appends but those of steps: an append is one if `Batch.is_milestone`. Runs, people
        and subagents of a session are read from them without its steps. A store may return further appends,
        such as those of an imported session. At least `limit` records are returned if there are as many.
        """
        ...


@frozen
class InboxItem:
    """An item of the inbox of a session."""

    number: int
    """Increasing across the store."""
    session_id: str
    kind: str
    """start, message, answer, cancel …: the owner interprets it."""
    key: str
    body: JsonObject


@frozen
class Posted:
    """The result of a post: the number of the item, and whether it existed before."""

    number: int
    is_new: bool


@frozen
class Notice:
    """A notification that another process has written."""

    sessions: frozenset[str] | None
    """The sessions that it has written to; None if it may be any."""
    has_items: bool
    """Whether there are new inbox items among that."""


@frozen
class Arrivals:
    """New items in the inboxes of a store."""

    newest: int
    """The number of the newest item, consumed or not; 0 if there never was one."""
    session_ids: frozenset[str]


@frozen
class NewRun:
    """A run that an item starts: its id is unique in the whole store."""

    run_id: str
    agent_id: str
    fingerprint: str
    request: JsonObject | None = None
    """The request as the caller made it, without additions of this process; None if it equals the body."""
    at: str = ""
    """The time of the request, for the index; empty if unknown."""


class Inbox(Protocol):
    """Items for the owner of a session."""

    async def post(
        self, session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None = None
    ) -> Posted:
        """Store an item durably.

        The same key with the same body is the same item, also after it was consumed. Items that start a run
        are the same if their requests are equal.

        Raises:
            Conflict: the key, or the run id, was used with another body or session; or the session was
                deleted.
            Denied: the item starts a run for an owner other than that of the session.
            Rejected: the item is too large, or the inbox of the session is full.
        """
        ...

    async def pending(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[InboxItem, ...]:
        """Return items that no append has consumed, oldest first, numbered above `after`.

        Fewer than `limit` items mean that there are no more.
        """
        ...

    async def arrivals(self, *, after: int) -> Arrivals:
        """Return which sessions have unconsumed items numbered above `after`."""
        ...


@frozen
class RunRow:
    """A run in the catalogue."""

    run_id: str
    session_id: str
    agent_id: str
    fingerprint: str
    status: RunStatus
    first_seq: int
    """The position of the append that first named it; 0 while it is only in the inbox."""
    last_seq: int
    """The last record of its session, read together with the row."""
    owner: str | None
    """The owner of its session."""


@frozen
class SessionRow:
    """A session in the catalogue."""

    session_id: str
    standing: Standing
    last_seq: int
    epoch: int
    wake_at_ms: int | None
    owner_id: str | None


class Catalog(Protocol):
    """Runs and sessions, without their records."""

    async def run(self, run_id: str) -> RunRow | None:
        """Return a run; None if it does not exist."""
        ...

    async def session(self, session_id: str) -> SessionRow | None:
        """Return a session; None if it does not exist."""
        ...

    async def is_deleted(self, session_id: str) -> bool:
        """Return whether a session was deleted, so that it never exists again."""
        ...

    async def sessions(self, *, after: str | None = None, limit: int = 100) -> tuple[SessionRow, ...]:
        """Return sessions in the order of their ids, after the given one."""
        ...

    async def due(
        self, *, now_ms: int, limit: int = 100, agents: Collection[str] | None = None
    ) -> tuple[str, ...]:
        """Return sessions that must be driven now and have no living owner.

        These are the running ones, those with items in their inbox, and waiting ones with a past wake time;
        those that waited longest come first. A start in the inbox of a waiting session does not count: it has
        to wait as well. With `agents`, sessions are excluded if their next work is a run of another agent:
        the current run, or else the oldest one in the inbox. Sessions with a cancel in their inbox are
        included: every process can end a run.
        """
        ...

    async def unfinished(self) -> Mapping[str, int]:
        """Return the number of unfinished runs by agent."""
        ...

    async def next_wake_ms(self) -> int | None:
        """Return the earliest wake time of a waiting session; None if there is none."""
        ...


class Ownership(Protocol):
    """Which owners are alive.

    An owner is dead if it was not renewed within the lease, or if its process has ended.
    """

    async def enlist(self, owner_id: str, *, now_ms: int) -> None:
        """Register an owner, which may then claim sessions. Call again before the lease ends to renew it."""
        ...

    async def retire(self, owner_id: str) -> None:
        """Remove an owner: its sessions are free at once."""
        ...


class Timeline(Protocol):
    """All records of the store in one order, for subscribers to everything."""

    async def read_all(self, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        """Return durable records in the order of `position`, after `after`.

        A record that commits late is never skipped. At least `limit` records are returned if there are as
        many.
        """
        ...

    async def last_position(self) -> int:
        """Return the position of the newest record; 0 if there is none."""
        ...


class Snapshots(Protocol):
    """Folded states, as a cache: a lost one costs time and nothing else."""

    async def save(self, session_id: str, seq: int, *, state: bytes) -> None:
        """Store the state of a session after record `seq`, replacing an older one. The store may drop it."""
        ...

    async def load(self, session_id: str) -> tuple[int, bytes] | None:
        """Return the newest state and the number of its last record; None if there is none."""
        ...


@frozen
class Document:
    """A small JSON document that is replaced as a whole, such as a schedule."""

    kind: str
    name: str
    revision: int
    """1 for the first version; every replacement adds 1."""
    body: JsonObject
    due_at_ms: int | None = None
    """When something has to be done about it, in milliseconds since 1970."""


class Documents(Protocol):
    """Documents by kind and name. A write names the revision that it replaces."""

    async def put_document(self, document: Document) -> None:
        """Write a document durably: as the first version, or in place of the revision before its own.

        Raises:
            Conflict: another revision is stored, or none.
            Rejected: the body is larger than `DOCUMENT_BYTES_MAX`.
            Unavailable: nothing was written.
        """
        ...

    async def drop_document(self, document: Document) -> None:
        """Delete a document for good.

        Raises:
            Conflict: another revision is stored, or none.
            Unavailable: nothing was deleted.
        """
        ...

    async def document(self, kind: str, name: str) -> Document | None:
        """Return a document; None if it does not exist."""
        ...

    async def documents(
        self, kind: str, *, after: str | None = None, limit: int = 100
    ) -> tuple[Document, ...]:
        """Return documents of a kind, by name."""
        ...

    async def due_documents(self, kind: str, *, now_ms: int, limit: int = 100) -> tuple[Document, ...]:
        """Return documents of a kind that are due, the earliest first."""
        ...

    async def next_document_ms(self, kind: str) -> int | None:
        """Return when the next document of a kind is due; None if none is."""
        ...


class Store(
    Journal,
    Milestones,
    Inbox,
    Catalog,
    Ownership,
    Timeline,
    Snapshots,
    Listing,
    Refusals,
    Archive,
    Documents,
    Protocol,
):
    """Everything that one database stores for the runtime."""

    async def aclose(self) -> None:
        """Flush pending writes and close the database."""
        ...


PERMIT_MS: Final = 2_000
"""How long a permit may be kept before its call begins."""
PERMIT_LEASE_MS: Final = 15_000
"""A process that has not asked for this long is taken for dead; its permits are free."""
PERMIT_POLL_MS: Final = 250
"""Pause before a process asks again after it got no permit."""


@frozen
class PermitAsk:
    """What a process tells of its calls to a model provider, and how many more it wants to begin."""

    provider: str
    holder: str
    """The process: a unique id."""
    number: int
    """1 for its first; a repeated ask has the number of the original."""
    at_once: int | None
    per_minute: int | None
    tokens_per_minute: int | None
    held: int
    """Its calls under way, and the permits that it keeps; those that it held before are free."""
    wants: int = 0
    """Calls that wait."""
    ahead: int = 0
    """Further permits, for calls to come; given if no other process waits."""
    returned: tuple[tuple[int, int], ...] = ()
    """Permits of earlier grants that were not used: `at_ms` of the grant, and how many."""
    spent: int = 0
    """Tokens of calls that ended since the last ask."""
    expected: int = 0
    """Tokens of its last call; 0 if it is not known."""
    pause_ms: int = 0
    """For how long the provider asked for a pause."""


@frozen
class PermitGrant:
    """How many calls a process may begin, by the clock of the database."""

    count: int
    """Permits, each for one call that begins within `PERMIT_MS` after the ask was sent."""
    at_ms: int
    """The time that the permits count from."""
    is_contended: bool
    """Whether another process waits, so that unused permits must be returned."""
    retry_ms: int
    """When to ask again if calls still wait."""
    paused_ms: int
    """For how long no call may begin."""


@runtime_checkable
class WatchedStore(Protocol):
    """A store that reports when it cannot write."""

    @property
    def write_problem(self) -> str | None:
        """Why nothing can be written now, without names of files or hosts; None if writes work.

        The store tries again by itself; the problem ends with the first write that succeeds.
        """
        ...


@runtime_checkable
class PermitStore(Protocol):
    """A store that counts the model calls of all processes that share it."""

    async def take_permits(self, ask: PermitAsk) -> PermitGrant:
        """Note what a process holds, and give it permits.

        The limits of an ask hold for all processes together. Processes that wait are served in turn. A lost
        answer costs permits, and never gives too many.

        Raises:
            Unavailable: the database cannot be reached; nothing was given.
            Rejected: its user may not make the table of permits.
        """
        ...


class ContentStore(Protocol):
    """Content addressed by its hash."""

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        """Store bytes durably and return their reference; equal bytes are stored once.

        Content that was stored for sessions is deleted with the last of them; content stored for none is
        kept.

        Raises:
            Rejected: larger than `CONTENT_BYTES_MAX`.
            Unavailable: nothing was stored.
        """
        ...

    async def get(self, ref: ContentRef) -> bytes:
        """Return the bytes.

        Raises:
            Rejected: the content does not exist.
            Corrupt: the bytes do not match the hash.
        """
        ...
