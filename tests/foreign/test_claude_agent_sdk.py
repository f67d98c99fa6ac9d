"""Sessions of the Claude Agent SDK on each store."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.stores import AnyStore, Play

pytest.importorskip("claude_agent_sdk", reason="make foreign installs claude-agent-sdk")

from claude_agent_sdk.testing import run_session_store_conformance

from windlass.adapters.journals.memory import MemoryStore
from windlass.foreign.claude_agent_sdk import WindlassSessionStore
from windlass.foreign.values import Values

KEY: Any = {"project_key": "p/1", "session_id": "s"}


def test_the_conformance_suite_passes(tmp_path: Path) -> None:
    async def main() -> None:
        await run_session_store_conformance(lambda: WindlassSessionStore(MemoryStore()))
        numbers = count()
        async with asyncio.timeout(300):
            opened: list[Any] = []

            async def on_sqlite() -> WindlassSessionStore:
                context = WindlassSessionStore.open(tmp_path / f"{next(numbers)}.db")
                opened.append(context)
                return await context.__aenter__()

            await run_session_store_conformance(on_sqlite)
            for context in opened:
                await context.__aexit__(None, None, None)

    asyncio.run(main())


def test_appends_of_several_processes_are_all_there_in_the_order_of_each(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        async def write(sessions: WindlassSessionStore, name: str) -> None:
            for number in range(10):
                await sessions.append(KEY, [{"type": name, "uuid": f"{name}{number}"}])

        await asyncio.gather(write(WindlassSessionStore(store), "a"), write(WindlassSessionStore(other), "b"))
        entries = await WindlassSessionStore(other).load(KEY)
        assert entries is not None
        for name in "ab":
            ids = [entry.get("uuid") for entry in entries if entry["type"] == name]
            assert ids == [f"{name}{number}" for number in range(10)]

    play(story)


def test_a_retried_append_is_read_once_and_any_text_comes_back(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        sessions = WindlassSessionStore(store)
        batch: Any = [{"type": "x", "uuid": "1", "text": "\ud83d " + "y" * 400_000}, {"type": "title"}]
        await sessions.append(KEY, batch)
        await sessions.append(KEY, batch)
        assert await WindlassSessionStore(other).load(KEY) == [*batch, {"type": "title"}]
        await sessions.delete(KEY)
        for kind in ("claude-entries", "claude-entries-part", "claude-transcript"):
            assert await store.documents(kind) == ()

    play(story)


def test_an_append_whose_process_died_is_in_the_next_summary() -> None:
    async def main() -> None:
        store = MemoryStore()
        sessions = WindlassSessionStore(store)

        class Dead(Exception):
            pass

        async def die(*_: object) -> None:
            raise Dead

        lost: Any = [{"type": "user", "timestamp": "2026-01-01T00:00:00Z", "customTitle": "kept"}]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Values, "change", die)
            with pytest.raises(Dead):
                await sessions.append(KEY, lost)
        await sessions.append(KEY, [{"type": "user", "timestamp": "2026-01-01T00:00:01Z"}])
        [summary] = await sessions.list_session_summaries("p/1")
        assert "kept" in str(summary["data"])
        assert len(await sessions.load(KEY) or []) == 2

    asyncio.run(main())
