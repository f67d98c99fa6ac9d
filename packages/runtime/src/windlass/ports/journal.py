"""Port of the journal: the records of a session, in order, and who may append to them.

A session has one owner at a time. An owner claims the session and gets an epoch. Every append names the epoch
and the number of the last record that the owner knows; the store refuses the append if either is outdated. So
two owners can never mix their records, and an owner that was replaced while suspended learns it at its next
append.
"""

from enum import StrEnum
from typing import Protocol

from windlass.ports.inbox import NewRun
from windlass_harness.loop.events import Draft
from windlass_harness.loop.purse import PaidCall
from windlass_harness.record import Post, Record
from windlass_harness.views.listing import RECORDS_OF_STEPS
from windlass_protocol import InputRequest, RunStatus
from windlass_protocol.frozen import frozen


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
class SharedCalls:
    """Model calls that count for limits which runs share."""

    paid: tuple[PaidCall, ...]
    """Calls that end with this append."""
    open_call: str | None
    """The call that is under way after it; all others of the session have ended, or never began."""


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
    calls: SharedCalls | None = None
    """Calls to settle in their purses, see `PurseStore`; None if none can be held."""

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

    async def living(self, *, now_ms: int) -> frozenset[str]:
        """Return the owners that are alive."""
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
