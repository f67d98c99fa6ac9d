"""What an agent must return, as a contract."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final, cast

from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema

from windlass.definitions import wrong
from windlass.tool_limits import PACKAGE_BYTES_MAX
from windlass.tool_schema import PlainSchema, plain_schema
from windlass_protocol import CodecError, CodecLimits, JsonObject, OutputContract, SchemaVersion, canonical

_LIMITS: Final = CodecLimits(message_bytes_max=PACKAGE_BYTES_MAX)
_FIRST: Final = SchemaVersion(major=1, minor=0, patch=0)

Output = type | Mapping[str, object] | OutputContract
"""A type that pydantic knows (a model, a dataclass, list[int]), a JSON Schema, or a whole contract."""


def output_contract(output: object, name: str) -> OutputContract:
    """Return the contract for an output; `name` is for a schema without a name.

    Raises:
        Rejected: it is no schema, or a type without one.
    """
    if isinstance(output, OutputContract):
        return output
    if isinstance(output, Mapping):
        schema = cast(JsonObject, dict(cast(Mapping[str, object], output)))
        given = schema.get("$id") or schema.get("title")
        return _contract(given if isinstance(given, str) else name, schema)
    return _contract(getattr(output, "__name__", name), _schema_of(output))


def schema_hash(schema: JsonObject) -> str:
    """Return the digest of a schema: `sha256:` and that of its canonical form.

    Raises:
        Rejected: it is not JSON.
    """
    try:
        return f"sha256:{sha256(canonical(schema, _LIMITS)).hexdigest()}"
    except CodecError as error:
        problem = error.message
    raise wrong(f"the output schema is not JSON: {problem}")


def _contract(schema_id: str, schema: JsonObject) -> OutputContract:
    return OutputContract.model_validate(
        {
            "schema_id": schema_id,
            "schema_version": _FIRST,
            "schema": schema,
            "content_hash": schema_hash(schema),
        }
    )


def _schema_of(output: object) -> JsonObject:
    made: JsonObject = {}
    try:
        if not isinstance(output, str | bytes):
            # A text would be taken for the name of a type, and evaluated.
            made = TypeAdapter(cast(type[object], output)).json_schema(schema_generator=PlainSchema)
    except (PydanticUserError, PydanticInvalidForJsonSchema, TypeError):
        made = {}
    if not made:
        raise wrong(
            f"output is a model, a dataclass, a JSON Schema or an OutputContract, found {_named(output)}"
        )
    return plain_schema(made)


def _named(output: object) -> str:
    return getattr(output, "__name__", type(output).__name__)
