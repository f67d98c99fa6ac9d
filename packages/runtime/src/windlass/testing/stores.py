"""Stores for tests: failpoints, injected faults, wrapped stores."""

import os
import signal
from asyncio import get_running_loop
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from threading import Lock
from typing import Final, Literal, Protocol, TypeVar

from windlass.engine.driving.engine import SharedStore
from windlass.errors import Ambiguous, Unavailable
from windlass.ports.archive import KeptItem, SessionCopy, StoredAppend
from windlass.ports.catalog import OpenRuns, RunRow, SessionRow
from windlass.ports.clock import Clock, Random
from windlass.ports.documents import Document
from windlass.ports.inbox import Arrivals, InboxItem, NewRun, Posted
from windlass.ports.journal import Appended, Batch, Claim
from windlass.ports.listing import (
    NEWEST_FIRST,
    NEWEST_SESSIONS,
    CountFilter,
    OpenRequest,
    RefusedStart,
    RunCounts,
    RunFilter,
    RunInfo,
    RunOrder,
    SessionFilter,
    SessionInfo,
    SessionOrder,
    SettledRequest,
    Waiting,
)
from windlass.ports.purses import CallAsk, CallGrant, CallRefusal, PurseState, PurseStore
from windlass.ports.store import ContentStore, Store
from windlass_harness.record import Record
from windlass_protocol import ContentRef, ErrorKind, JsonObject, RetryClass
from windlass_protocol.frozen import sealed

T = TypeVar("T")

WRITES: Final = frozenset(
    {
        "claim",
        "append",
        "post",
        "enlist",
        "retire",
        "save",
        "put",
        "keep",
        "delete",
        "record_refusal",
        "put_document",
        "drop_document",
        "hold_call",
        "purses",
    }
)
"""The methods that write."""


class FullStore(Store, ContentStore, PurseStore, Protocol):
    """Every port that a store has."""


class WrappedStore:
    """A `Store` and `ContentStore` that forwards every call; override `_pass`."""

    def __init__(self, inner: FullStore) -> None:
        self.inner = inner

    async def _pass(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        """Forward a call to the inner store."""
        return await call()

    async def claim(self, session_id: str, owner_id: str, *, now_ms: int) -> Claim:
        return await self._pass("claim", lambda: self.inner.claim(session_id, owner_id, now_ms=now_ms))

    async def append(self, batch: Batch) -> Appended:
        return await self._pass("append", lambda: self.inner.append(batch))

    async def hold_call(self, ask: CallAsk) -> CallGrant | CallRefusal:
        return await self._pass("hold_call", lambda: self.inner.hold_call(ask))

    async def purses(self, names: Sequence[str]) -> tuple[PurseState, ...]:
        return await self._pass("purses", lambda: self.inner.purses(names))

    async def read(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        return await self._pass("read", lambda: self.inner.read(session_id, after=after, limit=limit))

    async def milestones(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        return await self._pass(
            "milestones", lambda: self.inner.milestones(session_id, after=after, limit=limit)
        )

    async def post(
        self, session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None = None
    ) -> Posted:
        return await self._pass(
            "post", lambda: self.inner.post(session_id, kind=kind, key=key, body=body, run=run)
        )

    async def pending(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[InboxItem, ...]:
        return await self._pass("pending", lambda: self.inner.pending(session_id, after=after, limit=limit))

    async def arrivals(self, *, after: int) -> Arrivals:
        return await self._pass("arrivals", lambda: self.inner.arrivals(after=after))

    async def run(self, run_id: str) -> RunRow | None:
        return await self._pass("run", lambda: self.inner.run(run_id))

    async def session(self, session_id: str) -> SessionRow | None:
        return await self._pass("session", lambda: self.inner.session(session_id))

    async def is_deleted(self, session_id: str) -> bool:
        return await self._pass("is_deleted", lambda: self.inner.is_deleted(session_id))

    async def sessions(self, *, after: str | None = None, limit: int = 100) -> tuple[SessionRow, ...]:
        return await self._pass("sessions", lambda: self.inner.sessions(after=after, limit=limit))

    async def due(
        self, *, now_ms: int, limit: int = 100, agents: Collection[str] | None = None
    ) -> tuple[str, ...]:
        return await self._pass("due", lambda: self.inner.due(now_ms=now_ms, limit=limit, agents=agents))

    async def open_runs(self) -> tuple[OpenRuns, ...]:
        return await self._pass("open_runs", self.inner.open_runs)

    async def put_document(self, document: Document) -> None:
        await self._pass("put_document", lambda: self.inner.put_document(document))

    async def drop_document(self, document: Document) -> None:
        await self._pass("drop_document", lambda: self.inner.drop_document(document))

    async def document(self, kind: str, name: str) -> Document | None:
        return await self._pass("document", lambda: self.inner.document(kind, name))

    async def documents(
        self, kind: str, *, after: str | None = None, limit: int = 100
    ) -> tuple[Document, ...]:
        return await self._pass("documents", lambda: self.inner.documents(kind, after=after, limit=limit))

    async def due_documents(self, kind: str, *, now_ms: int, limit: int = 100) -> tuple[Document, ...]:
        return await self._pass(
            "due_documents", lambda: self.inner.due_documents(kind, now_ms=now_ms, limit=limit)
        )

    async def next_document_ms(self, kind: str) -> int | None:
        return await self._pass("next_document_ms", lambda: self.inner.next_document_ms(kind))

    async def next_wake_ms(self) -> int | None:
        return await self._pass("next_wake_ms", self.inner.next_wake_ms)

    async def enlist(self, owner_id: str, *, now_ms: int) -> None:
        await self._pass("enlist", lambda: self.inner.enlist(owner_id, now_ms=now_ms))

    async def retire(self, owner_id: str) -> None:
        await self._pass("retire", lambda: self.inner.retire(owner_id))

    async def living(self, *, now_ms: int) -> frozenset[str]:
        return await self._pass("living", lambda: self.inner.living(now_ms=now_ms))

    async def read_all(self, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        return await self._pass("read_all", lambda: self.inner.read_all(after=after, limit=limit))

    async def last_position(self) -> int:
        return await self._pass("last_position", self.inner.last_position)

    async def save(self, session_id: str, seq: int, *, state: bytes) -> None:
        await self._pass("save", lambda: self.inner.save(session_id, seq, state=state))

    async def load(self, session_id: str) -> tuple[int, bytes] | None:
        return await self._pass("load", lambda: self.inner.load(session_id))

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        return await self._pass(
            "put", lambda: self.inner.put(content, media_type=media_type, session_id=session_id)
        )

    async def get(self, ref: ContentRef) -> bytes:
        return await self._pass("get", lambda: self.inner.get(ref))

    async def list_sessions(
        self, where: SessionFilter, *, order: SessionOrder = NEWEST_SESSIONS, limit: int = 50
    ) -> tuple[SessionInfo, ...]:
        return await self._pass(
            "list_sessions", lambda: self.inner.list_sessions(where, order=order, limit=limit)
        )

    async def session_info(self, session_id: str) -> SessionInfo | None:
        return await self._pass("session_info", lambda: self.inner.session_info(session_id))

    async def list_runs(
        self, where: RunFilter, *, order: RunOrder = NEWEST_FIRST, limit: int = 50
    ) -> tuple[RunInfo, ...]:
        return await self._pass("list_runs", lambda: self.inner.list_runs(where, order=order, limit=limit))

    async def count_listed(self, where: SessionFilter, *, most: int) -> int:
        return await self._pass("count_listed", lambda: self.inner.count_listed(where, most=most))

    async def count_listed_runs(self, where: RunFilter, *, most: int) -> int:
        return await self._pass("count_listed_runs", lambda: self.inner.count_listed_runs(where, most=most))

    async def list_requests(
        self, *, owner: str | None = None, responders: Collection[str] = (), after: int = 0, limit: int = 50
    ) -> tuple[OpenRequest, ...]:
        return await self._pass(
            "list_requests",
            lambda: self.inner.list_requests(owner=owner, responders=responders, after=after, limit=limit),
        )

    async def find_request(self, request_id: str) -> OpenRequest | SettledRequest | None:
        return await self._pass("find_request", lambda: self.inner.find_request(request_id))

    async def record_refusal(self, refused: RefusedStart) -> None:
        await self._pass("record_refusal", lambda: self.inner.record_refusal(refused))

    async def list_refusals(
        self,
        *,
        owner: str | None = None,
        agent_id: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> tuple[RefusedStart, ...]:
        return await self._pass(
            "list_refusals",
            lambda: self.inner.list_refusals(owner=owner, agent_id=agent_id, before=before, limit=limit),
        )

    async def run_counts(self, where: CountFilter) -> RunCounts:
        return await self._pass("run_counts", lambda: self.inner.run_counts(where))

    async def waiting(self, *, owner: str | None = None, agent_id: str | None = None) -> Waiting:
        return await self._pass("waiting", lambda: self.inner.waiting(owner=owner, agent_id=agent_id))

    async def appends(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[StoredAppend, ...]:
        return await self._pass("appends", lambda: self.inner.appends(session_id, after=after, limit=limit))

    async def read_items(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[KeptItem, ...]:
        return await self._pass(
            "read_items", lambda: self.inner.read_items(session_id, after=after, limit=limit)
        )

    async def contents_of(self, session_id: str) -> tuple[ContentRef, ...]:
        return await self._pass("contents_of", lambda: self.inner.contents_of(session_id))

    async def keep(self, copy: SessionCopy) -> None:
        await self._pass("keep", lambda: self.inner.keep(copy))

    async def delete(self, session_id: str, *, now_ms: int, idle_since: str | None = None) -> tuple[str, ...]:
        return await self._pass(
            "delete", lambda: self.inner.delete(session_id, now_ms=now_ms, idle_since=idle_since)
        )

    async def change_token(self) -> int:
        """Return the change token of the inner store; 0 if it has none."""
        return await self.inner.change_token() if isinstance(self.inner, SharedStore) else 0

    async def aclose(self) -> None:
        await self.inner.aclose()


def end_process(name: str) -> None:
    """End the process at once, like a crash: nothing is written, closed or logged."""
    os.kill(os.getpid(), signal.SIGKILL)


class Failpoints:
    """Counts the failpoints that a program passes, and acts at one of them.

    Failpoints are counted, not timed: the same program with the same number stops at the same place. Any
    thread may pass one. Run once without a number to learn from `passed` how many there are.
    """

    def __init__(self, at: int | None = None, *, act: Callable[[str], None] = end_process) -> None:
        if at is not None and at < 1:
            raise ValueError(f"failpoints are numbered from 1, found {at}")
        self._at = at
        self._act = act
        self._lock = Lock()
        self.passed: list[str] = []
        """The names of all passed failpoints, in order."""

    def hit(self, name: str) -> None:
        """Pass a failpoint."""
        with self._lock:
            self.passed.append(name)
            is_it = len(self.passed) == self._at
        if is_it:
            self._act(name)


class FailpointStore(WrappedStore):
    """A store with three failpoints around every call.

    `… asked`: nothing has happened. `… done`: it has happened, and the caller does not know. `… told`: the
    caller knows, and has continued until its next wait.
    """

    def __init__(self, inner: FullStore, points: Failpoints) -> None:
        super().__init__(inner)
        self.points = points

    async def _pass(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        self.points.hit(f"{name} asked")
        result = await call()
        self.points.hit(f"{name} done")
        get_running_loop().call_soon(self.points.hit, f"{name} told")
        return result


Fault = Literal["refuse", "lose", "hide", "slow"]


@sealed
class FaultRates:
    """The probability of each fault, from 0 to 1; at most 1 together."""

    refuse: float = 0.05
    """Nothing happens, and the call raises Unavailable."""
    lose: float = 0.05
    """Nothing happens, and the call raises Ambiguous."""
    hide: float = 0.05
    """It happens, and the call raises Ambiguous."""
    slow: float = 0.05
    """It happens after a delay."""
    delay_s: float = 10.0


DEFAULT_RATES: Final = FaultRates()


class FaultyStore(WrappedStore):
    """A store with random faults, from a seed.

    `calls` counts the calls, `faults` the injected faults. A read cannot be half done: where a write would be
    lost or hidden, a read is refused.
    """

    def __init__(
        self, inner: FullStore, *, random: Random, clock: Clock, rates: FaultRates = DEFAULT_RATES
    ) -> None:
        super().__init__(inner)
        self._random = random
        self._clock = clock
        self._rates = rates
        self.calls: Counter[str] = Counter()
        self.faults: Counter[Fault] = Counter()
        self.is_faulty = True
        """False turns the faults off."""

    async def _pass(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        self.calls[name] += 1
        match self._draw(name):
            case "refuse":
                raise _refusal(name)
            case "lose":
                raise _in_doubt(name)
            case "hide":
                await call()
                raise _in_doubt(name)
            case "slow":
                await self._clock.sleep(self._rates.delay_s)
            case None:
                pass
        return await call()

    def _draw(self, name: str) -> Fault | None:
        if not self.is_faulty:
            return None
        chance, rates = self._random(), self._rates
        odds: tuple[tuple[Fault, float], ...] = (
            ("refuse", rates.refuse),
            ("lose", rates.lose),
            ("hide", rates.hide),
            ("slow", rates.slow),
        )
        for fault, rate in odds:
            if chance < rate:
                injected: Fault = "refuse" if fault in ("lose", "hide") and name not in WRITES else fault
                self.faults[injected] += 1
                return injected
            chance -= rate
        return None


def _refusal(name: str) -> Unavailable:
    return Unavailable(
        f"{name} was refused by the faulty store: nothing happened",
        kind=ErrorKind.JOURNAL_FAILURE,
        retry=RetryClass.RETRYABLE,
    )


def _in_doubt(name: str) -> Ambiguous:
    return Ambiguous(
        f"{name} timed out in the faulty store: it may have happened",
        kind=ErrorKind.JOURNAL_FAILURE,
        retry=RetryClass.REPAIR_NEEDED,
    )
