"""Calls of a workflow that an agent of another framework makes, and performs with what it holds in memory."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from typing import Any, Final, cast

from pydantic import JsonValue

from windlass.limits import MODEL_TIMEOUT_MS, NAME_CHARS_MAX, QUESTION_CHARS_MAX
from windlass.tools import AnyTool, ToolOptions, json_tool
from windlass.tools.context import ToolContext
from windlass.workflow.replay import current_workflow
from windlass_harness.loop.programs import ASK_QUESTION
from windlass_protocol import JsonObject

_ANY_ARGUMENTS: Final[JsonObject] = {"type": "object"}
"""The framework validates them."""
_TIMEOUT_S: Final = MODEL_TIMEOUT_MS / 1_000
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
MODEL: Final = "model"
"""The name of the tool behind the model requests of an agent."""


def is_in_workflow() -> bool:
    """Whether this code is a part of a workflow."""
    return current_workflow() is not None


def full_name(agent_name: str, name: str) -> str:
    """Return the name of the tool behind a tool of an agent."""
    return _OTHER.sub("_", f"{agent_name}__{name}")[:NAME_CHARS_MAX]


def tool_options(options: Mapping[str, Any], *, needs_approval: bool) -> ToolOptions:
    """Return the options of a tool: those that its author gave, and else those of one that runs at once."""
    approval = "always" if needs_approval else "never"
    return ToolOptions(mode="external", effect="once", approval=approval) | cast(ToolOptions, options)


def make_tool(agent_name: str, name: str, description: str, options: ToolOptions) -> AnyTool:
    """Return the tool behind a tool of an agent."""
    options = ToolOptions(timeout=_TIMEOUT_S) | options
    options |= ToolOptions(name=full_name(agent_name, name), description=description)
    return cast(AnyTool, json_tool(_perform, _ANY_ARGUMENTS, **options))


async def _perform(arguments: JsonObject, context: ToolContext) -> object:
    body = await context.control.body()
    return await body()


async def make_call(
    tool_name: str, arguments: JsonObject, work: Callable[[], Awaitable[object]]
) -> JsonValue:
    """Make a call of the workflow and return its result: that of `work`, which has a JSON form.

    The work is done once, outside of the workflow, where there is I/O, with the context variables of here.

    Raises:
        CallFailed: it failed, or the call was denied.
    """
    workflow = current_workflow()
    assert workflow is not None, "the caller has looked"
    variables = copy_context()

    async def perform() -> JsonValue:
        return cast(JsonValue, await asyncio.create_task(_await(work()), context=variables))

    return await workflow.call(tool_name, arguments, perform)


async def _await(work: Awaitable[object]) -> object:
    return await work


async def approve(text: str) -> bool:
    """Ask a person to approve; return whether they did."""
    workflow = current_workflow()
    assert workflow is not None, "the caller has looked"
    options: list[JsonValue] = [{"id": option, "label": option} for option in ("approve", "deny")]
    answer = await workflow.call(ASK_QUESTION, {"prompt": text[:QUESTION_CHARS_MAX], "options": options})
    return isinstance(answer, dict) and answer.get("optionId") == "approve"
