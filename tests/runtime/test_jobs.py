"""Work in the background: tools and subagents that a run does not wait for."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from tests.runtime.runtime_rig import play, until

from windlass import Agent, AgentRuntime, Approval, Rejected, ToolContext, ToolFailed, tool
from windlass.agent import Background
from windlass.parts import Machine
from windlass.testing import (
    Answer,
    FakeClock,
    ScriptedModel,
    by_history,
    call,
    crash_everywhere,
    fail,
    run_in_fake_time,
    say,
    seeded_random,
    sequential_ids,
)
from windlass.toolbox import wake_me_tool
from windlass.tools import Tool, UndoCall
from windlass_harness.budget import Budget
from windlass_protocol import ErrorKind, InputKind, InputRequest, InputResponse, RetryClass, RunStatus

JsonObject = dict[str, Any]
Open = Callable[..., AbstractAsyncContextManager[AgentRuntime]]


@pytest.fixture(params=["memory", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens a runtime of each kind."""

    @asynccontextmanager
    async def open_one(agents: Sequence[Agent], **options: Any) -> AsyncGenerator[AgentRuntime]:
        if request.param == "memory":
            runtime = AgentRuntime.in_memory(agents, **options)
        else:
            runtime = await AgentRuntime.open(tmp_path / "app.db", agents=agents, **options)
        async with runtime:
            yield runtime

    return open_one


def model(*answers: Answer) -> ScriptedModel:
    return ScriptedModel(by_history(answers))


def texts(agent: Agent) -> list[str]:
    """The contents of the messages of the last request of an agent's model."""
    assert isinstance(agent.model, ScriptedModel)
    return [message.content for message in agent.model.requests[-1].messages]


async def runs_of(runtime: AgentRuntime, session_id: str) -> list[str]:
    return [run.run_id for run in (await runtime.sessions.runs(session_id=session_id)).items]


class Door:
    """A tool in the background that ends when the test opens it."""

    def __init__(self, *, answer: str = "12 pages") -> None:
        self.open = asyncio.Event()
        self.made: list[str] = []

        @tool(mode="safe_write", effect="idempotent", background=True)
        async def crawl(site: str, ctx: ToolContext) -> str:
            """Read a site."""
            await self.open.wait()
            self.made.append(ctx.idempotency_key)
            return answer

        self.tool: Tool[..., object] = crawl


NO_KEY = Rejected("no key", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.NOT_RETRYABLE)
CRAWL = call("crawl", {"site": "example.org"})


def test_a_call_in_the_background_is_answered_at_once_and_its_result_joins_the_run(opened: Open) -> None:
    async def story() -> None:
        door = Door()
        agent = Agent(
            "lead", model=model(CRAWL, call("wait_for_job", {"job": "job_1"}), say("12")), tools=[door.tool]
        )
        async with opened([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await until(handle, "run.waiting")
            door.open.set()
            assert (await handle.wait(timeout=300)).output == "12"
            said = texts(agent)
            assert '"status":"running"' in said[2]
            assert '"status":"completed"' in said[4]
            assert said[5] == "Job job_1 (crawl) has completed. Its result:\n12 pages"
            assert len(door.made) == 1
            types = [event.type async for event in handle.events()]
            assert types.count("subagent.called") == types.count("subagent.completed") == 1

    play(story())


def test_a_result_that_arrives_later_begins_a_turn_of_the_session(opened: Open) -> None:
    async def story() -> None:
        door = Door()
        agent = Agent(
            "lead", model=model(CRAWL, say("It is under way."), say("It has 12 pages.")), tools=[door.tool]
        )
        async with opened([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            assert (await handle.wait(timeout=300)).output == "It is under way."
            door.open.set()
            later = runtime.handle("after:subagent:r1/0/call-1")
            await has_run(runtime, later.run_id)
            assert (await later.wait(timeout=300)).output == "It has 12 pages."
            assert await later.session_id() == "s1"
            assert texts(agent)[-2:] == [
                "Job job_1 (crawl) has ended.",
                "Job job_1 (crawl) has completed. Its result:\n12 pages",
            ]

    play(story())


async def has_run(runtime: AgentRuntime, run_id: str) -> None:
    """Return once a run exists."""
    async for event in runtime.sessions.subscribe("s1"):
        if event.type == "run.started" and event.run_id == run_id:
            return


def test_a_run_that_waits_for_its_jobs_ends_after_them(opened: Open) -> None:
    async def story() -> None:
        door = Door()
        agent = Agent(
            "lead",
            model=model(CRAWL + CRAWL, say("Under way."), say("Both are read.")),
            tools=[door.tool],
            wait_for_jobs=True,
        )
        async with opened([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await until(handle, "run.waiting")
            door.open.set()
            assert (await handle.wait(timeout=300)).status is RunStatus.COMPLETED
            assert len(set(door.made)) == 2
            brought = [
                event.data["job"] async for event in handle.events() if event.data.get("delivery") == "job"
            ]
            assert sorted(map(str, brought)) == ["job_1", "job_2"]

    play(story())


def test_a_subagent_in_the_background_hears_messages_and_reports(opened: Open) -> None:
    async def story() -> None:
        started, go_on = asyncio.Event(), asyncio.Event()

        @tool(mode="read")
        async def look() -> str:
            """Look."""
            started.set()
            await go_on.wait()
            return "a map"

        researcher = Agent(
            "researcher", model=model(call("look", {}), say("The north is empty.")), tools=[look]
        )
        script = (
            call("researcher", {"message": "What is there?"}),
            call("message_job", {"job": "job_1", "message": "Only the north."}),
            call("wait_for_job", {"job": "job_1"}),
            say("Nothing."),
        )
        lead = Agent("lead", model=model(*script), subagents=[Background(researcher)])
        async with opened([lead]) as runtime:
            handle = await runtime.start_run(lead, "go", session_id="s1", run_id="r1")
            await started.wait()
            await until(handle, "run.waiting")
            go_on.set()
            assert (await handle.wait(timeout=300)).output == "Nothing."
            assert "Only the north." in texts(researcher)
            assert texts(lead)[-1] == "Job job_1 (researcher) has completed. Its result:\nThe north is empty."

    play(story())


def test_an_approval_of_a_job_does_not_hold_up_the_run(opened: Open) -> None:
    async def story() -> None:
        sent: list[str] = []

        @tool(mode="external", effect="idempotent", background=True)
        async def mail(to: str) -> str:
            """Send a mail."""
            sent.append(to)
            return "sent"

        agent = Agent(
            "lead",
            model=model(call("mail", {"to": "ann"}), say("Asked."), say("Sent.")),
            tools=[mail],
            wait_for_jobs=True,
        )
        async with opened([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            async for request in handle.requests():
                assert isinstance(request, Approval)
                assert not sent
                assert isinstance(agent.model, ScriptedModel)
                await request.approve(by="bob")
            assert (await handle.wait(timeout=300)).output == "Sent."
            assert sent == ["ann"]

    play(story())


def test_a_job_that_fails_tells_the_model_why(opened: Open) -> None:
    async def story() -> None:
        @tool(mode="read", background=True)
        async def crawl(site: str) -> str:
            """Read a site."""
            raise ToolFailed(f"{site} is down")

        agent = Agent(
            "lead",
            model=model(CRAWL, say("Under way."), say("It is down.")),
            tools=[crawl],
            wait_for_jobs=True,
        )
        async with opened([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            assert (await handle.wait(timeout=300)).output == "It is down."
            assert texts(agent)[-1] == "Job job_1 (crawl) has no result: example.org is down"

    play(story())


def test_cancel_of_a_run_reaches_its_jobs_and_begins_no_turn(opened: Open) -> None:
    async def story() -> None:
        door = Door()
        agent = Agent(
            "lead", model=model(CRAWL, say("Under way."), say("never")), tools=[door.tool], wait_for_jobs=True
        )
        async with opened([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await until(handle, "run.waiting")
            await handle.cancel()
            assert (await handle.wait(timeout=300)).status is RunStatus.CANCELLED
            job = runtime.handle("subagent:r1/0/call-1")
            assert (await job.wait(timeout=300)).status is RunStatus.CANCELLED
            async for event in runtime.sessions.subscribe("s1"):
                if event.type == "subagent.completed":
                    break
            assert await runs_of(runtime, "s1") == ["r1"]
            assert not door.made

    play(story())


def test_a_model_lists_and_cancels_its_jobs(opened: Open) -> None:
    async def story() -> None:
        door = Door()
        script = (
            CRAWL,
            call("list_jobs", {}),
            call("cancel_job", {"job": "job_1"}) + call("cancel_job", {"job": "job_9"}),
            call("wait_for_job", {"job": "job_1"}),
            say("Cancelled."),
        )
        agent = Agent("lead", model=model(*script), tools=[door.tool])
        async with opened([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            assert (await handle.wait(timeout=300)).output == "Cancelled."
            said = "\n".join(texts(agent))
            assert '"name":"crawl","status":"running"' in said
            assert "There is no job job_9; list_jobs lists them." in said
            assert '"status":"cancelled"' in said
            assert texts(agent)[-1].startswith("Job job_1 (crawl) has no result:")

    play(story())


def test_a_message_of_a_person_does_not_wait_for_jobs(opened: Open) -> None:
    async def story() -> None:
        door = Door()
        agent = Agent(
            "lead", model=model(CRAWL, say("Under way."), say("Still."), say("12 pages.")), tools=[door.tool]
        )
        async with opened([agent]) as runtime:
            first = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await first.wait(timeout=300)
            second = await runtime.start_run(agent, "And?", session_id="s1", run_id="r2")
            assert (await second.wait(timeout=300)).output == "Still."
            door.open.set()
            await has_run(runtime, "after:subagent:r1/0/call-1")
            assert (
                await runtime.handle("after:subagent:r1/0/call-1").wait(timeout=300)
            ).output == "12 pages."

    play(story())


def test_a_turn_that_a_job_began_can_be_retried(opened: Open) -> None:
    async def story() -> None:
        door = Door()
        script = (CRAWL, say("Under way."), fail(NO_KEY), say("12 pages."))
        agent = Agent("lead", model=ScriptedModel(script), tools=[door.tool])
        async with opened([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await handle.wait(timeout=300)
            door.open.set()
            later = runtime.handle("after:subagent:r1/0/call-1")
            await has_run(runtime, later.run_id)
            assert (await later.wait(timeout=300)).status is RunStatus.FAILED
            assert (await (await later.retry()).wait(timeout=300)).output == "12 pages."

    play(story())


def test_wake_me_begins_a_turn_later(tmp_path: Path) -> None:
    clock = FakeClock()
    began_at = clock.now()

    async def story() -> None:
        script = (
            call("wake_me", {"after_seconds": 600, "note": "Look at the oven."}),
            say("Good night."),
            say("It is done."),
        )
        agent = Agent("cook", model=model(*script), tools=[wake_me_tool()])
        machine = Machine(clock, sequential_ids(), seeded_random(1))
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent], machine=machine) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            assert (await handle.wait()).output == "Good night."
            await has_run(runtime, "after:subagent:r1/0/call-1")
            assert (await runtime.handle("after:subagent:r1/0/call-1").wait()).output == "It is done."
            assert texts(agent)[-1] == "Job job_1 (wake_me) has completed. Its result:\nLook at the oven."
            assert clock.now() - began_at >= timedelta(minutes=10)

    run_in_fake_time(story(), clock=clock)


@pytest.mark.slow
def test_crashes_anywhere_lose_no_job_and_double_none() -> None:
    keys: set[str] = set()

    @tool(mode="safe_write", effect="idempotent", background=True)
    async def crawl(site: str, ctx: ToolContext) -> str:
        """Read a site."""
        keys.add(ctx.idempotency_key)
        return f"{site} has 12 pages"

    reader = Agent("reader", model=model(say("It is tea.")))
    script = (
        CRAWL + CRAWL + call("reader", {"message": "What is it?"}),
        say("Under way."),
        say("a"),
        say("b"),
        say("c"),
    )
    agent = Agent(
        "lead", model=model(*script), tools=[crawl], subagents=[Background(reader)], wait_for_jobs=True
    )
    crashes = 0
    for crash in crash_everywhere(agent, "go"):
        assert crash.result.status is RunStatus.COMPLETED, crash
        assert len(keys) == 2, crash
        keys.clear()
        crashes += 1
    assert crashes > 50


def test_undo_of_a_job_reverses_its_call(opened: Open) -> None:
    async def story() -> None:
        undone: list[JsonValue] = []

        async def give_back(call: UndoCall) -> None:
            undone.append(call.arguments["what"])

        @tool(mode="safe_write", effect="idempotent", undo=give_back, background=True)
        async def book(what: str) -> str:
            """Book."""
            return what

        agent = Agent(
            "lead",
            model=model(call("book", {"what": "hotel"}), say("..."), say("Booked.")),
            tools=[book],
            wait_for_jobs=True,
        )
        async with opened([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await handle.wait(timeout=300)
            (made,) = (await handle.undo_plan()).calls
            job = runtime.handle(str(made.child_run_id))
            await (await job.undo()).wait(timeout=300)
            assert undone == ["hotel"]

    play(story())


def test_jobs_share_the_budget_of_the_run(opened: Open) -> None:
    async def story() -> None:
        researcher = Agent("researcher", model=model(say("ok")))
        script = (call("researcher", {"message": "a"}), say("Under way."), say("Done."))
        lead = Agent(
            "lead",
            model=model(*script),
            subagents=[Background(researcher)],
            wait_for_jobs=True,
            budget=Budget(max_steps=6),
        )
        async with opened([lead]) as runtime:
            handle = await runtime.start_run(lead, "go", session_id="s1", run_id="r1")
            await handle.wait(timeout=300)
            (called,) = [event.data async for event in handle.events() if event.type == "subagent.called"]
            assert called["job"] == "job_1"
            lent = called["lent"]
            assert isinstance(lent, dict)
            assert lent["maxSteps"] == 5

    play(story())


def test_background_is_refused_where_it_is_no_flag() -> None:
    with pytest.raises(Rejected, match="background must be True or False"):
        tool(background="yes", name="crawl")(lambda: None)  # type: ignore[typeddict-item]


@pytest.mark.slow
def test_a_job_that_must_happen_once_asks_after_a_crash_and_is_not_repeated() -> None:
    made: list[str] = []

    @tool(mode="safe_write", effect="once", background=True)
    async def pay(order: str, ctx: ToolContext) -> str:
        """Pay an order."""
        made.append(ctx.idempotency_key)
        return "paid"

    def skip(request: InputRequest) -> InputResponse:
        assert request.kind is InputKind.RECOVERY
        return InputResponse(request_id=request.request_id, option_id="skip")

    script = (call("pay", {"order": "lamp"}), say("Under way."), say("Paid, or not."))
    agent = Agent("lead", model=model(*script), tools=[pay], wait_for_jobs=True)
    for crash in crash_everywhere(agent, "go", answer=skip):
        # The first answer is the last one if the job ended before it.
        assert crash.result.output in ("Under way.", "Paid, or not."), crash
        assert len(made) <= 1, crash
        made.clear()
