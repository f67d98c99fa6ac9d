"""Port of the inbox: how every process but its owner addresses a session.

It is a durable list of items that the owner turns into records. One append consumes an item and writes the
records that it caused, so an item takes effect once.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol, runtime_checkable

from windlass.errors import Rejected
from windlass_harness.loop.subagents import STEER as STEER  # posted by the loop as well
from windlass_protocol import ErrorKind, JsonObject, RetryClass
from windlass_protocol.bodies import Part
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records

COMPACT: Final = "compact"
"""The kind of an item that requests a compaction."""
EVENT: Final = "event"
"""The kind of an item with an event that was sent to a run."""
FEEDBACK: Final = "feedback"
"""The kind of an item with what a person said of a run."""
BATCH_ANSWERED: Final = "batch"
"""The kind of an item that says that a model call in a batch has an answer, or has to be made again."""
STATE: Final = "state"
"""The kind of an item that changes the authored state of its session."""


class ItemTooLarge(Rejected):
    """An item is larger than `INBOX_ITEM_BYTES_MAX`."""

    def __init__(self, what: str, size: int, *, limit: int) -> None:
        super().__init__(
            f"{what} too large: {size:,} bytes, limit {limit:,}",
            kind=ErrorKind.JOURNAL_FAILURE,
            retry=RetryClass.NOT_RETRYABLE,
        )


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

    @property
    def run_id(self) -> str | None:
        """The run that the item starts, cancels or belongs to."""
        run_id = self.body.get("runId")
        return run_id if isinstance(run_id, str) else None

    @property
    def agent_id(self) -> str | None:
        """The agent of the run that the item starts."""
        agent_id = self.body.get("agentId")
        return agent_id if isinstance(agent_id, str) else None

    def of_run(self, run_id: str) -> "InboxItem":
        """Return the item of another run."""
        return replace(self, body={**self.body, "runId": run_id})

    def without_body(self) -> "InboxItem":
        """Return the item with its run and agent alone."""
        return replace(self, body={"runId": self.run_id, "agentId": self.agent_id})


class AnswersItem(Part, frozen=True, kw_only=True):
    """The body of an item with answers, or what a message has of them."""

    responses: Sequence[records.JsonObject]
    given_ms: int | None = None
    """Time of the answers, in milliseconds since 1970."""


class DispatchedItem(Part, frozen=True, kw_only=True):
    """The body of an item that says that a request was brought to its responders."""

    request_id: str


class StartFacts(Part, frozen=True, kw_only=True):
    """The facts of a start that are written even if the journal refuses the rest."""

    run_id: str
    agent_id: str
    package_id: str | None = None
    package_fingerprint: str | None = None
    route_id: str | None = None
    model_id: str | None = None
    parent: records.JsonObject | None = None


class RequestedRun(StartFacts, frozen=True, kw_only=True):
    """What a start says of its run, before the fields of the request."""

    retry_of: str | None = None


@frozen
class Posted:
    """The result of a post: the number of the item, and whether it existed before."""

    number: int
    is_new: bool


@frozen
class InboxNotice:
    """A notification that another process has written."""

    sessions: frozenset[str] | None
    """The sessions that it has written to; None if it may be any."""
    has_items: bool
    """Whether there are new inbox items among that."""


@runtime_checkable
class NotifyingStore(Protocol):
    """A store that tells of most writes of other processes at once."""

    def listen(self, listener: Callable[[InboxNotice], None]) -> Callable[[], None]:
        """Call a function in this event loop when another process has written; return how to end that."""
        ...


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
            ItemTooLarge: the item is.
            Rejected: the inbox of the session is full.
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
