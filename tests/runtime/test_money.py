"""Money of a run: prices in its records, and limits that refuse what has no price."""

import logging
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from typing import Final

import pytest
from pydantic import BaseModel
from tests.models.test_prices import events
from tests.models.wire import ANTHROPIC, BEDROCK, GOOGLE, OPENAI, RESPONSES, Json, Reply, azure, serving
from tests.story import play

from windlass import Agent, AgentRuntime, Budget, LLMUsage, Rejected, RunStatus
from windlass.models import ModelSettings
from windlass.models.transport import ServedModel
from windlass.parts import ModelPrice
from windlass.ports.listing import RunInfo
from windlass.ports.model import ModelFault, ModelRejected, ModelUnavailable
from windlass.testing import ScriptedModel, call, fail, say
from windlass.tools import tool
from windlass_harness.loop.notes import NO_USAGE_PRICE
from windlass_harness.loop.rules import Rules
from windlass_harness.record import Record
from windlass_harness.retry import RetryPolicy
from windlass_protocol import ErrorKind, PriceGap, PriceSource, RetryClass
from windlass_protocol.generated import records

CHAT: Final[Json] = {"prompt_tokens": 1_000, "completion_tokens": 100}
RESPONSE: Final[Json] = {"input_tokens": 1_000, "output_tokens": 100}
CONVERSE: Final[Json] = {"inputTokens": 1_000, "outputTokens": 100}
GEMINI: Final[Json] = {"promptTokenCount": 1_000, "candidatesTokenCount": 100}
CACHED: Final[Json] = {
    "input_tokens": 600,
    "cache_read_input_tokens": 300,
    "cache_creation_input_tokens": 100,
    "cache_creation": {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40},
    "output_tokens": 100,
}
SONNET: Final = "claude-sonnet-4-5-20250929"
CLAUDE: Final = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"


def steps(found: Sequence[Record]) -> list[records.StepCompleted]:
    return [record.body for record in found if isinstance(record.body, records.StepCompleted)]


@pytest.mark.parametrize(
    ("make", "api", "model", "usage", "prices", "expected"),
    [
        (OPENAI.make, "chat", "gpt-4o-2024-08-06", CHAT, "openai", (3_500, "openai/gpt-4o")),
        (azure, "chat", "gpt-4o-2024-11-20", CHAT, "azure", (3_500, "azure/gpt-4o")),
        (RESPONSES.make, "responses", "gpt-5-2025-08-07", RESPONSE, "openai", (2_250, "openai/gpt-5")),
        (ANTHROPIC.make, "messages", SONNET, CACHED, "anthropic", (3_855, "anthropic/claude-sonnet-4-5")),
        (GOOGLE.make, "gemini", "gemini-2.5-flash", GEMINI, "google", (550, "google/gemini-2.5-flash")),
        (
            BEDROCK.make,
            "converse",
            CLAUDE,
            CONVERSE,
            "aws",
            (4_950, f"aws/regional.{CLAUDE.removeprefix('us.')}"),
        ),
    ],
)
def test_a_recorded_stream_of_each_provider_becomes_the_cost_of_its_run(
    make: Callable[[str, ModelSettings], ServedModel],
    api: str,
    model: str,
    usage: Json,
    prices: str,
    expected: tuple[int, str],
) -> None:
    async def story() -> tuple[list[records.StepCompleted], RunInfo]:
        async with serving(Reply(events(api, model, usage))) as server:
            provider = make(server.url, ModelSettings())
            # The server of the test is not in the table, as a gateway is not.
            agent = Agent("clerk", model=provider, prices={"*": prices})
            async with AgentRuntime.in_memory([agent]) as runtime:
                handle = await runtime.start_run(agent, "Hi")
                assert (await handle.wait()).status is RunStatus.COMPLETED
                found = await runtime.sessions.records(await handle.session_id())
                (row,) = (await runtime.sessions.runs()).items
            await provider.aclose()
        return steps(found), row

    (step,), row = play(story())
    price = step.price
    assert price is not None
    assert step.usage is not None
    assert (step.usage.cost_micros, price.entry, price.source) == (*expected, PriceSource.TABLE)
    assert price.parts is not None
    assert sum(part.micros for part in price.parts) == expected[0]
    assert row.usage.cost_micros == expected[0]


def test_a_scripted_model_reports_tokens_without_a_cost() -> None:
    async def story() -> Sequence[Record]:
        agent = Agent("clerk", model=ScriptedModel([say("Hello.")]))
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "Hi")
            await handle.wait()
            return await runtime.sessions.records(await handle.session_id())

    (step,) = steps(play(story()))
    assert step.usage == records.Usage(input_tokens=1, output_tokens=2)
    assert step.price == records.Price(source=PriceSource.NONE, gap=PriceGap.NO_PRICES)


LIMIT: Final = Budget(max_cost_micros=10_000)


@pytest.mark.parametrize("where", ["model", "fallback", "summary", "subagent", "request"])
def test_a_limit_in_money_refuses_a_model_without_a_price_before_the_first_call(where: str) -> None:
    free, other = {"scripted/free": 0}, ScriptedModel([say("no")], model_id="other")
    first = ScriptedModel([say("no")], model_id="free")
    subagents = [Agent("helper", model=other, description="x")] if where == "subagent" else []
    agent = Agent(
        "clerk",
        model={"model": [other], "request": [other], "fallback": [first, other]}.get(where, [first]),
        compaction_model=other if where == "summary" else None,
        subagents=subagents,
        prices=free,
        budget=None if where == "request" else LIMIT,
    )

    name = "helper" if where == "subagent" else "clerk"

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            with pytest.raises(Rejected) as caught:
                await runtime.start_run(agent, "Hi", budget=LIMIT)
            assert caught.value.message == (
                f"the run has a limit in money, and model scripted/other of agent {name} has no price: its "
                'server is not in the price table; add one with prices={"scripted/other": {"input": …, '
                '"output": …}} to the agent, in dollars per million tokens, or under [prices] in '
                "windlass.toml; 0 if it is free"
            )

    play(story())
    assert not other.requests
    assert not first.requests


@pytest.mark.parametrize("own", [{"scripted/*": 0}, {"other": ModelPrice(1, 2)}, {"*": "openai/gpt-4o"}])
def test_prices_of_the_agent_or_of_the_runtime_let_it_run(own: dict[str, object]) -> None:
    def agent(**options: object) -> Agent:
        model = ScriptedModel([say("Yes.", usage=LLMUsage(10, 5))], model_id="other")
        return Agent("clerk", model=model, budget=LIMIT, **options)  # pyright: ignore[reportArgumentType]

    async def story(agent: Agent, **options: object) -> int | None:
        async with AgentRuntime.in_memory([agent], **options) as runtime:  # pyright: ignore[reportArgumentType]
            result = await (await runtime.start_run(agent, "Hi")).wait()
            assert result.status is RunStatus.COMPLETED
            return None if result.usage is None else result.usage.cost_micros

    costs = [play(story(agent(prices=own))), play(story(agent(), prices=own))]
    assert costs[0] == costs[1] is not None


def test_prices_of_an_agent_come_before_those_of_the_runtime() -> None:
    model = ScriptedModel([say("Yes.", usage=LLMUsage(1_000_000, 0))])
    agent = Agent("clerk", model=model, prices={"*": ModelPrice(1, 1)})

    async def story() -> int | None:
        async with AgentRuntime.in_memory([agent], prices={"*": ModelPrice(5, 5)}) as runtime:
            result = await (await runtime.start_run(agent, "Hi")).wait()
            return None if result.usage is None else result.usage.cost_micros

    assert play(story()) == 1_000_000


def test_a_model_without_a_price_is_logged_once_for_each_agent(caplog: pytest.LogCaptureFixture) -> None:
    @tool(mode="read")
    async def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel([call("look"), say("Yes."), say("Yes.")])
    agent = Agent("clerk", model=model, tools=[look], prices={"gpt-*": 0})

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            for _ in range(2):
                await (await runtime.start_run(agent, "Hi")).wait()

    with caplog.at_level(logging.WARNING, logger="windlass.prices"):
        play(story())
    assert [record.message for record in caplog.records if record.name == "windlass.prices"] == [
        "model scripted/scripted of agent clerk has no price: its server is not in the price table; costs "
        "and limits do not count its calls, see [prices] in windlass.toml"
    ]


def test_an_answer_without_usage_says_so() -> None:
    model = ScriptedModel([say("Yes.", usage=LLMUsage())])
    agent = Agent("clerk", model=model, prices={"*": 0})

    async def story() -> Sequence[Record]:
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "Hi")
            await handle.wait()
            return await runtime.sessions.records(await handle.session_id())

    (step,) = steps(play(story()))
    assert (step.usage, step.price) == (None, records.Price(source=PriceSource.NONE, gap=PriceGap.NO_USAGE))


# limits before the call


@pytest.mark.parametrize(
    ("make", "api", "model", "usage", "prices", "path"),
    [
        (OPENAI.make, "chat", "gpt-4o", CHAT, "openai/gpt-4o", ("max_tokens",)),
        (azure, "chat", "gpt-4o", CHAT, "azure/gpt-4o", ("max_completion_tokens",)),
        (RESPONSES.make, "responses", "gpt-5", RESPONSE, "openai/gpt-5", ("max_output_tokens",)),
        (ANTHROPIC.make, "messages", SONNET, CACHED, f"anthropic/{SONNET}", ("max_tokens",)),
        (
            GOOGLE.make,
            "gemini",
            "gemini-2.5-pro",
            GEMINI,
            "google/gemini-2.5-pro",
            ("generationConfig", "maxOutputTokens"),
        ),
        (BEDROCK.make, "converse", CLAUDE, CONVERSE, f"aws/{CLAUDE}", ("inferenceConfig", "maxTokens")),
    ],
)
def test_a_limit_in_money_makes_the_answer_of_each_provider_shorter(
    make: Callable[[str, ModelSettings], ServedModel],
    api: str,
    model: str,
    usage: Json,
    prices: str,
    path: tuple[str, ...],
) -> None:
    async def story() -> tuple[records.StepStarted, Json]:
        async with serving(Reply(events(api, model, usage))) as server:
            provider = make(server.url, ModelSettings())
            agent = Agent(
                "clerk", model=provider, prices={"*": prices}, budget=Budget(max_cost_micros=20_000)
            )
            async with AgentRuntime.in_memory([agent]) as runtime:
                handle = await runtime.start_run(agent, "Hi")
                assert (await handle.wait()).status is RunStatus.COMPLETED
                found = await runtime.sessions.records(await handle.session_id())
            await provider.aclose()
        (begun,) = [record.body for record in found if isinstance(record.body, records.StepStarted)]
        return begun, server.asked[0].body

    begun, body = play(story())
    assert begun.reserved is not None
    assert 19_000 < begun.reserved.cost_micros <= 20_000
    asked = body
    for name in path:
        asked = asked[name]
    assert asked == begun.reserved.answer_tokens


def test_a_run_that_cannot_pay_for_an_answer_ends_before_the_provider_is_asked() -> None:
    async def story() -> None:
        async with serving(Reply(events("chat", "gpt-4o", CHAT))) as server:
            provider = OPENAI.make(server.url, ModelSettings())
            agent = Agent("clerk", model=provider, prices={"*": "openai/gpt-4o"})
            async with AgentRuntime.in_memory([agent]) as runtime:
                for limit, asked in ((2_000, 0), (4_000, 1)):
                    handle = await runtime.start_run(agent, "Hi", budget=Budget(max_cost_micros=limit))
                    result = await handle.wait()
                    assert len(server.asked) == asked
                    expected = RunStatus.COMPLETED if asked else RunStatus.BUDGET_EXHAUSTED
                    assert result.status is expected
            await provider.aclose()

    play(story())


def test_the_settings_of_a_model_bound_its_reservation() -> None:
    body: Json = {"max_completion_tokens": 900}
    made = [
        OPENAI.make("http://localhost", settings).answer_tokens
        for settings in (ModelSettings(), ModelSettings(max_tokens=700), ModelSettings(700, body=body))
    ]
    assert made == [None, 700, 900]
    thinking: Json = {"thinking": {"type": "enabled", "budget_tokens": 4_000}}
    plain, thinks = (
        ANTHROPIC.make("http://localhost", ModelSettings(body=each)) for each in (None, thinking)
    )
    assert (plain.answer_tokens_min, thinks.answer_tokens_min) == (1, 4_001)
    bedrock = ModelSettings(body={"additionalModelRequestFields": thinking})
    assert BEDROCK.make("http://localhost", bedrock).answer_tokens_min == 4_001
    gemini: Json = {"generationConfig": {"maxOutputTokens": 900, "thinkingConfig": {"thinkingBudget": 300}}}
    google = GOOGLE.make("http://localhost", ModelSettings(body=gemini))
    assert (google.answer_tokens, google.answer_tokens_min) == (900, 301)
    gemini = {"generationConfig": {"thinkingConfig": {"thinkingBudget": -1}}}
    assert GOOGLE.make("http://localhost", ModelSettings(body=gemini)).answer_tokens_min == 1
    bedrock = ModelSettings(700, body={"inferenceConfig": {"maxTokens": 900, "topP": 0.5}})
    assert BEDROCK.make("http://localhost", bedrock).answer_tokens == 900
    assert ANTHROPIC.make("http://localhost", ModelSettings()).answer_tokens == 16_384


class Answer(BaseModel):
    """An answer with a contract."""

    text: str


@pytest.mark.parametrize(
    ("make", "settings", "output", "limit", "expected"),
    [
        # A limit in money that pays for the longest answer changes nothing.
        (OPENAI.make, ModelSettings(), None, 1_000_000, None),
        (OPENAI.make, ModelSettings(max_tokens=700), None, 1_000_000, 700),
        (ANTHROPIC.make, ModelSettings(), None, 1_000_000, 16_384),
        # Some models take no limit of over 4,096 tokens: they get none that is not set.
        (OPENAI.make, ModelSettings(), None, 60_000, None),
        (OPENAI.make, ModelSettings(max_tokens=16_000), None, 60_000, 5_999),
        (OPENAI.make, ModelSettings(), Answer, 20_000, 1_996),
        (
            GOOGLE.make,
            ModelSettings(body={"generationConfig": {"maxOutputTokens": 6_000, "topK": 3}}),
            None,
            20_000,
            1_999,
        ),
        (BEDROCK.make, ModelSettings(body={"inferenceConfig": {"maxTokens": 6_000}}), None, 20_000, 1_999),
    ],
)
def test_the_provider_is_asked_for_a_shorter_answer_only_if_its_own_is_longer_than_what_is_left(
    make: Callable[[str, ModelSettings], ServedModel],
    settings: ModelSettings,
    output: type[Answer] | None,
    limit: int,
    expected: int | None,
) -> None:
    api = {OPENAI.make: "chat", ANTHROPIC.make: "messages", GOOGLE.make: "gemini", BEDROCK.make: "converse"}
    usage = {"chat": CHAT, "messages": CACHED, "gemini": GEMINI, "converse": CONVERSE}

    async def story() -> Json:
        async with serving(Reply(events(api[make], "model", usage[api[make]]))) as server:
            provider = make(server.url, settings)
            agent = Agent(
                "clerk",
                model=provider,
                output=output,
                prices={"*": ModelPrice(1, 10)},
                budget=Budget(max_cost_micros=limit),
            )
            async with AgentRuntime.in_memory([agent]) as runtime:
                await (await runtime.start_run(agent, "Hi")).wait()
            await provider.aclose()
        return server.asked[0].body

    body = play(story())
    holder = body.get("generationConfig") or body.get("inferenceConfig") or body
    names = ("max_tokens", "max_completion_tokens", "maxOutputTokens", "maxTokens")
    assert [holder[name] for name in names if name in holder] == ([] if expected is None else [expected])
    assert holder.get("topK") == (3 if make is GOOGLE.make else None)
    assert ("response_format" in body) == (output is not None)


@pytest.mark.parametrize(
    ("error", "is_paid"),
    [
        (TimeoutError(), True),
        (ConnectionError(), True),
        (ModelUnavailable("cut", fault=ModelFault.CUT_OFF), True),
        (ModelUnavailable("away", fault=ModelFault.TRANSPORT), True),
        (ModelUnavailable("unreached", fault=ModelFault.TRANSPORT, is_unpaid=True), False),
        (ModelUnavailable("full", fault=ModelFault.RATE_LIMIT), False),
        (ModelRejected("bug", fault=ModelFault.SERVER, retry=RetryClass.RETRYABLE), True),
        (ModelRejected("no key", fault=ModelFault.AUTH, retry=RetryClass.RETRYABLE), False),
        (Rejected("not sent", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.RETRYABLE), False),
    ],
)
def test_a_call_without_a_chunk_is_paid_for_unless_the_provider_refused_it(
    error: Exception, is_paid: bool
) -> None:
    model = ScriptedModel([fail(error, at_chunk=0), say("Yes.", usage=LLMUsage(0, 0))])
    agent = Agent("clerk", model=model, prices={"*": ModelPrice(0, 1)})
    rules = Rules(retry=RetryPolicy(base_delay_ms=0, max_delay_ms=0))

    async def story() -> Sequence[Record]:
        async with AgentRuntime.in_memory([agent], rules=rules) as runtime:
            handle = await runtime.start_run(agent, "Hi")
            assert (await handle.wait()).status is RunStatus.COMPLETED
            return await runtime.sessions.records(await handle.session_id())

    (retried,) = [record.body for record in play(story()) if isinstance(record.body, records.StepRetrying)]
    assert retried.price == (NO_USAGE_PRICE if is_paid else None)


def test_the_price_table_is_not_imported_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    class Watch(MetaPathFinder):
        def find_spec(self, fullname: str, path: object, target: object = None) -> None:
            if fullname == "windlass.price_table":
                threads.append(threading.current_thread())

    class Listed(ScriptedModel):
        prices = "https://api.openai.com/v1"

    agent = Agent(
        "clerk", model=Listed([say("Yes.")], model_id="gpt-4o"), budget=Budget(max_cost_micros=9_000)
    )

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            await (await runtime.start_run(agent, "Hi")).wait()

    monkeypatch.setattr(sys, "meta_path", [Watch(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "windlass.price_table", raising=False)
    monkeypatch.delattr("windlass.price_table", raising=False)
    play(story())
    assert [thread is threading.main_thread() for thread in threads] == [False]


def test_the_children_of_a_step_are_lent_no_more_than_there_is() -> None:
    """One child answers for nearly all that it was lent; the run still keeps to its limit."""
    helper_model = ScriptedModel(lambda _: say("Helped.", usage=LLMUsage(10, 300)), model_id="helper")
    helper = Agent("helper", model=helper_model, description="Helps.", prices={"*": ModelPrice(0, 10)})
    answers = [call("helper", {"message": str(at)}, call_id=f"c{at}") for at in range(4)]
    both = answers[0] + answers[1] + answers[2] + answers[3]
    model = ScriptedModel([both, say("Done.")])
    agent = Agent(
        "clerk", model=model, subagents=[helper], prices={"*": 0}, budget=Budget(max_cost_micros=12_000)
    )

    async def story() -> tuple[int, list[int]]:
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "Hi")
            result = await handle.wait()
            found = await runtime.sessions.records(await handle.session_id())
        called = [record.body for record in found if isinstance(record.body, records.SubagentCalled)]
        lent = [body.lent.max_cost_micros or 0 for body in called if body.lent is not None]
        assert result.usage is not None
        return result.usage.cost_micros or 0, lent

    spent, lent = play(story())
    assert lent == [3_000] * 4
    assert spent <= 12_000
