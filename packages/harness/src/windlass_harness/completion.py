"""Decides whether a tool result ends the loop."""

from collections.abc import Mapping

from windlass_protocol import ToolResult


def is_terminal_result(result: Mapping[str, object] | ToolResult | None) -> bool:
    """Return whether the loop stops after this result.

    It stops if `terminal` is true, or if `success` is false and `needsFollowup` is not true. Only the
    literals true and false count: "true", 1 and null are neither. A mapping has the wire's names. None does
    not stop the loop.

    Raises:
        TypeError: the result has another type.
    """
    if result is None:
        return False
    if isinstance(result, ToolResult):
        terminal, success, needs_followup = result.terminal, result.success, result.needs_followup
    else:
        _check(result)
        terminal, success, needs_followup = (
            result.get("terminal"),
            result.get("success"),
            result.get("needsFollowup"),
        )
    return terminal is True or (success is False and needs_followup is not True)


def _check(result: object) -> None:
    if not isinstance(result, Mapping):
        raise TypeError(
            f"is_terminal_result takes a ToolResult, a mapping or None, found {type(result).__name__}; "
            "wrap a plain value in a ToolResult"
        )
