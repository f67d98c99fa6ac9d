"""The playground: a recorded model call is run again, with changes, and without effects."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.runtime_rig import play

from windlass import Agent, AgentRuntime, Conflict, Denied, LLMMessage, Rejected, tool
from windlass.agent.agent import OBJECT_ROUTE
from windlass.agent.hooks import EventHook, hook, on_event
from windlass.agent.policy import allow_start
from windlass.catalog import RunQuery
from windlass.ledger import BuilderQuery
from windlass.playground import NOT_RECORDED, Playground, UnknownStep
from windlass.ports.host import HookCall
from windlass.ports.model import LLMStreamChunk
from windlass.ports.recorded import RunLook
from windlass.testing import ScriptedModel, call, say
from windlass.tools.deps import RunInfo
from windlass_harness.policy import PolicySet, Rule
from windlass_protocol import (
    AssistantMessage,
    DenyDecision,
    Event,
    JsonObject,
    RunRequest,
    RunStatus,
    RuntimePackage,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolOutputType,
    ToolResultPart,
    UserMessage,
)

START = datetime(2020, 1, 1, tzinfo=UTC)
TOKEN = "ghp_" + "a1B2" * 9


class Till:
    """Counts what is paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def tool(self) -> Any:
        @tool(mode="external", effect="idempotent")
        async def pay(cents: int) -> str:
            """Pay a bill."""
            self.paid.append(cents)
            return f"paid {cents}, number {len(self.paid)}"

        return pay


def answers(messages: Sequence[LLMMessage]) -> Any:
    """Play a model that pays what its instructions say, and quotes them at the end."""
    system = messages[0].content if messages[0].role == "system" else ""
    if messages[-1].role == "tool":
        return say(f"{system} {messages[-1].content}")
    return call("pay", {"cents": 7 if "seven" in system else 5})


class Listening:
    """A model that keeps what it is asked."""

    route_id, model_id = OBJECT_ROUTE, "listening"

    def __init__(self) -> None:
        self.asked: list[tuple[Sequence[LLMMessage], Sequence[JsonObject], float | None]] = []

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        self.asked.append((messages, tuple(tools or ()), temperature))
        yield LLMStreamChunk(content_delta="Heard.", finish_reason="stop")


def clerk(till: Till, **more: Any) -> Agent:
    given: dict[str, Any] = {"instructions": "Be short.", "tools": [till.tool()], **more}
    return Agent("clerk", model=given.pop("model", ScriptedModel(answers)), **given)


async def recorded(runtime: AgentRuntime, agent: str = "clerk", option: str = "approve") -> None:
    """Make the run `r1` of ann, which asks before it pays."""
    handle = await runtime.start_run(agent, "Pay it.", run_id="r1", session_id="s1", owner="ann")
    async for event in handle.events():
        if event.type == "run.waiting":
            for asked in await handle.open_requests():
                await handle.answer(asked.request_id, option)
    await handle.wait()


def test_a_step_is_run_again_with_other_instructions_and_calls_are_answered_from_the_record() -> None:
    async def story() -> None:
        till = Till()
        async with AgentRuntime.in_memory([clerk(till)]) as runtime:
            await recorded(runtime)
            again = await Playground(runtime).run("r1", 0, instructions="Be kind.")
            assert (await again.wait()).output == "Be kind. paid 5, number 1"
            assert till.paid == [5], "nothing is executed, and nobody is asked"
            snapshot = await runtime.run_snapshot(again.run_id)
            assert snapshot.playground is not None
            assert (snapshot.playground.run_id, snapshot.playground.step_index) == ("r1", 0)
            assert (await Playground(runtime).draft(again.run_id, 0)).instructions == "Be kind."

    play(story())


def test_a_draft_has_the_parts_of_the_prompt_and_the_answer() -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([clerk(Till(), temperature=0.5)]) as runtime:
            await recorded(runtime)
            first, last = [await Playground(runtime).draft("r1", at) for at in (0, 1)]
            assert (first.instructions, first.model, first.temperature) == (
                "Be short.",
                "scripted/scripted",
                0.5,
            )
            assert [one["name"] for one in first.tools] == ["pay"]
            assert first.messages == (UserMessage(content="Pay it."),)
            assert first.answer is not None
            assert [one.tool_name for one in first.answer.calls] == ["pay"]
            assert [one.role for one in last.messages] == ["user", "assistant", "tool"]
            assert last.answer is not None
            assert last.answer.text == "Be short. paid 5, number 1"
            assert first.origin is None
            with pytest.raises(UnknownStep, match="no step 9"):
                await Playground(runtime).draft("r1", 9)
            with pytest.raises(Conflict, match="unknown run"):
                await Playground(runtime).draft("r9", 0)

    play(story())


def test_all_changes_reach_the_model() -> None:
    async def story() -> None:
        heard = Listening()
        agents = [clerk(Till()), Agent("other", model=heard)]
        async with AgentRuntime.in_memory(agents) as runtime:
            await recorded(runtime)
            draft = await Playground(runtime).draft("r1", 1)
            assert draft.models == ("object/listening", "scripted/scripted")
            said, asked, told = draft.messages
            assert isinstance(told, ToolMessage)
            part = told.content[0]
            assert isinstance(part, ToolResultPart)
            changed = part.model_copy(
                update={"output": ToolOutput(type=ToolOutputType.TEXT, value="paid nothing")}
            )
            again = await Playground(runtime).run(
                "r1",
                1,
                instructions="",
                messages=[said, asked, told.model_copy(update={"content": (changed,)})],
                tools={"pay": "Pay, but not twice."},
                model="object/listening",
                temperature=1.5,
            )
            assert (await again.wait()).output == "Heard."
            [(messages, tools, temperature)] = heard.asked
            assert [(one.role, one.content) for one in messages] == [
                ("user", "Pay it."),
                ("assistant", ""),
                ("tool", "paid nothing"),
            ]
            assert [(one["name"], one["description"]) for one in tools] == [("pay", "Pay, but not twice.")]
            assert temperature == 1.5
            none = await Playground(runtime).run("r1", 0, tools={}, model="object/listening")
            await none.wait()
            assert heard.asked[-1][1] == ()

    play(story())


def test_a_call_without_a_record_fails_and_one_that_was_denied_stays_denied() -> None:
    async def story(option: str, instructions: str) -> str:
        till = Till()
        async with AgentRuntime.in_memory([clerk(till)]) as runtime:
            await recorded(runtime, option=option)
            paid = len(till.paid)
            again = await Playground(runtime).run("r1", 0, instructions=instructions)
            result = await again.wait()
            assert len(till.paid) == paid
            return result.output

    assert NOT_RECORDED in play(story("approve", "Pay seven."))
    assert "denied in the recorded run" in play(story("deny", "Be kind."))


def test_calls_that_a_rule_denies_stay_denied_and_equal_calls_get_the_results_after_the_step() -> None:
    def twice(messages: Sequence[LLMMessage]) -> Any:
        results = [one.content for one in messages if one.role == "tool"]
        return call("pay", {"cents": 5}) if len(results) < 2 else say(" ".join(results))

    async def story() -> None:
        rule = Rule("no", "deny", reason="Never.", tools=("refund",))

        @tool(mode="read")
        async def refund() -> str:
            """Refund."""
            return "refunded"

        till = Till()
        agent = clerk(till, model=ScriptedModel(twice), policy=PolicySet(rules=(rule,)))
        agent = Agent(
            "clerk", model=agent.model, tools=[*agent.tools, refund], policy=agent.policy, instructions="x"
        )
        async with AgentRuntime.in_memory([agent]) as runtime:
            await recorded(runtime)
            again = await Playground(runtime).run("r1", 1)
            assert (await again.wait()).output == "paid 5, number 1 paid 5, number 2"
            assert till.paid == [5, 5]
            third = await Playground(runtime).run(again.run_id, 0)
            assert (await third.wait()).output == "paid 5, number 1 paid 5, number 2", (
                "a playground run of a playground run knows the record of both"
            )

    play(story())


def test_one_call_alone_executes_nothing_even_if_tools_are_real() -> None:
    async def story() -> None:
        till = Till()
        async with AgentRuntime.in_memory([clerk(till)]) as runtime:
            await recorded(runtime)
            for calls in ("recorded", "real"):
                again = await Playground(runtime).run("r1", 0, size="call", calls=calls)
                assert (await again.wait()).status is RunStatus.BUDGET_EXHAUSTED
                answer = (await Playground(runtime).draft(again.run_id, 0)).answer
                assert answer is not None
                assert [one.input for one in answer.calls] == [{"cents": 5}]
            last = await Playground(runtime).run("r1", 1, size="call")
            assert (await last.wait()).status is RunStatus.COMPLETED
            assert till.paid == [5]

    play(story())


def test_real_calls_ask_for_approval_as_in_every_run() -> None:
    async def story() -> None:
        till = Till()
        async with AgentRuntime.in_memory([clerk(till)]) as runtime:
            await recorded(runtime)
            again = await Playground(runtime).run("r1", 0, calls="real")
            async for event in again.events():
                if event.type == "run.waiting":
                    assert till.paid == [5], "not before a person says so"
                    [asked] = (await runtime.sessions.requests(owner="ann")).items
                    await again.answer(asked.request.request_id, "approve")
            assert (await again.wait()).output == "Be short. paid 5, number 2"

    play(story())


def test_hooks_event_hooks_and_dependencies_are_left_alone() -> None:
    async def story() -> None:
        seen: list[str] = []

        @hook("before_tool_call")
        async def gate(given: HookCall) -> None:
            seen.append(given.run_id)

        @on_event("run.completed")
        async def told(event: Event) -> None:
            seen.append(f"told {event.run_id}")

        def deps(info: RunInfo) -> str:
            seen.append(f"deps {info.run_id}")
            return info.run_id

        agent = clerk(Till(), hooks=[gate, told], deps=deps)
        assert isinstance(told, EventHook)
        async with AgentRuntime.in_memory([agent]) as runtime:
            await recorded(runtime)
            again = await Playground(runtime).run("r1", 0)
            assert (await again.wait()).status is RunStatus.COMPLETED
            other = await runtime.start_run("clerk", "Pay it.", run_id="r2")
            await other.cancel()
            await other.wait()
        assert "r1" in seen
        assert not [one for one in seen if again.run_id in one]

    play(story())


@pytest.mark.parametrize("is_file", [False, True])
def test_lists_counts_and_the_ledger_leave_playground_runs_out(tmp_path: Path, is_file: bool) -> None:
    async def story() -> None:
        agents = [clerk(Till())]
        path = tmp_path / "app.db"
        opened = AgentRuntime.open(path, agents=agents) if is_file else AgentRuntime.in_memory(agents)
        async with opened as runtime:
            await recorded(runtime)
            again = await Playground(runtime).run("r1", 0)
            await again.wait()
            sessions = runtime.sessions
            queries: list[RunQuery] = [{}, {"root_only": True}, {"agent_id": "clerk"}, {"owner": "ann"}]
            for query in queries:
                assert [one.run_id for one in (await sessions.runs(**query)).items] == ["r1"]
            found = {one.run_id: one for one in (await sessions.runs(playground=True)).items}
            assert found.keys() == {"r1", again.run_id}
            assert found[again.run_id].is_playground
            assert (found[again.run_id].owner, found[again.run_id].input) == ("ann", "Pay it.")
            assert not found["r1"].is_playground
            own = await sessions.runs(session_id=again.run_id)
            assert [one.run_id for one in own.items] == [again.run_id]
            assert [one.session_id for one in (await sessions.list()).items] == ["s1"]
            assert (await sessions.get(again.run_id)).is_playground
            for agent_id in (None, "clerk"):
                stats = await sessions.stats(
                    START, START + timedelta(days=36_500), bucket_s=360 * 86_400, agent_id=agent_id
                )
                assert sum(bucket.runs for bucket in stats.buckets) == 1
            if is_file:
                query = BuilderQuery(path)
                assert [one.run_id for one in query.list_facts(RunLook())] == ["r1"]
            assert await sessions.delete("s1") == ("s1", again.run_id)

    play(story())


def test_a_playground_run_goes_on_in_another_process_and_still_executes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        till, path = Till(), tmp_path / "app.db"
        begun = asyncio.Event()

        class Stuck:
            route_id, model_id = "scripted", "scripted"

            async def stream(
                self, messages: Sequence[LLMMessage], **_: object
            ) -> AsyncIterator[LLMStreamChunk]:
                begun.set()
                await asyncio.Event().wait()
                yield LLMStreamChunk()

        async with AgentRuntime.open(path, agents=[clerk(till)]) as runtime:
            await recorded(runtime)
        async with AgentRuntime.open(path, agents=[clerk(till, model=Stuck())]) as runtime:
            again = await Playground(runtime).run("r1", 0, instructions="Be kind.")
            await begun.wait()
        async with AgentRuntime.open(path, agents=[clerk(till)], package_change="move") as runtime:
            result = await runtime.handle(again.run_id).wait()
            assert result.output == "Be kind. paid 5, number 1"
            assert till.paid == [5]

    play(story())


def test_what_cannot_be_run_is_refused_with_words() -> None:
    async def no_one(request: RunRequest, package: RuntimePackage) -> Any:
        if request.run_id.startswith("play-"):
            return DenyDecision(code="no", reason="Not today.", policy_refs=())
        return allow_start(request, package)

    async def story() -> None:
        async with AgentRuntime.in_memory([clerk(Till())], start_policy=no_one) as runtime:
            await recorded(runtime)
            run = Playground(runtime).run
            with pytest.raises(
                Denied, match=r"no agent of this runtime has it; choose one of scripted/scripted"
            ):
                await run("r1", 0, model="openai/gpt-5")
            with pytest.raises(Denied, match=r"Not today"):
                await run("r1", 0)
            with pytest.raises(Rejected, match=r"no tool refund"):
                await run("r1", 0, tools={"refund": "Refund."})
            with pytest.raises(Rejected, match=r"from 0 to 2"):
                await run("r1", 0, temperature=3)
            with pytest.raises(Rejected, match=r"size is call or run"):
                await run("r1", 0, size="step")  # type: ignore[arg-type]
            asks = ToolCallPart(tool_call_id="c1", tool_name="pay", input={})
            for messages, words in (
                ([UserMessage(content="Hi."), AssistantMessage(content="Yes?")], "last message"),
                ([], "last message"),
                ([{"content": "Hi."}], "messages"),
                ("Hi.", "must be a list"),
                ([UserMessage(content="x" * 1_100_000)], "too large"),
                (
                    [
                        AssistantMessage(content=(asks,)),
                        ToolMessage(
                            content=(
                                ToolResultPart(
                                    tool_call_id="c2",
                                    tool_name="pay",
                                    output=ToolOutput(type=ToolOutputType.TEXT, value=""),
                                ),
                            )
                        ),
                    ],
                    "no message asks for",
                ),
            ):
                with pytest.raises(Rejected, match=words):
                    await run("r1", 0, messages=messages)  # type: ignore[arg-type]
            with pytest.raises(Rejected, match=r"step_index"):
                await run("r1", -1)
            assert len((await runtime.sessions.runs(playground=True)).items) == 1

    play(story())


def test_the_same_playground_run_is_started_once() -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([clerk(Till())]) as runtime:
            await recorded(runtime)
            for _ in range(2):
                again = await Playground(runtime).run("r1", 0, instructions="Be kind.", new_run_id="play-1")
                await again.wait()
            with pytest.raises(Conflict):
                await Playground(runtime).run("r1", 0, instructions="Be rude.", new_run_id="play-1")
            with pytest.raises(Rejected, match="new_run_id must begin with play-"):
                await Playground(runtime).run("r1", 0, new_run_id="s1")
            assert len((await runtime.sessions.runs(playground=True)).items) == 2

    play(story())


def test_the_session_of_a_playground_run_takes_no_other_run_or_message() -> None:
    """Its messages were edited, and what follows would call the real tools."""

    async def story() -> None:
        async with AgentRuntime.in_memory([clerk(Till())]) as runtime:
            await recorded(runtime)
            await (await Playground(runtime).run("r1", 0, new_run_id="play-1")).wait()
            with pytest.raises(Conflict, match="session play-1 belongs to a playground run"):
                await runtime.start_run("clerk", "go", session_id="play-1")
            with pytest.raises(Conflict, match="session play-1 belongs to a playground run"):
                await runtime.steer("clerk", "go", session_id="play-1")

    play(story())


def test_secrets_in_changed_messages_are_masked() -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([clerk(Till())], secrets=["hunter2!x"]) as runtime:
            await recorded(runtime)
            said = [UserMessage(content="The password is hunter2!x")]
            again = await Playground(runtime).run("r1", 0, messages=said)
            await again.wait()
            lines = [line async for line in runtime.sessions.export(again.run_id)]
            assert not [line for line in lines if "hunter2!x" in line]
            texts = await Playground(runtime).run(
                "r1", 0, instructions=f"Say hunter2!x and {TOKEN}.", tools={"pay": f"Pay with {TOKEN}."}
            )
            await texts.wait()
            draft = await Playground(runtime).draft(texts.run_id, 0)
            assert draft.instructions == "Say [redacted] and [redacted:token]."
            assert [tool["description"] for tool in draft.tools if tool["name"] == "pay"] == [
                "Pay with [redacted:token]."
            ]

    play(story())
