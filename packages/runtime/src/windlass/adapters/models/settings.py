"""What a provider may be told beside its model, its key and its address."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from windlass_protocol import JsonObject

MAX_TOKENS: Final = 16_384
"""Of one answer, where an API insists on a limit and nobody gave one."""
CONNECT_TIMEOUT_S: Final = 10.0
IDLE_TIMEOUT_S: Final = 120.0
"""The longest silence of a server: before its first byte and between two pieces."""
DRAIN_TIMEOUT_S: Final = 1.0
"""How long a finished stream is read on, so that its connection can be used again."""
EVENT_BYTES_MAX: Final = 8 * 1_048_576
"""One event of a stream."""
ERROR_BYTES_MAX: Final = 65_536


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Settings of a provider; what is None is left to the server."""

    max_tokens: int | None = None
    """Of one answer."""
    output: JsonObject | None = None
    """A JSON Schema that the text of every answer has to fit; the server sees to it."""
    body: JsonObject | None = None
    """Fields of the request that have no name here, such as `reasoning_effort` or `thinking`."""
    headers: Mapping[str, str] | None = None
    reasoning_field: str | None = None
    """Where a server of Chat Completions takes back what its model thought, such as `reasoning_content`."""
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    idle_timeout_s: float = IDLE_TIMEOUT_S
    is_cached: bool = True
    """Whether Anthropic is asked to cache the prompt up to its last messages."""


class Environment(Protocol):
    """Where variables are read; `os.environ` is one."""

    def get(self, name: str, /) -> str | None:
        """Return the value of a variable."""
        ...


@dataclass(frozen=True, slots=True)
class Address:
    """Where a provider is and how it lets us in; never shown."""

    base_url: str
    api_key: str
