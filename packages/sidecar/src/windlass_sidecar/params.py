"""What the parameters of methods are made of: strict about types, open to more."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

IDS_CHARS_MAX = 512

Name = Annotated[str, Field(min_length=1, max_length=IDS_CHARS_MAX)]
"""An identifier of the host."""


class Params(BaseModel):
    """Parameters by name, as camelCase; those that are not known are passed over."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, alias_generator=to_camel)


class NoParams(Params):
    """For methods that take nothing."""
