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

ModelT = TypeVar("ModelT", bound=BaseModel)


def maker(model: type[ModelT], *given: str) -> Callable[..., ModelT]:
    """Return what makes a model of these fields, without a check.

    The others have their defaults.
    """
    defaults = {name: field.default for name, field in model.model_fields.items()}
    fields_set, extra = set(given), dict[str, object]()  # shared by all: models are frozen
    new, set_field = object.__new__, object.__setattr__

    def make(**values: object) -> ModelT:
        one = new(model)
        set_field(one, "__dict__", {**defaults, **values})
        set_field(one, "__pydantic_fields_set__", fields_set)
        set_field(one, "__pydantic_extra__", extra)
        set_field(one, "__pydantic_private__", None)
        return one

    return make


text_part: Final = maker(TextPart, "text")
reasoning_part: Final = maker(ReasoningPart, "text")
call_part: Final = maker(ToolCallPart, "tool_call_id", "tool_name", "input")
output: Final = maker(ToolOutput, "type", "value")
result_part: Final = maker(ToolResultPart, "tool_call_id", "tool_name", "output")
assistant_message: Final = maker(AssistantMessage, "content")
tool_message: Final = maker(ToolMessage, "content")
