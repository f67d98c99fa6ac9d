"""Approvals with changed arguments: validated, judged again, recorded, and told to the model."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.runtime.runtime_rig import play, until

from windlass import Agent, AgentRuntime, Approval, PolicySet, Question, Rejected, tool
from windlass.agent.policy import RulesPolicy
from windlass.testing import ScriptedModel, by_history, call, crash_everywhere, say
from windlass.tools.question import ask_question
from windlass_harness.policy import CallFacts
from windlass_protocol import (
    DenyDecision,
    Event,
    InputRequest,
    InputResponse,
    JsonObject,
    PolicyDecision,
)

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"


class Desk:
    """An agent that pays after approval, and what it paid."""

    def __init__(self, arguments: JsonObject) -> None:
        self.paid: list[tuple[int, str]] = []

        @tool(mode="external", effect="idempotent")
        async def pay(cents: int, note: str = "") -> str:
            """Pay an amount."""
            self.paid.append((cents, note))
            return f"paid {cents}"

        self.model = ScriptedModel(by_history([call("pay", arguments), say("done")]))
        self.agent = Agent("desk", model=self.model, tools=[pay])

    async def run(
        self, answer: Callable[[Approval], Awaitable[object]], policy: RulesPolicy | None = None
    ) -> list[Event]:
        policy = policy or RulesPolicy(PolicySet())
        async with AgentRuntime.in_memory([self.agent], tool_policy=policy) as runtime:
            handle = await runtime.start_run(self.agent, "pay")
            async for request in handle.requests():
                assert isinstance(request, Approval)
                await answer(request)
            assert (await handle.wait(timeout=300)).output == "done"
            return [event async for event in handle.events()]

    @property
    def told(self) -> list[str]:
        return [message.content for message in self.model.requests[-1].messages]


def the(events: list[Event], kind: str) -> JsonObject:
    (data,) = [event.data for event in events if event.type == kind]
    return data


def test_a_call_runs_with_the_arguments_that_a_person_approved_instead() -> None:
    desk = Desk({"cents": 9_000, "note": "lamp"})
    events = play(desk.run(lambda request: request.modify(cents=2_000, by="ann")))
    assert desk.paid == [(2_000, "lamp")]
    changed = {"cents": 2_000, "note": "lamp"}
    settled = the(events, "approval.settled")
    assert (settled["responder"], settled["arguments"], settled["outcome"]) == ("ann", changed, "approved")
    assert the(events, "action.started")["arguments"] == changed
    assert desk.told[-2] == "paid 2000"
    assert desk.told[-1] == (
        "ann changed the arguments of your call of pay (call-1) before approving it. "
        'The approved arguments are: {"cents":2000,"note":"lamp"}'
    )


def test_the_policy_decides_about_the_changed_arguments() -> None:
    class NotFive(RulesPolicy):
        """Denies calls that pay 5 cents."""

        def before(self, call: CallFacts, *, is_attended: bool) -> PolicyDecision:
            if (call.arguments or {}).get("cents") == 5:
                return DenyDecision(code="five", reason="Not five.", policy_refs=())
            return super().before(call, is_attended=is_attended)

    desk = Desk({"cents": 9_000})
    events = play(desk.run(lambda request: request.modify(cents=5), NotFive(PolicySet())))
    assert desk.paid == []
    assert the(events, "action.result")["status"] == "rejected"


def test_changed_arguments_that_do_not_fit_are_refused_and_the_request_stays_open() -> None:
    desk = Desk({"cents": 9_000})

    async def answer(request: Approval) -> None:
        with pytest.raises(Rejected, match="the arguments of pay do not fit: /cents"):
            await request.modify(cents="much")
        with pytest.raises(Rejected, match="/dollars"):
            await request.modify({"dollars": 5})
        assert await request.modify({"cents": 100})

    play(desk.run(answer))
    assert desk.paid == [(100, "")]


@pytest.mark.parametrize("option", ["deny", "approve_session"])
def test_only_an_approval_of_one_call_can_change_arguments(option: str) -> None:
    desk = Desk({"cents": 9_000})

    async def answer(request: Approval) -> None:
        response = InputResponse(request_id=request.request_id, option_id=option, arguments={"cents": 1})
        with pytest.raises(Rejected, match="only with the option approve"):
            await request._run.answer_all([response])  # type: ignore[reportPrivateUsage]
        await request.approve()

    play(desk.run(answer))
    assert desk.paid == [(9_000, "")]


def test_a_question_has_no_arguments_to_change() -> None:
    options: list[JsonValue] = [{"id": "approve", "label": "Yes"}]
    script = [call("ask_question", {"prompt": "Really?", "options": options}), say("done")]
    agent = Agent("desk", model=ScriptedModel(by_history(script)), tools=[ask_question])

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go")
            async for request in handle.requests():
                assert isinstance(request, Question)
                with pytest.raises(Rejected, match="no approval"):
                    await handle.answer(request.request_id, "approve", arguments={"prompt": "x"})
                await request.choose("approve")

    play(story())


def test_a_secret_that_the_person_left_as_it_was_shown_reaches_the_tool() -> None:
    desk = Desk({"cents": 9_000, "note": SECRET})

    async def answer(request: Approval) -> None:
        assert SECRET not in str(request.arguments)
        await request.modify(cents=2_000)

    play(desk.run(answer))
    assert desk.paid == [(2_000, SECRET)]


def test_a_secret_that_the_person_writes_is_not_stored_so_the_call_is_refused() -> None:
    desk = Desk({"cents": 9_000})
    events = play(desk.run(lambda request: request.modify(note=SECRET)))
    assert desk.paid == []
    assert SECRET not in str([event.data for event in events])


def test_a_restart_between_the_change_and_the_call_loses_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        first = Desk({"cents": 9_000})
        async with AgentRuntime.open(tmp_path / "app.db", agents=[first.agent]) as runtime:
            handle = await runtime.start_run(first.agent, "pay", run_id="r1")
            await until(handle, "run.waiting")
        # A process without the agent cannot validate the arguments, and takes the answer.
        async with AgentRuntime.open(tmp_path / "app.db", agents=[]) as runtime:
            (request,) = await runtime.handle("r1").open_requests()
            await runtime.handle("r1").answer(request.request_id, "approve", arguments={"cents": 5})
        second = Desk({"cents": 9_000})
        async with AgentRuntime.open(tmp_path / "app.db", agents=[second.agent]) as runtime:
            assert (await runtime.handle("r1").wait(timeout=300)).output == "done"
        assert second.paid == [(5, "")]

    play(story())


@pytest.mark.slow
def test_crashes_anywhere_run_the_call_with_the_changed_arguments() -> None:
    desk = Desk({"cents": 9_000})

    def answer(request: InputRequest) -> InputResponse:
        return InputResponse(request_id=request.request_id, option_id="approve", arguments={"cents": 5})

    for crash in crash_everywhere(desk.agent, "pay", answer=answer):
        assert crash.result.output == "done"
        assert set(desk.paid) == {(5, "")}, crash
        desk.paid.clear()
