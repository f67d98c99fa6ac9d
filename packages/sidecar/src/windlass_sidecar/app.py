"""What the methods of the sidecar work on: one runtime, one store, tools, streams."""

import asyncio
import logging
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from windlass import AgentRuntime, ToolRouter
from windlass.adapters.storage.memory import InMemoryStorage
from windlass.parts import Clock, Feed, MemoryStore, SqliteStore, Store, SystemClock, allow_start, new_id
from windlass.ports.storage import StorageAdapter
from windlass_sidecar.peers import Host
from windlass_sidecar.secrets import GrowingScribe
from windlass_sidecar.streams import Streams

_SESSIONS: Final = ".sessions.db"
"""What the file of sessions is called, beside that of the journal."""


@dataclass(slots=True)
class Settings:
    """What a host may look at and change."""

    log_level: str = "info"

    def apply(self) -> None:
        """Make it so."""
        logging.getLogger().setLevel(self.log_level.upper())


@dataclass(slots=True)
class App:
    """The sidecar behind its methods."""

    runtime: AgentRuntime
    store: Store
    scribe: GrowingScribe
    tools: ToolRouter
    host: Host
    streams: Streams
    clock: Clock
    began_s: float
    path: Path | None = None
    settings: Settings = field(default_factory=Settings)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the host wants the sidecar to end."""
    is_hurried: bool = False
    """Whether it is to end at once."""
    _storage: StorageAdapter | None = None
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    async def open(cls, path: Path | None, tools: ToolRouter, *, host: Host) -> Self:
        """Open the store, a new one if there is none, or one in memory without a path.

        Raises:
            AgentError: the file is not a store, is damaged or cannot be opened.
        """
        clock, scribe = SystemClock(), GrowingScribe()
        began_s = clock.monotonic()
        store = MemoryStore() if path is None else await SqliteStore.open(path)
        builder = AgentRuntime.builder().journal(store).content(store).event_bus(Feed(store, clock))
        built = builder.policy(allow_start).attended().build()
        # Made anew with a scribe that learns the keys which come later.
        runtime = AgentRuntime(replace(built.ports, scribe=scribe))
        try:
            await runtime.resume()
        except BaseException:
            await store.aclose()
            raise
        streams = Streams(runtime, scribe, tools=tools, host=host)
        return cls(runtime, store, scribe, tools, host, streams, clock, began_s, path)

    def new_id(self) -> str:
        """Return a name that nobody else has."""
        return new_id()

    async def storage(self) -> StorageAdapter:
        """Return where sessions are kept; opened when first asked for.

        Raises:
            AgentError: the file cannot be used.
        """
        async with self._opening:
            if self._storage is None:
                self._storage = InMemoryStorage() if self.path is None else await _sessions(self.path)
            return self._storage

    async def aclose(self) -> None:
        """Let go of everything; a stream goes on when it is asked for again."""
        await self.streams.stop()
        await self.runtime.aclose()
        await self.streams.aclose()
        if self._storage is not None:
            await self._storage.aclose()


async def _sessions(path: Path) -> StorageAdapter:
    # SQLAlchemy takes a third of a second to import, and many hosts keep sessions themselves.
    from sqlalchemy import URL  # noqa: PLC0415 - slow to import

    from windlass.adapters.storage.sqlalchemy import SqlAlchemyStorage  # noqa: PLC0415 - slow to import

    file = path.with_name(path.name + _SESSIONS).absolute()
    url = URL.create("sqlite", database=str(file))
    return await SqlAlchemyStorage.open(url.render_as_string(hide_password=False))
