"""`frozen`, `sealed` and `mutable` classes behave as dataclasses do; `frozen` ones allow assignments."""

import copy
import inspect
import pickle
import re
import weakref
from dataclasses import (
    KW_ONLY,
    FrozenInstanceError,
    InitVar,
    asdict,
    dataclass,
    field,
    fields,
    is_dataclass,
    replace,
)
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from windlass_protocol.frozen import frozen, mutable, sealed

T = TypeVar("T")


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


@sealed
class Quota:
    """Limits."""

    max_steps: int | None = None
    max_cost_micros: int | None = None


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("max_step", "did you mean max_steps?"),
        ("max_cost", "did you mean max_cost_micros?"),
        ("color", "it takes max_steps, max_cost_micros"),
    ],
)
def test_a_sealed_class_names_the_field_that_was_probably_meant(name: str, hint: str) -> None:
    for _ in range(2):  # before the constructor is compiled and after
        with pytest.raises(TypeError, match=re.escape(f"Quota has no field {name}; {hint}")):
            Quota(**{name: 1})


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


@sealed
class Order:
    """An order."""

    item: str
    words: InitVar[str] = ""
    _: KW_ONLY
    count: int = 1
    note: str = field(default="", repr=False, compare=False)
    length: int = field(init=False, default=0)
    tags: list[str] = field(default_factory=list[str])

    def __post_init__(self, words: str) -> None:
        if self.count < 1:
            raise ValueError("count must be at least 1")
        object.__setattr__(self, "length", len(words))


@dataclass(frozen=True, slots=True)
class PlainOrder:
    """An order."""

    item: str
    words: InitVar[str] = ""
    _: KW_ONLY
    count: int = 1
    note: str = field(default="", repr=False, compare=False)
    length: int = field(init=False, default=0)
    tags: list[str] = field(default_factory=list[str])

    def __post_init__(self, words: str) -> None:
        if self.count < 1:
            raise ValueError("count must be at least 1")
        object.__setattr__(self, "length", len(words))


@sealed(eq=False, weakref_slot=True)
class Named(Generic[T]):
    value: T

    def __repr__(self) -> str:
        return "Named(…)"


@mutable
class Counter:
    count: int = 0
    seen: set[str] = field(default_factory=set[str])


@mutable(eq=False)
class Job:
    number: int


def test_a_sealed_class_refuses_every_assignment_as_a_frozen_dataclass_does() -> None:
    for one in (Order("a"), PlainOrder("a")):
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'item'"):
            one.item = "b"  # type: ignore[misc]
        with pytest.raises(FrozenInstanceError, match="cannot delete field 'item'"):
            del one.item  # type: ignore[misc]
        assert one.item == "a"
    # A dataclass with slots fails with a TypeError here, in Python 3.11.
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'other'"):
        Order("a").other = "b"  # type: ignore[attr-defined]


def test_fields_with_options_are_those_of_a_dataclass() -> None:
    orders: list[Any] = [Order, PlainOrder]
    for order in orders:
        made = order("a", "three", count=2, note="x")
        assert (made.item, made.count, made.note, made.length, made.tags) == ("a", 2, "x", 5, [])
        assert made == order("a", "seven", count=2, note="y")
        assert made != order("a", "three", count=3)
        assert repr(made) == f"{order.__name__}(item='a', count=2, length=5, tags=[])"
        assert order.__match_args__ == ("item", "words")
        assert [one.name for one in fields(order)] == ["item", "count", "note", "length", "tags"]
        assert asdict(made) == {"item": "a", "count": 2, "note": "x", "length": 5, "tags": []}
        assert replace(made, words="w", item="b") == order("b", "w", count=2)
        for bad in (lambda: order("a", "b", 3), lambda: order("a", length=3), lambda: order(count=1)):  # noqa: B023
            with pytest.raises(TypeError):
                bad()
        with pytest.raises(ValueError, match="count must be at least 1"):
            order("a", count=0)


def test_a_sealed_instance_is_copied_and_pickled() -> None:
    made = Order("a", "three", count=2, note="x")
    for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert again == made
        assert (again.note, again.length) == ("x", 5)


def test_the_signature_is_known_before_the_constructor_is_compiled() -> None:
    @sealed
    class Fresh:
        x: int
        _: KW_ONLY
        y: str = "a"

    class Child(Fresh):
        __slots__ = ()

        def __init__(self) -> None:
            super().__init__(1)

    assert str(inspect.signature(Fresh)) == "(x: int, *, y: str = 'a') -> None"
    assert str(inspect.signature(Child)) == "() -> None"
    assert Child().y == "a"


def test_without_eq_instances_are_compared_by_identity_and_own_methods_are_kept() -> None:
    one, other = Named(1), Named(1)
    assert one != other
    assert len({one, other}) == 2
    assert repr(one) == "Named(…)"
    assert weakref.ref(one)() is one
    assert Job(1) != Job(1)
    assert hash(Job(1)) != 0


def test_a_mutable_instance_can_be_changed_and_has_no_hash() -> None:
    one = Counter()
    one.count += 1
    one.seen.add("a")
    assert one == Counter(1, {"a"}) != Counter()
    with pytest.raises(TypeError):
        hash(one)
    with pytest.raises(AttributeError):
        one.other = 1  # type: ignore[attr-defined]


def test_a_subclass_of_a_sealed_class_has_its_own_attributes_and_sealed_fields() -> None:
    class Noted(Order):
        pass

    one = Noted("a")
    one.extra = 1  # type: ignore[attr-defined]
    del one.extra  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        one.item = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del one.item  # type: ignore[misc]


DECORATORS = pytest.mark.parametrize("make", [frozen, sealed, mutable, dataclass])


@DECORATORS
@pytest.mark.parametrize("default", [[], {}, set[str](), field(default=list[str]())])
def test_a_mutable_default_is_refused_with_the_class(make: Any, default: Any) -> None:
    class Shared:
        tags: Any = default

    with pytest.raises(ValueError, match="mutable default"):
        make(Shared)


def test_a_refused_default_is_named_with_what_to_write() -> None:
    class Shared:
        tags: list[str] = []  # noqa: RUF012 - this is what is refused

    expected = (
        "field 'tags': a mutable default would be shared by all instances; use field(default_factory=list)"
    )
    with pytest.raises(ValueError, match=re.escape(expected)):
        frozen(Shared)


@DECORATORS
@pytest.mark.parametrize("default", [0, field(default=0), field(default_factory=int)])
def test_a_field_without_a_default_after_one_with_a_default_is_refused_with_the_class(
    make: Any, default: Any
) -> None:
    class Reversed:
        x: Any = default
        y: int

    with pytest.raises(TypeError, match=r"'y' (without a default )?follows"):
        make(Reversed)


@DECORATORS
def test_a_field_by_name_or_outside_the_constructor_may_follow_one_with_a_default(make: Any) -> None:
    class Mixed:
        length: int = field(init=False, default=3)
        x: int
        y: int = 0
        area: int = field(init=False)
        _: KW_ONLY
        z: int

    made = make(Mixed)(1, z=2)
    assert (made.length, made.x, made.y, made.z) == (3, 1, 0, 2)


@pytest.mark.parametrize("make", [frozen, sealed, mutable])
@pytest.mark.parametrize("kind", ["InitVar", "InitVar[str]", "dataclasses.InitVar[list[a.B]]"])
def test_an_init_var_in_a_string_is_refused_with_the_class(make: Any, kind: str) -> None:
    body = {"__annotations__": {"item": "str", "words": kind}}
    expected = "field 'words': InitVar in an annotation that is a string"
    with pytest.raises(TypeError, match=expected):
        make(type("Late", (), body))


@pytest.mark.parametrize("kind", ["ClassVar", "ClassVar[str]", "typing.ClassVar[list[a.B]]"])
def test_a_class_variable_in_a_string_is_no_field(kind: str) -> None:
    body = {"__annotations__": {"item": "InitVariable", "unit": kind}, "unit": "mm"}
    made: Any = frozen(type("Late", (), body))
    assert (made("a").item, made.unit, [one.name for one in fields(made)]) == ("a", "mm", ["item"])
