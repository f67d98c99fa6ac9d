"""Packages whose names are imported when they are first asked for."""

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    package: str, homes: Mapping[str, str], *, guests: Mapping[str, str] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package.

    `homes` names the module of each public name; a name that is a module of its own has itself as its home.
    `guests` are names of other packages that are public here too, with the full name of their module.
    """
    away = guests or {}

    def get(name: str) -> object:
        if name == "__all__":
            return names()
        if name in away:
            return getattr(import_module(away[name]), name)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = import_module(f"{package}.{homes[name]}")
        return home if homes[name] == name else getattr(home, name)

    def names() -> list[str]:
        return sorted({*homes, *away})

    return get, names
