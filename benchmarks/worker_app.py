"""The agent of the worker whose start is measured; its model writes down the CPU that the process used."""

import os
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from time import process_time

from windlass import Agent, LLMMessage, LLMStreamChunk
from windlass_protocol import JsonObject


class Starter:
    """Writes down when it is asked."""

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        used_s = process_time()
        path = Path(os.environ["BENCH_ASKED"])
        path.with_suffix(".new").write_text(str(used_s), "ascii")
        path.with_suffix(".new").rename(path)
        yield LLMStreamChunk(content_delta="I am here.", finish_reason="stop")


agent = Agent("bench", model=Starter())
