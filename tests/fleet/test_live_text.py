"""Live text at processes that do not drive the run: each word is written once the previous one was seen."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

import psycopg
import pytest
from tests.contracts.stores import GUARD_S

from tools.postgres import Postgres
from windlass import Agent, AgentRuntime
from windlass.ports.model import LLMMessage, LLMStreamChunk
from windlass_protocol import Event, FinishReason, JsonObject


class SlowModel:
    """Writes each word when it is told to."""

    route_id = model_id = "slow"

    def __init__(self) -> None:
        self.words: asyncio.Queue[str] = asyncio.Queue()

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        while word := await self.words.get():
            yield LLMStreamChunk(content_delta=word)
        yield LLMStreamChunk(finish_reason=FinishReason.STOP)


def play(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(GUARD_S):
            await work()

    asyncio.run(main())


async def next_text(events: AsyncIterator[Event]) -> str:
    async for event in events:
        if event.type == "message.appended":
            return str(event.data["messageDelta"])
    raise AssertionError("the run ended")


@pytest.mark.promise("F1")
def test_text_is_seen_at_another_process_while_it_is_written(postgres: Postgres) -> None:
    async def work() -> None:
        address, model = postgres.new_database(), SlowModel()
        agent = Agent("slow", model=model)
        async with (
            AgentRuntime.open(address, agents=[agent]) as worker,
            AgentRuntime.open(address, agents=[agent], is_driving=False) as server,
            AgentRuntime.open(address, agents=[agent], is_driving=False) as second,
        ):
            run = await server.start_run(agent, "Write.", session_id="s1", run_id="r1")
            events = run.events()
            for word in ("one ", "two ", "three "):
                await model.words.put(word)
                assert await next_text(events) == word
            late = second.handle("r1").events()
            assert await next_text(late) == "one two three "
            # The connection that carries messages is cut: what was lost meanwhile comes with the next words.
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid() AND query LIKE 'LISTEN%'"
                )
            text = ""
            while not text.endswith("four "):
                await model.words.put("four ")
                text += await next_text(events)
            await model.words.put("")
            assert str((await run.wait()).output).startswith("one two three four ")
            assert worker.registered_run_count == 0

    play(work)
