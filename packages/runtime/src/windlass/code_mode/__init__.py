"""The interpreter of the Python programs that models write.

It needs the extra `windlass-runtime[code]`, which is imported when the first program runs.
"""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.code_mode.monty import MontyInterpreter as MontyInterpreter

_HOMES = {"windlass.code_mode.monty": ("MontyInterpreter",)}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
