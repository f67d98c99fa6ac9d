"""Shapes of secrets: their patterns are quick, and ordinary text has none."""

import re
import sysconfig
import uuid
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass_harness.redact import shapes
from windlass_harness.redact.shapes import (
    SEED_CHARS_MAX,
    SHAPES,
    WINDOW_CHARS,
    Shape,
    has_seed,
    mask_shape,
    mask_shapes,
)

ROOT = Path(__file__).parents[2]
MASKS = re.compile(r"\[redacted[:a-z_]*\]")
FALSE_MASKING_MAX = 0.001

# Pieces of texts with secrets, so that random texts contain them often.
PIECES = (
    *("sk-", "ghp_", "xoxb-", "AKIA", "eyJ", "AIza", "SG.", "hf_", "r8_", "dapi", "123456789:AA", "whsec_"),
    *("a" * 20, "B" * 20, "0" * 16, "abc123DEF456ghi789", "0123456789abcdef" * 2, "dXNlcjpwYXNz", "x"),
    *(
        "Bearer",
        "bearer",
        "Basic",
        "Authorization",
        "Cookie",
        "password",
        "token",
        "api_key",
        "key",
        "sig",
        "_",
        "--",
    ),
    *(
        " ",
        "\n",
        "\t",
        ":",
        "=",
        "=>",
        '"',
        "'",
        "\\",
        "/",
        "//",
        "?",
        "&",
        "@",
        ".",
        ",",
        "(",
        "-",
        "$",
        "[",
        "é",
    ),
    *(
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "hooks.slack.com/services/",
        "1",
        "--password",
    ),
    *("-u ", "--user=", "me:pass", "https://", "auth", "connectionString", "lettersonly", "two words"),
)
texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


def mask_without_seeds(text: str) -> str:
    """Reference masking: every pattern is tried on every text."""
    for shape in SHAPES:
        text = mask_shape(text, shape)
    return text


@given(texts)
def test_the_quick_look_misses_nothing_that_a_pattern_finds(text: str) -> None:
    expected = mask_without_seeds(text)
    assert mask_shapes(text) == expected
    assert has_seed(text.lower()) or expected == text


def test_masking_with_seeds_equals_masking_with_every_pattern() -> None:
    text = f"ghp_{'a1B2' * 9} and sk-{'abc123DEF456ghi789' * 2}"
    assert mask_without_seeds(text) == mask_shapes(text) != text


@given(texts)
def test_masking_is_idempotent(text: str) -> None:
    once = mask_shapes(text)
    assert mask_shapes(once) == once


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.pattern[:24])
def test_a_pattern_repeats_no_group_and_a_seed_has_no_open_end(shape: Shape) -> None:
    sets = re.compile(r"\[(?:\\.|[^\]\\])*\]")  # quantifiers inside a character set do not repeat
    assert re.search(r"\)[*+{]", sets.sub("[]", shape.pattern)) is None
    for seed in shape.seeds:
        # A possessive repetition gives nothing back, so the plus of `{0,32}+` opens nothing.
        assert re.search(r"\)[*+{]|[*]|,\}|(?<!\})[+]", sets.sub("[]", seed)) is None
        assert seed[0].isalnum() or seed[0] in ":-"


def test_ordinary_code_is_hardly_masked() -> None:
    folder = Path(sysconfig.get_paths()["stdlib"])
    sources = [path.read_text("utf-8") for path in sorted(folder.glob("*.py"))[:80]]
    assert sum(map(len, sources)) > 1_000_000
    assert share_lost(sources) <= FALSE_MASKING_MAX


@pytest.mark.promise("S1")
def test_our_own_pages_are_hardly_masked() -> None:
    pages = [path.read_text("utf-8") for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))]
    assert len(pages) > 5
    assert share_lost(pages) <= FALSE_MASKING_MAX


# Chance puts the start of a token into base64 for addresses once in some ten thousand texts. So the data are
# not new ones every time.
@pytest.mark.parametrize("size", range(300))
def test_data_in_hex_or_base64_is_no_secret(size: int) -> None:
    data = Random(size).randbytes(size)
    text = f"{data.hex()} {b64encode(data).decode()} {urlsafe_b64encode(data).decode()}"
    assert mask_shapes(text) == text


@given(st.uuids(), st.binary(min_size=20, max_size=32))
def test_ids_and_hashes_are_no_secrets(ident: uuid.UUID, digest: bytes) -> None:
    text = f"run {ident} at {digest.hex()}, run_{ident.hex.upper()}, sha256:{digest.hex()}"
    assert mask_shapes(text) == text


def share_lost(texts: Sequence[str]) -> float:
    """The number of characters that `mask_shapes` removes."""
    total = sum(map(len, texts))
    shown = sum(len(MASKS.sub("", mask_shapes(MASKS.sub("", text)))) for text in texts)
    return (total - shown) / total


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.seeds[0][:12])
def test_a_seed_is_shorter_than_what_a_window_is_searched_beyond_its_end(shape: Shape) -> None:
    for seed in shape.seeds:
        parser: Any = import_module("re._parser")
        assert parser.parse(seed).getwidth()[1] <= SEED_CHARS_MAX


@pytest.mark.parametrize("offset", [-600, -20, -3, 0, 3, 500])
def test_a_secret_in_a_large_text_is_found_across_the_windows_of_the_search(offset: int) -> None:
    secret = "https://ann:" + "p" * 250 + "@example.com"
    text = "x" * (2 * WINDOW_CHARS + offset) + " " + secret + " " + "y" * WINDOW_CHARS
    assert "ppp" not in mask_shapes(text)
    assert has_seed(text)
    plain = "x " * WINDOW_CHARS
    assert mask_shapes(plain) is plain


@pytest.mark.parametrize("seed", range(4))
def test_a_large_text_is_masked_in_windows_as_it_would_be_at_once(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = Random(seed)
    parts = list[str]()
    while sum(map(len, parts)) < 3 * WINDOW_CHARS:
        parts += chance.choices(PIECES, k=40)
        # Some windows have no match, and some matches begin in one window and end in another.
        parts.append(chance.choice((" ", "\n", "x", "a1")) * chance.choice((1, 100, WINDOW_CHARS // 2)))
    text = "".join(parts)
    in_windows = [mask_shape(text, shape) for shape in SHAPES]
    monkeypatch.setattr(shapes, "WINDOW_CHARS", len(text))
    assert in_windows == [mask_shape(text, shape) for shape in SHAPES]
    assert sum(masked != text for masked in in_windows) > 3
