"""Secrets that give themselves away by their shape, in any text.

Every pattern is a literal start followed by runs of single characters; no group is repeated. A try either
fails within a fixed number of steps or eats what it looked at, so the time is linear in the text. The
patterns use only what Python and JavaScript read alike, and web/harness has the same ones.
"""

import re
from binascii import a2b_base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from windlass_harness.redact_keys import is_secret_key


@dataclass(frozen=True, slots=True)
class Found:
    """One match: a name, what lies between, the secret, and both neighbours."""

    name: str
    between: str
    secret: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of secret.

    The pattern has three groups: the name, what lies between, the secret; only the third is masked.
    A text can match only if it contains, in lower case, one of the seeds. They start with a rare letter
    and have a bounded length, because the search for all seeds at once is what every record pays.
    """

    hint: str
    seeds: tuple[str, ...]
    pattern: str
    accept: Callable[[Found], bool]


def may_hold_secret(text: str) -> bool:
    """Say quickly whether `mask_shapes` could change the text.

    A wrong yes costs time; there is no wrong no.
    """
    return _SEEDS.search(text.lower()) is not None


def mask_shapes(text: str) -> str:
    """Replace everything that has the shape of a secret."""
    lowered = text.lower()
    if _SEEDS.search(lowered) is None:
        return text
    for shape, seeds, pattern in _COMPILED:
        if seeds.search(lowered) is not None:
            text = _mask(text, shape, pattern)
    return text


def _mask(text: str, shape: Shape, pattern: re.Pattern[str]) -> str:
    def replace(match: re.Match[str]) -> str:
        name, between, secret = match.groups()
        start, end = match.span()
        found = Found(name, between, secret, text[start - 1 : start], text[end : end + 1])
        return f"{name}{between}[redacted{shape.hint}]" if shape.accept(found) else match[0]

    return pattern.sub(replace, text)


def _always(_: Found) -> bool:
    return True


def _is_random(found: Found) -> bool:
    """A key has a digit or a capital; a long name in kebab or snake case has neither."""
    return _DIGIT_OR_CAPITAL.search(found.secret, 4) is not None


def _is_authorization(found: Found) -> bool:
    return found.between.split()[-1].strip("\"'\\:=").lower() in _SCHEMES


def _is_bearer(found: Found) -> bool:
    """In prose the word after bearer is a plain word: bearer authentication."""
    return _PLAIN_WORD.fullmatch(found.secret) is None


def _is_basic(found: Found) -> bool:
    """Only what decodes to user:password in plain letters is a Basic credential."""
    data = found.secret.rstrip("=")
    if len(data) % 4 == 1:
        return False
    pair = a2b_base64(data + "=" * (-len(data) % 4))
    return b":" in pair and all(byte >= 32 for byte in pair)


def _is_quoted_secret(found: Found) -> bool:
    return is_secret_key(found.name) and _DOTTED_NAME.fullmatch(found.secret) is None


def _is_bare_secret(found: Found) -> bool:
    """A literal, not a variable, a call or a type; in an address, any value."""
    if found.before in {"?", "&"} and found.between == "=":
        return is_secret_key(found.name) or found.name.lower().endswith(("sig", "signature"))
    return (
        is_secret_key(found.name)
        and len(found.secret) >= 6
        and found.after not in {"(", "[", "{"}
        and _DIGIT.search(found.secret) is not None
        and _LETTER.search(found.secret) is not None
        and _DOTTED_NAME.fullmatch(found.secret) is None
    )


_DIGIT: Final = re.compile("[0-9]")
_LETTER: Final = re.compile("[A-Za-z]")
_DIGIT_OR_CAPITAL: Final = re.compile("[0-9A-Z]")
_PLAIN_WORD: Final = re.compile("[A-Za-z]?[a-z]{0,18}[.]?")
_SCHEMES: Final = frozenset({"bearer", "basic", "token", "digest", "negotiate", "apikey", "aws4-hmac-sha256"})
_SECRET_WORDS: Final = ("ken", "k(?<=[a-z0-9_.-]k)ey", "pass", "pw", "cret", "cred")
_RARER_WORDS: Final = ("zation", "kie", "jwt", "bearer")
_DOTTED_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*[.][A-Za-z_][A-Za-z0-9_.]*")

_ASSIGNMENT_SEEDS: Final = (
    "sig=",
    *(
        rf"""{word}[a-z0-9_.-]{{0,32}}+\\{{0,3}}["']?[ \t]{{0,4}}[:=]"""
        for word in (*_SECRET_WORDS, *_RARER_WORDS, "gnature")
    ),
)

SHAPES: Final = (
    Shape(
        ":private_key",
        ("private key",),
        r"()()(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?=[\s\S]{0,12}?[A-Za-z0-9+/=:,-]{8})"
        r"[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?![\s\S])))",
        _always,
    ),
    Shape(
        ":jwt",
        ("yj[a-z0-9_-]{8}",),
        r"(?<![A-Za-z0-9_-])()()(eyJ[A-Za-z0-9_-]{8,}[.][A-Za-z0-9_-]*[.][A-Za-z0-9_.-]*)",
        _always,
    ),
    Shape(
        ":authorization",
        (r"""zation\\{0,3}["']?[ \t]{0,4}[:=]""",),
        r"""([Aa]uthorization|AUTHORIZATION)"""
        r"""(\\{0,3}["']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}["']?[A-Za-z][A-Za-z0-9-]{2,20}[ \t]{1,4})"""
        r"""([^ \t\r\n"'\\<>{}$[(][^\r\n"'\\<>{}$[(]*)""",
        _is_authorization,
    ),
    Shape(
        ":cookie",
        (r"""kie\\{0,3}["']?[ \t]{0,4}:""",),
        r"""([Cc]ookie|COOKIE)(\\{0,3}["']?[ \t]{0,4}:[ \t]{0,4}\\{0,3}["']?)"""
        r"""([A-Za-z0-9_.-]{1,64}=[^\r\n"'\\]+)""",
        _always,
    ),
    Shape(
        ":token",
        (
            *("k-[a-z0-9_-]{20}", "k_live_", "k_test_", "k_[a-z0-9]{30}", "gh[pousr]_[a-z0-9]{20}"),
            *("pat[_-][a-z0-9_-]{20}", "gl[a-z]{2,4}-[a-z0-9_-]{20}", "xox[a-z]-", "xapp-"),
            *("xai-[a-z0-9_-]{20}", "pplx-", "vapi-", "vly-", "pm_[a-z0-9]{30}", "pypi-[a-z0-9_-]{50}"),
            *(
                "f_[a-z0-9]{30}",
                "za[a-z0-9_-]{35}",
                "ya29[.]",
                "gocspx-",
                "g[.][a-z0-9_-]{16}",
                "xffgf0",
                "whsec_",
            ),
            *("v1_[a-z0-9_-]{20}", "pi_[a-z0-9_-]{20}", "bp_[a-z0-9_-]{20}", "8_[a-z0-9_-]{20}"),
            *("v[sb][.][a-z0-9_-]{20}", "pi[a-f0-9]{32}", ":aa[a-z0-9_-]{33}"),
        ),
        r"(?<![A-Za-z0-9])()()(sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|gsk_[A-Za-z0-9]{30,}"
        r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
        r"|gl(?:pat|dt|rt|ft|ptt|cbt|soat|imt)-[A-Za-z0-9_-]{20,}"
        r"|xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,}|(?:xai|pplx|nvapi|tvly)-[A-Za-z0-9_-]{20,}"
        r"|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{50,}|hf_[A-Za-z0-9]{30,}"
        r"|AIza[A-Za-z0-9_-]{35,}|ya29[.][A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}"
        r"|SG[.][A-Za-z0-9_-]{16,}[.][A-Za-z0-9_-]{16,}|ATATT3xFfGF0[A-Za-z0-9_=-]{20,}"
        r"|(?:dop_v1|dckr_pat|shpat|lin_api|sbp|r8)_[A-Za-z0-9_-]{20,}|whsec_[A-Za-z0-9+/=]{20,}"
        r"|hv[sb][.][A-Za-z0-9_-]{20,}|dapi[a-f0-9]{32,}|[0-9]{8,10}:AA[A-Za-z0-9_-]{33,})",
        _is_random,
    ),
    Shape(
        ":aws_key",
        ("kia[a-z0-9]{16}", "sia[a-z0-9]{16}"),
        # The neighbours keep base64 data, where any four letters turn up, from matching.
        r"(?<![A-Za-z0-9+/=])()()(A[KS]IA[A-Z0-9]{16})(?![A-Za-z0-9+/=])",
        _always,
    ),
    Shape(
        ":webhook",
        ("com/services/", "com/api/webhooks/"),
        r"()(hooks[.]slack[.]com/services/|discord(?:app)?[.]com/api/webhooks/)([A-Za-z0-9_/-]{8,})",
        _always,
    ),
    Shape(
        ":bearer",
        ("bearer[ \\t]",),
        r"(?<![\s\S])([Bb]earer|BEARER)([ \t]{1,4})([^ \t\r\n[]+)(?![\s\S])",
        _always,
    ),
    Shape(
        ":bearer",
        ("bearer[ \\t]",),
        r"(?<![A-Za-z0-9_])([Bb]earer|BEARER)([ \t]{1,4})([A-Za-z0-9._~+/=-]{8,})",
        _is_bearer,
    ),
    Shape(
        ":basic",
        ("basic[ \\t]{1,4}[a-z0-9+/]{8}",),
        r"(?<![A-Za-z0-9_])([Bb]asic|BASIC)([ \t]{1,4})([A-Za-z0-9+/]{8,1000}={0,2})",
        _is_basic,
    ),
    Shape(
        "",
        (r"""://[^ \t\r\n"'<>/?#@:]{0,128}:[^ \t\r\n"'<>/?#]{1,256}@""",),
        r"""()(://)([^ \t\r\n"'<>/?#@:]{0,128}:[^ \t\r\n"'<>/?#]{1,256})(?=@)""",
        _always,
    ),
    Shape(
        "",
        _ASSIGNMENT_SEEDS,
        r"""(?<![A-Za-z0-9_.$-])([A-Za-z0-9_.-]{2,64})"""
        r"""(\\{0,3}["']?[ \t]{0,4}(?:=>|:=|[:=])[ \t]{0,4}\\{0,3}["'])"""
        r"""([^ \t\r\n"'\\[$<{][^ \t\r\n"'\\]{5,511})(?=\\{0,3}["'])""",
        _is_quoted_secret,
    ),
    Shape(
        "",
        _ASSIGNMENT_SEEDS,
        r"""(?<![A-Za-z0-9_.$-])([A-Za-z0-9_.-]{2,64})"""
        r"""(\\{0,3}["']?[ \t]{0,4}(?:=>|:=|[:=])[ \t]{0,4})"""
        r"""([^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60:=$%*/.][^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60]*)""",
        _is_bare_secret,
    ),
    Shape(
        "",
        tuple(rf"--(?!-)[a-z0-9_-]{{0,24}}{word}" for word in (*_SECRET_WORDS, *_RARER_WORDS, "otp")),
        r"""(?<![A-Za-z0-9_-])(--[A-Za-z][A-Za-z0-9_-]{1,40})([ \t]{1,4}\\{0,3}["']?)"""
        r"""([^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60:=$%*/.-][^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60]*)""",
        _is_bare_secret,
    ),
)


def _gather(seeds: Iterable[str]) -> re.Pattern[str]:
    """Join seeds into one pattern, by first letter.

    The engine then skips ahead to the next of these letters, which is most of the speed.
    """
    by_letter: dict[str, list[str]] = {}
    for seed in dict.fromkeys(seeds):
        by_letter.setdefault(seed[0], []).append(seed[1:])
    return re.compile(
        "|".join(f"{letter}(?:{'|'.join(rests)})" for letter, rests in by_letter.items()), re.ASCII
    )


_SEEDS: Final = _gather(seed for shape in SHAPES for seed in shape.seeds)
_COMPILED: Final = tuple(
    (shape, _gather(shape.seeds), re.compile(shape.pattern, re.ASCII)) for shape in SHAPES
)
