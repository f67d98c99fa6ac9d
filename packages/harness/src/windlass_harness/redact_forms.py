"""The forms in which a registered secret turns up in other texts."""

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Final


def forms_of(secret: str) -> Iterator[str]:
    """Yield a secret as it is, and escaped for JSON, HTML and addresses, and hex."""
    yield secret
    yield from _json_forms(secret)
    yield from _html_forms(secret)
    data = secret.encode("utf-8", "surrogatepass")
    for table in _PERCENT_TABLES:
        quoted = "".join(map(table.__getitem__, data))
        yield quoted
        yield quoted.replace("%20", "+")
    yield data.hex()
    yield data.hex().upper()


def base64_forms_of(secret: str) -> Iterator[str]:
    """Yield what base64 makes of a secret at each of three offsets, both alphabets."""
    data = secret.encode("utf-8", "surrogatepass")
    for offset in range(3):
        encoded = b64encode(bytes(offset) + data).decode("ascii")
        # Leave out the characters at both ends that also hold bits of the neighbours.
        inner = encoded[(offset * 8 + 5) // 6 : (offset + len(data)) * 8 // 6]
        yield inner
        yield inner.replace("+", "-").replace("/", "_")


def _json_forms(secret: str) -> Iterator[str]:
    for is_ascii in (True, False):
        escaped = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        yield escaped
        yield json.dumps(escaped, ensure_ascii=is_ascii)[1:-1]
        # Some writers escape the slash, and some what HTML could take for its own.
        yield escaped.replace("/", "\\/")
        yield escaped.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _html_forms(secret: str) -> Iterator[str]:
    escaped = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for double in ('"', "&quot;", "&#34;"):
        for single in ("'", "&#x27;", "&#39;", "&apos;"):
            yield escaped.replace('"', double).replace("'", single)


def _percent_table(kept: str, form: str) -> tuple[str, ...]:
    """What each byte becomes in an address."""
    plain = frozenset(f"{_ALPHANUMERIC}{kept}".encode())
    return tuple(chr(byte) if byte in plain else form.format(byte) for byte in range(256))


_ALPHANUMERIC: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_KEPT: Final = (
    "-._~",  # all that RFC 3986 leaves alone
    "-._~/",  # a path
    "-._~!'()*",  # encodeURIComponent
    "-._~!'()*;/?:@&=+$,#",  # encodeURI
    "-._*",  # a form
)
_PERCENT_TABLES: Final = tuple(
    _percent_table(kept, form) for kept in _KEPT for form in ("%{:02X}", "%{:02x}")
)
