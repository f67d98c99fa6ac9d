"""Turns a failed validation into a refusal that carries no payload."""

import re
from typing import Final

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from windlass_protocol.codec_errors import CodecError, CodecErrorCode, Issue, pointer, shown
from windlass_protocol.limits import ERROR_COUNTED_MAX, ERROR_ISSUES_MAX, ERROR_TEXT_CHARS_MAX

# The texts of these kinds may quote the input.
QUOTING_KINDS: Final = frozenset(
    {
        "assertion_error",
        "bytes_invalid_encoding",
        "date_from_datetime_parsing",
        "date_parsing",
        "datetime_from_date_parsing",
        "datetime_object_invalid",
        "datetime_parsing",
        "get_attribute_error",
        "iteration_error",
        "json_invalid",
        "mapping_type",
        "no_such_attribute",
        "time_delta_parsing",
        "time_parsing",
        "timezone_offset",
        "url_parsing",
        "url_syntax_violation",
        "uuid_parsing",
        "value_error",
    }
)
_QUOTED_TAG: Final = re.compile(r"Input tag '.*' found", re.DOTALL)


def invalid(error: ValidationError, value: JsonValue) -> CodecError:
    """Return the refusal of a parsed value that does not fit its model."""
    count = error.error_count()
    if count > ERROR_COUNTED_MAX:
        issues = (Issue("", f"more than {ERROR_COUNTED_MAX:,} issues, too many to list"),)
    else:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        issues = tuple(_issue(details, value) for details in found[:ERROR_ISSUES_MAX])
    first = issues[0]
    name = shown(error.title, ERROR_TEXT_CHARS_MAX)
    message = f"invalid {name}: issues: {count:,}, the first at {first.path or 'the top'}: {first.message}"
    return CodecError(CodecErrorCode.INVALID, message, path=first.path, issues=issues)


def _issue(details: ErrorDetails, value: JsonValue) -> Issue:
    kind = details["type"]
    text = f"Input is not valid ({kind})" if kind in QUOTING_KINDS else details["msg"]
    text = _QUOTED_TAG.sub("Input tag found", text)
    steps = _steps(details["loc"], value)
    if kind == "missing":
        steps.append(details["loc"][-1])
    return Issue(pointer(steps), shown(text, ERROR_TEXT_CHARS_MAX))


def _steps(location: tuple[str | int, ...], value: JsonValue) -> list[str | int]:
    """Return the steps of a location that lead through the value.

    The others name the members of unions that pydantic tried.
    """
    steps: list[str | int] = []
    for step in location:
        match value, step:
            case dict(), str() if step in value:
                value = value[step]
            case list(), int():
                value = value[step]
            case _:
                continue
        steps.append(step)
    return steps
