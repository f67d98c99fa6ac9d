"""Prices of model calls: those that the application gives, those of the provider, and the price table.

An amount is exact until it is recorded: then it is rounded to the nearest millionth of a dollar, halves up,
and so is each of its parts, so that the parts add up to the amount.
"""

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.util import find_spec
from math import ceil
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from msgspec import structs

from windlass.errors import kind_of, near_names, wrong
from windlass.ports.model import (
    REPORTED,
    LimitedProvider,
    LLMProvider,
    LLMUsage,
    ModelPrice,
    is_price,
    prices_of,
)
from windlass.refusals import PRICE_GAPS
from windlass_harness.loop.rules import CallPrice, ModelTerms
from windlass_harness.views.payloads import model_name
from windlass_protocol import PriceGap, PriceSource
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records

if TYPE_CHECKING:
    from windlass.price_table import Listed

PriceValue: TypeAlias = ModelPrice | Mapping[str, float] | str | int
"""The price of a model: 0 for free, a ModelPrice or its fields, or an entry of the price table.

An entry is `provider`, for its model of the same name, or `provider/model`."""
OwnPrices: TypeAlias = tuple[tuple[str, ModelPrice | str], ...]
"""Prices of the application, by pattern, in the order in which they are looked up."""
PRICES_MAX: Final = 1_000
ANSWER_TOKENS: Final = 32_768
"""Tokens of the longest answer in a run with a limit in money, unless its model is set to fewer or more."""
SHORT_ANSWER_TOKENS: Final = 4_096
"""Tokens of a limit that every model takes: one that is not set to a limit is given no longer one."""
COUNT_MAX: Final = 10**11
"""Limit per answer: the sum over the longest run is still a safe integer in every language."""
WARNINGS_MAX: Final = 1_000
_LOG: Final = logging.getLogger(__name__)
_TABLE: Final = "windlass.price_table"
_MICROS: Final = Decimal(1_000_000)
_WHOLE: Final = Decimal(1)
_FREE: Final = ModelPrice(0, 0)
_FORMS: Final = (
    '0, dollars per million tokens, such as {"input": 2.5, "output": 10}, or an entry of the price table, '
    'such as "openai" or "openai/gpt-4o"'
)


def check_prices(prices: object, what: str) -> OwnPrices:
    """Return prices that an application gave.

    Raises:
        Rejected: they cannot be used; the message says what to write.
    """
    if not isinstance(prices, Mapping):
        raise wrong(f"{what} must be prices by the names of models, found {kind_of(prices)}")
    items = cast(Mapping[object, object], prices)
    if len(items) > PRICES_MAX:
        raise wrong(f"{what} must have at most {PRICES_MAX:,} names, found {len(items):,}")
    return tuple(
        (_check_pattern(name, what), _check_price(price, f"{what}: {name}")) for name, price in items.items()
    )


def _check_pattern(name: object, what: str) -> str:
    if isinstance(name, str) and name.strip():
        return name
    raise wrong(
        f"{what} must be prices by the names of models, such as gpt-4o or ollama/*; found {kind_of(name)}"
    )


def _check_price(price: object, what: str) -> ModelPrice | str:
    if isinstance(price, ModelPrice):
        return price
    if isinstance(price, str) and price.strip():
        provider_id = price.partition("/")[0]
        if _has_table() and _find([], provider_id=provider_id) is PriceGap.NO_PRICES:
            raise wrong(f"{what}: the price table has no provider {provider_id!r}; write {_FORMS}")
        return price
    if price == 0 and is_price(price):
        return _FREE
    if isinstance(price, Mapping):
        values = cast(Mapping[str, float], price)
        names = [part.name for part in fields(ModelPrice)]
        odd = sorted(str(name) for name in values if name not in names)
        if odd:
            hint = near_names(odd, names)
            raise wrong(f"{what} has no price {', '.join(odd)}; it takes {', '.join(names)}{hint}")
        try:
            return ModelPrice(**values)
        except (TypeError, ValueError) as error:
            problem = str(error) if isinstance(error, ValueError) else "input and output are required"
        raise wrong(f"{what}: {problem}")
    is_short = isinstance(price, int | float) and not isinstance(price, bool) and abs(price) < COUNT_MAX
    shown_price = price if is_short else kind_of(price)
    raise wrong(f"{what} must be {_FORMS}; found {shown_price}")


@frozen
class Bill:
    """What a model call cost, and how that was found."""

    usage: records.Usage | None = None
    """The usage with the cost, if it is known."""
    price: records.Price | None = None


NO_BILL: Final = Bill()
"""The bill of a call that was not made."""
_UNPRICED: Final = {gap: records.Price(source=PriceSource.NONE, gap=gap) for gap in PriceGap}


@frozen
class _Amount:
    """An amount by prices, in dollars."""

    parts: Mapping[str, tuple[int, Decimal]]
    source: PriceSource
    entry: str
    table: str | None = None

    @property
    def micros(self) -> int:
        """The amount as it is recorded."""
        return micros_of(sum((dollars for _, dollars in self.parts.values()), Decimal(0)))

    @property
    def recorded_parts(self) -> list[records.PricePart]:
        """The parts, rounded so that they add up to the amount."""
        recorded: list[records.PricePart] = []
        total, before = Decimal(0), 0
        for unit, (count, dollars) in self.parts.items():
            total += dollars
            until = micros_of(total)
            recorded.append(records.PricePart(unit=unit, count=count, micros=until - before))
            before = until
        return recorded


def micros_of(dollars: Decimal) -> int:
    """Return an amount in millionths of a dollar, the nearest one, halves up."""
    return int((dollars * _MICROS).quantize(_WHOLE, ROUND_HALF_UP))


@frozen
class Tariff:
    """The prices of one model."""

    route_id: str
    model_id: str
    own: OwnPrices = ()
    """Prices that the application gives; they come first."""
    prices: ModelPrice | str | None = None
    """Prices of the provider, or the address of its server."""
    is_batched: bool = False
    """Whether calls are items of batches: half the price, where the table has none for them."""

    @property
    def name(self) -> str:
        """The model as an agent names it."""
        return model_name(self.route_id, self.model_id)

    def bill(self, usage: records.Usage, used: LLMUsage, at: datetime) -> Bill:
        """Return what a call cost that was made at a time; a figure of the provider comes before prices."""
        amount = self._amount(_clamp_counts(used, usage), at)
        reported = usage.cost_micros
        if reported is None and isinstance(amount, PriceGap):
            return Bill(usage, _UNPRICED[amount])
        if isinstance(amount, _Amount):
            listed = amount.micros
            price = records.Price(
                source=amount.source if reported is None else PriceSource.PROVIDER,
                list_micros=listed,
                reported_micros=reported,
                parts=amount.recorded_parts or None,
                table=amount.table,
                entry=amount.entry,
            )
            return Bill(usage if reported is not None else structs.replace(usage, cost_micros=listed), price)
        return Bill(usage, records.Price(source=PriceSource.PROVIDER, reported_micros=reported, gap=amount))

    @property
    def is_expected(self) -> bool:
        """Whether a price is expected: the model has a server, or the application gives prices."""
        return bool(self.own) or (isinstance(self.prices, str) and self.prices != REPORTED)

    def gap(self, at: datetime) -> PriceGap | None:
        """Return why a call of the model would have no price; None if it would have one."""
        if self._is_reported:
            return None
        amount = self._amount(LLMUsage(input_tokens=1, output_tokens=1), at)
        return None if isinstance(amount, _Amount) else amount

    def terms(self, at: datetime, provider: LLMProvider) -> ModelTerms | None:
        """Return the most that a call of a provider can cost; None for a model without a price."""
        prices = self._most(at)
        return None if prices is None else _terms_of(provider, prices)

    def _most(self, at: datetime) -> tuple[CallPrice, ...] | None:
        if self._is_reported:
            return (CallPrice(0, 0),)
        price = self._price([self.model_id])
        if isinstance(price, PriceGap):
            return None
        most = (_own_most(price[1]),) if isinstance(price, tuple) else price.most(at)
        return tuple(_half_price(prices) for prices in most) if self.is_batched else most

    def _amount(self, used: LLMUsage, at: datetime) -> _Amount | PriceGap:
        price = self._price(self._models(used))
        if isinstance(price, PriceGap):
            return price
        if isinstance(price, tuple):
            parts = _own_parts(price[1], used)
            has_batch_price, facts = False, (PriceSource.OWN, price[0], None)
        else:
            parts = price.parts(used, at)
            has_batch_price = price.has_batch_price(at)
            facts = (PriceSource.TABLE, price.name, price.table)
        if isinstance(parts, PriceGap):
            return parts
        return _amount_of(_half(parts) if self.is_batched and not has_batch_price else parts, *facts)

    def _price(self, models: Sequence[str]) -> "tuple[str, ModelPrice] | Listed | PriceGap":
        """Return the price that counts: one of the application or the provider, by name, or of the table."""
        own = self._own_price()
        name, price = (self.name, self.prices) if own is None else own
        if isinstance(price, ModelPrice):
            return name, price
        if price is None or self._is_reported:
            return PriceGap.NO_PRICES
        if own is None:
            return _find(models, address=price)
        provider_id, _, model = price.partition("/")
        return _find([model] if model else models, provider_id=provider_id)

    @property
    def _is_reported(self) -> bool:
        return self.prices == REPORTED and self._own_price() is None

    def _own_price(self) -> tuple[str, ModelPrice | str] | None:
        names = (self.model_id.lower(), self.name.lower())
        for pattern, price in self.own:
            if any(fnmatchcase(name, pattern.lower()) for name in names):
                return pattern, price
        return None

    def _models(self, used: LLMUsage) -> list[str]:
        """Return the names of the model: as the provider named it, and as it was asked for."""
        answered = [request.model for request in used.billed[:1] if request.model]
        return [*answered, self.model_id]


class UnpricedModels:
    """Warns once about each model without a price."""

    def __init__(self) -> None:
        self._logged: set[tuple[str, str]] = set()

    def warn(self, agent_id: str, tariff: Tariff, gap: PriceGap) -> None:
        """Log that calls of a model have no price, unless none is expected or that was logged before."""
        if (
            not tariff.is_expected
            or (agent_id, tariff.name) in self._logged
            or len(self._logged) >= WARNINGS_MAX
        ):
            return
        self._logged.add((agent_id, tariff.name))
        _LOG.warning(
            "model %s of agent %s has no price: %s; costs and limits do not count its calls, see [prices] in "
            "windlass.toml",
            tariff.name,
            agent_id,
            PRICE_GAPS[gap],
        )


def tariff_of(provider: LLMProvider, route_id: str, model_id: str, own: OwnPrices) -> Tariff:
    """Return the tariff of a model."""
    return Tariff(route_id, model_id, own, prices_of(provider))


def shorten_answer(provider: LLMProvider, tokens: int | None) -> LLMProvider:
    """Return a provider with answers that a reservation pays for; the same one if its own are no longer."""
    if tokens is None or not isinstance(provider, LimitedProvider):
        return provider
    is_shorter = tokens < (provider.answer_tokens or SHORT_ANSWER_TOKENS + 1)
    return provider.with_answer_tokens(tokens) if is_shorter else provider


def _half(parts: Mapping[str, tuple[int, Decimal]]) -> Mapping[str, tuple[int, Decimal]]:
    """Return the parts of a call in a batch: tokens cost half, searches and the like as much as ever."""
    return {
        unit: (count, dollars / 2 if unit.endswith("tokens") else dollars)
        for unit, (count, dollars) in parts.items()
    }


def _half_price(price: CallPrice) -> CallPrice:
    return replace(price, input=-(-price.input // 2), output=-(-price.output // 2))


def _own_parts(price: ModelPrice, used: LLMUsage) -> dict[str, tuple[int, Decimal]] | PriceGap:
    if used.input_tokens is None or used.output_tokens is None:
        return PriceGap.UNUSABLE
    read, written = used.cache_read_tokens or 0, used.cache_write_tokens or 0
    if read + written > used.input_tokens:
        return PriceGap.UNUSABLE
    rows = (
        ("input_tokens", used.input_tokens - read - written, price.input),
        ("cache_read_tokens", read, price.input if price.cache_read is None else price.cache_read),
        ("cache_write_tokens", written, price.input if price.cache_write is None else price.cache_write),
        ("output_tokens", used.output_tokens, price.output),
    )
    parts = {
        unit: (count, Decimal(count) * Decimal(str(dollars)) / _MICROS)
        for unit, count, dollars in rows
        if count
    }
    if price.request:
        requests = len(used.billed) or 1
        parts["requests"] = requests, requests * Decimal(str(price.request))
    return parts


def _amount_of(
    parts: Mapping[str, tuple[int, Decimal]], source: PriceSource, entry: str, table: str | None = None
) -> _Amount | PriceGap:
    """Return an amount that a record can hold."""
    is_negative = any(count < 0 or dollars < 0 for count, dollars in parts.values())
    is_huge = sum(max(count, dollars * _MICROS) for count, dollars in parts.values()) > COUNT_MAX
    return PriceGap.UNUSABLE if is_negative or is_huge else _Amount(parts, source, entry, table)


def _clamp_counts(used: LLMUsage, usage: records.Usage) -> LLMUsage:
    """Return the usage of an answer with the counts that are recorded."""
    recorded = {name: getattr(usage, name) for name in usage.__struct_fields__}
    others = {name: count for name, count in recorded.items() if count != getattr(used, name)}
    return replace(used, **others) if others else used


def _find(
    models: Sequence[str], *, address: str | None = None, provider_id: str | None = None
) -> "Listed | PriceGap":
    """Return a model in the price table."""
    if not _has_table():
        return PriceGap.NO_PRICES
    from windlass import price_table  # noqa: PLC0415 - an extra, and slow to import

    return price_table.find(models, address=address, provider_id=provider_id)


def free_terms(provider: LLMProvider) -> ModelTerms:
    """Return the terms of a provider where only its tokens are limited."""
    return _terms_of(provider, (CallPrice(0, 0),))


def _terms_of(provider: LLMProvider, prices: tuple[CallPrice, ...]) -> ModelTerms:
    if not isinstance(provider, LimitedProvider):
        return ModelTerms(prices, ANSWER_TOKENS)
    return ModelTerms(prices, provider.answer_tokens or ANSWER_TOKENS, provider.answer_tokens_min)


def _has_table() -> bool:
    return find_spec("genai_prices") is not None


def is_table_missing() -> bool:
    """Whether the price table is installed and was not imported yet."""
    return _TABLE not in sys.modules and _has_table()


def load_table() -> None:
    """Import the price table, which takes long."""
    import_module(_TABLE)


def _own_most(price: ModelPrice) -> CallPrice:
    inputs = max(price.input, price.cache_write or 0)
    dollars = (Decimal(str(value)) * _MICROS for value in (inputs, price.output, price.request))
    return CallPrice(*(ceil(amount) for amount in dollars))
