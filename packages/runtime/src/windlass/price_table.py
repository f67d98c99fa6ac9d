"""The prices of providers: the table of `genai-prices`, which lies in the package.

Importing it takes a tenth of a second, so `windlass.prices` imports this module when a price is needed. The
table is not fetched over the network; an application that wants that starts the updates of `genai_prices`.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from math import ceil
from typing import Final

from genai_prices import __version__
from genai_prices.data_snapshot import get_snapshot
from genai_prices.data_units import unit_data
from genai_prices.decompose import compute_leaf_values
from genai_prices.types import (
    ModelInfo,
    ModelPrice,
    Provider,
    Tier,
    TieredPrices,
    TimeOfDateConstraint,
    Usage,
    calc_unit_price,
)
from genai_prices.units import UnitDef, UnitRegistry

from windlass.ports.model import Api, BilledRequest, LLMUsage
from windlass_harness.loop.rules import CallPrice
from windlass_protocol import JsonObject, PriceGap
from windlass_protocol.frozen import frozen

_FLAVORS: Final[Mapping[Api, tuple[str, ...]]] = {
    "chat": ("chat", "default"),
    "responses": ("responses", "default"),
    "messages": ("anthropic", "default"),
    "gemini": ("default",),
    "converse": ("default",),
}
"""What the table calls the usage of an API, in the order in which a provider may have it."""
_HOMES: Final[Mapping[Api, tuple[str, str]]] = {
    "chat": ("openai", "chat"),
    "responses": ("openai", "responses"),
    "messages": ("anthropic", "default"),
    "gemini": ("google", "default"),
    "converse": ("aws", "default"),
}
"""The provider of each API, and what the table calls its usage."""
_UNITS: Final[Mapping[str, UnitDef]] = UnitRegistry(unit_data).units
_BATCH: Final = {"processing": "batch"}
"""What chooses the prices of calls in batches."""
_REQUESTS: Final = "requests"
_MILLION: Final = 1_000_000
_INPUTS: Final = ("input_mtok", "input_text_mtok", "cache_write_mtok", "cache_write_5m_mtok")
"""Prices of the tokens of a prompt; those of audio and of an hour in the cache are asked for by few."""
_OUTPUTS: Final = tuple(
    unit.price_key
    for unit in _UNITS.values()
    if (unit.dimensions.get("family"), unit.dimensions.get("direction")) == ("tokens", "output")
)


@frozen
class Listed:
    """A model in the table."""

    provider: Provider
    model: ModelInfo
    is_own_server: bool
    """Whether the server is the provider's own, which sends its usage as the table expects it."""

    @property
    def table(self) -> str:
        """The name and version of the table."""
        snapshot = get_snapshot()
        updated = f" of {snapshot.timestamp:%Y-%m-%dT%H:%M}" if snapshot.from_auto_update else ""
        return f"genai-prices {__version__}{updated}"

    @property
    def name(self) -> str:
        """The provider and the model, as the table calls them."""
        return f"{self.provider.id}/{self.model.id}"

    def has_batch_price(self, at: datetime) -> bool:
        """Whether the table has prices of its own for calls in batches, which `parts` then counts with."""
        return self._is_own and self.model.get_prices(at, _BATCH) != self.model.get_prices(at)

    def parts(self, used: LLMUsage, at: datetime) -> dict[str, tuple[int, Decimal]] | PriceGap:
        """Return count and dollars of each unit that is billed; of several requests, of each on its own."""
        try:
            if not used.billed and (used.input_tokens is None or used.output_tokens is None):
                return PriceGap.UNUSABLE
            if not used.billed:
                return dict(_parts(self.model.get_prices(at), _usage(used)))
            total: dict[str, tuple[int, Decimal]] = {}
            for request in used.billed:
                usage = self._usage_of(request)
                if usage is None:
                    return PriceGap.NO_PRICES
                for unit, (count, dollars) in _parts(self._prices(at, request), usage):
                    before = total.get(unit, (0, Decimal(0)))
                    total[unit] = before[0] + count, before[1] + dollars
        except ValueError:
            return PriceGap.UNUSABLE
        return total

    def most(self, at: datetime) -> tuple[CallPrice, ...]:
        """Return the most that a call can cost, at any time of the day, by the length of its prompt."""
        prices = [self.model.get_prices(at)]
        if isinstance(self.model.prices, list):
            daily = (
                price for price in self.model.prices if isinstance(price.constraint, TimeOfDateConstraint)
            )
            prices += [price.prices for price in daily]
        starts = {0, *(tier.start for price in prices for tier in _tiers(price))}
        return tuple(
            CallPrice(
                max(_rate(price, start, _INPUTS) for price in prices),
                max(_rate(price, start, _OUTPUTS) for price in prices),
                request=max(_request(price) for price in prices),
                above_tokens=start,
            )
            for start in sorted(starts)
        )

    def _prices(self, at: datetime, request: BilledRequest) -> ModelPrice:
        return self.model.get_prices(at, _context(request) if self._is_own else None)

    @property
    def _is_own(self) -> bool:
        # A model that the provider offers for another one has the other one's plain prices.
        return any(self.model is model for model in self.provider.models)

    def _usage_of(self, request: BilledRequest) -> Usage | None:
        extractors = self.provider.extractors or ()
        flavors = {extractor.api_flavor: extractor for extractor in extractors}
        extractor = next((flavors[name] for name in _FLAVORS[request.api] if name in flavors), None)
        if extractor is None and not self.is_own_server:
            home, flavor = _HOMES[request.api]
            provider = get_snapshot().find_provider(None, home, None)
            extractor = next(other for other in provider.extractors or () if other.api_flavor == flavor)
        if extractor is None:
            return None
        try:
            _, usage = extractor.extract({"usage": request.usage, "usageMetadata": request.usage})
        except (AttributeError, TypeError) as error:
            # The extractors trust the types of some fields that a server sent.
            raise ValueError("the usage is not as its API has it") from error
        return usage + Usage(**request.more)


def find(
    models: Sequence[str], *, address: str | None = None, provider_id: str | None = None
) -> Listed | PriceGap:
    """Return the entry of the first of these models, of a server or of a provider."""
    snapshot = get_snapshot()
    try:
        provider = snapshot.find_provider(None, provider_id, address)
    except LookupError:
        return PriceGap.NO_PRICES
    for name in models:
        try:
            _, model = snapshot.find_provider_model(name, provider, None, None)
        except LookupError:
            continue
        return Listed(provider, model, is_own_server=provider_id is None)
    return PriceGap.UNLISTED


def _parts(prices: ModelPrice, usage: Usage) -> Iterator[tuple[str, tuple[int, Decimal]]]:
    priced: dict[str, tuple[UnitDef, Decimal | TieredPrices]] = {}
    for key, unit in _UNITS.items():
        price = getattr(prices, unit.price_key)
        if price is not None:
            priced[key] = unit, price
    tokens = {key: unit for key, (unit, _) in priced.items() if key != _REQUESTS}
    counts = {**compute_leaf_values({*tokens}, usage, tokens), _REQUESTS: 1}
    is_tiered = any(isinstance(price, TieredPrices) for _, price in priced.values())
    prompt = usage.input_tokens if is_tiered else 0
    for key, (unit, price) in priced.items():
        if counts[key]:
            yield key, (int(counts[key]), calc_unit_price(price, counts[key], prompt, unit.per))


def _tiers(prices: ModelPrice) -> Iterator[Tier]:
    for key in (*_INPUTS, *_OUTPUTS):
        price = getattr(prices, key)
        if isinstance(price, TieredPrices):
            yield from price.tiers


def _rate(prices: ModelPrice, prompt: int, keys: Sequence[str]) -> int:
    """Return the highest of some prices for a prompt that is longer than this, in millionths of a dollar."""
    dollars = (price for key in keys if (price := getattr(prices, key)) is not None)
    return max((ceil(calc_unit_price(price, _MILLION, prompt + 1, 1)) for price in dollars), default=0)


def _request(prices: ModelPrice) -> int:
    unit = _UNITS[_REQUESTS]
    price = getattr(prices, unit.price_key)
    return 0 if price is None else ceil(calc_unit_price(price, _MILLION, 1, unit.per))


def _usage(used: LLMUsage) -> Usage:
    return Usage(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        output_reasoning_tokens=used.reasoning_tokens,
    )


def _context(request: BilledRequest) -> dict[str, str]:
    """Return what chooses between the prices of a model."""
    usage: JsonObject = request.usage
    tier, speed = request.tier or usage.get("service_tier"), usage.get("speed")
    if tier is None:
        # Gemini names the tier in one of two fields.
        tier = usage.get("serviceTier") or str(usage.get("trafficType") or "").removeprefix("ON_DEMAND_")
    name = str(tier).lower()
    context = _BATCH if name == "batch" else {"service_tier": name}
    return context if speed is None else {**context, "speed": str(speed)}
