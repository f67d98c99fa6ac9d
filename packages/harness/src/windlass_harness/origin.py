"""Messages of the history that no person wrote, told apart by a mark.

The mark lies in the message's provider options under our own name, where no provider looks. A user message
without a mark is a real one: the words of a person.
"""

from enum import StrEnum
from typing import Final, TypeGuard, TypeVar

from windlass_protocol import AssistantMessage, ModelMessage, SystemMessage, ToolMessage, UserMessage

_OPTIONS: Final = "windlass"
_KEY: Final = "origin"

MessageT = TypeVar("MessageT", bound=SystemMessage | UserMessage | AssistantMessage | ToolMessage)


class Origin(StrEnum):
    """Why a message is in the history although nobody said it."""

    CONTEXT = "context"  # a text that came along with a user's message
    SUMMARY = "summary"  # stands for everything before it
    PINNED = "pinned"  # put back by a compaction, such as a todo list


def mark(message: MessageT, origin: Origin) -> MessageT:
    """Return the message with a mark of where it comes from."""
    options = {**(message.provider_options or {}), _OPTIONS: {_KEY: origin.value}}
    return message.model_copy(update={"provider_options": options})


def origin_of(message: ModelMessage) -> Origin | None:
    """Return the mark of a message; None if it has none that we know."""
    options = (message.provider_options or {}).get(_OPTIONS)
    value = options.get(_KEY) if isinstance(options, dict) else None
    return Origin(value) if isinstance(value, str) and value in set(Origin) else None


def is_real_user(message: ModelMessage) -> TypeGuard[UserMessage]:
    """Say whether a message is the words of a person."""
    return isinstance(message, UserMessage) and origin_of(message) is None
