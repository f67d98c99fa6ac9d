"""Texts of issues: the expected and the found kind of value."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

_FIELD: Final = "this field, found none"
_NO_FIELD: Final = "no field of this name"
_OBJECT: Final = "an object"
_ARRAY: Final = "an array"
_DATE: Final = "a date as YYYY-MM-DD"
_TIME: Final = "a time of day as HH:MM:SS"
_MOMENT: Final = "a moment as RFC 3339"
_DURATION: Final = "a duration as ISO 8601"
_DECIMAL: Final = "a decimal number"
_FRACTION: Final = "a fraction"
_COMPLEX: Final = "a complex number"
_URL: Final = "a URL"
_UUID: Final = "a UUID"
_PYTHON: Final = "a value that only Python can give"

EXPECTED: Final[Mapping[str, str]] = {
    # The error types of `_wire.py`.
    "constant": "{names} in this object, found none",
    "exactly_one": "exactly one of {names}, found {count}",
    "invalid-json-value": "a JSON value",
    "text_form": "{form}",
    "whole_number": "an integer from {minimum} to {maximum}",
    # The error types of pydantic. Only facts of the schema are filled in: `error`, `tag` and the like quote
    # the input.
    "arguments_type": "an array or an object",
    "assertion_error": "a value that its own check accepts",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "bytes_invalid_encoding": "text in {encoding}",
    "bytes_too_long": "at most {max_length} bytes",
    "bytes_too_short": "at least {min_length} bytes",
    "bytes_type": "a string",
    "callable_type": _PYTHON,
    "complex_str_parsing": _COMPLEX,
    "complex_type": _COMPLEX,
    "counter_type": _OBJECT,
    "dataclass_exact_type": _PYTHON,
    "dataclass_type": _OBJECT,
    "date_from_datetime_inexact": _DATE,
    "date_from_datetime_parsing": _DATE,
    "date_future": "a date in the future",
    "date_parsing": _DATE,
    "date_past": "a date in the past",
    "date_type": _DATE,
    "datetime_from_date_parsing": _MOMENT,
    "datetime_future": "a moment in the future",
    "datetime_object_invalid": _MOMENT,
    "datetime_parsing": _MOMENT,
    "datetime_past": "a moment in the past",
    "datetime_type": _MOMENT,
    "decimal_max_digits": "at most {max_digits} digits",
    "decimal_max_places": "at most {decimal_places} decimal places",
    "decimal_parsing": _DECIMAL,
    "decimal_type": _DECIMAL,
    "decimal_whole_digits": "at most {whole_digits} digits before the point",
    "default_factory_not_called": "the fields that its default is made of",
    "deque_type": _ARRAY,
    "dict_type": _OBJECT,
    "ellipsis_error": _PYTHON,
    "enum": "{expected}",
    "extra_forbidden": _NO_FIELD,
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "fraction_parsing": _FRACTION,
    "fraction_type": _FRACTION,
    "frozen_dict_type": _OBJECT,
    "frozen_field": "no change of this field",
    "frozen_instance": "no change of this object",
    "frozen_set_type": _ARRAY,
    "get_attribute_error": _OBJECT,
    "greater_than": "a value above {gt}",
    "greater_than_equal": "a value of at least {ge}",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "int_parsing_size": "a shorter integer",
    "int_type": "an integer",
    "invalid_key": "keys that are strings",
    "is_instance_of": _PYTHON,
    "is_subclass_of": _PYTHON,
    "iterable_type": _ARRAY,
    "iteration_error": _ARRAY,
    "json_invalid": "a string that holds JSON",
    "json_type": "a string that holds JSON",
    "less_than": "a value below {lt}",
    "less_than_equal": "a value of at most {le}",
    "list_type": _ARRAY,
    "literal_error": "{expected}",
    "mapping_type": _OBJECT,
    "missing": _FIELD,
    "missing_argument": _FIELD,
    "missing_keyword_only_argument": _FIELD,
    "missing_positional_only_argument": _FIELD,
    "missing_sentinel_error": _PYTHON,
    "model_attributes_type": _OBJECT,
    "model_type": _OBJECT,
    "multiple_argument_values": "this field once, found it twice",
    "multiple_of": "a multiple of {multiple_of}",
    "named_tuple_type": "an array or an object",
    "needs_python_object": _PYTHON,
    "no_such_attribute": _NO_FIELD,
    "none_required": "null",
    "ordered_dict_type": _OBJECT,
    "recursion_depth_exceeded": "fewer levels",
    "recursion_loop": "a value that does not hold itself",
    "set_item_not_hashable": "items that are no arrays and no objects",
    "set_type": _ARRAY,
    "string_not_ascii": "ASCII characters alone",
    "string_pattern_mismatch": "text that matches {pattern}",
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "at least {min_length} characters",
    "string_type": "a string",
    "string_unicode": "a string",
    "time_delta_parsing": _DURATION,
    "time_delta_type": _DURATION,
    "time_parsing": _TIME,
    "time_type": _TIME,
    "timezone_aware": "a time with a time zone",
    "timezone_naive": "a time without a time zone",
    "timezone_offset": "a time zone {tz_expected} seconds from UTC",
    "too_long": "at most {max_length} items, found more",
    "too_short": "at least {min_length} items, found {actual_length}",
    "tuple_type": _ARRAY,
    "unexpected_keyword_argument": _NO_FIELD,
    "unexpected_positional_argument": "fewer items",
    "union_tag_invalid": "{discriminator} to be one of {expected_tags}, found another value",
    "union_tag_not_found": "{discriminator} to tell the type, found none",
    "url_parsing": _URL,
    "url_scheme": "a URL that begins with {expected_schemes}",
    "url_syntax_violation": _URL,
    "url_too_long": "a URL of at most {max_length} characters",
    "url_type": _URL,
    "uuid_parsing": _UUID,
    "uuid_type": _UUID,
    "uuid_version": "a UUID of version {expected_version}",
    "value_error": "a value that its own check accepts",
}
_CHOICES: Final = frozenset({"enum", "literal_error"})
OTHERWISE: Final = "a value that its type accepts"
"""The text for an error type that a model defined itself: its own text may quote the input."""


def issue_text(kind: str, facts: Mapping[str, object], *, value: object) -> str:
    """Return the text of an issue that pydantic found at a value."""
    # A model may raise one of pydantic's error types without its facts.
    expected = EXPECTED.get(kind, OTHERWISE).format_map(defaultdict(lambda: "…", facts))
    if ", found " in expected:
        return f"expected {expected}"
    is_other = kind in _CHOICES and isinstance(value, str)
    return f"expected {expected}, found {'another string' if is_other else json_type(value)}"


def json_type(value: object) -> str:
    """Return the JSON type of a value, without the value."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case dict():
            return "an object"
        case list():
            return "an array"
        case int() | float():
            return "a number"
        case _:
            return f"no JSON: a value of class {type(value).__name__}"
