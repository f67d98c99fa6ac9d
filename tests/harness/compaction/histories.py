"""Histories for the tests of compaction: by hand, and drawn at random."""

from collections.abc import Iterator, Sequence

from hypothesis import strategies as st
from pydantic import JsonValue
from pydantic_core import to_json

from windlass_harness.compaction import MessageOrigin, estimate_tokens, mark, summary_message
from windlass_protocol import (
    AssistantMessage,
    CompactionConfig,
    ModelMessage,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolOutputType,
    ToolResultPart,
    UserMessage,
)


def user(text: str) -> UserMessage:
    return UserMessage(content=text)


def context(text: str) -> UserMessage:
    return mark(UserMessage(content=text), MessageOrigin.CONTEXT)


def system(text: str) -> SystemMessage:
    return SystemMessage(content=text)


def says(text: str) -> AssistantMessage:
    return AssistantMessage(content=text)


def calls(*call_ids: str, words: str = "") -> AssistantMessage:
    made = tuple(
        ToolCallPart(tool_call_id=call_id, tool_name="look", input={"at": call_id}) for call_id in call_ids
    )
    return AssistantMessage(content=(TextPart(text=words), *made) if words else made)


def result(call_id: str, value: object, kind: str = "text") -> ToolResultPart:
    output = ToolOutput.model_validate({"type": kind, "value": value})
    return ToolResultPart(tool_call_id=call_id, tool_name="look", output=output)


def results(**values: object) -> ToolMessage:
    return ToolMessage(content=tuple(result(call_id, value) for call_id, value in values.items()))


def config(threshold: int, window: int = 10, **known: int) -> CompactionConfig:
    return CompactionConfig.model_validate(
        {"threshold": threshold, "recentWindowSize": window, **known}, by_alias=True, by_name=True
    )


def links(messages: Sequence[ModelMessage]) -> Iterator[tuple[str, str]]:
    """Every call and result of a history, in order."""
    for message in messages:
        if isinstance(message, AssistantMessage | ToolMessage) and not isinstance(message.content, str):
            for part in message.content:
                if isinstance(part, ToolCallPart):
                    yield "call", part.tool_call_id
                elif isinstance(part, ToolResultPart):
                    yield "result", part.tool_call_id


def orphans(messages: Sequence[ModelMessage]) -> list[tuple[str, str]]:
    """Calls without a result after them, and results without a call before them."""
    open_calls: list[str] = []
    wrong: list[tuple[str, str]] = []
    for kind, call_id in links(messages):
        if kind == "call":
            open_calls.append(call_id)
        elif call_id in open_calls:
            open_calls.remove(call_id)
        else:
            wrong.append((kind, call_id))
    return wrong + [("call", call_id) for call_id in open_calls]


PIECES = st.sampled_from(["word ", '{"a": "b\\\\c"}\n', "漢字", "\x00"])
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=40),
    st.tuples(PIECES, st.integers(0, 900)).map(lambda drawn: drawn[0] * drawn[1]),
)


def simple() -> st.SearchStrategy[JsonValue]:
    return st.one_of(TEXTS, st.none())


VALUES = st.one_of(
    simple(), st.lists(simple(), max_size=3), st.dictionaries(st.text("abc"), simple(), max_size=2)
)
KINDS = st.sampled_from([kind.value for kind in ToolOutputType])


@st.composite
def steps(draw: st.DrawFn, first_id: int) -> list[ModelMessage]:
    """One answer with calls, and their results in one message or in one message each."""
    call_ids = [f"call_{first_id}_{index}" for index in range(draw(st.integers(1, 3)))]
    if draw(st.booleans()):
        call_ids[0] = "again"  # some providers number their calls anew in each answer
    parts = [ToolCallPart(tool_call_id=call_id, tool_name="look", input=draw(VALUES)) for call_id in call_ids]
    answer = AssistantMessage(content=(ReasoningPart(text=draw(TEXTS)), *parts))
    found = [result(call_id, draw(VALUES), draw(KINDS)) for call_id in draw(st.permutations(call_ids))]
    if draw(st.booleans()):
        return [answer, ToolMessage(content=tuple(found))]
    return [answer, *(ToolMessage(content=(part,)) for part in found)]


@st.composite
def histories(draw: st.DrawFn, max_size: int = 12) -> tuple[ModelMessage, ...]:
    """A valid history: every call has its result after it."""
    messages: list[ModelMessage] = []
    for index in range(draw(st.integers(0, max_size))):
        kind = draw(st.sampled_from(["user", "context", "system", "says", "step", "step", "step"]))
        if kind == "step":
            messages += draw(steps(index))
        else:
            make = {"user": user, "context": context, "system": system, "says": says}[kind]
            messages.append(make(draw(TEXTS)))
    if draw(st.booleans()):
        messages.insert(0, summary_message(draw(TEXTS)))
    return tuple(messages)


def five_times(message: ModelMessage) -> int:
    return 5 * estimate_tokens(message)


def by_letters(message: ModelMessage) -> int:
    """Count wide characters only."""
    return sum(ord(letter) > 127 for letter in to_json(message.content).decode())


def all_alike(message: ModelMessage) -> int:
    return 300


ESTIMATES = st.sampled_from([estimate_tokens, five_times, by_letters, all_alike])
