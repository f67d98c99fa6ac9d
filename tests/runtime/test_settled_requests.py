"""Closed requests: each way to close one leaves a record and a settled request; a late answer learns it."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.clocks import RisingClock
from tests.runtime.runtime_rig import look, mail, play, until

from windlass import Agent, AgentRuntime
from windlass.adapters.system import new_id
from windlass.catalog import SettledRequest
from windlass.errors import Conflict
from windlass.parts import Machine
from windlass.runtime.handle import RunHandle
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.tools.question import ask_question
from windlass_harness.budget import Budget
from windlass_protocol import InputRequest, InputResponse, JsonObject, RunStatus

Open = Callable[..., AbstractAsyncContextManager[AgentRuntime]]
MAIL = call("mail", {"to": "ada"})


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


def clerk(*answers: Any, **parts: Any) -> Agent:
    model = ScriptedModel(by_history(answers or (MAIL, say("done"), say("more"))))
    return Agent("clerk", model=model, tools=[look, mail, ask_question], **parts)


async def asked(handle: RunHandle) -> InputRequest:
    await until(handle, "run.waiting")
    [request] = await handle.open_requests()
    return request


def first_of(data: JsonObject) -> InputRequest:
    """Return the first request of an event."""
    found = data["requests"]
    assert isinstance(found, list)
    return InputRequest.model_validate(found[0], by_alias=True)


async def check(
    runtime: AgentRuntime,
    request: InputRequest,
    outcome: str,
    *,
    session_id: str = "s1",
    asked_in: str = "s1",
) -> SettledRequest:
    """Check the record, the settled request and the error of a late answer."""
    name = request.request_id
    found = await runtime.sessions.request(name)
    assert isinstance(found, SettledRequest)
    assert (found.outcome.value, found.session_id, found.owner) == (outcome, asked_in, "ann")
    records = await runtime.sessions.records(asked_in, limit=1_000)
    told = [one for record in records if record.type == "input.resolved" for one in _resolutions(record.data)]
    assert [one["outcome"] for one in told if one["requestId"] == name] == [outcome]
    if name.startswith("approval:"):
        settled = [one.data for one in records if one.type == "approval.settled"]
        assert [one["outcome"] for one in settled if one["requestId"] == name] == [outcome]
    for late in (session_id, asked_in):
        with pytest.raises(Conflict, match=f"the request is already settled: {outcome}") as refused:
            await runtime.sessions.answer(late, [InputResponse(request_id=name, option_id="approve")])
        ids = refused.value.causal_ids
        assert (ids.session_id, ids.run_id, ids.request_id) == (asked_in, found.run_id, name)
    return found


def _resolutions(data: JsonObject) -> list[Any]:
    found = data["resolutions"]
    assert isinstance(found, list)
    return found


Close = Callable[[AgentRuntime, RunHandle, InputRequest], Awaitable[object]]
WAYS: dict[str, tuple[Close, str]] = {
    "approved": (
        lambda _, handle, one: handle.answer(one.request_id, "approve", responder="bob"),
        "approved",
    ),
    "denied": (lambda _, handle, one: handle.answer(one.request_id, "deny", responder="bob"), "denied"),
    "a message": (lambda runtime, handle, one: runtime.steer("clerk", "Wait!", session_id="s1"), "ignored"),
    "cancelled": (lambda _, handle, one: handle.cancel(by="bob"), "cancelled"),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_approval_that_was_closed_says_how(way: str, opened: Open) -> None:
    close, outcome = WAYS[way]

    async def story() -> None:
        async with opened([clerk()]) as runtime:
            handle = await runtime.start_run("clerk", "go", session_id="s1", owner="ann")
            request = await asked(handle)
            await close(runtime, handle, request)
            await handle.wait()
            found = await check(runtime, request, outcome)
            responder = "bob" if outcome in ("approved", "denied") else None
            settled = await until(handle, "approval.settled")
            assert settled.data.get("reason") == ("The run was cancelled." if way == "cancelled" else None)
            assert (found.run_id, found.responder) == (handle.run_id, responder)

    play(story())


def test_an_approval_expires(opened: Open) -> None:
    async def story() -> None:
        async with opened([clerk()], approval_expires_ms=1) as runtime:
            handle = await runtime.start_run("clerk", "go", session_id="s1", owner="ann")
            event = await until(handle, "input.requested")
            await handle.wait()
            request = first_of(event.data)
            await check(runtime, request, "expired")

    play(story())


def test_an_approval_that_expires_before_its_request_is_durable_is_settled(opened: Open) -> None:
    async def story() -> None:
        machine = Machine(RisingClock(), new_id, lambda: 0.5)
        async with opened([clerk()], approval_expires_ms=1, machine=machine) as runtime:
            handle = await runtime.start_run("clerk", "go", session_id="s1", owner="ann")
            event = await until(handle, "input.requested")
            await handle.wait()
            await check(runtime, first_of(event.data), "expired")

    play(story())


def test_an_approval_closes_when_its_run_uses_up_its_budget(opened: Open) -> None:
    both = MAIL + call("look", {"item": "a"}) + call("look", {"item": "b"})

    async def story() -> None:
        async with opened([clerk(both, say("done"))]) as runtime:
            budget = Budget(max_tool_calls=1)
            handle = await runtime.start_run("clerk", "go", session_id="s1", owner="ann", budget=budget)
            event = await until(handle, "input.requested")
            assert (await handle.wait()).status is RunStatus.BUDGET_EXHAUSTED
            request = first_of(event.data)
            await check(runtime, request, "cancelled")

    play(story())


def test_a_question_says_how_it_was_closed(opened: Open) -> None:
    question = call("ask_question", {"prompt": "Which?", "allow_freeform": True})

    async def story() -> None:
        async with opened([clerk(question, say("done"), say("more"))]) as runtime:
            for session_id, text, outcome in (("s1", "This.", "answered"), ("s2", None, "cancelled")):
                handle = await runtime.start_run("clerk", "go", session_id=session_id, owner="ann")
                request = await asked(handle)
                if text is None:
                    await handle.cancel()
                else:
                    await handle.answer(request.request_id, text=text)
                await handle.wait()
                await check(runtime, request, outcome, session_id=session_id, asked_in=session_id)

    play(story())


def test_the_approval_of_a_subagent_closes_when_the_calling_run_is_cancelled(opened: Open) -> None:
    async def story() -> None:
        boss = Agent(
            "boss",
            model=ScriptedModel(by_history([call("clerk", {"message": "Mail."}), say("done")])),
            subagents=[clerk(description="Mails.")],
        )
        async with opened([boss]) as runtime:
            handle = await runtime.start_run("boss", "go", session_id="s1", owner="ann")
            request = first_of((await until(handle, "input.requested")).data)
            [child] = await runtime.sessions.descendants("s1")
            await handle.cancel()
            await handle.wait()
            assert child.run_id is not None
            await runtime.handle(child.run_id).wait()
            await check(runtime, request, "cancelled", asked_in=child.session_id)

    play(story())


def test_the_approvals_of_a_run_close_when_it_fails_because_its_agent_was_replaced(tmp_path: Path) -> None:
    both = MAIL + call("mail", {"to": "bob"})

    async def story() -> None:
        path = tmp_path / "app.db"
        async with AgentRuntime.open(path, agents=[clerk(both, say("done"))]) as runtime:
            handle = await runtime.start_run("clerk", "go", run_id="r1", session_id="s1", owner="ann")
            await until(handle, "run.waiting")
            first, second = await handle.open_requests()
        model = ScriptedModel([say("never")])
        replaced = Agent("clerk", model=model, tools=[look])
        async with AgentRuntime.open(path, agents=[replaced], package_change="refuse") as runtime:
            # The agent is compared when the session is driven.
            await runtime.handle("r1").answer(first.request_id, "deny", responder="bob")
            assert (await runtime.handle("r1").wait()).status is RunStatus.FAILED
            await check(runtime, first, "denied")
            await check(runtime, second, "cancelled")

    play(story())


def test_the_outcome_of_a_request_is_told_in_its_own_tree_of_sessions_only(opened: Open) -> None:
    async def story() -> None:
        async with opened([clerk()]) as runtime:
            handle = await runtime.start_run("clerk", "go", session_id="s1", owner="ann")
            request = await asked(handle)
            await handle.answer(request.request_id, "deny", responder="bob")
            await handle.wait()
            await (await runtime.start_run("clerk", "go", session_id="s2", owner="eve")).cancel()
            late = [InputResponse(request_id=request.request_id, option_id="approve")]
            with pytest.raises(Conflict) as refused:
                await runtime.sessions.answer("s2", late)
            assert "denied" not in refused.value.message

    play(story())


def test_a_call_whose_tool_a_release_removed_is_not_approved_in_silence(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "app.db"
        async with AgentRuntime.open(path, agents=[clerk()]) as runtime:
            handle = await runtime.start_run("clerk", "Mail ada.", session_id="s1", run_id="r1")
            request = await asked(handle)
        model = ScriptedModel(by_history((MAIL, say("done"))))
        async with AgentRuntime.open(path, agents=[Agent("clerk", model=model, tools=[look])]) as runtime:
            handle = runtime.handle("r1")
            with pytest.raises(Conflict, match=r"agent clerk has no tool mail any more.* or deny the call"):
                await handle.answer(request.request_id, "approve")
            assert [one.request_id for one in await handle.open_requests()] == [request.request_id]
            await handle.answer(request.request_id, "deny")
            assert (await handle.wait()).status is RunStatus.COMPLETED

    play(main())


def test_the_log_names_an_approved_call_that_could_not_be_made(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        path = tmp_path / "app.db"
        async with AgentRuntime.open(path, agents=[clerk()]) as runtime:
            handle = await runtime.start_run("clerk", "Mail ada.", session_id="s1", run_id="r1")
            request = await asked(handle)
        # Approved where the agent is not known, such as in a command: another process makes the call.
        async with AgentRuntime.open(path, agents=[]) as runtime:
            await runtime.sessions.answer(
                "s1", [InputResponse(request_id=request.request_id, option_id="approve")]
            )
        model = ScriptedModel(by_history((MAIL, say("done"))))
        async with AgentRuntime.open(path, agents=[Agent("clerk", model=model, tools=[look])]) as runtime:
            await runtime.handle("r1").wait()

    with caplog.at_level(logging.WARNING, "windlass.runs"):
        play(main())
    assert "run r1: an approved call was not made: agent clerk has no tool mail any more" in caplog.messages
