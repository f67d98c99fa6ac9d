"""Running an agent in one line, `run_sync`, and runtime options."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.runtime_rig import look, mail, model_of, play, shop, until

from windlass import Agent, AgentRuntime, tool
from windlass.agent.policy import RulesPolicy
from windlass.errors import Rejected, Unavailable
from windlass.ports.host import Delivery
from windlass.ports.machine import Machine
from windlass.runtime.options import RuntimeOptions
from windlass.testing import (
    Answer,
    FakeClock,
    ScriptedModel,
    call,
    run_in_fake_time,
    say,
    seeded_random,
    sequential_ids,
)
from windlass_harness.budget import Budget
from windlass_harness.loop.rules import Rules
from windlass_harness.policy import PolicySet, Rule
from windlass_protocol import (
    BudgetLimits,
    ErrorKind,
    RetryClass,
    RunMode,
    RunRequest,
    RunStatus,
    SourceKind,
    SourceRef,
    TextPart,
)

ASKS = [call("mail", {"to": "ada"}), say("done")]


# One line


def test_an_agent_runs_in_one_line() -> None:
    agent = Agent("a", model=ScriptedModel([call("look", {"item": "key"}), say("found")]), tools=[look])
    result = agent.run_sync("Where is the key?")
    assert (result.status, result.output) == (RunStatus.COMPLETED, "found")


def test_a_call_that_needs_approval_is_denied_in_agent_run_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    def bare(to: str) -> str:
        return to

    for one, hint in ((replace(mail), "asked; open an"), (bare, "asked; it declares no mode, so write one")):
        for _ in range(2):
            model = ScriptedModel([call(one.name, {"to": "ada"}), say("done")])
            result = Agent("a", model=model, tools=[one]).run_sync("Write to Ada.")
            assert result.output == "done"
            assert model.requests[1].messages[-1].is_error
        told = [text for text in caplog.messages if f"calls of {one.name} are denied" in text]
        assert len(told) == 1
        assert hint in told[0]


def test_an_agent_with_a_model_name_needs_a_provider() -> None:
    agent = Agent("a", model="nobody/gpt-5")
    with pytest.raises(Unavailable, match="missing provider adapter for package route nobody"):
        agent.run_sync("Hello?")
    assert agent.run_sync("Hello?", providers={"nobody": model_of("Hello.")}).output == "Hello."


def test_run_sync_is_refused_inside_an_event_loop_and_leaves_nothing_unawaited() -> None:
    async def story() -> None:
        with pytest.raises(Rejected, match=r"write await agent\.run") as caught:
            shop().run_sync("go")
        assert caught.value.kind is ErrorKind.INVALID_STATE_TRANSITION

    play(story())


# Starting


def test_a_run_of_an_agent_that_the_runtime_does_not_have_is_refused() -> None:
    async def story() -> None:
        runtime = AgentRuntime.in_memory([shop()])
        with pytest.raises(Rejected, match="unknown agent: other") as caught:
            await runtime.start_run("other", "go", run_id="r1")
        assert caught.value.kind is ErrorKind.INVALID_PACKAGE
        assert caught.value.retry is RetryClass.HOST_CONFIGURATION_NEEDED
        assert caught.value.causal_ids.run_id == "r1"

    play(story())


def test_every_option_of_a_run_reaches_its_records_and_its_model() -> None:
    async def story() -> None:
        model = model_of('"yes"')
        source = SourceRef(kind=SourceKind.USER, id="ada")
        async with AgentRuntime.in_memory([shop(model)]) as runtime:
            handle = await runtime.start_run(
                "shop",
                "go",
                session_id="s1",
                run_id="r1",
                turn_id="t1",
                mode=RunMode.TASK,
                budget=Budget(max_steps=3),
                output={"title": "Word", "type": "string"},
                context=["It is raining."],
                metadata={"ticket": 7},
                source=source,
            )
            result = await handle.wait()
            assert result.structured_output == "yes"
            started = await until(runtime.handle("r1"), "run.started")
            assert started.data["budget"] == {"maxSteps": 3}
            assert started.data["metadata"] == {"ticket": 7}
            assert started.data["mode"] == "task"
            snapshot = await runtime.run_snapshot("r1")
            assert (snapshot.session_id, snapshot.turn_id, snapshot.source) == ("s1", "t1", source)
            said = "\n".join(message.content for message in model.requests[0].messages)
            assert "It is raining." in said

    play(story())


def test_a_run_takes_parts_and_limits_of_a_wire_request_and_generates_missing_ids() -> None:
    async def story() -> None:
        model = model_of("one", "two")
        agent = shop(model)
        async with AgentRuntime.in_memory([agent]) as runtime:
            first = await runtime.start_run(
                agent, (TextPart(text="hello"),), budget=BudgetLimits(max_steps=1), session_id=None
            )
            second = await runtime.start_run(agent, "go", run_id=None, output=None, context=None)
            results = [await first.wait(), await second.wait()]
            assert [result.output for result in results] == ["one", "two"]
            assert len({result.run_id for result in results}) == 2
            assert len({result.session_id for result in results}) == 2
            assert model.requests[0].messages[-1].parts

    play(story())


def test_a_misspelt_agent_is_refused_with_the_names_there_are() -> None:
    runtime = AgentRuntime.in_memory([shop(), Agent("clerk", model=model_of())])
    for work in (
        runtime.start_run("shp", "go"),
        runtime.start_run(RunRequest(run_id="r1", agent_id="shp", input="go")),
    ):
        with pytest.raises(Rejected, match="unknown agent: shp; this runtime has clerk, shop;"):
            play(work)


# Typed output


@dataclass
class Trip:
    city: str


def test_a_typed_run_is_asked_for_with_an_agent_a_message_and_a_type() -> None:
    async def story() -> None:
        agent = shop(model_of('{"city": "Oslo"}', '{"city": "Bergen"}', "7"))
        async with AgentRuntime.in_memory([agent]) as runtime:
            first = await runtime.run_typed(agent, "plan", Trip, run_id="r1", session_id="s1")
            assert first.output == Trip("Oslo")
            assert (first.result.run_id, first.result.session_id) == ("r1", "s1")
            assert (await runtime.run_typed("shop", "plan", Trip)).output == Trip("Bergen")
            assert (await runtime.run_typed("shop", "count", {"type": "integer"})).output == 7

    play(story())


def test_a_request_without_a_package_runs_under_that_of_its_agent() -> None:
    async def story() -> None:
        agents = [shop(model_of('{"city": "Oslo"}')), Agent("clerk", model=model_of("hello"))]
        async with AgentRuntime.in_memory(agents) as runtime:
            request = RunRequest(run_id="r1", agent_id="shop", input="plan")
            assert (await runtime.run_typed(request, Trip)).output == Trip("Oslo")
            other = RunRequest(run_id="r2", agent_id="clerk", input="hello?")
            assert (await runtime.run_text(other)).output == "hello"

    play(story())


@pytest.mark.parametrize(
    "given",
    [("plan", Trip), ("shop", "plan", Trip, Trip), (RunRequest(run_id="r", agent_id="a", input="x"), 1, 2)],
)
def test_run_typed_with_other_arguments_names_both_signatures(given: tuple[Any, ...]) -> None:
    runtime: Any = AgentRuntime.in_memory([shop()])
    with pytest.raises(Rejected, match=r"run_typed takes \(agent, message, output\) or \(request, output\)"):
        play(runtime.run_typed(*given))


# Waits that time out


def test_a_timed_out_wait_names_the_status_and_the_open_requests() -> None:
    async def story() -> None:
        model = ScriptedModel([call("mail", {"to": "ada"}) + call("mail", {"to": "bob"}), say("done")])
        async with AgentRuntime.in_memory([shop(model)]) as runtime:
            handle = await runtime.start_run("shop", "go")
            await until(handle, "run.waiting")
            with pytest.raises(TimeoutError) as caught:
                await handle.wait(timeout=0)
            assert str(caught.value) == "not ended after 0 s: waiting, 2 requests open, see handle.requests()"
            (first, _) = await handle.open_requests()
            await handle.answer(first.request_id, "deny")

    play(story())


def test_a_wait_for_a_run_that_is_at_work_says_so() -> None:
    async def story() -> None:
        gate = asyncio.Event()
        async with AgentRuntime.in_memory([shop(ScriptedModel([Answer("done", gate=gate)]))]) as runtime:
            handle = await runtime.start_run("shop", "go")
            await until(handle, "step.started")
            with pytest.raises(TimeoutError) as caught:
                await handle.wait(timeout=0.001)
            assert str(caught.value) == "not ended after 0.001 s: running"
            gate.set()
            assert (await handle.wait()).output == "done"

    play(story())


# Options of a runtime


class Box:
    """A sink."""

    sink_id = "box"

    async def deliver(self, output: Delivery) -> None:
        return None


def test_a_runtime_takes_all_its_options(tmp_path: Path) -> None:
    clock = FakeClock()
    strict = RulesPolicy(PolicySet((Rule("no", "deny", tools=("look",), reason="Nobody looks."),)))

    async def story() -> None:
        model = ScriptedModel([call("look", {"item": "key"}), *ASKS])
        runtime = AgentRuntime.in_memory(
            [shop(model)],
            machine=Machine(clock, sequential_ids(), seeded_random(1)),
            tool_policy=strict,
            rules=Rules(steps_max=5),
            approval_expires_ms=1_000,
            responders=["ada"],
            package_change="move",
            output_sinks=[Box()],
        )
        assert list(runtime.output_sinks) == ["box"]
        async with runtime:
            handle = await runtime.start_run("shop", "go")
            await until(handle, "run.waiting")
            (asked,) = await handle.open_requests()
            assert asked.responders == ("ada",)
            assert asked.expires_at == "2026-01-01T00:00:01.000Z"
            result = await handle.wait()
            assert result.status is RunStatus.COMPLETED
        assert model.requests[1].messages[-1].content == "Nobody looks."
        assert "The approval request expired." in model.requests[2].messages[-1].content

    run_in_fake_time(story(), clock=clock)


@pytest.mark.parametrize("is_attended", [None, True, False])
def test_an_opened_runtime_is_attended_by_default(tmp_path: Path, is_attended: bool | None) -> None:
    async def ends(runtime: AgentRuntime) -> RunStatus:
        async with runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1")
            async for event in handle.events():
                if event.type in ("run.waiting", "run.completed"):
                    break
            return await handle.status()

    async def story() -> None:
        options: RuntimeOptions = {} if is_attended is None else {"is_attended": is_attended}
        expected = RunStatus.COMPLETED if is_attended is False else RunStatus.WAITING
        assert await ends(AgentRuntime.in_memory([shop(ScriptedModel(ASKS))], **options)) is expected
        opened = await AgentRuntime.open(tmp_path / "a.db", agents=[shop(ScriptedModel(ASKS))], **options)
        assert await ends(opened) is expected

    play(story())
