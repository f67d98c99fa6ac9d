# Generated from spec/output.schema.json by `make gen`. Do not edit.
"""What a run must return.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_SchemaVersion() -> object:
    from windlass_protocol._wire import Closed
    from windlass_protocol.generated.common import Count

    class SchemaVersion(Closed):
        """Version of a schema."""

        __qualname__ = "SchemaVersion"

        major: Count
        minor: Count
        patch: Count

    return SchemaVersion


def _make_OutputContract() -> object:
    from pydantic import Field

    from windlass_protocol._wire import Closed, JsonObject, Maybe
    from windlass_protocol.generated.common import Count, Id, Positive, Sha256
    from windlass_protocol.generated.output import SchemaVersion

    class OutputContract(Closed):
        """The JSON Schema a run's output must meet, and how hard to try."""

        __qualname__ = "OutputContract"

        schema_id: Id
        schema_version: SchemaVersion
        json_schema: JsonObject = Field(validation_alias="schema", serialization_alias="schema")
        content_hash: Maybe[Sha256] = None
        max_candidate_bytes: Maybe[Positive] = None
        max_errors_returned: Maybe[Positive] = None
        max_repair_attempts: Maybe[Count] = None

    return OutputContract


def _make_OutputError() -> object:
    from windlass_protocol._wire import Open, Str

    class OutputError(Open):
        """One way in which an answer misses its schema."""

        __qualname__ = "OutputError"

        path: Str
        code: Str
        message: Str

    return OutputError


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "SchemaVersion": _make_SchemaVersion,
        "OutputContract": _make_OutputContract,
        "OutputError": _make_OutputError,
    },
)
