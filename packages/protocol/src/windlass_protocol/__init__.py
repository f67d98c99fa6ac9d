"""Wire types of Windlass, and the strict codec that reads and writes them.

The types are generated from JSON Schema; each module of them is imported
when one of its names is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from windlass_protocol.generated import MODULE_OF

if TYPE_CHECKING:
    from windlass_protocol.generated import *

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name not in MODULE_OF:
        raise AttributeError(f"module 'windlass_protocol' has no attribute {name!r}")
    value: object = getattr(import_module(f"windlass_protocol.generated.{MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *MODULE_OF})
