"""One loop: the steps and an `AgentRuntime` write the same records about the same story."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.steps.steps_rig import Stage, add, guarded, play

from windlass.agent.agent import Agent, output_contract
from windlass.errors import Rejected, Unavailable
from windlass.parts import Machine
from windlass.ports.feed import EventStream
from windlass.runtime.compose import AgentRuntime
from windlass.testing import Answer, FakeClock, ScriptedModel, by_history, call, fail, run_in_fake_time, say
from windlass.tools import ToolFailed, tool
from windlass.tools.question import ask_question
from windlass_harness.budget import Budget
from windlass_protocol import (
    ErrorKind,
    Event,
    InputRequest,
    InputResponse,
    JsonObject,
    JsonValue,
    RetryClass,
    RunMode,
    SessionCapabilities,
    StepInput,
)

SESSION = "s1"
SCHEMA: JsonObject = {
    "title": "output",
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
}
COLORS: JsonObject = {"prompt": "Which?", "options": [{"id": "red", "label": "Red"}]}
BUSY = Unavailable("busy", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.RETRYABLE)
NO_MODEL = Rejected("no such model", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.NOT_RETRYABLE)
NOT_OF_THE_LOOP = {"packageFingerprint", "packageId", "routeId", "modelId", "messageId", "answerId", "epoch"}
"""Names that the host gives, and the number of the owner: a session of steps has one."""
WAITS = {"run.waiting", "session.waiting", "session.completed", "session.failed"}
ROUNDS_MAX = 8


@tool(mode="safe_write", approval="once")
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@tool(mode="read")
async def broken() -> str:
    """Fail."""
    raise ToolFailed("no luck")


TOOLS = (add, broken, guarded, pay)


@dataclass(frozen=True, slots=True)
class Story:
    """Model answers, answers of people, and limits of the run."""

    answers: tuple[Answer, ...]
    words: tuple[str, ...] = ()
    mode: RunMode = RunMode.CONVERSATION
    has_schema: bool = False
    budget: Budget | None = None
    can_ask: bool = True

    @property
    def model(self) -> ScriptedModel:
        """A model that chooses its next answer from the history."""
        return ScriptedModel(by_history([*self.answers, *[say("The end.")] * (ROUNDS_MAX + 4)]))

    @property
    def capabilities(self) -> SessionCapabilities:
        """The capabilities of the channel."""
        return SessionCapabilities(request_input=self.can_ask)


def answers_to(requests: Sequence[InputRequest], word: str) -> tuple[InputResponse, ...]:
    """Answer all requests, each with the option of that name if it has one."""
    answers: list[InputResponse] = []
    for request in requests:
        ids = [option.id for option in request.options or ()]
        option = word if word in ids else next(iter(ids), None)
        text = word if option is None else None
        answers.append(InputResponse(request_id=request.request_id, option_id=option, text=text))
    return tuple(answers)


def plain(data: JsonValue) -> JsonValue:
    """Return data without the fields that the loop does not decide."""
    if isinstance(data, list):
        return [plain(one) for one in data]
    if isinstance(data, dict):
        return {key: plain(value) for key, value in data.items() if key not in NOT_OF_THE_LOOP}
    return data


def told_agent(data: JsonObject) -> JsonObject:
    """Return `session.started` without the model, which is another; a runtime sorts its tools by name."""
    agent = cast(JsonObject, data["agent"])
    tools = sorted(cast(list[JsonObject], agent["tools"]), key=lambda tool: str(tool["name"]))
    return {**data, "agent": {"system": agent["system"], "tools": [*tools]}}


def records(events: Sequence[Event]) -> list[tuple[str, JsonValue]]:
    """Return the records among events: deltas are not kept."""
    return [
        (event.type, plain(told_agent(event.data) if event.type == "session.started" else event.data))
        for event in events
        if not event.type.endswith(".appended")
    ]


async def until_it_waits(stream: EventStream, seen: list[Event]) -> bool:
    """Read on until the session waits; return whether it waits for people."""
    async for event in stream:
        seen.append(event)
        if event.type in WAITS:
            return event.type == "run.waiting"
    raise AssertionError("the stream of a session does not end")


async def by_runtime(story: Story, clock: FakeClock) -> list[Event]:
    agent = Agent("agent", instructions="You help.", model=story.model, tools=[*TOOLS, ask_question])
    ids = count()
    machine = Machine(clock, lambda: f"id{next(ids)}", lambda: 0.5)
    contract = output_contract(SCHEMA, "output").model_copy(update={"max_repair_attempts": 2})
    events: list[Event] = []
    async with AgentRuntime.in_memory([agent], machine=machine, retry_for_ms=0) as runtime:
        stream = runtime.sessions.subscribe(SESSION)
        await runtime.start_run(
            agent,
            "Begin.",
            session_id=SESSION,
            run_id=f"{SESSION}/0",
            mode=story.mode,
            capabilities=story.capabilities,
            budget=story.budget,
            output=contract if story.has_schema else None,
        )
        is_asking = await until_it_waits(stream, events)
        for word in story.words[:ROUNDS_MAX]:
            if not is_asking:
                break
            if word == "message":
                await runtime.steer(agent, "And then?", session_id=SESSION)
            else:
                requests = await runtime.sessions.open_requests(SESSION)
                await runtime.sessions.answer(SESSION, answers_to(requests, word))
            is_asking = await until_it_waits(stream, events)
        await stream.aclose()
    return events


def by_steps(story: Story, keeps_objects: bool) -> list[Event]:
    stage = Stage(keeps=lambda steps: keeps_objects)
    tools = {tool.name: tool for tool in TOOLS}
    capabilities = story.capabilities
    stage.harness(
        lambda: story.model, mode=story.mode, tools=tools, capabilities=capabilities, budget=story.budget
    )

    async def told() -> None:
        schema = SCHEMA if story.has_schema else None
        await stage.send(StepInput(message="Begin.", output_schema=schema))
        for word in story.words[:ROUNDS_MAX]:
            if not stage.requests:
                return
            answers = answers_to(stage.requests, word)
            is_message = word == "message"
            await stage.send("And then?" if is_message else StepInput(input_responses=answers))

    play(told(), stage)
    return stage.events


def compare(story: Story, *, keeps_objects: bool = True) -> list[tuple[str, JsonValue]]:
    clock = FakeClock()
    expected = records(run_in_fake_time(by_runtime(story, clock), clock=clock))
    assert records(by_steps(story, keeps_objects)) == expected
    return expected


TWO_CALLS = call("add", {"a": 1, "b": 2}) + call("guarded", {"x": 1}) + call("ask_question", COLORS)


@pytest.mark.parametrize(
    ("story", "shown"),
    [
        (Story((say("Hi.", reasoning="Hm."),)), "reasoning.completed"),
        (Story((call("add", {"a": 1, "b": 2}), call("broken"), say("3."))), "action.result"),
        (Story((call("guarded", {"x": 1}),), ("approve",)), "action.started"),
        (Story((call("guarded", {"x": 1}),), ("deny",)), "approval.settled"),
        (Story((call("guarded", {"x": 1}),), ("message",)), "message.received"),
        (Story((call("guarded", {"x": 1}),), can_ask=False), "policy.decided"),
        (
            Story((call("pay", {"cents": 1}), call("pay", {"cents": 2})), ("approve_session",)),
            "approval.settled",
        ),
        (Story((call("ask_question", COLORS),), ("red",)), "input.resolved"),
        (Story((call("ask_question", {"prompt": "Name?"}),), ("Bob",)), "input.resolved"),
        (Story((TWO_CALLS,), ("approve",)), "run.resumed"),
        (Story((say('{"n": 1}'),), mode=RunMode.TASK, has_schema=True), "result.completed"),
        (Story((say("one"), say('{"n": 1}')), has_schema=True), "output.rejected"),
        (Story((say("one"),) * 3, mode=RunMode.TASK, has_schema=True), "output.failed"),
        (Story((call("add", {"a": 1, "b": 2}),) * 3, budget=Budget(max_steps=2)), "budget.exhausted"),
        (Story((TWO_CALLS,), budget=Budget(max_tool_calls=0)), "run.budget_exhausted"),
        (Story((fail(NO_MODEL),), mode=RunMode.TASK), "run.failed"),
        (Story((fail(BUSY),) * 3), "step.retrying"),
        (Story((call("nothing"),) * 7), "run.failed"),
        (Story((Answer(),)), "run.failed"),
    ],
)
def test_a_story_has_the_same_records_in_a_runtime_and_in_steps(story: Story, shown: str) -> None:
    assert shown in [kind for kind, _ in compare(story)]


PARTS = st.sampled_from(
    [
        say("Some words. "),
        say("Thought out.", reasoning="Hm."),
        say('{"n": 1}'),
        call("add", {"a": 1, "b": 2}),
        call("add", {"a": "x"}),
        call("broken"),
        call("nothing", {}),
        call("guarded", {"x": 1}),
        call("pay", {"cents": 1}),
        call("ask_question", COLORS),
        call("ask_question", {"prompt": "Name?"}),
        Answer(),
        Answer("half", error=NO_MODEL),
    ]
)


def joined(parts: Sequence[Answer]) -> Answer:
    whole = Answer()
    for part in parts:
        whole += part
    return whole


STORIES = st.builds(
    Story,
    answers=st.lists(st.lists(PARTS, min_size=1, max_size=3).map(joined), max_size=5).map(tuple),
    words=st.lists(
        st.sampled_from(["approve", "approve_session", "deny", "red", "free text", "message"]), max_size=6
    ).map(tuple),
    mode=st.sampled_from(RunMode),
    has_schema=st.booleans(),
    budget=st.sampled_from([None, Budget(max_steps=2), Budget(max_tool_calls=1)]),
    can_ask=st.booleans(),
)


@pytest.mark.slow
@settings(deadline=None)
@given(story=STORIES, keeps_objects=st.booleans())
def test_any_story_has_the_same_records_in_a_runtime_and_in_steps(story: Story, keeps_objects: bool) -> None:
    compare(story, keeps_objects=keeps_objects)
