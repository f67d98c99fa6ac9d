"""Tools of the sidecar: nothing that one raises ends the process."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import wraps
from typing import cast

from windlass import Tool, ToolRouter


def guarded(tools: ToolRouter) -> ToolRouter:
    """Return the same tools; one that raises KeyboardInterrupt has failed.

    Nobody types Ctrl-C in a tool here: signals go to the loop, which such an exception would end.
    """
    return ToolRouter(_guarded(tool) for tool in tools.list_tools())


def _guarded(tool: Tool[..., object]) -> Tool[..., object]:
    if not tool.shape.signature.is_async:
        return tool  # its thread does the same
    run = cast("Callable[..., Awaitable[object]]", tool.function)

    @wraps(run)
    async def guarded_run(*args: object, **kwargs: object) -> object:
        try:
            return await run(*args, **kwargs)
        except KeyboardInterrupt:
            raise RuntimeError("the tool raised KeyboardInterrupt") from None

    return replace(tool, function=guarded_run)
