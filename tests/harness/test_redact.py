"""Masking of texts and values: shared cases, limits, and registered secrets."""

import html
import json
import re
from base64 import b64encode, encodebytes, urlsafe_b64encode
from collections.abc import Callable
from copy import deepcopy
from datetime import date
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windlass_harness import redact
from windlass_harness.redact import (
    CYCLE,
    DEPTH_MAX,
    MASK,
    SECRET_CHARS_MAX,
    SECRET_CHARS_MIN,
    SECRETS_MAX,
    TOO_DEEP,
    Redactor,
    mask_text,
    sanitize_for_trace,
)
from windlass_protocol import ToolCall

Case = dict[str, Any]
CASES: list[Case] = json.loads(
    (Path(__file__).parents[2] / "conformance/cases/redact.json").read_text("utf-8").replace("·", "")
)["cases"]
SECRET = "hunter2hunter2"
REFUSED = "register secrets of 8 to 16384 characters|takes a list of secrets, found|must be a string, found"
JSON_KEYS = st.sampled_from(
    ("a", "password", "tokens", "name", "value", "type", "authorization", "key", "üñ")
)
JSON_TEXTS = st.text(max_size=8) | st.sampled_from(("Bearer xyz", "apiKey", "string", "a://b:c@d", MASK))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | JSON_TEXTS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(JSON_KEYS | JSON_TEXTS, below, max_size=4),
    max_leaves=12,
)


def nested(depth: int) -> object:
    """Lists in lists; an empty one has depth 1."""
    value: list[object] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.promise("S1")
@pytest.mark.parametrize(
    "case",
    [case for case in CASES if not {"keys", "chunks"} & case.keys()],
    ids=lambda case: case["name"],
)
def test_a_shared_case_has_the_answer_of_every_language(case: Case) -> None:
    if "refused" in case:
        with pytest.raises(ValueError, match=REFUSED) as raised:
            Redactor(case["secrets"])
        assert "hunter2" not in str(raised.value)
        return
    redactor = Redactor(case.get("secrets", ()))
    given_value: Any = case["text"] if "text" in case else case["value"]
    before = deepcopy(given_value)
    masked = redactor.text(given_value) if "text" in case else redactor.value(given_value)
    assert masked == case.get("masked", given_value)
    assert given_value == before, "the input must not be changed"


@given(JSON_VALUES)
def test_masking_twice_is_masking_once(value: object) -> None:
    once = sanitize_for_trace(value)
    assert sanitize_for_trace(once) == once


@given(JSON_VALUES)
def test_a_value_without_secrets_comes_back_as_the_same_object(value: object) -> None:
    once = sanitize_for_trace(value)
    assert sanitize_for_trace(once) is once


def test_only_values_with_a_secret_are_copied() -> None:
    clean: object = {"text": ["plain"]}
    value = {"clean": clean, "rest": (clean, "Bearer xyz")}
    masked = sanitize_for_trace(value)
    assert masked == {"clean": clean, "rest": (clean, "Bearer [redacted:bearer]")}
    assert isinstance(masked, dict)
    assert masked["clean"] is clean


def test_a_word_of_an_enumeration_and_many_keys_are_looked_at_like_any_text() -> None:
    class Word(StrEnum):
        PLAIN = "plain"
        KEY = "sk-proj-" + "a1B2c3D4" * 6

    clean = {f"name {index}": Word.PLAIN for index in range(40)}
    assert sanitize_for_trace(clean) is clean
    assert Word.KEY not in str(sanitize_for_trace({**clean, "word": Word.KEY}))


def test_only_a_registered_secret_is_looked_for_in_a_text_that_has_no_shapes() -> None:
    redactor = Redactor(("horse-staple",))
    assert redactor.has_registered("data:image/png;base64,horse-staple")
    assert not redactor.has_registered("password=correct-battery")
    assert not Redactor().has_registered("horse-staple")


def test_keys_that_were_clean_before_are_not_clean_for_another_redactor() -> None:
    value = {"hunter2-hunter2": 1}
    assert sanitize_for_trace(value) is value
    assert Redactor(secrets=["hunter2-hunter2"]).value(value) == {MASK: 1}


def test_texts_of_no_secret_are_the_same_object() -> None:
    text = "token = " + "get_token(1)"
    assert mask_text(text) is text


def test_a_value_that_is_a_text_alone_is_masked_like_any_text() -> None:
    redactor = Redactor(["horse-staple"])
    assert redactor.value("the key is horse-staple") == f"the key is {MASK}"
    assert redactor.value("Bearer xyz") == "Bearer [redacted:bearer]"
    clean = " ".join(["the", "key", "is", "secret"])
    assert redactor.value(clean) is clean


def test_mappings_of_any_kind_are_looked_into() -> None:
    assert sanitize_for_trace(MappingProxyType({"password": "x"})) == {"password": MASK}
    clean = MappingProxyType({"a": 1})
    assert sanitize_for_trace(clean) is clean


def test_keys_that_are_no_text_stay_and_opaque_ones_become_a_marker() -> None:
    value = {1: "a", None: "b", 0.5: "Bearer xyz", date.min: "c"}
    assert sanitize_for_trace(value) == {
        1: "a",
        None: "b",
        0.5: "Bearer [redacted:bearer]",
        "[opaque:date]": "c",
    }


@pytest.mark.parametrize("value", [b"bytes", date.min, {1, 2}, object(), Redactor()])
def test_opaque_objects_are_replaced_by_a_marker(value: object) -> None:
    marker = f"[opaque:{type(value).__name__}]"
    assert sanitize_for_trace(value) == marker
    assert sanitize_for_trace({"a": [value]}) == {"a": [marker]}


CALL = ToolCall(id="c1", name="login", arguments={"password": "x", "user": "me"})
CALL_MASKED = {"id": "c1", "name": "login", "arguments": {"password": MASK, "user": "me"}}


@pytest.mark.promise("S1")
def test_a_model_is_shown_as_the_json_it_is_written_as() -> None:
    assert sanitize_for_trace(CALL) == CALL_MASKED
    assert sanitize_for_trace({"calls": [CALL, 1]}) == {"calls": [CALL_MASKED, 1]}
    assert sanitize_for_trace({"token": CALL}) == sanitize_for_trace({"token": CALL_MASKED})


@pytest.mark.promise("S1")
def test_no_model_is_taken_for_another_one() -> None:
    calls = [CALL.model_copy(update={"arguments": {"password": "x", "n": number}}) for number in range(50)]
    assert sanitize_for_trace(calls) == [
        {**CALL_MASKED, "arguments": {"password": MASK, "n": number}} for number in range(50)
    ]


def test_a_model_without_a_json_form_and_its_class_are_not_shown() -> None:
    broken = CALL.model_copy(update={"name": b"\xff"})
    assert sanitize_for_trace([broken, ToolCall]) == ["[opaque:ToolCall]", "[opaque:ModelMetaclass]"]


@pytest.mark.parametrize(
    ("secrets", "advice"),
    [
        (SECRET, r"found a single string: write Redactor\(\[secret\]\)$"),
        (SECRET.encode(), "found a single string"),
        ({"a": SECRET}, r"found a mapping: write Redactor\(secrets.values\(\)\)$"),
        (5, "found a value of type int$"),
        ([SECRET, None], "^secret number 1 must be a string, found NoneType; decode it, or leave it out"),
    ],
)
def test_secrets_that_are_not_a_list_of_texts_are_refused_with_advice(secrets: Any, advice: str) -> None:
    with pytest.raises(ValueError, match=advice) as raised:
        Redactor(secrets)
    assert SECRET not in str(raised.value)


def test_depth_is_kept_up_to_its_limit_and_not_past_it() -> None:
    at_limit, past_limit = nested(DEPTH_MAX), nested(DEPTH_MAX + 1)
    assert sanitize_for_trace(at_limit) is at_limit
    masked = sanitize_for_trace(past_limit)
    for _ in range(DEPTH_MAX):
        assert isinstance(masked, list)
        masked = cast(list[object], masked)[0]
    assert masked == TOO_DEEP


def test_a_text_below_the_deepest_list_is_still_looked_at() -> None:
    value: object = "Bearer xyz"
    for _ in range(DEPTH_MAX):
        value = [value]
    masked = sanitize_for_trace(value)
    assert "xyz" not in repr(masked)
    assert TOO_DEEP not in repr(masked)


def test_a_value_inside_itself_becomes_a_marker() -> None:
    loop: dict[str, object] = {"a": 1}
    loop["self"] = [loop, loop]
    assert sanitize_for_trace(loop) == {"a": 1, "self": [CYCLE, CYCLE]}


@pytest.mark.parametrize("leaf", ["plain", "Bearer xyz"])
def test_a_value_that_is_shared_again_and_again_does_not_hang(leaf: str) -> None:
    value: object = leaf
    for _ in range(DEPTH_MAX - 1):
        value = [value, value]
    masked = sanitize_for_trace(value)
    for _ in range(DEPTH_MAX - 1):
        assert isinstance(masked, list)
        masked = cast(list[object], masked)[1]
    assert masked == mask_text(leaf)


@pytest.mark.parametrize("length", [SECRET_CHARS_MIN, SECRET_CHARS_MAX])
def test_secrets_of_allowed_lengths_are_masked(length: int) -> None:
    assert Redactor(["é" * length]).text(f"<{'é' * length}>") == f"<{MASK}>"


@pytest.mark.parametrize("length", [0, SECRET_CHARS_MIN - 1, SECRET_CHARS_MAX + 1])
def test_a_refused_secret_is_not_in_the_message(length: int) -> None:
    with pytest.raises(ValueError, match=f"secret number 1 has {length} characters") as raised:
        Redactor([SECRET, "é" * length])
    assert "é" not in str(raised.value)


def test_the_number_of_registered_secrets_is_limited() -> None:
    secrets = [f"secret-{number:06}" for number in range(SECRETS_MAX + 1)]
    assert Redactor(secrets[:-1]).text(secrets[-2]) == MASK
    with pytest.raises(ValueError, match="too many secrets to register: 1001, limit 1000"):
        Redactor(secrets)


def test_a_secret_registered_twice_counts_once() -> None:
    assert Redactor([SECRET] * (SECRETS_MAX + 1)).text(SECRET) == MASK


def test_a_redactor_does_not_show_its_secrets() -> None:
    assert repr(Redactor([SECRET])) == "Redactor()"


ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": json.dumps,
    "json without ascii": lambda text: json.dumps(text, ensure_ascii=False),
    "json in json": lambda text: json.dumps(json.dumps(text)),
    "url": lambda text: quote(text, safe=""),
    "path": quote,
    "form": quote_plus,
    "component": lambda text: quote(text, safe="!'()*"),
    "whole address": lambda text: quote(text, safe="!'()*;/?:@&=+$,#"),
    "form of a page": lambda text: quote_plus(text, safe="*").replace("~", "%7E"),
    "html": html.escape,
    "html without quotes": lambda text: html.escape(text, quote=False),
    "base64 over lines": lambda text: encodebytes(b"?" * 50 + text.encode() + b"!").decode(),
    "lower-case url": lambda text: re.sub("%..", lambda escape: escape[0].lower(), quote(text, safe="")),
    "hex": lambda text: text.encode().hex(),
    "upper-case hex": lambda text: text.encode().hex().upper(),
    **{
        f"{alphabet.__name__} at {offset}": lambda text, alphabet=alphabet, offset=offset: alphabet(
            b"?" * offset + text.encode() + b"!"
        ).decode()
        for alphabet in (b64encode, urlsafe_b64encode)
        for offset in range(6)
    },
}


@pytest.mark.promise("S1")
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    "secret", [SECRET, "p@ss/w=rd ü€", 'a"b\\c\nd\te', "???>>>~~~~~", "12345678", "<a>&'b'*~"]
)
def test_a_registered_secret_is_found_in_every_encoding(encoding: str, secret: str) -> None:
    encoded = ENCODINGS[encoding](secret)
    masked = Redactor([secret]).text(f"<{encoded}>")
    assert MASK in masked
    # The surroundings stay, and in base64 a shared letter at each end.
    assert len(masked) <= len(f"<{MASK}>") + (13 if encoding != "base64 over lines" else 77)


@pytest.mark.promise("S1")
def test_a_number_that_no_language_writes_in_digits_is_looked_at() -> None:
    redactor = Redactor(["98765432", "1234567890123456"])
    value = [10**5_000, -(10**400), 1e308, float("inf"), 9876543.5, True]
    assert redactor.value(value) is value
    assert redactor.value([-1234567890123456.0, 1234567890123457]) == [MASK, 1234567890123457]
    assert Redactor(["98765432109876543210"]).value([-98765432109876543210.0]) == [MASK]


@pytest.mark.promise("S1")
@given(st.text(min_size=SECRET_CHARS_MIN, max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_no_registered_secret_is_left_in_any_text(secret: str, before: str, after: str) -> None:
    masked = Redactor([secret]).text(before + secret + after)
    assert secret not in masked or secret in MASK


@given(st.binary(min_size=8, max_size=30), st.binary(max_size=7), st.binary(max_size=7))
def test_a_registered_secret_is_found_in_any_base64_around_it(
    secret: bytes, before: bytes, after: bytes
) -> None:
    text = secret.hex()
    encoded = b64encode(before + text.encode() + after).decode()
    assert MASK in Redactor([text]).text(encoded)


def test_a_long_text_after_a_login_option_is_masked_also_if_it_was_clean_before() -> None:
    redactor, login = Redactor(), "alice:" + "correct horse battery staple " * 10
    assert redactor.value({"text": login}) == {"text": login}
    assert redactor.value({"text": login, "more": "x"}) == {"text": login, "more": "x"}
    assert redactor.value(["curl", "-u", login]) == Redactor().value(["curl", "-u", "".join(login)])
    assert "staple" not in str(redactor.value(["curl", "-u", login]))


WORDS = st.sampled_from(
    ["-u", "--user", "-U", "joe:hunter2222", "uid:gid", "--password", "password", "hunter2222", "curl", "x",
     "call-user-1", "token=abcdef123456", "sk-" + "a1" * 12, "Bearer abcdef123456", "correct horse"]
)  # fmt: skip
VALUES = st.recursive(
    WORDS, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=3))
)


@example(values=["joe:hunter2222", ["curl", "-u", "joe:hunter2222"]])
@example(values=[["curl", "-u"], ["curl", "-u", "joe:hunter2222"]])
@example(values=[["--password", "hunter"], ["--token=abc"]])
@given(values=st.lists(VALUES, min_size=2, max_size=6))
def test_what_was_inspected_before_does_not_change_what_is_masked(values: list[object]) -> None:
    redactor = Redactor(["correct horse"])
    for word in ("--password", "--token=abc", "-u", "joe:hunter2222"):
        assert redactor.text(word) == word
    for value in values:
        assert redactor.value(value) == Redactor(["correct horse"]).value(value)


def test_the_texts_that_are_remembered_as_clean_are_few() -> None:
    redactor = Redactor()
    for number in range(40):
        assert redactor.is_clean({"text": f"{number} " + "word " * 100})


class _AnyCase(str):
    """A text that equals any text with the same letters."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __hash__(self) -> int:
        return hash(self.lower())


class _Unhashable(str):
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __eq__(self, other: object) -> bool:
        return str(self) == other


def test_a_text_with_an_equality_of_its_own_is_masked_by_its_characters() -> None:
    redactor = Redactor(["HUNTER2SECRET"])
    assert redactor.value(["hunter2secret"]) == ["hunter2secret"]
    for text in (_AnyCase("HUNTER2SECRET"), _Unhashable("HUNTER2SECRET")):
        assert str(redactor.text(text)) == MASK
        assert str(redactor.value([text])) == str([MASK])
    assert redactor.is_clean([_Unhashable("a word")])


def test_words_that_are_remembered_as_clean_are_few_and_hold_no_login_option() -> None:
    redactor = Redactor()
    for number in range(1_100):
        assert redactor.is_clean([f"word {number}", "call-user-1", "curl -U", "a longer text, " * 8])
    assert redactor.value(["curl", "-U", "joe:hunter2222"]) == Redactor().value(
        ["curl", "-U", "joe:hunter2222"]
    )
    assert redactor.value(["curl", "-u", "joe:hunter2222"]) == ["curl", "-u", MASK]


LARGE_CHARS = 70_000


def test_a_large_text_is_inspected_once_and_recognised_by_its_content(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inspected = list[int]()
    before = redact.mask_shapes

    def mask_shapes(text: str) -> str:
        if len(text) > 1_000:
            inspected.append(len(text))
        return before(text)

    monkeypatch.setattr(redact, "mask_shapes", mask_shapes)
    redactor = Redactor(["the-registered-one"])
    dirty = "token=abcdef123 " * (LARGE_CHARS // 8) + "the-registered-one"
    masked = cast(dict[str, str], redactor.value({"text": dirty}))["text"]
    assert "abcdef123" not in masked
    assert "the-registered-one" not in masked
    assert len(inspected) == 1
    # Read back, it is another object with the same content.
    again = {"text": "".join([masked[:10], masked[10:]])}
    assert redactor.value(again) is again
    assert redactor.text(again["text"]) is again["text"]
    assert redactor.is_settled(again["text"])
    assert not redactor.is_settled(dirty)
    assert len(inspected) == 1
    # One changed character, and it is inspected.
    assert redactor.text(masked + "password=hunter22") != masked + "password=hunter22"
    clean = "plain words " * (LARGE_CHARS // 10)
    assert redactor.is_clean([clean])
    assert redactor.text("".join([clean[:5], clean[5:]])) == clean
    assert len(inspected) == 2
    # After a login option it may be a password, whatever was seen before.
    secret = "a:" + "b" * LARGE_CHARS
    assert redactor.is_clean([secret])
    assert redactor.value(["-u", secret]) == ["-u", MASK]
    # Only its exact characters count, also without a valid encoding.
    assert redactor.text("\ud800" + clean) == "\ud800" + clean


def test_the_large_texts_that_are_remembered_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "_SETTLED_MAX", 2)
    redactor = Redactor()
    texts = [f"{number} " * LARGE_CHARS for number in range(3)]
    assert all(redactor.text(text) == text for text in texts)
    seen = list[int]()
    before = redact.mask_shapes

    def mask_shapes(text: str) -> str:
        seen.append(len(text))
        return before(text)

    monkeypatch.setattr(redact, "mask_shapes", mask_shapes)
    assert all(redactor.text(text) == text for text in (texts[2], texts[2], texts[0]))
    assert len(seen) == 1


def test_the_oldest_large_texts_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "_LARGE_CHARS_MAX", 3 * LARGE_CHARS)
    monkeypatch.setattr(redact, "_LARGE_MAX", 3)
    redactor = Redactor()
    large = [str(number) * LARGE_CHARS for number in range(3)]
    for text in (*large, large[0]):
        redactor.settle(text)
    assert all(map(redactor.is_settled, large))
    redactor.settle("3" * LARGE_CHARS)
    assert [redactor.is_settled(text) for text in large] == [False, True, True]
    small = [str(number) * 2_000 for number in range(4)]
    for text in small:
        redactor.settle(text)
    assert [redactor.is_settled(text) for text in (*large, *small)] == [False] * 4 + [True] * 3
    redactor.settle("4" * (3 * LARGE_CHARS + 1))
    assert not redactor.is_settled("4" * (3 * LARGE_CHARS + 1))


@pytest.mark.parametrize(
    ("value", "is_small"),
    [
        (["word"] * 9, True),
        (["word"] * 10, False),
        ({str(number): 1 for number in range(9)}, True),
        ({str(number): 1 for number in range(10)}, False),
        ([["word"] * 8, 1], False),
        ("x" * 50, True),
        ("x" * 51, False),
        (["x" * 25, "y" * 25], False),
    ],
)
def test_a_value_above_the_limits_is_not_inspected(value: object, *, is_small: bool) -> None:
    redactor = Redactor([])
    assert redactor.is_clean(value, values_max=10, chars_max=50) is is_small
    assert redactor.is_clean(value)
