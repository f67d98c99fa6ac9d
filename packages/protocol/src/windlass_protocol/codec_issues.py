"""Converts a pydantic validation error into a `CodecError` without payload."""

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from windlass_protocol.codec_errors import CodecError, CodecErrorCode, Issue, pointer, printable
from windlass_protocol.codec_words import issue_text
from windlass_protocol.limits import ERROR_COUNTED_MAX, ERROR_ISSUES_MAX, ERROR_TEXT_CHARS_MAX


def invalid(error: ValidationError, value: JsonValue) -> CodecError:
    """Return the error for a parsed value that does not fit its model."""
    count = error.error_count()
    if count > ERROR_COUNTED_MAX:
        issues = (Issue("", f"more than {ERROR_COUNTED_MAX:,} issues, too many to list"),)
    else:
        errors = error.errors(include_url=False, include_input=False)
        issues = tuple(_issue(details, value) for details in errors[:ERROR_ISSUES_MAX])
    first = issues[0]
    name = printable(error.title, ERROR_TEXT_CHARS_MAX)
    message = f"invalid {name}: issues: {count:,}, the first at {first.path or 'the top'}: {first.message}"
    return CodecError(CodecErrorCode.INVALID, message, path=first.path, issues=issues)


def _issue(details: ErrorDetails, value: JsonValue) -> Issue:
    steps, inner = _walk(details["loc"], value)
    if details["type"] == "missing":
        steps.append(details["loc"][-1])
    text = issue_text(details["type"], details.get("ctx", {}), value=inner)
    return Issue(pointer(steps), printable(text, ERROR_TEXT_CHARS_MAX))


def _walk(location: tuple[str | int, ...], value: JsonValue) -> tuple[list[str | int], JsonValue]:
    """Return the steps of a location through the value, and the value at its end.

    Steps that only name the members of a union are left out.
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
    return steps, value
