"""Events of the Messages API, read as pieces of an answer."""

from collections.abc import Iterator, Mapping
from typing import cast

from windlass.adapters.models.anthropic_thoughts import THINKING, Thoughts
from windlass.adapters.models.faults import malformed
from windlass.ports.model import LLMStreamChunk, LLMUsage, ToolCallDelta
from windlass_protocol import JsonObject, JsonValue


class AnthropicReader:
    """Reads one stream; `is_finished` once the server said that it is complete."""

    __slots__ = (
        "_calls",
        "_has_begun",
        "_model_id",
        "_names",
        "_open",
        "_reason",
        "_seen",
        "_thoughts",
        "_usage",
        "is_finished",
    )

    def __init__(self, names: Mapping[str, str], model_id: str) -> None:
        self._names = names
        self._model_id = model_id
        self._thoughts = Thoughts()
        self._has_begun = False
        self._open: dict[int, str] = {}
        """The kind of each block that is being written."""
        self._seen: set[int] = set()
        self._calls: dict[int, int] = {}
        """Our index of the call in a block."""
        self._reason: str | None = None
        self._usage: JsonObject = {}
        self.is_finished = False

    def take(self, event: JsonObject) -> Iterator[LLMStreamChunk]:
        """Give what an event says; events of kinds that are not known say nothing.

        Raises:
            Unavailable: it is not what the format allows.
        """
        match event.get("type"):
            case "content_block_delta":
                yield from self._delta(_index(event), _object(event.get("delta")))
            case "content_block_start":
                yield from self._start(_index(event), _object(event.get("content_block")))
            case "content_block_stop":
                if self._open.pop(_index(event), None) is None:
                    raise malformed("a block ends that had not begun")
            case "message_start":
                if self._has_begun:
                    raise malformed("the answer begins twice")
                self._has_begun = True
                self._count(_object(event.get("message")).get("usage"))
            case "message_delta":
                self._count(event.get("usage"))
                reason = _object(event.get("delta")).get("stop_reason")
                self._reason = reason if isinstance(reason, str) and reason else self._reason
            case "message_stop":
                yield self._end()
            case _:
                pass

    def _start(self, index: int, block: JsonObject) -> Iterator[LLMStreamChunk]:
        if index in self._seen or not self._has_begun:
            raise malformed("a block begins twice, or before the answer")
        kind = str(block.get("type"))
        self._seen.add(index)
        self._open[index] = kind
        self._thoughts.begin(index, block)
        if kind == "text" and block.get("text"):
            yield LLMStreamChunk(content_delta=str(block["text"]))
        elif kind == "thinking" and block.get("thinking"):
            yield LLMStreamChunk(reasoning_delta=str(block["thinking"]))
        elif kind == "tool_use":
            call = self._calls[index] = len(self._calls)
            name = str(block.get("name") or "")
            yield LLMStreamChunk(
                tool_call_delta=ToolCallDelta(
                    call, id=str(block.get("id") or "") or None, name=self._names.get(name, name)
                )
            )

    def _delta(self, index: int, delta: JsonObject) -> Iterator[LLMStreamChunk]:
        if index not in self._open:
            raise malformed("a block goes on that is not open")
        match delta.get("type"):
            case "text_delta":
                yield LLMStreamChunk(content_delta=_piece(delta, "text"))
            case "thinking_delta":
                piece = _piece(delta, THINKING)
                self._thoughts.add(index, THINKING, piece=piece)
                yield LLMStreamChunk(reasoning_delta=piece)
            case "signature_delta":
                self._thoughts.add(index, "signature", piece=_piece(delta, "signature"))
            case "input_json_delta" if index in self._calls:
                piece = _piece(delta, "partial_json")
                if piece:
                    yield LLMStreamChunk(
                        tool_call_delta=ToolCallDelta(self._calls[index], arguments_delta=piece)
                    )
            case _:
                pass

    def _end(self) -> LLMStreamChunk:
        if self._reason is None or self._open:
            raise malformed("the answer ends before its blocks do, or without a reason")
        self.is_finished = True
        return LLMStreamChunk(
            finish_reason=self._reason,
            usage=_usage(self._usage),
            provider_data=self._thoughts.data(self._model_id),
        )

    def _count(self, usage: JsonValue) -> None:
        if isinstance(usage, dict):
            self._usage.update({name: count for name, count in usage.items() if count is not None})


def _usage(usage: JsonObject) -> LLMUsage:
    fresh = _number(usage.get("input_tokens"))
    read = _number(usage.get("cache_read_input_tokens"))
    written = _number(usage.get("cache_creation_input_tokens"))
    details = usage.get("output_tokens_details")
    return LLMUsage(
        # The API counts what it read from or wrote to its cache apart; here the whole prompt is the input.
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=_number(usage.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=_number(details.get("thinking_tokens")) if isinstance(details, dict) else None,
    )


def _number(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _index(event: JsonObject) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise malformed("a block has no index")
    return index


def _object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise malformed("a part of an event is no object")
    return cast(JsonObject, value)


def _piece(delta: JsonObject, name: str) -> str:
    value = delta.get(name)
    if not isinstance(value, str):
        raise malformed("a piece of text is no text")
    return value
