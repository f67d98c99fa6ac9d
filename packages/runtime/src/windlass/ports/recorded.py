"""Port of the run index of the recorder."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from windlass_protocol import Record

T = TypeVar("T")

RUN: Final = "run"
"""Runs by their status."""
NODE: Final = "node"
"""Decisions by the part of the agent that made them."""
NODE_TYPE: Final = "node_type"
"""… and by what was chosen."""
TYPE: Final = "type"
"""Decisions by what was chosen."""
CHOICE: Final = "choice"
"""Decisions by what was wanted, and by the option that was taken."""
CAUSE: Final = "cause"
"""Failed decisions by what their error comes down to."""
TOOL: Final = "tool"
"""Decisions to call a tool or a subagent, by its name."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What a run adds to the count of something."""

    kind: str
    name: str
    detail: str = ""
    total: int = 0
    succeeded: int = 0
    failed: int = 0
    tokens: int = 0
    latency_ms: int = 0
    example: str = ""
    """How the first of them was put."""


@dataclass(frozen=True, slots=True)
class IndexedRun:
    """A run as the index finds it."""

    run_id: str
    session_id: str
    goal_id: str
    status: str
    started_at: str
    last_at: str
    """When the newest record of it was written."""
    writer: str
    """Who records it; empty for a run that nobody records from outside."""
    summary: bytes
    owner: str = ""
    """Of its session; empty if nobody said so."""
    agent_id: str = ""


@dataclass(frozen=True, slots=True)
class RunLook:
    """Which runs somebody wants to look at; None means any."""

    owner: str | None = None
    agent_id: str | None = None
    since: str | None = None
    """Those that began then or later."""
    until: str | None = None
    """Those that began before."""


class NumberedRow(NamedTuple):
    """A record as it will be in the journal, numbered by its maker."""

    session_id: str
    seq: int
    body: bytes


def by_session(rows: Iterable[NumberedRow]) -> dict[str, list[NumberedRow]]:
    """Return records by their sessions, each in the order given."""
    sessions: dict[str, list[NumberedRow]] = {}
    for row in rows:
        sessions.setdefault(row.session_id, []).append(row)
    return sessions


class RunIndex(Protocol):
    """Where recorded runs are found and counted; can be made anew at any time.

    Everything is called inside `RunStore.write`.
    """

    def prepare(self) -> int:
        """Make the index if need be; return the position up to which it knows runs."""
        ...

    def advance(self, changed: Mapping[str, int], position: int) -> None:
        """Note which sessions have records behind what is known of them, up to a position."""
        ...

    def stale(self, limit: int) -> Mapping[str, int]:
        """Return sessions that have to be read again, and up to where."""
        ...

    def settle(self, read: Mapping[str, int]) -> None:
        """Note up to where sessions were read; those with more behind stay stale."""
        ...

    def known_position(self, session_id: str) -> int:
        """Return up to where the runs of a session are known."""
        ...

    def put(self, run: IndexedRun, facts: Sequence[Fact], *, position: int) -> None:
        """Keep a run as it is at a position, instead of what was known of it."""
        ...

    def run(self, run_id: str) -> IndexedRun | None:
        """Return a run; None if there is none."""
        ...

    def of_goal(self, goal_id: str, limit: int) -> tuple[IndexedRun, ...]:
        """Return the runs of a goal, newest first."""
        ...

    def of_status(self, status: str, limit: int) -> tuple[IndexedRun, ...]:
        """Return runs of a status, newest first."""
        ...

    def looked_at(self, wanted: RunLook, limit: int) -> tuple[IndexedRun, ...]:
        """Return runs, newest first."""
        ...

    def failing(self, wanted: RunLook, kind: str, *, limit: int) -> tuple[Fact, ...]:
        """Return the counts over some runs of what failed in them, the worst first."""
        ...

    def totals(self, goal_id: str, kind: str, *, limit: int) -> tuple[Fact, ...]:
        """Return the counts over all runs of a goal, the largest first."""
        ...

    def of_name(self, kind: str, name: str) -> tuple[Fact, ...]:
        """Return the counts of a name, for each goal."""
        ...


class RunStore(Protocol):
    """A journal for callers without an event loop, and the index of the runs in it."""

    @property
    def index(self) -> RunIndex:
        """The index of the runs."""
        ...

    def take_in(self, rows: Iterable[NumberedRow]) -> None:
        """Bring records into the journal; those that are there already are left out."""
        ...

    def write(self, work: Callable[[], T]) -> T:
        """Do something with the index, all of it or nothing."""
        ...

    def drain(self) -> None:
        """Bring in what writers of all processes have written down so far."""
        ...

    def is_living(self, writer: str) -> bool:
        """Tell whether somebody who records is alive."""
        ...

    def records(self, session_id: str) -> "Iterator[Record]":
        """Return all records of a session in order; Corrupt if they are damaged."""
        ...

    def last_position(self) -> int:
        """Return the position of the newest record."""
        ...

    def changed(self, after: int) -> Mapping[str, int]:
        """Return the sessions with records behind a position, and where each ends."""
        ...

    def close(self) -> None:
        """Let go of the journal."""
        ...
