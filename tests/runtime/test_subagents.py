"""Subagents in a real runtime: sessions of their own, and a run that waits."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from tests.runtime.runtime_rig import play, until

from windlass import Agent, AgentRuntime, hook, tool
from windlass.agent import agent_tool
from windlass.engine.writing.scribe import RedactingScribe
from windlass.errors import Conflict, Denied, Rejected
from windlass.models.demo import DemoModel
from windlass.parts import Machine
from windlass.ports.host import HookCall
from windlass.ports.model import LLMMessage, LLMUsage
from windlass.runtime.handle import RunHandle
from windlass.testing import Answer, FakeClock, ScriptedModel, by_history, call, fail, run_in_fake_time, say
from windlass.tools.question import ask_question
from windlass_harness.budget import Budget
from windlass_harness.loop.events import Draft
from windlass_harness.loop.rules import Rules
from windlass_harness.policy import CallFacts, PolicySet, Rule
from windlass_harness.record import Post
from windlass_protocol import (
    AllowDecision,
    DenyDecision,
    ErrorKind,
    InputRequest,
    InputResponse,
    RetryClass,
    RunRequest,
    RunStatus,
    RuntimePackage,
    SessionCapabilities,
    SourceKind,
    SourceRef,
)

JsonObject = dict[str, Any]
Open = Callable[..., AbstractAsyncContextManager[AgentRuntime]]


@pytest.fixture(params=["memory", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens a runtime of each kind; a SQLite one continues with the file of the one before it."""

    @asynccontextmanager
    async def open_one(agents: Sequence[Agent], **options: Any) -> AsyncGenerator[AgentRuntime]:
        if request.param == "memory":
            runtime = AgentRuntime.in_memory(agents, **options)
        else:
            runtime = await AgentRuntime.open(tmp_path / "app.db", agents=agents, **options)
        async with runtime:
            yield runtime

    return open_one


@tool(mode="read")
async def look(item: str) -> str:
    """Look for a thing."""
    return f"{item} is there"


@tool(mode="destructive", effect="idempotent")
async def burn(item: str) -> str:
    """Burn a thing."""
    return f"{item} is gone"


def model(*answers: Answer) -> ScriptedModel:
    return ScriptedModel(by_history(answers))


def ask(name: str = "reader", message: str = "What is it?", **more: JsonValue) -> Answer:
    return call(name, {"message": message, **more})


def reader(*answers: Answer, **options: Any) -> Agent:
    script = answers or (call("look", {"item": "tea"}), say("It is tea."))
    made: JsonObject = {"description": "Reads things.", "tools": [look, burn, ask_question], **options}
    return Agent("reader", model=model(*script), **made)


def lead(*answers: Answer, reads: Agent | None = None, **options: Any) -> Agent:
    script = answers or (ask(), say("Tea, then."))
    return Agent("lead", model=model(*script), subagents=[reads or reader()], **options)


def said(agent: Agent) -> list[LLMMessage]:
    """The messages of the last request of an agent's model."""
    assert isinstance(agent.model, ScriptedModel)
    return list(agent.model.requests[-1].messages)


async def records(runtime: AgentRuntime, run_id: str) -> list[tuple[str, JsonObject]]:
    return [
        (event.type, event.data) async for event in runtime.handle(run_id).events() if event.index is None
    ]


async def data_of(runtime: AgentRuntime, run_id: str, kind: str) -> list[JsonObject]:
    return [data for found, data in await records(runtime, run_id) if found == kind]


async def the_request(handle: RunHandle) -> InputRequest:
    await until(handle, "input.requested")
    (request,) = await handle.open_requests()
    return request


NO_KEY = Rejected("no key", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.NOT_RETRYABLE)
CHILD = "subagent:r1/0/call-1"
CHILD_SESSION = f"session:{CHILD}"


async def start(runtime: AgentRuntime, agent: Agent, **options: Any) -> RunHandle:
    return await runtime.start_run(agent, "go", session_id="s1", run_id="r1", **options)


# calling


def test_the_output_of_a_subagent_is_the_result_of_the_call(opened: Open) -> None:
    async def story() -> None:
        root = lead()
        async with opened([root]) as runtime:
            result = await (await start(runtime, root)).wait(timeout=300)
            assert (result.status, result.output) == (RunStatus.COMPLETED, "Tea, then.")
            kinds = [kind for kind, _ in await records(runtime, "r1")]
            assert kinds[kinds.index("action.started") :][:6] == [
                "action.started",
                "subagent.called",
                "turn.waiting",
                "run.waiting",
                "subagent.completed",
                "run.resumed",
            ]
            (waiting,) = await data_of(runtime, "r1", "run.waiting")
            usage = {"inputTokens": 1, "outputTokens": 1}
            assert waiting == {"runId": "r1", "on": "subagent", "usage": usage}
        assert said(root)[-1].content == "It is tea."

    play(story())


def test_a_subagent_has_its_own_session_and_package_and_the_message_of_its_caller(opened: Open) -> None:
    async def story() -> None:
        child = reader()
        root = lead(reads=child)
        async with opened([root]) as runtime:
            await (await start(runtime, root, source=SourceRef(kind=SourceKind.USER, id="ann"))).wait(
                timeout=300
            )
            (begun,) = await data_of(runtime, CHILD, "run.started")
            assert (begun["mode"], begun["agentId"], begun["packageId"]) == ("task", "reader", "reader")
            assert begun["source"] == {"kind": "user", "id": "ann"}
            assert begun["parent"] == {
                "sessionId": "s1",
                "runId": "r1",
                "callId": "call-1",
                "rootSessionId": "s1",
                "depth": 1,
                "agents": ["lead"],
            }
            (found,) = await runtime.sessions.descendants("s1")
            assert (found.session_id, found.run_id, found.name) == (CHILD_SESSION, CHILD, "reader")
            assert (found.call_id, found.status) == ("call-1", RunStatus.COMPLETED)
            assert await runtime.sessions.descendants(CHILD_SESSION) == ()
        told = said(child)[-3].content
        assert told.startswith('You are the subagent "reader".\nDescription: Reads things.\n')
        assert told.endswith("Caller message:\nWhat is it?")

    play(story())


def test_a_model_sees_a_subagent_as_a_tool(opened: Open) -> None:
    async def story() -> None:
        root = lead()
        async with opened([root]) as runtime:
            await (await start(runtime, root)).wait(timeout=300)
        assert isinstance(root.model, ScriptedModel)
        (shown,) = root.model.requests[0].tools
        assert (shown["name"], shown["description"]) == ("reader", "Reads things.")
        schema = shown["inputSchema"]
        assert isinstance(schema, dict)
        assert schema["required"] == ["message"]

    play(story())


def test_subagents_of_one_step_and_tools_run_side_by_side() -> None:
    gates = [asyncio.Event(), asyncio.Event()]

    async def story() -> None:
        first = Agent("first", model=ScriptedModel([Answer("one", gate=gates[0])]))
        second = Agent("second", model=ScriptedModel([Answer("two", gate=gates[1])]))
        both = ask("first") + ask("second") + call("look", {"item": "tea"})
        root = Agent("lead", model=model(both, say("done")), tools=[look], subagents=[first, second])
        async with AgentRuntime.in_memory([root]) as runtime:
            handle = await start(runtime, root)
            await until(handle, "subagent.called")
            for run_id in (CHILD, "subagent:r1/0/call-2"):
                await until(runtime.handle(run_id), "step.started")
            await until(handle, "action.result")
            gates[1].set()
            await runtime.handle("subagent:r1/0/call-2").wait(timeout=300)
            gates[0].set()
            await handle.wait(timeout=300)
            results = await data_of(runtime, "r1", "action.result")
        found = [one["result"] for one in results]
        assert [one["output"] for one in found if isinstance(one, dict)] == ["tea is there", "two", "one"]
        assert [message.content for message in said(root)[-3:]] == ["one", "two", "tea is there"]

    play(story())


def test_a_subagent_can_be_asked_for_data(opened: Open) -> None:
    schema: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def story() -> None:
        root = lead(ask(output_schema=schema), say("done"), reads=reader(say("four"), say('{"n": 4}')))
        async with opened([root]) as runtime:
            await (await start(runtime, root)).wait(timeout=300)
            (result,) = await data_of(runtime, "r1", "action.result")
            assert result["result"] == {
                "kind": "subagent-result",
                "callId": "call-1",
                "subagentName": "reader",
                "output": {"n": 4},
            }

    play(story())


def test_an_invalid_output_schema_for_a_subagent_is_an_error_result() -> None:
    async def story() -> None:
        root = lead(ask(output_schema={"type": "nonsense"}), say("done"))
        async with AgentRuntime.in_memory([root]) as runtime:
            await (await start(runtime, root)).wait(timeout=300)
        assert "The subagent was not started:" in said(root)[-1].content

    play(story())


def test_an_agent_can_give_work_to_a_copy_of_itself() -> None:
    def write(messages: Sequence[LLMMessage]) -> Answer:
        is_copy = "Caller message:" in messages[0].content
        if is_copy:
            return say("a copy did it")
        return ask("agent") if messages[-1].role == "user" else say("done")

    async def story() -> None:
        root = Agent("lead", model=ScriptedModel(write), tools=[agent_tool])
        async with AgentRuntime.in_memory([root]) as runtime:
            result = await (await start(runtime, root)).wait(timeout=300)
            assert result.output == "done"
            (begun,) = await data_of(runtime, CHILD, "run.started")
            assert begun["agentId"] == "lead"
        assert said(root)[-1].content == "a copy did it"

    play(story())


# limits


def deep(messages: Sequence[LLMMessage]) -> Answer:
    """Delegates its message, and answers with the result."""
    return say(messages[-1].content) if messages[-1].role == "tool" else ask("agent")


@pytest.mark.parametrize(("most", "sessions"), [(None, 3), (1, 1), (0, 0)])
def test_copies_of_copies_end_at_the_depth_limit(most: int | None, sessions: int) -> None:
    async def story() -> None:
        root = Agent("lead", model=ScriptedModel(deep), tools=[agent_tool])
        rules = Rules() if most is None else Rules(subagent_depth_max=most)
        async with AgentRuntime.in_memory([root], rules=rules) as runtime:
            result = await (await start(runtime, root)).wait(timeout=300)
            assert result.status is RunStatus.COMPLETED
            assert len(await runtime.sessions.descendants("s1")) == sessions
            assert f"Subagents may be {rules.subagent_depth_max} levels deep" in result.output

    play(story())


def test_the_number_of_subagent_calls_of_a_run_is_limited() -> None:
    async def story() -> None:
        root = lead(ask() + ask() + ask(), ask(), say("done"), reads=reader(say("ok")))
        async with AgentRuntime.in_memory([root], rules=Rules(subagent_calls_max=2)) as runtime:
            assert (await (await start(runtime, root)).wait(timeout=300)).output == "done"
            assert len(await runtime.sessions.descendants("s1")) == 2
            codes = [one.get("error") for one in await data_of(runtime, "r1", "action.result")]
            assert [one["code"] for one in codes if isinstance(one, dict)] == ["subagent_count"] * 2

    play(story())


def test_subagents_share_the_remaining_budget_and_their_usage_is_charged_to_the_run() -> None:
    used = LLMUsage(input_tokens=8, output_tokens=2, cost_micros=5)

    async def story() -> None:
        child = reader(say("ok", usage=used), budget=Budget(max_tool_calls=3, max_tokens=1_000))
        root = lead(ask() + say("", usage=used) + ask(), say("done", usage=used), reads=child)
        budget = Budget(max_tokens=110, max_steps=9, max_tool_calls=20, max_wall_ms=60_000)
        async with AgentRuntime.in_memory([root]) as runtime:
            result = await (await start(runtime, root, budget=budget)).wait(timeout=300)
            assert result.usage is not None
            assert (result.usage.input_tokens, result.usage.cost_micros) == (32, 20)
            (begun,) = await data_of(runtime, CHILD, "run.started")
            limits = begun["budget"]
            assert isinstance(limits, dict)
            assert (limits["maxTokens"], limits["maxSteps"], limits["maxToolCalls"]) == (50, 4, 3)
            assert isinstance(limits["maxWallMs"], int)
            assert 0 < limits["maxWallMs"] <= 60_000

    play(story())


def test_a_subagent_that_uses_up_its_share_is_an_error_and_the_run_goes_on() -> None:
    async def story() -> None:
        child = reader(call("look", {"item": "a"}), say("x"), budget=Budget(max_steps=1))
        root = lead(reads=child)
        async with AgentRuntime.in_memory([root]) as runtime:
            assert (await (await start(runtime, root)).wait(timeout=300)).output == "Tea, then."
            (result,) = await data_of(runtime, "r1", "action.result")
            error = result["error"]
            assert isinstance(error, dict)
            assert error["code"] == "subagent_budget_exhausted"
        assert said(root)[-1].is_error

    play(story())


def test_a_subagent_and_the_calls_beside_it_keep_to_one_budget(opened: Open) -> None:
    made: list[str] = []

    @tool(mode="read")
    async def count(item: str) -> str:
        """Count a thing."""
        made.append(item)
        return "one"

    def counts(*items: str) -> Answer:
        first, *rest = (call("count", {"item": item}) for item in items)
        return sum(rest, first)

    async def story() -> None:
        child = Agent("reader", model=model(counts("d", "e", "f"), say("six")), tools=[count])
        script = (ask() + counts("a", "b", "c"), say("done"))
        root = Agent("lead", model=model(*script), tools=[count], subagents=[child])
        async with opened([root]) as runtime:
            handle = await start(runtime, root, budget=Budget(max_tool_calls=4))
            assert (await handle.wait(timeout=300)).output == "done"
        assert sorted(made) == ["a", "b", "c"]

    play(story())


def test_a_run_with_nothing_left_calls_no_subagent() -> None:
    async def story() -> None:
        root = lead(ask() + ask(), say("done"))
        async with AgentRuntime.in_memory([root]) as runtime:
            handle = await start(runtime, root, budget=Budget(max_steps=2))
            assert (await handle.wait(timeout=300)).output == "done"
            results = await data_of(runtime, "r1", "action.result")
            assert [one["error"]["code"] for one in results] == ["subagent_budget"] * 2
            assert await runtime.sessions.descendants("s1") == ()

    play(story())


def test_a_subagent_that_never_answers_ends_with_the_time_of_its_caller() -> None:
    clock = FakeClock()

    async def story() -> RunStatus:
        silent = ScriptedModel([Answer("never", gate=asyncio.Event())])
        root = lead(reads=Agent("reader", model=silent))
        machine = Machine(clock, iter(map(str, range(10_000))).__next__, lambda: 0.5)
        async with AgentRuntime.in_memory([root], machine=machine) as runtime:
            handle = await start(runtime, root, budget=Budget(max_wall_ms=90_000))
            status = (await handle.wait()).status
            assert (await runtime.handle(CHILD).wait()).status is not RunStatus.COMPLETED
            return status

    assert run_in_fake_time(story(), clock=clock) is RunStatus.BUDGET_EXHAUSTED


# ends


def test_a_subagent_that_fails_is_an_error_result_and_no_crash(opened: Open) -> None:
    async def story() -> None:
        root = lead(reads=reader(fail(NO_KEY)))
        async with opened([root]) as runtime:
            assert (await (await start(runtime, root)).wait(timeout=300)).output == "Tea, then."
            (done,) = await data_of(runtime, "r1", "subagent.completed")
            assert (done["status"], done["isError"]) == ("failed", True)
        assert (said(root)[-1].content, said(root)[-1].is_error) == ("no key", True)

    play(story())


def test_cancelling_a_run_cancels_its_subagents(opened: Open) -> None:
    async def story() -> None:
        top = Agent(
            "top", model=model(ask("lead"), say("x")), subagents=[lead(reads=reader(asks(), say("x")))]
        )
        async with opened([top]) as runtime:
            handle = await start(runtime, top)
            await the_request(handle)
            await handle.cancel(by="ann")
            assert (await handle.wait(timeout=300)).status is RunStatus.CANCELLED
            below = await runtime.sessions.descendants("s1")
            assert len(below) == 2
            for child in below:
                ended = await runtime.handle(child.run_id or "").wait(timeout=300)
                assert ended.status is RunStatus.CANCELLED
            below = await runtime.sessions.descendants("s1")
            assert [child.status for child in below] == [RunStatus.CANCELLED] * 2
            assert await runtime.sessions.open_requests("s1") == ()

    play(story())


def test_a_subagent_cancelled_from_outside_is_an_error_result(opened: Open) -> None:
    async def story() -> None:
        root = lead(reads=reader(asks(), say("x")))
        async with opened([root]) as runtime:
            handle = await start(runtime, root)
            await the_request(handle)
            await runtime.cancel_run(CHILD, by="bob")
            assert (await handle.wait(timeout=300)).output == "Tea, then."
            resolved = await data_of(runtime, "r1", "input.resolved")
            assert [one["resolutions"][0]["outcome"] for one in resolved] == ["cancelled"]
        assert said(root)[-1].content == "The subagent was cancelled before it was done."

    play(story())


# people


def asks() -> Answer:
    return call("ask_question", {"prompt": "Green or black?"})


def burns() -> Answer:
    return call("burn", {"item": "tea"})


def levels(*answers: Answer) -> Agent:
    return Agent(
        "top", model=model(ask("lead"), say("top is done")), subagents=[lead(reads=reader(*answers))]
    )


def test_a_question_from_three_levels_down_is_asked_and_answered_at_the_root(opened: Open) -> None:
    async def story() -> None:
        top = levels(asks(), say("black it is"))
        async with opened([top]) as runtime:
            handle = await start(runtime, top)
            request = await the_request(handle)
            (shown,) = await data_of_now(runtime, "s1", "input.requested")
            leaf = (await runtime.sessions.descendants("s1"))[-1].session_id
            assert (shown["childSessionId"], shown["callId"]) == (leaf, "call-1")
            assert await runtime.sessions.open_requests(leaf) == (request,)
            await handle.answer(request.request_id, text="black")
            assert (await handle.wait(timeout=300)).output == "top is done"
            outcomes = await data_of(runtime, "r1", "input.resolved")
            assert outcomes[0]["resolutions"][0]["outcome"] == "answered"

    play(story())


async def data_of_now(runtime: AgentRuntime, session_id: str, kind: str) -> list[JsonObject]:
    """The data of the records of an unfinished session."""
    found: list[JsonObject] = []
    async for event in runtime.sessions.subscribe(session_id):
        if event.index is None and event.type == kind:
            found.append(event.data)
            break
    return found


def test_a_question_of_a_subagent_waits_over_restarts(tmp_path: Path) -> None:
    async def story() -> None:
        script = (asks(), say("black it is"))
        async with AgentRuntime.open(tmp_path / "app.db", agents=[levels(*script)]) as runtime:
            request = await the_request(await start(runtime, levels(*script)))
        async with AgentRuntime.open(tmp_path / "app.db", agents=[levels(*script)]) as runtime:
            assert [one.request_id for one in await runtime.sessions.open_requests("s1")] == [
                request.request_id
            ]
            await runtime.handle("r1").answer(request.request_id, text="black")
            assert (await runtime.handle("r1").wait(timeout=300)).output == "top is done"

    play(story())


def test_consent_to_a_call_of_a_subagent_is_refused_after_its_caller_was_cancelled(opened: Open) -> None:
    async def story() -> None:
        top = levels(burns(), say("burnt"))
        async with opened([top]) as runtime:
            handle = await start(runtime, top)
            request = await the_request(handle)
            leaf = (await runtime.sessions.descendants("s1"))[-1].session_id
            await handle.cancel()
            assert await handle.open_requests() == ()
            yes = InputResponse(request_id=request.request_id, option_id="approve")
            for session_id in ("s1", leaf):
                with pytest.raises(Conflict):
                    await runtime.sessions.answer(session_id, [yes])
            assert (await handle.wait(timeout=300)).status is RunStatus.CANCELLED

    play(story())


def test_consent_to_a_call_of_a_subagent_counts_once_wherever_it_is_given(opened: Open) -> None:
    async def story() -> None:
        top = levels(burns(), say("burnt"))
        async with opened([top]) as runtime:
            handle = await start(runtime, top)
            request = await the_request(handle)
            leaf = (await runtime.sessions.descendants("s1"))[-1].session_id
            yes = InputResponse(request_id=request.request_id, option_id="approve")
            await asyncio.gather(
                runtime.sessions.answer("s1", [yes]),
                runtime.sessions.answer(leaf, [yes]),
                return_exceptions=True,
            )
            await handle.wait(timeout=300)
            with pytest.raises(Conflict):
                await runtime.sessions.answer("s1", [yes])
            run_id = (await runtime.sessions.descendants("s1"))[-1].run_id or ""
            assert len(await data_of(runtime, run_id, "action.started")) == 1
            assert len(await data_of(runtime, run_id, "approval.settled")) == 1

    play(story())


def test_the_responders_of_a_subagent_request_also_apply_at_the_root() -> None:
    async def story() -> None:
        top = levels(burns(), say("burnt"))
        source = SourceRef(kind=SourceKind.USER, id="ann")
        async with AgentRuntime.in_memory([top], responders=["ann", "bob"], four_eyes=True) as runtime:
            handle = await start(runtime, top, source=source)
            request = await the_request(handle)
            with pytest.raises(Denied):
                await handle.answer(request.request_id, "approve", responder="ann")
            other = InputResponse(
                request_id=request.request_id,
                option_id="approve",
                responder="bob",
                arguments_hash=f"sha256:{0:064}",
            )
            with pytest.raises(Rejected, match="argumentsHash does not match"):
                await runtime.sessions.answer("s1", [other])
            await handle.answer(request.request_id, "approve", responder="bob")
            assert (await handle.wait(timeout=300)).output == "top is done"

    play(story())


def test_a_message_to_the_root_does_not_settle_the_question_of_a_subagent() -> None:
    async def story() -> None:
        root = lead(ask(), say("done"), reads=reader(asks(), say("fine")))
        async with AgentRuntime.in_memory([root]) as runtime:
            handle = await start(runtime, root)
            request = await the_request(handle)
            await runtime.steer(root, "hurry", session_id="s1")
            assert [one.request_id for one in await handle.open_requests()] == [request.request_id]
            await handle.answer(request.request_id, text="black")
            assert (await handle.wait(timeout=300)).output == "done"

    play(story())


def test_a_request_of_a_subagent_is_dispatched_once() -> None:
    class Yes:
        def __init__(self) -> None:
            self.asked: list[str] = []

        async def dispatch(self, request: InputRequest, *, session_id: str, run_id: str) -> InputResponse:
            self.asked.append(session_id)
            return InputResponse(request_id=request.request_id, option_id="approve")

    async def story() -> None:
        yes = Yes()
        root = lead(reads=reader(burns(), say("burnt")))
        async with AgentRuntime.in_memory([root], approval_dispatcher=yes) as runtime:
            assert (await (await start(runtime, root)).wait(timeout=300)).output == "Tea, then."
        assert yes.asked == [CHILD_SESSION]

    play(story())


def test_a_subagent_cannot_ask_if_its_caller_cannot() -> None:
    async def story() -> None:
        child = reader(burns(), say("not burnt"))
        root = lead(reads=child)
        async with AgentRuntime.in_memory([root]) as runtime:
            handle = await start(runtime, root, capabilities=SessionCapabilities(request_input=False))
            assert (await handle.wait(timeout=300)).output == "Tea, then."
        assert "no person can be asked" in said(child)[-1].content

    play(story())


# policy


def test_the_policy_of_a_caller_holds_for_its_subagents(opened: Open) -> None:
    async def story() -> None:
        allow = PolicySet((Rule("yes", "allow", reason="Fine.", tools=("look", "burn")),))
        deny = PolicySet((Rule("no", "deny", reason="Not tea.", tools=("look",)),))
        child = reader(call("look", {"item": "tea"}), say("x"), policy=allow)
        root = Agent("lead", model=model(ask(), say("done")), subagents=[child], policy=deny)
        async with opened([root]) as runtime:
            await (await start(runtime, root)).wait(timeout=300)
            alone = await runtime.start_run(child, "go", run_id="alone")
            await alone.wait(timeout=300)
            (denied,) = await data_of(runtime, CHILD, "action.result")
            (made,) = await data_of(runtime, "alone", "action.result")
        assert (denied["status"], made["status"]) == ("rejected", "completed")

    play(story())


def test_a_call_of_a_subagent_is_judged_like_any_other() -> None:
    async def story() -> None:
        deny = PolicySet((Rule("no", "deny", reason="Do it yourself.", tools=("reader",)),))
        root = lead(policy=deny)
        async with AgentRuntime.in_memory([root]) as runtime:
            assert (await (await start(runtime, root)).wait(timeout=300)).output == "Tea, then."
            assert await runtime.sessions.descendants("s1") == ()
        assert said(root)[-1].content == "Do it yourself."

    play(story())


def test_hooks_and_the_host_policy_see_the_result_of_a_subagent() -> None:
    class Wary:
        version = "1"

        def before(self, call: CallFacts, *, is_attended: bool) -> AllowDecision:
            return AllowDecision(code="ok", reason="Yes.", policy_refs=())

        def after(self, call: CallFacts, output: JsonValue) -> AllowDecision | DenyDecision:
            seen.append((call.tool, output))
            if call.tool == "reader":
                return DenyDecision(code="no", reason="Not that.", policy_refs=())
            return AllowDecision(code="ok", reason="Yes.", policy_refs=())

    seen: list[tuple[str, JsonValue]] = []
    heard: list[JsonValue] = []

    @hook("after_tool_call", timeout_ms=30_000)
    async def listens(call: HookCall) -> None:
        heard.append(call.result)

    async def story() -> None:
        root = lead(hooks=[listens])
        async with AgentRuntime.in_memory([root], tool_policy=Wary()) as runtime:
            assert (await (await start(runtime, root)).wait(timeout=300)).output == "Tea, then."
        assert said(root)[-1].content == "The call ran; its result is withheld: Not that."

    play(story())
    assert seen == [("look", "tea is there"), ("reader", "It is tea.")]
    assert heard == ["It is tea."]


def test_a_demo_model_shows_a_subagent() -> None:
    async def story() -> None:
        child = Agent("reader", description="Reads.", model=DemoModel(), tools=[look])
        root = Agent("lead", model=DemoModel(), subagents=[child])
        async with AgentRuntime.in_memory([root]) as runtime:
            handle = await runtime.start_run(root, "Ask the reader to look.", run_id="r1")
            output = (await handle.wait(timeout=300)).output
        assert output.startswith("reader says: look says:")

    play(story())


def test_the_start_policy_decides_about_subagents_too() -> None:
    def policy(request: RunRequest, package: RuntimePackage) -> AllowDecision | DenyDecision:
        if request.agent_id == "reader":
            return DenyDecision(code="no.readers", reason="No.", policy_refs=())
        return AllowDecision(code="ok", reason="Yes.", policy_refs=())

    async def story() -> None:
        root = lead()
        async with AgentRuntime.in_memory([root], start_policy=policy) as runtime:
            assert (await (await start(runtime, root)).wait(timeout=300)).output == "Tea, then."
        assert said(root)[-1].content == "The subagent was not started: no.readers: No."

    play(story())


def test_secrets_are_masked_on_their_way_to_a_subagent_and_back(opened: Open) -> None:
    secret = "swordfish-7731"

    async def story() -> None:
        child = reader(say(f"I know {secret}"))
        root = lead(ask(message=f"Use {secret}"), say("done"), reads=child)
        async with opened([root], secrets=[secret]) as runtime:
            await (await start(runtime, root)).wait(timeout=300)
            everything = [await records(runtime, run_id) for run_id in ("r1", CHILD)]
        assert secret not in repr(everything)
        assert secret not in said(child)[-1].content

    play(story())


def test_secrets_are_masked_in_posts_to_other_sessions() -> None:
    post = Post("s2", "start", "k", {"message": "Use swordfish-7731"})
    (kept,) = RedactingScribe(["swordfish-7731"])([Draft("subagent.called", "", {}, posts=(post,))])
    assert "swordfish" not in repr(kept)


# agents


def test_a_runtime_has_the_subagents_of_its_agents_and_takes_them_by_themselves_as_well() -> None:
    async def story() -> None:
        child = reader()
        root = lead(reads=child)
        for agents in ([root, child], [child, root], [root]):
            async with AgentRuntime.in_memory(agents) as runtime:
                assert (
                    await (await runtime.start_run("reader", "go")).wait(timeout=300)
                ).output == "It is tea."

    play(story())


def test_two_agents_of_one_name_are_refused() -> None:
    with pytest.raises(Rejected, match="has a subagent reader, and another agent has the same name"):
        AgentRuntime.in_memory([reader(instructions="Be quick."), lead()])
