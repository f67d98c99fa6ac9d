"""Invariants of the loop under random events.

Valid records, one end, and no effect without its intent.
"""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import some
from tests.harness.loop.stage import (
    ALLOW,
    ASK,
    CONTRACT,
    DEFER,
    DENY,
    ENDS,
    MODIFY,
    STOP,
    JsonObject,
    Session,
    asked,
    bad,
    error,
    failure,
    hash_of,
    interrupt,
    run_asked,
)
from tests.harness.loop.test_crash import SCENES, whole
from tests.harness.views.journal import streams

from windlass_harness.loop.advance import advance
from windlass_harness.loop.events import (
    AnswersGiven,
    ApprovalRequest,
    CallJudged,
    CallModel,
    CallRefused,
    CallReturned,
    CancelRequested,
    CheckOutput,
    Effect,
    JudgeCall,
    LoopEvent,
    ModelAnswered,
    OutputChecked,
    RunTool,
    SessionClaimed,
    Stopped,
)
from windlass_harness.loop.rules import RequestedCall
from windlass_harness.loop.state import LoopState, dump_loop, load_loop
from windlass_harness.record import Record
from windlass_protocol import ActionStatus, EffectClass, FinishReason, InputResponse, RetryClass
from windlass_protocol.generated import records


def fold(records: list[Record], state: LoopState | None = None) -> LoopState:
    state = state or LoopState()
    state.apply_all(records)
    return state


def assert_a_snapshot_changes_nothing(records: list[Record], cut: int) -> None:
    half = load_loop(dump_loop(fold(records[:cut])))
    assert half is not None
    assert half.seq == cut
    assert dump_loop(fold(records[cut:], half)) == dump_loop(fold(records))


@settings(max_examples=60)
@given(name=st.sampled_from(sorted(SCENES)), at=st.floats(0, 1))
def test_a_run_may_go_on_from_a_snapshot_taken_anywhere(name: str, at: float) -> None:
    records = whole(SCENES[name]).records
    assert_a_snapshot_changes_nothing(records, round(at * len(records)))


@given(records=streams(), at=st.floats(0, 1))
def test_any_records_may_be_folded_on_from_a_snapshot(records: list[Record], at: float) -> None:
    assert_a_snapshot_changes_nothing(records, round(at * len(records)))


def test_a_snapshot_that_cannot_be_read_is_none() -> None:
    assert load_loop(b"") is None


# any events in any order

CALL_IDS = st.sampled_from(["a", "b"])
INPUTS = st.sampled_from([{}, {"n": 1}, "no json", None])
ASKED = st.builds(RequestedCall, CALL_IDS, st.sampled_from(["look", "send", "none"]), INPUTS)
ANSWERED = st.builds(
    ModelAnswered,
    st.sampled_from(["", "words"]),
    st.sampled_from(FinishReason),
    st.lists(ASKED, max_size=2, unique_by=lambda one: one.call_id).map(tuple),
    reasoning=st.sampled_from(["", "hm"]),
    is_reasoning_late=st.booleans(),
    provider_data=st.sampled_from([None, {"me": 1}]),
    usage=st.sampled_from([None, records.Usage(input_tokens=3, cost_micros=1)]),
)
MODEL = st.one_of(ANSWERED, st.builds(failure, st.sampled_from(RetryClass)))
DECISIONS = st.sampled_from([ALLOW, ALLOW, ALLOW, ASK, ASK, DENY, MODIFY, STOP, DEFER])
JUDGED = st.builds(
    CallJudged,
    CALL_IDS,
    DECISIONS,
    effect=st.sampled_from(EffectClass).map(str),
    mode=st.just("read"),
    arguments=st.just({"n": 1}),
    arguments_hash=st.just(hash_of({"n": 1})),
    approval_request=st.just(ApprovalRequest("?")),
)
REFUSED = st.builds(
    CallRefused, CALL_IDS, st.sampled_from(["unknown_tool", "invalid_arguments"]), st.just("?")
)
RETURNED = st.builds(CallReturned, CALL_IDS, st.sampled_from(ActionStatus), st.sampled_from(["found", None]))
CHECKED = st.sampled_from([bad(), OutputChecked({})])


def response(
    kind: str, step: int, call_id: str, ask: int, option: str | None, text: str | None
) -> InputResponse:
    request_id = f"{kind}:r1:{step}:{call_id}:{ask}"
    return InputResponse(request_id=request_id, option_id=option, text=text)


RESPONSES = st.builds(
    response,
    st.sampled_from(["approval", "recovery"]),
    st.integers(0, 1),
    CALL_IDS,
    st.integers(1, 2),
    st.sampled_from(["approve", "approve_session", "deny", "retry", "skip", "supply", None]),
    st.sampled_from([None, "words", "{}"]),
)
ANSWERS = st.lists(RESPONSES, max_size=3).map(lambda some: AnswersGiven(tuple(some)))
STRAY: st.SearchStrategy[LoopEvent] = st.one_of(
    MODEL,
    JUDGED,
    REFUSED,
    RETURNED,
    ANSWERS,
    st.just(Stopped(error())),
    st.just(SessionClaimed(9, "recovery")),
)
BODIES: st.SearchStrategy[JsonObject] = st.fixed_dictionaries(
    {},
    optional={
        "budget": st.sampled_from([{"maxSteps": 2}, {"maxToolCalls": 1}, {"maxTokens": 7}]),
        "contract": st.just(CONTRACT),
        "mode": st.just("task"),
    },
)


def outcome(data: st.DataObject, effect: Effect) -> LoopEvent:
    match effect:
        case CallModel():
            return data.draw(MODEL)
        case JudgeCall():
            found = data.draw(st.one_of(JUDGED, JUDGED, JUDGED, REFUSED))
            return replace(found, call_id=effect.call_id)
        case RunTool():
            return replace(data.draw(RETURNED), call_id=effect.call_id)
        case _:
            assert isinstance(effect, CheckOutput)
            return data.draw(CHECKED)


@settings(max_examples=some(150))
@given(data=st.data(), body=BODIES)
def test_under_random_events_records_are_valid_and_a_run_ends_once(
    data: st.DataObject, body: JsonObject
) -> None:
    session = Session()
    session.tell(run_asked(**body))
    for _ in range(data.draw(st.integers(1, 25))):
        match data.draw(st.sampled_from(["turn", "turn", "done", "done", "done", "stray", "time", "crash"])):
            case "turn":
                session.turn()
            case "done" if session.under_way:
                effect = data.draw(
                    st.sampled_from(sorted(session.under_way.values(), key=lambda one: one.key))
                )
                session.done(effect, outcome(data, effect))
            case "stray":
                session.tell(data.draw(STRAY))
            case "time":
                session.pass_ms(data.draw(st.sampled_from([1, 1_000, 100_000])))
            case "crash":
                session = interrupt(session, len(session.records), epoch=session.epoch + 1)
            case _:
                pass
    session.under_way.clear()
    session.tell(CancelRequested("r1"))
    assert session.turn() == []
    assert [kind in ENDS for kind in session.types].count(True) == 1
    assert session.state.run is None
    assert dump_loop(fold(session.records)) == dump_loop(session.state)
    session.tell(run_asked("r2"))
    assert session.turn() == [CallModel(0, 1)], "the session is of use afterwards"


@settings(max_examples=50)
@given(records=streams())
def test_the_loop_accepts_any_history(records: list[Record]) -> None:
    """Other writers may leave anything.

    Planning must not fail because a turn or a step is missing.
    """
    state = fold(records)
    state.epoch = 9
    before = dump_loop(state)
    if state.run is not None and state.session.turn is not None:
        advance(state, frozenset(), now=asked().now)
    assert dump_loop(state) == before
