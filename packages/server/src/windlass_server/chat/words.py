"""What chat clients of others send: what they say, and what they answer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from windlass_harness.loop.people import APPROVE, APPROVE_SESSION, DENY
from windlass_protocol import InputKind, InputRequest, InputResponse, UserContent
from windlass_server.limits import THREAD_ANSWERS_MAX, THREAD_MESSAGES_MAX
from windlass_server.models import JsonObject, Name
from windlass_server.problems import Problem
from windlass_server.wire import Text, Wire

_CONTENT: Final[TypeAdapter[UserContent]] = TypeAdapter(UserContent)
_MEDIA: Final = frozenset({"image", "audio", "video", "document", "binary"})
_CONSENTS: Final = {APPROVE: True, APPROVE_SESSION: True, DENY: False}
_NOT_ANSWERED: Final = "The question was not answered."
ANSWER_PART: Final = "data-answer"
"""A part of a message that answers a request which has no chunk of its own."""
Messages = Annotated[
    tuple[JsonObject, ...],
    Field(max_length=THREAD_MESSAGES_MAX, description="The chat as the client has it; the last one counts."),
]


class Foreign(Wire):
    """A body whose makers may add to it: what is not known is passed over."""

    model_config = ConfigDict(extra="ignore")


class ResumeEntry(Foreign):
    """An answer to an interrupt."""

    interrupt_id: Name
    status: Literal["resolved", "cancelled"]
    payload: JsonValue = None


class ContextEntry(Foreign):
    """Something that the model should know."""

    description: Text = ""
    value: Text = ""


class RunAgentInput(Foreign):
    """What a client of AG-UI sends: something to say, or answers to interrupts."""

    thread_id: Name
    run_id: Name
    protocol_version: Text | None = None
    messages: Messages = ()
    context: Annotated[tuple[ContextEntry, ...], Field(max_length=64)] = ()
    resume: Annotated[tuple[ResumeEntry, ...] | None, Field(max_length=THREAD_ANSWERS_MAX)] = None
    state: JsonValue = None


class ChatRequest(Foreign):
    """What `DefaultChatTransport` of the AI SDK sends."""

    id: Name
    messages: Annotated[Messages, Field(min_length=1)]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: Annotated[Name | None, Field(description="Which message comes anew.")] = None


@dataclass(frozen=True, slots=True)
class Given:
    """An answer as a client gives it."""

    request_id: str
    option_id: str | None = None
    text: str | None = None
    approved: bool | None = None
    arguments_hash: str | None = None
    is_abandoned: bool = False

    def response(self, request: InputRequest, responder: str) -> InputResponse:
        """Return it as the answer to a request."""
        option_id, text = self.option_id, self.text
        if request.kind is InputKind.APPROVAL and option_id is None and self.approved is not None:
            option_id = APPROVE if self.approved else DENY
        if self.is_abandoned:
            is_question = request.kind is InputKind.QUESTION
            option_id = DENY if request.kind is InputKind.APPROVAL else None
            text = _NOT_ANSWERED if is_question and request.allow_freeform else None
        return InputResponse(
            request_id=self.request_id,
            option_id=option_id,
            text=text,
            arguments_hash=self.arguments_hash,
            responder=responder,
        )


def given_in(entry: ResumeEntry) -> Given:
    """Return the answer in a resume entry: a text, an option, or yes or no."""
    if entry.status == "cancelled":
        return Given(entry.interrupt_id, is_abandoned=True)
    if isinstance(entry.payload, dict):
        return _given(entry.interrupt_id, entry.payload)
    if isinstance(entry.payload, bool):
        return Given(entry.interrupt_id, approved=entry.payload)
    text = entry.payload if isinstance(entry.payload, str) else None
    return Given(entry.interrupt_id, text=text)


def _given(request_id: str, payload: Mapping[str, JsonValue]) -> Given:
    texts = {name: payload.get(name) for name in ("optionId", "text", "argumentsHash")}
    if not all(value is None or isinstance(value, str) for value in texts.values()):
        raise _unfit("optionId, text and argumentsHash of an answer are texts")
    option_id, text, arguments_hash = (value if isinstance(value, str) else None for value in texts.values())
    approved = payload.get("approved")
    if approved is not None and not isinstance(approved, bool):
        raise _unfit("approved of an answer is true or false")
    # Nobody's no is taken for a yes, so what says both is neither.
    if approved is not None and option_id in _CONSENTS and approved is not _CONSENTS[option_id]:
        raise _unfit("approved and optionId of an answer contradict each other: send one of them")
    return Given(request_id, option_id or None, text, approved=approved, arguments_hash=arguments_hash)


def words_of(message: Mapping[str, JsonValue]) -> UserContent | None:
    """Return what a user says in a message of AG-UI; None if it is not a user's.

    Raises:
        Problem: it cannot be read.
    """
    if message.get("role") != "user":
        return None
    content = message.get("content")
    if isinstance(content, str):
        return content
    return _content([_media(part) for part in _objects(content)])


def said_in(message: Mapping[str, JsonValue]) -> UserContent | None:
    """Return what a user says in a message of the AI SDK; None if it says nothing.

    Raises:
        Problem: it cannot be read.
    """
    parts = _objects(message.get("parts"))
    texts = [part for part in parts if part.get("type") == "text"]
    files = [_file(part) for part in parts if part.get("type") == "file"]
    if not files and len(texts) == 1 and isinstance(text := texts[0].get("text"), str):
        return text
    found: list[JsonObject] = [*files, *({"type": "text", "text": part.get("text")} for part in texts)]
    return _content(found) if found else None


def answers_in(message: Mapping[str, JsonValue]) -> tuple[Given, ...]:
    """Return the answers in a message of the AI SDK: consents, or parts that answer.

    Raises:
        Problem: one of them cannot be read, or there are too many.
    """
    found: list[Given] = []
    for part in _objects(message.get("parts")):
        approval = part.get("approval")
        if message.get("role") == "assistant" and part.get("state") == "approval-responded":
            found.append(_approval(approval))
        elif message.get("role") == "user" and part.get("type") == ANSWER_PART:
            data = part.get("data")
            name = data.get("requestId") if isinstance(data, dict) else None
            if not isinstance(data, dict) or not isinstance(name, str):
                raise _unfit(f"the data of a {ANSWER_PART} part is an object with a requestId")
            found.append(_given(name, data))
    if len(found) > THREAD_ANSWERS_MAX:
        raise _unfit(f"too many answers: {len(found):,}, limit {THREAD_ANSWERS_MAX:,}")
    return tuple(found)


def _approval(approval: JsonValue) -> Given:
    given = approval if isinstance(approval, dict) else {}
    name, approved, signature = given.get("id"), given.get("approved"), given.get("signature")
    if not isinstance(name, str) or not isinstance(approved, bool):
        raise _unfit("an approval has an id, and approved is true or false")
    return Given(name, approved=approved, arguments_hash=signature if isinstance(signature, str) else None)


def _media(part: JsonObject) -> JsonObject:
    """Return a part of AG-UI as ours."""
    kind, source = part.get("type"), part.get("source")
    if kind == "text":
        return {"type": "text", "text": part.get("text")}
    if kind not in _MEDIA:
        raise _unfit("a part of a message is a text, an image, audio, a video or a document")
    if kind == "binary":
        found, value = part, part.get("url") or part.get("data")
        is_data = part.get("url") is None
    else:
        found = source if isinstance(source, dict) else {}
        value, is_data = found.get("value"), found.get("type") == "data"
        if found.get("type") == "file":
            raise _unfit("a file that only a provider has cannot be read here: send its data or an address")
    media_type = found.get("mimeType")
    address = f"data:{media_type};base64,{value}" if is_data else value
    return _file({"url": address, "mediaType": media_type or ("image/*" if kind == "image" else None)})


def _file(part: Mapping[str, JsonValue]) -> JsonObject:
    media_type, address = part.get("mediaType"), part.get("url")
    if not isinstance(address, str):
        raise _unfit("a file has an address or data")
    if isinstance(media_type, str) and media_type.startswith("image/"):
        picture: JsonObject = {"type": "image", "image": address}
        return picture if media_type == "image/*" else {**picture, "mediaType": media_type}
    name = part.get("filename")
    file: JsonObject = {"type": "file", "data": address, "mediaType": media_type}
    return {**file, "filename": name} if isinstance(name, str) else file


def _content(parts: Sequence[JsonObject]) -> UserContent:
    try:
        return _CONTENT.validate_python(tuple(parts))
    except ValidationError:
        raise _unfit("a part of the message does not fit: texts are texts, files have a media type") from None


def _objects(value: JsonValue) -> Iterable[JsonObject]:
    if not isinstance(value, list):
        raise _unfit("a message has parts, each an object")
    return [part for part in value if isinstance(part, dict)]


def _unfit(detail: str) -> Problem:
    return Problem(422, detail)
