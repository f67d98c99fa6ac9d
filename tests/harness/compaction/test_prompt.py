"""The prompt of the summary call of a compaction."""

import pytest
from tests.harness.compaction.histories import (
    calls,
    config,
    context,
    five_times,
    result,
    results,
    says,
    user,
)
from tests.harness.compaction.test_planning import LONG, size, work

from windlass_harness.compaction import (
    CompactionPlan,
    Estimate,
    MessageOrigin,
    apply,
    estimate_tokens,
    mark,
    plan,
    summary_message,
    summary_request,
)
from windlass_protocol import (
    AssistantMessage,
    FilePart,
    ImagePart,
    ModelMessage,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
    UserMessage,
)

ROOMY = CompactionPlan(
    tokens_before=0,
    tokens_after=0,
    fits=True,
    kept_from=99,
    result_chars_max=200,
    summary_tokens_max=400,
    request_tokens_max=50_000,
)


def asked(made: CompactionPlan, messages: list[ModelMessage]) -> str:
    system, request = summary_request(made, messages)
    assert isinstance(system, SystemMessage)
    assert isinstance(request, UserMessage)
    assert isinstance(request.content, str)
    return request.content


def test_the_instructions_ask_for_all_that_a_successor_needs() -> None:
    instructions = str(summary_request(ROOMY, [])[0].content)
    for heading in ("Requests", "Progress and decisions", "Constraints", "Remaining work", "Critical data"):
        assert heading in instructions


def test_each_message_is_a_line_with_its_role_and_content() -> None:
    refused = ToolOutput.model_validate({"type": "execution-denied", "reason": "not on Sundays"})
    silent = ToolOutput.model_validate({"type": "execution-denied"})
    messages: list[ModelMessage] = [
        context("the time is noon"),
        user("fix it"),
        SystemMessage(content="be brief"),  # stays in the history, so no summary has to cover it
        says("I look."),
        AssistantMessage(content=(ReasoningPart(text="secret thought"), TextPart(text="Reading."))),
        calls("a"),
        ToolMessage(
            content=(
                result("a", {"n": 1}, "json"),
                result("a", "no such file", "error-text"),
                ToolResultPart(tool_call_id="a", tool_name="look", output=refused),
                ToolResultPart(tool_call_id="a", tool_name="look", output=silent),
            )
        ),
    ]
    text = asked(ROOMY, messages)
    lines = text.split("<transcript>\n")[1].split("\n</transcript>")[0].split("\n")
    assert lines == [
        "Context: the time is noon",
        "User: fix it",
        "Agent: I look.",
        "Agent: Reading.",
        'Agent called look: {"at":"a"}',
        'look returned: {"n":1}',
        "look failed: no such file",
        "look was not allowed: not on Sundays",
        "look was not allowed: ",
    ]
    assert text.endswith("in at most 300 words.")


def test_pictures_and_files_are_named_and_not_shown() -> None:
    message = UserMessage(
        content=(
            TextPart(text="see"),
            ImagePart(image="data:xyz"),
            FilePart(data="data:xyz", media_type="application/pdf"),
            FilePart(data="data:xyz", media_type="text/csv", filename="a.csv"),
        )
    )
    text = asked(ROOMY, [message])
    assert "User: see [picture] [file application/pdf] [file a.csv]" in text
    assert "xyz" not in text


def test_long_output_is_shortened_and_the_users_words_are_not() -> None:
    task = "do exactly this: " + "x" * 3000
    text = asked(ROOMY, [user(task), says(LONG), calls("a"), results(a=LONG)])
    assert task in text
    assert text.count("shortened from 3000 characters") == 2


def test_the_summary_prompt_shows_only_messages_that_will_be_removed() -> None:
    made = CompactionPlan(
        tokens_before=0, tokens_after=0, fits=True, kept_from=1, summary_tokens_max=9, request_tokens_max=9999
    )
    text = asked(made, [user("old"), user("kept")])
    assert "old" in text
    assert "kept" not in text


def test_the_last_summary_goes_in_whole_and_apart_and_old_pins_not_at_all() -> None:
    earlier = "the last summary. " * 40
    history = [user("task"), *work(40)]
    pinned = [user("old todo")]
    once = list(apply(plan(history, config(5000), on_compaction=pinned), history, summary=earlier)) + work(40)
    text = asked(plan(once, config(5000)), once)
    before, after = text.split("<transcript>")
    assert earlier.strip() in before
    assert "last summary" not in after
    assert "old todo" not in text
    assert mark(user("old todo"), MessageOrigin.PINNED) in once


@pytest.mark.parametrize("window", [None, 1500])
def test_the_request_fits_the_window_together_with_its_answer(window: int | None) -> None:
    history = [user("task " * 300), *work(200)]
    made = plan(history, config(6000), overhead_tokens=500, summary_window_tokens=window)
    request = summary_request(made, history)
    limit = window or 5500
    assert size(request) + made.summary_tokens_max <= max(limit, made.summary_tokens_max + 600)
    assert "shortened from" in str(request[1].content)
    assert "task task" in str(request[1].content)


@pytest.mark.parametrize("estimate", [estimate_tokens, five_times])
def test_a_last_summary_that_is_too_long_loses_its_middle_and_leaves_room_for_the_rest(
    estimate: Estimate,
) -> None:
    previous = "FIRST " + "past " * 8000 + " LAST"
    history = [summary_message(previous), user("task"), *work(40)]
    window = 5 * 1500 if estimate is five_times else 1500
    made = plan(history, config(40_000), summary_window_tokens=window, estimate=estimate)
    request = summary_request(made, history)
    assert size(request, estimate) + made.summary_tokens_max <= window
    earlier, transcript = str(request[1].content).split("<transcript>")
    assert "FIRST past" in earlier
    assert "past  LAST" in earlier
    assert "shortened from 40011 characters" in earlier
    assert "User: task" in transcript


def test_a_last_summary_within_three_quarters_of_the_room_goes_in_whole() -> None:
    previous = "past " * 400
    history = [summary_message(previous), user("task"), *work(40)]
    made = plan(history, config(6000), summary_window_tokens=1500)
    request = summary_request(made, history)
    assert previous in str(request[1].content)
    assert size(request) + made.summary_tokens_max <= 1500


def test_a_plan_without_a_summary_has_no_summary_request() -> None:
    with pytest.raises(ValueError, match="needs no summary"):
        summary_request(plan([user("hi")], config(1000)), [user("hi")])
