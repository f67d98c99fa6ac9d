"""Suspects: sessions of which owners ended again and again, and how the one that ends them is found.

A process that ends takes all its runs with it, and the next one would be ended by the same run. A run whose
effect was interrupted twice, and not always alone, is a suspect: a process drives one suspect at a time. If
that process ends too, the run is not repeated by itself. A suspect that goes on for `TURN_S` lets the next
one begin.

A process that stood still or was cut off loses its sessions as well. It says so when it goes on, and then the
interruption is not held against the run.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final, Protocol

from windlass.errors import AgentError, Conflict
from windlass.limits import WRITES_MAX
from windlass.ports.clock import Clock
from windlass.ports.documents import SURVIVED, Document, Documents
from windlass_harness.loop.outage import crashes
from windlass_harness.loop.state import LoopState
from windlass_harness.loop.take import is_interrupted
from windlass_protocol import JsonObject
from windlass_protocol.frozen import frozen

TURN_S: Final = 2.0
"""How long a suspect is driven before the next one that waits is driven too."""
LOOK_S: Final = 0.1
"""How often it is looked whether a suspect has got past its effect."""
_EPOCHS: Final = "epochs"


@frozen
class Predecessor:
    """What is known of the end of the owner before."""

    is_alone: bool = True
    """Whether no other session was at work."""
    is_suspect: bool = False
    """Whether the session is a suspect, which has to wait for its turn."""
    survived: tuple[int, ...] = ()
    """Epochs of owners that lost the session and went on."""


ALONE: Final = Predecessor()


class SuspectDriver(Protocol):
    """The driver of a suspect."""

    @property
    def state(self) -> LoopState:
        """The state of the session."""
        ...

    def end_isolation(self) -> None:
        """Record that other suspects are driven beside it from now on."""
        ...


class Suspects:
    """The suspects of this process."""

    def __init__(self, store: Documents, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._current: SuspectDriver | None = None
        self._watch: asyncio.Task[None] | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_stopped = False

    async def look(self, state: LoopState, *, is_alone: bool) -> Predecessor:
        """Return what is known of the owner before, of a session that was just claimed."""
        past = crashes(state)
        if not past or state.run is None or not is_interrupted(state, state.epoch):
            return Predecessor(is_alone)
        document = await self._store.document(SURVIVED, state.run.run_id)
        survived = () if document is None else _epochs(document)
        past = tuple(crash for crash in past if crash.epoch not in survived)
        is_suspect = bool(past) and not (is_alone and all(not crash.is_shared for crash in past))
        return Predecessor(is_alone, is_suspect, survived)

    async def note_survival(self, state: LoopState) -> None:
        """Note that this process lost a session and goes on."""
        if state.run is None:
            return
        # If the store is away, the interruption counts as the end of a process.
        with suppress(AgentError):
            for _ in range(WRITES_MAX):
                name = state.run.run_id
                document = await self._store.document(SURVIVED, name)
                revision, epochs = (0, ()) if document is None else (document.revision, _epochs(document))
                if state.epoch in epochs:
                    return
                body: JsonObject = {_EPOCHS: [*epochs[-WRITES_MAX:], state.epoch]}
                with suppress(Conflict):
                    await self._store.put_document(Document(SURVIVED, name, revision + 1, body))
                    return

    async def take_turn(self, driver: SuspectDriver) -> None:
        """Wait until no other suspect is driven; `end_turn` ends the turn."""
        while self._current is not None and not self._is_stopped:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                # Its turn may have come just now.
                self._call_next()
                raise
        self._current = driver
        self._watch = asyncio.create_task(self._watch_turn(driver), name="windlass suspect")

    def end_turn(self, driver: SuspectDriver) -> None:
        """Let the next suspect begin, if this was the turn of a driver."""
        if self._current is not driver:
            return
        self._current = None
        if self._watch is not None:
            self._watch.cancel()
        self._call_next()

    def stop(self) -> None:
        """Make no suspect wait any more: this process drives nothing from now on."""
        self._is_stopped = True
        while self._waiting:
            self._call_next()

    def _call_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    async def _watch_turn(self, driver: SuspectDriver) -> None:
        """End the turn once the effect has ended, or the process has lived on for a while and others wait."""
        since_s, is_told = self._clock.monotonic(), False
        # The count ends with the effect; isolation ends with a record of it.
        while crashes(driver.state) and not (is_told and driver.state.run_notes.isolated_epoch is None):
            if self._waiting and not is_told and self._clock.monotonic() - since_s >= TURN_S:
                driver.end_isolation()
                is_told = True
            await self._clock.sleep(LOOK_S)
        self._watch = None
        self.end_turn(driver)


def _epochs(document: Document) -> tuple[int, ...]:
    epochs = document.body.get(_EPOCHS)
    return tuple(epoch for epoch in epochs if isinstance(epoch, int)) if isinstance(epochs, list) else ()
