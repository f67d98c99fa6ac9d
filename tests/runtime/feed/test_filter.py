"""Filters: matching, and fingerprints."""

from collections.abc import Collection
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.feed.scene import draft, ended, started

from windlass.errors import Rejected
from windlass.ports.feed import FILTER_VALUES_MAX, EventFilter, UnknownEvent
from windlass_harness.loop.events import Draft
from windlass_harness.record import Record, number
from windlass_protocol import EVENT_DATA, FilterCursor

X_A, X_B = UnknownEvent("x.a"), UnknownEvent("x.b")


def record(one: Draft, session_id: str = "s1") -> Record:
    return number(one, session_id, seq=1, epoch=1)


@pytest.mark.parametrize(
    ("chosen", "hit", "miss"),
    [
        (EventFilter(run_ids=["r1"]), draft("x.a"), draft("x.a", run_id="r2")),
        (EventFilter(run_ids=["r2"]), ended(run_id="r2"), ended(run_id="r1")),
        (EventFilter(session_ids=["s1"]), draft("x.a"), None),
        (EventFilter(agent_ids={"helper"}), draft("x.a"), draft("x.a", agent_id="other")),
        (EventFilter(turn_ids=["t1"]), draft("x.a", turn_id="t1"), draft("x.a", turn_id="t2")),
        (EventFilter(turn_ids=["t0"]), started(), draft("x.a", {"turnId": 7})),
        (EventFilter(families=["run", "step"]), started(), draft("runner.a")),
        (EventFilter(types=[X_A]), draft("x.a"), draft("x.b")),
        (EventFilter(terminal_only=True), ended(), draft("turn.completed")),
        (
            EventFilter(types=[X_A, X_B], run_ids=["r1"]),
            draft("x.b"),
            draft("x.b", run_id="r2"),
        ),
        (EventFilter(), draft("x.a"), None),
    ],
)
def test_a_filter_matches_records_that_match_every_criterion(
    chosen: EventFilter, hit: Draft, miss: Draft | None
) -> None:
    ready = chosen.compile()
    assert ready.matches(hit.type, record(hit))
    if miss is not None:
        assert not ready.matches(miss.type, record(miss))


def test_a_filter_by_session_lets_no_other_through() -> None:
    assert not EventFilter(session_ids=["s1"]).compile().matches("x.a", record(draft("x.a"), "s2"))


def test_the_fingerprint_is_that_of_the_criteria_alone() -> None:
    one = EventFilter(run_ids=["b", "a", "b"], types=(X_A,)).compile()
    two = EventFilter(types={X_A}, run_ids=("a", "b")).compile()
    assert one == two
    assert FilterCursor(fingerprint=one.fingerprint, position=0).fingerprint == one.fingerprint
    letters = EventFilter(run_ids="a b c d e f g h".split()).compile()
    assert letters.fingerprint == ("sha256:8722abd96b7937d90970a2e4472370cba120b13d601b1e3f2423139bcc637d16")
    assert EventFilter().compile().fingerprint == (
        "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )


NAMES = ["run_ids", "session_ids", "agent_ids", "turn_ids", "families", "types"]


def some_filter(given: dict[str, frozenset[str]], terminal_only: bool) -> EventFilter:
    return EventFilter(terminal_only=terminal_only, **given)  # pyright: ignore[reportArgumentType] by name


CRITERIA = st.builds(
    some_filter,
    st.dictionaries(
        st.sampled_from(NAMES),
        st.frozensets(st.sampled_from([UnknownEvent(letter) for letter in "abc"]), min_size=1),
    ),
    st.booleans(),
)


@given(CRITERIA, CRITERIA)
def test_filters_have_the_same_fingerprint_if_and_only_if_they_are_the_same(
    one: EventFilter, two: EventFilter
) -> None:
    assert (one == two) is (one.compile().fingerprint == two.compile().fingerprint)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ([], "types must have 1 to 1,000 values, found 0"),
        ([str(n) for n in range(FILTER_VALUES_MAX + 1)], "found 1,001"),
        ("x.a", "types must be a collection of strings, found a single string"),
    ],
)
def test_a_criterion_that_makes_no_sense_is_refused(values: Collection[UnknownEvent], complaint: str) -> None:
    with pytest.raises(Rejected, match=complaint):
        EventFilter(types=values).compile()


@pytest.mark.parametrize(
    ("criteria", "complaint"),
    [
        ({"types": ["run.fail"]}, r"types: this version has no event run\.fail; did you mean run\.failed\?"),
        ({"types": ["run.failed", "x.a"]}, r"types: this version has no event x\.a; docs/events\.md lists"),
        ({"types": ["run"]}, "types: this version has no event run"),
        ({"types": [""]}, "types: this version has no event"),
        ({"families": ["rnu"]}, r"families: this version has no event rnu; did you mean run\?"),
        ({"families": ["run.failed"]}, r"families: this version has no event run\.failed"),
    ],
)
def test_a_name_that_no_event_has_is_refused(criteria: Any, complaint: str) -> None:
    with pytest.raises(Rejected, match=complaint):
        EventFilter(**criteria).compile()


def test_every_event_of_this_version_and_those_that_are_marked_are_accepted() -> None:
    EventFilter(types=cast(Any, [*EVENT_DATA, UnknownEvent("run.fail")])).compile()
    families = {kind.partition(".")[0] for kind in EVENT_DATA}
    EventFilter(families=cast(Any, [*families, UnknownEvent("rnu")])).compile()


def test_a_criterion_may_have_as_many_values_as_the_limit() -> None:
    EventFilter(types=[UnknownEvent(str(n)) for n in range(FILTER_VALUES_MAX)]).compile()
