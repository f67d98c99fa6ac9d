"""The part of a run that one stream of a chat client shows.

A run that waits for people is several streams to a chat client: `ViewGate` selects the part that one stream
shows, `Past` finds it, and `ChatRunFold` is the frame of the folds of AG-UI and the AI SDK.
"""

from collections.abc import Iterable
from dataclasses import field
from typing import Final

from windlass import Event
from windlass_harness.record import Record
from windlass_harness.views import stream
from windlass_protocol import InputRequest, JsonObject, RunStatus
from windlass_protocol.frozen import mutable, sealed


@sealed
class View:
    """The part of a run that a stream shows."""

    skipped: int = 0
    """The number of waits for people that it skips."""
    wait_count: int = 0
    """The number of waits in the journal: the run continued after all of them but the last."""
    decided: frozenset[str] = frozenset()
    """Answered requests: a wait for these only does not end the stream."""


WHOLE: Final = View()


@mutable
class ViewGate:
    """Decides for every change whether it is shown, and whether the stream ends there."""

    view: View
    _waits: int = 0
    _is_open: bool = field(init=False)

    def __post_init__(self) -> None:
        self._is_open = not self.view.skipped

    @property
    def is_closed(self) -> bool:
        """Whether changes are still skipped."""
        return not self._is_open

    def open(self) -> None:
        """Show everything from here on."""
        self._is_open = True

    def is_pause(self, change: stream.Change) -> bool:
        """Take the next change; return whether the stream ends because the run waits there."""
        if not isinstance(change, stream.RunWaiting):
            return False
        self._waits += 1
        if self.is_closed:
            self._is_open = self._waits >= self.view.skipped
            return False
        went_on = self._waits < self.view.wait_count
        return not went_on and not self.view.decided.issuperset(ask.request.request_id for ask in change.asks)


class Past:
    """The requests of a run so far, and its waits for them."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.requests: dict[str, InputRequest] = {}
        self.settled: set[str] = set()
        self.waits: list[frozenset[str]] = []
        """The requests of each wait."""
        self._chat = stream.ChatFold(run_id)

    def take(self, event: Event) -> None:
        """Take the next event of the run."""
        changes = self._chat.apply(event)
        for change in changes:
            match change:
                case stream.RequestsOpened():
                    self.requests |= {ask.request.request_id: ask.request for ask in change.asks}
                case stream.RequestAnswered():
                    self.settled.add(change.ask.request.request_id)
                case stream.RunWaiting():
                    self.waits.append(frozenset(ask.request.request_id for ask in change.asks))
                case _:
                    pass

    def whole(self) -> View:
        """Return the view from the beginning to the current or next wait."""
        return View(0, len(self.waits), frozenset(self.settled))

    def behind(self, answered: frozenset[str], *, needs_all: bool) -> View | None:
        """Return the view after the wait that answers are for.

        None if there is none; with `needs_all` it is one of which nothing is left without an answer.
        """
        for number, request_ids in enumerate(self.waits, 1):
            is_covered = request_ids <= answered if needs_all else bool(request_ids & answered)
            if is_covered:
                return View(number, len(self.waits), frozenset(self.settled) | answered)
        return None


class ChatRunFold:
    """The events of a run in, the frames of one chat protocol out."""

    def __init__(self, run_id: str, view: View) -> None:
        self._chat = stream.ChatFold(run_id)
        self._gate = ViewGate(view)
        self._texts: dict[str, stream.TextKind] = {}
        """The texts that are open at the client."""
        self.is_over = False
        """Whether the stream ends: the run has ended, or waits for people."""

    def opening(self) -> list[JsonObject]:
        """Return the first frames."""
        raise NotImplementedError

    def take(self, event: Event | Record) -> list[JsonObject]:
        """Return the frames of an event; most have none."""
        changes = self._chat.apply(event)
        frames: list[JsonObject] = []
        for change in changes:
            is_unknown = isinstance(change, stream.CallSettled) and not change.is_known
            if not self.is_over and not is_unknown:
                frames += self._take(change)
        return frames

    def failure(self, code: str, message: str) -> JsonObject:
        """Return the last frame of a run that failed."""
        raise NotImplementedError

    def _take(self, change: stream.Change) -> list[JsonObject]:
        raise NotImplementedError

    def _text(self, change: stream.TextDelta | stream.TextEnded) -> Iterable[JsonObject]:
        if isinstance(change, stream.TextEnded):
            yield from self._text_end(change.key)
            return
        if change.key not in self._texts:
            self._texts[change.key] = change.kind
            yield from self._text_begun(change.kind, change.key)
        yield self._text_more(change)

    def _text_end(self, key: str) -> Iterable[JsonObject]:
        kind = self._texts.pop(key, None)
        return () if kind is None else self._text_ended(kind, key)

    def _text_begun(self, kind: stream.TextKind, key: str) -> Iterable[JsonObject]:
        raise NotImplementedError

    def _text_more(self, change: stream.TextDelta) -> JsonObject:
        raise NotImplementedError

    def _text_ended(self, kind: stream.TextKind, key: str) -> Iterable[JsonObject]:
        raise NotImplementedError

    def _failure_frame(self, ended: stream.RunEnded) -> JsonObject:
        """Return the last frame of a run that failed, or exhausted its budget."""
        error = ended.error
        code = "internal" if error is None else error.code.value
        if ended.status is RunStatus.BUDGET_EXHAUSTED:
            code = "budget_exhausted"
        return self.failure(code, (error and error.message) or f"the run is {ended.status}")


def of_program(change: stream.CallDelta | stream.CallRequested, field_name: str) -> JsonObject:
    """Return the field that names the call of the program that made a call; empty if the model made it."""
    above = change.parent_key if isinstance(change, stream.CallRequested) else None
    return {} if above is None else {field_name: {"windlass": {"parentToolCallId": above}}}
