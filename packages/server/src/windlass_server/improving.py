"""Proposals to change agents: what takes long is done behind the answer."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Final, Literal

from windlass import AgentError, AgentRuntime
from windlass.ledger import Builder
from windlass_server.limits import RETRY_MS, WORKS_KEPT_MAX, WORKS_MAX
from windlass_server.problems import Problem
from windlass_server.settings import ImproveSettings

_LOG: Final = logging.getLogger("windlass.server")


@dataclass(frozen=True, slots=True)
class Work:
    """A proposal that is being made or tried, or could not be."""

    proposal_id: str
    kind: Literal["propose", "check"]
    started_at: str
    goal_id: str | None = None
    agent_id: str | None = None
    status: Literal["working", "failed"] = "working"
    problem: str | None = None
    """Why it failed."""


class Improving:
    """The Builder of a tenant, and what it is at."""

    def __init__(self, runtime: AgentRuntime, settings: ImproveSettings) -> None:
        self.builder: Final = Builder(settings.model, runtime=runtime, goals=settings.goals)
        self._works: OrderedDict[tuple[str, str], Work] = OrderedDict()
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    @property
    def working(self) -> int:
        """How much is under way."""
        return len(self._tasks)

    @property
    def works(self) -> tuple[Work, ...]:
        """What is under way or has failed, the newest first."""
        return tuple(reversed(self._works.values()))

    def begin(self, work: Work, job: Callable[[], Coroutine[object, object, object]]) -> None:
        """Begin something, unless it is under way.

        Raises:
            Problem: too much is under way.
        """
        key = (work.proposal_id, work.kind)
        if key in self._tasks:
            return
        if len(self._tasks) >= WORKS_MAX:
            words = f"{WORKS_MAX} proposals are being made or tried, the limit: come back later"
            raise Problem(503, words, retry_s=RETRY_MS // 1000)
        self._works.pop(key, None)
        self._works[key] = work
        while len(self._works) > WORKS_KEPT_MAX:
            self._works.popitem(last=False)
        self._tasks[key] = asyncio.create_task(self._do(key, job))

    async def _do(self, key: tuple[str, str], job: Callable[[], Coroutine[object, object, object]]) -> None:
        problem = None
        try:
            await job()
        except AgentError as error:
            problem = error.info().message
        except Exception:  # noqa: BLE001 - the server boundary: nobody waits for this task
            _LOG.exception("a proposal could not be worked on")
            problem = "the server failed; its log has more"
        finally:
            del self._tasks[key]
            work = self._works.pop(key, None)
        if problem is not None and work is not None:
            self._works[key] = replace(work, status="failed", problem=problem)

    async def aclose(self) -> None:
        """Let go of everything; what was under way is begun again by the same request."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.builder.aclose()
