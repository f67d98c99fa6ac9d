"""JSON Schema 2020-12 of strangers: schemas are refused or safe to use, validation is bounded.

`schema_problem` refuses a schema that could fetch, match a pattern in more than linear time, or never end,
and one with patterns that are too large together.
`value_errors` says where a value misses a schema, `schema_faults` says it in lines of text. Patterns are
matched by the engine of pydantic, which never backtracks; it knows no look-around and no back-references.

The library `jsonschema` takes longer to import than the rest of an agent: it is imported by the first schema.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import date, datetime, time
from functools import cache, lru_cache, partial
from ipaddress import IPv4Address, IPv6Address
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol, cast
from urllib.parse import unquote, urlsplit

from pydantic import JsonValue
from pydantic_core import SchemaError as PatternError
from pydantic_core import SchemaValidator, core_schema, to_json

from windlass.limits import (
    OUTPUT_CHECKS_MAX,
    OUTPUT_ERROR_CHARS_MAX,
    PATTERN_CHARS_MAX,
    PATTERN_STEPS_PER_CHECK,
    PATTERN_WEIGHT_MAX,
    PROBLEMS_MAX,
    SCHEMA_BYTES_MAX,
    SCHEMA_CHAIN_MAX,
    SCHEMA_ENUM_VALUES_MAX,
    SCHEMA_PATTERNS_SIZE_MAX,
    SCHEMA_PROPERTIES_MAX,
)
from windlass_harness.redact import mask_text
from windlass_harness.redact.shapes import is_secret_key
from windlass_protocol import CodecError, CodecLimits, JsonObject, OutputError, canonical, parse
from windlass_protocol.codec_errors import printable
from windlass_protocol.limits import FREE_LEVELS_MAX

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

Path = tuple[str, ...]
Schema = JsonObject | bool

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_ONE: Final = frozenset(
    {
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_COMBINED: Final = frozenset({"allOf", "anyOf", "oneOf"})
_LISTS: Final = _COMBINED | {"prefixItems"}
_MAPS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_SAME_VALUE: Final = _COMBINED | {"not", "if", "then", "else", "dependentSchemas"}
"""Keywords with schemas that apply to the value itself, not to a part of it."""
_REFS: Final = frozenset({"$ref", "$dynamicRef"})
_LIMITS: Final = CodecLimits(message_bytes_max=SCHEMA_BYTES_MAX, depth_max=FREE_LEVELS_MAX)


# Regular expressions, also for the search tool.

_COUNT: Final = re.compile(r"\{(\d{1,9})(?:(,)(\d{1,9})?)?\}")


def pattern_problem(pattern: str) -> str | None:
    """Say why a regular expression cannot be used; None if it can."""
    problem = _size_problem(pattern)
    if problem is not None:
        return problem
    try:
        _PATTERNS.compile(pattern)
    except PatternError:
        return "a pattern is not a regular expression, or it uses look-around or back-references"
    return None


def _size_problem(pattern: str) -> str | None:
    if len(pattern) > PATTERN_CHARS_MAX:
        return f"a pattern is too long: {len(pattern):,} characters, limit {PATTERN_CHARS_MAX:,}"
    if weight(pattern) > PATTERN_WEIGHT_MAX:
        return f"a pattern repeats too much: over the limit of {PATTERN_WEIGHT_MAX:,} pieces"
    return None


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern that has no problem is found anywhere in a text."""
    return _PATTERNS.compile(pattern).isinstance_python(text)


class Patterns:
    """Compiled patterns, those that were used last up to a size together: some have ten million bytes."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._size = 0
        self._kept: OrderedDict[str, SchemaValidator] = OrderedDict()
        self._lock = Lock()

    def compile(self, pattern: str) -> SchemaValidator:
        """Return a pattern in its compiled form.

        Raises:
            PatternError: it is not a regular expression, or too large.
        """
        with self._lock:
            if pattern in self._kept:
                self._kept.move_to_end(pattern)
                return self._kept[pattern]
        made = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
        with self._lock:
            if pattern not in self._kept:
                self._kept[pattern] = made
                self._size += compiled_size(pattern)
            while self._size > self._size_max:
                oldest, _ = self._kept.popitem(last=False)
                self._size -= compiled_size(oldest)
        return made


_PATTERNS: Final = Patterns(2 * SCHEMA_PATTERNS_SIZE_MAX)
_PATTERN_SIZE: Final = 20
_WORDS: Final = re.compile(r"\\[wWpP]")
_WORDS_SIZE: Final = 100
"""Size of a class that has hundreds of ranges in Unicode."""
_DIGITS: Final = re.compile(r"\\[dD]")
_DIGITS_SIZE: Final = 10
_CLASS_CHARS_PER_PIECE: Final = 5


def compiled_size(pattern: str) -> int:
    """Return the size of a compiled pattern in pieces, of which `\\w` has many.

    A piece takes up to 1 KB, and 3 µs to compile; meanwhile nothing else of the process runs.
    """
    return _PATTERN_SIZE + weight(pattern, size_of=_piece_size)


def _piece_size(piece: str) -> int:
    if _WORDS.search(piece):
        return _WORDS_SIZE
    return _DIGITS_SIZE if _DIGITS.search(piece) else 1 + len(piece) // _CLASS_CHARS_PER_PIECE


def _one(_: str) -> int:
    return 1


def weight(pattern: str, *, size_of: Callable[[str], int] = _one) -> int:
    """Return about how many pieces a pattern has with its repetitions written out.

    `size_of` is given each piece: a character, an escape or a class, and says how many it counts for.
    """
    groups: list[int] = [0]
    last, at = 0, 0
    while at < len(pattern):
        count = _COUNT.match(pattern, at)
        if count is not None:
            times = int(count[3] or count[1])
            groups[-1] += last * max(0, times - 1)
            last *= max(1, times)
            at = count.end()
            continue
        start, at = at, _piece_end(pattern, at)
        match pattern[start]:
            case "(":
                groups.append(0)
                last = 0
            case ")" if len(groups) > 1:
                last = max(1, groups.pop())
                groups[-1] += last
            case "*" | "+" | "?":
                pass
            case _:
                last = size_of(pattern[start:at])
                groups[-1] += last
    return sum(groups)


def _piece_end(pattern: str, start: int) -> int:
    """Return where the character, escape or class that begins at a place ends."""
    match pattern[start]:
        case "[":
            return _class_end(pattern, start) + 1
        case "\\":
            return start + 2
        case _:
            return start + 1


def _class_end(pattern: str, start: int) -> int:
    """Return where the class that begins at a place ends."""
    at = start + 1
    while at < len(pattern) and (pattern[at] != "]" or at == start + 1):
        at += 2 if pattern[at] == "\\" else 1
    return at


# Schemas.


class _Unusable(Exception):
    """A schema cannot be used, and why."""


SCHEMA_LIGHT_BYTES_MAX: Final = 4_096
"""Size of a schema that is checked on an event loop: about 30 ms."""
_PATTERNS_LIGHT: Final = 2_000
"""Size of the patterns that are compiled on an event loop: about 6 ms."""


def schema_problem(schema: JsonObject) -> str | None:
    """Say why a schema cannot be used; None if it can.

    Raises:
        ManyChecks: only few checks are to be made here.
    """
    try:
        return _problem(canonical(schema, _LIMITS))
    except CodecError as error:
        return error.message


@lru_cache(maxsize=64)
def _problem(schema: bytes) -> str | None:
    if FEW_CHECKS.get() and len(schema) > SCHEMA_LIGHT_BYTES_MAX:
        raise ManyChecks
    value = cast(JsonObject, parse(schema, _LIMITS))
    try:
        _Walk(value).check()
    except _Unusable as error:
        return str(error)
    return _meta_problem(value)


def _refuse(problem: str | None) -> None:
    if problem is not None:
        raise _Unusable(problem)


class _Walk:
    """All schemas inside a schema by their paths, and which of them see the same value."""

    def __init__(self, schema: JsonObject) -> None:
        self._nodes: dict[Path, Schema] = {}
        self._anchors: dict[str, Path] = {}
        self._properties = 0
        self._patterns: dict[str, None] = {}
        self._has_patterns = False
        self._has_leftovers = False
        self._add(schema, ())

    def check(self) -> None:
        """Raise if the schema cannot be used."""
        if self._has_patterns and self._has_leftovers:
            raise _Unusable("patternProperties and unevaluatedProperties cannot be used together")
        depths: dict[Path, int] = {}
        for path in self._nodes:
            self._depth(path, (), depths)
        self._check_patterns()

    def _add(self, schema: JsonValue, path: Path) -> None:
        if isinstance(schema, bool):
            self._nodes[path] = schema
        if not isinstance(schema, dict):
            return
        self._nodes[path] = schema
        self._check_words(schema, path)
        for key, value in schema.items():
            for part, inner in _inner(key, value):
                self._add(inner, (*path, *part))

    def _check_words(self, schema: JsonObject, path: Path) -> None:
        if schema.get("$schema", _DIALECT) not in (_DIALECT, f"{_DIALECT}#"):
            raise _Unusable("the $schema is not JSON Schema 2020-12")
        if path and "$id" in schema:
            raise _Unusable("only the whole schema may have an $id")
        for name in ("$anchor", "$dynamicAnchor"):
            anchor = schema.get(name)
            if isinstance(anchor, str):
                self._anchors[anchor] = path
        values, properties = schema.get("enum"), schema.get("properties")
        if isinstance(values, list) and len(values) > SCHEMA_ENUM_VALUES_MAX:
            raise _Unusable(f"too many enum values: {len(values):,}, limit {SCHEMA_ENUM_VALUES_MAX:,}")
        names = properties if isinstance(properties, dict) else {}
        secret = next(filter(is_secret_key, names), None)
        if secret is not None:
            raise _Unusable(
                f"the property {secret!r} names a secret: its value would be masked in the journal; "
                "choose another name"
            )
        self._properties += len(names)
        if self._properties > SCHEMA_PROPERTIES_MAX:
            raise _Unusable(f"too many properties: over the limit of {SCHEMA_PROPERTIES_MAX:,}")
        pattern, keyed = schema.get("pattern"), schema.get("patternProperties")
        if isinstance(pattern, str):
            self._patterns[pattern] = None
        if isinstance(keyed, dict):
            self._has_patterns = True
            self._patterns.update(dict.fromkeys(keyed))
        self._has_leftovers |= "unevaluatedProperties" in schema

    def _check_patterns(self) -> None:
        for pattern in self._patterns:
            _refuse(_size_problem(pattern))
        size = sum(compiled_size(pattern) for pattern in self._patterns)
        if size > SCHEMA_PATTERNS_SIZE_MAX:
            raise _Unusable(
                f"its patterns are too large together: {size:,} pieces, limit {SCHEMA_PATTERNS_SIZE_MAX:,}; "
                f"\\w counts as {_WORDS_SIZE}: write [A-Za-z0-9_], or repeat less"
            )
        if FEW_CHECKS.get() and size > _PATTERNS_LIGHT:
            raise ManyChecks
        for pattern in self._patterns:
            _refuse(pattern_problem(pattern))

    def _depth(self, path: Path, trail: tuple[Path, ...], depths: dict[Path, int]) -> int:
        """Return the longest chain of schemas that see the same value, from here on."""
        if path in depths:
            return depths[path]
        if path in trail:
            raise _Unusable(
                "a $ref leads back to itself without descending into the value: validation would not end"
            )
        if len(trail) > SCHEMA_CHAIN_MAX:
            raise _Unusable(f"too many schemas refer to one another in a row, limit {SCHEMA_CHAIN_MAX}")
        inner = [self._depth(inner_path, (*trail, path), depths) for inner_path in self._same_value(path)]
        depths[path] = 1 + max(inner, default=0)
        if depths[path] > SCHEMA_CHAIN_MAX:
            raise _Unusable(f"too many schemas refer to one another in a row, limit {SCHEMA_CHAIN_MAX}")
        return depths[path]

    def _same_value(self, path: Path) -> Iterator[Path]:
        schema = self._nodes[path]
        if isinstance(schema, bool):
            return
        for key, value in schema.items():
            if key in _REFS:
                yield self._target(value)
            elif key in _SAME_VALUE:
                for part, inner in _inner(key, value):
                    if isinstance(inner, dict | bool):
                        yield (*path, *part)

    def _target(self, ref: JsonValue) -> Path:
        if not isinstance(ref, str) or not ref.startswith("#"):
            raise _Unusable("a $ref must stay inside the schema, as in #/$defs/…")
        name = unquote(ref[1:])
        if name and not name.startswith("/"):
            path = self._anchors.get(name)
        else:
            path = tuple(part.replace("~1", "/").replace("~0", "~") for part in name.split("/")[1:])
        if path is None or path not in self._nodes:
            raise _Unusable("a $ref points to no schema")
        return path


def _inner(key: str, value: JsonValue) -> Iterator[tuple[Path, JsonValue]]:
    """Yield the schemas that a keyword holds, with their paths."""
    if key in _ONE:
        yield (key,), value
    elif key in _LISTS and isinstance(value, list):
        for index, inner_schema in enumerate(value):
            yield (key, str(index)), inner_schema
    elif key in _MAPS and isinstance(value, dict):
        for name, inner_schema in value.items():
            yield (key, name), inner_schema


# Values.


def schema_faults(schema: JsonObject, value: JsonValue) -> tuple[str, ...]:
    """Say in lines of text where a value misses a schema that has no problem; no value is quoted."""
    errors = value_errors(schema, value, most=PROBLEMS_MAX)
    return tuple(f"{error.path or 'the top'}: {error.message}" for error in errors)


def value_errors(schema: JsonObject, value: JsonValue, *, most: int) -> tuple[OutputError, ...]:
    """Say where a value misses a schema that has no problem; the first `most` places.

    Raises:
        ManyChecks: only few checks are to be made here.
    """
    errors: list[OutputError] = []
    try:
        for error in _validation_errors(schema, value):
            errors.append(_output_error(_deepest(error)))
            if len(errors) >= most:
                break
    except _TooMuch:
        if FEW_CHECKS.get():
            raise ManyChecks from None
        message = f"validation takes more than {OUTPUT_CHECKS_MAX:,} checks; answer with a smaller value"
        errors.append(OutputError(path="", code="too_much", message=message))
    return tuple(sorted(errors, key=lambda error: error.path))


def _deepest(error: "ValidationError") -> "ValidationError":
    """Return the most telling error: of failed alternatives, the one deepest in the value."""
    while error.context:
        error = max(
            error.context, key=lambda candidate: (len(candidate.absolute_path), candidate.validator != "type")
        )
    return error


def _output_error(error: "ValidationError") -> OutputError:
    path = "".join(f"/{part}" for part in error.absolute_path)
    code = str(error.validator or "false")
    return OutputError(path=error_text(path), code=code, message=error_text(_error_message(error)))


def _error_message(error: "ValidationError") -> str:
    """Say what was expected, and only the type of what was found.

    The answer itself may quote anything.
    """
    expected: JsonValue = cast(JsonValue, error.validator_value)
    match str(error.validator):
        case "type":
            kinds = expected if isinstance(expected, list) else [expected]
            return f"expected {' or '.join(map(str, kinds))}, found {_kind(error.instance)}"
        case "required":
            return f"missing properties: {_names(expected, error.instance)}"
        case "enum":
            return f"expected one of {to_json(expected).decode()}"
        case "const" | "multipleOf" | "pattern" | "format":
            return f"expected {error.validator} {to_json(expected).decode()}"
        case "None" | "additionalProperties" | "unevaluatedProperties" | "not":
            return "not allowed here"
        case "anyOf" | "oneOf":
            return "matches none of the alternatives, or more than one"
        case _:
            return f"{error.validator} is {to_json(expected).decode()}, found {_kind(error.instance)}"


def _names(required: JsonValue, instance: object) -> str:
    present: Mapping[str, object] = (
        cast(Mapping[str, object], instance) if isinstance(instance, Mapping) else {}
    )
    names = required if isinstance(required, list) else []
    return ", ".join(str(name) for name in names if name not in present)


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


def error_text(text: str) -> str:
    """Return the text of an error without secrets, cut to its limit."""
    return printable(mask_text(text), OUTPUT_ERROR_CHARS_MAX)


# The bounded validator: nothing is fetched, and every keyword that is evaluated is counted.


class _Validator(Protocol):
    """The part of the library's validator that is used."""

    def iter_errors(self, instance: object) -> "Iterator[ValidationError]": ...

    def descend(
        self, instance: object, schema: object, *, path: str | None = None, schema_path: str | None = None
    ) -> "Iterator[ValidationError]": ...


_Found = Iterable["ValidationError"] | None
_Keyword = Callable[[_Validator, object, object, JsonObject], "_Found"]

FEW_CHECKS: ContextVar[bool] = ContextVar("few checks", default=False)
"""Whether checks by a schema end with `ManyChecks` instead of holding up the event loop."""
FEW_CHECKS_MAX: Final = 2_000
"""Checks of a value on an event loop: about 10 ms."""
_LEFT: ContextVar[list[int]] = ContextVar("checks left")


class ManyChecks(Exception):
    """Checking a value by a schema takes more than the few checks that are made on an event loop."""


class _TooMuch(Exception):
    """Validating a value takes more checks than the limit."""


def _meta_problem(schema: JsonObject) -> str | None:
    """Say where a schema breaks the rules of its own dialect."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - slow to import
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        path = "/".join(str(part) for part in error.absolute_path)
        return f"it is not a JSON Schema (draft 2020-12), see /{path}"
    except RecursionError:
        return "it is nested too deep"
    return None


def _validation_errors(schema: JsonObject, value: JsonValue) -> "Iterator[ValidationError]":
    """Yield where a value misses a schema that has no problem.

    Raises:
        _TooMuch: the limit of checks is reached.
    """
    left = _LEFT.set([FEW_CHECKS_MAX if FEW_CHECKS.get() else OUTPUT_CHECKS_MAX])
    try:
        yield from _validator(canonical(schema)).iter_errors(_quiet(value))
    except RecursionError:
        raise _TooMuch from None
    finally:
        _LEFT.reset(left)


@lru_cache(maxsize=64)
def _validator(schema: bytes) -> _Validator:
    body = cast(JsonObject, parse(schema))
    # With a `$schema`, the library would go on with its own validator, which has no bounds.
    body.pop("$schema", None)
    return _bounded_validator()(body)


@cache
def _bounded_validator() -> Callable[[JsonObject], _Validator]:
    from jsonschema import Draft202012Validator, FormatChecker  # noqa: PLC0415 - slow to import
    from jsonschema.validators import (  # noqa: PLC0415
        extend,  # pyright: ignore[reportUnknownVariableType] - its stubs are partial
    )
    from referencing import Registry  # noqa: PLC0415

    formats = FormatChecker(formats=())
    for name, check in _FORMATS.items():
        formats.checks(name)(partial(_is_of_format, check))
    keywords = cast("dict[str, _Keyword]", {**Draft202012Validator.VALIDATORS, **_OWN})
    make = cast("Callable[..., Callable[..., _Validator]]", extend)(
        Draft202012Validator, {name: _count_checks(keyword) for name, keyword in keywords.items()}
    )
    registry: Registry[JsonValue] = Registry()
    return lambda schema: make(schema, format_checker=formats, registry=registry)


# The library puts the repr of a value into every message: these cost nothing and tell nothing.


class _Object(dict[str, object]):
    def __repr__(self) -> str:
        return "an object"


class _List(list[object]):
    def __repr__(self) -> str:
        return "a list"


class _Text(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "a text"


def _quiet(value: JsonValue) -> object:
    if isinstance(value, dict):
        return _Object({key: _quiet(item) for key, item in value.items()})
    if isinstance(value, list):
        return _List([_quiet(item) for item in value])
    return _Text(value) if isinstance(value, str) else value


# Keywords that the library evaluates with a backtracking engine or in quadratic time.


def _miss(message: str) -> "ValidationError":
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415 - slow to import

    return ValidationError(message)


def _count_checks(keyword: _Keyword) -> _Keyword:
    def check(validator: _Validator, value: object, instance: object, schema: JsonObject) -> "_Found":
        _spend(1)
        return keyword(validator, value, instance, schema)

    return check


def _spend(checks: int) -> None:
    left = _LEFT.get()
    left[0] -= checks
    if left[0] < 0:
        raise _TooMuch


_weight = lru_cache(maxsize=1_024)(weight)


def _matches(pattern: str, text: str) -> bool:
    """Match a pattern; its work counts, because the engine cannot be interrupted."""
    _spend(_weight(pattern) * len(text) // PATTERN_STEPS_PER_CHECK)
    return matches(pattern, text)


def _pattern(validator: _Validator, pattern: object, instance: object, schema: JsonObject) -> "_Found":
    if isinstance(instance, str) and not _matches(str(pattern), instance):
        yield _miss("does not match")


def _enum(validator: _Validator, values: object, instance: object, schema: JsonObject) -> "_Found":
    choices = cast(list[JsonValue], values)
    if isinstance(instance, str):
        _spend(len(choices) // _TEXTS_PER_CHECK)
        is_choice = instance in choices
    else:
        # Each comparison counts: a thousand objects may be compared with each of many values.
        _spend(len(choices))
        form = canonical(cast(JsonValue, instance))
        is_choice = any(canonical(choice) == form for choice in choices)
    if not is_choice:
        yield _miss("is none of the values")


_TEXTS_PER_CHECK: Final = 20
"""Comparisons of a text that take as long as one check."""


def _pattern_properties(
    validator: _Validator, patterns: object, instance: object, schema: JsonObject
) -> "_Found":
    if not isinstance(instance, dict):
        return
    for pattern, inner in cast(dict[str, JsonObject], patterns).items():
        for key, member in cast(dict[str, object], instance).items():
            if _matches(pattern, key):
                yield from validator.descend(member, inner, path=key, schema_path=pattern)


def _additional_properties(
    validator: _Validator, inner: object, instance: object, schema: JsonObject
) -> "_Found":
    if not isinstance(instance, dict):
        return
    properties = cast(dict[str, object], schema.get("properties") or {})
    patterns = cast(dict[str, object], schema.get("patternProperties") or {})
    for key, member in cast(dict[str, object], instance).items():
        if key in properties or any(_matches(pattern, key) for pattern in patterns):
            continue
        if inner is False:
            error = _miss("is not known")
            error.path.appendleft(key)
            yield error
        else:
            yield from validator.descend(member, inner, path=key)


def _unique_items(validator: _Validator, is_wanted: object, instance: object, schema: JsonObject) -> "_Found":
    if is_wanted and isinstance(instance, list):
        items = cast(list[JsonValue], instance)
        if len({canonical(item) for item in items}) < len(items):
            yield _miss("has equal elements")


_OWN: Final[dict[str, _Keyword]] = {
    "enum": _enum,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}


# Formats that are checked; any other is an annotation.

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME: Final = re.compile(r"\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_EMAIL: Final = re.compile(r"[^\s@<>()\[\]]{1,64}@[^\s@<>()\[\]]{1,255}")
_DURATION: Final = re.compile(
    r"P(?=.)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?|P\d+W", re.ASCII
)
_FRACTION: Final = re.compile(r"\.\d+")


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _is_made(date.fromisoformat, text)


def _is_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None and _is_made(time.fromisoformat, _iso(text))


def _is_moment(text: str) -> bool:
    day, mark, clock = text[:10], text[10:11], text[11:]
    if mark not in ("T", "t") or not _is_date(day) or not _is_time(clock):
        return False
    return _is_made(datetime.fromisoformat, f"{day}T{_iso(clock)}")


def _iso(clock: str) -> str:
    """Return a time as Python reads it, without fractions of a second."""
    return _FRACTION.sub("", clock).replace("Z", "+00:00").replace("z", "+00:00")


def _is_uri(text: str) -> bool:
    if not text.isascii() or not text.isprintable() or " " in text:
        return False
    return _is_made(urlsplit, text) and bool(urlsplit(text).scheme)


def _is_made(make: Callable[[str], object], text: str) -> bool:
    try:
        make(text)
    except ValueError:
        return False
    return True


def _is_of_format(check: Callable[[str], bool], value: object) -> bool:
    return not isinstance(value, str) or check(value)


_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "date": _is_date,
    "time": _is_time,
    "date-time": _is_moment,
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
    "ipv4": lambda text: _is_made(IPv4Address, text),
    "ipv6": lambda text: _is_made(IPv6Address, text),
    "uri": _is_uri,
}
