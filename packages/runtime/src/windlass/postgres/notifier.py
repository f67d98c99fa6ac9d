"""Notifier: NOTIFY after commits, LISTEN for those of other processes, mail, and locks of living owners.

A thread with a connection of its own sends one NOTIFY for all commits of 20 ms. It is never sent in the
transaction of a write: PostgreSQL serialises transactions that notify. A notification that is lost, or that a
pooler does not pass on, causes a delay until the next poll.

The connection also holds an advisory lock for each owner of this process, which PostgreSQL releases when the
process ends. It is shared, so that a new connection can have it before the server notices that the old one is
gone. A pooler may give the connection to others, and then there is no lock: the lease of the owner decides.
"""

import json
import os
import selectors
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import blake2b
from threading import Condition, Event, Lock, Thread
from typing import Final, cast

import psycopg
from psycopg import sql

from windlass.ports.inbox import InboxNotice
from windlass.postgres.link import FAILURES, PostgresAddress
from windlass.sql.integrity import StoreKey

SEND_EVERY_S: Final = 0.02
"""Commits of this time share a notification."""
PAYLOAD_BYTES_MAX: Final = 7_999
"""PostgreSQL accepts no more; more sessions than fit are told as any session, larger messages are dropped."""
MAIL_BYTES_MAX: Final = 1_048_576
"""Bytes of messages that wait to be sent; further ones are dropped."""
CHECK_S: Final = 30.0
"""How often a silent connection is checked."""
RECONNECT_S: Final = 1.0
RECONNECT_FIRST_S: Final = 0.1
"""The pause after a connection that worked: other processes see no lock of this one meanwhile."""
HOLD_S: Final = 2.0
"""How long an owner waits for its lock before it goes on without."""

# The server notices within 11 s that the machine of an owner has lost its power or its network.
_NOTICE_END: Final = """SELECT set_config('tcp_keepalives_idle', '5', false),
    set_config('tcp_keepalives_interval', '2', false), set_config('tcp_keepalives_count', '3', false),
    set_config('tcp_user_timeout', '11000', false)"""

Listener = Callable[[InboxNotice], None]
MailListener = Callable[[str], None]


class Notifier:
    """Sends and receives notifications of one store, from when it is first used."""

    def __init__(self, address: PostgresAddress, key: StoreKey) -> None:
        self._conninfo = address.conninfo
        self._store_id = key.store_id
        # A hash of the secret id: any user of the database may listen to a channel with a known name.
        self._channel = f"windlass_{blake2b(key.store_id, digest_size=16, person=b'notify').hexdigest()}"
        self.address = os.urandom(8).hex()
        """The name of this process in its messages."""
        self._mail: deque[tuple[str, str]] = deque()
        """Messages to send, with their channels."""
        self._mail_bytes = 0
        self._mail_listener: MailListener | None = None
        self._lock = Lock()
        self._records: set[str] = set()
        self._items: set[str] = set()
        """Sessions with new records, and with new items, that were not told yet."""
        self._is_any = False
        """Whether something was written that no session names."""
        self._listeners: list[Listener] = []
        self._owners: set[str] = set()
        """Owners of this process, which are to have their locks."""
        self._held: frozenset[str] = frozenset()
        """Owners that have their locks, on the present connection."""
        self._is_pooled = False
        """Whether the connection is one to a pooler, which holds no locks."""
        self._changed = Condition(self._lock)
        self._thread: Thread | None = None
        self._closing = Event()
        self._waker: tuple[int, int] = (-1, -1)

    def tell(self, records: Iterable[str], items: Iterable[str], *, is_any: bool = False) -> None:
        """Tell other processes that sessions have new records or items, or that any session may."""
        with self._lock:
            self._records.update(records)
            self._items.update(items)
            self._is_any = self._is_any or is_any
            self._wake()

    def hold(self, owner_id: str) -> bool:
        """Take the lock of an owner, now and after each loss of the connection; return whether it is held."""
        with self._lock:
            if owner_id not in self._owners:
                self._owners.add(owner_id)
                self._wake()
            self._changed.wait_for(lambda: self._is_pooled or owner_id in self._held, HOLD_S)
            return owner_id in self._held

    def holds(self, owner_id: str) -> bool:
        """Return whether the lock of an owner is held now."""
        return owner_id in self._held

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call a function, in a thread, when another process has written; return how to end that."""
        with self._lock:
            self._listeners.append(listener)
            self._wake()

        def end() -> None:
            with self._lock, suppress(ValueError):
                self._listeners.remove(listener)

        return end

    def take_mail(self, listener: MailListener) -> None:
        """Call a function, in a thread, with each message for this process, or for all."""
        with self._lock:
            self._mail_listener = listener
            self._wake()

    def end_mail(self) -> None:
        """Take no more messages."""
        self._mail_listener = None

    def send(self, message: str, *, to: str | None = None) -> None:
        """Send a message to a process, or to all others; it is dropped if there are too many."""
        if to is None:
            message, channel = json.dumps([self.address, message], ensure_ascii=False), self._channel
        else:
            channel = self._channel_of(to)
        size = len(message.encode())
        with self._lock:
            if size <= PAYLOAD_BYTES_MAX and self._mail_bytes + size <= MAIL_BYTES_MAX:
                self._mail.append((channel, message))
                self._mail_bytes += size
                self._wake()

    def close(self) -> None:
        """Send pending notifications, and end the thread."""
        self._closing.set()
        with self._lock:
            thread = self._thread
            if thread is not None:
                self._wake()
        if thread is not None:
            thread.join()

    def _wake(self) -> None:
        """Wake the thread, or start it; the lock is held."""
        if self._thread is None:
            self._waker = os.pipe()
            os.set_blocking(self._waker[1], False)
            self._thread = Thread(target=self._run, name="windlass-postgres-notifier", daemon=True)
            self._thread.start()
        # A full pipe wakes it too, and one that is closed belongs to a closed store.
        with suppress(OSError):
            os.write(self._waker[1], b"x")

    def _run(self) -> None:
        is_first = True
        while not self._closing.is_set() or (is_first and self._payload(take=False)):
            with suppress(*FAILURES, OSError):
                self._serve()
            is_first, was_held = False, bool(self._held)
            self._note_held(frozenset(), is_pooled=self._is_pooled)
            pause_s = RECONNECT_FIRST_S if was_held else RECONNECT_S
            # A closed store does not wait: polling finds its last writes.
            self._closing.wait(pause_s)
        with self._lock:
            self._waker, ends = (-1, -1), self._waker
        for end in ends:
            os.close(end)

    def _serve(self) -> None:
        """Send and receive until the connection is lost or the store is closed."""
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            connection.add_notify_handler(
                lambda notification: self._hear(notification.channel, notification.payload)
            )
            is_listening, takes_mail = False, False
            # A pooler answers the connection with a number of its own.
            row = connection.execute("SELECT pg_backend_pid()").fetchone()
            is_pooled = row is None or row[0] != connection.info.backend_pid
            if not is_pooled:
                connection.execute(_NOTICE_END)
            self._note_held(frozenset(), is_pooled=is_pooled)
            while True:
                for owner_id in () if is_pooled else tuple(self._owners - self._held):
                    lock = owner_lock(self._store_id, owner_id)
                    connection.execute("SELECT pg_advisory_lock_shared(%s)", (lock,))
                    self._note_held(self._held | {owner_id}, is_pooled=False)
                if self._listeners and not is_listening:
                    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
                    is_listening = True
                    # Notifications sent before LISTEN are missed: let listeners look at everything.
                    self._pass_on(InboxNotice(None, has_items=True))
                if self._mail_listener is not None and not takes_mail:
                    channels = (self._channel, self._channel_of(self.address))
                    for channel in channels:
                        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                    takes_mail = True
                self._send_mail(connection)
                while payload := self._payload():
                    connection.execute(
                        sql.SQL("NOTIFY {}, {}").format(sql.Identifier(self._channel), sql.Literal(payload))
                    )
                    self._closing.wait(SEND_EVERY_S)
                    self._send_mail(connection)
                if self._closing.is_set():
                    return
                self._wait(connection)

    def _send_mail(self, connection: psycopg.Connection) -> None:
        """Send all messages in one transaction: PostgreSQL serialises transactions that notify."""
        with self._lock:
            mail, self._mail_bytes = [*self._mail], 0
            self._mail.clear()
        if mail:
            # As parameters: the text of a statement is shown to other sessions of the same user.
            connection.execute(
                "SELECT pg_notify(channel, message)"
                " FROM unnest(%s::text[], %s::text[]) AS mail(channel, message)",
                ([channel for channel, _ in mail], [message for _, message in mail]),
            )

    def _channel_of(self, address: str) -> str:
        name = blake2b(address.encode(), digest_size=16, key=self._store_id, person=b"mail").hexdigest()
        return f"windlass_{name}"

    def _note_held(self, owner_ids: frozenset[str], *, is_pooled: bool) -> None:
        with self._lock:
            self._held, self._is_pooled = owner_ids, is_pooled
            self._changed.notify_all()

    def _wait(self, connection: psycopg.Connection) -> None:
        """Wait for something to send, or for notifications."""
        # Notifications that came with the answer of a statement do not make the socket readable.
        self._drain(connection)
        # Not select(): it refuses file descriptors above 1,023, which a busy server has.
        with selectors.DefaultSelector() as selector:
            selector.register(connection, selectors.EVENT_READ)
            selector.register(self._waker[0], selectors.EVENT_READ)
            ready = {key.fd for key, _ in selector.select(CHECK_S)}
        if self._waker[0] in ready:
            os.read(self._waker[0], 4_096)
        if connection.fileno() in ready:
            connection.pgconn.consume_input()
            self._drain(connection)
        if not ready:
            connection.execute("SELECT 1")

    def _drain(self, connection: psycopg.Connection) -> None:
        while (notification := connection.pgconn.notifies()) is not None:
            self._hear(notification.relname.decode(), notification.extra.decode())

    def _payload(self, *, take: bool = True) -> str:
        """Return the next payload; empty if there is nothing to send."""
        with self._lock:
            records, items, is_any = self._records - self._items, self._items, self._is_any
            if not (records or items or is_any):
                return ""
            if take:
                self._records, self._items, self._is_any = set(), set(), False
        whole = json.dumps([self.address, sorted(records), sorted(items)])
        if is_any or len(whole) > PAYLOAD_BYTES_MAX:
            return json.dumps([self.address, None, None])
        return whole

    def _hear(self, channel: str, payload: str) -> None:
        listener = self._mail_listener
        if channel != self._channel:
            if listener is not None:
                listener(payload)
            return
        with suppress(ValueError, TypeError):
            # Payloads of other programs are ignored.
            sender, *parts = cast("list[object]", json.loads(payload))
            if sender == self.address:
                return
            match parts:
                case [str(message)]:
                    if listener is not None:
                        listener(message)
                case [None, None]:
                    self._pass_on(InboxNotice(None, has_items=True))
                case [records, items]:
                    sessions = frozenset(cast("list[str]", records)) | frozenset(cast("list[str]", items))
                    self._pass_on(InboxNotice(sessions, has_items=bool(items)))
                case _:
                    pass

    def _pass_on(self, notice: InboxNotice) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener(notice)


def owner_lock(store_id: bytes, owner_id: str) -> int:
    """Return the number of the advisory lock of an owner."""
    digest = blake2b(owner_id.encode(), digest_size=8, key=store_id, person=b"owner").digest()
    return int.from_bytes(digest, signed=True)
