"""The data of records as classes: `msgspec` structs, generated from `spec/` into `generated/records.py`.

A body is made by the code that drafts a record, or decoded once from what is stored. Decoding checks types
and lengths; it ignores unknown fields, which the stored JSON keeps. Types that applications hold as models,
such as `ErrorInfo`, are models in a body, too.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import Any, ClassVar, Final, TypeVar

from msgspec import Raw, Struct, UnsetType, ValidationError, convert, json, to_builtins
from pydantic import BaseModel, GetCoreSchemaHandler, JsonValue, TypeAdapter
from pydantic_core import CoreSchema, core_schema, from_json

from windlass_protocol._wire import JsonObject

StructT = TypeVar("StructT", bound=Struct)


class State(Struct, frozen=True, gc=False):
    """A part of a folded state. JSON has no cycles, so the garbage collector need not look at it."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _: object, __: GetCoreSchemaHandler) -> CoreSchema:
        """Let a model or a dataclass hold the struct."""
        return core_schema.no_info_plain_validator_function(
            partial(_validate, cls), serialization=core_schema.plain_serializer_function_ser_schema(data_of)
        )


class Part(State, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An object inside a body."""


class Body(Part, frozen=True, kw_only=True):
    """The data of a record."""

    TYPE: ClassVar[str]
    """The type of the record."""


def _validate(part: type[StructT], value: Any) -> StructT:
    return value if isinstance(value, part) else read_body(part, value)


class _AnyModel(type):
    """The type of placeholders: what their models accept is an instance of them."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


def model(module: str, name: str) -> type:
    """Return a placeholder for a model, or a union of models, that is made when it is first read."""
    return _AnyModel(name, (), {"__module__": f"windlass_protocol.generated.{module}"})


@cache
def _adapter(placeholder: type) -> TypeAdapter[object]:
    return TypeAdapter(getattr(import_module(placeholder.__module__), placeholder.__name__))


def _read_model(placeholder: type, value: object) -> object:
    return _adapter(placeholder).validate_python(value, by_alias=True, by_name=False)


def _write_model(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"a body holds a value of type {type(value).__name__}, which JSON cannot carry")


class BodyError(ValueError):
    """The data of a record does not fit its type. The message carries no payload."""


@cache
def _decoder(body_type: type[StructT]) -> "json.Decoder[StructT]":
    return json.Decoder(body_type, dec_hook=_read_model)


def decode_body(body_type: type[StructT], raw: Raw | bytes) -> StructT:
    """Return a body from its JSON.

    Raises:
        BodyError: the JSON does not have that type.
    """
    try:
        return _decoder(body_type).decode(raw)
    except ValidationError:
        # Slower: reads what is unusual, and says what is wrong.
        pass
    return read_body(body_type, from_json(bytes(raw)))


def read_body(body_type: type[StructT], data: Mapping[str, object]) -> StructT:
    """Return a body from its data, independent of the data.

    Raises:
        BodyError: the data does not have that type.
    """
    copy = to_builtins(data)
    try:
        return convert(copy, body_type, dec_hook=_read_model)
    except ValidationError as error:
        problem = str(error)
    if problem.startswith(_POINT):
        # A whole number may be written as 1.0.
        with suppress(ValidationError):
            return convert(copy, body_type, strict=False, dec_hook=_read_model)
    raise _refusal(body_type, problem)


_POINT: Final = "Expected `int`, got `float`"


def _refusal(body_type: type[Struct], problem: str) -> BodyError:
    where = problem.rpartition(" - at ")[2] if " - at " in problem else "`$`"
    name = getattr(body_type, "TYPE", body_type.__name__)
    return BodyError(f"the data of {name} does not fit its type at {where}")


def or_none(value: JsonValue | UnsetType) -> JsonValue:
    """Return an optional value; None if it was left out."""
    return None if isinstance(value, UnsetType) else value


def data_of(body: Struct) -> JsonObject:
    """Return a body as JSON data, independent of the body."""
    data: JsonObject = to_builtins(body, enc_hook=_write_model)
    return data


def decode_data(raw: Raw) -> JsonObject:
    """Return the data of a record from its JSON."""
    data: JsonObject = from_json(bytes(raw))
    return data
