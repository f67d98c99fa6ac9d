"""What came of a call: text, structured content, and marks of all that is neither."""

from collections.abc import Sequence

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from pydantic import JsonValue

from windlass.adapters.mcp.definition import Definition
from windlass.json_schema import schema_faults
from windlass.tool_result import result_value
from windlass.tools import ToolFailed
from windlass_protocol import JsonObject

_MADE = "the call was made; do not repeat it only because of this"


def value_of(definition: Definition, result: CallToolResult) -> JsonValue:
    """Return what a model is told of a result.

    Raises:
        ToolFailed: the tool failed, or its result is not what its server said.
    """
    parts = [_part(block) for block in result.content]
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    if result.is_error:
        raise ToolFailed("\n".join(texts) or f"{definition.name} failed and does not say why")
    has_structure = "structured_content" in result.model_fields_set and result.structured_content is not None
    if definition.output_schema is not None:
        _check(definition, result_value(result.structured_content), has_structure=has_structure)
    if not has_structure:
        return _joined(parts)
    structured = result_value(result.structured_content)
    # The texts of a structured result say the same again.
    others: list[JsonValue] = [part for part in parts if not isinstance(part, str)]
    return structured if not others else {"structured": structured, "content": others}


def _check(definition: Definition, value: JsonValue, *, has_structure: bool) -> None:
    schema = definition.output_schema
    assert schema is not None, "only a result with a schema is checked"
    if not has_structure:
        raise ToolFailed(f"{definition.name} did not return the structured content that it promised; {_MADE}")
    faults = schema_faults(schema, value)
    if faults:
        raise ToolFailed(
            f"{definition.name} returned what does not fit its own schema: {'; '.join(faults)}; {_MADE}"
        )


def _joined(parts: Sequence[JsonValue]) -> JsonValue:
    if all(isinstance(part, str) for part in parts):
        return "\n".join(str(part) for part in parts)
    return list(parts)


def _part(block: ContentBlock) -> JsonValue:
    match block:
        case TextContent():
            return result_value(block.text)
        case ImageContent() | AudioContent():
            return {"$omitted": f"{block.type} {block.mime_type}, {_size(block.data):,} bytes"}
        case ResourceLink():
            link: JsonObject = {"resource": str(block.uri), "name": block.name}
            return link if block.description is None else {**link, "description": block.description}
        case EmbeddedResource():
            return _resource(block)


def _resource(block: EmbeddedResource) -> JsonValue:
    inside = block.resource
    found: JsonObject = {"resource": str(inside.uri)}
    if isinstance(inside, BlobResourceContents):
        kind = inside.mime_type or "bytes"
        return {**found, "$omitted": f"{kind}, {_size(inside.blob):,} bytes"}
    return {**found, "text": inside.text}


def _size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")
