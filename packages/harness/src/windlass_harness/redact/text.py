"""Registered secrets: masked in whole texts and in streamed texts.

Every form of every secret has at least `_HEAD` characters. The index holds all short substrings of these
heads. Looking up every fourth substring of a text finds each secret in it. So the time does not grow with the
number of secrets, and the work at one position is bounded for any text.
"""

import json
import re
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import InitVar, field
from functools import cache
from itertools import islice
from typing import Final

from windlass_harness.redact.shapes import is_secret_key, mask_shapes
from windlass_protocol.frozen import sealed
from windlass_protocol.lazy import lazy_pattern


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


def _percent_table(kept: str, form: str) -> tuple[str, ...]:
    """Return the percent-encoding of each byte."""
    plain = frozenset(f"{_ALPHANUMERIC}{kept}".encode())
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
    return tuple(_percent_table(kept, form) for kept in _KEPT for form in ("%{:02X}", "%{:02x}"))


MASK: Final = "[redacted]"
LINE_CHARS_MIN: Final = 16  # base64 is not wrapped into shorter lines, and few words are this long

Span = tuple[int, int]


@sealed
class Registered:
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
        found = list(self._forms.spans(text))
        joined = _BREAK.sub("", text)
        wrapped = list(self._wrapped.spans(joined)) if len(joined) < len(text) else []
        if wrapped:
            places = list(_kept_places(text))
            found += ((places[start], places[end - 1] + 1) for start, end in wrapped)
        return list(_union(sorted(found)))

    def open_from(self, text: str) -> int:
        """Return where a secret may start that the text does not end; otherwise the end of the text."""
        first = self._forms.open_from(text)
        # A line break may precede the next line of base64, and may itself be incomplete.
        closed = text[:-_BREAK_CHARS_MAX] + _BREAK_BEGUN.sub("", text[-_BREAK_CHARS_MAX:])
        joined = _BREAK.sub("", closed)
        begun = self._wrapped.open_from(joined) if len(joined) < len(text) else len(joined)
        if begun == len(joined):
            return first
        return min(first, next(islice(_kept_places(closed), begun, None)))


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
        self._heads: Final = {head: sorted(found, reverse=True) for head, found in lengths.items()}
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


def _kept_places(text: str) -> Iterator[int]:
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
_BREAK: Final = lazy_pattern(
    rf"[\n\r\\](?<={_LINE}[\n\r\\])(?:(?<=\n)|(?<=\r)\n|(?<=\\)n|(?<=\\)r\\n)[ \t]{{0,{_INDENT}}}"
    r"(?=[A-Za-z0-9+/_-])"
)
_BREAK_BEGUN: Final = lazy_pattern(
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
    - Shapes: the last unbroken run of ASCII characters, which is the current word; and the start of a secret
      that may continue, such as a secret name with its separator and value, a scheme with its credentials, or
      the line of a header. No shape but a private key continues over the end of a line. A private key is not
      held back: the mask is returned at once, and the text is dropped up to the end of the key.

    Text held for longer than `HOLD_CHARS_MAX` is masked as it stands. If it ended in a secret, the following
    text is dropped up to the end of the word or the line. Only a secret that becomes recognisable after that
    is missed: a JWT with first two parts longer than the limit.

    One stream is for one text; the chunks must come in order.
    """

    __slots__ = ("_before", "_covered", "_held", "_known", "_shapes")

    def __init__(self, known: Registered) -> None:
        self._known: Final = known
        self._shapes: Final = _ShapeStream()
        self._before = ""  # the text before, to recognise a line break inside base64
        self._held = ""
        self._covered = 0  # characters of `_held` that belong to a secret with a mask returned already

    def feed(self, piece: str) -> str:
        """Add the next chunk; return the text that is safe to show now."""
        return self._shapes.feed(self._registered(piece, is_last=False))

    def finish(self) -> str:
        """End the text; return the rest of it."""
        return self._shapes.feed(self._registered("", is_last=True)) + self._shapes.finish()

    def _registered(self, piece: str, *, is_last: bool) -> str:
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

    __slots__ = ("_dropping", "_has_shown", "_held")

    def __init__(self) -> None:
        self._held = ""
        self._dropping: re.Pattern[str] | None = None  # the end of the secret that is being dropped
        self._has_shown = False

    def feed(self, piece: str) -> str:
        # Long chunks are split, so that every search is over a bounded text.
        return "".join(
            self._part(piece[at : at + HOLD_CHARS_MAX]) for at in range(0, len(piece), HOLD_CHARS_MAX)
        )

    def finish(self) -> str:
        shown, rest = self._drop(self._held)
        self._held = ""
        return shown + _masked(rest) if self._has_shown or shown else mask_shapes(rest)

    def _part(self, part: str) -> str:
        text = self._held + part
        if self._dropping is None and len(text) <= HOLD_CHARS_MAX and _RUN.fullmatch(part):
            self._held = text  # the word continues
            return ""
        shown, rest = self._drop(text)
        if self._dropping is None:
            until = _open_from(rest)
            self._held = rest[until:]
            shown += _masked(rest[:until]) + self._overflow()
        self._has_shown = self._has_shown or shown != ""
        return shown

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
            shown += _masked(text[: begin.start()]) + "[redacted:private_key]"
            self._dropping = _KEY_END
            text = text[begin.end() :]

    def _overflow(self) -> str:
        """Release text that was held for too long."""
        if len(self._held) <= HOLD_CHARS_MAX:
            return ""
        held, self._held = self._held, ""
        masked = _masked(held)
        hint = _MASK_AT_END.search(masked)
        if hint is not None and not held.endswith("]"):
            self._dropping = _LINE_END if hint[1] in _HINTS_OF_LINES else _WORD_END
            return masked
        # An incomplete shape is at the very end; the cut must not go through a complete one.
        head, tail = held[:-_BEGUN_CHARS_MAX], held[-_BEGUN_CHARS_MAX:]
        if _masked(head) + _masked(tail) != masked:
            return masked
        self._held = tail
        return _masked(head)


def _masked(part: str) -> str:
    """Mask a part of a text; shapes that need the whole text do not apply."""
    return mask_shapes(f"\n{part}\n")[1:-1] if part else ""


def _open_from(text: str) -> int:
    """Return where the first part starts that may still become a secret."""
    begun = _KEY_BEGUN.search(text)
    until = len(text) if begun is None else begun.start()
    # The open part may be inside a word, or be the value of an earlier name.
    for _ in range(_NESTING_MAX):
        until = len(text[:until].rstrip(_RUN_CHARS))
        opened = _opened(text[:until])
        if opened == until:
            break
        until = opened
    return len(text[:until].rstrip(_RUN_CHARS))


def _opened(text: str) -> int:
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
_RUN: Final = lazy_pattern("[!-~]*")
_WORD_END: Final = lazy_pattern(r"""(?=[ \t\r\n\f\v"'])""")
_LINE_END: Final = lazy_pattern(r"""(?=[\r\n"'\\])""")
_HINTS_OF_LINES: Final = frozenset({":authorization", ":cookie"})
_MASK_AT_END: Final = lazy_pattern(r"\[redacted(:[a-z_]+|)\]\Z")
_NESTING_MAX: Final = 4
_OPENED_CHARS_MAX: Final = 640  # only a header starts with more
_BEGUN_CHARS_MAX: Final = 256
_KEY_END_CHARS_MAX: Final = 80
_KEY_BEGIN: Final = lazy_pattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?=[\s\S]{0,12}?[A-Za-z0-9+/=:,-]{8})"
)
_KEY_END: Final = lazy_pattern(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BEGUN: Final = lazy_pattern(r"-----BEGIN [A-Z0-9 ]{0,60}-{0,5}[\s\S]{0,20}\Z")

_QUOTED: Final = r"""\\{0,3}["'][^\r\n"'\\]{0,512}"""
_BARE: Final = r"""[^ \t\r\n"']{0,256}"""
_HEADER: Final = lazy_pattern(
    r"""(?:[Aa]uthorization|AUTHORIZATION|[Cc]ookie|COOKIE)\\{0,3}["']?[ \t]{0,4}"""
    r"""(?:[:=][ \t]{0,4}\\{0,3}["']?[^\r\n"'\\]*)?\Z"""
)
_OPENERS: Final = tuple(
    lazy_pattern(rf"{opener}\Z")
    for opener in (
        r"(?<![A-Za-z0-9_])(?:[Bb]earer|BEARER|[Bb]asic|BASIC)[ \t]{1,4}",
        rf"(?<![A-Za-z0-9_-])(?:-u|--user|--proxy-user)(?:=|[ \t]{{1,4}})(?:{_QUOTED}|{_BARE})",
        r"""[A-Za-z][A-Za-z0-9+.-]{0,20}://[^ \t\r\n"'<>/?#]{0,384}""",
    )
)
_NAMED_OPENERS: Final = tuple(
    lazy_pattern(rf"{opener}\Z")
    for opener in (
        r"""(?<![A-Za-z0-9_.$-])([A-Za-z0-9_.-]{2,64})\\{0,3}["']?[ \t]{0,4}"""
        rf"(?:(?:=>|:=|[:=])[ \t]{{0,4}}(?:{_QUOTED}|{_BARE}))?",
        r"(?<![A-Za-z0-9_-])(--[A-Za-z][A-Za-z0-9_-]{1,40})[ \t]{1,4}"
        rf"(?:{_QUOTED}|{_BARE})",
    )
)
