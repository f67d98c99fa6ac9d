"""Compaction: in time, durable, and keeping the task."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.faults.scene import Scene, agent_of, ends_of, records_of
from tests.faults.test_interruptions import KeptStore
from tests.runtime.engine.compaction_rig import TASK, Guide, is_summary, walk_tool, walker

from windlass import Agent, AgentRuntime, tool
from windlass.agent.package import check_package, compile_package
from windlass.engine.binding import compaction_rule
from windlass.engine.driving.drives import LEFT_MS
from windlass.engine.model_calls import compaction
from windlass.errors import Conflict, Rejected, Unavailable
from windlass.ports.journal import Claim
from windlass.ports.model import LLMMessage, LLMUsage, window_tokens
from windlass.testing import Answer, ScriptedModel, always_replay, call, fail, say
from windlass.tools import Tool
from windlass.tools.context import CompactionContext
from windlass_harness.loop.rules import COMPACTION_THRESHOLD_TOKENS
from windlass_harness.record import Record
from windlass_protocol import CompactionConfig, ErrorInfo, ErrorKind, RetryClass, RunStatus

SMALL = CompactionConfig(threshold=4_000, recent_window_size=10)
Writer = Callable[[Sequence[LLMMessage]], Answer]


class TooLong(Rejected):
    """The context overflow error of a provider."""

    def __init__(self) -> None:
        super().__init__("too long", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.REPAIR_NEEDED)

    def info(self) -> ErrorInfo:
        return super().info().model_copy(update={"details": {"fault": "context_overflow"}})


class WideModel(ScriptedModel):
    """A model that says how much it reads."""

    context_window_tokens = 5_000


def walk_of(
    model: ScriptedModel, *tools: Tool[..., Any], compaction: CompactionConfig | None = SMALL
) -> Agent:
    return Agent("walker", model=model, tools=[*(tools or (walk_tool(),))], compaction=compaction)


async def finish(scene: Scene, agent: Agent, message: str = TASK) -> tuple[RunStatus, list[Record]]:
    """Drive one run to its end."""
    async with scene.runtime([agent]) as runtime:
        handle = await runtime.start_run(agent, message, session_id="s1", run_id="r1")
        result = await handle.wait()
        return result.status, await records_of(scene.store)


def play(agent: Agent, message: str = TASK) -> tuple[RunStatus, list[Record]]:
    return Scene().play(lambda scene: finish(scene, agent, message))


def of(records: Sequence[Record], kind: str) -> list[Record]:
    return [record for record in records if record.type == kind]


# a long walk


@pytest.mark.uncounted
def test_a_walk_of_400_steps_keeps_its_task_and_stays_in_the_window() -> None:
    guide = Guide(400, 8_000)
    status, records = play(walker(guide))
    assert guide.problems == []
    assert status is RunStatus.COMPLETED
    assert len(of(records, "step.completed")) == 401
    completed = of(records, "compaction.completed")
    assert guide.summaries == sum("summary" in one.data for one in completed) > 10
    assert "summary" not in completed[0].data, "shorter results are enough at first, and cost no call"
    assert of(records, "run.completed")[0].data["output"] == "Arrived at stone 400."


@pytest.mark.uncounted
def test_a_runtime_that_forgets_everything_makes_the_same_walk() -> None:
    guide = Guide(40, 6_000)
    with always_replay():
        status, records = play(walker(guide))
    other = Guide(40, 6_000)
    _, same = play(walker(other))
    assert (status, guide.problems) == (RunStatus.COMPLETED, [])
    assert [one.type for one in records] == [one.type for one in same]
    assert guide.summaries > 1


def test_a_compaction_is_planned_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        def note_call(*arguments: Any, **options: Any) -> Any:
            threads.append(threading.get_ident())
            return function(*arguments, **options)

        return note_call

    for name in ("plan", "plan_eviction", "summary_request"):
        monkeypatch.setattr(compaction, name, note(getattr(compaction, name)))

    def mute(messages: Sequence[LLMMessage]) -> Answer:
        return say("") if is_summary(messages) else guide(messages)

    guide = Guide(20, 4_000)
    play(walk_of(ScriptedModel(mute)))
    assert len(threads) > 2
    assert threading.get_ident() not in threads


def test_the_window_of_the_model_is_the_measure_if_the_agent_has_none() -> None:
    guide = Guide(40, 5_000)
    status, _ = play(walk_of(WideModel(guide), compaction=None))
    assert (status, guide.problems) == (RunStatus.COMPLETED, [])
    assert guide.summaries > 1
    assert 3_000 < guide.longest <= 4_500


def test_the_compaction_settings_of_the_agent_override_those_of_the_model() -> None:
    def rule(model: ScriptedModel, config: CompactionConfig | None) -> tuple[int, int | None]:
        agent = walk_of(model, compaction=config)
        made = compaction_rule(compile_package(agent), window_tokens(model), definitions=[])
        return made.threshold, made.limit

    assert rule(WideModel([]), None) == (4_500, 5_000)
    assert rule(WideModel([]), SMALL) == (4_000, 5_000)
    assert rule(ScriptedModel([]), SMALL) == (4_000, 4_000)
    assert rule(ScriptedModel([]), None) == (COMPACTION_THRESHOLD_TOKENS, None)


def test_instructions_and_tools_count() -> None:
    guide = Guide(20, 4_000)
    agent = replace(walker(guide), instructions="i" * 8_000)
    status, _ = play(agent)
    assert status is RunStatus.COMPLETED
    assert guide.problems == []
    bare = Guide(20, 4_000)
    play(walker(bare))
    assert guide.summaries > bare.summaries


# the summary


def test_a_summary_is_asked_for_without_tools_at_temperature_zero_and_charged() -> None:
    def write(messages: Sequence[LLMMessage]) -> Answer:
        usage = LLMUsage(70, 7) if is_summary(messages) else LLMUsage()
        return replace(guide(messages), usage=usage)

    guide, model = Guide(12, 4_000), ScriptedModel(write)
    agent = replace(walk_of(model), temperature=0.7)
    _, records = play(agent)
    asked = [one for one in model.requests if is_summary(one.messages)]
    assert {(one.tools, one.temperature) for one in asked} == {((), 0)}
    assert of(records, "compaction.completed")[0].data["usage"] == {"inputTokens": 70, "outputTokens": 7}
    usage = of(records, "run.completed")[0].data["usage"]
    assert usage == {"inputTokens": 70 * len(asked), "outputTokens": 7 * len(asked)}


def test_the_agent_may_name_another_model_for_its_summaries() -> None:
    guide = Guide(12, 4_000)
    cheap = ScriptedModel(lambda _: say("Up to stone 5."), route_id="cheap", model_id="tiny")
    agent = replace(walker(guide), compaction_model=cheap)
    _, records = play(agent)
    assert guide.summaries == 0
    assert len(cheap.requests) == len(of(records, "compaction.completed")) > 0
    assert {str(one.data["modelId"]) for one in of(records, "compaction.requested")} == {"cheap/tiny"}
    assert {str(one.data["modelId"]) for one in of(records, "compaction.completed")} == {"cheap/tiny"}


def test_a_model_for_summaries_may_be_a_route() -> None:
    async def story() -> tuple[RunStatus, int]:
        cheap = ScriptedModel(lambda _: say("Up to stone 5."))
        agent = replace(walker(Guide(12, 4_000)), compaction_model="cheap/tiny")
        async with AgentRuntime.in_memory([agent], providers={"cheap": cheap}) as runtime:
            result = await (await runtime.start_run(agent, TASK)).wait(timeout=300)
            return result.status, len(cheap.requests)

    status, asked = asyncio.run(story())
    assert status is RunStatus.COMPLETED
    assert asked > 0


def test_a_run_does_not_start_without_the_model_for_its_summaries() -> None:
    async def story() -> None:
        agent = replace(walker(Guide(1, 4_000)), compaction_model="cheap/tiny")
        async with AgentRuntime.in_memory([agent]) as runtime:
            with pytest.raises(Unavailable, match="cheap"):
                await runtime.start_run(agent, TASK)

    asyncio.run(story())
    with pytest.raises(Rejected, match="compaction_model"):
        replace(walker(Guide(1, 4_000)), compaction_model="nonsense")


def test_a_package_with_invalid_compaction_settings_is_refused() -> None:
    package = compile_package(walker(Guide(1, 4_000)))
    route = package.provider_route
    for settings in ({"compaction": {"threshold": -1}}, {"compactionModel": {"routeId": 5}}):
        broken = package.model_copy(
            update={"provider_route": route.model_copy(update={"settings": settings})}
        )
        with pytest.raises(Rejected, match="not valid"):
            check_package(broken)


def failing(guide: Guide, *answers: Answer) -> Writer:
    """A model with these first summaries."""
    left = list(answers)

    def write(messages: Sequence[LLMMessage]) -> Answer:
        return left.pop(0) if left and is_summary(messages) else guide(messages)

    return write


def test_a_summary_that_fails_is_asked_for_again() -> None:
    guide = Guide(20, 4_000)
    bad = [fail(ConnectionError()), say(""), replace(say("x"), finish_reason="refusal")]
    status, records = play(walk_of(ScriptedModel(failing(guide, *bad))))
    assert (status, guide.problems) == (RunStatus.COMPLETED, [])
    failures = of(records, "compaction.failed")
    assert [one.data["code"] for one in failures] == ["provider_failure"] * len(failures)
    assert all("delayMs" in one.data for one in failures[:2])


def test_a_model_that_writes_no_summaries_does_not_stop_a_run_that_fits_without() -> None:
    def write(messages: Sequence[LLMMessage]) -> Answer:
        return fail(ValueError("no")) if is_summary(messages) else guide(messages)

    guide = Guide(14, 4_000)
    status, records = play(walk_of(ScriptedModel(write), compaction=replace_window(SMALL, 2)))
    completed = of(records, "compaction.completed")
    assert completed
    assert all(one.data["trimmedCallIds"] and "summary" not in one.data for one in completed)
    assert status in (RunStatus.COMPLETED, RunStatus.FAILED)
    assert not any("prompt of" in one for one in guide.problems)


def replace_window(config: CompactionConfig, size: int) -> CompactionConfig:
    return config.model_copy(update={"recent_window_size": size})


def test_a_task_that_does_not_fit_fails_clearly() -> None:
    agent = walker(Guide(3, 1_000))
    status, records = play(agent, "x" * 8_000)
    assert status is RunStatus.FAILED
    error: Any = of(records, "run.failed")[0].data["error"]
    assert error["details"]["reason"] == "context_overflow"
    assert "start a new session" in error["message"]
    assert of(records, "compaction.failed")[0].data["code"] == "nothing_to_compact"


# a model that refuses


def refusing(guide: Guide, limit: int) -> Writer:
    """A model with a limited context window that it does not announce."""

    def write(messages: Sequence[LLMMessage]) -> Answer:
        size = sum(len(message.content) for message in messages) // 4
        return fail(TooLong()) if size > limit and not is_summary(messages) else guide(messages)

    return write


def test_a_prompt_that_the_model_refuses_is_compacted_and_sent_again() -> None:
    guide = Guide(60, 100_000)
    status, records = play(walk_of(ScriptedModel(refusing(guide, 6_000)), compaction=None))
    assert (status, guide.problems) == (RunStatus.COMPLETED, [])
    reasons = [one.data["reason"] for one in of(records, "compaction.requested")]
    assert reasons[0] == "overflow"
    assert reasons.count("overflow") == 1, "once refused, it is not tried again"


def test_a_refused_prompt_that_cannot_be_made_shorter_fails_the_run_at_once() -> None:
    model = ScriptedModel([fail(TooLong())])
    status, records = play(agent_of(model), "x" * 4_000)
    assert (status, len(model.requests)) == (RunStatus.FAILED, 1)
    error: Any = of(records, "run.failed")[0].data["error"]
    assert error["details"]["reason"] == "context_overflow"


# pinned messages of tools


def test_on_compaction_of_a_tool_adds_reminders_to_the_history() -> None:
    seen: list[CompactionContext] = []

    async def remind(context: CompactionContext) -> list[str]:
        seen.append(context)
        return [f"your list, number {len(seen)}", " "]

    def broken(_: CompactionContext) -> list[str]:
        raise ValueError("no")

    @tool(mode="read")
    async def other() -> str:
        """Do nothing."""
        return ""

    guide = Guide(30, 4_000)
    kept = replace(walk_tool(), on_compaction=remind)
    model = ScriptedModel(guide)
    status, records = play(walk_of(model, kept, other.with_options(on_compaction=broken)))
    assert (status, guide.problems) == (RunStatus.COMPLETED, [])
    assert len(seen) == len(of(records, "compaction.completed")) > 2
    assert seen[0] == CompactionContext("s1", "r1", agent_id="walker")
    last = model.requests[-1].messages
    assert [one.content for one in last if "your list" in one.content] == [f"your list, number {len(seen)}"]


def test_a_tool_that_takes_too_long_is_not_waited_for() -> None:
    async def never(_: CompactionContext) -> list[str]:
        await asyncio.Event().wait()
        return []

    guide = Guide(12, 4_000)
    status, records = play(walk_of(ScriptedModel(guide), replace(walk_tool(), on_compaction=never)))
    assert status is RunStatus.COMPLETED
    assert of(records, "compaction.completed")


def test_on_compaction_must_be_a_function() -> None:
    with pytest.raises(Rejected, match="on_compaction"):
        tool(walk_tool().function).with_options(on_compaction="no")  # type: ignore[arg-type] # on purpose


# compaction on request


async def settled(scene: Scene) -> list[Record]:
    """Wait until the session is at rest again."""
    await scene.clock.sleep(60)
    return await records_of(scene.store)


def test_an_idle_session_is_compacted_on_request() -> None:
    async def story(scene: Scene) -> list[Record]:
        agent = walker(Guide(8, 20_000))
        async with scene.runtime([agent]) as runtime:
            await (await runtime.start_run(agent, TASK, session_id="s1", run_id="r1")).wait()
            await runtime.sessions.compact("s1")
            return await settled(scene)

    records = Scene().play(story)
    assert [one.type for one in records[-2:]] == ["compaction.requested", "compaction.completed"]
    assert str(records[-1].data["summary"]).startswith("Walked so far, up to stone")
    assert ends_of(records) == ["run.completed"]


def test_a_request_names_the_model_that_writes_summaries() -> None:
    async def story(scene: Scene) -> list[Record]:
        guide = Guide(8, 20_000)
        agent = replace(
            walk_of(ScriptedModel(guide), compaction=None),
            compaction_model=ScriptedModel(guide, model_id="summaries"),
        )
        async with scene.runtime([agent]) as runtime:
            await (await runtime.start_run(agent, TASK, session_id="s1", run_id="r1")).wait()
            await runtime.sessions.compact("s1")
            return await settled(scene)

    (asked,) = of(Scene().play(story), "compaction.requested")
    assert asked.data["modelId"] == "scripted/summaries"


def test_a_run_that_comes_during_a_compaction_waits_for_it() -> None:
    async def story(scene: Scene) -> list[Record]:
        gate = asyncio.Event()
        guide = Guide(8, 20_000)

        def write(messages: Sequence[LLMMessage]) -> Answer:
            return replace(guide(messages), gate=gate if is_summary(messages) else None)

        agent = walk_of(ScriptedModel(write), compaction=None)
        async with scene.runtime([agent]) as runtime:
            await (await runtime.start_run(agent, TASK, session_id="s1", run_id="r1")).wait()
            await runtime.sessions.compact("s1")
            await scene.clock.sleep(1)
            handle = await runtime.start_run(agent, "and on", session_id="s1", run_id="r2")
            await scene.clock.sleep(1)
            before = await records_of(scene.store)
            assert before[-1].type == "compaction.requested"
            gate.set()
            await handle.wait()
            return await records_of(scene.store)

    types = [one.type for one in Scene().play(story)]
    at = types.index("compaction.completed")
    assert types[at + 1] == "run.started"


def test_a_compaction_at_rest_that_fails_is_tried_again() -> None:
    async def story(scene: Scene) -> list[Record]:
        busy = Unavailable(
            "busy", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.RETRYABLE, retry_after_ms=40_000
        )
        agent = walk_of(ScriptedModel(failing(Guide(8, 20_000), fail(busy))), compaction=None)
        async with scene.runtime([agent]) as runtime:
            await (await runtime.start_run(agent, TASK, session_id="s1", run_id="r1")).wait()
            await runtime.sessions.compact("s1")
            return await settled(scene)

    types = [one.type for one in Scene().play(story)]
    assert types[-4:] == [
        "compaction.requested",
        "compaction.failed",
        "compaction.requested",
        "compaction.completed",
    ]


def test_a_run_under_way_is_compacted_at_its_next_step() -> None:
    async def story(scene: Scene) -> list[Record]:
        gate = asyncio.Event()

        @tool(mode="read")
        async def walk(to: int) -> str:
            """Walk, and wait for a word at the sixth stone."""
            if to == 6:
                await gate.wait()
            return f"stone {to}. " + "~" * 2_000

        agent = walk_of(ScriptedModel(Guide(8, 50_000)), walk, compaction=None)
        async with scene.runtime([agent]) as runtime:
            handle = await runtime.start_run(agent, TASK, session_id="s1", run_id="r1")
            await scene.clock.sleep(1)
            await runtime.sessions.compact("s1")
            await scene.clock.sleep(1)
            gate.set()
            assert (await handle.wait()).status is RunStatus.COMPLETED
            return await records_of(scene.store)

    types = [one.type for one in Scene().play(story)]
    at = types.index("compaction.completed")
    assert types[at - 1 : at + 2] == ["action.result", "compaction.completed", "step.started"]
    assert types.index("compaction.requested") < at - 1


def test_a_compaction_that_waits_for_a_run_that_waits_for_people_is_no_crash() -> None:
    @tool(mode="external")
    async def mail() -> str:
        """Send a mail; the default policy asks first."""
        return "sent"

    def write(messages: Sequence[LLMMessage]) -> Answer:
        if is_summary(messages):
            return say("a summary")
        return say("done") if messages[-1].role == "tool" else call("mail") + call("mail")

    async def story(scene: Scene) -> None:
        async with scene.runtime([agent_of(ScriptedModel(write), [mail])]) as runtime:
            handle = await runtime.start_run("shop", TASK, session_id="s1", run_id="r1")
            await scene.clock.sleep(1)
            await runtime.sessions.compact("s1")
            await scene.clock.sleep(1)
            for _ in range(2):
                await handle.answer((await handle.open_requests())[0].request_id, "approve")
                await scene.clock.sleep(1)
            assert (await handle.wait()).status == "completed"
            records = await records_of(scene.store)
        assert "recovery.started" not in [one.type for one in records]
        told = [one.data.get("code") for one in records if one.type == "compaction.failed"]
        assert told == ["handed_over", "nothing_to_compact"]

    Scene().play(story)


def test_compacting_an_unknown_session_is_a_conflict() -> None:
    async def story(scene: Scene) -> None:
        async with scene.runtime([walker(Guide(1, 4_000))]) as runtime:
            with pytest.raises(Conflict, match="unknown session: s1"):
                await runtime.sessions.compact("s1")

    Scene().play(story)


def test_a_process_without_the_agent_leaves_the_compaction_to_others() -> None:
    async def story(scene: Scene) -> list[Record]:
        inner = scene.store
        scene.store = KeptStore(inner)
        agent, stranger = walker(Guide(8, 20_000)), Agent("stranger", model=ScriptedModel([]))
        await finish(scene, agent)
        async with scene.runtime([stranger]) as runtime:
            await runtime.sessions.compact("s1")
            assert not of(await settled(scene), "compaction.requested")
        async with scene.runtime([agent]):
            return await settled(scene)

    assert Scene().play(story)[-1].type == "compaction.completed"


def test_a_process_without_the_agent_does_not_look_at_a_wanted_compaction_again_and_again() -> None:
    class Counting(KeptStore):
        claims = 0

        async def claim(self, session_id: str, owner_id: str, *, now_ms: int) -> Claim:
            self.claims += 1
            return await super().claim(session_id, owner_id, now_ms=now_ms)

    async def story(scene: Scene) -> int:
        scene.store = counting = Counting(scene.store)
        agent, stranger = walker(Guide(8, 20_000)), Agent("stranger", model=ScriptedModel([]))
        await finish(scene, agent)
        async with scene.runtime([stranger]) as runtime:
            before = counting.claims
            await runtime.sessions.compact("s1")
            await scene.clock.sleep(LEFT_MS / 1_000 - 5)
            return counting.claims - before

    assert Scene().play(story) == 1


# redeploys


def test_a_session_survives_any_number_of_orderly_redeploys_in_one_compaction() -> None:
    async def story(scene: Scene) -> tuple[RunStatus, list[str]]:
        inner = scene.store
        scene.store = KeptStore(inner)

        def stuck() -> Agent:
            guide = Guide(12, 4_000)
            held = replace(say("never"), gate=asyncio.Event())
            return walk_of(ScriptedModel(failing(guide, held)))

        agent = stuck()
        async with scene.runtime([agent]) as runtime:
            await runtime.start_run(agent, TASK, session_id="s1", run_id="r1")
            await scene.clock.sleep(5)
        for _ in range(12):
            async with scene.runtime([stuck()]):
                await scene.clock.sleep(5)
        async with scene.runtime([walker(Guide(12, 4_000))]) as runtime:
            result = await runtime.handle("r1").wait(timeout=300)
        failures = of(await records_of(inner), "compaction.failed")
        return result.status, [str(one.data["code"]) for one in failures]

    status, codes = Scene().play(story)
    assert status is RunStatus.COMPLETED
    assert codes == ["handed_over"] * 13


def test_a_run_is_cancelled_in_the_middle_of_a_compaction() -> None:
    async def story(scene: Scene) -> tuple[RunStatus, list[Record]]:
        held = replace(say("never"), gate=asyncio.Event())
        agent = walk_of(ScriptedModel(failing(Guide(12, 4_000), held)))
        async with scene.runtime([agent]) as runtime:
            handle = await runtime.start_run(agent, TASK, session_id="s1", run_id="r1")
            await scene.clock.sleep(5)
            await runtime.cancel_run("r1")
            result = await handle.wait()
            other = await runtime.start_run(agent, "on", session_id="s1", run_id="r2")
            await other.wait()
            return result.status, await records_of(scene.store)

    status, records = Scene().play(story)
    assert status is RunStatus.CANCELLED
    assert of(records, "compaction.completed"), "the next run does what is left to do"


def test_secrets_stay_out_of_summaries() -> None:
    async def story() -> list[Any]:
        secret = "hunter2-hunter2-hunter2"
        guide = Guide(12, 4_000)

        def write(messages: Sequence[LLMMessage]) -> Answer:
            return say(f"stone 5, {secret}") if is_summary(messages) else guide(messages)

        agent = walk_of(ScriptedModel(write))
        async with AgentRuntime.in_memory([agent], secrets=[secret]) as runtime:
            handle = await runtime.start_run(agent, TASK)
            return [event.data async for event in handle.events()]

    assert "hunter2" not in str(asyncio.run(story()))


def test_a_provider_may_break_off_a_summary_by_itself() -> None:
    guide = Guide(12, 4_000)
    broken = fail(asyncio.CancelledError())
    status, records = play(walk_of(ScriptedModel(failing(guide, broken))))
    assert status is RunStatus.COMPLETED
    assert "cancelled its summary itself" in str(of(records, "compaction.failed")[0].data["message"])


def test_a_call_in_a_summary_is_not_made() -> None:
    guide = Guide(12, 4_000)
    status, records = play(walk_of(ScriptedModel(failing(guide, say("stone 3") + call("walk", {"to": 99})))))
    assert status is RunStatus.COMPLETED
    assert not any("99" in str(one.data) for one in of(records, "actions.requested"))


def test_a_message_during_a_compaction_starts_a_run_after_it() -> None:
    async def story(scene: Scene) -> list[Record]:
        gate, guide = asyncio.Event(), Guide(8, 20_000)

        def write(messages: Sequence[LLMMessage]) -> Answer:
            return replace(guide(messages), gate=gate if is_summary(messages) else None)

        agent = walk_of(ScriptedModel(write), compaction=None)
        async with scene.runtime([agent]) as runtime:
            await (await runtime.start_run(agent, TASK, session_id="s1", run_id="r1")).wait()
            await runtime.sessions.compact("s1")
            await scene.clock.sleep(1)
            await runtime.steer(agent, "and then?", session_id="s1")
            await scene.clock.sleep(1)
            gate.set()
            return await settled(scene)

    records = Scene().play(story)
    types = [one.type for one in records]
    assert types[types.index("compaction.completed") + 1] == "run.started"
    assert records[-1].type != "compaction.completed"
    assert any(one.data["message"] == "and then?" for one in of(records, "message.received"))
