"""Dataclasses that cost little to import: `frozen`, `sealed` and `mutable`.

`dataclass` compiles half a dozen methods for each class when a module is imported, and a frozen one sets each
field through `object.__setattr__`, which makes an instance three times as expensive. The classes of this
module compile one method, `__init__`, when the first instance is created; all others are shared.

`frozen` is for data inside the library: it is frozen for the type checker alone. `sealed` is for classes that
an application holds: an assignment to a field also fails at run time. `mutable` has fields that change.
All have slots. `dataclasses.replace`, `fields` and `is_dataclass`, `copy` and `pickle` work.
"""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, MISSING, Field, FrozenInstanceError, InitVar, dataclass, field
from inspect import Signature, signature
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform, get_origin, overload

T = TypeVar("T")
_Make = Callable[[type[T]], type[T]]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class of its annotated fields, as `dataclass(frozen=True, slots=True)` does.

    An instance must not be changed; the type checker says so.
    """
    return _made(cls, {"__hash__": _hash})


@overload
def sealed(cls: type[T]) -> type[T]: ...
@overload
def sealed(*, eq: bool = True, weakref_slot: bool = False) -> _Make[T]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def sealed(cls: type[T] | None = None, *, eq: bool = True, weakref_slot: bool = False) -> type[T] | _Make[T]:
    """Make a class like `frozen`; an assignment to a field raises FrozenInstanceError, as in a dataclass."""
    methods: dict[str, object] = {
        "__hash__": _hash,
        "__setattr__": _refuse_assignment,
        "__delattr__": _refuse_deletion,
        "__getstate__": _state,
        "__setstate__": _restore,
    }

    def make(cls: type[T]) -> type[T]:
        return _made(cls, methods, eq=eq, weakref_slot=weakref_slot)

    return make if cls is None else make(cls)


@overload
def mutable(cls: type[T]) -> type[T]: ...
@overload
def mutable(*, eq: bool = True) -> _Make[T]: ...
@dataclass_transform(field_specifiers=(field,))
def mutable(cls: type[T] | None = None, *, eq: bool = True) -> type[T] | _Make[T]:
    """Make a class of its annotated fields, as `dataclass(slots=True)` does."""

    def make(cls: type[T]) -> type[T]:
        return _made(cls, {"__hash__": None}, eq=eq)

    return make if cls is None else make(cls)


def _made(
    cls: type[T], methods: dict[str, object], *, eq: bool = True, weakref_slot: bool = False
) -> type[T]:
    """Return the class again, with slots and methods; those that the class has itself are kept."""
    if any("__dataclass_fields__" in vars(base) for base in cls.__mro__[1:]):
        raise TypeError(f"{cls.__name__} extends a class with fields: repeat the fields instead")
    annotations = {
        name: kind for name, kind in vars(cls).get("__annotations__", {}).items() if not _is_class_var(kind)
    }
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    given = {name: body.pop(name) for name in annotations if name in body}
    fields = tuple(_parsed(annotations, given))
    names = tuple(one.name for one in fields if one.is_kept)
    compared = {"__eq__": _equals} if eq else {}
    if not eq:
        methods = {name: value for name, value in methods.items() if name != "__hash__"}
    body = {"__repr__": _repr, **compared, **methods, **body} | {
        "__slots__": (*names, "__weakref__") if weakref_slot else names,
        "__match_args__": tuple(one.name for one in fields if one.is_given and not one.by_name),
        "__init__": _compile_later(fields, made := list[type](), is_sealed="__setattr__" in methods),
        "__compared__": tuple(one.name for one in fields if one.is_kept and one.is_compared),
        "__shown__": tuple(one.name for one in fields if one.is_kept and one.is_shown),
        "__dataclass_fields__": _Fields(names, annotations, given),
        "__signature__": _SIGNATURE,
    }
    made.append(type(cls)(cls.__name__, cls.__bases__, body))
    return cast(type[T], made[0])


def _is_class_var(kind: object) -> bool:
    if isinstance(kind, str):
        return _head(kind) == "ClassVar"
    return kind is ClassVar or get_origin(kind) is ClassVar


def _head(kind: str) -> str:
    """Return the name of a written annotation, without its module and its arguments."""
    return kind.partition("[")[0].rpartition(".")[2].strip()


class _Parsed:
    """A field, read from its annotation and its default."""

    __slots__ = ("by_name", "default", "factory", "is_compared", "is_given", "is_kept", "is_shown", "name")

    def __init__(self, name: str, kind: object, default: object, *, by_name: bool) -> None:
        self.name = name
        self.is_kept = not isinstance(kind, InitVar)
        self.default, self.factory, self.by_name = default, cast(object, MISSING), by_name
        self.is_given = self.is_shown = self.is_compared = True
        if isinstance(default, Field):
            declared = cast("Field[object]", default)
            self.default, self.factory = declared.default, declared.default_factory
            self.is_given, self.is_shown, self.is_compared = declared.init, declared.repr, declared.compare
        if isinstance(kind, str) and _head(kind) == "InitVar":
            raise TypeError(
                f"field {name!r}: InitVar in an annotation that is a string; "
                "write the class in a module without `from __future__ import annotations`"
            )
        # As in a dataclass: a type without a hash counts as mutable.
        if self.default.__class__.__hash__ is None:
            raise ValueError(
                f"field {name!r}: a mutable default would be shared by all instances; "
                f"use field(default_factory={self.default.__class__.__name__})"
            )

    @property
    def has_default(self) -> bool:
        return self.default is not MISSING or self.factory is not MISSING


def _parsed(annotations: dict[str, object], given: dict[str, object]) -> Iterator[_Parsed]:
    by_name, optional = False, ""
    for name, kind in annotations.items():
        if kind in (KW_ONLY, "KW_ONLY"):
            by_name = True
            continue
        one = _Parsed(name, kind, given.get(name, MISSING), by_name=by_name)
        if one.is_given and not by_name:
            if optional and not one.has_default:
                raise TypeError(f"field {name!r} without a default follows {optional!r}, which has one")
            optional = name if one.has_default else ""
        yield one


def _compile_later(fields: tuple[_Parsed, ...], owner: list[type], *, is_sealed: bool) -> Callable[..., None]:
    """Return an `__init__` that replaces itself in its owner by a compiled one when it is called."""

    def init(self: object, *given: object, **more: object) -> None:
        compiled = _compiled(fields, owner[0], is_sealed=is_sealed)
        compiled.__qualname__ = f"{owner[0].__qualname__}.__init__"
        type.__setattr__(owner[0], "__init__", compiled)
        compiled(self, *given, **more)

    return init


def _compiled(fields: tuple[_Parsed, ...], owner: type, *, is_sealed: bool) -> Callable[..., None]:
    scope: dict[str, Any] = {"_missing": MISSING}
    places, names, lines = ["self"], list[str](), list[str]()
    for one in fields:
        name = value = one.name
        parameter = name
        if one.factory is not MISSING:
            scope[f"_make_{name}"] = one.factory
            parameter = f"{name}=_missing"
            value = f"_make_{name}() if {name} is _missing else {name}" if one.is_given else f"_make_{name}()"
        elif one.default is not MISSING:
            scope[f"_default_{name}"] = one.default
            parameter = f"{name}=_default_{name}"
            value = name if one.is_given else f"_default_{name}"
        elif not one.is_given:
            continue  # `__post_init__` sets it
        if one.is_given:
            (names if one.by_name else places).append(parameter)
        if one.is_kept:
            if is_sealed:
                # The setter of the slot itself: `object.__setattr__` would look it up by name.
                scope[f"_set_{name}"] = vars(owner)[name].__set__
            lines.append(f" _set_{name}(self, {value})" if is_sealed else f" self.{name} = {value}")
    if hasattr(owner, "__post_init__"):
        lines.append(f" self.__post_init__({', '.join(one.name for one in fields if not one.is_kept)})")
    head = ", ".join([*places, *(["*", *names] if names else [])])
    exec(f"def __init__({head}):\n" + "\n".join(lines or [" pass"]), scope)  # noqa: S102 - names of fields
    made: Callable[..., None] = scope["__init__"]
    return made


class _Fields:
    """The fields of a class: names at once, and as `dataclasses` wants them when they are asked for."""

    def __init__(
        self, names: tuple[str, ...], annotations: dict[str, object], given: dict[str, object]
    ) -> None:
        self.names = names
        # With a docstring: `dataclass` would make one of the signature.
        self._body = {"__annotations__": annotations, "__doc__": "Fields.", **given}
        self._made: dict[str, Field[Any]] | None = None

    def shadow(self, *, init: bool) -> type:
        """Return a dataclass with the same fields, and with methods only if `init` is set."""
        return dataclass(init=init, repr=False, eq=False)(type("_Shadow", (), dict(self._body)))

    def __get__(self, instance: object, owner: type) -> dict[str, Field[Any]]:
        if self._made is None:
            self._made = cast(dict[str, Field[Any]], vars(self.shadow(init=False))["__dataclass_fields__"])
        return self._made


class _Signature:
    """The parameters of `__init__`, which takes any until it is compiled."""

    def __get__(self, instance: object, owner: type) -> Signature:
        own = vars(owner).get("__dataclass_fields__")
        if instance is not None or not isinstance(own, _Fields):
            raise AttributeError("__signature__")
        return signature(own.shadow(init=True))


_SIGNATURE = _Signature()


def _fields(one: object) -> _Fields:
    known = (vars(cls).get("__dataclass_fields__") for cls in type(one).__mro__)
    return next(found for found in known if isinstance(found, _Fields))


def _values(one: object) -> tuple[object, ...]:
    names: tuple[str, ...] = getattr(type(one), "__compared__")  # noqa: B009 - not every type has them
    return tuple([getattr(one, name) for name in names])


def _equals(self: object, other: object) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: object) -> int:
    return hash(_values(self))


def _repr(self: object) -> str:
    names: tuple[str, ...] = getattr(type(self), "__shown__")  # noqa: B009 - not every type has them
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
    return f"{type(self).__qualname__}({shown})"


def _refuse_assignment(self: object, name: str, value: object) -> None:
    known = _fields(self)
    if vars(type(self)).get("__dataclass_fields__") is known or name in known.names:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_deletion(self: object, name: str) -> None:
    known = _fields(self)
    if vars(type(self)).get("__dataclass_fields__") is known or name in known.names:
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _state(self: object) -> list[object]:
    return [getattr(self, name) for name in _fields(self).names]


def _restore(self: object, state: list[object]) -> None:
    for name, value in zip(_fields(self).names, state, strict=True):
        object.__setattr__(self, name, value)
