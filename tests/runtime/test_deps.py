"""Dependencies of runs: given at the start, or made by a factory; typed agents, contexts and results."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, assert_type

import pytest
from pydantic import BaseModel
from tests.runtime.runtime_rig import model_of, play, until

from windlass import (
    Agent,
    AgentRuntime,
    Approval,
    Rejected,
    RunHandle,
    RunInfo,
    RunResult,
    ToolContext,
    TypedResult,
    tool,
)
from windlass.agent.dynamic import dynamic
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.tools import UndoCall
from windlass_protocol import ErrorKind, RunMode, RunStatus, SourceKind, SourceRef


@dataclass(frozen=True)
class Deps:
    """What the tools of the desk need."""

    user: str


class Answer(BaseModel):
    """What the desk answers."""

    text: str
    cents: int


@tool(mode="read")
async def whoami(ctx: ToolContext[Deps]) -> str:
    """Say who asks."""
    assert_type(ctx.deps, Deps)
    return f"{ctx.deps.user} asks"


@tool(mode="external", effect="idempotent")
def refund(ctx: ToolContext[Deps], cents: int) -> str:
    """Refund, in a thread."""
    return f"{ctx.deps.user} got {cents}"


ANSWER = '{"text": "Here.", "cents": 990}'
ASKS = [call("whoami"), say(ANSWER)]


def desk(*script: Any, **parts: Any) -> tuple[Agent[Deps, Answer], ScriptedModel]:
    model = ScriptedModel(by_history(script or ASKS))
    return Agent("desk", model=model, deps=Deps, output=Answer, tools=[whoami, refund], **parts), model


def told(model: ScriptedModel) -> str:
    return str(model.requests[-1].messages[-1].content)


# Types


def test_the_types_of_a_result_follow_from_the_agent() -> None:
    async def story() -> None:
        agent = Agent("desk", model=model_of(ANSWER), deps=Deps, output=Answer, tools=[whoami])
        assert_type(agent, Agent[Deps, Answer])
        result = await agent.run("Where is it?", deps=Deps("ann"))
        assert_type(result, TypedResult[Answer])
        assert_type(result.output, Answer)
        assert (result.output.cents, result.status) == (990, RunStatus.COMPLETED)
        plain = Agent("guide", model=model_of("Hello."))
        assert_type(plain, Agent[object, str])
        said = await plain.run("Hello?")
        assert_type(said, RunResult)
        assert said.output == "Hello."

    play(story())


def test_the_types_of_a_handle_follow_from_the_agent() -> None:
    async def story() -> None:
        agent = Agent("desk", model=model_of(ANSWER), deps=Deps, output=Answer, tools=[whoami])
        plain = Agent("guide", model=model_of("Hello."))
        async with AgentRuntime.in_memory([agent, plain], deps={agent: make_deps}) as runtime:
            handle = await runtime.start_run(agent, "Where is it?", run_id="r1")
            assert_type(handle, RunHandle[Answer])
            assert (await handle.wait()).output == Answer(text="Here.", cents=990)
            assert_type(runtime.handle("r1"), RunHandle[str])
            assert (await runtime.handle("r1").wait()).output == ANSWER
            said = await (await runtime.start_run(plain, "Hello?")).wait()
            assert_type(said, RunResult)

    play(story())


def test_dependencies_of_another_type_are_an_error_in_the_editor_and_at_the_start() -> None:
    async def story() -> None:
        agent, _ = desk()
        with pytest.raises(Rejected, match="deps must be a Deps, found str"):
            await agent.run("Who?", deps="ann")  # pyright: ignore[reportArgumentType]
        async with AgentRuntime.in_memory([agent]) as runtime:
            with pytest.raises(Rejected, match="deps must be a Deps, found int"):
                await runtime.start_run(agent, "Who?", deps=7)  # pyright: ignore[reportCallIssue, reportArgumentType]

    play(story())


def test_a_misspelt_option_of_a_tool_is_an_error_in_the_editor() -> None:
    def see() -> str:
        return ""

    with pytest.raises(Rejected, match="mode must be one of"):
        tool(see, mode="raed")  # pyright: ignore[reportCallIssue, reportArgumentType]
    with pytest.raises(Rejected, match="effect must be one of"):
        tool(see, mode="read", effect="twice")  # pyright: ignore[reportCallIssue, reportArgumentType]
    with pytest.raises(Rejected, match="approval must be"):
        tool(see, mode="read", approval="nevr")  # pyright: ignore[reportCallIssue, reportArgumentType]


# Sources


def make_deps(run: RunInfo) -> Deps:
    return Deps(f"{run.owner} of {run.session_id}")


async def make_deps_later(run: RunInfo) -> Deps:
    await asyncio.sleep(0)
    return make_deps(run)


async def make_list(run: RunInfo) -> list[str]:
    return [run.run_id]


class ListMaker:
    """A factory that is an object."""

    def __call__(self, run: RunInfo) -> list[str]:
        return [run.run_id]


OWN = Agent("own", model="demo/x", deps=make_deps_later)


async def pay(cents: int) -> str:
    """Pay."""
    return str(cents)


async def give_back(call: UndoCall, ctx: ToolContext[Deps]) -> str:
    """Give it back."""
    return f"{ctx.deps.user} gave back {call.result}"


def test_tools_get_the_dependencies_of_the_start() -> None:
    async def story() -> None:
        agent, model = desk()
        assert (await agent.run("Who?", deps=Deps("ann"))).output.text == "Here."
        assert told(model) == "ann asks"

    play(story())


@pytest.mark.parametrize("factory", [make_deps, make_deps_later])
def test_a_factory_makes_them_for_each_run(factory: Callable[[RunInfo], Deps]) -> None:
    async def story() -> None:
        agent, model = desk()
        of_agent = Agent("own", model=agent.model, deps=factory, tools=[whoami])
        async with AgentRuntime.in_memory([agent, of_agent], deps={agent: factory}) as runtime:
            for number, one in enumerate((agent, of_agent, "desk")):
                handle = await runtime.start_run(one, "Who?", session_id=f"s-{number}", owner="ann")
                await handle.wait()
                assert told(model) == f"ann of s-{number} asks"

    play(story())


def test_dependencies_of_the_start_come_before_the_factory_and_are_forgotten_at_the_end() -> None:
    async def story() -> None:
        agent, model = desk()
        async with AgentRuntime.in_memory([agent], deps={agent: make_deps}) as runtime:
            handle = await runtime.start_run(agent, "Who?", deps=Deps("bob"))
            await handle.wait()
            assert told(model) == "bob asks"
            await runtime.aclose()
            assert runtime.core.ports.deps.given == {}

    play(story())


def test_a_factory_sees_the_run() -> None:
    async def story() -> None:
        seen: list[RunInfo] = []

        def make(run: RunInfo) -> Deps:
            seen.append(run)
            return Deps("ann")

        agent, _ = desk()
        source = SourceRef(kind=SourceKind.USER, id="ann")
        async with AgentRuntime.in_memory([agent], deps={agent: make}, tenant="acme") as runtime:
            handle = await runtime.start_run(
                agent,
                "Who?",
                run_id="r1",
                session_id="s1",
                owner="ann",
                source=source,
                metadata={"plan": "gold"},
            )
            await handle.wait()
        (run,) = seen
        assert run == RunInfo(
            "r1",
            "s1",
            agent_id="desk",
            owner="ann",
            source=source,
            metadata={"plan": "gold"},
            tenant="acme",
        )

    play(story())


def test_a_tool_knows_the_owner_source_and_metadata_of_its_run() -> None:
    async def story() -> None:
        seen: list[ToolContext] = []

        @tool(mode="read")
        async def look(ctx: ToolContext) -> str:
            seen.append(ctx)
            ctx.metadata["plan"] = "changed"
            return "seen"

        source = SourceRef(kind=SourceKind.USER, id="ann")
        agent = Agent("a", model=ScriptedModel([call("look"), call("look"), say("done")]), tools=[look])
        async with AgentRuntime.in_memory([agent]) as runtime:
            facts: dict[str, Any] = {"owner": "ann", "source": source, "metadata": {"plan": {"name": "gold"}}}
            await (await runtime.start_run(agent, "Look.", **facts)).wait()
        first, second = seen
        assert (first.owner, first.source, first.deps) == ("ann", source, None)
        assert second.metadata == {"plan": "changed"}
        assert first.metadata is not second.metadata

    play(story())


# What is refused


def test_a_start_without_dependencies_is_refused_and_writes_nothing() -> None:
    async def story() -> None:
        agent, model = desk()
        with pytest.raises(
            Rejected, match="agent desk needs dependencies: pass deps=… to run or start"
        ) as caught:
            await agent.run("Who?")
        assert caught.value.kind is ErrorKind.HOST_CONFIGURATION_NEEDED
        async with AgentRuntime.in_memory([agent]) as runtime:
            for one in (agent, "desk"):
                with pytest.raises(Rejected, match="agent desk needs dependencies"):
                    await runtime.start_run(one, "Who?", run_id="r1")
            assert (await runtime.sessions.list()).items == ()
        assert model.requests == []

    play(story())


def test_a_refused_start_keeps_the_dependencies_of_the_run_that_is_there() -> None:
    async def story() -> None:
        agent, model = desk(call("refund", {"cents": 5}), say(ANSWER))
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "Refund.", run_id="r1", deps=Deps("ann"))
            await until(handle, "run.waiting")
            with pytest.raises(Exception, match="r1"):
                await runtime.start_run(agent, "Something else.", run_id="r1", deps=Deps("bob"))
            async for request in handle.requests():
                assert isinstance(request, Approval)
                await request.approve()
            assert told(model) == "ann got 5"

    play(story())


WRONG: dict[str, Callable[[], object]] = {
    "tool whoami takes ToolContext[Deps], and the agent has no dependencies; write Agent": lambda: Agent(
        "a",
        model="demo/x",
        tools=[whoami],  # pyright: ignore[reportArgumentType]
    ),
    "tool whoami takes ToolContext[Deps], and the dependencies of the agent are int": lambda: Agent(
        "a",
        model="demo/x",
        deps=int,
        tools=[whoami],  # pyright: ignore[reportArgumentType]
    ),
    "tool refund takes ToolContext[Deps], and the dependencies of the agent are list": lambda: Agent(
        "a",
        model="demo/x",
        deps=make_list,
        tools=[refund],  # pyright: ignore[reportArgumentType]
    ),
    "tool give_back takes ToolContext[Deps], and the agent has no dependencies": lambda: Agent(
        "a", model="demo/x", tools=[tool(pay, undo=give_back)]
    ),
    "deps: the factory of agent desk makes list, and the agent needs Deps": lambda: AgentRuntime.in_memory(
        [desk()[0]], deps={desk()[0]: make_list}
    ),
    "deps: the factory of agent own makes list, and the agent needs Deps": lambda: AgentRuntime.in_memory(
        [OWN], deps={OWN: ListMaker()}
    ),
    "deps must be a type, or a function of a RunInfo that makes the dependencies, found str": lambda: Agent(
        "a",
        model="demo/x",
        deps="ann",  # pyright: ignore[reportArgumentType]
    ),
    "deps: agent a has no dependencies": lambda: AgentRuntime.in_memory(
        [], deps={Agent("a", model="demo/x"): make_deps}
    ),
    "deps: the runtime has no agent desk; add it to the agents": lambda: AgentRuntime.in_memory(
        [], deps={desk()[0]: make_deps}
    ),
    "the factory of agent desk must be a function of a RunInfo, found int": lambda: AgentRuntime.in_memory(
        [],
        deps={desk()[0]: 7},  # pyright: ignore[reportArgumentType]
    ),
    "a key of deps must be an Agent(…), found str": lambda: AgentRuntime.in_memory(
        [],
        deps={"desk": make_deps},  # pyright: ignore[reportArgumentType]
    ),
    "deps must be a dictionary of agents and functions of a RunInfo": lambda: AgentRuntime.in_memory(
        [],
        deps=make_deps,  # pyright: ignore[reportArgumentType]
    ),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_does_not_fit_is_refused_where_it_is_defined(words: str) -> None:
    with pytest.raises(Rejected) as caught:
        WRONG[words]()
    assert words in caught.value.message


def test_dependencies_for_an_agent_without_any_are_refused() -> None:
    async def story() -> None:
        agent = Agent("a", model=model_of("hello"))
        with pytest.raises(Rejected, match="the agent has no dependencies"):
            await agent.run("Hello?", deps=Deps("ann"))

    play(story())


def test_dependencies_of_the_start_must_be_of_the_type_that_a_factory_returns() -> None:
    async def story() -> None:
        agent = Agent("own", model=model_of("x"), deps=make_deps_later)
        with pytest.raises(Rejected, match="deps must be a Deps, found str"):
            await agent.run("Who?", deps="ann")  # pyright: ignore[reportCallIssue, reportArgumentType]

    play(story())


def test_a_factory_without_a_return_type_that_makes_other_dependencies_leaves_the_run_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        agent, model = desk()
        left = Left()

        def loose(_: RunInfo) -> Any:
            return 7

        async with AgentRuntime.in_memory([agent], deps={agent: loose}) as runtime:
            await runtime.start_run(agent, "Who?", run_id="r1")
            await left.wait()
        assert "the dependencies of agent desk failed (it made int, expected Deps)" in caplog.text
        assert model.requests == []

    with caplog.at_level(logging.WARNING):
        play(story())


@pytest.mark.parametrize("deps", [None, str])
def test_a_resolver_that_gives_a_tool_for_other_dependencies_fails_before_the_model_is_asked(
    deps: type[str] | None,
) -> None:
    async def story() -> None:
        model = model_of("x")
        agent = Agent("a", model=model, deps=deps, tools=[dynamic(lambda _: whoami, name="more")])
        result = await agent.run("Who?", deps=None if deps is None else "ann")
        assert result.error is not None
        needs = "the agent has no dependencies" if deps is None else "the dependencies of the agent are str"
        assert f"tool whoami takes ToolContext[Deps], and {needs}" in result.error.message
        assert model.requests == []

    play(story())


def test_mode_may_be_a_text() -> None:
    async def story() -> None:
        agent = Agent("a", model=model_of("x"))
        async with AgentRuntime.in_memory([agent]) as runtime:
            run = await runtime.start_run(agent, "Hi.", mode="task")
            assert (await run.wait()).status is RunStatus.COMPLETED
            started = [one async for one in run.events() if one.type == "run.started"]
            assert started[0].data["mode"] == RunMode.TASK

    play(story())


class Named(Protocol):
    """Anything with a user."""

    @property
    def user(self) -> str: ...


def test_a_protocol_describes_dependencies() -> None:
    async def story() -> None:
        @tool(mode="read")
        async def greet(ctx: ToolContext[Named]) -> str:
            return f"hello {ctx.deps.user}"

        model = ScriptedModel(by_history([call("greet"), say("done")]))
        agent = Agent("a", model=model, deps=Named, tools=[greet])
        await agent.run("Hi.", deps=Deps("ann"))
        assert told(model) == "hello ann"

    play(story())


# Subagents


def test_a_subagent_uses_the_dependencies_of_its_caller() -> None:
    async def story(is_given: bool) -> None:
        below = ScriptedModel(by_history([call("whoami"), say("looked")]))
        clerk = Agent("clerk", model=below, deps=Deps, tools=[whoami])
        between = ScriptedModel(by_history([call("clerk", {"message": "look"}), say("asked")]))
        middle = Agent("middle", model=between, deps=Deps, subagents=[clerk])
        model = ScriptedModel(by_history([call("middle", {"message": "look"}), say("done")]))
        lead = Agent("lead", model=model, deps=Deps, subagents=[middle])
        factories: Any = {} if is_given else {"deps": {lead: make_deps}}
        async with AgentRuntime.in_memory([lead], **factories) as runtime:
            given = Deps("ann") if is_given else None
            handle = await runtime.start_run(lead, "Go.", deps=given, session_id="s1", owner="bob")
            assert (await handle.wait(timeout=300)).output == "done"
            assert told(below).startswith("ann asks" if is_given else "bob of ")
            await runtime.aclose()
            assert runtime.core.ports.deps.given == {}

    play(story(True))
    play(story(False))


def test_a_subagent_without_a_source_of_dependencies_is_named_at_the_start() -> None:
    async def story() -> None:
        clerk = Agent("clerk", model=model_of("x"), deps=Deps, tools=[whoami])
        lead = Agent("lead", model=model_of("x"), subagents=[clerk])
        with pytest.raises(Rejected, match="subagent clerk of agent lead needs dependencies"):
            await lead.run("Go.")

    play(story())


# Crashes


class Left(logging.Handler):
    """Waits until the engine has left a session alone."""

    def __init__(self) -> None:
        super().__init__()
        self._event = asyncio.Event()
        logging.getLogger("windlass.engine").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if "waits for another process" in record.getMessage():
            self._event.set()

    async def wait(self) -> None:
        await self._event.wait()
        logging.getLogger("windlass.engine").removeHandler(self)


def test_a_run_without_its_dependencies_waits_until_the_same_start_gives_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = [call("refund", {"cents": 5}), say(ANSWER)]

    async def story() -> None:
        left = Left()
        agent, _ = desk(*script)
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "Refund.", run_id="r1", deps=Deps("ann"))
            await until(handle, "run.waiting")
            (request,) = await handle.open_requests()
            assert runtime.core.ports.deps.given == {"r1": Deps("ann")}
        agent, model = desk(*script)
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            await runtime.handle("r1").answer(request.request_id, "approve")
            await left.wait()
            assert "the dependencies of agent desk are not in this process" in caplog.text
            assert model.requests == []
            handle = await runtime.start_run(agent, "Refund.", run_id="r1", deps=Deps("bob"))
            assert (await handle.wait(timeout=300)).output.cents == 990
            assert told(model) == "bob got 5"

    with caplog.at_level(logging.WARNING):
        play(story())


def test_a_factory_that_fails_leaves_the_run_for_a_later_attempt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        agent, model = desk()
        left = Left()

        def broken(_: RunInfo) -> Deps:
            raise ConnectionError("the database is away: password hunter2-hunter2")

        async with AgentRuntime.open(
            tmp_path / "a.db", agents=[agent], deps={agent: broken}, secrets=["hunter2-hunter2"]
        ) as runtime:
            handle = await runtime.start_run(agent, "Who?", run_id="r1")
            await left.wait()
            assert "factory of the dependencies of agent desk failed (ConnectionError)" in caplog.text
            assert "hunter2-hunter2" not in caplog.text
            assert await handle.status() is not RunStatus.FAILED
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent], deps={agent: make_deps}) as runtime:
            assert (await runtime.handle("r1").wait(timeout=300)).status is RunStatus.COMPLETED
            assert told(model) == "None of session:r1 asks"

    with caplog.at_level(logging.WARNING):
        play(story())


CRASHING = """
import asyncio, os, signal
from dataclasses import dataclass
from windlass import Agent, AgentRuntime, RunInfo, ToolContext, tool
from windlass.testing import ScriptedModel, by_history, call, say

@dataclass
class Deps:
    user: str
    pid: int

@tool(mode="safe_write", effect="idempotent")
async def note(ctx: ToolContext[Deps]) -> str:
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    assert ctx.deps.pid == os.getpid()
    return f"noted by {ctx.deps.user}"

def make_deps(run: RunInfo) -> Deps:
    return Deps(str(run.owner), os.getpid())

model = ScriptedModel(by_history([call("note"), say("Done.")]))
desk = Agent("desk", model=model, deps=make_deps, tools=[note])

async def main() -> None:
    async with AgentRuntime.open("app.db", agents=[desk]) as runtime:
        run = await runtime.start_run(desk, "Note it.", run_id="r1", owner="ann")
        await run.wait()
        print(model.requests[-1].messages[-1].content)

asyncio.run(main())
"""


@pytest.mark.slow
def test_dependencies_are_made_anew_after_a_kill_and_are_in_no_record(tmp_path: Path) -> None:
    def start() -> tuple[int, str]:
        command = [sys.executable, "-c", CRASHING]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        return done.returncode, done.stdout

    assert start() == (-9, "")
    assert start() == (0, "noted by ann\n")
    assert b"pid=" not in (tmp_path / "app.db").read_bytes()
