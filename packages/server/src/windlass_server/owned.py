"""The events of all sessions of one user, out of those of a whole tenant."""

from collections import OrderedDict, deque
from collections.abc import Collection
from typing import Self

from windlass import Event
from windlass.parts import Store
from windlass.ports.feed import EventStream
from windlass_protocol import Cursor
from windlass_server.limits import OWNED_READ_AHEAD_MAX, OWNERS_KNOWN_MAX


class OwnedStream:
    """A stream that shows what belongs to one user; see `EventStream`.

    Cursors are those of the whole tenant, so they tell how much happens in it, and nothing else.
    """

    def __init__(
        self, inner: EventStream, store: Store, *, owner: str, types: Collection[str] | None = None
    ) -> None:
        self._inner = inner
        self._store = store
        self._owner = owner
        self._types = types
        self._known: OrderedDict[str, bool] = OrderedDict()
        """Sessions that were asked about: whether they are the user's. A session never changes hands."""
        self._ahead: deque[tuple[Event, Cursor]] = deque()
        self._taken: tuple[Event, Cursor] | None = None
        """What was read, and not looked at yet."""
        self._cursor = inner.cursor

    def __aiter__(self) -> Self:
        """Return the stream itself."""
        return self

    async def __anext__(self) -> Event:
        """Return the next event of the user; wait for it if there is none."""
        while not self._ahead:
            await self._take()
            # Whoever sends what is ready must not wait for what may not come.
            while self._inner.ready and len(self._ahead) < OWNED_READ_AHEAD_MAX:
                await self._take()
        event, self._cursor = self._ahead.popleft()
        return event

    @property
    def cursor(self) -> Cursor:
        """Where the reader stands."""
        return self._cursor

    @property
    def ready(self) -> int:
        """How many events can be had without waiting."""
        return len(self._ahead)

    async def open(self) -> None:
        """Check the cursor before the first event is asked for."""
        await self._inner.open()
        self._cursor = self._inner.cursor

    async def aclose(self) -> None:
        """End the stream."""
        await self._inner.aclose()

    async def _take(self) -> None:
        """Take the next event, and keep it if the user may see it."""
        if self._taken is None:
            event = await anext(self._inner)
            self._taken = (event, self._inner.cursor)
        # A reader that is told to stop waiting while we look comes back for it.
        event, cursor = self._taken
        is_wanted = self._types is None or event.type in self._types
        if is_wanted and event.session_id is not None and await self._is_own(event.session_id):
            self._ahead.append((event, cursor))
        self._taken = None

    async def _is_own(self, session_id: str) -> bool:
        known = self._known.get(session_id)
        if known is None:
            info = await self._store.listed_session(session_id)
            known = self._known[session_id] = info is not None and info.owner == self._owner
            if len(self._known) > OWNERS_KNOWN_MAX:
                self._known.popitem(last=False)
        return known
