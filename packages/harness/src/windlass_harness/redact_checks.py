"""What has the shape of a secret, and is one; or is prose or code after all."""

import re
from binascii import a2b_base64
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


def always(_: Found) -> bool:
    return True


def is_random(found: Found) -> bool:
    """A key has a digit or a capital; a long name in kebab or snake case has neither."""
    return _DIGIT_OR_CAPITAL.search(found.secret, 4) is not None


def is_authorization(found: Found) -> bool:
    """A scheme that is known, or one that is followed by what no prose has."""
    scheme = found.between.split()[-1].strip("\"'\\:=").lower()
    if scheme in _SCHEMES:
        return True
    word = found.secret.replace("\t", " ").split(" ")[0]
    return (
        ":" in found.between
        and _DIGIT.search(scheme) is None
        and len(word) >= _VALUE_CHARS_MIN
        and _is_mixed(word)
    )


def is_bearer(found: Found) -> bool:
    """In prose the word after bearer is a plain word: bearer authentication."""
    return _PLAIN_WORD.fullmatch(found.secret) is None


def is_basic(found: Found) -> bool:
    """Only what decodes to user:password in plain letters is a Basic credential."""
    data = found.secret.rstrip("=")
    if len(data) % 4 == 1:
        return False
    pair = a2b_base64(data + "=" * (-len(data) % 4))
    return b":" in pair and all(byte >= 32 for byte in pair)


def is_user(found: Found) -> bool:
    """Whoever calls with a user and no password mostly has a token for a user."""
    return found.secret.lower() != "git"


def is_login_text(text: str) -> bool:
    """Tell user:password from uid:gid, host:path, an address and variables."""
    user, colon, password = text.partition(":")
    if colon == "" or "[redacted" in text or password.startswith(("/", "$", "{", "<", "%")):
        return False
    if password == "":
        return len(user) >= _TOKEN_CHARS_MIN
    return user not in {"", password} and _DIGITS.fullmatch(user + password) is None


def is_login(found: Found) -> bool:
    return is_login_text(found.secret)


def is_quoted_secret(found: Found) -> bool:
    """Under the quoted name of JSON any text is a value, in code only a longer one."""
    if not is_secret_key(found.name) or _MASKED.fullmatch(found.secret) is not None:
        return False
    if _QUOTE.match(found.between) is not None:
        return True
    return len(found.secret) >= _VALUE_CHARS_MIN and _DOTTED_NAME.fullmatch(found.secret) is None


def may_name_secret(name: str, before: str) -> bool:
    """Say whether a name can stand before a secret; a signature only in an address."""
    return is_secret_key(name) or (before in {"?", "&"} and _SIGNATURE.search(name.lower()) is not None)


def is_bare_secret(found: Found) -> bool:
    """A literal, not a variable, a call or a type; in an address, any value."""
    if found.before in {"?", "&"} and found.between == "=":
        return True
    return (
        is_secret_key(found.name)
        and len(found.secret) >= _VALUE_CHARS_MIN
        and found.after not in {"(", "[", "{"}
        and _DOTTED_NAME.fullmatch(found.secret) is None
        and (_is_mixed(found.secret) or _is_password(found))
    )


def _is_password(found: Found) -> bool:
    """A password may be a plain word; `f(password=word)` is code, though."""
    return (
        found.between == "="
        and found.before != "("
        and found.after != ")"
        and _PASSWORD_NAME.search(found.name.lower()) is not None
        and found.secret.lower() not in _PLACEHOLDERS
        and not is_secret_key(found.secret)
    )


def _is_mixed(text: str) -> bool:
    return _DIGIT.search(text) is not None and _LETTER.search(text) is not None


_VALUE_CHARS_MIN: Final = 6
_TOKEN_CHARS_MIN: Final = 12
_DIGITS: Final = re.compile("[0-9]+")
_MASKED: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*[ \t]{1,4}\[redacted[:a-z_]*\]")  # and its scheme
_QUOTE: Final = re.compile(r"""\\{0,3}["']""")
_PASSWORD_NAME: Final = re.compile("(?:pass|password|passwd|passphrase|passcode|pwd|pw|secret)[0-9]{0,3}$")
_SIGNATURE: Final = re.compile("sig$|signature$")
_PLACEHOLDERS: Final = frozenset(
    {"string", "boolean", "required", "optional", "undefined", "hidden", "default", "option", "prompt"}
)
_DIGIT: Final = re.compile("[0-9]")
_LETTER: Final = re.compile("[A-Za-z]")
_DIGIT_OR_CAPITAL: Final = re.compile("[0-9A-Z]")
_PLAIN_WORD: Final = re.compile("[A-Za-z]?[a-z]{0,18}[.]?")
_SCHEMES: Final = frozenset({"bearer", "basic", "token", "digest", "negotiate", "apikey", "aws4-hmac-sha256"})
_DOTTED_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*[.][A-Za-z_][A-Za-z0-9_.]*")
