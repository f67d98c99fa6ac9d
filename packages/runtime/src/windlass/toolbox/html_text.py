"""HTML to text in one pass.

Every character is inspected a bounded number of times. The parser of the standard library can take hours for
a hostile page of a few megabytes.
"""

import re
from dataclasses import field
from html import unescape
from typing import Final
from urllib.parse import urljoin

from windlass_protocol.frozen import mutable

_DROPPED: Final = frozenset(
    {"script", "style", "template", "noscript", "svg", "math", "iframe", "object", "select"}
)
"""Elements without visible text."""
_RAW: Final = frozenset({"script", "style", "iframe", "noscript", "template"})
"""Elements in which tags have no meaning until their own end tag."""
_BLOCKS: Final = frozenset(
    "address article aside blockquote body caption dd details dialog div dl dt fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hr html legend li main nav ol p pre section summary table tbody "
    "tfoot thead title tr ul".split()
)
_MARKED: Final = {"li": "- ", **{f"h{level}": "#" * level + " " for level in range(1, 7)}}
_NAME: Final = re.compile(r"/?[A-Za-z][A-Za-z0-9:-]{0,40}")
_HREF: Final = re.compile(
    r"""\shref\s*=\s*(?:"([^"]{0,2000})"|'([^']{0,2000})'|([^\s"'>]{1,2000}))""", re.IGNORECASE
)
_ALT: Final = re.compile(r"""\salt\s*=\s*(?:"([^"]{1,500})"|'([^']{1,500})')""", re.IGNORECASE)
_BLANKS: Final = re.compile(r"[ \t\r\n\f\v\u00a0]+")
_GAPS: Final = re.compile(r"\n{3,}")
ATTRIBUTES_CHARS_MAX: Final = 8_192
"""Characters of the attributes of one tag that are inspected."""
_PIECE_CHARS: Final = 65_536
MARKS_MAX: Final = 200_000
"""Tags of one page; the page after them is left out. Real pages have some thousands."""


def html_text(page: str, url: str) -> str:
    """Return the text of a page: with headings and links, without scripts and styles.

    Links are relative to `url`. An element that is not closed ends with the page.
    """
    text = _Text(url)
    at = 0
    for _ in range(MARKS_MAX):
        start = page.find("<", at)
        if start < 0:
            text.words(page[at:])
            return text.finish()
        text.words(page[at:start])
        at = _markup(page, start, text)
    return f"{text.finish()}\n\n[the page has more than {MARKS_MAX:,} tags; the rest is left out]"


def _markup(page: str, start: int, text: "_Text") -> int:
    """Process the markup at an index; return the index after it."""
    if page.startswith("<!--", start):
        return _behind(page, "-->", start + 4)
    if page.startswith(("<!", "<?"), start):
        return _behind(page, ">", start + 2)
    name_match = _NAME.match(page, start + 1)
    if name_match is None:
        text.words("<")
        return start + 1
    end = _tag_end(page, name_match.end())
    name = name_match[0].lower()
    text.tag(name, page[name_match.end() : min(end, name_match.end() + ATTRIBUTES_CHARS_MAX)])
    if name not in _RAW:
        return end
    # Only its own end tag ends it; the page is searched once for each element, from its start.
    close = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(page, end)
    return len(page) if close is None else close.start()


def _behind(page: str, mark: str, start: int) -> int:
    end = page.find(mark, start)
    return len(page) if end < 0 else end + len(mark)


_TAG: Final = re.compile(r"[^\"'>]+|\"[^\"]*\"|'[^']*'")


def _tag_end(page: str, start: int) -> int:
    """Return the index after a tag; quotes hide its end, and an open quote hides the rest."""
    at = start
    while at < len(page) and page[at] != ">":
        part = _TAG.match(page, at)
        if part is None:
            return len(page)
        at = part.end()
    return min(at + 1, len(page))


@mutable
class _Text:
    """The text so far."""

    url: str
    parts: list[str] = field(default_factory=list[str])
    dropped: str = ""
    """The current element without visible text."""
    is_preformatted: bool = False
    link: str = ""
    """The target of the current link."""
    has_link_words: bool = False

    def words(self, raw: str) -> None:
        if self.dropped or not raw:
            return
        text = _unescape(raw)
        self.has_link_words |= not text.isspace()
        if self.is_preformatted:
            self.parts.append(text)
            return
        text = _join_blanks(text)
        if text == " " and (not self.parts or self.parts[-1].endswith((" ", "\n"))):
            return
        is_fresh = not self.parts or self.parts[-1].endswith(("\n", " "))
        self.parts.append(text.removeprefix(" ") if is_fresh else text)

    def tag(self, name: str, attributes: str) -> None:
        is_end = name.startswith("/")
        name = name.removeprefix("/")
        if name in _DROPPED and not self.dropped:
            self.dropped = "" if is_end or attributes.endswith("/>") else name
            return
        if self.dropped:
            # Elements open inside of it end with it.
            self.dropped = "" if is_end and name == self.dropped else self.dropped
            return
        if name in _BLOCKS:
            self._block(name, is_end=is_end)
        elif name == "br":
            self.parts.append("\n")
        elif name in {"td", "th"} and not is_end:
            self.words(" | ")
        elif name == "a":
            self._link(attributes, is_end=is_end)
        elif name == "img":
            self.words(_value(_ALT, attributes))

    def _block(self, name: str, *, is_end: bool) -> None:
        self.parts.append("\n" if name in {"li", "tr", "dt", "dd"} else "\n\n")
        if name == "pre":
            self.is_preformatted = not is_end
        elif name in _MARKED and not is_end:
            self.parts.append(_MARKED[name])

    def _link(self, attributes: str, *, is_end: bool) -> None:
        if self.link and self.has_link_words:
            self.parts.append(f" <{_join(self.url, self.link)}>")
        target = "" if is_end else _value(_HREF, attributes)
        self.link = "" if target.startswith(("#", "javascript:", "data:")) else target
        self.has_link_words = False

    def finish(self) -> str:
        lines = "".join(self.parts).replace("\r\n", "\n").split("\n")
        return _GAPS.sub("\n\n", "\n".join(line.rstrip() for line in lines)).strip()


def _join_blanks(text: str) -> str:
    """Return a text with one space for each run of blanks.

    Piece by piece: nothing else runs in the process during one search of a pattern.
    """
    pieces = [text[at : at + _PIECE_CHARS] for at in range(0, len(text), _PIECE_CHARS)]
    text = "".join(_BLANKS.sub(" ", piece) for piece in pieces)
    while "  " in text:
        # A run was cut.
        text = text.replace("  ", " ")
    return text


def _value(pattern: re.Pattern[str], attributes: str) -> str:
    match = pattern.search(attributes)
    return "" if match is None else _unescape(next(filter(None, match.groups()), "")).strip()


def _join(url: str, target: str) -> str:
    try:
        return urljoin(url, target)
    except ValueError:
        return target


def _unescape(text: str) -> str:
    try:
        return unescape(text)
    except ValueError:  # a character reference with thousands of digits
        return text
