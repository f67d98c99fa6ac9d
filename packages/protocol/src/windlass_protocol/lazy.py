"""Names that are imported, made or compiled on first use."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import AnyStr, Final, cast


def lazy_names(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package.

    `homes` lists the public names of each module. A module that is public itself is a name of its package.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> object:
        if name == "__all__":
            return names()
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = home_of[name]
        return import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)

    def names() -> list[str]:
        return sorted(home_of)

    return get, names


def lazy_values(
    module: dict[str, object], makers: Mapping[str, Callable[[], object]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a module that makes its values when they are asked for.

    `module` is its `globals()`, which keeps each value. Threads that ask at the same time get the same value.
    """

    def get(name: str) -> object:
        if name not in makers:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        return module.setdefault(name, makers[name]())

    def names() -> list[str]:
        return sorted({*module, *makers})

    return get, names


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression that is compiled when it is first used.

    The functions of `re` do not take it: call its methods.
    """
    return cast("re.Pattern[AnyStr]", _Uncompiled(partial(re.compile, pattern, flags)))


class _Compiled:
    """A pattern that was used: its methods are those of the compiled one."""

    def __repr__(self) -> str:
        return f"lazy_pattern({getattr(self, 'pattern')!r})"  # noqa: B009 - set when it is compiled


class _Uncompiled(_Compiled):
    def __init__(self, compiled: Callable[[], object]) -> None:
        self._compiled = compiled

    def __getattr__(self, name: str) -> object:
        if name not in _METHODS:
            raise AttributeError(f"a pattern has no attribute {name!r}")
        compiled = self._compiled()
        vars(self).update({method: getattr(compiled, method) for method in _METHODS})
        # Without `__getattr__` in its class, an attribute costs as much as that of any other object.
        object.__setattr__(self, "__class__", _Compiled)
        return vars(self)[name]


_METHODS: Final = frozenset(
    {
        "findall",
        "finditer",
        "flags",
        "fullmatch",
        "groupindex",
        "groups",
        "match",
        "pattern",
        "search",
        "split",
        "sub",
        "subn",
    }
)
