"""Workflows: functions that go on after a crash, and make each call once."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.server.rig import ended, run, serving

from windlass import (
    Agent,
    AgentRuntime,
    Budget,
    Conflict,
    Question,
    Rejected,
    RunInfo,
    RunResult,
    ToolContext,
    ToolFailed,
    tool,
)
from windlass.ports.machine import Machine
from windlass.testing import ScriptedModel, by_history, crash_everywhere, say
from windlass.testing import call as model_call
from windlass.testing.time import FakeClock, run_in_fake_time, seeded_random, sequential_ids
from windlass.workflow import CallFailed, WorkflowContext, definition, workflow
from windlass_harness.loop.rules import Rules
from windlass_harness.policy import PolicySet, Rule
from windlass_protocol import InputKind, InputRequest, InputResponse, RunStatus

CALLS: Counter[str] = Counter()
KEYS: dict[str, set[str]] = {}


class Alert(BaseModel):
    host: str
    level: int = 1


class Report(BaseModel):
    host: str
    lines: list[str]


class Plan(BaseModel):
    restart: bool


@tool(mode="read")
async def read_logs(host: str) -> list[str]:
    """Read logs."""
    CALLS["read_logs"] += 1
    return [f"{host}: disk full"]


@tool(mode="read")
async def read_metrics(host: str, *, hours: int = 1) -> dict[str, int]:
    """Read metrics."""
    return {"load": hours}


@tool(mode="external", effect="idempotent", approval="always")
async def restart(ctx: ToolContext, host: str) -> str:
    """Restart a host."""
    KEYS.setdefault("restart", set()).add(ctx.idempotency_key)
    return f"{host} restarted"


@tool(mode="safe_write", effect="idempotent")
async def note(words: str) -> datetime:
    """Note words."""
    CALLS[words] += 1
    return datetime(2026, 1, 1, tzinfo=UTC)


@tool(mode="read")
async def fail(words: str) -> str:
    """Fail."""
    raise ToolFailed(words)


triage = Agent("triage", model=ScriptedModel(by_history([say('{"restart": true}')])), output=Plan)
writer = Agent("writer", model=ScriptedModel(by_history([say("A text.")])))


async def gather_facts(ctx: WorkflowContext, host: str) -> list[str]:
    logs, metrics = await asyncio.gather(
        ctx.call(read_logs, host), ctx.call(read_metrics, host=host, hours=3)
    )
    return [*logs, f"load {metrics['load']}"]


@workflow
async def incident(ctx: WorkflowContext, alert: Alert) -> Report:
    """Handle an alert.

    More words.
    """
    facts = await gather_facts(ctx, alert.host)
    plan = await ctx.run(triage, f"What to do? {facts}")
    if plan.restart:
        facts.append(await ctx.call(restart, alert.host))
    await ctx.sleep(timedelta(seconds=40))
    facts.append(await ctx.ask("Is it well?", options=["yes", "no"]))
    return Report(host=alert.host, lines=facts)


def answer(request: InputRequest) -> InputResponse:
    choices = {InputKind.QUESTION: "yes", InputKind.RECOVERY: "retry"}
    option_id = "approve" if request.kind is None else choices.get(request.kind, "approve")
    return InputResponse(request_id=request.request_id, option_id=option_id)


def make_shop(_: RunInfo) -> "Shop":
    return Shop("Corner")


@workflow
async def careless(ctx: WorkflowContext, host: str) -> list[str]:
    return await read_logs(host)


def test_a_tool_that_is_called_without_the_context_is_refused() -> None:
    async def story() -> RunResult:
        async with AgentRuntime.in_memory([careless]) as runtime:
            return await (await runtime.start_run(careless, "web-1")).wait()

    before = CALLS["read_logs"]
    result = asyncio.run(story())
    assert result.status == "failed"
    assert result.error is not None
    assert "write await ctx.call(read_logs, …)" in result.error.message
    assert CALLS["read_logs"] == before


async def wait_for(run: Any) -> RunResult:
    """Answer all requests of a run, and return its result."""
    async for request in run.requests():
        await (request.choose("yes") if isinstance(request, Question) else request.approve(by="ann"))
    return await run.wait()


def play(agent: Agent[Any, Any], argument: object = None, **options: Any) -> RunResult:
    """Run a workflow in memory, in fake time: a sleep of years takes no time."""
    clock = FakeClock()
    machine = Machine(clock, sequential_ids(), seeded_random(0))

    async def main() -> RunResult:
        async with AgentRuntime.in_memory([agent], machine=machine, **options) as runtime:
            start: Any = runtime.start_run
            return await wait_for(await start(agent, argument))

    return run_in_fake_time(main(), clock=clock)


def error_of(result: RunResult) -> str:
    assert result.status is RunStatus.FAILED
    assert result.error is not None
    return result.error.message


@workflow
async def errand(ctx: WorkflowContext, host: str) -> Report:
    facts = await gather_facts(ctx, host)
    facts.append(await ctx.call(restart, host))
    await ctx.sleep(40)
    return Report(host=host, lines=[*facts, f"{ctx.now():%Y-%m-%d}", f"{ctx.random.random():.3f}"])


def test_a_small_workflow_makes_its_calls_once_wherever_the_process_dies() -> None:
    @workflow
    async def small(ctx: WorkflowContext) -> list[str]:
        await ctx.sleep(1)
        return [await ctx.call(restart, "db-1"), f"{ctx.random.random()}"]

    KEYS.clear()
    ends = {crash.result.output for crash in crash_everywhere(small, None, answer=answer)}
    assert len(ends) == 1
    assert "db-1 restarted" in ends.pop()
    assert len(KEYS["restart"]) == 1


@pytest.mark.slow
def test_every_call_is_made_once_wherever_the_process_dies() -> None:
    KEYS.clear()
    ends: set[str] = set()
    for crash in crash_everywhere(errand, "db-1", answer=answer):
        assert crash.result.status is RunStatus.COMPLETED, (crash.point, crash.result.error)
        ends.add(crash.result.output)
        assert Report.model_validate(crash.result.structured_output).lines[:4] == [
            "db-1: disk full",
            "load 3",
            "db-1 restarted",
            "2026-01-01",
        ]
    # Random numbers and times are those of the records, and the key is that of the call.
    assert len(ends) == 1
    assert len(KEYS["restart"]) == 1


@pytest.mark.slow
def test_agents_questions_and_timers_are_those_of_the_records_after_every_crash() -> None:
    for crash in crash_everywhere(incident, Alert(host="db-1"), answer=answer):
        assert crash.result.status is RunStatus.COMPLETED, (crash.point, crash.result.error)
        report = Report.model_validate(crash.result.structured_output)
        assert report.lines == ["db-1: disk full", "load 3", "db-1 restarted", "yes"]


@tool(mode="read")
async def wait_and_say(ctx: ToolContext, words: str, seconds: float) -> str:
    """Say words after a time."""
    await CLOCKS[-1].sleep(seconds)
    return words


CLOCKS: list[FakeClock] = []


@workflow
async def race(ctx: WorkflowContext) -> list[str]:
    slow, quick = (
        asyncio.ensure_future(ctx.call(wait_and_say, "slow", 30)),
        asyncio.ensure_future(ctx.call(wait_and_say, "quick", 3)),
    )
    done, _ = await asyncio.wait({slow, quick}, return_when=asyncio.FIRST_COMPLETED)
    order = [task.result() for task in done]
    order += [await future for future in asyncio.as_completed([slow, ctx.call(wait_and_say, "third", 60)])]
    try:
        async with asyncio.timeout(5):
            await ctx.call(wait_and_say, "late", 60)
    except TimeoutError:
        order.append("timeout")
    async with asyncio.TaskGroup() as group:
        inner = group.create_task(ctx.call(wait_and_say, "inner", 1))
    return [*order, inner.result()]


def test_what_asyncio_decides_is_decided_by_records() -> None:
    clock = FakeClock()
    CLOCKS.append(clock)
    machine = Machine(clock, sequential_ids(), seeded_random(0))

    async def main() -> RunResult:
        async with AgentRuntime.in_memory([race], machine=machine) as runtime:
            return await wait_for(await runtime.start_run(race))

    result = run_in_fake_time(main(), clock=clock)
    assert result.structured_output == ["quick", "slow", "third", "timeout", "inner"]


@pytest.mark.slow
def test_a_race_has_the_same_winner_after_every_crash() -> None:
    @workflow(tools=[note])
    async def both(ctx: WorkflowContext) -> list[str]:
        tasks = {asyncio.ensure_future(name_after(ctx, seconds)): seconds for seconds in (3, 2, 1)}
        winners: list[str] = []
        while tasks:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            winners += [f"{tasks.pop(task)}" for task in sorted(done, key=lambda task: tasks[task])]
        return winners

    for crash in crash_everywhere(both, None, answer=answer):
        assert crash.result.structured_output == ["1", "2", "3"], crash.point


async def name_after(ctx: WorkflowContext, seconds: int) -> None:
    await ctx.sleep(seconds)
    await ctx.call(note, str(seconds))


def test_results_have_the_types_that_tools_and_agents_return() -> None:
    @workflow
    async def typed(ctx: WorkflowContext, at: datetime) -> dict[str, datetime | bool | str]:
        plan = await ctx.run(triage, "?")
        return {
            "at": at,
            "noted": await ctx.call(note, "typed"),
            "plan": plan.restart,
            "text": await ctx.run(writer, "?"),
        }

    at = datetime(2026, 5, 4, tzinfo=UTC)
    assert play(typed, at).structured_output == {
        "at": "2026-05-04T00:00:00Z",
        "noted": "2026-01-01T00:00:00Z",
        "plan": True,
        "text": "A text.",
    }


def test_a_text_is_an_argument_and_a_result_and_none_is_no_argument() -> None:
    @workflow
    async def echo(ctx: WorkflowContext, words: str) -> str:
        return f"{words}!"

    @workflow
    async def nightly(ctx: WorkflowContext) -> None:
        await ctx.call(note, "nightly")

    assert play(echo, "hello").output == "hello!"
    assert play(nightly).output == "The workflow has ended."


def test_a_workflow_runs_another_one() -> None:
    @workflow
    async def child(ctx: WorkflowContext, alert: Alert) -> Report:
        return Report(host=alert.host, lines=await ctx.call(read_logs, alert.host))

    @workflow
    async def nothing(ctx: WorkflowContext) -> None: ...

    @workflow
    async def parent(ctx: WorkflowContext, hosts: list[str]) -> list[str]:
        await ctx.run(nothing)
        reports = await asyncio.gather(*(ctx.run(child, Alert(host=host)) for host in hosts))
        return [line for report in reports for line in report.lines]

    assert play(parent, ["a", "b"]).structured_output == ["a: disk full", "b: disk full"]


def test_agents_of_a_workflow_have_other_models_in_tests() -> None:
    @workflow
    async def inner(ctx: WorkflowContext, text: str) -> str:
        return await ctx.run(writer, text)

    @workflow
    async def outer(ctx: WorkflowContext) -> list[str]:
        return [await ctx.run(inner, "?"), await ctx.run(writer, "?")]

    model = ScriptedModel(by_history([say("Another text.")]))
    assert play(outer).structured_output == ["A text.", "A text."]
    changed = outer.with_models({"writer": model})
    assert play(changed).structured_output == ["Another text.", "Another text."]
    assert changed.route == outer.route
    with pytest.raises(Rejected, match="no subagent is named righter"):
        outer.with_models({"righter": model})
    with pytest.raises(Rejected, match="outer has no model that could be replaced"):
        outer.with_model(model)


def test_an_agent_with_a_workflow_as_a_subagent_has_another_model_in_tests() -> None:
    @workflow
    async def shout(ctx: WorkflowContext, text: str) -> str:
        return f"{text}! {await ctx.run(writer, text)}"

    boss = Agent("boss", model="nothing/at-all", subagents=[shout])
    mine = ScriptedModel(by_history([model_call("shout", {"message": "hello"}), say("Done.")]))
    theirs = ScriptedModel(by_history([say("Another text.")]))
    assert play(boss.with_model(mine, subagents={"writer": theirs}), "Begin.").output == "Done."
    assert mine.requests[-1].messages[-1].content == "hello! Another text."


def test_a_failed_workflow_is_not_continued_by_a_retry_which_says_what_to_do() -> None:
    CALLS.clear()

    @workflow
    async def broken(ctx: WorkflowContext) -> None:
        await ctx.call(note, "once")
        raise ValueError("oops")

    async def main() -> None:
        async with AgentRuntime.in_memory([broken]) as runtime:
            run = await runtime.start_run(broken)
            assert (await run.wait()).status is RunStatus.FAILED
            with pytest.raises(Conflict, match="start a new run with the same argument"):
                await run.retry()

    run_in_fake_time(main(), clock=FakeClock())
    assert CALLS["once"] == 1


def test_a_failed_call_is_an_exception_and_a_denied_one_says_so() -> None:
    @workflow(policy=PolicySet(rules=(Rule("never", "deny", tools=("note",)),)))
    async def careful(ctx: WorkflowContext) -> list[str]:
        caught: list[str] = []
        for call in (ctx.call(fail, "no disk"), ctx.call(note, "denied")):
            try:
                await call
            except CallFailed as error:
                caught += [error.tool_name, error.type_name]
        return caught

    assert play(careful).structured_output == ["fail", "RuntimeError", "note", "PermissionError"]


def test_an_exception_fails_the_run_and_names_the_line() -> None:
    @workflow
    async def broken(ctx: WorkflowContext) -> None:
        await ctx.call(note, "before")
        raise ValueError("password=hunter2secret is wrong")

    message = error_of(play(broken))
    assert "workflow broken failed: ValueError: password=[redacted] is wrong" in message
    assert "test_workflows.py, line" in message
    assert "in broken" in message
    assert "Calls of it that had begun: note (1). Their effects remain." in message


def test_a_function_that_went_another_way_is_told_with_the_line_of_its_first_other_call() -> None:
    CALLS.clear()
    odd = count()

    @workflow
    async def drifting(ctx: WorkflowContext) -> None:
        await ctx.call(note, f"note {next(odd)}")

    with pytest.raises(AssertionError, match=r"was note\(.*and is note\(.*test_workflows.py, line"):
        list(crash_everywhere(drifting, None, answer=answer))


def test_a_call_in_a_finally_block_is_made_once_and_not_when_the_run_leaves_memory() -> None:
    CALLS.clear()
    ends: list[str] = []

    @workflow
    async def tidy(ctx: WorkflowContext) -> str:
        try:
            await ctx.sleep(timedelta(minutes=2))
        finally:
            ends.append("finally")
            await ctx.call(note, "tidied")
        return "done"

    assert play(tidy).output == "done"
    assert CALLS["tidied"] == 1
    assert len(ends) > 1


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda: asyncio.get_running_loop().create_future(), "waits for something that no call of it brings"),
        (lambda: asyncio.to_thread(print), "no run_in_executor"),
        (lambda: asyncio.open_connection("localhost", 1), "no create_connection"),
    ],
)
def test_what_would_not_be_repeated_alike_is_refused(work: Any, words: str) -> None:
    @workflow
    async def odd(ctx: WorkflowContext) -> None:
        await work()

    assert words in error_of(play(odd))


def test_a_loop_without_end_fails_the_run_and_not_the_process() -> None:
    @workflow
    async def busy(ctx: WorkflowContext) -> None:
        for _ in count():
            await asyncio.sleep(0)

    assert "a loop without end" in error_of(play(busy))


def test_a_tool_that_the_source_does_not_name_is_refused_and_listed_by_an_option() -> None:
    tools = {"note": note}

    @workflow
    async def hidden(ctx: WorkflowContext) -> None:
        await ctx.call(tools["note"], "hidden")

    assert "does not know the tool note" in error_of(play(hidden))

    @workflow(tools=[note])
    async def listed(ctx: WorkflowContext) -> None:
        await ctx.call(tools["note"], "listed")

    assert play(listed).status is RunStatus.COMPLETED


def test_too_many_calls_end_the_run() -> None:
    @workflow
    async def eager(ctx: WorkflowContext) -> None:
        for number in range(20):
            await ctx.call(note, str(number))

    assert "made over 10 calls" in error_of(play(eager, rules=Rules(workflow_calls_max=10)))


def test_a_function_that_cannot_be_a_workflow_is_refused_with_what_to_write() -> None:
    define: Any = workflow

    def plain(ctx: WorkflowContext) -> None: ...

    async def bare() -> None: ...

    async def untyped(ctx: WorkflowContext, alert) -> None: ...  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]

    async def silent(ctx: WorkflowContext): ...

    def refuses(function: Any, text: str) -> None:
        with pytest.raises(Rejected, match=text):
            define(function)

    refuses(plain, "takes an async function")
    refuses(bare, "must take a WorkflowContext")
    refuses(untyped, "alert has no type")
    refuses(silent, "has no return type")
    with pytest.raises(Rejected, match="did you mean agents"):
        define(agent=[])


def test_an_argument_of_another_type_is_refused_before_the_run_begins() -> None:
    for argument in ({"hosts": "db-1"}, '{"hosts": "db-1"}'):
        with pytest.raises(Rejected, match="its argument must be Alert: host: Field required"):
            play(incident, argument)


def test_a_server_starts_a_workflow_with_its_argument_as_json_text(tmp_path: Path) -> None:
    @workflow
    async def logs_of(ctx: WorkflowContext, alert: Alert) -> Report:
        return Report(host=alert.host, lines=await ctx.call(read_logs, alert.host))

    async def main() -> None:
        agents: list[Any] = [logs_of]
        async with serving(tmp_path, agents) as server, server.client() as client:
            begun = await client.post("/sessions", json={"message": '{"host": "db-1"}'})
            result = await ended(client, begun.json()["runId"])
            assert result["result"]["structuredOutput"] == {"host": "db-1", "lines": ["db-1: disk full"]}
            refused = await client.post("/sessions", json={"message": '{"hosts": "db-1"}'})
            assert refused.status_code == HTTPStatus.BAD_REQUEST
            assert "its argument must be Alert: host: Field required" in refused.text

    run(main())


@dataclass(frozen=True)
class Shop:
    name: str


@tool(mode="read")
async def open_hours(ctx: ToolContext[Shop], day: str) -> str:
    """Say when the shop is open."""
    return f"{ctx.deps.name} on {day}"


def test_dependencies_reach_the_workflow_and_its_tools() -> None:
    @workflow(deps=make_shop)
    async def ask_shop(ctx: WorkflowContext[Shop], day: str) -> str:
        return f"{ctx.deps.name}: {await ctx.call(open_hours, day)}"

    assert play(ask_shop, "Monday").output == "Corner: Corner on Monday"


PROGRAM = """
import asyncio, os, signal, sys
from tests.workflow.test_workflows import errand
from windlass import AgentRuntime, Approval

async def main():
    async with AgentRuntime.open(sys.argv[1], agents=[errand]) as runtime:
        run = await runtime.start_run(errand, "db-1", run_id="r1")
        async for request in run.requests():
            if sys.argv[2] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            await request.approve(by="ann")
            print("approved", flush=True)
            break
        async for event in run.events():
            if event.type == "run.waiting" and event.data["on"] == "timer":
                print("parked", flush=True)
                return

asyncio.run(main())
"""


def test_a_killed_process_is_followed_by_one_that_asks_the_same_question(tmp_path: Path) -> None:
    def start(how: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "app.db"), how]
        return subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": "."},
        )

    assert start("kill").returncode == -signal.SIGKILL
    after = start("live")
    assert after.stdout == "approved\nparked\n", after.stderr


def test_a_function_that_returns_another_type_fails_and_runs_once() -> None:
    CALLS.clear()

    @workflow
    async def wrong(ctx: WorkflowContext, words: str) -> list[int]:
        await ctx.call(note, words)
        value: Any = {"a": words}
        return value

    assert "the workflow must return list" in error_of(play(wrong, "wrong type"))
    assert CALLS["wrong type"] == 1


def test_a_message_after_a_failed_run_starts_the_function_again_with_its_argument() -> None:
    @workflow
    async def flaky(ctx: WorkflowContext, words: str) -> str:
        if words == "bad":
            raise ValueError("a bad day")
        return words

    async def main() -> list[str]:
        outputs: list[str] = []
        async with AgentRuntime.in_memory([flaky]) as runtime:
            for words in ("bad", "good", "better"):
                run = await runtime.start_run(
                    flaky, words, session_id="s1", context=["Texts that precede it."]
                )
                outputs.append((await run.wait()).output)
        return outputs

    assert asyncio.run(main()) == ["", "good", "better"]


def test_a_message_that_steers_a_run_whose_function_failed_does_not_call_it_again() -> None:
    CALLS.clear()

    @workflow
    async def steered(ctx: WorkflowContext, words: str) -> str:
        await ctx.call(note, "steered")
        await ctx.ask("Go on?")
        raise ValueError("no")

    async def main() -> RunResult:
        async with AgentRuntime.in_memory([steered]) as runtime:
            run = await runtime.start_run(steered, "go", session_id="s1")
            async for _ in run.requests():
                await runtime.steer("steered", "another", session_id="s1")
                break
            return await run.wait()

    assert "steered failed" in error_of(asyncio.run(main()))
    assert CALLS["steered"] == 1


def test_a_function_is_called_once_in_a_run_whatever_its_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.clear()
    monkeypatch.setattr(definition, "_last_turn", lambda messages: messages[:1])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]

    @workflow(budget=Budget(max_steps=3))
    async def again(ctx: WorkflowContext, words: str) -> None:
        await ctx.call(note, words)

    assert play(again, "once").status is RunStatus.BUDGET_EXHAUSTED
    assert CALLS["once"] == 1
