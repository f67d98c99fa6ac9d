"""Agents of pydantic-ai inside workflows: journaled, judged, resumed; outside of one nothing is different."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import to_json

pytest.importorskip("pydantic_ai.durable_exec", reason="make foreign installs pydantic-ai-slim")

from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import ApprovalRequired, ModelRetry, RunContext, UnexpectedModelBehavior
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from windlass import AgentRuntime, Approval, Question
from windlass.foreign.pydantic_ai import WindlassDurability, tools_of
from windlass.testing import crash_everywhere
from windlass.workflow import WorkflowContext, workflow
from windlass.workflow.testing import check_workflow

DONE: Counter[str] = Counter()


def returns(messages: Sequence[ModelMessage]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def script(*calls: tuple[str, dict[str, Any]]) -> FunctionModel:
    """A model that calls tools one after the other, and then says what they returned."""

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        results = returns(messages)
        if len(results) < len(calls):
            name, arguments = calls[len(results)]
            return ModelResponse([ToolCallPart(name, arguments, tool_call_id=f"c{len(results)}")])
        return ModelResponse([TextPart(" ".join(str(result.content) for result in results))])

    return FunctionModel(answer)


shop = PydanticAgent(
    script(("find", {"name": "tea"}), ("buy", {"item": "tea", "count": 2})),
    name="shop",
    instructions="You sell.",
    capabilities=[WindlassDurability()],
)


@shop.tool_plain(metadata={"windlass": {"mode": "read"}})
async def find(name: str) -> str:
    """Find an item."""
    DONE["find"] += 1
    return f"found {name}"


@shop.tool(metadata={"windlass": {"effect": "idempotent"}}, requires_approval=True)
async def buy(ctx: RunContext[object], item: str, count: int = 1) -> str:
    """Buy an item."""
    assert ctx.tool_call_approved
    DONE["buy"] += 1
    return f"bought {count} {item}"


@workflow
async def order(ctx: WorkflowContext, text: str) -> str:
    return (await shop.run(text)).output


def test_a_run_in_a_workflow_is_calls_and_an_approval_is_a_request() -> None:
    async def main() -> None:
        DONE.clear()
        async with AgentRuntime.in_memory([order]) as runtime:
            run = await runtime.start_run(order, "tea", run_id="r")
            asked: list[tuple[str, Any]] = []
            async for request in run.requests():
                assert isinstance(request, Approval)
                asked.append((request.tool_name, request.arguments))
                await request.approve(by="ann")
            assert (await run.wait()).output == "found tea bought 2 tea"
            assert asked == [("shop__buy", {"item": "tea", "count": 2})]
            assert DONE == {"find": 1, "buy": 1}

    asyncio.run(main())


def test_a_denied_call_is_told_to_the_model() -> None:
    async def main() -> None:
        async with AgentRuntime.in_memory([order]) as runtime:
            run = await runtime.start_run(order, "tea")
            async for request in run.requests():
                assert isinstance(request, Approval)
                await request.deny(by="ann", reason="too much tea")
            assert "too much tea" in str((await run.wait()).output)

    asyncio.run(main())


def test_after_a_crash_at_any_point_no_call_that_has_a_result_is_made_again() -> None:
    DONE.clear()
    crashes = list(crash_everywhere(order, "tea"))
    assert {crash.result.output for crash in crashes} == {"found tea bought 2 tea"}
    assert len(crashes) > 20
    # One for each of the runs, and one more where the crash was in the call.
    assert len(crashes) <= DONE["buy"] <= len(crashes) + 4


def test_every_call_is_the_recorded_one_when_the_function_runs_again() -> None:
    assert check_workflow(order, "tea").output == "found tea bought 2 tea"


def test_outside_of_a_workflow_the_agent_is_as_it_was() -> None:
    plain = PydanticAgent(TestModel(), name="plain", capabilities=[WindlassDurability()])

    @plain.tool_plain
    def add(a: int, b: int) -> int:
        return a + b

    assert asyncio.run(plain.run("x")).output == '{"add":0}'


class Plan(BaseModel):
    steps: list[str]


planner = PydanticAgent(
    TestModel(custom_output_args={"steps": ["a", "b"]}),
    name="planner",
    deps_type=str,
    output_type=Plan,
    capabilities=[WindlassDurability()],
)


@planner.instructions
def about(ctx: RunContext[str]) -> str:
    return f"Plan for {ctx.deps}."


@planner.tool(metadata={"windlass": {"mode": "read", "effect": "read"}})
async def limits(ctx: RunContext[str]) -> dict[str, str]:
    """The limits."""
    return {"for": ctx.deps}


@workflow
async def plan(ctx: WorkflowContext, name: str) -> list[str]:
    results = await asyncio.gather(*(planner.run("go", deps=f"{name}{number}") for number in range(3)))
    again = await planner.run("more", deps=name, message_history=results[0].all_messages())
    return [step for result in (*results, again) for step in result.output.steps]


def test_agents_side_by_side_with_deps_and_typed_output_go_the_same_way_each_time() -> None:
    assert check_workflow(plan, "x").output == to_json(["a", "b"] * 4).decode()
    assert {str(crash.result.output) for crash in crash_everywhere(plan, "x")} == {
        to_json(["a", "b"] * 4).decode()
    }


careful = PydanticAgent(
    script(("delete", {"path": "a"})), name="careful", capabilities=[WindlassDurability()]
)


@careful.tool(metadata={"windlass": {"mode": "external", "effect": "idempotent"}})
def delete(ctx: RunContext[object], path: str) -> str:
    """Delete a file."""
    if not ctx.tool_call_approved:
        raise ApprovalRequired
    return f"deleted {path}"


@workflow
async def clean(ctx: WorkflowContext) -> str:
    return (await careful.run("clean")).output


@pytest.mark.parametrize(
    ("option", "output"), [("approve", "deleted a"), ("deny", "The tool call was denied.")]
)
def test_a_tool_that_asks_for_approval_while_it_runs_asks_a_person(option: str, output: str) -> None:
    async def main() -> None:
        async with AgentRuntime.in_memory([clean]) as runtime:
            run = await runtime.start_run(clean)
            async for request in run.requests():
                assert isinstance(request, Question)
                assert request.prompt == 'delete({"path":"a"})'
                await request.choose(option, by="ann")
            assert (await run.wait()).output == output

    asyncio.run(main())


async def fail(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    raise ModelHTTPError(503, "m", "away")


broken = PydanticAgent(FunctionModel(fail), name="broken", capabilities=[WindlassDurability()])
retried = PydanticAgent(TestModel(), name="retried", retries=1, capabilities=[WindlassDurability()])


@retried.tool_plain(metadata={"windlass": {"mode": "read"}})
async def never(x: int) -> int:
    """Never works."""
    raise ModelRetry("another x")


@workflow
async def failures(ctx: WorkflowContext) -> list[str]:
    lines: list[str] = []
    for agent in (broken, retried):
        try:
            await agent.run("x")
        except ModelHTTPError as error:
            lines.append(f"{error.status_code} {error.model_name}")
        except UnexpectedModelBehavior as error:
            lines.append(str(error))
    return lines


def test_errors_of_pydantic_ai_are_the_same_in_a_workflow() -> None:
    result = check_workflow(failures)
    lines = json.loads(str(result.output))
    assert lines[0] == "503 m"
    assert "never" in lines[1]


def test_the_tools_behind_an_agent_can_be_listed() -> None:
    assert [part.name for part in tools_of(shop)] == [
        "shop__model",
        "shop__step",
        "shop__tool",
        "shop__find",
        "shop__buy",
    ]
    assert tools_of(shop)[0] is tools_of(shop)[0]
    assert tools_of(PydanticAgent(TestModel())) == ()
    assert tools_of("shop") == ()


STEPS = 20
KILLED = '''
import asyncio, os, signal, sys
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from windlass import AgentRuntime
from windlass.foreign.pydantic_ai import WindlassDurability
from windlass.workflow import WorkflowContext, workflow

kill_at, folder, steps = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
seen = 0

def note(line):
    global seen
    seen += 1
    with open(f"{folder}/log", "a") as log:
        log.write(line + "\\n")
    if seen == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)

def answer(messages, info):
    done = sum(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
    note(f"model {done}")
    if done < steps:
        return ModelResponse([ToolCallPart("step", {"number": done}, tool_call_id=f"c{done}")])
    return ModelResponse([TextPart(f"{done} done")])

agent = Agent(FunctionModel(answer), name="walker", capabilities=[WindlassDurability()])

@agent.tool_plain(metadata={"windlass": {"mode": "safe_write", "effect": "idempotent"}})
def step(number: int) -> str:
    """Do a step."""
    note(f"step {number}")
    return f"did {number}"

@workflow
async def walk(ctx: WorkflowContext) -> str:
    return (await agent.run("walk")).output

async def main():
    async with AgentRuntime.open(f"{folder}/app.db", agents=[walk]) as runtime:
        print((await (await runtime.start_run(walk, run_id="r")).wait()).output)

asyncio.run(main())
'''


def walk(number: int, folder: Path, steps: int) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", KILLED, str(number), str(folder), str(steps)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 2 * STEPS + 2, int(os.environ.get("KILL_EVERY", "8"))))
def test_nothing_that_has_ended_is_repeated_after_kill_9(number: int, tmp_path: Path) -> None:
    assert walk(number, tmp_path, STEPS).returncode == -signal.SIGKILL
    again = walk(0, tmp_path, STEPS)
    assert again.stdout.strip() == f"{STEPS} done", again.stderr
    calls = [f"{kind} {each}" for each in range(STEPS) for kind in ("model", "step")] + [f"model {STEPS}"]
    # The call that was killed is made again; all others are made once.
    assert (tmp_path / "log").read_text().splitlines() == [*calls[:number], *calls[number - 1 :]]
