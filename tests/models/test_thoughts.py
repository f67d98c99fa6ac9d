"""Signed reasoning: returned to the model unchanged or left out."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.models.wire import ANTHROPIC, Json, Reply, anthropic_blocks, ask, play, serving
from tests.runtime.runtime_rig import until

from windlass import Agent, AgentRuntime, tool
from windlass.models import ModelSettings
from windlass.ports.model import LLMMessage
from windlass_protocol import JsonObject, ToolCall

THINKS = ModelSettings(body={"thinking": {"type": "enabled", "budget_tokens": 1024}})
SIGNED: list[tuple[Json, list[Json]]] = [
    (
        {"type": "thinking", "thinking": "So. ", "signature": ""},
        [
            {"type": "thinking_delta", "thinking": "Hm."},
            {"type": "signature_delta", "signature": "AB"},
            {"type": "signature_delta", "signature": "C="},
        ],
    ),
    ({"type": "redacted_thinking", "data": "Zm9v"}, []),
    ({"type": "thinking", "thinking": "Yes.", "signature": "D="}, []),
]
BLOCKS = [
    {"type": "thinking", "thinking": "So. Hm.", "signature": "ABC="},
    {"type": "redacted_thinking", "data": "Zm9v"},
    {"type": "thinking", "thinking": "Yes.", "signature": "D="},
]
CALL: tuple[Json, list[Json]] = ({"type": "tool_use", "id": "c1", "name": "look", "input": {}}, [])


def kept() -> JsonObject:
    """The provider data of the signed reasoning."""
    found: list[JsonObject | None] = []

    async def work() -> None:
        async with serving(Reply(anthropic_blocks([*SIGNED, CALL], "tool_use"))) as server:
            provider = ANTHROPIC.make(server.url, THINKS)
            found.extend([chunk.provider_data async for chunk in provider.stream([LLMMessage("user", "Hi")])])
            await provider.aclose()

    play(work)
    (data,) = [one for one in found if one is not None]
    return data


def story(**changes: Any) -> list[LLMMessage]:
    """A question, a call that was thought out, and its result."""
    asked = LLMMessage(
        "assistant",
        tool_calls=(ToolCall(id="c1", name="look", arguments={}),),
        reasoning="So. Hm.Yes.",
        provider_options=kept(),
    )
    result = LLMMessage("tool", "tea", tool_call_id="c1", name="look")
    return [LLMMessage("user", "Find it."), replace(asked, **changes), result]


def sent(messages: Sequence[LLMMessage], settings: ModelSettings = THINKS) -> Json:
    _, [asked] = ask(ANTHROPIC, Reply(ANTHROPIC.text(["ok"])), messages=messages, settings=settings)
    return asked.body


def kinds(body: Json, turn: int = 1) -> list[str]:
    return [block["type"] for block in body["messages"][turn]["content"]]


def test_signed_thoughts_go_back_before_the_call_that_they_led_to() -> None:
    body = sent(story())
    assert body["messages"][1]["content"][:3] == BLOCKS
    assert kinds(body)[3:] == ["tool_use"]
    assert "thinking" in body, "so the model may go on thinking"


def test_a_later_call_without_thoughts_is_of_the_same_turn() -> None:
    again = LLMMessage("assistant", tool_calls=(ToolCall(id="c2", name="look", arguments={}),))
    body = sent([*story(), again, LLMMessage("tool", "milk", tool_call_id="c2", name="look")])
    assert "thinking" in body
    assert kinds(body, 3) == ["tool_use"]


@pytest.mark.parametrize(
    "changes",
    [
        {"reasoning": "So. Hm.No!!"},
        {"reasoning": None},
        {"provider_options": None},
        {"provider_options": {"anthropic": "masked"}},
        {"provider_options": {"other": {"model": "m"}}},
    ],
)
def test_thoughts_that_are_not_as_the_model_wrote_them_are_left_out(changes: Json) -> None:
    body = sent(story(**changes))
    assert kinds(body) == ["tool_use"]
    assert "thinking" not in body, "the API would refuse to think on"


@pytest.mark.parametrize(("name", "value"), [("model", "another"), ("blocks", "[masked]"), ("digest", None)])
def test_altered_reasoning_is_left_out(name: str, value: str | None) -> None:
    data = kept()["anthropic"]
    assert isinstance(data, dict)
    changed = {"anthropic": {**data, name: value}}
    assert kinds(sent(story(provider_options=changed))) == ["tool_use"]


def test_a_model_that_does_not_think_gets_no_thoughts() -> None:
    body = sent(story(), ModelSettings())
    assert kinds(body) == ["tool_use"]
    assert "thinking" not in body


def test_an_answer_without_signatures_has_nothing_to_be_kept() -> None:
    blocks: list[tuple[Json, list[Json]]] = [({"type": "thinking", "thinking": "Hm."}, []), CALL]
    found: list[JsonObject | None] = []

    async def work() -> None:
        async with serving(Reply(anthropic_blocks(blocks, "tool_use"))) as server:
            provider = ANTHROPIC.make(server.url, THINKS)
            found.extend([chunk.provider_data async for chunk in provider.stream([LLMMessage("user", "Hi")])])
            await provider.aclose()

    play(work)
    assert found
    assert not any(found)


@tool(mode="external")
async def look() -> str:
    """Look; the default policy asks first."""
    return "tea"


def test_the_thoughts_of_a_run_go_back_also_after_a_restart(tmp_path: Path) -> None:
    async def work() -> list[Json]:
        replies = (Reply(anthropic_blocks([*SIGNED, CALL], "tool_use")), Reply(ANTHROPIC.text(["Tea."])))
        async with serving(*replies) as server:
            for is_again in (False, True):
                provider = ANTHROPIC.make(server.url, THINKS)
                agent = Agent("helper", model=provider, tools=[look])
                async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
                    handle = await runtime.start_run(agent, "Find it.", run_id="r1", session_id="s")
                    if is_again:
                        (request,) = await handle.open_requests()
                        await handle.answer(request.request_id, "approve")
                        assert (await handle.wait(timeout=300)).output == "Tea."
                    else:
                        await until(handle, "run.waiting")
                await provider.aclose()
            return [asked.body for asked in server.asked]

    _, second = play(work)
    assert second["messages"][1]["content"][:3] == BLOCKS
