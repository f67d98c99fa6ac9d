"""Bodies: the data of records as classes, made from `spec/`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from msgspec import UNSET, Raw
from tests.golden.journal import JOURNALS, read

from windlass_protocol import EVENT_DATA, JsonObject
from windlass_protocol.bodies import BodyError, data_of, decode_body, decode_data, read_body
from windlass_protocol.generated import records
from windlass_protocol.generated.records import BODIES

EXAMPLES = Path(__file__).parents[2] / "spec" / "examples" / "valid" / "Event.json"


def examples() -> Iterator[tuple[str, JsonObject]]:
    for example in cast("dict[str, JsonObject]", json.loads(EXAMPLES.read_text("utf-8"))).values():
        if example["type"] in BODIES:
            yield str(example["type"]), cast(JsonObject, example.get("data", {}))


def test_every_type_of_the_specification_has_a_class() -> None:
    assert BODIES.keys() == EVENT_DATA.keys()
    assert all(kind == body_type.TYPE for kind, body_type in BODIES.items())


def test_the_examples_of_the_specification_become_bodies() -> None:
    seen = set[str]()
    for kind, data in examples():
        body = read_body(BODIES[kind], data)
        assert decode_body(BODIES[kind], json.dumps(data).encode()) == body
        again = data_of(body)
        assert read_body(BODIES[kind], again) == body
        assert {**data, **again} == data, "only fields that are unknown are missing"
        seen.add(kind)
    assert seen == BODIES.keys()


def test_the_records_of_golden_journals_become_bodies_and_the_same_data_again() -> None:
    for path in sorted(JOURNALS.glob("*/*.gz")):
        for record in read(path):
            assert record.body is not None
            assert data_of(record.body) == record.data, record.type


def test_a_body_without_an_optional_value_leaves_it_out_and_keeps_a_null_that_is_one() -> None:
    without = records.RunCompleted(run_id="r")
    assert data_of(without) == {"runId": "r"}
    assert without.structured_output is UNSET
    null = read_body(records.RunCompleted, {"runId": "r", "structuredOutput": None})
    assert null.structured_output is None
    assert data_of(null) == {"runId": "r", "structuredOutput": None}


def test_a_body_ignores_fields_that_it_does_not_know() -> None:
    assert read_body(records.TurnStarted, {"sequence": 0, "turnId": "t", "colour": "red"}) == (
        records.TurnStarted(sequence=0, turn_id="t")
    )


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert read_body(records.TurnStarted, {"sequence": 1.0, "turnId": "t"}).sequence == 1
    assert decode_body(records.TurnStarted, b'{"sequence":1.0,"turnId":"t"}').sequence == 1


@pytest.mark.parametrize(
    ("data", "where"),
    [
        ({"sequence": "secret", "turnId": "t"}, "$.sequence"),
        ({"sequence": 0, "turnId": ""}, "$.turnId"),
        ({"sequence": 0}, "`$`"),
        ({"sequence": 0.5, "turnId": "t"}, "$.sequence"),
        ({"sequence": 1.0, "turnId": 7}, "$.sequence"),
    ],
)
def test_data_of_another_shape_is_refused_without_its_values(data: JsonObject, where: str) -> None:
    with pytest.raises(BodyError, match=r"data of turn\.started does not fit its type") as caught:
        read_body(records.TurnStarted, data)
    assert where in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_refused_object_inside_a_body_is_named_by_its_class() -> None:
    with pytest.raises(BodyError, match="the data of ActionError does not fit"):
        read_body(records.ActionError, {"code": 7})


def test_objects_that_applications_hold_are_models_inside_a_body() -> None:
    error = {"code": "rejected", "kind": "timeout", "retry": "retryable", "message": "late"}
    failed = read_body(records.RunFailed, {"runId": "r", "error": error})
    assert failed.error.message == "late"
    assert data_of(failed) == {"runId": "r", "error": error}
    with pytest.raises(BodyError, match=r"run.failed does not fit its type at `\$.error`"):
        read_body(records.RunFailed, {"runId": "r", "error": {"code": 7}})


def test_a_value_that_is_no_json_cannot_be_data() -> None:
    with pytest.raises(TypeError, match="a value of type object"):
        data_of(records.ResultCompleted(result=cast(str, object()), sequence=0, step_index=0, turn_id="t"))


def test_stored_json_becomes_data_with_all_its_fields() -> None:
    assert decode_data(Raw(b'{"a":1.0,"b":[null]}')) == {"a": 1.0, "b": [None]}
