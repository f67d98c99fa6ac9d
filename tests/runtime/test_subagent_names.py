"""Ids of subagent runs: reserved, and refused clearly if taken."""

from collections.abc import Callable

import pytest
from tests.runtime.runtime_rig import play

from windlass import Agent, AgentRuntime
from windlass.engine.driving.inbox import item_key
from windlass.errors import AgentError, Rejected
from windlass.ports.inbox import NewRun
from windlass.testing import ScriptedModel, call, say
from windlass_harness.loop.subagents import START
from windlass_protocol import JsonObject, RunStatus
from windlass_protocol.limits import ID_CHARS_MAX

CHILD = "subagent:r1/0/call-1"
CHILD_SESSION = f"session:{CHILD}"


def family() -> tuple[Agent, ScriptedModel]:
    """An agent that gives work to another, and the model of that one."""
    below = ScriptedModel([say("It is tea.")])
    reader = Agent("reader", model=below)
    script = [call("reader", {"message": "What is it?"}), say("Tea, then.")]
    return Agent("lead", model=ScriptedModel(script), subagents=[reader]), below


def body_of(agent_id: str) -> JsonObject:
    fingerprint = "sha256:" + "0" * 64
    return {"runId": CHILD, "agentId": agent_id, "packageFingerprint": fingerprint, "message": "mine"}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param({"run_id": CHILD}, id="a run"),
        pytest.param({"run_id": CHILD, "session_id": "mine"}, id="a run in a session of its own"),
        pytest.param({"run_id": "mine", "session_id": CHILD_SESSION}, id="a session"),
    ],
)
def test_a_start_with_the_id_of_a_subagent_is_refused(names: dict[str, str]) -> None:
    async def story() -> None:
        root, below = family()
        async with AgentRuntime.in_memory([root]) as runtime:
            with pytest.raises(Rejected, match="begins with a prefix that is reserved for subagents"):
                await runtime.start_run("lead", "go", **names)  # pyright: ignore[reportCallIssue, reportArgumentType] - ids alone
            result = await (await runtime.start_run(root, "go", run_id="r1")).wait(timeout=300)
            assert result.output == "Tea, then."
            # An existing subagent session takes further runs.
            further = await runtime.start_run("reader", "and more?", run_id="r2", session_id=CHILD_SESSION)
            await further.wait(timeout=300)
        assert [message.content for message in below.requests[-1].messages][-1] == "and more?"

    play(story())


@pytest.mark.parametrize("session_id", [CHILD_SESSION, "elsewhere"])
def test_a_subagent_with_a_taken_id_is_refused_and_its_caller_goes_on(session_id: str) -> None:
    async def story() -> None:
        root, below = family()
        async with AgentRuntime.in_memory([root]) as runtime:
            store = runtime.core.ports.store
            assert store is not None
            run = NewRun(CHILD, "nobody", "sha256:" + "0" * 64)
            key = item_key(START, CHILD)
            await store.post(session_id, kind=START, key=key, body=body_of("nobody"), run=run)
            result = await (await runtime.start_run(root, "go", run_id="r1")).wait(timeout=300)
            assert (result.status, result.output) == (RunStatus.COMPLETED, "Tea, then.")
        assert below.requests == []
        assert isinstance(root.model, ScriptedModel)
        told = root.model.requests[-1].messages[-1].content
        assert "The subagent was not started: a run with its id exists and belongs to another caller" in told

    play(story())


def test_a_subagent_does_not_begin_in_a_session_that_has_a_past() -> None:
    async def story() -> None:
        root, below = family()
        async with AgentRuntime.in_memory([root]) as runtime:
            store = runtime.core.ports.store
            assert store is not None
            await store.post(CHILD_SESSION, kind="state", key="state:1", body={"set": {"note": "planted"}})
            result = await (await runtime.start_run(root, "go", run_id="r1")).wait(timeout=300)
            assert result.status is RunStatus.COMPLETED
        assert below.requests == []
        assert isinstance(root.model, ScriptedModel)
        told = root.model.requests[-1].messages[-1].content
        assert "a session with its id exists and belongs to another caller" in told

    play(story())


def test_the_longest_run_id_leaves_room_for_those_of_subagents() -> None:
    async def story() -> None:
        root, _ = family()
        async with AgentRuntime.in_memory([root]) as runtime:
            handle = await runtime.start_run(root, "go", run_id="r" * ID_CHARS_MAX, session_id="s1")
            assert (await handle.wait(timeout=300)).output == "Tea, then."
            (child,) = await runtime.sessions.descendants("s1")
            assert (child.run_id or "").startswith("subagent:sha256:")
            assert child.session_id == f"session:{child.run_id}"

    play(story())


ABSENT: dict[str, Callable[[AgentRuntime], object]] = {
    "session_state": lambda runtime: runtime.sessions.state("nope"),
    "change_state": lambda runtime: runtime.sessions.change_state("nope", {"a": 1}),
    "compact": lambda runtime: runtime.sessions.compact("nope"),
    "descendants": lambda runtime: runtime.sessions.descendants("nope"),
    "session_requests": lambda runtime: runtime.sessions.open_requests("nope"),
    "answer_session": lambda runtime: runtime.sessions.answer("nope", []),
    "steer": lambda runtime: runtime.steer("lead", "hello", session_id="nope"),
}


@pytest.mark.parametrize("name", ABSENT)
def test_an_unknown_session_is_a_conflict_with_its_id(name: str) -> None:
    async def story() -> None:
        root, _ = family()
        async with AgentRuntime.in_memory([root]) as runtime:
            with pytest.raises(AgentError, match="unknown session: nope; start a run in it first") as info:
                await ABSENT[name](runtime)  # pyright: ignore[reportGeneralTypeIssues] - each is awaitable
            assert info.value.code == "conflict"
            store = runtime.core.ports.store
            assert store is not None
            assert await store.session("nope") is None

    play(story())
