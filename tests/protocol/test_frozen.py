"""Frozen classes behave as frozen dataclasses do, apart from the check at run time."""

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar

import pytest

from windlass_protocol.frozen import frozen


@frozen
class Point:
    """A point."""

    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list[str])
    label: str = field(default="none")
    unit: ClassVar[str] = "mm"

    @property
    def width(self) -> int:
        return abs(self.x)


@frozen
class Empty:
    """No fields."""


@dataclass(frozen=True, slots=True)
class Plain:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list[str])
    label: str = field(default="none")


def test_fields_are_given_by_place_or_name_and_have_defaults() -> None:
    one, other = Point(-1), Point(1, 2, ["a"], label="b")
    assert (one.x, one.y, one.tags, one.label) == (-1, 0, [], "none")
    assert (other.x, other.y, other.tags, other.label) == (1, 2, ["a"], "b")
    assert (one.width, Point.unit, Point.__doc__) == (1, "mm", "A point.")
    assert Point(1).tags is not Point(1).tags


def test_a_missing_or_unknown_field_is_a_type_error() -> None:
    cases: list[tuple[Any, Any, Any]] = [(Point, (), {}), (Point, (1,), {"z": 2}), (Empty, (1,), {})]
    for cls, given, more in cases:
        with pytest.raises(TypeError):
            cls(*given, **more)


def test_equality_hash_and_repr_are_those_of_a_dataclass() -> None:
    assert Point(1, 2) == Point(1, 2) != Point(1, 3)
    assert Point(1) != Plain(1)
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())
    with pytest.raises(TypeError):
        hash(Point(1))
    assert repr(Point(1)) == repr(Plain(1)).replace("Plain", "Point")


def test_patterns_match_by_place() -> None:
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_the_functions_of_dataclasses_work() -> None:
    assert is_dataclass(Point)
    assert [one.name for one in fields(Point)] == ["x", "y", "tags", "label"]
    assert replace(Point(1, 2), y=3) == Point(1, 3)
    assert copy.copy(Point(1, 2)) == copy.deepcopy(Point(1, 2)) == Point(1, 2)
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)


def test_an_instance_takes_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Point(1).z = 2  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        Plain(1).x = 2  # type: ignore[misc]


def test_a_subclass_with_its_own_constructor_leaves_that_of_its_base_alone() -> None:
    @frozen
    class Base:
        x: int

    class Child(Base):
        __slots__ = ()

    assert Child(3).x == Base(4).x - 1


def test_a_frozen_class_cannot_extend_another_one() -> None:
    with pytest.raises(TypeError, match="Child extends a class with fields: repeat the fields instead"):

        @frozen
        class Child(Point):  # pyright: ignore[reportUnusedClass]
            z: int = 0


def test_an_instance_can_be_created_while_another_thread_compiles_the_constructor() -> None:
    @frozen
    class Fresh:
        x: int

    stale = vars(Fresh)["__init__"]
    assert Fresh(1).x == 1
    assert vars(Fresh)["__init__"] is not stale
    # The thread that comes second still holds the constructor that compiles.
    second = object.__new__(Fresh)
    stale(second, 2)
    assert second.x == 2
