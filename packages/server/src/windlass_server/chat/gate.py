"""Which part of a run a stream shows.

A run that waits for people is several answers to a chat client.
"""

from dataclasses import dataclass, field
from typing import Final

from windlass import Event
from windlass_server.chat.beats import Asked, Beat, Settled, Waits
from windlass_server.chat.telling import Telling


@dataclass(frozen=True, slots=True)
class View:
    """From where to where a run is shown."""

    skipped: int = 0
    """It begins behind so many waits for people, and at the beginning with none."""
    known: int = 0
    """So many waits are in the journal: the run went on behind all of them but the last."""
    decided: frozenset[str] = frozenset()
    """Requests that have an answer: a wait for nothing else is no end."""


WHOLE: Final = View()


@dataclass(slots=True)
class Gate:
    """Says of every beat whether it is shown, and whether the stream ends there."""

    view: View
    _waits: int = 0
    _is_open: bool = field(init=False)

    def __post_init__(self) -> None:
        self._is_open = not self.view.skipped

    @property
    def is_closed(self) -> bool:
        """Whether what happens is not shown yet."""
        return not self._is_open

    def open(self) -> None:
        """Show everything from here on."""
        self._is_open = True

    def is_pause(self, beat: Beat) -> bool:
        """Take the next beat; return whether the stream ends because the run waits there."""
        if not isinstance(beat, Waits):
            return False
        self._waits += 1
        if self.is_closed:
            self._is_open = self._waits >= self.view.skipped
            return False
        went_on = self._waits < self.view.known
        return not went_on and not self.view.decided.issuperset(ask.request.request_id for ask in beat.asks)


class Past:
    """What a run has asked people so far."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.asked: set[str] = set()
        self.settled: set[str] = set()
        self.waits: list[frozenset[str]] = []
        """Of each wait, what it was for."""
        self._telling = Telling(run_id)

    def take(self, event: Event) -> None:
        """Take the next event of the run."""
        for beat in self._telling.tell(event):
            match beat:
                case Asked():
                    self.asked |= {ask.request.request_id for ask in beat.asks}
                case Settled():
                    self.settled |= {ask.request.request_id for ask, _ in beat.resolutions}
                case Waits():
                    self.waits.append(frozenset(ask.request.request_id for ask in beat.asks))
                case _:
                    pass

    def whole(self) -> View:
        """Return the view from the beginning on, up to where the run waits now or next."""
        return View(0, len(self.waits), frozenset(self.settled))

    def behind(self, answered: frozenset[str], *, needs_all: bool) -> View | None:
        """Return the view behind the wait that answers are for.

        None if there is none; with `needs_all` it is one of which nothing is left without an answer.
        """
        for number, asked in enumerate(self.waits, 1):
            if asked <= answered if needs_all else asked & answered:
                return View(number, len(self.waits), frozenset(self.settled) | answered)
        return None
