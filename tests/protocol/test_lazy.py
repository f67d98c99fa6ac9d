"""Patterns are compiled when they are first used, and behave as compiled ones."""

import re

import pytest

from windlass_protocol.lazy import lazy_pattern


def test_a_pattern_matches_as_a_compiled_one() -> None:
    lazy, compiled = (
        lazy_pattern(r"(?P<year>\d{4})-(\d\d)", re.ASCII),
        re.compile(r"(?P<year>\d{4})-(\d\d)", re.ASCII),
    )
    text = "from 2025-03 to 2026-04"
    assert lazy.findall(text) == compiled.findall(text)
    assert [one.span() for one in lazy.finditer(text)] == [one.span() for one in compiled.finditer(text)]
    assert lazy.fullmatch("2025-03")
    assert lazy.match("2025-03 on")
    assert lazy.search(text)
    assert lazy.fullmatch("2025-03 on") is None
    assert lazy.sub("x", text) == "from x to x"
    assert lazy.subn("x", text, count=1) == ("from x to 2026-04", 1)
    assert lazy.split("a2025-03b") == compiled.split("a2025-03b")
    assert (lazy.pattern, lazy.flags, lazy.groups) == (compiled.pattern, compiled.flags, compiled.groups)
    assert dict(lazy.groupindex) == {"year": 1}
    assert lazy_pattern(rb"a+").fullmatch(b"aa")


def test_a_pattern_is_compiled_by_its_first_use_and_once() -> None:
    word = lazy_pattern("w+")
    uncompiled = type(word)
    assert not vars(word).keys() & {"match", "search", "pattern"}, "nothing is compiled"
    assert word.match("ww")
    match, search = vars(word)["match"], vars(word)["search"]
    assert match.__self__ is search.__self__, "one compiled pattern has all methods"
    assert type(match.__self__) is re.Pattern
    assert type(word) is not uncompiled
    assert not hasattr(type(word), "__getattr__"), "a later use does not compile again"
    assert word.search("aw")
    assert vars(word)["match"] is match
    assert repr(word) == repr(lazy_pattern("w+")) == "lazy_pattern('w+')"


def test_an_unknown_attribute_and_a_bad_pattern_raise_at_the_first_use() -> None:
    with pytest.raises(AttributeError, match="a pattern has no attribute 'matches'"):
        getattr(lazy_pattern("a"), "matches")  # noqa: B009 - the type checker knows that there is none
    bad = lazy_pattern("(")
    with pytest.raises(re.error):
        bad.match("x")
