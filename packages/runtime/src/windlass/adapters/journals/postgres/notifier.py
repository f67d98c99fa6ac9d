"""Notifier: NOTIFY after commits, and LISTEN for the commits of other processes.

A thread with a connection of its own sends one NOTIFY for all commits of 20 ms. It is never sent in the
transaction of a write: PostgreSQL serialises transactions that notify. A notification that is lost, or that a
pooler does not pass on, causes a delay until the next poll.
"""

import json
import os
import selectors
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from hashlib import blake2b
from threading import Event, Lock, Thread
from typing import Final

import psycopg
from psycopg import sql

from windlass.adapters.journals.postgres.link import FAILURES, Address
from windlass.adapters.journals.sql.integrity import StoreKey
from windlass.ports.store import Notice

SEND_EVERY_S: Final = 0.02
"""Commits of this time share a notification."""
PAYLOAD_BYTES_MAX: Final = 7_900
"""PostgreSQL accepts 7,999 bytes; more sessions than fit are told as any session."""
CHECK_S: Final = 30.0
"""How often a silent connection is checked."""
RECONNECT_S: Final = 1.0

Listener = Callable[[Notice], None]


class Notifier:
    """Sends and receives notifications of one store, from when it is first used."""

    def __init__(self, address: Address, key: StoreKey) -> None:
        self._conninfo = address.conninfo
        # A hash of the secret id: any user of the database may listen to a channel with a known name.
        self._channel = f"windlass_{blake2b(key.store_id, digest_size=16, person=b'notify').hexdigest()}"
        self._me = os.urandom(8).hex()
        self._lock = Lock()
        self._records: set[str] = set()
        self._items: set[str] = set()
        """Sessions with new records, and with new items, that were not told yet."""
        self._is_any = False
        """Whether something was written that no session names."""
        self._listeners: list[Listener] = []
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

    def listen(self, told: Listener) -> Callable[[], None]:
        """Call a function, in a thread, when another process has written; return how to end that."""
        with self._lock:
            self._listeners.append(told)
            self._wake()

        def end() -> None:
            with self._lock, suppress(ValueError):
                self._listeners.remove(told)

        return end

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
                self._connected()
            is_first = False
            # A closed store does not wait: polling finds its last writes.
            self._closing.wait(RECONNECT_S)
        with self._lock:
            self._waker, ends = (-1, -1), self._waker
        for end in ends:
            os.close(end)

    def _connected(self) -> None:
        """Send and receive until the connection is lost or the store is closed."""
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            connection.add_notify_handler(lambda one: self._hear(one.payload))
            is_listening = False
            while True:
                if self._listeners and not is_listening:
                    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
                    is_listening = True
                    # Notifications sent before LISTEN are missed: let listeners look at everything.
                    self._pass_on(Notice(None, has_items=True))
                while payload := self._payload():
                    connection.execute(
                        sql.SQL("NOTIFY {}, {}").format(sql.Identifier(self._channel), sql.Literal(payload))
                    )
                    self._closing.wait(SEND_EVERY_S)
                if self._closing.is_set():
                    return
                self._wait(connection)

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
        while (one := connection.pgconn.notifies()) is not None:
            self._hear(one.extra.decode())

    def _payload(self, *, take: bool = True) -> str:
        """Return the next payload; empty if there is nothing to send."""
        with self._lock:
            records, items, is_any = self._records - self._items, self._items, self._is_any
            if not (records or items or is_any):
                return ""
            if take:
                self._records, self._items, self._is_any = set(), set(), False
        whole = json.dumps([self._me, sorted(records), sorted(items)])
        if is_any or len(whole) > PAYLOAD_BYTES_MAX:
            return json.dumps([self._me, None, None])
        return whole

    def _hear(self, payload: str) -> None:
        sender: str
        records: Collection[str] | None
        items: Collection[str] | None
        with suppress(ValueError, TypeError):
            # Ignore payloads of other programs.
            sender, records, items = json.loads(payload)
            if sender != self._me:
                if records is None or items is None:
                    self._pass_on(Notice(None, has_items=True))
                else:
                    self._pass_on(Notice(frozenset(records) | frozenset(items), has_items=bool(items)))

    def _pass_on(self, told: Notice) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener(told)
