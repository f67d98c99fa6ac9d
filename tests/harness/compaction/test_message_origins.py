"""Origins of messages: summaries, pinned messages and context, apart from user messages."""

import pytest
from pydantic import JsonValue

from windlass_harness.compaction import MessageOrigin, is_real_user, mark, origin_of
from windlass_protocol import AssistantMessage, UserMessage


@pytest.mark.parametrize("origin", MessageOrigin)
def test_a_mark_is_read_back_and_changes_nothing_else(origin: MessageOrigin) -> None:
    message = UserMessage(content="hi", provider_options={"acme": {"cache": True}})
    marked = mark(message, origin)
    assert origin_of(marked) is origin
    assert (marked.content, (marked.provider_options or {})["acme"]) == ("hi", {"cache": True})
    assert origin_of(message) is None
    assert not is_real_user(marked)


def test_only_unmarked_words_of_a_user_are_real() -> None:
    assert is_real_user(UserMessage(content="hi"))
    assert not is_real_user(AssistantMessage(content="hi"))


@pytest.mark.parametrize("options", [{"windlass": "summary"}, {"windlass": {}}, {"windlass": {"origin": 7}}])
def test_an_unknown_origin_mark_is_none(options: dict[str, JsonValue]) -> None:
    assert origin_of(UserMessage(content="hi", provider_options=options)) is None
    assert origin_of(UserMessage(content="hi", provider_options={"windlass": {"origin": "later"}})) is None
