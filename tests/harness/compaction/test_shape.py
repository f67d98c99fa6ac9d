"""Compaction of a history, and the places where a history may be cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.compaction.histories import calls, result, results, says, user

from windlass_harness.compaction import (
    SUMMARY_HEAD,
    MessageOrigin,
    clip_middle,
    clip_tokens,
    compact,
    estimate_tokens,
    long_results,
    mark,
    safe_cuts,
    summary_message,
    summary_of,
    trim,
)
from windlass_protocol import (
    ApprovalRequestPart,
    ApprovalResponsePart,
    AssistantMessage,
    ModelMessage,
    SystemMessage,
    TextPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
    UserMessage,
)


def test_a_text_keeps_its_head_and_its_tail() -> None:
    clipped = clip_middle("a" * 500 + "b" * 500, 100)
    assert len(clipped) == 100
    assert clipped.startswith("a" * 30)
    assert clipped.endswith("b" * 15)
    assert "[… shortened from 1000 characters …]" in clipped
    assert clip_middle("x" * 100, 100) == "x" * 100
    assert clip_middle("x" * 101, 20) == "x" * 20, "there is no room for a marker"


@given(st.text(st.characters(exclude_categories=("Cs",))), st.integers(0, 60))
def test_a_text_is_never_longer_than_its_limit(text: str, limit: int) -> None:
    assert len(clip_middle(text, limit)) <= max(limit, 0)
    assert estimate_tokens(clip_tokens(text, limit)) <= max(limit, 1)
    assert clip_tokens(text, 10_000) == text


def test_only_the_results_of_the_named_calls_are_shortened() -> None:
    history = (calls("a", "b"), results(a="x" * 900, b="y" * 900), calls("c"), results(c="z" * 900))
    trimmed = trim(history, {"a", "c"}, result_chars_max=300)
    assert [len(str(part.output.value)) for part in parts(trimmed)] == [300, 900, 300]
    assert trim(history, set(), result_chars_max=300) == history


def parts(messages: tuple[ModelMessage, ...]) -> list[ToolResultPart]:
    return [
        part
        for message in messages
        if isinstance(message, ToolMessage)
        for part in message.content
        if isinstance(part, ToolResultPart)
    ]


@pytest.mark.parametrize(
    ("kind", "value", "shortened"),
    [
        ("text", "x" * 900, "text"),
        ("json", ["x" * 900], "text"),
        ("content", [{"type": "text", "text": "x" * 900}], "text"),
        ("error-text", "x" * 900, "error-text"),
        ("error-json", {"a": "x" * 900}, "error-text"),
        ("text", "x" * 300, None),
        ("json", None, None),
        ("json", ['"' * 170], None),
    ],
)
def test_an_output_becomes_shorter_text_and_an_error_stays_an_error(
    kind: str, value: object, shortened: str | None
) -> None:
    message = ToolMessage(content=(result("a", value, kind),))
    (part,) = parts(trim([message], {"a"}, result_chars_max=300))
    if shortened is None:
        assert part.output == ToolOutput.model_validate({"type": kind, "value": value})
        assert long_results([message], 300) == set()
    else:
        assert part.output.type == shortened
        assert len(str(part.output.value)) == 300
        assert long_results([message], 300) == {"a"}
        assert long_results([ToolMessage(content=(part,))], 300) == set(), "once is enough"


def test_a_refusal_is_left_alone() -> None:
    refused = ToolOutput.model_validate({"type": "execution-denied", "reason": "x" * 900})
    message = ToolMessage(content=(ToolResultPart(tool_call_id="a", tool_name="look", output=refused),))
    assert trim([message], {"a"}, result_chars_max=300) == (message,)


def test_consent_in_a_tool_message_is_left_alone() -> None:
    message = ToolMessage(content=(ApprovalResponsePart(approval_id="p", approved=True),))
    assert trim([message], {"p"}, result_chars_max=1) == (message,)
    assert long_results([message], 1) == set()


def test_a_summary_message_can_be_read_back_whole() -> None:
    message = summary_message("x" * 10_000)
    assert summary_of(message) == "x" * 10_000
    assert str(message.content).startswith(SUMMARY_HEAD)
    assert summary_of(user(SUMMARY_HEAD + "not one")) is None
    of_parts = mark(UserMessage(content=(TextPart(text="odd"),)), MessageOrigin.SUMMARY)
    assert summary_of(of_parts) is None


def test_a_compaction_replaces_all_that_earlier_ones_put_there() -> None:
    todo = mark(user("old todo"), MessageOrigin.PINNED)
    history = [summary_message("old"), todo, user("task"), summary_message("odd"), says("last")]
    assert compact(history, summary="new", kept_from=1, pinned=[user("pin")]) == (
        summary_message("new"),
        user("pin"),
        user("task"),
        says("last"),
    )


def test_a_place_and_not_an_id_alone_says_which_results_are_shortened() -> None:
    history = (calls("a"), results(a="x" * 900), calls("a"), results(a="y" * 900))
    older = compact(history, summary=None, kept_from=2, trimmed_call_ids={"a"}, result_chars_max=300)
    assert [len(str(part.output.value)) for part in parts(older)] == [300, 900]
    everywhere = compact(history, summary=None, trimmed_call_ids={"a"}, result_chars_max=300)
    assert [len(str(part.output.value)) for part in parts(everywhere)] == [300, 300]
    kept = compact(history, summary="s", kept_from=2, trimmed_call_ids={"a"}, result_chars_max=300)
    assert [len(str(part.output.value)) for part in parts(kept)] == [300]


def test_a_text_is_cut_to_nothing_if_its_surroundings_exceed_the_limit() -> None:
    assert clip_tokens("x" * 900, -5) == ""
    assert clip_tokens("x" * 900, 5, measure=lambda text: 6 + len(text)) == ""
    assert len(clip_tokens("x" * 900, 50, measure=lambda text: 6 + len(text))) in range(30, 45)


def test_without_a_summary_nothing_is_removed() -> None:
    history = (summary_message("old"), user("task"))
    assert compact(history, summary=None, kept_from=1) == history


def cuts(*messages: ModelMessage) -> str:
    return "".join("|" if safe else "-" for safe in safe_cuts(messages))


def test_a_history_may_be_cut_anywhere_but_between_a_call_and_its_result() -> None:
    assert cuts() == "|"
    assert cuts(user("a"), says("b"), SystemMessage(content="c")) == "||||"
    assert cuts(user("a"), calls("x"), results(x=1), says("b")) == "||-||"
    assert cuts(calls("x", "y"), results(y=1), user("steer"), results(x=1)) == "|---|"


def test_a_call_without_a_result_stays_with_all_that_follows() -> None:
    assert cuts(user("a"), calls("x"), says("b")) == "||--"


def test_a_result_without_a_call_holds_nothing_together() -> None:
    assert cuts(user("a"), results(x=1), says("b")) == "||||"


def test_an_id_may_be_used_again() -> None:
    assert cuts(calls("x"), results(x=1), calls("x"), results(x=2)) == "|-|-|"


def test_consent_is_not_parted_from_its_request() -> None:
    asked = AssistantMessage(content=(ApprovalRequestPart(approval_id="p", tool_call_id="x"),))
    given_ = ToolMessage(content=(ApprovalResponsePart(approval_id="p", approved=True),))
    assert cuts(asked, user("a"), given_) == "|--|"
