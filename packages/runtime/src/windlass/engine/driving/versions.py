"""Versions of agents: a run is left to the processes with its version while one of them lives.

A process declares the versions of its agents in a document of the store, under its owner id: those of its
workflows, and in a store that is shared by machines those of all agents. A run of another version is taken
only when no living owner has declared it, and never if the runtime waits for versions (`package_change`).
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, Protocol

from windlass.engine.clocks import moment
from windlass.errors import Conflict
from windlass.ports.clock import Clock
from windlass.ports.documents import WORKFLOWS, Document, Documents
from windlass.ports.inbox import NotifyingStore
from windlass.ports.journal import Ownership

_VERSIONS: Final = "versions"
_DIGEST: Final = "sha256:"
"""How the version of an agent that is no workflow begins."""
_SHORT_CHARS: Final = len(_DIGEST) + 12


class _Store(Documents, Ownership, Protocol):
    """Documents, and which owners are alive."""


class AgentVersions:
    """The versions of agents that this process has, and whether others have another one."""

    def __init__(
        self,
        store: _Store,
        clock: Clock,
        *,
        owner_id: str,
        own: Callable[[], Mapping[str, str]],
        is_waiting: bool = False,
    ) -> None:
        self._store = store
        self._clock = clock
        self._owner_id = owner_id
        self._own = own
        """The versions of this process, by agent."""
        self._is_waiting = is_waiting
        """Whether a run of a version that no process has waits."""
        self._declares_all = isinstance(store, NotifyingStore)
        self._declared: Document | None = None

    async def declare(self, *, is_doubted: bool = False) -> None:
        """Declare the versions of this process, if they are not declared yet.

        With `is_doubted`, another process may have removed the declaration meanwhile.
        """
        versions = sorted(
            version
            for version in self._own().values()
            if self._declares_all or not version.startswith(_DIGEST)
        )
        declared = self._declared
        if declared is None and not versions:
            return
        if declared is not None and not is_doubted and declared.body == {_VERSIONS: versions}:
            return
        await self._remove_dead()
        stored = await self._store.document(WORKFLOWS, self._owner_id)
        revision = 1 if stored is None else stored.revision + 1
        self._declared = Document(WORKFLOWS, self._owner_id, revision, {_VERSIONS: [*versions]})
        await self._store.put_document(self._declared)

    async def withdraw(self) -> None:
        """Remove the declaration: other processes may take the runs now."""
        declared, self._declared = self._declared, None
        if declared is not None:
            with suppress(Conflict):
                await self._store.drop_document(declared)

    async def refusal(self, agent_id: str, version: str) -> str | None:
        """Return why a run of a version is left to other processes; None if it may be taken."""
        own_version = self._own().get(agent_id)
        if own_version in (None, version):
            return None
        declared = await self._all()
        living = await self._living() if declared else frozenset[str]()
        names = f"{version[:_SHORT_CHARS]} of agent {agent_id}", own_version[:_SHORT_CHARS]
        if any(document.name in living and version in _versions(document) for document in declared):
            return "it has a run of version {}, which another process has; this one has {}".format(*names)
        if self._is_waiting:
            return "it waits for a process with version {}; this one has {}".format(*names)
        return None

    async def _all(self) -> list[Document]:
        declared: list[Document] = []
        while page := await self._store.documents(WORKFLOWS, after=declared[-1].name if declared else None):
            declared += page
        return declared

    async def _living(self) -> frozenset[str]:
        return await self._store.living(now_ms=moment(self._clock).ms)

    async def _remove_dead(self) -> None:
        declared, living = await self._all(), await self._living()
        for document in declared:
            if document.name not in living:
                # Another process may remove it at the same time.
                with suppress(Conflict):
                    await self._store.drop_document(document)


def _versions(document: Document) -> list[object]:
    versions = document.body.get(_VERSIONS)
    return [*versions] if isinstance(versions, list) else []
