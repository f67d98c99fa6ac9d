"""Prompted tools, for models without tool calls."""

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.cpu import run_within
from tests.models.wire import HI, OPENAI, Collected, Reply, collect, play, serving

from windlass import Agent, LLMMessage, LLMStreamChunk, tool
from windlass.limits import ARGUMENT_VALUES_MAX, MODEL_TEXT_CHARS_MAX
from windlass.models import ModelSettings, PromptedTools
from windlass.models.messages import TurnCache
from windlass.models.prompted import BEGINNING_CHARS_MAX, step_schema, take_words, write_prompt
from windlass.ports.model import ModelFault, ModelUnavailable
from windlass.testing import Answer, ScriptedModel, say
from windlass_protocol import JsonObject, RunStatus, ToolCall

ITEM: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
LOOK: JsonObject = {
    "name": "look",
    "description": "Find a thing.",
    "inputSchema": {
        "type": "object",
        "properties": {"item": {"$ref": "#/$defs/Item"}},
        "required": ["item"],
        "$defs": {"Item": ITEM},
    },
}
BARE: JsonObject = {"name": "bare", "description": "", "inputSchema": None}


def step(text: str, *, size: int | None = None, tools: Sequence[JsonObject] = (LOOK, BARE)) -> Collected:
    model = PromptedTools(ScriptedModel([say(text)], chunk_chars=size))
    return play(lambda: collect(model.stream(HI, tools=tools)))


def test_a_step_is_a_call_or_the_final_words_and_nothing_else() -> None:
    schema = step_schema([LOOK, BARE])
    Draft202012Validator.check_schema(schema)
    validator = cast(Any, Draft202012Validator(schema))

    def fits(value: JsonObject) -> bool:
        return bool(validator.is_valid(value))

    assert fits({"tool": "look", "args": {"item": {"n": 1}}})
    assert fits({"tool": "bare", "args": {}})
    assert fits({"final": "Done."})
    assert not fits({"tool": "look", "args": {"item": {"n": "1"}}})
    assert not fits({"tool": "other", "args": {}})
    assert not fits({"final": 1})
    assert not fits({"tool": "bare", "args": {}, "final": "x"})


def test_a_call_becomes_a_call() -> None:
    heard = step('{"tool": "look", "args": {"item": {"n": 1}}}', size=5)
    assert heard.calls == {0: ["step-1", "look", '{"item": {"n": 1}}']}
    assert (heard.text, heard.finish) == ("", "tool-calls")


@given(st.text(max_size=40), st.integers(1, 7), st.booleans())
def test_final_words_are_shown_while_they_are_written(words: str, size: int, is_ascii: bool) -> None:
    text = json.dumps({"final": words}, ensure_ascii=is_ascii)
    heard = step(text, size=size)
    assert (heard.text, heard.finish, heard.calls) == (words, "stop", {})


def test_final_words_do_not_wait_for_their_end() -> None:
    async def first() -> str | None:
        cut = Answer('{"final": "Hello wor', is_cut_off=True)
        model = PromptedTools(ScriptedModel([cut], chunk_chars=4))
        stream = model.stream(HI, tools=[BARE])
        chunk = await anext(stream)
        await stream.aclose()
        return chunk.content_delta

    assert play(first) == "H"


@pytest.mark.parametrize(
    "text", ['```json\n{"final": "a"}\n```', ' \n{ "final" : "a" }\n', '```\n{"final":"a"}```']
)
def test_a_fence_around_a_step_does_not_matter(text: str) -> None:
    assert step(text, size=3).text == "a"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello",
        '{"final": "a',
        '{"final": "a"} and more',
        '{"final": 1}',
        '{"final": "a", "tool": "look", "args": {}}',
        '{"tool": "other", "args": {}}',
        '{"tool": "look", "args": "x"}',
        '{"tool": "look"}',
        "[]",
    ],
)
def test_a_malformed_step_is_a_retryable_error(text: str) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        step(text)
    assert caught.value.fault is ModelFault.MALFORMED
    assert "Hello" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" " * (MODEL_TEXT_CHARS_MAX + 1), "the step is too large: limit 4,000,000 characters"),
        (f'{{"tool": "look", "args": [{"[]," * ARGUMENT_VALUES_MAX}0]}}', "too many values: limit 50,000"),
        ("[" * 40_000, "the step is not a JSON object"),
    ],
)
def test_a_step_has_limits(text: str, words: str) -> None:
    with pytest.raises(ModelUnavailable, match=words) as caught:
        step(text, size=100_000)
    assert caught.value.fault is ModelFault.MALFORMED


HOSTILE = """
import asyncio
from windlass import LLMMessage
from windlass.models.prompted import PromptedTools
from windlass.ports.model import ModelUnavailable
from windlass.testing import ScriptedModel, say

async def main():
    blanks = " " * 400_000
    for text, size in [("```" + blanks, 4_096), (blanks, 2), ('{"final": "a"' + blanks, 2)]:
        model = PromptedTools(ScriptedModel([say(text)], chunk_chars=size))
        tools = [{"name": "bare", "description": "", "inputSchema": None}]
        try:
            async for _ in model.stream([LLMMessage("user", "Hi")], tools=tools):
                pass
        except ModelUnavailable:
            pass

asyncio.run(main())
"""


def test_the_time_for_an_endless_answer_grows_with_its_length() -> None:
    run_within(40, HOSTILE)


def test_words_after_a_long_beginning_are_shown_at_the_end() -> None:
    long = f'{{"final"{" " * BEGINNING_CHARS_MAX}: "Done."}}'
    assert step(long, size=7).text == "Done."


def test_a_step_that_is_cut_off_is_none() -> None:
    model = PromptedTools(ScriptedModel([Answer('{"final": "a"}', is_cut_off=True)]))
    with pytest.raises(ModelUnavailable, match="cut off"):
        play(lambda: collect(model.stream(HI, tools=[BARE])))


def test_without_tools_a_prompted_model_passes_requests_through() -> None:
    assert step("Hello", tools=()).text == "Hello"


def test_calls_and_results_are_written_as_text_messages() -> None:
    call = ToolCall(id="c", name="look", arguments={"item": {"n": 1}})
    history = [
        LLMMessage("system", "Be kind."),
        LLMMessage("user", "Find it."),
        LLMMessage("assistant", "", tool_calls=(call,)),
        LLMMessage("tool", "here", tool_call_id="c", name="look"),
        LLMMessage("tool", "gone", name="bare", is_error=True),
        LLMMessage("assistant", "Here."),
        LLMMessage("user", "", parts=({"type": "text", "text": "Thanks."},)),
    ]
    system, *told = write_prompt(history, [LOOK, BARE], turns=TurnCache(take_words))
    assert system.content.startswith("Be kind.\n\n")
    assert "- look: Find a thing.\n" in system.content
    assert [(message.role, message.content) for message in told] == [
        ("user", "Find it."),
        ("assistant", '{"tool":"look","args":{"item":{"n":1}}}'),
        ("user", "Tool look returned: here\n\nTool bare failed: gone"),
        ("assistant", '{"final":"Here."}'),
        ("user", ""),
    ]
    assert told[-1].parts


def test_a_server_that_supports_schemas_gets_the_step_schema() -> None:
    async def work() -> list[JsonObject]:
        async with serving(Reply(OPENAI.text(['{"final": ', '"Yes"}']))) as server:
            model = PromptedTools(OPENAI.make(server.url, ModelSettings()))
            heard = await collect(model.stream(HI, tools=[LOOK]))
            await model.aclose()
            assert heard.text == "Yes"
            assert heard.usage is not None
            return [asked.body for asked in server.asked]

    [body] = play(work)
    assert "tools" not in body
    form = body["response_format"]
    assert isinstance(form, dict)
    wanted = form["json_schema"]
    assert isinstance(wanted, dict)
    assert wanted["schema"] == step_schema([LOOK])


@tool(mode="read")
async def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def test_a_run_uses_a_tool_and_tries_a_broken_step_again() -> None:
    steps = ['{"tool": "double"', '{"tool": "double", "args": {"number": 21}}', '{"final": "It is 42."}']
    model = ScriptedModel([say(text) for text in steps])
    agent = Agent("a", model=PromptedTools(model), tools=[double])
    result = play(lambda: agent.run("Double 21."))
    assert (result.status, result.output) == (RunStatus.COMPLETED, "It is 42.")
    assert len(model.requests) == 3
    assert model.requests[-1].messages[-1].content == "Tool double returned: 42"


class Unclosed:
    """A provider with a plain async iterator as its stream and nothing to close."""

    def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        class Chunks:
            def __init__(self) -> None:
                self._rest = [LLMStreamChunk(content_delta="Hi", finish_reason="stop")]

            def __aiter__(self) -> AsyncIterator[LLMStreamChunk]:
                return self

            async def __anext__(self) -> LLMStreamChunk:
                if not self._rest:
                    raise StopAsyncIteration
                return self._rest.pop()

        return Chunks()


def test_prompted_tools_work_with_any_provider() -> None:
    async def work() -> tuple[str, str, str]:
        model = PromptedTools(Unclosed())
        heard = await collect(model.stream(HI))
        await model.aclose()
        return heard.text, model.route_id, model.model_id

    assert play(work) == ("Hi", "prompted", "Unclosed")
    assert repr(PromptedTools(OPENAI.make("http://x", ModelSettings()))) == (
        "PromptedTools(OpenAICompatProvider('m'))"
    )
