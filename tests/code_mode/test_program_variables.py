"""Variables of programs that live for a session: code_mode="session"."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.code_mode.interpreters import OtherRelease
from tests.code_mode.test_programs import coder, double, pay, requests_of, result_of
from tests.runtime.engine.compaction_rig import is_summary
from tests.runtime.runtime_rig import play, until

from windlass import Agent, AgentRuntime, tool
from windlass.code_mode import MontyInterpreter
from windlass.errors import Rejected
from windlass.limits import PROGRAM_VARIABLES_BYTES_MAX, TOOL_OUTPUT_CHARS_MAX
from windlass.ports.interpreter import Program, Progress
from windlass.ports.model import LLMMessage
from windlass.testing import Answer, ScriptedModel, by_history, call, say
from windlass.tools.programs import find_assignments
from windlass_protocol import JsonObject


def keeper(*sources: str, tools: Sequence[Any] = (double, pay)) -> Agent:
    """An agent that writes a program in each turn."""
    script = [
        one
        for number, source in enumerate(sources, 1)
        for one in (call("run_code", {"code": source}, call_id=f"c{number}"), say("done"))
    ]
    return Agent("keeper", model=ScriptedModel(by_history(script)), tools=tools, code_mode="session")


async def turn(runtime: AgentRuntime, agent: Agent, number: int) -> JsonObject:
    """Run a turn; return the data of the result of its program."""
    handle = await runtime.start_run(agent, "go", session_id="s1", run_id=f"r{number}")
    await handle.wait(timeout=300)
    events = [event async for event in handle.events()]
    return result_of(events, f"c{number}")


def outputs(*sources: str, **options: Any) -> list[Any]:
    """Run programs one after the other in a session; return what the model is told about each."""

    async def story() -> list[Any]:
        agent = keeper(*sources)
        async with AgentRuntime.in_memory([agent], **options) as runtime:
            results = [await turn(runtime, agent, number + 1) for number in range(len(sources))]
        return [data.get("error") or data["result"]["output"] for data in results]  # type: ignore[index]

    return play(story())


def test_a_program_begins_with_the_variables_of_earlier_ones() -> None:
    first = "import math\nfound = [await double(1)]\ndef more(n: int) -> int:\n    return n + len(found)\n"
    assert outputs(f"{first}found", "found.append(more(5))\nfound", "math.prod(found)") == [[2], [2, 6], 12]


def test_variables_end_with_their_program_otherwise() -> None:
    async def story() -> str:
        agent = coder("found = 1", say("done"), call("run_code", {"code": "found"}))
        async with AgentRuntime.in_memory([agent]) as runtime:
            for number in (1, 2):
                handle = await runtime.start_run(agent, "go", session_id="s1", run_id=f"r{number}")
                await handle.wait(timeout=300)
            return str([event.data async for event in handle.events()])

    assert "Name `found` used when not defined" in play(story())


def test_the_model_is_told_how_long_variables_live() -> None:
    for agent, words in ((keeper("1"), "begins with the variables"), (coder("1"), "are gone")):

        async def story(agent: Agent = agent) -> None:
            async with AgentRuntime.in_memory([agent]) as runtime:
                await (await runtime.start_run(agent, "go")).wait(timeout=300)

        play(story())
        assert words in str(requests_of(agent)[0].tools)


def test_a_program_that_fails_changes_no_variable() -> None:
    _, error, found = outputs("found = [1]", "found.append(2)\n1 / 0", "found")
    assert "ZeroDivisionError" in str(error)
    assert 'File "program.py", line 2' in error["message"]
    assert found == [1]


def test_the_clock_of_each_program_shows_its_own_beginning() -> None:
    clock = "import datetime as d, time\n[str(d.datetime.now()), str(d.date.today()), time.time()]"
    first, second = outputs(clock, clock)
    assert first[0] < second[0]
    assert first[2] < second[2]
    assert second[0].startswith(second[1])


SOURCES = (
    "import random\nfound = [await double(21), random.random()]\nfound",
    "1 / 0",
    "big = len(await text())\nfound.append(await double(big))\nfound",
    "found.append(4)\nfound",
    "print('on')\nfound",
)


@tool(mode="read")
async def text() -> str:
    """Return a long text."""
    return "a" * TOOL_OUTPUT_CHARS_MAX * 2


def restarted(
    folder: Path, *interpreters: MontyInterpreter, tools: Sequence[Any] = (double, text)
) -> list[Any]:
    """Run the sources, each in a process of its own; return what the model is told about each."""

    async def story() -> list[Any]:
        results: list[JsonObject] = []
        for number, interpreter in enumerate(interpreters, 1):
            agent = keeper(*SOURCES, tools=(double, text) if number < len(interpreters) else tools)
            async with AgentRuntime.open(folder / "a.db", agents=[agent], interpreter=interpreter) as runtime:
                results.append(await turn(runtime, agent, number))
        return [data.get("error") or data["result"]["output"] for data in results]  # type: ignore[index]

    return play(story())


@pytest.mark.slow
@pytest.mark.parametrize("others", [(), (2,), (3,), (4,), (1, 3), (2, 3, 4)], ids=str)
def test_variables_survive_a_restart_with_any_release(tmp_path: Path, others: Sequence[int]) -> None:
    made = [OtherRelease() if number in others else MontyInterpreter() for number in range(5)]
    first, _, _, _, last = restarted(tmp_path, *made)
    assert last == {"result": [*first, TOOL_OUTPUT_CHARS_MAX * 4, 4], "printed": "on\n"}


@pytest.mark.slow
def test_the_model_is_told_if_the_interpreter_was_replaced_and_variables_cannot_be_made_again(
    tmp_path: Path,
) -> None:
    made = [*(MontyInterpreter() for _ in range(4)), OtherRelease()]
    last = restarted(tmp_path, *made, tools=[double])[-1]
    assert "NameError: name 'found' is not defined" in last["message"]
    assert "The variables of earlier programs are lost" in last["message"]


@pytest.mark.slow
@pytest.mark.parametrize("most", [2, 3])
def test_as_many_programs_are_run_again_as_the_limit_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("windlass.code_mode.programs.PROGRAM_REBUILT_MAX", most)
    made = [*(MontyInterpreter() for _ in range(4)), OtherRelease()]
    last = restarted(tmp_path, *made)[-1]
    assert ("are lost" in str(last)) == (most < 3), "three programs ended with variables"


@pytest.mark.slow
def test_variables_that_cannot_be_read_are_lost(tmp_path: Path) -> None:
    class Strange(MontyInterpreter):
        """An interpreter that has damaged variables."""

        async def run(self, program: Program, outcomes: Any, *, snapshot: bytes | None = None) -> Progress:
            damaged = program.variables and b"damaged"
            return await super().run(replace(program, variables=damaged), outcomes, snapshot=snapshot)

    made = [*(MontyInterpreter() for _ in range(4)), Strange()]
    assert "The variables of earlier programs are lost" in restarted(tmp_path, *made)[-1]["message"]


def test_a_program_that_waits_over_a_restart_keeps_its_variables(tmp_path: Path) -> None:
    sources = "found = [1]", "found.append(await pay(2))\nfound", "found"

    async def story() -> None:
        for is_first in (True, False):
            agent = keeper(*sources)
            async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
                if is_first:
                    await turn(runtime, agent, 1)
                    handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r2")
                    await until(handle, "run.waiting")
                    continue
                handle = runtime.handle("r2")
                (request,) = await handle.open_requests()
                await handle.answer(request.request_id, "approve")
                await handle.wait(timeout=300)
                last = await turn(runtime, agent, 3)
                assert last["result"]["output"] == [1, "paid 2"]  # type: ignore[index]

    play(story())


@pytest.mark.slow
@pytest.mark.parametrize("is_other", [False, True], ids=["same release", "another release"])
def test_a_history_that_is_compacted_while_a_program_waits_loses_neither_calls_nor_variables(
    tmp_path: Path, is_other: bool
) -> None:
    sources = ("found = [await double(1)]", "found.append(await pay(2))\nfound", "found")

    def answer(messages: Sequence[LLMMessage]) -> Answer:
        if is_summary(messages):
            return say("Programs were run.")
        if messages[-1].role == "tool" or not messages[-1].content.isdigit():
            return say(messages[-1].content)
        return call("run_code", {"code": sources[int(messages[-1].content)]}, call_id=messages[-1].content)

    def agent() -> Agent:
        model = ScriptedModel(answer)
        return Agent("keeper", model=model, tools=[double, pay], code_mode="session", compaction=100_000)

    async def story() -> None:
        one = agent()
        async with AgentRuntime.open(tmp_path / "a.db", agents=[one]) as runtime:
            for message in ("0", *["talk " * 100] * 6):
                await (await runtime.start_run(one, message, session_id="s1")).wait(timeout=300)
            handle = await runtime.start_run(one, "1", session_id="s1", run_id="r1")
            await until(handle, "run.waiting")
            await runtime.sessions.compact("s1")
            await until(handle, "compaction.requested")
        one, interpreter = agent(), OtherRelease() if is_other else MontyInterpreter()
        async with AgentRuntime.open(tmp_path / "a.db", agents=[one], interpreter=interpreter) as runtime:
            handle = runtime.handle("r1")
            (request,) = await handle.open_requests()
            await handle.answer(request.request_id, "approve")
            assert (await handle.wait(timeout=300)).output == '[2,"paid 2"]'
            kinds = [event.type async for event in handle.events()]
            assert kinds.index("compaction.completed") > kinds.index("program.ended")
            last = await (await runtime.start_run(one, "2", session_id="s1")).wait(timeout=300)
            assert last.output == '[2,"paid 2"]'

    play(story())


def test_a_copy_of_a_session_has_variables_of_its_own() -> None:
    async def story() -> list[Any]:
        agent = keeper("found = [1]", "found.append(2)\nfound", "found.append(3)\nfound")
        async with AgentRuntime.in_memory([agent]) as runtime, AgentRuntime.in_memory([agent]) as other:
            await turn(runtime, agent, 1)
            await runtime.sessions.fork("s1", session_id_new="s2")
            await other.sessions.import_([line async for line in runtime.sessions.export("s1")])
            results = [await turn(runtime, agent, 2), await turn(other, agent, 2)]
            copy = await runtime.start_run(agent, "go", session_id="s2", run_id="r3")
            await copy.wait(timeout=300)
            results.append(result_of([event async for event in copy.events()], "c2"))
        return [data["result"]["output"] for data in results]  # type: ignore[index]

    assert play(story()) == [[1, 2]] * 3


def test_variables_that_are_too_large_are_not_kept_and_the_model_is_told() -> None:
    large = f"found = 'x' * {PROGRAM_VARIABLES_BYTES_MAX}\n'made'"
    _, second, third = outputs("found = 1", large, "found")
    assert second["result"] == "made"
    assert "are not kept: they have" in second["printed"]
    assert third == 1


def test_code_mode_is_a_truth_value_or_session() -> None:
    with pytest.raises(Rejected, match="code_mode"):
        Agent("a", model=ScriptedModel([]), code_mode="always")  # type: ignore[arg-type]


def test_names_are_those_that_statements_assign() -> None:
    source = """
import os.path, json as j
from math import pi
a, (b, *c) = d = 1, (2, 3)
for e in range(3):
    f = [g for g in range(3)]
if (h := 3) > 2:
    def i(k: int) -> int:
        m = k
        return m
class N:
    o = 1
with open("x") as p:
    q: int = 1
"""
    assert sorted(find_assignments(source)) == sorted(
        ["os", "j", "pi", "a", "b", "c", "d", "e", "f", "h", "i", "N", "p", "q"]
    )
    assert find_assignments("def (") == []
