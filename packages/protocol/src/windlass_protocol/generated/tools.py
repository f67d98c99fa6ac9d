# Generated from spec/tools.schema.json by `make gen`. Do not edit.
"""Calls, results, and what a tool says of itself.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_ToolCall() -> object:
    from windlass_protocol._wire import Closed, JsonObject, Maybe, Str
    from windlass_protocol.generated.common import Id

    class ToolCall(Closed):
        """A call of a tool that the model asked for."""

        __qualname__ = "ToolCall"

        id: Str
        name: Str
        arguments: JsonObject
        parent_call_id: Maybe[Id] = None

    return ToolCall


def _make_ToolResult() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import Bool, KeepsNulls, Maybe, Open, Str

    class ToolResult(KeepsNulls, Open):
        """What came of a tool call."""

        __qualname__ = "ToolResult"

        success: Bool
        terminal: Maybe[Bool] = None
        needs_followup: Maybe[Bool] = None
        next_action: Maybe[Str] = None
        message: Maybe[Str] = None
        error: Maybe[Str] = None
        data: JsonValue = None

    return ToolResult


def _make_ToolMode() -> object:
    from enum import StrEnum

    class ToolMode(StrEnum):
        """What a tool may do: read; safe_write (inside the product, undoable); destructive; local (on this
        machine, such as a shell); external (anything else).
        """

        __qualname__ = "ToolMode"

        READ = "read"
        SAFE_WRITE = "safe_write"
        DESTRUCTIVE = "destructive"
        LOCAL = "local"
        EXTERNAL = "external"

    return ToolMode


def _make_EffectClass() -> object:
    from enum import StrEnum

    class EffectClass(StrEnum):
        """What happens to a call that was started before a crash and has no result: read = run again; idempotent
        = run again with the same key; once = ask a person.
        """

        __qualname__ = "EffectClass"

        READ = "read"
        IDEMPOTENT = "idempotent"
        ONCE = "once"

    return EffectClass


def _make_ApprovalRule() -> object:
    from enum import StrEnum

    class ApprovalRule(StrEnum):
        """When a call of a tool needs a person's consent; `policy` leaves it to the policy."""

        __qualname__ = "ApprovalRule"

        POLICY = "policy"
        ALWAYS = "always"
        ONCE = "once"
        NEVER = "never"

    return ApprovalRule


def _make_Taint() -> object:
    from enum import StrEnum

    class Taint(StrEnum):
        """Taint of a session: untrusted for content of unknown authors, private for data that must not be sent
        out.
        """

        __qualname__ = "Taint"

        UNTRUSTED = "untrusted"
        PRIVATE = "private"

    return Taint


def _make_ToolSpec() -> object:
    from windlass_protocol._wire import Bool, JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Id, Positive
    from windlass_protocol.generated.tools import ApprovalRule, EffectClass, Taint, ToolMode

    class ToolSpec(Open):
        """A tool as the model and the policy see it."""

        __qualname__ = "ToolSpec"

        name: Id
        input_schema: JsonObject
        description: Maybe[Str] = None
        output_schema: Maybe[JsonObject] = None
        mode: Maybe[ToolMode] = None
        effect: Maybe[EffectClass] = None
        approval: Maybe[ApprovalRule] = None
        timeout_ms: Maybe[Positive] = None
        concurrency: Maybe[Positive] = None
        is_shell: Maybe[Bool] = None
        is_outbound: Maybe[Bool] = None
        reads: Maybe[tuple[Taint, ...]] = None
        metadata: Maybe[JsonObject] = None

    return ToolSpec


def _make_CommandSafetyPattern() -> object:
    from typing import Literal

    from windlass_protocol._wire import Closed, Str

    class CommandSafetyPattern(Closed):
        """A custom rule that raises the grade of matching shell commands."""

        __qualname__ = "CommandSafetyPattern"

        id: Str
        label: Str
        description: Str
        pattern: Str
        category: Str
        severity: Literal["critical", "warning"]
        platform: Literal["all", "unix", "windows"]

    return CommandSafetyPattern


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "ToolCall": _make_ToolCall,
        "ToolResult": _make_ToolResult,
        "ToolMode": _make_ToolMode,
        "EffectClass": _make_EffectClass,
        "ApprovalRule": _make_ApprovalRule,
        "Taint": _make_Taint,
        "ToolSpec": _make_ToolSpec,
        "CommandSafetyPattern": _make_CommandSafetyPattern,
    },
)
