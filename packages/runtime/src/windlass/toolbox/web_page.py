"""The body of a reply as text: unpacked within bounds, decoded, readable."""

import codecs
import re
import zlib
from email.message import Message
from typing import Final

from windlass.toolbox.html_text import html_text
from windlass.toolbox.limits import BODY_BYTES_MAX
from windlass.toolbox.lines import encoding_of
from windlass.toolbox.web_network import Reply
from windlass.tools import ToolFailed

_GZIP: Final = 16 + zlib.MAX_WBITS
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXTUAL: Final = frozenset(
    {
        "application/ecmascript",
        "application/graphql",
        "application/javascript",
        "application/json",
        "application/jsonl",
        "application/ld+json",
        "application/sql",
        "application/toml",
        "application/x-javascript",
        "application/x-ndjson",
        "application/x-sh",
        "application/x-yaml",
        "application/xml",
        "application/yaml",
        "image/svg+xml",
    }
)
_META: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
META_BYTES_MAX: Final = 1_024
"""Where a page may say how it is encoded."""
_CHARSET: Final = re.compile(
    r"utf[-_]?8(?:-sig)?|utf[-_]?16(?:[-_]?[lb]e)?|ascii|iso8859-\d+|cp(?:125\d|437|850|866|874|932|949)|koi8-[rtu]"
    r"|gb2312|gbk|gb18030|big5(?:hkscs)?|shift_jis|euc_(?:jp|kr)|iso2022_(?:jp|kr)|mac-roman|tis-620"
)
"""Names, as Python has them, of codecs that only turn bytes into characters."""


def page_text(reply: Reply, url: str) -> str:
    """Return what a page says.

    Raises:
        ToolFailed: it is too large when unpacked, or not text.
    """
    header = Message()
    header["content-type"] = reply.headers.get("content-type") or "unknown/unknown"
    kind = header.get_content_type()
    body = unpacked(reply.body, reply.headers.get("content-encoding", ""))
    if not _is_textual(kind, body):
        raise ToolFailed(f"the page is not text: {len(body):,} bytes of {kind[:80]}")
    text = body.decode(_charset(header.get_param("charset"), body), "replace").removeprefix("\ufeff")
    is_html = kind in _HTML or (kind == "unknown/unknown" and "<html" in text[:META_BYTES_MAX].lower())
    return html_text(text, url) if is_html else text


def unpacked(body: bytes, encoding: str) -> bytes:
    """Return a body without its packing, and never more than the limit.

    Raises:
        ToolFailed: it is larger, damaged, or packed in another way.
    """
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return body
    if name not in {"gzip", "x-gzip"}:
        raise ToolFailed("the server packs the page in a way that was not asked for")
    parts: list[bytes] = []
    room = BODY_BYTES_MAX
    while body:
        member = zlib.decompressobj(_GZIP)
        try:
            part = member.decompress(body, room + 1)
        except zlib.error:
            raise ToolFailed("the packed page is damaged") from None
        room -= len(part)
        if room < 0:
            raise ToolFailed(f"the page is too large when unpacked: over {BODY_BYTES_MAX:,} bytes")
        if not member.eof:
            raise ToolFailed("the packed page is cut off")
        parts.append(part)
        body = member.unused_data
    return b"".join(parts)


def _is_textual(kind: str, body: bytes) -> bool:
    is_named = kind.startswith("text/") or kind in _TEXTUAL | _HTML or kind.endswith(("+json", "+xml"))
    return (is_named or kind == "unknown/unknown") and encoding_of(body) is not None


def _charset(given: object, body: bytes) -> str:
    from_bom = encoding_of(body) or "utf-8"
    if from_bom != "utf-8":
        return from_bom
    named = _META.search(body[:META_BYTES_MAX])
    for name in (given, named and named[1].decode("ascii")):
        codec = _codec(name)
        if codec is not None:
            return codec
    return "utf-8"


def _codec(name: object) -> str | None:
    """Return a codec by the name that a page gives it, if it is one for text."""
    if not isinstance(name, str) or len(name) > 40:
        return None
    try:
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    if found == "iso8859-1":
        return "cp1252"  # as browsers do: pages that say the one are written in the other
    return found if _CHARSET.fullmatch(found) else None
