"""Pictures and files of a message: where their bytes are."""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from windlass.ports.model import LLMMessage
from windlass.ports.model_errors import ModelFault, ModelRejected
from windlass_protocol import JsonObject, RetryClass

_DATA_URL: Final = re.compile(r"data:(?P<media>[^;,]*)(?P<options>(?:;[^;,]*)*),", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"https?://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Text:
    """Words."""

    text: str


@dataclass(frozen=True, slots=True)
class Media:
    """A picture or a file: its address, or its bytes in base64."""

    is_image: bool
    media_type: str
    url: str | None = None
    data: str | None = None
    filename: str | None = None

    @property
    def data_url(self) -> str:
        """The bytes as an address."""
        return f"data:{self.media_type};base64,{self.data}"


def contents(message: LLMMessage) -> Iterator[Text | Media]:
    """Give what a message says, in its order; empty texts are left out.

    Raises:
        Rejected: a part has no bytes and no address that the model's server could read.
    """
    if not message.parts:
        if message.content:
            yield Text(message.content)
        return
    for part in message.parts:
        if part.get("type") == "text":
            if part.get("text"):
                yield Text(str(part["text"]))
            continue
        found = _media(part)
        if found != Text(""):
            yield found


def _media(part: JsonObject) -> Text | Media:
    is_image = part.get("type") == "image"
    place = str(part.get("image" if is_image else "data") or "")
    declared = str(part.get("mediaType") or "")
    filename = str(part["filename"]) if part.get("filename") else None
    if _ADDRESS.match(place):
        return Media(is_image, declared, url=place, filename=filename)
    found = _DATA_URL.match(place)
    if found is None:
        raise _unreadable("it is neither an http address nor a data URL")
    media_type = declared or found["media"] or "text/plain"
    raw, problem = b"", False
    try:
        if found["options"].lower().endswith(";base64"):
            raw = base64.b64decode(unquote_to_bytes(place[found.end() :]), validate=True)
        else:
            raw = unquote_to_bytes(place[found.end() :])
    except binascii.Error:
        problem = True
    if problem:
        raise _unreadable("its data URL is no base64")
    if media_type.startswith("text/"):
        return Text(_as_words(raw.decode("utf-8", "replace"), filename))
    is_image = is_image or media_type.startswith("image/")
    return Media(is_image, media_type, data=base64.b64encode(raw).decode(), filename=filename)


def _as_words(text: str, filename: str | None) -> str:
    """A file of text is text: every model can read that."""
    return f"File {filename}:\n{text}" if filename else text


def _unreadable(problem: str) -> ModelRejected:
    return ModelRejected(
        f"a part of a message cannot be sent to the model: {problem}",
        fault=ModelFault.INVALID_REQUEST,
        retry=RetryClass.NOT_RETRYABLE,
    )
