"""Listening to a model: within its time, whatever it does."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from windlass.engine.answer import Collector, collect
from windlass.engine.cut import Late, Raised, cut
from windlass.limits import MODEL_IDLE_TIMEOUT_MS
from windlass.ports.model import LLMMessage, LLMProvider
from windlass_protocol import JsonObject

LEAVE_S: Final = 0.5
"""How long code that was told to end may take for that, before nobody waits for it any more."""
_IDLE_SLACK: Final = 0.05
"""The part of the idle limit by which it may be too short."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a model is asked."""

    provider: LLMProvider
    messages: Sequence[LLMMessage]
    tools: Sequence[JsonObject] = ()
    temperature: float | None = None


async def listen(
    asked: Asked,
    collector: Collector,
    *,
    most_s: float,
    after_chunk: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Ask the model, and feed its answer to the collector.

    Raises:
        TimeoutError: it was silent, or took, for too long.
    """
    listener = _Listener(most_s)
    work = listener.listen(asked, collector, after_chunk=after_chunk)
    outcome = await cut(work, listener.left_s, is_patient=True)
    listener.is_over = True
    if isinstance(outcome, Late):
        raise TimeoutError
    if isinstance(outcome, Raised):
        raise outcome.error


class _Listener:
    """One call of a model, and how long it may still take."""

    def __init__(self, most_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._latest = self._loop.time() + most_s
        self._idle_s = min(most_s, MODEL_IDLE_TIMEOUT_MS / 1000)
        self._touched = self._loop.time()
        self._limit: asyncio.Timeout | None = None
        self.is_over = False

    def left_s(self) -> float:
        """Return how long to wait before the call is left to itself."""
        return min(self._latest, self._touched + self._idle_s) + LEAVE_S - self._loop.time()

    async def listen(
        self, asked: Asked, collector: Collector, *, after_chunk: Callable[[], Awaitable[None]] | None
    ) -> None:
        async with asyncio.timeout(self._idle_s) as self._limit:
            chunks = asked.provider.stream(
                asked.messages, tools=asked.tools or None, temperature=asked.temperature
            )
            await collect(chunks, collector, on_chunk=self._on_chunk, after_chunk=after_chunk)

    def _on_chunk(self) -> None:
        """Put the limit off with every chunk, not to the millisecond."""
        if self.is_over:
            raise asyncio.CancelledError
        now = self._loop.time()
        if now - self._touched > self._idle_s * _IDLE_SLACK and self._limit is not None:
            self._touched = now
            self._limit.reschedule(min(self._latest, now + self._idle_s))
