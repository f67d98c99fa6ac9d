"""Forty secrets, and a search that finds them however they are written."""

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import quote, quote_plus

from pydantic_core import to_json

_ODD: Final = (
    "plainAlphaNumeric",
    'quo"te',
    "back\\slash",
    "sla/sh",
    "plus+equals=",
    "amp&ersand",
    "per%cent",
    "one space",
    "nine         spaces",
    "ümläut",
    "emoji😀",
    "zero\u200bwidth",
    "tab\there",
    "line\nbreak",
    "apos'trophe",
    "<angle>",
    "dollar$brace{}",
    "semi;colon",
    "日本語",
    "אבגד",
)
SECRETS: Final = tuple(
    f"{odd}.{number:02d}.Zq{(number * 7919 + 104729) ** 3:x}" for number, odd in enumerate(_ODD * 2)
)
assert len(set(SECRETS)) == 40
_PART: Final = 12


def forms(secret: str) -> dict[str, str]:
    """Return a secret as it may turn up, whole or cut."""
    raw = secret.encode()
    return {
        "plain": secret,
        "its beginning": secret[:_PART],
        "its end": secret[-_PART:],
        "json": json.dumps(secret, ensure_ascii=False)[1:-1],
        "json ascii": json.dumps(secret)[1:-1],
        "json in json": json.dumps(json.dumps(secret, ensure_ascii=False), ensure_ascii=False)[3:-3],
        "url": quote(secret, safe=""),
        "url plus": quote_plus(secret),
        "hex": raw.hex(),
        "HEX": raw.hex().upper(),
        **{f"base64 at {at}": core(raw, at) for at in range(3)},
    }


def core(raw: bytes, at: int) -> str:
    """Return the part of the base64 form of a secret, at an offset, that its surroundings do not change."""
    text = base64.b64encode(b"\0" * at + raw).decode()
    return text[4 if at else 0 : -4]


def spoken(secret: str) -> str:
    """Return a text that holds a secret in every form."""
    return " | ".join(
        [
            secret,
            json.dumps(secret),
            json.dumps(secret, ensure_ascii=False),
            quote(secret, safe=""),
            quote_plus(secret),
            secret.encode().hex(),
            secret.encode().hex().upper(),
            *(base64.b64encode(b"abc"[:at] + secret.encode() + b"xyz").decode() for at in range(3)),
        ]
    )


ALL: Final = "\n".join(spoken(secret) for secret in SECRETS)
_NEEDLES: Final = tuple(
    (number, name, form.encode())
    for number, secret in enumerate(SECRETS)
    for name, form in forms(secret).items()
)


def hits(where: str, content: bytes) -> list[str]:
    """Name every secret that is in some bytes, with its form."""
    return [f"secret {number} as {name} in {where}" for number, name, form in _NEEDLES if form in content]


def hits_in_files(folder: Path) -> list[str]:
    """Search every file of a folder, and its name."""
    found: list[str] = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found += hits(path.name, path.read_bytes()) + hits("a file name", path.name.encode())
    return found


def hits_in_texts(texts: Iterable[tuple[str, object]]) -> list[str]:
    """Search the shown values, as printed and as JSON."""
    found: list[str] = []
    for where, value in texts:
        found += hits(where, str(value).encode("utf-8", "replace"))
        found += hits(where, repr(value).encode("utf-8", "replace"))
        # The repr of messages leaves their content out.
        found += hits(where, to_json(value, fallback=str))
    return found
