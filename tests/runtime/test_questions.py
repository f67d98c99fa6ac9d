"""Questions to people, and messages to a running run, in a real runtime."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest
from pydantic import JsonValue
from tests.runtime.runtime_rig import play, until

from windlass import Agent, AgentRuntime, PolicySet, Rule, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.system import SystemClock
from windlass.agent.policy import allow_start
from windlass.engine.driving.inbox import ANSWER
from windlass.errors import Conflict, Rejected, Unavailable
from windlass.feed import Feed
from windlass.limits import OPTIONS_MAX
from windlass.ports.inbox import STEER, NewRun, Posted
from windlass.ports.model import LLMMessage, LLMStreamChunk
from windlass.runtime.handle import RunHandle
from windlass.testing import Answer, ScriptedModel, by_history, call, say
from windlass.testing.stores import WrappedStore
from windlass.tools.question import ask_question
from windlass_protocol import (
    ErrorKind,
    InputRequest,
    InputResponse,
    JsonObject,
    RetryClass,
    SessionCapabilities,
)

COLOURS: list[JsonObject] = [{"id": "red", "label": "Deep red"}, {"id": "blue", "label": "Blue"}]


def asking(arguments: Mapping[str, JsonValue] | None = None) -> Answer:
    return call("ask_question", {"prompt": "Which colour?", **(arguments or {})})


def painter(*script: Answer) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(by_history(script))
    return Agent("painter", model=model, tools=[ask_question]), model


async def the_request(handle: RunHandle) -> InputRequest:
    await until(handle, "run.waiting")
    (request,) = await handle.open_requests()
    return request


def test_a_question_waits_over_a_restart_and_its_answer_is_the_result(tmp_path: Path) -> None:
    script = (asking({"options": [*COLOURS]}), say("painted"))

    async def story() -> None:
        agent, _ = painter(*script)
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "paint", session_id="s1", run_id="r1")
            request = await the_request(handle)
            assert (request.prompt, request.kind, request.allow_freeform) == (
                "Which colour?",
                "question",
                False,
            )
        agent, model = painter(*script)
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent]) as runtime:
            handle = runtime.handle("r1")
            with pytest.raises(Rejected, match="has no option"):
                await handle.answer(request.request_id, text="green")
            await handle.answer(request.request_id, text=" deep RED")
            result = await handle.wait(timeout=300)
            assert result.output == "painted"
        assert model.requests[0].messages[-1].content == '{"status":"answered","optionId":"red"}'

    play(story())


def test_a_question_without_options_takes_any_words() -> None:
    async def story() -> None:
        agent, model = painter(asking(), say("painted"))
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "paint")
            request = await the_request(handle)
            assert request.display == "text"
            await handle.answer(request.request_id, text="a warm one")
            await handle.wait(timeout=300)
        assert model.requests[1].messages[-1].content == '{"status":"answered","text":"a warm one"}'

    play(story())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"options": [COLOURS[0], COLOURS[0]]}, "two options have the same id"),
        ({"allow_freeform": False}, "must allow a free text"),
        ({"options": [{"id": str(n), "label": "x"} for n in range(OPTIONS_MAX + 1)]}, "do not fit"),
        ({"prompt": ""}, "do not fit"),
        ({"options": [{"id": "a"}]}, "do not fit"),
    ],
)
def test_an_invalid_question_is_an_error_result_for_the_model(arguments: JsonObject, told: str) -> None:
    async def story() -> None:
        agent, model = painter(asking(arguments), say("never mind"))
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "paint")
            assert (await handle.wait(timeout=300)).output == "never mind"
        assert told in model.requests[1].messages[-1].content

    play(story())


@pytest.mark.parametrize("where", ["runtime", "channel"])
def test_the_question_tool_is_not_offered_where_no_person_can_be_asked(where: str) -> None:
    async def story() -> None:
        agent, model = painter(asking(), say("guessed"))
        async with AgentRuntime.in_memory([agent], is_attended=where == "channel") as runtime:
            capabilities = SessionCapabilities(request_input=where != "channel")
            handle = await runtime.start_run(agent, "paint", capabilities=capabilities)
            assert (await handle.wait(timeout=300)).output == "guessed"
        assert model.requests[0].tools == ()
        assert "No person can be asked" in model.requests[1].messages[-1].content

    play(story())


# words to a run


class Slow:
    """A tool that waits until the test lets it go on."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

        @tool(mode="read")
        async def look() -> str:
            self.begun.set()
            await self.go_on.wait()
            return "seen"

        self.tool = look


def roles(messages: Sequence[LLMMessage]) -> list[str]:
    return [message.role for message in messages]


def test_a_message_to_a_run_is_taken_after_the_running_tools() -> None:
    async def story() -> None:
        slow, model = Slow(), ScriptedModel([call("look"), say("brief")])
        agent = Agent("a", model=model, tools=[slow.tool])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "tell me", session_id="s1", run_id="r1")
            await slow.begun.wait()
            assert await runtime.steer(agent, "and be brief", session_id="s1", message_id="m1") == "m1"
            await runtime.steer(agent, "and be brief", session_id="s1", message_id="m1")
            with pytest.raises(Conflict):
                await runtime.steer(agent, "something else", session_id="s1", message_id="m1")
            slow.go_on.set()
            assert (await handle.wait(timeout=300)).output == "brief"
            types = [event.type async for event in runtime.handle("r1").events()]
        assert roles(model.requests[1].messages) == ["user", "assistant", "tool", "user"]
        assert model.requests[1].messages[-1].content == "and be brief"
        assert types.count("message.received") == 2
        assert types.count("run.started") == 1

    play(story())


class Held:
    """A model that waits before its first answer until the test lets it go on."""

    def __init__(self) -> None:
        self.writing, self.go_on = asyncio.Event(), asyncio.Event()

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        self.writing.set()
        await self.go_on.wait()
        yield LLMStreamChunk(content_delta=f"heard {len(messages)}", finish_reason="stop")


def test_a_message_during_the_last_answer_continues_the_run() -> None:
    async def story() -> None:
        model = Held()
        agent = Agent("a", model=model)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "tell me", session_id="s1")
            await model.writing.wait()
            await runtime.steer(agent, "one more thing", session_id="s1")
            model.go_on.set()
            assert (await handle.wait(timeout=300)).output == "heard 3"

    play(story())


def test_a_message_to_an_idle_session_starts_a_run(tmp_path: Path) -> None:
    async def story() -> None:
        agent = Agent("a", model=ScriptedModel(lambda messages: say(f"heard {len(messages)}")))
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent]) as runtime:
            await (await runtime.start_run(agent, "hello", session_id="s1")).wait(timeout=300)
            message_id = await runtime.steer(agent, "and again", session_id="s1", message_id="m1")
            run_id = f"steer/s1/{message_id}"
            async with asyncio.timeout(300):
                async for event in runtime.sessions.subscribe("s1"):
                    if event.type == "run.completed" and event.run_id == run_id:
                        break
            result = await runtime.handle(run_id).wait(timeout=300)
            assert result.output == "heard 3"
            await runtime.steer(agent, "and again", session_id="s1", message_id="m1")
            assert (await runtime.handle(run_id).wait(timeout=300)).output == "heard 3"

    play(story())


def test_a_message_to_a_run_that_waits_for_approval_does_not_approve(tmp_path: Path) -> None:
    paid: list[int] = []

    @tool(mode="destructive")
    async def pay(cents: int) -> str:
        paid.append(cents)
        return "paid"

    def shop() -> Agent:
        script = [call("pay", {"cents": 5}), say("all right")]
        return Agent("shop", model=ScriptedModel(by_history(script)), tools=[pay])

    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "app.db", agents=[shop()]) as runtime:
            handle = await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
            request = await the_request(handle)
        async with AgentRuntime.open(tmp_path / "app.db", agents=[shop()]) as runtime:
            await runtime.steer("shop", "approve", session_id="s1")
            assert (await runtime.handle("r1").wait(timeout=300)).output == "all right"
            with pytest.raises(Conflict):
                await runtime.handle("r1").answer(request.request_id, "approve")

    play(story())
    assert paid == []


def test_a_message_with_answers_is_one_step_and_dismisses_the_other_requests() -> None:
    paid: list[int] = []

    @tool(mode="destructive")
    async def pay(cents: int) -> str:
        paid.append(cents)
        return "paid"

    async def story() -> None:
        both = call("pay", {"cents": 5}) + call("pay", {"cents": 6})
        model = ScriptedModel([both, say("all right"), say("never asked")])
        agent = Agent("shop", model=model, tools=[pay])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1")
            await until(handle, "run.waiting")
            first, second = await handle.open_requests()
            given = InputResponse(request_id=first.request_id, option_id="approve")
            wrong = InputResponse(request_id="unknown", option_id="approve")
            with pytest.raises(Conflict):
                await runtime.steer(agent, "not this", session_id="s1", responses=[given, wrong])
            with pytest.raises(Rejected, match="message_id: not with responses"):
                await runtime.steer(agent, "x", session_id="s1", message_id="m1", responses=[given])
            assert len(await handle.open_requests()) == 2
            context = ["it is late"]
            await runtime.steer(agent, "be quick", session_id="s1", context=context, responses=[given])
            assert (await handle.wait(timeout=300)).output == "all right"
            said = [message.content for message in model.requests[1].messages if message.role == "user"]
            assert said == ["go", "it is late", "be quick"]
            outcomes = {
                one["requestId"]: one["outcome"]
                async for event in handle.events()
                if event.type == "input.resolved"
                for one in cast(list[JsonObject], event.data["resolutions"])
            }
            assert outcomes == {first.request_id: "approved", second.request_id: "ignored"}
        assert len(model.requests) == 2

    play(story())
    assert paid == [5]


def test_of_two_answers_at_once_the_second_is_refused(tmp_path: Path) -> None:
    paid: list[int] = []

    @tool(mode="destructive")
    async def pay(cents: int) -> str:
        paid.append(cents)
        return "paid"

    async def story() -> None:
        agent = Agent(
            "shop", model=ScriptedModel(by_history([call("pay", {"cents": 5}), say("done")])), tools=[pay]
        )
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1")
            request = await the_request(handle)
            first, second = await asyncio.gather(
                handle.answer(request.request_id, "approve"),
                handle.answer(request.request_id, "deny"),
                return_exceptions=True,
            )
            assert first is None
            assert isinstance(second, Conflict)
            assert (await handle.wait(timeout=300)).output == "done"

    play(story())
    assert paid == [5]


class Yielding(WrappedStore):
    """A store in which other tasks go on before a message is posted."""

    async def post(
        self, session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None = None
    ) -> Posted:
        for _ in range(100 if kind == STEER else 0):
            await asyncio.sleep(0)
        return await super().post(session_id, kind=kind, key=key, body=body, run=run)


def test_of_two_messages_with_answers_at_once_the_second_is_not_sent() -> None:
    @tool(mode="destructive")
    async def pay(cents: int) -> str:
        return "paid"

    async def story() -> None:
        agent = Agent(
            "shop", model=ScriptedModel(by_history([call("pay", {"cents": 5}), say("done")])), tools=[pay]
        )
        store = Yielding(MemoryStore())
        parts = AgentRuntime.builder().journal(store).event_bus(Feed(store, SystemClock())).content(store)
        async with parts.agent(agent).policy(allow_start).options(is_attended=True).build() as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1")
            request_id = (await the_request(handle)).request_id
            found = await asyncio.gather(
                *(
                    runtime.steer(
                        agent,
                        option,
                        session_id="s1",
                        responses=[InputResponse(request_id=request_id, option_id=option)],
                    )
                    for option in ("approve", "deny")
                ),
                return_exceptions=True,
            )
            assert [type(one) for one in found] == [str, Conflict]
            assert (await handle.wait(timeout=300)).output == "done"
            heard = [
                event.data["message"] async for event in handle.events() if event.type == "message.received"
            ]
            assert heard == ["go", "approve"]

    play(story())


class Meeting(WrappedStore):
    """A store in which two answers are posted only when both are checked."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.both = asyncio.Barrier(2)

    async def post(
        self, session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None = None
    ) -> Posted:
        if kind == ANSWER:
            await self.both.wait()
        return await super().post(session_id, kind=kind, key=key, body=body, run=run)


def test_of_two_answers_of_two_processes_at_once_only_the_first_is_acknowledged() -> None:
    paid: list[int] = []

    @tool(mode="destructive")
    async def pay(cents: int) -> str:
        paid.append(cents)
        return "paid"

    async def story() -> None:
        agent = Agent(
            "shop", model=ScriptedModel(by_history([call("pay", {"cents": 5}), say("done")])), tools=[pay]
        )
        store = Meeting(MemoryStore())

        def process() -> AgentRuntime:
            parts = AgentRuntime.builder().journal(store).event_bus(Feed(store, SystemClock())).content(store)
            return parts.agent(agent).policy(allow_start).options(is_attended=True).build()

        async with process() as one, process() as other:
            handle = await one.start_run(agent, "go", session_id="s1")
            request_id = (await the_request(handle)).request_id
            found = await asyncio.gather(
                handle.answer(request_id, "approve"),
                other.handle(handle.run_id).answer(request_id, "deny"),
                return_exceptions=True,
            )
            assert [one is None for one in found].count(True) == 1
            assert [type(one) for one in found if one is not None] == [Conflict]
            assert (await handle.wait(timeout=300)).output == "done"
            assert paid == ([5] if found[0] is None else [])

    play(story())


def test_a_request_of_a_subagent_is_answered_once_through_its_session_and_that_of_its_caller() -> None:
    @tool(mode="destructive")
    async def pay(cents: int) -> str:
        return "paid"

    async def story() -> None:
        child = Agent(
            "till", model=ScriptedModel(by_history([call("pay", {"cents": 5}), say("x")])), tools=[pay]
        )
        parent = Agent(
            "shop",
            model=ScriptedModel(by_history([call("till", {"message": "x"}), say("done")])),
            subagents=[child],
        )
        store = Meeting(MemoryStore())
        parts = AgentRuntime.builder().journal(store).event_bus(Feed(store, SystemClock())).content(store)
        async with (
            parts.agent(parent).agent(child).policy(allow_start).options(is_attended=True).build() as runtime
        ):
            handle = await runtime.start_run(parent, "go", session_id="s1")
            await until(handle, "input.requested")
            [request] = await handle.open_requests()
            request_id = request.request_id
            [below] = await runtime.sessions.descendants("s1")
            found = await asyncio.gather(
                *(
                    runtime.sessions.answer(where, [InputResponse(request_id=request_id, option_id=option)])
                    for where, option in (("s1", "approve"), (below.session_id, "deny"))
                ),
                return_exceptions=True,
            )
            assert sorted(type(one).__name__ for one in found) == ["Conflict", "NoneType"]
            assert (await handle.wait(timeout=300)).output == "done"

    play(story())


def test_a_message_that_the_store_refuses_answers_nothing() -> None:
    class Refusing(WrappedStore):
        """A store that takes no message for a running run."""

        async def post(
            self, session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None = None
        ) -> Posted:
            if kind == STEER:
                raise Unavailable("gone", kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.RETRYABLE)
            return await super().post(session_id, kind=kind, key=key, body=body, run=run)

    @tool(mode="destructive")
    async def pay(cents: int) -> str:
        return "paid"

    async def story() -> None:
        agent = Agent("shop", model=ScriptedModel([call("pay", {"cents": 5}), say("done")]), tools=[pay])
        store = Refusing(MemoryStore())
        builder = AgentRuntime.builder().journal(store).event_bus(Feed(store, SystemClock())).content(store)
        async with builder.agent(agent).policy(allow_start).options(is_attended=True).build() as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1")
            request = await the_request(handle)
            given = InputResponse(request_id=request.request_id, option_id="approve")
            with pytest.raises(Unavailable):
                await runtime.steer(agent, "be quick", session_id="s1", responses=[given])
            assert [one.is_answered for one in await handle.open_requests()] == [request.is_answered]

    play(story())


def test_a_policy_may_deny_questions() -> None:
    rules = PolicySet((Rule("quiet", "deny", tools=("ask_question",), reason="no questions"),))
    agent = Agent(
        "painter",
        model=ScriptedModel(by_history([asking(), say("painted")])),
        tools=[ask_question],
        policy=rules,
    )

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "paint")
            assert (await handle.wait()).output == "painted"
            events = [event async for event in handle.events()]
            assert "input.requested" not in [event.type for event in events]
            (decided,) = [event for event in events if event.type == "policy.decided"]
            decision = decided.data["decision"]
            assert isinstance(decision, dict)
            assert decision["decision"] == "deny"

    play(story())


def test_a_question_needs_no_approval() -> None:
    rules = PolicySet((Rule("careful", "ask", tools=("ask_question",), reason="first ask"),))
    agent = Agent(
        "painter",
        model=ScriptedModel(by_history([asking(), say("painted")])),
        tools=[ask_question],
        policy=rules,
    )

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "paint")
            assert (await the_request(handle)).kind == "question"

    play(story())
