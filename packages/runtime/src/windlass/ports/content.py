"""Content: large or sensitive values, kept once under their hash."""

from typing import Protocol

from windlass_protocol import ContentRef


class ContentStore(Protocol):
    """Bytes by their hash."""

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        """Keep bytes durably and return what names them; the same bytes are kept once.

        What was put for sessions is removed with the last of them; what was put for none stays.

        Raises:
            Rejected: larger than `CONTENT_BYTES_MAX`.
            Unavailable: nothing was kept.
        """
        ...

    async def get(self, ref: ContentRef) -> bytes:
        """Return the bytes.

        Raises:
            Rejected: there is no such content.
            Corrupt: the bytes are not those that the hash names.
        """
        ...
