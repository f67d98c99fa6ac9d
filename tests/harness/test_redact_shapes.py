"""Shapes of secrets: their patterns are quick, and ordinary text has none."""

import re
import sysconfig
import uuid
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass_harness.redact_shapes import SHAPES, Found, Shape, mask_shapes, may_hold_secret

TYPESCRIPT = Path(__file__).parents[2] / "web/harness/src/redact-shapes.ts"
FALSE_MASKING_MAX = 0.001

# What texts with secrets are made of, so that chance puts them together often.
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
)
texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


def mask_without_seeds(text: str) -> str:
    """What masking is, if every pattern is tried on every text."""
    for shape in SHAPES:
        text = re.sub(shape.pattern, lambda match, shape=shape: masked(match, shape), text, flags=re.ASCII)
    return text


def masked(match: re.Match[str], shape: Shape) -> str:
    name, between, secret = match.groups()
    start, end = match.span()
    found = Found(name, between, secret, match.string[start - 1 : start], match.string[end : end + 1])
    return f"{name}{between}[redacted{shape.hint}]" if shape.accept(found) else match[0]


@given(texts)
def test_the_quick_look_misses_nothing_that_a_pattern_finds(text: str) -> None:
    expected = mask_without_seeds(text)
    assert mask_shapes(text) == expected
    assert may_hold_secret(text) or expected == text


@given(texts)
def test_what_is_masked_stays_as_it_is_when_masked_again(text: str) -> None:
    once = mask_shapes(text)
    assert mask_shapes(once) == once


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.pattern[:24])
def test_a_pattern_repeats_no_group_and_a_seed_has_no_open_end(shape: Shape) -> None:
    sets = re.compile(r"\[(?:\\.|[^\]\\])*\]")  # what stands in a set of characters repeats nothing
    assert re.search(r"\)[*+{]", sets.sub("[]", shape.pattern)) is None
    for seed in shape.seeds:
        # A possessive repetition gives nothing back, so the plus of `{0,32}+` opens nothing.
        assert re.search(r"\)[*+{]|[*]|,\}|(?<!\})[+]", sets.sub("[]", seed)) is None
        assert seed[0].isalnum() or seed[0] in ":-"


def test_typescript_has_the_same_patterns() -> None:
    source = TYPESCRIPT.read_text("utf-8")
    source = source[source.index("const SHAPES") :]
    blocks = re.findall(r"\bpattern:(.*?)\baccept:", source, re.DOTALL)
    literal = re.compile(r'String\.raw`([^`]*)`|"([^"]*)"')
    patterns = [
        "".join(a or b for a, b in literal.findall(re.sub(r"(?m)^ +//.*", "", block))) for block in blocks
    ]
    hints = re.findall(r'hint: "(.*)"', source)
    assert list(zip(hints, patterns, strict=True)) == [(shape.hint, shape.pattern) for shape in SHAPES]


def test_ordinary_code_is_hardly_masked() -> None:
    folder = Path(sysconfig.get_paths()["stdlib"])
    sources = [path.read_text("utf-8") for path in sorted(folder.glob("*.py"))[:80]]
    total = sum(map(len, sources))
    lost = sum(len(secret) for source in sources for secret in secrets_found(source))
    assert total > 1_000_000
    assert lost / total <= FALSE_MASKING_MAX


@given(st.binary(max_size=300))
def test_data_in_hex_or_base64_is_no_secret(data: bytes) -> None:
    text = f"{data.hex()} {b64encode(data).decode()} {urlsafe_b64encode(data).decode()}"
    assert mask_shapes(text) == text


@given(st.uuids(), st.binary(min_size=20, max_size=32))
def test_ids_and_hashes_are_no_secrets(ident: uuid.UUID, digest: bytes) -> None:
    text = f"run {ident} at {digest.hex()}, run_{ident.hex.upper()}, sha256:{digest.hex()}"
    assert mask_shapes(text) == text


def secrets_found(text: str) -> list[str]:
    """What `mask_shapes` takes out of a text."""
    return [
        match[3]
        for shape in SHAPES
        for match in re.finditer(shape.pattern, text, re.ASCII)
        if masked(match, shape) != match[0]
    ]
