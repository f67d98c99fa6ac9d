"""Tools made from the descriptions of an MCP server.

A server is not trusted: its descriptions are checked before a model sees them, its hints count only if the
host application trusts them, and a person approves the hash of the whole description.
"""

import re
from hashlib import sha256
from typing import Final, Protocol, cast

from pydantic import JsonValue

from windlass.limits import DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX
from windlass.mcp.server import (
    DEFINITION_BYTES_MAX,
    DEFINITION_LEVELS_MAX,
    McpServer,
    McpToolOptions,
)
from windlass.tools import PIN, KitOptions, Tool, ToolOptions, arguments_problem, json_tool
from windlass.tools.context import ToolContext
from windlass.tools.json_schema import schema_problem
from windlass_protocol import CodecError, CodecLimits, EffectClass, JsonObject, ToolMode, canonical
from windlass_protocol.frozen import sealed

BETWEEN: Final = "__"
"""Separates the name of a server from that of its tool."""
PARTS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""The fields of a definition that count: those that describe the tool and its arguments."""
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_LIMITS: Final = CodecLimits(message_bytes_max=DEFINITION_BYTES_MAX, depth_max=DEFINITION_LEVELS_MAX)
_DIGEST_CHARS: Final = 8
_OLD_DIALECTS: Final = re.compile(r"https?://json-schema\.org/(draft-0[67]|draft/2019-09)/schema#?")


@sealed
class Definition:
    """A tool as its server describes it."""

    server: str
    body: JsonObject

    @property
    def tool(self) -> str:
        """The name that the server uses."""
        return str(self.body.get("name", ""))

    @property
    def name(self) -> str:
        """The name that a model uses: `server__tool`.

        A name that had to be changed ends in a digest of the original, so that no two become the same.
        """
        plain = self.server + BETWEEN + _OTHER.sub("_", self.tool)
        if plain == self.server + BETWEEN + self.tool and len(plain) <= NAME_CHARS_MAX:
            return plain
        digest = sha256(self.tool.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
        return f"{plain[: NAME_CHARS_MAX - _DIGEST_CHARS - 1]}-{digest}"

    @property
    def description(self) -> str:
        """The description for the model."""
        return str(self.body.get("description") or self.body.get("title") or "")

    @property
    def input_schema(self) -> JsonObject:
        return _schema(self.body.get("inputSchema"))

    @property
    def output_schema(self) -> JsonObject | None:
        """The schema of structured content; None if the server declares none."""
        return _schema(self.body["outputSchema"]) if "outputSchema" in self.body else None

    @property
    def fingerprint(self) -> str:
        """`sha256:` and the digest of the whole definition."""
        return f"sha256:{sha256(canonical(self.body, _LIMITS)).hexdigest()}"

    def problem(self, secrets: tuple[str, ...] = ()) -> str | None:
        """Return why the definition cannot be used; None if it can."""
        try:
            text = canonical(self.body, _LIMITS).decode()
        except CodecError as error:
            return f"its definition is too large, or not valid JSON: {error.message}"
        if any(secret in text for secret in secrets):
            return "its definition contains a secret of the host application"
        if len(self.description) > DESCRIPTION_CHARS_MAX:
            return f"its description is too long: limit {DESCRIPTION_CHARS_MAX:,} characters"
        problem = arguments_problem(self.input_schema)
        if problem is not None:
            return f"its input schema is not valid: {problem}"
        output = self.output_schema
        problem = None if output is None else schema_problem(output)
        return None if problem is None else f"its output schema is not valid: {problem}"

    def changes(self, other: "Definition") -> tuple[str, ...]:
        """Return the names of the parts in which two definitions differ."""
        return tuple(part for part in PARTS if self.body.get(part) != other.body.get(part))


class McpCall(Protocol):
    """Calls tools."""

    async def __call__(
        self, definition: Definition, arguments: JsonObject, *, context: ToolContext
    ) -> object: ...


def make_tool(definition: Definition, server: McpServer, *, call: McpCall) -> Tool[..., object]:
    """Return the tool of a definition without problems.

    Raises:
        Rejected: an option of the host application is not valid.
    """

    async def run(arguments: JsonObject, context: ToolContext) -> object:
        return await call(definition, arguments, context=context)

    hints = _hints(definition) if server.options.get("trust_hints") else McpToolOptions()
    options = McpToolOptions(mode=ToolMode.EXTERNAL, effect=EffectClass.ONCE)
    options.update(hints)
    by_host = server.options.get("tools", {}).get(definition.tool, McpToolOptions())
    if "mode" in by_host:
        # The server's hint about the effect does not apply to an overridden mode.
        options["effect"] = EffectClass.ONCE
    options.update(by_host)
    # The output of any server may contain untrusted content.
    kit = KitOptions(
        reads="untrusted",
        metadata={
            "mcp": {"server": definition.server, "tool": definition.tool},
            PIN: definition.fingerprint,
        },
    )
    if "is_outbound" in options:
        kit["is_outbound"] = options.pop("is_outbound")
    tool_options = {"name": definition.name, "description": definition.description, **options}
    return json_tool(run, definition.input_schema, **cast(ToolOptions, tool_options)).with_options(**kit)


def _hints(definition: Definition) -> McpToolOptions:
    annotations = definition.body.get("annotations")
    hints = annotations if isinstance(annotations, dict) else {}
    trusted = McpToolOptions()
    if hints.get("readOnlyHint") is True:
        trusted.update(mode=ToolMode.READ, effect=EffectClass.READ)
    else:
        if hints.get("destructiveHint") is True:
            trusted["mode"] = ToolMode.DESTRUCTIVE
        if hints.get("idempotentHint") is True:
            trusted["effect"] = EffectClass.IDEMPOTENT
    if hints.get("openWorldHint") is False:
        trusted["is_outbound"] = False
    return trusted


def _schema(declared: JsonValue) -> JsonObject:
    """Return a schema; an older dialect is treated as the current one.

    Most servers name an older dialect and use only the common subset; otherwise the checks refuse the schema.
    """
    schema = declared if isinstance(declared, dict) else {}
    dialect = schema.get("$schema")
    if isinstance(dialect, str) and _OLD_DIALECTS.fullmatch(dialect):
        return {key: value for key, value in schema.items() if key != "$schema"}
    return cast(JsonObject, schema)
