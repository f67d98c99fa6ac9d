"""The journal: one ordered, durable stream of records for each session.

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

from windlass.ports.archive import Archive
from windlass.ports.listing import Listing
from windlass_harness.loop.drafts import Draft, Post
from windlass_harness.loop.family import CANCEL as CANCEL
from windlass_harness.loop.family import START as START
from windlass_protocol import InputRequest, Record, RunStatus

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
