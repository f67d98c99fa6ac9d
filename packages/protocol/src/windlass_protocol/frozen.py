"""Small frozen classes that cost little: to import, and to create.

`dataclass(frozen=True)` sets each field through `object.__setattr__`, which makes an instance three times as
expensive, and compiles half a dozen methods for each class when it is imported. `frozen` classes are frozen
for the type checker alone, and their `__init__` is compiled when the first instance is created.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform, get_origin

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class of its annotated fields, as `dataclass(frozen=True, slots=True)` does.

    Fields have defaults and default factories, and nothing else. `dataclasses.replace` and
    `dataclasses.fields` work. An instance must not be changed; the type checker says so.
    """
    if any(isinstance(vars(base).get("__dataclass_fields__"), _Fields) for base in cls.__mro__[1:]):
        raise TypeError(f"{cls.__name__} extends a frozen class: repeat the fields instead")
    annotations = {
        name: kind for name, kind in vars(cls).get("__annotations__", {}).items() if not _is_class_var(kind)
    }
    names = tuple(annotations)
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    defaults = {name: body.pop(name) for name in names if name in body}
    body |= {
        "__slots__": names,
        "__match_args__": names,
        "__init__": _compile_later(names, defaults, made := list[type]()),
        "__eq__": _equals,
        "__hash__": _hash,
        "__repr__": _repr,
        "__dataclass_fields__": _Fields(annotations, defaults),
    }
    made.append(type(cls)(cls.__name__, cls.__bases__, body))
    return cast(type[T], made[0])


def _is_class_var(kind: object) -> bool:
    return kind is ClassVar or get_origin(kind) is ClassVar


def _compile_later(
    names: tuple[str, ...], defaults: dict[str, Any], owner: list[type]
) -> Callable[..., None]:
    """Return an `__init__` that replaces itself in its owner by a compiled one when it is called."""

    def init(self: object, *given: object, **more: object) -> None:
        compiled = _compiled(names, defaults)
        setattr(owner[0], "__init__", compiled)  # noqa: B010 - a plain assignment to a method is a type error
        compiled(self, *given, **more)

    return init


def _compiled(names: tuple[str, ...], defaults: dict[str, Any]) -> Callable[..., None]:
    scope: dict[str, Any] = {"_missing": MISSING}
    parameters, lines = ["self"], list[str]()
    for name in names:
        value = defaults.get(name, MISSING)
        if isinstance(value, Field):
            given = cast("Field[Any]", value)
            if given.default_factory is not MISSING:
                scope[f"_make_{name}"] = given.default_factory
                parameters.append(f"{name}=_missing")
                lines.append(f" self.{name} = _make_{name}() if {name} is _missing else {name}")
                continue
            value = given.default
        if value is not MISSING:
            scope[f"_default_{name}"] = value
        parameters.append(name if value is MISSING else f"{name}=_default_{name}")
        lines.append(f" self.{name} = {name}")
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines or [" pass"]), scope)  # noqa: S102 - names of fields
    made: Callable[..., None] = scope["__init__"]
    return made


class _Fields:
    """The fields as `dataclasses` wants them, made when they are asked for."""

    def __init__(self, annotations: dict[str, Any], defaults: dict[str, Any]) -> None:
        self._shadow = {"__annotations__": annotations, **defaults}
        self._made: dict[str, Field[Any]] | None = None

    def __get__(self, instance: object, owner: type) -> dict[str, Field[Any]]:
        if self._made is None:
            shadow = dataclass(type("_Shadow", (), dict(self._shadow)))
            self._made = cast(dict[str, Field[Any]], vars(shadow)["__dataclass_fields__"])
        return self._made


def _names(one: object) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(type(one), "__match_args__")  # noqa: B009 - not every type has them
    return names


def _values(one: object) -> tuple[Any, ...]:
    return tuple([getattr(one, name) for name in _names(one)])


def _equals(self: object, other: object) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: object) -> int:
    return hash(_values(self))


def _repr(self: object) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in _names(self))
    return f"{type(self).__qualname__}({shown})"
