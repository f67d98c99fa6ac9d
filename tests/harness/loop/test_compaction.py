"""Compaction in the loop: thresholds, overflow, and requests to compact.

Once for each reason, before the model reads it, and as durably as everything else.
"""

from dataclasses import replace

import pytest
from tests.harness.loop.stage import (
    JsonObject,
    Session,
    World,
    begin_all,
    call,
    calls,
    error,
    interrupt,
    long_call,
    overflow,
    returned,
    run_asked,
    says,
)

from windlass_harness.compaction import MessageSums, estimate_tokens
from windlass_harness.loop.compaction import prompt_tokens
from windlass_harness.loop.events import (
    CallModel,
    CancelRequested,
    Compact,
    CompactionBroken,
    CompactionRequested,
    HistoryCompacted,
    ModelAnswered,
    ModelFailed,
    SessionReleased,
)
from windlass_harness.loop.notes import NO_USAGE_PRICE
from windlass_harness.loop.rules import DEFAULT_RULES, INTERRUPTIONS_MAX, CompactionRule, Rules
from windlass_harness.views.usage import fold_usage
from windlass_protocol import AssistantMessage, ModelMessage, RetryClass, ToolMessage, UserMessage
from windlass_protocol.generated import records

THRESHOLD = 2_000
SMALL = Rules(compaction=CompactionRule(THRESHOLD, 6, THRESHOLD))
SOFT = Rules(compaction=CompactionRule(THRESHOLD, 6))
LONG: list[list[ModelAnswered | ModelFailed]] = [*([long_call(number)] for number in range(12)), [says()]]


def open_compaction(rules: Rules = SMALL, **body: str | JsonObject) -> tuple[Session, Compact]:
    """A session with its first compaction under way."""
    session, world = Session(rules=rules), World(LONG)
    session.tell(run_asked(**body))
    while True:
        session.turn()
        (effect,) = session.under_way.values()
        if isinstance(effect, Compact):
            return session, effect
        session.done(effect, world.perform(session, effect))


def ended(rules: Rules = DEFAULT_RULES) -> Session:
    """A session at rest, with a history that is worth compacting."""
    return World([*LONG[:-1], [replace(says(), usage=None)]]).drive(Session(rules=rules), run_asked())


# when


def test_a_history_is_compacted_before_the_model_reads_too_much() -> None:
    session = World(LONG).drive(Session(rules=SMALL), run_asked())
    assert session.end == "completed"
    at = session.types.index("compaction.requested")
    assert session.types[at - 1 : at + 3] == [
        "action.result",
        "compaction.requested",
        "compaction.completed",
        "step.started",
    ]
    first = session.all("compaction.requested")[0]
    assert first["reason"] == "threshold"
    assert int(str(first["usageInputTokens"])) > THRESHOLD
    for completed in session.all("compaction.completed"):
        assert int(str(completed["inputTokensAfter"])) <= THRESHOLD


def test_every_prompt_is_within_the_threshold_and_has_the_task() -> None:
    session, world = Session(rules=SMALL), World(LONG)
    session.tell(run_asked(message="the task, word for word"))
    while session.end is None:
        session.turn()
        session.pass_ms(10)
        effect = next(iter(session.under_way.values()), None)
        if isinstance(effect, CallModel):
            messages = session.state.session.history.messages
            assert prompt_tokens(session.state, SMALL.compaction) <= THRESHOLD
            assert any(message.content == "the task, word for word" for message in messages)
            assert_whole(messages)
        if effect is not None:
            session.done(effect, world.perform(session, effect))


def assert_whole(messages: list[ModelMessage]) -> None:
    """Every result follows its call."""
    for at, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            assert isinstance(messages[at - 1], AssistantMessage)


def test_a_short_history_is_left_alone() -> None:
    session = World([[calls(call("look"))], [says()]]).drive(Session(rules=SMALL), run_asked())
    assert "compaction.requested" not in session.types


def test_the_token_count_of_the_provider_triggers_a_compaction() -> None:
    script = [[calls(call("look"), tokens=THRESHOLD)], [says()]]
    session = World(script).drive(Session(rules=SOFT), run_asked())
    assert int(str(session.all("compaction.requested")[0]["usageInputTokens"])) > THRESHOLD


def test_instructions_tools_and_the_output_contract_count() -> None:
    rule = CompactionRule(1_000, overhead_tokens=900)
    session = Session(rules=Rules(compaction=rule))
    session.tell(run_asked())
    assert prompt_tokens(session.state, rule) > 900
    wide: JsonObject = {"type": "object", "description": "x" * 800}
    contract: JsonObject = {
        "schemaId": "a",
        "schemaVersion": {"major": 1, "minor": 0, "patch": 0},
        "schema": wide,
    }
    other = Session(rules=Rules(compaction=rule))
    other.tell(run_asked(contract=contract))
    assert prompt_tokens(other.state, rule) - prompt_tokens(session.state, rule) == estimate_tokens(wide)


def test_no_message_is_estimated_twice() -> None:
    seen: list[ModelMessage] = []

    def counted(message: ModelMessage) -> int:
        seen.append(message)
        return 7

    weights, messages = MessageSums(counted), [UserMessage(content=str(number)) for number in range(50)]
    for end in range(51):
        assert weights.since(0, messages[:end], revision=0) == 7 * end
    assert weights.since(48, messages, revision=0) == 14
    assert len(seen) == 50
    assert weights.since(0, messages[:3], revision=1) == 21
    assert len(seen) == 53
    assert weights.since(0, [], revision=1) == 0
    seen.clear()
    assert weights.since(45, messages, revision=2) == 35
    assert len(seen) == 5, "candidates that are not requested are not measured"
    assert weights.since(40, messages, revision=2) == 70
    assert weights.since(50, messages, revision=2) == 0


# usage


def test_a_run_without_tokens_does_not_begin_a_compaction() -> None:
    session, effect = open_compaction(budget={"maxTokens": 5})
    session.done(effect, World(LONG).compact(session.state, effect))
    assert session.turn() == []
    assert session.end == "budget_exhausted"
    script = [[calls(call("look"), tokens=THRESHOLD)], [says()]]
    other = World(script).drive(Session(rules=SMALL), run_asked(budget={"maxTokens": THRESHOLD}))
    assert other.end == "budget_exhausted"
    assert "compaction.requested" not in other.types


# failures


def test_a_compaction_that_fails_is_tried_again_after_a_while() -> None:
    session, effect = open_compaction()
    usage = records.Usage(input_tokens=3, output_tokens=0)
    session.done(effect, CompactionBroken(error(after=5_000), model_id="small", usage=usage))
    failed = session.data("compaction.failed")
    assert (failed["code"], failed["delayMs"]) == ("timeout", 5_000)
    assert session.state.run_notes.usage.input_tokens == 3
    assert fold_usage(session.records).models["small"].usage.input_tokens == 3
    assert session.turn() == []
    assert session.plan().wake_at_ms == session.now.ms + 5_000
    session.pass_ms(5_000)
    assert session.turn() == [effect]
    assert session.types[-1] == "compaction.requested"


@pytest.mark.parametrize(("rules", "end"), [(SOFT, None), (SMALL, "failed")])
def test_without_a_model_long_results_are_shortened_all_the_same(rules: Rules, end: str | None) -> None:
    session, effect = open_compaction(rules)
    world = World(LONG, compactions=[error(RetryClass.NOT_RETRYABLE)])
    assert session.done(effect, world.compact(session.state, effect)) == [
        "compaction.failed",
        "compaction.completed",
    ]
    completed = session.data("compaction.completed")
    assert "summary" not in completed
    assert completed["trimmedCallIds"]
    effects = session.turn()
    assert session.end == end, "it ends if that was not enough"
    assert [type(effect) for effect in effects] == ([CallModel] if end is None else [])


def test_a_history_that_does_not_fit_fails_the_run_with_context_overflow() -> None:
    rules = Rules(compaction=CompactionRule(100, limit=100))
    session = World(LONG).drive(Session(rules=rules), run_asked(message="x" * 4_000))
    assert session.end == "failed"
    run = session.state.session.run
    assert run is not None
    assert run.result is not None
    assert run.result.error is not None
    assert (run.result.error.details or {})["reason"] == "context_overflow"
    assert "limit 100" in run.result.error.message
    assert "threshold" in run.result.error.message
    assert session.types.count("compaction.requested") == 1
    again = World(LONG).drive(session, run_asked("r2", message="short"))
    assert again.types.count("compaction.requested") >= 2, "a new run tries again"
    assert again.end == "completed", "what was said before need not stay word for word"


# crashes


def test_an_interrupted_compaction_is_repeated_a_limited_number_of_times() -> None:
    session, _ = open_compaction()
    for times in range(1, INTERRUPTIONS_MAX + 1):
        session = interrupt(session, len(session.records), epoch=times + 1)
        assert session.types[-1] == "recovery.started"
        effects = session.turn()
        if times < INTERRUPTIONS_MAX:
            assert [effect.key for effect in effects] == ["compact"]
            assert session.all("compaction.failed")[-1]["code"] == "interrupted"
    assert session.end == "failed"
    assert session.all("compaction.failed")[-1]["code"] == "interrupted_too_often"


def test_an_owner_that_lets_go_in_order_is_no_crash() -> None:
    session, _ = open_compaction()
    for times in range(3 * INTERRUPTIONS_MAX):
        assert session.tell(SessionReleased()) == ["compaction.failed"]
        assert session.data("compaction.failed")["code"] == "handed_over"
        session = interrupt(session, len(session.records), epoch=times + 2)
        assert session.types[-1] == "compaction.failed", "nothing was interrupted"
        (effect,) = session.turn()
        assert isinstance(effect, Compact)
    assert session.state.compacting.interruptions == ()


def test_an_owner_breaks_off_nothing_that_is_not_its_own() -> None:
    session, _ = open_compaction()
    after = interrupt(session, len(session.records))
    assert after.tell(SessionReleased()) == []


def test_a_cancelled_run_forgets_its_compaction() -> None:
    session, effect = open_compaction()
    session.tell(CancelRequested("r1"))
    assert session.turn() == []
    session.under_way.clear()
    session.turn()
    assert session.end == "cancelled"
    assert not session.state.compacting.is_due
    assert session.tell(World(LONG).compact(session.state, effect)) == [], "it comes too late"
    assert session.tell(CompactionBroken(error())) == []
    assert session.turn() == []


# a model that refuses


def test_a_prompt_that_is_refused_twice_fails_the_run() -> None:
    script = [*LONG[:6], [overflow(), overflow()]]
    session = World(script).drive(Session(), run_asked())
    assert session.end == "failed"
    run = session.state.session.run
    assert run is not None
    assert run.result is not None
    assert run.result.error is not None
    assert run.result.error.details == {"fault": "context_overflow", "reason": "context_overflow"}
    assert "even after a compaction" in run.result.error.message
    assert session.types.count("compaction.requested") == 1


def test_a_prompt_that_is_refused_is_compacted_wherever_that_is_interrupted() -> None:
    script = [*LONG[:6], [overflow(), long_call(7)], [says()]]
    before = World(script).drive(Session(), run_asked())
    refused = before.types.index("step.retrying")
    for cut in range(refused + 1, len(before.records) + 1):
        world = World([*LONG[:6], [long_call(7)], [says()]])
        after = world.drive(interrupt(before, cut))
        assert after.end == "completed", (cut, after.types)
        assert after.types.count("compaction.completed") == 1, cut


def test_a_refusal_without_anything_to_leave_out_fails_clearly() -> None:
    session = World([[overflow()]]).drive(Session(), run_asked())
    assert session.end == "failed"
    assert session.data("compaction.failed")["code"] == "nothing_to_compact"
    assert session.types.count("step.started") == 1, "the same prompt is not sent once more"
    run = session.state.session.run
    assert run is not None
    assert run.result is not None
    assert run.result.error is not None
    assert "cannot be made shorter. Send a shorter message" in run.result.error.message
    assert (run.result.error.details or {})["reason"] == "context_overflow"


# compaction on request


def test_a_compaction_at_rest_survives_crashes() -> None:
    session = ended()
    session.tell(CompactionRequested())
    session.turn()
    after = interrupt(session, len(session.records))
    World(LONG).drive(after)
    assert after.types[-3:] == ["compaction.failed", "compaction.requested", "compaction.completed"]
    for times in range(1, INTERRUPTIONS_MAX + 1):
        session = interrupt(session, len(session.records), epoch=times + 1)
        session.turn()
    assert session.types[-1] == "compaction.failed"
    assert session.turn() == []
    assert session.end == "completed"


def test_a_requested_compaction_runs_before_the_next_model_call() -> None:
    session = Session()
    session.tell(run_asked(message="x" * 4_000))
    (effect,) = session.turn()
    session.done(effect, long_call(0))
    begin_all(session)
    assert session.tell(CompactionRequested()) == ["compaction.requested"]
    assert session.tell(CompactionRequested()) == [], "one is coming"
    assert session.turn() == [], "not while a call is under way"
    (run,) = session.under_way.values()
    session.done(run, returned("c-0", "x" * 4_000))
    (compacts,) = session.turn()
    assert isinstance(compacts, Compact)
    assert compacts.config.threshold < prompt_tokens(session.state, DEFAULT_RULES.compaction)
    session.done(compacts, World(LONG).compact(session.state, compacts))
    (asks,) = session.turn()
    assert isinstance(asks, CallModel)


def test_a_requested_compaction_runs_after_the_end_of_the_run() -> None:
    session = Session()
    session.tell(run_asked())
    (effect,) = session.turn()
    session.tell(CompactionRequested())
    session.done(effect, says("x" * 8_000))
    assert [one.key for one in session.turn()] == ["compact"]
    assert session.end == "completed"
    assert session.types.count("compaction.requested") == 1


def test_there_is_nothing_to_compact_in_a_new_session() -> None:
    assert Session().tell(CompactionRequested()) == []


# pinned messages of tools


def test_pinned_messages_of_tools_follow_the_summary_and_are_replaced_by_the_next_compaction() -> None:
    session = World(LONG, pinned=["your list: a"]).drive(Session(rules=SMALL), run_asked())
    messages = session.state.session.history.messages
    assert [one.content for one in messages].count("your list: a") == 1


def test_a_summary_without_usage_says_so() -> None:
    session = ended(Rules(compaction=CompactionRule(100, limit=100)))
    session.write(
        "compaction.requested", {"modelId": "m", "usageInputTokens": None, "sequence": 0, "turnId": "turn_0"}
    )
    body = records.CompactionCompleted(model_id="m", sequence=0, turn_id="turn_0")
    session.tell(HistoryCompacted(body, price=NO_USAGE_PRICE))
    assert session.data("compaction.completed")["price"] == {"source": "none", "gap": "no-usage"}


# records of others


def test_records_of_others_are_understood() -> None:
    session = ended(Rules(compaction=CompactionRule(100, limit=100)))
    place: JsonObject = {"sequence": 0, "turnId": "turn_0"}
    session.write("compaction.requested", {"modelId": "m", "usageInputTokens": None, **place})
    assert session.state.compacting.is_open
    session.write("compaction.completed", {"modelId": "m", "inputTokensAfter": 900, **place})
    assert session.state.compacting.tokens_after == 900
    session.write("context.cleared", {})
    assert session.state.compacting.tokens_after == 0
    late = HistoryCompacted(records.CompactionCompleted(model_id="m", sequence=0, turn_id="t"))
    assert session.tell(late) == [], "no caller waits for it"
