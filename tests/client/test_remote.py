"""Remote agents keep the guarantees of subagents."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.client.rig import client_of, faking
from tests.server.keyring import Keyring
from tests.server.rig import FAST, Server, look, payer, run, serving, talker

from windlass import Agent, AgentRuntime, Denied, Rejected, tool
from windlass.agent.package import compile_package, package_json
from windlass.client import Client, RemoteAgent
from windlass.ports.model import LLMUsage
from windlass.runtime.handle import RunHandle
from windlass.testing import ScriptedModel, by_history, call, fail, say
from windlass_harness.budget import Budget
from windlass_protocol import Event, RunResult, SourceKind, SourceRef
from windlass_server import Settings


@asynccontextmanager
async def served(folder: Path, *agents: Agent, **settings: Any) -> AsyncGenerator[tuple[Server, Client]]:
    """A server, and a client that looks at it."""
    async with (
        serving(folder, agents, settings=Settings(limits=FAST, **settings)) as server,
        client_of(server.port) as client,
    ):
        yield server, client


def boss(port: int, *, message: str = "Go.", budget: Budget | None = None, **options: Any) -> Agent:
    """An agent that gives one piece of work to a server."""
    arguments = options.pop("arguments", {"message": message})
    helper = RemoteAgent("helper", url=f"http://127.0.0.1:{port}", **options)
    script = [replace(answer, usage=LLMUsage()) for answer in (call("helper", arguments), say("Over."))]
    return Agent("boss", model=ScriptedModel(by_history(script)), subagents=[helper], budget=budget)


async def worked(agent: Agent, **options: Any) -> tuple[RunResult, list[Event]]:
    """Run an agent in memory; no request is answered."""
    async with AgentRuntime.in_memory([agent], **options) as runtime:
        handle = await runtime.start_run(agent, "Begin.", session_id="s", run_id="r")
        events = [event async for event in handle.events()]
        return await handle.wait(), events


def outcome(events: Sequence[Event]) -> tuple[str, str]:
    """The status of the call and the result that the model got."""
    [data] = [event.data for event in events if event.type == "action.result"]
    error, result = data.get("error"), data.get("result")
    told = error.get("message") if isinstance(error, dict) else None
    output = result.get("output") if isinstance(result, dict) else None
    return str(data["status"]), str(told or output)


def test_the_answer_of_a_remote_agent_is_the_result_of_the_call_and_is_untrusted(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served(tmp_path, talker(words="It rains."), payer()) as (server, client):
            result, events = await worked(boss(server.port, agent="talker", message="How is it?"))
            assert result.output == "Over."
            assert outcome(events) == ("completed", "It rains.")
            [ended] = [event for event in events if event.type == "subagent.completed"]
            assert ended.data["taint"] == ["untrusted"]
            [session] = (await client.sessions.list()).items
            assert session.agent_id == "talker"
            history = await client.sessions.history(session.session_id)
            assert "How is it?" in str(history.items[0].content)

    run(main())


def test_the_usage_of_a_remote_agent_counts_against_the_budget_of_its_caller(tmp_path: Path) -> None:
    async def main() -> None:
        used = LLMUsage(input_tokens=700, output_tokens=300, cost_micros=5_000)
        costly = Agent("costly", model=ScriptedModel(lambda _: say("Here.", usage=used)))
        async with served(tmp_path, costly) as (server, _):
            result, _events = await worked(boss(server.port))
            assert result.usage is not None
            assert (result.usage.input_tokens, result.usage.cost_micros) == (700, 5_000)
        async with served(tmp_path / "other", costly) as (server, _):
            result, _events = await worked(boss(server.port, budget=Budget(max_tokens=900)))
            assert result.status.value == "budget_exhausted"
        priced = replace(costly, prices={"*": {"input": 5, "output": 5}})
        async with served(tmp_path / "priced", priced) as (server, _):
            caller = replace(
                boss(server.port, budget=Budget(max_cost_micros=200_000)), prices={"scripted": 0}
            )
            result, _events = await worked(caller)
            assert result.status.value == "completed"
            assert result.usage is not None
            assert result.usage.cost_micros == 5_000

    run(main())


def test_the_budget_of_the_caller_is_enforced_on_the_server(tmp_path: Path) -> None:
    async def main() -> None:
        used = LLMUsage(input_tokens=400, output_tokens=100)
        looks = [replace(call("look", {"place": "Oslo"}), usage=used)] * 8
        busy = Agent("busy", model=ScriptedModel(by_history([*looks, say("Here.")])), tools=[look])
        async with served(tmp_path, busy) as (server, client):
            await worked(boss(server.port, budget=Budget(max_tokens=1_200, max_tool_calls=40)))
            [there] = (await client.runs.list()).items
            assert there.status.value == "budget_exhausted"
            kinds = [event.type async for event in client.events(run_id=there.run_id)]
            assert kinds.count("step.started") == 3, "1,500 tokens are more than 1,200"

    run(main())


def test_an_approval_of_a_remote_agent_needs_a_second_person_here_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, payer()) as (server, _):
            agent = boss(server.port)
            people: dict[str, Any] = {"responders": ["ann", "bob"], "four_eyes": True}
            async with AgentRuntime.in_memory([agent], **people) as runtime:
                source = SourceRef(kind=SourceKind.USER, id="ann")
                handle = await runtime.start_run(agent, "Begin.", session_id="s", run_id="r", source=source)
                request = await asked(handle)
                assert request.responders == ("bob",)
                with pytest.raises(Denied):
                    await handle.answer(request.request_id, "approve", responder="ann")
                await handle.answer(request.request_id, "approve", responder="bob")
                assert (await handle.wait()).output == "Over."
        async with served(tmp_path / "other", payer()) as (server, _):
            _, events = await worked(boss(server.port), responders=["ann"], four_eyes=True)
            assert "second person" in outcome(events)[1]

    run(main())


@pytest.mark.parametrize("answer", ["approve", "deny"])
def test_a_request_of_a_remote_agent_is_asked_at_the_root_and_the_answer_is_forwarded(
    tmp_path: Path, answer: str
) -> None:
    async def main() -> None:
        async with served(tmp_path, payer()) as (server, client):
            agent = boss(server.port)
            async with AgentRuntime.in_memory([agent]) as runtime:
                handle = await runtime.start_run(agent, "Begin.", session_id="s", run_id="r")
                request = await asked(handle)
                assert "Run pay?" in request.prompt
                assert [option.id for option in request.options or ()] == [
                    "approve",
                    "approve_session",
                    "deny",
                ]
                [waiting] = (await client.approvals.list()).items
                assert waiting.request.prompt == request.prompt
                await handle.answer(request.request_id, answer)
                assert (await handle.wait()).output == "Over."
            [there] = (await client.runs.list()).items
            kinds = [event.type async for event in client.events(run_id=there.run_id)]
            assert kinds.count("action.started") == (2 if answer == "approve" else 1)
            assert there.status.value == "completed"

    run(main())


async def asked(handle: RunHandle) -> Any:
    async for event in handle.events():
        if event.type == "run.waiting" and event.data.get("on") == "input":
            [request] = await handle.open_requests()
            return request
    raise AssertionError("no request was made")


def test_a_request_that_was_answered_on_the_server_does_not_hold_up_the_one_here(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, payer()) as (server, client):
            agent = boss(server.port)
            async with AgentRuntime.in_memory([agent]) as runtime:
                handle = await runtime.start_run(agent, "Begin.", session_id="s", run_id="r")
                request = await asked(handle)
                [waiting] = (await client.approvals.list()).items
                await client.approvals.answer(waiting.request.request_id, "approve")
                await handle.answer(request.request_id, "deny")
                events = [event async for event in handle.events()]
            assert outcome(events) == ("completed", "All done.")

    run(main())


def test_a_request_of_a_remote_agent_in_an_unattended_runtime_fails_the_call_and_cancels_the_remote_run(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served(tmp_path, payer()) as (server, client):
            result, events = await worked(boss(server.port), is_attended=False)
            assert result.output == "Over."
            status, told = outcome(events)
            assert status == "failed"
            assert "no person can be asked here" in told
            assert await ended_there(client) == "run.cancelled"

    run(main())


FLOW = """
import asyncio
async def attempt(task: str) -> str:
    try:
        return await helper(task)
    except (RuntimeError, PermissionError) as error:
        return f"failed: {error}"
await asyncio.gather(attempt("Go."), attempt("Please leave."), attempt("Go."))
"""


def flow(port: int) -> Agent:
    """An agent whose program gives three pieces of work to a server at once."""
    helper = RemoteAgent("helper", url=f"http://127.0.0.1:{port}")
    script = [call("run_workflow", {"code": FLOW}), say("Over.")]
    return Agent("boss", model=ScriptedModel(by_history(script)), subagents=[helper], workflow=True)


def test_remote_agents_work_in_a_program_and_their_requests_are_asked_at_the_root_over_a_restart(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with served(tmp_path / "data", payer()) as (server, client):
            agent = flow(server.port)
            async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
                handle = await runtime.start_run(agent, "Begin.", session_id="s", run_id="r")
                async for _ in handle.events():
                    if len(await handle.open_requests()) == 2:
                        break
            async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
                handle = runtime.handle("r")
                first, second = await handle.open_requests()
                await handle.answer(first.request_id, "approve")
                await handle.answer(second.request_id, "approve")
                assert (await handle.wait()).output == "Over."
                *_, last = [event.data async for event in handle.events() if event.type == "action.result"]
            assert last["result"]["output"] == ["All done.", "I left it.", "All done."]  # type: ignore[index]
            there = (await client.runs.list()).items
            assert [one.status.value for one in there] == ["completed"] * 3, "each was started once"

    run(main())


def test_cancelling_a_program_cancels_the_remote_agents_that_it_called(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, payer()) as (server, client):
            agent = flow(server.port)
            async with AgentRuntime.in_memory([agent]) as runtime:
                handle = await runtime.start_run(agent, "Begin.", session_id="s", run_id="r")
                async for _ in handle.events():
                    if len(await handle.open_requests()) == 2:
                        break
                await handle.cancel()
                assert (await handle.wait()).status.value == "cancelled"
            there = (await client.runs.list()).items
            ends = [[event.type async for event in client.events(run_id=one.run_id)][-1] for one in there]
            assert ends.count("run.cancelled") + ends.count("run.completed") == 3
            assert ends.count("run.cancelled") >= 2, "two wait for an approval"

    run(main())


async def ended_there(client: Client) -> str:
    [there] = (await client.runs.list()).items
    return [event.type async for event in client.events(run_id=there.run_id)][-1]


def test_a_remote_agent_that_fails_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    async def main() -> None:
        broken = Agent("broken", model=ScriptedModel(lambda _: fail(ValueError("no model today"))))
        async with served(tmp_path, broken) as (server, _):
            result, events = await worked(boss(server.port))
            assert result.output == "Over."
            status, told = outcome(events)
            assert status == "failed"
            assert "the remote agent did not complete: failed" in told

    run(main())


def test_a_server_that_refuses_or_is_away_is_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        keyring = Keyring(tmp_path / "keys.json")
        keyring.add("a", "acme", user="ann")
        async with served(tmp_path / "data", talker(), keys=keyring.path) as (server, _):
            wrong: tuple[dict[str, Any], ...] = ({}, {"key": "wl_wrong"})
            for given in wrong:
                status, told = outcome((await worked(boss(server.port, **given)))[1])
                assert (status, "valid key" in told) == ("failed", True)
            status, told = outcome((await worked(boss(server.port, key_env="WINDLASS_NO_SUCH_KEY")))[1])
            assert (status, "variable WINDLASS_NO_SUCH_KEY is not set" in told) == ("failed", True)
            assert "the server refused" not in told
        async with served(tmp_path / "more", talker()) as (server, _):
            status, told = outcome((await worked(boss(server.port, agent="nobody")))[1])
            assert (status, "unknown agent" in told) == ("failed", True)
        async with faking(b"") as fake:
            port = fake.port
        status, told = outcome((await worked(boss(port, timeout=0.3)))[1])
        assert (status, "did not finish within 300 ms" in told) == ("failed", True)

    run(main())


def test_cancelling_the_caller_cancels_the_work_on_the_server(tmp_path: Path) -> None:
    async def main() -> None:
        begun = asyncio.Event()
        async with served(tmp_path, stuck(begun)) as (server, client):
            agent = boss(server.port)
            async with AgentRuntime.in_memory([agent]) as runtime:
                handle = await runtime.start_run(agent, "Begin.", session_id="s", run_id="r")
                await begun.wait()
                await handle.cancel()
                assert (await handle.wait()).status.value == "cancelled"
                assert await ended_there(client) == "run.cancelled"

    run(main())


def stuck(begun: asyncio.Event) -> Agent:
    @tool(mode="read")
    async def wait() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    return Agent("stuck", model=ScriptedModel(by_history([call("wait"), say("Done.")])), tools=[wait])


def test_a_caller_that_is_cancelled_while_undriven_cancels_its_remote_run_when_it_is_driven_again(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        begun = asyncio.Event()
        async with served(tmp_path / "data", stuck(begun)) as (server, client):
            agent, store = boss(server.port), tmp_path / "app.db"
            async with AgentRuntime.open(store, agents=[agent], durability="process") as runtime:
                await runtime.start_run(agent, "Begin.", session_id="s", run_id="r")
                await begun.wait()
            [there] = (await client.runs.list()).items
            assert there.status.value == "running", "who goes away in good order comes back to it"
            async with AgentRuntime.open(store, agents=[], durability="process") as runtime:
                await runtime.cancel_run("r")
            async with AgentRuntime.open(store, agents=[agent], durability="process") as runtime:
                assert (await runtime.handle("r").wait()).status.value == "cancelled"
                assert await ended_there(client) == "run.cancelled"

    run(main())


def test_data_can_be_asked_for_and_long_answers_are_cut(tmp_path: Path) -> None:
    async def main() -> None:
        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        clever = Agent("clever", model=ScriptedModel(lambda _: say('{"city": "Oslo"}')))
        async with served(tmp_path / "a", clever) as (server, client):
            given = {"message": "Which city?", "output_schema": schema}
            _, events = await worked(boss(server.port, arguments=given))
            assert outcome(events) == ("completed", "{'city': 'Oslo'}")
            [there] = (await client.runs.list()).items
            result = (await client.runs.get(there.run_id)).result
            assert result is not None
            assert result.structured_output == {"city": "Oslo"}
        chatty = Agent("chatty", model=ScriptedModel(lambda _: say("\x01" * 100_000)))
        async with served(tmp_path / "b", chatty) as (server, _):
            status, told = outcome((await worked(boss(server.port)))[1])
            assert status == "completed"
            assert "characters left out" in told
            assert len(told) < 100_000

    run(main())


def test_a_package_names_the_server_and_the_variable_and_never_the_key() -> None:
    plain = RemoteAgent("helper", url="https://x.example/", key="wl_s3cret", agent="a")
    other = RemoteAgent("helper", url="https://x.example/", key="wl_0ther", agent="a")
    named = RemoteAgent("helper", url="https://x.example/", key_env="HELPER_KEY", agent="a")
    package = package_json(compile_package(plain))
    assert b"s3cret" not in package
    assert package == package_json(compile_package(other))
    assert b"https://x.example" in package
    assert b"HELPER_KEY" in package_json(compile_package(named))
    assert "s3cret" not in f"{plain!r} {plain.tools!r} {plain.model!r} {plain.hooks!r}"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"url": "x"}, "url must be the address"),
        ({"url": "http://u:p@x"}, "key=…"),
        ({"key": "a", "key_env": "B"}, "not both"),
        ({"key": "a b"}, "key must be"),
        ({"key_env": "no name"}, "key_env must be the name"),
        ({"timeout": 0}, "timeout must be a number of seconds"),
        ({"agent": 7}, "the agent of a server must be a string"),
        ({"description": 7}, "description"),
        ({"modle": "x"}, "unknown option modle"),
    ],
)
def test_a_remote_agent_that_cannot_work_is_refused_when_it_is_made(
    options: dict[str, Any], told: str
) -> None:
    given: dict[str, Any] = {"url": "http://x", **options}
    with pytest.raises(Rejected, match=told):
        RemoteAgent("helper", **given)
    with pytest.raises(Rejected, match="name of an agent"):
        RemoteAgent("two words", url="http://x")
