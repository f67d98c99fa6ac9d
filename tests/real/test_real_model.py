"""The loop with a real model, offline: `make test-real`.

The model is small, so the tests check the connection to it, not its answers.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from tools.files import ROOT
from windlass import Agent, LLMMessage, tool
from windlass.models import AnthropicProvider, ModelSettings, OpenAICompatProvider, PromptedTools
from windlass.ports.model import LLMProvider, LLMStreamChunk, ModelRejected, is_context_overflow
from windlass_protocol import JsonObject, RunStatus

pytest.importorskip("xllamacpp", reason="a real model is asked by make test-real alone")

SHORT = ModelSettings(max_tokens=48)
SERVER = Path(__file__).with_name("server.py")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of the model."""
    with subprocess.Popen(
        [sys.executable, str(SERVER)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def openai(url: str, settings: ModelSettings = SHORT) -> OpenAICompatProvider:
    return OpenAICompatProvider("smollm2", api_key="none", base_url=f"{url}/v1", settings=settings)


def anthropic(url: str, settings: ModelSettings = SHORT) -> AnthropicProvider:
    return AnthropicProvider("smollm2", api_key="none", base_url=url, settings=settings)


MODELS = {"openai": openai, "anthropic": anthropic}
BOTH = pytest.mark.parametrize("name", MODELS)


async def streamed(
    provider: OpenAICompatProvider | AnthropicProvider, text: str
) -> tuple[list[str], int | None]:
    chunks = [chunk async for chunk in provider.stream([LLMMessage("user", text)], temperature=0.0)]
    await provider.aclose()
    used = [chunk.usage.output_tokens for chunk in chunks if chunk.usage]
    return [chunk.content_delta for chunk in chunks if chunk.content_delta], used[-1] if used else None


@BOTH
def test_a_real_answer_is_streamed_and_reports_its_usage(name: str, url: str) -> None:
    pieces, used = asyncio.run(streamed(MODELS[name](url), "Say hello."))
    assert len(pieces) > 1
    assert used is not None
    assert used >= len(pieces) - 1


@BOTH
def test_a_run_gets_an_answer(name: str, url: str) -> None:
    async def work() -> tuple[RunStatus, str | None]:
        provider = MODELS[name](url, ModelSettings(max_tokens=512))
        agent = Agent("a", model=provider, instructions="Be short.", temperature=0.0)
        result = await agent.run("What is the capital of France?")
        await provider.aclose()
        return result.status, result.output

    status, output = asyncio.run(work())
    assert status is RunStatus.COMPLETED
    assert output


@BOTH
def test_messages_beyond_the_context_window_raise_context_overflow(name: str, url: str) -> None:
    async def work() -> bool:
        provider = MODELS[name](url)
        try:
            async for _ in provider.stream([LLMMessage("user", "word " * 4_000)]):
                pass
        except ModelRejected as error:
            return is_context_overflow(error)
        finally:
            await provider.aclose()
        return False

    assert asyncio.run(work())


def test_a_schema_is_kept_by_the_server(url: str) -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "people": {"type": "integer"}},
        "required": ["city", "people"],
        "additionalProperties": False,
    }
    pieces, _ = asyncio.run(
        streamed(openai(url).with_output(schema), "Name a city and how many people live there.")
    )
    value = json.loads("".join(pieces))
    assert value.keys() == {"city", "people"}
    assert isinstance(value["people"], int)


CALLED: list[str] = []


@tool(mode="read")
async def weather(city: str) -> str:
    """Return the weather in a city."""
    CALLED.append(city)
    return "rain"


class Forced:
    """Chooses for a model that is too small to: the tool first, then words."""

    def __init__(self, provider: OpenAICompatProvider) -> None:
        self._provider = provider
        self.steps = 0

    def with_output(self, schema: JsonObject) -> LLMProvider:
        self.steps += 1
        choices = schema["anyOf"]
        assert isinstance(choices, list)
        shape = choices[0 if self.steps == 1 else -1]
        assert isinstance(shape, dict)
        return self._provider.with_output(shape)

    def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        return self._provider.stream(messages, tools=tools, temperature=temperature)


def test_a_model_without_tools_uses_one(url: str) -> None:
    async def work() -> tuple[RunStatus, str | None]:
        provider = openai(url, ModelSettings(max_tokens=256))
        agent = Agent("a", model=PromptedTools(Forced(provider)), tools=[weather], temperature=0.0)
        result = await agent.run("What is the weather in Oslo? Use the tool.")
        await provider.aclose()
        return result.status, result.output

    CALLED.clear()
    status, output = asyncio.run(work())
    assert status is RunStatus.COMPLETED
    assert len(CALLED) == 1
    assert output
