"""What an answer cost, as providers say it and as records have it."""

from math import ceil, isfinite
from typing import Final

from pydantic import JsonValue

from windlass.errors import Rejected
from windlass.ports.model import LLMUsage
from windlass_protocol import ErrorKind, RetryClass

COUNT_MAX: Final = 10**11
"""Of one answer; the sum over the longest run is still a number that every language can hold."""


def usage_data(usage: LLMUsage) -> dict[str, JsonValue] | None:
    """Return what an answer cost, in whole numbers: a part of one counts as one.

    Raises:
        Rejected: something is not a number; the message names it.
    """
    given: dict[str, object] = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
        "reasoningTokens": usage.reasoning_tokens,
        "costMicros": usage.cost_micros,
    }
    return {name: _count(name, count) for name, count in given.items() if count is not None} or None


def _count(name: str, count: object) -> int:
    if not isinstance(count, int | float) or isinstance(count, bool) or not isfinite(count):
        found = repr(count) if isinstance(count, float | bool) else type(count).__name__
        raise Rejected(
            f"the usage of the model's answer is wrong: {name} is {found}, expected a whole number",
            kind=ErrorKind.PROVIDER_FAILURE,
            retry=RetryClass.NOT_RETRYABLE,
        )
    return min(max(ceil(count), 0), COUNT_MAX)
