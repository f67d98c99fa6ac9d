"""What hooks are shown, and what they answer.

Copies go in, and only declared, allowed and sound changes come out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Final, cast

from pydantic import JsonValue

from windlass.engine.answer import whole
from windlass.errors import kind_of
from windlass.hooks import POINTS
from windlass.limits import (
    ARGUMENT_BYTES_MAX,
    ARGUMENT_LEVELS_MAX,
    HOOK_CONTEXT_CHARS_MAX,
    HOOK_CONTEXT_TEXTS_MAX,
    HOOK_WORDS_CHARS_MAX,
    RESULT_LEVELS_MAX,
    TOOL_OUTPUT_CHARS_MAX,
)
from windlass.ports.host import UNCHANGED, Change, HookCall, Veto
from windlass.ports.model import LLMMessage
from windlass_protocol import CodecError, CodecLimits, HookRight, HookSpec, JsonObject, canonical, parse

_ARGUMENTS: Final = CodecLimits(message_bytes_max=ARGUMENT_BYTES_MAX, depth_max=ARGUMENT_LEVELS_MAX)
_RESULT: Final = CodecLimits(message_bytes_max=TOOL_OUTPUT_CHARS_MAX, depth_max=RESULT_LEVELS_MAX)


class BadAnswer(Exception):
    """A hook answered what it may not; nothing of it is done."""


def check_answer(spec: HookSpec, answer: object) -> Change | Veto | None:
    """Return what a hook answered, if it may.

    Raises:
        BadAnswer: it is no answer, or one that the hook has no right to.
    """
    right, point = spec.right or HookRight.OBSERVE, POINTS[spec.point]
    if answer is None:
        return None
    if isinstance(answer, Veto):
        if right is not HookRight.VETO:
            raise BadAnswer(f"it vetoed, and its right is {right.value}")
        if not isinstance(cast(object, answer.reason), str):
            raise BadAnswer(f"the reason of its veto is a text, found {kind_of(answer.reason)}")
        return Veto(whole(answer.reason[:HOOK_WORDS_CHARS_MAX]))
    if not isinstance(answer, Change):
        raise BadAnswer(f"it returned {kind_of(answer)}; a hook returns None, a Change or a Veto")
    changed = [one.name for one in fields(answer) if getattr(answer, one.name) is not UNCHANGED]
    if not changed:
        return None
    if right is not HookRight.MUTATE:
        raise BadAnswer(f"it changed {', '.join(changed)}, and its right is {right.value}")
    if changed != [point.owns]:
        raise BadAnswer(f"it changed {', '.join(changed)}; at {spec.point} only {point.owns} can be changed")
    return answer


def applied(call: HookCall, change: Change) -> tuple[HookCall, tuple[str, ...]]:
    """Return the call with a change in it, and the texts that the change adds.

    Raises:
        BadAnswer: the change is unsound, or too large.
    """
    try:
        if change.arguments is not UNCHANGED:
            return replace(call, arguments=_arguments(change.arguments)), ()
        if change.prompt is not UNCHANGED:
            return replace(call, prompt=_words(change.prompt, "prompt", HOOK_WORDS_CHARS_MAX)), ()
        if change.context is not UNCHANGED:
            return call, _context(change.context)
        return _result(call, cast(JsonValue, change.result)), ()
    except CodecError as error:
        problem = error.message
    raise BadAnswer(f"its change is not good JSON: {problem}")


def _arguments(given: object) -> dict[str, JsonValue]:
    if not isinstance(given, Mapping):
        raise BadAnswer(f"arguments are parameters by name, found {kind_of(given)}")
    plain = dict(cast(Mapping[str, JsonValue], given))
    return cast(dict[str, JsonValue], parse(canonical(plain, _ARGUMENTS), _ARGUMENTS))


def _result(call: HookCall, given: JsonValue) -> HookCall:
    if call.error is not None:
        raise BadAnswer("it changed the result of a call that has none, because it failed")
    return replace(call, result=parse(canonical(given, _RESULT), _RESULT))


def _context(given: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(given, list | tuple):
        raise BadAnswer(f"context is a list of texts, found {kind_of(given)}")
    texts = tuple(cast(Sequence[object], given))
    if len(texts) > HOOK_CONTEXT_TEXTS_MAX:
        raise BadAnswer(f"too many texts: {len(texts)}, limit {HOOK_CONTEXT_TEXTS_MAX}")
    kept = tuple(_words(text, "context", HOOK_CONTEXT_CHARS_MAX) for text in texts)
    if sum(map(len, kept)) > HOOK_CONTEXT_CHARS_MAX:
        raise BadAnswer(f"context too large: over the limit of {HOOK_CONTEXT_CHARS_MAX:,} characters")
    return kept


def _words(text: object, what: str, chars_max: int) -> str:
    if not isinstance(text, str):
        raise BadAnswer(f"{what} is text, found {kind_of(text)}")
    if len(text) > chars_max:
        raise BadAnswer(f"{what} too large: {len(text):,} characters, limit {chars_max:,}")
    return whole(text)


def copied(call: HookCall) -> HookCall:
    """Return a call of which nothing is shared that could be changed."""
    arguments = None if call.arguments is None else {key: _copy(one) for key, one in call.arguments.items()}
    return replace(
        call,
        arguments=arguments,
        result=_copy(call.result),
        value=_copy(call.value),
        messages=tuple(_message(one) for one in call.messages),
        asked=tuple(replace(one, input=_copy(one.input)) for one in call.asked),
    )


def _message(message: LLMMessage) -> LLMMessage:
    if not message.tool_calls and not message.parts and message.provider_options is None:
        return message
    calls = tuple(
        one.model_copy(update={"arguments": {key: _copy(value) for key, value in one.arguments.items()}})
        for one in message.tool_calls
    )
    parts = tuple({key: _copy(value) for key, value in part.items()} for part in message.parts)
    options = cast(JsonObject | None, _copy(message.provider_options))
    return replace(message, tool_calls=calls, parts=parts, provider_options=options)


def _copy(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value
