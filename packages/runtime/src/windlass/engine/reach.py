"""What this process can drive, and what it leaves to others."""

import logging
from collections.abc import Callable, Collection
from typing import Final

from windlass.engine.mail import agent_of
from windlass.engine.mailbox import each_item
from windlass.engine.moments import moment
from windlass.ports.clock import Clock
from windlass.ports.store import CANCEL, COMPACT, START, STEER, Store
from windlass_harness.loop.state import LoopState

_LOG: Final = logging.getLogger(__name__)

LEFT_MS: Final = 30_000
"""How long a session that needs what is not here is left to other processes."""


class Reach:
    """Knows whose agents are here, and which sessions need what is not."""

    def __init__(self, store: Store, clock: Clock, *, agents: Callable[[], Collection[str] | None]) -> None:
        self._store = store
        self._clock = clock
        self._agents = agents
        self._missed: set[str] = set()
        """Agents that are not here and whose runs wait; each is told once."""
        self.left: dict[str, int] = {}
        """Sessions that need what is not here, and until when they are left alone, in milliseconds."""

    def leave(self, session_id: str, why: str) -> None:
        """Leave a session to those who have what it needs, and look again later."""
        if session_id not in self.left:
            _LOG.warning("session %s waits for what is not here: %s", session_id, why)
        self._leave(session_id)

    def _leave(self, session_id: str) -> None:
        self.left[session_id] = moment(self._clock).ms + LEFT_MS

    def has_agent(self, agent_id: str) -> bool:
        """Whether runs of an agent can be driven here."""
        agents = self._agents()
        return agents is None or agent_id in agents

    async def can_drive(self, state: LoopState, session_id: str) -> bool:
        """Whether the run under way, or else the next one, is of an agent that is here."""
        run = state.run
        if run is not None:
            return self.has_agent(run.agent_id) or await self._can_end(session_id, run.run_id)
        if self._agents() is None:
            return True
        missed = None
        async for item in each_item(self._store, session_id):
            if item.kind in (START, STEER) and self.has_agent(agent_of(item)):
                return True
            if item.kind == START:
                return await self._can_end(session_id, str(item.body.get("runId")))
            if item.kind == STEER:
                missed = agent_of(item)
            if item.kind == COMPACT and not self._can_compact(state, session_id):
                return False
        if missed is not None:
            self.leave(session_id, f"agent {missed}, for words that begin a run")
            return False
        return not state.compacting.is_due or self._can_compact(state, session_id)

    async def _can_end(self, session_id: str, run_id: str) -> bool:
        """Whether a run of an agent that is not here is to end, and nobody ends it."""
        items = each_item(self._store, session_id)
        cancelled = {str(item.body.get("runId")) async for item in items if item.kind == CANCEL}
        until_ms, now_ms = self.left.get(session_id), moment(self._clock).ms
        is_due = until_ms is not None and until_ms <= now_ms
        if is_due and run_id in cancelled:
            return True
        if cancelled and (is_due or until_ms is None):
            self._leave(session_id)
        return False

    def _can_compact(self, state: LoopState, session_id: str) -> bool:
        """Whether the agent of the last run is here; if not, its session is left alone."""
        last = state.session.run
        if last is None or self.has_agent(last.agent_id):
            return True
        self.leave(session_id, f"agent {last.agent_id}, for a compaction")
        return False

    async def tell_missed(self) -> None:
        """Say whose runs wait here for a process that has their agent."""
        agents = self._agents()
        if agents is None:
            return
        for agent_id, count in (await self._store.unfinished()).items():
            if agent_id not in self._missed and not self.has_agent(agent_id):
                self._missed.add(agent_id)
                # Whoever has no agents at all only looks and answers: that runs wait is no surprise there.
                level = logging.WARNING if agents else logging.INFO
                told = "1 unfinished run waits" if count == 1 else f"{count} unfinished runs wait"
                _LOG.log(level, "%s for agent %s, which is not here", told, agent_id)
