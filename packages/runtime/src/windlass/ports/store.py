"""Port of the store: journal, inbox, ownership, catalogue, archive, content.

A session has one owner at a time. Whoever wants to drive it claims it and gets an epoch; every append names
the epoch and the number of the last record it knows, and is refused if either is no longer true. Two owners
can therefore never mix their records, and one that slept through its own replacement learns it at its next
append.

Everybody else speaks to a session through its inbox: a durable list of items that the owner turns into
records. Taking an item and writing the records that it caused is one append, so an item counts once.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from pydantic import JsonValue

from windlass_harness.loop.drafts import Draft, Post
from windlass_harness.loop.family import CANCEL as CANCEL
from windlass_harness.loop.family import START as START
from windlass_harness.views.listing import Told
from windlass_protocol import ContentRef, InputOutcome, InputRequest, Record, RunStatus, Usage
from windlass_protocol import SessionStatus as SessionStatus

NO_USAGE: Final = Usage()


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as the index knows it."""

    session_id: str
    title: str
    """What was said first, in one short line; without the secrets that the runtime knows."""
    agent_id: str
    """Of the newest run that has begun."""
    status: SessionStatus
    owner: str | None
    """Whom it belongs to; None if nobody said so when it began."""
    created_at: str
    updated_at: str
    """When what is shown here last changed; the steps of a run change nothing."""
    run_count: int
    request_count: int
    """Requests to people that are open in it; those of subagents are in their own sessions."""
    usage: Usage
    """What its runs have used that have ended, with their subagents and the cost."""
    parent_session_id: str | None
    """The session that it works for, if it is a subagent's."""
    root_session_id: str
    """The session at the top of that tree; its own if it works for nobody."""
    predecessor_id: str | None
    """The session that it was forked from."""
    predecessor_seq: int | None
    """The number of the last record that was copied from there."""
    number: int
    """Its place in the list: a later session has a higher one."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run as the index knows it."""

    run_id: str
    session_id: str
    agent_id: str
    package_fingerprint: str
    status: RunStatus
    started_at: str | None
    """None while it waits for its turn."""
    ended_at: str | None
    usage: Usage
    """What it used; empty until it has ended."""
    first_seq: int
    """The number of the record with which its session begins to tell of it; 0 while it waits for its turn."""
    number: int
    """Its place in the list: a run that was asked for later has a higher one."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """Something that waits for a person, with the session to answer."""

    session_id: str
    """Whose request it is: `runtime.answer_session` takes it."""
    root_session_id: str
    run_id: str
    agent_id: str
    owner: str | None
    asked_at: str
    request: InputRequest
    """What is asked: the tool and its arguments are in its `action`, with `expires_at` beside."""
    number: int
    """Its place in the list: a later request has a higher one."""

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return self.request.request_id


@dataclass(frozen=True, slots=True)
class SettledRequest:
    """A request that is closed: answered, or expired."""

    request_id: str
    session_id: str
    run_id: str
    owner: str | None
    outcome: InputOutcome
    option_id: str | None
    """The option that was chosen."""
    responder: str | None
    at: str


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions are wanted; None means any."""

    agent_id: str | None = None
    status: SessionStatus | None = None
    owner: str | None = None
    words: tuple[str, ...] = ()
    """Beginnings of words that the title must have, all of them, as `words_in` gives them."""
    root_only: bool = True


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are wanted; None means any."""

    session_id: str | None = None
    agent_id: str | None = None
    status: RunStatus | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class CountFilter:
    """Which runs are counted, and in which parts of the time.

    Those count that began from `start` on and before `end`. Without an agent, runs of subagents are left out:
    what they used is in the run that they work for.
    """

    start: str
    end: str
    bucket_ms: int
    agent_id: str | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class RunCell:
    """Runs of one status that began in one part of the time."""

    bucket: int
    """Which part, from 0."""
    status: RunStatus
    count: int
    input_tokens: int
    output_tokens: int
    cost_micros: int


@dataclass(frozen=True, slots=True)
class RunTimes:
    """How long runs took that have ended: the middle, and the slow end."""

    bucket: int | None
    """Which part of the time; None for all of it."""
    p50_ms: int
    p95_ms: int


@dataclass(frozen=True, slots=True)
class RunCounts:
    """Runs in numbers; what is not there is zero."""

    cells: tuple[RunCell, ...]
    times: tuple[RunTimes, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for people now."""

    runs: int
    requests: int
    oldest_asked_at: str | None


class Listing(Protocol):
    """What is in the store, newest first, in pages."""

    async def listed(
        self, wanted: SessionFilter, *, before: int | None = None, limit: int = 50
    ) -> tuple[SessionInfo, ...]:
        """Return sessions, newest first, numbered below `before`."""
        ...

    async def listed_session(self, session_id: str) -> SessionInfo | None:
        """Return a session; None if no run was ever asked for in it."""
        ...

    async def listed_runs(
        self, wanted: RunFilter, *, before: int | None = None, limit: int = 50
    ) -> tuple[RunInfo, ...]:
        """Return runs, newest first, numbered below `before`."""
        ...

    async def listed_requests(
        self, *, owner: str | None = None, after: int = 0, limit: int = 50
    ) -> tuple[OpenRequest, ...]:
        """Return open requests, oldest first, numbered behind `after`."""
        ...

    async def find_request(self, request_id: str) -> OpenRequest | SettledRequest | None:
        """Return a request, open or settled.

        None if no session ever asked it, or if its run ended before it was settled.
        """
        ...

    async def counted_runs(self, wanted: CountFilter) -> RunCounts:
        """Return runs in numbers."""
        ...

    async def waiting(self, *, owner: str | None = None, agent_id: str | None = None) -> Waiting:
        """Return how much waits for people; of one owner or agent if one is named."""
        ...


@dataclass(frozen=True, slots=True)
class StoredAppend:
    """Records that became durable together, as they are kept."""

    records: tuple[Record, ...]
    epoch: int
    body: bytes = b""
    """How a store keeps them; empty if none has yet."""


@dataclass(frozen=True, slots=True)
class KeptItem:
    """An item of an inbox that was consumed: what is kept so that it counts once."""

    kind: str
    key: str
    digest: bytes
    consumed_seq: int
    run_id: str | None = None
    """The run that it started."""
    number: int = 0
    """Its place in the inboxes of the store; whoever brings it in need not know one."""


@dataclass(frozen=True, slots=True)
class KeptContent:
    """Bytes that a session refers to."""

    ref: ContentRef
    content: bytes
    is_own: bool = True
    """Whether it goes with the session; a package stays."""


@dataclass(frozen=True, slots=True)
class SessionCopy:
    """A session that is to be brought into a store, all of it or nothing.

    It stands still there: nobody drives it before something comes into its inbox.
    """

    session_id: str
    appends: tuple[StoredAppend, ...]
    told: Told
    """What all its records tell of it."""
    runs: tuple[RunInfo, ...] = ()
    items: tuple[KeptItem, ...] = ()
    contents: tuple[KeptContent, ...] = ()
    uses: tuple[str, ...] = ()
    """Hashes of contents that are in the store, and that it refers to."""
    asked: tuple[InputRequest, ...] = ()
    """What people are being asked."""
    copied_from: str | None = None
    """A session of the store that it is a copy of, and that must be there still."""

    @property
    def last_seq(self) -> int:
        """The number of its last record."""
        return self.appends[-1].records[-1].seq if self.appends else 0

    @property
    def epoch(self) -> int:
        """Of its last owner."""
        return max((append.epoch for append in self.appends), default=0)


class Archive(Protocol):
    """Sessions as a whole."""

    async def appends(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[StoredAppend, ...]:
        """Return appends of a session in order, from the one that ends behind `after`.

        Empty at the end. They are verified as `read` verifies records.
        """
        ...

    async def kept_items(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[KeptItem, ...]:
        """Return consumed items of a session in order, from those numbered behind `after`."""
        ...

    async def contents_of(self, session_id: str) -> tuple[ContentRef, ...]:
        """Return what was put into the content store for a session."""
        ...

    async def keep(self, copy: SessionCopy) -> None:
        """Bring in a session; return once all of it is durable.

        Raises:
            Conflict: the session is there, or was deleted, or one of its runs is there; or what it is a copy
                of is not.
        """
        ...

    async def delete(self, session_id: str, *, now_ms: int) -> tuple[str, ...]:
        """Remove a session and those that work for it; return which, callers first.

        With it go its records, snapshots, items, runs, requests, its rows in the index, and contents that
        were put for it alone. Its id cannot be used again, unless it is one of notes.

        Raises:
            Conflict: there is no such session, or a run is under way in one of them, or a living owner has
                one of them.
        """
        ...


JsonObject = dict[str, JsonValue]

STEER: Final = "steer"
"""The kind of an item with words to the run under way, or to a new one."""
COMPACT: Final = "compact"
"""The kind of an item that asks for a shorter history."""
STATE: Final = "state"
"""The kind of an item that changes the authored state of its session."""


class Standing(StrEnum):
    """What a session wants of whoever could drive it."""

    RUNNING = "running"
    """It has work to do: drive it, also after a crash."""
    WAITING = "waiting"
    """A run waits for an answer or a moment; its inbox or `wake_at` wakes it."""
    IDLE = "idle"
    """Nothing is going on; a new message wakes it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write to a session, until somebody else claims it."""

    session_id: str
    owner_id: str
    epoch: int
    last_seq: int
    """The number of the last record; 0 for a session without records."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that become durable together, and what else becomes true with them."""

    claim: Claim
    expected_seq: int
    """The number of the last record that the writer knows."""
    drafts: tuple[Draft, ...]
    consumes: tuple[int, ...] = ()
    """Numbers of inbox items that these records answer."""
    standing: Standing | None = None
    """None leaves it as it is."""
    wake_at_ms: int | None = None
    """When a waiting session wants to be driven, in milliseconds since 1970; written with `standing`."""
    runs: tuple[tuple[str, RunStatus], ...] = ()
    """Runs whose status changed, for the catalogue."""
    new_runs: "tuple[tuple[NewRun, int], ...]" = ()
    """Runs that begin with an item which did not say so when it was posted, and the number of that item."""
    asked: tuple[InputRequest, ...] | None = None
    """All that the session asks people after this append, for the index; None leaves it as it is."""
    is_last: bool = False
    """The owner lets go of the session with this append."""

    @property
    def posts(self) -> tuple[Post, ...]:
        """Items for other inboxes that become durable with these records.

        One whose key is known there is left as it is; one that starts a run makes its session. They find
        room in a full inbox: whoever tells another session of itself must not fail because of others.
        """
        return tuple(post for draft in self.drafts for post in draft.posts)


@dataclass(frozen=True, slots=True)
class Appended:
    """Where the records of a batch are; they are numbered without gaps."""

    first_seq: int
    first_position: int
    """In the order of the whole store."""


class Journal(Protocol):
    """Durable records, in order.

    All methods raise `Unavailable` if the store cannot be reached and nothing happened, and `Corrupt` if what
    is stored is damaged.
    """

    async def claim(self, session_id: str, owner_id: str, *, now_ms: int) -> Claim:
        """Become the owner of a session, which is made if it is new.

        Raises:
            Conflict: a living owner has it.
        """
        ...

    async def append(self, batch: Batch) -> Appended:
        """Write a batch, all of it or nothing; return once it is durable.

        A batch may have no drafts, to change the standing alone.

        Raises:
            Conflict: the claim is stale, the stream does not end at `expected_seq`, or a post starts a run
                whose id or session is there already; nothing was written.
            Rejected: a record is too large; nothing was written.
            Ambiguous: it may or may not have been written; claim again and read before going on.
        """
        ...

    async def read(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        """Return durable records in order, without gaps, from `after + 1`.

        Empty at the end.

        An unknown session has no records. At least `limit` records are returned if there are so many; the
        rest of the append that holds the last one may come along.
        """
        ...


@dataclass(frozen=True, slots=True)
class InboxItem:
    """Something that somebody wants of a session."""

    number: int
    """Store-wide, increasing."""
    session_id: str
    kind: str
    """start, message, answer, cancel …: the owner knows what to do with it."""
    key: str
    body: JsonObject


@dataclass(frozen=True, slots=True)
class Posted:
    """What came of a post: the number of the item, and whether it was there before."""

    number: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What came into the inboxes of a store."""

    newest: int
    """The number of the newest item, consumed or not; 0 if there was never one."""
    session_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that an item starts: its id is taken once for the whole store."""

    run_id: str
    agent_id: str
    fingerprint: str
    request: JsonObject | None = None
    """What was asked for, without what this process adds to it; None means that the body is all of that."""
    at: str = ""
    """When, for the index; empty if nobody knows."""


class Inbox(Protocol):
    """Items that wait for the owner of their session."""

    async def post(
        self, session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None = None
    ) -> Posted:
        """Keep an item durably.

        The same key with the same body is the same item, also after it was consumed.

        An item that starts a run is the same if its request is.

        Raises:
            Conflict: the key, or the run id, was used with another body or session; or the session was
                deleted.
            Denied: the item asks for a run for another owner than the session has.
            Rejected: the item is too large, or the inbox of the session is full.
        """
        ...

    async def pending(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[InboxItem, ...]:
        """Return items that no append has consumed, oldest first, numbered behind `after`.

        Fewer than `limit` are all there are.
        """
        ...

    async def arrivals(self, *, after: int) -> Arrivals:
        """Return which sessions got items numbered behind `after` that still wait."""
        ...


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as the catalogue knows it."""

    run_id: str
    session_id: str
    agent_id: str
    fingerprint: str
    status: RunStatus
    first_seq: int
    """Of the append that first named it; 0 while it is only in the inbox."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as the catalogue knows it."""

    session_id: str
    standing: Standing
    last_seq: int
    epoch: int
    wake_at_ms: int | None
    owner_id: str | None


class Catalog(Protocol):
    """What is in the store, without reading records."""

    async def run(self, run_id: str) -> RunRow | None:
        """Return a run; None if nobody ever started it."""
        ...

    async def session(self, session_id: str) -> SessionRow | None:
        """Return a session; None if there is none."""
        ...

    async def sessions(self, *, after: str | None = None, limit: int = 100) -> tuple[SessionRow, ...]:
        """Return sessions in the order of their ids, behind the one named."""
        ...

    async def due(
        self, *, now_ms: int, limit: int = 100, agents: Collection[str] | None = None
    ) -> tuple[str, ...]:
        """Return sessions that somebody should drive now and no living owner has.

        They are the running ones, those with items in their inbox, and waiting ones whose time has come;
        those that waited longest first. A start in the inbox of a waiting session can only wait as well: it
        does not count. With `agents`, those whose next work is a run of another agent are left out: of the
        run under way, or else of the oldest that waits in the inbox. Those with a cancel in it are not:
        anybody can end a run.
        """
        ...

    async def unfinished(self) -> Mapping[str, int]:
        """Return how many runs have not ended, for each agent that has any."""
        ...

    async def next_wake_ms(self) -> int | None:
        """Return when the next waiting session wants to be woken; None if none does."""
        ...


class Ownership(Protocol):
    """Who is alive.

    An owner that has not been heard of for the lease, or whose process is gone, is not.
    """

    async def enlist(self, owner_id: str, *, now_ms: int) -> None:
        """Become an owner that may claim sessions.

        Call again before the lease ends to stay one.
        """
        ...

    async def retire(self, owner_id: str) -> None:
        """Stop being an owner: its sessions are free at once."""
        ...


class Timeline(Protocol):
    """All records of the store in one order, for those who follow everything."""

    async def read_all(self, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        """Return durable records in the order of `position`, from behind `after`.

        It never skips one that commits late. At least `limit` records are returned if there are so many.
        """
        ...

    async def last_position(self) -> int:
        """Return the position of the newest record; 0 if there is none."""
        ...


class Snapshots(Protocol):
    """Folded states, as a cache: losing one costs time and nothing else."""

    async def save(self, session_id: str, seq: int, *, state: bytes) -> None:
        """Keep the state of a session after record `seq`, instead of an older one.

        It may be dropped.
        """
        ...

    async def load(self, session_id: str) -> tuple[int, bytes] | None:
        """Return the newest state and the number of its last record.

        None if there is none.
        """
        ...


class Store(Journal, Inbox, Catalog, Ownership, Timeline, Snapshots, Listing, Archive, Protocol):
    """Everything that one database keeps for the runtime."""

    async def aclose(self) -> None:
        """Write what is pending and let go of the database."""
        ...


class ContentStore(Protocol):
    """Bytes by their hash."""

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        """Keep bytes durably and return what names them; the same bytes are kept once.

        What was put for sessions is removed with the last of them; what was put for none stays.

        Raises:
            Rejected: larger than `CONTENT_BYTES_MAX`.
            Unavailable: nothing was kept.
        """
        ...

    async def get(self, ref: ContentRef) -> bytes:
        """Return the bytes.

        Raises:
            Rejected: there is no such content.
            Corrupt: the bytes are not those that the hash names.
        """
        ...
