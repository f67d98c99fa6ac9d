"""Output that must fit a schema: checked, asked for again, failed clearly."""

import pytest
from tests.runtime.steps.steps_rig import Stage, new_session, play, staged

from windlass.errors import Rejected
REMINDER = ""
from windlass.testing import ScriptedModel, call, say
from windlass_protocol import JsonObject, RunMode, StepInput, SubagentActionResult, ToolMessage

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
}
GOOD = call("final_output", {"answer": 42})
BAD = call("final_output", {"answer": "many"})
TASK = RunMode.TASK


def ask(stage: Stage) -> Stage:
    play(stage.send(StepInput(message="How many?", output_schema=SCHEMA)), stage)
    return stage


def test_an_output_that_misses_the_schema_is_told_and_asked_for_again() -> None:
    model = ScriptedModel([BAD, GOOD])
    stage = ask(Stage().harness(model, mode=TASK))
    assert stage.done.output == {"answer": 42}
    assert stage.done.is_error is None
    assert "expected integer" in model.requests[1].messages[-1].content
    rejected = stage.data("output.rejected")
    assert [data["attempt"] for data in rejected] == [1]


def test_words_in_place_of_the_output_are_asked_for_again() -> None:
    model = ScriptedModel([say("It is 42."), GOOD])
    stage = ask(Stage().harness(model, mode=TASK))
    assert stage.done.output == {"answer": 42}
    assert model.requests[1].messages[-1].content == REMINDER


@pytest.mark.parametrize("repairs", [0, 2])
def test_after_so_many_repairs_a_task_fails_clearly(repairs: int) -> None:
    stage = ask(staged(*[BAD] * (repairs + 1), mode=TASK, output_repairs_max=repairs))
    assert stage.done.is_error is True
    assert stage.types[-3:] == ["step.failed", "turn.failed", "session.failed"]
    assert stage.data("session.failed")[0]["code"] == "OUTPUT_SCHEMA_NOT_FULFILLED"
    assert len(stage.data("output.rejected")) == repairs + 1


def test_a_conversation_can_try_again_with_a_fresh_count() -> None:
    stage = ask(staged(BAD, BAD, GOOD, output_repairs_max=0))
    assert stage.types[-1] == "session.waiting"
    play(stage.send("Please."), stage)
    play(stage.send("Once more."), stage)
    assert stage.data("result.completed")[0]["result"] == {"answer": 42}
    assert stage.session.output_schema is None


def test_an_output_that_is_no_object_is_wrapped_for_the_model_alone() -> None:
    schema: JsonObject = {
        "type": "array",
        "items": {"$ref": "#/$defs/n"},
        "$defs": {"n": {"type": "integer"}},
    }
    answers = [
        call("final_output", {"values": [1]}),
        call("final_output", {"value": ["x"]}),
        call("final_output", {"value": [1]}),
    ]
    model = ScriptedModel(answers)
    stage = Stage().harness(model, mode=TASK)
    play(stage.send(StepInput(message="Go.", output_schema=schema)), stage)
    assert stage.done.output == [1]
    offered = {tool["name"]: tool["inputSchema"] for tool in model.requests[0].tools}
    assert offered["final_output"] == {
        "type": "object",
        "properties": {"value": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
        "required": ["value"],
        "$defs": {"n": {"type": "integer"}},
    }


def test_the_output_may_come_with_other_calls_that_are_made_at_once() -> None:
    stage = ask(staged(call("add", {"a": 1, "b": 1}) + GOOD, mode=TASK))
    assert stage.done.output == {"answer": 42}
    assert [message.role for message in stage.session.history] == ["user", "assistant", "tool", "assistant"]
    _, tool_message = stage.session.history[1:3]
    assert isinstance(tool_message, ToolMessage)
    assert len(tool_message.content) == 1


def test_an_output_that_comes_before_the_results_it_needs_waits_for_them() -> None:
    stage = ask(staged(call("agent", {"message": "Count."}) + BAD, GOOD, mode=TASK))
    batch = stage.state.pending_action_batch
    assert batch is not None
    result = SubagentActionResult(call_id=batch.actions[0].call_id, subagent_name="agent", output="42")
    play(stage.send(StepInput(runtime_action_results=(result,))), stage)
    assert stage.done.output == {"answer": 42}
    assert stage.data("output.rejected") == []


def test_of_two_outputs_in_one_answer_the_first_counts() -> None:
    stage = ask(staged(GOOD + call("final_output", {"answer": 7}), mode=TASK))
    assert stage.done.output == {"answer": 42}


def test_a_broken_output_is_told_as_such() -> None:
    stage = ask(staged(call("final_output", '{"answer": 4'), GOOD, mode=TASK))
    assert stage.done.output == {"answer": 42}


def test_without_a_schema_nothing_takes_an_output() -> None:
    stage = staged(GOOD, say("Ok."))
    play(stage.send("Go."), stage)
    assert stage.data("action.result")[0]["status"] == "failed"


def test_a_schema_that_cannot_be_used_is_refused_before_anything_happens() -> None:
    stage = staged(say("Hi."))
    with pytest.raises(Rejected, match="outputSchema"):
        play(stage.send(StepInput(message="Go.", output_schema={"$ref": "https://example.com/x"})), stage)
    assert stage.events == []


def test_a_session_may_begin_with_a_schema() -> None:
    stage = staged(GOOD, mode=TASK, session=new_session(output_schema=SCHEMA))
    play(stage.send("Go."), stage)
    assert stage.done.output == {"answer": 42}
