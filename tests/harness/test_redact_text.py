"""A text that comes in pieces is masked like the whole of it."""

import html
import json
import re
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from textwrap import wrap
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.test_redact_shapes import SECRETS as TOKENS

from windlass_harness.redact import MASK, Redactor
from windlass_harness.redact.text import HOLD_CHARS_MAX

ROOT = Path(__file__).parents[2]
Case = dict[str, Any]
CASES: list[Case] = json.loads((ROOT / "conformance/cases/redact.json").read_text("utf-8").replace("·", ""))[
    "cases"
]
# Few letters, so that secrets overlap and begin within each other; `a` and `b` spell no shape of a secret.
LETTERS = "ab é&\n"
SECRETS = st.lists(
    st.text("ab", min_size=8, max_size=12) | st.text(LETTERS, min_size=8, max_size=12), max_size=3
)
KEY = "-----BEGIN PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA\n" * 2_000


def streamed(redactor: Redactor, pieces: Iterable[str]) -> str:
    stream = redactor.stream()
    return "".join([*map(stream.feed, pieces), stream.finish()])


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@st.composite
def registered_texts(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Secrets, and a text in pieces with some of them in some form."""
    secrets = draw(SECRETS)
    parts = st.text(LETTERS, max_size=6)
    for secret in secrets:
        base64 = b64encode(b"#" * draw(st.integers(0, 20)) + secret.encode()).decode()
        forms = [secret, secret[:-1], html.escape(secret), quote(secret), json.dumps(secret), base64]
        parts |= st.sampled_from([*forms, "\n".join(wrap(base64, 16)), "\\r\\n".join(wrap(base64, 17))])
    text = "".join(draw(st.lists(parts, max_size=8)))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return secrets, [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@pytest.mark.promise("S1")
@pytest.mark.parametrize("case", [case for case in CASES if "chunks" in case], ids=lambda case: case["name"])
def test_a_shared_stream_has_the_answer_of_every_language(case: Case) -> None:
    redactor = Redactor(case.get("secrets", ()))
    stream = redactor.stream()
    assert [*map(stream.feed, case["chunks"]), stream.finish()] == case["shown"]
    assert "".join(case["shown"]) == redactor.text("".join(case["chunks"]))


@pytest.mark.promise("S1")
@pytest.mark.parametrize("case", [case for case in CASES if "text" in case], ids=lambda case: case["name"])
def test_every_shared_text_in_pieces_is_masked_like_the_whole(case: Case) -> None:
    redactor = Redactor(case.get("secrets", ()))
    for size in (1, 2, 3, 7, 50):
        assert streamed(redactor, cut(case["text"], size)) == redactor.text(case["text"])


@pytest.mark.promise("S1")
@given(registered_texts())
def test_however_a_text_is_cut_registered_secrets_are_masked_like_in_the_whole(
    given_texts: tuple[list[str], list[str]],
) -> None:
    secrets, pieces = given_texts
    redactor = Redactor(secrets)
    shown = streamed(redactor, pieces)
    assert shown == redactor.text("".join(pieces))
    assert not any(secret in shown.replace(MASK, "\0") for secret in secrets)


@pytest.mark.promise("S1")
@given(registered_texts())
def test_at_no_time_a_registered_secret_shows(given_texts: tuple[list[str], list[str]]) -> None:
    secrets, pieces = given_texts
    stream = Redactor(secrets).stream()
    shown = ""
    for piece in pieces:
        shown += stream.feed(piece)
        assert not any(secret in shown.replace(MASK, "\0") for secret in secrets)


@pytest.mark.parametrize("secrets", [(), [f"secret-{number:06}" for number in range(1_000)]])
def test_no_more_than_the_current_word_of_prose_is_held(secrets: list[str]) -> None:
    stream = Redactor(secrets).stream()
    text = "Ordinary prose is shown word by word, whatever it says about authors, tokens and keys. " * 4
    shown, fed = "", ""
    for letter in text:
        fed += letter
        shown += stream.feed(letter)
        assert fed.startswith(shown)
        assert " " not in fed[len(shown) : -1]
    assert shown + stream.finish() == text


@pytest.mark.parametrize("secrets", [(), ["0123-4567-89"]])
def test_plain_words_are_shown_as_they_come(secrets: list[str]) -> None:
    text = (
        "The password of a reader, three tokens and (perhaps) their authors: all of them.\nIt needs a person."
    )
    stream = Redactor(secrets).stream()
    for word in re.findall("[ \n]?[^ \n]+", text):
        assert stream.feed(word) == word
    assert stream.finish() == ""


@pytest.mark.parametrize("word", ["key", "pat", "pattern", "sk", "access", "github", "A", "x1", "--password"])
def test_a_word_that_may_begin_a_secret_is_held_until_it_ends(word: str) -> None:
    stream = Redactor().stream()
    assert stream.feed(f"The {word}") == "The "
    assert stream.feed(" is") == f"{word} is" or word == "--password"


@pytest.mark.promise("S1")
@pytest.mark.parametrize("name", list(TOKENS))
@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_a_token_of_each_service_is_masked_in_pieces(name: str, size: int) -> None:
    for token in TOKENS[name]:
        for text in (token, f"use {token} now", f"Key: ({token}). Done"):
            shown, whole = streamed(Redactor(), cut(text, size)), Redactor().text(text)
            # It may begin with the word `a`, or with letters that no service has.
            assert re.sub(r"[A-Za-z]{1,3}(?=\[redacted)", "", shown) == whole
            assert token[4:] not in shown


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["The password", ": ", "hunter22", " now"], ["The password", "", "", ": [redacted] now"]),
        (["The token", " ", "= ", "hunter22x", " now"], ["The token", " ", "", "", "= [redacted] now"]),
        (["https", "://ann", ":hunter22", "@host ", "now"], ["https", "", "", "://[redacted]@host ", "now"]),
        (["secret", '="correct', " horse", '" no'], ["", "", "", 'secret="[redacted]" no']),
        (["a cookie", ": a=b", "; c=d", "\nno"], ["a cookie", "", "", ": [redacted:cookie]\nno"]),
    ],
)
def test_a_name_is_shown_before_its_value_is_masked(pieces: list[str], shown: list[str]) -> None:
    stream = Redactor().stream()
    assert list(map(stream.feed, pieces)) == shown
    assert "".join(shown) == Redactor().text("".join(pieces))


@pytest.mark.parametrize("opener", ["token: ", "Bearer ", "--password ", "Cookie: ", "-u ", "secret='"])
def test_names_of_secrets_in_a_row_hide_no_secret(opener: str) -> None:
    text = f"{opener * 9}password=abc-123-def y"
    shown = streamed(Redactor(), text)
    assert "abc-123-def" not in shown
    assert "abc-123-def" not in Redactor().text(text)


def test_a_text_without_spaces_between_words_is_not_held() -> None:
    stream = Redactor().stream()
    assert [stream.feed(letter) for letter in "日本語"] == ["日", "本", "語"]


@pytest.mark.parametrize("size", [1, 100, HOLD_CHARS_MAX + 1, len(KEY) + 100])
def test_a_private_key_of_any_length_is_dropped_while_it_comes(size: int) -> None:
    text = f"a {KEY}-----END PRIVATE KEY----- b {KEY}"
    pieces = cut(text, size)
    stream = Redactor().stream()
    shown = [stream.feed(piece) for piece in pieces]
    assert "".join(shown).startswith("a [redacted:private_key]")
    assert "".join([*shown, stream.finish()]) == "a [redacted:private_key] b [redacted:private_key]"


@pytest.mark.parametrize("size", [1, 1_000, 100_000])
@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("x sk-a1" + "b" * 3 * HOLD_CHARS_MAX + " y z", "x [redacted:token] y z"),
        ("x password=a1" + "b" * 3 * HOLD_CHARS_MAX + "' y z", "x password=[redacted]' y z"),
        ("Cookie: a=b; " + "c d " * HOLD_CHARS_MAX + "\nx y", "Cookie: [redacted:cookie]\nx y"),
        ("authorization: basic " + "c d " * HOLD_CHARS_MAX, "authorization: basic [redacted:authorization]"),
    ],
)
def test_a_secret_that_is_too_long_to_hold_is_dropped_to_its_end(text: str, masked: str, size: int) -> None:
    assert streamed(Redactor(), cut(text, size)) == masked


@pytest.mark.parametrize("size", [1, 1_000, 100_000])
def test_a_word_that_is_too_long_to_hold_is_shown_and_still_watched(size: int) -> None:
    data = "x" * (3 * HOLD_CHARS_MAX)
    text = f"{data}.sk-abc0123456789abcdefghij.{data} sk-abc0123456789abcdefghij"
    stream = Redactor().stream()
    shown = "".join(map(stream.feed, cut(text, size)))
    assert shown.startswith(data)
    assert shown + stream.finish() == f"{data}.[redacted:token].{data} [redacted:token]"


@pytest.mark.parametrize("before", range(HOLD_CHARS_MAX - 320, HOLD_CHARS_MAX - 180, 7))
def test_letting_go_of_a_long_word_cuts_through_no_secret(before: int) -> None:
    text = "x" * before + ".sk-abc0123456789abcdefghij." + "y" * HOLD_CHARS_MAX
    assert streamed(Redactor(), cut(text, 1)) == text.replace(
        "sk-abc0123456789abcdefghij", "[redacted:token]"
    )
