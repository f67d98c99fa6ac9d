"""Find registered secrets, a thousand as quickly as one.

Every form of every secret has at least `_HEAD` characters. Of these the index knows all short pieces. Looking
up every fourth piece of a text is enough to meet each secret in it, so the time does not grow with the number
of secrets, and what is looked up at one place is bounded whatever the text.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import InitVar, dataclass, field
from itertools import islice
from typing import Final

from windlass_harness.redact_forms import base64_forms_of, forms_of

MASK: Final = "[redacted]"
LINE_CHARS_MIN: Final = 16  # no base64 is wrapped into shorter lines, and few words are so long

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Registered:
    """The registered secrets in all their forms.

    Base64 is also found when it is wrapped over lines of `LINE_CHARS_MIN` characters and more, with up to
    `_INDENT` blanks before each.
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
        """Replace all that belongs to a secret; secrets that overlap become one mask."""
        parts: list[str] = []
        at = 0
        for start, end in self.spans(text):
            parts += (text[at:start], MASK)
            at = end
        return "".join((*parts, text[at:])) if parts else text

    def spans(self, text: str) -> list[Span]:
        """Return where the secrets are, in order; those that overlap are one."""
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
        """Return where a secret may have begun that the text ends within, else its end."""
        first = self._forms.open_from(text)
        # A line break may be the beginning of the next line of base64, and may itself have just begun.
        closed = text[:-_BREAK_CHARS_MAX] + _BREAK_BEGUN.sub("", text[-_BREAK_CHARS_MAX:])
        joined = _BREAK.sub("", closed)
        begun = self._wrapped.open_from(joined) if len(joined) < len(text) else len(joined)
        if begun == len(joined):
            return first
        return min(first, next(islice(_kept_places(closed), begun, None)))


class _Index:
    """Texts to look for, all at once."""

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
        """Yield every place where a needle begins, with the longest that begins there."""
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
            # Its last characters first: a long slice is dear.
            if text[max(start, end - _HEAD) : end] in self._tails and text[start:end] in self._needles:
                return end
        return start

    def open_from(self, text: str) -> int:
        """Return the first place from where on the text begins one that is longer."""
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
    """Yield where each character of the joined text was before."""
    at = 0
    for match in _BREAK.finditer(text):
        yield from range(at, match.start())
        at = match.end()
    yield from range(at, len(text))


_HEAD: Final = 8  # the shortest secret
_PIECE: Final = 5
_STRIDE: Final = 4  # so that every run of `_HEAD` characters has a whole piece that is looked up
_INDENT: Final = 8
_LINE: Final = f"[A-Za-z0-9+/_-]{{{LINE_CHARS_MIN}}}"
# It starts with what is rare; the engine then skips ahead to it.
_BREAK: Final = re.compile(
    rf"[\n\r\\](?<={_LINE}[\n\r\\])(?:(?<=\n)|(?<=\r)\n|(?<=\\)n|(?<=\\)r\\n)[ \t]{{0,{_INDENT}}}"
    r"(?=[A-Za-z0-9+/_-])"
)
_BREAK_BEGUN: Final = re.compile(
    rf"(?<={_LINE})(?:\r?\n[ \t]{{0,{_INDENT}}}|\r|(?:\\r)?\\n[ \t]{{0,{_INDENT}}}|\\r\\?|\\)\Z"
)
_BREAK_CHARS_MAX: Final = LINE_CHARS_MIN + len(r"\r\n") + _INDENT
