"""Token counts of a history."""

from functools import cache

from tests.harness.compaction.histories import config, says, user

from windlass_harness.compaction import estimate_tokens, input_tokens, should_compact
from windlass_protocol import ModelMessage


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
