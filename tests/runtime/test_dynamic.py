"""Dynamic parts of an agent: when resolvers are called, and recorded."""

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from tests.runtime.runtime_rig import model_of, play, request, until
from tests.runtime.shifting import STORY_S_MAX, shifting

from windlass import Agent, AgentRuntime, Rejected, Tool, ToolContext, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.system import SystemClock
from windlass.agent.dynamic import Dynamic, DynamicContext, dynamic
from windlass.agent.package import compile_package, fingerprint, package_difference
from windlass.agent.policy import allow_start
from windlass.agent.skills import Skill
from windlass.feed import Feed
from windlass.limits import RESOLVER_TIMEOUT_MS_MAX, RESOLVERS_PER_AGENT_MAX, TOOLS_PER_AGENT_MAX
from windlass.runtime.handle import RunHandle
from windlass.testing import Answer, ScriptedModel, by_history, call, crash_everywhere, say
from windlass_protocol import ErrorKind, InputRequest, InputResponse, RunResult
from windlass_protocol.generated.values import ResolverScopeValue as Scope

SECRET = "correct-horse-battery"
WRONG: Any = 1


@asynccontextmanager
async def opened(agent: Agent, path: Path | None = None, **options: Any) -> AsyncGenerator[AgentRuntime]:
    """A runtime in memory, or on a file."""
    if path is None:
        runtime = AgentRuntime.in_memory([agent], **options)
    else:
        runtime = await AgentRuntime.open(path, agents=[agent], **options)
    async with runtime:
        yield runtime


async def ran(runtime: AgentRuntime, agent: Agent, run_id: str = "r1") -> RunResult:
    handle = await runtime.start_run(agent, f"go {run_id}", run_id=run_id, session_id="s")
    return await handle.wait(timeout=STORY_S_MAX)


async def records(handle: RunHandle, kind: str) -> list[Any]:
    return [event.data async for event in handle.events() if event.type == kind]


def made(name: str, description: str = "Does it.", **options: Any) -> Tool[..., object]:
    """A tool that says which session it was made for."""

    async def work(ctx: ToolContext) -> str:
        return f"{name} in {ctx.session_id}"

    given: dict[str, Any] = {"mode": "read", **options}
    return tool(work, name=name, description=description, **given)


def systems(model: ScriptedModel) -> list[str]:
    """The system prompt of each request."""
    return [one.messages[0].content if one.messages[0].role == "system" else "" for one in model.requests]


def offered(model: ScriptedModel) -> list[list[str]]:
    """The names of the tools that the model was offered, request by request."""
    return [[str(one["name"]) for one in request.tools or ()] for request in model.requests]


TWO_STEPS: Sequence[Answer] = [call("look", {}), say("done")]
LOOK = made("look")


# when it is asked


@pytest.mark.parametrize(
    ("scope", "asked"), [("session", [1, 1, 1, 1]), ("turn", [1, 1, 2, 2]), ("step", [1, 2, 3, 4])]
)
@pytest.mark.parametrize("is_durable", [False, True])
def test_instructions_hold_for_the_session_the_turn_or_the_step(
    scope: Scope, asked: list[int], is_durable: bool, tmp_path: Path
) -> None:
    count = 0

    def give(context: DynamicContext) -> str:
        nonlocal count
        count += 1
        return f"telling {count}"

    model = ScriptedModel([*TWO_STEPS, *TWO_STEPS])
    agent = Agent("a", model=model, instructions=dynamic(give, at=scope), tools=[LOOK])

    async def story() -> None:
        async with opened(agent, tmp_path / "a.db" if is_durable else None) as runtime:
            for run_id in ("r1", "r2"):
                assert (await ran(runtime, agent, run_id)).status == "completed"

    play(story())
    assert systems(model) == [f"telling {number}" for number in asked]


def test_an_instructions_function_is_called_at_each_turn_with_the_run() -> None:
    seen: list[DynamicContext] = []

    async def give(context: DynamicContext) -> str:
        seen.append(context)
        return f"You serve {context.state.get('name', 'somebody')}."

    model = ScriptedModel([say("one"), say("two")])
    agent = Agent("a", model=model, instructions=give)

    async def story() -> None:
        async with opened(agent) as runtime:
            await ran(runtime, agent, "r1")
            await runtime.sessions.change_state("s", {"name": "Ann"})
            await ran(runtime, agent, "r2")

    play(story())
    assert systems(model) == ["You serve somebody.", "You serve Ann."]
    told = [(one.session_id, one.run_id, one.agent_id, one.input, one.can_ask) for one in seen]
    assert told == [("s", "r1", "a", "go r1", True), ("s", "r2", "a", "go r2", True)]


@pytest.mark.parametrize("scope", ["session", "turn", "step"])
def test_tools_that_are_given_are_offered_beside_the_others_and_can_be_called(
    scope: Scope,
) -> None:
    model = ScriptedModel([call("given", {}), say("done")])
    agent = Agent("a", model=model, tools=[LOOK, dynamic(lambda _: made("given"), at=scope, name="more")])

    async def story() -> None:
        async with opened(agent) as runtime:
            assert (await ran(runtime, agent)).status == "completed"
            handle = runtime.handle("r1")
            (result,) = await records(handle, "action.result")
            assert result["result"]["output"] == "given in s"
            (record,) = await records(handle, "agent.resolved")
            assert (record["resolver"], record["part"], record["scope"]) == ("more", "tools", scope)
            assert record["names"] == ["given"]

    play(story())
    assert offered(model) == [["look", "given"]] * 2


def test_tools_resolved_at_a_step_are_gone_at_the_next_and_changes_are_recorded() -> None:
    def give(context: DynamicContext) -> list[Tool[..., object]]:
        return [made("first")] if context.step_index == 0 else []

    model = ScriptedModel([call("first", {}), call("first", {}), say("done")])
    agent = Agent("a", model=model, tools=[dynamic(give, at="step")])

    async def story() -> None:
        async with opened(agent) as runtime:
            assert (await ran(runtime, agent)).status == "completed"
            handle = runtime.handle("r1")
            results = await records(handle, "action.result")
            assert [one["status"] for one in results] == ["completed", "failed"]
            assert results[1]["error"]["code"] == "unknown_tool"
            assert len(await records(handle, "agent.resolved")) == 2

    play(story())
    assert offered(model) == [["first"], [], []]


def test_the_record_comes_before_anything_is_done_with_it() -> None:
    agent = Agent("a", model=ScriptedModel([say("done")]), instructions=lambda _: "Hello.")

    async def story() -> None:
        async with opened(agent) as runtime:
            await ran(runtime, agent)
            types = [event.type async for event in runtime.handle("r1").events() if event.index is None]
            assert types.index("agent.resolved") < types.index("step.started")

    play(story())


def skill(name: str) -> Skill:
    return Skill(name, f"About {name}.", body=f"Do {name}.")


def test_resolved_skills_are_listed_and_loaded_beside_the_fixed_ones() -> None:
    names = ("fixed", "given", "more")
    fixed, given, more = (skill(name) for name in names)
    model = ScriptedModel([*(call("load_skill", {"skill": name}) for name in names), say("done")])
    agent = Agent(
        "a",
        model=model,
        instructions=lambda _: "You help.",
        skills=[
            fixed,
            dynamic(lambda _: given, name="one"),
            dynamic(lambda _: [more], name="two", at="step"),
        ],
    )

    async def story() -> None:
        async with opened(agent) as runtime:
            assert (await ran(runtime, agent)).status == "completed"
            results = await records(runtime.handle("r1"), "action.result")
            assert [one["result"]["output"]["instructions"] for one in results] == [
                "Do fixed.",
                "Do given.",
                "Do more.",
            ]

    play(story())
    said = systems(model)[0]
    assert said.startswith("You help.")
    assert said.index("fixed: About") < said.index("given: About") < said.index("more: About")
    assert offered(model)[0] == ["load_skill"]


# after a restart


def waiting(texts: list[str], description: str = "Does it.") -> Agent:
    """An agent with a resolved tool that needs approval; `texts` are its instructions in turn."""
    give = made("given", description, approval="always")
    return Agent(
        "a",
        model=ScriptedModel(by_history([call("given", {}), say("done")])),
        instructions=lambda _: texts.pop(0),
        tools=[dynamic(lambda _: give, name="more", at="turn")],
    )


async def _until_asked(path: Path) -> None:
    agent = waiting(["first telling"])
    async with opened(agent, path) as runtime:
        handle = await runtime.start_run(agent, "go", run_id="r1", session_id="s")
        await until(handle, "run.waiting")


@pytest.mark.parametrize("change", ["continue", "refuse", "move"])
def test_a_run_goes_on_after_a_restart_with_its_recorded_parts(tmp_path: Path, change: str) -> None:
    async def story() -> None:
        await _until_asked(tmp_path / "a.db")
        # The instructions are not resolved again: they are recorded.
        agent = waiting([])
        async with opened(agent, tmp_path / "a.db", package_change=change) as runtime:
            handle = runtime.handle("r1")
            (request,) = await handle.open_requests()
            await handle.answer(request.request_id, "approve")
            assert (await handle.wait(timeout=STORY_S_MAX)).status == "completed"
            assert isinstance(agent.model, ScriptedModel)
            assert systems(agent.model)[-1] == "first telling"
            assert len(await records(handle, "agent.resolved")) == 2
            (result,) = await records(handle, "action.result")
            assert result["result"]["output"] == "given in s"

    play(story())


def test_a_given_tool_that_has_changed_since_refuses_to_be_called(tmp_path: Path) -> None:
    async def story() -> None:
        await _until_asked(tmp_path / "a.db")
        agent = waiting([], "Does something else.")
        async with opened(agent, tmp_path / "a.db") as runtime:
            handle = runtime.handle("r1")
            (request,) = await handle.open_requests()
            await handle.answer(request.request_id, "approve")
            asked = await _asked_again(handle, request.request_id)
            if asked is not None:
                await handle.answer(asked, "approve")
            assert (await handle.wait(timeout=STORY_S_MAX)).status == "completed"
            (result,) = await records(handle, "action.result")
            assert "has changed since this run started" in result["error"]["message"]

    play(story())


async def _asked_again(handle: RunHandle, before: str) -> str | None:
    """The request that comes after another one; None if the run ends without."""
    async for event in handle.events():
        if event.type == "input.requested":
            data: Any = event.data
            ids = [str(one["requestId"]) for one in data["requests"]]
            if before not in ids:
                return ids[0]
    return None


def test_with_refuse_a_run_fails_if_its_resolver_gives_something_else(tmp_path: Path) -> None:
    async def story() -> None:
        await _until_asked(tmp_path / "a.db")
        agent = waiting([], "Does something else.")
        async with opened(agent, tmp_path / "a.db", package_change="refuse") as runtime:
            handle = runtime.handle("r1")
            (request,) = await handle.open_requests()
            await handle.answer(request.request_id, "approve")
            result = await handle.wait(timeout=STORY_S_MAX)
            assert result.status == "failed"
            assert result.error is not None
            assert "resolver more returned another value" in result.error.message

    play(story())


def test_with_move_a_run_goes_on_with_the_new_parts_and_asks_again(tmp_path: Path) -> None:
    async def story() -> None:
        await _until_asked(tmp_path / "a.db")
        agent = waiting(["second telling"], "Does something else.")
        async with opened(agent, tmp_path / "a.db", package_change="move") as runtime:
            handle = runtime.handle("r1")
            (request,) = await handle.open_requests()
            await handle.answer(request.request_id, "approve")
            again = await _asked_again(handle, request.request_id)
            assert again is not None, "consent was to another tool"
            await handle.answer(again, "approve")
            assert (await handle.wait(timeout=STORY_S_MAX)).status == "completed"
            assert len(await records(handle, "agent.resolved")) == 3
            (result,) = await records(handle, "action.result")
            assert result["status"] == "completed"

    play(story())


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["session", "turn", "step"])
def test_a_call_that_a_killed_process_left_is_made_again_with_the_tool_given_anew(
    tmp_path: Path, scope: Scope
) -> None:
    command = [sys.executable, "-m", "tests.runtime.shifting", str(tmp_path / "a.db"), scope]
    ended = subprocess.run(command, timeout=2 * STORY_S_MAX, check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    asked: list[int | None] = []

    async def story() -> None:
        async with opened(shifting(scope, asked=asked), tmp_path / "a.db") as runtime:
            handle = runtime.handle("r1")
            assert (await handle.wait(timeout=STORY_S_MAX)).status == "completed"
            (result,) = await records(handle, "action.result")
            assert result["result"]["output"] == "attempt 2 in s"
            assert len(await records(handle, "agent.resolved")) == 1

    play(story())
    assert asked == ([0, 1] if scope == "step" else [0])


# consent


@pytest.mark.parametrize(("second", "requests"), [("Does it.", 1), ("Does something else.", 2)])
def test_a_grant_for_the_session_is_for_the_tool_as_it_was_described(second: str, requests: int) -> None:
    def give(context: DynamicContext) -> Tool[..., object]:
        return made("given", second if context.run_id == "r2" else "Does it.", mode="external")

    model = ScriptedModel([call("given", {}), say("done")] * 2)
    agent = Agent("a", model=model, tools=[dynamic(give, at="turn")])

    async def story() -> None:
        async with opened(agent) as runtime:
            asked = 0
            for run_id in ("r1", "r2"):
                handle = await runtime.start_run(agent, "go", run_id=run_id, session_id="s")
                async for event in handle.events():
                    if event.type == "run.waiting":
                        asked += 1
                        (request,) = await handle.open_requests()
                        await handle.answer(request.request_id, "approve_session")
                assert (await handle.wait(timeout=STORY_S_MAX)).status == "completed"
            assert asked == requests

    play(story())


# failures


async def _hangs(_: DynamicContext) -> str:
    await asyncio.Event().wait()
    return ""


def _raises(_: DynamicContext) -> str:
    raise ValueError(f"no {SECRET}")


async def _exits(_: DynamicContext) -> str:
    raise SystemExit


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "raises": ({"instructions": dynamic(_raises)}, "resolver _raises failed (ValueError)"),
    "exits": ({"instructions": dynamic(_exits)}, "failed (SystemExit)"),
    "exits in a thread": ({"instructions": dynamic(lambda _: sys.exit(), name="x")}, "x failed"),
    "hangs": ({"instructions": dynamic(_hangs, timeout_ms=1)}, "took over 1 ms"),
    "no text": ({"instructions": dynamic(lambda _: 1, name="x")}, "instructions are a text"),
    "no tool": ({"tools": [dynamic(lambda _: [1], name="x")]}, "it gives Tools"),
    "no list": ({"tools": [dynamic(lambda _: "look", name="x")]}, "it gives Tools"),
    "no skill": ({"skills": [dynamic(lambda _: [LOOK], name="x")]}, "it gives Skills"),
    "a taken name": ({"tools": [LOOK, dynamic(lambda _: LOOK, name="x")]}, "duplicate name: look"),
    "one name twice": ({"tools": [dynamic(lambda _: [LOOK, LOOK], name="x")]}, "duplicate name: look"),
    "one name from two": (
        {"tools": [dynamic(lambda _: LOOK, name="x"), dynamic(lambda _: LOOK, name="y")]},
        "duplicate name: look",
    ),
    "too many": (
        {"tools": [dynamic(lambda _: [made(f"t{n}") for n in range(TOOLS_PER_AGENT_MAX + 1)], name="x")]},
        "limit 512",
    ),
    "a secret": ({"instructions": dynamic(lambda _: SECRET, name="x")}, "returned a registered secret"),
    "half a character": (
        {"instructions": dynamic(lambda _: "\ud83d", name="x")},
        "resolver x cannot be used",
    ),
}


def at_scope(parts: dict[str, Any], scope: Scope) -> dict[str, Any]:
    """The same dynamic parts, asked at another time."""

    def moved(one: object) -> object:
        if not isinstance(one, Dynamic):
            return one
        return dynamic(one.resolver, at=scope, name=one.name, timeout_ms=one.timeout_ms)

    return {
        name: [moved(one) for one in cast(list[object], value)] if isinstance(value, list) else moved(value)
        for name, value in parts.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["turn", "step"])
@pytest.mark.parametrize("name", BROKEN)
def test_a_resolver_that_fails_fails_the_run_and_the_session_goes_on(name: str, scope: Scope) -> None:
    parts, words = BROKEN[name]

    async def story() -> None:
        agent = Agent("a", model=ScriptedModel([say("never")]), **at_scope(parts, scope))
        fine = Agent("b", model=ScriptedModel([say("fine")]))
        async with AgentRuntime.in_memory([agent, fine], secrets=[SECRET]) as runtime:
            result = await ran(runtime, agent, "r1")
            assert result.status == "failed"
            assert result.error is not None
            assert words in result.error.message
            assert SECRET not in result.error.message
            assert (await ran(runtime, fine, "r2")).output == "fine"

    play(story())


def test_a_failed_resolver_has_a_kind_of_its_own() -> None:
    async def story() -> None:
        agent = Agent("a", model=ScriptedModel([say("never")]), instructions=_raises)
        async with opened(agent) as runtime:
            error = (await ran(runtime, agent)).error
            assert error is not None
            assert error.kind is ErrorKind.EXTENSION_FAILURE

    play(story())


@pytest.mark.parametrize("words", [SECRET, "\ud83d"], ids=["a secret", "half a character"])
def test_a_fail_open_resolver_with_an_unrecordable_value_is_recorded_as_failed(words: str) -> None:
    async def story() -> None:
        given = dynamic(lambda _: words, name="x", fails_open=True)
        agent = Agent("a", model=ScriptedModel([say("done")]), instructions=given)
        async with opened(agent, secrets=[SECRET]) as runtime:
            assert (await ran(runtime, agent)).output == "done"
            (resolved,) = await records(runtime.handle("r1"), "agent.resolved")
            assert resolved["failure"]
            assert words not in resolved["failure"]

    play(story())


@pytest.mark.parametrize("scope", ["session", "turn"])
def test_a_run_is_cancelled_while_its_resolver_takes_its_time(scope: Scope) -> None:
    async def story() -> None:
        asked, never = asyncio.Event(), asyncio.Event()

        async def slow(context: DynamicContext) -> str:
            asked.set()
            await never.wait()
            return ""

        agent = Agent("a", model=ScriptedModel([say("x")]), instructions=dynamic(slow, at=scope, name="slow"))
        async with opened(agent) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1", session_id="s")
            await asked.wait()
            await handle.cancel()
            assert (await handle.wait(timeout=STORY_S_MAX)).status == "cancelled"

    play(story())


def test_a_runtime_closes_while_a_resolver_takes_its_time_and_the_run_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        asked, never = asyncio.Event(), asyncio.Event()
        times = 0

        async def slow(context: DynamicContext) -> str:
            nonlocal times
            times += 1
            asked.set()
            if times == 1:
                await never.wait()
            return "Be brief."

        def agent() -> Agent:
            return Agent("a", model=ScriptedModel([say("x")]), instructions=dynamic(slow, name="slow"))

        async with opened(agent(), tmp_path / "app.db") as runtime:
            await runtime.start_run("a", "go", run_id="r1", session_id="s")
            await asked.wait()
        async with opened(agent(), tmp_path / "app.db") as runtime:
            assert (await runtime.handle("r1").wait(timeout=STORY_S_MAX)).output == "x"

    play(story())


@pytest.mark.parametrize("scope", ["session", "turn", "step"])
def test_a_resolver_that_fails_open_has_given_nothing_and_that_is_recorded(scope: Scope) -> None:
    model = ScriptedModel([say("done")])
    agent = Agent(
        "a", model=model, instructions="Fixed.", tools=[dynamic(_raises, at=scope, fails_open=True)]
    )

    async def story() -> None:
        async with opened(agent) as runtime:
            assert (await ran(runtime, agent)).status == "completed"
            (record,) = await records(runtime.handle("r1"), "agent.resolved")
            assert record["failure"] == "failed (ValueError)"

    play(story())
    assert systems(model) == ["Fixed."]


# the definition


def test_the_fingerprint_covers_name_and_scope_of_a_resolver_and_not_its_value() -> None:
    def agent(name: str = "x", at: Scope = "turn", text: str = "a") -> Agent:
        return Agent("a", model="p/m", instructions=dynamic(lambda _: text, name=name, at=at))

    def mark(one: Agent) -> str:
        return fingerprint(compile_package(one))

    assert mark(agent()) == mark(agent(text="b"))
    assert len({mark(agent()), mark(agent("y")), mark(agent(at="step"))}) == 3
    tools = Agent("a", model="p/m", tools=[dynamic(lambda _: None, name="x")])
    assert mark(tools) != mark(agent())
    changes = package_difference(compile_package(agent()), compile_package(agent(at="step")))
    assert changes == ("resolver x changed: scope",)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: dynamic(WRONG), "a resolver must be a function"),
        (
            lambda: dynamic(_raises, at="day"),  # pyright: ignore[reportArgumentType]
            "at must be one of session, turn, step",
        ),
        (lambda: dynamic(_raises, name="a b"), "a resolver"),
        (lambda: dynamic(_raises, timeout_ms=0), "timeout_ms"),
        (lambda: dynamic(_raises, timeout_ms=RESOLVER_TIMEOUT_MS_MAX + 1), "timeout_ms"),
        (lambda: dynamic(_raises, fails_open=WRONG), "fails_open"),
        (lambda: Agent("a", model="p/m", instructions=WRONG), "instructions must be a string"),
        (lambda: Agent("a", model="p/m", tools=[dynamic(_raises)] * 2), "duplicate name _raises"),
        (
            lambda: Agent(
                "a",
                model="p/m",
                tools=[dynamic(_raises, name=f"r{n}") for n in range(RESOLVERS_PER_AGENT_MAX + 1)],
            ),
            "resolvers: found 33",
        ),
    ],
)
def test_an_invalid_definition_is_refused_with_a_message(make: Any, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        make()


def test_a_package_that_names_a_resolver_needs_its_agent() -> None:
    package = compile_package(Agent("shop", model="m/x", instructions=dynamic(_raises)))

    async def story() -> None:
        store = MemoryStore()
        builder = AgentRuntime.builder().journal(store).content(store).policy(allow_start).package(package)
        builder.event_bus(Feed(store, SystemClock())).providers({"m": model_of("done")})
        async with builder.build() as runtime:
            with pytest.raises(Rejected, match="has no function for resolver _raises"):
                await runtime.start_run(request(package_id=package.package_id))

    play(story())


@pytest.mark.slow
def test_an_interrupted_call_of_a_dynamic_tool_keeps_its_approval() -> None:
    paid = Counter[str]()

    @tool(mode="external", effect="idempotent")
    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        paid[ctx.idempotency_key] += 1
        return "paid"

    async def give(context: DynamicContext) -> list[Tool[..., object]]:
        return [pay]

    agent = Agent("a", model=ScriptedModel(by_history([call("pay", {}), say("done")])), tools=[dynamic(give)])
    asked: list[str] = []
    interrupted = 0

    def answer(request: InputRequest) -> InputResponse:
        asked.append(request.request_id)
        return InputResponse(request_id=request.request_id, option_id="approve")

    for crash in crash_everywhere(agent, "pay", answer=answer):
        assert (crash.result.output, len(paid)) == ("done", 1), crash
        assert len(set(asked)) == 1, crash
        interrupted += paid.total() > 1
        asked.clear()
        paid.clear()
    assert interrupted, "no crash was in the middle of the payment"


@pytest.mark.parametrize("scope", ["session", "turn", "step"])
def test_the_ledger_lists_dynamic_tools_among_the_options(scope: Scope) -> None:
    def give(context: DynamicContext) -> list[Tool[..., object]]:
        return [made(f"at_{context.step_index or 0}" if scope == "step" else "dyn")]

    agent = Agent("a", model=ScriptedModel([*TWO_STEPS, *TWO_STEPS]), tools=[LOOK, dynamic(give, at=scope)])

    async def story() -> list[list[str]]:
        async with opened(agent) as runtime:
            for run_id in ("r1", "r2"):
                await ran(runtime, agent, run_id)
            decisions = (await runtime.handle("r2").decisions()).decisions
            return [[option.id for option in one.options] for one in decisions]

    names = ["at_0", "at_1"] if scope == "step" else ["dyn", "dyn"]
    assert play(story()) == [["look", names[0], "final answer"], ["final answer", "look", names[1]]]
