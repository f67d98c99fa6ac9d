"""Dataclasses that cost little to import: `frozen`, `sealed` and `mutable`.

`dataclass` compiles half a dozen methods for each class when a module is imported, and a frozen one sets each
field through `object.__setattr__`, which makes an instance three times as expensive. The classes of this
module compile one method, `__init__`, when the first instance is created; all others are shared.

`frozen` is for data inside the library: it is frozen for the type checker alone. `sealed` is for classes that
an application holds: an assignment to a field also fails at run time. `mutable` has fields that change.
All have slots. `dataclasses.replace`, `fields` and `is_dataclass`, `copy` and `pickle` work.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, MISSING, Field, FrozenInstanceError, InitVar, dataclass, field
from difflib import get_close_matches
from functools import partial
from inspect import Signature, signature
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform, get_origin, overload

T = TypeVar("T")
_Make = Callable[[type[T]], type[T]]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class of its annotated fields, as `dataclass(frozen=True, slots=True)` does.

    An instance must not be changed; the type checker says so.
    """
    return _make_class(cls, {"__hash__": _hash})


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
        return _make_class(cls, methods, eq=eq, weakref_slot=weakref_slot)

    return make if cls is None else make(cls)


@overload
def mutable(cls: type[T]) -> type[T]: ...
@overload
def mutable(*, eq: bool = True) -> _Make[T]: ...
@dataclass_transform(field_specifiers=(field,))
def mutable(cls: type[T] | None = None, *, eq: bool = True) -> type[T] | _Make[T]:
    """Make a class of its annotated fields, as `dataclass(slots=True)` does."""

    def make(cls: type[T]) -> type[T]:
        return _make_class(cls, {"__hash__": None}, eq=eq)

    return make if cls is None else make(cls)


def _make_class(
    cls: type[T], methods: dict[str, object], *, eq: bool = True, weakref_slot: bool = False
) -> type[T]:
    """Return the class again, with slots and methods; those that the class has itself are kept."""
    if any("__dataclass_fields__" in vars(base) for base in cls.__mro__[1:]):
        raise TypeError(f"{cls.__name__} extends a class with fields: repeat the fields instead")
    annotations = {
        name: kind for name, kind in vars(cls).get("__annotations__", {}).items() if not _is_class_var(kind)
    }
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    defaults = {name: body.pop(name) for name in annotations if name in body}
    fields = tuple(_read_fields(annotations, defaults))
    names = tuple(spec.name for spec in fields if spec.is_kept)
    compared = {"__eq__": _equals} if eq else {}
    if not eq:
        methods = {name: value for name, value in methods.items() if name != "__hash__"}
    body = {"__repr__": _repr, **compared, **methods, **body} | {
        "__slots__": (*names, "__weakref__") if weakref_slot else names,
        "__match_args__": tuple(spec.name for spec in fields if spec.is_given and not spec.by_name),
        "__init__": _compile_later(fields, owners := list[type](), is_sealed="__setattr__" in methods),
        "__compared__": tuple(spec.name for spec in fields if spec.is_kept and spec.is_compared),
        "__shown__": tuple(spec.name for spec in fields if spec.is_kept and spec.is_shown),
        "__dataclass_fields__": _Fields(names, annotations, defaults),
        "__signature__": _SIGNATURE,
    }
    owners.append(type(cls)(cls.__name__, cls.__bases__, body))
    return cast(type[T], owners[0])


def _is_class_var(kind: object) -> bool:
    if isinstance(kind, str):
        return _head(kind) == "ClassVar"
    return kind is ClassVar or get_origin(kind) is ClassVar


def _head(kind: str) -> str:
    """Return the name of a written annotation, without its module and its arguments."""
    return kind.partition("[")[0].rpartition(".")[2].strip()


class _FieldSpec:
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


def _read_fields(annotations: dict[str, object], defaults: dict[str, object]) -> Iterator[_FieldSpec]:
    by_name, optional = False, ""
    for name, kind in annotations.items():
        if kind in (KW_ONLY, "KW_ONLY"):
            by_name = True
            continue
        spec = _FieldSpec(name, kind, defaults.get(name, MISSING), by_name=by_name)
        if spec.is_given and not by_name:
            if optional and not spec.has_default:
                raise TypeError(f"field {name!r} without a default follows {optional!r}, which has one")
            optional = name if spec.has_default else ""
        yield spec


def _compile_later(
    fields: tuple[_FieldSpec, ...], owner: list[type], *, is_sealed: bool
) -> Callable[..., None]:
    """Return an `__init__` that replaces itself in its owner by a compiled one when it is called."""

    def init(self: object, *args: object, **kwargs: object) -> None:
        compiled = _compile_init(fields, owner[0], is_sealed=is_sealed)
        compiled.__qualname__ = f"{owner[0].__qualname__}.__init__"
        type.__setattr__(owner[0], "__init__", compiled)
        compiled(self, *args, **kwargs)

    return init


def _compile_init(fields: tuple[_FieldSpec, ...], owner: type, *, is_sealed: bool) -> Callable[..., None]:
    scope: dict[str, Any] = {"_missing": MISSING}
    positional, names, lines = ["self"], list[str](), list[str]()
    for spec in fields:
        name = value = spec.name
        parameter = name
        if spec.factory is not MISSING:
            scope[f"_make_{name}"] = spec.factory
            parameter = f"{name}=_missing"
            value = (
                f"_make_{name}() if {name} is _missing else {name}" if spec.is_given else f"_make_{name}()"
            )
        elif spec.default is not MISSING:
            scope[f"_default_{name}"] = spec.default
            parameter = f"{name}=_default_{name}"
            value = name if spec.is_given else f"_default_{name}"
        elif not spec.is_given:
            continue  # `__post_init__` sets it
        if spec.is_given:
            (names if spec.by_name else positional).append(parameter)
        if spec.is_kept:
            if is_sealed:
                # The setter of the slot itself: `object.__setattr__` would look it up by name.
                scope[f"_set_{name}"] = vars(owner)[name].__set__
            lines.append(f" _set_{name}(self, {value})" if is_sealed else f" self.{name} = {value}")
    if hasattr(owner, "__post_init__"):
        init_names = [init_var.name for init_var in fields if not init_var.is_kept]
        lines.append(f" self.__post_init__({', '.join(init_names)})")
    if is_sealed:
        # An application writes these names: a wrong one gets the nearest.
        scope["_unknown_fields"] = partial(_unknown_fields, owner)
        lines.insert(0, " if _unknown: raise _unknown_fields(_unknown)")
    head = ", ".join([*positional, *(["*", *names] if names else []), *(["**_unknown"] if is_sealed else [])])
    exec(f"def __init__({head}):\n" + "\n".join(lines or [" pass"]), scope)  # noqa: S102 - names of fields
    init: Callable[..., None] = scope["__init__"]
    return init


def closest_name(unknown: str, names: Sequence[str]) -> str | None:
    """Return the name that was probably meant: one that begins like it, or one that is spelt like it."""
    longer = [name for name in names if len(unknown) > 1 and name.startswith(unknown)]
    return next(iter(longer or get_close_matches(unknown, names, n=1)), None)


def _unknown_fields(owner: type, values: dict[str, object]) -> TypeError:
    """Return the error for keywords that are no fields; it names the first."""
    names, unknown = [*signature(owner).parameters], next(iter(values))
    close = closest_name(unknown, names)
    hint = f"it takes {', '.join(names)}" if close is None else f"did you mean {close}?"
    return TypeError(f"{owner.__name__} has no field {unknown}; {hint}")


class _Fields:
    """The fields of a class: names at once, and as `dataclasses` wants them when they are asked for."""

    def __init__(
        self, names: tuple[str, ...], annotations: dict[str, object], defaults: dict[str, object]
    ) -> None:
        self.names = names
        # With a docstring: `dataclass` would make one of the signature.
        self._body = {"__annotations__": annotations, "__doc__": "Fields.", **defaults}
        self._fields: dict[str, Field[Any]] | None = None

    def shadow(self, *, init: bool) -> type:
        """Return a dataclass with the same fields, and with methods only if `init` is set."""
        return dataclass(init=init, repr=False, eq=False)(type("_Shadow", (), dict(self._body)))

    def __get__(self, instance: object, owner: type) -> dict[str, Field[Any]]:
        if self._fields is None:
            self._fields = cast(dict[str, Field[Any]], vars(self.shadow(init=False))["__dataclass_fields__"])
        return self._fields


class _Signature:
    """The parameters of `__init__`, which takes any until it is compiled."""

    def __get__(self, instance: object, owner: type) -> Signature:
        own = vars(owner).get("__dataclass_fields__")
        if instance is not None or not isinstance(own, _Fields):
            raise AttributeError("__signature__")
        return signature(own.shadow(init=True))


_SIGNATURE = _Signature()


def _fields(instance: object) -> _Fields:
    tables = (vars(cls).get("__dataclass_fields__") for cls in type(instance).__mro__)
    return next(table for table in tables if isinstance(table, _Fields))


def _values(instance: object) -> tuple[object, ...]:
    names: tuple[str, ...] = getattr(type(instance), "__compared__")  # noqa: B009 - not every type has them
    return tuple([getattr(instance, name) for name in names])


def _equals(self: object, other: object) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: object) -> int:
    return hash(_values(self))


def _repr(self: object) -> str:
    names: tuple[str, ...] = getattr(type(self), "__shown__")  # noqa: B009 - not every type has them
    pairs = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
    return f"{type(self).__qualname__}({pairs})"


def _refuse_assignment(self: object, name: str, value: object) -> None:
    fields = _fields(self)
    if vars(type(self)).get("__dataclass_fields__") is fields or name in fields.names:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_deletion(self: object, name: str) -> None:
    fields = _fields(self)
    if vars(type(self)).get("__dataclass_fields__") is fields or name in fields.names:
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _state(self: object) -> list[object]:
    return [getattr(self, name) for name in _fields(self).names]


def _restore(self: object, state: list[object]) -> None:
    for name, value in zip(_fields(self).names, state, strict=True):
        object.__setattr__(self, name, value)
