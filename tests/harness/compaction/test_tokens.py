"""Token counts of a history."""

from functools import cache
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_core import to_json
from tests.harness.compaction.histories import config, says, user

from windlass_harness.compaction import (
    JSON_BYTES_MAX,
    estimate_tokens,
    input_tokens,
    message_size,
    should_compact,
)
from windlass_protocol import (
    AssistantMessage,
    ModelMessage,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolOutputType,
    ToolResultPart,
    UserMessage,
)


def test_four_bytes_of_json_are_a_token_and_a_rest_is_one_too() -> None:
    assert [estimate_tokens("x" * count) for count in (0, 2, 3, 6, 7)] == [1, 1, 2, 2, 3]
    assert estimate_tokens({"a": [1, None]}) == len('{"a":[1,null]}') // 4 + 1


def test_scripts_that_need_more_bytes_are_counted_by_them() -> None:
    assert estimate_tokens("漢" * 100) == (300 + 2) // 4 + 1


def test_without_a_count_of_the_provider_everything_is_estimated() -> None:
    history = [user("a" * 100), says("b" * 200)]
    whole = sum(map(estimate_tokens, history))
    assert input_tokens(history, config(0), overhead_tokens=7) == whole + 7
    only_tokens = config(0, last_known_input_tokens=5)
    assert input_tokens(history, only_tokens, overhead_tokens=7) == whole + 7
    only_length = config(0, last_known_prompt_message_count=1)
    assert input_tokens(history, only_length, overhead_tokens=7) == whole + 7


def test_with_a_provider_count_only_later_messages_are_estimated() -> None:
    history = [user("a" * 100), says("b" * 200)]
    known = config(0, last_known_input_tokens=50, last_known_prompt_message_count=1)
    assert input_tokens(history, known, overhead_tokens=7) == 50 + estimate_tokens(history[1])
    everything = config(0, last_known_input_tokens=50, last_known_prompt_message_count=2)
    assert input_tokens(history, everything, overhead_tokens=7) == 50


def test_a_token_count_of_a_longer_history_is_ignored() -> None:
    history = [user("a" * 100)]
    stale = config(0, last_known_input_tokens=5, last_known_prompt_message_count=2)
    assert input_tokens(history, stale) == estimate_tokens(history[0])


def test_a_history_at_the_threshold_is_not_compacted() -> None:
    history = [user("hello")]
    tokens = estimate_tokens(history[0])
    assert not should_compact(history, config(tokens))
    assert should_compact(history, config(tokens - 1))


def test_a_caller_may_cache_token_estimates() -> None:
    asked: list[ModelMessage] = []
    message = user("hello")

    @cache
    def sizes(key: int) -> int:
        asked.append(message)
        return 3

    def remembered(one: ModelMessage) -> int:
        return sizes(id(one))

    for _ in range(3):
        assert input_tokens([message, message], config(0), estimate=remembered) == 6
    assert len(asked) == 1
    assert should_compact([message], config(2), estimate=remembered)


def _result(**more: object) -> dict[str, object]:
    output = {"type": "text", "value": 'a "result" with ümlauts'}
    return {"type": "tool-result", "toolCallId": "c1", "toolName": "look", "output": output, **more}


@pytest.mark.parametrize(
    "message",
    [
        {"content": []},
        {"content": [_result(), _result(output={"type": "json", "value": {"a": [1, None]}})]},
        {"content": [_result(output={"type": "execution-denied", "reason": "no"})]},
        {"content": [_result(output={"type": "json", "value": None})]},
        {"content": [_result(output={"type": "text", "value": "x", "more": 1})]},
        {"content": [_result(providerOptions={"a": 1})]},
        {"content": [_result(more=1)]},
        {"content": [_result()], "providerOptions": {"a": 1}},
        {"content": [{"type": "tool-approval-response", "approvalId": "a", "approved": True}]},
    ],
)
def test_a_message_of_results_is_estimated_by_the_bytes_of_its_json(message: dict[str, object]) -> None:
    made = ToolMessage.model_validate({"role": "tool", **message})
    assert estimate_tokens(made) == -(-len(to_json(made)) // 4)


ModelT = TypeVar("ModelT", bound=BaseModel)
TEXTS = st.text(max_size=3).map(lambda text: text * 200)
"""Long, so that the bytes of a message are mostly those of its texts."""
IDS = st.text(min_size=1, max_size=8)
NUMBERS = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False))
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
JSON = st.one_of(LEAVES, st.lists(LEAVES, max_size=2), st.dictionaries(TEXTS, LEAVES, max_size=2))
OPTIONS = st.one_of(st.none(), st.dictionaries(IDS, LEAVES, max_size=1))


def _made(model: type[ModelT], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[ModelT]:
    # Not `st.builds`, which reads the annotations of a wire type and warns of what it does not know.
    return st.fixed_dictionaries(fields).map(lambda given: model(**given))


MESSAGES = st.one_of(
    _made(UserMessage, content=TEXTS),
    _made(
        AssistantMessage,
        content=st.one_of(
            TEXTS,
            st.lists(
                st.one_of(
                    _made(TextPart, text=TEXTS),
                    _made(ReasoningPart, text=TEXTS, provider_options=OPTIONS),
                    _made(
                        ToolCallPart,
                        tool_call_id=IDS,
                        tool_name=IDS,
                        input=st.one_of(JSON, st.dictionaries(TEXTS, JSON, max_size=3)),
                        provider_executed=st.sampled_from([None, True]),
                    ),
                ),
                max_size=2,
            ).map(tuple),
        ),
        provider_options=OPTIONS,
    ),
    _made(
        ToolMessage,
        content=st.lists(
            _made(
                ToolResultPart,
                tool_call_id=IDS,
                tool_name=IDS,
                output=_made(ToolOutput, type=st.just(ToolOutputType.JSON), value=JSON),
                provider_options=OPTIONS,
            ),
            max_size=2,
        ).map(tuple),
    ),
)


@given(message=MESSAGES)
def test_the_json_of_a_message_has_at_most_six_bytes_for_each_character_of_its_size(
    message: ModelMessage,
) -> None:
    assert len(to_json(message)) <= JSON_BYTES_MAX * message_size(message)


def test_arguments_with_many_members_are_measured_by_their_json() -> None:
    part = ToolCallPart(tool_call_id="c", tool_name="t", input={f"\x00{at}": at for at in range(40)})
    message = AssistantMessage(content=(part,))
    assert message_size(message) == len(to_json(message))


@pytest.mark.parametrize(
    "message",
    [
        AssistantMessage(content=(TextPart(text="\x00" * 500, provider_options={"a": "\x00" * 500}),)),
        AssistantMessage(
            content=(ToolCallPart(tool_call_id="c", tool_name="t", input={"a": 0.5, "b": [1, "\x00" * 500]}),)
        ),
        ToolMessage(
            content=(
                ToolResultPart(
                    tool_call_id="c",
                    tool_name="t",
                    output=ToolOutput(type=ToolOutputType.TEXT, value="x", reason="\x00" * 500),
                ),
            )
        ),
    ],
    ids=["options", "numbers and lists", "a reason"],
)
def test_an_unusual_message_is_measured_by_its_json(message: ModelMessage) -> None:
    assert len(to_json(message)) <= JSON_BYTES_MAX * message_size(message)
    assert message_size(message) >= 500
