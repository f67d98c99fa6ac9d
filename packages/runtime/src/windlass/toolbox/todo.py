"""todo: a list that the model keeps in the session."""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from windlass.toolbox.limits import TODO_ID_CHARS_MAX, TODO_ITEMS_MAX, TODO_TEXT_CHARS_MAX
from windlass.tools import Tool, ToolFailed, tool
from windlass.tools.context import CompactionContext, ToolContext

STATE_KEY: Final = "windlass.todo"
"""The key of the list in the state of a session."""


class TodoStatus(StrEnum):
    """How far an item is."""  # part of the JSON Schema of the tool

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"


class TodoItem(BaseModel):
    """One thing to do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(min_length=1, max_length=TODO_ID_CHARS_MAX)]
    text: Annotated[str, Field(min_length=1, max_length=TODO_TEXT_CHARS_MAX)]
    status: TodoStatus = TodoStatus.PENDING


_ITEMS: Final = TypeAdapter(list[TodoItem])
_BOXES: Final = {TodoStatus.PENDING: "[ ]", TodoStatus.IN_PROGRESS: "[>]", TodoStatus.DONE: "[x]"}


def todo_tool() -> Tool[..., object]:
    """Return the tool that keeps a list in the state of each session."""

    @tool(mode="safe_write", effect="idempotent")
    async def todo(
        ctx: ToolContext, items: Annotated[list[TodoItem], Field(max_length=TODO_ITEMS_MAX)] | None = None
    ) -> str:
        """Keep the list of what is to be done in this session: replace it, or see it.

        Args:
            items: The whole new list, finished items included. Leave it out to see the list as it is.
        """
        if items is not None:
            _check(items)
            value = cast(JsonValue, _ITEMS.dump_python(items, mode="json"))
            ctx.state.keep_own(STATE_KEY, value)
        return _list_text(_items(ctx.state)) or "the list is empty"

    return todo.with_options(is_outbound=False, on_compaction=_reminder)


def todo_reminder(state: Mapping[str, JsonValue]) -> str | None:
    """Return the reminder text of a list; None without open items.

    The runtime adds it after a compaction. Drivers of `windlass.steps` pass the `state` of the session.
    """
    items = _items(state)
    if all(item.status is TodoStatus.DONE for item in items):
        return None
    return f"Your to-do list as it stands:\n{_list_text(items)}"


def _reminder(context: CompactionContext) -> list[str]:
    text = todo_reminder(context.state)
    return [] if text is None else [text]


def _items(state: Mapping[str, JsonValue]) -> list[TodoItem]:
    try:
        return _ITEMS.validate_python(state.get(STATE_KEY) or [], strict=False)
    except ValidationError:  # written by another version or another tool: the model writes it again
        return []


def _check(items: list[TodoItem]) -> None:
    twice = [item_id for item_id, count in Counter(item.id for item in items).items() if count > 1]
    if twice:
        raise ToolFailed(f"duplicate item id {twice[0]!r}; give each item its own")


def _list_text(items: list[TodoItem]) -> str:
    return "\n".join(f"{_BOXES[item.status]} {item.id}: {' '.join(item.text.split())}" for item in items)
