"""Folds leave their input alone: data is a plain dictionary that could change."""

from copy import deepcopy
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.views.journal import sessions, streams
from tests.harness.views.test_fold import FOLDS, Fold

from windlass_harness.record import Record
from windlass_harness.views import dump_state, to_event

records_of_any_kind = streams() | sessions()


def spoil(value: object) -> None:
    """Change every container inside a value in its place."""
    if isinstance(value, dict):
        members = cast(dict[str, object], value)
        for member in members.values():
            spoil(member)
        members.clear()
        members["spoilt"] = True
    elif isinstance(value, list):
        items = cast(list[object], value)
        for item in items:
            spoil(item)
        items[:] = ["spoilt"]


@pytest.mark.parametrize("fold", FOLDS)
@settings(max_examples=60)
@given(records=records_of_any_kind)
def test_a_fold_changes_none_of_its_records(fold: Fold, records: list[Record]) -> None:
    before = deepcopy(records)
    fold(records)
    assert records == before


@pytest.mark.parametrize("fold", FOLDS)
@settings(max_examples=60)
@given(records=records_of_any_kind, cut=st.integers(0, 30))
def test_a_state_keeps_nothing_of_the_records_that_a_later_change_could_reach(
    fold: Fold, records: list[Record], cut: int
) -> None:
    state = fold(records[cut:], fold(records[:cut]))
    stored = dump_state(state)
    for record in records:
        spoil(record.data)
    assert dump_state(state) == stored


@settings(max_examples=60)
@given(records=records_of_any_kind)
def test_an_event_keeps_nothing_of_its_record_that_a_later_change_could_reach(records: list[Record]) -> None:
    for record in records:
        event = to_event(record)
        before = deepcopy(event)
        spoil(record.data)
        assert event == before
