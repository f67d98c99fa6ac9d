"""What a model of Anthropic thought, as the API wants it back: signed.

The history keeps the text of all thoughts as one, and beside it, in `provider_data`, how it falls into
blocks and the signature of each. If anything of that was changed on the way, masked or cut, the API would
refuse the whole request: a digest tells, and then the thoughts are left out.
"""

import json
from hashlib import sha256
from typing import Final, cast

from windlass.ports.model import LLMMessage
from windlass_protocol import JsonObject, JsonValue

NAME: Final = "anthropic"
"""Under which the provider finds its own data again."""
THINKING: Final = "thinking"
REDACTED: Final = "redacted_thinking"


class Thoughts:
    """The thoughts of one answer while they are read."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: dict[int, JsonObject] = {}

    def begin(self, index: int, block: JsonObject) -> None:
        """Take the beginning of a block, of whatever kind."""
        if block.get("type") in (THINKING, REDACTED):
            self._blocks[index] = dict(block)

    def add(self, index: int, name: str, *, piece: str) -> None:
        """Take more of a field of a block."""
        block = self._blocks.get(index)
        if block is not None:
            block[name] = f"{block.get(name) or ''}{piece}"

    def data(self, model_id: str) -> JsonObject | None:
        """Return what to keep; None if there is nothing that the API wants back."""
        found = [block for _, block in sorted(self._blocks.items())]
        if not any(block.get("signature") or block.get("data") for block in found):
            return None
        text = "".join(str(block.get(THINKING) or "") for block in found)
        blocks: list[JsonValue] = [
            {"data": block.get("data")}
            if block["type"] == REDACTED
            else {"chars": len(str(block.get(THINKING) or "")), "signature": block.get("signature")}
            for block in found
        ]
        return {NAME: {"model": model_id, "blocks": blocks, "digest": _digest(text, blocks)}}


def thoughts_of(message: LLMMessage, model_id: str) -> list[JsonObject]:
    """Return what led to a message; nothing if it is not as this model wrote it."""
    kept = (message.provider_options or {}).get(NAME)
    if not isinstance(kept, dict) or kept.get("model") != model_id:
        return []
    text, blocks = message.reasoning or "", kept.get("blocks")
    if not isinstance(blocks, list) or kept.get("digest") != _digest(text, blocks):
        return []
    found: list[JsonObject] = []
    at = 0
    for block in cast(list[JsonObject], blocks):
        if "data" in block:
            found.append({"type": REDACTED, "data": block["data"]})
            continue
        end = at + cast(int, block["chars"])
        found.append({"type": THINKING, THINKING: text[at:end], "signature": block["signature"]})
        at = end
    return found


def _digest(text: str, blocks: list[JsonValue]) -> str:
    told = json.dumps([text, blocks], sort_keys=True)
    return f"sha256:{sha256(told.encode()).hexdigest()}"
