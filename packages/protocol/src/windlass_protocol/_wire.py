"""Building blocks of the generated models.

They enforce the schema in the same way as the TypeScript twin: integers are those that both languages can
hold, an optional field may be absent but not null, and no type is coerced to a string.
"""

from collections.abc import Iterator, Mapping, Sized
from functools import partial
from importlib import import_module
from operator import is_
from typing import Annotated, Final, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    SerializerFunctionWrapHandler,
    Strict,
    ValidationInfo,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema, to_json

T = TypeVar("T")
JsonObject = dict[str, JsonValue]
"""A JSON object: texts as keys, any JSON as values."""


class _Absent:
    """An optional field: it may be left out, but null on the wire is an error.

    Python callers may pass None to leave it out; only strict validation, which the codec uses, refuses None.
    """

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        nullable = handler(source)
        assert nullable["type"] == "nullable"
        return core_schema.lax_or_strict_schema(lax_schema=nullable, strict_schema=nullable["schema"])


class Whole:
    """An integer within bounds, also when written as 1.0."""

    def __init__(self, minimum: int, maximum: int) -> None:
        self.minimum = minimum
        self.maximum = maximum

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        whole = core_schema.int_schema(strict=True, ge=self.minimum, le=self.maximum)
        number = core_schema.float_schema(strict=True, allow_inf_nan=False)
        # Not `multiple_of=1`, which accepts 0.9999999999999999 as a whole number.
        from_float = core_schema.chain_schema(
            [core_schema.no_info_after_validator_function(_without_fraction, number), whole]
        )
        return core_schema.union_schema(
            [whole, from_float],
            mode="left_to_right",
            custom_error_type="whole_number",
            custom_error_message="Expected an integer from {minimum} to {maximum}",
            custom_error_context={"minimum": self.minimum, "maximum": self.maximum},
        )


def _without_fraction(number: float) -> int:
    if not number.is_integer():
        raise ValueError
    return int(number)


class OnlyBool:
    """A boolean constant; Python treats 1 as equal to true, the wire does not."""

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.chain_schema([core_schema.bool_schema(strict=True), handler(source)])


class Says:
    """Names the expected format of a string instead of its pattern."""

    def __init__(self, form: str) -> None:
        self.form = form

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(source),
            custom_error_type="text_form",
            custom_error_message="Expected {form}",
            custom_error_context={"form": self.form},
        )


Maybe = Annotated[T | None, _Absent(), Field(exclude_if=partial(is_, None))]
Str = Annotated[str, Strict()]
Bool = Annotated[bool, Strict()]
Float = Annotated[float, Strict(), Field(allow_inf_nan=False)]


def wire_name(name: str) -> str:
    """Return the name of a field on the wire; several times as fast as `to_camel` of pydantic."""
    first, *others = name.split("_")
    return first + "".join([word.capitalize() for word in others])


CONTENT_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "SystemMessage": frozenset({"content", "provider_options"}),
    "UserMessage": frozenset({"content", "provider_options"}),
    "AssistantMessage": frozenset({"content", "provider_options"}),
    "ToolMessage": frozenset({"content", "provider_options"}),
    "TextPart": frozenset({"text", "provider_options"}),
    "ReasoningPart": frozenset({"text", "provider_options"}),
    "ImagePart": frozenset({"image", "provider_options"}),
    "FilePart": frozenset({"data", "filename", "provider_options"}),
    "ToolCallPart": frozenset({"input", "provider_options"}),
    "ToolResultPart": frozenset({"provider_options"}),
    "ToolOutput": frozenset({"value", "reason"}),
    "ApprovalResponsePart": frozenset({"reason"}),
    "ToolCall": frozenset({"arguments"}),
    "RunRequest": frozenset({"input", "context", "metadata", "goal_description"}),
}
"""Fields, by type, that hold what people, models and tools said; `repr` shows their sizes only."""


class _Size:
    """Stands for a value in a `repr`."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        value = self._value
        if isinstance(value, str):
            return f"<{len(value)} characters>"
        return f"<{len(value)} items>" if isinstance(value, Sized) else "<…>"


class Closed(BaseModel):
    """A wire type that refuses unknown fields.

    Its attributes cannot be set. Dictionaries inside it, such as `data`, are plain and must not be changed:
    frozen ones would make reading and writing a record about 40 % slower.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=wire_name,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        protected_namespaces=(),
        allow_inf_nan=False,
        hide_input_in_errors=True,
        defer_build=True,
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        """Return the fields to show: the content of messages must not reach logs and tracebacks."""
        hidden = CONTENT_FIELDS.get(type(self).__name__, frozenset())
        for name, value in super().__repr_args__():
            yield name, _Size(value) if name in hidden and value is not None else value


class Open(Closed):
    """A wire type that keeps unknown fields."""

    model_config = ConfigDict(extra="allow")


class KeepsNulls(BaseModel):
    """Distinguishes an explicit null from an absent field."""

    model_config = ConfigDict(defer_build=True)

    @model_serializer(mode="wrap")
    def _omit_what_was_left_out(self, handler: SerializerFunctionWrapHandler) -> JsonObject:
        fields = type(self).model_fields
        body: JsonObject = handler(self)
        for name in fields.keys() - self.model_fields_set:
            if not fields[name].is_required() and getattr(self, name) is None:
                body.pop(fields[name].serialization_alias or name, None)
        return body


class Tagged(BaseModel):
    """Requires the fields of `__constants__` on the wire; Python code may leave them out."""

    model_config = ConfigDict(defer_build=True)

    __constants__: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _has_its_constants(self, info: ValidationInfo) -> Self:
        missing = [name for name in self.__constants__ if name not in self.model_fields_set]
        if missing and info.mode == "json":
            raise PydanticCustomError("constant", "expected {names}", {"names": ", ".join(missing)})
        return self


class ExactlyOne(BaseModel):
    """Requires exactly one of the fields in `__exactly_one_of__`."""

    model_config = ConfigDict(defer_build=True)

    __exactly_one_of__: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _has_exactly_one(self) -> Self:
        present = [name for name in self.__exactly_one_of__ if self._is_given(name)]
        if len(present) != 1:
            raise PydanticCustomError(
                "exactly_one",
                "expected exactly one of {names}, found {count}",
                {"names": ", ".join(self.__exactly_one_of__), "count": len(present)},
            )
        return self

    def _is_given(self, name: str) -> bool:
        """Return whether the field is written to the wire; a null may or may not be."""
        if getattr(self, name) is not None:
            return True
        return name in self.model_fields_set and type(self).model_fields[name].exclude_if is None


class EventModels(Mapping[str, type[BaseModel]]):
    """The models of the data of events, by event type; each is made on first use."""

    def __init__(self, module: str, names: Mapping[str, str]) -> None:
        self._module = module
        self._names = names
        self._models: dict[str, type[BaseModel]] = {}

    def __getitem__(self, event_type: str) -> type[BaseModel]:
        model = self._models.get(event_type)
        if model is None:
            model = getattr(import_module(self._module), self._names[event_type])
            self._models[event_type] = model
        return model

    def __contains__(self, event_type: object) -> bool:
        return event_type in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


TRUSTED: Final = object()
"""The validation context for input that this library wrote and validated before."""


def check_data(shapes: Mapping[str, type[BaseModel]], data: JsonObject, info: ValidationInfo) -> JsonObject:
    """Return `data` if it fits the schema of its event type, or if the type has none.

    It is stored in wire form, so the wire rules apply also to data from Python code.
    """
    shape = None if info.context is TRUSTED else shapes.get(str(info.data.get("type")))
    if shape is not None:
        shape.__pydantic_validator__.validate_json(to_json(data), strict=True, by_alias=True, by_name=False)
    return data
