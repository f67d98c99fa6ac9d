"""Hostile and unlucky programs: none of them ends more than its own call."""

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.code_mode.interpreters import OtherRelease
from tests.code_mode.test_programs import coder, failure_of, output_of, pay, requests_of, result_of, run
from tests.runtime.runtime_rig import play, until

from windlass import Agent, AgentRuntime, Budget, tool
from windlass.code_mode import MontyInterpreter, programs
from windlass.code_mode.monty_helper import Plain, TooLarge
from windlass.limits import (
    ARGUMENT_VALUES_MAX,
    PROGRAM_ARGUMENTS_BYTES_MAX,
    PROGRAM_PRINTED_CHARS_MAX,
    PROGRAM_SOURCE_CHARS_MAX,
    PROGRAM_VALUE_CHARS_MAX,
    TOOL_OUTPUT_CHARS_MAX,
)
from windlass.ports.interpreter import NoSnapshot, Program, ProgramLimits, ProgramValue
from windlass.runtime.handle import RunHandle
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.tools.programs import Functions
from windlass_harness.policy import CallFacts
from windlass_protocol import (
    AllowDecision,
    DeferDecision,
    Event,
    JsonObject,
    JsonValue,
    ModifyDecision,
    PolicyDecision,
)

SECRET = "hunter2hunter2"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
GATHER = "import asyncio\nawait asyncio.gather(pay(1), pay(2))"


@tool(mode="read")
async def echo(value: Any) -> Any:
    """Return a value as it is."""
    return value


def named(name: str) -> Any:
    @tool(mode="read", name=name)
    async def one(number: int) -> int:
        """Return a number."""
        return number

    return one


def told(events: Sequence[Event], call_id: str = "call-1") -> str:
    return str(result_of(events, call_id)["error"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("float('nan')", "nan"),
        ("2**70", str(2**70)),
        ("2**20_000", hex(2**20_000)),
        ("{1: b'a', (1, 2): {3}}", {"1": "b'a'", "[1, 2]": [3]}),
        ("class A:\n    def __init__(self) -> None:\n        self.b = [self]\nA()", {"b": ["..."]}),
        ("[double(1)]", ["<coroutine external_future(0)>"]),
        ("'\\ud800'", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_text_stands_for_a_value_that_has_no_json_form(value: str, found: Any) -> None:
    assert output_of(coder(value)) == found


@pytest.mark.slow
@pytest.mark.parametrize("levels", [90, 500, 5_000])
def test_a_value_of_many_levels_is_cut(levels: int) -> None:
    value = output_of(coder(f"x = []\nfor _ in range({levels}):\n    x = [x]\nx"))
    for _ in range(40):
        (value,) = value
    # A record has room for 64 levels, with those around the value.
    assert str(value).count("[") < 10


def test_a_value_that_contains_itself_has_an_end() -> None:
    assert output_of(coder("x = []\nx.append(x)\nx")) == ["[...]"]


@pytest.mark.parametrize("use", ["x", "await echo(x)"])
def test_a_value_that_repeats_a_small_one_many_times_is_too_large(use: str) -> None:
    code, message = failure_of(
        coder(f"x = 'a' * 1000\nfor _ in range(5):\n    x = [x] * 1000\n{use}", tools=[echo])
    )
    assert code == "program_failed"
    assert f"over {PROGRAM_VALUE_CHARS_MAX:,} characters" in message


@pytest.mark.parametrize("value", ["", {}, (), set[int](), b"", 1, 0.5, None, True, 2**70, float("inf"), ...])
def test_every_part_of_a_value_counts(value: object) -> None:
    for _ in range(5):
        value = [value] * 1_000
    with pytest.raises(TooLarge):
        Plain(10_000)(value)


def test_a_large_value_is_cut_for_the_model_and_whole_in_the_content_store() -> None:
    data = result_of(play(run(coder(f"'a' * {PROGRAM_VALUE_CHARS_MAX}"))))
    assert len(str(data["result"]["output"])) < TOOL_OUTPUT_CHARS_MAX + 200  # type: ignore[index]
    assert data["contentRef"]["sizeBytes"] == PROGRAM_VALUE_CHARS_MAX + 2  # type: ignore[index]


@pytest.mark.parametrize(
    ("argument", "limit"),
    [("'a' * 100_000", PROGRAM_ARGUMENTS_BYTES_MAX), ("[[]] * 5_000", ARGUMENT_VALUES_MAX)],
)
def test_calls_with_too_large_arguments_are_not_made_and_the_run_goes_on(argument: str, limit: int) -> None:
    source = f"import asyncio\nawait asyncio.gather(*[echo({argument}) for _ in range(10)])"
    events = play(run(coder(source, tools=[echo])))
    assert f"a program may pass {limit:,} before it waits" in told(events)
    assert not [event for event in events if event.data.get("parentCallId")]
    assert "run.completed" in [event.type for event in events]


def test_a_program_that_prints_without_end_goes_on_without_the_rest() -> None:
    value = output_of(coder("for _ in range(20_000):\n    print('a' * 100)\nawait double(1)"))
    assert value["result"] == 2
    assert len(value["printed"]) == PROGRAM_PRINTED_CHARS_MAX


def test_a_source_at_the_limit_runs_and_a_longer_one_is_refused() -> None:
    most = "1#".ljust(PROGRAM_SOURCE_CHARS_MAX, "a")
    assert output_of(coder(most)) == 1
    assert failure_of(coder(most + "a"))[0] == "invalid_arguments"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("class", "call_class"),
        ("print", "call_print"),
        ("int", "call_int"),
        ("asyncio", "call_asyncio"),
        ("Any", "call_Any"),
        ("Object1", "call_Object1"),
        ("_", "call__"),
        ("windlass_begin", "call_windlass_begin"),
        ("my-tool", "my_tool"),
        ("1st", "call_1st"),
        ("match", "match"),
    ],
)
def test_a_tool_of_any_name_is_a_function(name: str, function: str) -> None:
    source = f"import asyncio\nx = int('3')\nprint(x)\nawait asyncio.gather({function}(x))"
    assert Functions([named(name)]).names == (function,)
    assert output_of(coder(source, tools=[named(name)]))["result"] == [3]


def test_tools_whose_names_become_equal_are_different_functions() -> None:
    tools = [named("a-b"), named("a_b")]
    assert Functions(tools).names == ("a_b", "a_b_")
    events = play(run(coder("[await a_b(1), await a_b_(2)]", tools=tools)))
    assert [result_of(events, f"call-1/{at}")["result"]["toolName"] for at in (0, 1)] == ["a-b", "a_b"]  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "code", "error"),
    [
        (f"[{'0, ' * 3_000}1 / 0]", "program_failed", "ZeroDivisionError"),
        ("(" * 5_000, "invalid_code", "SyntaxError"),
        ("raise ValueError('a' * 100_000)", "program_failed", "ValueError"),
    ],
)
def test_the_error_of_a_very_long_line_is_told_with_its_place(source: str, code: str, error: str) -> None:
    found, message = failure_of(coder(source))
    assert found == code
    assert error in message
    assert "line 1" in message
    assert len(message) < 5_000


def test_a_program_may_catch_the_refusal_of_wrong_arguments() -> None:
    source = (
        "try:\n    await double(**{'other': 1})\nexcept RuntimeError as error:\n    found = str(error)\nfound"
    )
    assert "/other: expected no field of this name" in output_of(coder(source))


def test_an_argument_that_is_given_twice_is_refused() -> None:
    for given in ("1, **{'number': 2}", "*[1, 2]"):
        _, message = failure_of(coder(f"await double({given})"))
        assert "/positional: expected no field of this name" in message


class Dying(MontyInterpreter):
    """An interpreter whose helper is killed at its first runs."""

    def __init__(self, runs: int) -> None:
        super().__init__()
        self.runs = runs

    def _start_helper(self) -> Any:
        helper = super()._start_helper()
        ask = helper.ask

        def ask_killed(
            request: JsonObject, snapshot: bytes, variables: bytes, *, limits: ProgramLimits
        ) -> tuple[JsonObject, bytes, bytes]:
            if request["task"] == "run" and self.runs:
                self.runs -= 1
                os.kill(helper.process.pid, signal.SIGKILL)
            return ask(request, snapshot, variables, limits=limits)

        helper.ask = ask_killed
        return helper


def test_a_helper_that_is_killed_is_replaced_once() -> None:
    assert output_of(coder("await double(1)"), interpreter=Dying(1)) == 2
    code, message = failure_of(coder("await double(1)"), interpreter=Dying(2))
    assert (code, "ended its interpreter" in message) == ("program_failed", True)


def plain_program(source: str) -> Program:
    limits = programs._LIMITS  # pyright: ignore[reportPrivateUsage]
    return Program(source, functions=(), stubs="", at=NOW, seed="", limits=limits)


def test_a_program_runs_after_all_helpers_were_killed_between_two_programs() -> None:
    async def story() -> None:
        interpreter = MontyInterpreter()
        helpers = [interpreter._start_helper() for _ in range(4)]  # pyright: ignore[reportPrivateUsage]
        interpreter._idle += helpers  # pyright: ignore[reportPrivateUsage]
        for helper in helpers:
            os.kill(helper.process.pid, signal.SIGKILL)
            await asyncio.to_thread(os.waitid, os.P_PID, helper.process.pid, os.WEXITED | os.WNOWAIT)
        progress = await interpreter.run(plain_program("1 + 1"), [])
        assert progress.end == ProgramValue(2)
        await interpreter.aclose()

    asyncio.run(story())


def test_closing_ends_a_helper_that_is_stuck_and_drops_the_programs_that_wait() -> None:
    async def story() -> None:
        interpreter = MontyInterpreter()
        helper = interpreter._start_helper()  # pyright: ignore[reportPrivateUsage]
        interpreter._idle.append(helper)  # pyright: ignore[reportPrivateUsage]
        os.kill(helper.process.pid, signal.SIGSTOP)
        count = 4 * (os.cpu_count() or 1)
        asked = [asyncio.create_task(interpreter.check(plain_program("1 + 1"))) for _ in range(count)]
        while helper not in interpreter._busy:  # pyright: ignore[reportPrivateUsage]  # noqa: ASYNC110
            await asyncio.sleep(0)
        await interpreter.aclose()
        assert helper.process.returncode == -signal.SIGKILL
        await asyncio.wait(asked)
        assert asked[-1].cancelled()
        with pytest.raises(RuntimeError):
            await interpreter.check(plain_program("1"))

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.parametrize("snapshot", [b"\n", b"x\ndump", b"7\ndump", b"[0]\n", b"[0]\ndump", bytes(100)])
def test_a_snapshot_that_cannot_be_read_is_no_snapshot(snapshot: bytes) -> None:
    async def story() -> None:
        interpreter = MontyInterpreter()
        with pytest.raises(NoSnapshot):
            await interpreter.run(plain_program("1 + 1"), [], snapshot=snapshot)
        await interpreter.aclose()

    asyncio.run(story())


PAIRS = "k = (1,)\nfor i in range(40):\n    k = (k, k)\n"
"""A value that costs a program 40 steps, and its hash 2**40."""
FROZEN = (
    f"from dataclasses import dataclass\n@dataclass(frozen=True)\nclass A:\n    a: object\n{PAIRS}a = A(k)\n"
)


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs may use less time between two waits, so that hostile ones end sooner."""
    limits = replace(programs._LIMITS, turn_ms=300)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(programs, "_LIMITS", limits)


@pytest.mark.slow
@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize(
    "source",
    [
        f"{PAIRS}{{k: 1}}",
        f"{PAIRS}{{k}}",
        f"{PAIRS}frozenset([k])",
        f"{PAIRS}k",
        f"{PAIRS}[1, {{'a': {{k: 1}}}}]",
        f"{PAIRS}await echo({{k: 1}})",
        f"{PAIRS}await echo(value={{k}})",
        f"{PAIRS}await echo(**{{'value': {{k: 1}}}})",
        f"{PAIRS}print(k)",
        f"{PAIRS}raise ValueError(str(k))",
        f"{FROZEN}a",
        f"{FROZEN}{{a: 1}}",
        "s = frozenset()\nfor i in range(40):\n    s = frozenset([s, (s, s)])\n{s: 1}",
        "class A:\n    def __init__(self, b: object) -> None:\n        self.b = b\n        self.c = b\n"
        "a = A(1)\nfor i in range(40):\n    a = A(a)\na",
        "x = ()\nfor i in range(200_000):\n    x = (x,)\n{x: 1}",
        "1 << 240_000_000",
        "'a' * 60_000_000",
        "await echo(**{'a' * 40_000_000: 1})",
        "raise ValueError('a' * 50_000_000)",
        "while True:\n    print('a' * 100_000)",
        "import asyncio\nawait asyncio.gather(*[echo(1) for _ in range(90_000)])",
    ],
    ids=lambda source: source[-30:],
)
def test_a_hostile_value_fails_its_program_and_nothing_else(source: str) -> None:
    async def story() -> None:
        agent = coder(source, tools=[echo])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            assert (await handle.wait(timeout=300)).output == "done", "the model was told, and answered"
            events = [event async for event in handle.events()]
            assert result_of(events)["status"] == "failed"
            assert len(told(events)) < 30_000

    play(story())


@pytest.mark.slow
@pytest.mark.usefixtures("short_turns")
def test_a_hostile_variable_is_kept_and_fails_only_the_programs_that_return_it() -> None:
    async def story() -> list[JsonObject]:
        sources = [f"{PAIRS}1", "{k: 1}", "k is not None"]
        script = [call("run_code", {"code": source}) for source in sources]
        agent = Agent("keeper", model=ScriptedModel(by_history([*script, say("done")])), code_mode="session")
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await handle.wait(timeout=300)
            events = [event async for event in handle.events()]
        return [result_of(events, f"call-{number}") for number in (1, 2, 3)]

    first, second, third = play(story())
    assert first["result"]["output"] == 1  # type: ignore[index]
    assert second["status"] == "failed"
    assert third["result"]["output"] is True  # type: ignore[index]


def test_a_secret_in_a_program_is_refused_and_in_no_record() -> None:
    events = play(run(coder(f"await echo('{SECRET}')", tools=[echo]), secrets=[SECRET]))
    assert "contains a secret" in told(events)
    assert SECRET not in str(events)


@pytest.mark.slow
@pytest.mark.parametrize("use", ["print(x)", "x", "raise ValueError(x)", "await echo(x)"])
def test_a_secret_that_a_program_makes_is_in_no_record(use: str) -> None:
    agent = coder(f"x = 'hunter2' * 2\n{use}", tools=[echo])
    assert SECRET not in str(play(run(agent, secrets=[SECRET])))
    assert SECRET not in str([request.messages for request in requests_of(agent)])


async def opened_and_asked(runtime: AgentRuntime, agent: Agent) -> RunHandle:
    handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
    await until(handle, "run.waiting")
    return handle


def test_a_call_with_a_secret_does_not_let_a_program_diverge(tmp_path: Path) -> None:
    source = """
x = 'hunter2' * 2
try:
    await echo(x)
except RuntimeError as error:
    print(error)
await pay(1)
"""

    async def story() -> None:
        for is_first in (True, False):
            agent = coder(source, tools=[echo, pay])
            interpreter = MontyInterpreter() if is_first else OtherRelease()
            async with AgentRuntime.open(
                tmp_path / "a.db", agents=[agent], secrets=[SECRET], interpreter=interpreter
            ) as runtime:
                handle = await opened_and_asked(runtime, agent) if is_first else runtime.handle("r1")
                if is_first:
                    continue
                (request,) = await handle.open_requests()
                await handle.answer(request.request_id, "approve")
                await handle.wait(timeout=300)
                events = [event async for event in handle.events()]
                assert result_of(events)["result"]["output"]["result"] == "paid 1"  # type: ignore[index]

    play(story())


def test_a_cancel_reaches_a_program_in_the_middle_of_its_calls() -> None:
    async def story() -> None:
        began, cancelled = asyncio.Event(), list[int]()

        @tool(mode="read")
        async def hang(number: int) -> int:
            """Wait for ever."""
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(number)
                raise
            return number

        agent = coder("import asyncio\nawait asyncio.gather(hang(1), hang(2))", tools=[hang])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await began.wait()
            await handle.cancel()
            assert (await handle.wait(timeout=300)).status.value == "cancelled"
            assert sorted(cancelled) == [1, 2]
            again = await runtime.start_run(agent, "go on", session_id="s1", run_id="r2")
            assert (await again.wait(timeout=300)).output == "done"
            # Providers want one result for each call, directly after it.
            roles = [message.role for message in requests_of(agent)[-1].messages]
            assert roles == ["user", "assistant", "tool", "user"]

    play(story())


def test_a_cancel_ends_a_program_that_loops() -> None:
    async def story() -> None:
        agent = coder("await double(1)\nwhile True:\n    pass")
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await until(handle, "program.paused")
            await handle.cancel()
            assert (await handle.wait(timeout=300)).status.value == "cancelled"

    play(story())


def test_a_budget_of_calls_counts_those_of_programs() -> None:
    agent = coder("for at in range(9):\n    await double(at)", budget=Budget(max_tool_calls=4))
    events = play(run(agent))
    begun = [event for event in events if event.type == "action.started"]
    assert len(begun) == 4
    assert "run.budget_exhausted" in [event.type for event in events]
    assert "Calls of it that had begun: double (3). Their effects remain." in told(events)


@pytest.mark.parametrize("is_stopped", [False, True], ids=["fails", "is cancelled"])
def test_the_model_is_told_which_calls_of_a_failed_program_have_begun(is_stopped: bool) -> None:
    async def story() -> str:
        agent = coder("import asyncio\nawait asyncio.gather(double(1), pay(1), pay(2), pay(3))")
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await opened_and_asked(runtime, agent)
            denied, approved, _ = await handle.open_requests()
            await handle.answer(denied.request_id, "deny")
            await until(handle, "program.ended")
            await handle.answer(approved.request_id, "approve")
            if is_stopped:
                async for event in handle.events():
                    if event.type == "action.result" and "call-1/2" in str(event.data["result"]):
                        break
                await handle.cancel()
            else:
                await runtime.steer(agent, "hurry", session_id="s1")
            await handle.wait(timeout=300)
            return told([event async for event in handle.events()])

    assert "Calls of it that had begun: double (1), pay (1). Their effects remain." in play(story())


def test_a_program_that_is_stopped_before_its_first_call_says_so() -> None:
    agent = coder("await double(1)", budget=Budget(max_tool_calls=1))
    assert "stopped before a call of it began" in told(play(run(agent)))


def test_a_message_skips_the_approvals_of_a_program_and_comes_after_its_result() -> None:
    async def story() -> None:
        agent = coder(
            "try:\n    await pay(1)\nexcept PermissionError as error:\n    found = str(error)\nfound"
        )
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await opened_and_asked(runtime, agent)
            await runtime.steer(agent, "hurry", session_id="s1")
            await handle.wait(timeout=300)
        last = requests_of(agent)[-1].messages
        assert [message.role for message in last] == ["user", "assistant", "tool", "user"]
        assert "skipped by a new message" in str(last[2].content)

    play(story())


def test_an_approval_that_expires_is_raised_in_the_program() -> None:
    source = "try:\n    await pay(1)\nexcept PermissionError as error:\n    found = str(error)\nfound"
    assert "expired" in output_of(coder(source), approval_expires_ms=1)


class Strange:
    """A policy that defers the first call of `pay` at first, and changes it then."""

    version = "1"

    def __init__(self) -> None:
        self.seen = 0

    def before(self, call: CallFacts, *, is_attended: bool) -> PolicyDecision:
        if call.tool != "pay":
            return AllowDecision(code="fine", reason="Fine.", policy_refs=())
        self.seen += 1
        if self.seen == 1:
            return DeferDecision(code="later", reason="Later.", policy_refs=(), resume_after_ms=1)
        return ModifyDecision(code="half", reason="Half.", policy_refs=(), arguments={"cents": 4})

    def after(self, call: CallFacts, output: JsonValue) -> PolicyDecision:
        return AllowDecision(code="fine", reason="Fine.", policy_refs=())


def test_a_policy_may_defer_a_call_of_a_program_and_change_it() -> None:
    assert output_of(coder("await pay(8)"), tool_policy=Strange()) == "paid 4"


def test_a_fork_in_the_middle_of_a_program_has_no_half_of_it() -> None:
    async def story() -> None:
        agent = coder(GATHER)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await opened_and_asked(runtime, agent)
            copy = await runtime.sessions.fork("s1", session_id_new="s2")
            assert copy.predecessor_seq == 5, "before the program"
            again = await runtime.start_run(agent, "go on", session_id="s2", run_id="r2")
            await until(again, "run.waiting")
            for one in (handle, again):
                for request in await one.open_requests():
                    await one.answer(request.request_id, "approve")
                assert (await one.wait(timeout=300)).output == "done"

    play(story())


def test_a_session_with_a_program_is_exported_whole() -> None:
    async def story() -> None:
        agent = coder("[await double(1), await pay(2)]", say("done"))
        async with AgentRuntime.in_memory([agent]) as runtime, AgentRuntime.in_memory([agent]) as other:
            handle = await opened_and_asked(runtime, agent)
            (request,) = await handle.open_requests()
            await handle.answer(request.request_id, "approve")
            await handle.wait(timeout=300)
            await other.sessions.import_([line async for line in runtime.sessions.export("s1")])
            assert await other.sessions.history("s1") == await runtime.sessions.history("s1")
            again = await other.start_run(agent, "go on", session_id="s1", run_id="r2")
            assert (await again.wait(timeout=300)).output == "done"

    play(story())
