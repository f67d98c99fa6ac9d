"""Prompts in the cache of a provider: where a prompt changed, and which tokens were paid again for that.

A provider reads from its cache the longest part of a prompt, from its start, that it has seen before.
The order is that of providers: tools, the system prompt, messages.
"""

from collections.abc import Sequence
from itertools import compress, count
from operator import ne
from typing import Final, assert_never

from windlass_harness.loop.notes import CachedPrompt
from windlass_protocol import PromptPart
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records

_ORDER: Final = (PromptPart.TOOL, PromptPart.SYSTEM, PromptPart.MESSAGE)
PARTS_MAX: Final = 16_384
"""Parts of a prompt that are compared; a longer one is not."""


@frozen
class PartOfPrompt:
    """A part of a prompt that a provider may cache."""

    kind: PromptPart
    text: str
    """The part as it is recorded: its kind, a colon, and a digest."""
    name: str | None = None
    """The tool, or the role of the message."""


def compare_prompts(
    before: CachedPrompt | None, parts: Sequence[PartOfPrompt], usage: records.Usage, *, model_id: str | None
) -> records.PromptCache | None:
    """Return how a prompt differs from that of the call before, and the tokens that were paid again.

    None if neither of the two calls used a cache.
    """
    cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    if before is not None and before.model_id != model_id:
        before = None
    if (not cached and before is None) or len(parts) > PARTS_MAX:
        return None
    texts = [part.text for part in parts]
    old = () if before is None else before.parts
    # Without a Python loop: `map` compares the prompts in C.
    same = next(compress(count(), map(ne, old, texts)), min(len(old), len(texts)))
    lost = (
        0 if before is None else min(before.tokens, usage.input_tokens or 0) - (usage.cache_read_tokens or 0)
    )
    loss = _loss(lost, old, parts, same) if lost > 0 else None
    return records.PromptCache(kept=same, added=texts[same:], loss=loss)


def _loss(tokens: int, old: Sequence[str], parts: Sequence[PartOfPrompt], same: int) -> records.CacheLoss:
    if same == len(old):
        return records.CacheLoss(tokens=tokens)
    kind = PromptPart(old[same].partition(":")[0])
    new = parts[same] if same < len(parts) else None
    if new is not None:
        # Of a part that was added or left out, only one of the two kinds is its own: the earlier one.
        kind = min(kind, new.kind, key=_ORDER.index)
    index = sum(part.startswith(kind) for part in old[:same])
    name = new.name if new is not None and new.kind is kind else None
    return records.CacheLoss(tokens=tokens, part=kind, index=index, name=name)


def describe_loss(loss: records.CacheLoss) -> str:
    """Return what was paid again and why, for people."""
    paid = f"paid again for {loss.tokens:,} tokens that the call before had in the provider's cache"
    name = "" if loss.name is None else f" ({loss.name})"
    match loss.part:
        case None:
            return f"{paid}; the prompt did not change, so the cache expired or was not found"
        case PromptPart.SYSTEM:
            return f"{paid}: the system prompt changed"
        case PromptPart.TOOL:
            return f"{paid}: the prompt changed at tool definition {(loss.index or 0) + 1}{name}"
        case PromptPart.MESSAGE:
            return f"{paid}: the prompt changed at message {(loss.index or 0) + 1}{name}"
        case _:
            assert_never(loss.part)
