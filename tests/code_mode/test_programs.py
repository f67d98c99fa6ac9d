"""Programs of models: code mode and workflows in a real runtime, with the real interpreter."""

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json
from tests.faults.rig import runtime_on
from tests.runtime.runtime_rig import play, until

from windlass import Agent, AgentRuntime, PolicySet, Rule, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.agent.dynamic import DynamicContext, dynamic
from windlass.code_mode import programs
from windlass.engine.tool_calls.call_judge import CallJudge
from windlass.errors import Rejected
from windlass.limits import (
    PROGRAM_PRINTED_CHARS_MAX,
    PROGRAM_RESULT_VALUES_MAX,
    TOOL_OUTPUT_CHARS_MAX,
)
from windlass.parts import Rules
from windlass.ports.interpreter import Program, ProgramCall, Progress
from windlass.testing import Answer, ScriptedModel, by_history, call, say
from windlass.testing.interpreter import WaveInterpreter, waves
from windlass.tools import Tool
from windlass.tools.programs import Functions, program_tools
from windlass_harness.loop.events import JudgeCall, LoopEvent
from windlass_harness.loop.state import LoopState
from windlass_harness.views.eve import EveGrammar
from windlass_protocol import Event, JsonObject, RunMode


@tool(mode="read")
async def double(number: int) -> int:
    """Double a number."""
    return number * 2


@tool(mode="external")
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@tool(mode="read")
async def note(text: str) -> str:
    """Return a text."""
    return text


def coder(
    source: str, *more: Answer, tools: Sequence[Tool[..., object]] = (double, pay), **options: Any
) -> Agent:
    script = by_history([call("run_code", {"code": source}), *more, say("done")])
    return Agent("coder", model=ScriptedModel(script), tools=tools, code_mode=True, **options)


def requests_of(agent: Agent) -> Sequence[Any]:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model.requests


async def run(agent: Agent, **options: Any) -> list[Event]:
    async with AgentRuntime.in_memory([agent], **options) as runtime:
        handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
        await handle.wait(timeout=300)
        return [event async for event in handle.events()]


def result_of(events: Sequence[Event], call_id: str = "call-1") -> JsonObject:
    (data,) = (
        event.data
        for event in events
        if event.type == "action.result" and event.data["result"]["callId"] == call_id  # type: ignore[index]
    )
    return data


def output_of(agent: Agent, **options: Any) -> Any:
    return result_of(play(run(agent, **options)))["result"]["output"]  # type: ignore[index]


def failure_of(agent: Agent, **options: Any) -> tuple[str, str]:
    error = result_of(play(run(agent, **options)))["error"]
    assert isinstance(error, dict)
    return str(error["code"]), str(error["message"])


def test_the_value_of_the_last_expression_is_the_result() -> None:
    assert output_of(coder("x = await double(4)\nawait double(x)")) == 16


def test_what_is_printed_comes_with_the_value() -> None:
    assert output_of(coder('print("half")\nawait double(1)')) == {"result": 2, "printed": "half\n"}


def test_calls_of_a_program_are_calls_under_the_call_of_the_program() -> None:
    events = play(run(coder("import asyncio\nawait asyncio.gather(double(1), double(number=2))")))
    (asked,) = [
        event.data
        for event in events
        if event.type == "actions.requested" and event.data.get("parentCallId") == "call-1"
    ]
    assert asked["actions"] == [
        {"kind": "tool-call", "callId": f"call-1/{at}", "toolName": "double", "input": {"number": at + 1}}
        for at in (0, 1)
    ]
    begun = [event.data["idempotencyKey"] for event in events if event.type == "action.started"]
    assert begun == ["r1/0/call-1", "r1/0/call-1/0", "r1/0/call-1/1"]
    assert [result_of(events, f"call-1/{at}")["result"]["output"] for at in (0, 1)] == [2, 4]  # type: ignore[index]


def test_the_model_sees_one_tool_with_signatures_and_one_result() -> None:
    agent = coder("await double(1)")
    play(run(agent))
    first, last = requests_of(agent)
    assert [definition["name"] for definition in first.tools] == ["run_code"]
    assert (
        'async def double(number: int) -> int:\n    """Double a number."""' in first.tools[0]["description"]
    )
    assert [message.role for message in last.messages] == ["user", "assistant", "tool"]


def test_calls_of_a_gather_run_at_the_same_time() -> None:
    all_three = asyncio.Barrier(3)

    @tool(mode="read")
    async def meet() -> bool:
        """Wait until three calls are under way."""
        async with all_three:
            return True

    source = "import asyncio\nawait asyncio.gather(meet(), meet(), meet())"
    assert output_of(coder(source, tools=[meet])) == [True, True, True]


def test_all_approvals_of_a_gather_are_asked_at_once_and_a_denial_raises() -> None:
    source = """
import asyncio
async def attempt(cents: int) -> str:
    try:
        return await pay(cents)
    except PermissionError as error:
        return f"not paid: {error}"
await asyncio.gather(attempt(1), attempt(2))
"""

    async def story() -> None:
        agent = coder(source)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await until(handle, "run.waiting")
            first, second = await handle.open_requests()
            await handle.answer(first.request_id, "deny", text="too much")
            await handle.answer(second.request_id, "approve")
            await handle.wait(timeout=300)
            events = [event async for event in handle.events()]
        value = result_of(events)["result"]["output"]  # type: ignore[index]
        assert value == ["not paid: A person denied the call: too much", "paid 2"]

    play(story())


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", [True, False], ids=["snapshot", "from its source"])
def test_a_program_waits_over_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    source = "import random\nfirst = await double(4)\nlucky = random.random()\n[await pay(first), lucky]"
    path, values = tmp_path / "app.db", list[Any]()

    async def ask() -> str:
        agent = coder(source)
        async with AgentRuntime.open(path, agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await until(handle, "run.waiting")
            (request,) = await handle.open_requests()
            return request.request_id

    async def answer(request_id: str) -> None:
        agent = coder(source)
        async with AgentRuntime.open(path, agents=[agent]) as runtime:
            handle = runtime.handle("r1")
            await handle.answer(request_id, "approve")
            await handle.wait(timeout=300)
            events = [event async for event in handle.events()]
        values.append(result_of(events)["result"]["output"])  # type: ignore[index]
        assert sum(event.type == "action.started" for event in events) == 3

    request_id = play(ask())
    if not is_kept:
        monkeypatch.setattr("windlass.code_mode.monty.MontyInterpreter.version", "monty/9")
    play(answer(request_id))
    ((paid, lucky),) = values
    assert paid == "paid 8"
    assert lucky == output_of(coder("import random\nrandom.random()"))


def test_a_program_that_goes_another_way_fails_clearly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "app.db"

    async def ask(agent: Agent) -> str:
        async with AgentRuntime.open(path, agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await until(handle, "run.waiting")
            (request,) = await handle.open_requests()
            return request.request_id

    async def answer(agent: Agent, request_id: str) -> tuple[str, str]:
        async with AgentRuntime.open(path, agents=[agent]) as runtime:
            handle = runtime.handle("r1")
            await handle.answer(request_id, "approve")
            await handle.wait(timeout=300)
            error = result_of([event async for event in handle.events()])["error"]
            assert isinstance(error, dict)
            return str(error["code"]), str(error["message"])

    request_id = play(ask(coder("import time\nawait pay(int(time.time()))")))
    monkeypatch.setattr("windlass.code_mode.monty.MontyInterpreter.version", "monty/9")
    monkeypatch.setattr("windlass.code_mode.programs.datetime", _Later)
    code, message = play(answer(coder("x"), request_id))
    assert code == "diverged"
    assert "call 0 was of pay" in message


class _Later:
    """A clock that forgets when a program began."""

    @staticmethod
    def fromisoformat(_: str) -> Any:
        from datetime import UTC, datetime  # noqa: PLC0415

        return datetime(2000, 1, 1, tzinfo=UTC)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("await double('a')", "Expected `int`"),
        ("await triple(1)", "Name `triple` used when not defined"),
        ("def (:", "invalid-syntax"),
        ("import numpy", "numpy"),
        ("open('/etc/passwd')", "open"),
    ],
)
def test_bad_code_is_refused_before_it_runs(source: str, told: str) -> None:
    code, message = failure_of(coder(f"await double(1)\n{source}"))
    assert code == "invalid_code"
    assert told in message
    assert "program.py:2:" in message


def test_bad_code_costs_a_bounded_number_of_tries() -> None:
    bad = [call("run_code", {"code": "oops("}, call_id=f"c{at}") for at in range(9)]
    agent = Agent("coder", model=ScriptedModel(by_history(bad)), tools=[double], code_mode=True)
    events = play(run(agent, rules=Rules(refusals_max=3)))
    assert events[-1].type == "run.failed" or any(event.type == "run.failed" for event in events)
    assert sum(event.type == "step.started" for event in events) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("await double(1)\n1 / 0", "line 2"),
        ("import os\nos.listdir('/')", "PermissionError"),
        ("while True:\n    pass", "time limit"),
        ("x = [0] * 10**9", "MemoryError"),
    ],
)
def test_a_program_that_fails_tells_the_model_why(source: str, told: str) -> None:
    code, message = failure_of(coder(source))
    assert code == "program_failed"
    assert told in message


def test_the_failure_of_a_call_is_raised_in_the_program() -> None:
    @tool(mode="read")
    async def broken() -> int:
        """Fail."""
        raise ValueError("no such thing")

    source = "try:\n    await broken()\nexcept RuntimeError as error:\n    found = str(error)\nfound"
    assert "no such thing" in output_of(coder(source, tools=[broken]))


def test_a_call_that_is_not_awaited_happens_and_the_result_waits_for_it() -> None:
    seen: list[int] = []

    @tool(mode="read")
    async def late(number: int) -> int:
        """Take a while."""
        for _ in range(20):
            await asyncio.sleep(0)
        seen.append(number)
        return number

    events = play(run(coder("x = late(7)\n'over'", tools=[late])))
    assert result_of(events)["result"]["output"] == "over"  # type: ignore[index]
    assert seen == [7]
    assert "program.ended" in [event.type for event in events]


def test_too_many_calls_fail_the_program() -> None:
    source = "import asyncio\nawait asyncio.gather(*[double(at) for at in range(9)])"
    code, message = failure_of(coder(source), rules=Rules(program_calls_max=8))
    assert code == "too_many_calls"
    assert "over 8 calls" in message


def test_a_result_that_is_too_large_for_the_model_is_whole_in_the_program() -> None:
    @tool(mode="read")
    async def book() -> str:
        """Return a book."""
        return "a" * (TOOL_OUTPUT_CHARS_MAX * 2)

    assert output_of(coder("len(await book())", tools=[book])) == TOOL_OUTPUT_CHARS_MAX * 2


def test_a_result_of_too_many_values_raises_in_the_program() -> None:
    @tool(mode="read")
    async def rows(count: int) -> list[int]:
        """Return rows."""
        return [0] * count

    source = "async def attempt(count: int) -> str:\n    try:\n        return str(len(await rows(count)))\n"
    source += "    except RuntimeError as error:\n        return str(error)\n"
    source += f"[await attempt(at) for at in ({PROGRAM_RESULT_VALUES_MAX + 1}, 60_000)]"
    refused, size = output_of(coder(source, tools=[rows]))
    assert f"over {PROGRAM_RESULT_VALUES_MAX:,} values" in refused
    assert size == "60000"


def test_a_result_of_as_many_values_as_the_limit_is_whole_in_the_program() -> None:
    @tool(mode="read")
    async def rows(count: int) -> list[int]:
        """Return rows."""
        return [0] * count

    source = waves([("rows", {"count": PROGRAM_RESULT_VALUES_MAX})])
    data = result_of(play(run(coder(source, tools=[rows]), interpreter=WaveInterpreter())))
    assert data["contentRef"]["sizeBytes"] == len(to_json([[0] * PROGRAM_RESULT_VALUES_MAX]))  # type: ignore[index]


def test_a_result_of_the_content_store_is_read_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    read = programs.from_json

    def traced(raw: bytes) -> object:
        threads.append(threading.get_ident())
        return read(raw)

    @tool(mode="read")
    async def book() -> str:
        """Return a book."""
        return "a" * (TOOL_OUTPUT_CHARS_MAX + 1)

    monkeypatch.setattr(programs, "from_json", traced)
    assert output_of(coder("len(await book())", tools=[book])) == TOOL_OUTPUT_CHARS_MAX + 1
    assert threads
    assert threading.get_ident() not in threads


def test_what_a_program_prints_is_bounded() -> None:
    value = output_of(coder(f"print('a' * {PROGRAM_PRINTED_CHARS_MAX})\nprint('b')\n1"))
    assert value == {"result": 1, "printed": "a" * PROGRAM_PRINTED_CHARS_MAX}


def test_a_tool_is_direct_or_in_code_or_both() -> None:
    @tool(mode="read")
    async def alone() -> str:
        """Be called by the model."""
        return "direct"

    @tool(mode="read")
    async def either() -> str:
        """Be called by the model or by a program."""
        return "either"

    agent = coder(
        "await either()",
        call("alone"),
        call("either"),
        call("double", {"number": 1}),
        tools=[double, alone.with_options(use="direct"), either.with_options(use="both")],
    )
    events = play(run(agent))
    names = {definition["name"] for definition in requests_of(agent)[0].tools}
    assert names == {"run_code", "alone", "either"}
    assert "async def alone" not in str(requests_of(agent)[0].tools)
    assert [result_of(events, f"call-{at}")["status"] for at in (1, 2, 3, 4)] == ["completed"] * 3 + [
        "failed"
    ]
    assert "call it in the code" in str(result_of(events, "call-4")["error"])


def test_subagents_work_in_a_workflow_at_the_same_time() -> None:
    both = asyncio.Barrier(2)

    @tool(mode="read")
    async def meet() -> str:
        """Meet the other one."""
        async with asyncio.timeout(60):
            await both.wait()
        return "met"

    def worker(name: str) -> Agent:
        return Agent(
            name, model=ScriptedModel(by_history([call("meet"), say(f"{name} is done")])), tools=[meet]
        )

    source = "import asyncio\nawait asyncio.gather(left('work'), right('work'))"
    model = ScriptedModel(by_history([call("run_workflow", {"code": source}), say("done")]))
    boss = Agent(
        "boss", model=model, subagents=[worker("left"), worker("right")], tools=[double], workflow=True
    )
    events = play(run(boss))
    assert result_of(events)["result"]["output"] == ["left is done", "right is done"]  # type: ignore[index]
    description = str(model.requests[0].tools[-1]["description"])
    assert "async def left(message: str" in description
    assert "async def double" not in description


def flow(source: str, *agents: Agent, **options: Any) -> Agent:
    model = ScriptedModel(by_history([call("run_workflow", {"code": source}), say("done")]))
    return Agent("boss", model=model, subagents=agents, workflow=True, **options)


def test_an_agent_of_a_workflow_returns_data_that_fits_a_schema() -> None:
    answers = [say('{"words": 3}')]
    counter = Agent("counter", model=ScriptedModel(by_history(answers)))
    schema = {"type": "object", "properties": {"words": {"type": "integer"}}, "required": ["words"]}
    boss = flow(f"(await counter('Count.', output={schema}))['words'] + 1", counter)
    events = play(run(boss))
    assert result_of(events)["result"]["output"] == 4  # type: ignore[index]
    assert "output: dict[str, Any] | None = ..." in str(requests_of(boss)[0].tools[-1]["description"])


def test_a_workflow_calls_as_many_agents_as_the_limit_allows() -> None:
    worker = Agent("worker", model=ScriptedModel(by_history([say("did it")])))
    source = """
import asyncio
async def attempt(number: int) -> str:
    try:
        return await worker(f"Part {number}.")
    except PermissionError as error:
        return str(error)
await asyncio.gather(*[attempt(at) for at in range(4)])
"""
    *did, last = output_of(flow(source, worker), rules=Rules(subagent_calls_max=3))
    assert did == ["did it"] * 3
    assert "has called 3 subagents" in last


def test_the_policy_judges_each_call_of_a_program() -> None:
    policy = PolicySet(rules=(Rule("no-doubles", "deny", tools=("double",)),))
    source = "try:\n    await double(1)\nexcept PermissionError:\n    found = 'denied'\nfound"
    assert output_of(coder(source, policy=policy)) == "denied"


def test_a_dynamic_tool_is_a_function_of_programs() -> None:
    async def more(_: DynamicContext) -> list[Tool[..., object]]:
        @tool(mode="read")
        async def triple(number: int) -> int:
            """Triple a number."""
            return number * 3

        return [triple]

    agent = coder("await triple(3)", tools=[double, dynamic(more, at="turn")])  # type: ignore[list-item]
    assert output_of(agent) == 9


def test_a_cancel_ends_a_program_that_waits() -> None:
    async def story() -> None:
        agent = coder("await pay(1)")
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await until(handle, "run.waiting")
            await handle.cancel()
            result = await handle.wait(timeout=300)
            assert result.status.value == "cancelled"
            again = await runtime.start_run(agent, "go on", session_id="s1", run_id="r2")
            assert (await again.wait(timeout=300)).output == "done"

    play(story())


def test_an_agent_with_programs_needs_an_interpreter() -> None:
    async def story() -> None:
        async with runtime_on(MemoryStore(), [coder("1")]) as runtime:
            with pytest.raises(Rejected, match="missing required runtime port: interpreter"):
                await runtime.start_run("coder", "go")

    play(story())


def test_the_names_of_the_program_tools_are_taken() -> None:
    @tool(name="run_code", mode="read")
    async def own() -> str:
        """Clash."""
        return ""

    with pytest.raises(Rejected, match="run_code"):
        Agent("coder", model=ScriptedModel([]), tools=[own], code_mode=True)


def test_the_tool_that_runs_programs_has_one_schema_in_all_agents_and_runs() -> None:
    first, second = (program_tools(["code"], tools)["run_code"] for tools in ([pay], []))
    assert first.shape is second.shape
    assert (first.description == second.description, first.program is second.program) == (False, False)


def test_the_trace_has_the_calls_under_the_program_and_the_ledger_one_decision() -> None:
    async def story() -> None:
        agent = coder("try:\n    await pay(1)\nexcept PermissionError:\n    pass\nawait double(1)")
        async with AgentRuntime.in_memory([agent], is_attended=False) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await handle.wait(timeout=300)
            spans = {span.name: span for span in (await runtime.sessions.trace("r1")).spans}
            above = spans["tool.dispatch:run_code"].span_id
            assert spans["tool.dispatch:double"].parent_id == above
            assert spans["tool.dispatch:pay"].parent_id == above
            ledger = await runtime.handle("r1").decisions()
            assert [decision.intent for decision in ledger.decisions if "run_code" in decision.intent]
            assert not [decision for decision in ledger.decisions if "double" in decision.intent]
            (problem,) = ledger.problems
            assert problem.decision_id == ledger.decisions[0].id

    play(story())


def test_a_client_of_eve_sees_the_program_alone() -> None:
    grammar = EveGrammar(
        None, is_turn_open=False, keeps_index=False, mode=RunMode.CONVERSATION, actions={}, requests=()
    )
    events = play(run(coder("await double(1)")))
    shown = [kind for event in events for kind, _ in grammar.take(event.type, event.data)]
    assert shown.count("actions.requested") == shown.count("action.result") == 1


class Broken(WaveInterpreter):
    """An interpreter with a fault."""

    def __init__(self, *, fails_at: str) -> None:
        super().__init__()
        self._fails_at = fails_at

    async def check(self, program: Program) -> str | None:
        if self._fails_at == "check":
            raise RuntimeError("no luck")
        return await super().check(program)

    async def run(self, program: Program, outcomes: Any, *, snapshot: bytes | None = None) -> Progress:
        raise RuntimeError("no luck")


@pytest.mark.parametrize("fails_at", ["check", "run"])
def test_a_fault_of_the_interpreter_fails_the_call_and_not_the_process(fails_at: str) -> None:
    agent = coder(waves([("double", {"number": 1})]))
    assert failure_of(agent, interpreter=Broken(fails_at=fails_at))[0] == "interpreter_failed"


def test_an_interpreter_of_tests_makes_waves_of_calls() -> None:
    source = waves([("double", {"number": 1}), ("double", {"number": 2})], [("double", {"number": 3})])
    assert output_of(coder(source), interpreter=WaveInterpreter()) == [2, 4, 6]


@pytest.mark.slow
def test_others_have_their_turn_between_thousands_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, read = 0, list[int]()
    call_of = Functions.call

    def noted(self: Functions, made: ProgramCall) -> tuple[str, JsonObject]:
        read.append(turns)
        return call_of(self, made)

    monkeypatch.setattr(Functions, "call", noted)
    source = "import asyncio\nawait asyncio.gather(*[double(at) for at in range(5_000)])"

    async def story() -> None:
        nonlocal turns
        running = asyncio.ensure_future(run(coder(source)))
        while not running.done():
            turns += 1
            await asyncio.sleep(0)
        error: Any = result_of(running.result())["error"]
        assert error["code"] == "too_many_calls"

    play(story())
    assert len(read) == 5_000
    assert max(Counter(read).values()) <= 100


def test_the_calls_of_a_program_are_judged_at_once_where_the_rules_allow_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[str] = []
    judge = CallJudge.judge

    async def count_judge(self: CallJudge, state: LoopState, effect: JudgeCall) -> LoopEvent:
        judged.append(effect.tool_name)
        return await judge(self, state, effect)

    monkeypatch.setattr(CallJudge, "judge", count_judge)
    source = "total = 0\nfor number in range(20):\n    total += await double(number)\ntotal"
    assert output_of(coder(source)) == 380
    assert judged == ["run_code", "double"], "the policy was asked about the first call alone"


def test_a_call_of_a_program_with_a_mask_is_refused_each_time() -> None:
    masked = (
        "try:\n    {} = await note('[redacted:token]')\nexcept RuntimeError as error:\n    {} = str(error)\n"
    )
    tries = "".join(masked.replace("{}", name) for name in ("second", "third"))
    source = f"first = await note('plain')\n{tries}[first, second == third, 'secret' in second]"
    assert output_of(coder(source, tools=(note,))) == ["plain", True, True]
