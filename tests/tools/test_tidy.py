"""The limits of `tools.tidy`, at the limit and one past it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tools.tidy import (
    FUNCTION_LINES_MAX,
    PUBLIC_NAMES_MAX,
    VAGUE_NAMES_MAX,
    participle_functions,
    public_classes,
    vague_name_violations,
    vague_names,
    violations,
)

MODULE = Path("packages/runtime/src/windlass/part.py")
PACKAGE = MODULE.with_name("__init__.py")


def function_of(lines: int, extra: str = "") -> str:
    return f"def work(x):\n{extra}" + "    act()\n" * (lines - 1)


FREE = {
    "blank lines, comments and a docstring": '    """Act.\n\n    More.\n    """\n\n    # Why.\n',
    "a flat match": "    match x:\n" + "        case 1:\n            act()\n" * 50,
    "a table": "    rows = {\n" + "        1: 1,\n" * 90 + "    }\n",
}


@pytest.mark.parametrize("extra", ["", *FREE.values()], ids=["nothing", *FREE])
def test_a_function_has_at_most_eighty_lines_of_code(extra: str) -> None:
    assert not list(violations(MODULE, function_of(FUNCTION_LINES_MAX, extra)))
    [found] = violations(MODULE, function_of(FUNCTION_LINES_MAX + 1, extra))
    assert found == f"{MODULE}:1: work: 81 lines of code, limit 80"


def test_a_match_with_loops_in_a_method_counts_as_lines() -> None:
    cases = "            case 1:\n                for _ in x:\n                    act()\n" * 27
    [found] = violations(MODULE, f"class Own:\n    def work(self, x):\n        match x:\n{cases}")
    assert found == f"{MODULE}:2: Own.work: 83 lines of code, limit 80"


def lazy(names: list[str]) -> str:
    homes = {"windlass.b": tuple(names[:20]), "windlass.c": tuple(names[20:])}
    imports = f"if TYPE_CHECKING:\n    from windlass.b import {', '.join(names)}\n"
    return f"{imports}_HOMES = {homes}\n__getattr__, __dir__ = _lazy_names(__name__, _HOMES)"


OFFERS: dict[str, Callable[[list[str]], str]] = {
    "a list": lambda names: f"__all__ = {names}",
    "imports": lambda names: f"from windlass.b import {', '.join(names)}",
    "lazy names": lazy,
}


@pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS)
def test_a_package_offers_at_most_forty_names(offer: Callable[[list[str]], str]) -> None:
    def offering(count: int) -> str:
        return offer([f"name{number}" for number in range(count)])

    assert not list(violations(PACKAGE, offering(PUBLIC_NAMES_MAX)))
    assert not list(violations(MODULE, offering(PUBLIC_NAMES_MAX + 1)))
    [found] = violations(PACKAGE, offering(PUBLIC_NAMES_MAX + 1))
    assert found == f"{PACKAGE}:1: 41 public names, limit 40"
    protocol = Path("packages/protocol/src/windlass_protocol/__init__.py")
    assert not list(violations(protocol, offering(PUBLIC_NAMES_MAX + 1)))


def test_vague_names_count_where_a_function_binds_them() -> None:
    text = (
        "def outer(given):\n    def inner(call):\n        one = call\n        return [one for one in given]\n"
    )
    assert vague_names(text) == {"given": 1, "one": 2}
    assert not vague_names("class Row:\n    place: int\n\nfound = place\n")


def test_a_package_binds_vague_names_no_more_often_than_before() -> None:
    limits = VAGUE_NAMES_MAX["runtime"]
    assert not list(vague_name_violations("runtime", limits))
    [problem] = vague_name_violations("runtime", {**limits, "place": limits["place"] + 1})
    assert problem.startswith(f"packages/runtime: local name place: {limits['place'] + 1} times")
    assert list(vague_name_violations("new", {"one": 1}))


def test_public_classes_are_counted_by_name() -> None:
    assert public_classes("class Row:\n    class Part: ...\n\nclass _Own: ...\n") == {"Row", "Part"}


def test_functions_that_are_named_by_a_participle_count_unless_they_are_properties_or_handlers() -> None:
    text = (
        "def _told(): ...\ndef spent_tokens(): ...\ndef send(): ...\ndef exceed(): ...\n"
        "def asked_for_more(): ...\nclass A:\n    @property\n    def settled(self): ...\n"
        "    @_ON.on(Row)\n    def ended(self): ...\n    def failed(self): ...\n"
    )
    assert participle_functions(text) == ["_told", "spent_tokens", "A.failed"]
