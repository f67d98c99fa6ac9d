"""Subagents run by the driver, and compaction."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from tests.steps.options import Options
from tests.steps.steps_rig import HELPER, Stage, add, guarded, new_session, play, staged

from windlass.ports.model import LLMUsage
from windlass.steps import AgentTool
from windlass.testing import Answer, ScriptedModel, call, fail, say
from windlass.tools import tool
from windlass_protocol import (
    JsonObject,
    JsonValue,
    ModelMessage,
    ModelReference,
    RemoteAgentCallAction,
    RunMode,
    StepInput,
    SubagentActionResult,
    SubagentCallAction,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)

DELEGATE = call("agent", {"message": "Count."})


def result(call_id: str, output: JsonValue = "42", *, is_error: bool | None = None) -> StepInput:
    one = SubagentActionResult(call_id=call_id, subagent_name="agent", output=output, is_error=is_error)
    return StepInput(runtime_action_results=(one,))


def test_a_subagent_call_is_pending_until_the_driver_returns_its_result() -> None:
    stage = staged(DELEGATE, say("It is 42."), mode=RunMode.TASK)
    assert play(stage.send("Count."), stage).next is None
    batch = stage.state.pending_action_batch
    assert batch is not None
    assert isinstance(batch.actions[0], SubagentCallAction)
    play(stage.send(result(batch.actions[0].call_id)), stage)
    assert stage.done.output == "It is 42."
    assert [data["stepIndex"] for data in stage.data("step.started")] == [0, 1]
    assert stage.data("subagent.completed")[0]["output"] == "42"


def test_a_wait_without_results_goes_on() -> None:
    stage = staged(DELEGATE, say("Done."))
    play(stage.send("Count."), stage)
    before = len(stage.events)
    assert play(stage.send(), stage).next is None
    told = play(stage.send(result("other")), stage)
    assert (told.next, told.unknown_results) == (None, ("other",))
    assert len(stage.events) == before


def test_results_may_come_one_by_one_and_the_first_of_each_counts() -> None:
    stage = staged(call("agent", {"message": "A"}) + call("agent", {"message": "B"}), say("Done."))
    play(stage.send("Count."), stage)
    assert play(stage.send(result("call-2", "second")), stage).unknown_results == ()
    assert play(stage.send(result("call-2", "late")), stage).unknown_results == ("call-2",)
    assert len(stage.data("action.result")) == 1
    play(stage.send(result("call-1", {"n": 1})), stage)
    assert [data["output"] for data in stage.data("subagent.completed")] == ["second", '{"n":1}']
    message = stage.session.history[2]
    assert isinstance(message, ToolMessage)
    assert [part.tool_call_id for part in message.content if isinstance(part, ToolResultPart)] == [
        "call-1",
        "call-2",
    ]


def test_a_failed_subagent_is_a_failed_call() -> None:
    stage = staged(DELEGATE + DELEGATE, say("Sorry."))
    play(stage.send("Count."), stage)
    play(
        stage.send(result("call-1", {"code": "SUBAGENT_EXECUTION_FAILED", "message": "no"}, is_error=True)),
        stage,
    )
    assert stage.state.pending_action_batch is not None
    play(stage.send(result(stage.state.pending_action_batch.actions[0].call_id, "no", is_error=True)), stage)
    errors = [data["error"] for data in stage.data("action.result")]
    assert [error["code"] for error in errors if isinstance(error, dict)] == [
        "SUBAGENT_EXECUTION_FAILED",
        "subagent_failed",
    ]
    assert [data["isError"] for data in stage.data("subagent.completed")] == [True, True]


def test_an_agent_and_a_person_are_waited_for_together() -> None:
    stage = staged(DELEGATE + call("guarded", {"x": 1}) + call("add", {"a": 1, "b": 1}), say("All done."))
    play(stage.send("Go."), stage)
    play(stage.answer("approve"), stage)
    assert stage.state.pending_action_batch is not None
    play(stage.send(result("call-1")), stage)
    assert stage.session.history[-1].content == "All done."
    message = stage.session.history[2]
    assert isinstance(message, ToolMessage)
    assert len(message.content) == 3


def test_an_agent_elsewhere_is_named_as_such() -> None:
    far = AgentTool("far", subagent_name="billing", is_remote=True)
    stage = staged(call("far", {"message": "Bill."}), tools={"far": far})
    play(stage.send("Go."), stage)
    batch = stage.state.pending_action_batch
    assert batch is not None
    assert isinstance(batch.actions[0], RemoteAgentCallAction)
    assert batch.actions[0].remote_agent_name == "billing"


def test_an_agent_that_is_asked_nothing_is_not_called() -> None:
    wrong: list[JsonObject | str] = ["Count.", {}, {"message": "x", "outputSchema": "y"}]
    for asked in wrong:
        stage = staged(call("agent", asked), say("Sorry."), tools={"agent": HELPER})
        play(stage.send("Go."), stage)
        assert stage.data("action.result")[0]["status"] == "failed"


# room

LONG = "word " * 2_000


def crowded(*answers: Answer, **options: Unpack[Options]) -> tuple[Stage, ScriptedModel]:
    history: list[ModelMessage] = [UserMessage(content=f"{at} {LONG}") for at in range(4)]
    model = ScriptedModel(answers)
    stage = Stage(session=new_session(threshold=4_000, history=history))
    return stage.harness(model, **options), model


def in_a_window(stage: Stage, tokens: int, summariser: str | None = None) -> Stage:
    """Set the context window of the model, and optionally another model for summaries."""
    changes = {
        "model_reference": ModelReference(id="mock/model", context_window_tokens=tokens),
        "compaction_model_reference": None if summariser is None else ModelReference(id=summariser),
    }
    agent = stage.session.agent.model_copy(update=changes)
    stage.session = stage.session.model_copy(update={"agent": agent})
    return stage


def compactions(stage: Stage) -> list[str]:
    return [kind for kind in stage.types if kind.startswith("compaction.")]


def test_a_history_that_is_too_long_gives_way_to_a_summary() -> None:
    stage, model = crowded(say("We counted to four."), say("Five."))
    play(stage.send("What is next?"), stage)
    assert model.requests[0].temperature == 0.0
    prompt = "".join(message.content for message in model.requests[1].messages)
    assert "We counted to four." in prompt
    assert "What is next?" in prompt
    assert LONG not in prompt
    assert compactions(stage) == ["compaction.requested", "compaction.completed"]


def test_on_compaction_messages_are_added_after_the_summary() -> None:
    def todo() -> Sequence[ModelMessage]:
        return [UserMessage(content="todo: count")]

    stage, model = crowded(say("Counted."), say("Five."), on_compaction=todo)
    play(stage.send("Next?"), stage)
    assert "todo: count" in [message.content for message in model.requests[1].messages]


def test_a_failing_on_compaction_does_not_fail_the_step() -> None:
    def broken() -> Sequence[ModelMessage]:
        raise RuntimeError

    stage, _ = crowded(say("Counted."), say("Five."), on_compaction=broken)
    play(stage.send("Next?"), stage)
    assert stage.session.history[-1].content == "Five."


def test_without_a_summary_the_history_stays_if_the_model_can_read_it() -> None:
    stage, model = crowded(fail(ValueError("x")), say("Five."))
    play(in_a_window(stage, 100_000).send("Next?"), stage)
    assert compactions(stage) == ["compaction.requested", "compaction.failed"]
    assert len(model.requests[1].messages) == 6


def test_without_a_summary_a_history_that_does_not_fit_fails_the_turn() -> None:
    stage, _ = crowded(fail(ValueError("x")), say("Five."))
    play(stage.send("Next?"), stage)
    assert compactions(stage) == ["compaction.requested", "compaction.failed"]
    assert stage.types[-3:] == ["turn.failed", "run.failed", "session.waiting"]


def test_a_summary_of_nothing_is_none() -> None:
    stage, _ = crowded(*[Answer("  ")] * 3, say("Five."))
    play(in_a_window(stage, 100_000).send("Next?"), stage)
    assert compactions(stage) == ["compaction.requested", "compaction.failed"] * 3
    assert stage.session.history[-1].content == "Five."


def test_another_model_may_write_the_summary() -> None:
    def resolve(reference: ModelReference) -> ScriptedModel:
        return small if "small" in reference.id else large

    for summariser, name in (("mock/small", "mock/small"), ("small", "object/small")):
        small, large = ScriptedModel([say("Counted.")]), ScriptedModel([say("Five.")])
        stage, _ = crowded(resolve_model=resolve)
        play(in_a_window(stage, 100_000, summariser).send("Next?"), stage)
        assert len(small.requests) == len(large.requests) == 1
        assert stage.data("compaction.completed")[0]["modelId"] == name
        started = stage.data("run.started")[-1]
        assert (started["routeId"], started["modelId"]) == ("mock", "model")
        assert stage.data("step.started")[-1]["modelId"] == "model"


def test_a_model_for_summaries_that_cannot_be_had_is_a_failed_compaction() -> None:
    large = ScriptedModel([say("Five.")])

    def resolve(reference: ModelReference) -> ScriptedModel:
        if reference.id == "small":
            raise ValueError
        return large

    stage, _ = crowded(resolve_model=resolve)
    play(in_a_window(stage, 100_000, "small").send("Next?"), stage)
    assert "compaction.failed" in stage.types
    assert stage.session.history[-1].content == "Five."


def test_long_results_go_first_and_cost_no_call() -> None:
    @tool(mode="read")
    async def read() -> str:
        """Read."""
        return LONG

    adding = [call("add", {"a": at, "b": 0}, call_id=f"a{at}") for at in range(12)]
    answers = [call("read"), *adding, say("Read.")]
    stage = staged(
        *(replace(answer, usage=LLMUsage()) for answer in answers),
        session=new_session(threshold=3_300),
        tools={"read": read, "add": add, "guarded": guarded},
    )
    play(stage.send("Go."), stage)
    assert [data.get("summary") for data in stage.data("compaction.completed")] == [None]
    assert stage.session.history[-1].content == "Read."
