"""Whole sessions: read as they are kept, brought in, and removed."""

from dataclasses import dataclass
from typing import Protocol

from windlass.ports.listing import RunInfo
from windlass_harness.views.listing import Told
from windlass_protocol import ContentRef, InputRequest, Record


@dataclass(frozen=True, slots=True)
class StoredAppend:
    """Records that became durable together, as they are kept."""

    records: tuple[Record, ...]
    epoch: int
    body: bytes = b""
    """How a store keeps them; empty if none has yet."""


@dataclass(frozen=True, slots=True)
class KeptItem:
    """An item of an inbox that was consumed: what is kept so that it counts once."""

    kind: str
    key: str
    digest: bytes
    consumed_seq: int
    run_id: str | None = None
    """The run that it started."""
    number: int = 0
    """Its place in the inboxes of the store; whoever brings it in need not know one."""


@dataclass(frozen=True, slots=True)
class KeptContent:
    """Bytes that a session refers to."""

    ref: ContentRef
    content: bytes
    is_own: bool = True
    """Whether it goes with the session; a package stays."""


@dataclass(frozen=True, slots=True)
class SessionCopy:
    """A session that is to be brought into a store, all of it or nothing.

    It stands still there: nobody drives it before something comes into its inbox.
    """

    session_id: str
    appends: tuple[StoredAppend, ...]
    told: Told
    """What all its records tell of it."""
    runs: tuple[RunInfo, ...] = ()
    items: tuple[KeptItem, ...] = ()
    contents: tuple[KeptContent, ...] = ()
    uses: tuple[str, ...] = ()
    """Hashes of contents that are in the store, and that it refers to."""
    asked: tuple[InputRequest, ...] = ()
    """What people are being asked."""
    copied_from: str | None = None
    """A session of the store that it is a copy of, and that must be there still."""

    @property
    def last_seq(self) -> int:
        """The number of its last record."""
        return self.appends[-1].records[-1].seq if self.appends else 0

    @property
    def epoch(self) -> int:
        """Of its last owner."""
        return max((append.epoch for append in self.appends), default=0)


class Archive(Protocol):
    """Sessions as a whole."""

    async def appends(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[StoredAppend, ...]:
        """Return appends of a session in order, from the one that ends behind `after`.

        Empty at the end. They are verified as `read` verifies records.
        """
        ...

    async def kept_items(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[KeptItem, ...]:
        """Return consumed items of a session in order, from those numbered behind `after`."""
        ...

    async def contents_of(self, session_id: str) -> tuple[ContentRef, ...]:
        """Return what was put into the content store for a session."""
        ...

    async def keep(self, copy: SessionCopy) -> None:
        """Bring in a session; return once all of it is durable.

        Raises:
            Conflict: the session is there, or was deleted, or one of its runs is there; or what it is a copy
                of is not.
        """
        ...

    async def delete(self, session_id: str, *, now_ms: int) -> tuple[str, ...]:
        """Remove a session and those that work for it; return which, callers first.

        With it go its records, snapshots, items, runs, requests, its rows in the index, and contents that
        were put for it alone. Its id cannot be used again, unless it is one of notes.

        Raises:
            Conflict: there is no such session, or a run is under way in one of them, or a living owner has
                one of them.
        """
        ...
