# Generated from spec/output.schema.json by `make gen`. Do not edit.
"""What a run must return."""

from pydantic import Field

from windlass_protocol._wire import Closed, JsonObject, Maybe, Open, Str
from windlass_protocol.generated.common import Count, Id, Positive, Sha256

class SchemaVersion(Closed):
    """Version of a schema."""

    major: Count
    """Breaking changes."""
    minor: Count
    """Additions."""
    patch: Count
    """Corrections."""

class OutputContract(Closed):
    """The JSON Schema a run's output must meet, and how hard to try."""

    schema_id: Id
    """Identifier of the schema."""
    schema_version: SchemaVersion
    """Its version."""
    json_schema: JsonObject = Field(validation_alias="schema", serialization_alias="schema")
    """JSON Schema, draft 2020-12."""
    content_hash: Maybe[Sha256] = None
    """Digest of the canonical schema."""
    max_candidate_bytes: Maybe[Positive] = None
    """Longest answer to look at; 32,768 when absent."""
    max_errors_returned: Maybe[Positive] = None
    """Most errors to report; 32 when absent."""
    max_repair_attempts: Maybe[Count] = None
    """How often the model may correct itself; 2 when absent."""

class OutputError(Open):
    """One way in which an answer misses its schema."""

    path: Str
    """JSON pointer to the place."""
    code: Str
    """Stable code."""
    message: Str
    """What was expected. Never the value."""
