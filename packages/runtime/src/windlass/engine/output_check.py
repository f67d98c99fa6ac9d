"""Holding an answer against an output contract."""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Final, cast

from pydantic import JsonValue
from pydantic_core import to_json

from windlass.limits import (
    OUTPUT_BYTES,
    OUTPUT_BYTES_MAX,
    OUTPUT_ERROR_CHARS_MAX,
    OUTPUT_ERRORS,
    OUTPUT_ERRORS_MAX,
    OUTPUT_LEVELS_MAX,
    OUTPUT_RECORD_BYTES_MAX,
)
from windlass.output_schema import schema_problem
from windlass_harness.loop.events import OutputChecked
from windlass_harness.redact import mask_text
from windlass_protocol import (
    CodecError,
    CodecLimits,
    JsonObject,
    OutputContract,
    OutputError,
    canonical,
    parse,
)
from windlass_protocol.codec_errors import shown

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_FENCE: Final = re.compile(r"\A\s*```[a-zA-Z]*\n(?P<inside>.*)\n```\s*\Z", re.DOTALL)


def check_output(contract: OutputContract, text: str) -> OutputChecked:
    """Return the value of an answer, or what is wrong with it.

    A code fence around it is forgiven.
    """
    fenced = _FENCE.match(text)
    candidate = (fenced["inside"] if fenced else text).encode("utf-8", "surrogatepass")
    bytes_max = min(contract.max_candidate_bytes or OUTPUT_BYTES, OUTPUT_BYTES_MAX)
    limits = CodecLimits(message_bytes_max=bytes_max, depth_max=OUTPUT_LEVELS_MAX)
    try:
        value = parse(candidate, limits)
        hashed = f"sha256:{sha256(canonical(value, limits)).hexdigest()}"
    except CodecError as error:
        return _unfit("json", error.message)
    size = len(to_json(text.encode("utf-8", "replace").decode())) + len(to_json(value))
    if size > OUTPUT_RECORD_BYTES_MAX:
        limit = OUTPUT_RECORD_BYTES_MAX
        return _unfit(
            "size", f"answer and value have {size:,} bytes as JSON, limit {limit:,}; answer shorter"
        )
    problem = schema_problem(contract.json_schema)
    if problem is not None:
        return _unfit("schema", f"no answer can be held against the schema: {problem}")
    most = min(contract.max_errors_returned or OUTPUT_ERRORS, OUTPUT_ERRORS_MAX)
    errors = value_errors(contract.json_schema, value, most=most)
    return OutputChecked(None, errors) if errors else OutputChecked(value, hash=hashed)


def _unfit(code: str, message: str) -> OutputChecked:
    return OutputChecked(None, (OutputError(path="", code=code, message=_bounded(message)),))


def value_errors(schema: JsonObject, value: JsonValue, *, most: int) -> tuple[OutputError, ...]:
    """Say where a value misses a schema that has no problem; the first `most` places."""
    # A run without a contract does not pay for the validator.
    from windlass.engine.output_validator import TooMuch, validation_errors  # noqa: PLC0415 - slow to import

    found: list[OutputError] = []
    try:
        for error in validation_errors(schema, value):
            found.append(_told(_deepest(error)))
            if len(found) >= most:
                break
    except TooMuch:
        message = "it takes too much work to hold the value against the schema; answer with a smaller one"
        found.append(OutputError(path="", code="too_much", message=message))
    return tuple(sorted(found, key=lambda error: error.path))


def _deepest(error: "ValidationError") -> "ValidationError":
    """Of alternatives that all fail, the failure that got furthest says most."""
    while error.context:
        error = max(error.context, key=lambda one: (len(one.absolute_path), one.validator != "type"))
    return error


def _told(error: "ValidationError") -> OutputError:
    path = "".join(f"/{part}" for part in error.absolute_path)
    code = str(error.validator or "false")
    return OutputError(path=_bounded(path), code=code, message=_bounded(_words(error)))


def _words(error: "ValidationError") -> str:
    """Say what was expected, and only the type of what was found.

    The answer itself may quote anything.
    """
    wanted: JsonValue = cast(JsonValue, error.validator_value)
    match str(error.validator):
        case "type":
            kinds = wanted if isinstance(wanted, list) else [wanted]
            return f"expected {' or '.join(map(str, kinds))}, found {_kind(error.instance)}"
        case "required":
            return f"missing properties: {_names(wanted, error.instance)}"
        case "enum":
            return f"expected one of {to_json(wanted).decode()}"
        case "const" | "multipleOf" | "pattern" | "format":
            return f"expected {error.validator} {to_json(wanted).decode()}"
        case "None" | "additionalProperties" | "unevaluatedProperties" | "not":
            return "not allowed here"
        case "anyOf" | "oneOf":
            return "fits none of the alternatives, or more than it may"
        case _:
            return f"{error.validator} is {to_json(wanted).decode()}, found {_kind(error.instance)}"


def _names(wanted: JsonValue, found: object) -> str:
    known: Mapping[str, object] = cast(Mapping[str, object], found) if isinstance(found, Mapping) else {}
    names = wanted if isinstance(wanted, list) else []
    return ", ".join(str(name) for name in names if name not in known)


def _kind(value: object) -> str:
    for kind, name in _KINDS.items():
        if isinstance(value, kind):
            return name
    return "null"


_KINDS: Final[dict[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def _bounded(text: str) -> str:
    return shown(mask_text(text), OUTPUT_ERROR_CHARS_MAX)
