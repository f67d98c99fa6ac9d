"""Checks by schemas, and of schemas, that take long: the event loop turns meanwhile."""

# pyright: reportPrivateUsage=false
import asyncio
import json
import threading
from typing import Any

import pytest
from tests.mcp.rig import opened, raw
from tests.runtime.runtime_rig import play
from tests.steps.steps_rig import Stage
from tests.steps.steps_rig import play as play_stage

from windlass import Agent, AgentRuntime
from windlass.engine.model_calls import output
from windlass.limits import OUTPUT_CHECKS_MAX
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.tools import json_schema as schemas
from windlass.tools import json_tool
from windlass.tools.calling import arguments_of, few_checks, read_arguments
from windlass.tools.context import ToolContext
from windlass.tools.json_schema import FEW_CHECKS_MAX, SCHEMA_LIGHT_BYTES_MAX, ManyChecks, schema_faults
from windlass.tools.router import ToolRouter
from windlass_protocol import JsonObject, RunMode, StepInput, ToolCall

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0}}},
        }
    },
}
MANY: JsonObject = {"items": [{"a": number} for number in range(FEW_CHECKS_MAX)]}
TOO_MANY: JsonObject = {"items": [{"a": number} for number in range(OUTPUT_CHECKS_MAX // 3)]}
FEW: JsonObject = {"items": [{"a": 1}, {"a": 2}]}


async def count(arguments: JsonObject, _: ToolContext) -> object:
    return len(arguments["items"])  # type: ignore[arg-type]


TOOL = json_tool(count, SCHEMA, name="count", description="Count.", mode="read")


class Checks:
    """For each validation without the limit of few checks: whether the event loop waited for it."""

    def __init__(self) -> None:
        self.on_loop: list[bool] = []


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Checks:
    noted, errors_of = Checks(), schemas.value_errors

    def value_errors(schema: JsonObject, value: Any, *, most: int) -> Any:
        if not schemas.FEW_CHECKS.get():
            noted.on_loop.append(threading.current_thread() is threading.main_thread())
        return errors_of(schema, value, most=most)

    monkeypatch.setattr(schemas, "value_errors", value_errors)
    return noted


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [MANY, TOO_MANY])
def test_the_loop_turns_while_arguments_are_checked(checks: Checks, arguments: JsonObject) -> None:
    async def story() -> int:
        turns, is_done = 0, False

        async def beat() -> None:
            nonlocal turns
            while not is_done:
                turns += 1
                await asyncio.sleep(0)

        beating = asyncio.ensure_future(beat())
        await asyncio.sleep(0)
        before = turns
        result = await ToolRouter([TOOL]).dispatch(ToolCall(id="1", name="count", arguments=arguments))
        is_done, during = True, turns - before
        await beating
        assert result.success == (arguments is MANY)
        return during

    assert play(story()) >= 5
    assert checks.on_loop == [False]


def test_few_checks_are_made_at_once(checks: Checks) -> None:
    assert play(read_arguments(TOOL, FEW)).json == FEW
    assert few_checks(lambda: arguments_of(TOOL, FEW)).json == FEW
    assert checks.on_loop == []
    with pytest.raises(ManyChecks):
        few_checks(lambda: arguments_of(TOOL, MANY))
    assert schema_faults(SCHEMA, MANY) == ()
    assert "checks" in schema_faults(SCHEMA, TOO_MANY)[0]


def test_no_call_of_a_run_is_checked_at_length_on_the_loop(checks: Checks) -> None:
    # The rules are known to allow the tool when it is called the second time.
    steps = [call("count", MANY), call("count", FEW), call("count", MANY), say("done")]
    agent = Agent("counter", model=ScriptedModel(by_history(steps)), tools=[TOOL])

    async def story() -> list[Any]:
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go")
            await handle.wait(timeout=300)
            return [event.data async for event in handle.events() if event.type == "action.result"]

    outputs = [data["result"]["output"] for data in play(story())]
    assert outputs == [FEW_CHECKS_MAX, 2, FEW_CHECKS_MAX]
    assert checks.on_loop == [False, False]


# Schemas of strangers


class OnLoop:
    """For each schema that is read, and each long check of an answer: whether the loop waited for it."""

    def __init__(self) -> None:
        self.schemas: list[bool] = []
        self.answers: list[bool] = []


@pytest.fixture
def on_loop(monkeypatch: pytest.MonkeyPatch) -> OnLoop:
    noted, problem_of, errors_of = OnLoop(), schemas._meta_problem, output.value_errors

    def is_here() -> bool:
        return threading.current_thread() is threading.main_thread()

    def meta_problem(schema: JsonObject) -> str | None:
        noted.schemas.append(is_here())
        return problem_of(schema)

    def value_errors(schema: JsonObject, value: Any, *, most: int) -> Any:
        if not schemas.FEW_CHECKS.get():
            noted.answers.append(is_here())
        return errors_of(schema, value, most=most)

    monkeypatch.setattr(schemas, "_meta_problem", meta_problem)
    monkeypatch.setattr(output, "value_errors", value_errors)
    schemas._problem.cache_clear()
    return noted


def large(keyword: str) -> JsonObject:
    """A schema that takes long to check: it is large, or it has large patterns."""
    if keyword == "patterns":
        return {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"pattern": "^\\w{64}$"}]}}
    return {
        "type": "array",
        "items": {"anyOf": [{"type": "integer"}, {"title": "x" * SCHEMA_LIGHT_BYTES_MAX}]},
    }


@pytest.mark.parametrize("keyword", ["patterns", "size"])
@pytest.mark.parametrize("is_long", [False, True])
def test_the_schema_of_a_start_and_its_answer_are_checked_beside_the_loop(
    on_loop: OnLoop, keyword: str, is_long: bool
) -> None:
    answer = [*range(FEW_CHECKS_MAX if is_long else 1)]
    agent = Agent("counter", model=ScriptedModel(lambda _: say(json.dumps(answer))))

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", output=large(keyword))
            assert (await handle.wait()).structured_output == answer

    play(story())
    assert on_loop.schemas == [False]
    assert on_loop.answers == [False] * is_long


def test_a_small_schema_is_checked_at_once(on_loop: OnLoop) -> None:
    agent = Agent("counter", model=ScriptedModel(lambda _: say("[1]")))

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(
                agent, "go", output={"type": "array", "items": {"pattern": "^[a-z]+$"}}
            )
            assert (await handle.wait()).structured_output == [1]

    play(story())
    assert on_loop.schemas == [True]


def test_the_schema_of_a_step_is_checked_beside_the_loop(on_loop: OnLoop) -> None:
    stage = Stage().harness(ScriptedModel(lambda _: say("[1]")), mode=RunMode.TASK)
    play_stage(stage.send(StepInput(message="go", output_schema=large("size"))), stage)
    assert stage.done.output == [1]
    assert on_loop.schemas == [False]


def test_the_schemas_of_an_mcp_server_are_checked_beside_the_loop(on_loop: OnLoop) -> None:
    async def story() -> None:
        async with opened(raw("promises")) as servers:
            on_loop.schemas.clear()
            schemas._problem.cache_clear()
            await servers.refresh()
            assert on_loop.schemas == [False, False]

    asyncio.run(story())
