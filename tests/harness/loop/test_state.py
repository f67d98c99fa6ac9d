"""Loop state: folding all records equals folding from a snapshot."""

import json

from tests.harness.loop.stage import MODIFY, asked, call, calls, interrupt, judge_all, run_asked, says

from windlass_harness.compaction import MessageSums
from windlass_harness.loop.events import RunTool
from windlass_harness.loop.state import LoopState, dump_loop, load_loop
from windlass_protocol import ModelMessage, UserMessage


def test_records_are_folded_one_by_one_or_all_at_once() -> None:
    session = asked(says("hello"))
    session.turn()
    state = LoopState()
    state.apply_all(session.records)
    assert state.seq == len(session.records)
    assert state.run is None


def test_a_snapshot_that_cannot_be_read_is_no_state() -> None:
    assert load_loop(b"a snapshot of something else") is None


def test_a_turn_without_a_step_has_the_place_of_its_first() -> None:
    session = asked()
    session.tell(run_asked())
    assert session.state.place()["step_index"] == 0


def test_a_call_that_a_policy_changed_is_run_again_as_it_was_changed() -> None:
    before = asked(calls(call("look", "c1", wild=True)))
    judge_all(before, MODIFY)
    after = interrupt(before, len(before.records))
    (judged,) = judge_all(after, MODIFY)
    assert judged.input == {"safe": True}
    (effect,) = (one for one in after.turn() if isinstance(one, RunTool))
    assert effect.arguments == {"safe": True}
    assert after.records[-1].data["arguments"] == {"safe": True}


def test_a_session_without_a_history_has_not_answered() -> None:
    session = asked(calls(call("look")))
    session.write("context.cleared", {})
    assert not session.state.has_answered


def test_a_long_history_is_dumped_in_parts_and_read_back() -> None:
    session = asked(says("hello"))
    session.turn()
    state = LoopState()
    state.apply_all(session.records)
    state.session.history.messages += [UserMessage(content=f"message {number}") for number in range(600)]
    dump = dump_loop(state)
    parts = [json.loads(line) for line in dump.split(b"\n")[1:]]
    assert [len(part) for part in parts[1:]] == [256, len(state.session.history.messages) - 512]
    loaded = load_loop(dump)
    assert loaded is not None
    assert loaded.session.history.messages == state.session.history.messages
    assert dump_loop(loaded) == dump
    assert load_loop(dump[:-1]) is None, "a part of it is torn"


def test_messages_are_measured_once_as_they_come() -> None:
    state, measured = LoopState(), list[str]()

    def measure(message: ModelMessage) -> int:
        measured.append(str(message.content))
        return 1

    state.size_sums = MessageSums(measure)
    for number in range(3):
        state.session.history.messages.append(UserMessage(content=f"message {number}"))
        state.measure()
    assert measured == ["message 0", "message 1", "message 2"]
    assert state.size_sums.since(0, state.session.history.messages, revision=0) == 3
