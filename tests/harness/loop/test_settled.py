"""Settled steps are folded whole, and to the same state as record by record."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import some
from tests.golden.journal import JOURNALS, read
from tests.harness.loop.test_crash import SCENES, whole
from tests.harness.views.journal import FAILURE, INTERRUPT, Facts, Journal, at, call, sessions, streams

from windlass_harness.loop.settled import fold_settled
from windlass_harness.loop.state import LoopState, dump_loop
from windlass_harness.record import Record
from windlass_harness.views.fold import Gap
from windlass_protocol import FinishReason
from windlass_protocol.limits import INTEGER_MAX

ALLOW: Facts = {
    "decision": "allow",
    "code": "c",
    "reason": "r",
    "policyRefs": [{"kind": "k", "version": "v"}],
}
GOLDEN = sorted(JOURNALS.glob("*/*.gz"))


def told(fold: Callable[[LoopState], None]) -> tuple[object, ...]:
    """Return everything that a fold makes of a new state, or the kind of error that it ends in."""
    state = LoopState()
    try:
        fold(state)
    except Exception as error:  # noqa: BLE001 - the two folds must refuse the same journals
        return (type(error),)
    history = state.session.history
    answer = None if history.unanswered is None else history.unanswered.freeze()
    return dump_loop(state), state.run, history.revision, answer, history.open_calls()


def one_by_one(records: Sequence[Record]) -> Callable[[LoopState], None]:
    def fold(state: LoopState) -> None:
        for record in records:
            state.apply(record)

    return fold


def assert_both_folds_agree(records: Sequence[Record], cuts: Sequence[int] = ()) -> None:
    def in_parts(state: LoopState) -> None:
        for first, end in zip((0, *cuts), (*cuts, len(records)), strict=True):
            state.apply_all(records[first:end])

    assert told(in_parts) == told(one_by_one(records))


# usual steps, with something unusual here and there

Made = tuple[str, Facts, int]
"""The type, the data and the attempt of a record: not validated, as a store reads them."""


def numbered(made: Sequence[Made], epochs: Callable[[int], int] = lambda _: 1) -> list[Record]:
    return [
        Record(
            kind,
            f"2026-01-31T09:{number // 60:02d}:{number % 60:02d}.000Z",
            {**data},  # pyright: ignore[reportArgumentType] - any facts, also unusual ones
            attempt=attempt,
            session_id="s1",
            seq=number + 1,
            epoch=epochs(number),
        )
        for number, (kind, data, attempt) in enumerate(made)
    ]


BEGUN: Sequence[Made] = tuple((one.type, one.data, 1) for one in Journal().begin().records)

USAGES = st.sampled_from(
    [
        {"inputTokens": 5, "outputTokens": 2},
        {"inputTokens": 7, "costMicros": 3, "reasoningTokens": 1},
        {"outputTokens": 2**53 - 2},
        {},
        {"inputTokens": None},
        {"inputTokens": -1},
        {"inputTokens": True, "other": "text"},
    ]
)
USUAL_USAGE = st.just({"inputTokens": 5, "outputTokens": 2})
REASONS = st.sampled_from(["tool-calls", "stop", "length", "other", "error", "content-filter", "new", 1])
OUTPUTS = st.sampled_from(["found", {"a": [1]}, None, 3])
BROKEN: Facts = {"status": "failed", "error": {"code": "invalid_arguments", "message": "no"}}
DENIED: Facts = {"status": "rejected", "error": {"code": "denied", "message": "no"}}
RESULTS: st.SearchStrategy[Facts] = st.sampled_from([{}, {}, {}, BROKEN, DENIED, {"taint": ["private"]}])
QUESTION: Facts = {"requestId": "q", "action": call("c0.0"), "prompt": "?", "display": "text"}
ABOVE: Facts = {"code": "invalid_arguments", "message": "no"}


def strangers(step: int) -> Sequence[tuple[str, Facts]]:
    """Records that no usual step has, about that step and the one before it."""
    place, own, before = at(step), f"c{step}.0", f"c{step - 1}.0"
    return (
        ("message.received", {"message": "steer", "sequence": 0, "turnId": "t0", "delivery": "steer"}),
        ("hook.completed", {"hookId": "h", "point": "before_tool_call", "callId": own}),
        ("hook.completed", {"hookId": "h", "point": "before_run_complete", "vetoed": True}),
        ("step.retrying", {**place, "code": "E", "attempt": 1, "delayMs": 5}),
        ("step.retrying", {**place, "code": "interrupted", "attempt": 1, "delayMs": 5}),
        ("step.failed", {**place, **FAILURE}),
        ("step.completed", {**place, "finishReason": "stop", "usage": {"inputTokens": 1}}),
        ("action.result", {**result(own, "another"), **place}),
        ("action.result", {**result(before, "another"), **place}),
        ("action.result", {**result("never asked"), **place, "error": ABOVE}),
        ("action.started", {**intent(own), **place}),
        ("action.started", {**intent(own), **place, "effect": []}),
        ("action.started", {**intent("never asked"), **place}),
        ("policy.decided", {"callId": own, "decision": INTERRUPT}),
        ("policy.decided", {"callId": own, "decision": {**ALLOW, "decision": "defer", "resumeAfterMs": 9}}),
        ("policy.decided", {"callId": own, "decision": None}),
        ("actions.requested", {"actions": [call(own)], **place}),
        ("actions.requested", {"actions": [call("more")], **at(step + 1)}),
        ("actions.requested", {"actions": [call("more")], **at(step, turn=1)}),
        ("message.completed", {"message": "late", "finishReason": "stop", **at(step - 1)}),
        ("message.completed", {"message": "other", "finishReason": "stop", **at(step, turn=1)}),
        ("message.completed", {"message": None, "parts": [THOUGHT], "finishReason": "stop", **place}),
        ("message.completed", {"message": None, "parts": [part(own)], "finishReason": "stop", **place}),
        ("message.completed", {"message": 1, **place}),
        ("reasoning.completed", {"reasoning": None, **place}),
        ("context.cleared", {}),
        ("compaction.requested", {"reason": "overflow", "usageInputTokens": 9}),
        ("input.requested", {"requests": [{**QUESTION, "action": call(own)}], **place}),
        ("input.requested", {"requests": [{**QUESTION, "action": call("never asked")}], **place}),
        ("turn.completed", {"sequence": 0, "turnId": "t0"}),
        ("run.waiting", {"runId": "r1", "on": "input"}),
        ("run.cancel_requested", {"runId": "r1"}),
        ("run.completed", {"runId": "r1", "output": "done"}),
        ("recovery.effect_found", {"callId": own, "effect": "once", "toolName": "look"}),
        ("recovery.effect_settled", {"callId": own, "choice": "skip"}),
        ("something.new", {"field": 1}),
    )


THOUGHT: Facts = {"type": "reasoning", "text": "So."}


def part(call_id: str) -> Facts:
    return {"type": "tool-call", "toolCallId": call_id, "toolName": "look", "input": {}}


def intent(call_id: str) -> Facts:
    return {"callId": call_id, "toolName": "look", "effect": "once", "idempotencyKey": call_id}


def result(call_id: str, output: object = "found") -> Facts:
    found = {"kind": "tool-result", "callId": call_id, "toolName": "look", "output": output}
    return {"result": found, "status": "completed"}


def step_records(draw: st.DrawFn, step: int, *, is_usual: bool) -> Iterator[tuple[str, Facts]]:
    place = at(step)
    prompt = draw(
        st.sampled_from([{"promptMessageCount": 4}, {}] + [{"promptMessageCount": "4"}] * (not is_usual))
    )
    yield "step.started", {**place, **prompt, "modelId": "m"}
    if draw(st.booleans()):
        meta = draw(st.sampled_from([{}, {"providerMetadata": {"signature": "s"}}]))
        yield "reasoning.completed", {"reasoning": "hm", **place, **meta}
    if draw(st.booleans()):
        text = draw(st.sampled_from(["I look.", "", None]))
        yield "message.completed", {"message": text, "finishReason": "tool-calls", **place}
    ids = [f"c{step}.{number}" for number in range(draw(st.integers(1 if is_usual else 0, 3)))]
    yield "actions.requested", {"actions": [call(one) for one in ids], **place}
    usage = draw(USUAL_USAGE if is_usual else USAGES)
    reason = "tool-calls" if is_usual else draw(REASONS)
    yield "step.completed", {"finishReason": reason, **place, "usage": usage}
    for call_id in draw(st.permutations(ids)):
        yield "policy.decided", {"callId": call_id, "toolName": "look", "decision": ALLOW, **place}
        if is_usual or draw(st.booleans()):
            yield "action.started", {**intent(call_id), **place}
    for call_id in draw(st.permutations(ids)):
        more: Facts = {} if is_usual else draw(RESULTS)
        yield "action.result", {**result(call_id, draw(OUTPUTS)), **place, **more}


@st.composite
def journals(draw: st.DrawFn) -> list[Record]:
    made = [*BEGUN]
    for step in range(draw(st.integers(1, 5))):
        attempt = draw(st.integers(1, 2))
        is_usual = draw(st.integers(0, 2)) > 0
        made += [(*one, attempt) for one in step_records(draw, step, is_usual=is_usual)]
    for _ in range(draw(st.integers(0, 2))):
        where = draw(st.integers(3, len(made)))
        match draw(st.sampled_from(["add", "drop", "swap", "again"])):
            case "add":
                made.insert(where, (*draw(st.sampled_from(strangers(draw(st.integers(1, 4))))), 1))
            case "drop":
                del made[where - 1]
            case "again":
                made.insert(where, made[where - 1])
            case _:
                made[where - 1], made[where - 2] = made[where - 2], made[where - 1]
    others_from = draw(st.integers(0, 2 * len(made)))
    return numbered(made, lambda number: 1 if number < others_from else 2)


@settings(max_examples=some(400))
@given(records=journals(), data=st.data())
def test_steps_with_anything_in_them_are_folded_as_record_by_record(
    records: list[Record], data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(records)), max_size=2).map(sorted))
    assert_both_folds_agree(records, cuts)


@settings(max_examples=some(200))
@given(records=st.one_of(streams(), sessions()))
def test_any_records_are_folded_as_record_by_record(records: list[Record]) -> None:
    assert_both_folds_agree(records)


@pytest.mark.parametrize("name", sorted(SCENES))
def test_scenes_are_folded_as_record_by_record(name: str) -> None:
    assert_both_folds_agree(whole(SCENES[name]).records)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_golden_journals_are_folded_as_record_by_record(path: Path) -> None:
    assert_both_folds_agree(read(path))


# which steps are folded whole


def assert_both_folds_agree_at_each_step(records: Sequence[Record]) -> None:
    """Check the state at the end, and right after the start of each step: later records may hide a fault."""
    starts = [number for number, record in enumerate(records) if record.type == "step.started"]
    for number in (*starts, len(records) - 1):
        assert_both_folds_agree(records[: number + 1])


def usual_step(step: int, usage: Facts | None = None) -> list[Made]:
    place, ids = at(step), (f"c{step}.0", f"c{step}.1")
    judged = [
        one
        for name in ids
        for one in (
            ("policy.decided", {"callId": name, "decision": ALLOW, **place}),
            ("action.started", {**intent(name), **place}),
        )
    ]
    spent: Facts = {} if usage is None else {"usage": usage}
    records: list[tuple[str, Facts]] = [
        ("step.started", {**place, "promptMessageCount": 1}),
        ("reasoning.completed", {"reasoning": "Hm.", **place}),
        ("message.completed", {"message": "I look.", "finishReason": "stop", **place}),
        ("actions.requested", {"actions": [call(name) for name in ids], **place}),
        ("step.completed", {"finishReason": "tool-calls", **place, **spent}),
        *judged,
        *(("action.result", {**result(name), **place}) for name in reversed(ids)),
    ]
    return [(*one, 1) for one in records]


LENGTH = len(usual_step(0))
COMPLETED, STARTED = 4, 6
"""The places of `step.completed` and of the first `action.started` in a usual step."""
SECOND = len(BEGUN) + LENGTH
"""The index of the second step."""


def usual(*usages: Facts | None) -> list[Made]:
    return [*BEGUN, *(one for step, usage in enumerate(usages) for one in usual_step(step, usage))]


FOUR = (None, {"inputTokens": 5}, {"inputTokens": 6, "costMicros": 2}, None)


def folded_whole(records: Sequence[Record], first: int) -> int:
    """Return how many records from an index on are folded whole."""
    state = LoopState()
    for record in records[:first]:
        state.apply(record)
    return fold_settled(state, records, first) - first


def test_usual_steps_are_folded_whole_up_to_the_newest_step() -> None:
    records = numbered(usual(*FOUR))
    assert folded_whole(records, len(BEGUN)) == 3 * LENGTH
    assert_both_folds_agree_at_each_step(records)


@pytest.mark.parametrize("stranger", strangers(1), ids=lambda one: one[0])
def test_a_step_with_another_record_in_it_is_left_to_the_fold_of_records(
    stranger: tuple[str, Facts],
) -> None:
    for where in range(SECOND, SECOND + LENGTH + 1):
        made = usual(*FOUR)
        made.insert(where, (*stranger, 1))
        assert_both_folds_agree_at_each_step(numbered(made))
    made = usual(*FOUR)
    made.insert(SECOND + STARTED, (*stranger, 1))
    assert folded_whole(numbered(made), len(BEGUN)) == LENGTH


@pytest.mark.parametrize("code", ["context_overflow", "interrupted", "E"])
def test_the_answer_of_a_settled_step_ends_what_a_failed_call_left(code: str) -> None:
    left: list[tuple[str, Facts]] = [
        ("step.retrying", {**at(8), "code": code, "attempt": 1, "delayMs": 5}),
        ("step.started", at(9)),
        ("turn.completed", {"sequence": 0, "turnId": "t0"}),
    ]
    made = [*BEGUN, *((*one, 1) for one in left), *usual(*FOUR)[len(BEGUN) :]]
    records = numbered(made)
    assert folded_whole(records, len(BEGUN) + len(left)) == 3 * LENGTH
    assert_both_folds_agree_at_each_step(records)


def test_a_call_that_ended_without_a_result_may_be_asked_again_in_a_settled_step() -> None:
    left: list[tuple[str, Facts]] = [
        ("step.started", at(9)),
        ("actions.requested", {"actions": [call("c0.0")], **at(9)}),
        ("step.completed", {"finishReason": "tool-calls", **at(9)}),
        ("action.started", {**intent("c0.0"), **at(9)}),
        ("turn.completed", {"sequence": 0, "turnId": "t0"}),
    ]
    made = [*BEGUN, *((*one, 1) for one in left), *usual(*FOUR)[len(BEGUN) :]]
    assert_both_folds_agree_at_each_step(numbered(made))


def test_steps_without_a_token_count_keep_the_count_before_them() -> None:
    made = usual({"inputTokens": 5}, None, None)
    made.insert(len(BEGUN) + STARTED, ("something.new", {}, 1))
    assert_both_folds_agree_at_each_step(numbered(made))


@pytest.mark.parametrize("place", [{"turnId": None}, {"turnId": 1}, {"stepIndex": "1"}, {"stepIndex": None}])
def test_a_step_may_have_an_unusual_place(place: Facts) -> None:
    made = usual(*FOUR)
    for number in range(SECOND, SECOND + LENGTH):
        kind, data, attempt = made[number]
        made[number] = kind, {**data, **place}, attempt
    assert_both_folds_agree_at_each_step(numbered(made))
    bare = [one for one in made[SECOND : SECOND + LENGTH] if one[0] in ("step.started", "step.completed")]
    assert_both_folds_agree_at_each_step(numbered([*BEGUN, *bare, *usual_step(2)]))


@pytest.mark.parametrize("where", range(SECOND, SECOND + LENGTH))
def test_a_step_without_one_of_its_records_is_left_to_the_fold_of_records(where: int) -> None:
    made = usual(*FOUR)
    del made[where]
    assert_both_folds_agree_at_each_step(numbered(made))


@pytest.mark.parametrize("where", range(SECOND, SECOND + LENGTH))
def test_records_of_a_step_in_another_order_make_the_same_state(where: int) -> None:
    for other in range(SECOND, SECOND + LENGTH):
        made = usual(*FOUR)
        made.insert(other, made.pop(where))
        assert_both_folds_agree_at_each_step(numbered(made))


@pytest.mark.parametrize("where", range(len(BEGUN), SECOND + 2))
def test_a_change_of_the_owner_is_seen_inside_and_between_steps(where: int) -> None:
    records = numbered(usual(*FOUR), lambda number: 1 if number < where else 2)
    assert_both_folds_agree_at_each_step(records)


@pytest.mark.parametrize("where", range(len(BEGUN) - 1, SECOND + 2))
def test_a_gap_is_found_inside_and_between_steps(where: int) -> None:
    records = numbered(usual(*FOUR))
    del records[where]
    with pytest.raises(Gap):
        LoopState().apply_all(records)


def test_records_of_another_session_are_refused_inside_of_a_step() -> None:
    records = numbered(usual(*FOUR))
    records[SECOND + 3].session_id = "s2"
    with pytest.raises(Gap):
        LoopState().apply_all(records)


@pytest.mark.parametrize(
    "usages",
    [
        [{"outputTokens": INTEGER_MAX - 1}] * 3,
        [{"outputTokens": INTEGER_MAX - 1}, {"outputTokens": 5}, {"outputTokens": -5}, {}],
        [{"inputTokens": 3}, {"outputTokens": 4}, {"costMicros": 5}, None],
        [{"inputTokens": True}, {"inputTokens": None}, {"inputTokens": "3"}, {"new": 1.5}, None],
    ],
)
def test_usage_is_added_up_and_capped_as_record_by_record(usages: Sequence[Facts | None]) -> None:
    assert_both_folds_agree_at_each_step(numbered(usual(*usages)))


@pytest.mark.parametrize("reason", [*FinishReason, "new", None])
def test_a_step_may_end_for_any_reason(reason: str | None) -> None:
    made = usual(*FOUR)
    kind, data, attempt = made[SECOND + COMPLETED]
    assert kind == "step.completed"
    made[SECOND + COMPLETED] = kind, {**data, "finishReason": reason}, attempt
    assert_both_folds_agree_at_each_step(numbered(made))


@pytest.mark.parametrize(
    "more", [BROKEN, DENIED, {"taint": ["private"]}, {"taint": ["private_data"]}, {"status": "new"}]
)
def test_a_result_may_be_a_failure_a_refusal_or_tainted(more: Facts) -> None:
    for where in (SECOND - 1, SECOND + LENGTH - 1):
        made = usual(*FOUR)
        kind, data, attempt = made[where]
        made[where] = kind, {**data, **more}, attempt
        assert_both_folds_agree_at_each_step(numbered(made))


@pytest.mark.parametrize(
    "more", [{"effect": "new"}, {"effect": []}, {"toolName": None}, {"idempotencyKey": 1}]
)
def test_an_intent_may_be_unusual(more: Facts) -> None:
    made = usual(*FOUR)
    kind, data, attempt = made[SECOND + STARTED]
    assert kind == "action.started"
    made[SECOND + STARTED] = kind, {**data, **more}, attempt
    assert_both_folds_agree_at_each_step(numbered(made))


@pytest.mark.parametrize(
    "more", [{"promptMessageCount": None}, {"promptMessageCount": "1"}, {"stepIndex": "1"}]
)
def test_a_start_may_be_unusual(more: Facts) -> None:
    made = usual(*FOUR)
    kind, data, attempt = made[SECOND]
    made[SECOND] = kind, {**data, **more}, attempt
    assert_both_folds_agree_at_each_step(numbered(made))
    for count in (2, 3):  # the newest count is of a step that names none
        made = usual(*[{"inputTokens": 5}] * count)
        for number, (kind, data, attempt) in enumerate(made):
            if kind == "step.started":
                made[number] = kind, {name: data[name] for name in ("turnId", "stepIndex")}, attempt
        assert_both_folds_agree_at_each_step(numbered(made))
