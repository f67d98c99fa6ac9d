"""Running a tool once: its timeout, its failures, its result.

Whether it may run is decided elsewhere.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from traceback import format_exception_only
from typing import cast

from windlass.tool_context import ToolContext
from windlass.tool_limits import FAILED_CHARS_MAX, FAILURE_CHARS_MAX
from windlass.tool_result import NoJsonForm, tool_result
from windlass.tool_thread import in_thread
from windlass.tools import Tool, ToolFailed
from windlass_harness.redact import mask_text
from windlass_protocol import ToolResult
from windlass_protocol.codec_errors import shown


@dataclass(frozen=True, slots=True)
class ToolRun:
    """What came of one attempt."""

    result: ToolResult
    error: Exception | None = None
    """What the tool raised, for us; the model gets the result. It may quote anything."""
    is_timeout: bool = False
    """The time was over: whether the effect happened is not known."""
    is_retryable: bool = False
    """The tool says that trying again may help."""


async def run_tool(tool: Tool[..., object], values: Mapping[str, object], *, context: ToolContext) -> ToolRun:
    """Run a tool with validated values, once, within its time and that of the context.

    Whatever the tool raises is in the answer; only cancelling gets out. The context is cancelled when nobody
    waits for the tool any more, which is how one that is not async can know.
    """
    timeout_ms = min(tool.timeout_ms, context.timeout_ms or tool.timeout_ms)
    limit = asyncio.timeout(timeout_ms / 1_000)
    try:
        async with limit:
            return ToolRun(tool_result(await _call(tool, values, context)))
    except ToolFailed as error:
        told = mask_text(error.message)[:FAILED_CHARS_MAX]
        return ToolRun(failure(told), error, is_retryable=error.is_retryable)
    except NoJsonForm as error:
        return ToolRun(failure(str(error)), ToolFailed(str(error)))
    except asyncio.CancelledError:
        context.control.cancel()
        raise
    except Exception as error:  # noqa: BLE001 - the tool boundary: whatever it is, the model hears of it
        if not limit.expired():
            return ToolRun(failure(failure_text(error)), error)
        context.control.cancel()
        told = f"{tool.name} did not finish within {timeout_ms:,} ms; whether it did anything is not known"
        return ToolRun(failure(told), error, is_timeout=True)


async def _call(tool: Tool[..., object], values: Mapping[str, object], context: ToolContext) -> object:
    """Call the function of a tool; in a thread if it is not async."""
    signature = tool.shape.signature
    given = dict(values)
    if signature.context_name is not None:
        given[signature.context_name] = context
    if signature.is_async:
        return await cast(Awaitable[object], tool.function(**given))
    returned = await in_thread(partial(tool.function, **given))
    return await cast(Awaitable[object], returned) if inspect.isawaitable(returned) else returned


def failure(told: str) -> ToolResult:
    """Return the result of a call that failed and that the model should react to."""
    return ToolResult(success=False, error=told, needs_followup=True)


def failure_text(error: BaseException, mask: Callable[[str], str] = mask_text) -> str:
    """Return what a model is told of an exception: one line, short, without secrets."""
    lines = "".join(format_exception_only(error)).splitlines()
    return shown(mask(lines[0] if lines else type(error).__name__), FAILURE_CHARS_MAX)
