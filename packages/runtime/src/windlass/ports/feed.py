"""Port of the feed: subscriptions, cursors, filters, overflow."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import fields
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from pydantic import JsonValue

from windlass.errors import CLOSE_NAMES_MAX, NAME_CHARS_MAX, AgentError, Rejected, Unavailable, near_names
from windlass.limits import SUBSCRIBER_EVENTS_MAX
from windlass.ports.catalog import Catalog, RunRow
from windlass.ports.journal import Journal, Timeline
from windlass_harness.record import Record
from windlass_harness.views.runs import RUN_ENDS, run_id_of
from windlass_protocol import Cursor, ErrorKind, Event, JsonObject, RetryClass
from windlass_protocol.codec import canonical
from windlass_protocol.codec_errors import printable
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import events

if TYPE_CHECKING:
    from windlass_protocol.generated.values import EventFamilyValue, EventTypeValue

FILTER_VALUES_MAX: Final = 1_000
"""Values of one criterion of a filter."""

TERMINAL_TYPES: Final = frozenset(RUN_ENDS) | {"session.completed", "session.failed"}
"""Terminal events: the last ones of a run or a session. They are never dropped."""
PROGRESS_TYPES: Final = frozenset(
    {
        "message.appended",
        "reasoning.appended",
        "action.input.appended",
        "action.partial",
        "step.queued",
        "budget.reserved",
        "budget.updated",
    }
)
"""Events that a later event supersedes."""


def bad_subscription(message: str) -> Rejected:
    """Return the error for an invalid subscription."""
    return Rejected(message, kind=ErrorKind.PROJECTION_FAILURE, retry=RetryClass.NOT_RETRYABLE)


class CursorExpired(Rejected):
    """The events after the cursor are no longer stored: subscribe again without a cursor."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"cursor_expired: {message}", kind=ErrorKind.PROJECTION_FAILURE, retry=RetryClass.REPAIR_NEEDED
        )


class Overflow(StrEnum):
    """The policy for a queue that is full."""

    DROP_NON_TERMINAL = "drop_non_terminal"
    """New events are dropped until there is room."""
    DROP_PROGRESS = "drop_progress"
    """Only progress is dropped; other events wait in the journal."""
    SUMMARIZE_AND_CONTINUE = "summarize_and_continue"
    """The newest event replaces the queued ones."""
    FAIL_SUBSCRIBER = "fail_subscriber"
    """The stream ends with `SubscriberLagged`."""
    BACKPRESSURE_CALLER = "backpressure_caller"
    """Refused: a subscriber must not slow a run down."""


@sealed
class QueueOptions:
    """A queue for a subscriber that prefers current events to complete ones.

    Raises:
        Rejected: an option is not valid.
    """

    capacity: int = 64
    terminal_reserve: int = 1
    """Places reserved for terminal events."""
    overflow: Overflow = Overflow.DROP_NON_TERMINAL

    def __post_init__(self) -> None:
        if not 2 <= self.capacity <= SUBSCRIBER_EVENTS_MAX:
            raise bad_subscription(
                f"capacity must be 2 to {SUBSCRIBER_EVENTS_MAX:,}, found {self.capacity:,}"
            )
        if not 1 <= self.terminal_reserve < self.capacity:
            raise bad_subscription(
                f"terminal_reserve must be 1 to {self.capacity - 1:,}, found {self.terminal_reserve:,}"
            )
        if self.overflow is Overflow.BACKPRESSURE_CALLER:
            raise bad_subscription(
                "backpressure_caller is not supported: a subscriber must not slow a run down"
            )


class OverflowReason(StrEnum):
    """Why events are missing from a stream."""

    SUBSCRIBER_QUEUE_FULL = "subscriber_queue_full"
    POLICY_DROPPED_PROGRESS = "policy_dropped_progress"
    POLICY_DROPPED_NON_TERMINAL = "policy_dropped_non_terminal"


@sealed
class OverflowNotice:
    """Events that a queue dropped.

    The gap is in the numbers of the scope: `seq` for a session or run, `position` for any wider scope.
    """

    policy: Overflow
    reason: OverflowReason
    dropped: int
    gap_start: int
    gap_end: int
    terminal_preserved: bool = True


class SubscriberLagged(Unavailable):
    """The queue of the subscriber overflowed: subscribe again with the last cursor."""

    def __init__(self, notice: OverflowNotice) -> None:
        super().__init__(
            f"the subscriber fell behind: {notice.dropped:,} events did not fit its queue",
            kind=ErrorKind.PROJECTION_FAILURE,
            retry=RetryClass.RETRYABLE,
        )
        self.notice = notice


@sealed
class StreamOptions:
    """Options of a subscription."""

    follow: bool = True
    """False ends the stream at the end of the journal as of opening; no deltas are shown then."""
    with_live: bool = True
    """Whether deltas of unfinished answers are shown."""
    queue: QueueOptions | None = None
    """None never drops a record: a slow subscriber reads from the journal."""
    live_pause_s: float = 0.0
    """The least time between two looks at live deltas: those that arrive in between are joined.

    A record does not wait, and the deltas that it replaces are shown before it.
    """


DEFAULT_OPTIONS: Final = StreamOptions()


class UnknownEvent(str):
    """A type or a family of events that this version does not know, such as one of a newer version."""

    __slots__ = ()


def check_event_names(name: str, values: Iterable[str]) -> None:
    """Check the values of the criterion `types` or `families`.

    Raises:
        Rejected: this version has no such event, and the value is no `UnknownEvent`.
    """
    types = events.EVENT_DATA
    names = types.keys() if name == "types" else {kind.partition(".")[0] for kind in types}
    unknown = sorted(value for value in values if value not in names and not isinstance(value, UnknownEvent))
    if unknown:
        listed = ", ".join(printable(value, NAME_CHARS_MAX) for value in unknown[:CLOSE_NAMES_MAX])
        hint = near_names(unknown, sorted(names))
        raise bad_subscription(
            f"{name}: this version has no event {listed}{hint or '; docs/events.md lists the events'}"
        )


@sealed
class EventFilter:
    """Criteria for events; None matches every event.

    An event without a value does not match the criterion for that value.
    """

    run_ids: Collection[str] | None = None
    session_ids: Collection[str] | None = None
    agent_ids: Collection[str] | None = None
    turn_ids: Collection[str] | None = None
    families: "Collection[EventFamilyValue | UnknownEvent] | None" = None
    """Prefixes of event types."""
    types: "Collection[EventTypeValue | UnknownEvent] | None" = None
    terminal_only: bool = False

    def compile(self) -> "CompiledEventFilter":
        """Return the filter, checked and with its fingerprint.

        Raises:
            Rejected: a criterion is empty, too long, a single string instead of a collection, or names an
                event that this version does not have; `UnknownEvent("…")` names one of another version.
        """
        criteria = {
            part.name: _check(part.name, getattr(self, part.name))
            for part in fields(self)
            if part.name != "terminal_only" and getattr(self, part.name) is not None
        }
        # Delivery options are not part of the fingerprint: changing a queue must not invalidate a cursor.
        body: JsonObject = {name: list[JsonValue](sorted(values)) for name, values in criteria.items()}
        if self.terminal_only:
            body["terminal_only"] = True
        digest = sha256(canonical(body)).hexdigest()
        return CompiledEventFilter(f"sha256:{digest}", tuple(criteria.items()), self.terminal_only)


def _check(name: str, values: Collection[str]) -> frozenset[str]:
    if isinstance(values, str):
        raise bad_subscription(f"{name} must be a collection of strings, found a single string")
    if not 1 <= len(values) <= FILTER_VALUES_MAX:
        raise bad_subscription(f"{name} must have 1 to {FILTER_VALUES_MAX:,} values, found {len(values):,}")
    if name in ("types", "families"):
        check_event_names(name, values)
    return frozenset(values)


@sealed
class CompiledEventFilter:
    """A checked filter; equal criteria have equal fingerprints."""

    fingerprint: str
    criteria: tuple[tuple[str, frozenset[str]], ...]
    terminal_only: bool

    def matches(self, event_type: str, record: Record) -> bool:
        """Return whether the filter matches events of a type that belong to a record.

        For a live delta, the record is the one that started its step.
        """
        if self.terminal_only and event_type not in TERMINAL_TYPES:
            return False
        return all(_value(name, event_type, record) in values for name, values in self.criteria)


def _value(name: str, event_type: str, record: Record) -> str | None:
    match name:
        case "types":
            return event_type
        case "families":
            return event_type.partition(".")[0]
        case "session_ids":
            return record.session_id
        case "run_ids":
            return run_id_of(record)
        case "agent_ids":
            return record.agent_id
        case _:
            return turn_id_of(record)


def turn_id_of(record: Record) -> str | None:
    """Return the turn of a record; records about a turn hold its id in their data."""
    turn_id = record.turn_id or record.data.get("turnId")
    return turn_id if isinstance(turn_id, str) else None


class LiveAnswer(Protocol):
    """Live deltas of a running step; they are never stored.

    Every method returns at once and costs next to nothing without subscribers. Calls after `close`, and empty
    texts, do nothing.
    """

    def text(self, delta: str) -> None:
        """Publish a delta of the answer."""
        ...

    def reasoning(self, delta: str) -> None:
        """Publish a delta of the reasoning."""
        ...

    def tool_input(self, call_id: str, delta: str, *, tool_name: str | None = None) -> None:
        """Publish a delta of the arguments of a call."""
        ...

    def partial(self, call_id: str, output: JsonValue, *, tool_name: str | None = None) -> None:
        """Publish the partial output of a running call; the newest replaces the others, until the result."""
        ...

    def show(self, event_type: str, data: JsonObject) -> None:
        """Publish any other event; only the newest of its type is kept."""
        ...

    def close(self) -> None:
        """Discard the deltas of the step; the end of its turn does the same."""
        ...


class EventStream(Protocol):
    """Events for one subscriber. Only one task may read it."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def __anext__(self) -> Event:
        """Return the next event; wait if there is none.

        An error of the store does not end the stream: call again to continue.

        Raises:
            CursorExpired: the subscriber was so slow that the next events are no longer stored.
            SubscriberLagged: the queue overflowed, and the policy is to fail.
            Unavailable: the stream has ended: the runtime was closed, or its store accepts no more records.
        """
        ...

    @property
    def cursor(self) -> Cursor:
        """The position of the subscriber: a later stream from here continues without gap or repeat."""
        ...

    @property
    def ready(self) -> int:
        """A lower bound of the events that can be read without waiting."""
        ...

    async def open(self) -> None:
        """Check the cursor and read the first events that are stored, if not done already.

        Raises:
            CursorExpired: the events after the cursor are no longer stored.
            Rejected: the cursor is past the end of the journal.
            Conflict: the run does not exist.
        """
        ...

    async def aclose(self) -> None:
        """End the stream. A stream that is dropped without this call leaks nothing."""
        ...


class FeedStore(Journal, Catalog, Timeline, Protocol):
    """The parts of the store that a feed reads."""


MESSAGE_BYTES_MAX: Final = 7_900
"""Bytes of a message between processes, as a JSON text; larger ones may be dropped."""


class MessageChannel(Protocol):
    """Short messages between the processes of a store, any of which may be lost."""

    @property
    def address(self) -> str:
        """The address of this process among those of the store."""
        ...

    def send(self, message: str, *, to: str | None = None) -> None:
        """Send a message to a process, or to all others; never blocks, and drops it if there are too many."""
        ...

    def close(self) -> None:
        """Receive nothing more."""
        ...


@runtime_checkable
class MessagingStore(Protocol):
    """A store that carries messages between its processes."""

    def open_channel(self, listener: Callable[[str], None]) -> MessageChannel:
        """Call a function in this event loop with each message for this process, or for all."""
        ...


class EventBus(Protocol):
    """Delivers records and live deltas to subscribers.

    Used from one event loop. A stream shows the stored records after its cursor and then the published ones,
    without gap or repeat. All `subscribe` methods raise `Rejected` at once for a cursor of another scope,
    session, run, agent or filter.
    """

    def publish(self, records: Sequence[Record]) -> None:
        """Deliver the records of one durable append; those of a session must come in order."""
        ...

    def live(self, started: Record) -> LiveAnswer:
        """Start the live deltas of a step.

        `started` is the published record that started the step. Another attempt at the step needs another
        record: a subscriber that reconnects counts the deltas after that record.
        """
        ...

    def notify(self, sessions: Collection[str] | None = None) -> None:
        """Make streams read the journal again: another process may have written to it.

        With `sessions`, only the streams of these and those over several sessions.
        """
        ...

    def end(self, error: AgentError) -> None:
        """End all streams, present and future, with an error once they reach the end of the journal."""
        ...

    def subscribe_all(
        self, cursor: Cursor | None = None, *, options: StreamOptions = DEFAULT_OPTIONS
    ) -> EventStream:
        """Subscribe to all records, in the order of `position`."""
        ...

    def subscribe_session(
        self, session_id: str, cursor: Cursor | None = None, *, options: StreamOptions = DEFAULT_OPTIONS
    ) -> EventStream:
        """Subscribe to a session, which need not exist yet."""
        ...

    def subscribe_run(
        self,
        run_id: str,
        cursor: Cursor | None = None,
        *,
        options: StreamOptions = DEFAULT_OPTIONS,
        until_terminal: bool = False,
        row: RunRow | None = None,
    ) -> EventStream:
        """Subscribe to a run; `until_terminal` ends the stream after the terminal event of the run.

        `row` is the run, read after the cursor was known; without one the stream reads it.
        """
        ...

    def subscribe_agent(
        self, agent_id: str, cursor: Cursor | None = None, *, options: StreamOptions = DEFAULT_OPTIONS
    ) -> EventStream:
        """Subscribe to all runs of an agent."""
        ...

    def subscribe_filtered(
        self,
        event_filter: CompiledEventFilter,
        cursor: Cursor | None = None,
        *,
        options: StreamOptions = DEFAULT_OPTIONS,
    ) -> EventStream:
        """Subscribe to the events that match a filter."""
        ...

    def replay_run_from_cursor(self, run_id: str, cursor: Cursor | None = None) -> EventStream:
        """Return the stored events of a run after the cursor, up to now."""
        ...

    async def terminal_event(self, run_id: str) -> Event:
        """Return the terminal event of a run; wait until the run has ended.

        Raises:
            Conflict: the run does not exist.
        """
        ...

    async def latest_terminal_event(self, run_id: str) -> Event | None:
        """Return the terminal event of a run; None while it is unfinished.

        Raises:
            Conflict: the run does not exist.
        """
        ...
