"""Port of the store: journal, inbox, ownership, catalogue, archive, documents and content joined."""

from typing import Protocol, runtime_checkable

from windlass.ports.archive import Archive
from windlass.ports.catalog import Catalog
from windlass.ports.documents import Documents
from windlass.ports.inbox import Inbox
from windlass.ports.journal import Journal, Milestones, Ownership, Snapshots, Timeline
from windlass.ports.listing import Listing, Refusals
from windlass_protocol import ContentRef


class Store(
    Journal,
    Milestones,
    Inbox,
    Catalog,
    Ownership,
    Timeline,
    Snapshots,
    Listing,
    Refusals,
    Archive,
    Documents,
    Protocol,
):
    """Everything that one database stores for the runtime."""

    async def aclose(self) -> None:
        """Flush pending writes and close the database."""
        ...


@runtime_checkable
class WatchedStore(Protocol):
    """A store that reports when it cannot write."""

    @property
    def write_problem(self) -> str | None:
        """Why nothing can be written now, without names of files or hosts; None if writes work.

        The store tries again by itself; the problem ends with the first write that succeeds.
        """
        ...


class ContentStore(Protocol):
    """Content addressed by its hash."""

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        """Store bytes durably and return their reference; equal bytes are stored once.

        Content that was stored for sessions is deleted with the last of them; content stored for none is
        kept.

        Raises:
            Rejected: larger than `CONTENT_BYTES_MAX`.
            Unavailable: nothing was stored.
        """
        ...

    async def get(self, ref: ContentRef) -> bytes:
        """Return the bytes.

        Raises:
            Rejected: the content does not exist.
            Corrupt: the bytes do not match the hash.
        """
        ...
