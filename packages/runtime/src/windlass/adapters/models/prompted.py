"""Tools for models that have none: each answer is one step, as JSON."""

import json
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from operator import attrgetter
from typing import Final, Protocol, cast, runtime_checkable

from windlass.adapters.models.faults import cut_off, malformed
from windlass.adapters.models.prompted_words import ARGUMENTS, FINAL, TOOL, prompted, step_schema, take_words
from windlass.adapters.models.turns import Turns
from windlass.ports.model import LLMMessage, LLMProvider, LLMStreamChunk, LLMUsage
from windlass_protocol import FinishReason, JsonObject, ToolCall

_FINAL_BEGINS: Final = re.compile(r'\s*(?:```(?:json)?\s*)?\{\s*"final"\s*:\s*"').match
_FENCED: Final = re.compile(r"\s*```(?:json)?\s*(.*?)\s*```\s*", re.DOTALL).fullmatch
_ESCAPE: Final = re.compile(r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])').match
_CALLS: Final = attrgetter("tool_calls")
_FIRST_HALF: Final = re.compile(r"\\u[dD][89abAB]..").fullmatch


@runtime_checkable
class StructuredProvider(Protocol):
    """A provider that can be held to a schema."""

    def with_output(self, schema: JsonObject) -> LLMProvider:
        """Return the same model, whose answers fit the schema."""
        ...


class PromptedTools:
    """Makes a model use tools that has no tools of its own.

    The tools are told in words, and each answer is one JSON object: the call of one tool, or the final words,
    which are shown while they are written. A provider with `with_output` is held to the schema of a step;
    any other is only asked to keep to it. An answer that does not is an error, and the loop asks again.
    """

    def __init__(self, provider: LLMProvider) -> None:
        self._provider = provider
        self._turns = Turns(take_words)
        self.route_id = str(getattr(provider, "route_id", None) or "prompted")
        self.model_id = str(getattr(provider, "model_id", None) or type(provider).__name__)

    def __repr__(self) -> str:
        return f"PromptedTools({self._provider!r})"

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[LLMStreamChunk]:
        """Answer the messages; see `LLMProvider`."""
        known = tuple(tools or ())
        if not known:
            async with aclosing(_generator(self._provider, messages, temperature)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        provider = self._provider
        if isinstance(provider, StructuredProvider):
            provider = provider.with_output(step_schema(known))
        step = _Step()
        told = prompted(messages, known, turns=self._turns)
        async with aclosing(_generator(provider, told, temperature)) as chunks:
            async for chunk in chunks:
                shown = step.take(chunk)
                if shown is not None:
                    yield shown
        calls = sum(map(len, map(_CALLS, messages)))
        for chunk in step.end({str(tool["name"]) for tool in known}, call_id=f"step-{calls + 1}"):
            yield chunk

    async def aclose(self) -> None:
        """Close what the provider holds open."""
        close = getattr(self._provider, "aclose", None)
        if close is not None:
            await close()


async def _generator(
    provider: LLMProvider, messages: Sequence[LLMMessage], temperature: float | None
) -> AsyncGenerator[LLMStreamChunk]:
    """Give what a provider says; closing this closes the provider's stream too."""
    stream = provider.stream(messages, temperature=temperature)
    try:
        async for chunk in stream:
            yield chunk
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


class _Step:
    """One answer while it is written."""

    def __init__(self) -> None:
        self._text = ""
        self._at = -1
        """Up to where the final words were shown; -1 before they begin."""
        self._shown = 0
        self._usage: LLMUsage | None = None
        self._finish: FinishReason | str | None = None

    def take(self, chunk: LLMStreamChunk) -> LLMStreamChunk | None:
        """Take a chunk of the model; return what can be shown of it."""
        self._usage = chunk.usage or self._usage
        self._finish = chunk.finish_reason or self._finish
        if chunk.content_delta:
            self._text += chunk.content_delta
        words = self._words() if chunk.content_delta else ""
        if not words and not chunk.reasoning_delta:
            return None
        return LLMStreamChunk(content_delta=words or None, reasoning_delta=chunk.reasoning_delta)

    def end(self, names: set[str], *, call_id: str) -> Iterable[LLMStreamChunk]:
        """Return the rest of the answer.

        Raises:
            Unavailable: it is no step.
        """
        if self._finish is None:
            raise cut_off()
        step = self._parsed()
        words = step.get(FINAL)
        if isinstance(words, str) and step.keys() == {FINAL}:
            rest = words[self._shown :]
            return [
                *([LLMStreamChunk(content_delta=rest)] if rest else []),
                LLMStreamChunk(finish_reason=FinishReason.STOP, usage=self._usage),
            ]
        name, arguments = step.get(TOOL), step.get(ARGUMENTS)
        if name not in names or not isinstance(arguments, dict) or step.keys() != {TOOL, ARGUMENTS}:
            raise malformed("the step calls no tool that there is, and has no final words")
        call = ToolCall(id=call_id, name=str(name), arguments=arguments)
        finish = LLMStreamChunk(finish_reason=FinishReason.TOOL_CALLS, usage=self._usage)
        return [LLMStreamChunk(tool_call_delta=call), finish]

    def _parsed(self) -> JsonObject:
        fenced = _FENCED(self._text)
        step: object = None
        try:
            step = json.loads(fenced[1] if fenced else self._text)
        except ValueError:
            step = None
        if not isinstance(step, dict):
            raise malformed("the step is no JSON object")
        return cast(JsonObject, step)

    def _words(self) -> str:
        """Return what was added to the final words, as far as it can be read yet."""
        if self._at < 0:
            begins = _FINAL_BEGINS(self._text)
            if begins is None:
                return ""
            self._at = begins.end()
        start, at = self._at, self._at
        while at < len(self._text) and self._text[at] != '"':
            if self._text[at] != "\\":
                at += 1
                continue
            escape = _ESCAPE(self._text, at)
            if escape is None or _is_half(escape[0], self._text, escape.end()):
                break
            at = escape.end()
        self._at = at
        words = _unescaped(self._text[start:at])
        self._shown += len(words)
        return words


def _is_half(escape: str, text: str, end: int) -> bool:
    """Whether an escape is half a character, and the other half is not there yet."""
    return _FIRST_HALF(escape) is not None and _ESCAPE(text, end) is None


def _unescaped(text: str) -> str:
    return cast(str, json.loads(f'"{text}"', strict=False)) if "\\" in text else text
