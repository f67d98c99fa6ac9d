"""Names that are imported or made on first use."""

from collections.abc import Callable, Mapping
from importlib import import_module


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
