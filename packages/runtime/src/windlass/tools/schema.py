"""JSON Schema of a tool, from its signature and docstring.

Schema and validator come from one pydantic model, built on first use: it takes a quarter of a millisecond,
which a program with a hundred tools should not pay on import. Parameters of simple types have the same schema
without a model, so a runtime opens without it. The validator is strict, as JSON Schema is: a string is not
converted to a number or back, but a time, an enum or a UUID is a string.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PydanticUserError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import CoreSchema

from windlass.errors import wrong
from windlass.tools.context import ToolContext
from windlass_protocol import JsonObject
from windlass_protocol.frozen import sealed

MISSING: Final = inspect.Parameter.empty
_KINDS: Final = {
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values",
    inspect.Parameter.VAR_KEYWORD: "takes any name",
    inspect.Parameter.POSITIONAL_ONLY: "has no name that a call could use",
}


@sealed
class ToolParameter:
    """One parameter that the model fills in."""

    name: str
    annotation: object
    default: object = MISSING


@sealed
class Signature:
    """The parameters of a tool."""

    parameters: tuple[ToolParameter, ...]
    context_name: str | None
    is_async: bool
    deps: object = None
    """The type of the dependencies that the tool uses, `ToolContext[…]`; None if it names none."""


def read_signature(function: Callable[..., object], tool: str) -> Signature:
    """Return the parameters of a function.

    Raises:
        Rejected: a parameter has no type or cannot be passed by name, a type cannot be resolved, or the
            function is a generator.
    """
    target = _target(function)
    _check_kind(target, tool)
    hints = _hints(target, tool)
    parameters: list[ToolParameter] = []
    contexts: list[str] = []
    deps: object = None
    for parameter in _parameters(function, tool):
        _check_parameter(parameter, hints, tool)
        annotation = hints[parameter.name]
        context = _context_in(annotation)
        if context is not None:
            contexts.append(parameter.name)
            deps = next(iter(get_args(context)), None)
        else:
            parameters.append(ToolParameter(parameter.name, annotation, parameter.default))
    if len(contexts) > 1:
        raise wrong(f"tool {tool}: {' and '.join(contexts)} are both a ToolContext; keep one of them")
    return Signature(
        tuple(parameters), contexts[0] if contexts else None, inspect.iscoroutinefunction(target), deps
    )


def _target(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function behind a callable: it has the type hints."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function):
        return function
    return type(function).__call__


def _check_kind(target: Callable[..., object], tool: str) -> None:
    if inspect.isasyncgenfunction(target) or inspect.isgeneratorfunction(target):
        raise wrong(
            f"tool {tool} yields; return the whole result, and call progress() of a ToolContext on the way"
        )


def _hints(target: Callable[..., object], tool: str) -> Mapping[str, object]:
    try:
        return get_type_hints(inspect.unwrap(target), include_extras=True)
    except NameError as error:
        name = error.name
    except TypeError:  # a builtin has no hints
        return {}
    raise wrong(
        f"tool {tool}: the type {name} is not known where the tool is defined; define or import it "
        "above, at the level of the module and not only for type checkers"
    )


def _parameters(function: Callable[..., object], tool: str) -> tuple[inspect.Parameter, ...]:
    try:
        return tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a descriptor of another type is a TypeError from Python 3.13 on
        pass
    raise wrong(f"tool {tool}: its parameters cannot be read; wrap it in a function with type hints")


def _check_parameter(parameter: inspect.Parameter, hints: Mapping[str, object], tool: str) -> None:
    name = parameter.name
    if parameter.kind in _KINDS:
        raise wrong(
            f"tool {tool}: {parameter} {_KINDS[parameter.kind]}, and a model needs to know each parameter; "
            "name them one by one"
        )
    if name in {"self", "cls"} and name not in hints:
        raise wrong(
            f"tool {tool}: {name} has no value yet; make the tool of the bound method: tool(instance.{tool})"
        )
    if name not in hints:
        raise wrong(f"tool {tool}: {name} has no type; write {name}: str, or whatever it is")
    if isinstance(parameter.default, FieldInfo):
        raise wrong(
            f"tool {tool}: the default of {name} is a Field; write {name}: Annotated[type, Field(...)] "
            "and give the default itself"
        )


def _context_in(annotation: object) -> object | None:
    """Return the ToolContext of an annotation, which may allow None as well."""
    if get_origin(annotation) in {Union, UnionType}:
        members = [member for member in get_args(annotation) if member is not NoneType]
        annotation = members[0] if len(members) == 1 else None
    return annotation if annotation is ToolContext or get_origin(annotation) is ToolContext else None


def has_parameter(signature: Signature, name: str) -> bool:
    """Whether the model fills in a parameter of this name."""
    return any(parameter.name == name for parameter in signature.parameters)


_UNUSABLE: Final = (PydanticUserError, TypeError)
"""Exceptions of pydantic for a type or constraint that it cannot handle."""
_PLAIN: Final = frozenset[object]({str, int, float, bool, NoneType, list, dict})
_CONTAINERS: Final = frozenset({list, dict, Union, UnionType})


class Unfit(Exception):
    """Arguments that miss a schema: one line for each place, without the values."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(f"{len(problems)} problems")
        self.problems = problems


class PlainSchema(GenerateJsonSchema):
    """JSON Schema without titles that only repeat names."""

    def field_title_should_be_set(self, schema: CoreSchema | Any) -> bool:
        """Return False: the title would repeat the name of the field."""
        return False

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Ignore defaults without a JSON form: the function still has them."""


def plain_schema(schema: JsonObject) -> JsonObject:
    """Return a schema in a canonical form: no class titles, `required` sorted.

    The order of `required` has no meaning and must not change the fingerprint.
    """
    for part in (schema, *_definitions(schema)):
        part.pop("title", None)
        required = part.get("required")
        if isinstance(required, list):
            part["required"] = cast(Any, sorted(cast(list[str], required)))
    return schema


@dataclass(frozen=True)
class ArgumentShape:
    """The JSON Schema and the validator of a tool's arguments."""

    tool: str
    signature: Signature
    descriptions: dict[str, str]

    def check(self) -> None:
        """Check that every type has a JSON form; plain types need no check.

        Raises:
            Rejected: a type has no JSON form, or is unknown.
        """
        if not all(_is_plain(parameter.annotation) for parameter in self.signature.parameters):
            _ = self.schema

    @cached_property
    def schema(self) -> JsonObject:
        """The JSON Schema of the arguments; do not change it.

        Raises:
            Rejected: a type has no JSON form.
        """
        schema = plain_schema(self._raw_schema)
        if self._is_closed:
            for part in _definitions(schema):
                if "properties" in part:
                    part.setdefault("additionalProperties", False)
        return schema

    def validate(self, raw: bytes) -> dict[str, object]:
        """Return the Python values of JSON arguments by name, without the omitted ones.

        Raises:
            ValidationError, Unfit: the arguments do not fit.
        """
        extra = "forbid" if self._is_closed else None
        model = self._model.__pydantic_validator__.validate_json(
            raw, strict=True, extra=extra, by_alias=True, by_name=False
        )
        names_set = model.model_fields_set
        names = [parameter.name for parameter in self.signature.parameters]
        return {name: getattr(model, f"p{at}") for at, name in enumerate(names) if f"p{at}" in names_set}

    @cached_property
    def _is_closed(self) -> bool:
        """Whether no nested model allows extra fields.

        If one does, extra fields are not forbidden anywhere: pydantic can only forbid them for all models.
        """
        return not any(
            "properties" in part and part.get("additionalProperties", False) is not False
            for part in _definitions(self._raw_schema)
        )

    @cached_property
    def _raw_schema(self) -> JsonObject:
        simple = _simple_schema(self.signature.parameters, self.descriptions)
        if simple is not None:
            return simple
        try:
            return self._model.model_json_schema(schema_generator=PlainSchema)
        except PydanticInvalidForJsonSchema:
            pass
        culprit = self._culprit(_has_schema)
        raise wrong(f"tool {self.tool}: {culprit} has no JSON form; use a type that JSON can hold")

    @cached_property
    def _model(self) -> type[BaseModel]:
        try:
            return _model_of(self.signature.parameters, self.descriptions)
        except PydanticSchemaGenerationError:
            reason = "is of a type that is not known; use a model, a dataclass or a plain type"
        except _UNUSABLE as error:
            reason = f"cannot be used: {str(error).splitlines()[0]}"
        raise wrong(f"tool {self.tool}: {self._culprit(_has_model)} {reason}")

    def _culprit(self, works: Callable[[ToolParameter], bool]) -> str:
        """Name the first parameter that does not work by itself."""
        return next((part.name for part in self.signature.parameters if not works(part)), "a parameter")


def _model_of(parameters: tuple[ToolParameter, ...], descriptions: dict[str, str]) -> type[BaseModel]:
    # The fields have generated names, because pydantic refuses some that Python allows; the model reads and
    # writes the aliases.
    fields: dict[str, Any] = {}
    for at, parameter in enumerate(parameters):
        default = ... if parameter.default is MISSING else parameter.default
        field = Field(default, alias=parameter.name)
        if not _is_described(parameter.annotation):
            field = Field(default, alias=parameter.name, description=descriptions.get(parameter.name))
        fields[f"p{at}"] = (parameter.annotation, field)
    return create_model("Arguments", __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)


_SIMPLE: Final[Mapping[object, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _simple_schema(parameters: tuple[ToolParameter, ...], descriptions: dict[str, str]) -> JsonObject | None:
    """Return the schema that pydantic would make of the model; None if a parameter is not simple."""
    properties: JsonObject = {}
    required: list[JsonValue] = []
    for parameter in parameters:
        name, default, description = parameter.name, parameter.default, descriptions.get(parameter.name)
        kind = _SIMPLE.get(parameter.annotation) if isinstance(parameter.annotation, type) else None
        if kind is None:
            return None
        shape: JsonObject = {}
        if default is MISSING:
            required.append(name)
        elif default is None or type(default) in (bool, int):
            shape["default"] = cast("int | None", default)
        elif type(default) is str:
            shape["default"] = default
        else:
            return None
        if description is not None:
            shape["description"] = description
        properties[name] = {**shape, "type": kind}
    schema: JsonObject = {"additionalProperties": False, "properties": properties}
    return {**schema, "required": required, "type": "object"} if required else {**schema, "type": "object"}


def _is_described(annotation: object) -> bool:
    """Whether the annotation has a description, which takes precedence over the docstring."""
    return any(isinstance(part, FieldInfo) and part.description for part in get_args(annotation))


def _is_plain(annotation: object) -> bool:
    """Whether a type is known to have a JSON form, without making its schema."""
    if annotation in _PLAIN:
        return True
    origin = get_origin(annotation)
    if origin is Literal:
        return True
    return origin in _CONTAINERS and all(map(_is_plain, get_args(annotation)))


def _definitions(schema: JsonObject) -> list[JsonObject]:
    return list(cast(dict[str, JsonObject], schema.get("$defs", {})).values())


def _has_model(parameter: ToolParameter) -> bool:
    try:
        _model_of((parameter,), {})
    except _UNUSABLE:
        return False
    return True


def _has_schema(parameter: ToolParameter) -> bool:
    try:
        _model_of((parameter,), {}).model_json_schema()
    except PydanticInvalidForJsonSchema:
        return False
    return True


_GOOGLE: Final = re.compile(r"(Args|Arguments|Parameters|Params):\s*")
_SECTION: Final = re.compile(
    r"(Args|Arguments|Attributes|Examples?|Keyword Args|Keyword Arguments|Notes?|Other Parameters|Parameters"
    r"|Params|Raises|References|Returns?|See Also|Todo|Warnings?|Warns|Yields?):?\s*"
)
_DASHES: Final = re.compile(r"-{3,}\s*")
_GOOGLE_ITEM: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)")
_NUMPY_ITEM: Final = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?")
_SPHINX_ITEM: Final = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+):\s*(.*)")
_SPHINX_FIELD: Final = re.compile(r":\w+(?:\s[^:]*)?:")


@sealed
class Docstring:
    """A parsed docstring."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read_docstring(text: str | None) -> Docstring:
    """Parse a docstring; text in no known format is description."""
    lines = cleandoc(text or "").splitlines()
    about = lines[: next(_ends(lines), len(lines))]
    parameters = _google(lines) | _numpy(lines) | _sphinx(lines)
    return Docstring("\n".join(about).strip(), {name: text for name, text in parameters.items() if text})


def _ends(lines: list[str]) -> Iterator[int]:
    """Yield the lines that end the description."""
    for index, line in enumerate(lines):
        is_google = line.rstrip().endswith(":") and _SECTION.fullmatch(line)
        if is_google or _is_numpy(lines, index) or _SPHINX_FIELD.match(line):
            yield index


def _is_numpy(lines: list[str], index: int) -> bool:
    below = lines[index + 1] if index + 1 < len(lines) else ""
    return bool(_SECTION.fullmatch(lines[index]) and _DASHES.fullmatch(below))


def _google(lines: list[str]) -> dict[str, str]:
    start = next((index for index, line in enumerate(lines) if _GOOGLE.fullmatch(line)), None)
    if start is None:
        return {}
    body: list[str] = []
    for line in lines[start + 1 :]:
        if line and not line[0].isspace():
            break
        body.append(line)
    return _items(cleandoc("\n".join(["", *body])).splitlines(), _GOOGLE_ITEM)


def _sphinx(lines: list[str]) -> dict[str, str]:
    parameters: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        match = _SPHINX_ITEM.fullmatch(line)
        if match:
            current = parameters.setdefault(match[1], [match[2]])
        elif line[:1].isspace():
            current.append(line)
        else:
            current = []
    return _join_texts(parameters)


def _numpy(lines: list[str]) -> dict[str, str]:
    start = next(
        (
            index
            for index, line in enumerate(lines)
            if line.strip() == "Parameters" and _is_numpy(lines, index)
        ),
        None,
    )
    if start is None:
        return {}
    body = lines[start + 2 :]
    end = next((index for index in range(len(body)) if _is_numpy(body, index)), len(body))
    return _items(body[:end], _NUMPY_ITEM)


def _items(lines: list[str], item: re.Pattern[str]) -> dict[str, str]:
    """Parse a list of names, each with an indented text."""
    parameters: dict[str, list[str]] = {}
    current: list[list[str]] = []
    for line in lines:
        match = item.fullmatch(line) if line[:1].strip() else None
        if match:
            first = match[2] if item is _GOOGLE_ITEM else ""
            current = [parameters.setdefault(name.strip(), [first]) for name in match[1].split(",")]
        else:
            for text in current:
                text.append(line)
    return _join_texts(parameters)


def _join_texts(parameters: dict[str, list[str]]) -> dict[str, str]:
    return {name: " ".join(" ".join(texts).split()) for name, texts in parameters.items()}
