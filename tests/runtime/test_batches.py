"""Model calls in batches: many runs share one, and what becomes of an item is what becomes of its call."""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from tests.faults.batches import hurry, model_of
from tests.models.batch_server import OPENAI_USAGE, BatchServer, serving_batches

from windlass import Agent, AgentRuntime, Budget, Rejected, tool
from windlass.engine.spending import batches
from windlass.models import (
    AnthropicProvider,
    ModelSettings,
    OpenAICompatProvider,
    OpenAIResponsesProvider,
    PromptedTools,
)
from windlass.models.transport import ServedModel
from windlass.ports.documents import BATCH, BATCH_ITEM
from windlass.ports.model import BilledRequest, LLMUsage, ModelPrice
from windlass.prices import Tariff
from windlass.runtime.registry import PackageChange
from windlass.testing import ScriptedModel, say
from windlass_harness.loop.rules import Rules
from windlass_harness.retry import RetryPolicy
from windlass_protocol import Event, JsonObject, RunStatus
from windlass_protocol.generated import records

PRICES = {"gpt-4o": "openai", "claude-sonnet-4-5": "anthropic"}
QUICK = Rules(retry=RetryPolicy(base_delay_ms=1, max_delay_ms=1), retry_for_ms=0)
AT = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Generator[BatchServer]:
    for name in ("GATHER_S", "POLL_MS", "LEASE_MS", "REMIND_MS"):
        monkeypatch.setattr(batches, name, getattr(batches, name))
    hurry()
    with serving_batches() as server:
        yield server


def judge(server: BatchServer, api: str = "openai") -> Agent:
    return Agent("judge", model=model_of(api, server.url), batch="within 24h", prices=PRICES)


def plain(server: BatchServer) -> Agent:
    """An agent with model calls that are answered at once."""
    return Agent("judge", model=model_of("openai", server.url), prices=PRICES)


@asynccontextmanager
async def opened(agent: Agent, rules: Rules = QUICK) -> AsyncGenerator[AgentRuntime]:
    """A runtime with an agent; the connections of its model are closed."""
    async with AgentRuntime.in_memory([agent], rules=rules) as runtime:
        yield runtime
    assert isinstance(agent.first_model, ServedModel)
    await agent.first_model.aclose()


async def ends(agent: Agent, *words: str, rules: Rules = QUICK) -> dict[str, tuple[str, str | None]]:
    """The status and the answer of a run for each word."""
    async with opened(agent, rules) as runtime:
        results = await runtime.fan_out({word: (agent, f"Say {word}") for word in words}, job_id="job")
        return {
            word: (result.status.value, result.output if result.error is None else result.error.message)
            for word, result in results.items()
        }


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_many_runs_share_a_batch_and_each_gets_its_own_answer(server: BatchServer, api: str) -> None:
    async def story() -> None:
        words = [f"word{at}" for at in range(40)]
        async with opened(judge(server, api)) as runtime:
            results = await runtime.fan_out({word: ("judge", f"Say {word}") for word in words}, job_id="job")
            assert [result.output for result in results.values()] == words
            assert server.sent == sorted(words)
            assert len(server.batches) == 1, "a job of a batched agent starts all its runs"
            waits = [
                event.data for event in await _events(runtime, "job/word7") if event.type == "run.waiting"
            ]
            assert [(wait["on"], "batch" in str(wait["reason"])) for wait in waits] == [("batch", True)]

    asyncio.run(story())


async def _events(runtime: AgentRuntime, run_id: str) -> list[Event]:
    return [event async for event in runtime.handle(run_id).events()]


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_an_item_that_expires_is_sent_again_and_a_refused_one_fails_its_run(
    server: BatchServer, api: str
) -> None:
    async def story() -> None:
        told = await ends(judge(server, api), "fine", "expired", "refused")
        assert told["fine"] == ("completed", "fine")
        assert told["expired"][0] == "failed"
        assert "without an answer" in str(told["expired"][1])
        assert told["refused"][0] == "failed"
        assert "invalid request" in str(told["refused"][1])
        assert server.sent.count("expired") == QUICK.retry.max_attempts
        assert (server.sent.count("fine"), server.sent.count("refused")) == (1, 1)

    asyncio.run(story())


@pytest.mark.parametrize(("api", "path"), [("openai", "POST /v1/batches"), ("anthropic", "messages/batches")])
def test_a_lost_answer_to_the_creation_is_found_again(server: BatchServer, api: str, path: str) -> None:
    async def story() -> None:
        server.faults[f"POST /v1/{path}" if api == "anthropic" else path] = ["lost"]
        told = await ends(judge(server, api), "one", "two")
        assert {status for status, _ in told.values()} == {"completed"}
        assert server.sent == ["one", "two"]

    asyncio.run(story())


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_a_batch_that_is_created_after_its_lease_is_cancelled(server: BatchServer, api: str) -> None:
    async def story() -> None:
        server.hold = "before create"
        agent = judge(server, api)
        async with opened(agent) as runtime:
            handle = await runtime.start_run(agent, "Say one", run_id="r1")
            await asyncio.to_thread(server.held.wait, 60)
            # Nothing was created within the lease, so the call is offered again.
            result = await handle.wait()
            assert (result.output, [batch.batch_id for batch in server.batches]) == ("one", ["batch_0"])
            server.is_answering = False
            server.go.set()
            await asyncio.to_thread(server.wait_for_batches, 2)
            clock = runtime.core.ports.machine.clock
            while not server.cancelled:
                await clock.sleep(0.01)
            assert server.cancelled == ["batch_1"]

    asyncio.run(story())


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_a_batch_whose_answer_is_late_is_found_and_goes_on(server: BatchServer, api: str) -> None:
    async def story() -> None:
        server.hold = "after create"
        agent = judge(server, api)
        async with opened(agent) as runtime:
            handle = await runtime.start_run(agent, "Say one", run_id="r1")
            assert (await handle.wait()).output == "one"
            server.go.set()
        assert (server.sent, server.cancelled) == (["one"], [])

    asyncio.run(story())


def test_too_many_requests_and_failures_of_the_provider_are_waited_out(server: BatchServer) -> None:
    async def story() -> None:
        server.faults = {
            "POST /v1/files": ["broken", "busy"],
            "POST /v1/batches": ["busy"],
            "GET /v1/batches/batch_0": ["busy", "broken"],
            "/content": ["lost"],
        }
        told = await ends(judge(server), "one", rules=Rules(retry=RetryPolicy(5, 1, 1), retry_for_ms=0))
        assert told == {"one": ("completed", "one")}
        assert server.sent == ["one"]

    asyncio.run(story())


def test_calls_of_tools_and_typed_outputs_work_in_batches(server: BatchServer) -> None:
    async def story() -> None:
        noted: list[str] = []

        @tool(mode="safe_write", effect="idempotent")
        async def note(word: str) -> str:
            """Note a word."""
            noted.append(word)
            return f"noted {word}"

        agent = Agent("judge", model=model_of("openai", server.url), tools=[note], batch="within 24h")
        assert (await ends(agent, "one"))["one"] == ("completed", "one")
        assert noted == ["one"]
        assert len(server.batches) == 2, "each step is an item"

    asyncio.run(story())


def test_the_answers_of_the_responses_api_are_read(server: BatchServer) -> None:
    async def story() -> None:
        model = OpenAIResponsesProvider("gpt-4o", base_url=f"{server.url}/v1", api_key="key")
        agent = Agent("judge", model=model, batch="within 24h", prices=PRICES)
        async with opened(agent) as runtime:
            result = await (await runtime.start_run(agent, "Say one")).wait()
            assert (result.output, result.usage and result.usage.cost_micros) == ("one", 1_750)
            thoughts = [
                event for event in await _events(runtime, result.run_id) if event.type.startswith("reas")
            ]
            assert [thought.data["reasoning"] for thought in thoughts] == ["Hm."]

    asyncio.run(story())


def test_a_cancelled_run_ends_at_once_and_its_item_is_forgotten(server: BatchServer) -> None:
    async def story() -> None:
        server.is_answering = False
        agent = judge(server)
        async with opened(agent) as runtime:
            handle = await runtime.start_run(agent, "Say one", run_id="r1")
            await asyncio.to_thread(server.wait_for_batches, 1)
            await runtime.cancel_run("r1")
            assert (await handle.wait()).status is RunStatus.CANCELLED
            server.is_answering = True
            store, clock = runtime.core.store, runtime.core.ports.machine.clock
            while await store.documents(BATCH) or await store.documents(BATCH_ITEM):
                await clock.sleep(0.01)
        assert server.sent == ["one"]

    asyncio.run(story())


def test_a_model_without_batches_is_refused_before_anything_is_written() -> None:
    async def story() -> None:
        agent = Agent("judge", model=PromptedTools(ScriptedModel(lambda _: say("one"))), batch="within 24h")
        async with AgentRuntime.in_memory([agent]) as runtime:
            with pytest.raises(Rejected, match="has no batches: take a model of openai"):
                await runtime.start_run(agent, "Say one")
            assert (await runtime.sessions.runs()).items == ()

    asyncio.run(story())


def test_a_start_without_batches_of_its_model_is_refused() -> None:
    async def story() -> None:
        agent = Agent("judge", model=PromptedTools(ScriptedModel(lambda _: say("one"))))
        async with AgentRuntime.in_memory([agent]) as runtime:
            with pytest.raises(Rejected, match="has no batches: take a model of openai"):
                await runtime.start_run(agent, "Say one", batch="within 24h")

    asyncio.run(story())


@pytest.mark.parametrize("package_change", list(PackageChange))
def test_a_start_in_batches_is_known_to_the_next_process(
    server: BatchServer, tmp_path: Path, package_change: PackageChange
) -> None:
    async def story() -> None:
        server.is_answering = False
        store = str(tmp_path / "app.db")
        first, second = plain(server), plain(server)
        async with AgentRuntime.open(store, agents=[first], rules=QUICK) as runtime:
            await runtime.start_run(first, "Say one", run_id="r1", batch="within 24h")
            await asyncio.to_thread(server.wait_for_batches, 1)
        server.is_answering = True
        async with AgentRuntime.open(
            store, agents=[second], rules=QUICK, package_change=package_change
        ) as runtime:
            result = await runtime.handle("r1").wait()
            events = {event.type: event.data for event in await _events(runtime, "r1")}
        assert result.output == "one"
        assert server.sent == ["one"]
        assert events["run.started"]["batch"] == "within 24h"
        assert "session.moved" not in events
        for agent in (first, second):
            assert isinstance(agent.first_model, ServedModel)
            await agent.first_model.aclose()

    asyncio.run(story())


def test_a_job_is_answered_in_batches_with_one_option(server: BatchServer) -> None:
    async def story() -> None:
        agent, words = plain(server), [f"word{at}" for at in range(40)]
        async with opened(agent) as runtime:
            tasks = {word: (agent, f"Say {word}") for word in words}
            results = await runtime.fan_out(tasks, job_id="job", batch="within 24h")
            assert [result.output for result in results.values()] == words
        assert len(server.batches) == 1

    asyncio.run(story())


def test_a_run_that_continues_a_failed_one_is_answered_in_batches_too(server: BatchServer) -> None:
    async def story() -> None:
        agent = plain(server)
        async with opened(agent) as runtime:
            handle = await runtime.start_run(agent, "Say refused", batch="within 24h")
            assert (await handle.wait()).status is RunStatus.FAILED
            again = await handle.retry()
            assert (await again.wait()).status is RunStatus.FAILED
        assert server.sent == ["refused", "refused"]

    asyncio.run(story())


@pytest.mark.parametrize("how", ["start", "fan_out"])
def test_a_start_says_no_to_the_batches_of_its_agent(server: BatchServer, how: str) -> None:
    async def story() -> None:
        asked: list[object] = []
        model = ScriptedModel(lambda messages: asked.append(messages) or say("at once"))
        agent = Agent("judge", model=model, batch="within 24h")
        async with AgentRuntime.in_memory([agent], rules=QUICK) as runtime:
            if how == "start":
                handle = await runtime.start_run(agent, "Say one", run_id="r1", batch="off")
            else:
                await runtime.fan_out({"r1": (agent, "Say one")}, job_id="job", batch="off")
                handle = runtime.handle("job/r1")
            assert (await handle.wait()).output == "at once"
            events = {event.type: event.data for event in await _events(runtime, handle.run_id)}
        assert (model.batches, len(asked)) == ([], 1)
        assert events["run.started"]["batch"] == "off"

    asyncio.run(story())


def test_another_window_is_refused() -> None:
    with pytest.raises(Rejected, match='batch must be "within 24h"'):
        Agent("judge", model="openai/gpt-4o", batch="soon")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_a_budget_reserves_batch_prices(server: BatchServer) -> None:
    async def story() -> None:
        model = OpenAICompatProvider(
            "gpt-4o", base_url=f"{server.url}/v1", api_key="key", settings=ModelSettings(max_tokens=1_000)
        )
        agent = Agent("judge", model=model, batch="within 24h", prices=PRICES)
        async with opened(agent) as runtime:
            budget = Budget(max_cost_micros=6_000)
            result = await (await runtime.start_run(agent, "Say one", run_id="r1", budget=budget)).wait()
            assert result.usage is not None
            assert result.usage.cost_micros == 1_750
            started = [event.data for event in await _events(runtime, "r1") if event.type == "step.started"]
            assert len(started) == 1
            reserved = cast(JsonObject, started[0]["reserved"])
            assert 5_000 <= cast(int, reserved["costMicros"]) < 5_100, (
                "1,000 tokens at five dollars a million"
            )
        assert server.batches[0].requests[0][1]["max_tokens"] == 1_000

    asyncio.run(story())


def _cost(tariff: Tariff, used: LLMUsage) -> tuple[int | None, list[tuple[str, int]]]:
    usage = records.Usage(input_tokens=used.input_tokens, output_tokens=used.output_tokens)
    bill = tariff.bill(usage, used, AT)
    assert bill.usage is not None
    assert bill.price is not None
    return bill.usage.cost_micros, [(part.unit, part.micros) for part in bill.price.parts or ()]


def test_the_price_of_a_recorded_answer_is_that_of_the_table_or_half() -> None:
    body: JsonObject = {**OPENAI_USAGE}
    billed = (BilledRequest("chat", body, "gpt-4o-2024-08-06", "batch"),)
    used = LLMUsage(1_000, 100, billed=billed)
    openai = Tariff("openai", "gpt-4o", prices="https://api.openai.com/v1", is_batched=True)
    assert _cost(openai, used) == (1_750, [("input_tokens", 1_250), ("output_tokens", 500)])
    cached: JsonObject = {**body, "prompt_tokens_details": {"cached_tokens": 400}}
    used = LLMUsage(1_000, 100, 400, billed=(BilledRequest("chat", cached, "gpt-4o", "batch"),))
    # The table of batches has no price for cached tokens: they cost what they cost at once.
    assert _cost(openai, used)[0] == 1_750
    own = Tariff("openai", "ours", own=(("ours", ModelPrice(4, 8, request=0.001)),), is_batched=True)
    assert _cost(own, LLMUsage(1_000, 100))[0] == 2_000 + 400 + 1_000
    claude = Tariff("anthropic", "claude-sonnet-4-0", prices="https://api.anthropic.com", is_batched=True)
    answer: JsonObject = {"input_tokens": 1_000, "output_tokens": 100, "service_tier": "batch"}
    used = LLMUsage(1_000, 100, billed=(BilledRequest("messages", answer, "claude-sonnet-4-0"),))
    assert _cost(claude, used)[0] == 2_250


# Lines of results as the references of the providers show them. The last one of OpenAI is from a real batch.
_OPENAI_DOCUMENTED = """{"id": "batch_req_wnaDys", "custom_id": "request-2",
"response": {"status_code": 200, "request_id": "req_c187b3", "body": {"id": "chatcmpl-9758Iw",
"object": "chat.completion", "created": 1711475054, "model": "gpt-4o-mini", "choices": [{"index": 0,
"message": {"role": "assistant", "content": "2 + 2 equals 4."}, "finish_reason": "stop"}],
"usage": {"prompt_tokens": 24, "completion_tokens": 15, "total_tokens": 39}, "system_fingerprint": null}},
"error": null}"""
_OPENAI_RECORDED = """{"id": "batch_req_403hYy7nMxrxXFWXiwvoLG1q", "custom_id": "request-1", "error": null,
"response": {"status_code": 200, "request_id": "af0bac0d82530234e09bd6b5d9fbf5cf",
"body": {"choices": [{"finish_reason": "stop", "index": 0, "logprobs": null,
"message": {"content": "2 + 2 equals 4.", "refusal": null, "role": "assistant"}}], "created": 1724858089,
"id": "chatcmpl-A1Efhv97EZNQeHKSLPnTmZex20gf2", "model": "gpt-4o-mini-2024-07-18",
"object": "chat.completion", "system_fingerprint": "fp_f33667828e", "usage": {"completion_tokens": 8,
"prompt_tokens": 24, "total_tokens": 32}}}}"""
_ANTHROPIC_DOCUMENTED = """{"custom_id": "my-second-request", "result": {"type": "succeeded",
"message": {"id": "msg_014VwiXbi91y3JMjcpyGBHX5", "type": "message", "role": "assistant",
"model": "claude-sonnet-4-5-20250929", "content": [{"type": "text",
"text": "Hello again! It's nice to see you. How can I assist you today?"}], "stop_reason": "end_turn",
"stop_sequence": null, "usage": {"input_tokens": 11, "output_tokens": 36}}}}"""


@pytest.mark.parametrize(
    ("api", "line", "answer", "parts"),
    [
        # Dollars of a million tokens in batches; those of Claude Sonnet 4.5 are 1.50 and 7.50.
        ("openai", _OPENAI_DOCUMENTED, "2 + 2 equals 4.", (24 * 0.075, 15 * 0.30)),
        ("openai", _OPENAI_RECORDED, "2 + 2 equals 4.", (24 * 0.075, 8 * 0.30)),
        ("anthropic", _ANTHROPIC_DOCUMENTED, "Hello again!", (11 * 1.50, 36 * 7.50)),
    ],
    ids=["openai", "openai-recorded", "anthropic"],
)
def test_a_line_of_results_becomes_the_recorded_amount(
    server: BatchServer, api: str, line: str, answer: str, parts: tuple[float, float]
) -> None:
    async def story() -> None:
        server.line = json.loads(line)
        model = (
            OpenAICompatProvider("gpt-4o-mini", base_url=f"{server.url}/v1", api_key="key")
            if api == "openai"
            else AnthropicProvider("claude-sonnet-4-5", base_url=server.url, api_key="key")
        )
        agent = Agent("judge", model=model, batch="within 24h", prices={"*": api})
        async with opened(agent) as runtime:
            result = await (await runtime.start_run(agent, "Hi", run_id="r1")).wait()
            events = {event.type: event.data for event in await _events(runtime, "r1")}
        assert result.output is not None
        assert result.output.startswith(answer)
        price, usage = (cast(JsonObject, events["step.completed"][name]) for name in ("price", "usage"))
        # Halves are rounded up.
        assert (price["source"], usage["costMicros"]) == ("table", int(sum(parts) + 0.5))

    asyncio.run(story())
