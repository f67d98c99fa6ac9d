"""Compaction plans: trimmed, summarised and kept messages."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from tests.harness.compaction.histories import (
    ESTIMATES,
    calls,
    config,
    context,
    five_times,
    histories,
    orphans,
    results,
    says,
    system,
    user,
)

from windlass_harness.compaction import (
    MATERIAL_TOKENS_MIN,
    SUMMARY_TOKENS_MAX,
    CompactionPlan,
    Estimate,
    MessageOrigin,
    apply,
    compact,
    completion_data,
    estimate_tokens,
    fit_summary,
    input_tokens,
    is_real_user,
    mark,
    origin_of,
    plan,
    plan_eviction,
    should_compact,
    summary_message,
    summary_of,
    summary_request,
)
from windlass_protocol import (
    CompactionConfig,
    ModelMessage,
    SystemMessage,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)

LONG = "line of output\n" * 200


def size(messages: Sequence[ModelMessage], estimate: Estimate = estimate_tokens) -> int:
    return sum(map(estimate, messages))


def work(count: int, output: str = LONG) -> list[ModelMessage]:
    """A number of steps, each a call and its result."""
    return [
        message
        for index in range(count)
        for message in (calls(f"c{index}"), results(**{f"c{index}": output}))
    ]


def test_a_history_below_the_threshold_is_left_alone() -> None:
    history = [user("hello"), says("hello")]
    exact = size(history)
    assert plan(history, config(exact)).is_empty
    assert plan(history, config(exact)).fits
    assert not plan(history, config(exact - 1)).fits


def test_old_results_are_shortened_first_and_that_may_be_enough() -> None:
    history = [user("task"), *work(8)]
    made = plan(history, config(size(history) - 1, window=2))
    assert made.trimmed_call_ids == {f"c{index}" for index in range(7)}
    assert not made.needs_summary
    assert made.fits
    after = apply(made, history)
    assert after[-1] == history[-1]
    assert len(after) == len(history)
    assert size(after) == made.tokens_after
    shortened = after[2]
    assert isinstance(shortened, ToolMessage)
    part = shortened.content[0]
    assert isinstance(part, ToolResultPart)
    assert str(part.output.value).startswith("line of output")
    assert str(part.output.value).endswith("line of output\n")
    assert "shortened from 3000 characters" in str(part.output.value)


def test_a_history_beyond_trimming_is_summarised_by_one_call() -> None:
    history = [user("task"), *work(40)]
    made = plan(history, config(5000, window=4))
    assert made.needs_summary
    after = apply(made, history, summary="so far so good")
    assert [summary_of(message) for message in after[:1]] == ["so far so good"]
    assert after[1] == user("task")
    assert after[2:] == tuple(history[-4:])
    assert size(after) <= made.tokens_after <= 5000


def test_the_window_shrinks_until_it_fits_and_never_parts_a_call_from_its_result() -> None:
    history = [user("task"), *work(40)]
    made = plan(history, config(3000, window=9))
    kept = history[made.kept_from :]
    assert 0 < len(kept) < 9
    assert orphans(kept) == []


def test_when_not_even_the_newest_result_fits_it_is_shortened_and_not_lost() -> None:
    history = [user("task"), *work(3), calls("big"), results(big=LONG * 20)]
    made = plan(history, config(3000, window=2))
    assert made.trimmed_call_ids == {"big"}
    assert made.fits
    newest = apply(made, history, summary="s")[-1]
    assert isinstance(newest, ToolMessage)
    part = newest.content[0]
    assert isinstance(part, ToolResultPart)
    assert "shortened from" in str(part.output.value)


def test_when_nothing_of_the_window_fits_only_the_summary_and_the_user_message_stay() -> None:
    history = [user("task"), calls("a", words="w" * 20_000), results(a="ok")]
    made = plan(history, config(2000, window=2))
    assert made.kept_from == 3
    assert [type(message) for message in apply(made, history, summary="s")] == [UserMessage, UserMessage]


def test_the_last_user_message_stays_verbatim_at_any_length() -> None:
    task = "do this exactly: " + "x" * 4000
    history = [user(task), *work(40)]
    after = apply(plan(history, config(5000)), history, summary="s")
    assert user(task) in after


def test_short_earlier_user_messages_stay_and_long_ones_are_left_to_the_summary() -> None:
    history = [user("y" * 5000), *work(5), user("build it in Rust"), *work(20), user("yes"), *work(20)]
    after = apply(plan(history, config(5000, window=2)), history, summary="s")
    assert [message for message in after if is_real_user(message)] == [user("build it in Rust"), user("yes")]


def test_context_is_not_taken_for_a_user_message() -> None:
    history = [user("task"), *work(20), context("the time is noon"), *work(20)]
    after = apply(plan(history, config(5000, window=2)), history, summary="s")
    assert after[1] == user("task")
    assert context("the time is noon") not in after


def test_a_summary_replaces_the_one_before_it() -> None:
    history = [user("task"), *work(40)]
    once = [*apply(plan(history, config(5000)), history, summary="first"), *work(40)]
    made = plan(once, config(5000))
    assert made.previous_summary == "first"
    twice = apply(made, once, summary="second")
    assert [summary_of(message) for message in twice if summary_of(message)] == ["second"]


def test_pinned_messages_follow_the_summary_and_replace_those_of_the_last_compaction() -> None:
    history = [user("task"), *work(40)]
    made = plan(history, config(5000, window=2), on_compaction=[user("todo: a, b")])
    once = apply(made, history, summary="s")
    assert [message.content for message in once[1:3]] == ["task", "todo: a, b"]
    assert origin_of(once[2]) is MessageOrigin.PINNED
    longer = [*once, *work(1), says("w" * 20_000)]
    again = apply(plan(longer, config(5000, window=9), on_compaction=[user("todo: b")]), longer, summary="s")
    assert [message.content for message in again if origin_of(message) is MessageOrigin.PINNED] == ["todo: b"]


def test_pinned_messages_of_an_earlier_compaction_do_not_count_as_kept() -> None:
    todo = mark(user("t" * 6000), MessageOrigin.PINNED)
    history = [summary_message("s" * 4700), todo, user("task"), says("w" * 9200)]
    made = plan(history, config(5000, window=3))
    assert made.kept_from == 1
    assert made.tokens_after == made.summary_tokens_max + size(apply(made, history, summary="s")[1:])


def test_pinned_messages_are_counted() -> None:
    history = [user("task"), *work(40)]
    without = plan(history, config(5000, window=2))
    extra = user("t" * 4000)
    with_them = plan(history, config(5000, window=2), on_compaction=[extra])
    assert with_them.tokens_after > without.tokens_after + 1000
    assert size(apply(with_them, history, summary="s" * 50_000)) <= with_them.tokens_after


def test_a_history_that_cannot_be_shortened_costs_no_model_call() -> None:
    history: tuple[ModelMessage, ...] = (user("x" * 40_000),)
    model_calls = 0
    for index in range(50):
        history = (*history, calls(f"c{index}"), results(**{f"c{index}": "small"}))
        made = plan(history, config(10_000))
        assert not made.fits
        model_calls += made.needs_summary
        history = apply(made, history, summary="s") if made.needs_summary else history
    assert model_calls <= 1


def test_a_compaction_that_does_not_help_enough_is_not_worth_a_model_call() -> None:
    history: list[ModelMessage] = [user("x" * 48_000)]
    while not (made := plan(history, config(10_000, window=2))).needs_summary:
        history += [calls(f"c{len(history)}"), results(**{f"c{len(history)}": "small"})]
    assert not made.fits
    assert 1000 <= made.tokens_before - made.tokens_after < 1100


def test_a_compaction_that_cannot_reach_the_threshold_still_frees_tokens() -> None:
    history = [user("x" * 20_000), *work(40)]
    made = plan(history, config(4000, window=2))
    assert made.needs_summary
    assert not made.fits
    assert made.tokens_after < made.tokens_before


def test_tokens_that_the_provider_counted_beyond_the_estimate_remain_after_a_compaction() -> None:
    history = [user("task"), *work(20, LONG * 2)]
    threshold = size(history) - 1000
    assert not plan(history, config(threshold, window=2)).needs_summary
    known = {"last_known_input_tokens": size(history) + 6000, "last_known_prompt_message_count": len(history)}
    counted = plan(history, config(threshold, window=2, **known))
    assert counted.tokens_before == size(history) + 6000
    assert counted.needs_summary, "by our own estimate trimming would do, but not by the provider's count"
    assert counted.tokens_after >= size(apply(counted, history, summary="s" * 50_000)) + 6000


def test_instructions_and_tools_count() -> None:
    history = [user("hello")]
    assert not should_compact(history, config(100), overhead_tokens=50)
    assert should_compact(history, config(100), overhead_tokens=99)
    assert plan([user("task"), *work(40)], config(5000), overhead_tokens=4000).tokens_after > 4000


def test_a_summary_that_is_too_long_is_cut_to_the_room_of_the_plan() -> None:
    history = [user("task"), *work(40)]
    made = plan(history, config(40_000 // 8, window=2))
    text = fit_summary(made, " \n" + "漢\n" * 50_000)
    assert text is not None
    assert "shortened from" in text
    assert size(apply(made, history, summary=text)) <= made.tokens_after
    assert fit_summary(made, text) == text
    assert made.summary_tokens_max <= SUMMARY_TOKENS_MAX


@pytest.mark.parametrize("summary", [None, "", " \n"])
def test_an_empty_summary_is_refused(summary: str | None) -> None:
    history = [user("task"), *work(40)]
    with pytest.raises(ValueError, match="needs a summary"):
        apply(plan(history, config(5000)), history, summary=summary)


def test_a_summary_that_was_not_asked_for_is_ignored() -> None:
    history = [user("task"), *work(8)]
    made = plan(history, config(size(history) - 1, window=2))
    assert apply(made, history, summary="not asked for") == apply(made, history)


def test_a_compaction_can_be_repeated_from_its_record() -> None:
    history = [user("task"), *work(40)]
    made = plan(history, config(3000), on_compaction=[user("todo")])
    assert repeat(made, history, "s" * 50_000) == apply(made, history, summary="s" * 50_000)
    data = completion_data(made, "s", model_id="m", sequence=0, turn_id="t")
    after = size(apply(made, history, summary="s"))
    assert (data.input_tokens_before, data.input_tokens_after) == (made.tokens_before, after)


def repeat(made: CompactionPlan, history: Sequence[ModelMessage], summary: str) -> tuple[ModelMessage, ...]:
    """The history rebuilt from the record alone."""
    data = completion_data(made, summary, model_id="m", sequence=0, turn_id="t")
    return compact(
        history,
        summary=data.summary,
        kept_from=data.kept_from or 0,
        pinned=data.pinned or (),
        trimmed_call_ids=frozenset(data.trimmed_call_ids or ()),
        result_chars_max=data.result_chars_max or 0,
    )


def test_a_plan_holds_by_the_callers_own_estimate() -> None:
    history = [user("task"), *work(40, "ok")]
    made = plan(history, config(1500, window=2), estimate=five_times)
    assert made.needs_summary
    assert made.fits
    after = apply(made, history, summary="s" * 50_000)
    assert size(after, five_times) <= made.tokens_after <= 1500
    assert "ssss" in str(after[0].content), "some of the summary is left"


def test_a_plan_measures_each_message_once() -> None:
    measured: list[int] = []

    def estimate(message: ModelMessage) -> int:
        measured.append(id(message))
        return estimate_tokens(message)

    history = [user("task"), *work(40)]
    for make in (plan, plan_eviction):
        measured.clear()
        assert not make(history, config(1500, window=2), estimate=estimate).is_empty
        assert all(measured.count(id(message)) == 1 for message in history)


def test_a_plan_without_room_for_its_summary_does_not_fit() -> None:
    history = [user("task"), *work(40, "ok")]
    made = plan(history, config(500, window=2), estimate=five_times)
    assert not made.fits
    assert size(apply(made, history, summary="s" * 50_000), five_times) <= made.tokens_after


def test_system_messages_stay_before_the_summary_and_are_counted() -> None:
    rules, late = system("Never push. " * 50), system("Be brief.")
    history = [rules, user("task"), *work(20), late, *work(20)]
    made = plan(history, config(5000, window=2))
    after = apply(made, history, summary="s")
    assert after[:2] == (rules, late)
    assert summary_of(after[2]) == "s"
    assert size(after) - size(after[2:3]) + made.summary_tokens_max == made.tokens_after
    longer = [*after, *work(40)]
    again = apply(plan(longer, config(5000, window=2)), longer, summary="t")
    assert [message for message in again if isinstance(message, SystemMessage)] == [rules, late]


def test_a_system_message_that_a_compaction_put_there_is_replaced_by_the_next() -> None:
    old = mark(system("old todo"), MessageOrigin.PINNED)
    history = [old, user("task"), *work(40)]
    after = apply(plan(history, config(5000, window=2)), history, summary="s")
    assert old not in after


def test_a_newest_result_stays_whole_although_its_id_was_used_before() -> None:
    newest = [calls("c0"), results(c0="n" * 9000)]
    history = [user("task"), *work(8, LONG * 3), *newest]
    made = plan(history, config(size(history) - 1, window=2))
    assert not made.needs_summary
    assert "c0" in made.trimmed_call_ids
    after = apply(made, history)
    assert list(after[-2:]) == newest
    assert "shortened from" in after[2].model_dump_json()
    assert size(after) == made.tokens_after
    assert repeat(made, history, "") == after


def test_a_call_that_waits_for_its_result_is_never_removed() -> None:
    history = [user("task"), calls("open"), *work(40)]
    made = plan(history, config(5000, window=4))
    assert made.kept_from <= 1
    assert not made.fits


@given(
    history=histories(),
    threshold=st.integers(0, 4000),
    window=st.integers(0, 12),
    overhead=st.integers(0, 600),
    known=st.one_of(st.none(), st.tuples(st.integers(0, 6000), st.integers(0, 30))),
    extras=st.lists(st.builds(user, st.text("ab", max_size=80)), max_size=2),
    summary=st.text("word漢\n", min_size=1, max_size=900).map(lambda text: "s" + text),
    estimate=ESTIMATES,
    window_of_summary=st.one_of(st.none(), st.integers(0, 3000)),
)
def test_any_history_survives_its_compaction(
    history: tuple[ModelMessage, ...],
    threshold: int,
    window: int,
    overhead: int,
    known: tuple[int, int] | None,
    extras: list[UserMessage],
    summary: str,
    estimate: Estimate,
    window_of_summary: int | None,
) -> None:
    counted = (
        {}
        if known is None
        else {"last_known_input_tokens": known[0], "last_known_prompt_message_count": known[1]}
    )
    settings = config(threshold, window, **counted)
    made = plan(
        history,
        settings,
        overhead_tokens=overhead,
        on_compaction=extras,
        summary_window_tokens=window_of_summary,
        estimate=estimate,
    )
    event("summary" if made.needs_summary else "trim" if made.trimmed_call_ids else "nothing")
    after = apply(made, history, summary=summary)
    check_kept_messages(history, after)
    assert repeat(made, history, summary) == after
    assert size(after, estimate) <= size(history, estimate)
    assert made.fits == (made.tokens_after <= threshold)
    if should_compact(history, settings, overhead_tokens=overhead, estimate=estimate):
        assert size(after, estimate) + overhead <= made.tokens_after or made.is_empty
    else:
        assert after == history
    if made.needs_summary:
        check_request(made, history)
    else:
        assert after[max(0, len(after) - window) :] == history[max(0, len(history) - window) :]
    if made.fits and not made.is_empty:
        check_stable(after, config(threshold, window), overhead, estimate)


def check_kept_messages(history: tuple[ModelMessage, ...], after: tuple[ModelMessage, ...]) -> None:
    assert orphans(after) == []
    people = [message for message in history if is_real_user(message)]
    assert people[-1:] == [message for message in after if is_real_user(message)][-1:]
    assert sum(summary_of(message) is not None for message in after) <= 1
    assert rules_of(after) == rules_of(history)
    stayed = [message for message in after if origin_of(message) in {None, MessageOrigin.CONTEXT}]
    places = iter(history)
    for message in stayed:
        assert isinstance(message, SystemMessage) or any(is_same(message, other) for other in places), (
            "order changed, or something was invented"
        )


def rules_of(messages: Sequence[ModelMessage]) -> list[SystemMessage]:
    return [message for message in messages if isinstance(message, SystemMessage)]


def check_request(made: CompactionPlan, history: tuple[ModelMessage, ...]) -> None:
    """The request and its answer fit, or instructions and answer alone are too much."""
    room = made.request_tokens_max - made.summary_tokens_max
    bare = size(summary_request(replace(made, kept_from=0, request_tokens_max=0), ()), made.estimate)
    assert size(summary_request(made, history), made.estimate) <= max(room, bare + MATERIAL_TOKENS_MIN)


def is_same(message: ModelMessage, other: ModelMessage) -> bool:
    """Equal, or the same results, some of them shortened."""
    if not isinstance(message, ToolMessage) or not isinstance(other, ToolMessage):
        return message == other
    return [part.tool_call_id for part in message.content if isinstance(part, ToolResultPart)] == [
        part.tool_call_id for part in other.content if isinstance(part, ToolResultPart)
    ]


def check_stable(
    after: tuple[ModelMessage, ...], settings: CompactionConfig, overhead: int, estimate: Estimate
) -> None:
    assert not should_compact(after, settings, overhead_tokens=overhead, estimate=estimate)
    assert plan(after, settings, overhead_tokens=overhead, estimate=estimate).is_empty


def test_a_session_of_400_steps_in_a_small_window_keeps_its_task_and_its_limit() -> None:
    threshold, overhead = 8000, 1500
    task = "Port the parser to Rust. Keep every test. Never touch the lexer. " * 4
    history: tuple[ModelMessage, ...] = (user(task),)
    settings = config(threshold)
    summaries = trims = most = produced = 0
    for step in range(400):
        made = plan(history, settings, overhead_tokens=overhead, on_compaction=[user(f"todo {step}")])
        assert made.fits
        if made.needs_summary:
            request = summary_request(made, history)
            assert size(request) + made.summary_tokens_max <= threshold
            assert (made.previous_summary is None) == (summaries == 0)
            assert made.previous_summary is None or made.previous_summary in str(request[1].content)
        history = apply(made, history, summary=f"after step {step}: " + "progress. " * 200)
        summaries += made.needs_summary
        trims += bool(made.trimmed_call_ids) and not made.needs_summary
        tokens = input_tokens(history, settings, overhead_tokens=overhead)
        most = max(most, tokens)
        assert tokens <= threshold
        assert user(task) in history
        new = (
            calls(f"c{step}", words="I look."),
            results(**{f"c{step}": f"{step}\n" + "data " * (step * 37 % 700)}),
        )
        produced += size(new)
        history = (*history, *new)
    assert orphans(history) == []
    # Each summary frees a quarter of the threshold or more, so there cannot be many of them.
    assert 0 < summaries <= produced // (threshold // 4)
    assert summaries + trims < 400 // 4
    assert most > threshold // 2
