"""What a store in memory holds."""

from dataclasses import dataclass, field

from windlass.adapters.journals.codec import decode_records
from windlass.adapters.journals.faults import CLOSED, deleted, unavailable
from windlass.adapters.journals.memory_index import MemoryIndex
from windlass.adapters.journals.rules import is_in_lease
from windlass.ports.store import RunRow, SessionRow, Standing
from windlass_protocol import ContentRef, Record, RunStatus


@dataclass(frozen=True, slots=True)
class Append:
    session_id: str
    last_seq: int
    last_position: int
    epoch: int
    body: bytes

    def records(self) -> tuple[Record, ...]:
        return decode_records(
            self.body,
            self.session_id,
            last_seq=self.last_seq,
            last_position=self.last_position,
            epoch=self.epoch,
        )


@dataclass(slots=True)
class Item:
    number: int
    session_id: str
    kind: str
    key: str
    body: bytes
    digest: bytes
    is_consumed: bool = False
    consumed_seq: int = 0


@dataclass(slots=True)
class Session:
    row: SessionRow
    last_position: int = 0
    appends: list[Append] = field(default_factory=list[Append])
    items: dict[str, Item] = field(default_factory=dict[str, Item])
    run_count: int = 0
    open_runs: dict[str, RunRow] = field(default_factory=dict[str, RunRow])
    """Runs that have not ended, in the order in which they were posted."""

    @property
    def run_under_way(self) -> RunRow | None:
        """The run that has begun and not ended."""
        return next((run for run in self.open_runs.values() if run.status is not RunStatus.PENDING), None)

    @property
    def next_agent(self) -> str | None:
        """The agent of the run under way, or else of the next one."""
        run = self.run_under_way or next(iter(self.open_runs.values()), None)
        return None if run is None else run.agent_id


class MemoryTables:
    """The data of a store in memory."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._timeline: list[Append] = []
        self._items: list[Item] = []
        self._runs: dict[str, tuple[RunRow, Item]] = {}
        self._owners: dict[str, int] = {}
        self._contents: dict[str, tuple[str, bytes]] = {}
        self._uses: dict[str, set[str]] = {}
        """The contents that were put for each session."""
        self._snapshots: dict[str, tuple[int, bytes]] = {}
        self._deleted: set[str] = set()
        self._position = 0
        """Of the newest record, which may have been deleted."""
        self._index = MemoryIndex()
        self._is_closed = False

    def _check_open(self) -> None:
        if self._is_closed:
            raise unavailable(CLOSED)

    def _new(self, session_id: str) -> Session:
        if session_id in self._deleted:
            raise deleted(session_id)
        row = SessionRow(session_id, Standing.IDLE, last_seq=0, epoch=0, wake_at_ms=None, owner_id=None)
        session = self._sessions[session_id] = Session(row)
        return session

    def _keep_content(self, ref: ContentRef, content: bytes, *, session_id: str | None) -> None:
        """Keep bytes for a session, or for good if none is named."""
        # What is there for nobody, as packages are, stays when a session goes that was given it too.
        self._contents.setdefault(ref.hash, (ref.media_type or "", content))
        self._uses.setdefault(session_id or "", set()).add(ref.hash)

    def _is_alive(self, owner_id: str | None, now_ms: int) -> bool:
        beat = self._owners.get(owner_id or "")
        return beat is not None and is_in_lease(beat, now_ms)
