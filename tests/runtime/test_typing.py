"""What an editor says about agents: pyright is run over a program whose wrong lines are marked."""

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from windlass.agent.hooks import POINTS, HookPoint
from windlass.parts import PackageChange
from windlass.runtime.registry import PackageChangeValue
from windlass.tools import ApprovalName, EffectName, ModeName, TaintName
from windlass_protocol import EVENT_DATA, ApprovalRule, DecisionType, EffectClass, RunMode, Taint, ToolMode
from windlass_protocol.generated import values

CONFIG = {
    "typeCheckingMode": "strict",
    "pythonVersion": f"{sys.version_info.major}.{sys.version_info.minor}",
    "venvPath": str(Path(sys.prefix).parent),
    "venv": Path(sys.prefix).name,
}
MARK = "# error"
HEAD = """
from dataclasses import dataclass
from typing import Protocol, assert_type

from windlass import Agent, AgentRuntime, HookCall, RunInfo, Tool, ToolContext, hook, tool
from windlass import RunHandle, RunRequest
from windlass.client import Client
from windlass.agent.dynamic import dynamic
from windlass.agent.hooks import on_event
from windlass.agent.output import OutputContext
from windlass.ledger import Runtime
from windlass.parts import EventFilter
from windlass.ports.feed import UnknownEvent
from windlass.webhooks import Endpoint
from windlass_protocol import Event

@dataclass
class Deps:
    user: str

class More(Deps): ...

class Named(Protocol):
    @property
    def user(self) -> str: ...

@tool(mode="read")
async def first(ctx: ToolContext[Deps], number: int = 1) -> str:
    return ctx.deps.user

@tool
def second(number: int, context: ToolContext[Deps]) -> str:
    return context.deps.user

@tool(mode="read")
def third(number: int, name: str, ctx: ToolContext[Deps], *, is_late: bool = False) -> str:
    return ctx.deps.user

@tool
def named(*, number: int, ctx: ToolContext[Deps]) -> str:
    return ctx.deps.user

@tool
def structural(ctx: ToolContext[Named]) -> str:
    return ctx.deps.user

@tool
def optional(ctx: ToolContext[Deps] | None = None) -> str:
    return ""

@tool
def plain(ctx: ToolContext, number: int) -> str:
    return ctx.run_id

@tool(mode="read")
def free(number: int, *, name: str = "") -> str:
    return name

def make(run: RunInfo) -> Deps:
    return Deps(run.run_id)

async def make_later(run: RunInfo) -> Deps:
    return Deps(run.run_id)

def make_other(run: RunInfo) -> int:
    return 1

async def make_other_later(run: RunInfo) -> int:
    return 1
"""
DEPS = """
m = "demo/x"
first(ctx=ToolContext[Deps]("s", "r", "c"), number=2)
assert_type(free(1, name="a"), str)
every = [first, second, third, named, structural, optional, plain, free]
assert_type(Agent("a", model=m, deps=Deps, tools=every), Agent[Deps, str])
assert_type(Agent("a", model=m, deps=More, tools=[first]), Agent[More, str])
assert_type(Agent("a", model=m, deps=make, tools=[first, free]), Agent[Deps, str])
assert_type(Agent("a", model=m, deps=make_later, tools=[first, free]), Agent[Deps, str])
assert_type(Agent("a", model=m, tools=[plain, free]), Agent[object, str])
assert_type(Agent("a", model=m), Agent[object, str])
Agent("a", model=m, deps=int, tools=[free, plain])
Agent("a", model=m, deps=int, tools=[first])  # error
Agent("a", model=m, deps=int, tools=[free, second])  # error
Agent("a", model=m, deps=int, tools=[third])  # error
Agent("a", model=m, deps=int, tools=[named])  # error
Agent("a", model=m, deps=int, tools=[structural])  # error
Agent("a", model=m, deps=int, tools=[optional])  # error
Agent("a", model=m, deps=make_other, tools=[first])  # error
Agent("a", model=m, deps=make_other_later, tools=[first])  # error
without: Agent[object, str] = Agent("a", model=m, tools=[first])  # error
Agent("a", model=m, tools=[first])  # error
Agent("a", model=m, tools=[free, second])  # error
Agent("a", model=m, tools=[structural])  # error
shared: list[Tool[..., object, Deps]] = [first, plain, free]
Agent("a", model=m, deps=Deps, tools=shared)
Agent("a", model=m, deps=int, tools=shared)  # error
first()  # error
free("one")  # error

class Answer:
    pass

def checks(ctx: OutputContext[Deps], answer: Answer) -> Answer:
    return answer

async def checks_later(ctx: OutputContext[Deps], answer: Answer) -> Answer:
    return answer

def checks_text(ctx: OutputContext, answer: str) -> str:
    return answer

def forgets(ctx: OutputContext, answer: Answer) -> None: ...

typed = Agent("a", model=m, deps=Deps, output=Answer, output_validators=[checks, checks_later])
assert_type(typed, Agent[Deps, Answer])
assert_type(Agent("a", model=m, output=Answer), Agent[object, Answer])
Agent("a", model=m, deps=int, output=Answer, output_validators=[checks])  # error
Agent("a", model=m, output=Answer, output_validators=[checks])  # error
Agent("a", model=m, output=Answer, output_validators=[checks_text])  # error
Agent("a", model=m, output=Answer, output_validators=[forgets])  # error

async def runs(runtime: AgentRuntime, agent: Agent[Deps, str], client: Client) -> None:
    await runtime.start_run(agent, "Hi.", deps=Deps("ann"), mode="task")
    await runtime.start_run(agent, "Hi.", deps=More("ann"))
    await runtime.start_run(agent, "Hi.", deps=1)  # error
    await runtime.start_run(agent, "Hi.", mode="tsak")  # error
    await runtime.start_run(agent, "Hi.", sesion_id="s1")  # error
    assert_type(await runtime.start_run(agent, "Hi.", session_id="s1"), RunHandle[str])
    assert_type(await runtime.start_run(RunRequest(run_id="r", agent_id="a", input="Hi.")), RunHandle[str])
    await agent.run("Hi.", deps=1)  # error
    await client.sessions.create("Hi.", mode="task")
    await client.sessions.create("Hi.", mode="tsak")  # error
"""
WORKFLOWS = """
from windlass.workflow import Workflow, WorkflowContext, workflow

class Alert:
    host: str = ""

class Report:
    pass

class Plan:
    pass

@tool
async def read_logs(host: str, *, hours: int = 1) -> list[str]:
    return []

@tool
async def restart(ctx: ToolContext[Deps], host: str) -> bool:
    return True

triage = Agent("triage", model="demo/x", output=Plan)
writer = Agent("writer", model="demo/x")

@workflow
async def nightly(ctx: WorkflowContext) -> None:
    await ctx.call(read_logs, "a")

@workflow(name="incidents", deps=Deps)
async def incident(ctx: WorkflowContext[Deps], alert: Alert) -> Report:
    assert_type(ctx.deps, Deps)
    assert_type(await ctx.call(read_logs, alert.host, hours=2), list[str])
    assert_type(await ctx.call(free, 1), str)
    assert_type(await ctx.call(restart, alert.host), bool)
    assert_type(await ctx.call(plain, 1), str)
    assert_type(await ctx.run(triage, "?"), Plan)
    assert_type(await ctx.run(writer, "?"), str)
    assert_type(await ctx.run(incident, alert), Report)
    assert_type(await ctx.run(nightly), None)
    await ctx.call(read_logs, 1)  # error
    await ctx.call(read_logs, alert.host, hour=2)  # error
    await ctx.call(restart, 1)  # error
    await ctx.call(restart)  # error
    assert_type(await ctx.run(incident, '{"host": "a"}'), Report)
    await ctx.run(triage)  # error
    return Report()

assert_type(incident, Workflow[Alert, Deps, Report])

@workflow  # error
def not_async(ctx: WorkflowContext) -> None: ...

@workflow(agent=[])  # error
async def misspelt(ctx: WorkflowContext) -> None: ...

async def starts(runtime: AgentRuntime) -> None:
    run = await runtime.start_run(incident, Alert(), deps=Deps("ann"), run_id="r1")
    assert_type((await run.wait()).output, Report)
    assert_type(await runtime.start_run(nightly), RunHandle[None])
    assert_type(await runtime.start_run(incident, '{"host": "a"}'), RunHandle[Report])
    await runtime.start_run(incident, 1)  # error
    await runtime.start_run(incident, Alert(), deps=1)  # error
    await runtime.start_run(incident, Alert(), sesion_id="s1")  # error
"""
LITERALS = """
@hook("before_tool_call", right="veto", phase="early", failure="deny")
async def right(call: HookCall) -> None: ...

@hook("before_tol")  # error
async def wrong_point(call: HookCall) -> None: ...

@hook("before_tool_call", right="vet")  # error
async def wrong_right(call: HookCall) -> None: ...

@on_event("action.result", "run.completed")
def seen(event: Event) -> None: ...

@on_event("*")
def all_seen(event: Event) -> None: ...

@on_event("acton.result")  # error
def never_seen(event: Event) -> None: ...

EventFilter(types=["run.failed"], families=["run"])
EventFilter(types=["run.failed", UnknownEvent("run.paused")])
EventFilter(types=["run.faild"])  # error
EventFilter(families=["rnu"])  # error
Endpoint("ops", "https://example.com", ("run.failed", "session"), ("SECRET",))
Endpoint("ops", "https://example.com", ("run.faild",), ("SECRET",))  # error
dynamic(lambda _: "", at="step")
dynamic(lambda _: "", at="steps")  # error
AgentRuntime.in_memory([], package_change="move")
AgentRuntime.in_memory([], package_change="moved")  # error
AgentRuntime.in_memory([], retain_days=3)  # error
AgentRuntime.open("a.db", agents=[], drain=3)  # error
AgentRuntime.builder().options(retention_days=3, is_attended=True, agents=[])
AgentRuntime.builder().options(retain_days=3)  # error
AgentRuntime.builder().options(responders="ann", drain_s="3")  # error

def decide(recorder: Runtime) -> None:
    recorder.decide("a", [], "b", "c", decision_type="path_choice")
    recorder.decide("a", [], "b", "c", decision_type="x")  # error
"""


def faults(program: str, folder: Path) -> tuple[set[int], set[int], str]:
    """Return the lines with a mark, the lines that pyright has an error for, and what it said."""
    file = folder / "program.py"
    file.write_text(program, encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "-p", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=folder)
    problems = [one for one in json.loads(done.stdout)["generalDiagnostics"] if one["severity"] == "error"]
    lines = {one["range"]["start"]["line"] + 1 for one in problems}
    marked = {at for at, line in enumerate(program.splitlines(), 1) if line.endswith(MARK)}
    shown = "\n".join(f"{one['range']['start']['line'] + 1}: {one['message']}" for one in problems)
    return marked, lines, shown


@pytest.mark.slow
@pytest.mark.parametrize("body", [DEPS, WORKFLOWS, LITERALS], ids=["dependencies", "workflows", "literals"])
def test_an_editor_marks_exactly_the_wrong_lines(body: str, tmp_path: Path) -> None:
    unused = "# pyright: reportUnusedImport=false, reportUnusedFunction=false, reportUnusedCoroutine=false\n"
    marked, lines, shown = faults(unused + HEAD + body, tmp_path)
    assert lines == marked, shown


def test_literal_types_list_the_values_that_are_accepted() -> None:
    assert get_args(HookPoint) == tuple(POINTS)
    assert get_args(values.EventTypeValue) == tuple(EVENT_DATA)
    assert get_args(values.DecisionTypeValue) == tuple(DecisionType)
    assert get_args(values.RunModeValue) == tuple(RunMode)
    assert get_args(PackageChangeValue) == tuple(PackageChange)
    for names, members in (
        (ModeName, ToolMode),
        (EffectName, EffectClass),
        (ApprovalName, ApprovalRule),
        (TaintName, Taint),
    ):
        assert set(get_args(names)) == set(members)
