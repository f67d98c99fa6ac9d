"""Tool calls for models without tool support: one JSON step per answer."""

import json
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from copy import copy
from operator import attrgetter
from typing import Final, Protocol, cast, runtime_checkable

from pydantic_core import to_json

from windlass.limits import ARGUMENT_VALUES_MAX, MODEL_TEXT_CHARS_MAX
from windlass.models.errors import stream_error, truncation_error
from windlass.models.messages import TurnCache, system_count
from windlass.ports.model import (
    LimitedProvider,
    LLMMessage,
    LLMProvider,
    LLMStreamChunk,
    LLMUsage,
    ModelPrice,
    prices_of,
)
from windlass_protocol import FinishReason, JsonObject, JsonValue, ToolCall
from windlass_protocol.codec_scan import count_values

FINAL: Final = "final"
TOOL: Final = "tool"
ARGUMENTS: Final = "args"
_NO_ARGUMENTS: Final[JsonObject] = {"type": "object", "properties": {}}
_WORDS: Final = (
    "You work step by step. Each of your answers is one JSON object and nothing else: no prose, no fence.\n"
    'To use a tool, answer {"tool": name, "args": arguments}; you are told its result, and go on.\n'
    'When you need no tool, or have every result you need, answer {"final": your words to the user}.\n'
    "The tools, with the JSON Schema of their arguments:\n"
)


def step_schema(tools: Sequence[JsonObject]) -> JsonObject:
    """Return the schema of one step: a tool call, or the final answer."""
    shapes: list[JsonValue] = []
    definitions: JsonObject = {}
    for at, tool in enumerate(tools):
        schema = cast(JsonObject, tool.get("inputSchema") or _NO_ARGUMENTS)
        prefix = f"tool{at}_"
        inner = {name: value for name, value in schema.items() if name != "$defs"}
        for name, value in cast(JsonObject, schema.get("$defs") or {}).items():
            definitions[prefix + name] = _move_references(value, prefix)
        shapes.append(_object({TOOL: {"const": tool["name"]}, ARGUMENTS: _move_references(inner, prefix)}))
    shapes.append(_object({FINAL: {"type": "string"}}))
    return {"anyOf": shapes, **({"$defs": definitions} if definitions else {})}


def _object(properties: JsonObject) -> JsonObject:
    required: list[JsonValue] = [*properties]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _move_references(schema: JsonValue, prefix: str) -> JsonValue:
    """Return a schema with its references adapted to a new place."""
    if isinstance(schema, list):
        return [_move_references(item, prefix) for item in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {name: _move_references(value, prefix) for name, value in schema.items()}
    ref = moved.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/$defs/"):
        moved["$ref"] = f"#/$defs/{prefix}{ref.removeprefix('#/$defs/')}"
    return moved


def write_prompt(
    messages: Sequence[LLMMessage], tools: Sequence[JsonObject], *, turns: TurnCache[LLMMessage]
) -> list[LLMMessage]:
    """Return the messages with tool calls and results written as text."""
    first = system_count(messages)
    system = [message.content for message in messages[:first] if message.content]
    system_text = "\n\n".join([*system, _WORDS + "\n".join(_tool(tool) for tool in tools)])
    return [LLMMessage("system", system_text), *turns.of(messages[first:])]


def _tool(tool: JsonObject) -> str:
    described = f": {tool['description']}" if tool.get("description") else ""
    return f"- {tool['name']}{described}\n  {_json(tool.get('inputSchema') or _NO_ARGUMENTS)}"


def _plain(message: LLMMessage) -> LLMMessage:
    match message.role:
        case "assistant":
            steps = [_step(call) for call in message.tool_calls] or [_json({FINAL: message.content})]
            return LLMMessage("assistant", "\n".join(steps))
        case "tool":
            verb = "failed" if message.is_error else "returned"
            return LLMMessage("user", f"Tool {message.name or 'unknown'} {verb}: {message.content}")
        case _:
            return message


def _step(call: ToolCall) -> str:
    return _json({TOOL: call.name, ARGUMENTS: call.arguments})


def take_words(turns: list[LLMMessage], message: LLMMessage) -> None:
    """Add a text message; consecutive messages of one role are joined, which small models need."""
    plain, last = _plain(message), turns[-1] if turns else None
    if last is not None and last.role == plain.role and not last.parts and not plain.parts:
        turns[-1] = LLMMessage(plain.role, f"{last.content}\n\n{plain.content}")
    else:
        turns.append(plain)


def _json(value: JsonValue) -> str:
    return to_json(value).decode()


_FENCE: Final = "```"
_FINAL_BEGINS: Final = re.compile(r'(?:```(?:json)?\s*)?\{\s*"final"\s*:\s*"')
BEGINNING_CHARS_MAX: Final = 200
"""Characters before the words of a final answer; an answer with more is shown at its end."""
_ESCAPE: Final = re.compile(r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])')
_CALLS: Final = attrgetter("tool_calls")
_FIRST_HALF: Final = re.compile(r"\\u[dD][89abAB]..")


@runtime_checkable
class StructuredProvider(Protocol):
    """A provider with structured output."""

    def with_output(self, schema: JsonObject) -> LLMProvider:
        """Return the same model with answers that fit the schema."""
        ...


class PromptedTools:
    """Adds tool calls to a model without tool support.

    The prompt describes the tools, and each answer is one JSON object: a tool call, or the final answer,
    which is streamed. A provider with `with_output` enforces the schema of a step; for any other the prompt
    asks for it. An answer that does not fit is an error, and the loop asks again.
    """

    def __init__(self, provider: LLMProvider) -> None:
        self._provider = provider
        self._turns = TurnCache(take_words)
        self.route_id = str(getattr(provider, "route_id", None) or "prompted")
        self.model_id = str(getattr(provider, "model_id", None) or type(provider).__name__)

    @property
    def prices(self) -> ModelPrice | str | None:
        """The prices of the provider."""
        return prices_of(self._provider)

    @property
    def answer_tokens(self) -> int | None:
        """Tokens of the longest answer; None if the server decides."""
        provider = self._provider
        return provider.answer_tokens if isinstance(provider, LimitedProvider) else None

    @property
    def answer_tokens_min(self) -> int:
        """Tokens of the shortest answer that the model can be held to."""
        provider = self._provider
        return provider.answer_tokens_min if isinstance(provider, LimitedProvider) else 1

    def with_answer_tokens(self, tokens: int) -> "PromptedTools":
        """Return the same model with answers of at most so many tokens, if its provider can do that."""
        provider = self._provider
        if not isinstance(provider, LimitedProvider):
            return self
        model = copy(self)
        model._provider = provider.with_answer_tokens(tokens)
        return model

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
        definitions = tuple(tools or ())
        if not definitions:
            async with aclosing(_generator(self._provider, messages, temperature)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        provider = self._provider
        if isinstance(provider, StructuredProvider):
            provider = provider.with_output(step_schema(definitions))
        step = _Step()
        plain_messages = write_prompt(messages, definitions, turns=self._turns)
        async with aclosing(_generator(provider, plain_messages, temperature)) as chunks:
            async for chunk in chunks:
                part = step.take(chunk)
                if part is not None:
                    yield part
        calls = sum(map(len, map(_CALLS, messages)))
        for chunk in step.end({str(tool["name"]) for tool in definitions}, call_id=f"step-{calls + 1}"):
            yield chunk

    async def aclose(self) -> None:
        """Close the connections of the provider."""
        close = getattr(self._provider, "aclose", None)
        if close is not None:
            await close()


async def _generator(
    provider: LLMProvider, messages: Sequence[LLMMessage], temperature: float | None
) -> AsyncGenerator[LLMStreamChunk]:
    """Yield the chunks of a provider; closing this closes the provider's stream too."""
    stream = provider.stream(messages, temperature=temperature)
    try:
        async for chunk in stream:
            yield chunk
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


class _Step:
    """One answer while it is streamed."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0
        self._begun: bool | None = False
        """Whether the words of a final answer have begun; None if there are no more."""
        self._rest = ""
        """What was not shown of the end of the text."""
        self._shown = 0
        self._usage: LLMUsage | None = None
        self._finish: FinishReason | str | None = None

    def take(self, chunk: LLMStreamChunk) -> LLMStreamChunk | None:
        """Take a chunk of the model; return the part of the final answer in it.

        Raises:
            Unavailable: the answer is too large.
        """
        self._usage = chunk.usage or self._usage
        self._finish = chunk.finish_reason or self._finish
        if chunk.content_delta:
            self._pieces.append(chunk.content_delta)
            self._size += len(chunk.content_delta)
            if self._size > MODEL_TEXT_CHARS_MAX:
                raise stream_error(f"the step is too large: limit {MODEL_TEXT_CHARS_MAX:,} characters")
        answer_part = self._words(chunk.content_delta) if chunk.content_delta else ""
        if not answer_part and not chunk.reasoning_delta:
            return None
        return LLMStreamChunk(content_delta=answer_part or None, reasoning_delta=chunk.reasoning_delta)

    def end(self, names: set[str], *, call_id: str) -> Iterable[LLMStreamChunk]:
        """Return the rest of the answer.

        Raises:
            Unavailable: it is not a valid step.
        """
        if self._finish is None:
            raise truncation_error()
        step = self._parse_step()
        answer = step.get(FINAL)
        if isinstance(answer, str) and step.keys() == {FINAL}:
            rest = answer[self._shown :]
            return [
                *([LLMStreamChunk(content_delta=rest)] if rest else []),
                LLMStreamChunk(finish_reason=FinishReason.STOP, usage=self._usage),
            ]
        name, arguments = step.get(TOOL), step.get(ARGUMENTS)
        if name not in names or not isinstance(arguments, dict) or step.keys() != {TOOL, ARGUMENTS}:
            raise stream_error("the step has neither a known tool nor a final answer")
        call = ToolCall(id=call_id, name=str(name), arguments=arguments)
        finish = LLMStreamChunk(finish_reason=FinishReason.TOOL_CALLS, usage=self._usage)
        return [LLMStreamChunk(tool_call_delta=call), finish]

    def _parse_step(self) -> JsonObject:
        text = "".join(self._pieces).strip()
        if text.startswith(_FENCE) and text.endswith(_FENCE) and len(text) >= 2 * len(_FENCE):
            text = text[len(_FENCE) : -len(_FENCE)].removeprefix("json")
        if count_values(text.encode("utf-8", "replace"), ARGUMENT_VALUES_MAX) > ARGUMENT_VALUES_MAX:
            raise stream_error(f"the step has too many values: limit {ARGUMENT_VALUES_MAX:,}")
        step: object = None
        try:
            step = json.loads(text)
        except (ValueError, RecursionError):
            step = None
        if not isinstance(step, dict):
            raise stream_error("the step is not a JSON object")
        return cast(JsonObject, step)

    def _words(self, piece: str) -> str:
        """Return the new part of the final answer, as far as it can be decoded."""
        if self._begun is None:
            return ""
        self._rest += piece
        if not self._begun:
            self._rest = self._rest.lstrip()
            begins = _FINAL_BEGINS.match(self._rest)
            if begins is None:
                self._begun = None if len(self._rest) > BEGINNING_CHARS_MAX else False
                return ""
            self._begun, self._rest = True, self._rest[begins.end() :]
        text, at = self._rest, 0
        while at < len(text) and text[at] != '"':
            if text[at] != "\\":
                at += 1
                continue
            escape = _ESCAPE.match(text, at)
            if escape is None or _is_half(escape[0], text, escape.end()):
                break
            at = escape.end()
        self._begun, self._rest = None if text.startswith('"', at) else True, text[at:]
        part = _unescape(text[:at])
        self._shown += len(part)
        return part


def _is_half(escape: str, text: str, end: int) -> bool:
    """Whether an escape is the first half of a surrogate pair without the second."""
    return _FIRST_HALF.fullmatch(escape) is not None and _ESCAPE.match(text, end) is None


def _unescape(text: str) -> str:
    return cast(str, json.loads(f'"{text}"', strict=False)) if "\\" in text else text
