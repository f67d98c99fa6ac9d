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
    *(
        "wl_",
        "key-",
        "sq0atp-",
        "EAAA",
        "SK",
        "MTIz",
        "glsa_",
        "Q~",
        ".",
        "dp.pt.",
        "secret_",
        "com/api/v9/webhooks/",
    ),
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
        assert seed[0].isalnum() or seed.startswith((":", "-", "[.]"))


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


HEX, WORD = "0123456789abcdef" * 20, "aB3dE6gH9jK2mN5pQ8sT1vW4" * 20
SECRETS = {
    "Windlass": f"wl_ann1_{HEX[:64]}",
    "Windlass, long id": f"wl_{'a' * 64}_{HEX[:64]}",
    "Discord, 17 digits": f"MTIzNDU2Nzg5MDEyMzQ1Njc.{WORD[:6]}.{WORD[:27]}",
    "Discord, 18 digits": f"OTk5OTk5OTk5OTk5OTk5OTk5.{WORD[:6]}.{WORD[:38]}",
    "Discord, 19 digits": f"NDAwMDAwMDAwMDAwMDAwMDAwMA.G_x-Yz.{WORD[:38]}",
    "Twilio API key": f"SK{HEX[:32]}",
    "Mailgun": f"key-{HEX[:32]}",
    "Square token": f"sq0atp-{WORD[:22]}",
    "Square secret": f"sq0csp-{WORD[:43]}",
    "Square access": f"EAAA{WORD[:60]}",
    "Meta": f"EAAB{WORD[:120]}",
    "age": f"AGE-SECRET-KEY-1{'QPZRY9X8' * 7}AB",
    "Airtable": f"pat{WORD[:14]}.{HEX[:64]}",
    "Bedrock": f"ABSK{WORD[:110]}==",
    "Azure": f"Ab~8Q~{WORD[:34]}",
    "crates.io": f"cio{WORD[:32]}",
    "DigitalOcean": f"doo_v1_{HEX[:64]}",
    "Doppler": f"dp.pt.{WORD[:43]}",
    "ElevenLabs": f"sk_{HEX[:48]}",
    "E2B": f"e2b_{HEX[:40]}",
    "Figma": f"figd_{WORD[:40]}",
    "Firecrawl": f"fc-{HEX[:32]}",
    "Grafana cloud": f"glc_{WORD[:60]}",
    "Grafana": f"glsa_{WORD[:32]}_{HEX[:8]}",
    "Heroku": f"HRKU-AA{WORD[:58]}",
    "LangSmith": f"lsv2_pt_{HEX[:32]}_{HEX[:10]}",
    "Netlify": f"nfp_{WORD[:36]}",
    "New Relic": f"NRAK-{'ABC123DEF456' * 2}XYZ",
    "Notion": f"secret_{WORD[:43]}",
    "1Password": f"ops_eyJ{WORD[:200]}",
    "PlanetScale": f"pscale_tkn_{WORD[:43]}",
    "Postman": f"PMAK-{HEX[:24]}-{HEX[:34]}",
    "Prefect": f"pnu_{WORD[:36]}",
    "Pulumi": f"pul-{HEX[:40]}",
    "RubyGems": f"rubygems_{HEX[:48]}",
    "Brevo": f"xkeysib-{HEX[:64]}-{WORD[:16]}",
    "Sentry user": f"sntryu_{HEX[:64]}",
    "Sentry org": f"sntrys_eyJ{WORD[:60]}",
    "Shopify": f"shpss_{HEX[:32]}",
    "Supabase": f"sb_secret_{WORD[:31]}",
    "Tailscale": f"tskey-auth-{WORD[:12]}CNTRL-{WORD[:32]}",
    "Terraform": f"{WORD[:14]}.atlasv1.{WORD[:67]}",
    "AWS bearer": "ABIA" + "A1B2C3D4E5F6G7H8",
    "AWS context": "ACCA" + "A1B2C3D4E5F6G7H8",
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_key_of_a_service_is_masked_wherever_it_stands(name: str) -> None:
    secret = SECRETS[name]
    for before, after in (("", ""), ("use ", " now"), ('"', '"'), ("(", ")"), ("x=", ","), ("\n", "\n")):
        masked = mask_shapes(f"{before}{secret}{after}")
        assert MASKS.sub("", masked) == f"{before}{after}", masked


def test_the_secret_of_a_twilio_account_is_masked_and_its_number_is_not() -> None:
    account, token = f"AC{HEX[:32]}", HEX[2:34]
    assert mask_shapes(f"{account}:{token} sent") == f"{account}:[redacted:token] sent"
    assert mask_shapes(f"Accounts/{account}/Messages") == f"Accounts/{account}/Messages"


@pytest.mark.parametrize(
    "url",
    [
        "https://discord.com/api/webhooks/SECRET",
        "https://canary.discord.com/api/v10/webhooks/SECRET",
        "https://discordapp.com/api/v6/webhooks/SECRET",
        "https://hooks.slack.com/workflows/SECRET",
        "https://hooks.slack.com/triggers/SECRET",
        "https://acme.webhook.office.com/webhookb2/SECRET",
        "https://hooks.zapier.com/hooks/catch/SECRET",
    ],
)
def test_the_secret_part_of_a_webhook_address_is_masked(url: str) -> None:
    assert mask_shapes(url.replace("SECRET", f"123456789012345678/{WORD[:60]}")) == url.replace(
        "SECRET", "[redacted:webhook]"
    )


@pytest.mark.parametrize(
    "text",
    [
        f"wl_ann1_{HEX[:63]}",
        f"wl_Ann_{HEX[:64]}",
        f"xwl_ann1_{HEX[:64]}",
        "wl_display_name",
        f"MTIzNDU2Nzg5MDEyMzQ1Njc.{WORD[:5]}.{WORD[:27]}",
        f"Module.{WORD[:6]}.{WORD[:30]}",
        "node_modules.packages.some_very_long_module_name_here",
        f"SK{HEX[:31]}",
        f"AC{HEX[:32]}",
        f"TASK{HEX[:32]}",
        f"pubkey-{HEX[:32]}",
        f"key-{HEX[:31]}",
        f"key-{HEX[:40]}",
        f"sq0idp-{WORD[:22]}",
        "sq0atp-short",
        f"EAAA{WORD[:50]}",
        f"AAAAEAAA{WORD[:60]}",
        f"glsa_{WORD[:32]}",
        "secret_of_the_long_lost_temple_in_the_deep_jungle",
        "pscale_branch_name",
        "fc-abcdef",
        "cio_dashboard",
        "pul-request",
        "https://discord.com/api/v10/channels/123456789012345678",
        "https://hooks.slack.com/help",
        "tskey-auth",
        "dp.st.example",
    ],
)
def test_what_only_looks_like_such_a_key_is_left_as_it_is(text: str) -> None:
    assert mask_shapes(f"see {text} there") == f"see {text} there"
