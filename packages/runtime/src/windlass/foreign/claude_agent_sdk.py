"""Sessions of the Claude Agent SDK in a store of Windlass.

A transcript is a value with its summary; its entries are in values of their own, one for each append.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, cast

from claude_agent_sdk import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    fold_session_summary,
)
from pydantic import JsonValue

from windlass.errors import Conflict
from windlass.foreign.values import Values, key_of
from windlass.parts import Clock, Store, SystemClock, open_store
from windlass.runtime.compose import AgentRuntime
from windlass_protocol import JsonObject

_TRANSCRIPTS: Final = "claude-transcript"
_ENTRIES: Final = "claude-entries"


class WindlassSessionStore(SessionStore):
    """A `SessionStore` of the Claude Agent SDK on a store of Windlass: SQLite, PostgreSQL or memory.

    Write `async with WindlassSessionStore.open("app.db") as sessions:` and
    `ClaudeAgentOptions(session_store=sessions)`. `WindlassSessionStore.of(runtime)` uses the store of a
    runtime. An append is durable when it returns. An entry that is appended again, by its `uuid`, is read
    once.
    """

    def __init__(self, store: Store, *, clock: Clock | None = None) -> None:
        self._transcripts = Values(store, _TRANSCRIPTS)
        self._entries = Values(store, _ENTRIES)
        self._clock = clock or SystemClock()

    @classmethod
    def of(cls, runtime: AgentRuntime) -> "WindlassSessionStore":
        """Return the sessions in the store of a runtime."""
        return cls(runtime.core.store, clock=runtime.core.ports.machine.clock)

    @classmethod
    @asynccontextmanager
    async def open(cls, path: str | Path) -> "AsyncGenerator[WindlassSessionStore]":
        """Open a store: a file, or the address of a PostgreSQL database."""
        store = await open_store(path)
        try:
            yield cls(store)
        finally:
            await store.aclose()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Store entries at the end of a transcript."""
        if not entries:
            return
        name, subpath = _name(key), key.get("subpath", "")
        number = _count(await self._transcripts.get(name))
        # Entries that were stored while their process ended: the summary lacks them.
        unsummarised = entries
        while True:
            try:
                await self._entries.add(f"{name}{number:012}", json.dumps(entries))
                break
            except Conflict:
                earlier = await self._entries.get(f"{name}{number:012}")
                unsummarised = [*_parse(earlier), *unsummarised]
                number += 1

        def extend(stored: JsonValue) -> JsonValue:
            old = cast(JsonObject, stored or {})
            mtime = max(int(self._clock.now().timestamp() * 1_000), cast(int, old.get("mtime", 0)))
            summary: JsonValue = None
            if not subpath:
                before = _summary_of(old)
                folded = fold_session_summary(before, key, unsummarised)
                summary = json.dumps({**folded, "mtime": mtime})
            return {
                "session": key["session_id"],
                "subpath": subpath,
                "count": max(number + 1, _count(stored)),
                "mtime": mtime,
                "summary": summary,
            }

        await self._transcripts.change(name, extend)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries of a transcript in the order of their appends; None if there are none."""
        entries: list[SessionStoreEntry] = []
        ids = set[str]()
        async for _, value in self._entries.scan(_name(key)):
            for entry in _parse(value):
                entry_id = entry.get("uuid")
                if entry_id is None or entry_id not in ids:
                    entries.append(entry)
                if entry_id is not None:
                    ids.add(entry_id)
        return entries or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, with the time of their newest entries."""
        return [
            {"session_id": str(transcript["session"]), "mtime": cast(int, transcript["mtime"])}
            async for transcript in self._transcripts_of(key_of(project_key))
            if not transcript["subpath"]
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries of the sessions of a project."""
        return [
            summary
            async for transcript in self._transcripts_of(key_of(project_key))
            if (summary := _summary_of(transcript)) is not None
        ]

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript; with that of a session also those of its subagents."""
        prefix = _name(key) if key.get("subpath") else key_of(key["project_key"], key["session_id"])
        await self._transcripts.drop(prefix)
        await self._entries.drop(prefix)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of the transcripts of a session."""
        prefix = key_of(key["project_key"], key["session_id"])
        return [
            str(transcript["subpath"])
            async for transcript in self._transcripts_of(prefix)
            if transcript["subpath"]
        ]

    async def _transcripts_of(self, prefix: str) -> AsyncGenerator[JsonObject]:
        async for _, value in self._transcripts.scan(prefix):
            yield cast(JsonObject, value)


def _name(key: SessionKey) -> str:
    return key_of(key["project_key"], key["session_id"], key.get("subpath", ""))


def _count(transcript: JsonValue) -> int:
    """Return the number of appends of a transcript, as far as it knows."""
    return cast(int, transcript["count"]) if isinstance(transcript, dict) else 0


def _summary_of(transcript: JsonObject) -> SessionSummaryEntry | None:
    text = transcript.get("summary")
    return None if text is None else json.loads(str(text))


def _parse(value: JsonValue) -> list[SessionStoreEntry]:
    # Text: entries may hold what no JSON document of the store can, such as half of a surrogate pair.
    return json.loads(str(value))
