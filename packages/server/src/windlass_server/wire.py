"""What the bodies of requests and answers are made of."""

from functools import partial
from operator import is_
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict
from pydantic.alias_generators import to_camel

T = TypeVar("T")
Text = Annotated[str, Strict()]
Maybe = Annotated[T | None, Field(exclude_if=partial(is_, None))]
"""What is None is left out of an answer."""


class Wire(BaseModel):
    """A body: names in camelCase, nothing unknown, no guessing of types."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )


class Shown(Wire):
    """A body of an answer, which the server itself makes."""

    model_config = ConfigDict(validate_by_name=True)
