"""Port of the catalogue: the row of a session and of a run, and which sessions are due."""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from windlass.ports.journal import Standing
from windlass_protocol import RunStatus
from windlass_protocol.frozen import frozen


@frozen
class RunRow:
    """A run in the catalogue."""

    run_id: str
    session_id: str
    agent_id: str
    fingerprint: str
    status: RunStatus
    first_seq: int
    """The position of the append that first named it; 0 while it is only in the inbox."""
    last_seq: int
    """The last record of its session, read together with the row."""
    owner: str | None
    """The owner of its session."""


@frozen
class OpenRuns:
    """Unfinished runs of one agent that stand alike."""

    agent_id: str
    fingerprint: str
    """That of their package: the version of the agent."""
    status: RunStatus
    count: int
    oldest_at: str
    """When the oldest of them was asked for or began; empty if that is not known."""


def count_by_agent(groups: Iterable[OpenRuns]) -> Mapping[str, int]:
    """Return the number of unfinished runs of each agent."""
    counts: dict[str, int] = {}
    for group in groups:
        counts[group.agent_id] = counts.get(group.agent_id, 0) + group.count
    return counts


@frozen
class SessionRow:
    """A session in the catalogue."""

    session_id: str
    standing: Standing
    last_seq: int
    epoch: int
    wake_at_ms: int | None
    owner_id: str | None


class Catalog(Protocol):
    """Runs and sessions, without their records."""

    async def run(self, run_id: str) -> RunRow | None:
        """Return a run; None if it does not exist."""
        ...

    async def session(self, session_id: str) -> SessionRow | None:
        """Return a session; None if it does not exist."""
        ...

    async def is_deleted(self, session_id: str) -> bool:
        """Return whether a session was deleted, so that it never exists again."""
        ...

    async def sessions(self, *, after: str | None = None, limit: int = 100) -> tuple[SessionRow, ...]:
        """Return sessions in the order of their ids, after the given one."""
        ...

    async def due(
        self, *, now_ms: int, limit: int = 100, agents: Collection[str] | None = None
    ) -> tuple[str, ...]:
        """Return sessions that must be driven now and have no living owner.

        These are the running ones, those with items in their inbox, and waiting ones with a past wake time;
        those that waited longest come first. A start in the inbox of a waiting session does not count: it has
        to wait as well. With `agents`, sessions are excluded if their next work is a run of another agent:
        the current run, or else the oldest one in the inbox. Sessions with a cancel in their inbox are
        included: every process can end a run.
        """
        ...

    async def open_runs(self) -> tuple[OpenRuns, ...]:
        """Return the unfinished runs, counted by agent, package and status."""
        ...

    async def next_wake_ms(self) -> int | None:
        """Return the earliest wake time of a waiting session; None if there is none."""
        ...
