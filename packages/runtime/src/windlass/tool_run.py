"""Running a tool once: its timeout, its failures, its result.

Whether it may run is decided elsewhere.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from traceback import format_exception_only
from typing import Final, cast

from windlass.errors import is_for_us
from windlass.json_value import NoJsonForm
from windlass.tool_context import ToolContext
from windlass.tool_limits import FAILED_CHARS_MAX, FAILURE_CHARS_MAX
from windlass.tool_result import is_light, no_json_form_text, tool_result
from windlass.tool_thread import in_own_thread, in_thread
from windlass.tools import Tool, ToolFailed
from windlass_harness.redact import mask_text
from windlass_protocol import ToolResult
from windlass_protocol.codec_errors import shown


@dataclass(frozen=True, slots=True)
class ToolRun:
    """What came of one attempt."""

    result: ToolResult
    error: BaseException | None = None
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
            return ToolRun(await _call(tool, values, context))
    except ToolFailed as error:
        # What is told in the end is masked anew, with the secrets of the runtime.
        told = mask_text(error.message[: 2 * FAILED_CHARS_MAX])[:FAILED_CHARS_MAX]
        return ToolRun(failure(told), error, is_retryable=error.is_retryable)
    except NoJsonForm as error:
        told = no_json_form_text(error)
        return ToolRun(failure(told), ToolFailed(told))
    except asyncio.CancelledError:
        context.control.cancel()
        raise
    except BaseException as error:  # the tool boundary: whatever it is, the model hears of it
        if is_for_us(error):
            raise
        if not limit.expired():
            return ToolRun(failure(failure_text(error)), error)
        return late(tool, timeout_ms, context=context)


def late(tool: Tool[..., object], timeout_ms: int, *, context: ToolContext) -> ToolRun:
    """Return what came of a call whose time is over; the tool is told, if it asks."""
    context.control.cancel()
    told = f"{tool.name} did not finish within {timeout_ms:,} ms; whether it did anything is not known"
    return ToolRun(failure(told), is_timeout=True)


async def _call(tool: Tool[..., object], values: Mapping[str, object], context: ToolContext) -> ToolResult:
    """Call the function of a tool; in a thread if it is not async."""
    signature = tool.shape.signature
    given = dict(values)
    if signature.context_name is not None:
        given[signature.context_name] = context
    if signature.is_async:
        return await _result_of(await cast(Awaitable[object], tool.function(**given)))
    returned = await in_thread(partial(_called, tool, given))
    if isinstance(returned, _Later):
        return await _result_of(await returned.value)
    return returned


@dataclass(frozen=True, slots=True)
class _Later:
    """What a function that is not async returned to be waited for."""

    value: Awaitable[object]


def _called(tool: Tool[..., object], given: Mapping[str, object]) -> ToolResult | _Later:
    """Call a function in its thread, and make there what is kept of its result."""
    returned = tool.function(**given)
    return _Later(returned) if inspect.isawaitable(returned) else tool_result(returned)


async def _result_of(value: object) -> ToolResult:
    is_ready = isinstance(value, ToolResult) or is_light(value)
    return tool_result(value) if is_ready else await in_own_thread(partial(tool_result, value))


def failure(told: str) -> ToolResult:
    """Return the result of a call that failed and that the model should react to."""
    return ToolResult(success=False, error=told, needs_followup=True)


def failure_text(error: BaseException, mask: Callable[[str], str] = mask_text) -> str:
    """Return what a model is told of an exception: one line, short, without secrets."""
    text = "".join(format_exception_only(error))
    line = (text[:_LINE_CHARS_MAX].splitlines() or [type(error).__name__])[0]
    told = mask(line)
    if len(line) == _LINE_CHARS_MAX < len(text):
        # Half a secret at the cut is none to the mask; it is far behind what is shown.
        told = told[: -_LINE_CHARS_MAX // 4] or type(error).__name__
    return shown(told, FAILURE_CHARS_MAX)


_LINE_CHARS_MAX: Final = 32_768
"""What is looked through of an exception's text."""
