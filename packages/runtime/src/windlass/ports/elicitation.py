"""Questions that a tool's server has for a person, in the middle of a call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from windlass_protocol import JsonObject


@dataclass(frozen=True, slots=True)
class Elicitation:
    """What a server wants to know. Its words are a stranger's: show who asks."""

    server: str
    message: str
    schema: JsonObject
    """A flat JSON Schema of the answer."""


class ElicitationHandler(Protocol):
    """Asks a person."""

    async def __call__(self, request: Elicitation) -> Mapping[str, JsonValue] | None:
        """Return the answer by field, or None to decline; one that raises declines."""
        ...
