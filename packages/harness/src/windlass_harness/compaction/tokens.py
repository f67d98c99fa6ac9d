"""How much of the model's window a history fills, by estimate."""

from collections.abc import Callable, Sequence
from typing import Final

from pydantic_core import to_json

from windlass_protocol import CompactionConfig, ModelMessage

BYTES_PER_TOKEN: Final = 4

Estimate = Callable[[ModelMessage], int]
"""Estimates one message. A caller that asks often passes one that remembers."""


def estimate_tokens(value: object) -> int:
    """Estimate the tokens of a message or JSON value: a quarter of its bytes.

    Bytes and not characters, because scripts that need three bytes for a character also need more tokens.
    """
    return -(-len(to_json(value)) // BYTES_PER_TOKEN)


def input_tokens(
    messages: Sequence[ModelMessage],
    config: CompactionConfig,
    *,
    overhead_tokens: int = 0,
    estimate: Estimate = estimate_tokens,
) -> int:
    """Return how many tokens the next model call would read.

    What the provider counted for the last call is trusted, and only what came since is estimated. Without
    such a count everything is estimated, and `overhead_tokens` (instructions and tools) is added.
    """
    known, count = config.last_known_input_tokens, config.last_known_prompt_message_count
    if known is None or count is None or count > len(messages):
        return overhead_tokens + sum(map(estimate, messages))
    return known + sum(map(estimate, messages[count:]))


def should_compact(
    messages: Sequence[ModelMessage],
    config: CompactionConfig,
    *,
    overhead_tokens: int = 0,
    estimate: Estimate = estimate_tokens,
) -> bool:
    """Say whether the next model call would read more than the threshold."""
    tokens = input_tokens(messages, config, overhead_tokens=overhead_tokens, estimate=estimate)
    return tokens > config.threshold
