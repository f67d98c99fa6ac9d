"""Documents and storages for the tests of the storage port."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import psycopg
from pydantic import JsonValue

from tools.postgres import Postgres
from windlass.storage.adapter import DocumentPage, StorageAdapter
from windlass.storage.memory import InMemoryStorage
from windlass.storage.sqlalchemy import METADATA, SqlAlchemyStorage
from windlass_protocol import (
    AgentSession,
    ChatAgent,
    ChatMessage,
    HarnessTrace,
    TraceEvent,
    TraceSpan,
)

T = TypeVar("T")
AT = "2026-01-31T09:30:00.250Z"
TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere to open storages, all of them on the same data unless it is memory."""

    name: str
    url: str | None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[StorageAdapter]:
        storage = InMemoryStorage() if self.url is None else await SqlAlchemyStorage.open(self.url)
        try:
            yield storage
        finally:
            await storage.aclose()


def run(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end; one that hangs fails."""

    async def guarded() -> T:
        async with asyncio.timeout(TIMEOUT_S):
            return await work

    return asyncio.run(guarded())


def sqlite_place(folder: Path) -> Place:
    return Place("sqlite", f"sqlite:///{folder / 'storage.db'}")


@cache
def _shared_database(server: Postgres) -> str:
    address = server.new_database()

    async def create() -> None:
        await (await SqlAlchemyStorage.open(address)).aclose()

    run(create())
    return address


def postgres_place(server: Postgres) -> Place:
    """One database for all tests, empty for each of them."""
    address = _shared_database(server)
    names = ", ".join(METADATA.tables.keys() - {"windlass_storage"})
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"TRUNCATE {names}".encode())
    return Place("postgres", address)


def session(session_id: str = "s1", /, **fields: JsonValue) -> AgentSession:
    known: dict[str, JsonValue] = {
        "sessionId": session_id,
        "userId": "ada",
        "chatId": "c1",
        "currentStage": "PLANNING",
        "isActive": True,
        "createdAt": AT,
        "updatedAt": AT,
    }
    return AgentSession.model_validate({**known, **fields})


def agent(agent_id: str = "a1", /, **fields: JsonValue) -> ChatAgent:
    known: dict[str, JsonValue] = {"id": agent_id, "name": "Helper", "createdAt": AT, "updatedAt": AT}
    return ChatAgent.model_validate({**known, **fields})


def message(message_id: str = "m1", /, **fields: JsonValue) -> ChatMessage:
    known: dict[str, JsonValue] = {
        "id": message_id,
        "role": "user",
        "content": "hello",
        "createdAt": AT,
        "chatId": "c1",
    }
    return ChatMessage.model_validate({**known, **fields})


def trace(trace_id: str = "t1", /, **fields: JsonValue) -> HarnessTrace:
    known: dict[str, JsonValue] = {
        "traceId": trace_id,
        "sessionId": "s1",
        "chatId": "c1",
        "userId": "ada",
        "startedAt": AT,
    }
    return HarnessTrace.model_validate({**known, **fields})


def span(span_id: str = "p1", /, **fields: JsonValue) -> TraceSpan:
    return TraceSpan.model_validate({"spanId": span_id, "name": "llm.complete", "startAt": AT, **fields})


def event(event_id: str = "e1", /, **fields: JsonValue) -> TraceEvent:
    known: dict[str, JsonValue] = {"eventId": event_id, "spanId": "p1", "name": "policy.denied", "at": AT}
    return TraceEvent.model_validate({**known, **fields})


def moment(second: int) -> str:
    """A timestamp; later for larger numbers, up to an hour."""
    return f"2026-03-01T10:{second // 60:02}:{second % 60:02}Z"


async def everything(list_page: Callable[[str | None], Awaitable[DocumentPage[T]]]) -> list[list[T]]:
    """All pages of a list, each as a list."""
    page = await list_page(None)
    pages = [list(page)]
    while page.next_cursor is not None:
        page = await list_page(page.next_cursor)
        pages.append(list(page))
    return pages
