"""ctx.state: session state of tools, and reading and changing it from outside."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.counter import CALLS, STORY_S_MAX, counter
from tests.runtime.runtime_rig import play

from windlass import (
    Agent,
    AgentRuntime,
    Conflict,
    HookCall,
    Rejected,
    ToolContext,
    ToolFailed,
    Veto,
    hook,
    tool,
)
from windlass.adapters.journals.memory import MemoryStore
from windlass.limits import STATE_KEY_CHARS_MAX, STATE_VALUE_BYTES_MAX
from windlass.ports.inbox import Posted
from windlass.runtime.handle import RunHandle
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.toolbox import Workspace, todo_tool
from windlass.tools.calling import run_tool
from windlass.tools.context import STEPS_KEY, SessionValues, ToolState
from windlass_harness.loop.authored import STATE_TOO_LARGE
from windlass_harness.policy import CallFacts
from windlass_protocol import AllowDecision, DenyDecision, JsonObject, JsonValue, ToolResult
from windlass_protocol.bodies import data_of
from windlass_protocol.limits import FREE_LEVELS_MAX

SECRET = "correct-horse-battery"


@asynccontextmanager
async def opened(agent: Agent, path: Path | None = None, **options: Any) -> AsyncGenerator[AgentRuntime]:
    """A runtime in memory, or on a file."""
    if path is None:
        runtime = AgentRuntime.in_memory([agent], **options)
    else:
        runtime = await AgentRuntime.open(path, agents=[agent], **options)
    async with runtime:
        yield runtime


async def ran(runtime: AgentRuntime, agent: Agent, run_id: str = "r1") -> RunHandle:
    handle = await runtime.start_run(agent, "go", run_id=run_id, session_id="s")
    assert (await handle.wait(timeout=STORY_S_MAX)).status == "completed"
    return handle


async def records(handle: RunHandle, kind: str) -> list[JsonObject]:
    return [event.data async for event in handle.events() if event.type == kind]


def test_serial_calls_of_a_tool_see_the_state_of_the_call_before() -> None:
    @tool(mode="safe_write", effect="idempotent", concurrency=1)
    async def add(ctx: ToolContext) -> int:
        """Add one."""
        count = ctx.state.get("count", 0)
        assert isinstance(count, int)
        ctx.state["count"] = count + 1
        return count

    async def story() -> None:
        script = [call("add", {}) + call("add", {}) + call("add", {}), say("done")]
        agent = Agent("user", model=ScriptedModel(by_history(script)), tools=[add])
        async with opened(agent) as runtime:
            await ran(runtime, agent)
            assert await runtime.sessions.state("s") == {"count": 3}

    play(story())


@pytest.mark.parametrize("ends", ["cancelled", "closed"])
def test_a_cancelled_or_closed_run_gives_up_its_place_in_a_serial_tool(ends: str, tmp_path: Path) -> None:
    kept, go_on = asyncio.Event(), asyncio.Event()

    @tool(mode="safe_write", effect="idempotent", concurrency=1)
    async def add(ctx: ToolContext) -> str:
        """Keep something."""
        ctx.state["count"] = 1
        return "kept"

    @hook("after_tool_call", timeout_ms=30_000)
    async def slow(_call: HookCall) -> None:
        kept.set()
        await go_on.wait()

    async def story() -> None:
        agent = Agent(
            "user", model=ScriptedModel(by_history([call("add", {}), say("done")])), tools=[add], hooks=[slow]
        )
        async with opened(agent, tmp_path / "app.db") as runtime:
            first = await runtime.start_run(agent, "go", run_id="r1", session_id="s1")
            await kept.wait()
            if ends == "cancelled":
                await first.cancel()
                await first.wait(timeout=STORY_S_MAX)
        go_on.set()
        async with opened(agent, tmp_path / "app.db") as runtime:
            second = await runtime.start_run(agent, "go", run_id="r2", session_id="s2")
            assert (await second.wait(timeout=STORY_S_MAX)).output == "done"

    play(story())


@pytest.mark.parametrize("key", ["windlass.x", STEPS_KEY])
def test_reserved_state_keys_are_refused_from_outside(key: str) -> None:
    with pytest.raises(TypeError, match=r"keys that begin with windlass\. are reserved for built-in tools"):
        ToolState()[key] = 1

    async def story() -> None:
        agent = using(lambda _: None)
        async with opened(agent) as runtime:
            await ran(runtime, agent)
            with pytest.raises(Rejected, match="choose another"):
                await runtime.sessions.change_state("s", {key: 1})

    play(story())


def using(work: Callable[[ToolContext], object], **options: Any) -> Agent:
    """An agent that calls one tool."""

    @tool(mode="safe_write", effect="idempotent")
    async def use(ctx: ToolContext, n: int = 0) -> object:
        """Use the state."""
        return work(ctx)

    script = [call("use", {"n": 1}), say("done")]
    return Agent("user", model=ScriptedModel(by_history(script * 2)), tools=[use], **options)


# in a call


def test_a_call_sees_its_own_changes_and_nothing_that_it_did_not_set() -> None:
    before: JsonObject = {"list": [1], "gone": 1, STEPS_KEY: {"hidden": True}}
    state = ToolState(before)
    assert STEPS_KEY not in state
    value = state["list"]
    assert isinstance(value, list)
    value.append(2)
    assert state["list"] == [1], "what is read is a copy"
    given: JsonValue = {"deep": [1]}
    state["new"] = given
    assert isinstance(given, dict)
    given["deep"] = []
    del state["gone"]
    with pytest.raises(KeyError):
        del state["gone"]
    assert dict(state) == {"list": [1], "new": {"deep": [1]}}
    assert len(state) == 2
    assert "gone" not in state
    assert repr(state) == "ToolState('list', 'new')"
    assert state.change is not None
    assert data_of(state.change.body) == {"set": {"new": {"deep": [1]}}, "removed": ["gone"]}
    assert before["list"] == [1]
    assert ToolState().change is None


@pytest.mark.parametrize("key", ["", "x" * (STATE_KEY_CHARS_MAX + 1), 1, None, STEPS_KEY, "\ud800"])
def test_a_wrong_key_is_refused(key: Any) -> None:
    state = ToolState()
    with pytest.raises(TypeError):
        state[key] = 1
    assert state.change is None


@pytest.mark.parametrize("value", [object(), {1: 2}, float("nan"), 2**60, {"a": {1, 2}}, "\ud800"])
def test_a_state_value_that_is_not_json_is_refused(value: Any) -> None:
    state = ToolState()
    with pytest.raises(TypeError, match="cannot be stored"):
        state["a"] = value
    assert state.change is None


def test_a_value_has_a_limit() -> None:
    deep: JsonValue = 1
    for _ in range(FREE_LEVELS_MAX):
        deep = [deep]
    state = ToolState()
    with pytest.raises(TypeError):
        state["deep"] = deep
    with pytest.raises(ToolFailed, match="too large"):
        state["large"] = "x" * STATE_VALUE_BYTES_MAX
    state["fits"] = "x" * (STATE_VALUE_BYTES_MAX - 16)


def test_values_can_only_be_read_outside_of_a_call() -> None:
    values = SessionValues({"a": 1})
    assert not hasattr(values, "__setitem__")
    assert dict(values) == {"a": 1}


def test_a_tool_that_is_not_async_uses_the_state_from_its_thread() -> None:
    @tool(mode="safe_write")
    def note(ctx: ToolContext) -> str:
        """Note."""
        ctx.state["thread"] = True
        return "noted"

    context = ToolContext("s", "r", "c")
    play(run_tool(note, {}, context=context))
    assert dict(context.state) == {"thread": True}


# in a session


@pytest.mark.parametrize("is_durable", [False, True])
def test_the_state_of_a_call_is_seen_by_later_calls_and_runs(tmp_path: Path, is_durable: bool) -> None:
    async def story() -> None:
        agent = counter()
        async with opened(agent, tmp_path / "a.db" if is_durable else None) as runtime:
            handle = await ran(runtime, agent)
            assert [one["set"] for one in await records(handle, "session.state_changed")] == [
                {"count": number + 1} for number in range(CALLS)
            ]
            await ran(runtime, agent, "r2")
            assert await runtime.sessions.state("s") == {"count": 2 * CALLS}

    play(story())


def test_the_state_is_there_after_a_restart(tmp_path: Path) -> None:
    async def story(run_id: str, *, count: int) -> None:
        agent = counter()
        async with opened(agent, tmp_path / "a.db") as runtime:
            await ran(runtime, agent, run_id)
            assert await runtime.sessions.state("s") == {"count": count}

    play(story("r1", count=CALLS))
    play(story("r2", count=2 * CALLS))


@pytest.mark.slow
@pytest.mark.parametrize("at", range(1, CALLS + 1))
def test_a_call_that_a_killed_process_left_is_repeated_with_the_state_as_it_was(
    tmp_path: Path, at: int
) -> None:
    command = [sys.executable, "-m", "tests.runtime.counter", str(tmp_path / "a.db"), str(at)]
    ended = subprocess.run(command, timeout=2 * STORY_S_MAX, check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()

    async def story() -> None:
        async with opened(counter(), tmp_path / "a.db") as runtime:
            handle = runtime.handle("r1")
            assert (await handle.wait(timeout=STORY_S_MAX)).status == "completed"
            assert await runtime.sessions.state("s") == {"count": CALLS}
            outputs = [one["result"]["output"] for one in await _results(handle)]
            assert outputs == ["1", "2", "3"]

    play(story())


async def _results(handle: RunHandle) -> list[Any]:
    return [event.data async for event in handle.events() if event.type == "action.result"]


@pytest.mark.parametrize("how", ["failed", "error", "result"])
def test_a_call_that_fails_keeps_nothing(how: str) -> None:
    def work(ctx: ToolContext) -> object:
        ctx.state["kept"] = True
        if how == "failed":
            raise ToolFailed("no")
        if how == "error":
            raise ValueError("no")
        return ToolResult(success=False, error="no")

    async def story() -> None:
        agent = using(work)
        async with opened(agent) as runtime:
            await ran(runtime, agent)
            assert await runtime.sessions.state("s") == {}

    play(story())


def test_calls_side_by_side_each_see_the_state_at_their_start() -> None:
    async def story() -> None:
        both = asyncio.Barrier(2)

        @tool(mode="safe_write", effect="idempotent")
        async def add(ctx: ToolContext, name: str) -> list[str]:
            """Add."""
            await both.wait()
            seen = sorted(ctx.state)
            ctx.state[name] = True
            ctx.state["last"] = name
            return seen

        script = [call("add", {"name": "a"}) + call("add", {"name": "b"}, call_id="c2"), say("done")]
        agent = Agent("adder", model=ScriptedModel(by_history(script)), tools=[add])
        async with opened(agent) as runtime:
            handle = await ran(runtime, agent)
            results = [one["result"] for one in await _results(handle)]
            assert [one["output"] for one in results] == [[], []]
            last = {"call-1": "a", "c2": "b"}.get(str(results[-1]["callId"]))
            kept = await runtime.sessions.state("s")
            assert kept == {"a": True, "b": True, "last": last or kept["last"]}

    play(story())


def test_a_withheld_result_keeps_the_state_change_of_its_call() -> None:
    @hook("after_tool_call", right="mutate", failure="deny", timeout_ms=30_000)
    async def broken(_: HookCall) -> None:
        raise ValueError("no")

    async def story() -> None:
        agent = using(lambda ctx: ctx.state.update(kept=1), hooks=[broken])
        async with opened(agent) as runtime:
            handle = await ran(runtime, agent)
            (result,) = await _results(handle)
            assert result["status"] == "failed"
            assert await runtime.sessions.state("s") == {"kept": 1}

    play(story())


class Withholding:
    """A policy that lets every call be made and no result be seen."""

    version = "1"

    def before(self, facts: CallFacts, *, is_attended: bool) -> AllowDecision:
        return AllowDecision(code="ok", reason="fine", policy_refs=())

    def after(self, facts: CallFacts, result: JsonValue) -> DenyDecision:
        return DenyDecision(code="no", reason="not for you", policy_refs=())


def test_a_policy_that_withholds_a_result_does_not_undo_the_call() -> None:
    async def story() -> None:
        agent = using(lambda ctx: ctx.state.update(kept=1))
        async with opened(agent, tool_policy=Withholding()) as runtime:
            handle = await ran(runtime, agent)
            (result,) = await _results(handle)
            assert result["error"]["code"] == "no"
            assert await runtime.sessions.state("s") == {"kept": 1}

    play(story())


def test_a_full_state_fails_the_call_with_a_message() -> None:
    def work(ctx: ToolContext) -> object:
        for number in range(5):
            ctx.state[f"part {number}"] = "x" * (STATE_VALUE_BYTES_MAX - 32)
        return "kept"

    async def story() -> None:
        agent = using(work)
        async with opened(agent) as runtime:
            handle = await ran(runtime, agent)
            (result,) = await _results(handle)
            assert result["error"]["code"] == STATE_TOO_LARGE
            assert "bytes, limit" in result["error"]["message"]
            assert await runtime.sessions.state("s") == {}

    play(story())


def test_secrets_are_masked_in_the_state_as_everywhere(tmp_path: Path) -> None:
    def work(ctx: ToolContext) -> object:
        ctx.state["note"] = f"it is {SECRET}"
        return "kept"

    async def story() -> None:
        agent = using(work)
        async with opened(agent, tmp_path / "a.db", secrets=[SECRET]) as runtime:
            await ran(runtime, agent)
            await runtime.sessions.change_state("s", {"other": f"also {SECRET}"})
            await ran(runtime, agent, "r2")
            kept = await runtime.sessions.state("s")
            assert kept.keys() == {"note", "other"}
            assert SECRET not in str(kept)

    play(story())
    for file in tmp_path.iterdir():
        assert SECRET.encode() not in file.read_bytes()


def test_hooks_read_the_state_and_cannot_change_it() -> None:
    seen: list[dict[str, JsonValue]] = []

    @hook("before_tool_call", right="veto", timeout_ms=30_000)
    async def guard(asked: HookCall) -> Veto | None:
        seen.append(dict(asked.state))
        count = asked.state.get("count", 0)
        return Veto("enough") if isinstance(count, int) and count >= 1 else None

    async def story() -> None:
        plain = counter()
        agent = Agent("counter", model=plain.model, tools=plain.tools, hooks=[guard])
        async with opened(agent) as runtime:
            await ran(runtime, agent)
            assert await runtime.sessions.state("s") == {"count": 1}

    play(story())
    assert seen == [{}, {"count": 1}, {"count": 1}]


# from outside


def test_inbox_items_hold_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[JsonObject] = []
    post = MemoryStore.post

    async def spy(store: MemoryStore, session_id: str, **item: Any) -> Posted:
        bodies.append(item["body"])
        return await post(store, session_id, **item)

    async def story() -> None:
        monkeypatch.setattr(MemoryStore, "post", spy)
        agent = counter()
        async with opened(agent, secrets=[SECRET]) as runtime:
            await ran(runtime, agent)
            await runtime.sessions.change_state("s", {"note": SECRET})

    play(story())
    assert bodies[-1].keys() == {"set"}
    assert SECRET not in str(bodies)


@pytest.mark.parametrize("is_durable", [False, True])
def test_the_state_is_read_and_changed_from_outside(tmp_path: Path, is_durable: bool) -> None:
    async def story() -> None:
        agent = counter()
        async with opened(agent, tmp_path / "a.db" if is_durable else None) as runtime:
            await ran(runtime, agent)
            await runtime.sessions.change_state("s", {"count": 40, "plan": {"name": "pro"}})
            await ran(runtime, agent, "r2")
            assert await runtime.sessions.state("s") == {"count": 40 + CALLS, "plan": {"name": "pro"}}
            await runtime.sessions.change_state("s", {}, remove=["plan"])
            await ran(runtime, agent, "r3")
            assert await runtime.sessions.state("s") == {"count": 40 + 2 * CALLS}

    play(story())


def test_a_session_that_is_not_there_has_no_state() -> None:
    async def story() -> None:
        async with opened(counter()) as runtime:
            with pytest.raises(Conflict, match="unknown session"):
                await runtime.sessions.state("s")
            with pytest.raises(Conflict, match="unknown session"):
                await runtime.sessions.change_state("s", {"a": 1})

    play(story())


@pytest.mark.parametrize(
    ("values", "remove"),
    [
        ([], ()),
        ({"": 1}, ()),
        ({"a": object()}, ()),
        ({"a": "x" * STATE_VALUE_BYTES_MAX}, ()),
        ({str(number): "x" * 65_000 for number in range(5)}, ()),
        ({}, "abc"),
        ({}, [1]),
    ],
)
def test_an_invalid_state_change_is_rejected_by_change_state(values: Any, remove: Any) -> None:
    async def story() -> None:
        agent = counter()
        async with opened(agent) as runtime:
            await ran(runtime, agent)
            with pytest.raises(Rejected):
                await runtime.sessions.change_state("s", values, remove=remove)

    play(story())


# the toolbox


def test_marks_and_lists_are_there_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one")
    items: JsonValue = [{"id": "1", "text": "write it"}]

    def agent(script: list[Any]) -> Agent:
        tools = [*Workspace(folder).tools("read_file", "write_file"), todo_tool()]
        return Agent("writer", model=ScriptedModel(script), tools=tools)

    async def story(run_id: str, script: list[Any]) -> list[Any]:
        one = agent(script)
        async with opened(one, tmp_path / "a.db") as runtime:
            return [data["result"]["output"] for data in await _results(await ran(runtime, one, run_id))]

    play(story("r1", [call("read_file", {"path": "a.txt"}), call("todo", {"items": items}), say("read")]))
    told = play(
        story(
            "r2", [call("write_file", {"path": "a.txt", "content": "two"}), call("todo", {}), say("written")]
        )
    )
    assert (folder / "a.txt").read_text() == "two", told
    assert told[1] == "[ ] 1: write it"
