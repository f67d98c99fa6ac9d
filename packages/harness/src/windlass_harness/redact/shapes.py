"""Secret shapes: patterns of keys and values that reveal a secret in any text.

Every pattern is a literal start followed by runs of single characters; no group is repeated. A match attempt
either fails within a fixed number of steps or consumes the text that it inspected, so the time is linear in
the text.

A mask is a function of the line that it is in: a text is masked as if every shape, in their order, were
searched for in all of it. In fact one scan finds the seeds, and only the lines with a seed are searched. A
large text is searched in windows: one call of the regex engine holds the interpreter, and other threads wait.
"""

import re
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property, lru_cache
from typing import Final

from windlass_protocol.frozen import sealed

KEY_CHARS_MAX: Final = 128  # in a longer key, any secret word is enough


def is_secret_key(key: str) -> bool:
    """Return whether a value under this key is a secret, in any spelling of the key.

    `apiKey`, `X-Api-Key`, `OPENAI_API_KEY`, `apikey` and `api_key_v2` are one name. A key that ends in a
    plural or a measure (`tokens`, `inputTokens`, `tokenCount`, `passwordLength`) is not secret. A key longer
    than `KEY_CHARS_MAX` is secret if it contains a secret word anywhere.
    """
    if len(key) <= KEY_CHARS_MAX:
        return _is_secret_name(key)
    return "[redacted" not in key and _LONG_KEY.search(_SEPARATOR.sub("", key.lower())) is not None


@lru_cache(maxsize=4096)
def _is_secret_name(key: str) -> bool:
    if "[redacted" in key:  # a masked key is not a name any more
        return False
    whole = _SEPARATOR.sub("", key.lower())
    name = _TAIL.sub("", whole)
    return (
        name in _WHOLE
        or _CONNECTION.search(whole) is not None
        or (name.endswith(_SECRET) and not name.endswith(_INNOCENT))
    )


_SEPARATOR: Final = re.compile(r"[^a-z0-9]")
_TAIL: Final = re.compile(
    r"(?:value|raw|plain|plaintext|b64|base64|hex|pem|header|hash|old|new|current|confirm|confirmation"
    r"|prod|production|staging|dev|live|string|v?[0-9]{1,9}){0,3}$"
)
_LONG_KEY: Final = re.compile(
    r"passw|passphrase|passcode|secret|credential|authorization|apikey|accesskey|privatekey|connectionstring"
    r"|token(?!s|count|i[sz]|type|limit|usage|budget)"
)

# These must be the whole name: ordinary words and domain names (.pw) have the same endings.
_WHOLE: Final = frozenset({"pw", "auth"})
# These hold a password among other fields.
_CONNECTION: Final = re.compile(
    r"conn(?:ection)?str(?:ings?)?(?:value|prod|production|staging|dev|live|v?[0-9]{1,9})?$"
)

_SECRET: Final = (
    # words that count on their own
    *(
        "password",
        "passwords",
        "passwd",
        "passphrase",
        "passcode",
        "secret",
        "secrets",
        "credential",
        "credentials",
    ),
    *("token", "authorization", "cookie", "cookies", "jwt", "bearer", "otp"),
    *("basicauth", "httpauth", "proxyauth", "registryauth", "xauth"),
    # a key is secret only with a word before it: primary, cache and idempotency keys are not
    *("apikey", "apikeys", "accesskey", "accesskeys", "privatekey", "privatekeys", "secretkey", "secretkeys"),
    *(
        "signingkey",
        "encryptionkey",
        "masterkey",
        "authkey",
        "sshkey",
        "accountkey",
        "servicekey",
        "sharedkey",
    ),
    *("deploykey", "subscriptionkey", "hmackey", "consumerkey", "storagekey"),
    *("appkey", "applicationkey", "licensekey", "insertkey", "adminkey"),
    # "tokens" is a count, unless the word before names a credential
    *("accesstokens", "authtokens", "apitokens", "bearertokens", "refreshtokens", "sessiontokens"),
    # `pass` alone is a test result and `pwd` alone a directory
    *("dbpass", "userpass", "smtppass", "mailpass", "adminpass", "rootpass", "redispass", "proxypass"),
    *("dbpwd", "userpwd", "mysqlpwd", "adminpwd", "rootpwd"),
    *("dbpw", "userpw", "mysqlpw", "adminpw", "rootpw"),
)

_INNOCENT: Final = (
    # positions in a list or a text, and prices
    *("pagetoken", "pertoken", "firsttoken", "lasttoken", "nexttoken", "stoptoken", "endtoken", "starttoken"),
    *("eostoken", "bostoken", "padtoken", "unktoken", "clstoken", "septoken", "masktoken", "maxtoken"),
    *("inputtoken", "outputtoken", "prompttoken", "completiontoken", "canceltoken", "cancellationtoken"),
)


@sealed
class Found:
    """One match: name, separator, secret, and the characters before and after."""

    name: str
    between: str
    secret: str
    before: str
    after: str


def is_random(match: Found) -> bool:
    """A key has a digit or a capital letter; a long name in kebab or snake case has neither."""
    return _DIGIT_OR_CAPITAL.search(match.secret, 4) is not None


def is_authorization(match: Found) -> bool:
    """A known scheme, or a scheme followed by characters that prose does not have."""
    scheme = match.between.split()[-1].strip("\"'\\:=").lower()
    if scheme in _SCHEMES:
        return True
    word = match.secret.replace("\t", " ").split(" ")[0]
    return (
        ":" in match.between
        and _DIGIT.search(scheme) is None
        and len(word) >= _VALUE_CHARS_MIN
        and _is_mixed(word)
    )


def is_bearer(match: Found) -> bool:
    """In prose the word after bearer is a plain word: bearer authentication."""
    return _PLAIN_WORD.fullmatch(match.secret) is None


def is_basic(match: Found) -> bool:
    """Only a value that decodes to user:password in printable letters is a Basic credential."""
    data = match.secret.rstrip("=")
    if len(data) % 4 == 1:
        return False
    pair = a2b_base64(data + "=" * (-len(data) % 4))
    return b":" in pair and all(byte >= 32 for byte in pair)


def is_user(match: Found) -> bool:
    """A URL with a user and no password mostly has a token as the user."""
    return match.secret.lower() != "git"


def is_login_text(text: str) -> bool:
    """Distinguish user:password from uid:gid, host:path, an address and variables."""
    user, colon, password = text.partition(":")
    if colon == "" or "[redacted" in text or password.startswith(("/", "$", "{", "<", "%")):
        return False
    if password == "":
        return len(user) >= _TOKEN_CHARS_MIN
    return user not in {"", password} and _DIGITS.fullmatch(user + password) is None


def is_login(match: Found) -> bool:
    return is_login_text(match.secret)


def is_quoted_secret(match: Found) -> bool:
    """After a quoted JSON name any text is a value; in code only a longer one is."""
    if not is_secret_key(match.name) or _MASKED.fullmatch(match.secret) is not None:
        return False
    if _QUOTE.match(match.between) is not None:
        return True
    return len(match.secret) >= _VALUE_CHARS_MIN and _DOTTED_NAME.fullmatch(match.secret) is None


def may_name_secret(name: str, before: str) -> bool:
    """Return whether a name can precede a secret; a signature only in a URL.

    In a text the words of a name count as they are written: `pa_ssword` is not `password`.
    """
    if is_secret_key(name):
        return _WORDS_OF_NAMES.search(name.lower()) is not None
    return before in {"?", "&"} and _SIGNATURE.search(name.lower()) is not None


def is_bare_secret(match: Found) -> bool:
    """A literal, not a variable, a call or a type; in a URL, any value."""
    if match.before in {"?", "&"} and match.between == "=":
        return True
    return (
        is_secret_key(match.name)
        and len(match.secret) >= _VALUE_CHARS_MIN
        and match.after not in {"(", "[", "{"}
        and _DOTTED_NAME.fullmatch(match.secret) is None
        and (_is_mixed(match.secret) or _is_password(match))
    )


def _is_password(match: Found) -> bool:
    """A password may be a plain word, but `f(password=word)` is code."""
    return (
        match.between == "="
        and match.before != "("
        and match.after != ")"
        and _PASSWORD_NAME.search(match.name.lower()) is not None
        and match.secret.lower() not in _PLACEHOLDERS
        and not is_secret_key(match.secret)
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


@sealed
class Shape:
    """A kind of secret.

    The pattern has three groups: name, separator and secret; only the third is masked. With `is_named`, the
    first group is any name, and the third is inspected only after a secret name. A line can match only if one
    of the seeds begins in it, in lower case. Seeds start with a rare letter or a dot and have a bounded
    length, because every record pays for the search for all seeds. With `starts_word`, the last letters of
    an escape (%3D) or of a terminal's colour do not belong to the word after them.

    No match contains the end of a line, but with `spans_lines`; nor a quote after a comma or a bracket.
    Nothing but the character beside a match decides whether it is one.
    """

    hint: str
    seeds: tuple[str, ...]
    pattern: str
    accept: Callable[[Found], bool] | None
    """Says whether a match is a secret; None if every match is one."""
    is_named: bool = False
    starts_word: bool = False
    spans_lines: bool = False


def has_seed(lowered: str) -> bool:
    """Return quickly whether `mask_shapes` could change a text, given in lower case.

    False positives only cost time.
    """
    return _finds(_all_seeds(), lowered)


def mask_shapes(text: str) -> str:
    """Replace every part of the text that has the shape of a secret."""
    lowered = _lower(text)
    seed = _find(_all_seeds(), lowered)
    if seed < 0:
        return text
    for matcher in _SPANNING:
        if _finds(matcher.seeds, lowered, seed):
            text = _mask(text, matcher.shape, matcher.finder)
            lowered = _lower(text)
            seed = _find(_all_seeds(), lowered)
    pieces: list[str] = []
    at = 0
    for start, end in _suspects(text, lowered, seed):
        first = max(0, start - 1)
        # With the characters beside it, which may decide.
        part = text[first : end + 1]
        masked = _mask_line(part)
        if masked != part:
            pieces += (text[at:start], masked[start - first : len(masked) - len(text[end : end + 1])])
            at = end
    return "".join((*pieces, text[at:])) if pieces else text


def _suspects(text: str, lowered: str, seed: int) -> Iterator[tuple[int, int]]:
    """Yield the lines with a seed, from the first on; of a long line the parts with one, if it can be cut."""
    at = 0
    while seed >= 0:
        start = max(at, text.rfind("\n", at, seed) + 1)
        end = text.find("\n", seed)
        end = len(text) if end < 0 else end
        if end - start > _LINE_CHARS_MAX:
            for cut in _CUT.finditer(text, start, end):
                if cut.end() > seed + 1:
                    end = cut.end() - 1
                    break
                start = cut.end() - 1
        yield start, end
        at = end
        seed = _find(_all_seeds(), lowered, at)


def _mask_line(text: str) -> str:
    lowered = _lower(text)
    for matcher in _OF_LINES:
        if _finds(matcher.seeds, lowered):
            masked = _mask(text, matcher.shape, matcher.finder)
            if masked is not text:
                # The mask of a long secret may bring a name and a value together.
                text, lowered = masked, _lower(masked)
    return text


def _finds(seeds: re.Pattern[str], lowered: str, at: int = 0) -> bool:
    return _find(seeds, lowered, at) >= 0


def _find(seeds: re.Pattern[str], lowered: str, at: int = 0) -> int:
    """Return where the next seed begins, or -1."""
    # In windows: a search of the whole of a large text would hold up other threads.
    for start in range(at, len(lowered), WINDOW_CHARS):
        # A seed that begins in a window ends before the end of its search.
        seed = seeds.search(lowered, start, start + WINDOW_CHARS + SEED_CHARS_MAX)
        if seed is not None:
            return seed.start()
    return -1


def _lower(text: str) -> str:
    """Return a text in lower case, with each character where it was."""
    return text.replace("İ", "ı").lower()  # the one letter that becomes two


def mask_shape(text: str, shape: Shape) -> str:
    """Replace the matches of one shape, without the quick check."""
    return _mask(text, shape, _finder(shape))


def _mask(text: str, shape: Shape, finder: "_Finder") -> str:
    parts: list[str] = []
    at = 0
    for start, end in finder(_blank(text) if shape.starts_word else text, shape):
        parts += (text[at:start], f"[redacted{shape.hint}]")
        at = end
    return "".join((*parts, text[at:])) if parts else text


def _blank(text: str) -> str:
    """Return the text with blanks in the place of escapes and colours."""
    parts: list[str] = []
    at = 0
    for match in _ESCAPES(text):
        parts += (text[at : match.start(1)], " " * (match.end() - match.start(1)))
        at = match.end()
    return "".join((*parts, text[at:])) if parts else text


def _matches(pattern: str) -> "Callable[[str], Iterator[re.Match[str]]]":
    """Return a function that finds all matches of a pattern, whose first group begins where it does.

    In a large text each step of the search passes at most `WINDOW_CHARS` characters without a match.
    """
    plain = re.compile(pattern, re.ASCII)
    stepwise = rf"(?s:.{{0,{WINDOW_CHARS - 1}}}?)(?:{pattern})|(?s:.{{1,{WINDOW_CHARS}}})"

    def find(text: str) -> Iterator[re.Match[str]]:
        if len(text) <= WINDOW_CHARS:
            return plain.finditer(text)
        return (match for match in re.finditer(stepwise, text, re.ASCII) if match.start(1) >= 0)

    return find


def _find_shape(pattern: str) -> "_Finder":
    matches = _matches(pattern)

    def find(text: str, shape: Shape) -> Iterator[tuple[int, int]]:
        accept = shape.accept
        for match in matches(text):
            start, end = match.start(1), match.end()
            if accept is None or accept(
                Found(match[1], match[2], match[3], text[start - 1 : start], text[end : end + 1])
            ):
                yield match.span(3)

    return find


def _find_named(head: str, value: re.Pattern[str]) -> "_Finder":
    """Find a value only after a secret name.

    Otherwise the value of another name would hide the secret in it, as in `error: token=x`.
    """

    names = _matches(head)

    def find(text: str, shape: Shape) -> Iterator[tuple[int, int]]:
        at = 0
        for name_match in names(text):
            start, end = name_match.start(1), name_match.end()
            before = text[start - 1 : start]
            is_name = start >= at and may_name_secret(name_match[1], before)
            match = value.match(text, end) if is_name else None
            if match is None:
                continue
            at = match.end()
            candidate = Found(name_match[1], name_match[2], match[1], before, text[at : at + 1])
            if shape.accept is None or shape.accept(candidate):
                yield end, at

    return find


def _finder(shape: Shape) -> "_Finder":
    if not shape.is_named:
        return _find_shape(shape.pattern)
    cut = shape.pattern.rindex("([^")  # the third group
    return _find_named(shape.pattern[:cut], re.compile(shape.pattern[cut:], re.ASCII))


WINDOW_CHARS: Final = 16_384
_LINE_CHARS_MAX: Final = 1_024
_CUT: Final = re.compile(r"""[,;()[\]{}<|][ \t]*+["']""")
SEED_CHARS_MAX: Final = 512
_ESCAPES: Final = _matches(
    r"()(?:\\(?:[bfnrtv]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})|%[0-9A-Fa-f]{2}|\[[0-9;]{1,11}m)"
)
_Finder = Callable[[str, Shape], Iterator[tuple[int, int]]]
_SECRET_WORDS: Final = (
    "ken",
    "k(?<=[a-z0-9_.-]k)ey",
    "pass",
    "pw",
    "cret",
    "cred",
    "conn(?:ection)?[_.-]?str",
)
_RARER_WORDS: Final = ("zation", "kie", "jwt", "bearer", "auth(?!or)", "p(?<=otp)")
_WORDS_OF_NAMES: Final = re.compile("|".join((*_SECRET_WORDS, *_RARER_WORDS)), re.ASCII)
_ASSIGNMENT_SEEDS: Final = (
    "g=(?<=sig=)",
    *(
        rf"""{word}[a-z0-9_.-]{{0,62}}+\\{{0,3}}["']?[ \t]{{0,4}}[:=]"""
        for word in (*_SECRET_WORDS, *_RARER_WORDS, "gnature")
    ),
)

_LOGIN_SEEDS: Final = tuple(rf"{option}[ \t\n=]{{1,4}}[^ \t\r\n:]{{1,132}}:" for option in ("-u", "-user"))

_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

_WINDLASS: Final = ("Windlass", "wl_[a-z0-9]{1,64}_[0-9a-f]{64}", "wl_[a-z0-9]{1,64}_[0-9a-f]{64}")

SERVICES: Final = (
    # Windlass itself, then other services in the order of their names: the seed and the pattern of a token.
    _WINDLASS,
    ("1Password", "ps_eyj", "ops_eyJ[A-Za-z0-9+/=_-]{40,}"),
    (
        "1Password account",
        "a3-[a-z0-9]{6}-",
        "A3-[A-Z0-9]{6}-[A-Z0-9]{6}-?[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}",
    ),
    ("Adobe", "p8e-[a-z0-9]{32}", "p8e-[A-Za-z0-9]{32}"),
    ("age", "cret-key-1", "AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    ("Airtable", "pat[a-z0-9]{14}[.]", "pat[A-Za-z0-9]{14}[.][a-f0-9]{64}"),
    ("Alibaba", "ai[a-z0-9]{20}(?<=ltai.{20})", "LTAI[A-Za-z0-9]{20}(?![A-Za-z0-9])"),
    ("Apify", "fy_api_[a-z0-9]{30}", "apify_api_[A-Za-z0-9]{30,}"),
    ("Atlassian", "xffg[a-z][a-z0-9]", "AT[A-Z]TT3xFfG[A-Z][A-Z0-9][A-Za-z0-9_=-]{20,}"),
    ("Atlassian, Bitbucket", "atbb[a-z0-9]{32}", "ATBB[A-Za-z0-9]{32}"),
    (
        "Authress",
        "[.]acc[_-][a-z0-9-]{10}",
        "(?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}[.][A-Za-z0-9]{4,6}[.]acc[_-][A-Za-z0-9-]{10,32}"
        "[.][A-Za-z0-9+/_=-]{30,120}",
    ),
    ("AWS Bedrock", "absk[a-z0-9+/]{40}", "ABSK[A-Za-z0-9+/]{40,}={0,2}"),
    ("AWS Bedrock, short", "key-ymvkcm9jay5h", "bedrock-api-key-[A-Za-z0-9+/=]{28,}"),
    ("Axiom", "xa[ap]t-[0-9a-f]{8}-", f"xa[ap]t-{_UUID}"),
    ("Azure", "q~[a-z0-9_~.-]{31}", "[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    ("Azure, services", "jqqj99[a-z0-9+/]{20}", "[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9+/]{20,26}"),
    (
        "Braintree",
        "ken[$](?:production|sandbox)[$]",
        "access_token[$](?:production|sandbox)[$][a-z0-9]{16}[$][0-9a-f]{32}",
    ),
    ("Brevo", "x(?:key|smtp)sib-", "x(?:key|smtp)sib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    ("Browserbase", "bb_live_", "bb_live_[A-Za-z0-9_-]{20,}"),
    ("Buildkite", "bk[a-z]{2,3}_[a-z0-9_-]{36}", "bk[a-z]{2,3}_[A-Za-z0-9_-]{36,}"),
    ("Cerebras", "k-[a-z0-9_-]{20}", "csk-[A-Za-z0-9]{40,}"),
    ("CircleCI", "ccip", "CCIP(?:AT|RJ)_[A-Za-z0-9]{20,30}_[A-Fa-f0-9]{40}"),
    ("Clojars", "clojars_", "CLOJARS_[A-Za-z0-9]{60}"),
    ("Cloudflare", "cf(?:k|[ua]t)_[a-z0-9]{40}", "cf(?:k|[ua]t)_[A-Za-z0-9]{40,}"),
    ("Cloudflare, certificates", "v1[.]0-[a-f0-9]{24}-", "v1[.]0-[a-f0-9]{24}-[a-f0-9]{140,}"),
    ("Cockroach", "ccdb1_", "CCDB1_[A-Za-z0-9]{22}_[A-Za-z0-9]{40}"),
    ("Contentful", "pat[_-][a-z0-9_-]{20}", "CFPAT-[A-Za-z0-9_-]{43}"),
    ("crates.io", "cio[a-z0-9]{32}", "cio[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    ("Databricks", "pi[a-f0-9]{32}", "dapi[a-f0-9]{32,}(?:-[0-9])?"),
    ("Daytona", "_[0-9a-f]{8}(?<=dtn.{9})[0-9a-f]{56}", "dtn_[0-9a-f]{64}"),
    (
        "Defined Networking",
        "key-[a-z0-9=_-]{26}-[a-z0-9=_-]{52}",
        "dnkey-[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}",
    ),
    ("DigitalOcean", "v1_[a-z0-9_-]{20}", "do(?:p_v1_[A-Za-z0-9_-]{20,}|[or]_v1_[a-f0-9]{64})"),
    ("Discord, second factor", "fa[.][a-z0-9_-]{80}", "mfa[.][A-Za-z0-9_-]{80,}"),
    ("Docker", "ckr_[op]at_", "dckr_[op]at_[A-Za-z0-9_-]{20,}"),
    (
        "Doppler",
        "p[.][a-z]{2,5}[.][a-z0-9._-]{40}",
        "dp[.](?:pt|st|ct|sa|scim|audit)[.][A-Za-z0-9._-]{40,}",
    ),
    (
        "Dropbox",
        "[.][a-z0-9_=-]{60}(?:(?<=sl[.].{60})|(?<=sl[.][a-z][.].{60}))",
        "sl[.](?:[A-Za-z][.])?[A-Za-z0-9_=-]{60,}",
    ),
    ("Duffel", "fel_(?:test|live)_", "duffel_(?:test|live)_[A-Za-z0-9_=-]{43}"),
    ("Dynatrace", "c01[.][a-z0-9]{24}[.]", "dt0c01[.][A-Za-z0-9]{24}[.][A-Za-z0-9]{64}"),
    ("E2B", "b_[0-9a-f]{40}", "e2b_[0-9a-f]{40}"),
    ("EasyPost", "z[at]k[a-z0-9]{54}", "EZ[AT]K[A-Za-z0-9]{54}(?![A-Za-z0-9])"),
    ("ElevenLabs", "k_[0-9a-f]{48}", "sk_[0-9a-f]{48}"),
    ("Figma", "fig[a-z]{1,2}_[a-z0-9_-]{36}", "fig(?:d|o[hr]?|u[hr]?)_[A-Za-z0-9_-]{36,}"),
    ("Firecrawl", "fc-[0-9a-f]{32}", "fc-[0-9a-f]{32}(?![0-9a-f])"),
    ("Fireworks", "fw_[a-z0-9]{20}", "fw_[A-Za-z0-9]{20,}"),
    ("Flutterwave", "flwseck", "FLWSECK(?:_TEST)?-[A-Za-z0-9]{12,}"),
    ("Fly, organisation", "fo1_[a-z0-9_-]{43}", "fo1_[A-Za-z0-9_-]{43}"),
    ("Fly", "fm[12][ar]?_[a-z0-9+/]{60}", "fm[12][ar]?_[A-Za-z0-9+/]{60,}={0,3}"),
    ("Frame.io", "fio-u-", "fio-u-[A-Za-z0-9_=-]{64}"),
    ("GitHub", "gh[pousr]_[a-z0-9]{20}", "gh[pousr]_[A-Za-z0-9]{20,}"),
    ("GitHub, fine-grained", "pat[_-][a-z0-9_-]{20}", "github_pat_[A-Za-z0-9_]{20,}"),
    (
        "GitLab",
        "gl[a-z]{2,6}-[a-z0-9_-]{20}",
        "gl(?:pat|dt|rtr?|ft|ffct|ptt|cbt|soat|imt|agent|oas|wt)-[A-Za-z0-9_-]{20,}(?:[.][a-z0-9]{9,})?",
    ),
    ("GitLab, runner", "gr1348941", "GR1348941[A-Za-z0-9_-]{20}"),
    ("Google", "za[a-z0-9_-]{35}", "AIza[A-Za-z0-9_-]{35,}"),
    ("Google, access", "ya29[.]", "ya29[.][A-Za-z0-9_-]{20,}"),
    ("Google, bound to an account", "[.]ab[a-z0-9_-]{40}", "AQ[.]Ab[A-Za-z0-9_-]{40,}"),
    ("Google, client", "gocspx-", "GOCSPX-[A-Za-z0-9_-]{20,}"),
    ("Google, refresh", "1//0[a-z0-9_-]{40}", "1//0[A-Za-z0-9_-]{40,}"),
    ("Grafana", "yjrijoi", "eyJrIjoi[A-Za-z0-9]{70,400}={0,3}"),
    ("Grafana, cloud", "glc_[a-z0-9+/]{32}", "glc_[A-Za-z0-9+/]{32,}={0,2}"),
    ("Grafana, service account", "glsa_[a-z0-9]{32}", "glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}"),
    ("Groq", "k_[a-z0-9]{30}", "gsk_[A-Za-z0-9]{30,}"),
    (
        "Harness",
        "at[.][a-z0-9_-]{22}[.][a-z0-9]{24}[.]",
        "[ps]at[.][A-Za-z0-9_-]{22}[.][A-Za-z0-9]{24}[.][A-Za-z0-9]{20}",
    ),
    ("Heroku", "ku-[a-z0-9_-]{36}", "HRKU-[A-Za-z0-9_-]{36,}"),
    ("Honeycomb", "k_[a-z0-9]{30}", "hc[abx][im]k_[a-z0-9]{58}"),
    (
        "HubSpot",
        "pat[_-][a-z0-9_-]{20}",
        f"pat-[a-z]{{2}}[0-9]{{1,2}}-{_UUID}",
    ),
    ("Hugging Face", "f_[a-z0-9]{30}", "hf_[A-Za-z0-9]{30,}"),
    ("Hugging Face, organisation", "g_[a-z0-9]{30}(?<=org.{31})", "api_org_[A-Za-z0-9]{30,}"),
    ("Inngest", "key-[a-z]{4,6}-[0-9a-f]{64}", "signkey-[a-z]{4,6}-[0-9a-f]{64}"),
    ("Intra42", "-s4t2", "s-s4t2(?:ud|af)-[a-f0-9]{64}"),
    ("JFrog", "akcp[a-z0-9]{69}", "AKCp[A-Za-z0-9]{69}"),
    ("JFrog, reference", "cmvmd[a-z0-9]{59}", "cmVmd[A-Za-z0-9]{59}(?![A-Za-z0-9])"),
    ("Jina", "jina_[a-z0-9_-]{40}", "jina_[A-Za-z0-9_-]{40,}"),
    ("LangSmith", "v2_[ps][kt]_[0-9a-f]{32}", "lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    ("LaunchDarkly", "pi-[0-9a-f]{8}-[0-9a-f]{4}-", f"(?:sdk|api)-{_UUID}(?![0-9A-Za-z-])"),
    ("Linear", "pi_[a-z0-9_-]{20}", "lin_api_[A-Za-z0-9_-]{20,}"),
    ("Linear, application", "auth_[a-f0-9]{64}", "lin_oauth_[a-f0-9]{64}"),
    ("LlamaCloud", "x-[a-z0-9]{40}(?<=llx.{41})", "llx-[A-Za-z0-9]{40,}"),
    ("Logfire", "ylf_v[0-9]{1,2}_", "pylf_v[0-9]{1,2}_[a-z]{2,10}_[A-Za-z0-9]{40,}"),
    (
        "Mailchimp",
        "-us[0-9](?<=[0-9a-f]{32}.{4})",
        "[0-9a-f]{32}-us[0-9]{1,2}(?![0-9A-Za-z-])",
    ),
    ("Mailgun", "key-[0-9a-f]{32}", "(?:pub)?key-[0-9a-f]{32}(?![0-9a-f])"),
    ("Mailgun, private", "vate-[0-9a-f]{32}", "private-[0-9a-f]{32}(?![0-9a-f])"),
    (
        "Mailgun, new",
        "-[0-9a-f]{8}-[0-9a-f]{8}(?<=[0-9a-f]{32}.{18})",
        "[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![0-9A-Za-z-])",
    ),
    ("Mapbox", "k[.]eyj", "sk[.]eyJ[A-Za-z0-9_-]{20,}[.][A-Za-z0-9_-]{20,}"),
    ("MongoDB Atlas", "b_sa_sk_", "mdb_sa_sk_[A-Za-z0-9_-]{40,}"),
    ("Neon", "pi_[a-z0-9_-]{20}", "napi_[A-Za-z0-9]{40,}"),
    ("Netlify", "f[bcopu]_[a-z0-9]{36}", "nf[bcopu]_[A-Za-z0-9]{36}"),
    ("New Relic", "k-[a-z0-9]{27}", "NRAK-[A-Z0-9]{27}"),
    (
        "New Relic, licence",
        "al(?<=nral)(?<=[0-9a-f]{30}nral)",
        "(?:eu01xx[0-9A-Fa-f]{30}|[0-9A-Fa-f]{36})NRAL(?![A-Za-z0-9])",
    ),
    ("Notion, before 2024", "cret_[a-z0-9]{43}", "secret_[A-Za-z0-9]{43}"),
    ("Notion", "_[a-z0-9]{8}(?<=ntn.{9})[a-z0-9]{35}", "ntn_[0-9]{11}[A-Za-z0-9]{35,}"),
    ("npm", "pm_[a-z0-9]{30}", "npm_[A-Za-z0-9]{30,}"),
    ("NuGet", "y2[a-z0-9]{43}(?<=oy.{44})", "oy2[a-z0-9]{43}(?![A-Za-z0-9])"),
    ("Nvidia", "vapi-", "nvapi-[A-Za-z0-9_-]{20,}"),
    ("Octopus", "pi-[a-z0-9]{26}", "API-[A-Z0-9]{26}(?![A-Za-z0-9])"),
    ("OpenAI and many more", "k-[a-z0-9_-]{20}", "sk-[A-Za-z0-9_-]{20,}"),
    ("OpenShift", "a256~", "sha256~[A-Za-z0-9_-]{43}"),
    ("Perplexity", "pplx-", "pplx-[A-Za-z0-9_-]{20,}"),
    ("Pinecone", "pcsk_", "pcsk_[A-Za-z0-9]{4,8}_[A-Za-z0-9]{40,}"),
    (
        "Plaid",
        "access-[a-z]{7,11}-[0-9a-f]{8}-",
        f"access-(?:sandbox|development|production)-{_UUID}",
    ),
    ("PlanetScale", "pscale_", "pscale_(?:tkn|oauth|pw)_[A-Za-z0-9=._-]{32,}"),
    ("Postman", "pmak-", "PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    ("PostHog", "x_[a-z0-9_-]{40}", "phx_[A-Za-z0-9_-]{40,}"),
    ("Prefect", "pn[bu]_[a-z0-9]{36}", "pn[bu]_[A-Za-z0-9]{36}"),
    ("Pulumi", "pul-[a-f0-9]{40}", "pul-[a-f0-9]{40}"),
    ("PyPI", "pypi-[a-z0-9_-]{50}", "pypi-[A-Za-z0-9_-]{50,}"),
    ("Render", "_[a-z0-9]{8}(?<=rnd.{9})[a-z0-9]{12}", "rnd_[A-Za-z0-9]{24,}"),
    ("Replicate", "8_[a-z0-9_-]{20}", "r8_[A-Za-z0-9_-]{20,}"),
    ("Resend", "_[a-z0-9]{8}_(?<=re.{10})[a-z0-9]{20}", "re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    ("RubyGems", "bygems_[a-f0-9]{48}", "rubygems_[a-f0-9]{48}"),
    ("RunPod", "pa_[a-z0-9]{40}", "rpa_[A-Z0-9]{40,}[a-z0-9]{0,6}"),
    ("Scalingo", "k-[a-z0-9_-]{20}", "tk-us-[A-Za-z0-9_-]{48}"),
    ("SendGrid", "g[.][a-z0-9_-]{16}", "SG[.][A-Za-z0-9_-]{16,}[.][A-Za-z0-9_-]{16,}"),
    ("Sentry, user", "yu_[a-f0-9]{64}", "sntryu_[a-f0-9]{64}"),
    ("Sentry", "ys_eyj", "sntrys_eyJ[A-Za-z0-9+/=_-]{20,}"),
    ("SettleMint", "at_[a-z0-9]{16}(?<=sm_.{20})", "sm_[aps]at_[A-Za-z0-9]{16}"),
    ("Shippo", "ppo_(?:live|test)_", "shippo_(?:live|test)_[A-Fa-f0-9]{40}"),
    ("Shopify", "p[acpst]{2}_[a-f0-9]{32}", "shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    ("Slack", "xox[a-z]-", "xox[a-z]-[A-Za-z0-9-]{10,}"),
    ("Slack, application", "xapp-", "xapp-[A-Za-z0-9-]{20,}"),
    ("Snyk", "yk_[us]at[.]", "snyk_[us]at[.][A-Za-z0-9_.-]{20,}"),
    ("SonarQube", "q[apu]_[a-z0-9]{40}", "sq[apu]_[A-Za-z0-9]{40}"),
    ("Sourcegraph", "gp_[a-z0-9_]{0,17}[a-f0-9]{40}", "sgp_(?:[A-Fa-f0-9]{16}_|local_)?[A-Fa-f0-9]{40}"),
    ("Square", "q0[ac][ts][pb]-[a-z0-9_-]{22}", "sq0(?:at[pb]-[A-Za-z0-9_-]{22,}|cs[pb]-[A-Za-z0-9_-]{43,})"),
    ("Stripe", "k_(?:org_)?(?:live|test|prod)_", "[sr]k_(?:org_)?(?:live|test|prod)_[A-Za-z0-9]{16,}"),
    ("Stripe, webhooks", "whsec_", "whsec_[A-Za-z0-9+/=]{20,}"),
    ("Supabase, access", "bp_[a-z0-9_-]{20}", "sbp_[A-Za-z0-9_-]{20,}"),
    ("Supabase", "b_secret_", "sb_secret_[A-Za-z0-9_-]{20,}"),
    ("Tailscale", "key-[a-z]{1,16}-[a-z0-9-]{20}", "tskey-[a-z]{1,16}-[A-Za-z0-9-]{20,}"),
    ("Tavily", "vly-", "tvly-[A-Za-z0-9_-]{20,}"),
    ("Telegram", ":aa[a-z0-9_-]{33}", "[0-9]{8,10}:AA[A-Za-z0-9_-]{33,}"),
    ("Terraform", "v1[.][a-z0-9_=-]{60}", "[A-Za-z0-9]{14}[.]atlasv1[.][A-Za-z0-9_=-]{60,}"),
    ("Together", "v1_[a-z0-9_-]{20}", "tgp_v1_[A-Za-z0-9_-]{40,}"),
    ("Twilio", "k[0-9a-f]{32}", "SK[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("Typeform", "fp_[a-z0-9_.=-]{40}", "tfp_[A-Za-z0-9_.=-]{40,}"),
    ("Vault", "v[bsr][.][a-z0-9_-]{20}", "hv[bsr][.][A-Za-z0-9_-]{20,}"),
    ("Vercel", "vc[aikpr]_[a-z0-9_-]{40}", "vc[aikpr]_[A-Za-z0-9_-]{40,}"),
    ("Vercel, files", "b_rw_", "vercel_blob_rw_[A-Za-z0-9_]{20,}"),
    ("Weights & Biases", "v1_[a-z0-9_-]{20}", "wandb_v1_[A-Za-z0-9]{20,40}_[A-Za-z0-9]{40,}"),
    ("xAI", "xai-[a-z0-9_-]{20}", "xai-[A-Za-z0-9_-]{20,}"),
    ("Yandex", "aqvn[a-z0-9_-]{35}", "AQVN[A-Za-z0-9_-]{35,38}"),
)


def _tree(alternatives: Iterable[str]) -> str:
    """Return alternatives as one expression that tests a beginning that several have in common once."""
    rests: dict[str, list[str]] = {}
    for alternative in dict.fromkeys(alternatives):
        unit = _UNIT.match(alternative)
        head = alternative if unit is None else unit[0]
        rests.setdefault(head, []).append(alternative[len(head) :])
    return "|".join(
        head + (rest[0] if len(rest) == 1 else f"(?:{_tree(rest)})") for head, rest in rests.items()
    )


# One character, or a fixed number of them.
_UNIT: Final = re.compile(r"(?:[A-Za-z0-9_:/~-]|\[[^\]]{1,16}\])(?:\{[0-9]{1,3}\}(?![+?])|(?![{?+*]))")

SHAPES: Final = (
    Shape(
        ":private_key",
        ("private key(?: block)?-----",),
        r"()()(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?=[\s\S]{0,12}?[A-Za-z0-9+/=:,-]{8})"
        r"[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?![\s\S])))",
        None,
        spans_lines=True,
    ),
    Shape(
        ":jwt",
        ("yj[a-z0-9_-]{8}",),
        # One attempt for each run of letters: one for each `eyJ` in it would look at the rest of it again.
        r"(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]*+[.][A-Za-z0-9_-]*+[.])[A-Za-z0-9_-]*?(?<![A-Za-z0-9])"
        r"()()(eyJ[A-Za-z0-9_-]{8,}[.][A-Za-z0-9_-]*[.][A-Za-z0-9_.-]*)",
        None,
        starts_word=True,
    ),
    Shape(
        ":authorization",
        (r"""zation\\{0,3}["']?[ \t]{0,4}[:=]""",),
        r"""([Aa]uthorization|AUTHORIZATION)"""
        r"""(\\{0,3}["']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}["']?[A-Za-z][A-Za-z0-9-]{2,20}[ \t]{1,4})"""
        r"""([^ \t\r\n"'\\<>{}$[(][^\r\n"'\\<>{}$[(]*)""",
        is_authorization,
    ),
    Shape(
        ":cookie",
        (r"""kie\\{0,3}["']?[ \t]{0,4}:""",),
        r"""([Cc]ookie|COOKIE)(\\{0,3}["']?[ \t]{0,4}:[ \t]{0,4}\\{0,3}["']?)"""
        r"""([A-Za-z0-9_.-]{1,64}=[^\r\n"'\\]+)""",
        None,
    ),
    Shape(
        ":token",
        tuple(seed for _, seed, _ in SERVICES),
        # Our own key is long enough to be one after any letter.
        rf"()()((?<![A-Za-z0-9])(?:{_tree(pattern for _, _, pattern in SERVICES)})|{_WINDLASS[2]})",
        is_random,
        starts_word=True,
    ),
    Shape(
        # A token of Discord begins with the number of its bot, in base64: so do few words.
        ":token",
        ("[.][a-z0-9_-]{6}[.][a-z0-9_-]{27}",),
        r"(?<![A-Za-z0-9_.-])()()([MNO][DTjz][AEIMQUYcgk][wxyz0-5][A-Za-z0-9_-]{19,22}[.][A-Za-z0-9_-]{6}"
        r"[.][A-Za-z0-9_-]{27,})",
        None,
        starts_word=True,
    ),
    Shape(
        # Square, and Meta. The neighbour checks exclude base64 data.
        ":token",
        ("aa(?:(?<=eaa)[a-z0-9_-]{61}|(?<=eqaa)[a-z0-9_-]{60})",),
        r"(?<![A-Za-z0-9+_-])()()(E[AQ]AA[A-Za-z0-9_-]{60}|EAA(?!AAAA)[A-Za-z0-9]{80,400})(?![A-Za-z0-9+/=_-])",
        is_random,
        starts_word=True,
    ),
    Shape(
        # The account of Twilio is no secret; what follows it is.
        ":token",
        (":[a-z0-9]{32}(?<=[ck][0-9a-f]{32}.{33})",),
        r"(?<![A-Za-z0-9])(AC[0-9a-f]{32}|SK[0-9a-f]{32})(:)([0-9A-Za-z]{32})(?![0-9A-Za-z])",
        None,
    ),
    Shape(
        ":aws_key",
        ("akia[a-z0-9]{16}", "asia[a-z0-9]{16}", "abia[a-z0-9]{16}", "acca[a-z0-9]{16}", "a3t[a-z0-9]{17}"),
        # Base64 has a plus before any letters, and a row of the letter A for zeros; a diff has one at the
        # beginning of a line.
        r"(?:(?<![A-Za-z0-9+])|(?<=^\+)|(?<=\n\+))()()((?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])(?!AAAA)[A-Z0-9]{16})(?![A-Za-z0-9])",
        None,
        starts_word=True,
    ),
    Shape(
        ":webhook",
        (
            *("com/services/", "com/workflows/", "com/triggers/", "com/api/webhooks/"),
            *("com/api/v[0-9]{1,2}/webhooks/", "com/webhookb2/", "com/hooks/catch/"),
        ),
        r"()(hooks[.]slack[.]com/(?:services|workflows|triggers)/"
        r"|discord(?:app)?[.]com/api/(?:v[0-9]{1,2}/)?webhooks/|webhook[.]office[.]com/webhookb2/"
        r"|hooks[.]zapier[.]com/hooks/catch/)([A-Za-z0-9_/@-]{8,})",
        None,
    ),
    Shape(
        ":bearer",
        ("bearer[ \\t]",),
        r"(?<![\s\S])([Bb]earer|BEARER)([ \t]{1,4})([^ \t\r\n[]+)(?![\s\S])",
        None,
    ),
    Shape(
        ":bearer",
        ("bearer[ \\t]",),
        r"(?<![A-Za-z0-9_])([Bb]earer|BEARER)([ \t]{1,4})([A-Za-z0-9._~+/=-]{8,})",
        is_bearer,
    ),
    Shape(
        ":basic",
        ("basic[ \\t]{1,4}[a-z0-9+/]{8}",),
        r"(?<![A-Za-z0-9_])([Bb]asic|BASIC)([ \t]{1,4})([A-Za-z0-9+/]{8,1000}={0,2})",
        is_basic,
    ),
    Shape(
        "",
        (r"""://[^ \t\r\n"'<>/?#@:]{0,128}:[^ \t\r\n"'<>/?#]{1,256}@""",),
        r"""()(://)([^ \t\r\n"'<>/?#@:]{0,128}:[^ \t\r\n"'<>/?#]{1,256})(?=@)""",
        None,
    ),
    Shape(
        "",
        (r"""://[^ \t\r\n"'<>/?#@:]{1,256}@""",),
        r"""([Hh]ttps?|HTTPS?|[Ww]ss?|WSS?)(://)"""
        r"""([^ \t\r\n"'<>/?#@:[{$%,;()][^ \t\r\n"'<>/?#@:,;()]{0,255})(?=@)""",
        is_user,
    ),
    Shape(
        "",
        _LOGIN_SEEDS,
        r"""(?<![A-Za-z0-9_-])(-u|--user|--proxy-user)((?:=|[ \t]{1,4})\\{0,3}["'])"""
        r"""([^ \t\r\n"'\\:$<{([][^ \t\r\n"'\\:]{0,127}:[^\r\n"'\\]{0,255})(?=\\{0,3}["'])""",
        is_login,
    ),
    Shape(
        "",
        _LOGIN_SEEDS,
        r"""(?<![A-Za-z0-9_-])(-u|--user|--proxy-user)(=|[ \t]{1,4})"""
        r"""([^ \t\r\n"'\\:$<{([][^ \t\r\n"'\\:]{0,127}:[^ \t\r\n"'\\;&|<>()\x60]{0,255})""",
        is_login,
    ),
    Shape(
        "",
        _ASSIGNMENT_SEEDS,
        r"""(?<![A-Za-z0-9_.$-])([A-Za-z0-9_.-]{2,64}+)"""
        r"""(\\{0,3}+["']?+[ \t]{0,4}+(?:=>|:=|[:=])[ \t]{0,4}+\\{0,3}+["'])"""
        r"""([^ \t\r\n"'\\[$<{][^\r\n"'\\]{0,511})(?=\\{0,3}["'])""",
        is_quoted_secret,
        is_named=True,
    ),
    Shape(
        "",
        _ASSIGNMENT_SEEDS,
        r"""(?<![A-Za-z0-9_.$-])([A-Za-z0-9_.-]{2,64}+)"""
        r"""(\\{0,3}+["']?+[ \t]{0,4}+(?:=>|:=|[:=])[ \t]{0,4}+)"""
        r"""([^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60:=$%*/.][^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60]*)""",
        is_bare_secret,
        is_named=True,
    ),
    Shape(
        "",
        (rf"--(?!-)[a-z0-9_-]{{0,40}}(?:{'|'.join((*_SECRET_WORDS, *_RARER_WORDS))})",),
        r"""(?<![A-Za-z0-9_-])(--[A-Za-z][A-Za-z0-9_-]{1,40})([ \t]{1,4}\\{0,3}["']?)"""
        r"""([^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60:=$%*/.-][^ \t\r\n\f\v"'\\,;&<>(){}[\]|\x60]*)""",
        is_bare_secret,
        is_named=True,
    ),
)


def _gather(seeds: Iterable[str]) -> re.Pattern[str]:
    """Join seeds into one pattern.

    The regex engine skips ahead to the next of their first letters, which makes most of the speed.
    """
    return re.compile(_tree(seeds), re.ASCII)


@cache
def _all_seeds() -> re.Pattern[str]:
    return _gather(seed for shape in SHAPES for seed in shape.seeds)


class _Matcher:
    """A shape with its expressions, which are compiled for the first text that needs them.

    All of them take as long as a tenth of the import of the package, and most processes need few.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    @cached_property
    def seeds(self) -> re.Pattern[str]:
        """A text without a match of it has none of the shape."""
        return _gather(self.shape.seeds)

    @cached_property
    def finder(self) -> _Finder:
        """Finds the secrets of the shape in a text."""
        return _finder(self.shape)


_SPANNING: Final = tuple(_Matcher(shape) for shape in SHAPES if shape.spans_lines)
_OF_LINES: Final = tuple(_Matcher(shape) for shape in SHAPES if not shape.spans_lines)
