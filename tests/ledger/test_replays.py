"""Replays: recorded runs are repeated with tool results from the record."""

import asyncio
from collections.abc import Sequence

import pytest
from pydantic import BaseModel
from tests.ledger.rig import (
    BETTER,
    FIX,
    GOAL,
    builder,
    clerk,
    clerk_script,
    find_parcel,
    looked_up,
    opened,
    run,
)

from windlass import Agent, AgentRuntime, HookCall, LLMMessage, PolicySet, Rejected, Rule, hook, tool
from windlass.adapters.journals import codec
from windlass.agent.dynamic import dynamic
from windlass.ledger import Builder, CheckReport, Contains, Exact, FailureKind, Goal, Runtime
from windlass.ledger import replays as replaying
from windlass.runtime.options import RunOptions
from windlass.testing import ScriptedModel, call, say
from windlass.testing.models import Answer
from windlass.tools.question import ask_question
from windlass_protocol import JsonObject, VersionVerdict


def tool_messages(messages: Sequence[LLMMessage]) -> list[LLMMessage]:
    return [one for one in messages if one.role == "tool"]


async def checked(
    runtime: AgentRuntime, change: JsonObject | None = None, *, goal: Goal = GOAL, **more: object
) -> CheckReport:
    fix: JsonObject = FIX if change is None else {**FIX, "changes": [change]}
    async with builder(runtime, fix, goal=goal) as made:
        proposal = await made.propose(goal)
        return await made.check(proposal, **more)  # pyright: ignore[reportArgumentType] any parts


def test_a_call_that_was_never_recorded_is_an_error_for_the_model_and_never_made() -> None:
    def script(messages: Sequence[LLMMessage]) -> Answer:
        results = tool_messages(messages)
        if results:
            return say(results[-1].content)
        customer = "Zoe" if "number of the parcel" in messages[0].content else "Ada"
        return call("find_parcel", {"customer": customer})

    async def story() -> None:
        async with opened(clerk(script), customers=["Ada"]) as runtime:
            check = await checked(runtime)
            old, new = check.replays
            assert (old.success, old.diverged, new.success, new.diverged) == (True, 0, False, 1)
            assert new.output is not None
            assert new.output.startswith("This is a rehearsal, and no such call was recorded")
            assert (check.fixed, check.broken, check.diverged) == (0, 1, 1)
            assert new.failure is FailureKind.GOAL_MISSED
            assert looked_up == []

    asyncio.run(story())


def test_the_same_call_again_gets_the_next_result_and_then_the_last_one() -> None:
    count = 0

    @tool(mode="read")
    async def tick() -> int:
        """Count."""
        nonlocal count
        count += 1
        return count

    def script(messages: Sequence[LLMMessage]) -> Answer:
        more = 3 if "number of the parcel" in messages[0].content else 2
        results = tool_messages(messages)
        return say(",".join(one.content for one in results)) if len(results) == more else call("tick")

    async def story() -> None:
        goal = Goal("parcels", criteria=[Exact("1,2,2")])
        async with opened(clerk(script, tools=[tick]), customers=["Ada"]) as runtime:
            check = await checked(runtime, goal=goal)
            assert [one.output for one in check.replays] == ["1,2", "1,2,2"]
            assert check.fixed == 1
            assert count == 2

    asyncio.run(story())


def test_failures_and_refusals_are_repeated_as_they_were() -> None:
    paid: list[int] = []

    @tool(mode="external")
    async def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        return "paid"

    def script(messages: Sequence[LLMMessage]) -> Answer:
        results = tool_messages(messages)
        order = [
            call("find_parcel", {"customer": "Nobody"}),
            call("pay", {"cents": 1}),
            call("pay", {"cents": 2}),
        ]
        if len(results) < len(order):
            return order[len(results)]
        number = "parcel-1 " if "number of the parcel" in messages[0].content else ""
        return say(number + " / ".join(one.content for one in results))

    async def story() -> None:
        async with opened(clerk(script, tools=[find_parcel, pay]), customers=[]) as runtime:
            handle = await runtime.start_run("clerk", "Pay.", run_id="run-1", goal_id="parcels")
            answers = ["deny", "approve"]
            async for event in handle.events():
                if event.type == "run.waiting":
                    [request] = await handle.open_requests()
                    await handle.answer(request.request_id, answers.pop(0))
            result = await handle.wait(timeout=300)
            looked_up.clear()
            paid.clear()
            check = await checked(runtime)
            assert [one.diverged for one in check.replays] == [0, 0]
            assert check.replays[0].output == result.output
            assert "denied" in str(result.output)
            assert str(result.output).endswith("/ paid")
            assert (paid, looked_up) == ([], [])

    asyncio.run(story())


def test_questions_and_subagents_answer_from_the_record() -> None:
    asked: list[str] = []

    def helper_script(messages: Sequence[LLMMessage]) -> Answer:
        asked.append(messages[-1].content)
        return say("parcel-7")

    helper = Agent("helper", model=ScriptedModel(helper_script), description="Knows numbers.")

    def script(messages: Sequence[LLMMessage]) -> Answer:
        results = tool_messages(messages)
        order = [call("ask_question", {"prompt": "Which one?"}), call("helper", {"message": "Which number?"})]
        if len(results) < len(order):
            return order[len(results)]
        return say(results[0].content + results[1].content * ("number of the parcel" in messages[0].content))

    async def story() -> None:
        agent = clerk(script, tools=[ask_question], subagents=[helper])
        async with opened(agent, customers=[]) as runtime:
            handle = await runtime.start_run("clerk", "Where?", run_id="run-1", goal_id="parcels")
            async for event in handle.events():
                if event.type == "run.waiting":
                    [request] = await handle.open_requests()
                    await handle.answer(request.request_id, text="The red one.")
                    break
            await handle.wait(timeout=300)
            assert len(asked) == 1
            check = await checked(runtime)
            assert [one.diverged for one in check.replays] == [0, 0]
            assert check.fixed == 1
            assert "The red one." in str(check.replays[1].output)
            assert len(asked) == 1, "the subagent was asked again"

    asyncio.run(story())


def test_a_later_turn_is_replayed_with_the_messages_before_it() -> None:
    def script(messages: Sequence[LLMMessage]) -> Answer:
        said = [one.content for one in messages if one.role == "user"]
        number = "parcel-1: " if "number of the parcel" in messages[0].content else ""
        return say(number + " | ".join(said))

    async def story() -> None:
        async with opened(clerk(script), customers=[]) as runtime:
            await run(runtime, "I am Ada.", run_id="run-0", session_id="chat")
            await run(runtime, "Where is it?", run_id="run-1", session_id="chat", goal_id="parcels")
            check = await checked(runtime)
            assert [one.output for one in check.replays] == [
                "I am Ada. | Where is it?", "parcel-1: I am Ada. | Where is it?"
            ]  # fmt: skip

    asyncio.run(story())


def test_hooks_are_not_called_and_dynamic_parts_are_refused() -> None:
    seen: list[str] = []

    @hook("after_run_terminal", timeout_ms=30_000)
    async def note(hook_call: HookCall) -> None:
        seen.append(hook_call.run_id)

    async def story() -> None:
        async with opened(clerk(hooks=[note]), customers=["Ada"]) as runtime:
            seen.clear()
            assert (await checked(runtime)).fixed == 1
            assert "replay" not in seen

        async def words(_: object) -> str:
            return "Say where parcels are."

        moving = clerk(instructions=dynamic(words))
        describe: JsonObject = {"part": "tool_description", "target": "find_parcel", "text": "Find it."}
        async with opened(moving, customers=["Ada"]) as runtime:
            with pytest.raises(Rejected, match="dynamic parts"):
                await checked(runtime, describe)

    asyncio.run(story())


def test_a_replay_does_not_call_approval_functions() -> None:
    asked: list[JsonObject] = []

    def needs_consent(arguments: JsonObject) -> bool:
        asked.append(arguments)
        return False

    @tool(mode="read", name="find_parcel", approval=needs_consent)
    async def find_with_consent(customer: str) -> str:
        """Find the parcel of a customer."""
        return f"parcel-{customer}"

    async def story() -> None:
        async with opened(clerk(tools=[find_with_consent]), customers=["Ada"]) as runtime:
            assert asked == [{"customer": "Ada"}]
            asked.clear()
            check = await checked(runtime)
            assert [(one.success, one.diverged) for one in check.replays] == [(False, 0), (True, 0)]
            assert asked == []

    asyncio.run(story())


def test_a_run_near_the_end_of_a_long_session_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    # So few records at once that a session of a few runs is a long one.
    monkeypatch.setattr(codec, "BATCH_RECORDS_MAX", 24)
    monkeypatch.setattr(replaying, "BATCH_RECORDS_MAX", 24)

    async def story() -> None:
        async with opened(clerk(), customers=[]) as runtime:
            for at in range(6):
                more: RunOptions = {"run_id": f"run-{at + 1}", "session_id": "long", "goal_id": "parcels"}
                await run(runtime, f"Where is the parcel of A{at}", **more)
            store = runtime.core.ports.store
            assert store is not None
            assert len(await store.read("long", limit=512)) > 48, "three batches or more"
            check = await checked(runtime, run_ids=["run-6"])
            assert [(one.success, one.diverged) for one in check.replays] == [(False, 0), (True, 0)]

    asyncio.run(story())


def test_data_that_an_agent_must_return_is_scored_as_data() -> None:
    class Parcel(BaseModel):
        number: str

    def script(messages: Sequence[LLMMessage]) -> Answer:
        good = "number of the parcel" in messages[0].content
        return say('{"number": "parcel-1"}' if good else '{"number": ""}')

    async def story() -> None:
        goal = Goal("parcels", criteria=[Exact({"number": "parcel-1"})])
        async with opened(clerk(script, output=Parcel), customers=["Ada"]) as runtime:
            async with builder(runtime, goal=goal) as made:
                assert not (await made.evaluate(goal))["run-1"].is_reached
            check = await checked(runtime, goal=goal)
            assert (check.fixed, check.comparison.new.succeeded) == (1, 1)

    asyncio.run(story())


def test_runs_and_repeats_can_be_chosen_and_have_limits() -> None:
    async def story() -> None:
        async with opened(clerk()) as runtime:
            check = await checked(runtime, run_ids=["run-2"], repeats=3)
            assert [one.run_id for one in check.replays] == ["run-2"] * 6
            assert (check.comparison.old.runs, check.comparison.new.runs, check.fixed) == (1, 1, 1)
            assert check.comparison.new.cost_micros is not None
            assert check.comparison.new.cost_micros.value == 6
            for run_ids in ([], ["ghost"], ["run-1"] * 101):
                with pytest.raises(Rejected):
                    await checked(runtime, run_ids=run_ids)
            for repeats in (0, 21):
                with pytest.raises(Rejected):
                    await checked(runtime, repeats=repeats)

    asyncio.run(story())


@pytest.mark.parametrize(("times", "repeats"), [(1, 20), (20, 1)])
def test_one_run_proves_nothing_however_often_it_is_done_again(times: int, repeats: int) -> None:
    async def story() -> None:
        async with opened(clerk(), customers=["Ada"]) as runtime:
            check = await checked(runtime, run_ids=["run-1"] * times, repeats=repeats)
            assert (check.comparison.old.runs, check.fixed) == (1, 1)
            assert check.comparison.verdict is VersionVerdict.UNCLEAR

    asyncio.run(story())


def test_a_run_counts_with_the_mean_of_its_attempts() -> None:
    answered = 0

    def script(messages: Sequence[LLMMessage]) -> Answer:
        nonlocal answered
        if "number of the parcel" not in messages[0].content or not tool_messages(messages):
            return clerk_script(messages)
        answered += 1
        return say("parcel-1") if answered % 4 else say("It is in Oslo.")

    async def story() -> None:
        async with opened(clerk(script), customers=["Ada", "Bob"]) as runtime:
            check = await checked(runtime, repeats=4)
            assert (check.fixed, check.broken, len(check.replays)) == (2, 0, 16)
            assert check.comparison.success_rate is not None
            assert check.comparison.success_rate.value == 0.75

    asyncio.run(story())


def test_a_run_of_a_recorder_is_replayed_from_its_input() -> None:
    def script(messages: Sequence[LLMMessage]) -> Answer:
        number = "parcel-1 " if "number of the parcel" in messages[0].content else ""
        return say(number + messages[-1].content)

    async def story() -> None:
        async with opened(clerk(script), customers=["Ada"]) as runtime:
            with Runtime(runtime=runtime) as recorder:
                run_id = recorder.start_run("parcels", input_data={"customer": "Bob"})
                recorder.end_run(False)
            check = await checked(runtime, run_ids=[run_id])
            assert [one.output for one in check.replays] == [
                '{"customer":"Bob"}', 'parcel-1 {"customer":"Bob"}'
            ]  # fmt: skip

    asyncio.run(story())


def test_a_call_that_a_rule_forbade_then_has_no_result_when_it_is_allowed() -> None:
    def script(messages: Sequence[LLMMessage]) -> Answer:
        results = tool_messages(messages)
        return say(results[-1].content) if results else call("find_parcel", {"customer": "Ada"})

    async def story() -> None:
        forbidden = PolicySet(rules=(Rule("proposed-allow-find_parcel", "deny", tools=("find_parcel",)),))
        allow: JsonObject = {"part": "policy", "target": "find_parcel", "effect": "allow", "text": "Let it."}
        async with opened(clerk(script, policy=forbidden), customers=["Ada"]) as runtime:
            check = await checked(runtime, allow)
            assert [one.diverged for one in check.replays] == [0, 1]
            assert looked_up == []

    asyncio.run(story())


def test_a_change_that_breaks_successful_runs_gets_the_verdict_worse() -> None:
    def script(messages: Sequence[LLMMessage]) -> Answer:
        if "be brief" in messages[0].content:
            return say("Oslo.")
        return clerk_script(messages)

    async def story() -> None:
        agent = clerk(script, instructions=BETTER)
        async with opened(agent, customers="ABCDEF") as runtime:
            check = await checked(runtime, {"part": "instructions", "text": "Always be brief."})
            assert (check.fixed, check.broken) == (0, 6)
            assert check.comparison.verdict is VersionVerdict.WORSE

    asyncio.run(story())


def test_a_replay_that_takes_too_long_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "REPLAY_TIMEOUT_S", 0.05)

    async def story() -> None:
        gate = asyncio.Event()

        def script(messages: Sequence[LLMMessage]) -> Answer:
            if "number of the parcel" in messages[0].content:
                return Answer("late", gate=gate)
            return clerk_script(messages)

        async with opened(clerk(script), customers=["Ada"]) as runtime:
            check = await checked(runtime)
            assert check.replays[1].failure is FailureKind.TIMEOUT

    asyncio.run(story())


def test_runs_are_chosen_from_the_evidence_failures_and_successes() -> None:
    def script(messages: Sequence[LLMMessage]) -> Answer:
        good = "Good" in [one for one in messages if one.role == "user"][-1].content
        return say("parcel-1" if good else "It")

    async def story() -> None:
        customers = ["Bad", *["Good"] * 12, *["Bad"] * 12]
        async with opened(clerk(script), customers=customers) as runtime, builder(runtime) as made:
            await made.evaluate(GOAL)
            proposal = await made.propose(GOAL)
            check = await made.check(proposal)
            ids = list(dict.fromkeys(one.run_id for one in check.replays))
            assert ids == [
                "run-1", "run-25", "run-13", "run-24", "run-12",
                "run-23", "run-11", "run-22", "run-10", "run-21",
            ]  # fmt: skip

    asyncio.run(story())


def test_a_goal_can_be_given_with_the_check() -> None:
    async def story() -> None:
        async with opened(clerk(), customers=["Ada"]) as runtime:
            async with builder(runtime) as made:
                proposal = await made.propose(GOAL)
            async with Builder("demo/none", runtime=runtime) as other:
                with pytest.raises(Rejected, match="unknown goal: parcels"):
                    await other.check(proposal)
                goal = Goal("parcels", criteria=[Contains("Oslo")])
                assert (await other.check(proposal, goal=goal)).fixed == 0

    asyncio.run(story())
