"""A client for the MCP conformance suite: it connects, lists the tools, and calls each."""

import asyncio
import sys
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from windlass import ToolCall, ToolRouter
from windlass.mcp import Elicitation, McpServer, McpServers
from windlass_protocol import JsonObject

EXAMPLES: Final[dict[str, JsonValue]] = {
    "number": 2,
    "integer": 2,
    "string": "text",
    "boolean": True,
    "array": [],
    "object": {},
}


def arguments_of(schema: JsonObject) -> JsonObject:
    """Return arguments that fit a schema with plain types."""
    properties, required = schema.get("properties"), schema.get("required")
    declared = properties if isinstance(properties, dict) else {}
    names = [str(name) for name in required] if isinstance(required, list) else []
    kinds = {name: part.get("type") for name, part in declared.items() if isinstance(part, dict)}
    return {name: EXAMPLES[str(kinds.get(name, "string"))] for name in names}


async def answer(request: Elicitation) -> Mapping[str, JsonValue] | None:
    """Accept an elicitation as a person does who leaves every field as it is shown."""
    properties = request.schema.get("properties")
    fields = properties if isinstance(properties, dict) else {}
    return {
        name: part["default"] for name, part in fields.items() if isinstance(part, dict) and "default" in part
    }


async def main(url: str) -> None:
    """Use a server as a host application would."""
    server = McpServer.http("suite", url, on_elicitation=answer)
    async with McpServers([server]) as servers:
        router = ToolRouter(servers.tools)
        for number, tool in enumerate(servers.tools):
            call = ToolCall(id=f"c{number}", name=tool.name, arguments=arguments_of(tool.input_schema))
            await router.dispatch(call, consent_granted=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
