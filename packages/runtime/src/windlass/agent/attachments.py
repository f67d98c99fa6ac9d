"""Images and files in a message: which are refused, and where their bytes are."""

import binascii
import re
from base64 import b64encode
from typing import Final
from urllib.parse import unquote_to_bytes

from windlass.limits import ATTACHMENT_BYTES_MAX, ATTACHMENTS_CHARS_MAX, INLINE_PART_CHARS_MAX
from windlass.refusals import bad_request
from windlass_protocol import ContentRef, FilePart, ImagePart, RunRequest, UserPart
from windlass_protocol.frozen import sealed

_DATA_URL: Final = re.compile(
    r"data:(?P<media>[^;,]{0,256})(?P<options>(?:;[^;,]{0,256}){0,16}),", re.IGNORECASE
)
ESCAPES_MAX: Final = 100_000
"""Escapes such as `%20` in one data URL: each takes as long as a hundred bytes in base64."""
_ADDRESS: Final = re.compile(r"https?://", re.IGNORECASE)
_CONTENT_ID: Final = re.compile(r"sha256:[0-9a-f]{64}")
"""A content id: a provider of the host application may resolve it. The runtime resolves its own alone."""
_PIECE_BYTES: Final = 786_432
"""Bytes that are converted to or from base64 at once: the interpreter stands still meanwhile."""


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
    if not _is_base64(data_url):
        return Inline(data_url["media"], unquote_to_bytes(address[data_url.end() :]))
    try:
        return Inline(data_url["media"], _from_base64(address, data_url.end(), has_escapes=escapes > 0))
    except ValueError:
        return Unreadable("its data URL is not valid base64")


def _is_base64(data_url: re.Match[str]) -> bool:
    return data_url["options"].lower().endswith(";base64")


def _from_base64(text: str, start: int, *, has_escapes: bool) -> bytes:
    """Decode a text from a place on.

    Raises:
        ValueError: it is not base64.
    """
    if has_escapes:
        text, start = unquote_to_bytes(text[start:]).decode("ascii"), 0
    if 0 <= text.find("=", start) < len(text) - 2:
        raise ValueError("the padding is not at the end")
    size = _PIECE_BYTES // 3 * 4
    places = range(start, len(text), size)
    return b"".join(binascii.a2b_base64(text[at : at + size], strict_mode=True) for at in places)


def data_url(media_type: str, raw: bytes) -> str:
    """Return bytes as a data URL."""
    pieces = (
        b64encode(raw[at : at + _PIECE_BYTES]).decode("ascii") for at in range(0, len(raw), _PIECE_BYTES)
    )
    return "".join((f"data:{media_type};base64,", *pieces))


def address_of(part: UserPart) -> str | None:
    """Return the address of an image or a file; None for a text."""
    match part:
        case ImagePart(image=address) | FilePart(data=address):
            return address
        case _:
            return None


def part_in_store(part: UserPart, ref: ContentRef) -> UserPart:
    """Return an image or a file with its bytes in the content store."""
    name = "image" if isinstance(part, ImagePart) else "data"
    return part.model_copy(update={name: ref.content_id, "content": ref})


def parts_chars(request: RunRequest) -> int:
    """Return the characters of the images and files in a message."""
    if isinstance(request.input, str):
        return 0
    return sum(len(address_of(part) or "") for part in request.input)


def check_parts(request: RunRequest) -> dict[int, Inline]:
    """Refuse unreadable and too large images and files: they would stay in the history of the session.

    Returns the bytes that are too large for a record, by the number of their part. Only base64 is among them:
    of other data the secrets are masked by their shapes.

    Raises:
        Rejected: a part is neither an http address, a data URL nor a content id, or too large.
    """
    large: dict[int, Inline] = {}
    if isinstance(request.input, str):
        return large
    if (chars := parts_chars(request)) > ATTACHMENTS_CHARS_MAX:
        problem = f"{chars:,} characters, limit {ATTACHMENTS_CHARS_MAX:,}; send fewer, or their addresses"
        raise bad_request(f"the images and files of the message have {problem}", request.run_id)
    for number, part in enumerate(request.input):
        if not isinstance(part, ImagePart | FilePart):
            continue
        address = address_of(part) or ""
        content = read_place(address)
        problem = None
        if part.content is not None:
            problem = "only the runtime sets its content: leave that out"
        elif isinstance(content, Inline) and (size := len(content.raw)) > ATTACHMENT_BYTES_MAX:
            problem = f"it has {size:,} bytes, limit {ATTACHMENT_BYTES_MAX:,}; send its address"
        elif isinstance(content, Unreadable) and not _CONTENT_ID.fullmatch(address):
            problem = content.problem
        if problem is not None:
            raise bad_request(f"message.{number} is not valid: {problem}", request.run_id)
        data_url = _DATA_URL.match(address) if len(address) > INLINE_PART_CHARS_MAX else None
        if isinstance(content, Inline) and data_url is not None and _is_base64(data_url):
            large[number] = content
    return large
