"""Message conversion shared by providers: caching, attachments, tool names, signed reasoning."""

import base64
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from decimal import Decimal
from functools import partial
from hashlib import sha256
from itertools import compress, count
from math import ceil, inf
from operator import is_not
from typing import Final, Generic, TypeVar, cast
from weakref import ReferenceType, ref

from windlass.agent.attachments import Address, Inline, Unreadable, read_place
from windlass.models.errors import stream_error
from windlass.ports.model import LLMMessage, ModelFault, ModelRejected, is_price
from windlass.prices import micros_of
from windlass_protocol import JsonObject, JsonValue, RetryClass
from windlass_protocol.frozen import mutable, sealed

T = TypeVar("T")


@mutable
class _CacheEntry(Generic[T]):
    """A conversation as of its last request."""

    first: ReferenceType[LLMMessage]
    rest: Sequence[LLMMessage] = ()
    """Its messages without the first, which must not be kept alive."""
    turns: list[T] = field(default_factory=list[T])
    starts: list[int] = field(default_factory=list[int])
    """For each turn, the index of its first message."""


class TurnCache(Generic[T]):
    """Cache of conversations in the format of a provider's API.

    `take` adds a message to turns: it appends one, replaces the last one, or does nothing. A conversation is
    identified by its first message, and dropped with it. Messages are compared by identity, so a step costs
    only what it adds; turns from the first changed, removed or inserted message on are built again.
    """

    def __init__(self, take: Callable[[list[T], LLMMessage], None]) -> None:
        self._take = take
        self._known: dict[int, _CacheEntry[T]] = {}

    def of(self, messages: Sequence[LLMMessage]) -> list[T]:
        """Return the turns of a conversation; do not change them."""
        if not messages:
            return []
        key, rest = id(messages[0]), messages[1:]
        # Removed first, so that a refused message leaves no incomplete entry.
        entry = self._known.pop(key, None) or _CacheEntry(ref(messages[0], partial(self._forget, key)))
        # Without a Python loop: `map` compares the history in C.
        changes = compress(count(1), map(is_not, entry.rest, rest))
        same = next(changes, 1 + min(len(entry.rest), len(rest)))
        # The last turn may still grow, so it is built again.
        same_turns = max(0, bisect_right(entry.starts, same) - 1)
        begin = entry.starts[same_turns] if entry.starts and entry.starts[same_turns] <= same else 0
        del entry.turns[same_turns:], entry.starts[same_turns:]
        for number in range(begin, len(messages)):
            self._take(entry.turns, messages[number])
            if len(entry.turns) > len(entry.starts):
                entry.starts.append(number)
        entry.rest = rest
        self._known[key] = entry
        return [*entry.turns]

    @property
    def count(self) -> int:
        """Number of cached conversations."""
        return len(self._known)

    def _forget(self, key: int, reference: "ReferenceType[LLMMessage]") -> None:
        self._known.pop(key, None)


def system_count(messages: Sequence[LLMMessage]) -> int:
    """Return the number of system messages at the start."""
    return next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))


@sealed
class Text:
    """A text part of a message."""

    text: str


@sealed
class Media:
    """An image or a file: its URL, or its bytes in base64."""

    is_image: bool
    media_type: str
    url: str | None = None
    data: str | None = None
    filename: str | None = None

    @property
    def data_url(self) -> str:
        """The bytes as a data URL."""
        return f"data:{self.media_type};base64,{self.data}"


Limit = Callable[[Media], str | None]
"""Returns why an API refuses an image or a file; None if it accepts it."""


def takes_all(_: Media) -> None:
    """Return None: the API accepts everything."""


def contents(message: LLMMessage, limit: Limit = takes_all) -> Iterator[Text | Media]:
    """Yield the parts of a message in order, without empty texts.

    A part that cannot be sent is replaced by a text that says so: it stays in the session, and must not make
    every later request fail.
    """
    if not message.parts:
        if message.content:
            yield Text(message.content)
        return
    for part in message.parts:
        content = _read(part, limit)
        if isinstance(content, Unreadable):
            yield Text(f"[{_describe_part(part)} left out: {content.problem}]")
        elif content != Text(""):
            yield content


def check_newest(messages: Sequence[LLMMessage], limit: Limit = takes_all) -> None:
    """Refuse new messages with a part that cannot be sent.

    Raises:
        Rejected: a part has neither bytes nor a URL that the provider could read.
    """
    if not messages or messages[-1].role != "user":
        return
    for part in messages[-1].parts:
        content = _read(part, limit)
        if isinstance(content, Unreadable):
            raise ModelRejected(
                f"a part of a message cannot be sent to the model: {content.problem}",
                fault=ModelFault.INVALID_REQUEST,
                retry=RetryClass.NOT_RETRYABLE,
            )


def _read(part: JsonObject, limit: Limit) -> Text | Media | Unreadable:
    if part.get("type") == "text":
        return Text(str(part.get("text") or ""))
    content = _media(part)
    problem = limit(content) if isinstance(content, Media) else None
    return content if problem is None else Unreadable(problem)


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


def _describe_part(part: JsonObject) -> str:
    kind = "image" if part.get("type") == "image" else "file"
    return f"{kind} {part['filename']}" if part.get("filename") else kind


def _as_words(text: str, filename: str | None) -> str:
    """Return a text file as text, which every model can read."""
    return f"File {filename}:\n{text}" if filename else text


NAME_CHARS_MAX: Final = 64
CALL_ID_CHARS_MAX: Final = 40
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_CHARS: Final = 8


def wire_name(name: str) -> str:
    """Return the name of a tool as every API allows it; equal names stay equal."""
    return _plain(name, NAME_CHARS_MAX)


def wire_call_id(call_id: str) -> str:
    """Return the id of a call as every API allows it; equal ids stay equal."""
    return _plain(call_id, CALL_ID_CHARS_MAX)


def _plain(text: str, chars_max: int) -> str:
    plain = _FOREIGN.sub("_", text)
    if plain == text and 0 < len(text) <= chars_max:
        return text
    # Names that differ only in replaced or cut characters must stay different.
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{plain[: chars_max - _DIGEST_CHARS - 1]}_{digest}"


def names_back(tools: Iterable[JsonObject]) -> dict[str, str]:
    """Return the names of tools by their wire names, where they differ."""
    names = (str(tool["name"]) for tool in tools)
    return {wire_name(name): name for name in names if wire_name(name) != name}


NO_ARGUMENTS: Final[JsonObject] = {"type": "object", "properties": {}}
"""The schema of a tool without arguments."""
SILENCE: Final = "(nothing)"
"""Replaces an empty message, which some APIs refuse."""


def make_provider_data(name: str, model_id: str, blocks: list[JsonValue], *, text: str = "") -> JsonObject:
    """Return data that a provider needs back with an answer and its reasoning, as it is recorded."""
    return {name: {"model": model_id, "blocks": blocks, "digest": _digest(text, blocks)}}


def data_of(message: LLMMessage, name: str, model_id: str, *, text: str = "") -> list[JsonValue]:
    """Return the data of `make_provider_data`; empty if another model wrote the message or it was changed."""
    data = (message.provider_options or {}).get(name)
    if not isinstance(data, dict) or data.get("model") != model_id:
        return []
    blocks = data.get("blocks")
    return blocks if isinstance(blocks, list) and data.get("digest") == _digest(text, blocks) else []


def _digest(text: str, blocks: list[JsonValue]) -> str:
    content = json.dumps([text, blocks], sort_keys=True)
    return f"sha256:{sha256(content.encode()).hexdigest()}"


THINKING: Final = "thinking"
REDACTED: Final = "redacted_thinking"


class Thoughts:
    """The thinking blocks of one answer while it is read."""

    __slots__ = ("_blocks", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._blocks: dict[int, JsonObject] = {}

    def begin(self, index: int, block: JsonObject) -> None:
        """Take the start of a block of any kind."""
        if block.get("type") in (THINKING, REDACTED):
            self._blocks.setdefault(index, dict(block))

    def add(self, index: int, name: str, *, piece: str) -> None:
        """Append to a field of a block."""
        block = self._blocks.get(index)
        if block is not None:
            block[name] = f"{block.get(name) or ''}{piece}"

    def data(self, model_id: str) -> JsonObject | None:
        """Return the blocks to record; None if the API needs none of them back."""
        thoughts = [block for _, block in sorted(self._blocks.items())]
        if not any(block.get("signature") or block.get("data") for block in thoughts):
            return None
        text = "".join(str(block.get(THINKING) or "") for block in thoughts)
        blocks: list[JsonValue] = [
            {"data": block.get("data")}
            if block["type"] == REDACTED
            else {"chars": len(str(block.get(THINKING) or "")), "signature": block.get("signature")}
            for block in thoughts
        ]
        return make_provider_data(self._name, model_id, blocks, text=text)


def thoughts_of(message: LLMMessage, name: str, model_id: str) -> list[JsonObject]:
    """Return the thinking blocks of a message; empty if another model wrote it or it was changed."""
    text, thoughts, at = message.reasoning or "", list[JsonObject](), 0
    for block in cast(list[JsonObject], data_of(message, name, model_id, text=text)):
        if "data" in block:
            thoughts.append({"type": REDACTED, "data": block["data"]})
            continue
        end = at + cast(int, block["chars"])
        thoughts.append({"type": THINKING, THINKING: text[at:end], "signature": block["signature"]})
        at = end
    return thoughts


def may_think(messages: Sequence[LLMMessage], name: str, model_id: str) -> bool:
    """Whether thinking may be enabled for a request to a model of Anthropic.

    Between a call and its result the API requires the signed thoughts that led to the first call since the
    last user message. Without them the model continues without thinking.
    """
    if not messages or messages[-1].role != "tool":
        return True
    since = next((at for at in reversed(range(len(messages))) if messages[at].role == "user"), -1)
    first = next((message for message in messages[since + 1 :] if message.role == "assistant"), None)
    return first is not None and bool(thoughts_of(first, name, model_id))


_TICKS: Final = Decimal(10) ** 10
"""Parts of a dollar that xAI counts in."""


def own_cost_micros(usage: JsonObject) -> int | None:
    """Return what a server says that an answer cost: OpenRouter, LiteLLM, DeepInfra, Perplexity and xAI do.

    For a customer with a key of their own, OpenRouter counts its fee, and apart what the provider takes.
    """
    ticks = _amount(usage.get("cost_in_usd_ticks"))
    if ticks is not None:
        return micros_of(ticks / _TICKS)
    cost = usage.get("cost", usage.get("estimated_cost"))
    dollars = _amount(cost.get("total_cost") if isinstance(cost, dict) else cost)
    details = usage.get("cost_details")
    if dollars is not None and usage.get("is_byok") is True and isinstance(details, dict):
        dollars += _amount(details.get("upstream_inference_cost")) or 0
    return None if dollars is None else micros_of(dollars)


def _amount(value: JsonValue) -> Decimal | None:
    return Decimal(str(value)) if is_price(value) else None


def count_of(counts: JsonValue, name: str) -> int | None:
    """Return a number of tokens; None if the provider did not report it."""
    value = cast(JsonObject, counts).get(name) if isinstance(counts, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < inf:
        return None
    return ceil(value)


def object_of(value: JsonValue) -> JsonObject:
    """Return a part of an event, which must be an object."""
    if not isinstance(value, dict):
        raise stream_error("a part of an event is not an object")
    return cast(JsonObject, value)


def text_of(delta: JsonObject, name: str) -> str:
    """Return a field of an event, which must be a text."""
    value = delta.get(name)
    if not isinstance(value, str):
        raise stream_error("a text delta is not a string")
    return value
