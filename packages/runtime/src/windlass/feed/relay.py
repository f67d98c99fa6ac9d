"""Relay: carries live deltas from the process that drives a session to the processes that have readers of it.

A process with a reader asks the others for a session, again from time to time, and once more when it missed
something. The process that drives the session sends the text so far, and then what is new, joined over
`FLUSH_S`. Deltas have the same indexes everywhere, so a reader may go on at another process. A message that
is lost costs deltas, never records: the record of an answer holds its whole text.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from msgspec import MsgspecError, Struct, json

from windlass.errors import AgentError
from windlass.feed.live import LiveStep, SentPiece, StepUpdate
from windlass.ports.clock import IDLE, Clock, begin_task
from windlass.ports.feed import MESSAGE_BYTES_MAX, FeedStore, MessageChannel, MessagingStore
from windlass_harness.record import Record

T = TypeVar("T")

FLUSH_S: Final = 0.025
"""Deltas of this time share a message; the first one is sent at once."""
RENEW_S: Final = 10.0
"""How often a process says which sessions it still has readers of."""
INTEREST_S: Final = 25.0
"""How long a process is sent deltas after it asked for them."""
AGAIN_S: Final = 1.0
"""The least time between two requests for the text so far of a session."""
UPDATE_CHARS: Final = 1_000
UPDATE_PIECES: Final = 50
"""An update has so many characters or deltas at most, apart from its first one."""
WATCHED_MAX: Final = 10_000
"""Sessions that a process asks for; readers of further ones get no deltas from elsewhere."""
OPENING_MAX: Final = 256
"""Updates that wait for the record of their step to be read."""


class RelayMessage(Struct, omit_defaults=True):
    """A message between two processes."""

    sender: str
    is_new: bool = False
    """Whether the sender knows nothing of the others yet."""
    watch: list[str] = []
    """Sessions that the sender wants the text so far of, and new deltas."""
    keep: list[str] = []
    """Sessions that the sender wants new deltas of, as before."""
    steps: list[StepUpdate] = []


class RelayedFeed(Protocol):
    """The part of the feed that the relay needs."""

    def keys_with_readers(self) -> Iterable[str]:
        """Return the topics with readers of live deltas."""
        ...

    def is_watched(self, session_id: str) -> bool:
        """Whether a session has readers of live deltas."""
        ...

    def open_step(self, session_id: str) -> LiveStep | None:
        """Return the step of a session that is open for deltas."""
        ...

    def open_steps(self) -> Iterable[LiveStep]:
        """Return all steps that are open for deltas."""
        ...

    def follow_step(self, started: Record) -> LiveStep:
        """Open a step that another process drives."""
        ...


class LiveRelay:
    """Sends deltas of steps that this process drives, and takes those of others."""

    def __init__(self, feed: RelayedFeed, store: FeedStore, *, post: MessagingStore, clock: Clock) -> None:
        self._feed = feed
        self._store = store
        self._post = post
        self._clock = clock
        self._channel: MessageChannel | None = None
        self._asked: dict[str, float] = {}
        """Topics that the others were asked for, and when last."""
        self._wanted: set[str] = set()
        """Topics to ask for with the next message."""
        self._peers: dict[str, dict[str, float]] = {}
        """By address: the topics that another process has readers of, and until when."""
        self._sent: dict[tuple[str, str], tuple[int, int]] = {}
        """By address and session: the step that was sent, and the index after its last delta."""
        self._changed: dict[str, LiveStep] = {}
        """Steps with deltas to send, by session."""
        self._openings: dict[str, list[StepUpdate]] = {}
        """By session: updates of a step until its record has been read."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._flush_task: asyncio.Task[None] | None = None
        self._renew_task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to hear the other processes; idempotent."""
        if self._channel is None:
            self._channel = self._post.open_channel(self.receive)
            self._channel.send(_encode(RelayMessage(self._channel.address, is_new=True)))

    def close(self) -> None:
        """Send and take nothing more."""
        for task in self._tasks:
            task.cancel()
        if self._channel is not None:
            self._channel.close()

    def watch(self, key: str) -> None:
        """Ask the other processes for a topic that has a new reader."""
        self.open()
        if key not in self._asked and len(self._asked) < WATCHED_MAX:
            self._asked[key] = self._clock.monotonic()
            self._wanted.add(key)
            self._flush_soon()
            if self._renew_task is None or self._renew_task.done():
                self._renew_task = begin_task(self._tasks, self._renew(), name=IDLE)

    def note_change(self, step: LiveStep) -> None:
        """Send the deltas of a step, if another process has readers of it."""
        if self._peers:
            self._changed[step.started.session_id] = step
            self._flush_soon()

    def receive(self, text: str) -> None:
        """Take a message of another process."""
        try:
            message = json.decode(text, type=RelayMessage)
        except MsgspecError:
            # Another version, or not ours.
            return
        assert self._channel is not None, "only an open relay receives"
        if message.is_new:
            self._wanted.update(self._asked)
            self._flush_soon()
        if message.watch or message.keep:
            self._note_interest(message)
        for update in message.steps:
            self._take(update)

    # sending

    def _note_interest(self, message: RelayMessage) -> None:
        topics = self._peers.setdefault(message.sender, {})
        until = self._clock.monotonic() + INTEREST_S
        for key in message.watch:
            self._forget_sent(message.sender, key)
            topics[key] = until
        for key in message.keep:
            topics[key] = until
        keys = {*message.watch, *message.keep}
        for step in self._feed.open_steps():
            if not step.is_followed and not keys.isdisjoint(("", step.started.session_id)):
                self._changed[step.started.session_id] = step
        self._flush_soon()

    def _forget_sent(self, address: str, key: str) -> None:
        if key:
            self._sent.pop((address, key), None)
            return
        for sent in [sent for sent in self._sent if sent[0] == address]:
            del self._sent[sent]

    def _flush_soon(self) -> None:
        if self._flush_task is None or self._flush_task.done():
            self._flush_task = begin_task(self._tasks, self._flush(), name="windlass live relay")

    async def _flush(self) -> None:
        channel = self._channel
        assert channel is not None, "it was opened before there was something to send"
        while self._wanted or self._changed:
            new_keys, self._wanted = sorted(self._wanted), set()
            for message in _messages(new_keys, lambda keys: RelayMessage(channel.address, watch=keys)):
                channel.send(message)
            changed, self._changed = self._changed, {}
            if changed:
                self._send_steps(channel, changed)
            await self._clock.sleep(FLUSH_S)

    def _send_steps(self, channel: MessageChannel, changed: dict[str, LiveStep]) -> None:
        now_s = self._clock.monotonic()
        for address, topics in [*self._peers.items()]:
            for key in [key for key, until in topics.items() if until < now_s]:
                del topics[key]
                self._forget_sent(address, key)
            if not topics:
                del self._peers[address]
                continue
            updates = [
                update
                for session_id, step in changed.items()
                if "" in topics or session_id in topics
                for update in self._updates(address, step)
            ]
            for message in _messages(updates, lambda steps: RelayMessage(channel.address, steps=steps)):
                channel.send(message, to=address)

    def _updates(self, address: str, step: LiveStep) -> Iterator[StepUpdate]:
        pieces, started = step.pieces, step.started
        if pieces is None:
            self._sent.pop((address, started.session_id), None)
            return
        seq, index = self._sent.get((address, started.session_id), (0, 0))
        first = max(index, pieces.base) if seq == started.seq else pieces.base
        self._sent[address, started.session_id] = (started.seq, pieces.next_index)
        sent = pieces.pieces_since(first)
        while sent:
            part = _first_part(sent)
            yield StepUpdate(started.session_id, started.seq, pieces.seq, pieces.base, first, part)
            first += len(part)
            del sent[: len(part)]

    # receiving

    def _take(self, update: StepUpdate) -> None:
        session_id = update.session_id
        if not self._feed.is_watched(session_id):
            return
        step = self._feed.open_step(session_id)
        if step is None or step.started.seq < update.started_seq:
            waiting = self._openings.setdefault(session_id, [])
            if not waiting:
                work = self._open_step(session_id, update.started_seq)
                begin_task(self._tasks, work, name="windlass live step")
            if len(waiting) < OPENING_MAX:
                waiting.append(update)
        elif step.is_followed and step.started.seq == update.started_seq and not step.take(update):
            self._ask_again(session_id)

    async def _open_step(self, session_id: str, seq: int) -> None:
        """Open a step of another process, once its record has been read."""
        records: tuple[Record, ...] = ()
        # Without the record there are no deltas; the next update tries again.
        with suppress(AgentError):
            records = await self._store.read(session_id, after=seq - 1, limit=1)
        updates = self._openings.pop(session_id)
        step = self._feed.open_step(session_id)
        is_newer = step is None or step.started.seq < seq
        if records and records[0].seq == seq and is_newer and self._feed.is_watched(session_id):
            self._feed.follow_step(records[0])
            for update in updates:
                if update.started_seq >= seq:
                    self._take(update)

    def _ask_again(self, session_id: str) -> None:
        now_s = self._clock.monotonic()
        key = session_id if session_id in self._asked else ""
        if now_s - self._asked.get(key, now_s) >= AGAIN_S:
            self._asked[key] = now_s
            self._wanted.add(session_id)
            self._flush_soon()

    async def _renew(self) -> None:
        """Say which topics still have readers, until none has."""
        channel = self._channel
        assert channel is not None, "it was opened with the first reader"
        while self._asked:
            await self._clock.sleep(RENEW_S)
            watched = set(self._feed.keys_with_readers())
            self._asked = {key: at for key, at in self._asked.items() if key in watched}
            for message in _messages(
                sorted(self._asked), lambda keys: RelayMessage(channel.address, keep=keys)
            ):
                channel.send(message)
            for step in [*self._feed.open_steps()]:
                if step.is_followed and not self._feed.is_watched(step.started.session_id):
                    step.close()


def _first_part(sent: Sequence[SentPiece]) -> list[SentPiece]:
    """Return the first deltas that one update takes."""
    part: list[SentPiece] = []
    chars = 0
    for piece in sent[:UPDATE_PIECES]:
        chars += len(piece.text)
        if part and chars > UPDATE_CHARS:
            break
        part.append(piece)
    return part


def _messages(items: Sequence[T], make: Callable[[list[T]], RelayMessage]) -> Iterator[str]:
    """Yield messages with some of the items each, in order, none of them larger than it can be."""
    if not items:
        return
    text = _encode(make([*items]))
    if len(json.encode(text)) <= MESSAGE_BYTES_MAX or len(items) == 1:
        yield text
        return
    half = len(items) // 2
    yield from _messages(items[:half], make)
    yield from _messages(items[half:], make)


def _encode(message: RelayMessage) -> str:
    return json.encode(message).decode()
