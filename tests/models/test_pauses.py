"""Answers that Anthropic pauses (`pause_turn`): they are sent back, and go on."""

import pytest
from tests.models.wire import (
    ANTHROPIC,
    HI,
    Json,
    Reply,
    Server,
    anthropic_blocks,
    anthropic_calls,
    anthropic_text,
    collect,
    play,
    serving,
)

from windlass import Agent, AgentRuntime
from windlass.errors import AgentError
from windlass.models import ModelSettings
from windlass.models.anthropic import PAUSES_MAX
from windlass.ports.model import LLMUsage

SEARCH: Json = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
RESULT: Json = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "https://example.com", "title": "Oslo"}],
}
CITATION: Json = {"type": "web_search_result_location", "url": "https://example.com"}


def paused(text: str = "Let me look. ") -> Reply:
    """An answer with a search of the server, which pauses."""
    half = len(text) // 2
    deltas: list[Json] = [{"type": "text_delta", "text": piece} for piece in (text[:half], text[half:])]
    cited: Json = {"type": "citations_delta", "citation": CITATION}
    query: list[Json] = [
        {"type": "input_json_delta", "partial_json": piece} for piece in ('{"query"', ': "Oslo"}')
    ]
    thought: Json = {"type": "thinking", "thinking": "", "signature": ""}
    signed: list[Json] = [
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "c2ln"},
    ]
    blocks: list[tuple[Json, list[Json]]] = [
        (thought, signed),
        ({"type": "text", "text": ""}, [*deltas, cited]),
        (SEARCH, query),
        (RESULT, []),
    ]
    return Reply(anthropic_blocks(blocks, "pause_turn"))


CONTENT: list[Json] = [
    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
    {"type": "text", "text": "Let me look. ", "citations": [CITATION]},
    {**SEARCH, "input": {"query": "Oslo"}},
    RESULT,
]


def test_a_paused_answer_is_sent_back_as_it_came_and_goes_on() -> None:
    async def work() -> None:
        replies = (paused(), paused(), Reply(anthropic_text(["It ", "rains."])))
        async with serving(*replies) as server:
            provider = ANTHROPIC.make(server.url, ModelSettings(is_cached=False))
            heard = await collect(provider.stream(HI))
            await provider.aclose()
        assert (heard.text, heard.finish) == ("Let me look. Let me look. It rains.", "end_turn")
        assert heard.usage == LLMUsage(36, 15, cache_read_tokens=24, cache_write_tokens=3, reasoning_tokens=6)
        first, second, third = (one.body for one in server.asked)
        question = first["messages"]
        assert second == {**first, "messages": [*question, {"role": "assistant", "content": CONTENT}]}
        again = {"role": "assistant", "content": [*CONTENT, *CONTENT]}
        assert third == {**first, "messages": [*question, again]}

    play(work)


def test_calls_after_a_pause_are_calls_of_the_answer() -> None:
    async def work() -> None:
        calls = Reply(anthropic_calls([("call_a", "look", ['{"n": 1}']), ("call_b", "look", ["{}"])]))
        async with serving(paused(), calls) as server:
            provider = ANTHROPIC.make(server.url, ModelSettings())
            heard = await collect(provider.stream(HI))
            await provider.aclose()
        assert heard.calls == {0: ["call_a", "look", '{"n": 1}'], 1: ["call_b", "look", "{}"]}
        assert heard.finish == "tool_use"

    play(work)


async def _ask_endless(server: Server) -> None:
    provider = ANTHROPIC.make(server.url, ModelSettings())
    try:
        await collect(provider.stream(HI))
    finally:
        await provider.aclose()


def test_an_answer_that_is_paused_again_and_again_fails() -> None:
    async def work() -> None:
        async with serving(paused()) as server:
            with pytest.raises(AgentError, match=f"more than {PAUSES_MAX} times"):
                await _ask_endless(server)
            assert len(server.asked) == PAUSES_MAX + 1

    play(work)


def test_a_run_goes_on_after_a_pause() -> None:
    async def work() -> None:
        async with serving(paused("Wait. "), Reply(anthropic_text(["It rains."]))) as server:
            provider = ANTHROPIC.make(server.url, ModelSettings())
            agent = Agent("searcher", model=provider)
            async with AgentRuntime.in_memory([agent]) as runtime:
                result = await (await runtime.start_run(agent, "Weather?", session_id="s")).wait()
            await provider.aclose()
        assert (result.status, result.output) == ("completed", "Wait. It rains.")

    play(work)
