"""Chunks of Chat Completions, read as pieces of an answer."""

from collections.abc import Iterator, Mapping
from typing import Final, cast

from windlass.adapters.models.faults import malformed
from windlass.ports.model import LLMStreamChunk, LLMUsage, ToolCallDelta
from windlass_protocol import JsonObject, JsonValue

_REASONING: Final = ("reasoning_content", "reasoning")
"""Where servers put what a model thinks aloud; OpenAI's own tells nothing."""


class OpenAIReader:
    """Reads one stream; `is_finished` once the server said why it stopped."""

    __slots__ = ("_calls", "_ids", "_is_refusal", "_names", "is_finished")

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._ids: list[str] = []
        """The id of each call so far, by our own index."""
        self._calls: dict[int, int] = {}
        """Our index of the call that the server's index stands for now."""
        self._is_refusal = False
        self.is_finished = False

    def take(self, event: JsonObject) -> Iterator[LLMStreamChunk]:
        """Give what an event says.

        Raises:
            Unavailable: it is not what the format allows.
        """
        usage = event.get("usage")
        if isinstance(usage, dict):
            yield LLMStreamChunk(usage=_usage(usage))
        choices = event.get("choices")
        if not isinstance(choices, list):
            raise malformed("an event has no choices")
        for choice in choices:
            if not isinstance(choice, dict):
                raise malformed("a choice is no object")
            # Some servers send null in place of an object that is empty.
            yield from self._delta(choice.get("delta") or {})
            reason = choice.get("finish_reason")
            if isinstance(reason, str) and reason:
                self.is_finished = True
                yield LLMStreamChunk(finish_reason="refusal" if self._is_refusal else reason)

    def _delta(self, delta: JsonValue) -> Iterator[LLMStreamChunk]:
        if not isinstance(delta, dict):
            raise malformed("a delta is no object")
        for name in _REASONING:
            if delta.get(name):
                yield LLMStreamChunk(reasoning_delta=self._text(delta[name]))
                break
        if delta.get("content"):
            yield LLMStreamChunk(content_delta=self._text(delta["content"]))
        if delta.get("refusal"):
            self._is_refusal = True
            yield LLMStreamChunk(content_delta=self._text(delta["refusal"]))
        calls = delta.get("tool_calls")
        if calls:
            if not isinstance(calls, list):
                raise malformed("tool calls are no list")
            for call in calls:
                yield LLMStreamChunk(tool_call_delta=self._call(call))

    def _text(self, value: JsonValue) -> str:
        if not isinstance(value, str):
            raise malformed("a piece of text is no text")
        if self.is_finished:
            raise malformed("the answer goes on after its end")
        return value

    def _call(self, call: JsonValue) -> ToolCallDelta:
        if not isinstance(call, dict) or self.is_finished:
            raise malformed("a tool call is no object, or comes after the end")
        function = call.get("function") or {}
        if not isinstance(function, dict):
            raise malformed("the function of a call is no object")
        call_id, name = call.get("id"), function.get("name")
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            raise malformed("the arguments of a call are no text")
        index = self._index(call.get("index"), call_id if isinstance(call_id, str) else "")
        return ToolCallDelta(
            index,
            id=self._ids[index] or None,
            name=self._names.get(name, name) if isinstance(name, str) and name else None,
            arguments_delta=arguments if isinstance(arguments, str) else "",
        )

    def _index(self, theirs: JsonValue, call_id: str) -> int:
        """Return our index of a call.

        Theirs is not enough: there are servers that leave it out, or give every call the same one.
        """
        place = theirs if isinstance(theirs, int) else max(self._calls, default=0)
        ours = self._calls.get(place)
        if ours is None or (call_id and self._ids[ours] and call_id != self._ids[ours]):
            self._ids.append(call_id)
            ours = self._calls[place] = len(self._ids) - 1
        elif call_id:
            self._ids[ours] = call_id
        return ours


def _usage(usage: JsonObject) -> LLMUsage:
    read = _count(usage.get("prompt_tokens_details"), "cached_tokens")
    return LLMUsage(
        input_tokens=_count(usage, "prompt_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
        cache_read_tokens=read if read is not None else _count(usage, "prompt_cache_hit_tokens"),
        cache_write_tokens=_count(usage.get("prompt_tokens_details"), "cache_write_tokens"),
        reasoning_tokens=_count(usage.get("completion_tokens_details"), "reasoning_tokens"),
    )


def _count(counts: JsonValue, name: str) -> int | None:
    value = cast(JsonObject, counts).get(name) if isinstance(counts, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
