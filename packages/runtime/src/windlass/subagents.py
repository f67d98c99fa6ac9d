"""Subagents as the model sees them: tools that give work to another agent."""

from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Final

from pydantic import Field, JsonValue

from windlass.tools import Tool, ToolFailed, tool
from windlass_protocol import EffectClass, ToolMode

MESSAGE_CHARS_MAX: Final = 100_000
"""What a subagent is told."""
ITSELF: Final = ""
"""Stands for the package of the agent whose tool it is."""
_KNOWN_MAX: Final = 1_024
_WORDS: Final = (
    'You are the subagent "{name}".\n'
    "{description}\n"
    "The caller delegated the following task to you. Complete it and return the final result directly.\n\n"
    "Caller message:\n{message}"
)
_HERE: Final = (
    "Delegate a piece of work to a copy of yourself, which has your tools but knows nothing of this "
    "conversation. Say all that it has to know; its answer is the result. Calls that you make at once are "
    "worked on side by side."
)

Message = Annotated[str, Field(min_length=1, max_length=MESSAGE_CHARS_MAX)]


async def _delegate(message: Message, *, output_schema: dict[str, JsonValue] | None = None) -> JsonValue:
    """Give a piece of work to somebody else.

    Args:
        message: The task, with all that is needed to do it: nothing else of this conversation is known there.
        output_schema: A JSON Schema that the result must fit, if it has to be data.
    """
    raise ToolFailed("subagents are run by a runtime, and there is none here")


@lru_cache(_KNOWN_MAX)
def subagent_tool(name: str, description: str, *, package_id: str) -> Tool[..., object]:
    """Return the tool that stands for a subagent.

    A call changes nothing by itself: what the subagent does is asked about when it does it.
    """
    told = description or f"Give work to the agent {name}."
    made = tool(_delegate, name=name, description=told, mode=ToolMode.READ, effect=EffectClass.IDEMPOTENT)
    return replace(made, delegates=package_id)


agent_tool: Final = subagent_tool("agent", _HERE, package_id=ITSELF)
"""Lets a model delegate to a copy of itself in a fresh session; give it to an agent as one of its tools."""


def subagent_words(name: str, description: str | None, *, message: str) -> str:
    """Return what a subagent is told of its task."""
    about = f"Description: {description}\n" if description else ""
    return _WORDS.format(name=name, description=about, message=message)
