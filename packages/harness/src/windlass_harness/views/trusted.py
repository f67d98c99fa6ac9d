"""Models made of values that are known to be right.

Checking a value that comes out of a checked record costs several times as much as all the rest of a fold.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from pydantic import BaseModel

from windlass_protocol import (
    AssistantMessage,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
)
from windlass_protocol.unchecked import unchecked

ModelT = TypeVar("ModelT", bound=BaseModel)


def maker(model: type[ModelT], *given: str) -> Callable[..., ModelT]:
    """Return what makes a model of these fields, without a check.

    The others have their defaults.
    """
    defaults = {name: field.default for name, field in model.model_fields.items()}
    names = set(given)

    def make(**values: object) -> ModelT:
        return unchecked(model, {**defaults, **values}, given=names)

    return make


text_part: Final = maker(TextPart, "text")
reasoning_part: Final = maker(ReasoningPart, "text")
call_part: Final = maker(ToolCallPart, "tool_call_id", "tool_name", "input")
output: Final = maker(ToolOutput, "type", "value")
result_part: Final = maker(ToolResultPart, "tool_call_id", "tool_name", "output")
assistant_message: Final = maker(AssistantMessage, "content")
tool_message: Final = maker(ToolMessage, "content")
