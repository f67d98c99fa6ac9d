"""Tools that strangers describe: a run uses what it began with, or nothing."""

from dataclasses import replace
from typing import Final

from windlass.tools import Tool, ToolFailed
from windlass_protocol import ToolSpec

PIN: Final = "pin"
"""The metadata of a tool that names, by a hash, what its maker was told of it."""


def as_pinned(spec: ToolSpec, tool: Tool[..., object]) -> Tool[..., object]:
    """Return the tool of a spec, or one that refuses if their pins differ.

    Whoever consented to calls of the tool consented to what the spec says of it.
    """
    pins = (spec.metadata or {}).get(PIN), tool.metadata.get(PIN)
    if None in pins or pins[0] == pins[1]:
        return tool

    async def refuse(**_: object) -> object:
        raise ToolFailed(
            f"{tool.name} has changed since this run began, and nobody approved the change; nothing was done."
            " A new run uses the tool as it is now"
        )

    # Nobody is asked about the change: consent to what the spec says is enough to be refused.
    return replace(tool, function=refuse, metadata={**tool.metadata, PIN: pins[0]})
