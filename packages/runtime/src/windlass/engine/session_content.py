"""The content store as a session sees it: what it puts there goes when it goes."""

from dataclasses import dataclass

from windlass.ports.store import ContentStore
from windlass_protocol import ContentRef


@dataclass(frozen=True, slots=True)
class SessionContent:
    """A `ContentStore` that knows for which session something is put."""

    inner: ContentStore
    session_id: str

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        """Keep bytes for the session."""
        return await self.inner.put(content, media_type=media_type, session_id=session_id or self.session_id)

    async def get(self, ref: ContentRef) -> bytes:
        """Return bytes."""
        return await self.inner.get(ref)
