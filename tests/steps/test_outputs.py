"""Typed output in steps: checked, repaired, or failed."""

import pytest
from tests.steps.steps_rig import Stage, new_session, play, staged

from windlass.errors import Rejected
from windlass.testing import Answer, ScriptedModel, call, say
from windlass_protocol import JsonObject, RunMode, StepInput, SubagentActionResult

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
}
GOOD = say('{"answer": 42}')
BAD = say('{"answer": "many"}')
TASK = RunMode.TASK


def ask(stage: Stage) -> Stage:
    play(stage.send(StepInput(message="How many?", output_schema=SCHEMA)), stage)
    return stage


@pytest.mark.parametrize("bad", [BAD, say("It is 42."), say('{"answer": 4')])
def test_an_output_that_misses_the_schema_is_asked_for_again_with_the_errors(bad: Answer) -> None:
    model = ScriptedModel([bad, GOOD])
    stage = ask(Stage().harness(model, mode=TASK))
    assert stage.done.output == {"answer": 42}
    assert stage.done.is_error is None
    assert "does not fit the required output schema" in model.requests[1].messages[-1].content
    assert [data["attempt"] for data in stage.data("output.rejected")] == [1]
    assert stage.steps == 2


@pytest.mark.parametrize("repairs", [0, 2])
def test_a_task_fails_after_the_repair_limit(repairs: int) -> None:
    stage = ask(staged(*[BAD] * (repairs + 1), mode=TASK, output_repairs_max=repairs))
    assert stage.done.is_error is True
    ends = ["step.failed", "turn.failed", "run.failed", "session.failed"]
    assert stage.types[-5:] == ["output.failed", *ends]
    codes = {str(stage.data(kind)[0]["code"]) for kind in ("step.failed", "turn.failed", "session.failed")}
    assert codes == {"structured_output_failure"}
    assert len(stage.data("output.rejected")) == repairs


def test_a_conversation_can_try_again_with_a_fresh_count() -> None:
    stage = ask(staged(BAD, BAD, GOOD, output_repairs_max=0))
    assert stage.types[-1] == "session.waiting"
    play(stage.send("Please."), stage)
    play(stage.send("Once more."), stage)
    assert stage.data("result.completed")[0]["result"] == {"answer": 42}
    assert stage.session.output_schema is None


def test_an_output_need_not_be_an_object() -> None:
    schema: JsonObject = {
        "type": "array",
        "items": {"$ref": "#/$defs/n"},
        "$defs": {"n": {"type": "integer"}},
    }
    stage = staged(say('{"values": [1]}'), say('["x"]'), say("[1]"), mode=TASK)
    play(stage.send(StepInput(message="Go.", output_schema=schema)), stage)
    assert stage.done.output == [1]


def test_calls_of_an_answer_come_before_its_output() -> None:
    stage = ask(staged(call("add", {"a": 1, "b": 1}) + GOOD, GOOD, mode=TASK))
    assert stage.done.output == {"answer": 42}
    assert [message.role for message in stage.session.history] == ["user", "assistant", "tool", "assistant"]
    assert stage.steps == 2


def test_an_output_waits_for_the_results_of_agents() -> None:
    stage = ask(staged(call("agent", {"message": "Count."}) + BAD, GOOD, mode=TASK))
    batch = stage.state.pending_action_batch
    assert batch is not None
    result = SubagentActionResult(call_id=batch.actions[0].call_id, subagent_name="agent", output="42")
    play(stage.send(StepInput(runtime_action_results=(result,))), stage)
    assert stage.done.output == {"answer": 42}
    assert stage.data("output.rejected") == []


def test_a_schema_in_the_middle_of_a_turn_replaces_the_one_before() -> None:
    stage = ask(staged(call("agent", {"message": "Count."}), GOOD, say('["x"]'), mode=TASK))
    batch = stage.state.pending_action_batch
    assert batch is not None
    result = SubagentActionResult(call_id=batch.actions[0].call_id, subagent_name="agent", output="42")
    given = StepInput(runtime_action_results=(result,), output_schema={"type": "array"})
    play(stage.send(given), stage)
    assert stage.done.output == ["x"]


def test_a_schema_that_cannot_be_used_is_refused_before_anything_happens() -> None:
    stage = staged(say("Hi."))
    with pytest.raises(Rejected, match="schema"):
        play(stage.send(StepInput(message="Go.", output_schema={"$ref": "https://example.com/x"})), stage)
    assert stage.events == []


def test_a_session_may_begin_with_a_schema() -> None:
    stage = staged(GOOD, mode=TASK, session=new_session(output_schema=SCHEMA))
    play(stage.send("Go."), stage)
    assert stage.done.output == {"answer": 42}
