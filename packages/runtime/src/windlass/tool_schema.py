"""The JSON Schema of a tool's arguments, and the validator that goes with it.

Both come from one pydantic model, made when one of them is first asked for: a quarter of a millisecond each,
which a program with a hundred tools should not pay on import. The validator is strict, as JSON Schema is: a
text is no number and a number no text, but a time, an enum or a UUID is written as a text.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import CoreSchema

from windlass.definitions import wrong
from windlass.tool_signature import MISSING, Parameter, Signature
from windlass_protocol import JsonObject

_UNUSABLE: Final = (PydanticUserError, TypeError)
"""What pydantic raises for a type, or for a constraint on one, that makes no sense."""
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
        """Say no: the name of the field is there already."""
        return False

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Say nothing of defaults that JSON cannot show: the function still has them."""


def plain_schema(schema: JsonObject) -> JsonObject:
    """Return a schema in a steady form: no class titles, `required` sorted.

    The order of `required` means nothing, and must not make another fingerprint.
    """
    for part in (schema, *_definitions(schema)):
        part.pop("title", None)
        required = part.get("required")
        if isinstance(required, list):
            part["required"] = cast(Any, sorted(cast(list[str], required)))
    return schema


@dataclass(frozen=True)
class ArgumentShape:
    """What the arguments of a tool look like."""

    tool: str
    signature: Signature
    descriptions: dict[str, str]

    def check(self) -> None:
        """See that every type has a JSON form; plain ones need no look.

        Raises:
            Rejected: one has none, or is not known.
        """
        if not all(_is_plain(parameter.annotation) for parameter in self.signature.parameters):
            _ = self.schema

    @cached_property
    def schema(self) -> JsonObject:
        """The JSON Schema of the arguments; do not change it.

        Raises:
            Rejected: a type has no JSON form.
        """
        schema = plain_schema(self._made)
        if self._is_closed:
            for part in _definitions(schema):
                if "properties" in part:
                    part.setdefault("additionalProperties", False)
        return schema

    def validate(self, raw: bytes) -> dict[str, object]:
        """Return the values of JSON arguments by name; those left out stay out.

        Raises:
            ValidationError, Unfit: they do not fit.
        """
        extra = "forbid" if self._is_closed else None
        model = self._model.__pydantic_validator__.validate_json(
            raw, strict=True, extra=extra, by_alias=True, by_name=False
        )
        given = model.model_fields_set
        names = [parameter.name for parameter in self.signature.parameters]
        return {name: getattr(model, f"p{at}") for at, name in enumerate(names) if f"p{at}" in given}

    @cached_property
    def _is_closed(self) -> bool:
        """Whether no model inside wants fields that it does not know.

        If one does, the others are left as their authors wrote them: pydantic can forbid all or none.
        """
        return not any(
            "properties" in part and part.get("additionalProperties", False) is not False
            for part in _definitions(self._made)
        )

    @cached_property
    def _made(self) -> JsonObject:
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

    def _culprit(self, works: Callable[[Parameter], bool]) -> str:
        """Name the first parameter that does not work by itself."""
        return next((part.name for part in self.signature.parameters if not works(part)), "a parameter")


def _model_of(parameters: tuple[Parameter, ...], descriptions: dict[str, str]) -> type[BaseModel]:
    # The fields have names of their own, because pydantic refuses some that Python allows; the aliases are
    # what the model reads and writes.
    fields: dict[str, Any] = {}
    for at, parameter in enumerate(parameters):
        default = ... if parameter.default is MISSING else parameter.default
        field = Field(default, alias=parameter.name)
        if not _is_described(parameter.annotation):
            field = Field(default, alias=parameter.name, description=descriptions.get(parameter.name))
        fields[f"p{at}"] = (parameter.annotation, field)
    return create_model("Arguments", __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)


def _is_described(annotation: object) -> bool:
    """Say whether the annotation has a description, which beats the docstring."""
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


def _has_model(parameter: Parameter) -> bool:
    try:
        _model_of((parameter,), {})
    except _UNUSABLE:
        return False
    return True


def _has_schema(parameter: Parameter) -> bool:
    try:
        _model_of((parameter,), {}).model_json_schema()
    except PydanticInvalidForJsonSchema:
        return False
    return True
