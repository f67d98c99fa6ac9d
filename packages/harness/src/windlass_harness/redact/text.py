"""Registered secrets: masked in whole texts and in streamed texts.

Every form of every secret has at least `_HEAD` characters. The index holds all short substrings of these
heads. Looking up every fourth substring of a text finds each secret in it. So the time does not grow with the
number of secrets, and the work at one position is bounded for any text.
"""

import json
import re
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import InitVar, field
from functools import cache
from itertools import islice
from typing import Final

from windlass_harness.redact.shapes import is_secret_key, mask_shapes
from windlass_protocol.frozen import sealed


def forms_of(secret: str) -> Iterator[str]:
    """Yield a secret as it is, and escaped for JSON, HTML and URLs, and in hex."""
    yield secret
    yield from _json_forms(secret)
    yield from _html_forms(secret)
    data = secret.encode("utf-8", "surrogatepass")
    for table in _percent_tables():
        quoted = "".join(map(table.__getitem__, data))
        yield quoted
        yield quoted.replace("%20", "+")
    yield data.hex()
    yield data.hex().upper()


def base64_forms_of(secret: str) -> Iterator[str]:
    """Yield the base64 of a secret at each of three offsets, in both alphabets."""
    data = secret.encode("utf-8", "surrogatepass")
    for offset in range(3):
        encoded = b64encode(bytes(offset) + data).decode("ascii")
        # Leave out the characters at both ends that also encode bits of the neighbours.
        inner = encoded[(offset * 8 + 5) // 6 : (offset + len(data)) * 8 // 6]
        yield inner
        yield inner.replace("+", "-").replace("/", "_")


def _json_forms(secret: str) -> Iterator[str]:
    for is_ascii in (True, False):
        escaped = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        yield escaped
        yield json.dumps(escaped, ensure_ascii=is_ascii)[1:-1]
        # Some encoders escape the slash, and some escape the special characters of HTML.
        yield escaped.replace("/", "\\/")
        yield escaped.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _html_forms(secret: str) -> Iterator[str]:
    escaped = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for double in ('"', "&quot;", "&#34;"):
        for single in ("'", "&#x27;", "&#39;", "&apos;"):
            yield escaped.replace('"', double).replace("'", single)


def _percent_table(unescaped: str, form: str) -> tuple[str, ...]:
    """Return the percent-encoding of each byte."""
    plain = frozenset(f"{_ALPHANUMERIC}{unescaped}".encode())
    return tuple(chr(byte) if byte in plain else form.format(byte) for byte in range(256))


_ALPHANUMERIC: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_KEPT: Final = (
    "-._~",  # the unreserved characters of RFC 3986
    "-._~/",  # a path
    "-._~!'()*",  # encodeURIComponent
    "-._~!'()*;/?:@&=+$,#",  # encodeURI
    "-._*",  # a form
)


@cache
def _percent_tables() -> tuple[tuple[str, ...], ...]:
    return tuple(_percent_table(unescaped, form) for unescaped in _KEPT for form in ("%{:02X}", "%{:02x}"))


MASK: Final = "[redacted]"
LINE_CHARS_MIN: Final = 16  # base64 is not wrapped into shorter lines, and few words are this long

Span = tuple[int, int]


@sealed
class RegisteredSecrets:
    """The registered secrets in all their forms.

    Base64 is also found when it is wrapped into lines of at least `LINE_CHARS_MIN` characters, with up to
    `_INDENT` blanks before each line.
    """

    secrets: InitVar[tuple[str, ...]] = ()
    _forms: "_Index" = field(init=False, repr=False)
    _wrapped: "_Index" = field(init=False, repr=False)

    def __post_init__(self, secrets: tuple[str, ...]) -> None:
        base64 = {form for secret in secrets for form in base64_forms_of(secret)}
        others = {form for secret in secrets for form in forms_of(secret)}
        object.__setattr__(self, "_forms", _Index(base64 | others))
        object.__setattr__(self, "_wrapped", _Index(base64))

    def __bool__(self) -> bool:
        return bool(self._forms)

    def mask(self, text: str) -> str:
        """Replace all parts of the text that belong to a secret; overlapping secrets become one mask."""
        parts: list[str] = []
        at = 0
        for start, end in self.spans(text):
            parts += (text[at:start], MASK)
            at = end
        return "".join((*parts, text[at:])) if parts else text

    def spans(self, text: str) -> list[Span]:
        """Return the spans of the secrets, in order; overlapping spans are merged."""
        if not self:
            return []
        spans = list(self._forms.spans(text))
        joined = _BREAK.sub("", text)
        wrapped = list(self._wrapped.spans(joined)) if len(joined) < len(text) else []
        if wrapped:
            places = list(_positions_without_breaks(text))
            spans += ((places[start], places[end - 1] + 1) for start, end in wrapped)
        return list(_union(sorted(spans)))

    def open_from(self, text: str) -> int:
        """Return where a secret may start that the text does not end; otherwise the end of the text."""
        first = self._forms.open_from(text)
        # A line break may precede the next line of base64, and may itself be incomplete.
        closed = text[:-_BREAK_CHARS_MAX] + _BREAK_BEGUN.sub("", text[-_BREAK_CHARS_MAX:])
        joined = _BREAK.sub("", closed)
        begun = self._wrapped.open_from(joined) if len(joined) < len(text) else len(joined)
        if begun == len(joined):
            return first
        return min(first, next(islice(_positions_without_breaks(closed), begun, None)))


class _Index:
    """A search index for many texts at once."""

    __slots__ = ("_heads", "_longest", "_needles", "_ordered", "_pieces", "_tails")

    def __init__(self, needles: set[str]) -> None:
        lengths: dict[str, set[int]] = {}
        pieces: dict[str, set[int]] = {}
        for needle in needles:
            lengths.setdefault(needle[:_HEAD], set()).add(len(needle))
        for head in lengths:
            for offset in range(_STRIDE):
                pieces.setdefault(head[offset : offset + _PIECE], set()).add(offset)
        self._needles: Final = frozenset(needles)
        self._ordered: Final = sorted(needles)
        self._longest: Final = max(map(len, needles), default=0)
        self._tails: Final = frozenset(needle[-_HEAD:] for needle in needles)
        self._heads: Final = {head: sorted(sizes, reverse=True) for head, sizes in lengths.items()}
        self._pieces: Final = {piece: tuple(offsets) for piece, offsets in pieces.items()}

    def __bool__(self) -> bool:
        return bool(self._needles)

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the span of the longest match at every position where one starts."""
        pieces = self._pieces
        met = [at for at in range(0, len(text) - _PIECE + 1, _STRIDE) if text[at : at + _PIECE] in pieces]
        for at in met:
            for offset in pieces[text[at : at + _PIECE]]:
                start = at - offset
                end = self._end(text, start) if start >= 0 else start
                if end > start:
                    yield start, end

    def _end(self, text: str, start: int) -> int:
        for length in self._heads.get(text[start : start + _HEAD], ()):
            end = start + length
            # Compare the last characters first: a long slice is expensive.
            if text[max(start, end - _HEAD) : end] in self._tails and text[start:end] in self._needles:
                return end
        return start

    def open_from(self, text: str) -> int:
        """Return the first position from which the text is a proper prefix of a longer form."""
        size = len(text)
        for start in range(max(0, size - self._longest + 1), size):
            if size - start < _HEAD or text[start : start + _HEAD] in self._heads:
                rest = text[start:]
                after = bisect_right(self._ordered, rest)
                if after < len(self._ordered) and self._ordered[after].startswith(rest):
                    return start
        return size


def _union(spans: Iterable[Span]) -> Iterator[Span]:
    first, last = 0, 0
    for start, end in spans:
        if start < last:
            last = max(last, end)
            continue
        if last > 0:
            yield first, last
        first, last = start, end
    if last > 0:
        yield first, last


def _positions_without_breaks(text: str) -> Iterator[int]:
    """Yield the original position of each character of the joined text."""
    at = 0
    for match in _BREAK.finditer(text):
        yield from range(at, match.start())
        at = match.end()
    yield from range(at, len(text))


_HEAD: Final = 8  # the shortest secret
_PIECE: Final = 5
_STRIDE: Final = 4  # every run of `_HEAD` characters contains a whole substring that is looked up
_INDENT: Final = 8
_LINE: Final = f"[A-Za-z0-9+/_-]{{{LINE_CHARS_MIN}}}"
# It starts with rare characters; the regex engine then skips ahead to them.
_BREAK: Final = re.compile(
    rf"[\n\r\\](?<={_LINE}[\n\r\\])(?:(?<=\n)|(?<=\r)\n|(?<=\\)n|(?<=\\)r\\n)[ \t]{{0,{_INDENT}}}"
    r"(?=[A-Za-z0-9+/_-])"
)
_BREAK_BEGUN: Final = re.compile(
    rf"(?<={_LINE})(?:\r?\n[ \t]{{0,{_INDENT}}}|\r|(?:\\r)?\\n[ \t]{{0,{_INDENT}}}|\\r\\?|\\)\Z"
)
_BREAK_CHARS_MAX: Final = LINE_CHARS_MIN + len(r"\r\n") + _INDENT

HOLD_CHARS_MAX: Final = 8_192  # text that may still become the shape of a secret; a long JWT has 4,000


class MaskedStream:
    """Masks a text that arrives in chunks, and returns the part that is safe to show.

    The concatenated results of `feed` and `finish` equal `Redactor.text` of the whole text. The stream holds
    back only text that may still belong to a secret:

    - Registered secrets: the end of the text, while it is a prefix of some form. It is always shorter
      than the longest form. This rule is exact for every chunking of the text.
    - Shapes: the current word, unless it is a plain word that begins no token; and what may be a secret after
      its name and separator, its scheme, or the name of a header. No shape but a private key continues over
      the end of a line. A private key is not held back: the mask is returned at once, and the text is dropped
      up to the end of the key.

    A token that begins with a plain word which no service has (`the8Q~…`), or with the word `a`, is masked
    from the end of that word on; the text is then not that of the whole.

    Text held for longer than `HOLD_CHARS_MAX` is masked as it stands. If it ended in a secret, the following
    text is dropped up to the end of the word or the line. Only a secret that becomes recognisable after that
    is missed: a JWT with first two parts longer than the limit.

    One stream is for one text; the chunks must come in order.
    """

    __slots__ = ("_before", "_covered", "_held", "_known", "_shapes")

    def __init__(self, registered: RegisteredSecrets) -> None:
        self._known: Final = registered
        self._shapes: Final = _ShapeStream()
        self._before = ""  # the text before, to recognise a line break inside base64
        self._held = ""
        self._covered = 0  # characters of `_held` that belong to a secret with a mask returned already

    def feed(self, piece: str) -> str:
        """Add the next chunk; return the text that is safe to show now."""
        return self._shapes.feed(self._mask_registered(piece, is_last=False))

    def finish(self) -> str:
        """End the text; return the rest of it."""
        return self._shapes.feed(self._mask_registered("", is_last=True)) + self._shapes.finish()

    def _mask_registered(self, piece: str, *, is_last: bool) -> str:
        if not self._known:
            return piece
        text = self._before + self._held + piece
        first = len(self._before)
        until = len(text) if is_last else max(first, self._known.open_from(text))
        parts: list[str] = []
        at = first + self._covered
        for start, end in self._known.spans(text):
            if start >= until:
                break
            if start >= at:
                parts += (text[at:start], MASK)
            at = max(at, end)
        parts.append(text[at:until])
        self._before = text[max(0, until - LINE_CHARS_MIN) : until]
        self._held = text[until:]
        self._covered = max(0, at - until)
        return "".join(parts)


class _ShapeStream:
    """The part of the stream that masks shapes."""

    __slots__ = ("_before", "_dropping", "_held", "_is_whole")

    def __init__(self) -> None:
        self._held = ""
        self._before = ""
        """The end of the text that was shown: it may name what follows."""
        self._is_whole = True
        """Whether no more than that was shown."""
        self._dropping: re.Pattern[str] | None = None  # the end of the secret that is being dropped

    def feed(self, piece: str) -> str:
        # Long chunks are split, so that every search is over a bounded text.
        return "".join(
            self._part(piece[at : at + HOLD_CHARS_MAX]) for at in range(0, len(piece), HOLD_CHARS_MAX)
        )

    def finish(self) -> str:
        shown, rest = self._drop(self._held)
        self._held = ""
        return shown + self._show(rest, mask_shapes if self._is_whole else _mask_part)

    def _part(self, part: str) -> str:
        text = self._held + part if self._held else part
        if self._dropping is None and _WORD_CHARS_MAX < len(text) <= HOLD_CHARS_MAX and _RUN.fullmatch(part):
            self._held = text  # the word continues
            return ""
        if text is part and self._dropping is None and self._is_prose(part):
            text = self._before + part
            self._before = _end_of_line(text)
            self._is_whole = self._is_whole and self._before == text
            return part
        shown, rest = self._drop(text)
        if self._dropping is None:
            first = len(self._before)
            until = max(_open_from(self._before + rest) - first, 0)
            self._held = rest[until:]
            shown += self._show(rest[:until]) + self._overflow()
        return shown

    def _is_prose(self, part: str) -> bool:
        """Return quickly whether a part, with nothing held before it, is one more plain word."""
        is_word = part.startswith(" ") and _is_harmless(part[1:])
        return is_word and _OPENED_BY_BLANK.search(self._before, max(0, len(self._before) - 6)) is None

    def _show(self, part: str, mask: "Callable[[str], str] | None" = None) -> str:
        """Return a part with its secrets masked, after what was shown before."""
        if not part:
            return ""
        text = self._before + part
        masked = (mask or _mask_part)(text)
        self._before, before = _end_of_line(text), self._before
        self._is_whole = self._is_whole and self._before == text
        return part if masked == text else masked[_common(masked, _mask_part(before)) :]

    def _drop(self, text: str) -> tuple[str, str]:
        """Remove the secrets of unbounded length; return the text before and after them."""
        shown = ""
        while True:
            if self._dropping is not None:
                end = self._dropping.search(text)
                if end is None:
                    self._held = text[-_KEY_END_CHARS_MAX:]
                    return shown, ""
                self._dropping = None
                text = text[end.end() :]
            begin = _KEY_BEGIN.search(text)
            if begin is None:
                return shown, text
            shown += self._show(text[: begin.start()]) + "[redacted:private_key]"
            self._before, self._is_whole = "", False
            self._dropping = _KEY_END
            text = text[begin.end() :]

    def _overflow(self) -> str:
        """Release text that was held for too long."""
        if len(self._held) <= HOLD_CHARS_MAX:
            return ""
        held, self._held = self._held, ""
        masked = _mask_part(self._before + held)
        hint = _MASK_AT_END.search(masked)
        if hint is not None and not held.endswith("]"):
            self._dropping = _LINE_END if hint[1] in _HINTS_OF_LINES else _WORD_END
            return self._show(held)
        # An incomplete shape is at the very end; the cut must not go through a complete one.
        head, tail = held[:-_BEGUN_CHARS_MAX], held[-_BEGUN_CHARS_MAX:]
        if _mask_part(self._before + head) + _mask_part(tail) != masked:
            return self._show(held)
        self._held = tail
        return self._show(head)


def _mask_part(part: str) -> str:
    """Mask a part of a text; shapes that need the whole text do not apply."""
    return mask_shapes(f"\n{part}\n")[1:-1] if part else ""


def _common(first: str, second: str) -> int:
    """Return with how many equal characters two texts begin."""
    if first.startswith(second):
        return len(second)
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (left, right) in pairs if left != right), len(first))


def _end_of_line(text: str) -> str:
    """Return the end of the last line of a text, from between two words."""
    line = text[text.rfind("\n") + 1 :]
    if len(line) <= 2 * _BEFORE_CHARS_MAX:
        return line
    end = line[-_BEFORE_CHARS_MAX:]
    beginning = _WORD_BEGIN.search(end)
    return end[beginning.start() :] if beginning is not None else ""


def _is_harmless(word: str) -> bool:
    """Return whether a word is no beginning of a token, however it goes on."""
    plain = _PLAIN_WORD.fullmatch(word)
    if plain is None:
        return False
    begun = plain[1] + plain[2]
    return begun not in _HEADS and not begun.startswith(_OPEN_HEADS) and _HEX.fullmatch(begun) is None


def _open_from(text: str) -> int:
    """Return where the first part starts that may still become a secret."""
    begun = _KEY_BEGUN.search(text)
    until = len(text) if begun is None else begun.start()
    word = len(text.rstrip(_RUN_CHARS))
    if begun is None and _open_start(text[:word]) == word and _is_harmless(text[word:]):
        return len(text)
    # The open part may be inside a word, or be the value of an earlier name.
    for _ in range(_NESTING_MAX):
        until = len(text[:until].rstrip(_RUN_CHARS))
        opened = _open_start(text[:until])
        if opened == until:
            break
        until = opened
    return len(text[:until].rstrip(_RUN_CHARS))


def _open_start(text: str) -> int:
    """Return where a secret starts on the last line that the text does not end."""
    line = max(text.rfind("\n"), text.rfind("\r")) + 1
    last = text[line:]
    matches = [_HEADER.search(last)]
    start = max(0, len(last) - _OPENED_CHARS_MAX)
    matches += [opener.search(last, start) for opener in _OPENERS]
    for opener in _NAMED_OPENERS:
        match = opener.search(last, start)
        while match is not None and not is_secret_key(match[1]):
            match = opener.search(last, match.end(1))
        matches.append(match)
    return line + min((match.start() for match in matches if match is not None), default=len(last))


_RUN_CHARS: Final = "".join(map(chr, range(33, 127)))
_RUN: Final = re.compile("[!-~]*")
_BEFORE_CHARS_MAX: Final = 96  # a name of a secret and its separator are shorter
_WORD_CHARS_MAX: Final = 64
# A value may follow these and a blank.
_OPENED_BY_BLANK: Final = re.compile("(?::|[Bb]earer|BEARER|[Bb]asic|BASIC)\\Z")
_WORD_BEGIN: Final = re.compile("[^!-~]")
# Letters, and a dot that may belong to a token.
_PLAIN_WORD: Final = re.compile(
    rf"""[("'*\[]{{0,4}}([A-Za-z]?[a-z]{{0,{_WORD_CHARS_MAX}}})((?:[.](?=\Z))?)[.,;:!?)\]"'*]{{0,4}}"""
)
_HEX: Final = re.compile("[b-f]|[a-f]{2,}")
# The first letters of tokens, up to one that plain words do not have.
_FIRST_WORDS: Final = (
    *("wl", "ops", "p", "xkeysib", "bb", "bedrock", "csk", "cfk", "cfut", "cfat", "v", "dnkey", "do", "dop"),
    *("doo", "dor", "dckr", "dp.", "sl.", "duffel", "dt", "e", "figd", "figo", "figoh", "figor", "figu"),
    *("figuh", "figur", "fc", "fw", "fo", "fm", "fio", "ghp", "gho", "ghu", "ghs", "ghr", "github", "ya"),
    *("glpat", "gldt", "glrt", "glrtr", "glft", "glffct", "glptt", "glcbt", "glsoat", "glimt", "glagent"),
    *("gloas", "glwt", "glc", "glsa", "gsk", "pat.", "sat.", "hf", "api", "s", "cm", "jina", "lsv", "lin"),
    *(
        "pubkey",
        "key",
        "sk.",
        "sk",
        "napi",
        "nfb",
        "nfc",
        "nfo",
        "nfp",
        "nfu",
        "secret",
        "ntn",
        "npm",
        "nvapi",
    ),
    *("sha", "pplx", "pcsk", "access", "pscale", "pnb", "pnu", "pul", "pypi", "rnd", "r", "re", "rk"),
    *("rubygems", "tk", "sntryu", "sntrys", "sm", "shippo", "shpat", "shpca", "shppa", "shpss", "xapp"),
    *("sqa", "sqp", "squ", "sq", "sgp", "whsec", "sbp", "sb", "tskey", "tvly", "tgp", "tfp", "hvb.", "hvs."),
    *("hvr.", "vca", "vci", "vck", "vcp", "vcr", "vercel", "wandb", "xai", "sc", "ext", "scauth", "authress"),
    *("apify", "xaat", "xapt", "xsmtpsib", "dtn", "hcaik", "hcamk", "hcbik", "hcbmk", "hcxik", "hcxmk"),
    *("signkey", "llx", "pylf", "mdb", "oy", "phx", "rpa", "private", "mfa.", "snyk", "sdk", "eu"),
    *("ey", "A", "C", "E", "F", "G", "H", "L", "M", "N", "O", "P", "R", "S"),
)
_OPEN_HEADS: Final = ("pat", "cio", "dapi", "bk", "xox", "Mj", "Mz", "Nj", "Nz", "Oj", "Oz")
"""More letters may follow these."""
_HEADS: Final = frozenset(
    word[:end] for word in (*_FIRST_WORDS, *_OPEN_HEADS) for end in range(1, len(word) + 1)
) - {"a"}
_WORD_END: Final = re.compile(r"""(?=[ \t\r\n\f\v"'])""")
_LINE_END: Final = re.compile(r"""(?=[\r\n"'\\])""")
_HINTS_OF_LINES: Final = frozenset({":authorization", ":cookie"})
_MASK_AT_END: Final = re.compile(r"\[redacted(:[a-z_]+|)\]\Z")
_NESTING_MAX: Final = 4
_OPENED_CHARS_MAX: Final = 640  # only a header starts with more
_BEGUN_CHARS_MAX: Final = 256
_KEY_END_CHARS_MAX: Final = 80
_KEY_BEGIN: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?=[\s\S]{0,12}?[A-Za-z0-9+/=:,-]{8})"
)
_KEY_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BEGUN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,60}-{0,5}[\s\S]{0,20}\Z")

_QUOTED: Final = r"""\\{0,3}["'][^\r\n"'\\]{0,512}"""
_BARE: Final = r"""[^ \t\r\n"']{0,256}"""
_HEADER: Final = re.compile(
    r"""(?:[Aa]uthorization|AUTHORIZATION|[Cc]ookie|COOKIE)\\{0,3}["']?[ \t]{0,4}"""
    r"""[:=][ \t]{0,4}\\{0,3}["']?[^\r\n"'\\]*\Z"""
)
_OPENERS: Final = tuple(
    re.compile(rf"{opener}\Z")
    for opener in (
        r"(?<![A-Za-z0-9_])(?:[Bb]earer|BEARER|[Bb]asic|BASIC)[ \t]{1,4}",
        rf"(?<![A-Za-z0-9_-])(?:-u|--user|--proxy-user)(?:=|[ \t]{{1,4}})(?:{_QUOTED}|{_BARE})",
        r"""[A-Za-z][A-Za-z0-9+.-]{0,20}://[^ \t\r\n"'<>/?#]{0,384}""",
    )
)
_NAMED_OPENERS: Final = tuple(
    re.compile(rf"{opener}\Z")
    for opener in (
        r"""(?<![A-Za-z0-9_.$-])([A-Za-z0-9_.-]{2,64})\\{0,3}["']?[ \t]{0,4}"""
        rf"(?:=>|:=|[:=])[ \t]{{0,4}}(?:{_QUOTED}|{_BARE})",
        r"(?<![A-Za-z0-9_-])(--[A-Za-z][A-Za-z0-9_-]{1,40})[ \t]{1,4}"
        rf"(?:{_QUOTED}|{_BARE})",
    )
)
