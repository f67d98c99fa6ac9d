"""Undo: the calls of a run are reversed, newest first, each once, as calls of a run of their own."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.runtime.runtime_rig import play

from windlass import (
    Agent,
    AgentRuntime,
    Approval,
    Budget,
    Interrupted,
    Rejected,
    RunHandle,
    ToolContext,
    ToolFailed,
    tool,
)
from windlass.errors import Conflict
from windlass.testing import ScriptedModel, by_history, call, crash_everywhere, say
from windlass.tools import EffectName, ToolOptions, UndoCall
from windlass_protocol import Event, InputKind, InputRequest, InputResponse, RunStatus

BOOKED = [
    call("book", {"city": "Oslo"}),
    call("look", {}),
    call("book", {"city": "Rome"}),
    call("mail", {}),
    say("done"),
]


class Travel:
    """An agent that books, and the service that it books with."""

    def __init__(self, script: Sequence[object] = BOOKED, *, effect: EffectName = "idempotent") -> None:
        self.done: list[str] = []
        self.keys: Counter[str] = Counter()
        self.fails: set[str] = set()

        @tool(mode="external", effect=effect)
        async def cancel_booking(call: UndoCall, ctx: ToolContext) -> str:
            """Cancel a booking."""
            city = str(call.arguments["city"])
            if city in self.fails:
                raise ToolFailed("the service is closed")
            self.done.append(f"cancel {city} {call.result}")
            self.keys[ctx.idempotency_key] += 1
            return f"cancelled {city}"

        @tool(mode="safe_write", effect="idempotent", undo=cancel_booking)
        async def book(city: str) -> str:
            """Book a trip."""
            self.done.append(f"book {city}")
            return f"booking of {city}"

        @tool(mode="read")
        async def look() -> str:
            """Look around."""
            return "nice"

        @tool(mode="safe_write", effect="idempotent")
        async def mail() -> str:
            """Send a mail."""
            return "sent"

        self.model = ScriptedModel(by_history(script))  # type: ignore[arg-type]
        self.agent = Agent("travel", model=self.model, tools=[book, look, mail])


async def approve(handle: RunHandle[str]) -> RunStatus:
    async for request in handle.requests():
        assert isinstance(request, Approval)
        await request.approve(by="ann")
    return (await handle.wait(timeout=300)).status


async def events_of(runtime: AgentRuntime, run_id: str) -> list[Event]:
    return [event async for event in runtime.handle(run_id).events()]


def test_an_undo_needs_no_price(tmp_path: Path) -> None:
    travel = Travel()
    agent = Agent(
        "travel", model=travel.model, tools=travel.agent.tools, budget=Budget(max_cost_micros=9_000)
    )

    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent], prices={"*": 0}) as runtime:
            handle = await runtime.start_run(agent, "plan", run_id="r1")
            assert (await handle.wait(timeout=300)).output == "done"
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            assert await approve(await runtime.handle("r1").undo()) is RunStatus.COMPLETED

    play(story())
    assert travel.done[2:] == ["cancel Rome booking of Rome", "cancel Oslo booking of Oslo"]


def test_a_run_is_undone_newest_first_and_what_has_no_undo_is_listed() -> None:
    travel = Travel()

    async def story() -> None:
        async with AgentRuntime.in_memory([travel.agent]) as runtime:
            handle = await runtime.start_run(travel.agent, "plan", session_id="s1", run_id="r1")
            assert (await handle.wait(timeout=300)).output == "done"
            plan = await handle.undo_plan()
            assert [(one.tool_name, one.status, one.undo_name) for one in plan.calls] == [
                ("mail", "no_undo", None),
                ("book", "reversible", "cancel_booking"),
                ("book", "reversible", "cancel_booking"),
            ]
            assert [one.arguments for one in plan.calls] == [{}, {"city": "Rome"}, {"city": "Oslo"}]
            again = await handle.undo()
            assert await approve(again) is RunStatus.COMPLETED
            assert travel.done[2:] == ["cancel Rome booking of Rome", "cancel Oslo booking of Oslo"]
            assert (await again.wait(timeout=300)).output == "Reversed 2 calls of run r1."
            statuses = [one.status for one in (await handle.undo_plan()).calls]
            assert statuses == ["no_undo", "reversed", "reversed"]
            assert (await handle.undo()).run_id == again.run_id
            kinds = [event.type for event in await events_of(runtime, again.run_id)]
            assert kinds.count("policy.decided") == 4, "asked about, and allowed"
            assert len(travel.model.requests) == 5, "no model is called"
            with pytest.raises(Conflict, match="it is one that reversed calls"):
                await again.undo()
            # The next run of the session knows about it.
            later = await runtime.start_run(travel.agent, "and now?", session_id="s1")
            await later.wait(timeout=300)
            assert "cancelled Rome" in [one.content for one in travel.model.requests[-1].messages]

    play(story())


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["idempotent", "once"])
def test_crashes_anywhere_reverse_each_call_once(effect: EffectName) -> None:
    """The undo run itself is broken off at every call of the store."""
    travel = Travel(effect=effect)
    recovered = Counter[str]()

    def answer(request: InputRequest) -> InputResponse:
        if request.kind is InputKind.RECOVERY:
            key = "done" if any("Oslo" in one for one in travel.done[-1:]) else "other"
            recovered[key] += 1
            return InputResponse(request_id=request.request_id, option_id="retry")
        return InputResponse(request_id=request.request_id, option_id="approve")

    crashes = 0
    for crash in crash_everywhere(travel.agent, "plan", answer=answer, undo=True):
        crashes += 1
        assert crash.result.output == "Reversed 2 calls of run run.", crash
        cancelled = list(dict.fromkeys(one for one in travel.done if one.startswith("cancel")))
        assert cancelled == ["cancel Rome booking of Rome", "cancel Oslo booking of Oslo"], crash
        assert len(travel.keys) == 2, "each undo has one key in all attempts"
        travel.done.clear()
        travel.keys.clear()
    assert crashes > 10
    assert bool(recovered) is (effect == "once")


def test_a_call_that_cannot_be_reversed_does_not_stop_the_rest_and_is_tried_again() -> None:
    travel = Travel()
    travel.fails.add("Rome")

    async def story() -> None:
        async with AgentRuntime.in_memory([travel.agent]) as runtime:
            handle = await runtime.start_run(travel.agent, "plan", run_id="r1")
            await handle.wait(timeout=300)
            first = await handle.undo()
            assert await approve(first) is RunStatus.FAILED
            error = (await first.wait(timeout=300)).error
            assert error is not None
            assert "1 of 2 calls were not reversed: cancel_booking." in error.message
            with pytest.raises(Conflict, match="it reversed calls, without a model; undo the run again"):
                await first.retry()
            travel.fails.clear()
            second = await handle.undo()
            assert second.run_id != first.run_id
            assert await approve(second) is RunStatus.COMPLETED
            assert travel.done[2:] == ["cancel Oslo booking of Oslo", "cancel Rome booking of Rome"]

    play(story())


def test_a_person_may_deny_an_undo() -> None:
    travel = Travel([call("book", {"city": "Oslo"}), say("done")])

    async def story() -> None:
        async with AgentRuntime.in_memory([travel.agent]) as runtime:
            handle = await runtime.start_run(travel.agent, "plan", run_id="r1")
            await handle.wait(timeout=300)
            again = await handle.undo()
            async for request in again.requests():
                assert isinstance(request, Approval)
                await request.deny("not yet")
            assert (await again.wait(timeout=300)).status is RunStatus.FAILED
            assert travel.done == ["book Oslo"]

    play(story())


def test_runs_without_calls_to_reverse_and_runs_under_way_are_refused() -> None:
    travel = Travel([call("mail", {}), say("done")])

    async def story() -> None:
        async with AgentRuntime.in_memory([travel.agent]) as runtime:
            handle = await runtime.start_run(travel.agent, "plan", run_id="r1")
            await handle.wait(timeout=300)
            with pytest.raises(Conflict, match="no call that can be reversed"):
                await handle.undo()
            with pytest.raises(Conflict, match="unknown run"):
                await runtime.handle("r2").undo()

    play(story())


def test_a_model_cannot_call_an_undo() -> None:
    travel = Travel([call("cancel_booking", {"call": {}}), say("done")])

    async def story() -> None:
        async with AgentRuntime.in_memory([travel.agent]) as runtime:
            await (await runtime.start_run(travel.agent, "plan")).wait(timeout=300)
        offered = travel.model.requests[0].tools or ()
        assert [one["name"] for one in offered] == ["book", "look", "mail"]
        assert travel.model.requests[1].messages[-1].content.startswith("there is no tool cancel_booking;")

    play(story())


def test_an_undo_runs_in_another_process_than_the_run(tmp_path: Path) -> None:
    async def story() -> None:
        first = Travel()
        async with AgentRuntime.open(tmp_path / "app.db", agents=[first.agent]) as runtime:
            handle = await runtime.start_run(first.agent, "plan", run_id="r1")
            await handle.wait(timeout=300)
        second = Travel()
        async with AgentRuntime.open(tmp_path / "app.db", agents=[second.agent]) as runtime:
            assert await approve(await runtime.handle("r1").undo()) is RunStatus.COMPLETED
        assert second.done == ["cancel Rome booking of Rome", "cancel Oslo booking of Oslo"]

    play(story())


class Payment:
    """A payment that must happen once, and its reversal."""

    def __init__(self, *, undo_fails: int = 0) -> None:
        self.done: list[str] = []
        self.left = undo_fails
        self.keys: set[str] = set()

        async def pay_back(call: UndoCall, ctx: ToolContext) -> str:
            """Pay an amount back, if it was paid."""
            self.keys.add(ctx.idempotency_key)
            if self.left:
                self.left -= 1
                raise ToolFailed("closed")
            assert call.result is None
            self.done.append(f"back {call.arguments['cents']} {call.idempotency_key.rpartition('/')[2]}")
            return "paid back"

        @tool(mode="safe_write", effect="once", undo=pay_back)
        async def pay(cents: int) -> str:
            """Pay an amount."""
            self.done.append(f"paid {cents}")
            return "paid"

        self.model = ScriptedModel(by_history([call("pay", {"cents": 5}), say("done")]))
        self.agent = Agent("desk", model=self.model, tools=[pay])


@pytest.mark.parametrize("undo_fails", [0, 1])
def test_an_interrupted_call_can_be_answered_with_undo(undo_fails: int) -> None:
    payment = Payment()
    seen = Counter[object]()

    def answer(request: InputRequest) -> InputResponse:
        seen[request.kind] += 1
        if "undo" not in [one.id for one in request.options or ()]:
            # The undo itself was interrupted; it has none.
            return InputResponse(request_id=request.request_id, option_id="retry")
        return InputResponse(request_id=request.request_id, option_id="undo")

    for crash in crash_everywhere(payment.agent, "pay", answer=answer):
        assert crash.result.output == "done", crash
        if seen[InputKind.RECOVERY]:
            assert payment.done[-1] == "back 5 call-1", crash
            assert len(payment.keys) == 1
            told = [message.content for message in payment.model.requests[-1].messages]
            assert any("It was then reversed." in one for one in told), crash
            seen["all"] += 1
        else:
            assert payment.done[-1] == "paid 5", crash
        seen[InputKind.RECOVERY] = 0
        payment.left = undo_fails
        payment.done.clear()
        payment.keys.clear()
    assert seen["all"] > 0


def test_an_interrupted_call_of_a_tool_without_undo_offers_none() -> None:
    assert hasattr(Interrupted, "undo")


def bad(**options: object) -> None:
    @tool(**options)  # type: ignore[call-overload]
    async def book() -> str:
        return ""


async def no_call(ctx: ToolContext) -> str:
    return ""


async def fine(call: UndoCall) -> str:
    return ""


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mode": "external", "undo": 5}, "undo must be a function or a tool"),
        ({"mode": "external", "undo": no_call}, "must have a parameter call: UndoCall"),
        ({"mode": "read", "undo": fine}, "there is nothing to undo"),
    ],
)
def test_an_undo_that_cannot_work_is_refused(options: dict[str, object], told: str) -> None:
    with pytest.raises(Rejected, match=told):
        bad(**options)


def test_the_name_of_an_undo_may_not_be_that_of_a_tool() -> None:
    @tool(mode="external", undo=fine)
    async def book() -> str:
        return ""

    @tool(mode="read", name="fine")
    async def other() -> str:
        return ""

    with pytest.raises(Rejected, match="fine"):
        Agent("travel", model=ScriptedModel([say("x")]), tools=[book, other])


def asks(cents: int) -> bool:
    return cents > 0


@pytest.mark.parametrize("approval", ["always", asks])
def test_the_undo_of_a_tool_that_asks_asks_too(approval: object) -> None:
    async def give_back(call: UndoCall) -> str:
        """Give the money back."""
        return "given back"

    options: ToolOptions = {"mode": "safe_write", "undo": give_back}
    options["approval"] = approval  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType]

    @tool(**options)
    async def charge(cents: int) -> str:
        """Charge."""
        return "charged"

    assert charge.undo is not None
    assert charge.undo.approval == tool(give_back, mode="safe_write", approval="always").approval


def test_a_call_whose_result_has_a_secret_is_reversed_by_its_key() -> None:
    seen: list[UndoCall] = []

    async def cancel(call: UndoCall) -> str:
        """Cancel."""
        seen.append(call)
        return "cancelled"

    @tool(mode="safe_write", effect="idempotent", undo=cancel)
    async def book(city: str) -> dict[str, str]:
        """Book."""
        return {"cancel_token": "sk-proj-AbCdEf0123456789AbCdEf0123456789abcd"}

    async def story() -> None:
        agent = Agent(
            "clerk",
            model=ScriptedModel(by_history([call("book", {"city": "Oslo"}), say("done")])),
            tools=[book],
        )
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run("clerk", "go")
            await handle.wait()
            assert (await (await handle.undo()).wait()).status is RunStatus.COMPLETED
            assert [one.status for one in (await handle.undo_plan()).calls] == ["reversed"]

    play(story())
    assert "sk-proj" not in str(seen[0].result)
    assert seen[0].idempotency_key


def test_a_run_that_somebody_named_like_an_undo_is_not_taken_for_it() -> None:
    async def story() -> None:
        travel = Travel()
        async with AgentRuntime.in_memory([travel.agent]) as runtime:
            handle = await runtime.start_run(travel.agent, "Book.", run_id="r1")
            await handle.wait()
            await (await runtime.start_run(travel.agent, "Book.", run_id="undo:r1")).wait()
            with pytest.raises(Conflict, match="it does not reverse calls of the run"):
                await handle.undo()

    play(story())
