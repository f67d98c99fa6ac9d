"""Properties of every view: order, cuts, snapshots, and unknown records."""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.views.journal import FAILURE, Journal, at, request, sessions, streams

from windlass_harness.record import Record
from windlass_harness.tracing import fold_trace
from windlass_harness.views import (
    Gap,
    dump_state,
    fold_chat,
    fold_decisions,
    fold_runs,
    fold_session,
    fold_usage,
    load_state,
)

Fold = Callable[..., object]
FOLDS: list[Fold] = [fold_session, fold_chat, fold_usage, fold_decisions, fold_runs, fold_trace]


def in_pieces(fold: Fold, records: Sequence[Record], cuts: Sequence[int]) -> object:
    """Fold up to each cut in turn, and store and load the state in between."""
    state: object = None
    edges = [0, *sorted(cut % (len(records) + 1) for cut in cuts), len(records)]
    for start, end in pairwise(edges):
        state = fold(records[start:end], state)
        loaded = load_state(type(state), dump_state(state))
        assert loaded == state
        state = loaded
    return state


@pytest.mark.parametrize("fold", FOLDS)
@given(records=streams(), cuts=st.lists(st.integers(0, 30), max_size=4))
def test_folding_in_pieces_equals_folding_at_once(fold: Fold, records: list[Record], cuts: list[int]) -> None:
    assert in_pieces(fold, records, cuts) == fold(records)


@pytest.mark.parametrize("fold", FOLDS)
@settings(max_examples=30)
@given(records=sessions())
def test_a_session_that_makes_sense_may_be_cut_after_every_record(fold: Fold, records: list[Record]) -> None:
    assert in_pieces(fold, records, range(len(records))) == fold(records)


@pytest.mark.parametrize("fold", FOLDS)
def test_words_that_came_in_the_middle_of_a_step_may_be_cut_off_from_it(fold: Fold) -> None:
    journal = Journal().begin().start().say("x").ask("a", "b").run("a").turn("wait", 1)
    records = journal.result("a").result("b").end().records
    assert in_pieces(fold, records, range(len(records))) == fold(records)


@pytest.mark.parametrize("fold", FOLDS)
@settings(max_examples=30)
@given(records=streams())
def test_folding_never_changes_the_state_it_starts_from(fold: Fold, records: list[Record]) -> None:
    middle = len(records) // 2
    state = fold(records[:middle])
    stored = dump_state(state)
    fold(records[middle:], state)
    assert dump_state(state) == stored


@pytest.mark.parametrize("fold", FOLDS)
def test_no_records_change_nothing(fold: Fold) -> None:
    records = Journal().begin().answer("a").records
    assert fold([], fold(records)) == fold(records)


@pytest.mark.parametrize("fold", FOLDS)
def test_a_missing_record_is_named(fold: Fold) -> None:
    records = Journal("box 7").begin().records
    with pytest.raises(Gap, match=r"expected record 3 of session 'box 7', found record 4; .* after record 2"):
        fold([*records[:2], records[3]])
    with pytest.raises(Gap) as repeated:
        fold([records[1]], fold(records[:2]))
    assert (repeated.value.session_id, repeated.value.expected_seq, repeated.value.found_seq) == (
        "box 7",
        3,
        2,
    )
    assert isinstance(repeated.value, ValueError)


@pytest.mark.parametrize("fold", FOLDS[:-1])
def test_a_session_is_folded_from_its_first_record(fold: Fold) -> None:
    with pytest.raises(Gap, match="expected record 1 of session 's1', found record 2"):
        fold(Journal().begin().records[1:])


@pytest.mark.parametrize("fold", FOLDS)
def test_a_record_of_another_session_is_refused(fold: Fold) -> None:
    stray = Journal("s2").begin().records[1]
    with pytest.raises(Gap, match="expected record 2 of session 's1', found record 2 of session 's2'"):
        fold([Journal().begin().records[0], stray])


@pytest.mark.parametrize("fold", FOLDS)
def test_unknown_records_are_passed_over(fold: Fold) -> None:
    journal = Journal().begin().answer("a").result("a").answer("b", step=1).run("b", 1)
    without = fold(journal.records)
    odd = {"turnId": 7, "runId": None, "callId": ["x"], "usage": "none"}
    journal.add("something.new", odd, runId="r1").add("other.thing.entirely", {"data": 1})
    journal.add("app.note", {"turnId": "zz", "runId": "rr", "callId": "b", "epoch": 9, "stepIndex": 4})
    journal.add("app.note", {}, turnId="zz", runId="rr")
    assert apart_from_position(fold(journal.records)) == apart_from_position(without)


def apart_from_position(state: object) -> dict[str, object]:
    lines = dump_state(state).split(b"\n", 1)
    found = json.loads(lines[1])
    assert found.pop("position")
    return found


@pytest.mark.parametrize("fold", FOLDS)
def test_a_field_named_like_a_python_attribute_is_an_unknown_field(fold: Fold) -> None:
    plain, odd = Journal().begin(), Journal().begin()
    said = {"message": "hi", "sequence": 0, "turnId": "t0"}
    plain.add("message.received", said)
    odd.add("message.received", {**said, "message_id": 5})
    asked = {"requests": [request("r", "q")], **at()}
    plain.start().end(usage={"inputTokens": 5}).add("input.requested", asked)
    odd.start(prompt_message_count=99).end(usage={"inputTokens": 5, "input_tokens": "many"})
    odd.add("input.requested", asked)
    assert fold(odd.records) == fold(plain.records)


def test_a_stored_state_keeps_fields_by_the_name_of_an_attribute() -> None:
    asked = {**request("r", "q"), "request_id": 5}
    state = fold_session(Journal().begin().add("input.requested", {"requests": [asked], **at()}).records)
    assert load_state(type(state), dump_state(state)) == state


@pytest.mark.parametrize("cut", range(12))
@pytest.mark.parametrize(
    "journal",
    [
        Journal().begin().answer("c1").start(1).ask("c1", step=1).add("step.failed", {**FAILURE, **at(1)}),
        Journal()
        .begin()
        .start(1)
        .add("input.requested", {"requests": [request("r", "c1")], **at()})
        .ask("c1", step=1),
    ],
)
def test_an_id_that_two_steps_hold_is_the_same_call_wherever_the_stream_is_cut(
    journal: Journal, cut: int
) -> None:
    whole = Journal()
    whole.records = [*journal.records]
    whole.result("c1").end(1)
    assert in_pieces(fold_session, whole.records, [cut]) == fold_session(whole.records)
