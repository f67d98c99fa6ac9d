"""Pictures and files of a message: where their bytes are."""

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from windlass.attachments import Address, Inline, Unreadable, read_place
from windlass.ports.model import LLMMessage
from windlass.ports.model_errors import ModelFault, ModelRejected
from windlass_protocol import JsonObject, RetryClass


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


Limit = Callable[[Media], str | None]
"""Says why an API does not take a picture or a file; None if it does."""


def takes_all(_: Media) -> None:
    """Say that an API takes everything."""


def contents(message: LLMMessage, limit: Limit = takes_all) -> Iterator[Text | Media]:
    """Give what a message says, in its order; empty texts are left out.

    In the place of what cannot be sent the model is told that it is missing: what was said once stays in the
    session, and must not end it.
    """
    if not message.parts:
        if message.content:
            yield Text(message.content)
        return
    for part in message.parts:
        found = _read(part, limit)
        if isinstance(found, Unreadable):
            yield Text(f"[{_named(part)} left out: {found.problem}]")
        elif found != Text(""):
            yield found


def check_newest(messages: Sequence[LLMMessage], limit: Limit = takes_all) -> None:
    """Refuse what cannot be sent of words that the model has not heard yet.

    Raises:
        Rejected: a part has no bytes and no address that the model's server could read.
    """
    if not messages or messages[-1].role != "user":
        return
    for part in messages[-1].parts:
        found = _read(part, limit)
        if isinstance(found, Unreadable):
            raise ModelRejected(
                f"a part of a message cannot be sent to the model: {found.problem}",
                fault=ModelFault.INVALID_REQUEST,
                retry=RetryClass.NOT_RETRYABLE,
            )


def _read(part: JsonObject, limit: Limit) -> Text | Media | Unreadable:
    if part.get("type") == "text":
        return Text(str(part.get("text") or ""))
    found = _media(part)
    problem = limit(found) if isinstance(found, Media) else None
    return found if problem is None else Unreadable(problem)


def _media(part: JsonObject) -> Text | Media | Unreadable:
    is_image = part.get("type") == "image"
    declared = str(part.get("mediaType") or "")
    filename = str(part["filename"]) if part.get("filename") else None
    match read_place(str(part.get("image" if is_image else "data") or "")):
        case Address(url):
            return Media(is_image, declared, url=url, filename=filename)
        case Inline(media_type, raw):
            media_type = declared or media_type or "text/plain"
        case Unreadable() as problem:
            return problem
    if media_type.startswith("text/"):
        return Text(_as_words(raw.decode("utf-8", "replace"), filename))
    is_image = is_image or media_type.startswith("image/")
    return Media(is_image, media_type, data=base64.b64encode(raw).decode(), filename=filename)


def _named(part: JsonObject) -> str:
    kind = "image" if part.get("type") == "image" else "file"
    return f"{kind} {part['filename']}" if part.get("filename") else kind


def _as_words(text: str, filename: str | None) -> str:
    """A file of text is text: every model can read that."""
    return f"File {filename}:\n{text}" if filename else text
