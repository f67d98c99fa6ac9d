"""Journals that were kept, as feeds show them: with deltas, and torn attempts."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from hypothesis import strategies as st
from tests.golden.journal import JOURNALS, read

from windlass import Event
from windlass_harness.record import to_event

_BROKEN = "Something that nobody will ever"
Draw = st.DrawFn


def journals() -> dict[str, tuple[Event, ...]]:
    """The golden journals by name, each run by itself."""
    found: dict[str, tuple[Event, ...]] = {}
    for path in sorted(Path(JOURNALS, "0.1").glob("*.jsonl.gz")):
        events = [to_event(record) for record in read(path)]
        for run_id in dict.fromkeys(event.run_id for event in events if event.run_id):
            name = f"{path.name.partition('.')[0]}/{run_id}"
            found[name] = tuple(event for event in events if event.run_id == run_id)
    return found


STORIES = journals()


def delta(after: Event, kind: str, **data: object) -> Event:
    """A live event of the step that began with an event."""
    place = {name: after.data[name] for name in ("turnId", "stepIndex", "sequence") if name in after.data}
    return Event.model_validate({**after.model_dump(), "type": kind, "data": {**place, **data}, "index": 0})


@st.composite
def live(draw: Draw, events: Sequence[Event]) -> list[Event]:
    """The events with the deltas that a reader from the beginning sees."""
    found: list[Event] = []
    for at, event in enumerate(events):
        found.append(event)
        if event.type != "step.started":
            continue
        if draw(st.integers(0, 3)) == 0:
            found += _torn(event)
            found.append(event)
        for later in events[at + 1 :]:
            if later.type == "step.started":
                break
            found += draw(_deltas(event, later))
            if later.type in ("actions.requested", "step.completed"):
                break
    return found


def _torn(step: Event) -> Iterator[Event]:
    """The deltas of an attempt that breaks off."""
    yield delta(step, "reasoning.appended", reasoningDelta="Hm", reasoningSoFar="Hm")
    yield delta(step, "message.appended", messageDelta=_BROKEN, messageSoFar=_BROKEN)
    yield delta(step, "action.input.appended", callId="torn", toolName="mail", inputDelta='{"to')


@st.composite
def _deltas(draw: Draw, step: Event, event: Event) -> list[Event]:
    match event.type:
        case "message.completed":
            return _pieces(step, draw(_cuts(event.data.get("message"))), "message")
        case "reasoning.completed":
            return _pieces(step, draw(_cuts(event.data.get("reasoning"))), "reasoning")
        case _:
            return []


def _pieces(step: Event, texts: Sequence[str], name: str) -> list[Event]:
    found: list[Event] = []
    for at, text in enumerate(texts):
        data = {f"{name}Delta": text, **({f"{name}SoFar": text} if at == 0 else {})}
        found.append(delta(step, f"{name}.appended", **data))
    return found


@st.composite
def _cuts(draw: Draw, text: object) -> list[str]:
    """A text in pieces, perhaps not all of it."""
    if not isinstance(text, str) or not text:
        return []
    places = sorted(draw(st.sets(st.integers(1, len(text)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *places], places, strict=False) if start < end]
