"""Feed: the event bus of one process, over the journal of its store."""

from asyncio import Future, get_running_loop
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import takewhile
from typing import Final
from weakref import ReferenceType, ref

from windlass.errors import AgentError, kind_of
from windlass.feed.cursors import EVENTS_PER_READ, id_cursor
from windlass.feed.live import LiveStep, PublishedRecord, StepDeltas, weight
from windlass.feed.overflow import QueuedSubscription
from windlass.feed.pauses import LivePause, LivePauses
from windlass.feed.relay import LiveRelay
from windlass.feed.subscription import (
    EVERYTHING,
    Floor,
    RecordFilter,
    RecordSequence,
    RunRecords,
    SessionRecords,
    StoreRecords,
    Subscription,
    Topic,
    ends_step,
    find_run,
    replaces_deltas,
)
from windlass.limits import SUBSCRIBER_EVENTS_MAX
from windlass.ports.catalog import RunRow
from windlass.ports.clock import Clock
from windlass.ports.feed import (
    DEFAULT_OPTIONS,
    CompiledEventFilter,
    EventStream,
    FeedStore,
    MessagingStore,
    StreamOptions,
    bad_subscription,
)
from windlass_harness.record import Record, to_event
from windlass_harness.views.runs import RUN_ENDS, run_id_of
from windlass_protocol import AgentCursor, AllCursor, Cursor, Event, FilterCursor, RunCursor, SessionCursor
from windlass_protocol.generated.records import ActionResult

_STORED: Final = StreamOptions(follow=False, with_live=False)
_NEWEST_RECORDS: Final = 16
DOUBTED_AT_ONCE: Final = 16
"""Topics whose readers read the journal again in one turn of the event loop."""


class Feed:
    """Publishes records and live deltas to any number of readers; see `EventBus`.

    A reader is a cursor over the journal. The feed keeps only the newest events, for readers that are at the
    end, and the texts of answers in progress.
    """

    def __init__(
        self,
        store: FeedStore,
        clock: Clock,
        *,
        floor: Floor | None = None,
        events_max: int = SUBSCRIBER_EVENTS_MAX,
    ) -> None:
        self._store = store
        self._clock = clock
        self._pauses = LivePauses(clock)
        self._floor = floor
        self._events_max = events_max
        self._topics: dict[str, ReferenceType[Topic]] = {}
        self._live: OrderedDict[str, LiveStep] = OrderedDict()
        """Open step of each session, in order of their last delta."""
        self._ends: dict[str, set[Future[Event | None]]] = {}
        """Futures of callers that wait for the end of a run; None makes them look again."""
        self._end_sessions: dict[str, str] = {}
        """The sessions of these runs, once they are known."""
        self._relay = (
            LiveRelay(self, store, post=store, clock=clock) if isinstance(store, MessagingStore) else None
        )
        """Shares live deltas with the other processes of the store."""
        self.stamp = 0
        self.failure: AgentError | None = None
        """The error that ended the feed; None while it is open."""

    # Called by the engine.

    def publish(self, records: Sequence[Record]) -> None:
        """Publish the records of one append, which must be durable."""
        if not records:
            return
        if self._ends:
            self._end(records)
        session_id = records[0].session_id
        tails = self._settle(session_id, records) if session_id in self._live else ()
        if not self._topics:
            return
        shown: list[PublishedRecord] | None = None
        for key, first in ((session_id, records[0].seq), (EVERYTHING, records[0].position)):
            topic = self._topic_of(key)
            if topic is None:
                continue
            shown = shown or [
                PublishedRecord(record, to_event(record), weight(record.data)) for record in records
            ]
            for seq, pieces in tails:
                topic.add_tail((session_id, seq), pieces)
            if first is None:
                topic.doubt()
            else:
                topic.add(shown, first=first)

    def live(self, started: Record) -> LiveStep:
        """Open a step for live deltas; the previous step of the session is closed."""
        if self._relay is not None:
            self._relay.open()
        return self._open(LiveStep(started, on_change=self._stir, on_close=self._close))

    def notify(self, sessions: Collection[str] | None = None) -> None:
        """Make readers of sessions read the journal again, and those of everything; None: every reader.

        Readers of many topics begin in several turns of the event loop.
        """
        keys = tuple(self._topics) if sessions is None else (*sessions, EVERYTHING)
        ends = [(run_id, self._end_sessions.get(run_id)) for run_id in self._ends]
        run_ids = [run_id for run_id, name in ends if sessions is None or name is None or name in sessions]
        self._doubt(keys, run_ids)

    def end(self, error: AgentError) -> None:
        """End all streams and waits with an error."""
        self.failure = error
        if self._relay is not None:
            self._relay.close()
        self.notify()

    # Called by readers.

    def subscribe_all(
        self, cursor: Cursor | None = None, *, options: StreamOptions = DEFAULT_OPTIONS
    ) -> EventStream:
        """Subscribe to all events, in the order of `position`."""
        line = StoreRecords(self._store, floor=self._floor)
        return self._stream(line, cursor, start=AllCursor(position=0), options=options)

    def subscribe_session(
        self, session_id: str, cursor: Cursor | None = None, *, options: StreamOptions = DEFAULT_OPTIONS
    ) -> EventStream:
        """Subscribe to a session, which need not exist yet."""
        start = id_cursor(lambda name: SessionCursor(session_id=name, seq=0), session_id)
        line = SessionRecords(self._store, session_id)
        return self._stream(line, cursor, start=start, options=options)

    def subscribe_run(
        self,
        run_id: str,
        cursor: Cursor | None = None,
        *,
        options: StreamOptions = DEFAULT_OPTIONS,
        until_terminal: bool = False,
        row: RunRow | None = None,
    ) -> EventStream:
        """Subscribe to a run; `until_terminal` ends the stream after the terminal event."""
        start = id_cursor(lambda name: RunCursor(run_id=name, seq=0), run_id)
        chosen = RecordFilter(partial(_of_run, run_id))
        line = RunRecords(self._store, run_id, chosen=chosen, until_terminal=until_terminal, row=row)
        return self._stream(line, cursor, start=start, options=options, until_terminal=until_terminal)

    def subscribe_agent(
        self, agent_id: str, cursor: Cursor | None = None, *, options: StreamOptions = DEFAULT_OPTIONS
    ) -> EventStream:
        """Subscribe to all runs of an agent."""
        start = id_cursor(lambda name: AgentCursor(agent_id=name, position=0), agent_id)
        chosen = RecordFilter(partial(_of_agent, agent_id))
        line = StoreRecords(self._store, chosen=chosen, floor=self._floor)
        return self._stream(line, cursor, start=start, options=options)

    def subscribe_filtered(
        self,
        event_filter: CompiledEventFilter,
        cursor: Cursor | None = None,
        *,
        options: StreamOptions = DEFAULT_OPTIONS,
    ) -> EventStream:
        """Subscribe to the events that a filter accepts."""
        start = FilterCursor(fingerprint=event_filter.fingerprint, position=0)
        chosen = RecordFilter(event_filter.matches, is_by_type=True)
        line = StoreRecords(self._store, chosen=chosen, floor=self._floor)
        return self._stream(line, cursor, start=start, options=options)

    def replay_run_from_cursor(self, run_id: str, cursor: Cursor | None = None) -> EventStream:
        """Return the stored events of a run after the cursor, up to now."""
        return self.subscribe_run(run_id, cursor, options=_STORED)

    async def terminal_event(self, run_id: str) -> Event:
        """Wait for the end of a run and return its terminal event."""
        while True:
            end: Future[Event | None] = get_running_loop().create_future()
            # Register first, so that an end during the read is not missed.
            self._ends.setdefault(run_id, set()).add(end)
            try:
                event = await self.latest_terminal_event(run_id)
                if event is None and self.failure is not None:
                    raise self.failure.with_traceback(None)
                event = event or await end
            finally:
                self._forget_end(run_id, end)
            if event is not None:
                return event

    async def latest_terminal_event(self, run_id: str) -> Event | None:
        """Return the terminal event of a run; None while it is running."""
        run = await find_run(self._store, run_id)
        if run.status not in RUN_ENDS.values():
            if run_id in self._ends:
                self._end_sessions[run_id] = run.session_id
            return None
        first, session = max(run.first_seq - 1, 0), await self._store.session(run.session_id)
        # Usually it is the newest run of its session and ended a few records ago.
        newest = first if session is None else max(first, session.last_seq - _NEWEST_RECORDS)
        for after in (newest, first):
            event = await self._find_end(run, after)
            if event is not None:
                return event
        return None

    async def _find_end(self, run: RunRow, after: int) -> Event | None:
        while records := await self._store.read(run.session_id, after=after, limit=EVENTS_PER_READ):
            for record in records:
                if record.type in RUN_ENDS and run_id_of(record) == run.run_id:
                    return to_event(record)
            after = records[-1].seq
        return None

    # Called by subscriptions and live steps.

    def topic(self, key: str) -> Topic:
        """Return the topic of a key; only its readers keep it alive."""
        topic = self._topic_of(key)
        if topic is None:
            topic = Topic(self._events_max)
            self._topics[key] = ref(topic, partial(self._forget, key))
        return topic

    def release(self, key: str, topic: Topic) -> None:
        """Drop a topic after its last reader left."""
        # A reader that is garbage-collected with its topic leaves after the topic was dropped.
        if topic.is_empty and self._topic_of(key) is topic:
            del self._topics[key]

    def open_step(self, session_id: str) -> LiveStep | None:
        """Return the step of a session that is open for deltas."""
        return self._live.get(session_id)

    def watch(self, key: str) -> None:
        """Have the deltas of a topic sent by the processes that drive its sessions."""
        if self._relay is not None and self.failure is None:
            self._relay.watch(key)

    def live_steps(self, key: str, stamp: int) -> Iterable[LiveStep]:
        """Return the open steps of a topic with deltas after the stamp."""
        if key != EVERYTHING:
            step = self.open_step(key)
            return () if step is None else (step,)
        return takewhile(lambda step: step.stamp > stamp, reversed(self._live.values()))

    # Called by the relay.

    def keys_with_readers(self) -> Iterable[str]:
        """Return the topics with readers of live deltas."""
        return [key for key, topic in self._topics_now() if topic.has_live_readers]

    def is_watched(self, session_id: str) -> bool:
        """Whether a session has readers of live deltas."""
        topics = (self._topic_of(session_id), self._topic_of(EVERYTHING))
        return any(topic is not None and topic.has_live_readers for topic in topics)

    def open_steps(self) -> Iterable[LiveStep]:
        """Return all steps that are open for deltas."""
        return self._live.values()

    def follow_step(self, started: Record) -> LiveStep:
        """Open a step that another process drives."""
        return self._open(LiveStep(started, on_change=self._stir, on_close=self._close, is_followed=True))

    def now(self) -> str:
        """Return the current time, as the timestamp of deltas."""
        return f"{self._clock.now().replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"

    def pause(self, seconds: float) -> LivePause:
        """Begin a pause of at least that many seconds."""
        return self._pauses.begin(seconds)

    @property
    def topic_count(self) -> int:
        """Number of topics: sessions with readers, plus one if anyone reads all events."""
        return len(self._topics)

    def _stream(
        self,
        line: RecordSequence,
        cursor: Cursor | None,
        *,
        start: Cursor,
        options: StreamOptions,
        until_terminal: bool = False,
    ) -> EventStream:
        if cursor is not None:
            _check_scope(cursor, start)
        inner = Subscription(
            self, line, cursor=cursor, start=start, options=options, until_terminal=until_terminal
        )
        return inner if options.queue is None else QueuedSubscription(inner, options.queue)

    def _topic_of(self, key: str) -> Topic | None:
        reference = self._topics.get(key)
        return None if reference is None else reference()

    def _forget(self, key: str, gone: "ReferenceType[Topic]") -> None:
        # Called only for a reference that is still in the dictionary.
        del self._topics[key]

    def _open(self, step: LiveStep) -> LiveStep:
        session_id = step.started.session_id
        before = self._live.get(session_id)
        if before is not None:
            before.close()
        step.stamp = self.stamp
        self._live[session_id] = step
        return step

    def _topics_now(self) -> Iterable[tuple[str, Topic]]:
        for key in tuple(self._topics):
            topic = self._topic_of(key)
            if topic is not None:
                yield key, topic

    def _doubt(self, keys: Sequence[str], run_ids: Sequence[str]) -> None:
        """Make some readers of topics, and callers that wait for runs, look again; others in later turns."""
        for key in keys[:DOUBTED_AT_ONCE]:
            topic = self._topic_of(key)
            if topic is not None:
                topic.doubt()
        for run_id in run_ids[:DOUBTED_AT_ONCE]:
            if run_id in self._ends:
                self._tell(run_id, None)
        keys, run_ids = keys[DOUBTED_AT_ONCE:], run_ids[DOUBTED_AT_ONCE:]
        if keys or run_ids:
            get_running_loop().call_soon(self._doubt, keys, run_ids)

    def _stir(self, step: LiveStep) -> None:
        """Wake the readers of a step that has a new delta."""
        if self._relay is not None and not step.is_followed:
            self._relay.note_change(step)
        if not self._topics:
            return
        session_id = step.started.session_id
        topic = self._topic_of(session_id)
        if topic is not None:
            topic.stir()
        everything = self._topic_of(EVERYTHING)
        if everything is not None:
            self.stamp = step.stamp = self.stamp + 1
            self._live.move_to_end(session_id)
            everything.stir()

    def _close(self, step: LiveStep) -> None:
        session_id = step.started.session_id
        if self._live.get(session_id) is step:
            del self._live[session_id]

    def _end(self, records: Sequence[Record]) -> None:
        for record in records:
            if record.type in RUN_ENDS:
                run_id = run_id_of(record)
                if run_id in self._ends:
                    self._tell(run_id, to_event(record))

    def _tell(self, run_id: str, event: Event | None) -> None:
        for end in self._ends.pop(run_id):
            if not end.done():
                end.set_result(event)

    def _forget_end(self, run_id: str, end: "Future[Event | None]") -> None:
        waiting = self._ends.get(run_id, set())
        waiting.discard(end)
        if not waiting:
            self._ends.pop(run_id, None)
            self._end_sessions.pop(run_id, None)

    def _settle(self, session_id: str, records: Sequence[Record]) -> Iterable[tuple[int, StepDeltas]]:
        """Drop the deltas that records replace; return the deltas to show before a record."""
        step = self._live[session_id]
        tails: list[tuple[int, StepDeltas]] = []
        for record in records:
            pieces = step.pieces
            if record.seq <= step.started.seq or pieces is None:
                continue
            if record.type == ActionResult.TYPE:
                pieces.forget("action.partial", _call_id(record))
            elif replaces_deltas(record):
                if pieces.next_index > pieces.base:
                    pieces.follow(record.seq - 1)
                    tails.append((record.seq, pieces))
                    step.pieces = StepDeltas(step.started, pieces.next_index)
                if ends_step(record):
                    step.close()
        if step.pieces is not None:
            step.pieces.follow(records[-1].seq)
        return tails


def _of_run(run_id: str, event_type: str, record: Record) -> bool:
    return run_id_of(record) == run_id


def _of_agent(agent_id: str, event_type: str, record: Record) -> bool:
    return record.agent_id == agent_id


def _call_id(record: Record) -> str:
    result = record.data.get("result")
    call_id = result.get("callId") if isinstance(result, dict) else None
    return call_id if isinstance(call_id, str) else ""


def _check_scope(cursor: Cursor, start: Cursor) -> None:
    """Refuse a cursor of another stream."""
    scope = getattr(cursor, "scope", None)
    if scope is None:
        raise bad_subscription(f"not a cursor: expected the cursor of a stream, found {kind_of(cursor)}")
    if scope != start.scope:
        raise bad_subscription(f"cursor of another scope: expected {start.scope}, found {scope}")
    for name in ("session_id", "run_id", "agent_id", "fingerprint"):
        if getattr(cursor, name, None) != getattr(start, name, None):
            raise bad_subscription(f"cursor of another {start.scope}: expected the cursor of this one")
