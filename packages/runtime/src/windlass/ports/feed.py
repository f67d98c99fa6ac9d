"""Port of the feed: subscriptions, cursors, filters, overflow."""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from hashlib import sha256
from typing import Final, Protocol

from pydantic import JsonValue

from windlass.errors import AgentError, Rejected, Unavailable
from windlass.limits import SUBSCRIBER_EVENTS_MAX
from windlass.ports.store import Catalog, Journal, Timeline
from windlass_harness.views.runs import RUN_ENDS, run_id_of
from windlass_protocol import Cursor, ErrorKind, Event, PrivacyClass, Record, RetryClass
from windlass_protocol.codec import canonical

JsonObject = dict[str, JsonValue]

FILTER_VALUES_MAX: Final = 1_000
"""Values of one criterion of a filter."""

TERMINAL_TYPES: Final = frozenset(RUN_ENDS) | {"session.completed", "session.failed"}
"""Events after which nothing more comes of a run or a session; they are never dropped."""
PROGRESS_TYPES: Final = frozenset(
    {
        "message.appended",
        "reasoning.appended",
        "action.input.appended",
        "action.partial",
        "budget.reserved",
        "budget.updated",
    }
)
"""Events that a later one makes needless."""


def refused(message: str) -> Rejected:
    """Return the error of a reader who asks for what cannot be read."""
    return Rejected(message, kind=ErrorKind.PROJECTION_FAILURE, retry=RetryClass.NOT_RETRYABLE)


class CursorExpired(Rejected):
    """What comes after the cursor is no longer kept: start again without a cursor."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"cursor_expired: {message}", kind=ErrorKind.PROJECTION_FAILURE, retry=RetryClass.REPAIR_NEEDED
        )


class Overflow(StrEnum):
    """What happens when a reader with a queue is slower than its events."""

    DROP_NON_TERMINAL = "drop_non_terminal"
    """New events are dropped until there is room."""
    DROP_PROGRESS = "drop_progress"
    """Only progress is dropped; other events wait in the journal."""
    SUMMARIZE_AND_CONTINUE = "summarize_and_continue"
    """The newest event stands for those that came before it."""
    FAIL_SUBSCRIBER = "fail_subscriber"
    """The stream ends with `SubscriberLagged`."""
    BACKPRESSURE_CALLER = "backpressure_caller"
    """Refused: no reader may slow a run down."""


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """A queue for a reader that wants the present rather than everything.

    Raises:
        Rejected: no queue can be like that.
    """

    capacity: int = 64
    terminal_reserve: int = 1
    """Places that only terminal events may take."""
    overflow: Overflow = Overflow.DROP_NON_TERMINAL

    def __post_init__(self) -> None:
        if not 2 <= self.capacity <= SUBSCRIBER_EVENTS_MAX:
            raise refused(f"capacity must be 2 to {SUBSCRIBER_EVENTS_MAX:,}, found {self.capacity:,}")
        if not 1 <= self.terminal_reserve < self.capacity:
            raise refused(
                f"terminal_reserve must be 1 to {self.capacity - 1:,}, found {self.terminal_reserve:,}"
            )
        if self.overflow is Overflow.BACKPRESSURE_CALLER:
            raise refused("backpressure_caller is refused: a reader cannot slow a run down")


class OverflowReason(StrEnum):
    """Why events are missing from a stream."""

    SUBSCRIBER_QUEUE_FULL = "subscriber_queue_full"
    POLICY_DROPPED_PROGRESS = "policy_dropped_progress"
    POLICY_DROPPED_NON_TERMINAL = "policy_dropped_non_terminal"


@dataclass(frozen=True, slots=True)
class OverflowNotice:
    """Events that a reader with a queue did not get.

    The gap is in numbers of the scope: `seq` of a session or run, `position` of anything wider.
    """

    policy: Overflow
    reason: OverflowReason
    dropped: int
    gap_start: int
    gap_end: int
    terminal_preserved: bool = True


class SubscriberLagged(Unavailable):
    """The reader was too slow for its queue: subscribe again with the last cursor."""

    def __init__(self, notice: OverflowNotice) -> None:
        super().__init__(
            f"the subscriber fell behind: {notice.dropped:,} events did not fit its queue",
            kind=ErrorKind.PROJECTION_FAILURE,
            retry=RetryClass.RETRYABLE,
        )
        self.notice = notice


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream is read."""

    follow: bool = True
    """False ends the stream where the journal ends when it is opened; there are no deltas then."""
    with_live: bool = True
    """Whether deltas of answers that are being written are shown."""
    queue: QueueOptions | None = None
    """None never drops a record: whoever is slow is caught up from the journal."""


DEFAULT_OPTIONS: Final = StreamOptions()


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events a reader wants; a criterion that is None lets everything through.

    A value that an event does not have matches no criterion.
    """

    run_ids: Collection[str] | None = None
    session_ids: Collection[str] | None = None
    agent_ids: Collection[str] | None = None
    turn_ids: Collection[str] | None = None
    families: Collection[str] | None = None
    """First words of event types."""
    types: Collection[str] | None = None
    privacy_classes: Collection[PrivacyClass] | None = None
    terminal_only: bool = False

    def compile(self) -> "CompiledEventFilter":
        """Return the filter, checked and with its fingerprint.

        Raises:
            Rejected: a criterion is empty, too long, or one text instead of several.
        """
        given = {
            one.name: _checked(one.name, getattr(self, one.name))
            for one in fields(self)
            if one.name != "terminal_only" and getattr(self, one.name) is not None
        }
        # How a stream is delivered is not in here: tuning a queue must not make a cursor useless.
        body: JsonObject = {name: list[JsonValue](sorted(values)) for name, values in given.items()}
        if self.terminal_only:
            body["terminal_only"] = True
        digest = sha256(canonical(body)).hexdigest()
        return CompiledEventFilter(f"sha256:{digest}", tuple(given.items()), self.terminal_only)


def _checked(name: str, values: Collection[str]) -> frozenset[str]:
    if isinstance(values, str):
        raise refused(f"{name} must be several texts, found one")
    if not 1 <= len(values) <= FILTER_VALUES_MAX:
        raise refused(f"{name} must have 1 to {FILTER_VALUES_MAX:,} values, found {len(values):,}")
    return frozenset(values)


@dataclass(frozen=True, slots=True)
class CompiledEventFilter:
    """A filter that is ready; equal criteria have the same fingerprint."""

    fingerprint: str
    criteria: tuple[tuple[str, frozenset[str]], ...]
    terminal_only: bool

    def matches(self, event_type: str, record: Record) -> bool:
        """Return whether events of a type about the things of a record are let through.

        For a live delta the record is the start of its step.
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
        case "turn_ids":
            return turn_id_of(record)
        case _:
            return record.privacy


def turn_id_of(record: Record) -> str | None:
    """Return the turn of a record; records about a turn name it in their data."""
    turn_id = record.turn_id or record.data.get("turnId")
    return turn_id if isinstance(turn_id, str) else None


class LiveAnswer(Protocol):
    """A step while it goes on: what it shows here is never stored.

    Every method returns at once and costs next to nothing when nobody watches. Calls after `close`, and empty
    texts, do nothing.
    """

    def text(self, delta: str) -> None:
        """Show a piece of the answer."""
        ...

    def reasoning(self, delta: str) -> None:
        """Show a piece of the reasoning."""
        ...

    def tool_input(self, call_id: str, delta: str, *, tool_name: str | None = None) -> None:
        """Show a piece of the arguments of a call."""
        ...

    def partial(self, call_id: str, output: JsonValue, *, tool_name: str | None = None) -> None:
        """Show how far a running call is; only the newest counts, until its result."""
        ...

    def show(self, event_type: str, data: JsonObject) -> None:
        """Show anything else; only the newest of its type is kept."""
        ...

    def close(self) -> None:
        """Forget the step; the end of its turn does the same."""
        ...


class EventStream(Protocol):
    """Events for one reader. Only one task may read it."""

    def __aiter__(self) -> AsyncIterator[Event]:
        """Return the stream itself."""
        ...

    async def __anext__(self) -> Event:
        """Return the next event; wait for it if there is none.

        An error of the store ends nothing: ask again, and the stream goes on where it was.

        Raises:
            CursorExpired: the reader was so slow that what comes next is no longer kept.
            SubscriberLagged: its queue was full, and the policy is to fail.
            Unavailable: nothing more will come: the runtime was closed, or its store takes nothing more.
        """
        ...

    @property
    def cursor(self) -> Cursor:
        """Where the reader stands: a later stream from here goes on without gap or repeat."""
        ...

    @property
    def ready(self) -> int:
        """How many events can be had without waiting, for those who send several at once.

        There may be more than it says.
        """
        ...

    async def open(self) -> None:
        """Check the cursor before the first event is asked for, if not done already.

        Raises:
            CursorExpired: what comes after the cursor is no longer kept.
            Rejected: no record is at the cursor yet.
            Conflict: nobody started such a run.
        """
        ...

    async def aclose(self) -> None:
        """End the stream; a stream that is merely forgotten leaves nothing behind either."""
        ...


class FeedStore(Journal, Catalog, Timeline, Protocol):
    """What a feed reads."""


class EventBus(Protocol):
    """Records and live deltas, to those who watch.

    Used from one event loop. A stream shows what is stored after its cursor and then goes on with what is
    published, without gap or repeat, whatever the moment of joining. All `subscribe` methods raise `Rejected`
    at once for a cursor of another scope, session, run, agent or filter.
    """

    def publish(self, records: Sequence[Record]) -> None:
        """Show the records of one durable append; those of a session in their order."""
        ...

    def live(self, started: Record) -> LiveAnswer:
        """Begin to show a step.

        `started` is the published record that began it. Another attempt at the step needs another record: a
        reader that comes back counts the deltas behind that record.
        """
        ...

    def notify(self) -> None:
        """Make all readers look at the journal again: others may have written to it."""
        ...

    def end(self, error: AgentError) -> None:
        """Tell whoever waits for more, now or later, that nothing more will come."""
        ...

    def subscribe_all(
        self, cursor: Cursor | None = None, *, options: StreamOptions = DEFAULT_OPTIONS
    ) -> EventStream:
        """Watch everything, in the order of `position`."""
        ...

    def subscribe_session(
        self, session_id: str, cursor: Cursor | None = None, *, options: StreamOptions = DEFAULT_OPTIONS
    ) -> EventStream:
        """Watch a session, which need not exist yet."""
        ...

    def subscribe_run(
        self,
        run_id: str,
        cursor: Cursor | None = None,
        *,
        options: StreamOptions = DEFAULT_OPTIONS,
        until_terminal: bool = False,
    ) -> EventStream:
        """Watch a run; `until_terminal` ends the stream after the event that ends the run."""
        ...

    def subscribe_agent(
        self, agent_id: str, cursor: Cursor | None = None, *, options: StreamOptions = DEFAULT_OPTIONS
    ) -> EventStream:
        """Watch all runs of an agent."""
        ...

    def subscribe_filtered(
        self,
        event_filter: CompiledEventFilter,
        cursor: Cursor | None = None,
        *,
        options: StreamOptions = DEFAULT_OPTIONS,
    ) -> EventStream:
        """Watch what a filter lets through."""
        ...

    def replay_run_from_cursor(self, run_id: str, cursor: Cursor | None = None) -> EventStream:
        """Return what is stored of a run after the cursor, up to now."""
        ...

    async def terminal_event(self, run_id: str) -> Event:
        """Return the event that ends a run, once it has ended.

        Raises:
            Conflict: nobody started such a run.
        """
        ...

    async def latest_terminal_event(self, run_id: str) -> Event | None:
        """Return the event that ended a run; None while it goes on.

        Raises:
            Conflict: nobody started such a run.
        """
        ...
