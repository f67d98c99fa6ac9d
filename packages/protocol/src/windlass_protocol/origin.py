"""Whether the package `windlass` is ours: a distribution of others has the same import name."""

from types import ModuleType
from typing import Final

DISTRIBUTION: Final = "windlass-runtime"
"""The distribution that brings our package `windlass`; it is written in `windlass.__distribution__`."""


def check_origin(windlass: ModuleType, version: str) -> None:
    """Refuse a package `windlass` that another distribution wrote over, or took files from.

    Packages that import the runtime call this before they use it: `pip` installs one over the other
    without a word, and the first error would be about a name that is missing.

    Raises:
        ImportError: the package is not that of `windlass-runtime`.
    """
    if getattr(windlass, "__distribution__", None) == DISTRIBUTION:
        return
    raise ImportError(
        f"the package windlass in {', '.join(windlass.__path__)} is not that of {DISTRIBUTION}: another "
        "distribution, called windlass, was installed over it, or was removed with files of ours. Run: "
        f"pip uninstall -y windlass, then: pip install --force-reinstall --no-deps {DISTRIBUTION}=={version}",
        name="windlass",
    )
