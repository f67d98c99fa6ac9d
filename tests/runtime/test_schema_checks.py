"""Checks by schemas that take long: the event loop turns meanwhile."""

import asyncio
import threading
from typing import Any

import pytest
from tests.runtime.runtime_rig import play

from windlass import Agent, AgentRuntime
from windlass.limits import OUTPUT_CHECKS_MAX
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.tools import json_schema as schemas
from windlass.tools import json_tool
from windlass.tools.calling import ManyChecks, arguments_of, few_checks, read_arguments
from windlass.tools.context import ToolContext
from windlass.tools.json_schema import FEW_CHECKS_MAX, schema_faults
from windlass.tools.router import ToolRouter
from windlass_protocol import JsonObject, ToolCall

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
            handle = await runtime.start(agent, "go")
            await handle.wait(timeout=300)
            return [event.data async for event in handle.events() if event.type == "action.result"]

    outputs = [data["result"]["output"] for data in play(story())]
    assert outputs == [FEW_CHECKS_MAX, 2, FEW_CHECKS_MAX]
    assert checks.on_loop == [False, False]
