"""What `agent.chat.stream` takes."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, field_validator

from windlass_sidecar.history import Message
from windlass_sidecar.limits import MESSAGES_MAX, TOOLS_MAX
from windlass_sidecar.params import Name, Params

_MODEL_CHARS_MAX = 256
_URL_CHARS_MAX = 2_048


class ChatStream(Params):
    """A chat, and who is to answer it."""

    provider: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]
    model: Annotated[str, Field(min_length=1, max_length=_MODEL_CHARS_MAX)]
    messages: Annotated[list[Message], Field(min_length=1, max_length=MESSAGES_MAX)]
    base_url: Annotated[str | None, Field(max_length=_URL_CHARS_MAX)] = None
    api_key: Annotated[str | None, Field(repr=False)] = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    max_tokens: Annotated[int | None, Field(gt=0)] = None
    tools: Annotated[list[str | dict[str, JsonValue]] | None, Field(max_length=TOOLS_MAX)] = None
    stream_id: Name | None = None
    session_id: Name | None = None
    """The durable session to go on with: its history is in the journal."""
    request_input: bool | None = None
    """Whether people can be asked; as the host said by `protocol.describe` when left out."""
    budget: dict[str, JsonValue] | None = None

    @field_validator("base_url")
    @classmethod
    def _is_plain_address(cls, value: str | None) -> str | None:
        """Refuse what is no address, or holds a key: addresses are recorded."""
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("expected an address that begins with http:// or https://")
        if parts.username is not None or parts.password is not None or parts.query:
            raise ValueError("expected an address without a login or a query; give the key as apiKey")
        return value
