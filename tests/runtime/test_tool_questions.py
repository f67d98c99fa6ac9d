"""`ctx.ask`: a tool asks a person, and is run again with the answer. `ctx.log`: lines of a call."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.runtime.runtime_rig import play, until

from windlass import Agent, AgentRuntime, Question, Rejected, ToolContext, ToolFailed, tool
from windlass.errors import Denied
from windlass.limits import (
    LOG_LINE_CHARS_MAX,
    LOG_LINES_MAX,
    OPTION_CHARS_MAX,
    OPTIONS_MAX,
    QUESTION_CHARS_MAX,
)
from windlass.runtime.handle import RunHandle
from windlass.testing import ScriptedModel, by_history, call, crash_everywhere, say
from windlass.testing.interpreter import WaveInterpreter, waves
from windlass.tools import EffectName, Tool, Unanswered
from windlass_protocol import Event, InputKind, InputRequest, InputResponse, RunStatus

SEATS = ("window", "aisle")


class Booking:
    """A tool that asks twice and then books; it counts how often each part ran."""

    def __init__(self, effect: EffectName = "idempotent") -> None:
        self.ran: Counter[str] = Counter()
        self.keys: set[str] = set()

        @tool(mode="safe_write", effect=effect)
        async def book(city: str, ctx: ToolContext) -> str:
            """Book a trip."""
            self.ran["begun"] += 1
            seat = await ctx.ask(f"Which seat to {city}?", options=SEATS)
            name = await ctx.ask("Under which name?")
            self.ran["booked"] += 1
            self.keys.add(ctx.idempotency_key)
            return f"{seat} for {name}"

        self.tool: Tool[..., object] = book
        model = ScriptedModel(by_history([call("book", {"city": "Oslo"}), say("done")]))
        self.agent = Agent("desk", model=model, tools=[book])


async def open_question(handle: RunHandle[str]) -> InputRequest:
    (request,) = await handle.open_requests()
    return request


async def answer_all(handle: RunHandle[str], *texts: str) -> None:
    given = iter(texts)
    async for request in handle.requests():
        assert isinstance(request, Question)
        await request.reply(next(given))


async def played(agent: Agent, *texts: str) -> tuple[JsonValue, list[Event]]:
    """Run an agent, answer its questions; return the result of its only call, and all events."""
    async with AgentRuntime.in_memory([agent]) as runtime:
        handle = await runtime.start_run(agent, "go", run_id="r1")
        await answer_all(handle, *texts)
        events = [event async for event in handle.events()]
        (ended,) = [
            one.data for one in events if one.type == "action.result" and "parentCallId" not in one.data
        ]
        result = ended["result"]
        assert isinstance(result, dict)
        return ended.get("error") or result["output"], events


def asking(function: Tool[..., object]) -> Agent:
    return Agent(
        "desk", model=ScriptedModel(by_history([call(function.name, {}), say("done")])), tools=[function]
    )


def test_a_question_of_a_tool_waits_over_restarts_and_its_answers_go_into_the_next_attempts(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        booking = Booking("once")
        async with AgentRuntime.open(tmp_path / "app.db", agents=[booking.agent]) as runtime:
            handle = await runtime.start_run(booking.agent, "go", session_id="s1", run_id="r1")
            await until(handle, "run.waiting")
            request = await open_question(handle)
            assert (request.prompt, request.kind) == ("Which seat to Oslo?", InputKind.QUESTION)
            assert [one.id for one in request.options or ()] == [*SEATS]
            assert booking.ran == {"begun": 1}
            await handle.answer(request.request_id, "aisle")
            async for event in handle.events():
                if event.type == "run.waiting" and event.data["requestIds"] != [request.request_id]:
                    break
        again = Booking("once")
        async with AgentRuntime.open(tmp_path / "app.db", agents=[again.agent]) as runtime:
            handle = runtime.handle("r1")
            request = await open_question(handle)
            assert (request.prompt, request.allow_freeform) == ("Under which name?", True)
            await handle.answer(request.request_id, text="Ann")
            assert (await handle.wait(timeout=300)).output == "done"
            events = [event async for event in handle.events()]
        assert again.ran == {"begun": 1, "booked": 1}
        assert isinstance(again.agent.model, ScriptedModel)
        assert again.agent.model.requests[-1].messages[-1].content == "aisle for Ann"
        kinds = [event.type for event in events]
        assert "recovery.started" not in kinds, "a tool that waits for an answer cannot be interrupted"
        assert (kinds.count("program.paused"), kinds.count("action.started")) == (2, 3)

    play(story())


@pytest.mark.slow
def test_crashes_anywhere_lose_no_answer_and_ask_no_question_twice() -> None:
    booking = Booking()
    asked: list[str] = []
    given: set[str] = set()

    def answer(request: InputRequest) -> InputResponse:
        asked.append(request.request_id)
        assert request.kind is InputKind.QUESTION
        given.add(request.request_id)
        if request.options:
            return InputResponse(request_id=request.request_id, option_id="window")
        return InputResponse(request_id=request.request_id, text="Ann")

    for crash in crash_everywhere(booking.agent, "go", answer=answer):
        assert crash.result.output == "done", crash
        assert len(booking.keys) == 1, crash
        assert len(given) == 2, crash
        booking.keys.clear()
        given.clear()


@pytest.mark.slow
def test_an_interrupted_tool_that_must_happen_once_keeps_the_answers_for_its_retry() -> None:
    booking = Booking("once")
    recovered: list[int] = []

    def answer(request: InputRequest) -> InputResponse:
        if request.kind is InputKind.RECOVERY:
            recovered.append(booking.ran["booked"])
            return InputResponse(request_id=request.request_id, option_id="retry")
        text = "aisle" if request.options else "Ann"
        return InputResponse(request_id=request.request_id, text=text)

    for crash in crash_everywhere(booking.agent, "go", answer=answer):
        assert crash.result.output == "done", crash
    assert len(recovered) > 2


def test_questions_that_are_asked_together_are_open_together() -> None:
    @tool(mode="read")
    async def plan(ctx: ToolContext) -> list[str]:
        return list(await asyncio.gather(ctx.ask("From?"), ctx.ask("To?")))

    async def story() -> None:
        agent = asking(plan)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go")
            await until(handle, "run.waiting")
            first, second = await handle.open_requests()
            assert (first.prompt, second.prompt) == ("From?", "To?")
            await handle.answer(second.request_id, text="Rome")
            await handle.answer(first.request_id, text="Oslo")
            await handle.wait(timeout=300)
        assert isinstance(agent.model, ScriptedModel)
        assert agent.model.requests[-1].messages[-1].content == '["Oslo","Rome"]'

    play(story())


def test_the_call_of_a_tool_that_swallows_the_suspension_waits_too() -> None:
    @tool(mode="read")
    async def stubborn(ctx: ToolContext) -> str:
        try:
            return await ctx.ask("Sure?")
        except BaseException:  # noqa: BLE001 - what a tool may do
            return "not sure"

    assert play(played(asking(stubborn), "yes"))[0] == "yes"


def test_a_tool_that_asks_another_question_the_second_time_fails_and_says_why() -> None:
    count = Counter[str]()

    @tool(mode="read")
    async def fickle(ctx: ToolContext) -> str:
        count["runs"] += 1
        return await ctx.ask(f"Question {count['runs']}?")

    error, _ = play(played(asking(fickle), "yes"))
    assert isinstance(error, dict)
    assert error["code"] == "diverged"
    assert "its wait 1 is not the one of before" in str(error["message"])


def test_only_the_named_people_may_answer() -> None:
    @tool(mode="read")
    async def check(ctx: ToolContext) -> str:
        return await ctx.ask("Is it paid?", options=["yes", "no"], of="bob")

    async def story() -> None:
        agent = asking(check)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go")
            async for request in handle.requests():
                assert isinstance(request, Question)
                assert request.data.responders == ("bob",)
                with pytest.raises(Denied):
                    await request.choose("yes", by="ann")
                with pytest.raises(Rejected):
                    await request.reply("perhaps", by="bob")
                assert await request.choose("yes", by="bob")
            assert (await handle.wait(timeout=300)).output == "done"

    play(story())


def test_a_question_that_a_message_passes_over_raises_in_the_tool() -> None:
    @tool(mode="read")
    async def check(ctx: ToolContext) -> str:
        try:
            return await ctx.ask("Is it paid?")
        except Unanswered as error:
            return error.message

    async def story() -> None:
        agent = asking(check)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1")
            await until(handle, "run.waiting")
            await runtime.steer(agent, "never mind", session_id="s1")
            await handle.wait(timeout=300)
        assert isinstance(agent.model, ScriptedModel)
        told = [message.content for message in agent.model.requests[-1].messages]
        assert "The question was not answered (ignored)." in told

    play(story())


def test_a_tool_cannot_ask_where_no_person_can_be_asked() -> None:
    @tool(mode="read")
    async def check(ctx: ToolContext) -> str:
        return await ctx.ask("Is it paid?")

    async def story() -> None:
        agent = asking(check)
        result = await agent.run("go")
        assert result.output == "done"
        assert isinstance(agent.model, ScriptedModel)
        assert "no person can be asked in this run" in agent.model.requests[-1].messages[-1].content
        with pytest.raises(ToolFailed, match="Only a tool that an agent calls"):
            await ToolContext("s", "r", "c").ask("Is it paid?")

    play(story())


@pytest.mark.parametrize(
    ("prompt", "options", "of", "told"),
    [
        ("", [], None, "must have 1 to 4,000 characters, found 0"),
        ("x" * (QUESTION_CHARS_MAX + 1), [], None, "found 4,001"),
        ("x", [str(n) for n in range(OPTIONS_MAX + 1)], None, "up to 16 options"),
        ("x", ["y" * (OPTION_CHARS_MAX + 1)], None, "of 1 to 200 characters"),
        ("x", ["a", "a"], None, "two options of the question are equal"),
        (5, [], None, "ask takes the question as a text"),
        ("x", "ab", None, "ask takes the question as a text"),
        ("x", [], [], "of must be the name of a person"),
        ("x", [], 5, "of must be the name of a person"),
    ],
)
def test_an_invalid_question_is_an_error_of_the_tool(
    prompt: str, options: Sequence[str], of: str, told: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        play(ToolContext("s", "r", "c").ask(prompt, options=options, of=of))


def test_the_policy_decides_again_before_a_tool_goes_on_with_an_answer() -> None:
    booking = Booking()

    _, events = play(played(booking.agent, "aisle", "Ann"))
    assert [one.type for one in events].count("policy.decided") == 3


def test_an_approval_holds_for_the_attempts_after_an_answer() -> None:
    @tool(mode="external")
    async def pay(ctx: ToolContext) -> str:
        return await ctx.ask("From which account?")

    async def story() -> None:
        agent = asking(pay)
        kinds: list[object] = []
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go")
            async for request in handle.requests():
                kinds.append(request.data.kind)
                if isinstance(request, Question):
                    await request.reply("savings")
                else:
                    await handle.answer(request.request_id, "approve")
            assert (await handle.wait(timeout=300)).output == "done"
        assert kinds == [InputKind.APPROVAL, InputKind.QUESTION]

    play(story())


def test_a_run_that_is_cancelled_while_a_tool_waits_closes_the_question() -> None:
    booking = Booking()

    async def story() -> None:
        async with AgentRuntime.in_memory([booking.agent]) as runtime:
            handle = await runtime.start_run(booking.agent, "go")
            await until(handle, "run.waiting")
            await handle.cancel()
            assert (await handle.wait(timeout=300)).status is RunStatus.CANCELLED
            assert await handle.open_requests() == ()

    play(story())


def test_a_tool_that_a_program_calls_can_ask() -> None:
    @tool(mode="read")
    async def name(ctx: ToolContext) -> str:
        """Ask for a name."""
        return await ctx.ask("Who?")

    async def story() -> None:
        script = [call("run_code", {"code": waves([("name", {})])}), say("done")]
        agent = Agent("desk", model=ScriptedModel(by_history(script)), tools=[name], code_mode=True)
        async with AgentRuntime.in_memory([agent], interpreter=WaveInterpreter()) as runtime:
            handle = await runtime.start_run(agent, "go")
            await answer_all(handle, "Ann")
            assert (await handle.wait(timeout=300)).output == "done"
        assert isinstance(agent.model, ScriptedModel)
        assert "Ann" in agent.model.requests[-1].messages[-1].content

    play(story())


def test_lines_that_a_tool_logs_are_shown_at_once_and_kept_with_its_result() -> None:
    @tool(mode="read")
    async def check(ctx: ToolContext) -> str:
        ctx.log("password=hunter2-hunter2")
        ctx.log("x" * (LOG_LINE_CHARS_MAX + 1))
        return "fine"

    _, events = play(played(asking(check)))
    (result,) = [one.data for one in events if one.type == "action.result"]
    log = result["log"]
    assert isinstance(log, list)
    assert "hunter2" not in str(log)
    assert len(str(log[1])) == LOG_LINE_CHARS_MAX


def test_too_many_lines_end_with_a_line_that_says_so() -> None:
    @tool(mode="read")
    async def check(ctx: ToolContext) -> str:
        for number in range(LOG_LINES_MAX + 2):
            ctx.log(f"line {number}")
        return "fine"

    _, events = play(played(asking(check)))
    (result,) = [one.data for one in events if one.type == "action.result"]
    log = result["log"]
    assert isinstance(log, list)
    assert len(log) == LOG_LINES_MAX + 1
    assert log[-1] == "(100 lines are kept; the rest is dropped)"
