"""Recorded streams: the same inputs and answers give the same events.

The streams were recorded from a server that ends a turn at a wait. The order of types and the meaning of the
data are compared; ids, times, usage and texts differ between the systems.
"""

from collections.abc import Sequence

import pytest
from tests.steps.recorded import QUESTION, Recorded, Step, meanings, pieces, prompts, recorded
from tests.steps.steps_rig import Stage, play

from windlass.steps import Grammar
from windlass_protocol import JsonObject, RunMode, StepInput, SubagentActionResult


def shown(stage: Stage) -> list[tuple[str, JsonObject]]:
    return [(event.type, event.data) for event in stage.events]


def on_stage(*steps: Step, mode: RunMode = RunMode.CONVERSATION) -> Stage:
    model = Recorded(*steps)
    return Stage().harness(lambda: model, grammar=Grammar.TURN_PER_INPUT, mode=mode)


def test_an_answer() -> None:
    stage = on_stage(pieces("echo"))
    play(stage.send("ECHO hi"), stage)
    assert meanings(shown(stage)) == meanings(recorded("echo"))


def test_two_tools_one_after_the_other() -> None:
    calls: list[Step] = [("add", {"a": 0, "b": 1}), ("add", {"a": 1, "b": 1})]
    stage = on_stage(*calls, pieces("two_tools"))
    play(stage.send("TOOLS 2"), stage)
    assert meanings(shown(stage)) == meanings(recorded("two_tools"))


def test_a_task_with_an_output() -> None:
    stage = on_stage(['{"answer": 42}'], mode=RunMode.TASK)
    schema: JsonObject = {"type": "object", "properties": {"answer": {"type": "integer"}}}
    play(stage.send(StepInput(message="SCHEMA", output_schema=schema)), stage)
    # Here the output is the text of the answer, there it is the input of a call that is not shown.
    events = [
        one for one in shown(stage) if not one[0].startswith("message.a") and one[0] != "message.completed"
    ]
    expected = meanings(recorded("task_output"))
    assert [kind for kind, _ in events] == [kind for kind, _ in expected]
    assert meanings(events)[5:] == expected[5:]
    assert stage.done.output == {"answer": 42}
    assert stage.session.output_schema is None


def test_the_task_of_a_subagent() -> None:
    stage = on_stage(pieces("subagent_child"), mode=RunMode.TASK)
    play(stage.send("ECHO child"), stage)
    assert meanings(shown(stage)) == meanings(recorded("subagent_child"))


def test_a_question_that_ends_the_turn() -> None:
    stage = on_stage(("ask_question", QUESTION))
    play(stage.send("ASK me"), stage)
    assert meanings(shown(stage)) == meanings(recorded("question_asked"))
    assert prompts(shown(stage)) == prompts(recorded("question_asked"))


def asked_for_consent(answer: Sequence[str]) -> Stage:
    stage = on_stage(("guarded", {"x": 1}), list(answer))
    play(stage.send("APPROVE it"), stage)
    assert meanings(shown(stage)) == meanings(recorded("approval_asked"))
    stage.events.clear()
    return stage


@pytest.mark.parametrize(("option", "name"), [("approve", "approval_given"), ("deny", "approval_denied")])
def test_consent_that_ends_the_turn_and_begins_another(option: str, name: str) -> None:
    stage = asked_for_consent(pieces(name))
    play(stage.answer(option), stage)
    assert meanings(shown(stage)) == meanings(recorded(name))


def test_a_subagent_result_is_taken_in_the_same_turn() -> None:
    output = "".join(pieces("subagent_child"))
    stage = on_stage(("agent", {"message": "ECHO child"}), pieces("subagent"))
    play(stage.send("SUB delegate"), stage)
    batch = stage.state.pending_action_batch
    assert batch is not None
    result = SubagentActionResult(call_id=batch.actions[0].call_id, subagent_name="agent", output=output)
    play(stage.send(StepInput(runtime_action_results=(result,))), stage)
    assert meanings(shown(stage)) == meanings(recorded("subagent"))


def test_by_default_the_turn_waits_and_goes_on() -> None:
    model = Recorded(("guarded", {"x": 1}), pieces("approval_given"))
    stage = Stage().harness(lambda: model)
    play(stage.send("APPROVE it"), stage)
    assert stage.types[-4:] == ["policy.decided", "input.requested", "turn.waiting", "run.waiting"]
    stage.events.clear()
    play(stage.answer("approve"), stage)
    assert stage.types == [
        "input.resolved",
        "approval.settled",
        "run.resumed",
        "policy.decided",
        "action.started",
        "action.result",
        "step.started",
        "message.completed",
        "step.completed",
        "turn.completed",
        "run.completed",
        "session.waiting",
    ]
    assert {str(event.data.get("turnId", "turn_0")) for event in stage.events} == {"turn_0"}
    assert [data["stepIndex"] for data in stage.data("step.started")] == [1]


def test_consent_that_a_message_passes_over() -> None:
    stage = asked_for_consent(["Well."])
    play(stage.send("Something else."), stage)
    assert stage.types == [
        "action.result",
        "turn.started",
        "message.received",
        "step.started",
        "message.completed",
        "step.completed",
        "turn.completed",
        "session.waiting",
    ]
    (result,) = stage.data("action.result")
    assert (result["status"], result["turnId"]) == ("rejected", "turn_0")
    assert stage.data("message.received")[0]["turnId"] == "turn_1"


def test_the_answer_to_a_question_begins_a_turn() -> None:
    stage = on_stage(("ask_question", QUESTION), ["Blue."])
    play(stage.send("ASK me"), stage)
    stage.events.clear()
    play(stage.answer("blue"), stage)
    assert stage.types == [
        "turn.started",
        "step.started",
        "message.completed",
        "step.completed",
        "turn.completed",
        "session.waiting",
    ]
    assert stage.data("step.started")[0]["turnId"] == "turn_1"


SCHEMA: JsonObject = {"type": "object", "required": ["answer"]}


@pytest.mark.parametrize(
    ("mode", "end"), [(RunMode.TASK, "session.failed"), (RunMode.CONVERSATION, "session.waiting")]
)
def test_an_output_that_never_fits(mode: RunMode, end: str) -> None:
    stage = on_stage(["No."], ["Never."], ["Not."], mode=mode)
    play(stage.send(StepInput(message="SCHEMA", output_schema=SCHEMA)), stage)
    step = ["step.started", "message.completed", "step.completed"]
    assert stage.types[3:] == [*step, *step, *step, "step.failed", "turn.failed", end]
    assert stage.data("step.failed")[0]["code"] == "OUTPUT_SCHEMA_NOT_FULFILLED"


@pytest.mark.parametrize(
    ("mode", "end"), [(RunMode.TASK, "session.failed"), (RunMode.CONVERSATION, "session.waiting")]
)
def test_without_repairs_an_output_that_does_not_fit_ends_the_turn_at_once(mode: RunMode, end: str) -> None:
    model = Recorded(["No."])
    stage = Stage().harness(lambda: model, grammar=Grammar.TURN_PER_INPUT, mode=mode, output_repairs_max=0)
    play(stage.send(StepInput(message="SCHEMA", output_schema=SCHEMA)), stage)
    step = ["step.started", "message.completed", "step.completed", "step.failed"]
    assert stage.types[3:] == [*step, "turn.failed", end]
    assert stage.data("step.failed")[0]["code"] == "OUTPUT_SCHEMA_NOT_FULFILLED"


def test_an_output_that_fits_in_a_conversation() -> None:
    stage = on_stage(['{"answer": 42}'])
    play(stage.send(StepInput(message="SCHEMA", output_schema=SCHEMA)), stage)
    assert stage.types[-4:] == ["step.completed", "result.completed", "turn.completed", "session.waiting"]
