"""Keys in what a server says: a server that repeats the key must not spread it."""

from collections import deque
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from windlass.client.limits import KEYS_KEPT_MAX, MASKED_CHARS_MIN
from windlass_protocol import CodecError, CodecLimits, parse

MASK: Final = "[key]"


class KeyMask:
    """Takes the keys that were sent out of everything that comes back."""

    def __init__(self) -> None:
        self._keys: deque[str] = deque(maxlen=KEYS_KEPT_MAX)

    def add(self, key: str) -> None:
        """Keep a key that is sent; one so short that any text may hold it is no secret."""
        if len(key) >= MASKED_CHARS_MIN and key not in self._keys:
            self._keys.append(key)

    def text(self, said: str) -> str:
        """Return a text without the keys."""
        for key in self._keys:
            said = said.replace(key, MASK)
        return said

    def json(self, raw: bytes, limits: CodecLimits) -> bytes:
        """Return JSON without the keys, however its texts are written."""
        for key in self._keys:
            raw = raw.replace(key.encode(), MASK.encode())
        # A text with escapes is another one than its bytes say.
        if not self._keys or b"\\" not in raw:
            return raw
        try:
            said = parse(raw, limits)
        except CodecError:
            # Nobody reads it further.
            return raw
        masked = self._value(said)
        return raw if masked == said else to_json(masked)

    def _value(self, said: JsonValue) -> JsonValue:
        if isinstance(said, str):
            return self.text(said)
        if isinstance(said, list):
            return [self._value(one) for one in said]
        if isinstance(said, dict):
            return {self.text(name): self._value(one) for name, one in said.items()}
        return said
