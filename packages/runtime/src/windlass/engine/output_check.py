"""Checks a model's answer against the output contract of a run."""

import re
from hashlib import sha256
from typing import Final

from pydantic_core import to_json

from windlass.json_schema import error_text, schema_problem, value_errors
from windlass.limits import (
    OUTPUT_BYTES,
    OUTPUT_BYTES_MAX,
    OUTPUT_ERRORS,
    OUTPUT_ERRORS_MAX,
    OUTPUT_LEVELS_MAX,
    OUTPUT_RECORD_BYTES_MAX,
)
from windlass_harness.loop.events import OutputChecked
from windlass_protocol import CodecError, CodecLimits, OutputContract, OutputError, canonical, parse

_FENCE: Final = re.compile(r"\A\s*```[a-zA-Z]*\n(?P<inside>.*)\n```\s*\Z", re.DOTALL)


def check_output(contract: OutputContract, text: str) -> OutputChecked:
    """Return the value of an answer, or its errors; a code fence around it is removed."""
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
        return _unfit("schema", f"the schema of the output contract cannot be used: {problem}")
    most = min(contract.max_errors_returned or OUTPUT_ERRORS, OUTPUT_ERRORS_MAX)
    errors = value_errors(contract.json_schema, value, most=most)
    return OutputChecked(None, errors) if errors else OutputChecked(value, hash=hashed)


def _unfit(code: str, message: str) -> OutputChecked:
    return OutputChecked(None, (OutputError(path="", code=code, message=error_text(message)),))
