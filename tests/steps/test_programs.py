"""Programs in steps: code mode and workflows over sessions of plain data."""

import asyncio
from typing import Any, cast

import pytest
from tests.steps.steps_rig import Stage, inside

from windlass.adapters.journals.memory import MemoryStore
from windlass.code_mode import MontyInterpreter
from windlass.steps import AgentTool
from windlass.testing import ScriptedModel, by_history, call, say
from windlass_protocol import JsonObject, JsonValue, StepInput, SubagentActionResult

CODE = """
import asyncio
first, second = await asyncio.gather(add(1, 2), guarded(x=7))
[first["sum"], second]
"""
FLOW = """
import asyncio
await asyncio.gather(helper("one"), helper("two"))
"""


def result(stage: Stage, name: str) -> JsonValue:
    found = [cast(JsonObject, data["result"]) for data in stage.data("action.result")]
    (one,) = (result for result in found if result.get("toolName") == name)
    return one["output"]


@pytest.mark.slow
@pytest.mark.parametrize("is_stored", [True, False], ids=["snapshot", "from its source"])
@pytest.mark.parametrize("is_split", [True, False], ids=["each step in another process", "one process"])
def test_a_program_asks_and_goes_on_with_the_answer(is_stored: bool, is_split: bool) -> None:
    async def story() -> None:
        model, interpreter = (
            ScriptedModel(by_history([call("run_code", {"code": CODE}), say("done")])),
            MontyInterpreter(),
        )
        options: dict[str, Any] = {"content": MemoryStore()} if is_stored else {}
        stage = Stage(keeps=lambda _: not is_split)
        stage.harness(lambda: model, code_mode=True, interpreter=interpreter, **options)
        try:
            await stage.send("Go.")
            (request,) = stage.requests
            assert request.action.call_id.endswith("/1")
            await stage.answer("approve")
        finally:
            await interpreter.aclose()
        assert inside(result(stage, "run_code"), 0) == 3
        assert [
            one["name"] for one in model.requests[0].tools if one["name"] in ("run_code", "add", "guarded")
        ] == ["run_code"]
        assert stage.types.count("action.started") == 3

    asyncio.run(story())


def test_the_driver_runs_the_agents_of_a_workflow() -> None:
    async def story() -> None:
        model, interpreter = (
            ScriptedModel(by_history([call("run_workflow", {"code": FLOW}), say("done")])),
            MontyInterpreter(),
        )
        stage = Stage()
        stage.harness(
            lambda: model, workflow=True, interpreter=interpreter, tools={"helper": AgentTool("helper")}
        )
        try:
            await stage.send("Go.")
            batch = stage.state.pending_action_batch
            assert batch is not None
            for action in batch.actions:
                told = SubagentActionResult(
                    call_id=action.call_id,
                    subagent_name="helper",
                    output=f"did {inside(action.input, 'message')}",
                )
                await stage.send(StepInput(runtime_action_results=(told,)))
        finally:
            await interpreter.aclose()
        assert result(stage, "run_workflow") == ["did one", "did two"]

    asyncio.run(story())
