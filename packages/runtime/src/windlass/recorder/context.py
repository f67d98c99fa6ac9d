"""Which run is the current one: each thread and each task has its own."""

import sys
from collections.abc import Mapping
from contextvars import ContextVar
from itertools import count
from threading import current_thread
from typing import Final, NamedTuple
from weakref import ReferenceType, ref

from windlass.recorder.recording import Recording


class Place(NamedTuple):
    """What is current in a context."""

    recording: Recording
    node_id: str
    owner: ReferenceType[object]
    """The task or thread that started the run; others inherit it."""

    @property
    def is_own(self) -> bool:
        """Whether the run was started here, and not where this context was copied."""
        return self.owner() is whoever()


class Current:
    """The current run of one recorder, in each context.

    A context that never had a run takes part in the only one that is open, as long as it is the only one: a
    script may start a run and leave the work to a pool of threads.
    """

    def __init__(self) -> None:
        self._key = next(_KEYS)
        self._open: dict[str, Recording] = {}

    def place(self) -> Place | None:
        """Return what this context itself has; its run may have ended."""
        place = _PLACES.get().get(self._key)
        return place if place is not None and place.recording.is_ours else None

    def recording(self) -> Recording | None:
        """Return the open run that a call is about."""
        place = self.place()
        if place is not None:
            return place.recording if place.recording.is_open else None
        runs = [run for run in tuple(self._open.values()) if run.is_ours]
        return runs[0] if len(runs) == 1 else None

    @property
    def open_count(self) -> int:
        """How many runs are open in all contexts."""
        return sum(run.is_ours for run in tuple(self._open.values()))

    def enter(self, recording: Recording, node_id: str) -> None:
        """Make a run that was just started the current one."""
        self._open[recording.run_id] = recording
        self._set(Place(recording, node_id, ref(whoever())))

    def leave(self, recording: Recording) -> None:
        """Note that a run has ended; every context that has it knows by itself."""
        self._open.pop(recording.run_id, None)

    def move(self, recording: Recording, node_id: str) -> None:
        """Set the node of this context."""
        place = self.place()
        owner = ref(whoever()) if place is None else place.owner
        self._set(Place(recording, node_id, owner))

    def _set(self, place: Place) -> None:
        _PLACES.set({**_PLACES.get(), self._key: place})


def whoever() -> object:
    """Return the task that runs here, or else the thread."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        try:
            task: object = asyncio.current_task()
        except RuntimeError:
            task = None
        if task is not None:
            return task
    return current_thread()


_KEYS: Final = count()
"""Of recorders; the identity of one may pass to another when it is gone."""
_NOWHERE: Final[Mapping[int, Place]] = {}
_PLACES: Final[ContextVar[Mapping[int, Place]]] = ContextVar("windlass_recorder", default=_NOWHERE)
