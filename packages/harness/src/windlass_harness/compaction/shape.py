"""What a compaction does to a history, and where a history may be cut.

The same functions serve the planner and the fold of the journal, so that a history rebuilt from records is
the one that the model saw.
"""

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Final

from pydantic_core import to_json

from windlass_harness.compaction.tokens import estimate_tokens
from windlass_harness.origin import Origin, mark, origin_of
from windlass_protocol import (
    ApprovalRequestPart,
    ApprovalResponsePart,
    AssistantMessage,
    ModelMessage,
    SystemMessage,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolOutputType,
    ToolResultPart,
    UserMessage,
)

SUMMARY_HEAD: Final = (
    "Summary of the work so far. What comes after it is the user's own words and the newest part of the "
    "conversation. Go on from here; do not start over.\n\n"
)
_REPLACED: Final = {Origin.SUMMARY, Origin.PINNED}


def compact(
    history: Sequence[ModelMessage],
    *,
    summary: str | None,
    kept_from: int = 0,
    pinned: Sequence[ModelMessage] = (),
    trimmed_call_ids: Set[str] = frozenset(),
    result_chars_max: int = 0,
) -> tuple[ModelMessage, ...]:
    """Return the history after a compaction.

    Without a summary, the results of the named calls before `kept_from` are shortened, or all of them if it
    is 0. An id alone is not enough: a model may use one again, and the newer result is to stay whole.

    With a summary, everything before `kept_from` but the system messages gives way to the summary and the
    pinned messages, and of what is kept the results of the named calls are shortened. Summaries and pinned
    messages of earlier compactions go, wherever they are, so that there is never more than one of each.
    """
    if summary is None:
        end = kept_from or len(history)
        return (*trim(history[:end], trimmed_call_ids, result_chars_max=result_chars_max), *history[end:])
    kept = trim(history[kept_from:], trimmed_call_ids, result_chars_max=result_chars_max)
    return (
        *lasting(history[:kept_from]),
        summary_message(summary),
        *pinned,
        *(message for message in kept if not is_replaced(message)),
    )


def lasting(messages: Sequence[ModelMessage]) -> tuple[SystemMessage, ...]:
    """Return the messages that no summary may take the place of: rules, not events."""
    return tuple(
        message for message in messages if isinstance(message, SystemMessage) and not is_replaced(message)
    )


def is_replaced(message: ModelMessage) -> bool:
    """Say whether the next summary takes the place of a message, wherever it is."""
    return origin_of(message) in _REPLACED


def summary_message(summary: str) -> UserMessage:
    """Return the message that stands for everything before it."""
    return mark(UserMessage(content=SUMMARY_HEAD + summary), Origin.SUMMARY)


def summary_of(message: ModelMessage) -> str | None:
    """Return the whole text of a summary message; None if it is not one."""
    if origin_of(message) is not Origin.SUMMARY or not isinstance(message.content, str):
        return None
    return message.content.removeprefix(SUMMARY_HEAD)


def trim(
    messages: Sequence[ModelMessage], call_ids: Set[str], *, result_chars_max: int
) -> tuple[ModelMessage, ...]:
    """Shorten the results of the named calls; head and tail of each stay."""
    if not call_ids:
        return tuple(messages)
    return tuple(
        _trim_message(message, call_ids, result_chars_max) if isinstance(message, ToolMessage) else message
        for message in messages
    )


def long_results(messages: Sequence[ModelMessage], result_chars_max: int) -> frozenset[str]:
    """Return the ids of the calls whose results become smaller by trimming."""
    return frozenset(
        part.tool_call_id
        for message in messages
        if isinstance(message, ToolMessage)
        for part in message.content
        if isinstance(part, ToolResultPart) and _shorten(part.output, result_chars_max) is not part.output
    )


def _trim_message(message: ToolMessage, call_ids: Set[str], result_chars_max: int) -> ToolMessage:
    parts = tuple(
        part.model_copy(update={"output": _shorten(part.output, result_chars_max)})
        if isinstance(part, ToolResultPart) and part.tool_call_id in call_ids
        else part
        for part in message.content
    )
    return message.model_copy(update={"content": parts})


def _shorten(output: ToolOutput, chars_max: int) -> ToolOutput:
    """Cut the middle out of an output; the same object if it would not get smaller."""
    if output.type is ToolOutputType.EXECUTION_DENIED:
        return output
    text = output.value if isinstance(output.value, str) else to_json(output.value).decode()
    if len(text) <= chars_max:
        return output
    is_error = output.type in {ToolOutputType.ERROR_TEXT, ToolOutputType.ERROR_JSON}
    kind = ToolOutputType.ERROR_TEXT if is_error else ToolOutputType.TEXT
    shorter = output.model_copy(update={"type": kind, "value": clip_middle(text, chars_max)})
    # JSON inside a text is escaped once more, so a small cut can make the whole longer.
    return shorter if len(to_json(shorter)) < len(to_json(output)) else output


def clip_middle(text: str, chars_max: int) -> str:
    """Cut the middle out of a text that is too long; twice as much head as tail stays."""
    if len(text) <= chars_max:
        return text
    marker = f"\n[… shortened from {len(text)} characters …]\n"
    room = chars_max - len(marker)
    if room <= 0:
        return text[:chars_max]
    tail = room // 3
    return text[: room - tail] + marker + text[len(text) - tail :]


def clip_tokens(text: str, tokens_max: int, *, measure: Callable[[str], int] = estimate_tokens) -> str:
    """Cut the middle out of a text until its measure is at most `tokens_max`.

    `measure` may count what the text is put into as well. If that alone is too much, nothing is left.
    """
    limit = max(tokens_max, 0)
    clipped, chars_max = text, len(text)
    while chars_max > 0 and (tokens := measure(clipped)) > limit:
        # Escapes and wide characters are not spread evenly, so each round cuts at least a tenth.
        chars_max = min(chars_max * limit // tokens, chars_max * 9 // 10)
        clipped = clip_middle(text, chars_max)
    return clipped


def safe_cuts(messages: Sequence[ModelMessage]) -> list[bool]:
    """Say for each index whether the history may be cut before it.

    It may not where a call and its result, or a request for consent and its answer, would come apart. An
    id may be used again once its pair is closed. A call without a result stays with everything after it,
    because its result is still to come.
    """
    count = len(messages)
    depth = [0] * (count + 2)
    open_at: dict[str, int] = {}
    for index, message in enumerate(messages):
        for key, opens in _links(message):
            if opens:
                open_at.setdefault(key, index)
            elif key in open_at:
                _forbid(depth, open_at.pop(key), index)
    for start in open_at.values():
        _forbid(depth, start, count)
    cuts: list[bool] = []
    inside = 0
    for change in depth[: count + 1]:
        inside += change
        cuts.append(inside == 0)
    return cuts


def _forbid(depth: list[int], start: int, end: int) -> None:
    """Forbid the cuts after message `start` up to the one before message `end`."""
    depth[start + 1] += 1
    depth[end + 1] -= 1


def _links(message: ModelMessage) -> Iterator[tuple[str, bool]]:
    """The ends of pairs in a message: a key, and whether the pair begins here."""
    if not isinstance(message, AssistantMessage | ToolMessage) or isinstance(message.content, str):
        return
    for part in message.content:
        if isinstance(part, ToolCallPart):
            yield f"call {part.tool_call_id}", True
        elif isinstance(part, ToolResultPart):
            yield f"call {part.tool_call_id}", False
        elif isinstance(part, ApprovalRequestPart):
            yield f"approval {part.approval_id}", True
        elif isinstance(part, ApprovalResponsePart):
            yield f"approval {part.approval_id}", False
