# Generated from spec/tools.schema.json by `make gen`. Do not edit.
"""Calls, results, and what a tool says of itself."""

from enum import StrEnum
from typing import Literal

from pydantic import JsonValue

from windlass_protocol._wire import Bool, Closed, JsonObject, KeepsNulls, Maybe, Open, Str
from windlass_protocol.generated.common import Id, Positive

class ToolCall(Closed):
    """A call of a tool that the model asked for."""

    id: Str
    """Identifier of the call; its result carries the same one."""
    name: Str
    """Name of the tool."""
    arguments: JsonObject
    """Arguments by parameter name."""
    parent_call_id: Maybe[Id] = None
    """The call of the program that made it; absent if the model did."""

class ToolResult(KeepsNulls, Open):
    """What came of a tool call."""

    success: Bool
    """Whether the tool did what was asked."""
    terminal: Maybe[Bool] = None
    """Whether the loop should stop after this result."""
    needs_followup: Maybe[Bool] = None
    """Whether the model should react to a failure."""
    next_action: Maybe[Str] = None
    """What the tool suggests to do next."""
    message: Maybe[Str] = None
    """A text for people."""
    error: Maybe[Str] = None
    """What went wrong, as a text for the model."""
    data: JsonValue = None
    """The result itself."""

class ToolMode(StrEnum):
    """What a tool may do: read; safe_write (inside the product, undoable); destructive; local (on this
    machine, such as a shell); external (anything else).
    """

    READ = "read"
    SAFE_WRITE = "safe_write"
    DESTRUCTIVE = "destructive"
    LOCAL = "local"
    EXTERNAL = "external"

class EffectClass(StrEnum):
    """What happens to a call that was started before a crash and has no result: read = run again; idempotent
    = run again with the same key; once = ask a person.
    """

    READ = "read"
    IDEMPOTENT = "idempotent"
    ONCE = "once"

class ApprovalRule(StrEnum):
    """When a call of a tool needs a person's consent; `policy` leaves it to the policy."""

    POLICY = "policy"
    ALWAYS = "always"
    ONCE = "once"
    NEVER = "never"

class Taint(StrEnum):
    """Taint of a session: untrusted for content of unknown authors, private for data that must not be sent
    out.
    """

    UNTRUSTED = "untrusted"
    PRIVATE = "private"

class ToolSpec(Open):
    """A tool as the model and the policy see it."""

    name: Id
    """Name of the tool, unique in its package."""
    input_schema: JsonObject
    """JSON Schema of the arguments."""
    description: Maybe[Str] = None
    """What the tool does, for the model."""
    output_schema: Maybe[JsonObject] = None
    """JSON Schema of the result data."""
    mode: Maybe[ToolMode] = None
    """What the tool may do; a declared mode wins over the name."""
    effect: Maybe[EffectClass] = None
    """What happens to an interrupted call."""
    approval: Maybe[ApprovalRule] = None
    """When a call needs consent."""
    timeout_ms: Maybe[Positive] = None
    """Longest time one call may take."""
    concurrency: Maybe[Positive] = None
    """Most calls of this tool at the same time."""
    is_shell: Maybe[Bool] = None
    """Whether the tool runs shell commands, which are then graded."""
    is_outbound: Maybe[Bool] = None
    """Whether a call can carry data out; assumed when absent."""
    reads: Maybe[tuple[Taint, ...]] = None
    """What its results bring into a session; nothing when absent."""
    metadata: Maybe[JsonObject] = None
    """Further JSON that the author pins."""

class CommandSafetyPattern(Closed):
    """A custom rule that raises the grade of matching shell commands."""

    id: Str
    """Identifier of the rule."""
    label: Str
    """Short name for people."""
    description: Str
    """What the rule guards against."""
    pattern: Str
    """Regular expression in the dialect that Python and JavaScript share."""
    category: Str
    """Category that a match reports."""
    severity: Literal["critical", "warning"]
    """critical grades a match dangerous, warning grades it caution."""
    platform: Literal["all", "unix", "windows"]
    """Where the rule applies."""
