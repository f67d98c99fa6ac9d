"""Port of the archive: sessions are copied into a store, read as they were stored, and deleted."""

from typing import Protocol

from windlass.ports.listing import RunInfo
from windlass_harness.record import Record
from windlass_harness.views.listing import SessionNews
from windlass_protocol import ContentRef, InputRequest
from windlass_protocol.frozen import frozen


@frozen
class StoredAppend:
    """Records of one append, as stored."""

    records: tuple[Record, ...]
    epoch: int
    body: bytes = b""
    """The stored encoding; empty if no store has encoded them yet."""


@frozen
class KeptItem:
    """A consumed inbox item: the data that prevents it from taking effect again."""

    kind: str
    key: str
    digest: bytes
    consumed_seq: int
    run_id: str | None = None
    """The run that the item started."""
    number: int = 0
    """Its number in the store; optional when it is imported."""


@frozen
class KeptContent:
    """Content that a session refers to."""

    ref: ContentRef
    content: bytes
    is_own: bool = True
    """Whether it is deleted with the session; a package is not."""


@frozen
class SessionCopy:
    """A session to import into a store in one transaction.

    It stays idle there until an item arrives in its inbox.
    """

    session_id: str
    appends: tuple[StoredAppend, ...]
    news: SessionNews
    """The index entry derived from all its records."""
    runs: tuple[RunInfo, ...] = ()
    items: tuple[KeptItem, ...] = ()
    contents: tuple[KeptContent, ...] = ()
    uses: tuple[str, ...] = ()
    """Hashes of stored contents that it refers to."""
    asked: tuple[InputRequest, ...] = ()
    """Its open requests to people."""
    copied_from: str | None = None
    """The session that it is a copy of, which must still exist in the store."""

    @property
    def last_seq(self) -> int:
        """The number of its last record; 0 without records."""
        return self.appends[-1].records[-1].seq if self.appends else 0

    @property
    def epoch(self) -> int:
        """The epoch of its last owner."""
        return max((append.epoch for append in self.appends), default=0)


class Archive(Protocol):
    """Exports, imports and deletes whole sessions."""

    async def appends(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[StoredAppend, ...]:
        """Return appends of a session in order, from the one that ends after `after`; empty at the end.

        They are verified as in `read`.
        """
        ...

    async def read_items(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[KeptItem, ...]:
        """Return consumed items of a session in order, numbered above `after`."""
        ...

    async def contents_of(self, session_id: str) -> tuple[ContentRef, ...]:
        """Return references to the contents that were stored for a session."""
        ...

    async def keep(self, copy: SessionCopy) -> None:
        """Import a session; return once all of it is durable.

        Raises:
            Conflict: the session exists or was deleted, one of its runs exists, or the session that it is a
                copy of does not exist.
        """
        ...

    async def delete(self, session_id: str, *, now_ms: int, idle_since: str | None = None) -> tuple[str, ...]:
        """Delete a session and the sessions of its subagents; return their ids, callers first.

        This removes records, snapshots, inbox items, runs, requests, index entries, contents that belong to
        these sessions alone, and refused starts that name one of the sessions or runs. The id cannot be used
        again, unless it is that of a session with judgements.

        Raises:
            Conflict: the session does not exist, or one of them has an unfinished run or a living owner. With
                `idle_since`, also if one has changed at that time or later, or has an open request to a
                person or an item in its inbox.
        """
        ...
