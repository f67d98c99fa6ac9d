"""Prompts in the caches of providers: our own prompts never break them, and a record says what did."""

import json
import logging
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, cast

import pytest
from tests.models.wire import WIRES, Json, Reply, Wire, frame, serving
from tests.story import play

from windlass import Agent, AgentRuntime, LLMUsage, RunStatus, ToolContext, tool
from windlass.agent.dynamic import DynamicContext, dynamic
from windlass.models import ModelSettings
from windlass.testing import Answer, ScriptedModel, call, say
from windlass.tools import Tool
from windlass_harness.record import Record
from windlass_protocol import PromptPart
from windlass_protocol.generated import records

STEPS: Final = 100
STEERED, COMPACTED = 30, 60
"""The steps at which a person steers, and after which the history is compacted."""


def without_marks(value: Any) -> Any:
    """A part of a request without the marks of its cache."""
    match value:
        case list():
            return [
                without_marks(item) for item in cast(list[Any], value) if "cachePoint" not in str(item)[:20]
            ]
        case dict():
            fields = cast(Json, value)
            return {name: without_marks(item) for name, item in fields.items() if name != "cache_control"}
        case _:
            return value


def prompt_of(wire: Wire, body: Json) -> list[str]:
    """The parts of a request in the order in which providers cache them; messages are cut into blocks."""
    head = [
        without_marks(body.get(name))
        for name in ("tools", "toolConfig", "system", "systemInstruction", "instructions")
    ]
    parts: list[object] = [head]
    for message in without_marks(body[wire.said]):
        blocks: object = message.get("content") or message.get("parts")
        if isinstance(blocks, list):
            parts += [[message["role"], block] for block in cast(list[object], blocks)]
        else:
            parts.append(message)
    return [json.dumps(part) for part in parts]


def with_tokens(wire: Wire, pieces: Sequence[bytes], tokens: int) -> list[bytes]:
    """An answer to a prompt of so many tokens."""
    if not wire.is_sse:
        return [*pieces[:-1], frame("metadata", {"usage": {"inputTokens": tokens, "outputTokens": 5}})]
    return [_INPUT.sub(rb'"\g<1>": %d' % tokens, piece) for piece in pieces]


_INPUT: Final = re.compile(rb'"(prompt_tokens|input_tokens|promptTokenCount)": \d+')


def replies(wire: Wire) -> Iterable[Reply]:
    """The answers of a long walk: calls, several at once, a prompt that is too long, and text."""
    for step in range(STEPS):
        count = 3 if step % 10 == 5 else 1
        calls = [(f"c{step}_{at}", "walk", [json.dumps({"to": step})]) for at in range(count)]
        yield Reply(with_tokens(wire, wire.calls(calls), 200_000 if step == COMPACTED else 20_000))
    yield Reply(wire.text(["Arrived."]))


def instructions(context: DynamicContext) -> str:
    return f"You guide walkers of the plan {context.state.get('plan', 'free')}."


def more_tools(_: DynamicContext) -> list[Tool[..., object]]:
    @tool(mode="read")
    async def weather(place: str) -> str:
        """Look up the weather."""
        return f"{place}: rain"

    return [weather]


@pytest.mark.parametrize("name", [*WIRES])
def test_a_long_run_never_breaks_the_cache_itself(name: str) -> None:
    wire = WIRES[name]

    @tool(mode="read")
    async def walk(context: ToolContext, to: int) -> str:
        """Walk to a stone."""
        if to == STEERED:
            await runtimes[0].steer("guide", "Mind the river.", session_id=context.session_id)
        return f"stone {to} " * 200

    runtimes: list[AgentRuntime] = []

    async def story() -> list[list[str]]:
        async with serving(*replies(wire)) as server:
            model = wire.make(server.url, ModelSettings())
            agent = Agent(
                "guide",
                model=model,
                instructions=instructions,
                tools=[walk, dynamic(more_tools, at="step")],
                compaction_model=ScriptedModel(lambda _: say("They walked far.")),
            )
            async with AgentRuntime.in_memory([agent]) as runtime:
                runtimes.append(runtime)
                handle = await runtime.start_run(agent, "Walk.", session_id="walk")
                assert (await handle.wait()).status is RunStatus.COMPLETED
            await model.aclose()
            return [prompt_of(wire, request.body) for request in server.asked]

    prompts = play(story())
    assert len(prompts) == STEPS + 1
    broken = [at for at, (before, after) in enumerate(pairwise(prompts), 1) if after[: len(before)] != before]
    # The compaction replaces the messages, and nothing else.
    assert broken == [COMPACTED + 1]
    assert prompts[-1][0] == prompts[0][0]
    assert any("Mind the river." in part for part in prompts[STEERED + 1])


def report(read: int, written: int) -> LLMUsage:
    return LLMUsage(1_000, 10, cache_read_tokens=read, cache_write_tokens=written)


def with_usage(answer: Answer, usage: LLMUsage) -> Answer:
    return answer + Answer(usage=usage)


def caches(found: Sequence[Record]) -> list[records.PromptCache | None]:
    return [record.body.cache for record in found if isinstance(record.body, records.StepCompleted)]


@tool(mode="read")
async def look() -> str:
    """Look around."""
    return "a river"


def plan_of(context: DynamicContext) -> str:
    return f"Step {context.step_index}." if (context.step_index or 0) > 1 else "Be kind."


@pytest.mark.parametrize(
    ("options", "part"),
    [({"instructions": dynamic(plan_of, at="step")}, PromptPart.SYSTEM), ({}, None)],
)
def test_tokens_that_are_paid_again_are_in_the_record_and_in_the_log(
    options: dict[str, Any], part: PromptPart | None, caplog: pytest.LogCaptureFixture
) -> None:
    usages = [report(0, 900), report(900, 60), report(0, 1_000), report(1_000, 0)]
    answers = [with_usage(call("look"), usage) for usage in usages[:3]]
    model = ScriptedModel([*answers, with_usage(say("Done."), usages[3])])

    async def story() -> Sequence[Record]:
        agent = Agent("clerk", model=model, tools=[look], **options)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "Hi", run_id="r1")
            await handle.wait()
            return await runtime.sessions.records(await handle.session_id())

    with caplog.at_level(logging.INFO, "windlass.engine.model_calls.model_effects"):
        found = caches(play(story()))
    losses = [None if cache is None else cache.loss for cache in found]
    assert losses == [
        None,
        None,
        records.CacheLoss(tokens=960, part=part, index=None if part is None else 0),
        None,
    ]
    (line,) = [
        record for record in caplog.records if record.name == "windlass.engine.model_calls.model_effects"
    ]
    assert line.getMessage().startswith("run r1, model call 3: paid again for 960 tokens")
    assert line.levelno == (logging.INFO if part is None else logging.WARNING)


def test_a_changed_tool_is_named_also_by_the_process_after_a_restart(tmp_path: Path) -> None:
    def agent(usage: LLMUsage, *tools: Tool[..., object]) -> Agent:
        return Agent("clerk", model=ScriptedModel(lambda _: say("Yes.", usage=usage)), tools=tools)

    @tool(mode="read", name="look")
    async def look_far() -> str:
        """Look far around."""
        return "hills"

    async def story() -> Sequence[Record]:
        path = str(tmp_path / "a.db")
        for usage, changing in ((report(0, 900), look), (report(0, 950), look_far)):
            clerk = agent(usage, tool_of("zoom"), changing)
            async with AgentRuntime.open(path, agents=[clerk]) as runtime:
                await (await runtime.start_run(clerk, "Hi", session_id="s")).wait()
                found = await runtime.sessions.records("s")
        return found

    first, second = caches(play(story()))
    assert first is not None
    assert second is not None
    assert [part.partition(":")[0] for part in first.added] == ["tool", "tool", "message"]
    assert second.loss == records.CacheLoss(tokens=900, part=PromptPart.TOOL, index=0, name="look")


def tool_of(name: str) -> Tool[..., object]:
    @tool(mode="read", name=name)
    async def read() -> str:
        """Read a page."""
        return "text"

    return read


def test_a_model_without_a_cache_records_no_prompts() -> None:
    async def story() -> Sequence[Record]:
        agent = Agent("clerk", model=ScriptedModel([call("look"), say("Done.")]), tools=[look])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "Hi")
            await handle.wait()
            return await runtime.sessions.records(await handle.session_id())

    assert caches(play(story())) == [None, None]
