"""Prices of answers: from the usage that a provider sends to the amount that is recorded."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from math import ceil
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pytest
from tests.models.wire import (
    ANTHROPIC,
    GOOGLE,
    HI,
    KEY,
    OPENAI,
    RESPONSES,
    Json,
    Reply,
    anthropic_event,
    collect,
    event,
    frame,
    play,
    responses_end,
    responses_event,
    serving,
)

from windlass.engine.model_calls.model_call import usage_part
from windlass.errors import Rejected
from windlass.models import BedrockProvider, ModelSettings
from windlass.models.transport import ServedModel
from windlass.ports.model import BilledRequest, LLMUsage, ModelPrice
from windlass.prices import Bill, OwnPrices, Tariff, check_prices
from windlass_harness.loop.notes import NO_USAGE_PRICE
from windlass_protocol import PriceGap, PriceSource
from windlass_protocol.generated import records

Row = tuple[str, str, str, float | None, Json]
AT: Final = datetime(2026, 11, 19, tzinfo=UTC)
"""When the amounts were computed: DeepSeek is cheaper at night."""
HERE: Final = Path(__file__).parent


def rows() -> list[Row]:
    """Usages as providers sent them, with the micro-dollars that they cost; None without a price.

    They are from the public recordings of the tests of pydantic-ai (MIT): answers of real providers. The
    amounts are those of genai-prices 0.2.2.
    """
    with (HERE / "usages.jsonl").open(encoding="utf-8") as lines:
        return [
            (api, host, unquote(model), micros, usage)
            for api, host, model, micros, usage in map(json.loads, lines)
        ]


def events(api: str, model: str, usage: Json) -> list[bytes]:
    """The events of an answer with this usage."""
    match api:
        case "chat":
            choice: Json = {"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}
            chunk: Json = {"model": model, "choices": [choice]}
            return [event(chunk), event({**chunk, "choices": [], "usage": usage}), b"data: [DONE]\n\n"]
        case "responses":
            said = responses_event("response.output_text.delta", delta="Hi", output_index=0)
            return [said, responses_end(model=model, usage=usage)]
        case "messages":
            first = {name: count for name, count in usage.items() if name != "output_tokens"}
            text: Json = {"type": "text", "text": "Hi"}
            return [
                anthropic_event(
                    "message_start", message={"model": model, "usage": {**first, "output_tokens": 1}}
                ),
                anthropic_event("content_block_start", index=0, content_block=text),
                anthropic_event("content_block_stop", index=0),
                anthropic_event("message_delta", delta={"stop_reason": "end_turn"}, usage=usage),
                anthropic_event("message_stop"),
            ]
        case "gemini":
            candidate: Json = {"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}
            return [event({"candidates": [candidate], "usageMetadata": usage, "modelVersion": model})]
        case _:
            block: Json = {"contentBlockIndex": 0, "delta": {"text": "Hi"}}
            stop = frame("messageStop", {"stopReason": "end_turn"})
            return [frame("contentBlockDelta", block), stop, frame("metadata", {"usage": usage})]


def provider(api: str, model: str, url: str) -> ServedModel:
    """A model behind an API."""
    if api == "converse":
        return BedrockProvider(model, api_key=KEY, base_url=url, region="eu-west-1")
    wires = {"chat": OPENAI, "responses": RESPONSES, "messages": ANTHROPIC, "gemini": GOOGLE}
    return wires[api].make(url, ModelSettings())


async def heard(rows: Sequence[Row]) -> list[LLMUsage]:
    """The usage of answers of one API, as its adapter reads them from a server."""
    usages: list[LLMUsage] = []
    replies = [Reply(events(api, model, usage)) for api, _, model, _, usage in rows]
    async with serving(*replies) as server:
        models = {model: provider(api, model, server.url) for api, _, model, _, _ in rows}
        for _, _, model, _, _ in rows:
            answer = await collect(models[model].stream(HI))
            assert answer.usage is not None
            usages.append(answer.usage)
        for each in models.values():
            await each.aclose()
    return usages


def billed(used: LLMUsage, tariff: Tariff, at: datetime = AT) -> Bill:
    """What an answer is recorded with."""
    usage = usage_part(used)
    return Bill(price=NO_USAGE_PRICE) if usage is None else tariff.bill(usage, used, at)


@pytest.mark.parametrize("api", ["chat", "responses", "messages", "gemini", "converse"])
def test_every_usage_is_recorded_with_its_amount_or_says_that_it_has_none(api: str) -> None:
    chosen = [row for row in rows() if row[0] == api]
    usages = play(lambda: heard(chosen))
    wrong: list[object] = []
    for (_, host, model, micros, usage), used in zip(chosen, usages, strict=True):
        bill = billed(used, Tariff("x", model, prices=f"https://{host}/v1"))
        price = bill.price
        assert price is not None
        expected = None if micros is None else int(Decimal(repr(micros)).quantize(Decimal(1), ROUND_HALF_UP))
        cost = None if bill.usage is None else bill.usage.cost_micros
        if (price.list_micros, price.gap is None) != (expected, micros is not None):
            wrong.append((host, model, expected, price))
        if price.parts is not None and sum(part.micros for part in price.parts) != expected:
            wrong.append((host, model, "the parts do not add up", price))
        if "cost" not in usage and cost != expected:
            wrong.append((host, model, expected, cost))
    assert not wrong
    assert len(chosen) > 100


def test_the_table_of_amounts_is_whole() -> None:
    amounts = [micros for _, _, _, micros, _ in rows()]
    assert (len(amounts), sum(micros is not None for micros in amounts)) == (1_068, 1_006)


def used(**counts: Any) -> LLMUsage:
    """The usage of a request of Chat Completions."""
    body: Json = {"prompt_tokens": 1_000, "completion_tokens": 100, **counts}
    return LLMUsage(1_000, 100, billed=(BilledRequest("chat", body, "gpt-4o"),))


OPENAI_URL: Final = "https://api.openai.com/v1"


def test_the_record_has_the_parts_the_entry_and_the_version_of_the_table() -> None:
    usage = used(prompt_tokens_details={"cached_tokens": 400})
    bill = billed(usage, Tariff("openai", "gpt-4o", prices=OPENAI_URL))
    assert bill.price is not None
    table, parts = bill.price.table, bill.price.parts
    assert table is not None
    assert table.startswith("genai-prices 0.")
    assert parts is not None
    assert [(part.unit, part.count, part.micros) for part in parts] == [
        ("input_tokens", 600, 1_500),
        ("output_tokens", 100, 1_000),
        ("cache_read_tokens", 400, 500),
    ]
    assert bill == Bill(
        records.Usage(input_tokens=1_000, output_tokens=100, cost_micros=3_000),
        records.Price(
            source=PriceSource.TABLE, list_micros=3_000, parts=parts, table=table, entry="openai/gpt-4o"
        ),
    )


def test_half_a_micro_dollar_is_rounded_up_and_less_is_dropped() -> None:
    own = check_prices(
        {"half": {"input": 0.5, "output": 0}, "less": {"input": 0.4999, "output": 0}}, "prices"
    )
    costs: list[object] = []
    for model in ("half", "less"):
        usage = billed(LLMUsage(1, 0), Tariff("x", model, own)).usage
        costs.append(usage and usage.cost_micros)
    assert costs == [1, 0]


@pytest.mark.parametrize(
    ("reported", "micros"),
    [
        ({"cost": 0.00085}, 850),
        ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.0002265}}, 227),
        ({"cost": 0.0160614, "cost_details": {"upstream_inference_cost": 0.0001764}}, 16_061),
        ({"cost": {"total_cost": 0.006, "request_cost": 0.005}}, 6_000),
        ({"cost_in_usd_ticks": 37_756_000}, 3_776),
        ({"estimated_cost": 0.00085}, 850),
        ({"cost": -1}, None),
        ({"cost": "0.5"}, None),
        ({"cost": True}, None),
    ],
)
def test_the_figure_of_the_provider_wins_and_both_are_kept(reported: Json, micros: int | None) -> None:
    body: Json = {"prompt_tokens": 1_000, "completion_tokens": 100, **reported}
    (usage,) = play(lambda: heard([("chat", "api.openai.com", "gpt-4o", None, body)]))
    bill = billed(usage, Tariff("openai", "gpt-4o", prices=OPENAI_URL))
    assert bill.usage is not None
    assert bill.price is not None
    assert bill.usage.cost_micros == (3_500 if micros is None else micros)
    assert (bill.price.list_micros, bill.price.reported_micros) == (3_500, micros)
    assert bill.price.source is (PriceSource.TABLE if micros is None else PriceSource.PROVIDER)


def test_searches_of_the_provider_are_billed_each() -> None:
    kinds = ("web_search_call", "file_search_call", "file_search_call")
    items = [
        responses_event("response.output_item.done", output_index=at, item={"type": kind})
        for at, kind in enumerate(kinds)
    ]
    usage: Json = {"input_tokens": 0, "output_tokens": 0}
    said = responses_event("response.output_text.delta", delta="Hi", output_index=9)

    async def work() -> LLMUsage | None:
        async with serving(Reply([*items, said, responses_end(model="gpt-4o", usage=usage)])) as server:
            model = RESPONSES.make(server.url, ModelSettings())
            answer = await collect(model.stream(HI))
            await model.aclose()
            return answer.usage

    searched = play(work)
    assert searched is not None
    price = billed(searched, Tariff("openai-responses", "gpt-4o", prices=OPENAI_URL)).price
    assert price is not None
    assert {(part.unit, part.count, part.micros) for part in price.parts or ()} == {
        ("web_searches", 1, 10_000),
        ("storage_searches", 2, 5_000),
    }


@pytest.mark.parametrize("holder", ["x_groq", "choices"])
def test_a_usage_is_found_where_the_server_puts_it(holder: str) -> None:
    usage: Json = {"prompt_tokens": 1_000, "completion_tokens": 100}
    choice: Json = {"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}
    chunk: Json = {"model": "gpt-4o", "choices": [choice]}
    last = {"x_groq": {"usage": usage}} if holder == "x_groq" else {"choices": [{**choice, "usage": usage}]}

    async def work() -> LLMUsage | None:
        async with serving(Reply([event({**chunk, **last}), b"data: [DONE]\n\n"])) as server:
            model = OPENAI.make(server.url, ModelSettings())
            answer = await collect(model.stream(HI))
            await model.aclose()
            return answer.usage

    assert play(work) == LLMUsage(1_000, 100)


@pytest.mark.parametrize("modality", [2.5, True, 7])
def test_a_usage_that_the_price_table_cannot_read_is_unusable(modality: object) -> None:
    details = [{"modality": modality, "tokenCount": 41}]
    usage: Json = {"promptTokenCount": 41, "candidatesTokenCount": 2, "promptTokensDetails": details}
    (heard_usage,) = play(lambda: heard([("gemini", "x", "gemini-2.5-flash", None, usage)]))
    url = "https://generativelanguage.googleapis.com"
    bill = billed(heard_usage, Tariff("google", "gemini-2.5-flash", prices=url))
    assert bill.price == records.Price(source=PriceSource.NONE, gap=PriceGap.UNUSABLE)


def test_counts_that_are_sent_as_fractions_are_counted() -> None:
    usage: Json = {"prompt_tokens": 1_000.0, "completion_tokens": 99.5}
    (heard_usage,) = play(lambda: heard([("chat", "x", "gpt-4o", None, usage)]))
    assert (heard_usage.input_tokens, heard_usage.output_tokens) == (1_000, 100)


def test_a_service_tier_has_its_own_prices() -> None:
    costs: list[object] = []
    for tier in (None, "default", "flex", "priority"):
        request = BilledRequest("chat", {"prompt_tokens": 1_000, "completion_tokens": 100}, "o4-mini", tier)
        usage = billed(
            LLMUsage(1_000, 100, billed=(request,)), Tariff("openai", "o4-mini", prices=OPENAI_URL)
        ).usage
        costs.append(usage and usage.cost_micros)
    assert costs == [1_540, 1_540, 770, 2_800]


def test_the_requests_of_a_paused_answer_are_priced_each() -> None:
    body: Json = {"input_tokens": 150_000, "output_tokens": 0}
    one = BilledRequest("messages", body, "claude-sonnet-4-0")
    tariff = Tariff("anthropic", "claude-sonnet-4-0", prices="https://api.anthropic.com")
    long = billed(LLMUsage(300_000, 0, billed=(one, one)), tariff)
    assert long.usage is not None
    # Above 200,000 tokens a request costs more; none of these two is.
    assert long.usage.cost_micros == 2 * 450_000


def test_the_time_of_the_request_decides_between_prices() -> None:
    body: Json = {"prompt_tokens": 1_000_000, "completion_tokens": 0}
    usage = LLMUsage(1_000_000, 0, billed=(BilledRequest("chat", body, "deepseek-v4-flash"),))
    tariff = Tariff("openai-compat", "deepseek-v4-flash", prices="https://api.deepseek.com")
    night, day = (billed(usage, tariff, AT.replace(hour=hour)).usage for hour in (0, 2))
    assert night is not None
    assert day is not None
    assert day.cost_micros == 2 * (night.cost_micros or 0) > 0


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"gpt-4o": 0}, (0, PriceSource.OWN, "gpt-4o")),
        ({"openai/*": 0}, (0, PriceSource.OWN, "openai/*")),
        ({"GPT-*": 0}, (0, PriceSource.OWN, "GPT-*")),
        ({"gpt-5*": 0}, (3_500, PriceSource.TABLE, "openai/gpt-4o")),
        ({"*": {"input": 1, "output": 2}}, (1_200, PriceSource.OWN, "*")),
        ({"*": ModelPrice(1, 2, request=0.001)}, (2_200, PriceSource.OWN, "*")),
        ({"*": "openai/gpt-4o-mini"}, (210, PriceSource.TABLE, "openai/gpt-4o-mini")),
        ({"*": "azure"}, (3_500, PriceSource.TABLE, "azure/gpt-4o")),
        ({"gpt-4o": 0, "*": "openai"}, (0, PriceSource.OWN, "gpt-4o")),
    ],
)
def test_own_prices_come_before_the_table(
    own: dict[str, Any], expected: tuple[int, PriceSource, str]
) -> None:
    bill = billed(used(), Tariff("openai", "gpt-4o", check_prices(own, "prices"), prices=OPENAI_URL))
    assert bill.usage is not None
    assert bill.price is not None
    assert (bill.usage.cost_micros, bill.price.source, bill.price.entry) == expected


def test_cached_tokens_have_own_prices_or_cost_as_much_as_others() -> None:
    usage = LLMUsage(1_000_000, 0, cache_read_tokens=400_000, cache_write_tokens=100_000)
    costs: list[object] = []
    for price in (ModelPrice(10, 20), ModelPrice(10, 20, cache_read=1, cache_write=12.5)):
        recorded = billed(usage, Tariff("x", "y", prices=price)).usage
        costs.append(recorded and recorded.cost_micros)
    assert costs == [10_000_000, 5_000_000 + 400_000 + 1_250_000]


ONE: Final = (("*", ModelPrice(1, 1)),)


@pytest.mark.parametrize(
    ("tariff", "usage", "gap"),
    [
        (Tariff("x", "y"), LLMUsage(1, 1), PriceGap.NO_PRICES),
        (Tariff("x", "y", prices="http://localhost:11434/v1"), LLMUsage(1, 1), PriceGap.NO_PRICES),
        (Tariff("x", "unheard-of", prices=OPENAI_URL), LLMUsage(1, 1), PriceGap.UNLISTED),
        (Tariff("x", "gpt-4o", prices=OPENAI_URL), LLMUsage(1), PriceGap.UNUSABLE),
        (Tariff("x", "y", (("*", "nobody"),)), LLMUsage(1, 1), PriceGap.NO_PRICES),
        (
            Tariff("x", "y", ONE),
            LLMUsage(1, 1, cache_read_tokens=2),
            PriceGap.UNUSABLE,
        ),
        (Tariff("x", "y", ONE), LLMUsage(1), PriceGap.UNUSABLE),
        (Tariff("x", "y", ONE), LLMUsage(10**30, 10**30), PriceGap.UNUSABLE),
        (
            Tariff("x", "y", (("y", "openai/gpt-4o"),)),
            LLMUsage(
                1, 1, billed=(BilledRequest("chat", {"prompt_tokens": 10**400, "completion_tokens": 1}),)
            ),
            PriceGap.UNUSABLE,
        ),
        (
            Tariff("x", "y", (("y", "openai/gpt-4o"),)),
            LLMUsage(1, 1, billed=(BilledRequest("chat", {"prompt_tokens": -5, "completion_tokens": -1}),)),
            PriceGap.UNUSABLE,
        ),
    ],
)
def test_a_call_without_a_price_says_why(tariff: Tariff, usage: LLMUsage, gap: PriceGap) -> None:
    bill = billed(usage, tariff)
    assert bill.price == records.Price(source=PriceSource.NONE, gap=gap)
    assert bill.usage is not None
    assert bill.usage.cost_micros is None


@pytest.mark.parametrize("own", [ONE, (("y", "openai/gpt-4o"),)])
@pytest.mark.parametrize("tokens", [(1.5, -5), (-1, 3), (2.5, 0.1)])
def test_the_counts_that_are_recorded_are_priced(own: OwnPrices, tokens: tuple[float, float]) -> None:
    """Not the fractions and negative numbers that a provider may have sent."""
    bills = [
        billed(LLMUsage(*counts), Tariff("x", "y", own))  # pyright: ignore[reportArgumentType]
        for counts in (tokens, [max(0, ceil(count)) for count in tokens])
    ]
    assert bills[0] == bills[1]
    assert bills[0].usage is not None
    assert bills[0].usage.cost_micros is not None


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        (5, "prices must be prices by the names of models, found int"),
        ({"": 0}, "prices must be prices by the names of models, such as gpt-4o"),
        ({"m": 5}, "prices: m must be 0, dollars per million tokens"),
        ({"m": -1}, "prices: m must be 0, dollars per million .*; found -1"),
        ({"m": 2.5}, "prices: m must be 0, dollars per million .*; found 2.5"),
        ({"m": {"in": 1}}, "has no price in; it takes input, .*; did you mean input\\?"),
        ({"m": {"out": 1}}, "has no price out; it takes input, .*; did you mean output\\?"),
        ({"m": True}, "prices: m must be 0"),
        ({"m": {"input": 1}}, "input and output are required"),
        ({"m": {"input": 1, "output": "x"}}, "output must be a price in US dollars"),
        ({"m": {"input": 1, "output": 1, "cached": 1}}, "has no price cached; it takes input, output"),
        (
            {"m": {"input": 1, "output": 1_000_001}},
            "output must be a price in US dollars from 0 to 1,000,000",
        ),
        ({"m": {"input": 10**400, "output": 1}}, "input must be a price in US dollars from 0 to 1,000,000"),
        ({"m": "nope"}, "prices: m: the price table has no provider 'nope'; write 0, dollars per million"),
        ({str(at): 0 for at in range(1_001)}, "at most 1,000 names, found 1,001"),
    ],
)
def test_prices_that_cannot_be_used_say_what_to_write(prices: object, message: str) -> None:
    with pytest.raises(Rejected, match=message):
        check_prices(prices, "prices")
