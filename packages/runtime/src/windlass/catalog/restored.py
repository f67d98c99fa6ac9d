"""Sessions of a restored store, which are held until a person releases them.

Effects after a backup were made, and its records do not say so. In a store that was restored from it, runs
would make them again. So the sessions with something to do are held: no process drives them, and nothing of
theirs begins, until they are released one by one or together. New sessions are not affected.
"""

from collections.abc import Collection
from contextlib import suppress
from typing import Protocol

from windlass.errors import Conflict
from windlass.ports.catalog import Catalog
from windlass.ports.documents import RESTORED, Document, Documents
from windlass.ports.inbox import Inbox
from windlass.ports.journal import Standing


class RestoredStore(Documents, Catalog, Inbox, Protocol):
    """A store that was restored."""


async def hold(store: RestoredStore) -> int:
    """Hold all sessions with an unfinished run or an item in their inbox; return how many are held now."""
    names = set((await store.arrivals(after=0)).session_ids)
    after: str | None = None
    while rows := await store.sessions(after=after):
        names |= {row.session_id for row in rows if row.standing is not Standing.IDLE}
        after = rows[-1].session_id
    for name in sorted(names):
        # It is held already.
        with suppress(Conflict):
            await store.put_document(Document(RESTORED, name, 1, {}))
    return len(names)


async def list_held(store: Documents) -> list[str]:
    """Return the sessions that are held."""
    names: list[str] = []
    while page := await store.documents(RESTORED, after=names[-1] if names else None):
        names += [document.name for document in page]
    return names


async def release(store: Documents, session_ids: Collection[str]) -> int:
    """Release sessions, so that processes drive them within a minute; return how many were held."""
    count = 0
    for name in session_ids:
        document = await store.document(RESTORED, name)
        if document is not None:
            with suppress(Conflict):
                await store.drop_document(document)
            count += 1
    return count
