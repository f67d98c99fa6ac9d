"""Port of the run index of the recorder."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from windlass_protocol.frozen import sealed

if TYPE_CHECKING:
    from windlass_harness.record import Record

T = TypeVar("T")

RUN: Final = "run"
"""Facts of kind: runs by status."""
NODE: Final = "node"
"""Facts of kind: decisions by the part of the agent that made them."""
NODE_TYPE: Final = "node_type"
"""Facts of kind: decisions by part and by choice."""
TYPE: Final = "type"
"""Facts of kind: decisions by choice."""
CHOICE: Final = "choice"
"""Facts of kind: decisions by intention and by the chosen option."""
CAUSE: Final = "cause"
"""Facts of kind: failed decisions by their normalised error."""
TOOL: Final = "tool"
"""Facts of kind: decisions to call a tool or a subagent, by its name."""


@sealed
class Fact:
    """One count that a run contributes."""

    kind: str
    name: str
    detail: str = ""
    total: int = 0
    succeeded: int = 0
    failed: int = 0
    tokens: int = 0
    latency_ms: int = 0
    example: str = ""
    """The text of the first occurrence."""


@sealed
class IndexedRun:
    """A run in the index."""

    run_id: str
    session_id: str
    goal_id: str
    status: str
    started_at: str
    last_at: str
    """The time of its newest record."""
    writer: str
    """The id of the recording process; empty for a run that the runtime itself journals."""
    summary: bytes
    owner: str = ""
    """The owner of its session; empty if it has none."""
    agent_id: str = ""


@sealed
class RunLook:
    """A filter of runs; None matches any run."""

    owner: str | None = None
    agent_id: str | None = None
    since: str | None = None
    """Runs that started at this time or later."""
    until: str | None = None
    """Runs that started before this time."""


class NumberedRow(NamedTuple):
    """A record before it is in the journal, numbered by its writer."""

    session_id: str
    seq: int
    body: bytes


def by_session(rows: Iterable[NumberedRow]) -> dict[str, list[NumberedRow]]:
    """Group records by session, in the given order."""
    sessions: dict[str, list[NumberedRow]] = {}
    for row in rows:
        sessions.setdefault(row.session_id, []).append(row)
    return sessions


class RunIndex(Protocol):
    """Finds and counts recorded runs; it can be rebuilt from the journal at any time.

    All methods are called inside `RunStore.write`.
    """

    def prepare(self) -> int:
        """Create the index if needed; return the position up to which it is complete."""
        ...

    def advance(self, changed: Mapping[str, int], position: int) -> None:
        """Mark sessions with new records as stale, up to a position."""
        ...

    def stale(self, limit: int) -> Mapping[str, int]:
        """Return sessions that must be read again, with the position to read up to."""
        ...

    def settle(self, read: Mapping[str, int]) -> None:
        """Record the positions up to which sessions were read; sessions with newer records stay stale."""
        ...

    def position_of(self, session_id: str) -> int:
        """Return the position up to which the runs of a session are indexed."""
        ...

    def put(self, run: IndexedRun, facts: Sequence[Fact], *, position: int) -> None:
        """Store a run as of a position, replacing its earlier state."""
        ...

    def run(self, run_id: str) -> IndexedRun | None:
        """Return a run; None if it is unknown."""
        ...

    def of_goal(self, goal_id: str, limit: int) -> tuple[IndexedRun, ...]:
        """Return the runs of a goal, newest first."""
        ...

    def of_status(self, status: str, limit: int) -> tuple[IndexedRun, ...]:
        """Return runs of a status, newest first."""
        ...

    def find_runs(self, look: RunLook, limit: int) -> tuple[IndexedRun, ...]:
        """Return runs, newest first."""
        ...

    def failing(self, look: RunLook, kind: str, *, enough: int, limit: int) -> tuple[Fact, ...]:
        """Return the counts of failures over the matching runs by their rate, the worst first; names with
        fewer occurrences than `enough` come last."""
        ...

    def over_time(self, look: RunLook, kind: str, *, bucket_s: int) -> tuple[tuple[int, Fact], ...]:
        """Return the counts of the matching runs by the interval of their start, from `wanted.since` on."""
        ...

    def totals(self, goal_id: str, kind: str, *, limit: int) -> tuple[Fact, ...]:
        """Return the counts over all runs of a goal, largest first."""
        ...

    def of_name(self, kind: str, name: str) -> tuple[Fact, ...]:
        """Return the counts of a name, by goal."""
        ...


class RunStore(Protocol):
    """A synchronous journal with an index of its runs, for callers without an event loop."""

    @property
    def index(self) -> RunIndex:
        """The index of the runs."""
        ...

    def take_in(self, rows: Iterable[NumberedRow]) -> None:
        """Write records to the journal; records that it has already are skipped."""
        ...

    def write(self, work: Callable[[], T]) -> T:
        """Run a function on the index in one transaction."""
        ...

    def drain(self) -> None:
        """Import the records that the writers of all processes have spooled so far."""
        ...

    def is_living(self, writer: str) -> bool:
        """Return whether a recording process is alive."""
        ...

    def records(self, session_id: str) -> "Iterator[Record]":
        """Yield all records of a session in order; raises Corrupt if they are damaged."""
        ...

    def last_position(self) -> int:
        """Return the position of the newest record."""
        ...

    def sessions_after(self, after: int) -> Mapping[str, int]:
        """Return the sessions with records after a position, with the last position of each."""
        ...

    def close(self) -> None:
        """Close the journal."""
        ...
