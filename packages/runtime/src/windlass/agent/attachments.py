"""Checks of images and files in a message."""

import binascii
import re
from typing import Final
from urllib.parse import unquote_to_bytes

from windlass.refusals import bad_request
from windlass_protocol import FilePart, ImagePart, RunRequest
from windlass_protocol.frozen import sealed
from windlass_protocol.lazy import lazy_pattern

_DATA_URL: Final = lazy_pattern(
    r"data:(?P<media>[^;,]{0,256})(?P<options>(?:;[^;,]{0,256}){0,16}),", re.IGNORECASE
)
ESCAPES_MAX: Final = 100_000
"""Escapes such as `%20` in one data URL: each takes as long as a hundred bytes in base64."""
_ADDRESS: Final = lazy_pattern(r"https?://", re.IGNORECASE)
_CONTENT_ID: Final = lazy_pattern(r"sha256:[0-9a-f]{64}")
"""A content id: a provider of the host application may resolve it, those of the runtime do not."""


@sealed
class Address:
    """The http address of the bytes."""

    url: str


@sealed
class Inline:
    """Bytes inside the message; `media_type` is empty if the data URL has none."""

    media_type: str
    raw: bytes


@sealed
class Unreadable:
    """A reference that cannot be read, with the reason."""

    problem: str


def read_place(address: str) -> Address | Inline | Unreadable:
    """Return the address or the bytes that a part of a message refers to."""
    if _ADDRESS.match(address):
        return Address(address)
    data_url = _DATA_URL.match(address)
    if data_url is None:
        return Unreadable("it is neither an http address nor a data URL")
    escapes = address.count("%", data_url.end())
    if escapes > ESCAPES_MAX:
        return Unreadable(f"its data URL has {escapes:,} escapes, limit {ESCAPES_MAX:,}: use base64")
    raw = unquote_to_bytes(address[data_url.end() :])
    if not data_url["options"].lower().endswith(";base64"):
        return Inline(data_url["media"], raw)
    try:
        return Inline(data_url["media"], binascii.a2b_base64(raw, strict_mode=True))
    except binascii.Error:
        return Unreadable("its data URL is not valid base64")


def parts_chars(request: RunRequest) -> int:
    """Return the characters of the images and files in a message."""
    if isinstance(request.input, str):
        return 0
    addresses = (
        part.image if isinstance(part, ImagePart) else part.data
        for part in request.input
        if isinstance(part, ImagePart | FilePart)
    )
    return sum(map(len, addresses))


def check_parts(request: RunRequest) -> None:
    """Refuse unreadable images and files: they would stay in the history of the session.

    Raises:
        Rejected: a part is neither an http address, a data URL nor a content id.
    """
    if isinstance(request.input, str):
        return
    for number, part in enumerate(request.input):
        match part:
            case ImagePart(image=address) | FilePart(data=address):
                content = read_place(address)
            case _:
                continue
        if isinstance(content, Unreadable) and not _CONTENT_ID.fullmatch(address):
            raise bad_request(f"message.{number} is not valid: {content.problem}", request.run_id)
