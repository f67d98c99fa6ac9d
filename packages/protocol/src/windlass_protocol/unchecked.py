"""Models built from valid values without validation."""

from collections.abc import Callable
from typing import Final, TypeVar

from pydantic import BaseModel

ModelT = TypeVar("ModelT", bound=BaseModel)

_new: Final = object.__new__
# The setters of the slots themselves: `object.__setattr__` looks each of them up by name.
_put_values, _put_given, _put_extra, _put_private = (
    vars(BaseModel)[name].__set__
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)

_NO_EXTRA: Final[dict[str, object]] = {}
"""The unknown fields of all models built here: none. Wire models are frozen, so it stays empty."""


def maker(model: type[ModelT], *set_fields: str) -> Callable[..., ModelT]:
    """Return a function that builds a model of valid values; fields without one have their defaults.

    Equivalent to `model_construct` at a fraction of its cost, for code that runs for every record.
    `set_fields` are those that count as set.
    """
    defaults = {name: field.default for name, field in model.model_fields.items()}
    names = set(set_fields)

    def make(**values: object) -> ModelT:
        made = _new(model)
        _put_values(made, {**defaults, **values})
        _put_given(made, names)
        _put_extra(made, _NO_EXTRA)
        _put_private(made, None)
        return made

    return make


def changed(model: ModelT, update: dict[str, object]) -> ModelT:
    """Return a model with some fields replaced by valid values; `model_copy` at a fraction of its cost."""
    made = _new(type(model))
    _put_values(made, {**model.__dict__, **update})
    _put_given(made, {*model.__pydantic_fields_set__, *update})
    _put_extra(made, model.__pydantic_extra__)
    _put_private(made, None)
    return made
