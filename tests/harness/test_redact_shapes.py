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
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.cpu import run_within

from windlass_harness.redact import shapes
from windlass_harness.redact.shapes import (
    SEED_CHARS_MAX,
    SERVICES,
    SHAPES,
    WINDOW_CHARS,
    Shape,
    has_seed,
    mask_shape,
    mask_shapes,
)

ROOT = Path(__file__).parents[2]
WHOLE_BEARER = re.compile(r"(?:[Bb]earer|BEARER)[ \t]{1,4}[^ \t\r\n[]+")
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
    *(
        "otp",
        "totp",
        "dbpwd",
        "app_key",
        "jwt",
        "passphrase",
        "credentials",
        "cookie",
        "k3x9vq71z",
        "\\n",
        "%3D",
    ),
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


SECRET_BESIDE = f"ghp_{'a1B2' * 9}"
LONG_JWT = f"eyJhbGciOiJI.{'a1B2' * 60}.c3"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("otp=k3x9vq71z", "otp=[redacted]"),
        (f"token{'_' * 50}=k3x9vq71z", f"token{'_' * 50}=[redacted]"),
        (f"--{'x-' * 16}token k3x9vq71z", f"--{'x-' * 16}token [redacted]"),
        ("pa_ssword=k3x9vq71z", "pa_ssword=k3x9vq71z"),
        ("İİ otp=k3x9vq71z", "İİ otp=[redacted]"),
        (f"see x://u.{LONG_JWT}:pw@host", "see x://[redacted]@host"),
    ],
)
def test_a_mask_does_not_depend_on_what_else_is_masked(text: str, masked: str) -> None:
    assert mask_shapes(text) == masked == mask_without_seeds(text)
    for between in (" ", "\n", ', "'):
        beside = f"{SECRET_BESIDE}{between}{text}"
        assert mask_shapes(beside) == f"[redacted:token]{between}{masked}" == mask_without_seeds(beside)


@pytest.mark.parametrize("quote", ['"', "'"])
def test_of_a_long_line_only_the_part_with_a_seed_is_searched(
    monkeypatch: pytest.MonkeyPatch, quote: str
) -> None:
    searched: list[int] = []
    mask = shapes._mask_line  # pyright: ignore[reportPrivateUsage]

    def mask_line(text: str) -> str:
        searched.append(len(text))
        return mask(text)

    monkeypatch.setattr(shapes, "_mask_line", mask_line)
    item = f"{quote}name{quote}: {quote}of an item{quote}, "
    text = f"{item * 5_000}{quote}password{quote}: {quote}k3x9vq71z{quote}, {item * 5_000}"
    assert mask_shapes(text) == text.replace("k3x9vq71z", "[redacted]")
    assert searched != []
    assert max(searched) < 100


@given(texts, texts)
def test_two_texts_with_blank_lines_between_are_masked_like_each_alone(first: str, second: str) -> None:
    for text in (first, second):
        # These two shapes need the whole text: a text that is a bearer token, and a key without an end.
        assume(WHOLE_BEARER.fullmatch(text) is None and "PRIVATE KEY" not in text)
    blank = "\n\n\n"
    assert mask_shapes(f"{first}{blank}{second}") == mask_shapes(first) + blank + mask_shapes(second)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "otp",
            "totp_otp",
            "user-otp",
            "password",
            "passwd",
            "passphrase",
            "passcode",
            "secret",
            "credential",
        ),
        *(
            "token",
            "authorization",
            "cookie",
            "jwt",
            "bearer",
            "basic_auth",
            "api_key",
            "DD_APP_KEY",
            "pw",
            "dbpwd",
        ),
        *(
            "application-key",
            "NEW_RELIC_LICENSE_KEY",
            "insert_key",
            "ALGOLIA_ADMIN_KEY",
            "connection_string",
            "accessTokens",
            "dbpass",
        ),
    ],
)
@pytest.mark.parametrize("form", ["{}=k3x9vq71z", "{}: k3x9vq71z", '{}="k3x9vq71z"', "--{} k3x9vq71z"])
def test_a_value_with_a_secret_name_is_masked_beside_nothing_else(name: str, form: str) -> None:
    assert "k3x9vq71z" not in mask_shapes(form.format(name))


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
        assert seed[0].isalnum() or seed.startswith((":", "-", "_", "[.]"))


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


HOSTILE = """
from windlass_harness.redact.shapes import mask_shapes
for beginning in BEGINNINGS:
    for end in ("", ".", "." + "b" * SIZE):
        mask_shapes(beginning * (SIZE // len(beginning)) + end)
"""


@pytest.mark.parametrize(
    "beginnings",
    [
        ["eyJ_", "eyJ-abcdefgh", "eyJa.", "sk.eyJ", "ops_eyJ", "tgp_v1_", "wandb_v1_0-"],
        [
            "-----BEGIN PRIVATE KEY-----",
            "-----BEGIN ",
            "Bearer ",
            "Basic QUJD",
            "Authorization: a ",
            "Cookie: a=",
        ],
        [
            "https://a:",
            "http://a",
            "-u a:",
            "token=",
            '"token":"',
            "api_key=>",
            "--password ",
            "MTIz.",
            "AC0:",
        ],
    ],
)
def test_the_time_for_a_hostile_text_grows_with_its_length(beginnings: list[str]) -> None:
    # A megabyte takes less than a second, and would take minutes if each attempt looked at the rest of it.
    run_within(40, HOSTILE.replace("SIZE", "1_000_000").replace("BEGINNINGS", repr(beginnings)))


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"{'eyJ_' * 9}.{'b' * 9}.c", "[redacted:jwt]"),
        (f"a_b-{'eyJ_' * 9}.b.c d", "a_b-[redacted:jwt] d"),
        (f"eyJ_eyJ-{'a' * 7}.b.c", "[redacted:jwt]"),
        (f"eyJa_eyJ{'a' * 4}.b.c", "[redacted:jwt]"),
        (f"aeyJ{'a' * 9}.b.c", f"aeyJ{'a' * 9}.b.c"),
        (f"eyJ{'a' * 9}.b c.d.e", f"eyJ{'a' * 9}.b c.d.e"),
        (f"x.eyJ{'a' * 9}.b.c", "x.[redacted:jwt]"),
    ],
)
def test_a_jwt_begins_where_a_word_does_or_after_a_mark(text: str, masked: str) -> None:
    assert mask_shapes(text) == masked


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


HEX, WORD, CAPITALS = "0123456789abcdef" * 20, "aB3dE6gH9jK2mN5pQ8sT1vW4" * 20, "A1B2C3D4E5F6G7H8" * 5
UUID = "01234567-89ab-cdef-0123-456789abcdef"
# Tokens in the shape that each service gives them; none was ever issued.
SECRETS = {
    "Windlass": (f"wl_ann1_{HEX[:64]}", f"wl_{'a' * 64}_{HEX[:64]}"),
    "1Password": (f"ops_eyJ{WORD[:200]}",),
    "1Password account": (f"A3-{CAPITALS[:6]}-{CAPITALS[:11]}-B2C3D-E4F5G-H6J7K",),
    "Adobe": (f"p8e-{WORD[:32]}",),
    "age": (f"AGE-SECRET-KEY-1{'QPZRY9X8' * 7}AB",),
    "Airtable": (f"pat{WORD[:14]}.{HEX[:64]}",),
    "Alibaba": (f"LTAI{WORD[:20]}",),
    "Apify": (f"apify_api_{WORD[:36]}",),
    "Atlassian": (f"ATATT3xFfGF0{WORD[:180]}", f"ATCTT3xFfGN0{WORD[:100]}"),
    "Atlassian, Bitbucket": (f"ATBB{WORD[:32]}",),
    "Authress": (f"sc_{WORD[:8]}.abcd.acc-{HEX[:20]}.{WORD[:60]}",),
    "AWS": tuple(f"{start}A1B2C3D4E5F6G7H8" for start in ("AKIA", "ASIA", "ABIA", "ACCA", "A3TX")),
    "AWS Bedrock": (f"ABSK{WORD[:110]}==",),
    "AWS Bedrock, short": (f"bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t{WORD[:40]}",),
    "Axiom": (f"xaat-{UUID}", f"xapt-{UUID}"),
    "Azure": (f"Ab~8Q~{WORD[:34]}",),
    "Azure, services": (
        f"{WORD[:52]}JQQJ99{WORD[:18]}AZDO{WORD[:4]}",
        f"{WORD[:52]}JQQJ99{WORD[:18]}ACOG{WORD[:4]}",
    ),
    "Brevo": tuple(f"{start}-{HEX[:64]}-{WORD[:16]}" for start in ("xkeysib", "xsmtpsib")),
    "Braintree": tuple(
        f"access_token${kind}${WORD[:16].lower()}${HEX[:32]}" for kind in ("production", "sandbox")
    ),
    "Browserbase": (f"bb_live_{WORD[:27]}",),
    "Buildkite": tuple(f"{start}_{HEX[:40]}" for start in ("bkua", "bkaa", "bkaj", "bkpt", "bkpat")),
    "Cerebras": (f"csk-{HEX[:48]}",),
    "CircleCI": (f"CCIPAT_{WORD[:22]}_{HEX[:40]}", f"CCIPRJ_{WORD[:22]}_{HEX[:40]}"),
    "Clojars": (f"CLOJARS_{HEX[:60]}",),
    "Cloudflare": tuple(f"{start}_{WORD[:40]}0a1b2c3d" for start in ("cfk", "cfut", "cfat")),
    "Cloudflare, certificates": (f"v1.0-{HEX[:24]}-{HEX[:146]}",),
    "Cockroach": (f"CCDB1_{WORD[:22]}_{WORD[:40]}",),
    "Contentful": (f"CFPAT-{WORD[:43]}",),
    "crates.io": (f"cio{WORD[:32]}",),
    "Databricks": (f"dapi{HEX[:32]}", f"dapi{HEX[:32]}-2"),
    "Daytona": (f"dtn_{HEX[:64]}",),
    "Defined Networking": (f"dnkey-{HEX[:26]}-{HEX[:52]}",),
    "DigitalOcean": tuple(f"{start}_v1_{HEX[:64]}" for start in ("dop", "doo", "dor")),
    "Discord": (
        f"MTIzNDU2Nzg5MDEyMzQ1Njc.{WORD[:6]}.{WORD[:27]}",
        f"OTk5OTk5OTk5OTk5OTk5OTk5.{WORD[:6]}.{WORD[:38]}",
        f"NDAwMDAwMDAwMDAwMDAwMDAwMA.G_x-Yz.{WORD[:38]}",
    ),
    "Discord, second factor": (f"mfa.{WORD[:60]}_{WORD[:23]}",),
    "Docker": (f"dckr_pat_{WORD[:27]}", f"dckr_oat_{WORD[:32]}"),
    "Doppler": tuple(f"dp.{kind}.{WORD[:43]}" for kind in ("pt", "st", "ct", "sa", "scim", "audit")),
    "Dropbox": (f"sl.{WORD[:136]}", f"sl.u.{WORD[:200]}"),
    "Duffel": (f"duffel_live_{WORD[:43]}",),
    "Dynatrace": (f"dt0c01.{CAPITALS[:24]}.{CAPITALS[:64]}",),
    "E2B": (f"e2b_{HEX[:40]}",),
    "EasyPost": (f"EZAK{WORD[:54]}", f"EZTK{WORD[:54]}"),
    "ElevenLabs": (f"sk_{HEX[:48]}",),
    "Figma": (f"figd_{WORD[:40]}", f"figo_{WORD[:40]}", f"figur_{WORD[:40]}"),
    "Firecrawl": (f"fc-{HEX[:32]}",),
    "Fireworks": (f"fw_{WORD[:24]}",),
    "Flutterwave": (f"FLWSECK_TEST-{HEX[:32]}-X",),
    "Fly, organisation": (f"fo1_{WORD[:43]}",),
    "Fly": (f"fm2_{WORD[:120]}==", f"fm1r_{WORD[:120]}"),
    "Frame.io": (f"fio-u-{WORD[:64]}",),
    "GitHub": tuple(f"gh{kind}_{WORD[:36]}" for kind in "pousr"),
    "GitHub, fine-grained": (f"github_pat_{WORD[:22]}_{WORD[:59]}",),
    "GitLab": (
        *(f"gl{kind}-{WORD[:20]}" for kind in ("pat", "dt", "rt", "ft", "ptt", "soat", "imt", "ffct", "wt")),
        *(
            f"glagent-{WORD[:50]}",
            f"gloas-{WORD[:64]}",
            f"glcbt-1a_{WORD[:20]}",
            f"glpat-{WORD[:27]}.01a2b3c4d",
        ),
    ),
    "GitLab, runner": (f"GR1348941{WORD[:20]}",),
    "Google": (f"AIza{WORD[:35]}",),
    "Google, access": (f"ya29.{WORD[:60]}",),
    "Google, bound to an account": (f"AQ.Ab8RN6{WORD[:44]}",),
    "Google, client": (f"GOCSPX-{WORD[:28]}",),
    "Google, refresh": (f"1//0{WORD[:60]}", f"1//0gX_y-{WORD[:34]}-L9Ir{WORD[:60]}"),
    "Grafana": (f"eyJrIjoi{WORD[:80]}==",),
    "Grafana, cloud": (f"glc_{WORD[:60]}",),
    "Grafana, service account": (f"glsa_{WORD[:32]}_{HEX[:8]}",),
    "Groq": (f"gsk_{WORD[:52]}",),
    "Harness": (f"pat.{WORD[:22]}.{HEX[:24]}.{WORD[:20]}", f"sat.{WORD[:22]}.{HEX[:24]}.{WORD[:20]}"),
    "Heroku": (f"HRKU-AA{WORD[:58]}", f"HRKU-{UUID}"),
    "Honeycomb": (f"hcaik_01{HEX[:56]}", f"hcamk_01{HEX[:56]}"),
    "HubSpot": (f"pat-na1-{UUID}", f"pat-eu1-{UUID}"),
    "Hugging Face": (f"hf_{WORD[:34]}",),
    "Hugging Face, organisation": (f"api_org_{'aBcDeFgH' * 4}iJ", f"api_org_{WORD[:34]}"),
    "Inngest": (f"signkey-prod-{HEX[:64]}",),
    "Intra42": (f"s-s4t2ud-{HEX[:64]}",),
    "JFrog": (f"AKCp{WORD[:69]}",),
    "JFrog, reference": (f"cmVmd{WORD[:59]}",),
    "Jina": (f"jina_{HEX[:32]}{WORD[:28]}",),
    "LangSmith": (f"lsv2_pt_{HEX[:32]}_{HEX[:10]}", f"lsv2_sk_{HEX[:32]}_{HEX[:10]}"),
    "LaunchDarkly": (f"sdk-{UUID}", f"api-{UUID}"),
    "Linear": (f"lin_api_{WORD[:40]}",),
    "Linear, application": (f"lin_oauth_{HEX[:64]}",),
    "LlamaCloud": (f"llx-{WORD[:48]}",),
    "Logfire": tuple(f"pylf_v{version}_{WORD[:43]}" for version in ("1_us", "2_eu")),
    "Mailchimp": (f"{HEX[:32]}-us1", f"{HEX[:32]}-us21"),
    "Mailgun": (f"key-{HEX[:32]}", f"pubkey-{HEX[:32]}"),
    "Mailgun, private": (f"private-{HEX[:32]}",),
    "Mailgun, new": (f"{HEX[:32]}-{HEX[:8]}-{HEX[8:16]}",),
    "Mapbox": (f"sk.eyJ{WORD[:60]}.{WORD[:22]}",),
    "MongoDB Atlas": (f"mdb_sa_sk_{WORD[:40]}",),
    "Meta": (f"EAAB{WORD[:120]}",),
    "Neon": (f"napi_{HEX[:64]}",),
    "Netlify": (f"nfp_{WORD[:36]}", f"nfc_{WORD[:36]}"),
    "New Relic": (f"NRAK-{'ABC123DEF456' * 2}XYZ",),
    "New Relic, licence": (f"{HEX[:36]}NRAL", f"eu01xx{HEX[:30]}NRAL", f"{HEX[:32]}FFFFNRAL"),
    "Notion, before 2024": (f"secret_{WORD[:43]}",),
    "Notion": (f"ntn_12345678901{WORD[:35]}",),
    "npm": (f"npm_{WORD[:36]}",),
    "NuGet": (f"oy2{HEX[:43]}",),
    "Nvidia": (f"nvapi-{WORD[:64]}",),
    "Octopus": (f"API-{CAPITALS[:26]}",),
    "OpenAI and many more": tuple(f"sk-{kind}{WORD[:48]}" for kind in ("", "proj-", "ant-api03-", "or-v1-")),
    "OpenShift": (f"sha256~{WORD[:43]}",),
    "Perplexity": (f"pplx-{WORD[:48]}",),
    "Pinecone": (f"pcsk_{WORD[:5]}_{WORD[:63]}",),
    "Plaid": (f"access-sandbox-{UUID}", f"access-production-{UUID}"),
    "PlanetScale": tuple(f"pscale_{kind}_{WORD[:43]}" for kind in ("tkn", "oauth", "pw")),
    "Postman": (f"PMAK-{HEX[:24]}-{HEX[:34]}",),
    "PostHog": (f"phx_{WORD[:43]}",),
    "Prefect": (f"pnu_{WORD[:36]}", f"pnb_{WORD[:36]}"),
    "Pulumi": (f"pul-{HEX[:40]}",),
    "PyPI": (f"pypi-AgEIcHlwaS5vcmc{WORD[:100]}",),
    "Render": (f"rnd_{WORD[:32]}",),
    "Replicate": (f"r8_{WORD[:37]}",),
    "Resend": (f"re_{WORD[:8]}_{WORD[:24]}",),
    "RubyGems": (f"rubygems_{HEX[:48]}",),
    "RunPod": (f"rpa_{CAPITALS[:42]}ab12",),
    "Scalingo": (f"tk-us-{WORD[:48]}",),
    "SendGrid": (f"SG.{WORD[:22]}.{WORD[:43]}",),
    "Sentry, user": (f"sntryu_{HEX[:64]}",),
    "Sentry": (f"sntrys_eyJ{WORD[:60]}",),
    "SettleMint": tuple(f"sm_{kind}at_{WORD[:16]}" for kind in "aps"),
    "Shippo": (f"shippo_live_{HEX[:40]}",),
    "Shopify": tuple(f"shp{kind}_{HEX[:32]}" for kind in ("at", "ca", "pa", "ss")),
    "Slack": (f"xoxb-123456789012-{WORD[:24]}", f"xoxe.xoxp-1-{WORD[:160]}"),
    "Slack, application": (f"xapp-1-A012-345678-{HEX[:64]}",),
    "Snyk": tuple(f"snyk_{kind}.{HEX[:8]}.{WORD[:60]}-{WORD[:10]}" for kind in ("uat", "sat")),
    "SonarQube": tuple(f"sq{kind}_{HEX[:40]}" for kind in "apu"),
    "Sourcegraph": (f"sgp_{HEX[:40]}", f"sgp_{HEX[:16]}_{HEX[:40]}", f"sgp_local_{HEX[:40]}"),
    "Square": (
        *(f"sq0at{kind}-{WORD[:22]}" for kind in "pb"),
        *(f"sq0cs{kind}-{WORD[:43]}" for kind in "pb"),
        *(f"E{letter}AA{WORD[:60]}" for letter in "AQ"),
    ),
    "Stripe": tuple(
        f"{start}_{WORD[:24]}" for start in ("sk_live", "rk_live", "sk_test", "rk_prod", "sk_org_live")
    ),
    "Stripe, webhooks": (f"whsec_{WORD[:32]}",),
    "Supabase, access": (f"sbp_{HEX[:40]}",),
    "Supabase": (f"sb_secret_{WORD[:31]}",),
    "Tailscale": (f"tskey-auth-{WORD[:12]}CNTRL-{WORD[:32]}", f"tskey-api-{WORD[:12]}CNTRL-{WORD[:32]}"),
    "Tavily": (f"tvly-{WORD[:32]}",),
    "Telegram": (f"123456789:AA{WORD[:33]}",),
    "Terraform": (f"{WORD[:14]}.atlasv1.{WORD[:67]}",),
    "Together": (f"tgp_v1_{WORD[:43]}",),
    "Twilio": (f"SK{HEX[:32]}",),
    "Typeform": (f"tfp_{WORD[:44]}_{WORD[:14]}",),
    "Vault": (f"hvs.{WORD[:95]}", f"hvb.{WORD[:140]}", f"hvr.{WORD[:95]}"),
    "Vercel": tuple(f"vc{kind}_{WORD[:56]}" for kind in "aikpr"),
    "Vercel, files": (f"vercel_blob_rw_{WORD[:16]}_{WORD[:30]}",),
    "Weights & Biases": (f"wandb_v1_{WORD[:27]}_{WORD[:49]}",),
    "xAI": (f"xai-{WORD[:80]}",),
    "Yandex": (f"AQVN{WORD[:35]}",),
}
# Characters that may stand around a token. The last of an escape or of a colour is a letter or a digit.
NEIGHBOURS = (
    *(("", ""), ("use ", " now"), ('"', '"'), ("(", ")"), ("x=", ","), ("\n", "\n"), ("<", ">"), ("a,", ";")),
    *(
        ("https://a.example/v1/", "?x"),
        ("k=", "&l=1"),
        ("`", "`"),
        ("[", "]"),
        ("{", "}"),
        ("|", "|"),
        ("\t", "\r"),
    ),
    *(
        ('{"a": "b\\n', '\\n"}'),
        ("q=%3D", "%26"),
        ("\\u0022", "\\u0022"),
        ("\x1b[32m", "\x1b[0m"),
        ("\x1b[1;31m", ""),
    ),
)


def test_every_service_has_its_tokens_in_the_sample() -> None:
    assert {name for name, _, _ in SERVICES} == SECRETS.keys() - {"AWS", "Discord", "Meta"}


@pytest.mark.parametrize("name", SECRETS)
def test_a_key_of_a_service_is_masked_wherever_it_stands(name: str) -> None:
    for secret in SECRETS[name]:
        for before, after in NEIGHBOURS:
            masked = mask_shapes(f"{before}{secret}{after}")
            # Part of a mask is the first word of `xoxe.xoxp-…`, and the last letter of `FLWSECK_…-X`.
            assert MASKS.sub("", masked).replace("xoxe.", "").replace("-X", "") == f"{before}{after}", masked


@pytest.mark.parametrize("before", ["x", "X", "9", "id", "é"])
def test_a_key_of_windlass_is_masked_also_after_a_letter(before: str) -> None:
    assert mask_shapes(f"{before}wl_ann1_{HEX[:64]}") == f"{before}[redacted:token]"


def test_recall_and_false_masks_of_the_sample() -> None:
    sample = [secret for secrets in SECRETS.values() for secret in secrets]
    kept = [secret for secret in sample if secret[4:] in mask_shapes(f"see {secret} there")]
    masked = [text for text in LOOKALIKES if mask_shapes(f"see {text} there") != f"see {text} there"]
    assert (len(kept), len(masked)) == (0, 0), (kept, masked)
    assert len(sample) > 170
    assert len(LOOKALIKES) > 50


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


LOOKALIKES = (
    *(f"wl_ann1_{HEX[:63]}", f"wl_Ann_{HEX[:64]}", "wl_display_name"),
    *(f"MTIzNDU2Nzg5MDEyMzQ1Njc.{WORD[:5]}.{WORD[:27]}", f"Module.{WORD[:6]}.{WORD[:30]}"),
    *("node_modules.packages.some_very_long_module_name_here", f"SK{HEX[:31]}", f"AC{HEX[:32]}"),
    *(
        f"TASK{HEX[:32]}",
        f"pubkey-{HEX[:31]}",
        f"private-{HEX[:31]}",
        f"key-{HEX[:31]}",
        f"key-{HEX[:40]}",
        f"monkey-{HEX[:32]}",
    ),
    *(f"private-{HEX[:40]}", f"mfa.{WORD[:60]}", "see mfa.enabled", f"api-{HEX[:32]}", f"x1//0{WORD[:60]}"),
    *(
        "1//0 is a comment",
        f"HRKU-{HEX[:32]}",
        f"{HEX[:35]}NRAL",
        "GENERAL",
        f"{HEX[:36]}NRALX",
        "api-0123abcd-x",
    ),
    *("access_token$production$x", "snyk_uat.x", f"EQAA{WORD[:50]}", f"AAAAEQAA{WORD[:60]}"),
    *(f"sq0idp-{WORD[:22]}", "sq0atp-short", f"EAAA{WORD[:50]}", f"AAAAEAAA{WORD[:60]}", f"glsa_{WORD[:32]}"),
    *(
        "secret_of_the_long_lost_temple_in_the_deep_jungle",
        "pscale_branch_name",
        "fc-abcdef",
        "cio_dashboard",
    ),
    *(
        "pul-request",
        "https://discord.com/api/v10/channels/123456789012345678",
        "https://hooks.slack.com/help",
    ),
    *("tskey-auth", "dp.st.example", f"run_{HEX[:32]}", f"run_{HEX[:64]}", f"brand_{WORD[:32]}", UUID),
    *(f"{HEX[:32]}-{HEX[:8]}-{HEX[:7]}", f"{HEX[:31]}-{HEX[:8]}-{HEX[:8]}", f"{HEX[:8]}-{HEX[:8]}-{HEX[:8]}"),
    *(
        f"{HEX[:32]}-{HEX[:8]}-{HEX[:8]}-{HEX[:8]}",
        f"sha256-{HEX[:64]}",
        f"ntn_{WORD[:46]}",
        f"ntn_{HEX[:11]}",
    ),
    *(
        "re_compile_all_the_expressions_of_this_module",
        f"re_{WORD[:7]}_{WORD[:24]}",
        f"core_{WORD[:8]}_{WORD[:24]}",
    ),
    *(
        "rnd_generator_of_the_test",
        f"bkua_{HEX[:30]}",
        "bk_tree_of_words",
        "CCIPAT_TOKEN",
        f"pcsk_{WORD[:5]}",
    ),
    *(
        "napi_create_reference",
        "napi_get_value_string_utf8_and_length",
        "fo1_short",
        "fm2_radio",
        "fw_rule_chain",
    ),
    *(
        "AKIA" + "A" * 16,
        f"XAKIA{CAPITALS[:16]}",
        f"AKIA{CAPITALS[:15]}",
        f"AKIA{CAPITALS[:17]}",
        "ATBBQ-SAUCE",
    ),
    *(
        "pat-na1-example",
        "sl.example",
        "sl.setTheValueOfTheVeryLongNameOfThisField",
        "vcr_cassette_of_the_test",
    ),
    *(
        "cfat_file_system",
        "cfk_read_config_of_the_kernel",
        "figure_of_the_page",
        "access-control-allow-origin",
    ),
    *(
        "access-sandbox-of-the-test",
        "API-REFERENCE",
        "sha256~short",
        "lin_api_key",
        "sgp_local_area",
        "fio-u-x",
    ),
    *("jina_embeddings_of_the_test", "gloas-on", "glagent-config", "favicon.ico-" + HEX[:32], "EZTKT-1234"),
)


@pytest.mark.parametrize("text", LOOKALIKES)
def test_what_only_looks_like_such_a_key_is_left_as_it_is(text: str) -> None:
    assert mask_shapes(f"see {text} there") == f"see {text} there"
