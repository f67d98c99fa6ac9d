"""Reservations: sessions without a message, and idempotency keys, as documents in the store of a tenant.

All servers of a store share them, so that any of them can answer any request. A key is claimed by a write
that fails if the key is known, so of two requests at once, at two servers, one has claimed it first.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from weakref import WeakValueDictionary

from windlass import Conflict, Unavailable
from windlass.parts import Clock
from windlass.ports.documents import Document, Documents
from windlass_protocol import ErrorKind, JsonObject, RetryClass
from windlass_protocol.frozen import sealed
from windlass_server.settings import KEYS_KEPT_S, RETRY_MS, SESSIONS_EMPTY_MAX

KEY: Final = "key"
"""The kind of the document of an idempotency key."""
_EXPIRE_EVERY: Final = 16
"""Claims of new keys after which expired ones are deleted."""
_EXPIRED_MAX: Final = 2 * _EXPIRE_EVERY
"""Expired keys that are deleted then: more than were claimed, so that they become fewer."""


@sealed
class ReservedSession:
    """A session without a message."""

    session_id: str
    user: str
    agent_id: str
    created_at: str
    digest: str
    """Digest of the request that reserved it."""


@sealed
class KeyClaim:
    """An idempotency key that is bound to one request."""

    document: Document
    is_new: bool
    """Whether the key was unknown before."""

    @property
    def at(self) -> datetime:
        """When the first request with the key came."""
        assert self.document.due_at_ms is not None, "a key expires"
        return datetime.fromtimestamp(self.document.due_at_ms / 1_000 - KEYS_KEPT_S, UTC)

    @property
    def answer(self) -> JsonObject | None:
        """The answer that was kept; None if there is none yet."""
        answer = self.document.body.get("answer")
        return answer if isinstance(answer, dict) else None


class Reservations:
    """Reserved sessions and idempotency keys of a tenant."""

    def __init__(self, store: Documents, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._claims = 0
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def reserve(self, reservation: ReservedSession) -> None:
        """Reserve a session durably; the same request again changes nothing.

        Raises:
            Conflict: the session was reserved by another request.
            Unavailable: the user has too many reserved sessions.
        """
        existing = await self.find(reservation.session_id, reservation.user)
        if existing is None:
            await self._check_room(reservation.user)
            body: JsonObject = {
                "agentId": reservation.agent_id,
                "createdAt": reservation.created_at,
                "digest": reservation.digest,
            }
            with suppress(Conflict):
                # Another request with the same key may be quicker.
                await self._store.put_document(
                    Document(_kind(reservation.user), reservation.session_id, 1, body)
                )
                return
            existing = await self.find(reservation.session_id, reservation.user)
        if existing is not None and existing.digest != reservation.digest:
            raise Conflict(
                "the Idempotency-Key was used with another request; choose another key",
                kind=ErrorKind.INVALID_STATE_TRANSITION,
                retry=RetryClass.NOT_RETRYABLE,
            )

    async def find(self, session_id: str, user: str) -> ReservedSession | None:
        """Return a reserved session of a user; None if there is none."""
        document = await self._store.document(_kind(user), session_id)
        if document is None:
            return None
        agent_id, created_at, digest = (
            str(document.body[name]) for name in ("agentId", "createdAt", "digest")
        )
        return ReservedSession(session_id, user, agent_id, created_at, digest)

    async def release(self, session_id: str, user: str) -> None:
        """Remove the reservation of a session."""
        document = await self._store.document(_kind(user), session_id)
        if document is not None:
            await self._drop(document)

    async def claim(self, name: str, digest: str) -> KeyClaim | None:
        """Bind a key to a request, durably; None if it is bound to another one."""
        due_at_ms = self._now_ms() + KEYS_KEPT_S * 1_000
        new = Document(KEY, name, 1, {"digest": digest}, due_at_ms)
        while True:
            with suppress(Conflict):
                await self._store.put_document(new)
                await self._expire()
                return KeyClaim(new, is_new=True)
            document = await self._store.document(KEY, name)
            if document is None:
                continue  # it was freed, or expired, meanwhile
            if document.body["digest"] != digest:
                return None
            if "answer" in document.body:
                return KeyClaim(document, is_new=False)
            with suppress(Conflict):
                # A new revision: the first request does not free the key any more.
                return KeyClaim(await self._replace(document, document.body), is_new=False)

    async def keep(self, claim: KeyClaim, answer: JsonObject) -> None:
        """Keep the answer of a request with its key; the first answer stays."""
        document: Document | None = claim.document
        while document is not None and "answer" not in document.body:
            with suppress(Conflict):
                await self._replace(document, {**document.body, "answer": answer})
                return
            document = await self._store.document(KEY, document.name)

    def lock(self, name: str) -> asyncio.Lock:
        """Return the lock of a key: a request that is repeated at this server waits for the first."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def unclaim(self, claim: KeyClaim) -> None:
        """Free a key, unless another request claimed it meanwhile."""
        await self._drop(claim.document)

    async def _replace(self, document: Document, body: JsonObject) -> Document:
        new = replace(document, revision=document.revision + 1, body=body)
        await self._store.put_document(new)
        return new

    async def _check_room(self, user: str) -> None:
        if len(await self._store.documents(_kind(user), limit=SESSIONS_EMPTY_MAX)) == SESSIONS_EMPTY_MAX:
            raise Unavailable(
                f"too many sessions without a message, limit {SESSIONS_EMPTY_MAX:,}: use or delete those",
                kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
                retry=RetryClass.USER_ACTION_NEEDED,
                retry_after_ms=RETRY_MS,
            )

    async def _expire(self) -> None:
        self._claims += 1
        if self._claims % _EXPIRE_EVERY == 1:
            due = await self._store.due_documents(KEY, now_ms=self._now_ms(), limit=_EXPIRED_MAX)
            await asyncio.gather(*(self._drop(document) for document in due))

    async def _drop(self, document: Document) -> None:
        with suppress(Conflict):  # another server was quicker
            await self._store.drop_document(document)

    def _now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1_000)


def _kind(user: str) -> str:
    """Return the kind of the documents of sessions without a message: a user has their own."""
    return f"reserved {sha256(user.encode()).hexdigest()[:32]}"
