"""Recorded values: no value makes a recording fail."""

import asyncio
import math
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import NoReturn, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue
from tests.ledger.samples import GOAL, anything, decide
from tests.nesting import nested

from windlass.ledger import BuilderQuery, Run, Runtime
from windlass.ledger.spool import SIZES
from windlass_harness import redact
from windlass_protocol.codec_values import fits
from windlass_protocol.limits import (
    DEPTH_MAX,
    FREE_LEVELS_MAX,
    INTEGER_MAX,
    RECORD_LEVELS_MAX,
    CodecLimits,
)


class Hostile:
    def __repr__(self) -> NoReturn:
        raise RuntimeError("no repr")


class HostileMapping(dict[str, object]):
    def items(self) -> NoReturn:
        raise RuntimeError("no items")


def recorded(folder: Path, result: object) -> Run:
    with Runtime(folder, strict=True) as runtime:
        run_id = runtime.start_run(GOAL, input_data={"it": result})
        runtime.record_outcome(decide(runtime), True, result)
        runtime.end_run(True, output_data={"it": result})
    with BuilderQuery(folder) as query:
        run = query.get_full_run(run_id)
    assert run is not None
    return run


def result_of(run: Run) -> object:
    outcome = run.decisions[0].outcome
    assert outcome is not None
    return outcome.result


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -7, 1.5, "", "text ✓ \x00", [1, [2]], {"a": {"b": [None]}}, "line\nline", INTEGER_MAX],
)
def test_json_is_kept_as_it_is(tmp_path: Path, value: object) -> None:
    assert result_of(recorded(tmp_path, value)) == value


@pytest.mark.parametrize("levels", [FREE_LEVELS_MAX, DEPTH_MAX, 150, 300])
def test_a_value_of_many_levels_is_cut_so_that_its_event_can_be_sent(tmp_path: Path, levels: int) -> None:
    kept = result_of(recorded(tmp_path, nested(levels)))
    assert (kept == nested(levels)) == (levels == FREE_LEVELS_MAX)
    assert fits(cast("JsonValue", kept), CodecLimits(depth_max=RECORD_LEVELS_MAX))


def test_a_long_list_is_no_deep_one(tmp_path: Path) -> None:
    value: JsonValue = [{"a": [1]} for _ in range(200)]
    assert result_of(recorded(tmp_path, value)) == value


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (object(), "object"),
        (b"\xff\x00", "bytes"),
        (Hostile(), "Hostile"),
        (HostileMapping(a=1), "HostileMapping"),
        (asyncio.Queue, "type"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_type_without_a_json_form_is_kept_as_a_marked_repr(
    tmp_path: Path, value: object, name: str
) -> None:
    kept = result_of(recorded(tmp_path, value))
    assert isinstance(kept, dict)
    assert kept["$type"] == name
    assert kept["$repr"] == (f"<{name}: repr() failed>" if name == "Hostile" else repr(value))


def test_values_have_the_json_forms_of_tool_results(tmp_path: Path) -> None:
    value = {"set": {2, 1}, "at": datetime(2026, 1, 31, tzinfo=UTC), "cost": Decimal("1.5"), "large": 2**70}
    assert result_of(recorded(tmp_path, value)) == {
        "set": [1, 2],
        "at": "2026-01-31T00:00:00+00:00",
        "cost": "1.5",
        "large": str(2**70),
    }


def test_numbers_that_are_none_have_names(tmp_path: Path) -> None:
    numbers = [math.inf, -math.inf, math.nan]
    assert result_of(recorded(tmp_path, numbers)) == ["Infinity", "-Infinity", "NaN"]
    # A secret-like key makes the whole value be scanned.
    beside = result_of(recorded(tmp_path, {"numbers": numbers, "api_key": "hunter22"}))
    assert isinstance(beside, dict)
    assert beside["numbers"] == ["Infinity", "-Infinity", "NaN"]


def test_entries_with_keys_that_are_no_texts_are_kept(tmp_path: Path) -> None:
    assert result_of(recorded(tmp_path, {1: "a", (2, 3): "b"})) == {"1": "a", "$pairs": [[[2, 3], "b"]]}


def test_a_secret_is_masked_by_its_key_beside_a_key_that_is_no_text(tmp_path: Path) -> None:
    kept = result_of(recorded(tmp_path, {"password": "hunter22", (1, 2): "b"}))
    assert kept == {"password": redact.MASK, "$pairs": [[[1, 2], "b"]]}


def test_a_value_that_holds_itself_ends(tmp_path: Path) -> None:
    value: list[object] = [1]
    value.append(value)
    kept = result_of(recorded(tmp_path, value))
    assert isinstance(kept, list)
    assert kept[0] == 1


def test_a_value_that_is_nested_too_deep_ends(tmp_path: Path) -> None:
    value: object = 1
    for _ in range(5_000):
        value = [value]
    assert isinstance(result_of(recorded(tmp_path, value)), list)


@pytest.mark.parametrize(
    "value",
    [
        "x" * 3_000_000,
        ["y" * 1_000] * 5_000,
        {f"name {n}": "z" * 100 for n in range(50_000)},
        ["\x00"] * 900_000,
    ],
    ids=["text", "list", "dictionary", "escapes"],
)
def test_a_value_too_large_for_a_record_is_cut(tmp_path: Path, value: object) -> None:
    kept = result_of(recorded(tmp_path, value))
    assert type(kept) is type(value)
    assert kept != value
    assert kept


def test_a_lone_surrogate_is_kept_escaped(tmp_path: Path) -> None:
    run_id = ""
    with Runtime(tmp_path, strict=True) as runtime:
        run_id = runtime.start_run("goal \ud800")
        runtime.decide("intent \udfff", [{"id": "\ud800"}], "\ud800", "why", context={"\ud800": 1})
        runtime.end_run(True)
    run = BuilderQuery(tmp_path).get_full_run(run_id)
    assert run is not None
    assert run.goal_id == "goal \\ud800"
    assert run.decisions[0].intent == "intent \\udfff"
    assert [each.run_id for each in BuilderQuery(tmp_path).list_runs_for_goal("goal \ud800")] == [run_id]


def test_changing_a_value_after_the_call_does_not_change_the_record(tmp_path: Path) -> None:
    context: dict[str, object] = {"size": 1}
    with Runtime(tmp_path) as runtime:
        runtime.start_run(GOAL)
        runtime.decide("a", [{"id": "b"}], "b", "why", context=context)
        context["size"] = 2
        run = runtime.current_run
    assert run is not None
    assert run.decisions[0].input_context == {"size": 1}


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary(max_size=8)
    | st.complex_numbers()
    | st.characters(categories=["Cs"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=4)
        | st.sets(st.integers(), max_size=2)
    ),
    max_leaves=12,
)


@given(value=ANYTHING, text=st.text() | st.none() | st.integers())
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_anything_can_be_recorded_and_read_back(tmp_path: Path, value: object, text: object) -> None:
    it, said = anything(value), anything(text)
    with Runtime(tmp_path) as runtime:
        run_id = runtime.start_run(said, said, it)
        runtime.set_node(said)
        runtime.decide(said, [{"id": said, "pros": it, "action_params": it}], said, said, context=it)
        runtime.record_outcome("dec_0", True, it, said, said, it, it, it)
        runtime.report_problem(said, said, said, said, said)
        runtime.end_run(False, said, it)
    with BuilderQuery(tmp_path) as query:
        run = query.get_full_run(run_id)
        assert run is not None
        assert (len(run.decisions), len(run.problems), run.status) == (1, 1, "failed")
        assert run.decisions[0].was_successful


class Mute(Exception):
    def __str__(self) -> NoReturn:
        raise RuntimeError("no text")


def test_an_exception_without_a_text_is_named(tmp_path: Path) -> None:
    def fail() -> None:
        raise Mute

    with Runtime(tmp_path, strict=True) as runtime:
        runtime.start_run(GOAL)
        with pytest.raises(Mute):
            runtime.decide_and_execute("a", [{"id": "b"}], "b", "why", fail)
        run = runtime.current_run
    assert run is not None
    outcome = run.decisions[0].outcome
    assert outcome is not None
    assert outcome.error == "Mute"


def test_a_secret_that_a_cut_goes_through_is_masked_before(tmp_path: Path) -> None:
    class Odd:
        def __repr__(self) -> str:
            return "x" * 1_990 + "correct-horse-battery-staple"

    with Runtime(tmp_path, secrets=["correct-horse-battery-staple"]) as runtime:
        runtime.start_run(GOAL, input_data={"odd": Odd()})
        runtime.end_run(True)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"correct" in path.read_bytes()]


def test_dropped_parts_of_a_large_value_are_not_scanned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []
    real = redact.is_secret_key

    def look(key: str) -> bool:
        looked_at.append(key)
        return real(key)

    monkeypatch.setattr(redact, "is_secret_key", look)
    kept = result_of(recorded(tmp_path, {f"key {number}": number for number in range(100_000)}))
    assert len(cast("dict[str, object]", kept)) == SIZES[0].items
    assert len(looked_at) < 10 * SIZES[0].items
