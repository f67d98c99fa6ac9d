"""Usual steps in one pass: the same records and the same state as `take`, `advance` and the fold."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue
from tests.depth import some
from tests.harness.loop.stage import (
    ALLOW,
    ASK,
    CONSENT,
    DEFER,
    DENY,
    ENDS,
    MODIFY,
    STOP,
    Session,
    call,
    error,
    failure,
    hash_of,
    interrupt,
    judged,
    returned,
    run_asked,
    says,
)
from tests.harness.views.journal import FIELDS, RECORDS, Facts, Journal, at, request

from windlass_harness.loop import usual
from windlass_harness.loop.events import (
    ApprovalRequest,
    CallJudged,
    CallModel,
    CallRefused,
    CallReturned,
    CancelRequested,
    CheckOutput,
    Compact,
    CompactionBroken,
    Delegation,
    Draft,
    Effect,
    JudgeCall,
    LoopEvent,
    MessageSent,
    ModelAnswered,
    Note,
    OutputChecked,
    RunTool,
    StateChange,
)
from windlass_harness.loop.rules import CompactionRule, RequestedCall, Rules
from windlass_harness.loop.state import LoopState, dump_loop
from windlass_harness.record import number, to_wire
from windlass_harness.views.listing import RUN_STATUSES
from windlass_protocol import ActionStatus, EffectClass, FinishReason, JsonObject, PolicyDecision, RetryClass

Decide = Callable[[JudgeCall], CallJudged | CallRefused]


class Passes(Session):
    """A session that takes usual steps in one pass, as the driver does."""

    taken: list[str]
    """Records that were made in one pass, by type."""

    def take_usual(self, effect: Effect, event: LoopEvent, decide: Decide) -> bool:
        """Take the event of the only effect under way; return False if it was left to the general path."""
        state, now, rules = self.state, self.now, self.rules
        if len(self.under_way) != 1 or not usual.is_usual(state, rules):
            return False
        before = dump_loop(state)
        if isinstance(event, ModelAnswered):
            asked = usual.requested_call(state, event, now=now, rules=rules)
            decided = None if asked is None else decide(asked)
            drafts = (
                usual.begin_call(state, event, decided, now=now) if isinstance(decided, CallJudged) else None
            )
            assert dump_loop(state) == before, "a draft changed the state"
            if drafts is None:
                return False
            self._number(drafts)
            self._go_on(effect, usual.fold_begun_call(state, drafts, event))
            return True
        result = usual.end_call(state, event, now=now) if isinstance(event, CallReturned) else None
        assert dump_loop(state) == before, "a draft changed the state"
        if result is None:
            return False
        assert isinstance(event, CallReturned)
        self._number([result])
        usual.fold_ended_call(state, result, event)
        del self.under_way[effect.key]
        before = dump_loop(state)
        start = usual.begin_step(state, now=now, rules=rules)
        assert dump_loop(state) == before, "a draft changed the state"
        if start is not None:
            self._number([start])
            self._go_on(None, usual.fold_begun_step(state, start))
        return True

    def _number(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            self.records.append(number(draft, "s1", seq=len(self.records) + 1, epoch=self.epoch))
            self.taken.append(draft.type)

    def _go_on(self, done: Effect | None, effect: Effect) -> None:
        if done is not None:
            del self.under_way[done.key]
        self.under_way[effect.key] = effect


class Twins:
    """One history, driven with and without the single pass; both must be the same after every event."""

    def __init__(self, rules: Rules, body: JsonObject) -> None:
        self.general = Session(rules=rules)
        self.passes = Passes(rules=rules)
        self.passes.taken = []
        self.tell(run_asked(**body))

    @property
    def under_way(self) -> dict[str, Effect]:
        return self.general.under_way

    def tell(self, event: LoopEvent) -> None:
        for one in (self.general, self.passes):
            one.tell(event)

    def done(self, effect: Effect, event: LoopEvent, decide: Decide) -> None:
        """End an effect; calls that are to be judged are judged at once."""

        said: list[CallJudged | CallRefused] = []

        def noted(asked: JudgeCall) -> CallJudged | CallRefused:
            said.append(decide(asked))
            return said[-1]

        is_taken = self.passes.take_usual(effect, event, noted)
        if not is_taken:
            self.passes.done(effect, event)
        self.general.done(effect, event)
        # Both sides get the same decision.
        self.settle(lambda asked: said.pop() if said else decide(asked))

    def settle(self, decide: Decide) -> None:
        """Plan and judge on both sides until both wait for an effect."""
        self.general.turn()
        self.passes.turn()
        while any(isinstance(one, JudgeCall) for one in self.general.under_way.values()):
            for effect in [one for one in self.general.under_way.values() if isinstance(one, JudgeCall)]:
                decision = decide(effect)
                self.general.done(effect, decision)
                if effect.key in self.passes.under_way:
                    self.passes.done(effect, decision)
            self.general.turn()
            self.passes.turn()
        self.compare()

    def crash(self) -> None:
        taken = self.passes.taken
        self.general, found = (
            interrupt(one, len(one.records), epoch=one.epoch + 1) for one in (self.general, self.passes)
        )
        self.passes = Passes(found.records, epoch=found.epoch, rules=found.rules, ms=found.ms)
        self.passes.taken = taken

    def compare(self) -> None:
        general, passes = self.general, self.passes
        assert [to_wire(one) for one in passes.records] == [to_wire(one) for one in general.records]
        assert [[*one.data] for one in passes.records] == [[*one.data] for one in general.records]
        assert dump_loop(passes.state) == dump_loop(general.state)
        assert passes.under_way == general.under_way
        assert [*passes.under_way] == [*general.under_way]
        assert passes.state.session.history.revision == general.state.session.history.revision


# generated histories

CONTENT: JsonObject = {
    "contentId": "c",
    "hash": hash_of("c"),
    "sizeBytes": 1,
    "mediaType": "text/plain",
}

INPUTS = st.sampled_from([{}, {"n": 1}, {"n": [{"deep": "x"}]}, "no json", None])
CALLS = st.builds(
    RequestedCall,
    st.sampled_from(["a", "a", "b", "x" * 128]),
    st.sampled_from(["look", "send"]),
    INPUTS,
    st.sampled_from([None, None, None, None, "child"]),
)
NOTE = Note("hook.completed", {"hookId": "h", "point": "p", "status": "completed", "durationMs": 1})
NOTES = st.sampled_from([(), (), (), (NOTE,)])
ANSWERS = st.builds(
    ModelAnswered,
    st.sampled_from(["", "", "words"]),
    st.sampled_from([FinishReason.TOOL_CALLS, FinishReason.TOOL_CALLS, *FinishReason]),
    st.one_of(
        CALLS.map(lambda one: (one,)),
        CALLS.map(lambda one: (one,)),
        CALLS.map(lambda one: (one,)),
        st.lists(CALLS, max_size=3, unique_by=lambda one: one.call_id).map(tuple),
    ),
    reasoning=st.sampled_from(["", "", "hm"]),
    provider_data=st.sampled_from([None, None, None, {"me": 1}]),
    usage=st.sampled_from([None, {}, {"inputTokens": 3, "costMicros": 1}, {"outputTokens": 2}]),
    latency_ms=st.sampled_from([None, 0, 7]),
    queued_ms=st.sampled_from([None, None, 4]),
    notes=NOTES,
)
MODEL = st.one_of(ANSWERS, ANSWERS, ANSWERS, ANSWERS, st.builds(failure, st.sampled_from(RetryClass)))
DECISIONS = st.sampled_from([ALLOW, ALLOW, ALLOW, ALLOW, ALLOW, CONSENT, ASK, DENY, MODIFY, STOP, DEFER])
RETURNS = st.builds(
    CallReturned,
    st.just(""),
    st.sampled_from([ActionStatus.COMPLETED, ActionStatus.COMPLETED, ActionStatus.COMPLETED, *ActionStatus]),
    st.sampled_from(["found", "", None, {"a": [1, {"b": None}]}, 7, True]),
    code=st.sampled_from(["", "unknown_tool"]),
    content=st.sampled_from([None, None, CONTENT]),
    duration_ms=st.sampled_from([None, 3]),
    taint=st.sampled_from([(), (), (), ("private",)]),
    state=st.sampled_from([None, None, None, StateChange({"count": 1}, ())]),
    notes=NOTES,
)
BODIES: st.SearchStrategy[JsonObject] = st.fixed_dictionaries(
    {},
    optional={
        "budget": st.sampled_from(
            [{"maxSteps": 3}, {"maxToolCalls": 2}, {"maxTokens": 7}, {"maxWallMs": 5_000}, {"maxSteps": 99}]
        ),
        "mode": st.just("task"),
        "modelId": st.just("m-1"),
    },
)
RULES = st.builds(
    Rules,
    refusals_max=st.sampled_from([0, 5]),
    steps_max=st.sampled_from([3, 100]),
    calls_per_step_max=st.sampled_from([0, 1, 64]),
    compaction=st.sampled_from([CompactionRule(), CompactionRule(30, 2), CompactionRule(30, 2, 30)]),
)


def outcome(data: st.DataObject, effect: Effect) -> LoopEvent:
    match effect:
        case CallModel():
            return data.draw(MODEL)
        case RunTool():
            return replace(data.draw(RETURNS), call_id=effect.call_id)
        case CheckOutput():
            return OutputChecked({})
        case _:
            assert isinstance(effect, Compact)
            return CompactionBroken(error(RetryClass.NOT_RETRYABLE))


@settings(max_examples=some(300))
@given(data=st.data(), body=BODIES, rules=RULES)
def test_generated_histories_are_the_same_in_one_pass(
    data: st.DataObject, body: JsonObject, rules: Rules
) -> None:
    def decide(asked: JudgeCall) -> CallJudged | CallRefused:
        decision = data.draw(DECISIONS)
        if not isinstance(asked.input, dict):
            return CallRefused(asked.call_id, "invalid_arguments", "no object")
        found = judged(asked, decision, kind=data.draw(st.sampled_from(EffectClass)))
        if data.draw(st.sampled_from([False, False, False, True])):
            found = replace(found, arguments={"n": 2}, arguments_hash=hash_of({"n": 2}))
        if decision is ALLOW and data.draw(st.sampled_from([False, False, False, False, True])):
            body: JsonObject = {"agentId": "child", "message": "help", "mode": "task"}
            return replace(found, delegation=Delegation("child", body))
        return replace(found, approval_request=ApprovalRequest("?"), notes=data.draw(NOTES))

    twins = Twins(rules, body)
    twins.settle(decide)
    for move in range(data.draw(st.integers(1, 20))):
        if twins.general.state.run is None:
            break
        match data.draw(st.sampled_from(["done"] * 8 + ["message", "crash", "time", "cancel"])):
            case "done" if twins.under_way:
                keys = sorted(twins.under_way)
                effect = twins.under_way[data.draw(st.sampled_from(keys))]
                twins.done(effect, outcome(data, effect), decide)
            case "message":
                twins.tell(MessageSent({"message": "and this", "messageId": f"m{move}"}))
                twins.settle(decide)
            case "crash":
                twins.crash()
                twins.settle(decide)
            case "time":
                for one in (twins.general, twins.passes):
                    one.pass_ms(data.draw(st.just(2_000)))
                twins.settle(decide)
            case "cancel" if data.draw(st.sampled_from([False, False, True])):
                twins.tell(CancelRequested("r1"))
                twins.settle(decide)
            case _:
                pass
        twins.compare()


Strange = tuple[tuple[str, Facts], Facts]


@settings(max_examples=some(500))
@given(
    data=st.data(),
    strange=st.lists(st.tuples(RECORDS, FIELDS), max_size=3),
    is_called=st.booleans(),
    epoch=st.sampled_from([1, 1, 1, 2]),
    rules=RULES,
)
def test_an_event_in_any_state_is_taken_the_same_in_one_pass_or_left(
    data: st.DataObject, strange: list[Strange], is_called: bool, epoch: int, rules: Rules
) -> None:
    """Other releases may leave records in any order; the single pass must not take what it does not know."""
    journal = Journal().begin().start(0)
    if is_called:
        journal.ask("c0").end(0).run("c0")
    for record in journal.records:
        record.epoch, record.run_id = 1, "r1"
    for (kind, facts), fields in strange:
        # A history in which the run ended before is refused by the test bed.
        assume(kind not in ENDS)
        journal.add(kind, facts, **{"epoch": 1, **fields})

    def decide(asked: JudgeCall) -> CallJudged | CallRefused:
        if not isinstance(asked.input, dict):
            return CallRefused(asked.call_id, "invalid_arguments", "no object")
        return judged(asked)

    twins = Twins(rules, {})
    records = journal.records
    twins.general = Session(records, epoch=epoch, rules=rules, ms=9_000_000)
    twins.passes = Passes(records, epoch=epoch, rules=rules, ms=9_000_000)
    twins.passes.taken = []
    effect = RunTool("c0", "look", {}, "k", 0, 1) if is_called else CallModel(0, 1)
    for one in (twins.general, twins.passes):
        one.under_way[effect.key] = effect
    event = replace(data.draw(RETURNS), call_id="c0") if is_called else data.draw(ANSWERS)
    if not twins.passes.take_usual(effect, event, decide):
        return
    twins.general.done(effect, event)
    twins.settle(decide)


# what is usual


def allow(asked: JudgeCall) -> CallJudged:
    return judged(asked)


def one_call(step: int, **arguments: JsonValue) -> ModelAnswered:
    return ModelAnswered("", FinishReason.TOOL_CALLS, (call("look", f"c{step}", **arguments),))


def ask_on(twins: Twins, *events: LoopEvent) -> None:
    for event in events:
        (effect,) = twins.under_way.values()
        twins.done(effect, event, allow)


def test_each_usual_step_is_taken_in_one_pass_up_to_the_last_answer() -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    for step in range(3):
        ask_on(twins, one_call(step, n=step), returned(f"c{step}", {"found": [step]}))
    ask_on(twins, says())
    step = ["actions.requested", "step.completed", "policy.decided", "action.started"]
    assert twins.passes.taken == [*step, "action.result", "step.started"] * 3
    assert twins.general.end == "completed"


MORE: list[dict[str, JsonValue]] = [
    {"text": "I look."},
    {"reasoning": "hm"},
    {"usage": {"inputTokens": 9}},
    {"latency_ms": 5},
    {"queued_ms": 4},
]


@pytest.mark.parametrize("more", MORE)
def test_an_answer_with_text_reasoning_or_usage_is_usual(more: dict[str, JsonValue]) -> None:
    twins = Twins(Rules(), {"modelId": "m-1"})
    twins.settle(allow)
    ask_on(twins, replace(one_call(0), **more), returned("c0"))
    assert twins.passes.taken[-2:] == ["action.result", "step.started"]


def test_arguments_that_validation_changed_are_in_the_intent() -> None:
    def completes(asked: JudgeCall) -> CallJudged:
        return replace(judged(asked), arguments={"n": 1, "all": True})

    twins = Twins(Rules(), {})
    twins.settle(completes)
    (effect,) = twins.under_way.values()
    twins.done(effect, one_call(0, n=1), completes)
    assert twins.passes.taken[-1] == "action.started"
    assert twins.passes.data("action.started")["arguments"] == {"n": 1, "all": True}


UNUSUAL_ANSWERS = [
    replace(one_call(0), calls=(call("look", "c0"), call("look", "c1"))),
    replace(one_call(0), provider_data={"me": 1}),
    replace(one_call(0), finish_reason=FinishReason.ERROR),
    replace(one_call(0), calls=(RequestedCall("c0", "child", {}, "child"),)),
]


@pytest.mark.parametrize("answer", UNUSUAL_ANSWERS)
def test_an_unusual_answer_is_left_to_the_general_functions(answer: ModelAnswered) -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    ask_on(twins, answer)
    assert twins.passes.taken == []


@pytest.mark.parametrize("decision", [DENY, MODIFY, STOP])
def test_a_call_that_is_not_simply_allowed_is_left_to_the_general_functions(decision: PolicyDecision) -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    (effect,) = twins.under_way.values()
    twins.done(effect, one_call(0), lambda asked: judged(asked, decision))
    assert twins.passes.taken == []


def test_a_decision_with_notes_is_left_to_the_general_functions() -> None:
    def noted(asked: JudgeCall) -> CallJudged:
        return replace(judged(asked), notes=(NOTE,))

    twins = Twins(Rules(), {})
    twins.settle(noted)
    (effect,) = twins.under_way.values()
    twins.done(effect, one_call(0), noted)
    assert twins.passes.taken == []
    assert "hook.completed" in twins.passes.types


def test_a_call_over_the_limit_of_calls_is_left_to_the_general_functions() -> None:
    twins = Twins(Rules(calls_per_step_max=0), {})
    twins.settle(allow)
    ask_on(twins, one_call(0))
    assert twins.passes.taken == []
    assert twins.general.end == "failed"


def test_what_hooks_of_an_earlier_owner_left_is_dropped_by_the_next_step() -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    ask_on(twins, one_call(0))
    for one in (twins.general, twins.passes):
        one.state.run_notes.hooked.points.add("before_run_complete")
        one.state.run_notes.hooked.arguments["c0"] = {"n": 1}
        one.state.run_notes.is_validated, one.state.run_notes.structured = True, {"n": 1}
    ask_on(twins, returned("c0"))
    assert twins.passes.taken[-1] == "step.started"
    assert not twins.passes.state.run_notes.hooked.arguments


def test_arguments_that_a_hook_of_an_earlier_owner_changed_are_left_to_the_general_functions() -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    twins.passes.state.run_notes.hooked.arguments["c0"] = {"n": 1}
    asked = usual.requested_call(twins.passes.state, one_call(0), now=twins.passes.now, rules=Rules())
    assert asked is None


UNUSUAL_RESULTS = [
    replace(returned("c0"), notes=(NOTE,)),
    CallReturned("c0", ActionStatus.FAILED, None, code="failed", message="no"),
    replace(returned("c0"), taint=("private",)),
    replace(returned("c0"), state=StateChange({"count": 1}, ())),
]


@pytest.mark.parametrize("result", UNUSUAL_RESULTS)
def test_an_unusual_result_is_left_to_the_general_functions(result: CallReturned) -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    ask_on(twins, one_call(0), result)
    assert twins.passes.taken[-1] == "action.started"


def test_a_report_of_a_subagent_is_left_to_the_general_functions() -> None:
    body: JsonObject = {"agentId": "child", "message": "help", "mode": "task"}

    def delegates(asked: JudgeCall) -> CallJudged:
        return replace(judged(asked), delegation=Delegation("child", body))

    twins = Twins(Rules(), {})
    twins.settle(delegates)
    (effect,) = twins.under_way.values()
    twins.done(effect, one_call(0), delegates)
    assert usual.end_call(twins.passes.state, returned("c0"), now=twins.passes.now) is None


def test_a_result_with_content_and_without_a_duration_is_usual() -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    ask_on(twins, one_call(0), replace(returned("c0"), content=CONTENT, duration_ms=None))
    assert twins.passes.taken[-1] == "step.started"


@pytest.mark.parametrize(
    ("rules", "body"),
    [
        (Rules(steps_max=1), {}),
        (Rules(), {"budget": {"maxSteps": 1}}),
        (Rules(compaction=CompactionRule(1, 2)), {}),
    ],
)
def test_a_result_after_which_no_model_call_is_due_is_taken_alone(rules: Rules, body: JsonObject) -> None:
    twins = Twins(rules, body)
    twins.settle(allow)
    (effect,) = twins.under_way.values()
    if isinstance(effect, Compact):
        twins.done(effect, CompactionBroken(error(RetryClass.NOT_RETRYABLE)), allow)
    ask_on(twins, one_call(0), returned("c0", "x" * 100))
    assert twins.passes.taken[-1] == "action.result"


def test_a_call_beyond_the_budget_is_left_to_the_general_functions() -> None:
    twins = Twins(Rules(), {"budget": {"maxToolCalls": 1}})
    twins.settle(allow)
    ask_on(twins, one_call(0), returned("c0"), one_call(1))
    assert twins.passes.taken.count("action.started") == 1
    assert twins.general.end == "budget_exhausted"


def test_an_answer_ends_what_failed_attempts_of_its_step_left() -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    for one in (twins.general, twins.passes):
        one.state.compacting.has_overflowed = True
        one.state.run_notes.interruptions = 2
        one.state.run_notes.failures = 1
        one.state.run_notes.refusals = 3
    ask_on(twins, one_call(0), returned("c0"))
    assert twins.passes.taken[-1] == "step.started"


def test_the_last_result_of_two_calls_is_left_to_the_general_functions() -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    ask_on(twins, UNUSUAL_ANSWERS[0])
    for effect in [*twins.under_way.values()]:
        assert isinstance(effect, RunTool)
        twins.done(effect, returned(effect.call_id), allow)
    assert twins.passes.taken == []
    assert twins.general.types[-1] == "step.started"


def test_the_result_of_a_call_settles_an_earlier_one_of_the_same_id() -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    ask_on(twins, one_call(0))
    for one in (twins.general, twins.passes):
        one.state.session.history._unsettled["c0"] = None  # pyright: ignore[reportPrivateUsage] - set by a crash
    ask_on(twins, returned("c0"))
    assert twins.passes.taken[-1] == "step.started"
    assert twins.passes.state.session.history.freeze().unsettled == ()


def test_too_many_refusals_are_left_to_the_general_functions() -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    ask_on(twins, one_call(0))
    for one in (twins.general, twins.passes):
        one.state.run_notes.refusals = 9
    ask_on(twins, returned("c0"))
    assert twins.passes.taken[-1] == "action.result"
    assert twins.general.end == "failed"


def test_a_call_that_the_run_cancels_meanwhile_is_left_to_the_general_functions() -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    ask_on(twins, one_call(0))
    twins.tell(CancelRequested("r1"))
    twins.settle(allow)
    ask_on(twins, returned("c0"))
    assert twins.passes.taken[-1] == "action.started"
    assert twins.general.end == "cancelled"


def test_a_step_of_another_owner_is_left_to_the_general_functions() -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    twins.passes.state.epoch += 1
    assert not usual.is_usual(twins.passes.state, Rules())


def test_rules_with_hooks_leave_every_step_to_the_general_functions() -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    assert usual.is_usual(twins.passes.state, Rules())
    assert not usual.is_usual(twins.passes.state, Rules(hook_points=frozenset({"before_tool_call"})))


def test_a_step_after_a_crash_is_usual_again() -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    ask_on(twins, one_call(0))
    twins.crash()
    twins.settle(allow)
    ask_on(twins, returned("c0"), one_call(1), returned("c1"))
    assert twins.passes.taken.count("action.started") == 2


def test_a_message_during_a_call_is_left_to_the_general_functions() -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    ask_on(twins, one_call(0))
    twins.tell(MessageSent({"message": "and this", "messageId": "m"}))
    twins.settle(allow)
    ask_on(twins, returned("c0"))
    assert twins.passes.taken[-1] == "action.started"


@pytest.mark.parametrize(
    "journal",
    [
        Journal().begin().start(0).ask("c0"),
        Journal().begin().start(0).ask("c0").run("c0"),
        Journal().begin().start(0).ask("c0").end(0),
    ],
    ids=["unanswered", "begun before the end of its answer", "not begun"],
)
def test_a_result_of_a_call_that_this_owner_has_not_begun_is_left_to_the_general_functions(
    journal: Journal,
) -> None:
    assert usual.end_call(state_after(journal), returned("c0"), now=Session().now) is None


def test_usual_records_leave_the_status_of_a_run_as_it_is() -> None:
    twins = Twins(Rules(), {})
    twins.settle(allow)
    ask_on(twins, replace(one_call(0), text="x", reasoning="y"), returned("c0"))
    assert not RUN_STATUSES.keys() & {*twins.passes.taken}


CHILD_ASKS = {
    "requests": [request("q0", "c9")],
    "childSessionId": "s2",
    "childRunId": "r2",
    **at(),
}
ALLOWED = {
    "stage": "pre_tool",
    "callId": "c0",
    "toolName": "look",
    "decision": ALLOW.model_dump(mode="json", by_alias=True),
    **at(),
}


def state_after(journal: Journal) -> LoopState:
    state = LoopState()
    for record in journal.records:
        record.epoch = 1
        state.apply(record)
    state.epoch = 1
    return state


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("run.waiting", {"runId": "r1", "on": "input"}),
        ("input.requested", CHILD_ASKS),
        ("input.requested", {"requests": [request("q0", "c9")], **at()}),
        ("run.cancel_requested", {"runId": "r1"}),
    ],
)
def test_a_run_that_waits_or_is_cancelled_is_not_usual(kind: str, data: Facts) -> None:
    assert usual.is_usual(state_after(Journal().begin().start(0)), Rules())
    assert not usual.is_usual(state_after(Journal().begin().start(0).add(kind, data)), Rules())


@pytest.mark.parametrize(
    "journal",
    [
        Journal().begin().start(0).ask("c0"),
        Journal().begin().start(0).ask("c0").end(0),
        Journal().begin().start(0).end(0),
        Journal().begin().start(0).add("policy.decided", ALLOWED),
        Journal().begin(),
    ],
    ids=[
        "calls before its end",
        "answered",
        "answered without calls",
        "decided before it was requested",
        "no step",
    ],
)
def test_an_answer_that_does_not_belong_to_the_open_step_is_left_to_the_general_functions(
    journal: Journal,
) -> None:
    state, now = state_after(journal), Session().now
    assert usual.requested_call(state, one_call(7), now=now, rules=Rules()) is None
